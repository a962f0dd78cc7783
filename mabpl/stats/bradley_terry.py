"""Bradley-Terry strengths from who beat whom.

The model: arm i beats arm j with probability ``1 / (1 + exp(s_j - s_i))`` (Bradley and Terry, Rank analysis of
incomplete block designs, 1952). Strengths s are natural logs, and their mean is 0. The fit is maximum likelihood.

It exists only where the graph of wins (an edge from the winner to the loser) is strongly connected (Ford, Solution of
a ranking problem from binary comparisons, 1957): otherwise one group of arms never lost to another, and the likelihood
grows for ever as the two drift apart. Such matrices get no number here; :func:`with_prior` makes them fit for one, and
:func:`groups` says why they were not.

Matrices are ``wins[..., i, j]``, how often i beat j, in float64; the diagonal is 0. Arrays in, arrays out.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from mabpl.stats.bootstrap import Floats, percentile_interval

Integers = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]
Ties = Literal["nowhere", "half"]
"""What a tie is worth: nothing, or half a win to each side."""

REPLICATES = 500
LEAST_REPLICATES = 40
"""Fewer have no 2.5th percentile."""
LEAST_FITTED = 0.5
"""Share of resamples that must have a fit. Those without one are the extreme ones: what is left is too narrow."""

PRIOR = 0.5
"""Wins, and as many losses, that :func:`with_prior` adds to each arm."""

_CONVERGED = 1e-9
"""Newton steps shorter than this are the last: the next one would be its square."""
_MOST_STEPS = 200
_EQUAL = 1e-9
"""Strengths this near to each other share a rank."""
_CELLS_AT_ONCE = 250_000


def fit(wins: Floats) -> Floats:
    """Log strengths (..., arms) of each matrix of ``wins`` (..., arms, arms); NaN where there is no fit.

    Two arms or more.
    """
    arms = wins.shape[-1]
    flat = np.ascontiguousarray(wins, dtype=np.float64).reshape(-1, arms, arms)
    strengths = np.full((len(flat), arms), np.nan)
    at_once = max(1, _CELLS_AT_ONCE // arms**2)
    for begin in range(0, len(flat), at_once):
        block = flat[begin : begin + at_once]
        known = strongly_connected(block)
        strengths[begin : begin + at_once][known] = _newton(block[known])
    shaped: Floats = strengths.reshape(wins.shape[:-1])
    return shaped


def _newton(wins: Floats) -> Floats:
    """Strengths (matrices, arms) of strongly connected matrices; NaN for one that does not converge.

    Along any line the third derivative of the log-likelihood is at most r times its second, where r is the largest
    difference between two arms' components of the step. So a Newton step that is shortened to log(1 + r) / r of itself
    never overshoots, from any start, and near the top it is a whole step (Bach, Self-concordant analysis for logistic
    regression, 2010).
    """
    arms = wins.shape[-1]
    strengths = np.full(wins.shape[:2], np.nan)
    open_ = np.arange(len(wins))
    now = np.zeros(wins.shape[:2])
    diagonal = np.arange(arms)
    for _ in range(_MOST_STEPS):
        if not open_.size:
            break
        chance = _chances(now)
        upset = chance.swapaxes(-1, -2)
        # Not as wins less games times chance: two large numbers whose difference is lost in their rounding.
        unforeseen = wins * upset
        gradient = unforeseen.sum(axis=-1) - unforeseen.sum(axis=-2)
        curvature = -(unforeseen * chance)
        curvature += curvature.swapaxes(-1, -2)
        trace = -curvature.sum(axis=-1)
        curvature[:, diagonal, diagonal] += trace
        # Strengths are known up to a constant: this keeps their sum at 0 and the matrix regular.
        curvature += trace.mean(axis=-1)[:, None, None] / arms
        step = np.linalg.solve(curvature, gradient[..., None])[..., 0]
        reach = np.ptp(step, axis=-1)
        now = now + step * np.divide(np.log1p(reach), reach, out=np.ones_like(reach), where=reach > 0)[:, None]
        done = reach < _CONVERGED
        strengths[open_[done]] = now[done]
        left = ~done
        open_, wins, now = open_[left], wins[left], now[left]
    return strengths


def _chances(strengths: Floats) -> Floats:
    """The chance (..., i, j) that i beats j, precise where it is small; 1/2 on the diagonal."""
    with np.errstate(over="ignore"):
        chances: Floats = 1 / (1 + np.exp(strengths[..., None, :] - strengths[..., :, None]))
    return chances


def with_prior(wins: Floats) -> Floats:
    """``wins`` with :data:`PRIOR` further wins and losses of each arm, spread evenly over the other arms.

    Every arm has then beaten every other, so that there is a fit; it draws the strengths together. For two arms this is
    the correction that adds 1/2 to each count (Haldane, The estimation and significance of the logarithm of a ratio of
    frequencies, 1956).
    """
    arms = wins.shape[-1]
    added: Floats = wins + PRIOR / (arms - 1) * (1 - np.eye(arms))
    return added


def with_ties(wins: Floats, ties: Floats, worth: Ties) -> Floats:
    """``wins`` with what the ``ties`` (..., i, j), the same from either side, are worth."""
    return wins + ties / 2 if worth == "half" else wins


def expected_win_rates(strengths: Floats) -> Floats:
    """Percent (..., arms): the mean, over the other arms, of the chance to beat them."""
    others = strengths.shape[-1] - 1
    rates: Floats = 100 * (_chances(strengths).sum(axis=-1) - 0.5) / others
    return rates


def ranks(strengths: Floats) -> Integers:
    """1 + number of stronger arms, (..., arms); strengths that differ by rounding alone share a rank."""
    stronger = strengths[..., None, :] > strengths[..., :, None] + _EQUAL
    ranked: Integers = 1 + stronger.sum(axis=-1, dtype=np.int64)
    return ranked


# --- whether there is a fit ---


def strongly_connected(wins: Floats) -> Booleans:
    """Whether from every arm wins lead to every other, (...) of (..., arms, arms)."""
    edges = (wins > 0).astype(np.float32)
    return _reaches_all(edges) & _reaches_all(edges.swapaxes(-1, -2))


def _reaches_all(edges: npt.NDArray[np.float32]) -> Booleans:
    """Whether the first arm reaches all."""
    reached = np.zeros((*edges.shape[:-2], 1, edges.shape[-1]), dtype=np.float32)
    reached[..., 0] = 1
    while True:
        further = np.minimum(reached + reached @ edges, 1)
        if (further == reached).all():
            return np.asarray(reached.all(axis=(-1, -2)))
        reached = further


def groups(wins: Floats) -> list[list[int]]:
    """The strongly connected groups of one matrix (arms, arms): within each there is a fit, between them none.

    Arms in ascending order. No win leads from a later group to an earlier one.
    """
    reach = _closure(wins > 0)
    mutual = reach & reach.T
    heads = [arm for arm in range(len(wins)) if not mutual[arm, :arm].any()]
    heads.sort(key=lambda arm: (-int(reach[arm].sum()), arm))
    return [np.flatnonzero(mutual[head]).tolist() for head in heads]


def islands(wins: Floats) -> list[list[int]]:
    """The groups of one matrix (arms, arms) without any win between them, by their first arm."""
    reach = _closure((wins > 0) | (wins > 0).T)
    heads = [arm for arm in range(len(wins)) if not reach[arm, :arm].any()]
    return [np.flatnonzero(reach[head]).tolist() for head in heads]


def _closure(edges: Booleans) -> Booleans:
    reach = edges | np.eye(len(edges), dtype=np.bool_)
    for middle in range(len(edges)):
        reach |= reach[:, middle, None] & reach[middle]
    return reach


# --- how sure it is ---


class Intervals(NamedTuple):
    """Central intervals over resamples of clips; nulls are NaN, and ranks -1.

    ``low``, ``high``, ``rank_low``, ``rank_high``: (arms,). ``separated``: (arms, arms), whether the interval of the
    difference of two strengths excludes 0. ``without_fit``: resamples without a fit, which are left out.
    """

    low: Floats
    high: Floats
    rank_low: Integers
    rank_high: Integers
    separated: Booleans
    without_fit: int

    @property
    def known(self) -> bool:
        return bool(len(self.rank_low)) and int(self.rank_low[0]) > 0


def intervals(wins: Floats, weights: Floats, level: float = 0.95) -> Intervals:
    """Refits to resamples of clips: ``wins`` (clips, arms, arms), ``weights`` (resamples, clips).

    ``weights``: how often each clip is drawn, as :func:`mabpl.stats.bootstrap.clip_weights` makes them; all comparisons
    of a clip move together. Bounds are null where fewer than :data:`LEAST_REPLICATES` resamples, or less than the share
    :data:`LEAST_FITTED` of them, have a fit.
    """
    clips, arms, _ = wins.shape
    drawn = fit((weights @ wins.reshape(clips, -1)).reshape(-1, arms, arms))
    kept = drawn[~np.isnan(drawn).any(axis=-1)]
    without_fit = len(drawn) - len(kept)
    if len(kept) < max(LEAST_REPLICATES, LEAST_FITTED * len(drawn)):
        nothing, nowhere = np.full(arms, np.nan), np.full(arms, -1)
        return Intervals(nothing, nothing, nowhere, nowhere, np.zeros((arms, arms), dtype=np.bool_), without_fit)
    low, high = percentile_interval(kept, level)
    tail = (1 - level) / 2
    ranked = ranks(kept)
    rank_low = np.quantile(ranked, tail, axis=0, method="lower").astype(np.int64)
    rank_high = np.quantile(ranked, 1 - tail, axis=0, method="higher").astype(np.int64)
    differences = (kept[:, :, None] - kept[:, None, :]).reshape(len(kept), -1)
    difference_low, difference_high = percentile_interval(differences, level)
    separated = ((difference_low > 0) | (difference_high < 0)).reshape(arms, arms)
    return Intervals(low, high, rank_low, rank_high, separated, without_fit)
