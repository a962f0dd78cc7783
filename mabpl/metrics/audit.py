"""The flip audit: how much of a result hangs on the edge of a tolerance, a threshold or a tie.

Every probe matches again with one thing changed and counts the matched pairs that go and come.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from mabpl.metrics.matches import SLACK, Matched, match, sums_per_timeline
from mabpl.settings import Settings

_FRAME_S = 1 / 30


def flip_audit(matched: Matched, settings: Settings) -> pl.DataFrame:
    """One row per run, set and probe: run, set, metric, probe, matches, lost, gained, clips (that differ).

    Probes: the boundary tolerance at -1 and +1 frame, the IoU thresholds at -1e-9 and +1e-9, the other boundary
    matching (greedy or optimal), the other order of ties in the PA assignment.
    """
    other = "greedy" if settings.boundary_matching == "optimal" else "optimal"
    ties = "earlier_first" if settings.pa_ties == "later_first" else "later_first"
    probes: list[tuple[str, str, Settings]] = [
        ("boundary", "tolerance -1 frame", _tolerance(settings, -1)),
        ("boundary", "tolerance +1 frame", _tolerance(settings, +1)),
        ("boundary", f"{other} matching", settings.replace(boundary_matching=other)),
        ("temporal", "threshold -1e-9", settings.replace(temporal_iou=max(settings.temporal_iou - SLACK, SLACK))),
        ("temporal", "threshold +1e-9", settings.replace(temporal_iou=min(settings.temporal_iou + 2 * SLACK, 1.0))),
        ("seg", "threshold -1e-9", settings.replace(seg_iou=max(settings.seg_iou - SLACK, SLACK))),
        ("seg", "threshold +1e-9", settings.replace(seg_iou=min(settings.seg_iou + 2 * SLACK, 1.0))),
        ("pa", f"ties {ties.replace('_', ' ')}", settings.replace(pa_ties=ties)),
    ]
    key = matched.timelines.predicted.key
    frames = []
    for metric, probe, changed in probes:
        before = matched.rank[metric]
        after = match(matched.timelines, changed, [metric]).rank[metric]
        offset = matched.timelines.predicted.offset
        differs = before != after
        lost = sums_per_timeline(differs & (before >= 0), offset)
        gained = sums_per_timeline(differs & (after >= 0), offset)
        frames.append(
            key.select("run", "set").with_columns(
                pl.lit(metric).alias("metric"),
                pl.lit(probe).alias("probe"),
                pl.Series("matches", matched.counts(metric)),
                pl.Series("lost", lost),
                pl.Series("gained", gained),
                pl.Series("clips", np.sign(lost + gained)),
            )
        )
    sums = pl.col("matches", "lost", "gained", "clips").sum()
    return pl.concat(frames).group_by("run", "set", "metric", "probe").agg(sums).sort("run", "set", "metric", "probe")


def _tolerance(settings: Settings, frames: int) -> Settings:
    if settings.time_base == "seconds":
        return settings.replace(tolerance_s=max(settings.tolerance_s + frames * _FRAME_S, 0.0))
    return settings.replace(tolerance_frames=max(settings.tolerance_frames + frames, 0))
