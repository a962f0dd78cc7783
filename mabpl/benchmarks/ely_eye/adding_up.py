"""How ely-eye's metrics add up over queries: the one place that knows.

Every metric but the latencies is a sum over the queries that it applies to, divided by their number (`applicable`) or
by the number of all queries of the slice (`all`). Gates compare unrounded values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from mabpl.benchmarks.ely_eye.options import ElyOptions
from mabpl.stats import bootstrap
from mabpl.tables.ely_scores import SCORES

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

SLICES = ("all", "modality", "scenario", "holder")
GATED_SLICES = ("all", "modality")
GATES = {
    "recall@10": ("least", 0.90),
    "false_recall": ("most", 0.10),
    "temporal": ("least", 0.95),
    "holder": ("least", 0.95),
}
"""Section 4 of the annotation schema; both ends count as kept."""

_WHOLE = {"excluded": "", "counted": "_whole"}
_MOST_CELLS = 4_000_000
_FEW = 64
"""Latencies that are counted one after another; more of them are searched by halves."""


class Reading(NamedTuple):
    """One metric under one reading: what stands in the options' columns of `ely_scores`."""

    metric: str
    recall_unit: str | None = None
    whole_source: str | None = None
    cross_holder: str | None = None


@dataclass(frozen=True, slots=True)
class Measure:
    """``value`` of each query where ``applies`` holds: expressions over `ely_query_scores`."""

    reading: Reading
    value: pl.Expr
    applies: pl.Expr


def _measures() -> Iterator[Measure]:
    answerable = ~pl.col("unanswerable")
    for whole, suffix in _WHOLE.items():
        for unit, hit, of in (
            ("region", f"regions_hit{suffix}", "gold_regions"),
            ("atom", f"atoms_hit{suffix}", f"gold_atoms{suffix}"),
        ):
            yield Measure(Reading("recall@10", unit, whole), pl.col(hit) / pl.col(of), answerable)
    for whole, suffix in _WHOLE.items():
        yield Measure(Reading("mrr", None, whole), (1 / pl.col(f"first_hit{suffix}")).fill_null(0.0), answerable)
    for whole, suffix in _WHOLE.items():
        yield Measure(Reading("ndcg@10", None, whole), pl.col(f"ndcg{suffix}"), answerable)
    yield Measure(Reading("false_recall"), pl.col("strong"), pl.col("unanswerable"))
    yield Measure(Reading("temporal"), ~pl.col("future"), pl.col("timed"))
    for kind, applies in (("possible", "others"), ("asked", "asked")):
        yield Measure(Reading("holder", None, None, kind), ~pl.col("leaked"), pl.col(applies))


MEASURES = tuple(_measures())
LATENCIES = {
    f"{temperature}_p{percent}": (column, percent / 100)
    for column, temperature in enumerate(("cold", "warm"))
    for percent in (50, 95)
}
"""Metric: the column of ``Part.latency`` that it is a quantile of, and which."""

METRICS = tuple(dict.fromkeys([*(measure.reading.metric for measure in MEASURES), *LATENCIES]))
DENOMINATORS = ("applicable", "all")


@dataclass(frozen=True, slots=True)
class Parts:
    """The queries of slices, one slice (part) after another, as arrays.

    ``values``, ``applies``: (queries, measures), 0 where a measure does not apply. ``latency``: (queries, 2), cold and
    warm, NaN where there is none. ``part``: (queries,) ascending. ``cluster``: (queries,) from 0 to ``clusters`` of the
    part. ``clusters``: (parts,).
    """

    values: Floats
    applies: Floats
    latency: Floats
    part: Integers
    cluster: Integers
    clusters: Integers

    @classmethod
    def of(cls, rows: pl.DataFrame, by: Sequence[str]) -> tuple[list[tuple[str, str | None]], Parts]:
        """``rows``: `ely_query_scores` of one run, by query_id. Slice and value of each part, and the parts."""
        keys, places = zip(*slices_of(rows, by), strict=True) if by else ((), ())
        at = np.concatenate([np.zeros(0, np.int64), *places])
        part = np.repeat(np.arange(len(keys)), list(map(len, places)))
        names, named = np.unique(rows["cluster"].to_numpy(), return_inverse=True)
        cells, cell = np.unique(part * len(names) + named[at], return_inverse=True)
        clusters = np.bincount(cells // max(len(names), 1), minlength=len(keys))
        columns = rows.select(
            *(
                pl.when(m.applies).then(m.value.cast(pl.Float64)).otherwise(0.0).alias(f"v{i}")
                for i, m in enumerate(MEASURES)
            ),
            *(m.applies.cast(pl.Float64).alias(f"a{i}") for i, m in enumerate(MEASURES)),
        ).to_numpy()
        values, applies = columns[at, : len(MEASURES)], columns[at, len(MEASURES) :]
        latency = rows.select(pl.col("cold_s", "warm_s").cast(pl.Float64)).to_numpy()[at]
        return list(keys), cls(values, applies, latency, part, cell - _starts(clusters)[part], clusters)

    @classmethod
    def joined(cls, several: Sequence[Parts]) -> Parts:
        """The parts of all, one after another."""
        before = np.cumsum([0, *(len(parts.clusters) for parts in several)])
        part = np.concatenate([parts.part + first for parts, first in zip(several, before[:-1], strict=True)])
        names = ("values", "applies", "latency", "cluster", "clusters")
        columns = {name: np.concatenate([getattr(parts, name) for parts in several]) for name in names}
        return cls(part=part, **columns)

    def by_cluster(self) -> tuple[Floats, Floats]:
        """Numerators and denominators, float64 (clusters of all parts, measures x denominators): measures by
        `applicable`, then by `all`."""
        applied = _summed(self.part, self.applies, len(self.clusters)) > 0
        above = np.hstack([self.values, self.values])
        below = np.hstack([self.applies, applied[self.part]])
        cell, cells = self.cluster + _starts(self.clusters)[self.part], int(self.clusters.sum())
        return _summed(cell, above, cells), _summed(cell, below, cells)

    def point(self) -> tuple[Floats, Floats, Floats]:
        """Of each part totals, numbers of queries that each measure applies to (parts, measures), and values (parts,
        measures x denominators, latencies)."""
        count = len(self.clusters)
        totals, n = (_summed(self.part, columns, count) for columns in (self.values, self.applies))
        every = np.bincount(self.part, minlength=count)[:, None]
        ratios = bootstrap.divided(np.hstack([totals, totals]), np.hstack([n, np.where(n > 0, every, 0)]))
        once = np.ones((1, int(self.clusters.max(initial=0))))
        return totals, n, np.hstack([ratios, latencies(self.ordered(), np.arange(count), once)[0]])

    def ordered(self) -> tuple[Ordered, ...]:
        """The latencies, cold and warm."""
        return tuple(self._ordered(column) for column in (0, 1))

    def _ordered(self, column: int) -> Ordered:
        known = np.flatnonzero(~np.isnan(self.latency[:, column]))
        order = known[np.lexsort((self.latency[known, column], self.part[known]))]
        lengths = np.bincount(self.part[order], minlength=len(self.clusters))
        return Ordered(self.latency[order, column], self.cluster[order], lengths)


class Ordered(NamedTuple):
    """Latencies that there are, ascending in each part, the cluster of each, and how many each part has."""

    seconds: Floats
    cluster: Integers
    lengths: Integers


def _starts(counts: Integers) -> Integers:
    return np.cumsum(counts) - counts


def _summed(group: Integers, columns: npt.NDArray[Any], groups: int) -> Floats:
    """Sums of the rows of each group, in their order: float64 (groups, columns)."""
    width = columns.shape[1]
    flat = (group[:, None] * width + np.arange(width)).ravel()
    return np.bincount(flat, columns.ravel(), groups * width).astype(np.float64).reshape(groups, width)


def latencies(ordered: Sequence[Ordered], members: Integers, weights: Floats) -> Floats:
    """The latencies' quantiles of parts under each row of ``weights`` (draws, clusters): float64 (draws, members,
    latencies)."""
    drawn = np.full((len(LATENCIES), len(members), len(weights)), np.nan)
    times = weights.astype(np.int32).T.copy()
    for column, (seconds, cluster, lengths) in enumerate(ordered):
        wanted = [i for i, (of, _) in enumerate(LATENCIES.values()) if of == column]
        quantiles = [q for of, q in LATENCIES.values() if of == column]
        starts = _starts(lengths)
        for length in np.unique(lengths[members]).tolist():
            alike = np.flatnonzero(lengths[members] == length)
            for some, draws in _blocks(len(alike) if length else 0, len(weights), length):
                places = starts[members[alike[some]], None] + np.arange(length)
                found = weighted_quantiles(seconds[places], times[:, draws][cluster[places]], quantiles)
                drawn[np.array(wanted)[:, None], alike[some], draws] = found
    return np.moveaxis(drawn, 2, 0).swapaxes(1, 2)


def _blocks(rows: int, draws: int, length: int) -> Iterator[tuple[slice, slice]]:
    """Rows and draws, so many at a time that rows x draws x ``length`` is bounded."""
    most = max(1, _MOST_CELLS // max(length, 1))
    draws_at_once = min(draws, most)
    rows_at_once = max(1, most // max(draws_at_once, 1))
    for row in range(0, rows, rows_at_once):
        for draw in range(0, draws, draws_at_once):
            yield slice(row, row + rows_at_once), slice(draw, draw + draws_at_once)


def weighted_quantiles(values: Floats, times: npt.NDArray[Any], quantiles: Sequence[float]) -> Floats:
    """Quantiles of repeated ``values`` (rows, values; ascending), linearly interpolated: float64 (quantiles, rows,
    draws).

    ``times`` (rows, values, draws; whole numbers): how often a draw holds each value; overwritten. NaN where it holds
    none.
    """
    for i in range(1, times.shape[1]):  # along the middle axis, where numpy's own sum is slow
        times[:, i] += times[:, i - 1]
    total = times[:, -1]
    last = np.maximum(total - 1, 0)
    place = np.multiply.outer(quantiles, last.astype(np.float64))
    below = np.floor(place).astype(times.dtype)
    found = _not_above(times, np.stack([below, np.minimum(below + 1, last)]))
    row = np.arange(len(values))[:, None]
    low, high = values[row, np.minimum(found, values.shape[1] - 1)]
    between: Floats = np.where(total > 0, low + (high - low) * (place - below), np.nan)
    return between


def _not_above(upto: npt.NDArray[Any], wanted: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """How many of ``upto`` (rows, values, draws; ascending along the values) are not above ``wanted`` (..., rows,
    draws)."""
    rows, length, draws = upto.shape
    if length < _FEW:
        few = np.zeros(wanted.shape, np.uint8)
        for i in range(length):
            few += (upto[:, i] <= wanted).view(np.uint8)
        return few
    first = np.arange(rows)[:, None] * (length * draws) + np.arange(draws)
    flat = upto.ravel()
    count = np.zeros(wanted.shape, np.int64)
    for bit in reversed(range(length.bit_length())):
        more = count + (1 << bit)
        held = flat[first + (np.minimum(more, length) - 1) * draws] <= wanted
        count = np.where(held & (more <= length), more, count)
    return count


def intervals(
    sides: Sequence[Parts], level: float = 0.95, replicates: int = bootstrap.REPLICATES
) -> tuple[Floats, Floats]:
    """Bounds of each part, both float64 (parts, values): of the values of one side, or of the first less the second.

    Clusters are drawn with replacement, all queries of one together, and both sides by the same draw. Parts with the
    same number of clusters share their draws. NaN where there is one cluster, or no value.
    """
    clusters = sides[0].clusters
    width = 2 * len(MEASURES) + len(LATENCIES)
    low, high = np.full((2, len(clusters), width), np.nan)
    at_once = max(1, 2 * _MOST_CELLS // (replicates * width))
    sums = [side.by_cluster() for side in sides]
    ordered = [side.ordered() for side in sides]
    for count in np.unique(clusters[clusters > 1]).tolist():
        every = np.flatnonzero(clusters == count)
        for first in range(0, len(every), at_once):
            members = every[first : first + at_once]
            cells = _starts(clusters)[members, None] + np.arange(count)
            low[members], high[members] = _bounds(sums, ordered, members, cells, level, replicates)
    return low, high


def _bounds(
    sums: list[tuple[Floats, Floats]], ordered: list[tuple[Ordered, ...]], members: Integers, cells: Integers,
    level: float, replicates: int,
) -> tuple[Floats, Floats]:  # fmt: skip
    """Lower and upper bounds, each float64 (members, values), of parts with the same number of clusters: their
    ``cells`` (members, clusters) in the sums."""
    clusters = cells.shape[1]
    halves = [half[cells].swapaxes(0, 1).reshape(clusters, -1) for of_side in sums for half in of_side]
    # Small slices have many columns that are equal: each is drawn once.
    distinct, place = np.unique(np.vstack(halves), axis=1, return_inverse=True)
    drawn = _replicates(np.split(distinct, len(halves)), ordered, members, replicates)
    values = np.concatenate([*drawn])
    empty = np.isnan(values).all(axis=0)
    both = np.stack(bootstrap.percentile_interval(np.where(empty, 0.0, values), level))
    both[:, empty] = np.nan
    ratios = both[:, place.ravel()].reshape(2, len(members), -1)
    times = both[:, distinct.shape[1] :].reshape(2, len(members), -1)
    low, high = np.concatenate([ratios, times], axis=2)
    return low, high


def _replicates(
    halves: list[Floats], ordered: list[tuple[Ordered, ...]], members: Integers, replicates: int
) -> Iterator[Floats]:
    """Draws, a part of them at a time: float64 (draws, columns of ``halves``, then the latencies of each member).

    ``halves``: numerators and denominators of the first side, then of the second where there is one.
    """
    clusters = len(halves[0])
    at_once = max(1, min(replicates, _MOST_CELLS // clusters))
    for number, start in enumerate(range(0, replicates, at_once)):
        weights = bootstrap.clip_weights(clusters, min(at_once, replicates - start), stratum=number)
        drawn = []
        for side, of_side in enumerate(ordered):
            ratios = bootstrap.ratio_of_sums(weights, *halves[2 * side : 2 * side + 2])
            drawn.append(np.hstack([ratios, latencies(of_side, members, weights).reshape(len(weights), -1)]))
        yield drawn[0] if len(drawn) == 1 else drawn[0] - drawn[1]


def add_up(
    query_scores: pl.DataFrame, options: ElyOptions, *, by: Sequence[str] = SLICES, ci: float | None = 0.95
) -> pl.DataFrame:
    """The table `ely_scores`: every metric under every reading, of each run and each slice ``by``.

    ``ci``: level of the cluster-bootstrap interval; None leaves the bounds null.
    """
    keys, several = [], []
    for run, rows in runs_of(query_scores):
        of_run, parts = Parts.of(rows, by)
        keys += [(run, *key) for key in of_run]
        several.append(parts)
    if not keys:
        return SCORES.empty()
    parts = Parts.joined(several)
    return _scores(keys, parts, intervals([parts], ci) if ci is not None else None, options)


def _scores(
    keys: list[tuple[str, str, str | None]], parts: Parts, bounds: tuple[Floats, Floats] | None, options: ElyOptions
) -> pl.DataFrame:
    totals, n, values = parts.point()
    known = np.stack([np.bincount(parts.part[~np.isnan(of)], minlength=len(keys)) for of in parts.latency.T], axis=1)
    every = np.bincount(parts.part, minlength=len(keys))
    nothing = np.full(len(keys), np.nan)
    gated = np.array([key[1] in GATED_SLICES for key in keys])
    columns: dict[str, list[Any]] = {name: [] for name in ("total", "n", "divided_by", "gate", "passed")}
    for place, reading, denominator in readings():
        latency = denominator is None
        applies = known[:, LATENCIES[reading.metric][0]] if latency else n[:, place % len(MEASURES)]
        columns["total"].append(nothing if latency else totals[:, place % len(MEASURES)])
        columns["n"].append(applies)
        columns["divided_by"].append(every if denominator == "all" else applies)
        held = reading.metric in GATES and chosen(reading, denominator, options)
        side, gate = GATES[reading.metric] if held else ("least", np.nan)
        columns["gate"].append(np.where(gated, gate, np.nan))
        kept = values[:, place] >= gate if side == "least" else values[:, place] <= gate
        columns["passed"].append(np.where(np.isnan(values[:, place]) | np.isnan(columns["gate"][-1]), np.nan, kept))
    order = [place for place, _, _ in readings()]
    rows = [(*reading, denominator) for _, reading, denominator in readings()]
    frame = {name: np.stack(column, axis=1).ravel() for name, column in columns.items()}
    frame |= {"value": values[:, order].ravel()}
    if bounds is not None:
        frame |= {name: bound[:, order].ravel() for name, bound in zip(("low", "high"), bounds, strict=True)}
    scored = (
        pl.DataFrame(keys, schema=["run", "slice", "value_of_slice"], orient="row", infer_schema_length=None)
        .join(pl.DataFrame(rows, schema=[*Reading._fields, "denominator"], orient="row"), how="cross")
        .with_columns(pl.Series(name, column, nan_to_null=True) for name, column in frame.items())
        .with_columns(pl.col("passed").cast(pl.Boolean))
    )
    return SCORES.conform(scored)


def runs_of(query_scores: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    """Each run and its rows, by name and query_id."""
    for (run,), rows in query_scores.sort("run", "query_id").group_by("run", maintain_order=True):
        yield str(run), rows


def slices_of(rows: pl.DataFrame, by: Sequence[str]) -> Iterator[tuple[tuple[str, str | None], Integers]]:
    """(slice, its value) and the positions of its rows, in the order of ``by`` and of the values."""
    for slice_ in by:
        if slice_ == "all":
            yield (slice_, None), np.arange(rows.height)
        else:
            names = rows[slice_].to_numpy()
            order = np.argsort(names, kind="stable")
            values, first = np.unique(names[order], return_index=True)
            for value, places in zip(values, np.split(order, first[1:]), strict=True):
                yield (slice_, str(value)), places


def readings() -> Iterator[tuple[int, Reading, str | None]]:
    """Position among the values of a :class:`Part`, the reading and the denominator, in the order of `ely_scores`."""
    for i, measure in enumerate(MEASURES):
        for j, denominator in enumerate(DENOMINATORS):
            yield i + j * len(MEASURES), measure.reading, denominator
    for i, metric in enumerate(LATENCIES):
        yield 2 * len(MEASURES) + i, Reading(metric), None


def chosen(reading: Reading, denominator: str | None, options: ElyOptions) -> bool:
    """Whether it is the reading that ``options`` name, which the gates are held to."""
    wanted = Reading(reading.metric, options.recall_unit, options.whole_source, options.cross_holder)
    return denominator in (None, options.denominator) and all(
        own in (None, of) for own, of in zip(reading[1:], wanted[1:], strict=True)
    )
