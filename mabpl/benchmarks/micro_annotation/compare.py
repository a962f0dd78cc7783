"""Two results clip by clip: ours against figures that were published, or one of ours against another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from mabpl.benchmarks.micro_annotation.figures import Figures
from mabpl.errors import UsageError
from mabpl.metrics import METRICS
from mabpl.metrics.paired import paired_differences
from mabpl.metrics.summary import COUNTS

COMPARED = (*METRICS, *COUNTS)
JUDGED = frozenset(m.name for m in METRICS.values() if m.family == "pa" or m.numerator == "j") | {
    "j", "credit", "strict_credit",
}  # fmt: skip
"""What hangs on a judge: differences are told, and are no failure."""

_SLACK = 1e-9


@dataclass(frozen=True, slots=True)
class Comparison:
    """``first`` held against ``second`` on the clips that both have.

    ``clips``: one row a clip, the largest difference first: clip_id, ``differs``, and for each of ``shared`` the
    columns ``<name>_a``, ``<name>_b`` and ``<name>_difference`` (a less b). ``metrics``: one row a shared value and the
    headline: metric, clips, first, second, difference, low, high (see :func:`paired_differences`), differing_clips,
    failing_clips.
    """

    first: Figures
    second: Figures
    shared: tuple[str, ...]
    clips: pl.DataFrame
    metrics: pl.DataFrame
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]

    @property
    def failed(self) -> bool:
        """Whether a value that hangs on no judge differs."""
        return bool(self.metrics["failing_clips"].sum())


def compare(first: Figures, second: Figures) -> Comparison:
    """Raises :class:`UsageError` where no clip or no value is in both."""
    ids = [set(side.clips["clip_id"]) for side in (first, second)]
    if not ids[0] & ids[1]:
        examples = "; ".join(
            f"{side.name}: {min(own, default='none')!r}" for side, own in zip((first, second), ids, strict=True)
        )
        raise UsageError(f"no clip is both in {first.name} and in {second.name}", f"clips such as {examples}")
    shared = tuple(name for name in COMPARED if _has(first, name) and _has(second, name))
    if not shared:
        raise UsageError(f"no value is both in {first.name} and in {second.name}", "compare results of the same kind")
    clips = first.clips.join(second.clips, on="clip_id", suffix=":second").sort("clip_id")
    clips = clips.select(
        "clip_id",
        *(
            column
            for name in shared
            for column in (
                pl.col(name).alias(f"{name}_a"),
                pl.col(f"{name}:second").alias(f"{name}_b"),
                (pl.col(name) - pl.col(f"{name}:second")).alias(f"{name}_difference"),
            )
        ),
    )
    differs = {name: _differs(name, max(first.half_unit(name), second.half_unit(name))) for name in shared}
    counts = clips.select(differs[name].sum().cast(pl.Int64).alias(name) for name in shared).row(0, named=True)
    clips = clips.with_columns(pl.any_horizontal(differs.values()).alias("differs"))
    return Comparison(
        first,
        second,
        shared,
        _largest_first(clips, shared),
        _metrics(first, second, shared, counts),
        tuple(sorted(ids[0] - ids[1])),
        tuple(sorted(ids[1] - ids[0])),
    )


def _has(side: Figures, name: str) -> bool:
    return side.clips[name].null_count() < side.clips.height


def _differs(name: str, half_unit: float) -> pl.Expr:
    one_lacks = pl.col(f"{name}_a").is_null() != pl.col(f"{name}_b").is_null()
    return one_lacks | (pl.col(f"{name}_difference").abs() > half_unit + _SLACK).fill_null(False)


def _largest_first(clips: pl.DataFrame, shared: tuple[str, ...]) -> pl.DataFrame:
    """By the largest difference in percent, then in counts, then by clip; a value that one side lacks comes first."""

    def largest(names: list[str]) -> pl.Expr:
        lacking = [pl.col(f"{n}_a").is_null() != pl.col(f"{n}_b").is_null() for n in names]
        sizes = [pl.col(f"{n}_difference").abs() for n in names]
        return pl.when(pl.any_horizontal(lacking)).then(float("inf")).otherwise(pl.max_horizontal(sizes))

    groups = [[n for n in shared if n in METRICS], [n for n in shared if n not in METRICS]]
    order = [largest(group) for group in groups if group]
    return clips.sort(*order, "clip_id", descending=[*(True for _ in order), False], nulls_last=True)


def _metrics(first: Figures, second: Figures, shared: tuple[str, ...], counts: Mapping[str, int]) -> pl.DataFrame:
    differing = pl.DataFrame(
        [(name, count, 0 if name in JUDGED else count) for name, count in counts.items()],
        schema={"metric": pl.String, "differing_clips": pl.Int64, "failing_clips": pl.Int64},
        orient="row",
    )
    means = paired_differences(first.clips, second.clips)
    wanted = pl.col("metric").is_in([*shared, *(["headline"] if _has_headline(shared) else [])])
    return means.filter(wanted).join(differing, on="metric", how="left", maintain_order="left")


def _has_headline(shared: tuple[str, ...]) -> bool:
    return {"pa_f1", "boundary_f1", "temporal_f1"} <= set(shared)
