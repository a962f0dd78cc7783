"""The command line: exit codes, what goes to standard output and what to standard error, and that nothing breaks it."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from commands import Mabpl
from polars.testing import assert_frame_equal

import mabpl
from mabpl.cli.main import COMMANDS, run
from mabpl.data import sample_folder

SET, OTHER = "operator_disjoint_6", "session_disjoint_4"
RUN = "quick-large_seed1"


@pytest.fixture
def mabpl_(mabpl_: Mabpl, monkeypatch: pytest.MonkeyPatch) -> Mabpl:
    """As on a terminal."""
    monkeypatch.setattr("click.utils.should_strip_ansi", lambda *_, **__: False)
    return mabpl_


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the sample; the working folder is an empty one beside it."""
    folder = tmp_path / "root"
    shutil.copytree(sample_folder(), folder)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return folder


def file_of(root: Path, name: str = RUN, set_name: str = SET) -> Path:
    return root / "predictions" / set_name / f"{name}.jsonl"


def segment(start: float, end: float, label: str = "wipe the table with the left hand", **more: Any) -> dict[str, Any]:
    return {"start_s": start, "end_s": end, "label": label, "is_idle": False, **more}


def write_rows(path: Path, clips: dict[str, list[dict[str, Any]]], **fields: Any) -> Path:
    rows = [json.dumps({"clip_id": clip, **fields, "segments": segments}) for clip, segments in clips.items()]
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def pair_of_files(folder: Path, human: list[tuple[float, float]], predicted: list[tuple[float, float]]) -> list[Path]:
    """--labels L --predictions P of one clip."""
    length = max(end for _, end in human)
    labels = write_rows(folder / "human.jsonl", {"c": [segment(*t) for t in human]}, duration_s=length)
    made = write_rows(folder / "model.jsonl", {"c": [segment(*t) for t in predicted]})
    return ["--labels", labels, "--predictions", made]  # type: ignore[list-item]


def cut(path: Path, clips: int) -> Path:
    """``path`` with only its first clips."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join(lines[:clips]), encoding="utf-8")
    return path


# --- score: one file ---


def test_a_score_is_printed_written_and_exits_0(mabpl_: Mabpl, root: Path) -> None:
    said = mabpl_("score", "--root", root, "--no-judge", "-p", file_of(root))
    target = file_of(root).with_name(f"{RUN}.{SET}.scores.json")
    document = json.loads(target.read_text(encoding="utf-8"))
    assert said.code == 0
    assert f"Boundary F1 {document['summary']['boundary_f1']:.2f}" in " ".join(said.out.split())
    assert f"written: {target}" in said.err
    assert "both ends within 20 frames" in " ".join(said.out.split())


def test_root_stands_before_the_verb_after_it_or_is_this_folder(
    mabpl_: Mabpl, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rest = ["--no-judge", "--json", "-p", file_of(root)]
    after = mabpl_("score", "--root", root, *rest)
    before = mabpl_("--root", root, "score", *rest)
    monkeypatch.chdir(root)
    here = mabpl_("score", *rest)
    assert after.code == before.code == here.code == 0
    assert after.out == before.out == here.out
    wins = mabpl_("--root", root / "nowhere", "score", "--root", root, *rest)
    assert wins.out == after.out


@pytest.mark.parametrize("name", [SET, "operator", "6", None])
def test_sets_have_aliases_and_are_inferred(name: str | None, mabpl_: Mabpl, root: Path) -> None:
    chosen = ["--set", name] if name else []
    said = mabpl_("score", "--root", root, "--no-judge", "--json", "-p", file_of(root), *chosen)
    assert (said.code, said.json["set"]) == (0, SET)


def test_a_wrong_set_is_told(mabpl_: Mabpl, root: Path) -> None:
    said = mabpl_("score", "--root", root, "--no-judge", "-p", file_of(root), "--set", "operater")
    assert (said.code, said.out) == (2, "")
    assert "did you mean 'operator'?" in said.err
    said = mabpl_("score", "--root", root, "--no-judge", "-p", file_of(root), "--set", OTHER)
    assert said.code == 1
    assert "is no clip of set" in said.err or "is missing" in said.err


def test_any_pair_of_files_is_scored_without_a_dataset(mabpl_: Mabpl, root: Path, tmp_path: Path) -> None:
    model = pair_of_files(tmp_path, [(0, 10), (10, 20)], [(0, 10), (11, 20)])
    said = mabpl_("score", "--no-judge", "--json", *model)
    assert said.code == 0
    assert said.json["per_clip"]["c"]["b"] == 1
    assert (tmp_path / "model.scores.json").is_file()
    said = mabpl_("score", "--no-judge", *model, "--set", "mine")
    assert (tmp_path / "model.mine.scores.json").is_file()


def test_parquet_in_the_dataset_folder_is_none_of_the_labels(
    mabpl_: Mabpl, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert mabpl_("score", "--no-judge", "--root", root, "--tables", root / "results").code == 0
    monkeypatch.chdir(root)
    assert mabpl_("score", "--judge", "embedded", "--set", "operator").code == 0


def test_out_names_the_file_and_its_folder_is_made(mabpl_: Mabpl, root: Path, tmp_path: Path) -> None:
    target = tmp_path / "new" / "out.json"
    said = mabpl_("score", "--root", root, "--no-judge", "--quiet", "-p", file_of(root), "--out", target)
    assert (said.code, said.err) == (0, "")
    assert json.loads(target.read_text(encoding="utf-8"))["run"] == RUN
    assert not list(file_of(root).parent.glob("*.scores.json"))
    said = mabpl_("joint", "--root", root, "--no-judge", "-p", file_of(root))
    assert file_of(root).with_name(f"{RUN}.{SET}.joint.json").is_file()
    assert "Seg F1" in said.out


def test_standard_input_is_scored_to_standard_output(
    mabpl_: Mabpl, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = mabpl_("score", "--root", root, "--no-judge", "--json", "-p", file_of(root)).json
    for verb in ("score", "joint"):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(file_of(root).read_bytes())))
        said = mabpl_(verb, "--root", root, "--no-judge", "-p", "-")
        assert (said.code, said.json["run"]) == (0, "stdin")
        if verb == "score":
            assert said.json["per_clip"] == expected["per_clip"]
    assert [p.name for p in Path().iterdir()] == []


def test_gzip_scores_the_same(mabpl_: Mabpl, root: Path, tmp_path: Path) -> None:
    packed = tmp_path / f"{RUN}.jsonl.gz"
    packed.write_bytes(gzip.compress(file_of(root).read_bytes()))
    one = mabpl_("score", "--root", root, "--no-judge", "--json", "-p", packed)
    two = mabpl_("score", "--root", root, "--no-judge", "--json", "-p", file_of(root))
    assert one.code == 0
    assert one.json["summary"] == two.json["summary"]
    assert (tmp_path / f"{RUN}.{SET}.scores.json").is_file()


def test_without_a_judge_or_no_judge_one_message_says_what_to_do(mabpl_: Mabpl, root: Path) -> None:
    for verb in ("score", "joint"):
        said = mabpl_(verb, "--root", root, "-p", file_of(root))
        assert (said.code, said.out) == (2, "")
        assert "--no-judge" in said.err


# --- trials and missing clips ---


def test_limit_and_clips_mark_the_result_partial(mabpl_: Mabpl, root: Path) -> None:
    score = ["score", "--root", root, "--no-judge", "--json", "-p", file_of(root)]
    every = sorted(mabpl_(*score).json["per_clip"])
    limited = mabpl_(*score, "--limit", 2)
    assert (limited.code, limited.json["partial"], list(limited.json["per_clip"])) == (0, True, every[:2])
    chosen = mabpl_(*score, "--clips", f"{every[4]},{every[1]}")
    assert (chosen.code, chosen.json["partial"], list(chosen.json["per_clip"])) == (0, True, [every[1], every[4]])
    huge = mabpl_(*score, "--limit", 10**18)
    assert (huge.code, list(huge.json["per_clip"])) == (0, every)
    for wrong in (["--limit", 0], ["--limit", -3], ["--limit", "two"], ["--clips", "sewing-1"], ["--clips", ","]):
        assert mabpl_(*score, *wrong).code == 2
    assert "'sewing-01'" in mabpl_(*score, "--clips", "sewing-1").err


def test_a_trial_file_is_scored_with_limit(mabpl_: Mabpl, root: Path) -> None:
    path = cut(file_of(root), 2)
    clips = [json.loads(line)["clip_id"] for line in path.read_text(encoding="utf-8").splitlines()]
    assert mabpl_("score", "--root", root, "--no-judge", "-p", path).code == 1
    assert mabpl_("score", "--root", root, "--no-judge", "-p", path, "--clips", ",".join(clips)).code == 0
    assert mabpl_("validate", "--root", root, "-p", path, "--clips", ",".join(clips)).code == 0


def test_missing_clips_are_refused_empty_or_skipped(mabpl_: Mabpl, root: Path) -> None:
    path = cut(file_of(root), 4)
    score = ["score", "--root", root, "--no-judge", "--json", "-p", path]
    refused = mabpl_(*score)
    assert (refused.code, refused.out) == (1, "")
    assert "missing-clip 2" in refused.err
    empty = mabpl_(*score, "--missing", "empty")
    assert (empty.code, empty.json["partial"], empty.json["summary"]["clips"]) == (0, False, 6)
    gone = [row for row in empty.json["per_clip"].values() if row["x"] == 0]
    assert [row["boundary_f1"] for row in gone] == [0.0, 0.0]
    skipped = mabpl_(*score, "--set-option", "missing=skip")
    assert (skipped.code, skipped.json["partial"], skipped.json["summary"]["clips"]) == (3, True, 4)
    assert skipped.json["settings"]["missing"] == "skip"
    assert mabpl_("joint", "--root", root, "--no-judge", "-p", path, "--missing", "skip").code == 3


# --- every option changes what it says ---

OPTIONS: dict[str, tuple[list[tuple[float, float]], list[tuple[float, float]], list[str], str, int, int]] = {
    # human, predicted, options, count, by default, with the options
    "tolerance_frames": ([(0, 10)], [(0.5, 10)], ["tolerance_frames=14"], "b", 1, 0),
    "tolerance_frames, inclusive": ([(0, 10)], [(0.5, 10)], ["tolerance_frames=15"], "b", 1, 1),
    "time_base": ([(0, 10)], [(0.68, 10)], ["time_base=seconds"], "b", 1, 0),
    "tolerance_s": ([(0, 10)], [(0.68, 10)], ["time_base=seconds", "tolerance_s=0.68"], "b", 1, 1),
    "tolerance_s alone": ([(0, 10)], [(0.5, 10)], ["tolerance_s=0.1"], "b", 1, 1),
    "boundary_matching": ([(0, 5), (0.5, 5.5)], [(0.3, 5.3), (0.9, 5.9)], ["boundary_matching=optimal"], "b", 1, 2),
    "pa_ties": ([(0, 10), (10, 20)], [(5, 15), (0, 2)], ["pa_ties=later_first"], "assigned", 1, 2),
    "temporal_iou": ([(0, 10)], [(0, 6)], ["temporal_iou=0.61"], "k", 1, 0),
    "temporal_iou, inclusive": ([(0, 10)], [(0, 6)], ["temporal_iou=0.6"], "k", 1, 1),
    "seg_iou": ([(0, 10), (10, 20), (20, 30)], [(0, 10), (11, 19), (20, 30)], ["seg_iou=0.81"], "t", 3, 2),
    "judge_pairs": ([(0, 10)], [(0, 6)], ["judge_pairs=assigned"], "b", 0, 0),
}


@pytest.mark.parametrize("case", OPTIONS)
def test_options_change_what_they_say_and_are_recorded(case: str, mabpl_: Mabpl, tmp_path: Path) -> None:
    human, predicted, options, count, before, after = OPTIONS[case]
    verb = "joint" if count == "t" else "score"
    call = [verb, "--no-judge", "--json", *pair_of_files(tmp_path, human, predicted)]
    plain = mabpl_(*call).json
    changed = mabpl_(*call, *(part for option in options for part in ("--set-option", option))).json
    assert (plain["per_clip"]["c"][count], changed["per_clip"]["c"][count]) == (before, after)
    for option in options:
        name, _, value = option.partition("=")
        assert str(changed["settings"][name]) == value
        assert plain["settings"][name] == mabpl.Settings().as_dict()[name]


@pytest.mark.parametrize(
    "option",
    [
        "nonsense", "=", "tolerance_frames", "tolerance_frames=", "tolerance_frames=-1", "tolerance_frames=1.5",
        "tolerance_frames=9" + "9" * 5000, "seg_iou=nan", "seg_iou=0", "seg_iou=1e999", "seg_iou=True",
        "time_base=minutes", "tolerence_frames=20",
    ],
)  # fmt: skip
def test_impossible_options_are_refused(option: str, mabpl_: Mabpl, tmp_path: Path) -> None:
    files = pair_of_files(tmp_path, [(0, 1)], [(0, 1)])
    said = mabpl_("score", "--no-judge", *files, "--set-option", option)
    assert (said.code, said.out) == (2, "")
    assert "expected" in said.err or "known:" in said.err


# --- many files ---


@pytest.mark.parametrize("name", ["folder", "glob", "files", "default"])
def test_files_folders_and_globs_give_one_table(name: str, mabpl_: Mabpl, root: Path) -> None:
    where = root / "predictions"
    given = {"folder": [where], "glob": [f"{where}/*/*.jsonl"], "files": sorted(where.rglob("*.jsonl")), "default": []}
    said = mabpl_("score", "--root", root, "--no-judge", "-p", *given[name]) if given[name] else mabpl_(
        "score", "--root", root, "--no-judge"
    )  # fmt: skip
    assert said.code == 0
    for text in ("careful-large", "all sets: 10 clips", f"{SET}: 6 clips", f"{OTHER}: 4 clips", "±", "["):
        assert text in said.out
    assert not list(root.rglob("*.scores.json"))
    order = [line.split()[0] for line in said.out.split("all sets")[1].splitlines() if " ± " in line][:4]
    assert order == ["careful-large", "quick-large", "small-fine", "small-coarse"]


def test_many_files_as_json_are_rows_of_unrounded_values(mabpl_: Mabpl, root: Path) -> None:
    said = mabpl_("score", "--root", root, "--no-judge", "--json", "--map", root / "models.csv")
    rows = {(row["configuration"], row["set"]): row for row in said.json}
    assert len(rows) == 12
    row = rows["careful-large", SET]
    seeds = [mabpl_("score", "--root", root, "--no-judge", "--json", "-p", file_of(root, f"careful-large_seed{s}")).json
             for s in (1, 11, 21)]  # fmt: skip
    values = [document["summary"]["boundary_f1"] for document in seeds]
    assert row["boundary_f1"] == pytest.approx(sum(values) / 3)
    assert row["boundary_f1_low"] <= row["boundary_f1"] <= row["boundary_f1_high"]
    assert (row["model"], row["runs"], row["headline"]) == ("Larch-2", 3, None) or row["model"]


def test_slices_and_gates(mabpl_: Mabpl, root: Path) -> None:
    said = mabpl_("score", "--root", root, "--no-judge", "--by", "operator", "-p", file_of(root))
    assert said.code == 0
    assert "op-" in said.out or "operator" in said.out
    assert mabpl_("score", "--root", root, "--no-judge", "--by", "operater", "-p", file_of(root)).code == 2
    score = ["score", "--root", root, "--no-judge", "-p", file_of(root), "--fail-under"]
    assert mabpl_(*score, "boundary_f1=1").code == 0
    failed = mabpl_(*score, "boundary_f1=99", "--quiet")
    assert failed.code == 1
    assert "under 99" in failed.err
    assert mabpl_(*score, "pa_f1=1").code == 1  # no value is no pass
    assert mabpl_(*score, "bondary_f1=1").code == 2
    assert mabpl_(*score, "boundary_f1=high").code == 2
    assert mabpl_(*score, "boundary_f1=nan").code == 2


def test_tables_come_back_equal(mabpl_: Mabpl, root: Path, tmp_path: Path) -> None:
    said = mabpl_("score", "--root", root, "--no-judge", "--tables", tmp_path / "t")
    assert said.code == 0
    loaded = mabpl.load_result(tmp_path / "t")
    labels = mabpl.open_benchmark(root).labels()
    scores = mabpl.score(labels, mabpl.read_predictions(root / "predictions", labels))
    for name in ("clips", "runs", "pairs", "matches", "clip_scores"):
        assert_frame_equal(loaded.table(name), scores.table(name))
    assert_frame_equal(loaded.sets, scores.sets)
    assert pl.read_parquet(tmp_path / "t" / "set_scores.parquet").equals(scores.sets)
    assert mabpl_("score", "--root", root, "--no-judge", "--tables", root).code == 2
    assert (root / "models.csv").is_file()


def test_two_files_with_the_same_bytes_count_once(mabpl_: Mabpl, root: Path) -> None:
    shutil.copy(file_of(root), file_of(root, "quick-large"))
    said = mabpl_("score", "--root", root, "--no-judge", "-p", file_of(root), file_of(root, "quick-large"))
    assert said.code == 0
    assert "counted once" in said.err
    assert "quick-large_seed1 on" in said.out


# --- standard output, standard error ---


@pytest.mark.parametrize(
    "arguments",
    [
        ["validate"],
        ["validate", "-p", "{file}", "--fix", "fixed.jsonl"],
        ["score", "--no-judge", "-p", "{file}"],
        ["score", "--no-judge"],
        ["score", "--no-judge", "--by", "operator", "--tables", "t"],
        ["joint", "--no-judge", "-p", "{file}"],
    ],
)
def test_json_is_one_document_and_nothing_else(arguments: list[str], mabpl_: Mabpl, root: Path) -> None:
    said = mabpl_(*(part.format(file=file_of(root)) for part in arguments), "--root", root, "--json")
    assert said.code == 0
    assert isinstance(said.json, dict | list)


def test_json_of_headline_compare_and_verify_is_one_document(mabpl_: Mabpl, root: Path) -> None:
    for name in (RUN, "small-fine_seed1"):
        mabpl_("score", "--root", root, "--no-judge", "-p", file_of(root, name))
    one, two = (file_of(root, name).with_name(f"{name}.{SET}.scores.json") for name in (RUN, "small-fine_seed1"))
    assert mabpl_("headline", one, "--json").json["combined"]["clips"] == 6
    said = mabpl_("compare", one, two, "--json")
    assert (said.code, said.json["a"], said.json["b"]) == (1, RUN, "small-fine_seed1")
    assert mabpl_("verify", one, "--json").json == {"identical": True, "runs": 1, "differences": [], "notes": []}


def test_no_color_and_no_terminal_give_no_escape_codes(mabpl_: Mabpl, root: Path) -> None:
    environment = {**os.environ, "NO_COLOR": "1", "FORCE_COLOR": "1"}
    command = [sys.executable, "-m", "mabpl", "score", "--root", root, "--no-judge", "-p", file_of(root)]
    said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert "\x1b" not in said.stdout + said.stderr
    assert "Boundary F1" in said.stdout
    assert "\x1b" not in mabpl_("score", "--root", root, "--no-judge").out


def test_help_of_every_command(mabpl_: Mabpl) -> None:
    assert all(name in mabpl_("--help").out for name in COMMANDS)
    for name in COMMANDS:
        said = mabpl_(name, "--help")
        assert (said.code, said.err) == (0, "")
        assert said.out.startswith("Usage: mabpl")
    assert mabpl_("--version").out == f"mabpl, version {mabpl.__version__}\n"
    assert mabpl_("scores").code == 2


def test_a_closed_pipe_ends_quietly(root: Path) -> None:
    command = f"{sys.executable} -m mabpl validate --root {root} --all | true"
    said = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True)
    assert (said.returncode, said.stderr) == (0, "")


# --- validate ---


def one_segment(times: bytes, label: bytes = b"x") -> bytes:
    return b'{"clip_id": "sewing-01", "segments": [{%s, "label": "%s", "is_idle": false}]}\n' % (times, label)


BROKEN = {
    "cut off": b'{"clip_id": "sewing-01", "segments": [{"start_s": 0.0, "end_s"',
    "not JSON": b"hello\n",
    "nan": one_segment(b'"start_s": NaN, "end_s": 1'),
    "huge": one_segment(b'"start_s": 0, "end_s": 1e999'),
    "string": one_segment(b'"start_s": "0", "end_s": 1'),
    "end before start": one_segment(b'"start_s": 2, "end_s": 1'),
    "latin-1": one_segment(b'"start_s": 0, "end_s": 1', b"\xe9"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files_are_told_with_file_line_and_rule(name: str, mabpl_: Mabpl, root: Path) -> None:
    path = file_of(root)
    lines = [line for line in path.read_bytes().splitlines(keepends=True) if b'"sewing-01"' not in line]
    path.write_bytes(b"".join(lines) + BROKEN[name])
    said = mabpl_("validate", "--root", root, "-p", path)
    assert said.code == 1
    assert f"error: {path}, line {len(lines) + 1}" in said.out
    listed = mabpl_("validate", "--root", root, "-p", path, "--json").json
    assert listed["valid"] is False
    assert {"severity", "rule", "file", "line", "clip_id", "field", "message", "hint"} == set(listed["problems"][0])
    assert any(row["severity"] == "error" for row in listed["counts"])
    refused = mabpl_("score", "--root", root, "--no-judge", "-p", path)
    assert (refused.code, refused.out) == (1, "")
    assert "mabpl validate lists them all" in refused.err


def test_valid_files_with_warnings_exit_0(mabpl_: Mabpl, root: Path) -> None:
    said = mabpl_("validate", "--root", root)
    assert said.code == 0
    assert "24 prediction files, 120 timelines: valid" in said.out
    assert "warning" in said.out
    assert mabpl_("validate", "--root", root, "--labels-only").code == 0
    plenty = mabpl_("validate", "--root", root, "--all")
    assert len(plenty.out.splitlines()) >= len(said.out.splitlines())


def test_fix_writes_a_copy_and_shows_what_changed(mabpl_: Mabpl, root: Path, tmp_path: Path) -> None:
    path = file_of(root)
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for row in rows:
        for part in row["segments"]:
            part.update(start_s=part["start_s"] * 1000, end_s=part["end_s"] * 1000)
    before = "".join(json.dumps(row) + "\n" for row in rows)
    expected = mabpl_("score", "--root", root, "--no-judge", "--json", "-p", path).json["per_clip"]
    path.write_text(before, encoding="utf-8")
    fixed = tmp_path / "fixed.jsonl"
    said = mabpl_("validate", "--root", root, "-p", path, "--fix", fixed)
    assert said.code == 0
    assert "What changed" in said.out
    assert path.read_text(encoding="utf-8") == before
    assert mabpl_("score", "--root", root, "--no-judge", "--json", "-p", fixed).json["per_clip"] == expected
    assert mabpl_("validate", "--root", root, "-p", path, "--fix", path).code == 2


# --- headline ---


def score_file(folder: Path, name: str, set_name: str, clips: int, partial: bool = False, **values: Any) -> Path:
    path = folder / name
    judged = dict.fromkeys(("pa_f1", "strict_pa_f1", "precision", "recall", "headline"))
    sizes = {"segments_per_clip": 9.0, "human_segments_per_clip": 10.0, "clips": clips, "undefined_clips": 0}
    summary = {**judged, **sizes, **values}
    path.write_text(json.dumps({"summary": summary, "per_clip": {}, "set": set_name, "partial": partial}))
    return path


def joint_file(folder: Path, name: str, set_name: str, **values: Any) -> Path:
    path = folder / name
    path.write_text(json.dumps({"summary": values, "per_clip": {"c": {}}, "set": set_name, "partial": False}))
    return path


def test_headline_by_hand(mabpl_: Mabpl, tmp_path: Path) -> None:
    a = score_file(tmp_path, "a.json", "a", 30, pa_f1=50.0, boundary_f1=30.0, temporal_f1=70.0, headline=50.0)
    b = score_file(tmp_path, "b.json", "b", 15, pa_f1=62.0, boundary_f1=33.0, temporal_f1=76.0, headline=58.25)
    said = mabpl_("headline", a, b, "--json", "--out", tmp_path / "both.json")
    assert said.code == 0
    combined = said.json["combined"]
    assert (combined["pa_f1"], combined["boundary_f1"], combined["temporal_f1"]) == (54.0, 31.0, 72.0)
    assert combined["headline"] == pytest.approx(0.5 * 54 + 0.25 * 31 + 0.25 * 72)
    assert combined["headline"] == pytest.approx((30 * 50.0 + 15 * 58.25) / 45)
    assert combined["clips"] == 45
    assert json.loads((tmp_path / "both.json").read_text()) == said.json
    assert "52.8" in mabpl_("headline", a, b).out


def test_headline_weighs_joint_results_by_the_clips_of_their_sets(mabpl_: Mabpl, tmp_path: Path) -> None:
    files = [score_file(tmp_path, f"{s}.json", s, n, boundary_f1=1.0, temporal_f1=1.0) for s, n in (("a", 3), ("b", 1))]
    joints = [
        joint_file(tmp_path, "a.joint.json", "a", seg_f1=40.0, joint_f1=None, clips=3),
        joint_file(tmp_path, "b.joint.json", "b", seg_f1=20.0, joint_f1=None, clips=1),
    ]
    said = mabpl_("headline", *files, "--joint", *joints, "--json")
    assert (said.code, said.json["combined"]["seg_f1"], said.json["combined"]["joint_f1"]) == (0, 35.0, None)
    assert said.json["combined"]["headline"] is None
    assert "No headline score" in mabpl_("headline", *files).out
    one = mabpl_("headline", *files, "--joint", joints[0], "--json")
    assert "no joint JSON for set 'b'" in one.err


def test_headline_warns_of_partial_files_and_refuses_a_set_twice(mabpl_: Mabpl, tmp_path: Path) -> None:
    a = score_file(tmp_path, "a.json", "a", 2, partial=True, boundary_f1=1.0, temporal_f1=1.0)
    b = score_file(tmp_path, "b.json", "a", 2, boundary_f1=1.0, temporal_f1=1.0)
    warned = mabpl_("headline", a, "--json")
    assert warned.code == 0
    assert "is partial" in warned.err
    refused = mabpl_("headline", a, b)
    assert (refused.code, refused.out) == (2, "")
    assert "a second score result of set 'a'" in refused.err
    assert mabpl_("headline", joint_file(tmp_path, "j.json", "a", seg_f1=1.0)).code == 2
    assert mabpl_("headline").code == 2


# --- compare and verify ---


def test_compare_with_published_figures(mabpl_: Mabpl, root: Path) -> None:
    document = mabpl_("score", "--root", root, "--no-judge", "--json", "-p", file_of(root)).json
    rows = {
        clip: {name: round(value, 2) for name, value in row.items() if value is not None} | {"pa_f1": 50.0}
        for clip, row in document["per_clip"].items()
    }
    folder = root / "results" / "per_clip"
    folder.mkdir(parents=True)
    (folder / f"{SET}.json").write_text(json.dumps({"nanoannot-1_seed1": rows}))
    result = file_of(root).with_name(f"{RUN}.{SET}.scores.json")
    held = ["compare", result, "--published", "nanoannot-1_seed1"]
    said = mabpl_(*held, "--root", root)
    assert said.code == 0
    assert "0 of 6 clips differ" in said.out
    assert "Equal." in said.out
    assert mabpl_("--root", root, *held).out == said.out
    rows["sewing-01"]["boundary_f1"] += 0.02
    (folder / f"{SET}.json").write_text(json.dumps({"nanoannot-1_seed1": rows}))
    said = mabpl_(*held, "--published-file", folder / f"{SET}.json")
    assert said.code == 1
    assert "1 of 6 clips differ" in said.out
    assert "Without a judge, yet different: boundary_f1" in said.out
    assert "sewing-01" in said.out
    assert "carpentry-01" not in said.out
    assert "carpentry-01" in mabpl_(*held, "--root", root, "--all").out
    assert mabpl_(*held).code == 2
    wrong = mabpl_("compare", result, "--published", "nanoanot", "--root", root)
    assert wrong.code == 2
    assert "its keys: nanoannot-1_seed1" in wrong.err


def test_compare_runs_of_a_folder(mabpl_: Mabpl, root: Path, tmp_path: Path) -> None:
    mabpl_("score", "--root", root, "--no-judge", "--tables", tmp_path / "t")
    said = mabpl_("compare", tmp_path / "t", "--run", RUN, "--run", "small-coarse_seed1", "--set", "operator")
    assert said.code == 1
    assert f"A = {RUN}, B = small-coarse_seed1 on {SET}" in said.out
    assert "Seg F1" in said.out
    same = mabpl_("compare", tmp_path / "t", tmp_path / "t", "--run", RUN, "--set", "6")
    assert same.code == 0
    for wrong in (["--run", RUN], ["--run", RUN, "--run", "smal"], ["--set", "6"], ["--run", "a"] * 3, []):
        assert mabpl_("compare", tmp_path / "t", tmp_path / "t", *wrong).code == 2
    assert mabpl_("compare", tmp_path / "t").code == 2


def test_verify_finds_a_changed_prediction_file(mabpl_: Mabpl, root: Path) -> None:
    mabpl_("score", "--root", root, "--no-judge", "-p", file_of(root))
    result = file_of(root).with_name(f"{RUN}.{SET}.scores.json")
    said = mabpl_("verify", result)
    assert (said.code, said.out) == (0, f"{result}: identical, 1 run recomputed\n")
    text = file_of(root).read_text(encoding="utf-8")
    file_of(root).write_text(text.replace('"start_s":0.0', '"start_s":0.1', 1), encoding="utf-8")
    said = mabpl_("verify", result)
    assert said.code == 1
    assert f"sha256 of {RUN}.jsonl ({SET})" in said.out
    assert mabpl_("verify", result, "--root", root, "--labels", root).code == 2
    assert mabpl_("verify", file_of(root)).code == 2


# --- demo ---


def test_demo_shows_the_sample_and_what_it_suggests_works(mabpl_: Mabpl, root: Path) -> None:
    said = mabpl_("demo")
    assert said.code == 0
    assert (Path("mabpl-demo") / "data" / SET / "labels.jsonl").is_file()
    suggested = [line.split()[1:] for line in said.out.splitlines() if line.startswith("  mabpl ")]
    assert len(suggested) >= 3
    for arguments in suggested:
        assert mabpl_(*arguments).code == 0, arguments
    assert mabpl_("demo").code == 0
    Path("taken").write_text("mine")
    assert mabpl_("demo", "taken").code == 2
    assert mabpl_("demo", "taken/below").code == 2


# --- nothing breaks it ---

HOSTILE: list[list[str]] = [
    ["score", "--no-judge", "-p", "{folder}"],
    ["score", "--no-judge", "-p", "{folder}", "--root", "{root}"],
    ["score", "--no-judge", "-p", "missing.jsonl", "--root", "{root}"],
    ["score", "--no-judge", "-p", "*.nothing", "--root", "{root}"],
    ["score", "--no-judge", "-p", "", "--root", "{root}"],
    ["score", "--no-judge", "-p", "{root}/models.csv", "--root", "{root}"],
    ["score", "--no-judge", "-p", "{root}/data/{set}/labels.jsonl", "--root", "{file}"],
    ["score", "--no-judge", "-p", "{file}", "--root", "{file}"],
    ["score", "--no-judge", "-p", "{file}", "--root", ""],
    ["score", "--no-judge", "-p", "{file}", "--root", "{root}", "--labels", "{file}"],
    ["score", "--no-judge", "-p", "{file}", "--labels", "{folder}"],
    ["score", "--no-judge", "-p", "{file}", "--labels", "missing"],
    ["score", "--no-judge", "-p", "{file}", "--root", "{root}", "--out", "{folder}"],
    ["score", "--no-judge", "-p", "{file}", "--root", "{root}", "--out", "{file}/x.json"],
    ["score", "--no-judge", "-p", "{file}", "--root", "{root}", "--out", "/proc/x.json"],
    ["score", "--no-judge", "-p", "{file}", "--root", "{root}", "--out", "a" * 300],
    ["score", "--no-judge", "-p", "{file}", "--root", "{root}", "--tables", "{file}"],
    ["score", "--no-judge", "-p", "{file}", "--root", "{root}", "--tables", "{file}/x"],
    ["score", "--no-judge", "-p", "{file}", "--root", "{root}", "--tables", "/proc/x"],
    ["score", "--no-judge", "-p", "{file}", "--root", "{root}", "--map", "{file}"],
    ["score", "--no-judge", "-p", "{file}", "--root", "{root}", "--map", "missing.csv"],
    ["score", "--no-judge", "-p", "{file}", "--root", "{root}", "--format", "xml"],
    ["score", "--no-judge", "--root", "{root}", "--out", "x.json"],
    ["score", "--no-judge", "--root", "{root}", "--limit", "1e3"],
    ["score", "--no-judge", "--root", "{root}", "--bogus"],
    ["score", "--no-judge", "--labels", "{file}"],
    ["joint", "--no-judge", "--root", "{root}"],
    ["joint", "--no-judge", "--root", "{root}", "-p", "{root}/predictions"],
    ["joint", "--no-judge", "--root", "{root}", "-p", "{file}", "--out", "{file}/x"],
    ["validate", "-p", "{file}", "--root", "{root}", "--fix", "{folder}"],
    ["validate", "--root", "{root}", "--fix", "x.jsonl"],
    ["validate", "--root", "/", "-p", "missing"],
    ["headline", "{file}"],
    ["headline", "{folder}"],
    ["headline", "missing"],
    ["compare", "{file}", "{file}"],
    ["compare", "{folder}", "{folder}"],
    ["compare", "missing", "missing", "--published", "x"],
    ["compare", "missing", "--published-file", "x"],
    ["verify", "missing"],
    ["verify", "{folder}"],
    ["verify", "{file}"],
    ["show", "nothing", "--root", "{root}"],
    ["show", "sewing-01", "--root", "{root}", "-p", "missing"],
    ["explain", "nothing"],
    ["schema", "nothing"],
    ["demo", "{file}"],
    ["demo", "{folder}"],
    [],
    ["--root"],
    ["--root", "{root}"],
]  # fmt: skip


@pytest.mark.parametrize("arguments", HOSTILE, ids=lambda a: " ".join(a)[:70])
def test_hostile_arguments_end_with_a_message(arguments: list[str], mabpl_: Mabpl, root: Path, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    named = {"folder": folder, "root": root, "set": SET, "file": file_of(root)}
    said = mabpl_(*(argument.format(**named) for argument in arguments))
    assert said.code in (1, 2)
    assert said.err.strip() or said.out.strip()
    assert (folder / "notes.txt").read_text() == "mine"


READERS: list[list[str]] = [
    ["validate", "-p", "{junk}", "--root", "{root}"],
    ["validate", "-p", "{junk}", "--root", "{root}", "--fix", "fixed.jsonl"],
    ["score", "--no-judge", "-p", "{junk}", "--root", "{root}"],
    ["score", "--no-judge", "-p", "{file}", "--labels", "{junk}"],
    ["score", "--no-judge", "-p", "{file}", "--root", "{root}", "--map", "{junk}"],
    ["joint", "--no-judge", "-p", "{junk}", "--root", "{root}"],
    ["show", "sewing-01", "--root", "{root}", "-p", "{junk}"],
    ["headline", "{junk}"],
    ["compare", "{junk}", "{junk}"],
    ["compare", "{result}", "--published", "x", "--published-file", "{junk}"],
    ["verify", "{junk}"],
    ["verify", "{result}", "--labels", "{junk}"],
    ["verify", "{result}", "-p", "{junk}"],
]

UNREADABLE = [
    b"", b"\n\n", b"\x00" * 64, random.Random(7).randbytes(600), b"\xff\xfe{\x00", b"\x1f\x8b\x08\x00broken",
    b"PAR1\x00\x00", b"null", b"5", b'"text"', b"[1, 2]", b"{" * 5000, b"[" * 100_000,
]  # fmt: skip
SOURCE = {"file": "a", "sha256": "b", "set": "c", "run": "d"}
ODD_ROWS = [
    '{"clip_id": "\\ud800", "segments": []}',
    '{"clip_id": "../../x", "segments": [{}]}',
    '{"clip_id": "sewing-01", "segments": [{"start_s": 1e308, "end_s": 1.7e308, "label": "", "is_idle": false}]}',
]
ODD_RESULTS = [
    '{"summary": 5}',
    '{"summary": {}}',
    '{"summary": {"clips": "x"}, "per_clip": 3}',
    '{"summary": {"clips": true}, "per_clip": {"a": 1}}',
    '{"summary": {"clips": 1e999}, "per_clip": {"a": {"x": 1e999}}}',
    '{"summary": {"clips": 3, "boundary_f1": NaN}, "per_clip": {"a": {"x": -1, "y": 0.5}}}',
    '{"summary": {"clips": 1}, "per_clip": {"a": {"x": 99999999999999999999, "b": null}}, "set": 5, "run": []}',
    json.dumps({"summary": {}, "per_clip": {}, "settings": 3, "provenance": {"inputs": [SOURCE]}}),
    json.dumps({"summary": {}, "settings": {}, "provenance": {"inputs": [{**SOURCE, "file": "/etc/passwd"}]}}),
    json.dumps({"summary": {}, "settings": {}, "provenance": {"inputs": [{**SOURCE, "set": "../.."}]}}),
]
JUNK = [*UNREADABLE, *(text.encode() for text in (*ODD_ROWS, *ODD_RESULTS))]


@pytest.mark.parametrize("reader", READERS, ids=" ".join)
def test_junk_ends_with_a_message(reader: list[str], mabpl_: Mabpl, root: Path, tmp_path: Path) -> None:
    mabpl_("score", "--root", root, "--no-judge", "-p", file_of(root))
    result = file_of(root).with_name(f"{RUN}.{SET}.scores.json")
    junk = tmp_path / "junk"
    for content in JUNK:
        junk.write_bytes(content)
        named = {"junk": junk, "root": root, "file": file_of(root), "result": result}
        said = mabpl_(*(argument.format(**named) for argument in reader))
        told = said.out + said.err
        harmless = "--map" in reader or (reader[0] in ("compare", "headline") and b'"per_clip": {"a"' in content)
        assert said.code in ((0, 1, 2) if harmless else (1, 2)), content
        assert told.strip(), content
        assert "\x1b" not in told, content


def test_a_fault_of_the_program_is_told_in_two_lines(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object) -> None:
        raise ValueError("odd \x1b[31m value")

    monkeypatch.delenv("MABPL_DEBUG", raising=False)
    monkeypatch.setattr("click.utils.should_strip_ansi", lambda *_, **__: False)
    monkeypatch.setattr("mabpl.benchmarks.micro_annotation.inputs.gather", broken)
    assert run(["validate", "--root", str(root)]) == 2
    said = capsys.readouterr()
    assert (said.out, len(said.err.splitlines())) == ("", 2)
    assert "a fault of mabpl itself: ValueError" in said.err
    assert "\x1b" not in said.err


# --- text from files never reaches the terminal raw ---

NASTY = "a\x1b[2J\x1b]0;owned\x07b\x9b31mc\u202ed\u200be\r[bold]f[/bold]"
FORBIDDEN = "\x1b\x07\x9b\u202e\u200b\r"


def test_text_from_files_is_shown_and_never_obeyed(
    mabpl_: Mabpl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    human = {NASTY: [segment(0, 5, NASTY), segment(5, 30, "x" + NASTY)], "plain": [segment(0, 9)]}
    labels = write_rows(tmp_path / "human.jsonl", human, duration_s=30, operator=NASTY, **{NASTY: NASTY})
    good = {NASTY: [segment(0, 5, NASTY), segment(7, 29, "y" + NASTY)], "plain": [segment(1, 9)]}
    model = write_rows(tmp_path / f"m{NASTY.replace('/', '')}.jsonl", good)
    other = write_rows(tmp_path / "other.jsonl", {**good, "plain": [segment(3, 9)]})
    backwards = segment(5, 2, NASTY, **{NASTY: 1})
    bad = write_rows(tmp_path / "bad.jsonl", {NASTY + "!": [backwards], NASTY: []}, extra=NASTY)
    human_side = ["--labels", labels]
    files = [*human_side, "-p", model]
    faulty = [*human_side, "-p", bad]
    result = str(model).removesuffix(".jsonl") + ".scores.json"
    pair = ["compare", result, "other.scores.json"]
    both = ["score", "--no-judge", *files, other, "--by"]
    calls: list[list[Any]] = [
        *(["validate", *given, *more] for given in (files, faulty) for more in ([], ["--json"])),
        ["validate", *faulty, "--fix", "fixed.jsonl"],
        *([verb, "--no-judge", *files, *more] for verb in ("score", "joint") for more in ([], ["--json"])),
        ["score", "--no-judge", *faulty],
        *([*both, "operator", "--format", format_] for format_ in ("terminal", "markdown", "csv", "json")),
        [*both, "operater"],
        ["score", "--no-judge", *files, "--tables", "t"],
        ["score", "--no-judge", *files, "--clips", NASTY + "?"],
        ["score", "--no-judge", *human_side, "-p", other],
        *(["headline", *more] for more in ([result], [result, "--json"], [result, result])),
        *([*pair, *more] for more in ([], ["--all"], ["--json"])),
        ["compare", result, "--published", NASTY, "--published-file", result],
        *(["verify", result, *human_side, *more] for more in ([], ["-p", other], ["-p", other, "--json"])),
        *(["verify", "t", "--labels", given] for given in (labels, bad)),
        *(["show", clip, *files] for clip in (NASTY, "plain", NASTY + "?")),
    ]
    for call in calls:
        said = mabpl_(*call)
        assert said.code in (0, 1, 2)
        assert said.out + said.err
        raw = {c for c in FORBIDDEN if c in said.out + said.err}
        assert not raw, call
    document = json.loads(Path(result).read_text(encoding="utf-8"))
    assert NASTY in document["per_clip"]
