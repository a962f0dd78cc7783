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
    matching (greedy or optimal), the other order of ties in the PA assignment. Matchings do not depend on each other,
    so that one pass takes a probe of each.
    """
    other = "greedy" if settings.boundary_matching == "optimal" else "optimal"
    ties = "earlier_first" if settings.pa_ties == "later_first" else "later_first"
    passes = [
        (
            _moved(settings, -1, pa_ties=ties),
            {
                "boundary": "tolerance -1 frame",
                "temporal": "threshold -1e-9",
                "seg": "threshold -1e-9",
                "pa": f"ties {ties.replace('_', ' ')}",
            },
        ),
        (
            _moved(settings, +1),
            {"boundary": "tolerance +1 frame", "temporal": "threshold +1e-9", "seg": "threshold +1e-9"},
        ),
        (settings.replace(boundary_matching=other), {"boundary": f"{other} matching"}),
    ]
    key = matched.timelines.predicted.key
    offset = matched.timelines.predicted.offset
    frames = []
    for changed, probes in passes:
        rematched = match(matched.timelines, changed, probes)
        for metric, probe in probes.items():
            before, after = matched.rank[metric], rematched.rank[metric]
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


def _moved(settings: Settings, way: int, **further: str) -> Settings:
    """A frame and 1e-9 of IoU less (``way`` -1) or more (+1)."""
    tolerance: dict[str, float] = (
        {"tolerance_s": max(settings.tolerance_s + way * _FRAME_S, 0.0)}
        if settings.time_base == "seconds"
        else {"tolerance_frames": max(settings.tolerance_frames + way, 0)}
    )
    by = 2 * SLACK if way > 0 else -SLACK
    ious = {name: min(max(getattr(settings, name) + by, SLACK), 1.0) for name in ("temporal_iou", "seg_iou")}
    return settings.replace(**tolerance, **ious, **further)
