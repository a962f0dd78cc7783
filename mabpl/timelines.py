"""Segment tables as sorted integer arrays with offsets: what the kernels read.

Each timeline in the order (start, end, position in the file). Human idle, human flagged and predicted idle segments
stay where they are, to spare the copy, but are not scored: all that reads a timeline leaves them out first.
"""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

Integers = npt.NDArray[np.int64]

MICROSECONDS = 1e6
"""A second's worth, for :func:`in_units`; the frame grid's is ``tables.schemas.FRAME_RATE``."""

MANY = 10_000
"""Rows from which another way of comparing is worth its beginning."""

CLIP_KEY = ("set", "clip_id")
TIMELINE_KEY = ("run", "set", "clip_id")


@dataclass(frozen=True, slots=True)
class Side:
    """Timelines of one side, one after the other.

    ``key``: one row per timeline. ``offset``: int64, one more than timelines. The other arrays have one item per
    segment: ``start_s``, ``end_s`` (float64 seconds), ``position`` (int32, in the file's clip), ``scored``. ``count``:
    scored segments per timeline.
    """

    key: pl.DataFrame
    offset: Integers
    start_s: npt.NDArray[np.float64]
    end_s: npt.NDArray[np.float64]
    position: npt.NDArray[np.int32]
    scored: npt.NDArray[np.bool_]
    count: Integers

    @classmethod
    def of(
        cls,
        key: pl.DataFrame,
        offset: Integers,
        start_s: npt.NDArray[np.float64],
        end_s: npt.NDArray[np.float64],
        position: npt.NDArray[np.int32],
        scored: npt.NDArray[np.bool_],
    ) -> Side:
        left_out = np.searchsorted(offset, np.flatnonzero(~scored), side="right") - 1
        count = np.diff(offset) - np.bincount(left_out, minlength=len(offset) - 1)
        return cls(key, offset, start_s, end_s, position, scored, count)

    def timeline_of(self, rows: Integers) -> Integers:
        """The timeline's index of each of the segments ``rows``."""
        return np.repeat(np.arange(len(self.offset) - 1), np.diff(self.offset))[rows]


@dataclass(frozen=True, slots=True)
class Timelines:
    """Both sides; ``clip``: for each predicted timeline the index of its human one.

    ``units``: the first predicted timeline of each run and set.
    """

    human: Side
    predicted: Side
    clip: Integers
    units: Integers


def in_units(seconds: npt.NDArray[np.float64], per_second: float) -> Integers:
    """As whole units: round half to even of the float64 product ``seconds * per_second``."""
    return np.rint(seconds * per_second).astype(np.int64)


def build(
    clips: pl.DataFrame | None, human: pl.DataFrame, timelines: pl.DataFrame | None, predicted: pl.DataFrame
) -> Timelines:
    """From frames: ``clips`` (set, clip_id), human segments, predicted timelines (run, set, clip_id) and segments.

    ``clips`` and ``timelines`` list the timelines of their side, empty ones included; None takes those that have a
    segment. Predicted timelines of clips that are not among the human ones are left out.
    """
    flagged = human["flagged"] if "flagged" in human.columns else None
    human_side = _side(human, CLIP_KEY, None if clips is None else clips.select(CLIP_KEY).unique(), flagged)
    begins = _begins(predicted, TIMELINE_KEY, human_side.key)
    wanted = None if timelines is None else timelines.select(TIMELINE_KEY)
    predicted_side = _side(predicted, TIMELINE_KEY, wanted, begins=begins)
    clips, key = human_side.key, predicted_side.key
    in_turn = np.arange(key.height) % max(clips.height, 1)
    if begins.in_turn and key is begins.keys:
        units = np.arange(0, key.height, clips.height)[:, None] + stretches(clips, ["set"])
        return Timelines(human_side, predicted_side, in_turn, units.ravel())
    if not clips.height or not picked(clips, CLIP_KEY, in_turn).equals(columns_of(key, CLIP_KEY)):
        clip = key.join(clips.with_row_index("clip"), on=CLIP_KEY, how="left", maintain_order="left")["clip"]
        if clip.null_count():
            predicted_side = _placed(predicted_side, key.filter(clip.is_not_null()))
            clip = clip.drop_nulls()
        in_turn = clip.to_numpy().astype(np.int64)
    return Timelines(human_side, predicted_side, in_turn, stretches(predicted_side.key, ["run", "set"]))


def _in_turn(clips: pl.DataFrame, found: pl.DataFrame) -> bool:
    """Whether ``found`` has ``clips`` once a run, in their order, and its runs ascend: as far as storage can tell."""
    size, count = clips.height, found.height
    views = _views(found, TIMELINE_KEY) if size and count >= MANY and count % size == 0 else None
    if views is None:
        return False
    run, *clip = views
    turns = [view.reshape(-1, 2 * size) for view in clip]
    return (
        all(bool((turn == turn[0]).all()) for turn in turns)
        and all(bool((word == word[:, :1]).all()) for word in run.T.reshape(2, -1, size))
        and columns_of(found, CLIP_KEY).slice(0, size).equals(clips)
        and ascending(picked(found, ["run"], np.arange(0, count, size)))
    )


class _Begins(NamedTuple):
    """Where the timelines of a frame begin.

    ``first``: the rows. ``keys``: a row each. ``ascend``: whether these ascend. ``in_turn``: see :func:`_in_turn`.
    """

    first: Integers
    keys: pl.DataFrame
    ascend: bool
    in_turn: bool


def _begins(frame: pl.DataFrame, key: tuple[str, ...], clips: pl.DataFrame | None = None) -> _Begins:
    first = _changes(frame, key)
    keys = picked(frame, key, first)
    if clips is not None and _in_turn(clips, keys):
        return _Begins(first, keys, ascend=True, in_turn=True)
    ascend = ascending(keys)
    if not ascend:
        kept = _compared(keys, key)
        first, keys = first[kept], picked(keys, key, kept)
        ascend = ascending(keys)
    return _Begins(first, keys, ascend, in_turn=False)


def _side(
    frame: pl.DataFrame,
    key: tuple[str, ...],
    wanted: pl.DataFrame | None,
    flagged: pl.Series | None = None,
    begins: _Begins | None = None,
) -> Side:
    """The timelines of ``frame`` in key order; with ``wanted``, exactly those (empty where ``frame`` has none)."""
    first, found, ascend, _ = begins or _begins(frame, key)
    if not ascend and found.is_duplicated().any():
        names = [*key, "start_s", "end_s", "segment", "is_idle", *([] if flagged is None else ["flagged"])]
        frame = frame.select(names).sort(key, maintain_order=True)
        return _side(frame, key, wanted, None if flagged is None else frame["flagged"])
    offset = np.append(first, frame.height)
    excluded = frame["is_idle"] if flagged is None else frame["is_idle"] | flagged
    start, end, position = (frame[name].to_numpy() for name in ("start_s", "end_s", "segment"))
    scored = (~excluded).to_numpy()
    order = _order(offset, start, end, position)
    if order is not None:
        start, end, position, scored = start[order], end[order], position[order], scored[order]
    side = Side.of(found, offset, start, end, position, scored)
    if wanted is None:
        return side if ascend else _placed(side, found.sort(key))
    target = wanted if ascending(wanted) else wanted.sort(key)
    return side if ascend and target.equals(found) else _placed(side, target)


def stretches(frame: pl.DataFrame, key: Sequence[str]) -> Integers:
    """The first row of each stretch of rows with equal key."""
    if frame.height < MANY:
        return _compared(frame, key)
    first = _changes(frame, key)
    return first[_compared(picked(frame, key, first), key)]


def _compared(frame: pl.DataFrame, key: Sequence[str]) -> Integers:
    """:func:`stretches` by comparing each row with the one before."""
    if frame.is_empty():
        return np.zeros(0, np.int64)
    columns = [frame.get_column(name) for name in key]
    return _starts(functools.reduce(operator.or_, (_differs(column) for column in columns)).to_numpy())


def _changes(frame: pl.DataFrame, key: Sequence[str]) -> Integers:
    """:func:`stretches`, and maybe rows whose key is that of the row before.

    Strings of one origin share their storage, so most comparisons end at the 16 bytes that say where a string lies. A
    frame gives these away through pyarrow alone, which is not loaded for this.
    """
    views = _views(frame, key) if frame.height >= MANY else None
    if views is None:
        return _compared(frame, key)
    changes = np.zeros(frame.height - 1, np.uint16)
    for view in views:
        changes |= (view[1:] != view[:-1]).view(np.uint16)[:, 0]
    first = _starts(changes)
    return first if 2 * len(first) < frame.height else _compared(frame, key)


def _views(frame: pl.DataFrame, key: Sequence[str]) -> list[npt.NDArray[np.uint64]] | None:
    """For each column of ``key`` two words a row that say where its string lies: equal ones, equal strings.

    None where there are nulls, or other types, or no pyarrow.
    """
    columns = [frame.get_column(name) for name in key]
    if "pyarrow" not in sys.modules or any(c.dtype != pl.String or c.null_count() for c in columns):
        return None
    views = []
    for column in columns:
        held: Any = column.to_arrow(compat_level=pl.CompatLevel.newest())
        views.append(np.frombuffer(held.buffers()[1], np.uint64).reshape(-1, 2)[held.offset :][: len(held)])
    return views


def _starts(changes: npt.NDArray[Any]) -> Integers:
    """Row 0, and row i + 1 for each i that is not zero."""
    return np.concatenate([np.zeros(1, np.int64), np.flatnonzero(changes != 0) + 1])


def _differs(column: pl.Series) -> pl.Series:
    a, b = _before(column), _after(column)
    return a.ne_missing(b) if column.null_count() else a != b


def picked(frame: pl.DataFrame, key: Sequence[str], rows: Integers) -> pl.DataFrame:
    """The columns ``key`` of these rows."""
    at = pl.Series(rows.astype(np.uint32))
    return pl.DataFrame([frame.get_column(name)[at] for name in key])  # `gather` would make a query of each


def columns_of(frame: pl.DataFrame, key: Sequence[str]) -> pl.DataFrame:
    """The columns ``key``."""
    return pl.DataFrame([frame.get_column(name) for name in key])


def ascending(keys: pl.DataFrame, first: Integers | None = None) -> bool:
    """Whether the rows ascend strictly, by the columns from first to last: sorted, no null, and none is there twice.

    With ``first``, the rows of each stretch that begins there.
    """
    rising = pl.Series([False], dtype=pl.Boolean).new_from_index(0, max(keys.height - 1, 0))
    for column in reversed(keys.get_columns()):
        before, after = _before(column), _after(column)
        rising = (before < after) | ((before == after) & rising)
    if first is not None:
        begins = np.zeros(keys.height, np.bool_)
        begins[first] = True
        rising = rising | pl.Series(begins[1:])
    return rising.null_count() == 0 and bool(rising.all())


def _before(column: pl.Series) -> pl.Series:
    return column.slice(0, max(len(column) - 1, 0))


def _after(column: pl.Series) -> pl.Series:
    return column.slice(1)


def _order(
    offset: Integers, start: npt.NDArray[np.float64], end: npt.NDArray[np.float64], position: npt.NDArray[np.int32]
) -> Integers | None:
    """The rows with each timeline in the order (start, end, position); None where they are in it already."""
    suspect = start[1:] <= start[:-1]
    suspect[offset[1:-1] - 1] = False
    before = np.flatnonzero(suspect)
    after = before + 1
    tied = start[before] == start[after]
    tied &= (end[before] < end[after]) | ((end[before] == end[after]) & (position[before] <= position[after]))
    faulty = np.unique(np.searchsorted(offset, before[~tied], side="right") - 1)
    if not len(faulty):
        return None
    order = np.arange(len(start))
    counts = offset[faulty + 1] - offset[faulty]
    rows = order[ranges(offset[faulty], counts)]
    timeline = np.repeat(faulty, counts)
    order[rows] = rows[np.lexsort((position[rows], end[rows], start[rows], timeline))]
    return order


def ranges(first: Integers, counts: Integers) -> Integers:
    """``first[0], first[0] + 1, ...``: ``counts[i]`` numbers from ``first[i]`` on, one range after another."""
    ends = np.cumsum(counts)
    return np.repeat(first - (ends - counts), counts) + np.arange(int(ends[-1]) if len(ends) else 0)


def _placed(side: Side, wanted: pl.DataFrame) -> Side:
    """``side`` with exactly the timelines of ``wanted``, in its order."""
    indexed = side.key.with_row_index("index")
    index = wanted.join(indexed, on=wanted.columns, how="left", maintain_order="left")["index"]
    at = index.cast(pl.Int64).fill_null(-1).to_numpy()
    lengths = np.append(np.diff(side.offset), 0)  # the last one for timelines that are not there
    counts = lengths[at]
    rows = ranges(side.offset[at], counts)
    offset = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])
    return Side.of(wanted, offset, side.start_s[rows], side.end_s[rows], side.position[rows], side.scored[rows])
