"""data_schema/ says what the code reads, writes and makes, and `mabpl schema` prints it."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import polars as pl
import pytest

import mabpl
from mabpl.benchmarks.micro_annotation.inputs import Request, gather
from mabpl.benchmarks.micro_annotation.naming import read_map
from mabpl.benchmarks.micro_annotation.results import joint_document, score_document, write_result_folder
from mabpl.benchmarks.micro_annotation.rows import INPUT_ROWS
from mabpl.benchmarks.micro_annotation.scoring import score_files
from mabpl.cli.main import run
from mabpl.data import sample_folder
from mabpl.errors import MabplError
from mabpl.reading.problems import errors_of
from mabpl.report import schema_pages
from mabpl.settings import Settings
from mabpl.tables.schemas import TABLES, Table

FOLDER = Path(__file__).resolve().parent.parent / "data_schema"
SAMPLE = sample_folder()

Row = dict[str, Any]


def schema(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((FOLDER / f"{name}.schema.json").read_text(encoding="utf-8"))
    return loaded


def validator(name: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(schema(name))


# --- the folder and the command ---


def test_the_folder_is_what_the_code_writes_byte_for_byte(tmp_path: Path) -> None:
    assert run(["schema", "--write", str(tmp_path)]) == 0
    written = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert written == {path.name: path.read_bytes() for path in FOLDER.iterdir()}, "mabpl schema --write data_schema"
    assert {f"{name}.md" for name in TABLES} < set(written)
    assert {f"{name}.schema.json" for name in INPUT_ROWS} < set(written)


def test_the_index_leads_to_every_page_and_names_every_option() -> None:
    index = schema_pages.pages()["README.md"]
    assert all(f"]({name})" in index for name in schema_pages.pages() if name != "README.md")
    assert all(f"| {name} " in index for name in Settings.names())


def test_the_command_prints_a_page_or_the_list_of_them(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert run(["schema"]) == 0
    listed = capsys.readouterr().out
    assert all(f"\n{name} " in listed for name in [*INPUT_ROWS, "scores", "joint", *TABLES])
    assert run(["schema", "clip_scores"]) == 0
    shown = capsys.readouterr().out
    assert all(f"\n{c.name} " in shown and c.meaning in shown for c in TABLES["clip_scores"].columns)
    assert run(["schema", "labels"]) == 0
    assert json.loads(capsys.readouterr().out) == schema("labels")
    assert run(["schema", "clip_score"]) == 2
    assert "did you mean 'clip_scores'?" in capsys.readouterr().err


# --- rows of input files ---


def lines(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_every_schema_is_one_and_the_sample_follows_it() -> None:
    for name in [*INPUT_ROWS, "scores", "joint"]:
        jsonschema.Draft202012Validator.check_schema(schema(name))
    files = {
        "labels": SAMPLE.glob("data/*/labels.jsonl"),
        "manifest": SAMPLE.glob("data/*/manifest.jsonl"),
        "predictions": SAMPLE.glob("predictions/*/*.jsonl"),
    }
    for name, paths in files.items():
        rows = [row for path in paths for row in lines(path)]
        assert len(rows) >= 10
        for row in rows:
            validator(name).validate(row)


LABELS = lines(next(SAMPLE.glob("data/*/labels.jsonl")))[0]
PREDICTIONS = lines(next(SAMPLE.glob("predictions/*/*.jsonl")))[0]
MAP = {"configuration": "a", "model": "A", "setting": "high"}


READERS: dict[str, tuple[Row, Callable[[Path], Any]]] = {
    "labels": (LABELS, mabpl.read_labels),
    "predictions": (PREDICTIONS, mabpl.read_predictions),
    "map": (MAP, read_map),
}


def reads(name: str, row: Any, file: Path) -> bool:
    """Whether the reader of such files takes a file with the one line ``row``."""
    file.write_text(json.dumps(row))
    try:
        result = READERS[name][1](file)
    except MabplError:
        return False
    return name == "map" or errors_of(result.problems).is_empty()


ABSENT = object()
_TIMELINE: list[tuple[str, Any]] = [
    *(("clip_id", bad) for bad in (ABSENT, None, "", 7, ["a"])),
    *(("segments", bad) for bad in (ABSENT, None, {}, "[]", [None], [[0, 1, "x", False]])),
    *((f"segments.{end}", bad) for end in ("start_s", "end_s") for bad in (ABSENT, None, "1.5", "0:01", True, [1])),
    *(("segments.label", bad) for bad in (ABSENT, None, 3, ["x"])),
    *(("segments.is_idle", bad) for bad in (ABSENT, None, 0, "false")),
]
BROKEN: dict[str, list[tuple[str, Any]]] = {
    "predictions": _TIMELINE,
    "labels": [
        *_TIMELINE,
        *(("segments.hands", bad) for bad in ("Left", "", 2, ["left"])),
        *(("segments.flagged", bad) for bad in (None, 1, "true")),
        *(("num_frames", bad) for bad in (-1, 12.5, "12", True)),
        *((name, bad) for name in ("source_fps", "duration_s") for bad in (0, -1, "30", False, [30])),
        *(("task_summary", bad) for bad in ("words", 1, ["x"], {"caption": 3})),
    ],
    "map": [
        *(("configuration", bad) for bad in (ABSENT, None, 3)),
        *((name, bad) for name in ("model", "setting") for bad in (3, True, ["x"])),
    ],
}
SOUND: dict[str, list[tuple[str, Any]]] = {
    "predictions": [("segments.end_s", 10**6), ("segments.label", ""), ("further", {"a": [1]}), ("segments.x", None)],
    "labels": [
        *(("segments.hands", good) for good in (ABSENT, None, "left", "right", "both")),
        ("segments.flagged", ABSENT),
        *(("num_frames", good) for good in (ABSENT, None, 0, 12.0)),
        *((name, good) for name in ("source_fps", "duration_s") for good in (ABSENT, None, 0.5, 3)),
        *(("task_summary", good) for good in (ABSENT, None, {}, {"caption": None}, {"x": 1})),
        ("operator", "op-1"),
    ],
    "map": [("model", ABSENT), ("setting", None), ("further", 1)],
}


def changed(row: Row, path: str, value: Any) -> Row:
    """``row`` with the field at ``path`` (of its second segment) set to ``value``, or taken away."""
    row = copy.deepcopy(row)
    *outer, name = path.split(".")
    owner = row["segments"][1] if outer else row
    if value is ABSENT:
        del owner[name]
    else:
        owner[name] = value
    return row


def cases(table: dict[str, list[tuple[str, Any]]]) -> list[Any]:
    return [
        pytest.param(name, path, value, id=f"{name}: {path} {'absent' if value is ABSENT else json.dumps(value)}")
        for name, changes in table.items()
        for path, value in changes
    ]


@pytest.mark.parametrize(("name", "path", "value"), cases(BROKEN))
def test_schema_and_reader_both_refuse(name: str, path: str, value: Any, tmp_path: Path) -> None:
    broken = changed(READERS[name][0], path, value)
    assert not validator(name).is_valid(broken)
    assert not reads(name, broken, tmp_path / "file.jsonl")


@pytest.mark.parametrize(("name", "path", "value"), cases(SOUND))
def test_schema_and_reader_both_accept(name: str, path: str, value: Any, tmp_path: Path) -> None:
    sound = changed(READERS[name][0], path, value)
    validator(name).validate(sound)
    assert reads(name, sound, tmp_path / "file.jsonl")


@pytest.mark.parametrize("name", ["labels", "predictions"])
def test_schema_and_reader_both_refuse_what_is_no_object(name: str, tmp_path: Path) -> None:
    for value in ([READERS[name][0]], None, 3):
        assert not validator(name).is_valid(value)
        assert not reads(name, value, tmp_path / "file.jsonl")


# --- results ---


@pytest.fixture(scope="module")
def scores() -> mabpl.Scores:
    gathered = gather(Request(root=str(SAMPLE), map_file=str(SAMPLE / "models.csv")), Settings())
    return score_files(gathered.labels, gathered.ready(Settings()), settings=Settings())


def test_score_and_joint_json_hold_what_their_schemas_name_and_no_more(scores: mabpl.Scores, tmp_path: Path) -> None:
    # Closed here, so that a field without a place in the schema fails; open in the folder, for later versions.
    for name, document_of in (("scores", score_document), ("joint", joint_document)):
        closed = schema(name)
        for definition in closed["$defs"].values():
            assert set(definition["required"]) == set(definition["properties"])
            definition["additionalProperties"] = False
        for run_name, set_name in scores.runs.select("run", "set").iter_rows():
            document = document_of(scores, run_name, set_name)
            assert document["per_clip"]
            jsonschema.Draft202012Validator(closed).validate(json.loads(json.dumps(document)))
    assert score_document(scores, *scores.runs.select("run", "set").row(0))["flip_audit"]


def conforms(frame: pl.DataFrame, table: Table, *, further: bool = False) -> None:
    """Names, types and order are the table's, nothing is null that may not be, the key is one."""
    shown = frame.select(frame.columns[: len(table.columns)]) if further else frame
    assert dict(shown.schema) == table.schema
    assert shown.columns == list(table.schema)
    nulls = {column.name: shown[column.name].null_count() for column in table.columns if not column.nullable}
    assert not any(nulls.values()), nulls
    assert shown.select(table.key).is_unique().all()
    assert not frame.is_empty()


def test_every_frame_of_a_result_is_as_its_page_says(scores: mabpl.Scores, tmp_path: Path) -> None:
    write_result_folder(scores, tmp_path / "kept")
    for result in (scores, mabpl.load_result(tmp_path / "kept")):
        frames = {name: result.table(name) for name in ("runs", "segments", "pairs", "matches", "clip_scores")}
        for name, frame in {**frames, "set_scores": result.sets}.items():
            conforms(frame, TABLES[name])
        conforms(result.table("clips"), TABLES["clips"], further=True)
        conforms(result.clips, TABLES["clip_scores"], further=True)
    stored = pl.read_parquet(tmp_path / "kept" / "set_scores.parquet")
    conforms(stored, TABLES["set_scores"])


def test_frames_of_segments_give_the_same_tables(scores: mabpl.Scores) -> None:
    human, predicted = (scores.segments.filter(pl.col("run").is_null() == side) for side in (True, False))
    result = mabpl.score(human, predicted)
    for name in ("runs", "segments", "pairs", "matches", "clip_scores"):
        conforms(result.table(name), TABLES[name])
    conforms(result.sets, TABLES["set_scores"])


def test_a_loaded_score_json_gives_the_tables_that_it_holds(scores: mabpl.Scores, tmp_path: Path) -> None:
    file = tmp_path / "a.scores.json"
    file.write_text(json.dumps(score_document(scores, *scores.runs.select("run", "set").row(0))))
    result = mabpl.load_result(file)
    for name in ("runs", "clips", "clip_scores"):
        conforms(result.table(name), TABLES[name])
    conforms(result.sets, TABLES["set_scores"])


def test_problems_are_as_their_page_says(tmp_path: Path) -> None:
    broken = changed(changed(PREDICTIONS, "segments.start_s", "1"), "segments.is_idle", ABSENT)
    file = tmp_path / "a.jsonl"
    file.write_text(f"{json.dumps(broken)}\n{{\n\n{json.dumps({**PREDICTIONS, 'clip_id': 'nowhere'})}\n")
    problems = mabpl.validate(file, mabpl.read_labels(next(SAMPLE.glob("data/*/labels.jsonl"))))[1]
    assert {"wrong-type", "missing-field", "invalid-json", "blank-line", "unknown-clip"} < set(problems["rule"])
    conforms(problems, TABLES["problems"])
