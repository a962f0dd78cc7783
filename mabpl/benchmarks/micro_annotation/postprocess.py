"""What is done to the timelines of a pipeline that was never told the benchmark's rules, before they are scored.

As MicroAnnotationBench does it for such a pipeline: overlapping segments are resolved (each starts no earlier than the
one before it ends), and segments of more than 10 s are cut into equal consecutive pieces with the same label.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import msgspec
import polars as pl

from mabpl.benchmarks.micro_annotation.checks import LONGEST_SEGMENT_US
from mabpl.benchmarks.micro_annotation.edits import Change, Row, TimelineSegment, as_file, edited, read_rows
from mabpl.benchmarks.micro_annotation.reading import read_predictions
from mabpl.errors import InputError
from mabpl.reading.problems import require_valid

_MOST_PIECES = 1_000


@dataclass(frozen=True)
class Converted:
    """``data``: the new file (not compressed). ``changes``: line, clip_id, segment (its position before), field, rule,
    before, after (null: left out)."""

    data: bytes
    changes: pl.DataFrame


def convert(path: str | os.PathLike[str], rule: Literal["cut", "resolve"]) -> Converted:
    """The prediction file at ``path`` by one of two rules; nothing is written, and lines without a change stay.

    ``cut``: a segment longer than 10 s becomes ``ceil(length / 10)`` equal pieces that follow on each other, with the
    same label and further fields. ``resolve``: segments in order of time, each start moved to the end before it where
    it is earlier; one that this empties is left out. Raises :class:`InputError` for a file that cannot be read,
    :class:`InvalidTimelines` for one that holds an error.
    """
    file = os.fspath(path)
    texts, rows = read_rows(file)
    with as_file(file, b"".join(texts)) as copy:
        problems = read_predictions(copy).problems
    require_valid(problems.with_columns(file=pl.lit(file)))
    for row in rows:
        for segment in row.segments:
            segment.times = {name: msgspec.json.decode(segment.raw[name], type=float) for name in ("start_s", "end_s")}
        for step in _STEPS[rule]:
            step(row)
    return Converted(*edited(texts, rows))


def sort_segments(row: Row) -> None:
    """Segments in the order (start, end, position)."""
    row.segments.sort(key=lambda s: (s.times["start_s"], s.times["end_s"], s.position))
    row.changes += [
        Change(row.number, row.clip_id, segment.position, "segments", "unsorted", str(segment.position), str(index))
        for index, segment in enumerate(row.segments)
        if segment.position != index
    ]


def resolve_overlaps(row: Row) -> None:
    """Each start no earlier than the end before it; a segment that this empties is left out. For sorted segments."""
    kept: list[TimelineSegment] = []
    for segment in row.segments:
        reached = kept[-1].times["end_s"] if kept else segment.times["start_s"]
        if round(segment.times["end_s"] * 1e6) <= round(reached * 1e6):
            before = msgspec.json.encode(segment.raw).decode()
            row.changes.append(Change(row.number, row.clip_id, segment.position, "segments", "overlap", before, None))
            continue
        if round(segment.times["start_s"] * 1e6) < round(reached * 1e6):
            row.set_time(segment, "start_s", reached, "overlap")
        kept.append(segment)
    row.segments = kept


def cut_long_segments(row: Row) -> None:
    """Equal consecutive pieces of at most 10 s (in whole microseconds) for each segment that is longer."""
    row.segments = [piece for segment in row.segments for piece in _pieces(row, segment)]


def _pieces(row: Row, segment: TimelineSegment) -> list[TimelineSegment]:
    start, end = (round(segment.times[name] * 1e6) for name in ("start_s", "end_s"))
    count = -(-(end - start) // LONGEST_SEGMENT_US)
    if count <= 1:
        return [segment]
    if count > _MOST_PIECES:
        raise InputError(
            f"line {row.number}, clip {row.clip_id}, segments[{segment.position}] lasts {(end - start) / 1e6:.0f} s",
            "times are seconds; mabpl validate --fix tells milliseconds and frame numbers and corrects them",
        )
    inner = [repr((start + (end - start) * k // count) / 1e6).encode() for k in range(1, count)]
    ends = [bytes(segment.raw["start_s"]), *inner, bytes(segment.raw["end_s"])]
    before, after = (", ".join(text.decode() for text in texts) for texts in ((ends[0], ends[-1]), ends))
    row.changes.append(Change(row.number, row.clip_id, segment.position, "segments", "longer-than-10s", before, after))
    return [
        TimelineSegment(segment.position, {**segment.raw, "start_s": msgspec.Raw(a), "end_s": msgspec.Raw(b)})
        for a, b in pairwise(ends)
    ]


_STEPS: dict[str, tuple[Callable[[Row], None], ...]] = {
    "cut": (cut_long_segments,),
    "resolve": (sort_segments, resolve_overlaps),
}
