"""Hypothesis strategies for the timelines on which matching rules differ: overlaps, nesting, duplicates, exact ties.

Times are drawn as whole units of a grid and converted last, so that an IoU of exactly 1/2 or 3/4, an error of exactly
20 or 21 frames and equal overlaps are common, not accidents.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from mabpl.reference import Segment
from mabpl.settings import Settings

Units = tuple[int, int]

GRIDS: dict[str, Callable[[int], float]] = {
    "0.1 s": lambda k: k / 10,
    "0.05 s, half frames": lambda k: k / 20,
    "frames, printed to 3 decimals": lambda k: round(k / 30, 3),
    "frames, as floats": lambda k: k / 30,
}

SHIFTS = (0, 0, 1, -1, 7, -7, 19, -20, 20, -21, 21)
"""Whole units by which an end may move; on the frame grids 20 is the last that Boundary F1 accepts."""


@st.composite
def grids(draw: st.DrawFn) -> Callable[[int], float]:
    """A monotone map from units to seconds: one of the named grids, or raw floats."""
    if draw(st.integers(0, 3)):
        return GRIDS[draw(st.sampled_from(sorted(GRIDS)))]
    step, offset = draw(st.floats(0.01, 0.5)), draw(st.floats(-1, 1))
    return lambda k: k * step + offset


def spans(longest: int = 40) -> st.SearchStrategy[Units]:
    lengths = st.one_of(st.integers(1, longest), st.sampled_from((4, 8, 12, 20, 24, 40)))
    return st.tuples(st.integers(-5, 90), lengths).map(lambda at: (at[0], at[0] + at[1]))


@st.composite
def ragged(draw: st.DrawFn, min_size: int, max_size: int) -> list[Units]:
    """Anything: gaps, overlaps, and a few segments that repeat another or lie inside it."""
    drawn = draw(st.lists(spans(), min_size=min_size, max_size=max_size))
    for like, inside in draw(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=2)):
        if like < len(drawn):
            start, end = drawn[like]
            drawn.append((start + 1, end - 2) if inside and end - start > 3 else (start, end))
    return drawn[-max_size:]


@st.composite
def contiguous(draw: st.DrawFn, min_size: int, max_size: int) -> list[Units]:
    """Each segment begins where the one before it ends."""
    scale = draw(st.sampled_from((1, 4, 20)))
    cuts = draw(st.sets(st.integers(0, 120 // min(scale, 4)), min_size=min_size + 1, max_size=max_size + 1))
    return list(itertools.pairwise(sorted(cut * scale for cut in cuts)))


@st.composite
def crowded(draw: st.DrawFn, min_size: int, max_size: int) -> list[Units]:
    """Variants of one segment, the same for both sides: where the choice of pairs is hardest."""
    moves = st.tuples(st.integers(-8, 8), st.integers(-8, 8))
    moved = draw(st.lists(moves, min_size=min_size, max_size=max_size))
    return [(20 + a, 60 + b) for a, b in moved]


EDITS = ("moved", "moved", "half", "three quarters", "three quarters", "longer", "split", "nested", "touching")


@st.composite
def edited(draw: st.DrawFn, of: Units) -> list[Units]:
    """What a model might have made of one segment: the same, moved ends, the exact share of a threshold, two halves."""
    start, end = of
    length = end - start
    kind = draw(st.sampled_from(EDITS))
    if kind == "moved":
        moved = start + draw(st.sampled_from(SHIFTS)), end + draw(st.sampled_from(SHIFTS))
        return [moved] if moved[0] < moved[1] else [of]
    if kind == "half" and length % 2 == 0:
        return [draw(st.sampled_from(((start, end - length // 2), (start + length // 2, end))))]
    if kind == "three quarters" and length % 4 == 0:
        return [draw(st.sampled_from(((start, end - length // 4), (start + length // 4, end))))]
    if kind == "longer":
        return [draw(st.sampled_from(((start, end + length), (start - length, end), (start, end + length // 3))))]
    if kind == "split" and length >= 2:
        middle = start + length // 2
        return [(start, middle), (middle, end)]
    if kind == "nested" and length >= 3:
        return [(start + 1, end - 1), (start, end)]
    if kind == "touching":
        return [(end, end + length)]
    return [of]


@st.composite
def answers(draw: st.DrawFn, humans: list[Units], max_size: int) -> list[Units]:
    """A predicted timeline that was made from the human one, with a few segments of its own."""
    made = [unit for human in humans if draw(st.integers(0, 5)) for unit in draw(edited(human))]
    offset = draw(st.sampled_from((0, 0, 0, 20, -60, 60)))
    own = draw(st.lists(spans(longest=130), max_size=2))
    return [(a + offset, b + offset) for a, b in made + own][:max_size]


@st.composite
def timelines(draw: st.DrawFn, max_size: int = 8) -> tuple[list[Segment], list[Segment]]:
    """(human, predicted), each of at most ``max_size`` segments and in any order. Every segment is valid: its end lies
    after its start, in microseconds too."""
    grid = draw(grids())
    noise = draw(st.sampled_from((0.0, 0.0, 0.0, 3e-7)))
    kind = draw(st.sampled_from((contiguous, ragged, crowded)))
    sizes = st.sampled_from((0, 1, 2, 3, 4)).map(lambda size: min(size, max_size))
    human = draw(kind(draw(sizes), max_size))
    if draw(st.integers(0, 2)):
        predicted = draw(answers(human, max_size))
    else:
        predicted = draw(draw(st.sampled_from((kind, ragged)))(draw(sizes), max_size))

    def seconds(unit: int) -> float:
        return grid(unit) + noise * draw(st.integers(0, 1)) if noise else grid(unit)

    def segments(units: list[Units], *, human: bool) -> list[Segment]:
        rarely = st.sampled_from((False, False, False, False, False, False, False, True))
        return [
            Segment(
                seconds(start),
                seconds(end),
                label=draw(st.sampled_from("abc")),
                is_idle=draw(rarely),
                flagged=human and draw(rarely),
            )
            for start, end in draw(st.one_of(st.just(units), st.permutations(units)))
        ]

    return segments(human, human=True), segments(predicted, human=False)


def settings(**fixed: Any) -> st.SearchStrategy[Settings]:
    """Every option at every value; ``fixed`` holds some of them."""
    thresholds = st.sampled_from((0.5, 0.75, 0.1, 0.25, 0.3, 1 / 3, 0.9, 1.0))
    options: dict[str, st.SearchStrategy[Any]] = {
        "time_base": st.sampled_from(("frames", "seconds")),
        "tolerance_frames": st.sampled_from((20, 20, 21, 0, 1, 60)),
        "tolerance_s": st.sampled_from((0.667, 0.667, 0.7, 0.0, 0.05, 2.0)),
        "boundary_matching": st.sampled_from(("greedy", "optimal")),
        "pa_ties": st.sampled_from(("earlier_first", "later_first")),
        "judge_pairs": st.sampled_from(("all", "assigned")),
        "temporal_iou": thresholds,
        "seg_iou": thresholds,
        "missing": st.sampled_from(("refuse", "empty", "skip")),
    }
    return st.builds(Settings, **options | {name: st.just(value) for name, value in fixed.items()})
