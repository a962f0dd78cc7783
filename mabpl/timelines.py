"""Segment tables as sorted integer arrays with offsets: what the kernels read.

The scored segments only (human idle, human flagged and predicted idle ones are dropped first), each timeline in the
order (start, end, position in the file).
"""

from __future__ import annotations

import functools
import operator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

Integers = npt.NDArray[np.int64]

MICROSECONDS = 1e6
"""A second's worth, for :func:`in_units`; the frame grid's is ``tables.schemas.FRAME_RATE``."""

CLIP_KEY = ("set", "clip_id")
TIMELINE_KEY = ("run", "set", "clip_id")


@dataclass(frozen=True, slots=True)
class Side:
    """Timelines of one side, one after the other.

    ``key``: one row per timeline. ``offset``: int64, one more than timelines. The arrays have one item per scored
    segment: ``start_s``, ``end_s`` (float64 seconds), ``position`` (int32, in the file's clip).
    """

    key: pl.DataFrame
    offset: Integers
    start_s: npt.NDArray[np.float64]
    end_s: npt.NDArray[np.float64]
    position: npt.NDArray[np.int32]

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


def in_units(seconds: npt.NDArray[np.float64], per_second: float) -> Integers:
    """As whole units: round half to even of the float64 product ``seconds * per_second``."""
    return np.rint(seconds * per_second).astype(np.int64)


def build(
    clips: pl.DataFrame, human: pl.DataFrame, timelines: pl.DataFrame | None, predicted: pl.DataFrame
) -> Timelines:
    """From frames: ``clips`` (set, clip_id), human segments, predicted timelines (run, set, clip_id) and segments.

    ``timelines`` lists the predicted timelines, empty ones included; None takes those that have a segment. Predicted
    timelines of clips that are not in ``clips`` are left out.
    """
    clip_keys = clips.select(CLIP_KEY)
    if not _ascending(clip_keys):
        clip_keys = clip_keys.unique().sort(CLIP_KEY)
    flagged = human["flagged"] if "flagged" in human.columns else None
    human_side = _side(human, CLIP_KEY, clip_keys, flagged)
    predicted_side = _side(predicted, TIMELINE_KEY, None if timelines is None else timelines.select(TIMELINE_KEY))
    indexed = clip_keys.with_row_index("clip")
    clip = predicted_side.key.join(indexed, on=CLIP_KEY, how="left", maintain_order="left")["clip"]
    if clip.null_count():
        known = clip.is_not_null()
        predicted_side = _placed(predicted_side, predicted_side.key.filter(known))
        clip = clip.drop_nulls()
    return Timelines(human_side, predicted_side, clip.to_numpy().astype(np.int64))


def _side(
    frame: pl.DataFrame, key: tuple[str, ...], wanted: pl.DataFrame | None, flagged: pl.Series | None = None
) -> Side:
    """The timelines of ``frame`` in key order; with ``wanted``, exactly those (empty where ``frame`` has none)."""
    first = _stretches(frame, key)
    found = frame.select(key)[first]
    in_order = _ascending(found)
    if not in_order and found.is_duplicated().any():
        columns = [*key, "start_s", "end_s", "segment", "is_idle", *([] if flagged is None else ["flagged"])]
        frame = frame.select(columns).sort(key, maintain_order=True)
        return _side(frame, key, wanted, None if flagged is None else frame["flagged"])
    offset = np.append(first, frame.height)
    start, end, position = (frame[name].to_numpy() for name in ("start_s", "end_s", "segment"))
    excluded = frame["is_idle"] if flagged is None else frame["is_idle"] | flagged
    if excluded.any():
        kept = np.flatnonzero(~excluded.to_numpy())
        start, end, position = start.take(kept), end.take(kept), position.take(kept)
        offset = np.searchsorted(kept, offset)
    order = _order(offset, start, end, position)
    if order is not None:
        start, end, position = start.take(order), end.take(order), position.take(order)
    side = Side(found, offset, start, end, position)
    if wanted is None:
        return side if in_order else _placed(side, found.sort(key))
    target = wanted if _ascending(wanted) else wanted.sort(key)
    return side if in_order and target.equals(found) else _placed(side, target)


def _stretches(frame: pl.DataFrame, key: tuple[str, ...]) -> Integers:
    """The first row of each stretch of rows with equal key."""
    if frame.is_empty():
        return np.zeros(0, np.int64)
    changes = np.ones(frame.height, np.bool_)
    columns = [frame[name] for name in key]
    changes[1:] = functools.reduce(operator.or_, (_after(c) != _before(c) for c in columns)).to_numpy()
    return np.flatnonzero(changes)


def _ascending(keys: pl.DataFrame) -> bool:
    """Whether the rows ascend strictly, by the columns from first to last: sorted, and none is there twice."""
    ascending = pl.Series([False], dtype=pl.Boolean).new_from_index(0, max(keys.height - 1, 0))
    for column in reversed(keys.get_columns()):
        before, after = _before(column), _after(column)
        ascending = (before < after) | ((before == after) & ascending)
    return bool(ascending.all())


def _before(column: pl.Series) -> pl.Series:
    return column.slice(0, max(len(column) - 1, 0))


def _after(column: pl.Series) -> pl.Series:
    return column.slice(1)


def _order(
    offset: Integers, start: npt.NDArray[np.float64], end: npt.NDArray[np.float64], position: npt.NDArray[np.int32]
) -> Integers | None:
    """The rows with each timeline in the order (start, end, position); None where they are in it already."""
    suspect = start[1:] <= start[:-1]
    heads = offset[1:-1]
    suspect[heads[(heads > 0) & (heads < len(start))] - 1] = False
    before = np.flatnonzero(suspect)
    after = before + 1
    tied = start[before] == start[after]
    tied &= (end[before] < end[after]) | ((end[before] == end[after]) & (position[before] <= position[after]))
    faulty = np.unique(np.searchsorted(offset, before[~tied], side="right") - 1)
    if not len(faulty):
        return None
    order = np.arange(len(start))
    counts = offset[faulty + 1] - offset[faulty]
    rows = order[_ranges(offset[faulty], counts)]
    timeline = np.repeat(faulty, counts)
    order[rows] = rows[np.lexsort((position[rows], end[rows], start[rows], timeline))]
    return order


def _ranges(first: Integers, counts: Integers) -> Integers:
    """``first[0], first[0] + 1, ...``: ``counts[i]`` numbers from ``first[i]`` on, one range after another."""
    ends = np.cumsum(counts)
    return np.repeat(first - (ends - counts), counts) + np.arange(int(ends[-1]) if len(ends) else 0)


def _placed(side: Side, wanted: pl.DataFrame) -> Side:
    """``side`` with exactly the timelines of ``wanted``, in its order."""
    indexed = side.key.with_row_index("index")
    index = wanted.join(indexed, on=wanted.columns, how="left", maintain_order="left")["index"]
    at = index.cast(pl.Int64).fill_null(-1).to_numpy()
    counts = np.where(at >= 0, side.count[at], 0) if len(side.count) else np.zeros(len(at), np.int64)
    rows = _ranges(side.offset[at], counts)
    offset = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])
    return Side(wanted, offset, side.start_s[rows], side.end_s[rows], side.position[rows])
