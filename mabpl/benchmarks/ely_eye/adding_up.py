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
    f"{temperature}_p{percent}": (f"{temperature}_s", percent / 100)
    for temperature in ("cold", "warm")
    for percent in (50, 95)
}
"""Metric: the column that it is a quantile of, and which."""

METRICS = tuple(dict.fromkeys([*(measure.reading.metric for measure in MEASURES), *LATENCIES]))
DENOMINATORS = ("applicable", "all")


@dataclass(frozen=True, slots=True)
class Part:
    """The rows of one slice and one side, as arrays: by query.

    ``values``, ``applies``: (queries, measures), 0 where a measure does not apply. ``latency``: column to (queries,),
    NaN where there is none. ``cluster``: (queries,) from 0 to ``clusters``.
    """

    values: Floats
    applies: Floats
    latency: dict[str, Floats]
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
        latency = {name: rows[name].to_numpy().astype(np.float64) for name in ("cold_s", "warm_s")}
        return cls(columns[:, : len(MEASURES)], columns[:, len(MEASURES) :], latency, cluster, len(names))

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
        quantiles = [self._quantile(column, q) for column, q in LATENCIES.values()]
        return totals, n, np.concatenate([ratios, quantiles])

    def _quantile(self, column: str, q: float) -> float:
        known = self.latency[column][~np.isnan(self.latency[column])]
        return float(np.quantile(known, q)) if len(known) else np.nan

    def drawn(self, weights: Floats) -> Floats:
        """The latencies' quantiles under each row of ``weights`` (draws, clusters): float64 (draws, latencies)."""
        drawn = np.full((len(weights), len(LATENCIES)), np.nan)
        for column in dict.fromkeys(column for column, _ in LATENCIES.values()):
            known = np.flatnonzero(~np.isnan(self.latency[column]))
            if len(known):
                order = known[np.argsort(self.latency[column][known], kind="stable")]
                upto = np.cumsum(weights[:, self.cluster[order]], axis=1)
                for i, (of, q) in enumerate(LATENCIES.values()):
                    if of == column:
                        drawn[:, i] = weighted_quantile(self.latency[column][order], upto, q)
        return drawn


def weighted_quantile(values: Floats, upto: Floats, q: float) -> Floats:
    """Quantile ``q`` of repeated ``values`` (ascending), linearly interpolated: float64 (draws,).

    ``upto`` (draws, values): how many a draw holds up to and with each value. NaN where it holds none.
    """
    total = upto[:, -1]
    place = q * np.maximum(total - 1, 0)
    below = np.floor(place)
    low, high = (
        values[np.minimum((upto <= at[:, None]).sum(axis=1), len(values) - 1)]
        for at in (below, np.minimum(below + 1, np.maximum(total - 1, 0)))
    )
    return np.where(total > 0, low + (high - low) * (place - below), np.nan)


def intervals(
    slices: Sequence[Sequence[Part]], level: float = 0.95, replicates: int = bootstrap.REPLICATES
) -> list[tuple[Floats, Floats]]:
    """Bounds of each slice: of the values of its one side, or of the first less the second of two.

    Clusters are drawn with replacement, all queries of one together, and both sides by the same draw. Slices with the
    same number of clusters share their draws. NaN where there is one cluster, or no value.
    """
    bounds: list[tuple[Floats, Floats]] = [(np.empty(0), np.empty(0))] * len(slices)
    groups: dict[int, list[int]] = {}
    for i, sides in enumerate(slices):
        groups.setdefault(sides[0].clusters, []).append(i)
    at_once = max(1, _MOST_CELLS // (replicates * (2 * len(MEASURES) + len(LATENCIES))))
    for clusters, every in sorted(groups.items()):
        for first in range(0, len(every), at_once):
            members = every[first : first + at_once]
            values = np.concatenate([*_replicates([slices[i] for i in members], clusters, replicates)])
            empty = np.isnan(values).all(axis=0) | (clusters < 2)
            low, high = bootstrap.percentile_interval(np.where(empty, 0.0, values), level)
            low[empty], high[empty] = np.nan, np.nan
            for i, *both in zip(members, np.split(low, len(members)), np.split(high, len(members)), strict=True):
                bounds[i] = (both[0], both[1])
    return bounds


def _replicates(group: list[Sequence[Part]], clusters: int, replicates: int) -> Iterator[Floats]:
    """Draws, a part of them at a time: float64 (draws, slices x values)."""
    sums = [[part.by_cluster() for part in sides] for sides in group]
    stacked = [
        tuple(np.hstack([of_slice[side][which] for of_slice in sums]) for which in (0, 1))
        for side in range(len(group[0]))
    ]
    widest = max(len(part.cluster) for sides in group for part in sides)
    at_once = max(1, min(replicates, _MOST_CELLS // max(widest, clusters)))
    for number, start in enumerate(range(0, replicates, at_once)):
        weights = bootstrap.clip_weights(clusters, min(at_once, replicates - start), stratum=number)
        sides = []
        for side, (above, below) in enumerate(stacked):
            ratios = bootstrap.ratio_of_sums(weights, above, below).reshape(len(weights), len(group), -1)
            latencies = np.stack([of_slice[side].drawn(weights) for of_slice in group], axis=1)
            sides.append(np.concatenate([ratios, latencies], axis=2).reshape(len(weights), -1))
        yield sides[0] if len(sides) == 1 else sides[0] - sides[1]


def add_up(
    query_scores: pl.DataFrame, options: ElyOptions, *, by: Sequence[str] = SLICES, ci: float | None = 0.95
) -> pl.DataFrame:
    """The table `ely_scores`: every metric under every reading, of each run and each slice ``by``.

    ``ci``: level of the cluster-bootstrap interval; None leaves the bounds null.
    """
    keys, parts = [], []
    for run, rows in runs_of(query_scores):
        for key, of_slice in slices_of(rows, by):
            keys.append((run, *key))
            parts.append(Part.of(of_slice))
    bounds = intervals([[part] for part in parts], ci) if ci is not None else [None] * len(parts)
    scored = [
        row for key, part, bound in zip(keys, parts, bounds, strict=True) for row in _rows(key, part, bound, options)
    ]
    return pl.DataFrame(scored, schema=SCORES.schema, orient="row", infer_schema_length=None)


def runs_of(query_scores: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    """Each run and its rows, by name and query_id."""
    for (run,), rows in query_scores.sort("run", "query_id").group_by("run", maintain_order=True):
        yield str(run), rows


def slices_of(rows: pl.DataFrame, by: Sequence[str]) -> Iterator[tuple[tuple[str, str | None], pl.DataFrame]]:
    """(slice, its value) and the rows of it, in the order of ``by`` and of the values."""
    for slice_ in by:
        if slice_ == "all":
            yield (slice_, None), rows
        else:
            for (value,), of_value in sorted(
                rows.group_by(slice_, maintain_order=True), key=lambda part: str(part[0][0])
            ):
                yield (slice_, str(value)), of_value


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
            count = divisor = int((~np.isnan(part.latency[column])).sum())
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
