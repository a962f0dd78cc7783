"""Event scoring in plain loops: the executable definition that the fast one is held to.

A mention may match a segment if it comes at most `early_s` before its start and `late_s` after its end, inclusive, in
whole microseconds, and refers to its object. Segments are read in the order (start, end, id), mentions in that of
(time, position); *rank* is an index into that order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mabpl.reference import microseconds, most_then_cheapest

Refers = Callable[[str, str], bool]


@dataclass(frozen=True)
class Segment:
    """What was worth saying: an object, from its start to its end, which is clamped to the clip already."""

    sample_id: str
    start_s: float
    end_s: float
    object: str


@dataclass(frozen=True)
class Mention:
    """What was said, and when."""

    time_s: float
    text: str


@dataclass(frozen=True)
class ScoredClip:
    """``matches``: (segment's id, mention's position). ``outcomes``: of each mention, in the order of the submission.

    ``lateness_us``: sum over the matches.
    """

    matches: list[tuple[str, int]]
    outcomes: list[str]
    lateness_us: int


def score_clip(
    segments: Sequence[Segment],
    mentions: Sequence[Mention],
    refers: Refers,
    *,
    negative: bool = False,
    early_s: float = 1.0,
    late_s: float = 2.0,
    matching: str = "optimal",
) -> ScoredClip:
    """One clip. ``refers(text, object)``: whether a mention is about an object. ``negative``: a declared negative."""
    ordered = sorted(segments, key=lambda segment: (segment.start_s, segment.end_s, segment.sample_id))
    said = sorted(range(len(mentions)), key=lambda i: (microseconds(mentions[i].time_s), i))
    in_time: dict[tuple[int, int], int] = {}
    for s, segment in enumerate(ordered):
        for m, i in enumerate(said):
            time = microseconds(mentions[i].time_s)
            start, end = microseconds(segment.start_s), microseconds(segment.end_s)
            if start - microseconds(early_s) <= time <= end + microseconds(late_s):
                in_time[s, m] = max(0, time - start)
    late = {(s, m): us for (s, m), us in in_time.items() if refers(mentions[said[m]].text, ordered[s].object)}
    matches = in_turn(late) if matching == "in_order" else most_then_cheapest(late)
    segment_of = {m: s for s, m in matches}
    outcomes = [""] * len(mentions)
    for m, i in enumerate(said):
        if m in segment_of:
            outcomes[i] = "hit"
        elif negative:
            outcomes[i] = "on_negative"
        elif any(other == m for _, other in late):
            outcomes[i] = "duplicate"
        elif any(other == m for _, other in in_time):
            outcomes[i] = "wrong_object"
        else:
            outcomes[i] = "out_of_time"
    return ScoredClip(
        sorted((ordered[s].sample_id, said[m]) for s, m in matches), outcomes, sum(late[s, m] for s, m in matches)
    )


def in_turn(late: dict[tuple[int, int], int]) -> list[tuple[int, int]]:
    """Each mention in order takes the free segment that it is least late for, the earlier of equal ones."""
    taken: dict[int, int] = {}
    for m in sorted({m for _, m in late}):
        free = [(late[s, m], s) for s, other in sorted(late) if other == m and s not in taken]
        if free:
            taken[min(free)[1]] = m
    return sorted(taken.items())
