"""Charts for notebooks and reports, by altair: scores with intervals, slices, and the timelines of a clip.

Every chart holds its own data, rounded and under fixed column names: nothing that a file says (a label, the name of a
run or of a column) is read as a field, an expression or HTML. :func:`offline` makes notebooks show the charts without
loading anything from the network.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from mabpl.errors import UsageError, missing_extra, unknown_name
from mabpl.report.results import ALL_SETS, TITLES

if TYPE_CHECKING:
    from altair import FacetChart, LayerChart

    from mabpl.benchmarks.micro_annotation.scores import Scores

# Colours that readers with colour blindness can tell apart (Okabe and Ito); grey is kept for what is not scored.
_PALETTE = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000"]
_STATES = {
    "matched": "#009e73",
    "matched by some runs": "#e69f00",
    "not matched": "#d55e00",
    "not scored": "#c8c8c8",
}
_LANE_HEIGHT = 34
_HUMAN = "(human)"


def offline() -> None:
    """From here on, charts are shown as a picture, with the Vega-Lite specification beside it; nothing is loaded.

    The picture is what a notebook's reader sees wherever notebooks are shown; an editor that draws Vega-Lite itself
    shows the tooltips too. Raises :class:`~mabpl.errors.MissingExtra` without altair or vl-convert-python.
    """
    alt = altair_module()
    try:
        import vl_convert
    except ImportError:
        raise missing_extra("vl-convert-python", "plot") from None
    version = ".".join(alt.SCHEMA_VERSION.split(".")[:2])
    scale = 2

    def show(spec: dict[str, Any], **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        png = vl_convert.vegalite_to_png(spec, vl_version=version, scale=scale, allowed_base_urls=[])
        width, height = (int.from_bytes(png[at : at + 4], "big") // scale for at in (16, 20))  # the PNG's header
        bundle = {f"application/vnd.vegalite.{version[:2]}+json": spec, "image/png": png, "text/plain": "<chart>"}
        return bundle, {"image/png": {"width": width, "height": height}}

    alt.renderers.register("mabpl-offline", show)
    alt.renderers.enable("mabpl-offline")


def interval_chart(table: pl.DataFrame, metric: str, *, who: str | None = None, width: int = 200) -> FacetChart:
    """A point for each configuration (or run) and its interval, best first; a panel for each set.

    ``table``: rows of :func:`mabpl.summarise` with ``ci``, or of :func:`mabpl.report.results.leaderboard`. ``who``: the
    column that names the rows, by default configuration, else run. ``width`` of a panel in pixels. Raises
    :class:`~mabpl.errors.UsageError` for a column that ``table`` lacks, or where nothing has a value.
    """
    alt = altair_module()
    rows = _values(table, metric, who)
    order = rows.group_by("who").agg(pl.col("value").mean()).sort(["value", "who"], descending=[True, False])
    y = alt.Y("who", type="nominal", sort=order["who"].to_list(), title=None)
    base = alt.Chart(rows).encode(y=y, tooltip=_tooltip(alt, metric))
    lines = base.mark_rule(strokeWidth=2, color=_PALETTE[0]).encode(
        x=alt.X("low", type="quantitative", title=_title(metric), scale=alt.Scale(zero=False)), x2="high"
    )
    points = base.mark_point(size=60, filled=True, opacity=1, color=_PALETTE[0]).encode(
        x=alt.X("value", type="quantitative")
    )
    chart = alt.layer(lines, points).properties(width=width, height=alt.Step(26))
    styled: FacetChart = in_house_style(chart.facet(column=_panels(alt, rows)))
    return styled


def slices_chart(table: pl.DataFrame, metric: str, by: str, *, who: str | None = None, width: int = 260) -> FacetChart:
    """A point for each slice and configuration (or run), with its interval; a panel for each set.

    ``table``: rows of :func:`mabpl.summarise` with ``by``; the intervals need ``ci``. Slices stand in their column's
    own order (for bins, an Enum). Raises as :func:`interval_chart` does.
    """
    alt = altair_module()
    rows = _values(table, metric, who, by)
    names = rows["who"].unique().sort().to_list()
    place = alt.X("slice", type="nominal", sort=_in_order(table, by), title=by, axis=alt.Axis(labelAngle=0))
    colour = alt.Color(
        "who", type="nominal", title=None, scale=alt.Scale(domain=names, range=_PALETTE), legend=alt.Legend()
    )
    base = alt.Chart(rows).encode(
        x=place,
        xOffset=alt.XOffset("who", type="nominal", sort=names),
        color=colour,
        tooltip=_tooltip(alt, metric, by),
    )
    lines = base.mark_rule(strokeWidth=2).encode(y=alt.Y("low", type="quantitative", title=_title(metric)), y2="high")
    points = base.mark_point(size=50, filled=True, opacity=1).encode(y=alt.Y("value", type="quantitative"))
    chart = alt.layer(lines, points).properties(width=width, height=220)
    panels = chart.facet(column=_panels(alt, rows)).resolve_scale(x="independent", xOffset="independent")
    styled: FacetChart = in_house_style(panels)
    return styled


def timeline_chart(
    scores: Scores, clip_id: str, runs: str | Sequence[str], *, metric: str = "boundary", width: int = 680
) -> LayerChart:
    """The human timeline of a clip and below it one lane for each run, coloured by whether ``metric`` matches them.

    Each segment carries its number; its label is in the tooltip. ``metric``: pa (the PA assignment), boundary, temporal
    or seg. Raises :class:`~mabpl.errors.UsageError` for a clip, run or metric that the result lacks.
    """
    alt = altair_module()
    rows = _lanes(scores, clip_id, [runs] if isinstance(runs, str) else list(dict.fromkeys(runs)), metric)
    lanes = rows["lane"].unique(maintain_order=True).to_list()
    states = [state for state in _STATES if state in rows["state"].to_list()]
    fields = ("segment", "label", "hands", "start_s", "end_s", "state")
    base = alt.Chart(rows).encode(
        x=alt.X("start_s", type="quantitative", title="seconds", scale=alt.Scale(nice=False)),
        y=alt.Y("lane", type="nominal", sort=lanes, title=None),
        tooltip=[alt.Tooltip(name, type="nominal", title=name.replace("_s", " (s)")) for name in fields],
    )
    colour = alt.Scale(domain=states, range=[_STATES[state] for state in states])
    bars = base.mark_bar(stroke="white", strokeWidth=1, opacity=0.9).encode(
        x2="end_s", color=alt.Color("state", type="nominal", title=None, scale=colour)
    )
    numbers = base.mark_text(align="left", dx=3, fontSize=9, opacity=0.8).encode(text=alt.Text("segment"))
    chart = alt.layer(bars, numbers).properties(width=width, height=alt.Step(_LANE_HEIGHT), title=clip_id)
    styled: LayerChart = in_house_style(chart)
    return styled


def altair_module() -> Any:
    """altair, or :class:`~mabpl.errors.MissingExtra`."""
    try:
        import altair
    except ImportError:
        raise missing_extra("altair", "plot") from None
    return altair


def _values(table: pl.DataFrame, metric: str, who: str | None, by: str | None = None) -> pl.DataFrame:
    """Columns panel, who, value, low, high, and slice as text; rows without a value are left out."""
    who = who or ("configuration" if "configuration" in table.columns else "run")
    for name in (metric, who, *([by] if by else [])):
        if name not in table.columns:
            raise unknown_name("column", name, table.columns)
    bounds = {side: f"{metric}_{side}" for side in ("low", "high")}
    rows = table.select(
        pl.col("set").fill_null(ALL_SETS).alias("panel") if "set" in table.columns else pl.lit(ALL_SETS).alias("panel"),
        pl.col(who).cast(pl.String).alias("who"),
        pl.col(metric).round(2).alias("value"),
        *(
            (pl.col(name) if name in table.columns else pl.lit(None, pl.Float64)).round(2).alias(side)
            for side, name in bounds.items()
        ),
        *([pl.col(by).cast(pl.String).fill_null("none").alias("slice")] if by else []),
    ).drop_nulls("value")
    if rows.is_empty():
        raise UsageError(f"{metric} has no values here", "metrics of label quality need a judge")
    return rows


def _in_order(table: pl.DataFrame, by: str) -> list[str]:
    return table.select(pl.col(by).unique().sort(nulls_last=True).cast(pl.String).fill_null("none"))[by].to_list()


def _panels(alt: Any, rows: pl.DataFrame) -> Any:
    names = rows["panel"].unique(maintain_order=True).to_list()
    return alt.Column("panel", type="nominal", sort=names, title=None)


def _tooltip(alt: Any, metric: str, by: str | None = None) -> list[Any]:
    named = {"panel": "set", "who": "of", **({"slice": "slice"} if by else {})}
    numbers = {"value": _title(metric), "low": "low", "high": "high"}
    return [alt.Tooltip(field, type="nominal", title=title) for field, title in named.items()] + [
        alt.Tooltip(field, type="quantitative", title=title, format=".1f") for field, title in numbers.items()
    ]


def _title(metric: str) -> str:
    return TITLES.get(metric, (metric.replace("_", " "),))[0]


def _lanes(scores: Scores, clip_id: str, runs: list[str], metric: str) -> pl.DataFrame:
    """One row per segment and lane: lane, segment, start_s, end_s, label, hands, state."""
    segments = scores.segments.filter(pl.col("clip_id") == clip_id)
    if segments.is_empty():
        raise unknown_name("clip", clip_id, scores.segments["clip_id"].unique().sort().to_list())
    have = segments["run"].drop_nulls().unique().sort().to_list()
    for run in runs:
        if run not in have:
            raise unknown_name("run", run, have)
    metrics = scores.matches["metric"].unique().sort().to_list()
    if metric not in metrics:
        raise unknown_name("metric", metric, metrics)
    matched = scores.matches.filter(
        (pl.col("clip_id") == clip_id) & (pl.col("metric") == metric) & pl.col("run").is_in(runs)
    )
    by_human = matched.group_by("human").agg(pl.len().alias("hits")).select(pl.col("human").alias("segment"), "hits")
    lanes = [segments.filter(pl.col("run").is_null()).join(by_human, on="segment", how="left")]
    for run in runs:
        hits = matched.filter(pl.col("run") == run).select(pl.col("predicted").alias("segment"), hits=len(runs))
        lanes.append(segments.filter(pl.col("run") == run).join(hits, on="segment", how="left"))
    count = pl.col("hits").fill_null(0)
    state = (
        pl.when(pl.col("is_idle") | pl.col("flagged")).then(pl.lit("not scored"))
        .when(count == len(runs)).then(pl.lit("matched"))
        .when(count > 0).then(pl.lit("matched by some runs"))
        .otherwise(pl.lit("not matched"))
    )  # fmt: skip
    rows = pl.concat([lane.with_columns(pl.col("hits").cast(pl.Int64)).sort("start_s", "segment") for lane in lanes])
    lane = pl.col("run").fill_null(_HUMAN)
    return rows.select(lane.alias("lane"), "segment", "start_s", "end_s", "label", "hands", state.alias("state"))


def in_house_style(chart: Any) -> Any:
    """White ground (pictures are read on dark pages too), and quiet lines."""
    return (
        chart.configure(background="white", padding=8)
        .configure_view(stroke="#dddddd")
        .configure_axis(gridColor="#eeeeee", domainColor="#999999", tickColor="#999999", labelLimit=260)
        .configure_header(labelFontWeight="bold", labelLimit=300)
        .configure_title(anchor="start", fontSize=12)
    )
