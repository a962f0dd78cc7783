"""A whole release, held against the totals that its authors publish.

Source: ProactEgoMem, annotation format proact-studio-v3, which speaks of two tracks, Daily and Science, but not of the
names of their folders. Tracks are therefore told by their own totals: of all ways to take each folder's track for a
part of Daily or of Science, the one with the fewest differences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import polars as pl

from mabpl.benchmarks.proact_ego_mem.release import Release
from mabpl.benchmarks.proact_ego_mem.rules import release_problem
from mabpl.reading.problems import Problem

FILES, CLIPS, QUESTIONS = 15, 400, 1500


@dataclass(frozen=True)
class Track:
    """``open_segments``: without an end; ``without_questions``: clips that have none; ``location``: open segments and
    all segments of location tracking, where they are published."""

    title: str
    open_segments: int
    without_questions: int
    location: tuple[int, int] | None = None


TRACKS = (Track("Daily", 318, 4), Track("Science", 159, 1, (144, 371)))
_MOST_TRACKS = 8

SCHEMA = {"total": pl.String, "track": pl.String, "expected": pl.Int64, "found": pl.Int64}


def check_totals(release: Release) -> pl.DataFrame:
    """total, track (the folders' tracks that were taken for it; null: over all), expected, found."""
    whole = [
        ("files", None, FILES, len(release.files)),
        ("clips", None, CLIPS, release.clips.height),
        ("questions", None, QUESTIONS, release.qa_items.height),
    ]
    names = sorted({one.track for one in release.files})
    figures = {name: _figures(release, name) for name in names}
    splits = product(range(len(TRACKS)), repeat=len(names)) if len(names) <= _MOST_TRACKS else [(0,) * len(names)]
    candidates = [_rows(names, chosen, figures) for chosen in splits]
    best = min(candidates, key=lambda rows: sum(expected != found for _, _, expected, found in rows))
    return pl.DataFrame([*whole, *best], schema=SCHEMA, orient="row")


def totals_problems(totals: pl.DataFrame, folder: str, release: Release) -> list[Problem]:
    """A breach for each row of :func:`check_totals` that differs."""
    withheld = sum(not one.ground_truth_released for one in release.files)
    hint = f"{withheld} files withhold their annotations: their segments cannot be counted" if withheld else ""
    return [
        release_problem(
            "published-total",
            folder,
            None,
            f"{total}{f' of track {track}' if track else ''}: {found}, published are {expected}",
            hint=hint if "segments" in total and found < expected else "",
        )
        for total, track, expected, found in totals.filter(pl.col("expected") != pl.col("found")).iter_rows()
    ]


def _figures(release: Release, track: str) -> tuple[int, int, int, int]:
    segments = release.segments.filter(track=track)
    location = segments.filter(task="location_tracking")
    return (
        int(segments["is_open"].sum()),
        release.clips.filter(track=track, qa_items=0).height,
        int(location["is_open"].sum()),
        location.height,
    )


def _rows(
    names: Sequence[str], chosen: Sequence[int], figures: Mapping[str, tuple[int, int, int, int]]
) -> list[tuple[str, str | None, int, int]]:
    rows: list[tuple[str, str | None, int, int]] = []
    for number, track in enumerate(TRACKS):
        mine = [name for name, of in zip(names, chosen, strict=True) if of == number]
        told = f"{track.title} ({', '.join(mine) or 'no folder'})"
        found = [sum(figures[name][i] for name in mine) for i in range(4)]
        rows.append(("open segments", told, track.open_segments, found[0]))
        rows.append(("clips without questions", told, track.without_questions, found[1]))
        if track.location is not None:
            rows.append(("open segments in location_tracking", told, track.location[0], found[2]))
            rows.append(("segments in location_tracking", told, track.location[1], found[3]))
    return rows
