"""A result in SQL."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from mabpl.errors import UsageError

if TYPE_CHECKING:
    import duckdb
    import polars as pl

    from mabpl.benchmarks.micro_annotation.scores import Scores

VIEWS = ("clips", "runs", "segments", "pairs", "matches", "requests", "verdicts", "clip_scores", "set_scores")
_WHERE_THERE = ("pairs", "requests", "verdicts")


class Viewed(Protocol):
    """A result that names its tables itself: a tournament, or another benchmark's."""

    def views(self) -> dict[str, pl.DataFrame]: ...


def connect(result: Scores | Viewed | str | os.PathLike[str], *, pairs: bool = True) -> duckdb.DuckDBPyConnection:
    """A DuckDB connection in memory with the result's tables as views (see data_schema/).

    A path is that of a result folder, whichever benchmark's or tournament's; each of its tables becomes a view.
    ``clip_scores`` carries the clips' own columns too, as ``result.clips`` does. ``pairs=False`` leaves that table out
    where it is not needed, for it is the largest. ``requests`` and ``verdicts`` are there where a judge was asked.
    """
    import duckdb

    from mabpl.benchmarks.micro_annotation.scores import Scores

    connection = duckdb.connect()
    if isinstance(result, str | os.PathLike):
        from mabpl.benchmarks.micro_annotation.results import load_result
        from mabpl.tables import folder, schemas

        named = folder.read_manifest(Path(result)).get("tables", [])
        if "clip_scores" in named:
            return connect(load_result(Path(result)), pairs=pairs)
        for name in schemas.TABLES:
            if name in named:
                connection.register(name, folder.read_table(Path(result), name).to_arrow())
        return connection
    if not isinstance(result, Scores):
        if not hasattr(result, "views"):
            raise UsageError(
                f"expected a result, not {type(result).__name__}", "load it: mabpl.load_result, mabpl.load_tournament"
            )
        for name, frame in result.views().items():
            connection.register(name, frame.to_arrow())
        return connection
    for name in VIEWS:
        if name in _WHERE_THERE and (name not in result.tables or (name == "pairs" and not pairs)):
            continue
        frame = result.clips if name == "clip_scores" else result.table(name)
        connection.register(name, frame.to_arrow())
    return connection
