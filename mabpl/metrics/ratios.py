"""Pooled metrics: ratios of sums over the clips of a cell, and how the sums are made.

:mod:`mabpl.metrics.summary` says how MicroAnnotationBench's metrics add up; a benchmark whose metrics all pool their
counts states each as a :class:`Ratio` and needs no more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from mabpl.stats.bootstrap import Floats
from mabpl.timelines import Integers, ascending, columns_of, picked, stretches


@dataclass(frozen=True, slots=True)
class Ratio:
    """``scale`` times the sum of ``above`` by the sum of ``below``: expressions over a frame with a row per clip.

    A clip in which either is null has no part in it. Where ``below`` adds up to 0 the ratio is undefined (null), or 0
    if ``zero_if`` adds up to more than 0.
    """

    name: str
    above: pl.Expr
    below: pl.Expr
    scale: float = 100.0
    zero_if: pl.Expr | None = None


def in_order(frame: pl.DataFrame, key: Sequence[str]) -> pl.DataFrame:
    """``frame`` by ``key``."""
    return frame if ascending(columns_of(frame, key)) else frame.sort(key, maintain_order=True)


def grouped(frame: pl.DataFrame, key: Sequence[str], row: Sequence[str]) -> tuple[pl.DataFrame, pl.DataFrame, Integers]:
    """``frame`` by ``key`` and ``row``, the keys, and the first row of each.

    ``row``: what tells the rows of a key apart.
    """
    first = stretches(frame, key)
    keys = picked(frame, key, first)
    if not (ascending(keys) and ascending(columns_of(frame, row), first)):
        frame = frame.sort(*key, *row, maintain_order=True)
        first = stretches(frame, key)
        keys = picked(frame, key, first)
    return frame, keys, first


def summed(values: npt.NDArray[Any], first: Integers) -> npt.NDArray[Any]:
    """Sums of the stretches that begin at ``first``."""
    return np.add.reduceat(values, first) if len(first) else values[:0]


def known_sums(values: Floats, first: Integers) -> Floats:
    """Sums of the stretches that begin at ``first``, NaN left out; NaN where a whole stretch is."""
    unknown = np.isnan(values)
    if not unknown.any():
        return summed(values, first)
    sums = summed(np.where(unknown, 0.0, values), first)
    sums[summed((~unknown).astype(np.int64), first) == 0] = np.nan
    return sums


def sum_column(values: pl.Series, first: Integers) -> pl.Series:
    """:func:`known_sums` of a column."""
    sums = known_sums(values.to_numpy().astype(np.float64, copy=False), first)
    return pl.Series(values.name, sums, nan_to_null=True).cast(values.dtype)


def terms(frame: pl.DataFrame, ratios: Sequence[Ratio]) -> tuple[Floats, Floats]:
    """Numerator (scaled) and denominator of each ratio in each row: float64 (rows, ratios); 0 where it has no part."""
    above = [_known(ratio.scale * ratio.above, ratio.below) for ratio in ratios]
    below = [_known(ratio.below, ratio.above) for ratio in ratios]
    return _matrix(frame, above), _matrix(frame, below)


def _known(value: pl.Expr, other: pl.Expr) -> pl.Expr:
    """``value`` where ``other`` is known too, else 0."""
    return pl.when(other.is_not_null()).then(value).fill_null(0).cast(pl.Float64)


def _matrix(frame: pl.DataFrame, columns: Sequence[pl.Expr]) -> Floats:
    return frame.select(column.alias(str(i)) for i, column in enumerate(columns)).to_numpy()


def pooled(
    frame: pl.DataFrame, key: Sequence[str], row: Sequence[str], counts: Sequence[str], ratios: Sequence[Ratio]
) -> pl.DataFrame:
    """Per ``key``: ``clips`` (its rows), the sums of ``counts``, and the ratios.

    ``row``: what tells the rows of a key apart. Rows are added in the order of ``key`` and ``row``, so that the sums do
    not depend on theirs.
    """
    ordered, keys, first = grouped(frame, key, row)
    above, below = (summed(side, first) for side in terms(ordered, ratios))
    columns = [pl.Series("clips", np.diff(np.append(first, ordered.height)), dtype=pl.Int64)]
    columns += [sum_column(ordered[name], first) for name in counts]
    for j, ratio in enumerate(ratios):
        other = np.zeros(len(first))
        if ratio.zero_if is not None:
            other = summed(_matrix(ordered, [_known(ratio.zero_if, ratio.above)])[:, 0], first)
        undefined = np.where(other > 0, 0.0, np.nan)
        values = np.divide(above[:, j], below[:, j], out=undefined, where=below[:, j] > 0)
        columns.append(pl.Series(ratio.name, values, nan_to_null=True))
    return keys.hstack(columns)
