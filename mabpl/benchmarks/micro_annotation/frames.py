"""Typed rows as the frames of the table schemas."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from mabpl.benchmarks.micro_annotation.rows import LabelsRow, PredictionRow
from mabpl.tables.schemas import CLIPS, FRAME_RATE, SEGMENTS

KEY = {"set": pl.String, "clip_id": pl.String}


def times_of(rows: Sequence[LabelsRow | PredictionRow]) -> tuple[np.ndarray[Any, Any], ...]:
    """start_s, end_s of all segments one after another, and how many segments each row has."""
    return (
        np.array([s.start_s for row in rows for s in row.segments], dtype=np.float64),
        np.array([s.end_s for row in rows for s in row.segments], dtype=np.float64),
        np.array([len(row.segments) for row in rows], dtype=np.int64),
    )


def segments_frame(keys: pl.DataFrame, rows: Sequence[LabelsRow | PredictionRow]) -> pl.DataFrame:
    """The table `segments` of ``rows``, whose run, set and clip are the rows of ``keys``."""
    start, end, counts = times_of(rows)
    timeline = np.repeat(np.arange(len(rows)), counts)
    first = np.cumsum(counts) - counts
    columns: dict[str, Any] = {
        "segment": np.arange(len(start), dtype=np.int32) - first[timeline].astype(np.int32),
        "start_s": start,
        "end_s": end,
        "start_tick": np.rint(start * FRAME_RATE).astype(np.int64),
        "end_tick": np.rint(end * FRAME_RATE).astype(np.int64),
        "label": pl.Series([s.label for row in rows for s in row.segments], dtype=pl.String),
        "is_idle": pl.Series([s.is_idle for row in rows for s in row.segments], dtype=pl.Boolean),
        "flagged": pl.Series([False], dtype=pl.Boolean).new_from_index(0, len(start)),
    }
    if rows and isinstance(rows[0], LabelsRow):
        human = [s for row in rows if isinstance(row, LabelsRow) for s in row.segments]
        columns["hands"] = pl.Series([s.hands for s in human], dtype=pl.String)
        columns["flagged"] = pl.Series([s.flagged for s in human], dtype=pl.Boolean)
    return SEGMENTS.conform(pl.concat([keys[timeline], pl.DataFrame(columns)], how="horizontal"))


def clips_frame(set_name: str, rows: Sequence[tuple[int, LabelsRow, dict[str, Any]]]) -> pl.DataFrame:
    known = [row for _, row, _ in rows]
    columns: dict[str, Any] = {
        "set": pl.Series([set_name] * len(rows), dtype=pl.String),
        "clip_id": pl.Series([row.clip_id for row in known], dtype=pl.String),
        "duration_s": pl.Series([row.duration_s for row in known], dtype=pl.Float64),
        "num_frames": pl.Series([row.num_frames for row in known], dtype=pl.Int64),
        "source_fps": pl.Series([row.source_fps for row in known], dtype=pl.Float64),
        "caption": pl.Series(
            [row.task_summary.caption if row.task_summary else None for row in known], dtype=pl.String
        ),
    }
    for name in sorted({name for _, _, extras in rows for name in extras}):
        column = name
        while column in CLIPS.schema or column in columns:
            column = f"row_{column}"
        columns[column] = extra_column([extras.get(name) for _, _, extras in rows])
    return CLIPS.conform(pl.DataFrame(columns))


def extra_column(values: Sequence[Any]) -> pl.Series:
    """JSON scalars as a column of their one type; of mixed types: as strings."""
    kinds = {type(value) for value in values if value is not None}
    if kinds == {bool}:
        return pl.Series(values, dtype=pl.Boolean)
    if kinds == {int} and all(-(2**63) <= value < 2**63 for value in values if value is not None):
        return pl.Series(values, dtype=pl.Int64)
    if kinds in ({float}, {int, float}):
        return pl.Series([None if value is None else float(value) for value in values], dtype=pl.Float64)
    texts = [value if value is None or isinstance(value, str) else json.dumps(value) for value in values]
    return pl.Series(texts, dtype=pl.String)


def timelines_frame(rows: Sequence[tuple[Any, ...]], key: list[str]) -> pl.DataFrame:
    schema = {**dict.fromkeys([*key, "file"], pl.String), "line": pl.Int64}
    return pl.DataFrame(rows, schema=schema, orient="row")
