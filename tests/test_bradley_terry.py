"""Bradley-Terry strengths: against other people's figures and packages, a plain fit, and where there is none."""

from __future__ import annotations

import json
import math
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mabpl.data import published
from mabpl.stats import bradley_terry as bt
from mabpl.stats.bootstrap import clip_weights

Matrix = list[list[float]]


def plain_fit(wins: Matrix) -> list[float]:
    """Zermelo's iteration: each strength from its wins and the games expected at the others' strengths."""
    arms = range(len(wins))
    strength = [1.0 for _ in arms]
    for _ in range(200_000):
        before = list(strength)
        for i in arms:
            played = sum((wins[i][j] + wins[j][i]) / (strength[i] + strength[j]) for j in arms if j != i)
            strength[i] = sum(wins[i]) / played
        scale = math.prod(strength) ** (1 / len(strength))
        strength = [s / scale for s in strength]
        if all(abs(now / then - 1) < 1e-13 for now, then in zip(strength, before, strict=True)):
            return [math.log(s) for s in strength]
    raise AssertionError("the plain fit is not done")


def reached(wins: Matrix, start: int) -> set[int]:
    found, left = {start}, [start]
    while left:
        arm = left.pop()
        for other in range(len(wins)):
            if wins[arm][other] and other not in found:
                found.add(other)
                left.append(other)
    return found


def imbalance(wins: np.ndarray[Any, Any], strengths: np.ndarray[Any, Any]) -> float:
    """How far each arm's wins that the strengths made unlikely differ from such losses, in parts of them; 0 at the top.

    Summed over an arm's games: times won x chance to lose, less times lost x chance to win.
    """
    chance = 1 / (1 + np.exp(strengths[None, :] - strengths[:, None]))
    won, lost = (wins * chance.T).sum(axis=1), (wins * chance.T).sum(axis=0)
    return float((np.abs(won - lost) / (won + lost)).max())


@st.composite
def matrices(draw: st.DrawFn, most: int = 6, arms: int = 5) -> Matrix:
    size = draw(st.integers(2, arms))
    cells = st.integers(0, most) | st.just(0)
    return [[float(draw(cells)) if i != j else 0.0 for j in range(size)] for i in range(size)]


@st.composite
def fitting(draw: st.DrawFn, most: int = 6, arms: int = 5) -> Matrix:
    """With a cycle of wins through all arms, so that there is a fit."""
    wins = draw(matrices(most, arms))
    for i in range(len(wins)):
        wins[i][(i + 1) % len(wins)] += 1
    return wins


# --- other people's figures ---


def from_outcomes(rows: list[list[str]], names: list[str]) -> tuple[Any, Any]:
    """Wins and ties of rows (left, right, which side won)."""
    wins, ties = np.zeros((2, len(names), len(names)))
    for left, right, outcome in rows:
        i, j = names.index(left), names.index(right)
        if outcome == "tie":
            ties[i, j] += 1
            ties[j, i] += 1
        else:
            winner, loser = (i, j) if outcome == "left" else (j, i)
            wins[winner, loser] += 1
    return wins, ties


@pytest.mark.shared_data
@pytest.mark.parametrize("name", ["simple", "food"])
def test_evalicas_figures_with_ties_as_half_wins(shared_data: Path, name: str) -> None:
    golden = json.loads((shared_data / "bradley_terry" / f"evalica_{name}.json").read_text())
    expected = golden["expected"]["bradley_terry"]
    wins, ties = from_outcomes(golden["comparisons"], sorted(expected))
    found = np.exp(bt.fit(bt.with_ties(wins, ties, "half")))
    assert found / found.sum() == pytest.approx([expected[arm] for arm in sorted(expected)], rel=1e-4)
    assert np.isnan(without := bt.fit(bt.with_ties(wins, ties, "nowhere"))).all() or imbalance(wins, without) < 1e-12


@pytest.mark.shared_data
def test_choix_figures(shared_data: Path) -> None:
    cases = json.loads((shared_data / "bradley_terry" / "choix_pairwise.json").read_text())
    assert len(cases) == 2
    for case in cases:
        wins = np.zeros((case["n_items"], case["n_items"]))
        for winner, loser in case["data"]:
            wins[winner, loser] += 1
        assert bt.fit(wins) == pytest.approx(case["ml_est"], abs=1e-8)


@pytest.mark.shared_data
def test_wikipedias_example(shared_data: Path) -> None:
    golden = json.loads((shared_data / "bradley_terry" / "arena_rank_wikipedia.json").read_text())
    names = sorted(golden["expected_strength_geomean_1"])
    wins = np.zeros((4, 4))
    for winner, loser, times in golden["wins"]:
        wins[names.index(winner), names.index(loser)] = times
    expected = [golden["expected_strength_geomean_1"][name] for name in names]
    assert np.exp(bt.fit(wins)) == pytest.approx(expected, rel=golden["rtol"])


@settings(max_examples=25, deadline=None)
@given(fitting())
def test_choix_and_evalica_find_the_same(wins: Matrix) -> None:
    choix = pytest.importorskip("choix", reason="choix is not installed: python -m pip install 'mabpl[bench]'")
    evalica = pytest.importorskip("evalica", reason="evalica is not installed: python -m pip install 'mabpl[bench]'")
    found = bt.fit(np.array(wins))
    arms = range(len(wins))
    rows = [(i, j) for i, j in product(arms, arms) for _ in range(int(wins[i][j]))]
    assert choix.opt_pairwise(len(wins), rows, tol=1e-12) == pytest.approx(found, abs=1e-5)
    left, right = zip(*rows, strict=True)
    result = evalica.bradley_terry(left, right, [evalica.Winner.X] * len(rows), tolerance=1e-14, limit=100_000)
    theirs = np.log(result.scores.loc[list(arms)].to_numpy())
    assert theirs - theirs.mean() == pytest.approx(found, abs=1e-5)


COLUMNS = list(
    product(("all_89", "released_45"), ("timing", "labels"), ("operator_disjoint_59", "session_disjoint_30"))
)


@pytest.mark.parametrize(("block", "dimension", "set_name"), COLUMNS)
def test_the_published_win_rates_follow_from_the_published_strengths(block: str, dimension: str, set_name: str) -> None:
    table = pl.read_csv(published("tournament")).filter(block=block, dimension=dimension, set=set_name)
    assert table.height == 11
    assert abs(table["log_strength"].sum()) <= 0.055  # eleven figures, each within 0.005
    rates = table.sort("log_strength", "win_rate", descending=True)["win_rate"].to_list()
    assert all(better >= worse for better, worse in pairwise(rates))
    expected = bt.expected_win_rates(table["log_strength"].to_numpy())
    assert np.abs(expected - table["win_rate"].to_numpy()).max() < 2


# --- the fit ---


def test_two_arms_by_hand() -> None:
    assert bt.fit(np.array([[0.0, 3.0], [1.0, 0.0]])) == pytest.approx([math.log(3) / 2, -math.log(3) / 2], abs=1e-14)
    assert bt.expected_win_rates(np.array([math.log(3), 0.0])) == pytest.approx([75, 25])
    assert bt.expected_win_rates(np.array([math.log(3), 0.0, 0.0])) == pytest.approx([75, 37.5, 37.5])


@settings(max_examples=30, deadline=None)
@given(fitting())
def test_the_fit_is_that_of_a_plain_iteration(wins: Matrix) -> None:
    assert bt.fit(np.array(wins)) == pytest.approx(plain_fit(wins), abs=1e-8)


@settings(max_examples=60, deadline=None)
@given(fitting(most=1_000_000, arms=12))
def test_unlikely_wins_and_losses_balance_however_lopsided(wins: Matrix) -> None:
    strengths = bt.fit(np.array(wins))
    assert strengths.mean() == pytest.approx(0, abs=1e-12)
    assert imbalance(np.array(wins), strengths) < 1e-9


def test_where_a_whole_newton_step_would_overshoot() -> None:
    wins = np.zeros((6, 6))
    for i, j, times in (
        (0, 1, 7), (1, 2, 7_630), (2, 1, 36_715), (2, 3, 1), (3, 1, 351_399), (3, 4, 1), (4, 0, 3_778),
        (4, 3, 210_733), (4, 5, 1), (5, 0, 1), (5, 1, 56), (5, 2, 10_449), (5, 4, 4),
    ):  # fmt: skip
        wins[i, j] = times
    assert imbalance(wins, bt.fit(wins)) < 1e-9


def test_unlikely_losses_are_not_lost_in_the_rounding_of_many_wins() -> None:
    wins = np.zeros((5, 5))
    for i, j, times in ((0, 1, 1), (1, 2, 59), (2, 3, 1), (3, 0, 414_634), (3, 4, 1), (4, 0, 1)):
        wins[i, j] = times
    assert imbalance(wins, bt.fit(wins)) < 1e-9


def test_a_long_chain_with_one_way_back() -> None:
    arms = 25
    wins = np.zeros((arms, arms))
    wins[np.arange(arms - 1), np.arange(1, arms)] = 1000
    wins[-1, 0] = 1
    steps = -np.diff(bt.fit(wins))
    assert steps == pytest.approx(np.full(arms - 1, math.log(999)), rel=1e-4)


@settings(max_examples=30, deadline=None)
@given(st.lists(matrices(most=3), min_size=1, max_size=6))
def test_a_matrix_fits_alike_alone_and_among_others(found: list[Matrix]) -> None:
    arms = max(len(wins) for wins in found)
    batch = np.zeros((len(found), 1, arms, arms))
    for place, wins in zip(batch, found, strict=True):
        place[0, : len(wins), : len(wins)] = wins
    together = bt.fit(batch)
    assert together.shape == (len(found), 1, arms)
    for place, strengths in zip(batch, together, strict=True):
        assert bt.fit(place[0]).tobytes() == strengths[0].tobytes()
        turned = bt.fit(place[0, ::-1, ::-1])[::-1]
        assert turned == pytest.approx(strengths[0], abs=1e-9, nan_ok=True)


def test_many_matrices_are_fitted_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    wins = np.random.default_rng(1).integers(0, 4, size=(50, 4, 4)) * (1.0 - np.eye(4))
    whole = bt.fit(wins)
    assert 0 < np.isnan(whole[:, 0]).sum() < 50
    monkeypatch.setattr(bt, "_CELLS_AT_ONCE", 3 * 16)
    assert bt.fit(wins).tobytes() == whole.tobytes()


def test_one_that_does_not_converge_has_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bt, "_MOST_STEPS", 2)
    assert np.isnan(bt.fit(np.array([[[0, 9.0], [1, 0]], [[0, 1.0], [1, 0]]]))).tolist() == [[True] * 2, [False] * 2]


# --- where there is none ---


@settings(max_examples=200, deadline=None)
@given(matrices(most=1, arms=6))
def test_there_is_a_fit_exactly_where_every_arm_reaches_every_other(wins: Matrix) -> None:
    arms = range(len(wins))
    reach = [reached(wins, arm) for arm in arms]
    connected = all(len(found) == len(wins) for found in reach)
    matrix = np.array(wins)
    assert bool(bt.strongly_connected(matrix)) is connected
    assert bool(np.isfinite(bt.fit(matrix)).all()) is connected
    groups = bt.groups(matrix)
    assert sorted(arm for group in groups for arm in group) == list(arms)
    for group in groups:
        assert group == sorted(group)
        assert set(group) == {j for j in arms if j in reach[group[0]] and group[0] in reach[j]}
    for earlier, later in pairwise(groups):
        assert not reach[later[0]] & set(earlier)
    both_ways: Matrix = (matrix + matrix.T).tolist()
    assert {frozenset(island) for island in bt.islands(matrix)} == {frozenset(reached(both_ways, arm)) for arm in arms}


@settings(max_examples=50, deadline=None)
@given(st.integers(2, 5), st.integers(0, 4), st.data())
def test_the_prior_makes_any_matrix_fit_and_keeps_the_order_of_wins(arms: int, met: int, data: st.DataObject) -> None:
    wins = np.zeros((arms, arms))
    for i in range(arms):
        for j in range(i):
            wins[i, j] = data.draw(st.integers(0, met))
            wins[j, i] = met - wins[i, j]
    prior = bt.with_prior(wins)
    for axis in (0, 1):
        assert (prior - wins).sum(axis=axis) == pytest.approx(np.full(arms, bt.PRIOR))
    strengths, won = bt.fit(prior), wins.sum(axis=1)
    for i, j in product(range(arms), range(arms)):
        assert (strengths[i] > strengths[j] + 1e-9) == (won[i] > won[j])


def test_the_prior_by_hand() -> None:
    undefeated = np.array([[0.0, 7.0], [0.0, 0.0]])
    assert np.isnan(bt.fit(undefeated)).all()
    assert bt.fit(bt.with_prior(undefeated)) == pytest.approx([math.log(15) / 2, -math.log(15) / 2])
    assert bt.fit(bt.with_prior(np.zeros((3, 3)))).tolist() == [0, 0, 0]


# --- intervals ---


def quantile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    at = share * (len(ordered) - 1)
    low = math.floor(at)
    return ordered[low] + (at - low) * (ordered[min(low + 1, len(ordered) - 1)] - ordered[low])


def test_intervals_are_those_of_a_plain_bootstrap_that_leaves_out_what_has_no_fit() -> None:
    clips, arms = 8, 4
    rng = np.random.default_rng(3)
    wins = (rng.random((clips, arms, arms)) < [[0.7], [0.5], [0.4], [0.2]]) * (1.0 - np.eye(arms))
    weights = clip_weights(clips, 120)
    fits, skipped = [], 0
    for drawn in weights.tolist():
        total = [[sum(w * wins[c, i, j] for c, w in enumerate(drawn)) for j in range(arms)] for i in range(arms)]
        if all(len(reached(total, arm)) == arms for arm in range(arms)):
            fits.append(plain_fit(total))
        else:
            skipped += 1
    assert 0 < skipped < 60
    found = bt.intervals(wins, weights)
    assert found.without_fit == skipped
    assert found.known
    ranked = [[1 + sum(other > own + 1e-9 for other in fit) for own in fit] for fit in fits]
    for arm in range(arms):
        of_arm = [fit[arm] for fit in fits]
        assert found.low[arm] == pytest.approx(quantile(of_arm, 0.025), abs=1e-7)
        assert found.high[arm] == pytest.approx(quantile(of_arm, 0.975), abs=1e-7)
        places = sorted(ranks[arm] for ranks in ranked)
        assert found.rank_low[arm] == places[math.floor(0.025 * (len(places) - 1))]
        assert found.rank_high[arm] == places[math.ceil(0.975 * (len(places) - 1))]
        for other in range(arms):
            apart = [fit[arm] - fit[other] for fit in fits]
            holds_0 = quantile(apart, 0.025) <= 0 <= quantile(apart, 0.975)
            assert found.separated[arm, other] == (not holds_0)
    assert found.separated.any()
    assert not found.separated.all(where=~np.eye(arms, dtype=bool))


def test_resamples_without_a_fit_are_counted() -> None:
    wins = np.array([[[0.0, 1.0], [0.0, 0.0]], [[0.0, 0.0], [1.0, 0.0]], [[0.0, 1.0], [1.0, 0.0]]])
    weights = clip_weights(3, 200)
    one_sided = int(((weights[:, 2] == 0) & ((weights[:, 0] == 0) | (weights[:, 1] == 0))).sum())
    assert one_sided > 0
    assert bt.intervals(wins, weights).without_fit == one_sided
    never = bt.intervals(wins[:1], clip_weights(1, 200))
    assert (never.without_fit, never.known) == (200, False)
    assert np.isnan([never.low, never.high]).all()
    assert not never.separated.any()


@pytest.mark.parametrize(
    ("fitting", "lacking", "known"), [(40, 0, True), (39, 0, False), (60, 60, True), (60, 61, False)]
)
def test_no_interval_where_too_few_resamples_have_a_fit(fitting: int, lacking: int, known: bool) -> None:
    wins = np.array([[[0.0, 2.0], [1.0, 0.0]], [[0.0, 1.0], [0.0, 0.0]]])
    weights = np.array([[1.0, 1.0]] * fitting + [[0.0, 2.0]] * lacking)
    found = bt.intervals(wins, weights)
    assert (found.known, found.without_fit) == (known, lacking)
    assert np.isfinite(found.low).all() == known
    assert found.separated[0, 1] == known


def test_rank_intervals_take_the_outer_one_of_two_resamples() -> None:
    wins = np.array([[[0.0, 2.0], [1.0, 0.0]], [[0.0, 1.0], [2.0, 0.0]]])
    found = bt.intervals(wins, np.array([[1.0, 0.0]] * 2 + [[0.0, 1.0]] * 58))  # the 2.5th percentile: the 2.475th
    assert (found.rank_low.tolist(), found.rank_high.tolist()) == ([1, 1], [2, 2])
    found = bt.intervals(wins, np.array([[1.0, 0.0]] + [[0.0, 1.0]] * 59))
    assert (found.rank_low.tolist(), found.rank_high.tolist()) == ([2, 1], [2, 1])


def test_equal_strengths_share_a_rank() -> None:
    assert bt.ranks(np.array([0.5, -1.0, 0.5 + 1e-13, 0.0])).tolist() == [1, 4, 1, 3]
    assert bt.ranks(np.array([[3.0, 2.0], [0.0, 1e-6]])).tolist() == [[1, 2], [2, 1]]
