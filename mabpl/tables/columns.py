"""What a table's schema is made of: columns with type, unit, nullability and meaning."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

SCHEMA_VERSION = 1
"""Written into every parquet file and result folder; raised when a column changes its meaning or goes."""

FRAME_RATE = 30
"""Frames per second of the benchmark's grid (not of a clip's video)."""


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    dtype: type[pl.DataType] | pl.DataType
    meaning: str
    unit: str = ""
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A table's name, what one row of it is, its key and its columns. ``open_ended``: further columns may follow."""

    name: str
    row: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    open_ended: bool = False

    @property
    def schema(self) -> dict[str, pl.DataType]:
        return {c.name: c.dtype if isinstance(c.dtype, pl.DataType) else c.dtype() for c in self.columns}

    def empty(self) -> pl.DataFrame:
        return pl.DataFrame(schema=self.schema)

    def conform(self, frame: pl.DataFrame) -> pl.DataFrame:
        """``frame`` with this table's columns first, in order and type; absent nullable ones become null."""
        columns, have = [], {column.name: column for column in frame.get_columns()}
        for column, dtype in zip(self.columns, self.schema.values(), strict=True):
            if column.name in have:
                found = have[column.name]
                columns.append(found if found.dtype == dtype else found.cast(dtype))
            elif column.nullable:
                columns.append(pl.Series(column.name, [None], dtype=dtype).new_from_index(0, frame.height))
            else:
                raise KeyError(f"table {self.name} lacks column {column.name}")
        if self.open_ended:
            known = {c.name for c in self.columns}
            columns += [have[name] for name in have if name not in known]
        return pl.DataFrame(columns)
