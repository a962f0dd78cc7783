"""Each rule on a hand-made clip: what breaks it, what only just does not, and where it is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from mabpl.benchmarks.micro_annotation.checks import apply_missing, check_labels, check_predictions, validate
from mabpl.benchmarks.micro_annotation.problems import RULES
from mabpl.benchmarks.micro_annotation.reading import Labels, join_labels, read_labels, read_predictions
from mabpl.errors import InvalidTimelines
from mabpl.reading.problems import counts, require_valid
from mabpl.tables.schemas import PROBLEMS

FRAME = 1 / 30


def segment(start: float, end: float, *, idle: bool = False, **fields: Any) -> dict[str, Any]:
    return {"start_s": start, "end_s": end, "label": "x", "is_idle": idle, **fields}


def write(file: Path, clips: dict[str, list[dict[str, Any]]], **fields: Any) -> Path:
    file.parent.mkdir(exist_ok=True, parents=True)
    file.write_text("".join(json.dumps({"clip_id": c, **fields, "segments": s}) + "\n" for c, s in clips.items()))
    return file


@pytest.fixture
def labels(tmp_path: Path) -> Labels:
    clips = {c: [segment(0, 8), segment(8, 12)] for c in "abc"}
    return read_labels(write(tmp_path / "s" / "labels.jsonl", clips, num_frames=360, source_fps=30, duration_s=12))


def told(problems: pl.DataFrame) -> list[tuple[Any, ...]]:
    assert problems.schema == PROBLEMS.schema
    assert problems["hint"].null_count() == 0
    return problems.select("rule", "line", "clip_id", "field").rows()


WHOLE = [segment(0, 6), segment(6, 12)]


@pytest.mark.parametrize(
    ("timeline", "expected"),
    [
        (WHOLE, []),
        ([segment(-0.000001, 6), segment(6, 12)], [("negative-start", "segments[0].start_s")]),
        ([segment(0, 6), segment(6, 12.0005)], []),
        ([segment(0, 6), segment(6, 12.0006)], [("outside-duration", "segments[1].end_s")]),
        ([segment(0, 6), segment(5.999999, 12)], [("overlap", "segments[1].start_s")]),
        (
            [segment(0, 9), segment(1, 2), segment(8, 12)],
            [("overlap", "segments[1].start_s"), ("overlap", "segments[2].start_s")],
        ),
        ([segment(0, 6), segment(6.0333, 12)], []),
        ([segment(0, 6), segment(6.034, 12)], [("gap", "segments[1].start_s")]),
        ([segment(0.034, 6), segment(6, 12)], [("gap", "segments[0].start_s")]),
        ([segment(0, 6), segment(6, 11.9)], [("gap", "segments[1].end_s")]),
        (
            [segment(0, 9), segment(1, 2), segment(2, 3), segment(9, 12)],
            [("overlap", "segments[1].start_s"), ("overlap", "segments[2].start_s")],
        ),
        ([segment(0, 10), segment(10, 12)], []),
        ([segment(0, 10.000001), segment(10.000001, 12)], [("longer-than-10s", "segments[0].end_s")]),
        ([segment(6, 12), segment(0, 6)], [("unsorted", "segments[1].start_s")]),
        ([segment(0, 6, idle=True), segment(6, 12, idle=True)], [("all-idle", "segments")]),
        ([], [("empty-timeline", "segments")]),
    ],
)
def test_rules_of_a_predicted_timeline(
    tmp_path: Path, labels: Labels, timeline: list[Any], expected: list[Any]
) -> None:
    file = write(tmp_path / "m.jsonl", {"a": WHOLE, "b": timeline, "c": WHOLE})
    problems = check_predictions(read_predictions(file, labels), labels)
    assert told(problems) == [(rule, 2, "b", field) for rule, field in expected]
    assert problems["severity"].to_list() == [RULES[rule].severity for rule, _ in expected]


@pytest.mark.parametrize(
    ("timeline", "fields", "expected"),
    [
        ([segment(0, 8), segment(8 + FRAME, 12)], {}, []),
        ([segment(0, 8), segment(8.04, 12)], {}, [("not-contiguous", "segments[1].start_s")]),
        ([segment(0, 8), segment(7.96, 12)], {}, [("not-contiguous", "segments[1].start_s")]),
        ([segment(0.04, 8), segment(8, 12)], {}, [("not-covering", "segments[0].start_s")]),
        ([segment(0, 8), segment(8, 11.9)], {}, [("not-covering", "segments[1].end_s")]),
        ([], {}, [("not-covering", "segments")]),
        ([segment(8, 12), segment(0, 8)], {}, [("unsorted", "segments[1].start_s")]),
        ([segment(0, 12)], {"duration_s": 12.0005}, []),
        ([segment(0, 12)], {"duration_s": 12.002}, [("duration-mismatch", "duration_s")]),
        ([segment(0, 99)], {"duration_s": None}, []),
    ],
)
def test_rules_of_labels_are_warnings(tmp_path: Path, timeline: list[Any], fields: Any, expected: list[Any]) -> None:
    clip = {"num_frames": 360, "source_fps": 30, "duration_s": 12, **fields}
    problems = check_labels(read_labels(write(tmp_path / "labels.jsonl", {"a": timeline}, **clip)))
    assert told(problems) == [(rule, 1, "a", field) for rule, field in expected]
    assert set(problems["severity"]) <= {"warning"}


def test_absent_unknown_and_broken_clips(tmp_path: Path, labels: Labels) -> None:
    file = write(tmp_path / "m.jsonl", {"bb": WHOLE, "a": [segment(3, 2)]})
    problems = check_predictions(read_predictions(file, labels), labels)
    assert told(problems) == [
        ("unknown-clip", 1, "bb", "clip_id"),
        ("end-not-after-start", 2, "a", "segments[0].end_s"),
        ("missing-clip", None, "b", None),
        ("missing-clip", None, "c", None),
    ]
    assert "'b'" in problems["hint"][0]
    assert counts(problems).rows() == [
        ("error", "missing-clip", 2),
        ("error", "end-not-after-start", 1),
        ("error", "unknown-clip", 1),
    ]
    with pytest.raises(InvalidTimelines, match=r"4 errors \(missing-clip 2.*line 1, clip bb") as caught:
        require_valid(problems)
    assert caught.value.exit_code == 1 and problems.equals(caught.value.problems)
    require_valid(problems.clear())


def test_a_clip_that_is_broken_in_the_labels_is_not_called_unknown(tmp_path: Path) -> None:
    labels = read_labels(write(tmp_path / "labels.jsonl", {"a": [segment(0, 1)], "b": [segment(2, 1)]}, duration_s=1))
    file = write(tmp_path / "m.jsonl", {"a": [segment(0, 1)], "b": [segment(0, 1)]})
    predictions, problems = validate(file, labels)
    assert told(problems) == [("end-not-after-start", 2, "b", "segments[0].end_s")]
    assert problems["file"].to_list() == [str(tmp_path / "labels.jsonl")]
    assert predictions.timelines.height == 2


def test_a_chosen_part_needs_no_other_clip(tmp_path: Path, labels: Labels) -> None:
    predictions = read_predictions(write(tmp_path / "m.jsonl", {"a": WHOLE, "b": WHOLE}), labels)
    assert told(check_predictions(predictions, labels, clips={"a"})) == []
    assert told(check_predictions(predictions, labels, clips={"a", "c"})) == [("missing-clip", None, "c", None)]
    chosen = apply_missing(predictions, labels, "refuse", clips={"a"})
    assert chosen.partial and chosen.timelines["clip_id"].to_list() == ["a"]
    assert chosen.segments["clip_id"].unique().to_list() == ["a"]


def test_a_clip_of_two_sets_is_an_error(tmp_path: Path, labels: Labels) -> None:
    other = read_labels(write(tmp_path / "t" / "labels.jsonl", {"c": [segment(0, 12)], "d": []}, duration_s=12))
    problems = check_labels(join_labels([labels, other]))
    assert told(problems.filter(pl.col("severity") == "error")) == [("clip-in-two-sets", 1, "c", "clip_id")]


@pytest.mark.parametrize(
    ("missing", "severity", "scored", "partial"),
    [("refuse", "error", "ab", True), ("empty", "warning", "abc", False), ("skip", "warning", "ab", True)],
)
def test_absent_clips_by_policy(
    tmp_path: Path, labels: Labels, missing: Any, severity: str, scored: str, partial: bool
) -> None:
    file = write(tmp_path / "m.jsonl", {"a": WHOLE, "b": []})
    predictions, problems = validate(file, labels, missing=missing)
    assert problems.select("rule", "severity").rows() == [("empty-timeline", severity), ("missing-clip", severity)]
    ready = apply_missing(predictions, labels, missing)
    assert ready.timelines["clip_id"].to_list() == list(scored)
    assert ready.partial == partial
    assert ready.segments.equals(predictions.segments)


def test_order_of_clips_and_files_does_not_change_the_table(tmp_path: Path, labels: Labels) -> None:
    bad = [segment(5, 6), segment(0, 11)]
    one = write(tmp_path / "one.jsonl", {"a": bad, "b": WHOLE, "c": bad})
    two = write(tmp_path / "two.jsonl", {"b": [segment(-1, 12)], "a": WHOLE, "c": bad})
    tables = [validate(paths, labels)[1] for paths in ([one, two], [two, one])]
    assert tables[0].equals(tables[1]) and tables[0].height > 8


@pytest.mark.shared_data
def test_real_files(shared_data: Path) -> None:
    epic = check_labels(read_labels(shared_data / "epic" / "labels.jsonl"))
    found = {rule: count for _, rule, count in counts(epic).iter_rows()}
    assert found["unsorted"] == 841 and found["outside-duration"] == 1
    assert set(epic["severity"]) == {"warning"}
    wgo = read_labels(shared_data / "wgo" / "labels.jsonl")
    _, problems = validate(shared_data / "wgo" / "predictions" / "s_v2prompt.jsonl", wgo)
    assert problems.filter(pl.col("severity") == "error").select("rule", "clip_id").rows() == [
        ("missing-clip", "homer_1")
    ]
