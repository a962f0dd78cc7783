"""Which mention speaks of which segment: frames as sorted integer arrays, and the kernel over all clips and runs.

A mention may match a segment of its clip if start - early <= time <= end + late, in whole microseconds and inclusive,
and it refers to the segment's object.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from mabpl import engine
from mabpl.benchmarks.proact_ego_mem.event_options import EventOptions
from mabpl.errors import UsageError
from mabpl.metrics.ratios import in_order
from mabpl.timelines import MICROSECONDS, Integers, in_units, ranges, stretches

CLIP = ("track", "task", "clip_uid")
TIMELINE = ("run", *CLIP)

Booleans = npt.NDArray[np.bool_]
Ranks = npt.NDArray[np.int32]

_TIME_BITS = 40
"""Of a sort key: times below 2**40 us, twelve days."""


@dataclass(frozen=True)
class Events:
    """Mentions and segments of all timelines (a run's clip each), and which may match in time.

    ``timelines``: run and clip of each, ``clip`` its row in ``clips``. ``segments`` stand in the order of clip, start,
    end and id, ``mentions`` in that of timeline, time and position; timeline t's begin at ``first_mention[t]``. A *row*
    is a segment of a timeline: timeline t's begin at ``row[t]``, ``segment`` says which segment it is, and mentions
    ``low`` to ``high`` are in time for it. Times are in microseconds.
    """

    clips: pl.DataFrame
    segments: pl.DataFrame
    mentions: pl.DataFrame
    timelines: pl.DataFrame
    clip: Integers
    first_mention: Integers
    time: Integers
    row: Integers
    segment: Integers
    start: Integers
    low: Integers
    high: Integers

    @property
    def timeline_of_mention(self) -> Integers:
        return np.repeat(np.arange(len(self.clip)), np.diff(self.first_mention))

    def pairs(self) -> tuple[Integers, Integers]:
        """Row and mention of each pair that is in time, row by row."""
        counts = self.high - self.low
        return np.repeat(np.arange(len(counts)), counts), ranges(self.low, counts)


def prepare(
    clips: pl.DataFrame,
    segments: pl.DataFrame,
    mentions: pl.DataFrame,
    options: EventOptions,
    *,
    runs: Sequence[str] | None = None,
    timelines: pl.DataFrame | None = None,
) -> Events:
    """From `proact_clips`, `proact_segments` and `mentions`, in any order of rows.

    ``timelines``: run and clip of all that a run was shown, silent clips too; or ``runs``, which were shown every clip;
    by default those that said anything. Raises :class:`UsageError` for a mention of any other clip, or whose time is
    not finite, below 0, or beyond twelve days.
    """
    clips = in_order(clips, CLIP)
    indexed = clips.select(CLIP).with_row_index("clip")
    kept = segments.filter(~pl.col("dropped")).join(indexed, on=CLIP)
    kept = kept.sort("clip", "start_s", "end_s", "sample_id")
    if timelines is None:
        named = mentions["run"].unique() if runs is None else pl.Series("run", sorted(set(runs)), dtype=pl.String)
        timelines = named.sort().to_frame().join(clips.select(CLIP), how="cross", maintain_order="left_right")
    timelines = in_order(timelines.select(TIMELINE), TIMELINE)
    clip = _found(timelines, indexed, "clip", "a run has a clip that is not among those to score")
    mentions, time, of_mention = _placed(mentions, timelines)
    first_segment = _offsets(kept["clip"].to_numpy().astype(np.int64), clips.height)
    counts = np.diff(first_segment)[clip]
    segment = ranges(first_segment[clip], counts)
    timeline = np.repeat(np.arange(len(clip)), counts)
    start, end = (in_units(kept[name].to_numpy(), MICROSECONDS) for name in ("start_s", "end_s"))
    early, late = (round(min(seconds, 1e6) * MICROSECONDS) for seconds in (options.early_s, options.late_s))
    keys = of_mention << _TIME_BITS | time
    last = (1 << _TIME_BITS) - 1
    return Events(
        clips, kept.drop("clip"), mentions, timelines, clip, _offsets(of_mention, len(clip)), time,
        row=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        segment=segment,
        start=start[segment],
        low=np.searchsorted(keys, timeline << _TIME_BITS | np.maximum(start[segment] - early, 0), side="left"),
        high=np.searchsorted(keys, timeline << _TIME_BITS | np.minimum(end[segment] + late, last), side="right"),
    )  # fmt: skip


def _placed(mentions: pl.DataFrame, timelines: pl.DataFrame) -> tuple[pl.DataFrame, Integers, Integers]:
    """``mentions`` in the order of timeline, time and position; the time and the timeline of each."""
    first = stretches(mentions, TIMELINE)
    indexed = timelines.with_row_index("timeline")
    of_stretch = _found(
        mentions.select(TIMELINE)[first], indexed, "timeline", "there are mentions of a clip that is not to be scored"
    )
    timeline = np.repeat(of_stretch, np.diff(np.append(first, mentions.height)))
    time, position = _micros(mentions["time_s"]), mentions["mention"].to_numpy()
    keys = timeline << _TIME_BITS | time
    if not (keys[1:] > keys[:-1]).all():
        order = np.argsort(keys, kind="stable")
        ordered, place = keys[order], position[order]
        if ((ordered[1:] == ordered[:-1]) & (place[1:] < place[:-1])).any():
            order = np.lexsort((position, keys))
        mentions, time, timeline = mentions[order], time[order], timeline[order]
    return mentions, time, timeline


def _found(frame: pl.DataFrame, indexed: pl.DataFrame, index: str, wrong: str) -> Integers:
    on = [name for name in indexed.columns if name != index]
    found = frame.join(indexed, on=on, how="left", maintain_order="left")
    missing = found.filter(pl.col(index).is_null())
    if missing.height:
        raise UsageError(f"{wrong}: {', '.join(map(str, missing.select(on).row(0)))}", "give the clips' released file")
    return found[index].to_numpy().astype(np.int64)


def _offsets(owner: Integers, owners: int) -> Integers:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(np.bincount(owner, minlength=owners), dtype=np.int64)])


def _micros(seconds: pl.Series) -> Integers:
    values = seconds.to_numpy()
    if not np.all((values >= 0) & (values < (1 << _TIME_BITS) / MICROSECONDS)):
        raise UsageError(
            "a mention's time is no number from 0 to twelve days", "times are seconds from the start of the clip"
        )
    return in_units(values, MICROSECONDS)


def match(events: Events, accepted: Booleans | None, options: EventOptions, threads: int | None = None) -> Ranks:
    """For each mention the row that it matches, or -1.

    ``accepted``: whether the object of each of ``events.pairs()`` is the right one; None if objects do not count. The
    result does not depend on ``threads``.
    """
    kernels = engine.kernels_for(len(events.time), "match_events")
    rank = np.full(len(events.time), -1, np.int32)
    at = np.concatenate([np.zeros(1, np.int64), np.cumsum(events.high - events.low)])
    flags = np.zeros(0, np.bool_) if accepted is None else accepted
    if accepted is not None and not len(accepted):
        return rank
    inputs: list[Any] = [
        events.row, events.low, events.high, at, events.start, events.first_mention, events.time, flags,
    ]  # fmt: skip
    timelines = len(events.clip)
    if engine.are_plain(kernels):
        inputs, blocks = [array.tolist() for array in inputs], [(0, timelines)]
    else:
        inputs = [np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("=")) for array in inputs]
        threads = threads or engine.default_threads()
        edges = np.linspace(0, timelines, 4 * threads + 1 if threads > 1 else 2).astype(int).tolist()
        blocks = list(itertools.pairwise(edges))

    def work(block: tuple[int, int]) -> None:
        kernels.match_events(*block, *inputs, options.matching == "in_order", rank)

    if len(blocks) == 1:
        work(blocks[0])
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(work, blocks))
    matched = rank >= 0
    rank[matched] += events.row[events.timeline_of_mention[matched]].astype(np.int32)
    return rank
