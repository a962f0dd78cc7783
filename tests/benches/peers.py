"""The closest library's matcher on the same data: mir_eval, in a loop over the timelines.

`mir_eval.util.match_events(reference, estimated, window, distance)` finds a maximum one-to-one matching between points
whose distance is at most `window`. A segment is given to it as the point (start, end) in frames, and the distance of
two points is the larger of their two errors, so a pair may match when both ends are within 20 frames: the condition of
Boundary F1. mir_eval takes as many pairs as possible, whereas Boundary F1 takes the closest pair first: its number of
matches equals ours under `boundary_matching="optimal"`, and is at least that of the published, greedy rule.

What is timed is matching alone: the arrays stand ready, one pair of them for each timeline.
"""

from __future__ import annotations

import mir_eval.util
import numpy as np
from numpy.typing import NDArray
from plain import TOLERANCE_FRAMES, Segment

Points = NDArray[np.int64]
"""Shape (segments, 2): start and end in frames."""


def points(prepared: list[Segment]) -> Points:
    return np.array([(s["start_tick"], s["end_tick"]) for s in prepared], dtype=np.int64).reshape(-1, 2)


def larger_error(human: Points, predicted: Points) -> NDArray[np.int64]:
    """Shape (humans, predicted)."""
    start_error = np.abs(np.subtract.outer(human[:, 0], predicted[:, 0]))
    end_error = np.abs(np.subtract.outer(human[:, 1], predicted[:, 1]))
    return np.maximum(start_error, end_error)


def boundary_counts(timelines: list[tuple[Points, Points]]) -> list[int]:
    """The number of matches of each (predicted, human)."""
    return [
        len(mir_eval.util.match_events(human, predicted, TOLERANCE_FRAMES, distance=larger_error))
        for predicted, human in timelines
    ]
