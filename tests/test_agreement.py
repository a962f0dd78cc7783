"""Agreement of raters, held to figures of the literature, to the definitions as loops, and to another package."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mabpl.stats import agreement, bootstrap
from mabpl.stats.agreement import Floats, Integers

N = np.nan
STATISTICS = {
    name: getattr(agreement, name)
    for name in ("share_equal", "mean_distance", "cohen_kappa", "alpha_nominal", "alpha_interval")
}


def of_all(statistic: agreement.Statistic, ratings: Floats) -> float:
    return float(statistic(ratings, np.arange(len(ratings)), np.ones((1, len(ratings))))[0])


def two_raters(table: list[list[int]]) -> Floats:
    """From a table of counts: rows are the answers of the first rater."""
    pairs = [(i, j) for i, row in enumerate(table) for j, count in enumerate(row) for _ in range(count)]
    return np.array(pairs, dtype=np.float64)


# --- the literature ---

FOUR_OBSERVERS = np.array(
    [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, N, N, N],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, N, 3],
        [N, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, N],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, N],
    ]
).T
"""Krippendorff, Computing Krippendorff's Alpha-Reliability (2011): four observers, twelve units."""

TWO_OBSERVERS = np.array([[0, 1, 0, 0, 0, 0, 0, 0, 1, 0], [1, 1, 1, 0, 0, 1, 0, 0, 0, 0]], dtype=np.float64).T
"""The same: two observers, binary."""


def test_alpha_is_the_published_one() -> None:
    assert of_all(agreement.alpha_nominal, FOUR_OBSERVERS) == pytest.approx(0.743, abs=5e-4)
    assert of_all(agreement.alpha_interval, FOUR_OBSERVERS) == pytest.approx(0.849, abs=5e-4)
    assert of_all(agreement.alpha_nominal, TWO_OBSERVERS) == pytest.approx(0.095, abs=5e-4)


def test_kappa_by_hand() -> None:
    """20 + 15 of 50 agree: p = 0.7; e = 0.5 * 0.6 + 0.5 * 0.4 = 0.5."""
    assert of_all(agreement.cohen_kappa, two_raters([[20, 5], [10, 15]])) == pytest.approx(0.4, abs=1e-15)
    assert of_all(agreement.share_equal, two_raters([[20, 5], [10, 15]])) == pytest.approx(0.7, abs=1e-15)
    assert of_all(agreement.cohen_kappa, two_raters([[0, 10], [10, 0]])) == -1.0


def test_of_three_raters_kappa_is_the_mean_of_their_pairs() -> None:
    ratings = np.array([[0, 0, 1], [1, 1, N], [0, 1, 0], [1, 0, 1], [0, 0, 0]], dtype=np.float64)
    pairs = [of_all(agreement.cohen_kappa, ratings[:, both]) for both in ([0, 1], [0, 2], [1, 2])]
    assert of_all(agreement.cohen_kappa, ratings) == pytest.approx(np.mean(pairs))


def test_distance_and_share_count_pairs_of_raters() -> None:
    scores = np.array([[90, 100, 70], [50, N, 40], [N, N, 10]], dtype=np.float64)
    assert of_all(agreement.mean_distance, scores) == (10 + 20 + 30 + 10) / 4
    assert of_all(agreement.share_equal, scores) == 0.0


@pytest.mark.parametrize("constant", [1.0, 0.1, 87.3])
def test_what_one_answer_throughout_leaves_undefined(constant: float) -> None:
    same = np.full((7, 3), constant)
    for name in ("cohen_kappa", "alpha_nominal", "alpha_interval"):
        assert np.isnan(of_all(STATISTICS[name], same)), name
    assert of_all(agreement.share_equal, same) == 1.0
    assert of_all(agreement.mean_distance, same) == 0.0


@pytest.mark.parametrize("constant", [0.1, 12.34567, 87.3])
def test_a_draw_of_equal_scores_has_no_alpha(constant: float) -> None:
    """Its spread is nothing, though not to the last bit."""
    ratings = np.array([[0.7, 0.7], *[[constant, constant]] * 3])
    assert np.isnan(agreement.alpha_interval(ratings, np.array([0, 1, 1, 1]), np.array([[0.0, 7.0]]))).all()


@pytest.mark.parametrize("name", STATISTICS)
def test_nothing_to_compare_is_undefined(name: str) -> None:
    for ratings in (np.zeros((0, 2)), np.array([[1.0, N], [N, 0.0]]), np.full((3, 2), N)):
        assert np.isnan(of_all(STATISTICS[name], ratings))


# --- the definitions as loops ---


def plain_alpha(ratings: Floats, difference: Callable[[float, float], float]) -> float:
    units = [[v for v in row if not np.isnan(v)] for row in ratings.tolist()]
    units = [unit for unit in units if len(unit) > 1]
    values = [v for unit in units for v in unit]
    observed = sum(
        difference(a, b) / (len(unit) - 1) for unit in units for a, b in permutations(unit, 2)
    ) / max(len(values), 1)  # fmt: skip
    expected = sum(difference(a, b) for a, b in permutations(values, 2)) / max(len(values) * (len(values) - 1), 1)
    return 1 - observed / expected if expected else float("nan")


def plain_kappa(ratings: Floats) -> float:
    kappas = []
    for i in range(ratings.shape[1]):
        for j in range(i + 1, ratings.shape[1]):
            both = [(a, b) for a, b in ratings[:, [i, j]].tolist() if not (np.isnan(a) or np.isnan(b))]
            equal = sum(a == b for a, b in both) / max(len(both), 1)
            chance = sum(a == b for a, _ in both for _, b in both) / max(len(both) ** 2, 1)
            kappas.append((equal - chance) / (1 - chance) if both and chance < 1 else float("nan"))
    return float(np.mean(kappas))


PLAIN = {
    "alpha_nominal": lambda ratings: plain_alpha(ratings, lambda a, b: float(a != b)),
    "alpha_interval": lambda ratings: plain_alpha(ratings, lambda a, b: (a - b) ** 2),
    "cohen_kappa": plain_kappa,
}


@st.composite
def drawn(draw: st.DrawFn) -> tuple[Floats, Integers, Floats]:
    """Ratings of 2-4 raters, in up to 4 clips, and how often each clip is drawn."""
    items, raters, clips = draw(st.integers(1, 9)), draw(st.integers(2, 4)), draw(st.integers(1, 4))
    rating = st.sampled_from([0.0, 1.0, 30.0, N])
    ratings = draw(st.lists(st.lists(rating, min_size=raters, max_size=raters), min_size=items, max_size=items))
    cluster = draw(st.lists(st.integers(0, clips - 1), min_size=items, max_size=items))
    weights = draw(st.lists(st.integers(0, 3), min_size=clips, max_size=clips))
    return np.array(ratings), np.array(cluster), np.array([weights], dtype=np.float64)


@settings(max_examples=150, deadline=None)
@given(drawn())
def test_a_weight_is_a_number_of_copies(case: tuple[Floats, Integers, Floats]) -> None:
    """Each statistic of a draw is that of the drawn clips' items written out, and is as the definition says."""
    ratings, cluster, weights = case
    written_out = np.repeat(ratings, weights[0, cluster].astype(int), axis=0)
    for name, statistic in STATISTICS.items():
        value = statistic(ratings, cluster, weights)
        assert value.shape == (1,)
        assert value[0] == pytest.approx(of_all(statistic, written_out), abs=1e-12, nan_ok=True), name
        if name in PLAIN:
            assert value[0] == pytest.approx(PLAIN[name](written_out), abs=1e-12, nan_ok=True), name


def test_alpha_equals_another_package() -> None:
    other = pytest.importorskip("krippendorff", reason="the package krippendorff is not installed (extra bench)")
    random = np.random.default_rng(5)
    for _ in range(20):
        ratings = random.integers(0, 5, size=(30, 4)).astype(np.float64)
        ratings[random.random(ratings.shape) < 0.3] = N
        for level in ("nominal", "interval"):
            theirs = other.alpha(reliability_data=ratings.T, level_of_measurement=level)
            assert of_all(STATISTICS[f"alpha_{level}"], ratings) == pytest.approx(theirs, abs=1e-12)


# --- intervals ---


def test_an_interval_is_that_of_the_clip_bootstrap() -> None:
    """Clips, not items, are drawn: ten items that always agree in one clip, ten that never do in the other."""
    ratings = np.array([[1.0, 1.0]] * 10 + [[1.0, 0.0]] * 10)
    found = agreement.estimate(agreement.share_equal, ratings, np.repeat([0, 1], 10))
    assert found == (0.5, 0.0, 1.0)
    of_items = agreement.estimate(agreement.share_equal, ratings, np.arange(20))
    assert 0.2 < of_items.low < 0.4 < 0.6 < of_items.high < 0.8
    draws = bootstrap.clip_weights(20) @ (ratings[:, 0] == ratings[:, 1]) / 20
    assert (of_items.low, of_items.high) == pytest.approx(np.quantile(draws, [0.025, 0.975]))


def test_one_clip_has_no_interval() -> None:
    value, low, high = agreement.estimate(agreement.share_equal, np.array([[1.0, 1.0], [0.0, 1.0]]), np.array([0, 0]))
    assert value == 0.5
    assert np.isnan([low, high]).all()
