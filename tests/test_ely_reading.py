"""ely-eye's sets, indexes, manifests and atoms: each rule broken once, and found where it is broken."""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jsonschema
import make_ely_sample
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from mabpl.benchmarks.ely_eye import Benchmark, read_atoms, read_benchmark, resolve
from mabpl.benchmarks.ely_eye.rules import RULES
from mabpl.benchmarks.ely_eye.values import answer_faults
from mabpl.cli.main import run
from mabpl.data import ely_sample_folder
from mabpl.errors import InputError
from mabpl.reading import json_values
from mabpl.reading.problems import JSON_RULES
from mabpl.report.schema_pages import json_schema
from mabpl.tables.ely_eye import ATOMS, GOLD, QUERIES, SOURCES, SYMBOLS

SAMPLE = ely_sample_folder()
Row = dict[str, Any]
Change = Callable[[Row], Any]
Found = tuple[str, str, int | None, str | None]
"""Rule, file, line, field."""

seen: set[str] = set()
"""The rules that a test of this file has seen broken."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return shutil.copytree(SAMPLE, tmp_path / "ely", ignore=shutil.ignore_patterns("runs", "fine.jsonl"))


def edit(root: Path, file: str, line: int, change: Change | bytes) -> None:
    """Changes one line; ``change`` gives the new row, or None where it changed the one that it got."""
    lines = (root / file).read_bytes().splitlines()
    if isinstance(change, bytes):
        lines[line - 1] = change
    else:
        row = json.loads(lines[line - 1])
        lines[line - 1] = json.dumps(change(row) or row).encode()
    (root / file).write_bytes(b"\n".join(lines) + b"\n")


def freeze(root: Path) -> None:
    """Makes the digests true again."""
    path = root / "sets/manifest.json"
    files = [item["path"] for item in json.loads(path.read_text())["files"]]
    digests = {f: hashlib.sha256((root / f).read_bytes()).hexdigest() for f in files if (root / f).exists()}
    path.write_text(json.dumps({"files": [{"path": f, "sha256": d} for f, d in digests.items()]}))


def found(root: Path, benchmark: Benchmark | None = None) -> list[Found]:
    """What is wrong, beside the one entry of the sample that is void."""
    problems = (benchmark or read_benchmark(root)).problems
    rows = problems.with_columns(pl.col("file").str.strip_prefix(f"{root}/")).filter(
        ~((pl.col("rule") == "unknown-revision") & (pl.col("clip_id") == "greenhouse-image:void"))
    )
    seen.update(rows["rule"])
    assert rows["message"].null_count() == rows["hint"].null_count() == 0
    assert all(RULES[rule].severity == severity or rule in ("unanswerable-share", "file-missing")
               for rule, severity in rows.select("rule", "severity").iter_rows())  # fmt: skip
    return [tuple(row) for row in rows.select("rule", "file", "line", "field").rows()]  # type: ignore[misc]


def put(path: str, value: Any) -> Change:
    """Sets what ``path`` (keys and positions, with dots) names; ``...`` removes it."""

    def change(row: Row) -> None:
        *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
        at: Any = row
        for part in parents:
            at = at[part]
        if value is ...:
            del at[last]
        else:
            at[last] = value

    return change


PDF, IMAGE, UI, VIDEO, CODE, TALK = (f"sets/{name}.jsonl" for name in make_ely_sample.SCENARIOS)
INDEX = "sets/corpus/pdf.jsonl"
LATER = "2026-05-01T00:00:00+00:00"


def test_the_generator_makes_the_bundled_files_byte_for_byte(tmp_path: Path) -> None:
    make_ely_sample.make(tmp_path)
    made = {path.relative_to(tmp_path): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    bundled = [path for path in SAMPLE.rglob("*") if path.is_file() and path.name != "README.md"]
    assert made == {path.relative_to(SAMPLE): path.read_bytes() for path in bundled}
    assert sum(map(len, made.values())) < 200_000


def test_the_sample_is_valid_and_has_all_that_it_should_show() -> None:
    benchmark = read_benchmark(SAMPLE)
    assert found(SAMPLE, benchmark) == []
    queries = benchmark.queries
    assert queries.height == 39 and benchmark.void == 1 and queries["unanswerable"].sum() == 11
    assert queries["modality"].n_unique() == 6 and queries["holder"].n_unique() == 3
    assert set(queries["split"]) == {"dev", "test"}
    assert 0 < queries["as_of"].null_count() < 5
    sources = benchmark.sources
    unanswered = queries.filter("unanswerable").select("question")
    answered_for_others = queries.filter(~pl.col("unanswerable")).join(unanswered, on="question")
    assert answered_for_others["holder"].n_unique() == 3
    later = (
        benchmark.gold.join(queries, on="query_id")
        .join(sources.select("holder", "observed_at"), on="holder")
        .filter(pl.col("observed_at") > pl.col("as_of"))
    )
    assert later.height > 0
    assert benchmark.sha256("set").keys() == {f"sets/{name}.jsonl" for name in make_ely_sample.SCENARIOS}
    assert benchmark.sha256("manifest") == {
        "corpus/manifest.jsonl": hashlib.sha256((SAMPLE / "corpus/manifest.jsonl").read_bytes()).hexdigest()
    }


def test_tables_have_their_schemas_and_hold_what_the_lines_say() -> None:
    benchmark = read_benchmark(SAMPLE)
    frames = (benchmark.queries, benchmark.gold, benchmark.sources, benchmark.symbols)
    for table, frame in zip((QUERIES, GOLD, SOURCES, SYMBOLS), frames, strict=True):
        assert frame.schema == table.schema
        assert frame.equals(frame.sort(table.key))
        assert not any(frame[c.name].null_count() for c in table.columns if not c.nullable)
    query = benchmark.queries.row(by_predicate=pl.col("query_id") == "greenhouse-pdf:1", named=True)
    assert query["as_of"] == datetime(2026, 2, 1, tzinfo=UTC)
    assert (query["set"], query["file"], query["line"]) == ("pdf", "sets/pdf.jsonl", 2)
    gold = {row["query_id"]: row for row in benchmark.gold.iter_rows(named=True)}
    assert (gold["greenhouse-pdf:1"]["page"], gold["greenhouse-pdf:1"]["block"]) == (1, 1)
    assert [gold["greenhouse-ui_screenshot:0"][n] for n in ("x0", "y0", "x1", "y1")] == [8, 8, 48, 28]
    assert gold["greenhouse-code:0"]["symbol"] == "Ledger.balance"
    assert gold["greenhouse-conversation:0"]["turn"] == 4
    assert benchmark.scored_gold("dev").height + benchmark.scored_gold("test").height == benchmark.gold.height - 1


# --- lines of sets ---

FIELDS = [
    "query_id", "modality", "question", "answer", "answer_format", "gold", "scope", "as_of", "unanswerable", "origin",
    "split", "scope.holder", "scope.session", "scope.scenario", "origin.dataset", "origin.revision", "origin.item",
    "origin.license", "gold.0.source_id", "gold.0.region",
]  # fmt: skip


def test_every_field_of_section_1_must_be_there(root: Path) -> None:
    row = json.loads((root / PDF).read_text().splitlines()[2])
    rows = [json.loads(json.dumps(row)) | {"query_id": f"q{i}"} for i in range(len(FIELDS))]
    for field, lacking in zip(FIELDS, rows, strict=True):
        put(field, ...)(lacking)
    (root / PDF).write_text("".join(json.dumps(row) + "\n" for row in rows))
    freeze(root)
    assert found(root)[: len(FIELDS)] == [
        ("missing-field", PDF, line, field.replace(".0.", "[0].")) for line, field in enumerate(FIELDS, 1)
    ]


QUERY_CASES: list[tuple[str, int, Change | bytes, list[tuple[str, str | None]]]] = [
    (PDF, 2, b'{"query_id": "x", ', [("invalid-json", None)]),
    (PDF, 2, b'{"query_id": "\xff"}', [("encoding", None)]),
    (PDF, 2, b"", [("blank-line", None)]),
    (PDF, 2, put("question", 5), [("wrong-type", "question")]),
    (PDF, 2, put("question", ""), [("wrong-type", "question")]),
    (PDF, 2, put("unanswerable", "no"), [("wrong-type", "unanswerable")]),
    (PDF, 2, put("modality", "sound"), [("wrong-value", "modality")]),
    (PDF, 2, put("answer_format", "text"), [("wrong-value", "answer_format")]),
    (PDF, 2, put("split", "train"), [("wrong-value", "split")]),
    (PDF, 2, put("note", 1), [("unknown-field", "note")]),
    (PDF, 2, put("scope.team", 1), [("unknown-field", "scope.team")]),
    (PDF, 2, put("as_of", "2026-03-01T00:00:00"), [("no-zone", "as_of")]),
    (PDF, 2, put("as_of", "2026-03-01"), [("no-zone", "as_of")]),
    (PDF, 2, put("as_of", "yesterday"), [("time-value", "as_of")]),
    (PDF, 2, put("scope.as_of", LATER), [("as-of-twice", "scope.as_of")]),
    (PDF, 2, put("query_id", "greenhouse-pdf:0"), [("duplicate-query", "query_id")]),
    (PDF, 2, put("answer", None), [("answer-format", "answer_format"), ("answer-unanswerable", "answer")]),
    (PDF, 8, put("answer", "4"), [("answer-format", "answer_format"), ("answer-unanswerable", "answer")]),
    (PDF, 8, put("answer_format", "str"), [("answer-format", "answer_format")]),
    (PDF, 3, put("answer", "five"), [("answer-format", "answer_format")]),
    (PDF, 2, put("gold", []), [("missing-gold", "gold")]),
    (PDF, 8, put("gold", [{"source_id": "pdf:notice", "region": {"page": 1}}]), [("gold-on-unanswerable", "gold")]),
    (PDF, 2, put("gold.0.atom_id", "a"), [("gold-atom-id", "gold[0].atom_id")]),
    (PDF, 2, put("gold.0.region.atom_ids", ["a"]), [("gold-atom-id", "gold[0].region.atom_ids")]),
    (PDF, 2, put("gold.0.why", "a"), [("unknown-field", "gold[0].why")]),
    (PDF, 4, lambda row: put("gold.1", row["gold"][0])(row), [("duplicate-gold", "gold[1]")]),
    (PDF, 2, put("gold.0.region", {}), [("region-keys", "gold[0].region")]),
    (PDF, 2, put("gold.0.region", {"block": 1}), [("region-keys", "gold[0].region")]),
    (PDF, 2, put("gold.0.region.turn", 1), [("region-keys", "gold[0].region")]),
    (IMAGE, 1, put("gold.0.region", {"bbox": [0, 0, 1, 1]}), [("region-keys", "gold[0].region")]),
    (UI, 1, put("gold.0.region", {}), [("region-keys", "gold[0].region")]),
    (VIDEO, 1, put("gold.0.region", {"t_start": 1}), [("region-keys", "gold[0].region")]),
    (CODE, 1, put("gold.0.region", {"path": "a"}), [("region-keys", "gold[0].region")]),
    (CODE, 1, put("gold.0.region.line", 1), [("region-keys", "gold[0].region")]),
    (TALK, 1, put("gold.0.region", {"page": 1}), [("region-keys", "gold[0].region")]),
    (PDF, 2, put("gold.0.region.page", 0), [("region-value", "gold[0].region.page")]),
    (PDF, 2, put("gold.0.region.page", True), [("region-value", "gold[0].region.page")]),
    (PDF, 2, put("gold.0.region.block", -1), [("region-value", "gold[0].region.block")]),
    (UI, 1, put("gold.0.region.bbox", [9, 0, 9, 5]), [("region-value", "gold[0].region.bbox")]),
    (UI, 1, put("gold.0.region.bbox", [0, 5, 9, 1]), [("region-value", "gold[0].region.bbox")]),
    (UI, 1, put("gold.0.region.bbox", [0, 5, 9]), [("region-value", "gold[0].region.bbox")]),
    (UI, 1, put("gold.0.region.bbox", [0, 5, float("inf"), 9]), [("non-finite", "gold[0].region.bbox[2]"),
                                                                 ("region-value", "gold[0].region.bbox")]),
    (VIDEO, 1, put("gold.0.region.t_end", 12.0), [("region-value", "gold[0].region.t_end")]),
    (VIDEO, 1, put("gold.0.region.t_start", -1), [("region-value", "gold[0].region.t_start")]),
    (CODE, 2, put("gold.0.region.line", 0), [("region-value", "gold[0].region.line")]),
    (CODE, 1, put("gold.0.region.symbol", ""), [("region-value", "gold[0].region.symbol")]),
    (TALK, 1, put("gold.0.region.turn", -1), [("region-value", "gold[0].region.turn")]),
    (PDF, 2, put("gold.0.source_id", "pdf:lost"), [("unknown-source", "gold[0].source_id")]),
    (PDF, 7, put("gold.0.source_id", "image:door"), [("modality-mismatch", "gold[0].source_id")]),
    (PDF, 1, put("gold.0.source_id", "pdf:budget"), [("holder-mismatch", "gold[0].source_id")]),
    (PDF, 1, put("as_of", "2026-03-02T09:59:59.999999+00:00"), [("gold-after-as-of", "gold[0].source_id")]),
    (PDF, 1, put("as_of", "2026-03-02T11:00:00+01:00"), []),
    (PDF, 1, put("as_of", "2026-03-02T11:00:00+02:00"), [("gold-after-as-of", "gold[0].source_id")]),
    (PDF, 2, put("gold.0.region.page", 4), [("outside-source", "gold[0].region")]),
    (UI, 1, put("gold.0.region.bbox", [0, 0, 121, 9]), [("outside-source", "gold[0].region")]),
    (VIDEO, 2, put("gold.0.region.t_end", 41), [("outside-source", "gold[0].region"),
                                                ("gold-spans-source", "gold[0].region")]),
    (VIDEO, 1, put("gold.0.region", {"t_start": 0, "t_end": 40}), [("gold-spans-source", "gold[0].region")]),
    (UI, 1, put("gold.0.region.bbox", [0, 0, 120, 80]), [("gold-spans-source", "gold[0].region")]),
    (TALK, 1, put("gold.0.region.turn", 7), [("outside-source", "gold[0].region")]),
    (CODE, 1, put("gold.0.region.symbol", "lost"), [("outside-source", "gold[0].region")]),
    (CODE, 1, put("gold.0.region.path", "lost.py"), [("outside-source", "gold[0].region")]),
    (PDF, 2, put("origin.revision", "2026-04"), [("unknown-revision", "origin.revision")]),
    (PDF, 2, put("origin.revision", "04-01"), [("unknown-revision", "origin.revision")]),
]  # fmt: skip


@pytest.mark.parametrize(("file", "line", "change", "expected"), QUERY_CASES)
def test_rules_of_a_set(
    root: Path, file: str, line: int, change: Change | bytes, expected: list[tuple[str, str | None]]
) -> None:
    edit(root, file, line, change)
    freeze(root)
    assert sorted(found(root), key=str) == sorted([(rule, file, line, field) for rule, field in expected], key=str)


def test_a_key_twice_a_byte_order_mark_and_a_line_cut_off_are_found(root: Path) -> None:
    lines = (root / PDF).read_bytes().splitlines()
    lines[1] = lines[1].replace(b'"page": 1', b'"page": 2, "page": 1')
    (root / PDF).write_bytes(b"\xef\xbb\xbf" + b"\n".join(lines)[:-5])
    freeze(root)
    assert found(root) == [
        ("byte-order-mark", PDF, 1, None),
        ("duplicate-key", PDF, 2, "gold[0].region.page"),
        ("invalid-json", PDF, 9, None),
        ("unanswerable-share", PDF, None, "unanswerable"),
    ]


def test_all_that_is_wrong_with_a_line_is_told_and_it_is_in_no_table(root: Path) -> None:
    def change(row: Row) -> None:
        row.update(split="x", as_of="y", answer_format="list")
        row["gold"] += [{"source_id": 5, "region": {"page": 0}}]

    edit(root, PDF, 1, change)
    freeze(root)
    benchmark = read_benchmark(root)
    assert sorted(field for _, _, line, field in found(root, benchmark) if line == 1) == [
        "answer_format", "as_of", "gold[1].region.page", "gold[1].source_id", "split",
    ]  # fmt: skip
    assert "greenhouse-pdf:0" not in [*benchmark.queries["query_id"], *benchmark.gold["query_id"]]


def test_an_id_in_two_sets_is_told_once_and_neither_is_kept(root: Path) -> None:
    edit(root, VIDEO, 3, put("query_id", "greenhouse-code:0"))
    freeze(root)
    benchmark = read_benchmark(root)
    assert found(root, benchmark) == [("duplicate-query", VIDEO, 3, "query_id")]
    assert "greenhouse-code:0" not in benchmark.queries["query_id"]
    assert f"line 1 of {CODE}" in benchmark.problems.filter(rule="duplicate-query")["message"][0]


def test_void_entries_are_kept_marked_and_do_not_count(root: Path) -> None:
    for line in range(1, 10):
        edit(root, PDF, line, put("origin.revision", "gone"))
    freeze(root)
    benchmark = read_benchmark(root)
    assert benchmark.void == 10
    assert [rule for rule, *_ in found(root, benchmark)] == ["unknown-revision"] * 9
    assert benchmark.scored_gold().join(benchmark.queries.filter("void"), on="query_id").is_empty()


def test_few_unanswerable_queries_warn_for_a_file_and_fail_over_all(root: Path) -> None:
    def drop(file: str) -> None:
        lines = (root / file).read_bytes().splitlines(keepends=True)
        (root / file).write_bytes(b"".join(line for line in lines if b'"unanswerable": false' in line))

    drop(PDF)
    freeze(root)
    assert found(root) == [("unanswerable-share", PDF, None, "unanswerable")]
    assert read_benchmark(root).problems.filter(rule="unanswerable-share")["severity"].to_list() == ["warning"]
    for file in (IMAGE, UI, VIDEO):
        drop(file)
    freeze(root)
    shares = read_benchmark(root).problems.filter(rule="unanswerable-share").select("severity", "message").rows()
    assert shares[0] == ("error", "4 of 31 queries are unanswerable")
    assert [severity for severity, _ in shares[1:]] == ["warning"] * 4


def test_as_of_may_stand_in_the_scope(root: Path) -> None:
    def change(row: Row) -> None:
        row["scope"]["as_of"] = row.pop("as_of")

    edit(root, PDF, 2, change)
    freeze(root)
    assert found(root) == []
    assert read_benchmark(root).queries.equals(read_benchmark(SAMPLE).queries)


NUMBER = {"int", "float", "str"}


@pytest.mark.parametrize(
    ("answer", "fits"),
    [
        ("5", NUMBER), ("1,204", NUMBER), ("$1,204.50", {"float", "str"}), ("5.0", NUMBER), ("19%", NUMBER),
        ("-.5", {"float", "str"}), ("1e-3", {"float", "str"}),
        ("1,2", {"str"}), ("five", {"str"}), ("['a', 'b']", {"list", "str"}), ('["a", null]', {"list", "str"}),
        ("[a", {"str"}), ("[a]", {"str"}), (" ", set()), (5, {"int", "float"}), (5.5, {"float"}), (["a"], {"list"}),
        (None, {"none"}), (True, set()), ({}, set()), ("[" * 9999 + "]" * 9999, {"str"}),
    ],
)  # fmt: skip
def test_which_formats_an_answer_fits(answer: Any, fits: set[str]) -> None:
    formats = ("str", "int", "float", "list", "none")
    assert {f for f in formats if not answer_faults(answer, f, answer is None)} == fits


JUNK = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 2**70), st.floats(), st.text(max_size=3), st.just([]), st.just({}),
    st.just([[1.0]]), st.just({"page": 1.0}), st.just(1e999), st.sampled_from(["\ud800", "2026-01-01T00:00:00+99:99"]),
)  # fmt: skip


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whatever_stands_in_a_line_is_told_or_read_but_never_raises(
    root: Path, benchmark: Benchmark, data: st.DataObject
) -> None:
    file = data.draw(st.sampled_from([PDF, UI, CODE, INDEX, MANIFEST, "sets/manifest.json", "atoms/coarse.jsonl"]))
    kept = (root / file).read_bytes()
    row = json.loads(kept.splitlines()[0] if file.endswith("l") else kept)
    at: Any = row
    while True:
        key = data.draw(st.sampled_from(sorted(at) if isinstance(at, dict) else range(len(at))))
        if not isinstance(at[key], dict | list) or not at[key] or data.draw(st.booleans()):
            break
        at = at[key]
    at[key] = data.draw(JUNK)
    (root / file).write_bytes(json.dumps(row).encode() + b"\n" + b"\n".join(kept.splitlines()[1:]))
    try:
        read = read_benchmark(root)
        held = read_atoms(root / "atoms/coarse.jsonl", benchmark.sources)
    finally:
        (root / file).write_bytes(kept)
    for table, frame in ((QUERIES, read.queries), (GOLD, read.gold), (ATOMS, held.atoms)):
        assert frame.schema == table.schema
        assert not any(frame[column.name].null_count() for column in table.columns if not column.nullable)


# --- corpus indexes ---

INDEX_CASES: list[tuple[Change | bytes, list[Found]]] = [
    (put("holder", ...), [("missing-field", INDEX, 4, "holder"), ("unknown-source", PDF, 7, "gold[0].source_id")]),
    (put("source_id", "pdf:manual"), [("duplicate-source", INDEX, 4, "source_id"),
                                      ("unknown-source", PDF, 7, "gold[0].source_id")]),
    (put("pages", 0), [("wrong-type", INDEX, 4, "pages"), ("unknown-source", PDF, 7, "gold[0].source_id")]),
    (put("modality", "paper"), [("wrong-value", INDEX, 4, "modality"),
                                ("unknown-source", PDF, 7, "gold[0].source_id")]),
    (put("observed_at", "2026-01-15T08:00:00"), [("no-zone", INDEX, 4, "observed_at"),
                                                 ("unknown-observed-at", PDF, 7, "gold[0].source_id")]),
    (put("observed_at", None), [("unknown-observed-at", PDF, 7, "gold[0].source_id")]),
    (put("observed_at", LATER), [("gold-after-as-of", PDF, 7, "gold[0].source_id")]),
    (put("modality", ...), []),
    (put("title", "Notice"), []),
    (put("symbols", [{"path": "a", "symbol": "f", "line_start": 5, "line_end": 4}]),
     [("region-value", INDEX, 4, "symbols[0].line_end")]),
]  # fmt: skip


@pytest.mark.parametrize(("change", "expected"), INDEX_CASES)
def test_rules_of_an_index(root: Path, change: Change | bytes, expected: list[Found]) -> None:
    edit(root, INDEX, 4, change)
    freeze(root)
    assert sorted(found(root), key=str) == sorted(expected, key=str)


def test_a_source_that_is_given_twice_is_in_no_table(root: Path) -> None:
    edit(root, INDEX, 4, put("source_id", "pdf:manual"))
    freeze(root)
    sources = set(read_benchmark(root).sources["source_id"])
    assert {"pdf:manual", "pdf:notice"}.isdisjoint(sources) and "pdf:budget" in sources


def test_an_index_may_name_its_fields_otherwise_and_lie_elsewhere(root: Path) -> None:
    def other(row: Row) -> Row:
        scope = {"holder": row["holder"], "observed_at": row["observed_at"]}
        return {"id": row["source_id"], "scope": scope, "page_count": row["pages"]}

    edit(root, INDEX, 1, lambda row: {"num_pages": row.pop("pages"), **row})
    for line in range(2, 5):
        edit(root, INDEX, line, other)
    moved = root / "corpus/index-pdf.jsonl"
    (root / INDEX).rename(moved)
    manifest = json.loads((root / "sets/manifest.json").read_text())
    next(item for item in manifest["files"] if item["path"] == INDEX)["path"] = "corpus/index-pdf.jsonl"
    (root / "sets/manifest.json").write_text(json.dumps(manifest))
    freeze(root)
    assert found(root) == []
    kept = ["source_id", "modality", "holder", "observed_at", "pages", "line"]
    assert read_benchmark(root).sources.select(kept).equals(read_benchmark(SAMPLE).sources.select(kept))


@pytest.mark.parametrize("other", ["num_pages", "\\u006eum_pages"])
def test_a_field_that_need_not_be_there_may_be_named_otherwise_on_every_line(root: Path, other: str) -> None:
    text = (
        (root / INDEX)
        .read_text()
        .replace('"pages"', f'"{other}"')
        .replace('"observed_at"', '"title": "", "created_at"')
    )
    (root / INDEX).write_text(text)
    freeze(root)
    kept = ["source_id", "modality", "holder", "observed_at", "pages", "line"]
    assert read_benchmark(root).sources.select(kept).equals(read_benchmark(SAMPLE).sources.select(kept))


def test_further_fields_of_an_index_do_not_make_it_slow(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / INDEX).write_text((root / INDEX).read_text().replace('"pages"', '"title": "\\u5982", "pages"'))
    freeze(root)
    monkeypatch.setattr(json_values, "loads", None)  # what lines are read with one by one
    assert read_benchmark(root).sources.equals(read_benchmark(SAMPLE).sources)


def test_what_an_index_has_instead_is_named(root: Path) -> None:
    edit(root, INDEX, 4, lambda row: {"source_id": "x", "keeper": "tom"})
    freeze(root)
    problem = read_benchmark(root).problems.filter(rule="missing-field").row(0, named=True)
    assert "keeper, source_id" in problem["message"] and problem["field"] == "holder"


# --- manifests and digests ---

MANIFEST = "corpus/manifest.jsonl"
MANIFEST_CASES: list[tuple[Change, list[tuple[str, str]]]] = [
    *((put(name, ...), [("missing-field", name)]) for name in ("url", "retrieved_at", "sha256", "annotation_source")),
    (put("license", ...), [("missing-field", "license")]),
    (put("files", ...), [("missing-field", "files")]),
    (put("files", []), [("no-files", "files")]),
    (put("sha256", "abc"), [("sha256-value", "sha256")]),
    (put("files.0.sha256", "abc"), [("sha256-value", "files[0]")]),
    (put("files.0.path", ...), [("missing-field", "files[0]")]),
    (put("files.0", 5), [("wrong-type", "files[0]")]),
    (put("files.0.path", "../../secret"), [("path-outside", "files[0]")]),
    (put("files.0.path", "/etc/hostname"), [("path-outside", "files[0]")]),
    (put("files.0.sha256", "0" * 64), [("digest-drift", "files[0]")]),
    (put("files.0.path", "files/gone.pdf"), [("file-missing", "files[0]")]),
    (put("files.0.sha256", ...), [("not-checked", "files[0]")]),
    (put("retrieved_at", "soon"), [("time-value", "retrieved_at")]),
    (put("retrieved_at", "2026-04-02"), []),
    (put("retrieved_at", "2026-13-45"), [("time-value", "retrieved_at")]),
    (put("annotation_source", "model"), [("own-annotation", "annotation_source")]),
    (put("annotation_source", "made by ely-eye"), [("own-annotation", "annotation_source")]),
]


@pytest.mark.parametrize(("change", "expected"), MANIFEST_CASES)
def test_rules_of_the_corpus_manifest(root: Path, change: Change, expected: list[tuple[str, str]]) -> None:
    edit(root, MANIFEST, 1, change)
    freeze(root)
    assert [f for f in found(root) if f[0] != "unknown-revision"] == [
        (rule, MANIFEST, 1, field) for rule, field in expected
    ]


def test_a_revision_without_files_voids_its_entries(root: Path) -> None:
    for line in range(1, 7):
        edit(root, MANIFEST, line, put("files", []))
    freeze(root)
    assert read_benchmark(root).queries["void"].all()


def test_every_frozen_file_is_hashed_anew(root: Path) -> None:
    frozen = [item["path"] for item in json.loads((root / "sets/manifest.json").read_text())["files"]]
    content = [p.relative_to(root).as_posix() for p in (root / "corpus/files").rglob("*") if p.is_file()]
    for file in (*frozen, *content):
        with (root / file).open("ab") as opened:
            opened.write(b"\n")
    problems = read_benchmark(root).problems.filter(rule="digest-drift")
    assert sorted(problems["clip_id"]) == sorted([*frozen, *(f.removeprefix("corpus/") for f in content)])
    assert set(problems["severity"]) == {"error"}


def test_files_that_are_missing_or_not_frozen(root: Path) -> None:
    shutil.rmtree(root / "corpus/files/video")
    listed = [item["path"] for item in json.loads((root / "sets/manifest.json").read_text())["files"]]
    (root / PDF).rename(root / "sets/papers.jsonl")
    assert set(found(root)) == {
        ("file-missing", MANIFEST, 4, "files[0]"),
        ("file-missing", MANIFEST, 4, "files[1]"),
        ("file-missing", "sets/manifest.json", None, f"files[{listed.index(PDF)}]"),
        ("not-frozen", "sets/papers.jsonl", None, None),
    }
    severities = read_benchmark(root).problems.filter(rule="file-missing").select("file", "severity").rows()
    assert {(Path(file).name, severity) for file, severity in severities} == {
        ("manifest.jsonl", "warning"), ("manifest.json", "error"),
    }  # fmt: skip


def test_a_file_with_two_digests(root: Path) -> None:
    path = root / "sets/manifest.json"
    manifest = json.loads(path.read_text())
    manifest["files"].append({"path": "pdf.jsonl", "sha256": "1" * 64})
    path.write_text(json.dumps(manifest))
    assert {rule for rule, *_ in found(root)} == {"digest-conflict", "digest-drift"}


SHAPES: list[Callable[[dict[str, str]], Any]] = [
    lambda digests: digests,
    lambda digests: {"version": 1, "files": digests},
    lambda digests: {"frozen_at": "2026-04-02", **{name: {"sha256": d, "rows": 9} for name, d in digests.items()}},
    lambda digests: [{"file": f"ely/{name}", "sha256": f"sha256:{d.upper()}"} for name, d in digests.items()],
    lambda digests: {"files": [{"name": name.removeprefix("sets/"), "sha256": d} for name, d in digests.items()]},
]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("lines", [False, True])
def test_shapes_of_the_manifest_of_sets(root: Path, shape: Callable[[dict[str, str]], Any], lines: bool) -> None:
    path = root / "sets/manifest.json"
    digests = {item["path"]: item["sha256"] for item in json.loads(path.read_text())["files"]}
    value = shape(digests)
    if lines:
        path.unlink()
        path = path.with_suffix(".jsonl")
    path.write_text("\n".join(map(json.dumps, value if lines and isinstance(value, list) else [value])))
    assert found(root) == []
    (root / PDF).write_bytes((root / PDF).read_bytes() + b"\n")
    assert "digest-drift" in {rule for rule, *_ in found(root)}


def test_a_manifest_of_sets_that_cannot_be_read_is_told(root: Path) -> None:
    (root / "sets/manifest.json").write_text('{"rows": 9}')
    assert ("missing-field", "sets/manifest.json", None, None) in found(root)
    (root / "sets/manifest.json").write_text("{")
    assert [rule for rule, *_ in found(root) if rule != "unknown-revision"] == ["invalid-json"]


def test_what_a_benchmark_must_have(root: Path) -> None:
    for name in ("sets/manifest.json", MANIFEST):
        (root / name).unlink()
    rules = [rule for rule, *_ in found(root)]
    assert rules.count("no-manifest") == 2
    shutil.rmtree(root / "sets/corpus")
    assert "no-index" in [rule for rule, *_ in found(root)]
    for path in (root / "sets").glob("*.jsonl"):
        path.write_text('{"name": 1}\n')
    assert {"no-sets", "unknown-content"} <= {rule for rule, *_ in found(root)}
    (root / PDF).write_text("")
    assert ("no-row", PDF, None, None) in found(root)


def test_a_folder_that_is_none_and_a_bench_inside_a_repository(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="sets"):
        read_benchmark(tmp_path)
    shutil.copytree(SAMPLE, tmp_path / "bench")
    benchmark = read_benchmark(tmp_path)
    assert benchmark.queries.height == 39
    assert benchmark.problems["file"].to_list() == [f"{tmp_path}/bench/sets/image.jsonl"]


# --- atoms ---

FINE = SAMPLE / "atoms/fine.jsonl"


@pytest.fixture(scope="module")
def benchmark() -> Benchmark:
    return read_benchmark(SAMPLE)


def an_atom(modality: str, **region: Any) -> Row:
    of = {"pdf": "pdf:manual", "image": "image:tray", "ui_screenshot": "ui_screenshot:panel", "video": "video:lamp",
          "code": "code:tools", "conversation": "conversation:keys"}  # fmt: skip
    return {"atom_id": "a", "source_id": of[modality], "region": region}


ATOM_CASES: list[tuple[Row, str | None, str | None]] = [
    (an_atom("pdf"), None, None),
    (an_atom("pdf", page=2, block=0), None, None),
    (an_atom("pdf", page_start=1, page_end=3), None, None),
    (an_atom("image", bbox=[0, 0, 5, 5]), None, None),
    (an_atom("video", t=3.5), None, None),
    (an_atom("code", path="ledger.py", symbol="overdue"), None, None),
    (an_atom("code", path="ledger.py", line_start=1, line_end=9, symbols=[]), None, None),
    (an_atom("conversation", turn_start=0, turn_end=2), None, None),
    (an_atom("pdf") | {"source_id": ...}, "missing-field", "source_id"),
    (an_atom("pdf", page="1"), "wrong-type", "region.page"),
    (an_atom("pdf", page=0), "wrong-type", "region.page"),
    (an_atom("pdf", paragraph=1), "unknown-key", "region.paragraph"),
    (an_atom("pdf", turn=1), "region-keys", "region"),
    (an_atom("pdf", page_start=1), "region-keys", "region"),
    (an_atom("pdf", page=1, page_end=2), "region-keys", "region"),
    (an_atom("pdf", page_start=1, page_end=2, block=0), "region-keys", "region"),
    (an_atom("pdf", block=0), "region-keys", "region"),
    (an_atom("pdf", page_start=3, page_end=2), "region-value", "region.page_end"),
    (an_atom("ui_screenshot", bbox=[0, 0, 5]), "region-value", "region.bbox"),
    (an_atom("ui_screenshot", bbox=[5, 0, 5, 5]), "region-value", "region.x1"),
    (an_atom("ui_screenshot", bbox=[-1, 0, 5, 5]), "region-value", "region.x0"),
    (an_atom("video", t_start=5, t_end=4), "region-value", "region.t_end"),
    (an_atom("video", t_start=5), "region-keys", "region"),
    (an_atom("video", t_start=5, t_end=1e12), "region-value", "region.t_end"),
    (an_atom("code", line_start=1, line_end=2), "region-keys", "region"),
    (an_atom("code", path="ledger.py", symbols=[]), "region-value", "region.symbols"),
    (an_atom("pdf") | {"source_id": "pdf:lost"}, "unknown-source", "source_id"),
    (an_atom("pdf") | {"modality": "image"}, "modality-mismatch", "modality"),
    (an_atom("pdf") | {"holder": "tom"}, "holder-mismatch", "holder"),
    (an_atom("pdf") | {"observed_at": "2026-01-10T09:59:59+00:00"}, "observed-before-source", "observed_at"),
    (an_atom("pdf") | {"observed_at": "2026-01-10"}, "no-zone", "observed_at"),
    (an_atom("conversation", turn=1) | {"atom_id": "b"}, "duplicate-atom", "atom_id"),
]


@pytest.mark.parametrize(("atom", "rule", "field"), ATOM_CASES)
def test_rules_of_atoms(tmp_path: Path, benchmark: Benchmark, atom: Row, rule: str | None, field: str | None) -> None:
    path = tmp_path / "atoms.jsonl"
    rows = [an_atom("image") | {"atom_id": "b"}, {k: v for k, v in atom.items() if v is not ...}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    held = read_atoms(path, benchmark.sources)
    seen.update(held.problems["rule"])
    assert held.problems.select("rule", "file", "line", "field").rows() == (
        [(rule, str(path), 2, field)] if rule else []
    )
    assert held.atoms["atom_id"].to_list() == (
        [] if rule == "duplicate-atom" else ["a", "b"] if rule is None else ["b"]
    )
    assert held.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("atom", "told"),
    [
        (an_atom("pdf", page=4), "starts at page_start = 4; the source has pages = 3"),
        (an_atom("ui_screenshot", bbox=[120, 0, 130, 9]), "starts at x0 = 120.0; the source has width = 120.0"),
        (an_atom("ui_screenshot", bbox=[0, 80, 9, 90]), "starts at y0 = 80.0; the source has height = 80.0"),
        (an_atom("video", t=3500), "starts at t_start = 3500.0; the source has duration_s = 40.0"),
        (an_atom("conversation", turn=5), "starts at turn_start = 5; the source has turns = 5"),
        (an_atom("code", path="sensor.py", line=13) | {"source_id": "code:sensor"},
         "starts at line_start = 13; the source has lines = 12"),
    ],
)  # fmt: skip
def test_an_atom_that_starts_beyond_its_source_is_kept_and_told(
    tmp_path: Path, benchmark: Benchmark, atom: Row, told: str
) -> None:
    """Another unit, or counted from another number: no gold would ever meet it."""
    path = tmp_path / "atoms.jsonl"
    path.write_text(json.dumps(atom) + "\n")
    held = read_atoms(path, benchmark.sources)
    columns = held.problems.select("severity", "rule", "field", "message")
    assert columns.rows() == [("warning", "outside-source", "region", told)]
    assert held.atoms.height == 1


@pytest.mark.parametrize(
    ("atom", "told"),
    [
        (an_atom("image", page=1), "has pages; the region of image has bbox"),
        (an_atom("pdf", bbox=[0, 0, 1, 1], t=3), "has bbox, times; the region of pdf has pages, block"),
    ],
)
def test_a_region_of_another_modality_is_told_in_words_of_either_format(
    tmp_path: Path, benchmark: Benchmark, atom: Row, told: str
) -> None:
    path = tmp_path / "atoms.jsonl"
    path.write_text(json.dumps(atom) + "\n")
    assert read_atoms(path, benchmark.sources).problems["message"].to_list() == [told]


def test_further_fields_of_atoms_are_ignored_and_keys_given_twice_are_not(
    tmp_path: Path, benchmark: Benchmark, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many lines have them, they are not read one by one."""
    path, plain = tmp_path / "atoms.jsonl", read_atoms(FINE, benchmark.sources).atoms
    rows = [json.loads(line) | {"text": 'a "word"', "more": {"x": [1]}} for line in FINE.read_text().splitlines()]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with monkeypatch.context() as patched:
        patched.setattr(json_values, "loads", None)
        held = read_atoms(path, benchmark.sources)
    assert held.problems.is_empty()
    assert_frame_equal(held.atoms, plain)
    twice = json.dumps(rows[2]).replace('"region": {', '"atom_id": "b", "region": {"page": 1, ')
    path.write_text("".join(json.dumps(row) + "\n" for row in rows[:2]) + twice + "\n")
    assert [*read_atoms(path, benchmark.sources).problems.select("rule", "line", "field").rows()] == [
        ("duplicate-key", 3, "atom_id"), ("duplicate-key", 3, "region.page"),
    ]  # fmt: skip


def test_a_box_that_is_none_is_shown(root: Path) -> None:
    edit(root, UI, 1, put("gold.0.region.bbox", [9, 0, 9, 5]))
    message = read_benchmark(root).problems.filter(rule="region-value")["message"].item()
    assert message.startswith("is [9, 0, 9, 5], expected [x0, y0, x1, y1]")


def test_what_an_atom_does_not_say_is_its_sources(benchmark: Benchmark) -> None:
    held = read_atoms(FINE, benchmark.sources)
    assert held.problems.is_empty() and held.atoms.schema == ATOMS.schema
    of_source = held.atoms.join(benchmark.sources, on="source_id")
    for name in ("modality", "holder", "observed_at"):
        assert of_source[name].equals(of_source[f"{name}_right"])


def test_atoms_in_parquet_are_the_same_atoms(tmp_path: Path, benchmark: Benchmark) -> None:
    held = read_atoms(FINE, benchmark.sources)
    held.atoms.drop("holder").sample(fraction=1.0, shuffle=True, seed=1).write_parquet(tmp_path / "atoms.parquet")
    again = read_atoms(tmp_path / "atoms.parquet", benchmark.sources)
    assert again.problems.is_empty() and again.atoms.equals(held.atoms)
    packed = tmp_path / "atoms.jsonl.gz"
    packed.write_bytes(gzip.compress(FINE.read_bytes()))
    assert read_atoms(packed, benchmark.sources).atoms.equals(held.atoms)


def test_rows_of_parquet_are_held_to_the_same_rules(tmp_path: Path, benchmark: Benchmark) -> None:
    frame = read_atoms(FINE, benchmark.sources).atoms
    number = {
        name: frame["atom_id"].to_list().index(f"{name}#0") for name in ("pdf:manual", "video:lamp", "code:tools")
    }

    def at(name: str, value: Any, column: str) -> pl.Expr:
        row = pl.int_range(pl.len()) == number[name]
        return pl.when(row).then(pl.lit(value, frame.schema[column])).otherwise(pl.col(column)).alias(column)

    frame.with_columns(
        at("pdf:manual", 0, "page_start"), at("pdf:manual", 0, "page_end"), at("video:lamp", float("nan"), "t_end"),
        at("code:tools", [""], "symbols"),
    ).write_parquet(tmp_path / "atoms.parquet")  # fmt: skip
    problems = read_atoms(tmp_path / "atoms.parquet", benchmark.sources).problems
    assert set(problems.select("rule", "line", "field").rows()) == {
        ("region-value", number["pdf:manual"] + 1, "region.page_start"),
        ("non-finite", number["video:lamp"] + 1, "region.t_end"),
        ("region-value", number["code:tools"] + 1, "region.symbols"),
    }
    naive = frame.with_columns(pl.col("observed_at").dt.replace_time_zone(None), page_start=pl.lit("x")).drop("atom_id")
    naive.write_parquet(tmp_path / "atoms.parquet")
    problems = read_atoms(tmp_path / "atoms.parquet", benchmark.sources).problems
    assert set(problems.select("rule", "field").rows()) == {
        ("missing-field", "atom_id"), ("no-zone", "observed_at"), ("wrong-type", "page_start"),
    }  # fmt: skip
    (tmp_path / "atoms.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(InputError, match="parquet"):
        read_atoms(tmp_path / "atoms.parquet", benchmark.sources)


def test_the_same_gold_holds_however_sources_are_cut(benchmark: Benchmark) -> None:
    expected = benchmark.gold.select("query_id", "gold").rows()
    for cut in ("fine", "coarse"):
        held = read_atoms(SAMPLE / f"atoms/{cut}.jsonl", benchmark.sources)
        resolved = resolve(benchmark.gold, held.atoms, benchmark.sources, benchmark.symbols)
        assert resolved.select("query_id", "gold").unique().sort("query_id", "gold").rows() == expected
        whole = set(resolved.filter("whole_source")["atom_id"])
        assert whole == (set() if cut == "fine" else {
            "code:sensor#0", "pdf:budget#0", "ui_screenshot:ledger#0", "ui_screenshot:panel#0",
        })  # fmt: skip


# --- the commands ---


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run(["ely", *arguments])
    return code, *capsys.readouterr()


def test_mabpl_ely_validate(capsys: pytest.CaptureFixture[str], root: Path) -> None:
    code, out, err = said(capsys, "validate", str(root), "--atoms", str(root / "atoms/coarse.jsonl"))
    assert (code, err) == (0, "") and "39 queries (1 void), 17 sources, 6 sets, 28 atoms: valid" in out
    edit(root, PDF, 1, put("scope.holder", "tom"))
    freeze(root)
    code, out, _ = said(capsys, "validate", str(root))
    assert code == 1
    assert f"error: {root}/sets/pdf.jsonl, line 1, greenhouse-pdf:0, gold[0].source_id: " in out
    code, out, _ = said(capsys, "validate", str(root), "--json")
    document = json.loads(out)
    assert code == 1 and not document["valid"] and document["void"] == 1
    assert document["counts"][0] == {"severity": "error", "rule": "holder-mismatch", "count": 1}
    assert document["sets_sha256"]["sets/pdf.jsonl"] == hashlib.sha256((root / PDF).read_bytes()).hexdigest()


def test_mabpl_ely_resolve(
    capsys: pytest.CaptureFixture[str], root: Path, tmp_path: Path, benchmark: Benchmark
) -> None:
    coarse, out_file = root / "atoms/coarse.jsonl", tmp_path / "resolved.parquet"
    code, out, err = said(capsys, "resolve", str(root), "--atoms", str(coarse), "--out", str(out_file), "--json")
    document = json.loads(out)
    resolved = pl.read_parquet(out_file)
    assert code == 0 and f"{resolved.height} pairs" in err
    held = read_atoms(coarse, benchmark.sources)
    expected = resolve(benchmark.scored_gold(), held.atoms, benchmark.sources, benchmark.symbols)
    assert resolved.equals(expected)
    assert document["split"] == "dev"
    assert set(expected.join(benchmark.queries, on="query_id")["split"]) == {"dev"}
    total = document["coverage"][-1]
    whole_only = expected.group_by("query_id", "gold").agg(pl.col("whole_source").all())["whole_source"].sum()
    assert total == {"modality": None, "regions": 22, "covered": 22 - whole_only, "whole_source_only": whole_only,
                     "without_atom": 0, "pairs": resolved.height}  # fmt: skip
    lines = coarse.read_text().splitlines(keepends=True)
    coarse.write_text("".join(line for line in lines if "pdf:notice" not in line))
    code, out, _ = said(capsys, "resolve", str(root), "--atoms", str(coarse))
    assert code == 0 and "no atom: greenhouse-pdf:6, gold[0], of pdf:notice" in out
    assert "Gold regions of the split dev" in out
    assert all(sha256 in out for sha256 in (*document["sets_sha256"].values(), document["manifest_sha256"]))
    code, out, _ = said(capsys, "resolve", str(root), "--atoms", str(coarse), "--split", "test", "--json")
    assert code == 0 and json.loads(out)["split"] == "test" and json.loads(out)["coverage"][-1]["regions"] == 6
    edit(root, "atoms/coarse.jsonl", 1, put("source_id", "x"))
    code, _, err = said(capsys, "resolve", str(root), "--atoms", str(coarse))
    assert code == 1 and "coarse.jsonl, line 1" in err and "unknown-source" in err
    assert said(capsys, "resolve", str(root), "--atoms", str(root / "none.jsonl"))[0] == 2
    assert said(capsys, "resolve", str(root), "--atoms", str(FINE), "--out", str(tmp_path / "x.txt"))[0] == 2


def test_the_sample_follows_the_schemas_of_its_files() -> None:
    files = {
        "ely_query": [PDF, IMAGE, UI, VIDEO, CODE, TALK],
        "ely_source": [f"sets/corpus/{name}.jsonl" for name in make_ely_sample.SCENARIOS],
        "ely_manifest": [MANIFEST],
        "ely_atom": ["atoms/fine.jsonl", "atoms/coarse.jsonl"],
    }
    for name, paths in files.items():
        validator = jsonschema.Draft202012Validator(json.loads(json_schema(name)))
        rows = [json.loads(line) for path in paths for line in (SAMPLE / path).read_text().splitlines()]
        for row in rows:
            validator.validate(row)
            assert not validator.is_valid({key: value for key, value in row.items() if key not in list(row)[:1]})


def test_every_rule_was_broken() -> None:
    of_runs = {"unknown-query", "missing-query", "unknown-atom", "repeated-atom"}
    assert set(RULES) - set(JSON_RULES) - of_runs - seen == {"line-too-long"}
