"""The clip bootstrap: how far a score would move with another draw of clips.

Clips are drawn with replacement; everything that belongs to a clip moves together (all runs, all generation seeds), so
that differences between runs are paired. A draw is a vector of weights, and every metric a ratio of two weighted sums.
Arrays in, arrays out.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

REPLICATES = 2_000
SEED = 20_261_031


def clip_weights(clips: int, replicates: int = REPLICATES, seed: int = SEED, stratum: int = 0) -> Floats:
    """How often each clip is drawn: float64 (replicates, clips); each row sums to ``clips``. Seeded.

    ``stratum``: sets that are combined are drawn independently, each with a number of its own.
    """
    cells = np.random.default_rng([seed, clips, stratum]).integers(0, clips, size=(replicates, clips))
    cells += np.arange(replicates)[:, None] * clips
    return np.bincount(cells.ravel(), minlength=replicates * clips).reshape(replicates, clips).astype(np.float64)


def ratio_of_sums(weights: Floats, numerator: Floats, denominator: Floats) -> Floats:
    """``weights @ numerator / weights @ denominator``, of (replicates, clips) and (clips, columns).

    Float64 (replicates, columns); NaN where a draw holds nothing to divide by.
    """
    return divided(weights @ numerator, weights @ denominator)


def draws(
    numerator: Floats,
    denominator: Floats,
    cluster: npt.NDArray[np.int64],
    owner: npt.NDArray[np.int64],
    size: tuple[int, int],
    replicates: int = REPLICATES,
    stratum: int = 0,
) -> Floats:
    """Ratios of sums over resampled clusters, for owners (runs) that share them: float64 (replicates, owners, metrics).

    ``numerator``, ``denominator``: float64 (rows, metrics), a row for a cluster of an owner; ``cluster`` and ``owner``
    say which, ``size`` how many clusters and owners there are. NaN where a draw holds nothing to divide by.
    """
    clusters, owners = size
    sums = np.zeros((2, clusters, owners, numerator.shape[1]))
    sums[0, cluster, owner], sums[1, cluster, owner] = numerator, denominator
    above, below = sums.reshape(2, clusters, -1)
    values = ratio_of_sums(clip_weights(clusters, replicates, stratum=stratum), above, below)
    return values.reshape(replicates, owners, -1)


def divided(numerator: Floats, denominator: Floats) -> Floats:
    """Elementwise; NaN where the denominator is 0."""
    ratio: Floats
    if np.all(denominator > 0):  # without an array to fill
        ratio = np.divide(numerator, denominator)
    else:
        ratio = np.divide(numerator, denominator, out=np.full(denominator.shape, np.nan), where=denominator > 0)
    return ratio


def percentile_interval(replicates: Floats, level: float = 0.95) -> tuple[Floats, Floats]:
    """The central ``level`` of each column; draws that are NaN are left out; NaN where none is left."""
    low = (1 - level) / 2
    ordered = np.sort(replicates.T, axis=1)  # NaN last
    kept = (~np.isnan(ordered)).sum(axis=1)
    return _at(ordered, kept, low), _at(ordered, kept, 1 - low)


def _at(ordered: Floats, kept: npt.NDArray[np.int64], quantile: float) -> Floats:
    """The quantile of the first ``kept`` values of each row, as numpy interpolates it."""
    place = quantile * (kept - 1).clip(min=0)
    below = np.floor(place).astype(np.int64)
    above = np.minimum(below + 1, (kept - 1).clip(min=0))
    row, share = np.arange(len(ordered)), place - below
    low, high = ordered[row, below], ordered[row, above]
    step = high - low
    value: Floats = np.where(share < 0.5, low + step * share, high - step * (1 - share))
    return value
