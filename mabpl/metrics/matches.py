"""Runs the kernels over all timelines: which prediction each metric matches with which human segment."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from mabpl import engine, matching
from mabpl.errors import UsageError
from mabpl.settings import Settings
from mabpl.tables import schemas
from mabpl.tables.schemas import FRAME_RATE
from mabpl.timelines import MICROSECONDS, Integers, Side, Timelines, in_units

FAMILIES = ("pa", "boundary", "temporal", "seg")
"""The matchings of `matches.metric`; each is one-to-one inside a clip."""

KERNEL_FAMILIES = ("pa", "boundary", "temporal", "seg", "any_iou")
"""The order in which the kernel takes and counts them."""

EXACT_THRESHOLDS = (0.5, 0.75)
SLACK = 1e-9
Ranks = npt.NDArray[np.int32]
Positions = npt.NDArray[np.int32]
NANOSECONDS = 1e9
MAX_SECONDS = 9e9  # nanoseconds of the time base "seconds" must fit an int64


@dataclass(frozen=True, slots=True)
class Matched:
    """``rank[family]``: for each predicted segment which human one of its clip it matches, from 0, or -1.

    ``count[family]``: matches per timeline. ``boundary_open``, ``seg_open``: per timeline, whether pairs compete on
    both sides.
    """

    timelines: Timelines
    rank: dict[str, Ranks]
    count: dict[str, Integers]
    boundary_open: npt.NDArray[np.bool_]
    seg_open: npt.NDArray[np.bool_]

    def counts(self, family: str) -> Integers:
        """Matches per timeline."""
        return self.count[family]

    def rows(self) -> tuple[Positions, npt.NDArray[np.int8], Positions, Positions]:
        """The rows of `matches` in order: timeline, family (of the sorted ones), positions of prediction and human."""
        lines, families = self.timelines, sorted(self.rank)
        total = np.sum([self.count[family] for family in families], axis=0)
        start = np.cumsum(total) - total
        timeline, family, predicted, human = (np.empty(total.sum(), d) for d in (np.int32, np.int8, np.int32, np.int32))
        kernels = engine.kernels_for(len(lines.predicted.start_s), "match_rows")
        inputs: list[Any] = [lines.clip]
        for side in (lines.human, lines.predicted):
            inputs += [side.offset, engine.read_only(side.position)]
        ranks = tuple(self.rank[name] for name in families)
        if engine.are_plain(kernels):
            inputs, ranks = [array.tolist() for array in inputs], tuple(rank.tolist() for rank in ranks)
        falls = kernels.match_rows(0, len(lines.clip), ranks, *inputs, start, timeline, family, predicted, human)
        if falls:  # the files are not in the order of time
            order = np.lexsort((predicted, family, timeline))
            predicted, human = predicted[order], human[order]
        return timeline, family, predicted, human

    def table(self) -> pl.DataFrame:
        """The `matches` table."""
        timeline, family, predicted, human = self.rows()
        return schemas.MATCHES.conform(
            self.timelines.predicted.key[timeline].with_columns(
                pl.Series("metric", sorted(self.rank), dtype=pl.String).gather(family),
                pl.Series("predicted", predicted, dtype=pl.Int32),
                pl.Series("human", human, dtype=pl.Int32),
            )
        )


def sums_per_timeline(values: npt.NDArray[np.bool_], offset: Integers) -> Integers:
    """How many of a timeline's items are true."""
    running = np.zeros(len(values) + 1, np.int64)
    np.cumsum(values, out=running[1:])
    counts: Integers = running[offset[1:]] - running[offset[:-1]]
    return counts


def match(
    timelines: Timelines,
    settings: Settings,
    families: Iterable[str] = FAMILIES,
    threads: int | None = None,
) -> Matched:
    """Matches every timeline for each of ``families``; the result does not depend on ``threads``."""
    wanted = tuple(families)
    unit, tolerance = boundary_unit(timelines, settings)
    seg_limit = limit(settings.seg_iou)
    matched = _run(
        timelines,
        wanted,
        unit=unit,
        tolerance=tolerance,
        temporal_limit=limit(settings.temporal_iou),
        seg_limit=seg_limit,
        later_first=settings.pa_ties == "later_first",
        threads=threads,
    )
    if settings.boundary_matching == "optimal" and "boundary" in wanted:
        for t in np.flatnonzero(matched.boundary_open).tolist():
            _place(matched, "boundary", t, _optimal_boundary(timelines, t, unit, tolerance))
    for t in np.flatnonzero(matched.seg_open).tolist():
        _place(matched, "seg", t, _optimal_seg(timelines, t, seg_limit))
    return matched


def match_at_iou(timelines: Timelines, threshold: float, threads: int | None = None) -> Integers:
    """Matches per timeline, greedy one-to-one by descending IoU of at least ``threshold``, nothing snapped."""
    return _run(timelines, ("any_iou",), any_limit=limit(threshold), threads=threads).count["any_iou"]


def limit(threshold: float) -> float:
    """The least IoU of a match. 0.5 and 0.75 are exact (their products are in float64); others get a 1e-9 slack."""
    return threshold if threshold in EXACT_THRESHOLDS else threshold - SLACK


def boundary_unit(timelines: Timelines, settings: Settings) -> tuple[float, int]:
    """The integer unit of the time base: how many make a second, and how many the tolerance is."""
    if settings.time_base == "frames":
        return float(FRAME_RATE), settings.tolerance_frames
    for side in (timelines.human, timelines.predicted):
        if len(side.start_s) and max(-side.start_s.min(), side.end_s.max()) > MAX_SECONDS:
            raise UsageError("a time is too large for time_base=seconds", f"at most {MAX_SECONDS:g} s; use frames")
    return NANOSECONDS, round(settings.tolerance_s * NANOSECONDS) + 1


def _optimal_boundary(timelines: Timelines, t: int, unit: float, tolerance: int) -> dict[int, int]:
    """Predicted to human segment of timeline ``t``, of those scored: most pairs, least total error, then order."""
    kernels = engine.plain_kernels()
    *ends, size = _ends(timelines, t, unit)
    ends[2].append(kernels.FAR)
    pairs = _filled(3, size, functools.partial(kernels.boundary_pairs, *ends, tolerance))
    weights = {(h, p): Fraction(nearness) for h, p, nearness in pairs}
    return {p: h for h, p in matching.best_matching(weights)}


def _optimal_seg(timelines: Timelines, t: int, seg_limit: float) -> dict[int, int]:
    kernels = engine.plain_kernels()
    *ends, size = _ends(timelines, t, MICROSECONDS)
    pairs = _filled(6, size, functools.partial(kernels.overlapping_pairs, *ends, [0] * (size + 1)))
    columns = [list(column) for column in zip(*pairs, strict=True)][:4] or [[], [], [], []]
    snapped = functools.partial(kernels.snapped_hits, *ends, seg_limit, len(pairs), *columns)
    hits = _filled(5, len(pairs) + 2 * size, snapped)
    weights = {(h, p): Fraction(shared, whole) for h, p, shared, whole, _ in hits}
    return {p: h for h, p in matching.best_matching(weights)}


def _ends(timelines: Timelines, t: int, unit: float) -> tuple[Any, ...]:
    """What the plain kernels take of timeline ``t``: the numbers of segments, starts and ends; the numbers' sum."""
    h, p = _scored(timelines.human, int(timelines.clip[t])), _scored(timelines.predicted, t)
    human, predicted = timelines.human, timelines.predicted
    seconds = (human.start_s[h], human.end_s[h], predicted.start_s[p], predicted.end_s[p])
    return len(h), len(p), *(in_units(side, unit).tolist() for side in seconds), len(h) + len(p)


def _scored(side: Side, i: int) -> Integers:
    """The rows of timeline ``i`` that are scored."""
    first, last = int(side.offset[i]), int(side.offset[i + 1])
    return first + np.flatnonzero(side.scored[first:last])


def _filled(width: int, size: int, fill: Callable[..., int]) -> list[tuple[int, ...]]:
    """The rows that ``fill`` writes into ``width`` arrays; it says how many there are, and is called again for all."""
    while True:
        columns = [[0] * size for _ in range(width)]
        count = fill(*columns)
        if count < size:
            return list(zip(*(column[:count] for column in columns), strict=True))
        size = max(count, 2 * size)


def _place(matched: Matched, family: str, t: int, chosen: dict[int, int]) -> None:
    human, predicted = matched.timelines.human, matched.timelines.predicted
    clip = int(matched.timelines.clip[t])
    h, p = _scored(human, clip) - human.offset[clip], _scored(predicted, t)
    rank = matched.rank[family]
    rank[p] = -1
    for at, partner in chosen.items():
        rank[p[at]] = h[partner]
    matched.count[family][t] = len(chosen)


def _run(
    timelines: Timelines,
    wanted: tuple[str, ...],
    *,
    unit: float = float(FRAME_RATE),
    tolerance: int = 0,
    temporal_limit: float = 0.5,
    seg_limit: float = 0.75,
    any_limit: float = 0.5,
    later_first: bool = False,
    threads: int | None = None,
) -> Matched:
    human, predicted = timelines.human, timelines.predicted
    segments = len(predicted.start_s)
    kernels = engine.kernels_for(segments)
    rank = {name: np.empty(segments if name in wanted else 0, np.int32) for name in KERNEL_FAMILIES}
    counts = np.zeros((len(KERNEL_FAMILIES), len(timelines.clip)), np.int64)
    opened = np.zeros((2, len(timelines.clip)), np.int8)
    inputs: list[Any] = [timelines.clip]
    for side in (human, predicted):
        inputs += [side.offset, *(engine.read_only(a) for a in (side.start_s, side.end_s, side.scored))]
    if engine.are_plain(kernels):
        inputs = [array.tolist() for array in inputs]
        blocks, threads = [(0, len(timelines.clip))], 1
    else:
        threads = threads or engine.default_threads()
        blocks = _blocks(timelines, 4 * threads if threads > 1 else 1)
    options = (unit, tolerance, temporal_limit, seg_limit, any_limit, later_first)

    widest = max(int(np.diff(side.offset).max(initial=1)) for side in (human, predicted))

    def work() -> None:
        for first, last in remaining:
            pairs = 8 * widest
            while first < last:
                first = kernels.match_timelines(
                    first, last, *inputs, *options, *rank.values(), counts, *opened, *_room(widest, pairs, kernels)
                )
                pairs *= 2  # where it did not suffice

    remaining = iter(blocks)
    others = min(threads, len(blocks)) - 1
    if others < 1:
        work()
    else:
        with ThreadPoolExecutor(others) as pool:
            helping = [pool.submit(work) for _ in range(others)]
            work()
            for helper in helping:
                helper.result()
    return Matched(
        timelines,
        {name: rank[name] for name in wanted},
        {name: counts[i] for i, name in enumerate(KERNEL_FAMILIES) if name in wanted},
        opened[0].astype(np.bool_),
        opened[1].astype(np.bool_),
    )


def _room(widest: int, pairs: int, kernels: ModuleType) -> list[Any]:
    """What `match_timelines` works in, where a timeline has ``widest`` segments on a side and so many pairs."""
    shapes = [(11, widest + 2, np.int64), (3, widest + 2, np.uint64), (5, pairs, np.uint64), (5, pairs, np.int64)]
    if engine.are_plain(kernels):
        return [[[0] * columns for _ in range(rows)] for rows, columns, _ in shapes]
    return [np.empty((rows, columns), dtype) for rows, columns, dtype in shapes]


def _blocks(timelines: Timelines, count: int) -> list[tuple[int, int]]:
    """Ranges of timelines of about equal numbers of predicted segments."""
    offset = timelines.predicted.offset
    cuts = np.searchsorted(offset[:-1], np.linspace(0, offset[-1], count + 1)[1:-1])
    edges = sorted({0, *cuts.tolist(), len(offset) - 1})
    return list(itertools.pairwise(edges))
