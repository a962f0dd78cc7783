"""Runs the kernels over all timelines: which prediction each metric matches with which human segment."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from mabpl import engine, matching
from mabpl.errors import UsageError
from mabpl.settings import Settings
from mabpl.tables import schemas
from mabpl.timelines import Integers, Side, Timelines, ticks

FAMILIES = ("pa", "boundary", "temporal", "seg")
"""The matchings of `matches.metric`; each is one-to-one inside a clip."""

EXACT_THRESHOLDS = (0.5, 0.75)
SLACK = 1e-9
MAX_SECONDS = 9e9  # nanoseconds of the time base "seconds" must fit an int64


@dataclass(frozen=True, slots=True)
class Matched:
    """``rank[family]``: for each scored prediction the rank of its human segment in the clip, or -1 (int64).

    ``boundary_open``, ``seg_open``: per timeline, whether pairs compete on both sides.
    """

    timelines: Timelines
    rank: dict[str, Integers]
    boundary_open: npt.NDArray[np.bool_]
    seg_open: npt.NDArray[np.bool_]

    def counts(self, family: str) -> Integers:
        """Matches per timeline."""
        return sums_per_timeline(self.rank[family] >= 0, self.timelines.predicted.offset)

    def table(self) -> pl.DataFrame:
        """The `matches` table."""
        predicted, human = self.timelines.predicted, self.timelines.human
        families = sorted(self.rank)
        found = [np.flatnonzero(self.rank[family] >= 0) for family in families]
        at = np.concatenate([*found, np.zeros(0, np.int64)]).astype(np.int64)
        family = np.repeat(np.arange(len(families)), [len(f) for f in found])
        timeline = predicted.timeline_of()[at]
        partner = np.concatenate([self.rank[f][i] for f, i in zip(families, found, strict=True)] or [at])
        order = np.lexsort((predicted.position[at], family, timeline))
        at, family, timeline, partner = at[order], family[order], timeline[order], partner[order]
        rows = predicted.key[timeline].with_columns(
            pl.Series("metric", families, dtype=pl.String).gather(family),
            pl.Series("predicted", predicted.position[at], dtype=pl.Int32),
            pl.Series("human", human.position[human.offset[self.timelines.clip[timeline]] + partner], dtype=pl.Int32),
        )
        return schemas.MATCHES.conform(rows)


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
    start, end, tolerance = boundary_units(timelines, settings)
    rank, boundary_open, seg_open = _run(
        timelines,
        wanted,
        boundary=(start, end, tolerance),
        temporal_limit=limit(settings.temporal_iou),
        seg_limit=limit(settings.seg_iou),
        later_first=settings.pa_ties == "later_first",
        threads=threads,
    )
    if settings.boundary_matching == "optimal" and "boundary" in wanted:
        for t in np.flatnonzero(boundary_open).tolist():
            _place(rank["boundary"], timelines, t, optimal_boundary(timelines, t, start, end, tolerance))
    for t in np.flatnonzero(seg_open).tolist():
        _place(rank["seg"], timelines, t, _optimal_seg(timelines, t, limit(settings.seg_iou)))
    return Matched(timelines, rank, boundary_open, seg_open)


def match_at_iou(timelines: Timelines, threshold: float, threads: int | None = None) -> Integers:
    """Greedy one-to-one matching by descending IoU, at least ``threshold``, nothing snapped: ranks as in Matched."""
    nothing = np.zeros(0, np.int64)
    rank, _, _ = _run(
        timelines, ("any_iou",), boundary=((nothing, nothing), (nothing, nothing), 0), any_limit=limit(threshold),
        threads=threads,
    )  # fmt: skip
    return rank["any_iou"]


def limit(threshold: float) -> float:
    """The least IoU of a match. 0.5 and 0.75 are exact (their products are in float64); others get a 1e-9 slack."""
    return threshold if threshold in EXACT_THRESHOLDS else threshold - SLACK


Ends = tuple[Integers, Integers]


def boundary_units(timelines: Timelines, settings: Settings) -> tuple[Ends, Ends, int]:
    """(human starts and ends), (predicted starts and ends) and the tolerance, in the integer unit of the time base."""
    sides = (timelines.human, timelines.predicted)
    if settings.time_base == "frames":
        (h, p) = ((ticks(side.start_s), ticks(side.end_s)) for side in sides)
        return h, p, settings.tolerance_frames
    for side in sides:
        if len(side.start_s) and max(-side.start_s.min(), side.end_s.max()) > MAX_SECONDS:
            raise UsageError("a time is too large for time_base=seconds", f"at most {MAX_SECONDS:g} s; use frames")
    (h, p) = ((nanoseconds(side.start_s), nanoseconds(side.end_s)) for side in sides)
    return h, p, round(settings.tolerance_s * 1e9) + 1


def nanoseconds(seconds: npt.NDArray[np.float64]) -> Integers:
    return np.rint(seconds * 1e9).astype(np.int64)


def optimal_boundary(timelines: Timelines, t: int, human: Ends, predicted: Ends, tolerance: int) -> dict[int, int]:
    """Prediction rank to human rank of timeline ``t``: most pairs, then least total error, then order."""
    h, p = _slices(timelines, t)
    ends = (
        0,
        h.stop - h.start,
        0,
        p.stop - p.start,
        *(e[h].tolist() for e in human),
        *(e[p].tolist() for e in predicted),
    )
    pairs = _collected(3, functools.partial(engine.plain_kernels().boundary_pairs, *ends, tolerance))
    weights = {(i, j): Fraction(2 * tolerance - error) for i, j, error in pairs}
    return {j: i for i, j in matching.best_matching(weights)}


def _optimal_seg(timelines: Timelines, t: int, seg_limit: float) -> dict[int, int]:
    h, p = _slices(timelines, t)
    human, predicted = timelines.human, timelines.predicted
    sides = [side.tolist() for side in (human.start[h], human.end[h], predicted.start[p], predicted.end[p])]
    ends = (0, h.stop - h.start, 0, p.stop - p.start, *sides)
    kernels = engine.plain_kernels()
    overlapping = _collected(3, functools.partial(kernels.overlapping_pairs, *ends))
    union = [kernels.union_of(i, j, *sides, overlap) for i, j, overlap in overlapping]
    columns = [list(column) for column in zip(*overlapping, strict=True)] or [[], [], []]
    hits = _collected(4, functools.partial(kernels.snapped_hits, *ends, seg_limit, len(union), *columns, union))
    weights = {(i, j): Fraction(overlap, union) for i, j, overlap, union in hits}
    return {j: i for i, j in matching.best_matching(weights)}


def _collected(width: int, fill: Callable[..., int]) -> list[tuple[int, ...]]:
    """The rows that ``fill`` writes into ``width`` arrays: it says how many there are, and is called again for all."""
    count = fill(*([] for _ in range(width)))
    columns = [[0] * count for _ in range(width)]
    fill(*columns)
    return list(zip(*columns, strict=True))


def _slices(timelines: Timelines, t: int) -> tuple[slice, slice]:
    def of(side: Side, i: int) -> slice:
        return slice(int(side.offset[i]), int(side.offset[i + 1]))

    return of(timelines.human, int(timelines.clip[t])), of(timelines.predicted, t)


def _place(rank: Integers, timelines: Timelines, t: int, chosen: dict[int, int]) -> None:
    _, p = _slices(timelines, t)
    rank[p] = -1
    for predicted, human in chosen.items():
        rank[p.start + predicted] = human


def _run(
    timelines: Timelines,
    wanted: tuple[str, ...],
    *,
    boundary: tuple[Ends, Ends, int],
    temporal_limit: float = 0.5,
    seg_limit: float = 0.75,
    any_limit: float = 0.5,
    later_first: bool = False,
    threads: int | None = None,
) -> tuple[dict[str, Integers], npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    human, predicted = timelines.human, timelines.predicted
    segments = len(predicted.start)
    kernels = engine.kernels_for(segments)
    out = {
        name: np.full(segments if name in wanted else 0, -1, np.int64)
        for name in ("pa", "boundary", "temporal", "seg", "any_iou")
    }
    opened = np.zeros((2, len(timelines.clip)), np.int8)
    inputs: list[Any] = [
        timelines.clip, human.offset, human.start, human.end, *boundary[0],
        predicted.offset, predicted.start, predicted.end, *boundary[1],
    ]  # fmt: skip
    if kernels is engine.plain_kernels():
        inputs = [array.tolist() for array in inputs]
        blocks = [(0, len(timelines.clip))]
        threads = 1
    else:
        threads = threads or engine.default_threads()
        blocks = _blocks(timelines, 4 * threads if threads > 1 else 1)
    options = (boundary[2], temporal_limit, seg_limit, any_limit, later_first)

    def work(block: tuple[int, int]) -> None:
        kernels.match_timelines(*block, *inputs, *options, *out.values(), *opened)

    if threads == 1:
        for block in blocks:
            work(block)
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(work, blocks))
    return {name: out[name] for name in wanted}, opened[0].astype(np.bool_), opened[1].astype(np.bool_)


def _blocks(timelines: Timelines, count: int) -> list[tuple[int, int]]:
    """Ranges of timelines of about equal numbers of segments."""
    size = np.cumsum(timelines.predicted.count + timelines.human.count[timelines.clip])
    if not len(size):
        return []
    cuts = np.searchsorted(size, np.linspace(0, size[-1], count + 1)[1:-1])
    edges = np.unique(np.concatenate([[0], cuts, [len(size)]]))
    return list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))
