"""Windows joined to a clip: the rule worked out cell by cell, and what it guarantees for any windows."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from mabpl.annotate import Stitched, stitch
from mabpl.benchmarks.micro_annotation.rows import Segment

Times = list[tuple[float, float, str]]
Units = list[tuple[int, int, str]]
Window = tuple[float, float, list[Segment]]


def window(start: float, end: float, *times: tuple[float, float, str]) -> Window:
    return start, end, [Segment(a, b, label, label == "idle") for a, b, label in times]


def times(segments: list[Segment]) -> Times:
    return [(s.start_s, s.end_s, s.label) for s in segments]


# --- the rule, case by case ---

A = [(30.0, 38.0, "a"), (38.0, 41.0, "b"), (41.0, 45.0, "c")]


@pytest.mark.parametrize(
    ("earlier", "later", "expected", "cut"),
    [
        # the same boundary: the later side speaks from there
        (A, [(38.0, 41.0, "B"), (41.0, 50.0, "C")], [*A[:2], (41.0, 50.0, "C")], 41.0),
        # the later side begins later: b is drawn out to the cut
        (A, [(38.0, 42.0, "B"), (42.0, 50.0, "C")], [A[0], (38.0, 42.0, "b"), (42.0, 50.0, "C")], 42.0),
        # the later side begins earlier: its segment is shortened
        (A, [(38.0, 40.5, "B"), (40.5, 50.0, "C")], [*A[:2], (41.0, 50.0, "C")], 41.0),
        # of equally distant pairs the earliest
        (A, [(40.0, 42.0, "B"), (42.0, 50.0, "C")], [*A[:2], (41.0, 42.0, "B"), (42.0, 50.0, "C")], 41.0),
        # no boundary of the later side: mid-zone, through two segments of another name
        (A, [(38.0, 50.0, "C")], [*A[:2], (41.0, 41.5, "c"), (41.5, 50.0, "C")], 41.5),
        # of the same name: one again, up to 10 s
        (A, [(38.0, 51.0, "c")], [*A[:2], (41.0, 51.0, "c")], 41.5),
        (A, [(38.0, 51.1, "c")], [*A[:2], (41.0, 41.5, "c"), (41.5, 51.1, "c")], 41.5),
        (A, [(38.0, 51.0, "idle")], [*A[:2], (41.0, 41.5, "c"), (41.5, 51.0, "idle")], 41.5),
        # a gap on both sides is not bridged
        ([(30.0, 40.0, "a")], [(42.0, 50.0, "C")], [(30.0, 40.0, "a"), (42.0, 50.0, "C")], 42.0),
        # and a segment that starts at the cut was not cut
        ([(30.0, 40.0, "a"), (41.0, 45.0, "c")], [(42.0, 50.0, "c")],
         [(30.0, 40.0, "a"), (41.0, 42.0, "c"), (42.0, 50.0, "c")], 42.0),
        # of several that end there the last to start is drawn out
        ([(30.0, 41.0, "a"), (36.0, 41.0, "b")], [(38.0, 42.0, "B"), (42.0, 50.0, "C")],
         [(30.0, 41.0, "a"), (36.0, 42.0, "b"), (42.0, 50.0, "C")], 42.0),
        # one that only the later side covers is, as far as it does
        ([(30.0, 40.0, "a")], [(38.0, 41.0, "B"), (42.0, 50.0, "C")], [(30.0, 41.0, "a"), (42.0, 50.0, "C")], 42.0),
        # where only the other side covers, it speaks: before and after the cut
        (
            [(30.0, 39.0, "a"), (43.0, 44.0, "c"), (44.0, 45.0, "d")],
            [(38.0, 40.5, "B"), (44.0, 44.5, "C"), (46.0, 50.0, "D")],
            [(30.0, 39.0, "a"), (39.0, 40.5, "B"), (43.0, 44.0, "c"), (44.0, 44.5, "C"),
             (44.5, 45.0, "d"), (46.0, 50.0, "D")],
            44.0,
        ),
        # pieces of one segment that touch are one
        ([(30.0, 40.0, "a"), (43.0, 45.0, "c")], [(38.0, 50.0, "B")], [(30.0, 40.0, "a"), (40.0, 50.0, "B")], 41.5),
        # boundaries at the ends of the zone decide nothing
        ([(30.0, 45.0, "a")], [(38.0, 50.0, "B")], [(30.0, 41.5, "a"), (41.5, 50.0, "B")], 41.5),
        ([], [(38.0, 50.0, "B")], [(38.0, 50.0, "B")], 41.5),
    ],
)  # fmt: skip
def test_two_windows(earlier: Times, later: Times, expected: Times, cut: float) -> None:
    stitched = stitch([window(0, 45, *earlier), window(38, 83, *later)], 83)
    assert times(stitched.segments) == expected
    assert stitched.seams["cut_s"].to_list() == [cut]


def test_the_seam_is_told() -> None:
    earlier = [(30.0, 38.5, "a"), (38.5, 41.0, "b"), (41.0, 44.0, "c")]
    later = [(38.0, 39.0, "a"), (39.0, 41.4, "b"), (41.4, 50.0, "c")]
    stitched = stitch([window(38, 83, *later), window(0, 45, *earlier)], 83)
    assert stitched.seams.to_dicts() == [
        {
            "zone": 0,
            "zone_start_s": 38.0,
            "zone_end_s": 45.0,
            "cut_s": 41.4,
            "earlier_end_s": 41.0,
            "later_start_s": 41.4,
            "apart_s": 0.4,
            "extended_s": 0.4,
            "merged": 0,
            "same_s": 5.1,
            "different_s": 0.9,
            "earlier_only_s": 0.0,
            "later_only_s": 1.0,
        }
    ]
    assert stitched.kept.rows() == [
        (0, 30.0, 38.5, "a", False, 0, 0, 30.0, 38.5),
        (1, 38.5, 41.4, "b", False, 0, 1, 38.5, 41.0),
        (2, 41.4, 50.0, "c", False, 1, 2, 41.4, 50.0),
    ]


def test_a_merged_segment_names_both_windows() -> None:
    stitched = stitch([window(0, 45, (36, 45, "a")), window(38, 83, (38, 46, "a"))], 83)
    assert stitched.seams.select("cut_s", "apart_s", "merged", "same_s", "later_only_s").row(0) == (41.5, None, 1, 7, 0)
    assert stitched.kept.rows() == [
        (0, 36.0, 46.0, "a", False, 0, 0, 36.0, 45.0),
        (0, 36.0, 46.0, "a", False, 1, 0, 38.0, 46.0),
    ]


def test_an_idle_segment_is_not_merged_with_one_of_the_same_label_that_is_not() -> None:
    windows = [(0, 45, [Segment(36, 45, "a", True)]), (38, 83, [Segment(38, 46, "a", False)])]
    assert stitch(windows, 83).segments == [Segment(36, 41.5, "a", True), Segment(41.5, 46, "a", False)]


def test_a_zone_ends_where_the_windows_before_it_do() -> None:
    stitched = stitch([window(0, 45, (0, 45, "a")), window(10, 20, (10, 20, "b")), window(40, 60, (40, 60, "c"))], 60)
    assert stitched.seams.select("zone_start_s", "zone_end_s", "cut_s").rows() == [(10, 45, 27.5), (40, 45, 42.5)]
    assert times(stitched.segments) == [(0, 42.5, "a"), (42.5, 60, "c")]


def test_segments_are_clipped_to_their_window_and_the_clip() -> None:
    stitched = stitch(
        [window(0, 45, (-1, 1.001, "a"), (44, 47, "b"), (50, 60, "x")), window(90, 99, (90, 99, "c"))], 95
    )
    assert times(stitched.segments) == [(0, 1.001, "a"), (44, 45, "b"), (90, 95, "c")]


def test_no_window_gives_nothing() -> None:
    stitched = stitch([], 10)
    assert stitched.segments == [] and stitched.seams.is_empty() and stitched.kept.is_empty()


# --- any two windows, cell by cell ---


class Case(NamedTuple):
    """Windows in units of 0.25 s; segments (start, end, label)."""

    windows: list[tuple[int, int, Units]]
    duration: int

    def stitched(self) -> Stitched:
        return stitch(self.given(), self.duration / 4)

    def given(self) -> list[Window]:
        return [window(a / 4, b / 4, *((s / 4, e / 4, label) for s, e, label in each)) for a, b, each in self.windows]


@st.composite
def segments_in(draw: st.DrawFn, start: int, end: int, truth: list[int], overlapping: bool) -> Units:
    """Boundaries near those of a common truth, gaps, nothing at all; with ``overlapping`` some that lie anywhere."""
    near = {
        t + draw(st.sampled_from((0, 0, 0, 1, -1, 2))) for t in truth if start <= t <= end and draw(st.integers(0, 4))
    }
    cuts = sorted({start, *(t for t in near if start < t < end), end})
    found = [
        (a, b, draw(st.sampled_from("abc") | st.just("idle")))
        for a, b in pairwise(cuts)
        if draw(st.sampled_from((True, True, True, True, False)))
    ]
    if overlapping:
        for _ in range(draw(st.integers(0, 2))):
            a = draw(st.integers(start, end - 1))
            found.append((a, draw(st.integers(a + 1, end)), draw(st.sampled_from("abc"))))
    return draw(st.permutations(found))


@st.composite
def cases(draw: st.DrawFn, overlapping: bool = False, most: int = 4) -> Case:
    """Windows of one length and stride, of which no three share a time; the last is as long as the clip lasts."""
    length = draw(st.integers(8, 120))
    stride = draw(st.integers((length + 1) // 2, length))
    count = draw(st.integers(1, most))
    duration = (count - 1) * stride + draw(st.integers(length - stride + 1, length))
    truth = sorted(draw(st.sets(st.integers(0, duration), max_size=duration // 4)))
    bounds = [(k * stride, min(k * stride + length, duration)) for k in range(count)]
    return Case([(a, b, draw(segments_in(a, b, truth, overlapping))) for a, b in bounds], duration)


Cell = tuple[str, int, str]


def cells(segments: Units, side: str, size: int) -> list[Cell | None]:
    """The segment of each half unit: its side, number and label."""
    found: list[Cell | None] = [None] * size
    for number, (start, end, label) in enumerate(segments):
        found[2 * start : 2 * end] = [(side, number, label)] * (2 * end - 2 * start)
    return found


def by_cells(case: Case) -> Times:
    """The rule for two windows that do not overlap themselves, one half unit after another."""
    (_, end, first), (start, _, second) = case.windows
    earlier, later = (cells(s, side, 2 * case.duration) for side, s in (("earlier", first), ("later", second)))
    ends = [2 * e for _, e, _ in first if start < e < end]
    starts = [2 * s for s, _, _ in second if start < s < end]
    pairs = sorted((abs(one - other), one, other) for one in ends for other in starts)
    cut = max(pairs[0][1:]) if pairs else start + end
    if pairs:
        at = pairs[0][1]
        drawn_out = earlier[at - 1]
        while at < cut and (earlier[at] or later[at]):
            earlier[at] = drawn_out
            at += 1
    said = [
        (one or other) if at < cut else (other or one)
        for at, (one, other) in enumerate(zip(earlier, later, strict=True))
    ]
    through = [side[cut - 1] and side[cut - 1] == side[cut] for side in (earlier, later)]
    found: list[tuple[int, int, Cell]] = []
    for start, cell in enumerate(said):
        if cell and found and found[-1][1:] == (start, cell):
            found[-1] = found[-1][0], start + 1, cell
        elif cell:
            found.append((start, start + 1, cell))
    for at, (one, other) in enumerate(pairwise(found)):
        if one[1] == other[0] == cut and all(through) and one[2][2] == other[2][2] and other[1] - one[0] <= 80:
            found[at : at + 2] = [(one[0], other[1], one[2])]
            break
    return [(start / 8, end / 8, label) for start, end, (_, _, label) in found]


@given(cases(most=2).filter(lambda case: len(case.windows) == 2 and case.windows[1][0] < case.windows[0][1]))
@hypothesis_settings(max_examples=250, deadline=None)
def test_two_windows_are_joined_as_cell_by_cell(case: Case) -> None:
    assert times(case.stitched().segments) == by_cells(case)


# --- guarantees ---

ANY = cases() | cases(overlapping=True)
many = hypothesis_settings(max_examples=120, deadline=None)


def covered(segments: list[tuple[float, float]]) -> list[tuple[float, float]]:
    union: list[tuple[float, float]] = []
    for start, end in sorted(segments):
        if union and start <= union[-1][1]:
            union[-1] = union[-1][0], max(union[-1][1], end)
        else:
            union.append((start, end))
    return union


def overlap_themselves(segments: list[Segment]) -> bool:
    in_order = sorted((s.start_s, s.end_s) for s in segments)
    return any(b[0] < a[1] for a, b in pairwise(in_order))


def said_at(segments: list[Segment], at: float) -> Counter[tuple[str, bool]]:
    return Counter((s.label, s.is_idle) for s in segments if s.start_s < at < s.end_s)


@given(ANY)
@many
def test_coverage_is_that_of_the_windows_and_nothing_is_made_up(case: Case) -> None:
    given_, output = case.given(), case.stitched().segments
    inputs = [s for _, _, segments in given_ for s in segments]
    assert covered([(s.start_s, s.end_s) for s in output]) == covered([(s.start_s, s.end_s) for s in inputs])
    assert {(s.label, s.is_idle) for s in output} <= {(s.label, s.is_idle) for s in inputs}
    assert [s.start_s for s in output] == sorted(s.start_s for s in output)
    assert all(0 <= s.start_s < s.end_s <= case.duration / 4 for s in output)
    if not any(overlap_themselves(segments) for _, _, segments in given_):
        assert not overlap_themselves(output)


@given(ANY)
@many
def test_outside_the_zones_nothing_changes(case: Case) -> None:
    given_, output = case.given(), case.stitched().segments
    zones = [(later[0], earlier[1]) for earlier, later in pairwise(given_)]
    marks = sorted({t for s in output for t in (s.start_s, s.end_s)} | {t for w in given_ for t in w[:2]})
    for start, end, segments in given_:
        own = sorted({*marks, *(t for s in segments for t in (s.start_s, s.end_s))})
        for a, b in pairwise(own):
            middle = (a + b) / 2
            if start <= a and b <= end and not any(lo < middle < hi for lo, hi in zones):
                assert said_at(output, middle) == said_at(segments, middle)
        outside = [t for t in own if start < t < end and not any(lo <= t <= hi for lo, hi in zones)]
        for t in outside:
            for edge in ("start_s", "end_s"):
                of_output = Counter((s.label, s.is_idle) for s in output if getattr(s, edge) == t)
                assert of_output == Counter((s.label, s.is_idle) for s in segments if getattr(s, edge) == t)


@given(ANY, st.randoms(use_true_random=False))
@many
def test_any_order_gives_the_same_bytes(case: Case, random: object) -> None:
    stitched = case.stitched()
    shuffled = [(a, b, random.sample(s, len(s))) for a, b, s in random.sample(case.given(), len(case.windows))]  # type: ignore[attr-defined]
    other = stitch(shuffled, case.duration / 4)
    assert repr(other.segments) == repr(stitched.segments)
    assert other.seams.equals(stitched.seams) and other.kept.equals(stitched.kept)


@given(ANY)
@many
def test_stitching_again_changes_nothing(case: Case) -> None:
    output = case.stitched().segments
    whole = stitch([(0, case.duration / 4, output[::-1])], case.duration / 4)
    assert whole.segments == output
    given_ = case.given()
    if any(overlap_themselves(s) for _, _, s in given_) or any(s.end_s - s.start_s > 10 for s in output):
        return
    again = [(a, b, output) for a, b, _ in given_]
    assert stitch(again, case.duration / 4).segments == output


@given(ANY)
@many
def test_seams_add_up_and_kept_segments_name_their_source(case: Case) -> None:
    stitched, given_ = case.stitched(), case.given()
    assert stitched.seams["zone"].to_list() == list(range(len(given_) - 1))
    for seam, (earlier, later) in zip(stitched.seams.iter_rows(named=True), pairwise(given_), strict=True):
        assert later[0] <= seam["cut_s"] <= earlier[1]
        parts = covered([(max(s.start_s, later[0]), min(s.end_s, earlier[1])) for s in (*earlier[2], *later[2])])
        told = sum(seam[name] for name in ("same_s", "different_s", "earlier_only_s", "later_only_s"))
        assert told == pytest.approx(sum(b - a for a, b in parts if a < b))
    assert sorted(set(stitched.kept["segment"])) == list(range(len(stitched.segments)))
    for row in stitched.kept.iter_rows(named=True):
        segments = sorted(given_[row["window"]][2], key=lambda s: (s.start_s, s.end_s, s.label))
        source = segments[row["window_segment"]]
        assert (source.label, source.is_idle) == (row["label"], row["is_idle"])
        assert (source.start_s, source.end_s) == (row["given_start_s"], row["given_end_s"])
        assert max(source.start_s, row["start_s"]) < min(source.end_s, row["end_s"])
