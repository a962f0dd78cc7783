"""Reading labels and predictions: what is right comes back as it was, what is wrong is told with its place."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mabpl.benchmarks.micro_annotation.reading import join_labels, read_labels, read_predictions, with_sets
from mabpl.errors import InputError, MabplError, UsageError
from mabpl.reading import lines
from mabpl.tables import schemas

A = {"start_s": 0.0, "end_s": 4.1, "label": "pick up the spatula with the right hand", "is_idle": False}
B = {"start_s": 4.1, "end_s": 7, "label": "idle", "is_idle": True}


def row(clip_id: str = "c", *segments: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"clip_id": clip_id, "segments": list(segments or (A, B)), **fields}


def line(*args: Any, **fields: Any) -> bytes:
    return json.dumps(row(*args, **fields), ensure_ascii=False).encode()


def faults(problems: pl.DataFrame, *, severity: str | None = None) -> list[tuple[Any, ...]]:
    """(rule, line, clip, field) of each."""
    if severity:
        problems = problems.filter(pl.col("severity") == severity)
    return problems.select("rule", "line", "clip_id", "field").rows()


def replaced(old: bytes, new: bytes) -> bytes:
    good = line("bad")
    assert good.count(old) >= 1
    return good.replace(old, new, 1)


BAD_LINES: dict[str, tuple[bytes, tuple[Any, ...]]] = {
    "cut off": (line("bad")[:-30], ("invalid-json", 2, "bad", None)),
    "not JSON": (b"hello", ("invalid-json", 2, None, None)),
    "trailing text": (line("bad") + b" x", ("invalid-json", 2, "bad", None)),
    "trailing comma": (replaced(b"}]}", b"}],}"), ("invalid-json", 2, "bad", None)),
    "control character": (
        replaced(b"idle", b"a\x01b").replace(b'a\x01b"', b'"a\x01b"', 1),
        ("invalid-json", 2, "bad", None),
    ),
    "nested deeply": (b'{"clip_id":"bad","x":' + b"[" * 100_000, ("invalid-json", 2, "bad", None)),
    "nested deeply, whole": (
        replaced(b'"segments"', b'"x": ' + b"[" * 9999 + b"]" * 9999 + b', "segments"'),
        ("invalid-json", 2, "bad", None),
    ),
    "latin-1": (replaced(b"spatula", b"caf\xe9"), ("encoding", 2, "bad", None)),
    "latin-1 in a further field": (replaced(b'"segments"', b'"x": "\xe9", "segments"'), ("encoding", 2, "bad", None)),
    "half a surrogate": (replaced(b"spatula", b"\\ud800"), ("encoding", 2, "bad", "segments[0].label")),
    "a list": (b"[1]", ("wrong-type", 2, None, None)),
    "null": (b"null", ("wrong-type", 2, None, None)),
    "no clip_id": (b'{"segments": []}', ("missing-field", 2, None, "clip_id")),
    "empty clip_id": (line(""), ("wrong-type", 2, None, "clip_id")),
    "number for clip_id": (replaced(b'"bad"', b"5"), ("wrong-type", 2, None, "clip_id")),
    "no segments": (b'{"clip_id": "bad"}', ("missing-field", 2, "bad", "segments")),
    "null segments": (b'{"clip_id": "bad", "segments": null}', ("wrong-type", 2, "bad", "segments")),
    "object for segments": (b'{"clip_id": "bad", "segments": {}}', ("wrong-type", 2, "bad", "segments")),
    "number for segment": (b'{"clip_id": "bad", "segments": [3]}', ("wrong-type", 2, "bad", "segments[0]")),
    "no end_s": (replaced(b'"end_s": 7, ', b""), ("missing-field", 2, "bad", "segments[1].end_s")),
    "no is_idle": (replaced(b', "is_idle": true', b""), ("missing-field", 2, "bad", "segments[1].is_idle")),
    "NaN": (replaced(b"4.1", b"NaN"), ("non-finite", 2, "bad", "segments[0].end_s")),
    "Infinity": (replaced(b"4.1", b"Infinity"), ("non-finite", 2, "bad", "segments[0].end_s")),
    "1e999": (replaced(b"4.1", b"1e999"), ("non-finite", 2, "bad", "segments[0].end_s")),
    "5,000 digits": (replaced(b"4.1", b"9" * 5000), ("non-finite", 2, "bad", "segments[0].end_s")),
    "out of range": (replaced(b'"end_s": 7', b'"end_s": 1e10'), ("time-out-of-range", 2, "bad", "segments[1].end_s")),
    "300 digits": (
        replaced(b'"end_s": 7', b'"end_s": ' + b"9" * 300),
        ("time-out-of-range", 2, "bad", "segments[1].end_s"),
    ),
    "string": (replaced(b'"end_s": 7', b'"end_s": "7"'), ("wrong-type", 2, "bad", "segments[1].end_s")),
    "bool for number": (
        replaced(b'"start_s": 0.0', b'"start_s": false'),
        ("wrong-type", 2, "bad", "segments[0].start_s"),
    ),
    "null for number": (
        replaced(b'"start_s": 0.0', b'"start_s": null'),
        ("wrong-type", 2, "bad", "segments[0].start_s"),
    ),
    "number for bool": (replaced(b"true", b"1"), ("wrong-type", 2, "bad", "segments[1].is_idle")),
    "null label": (replaced(b'"idle"', b"null"), ("wrong-type", 2, "bad", "segments[1].label")),
    "end before start": (replaced(b"7", b"4"), ("end-not-after-start", 2, "bad", "segments[1].end_s")),
    "end is start": (replaced(b"7", b"4.1"), ("end-not-after-start", 2, "bad", "segments[1].end_s")),
    "end is start in microseconds": (
        replaced(b"7", b"4.1000004"),
        ("end-not-after-start", 2, "bad", "segments[1].end_s"),
    ),
    "key twice": (replaced(b'"segments"', b'"clip_id": "bad", "segments"'), ("duplicate-key", 2, "bad", "clip_id")),
    "key twice in a segment": (
        replaced(b'"end_s": 7', b'"end_s": 7, "end_s": 8'),
        ("duplicate-key", 2, "bad", "segments[1].end_s"),
    ),
    "key twice, once escaped": (
        replaced(b'"end_s": 7', b'"end_s": 7, "end\\u005fs": 8'),
        ("duplicate-key", 2, "bad", "segments[1].end_s"),
    ),
    "key twice, with a further field": (
        replaced(b'"end_s": 7', b'"end_s": 7, "p": 1, "end\\u005fs" : 8'),
        ("duplicate-key", 2, "bad", "segments[1].end_s"),
    ),
}


@pytest.mark.parametrize("name", BAD_LINES)
@pytest.mark.parametrize("kind", ["predictions", "labels"])
def test_a_bad_line_is_told_of_with_its_place_and_its_clip_left_out(tmp_path: Path, name: str, kind: str) -> None:
    data, expected = BAD_LINES[name]
    file = tmp_path / "model.jsonl"
    file.write_bytes(line("a", duration_s=7) + b"\n" + data + b"\n" + line("z") + b"\n")
    read = read_predictions(file) if kind == "predictions" else read_labels(file)
    assert faults(read.problems, severity="error") == [expected]
    assert read.problems["file"].unique().to_list() == [str(file)]
    assert read.problems.select(pl.col("message", "hint").is_not_null().all()).row(0) == (True, True)
    assert read.timelines["clip_id"].to_list() == ["a", "z"]
    assert read.segments["clip_id"].to_list() == ["a", "a", "z", "z"]


def test_every_fault_of_a_line_is_listed(tmp_path: Path) -> None:
    file = tmp_path / "model.jsonl"
    bad = [{**A, "end_s": "1:30", "label": 3}, {"start_s": 3, "end_s": 2, "label": "x"}, {**A, "start_s": True}]
    file.write_bytes(line("c", *bad))
    problems = read_predictions(file).problems
    assert faults(problems) == [
        ("wrong-type", 1, "c", "segments[0].end_s"),
        ("wrong-type", 1, "c", "segments[0].label"),
        ("end-not-after-start", 1, "c", "segments[1].end_s"),
        ("missing-field", 1, "c", "segments[1].is_idle"),
        ("wrong-type", 1, "c", "segments[2].start_s"),
    ]
    assert "--fix" in problems["hint"][0]


def test_cut_off_last_line_says_so(tmp_path: Path) -> None:
    file = tmp_path / "model.jsonl"
    file.write_bytes(line("a") + b"\n" + line("b")[:50])
    problems = read_predictions(file).problems
    assert faults(problems) == [("invalid-json", 2, "b", None)]
    assert "cut off" in problems["hint"][0]


def test_duplicate_clip_is_left_out_in_any_order(tmp_path: Path) -> None:
    file = tmp_path / "model.jsonl"
    file.write_bytes(b"\n".join([line("a"), line("b"), line("a", A), line("c", {**A, "end_s": -1}), line("c")]))
    read = read_predictions(file)
    assert faults(read.problems) == [
        ("duplicate-clip", 3, "a", "clip_id"),
        ("end-not-after-start", 4, "c", "segments[0].end_s"),
        ("duplicate-clip", 5, "c", "clip_id"),
    ]
    assert read.timelines["clip_id"].to_list() == ["b"]


def test_marks_blank_lines_and_windows_line_ends_are_no_errors(tmp_path: Path) -> None:
    file = tmp_path / "model.jsonl"
    file.write_bytes(b"\xef\xbb\xbf" + line("a") + b"\r\n\r\n" + b"\xef\xbb\xbf" + line("b") + b"\r\n  ")
    read = read_predictions(file)
    assert faults(read.problems) == [
        ("byte-order-mark", 1, None, None),
        ("blank-line", 2, None, None),
        ("byte-order-mark", 3, None, None),
        ("blank-line", 4, None, None),
    ]
    assert set(read.problems["severity"]) == {"warning"}
    assert read.timelines["clip_id"].to_list() == ["a", "b"]


def test_line_over_64_mib_is_one_fault_and_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert lines.LONGEST_LINE == 64 * 2**20
    monkeypatch.setattr(lines, "LONGEST_LINE", 3 * 2**20)
    file = tmp_path / "model.jsonl"
    with file.open("wb") as out:
        out.write(line("a") + b'\n{"clip_id": "long", "x": "')
        for _ in range(16):
            out.write(b"x" * 2**20)
        out.write(b'"}\n' + line("b") + b"\n")
    read = read_predictions(file)
    assert faults(read.problems) == [("line-too-long", 2, "long", None)]
    assert read.timelines["clip_id"].to_list() == ["a", "b"]
    tracemalloc.start()
    kept = [len(one.data) for one in lines.Lines(file)]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert kept[1] < 10_000 and peak < 12 * 2**20


def encoded(text: str, encoding: str) -> bytes:
    return text.encode(encoding)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (encoded('{"clip_id": "a"}', "utf-16"), "UTF-16"),
        (encoded('{"clip_id": "a"}', "utf-16-be"), "UTF-16"),
        (encoded('{"clip_id": "a"}', "utf-32"), "UTF-32"),
        (json.dumps([row()]).encode(), "JSON array"),
        (json.dumps([row()], indent=1).encode(), "JSON array"),
        (json.dumps(row(), indent=1).encode(), "one JSON document"),
        (json.dumps({"summary": {}, "per_clip": {}}, indent=2).encode(), "is a result"),
        (json.dumps({"summary": {}, "per_clip": {}}).encode(), "is a result"),
        (b"PAR1\x00", "parquet"),
        (b"PK\x03\x04", "zip"),
    ],
)
def test_another_format_is_named(tmp_path: Path, content: bytes, expected: str) -> None:
    file = tmp_path / "x.jsonl"
    file.write_bytes(content)
    for read in (read_predictions, read_labels):
        with pytest.raises(InputError, match=expected) as caught:
            read(file)
        assert caught.value.hint and str(file) in caught.value.message


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_labels(tmp_path / "absent.jsonl")
    with pytest.raises(InputError, match="no such file"):
        read_predictions(tmp_path / "absent.jsonl")
    with pytest.raises(InputError, match="is a folder"):
        read_labels(tmp_path)
    with pytest.raises(InputError, match="no prediction file"):
        read_predictions(tmp_path)
    with pytest.raises(InputError, match="no prediction file"):
        read_predictions(f"{tmp_path}/*.jsonl")
    with pytest.raises(InputError, match="no file name"):
        read_labels("a\0b")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_no_permission_is_named(tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    file.write_bytes(line())
    file.chmod(0)
    with pytest.raises(InputError, match="permission denied"):
        read_labels(file)


def test_broken_gzip_says_where(tmp_path: Path) -> None:
    rng = random.Random(1)
    whole = gzip.compress(b"".join(line(f"clip {rng.random()}") + b"\n" for _ in range(20_000)), mtime=0)
    file = tmp_path / "x.jsonl.gz"
    for broken in (
        whole[: len(whole) // 2],
        whole[:-6],
        whole[:-8] + b"\0" * 8,
        whole[:2000] + b"\0" * 50 + whole[2050:],
    ):
        file.write_bytes(broken)
        with pytest.raises(InputError, match=r"broken gzip after line \d+"):
            read_predictions(file)
    file.write_bytes(whole)
    assert read_predictions(file).segments.height == 40_000


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stdin:
        buffer = io.BytesIO(gzip.compress(line("a") + b"\n" + line("b")[:9]))

    monkeypatch.setattr(sys, "stdin", Stdin)
    read = read_predictions("-")
    assert read.runs.select("run", "path").row(0) == ("stdin", "-")
    assert faults(read.problems) == [("invalid-json", 2, None, None)]


def test_labels_keep_every_field(tmp_path: Path) -> None:
    human = {**A, "hands": "both", "flagged": True}
    rows = [
        row("b", human, B, num_frames=1550, source_fps=30, duration_s=51.667, task_summary={"caption": "x", "y": 1},
            operator="P1", n=1, mixed=1, ratio=1, tags=["a", {"b": None}], ok=True, big=2**70, set="s", row_set=1),
        row("a", {**B, "hands": None}, task_summary=None, num_frames=None, n=2, mixed="x", ratio=0.5,
            ok=None, empty=None),
        row("c", A, num_frames=30.0, task_summary={"caption": None}),
    ]  # fmt: skip
    file = tmp_path / "labels.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))
    read = read_labels(file, set_name="operator_disjoint_59")
    assert read.problems.is_empty()
    extras = {"big": pl.String, "empty": pl.String, "mixed": pl.String, "n": pl.Int64, "ok": pl.Boolean}
    extras |= {"operator": pl.String, "ratio": pl.Float64, "row_set": pl.Int64, "row_row_set": pl.String}
    assert read.clips.schema == {**schemas.CLIPS.schema, **extras, "tags": pl.String}
    assert read.clips["clip_id"].to_list() == ["a", "b", "c"]
    b = read.clips.row(1, named=True)
    assert (b["duration_s"], b["num_frames"], b["source_fps"], b["caption"]) == (51.667, 1550, 30.0, "x")
    assert (b["operator"], b["n"], b["mixed"], b["ratio"], b["ok"]) == ("P1", 1, "1", 1.0, True)
    assert json.loads(b["tags"]) == ["a", {"b": None}] and b["big"] == str(2**70)
    assert {b[c] for c in ("row_set", "row_row_set")} == {"s", 1}
    assert read.clips["num_frames"].to_list() == [None, 1550, 30]
    assert read.segments.schema == schemas.SEGMENTS.schema
    assert read.segments["hands"].to_list() == [None, "both", None, None]
    assert read.segments["flagged"].to_list() == [False, True, False, False]
    assert read.segments["run"].null_count() == 4


@pytest.mark.parametrize(
    ("fields", "rule", "field"),
    [
        ({"segments": [{**A, "hands": "leftt"}]}, "hands-value", "segments[0].hands"),
        ({"segments": [{**A, "hands": 1}]}, "hands-value", "segments[0].hands"),
        ({"segments": [{**A, "flagged": None}]}, "wrong-type", "segments[0].flagged"),
        ({"num_frames": 1.5}, "wrong-type", "num_frames"),
        ({"num_frames": -1}, "wrong-type", "num_frames"),
        ({"num_frames": 10**30}, "wrong-type", "num_frames"),
        ({"source_fps": 0}, "wrong-type", "source_fps"),
        ({"duration_s": "51"}, "wrong-type", "duration_s"),
        ({"duration_s": float("nan")}, "non-finite", "duration_s"),
        ({"task_summary": "x"}, "wrong-type", "task_summary"),
        ({"task_summary": {"caption": 1}}, "wrong-type", "task_summary.caption"),
        ({"score": [float("inf")]}, "non-finite", "score"),
        ({"note": "\ud800"}, "encoding", "note"),
        ({"\ud800": 1}, "encoding", "\\ud800"),
    ],
)
def test_faults_of_labels(tmp_path: Path, fields: dict[str, Any], rule: str, field: str) -> None:
    file = tmp_path / "labels.jsonl"
    file.write_text(json.dumps({**row("c"), **fields}))
    read = read_labels(file)
    assert faults(read.problems) == [(rule, 1, "c", field)]
    assert read.clips.is_empty() and read.clips.schema == schemas.CLIPS.schema


def test_files_that_were_mixed_up_are_told_of(tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    file.write_bytes(line("c"))
    assert faults(read_labels(file).problems) == [("predictions-as-labels", 1, None, None)]
    file.write_bytes(line("c", num_frames=5))
    assert faults(read_predictions(file).problems) == [("labels-as-predictions", 1, None, None)]
    file.write_bytes(b"")
    assert faults(read_labels(file).problems) == [("missing-clip", None, None, None)]


CLIP_IDS = st.sampled_from(["a", "../../etc/passwd", "/abs/x", "..", "a.b", "é", "x\ny", "\x1b[31m", "a/b", "😀"])
NUMBERS = st.floats(0, 4000, allow_subnormal=False).map(lambda t: round(t, 6)) | st.integers(0, 4000).map(float)


@st.composite
def timelines(draw: st.DrawFn) -> list[dict[str, Any]]:
    rows = []
    for clip_id in draw(st.lists(CLIP_IDS, unique=True, max_size=4)):
        segments = []
        for _ in range(draw(st.integers(0, 5))):
            start = draw(NUMBERS) - draw(st.sampled_from([0, 0, 5]))
            length = draw(st.sampled_from([0.000002, 1 / 30, 0.5, 2.05, 100.0]))
            segment = {
                "start_s": start,
                "end_s": start + length,
                "label": draw(st.text(max_size=9).filter(encodable_text)),
            }
            segments.append({**segment, "is_idle": draw(st.booleans()), **draw(st.sampled_from([{}, {"p": [1]}]))})
        rows.append({"clip_id": clip_id, "segments": segments})
    return rows


def encodable_text(text: str) -> bool:
    return not any("\ud800" <= c <= "\udfff" for c in text)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=timelines(), shape=st.sampled_from(["plain", "gzip", "crlf", "bom", "ascii", "shuffled"]), data=st.data())
def test_what_was_written_is_read_back(tmp_path: Path, rows: list[Any], shape: str, data: st.DataObject) -> None:
    written = data.draw(st.permutations(rows)) if shape == "shuffled" else rows
    end = "\r\n" if shape == "crlf" else "\n"
    content = "".join(json.dumps(r, ensure_ascii=shape == "ascii") + end for r in written).encode()
    content = {"gzip": gzip.compress(content), "bom": b"\xef\xbb\xbf" * bool(rows) + content}.get(shape, content)
    file = tmp_path / "model_seed3.jsonl"
    file.write_bytes(content)
    read = read_predictions(file, set_name="s")
    assert set(read.problems["rule"]) <= {"byte-order-mark"}
    assert read.segments.schema == schemas.SEGMENTS.schema and read.runs.schema == schemas.RUNS.schema
    assert read.runs.select("run", "set", "configuration", "generation_seed").rows() == [
        ("model_seed3", "s", "model", 3)
    ]
    rows = sorted(rows, key=lambda r: r["clip_id"])
    assert read.timelines["clip_id"].to_list() == [r["clip_id"] for r in rows]
    expected = [
        (r["clip_id"], i, s["start_s"], s["end_s"], round(s["start_s"] * 30), s["label"], s["is_idle"])
        for r in rows
        for i, s in enumerate(r["segments"])
    ]
    columns = ["clip_id", "segment", "start_s", "end_s", "start_tick", "label", "is_idle"]
    assert read.segments.select(columns).rows() == expected


def test_ticks_round_half_to_even_of_the_product(tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    file.write_bytes(line("c", {**A, "start_s": 0.05, "end_s": 2.05}, {**A, "start_s": 0.15, "end_s": 0.25}))
    segments = read_predictions(file).segments
    assert segments.select("start_tick", "end_tick").rows() == [
        (round(0.05 * 30), 61),
        (int(np.rint(0.15 * 30)), int(np.rint(0.25 * 30))),
    ]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_injected_faults_are_all_told_and_none_is_made_up(tmp_path: Path, data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(["good", *BAD_LINES]), min_size=1, max_size=8))
    written, expected = [], []
    for number, name in enumerate(names, 1):
        own = b"clip%d" % number
        content, (rule, _, clip_id, field) = (line("bad"), ("", 0, "bad", "")) if name == "good" else BAD_LINES[name]
        written.append(content.replace(b'"bad"', b'"' + own + b'"'))
        if name != "good":
            expected.append((rule, number, own.decode() if clip_id == "bad" else None, field))
    file = tmp_path / "x.jsonl"
    # a file whose first line is not a row may be another format: put a good one before
    file.write_bytes(line("first") + b"\n" + b"\n".join(written) + b"\n")
    read = read_predictions(file)
    assert faults(read.problems) == [(r, n + 1, c, f) for r, n, c, f in expected]
    assert read.timelines.height == 1 + names.count("good")


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_bytes_raise_anything_but_our_errors(tmp_path: Path, data: st.DataObject) -> None:
    good = b"\n".join([line("a", A, num_frames=3), line("b", {**B, "label": 'a "quoted" \\ word'})])
    content = data.draw(st.binary(max_size=60) | st.just(good))
    for _ in range(data.draw(st.integers(0, 4))):
        at = data.draw(st.integers(0, len(content)))
        new = data.draw(st.binary(max_size=3) | st.sampled_from([b'"', b"{", b"\\", b"1e999", b"\xff", b"null", b"\n"]))
        content = content[:at] + new + content[at + data.draw(st.integers(0, 3)) :]
    file = tmp_path / "x.jsonl"
    file.write_bytes(content)
    for read in (read_predictions, read_labels):
        try:
            result = read(file)
        except MabplError as error:
            assert error.message
            continue
        lines_there = sum(1 for one in content.split(b"\n") if one.removeprefix(b"\xef\xbb\xbf").strip())
        told = result.problems.filter(pl.col("severity") == "error", pl.col("line").is_not_null())["line"].n_unique()
        assert result.timelines.height + told + (result.problems["rule"] == "duplicate-clip").sum() >= lines_there


# --- runs, sets, names


@pytest.fixture
def labels(tmp_path: Path) -> Any:
    parts = []
    for name, ids in {"operator_disjoint_59": "abc", "session_disjoint_30": "xyz"}.items():
        file = tmp_path / "data" / name / "labels.jsonl"
        file.parent.mkdir(parents=True)
        file.write_bytes(b"\n".join(line(i, duration_s=7) for i in ids))
        parts.append(read_labels(file))
    return join_labels(parts)


def write(folder: Path, **files: bytes) -> Path:
    folder.mkdir(exist_ok=True, parents=True)
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_bytes(content)
    return folder


def runs_of(read: Any) -> list[tuple[Any, ...]]:
    return read.runs.select("run", "set", "configuration", "generation_seed").rows()


def test_set_is_told_from_the_clips_and_left_out_of_the_name(tmp_path: Path, labels: Any) -> None:
    folder = write(tmp_path / "out", m_seed2__59__jsonl=line("a"), m_seed2__session__jsonl=line("x"))
    expected = [("m_seed2", "operator_disjoint_59", "m", 2), ("m_seed2", "session_disjoint_30", "m", 2)]
    read = read_predictions(folder, labels)
    assert runs_of(read) == expected
    late = with_sets(read_predictions(folder), labels)
    assert runs_of(late) == expected
    for name in ("runs", "segments", "timelines", "problems", "sources"):
        ours, theirs = getattr(late, name), getattr(read, name)
        assert ours.equals(theirs) if isinstance(ours, pl.DataFrame) else ours == theirs


def test_a_set_that_cannot_be_told_is_an_error_with_examples(tmp_path: Path, labels: Any) -> None:
    folder = write(tmp_path / "out", both__jsonl=line("a") + b"\n" + line("x"))
    with pytest.raises(UsageError, match=r"more than one set.*'a'.*'x'"):
        read_predictions(folder, labels)
    folder = write(tmp_path / "out2", none__jsonl=line("q"))
    with pytest.raises(UsageError, match="'q'") as caught:
        read_predictions(folder, labels)
    assert "'a'" in caught.value.hint
    assert runs_of(read_predictions(folder, labels, set_name="59"))[0][1] == "operator_disjoint_59"
    with pytest.raises(UsageError, match="unknown set '60'") as caught:
        read_predictions(folder, labels, set_name="60")
    assert "session_disjoint_30" in caught.value.hint


def test_the_same_bytes_of_a_configuration_count_once(tmp_path: Path, labels: Any) -> None:
    same, other = line("a"), line("b")
    folder = write(tmp_path / "p", nano__jsonl=same, nano_seed1__jsonl=same, nano_seed11__jsonl=other, x__jsonl=same)
    read = read_predictions(folder, labels)
    assert [r[0] for r in runs_of(read)] == ["nano_seed1", "nano_seed11", "x"]
    assert len(read.notes) == 1 and "nano.jsonl" in read.notes[0] and "nano_seed1.jsonl" in read.notes[0]


def test_equal_names_are_told_apart_by_their_folders(tmp_path: Path, labels: Any) -> None:
    for team, clip in (("a", "a"), ("b", "b")):
        write(tmp_path / team / "operator_disjoint_59", m_seed1__jsonl=line(clip))
    write(tmp_path / "a" / "session_disjoint_30", m_seed2__jsonl=line("x"))
    read = read_predictions([tmp_path / "a", tmp_path / "b", tmp_path / "a"], labels)
    assert runs_of(read) == [
        ("a/m_seed1", "operator_disjoint_59", "a/m", 1),
        ("a/m_seed2", "session_disjoint_30", "a/m", 2),
        ("b/m_seed1", "operator_disjoint_59", "b/m", 1),
    ]
    twins = write(tmp_path / "c", m__jsonl=line("a"), m__jsonl__gz=gzip.compress(line("b")))
    assert read_predictions(twins, labels).runs["run"].n_unique() == 2


def test_map_file_names_models(tmp_path: Path, labels: Any) -> None:
    folder = write(tmp_path / "p", m_seed1__jsonl=line("a"), n__jsonl=line("b"))
    csv = tmp_path / "map.csv"
    csv.write_text("configuration,model,setting\nm,Model One,high\n")
    jsonl = tmp_path / "map.jsonl"
    jsonl.write_text('{"configuration": "m", "model": "Model One", "setting": "high"}\n')
    for file in (csv, jsonl):
        runs = read_predictions(folder, labels, map_file=file).runs
        assert runs.select("model", "setting").rows() == [("Model One", "high"), (None, None)]
    csv.write_text("name,model\nm,x\n")
    with pytest.raises(InputError, match="configuration"):
        read_predictions(folder, labels, map_file=csv)


def test_order_of_files_and_lines_does_not_matter(tmp_path: Path, labels: Any) -> None:
    folder = write(tmp_path / "p", m__jsonl=line("b") + b"\n" + line("a"), n__jsonl=line("c"))
    turned = write(tmp_path / "q", m__jsonl=line("a") + b"\n" + line("b"), n__jsonl=line("c"))
    one = read_predictions([folder / "m.jsonl", folder / "n.jsonl"], labels)
    two = read_predictions([turned / "n.jsonl", turned / "m.jsonl"], labels)
    assert one.segments.equals(two.segments)
    assert one.timelines.drop("file", "line").equals(two.timelines.drop("file", "line"))


@pytest.mark.shared_data
@pytest.mark.parametrize(("name", "clips", "segments"), [("wgo", 100, 743), ("epic", 138, 9668), ("tas_gtea", 28, 922)])
def test_real_files(shared_data: Path, name: str, clips: int, segments: int) -> None:
    read = read_labels(shared_data / name / "labels.jsonl")
    assert (read.clips.height, read.segments.height, read.problems.height) == (clips, segments, 0)
    assert read.clips["set"].unique().to_list() == [name]
    if name == "epic":
        assert read.clips["operator"].n_unique() == 32
    if name == "wgo":
        predictions = read_predictions(shared_data / name / "predictions", read)
        assert predictions.problems.is_empty()
        counted = dict(predictions.segments.group_by("run").len().iter_rows())
        for run in ("s_v2prompt", "fast_v3_chunked"):
            file = shared_data / name / "predictions" / f"{run}.jsonl"
            assert counted[run] == sum(len(json.loads(x)["segments"]) for x in file.read_text().splitlines())
