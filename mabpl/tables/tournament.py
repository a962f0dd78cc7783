"""The tables of a pairwise tournament: who met whom, what came of it, and the standing that follows."""

from __future__ import annotations

import polars as pl

from mabpl.tables.columns import Column, Table

_SET = Column("set", pl.String, "the set (subset of the benchmark) that the clip belongs to")
_CLIP = Column("clip_id", pl.String, "the clip; unique across sets")
_DIMENSION = Column("dimension", pl.String, "what is compared: timing (boundaries alone) or labels (content alone)")
_ARM = Column("arm", pl.String, "one contestant: a configuration's timelines, by the name that the tournament gives it")
_WINS = Column("wins", pl.Int64, "comparisons that count and that the arm won", "comparisons")
_LOSSES = Column("losses", pl.Int64, "comparisons that count and that the arm lost", "comparisons")
_REPLICATES = Column("replicates", pl.Int64, "resamples of clips that were drawn for the intervals", "resamples")


def _share(name: str, meaning: str) -> tuple[Column, Column, Column]:
    """A share in percent and its interval."""
    of = f"{name.replace('_', ' ')}: 95% interval"
    return (
        Column(name, pl.Float64, meaning, "percent", nullable=True),
        Column(f"{name}_low", pl.Float64, f"{of}, lower bound", "percent", nullable=True),
        Column(f"{name}_high", pl.Float64, f"{of}, upper bound", "percent", nullable=True),
    )


COMPARISONS = Table(
    "comparisons",
    "two arms on one clip in one order, as a judge is shown them",
    ("set", "clip_id", "dimension", "first", "second"),
    (
        _SET,
        _CLIP,
        _DIMENSION,
        Column("first", pl.String, "the arm that is shown as A"),
        Column("second", pl.String, "the arm that is shown as B"),
        Column("request", pl.String, "fingerprint of all that is asked, whoever answers", "32 hex digits"),
    ),
)

GAMES = Table(
    "games",
    "two arms on one clip, by one judge seed: the verdicts of both orders, and what they come to",
    ("set", "clip_id", "dimension", "arm", "other", "judge_seed"),
    (
        _SET,
        _CLIP,
        _DIMENSION,
        Column("arm", pl.String, "the arm whose name comes first in alphabetical order"),
        Column("other", pl.String, "the arm that it is compared with"),
        Column(
            "judge_seed", pl.Int64, "the judge seed; null where the judge takes none or none answered", nullable=True
        ),
        Column("verdict_arm_first", pl.String, "A, B or tie, where arm is shown as A; null: no verdict", nullable=True),
        Column(
            "verdict_other_first", pl.String, "A, B or tie, where other is shown as A; null: no verdict", nullable=True
        ),
        Column("winner", pl.String, "the arm that both orders name", nullable=True),
        Column(
            "outcome",
            pl.String,
            "counted (both orders name the same arm), tie (both say tie), disagreement, or missing (an order without a "
            "verdict); only counted ones are wins and losses",
        ),
    ),
)

STANDINGS = Table(
    "standings",
    "one arm of one set and dimension: its strength, how sure that is, and its record",
    ("set", "dimension", "arm"),
    (
        _SET,
        _DIMENSION,
        _ARM,
        Column("rank", pl.Int64, "1 + number of arms that are stronger; equal strengths share a rank"),
        Column("strength", pl.Float64, "Bradley-Terry strength; the mean over arms is 0", "natural log"),
        Column("strength_low", pl.Float64, "strength: 95% interval, lower bound", "natural log", nullable=True),
        Column("strength_high", pl.Float64, "strength: 95% interval, upper bound", "natural log", nullable=True),
        Column("rank_low", pl.Int64, "rank: 95% interval, best", nullable=True),
        Column("rank_high", pl.Int64, "rank: 95% interval, worst", nullable=True),
        _WINS,
        _LOSSES,
        Column("win_rate", pl.Float64, "wins / (wins + losses); null without either", "percent", nullable=True),
        Column(
            "expected_win_rate",
            pl.Float64,
            "what the strengths alone predict: mean over the other arms of the chance to win against them",
            "percent",
        ),
        Column("games", pl.Int64, "wins + losses", "comparisons"),
        Column(
            "separated_from_next",
            pl.Boolean,
            "the 95% interval of the difference to the next arm of the standing excludes 0; null for the last arm and "
            "without intervals",
            nullable=True,
        ),
        _REPLICATES,
        Column(
            "replicates_without_fit",
            pl.Int64,
            "resamples that have no maximum-likelihood fit: left out of every interval of strengths and ranks",
            "resamples",
        ),
        Column("fit", pl.String, "ml (maximum likelihood) or prior (there is none: a small prior was added)"),
        Column("reason", pl.String, "prior: why there is no maximum-likelihood fit, by name", nullable=True),
    ),
)

WIN_MATRIX = Table(
    "win_matrix",
    "two arms of one set and dimension, from the first one's side; each pair of arms has two rows",
    ("set", "dimension", "arm", "other"),
    (
        _SET,
        _DIMENSION,
        _ARM,
        Column("other", pl.String, "the arm that it is compared with"),
        _WINS,
        _LOSSES,
        Column("undecided", pl.Int64, "ties, disagreements and missing ones", "comparisons"),
    ),
)

TOURNAMENT_CHECKS = Table(
    "tournament_checks",
    "one set and dimension: how many comparisons count, and how far the judge can be trusted",
    ("set", "dimension"),
    (
        _SET,
        _DIMENSION,
        Column("arms", pl.Int64, "arms that were compared", "arms"),
        Column("clips", pl.Int64, "clips that they were compared on", "clips"),
        Column("comparisons", pl.Int64, "rows of games: counted + ties + disagreements + missing", "comparisons"),
        Column("counted", pl.Int64, "comparisons whose two orders name the same arm", "comparisons"),
        Column("ties", pl.Int64, "comparisons whose two orders say tie", "comparisons"),
        Column("disagreements", pl.Int64, "comparisons whose two orders differ", "comparisons"),
        Column("missing", pl.Int64, "comparisons that lack the verdict of an order", "comparisons"),
        Column("decided_verdicts", pl.Int64, "verdicts A or B of comparisons that have both orders", "verdicts"),
        Column("first_shown_wins", pl.Int64, "those of them that are A", "verdicts"),
        *_share("position_bias", "first_shown_wins / decided_verdicts; a judge without position bias has 50"),
        *_share("order_consistency", "(counted + ties) / (counted + ties + disagreements)"),
    ),
)

TOURNAMENT_TABLES = (COMPARISONS, GAMES, STANDINGS, WIN_MATRIX, TOURNAMENT_CHECKS)
