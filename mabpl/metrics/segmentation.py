"""Segmentation F1@0.75 and Joint semantic F1@0.75 (strict timing, the WGO-Bench definition in MicroAnnotationBench).

On a copy, the first predicted start is set to the first human start and the last predicted end to the last human end
(in either direction; a segment that this empties stays in X and matches nothing). Predicted and human segments are
matched one-to-one at IoU >= 0.75, inclusive, with the largest possible number of matches; among those the largest
total IoU; among those the lexicographically first list of (human, predicted). With T matches summed over the clips of
a set: Seg F1 = 2T / (sum of X + sum of Y). A match counts for Joint F1 only when the label judge also accepts the
predicted label: Joint F1 = 2J / (sum of X + sum of Y), never higher than Seg F1. Counts are pooled inside a set; two
sets together are weighted by their numbers of clips.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mabpl.metrics.metric import Example, Metric

if TYPE_CHECKING:
    import polars as pl

    from mabpl.timelines import Timelines

_SEG = "ends snapped, one-to-one, most pairs with IoU >= 0.75; counts pooled over the clips of a set"
_JOINT = "Seg F1 matches whose label the joint judge accepts; counts pooled over the clips of a set"
_OPTIONS = ("seg_iou",)

SEG_F1 = Metric(
    "seg_f1", "Seg F1@0.75", "seg", "t", ("x", "y"), True, _SEG, __doc__ or "",
    Example(
        human=((0.5, 4.0), (4.0, 9.0)),
        predicted=((0.0, 3.0), (3.0, 8.0)),
        why="Snapped, the predictions are [0.5, 3.0] and [3.0, 9.0]. IoU: 2.5 / 3.5 = 0.714, too low; 5 / 6 = 0.833, a "
        "match. T = 1.",
    ),
    _OPTIONS,
)  # fmt: skip
SEG_PRECISION = Metric("seg_precision", "Seg precision", "seg", "t", ("x",), True, _SEG, __doc__ or "", None, _OPTIONS)
SEG_RECALL = Metric("seg_recall", "Seg recall", "seg", "t", ("y",), True, _SEG, __doc__ or "", None, _OPTIONS)
JOINT_F1 = Metric("joint_f1", "Joint F1@0.75", "seg", "j", ("x", "y"), True, _JOINT, __doc__ or "", None, _OPTIONS)
JOINT_PRECISION = Metric(
    "joint_precision", "Joint precision", "seg", "j", ("x",), True, _JOINT, __doc__ or "", None, _OPTIONS
)
JOINT_RECALL = Metric("joint_recall", "Joint recall", "seg", "j", ("y",), True, _JOINT, __doc__ or "", None, _OPTIONS)


def segment_f1(timelines: Timelines, thresholds: Sequence[float] = (0.1, 0.25, 0.5, 0.75)) -> pl.DataFrame:
    """Segment F1 at any IoU: greedy one-to-one by descending IoU (ties: earlier human, then earlier prediction).

    Nothing is snapped. One row per run, set, clip and threshold (inclusive): run, set, clip_id, iou, x, y, matched.
    Pool it with ``2 * sum(matched) / (sum(x) + sum(y))``.
    """
    import polars as pl

    from mabpl.metrics.matches import match_at_iou

    predicted = timelines.predicted
    frames = [
        predicted.key.with_columns(
            pl.lit(float(threshold)).alias("iou"),
            pl.Series("x", predicted.count),
            pl.Series("y", timelines.human.count[timelines.clip]),
            pl.Series("matched", match_at_iou(timelines, threshold)),
        )
        for threshold in thresholds
    ]
    return pl.concat(frames).sort("run", "set", "clip_id", "iou")
