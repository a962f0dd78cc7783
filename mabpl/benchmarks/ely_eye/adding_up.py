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
class Part:
    """The queries of one slice and one side, as arrays.

    ``values``, ``applies``: (queries, measures), 0 where a measure does not apply. ``latency``: (queries, 2), cold and
    warm, NaN where there is none. ``cluster``: (queries,) from 0 to ``clusters``.
    """

    values: Floats
    applies: Floats
    latency: Floats
    cluster: Integers
    clusters: int

    @classmethod
    def of(cls, rows: pl.DataFrame) -> Part:
        """``rows``: `ely_query_scores` of one run, by query_id."""
        names, cluster = np.unique(rows["cluster"].to_numpy(), return_inverse=True)
        columns = rows.select(
            *(
                pl.when(m.applies).then(m.value.cast(pl.Float64)).otherwise(0.0).alias(f"v{i}")
                for i, m in enumerate(MEASURES)
            ),
            *(m.applies.cast(pl.Float64).alias(f"a{i}") for i, m in enumerate(MEASURES)),
        ).to_numpy()
        latency = rows.select(pl.col("cold_s", "warm_s").cast(pl.Float64)).to_numpy()
        return cls(columns[:, : len(MEASURES)], columns[:, len(MEASURES) :], latency, cluster, len(names))

    def only(self, rows: Integers) -> Part:
        """The part of these rows."""
        clusters, cluster = np.unique(self.cluster[rows], return_inverse=True)
        return Part(self.values[rows], self.applies[rows], self.latency[rows], cluster, len(clusters))

    def by_cluster(self) -> tuple[Floats, Floats]:
        """Numerators and denominators, float64 (clusters, measures x denominators): measures by `applicable`, then by
        `all`."""
        every = np.ones((len(self.cluster), 1))
        above = np.hstack([self.values, self.values])
        below = np.hstack([self.applies, np.where(self.applies.any(axis=0), every, 0.0)])
        return tuple(self._summed(columns) for columns in (above, below))  # type: ignore[return-value]

    def _summed(self, columns: Floats) -> Floats:
        width = columns.shape[1]
        flat = (self.cluster[:, None] * width + np.arange(width)).ravel()
        sums = np.bincount(flat, weights=columns.ravel(), minlength=self.clusters * width)
        return sums.astype(np.float64).reshape(-1, width)

    def point(self) -> tuple[Floats, Floats, Floats]:
        """Totals, numbers of queries that each measure applies to, and values (measures x denominators, latencies)."""
        totals = np.array([sum(column) for column in self.values.T.tolist()])
        n = self.applies.sum(axis=0)
        divisors = np.concatenate([n, np.where(n > 0, len(self.cluster), 0)])
        ratios = bootstrap.divided(np.concatenate([totals, totals]), divisors)
        return totals, n, np.concatenate([ratios, latencies([self], np.ones((1, self.clusters)))[0]])

    def ordered(self, column: int) -> tuple[Floats, Integers]:
        """The latencies that there are, ascending, and the cluster of each."""
        known = np.flatnonzero(~np.isnan(self.latency[:, column]))
        order = known[np.argsort(self.latency[known, column], kind="stable")]
        return self.latency[order, column], self.cluster[order]


def latencies(parts: Sequence[Part], weights: Floats) -> Floats:
    """The latencies' quantiles under each row of ``weights`` (draws, clusters): float64 (draws, parts x latencies)."""
    drawn = np.full((len(weights), len(parts), len(LATENCIES)), np.nan)
    for column in (0, 1):
        wanted = [i for i, (of, _) in enumerate(LATENCIES.values()) if of == column]
        quantiles = [q for of, q in LATENCIES.values() if of == column]
        ordered = [part.ordered(column) for part in parts]
        by_length: dict[int, list[int]] = {}
        for i, (seconds, _) in enumerate(ordered):
            by_length.setdefault(len(seconds), []).append(i)
        for length, every in by_length.items():
            at_once = max(1, _MOST_CELLS // (len(weights) * max(length, 1)))
            for first in range(0, len(every) if length else 0, at_once):
                some = every[first : first + at_once]
                values = np.stack([ordered[i][0] for i in some])
                cluster = np.stack([ordered[i][1] for i in some])
                upto = np.cumsum(weights[:, cluster], axis=2)
                drawn[:, np.array(some)[:, None], wanted] = weighted_quantiles(values, upto, quantiles)
    return drawn.reshape(len(weights), -1)


def weighted_quantiles(values: Floats, upto: Floats, quantiles: Sequence[float]) -> Floats:
    """Quantiles of repeated ``values`` (rows, values; ascending), linearly interpolated: float64 (draws, rows,
    quantiles).

    ``upto`` (draws, rows, values): how many a draw holds up to and with each value. NaN where it holds none.
    """
    total = upto[..., -1]
    last = np.maximum(total - 1, 0)
    place = np.multiply.outer(quantiles, last)
    below = np.floor(place)
    number = np.arange(total.size).reshape(total.shape)
    above = number * (total.max() + 1)  # one draw above another: all of them are searched at once
    wanted = np.stack([below, np.minimum(below + 1, last)]) + above
    found = np.searchsorted((upto + above[..., None]).ravel(), wanted, side="right") - number * values.shape[1]
    low, high = values[np.arange(len(values)), np.minimum(found, values.shape[1] - 1)]
    between: Floats = np.where(total > 0, low + (high - low) * (place - below), np.nan)
    return np.moveaxis(between, 0, -1)


def intervals(
    slices: Sequence[Sequence[Part]], level: float = 0.95, replicates: int = bootstrap.REPLICATES
) -> list[tuple[Floats, Floats]]:
    """Bounds of each slice: of the values of its one side, or of the first less the second of two.

    Clusters are drawn with replacement, all queries of one together, and both sides by the same draw. Slices with the
    same number of clusters share their draws. NaN where there is one cluster, or no value.
    """
    nothing = np.full(2 * len(MEASURES) + len(LATENCIES), np.nan)
    bounds: list[tuple[Floats, Floats]] = [(nothing, nothing)] * len(slices)
    groups: dict[int, list[int]] = {}
    for i, sides in enumerate(slices):
        if sides[0].clusters > 1:
            groups.setdefault(sides[0].clusters, []).append(i)
    at_once = max(1, 2 * _MOST_CELLS // (replicates * len(nothing)))
    for clusters, every in sorted(groups.items()):
        for first in range(0, len(every), at_once):
            members = every[first : first + at_once]
            found = _bounds([slices[i] for i in members], clusters, level, replicates)
            for i, low, high in zip(members, *found, strict=True):
                bounds[i] = (low, high)
    return bounds


def _bounds(group: list[Sequence[Part]], clusters: int, level: float, replicates: int) -> tuple[Floats, Floats]:
    """Lower and upper bounds, each float64 (slices, values), of slices with the same number of clusters."""
    # Small slices have many columns that are equal: each is drawn once.
    sums = [np.hstack([np.vstack(part.by_cluster()) for part in of_side]) for of_side in zip(*group, strict=True)]
    distinct, place = np.unique(np.vstack(sums), axis=1, return_inverse=True)
    values = np.concatenate([*_replicates(group, np.split(distinct, 2 * len(sums)), clusters, replicates)])
    empty = np.isnan(values).all(axis=0)
    both = np.stack(bootstrap.percentile_interval(np.where(empty, 0.0, values), level))
    both[:, empty] = np.nan
    ratios = both[:, place.ravel()].reshape(2, len(group), -1)
    times = both[:, distinct.shape[1] :].reshape(2, len(group), -1)
    low, high = np.concatenate([ratios, times], axis=2)
    return low, high


def _replicates(group: list[Sequence[Part]], halves: list[Floats], clusters: int, replicates: int) -> Iterator[Floats]:
    """Draws, a part of them at a time: float64 (draws, columns of ``halves``, then the latencies of each slice).

    ``halves``: numerators and denominators of the first side, then of the second where there is one.
    """
    widest = max(len(part.cluster) for parts in group for part in parts)
    at_once = max(1, min(replicates, _MOST_CELLS // max(widest, clusters)))
    for number, start in enumerate(range(0, replicates, at_once)):
        weights = bootstrap.clip_weights(clusters, min(at_once, replicates - start), stratum=number)
        drawn = []
        for side in range(len(halves) // 2):
            ratios = bootstrap.ratio_of_sums(weights, *halves[2 * side : 2 * side + 2])
            drawn.append(np.hstack([ratios, latencies([parts[side] for parts in group], weights)]))
        yield drawn[0] if len(drawn) == 1 else drawn[0] - drawn[1]


def add_up(
    query_scores: pl.DataFrame, options: ElyOptions, *, by: Sequence[str] = SLICES, ci: float | None = 0.95
) -> pl.DataFrame:
    """The table `ely_scores`: every metric under every reading, of each run and each slice ``by``.

    ``ci``: level of the cluster-bootstrap interval; None leaves the bounds null.
    """
    keys, parts = [], []
    for run, rows in runs_of(query_scores):
        whole = Part.of(rows)
        for key, places in slices_of(rows, by):
            keys.append((run, *key))
            parts.append(whole.only(places))
    bounds = intervals([[part] for part in parts], ci) if ci is not None else [None] * len(parts)
    scored = [
        row for key, part, bound in zip(keys, parts, bounds, strict=True) for row in _rows(key, part, bound, options)
    ]
    return pl.DataFrame(scored, schema=SCORES.schema, orient="row", infer_schema_length=None)


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


def _rows(
    key: tuple[str, str, str | None], part: Part, bounds: tuple[Floats, Floats] | None, options: ElyOptions
) -> Iterator[tuple[Any, ...]]:
    totals, n, values = part.point()
    for place, reading, denominator in readings():
        if denominator is None:
            column, _ = LATENCIES[reading.metric]
            count = divisor = int((~np.isnan(part.latency[:, column])).sum())
            total = None
        else:
            i = place % len(MEASURES)
            count, total = int(n[i]), float(totals[i])
            divisor = count if denominator == "applicable" else len(part.cluster)
        value = _number(values[place])
        low, high = (_number(bound[place]) for bound in bounds) if bounds is not None else (None, None)
        gate, passed = None, None
        if reading.metric in GATES and key[1] in GATED_SLICES and chosen(reading, denominator, options):
            side, gate = GATES[reading.metric]
            passed = None if value is None else value >= gate if side == "least" else value <= gate
        yield (*key, *reading, denominator, value, low, high, total, count, divisor, gate, passed)


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
