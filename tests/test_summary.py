"""How metrics add up: hand-worked sets, and the reference on drawn ones."""

from __future__ import annotations

from statistics import fmean, stdev
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mabpl import reference
from mabpl.benchmarks.micro_annotation import inputs, scoring
from mabpl.data import sample_folder
from mabpl.errors import UsageError
from mabpl.metrics import METRICS
from mabpl.metrics.summary import COUNTS, VALUES, clip_values, combine_sets, summarise
from mabpl.settings import Settings
from mabpl.tables.schemas import CLIP_SCORES

GOOD = {"x": 4, "y": 4, "b": 2, "k": 3, "t": 1, "j": 1, "credit": 3.0, "strict_credit": 1.0}
UNEVEN = {"x": 2, "y": 6, "b": 1, "k": 2, "t": 2, "j": 0, "credit": 0.5, "strict_credit": 0.0}
NO_PREDICTION = {"x": 0, "y": 6, "b": 0, "k": 0, "t": 0, "j": 0, "credit": 0.0, "strict_credit": 0.0}
NO_HUMAN = {"x": 2, "y": 0, "b": 0, "k": 0, "t": 0, "j": 0, "credit": 0.0, "strict_credit": 0.0}
NOTHING = {"x": 0, "y": 0, "b": 0, "k": 0, "t": 0, "j": 0, "credit": 0.0, "strict_credit": 0.0}


def clip_scores(*rows: dict[str, Any], run: str = "r", set_name: str = "s") -> pl.DataFrame:
    keyed = [{"run": run, "set": set_name, "clip_id": f"{set_name}{i:03}"} | row for i, row in enumerate(rows)]
    schema = {name: dtype for name, dtype in CLIP_SCORES.schema.items() if name in {*COUNTS, "run", "set", "clip_id"}}
    return CLIP_SCORES.conform(clip_values(pl.DataFrame(keyed, schema=schema)))


def unjudged(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in ("j", "credit", "strict_credit")}


def only(frame: pl.DataFrame) -> dict[str, Any]:
    assert frame.height == 1
    return frame.row(0, named=True)


# --- one clip ---


def test_a_clip_by_hand() -> None:
    clip = only(clip_scores(UNEVEN))
    assert (clip["boundary_f1"], clip["temporal_f1"], clip["seg_f1"], clip["pa_f1"]) == (25.0, 50.0, 50.0, 12.5)
    assert (clip["precision"], clip["recall"]) == (25.0, pytest.approx(50 / 6))
    assert (clip["seg_precision"], clip["seg_recall"]) == (100.0, pytest.approx(200 / 6))
    assert (clip["joint_f1"], clip["strict_pa_f1"]) == (0.0, 0.0)


@pytest.mark.parametrize("row", [NO_PREDICTION, NO_HUMAN])
def test_one_empty_side_scores_0_in_every_metric(row: dict[str, Any]) -> None:
    clip = only(clip_scores(row))
    assert {clip[name] for name in METRICS} == {0.0}


def test_both_sides_empty_is_undefined() -> None:
    clip = only(clip_scores(NOTHING))
    assert {clip[name] for name in METRICS} == {None}


# --- one set ---


def test_means_over_clips_and_pooled_counts() -> None:
    found = only(summarise(clip_scores(GOOD, UNEVEN)))
    assert found["boundary_f1"] == (50 + 25) / 2  # pooled would be 2 * 3 / 16 too; Temporal F1 tells them apart
    assert found["temporal_f1"] == (75 + 50) / 2 != 2 * 5 / 16
    assert found["pa_f1"] == (75 + 12.5) / 2
    assert found["precision"] == (75 + 25) / 2
    assert found["recall"] == pytest.approx((75 + 50 / 6) / 2)
    harmonic = 2 * found["precision"] * found["recall"] / (found["precision"] + found["recall"])
    assert found["pa_f1"] != pytest.approx(harmonic)
    assert (found["seg_f1"], found["joint_f1"]) == (100 * 2 * 3 / 16, 100 * 2 * 1 / 16)
    assert (found["seg_precision"], found["seg_recall"]) == (50.0, 30.0)
    assert found["headline"] == 0.5 * found["pa_f1"] + 0.25 * found["boundary_f1"] + 0.25 * found["temporal_f1"]
    assert (found["segments_per_clip"], found["human_segments_per_clip"]) == (3.0, 5.0)
    assert [found[name] for name in ("x", "y", "b", "k", "t", "j", "credit")] == [6, 10, 3, 5, 3, 1, 3.5]


def test_undefined_clips_are_counted_and_left_out_of_means_but_not_of_sizes() -> None:
    found = only(summarise(clip_scores(GOOD, NOTHING, NO_PREDICTION)))
    assert (found["clips"], found["undefined_clips"]) == (3, 1)
    assert found["boundary_f1"] == (50 + 0) / 2
    assert found["seg_f1"] == 100 * 2 / 14
    assert (found["segments_per_clip"], found["human_segments_per_clip"]) == (4 / 3, 10 / 3)


def test_a_set_without_predictions_scores_0_and_one_without_segments_is_undefined() -> None:
    found = only(summarise(clip_scores(NO_PREDICTION, NO_PREDICTION)))
    assert {found[name] for name in METRICS} == {0.0}
    found = only(summarise(clip_scores(NOTHING)))
    assert {found[name] for name in (*METRICS, "headline")} == {None}


def test_without_a_judge_label_scores_are_null_and_never_0() -> None:
    found = only(summarise(clip_scores(unjudged(GOOD), unjudged(NO_PREDICTION)), ci=0.95))
    judged = ["pa_f1", "strict_pa_f1", "precision", "recall", "joint_f1", "joint_precision", "joint_recall", "headline"]
    assert {found[name] for name in (*judged, *(f"{name}_low" for name in judged), "j", "credit")} == {None}
    assert found["boundary_f1"] == 25.0


def test_a_run_that_was_not_judged_is_null_beside_one_that_was() -> None:
    clips = pl.concat([clip_scores(GOOD, UNEVEN), clip_scores(unjudged(GOOD), unjudged(UNEVEN), run="other")])
    judged, other = summarise(clips).sort("run", descending=True).to_dicts()
    assert judged["joint_f1"] == pytest.approx(100 * 2 * 1 / 16)
    assert (other["joint_f1"], other["pa_f1"], other["headline"], other["j"], other["credit"]) == (None,) * 5
    assert other["seg_f1"] == judged["seg_f1"]


def test_clips_without_a_verdict_are_left_out_of_label_scores_alone() -> None:
    found = only(summarise(clip_scores(GOOD, unjudged(UNEVEN))))
    assert (found["pa_f1"], found["precision"], found["joint_f1"]) == (75.0, 75.0, 25.0)
    assert (found["temporal_f1"], found["seg_f1"]) == (62.5, 37.5)


# --- several sets, several seeds ---


def test_sets_are_weighted_by_their_clips_for_every_metric() -> None:
    clips = pl.concat([clip_scores(GOOD, NOTHING, GOOD, set_name="a"), clip_scores(UNEVEN, set_name="b")])
    found = only(summarise(clips, combine=True))
    assert found["sets"] == 2
    assert found["clips"] == 4
    assert found["boundary_f1"] == (3 * 50 + 1 * 25) / 4  # the undefined clip weighs too
    assert found["seg_f1"] == (3 * 25 + 1 * 50) / 4  # not pooled again: 2 * 4 / 24
    assert found["headline"] == pytest.approx((3 * (37.5 + 12.5 + 18.75) + (6.25 + 6.25 + 12.5)) / 4)


def test_a_set_of_undefined_clips_has_no_weight() -> None:
    clips = pl.concat([clip_scores(GOOD, set_name="a"), clip_scores(NOTHING, set_name="b")])
    found = only(summarise(clips, combine=True))
    assert found["temporal_f1"] == 75.0
    assert found["segments_per_clip"] == (4 + 0) / 2  # a clip without segments has a size all the same


def test_a_set_without_a_judge_makes_the_combination_null() -> None:
    clips = pl.concat([clip_scores(GOOD, set_name="a"), clip_scores(unjudged(GOOD), set_name="b")])
    found = only(summarise(clips, combine=True))
    assert (found["pa_f1"], found["headline"], found["temporal_f1"]) == (None, None, 75.0)


def test_seeds_are_folded_into_mean_and_sample_sd_of_the_set_score() -> None:
    runs = [
        clip_scores(GOOD, UNEVEN, run="m_seed1"),
        clip_scores(UNEVEN, UNEVEN, run="m_seed2"),
        clip_scores(NO_PREDICTION, UNEVEN, run="m_seed3"),
    ]
    per_run = [only(summarise(run))["temporal_f1"] for run in runs]
    found = only(summarise(pl.concat(runs).with_columns(configuration=pl.lit("m")), fold_seeds=True))
    assert per_run == [62.5, 50.0, 25.0]
    assert (found["configuration"], found["runs"]) == ("m", 3)
    assert found["temporal_f1"] == pytest.approx(fmean(per_run))
    assert found["temporal_f1_sd"] == pytest.approx(stdev(per_run))
    alone = only(summarise(runs[0].with_columns(configuration=pl.lit("m")), fold_seeds=True))
    assert (alone["temporal_f1"], alone["temporal_f1_sd"]) == (62.5, None)


def test_unknown_columns_and_levels_are_refused() -> None:
    clips = clip_scores(GOOD)
    with pytest.raises(UsageError, match="operater"):
        summarise(clips, by=["operater"])
    with pytest.raises(UsageError, match="configuration"):
        summarise(clips, fold_seeds=True)
    with pytest.raises(UsageError, match="level"):
        summarise(clips, ci=95)


# --- against the reference and against scoring ---


@st.composite
def reference_clips(draw: st.DrawFn) -> reference.ClipScore:
    x, y = draw(st.integers(0, 5)), draw(st.integers(0, 5))

    def matched() -> list[tuple[int, int]]:
        return [(i, i) for i in range(draw(st.integers(0, min(x, y))))]

    return reference.ClipScore(x, y, [], [], matched(), matched(), matched())


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(reference_clips(), min_size=1, max_size=6), min_size=1, max_size=3))
def test_sets_and_their_combination_are_those_of_the_reference(sets: list[list[reference.ClipScore]]) -> None:
    frames = [
        clip_scores(
            *({"x": c.x, "y": c.y, "b": len(c.boundary), "k": len(c.temporal), "t": len(c.seg)} for c in clips),
            set_name=f"s{number}",
        )
        for number, clips in enumerate(sets)
    ]
    expected = [reference.add_up(clips) for clips in sets]
    found = summarise(pl.concat(frames)).sort("set").to_dicts()
    for row, own in zip(found, expected, strict=True):
        assert {name: row[name] for name in own} == pytest.approx(own)
    whole = reference.combine(expected)
    together = only(summarise(pl.concat(frames), combine=True))
    assert {name: together[name] for name in whole} == pytest.approx(whole)
    again = only(combine_sets(summarise(pl.concat(frames)), ["run"]))
    assert {name: again[name] for name in VALUES} == {name: together[name] for name in VALUES}


def scored(clips: list[str] | None = None) -> scoring.Scores:
    root = str(sample_folder())
    files = [f"{root}/predictions/{s}/{c}.jsonl" for s in ("operator_disjoint_6", "session_disjoint_4")
             for c in ("quick-large_seed1", "quick-large_seed11", "small-fine_seed1")]  # fmt: skip
    gathered = inputs.gather(inputs.Request(root=root, predictions=files, clips=clips), Settings())
    return scoring.score_files(gathered.labels, gathered.ready(Settings()), settings=Settings())


def test_a_slice_is_what_scoring_its_clips_alone_gives() -> None:
    every = scored()
    slices = every.summarise("operator", ci=0.95)
    assert slices["clips"].sum() == every.table("clip_scores").height
    for (operator,), clips in every.clips.group_by("operator"):
        alone = scored(sorted(clips["clip_id"].unique())).summarise(ci=0.95)
        found = slices.filter(operator=operator).drop("operator")
        assert found.sort("run", "set").equals(alone.sort("run", "set"))


def test_no_order_of_clips_changes_a_bit() -> None:
    clips = scored().clips
    shuffled = clips.sample(fraction=1.0, shuffle=True, seed=3)
    for options in ({}, {"combine": True}, {"fold_seeds": True, "ci": 0.95}):
        assert summarise(clips, **options).equals(summarise(shuffled, **options))  # type: ignore[arg-type]
