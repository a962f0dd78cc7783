"""Figures that others computed with their own code, on real timelines that are not distributed with the project.

Label-aware F1 of the MS-TCN kind (segments match only where their labels are equal) is not checked here: no metric of
this package consults labels without a judge, so figures of that kind cannot be had from it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import mabpl

pytestmark = pytest.mark.shared_data

RUNS = ("s_v2prompt", "fast_v3_chunked")
FAMILIES = ("overall", "droid", "galaxea", "homer")
SKIP = mabpl.Settings(missing="skip")
PRINTED = 0.5e-4 + 1e-9  # the reports print 4 decimals


@pytest.fixture(scope="module", params=RUNS)
def wgo(request: pytest.FixtureRequest, shared_data: Path) -> tuple[dict[str, Any], mabpl.Labels, mabpl.Predictions]:
    """A run on WGO-Bench: what it reported, the gold labels, its timelines."""
    reported = json.loads((shared_data / "wgo" / "reported" / f"{request.param}.json").read_text())
    labels = mabpl.read_labels(shared_data / "wgo" / "labels.jsonl")
    return reported, labels, mabpl.read_predictions(shared_data / "wgo" / "predictions" / f"{request.param}.jsonl")


def of_family(clips: pl.DataFrame, family: str) -> pl.DataFrame:
    return clips if family == "overall" else clips.filter(family=family)


def test_wgo_seg_f1_and_counts_on_the_clips_that_a_run_completed(wgo: Any) -> None:
    reported, labels, predictions = wgo
    scores = mabpl.score(labels, predictions, settings=SKIP)
    assert scores.sets["seg_f1"].item() / 100 == pytest.approx(
        {"s_v2prompt": 0.4345, "fast_v3_chunked": 0.2908}[reported["run"]], abs=PRINTED
    )
    for family in FAMILIES:
        expected, clips = reported["scores"][family], of_family(scores.clips, family)
        assert clips.height == expected["episodes"]
        assert clips["x"].sum() == expected["segments_pred"]
        assert clips["y"].sum() == expected["segments_gold"]
        assert mabpl.summarise(clips)["seg_f1"].item() / 100 == pytest.approx(expected["f1_wgo"], abs=PRINTED)


def test_wgo_segment_f1_at_any_iou(wgo: Any) -> None:
    reported, labels, predictions = wgo
    thresholds = [float(t) for t in reported["scores"]["overall"]["f1_at_iou"]]
    assert thresholds == [0.1, 0.25, 0.5, 0.75]
    rows = mabpl.segment_f1(labels, predictions, thresholds, settings=SKIP)
    rows = rows.join(labels.clips.select("clip_id", "family"), on="clip_id")
    for family in FAMILIES:
        expected = reported["scores"][family]
        sums = of_family(rows, family).group_by("iou").agg(pl.col("x", "y", "matched").sum())
        for iou, x, y, matched in sums.iter_rows():
            assert 2 * matched / (x + y) == pytest.approx(expected["f1_at_iou"][f"{iou:g}"], abs=PRINTED)
            if iou == 0.5:
                assert matched == expected["segments_matched"]
                assert matched / x == pytest.approx(expected["precision"], abs=PRINTED)
                assert matched / y == pytest.approx(expected["recall"], abs=PRINTED)


def test_a_slice_scores_as_the_slice_alone_does(wgo: Any, tmp_path: Path, shared_data: Path) -> None:
    reported, labels, predictions = wgo
    sliced = mabpl.summarise(mabpl.score(labels, predictions, settings=SKIP).clips, by=["family"])
    assert set(sliced["family"]) == set(FAMILIES) - {"overall"}
    for family in sliced["family"]:
        clip_ids = set(labels.clips.filter(family=family)["clip_id"])
        parts = []
        for source in ("labels.jsonl", f"predictions/{reported['run']}.jsonl"):
            lines = (shared_data / "wgo" / source).read_text().splitlines(keepends=True)
            parts.append(tmp_path / "wgo" / source)
            parts[-1].parent.mkdir(exist_ok=True, parents=True)
            parts[-1].write_text("".join(line for line in lines if json.loads(line)["clip_id"] in clip_ids))
        alone = mabpl.summarise(mabpl.score(*parts, settings=SKIP).clips)
        assert alone.equals(sliced.filter(family=family).drop("family"))


Points = dict[str, list[float]]


def points(of_clip: Points, **columns: str) -> pl.DataFrame:
    """Each point as a segment of 1 s: both ends are then off by as much as the point."""
    rows = [(clip_id, i, p, p + 1.0) for clip_id, at in of_clip.items() for i, p in enumerate(at)]
    frame = pl.DataFrame(rows, schema=["clip_id", "segment", "start_s", "end_s"], orient="row")
    added = {"set": "mir_eval", "is_idle": False, "flagged": False, "label": "", **columns}
    return frame.with_columns(**{name: pl.lit(value) for name, value in added.items()})


def boundary_scores(
    ref: dict[str, list[float]], est: dict[str, list[float]], window_s: float
) -> dict[str, list[float]]:
    """Clip to precision, recall and F1 of one-to-one matching of points within ``window_s``, most pairs first."""
    settings = mabpl.Settings(time_base="seconds", tolerance_s=window_s, boundary_matching="optimal")
    clips = mabpl.score(points(ref), points(est, run="estimated"), settings=settings).clips
    rows = clips.select("clip_id", pl.col("b") / pl.col("x"), (pl.col("b") / pl.col("y")).alias("r"), "boundary_f1")
    return {clip_id: [precision, recall, f1 / 100] for clip_id, precision, recall, f1 in rows.iter_rows()}


def cases(file: Path) -> list[dict[str, Any]]:
    read = [json.loads(line) for line in file.read_text().splitlines()]
    assert len(read) == 10
    return read


def test_mir_eval_onsets(shared_data: Path) -> None:
    onsets = cases(shared_data / "oracles" / "mir_eval_onset.jsonl")
    assert {case["window_s"] for case in onsets} == {0.05}
    ref, est = ({case["id"]: case[side] for case in onsets} for side in ("ref", "est"))
    found = boundary_scores(ref, est, 0.05)
    for case in onsets:
        expected = [case["expected"][name] for name in ("Precision", "Recall", "F-measure")]
        assert found[case["id"]] == pytest.approx(expected, abs=1e-12)


def test_most_pairs_first_where_the_nearest_pair_costs_one() -> None:
    # The cases from outside do not tell the two ways apart; this one does: greedy takes 0.3-0.4 and is left with none.
    assert boundary_scores({"a": [0.0, 0.4]}, {"a": [0.3, 0.8]}, 0.5) == {"a": [1.0, 1.0, 1.0]}


@pytest.mark.parametrize("window_s", [0.5, 3.0])
def test_mir_eval_segment_boundaries(shared_data: Path, window_s: float) -> None:
    segments = cases(shared_data / "oracles" / "mir_eval_segment.jsonl")
    ref, est = {}, {}
    for case in segments:
        last = max(end for _, end, _ in case["ref"])
        ref[case["id"]] = sorted({0.0, *(t for start, end, _ in case["ref"] for t in (start, end))})
        est[case["id"]] = sorted({0.0, last, *(t for s, e, _ in case["est"] for t in (s, e) if t < last)})
    found = boundary_scores(ref, est, window_s)
    for case in segments:
        expected = [case["expected"][f"{name}@{window_s}"] for name in ("Precision", "Recall", "F-measure")]
        assert found[case["id"]] == pytest.approx(expected, abs=1e-12)


def test_tas_gtea_loads(shared_data: Path) -> None:
    folder = shared_data / "tas_gtea"
    scores = mabpl.score(folder / "labels.jsonl", folder / "predictions" / "self_action.jsonl")
    assert scores.clips.height == 28
    assert set(scores.clips["operator"]) == {"S1", "S2", "S3", "S4"}
    assert scores.sets["undefined_clips"].item() == 0
