"""A metric in words: its definition, its options, and an example that is worked out by the scorer itself."""

from __future__ import annotations

import textwrap

import polars as pl

from mabpl.errors import unknown_name
from mabpl.metrics import HEADLINE_WEIGHTS, METRICS
from mabpl.metrics.metric import Example, Metric
from mabpl.report.tables import render, terminal_width
from mabpl.settings import Settings

HEADLINE = "headline"
OPTIONS = "options"


def text(name: str | None = None) -> str:
    """The explanation of a metric, of the headline score or of the options; without a name, the list of metrics."""
    if name is None:
        rows = [{"metric": m.name, "title": m.title, "rule": m.rule} for m in METRICS.values()]
        rows.append({"metric": HEADLINE, "title": "Score", "rule": _headline()})
        hint = "mabpl explain METRIC tells more; mabpl explain options lists what can be set."
        return render(pl.DataFrame(rows), notes=[hint], width=_width())
    if name == OPTIONS:
        rows = [
            {"option": option, "default": default, "meaning": what} for option, default, what in Settings.described()
        ]
        return render(pl.DataFrame(rows), notes=["Set with --set-option OPTION=VALUE, or mabpl.Settings(...)."])
    if name == HEADLINE:
        return _wrapped(f"{_headline()}. Over both sets: the sets' values weighted by their numbers of clips.") + "\n"
    if name not in METRICS:
        raise unknown_name("metric", name, [*METRICS, HEADLINE, OPTIONS])
    return _metric(METRICS[name])


def _metric(metric: Metric) -> str:
    parts = [f"{metric.title} ({metric.name}), in percent", *map(_wrapped, metric.definition.strip().split("\n\n"))]
    below = " + ".join(metric.denominator)
    over = "summed over the clips of a set" if metric.pooled else "of a clip, then the mean over clips"
    parts.append(f"{metric.name} = 100 * {metric.factor} * {metric.numerator} / ({below}), {over}")
    described = {name: (default, what) for name, default, what in Settings.described()}
    options = [f"  {name} = {described[name][0]}: {described[name][1]}" for name in metric.options]
    parts.append("Options:\n" + "\n".join(options))
    family = [m for m in METRICS.values() if m.family == metric.family and m.example]
    if family and family[0].example:
        parts.append(_example(family[0], family[0].example))
    return "\n\n".join(parts) + "\n"


def _example(metric: Metric, example: Example) -> str:
    """The example as a drawing, the explanation, and what the scorer makes of it."""
    end = max(stop for _, stop in (*example.human, *example.predicted))
    lanes = [_lane(name, spans, end) for name, spans in (("human", example.human), ("predicted", example.predicted))]
    x, y = len(example.predicted), len(example.human)
    numerator = example.credit[0] if example.credit is not None else _count(metric, example)
    below = {"x": x, "y": y}
    value = 100 * metric.factor * numerator / sum(below[name] for name in metric.denominator)
    sum_of = " + ".join(str(below[name]) for name in metric.denominator)
    worked = f"{metric.title} = 100 * {metric.factor} * {numerator:g} / ({sum_of}) = {value:.1f}"
    return "\n".join(["Example:", *lanes, _wrapped(example.why, "  "), f"  {worked}"])


def _count(metric: Metric, example: Example) -> int:
    from mabpl import timelines
    from mabpl.metrics.matches import match

    def frame(spans: tuple[tuple[float, float], ...]) -> pl.DataFrame:
        columns = {"start_s": [s for s, _ in spans], "end_s": [e for _, e in spans]}
        return pl.DataFrame(columns).with_columns(
            pl.lit("").alias("run"), pl.lit("").alias("set"), pl.lit("").alias("clip_id"),
            pl.lit(False).alias("is_idle"), pl.int_range(pl.len(), dtype=pl.Int32).alias("segment"),
        )  # fmt: skip

    human = frame(example.human)
    built = timelines.build(human.select("set", "clip_id"), human, None, frame(example.predicted))
    return int(match(built, Settings(), [metric.family]).counts(metric.family)[0])


def _lane(name: str, spans: tuple[tuple[float, float], ...], end: float, cells: int = 54) -> str:
    row = [" "] * (cells + 1)
    for start, stop in spans:
        a, b = round(start / end * cells), round(stop / end * cells)
        row[a:b] = list(f"[{start:g}-{stop:g}".ljust(b - a - 1, "─")[: b - a - 1] + "]")
    return f"  {name:<10}{''.join(row).rstrip()}"


def _headline() -> str:
    return "Score = " + " + ".join(f"{100 * w:g}% {METRICS[name].title}" for name, w in HEADLINE_WEIGHTS.items())


def _width() -> int:
    return min(terminal_width(), 110)


def _wrapped(paragraph: str, indent: str = "") -> str:
    return textwrap.fill(" ".join(paragraph.split()), _width(), initial_indent=indent, subsequent_indent=indent)
