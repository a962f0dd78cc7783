"""From verdicts to a standing: what counts, who is flagged and why, and what a reader is shown."""
# ruff: noqa: RUF001

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import polars as pl
import pytest

from mabpl.errors import UsageError
from mabpl.report.tournament import inseparable, standings_chart, standings_document, standings_text
from mabpl.stats import bradley_terry
from mabpl.stats.bootstrap import clip_weights
from mabpl.tables.columns import Table
from mabpl.tables.tournament import COMPARISONS, GAMES, STANDINGS, TOURNAMENT_CHECKS, TOURNAMENT_TABLES, WIN_MATRIX
from mabpl.tournament.standings import Standings, games, stand, why_no_fit

HOSTILE = "<img src=x>|a\x1b[31m\u202e"


def comparisons(pairs: Iterable[tuple[str, str, str]], dimension: str = "timing", set_name: str = "s") -> pl.DataFrame:
    """Both orders of each (clip, arm, other)."""
    rows = []
    for clip, arm, other in pairs:
        for first, second in ((arm, other), (other, arm)):
            rows.append((set_name, clip, dimension, first, second, f"{set_name}/{clip}/{dimension}/{first}/{second}"))
    return pl.DataFrame(rows, schema=COMPARISONS.schema, orient="row")


def verdicts(said: dict[str, str | None], seed: int | None = 1, **columns: str) -> pl.DataFrame:
    """Request to verdict; None is an answer without one."""
    rows = [(request, seed, "ok" if verdict else "no_verdict", verdict) for request, verdict in said.items()]
    schema = {"request": pl.String, "judge_seed": pl.Int64, "status": pl.String, "verdict": pl.String}
    return pl.DataFrame(rows, schema=schema, orient="row").with_columns(**{k: pl.lit(v) for k, v in columns.items()})


def played(results: dict[tuple[str, str, str], str], dimension: str = "timing", set_name: str = "s") -> pl.DataFrame:
    """Games from (clip, arm, other) to what comes of them: win, loss, tie, disagreement or missing."""
    said: dict[str, str | None] = {}
    orders = comparisons(results, dimension, set_name)
    two = {
        "win": ("A", "B"), "loss": ("B", "A"), "tie": ("tie", "tie"), "disagreement": ("A", "A"),
        "missing": ("A", None),
    }  # fmt: skip
    for (clip, arm, other), result in results.items():
        for verdict, (first, second) in zip(two[result], ((arm, other), (other, arm)), strict=True):
            said[f"{set_name}/{clip}/{dimension}/{first}/{second}"] = verdict
    return games(orders, verdicts(said))


def drawn(
    clips: int = 12, arms: int = 4, seed: int = 0, dimension: str = "timing", set_name: str = "s"
) -> pl.DataFrame:
    """Games of arms a, b, c, ... on c00, c01, ...; earlier arms are stronger."""
    rng = np.random.default_rng(seed)
    names = [chr(ord("a") + i) for i in range(arms)]
    results = {}
    for clip in range(clips):
        for i, arm in enumerate(names):
            for j in range(i + 1, arms):
                win = rng.random() < 1 / (1 + math.exp(0.8 * (i - j)))
                result = (
                    ("win" if win else "loss") if rng.random() < 0.8 else rng.choice(["tie", "disagreement", "missing"])
                )
                results[f"c{clip:02}", arm, names[j]] = str(result)
    return played(results, dimension, set_name)


def conforms(frame: pl.DataFrame, table: Table) -> None:
    assert dict(frame.schema) == table.schema
    for column in table.columns:
        assert column.nullable or not frame[column.name].null_count(), column.name
    assert frame.select(table.key).is_unique().all()


# --- which comparisons count ---

OUTCOMES = [
    ("A", "B", "counted", "a"),
    ("B", "A", "counted", "b"),
    ("tie", "tie", "tie", None),
    ("A", "A", "disagreement", None),
    ("B", "B", "disagreement", None),
    ("A", "tie", "disagreement", None),
    ("tie", "A", "disagreement", None),
    ("A", None, "missing", None),
    (None, "B", "missing", None),
    (None, None, "missing", None),
]


@pytest.mark.parametrize(("arm_first", "other_first", "outcome", "winner"), OUTCOMES)
def test_a_comparison_counts_only_when_both_orders_name_the_same_arm(
    arm_first: str | None, other_first: str | None, outcome: str, winner: str | None
) -> None:
    orders = comparisons([("c", "b", "a")])
    said = {"s/c/timing/a/b": arm_first, "s/c/timing/b/a": other_first}
    expected = ("s", "c", "timing", "a", "b", 1, arm_first, other_first, winner, outcome)
    for found in (games(orders, verdicts(said)), games(orders, verdicts(said).drop_nulls("verdict"))):
        if arm_first or other_first or found["judge_seed"][0] is not None:
            assert found.rows() == [expected]
        conforms(found, GAMES)


def test_what_was_never_asked_is_missing() -> None:
    orders = comparisons([("c", "a", "b"), ("d", "a", "b")])
    nothing = games(orders, verdicts({}))
    assert nothing.select("judge_seed", "outcome").rows() == [(None, "missing")] * 2
    failed = verdicts({"s/c/timing/a/b": "A", "s/c/timing/b/a": "B"}).with_columns(status=pl.lit("truncated"))
    assert set(games(orders, failed)["outcome"]) == {"missing"}
    one_order = games(orders.filter(first="a"), verdicts({"s/c/timing/a/b": "A", "s/d/timing/a/b": "A"}))
    assert one_order["outcome"].to_list() == ["missing"] * 2


def test_each_judge_seed_is_a_game_and_expected_of_every_comparison() -> None:
    orders = comparisons([("c", "a", "b"), ("d", "a", "b")])
    both = {"s/c/timing/a/b": "A", "s/c/timing/b/a": "B"}
    said = pl.concat([verdicts(both, 1), verdicts({"s/d/timing/a/b": "B", "s/d/timing/b/a": "A"}, 2)])
    found = games(orders, said)
    assert found.select("clip_id", "judge_seed", "outcome").rows() == [
        ("c", 1, "counted"), ("c", 2, "missing"), ("d", 1, "missing"), ("d", 2, "counted"),
    ]  # fmt: skip
    without_seed = games(orders.filter(clip_id="c"), verdicts(both, None))
    assert without_seed.select("judge_seed", "winner").rows() == [(None, "a")]


def test_arms_with_the_same_packet_share_their_request() -> None:
    orders = comparisons([("c", "a", "b")]).with_columns(request=pl.lit("same"))
    assert games(orders, verdicts({"same": "A"}))["outcome"].to_list() == ["disagreement"]
    assert games(orders, verdicts({"same": "tie"}))["outcome"].to_list() == ["tie"]


ORDERS = comparisons([("c", "a", "b")])
SAID = {"s/c/timing/a/b": "A", "s/c/timing/b/a": "B"}


@pytest.mark.parametrize(
    ("orders", "said", "message"),
    [
        (ORDERS.drop("request"), verdicts(SAID), "comparisons lacks request"),
        (ORDERS, verdicts(SAID).drop("status", "verdict"), "verdicts lacks status, verdict"),
        (ORDERS.with_columns(clip_id=pl.lit(None, pl.String)), verdicts(SAID), "nulls in clip_id"),
        (pl.concat([ORDERS, ORDERS]), verdicts(SAID), "4 rows share their key, the first set s, clip_id c"),
        (ORDERS.with_columns(second=pl.col("first")), verdicts(SAID), "clip c compares arm 'a' with itself"),
        (ORDERS, verdicts(SAID | {"s/c/timing/a/b": "C"}), "verdicts hold 'C'"),
        (ORDERS, pl.concat([verdicts(SAID)] * 2), "several verdicts of one judge seed for 's/c/timing/a/b', "),
        (
            ORDERS,
            pl.concat([verdicts(SAID, judge="one"), verdicts(SAID, 2, judge="two")]),
            "several judges \\(judge 'one', 'two'\\)",
        ),
    ],
)
def test_what_is_not_sound_is_refused(orders: pl.DataFrame, said: pl.DataFrame, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        games(orders, said)


def test_verdicts_of_other_requests_do_not_matter() -> None:
    other = verdicts({"else": "nonsense"}, judge="another")
    found = games(ORDERS, pl.concat([verdicts(SAID, judge="one"), other]))
    assert found.equals(games(ORDERS, verdicts(SAID)))


# --- the standing ---


def by_hand() -> pl.DataFrame:
    """b beats a 3:1, with a tie, a disagreement and a missing one."""
    results = ["loss", "loss", "loss", "win", "tie", "disagreement", "missing"]
    return played({(f"c{i}", "a", "b"): result for i, result in enumerate(results)})


def test_a_standing_by_hand() -> None:
    found = stand(by_hand())
    first, second = found.standings.to_dicts()
    assert (first["arm"], first["rank"], first["wins"], first["losses"], first["games"]) == ("b", 1, 3, 1, 4)
    assert (second["arm"], second["rank"], second["wins"], second["losses"]) == ("a", 2, 1, 3)
    assert first["strength"] == pytest.approx(math.log(3) / 2)
    assert (first["win_rate"], second["win_rate"]) == (75, 25)
    assert first["expected_win_rate"] == pytest.approx(75)
    assert (first["fit"], first["reason"], first["replicates"]) == ("ml", None, 500)
    assert (first["separated_from_next"], second["separated_from_next"]) == (False, None)
    weights = clip_weights(7, 500)
    one_sided = int(((weights[:, :3].sum(axis=1) == 0) | (weights[:, 3] == 0)).sum())
    assert first["replicates_without_fit"] == one_sided > 0
    kept = weights[(weights[:, :3].sum(axis=1) > 0) & (weights[:, 3] > 0)]
    strengths = np.log(kept[:, :3].sum(axis=1) / kept[:, 3]) / 2
    assert first["strength_low"] == pytest.approx(np.quantile(strengths, 0.025))
    assert first["strength_high"] == pytest.approx(np.quantile(strengths, 0.975))
    assert found.win_matrix.rows() == [("s", "timing", "a", "b", 1, 3, 3), ("s", "timing", "b", "a", 3, 1, 3)]


def test_the_checks_by_hand() -> None:
    checks = stand(by_hand()).checks.row(0, named=True)
    names = ("arms", "clips", "comparisons", "counted", "ties", "disagreements", "missing")
    assert [checks[name] for name in names] == [2, 7, 7, 4, 1, 1, 1]
    # A and B once in each counted one, A twice in the disagreement; the missing one's A is left out.
    assert (checks["decided_verdicts"], checks["first_shown_wins"]) == (10, 6)
    assert checks["position_bias"] == pytest.approx(60)
    assert checks["order_consistency"] == pytest.approx(100 * 5 / 6)
    weights = clip_weights(7, 500)
    above = weights @ [1, 1, 1, 1, 0, 2, 0]
    below = weights @ [2, 2, 2, 2, 0, 2, 0]
    assert checks["position_bias_low"] == pytest.approx(np.quantile(100 * above / below, 0.025))
    assert checks["position_bias_high"] == pytest.approx(np.quantile(100 * above / below, 0.975))
    assert checks["order_consistency_low"] < checks["order_consistency"] < checks["order_consistency_high"] == 100


def test_ties_are_half_a_win_to_each_side_where_that_is_asked_for() -> None:
    plain, half = (stand(by_hand(), ties=ties).standings for ties in ("nowhere", "half"))  # type: ignore[arg-type]
    assert half["strength"][0] == pytest.approx(math.log(3.5 / 1.5) / 2)
    assert half.select("wins", "losses", "win_rate").equals(plain.select("wins", "losses", "win_rate"))
    undefeated = played({("c", "a", "b"): "win", ("d", "a", "b"): "tie"})
    assert stand(undefeated).standings["fit"][0] == "prior"
    assert stand(undefeated, ties="half").standings["fit"][0] == "ml"


def test_the_order_of_rows_changes_nothing_and_tables_keep_their_schemas() -> None:
    rows = pl.concat([drawn(), drawn(seed=1, dimension="labels"), drawn(5, 3, 2, set_name="r")])
    found = stand(rows)
    again = stand(rows.sample(fraction=1.0, shuffle=True, seed=5))
    for (name, frame), other in zip(found.tables().items(), again.tables().values(), strict=True):
        assert frame.equals(other), name
        conforms(frame, next(table for table in TOURNAMENT_TABLES if table.name == name))
    assert found.standings["rank"].to_list() == [1, 2, 3, *[1, 2, 3, 4] * 2]
    assert found.standings.group_by("set", "dimension").agg(pl.col("strength").sum().abs())["strength"].max() < 1e-9
    assert set(found.standings["separated_from_next"]) == {True, False, None}


def test_shuffled_comparisons_and_verdicts_make_the_same_games() -> None:
    pairs = [(f"c{i}", "b", "a") for i in range(20)]
    orders = comparisons(pairs)
    said = verdicts({r: "AB"[i % 3 % 2] for i, r in enumerate(orders["request"].sort())})
    mixed = games(*(frame.sample(fraction=1.0, shuffle=True, seed=1) for frame in (orders, said)))
    assert mixed.equals(games(orders, said))
    assert mixed["clip_id"].is_sorted()


def test_a_subset_is_what_its_games_alone_would_have_been() -> None:
    rows = pl.concat([drawn(), drawn(6, 3, seed=4, dimension="labels")])
    clips, arms = ["c01", "c02", "c04", "c05", "c03"], ["d", "a", "c"]
    found = stand(rows, clips=clips, arms=arms)
    alone = stand(rows.filter(pl.col("clip_id").is_in(clips), pl.col("arm").is_in(arms), pl.col("other").is_in(arms)))
    assert found.standings.equals(alone.standings)
    assert found.checks["clips"].to_list() == [5, 5]
    assert found.standings["arm"].n_unique() == 3
    assert (found.settings["clips"], found.settings["arms"]) == (sorted(clips), sorted(arms))
    everything = stand(rows, clips=rows["clip_id"].unique().to_list(), arms=["a", "b", "c", "d"])
    assert everything.standings.equals(stand(rows).standings)


def test_a_further_arm_leaves_the_comparisons_of_the_others_alone() -> None:
    four, five = drawn(arms=4), drawn(arms=5)
    joined = pl.concat([four, five.filter(other="e")])
    assert stand(joined, arms=["a", "b", "c", "d"]).standings.equals(stand(four).standings)


def test_all_comparisons_of_a_clip_move_together() -> None:
    # Two clips that are mirror images: every resample has either both (a draw) or one of them alone (no fit).
    halves = {("c0", "a", "b"): "win", ("c1", "a", "b"): "loss"}
    found = stand(played(halves)).standings
    alone = int((clip_weights(2, 500) == 0).any(axis=1).sum())
    assert found["replicates_without_fit"].to_list() == [alone] * 2
    assert found["rank"].to_list() == [1, 1]
    steady = {(f"c{i}", "a", other): result for i in range(6) for other, result in (("b", "win"), ("c", "loss"))}
    steady |= {(f"c{i}", "b", "c"): "win" for i in range(6)}
    row = stand(played(steady)).standings.row(0, named=True)  # each clip is the same cycle
    assert row["strength_high"] - row["strength_low"] == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("options", [{"replicates": 0}, {"clips": ["c01"]}])
def test_without_resamples_there_are_no_intervals(options: dict[str, Any]) -> None:
    cycle = {(c, *pair): "win" for c in ("c00", "c01") for pair in (("a", "b"), ("b", "c"), ("c", "a"))}
    found = stand(played(cycle), **options)
    bounds = [name for name in STANDINGS.schema if name.endswith(("_low", "_high"))]
    assert found.standings.select(pl.col(*bounds, "separated_from_next").null_count()).row(0) == (3,) * 5
    assert found.standings.select("replicates", "replicates_without_fit", "fit").unique().row(0) == (0, 0, "ml")
    assert found.checks["position_bias"][0] == 50
    assert found.checks["position_bias_low"][0] is None
    assert "Without intervals" in standings_text(found)


# --- where there is no fit ---


@pytest.mark.parametrize(
    ("wins", "reason"),
    [
        ("ab ba", None),
        ("ab bc ca", None),
        ("", "no comparison counts"),
        ("ab", "a has no loss; b has no win"),
        ("ab bc cb", "a has no loss"),
        ("ab ac bd cd bc cb", "a has no loss; d has no win"),
        ("ac ad bc bd cd dc", "a has no loss; b has no loss"),
        ("ab ba cb", "c has no loss"),
        ("ab bc", "a has no loss; c has no win"),
        ("ab bc cd", "a has no loss; d has no win; no win leads back from a later group to an earlier one: "
                     "{a} > {b} > {c} > {d}"),
        ("ab ba ac cd dc", "no win leads back from a later group to an earlier one: {a, b} > {c, d}"),
        ("ab ba cd dc", "no comparison counts between the groups {a, b}, {c, d}"),
        ("ab ba c", "no comparison counts between the groups {a, b}, {c}"),
        ("ab cd dc", "no comparison counts between the groups {a, b}, {c, d}; a has no loss; b has no win"),
    ],
)  # fmt: skip
def test_the_reason_names_arms_and_groups(wins: str, reason: str | None) -> None:
    arms = sorted(set(wins.replace(" ", ""))) or ["a", "b"]
    matrix = np.zeros((len(arms), len(arms)))
    for win in wins.split():
        if len(win) == 2:
            matrix[arms.index(win[0]), arms.index(win[1])] += 1
    assert why_no_fit(arms, matrix) == reason
    assert bool(bradley_terry.strongly_connected(matrix)) == (reason is None)


def test_an_undefeated_arm_is_flagged_by_name_and_gets_no_interval() -> None:
    results = {(f"c{i}", "best", other): "win" for i in range(6) for other in ("mid", "low")}
    results |= {(f"c{i}", "low", "mid"): "win" if i < 2 else "loss" for i in range(6)}
    results |= {(f"c{i}", "new", "mid"): "missing" for i in range(6)}
    found = stand(played(results))
    flagged = "no comparison counts between the groups {best, low, mid}, {new}; best has no loss"
    assert found.standings.select("fit", "reason").unique().rows() == [("prior", flagged)]
    assert found.standings["replicates_without_fit"].to_list() == [500] * 4
    assert found.standings["strength"].is_finite().all()
    assert found.standings["arm"].to_list() == ["best", "new", "mid", "low"]
    assert found.standings["win_rate"].to_list() == [100, None, pytest.approx(100 / 3), pytest.approx(100 / 6)]
    assert found.standings.select("strength_low", "rank_low", "separated_from_next").null_count().row(0) == (4,) * 3
    text = standings_text(found, matrix=False)
    assert "No maximum-likelihood fit" in text
    assert "best has no loss" in text.replace("\n", " ")
    assert "separated" not in text


# --- wrong calls ---


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clips": ["c0", "x"]}, "unknown clip 'x'"),
        ({"arms": ["a", "c"]}, "unknown arm 'c'"),
        ({"arms": ["a"]}, "no two of these arms"),
        ({"clips": []}, "no two of these arms"),
        ({"replicates": 39}, "39 resamples have no 2.5th percentile"),
        ({"replicates": -1}, "-1 resamples"),
        ({"ties": "full"}, "unknown worth of ties 'full'"),
    ],
)
def test_wrong_choices_are_told(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        stand(by_hand(), **options)


def test_games_that_contradict_themselves_are_refused_with_all_that_is_wrong() -> None:
    rows = by_hand()
    swapped = rows.with_columns(winner=pl.lit("a"), outcome=pl.lit("counted"))
    with pytest.raises(
        UsageError, match=r"outcome does not follow .* in 3 rows, the first: clip c4.*; winner does not"
    ):
        stand(swapped)
    with pytest.raises(UsageError, match="arm does not come before other in 7 rows"):
        stand(rows.rename({"arm": "other", "other": "arm"}))
    with pytest.raises(UsageError, match="a verdict is none of A, B, tie in 1 rows"):
        stand(rows.with_columns(pl.col("verdict_arm_first").replace("tie", "draw")))
    with pytest.raises(UsageError, match="games lacks winner"):
        stand(rows.drop("winner"))
    with pytest.raises(UsageError, match="see `mabpl schema games`"):
        stand(rows.with_columns(judge_seed=pl.lit("first")))


# --- what a reader sees ---


def test_terminal_text() -> None:
    expected = """\
Timing on s: 2 arms, 7 clips

Arm      Rank  Strength (win rate)  95% interval    Wins  Losses
────────────────────────────────────────────────────────────────
b    1 [1, 2]  +0.55 (75%)          [-0.55, +0.80]     3       1
a    2 [1, 2]  -0.55 (25%)          [-0.80, +0.55]     1       3

{} of 500 resamples have no fit and are left out of the intervals.
Neighbours that cannot be separated: b ~ a.
4 of 7 comparisons count (ties 1, disagreements 1, missing 1).
Both orders agree in 83.3% [50.0, 100.0] of comparisons.
The arm shown first wins 60.0% [50.0, 80.0] of decided verdicts (no bias: 50%).

Timing on s: 2 arms, 7 clips; comparisons won, row against column

Arm   1  2
──────────
1. b  –  3
2. a  1  –

"""
    found = stand(by_hand())
    text = standings_text(found, notes=["Judged by x."])
    lacking = found.standings["replicates_without_fit"][0]
    assert text.startswith(expected.format(lacking))
    assert text.endswith("interval of a bootstrap over clips.\nJudged by x.\n")
    assert "half a win" in standings_text(stand(by_hand(), ties="half"))


def test_markdown_json_and_csv() -> None:
    found = stand(pl.concat([by_hand(), drawn(dimension="labels")]))
    markdown = standings_text(found, "markdown", ["Judged by x."])
    assert "| b   | 1 [1, 2] | +0.55 (75%)" in markdown
    assert markdown.count("Judged by x.") == markdown.count("Bradley-Terry") == 1
    document = json.loads(standings_text(found, "json"))
    assert document == json.loads(json.dumps(standings_document(found)))
    assert list(document) == ["settings", "standings", "win_matrix", "tournament_checks"]
    assert document["standings"] == found.standings.to_dicts()
    assert document["tournament_checks"] == found.checks.to_dicts()
    assert standings_text(found, "csv").splitlines()[0] == ",".join(STANDINGS.schema)


def test_neighbours_that_cannot_be_separated_come_in_runs() -> None:
    rows = pl.DataFrame(
        {"arm": list("abcdef"), "separated_from_next": [False, False, True, True, False, None]},
        schema_overrides={"separated_from_next": pl.Boolean},
    )
    assert inseparable(rows) == [["a", "b", "c"], ["e", "f"]]
    assert inseparable(rows.with_columns(separated_from_next=pl.lit(None, pl.Boolean))) == []


def hostile() -> Standings:
    rows = {(f"c{i}", "a", HOSTILE): "win" if i % 3 else "loss" for i in range(9)}
    return stand(played(rows, set_name=HOSTILE))


def test_names_are_shown_as_they_are() -> None:
    for format in ("terminal", "markdown", "json", "csv"):  # noqa: A001
        text = standings_text(hostile(), format)  # type: ignore[arg-type]
        assert "\x1b" not in text
        assert "\u202e" not in text
    assert "<img" not in standings_text(hostile(), "markdown").replace("\\<img", "")


def test_the_chart_shows_the_numbers_of_the_tables() -> None:
    found = stand(pl.concat([drawn(), drawn(seed=1, dimension="labels")]))
    spec = standings_chart(found).to_dict()
    assert [line["title"] for line in spec["vconcat"]] == ["Labels, s", "Timing, s"]
    for line, (_, panel) in zip(
        spec["vconcat"], found.standings.group_by("dimension", maintain_order=True), strict=True
    ):
        strengths, shares = (spec["datasets"][part["data"]["name"]] for part in line["hconcat"])
        order = panel["arm"].to_list()
        assert line["hconcat"][0]["layer"][0]["encoding"]["y"]["sort"] == order
        assert [row["who"] for row in strengths] == order
        for shown, row in zip(strengths, panel.to_dicts(), strict=True):
            for field, column in (("strength", "strength"), ("low", "strength_low"), ("high", "strength_high")):
                assert shown[field] == pytest.approx(row[column], abs=0.0005)
        matrix = found.win_matrix.filter(dimension=panel["dimension"][0])
        assert len(shares) == matrix.height
        for shown, row in zip(shares, matrix.to_dicts(), strict=True):
            assert (shown["who"], shown["against"]) == (row["arm"], row["other"])
            assert shown["share"] == pytest.approx(100 * row["wins"] / (row["wins"] + row["losses"]), abs=0.05)
    one = standings_chart(found, dimension="timing").to_dict()
    assert [line["title"] for line in one["vconcat"]] == ["Timing, s"]
    with pytest.raises(UsageError, match="unknown dimension 'tming'"):
        standings_chart(found, dimension="tming")


def test_the_chart_reads_no_name_as_code() -> None:
    spec = standings_chart(hostile()).to_dict()
    encodings = [layer["encoding"] for part in spec["vconcat"][0]["hconcat"] for layer in part["layer"]]
    fields = {channel["field"] for encoding in encodings for channel in encoding.values() if "field" in channel}
    assert fields <= {"who", "against", "strength", "low", "high", "fit", "share"}


def test_every_table_has_rows_of_its_schema() -> None:
    found = stand(by_hand())
    for frame, table in (
        (found.standings, STANDINGS),
        (found.win_matrix, WIN_MATRIX),
        (found.checks, TOURNAMENT_CHECKS),
    ):
        conforms(frame, table)
