"""The standing of a tournament to read, as JSON and as a chart.

Beside each number stands how sure it is; what was not fitted by maximum likelihood, and neighbours that the resamples
of clips do not tell apart, are named.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from mabpl.errors import unknown_name
from mabpl.report.charts import altair_module, in_house_style
from mabpl.report.tables import Format, Show, render
from mabpl.stats.bradley_terry import PRIOR
from mabpl.tables.files import to_json

if TYPE_CHECKING:
    from altair import VConcatChart

    from mabpl.tournament.standings import Standings

_RULE = (
    "Bradley-Terry log strengths (natural log, mean 0), maximum likelihood; in brackets the win rate, wins / (wins + "
    "losses). A comparison counts only when both orders name the same arm. [ , ]: 95% interval of a bootstrap over "
    "clips."
)
_WITH_PRIOR = (
    f"No maximum-likelihood fit: {{}}. The strengths are those with a prior ({PRIOR:g} wins and {PRIOR:g} losses of "
    "each arm, spread over the others), without intervals."
)
_BLUE, _GREY = "#0072b2", "#777777"


def standings_text(
    standings: Standings,
    format: Format = "terminal",  # noqa: A002
    notes: Iterable[str] = (),
    *,
    matrix: bool = True,
) -> str:
    """The standing of each set and dimension, the judge's checks and, with ``matrix``, who beat whom.

    ``json`` is one document of all tables but the games, unrounded; ``csv`` the table `standings`. ``notes``: what the
    caller has to add (who judged), shown last in terminal and Markdown.
    """
    if format == "json":
        return to_json(standings_document(standings))
    if format == "csv":
        frame = standings.standings
        return render(frame, format=format, columns=[Show(name) for name in frame.columns])
    said = [_RULE, *(["An agreeing tie is half a win to each side."] if standings.settings["ties"] == "half" else [])]
    panels = standings.standings.partition_by(["set", "dimension"], maintain_order=True)
    parts = []
    for number, rows in enumerate(panels, 1):
        set_name, dimension = rows.select("set", "dimension").row(0)
        checks = standings.checks.row(by_predicate=_is(set_name, dimension), named=True)
        size = f"{checks['arms']} arms, {checks['clips']} clip{'s' * (checks['clips'] != 1)}"
        title = f"{dimension.capitalize()} on {set_name}: {size}"
        last = [*said, *notes] if number == len(panels) else []
        of_standing = [*_notes(rows, checks), *(last if not matrix else [])]
        frame, columns = _shown(rows)
        parts.append(render(frame, format=format, columns=columns, title=title, notes=of_standing))
        if matrix:
            won = standings.win_matrix.filter(_is(set_name, dimension))
            frame, columns = _matrix(won, rows["arm"].to_list())
            title = f"{title}; comparisons won, row against column"
            parts.append(render(frame, format=format, columns=columns, title=title, notes=last))
    return "\n".join(parts)


def standings_document(standings: Standings) -> dict[str, Any]:
    """Settings, `standings`, `tournament_checks` and `win_matrix`, unrounded."""
    tables = {name: frame.to_dicts() for name, frame in standings.tables().items() if name != "games"}
    return {"settings": standings.settings, **tables}


def _is(set_name: str, dimension: str) -> pl.Expr:
    return (pl.col("set") == set_name) & (pl.col("dimension") == dimension)


def _shown(rows: pl.DataFrame) -> tuple[pl.DataFrame, list[Show]]:
    """The standing of one set and dimension, with strength and win rate in one cell, as they are published."""
    sure = rows["strength_low"].null_count() < rows.height
    rates = _aligned([None if rate is None else f"({rate:.0f}%)" for rate in rows["win_rate"]])
    strengths = [f"{value:+z.2f} {rate}" for value, rate in zip(rows["strength"], rates, strict=True)]
    bounds = rows.select("strength_low", "strength_high").rows()
    frame = rows.with_columns(
        pl.Series("shown", _aligned(strengths)),
        pl.Series("interval", _aligned([f"[{low:+z.2f}, {high:+z.2f}]" if sure else None for low, high in bounds])),
    )
    shows = [
        Show("arm", "Arm"),
        Show("rank", "Rank", "interval" if sure else "count", digits=0),
        Show("shown", "Strength (win rate)", short="Strength"),
        *([Show("interval", "95% interval", short="95%")] if sure else []),
        Show("wins", "Wins", "count"),
        Show("losses", "Losses", "count"),
    ]
    return frame, shows


def _aligned(texts: Sequence[str | None]) -> list[str]:
    """The right ends below each other."""
    width = max(len(text or "") for text in texts)
    return [(text or "").rjust(width) for text in texts]


def _notes(rows: pl.DataFrame, checks: dict[str, Any]) -> list[str]:
    first = rows.row(0, named=True)
    notes = []
    if first["fit"] == "prior":
        notes.append(_WITH_PRIOR.format(first["reason"]))
    elif first["replicates_without_fit"]:
        left = f"{first['replicates_without_fit']} of {first['replicates']} resamples have no fit"
        known = first["strength_low"] is not None
        notes.append(f"{left} and are left out of the intervals." if known else f"{left}: too many for intervals.")
    if first["strength_low"] is None and not first["replicates"]:
        notes.append("Without intervals: a single clip, or none were asked for.")
    together = inseparable(rows)
    if together:
        notes.append(f"Neighbours that cannot be separated: {'; '.join(' ~ '.join(chain) for chain in together)}.")
    return [*notes, *_checked(checks)]


def inseparable(rows: pl.DataFrame) -> list[list[str]]:
    """Runs of neighbours in a standing, each of which cannot be separated from the next; ``rows``: of one panel."""
    chains: list[list[str]] = [[]]
    for arm, separated in rows.select("arm", "separated_from_next").iter_rows():
        chains[-1].append(arm)
        if separated is not False:
            chains.append([])
    return [chain for chain in chains if len(chain) > 1]


def _checked(checks: dict[str, Any]) -> list[str]:
    counted = (
        f"{checks['counted']:,} of {checks['comparisons']:,} comparisons count (ties {checks['ties']:,}, disagreements "
        f"{checks['disagreements']:,}, missing {checks['missing']:,})."
    )
    shares = []
    if checks["order_consistency"] is not None:
        shares.append(f"Both orders agree in {_share(checks, 'order_consistency')} of comparisons.")
    if checks["position_bias"] is not None:
        shares.append(f"The arm shown first wins {_share(checks, 'position_bias')} of decided verdicts (no bias: 50%).")
    return [counted, *shares]


def _share(checks: dict[str, Any], name: str) -> str:
    value, low, high = (checks[f"{name}{suffix}"] for suffix in ("", "_low", "_high"))
    return f"{value:.1f}%" + (f" [{low:.1f}, {high:.1f}]" if low is not None else "")


def _matrix(won: pl.DataFrame, order: list[str]) -> tuple[pl.DataFrame, list[Show]]:
    """Arms in the order of the standing, by their numbers in the head."""
    wins = {(arm, other): wins for arm, other, wins in won.select("arm", "other", "wins").iter_rows()}
    columns: dict[str, list[Any]] = {"arm": [f"{number}. {arm}" for number, arm in enumerate(order, 1)]}
    columns |= {str(number): [wins.get((arm, other)) for arm in order] for number, other in enumerate(order, 1)}
    shows = [Show("arm", "Arm"), *(Show(str(number), kind="count") for number in range(1, len(order) + 1))]
    return pl.DataFrame(columns), shows


# --- chart ---


def standings_chart(
    standings: Standings, set_name: str | None = None, dimension: str | None = None, *, width: int = 260
) -> VConcatChart:
    """Strengths with their intervals and, beside them, the share of wins of each row against each column.

    One line for each set and dimension, or only those of ``set_name`` and ``dimension``. Arms stand in the order of
    their standing. ``width`` of the strengths in pixels. Raises :class:`~mabpl.errors.UsageError` for a set or
    dimension that was not played.
    """
    alt = altair_module()
    rows = standings.standings
    for name, asked in (("set", set_name), ("dimension", dimension)):
        if asked is not None:
            known = rows[name].unique().sort().to_list()
            if asked not in known:
                raise unknown_name(name, asked, known)
            rows = rows.filter(pl.col(name) == asked)
    lines = []
    for panel in rows.partition_by(["set", "dimension"], maintain_order=True):
        of_set, of = panel.select("set", "dimension").row(0)
        won = standings.win_matrix.filter(_is(of_set, of))
        line = alt.hconcat(_strengths(alt, panel, width), _shares(alt, won, panel["arm"].to_list()))
        lines.append(line.properties(title=f"{of.capitalize()}, {of_set}").resolve_scale(color="independent"))
    chart: VConcatChart = in_house_style(alt.vconcat(*lines))
    return chart


def _strengths(alt: Any, panel: pl.DataFrame, width: int) -> Any:
    data = panel.select(
        pl.col("arm").alias("who"),
        *(pl.col(name).round(3).alias(to) for name, to in _VALUES.items()),
        *(pl.col(name).alias(name) for name in ("rank", "wins", "losses")),
        pl.when(pl.col("fit") == "ml")
        .then(pl.lit("maximum likelihood"))
        .otherwise(pl.lit("with a prior"))
        .alias("fit"),
    )
    fits = data["fit"].unique(maintain_order=True).to_list()
    colours = alt.Scale(domain=fits, range=[_BLUE if fit == "maximum likelihood" else _GREY for fit in fits])
    tips = [alt.Tooltip(name, type="nominal") for name in ("who", "fit", "rank", "wins", "losses")]
    tips += [alt.Tooltip(name, type="quantitative", format=".2f") for name in _VALUES.values()]
    base = alt.Chart(data).encode(
        y=alt.Y("who", type="nominal", sort=panel["arm"].to_list(), title=None),
        color=alt.Color("fit", type="nominal", title=None, scale=colours, legend=None),
        tooltip=tips,
    )
    title = "log strength" if fits == ["maximum likelihood"] else "log strength (with a prior: no fit without)"
    rules = base.mark_rule(strokeWidth=2).encode(
        x=alt.X("low", type="quantitative", title=title, scale=alt.Scale(zero=True)), x2="high"
    )
    points = base.mark_point(size=60, filled=True, opacity=1).encode(x=alt.X("strength", type="quantitative"))
    return alt.layer(rules, points).properties(width=width, height=alt.Step(_STEP))


def _shares(alt: Any, won: pl.DataFrame, order: list[str]) -> Any:
    """Blue where the row wins, orange where the column does."""
    games = pl.col("wins") + pl.col("losses")
    data = won.select(
        pl.col("arm").alias("who"),
        pl.col("other").alias("against"),
        "wins",
        "losses",
        "undecided",
        pl.when(games > 0).then(100 * pl.col("wins") / games).round(1).alias("share"),
    )
    scale = alt.Scale(domain=[0, 50, 100], range=["#d55e00", "#f7f7f7", _BLUE])
    base = alt.Chart(data).encode(
        x=alt.X("against", type="nominal", sort=order, title="against", axis=alt.Axis(labelAngle=-45)),
        y=alt.Y("who", type="nominal", sort=order, title=None, axis=None),
        tooltip=[alt.Tooltip(name, type="nominal") for name in ("who", "against", "wins", "losses", "undecided")],
    )
    cells = base.mark_rect(stroke="white").encode(
        color=alt.Color("share", type="quantitative", title="wins, %", scale=scale)
    )
    numbers = base.mark_text(fontSize=9).encode(text=alt.Text("share", type="quantitative", format=".0f"))
    return alt.layer(cells, numbers).properties(width=alt.Step(_STEP), height=alt.Step(_STEP))


_VALUES = {"strength": "strength", "strength_low": "low", "strength_high": "high"}
_STEP = 26
