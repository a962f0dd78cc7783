"""What differs between a recorded document or table and the recomputed one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import polars as pl

from mabpl.tables.schemas import TABLES

_SLACK = 1e-9
"""Floats that are closer are equal: sums may end differently in the last bit on another processor."""


class _Nothing:
    def __str__(self) -> str:
        return "nothing"


NOTHING = _Nothing()
"""Stands for a key, row or file that is not there; null is a value."""


class Difference(NamedTuple):
    """``where``: the place in the document or table. A side that has nothing there holds NOTHING."""

    where: str
    recorded: Any
    recomputed: Any


def equal(recorded: Any, recomputed: Any) -> bool:
    """Whether two JSON values or cells are the same; numbers by value, a boolean is no number."""
    if isinstance(recorded, bool) or isinstance(recomputed, bool):
        return recorded is recomputed
    if isinstance(recorded, float) and isinstance(recomputed, int | float):
        return abs(recorded - recomputed) <= _SLACK
    return bool(recorded == recomputed)


def in_values(recorded: Any, recomputed: Any, where: str = "") -> Iterator[Difference]:
    """The leaves of two JSON values that differ; a key or item that one of them lacks is one difference."""
    if isinstance(recorded, dict) and isinstance(recomputed, dict):
        for key in [*recorded, *(key for key in recomputed if key not in recorded)]:
            place = f"{where}.{key}" if where else key
            if key in recorded and key in recomputed:
                yield from in_values(recorded[key], recomputed[key], place)
            else:
                yield Difference(place, recorded.get(key, NOTHING), recomputed.get(key, NOTHING))
    elif isinstance(recorded, list) and isinstance(recomputed, list) and len(recorded) == len(recomputed):
        for i, (a, b) in enumerate(zip(recorded, recomputed, strict=True)):
            yield from in_values(a, b, f"{where}[{i}]")
    elif not equal(recorded, recomputed):
        yield Difference(where, recorded, recomputed)


def in_tables(name: str, recorded: pl.DataFrame, recomputed: pl.DataFrame) -> Iterator[Difference]:
    """The cells and rows that differ between two frames of the table ``name``."""
    if recorded.schema != recomputed.schema:
        yield Difference(f"{name}: columns", dict(recorded.schema), dict(recomputed.schema))
        return
    key = list(TABLES[name].key)
    one, two = (frame.sort(key, nulls_last=True) for frame in (recorded, recomputed))
    if one.equals(two):
        return
    if one.height != two.height:
        yield Difference(f"{name}: rows", one.height, two.height)
    for row in one.join(two, on=key, how="anti", nulls_equal=True).iter_rows(named=True):
        yield Difference(_place(name, key, row), row, NOTHING)
    for row in two.join(one, on=key, how="anti", nulls_equal=True).iter_rows(named=True):
        yield Difference(_place(name, key, row), NOTHING, row)
    values = [column for column in one.columns if column not in key]
    for row in one.join(two, on=key, suffix=":recomputed", nulls_equal=True).iter_rows(named=True):
        for column in values:
            if not equal(row[column], row[f"{column}:recomputed"]):
                yield Difference(f"{_place(name, key, row)}.{column}", row[column], row[f"{column}:recomputed"])


def _place(name: str, key: list[str], row: dict[str, Any]) -> str:
    return f"{name}[{', '.join(f'{row[k]}' for k in key)}]"
