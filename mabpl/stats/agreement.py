"""How far raters agree: share of equal answers, Cohen's kappa, Krippendorff's alpha, distance of scores.

Every statistic is a function of ``(ratings, cluster, weights)`` and gives one value per row of weights:

- ``ratings``: float64 (items, raters), NaN where a rater gave none; yes and no as 1 and 0;
- ``cluster``: int64 (items,), the clip that an item belongs to, as an index from 0;
- ``weights``: float64 (draws, clusters), how often each cluster counts, as
  :func:`mabpl.stats.bootstrap.clip_weights` draws them. An item that is drawn twice counts as two items.

The result is float64 (draws,), NaN where a draw leaves the statistic undefined. Arrays in, arrays out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mabpl.stats.bootstrap import Floats, clip_weights, divided, percentile_interval, ratio_of_sums

Integers = npt.NDArray[np.int64]
Statistic = Callable[[Floats, Integers, Floats], Floats]

_ROUNDING = 1e-12
"""A spread this small beside the squares that it is the difference of is none."""


class Estimate(NamedTuple):
    """A value and the bounds of its interval; NaN where there is none."""

    value: float
    low: float
    high: float


def estimate(
    statistic: Statistic, ratings: Floats, cluster: Integers, weights: Floats | None = None, level: float = 0.95
) -> Estimate:
    """``statistic`` of all items, with its ``level`` interval over ``weights`` (default: the clip bootstrap's).

    A single cluster gives no interval.
    """
    clusters = int(cluster.max(initial=-1)) + 1
    value = float(statistic(ratings, cluster, np.ones((1, clusters)))[0])
    if clusters < 2:
        return Estimate(value, np.nan, np.nan)
    draws = clip_weights(clusters) if weights is None else weights
    low, high = percentile_interval(statistic(ratings, cluster, draws)[:, None], level)
    return Estimate(value, float(low[0]), float(high[0]))


def share_equal(ratings: Floats, cluster: Integers, weights: Floats) -> Floats:
    """Share of equal answers among all pairs of raters who answered the same item."""
    return _over_pairs(ratings, cluster, weights, lambda one, other: one == other)


def mean_distance(ratings: Floats, cluster: Integers, weights: Floats) -> Floats:
    """Mean absolute difference over all pairs of raters who answered the same item, in the ratings' unit."""
    return _over_pairs(ratings, cluster, weights, lambda one, other: np.abs(one - other))


def cohen_kappa(ratings: Floats, cluster: Integers, weights: Floats) -> Floats:
    """Cohen's kappa of two raters; of more, the mean over their pairs (Light's kappa). Ratings are categories.

    ``(p - e) / (1 - e)``: ``p`` is the share of equal answers, ``e`` the share that raters with the same shares of
    categories would reach by chance. Undefined where ``e`` is 1: both gave one and the same answer throughout.
    """
    categories, codes = _categories(ratings)
    kappas = []
    for one, other in _pairs(codes):
        both = (one >= 0) & (other >= 0)
        cells = (cluster[both] * categories + one[both]) * categories + other[both]
        size = weights.shape[1] * categories**2
        tables = np.bincount(cells, minlength=size).reshape(weights.shape[1], categories**2)
        drawn = (weights @ tables).reshape(len(weights), categories, categories)
        items = drawn.sum(axis=(1, 2))
        by_chance = (drawn.sum(axis=2) * drawn.sum(axis=1)).sum(axis=1)
        equal = items * np.trace(drawn, axis1=1, axis2=2)
        kappas.append(divided(equal - by_chance, items**2 - by_chance))
    return np.mean(kappas, axis=0) if kappas else np.full(len(weights), np.nan)


def alpha_nominal(ratings: Floats, cluster: Integers, weights: Floats) -> Floats:
    """Krippendorff's alpha of categories: any number of raters, items with fewer than two ratings left out.

    1 less observed over expected disagreement (Krippendorff, Content Analysis: An Introduction to Its Methodology).
    Undefined where all ratings are equal.
    """
    categories, codes = _categories(ratings)
    counts = (codes[:, :, None] == np.arange(categories)).sum(axis=1).astype(np.float64)
    sizes = counts.sum(axis=1)
    disagreement = sizes**2 - (counts**2).sum(axis=1)
    sums = weights @ _summed(np.where(sizes[:, None] > 1, counts, 0.0), cluster, weights.shape[1])
    expected = sums.sum(axis=1) ** 2 - (sums**2).sum(axis=1)
    return _alpha(sizes, disagreement, expected, cluster, weights)


def alpha_interval(ratings: Floats, cluster: Integers, weights: Floats) -> Floats:
    """Krippendorff's alpha of measures, whose disagreement is the squared difference; see :func:`alpha_nominal`."""
    known = ~np.isnan(ratings)
    sizes = known.sum(axis=1).astype(np.float64)
    paired = known & (sizes > 1)[:, None]
    origin = ratings[paired][0] if paired.any() else 0.0
    values = np.where(paired, ratings - origin, 0.0)
    moments = np.column_stack([paired.sum(axis=1), values.sum(axis=1), (values**2).sum(axis=1)])
    disagreement = 2 * (moments[:, 0] * moments[:, 2] - moments[:, 1] ** 2)
    number, total, squares = (weights @ _summed(moments, cluster, weights.shape[1])).T
    expected = 2 * (number * squares - total**2)
    expected = np.where(expected > _ROUNDING * number * squares, expected, 0.0)
    return _alpha(sizes, disagreement, expected, cluster, weights)


def _alpha(sizes: Floats, disagreement: Floats, expected: Floats, cluster: Integers, weights: Floats) -> Floats:
    """From each item's number of ratings and disagreement (summed over ordered pairs), and that of all ratings."""
    shares = np.divide(disagreement, sizes - 1, out=np.zeros(len(sizes)), where=sizes > 1)
    terms = np.column_stack([shares, np.where(sizes > 1, sizes, 0.0)])
    observed, number = (weights @ _summed(terms, cluster, weights.shape[1])).T
    return 1.0 - divided((number - 1) * observed, expected)


def _over_pairs(
    ratings: Floats, cluster: Integers, weights: Floats, of: Callable[[Floats, Floats], npt.NDArray[Any]]
) -> Floats:
    """The mean of ``of`` over every item and pair of raters who both rated it."""
    above, below = np.zeros(len(ratings)), np.zeros(len(ratings))
    for one, other in _pairs(ratings):
        both = ~(np.isnan(one) | np.isnan(other))
        above[both] += of(one[both], other[both])
        below += both
    sums = _summed(np.column_stack([above, below]), cluster, weights.shape[1])
    return ratio_of_sums(weights, sums[:, :1], sums[:, 1:])[:, 0]


def _pairs(ratings: npt.NDArray[Any]) -> Iterator[tuple[npt.NDArray[Any], npt.NDArray[Any]]]:
    return combinations(ratings.T, 2)


def _categories(ratings: Floats) -> tuple[int, Integers]:
    """How many different ratings there are, and each rating's number among them, -1 where there is none."""
    known = np.unique(ratings[~np.isnan(ratings)])
    codes = np.searchsorted(known, np.nan_to_num(ratings, nan=-np.inf)).astype(np.int64)
    return len(known), np.where(np.isnan(ratings), -1, codes)


def _summed(terms: npt.NDArray[Any], cluster: Integers, clusters: int) -> Floats:
    """Sums over the items of each cluster: (items, terms) to (clusters, terms)."""
    columns = [np.bincount(cluster, weights=column, minlength=clusters) for column in terms.T]
    return np.column_stack(columns) if columns else np.zeros((clusters, 0))
