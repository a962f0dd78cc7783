"""A comparison of two results as text and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from mabpl.metrics import METRICS
from mabpl.report.results import TITLES
from mabpl.report.tables import Show, plain, render

if TYPE_CHECKING:
    from mabpl.benchmarks.micro_annotation.compare import Comparison

_COUNTS = {
    "x": "X", "y": "Y", "assigned": "Assigned", "b": "B", "k": "K", "t": "T", "j": "J", "credit": "Credit",
    "strict_credit": "Strict credit",
}  # fmt: skip


def comparison_text(comparison: Comparison, *, every: bool = False) -> str:
    """The clips that differ (``every``: all), each value's difference with its interval, and a line that sums up."""
    first, second = comparison.first.name, comparison.second.name
    title = f"A = {first}, B = {second}" + (f" on {comparison.first.set}" if comparison.first.set else "")
    rows = comparison.clips if every else comparison.clips.filter("differs")
    parts = [f"{plain(title)}\n"]
    if rows.height:
        parts = [render(rows, columns=_clip_columns(comparison, every), title=title)]
    metrics = comparison.metrics.with_columns(
        pl.col("metric").replace_strict(_titles(comparison.metrics["metric"].to_list())).alias("value")
    ).rename({"low": "difference_low", "high": "difference_high"})
    columns = [
        Show("value", "Value"),
        Show("first", "A", "percent", digits=2),
        Show("second", "B", "percent", digits=2),
        Show("difference", "A-B", "interval", digits=2),
        Show("differing_clips", "Clips that differ", "count"),
    ]
    notes = [
        "Over the clips that both have: F1 scores and headline as a set adds them up, counts as means of a clip.",
        "[ , ]: 95% interval of a paired bootstrap over clips; where it holds 0, other clips might turn the order.",
    ]
    parts.append(render(metrics, columns=columns, notes=notes))
    parts.append(_sum_up(comparison))
    return "\n".join(parts)


def _clip_columns(comparison: Comparison, every: bool) -> list[Show]:
    """A, B and the difference of each value; without ``every`` only of those that differ in some clip."""
    differing = set(comparison.metrics.filter(pl.col("differing_clips") > 0)["metric"])
    names = [name for name in comparison.shared if every or name in differing]
    titles = _titles(names)
    columns = [Show("clip_id", "Clip")]
    for name in names:
        digits = 2 if name in METRICS or "credit" in name else 0
        columns += [
            Show(f"{name}_a", f"{titles[name]} A", "percent", digits=digits),
            Show(f"{name}_b", "B", "percent", digits=digits),
            Show(f"{name}_difference", "A-B", "percent", digits=digits),
        ]
    return columns


def _titles(names: list[str]) -> dict[str, str]:
    own = {name: TITLES[name][0] for name in names if name in TITLES}
    return {name: own.get(name) or _COUNTS.get(name) or METRICS[name].title for name in names}


def _sum_up(comparison: Comparison) -> str:
    differing = int(comparison.clips["differs"].sum())
    failing = comparison.metrics.filter(pl.col("failing_clips") > 0)["metric"].to_list()
    judged = comparison.metrics.filter((pl.col("differing_clips") > 0) & (pl.col("failing_clips") == 0))["metric"]
    lines = [f"{differing} of {comparison.clips.height} clips differ"]
    for side, only in (("A", comparison.only_first), ("B", comparison.only_second)):
        if only:
            lines.append(f"{len(only)} clips are only in {side}")
    text = "; ".join(lines) + ".\n"
    if failing:
        text += f"Without a judge, yet different: {', '.join(failing)}.\n"
    elif not judged.is_empty():
        text += "What needs no judge is equal; judged values differ.\n"
    else:
        text += "Equal.\n"
    return text


def comparison_document(comparison: Comparison) -> dict[str, Any]:
    """Everything, unrounded."""
    clips = {row.pop("clip_id"): row for row in comparison.clips.to_dicts()}
    values = {row.pop("metric"): row for row in comparison.metrics.to_dicts()}
    return {
        "a": comparison.first.name,
        "b": comparison.second.name,
        "set": comparison.first.set,
        "equal_without_judge": not comparison.failed,
        "values": values,
        "clips": {
            clip: {
                "differs": row["differs"],
                **{
                    name: {"a": row[f"{name}_a"], "b": row[f"{name}_b"], "difference": row[f"{name}_difference"]}
                    for name in comparison.shared
                },
            }
            for clip, row in clips.items()
        },
        "only_a": list(comparison.only_first),
        "only_b": list(comparison.only_second),
        "half_units": comparison.second.half_units,
        "notes": [*comparison.first.notes, *comparison.second.notes],
    }
