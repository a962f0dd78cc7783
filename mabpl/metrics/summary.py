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

from collections.abc import Sequence

import numpy as np
import polars as pl

from mabpl.errors import UsageError, unknown_name
from mabpl.metrics import HEADLINE_WEIGHTS, METRICS
from mabpl.metrics.metric import Metric
from mabpl.stats import bootstrap

COUNTS = ("x", "y", "assigned", "b", "k", "t", "j", "credit", "strict_credit")
SIZES = ("segments_per_clip", "human_segments_per_clip")
VALUES = (*METRICS, "headline", *SIZES)
"""The columns of `set_scores` that are not counts, in order."""


def clip_values(counts: pl.DataFrame) -> pl.DataFrame:
    """``counts`` (x, y, and the numerators of the metrics) with each metric of the clip alone, in percent."""
    defined = pl.col("x") + pl.col("y") > 0
    return counts.with_columns(
        pl.when(defined)
        .then(pl.when(_below(m) > 0).then(100.0 * m.factor * pl.col(m.numerator) / _below(m)).otherwise(
            pl.when(pl.col(m.numerator).is_not_null()).then(0.0)))
        .cast(pl.Float64)
        .alias(m.name)
        for m in METRICS.values()
    )  # fmt: skip


def _below(metric: Metric) -> pl.Expr:
    return pl.sum_horizontal(*metric.denominator)


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
    ``runs``. ``ci``: level of a clip-bootstrap interval, e.g. 0.95: adds ``<metric>_low`` and ``<metric>_high``.

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
    units = finish(unit_sums(clips, [*members, *by, "set"]))
    group = [who, *by] if combine else [who, *by, "set"]
    if combine:
        units = _combined(units, [*members, *by])
    if fold_seeds:
        units = _folded(units, group)
    if ci is not None:
        units = units.join(
            _intervals(clips, by, who, combine, ci, replicates), on=group, how="left", nulls_equal=True,
            maintain_order="left",
        )  # fmt: skip
    return _ordered(units, group)


def unit_sums(clips: pl.DataFrame, key: Sequence[str]) -> pl.DataFrame:
    """Per ``key``: counts, clips, undefined clips, and numerator and denominator of every metric; these add up."""
    ordered = clips.sort([*key, "clip_id"], nulls_last=False, maintain_order=True)
    groups = ordered.select(pl.struct(key).rle_id().alias("group"))["group"].to_numpy()
    first = np.flatnonzero(np.diff(groups, prepend=-1)) if len(groups) else np.zeros(0, np.int64)
    above, below = terms(ordered)
    columns: list[pl.Series] = [
        pl.Series("clips", np.bincount(groups, minlength=len(first)).astype(np.int64)),
        _summed("undefined_clips", (ordered["x"] + ordered["y"]) == 0, first),
    ]
    columns += [_summed(name, ordered[name], first) for name in COUNTS]
    for j, name in enumerate(METRICS):
        columns.append(pl.Series(f"{name}:above", np.add.reduceat(above[:, j], first) if len(first) else []))
        columns.append(pl.Series(f"{name}:below", np.add.reduceat(below[:, j], first) if len(first) else []))
    return ordered.select(key)[first].with_columns(columns)


def _summed(name: str, values: pl.Series, first: np.typing.NDArray[np.int64]) -> pl.Series:
    dtype = pl.Float64 if values.dtype.is_float() else pl.Int64
    if values.null_count() == len(values):
        return pl.Series(name, [None] * len(first), dtype=dtype)
    return pl.Series(name, np.add.reduceat(values.cast(dtype).fill_null(0).to_numpy(), first), dtype=dtype)


def terms(clips: pl.DataFrame) -> tuple[bootstrap.Floats, bootstrap.Floats]:
    """Numerator and denominator of each metric for each clip: float64 (clips, metrics)."""
    above = np.zeros((clips.height, len(METRICS)))
    below = np.zeros((clips.height, len(METRICS)))
    for j, metric in enumerate(METRICS.values()):
        if metric.pooled:
            known = clips[metric.numerator].is_not_null()
            above[:, j] = 100.0 * metric.factor * clips[metric.numerator].fill_null(0).cast(pl.Float64).to_numpy()
            below[:, j] = sum(clips[name].to_numpy() for name in metric.denominator) * known.to_numpy()
        else:
            below[:, j] = clips[metric.name].is_not_null().to_numpy()
            above[:, j] = clips[metric.name].fill_null(0.0).to_numpy()
    return above, below


def finish(sums: pl.DataFrame) -> pl.DataFrame:
    """The values of :func:`unit_sums`: the columns of `set_scores`."""
    defined = pl.col("x") + pl.col("y") > 0
    values = []
    for m in METRICS.values():
        above, below = pl.col(f"{m.name}:above"), pl.col(f"{m.name}:below")
        empty_side = m.pooled & defined & pl.col(m.numerator).is_not_null()
        values.append(pl.when(below > 0).then(above / below).when(empty_side).then(0.0).alias(m.name))
    frame = sums.with_columns(
        *values,
        (pl.col("x") / pl.col("clips")).alias("segments_per_clip"),
        (pl.col("y") / pl.col("clips")).alias("human_segments_per_clip"),
    ).with_columns(headline())
    return frame.drop([c for c in frame.columns if c.endswith((":above", ":below"))])


def headline() -> pl.Expr:
    """50% PA-F1 + 25% Boundary F1 + 25% Temporal F1; null where one is null."""
    terms = [weight * pl.col(name) for name, weight in HEADLINE_WEIGHTS.items()]
    return (terms[0] + terms[1] + terms[2]).alias("headline")


def combine_sets(sets: pl.DataFrame, key: Sequence[str] = ()) -> pl.DataFrame:
    """`set_scores` rows put together per ``key``: values weighted by ``clips``, counts summed; ``sets``: how many."""
    return _combined(sets, list(key))


def _combined(sets: pl.DataFrame, key: list[str]) -> pl.DataFrame:
    frame = sets.with_columns(pl.lit(0).alias("_")).sort([*key, "set"], maintain_order=True)
    scored = pl.when(pl.col("x") + pl.col("y") > 0).then(pl.col("clips")).otherwise(0)
    weights = {name: pl.col("clips") if name in SIZES else scored for name in VALUES}
    counts = [c for c in ("clips", "undefined_clips", *COUNTS) if c in frame.columns]
    combined = frame.group_by([*key, "_"], maintain_order=True).agg(
        pl.len().cast(pl.Int64).alias("sets"),
        *(pl.when(pl.col(c).null_count() == 0).then(pl.col(c).sum()).alias(c) for c in counts),
        *(
            pl.when((pl.col(name).is_null() & (weight > 0)).sum() == 0)
            .then((pl.col(name) * weight).sum() / pl.when(weight.sum() > 0).then(weight.sum()))
            .alias(name)
            for name, weight in weights.items()
            if name in frame.columns and name != "headline"
        ),
    )
    return combined.drop("_").with_columns(headline())


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
    names = [*METRICS, "headline"]
    runs = sorted(set(zip(clips[who].to_list(), clips["run"].to_list(), strict=True)))
    draws: dict[tuple[object, ...], list[tuple[int, dict[str, bootstrap.Floats]]]] = {}
    for values, stratum in sorted(
        clips.group_by([*by, "set"]), key=lambda item: tuple((v is not None, str(v)) for v in item[0])
    ):
        slice_key = values[:-1] if combine else values
        draws.setdefault(slice_key, []).append(_replicates(stratum, replicates))
    rows = []
    for slice_key, strata in draws.items():
        per_run = {}
        for run in {name for _, of_run in strata for name in of_run}:
            parts = [(n, of_run[run]) for n, of_run in strata if run in of_run]
            weighted = np.sum([n * values for n, values in parts], axis=0)
            per_run[run] = weighted / sum(n for n, _ in parts)
        for owner in sorted({w for w, _ in runs}):
            mine = [per_run[run] for w, run in runs if w == owner and run in per_run]
            if not mine:
                continue
            low, high = bootstrap.percentile_interval(np.mean(mine, axis=0), level)
            row = dict(zip([who, *by] if combine else [who, *by, "set"], (owner, *slice_key), strict=True))
            for j, name in enumerate(names):
                row[f"{name}_low"] = None if np.isnan(low[j]) else float(low[j])
                row[f"{name}_high"] = None if np.isnan(high[j]) else float(high[j])
            rows.append(row)
    key_schema = {name: clips.schema[name] for name in ([who, *by] if combine else [who, *by, "set"])}
    bounds = {f"{name}_{side}": pl.Float64 for name in names for side in ("low", "high")}
    return pl.DataFrame(rows, schema={**key_schema, **bounds})


def _replicates(stratum: pl.DataFrame, replicates: int) -> tuple[int, dict[str, bootstrap.Floats]]:
    """Bootstrap values of one stratum: its number of clips, and per run float64 (replicates, metrics and headline)."""
    ids = stratum["clip_id"].unique().sort()
    clip = stratum["clip_id"].replace_strict(ids, np.arange(len(ids)), return_dtype=pl.Int64).to_numpy()
    names = stratum["run"].unique().sort()
    run = stratum["run"].replace_strict(names, np.arange(len(names)), return_dtype=pl.Int64).to_numpy()
    above, below = terms(stratum)
    width = above.shape[1]
    dense_above = np.zeros((len(ids), len(names), width))
    dense_below = np.zeros((len(ids), len(names), width))
    dense_above[clip, run] = above
    dense_below[clip, run] = below
    weights = bootstrap.clip_weights(len(ids), replicates)
    flat = (len(ids), len(names) * width)
    values = bootstrap.ratio_of_sums(weights, dense_above.reshape(flat), dense_below.reshape(flat))
    values = values.reshape(replicates, len(names), width)
    order = list(METRICS)
    head = sum(weight * values[:, :, order.index(name)] for name, weight in HEADLINE_WEIGHTS.items())
    values = np.concatenate([values, np.asarray(head)[:, :, None]], axis=2)
    return len(ids), {name: values[:, j] for j, name in enumerate(names.to_list())}


def _ordered(units: pl.DataFrame, group: list[str]) -> pl.DataFrame:
    """Columns in a fixed order: key, sizes, counts, each value with its SD and bounds; rows by key."""
    columns = [*group, "configuration", "sets", "runs", "clips", "undefined_clips", *COUNTS]
    for name in VALUES:
        columns += [name, f"{name}_sd", f"{name}_low", f"{name}_high"]
    have = set(units.columns)
    return units.select(list(dict.fromkeys(c for c in columns if c in have))).sort(group, maintain_order=True)
