"""Timelines of overlapping windows, joined to the timeline of the whole clip without losing covered time.

All times are whole microseconds inside. Windows are taken in order of time; what the first ones gave together is the
*earlier* side, the next window the *later* one, and they share a *zone*: from the later window's start to the end of
the earlier side. In it,

- among pairs of an earlier segment's end and a later segment's start, both strictly inside the zone, those that differ
  least are chosen (of equal ones the earliest), and the cut is the greater of the two; without such a pair it is
  mid-zone;
- where the end comes first, the earlier segment extends to the cut, as far as the two sides cover time without a break,
  in place of what the earlier side had there;
- before the cut the earlier side speaks, after it the later; where only the other one covers, that one does;
- pieces of one segment that touch are one. Where the cut went through a segment of each side, with the same label and
  idle flag, and the two pieces last at most 10 s together, they become one segment.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import polars as pl

from mabpl.benchmarks.micro_annotation.checks import LONGEST_SEGMENT_US
from mabpl.benchmarks.micro_annotation.rows import Segment

Spans = list[tuple[int, int]]
"""Stretches of time, in microseconds, in order and apart."""

Window = tuple[float, float, Sequence[Segment]]
"""Start and end in seconds of the clip, and the segments that a model saw in it, in seconds of the clip too."""

SEAMS = {
    "zone": pl.Int64,
    "zone_start_s": pl.Float64,
    "zone_end_s": pl.Float64,
    "cut_s": pl.Float64,
    "earlier_end_s": pl.Float64,
    "later_start_s": pl.Float64,
    "apart_s": pl.Float64,
    "extended_s": pl.Float64,
    "merged": pl.Int64,
    "same_s": pl.Float64,
    "different_s": pl.Float64,
    "earlier_only_s": pl.Float64,
    "later_only_s": pl.Float64,
}
KEPT = {
    "segment": pl.Int64,
    "start_s": pl.Float64,
    "end_s": pl.Float64,
    "label": pl.String,
    "is_idle": pl.Boolean,
    "window": pl.Int64,
    "window_segment": pl.Int64,
    "given_start_s": pl.Float64,
    "given_end_s": pl.Float64,
}


@dataclass(frozen=True)
class Stitched:
    """The clip's timeline, and how it came about. Windows are numbered from 0 in order of time.

    ``segments``: in order of (start, end, label, is_idle), in seconds.

    ``seams``: one row for each zone (zone k lies between windows k and k + 1), in seconds: the cut; the earlier
    segment's end and the later one's start that decided it, and how far ``apart_s`` they are (null: none, cut in the
    middle); by how much a segment was extended to the cut; how many segments were merged across it; for how long, in
    the zone, the two sides say the same (label and idle flag), different things, or only one of them anything.

    ``kept``: one row for each segment of ``segments`` and each segment of a window that it came from (two where it was
    merged): the window, the segment's position there (in order of time), and its times as the window gave them.
    """

    segments: list[Segment]
    seams: pl.DataFrame
    kept: pl.DataFrame


def stitch(windows: Iterable[Window], duration_s: float) -> Stitched:
    """The timeline of a clip of ``duration_s`` from those of its windows, in any order.

    Segments are clipped to their window and to the clip. The coverage is exactly that of all the windows together.
    Outside the zones nothing changes, and one window alone gives its segments, sorted. Where no window overlaps itself,
    the result does not either. Meant for windows of which no three share a time.
    """
    ordered = sorted(_window(start, end, segments, duration_s) for start, end, segments in windows)
    pieces: list[_Piece] = []
    seams = []
    reached = 0
    for number, (start, end, segments) in enumerate(ordered):
        later = [
            _Piece(*segment, sources=((number, position, segment[0], segment[1]),))
            for position, segment in enumerate(segments)
        ]
        if number:
            pieces, seam = _join(pieces, later, start, reached)
            seams.append((number - 1, *seam))
        else:
            pieces = later
        reached = max(reached, end)
    pieces.sort(key=_order)
    return Stitched(
        [Segment(p.start / 1e6, p.end / 1e6, p.label, p.is_idle) for p in pieces],
        pl.DataFrame(seams, schema=SEAMS, orient="row"),
        pl.DataFrame(list(_kept(pieces)), schema=KEPT, orient="row"),
    )


@dataclass(frozen=True, slots=True)
class _Piece:
    """A segment, or what is left of it. ``sources``: window, segment there, and its start and end as given."""

    start: int
    end: int
    label: str
    is_idle: bool
    sources: tuple[tuple[int, int, int, int], ...]

    def within(self, spans: Spans) -> list[_Piece]:
        both = ((max(self.start, a), min(self.end, b)) for a, b in spans)
        return [replace(self, start=a, end=b) for a, b in both if a < b]


def _order(piece: _Piece) -> tuple[int, int, str, bool, tuple[tuple[int, int, int, int], ...]]:
    return piece.start, piece.end, piece.label, piece.is_idle, piece.sources


def _window(
    start_s: float, end_s: float, segments: Sequence[Segment], duration_s: float
) -> tuple[int, int, list[tuple[int, int, str, bool]]]:
    """Start, end and the clipped segments in order, in microseconds; segments without a length are left out."""
    start, end = max(_us(start_s), 0), min(_us(end_s), _us(duration_s))
    clipped = [(max(_us(s.start_s), start), min(_us(s.end_s), end), s.label, s.is_idle) for s in segments]
    return start, end, sorted(segment for segment in clipped if segment[0] < segment[1])


class _Cut(NamedTuple):
    """``end`` and ``start``: of the earlier and of the later segment that decided ``at``; none where it is mid-zone."""

    at: int
    end: int | None = None
    start: int | None = None


def _join(earlier: list[_Piece], later: list[_Piece], start: int, end: int) -> tuple[list[_Piece], tuple[object, ...]]:
    """Both sides as one, and the row of `seams` of their zone, ``start`` to ``end``, less its number."""
    compared = _compared(earlier, later, start, end)
    cut = _cut(earlier, later, start, end)
    extended = 0
    if cut.end is not None and cut.end < cut.at:
        earlier, extended = _extended(earlier, later, cut.end, cut.at)
    before, after = [(_FIRST, cut.at)], [(cut.at, _LAST)]
    earlier_speaks = _union([*before, *_minus(after, _coverage(later))])
    later_speaks = _union([*after, *_minus(before, _coverage(earlier))])
    first = [piece for segment in earlier for piece in segment.within(earlier_speaks)]
    second = [piece for segment in later for piece in segment.within(later_speaks)]
    through = {p.sources for side in (earlier, later) for p in side if p.start < cut.at < p.end}
    joined, merged = _merged(first, second, cut.at, through)
    times = (start, max(start, end), cut.at, cut.end, cut.start)
    apart = None if cut.end is None or cut.start is None else abs(cut.end - cut.start)
    in_seconds = [None if time is None else time / 1e6 for time in (*times, apart, extended)]
    return joined, (*in_seconds, merged, *(time / 1e6 for time in compared))


def _cut(earlier: list[_Piece], later: list[_Piece], start: int, end: int) -> _Cut:
    ends = {piece.end for piece in earlier if start < piece.end < end}
    starts = {piece.start for piece in later if start < piece.start < end}
    pairs = [(abs(one - other), one, other) for one in ends for other in starts]
    if not pairs:
        return _Cut((start + end) // 2)
    _, one, other = min(pairs)
    return _Cut(max(one, other), one, other)


def _extended(earlier: list[_Piece], later: list[_Piece], end: int, cut: int) -> tuple[list[_Piece], int]:
    """``earlier`` with the segment that ends at ``end`` (of several the last to start) drawn out towards ``cut``.

    And by how much it was.
    """
    covered = next((b for a, b in _coverage([*earlier, *later]) if a < end < b), end)
    reach = min(covered, cut)
    if reach == end:
        return earlier, 0
    chosen = max((piece for piece in earlier if piece.end == end), key=_order)
    others = _minus([(_FIRST, _LAST)], [(end, reach)])
    kept = [piece for segment in earlier if segment is not chosen for piece in segment.within(others)]
    return [*kept, replace(chosen, end=reach)], reach - end


def _merged(
    earlier: list[_Piece], later: list[_Piece], cut: int, through: set[tuple[tuple[int, int, int, int], ...]]
) -> tuple[list[_Piece], int]:
    """Both sides, with each pair of equal pieces merged that the cut parted; and how many were."""
    ending = sorted((p for p in earlier if p.end == cut and p.sources in through), key=_order)
    starting = sorted((p for p in later if p.start == cut and p.sources in through), key=_order)
    joined = [*earlier, *later]
    count = 0
    for one in ending:
        for other in starting:
            same = (one.label, one.is_idle) == (other.label, other.is_idle)
            if same and other.end - one.start <= LONGEST_SEGMENT_US:
                starting.remove(other)
                joined.remove(one)
                joined.remove(other)
                joined.append(replace(one, end=other.end, sources=(*one.sources, *other.sources)))
                count += 1
                break
    return joined, count


def _compared(earlier: list[_Piece], later: list[_Piece], start: int, end: int) -> tuple[int, int, int, int]:
    """For how long in the zone both sides say the same, different things, only the earlier and only the later any."""
    marks = {start, end, *(time for piece in (*earlier, *later) for time in (piece.start, piece.end))}
    inside = sorted(mark for mark in marks if start <= mark <= end)
    same = different = first = second = 0
    for a, b in pairwise(inside):
        one, other = (sorted({(p.label, p.is_idle) for p in side if p.start <= a < p.end}) for side in (earlier, later))
        if one and other:
            same, different = same + (b - a) * (one == other), different + (b - a) * (one != other)
        else:
            first, second = first + (b - a) * bool(one), second + (b - a) * bool(other)
    return same, different, first, second


_FIRST, _LAST = -(2**62), 2**62


def _coverage(pieces: Iterable[_Piece]) -> Spans:
    return _union((piece.start, piece.end) for piece in pieces)


def _union(spans: Iterable[tuple[int, int]]) -> Spans:
    joined: Spans = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((start, end))
    return joined


def _minus(spans: Spans, less: Spans) -> Spans:
    rest: Spans = []
    for start, end in spans:
        position = start
        for a, b in less:
            if a < end and b > position:
                if a > position:
                    rest.append((position, a))
                position = max(position, b)
        if position < end:
            rest.append((position, end))
    return rest


def _kept(pieces: list[_Piece]) -> Iterable[tuple[object, ...]]:
    for number, piece in enumerate(pieces):
        for window, position, start, end in piece.sources:
            times = piece.start / 1e6, piece.end / 1e6
            yield number, *times, piece.label, piece.is_idle, window, position, start / 1e6, end / 1e6


def _us(seconds: float) -> int:
    return round(seconds * 1e6)
