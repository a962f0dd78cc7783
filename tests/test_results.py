"""Results as files: the published JSON, folders of tables, what is read back, compared and verified."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import mabpl
from mabpl.benchmarks.micro_annotation import figures, results
from mabpl.benchmarks.micro_annotation.compare import Comparison, compare
from mabpl.benchmarks.micro_annotation.inputs import Request, gather
from mabpl.benchmarks.micro_annotation.scores import Scores
from mabpl.benchmarks.micro_annotation.scoring import score_files
from mabpl.benchmarks.micro_annotation.verify import Verification, verify
from mabpl.data import sample_folder
from mabpl.errors import MabplError
from mabpl.settings import Settings
from mabpl.tables.files import to_json

SET = "operator_disjoint_6"
RUNS = ("careful-large_seed1", "quick-large_seed1")


def scored(root: Path, *files: Path, clips: list[str] | None = None, threads: int | None = None) -> Scores:
    gathered = gather(Request(root=str(root), predictions=[str(f) for f in files], clips=clips), Settings())
    return score_files(gathered.labels, gathered.ready(Settings()), settings=Settings(), threads=threads)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sample") / "root"
    shutil.copytree(sample_folder(), folder)
    return folder


def predictions(root: Path, run: str = RUNS[0], set_name: str = SET) -> Path:
    return root / "predictions" / set_name / f"{run}.jsonl"


@pytest.fixture(scope="module")
def scores(root: Path) -> Scores:
    return scored(root, *(predictions(root, run) for run in RUNS))


@pytest.fixture
def written(root: Path, scores: Scores) -> Iterator[Callable[..., Path]]:
    """Writes a document beside the prediction files; gone after the test."""
    made: list[Path] = []

    def write(document: Any, name: str = "a.scores.json") -> Path:
        path = predictions(root).with_name(name)
        path.write_text(document if isinstance(document, str) else to_json(document), encoding="utf-8")
        made.append(path)
        return path

    yield write
    for path in made:
        path.unlink(missing_ok=True)


# --- the documents ---


def test_score_json_has_the_published_fields(scores: Scores) -> None:
    document = results.score_document(scores, RUNS[0], SET)
    assert list(document["summary"]) == [
        "pa_f1", "strict_pa_f1", "precision", "recall", "boundary_f1", "temporal_f1", "headline", "segments_per_clip",
        "human_segments_per_clip", "clips", "undefined_clips",
    ]  # fmt: skip
    assert document["summary"]["clips"] == len(document["per_clip"]) == 6
    assert {"x", "y", "b", "k", "boundary_f1", "temporal_f1"} <= set(document["per_clip"]["sewing-01"])
    assert [document["summary"][name] for name in ("pa_f1", "strict_pa_f1", "precision", "recall", "headline")] == [
        None
    ] * 5
    assert {"verdicts", "unscored_clips", "partial", "set", "settings", "provenance"} <= set(document)
    assert document["settings"] == Settings().as_dict()
    recorded = [(s["file"], s["run"]) for s in document["provenance"]["inputs"]]
    assert recorded == [("labels.jsonl", None), (f"{RUNS[0]}.jsonl", RUNS[0])]


def test_joint_json_has_the_published_fields(scores: Scores) -> None:
    document = results.joint_document(scores, RUNS[0], SET)
    assert {
        "seg_f1", "seg_precision", "seg_recall", "joint_f1", "joint_precision", "joint_recall", "t", "j", "x", "y",
    } <= set(document["summary"])  # fmt: skip
    assert set(document["per_clip"]["sewing-01"]) == {"x", "y", "t", "j"}
    total = {name: sum(row[name] for row in document["per_clip"].values()) for name in ("x", "y", "t")}
    assert total == {name: document["summary"][name] for name in total}
    assert document["summary"]["seg_f1"] == pytest.approx(100 * 2 * total["t"] / (total["x"] + total["y"]))
    assert (document["summary"]["joint_f1"], document["summary"]["j"]) == (None, None)


def test_the_same_input_gives_the_same_bytes(root: Path, scores: Scores, tmp_path: Path) -> None:
    files = [predictions(root, run) for run in RUNS]
    lines = files[0].read_text(encoding="utf-8").splitlines(keepends=True)
    again = scored(root, *reversed(files), threads=2)
    for make in (results.score_document, results.joint_document):
        text = to_json(make(scores, RUNS[0], SET))
        assert to_json(make(again, RUNS[0], SET)) == text
        assert str(root) not in text
    shuffled = tmp_path / files[0].name
    shuffled.write_text("".join(reversed(lines)), encoding="utf-8")
    other = results.score_document(scored(root, shuffled), RUNS[0], SET)
    own = results.score_document(scores, RUNS[0], SET)
    assert other.pop("provenance") != own.pop("provenance")  # another hash of the file, and nothing else
    assert to_json(other) == to_json(own)
    for name in ("one", "two"):
        results.write_result_folder(scores if name == "one" else again, tmp_path / name)
    one, two = (
        {p.relative_to(d): p.read_bytes() for p in d.rglob("*.*")} for d in (tmp_path / "one", tmp_path / "two")
    )
    assert one == two


# --- reading back ---


def test_json_comes_back(scores: Scores, written: Callable[..., Path]) -> None:
    own = scores.table("clip_scores").filter(run=RUNS[0])
    loaded = mabpl.load_result(written(results.score_document(scores, RUNS[0], SET)))
    columns = ["run", "set", "clip_id", *results.SCORE_COUNTS, *results.SCORE_METRICS]
    assert_frame_equal(loaded.table("clip_scores").select(columns), own.select(columns))
    assert loaded.sets.row(0, named=True)["boundary_f1"] == scores.sets.filter(run=RUNS[0])["boundary_f1"][0]
    assert (loaded.settings, loaded.partial, loaded.sources[1]["run"]) == (Settings(), False, RUNS[0])
    assert loaded.runs.select("configuration", "generation_seed").row(0) == ("careful-large", 1)
    loaded = mabpl.load_result(written(results.joint_document(scores, RUNS[0], SET), "a.joint.json"))
    assert_frame_equal(loaded.table("clip_scores").select("x", "y", "t", "j"), own.select("x", "y", "t", "j"))
    assert loaded.table("clip_scores")["b"].to_list() == [None] * 6
    with pytest.raises(MabplError, match="no table 'pairs'"):
        _ = loaded.pairs


def test_a_folder_comes_back_equal(scores: Scores, tmp_path: Path) -> None:
    results.write_result_folder(scores, tmp_path / "r")
    loaded = mabpl.load_result(tmp_path / "r")
    for name in ("clips", "runs", "segments", "pairs", "matches", "clip_scores"):
        assert_frame_equal(loaded.table(name), scores.table(name), check_row_order=name != "segments")
    assert_frame_equal(loaded.sets, scores.sets)
    assert_frame_equal(loaded.clips, scores.clips)
    assert (loaded.settings, loaded.sources) == (scores.settings, scores.sources)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ('{"clip_id": "c", "segments": []}\n{"clip_id": "d", "segments": []}\n', "is a prediction or labels file"),
        ('{"clip_id": "c", "segments": []}', "is a prediction or labels file"),
        ("{}", 'has no "summary"'),
        ("[]", 'has no "summary"'),
        ("", "is not JSON"),
        ('{"summary": {}, "per_clip": [1]}', "is not an object of objects"),
        ('{"summary": {}, "per_clip": {"c": {"x": "many"}}}', "wrong type"),
        ('{"summary": {}, "per_clip": {"c": {"x": 1e999}}}', "wrong type"),
        ('{"summary": {}, "per_clip": {}, "settings": {"seg_iou": 7}}', "settings are not possible"),
        ('{"summary": {}, "per_clip": {}, "settings": [1]}', '"settings" is not an object'),
        ('{"summary": {}, "per_clip": {}, "provenance": [1]}', '"provenance" is not an object'),
        ('{"summary": {}, "per_clip": {}, "provenance": {"inputs": 5}}', "not a list of objects"),
    ],
)
def test_what_is_no_result_is_told_with_its_name(content: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "odd.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(MabplError, match=told) as error:
        mabpl.load_result(path)
    assert "odd.json" in str(error.value)


def test_folders_that_are_no_result_are_told(scores: Scores, tmp_path: Path) -> None:
    with pytest.raises(MabplError, match="no result folder"):
        mabpl.load_result(tmp_path)
    results.write_result_folder(scores, tmp_path / "r")
    manifest = tmp_path / "r" / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "schema_version": 99}))
    with pytest.raises(MabplError, match="schema version 99; this mabpl reads up to 1"):
        mabpl.load_result(tmp_path / "r")
    manifest.write_text("[]")
    with pytest.raises(MabplError, match="not the manifest"):
        mabpl.load_result(tmp_path / "r")


# --- writing whole or not at all ---


def contents(folder: Path) -> dict[Path, bytes]:
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("step", ["first table", "manifest", "old away", "new in place"])
def test_an_interrupted_write_leaves_the_old_folder_whole(
    step: str, scores: Scores, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "r"
    results.write_result_folder(scores, folder)
    before = contents(folder)
    other = scored(root, predictions(root, "small-fine_seed1"))
    rename, calls = Path.rename, []

    def failing(self: Path, target: Path) -> Path:
        calls.append(target)
        if len(calls) == ("old away", "new in place").index(step) + 1:
            raise KeyboardInterrupt
        return rename(self, target)

    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        if step == "first table":
            patch.setattr(pl.DataFrame, "write_parquet", interrupt)
        elif step == "manifest":
            patch.setattr("mabpl.tables.files.write_json", interrupt)
        else:
            patch.setattr(Path, "rename", failing)
        with pytest.raises(KeyboardInterrupt):
            results.write_result_folder(other, folder)
    assert contents(folder) == before
    assert [path.name for path in tmp_path.iterdir()] == ["r"]
    results.write_result_folder(other, folder)
    assert mabpl.load_result(folder).runs["run"].to_list() == ["small-fine_seed1"]


def test_a_folder_with_other_files_is_not_replaced(scores: Scores, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(MabplError, match="holds other files"):
        results.write_result_folder(scores, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


# --- verify ---


def leaves(node: Any, *path: Any) -> Iterator[tuple[Any, ...]]:
    """The paths of every number in a JSON value."""
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        yield from leaves(value, *path, key)
    if isinstance(node, int | float) and not isinstance(node, bool):
        yield path


def edited(document: Any, path: tuple[Any, ...], change: Callable[[Any], Any]) -> Any:
    new = copy.deepcopy(document)
    node = new
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = change(node[path[-1]])
    return new


@pytest.mark.parametrize("make", [results.score_document, results.joint_document])
def test_verify_accepts_what_was_written_and_catches_every_edited_number(
    make: Callable[..., Any], root: Path, written: Callable[..., Path]
) -> None:
    document = make(scored(root, predictions(root), clips=["sewing-01", "carpentry-01"]), RUNS[0], SET)
    assert verify(written(document)) == Verification((), 1)
    found = list(leaves(document))
    assert len(found) >= 17
    missed = [path for path in found if verify(written(edited(document, path, lambda n: n + 1))).identical]
    assert missed == []


def test_verify_recomputes_and_does_not_only_trust_the_digest(root: Path, written: Callable[..., Path]) -> None:
    document = results.score_document(scored(root, predictions(root)), RUNS[0], SET)
    computed = [path for path in leaves(document) if path[0] in ("summary", "per_clip", "flip_audit")]
    for path in computed[::5]:
        forged = edited(document, path, lambda n: n + 1e-6 if isinstance(n, float) else n + 1)
        forged["provenance"]["digest"] = results.digest(forged)
        [difference] = verify(written(forged)).differences
        assert difference.where.replace("[", ".").replace("]", "").split(".") == [str(key) for key in path]


def wheres(verification: Verification) -> list[str]:
    return [difference.where for difference in verification.differences]


def test_verify_names_what_differs(root: Path, written: Callable[..., Path], tmp_path: Path) -> None:
    document = results.score_document(scored(root, predictions(root)), RUNS[0], SET)

    def with_edit(edit: Callable[[Any], Any]) -> Verification:
        changed = copy.deepcopy(document)
        edit(changed)
        changed["provenance"]["digest"] = results.digest(changed)
        return verify(written(changed))

    assert wheres(with_edit(lambda d: d["settings"].update(new_option=1))) == ["settings.new_option"]
    assert wheres(with_edit(lambda d: d["settings"].update(seg_iou=7))) == ["settings"]
    assert wheres(with_edit(lambda d: d["settings"].pop("pa_ties"))) == ["settings.pa_ties"]
    assert wheres(with_edit(lambda d: d["per_clip"].pop("sewing-01"))) == ["per_clip.sewing-01"]
    assert wheres(with_edit(lambda d: d["per_clip"].update(ghost={"x": 1}))) == ["per_clip.ghost"]
    assert wheres(with_edit(lambda d: d.update(unscored_clips=["x"]))) == ["unscored_clips"]
    assert wheres(with_edit(lambda d: d.update(verdicts=[{"score": 1}]))) == ["verdicts"]
    assert with_edit(lambda d: d["provenance"].update(mabpl="9.9")).notes == (
        f"made by mabpl 9.9, recomputed by {mabpl.__version__}",
    )
    changed = tmp_path / "moved.jsonl"
    text = predictions(root).read_text(encoding="utf-8")
    changed.write_text(text, encoding="utf-8")
    assert verify(written(document), predictions=[str(changed)]).identical
    changed.write_text(text.replace('"start_s":0.0', '"start_s":0.5', 1), encoding="utf-8")
    assert f"sha256 of {RUNS[0]}.jsonl ({SET})" in wheres(verify(written(document), predictions=[str(changed)]))
    changed.write_text(text[: len(text) // 2], encoding="utf-8")
    assert wheres(verify(written(document), predictions=[str(changed)]))[-1] == "inputs"
    labels = tmp_path / "human.jsonl"
    shutil.copy(root / "data" / SET / "labels.jsonl", labels)
    assert verify(written(document), labels=str(labels)).identical
    with labels.open("a", encoding="utf-8") as file:
        file.write("\n")
    assert wheres(verify(written(document), labels=str(labels))) == [f"sha256 of labels.jsonl ({SET})"]


def test_verify_says_what_it_does_not_find(root: Path, written: Callable[..., Path], tmp_path: Path) -> None:
    document = results.score_document(scored(root, predictions(root)), RUNS[0], SET)
    away = tmp_path / "away.scores.json"
    away.write_text(to_json(document))
    with pytest.raises(MabplError, match="labels are not found"):
        verify(away)
    assert verify(away, root=str(root)).identical
    with pytest.raises(MabplError, match="--predictions FILE"):
        verify(away, labels=str(root / "data" / SET / "labels.jsonl"))
    foreign = written({"summary": {"pa_f1": 1.0}, "per_clip": {}})
    with pytest.raises(MabplError, match="does not record the files"):
        verify(foreign)


def test_verify_checks_every_table_of_a_folder(root: Path, tmp_path: Path) -> None:
    files = [predictions(root, run, s) for run in RUNS for s in (SET, "session_disjoint_4")]
    folder = tmp_path / "r"
    results.write_result_folder(scored(root, *files), folder)
    assert verify(folder, root=str(root)) == Verification((), 4)
    assert verify(folder, root=str(root), predictions=[str(root / "predictions")]).identical
    path = folder / "clip_scores.parquet"
    frame = pl.read_parquet(path)
    hit = (pl.col("run") == RUNS[1]) & (pl.col("clip_id") == "sewing-01")
    frame.with_columns(k=pl.when(hit).then(pl.col("k") + 1).otherwise("k")).write_parquet(path)
    assert wheres(verify(folder, root=str(root))) == [f"clip_scores[{RUNS[1]}, {SET}, sewing-01].k"]
    frame.filter(~hit).write_parquet(path)
    assert wheres(verify(folder, root=str(root))) == ["clip_scores: rows", f"clip_scores[{RUNS[1]}, {SET}, sewing-01]"]
    frame.write_parquet(path)
    manifest = folder / "manifest.json"
    recorded = json.loads(manifest.read_text())
    for key in leaves(recorded):
        manifest.write_text(json.dumps(edited(recorded, key, lambda n: n - 0.25)))
        assert not verify(folder, root=str(root)).identical, key


# --- compare ---

CLIPS: dict[str, dict[str, Any]] = {
    "c1": {"pa_f1": 50.12, "boundary_f1": 40.0, "temporal_f1": 66.67, "x": 13, "y": 12, "t": 5, "j": 4},
    "c2": {"pa_f1": 10.5, "boundary_f1": 0.0, "temporal_f1": 33.33, "x": 3, "y": 4, "t": 1, "j": 0},
}
PUBLISHED = "nanoannot-1_seed1"


def others(rows: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {clip: dict.fromkeys(row, 1) for clip, row in rows.items()}


def renamed(rows: dict[str, dict[str, Any]], names: dict[str, str]) -> dict[str, dict[str, Any]]:
    return {clip: {names.get(name, name): value for name, value in row.items()} for clip, row in rows.items()}


TITLES = {"pa_f1": "PA-F1", "boundary_f1": "Boundary F1", "temporal_f1": "Temporal F1", "x": "segments", "y": "n_human"}
FRACTIONS = {
    clip: {name: round(value / 100, 4) if name.endswith("f1") else value for name, value in row.items()}
    for clip, row in CLIPS.items()
}
NESTED = {
    clip: {
        "pa": {"f1": row["pa_f1"]},
        "boundary": {"f1": row["boundary_f1"], "precision": 3.0},
        "temporal": {"f1": row["temporal_f1"], "recall": 4.0},
        "seg": {"x": row["x"], "y": row["y"], "tp": row["t"]},
        "joint": {"tp": row["j"]},
    }
    for clip, row in CLIPS.items()
}
SHAPES: dict[str, Any] = {
    "by name": {"other": others(CLIPS), PUBLISHED: CLIPS},
    "runs": {"set": "s", "runs": {PUBLISHED: CLIPS, "other": others(CLIPS)}},
    "per_clip, by name": {"per_clip": {PUBLISHED: CLIPS, "other": others(CLIPS)}},
    "by name, per_clip": {PUBLISHED: {"summary": {"pa_f1": 3.0}, "per_clip": CLIPS}},
    "by name, list": {PUBLISHED: [{"clip_id": clip, **row} for clip, row in CLIPS.items()]},
    "by clip": {clip: {"other": {"pa_f1": 1.0}, PUBLISHED: row} for clip, row in CLIPS.items()},
    "clips, by clip": {"clips": {clip: {PUBLISHED: row} for clip, row in CLIPS.items()}},
    "by clip, runs": {clip: {"runs": {PUBLISHED: row}} for clip, row in CLIPS.items()},
    "by clip, list": {clip: [{"run": "other", "pa_f1": 1}, {"run": PUBLISHED, **row}] for clip, row in CLIPS.items()},
    "rows with run": [{"clip_id": c, "run": r, **row} for c, row in CLIPS.items() for r in (PUBLISHED, "other_seed1")],
    "rows with seed": [
        {"clip_id": c, "model": "nanoannot-1", "seed": s, **(row if s == 1 else {"pa_f1": 1.0})}
        for c, row in CLIPS.items()
        for s in (1, 11)
    ],
    "rows without run": {"rows": [{"clip_id": clip, **row} for clip, row in CLIPS.items()]},
    "list of runs": {"runs": [{"name": "other", "per_clip": others(CLIPS)}, {"name": PUBLISHED, "per_clip": CLIPS}]},
    "one run": {"run": PUBLISHED, "per_clip": CLIPS},
    "configuration and seed": {"nanoannot-1": {"seed11": others(CLIPS), "seed1": CLIPS}},
    "titles": {PUBLISHED: renamed(CLIPS, TITLES)},
    "fractions": {PUBLISHED: FRACTIONS},
    "nested": {PUBLISHED: NESTED},
}


def published(tmp_path: Path, content: Any) -> figures.Figures:
    path = tmp_path / "published.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return figures.of_published(path, PUBLISHED, "s")


@pytest.mark.parametrize("shape", SHAPES)
def test_published_figures_are_found_in_every_plausible_shape(shape: str, tmp_path: Path) -> None:
    found = published(tmp_path, SHAPES[shape])
    wanted = pl.DataFrame([{"clip_id": clip, **row} for clip, row in CLIPS.items()])
    assert_frame_equal(found.clips.select(wanted.columns), wanted.cast({pl.Int64: pl.Float64}))
    assert found.clips["precision"].null_count() == 2
    assert bool(found.notes) == (shape == "fractions")
    assert found.half_unit("boundary_f1") == pytest.approx(0.05 if shape != "fractions" else 5.0)
    assert found.half_unit("temporal_f1") == pytest.approx(0.005)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ({"somebody": CLIPS}, "its keys: somebody; one level down: c1, c2"),
        ([{"clip_id": "c1", "run": "somebody", "pa_f1": 1}], "of the first item: clip_id, run, pa_f1"),
        ({PUBLISHED: {"c1": {"colour": 3}}}, "no figures"),
        ({PUBLISHED: [{"clip_id": "c1", "colour": 3}]}, "its keys: clip_id, colour"),
        (5, "it is a int"),
        ("{", "is not JSON"),
        ('{"a": NaN}', "NaN is no JSON number"),
        ('{"nanoannot-1_seed1": {"c1": {"pa_f1": 1e999}}}', "not finite"),
        ([{"clip_id": "c1", "run": PUBLISHED, "x": 1}] * 2, "two rows"),
        ("[" * 100_000, "is not JSON"),
    ],
)
def test_published_files_that_are_not_understood_are_told(content: Any, told: str, tmp_path: Path) -> None:
    with pytest.raises(MabplError, match=told):
        published(tmp_path, content)


def ours(rows: dict[str, dict[str, Any]], tmp_path: Path, name: str = "a") -> figures.Figures:
    path = tmp_path / f"{name}.scores.json"
    document = {"summary": {}, "per_clip": rows, "set": "s", "run": name, "provenance": {"mabpl": "0.1.0"}}
    path.write_text(json.dumps(document))
    return figures.of_result(path)


def changed(**values: Any) -> dict[str, dict[str, Any]]:
    return {"c1": {**CLIPS["c1"], **values}, "c2": CLIPS["c2"]}


def held(tmp_path: Path, content: Any = None, **values: Any) -> Comparison:
    return compare(ours(changed(**values), tmp_path), published(tmp_path, content or {PUBLISHED: CLIPS}))


@pytest.mark.parametrize(
    ("values", "differs", "failed"),
    [
        ({}, False, False),
        ({"temporal_f1": 66.6666667}, False, False),  # printed 66.67
        ({"temporal_f1": 66.6749}, False, False),
        ({"temporal_f1": 66.6751}, True, True),
        ({"boundary_f1": 40.0499}, False, False),  # printed with one decimal
        ({"boundary_f1": 40.0501}, True, True),
        ({"x": 14}, True, True),
        ({"t": 6}, True, True),
        ({"pa_f1": 50.13}, True, False),
        ({"j": 5}, True, False),
        ({"boundary_f1": None}, True, True),
    ],
)
def test_only_what_needs_no_judge_fails_and_only_beyond_the_printed_digits(
    values: dict[str, Any], differs: bool, failed: bool, tmp_path: Path
) -> None:
    comparison = held(tmp_path, **values)
    assert (comparison.clips["differs"].to_list() == [True, False], comparison.failed) == (differs, failed)


def test_results_of_ours_may_not_differ_at_all(tmp_path: Path) -> None:
    first = ours(changed(temporal_f1=66.67 + 1e-8), tmp_path)
    assert compare(first, ours(CLIPS, tmp_path, "b")).failed
    assert not compare(ours(CLIPS, tmp_path), ours(CLIPS, tmp_path, "b")).failed


def test_seg_f1_of_a_clip_is_worked_out_from_the_counts(tmp_path: Path) -> None:
    rows = {clip: {**row, "seg_f1": value} for (clip, row), value in zip(CLIPS.items(), (40.0, 28.57), strict=True)}
    assert not held(tmp_path, {PUBLISHED: rows}).failed
    rows["c2"]["seg_f1"] = 28.58
    assert held(tmp_path, {PUBLISHED: rows}).failed


def test_clips_of_one_side_are_told_and_the_largest_difference_comes_first(tmp_path: Path) -> None:
    first = {
        "c1": {**CLIPS["c1"], "temporal_f1": 60.0},
        "c2": {**CLIPS["c2"], "temporal_f1": 90.0},
        "mine": CLIPS["c1"],
    }
    comparison = compare(ours(first, tmp_path), ours({**CLIPS, "theirs": CLIPS["c2"]}, tmp_path, "b"))
    assert (comparison.only_first, comparison.only_second) == (("mine",), ("theirs",))
    assert comparison.clips["clip_id"].to_list() == ["c2", "c1"]
    row = comparison.metrics.filter(metric="temporal_f1").row(0, named=True)
    assert (row["clips"], row["differing_clips"]) == (2, 2)
    assert (row["first"], row["difference"]) == (75.0, pytest.approx(25.0))
    assert row["low"] == pytest.approx(60 - 66.67)
    assert row["high"] == pytest.approx(90 - 33.33)


def test_nothing_in_common_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(MabplError, match="no clip is both"):
        compare(ours({"a": {"x": 1}}, tmp_path), ours({"b": {"x": 1}}, tmp_path, "b"))
    with pytest.raises(MabplError, match="no value is both"):
        compare(ours({"a": {"x": 1}}, tmp_path), ours({"a": {"y": 1}}, tmp_path, "b"))
