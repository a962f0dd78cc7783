"""The flip audit: each probe changes one thing alone."""

from __future__ import annotations

from typing import Any

import made
import pytest

from mabpl import timelines
from mabpl.metrics import audit, matches
from mabpl.settings import Settings

LATER_S = Settings().tolerance_s + 1 / 30
PROBES: list[tuple[str, str, Settings, dict[str, Any]]] = [
    ("boundary", "tolerance -1 frame", Settings(tolerance_frames=21), {"tolerance_frames": 20}),
    ("boundary", "tolerance +1 frame", Settings(), {"tolerance_frames": 21}),
    ("boundary", "tolerance +1 frame", Settings(time_base="seconds"), {"tolerance_s": LATER_S}),
    ("boundary", "optimal matching", Settings(tolerance_frames=400), {"boundary_matching": "optimal"}),
    (
        "boundary", "greedy matching",
        Settings(tolerance_frames=400, boundary_matching="optimal"), {"boundary_matching": "greedy"},
    ),
    ("temporal", "threshold -1e-9", Settings(temporal_iou=0.5 + 1.5e-9), {"temporal_iou": 0.5 + 0.5e-9}),
    ("temporal", "threshold +1e-9", Settings(), {"temporal_iou": 0.5 + 2e-9}),
    ("seg", "threshold -1e-9", Settings(seg_iou=0.75 + 1.5e-9), {"seg_iou": 0.75 + 0.5e-9}),
    ("seg", "threshold +1e-9", Settings(), {"seg_iou": 0.75 + 2e-9}),
    ("pa", "ties later first", Settings(pa_ties="earlier_first"), {"pa_ties": "later_first"}),
    ("pa", "ties earlier first", Settings(pa_ties="later_first"), {"pa_ties": "earlier_first"}),
]  # fmt: skip


@pytest.mark.parametrize(("metric", "probe", "settings", "change"), PROBES)
def test_a_probe_is_the_matching_with_one_thing_changed(
    metric: str, probe: str, settings: Settings, change: dict[str, Any]
) -> None:
    human, predicted = made.tables({"first": 60})
    lines = timelines.build(None, human, None, predicted)
    before = matches.match(lines, settings)
    after = matches.match(lines, settings.replace(**change), [metric]).rank[metric]
    differs = before.rank[metric] != after
    told = audit.flip_audit(before, settings).filter(metric=metric, probe=probe)
    assert differs.any()
    assert told["lost"].sum() == (differs & (before.rank[metric] >= 0)).sum()
    assert told["gained"].sum() == (differs & (after >= 0)).sum()
    assert told["matches"].sum() == before.counts(metric).sum()
