"""The metrics: one file a family, each with its definition; `matches` runs the kernels, `summary` adds up."""

from mabpl.metrics.boundary import BOUNDARY_F1
from mabpl.metrics.label_quality import PA_F1, PRECISION, RECALL, STRICT_PA_F1
from mabpl.metrics.metric import Metric
from mabpl.metrics.segmentation import (
    JOINT_F1,
    JOINT_PRECISION,
    JOINT_RECALL,
    SEG_F1,
    SEG_PRECISION,
    SEG_RECALL,
    segment_f1,
)
from mabpl.metrics.temporal import TEMPORAL_F1

METRICS: dict[str, Metric] = {
    m.name: m
    for m in (
        PA_F1,
        STRICT_PA_F1,
        PRECISION,
        RECALL,
        BOUNDARY_F1,
        TEMPORAL_F1,
        SEG_F1,
        SEG_PRECISION,
        SEG_RECALL,
        JOINT_F1,
        JOINT_PRECISION,
        JOINT_RECALL,
    )
}

HEADLINE_WEIGHTS = {"pa_f1": 0.5, "boundary_f1": 0.25, "temporal_f1": 0.25}
"""Half for what happened, half for when."""

__all__ = ["HEADLINE_WEIGHTS", "METRICS", "Metric", "segment_f1"]
