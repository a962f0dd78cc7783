"""Segment tables as sorted integer arrays with offsets: what the kernels read.

The scored segments only (human idle, human flagged and predicted idle ones are dropped first), each timeline in the
order (start, end, position in the file).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from mabpl.tables.schemas import FRAME_RATE

Integers = npt.NDArray[np.int64]

CLIP_KEY = ("set", "clip_id")
TIMELINE_KEY = ("run", "set", "clip_id")


@dataclass(frozen=True, slots=True)
class Side:
    """Timelines of one side, one after the other.

    ``key``: one row per timeline. ``offset``: int64, one more than timelines. The arrays have one item per scored
    segment: ``start_s``, ``end_s`` (float64 seconds), ``start``, ``end`` (int64 microseconds), ``position`` (int64, in
    the file's clip).
    """

    key: pl.DataFrame
    offset: Integers
    start_s: npt.NDArray[np.float64]
    end_s: npt.NDArray[np.float64]
    start: Integers
    end: Integers
    position: Integers

    @property
    def count(self) -> Integers:
        """Scored segments per timeline."""
        return np.diff(self.offset)

    def timeline_of(self) -> Integers:
        """The timeline's index of each segment."""
        return np.repeat(np.arange(len(self.offset) - 1), self.count)


@dataclass(frozen=True, slots=True)
class Timelines:
    """Both sides; ``clip``: for each predicted timeline the index of its human one."""

    human: Side
    predicted: Side
    clip: Integers


def ticks(seconds: npt.NDArray[np.float64]) -> Integers:
    """On the frame grid: round half to even of the float64 product ``seconds * 30``."""
    return np.rint(seconds * FRAME_RATE).astype(np.int64)


def microseconds(seconds: npt.NDArray[np.float64]) -> Integers:
    return np.rint(seconds * 1e6).astype(np.int64)


def build(
    clips: pl.DataFrame, human: pl.DataFrame, timelines: pl.DataFrame | None, predicted: pl.DataFrame
) -> Timelines:
    """From frames: ``clips`` (set, clip_id), human segments, predicted timelines (run, set, clip_id) and segments.

    ``timelines`` lists the predicted timelines, empty ones included; None takes those that have a segment. Predicted
    timelines of clips that are not in ``clips`` are left out.
    """
    clip_keys = clips.select(CLIP_KEY).unique().sort(CLIP_KEY)
    scored_human = human.filter(~pl.col("is_idle") & ~pl.col("flagged")) if "flagged" in human.columns else human
    human_side = _side(scored_human, CLIP_KEY, clip_keys)
    predicted_side = _side(predicted, TIMELINE_KEY, None if timelines is None else timelines.select(TIMELINE_KEY))
    indexed = clip_keys.with_row_index("clip")
    clip = predicted_side.key.join(indexed, on=CLIP_KEY, how="left", maintain_order="left")["clip"]
    if clip.null_count():
        known = clip.is_not_null()
        predicted_side = _selected(predicted_side, known.to_numpy())
        clip = clip.drop_nulls()
    return Timelines(human_side, predicted_side, clip.cast(pl.Int64).to_numpy(writable=True))


def _side(frame: pl.DataFrame, key: tuple[str, ...], wanted: pl.DataFrame | None) -> Side:
    """The timelines of ``frame`` in key order; with ``wanted``, exactly those (empty where ``frame`` has none)."""
    found, offset = _grouped(frame, key)
    in_key_order = found.sort(key)
    if not found.equals(in_key_order) and found.is_duplicated().any():
        frame = frame.sort(key, maintain_order=True)
        found, offset = _grouped(frame, key)
        in_key_order = found
    columns = [frame[name].to_numpy() for name in ("start_s", "end_s", "segment")]
    keep = ~frame["is_idle"].to_numpy()
    counts = np.diff(offset)
    timeline = np.repeat(np.arange(len(counts)), counts)
    if not keep.all():
        rows = np.flatnonzero(keep)
        columns = [column.take(rows) for column in columns]
        timeline = timeline.take(rows)
        counts = np.bincount(timeline, minlength=len(counts))
    order = _order(timeline, *columns)
    if order is not None:
        columns = [column[order] for column in columns]
    side = _make(found, counts, *columns)
    target = in_key_order if wanted is None else wanted.sort(key)
    return side if target.equals(found) else _placed(side, target, key)


def _grouped(frame: pl.DataFrame, key: tuple[str, ...]) -> tuple[pl.DataFrame, Integers]:
    """The key of each stretch of rows with equal key, and where the stretches begin and end."""
    if frame.is_empty():
        return frame.select(key), np.zeros(1, np.int64)
    changes = frame.select(pl.any_horizontal(pl.col(k) != pl.col(k).shift() for k in key).fill_null(True).arg_true())
    first = changes.to_series()
    return frame.select(key)[first], np.append(first.cast(pl.Int64).to_numpy(), frame.height)


def _order(
    timeline: Integers, start: npt.NDArray[np.float64], end: npt.NDArray[np.float64], position: npt.NDArray[np.int32]
) -> Integers | None:
    """The rows in the order (timeline, start, end, position); None where they are in it already."""
    before, after = slice(None, -1), slice(1, None)
    same = timeline[before] == timeline[after]
    tied = start[before] == start[after]
    wrong = same & (
        (start[before] > start[after])
        | (tied & ((end[before] > end[after]) | ((end[before] == end[after]) & (position[before] > position[after]))))
    )
    if not wrong.any():
        return None
    faulty = np.zeros(int(timeline[-1]) + 1, np.bool_)
    faulty[timeline[after][wrong]] = True
    rows = np.flatnonzero(faulty[timeline])
    order = np.arange(len(timeline))
    order[rows] = rows[np.lexsort((position[rows], end[rows], start[rows], timeline[rows]))]
    return order


def _make(
    key: pl.DataFrame,
    counts: Integers,
    start_s: npt.NDArray[np.float64],
    end_s: npt.NDArray[np.float64],
    position: npt.NDArray[np.int32],
) -> Side:
    return Side(
        key,
        np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)]),
        start_s,
        end_s,
        microseconds(start_s),
        microseconds(end_s),
        position.astype(np.int64),
    )


def _placed(side: Side, wanted: pl.DataFrame, key: tuple[str, ...]) -> Side:
    """``side`` with exactly the timelines of ``wanted``, in its order."""
    index = wanted.join(side.key.with_row_index("index"), on=key, how="left", maintain_order="left")["index"]
    at = index.cast(pl.Int64).fill_null(-1).to_numpy()
    counts = np.where(at >= 0, side.count[at], 0) if len(side.count) else np.zeros(len(at), np.int64)
    ends = np.cumsum(counts)
    rows = np.repeat(side.offset[at] - (ends - counts), counts) + np.arange(int(ends[-1]) if len(ends) else 0)
    return _make(wanted, counts, side.start_s[rows], side.end_s[rows], side.position[rows].astype(np.int32))


def _selected(side: Side, keep: npt.NDArray[np.bool_]) -> Side:
    return _placed(side, side.key.filter(pl.Series(keep)), tuple(side.key.columns))
