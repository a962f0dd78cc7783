"""The bundled sample benchmark and the published figures."""

from __future__ import annotations

import csv
import itertools
import json
import re
from pathlib import Path
from typing import Any

import make_sample
import pytest

from mabpl.data import published, sample_folder
from mabpl.errors import UsageError

SAMPLE = sample_folder()
SETS = {"operator_disjoint_6": 6, "session_disjoint_4": 4}
FRAME_S = 1 / 30
PRINTED_S = 0.0005 + 1e-9


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def human(name: str) -> list[dict[str, Any]]:
    return rows(SAMPLE / "data" / name / "labels.jsonl")


CLIPS = [clip for name in SETS for clip in human(name)]


def test_the_generator_makes_the_bundled_files_byte_for_byte(tmp_path: Path) -> None:
    make_sample.make(tmp_path)
    made = {path.relative_to(tmp_path): path.read_bytes() for path in tmp_path.rglob("*.*")}
    bundled = [*SAMPLE.glob("predictions/*/*"), SAMPLE / "models.csv"]
    assert made == {path.relative_to(SAMPLE): path.read_bytes() for path in bundled}


def test_sets_configurations_and_seeds() -> None:
    assert {path.name: len(human(path.name)) for path in (SAMPLE / "data").iterdir()} == SETS
    assert len({clip["clip_id"] for clip in CLIPS}) == 10
    assert len({clip["operator"] for clip in CLIPS}) == 6
    configurations = ("careful-large", "quick-large", "small-coarse", "small-fine")
    expected = {f"{name}_seed{seed}.jsonl" for name in configurations for seed in (1, 11, 21)}
    for name in SETS:
        assert {path.name for path in (SAMPLE / "predictions" / name).iterdir()} == expected
    with (SAMPLE / "models.csv").open(encoding="utf-8") as file:
        models = list(csv.DictReader(file))
    assert [row["configuration"] for row in models] == list(configurations)
    assert {row["setting"] for row in models if row["model"] == "Larch-2"} == {"high", "low"}


def test_the_sample_is_small() -> None:
    assert sum(path.stat().st_size for path in SAMPLE.rglob("*") if path.is_file()) < 200_000


@pytest.mark.parametrize("clip", CLIPS, ids=lambda clip: clip["clip_id"])
def test_human_timelines_cover_their_clip_in_order(clip: dict[str, Any]) -> None:
    segments = clip["segments"]
    assert 9 <= len(segments) <= 18
    assert 40 <= clip["duration_s"] <= 110
    assert clip["duration_s"] == round(clip["num_frames"] / clip["source_fps"], 3)
    assert segments[0]["start_s"] == 0
    assert abs(segments[-1]["end_s"] - clip["duration_s"]) <= FRAME_S
    for earlier, later in itertools.pairwise(segments):
        assert abs(later["start_s"] - earlier["end_s"]) <= FRAME_S
    for segment in segments:
        assert 0 < segment["end_s"] - segment["start_s"] <= 10
        for time_s in (segment["start_s"], segment["end_s"]):
            assert abs(time_s - round(time_s * 30) / 30) <= PRINTED_S


def test_hands_agree_with_the_words_of_the_label() -> None:
    for segment in (segment for clip in CLIPS for segment in clip["segments"]):
        named = set(re.findall(r"\b(left|right|both)\b", segment["label"]))
        hands = "both" if len(named) == 2 else (named.pop() if named else None)
        assert segment["hands"] == hands, segment["label"]
        assert segment["is_idle"] == (segment["label"] == "idle")
    assert sum(segment["is_idle"] for clip in CLIPS for segment in clip["segments"]) == 4
    assert sum(segment["flagged"] for clip in CLIPS for segment in clip["segments"]) == 2


@pytest.mark.parametrize("name", SETS)
def test_the_manifest_describes_the_same_clips_and_owns_to_no_video(name: str) -> None:
    shared = ("clip_id", "num_frames", "duration_s")
    manifest = rows(SAMPLE / "data" / name / "manifest.jsonl")
    assert [[row[key] for key in shared] for row in manifest] == [[clip[key] for key in shared] for clip in human(name)]
    assert all(row["video"] is None and "md5" not in row for row in manifest)


@pytest.mark.parametrize("name", SETS)
def test_every_prediction_is_valid_and_only_one_configuration_is_sloppy(name: str) -> None:
    durations = {clip["clip_id"]: clip["duration_s"] for clip in human(name)}
    sloppy = set()
    for path in (SAMPLE / "predictions" / name).iterdir():
        clips = rows(path)
        assert [clip["clip_id"] for clip in clips] == list(durations)
        for clip in clips:
            segments = clip["segments"]
            assert segments
            for segment in segments:
                assert set(segment) == {"start_s", "end_s", "label", "is_idle"}
                assert 0 <= segment["start_s"] < segment["end_s"] <= durations[clip["clip_id"]]
            if any(a["end_s"] != b["start_s"] for a, b in itertools.pairwise(segments)):
                sloppy.add(path.name.partition("_seed")[0])
    assert sloppy == {"small-coarse"}


def test_the_published_headlines_follow_from_their_parts() -> None:
    with published("configurations").open(encoding="utf-8", newline="") as file:
        table = list(csv.DictReader(file))
    blocks = {block: len(list(group)) for block, group in itertools.groupby(table, lambda row: row["block"])}
    assert blocks == {"best_all_89": 11, "operator_disjoint_59": 25, "session_disjoint_30": 25, "released_45": 25}
    for row in table:
        pa, boundary, temporal = (float(row[key]) for key in ("pa_f1", "boundary_f1", "temporal_f1"))
        assert abs(float(row["score"]) - (0.5 * pa + 0.25 * boundary + 0.25 * temporal)) <= 0.1 + 1e-9, row
        assert (row["precision"] == "") == (row["block"] in ("best_all_89", "released_45"))


def test_the_published_tournament_is_complete_and_centred() -> None:
    with published("tournament").open(encoding="utf-8", newline="") as file:
        table = list(csv.DictReader(file))
    columns: dict[tuple[str, ...], list[float]] = {}
    for row in table:
        columns.setdefault((row["block"], row["dimension"], row["set"]), []).append(float(row["log_strength"]))
    assert len(table) == 88
    assert {len(strengths) for strengths in columns.values()} == {11}
    assert all(abs(sum(strengths)) <= 11 * 0.005 + 1e-9 for strengths in columns.values())


def test_an_unknown_published_table_is_named() -> None:
    with pytest.raises(UsageError, match=r"tournement(.|\n)*tournament"):
        published("tournement")
