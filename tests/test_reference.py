"""The plain reference against worked examples, against brute force, and against figures from outside."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from decimal import ROUND_HALF_EVEN, Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, assume, find, given
from hypothesis import settings as hypothesis_settings
from strategies import settings, timelines

from mabpl.reference import ClipScore, Segment, add_up, combine, f1_at_iou, microseconds, score_clip, tick
from mabpl.settings import Settings

PUBLISHED = Settings()
OPTIMAL = Settings(boundary_matching="optimal")
modest = hypothesis_settings(max_examples=200, deadline=None)

Timeline = list[Segment]
Pairs = list[tuple[int, int]]


def timeline(*ends: tuple[float, float]) -> Timeline:
    return [Segment(start, end) for start, end in ends]


def frames(*ends: tuple[int, int]) -> Timeline:
    """Segments on the frame grid, as label files print them."""
    return timeline(*((round(start / 30, 3), round(end / 30, 3)) for start, end in ends))


# --- worked examples -------------------------------------------------------------------------------------------------


def test_ticks_come_from_the_float_product_rounded_half_to_even() -> None:
    # 2.05 * 30 is 61.49999999999999 in float64; 2,050,000 us would give 61.5 and then 62
    assert tick(2.05) == 61
    # 1.5 -> 2 and 4.5 -> 4: to the even neighbour; 0.667 * 30 = 20.01
    assert [tick(0.05), tick(0.15), tick(0.667), tick(-0.05)] == [2, 4, 20, -2]
    assert microseconds(0.1 + 0.2) == 300_000


def test_boundaries_match_up_to_20_frames_at_each_end() -> None:
    human = frames((100, 200))
    for moved, expected in (((120, 220), 1), ((80, 180), 1), ((121, 200), 0), ((100, 221), 0), ((80, 220), 1)):
        clip = score_clip(human, frames(moved), PUBLISHED)
        assert (len(clip.boundary), clip.boundary_f1) == (expected, 100.0 * expected), moved
    # 0.7 s is 21 frames; as seconds it is within a tolerance of 0.7 s, though 10.7 - 10 > 0.7 in float64
    late = timeline((10.7, 20)), timeline((10, 20))
    assert score_clip(*late, PUBLISHED).boundary == []
    assert score_clip(*late, Settings(time_base="seconds", tolerance_s=0.7)).boundary == [(0, 0)]
    assert score_clip(*late, Settings(time_base="seconds")).boundary == []


def test_short_segments_match_boundaries_without_touching() -> None:
    clip = score_clip(frames((0, 5)), frames((10, 15)), PUBLISHED)
    assert (clip.overlapping, clip.boundary, clip.temporal) == ([], [(0, 0)], [])


def test_greedy_and_optimal_boundary_matching_differ() -> None:
    # errors per end: p0-h0 20, p0-h1 10, p1-h1 20. Greedy takes p0-h1 and strands p1; two pairs are possible.
    human, predicted = frames((0, 300), (30, 330)), frames((20, 320), (50, 350))
    assert score_clip(human, predicted, PUBLISHED).boundary == [(0, 1)]
    assert score_clip(human, predicted, OPTIMAL).boundary == [(0, 0), (1, 1)]


def test_boundary_ties_go_to_the_earlier_human_then_the_earlier_prediction() -> None:
    # p0 is 10 frames from both humans; the file lists the later human first, so that h1 is the earlier
    assert score_clip(frames((20, 120), (0, 100)), frames((10, 110)), PUBLISHED).boundary == [(0, 1)]
    assert score_clip(frames((10, 110)), frames((20, 120), (0, 100)), PUBLISHED).boundary == [(1, 0)]


def test_temporal_matches_in_human_order_by_best_overlap() -> None:
    # h0 comes first and takes p0 (IoU 8/9), although h1 would fit better (9/10)
    clip = score_clip(timeline((0, 8), (0, 10)), timeline((0, 9)), PUBLISHED)
    assert (clip.temporal, clip.temporal_f1) == ([(0, 0)], pytest.approx(200 / 3))
    # both halves have IoU 5/10, which is enough; the earlier one wins
    assert score_clip(timeline((0, 10)), timeline((5, 10), (0, 5)), PUBLISHED).temporal == [(1, 0)]
    # 0.3 / 0.6 is exactly 1/2 in microseconds, while (0.9 - 0.6) / (0.9 - 0.3) < 1/2 in float64
    assert score_clip(timeline((0.3, 0.9)), timeline((0.6, 0.9)), PUBLISHED).temporal == [(0, 0)]
    assert score_clip(timeline((0, 1)), timeline((0, 0.499999)), PUBLISHED).temporal == []
    # other thresholds than 1/2 and 3/4 have a slack of 1e-9, for 1/3 has no exact float; those two have none
    for threshold, expected in ((1 / 3, 1), (1 / 3 + 9e-10, 1), (1 / 3 + 2e-9, 0)):
        assert (
            len(score_clip(timeline((0, 0.3)), timeline((0, 0.1)), Settings(temporal_iou=threshold)).temporal)
            == expected
        )
    assert score_clip(timeline((0, 2e3)), timeline((0, 999.999999)), PUBLISHED).temporal == []


def test_pa_assigns_the_largest_overlap_first() -> None:
    # overlaps: p0-h0 5 s, p0-h1 5 s: a tie
    human = timeline((0, 10), (10, 20))
    later = Settings(pa_ties="later_first")
    assert score_clip(human, timeline((5, 15)), PUBLISHED).pa == [(0, 0)]
    assert score_clip(human, timeline((5, 15)), later).pa == [(0, 1)]
    # p0-h0 6 s comes before p0-h1 4 s and before p1-h0 1 s, which leaves p1-h1 nothing but its own 5 s
    clip = score_clip(human, timeline((4, 14), (9, 15)), later)
    assert clip.overlapping == [(0, 0, 6_000_000), (0, 1, 4_000_000), (1, 0, 1_000_000), (1, 1, 5_000_000)]
    assert clip.pa == [(0, 0), (1, 1)]


def test_seg_snaps_the_outer_ends() -> None:
    human = timeline((0, 10), (10, 20))
    # 7.4 / 10 on both sides falls short; snapped to 0 and 20 both are exact
    assert score_clip(human, timeline((2.6, 10), (10, 17.4)), PUBLISHED).seg == [(0, 0), (1, 1)]
    # inner ends are not snapped: 7.5 / 10 is just enough, 7.4 / 10 is not
    assert score_clip(human, timeline((0, 7.5), (5, 8)), PUBLISHED).seg == [(0, 0)]
    assert score_clip(human, timeline((0, 7.4), (5, 8)), PUBLISHED).seg == []
    # snapping shrinks as well; one prediction gets both ends
    assert score_clip(timeline((5, 10)), timeline((0, 90)), PUBLISHED).seg == [(0, 0)]
    # [0, 3] would become [50, 3]: it matches nothing and still counts (F1 = 2 * 1 / (2 + 1))
    clip = score_clip(timeline((50, 60)), timeline((0, 3), (50, 58)), PUBLISHED)
    assert (clip.seg, clip.x, clip.seg_f1) == ([(1, 0)], 2, pytest.approx(200 / 3))
    # the greatest end is not the last start: [0, 18] gets the end 20, [2, 9] keeps its own
    assert score_clip(timeline((0, 20)), timeline((2, 9), (0, 13)), PUBLISHED).seg == [(1, 0)]
    # nor is the last human end that of the last human: 14 / 20 becomes 1
    assert score_clip(timeline((0, 20), (2, 9)), timeline((0, 14)), PUBLISHED).seg == [(0, 0)]
    # two share the greatest end: only the first in order is extended, the other would reach 7 / 10 only
    assert score_clip(timeline((0, 10)), timeline((1, 7), (0, 7)), PUBLISHED).seg == [(1, 0)]


def test_seg_finds_the_most_matches_then_the_largest_overlap_then_the_earliest() -> None:
    # IoU h0 = [0, 10]: p0 = [0, 9] 9/10, p1 = [0, 10] 1; h1 = [0, 12]: p1 10/12, p0 exactly 9/12.
    # 2 pairs either way: 9/10 + 10/12 = 1.733 is less than 1 + 9/12 = 1.75. p2 takes the snapped end.
    human, predicted = timeline((0, 10), (0, 12), (30, 40)), timeline((0, 9), (0, 10), (30, 40))
    assert score_clip(human, predicted, PUBLISHED).seg == [(0, 1), (1, 0), (2, 2)]
    # snapped to [5, 9], p1 equals p0 = [5, 9]; the order is that before snapping, where p1 is first
    human, predicted = timeline((5, 9), (20, 30)), timeline((5, 9), (0, 9), (20, 30))
    assert score_clip(human, predicted, PUBLISHED).seg == [(1, 0), (2, 1)]


def test_f1_at_iou_takes_the_highest_overlap_first_and_does_not_snap() -> None:
    # IoU h0-p0 8/10, h0-p1 7/8, h1-p0 1, h1-p1 7/10: h1-p0 first leaves h0-p1, human order would take h0-p0 alone
    human, predicted = timeline((0, 8), (0, 10)), timeline((0, 10), (1, 8))
    assert [f1_at_iou(human, predicted, at) for at in (0.75, 0.875, 0.88, 1.0)] == [2, 2, 1, 1]
    assert f1_at_iou(timeline((0, 10)), timeline((0, 7)), 0.75) == 0
    assert f1_at_iou([Segment(0, 1, flagged=True)], timeline((0, 1)), 0.5) == 0


def test_idle_and_flagged_segments_are_dropped_before_anything_else() -> None:
    human = [Segment(0, 2, is_idle=True), Segment(2, 4), Segment(4, 9, flagged=True)]
    predicted = [Segment(0, 1.9, is_idle=True), Segment(1.9, 3)]
    clip = score_clip(human, predicted, PUBLISHED)
    # snapped to the only human that is left: [2, 4]
    assert (clip.x, clip.y, clip.seg, clip.overlapping) == (1, 1, [(1, 1)], [(1, 1, 1_000_000)])


def test_touching_is_not_overlap() -> None:
    clip = score_clip(timeline((0.1, 0.3)), timeline((0.1 + 0.2, 0.4)), PUBLISHED)
    assert (clip.overlapping, clip.pa, clip.temporal) == ([], [], [])


def test_sets_add_up() -> None:
    def clip(x: int, y: int, b: int, k: int, t: int) -> ClipScore:
        return ClipScore(x, y, [], [], *([(i, i) for i in range(n)] for n in (b, k, t)))

    empty = score_clip([], [Segment(0, 1, is_idle=True)], PUBLISHED)
    assert (empty.boundary_f1, empty.seg_f1, empty.seg_recall) == (None, None, None)
    silent = clip(0, 2, 0, 0, 0)
    assert (silent.boundary_f1, silent.seg_precision, silent.seg_recall) == (0.0, 0.0, 0.0)
    first = add_up([clip(4, 4, 2, 4, 1), clip(3, 1, 1, 0, 1), empty])
    # boundary: (4/8 + 2/4) / 2; temporal: (1 + 0) / 2; seg: 2 * 2 / 12, 2 / 7, 2 / 5; segments: 7 / 3, 5 / 3
    assert first == pytest.approx(
        {
            "clips": 3,
            "undefined_clips": 1,
            "boundary_f1": 50,
            "temporal_f1": 50,
            "seg_f1": 100 / 3,
            "seg_precision": 200 / 7,
            "seg_recall": 40,
            "segments_per_clip": 7 / 3,
            "human_segments_per_clip": 5 / 3,
        }
    )
    second = add_up([clip(1, 1, 1, 1, 0)])
    together = combine([first, second])
    # by clip count, pooled metrics too: (3 * 100/3 + 1 * 0) / 4 is 25, pooling anew would give 2 * 2 / 14
    expected = {"clips": 4, "undefined_clips": 1, "boundary_f1": 62.5, "seg_f1": 25, "segments_per_clip": 2}
    assert {name: together[name] for name in expected} == pytest.approx(expected)
    undefined = add_up([empty])
    assert (undefined["boundary_f1"], undefined["seg_f1"]) == (None, None)
    assert combine([second, undefined])["boundary_f1"] == 100


# --- properties, against oracles that share no code with the reference -----------------------------------------------


def scored(segments: Timeline, *, human: bool) -> list[tuple[int, Segment]]:
    kept = [(s.start_s, s.end_s, i, s) for i, s in enumerate(segments) if not s.is_idle and not (human and s.flagged)]
    return [(i, s) for _, _, i, s in sorted(kept, key=lambda row: row[:3])]


def exact(t: float, per_second: int) -> int:
    return int(Decimal(t * per_second).to_integral_value(ROUND_HALF_EVEN))


def exact_iou(a: tuple[int, int], b: tuple[int, int]) -> Fraction:
    shared = min(a[1], b[1]) - max(a[0], b[0])
    return Fraction(max(shared, 0), max(a[1], b[1]) - min(a[0], b[0]) if shared > 0 else 1)


def boundary_errors(human: Timeline, predicted: Timeline, limits: Settings) -> dict[tuple[int, int], int]:
    """Total error of each admissible (human, predicted) rank."""
    per_second, tolerance = 30, limits.tolerance_frames
    if limits.time_base == "seconds":
        per_second, tolerance = 10**9, exact(limits.tolerance_s, 10**9) + 1
    humans, predictions = (
        [(exact(s.start_s, per_second), exact(s.end_s, per_second)) for _, s in side]
        for side in (scored(human, human=True), scored(predicted, human=False))
    )
    apart = {
        (h, p): (abs(a[0] - b[0]), abs(a[1] - b[1])) for h, a in enumerate(humans) for p, b in enumerate(predictions)
    }
    return {pair: sum(ends) for pair, ends in apart.items() if max(ends) <= tolerance}


def seg_hits(human: Timeline, predicted: Timeline) -> dict[tuple[int, int], Fraction]:
    """IoU of each (human, predicted) rank that reaches 3/4 after snapping."""
    humans = [[exact(s.start_s, 10**6), exact(s.end_s, 10**6)] for _, s in scored(human, human=True)]
    copies = [[exact(s.start_s, 10**6), exact(s.end_s, 10**6)] for _, s in scored(predicted, human=False)]
    if humans and copies:
        ends = [end for _, end in copies]
        last = ends.index(max(ends))
        copies[0][0] = min(start for start, _ in humans)
        copies[last][1] = max(end for _, end in humans)
    ious = {
        (h, p): exact_iou((a[0], a[1]), (b[0], b[1]))
        for h, a in enumerate(humans)
        for p, b in enumerate(copies)
        if b[0] < b[1]
    }
    return {pair: iou for pair, iou in ious.items() if 4 * iou >= 3}


def matchings(pairs: Pairs, taken: Pairs) -> Iterator[Pairs]:
    """Every one-to-one choice among the pairs."""
    yield taken
    for i, (h, p) in enumerate(pairs):
        if all(h != other_h and p != other_p for other_h, other_p in taken):
            yield from matchings(pairs[i + 1 :], [*taken, (h, p)])


def by_position(ranks: Pairs, human: Timeline, predicted: Timeline) -> Pairs:
    humans, predictions = scored(human, human=True), scored(predicted, human=False)
    return sorted((predictions[p][0], humans[h][0]) for h, p in ranks)


@modest
@given(timelines(max_size=5), settings(boundary_matching="optimal"))
def test_optimal_boundary_matching_is_the_best_of_all_matchings(pair: tuple[Timeline, Timeline], at: Settings) -> None:
    errors = boundary_errors(*pair, at)
    best = min(matchings(sorted(errors), []), key=lambda m: (-len(m), sum(errors[hp] for hp in m), m))
    assert score_clip(*pair, at).boundary == by_position(best, *pair)


@modest
@given(timelines(max_size=5))
def test_seg_matching_is_the_best_of_all_matchings(pair: tuple[Timeline, Timeline]) -> None:
    hits = seg_hits(*pair)
    best = min(matchings(sorted(hits), []), key=lambda m: (-len(m), -sum(hits[hp] for hp in m), m))
    assert score_clip(*pair, PUBLISHED).seg == by_position(best, *pair)


@modest
@given(timelines())
def test_without_human_overlaps_seg_counts_the_humans_with_a_hit(pair: tuple[Timeline, Timeline]) -> None:
    human: Timeline = []
    for _, segment in scored(pair[0], human=True):
        if not human or microseconds(segment.start_s) >= microseconds(human[-1].end_s):
            human.append(segment)
    assert len(score_clip(human, pair[1], PUBLISHED).seg) == len({h for h, _ in seg_hits(human, pair[1])})


@modest
@given(timelines(), settings())
def test_every_metric_is_one_to_one_and_blind_to_the_order_of_the_file(
    pair: tuple[Timeline, Timeline], at: Settings
) -> None:
    human, predicted = pair
    shuffled = random.Random(0).sample(human, len(human)), random.Random(1).sample(predicted, len(predicted))
    clip, again = score_clip(human, predicted, at), score_clip(*shuffled, at)
    scored_pairs = {(p, h) for p, _ in scored(predicted, human=False) for h, _ in scored(human, human=True)}

    def times(pairs: Pairs, human: Timeline, predicted: Timeline) -> list[tuple[float, ...]]:
        ends = [(predicted[p], human[h]) for p, h in pairs]
        return sorted((a.start_s, a.end_s, b.start_s, b.end_s) for a, b in ends)

    for metric in ("pa", "boundary", "temporal", "seg"):
        pairs = getattr(clip, metric)
        assert set(pairs) <= scored_pairs
        assert len({p for p, _ in pairs}) == len({h for _, h in pairs}) == len(pairs)
        assert times(pairs, human, predicted) == times(getattr(again, metric), *shuffled)
    assert {(p, h) for p, h in clip.pa + clip.temporal} <= {(p, h) for p, h, _ in clip.overlapping}


@modest
@given(timelines(), settings(boundary_matching="optimal"))
def test_overlaps_and_optimal_boundaries_are_symmetric(pair: tuple[Timeline, Timeline], at: Settings) -> None:
    human, predicted = ([replace(s, flagged=False) for s in side] for side in pair)
    clip, swapped = score_clip(human, predicted, at), score_clip(predicted, human, at)
    assert clip.overlapping == sorted((p, h, us) for h, p, us in swapped.overlapping)
    assert len(clip.boundary) == len(swapped.boundary)
    assert clip.boundary_f1 == swapped.boundary_f1


@modest
@given(timelines())
def test_greedy_rules_leave_no_admissible_pair_unused(pair: tuple[Timeline, Timeline]) -> None:
    human, predicted = pair
    clip = score_clip(human, predicted, PUBLISHED)
    candidates = {
        "pa": [(p, h) for p, h, _ in clip.overlapping],
        "boundary": by_position(list(boundary_errors(human, predicted, PUBLISHED)), human, predicted),
    }
    for metric, admissible in candidates.items():
        pairs = getattr(clip, metric)
        free = [(p, h) for p, h in admissible if all(p != q and h != g for q, g in pairs)]
        assert not free, metric
    assert len(clip.boundary) <= len(score_clip(human, predicted, OPTIMAL).boundary) <= 2 * len(clip.boundary)


@modest
@given(timelines())
def test_a_timeline_matches_itself_completely(pair: tuple[Timeline, Timeline]) -> None:
    human = [segment for _, segment in scored(pair[0], human=True)]
    assume(human)
    clip = score_clip(human, human, PUBLISHED)
    assert (clip.boundary_f1, clip.temporal_f1, f1_at_iou(human, human, 1.0)) == (100, 100, len(human))
    assert score_clip(human, human, PUBLISHED.replace(tolerance_frames=0)).boundary_f1 == 100


def has_iou(*wanted: Fraction) -> Any:
    def among(pair: tuple[Timeline, Timeline]) -> bool:
        sides = (scored(pair[0], human=True), scored(pair[1], human=False))
        spans = [[(exact(s.start_s, 10**6), exact(s.end_s, 10**6)) for _, s in side] for side in sides]
        return {exact_iou(a, b) for a in spans[0] for b in spans[1]} >= set(wanted)

    return among


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(has_iou(Fraction(1, 2), Fraction(3, 4)), id="both thresholds exactly"),
        pytest.param(lambda t: 40 in boundary_errors(*t, PUBLISHED).values(), id="20 frames at both ends"),
        pytest.param(
            lambda t: boundary_errors(*t, PUBLISHED) != boundary_errors(*t, Settings(tolerance_frames=21)),
            id="21 frames",
        ),
        pytest.param(
            lambda t: len(score_clip(*t, PUBLISHED).boundary) < len(score_clip(*t, OPTIMAL).boundary),
            id="greedy is not optimal",
        ),
        pytest.param(
            lambda t: score_clip(*t, PUBLISHED).pa != score_clip(*t, Settings(pa_ties="later_first")).pa,
            id="equal overlaps",
        ),
        pytest.param(lambda t: len(seg_hits(*t)) > 1 + len(score_clip(*t, PUBLISHED).seg), id="seg hits compete"),
        pytest.param(lambda t: bool(t[0]) and not scored(t[0], human=True), id="everything dropped"),
    ],
)
def test_the_strategies_reach_the_hard_cases(case: Any) -> None:
    only = hypothesis_settings(phases=[Phase.generate], derandomize=True, database=None, max_examples=3000)
    find(timelines(), case, settings=only)


# --- figures from outside --------------------------------------------------------------------------------------------


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def segments(row: dict[str, Any]) -> Timeline:
    return [
        Segment(s["start_s"], s["end_s"], s["label"], s["is_idle"], s.get("flagged", False)) for s in row["segments"]
    ]


@pytest.mark.shared_data
@pytest.mark.parametrize("run", ["s_v2prompt", "fast_v3_chunked"])
def test_wgo_figures(shared_data: Path, run: str) -> None:
    predicted = {row["clip_id"]: segments(row) for row in rows(shared_data / "wgo" / "predictions" / f"{run}.jsonl")}
    labels = [row for row in rows(shared_data / "wgo" / "labels.jsonl") if row["clip_id"] in predicted]
    reported = json.loads((shared_data / "wgo" / "reported" / f"{run}.json").read_text(encoding="utf-8"))["scores"]
    for family, figures in reported.items():
        chosen = [row for row in labels if family in ("overall", row["family"])]
        pairs = [(segments(row), predicted[row["clip_id"]]) for row in chosen]
        clips = [score_clip(*pair, PUBLISHED) for pair in pairs]
        x, y = sum(c.x for c in clips), sum(c.y for c in clips)
        assert (len(clips), x, y) == (figures["episodes"], figures["segments_pred"], figures["segments_gold"])
        assert add_up(clips)["seg_f1"] == pytest.approx(100 * figures["f1_wgo"], abs=0.005)
        for threshold, f1 in figures["f1_at_iou"].items():
            matches = sum(f1_at_iou(*pair, float(threshold)) for pair in pairs)
            assert 2 * matches / (x + y) == pytest.approx(f1, abs=5e-5), (family, threshold)
        assert sum(f1_at_iou(*pair, 0.5) for pair in pairs) == figures["segments_matched"]
    overall = {"s_v2prompt": 0.4345, "fast_v3_chunked": 0.2908}
    assert reported["overall"]["f1_wgo"] == overall[run]


def points_f1(reference: list[float], estimated: list[float], tolerance_s: float) -> list[float]:
    """Precision, recall and F of points, as segments of one length."""
    at = Settings(time_base="seconds", tolerance_s=tolerance_s, boundary_matching="optimal")
    clip = score_clip(*([Segment(t, t + 1) for t in side] for side in (reference, estimated)), at)
    matched = len(clip.boundary)
    return [matched / clip.x, matched / clip.y, 2 * matched / (clip.x + clip.y)]


@pytest.mark.shared_data
def test_mir_eval_onsets(shared_data: Path) -> None:
    for case in rows(shared_data / "oracles" / "mir_eval_onset.jsonl"):
        expected = [case["expected"][name] for name in ("Precision", "Recall", "F-measure")]
        assert points_f1(case["ref"], case["est"], case["window_s"]) == pytest.approx(expected), case["id"]


@pytest.mark.shared_data
@pytest.mark.parametrize("tolerance_s", [0.5, 3.0])
def test_mir_eval_segment_boundaries(shared_data: Path, tolerance_s: float) -> None:
    for case in rows(shared_data / "oracles" / "mir_eval_segment.jsonl"):
        last = max(end for _, end, _ in case["ref"])
        reference = {0.0} | {t for start, end, _ in case["ref"] for t in (start, end)}
        estimated = {0.0, last} | {t for start, end, _ in case["est"] for t in (start, end) if t < last}
        expected = [case["expected"][f"{name}@{tolerance_s}"] for name in ("Precision", "Recall", "F-measure")]
        assert points_f1(sorted(reference), sorted(estimated), tolerance_s) == pytest.approx(expected), case["id"]


def largest_matching(pairs: Pairs) -> int:
    """The size of a largest matching, by augmenting paths."""
    neighbours: dict[int, list[int]] = {}
    for h, p in pairs:
        neighbours.setdefault(h, []).append(p)
    owner: dict[int, int] = {}

    def place(h: int, seen: set[int]) -> bool:
        for p in neighbours[h]:
            if p not in seen:
                seen.add(p)
                if p not in owner or place(owner[p], seen):
                    owner[p] = h
                    return True
        return False

    return sum(place(h, set()) for h in neighbours)


@pytest.mark.shared_data
def test_long_overlapping_timelines(shared_data: Path) -> None:
    noise = random.Random(0)
    longest = sorted(rows(shared_data / "epic" / "labels.jsonl"), key=lambda row: -len(row["segments"]))[:3]
    for human in map(segments, longest):
        moved = [(s.start_s + noise.uniform(-0.3, 0.3), s.end_s + noise.uniform(-0.3, 0.3)) for s in human]
        predicted = timeline(*((start, max(end, start + 0.1)) for start, end in moved))
        clip = score_clip(human, predicted, OPTIMAL)
        assert len(clip.boundary) == largest_matching(list(boundary_errors(human, predicted, PUBLISHED)))
        assert len(clip.seg) == largest_matching(list(seg_hits(human, predicted)))
        assert 0.8 * len(human) < len(clip.boundary)
