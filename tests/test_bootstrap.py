"""The clip bootstrap, against a slow plain-Python one with the same draws, and what an interval has to do."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mabpl.metrics import METRICS
from mabpl.metrics.paired import paired_differences
from mabpl.metrics.summary import COUNTS, clip_values, summarise
from mabpl.stats import bootstrap
from mabpl.tables.schemas import CLIP_SCORES

REPLICATES = 200


def clip_scores(rows: list[dict[str, Any]], run: str = "r", set_name: str = "s") -> pl.DataFrame:
    keyed = [{"run": run, "set": set_name, "clip_id": f"c{i:03}"} | row for i, row in enumerate(rows)]
    schema = {name: dtype for name, dtype in CLIP_SCORES.schema.items() if name in {*COUNTS, "run", "set", "clip_id"}}
    return CLIP_SCORES.conform(clip_values(pl.DataFrame(keyed, schema=schema)))


def draws(clips: int) -> list[list[int]]:
    return np.random.default_rng([bootstrap.SEED, clips]).integers(0, clips, size=(REPLICATES, clips)).tolist()


def quantile(values: list[float], share: float) -> float:
    """Linear interpolation between the sorted values."""
    ordered = sorted(values)
    at = share * (len(ordered) - 1)
    low = math.floor(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (at - low) * (ordered[high] - ordered[low])


def mean(values: list[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return sum(known) / len(known) if known else None


def slow(rows: list[dict[str, Any]], name: str) -> tuple[float | None, float | None]:
    """The interval of one metric, clip by clip and draw by draw; none where every draw is the same clip."""
    clips = clip_scores(rows).to_dicts()
    metric = METRICS[name]
    if len(clips) == 1:
        return None, None
    values = []
    for drawn in draws(len(clips)):
        sample = [clips[i] for i in drawn]
        if metric.pooled:
            below = sum(clip[part] for clip in sample for part in metric.denominator)
            value = 100 * metric.factor * sum(clip[metric.numerator] for clip in sample) / below if below else None
        else:
            value = mean([clip[name] for clip in sample])
        if value is not None:
            values.append(value)
    return (quantile(values, 0.025), quantile(values, 0.975)) if values else (None, None)


@st.composite
def counted(draw: st.DrawFn) -> dict[str, Any]:
    x, y = draw(st.integers(0, 6)), draw(st.integers(0, 6))
    most = st.integers(0, min(x, y))
    return {"x": x, "y": y, "b": draw(most), "k": draw(most), "t": draw(most), "credit": float(draw(most))}


@settings(max_examples=25, deadline=None)
@given(st.lists(counted(), min_size=1, max_size=7))
def test_intervals_are_those_of_a_plain_bootstrap_with_the_same_draws(rows: list[dict[str, Any]]) -> None:
    summary = summarise(clip_scores(rows), ci=0.95, replicates=REPLICATES).row(0, named=True)
    for name in ("boundary_f1", "temporal_f1", "seg_f1", "seg_precision", "pa_f1", "recall"):
        assert summary[name] is not None or summary[f"{name}_low"] is None
        assert (summary[f"{name}_low"], summary[f"{name}_high"]) == (
            tuple(None if v is None else pytest.approx(v, abs=1e-9) for v in slow(rows, name))
        ), name
    assert summary["joint_f1_low"] is None


def test_each_draw_takes_as_many_clips_as_there_are_and_is_seeded() -> None:
    weights = bootstrap.clip_weights(5, 50)
    assert weights.shape == (50, 5)
    assert (weights.sum(axis=1) == 5).all()
    assert weights.tolist() == [[float(drawn.count(i)) for i in range(5)] for drawn in draws(5)[:50]]


def test_the_interval_of_a_constant_is_the_constant() -> None:
    row = {"x": 4, "y": 4, "b": 2, "k": 3, "t": 1}
    summary = summarise(clip_scores([row] * 9), ci=0.9).row(0, named=True)
    assert (summary["boundary_f1_low"], summary["boundary_f1"], summary["boundary_f1_high"]) == (50.0, 50.0, 50.0)
    assert (summary["seg_f1_low"], summary["seg_f1_high"]) == (25.0, 25.0)


def test_draws_without_anything_to_divide_by_are_left_out() -> None:
    replicates = np.array([[1.0, np.nan], [3.0, np.nan], [np.nan, np.nan]])
    low, high = bootstrap.percentile_interval(replicates, 0.5)
    assert (low[0], high[0]) == (1.5, 2.5)
    assert np.isnan([low[1], high[1]]).all()


def test_intervals_cover_the_truth_about_as_often_as_they_say() -> None:
    draw = np.random.default_rng(5)
    samples = draw.normal(40, 10, size=(30, 400))  # 400 samples of 30 clips, true mean 40
    weights = bootstrap.clip_weights(30, 1000)
    low, high = bootstrap.percentile_interval(bootstrap.ratio_of_sums(weights, samples, np.ones_like(samples)), 0.9)
    covered = float(((low <= 40) & (high >= 40)).mean())
    assert 0.83 < covered < 0.94
    assert (high - low).mean() == pytest.approx(2 * 1.645 * 10 / math.sqrt(30), rel=0.1)


# --- pairs of runs ---

FIRST = [
    {"x": 4, "y": 4, "b": 2, "k": 4, "t": 2, "credit": 3.0},
    {"x": 2, "y": 6, "b": 2, "k": 2, "t": 1, "credit": 1.0},
    {"x": 0, "y": 5, "b": 0, "k": 0, "t": 0, "credit": 0.0},
]
SECOND = [
    {"x": 4, "y": 4, "b": 1, "k": 4, "t": 4, "credit": 1.0},
    {"x": 6, "y": 6, "b": 0, "k": 3, "t": 0, "credit": None},
    {"x": 5, "y": 5, "b": 0, "k": 0, "t": 5, "credit": 0.0},
]


def differences(first: list[dict[str, Any]], second: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    frame = paired_differences(clip_scores(first, "a"), clip_scores(second, "b"), replicates=REPLICATES)
    return {row["metric"]: row for row in frame.to_dicts()}


def test_paired_differences_by_hand() -> None:
    found = differences(FIRST, SECOND)
    boundary = found["boundary_f1"]  # 50, 50, 0 against 25, 0, 0
    assert (boundary["clips"], boundary["first"], boundary["second"]) == (
        3,
        pytest.approx(100 / 3),
        pytest.approx(25 / 3),
    )
    assert boundary["difference"] == pytest.approx(25)
    seg = found["seg_f1"]  # pooled: 2 * 3 / 21 against 2 * 9 / 30
    assert (seg["first"], seg["second"]) == (pytest.approx(600 / 21), pytest.approx(1800 / 30))
    pa = found["pa_f1"]  # the second clip has no value in the second run: out on both sides
    assert (pa["clips"], pa["first"], pa["second"]) == (2, pytest.approx(75 / 2), pytest.approx(25 / 2))
    assert (found["x"]["first"], found["x"]["second"], found["x"]["difference"]) == (2.0, 5.0, -3.0)
    assert (found["headline"]["clips"], found["joint_f1"]["difference"]) == (2, None)


def test_the_paired_interval_moves_both_runs_with_the_same_clips() -> None:
    found = differences(FIRST, SECOND)["boundary_f1"]
    per_clip = [25.0, 50.0, 0.0]
    means = [sum(per_clip[i] for i in drawn) / 3 for drawn in draws(3)]
    assert found["low"] == pytest.approx(quantile(means, 0.025))
    assert found["high"] == pytest.approx(quantile(means, 0.975))


def test_a_run_against_itself_has_no_width() -> None:
    for row in differences(SECOND, SECOND).values():
        assert {row["difference"], row["low"], row["high"]} <= {0.0, None}


def test_only_clips_of_both_runs_count_whatever_their_order() -> None:
    first, second = clip_scores(FIRST, "a"), clip_scores(SECOND, "b")
    fewer = paired_differences(first.reverse(), second.head(2), replicates=REPLICATES)
    assert fewer.equals(paired_differences(first.head(2), second.head(2), replicates=REPLICATES))
