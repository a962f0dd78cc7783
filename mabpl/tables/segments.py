"""A `segments` table from outside: the columns that scoring needs, of the right types, and sound in every row."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import polars as pl

from mabpl.errors import InvalidTimelines, UsageError
from mabpl.tables.schemas import SEGMENTS

NEEDED = ("set", "clip_id", "segment", "start_s", "end_s", "is_idle")
WHERE_GIVEN = ("run", "flagged")
LONGEST_S = 2**51 / 1e6
"""Times are compared as whole microseconds, whose ratios float64 still tells apart."""


def require_columns(have: Collection[str], source: str, needed: Collection[str] = NEEDED) -> None:
    lacking = [name for name in needed if name not in have]
    if lacking:
        raise UsageError(f"{source} lacks {', '.join(lacking)}", f"it has: {', '.join(have)}")


def checked(frame: pl.DataFrame, source: str) -> pl.DataFrame:
    """``frame``, its columns in the types of the table `segments`.

    Raises :class:`UsageError` for a missing column or one of a wrong type and :class:`InvalidTimelines` for nulls,
    times that are not finite, and segments that end before they have lasted a microsecond.
    """
    require_columns(frame.columns, source)
    have, wanted = frame.schema, SEGMENTS.schema
    columns = [name for name in (*NEEDED, *WHERE_GIVEN) if name in have]
    wrong = {name: wanted[name] for name in columns if have[name] != wanted[name]}
    if wrong:
        try:
            frame = frame.with_columns(_cast(frame[name], dtype) for name, dtype in wrong.items())
        except pl.exceptions.PolarsError:
            told = ", ".join(f"{name} is {have[name]} instead of {dtype}" for name, dtype in wrong.items())
            raise UsageError(f"{source}: {told}", "see `mabpl schema segments`") from None
    nulls = [name for name in columns if name != "run" and frame[name].null_count()]
    if nulls:
        raise InvalidTimelines(f"{source}: nulls in {', '.join(nulls)}", "drop or mend these rows")
    start, end = (frame[name].to_numpy() for name in ("start_s", "end_s"))
    if len(start) and not (start.min() >= -LONGEST_S and end.max() <= LONGEST_S and (end - start).min() > 2e-6):
        if not (np.isfinite(start).all() and np.isfinite(end).all() and (start >= -LONGEST_S).all()):
            raise InvalidTimelines(f"{source}: a time is not finite, or too early", "drop or mend these rows")
        with np.errstate(over="ignore"):
            short = np.rint(end * 1e6) <= np.rint(start * 1e6)
        if bad := int((short | (end > LONGEST_S)).sum()):
            raise InvalidTimelines(f"{source}: {bad} segments end before they begin, or too late", "drop or mend them")
    return frame


def _cast(column: pl.Series, dtype: pl.DataType) -> pl.Series:
    if column.dtype.is_numeric() != dtype.is_numeric() and column.null_count() < len(column):
        raise pl.exceptions.InvalidOperationError(f"{column.dtype} is no {dtype}")
    return column.cast(dtype)
