"""The label-free metrics in plain loops: the executable definition that the fast kernels are held to.

The definitions are those of MicroAnnotationBench ("How the scoring works"); what it leaves open is decided here as the
docstrings say. Nothing is optimised, and no verdict hangs on float noise: boundaries are compared on an integer grid,
overlaps are integers (microseconds), and ratios of overlaps are compared as fractions.

Human idle, human flagged and predicted idle segments are dropped first. What is left (Y human, X predicted) is read in
timeline order: by (start, end, position in the given list). "Earlier" always means earlier in that order, and a *rank*
is an index into it. Results name segments by their position in the given list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import fmean
from typing import Any

from mabpl.settings import Settings

FRAME_RATE = 30
"""Frames per second of the grid on which boundaries are compared (not of a clip's video)."""

EXACT_THRESHOLDS = (0.5, 0.75)
IOU_SLACK = 1e-9

Pair = tuple[int, int]
Span = tuple[int, int]
"""Start and end in microseconds."""
Number = int | Fraction


@dataclass(frozen=True)
class Segment:
    """One segment of a timeline; times in seconds from the start of the clip. Predictions are never flagged."""

    start_s: float
    end_s: float
    label: str = ""
    is_idle: bool = False
    flagged: bool = False


@dataclass(frozen=True)
class ClipScore:
    """One clip, scored. Pairs are (predicted position, human position), sorted; every metric is one-to-one.

    ``x`` and ``y`` count the scored predicted and human segments. ``overlapping`` holds (predicted, human, overlap in
    microseconds) of every pair that shares time. Metrics are in percent; with one side empty they are 0, with both
    empty they are undefined: None.
    """

    x: int
    y: int
    overlapping: list[tuple[int, int, int]]
    pa: list[Pair]
    boundary: list[Pair]
    temporal: list[Pair]
    seg: list[Pair]

    @property
    def boundary_f1(self) -> float | None:
        return percent(2 * len(self.boundary), self.x + self.y)

    @property
    def temporal_f1(self) -> float | None:
        return percent(2 * len(self.temporal), self.x + self.y)

    @property
    def seg_f1(self) -> float | None:
        return percent(2 * len(self.seg), self.x + self.y)

    @property
    def seg_precision(self) -> float | None:
        return percent(len(self.seg), self.x, defined=self.x + self.y > 0)

    @property
    def seg_recall(self) -> float | None:
        return percent(len(self.seg), self.y, defined=self.x + self.y > 0)


def percent(part: int, whole: int, *, defined: bool = False) -> float | None:
    """``part`` of ``whole``; of an empty whole it is 0 where ``defined`` (the other side has segments), else None."""
    if whole == 0:
        return 0.0 if defined else None
    return 100 * part / whole


def tick(t: float) -> int:
    """The frame of ``t`` seconds on the 30 fps grid: the float64 product, rounded half to even."""
    return round(t * FRAME_RATE)


def microseconds(t: float) -> int:
    return round(t * 1e6)


def nanoseconds(t: float) -> int:
    return round(t * 1e9)


def span(segment: Segment) -> Span:
    return microseconds(segment.start_s), microseconds(segment.end_s)


def overlap(a: Span, b: Span) -> int:
    """Shared time in microseconds; spans that only touch share none, and neither does an empty or inverted one."""
    return max(0, min(a[1], b[1]) - max(a[0], b[0]))


def union(a: Span, b: Span) -> int:
    return (a[1] - a[0]) + (b[1] - b[0]) - overlap(a, b)


def iou(a: Span, b: Span) -> Fraction:
    """Overlap over union, exact; 0 where nothing is shared."""
    shared = overlap(a, b)
    return Fraction(shared, union(a, b)) if shared else Fraction(0)


def reaches(a: Span, b: Span, threshold: float) -> bool:
    """Whether the IoU is at least ``threshold``, inclusive: exact for 1/2 and 3/4, with a slack of 1e-9 for any other
    (1/3 has no exact float). Spans that share no time never reach it."""
    limit = threshold if threshold in EXACT_THRESHOLDS else threshold - IOU_SLACK
    shared = overlap(a, b)
    return shared > 0 and shared >= limit * union(a, b)


def in_order(segments: Sequence[Segment], *, human: bool) -> list[int]:
    """Positions of the segments that are scored, in timeline order."""
    kept = [i for i, s in enumerate(segments) if not (s.is_idle or (human and s.flagged))]
    return sorted(kept, key=lambda i: (segments[i].start_s, segments[i].end_s, i))


def score_clip(human: Sequence[Segment], predicted: Sequence[Segment], settings: Settings) -> ClipScore:
    """Every label-free metric of one clip, and the PA assignment."""
    human_order, predicted_order = in_order(human, human=True), in_order(predicted, human=False)
    humans, predictions = [human[i] for i in human_order], [predicted[i] for i in predicted_order]
    human_spans, predicted_spans = [span(s) for s in humans], [span(s) for s in predictions]

    def positions(ranks: Iterable[Pair]) -> list[Pair]:
        return sorted((predicted_order[p], human_order[h]) for h, p in ranks)

    overlaps = overlapping_pairs(human_spans, predicted_spans)
    return ClipScore(
        x=len(predictions),
        y=len(humans),
        overlapping=sorted((predicted_order[p], human_order[h], us) for (h, p), us in overlaps.items()),
        pa=positions(assign(overlaps, later_first=settings.pa_ties == "later_first")),
        boundary=positions(match_boundaries(humans, predictions, settings)),
        temporal=positions(match_temporal(human_spans, predicted_spans, settings.temporal_iou)),
        seg=positions(match_seg(human_spans, predicted_spans, settings.seg_iou)),
    )


def overlapping_pairs(humans: Sequence[Span], predictions: Sequence[Span]) -> dict[Pair, int]:
    """The overlap of each (human rank, predicted rank) that shares time."""
    shared = {(h, p): overlap(a, b) for h, a in enumerate(humans) for p, b in enumerate(predictions)}
    return {pair: us for pair, us in shared.items() if us > 0}


def assign(overlaps: Mapping[Pair, int], *, later_first: bool) -> list[Pair]:
    """The PA assignment: largest overlap first; of equal ones the earlier human, then the earlier prediction (or, with
    ``later_first``, the later human, then the later prediction). It never looks at verdicts."""
    sign = -1 if later_first else 1
    return greedy(overlaps, lambda h, p: (-overlaps[h, p], sign * h, sign * p))


def match_boundaries(humans: Sequence[Segment], predictions: Sequence[Segment], settings: Settings) -> list[Pair]:
    """Boundary F1: pairs whose start and end are both within the tolerance, whether or not they overlap.

    ``greedy``: smallest |start error| + |end error| first; of equal ones the earlier human, then the earlier
    prediction. ``optimal``: the most pairs, then the least total error, then the first list of (human, predicted).
    Errors are whole frames, or whole nanoseconds with a slack of 1 ns.
    """
    grid: Callable[[float], int] = tick
    tolerance = settings.tolerance_frames
    if settings.time_base == "seconds":
        grid, tolerance = nanoseconds, nanoseconds(settings.tolerance_s) + 1
    errors: dict[Pair, int] = {}
    for h, a in enumerate(humans):
        for p, b in enumerate(predictions):
            start_error = abs(grid(a.start_s) - grid(b.start_s))
            end_error = abs(grid(a.end_s) - grid(b.end_s))
            if start_error <= tolerance and end_error <= tolerance:
                errors[h, p] = start_error + end_error
    if settings.boundary_matching == "optimal":
        return most_then_cheapest(errors)
    return greedy(errors, lambda h, p: (errors[h, p], h, p))


def match_temporal(humans: Sequence[Span], predictions: Sequence[Span], threshold: float) -> list[Pair]:
    """Temporal F1: each human in order takes the unused prediction of highest IoU, the earlier of equal ones, if that
    IoU reaches the threshold."""
    unused = set(range(len(predictions)))
    matches = []
    for h, a in enumerate(humans):
        good = [p for p in unused if reaches(a, predictions[p], threshold)]
        if good:
            best = min(good, key=lambda p: (-iou(a, predictions[p]), p))
            unused.remove(best)
            matches.append((h, best))
    return matches


def match_seg(humans: Sequence[Span], predictions: Sequence[Span], threshold: float) -> list[Pair]:
    """Seg F1: after :func:`snap`, the most pairs whose IoU reaches the threshold, then the largest total IoU, then the
    first list of (human, predicted) by the order before snapping."""
    snapped = snap(humans, predictions)
    return most_then_cheapest(
        {(h, p): -iou(a, b) for h, a in enumerate(humans) for p, b in enumerate(snapped) if reaches(a, b, threshold)}
    )


def snap(humans: Sequence[Span], predictions: Sequence[Span]) -> list[Span]:
    """A copy in which the first prediction starts where the first human does, and the prediction of greatest end (the
    earliest such) ends where the last human end is. Either may grow or shrink, one prediction may get both, and one
    that turns empty or inverted stays, to match nothing. Without humans there is nothing to snap to."""
    snapped = list(predictions)
    if humans and snapped:
        last = max(range(len(snapped)), key=lambda p: (snapped[p][1], -p))
        snapped[0] = (humans[0][0], snapped[0][1])
        snapped[last] = (snapped[last][0], max(end for _, end in humans))
    return snapped


def greedy(candidates: Iterable[Pair], key: Callable[[int, int], tuple[Any, ...]]) -> list[Pair]:
    """Takes the candidates by ascending ``key(human, predicted)``, each one whose two segments are both still free."""
    taken_humans: set[int] = set()
    taken_predictions: set[int] = set()
    matches = []
    for h, p in sorted(candidates, key=lambda pair: key(*pair)):
        if h not in taken_humans and p not in taken_predictions:
            taken_humans.add(h)
            taken_predictions.add(p)
            matches.append((h, p))
    return matches


def most_then_cheapest(costs: Mapping[Pair, Number]) -> list[Pair]:
    """The one-to-one matching with the most pairs, then the least total cost, then the first sorted list of pairs.

    Human after human, every way of matching so far is kept but for those that cannot win: two ways that leave the same
    predictions to the later humans have the same futures, and only the better of them is followed. Work is
    exponential in the number of predictions that are open at the same time, which is small in a timeline.
    """
    choices: dict[int, list[int]] = {}
    last_human: dict[int, int] = {}
    for h, p in sorted(costs):
        choices.setdefault(h, []).append(p)
        last_human[p] = h

    decided: list[Pair] = []
    nothing: tuple[int, Number, tuple[Pair, ...]] = (0, 0, ())  # minus the number of pairs, their cost, the pairs
    ways = {frozenset[int](): nothing}  # by the used predictions that a later human could still want
    for h, wanted in choices.items():
        longer: dict[frozenset[int], tuple[int, Number, tuple[Pair, ...]]] = {}
        for used, (fewer, cost, pairs) in ways.items():
            options = [(used, (fewer, cost, pairs))]
            options += [
                (used | {p}, (fewer - 1, cost + costs[h, p], (*pairs, (h, p)))) for p in wanted if p not in used
            ]
            for now_used, way in options:
                still_open = frozenset(p for p in now_used if last_human[p] > h)
                longer[still_open] = min(way, longer.get(still_open, way))
        ways = longer
        if len(ways) == 1:  # nothing open: what is won cannot change any more, and the fractions stay short
            decided += ways[frozenset()][2]
            ways = {frozenset(): nothing}
    return decided


def f1_at_iou(human: Sequence[Segment], predicted: Sequence[Segment], threshold: float) -> int:
    """Matches at any IoU threshold (inclusive), without snapping: highest IoU first; of equal ones the earlier human,
    then the earlier prediction. F1 is twice the matches over X + Y."""
    humans = [span(human[i]) for i in in_order(human, human=True)]
    predictions = [span(predicted[i]) for i in in_order(predicted, human=False)]
    hits = {
        (h, p): iou(a, b) for h, a in enumerate(humans) for p, b in enumerate(predictions) if reaches(a, b, threshold)
    }
    return len(greedy(hits, lambda h, p: (-hits[h, p], h, p)))


def add_up(clips: Sequence[ClipScore]) -> dict[str, float | None]:
    """A set's values, metrics in percent.

    Boundary F1 and Temporal F1 are the mean of the clips' values, undefined clips left out; Seg F1, precision and
    recall come from counts that are pooled over the set; segments per clip are means over all clips.
    """
    x, y = sum(c.x for c in clips), sum(c.y for c in clips)
    t = sum(len(c.seg) for c in clips)
    return {
        "clips": len(clips),
        "undefined_clips": sum(c.x + c.y == 0 for c in clips),
        "boundary_f1": mean((c.boundary_f1, 1) for c in clips),
        "temporal_f1": mean((c.temporal_f1, 1) for c in clips),
        "seg_f1": percent(2 * t, x + y),
        "seg_precision": percent(t, x, defined=x + y > 0),
        "seg_recall": percent(t, y, defined=x + y > 0),
        "segments_per_clip": mean((c.x, 1) for c in clips),
        "human_segments_per_clip": mean((c.y, 1) for c in clips),
    }


def combine(sets: Sequence[Mapping[str, float | None]]) -> dict[str, float | None]:
    """Several sets together: every value of :func:`add_up`, pooled ones too, weighted by the sets' numbers of clips and
    not rounded before; clips are summed. A set in which a metric is undefined has no part in it."""
    counts = ("clips", "undefined_clips")
    together: dict[str, float | None] = {name: sum(s[name] or 0 for s in sets) for name in counts}
    for name in sets[0]:
        if name not in counts:
            together[name] = mean((s[name], s["clips"] or 0) for s in sets)
    return together


def mean(weighted: Iterable[tuple[float | None, float]]) -> float | None:
    """Mean of the (value, weight) pairs that have a value; None where none has."""
    known = [(value, weight) for value, weight in weighted if value is not None]
    return fmean([value for value, _ in known], [weight for _, weight in known]) if known else None
