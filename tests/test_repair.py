"""Repairs are made where the fault is plain, listed one by one, and touch nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mabpl.benchmarks.micro_annotation.reading import Labels, read_labels
from mabpl.benchmarks.micro_annotation.repair import Repaired, repair

TIMELINE = [(0.0, 4.1), (4.1, 7.25), (7.25, 12.0)]
DURATION = 12.0


def segments(times: list[tuple[Any, Any]]) -> list[dict[str, Any]]:
    return [
        {"start_s": a, "end_s": b, "label": f"é {i}", "is_idle": False, "p": 1e-7} for i, (a, b) in enumerate(times)
    ]


def labels_of(tmp_path: Path, **fields: Any) -> Labels:
    clip = {"duration_s": DURATION, "source_fps": 30, "segments": segments([(0, DURATION)]), **fields}
    file = tmp_path / "labels.jsonl"
    file.write_text("".join(json.dumps({"clip_id": c, **clip}) + "\n" for c in "ab"))
    return read_labels(file)


def repaired(tmp_path: Path, *clips: list[tuple[Any, Any]], **fields: Any) -> tuple[bytes, Repaired]:
    file = tmp_path / "m.jsonl"
    rows = [{"clip_id": c, "n": 1.50, "segments": segments(t)} for c, t in zip("ab", clips, strict=True)]
    file.write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in rows))
    before = file.read_bytes()
    result = repair(file, labels_of(tmp_path, **fields))
    assert file.read_bytes() == before
    return before, result


def times(data: bytes) -> list[list[tuple[float, float]]]:
    return [[(s["start_s"], s["end_s"]) for s in json.loads(x)["segments"]] for x in data.splitlines()]


def test_a_sound_file_stays_as_it_is(tmp_path: Path) -> None:
    before, result = repaired(tmp_path, TIMELINE, TIMELINE)
    assert result.data == before
    assert result.changes.is_empty() and result.remaining.is_empty() and result.notes == ()


def scaled(factor: float, *, whole: bool = False) -> list[tuple[Any, Any]]:
    return [tuple(round(t * factor) if whole else t * factor for t in pair) for pair in TIMELINE]  # type: ignore[misc]


@pytest.mark.parametrize(
    ("factor", "fields", "rule"),
    [
        (1000, {}, "milliseconds"),
        (30, {}, "frame-numbers"),
        (30, {"source_fps": None}, "frame-numbers"),
        (30, {"source_fps": 90}, "frame-numbers"),
        (60, {"source_fps": 60}, "frame-numbers-of-the-video"),
    ],
)
def test_another_unit_of_the_whole_file(tmp_path: Path, factor: int, fields: Any, rule: str) -> None:
    _, result = repaired(tmp_path, scaled(factor, whole=True), scaled(factor, whole=True), **fields)
    for timeline in times(result.data):
        assert timeline == [
            (round(round(a * factor) / factor, 6), round(round(b * factor) / factor, 6)) for a, b in TIMELINE
        ]
    assert result.changes["rule"].unique().to_list() == [rule]
    assert result.changes.height == 12 and result.remaining.is_empty()
    assert result.changes.row(1)[:7] == (
        1,
        "a",
        0,
        "end_s",
        rule,
        str(round(4.1 * factor)),
        str(round(round(4.1 * factor) / factor, 6)),
    )


@pytest.mark.parametrize(
    ("clips", "fields", "note"),
    [
        ([scaled(30, whole=True)] * 2, {"source_fps": 29.97}, "more than one unit fits"),
        ([scaled(7.5)] * 2, {}, "no unit fits"),
        ([scaled(30.01)] * 2, {}, "no unit fits"),
        ([scaled(1000), scaled(30)], {}, "no unit fits"),
        ([scaled(1000)] * 2, {"duration_s": None}, "no duration_s"),
        ([scaled(1000), TIMELINE], {}, ""),
    ],
)
def test_no_unit_is_guessed(tmp_path: Path, clips: Any, fields: Any, note: str) -> None:
    before, result = repaired(tmp_path, *clips, **fields)
    assert result.data == before and result.changes.is_empty()
    assert note in "".join(result.notes) and bool(note) == bool(result.notes)


def test_clock_times(tmp_path: Path) -> None:
    texts = [("00:00", "0:04.1"), ("00:00:04,1", "7.25"), ("7.25", "00:12")]
    before, result = repaired(tmp_path, TIMELINE, texts)
    assert times(result.data) == [TIMELINE, TIMELINE]
    assert result.data.splitlines()[0] == before.splitlines()[0]
    assert result.data.splitlines()[1] == before.splitlines()[0].replace(b'"a"', b'"b"')
    assert sorted(result.changes["rule"]) == ["clock-time"] * 4 + ["quoted-number"] * 2
    assert result.changes.row(1) == (2, "b", 0, "end_s", "clock-time", '"0:04.1"', "4.1")


def test_what_is_no_time_stays_and_is_listed(tmp_path: Path) -> None:
    before, result = repaired(tmp_path, [("0:75", "1:00:75"), ("x", 5), (8, 6)], TIMELINE)
    assert result.data == before and result.changes.is_empty()
    assert result.remaining.select("rule", "field").rows() == [
        ("wrong-type", "segments[0].end_s"),
        ("wrong-type", "segments[0].start_s"),
        ("wrong-type", "segments[1].start_s"),
        ("end-not-after-start", "segments[2].end_s"),
    ]
    assert set(result.remaining["file"]) == {str(tmp_path / "m.jsonl")}


def test_order_and_overlaps(tmp_path: Path) -> None:
    mixed = [(5.0, 12.0), (0.0, 6.0), (1.0, 3.0), (6.0, 6.5)]
    before, result = repaired(tmp_path, mixed, TIMELINE)
    assert times(result.data)[0] == [(0.0, 6.0), (6.0, 12.0)]
    assert result.data.splitlines()[1] == before.splitlines()[1]
    kept = json.loads(result.data.splitlines()[0])
    assert [s["label"] for s in kept["segments"]] == ["é 1", "é 0"]
    assert b'"n": 1.5' in result.data and '"é 1"'.encode() in result.data and b'"p": 1e-07' in result.data
    assert [(c["segment"], c["rule"], c["field"], c["after"]) for c in result.changes.to_dicts()] == [
        (1, "unsorted", "segments", "0"),
        (2, "unsorted", "segments", "1"),
        (0, "unsorted", "segments", "2"),
        (2, "overlap", "segments", None),
        (0, "overlap", "start_s", "6.0"),
        (3, "overlap", "segments", None),
    ]
    assert '"start_s":1.0' in result.changes["before"][3]
    assert result.remaining.is_empty()


def test_a_segment_that_ends_with_the_one_before_is_emptied(tmp_path: Path) -> None:
    _, result = repaired(tmp_path, [(0.0, 6.0), (2.0, 6.0), (6.0, 12.0)], TIMELINE)
    assert times(result.data)[0] == [(0.0, 6.0), (6.0, 12.0)]
    assert result.changes.select("segment", "rule", "after").rows() == [(1, "overlap", None)]


def test_lines_that_cannot_be_told_stay_byte_by_byte(tmp_path: Path) -> None:
    overlapping = json.dumps({"clip_id": "b", "segments": segments([(0, 8), (7, 12)])}, separators=(",", ":"))
    twice = json.dumps({"clip_id": "a", "segments": segments([(0, 8), (7, 12)])}).replace('"p"', '"end_s": 9, "p"')
    content = f"\N{ZERO WIDTH NO-BREAK SPACE}{twice}\r\n\r\n{overlapping}\r\nnot json"
    file = tmp_path / "m.jsonl"
    file.write_bytes(content.encode())
    result = repair(file, labels_of(tmp_path))
    assert result.data == content.replace('"start_s":7,', '"start_s":8.0,').encode()
    assert result.changes.select("line", "segment", "before", "after").rows() == [(3, 1, "7", "8.0")]
    errors = result.remaining.filter(result.remaining["severity"] == "error")
    assert [r[0] for r in errors.select("rule").rows()] == ["duplicate-key", "duplicate-key", "invalid-json"]
