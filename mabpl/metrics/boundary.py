"""Boundary F1 (strict timing), of MicroAnnotationBench.

A predicted segment matches a human one only when both its start and its end are within 20 frames of the 30 fps grid
(0.667 s), inclusive. One-to-one, greedily by the smallest total boundary error |start error| + |end error|; ties: the
earlier human segment, then the earlier prediction. With B matches, X predicted and Y human segments:
Boundary F1 = 2B / (X + Y). Per clip, then the mean over clips.

Times are put on the grid as round-half-to-even(seconds * 30), because label times are frames printed to three decimals.
A pair can match without overlapping, when segments are short.
"""

from mabpl.metrics.metric import Example, Metric

BOUNDARY_F1 = Metric(
    "boundary_f1", "Boundary F1", "boundary", "b", ("x", "y"), False,
    "both ends within 20 frames, one-to-one, smallest total error first; mean over clips", __doc__ or "",
    Example(
        human=((0.0, 4.0), (4.0, 9.0)),
        predicted=((0.0, 4.667), (4.7, 9.0)),
        why="First pair: 0 and 20 frames off, a match. Second pair: the start is 21 frames off, no match. B = 1.",
    ),
    ("time_base", "tolerance_frames", "tolerance_s", "boundary_matching"),
)  # fmt: skip
