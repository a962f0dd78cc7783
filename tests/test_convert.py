"""The two rules for pipelines that were never told the benchmark's: explicit, listed, and nothing else is touched."""

from __future__ import annotations

import gzip
import io
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from mabpl.benchmarks.micro_annotation.postprocess import convert
from mabpl.cli.main import run
from mabpl.errors import InputError, InvalidTimelines


def line(clip: str, *times: tuple[float, float], **fields: Any) -> str:
    segments = [{"start_s": a, "end_s": b, "label": f"é {i}", "is_idle": i == 1} for i, (a, b) in enumerate(times)]
    return json.dumps({"clip_id": clip, "n": 1, "segments": segments, **fields}, ensure_ascii=False) + "\n"


def written(folder: Path, *lines: str) -> Path:
    file = folder / "pipeline.jsonl"
    file.write_bytes("".join(lines).encode())
    return file


def rows(data: bytes) -> list[list[tuple[float, float, str, bool]]]:
    clips = [json.loads(text)["segments"] for text in data.splitlines()]
    return [[(s["start_s"], s["end_s"], s["label"], s["is_idle"]) for s in segments] for segments in clips]


def test_long_segments_are_cut_into_equal_pieces(tmp_path: Path) -> None:
    kept = line("b", (0, 10), (10, 20.0000004)).replace('"n": 1', '"n":   1e0')
    file = written(tmp_path, line("a", (3.50, 28.5), (28.5, 38.5), (38.5, 48.500001)), kept)
    converted = convert(file, "cut")
    cuts = (3.5, 11.833333, 20.166666, 28.5)
    assert rows(converted.data)[0] == [
        *((a, b, "é 0", False) for a, b in pairwise(cuts)),
        (28.5, 38.5, "é 1", True),
        (38.5, 43.5, "é 2", False),
        (43.5, 48.500001, "é 2", False),
    ]
    assert converted.data.splitlines(keepends=True)[1] == kept.encode()
    assert converted.changes.rows() == [
        (1, "a", 0, "segments", "longer-than-10s", "3.5, 28.5", "3.5, 11.833333, 20.166666, 28.5"),
        (1, "a", 2, "segments", "longer-than-10s", "38.5, 48.500001", "38.5, 43.5, 48.500001"),
    ]


def test_overlaps_are_resolved_in_order_of_time(tmp_path: Path) -> None:
    kept = line("b", (0, 4), (4, 9), (10, 11))
    file = written(tmp_path, line("a", (6, 9), (0, 5), (4, 6.5), (1, 3)), kept)
    converted = convert(file, "resolve")
    assert rows(converted.data)[0] == [(0, 5, "é 1", True), (5, 6.5, "é 2", False), (6.5, 9, "é 0", False)]
    assert converted.data.splitlines(keepends=True)[1] == kept.encode()
    told = converted.changes.filter(converted.changes["rule"] == "overlap").select(
        "segment", "field", "before", "after"
    )
    assert told.rows()[1:] == [(2, "start_s", "4", "5.0"), (0, "start_s", "6", "6.5")]
    assert told.row(0)[:2] == (3, "segments") and told.row(0)[3] is None


MICROSECONDS = st.integers(0, 60_000_000)


@given(st.lists(st.tuples(MICROSECONDS, st.integers(1, 45_000_000)), min_size=1, max_size=6))
@hypothesis_settings(max_examples=100, deadline=None)
def test_nothing_is_lost_or_longer_than_it_may_be(tmp_path_factory: pytest.TempPathFactory, spans: Any) -> None:
    folder = tmp_path_factory.mktemp("convert")
    file = written(folder, line("a", *((a / 1e6, (a + n) / 1e6) for a, n in spans)))
    resolved = folder / "resolved.jsonl"
    resolved.write_bytes(convert(file, "resolve").data)
    both = rows(convert(resolved, "cut").data)[0]
    ticks = [(round(a * 1e6), round(b * 1e6)) for a, b, _, _ in both]
    assert all(0 < b - a <= 10_000_000 for a, b in ticks)
    assert all(before[1] <= after[0] for before, after in pairwise(ticks))
    marks = sorted({mark for a, n in spans for mark in (a, a + n)})
    for a, b in pairwise(marks):
        inside = any(start <= a and b <= start + n for start, n in spans)
        assert sum(max(0, min(b, e) - max(a, s)) for s, e in ticks) == (b - a) * inside
    pieces = rows(convert(file, "cut").data)[0]
    for number, (start, length) in enumerate(spans):
        own = [(round(a * 1e6), round(b * 1e6)) for a, b, label, _ in pieces if label == f"é {number}"]
        assert len(own) == -(-length // 10_000_000)
        assert (own[0][0], own[-1][1]) == (start, start + length)
        assert max(b - a for a, b in own) - min(b - a for a, b in own) <= 1


def test_a_file_that_does_not_validate_is_refused(tmp_path: Path) -> None:
    for text in (line("a", (5, 4)), line("a", ("0:01", 5)), line("a", (0, 1)) + "{\n"):  # type: ignore[arg-type]
        with pytest.raises(InvalidTimelines, match=r"pipeline\.jsonl, line"):
            convert(written(tmp_path, text), "cut")
    with pytest.raises(InputError, match="clip a, segments\\[0\\] lasts 20000 s"):
        convert(written(tmp_path, line("a", (0, 20_000))), "cut")
    with pytest.raises(InputError, match="no such file"):
        convert(tmp_path / "none.jsonl", "resolve")


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = written(tmp_path, line("a", (0, 25)), line("b", (0, 4))), tmp_path / "out.jsonl"
    before = file.read_bytes()
    assert run(["convert", "cut", str(file), "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert "longer-than-10s" in said and "8.333333" in said and f"{out}: written, 1 changes" in said
    assert len(rows(out.read_bytes())[0]) == 3 and file.read_bytes() == before
    assert run(["convert", "resolve", str(out), "--out", str(tmp_path / "same.jsonl"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"rule": "resolve", "changes": []}
    assert (tmp_path / "same.jsonl").read_bytes() == out.read_bytes()


def test_the_input_is_never_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, line("a", (0, 25)))
    before = file.read_bytes()
    assert run(["convert", "cut", str(file), "--out", str(file)]) == 2
    assert "not overwritten" in capsys.readouterr().err and file.read_bytes() == before
    assert run(["convert", "cut", str(file)]) == 2
    assert "--out" in capsys.readouterr().err


def test_gzip_and_standard_input_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = line("a", (0, 25)).encode()
    packed = tmp_path / "pipeline.jsonl.gz"
    packed.write_bytes(gzip.compress(data))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert convert(packed, "cut").data == convert("-", "cut").data != data
