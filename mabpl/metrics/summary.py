"""The one place that knows how a metric adds up: per clip, over the clips of a set, over sets, over generation seeds.

From MicroAnnotationBench: PA-F1, strict PA-F1, precision, recall, Boundary F1 and Temporal F1 are the mean of the
clips' values (an F1 is never recomputed from mean precision and recall); Seg F1 and Joint F1 pool their counts
in a set.
Both sets together: the sets' values weighted by their numbers of clips, before rounding, for every metric. A clip with
one empty side scores 0; with both sides empty it is undefined: null, left out of the mean, counted. Headline =
50% PA-F1 + 25% Boundary F1 + 25% Temporal F1. The SD between generation seeds is the sample standard deviation (n - 1)
of the set score.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl

from mabpl.errors import UsageError, unknown_name
from mabpl.metrics import HEADLINE_WEIGHTS, METRICS
from mabpl.metrics.metric import Metric
from mabpl.metrics.ratios import in_order, known_sums, summed
from mabpl.stats import bootstrap
from mabpl.stats.bootstrap import Floats
from mabpl.tables.schemas import SET_SCORES
from mabpl.timelines import Integers, ascending, columns_of, picked, stretches

CREDITS = ("credit", "strict_credit")
COUNTS = ("x", "y", "assigned", "b", "k", "t", "j", *CREDITS)
SIZED = ("sets", "clips", "undefined_clips")
SIZES = ("segments_per_clip", "human_segments_per_clip")
VALUES = (*METRICS, "headline", *SIZES)
"""The columns of `set_scores` that are not counts, in order."""


@dataclass(frozen=True, slots=True)
class Cells:
    """Clips, or groups of clips: a row of ``key`` each, and ``values`` by name, float64 with NaN for null."""

    key: pl.DataFrame
    values: dict[str, Floats]

    @classmethod
    def of(cls, frame: pl.DataFrame, key: Sequence[str]) -> Cells:
        values = {c.name: _floats(c) for c in frame.get_columns() if c.name in _KNOWN}
        return cls(columns_of(frame, key), values)

    @classmethod
    def of_clips(cls, frame: pl.DataFrame, key: Sequence[str]) -> Cells:
        """The clips of ``frame`` in the order of ``key`` and their ids."""
        return cls.of(frame, [*key, "clip_id"]).in_order()

    def in_order(self) -> Cells:
        """In the order of the key."""
        if ascending(self.key):
            return self
        at = self.key.with_row_index("at").sort(self.key.columns, maintain_order=True)["at"].to_numpy()
        return Cells(self.key[at], {name: values[at] for name, values in self.values.items()})

    def table(self) -> pl.DataFrame:
        """As a frame: the columns of `set_scores` that are there, and ``sets``."""
        columns = [_column(name, self.values[name]) for name in _KNOWN if name in self.values]
        return pl.DataFrame([*self.key.get_columns(), *columns])


_KNOWN = dict.fromkeys((*SIZED, *COUNTS, *VALUES))


def _column(name: str, values: Floats) -> pl.Series:
    if name in VALUES or name in CREDITS:
        return pl.Series(name, values, nan_to_null=True)
    unknown = np.isnan(values)
    if not unknown.any():
        return pl.Series(name, values.astype(np.int64))
    return pl.Series(name, values, nan_to_null=True).cast(pl.Int64)


def _floats(column: pl.Series) -> Floats:
    """A column as float64, NaN for null."""
    return column.to_numpy().astype(np.float64, copy=False)


def clip_cells(key: pl.DataFrame, counts: Mapping[str, Floats]) -> Cells:
    """Clips with ``counts`` (x, y, and numerators of metrics) and the metrics that follow from them, in percent."""
    values, defined = dict(counts), counts["x"] + counts["y"] > 0
    for name, metric in METRICS.items():
        if metric.numerator in counts:
            above, below = 100.0 * metric.factor * counts[metric.numerator], _below(counts, metric)
            neither = np.where(defined & ~np.isnan(above), 0.0, np.nan)
            values[name] = np.where(below > 0, above / np.where(below > 0, below, 1.0), neither)
    return Cells(key, values)


def _below(values: Mapping[str, Floats], metric: Metric) -> Floats:
    return functools.reduce(operator.add, (values[name] for name in metric.denominator))


def clip_values(counts: pl.DataFrame) -> pl.DataFrame:
    """``counts`` (x, y, and the numerators of the metrics) with each metric of the clip alone, in percent."""
    columns = {column.name: column for column in counts.get_columns()}
    numerators = {metric.numerator for metric in METRICS.values()}
    known = {name for name in numerators if columns[name].null_count() < counts.height}
    values = clip_cells(pl.DataFrame(), {name: _floats(columns[name]) for name in {"x", "y", *known}}).values
    nothing = pl.Series([None], dtype=pl.Float64).new_from_index(0, counts.height)
    columns |= {name: _column(name, values[name]) if name in values else nothing.alias(name) for name in METRICS}
    return pl.DataFrame(list(columns.values()))


def summarise(
    clips: pl.DataFrame,
    by: Sequence[str] = (),
    *,
    combine: bool = False,
    fold_seeds: bool = False,
    ci: float | None = None,
    replicates: int = bootstrap.REPLICATES,
) -> pl.DataFrame:
    """Scores of slices of clips, in percent, unrounded, with the counts they came from.

    ``clips``: rows of `clip_scores` (``Scores.clips``). ``by``: further columns to slice by (operator, session, ...).
    Run and set stay in the key; ``combine`` puts the sets together, weighted by their numbers of clips (column ``sets``
    says how many); ``fold_seeds`` takes the mean over the runs of a configuration and adds ``<metric>_sd`` and
    ``runs``. ``ci``: level of a clip-bootstrap interval, e.g. 0.95: adds ``<metric>_low`` and ``<metric>_high``,
    null where there is but one clip to draw.

    Raises :class:`UsageError` for columns that ``clips`` does not have.
    """
    by = [by] if isinstance(by, str) else list(by)
    who = "configuration" if fold_seeds else "run"
    for name in [*by, who]:
        if name not in clips.columns:
            raise unknown_name("column", name, clips.columns)
    by = [name for name in by if name not in ("run", "set", "configuration")]
    if ci is not None and not 0 < ci < 1:
        raise UsageError(f"ci = {ci!r} is not possible", "expected a level between 0 and 1, e.g. 0.95")
    members = ["configuration", "run"] if "configuration" in clips.columns else ["run"]
    unit = [*members, *by, "set"]
    cells = finish(unit_sums(Cells.of_clips(clips, unit), unit))
    group = [who, *by] if combine else [who, *by, "set"]
    if combine:
        cells = _combined(cells, [*members, *by])
    units = cells.table()
    if fold_seeds:
        units = _folded(units, group)
    if ci is not None:
        units = units.join(
            _intervals(clips, by, who, combine, ci, replicates), on=group, how="left", nulls_equal=True,
            maintain_order="left",
        )  # fmt: skip
        units = units.with_columns(
            pl.when((pl.col("clips") > 1) & pl.col(name).is_not_null())
            .then(pl.col(f"{name}_{side}"))
            .alias(f"{name}_{side}")
            for name in (*METRICS, "headline")
            for side in ("low", "high")
        )
    return _ordered(units, group)


def unit_sums(clips: Cells, key: Sequence[str], first: Integers | None = None) -> Cells:
    """Per ``key``: counts, clips, undefined clips, and numerator and denominator of every metric; these add up.

    ``clips`` come in the order of ``key`` and their ids; ``first``: where each key begins, if that is known.
    """
    of = clips.values
    first = stretches(clips.key, key) if first is None else first
    sums = {name: known_sums(of[name], first) if name in of else np.full(len(first), np.nan) for name in COUNTS}
    for name, metric in METRICS.items():
        above, below = np.zeros((2, len(first)))
        if metric.summed in of:
            above, below = (summed(values, first) for values in _term(of, metric))
        sums[f"{name}:above"], sums[f"{name}:below"] = above, below
    sums["clips"] = np.diff(np.append(first, clips.key.height)).astype(np.float64)
    sums["undefined_clips"] = summed((of["x"] + of["y"] == 0).astype(np.float64), first)
    return Cells(picked(clips.key, key, first), sums)


def add_sums(parts: Sequence[Cells], key: Sequence[str]) -> Cells:
    """The :func:`unit_sums` of all clips, from those of ``parts`` of them."""
    keys = pl.concat([part.key for part in parts]).with_row_index("part").sort(key, maintain_order=True)
    order, keys = keys["part"].to_numpy(), keys.select(key)
    first = stretches(keys, key)
    values = {name: np.concatenate([part.values[name] for part in parts])[order] for name in parts[0].values}
    return Cells(keys[first], {name: known_sums(column, first) for name, column in values.items()})


def terms(clips: pl.DataFrame) -> tuple[Floats, Floats]:
    """Numerator and denominator of each metric for each clip: float64 (clips, metrics)."""
    values = Cells.of(clips, []).values
    both = [_term(values, metric) for metric in METRICS.values()]
    return np.column_stack([above for above, _ in both]), np.column_stack([below for _, below in both])


def _term(values: Mapping[str, Floats], metric: Metric) -> tuple[Floats, Floats]:
    """Numerator and denominator of a metric for each clip; 0 and 0 where it has none."""
    counted = values[metric.summed]
    known = ~np.isnan(counted)
    above = counted if known.all() else np.where(known, counted, 0.0)
    if not metric.pooled:
        return above, known.astype(np.float64)
    return 100.0 * metric.factor * above, _below(values, metric) * known


def finish(sums: Cells) -> Cells:
    """The values of :func:`unit_sums`: the columns of `set_scores`."""
    of = sums.values
    somebody = of["x"] + of["y"] > 0
    values = {name: column for name, column in of.items() if not name.endswith((":above", ":below"))}
    for name, metric in METRICS.items():
        empty_side = metric.pooled & somebody & ~np.isnan(of[metric.numerator])
        values[name] = _quotient(of[f"{name}:above"], of[f"{name}:below"], np.where(empty_side, 0.0, np.nan))
    values |= {name: of[side] / of["clips"] for name, side in zip(SIZES, ("x", "y"), strict=True)}
    return Cells(sums.key, {**values, "headline": headline(values)})


def _quotient(above: Floats, below: Floats, otherwise: Floats) -> Floats:
    return np.divide(above, below, out=otherwise, where=below > 0)


def headline(values: Mapping[str, Floats]) -> Floats:
    """50% PA-F1 + 25% Boundary F1 + 25% Temporal F1; NaN where one is NaN."""
    terms = [weight * values[name] for name, weight in HEADLINE_WEIGHTS.items()]
    return terms[0] + terms[1] + terms[2]


def combine_sets(sets: pl.DataFrame, key: Sequence[str] = ()) -> pl.DataFrame:
    """`set_scores` rows put together per ``key``: values weighted by ``clips``, counts summed; ``sets``: how many."""
    return _combined(Cells.of(sets, [*key, "set"]).in_order(), list(key)).table()


def set_scores(sets: Cells) -> pl.DataFrame:
    """The table `set_scores`: the cells ``sets`` (run, set; in order), and a row with set null for each run that has
    all sets.
    """
    combined = _combined(sets, ["run"])
    every = len(set(sets.key["set"].to_list()))
    whole = np.flatnonzero((combined.values["sets"] == every) & (every > 1))
    none = pl.Series("set", [None], dtype=pl.String).new_from_index(0, len(whole))
    keys = [pl.concat([sets.key["run"], combined.key["run"][whole]]), pl.concat([sets.key["set"], none])]
    run = np.repeat(np.arange(combined.key.height), combined.values["sets"].astype(np.int64))
    at = np.argsort(np.concatenate([run, whole]), kind="stable")
    values = {name: np.concatenate([of, combined.values[name][whole]])[at] for name, of in sets.values.items()}
    return SET_SCORES.conform(Cells(picked(pl.DataFrame(keys), ["run", "set"], at), values).table())


def _combined(sets: Cells, key: list[str]) -> Cells:
    of = sets.values
    first = stretches(sets.key, key) if key else np.zeros(min(sets.key.height, 1), np.int64)
    clips = of["clips"]
    defined = np.where(of["x"] + of["y"] > 0, clips, 0)
    values = {"sets": np.diff(np.append(first, sets.key.height)).astype(np.float64)}
    values |= {name: summed(of[name], first) for name in (*SIZED, *COUNTS) if name in of}
    for names, weight in ((SIZES, clips), (METRICS, defined)):
        below = summed(weight, first)
        for name in names:
            if name in of:
                above = summed(np.where(weight > 0, of[name] * weight, 0.0), first)
                values[name] = _quotient(above, below, np.full(len(first), np.nan))
    keys = picked(sets.key, key, first) if key else pl.DataFrame()
    return Cells(keys, {**values, "headline": headline(values)})


def _folded(units: pl.DataFrame, group: list[str]) -> pl.DataFrame:
    """The mean and the sample SD over the runs (generation seeds) of each group.

    Counts are summed over the runs; ``clips`` is the number of clips of a run.
    """
    counts = [c for c in COUNTS if c in units.columns]
    complete = {name: pl.col(name).null_count() == 0 for name in VALUES}
    keep = [pl.col("sets").min()] if "sets" in units.columns else []
    return (
        units.sort([*group, "run"], maintain_order=True)
        .group_by(group, maintain_order=True)
        .agg(
            pl.len().cast(pl.Int64).alias("runs"),
            *keep,
            pl.col("clips", "undefined_clips").max(),
            *(pl.col(c).sum() for c in counts),
            *(pl.when(complete[name]).then(pl.col(name).mean()).alias(name) for name in VALUES),
            *(pl.when(complete[name]).then(pl.col(name).std(ddof=1)).alias(f"{name}_sd") for name in VALUES),
        )
    )


def _intervals(
    clips: pl.DataFrame, by: list[str], who: str, combine: bool, level: float, replicates: int
) -> pl.DataFrame:
    """`<metric>_low` and `<metric>_high` per group."""
    of = Cells.of(clips, []).values
    live = [name for name, metric in METRICS.items() if _term(of, metric)[1].any()]
    names = [*live, "headline"] if HEADLINE_WEIGHTS.keys() <= set(live) else live
    runs = sorted(set(zip(clips[who].to_list(), clips["run"].to_list(), strict=True)))
    draws: dict[tuple[object, ...], list[_Stratum]] = {}
    for values, stratum in sorted(
        clips.group_by([*by, "set"]), key=lambda item: tuple((v is not None, str(v)) for v in item[0])
    ):
        slice_key = values[:-1] if combine else values
        strata = draws.setdefault(slice_key, [])
        strata.append(_replicates(stratum, live, replicates, len(strata)))
    rows = []
    for slice_key, strata in draws.items():
        for owner in sorted({w for w, _ in runs}):
            mine = [run for w, run in runs if w == owner and any(run in stratum.runs for stratum in strata)]
            if not mine:
                continue
            low, high = bootstrap.percentile_interval(_weighted(strata, mine).mean(axis=1), level)
            row = dict(zip([who, *by] if combine else [who, *by, "set"], (owner, *slice_key), strict=True))
            for j, name in enumerate(names):
                row[f"{name}_low"] = None if np.isnan(low[j]) else float(low[j])
                row[f"{name}_high"] = None if np.isnan(high[j]) else float(high[j])
            rows.append(row)
    key_schema = {name: clips.schema[name] for name in ([who, *by] if combine else [who, *by, "set"])}
    bounds = {f"{name}_{side}": pl.Float64 for name in (*METRICS, "headline") for side in ("low", "high")}
    return pl.DataFrame(rows, schema={**key_schema, **bounds})


class _Stratum(NamedTuple):
    """What the clips of a set drew. ``values``: float64 (replicates, runs, metrics and headline)."""

    clips: int
    runs: dict[str, int]
    values: Floats

    def of(self, runs: list[str]) -> Floats:
        """A copy of the values of ``runs``; NaN for those that it does not have."""
        found = self.values.take([self.runs.get(run, 0) for run in runs], axis=1)
        found[:, [run not in self.runs for run in runs]] = np.nan
        return found


def _replicates(stratum: pl.DataFrame, metrics: list[str], replicates: int, number: int) -> _Stratum:
    ids = stratum["clip_id"].unique().sort()
    clip = stratum["clip_id"].replace_strict(ids, np.arange(len(ids)), return_dtype=pl.Int64).to_numpy()
    names = stratum["run"].unique().sort()
    run = stratum["run"].replace_strict(names, np.arange(len(names)), return_dtype=pl.Int64).to_numpy()
    above, below = np.zeros((2, stratum.height, len(metrics)))
    of = Cells.of(stratum, []).values
    for j, name in enumerate(metrics):
        above[:, j], below[:, j] = _term(of, METRICS[name])
    values = bootstrap.draws(above, below, clip, run, (len(ids), len(names)), replicates, number)
    if HEADLINE_WEIGHTS.keys() <= set(metrics):
        head = sum(weight * values[:, :, metrics.index(name)] for name, weight in HEADLINE_WEIGHTS.items())
        values = np.concatenate([values, np.asarray(head)[:, :, None]], axis=2)
    return _Stratum(len(ids), {name: j for j, name in enumerate(names.to_list())}, values)


def _weighted(strata: list[_Stratum], runs: list[str]) -> Floats:
    """The mean of what the strata drew for ``runs``, weighted by their numbers of clips; of those that have a value."""
    drawn = [(stratum.clips, stratum.of(runs)) for stratum in strata]
    if not any(np.isnan(values).any() for _, values in drawn):
        return np.asarray(sum(clips * values for clips, values in drawn) / sum(clips for clips, _ in drawn))
    above, below = np.zeros((2, *drawn[0][1].shape))
    for clips, values in drawn:
        known = ~np.isnan(values)
        above += clips * np.where(known, values, 0.0)
        below += clips * known
    return bootstrap.divided(above, below)


def _ordered(units: pl.DataFrame, group: list[str]) -> pl.DataFrame:
    """Columns in a fixed order: key, sizes, counts, each value with its SD and bounds; rows by key."""
    columns = [*group, "configuration", "sets", "runs", "clips", "undefined_clips", *COUNTS]
    for name in VALUES:
        columns += [name, f"{name}_sd", f"{name}_low", f"{name}_high"]
    have = set(units.columns)
    return in_order(units[list(dict.fromkeys(c for c in columns if c in have))], group)
