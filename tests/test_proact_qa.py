"""The memory probe of ProactEgoMem by hand and against a plain count; prompts; clip windows and cut videos."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import videos
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from mabpl.benchmarks.proact_ego_mem import read_release, read_submissions, score_qa
from mabpl.benchmarks.proact_ego_mem.cuts import clip_file, cut_all, windows
from mabpl.benchmarks.proact_ego_mem.qa import questions, render
from mabpl.cli.main import run
from mabpl.data import proact_sample_folder
from mabpl.errors import InvalidTimelines, UsageError
from mabpl.tables.proact_ego_mem import QA_SCORES
from mabpl.video import iter_frames, probe

SAMPLE = proact_sample_folder()
JSON = SAMPLE / "json"
DEV = SAMPLE / "submissions" / "dev"
ALL = read_release(JSON)
RELEASED = ALL.select(splits=["dev"])


def write_rows(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def gold() -> dict[str, str]:
    return dict(RELEASED.qa_items.select("qa_id", "correct_letter").iter_rows())


# --- accuracy ---


def test_missing_and_illegal_letters_are_wrong_and_counted(tmp_path: Path) -> None:
    """Ten questions of one task: six right, one wrong, one missing, and two letters that are none."""
    part = RELEASED.select(tracks=["home"], tasks=["LT"])
    ids = part.qa_items["qa_id"].to_list()
    right = gold()
    wrong = {"A": "B", "B": "C", "C": "D", "D": "A"}
    letters: list[Any] = [right[q] for q in ids[:6]] + [wrong[right[ids[6]]], right[ids[8]].lower(), 3]
    rows = [{"qa_id": q, "letter": x} for q, x in zip([*ids[:7], *ids[8:]], letters, strict=True)]
    submissions = read_submissions(write_rows(tmp_path / "a.jsonl", rows), part, parts=["answers"])
    assert submissions.qa_answers.filter(pl.col("qa_id") == ids[9])["letter"].item() == "3"
    scores = score_qa(part, submissions)
    assert scores.schema == QA_SCORES.schema
    cell = scores.filter(track="home", task="location_tracking").row(0, named=True)
    assert {name: cell[name] for name in ("items", "answered", "missing", "illegal", "correct", "accuracy")} == {
        "items": 10, "answered": 7, "missing": 1, "illegal": 2, "correct": 6, "accuracy": 60.0,
    }  # fmt: skip
    assert cell["accuracy_low"] < 60 < cell["accuracy_high"]
    null = [*rows[:-1], {"qa_id": ids[9], "letter": None}]
    again = score_qa(part, read_submissions(write_rows(tmp_path / "a.jsonl", null), part, parts=["answers"]))
    assert again.select("missing", "illegal", "correct").row(0) == (2, 1, 6)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_accuracy_is_the_plain_count(tmp_path: Path, data: st.DataObject) -> None:
    ids = RELEASED.qa_items["qa_id"].to_list()
    letter = st.sampled_from(["A", "B", "C", "D", "E", "a", "", None])
    said = data.draw(st.dictionaries(st.sampled_from(ids), letter, min_size=1))
    rows = [{"qa_id": q, "letter": x} for q, x in data.draw(st.permutations(list(said.items())))]
    submissions = read_submissions(write_rows(tmp_path / "a.jsonl", rows), ALL, parts=["answers"])
    scores = score_qa(RELEASED, submissions, replicates=20)
    for row in scores.iter_rows(named=True):
        chosen = [
            (qa_id, correct)
            for track, task, qa_id, correct in RELEASED.qa_items.select(
                "track", "task", "qa_id", "correct_letter"
            ).iter_rows()
            if row["track"] in (None, track) and row["task"] in (None, task)
        ]
        right = sum(said.get(qa_id) == correct for qa_id, correct in chosen)
        legal = sum(said.get(qa_id) in ("A", "B", "C", "D") for qa_id, _ in chosen)
        missing = sum(said.get(qa_id) is None for qa_id, _ in chosen)
        assert (row["items"], row["correct"], row["answered"]) == (len(chosen), right, legal)
        assert (row["missing"], row["illegal"]) == (missing, len(chosen) - legal - missing)
        assert row["accuracy"] == 100 * right / len(chosen)
    assert scores.height == 6 + 2 + 1


def test_all_runs_at_once_are_each_by_itself_and_order_changes_nothing() -> None:
    together = score_qa(RELEASED, read_submissions(DEV, RELEASED, parts=["answers"]))
    files = sorted(DEV.iterdir())
    alone = [score_qa(ALL, read_submissions(file, ALL, parts=["answers"])) for file in files]
    assert_frame_equal(pl.concat(alone), together)
    assert_frame_equal(score_qa(RELEASED, read_submissions(files[::-1], RELEASED, parts=["answers"])), together)
    ranked = together.filter(pl.col("track").is_null()).sort("accuracy")["run"].to_list()
    assert ranked == ["quiet", "chatty", "attentive"]


def test_the_interval_draws_clips_and_not_questions() -> None:
    """Of two clips, one is all right and one all wrong: a draw holds 0, 1 or 2 of the right one."""
    part = RELEASED.select(tracks=["home"], tasks=["IC"])
    two = part.clips.filter(pl.col("qa_items") > 0).head(2)["clip_uid"].to_list()
    cut = part.qa_items.filter(pl.col("clip_uid").is_in(two))
    sizes = dict(cut.group_by("clip_uid").len().iter_rows())
    letters = pl.when(pl.col("clip_uid") == two[0]).then("correct_letter").otherwise(pl.lit("A"))
    wrong = pl.when(pl.col("clip_uid") == two[0]).then("correct_letter").otherwise(pl.lit("B"))
    few = type(part)(**{**part.__dict__, "qa_items": cut.with_columns(correct_letter=letters)})
    answers = few.qa_items.select(pl.lit("r").alias("run"), "qa_id", wrong.alias("letter"))
    base = read_submissions(DEV / "quiet.jsonl", part, parts=["answers"])
    scores = score_qa(few, type(base)(**{**base.__dict__, "qa_answers": answers}))
    row = scores.row(0, named=True)
    assert row["accuracy"] == 100 * sizes[two[0]] / sum(sizes.values())
    assert (row["accuracy_low"], row["accuracy_high"]) == (0, 100)
    single = type(part)(**{**few.__dict__, "qa_items": few.qa_items.filter(clip_uid=two[0])})
    alone = score_qa(single, type(base)(**{**base.__dict__, "qa_answers": answers})).row(0, named=True)
    assert (alone["accuracy"], alone["accuracy_low"], alone["accuracy_high"]) == (100.0, None, None)


def test_the_test_split_refuses_and_never_scores_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    submission = SAMPLE / "submissions" / "test" / "attentive.jsonl"
    submissions = read_submissions(submission, ALL)
    with pytest.raises(UsageError, match="QA cannot be scored on the test split: its annotations are withheld"):
        score_qa(ALL, submissions)
    assert run(["proact", "qa", "--labels", str(JSON), str(submission), "--json"]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert "ground_truth_released is false" in told.err
    both = tmp_path / "both.jsonl"
    both.write_bytes((DEV / "attentive.jsonl").read_bytes() + submission.read_bytes())
    with pytest.raises(UsageError, match="withheld"):
        score_qa(ALL, read_submissions(both, ALL, parts=["answers"]))
    kept = score_qa(RELEASED, read_submissions(both, RELEASED, parts=["answers"]))
    alone = score_qa(RELEASED, read_submissions(DEV / "attentive.jsonl", RELEASED, parts=["answers"]))
    assert_frame_equal(kept.drop("run"), alone.drop("run"))
    with pytest.raises(UsageError, match="no submission answers"):
        score_qa(RELEASED, read_submissions(submission, RELEASED))


def test_a_question_twice_or_unknown_is_an_error(tmp_path: Path) -> None:
    qa_id, letter = next(iter(gold().items()))
    for extra, rule in (
        ({"qa_id": qa_id, "letter": "B"}, "duplicate-qa"),
        ({"qa_id": "q", "letter": "B"}, "unknown-qa"),
    ):
        rows = [{"qa_id": qa_id, "letter": letter}, extra]
        with pytest.raises(InvalidTimelines, match=rule):
            score_qa(RELEASED, read_submissions(write_rows(tmp_path / "a.jsonl", rows), RELEASED, parts=["answers"]))


def test_the_command_prints_writes_and_passes_over_lines_about_clips(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    failed = write_rows(tmp_path / "f.jsonl", [{"clip_uid": "x", "error": "no reply"}, *(
        {"qa_id": qa_id, "letter": letter} for qa_id, letter in gold().items()
    )])  # fmt: skip
    out = tmp_path / "qa.json"
    arguments = ["proact", "qa", "--labels", str(JSON), str(failed), "--quiet"]
    assert run([*arguments, "--json", "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert printed == out.read_text(encoding="utf-8")
    document = json.loads(printed)
    assert {row["accuracy"] for row in document["qa_scores"]} == {100.0}
    released = document["provenance"]["released"]
    assert len(released) == 12
    assert {(one["schema_version"], one["kind"], one["rev"]) for one in released} == {
        ("proact-studio-v3", "canonical", 0)
    }
    assert str(tmp_path) not in printed and str(JSON) not in printed
    assert run(arguments) == 0
    assert "missing and illegal letters are wrong" in capsys.readouterr().out
    assert run(["proact", "qa", "--labels", str(JSON)]) == 2


# --- prompts ---


def test_prompts_keep_the_released_order_and_tell_no_answer(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert render("Which?", ["B", "A"], ["red", "blue"]).startswith("Which?\nB. red\nA. blue\n")
    assert run(["proact", "qa-prompts", "--labels", str(JSON)]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(rows) == ALL.qa_items.height == questions(ALL).height
    released: dict[str, Any] = {}
    for path in JSON.rglob("*.json"):
        for clip in json.loads(path.read_text(encoding="utf-8"))["clips"].values():
            released |= clip["qa_items"]
    for row in rows:
        choices = released[row["qa_id"]]["answer_choices"]
        assert list(zip(row["letters"], row["choices"], strict=True)) == [(c["letter"], c["text"]) for c in choices]
        lines = [f"{c['letter']}. {c['text']}" for c in choices]
        assert row["prompt"].splitlines()[:5] == [released[row["qa_id"]]["question"], *lines]
        assert not {"answer", "correct_letter"} & row.keys()
    out = tmp_path / "prompts.jsonl"
    assert (
        run(["proact", "qa-prompts", "--labels", str(JSON), "--task", "IC", "--split", "dev", "--out", str(out)]) == 0
    )
    assert {json.loads(line)["task"] for line in out.read_text(encoding="utf-8").splitlines()} == {
        "information_capture"
    }


# --- clips ---


def test_windows_are_those_of_the_source(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(["proact", "cuts", "--labels", str(JSON)]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    released: dict[str, Any] = {}
    for path in JSON.rglob("*.json"):
        released |= json.loads(path.read_text(encoding="utf-8"))["clips"]
    assert len(rows) == len(released) == 36
    for row in rows:
        clip = released[row["clip_uid"]]
        assert (row["video_uid"], row["start_s"], row["end_s"], row["duration_s"]) == (
            clip["video_uid"], clip["abs_start_sec"], clip["abs_end_sec"], clip["duration_sec"],
        )  # fmt: skip
    out = tmp_path / "cuts.csv"
    assert run(["proact", "cuts", "--labels", str(JSON), "--out", str(out)]) == 0
    table = list(csv.DictReader(io.StringIO(out.read_text(encoding="utf-8"))))
    assert [row["clip_uid"] for row in table] == [row["clip_uid"] for row in rows]
    assert float(table[0]["start_s"]) == rows[0]["start_s"]


@pytest.fixture(scope="module")
def release_with_videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four clips: two of a video of 8 s at 10 a second, one of a video that is too short, one of none."""
    root = tmp_path_factory.mktemp("proact")
    (root / "videos" / "part").mkdir(parents=True)
    videos.make(root / "videos" / "part" / "long.mp4", 80, 10)
    videos.make(root / "videos" / "short.mp4", 20, 10)
    clips = {}
    for uid, video, start_s, end_s in (
        ("c1", "long", 1.5, 4.0), ("../c 2", "long", 4.0, 8.0), ("c3", "short", 1.0, 5.0), ("c4", "gone", 0.0, 1.0),
    ):  # fmt: skip
        clips[uid] = {
            "clip_uid": uid, "video_uid": video, "clip_path": None, "abs_start_sec": start_s, "abs_end_sec": end_s,
            "duration_sec": end_s - start_s, "sample_ids": [], "qa_items": {},
        }  # fmt: skip
    names = {clip["video_uid"] for clip in clips.values()}
    doc = {
        "schema_version": "proact-studio-v3", "task": "state_tracking", "kind": "canonical", "rev": 0, "split": "dev",
        "ground_truth_released": True, "canary": "x", "clips": clips,
        "videos": {name: {"video_uid": name, "video_path": None, "samples": {}} for name in sorted(names)},
    }  # fmt: skip
    (root / "t_dev").mkdir()
    (root / "t_dev" / "st.json").write_text(json.dumps(doc), encoding="utf-8")
    return root


def test_clips_are_cut_to_the_frame_and_what_is_missing_is_listed(
    release_with_videos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root, out = release_with_videos, tmp_path / "clips"
    arguments = ["proact", "cuts", "--labels", str(root / "t_dev"), "--videos", str(root / "videos"), "--quiet"]
    assert run([*arguments, "--clips-dir", str(out)]) == 3
    told = capsys.readouterr().out
    assert "missing: clip c4, video gone" in told
    assert "failed: clip c3, video short" in told and "ends at 2.000 s" in told
    assert "2 cut, 0 kept, 1 missing, 1 failed" in told
    assert sorted(path.name for path in out.iterdir()) == ["%2E.%2Fc%202.mp4", "c1.mp4"]
    info = probe(out / "c1.mp4")
    assert (info.width, info.height, info.num_frames, info.duration_s) == (160, 96, 25, pytest.approx(2.5))
    shown = [videos.read(frame.image) for frame in iter_frames(out / "c1.mp4", 0, 2.5, 10, 160)]
    assert shown == list(range(15, 40))
    first = (out / "c1.mp4").read_bytes()
    assert run([*arguments, "--clips-dir", str(out), "--json"]) == 3
    assert json.loads(capsys.readouterr().out)["counts"] == {"failed": 1, "kept": 2, "missing": 1}
    wanted = windows(read_release(root / "t_dev")).filter(clip_uid="c1")
    (cut,) = cut_all(wanted, root / "videos", out, again=True)
    assert (cut.status, (out / "c1.mp4").read_bytes()) == ("cut", first)
    (small,) = cut_all(wanted, root / "videos", tmp_path / "small", fps=5, long_side=80)
    assert small.status == "cut"
    assert probe(tmp_path / "small" / "c1.mp4").num_frames == 13


@pytest.mark.parametrize(
    ("option", "told"),
    [
        (["--fps", "0"], "0 frames a second"), (["--fps", "-3"], "-3 frames"), (["--fps", "nan"], "nan frames"),
        (["--long-side", "1"], "1 pixels"), ([], "is a file"),
    ],
)  # fmt: skip
def test_what_cannot_be_cut_is_told_before_any_clip(
    release_with_videos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], option: list[str], told: str
) -> None:
    root, out = release_with_videos, tmp_path / "clips"
    if not option:
        out.write_text("")
    arguments = ["--labels", str(root / "t_dev"), "--videos", str(root / "videos"), "--clips-dir", str(out), *option]
    assert run(["proact", "cuts", *arguments]) == 2
    said = capsys.readouterr()
    assert told in said.err and said.out == "" and not out.is_dir()


def test_quiet_says_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("qa-prompts", "cuts"):
        assert run(["proact", name, "--labels", str(JSON), "--out", str(tmp_path / name), "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")


def test_an_id_is_never_a_path() -> None:
    assert clip_file("../../etc") == "%2E.%2F..%2Fetc.mp4"
    assert clip_file("a/b\0c") == "a%2Fb%00c.mp4"
    assert clip_file(".hidden") == "%2Ehidden.mp4"


def test_cuts_need_both_folders(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(["proact", "cuts", "--labels", str(JSON), "--videos", str(tmp_path)]) == 2
    assert run(["proact", "cuts", "--labels", str(JSON), "--json"]) == 2
    gone = ["--videos", str(tmp_path / "no"), "--clips-dir", str(tmp_path / "c")]
    assert run(["proact", "cuts", "--labels", str(JSON), *gone]) == 2
    assert "there is no such folder" in capsys.readouterr().err
