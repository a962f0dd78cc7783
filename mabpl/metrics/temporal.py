"""Temporal F1 (coarse timing), of MicroAnnotationBench.

Each human segment, in order, is matched to the unused predicted segment with the highest overlap-over-union (IoU), if
that is at least 0.5, inclusive; ties: the earlier prediction. With K matches, X predicted and Y human segments:
Temporal F1 = 2K / (X + Y). Per clip, then the mean over clips. Touching is not overlap; IoU is compared exactly, on
integer microseconds.
"""

from mabpl.metrics.metric import Example, Metric

TEMPORAL_F1 = Metric(
    "temporal_f1", "Temporal F1", "temporal", "k", ("x", "y"), False,
    "humans in order take the best unused IoU >= 0.5; mean over clips", __doc__ or "",
    Example(
        human=((0.0, 4.0), (4.0, 9.0)),
        predicted=((0.0, 2.0), (2.0, 9.0)),
        why="First human: IoU 2/4 = 0.5 with the first prediction, a match (inclusive). Second human: IoU 5/7 with the "
        "second. K = 2.",
    ),
    ("temporal_iou",),
)  # fmt: skip
