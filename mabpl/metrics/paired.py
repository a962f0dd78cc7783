"""Two runs on the same clips: how far apart they are, and how far another draw of clips could move that."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from mabpl.metrics import HEADLINE_WEIGHTS, METRICS
from mabpl.metrics.summary import COUNTS, terms
from mabpl.stats import bootstrap


def paired_differences(
    first: pl.DataFrame, second: pl.DataFrame, *, level: float = 0.95, replicates: int = bootstrap.REPLICATES
) -> pl.DataFrame:
    """``first`` less ``second`` of every metric (set values, in percent), the headline and the mean of every count.

    Both: rows of `clip_scores`, one per clip; only clips of both count, and a clip without a value on one side is left
    out of that metric on both. Columns: metric, clips, first, second, difference, and the bounds ``low`` and ``high``
    of its ``level`` interval (paired clip bootstrap; nulls where no clip has values).
    """
    one, two = (side.sort("clip_id") for side in (first, second))
    one, two = one.join(two, on="clip_id", how="semi"), two.join(one, on="clip_id", how="semi")
    needed = [(m.numerator, *m.denominator) if m.pooled else (m.name,) for m in METRICS.values()]
    needed += [(name,) for name in COUNTS]
    known = np.column_stack([_complete(one, columns) & _complete(two, columns) for columns in needed])
    weights = np.vstack([np.ones((1, one.height)), bootstrap.clip_weights(one.height, replicates)])
    values = [_values(weights, side, known) for side in (one, two)]
    differences = values[0] - values[1]
    low, high = bootstrap.percentile_interval(differences[1:], level)
    names = [*METRICS, *COUNTS, "headline"]
    in_headline = known[:, [names.index(name) for name in HEADLINE_WEIGHTS]].all(axis=1).sum()
    frame = pl.DataFrame(
        {
            "metric": names,
            "clips": np.append(known.sum(axis=0), in_headline).astype(np.int64),
            "first": values[0][0],
            "second": values[1][0],
            "difference": differences[0],
            "low": low,
            "high": high,
        }
    )
    return frame.with_columns(pl.col(pl.Float64).fill_nan(None))


def _complete(side: pl.DataFrame, columns: tuple[str, ...]) -> npt.NDArray[np.bool_]:
    return side.select(pl.all_horizontal(pl.col(columns).is_not_null())).to_series().to_numpy()


def _values(weights: bootstrap.Floats, side: pl.DataFrame, known: npt.NDArray[np.bool_]) -> bootstrap.Floats:
    """Float64 (draws, metrics and counts and headline): each a ratio of weighted sums over the ``known`` clips."""
    above, below = terms(side)
    counts = side.select(pl.col(COUNTS).cast(pl.Float64).fill_null(0.0)).to_numpy()
    above = np.where(known, np.hstack([above, counts]), 0.0)
    below = np.where(known, np.hstack([below, np.ones(counts.shape)]), 0.0)
    values = bootstrap.ratio_of_sums(weights, above, below)
    order = list(METRICS)
    headline = sum(weight * values[:, order.index(name)] for name, weight in HEADLINE_WEIGHTS.items())
    return np.column_stack([values, headline])
