"""From verdicts to a standing: which comparisons count, the strengths of the arms, and how far the judge is consistent.

A *game* is two arms on one clip, by one judge seed. It counts only when both orders name the same arm; agreeing ties,
disagreements and missing verdicts count nowhere. Strengths are :mod:`mabpl.stats.bradley_terry`'s, for each set and
dimension. Intervals are 95%, of a bootstrap over clips. No call is made here: any subset of clips or arms is refitted
from the same games.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl

from mabpl.errors import UsageError, unknown_name
from mabpl.stats import bootstrap, bradley_terry
from mabpl.stats.bradley_terry import Ties
from mabpl.tables.columns import Table
from mabpl.tables.tournament import COMPARISONS, GAMES, STANDINGS, TOURNAMENT_CHECKS, WIN_MATRIX

VERDICTS = ("A", "B", "tie")
OUTCOMES = ("counted", "tie", "disagreement", "missing")
_SHOWN = 5
_PANEL = ["set", "dimension"]
_GAME = ["set", "clip_id", "dimension", "arm", "other", "judge_seed"]


@dataclass(frozen=True, slots=True)
class Standings:
    """A standing and what it was made from, as tables of these names (``checks`` is `tournament_checks`).

    ``standings``: by set and dimension, the strongest first. ``games``: those of the chosen clips and arms.
    ``settings``: ties, replicates, seed; clips and arms, where they were chosen.
    """

    standings: pl.DataFrame
    win_matrix: pl.DataFrame
    checks: pl.DataFrame
    games: pl.DataFrame
    settings: dict[str, Any]

    def tables(self) -> dict[str, pl.DataFrame]:
        """Every table by its public name."""
        return {
            "games": self.games,
            "standings": self.standings,
            "win_matrix": self.win_matrix,
            "tournament_checks": self.checks,
        }


# --- which comparisons count ---


def games(comparisons: pl.DataFrame, verdicts: pl.DataFrame) -> pl.DataFrame:
    """The table `games`: one row per pair of arms, clip, dimension and judge seed.

    ``comparisons``: the table of that name. ``verdicts``: columns request, judge_seed, status and verdict of the table
    of that name, of one judge; those of other requests are left out. Every seed that is found is expected of every
    comparison. Raises :class:`~mabpl.errors.UsageError` for a table that is not sound, for verdicts of several judges,
    and where a request has two verdicts of one seed.
    """
    orders = _sound(comparisons, COMPARISONS)
    itself = orders.filter(pl.col("first") == pl.col("second"))
    if itself.height:
        clip, arm = itself.sort("clip_id").select("clip_id", "first").row(0)
        raise UsageError(f"comparisons: clip {clip} compares arm {arm!r} with itself", "drop these rows")
    answers = _answers(orders, verdicts)
    seeds = answers.select("judge_seed").unique() if answers.height else pl.DataFrame({"judge_seed": [None]})
    arm_first = pl.col("first") < pl.col("second")
    asked = orders.with_columns(
        pl.when(arm_first).then("first").otherwise("second").alias("arm"),
        pl.when(arm_first).then("second").otherwise("first").alias("other"),
        arm_first.alias("arm_first"),
    ).join(seeds.cast({"judge_seed": pl.Int64}), how="cross")
    said = asked.join(answers, on=["request", "judge_seed"], how="left", nulls_equal=True)
    rows = said.group_by(_GAME).agg(
        pl.col("verdict").filter("arm_first").first().alias("verdict_arm_first"),
        pl.col("verdict").filter(~pl.col("arm_first")).first().alias("verdict_other_first"),
    )
    return GAMES.conform(rows.with_columns(_outcome()).with_columns(_winner())).sort(_GAME)


def _answers(orders: pl.DataFrame, verdicts: pl.DataFrame) -> pl.DataFrame:
    """Columns request, judge_seed, verdict of the verdicts to these comparisons; null where there is none."""
    columns = ["request", "judge_seed", "status", "verdict"]
    _require(verdicts, columns, "verdicts")
    ours = verdicts.join(orders.select("request").unique(), on="request", how="semi")
    for name in ("judge", "route"):
        if name in ours.columns and ours[name].n_unique() > 1:
            found = ", ".join(map(repr, ours[name].unique().sort()))
            raise UsageError(f"verdicts of several judges ({name} {found})", f"filter them to one {name}")
    answers = ours.select(
        "request",
        pl.col("judge_seed").cast(pl.Int64),
        pl.when(pl.col("status") == "ok").then(pl.col("verdict").cast(pl.String)).alias("verdict"),
    )
    unknown = answers.filter(~pl.col("verdict").is_in(VERDICTS))["verdict"].unique().sort().to_list()
    if unknown:
        raise UsageError(f"verdicts hold {_some(unknown)}", f"known: {', '.join(VERDICTS)}")
    twice = answers.filter(pl.struct("request", "judge_seed").is_duplicated()).sort("request", "judge_seed")
    if twice.height:
        raise UsageError(
            f"several verdicts of one judge seed for {_some(twice['request'].unique(maintain_order=True).to_list())}",
            "keep those that were asked in the same way (temperature, thinking)",
        )
    return answers


def _outcome() -> pl.Expr:
    mine, theirs = pl.col("verdict_arm_first"), pl.col("verdict_other_first")
    agree = ((mine == "A") & (theirs == "B")) | ((mine == "B") & (theirs == "A"))
    return (
        pl.when(mine.is_null() | theirs.is_null()).then(pl.lit("missing"))
        .when(agree).then(pl.lit("counted"))
        .when((mine == "tie") & (theirs == "tie")).then(pl.lit("tie"))
        .otherwise(pl.lit("disagreement"))
        .alias("outcome")
    )  # fmt: skip


def _winner() -> pl.Expr:
    winner = pl.when(pl.col("verdict_arm_first") == "A").then("arm").otherwise("other")
    return pl.when(pl.col("outcome") == "counted").then(winner).alias("winner")


# --- the standing ---


def stand(
    games: pl.DataFrame,
    *,
    clips: Collection[str] | None = None,
    arms: Collection[str] | None = None,
    replicates: int = bradley_terry.REPLICATES,
    seed: int = bootstrap.SEED,
    ties: Ties = "nowhere",
) -> Standings:
    """The standing of ``games`` (the table), or of those on some ``clips`` or between some ``arms``.

    ``replicates``: resamples of clips, 0 for no intervals. A single clip has none, nor have strengths and ranks where
    fewer than half of the resamples have a fit. ``ties``: what an agreeing tie is
    worth to the fit; win rates, wins and losses are without ties either way. Where wins and losses have no
    maximum-likelihood fit, a small prior is added (:func:`mabpl.stats.bradley_terry.with_prior`) and every row of the
    set and dimension says so, with the reason. Raises :class:`~mabpl.errors.UsageError` for games that are not sound,
    an unknown clip or arm, fewer than two arms, and fewer ``replicates`` than have percentiles.
    """
    _check_options(replicates, ties)
    rows = _sound(games, GAMES)
    _check_games(rows)
    chosen: dict[str, Any] = {"ties": ties, "replicates": replicates, "seed": seed}
    if clips is not None:
        chosen["clips"] = _known("clip", clips, rows["clip_id"].unique().sort().to_list())
        rows = rows.filter(pl.col("clip_id").is_in(chosen["clips"]))
    if arms is not None:
        chosen["arms"] = _known("arm", arms, sorted({*rows["arm"], *rows["other"]}))
        rows = rows.filter(pl.col("arm").is_in(chosen["arms"]) & pl.col("other").is_in(chosen["arms"]))
    if rows.is_empty():
        raise UsageError("no two of these arms were compared on these clips", "choose two arms and one clip at least")
    rows = rows.sort(_GAME)
    panels = [_panel(panel, replicates, seed, ties) for panel in rows.partition_by(_PANEL, maintain_order=True)]
    standing, matrix, checks = (pl.concat(frames) for frames in zip(*panels, strict=True))
    return Standings(
        STANDINGS.conform(standing).sort("set", "dimension", "rank", "arm"),
        WIN_MATRIX.conform(matrix).sort(WIN_MATRIX.key),
        TOURNAMENT_CHECKS.conform(checks).sort(TOURNAMENT_CHECKS.key),
        rows,
        chosen,
    )


def _panel(
    rows: pl.DataFrame, replicates: int, seed: int, ties: Ties
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """`standings`, `win_matrix` and `tournament_checks` of one set and dimension."""
    arms = sorted({*rows["arm"], *rows["other"]})
    clips = rows["clip_id"].unique().sort().to_list()
    drawn = replicates if len(clips) > 1 else 0
    weights = bootstrap.clip_weights(len(clips), drawn, seed) if drawn else np.zeros((0, len(clips)))
    index = rows.select(
        pl.col("clip_id").replace_strict(clips, range(len(clips)), return_dtype=pl.Int64).alias("clip"),
        *(pl.col(n).replace_strict(arms, range(len(arms)), return_dtype=pl.Int64) for n in ("arm", "other")),
        (pl.col("winner") == pl.col("arm")).alias("won"),
        "outcome",
    )
    tensors = {
        name: _tensor(index.filter(chosen), len(clips), len(arms))
        for name, chosen in {
            "won": pl.col("won"),
            "lost": ~pl.col("won"),
            "tied": pl.col("outcome") == "tie",
            "undecided": pl.col("outcome") != "counted",
        }.items()
    }
    wins = tensors["won"] + tensors["lost"].swapaxes(1, 2)
    tied, undecided = (tensors[name] + tensors[name].swapaxes(1, 2) for name in ("tied", "undecided"))
    key = {name: rows[name][0] for name in _PANEL}
    standing = _standing(arms, wins, bradley_terry.with_ties(wins, tied, ties), weights)
    matrix = _matrix(arms, wins.sum(axis=0), undecided.sum(axis=0))
    checks = _checks(rows, clips, weights).with_columns(arms=pl.lit(len(arms)))
    named = [pl.lit(value).alias(name) for name, value in key.items()]
    return standing.with_columns(named), matrix.with_columns(named), checks.with_columns(named)


def _tensor(index: pl.DataFrame, clips: int, arms: int) -> bootstrap.Floats:
    """How many rows there are for each (clip, arm, other)."""
    cells = index.select((pl.col("clip") * arms + pl.col("arm")) * arms + pl.col("other")).to_series().to_numpy()
    return np.bincount(cells, minlength=clips * arms**2).reshape(clips, arms, arms).astype(np.float64)


def _standing(
    arms: list[str], wins: bootstrap.Floats, counting: bootstrap.Floats, weights: bootstrap.Floats
) -> pl.DataFrame:
    """``wins`` (clips, arms, arms) as they are counted, ``counting`` as they are fitted."""
    total = counting.sum(axis=0)
    reason = why_no_fit(arms, total)
    strengths = bradley_terry.fit(total)
    if reason is None and np.isnan(strengths).any():
        reason = "the fit did not converge"
    if reason is not None:
        strengths = bradley_terry.fit(bradley_terry.with_prior(total))
    sure = bradley_terry.intervals(counting, weights)
    ranks = bradley_terry.ranks(strengths)
    order = sorted(range(len(arms)), key=lambda i: (ranks[i], arms[i]))
    separated: list[bool | None] = [None] * len(arms)
    if sure.known:
        for arm, following in pairwise(order):
            separated[arm] = bool(sure.separated[arm, following])
    won, lost = wins.sum(axis=(0, 2)), wins.sum(axis=(0, 1))
    frame = pl.DataFrame(
        {
            "arm": arms,
            "rank": ranks,
            "strength": strengths,
            "strength_low": sure.low,
            "strength_high": sure.high,
            "rank_low": sure.rank_low,
            "rank_high": sure.rank_high,
            "wins": won.astype(np.int64),
            "losses": lost.astype(np.int64),
            "win_rate": 100 * bootstrap.divided(won, won + lost),
            "expected_win_rate": bradley_terry.expected_win_rates(strengths),
            "games": (won + lost).astype(np.int64),
            "separated_from_next": pl.Series(separated, dtype=pl.Boolean),
        }
    )
    return frame.with_columns(
        pl.col("strength_low", "strength_high", "win_rate").fill_nan(None),
        *(pl.when(pl.col(name) > 0).then(name).alias(name) for name in ("rank_low", "rank_high")),
        replicates=pl.lit(len(weights)),
        replicates_without_fit=pl.lit(sure.without_fit),
        fit=pl.lit("ml" if reason is None else "prior"),
        reason=pl.lit(reason, dtype=pl.String),
    )


def why_no_fit(arms: list[str], wins: bootstrap.Floats) -> str | None:
    """Why ``wins`` (arms, arms) have no maximum-likelihood fit, naming the arms or groups; None where they have."""
    if not wins.any():
        return "no comparison counts"
    reasons = []
    islands = bradley_terry.islands(wins)
    for island in islands:
        parts = [[island[i] for i in part] for part in bradley_terry.groups(wins[np.ix_(island, island)])]
        unbeaten = [part[0] for part in parts if len(island) > 1 and not wins[:, part].any()]
        winless = [part[0] for part in parts if len(island) > 1 and not wins[part].any()]
        reasons += [f"{arms[arm]} has no loss" for arm in unbeaten] + [f"{arms[arm]} has no win" for arm in winless]
        if len(parts) - len(unbeaten) - len(winless) > 1 or (len(parts) > 1 and not unbeaten and not winless):
            named = _groups([[arms[i] for i in part] for part in parts], " > ")
            reasons.append(f"no win leads back from a later group to an earlier one: {named}")
    if len(islands) > 1:
        apart = [[arms[i] for i in island] for island in islands]
        reasons.insert(0, f"no comparison counts between the groups {_groups(apart, ', ')}")
    return "; ".join(reasons) or None


def _groups(groups: Iterable[list[str]], between: str) -> str:
    return between.join(f"{{{', '.join(group)}}}" for group in groups)


def _matrix(arms: list[str], wins: bootstrap.Floats, undecided: bootstrap.Floats) -> pl.DataFrame:
    first, second = np.nonzero(~np.eye(len(arms), dtype=np.bool_))
    return pl.DataFrame(
        {
            "arm": [arms[i] for i in first],
            "other": [arms[i] for i in second],
            "wins": wins[first, second].astype(np.int64),
            "losses": wins[second, first].astype(np.int64),
            "undecided": undecided[first, second].astype(np.int64),
        }
    )


def _checks(rows: pl.DataFrame, clips: list[str], weights: bootstrap.Floats) -> pl.DataFrame:
    """One row: counts, and the judge's shares with their intervals. Both orders are needed to tell of either share."""
    both = pl.col("outcome") != "missing"
    said = ("verdict_arm_first", "verdict_other_first")
    per_clip = (
        rows.group_by("clip_id")
        .agg(
            pl.len().alias("comparisons"),
            *((pl.col("outcome") == name).sum().alias(name) for name in OUTCOMES),
            pl.sum_horizontal((both & pl.col(name).is_in(["A", "B"])).sum() for name in said).alias("decided_verdicts"),
            pl.sum_horizontal((both & (pl.col(name) == "A")).sum() for name in said).alias("first_shown_wins"),
        )
        .rename({"tie": "ties", "disagreement": "disagreements"})
        .cast({pl.UInt32: pl.Int64})
        .sort("clip_id")
        .with_columns(agreed=pl.col("counted") + pl.col("ties"))
        .with_columns(answered=pl.col("agreed") + pl.col("disagreements"))
    )
    above, below = (
        per_clip.select(pl.col(names).cast(pl.Float64)).to_numpy()
        for names in (["first_shown_wins", "agreed"], ["decided_verdicts", "answered"])
    )
    shares = 100 * bootstrap.ratio_of_sums(np.ones((1, len(clips))), above, below)[0]
    bounds = [np.full(2, np.nan)] * 2
    if len(weights):
        bounds = [
            100 * bound for bound in bootstrap.percentile_interval(bootstrap.ratio_of_sums(weights, above, below))
        ]
    values = {
        f"{name}{suffix}": float(of[column])
        for column, name in enumerate(("position_bias", "order_consistency"))
        for suffix, of in (("", shares), ("_low", bounds[0]), ("_high", bounds[1]))
    }
    counts = per_clip.drop("clip_id", "agreed", "answered").sum()
    added = [pl.lit(value, pl.Float64).fill_nan(None).alias(name) for name, value in values.items()]
    return counts.with_columns(*added, clips=pl.lit(len(clips)))


# --- what is asked for, and what comes from outside ---


def _check_options(replicates: int, ties: str) -> None:
    if ties not in ("nowhere", "half"):
        raise unknown_name("worth of ties", ties, ["nowhere", "half"])
    if replicates != 0 and replicates < bradley_terry.LEAST_REPLICATES:
        raise UsageError(
            f"{replicates} resamples have no 2.5th percentile",
            f"ask for {bradley_terry.LEAST_REPLICATES} or more, or for 0: no intervals",
        )


def _known(kind: str, asked: Collection[str], known: list[str]) -> list[str]:
    for name in asked:
        if name not in known:
            raise unknown_name(kind, name, known)
    return sorted(set(asked))


def _require(frame: pl.DataFrame, columns: Iterable[str], name: str) -> None:
    lacking = [column for column in columns if column not in frame.columns]
    if lacking:
        raise UsageError(f"{name} lacks {', '.join(lacking)}", f"it has: {', '.join(frame.columns)}")


def _sound(frame: pl.DataFrame, table: Table) -> pl.DataFrame:
    """``frame`` as rows of ``table``: its columns and types, no nulls where there may be none, each key once."""
    _require(frame, (column.name for column in table.columns), table.name)
    try:
        rows = table.conform(frame)
    except pl.exceptions.PolarsError as error:
        raise UsageError(f"{table.name}: {error}", f"see `mabpl schema {table.name}`") from None
    nulls = [column.name for column in table.columns if not column.nullable and rows[column.name].null_count()]
    if nulls:
        raise UsageError(f"{table.name}: nulls in {', '.join(nulls)}", f"see `mabpl schema {table.name}`")
    twice = rows.filter(pl.struct(table.key).is_duplicated()).sort(table.key)
    if twice.height:
        first = ", ".join(f"{name} {twice[name][0]}" for name in table.key)
        raise UsageError(f"{table.name}: {twice.height} rows share their key, the first {first}", "keep one of each")
    return rows


def _check_games(rows: pl.DataFrame) -> None:
    """Whether outcome and winner are what the verdicts of each row come to."""
    verdicts = ["verdict_arm_first", "verdict_other_first"]
    right = rows.with_columns(_outcome()).with_columns(_winner())
    again = rows.hstack(right.select(pl.col("outcome", "winner").name.prefix("right_")))
    faults: Mapping[str, pl.Expr] = {
        "arm does not come before other": ~(pl.col("arm") < pl.col("other")),
        f"a verdict is none of {', '.join(VERDICTS)}": ~pl.all_horizontal(
            pl.col(name).is_null() | pl.col(name).is_in(VERDICTS) for name in verdicts
        ),
        "outcome does not follow from the verdicts": pl.col("outcome") != pl.col("right_outcome"),
        "winner does not follow from the verdicts": pl.col("winner").ne_missing(pl.col("right_winner")),
    }
    found = []
    for what, expression in faults.items():
        bad = again.filter(expression).sort(_GAME)
        if bad.height:
            clip, arm, other = bad.select("clip_id", "arm", "other").row(0)
            found.append(f"{what} in {bad.height} rows, the first: clip {clip}, {arm} and {other}")
    if found:
        raise UsageError("games: " + "; ".join(found), "make them with mabpl.tournament.standings.games")


def _some(values: list[str]) -> str:
    shown = ", ".join(map(repr, values[:_SHOWN]))
    return shown + (f", ... ({len(values)} in all)" if len(values) > _SHOWN else "")
