"""ProactEgoMem's files: every rule broken once and found at its path, clamping, totals of a release, submissions."""

from __future__ import annotations

import copy
import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import make_proact_sample
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from mabpl.benchmarks.proact_ego_mem import Release, Submissions, read_release, read_submissions
from mabpl.benchmarks.proact_ego_mem.checking import check_file
from mabpl.benchmarks.proact_ego_mem.parsing import parse
from mabpl.benchmarks.proact_ego_mem.rules import RELEASE_RULES, SUBMISSION_RULES
from mabpl.benchmarks.proact_ego_mem.totals import check_totals, totals_problems
from mabpl.cli.main import run
from mabpl.data import proact_sample_folder
from mabpl.errors import InputError, InvalidTimelines, UsageError
from mabpl.tables.proact_ego_mem import MENTIONS, PROACT_CLIPS, PROACT_SEGMENTS, QA_ITEMS

SAMPLE = proact_sample_folder()
JSON = SAMPLE / "json"
DEV = SAMPLE / "submissions" / "dev"
SCHEMAS = Path(__file__).resolve().parent.parent / "data_schema"

Doc = dict[str, Any]
Rows = list[dict[str, Any]]


def load(name: str) -> Doc:
    doc: Doc = json.loads((JSON / name).read_text(encoding="utf-8"))
    return doc


BASE = load("workshop_dev/location_tracking.json")
TEST = load("workshop_test/location_tracking.json")
SAMPLES = {key: one for video in BASE["videos"].values() for key, one in video["samples"].items()}
C, CLIP = next(
    (uid, clip)
    for uid, clip in BASE["clips"].items()
    if len(clip["sample_ids"]) > 1 and SAMPLES[clip["sample_ids"][0]]["times"]["end_sec"] is not None
)
V = CLIP["video_uid"]
S = CLIP["sample_ids"][0]
OPEN = next(key for key, one in SAMPLES.items() if one["times"]["end_sec"] is None)
OPEN_IN = next(v for v, one in BASE["videos"].items() if OPEN in one["samples"])
Q = next(iter(CLIP["qa_items"]))
OTHER = next(uid for uid, c in BASE["clips"].items() if uid != C and c["sample_ids"])
NEGATIVE = next(uid for uid, c in BASE["clips"].items() if not c["sample_ids"])
OTHER_V = next(v for v in BASE["videos"] if v != V)
LATER_V = max((V, OTHER_V), key=list(BASE["videos"]).index)
TEST_C = next(iter(TEST["clips"]))
TEST_V = next(iter(TEST["videos"]))
SAMPLE_AT, CLIP_AT, QA_AT = f"videos.{V}.samples.{S}", f"clips.{C}", f"clips.{C}.qa_items.{Q}"


def write(folder: Path, doc: Any, name: str = "workshop_dev/location_tracking.json") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(doc if isinstance(doc, str) else json.dumps(doc), encoding="utf-8")
    return path


def found(release: Release | Submissions) -> set[tuple[str, str | None]]:
    return set(release.problems.select("rule", "field").iter_rows())


KNOWN = {("outside-clip", one[1]) for one in found(read_release(JSON / "workshop_dev" / "location_tracking.json"))}


def sample_of(doc: Doc) -> Doc:
    one: Doc = doc["videos"][V]["samples"][S]
    return one


def choices_of(doc: Doc) -> Rows:
    rows: Rows = doc["clips"][C]["qa_items"][Q]["answer_choices"]
    return rows


def set_at(*path: Any, to: Any) -> Callable[[Doc], None]:
    def change(doc: Doc) -> None:
        for key in path[:-1]:
            doc = doc[key]
        doc[path[-1]] = to

    return change


def drop(*path: Any) -> Callable[[Doc], None]:
    def change(doc: Doc) -> None:
        for key in path[:-1]:
            doc = doc[key]
        del doc[path[-1]]

    return change


def both_times(start_s: float, end_s: float) -> Callable[[Doc], None]:
    def change(doc: Doc) -> None:
        one, offset_s = sample_of(doc), doc["clips"][C]["abs_start_sec"]
        one["clip"] |= {"local_start_sec": start_s, "local_end_sec": end_s}
        one["times"] = {"start_sec": start_s + offset_s, "end_sec": end_s + offset_s}

    return change


def twice(doc: Doc) -> None:
    doc["videos"][OTHER_V]["samples"][S] = copy.deepcopy(sample_of(doc))


SAMPLES_C = ("videos", V, "samples", S)
QA_C = ("clips", C, "qa_items", Q)

BREACHES: list[tuple[str, str, Callable[[Doc], Any]]] = [
    ("schema-version", "schema_version", set_at("schema_version", to="proact-studio-v4")),
    ("released-flag", "ground_truth_released", set_at("ground_truth_released", to=False)),
    ("missing-field", "canary", drop("canary")),
    ("missing-field", f"{CLIP_AT}.sample_ids", drop("clips", C, "sample_ids")),
    ("missing-field", f"{QA_AT}.answer", drop(*QA_C, "answer")),
    ("missing-field", f"{QA_AT}.correct_letter", drop(*QA_C, "correct_letter")),
    ("missing-field", f"{CLIP_AT}.duration_sec", drop("clips", C, "duration_sec")),
    ("wrong-type", f"{CLIP_AT}.duration_sec", set_at("clips", C, "duration_sec", to=None)),
    ("wrong-type", f"{CLIP_AT}.duration_sec", set_at("clips", C, "duration_sec", to=0)),
    ("wrong-type", f"{CLIP_AT}.clip_path", set_at("clips", C, "clip_path", to="a.mp4")),
    ("wrong-type", f"{SAMPLE_AT}.times.start_sec", set_at(*SAMPLES_C, "times", "start_sec", to="0:12")),
    ("wrong-type", f"{SAMPLE_AT}.object", set_at(*SAMPLES_C, "object", to="")),
    ("wrong-type", "rev", set_at("rev", to="0")),
    ("wrong-value", "task", set_at("task", to="LT")),
    ("wrong-value", f"{SAMPLE_AT}.task", set_at(*SAMPLES_C, "task", to="tracking")),
    ("non-finite", f"{SAMPLE_AT}.times.start_sec", set_at(*SAMPLES_C, "times", "start_sec", to=float("nan"))),
    ("unknown-key", f"{CLIP_AT}.fps", set_at("clips", C, "fps", to=30)),
    ("unknown-key", f"{QA_AT}.answer_choices[2].correct", lambda d: choices_of(d)[2].update(correct=True)),
    ("encoding", f"{SAMPLE_AT}.note", set_at(*SAMPLES_C, "note", to="\ud800")),
    ("no-clips", "clips", lambda d: d.update(clips={}, videos={})),
    ("id-mismatch", f"videos.{V}.video_uid", set_at("videos", V, "video_uid", to="x")),
    ("id-mismatch", f"{SAMPLE_AT}.sample_id", set_at(*SAMPLES_C, "sample_id", to="x")),
    ("id-mismatch", f"{CLIP_AT}.clip_uid", set_at("clips", C, "clip_uid", to="x")),
    ("id-mismatch", f"{QA_AT}.qa_id", set_at(*QA_C, "qa_id", to="x")),
    ("task-mismatch", f"{SAMPLE_AT}.task", set_at(*SAMPLES_C, "task", to="state_tracking")),
    ("open-end", f"videos.{OPEN_IN}.samples.{OPEN}.times.end_sec",
     set_at("videos", OPEN_IN, "samples", OPEN, "times", "end_sec", to=950.0)),
    ("open-end", f"videos.{OPEN_IN}.samples.{OPEN}.times.end_sec",
     set_at("videos", OPEN_IN, "samples", OPEN, "clip", "local_end_sec", to=50.0)),
    ("local-time", f"{SAMPLE_AT}.clip.local_start_sec",
     lambda d: sample_of(d)["times"].update(start_sec=sample_of(d)["times"]["start_sec"] + 0.00101)),
    ("local-time", f"{SAMPLE_AT}.clip.local_end_sec", lambda d: sample_of(d)["clip"].update(local_end_sec=1.0)),
    ("time-out-of-range", f"{SAMPLE_AT}.clip.local_start_sec", both_times(-1e10, 20)),
    ("clip-window", f"{CLIP_AT}.abs_end_sec", set_at("clips", C, "abs_end_sec", to=CLIP["abs_start_sec"])),
    ("unknown-video", f"{CLIP_AT}.video_uid", set_at("clips", C, "video_uid", to="v9")),
    ("unknown-clip", f"{SAMPLE_AT}.clip.clip_uid", set_at(*SAMPLES_C, "clip", "clip_uid", to="c9")),
    ("unknown-sample", f"{CLIP_AT}.sample_ids[1]", set_at("clips", C, "sample_ids", 1, to="s9")),
    ("unlisted-sample", f"{SAMPLE_AT}.clip.clip_uid", drop("clips", C, "sample_ids", 0)),
    ("duplicate-sample", f"{CLIP_AT}.sample_ids[1]", set_at("clips", C, "sample_ids", 1, to=S)),
    ("duplicate-sample", f"videos.{LATER_V}.samples.{S}", twice),
    ("sample-of-other-clip", f"clips.{OTHER}.sample_ids[0]", lambda d: d["clips"][OTHER]["sample_ids"].insert(0, S)),
    ("video-mismatch", f"{SAMPLE_AT}.clip.clip_uid", set_at("clips", C, "video_uid", to=OTHER_V)),
    ("choice-count", f"{QA_AT}.answer_choices", lambda d: choices_of(d).append({"letter": "E", "text": "none"})),
    ("duplicate-letter", f"{QA_AT}.answer_choices[3].letter",
     lambda d: choices_of(d)[3].update(letter=choices_of(d)[0]["letter"])),
    ("unknown-letter", f"{QA_AT}.correct_letter", set_at(*QA_C, "correct_letter", to="b")),
    ("answer-mismatch", f"{QA_AT}.answer", set_at(*QA_C, "answer", to="something else")),
    ("split-of-folder", "split", set_at("split", to="test")),
    ("duration-mismatch", f"{CLIP_AT}.duration_sec", set_at("clips", C, "duration_sec", to=CLIP["duration_sec"] + 0.1)),
    ("outside-clip", f"{SAMPLE_AT}.clip.local_start_sec", both_times(-1, 20)),
    ("outside-clip", f"{SAMPLE_AT}.clip.local_end_sec", both_times(1, CLIP["duration_sec"] + 1)),
    ("zero-length", f"{SAMPLE_AT}.clip", both_times(20, 20)),
]  # fmt: skip

ELSEWHERE = {
    "invalid-json", "duplicate-key", "byte-order-mark", "withheld-on-test", "emptied-clip", "clip-in-two-files",
    "clip-differs", "qa-in-two-files", "published-total",
}  # fmt: skip


@pytest.mark.parametrize(("rule", "field", "change"), BREACHES, ids=lambda v: v if isinstance(v, str) else "")
def test_every_rule_is_broken_once_and_found_at_its_path(
    tmp_path: Path, rule: str, field: str, change: Callable[[Doc], Any]
) -> None:
    doc = copy.deepcopy(BASE)
    change(doc)
    release = read_release(write(tmp_path, doc))
    assert (rule, field) in found(release)
    row = release.problems.filter(rule=rule, field=field).row(0, named=True)
    assert row["severity"] == RELEASE_RULES[rule].severity
    assert row["hint"] and row["message"]
    assert row["clip_id"] == (field.split(".")[1] if field.startswith("clips.") else row["clip_id"])


def test_no_rule_is_left_out_and_none_is_found_in_the_sample() -> None:
    assert {rule for rule, _, _ in BREACHES} | ELSEWHERE == set(RELEASE_RULES)
    release = read_release(JSON)
    release.require_valid()
    assert sorted(release.problems["rule"]) == ["emptied-clip", "outside-clip", "zero-length"]


@pytest.mark.parametrize(
    ("rule", "field", "change"),
    [
        ("withheld-on-test", f"videos.{TEST_V}.samples", set_at("videos", TEST_V, "samples", to={S: sample_of(BASE)})),
        ("withheld-on-test", f"clips.{TEST_C}.sample_ids", set_at("clips", TEST_C, "sample_ids", to=[])),
        ("withheld-on-test", "canary", set_at("canary", to="x")),
        ("withheld-on-test", f"clips.{TEST_C}.qa_items.{next(iter(TEST['clips'][TEST_C]['qa_items']))}.answer",
         lambda d: next(iter(d["clips"][TEST_C]["qa_items"].values())).update(answer="red")),
        ("withheld-on-test", f"clips.{TEST_C}.qa_items.{next(iter(TEST['clips'][TEST_C]['qa_items']))}.correct_letter",
         lambda d: next(iter(d["clips"][TEST_C]["qa_items"].values())).update(correct_letter="A")),
        ("released-flag", "ground_truth_released", set_at("ground_truth_released", to=True)),
    ],
)  # fmt: skip
def test_what_is_withheld_on_test(tmp_path: Path, rule: str, field: str, change: Callable[[Doc], Any]) -> None:
    doc = copy.deepcopy(TEST)
    change(doc)
    release = read_release(write(tmp_path, doc, "workshop_test/location_tracking.json"))
    assert (rule, field) in found(release)
    with pytest.raises(InvalidTimelines, match=rule):
        release.require_valid()


def test_a_fault_hides_no_other_and_is_told_once(tmp_path: Path) -> None:
    """A sample, a clip and a question that cannot be read do not make what refers to them look wrong."""
    doc = copy.deepcopy(BASE)
    sample_of(doc)["times"]["start_sec"] = None
    doc["clips"][OTHER]["duration_sec"] = None
    other_q = next(iter(doc["clips"][OTHER]["qa_items"]))
    doc["clips"][OTHER]["qa_items"][other_q]["answer"] = "another"
    doc["clips"][C]["qa_items"][Q]["answer"] = "another"
    doc["foo"] = doc["clips"]["with space"] = 1
    assert found(read_release(write(tmp_path, doc))) - KNOWN == {
        ("wrong-type", f"{SAMPLE_AT}.times.start_sec"),
        ("wrong-type", f"clips.{OTHER}.duration_sec"),
        ("wrong-type", 'clips["with space"]'),
        ("answer-mismatch", f"clips.{OTHER}.qa_items.{other_q}.answer"),
        ("answer-mismatch", f"{QA_AT}.answer"),
        ("unknown-key", "foo"),
    }


def test_a_key_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    doc = copy.deepcopy(BASE)
    doc["clips"]["\ud800"] = {**copy.deepcopy(CLIP), "clip_uid": "\ud800", "sample_ids": [], "qa_items": {}}
    release = read_release(write(tmp_path, doc))
    assert ("encoding", 'clips["\\\\ud800"]') in found(release)
    assert release.clips.is_empty()


def test_a_repeated_key_is_seen_wherever_it_is(tmp_path: Path) -> None:
    text = json.dumps(BASE)
    for key, field in ((f'"{C}": ', f"clips.{C}"), ('"rev": ', "rev"), (f'"{Q}": ', QA_AT)):
        at = text.index(key)
        value, _ = json.JSONDecoder().raw_decode(text, at + len(key))
        doubled = f"{text[:at]}{key}{json.dumps(value)}, {text[at:]}"
        assert ("duplicate-key", field) in found(read_release(write(tmp_path, doubled)))
    quoted = text.replace('"rev": 0', '"rev": 0, "rev": 0').replace('"kind": "', '"kind": "\\u0022\\u0022', 1)
    assert ("duplicate-key", "rev") in found(read_release(write(tmp_path, quoted)))
    escaped = text.replace('"canary"', '"c\\u0061nary": 1, "canary"', 1)
    assert ("duplicate-key", "canary") in found(read_release(write(tmp_path, escaped)))


def test_files_that_are_no_released_file(tmp_path: Path) -> None:
    cut = json.dumps(BASE)[:-50]
    assert {rule for rule, _ in found(read_release(write(tmp_path, cut)))} == {"invalid-json"}
    marked = write(tmp_path, "\ufeff" + json.dumps(BASE))
    assert ("byte-order-mark", None) in found(read_release(marked))
    assert read_release(marked).clips.height == len(BASE["clips"])
    with pytest.raises(InputError, match="no such file"):
        read_release(tmp_path / "nowhere.json")
    with pytest.raises(InputError, match="no released file is there"):
        read_release(tmp_path / "workshop_dev" / "*.jsonx")
    (tmp_path / "workshop_dev" / "eval_config.json").write_text('{"early_s": 1}', encoding="utf-8")
    passed = read_release(tmp_path)
    assert len(passed.files) == 1
    assert "eval_config.json is passed over" in passed.notes[0]
    assert not read_release(tmp_path / "workshop_dev" / "eval_config.json").problems.is_empty()


def test_gzip_order_and_folders_change_nothing(tmp_path: Path) -> None:
    whole = read_release(JSON)
    shutil.copytree(JSON, tmp_path / "json")
    for path in sorted((tmp_path / "json").rglob("*.json"))[::2]:
        doc = json.loads(path.read_text(encoding="utf-8"))
        doc["clips"] = dict(reversed(doc["clips"].items()))
        doc["videos"] = dict(reversed(doc["videos"].items()))
        path.with_suffix(".json.gz").write_bytes(gzip.compress(json.dumps(doc).encode()))
        path.unlink()
    first = tmp_path / "json" / "home_dev" / "information_capture.json.gz"
    first.rename(first.with_name("z.json.gz"))
    again = read_release(sorted((tmp_path / "json").rglob("*.*"), reverse=True))
    for name in ("segments", "qa_items"):
        assert_frame_equal(getattr(again, name), getattr(whole, name))
    assert_frame_equal(again.clips.drop("file"), whole.clips.drop("file"))
    assert [file[2:] for file in again.files] == [file[2:] for file in whole.files]
    for frame, table in ((whole.clips, PROACT_CLIPS), (whole.segments, PROACT_SEGMENTS), (whole.qa_items, QA_ITEMS)):
        assert frame.schema == table.schema
        assert frame.select(table.key).is_unique().all()
        assert_frame_equal(frame, frame.sort(table.key))


def test_tracks_come_from_folders_or_are_given(tmp_path: Path) -> None:
    plain = write(tmp_path, BASE, "anything/lt.json")
    assert read_release(plain).files[0].track == "anything"
    assert read_release(plain, track="mine").clips["track"].unique().to_list() == ["mine"]
    assert {one.track for one in read_release(JSON).files} == {"home", "workshop"}
    chosen = read_release(JSON).select(tasks=["lt", "state_tracking"], splits=["dev"], tracks=["home"])
    assert [(one.track, one.task, one.split) for one in chosen.files] == [
        ("home", "location_tracking", "dev"),
        ("home", "state_tracking", "dev"),
    ]
    assert set(chosen.segments["task"]) == {"location_tracking", "state_tracking"}
    with pytest.raises(UsageError, match="XT"):
        read_release(JSON).select(tasks=["XT"])


def test_open_ends_clamping_dropping_negatives_and_emptied_clips(tmp_path: Path) -> None:
    """By hand: a clip of 60 s from 100 s on, another that is emptied, and one that is declared negative."""

    def one(name: str, clip: str, start_s: float, end_s: float | None) -> Doc:
        end = None if end_s is None else 100 + end_s
        return {
            "sample_id": name, "task": "state_tracking", "object": name, "note": None,
            "times": {"start_sec": 100 + start_s, "end_sec": end},
            "clip": {"clip_uid": clip, "local_start_sec": start_s, "local_end_sec": end_s},
        }  # fmt: skip

    spans = [("a", 10, None), ("b", 50, 70), ("c", 60, None), ("d", 20, 20), ("e", 59.9995, 61), ("f", 5, 9)]
    samples = {name: one(name, "c1", start, end) for name, start, end in spans}
    samples["g"] = one("g", "c2", 60, None)
    clip = {"video_uid": "v", "clip_path": None, "abs_start_sec": 100.0, "abs_end_sec": 160, "duration_sec": 60}
    clips = {
        name: {**clip, "clip_uid": name, "sample_ids": ids, "qa_items": {}}
        for name, ids in (("c1", list("abcdef")), ("c2", ["g"]), ("c3", []))
    }
    head = {key: BASE[key] for key in ("schema_version", "kind", "rev", "split", "ground_truth_released", "canary")}
    videos = {"v": {"video_uid": "v", "video_path": None, "samples": samples}}
    release = read_release(write(tmp_path, {**head, "task": "state_tracking", "videos": videos, "clips": clips}))
    release.require_valid()
    assert release.segments.select("sample_id", "start_s", "end_s", "is_open", "dropped").rows() == [
        ("a", 10.0, 60.0, True, False),
        ("b", 50.0, 60.0, False, False),
        ("c", 60.0, 60.0, True, True),
        ("d", 20.0, 20.0, False, True),
        ("e", 59.9995, 60.0, False, False),
        ("f", 5.0, 9.0, False, False),
        ("g", 60.0, 60.0, True, True),
    ]
    assert release.clips.select("clip_uid", "declared_negative", "listed", "scored").rows() == [
        ("c1", False, 6, 4),
        ("c2", False, 1, 0),
        ("c3", True, 0, 0),
    ]
    assert ("emptied-clip", "clips.c2.sample_ids") in found(release)


def test_the_test_split_says_nothing_of_segments() -> None:
    release = read_release(JSON).select(splits=["test"])
    assert release.segments.is_empty()
    assert release.clips.select(pl.col("declared_negative", "listed", "scored").null_count()).row(0) == (12, 12, 12)
    assert release.qa_items["correct_letter"].null_count() == release.qa_items.height > 0
    with pytest.raises(UsageError, match="events cannot be scored on the test split"):
        release.require_released({"test"}, "events")


def test_what_is_twice_over_the_files(tmp_path: Path) -> None:
    write(tmp_path, BASE)
    write(tmp_path, BASE, "workshop_dev/again.json")
    assert {rule for rule, _ in found(read_release(tmp_path)) - KNOWN} == {"clip-in-two-files"}
    moved = copy.deepcopy(BASE)
    moved["clips"][C] |= {"abs_start_sec": 0.0, "abs_end_sec": CLIP["duration_sec"]}
    moved["clips"][OTHER]["qa_items"][Q] = moved["clips"][C]["qa_items"].pop(Q)
    for video in moved["videos"].values():
        for key in [k for k, one in video["samples"].items() if one["clip"]["clip_uid"] == C]:
            del video["samples"][key]
    moved["clips"][C]["sample_ids"] = []
    write(tmp_path, moved, "other_dev/lt.json")
    (tmp_path / "workshop_dev" / "again.json").unlink()
    told = found(read_release(tmp_path)) - KNOWN
    assert ("clip-differs", f"clips.{C}") in told
    assert any(rule == "qa-in-two-files" and str(field).endswith(Q) for rule, field in told)


# --- a whole release ---


def release_of(tmp_path: Path, **change: Any) -> Path:
    """Fifteen files that add up to the published totals: three folders of Daily's, two of Science's."""
    published = {"open_daily": 318, "open_lt": 144, "all_lt": 371, "without": 1, "questions": 1500}
    figures: dict[str, int] = published | change
    clips_left, questions_left = 400, figures["questions"]
    folders = ["a_dev", "b_dev", "a_test", "c_dev", "c_test"]
    tasks = ["information_capture", "state_tracking", "location_tracking"]
    for number, (folder, task) in enumerate((f, t) for f in folders for t in tasks):
        size = 26 if number < 14 else clips_left
        clips_left -= size
        dev, science = folder.endswith("dev"), folder.startswith("c")
        opened = total = 0
        if science and dev:
            opened = {"state_tracking": 159 - 144, "location_tracking": figures["open_lt"]}.get(task, 0)
            total = {"state_tracking": 15, "location_tracking": figures["all_lt"]}.get(task, 5)
        elif dev:
            half = (folder, task) in (("a_dev", tasks[1]), ("b_dev", tasks[2]))
            opened = total = figures["open_daily"] // 2 if half else 0
        without = {0: 4, 10: figures["without"]}.get(number, 0)
        asked = 4 * (size - without)
        asked = asked if number < 14 else questions_left
        questions_left -= asked
        write(tmp_path, made_file(f"{number}", task, dev, size, opened, total, without, asked), f"{folder}/{task}.json")
    return tmp_path


def made_file(name: str, task: str, dev: bool, size: int, opened: int, total: int, without: int, asked: int) -> Doc:
    clips: Doc = {}
    samples = {}
    gold = {"answer": "no", "correct_letter": "B", "notes": ""} if dev else {}
    for i in range(size):
        many = 0 if i < without else asked // (size - without) + (i - without < asked % (size - without))
        clips[f"c{name}.{i}"] = {
            "clip_uid": f"c{name}.{i}", "video_uid": "v", "clip_path": None, "abs_start_sec": 0.0, "abs_end_sec": 60.0,
            "duration_sec": 60.0, **({"sample_ids": []} if dev else {}),
            "qa_items": {
                f"q{name}.{i}.{k}": {
                    "qa_id": f"q{name}.{i}.{k}", "question": "?", **gold,
                    "answer_choices": [{"letter": x, "text": {"B": "no"}.get(x, f"not {x}")} for x in "ABCD"],
                }
                for k in range(many)
            },
        }  # fmt: skip
    for i in range(total):
        key, uid, end = f"s{name}.{i}", f"c{name}.{i % size}", None if i < opened else 9.0
        clips[uid]["sample_ids"].append(key)
        samples[key] = {
            "sample_id": key, "task": task, "object": "kettle", "note": "", "times": {"start_sec": 1.0, "end_sec": end},
            "clip": {"clip_uid": uid, "local_start_sec": 1.0, "local_end_sec": end},
        }  # fmt: skip
    head = {"schema_version": "proact-studio-v3", "task": task, "kind": "canonical", "rev": 0}
    head |= {"split": "dev" if dev else "test", "ground_truth_released": dev, **({"canary": "x"} if dev else {})}
    return {**head, "videos": {"v": {"video_uid": "v", "video_path": None, "samples": samples}}, "clips": clips}


def test_a_release_with_the_published_totals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = release_of(tmp_path)
    totals = check_totals(read_release(folder))
    assert totals.filter(pl.col("expected") != pl.col("found")).is_empty(), totals
    assert set(totals["track"].drop_nulls()) == {"Daily (a, b)", "Science (c)"}
    assert run(["proact", "validate", "--release", str(folder)]) == 0
    assert "400 clips" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"open_daily": 316}, "open segments of track Daily (a, b): 316, published are 318"),
        ({"open_lt": 143}, "open segments in location_tracking of track Science (c): 143, published are 144"),
        ({"all_lt": 370}, "segments in location_tracking of track Science (c): 370, published are 371"),
        ({"without": 2}, "clips without questions of track Science (c): 2, published are 1"),
        ({"questions": 1499}, "questions: 1499, published are 1500"),
    ],
)
def test_a_release_that_is_not_as_published(tmp_path: Path, change: dict[str, Any], told: str) -> None:
    release = read_release(release_of(tmp_path, **change))
    problems = totals_problems(check_totals(release), "DIR", release)
    assert told in [problem.message for problem in problems]
    assert {problem.rule for problem in problems} == {"published-total"}


def test_a_release_that_lacks_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (release_of(tmp_path) / "c_test" / "information_capture.json").unlink()
    assert run(["proact", "validate", "--release", str(tmp_path), "--json"]) == 1
    told = [row["message"] for row in json.loads(capsys.readouterr().out)["problems"]]
    assert "files: 14, published are 15" in told
    assert "clips: 374, published are 400" in told


# --- submissions ---


def rows_of(name: str = "attentive") -> Rows:
    return [json.loads(line) for line in (DEV / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


ROWS = rows_of()
ALL = read_release(JSON)
AT = next(i for i, row in enumerate(ROWS) if row.get("mentions"))
AT_QA = next(i for i, row in enumerate(ROWS) if "qa_id" in row)
DURATION = ALL.clips.filter(clip_uid=ROWS[AT]["clip_uid"])["duration_s"].item()


def write_rows(path: Path, rows: Rows | str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = rows if isinstance(rows, str) else "".join(f"{json.dumps(row)}\n" for row in rows)
    path.write_text(text, encoding="utf-8")
    return path


def mention(**change: Any) -> Callable[[Rows], Any]:
    return lambda rows: rows[AT]["mentions"][0].update(change)


SUBMISSION_BREACHES: list[tuple[str, str | None, int | None, Callable[[Rows], Any]]] = [
    ("row-kind", None, AT + 1, lambda r: r[AT].update(qa_id="q")),
    ("row-kind", None, AT + 1, lambda r: r[AT].pop("clip_uid")),
    ("failed-clip", "error", AT + 1, lambda r: r.__setitem__(AT, {"clip_uid": r[AT]["clip_uid"], "error": "no reply"})),
    ("missing-field", "mentions", AT + 1, lambda r: r[AT].pop("mentions")),
    ("missing-field", "mentions[0].text", AT + 1, lambda r: r[AT]["mentions"][0].pop("text")),
    ("duplicate-clip", "clip_uid", len(ROWS) + 1, lambda r: r.append(r[AT])),
    ("unknown-clip", "clip_uid", AT + 1, lambda r: r[AT].update(clip_uid="nowhere")),
    ("missing-clip", None, None, lambda r: r.pop(AT)),
    ("outside-clip", "mentions[0].time_s", AT + 1, mention(time_s=-0.1)),
    ("outside-clip", "mentions[0].time_s", AT + 1, mention(time_s=DURATION + 0.1)),
    ("non-finite", "mentions[0].time_s", AT + 1, mention(time_s=float("nan"))),
    ("wrong-type", "mentions[0].time_s", AT + 1, mention(time_s="0:12")),
    ("wrong-type", "mentions[0].text", AT + 1, mention(text="")),
    ("empty-text", "mentions[0].text", AT + 1, mention(text=" \n")),
    ("duplicate-qa", "qa_id", len(ROWS) + 1, lambda r: r.append(r[AT_QA])),
    ("unknown-qa", "qa_id", AT_QA + 1, lambda r: r[AT_QA].update(qa_id="q9")),
    ("illegal-letter", "letter", AT_QA + 1, lambda r: r[AT_QA].update(letter="a")),
    ("illegal-letter", "letter", AT_QA + 1, lambda r: r[AT_QA].update(letter=["A"])),
    ("missing-answer", "letter", AT_QA + 1, lambda r: r[AT_QA].update(letter=None)),
    ("missing-answer", "letter", AT_QA + 1, lambda r: r[AT_QA].pop("letter")),
    ("missing-answer", None, None, lambda r: r.pop(AT_QA)),
]


@pytest.mark.parametrize(("rule", "field", "line", "change"), SUBMISSION_BREACHES)
def test_every_rule_of_submissions_is_broken_once_and_found(
    tmp_path: Path, rule: str, field: str | None, line: int | None, change: Callable[[Rows], Any]
) -> None:
    rows = copy.deepcopy(ROWS)
    change(rows)
    submissions = read_submissions(write_rows(tmp_path / "a.jsonl", rows), ALL)
    told = submissions.problems.filter(pl.col("rule") == rule).row(0, named=True)
    assert (told["field"], told["line"], told["severity"]) == (field, line, SUBMISSION_RULES[rule].severity)
    if rule in ("duplicate-qa", "duplicate-clip"):
        assert ROWS[AT_QA]["qa_id"] not in submissions.qa_answers["qa_id"] or rule == "duplicate-clip"
        assert ROWS[AT]["clip_uid"] not in submissions.present["clip_uid"] or rule == "duplicate-qa"
    if told["severity"] == "error":
        assert submissions.problems.height == 1 or rule in ("unknown-clip", "row-kind", "unknown-qa")
        with pytest.raises(InvalidTimelines, match=rule):
            submissions.require_valid()


def test_letters_are_told_as_json(tmp_path: Path) -> None:
    rows = [row for row in copy.deepcopy(ROWS) if "qa_id" in row]
    for letter, said in ((True, "true"), (["A"], "a list"), ("a", "'a'")):
        rows[0]["letter"] = letter
        told = read_submissions(write_rows(tmp_path / "a.jsonl", rows), ALL).problems["message"]
        assert told.to_list() == [f"is {said}, expected one of A, B, C, D"]


@pytest.mark.parametrize("text", ["", "\n\n"])
def test_an_empty_submission_is_not_valid(tmp_path: Path, text: str) -> None:
    path = write_rows(tmp_path / "a.jsonl", text)
    assert "no-lines" in read_submissions(path, ALL).problems["rule"]
    assert "no-mentions" in read_submissions(path, ALL, parts=["mentions"]).problems["rule"]
    assert run(["proact", "validate", str(path), "--labels", str(JSON)]) == 1


def test_a_folder_of_both_says_that_submissions_are_not_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["proact", "validate", str(JSON.parent)]) == 0
    assert "JSON lines are not checked" in capsys.readouterr().err
    assert run(["proact", "validate", str(JSON)]) == 0
    assert "not checked" not in capsys.readouterr().err


def test_faults_of_lines_and_of_whole_submissions(tmp_path: Path) -> None:
    text = "".join(f"{json.dumps(row)}\n" for row in ROWS)
    broken = f'\ufeff{text}\n{{"qa_id": "x", "qa_id": "y", "letter": "A"}}\n[1]\n{{"clip_uid": "cut'
    told = set(read_submissions(write_rows(tmp_path / "a.jsonl", broken), ALL).problems["rule"])
    assert told == {"byte-order-mark", "blank-line", "duplicate-key", "wrong-type", "invalid-json"}
    only_qa = write_rows(tmp_path / "b.jsonl", [row for row in ROWS if "qa_id" in row])
    only_clips = write_rows(tmp_path / "c.jsonl", [row for row in ROWS if "clip_uid" in row])
    assert read_submissions([only_qa, only_clips], ALL).problems.is_empty()
    assert set(read_submissions(only_qa, ALL, parts=["mentions"]).problems["rule"]) == {"no-mentions"}
    assert set(read_submissions(only_clips, ALL, parts=["answers"]).problems["rule"]) == {"no-answers"}
    assert {*SUBMISSION_RULES} == {rule for rule, *_ in SUBMISSION_BREACHES} | {
        "ambiguous-clip", "byte-order-mark", "blank-line", "duplicate-key", "encoding", "invalid-json",
        "line-too-long", "no-answers", "no-lines", "no-mentions", "unknown-key", "wrong-value",
    }  # fmt: skip


def test_a_clip_of_two_tasks_needs_the_task(tmp_path: Path) -> None:
    other = copy.deepcopy(BASE)
    other["task"] = "state_tracking"
    for video in other["videos"].values():
        for one in video["samples"].values():
            one["task"] = "state_tracking"
    for clip in other["clips"].values():
        clip["qa_items"] = {}
    write(tmp_path, BASE)
    write(tmp_path, other, "workshop_dev/state_tracking.json")
    release = read_release(tmp_path)
    release.require_valid()
    rows = [{"clip_uid": uid, "mentions": [{"time_s": 1, "text": "x"}]} for uid in BASE["clips"]]
    assert "ambiguous-clip" in set(read_submissions(write_rows(tmp_path / "a.jsonl", rows), release).problems["rule"])
    told = [{**row, "task": task} for row in rows for task in ("LT", "state_tracking")]
    submissions = read_submissions(write_rows(tmp_path / "b.jsonl", told), release)
    submissions.require_valid()
    assert submissions.mentions.group_by("task").len().sort("task")["len"].to_list() == [len(rows), len(rows)]


def test_submissions_are_tables_whatever_the_order(tmp_path: Path) -> None:
    whole = read_submissions(DEV, ALL)
    whole.require_valid()
    for path in DEV.iterdir():
        rows = rows_of(path.stem)
        write_rows(tmp_path / path.name, rows[::-1])
    again = read_submissions(sorted(tmp_path.iterdir(), reverse=True), ALL)
    for name in ("mentions", "qa_answers", "present"):
        assert_frame_equal(getattr(again, name), getattr(whole, name))
    assert whole.runs["run"].to_list() == ["attentive", "chatty", "quiet"]
    dev = ALL.clips.filter(split="dev")
    assert whole.present.group_by("run").len()["len"].to_list() == [dev.height] * 3
    silent = whole.present.join(whole.mentions, on=["run", "clip_uid"], how="anti")
    assert silent.filter(run="quiet").height > dev.height // 2
    written = sum(len(row.get("mentions", ())) for path in DEV.iterdir() for row in rows_of(path.stem))
    assert whole.mentions.height == written


def test_only_the_splits_that_a_submission_speaks_of_must_be_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    test_split = SAMPLE / "submissions" / "test"
    assert read_submissions(test_split, ALL).problems.is_empty()
    assert run(["proact", "validate", "--labels", str(JSON), "-p", str(test_split)]) == 0
    assert "1 submissions, 33 mentions" in capsys.readouterr().out
    both = tmp_path / "both.jsonl"
    both.write_bytes((DEV / "attentive.jsonl").read_bytes() + (test_split / "attentive.jsonl").read_bytes())
    of_both = read_submissions(both, ALL)
    of_both.require_valid()
    assert of_both.splits == {"dev", "test"}
    assert_frame_equal(of_both.mentions, of_both.mentions.sort(MENTIONS.key))
    part = ALL.select(tasks=["LT"])
    submissions = read_submissions(DEV, part)
    submissions.require_valid()
    assert set(submissions.mentions["task"]) == {"location_tracking"}


# --- the sample, the schemas, the command ---


def test_the_generator_makes_the_sample_byte_for_byte(tmp_path: Path) -> None:
    make_proact_sample.make(tmp_path)
    made = {path.relative_to(tmp_path): path.read_bytes() for path in tmp_path.rglob("*.*") if path.is_file()}
    bundled = {path.relative_to(SAMPLE): path.read_bytes() for path in SAMPLE.rglob("*.json*")}
    assert made == bundled
    assert sum(map(len, bundled.values())) < 200_000


def test_the_sample_has_what_its_page_says() -> None:
    dev = ALL.clips.filter(split="dev")
    assert (dev.height, ALL.clips.height) == (24, 36)
    assert (
        dev.group_by("track", "task").agg(pl.col("declared_negative").sum())["declared_negative"].to_list() == [1] * 6
    )
    emptied = dev.filter((pl.col("listed") > 0) & (pl.col("scored") == 0))
    assert emptied.select("track", "task").rows() == [("home", "state_tracking")]
    assert sorted(dev.filter(qa_items=0)["track"]) == ["home", "workshop"]
    assert ALL.segments["is_open"].sum() > 10


def test_files_fit_their_json_schemas() -> None:
    released = jsonschema.Draft202012Validator(json.loads((SCHEMAS / "proact_release.schema.json").read_text()))
    for path in JSON.rglob("*.json"):
        released.validate(json.loads(path.read_text(encoding="utf-8")))
    line = jsonschema.Draft202012Validator(json.loads((SCHEMAS / "proact_submission.schema.json").read_text()))
    for row in [*ROWS, {"clip_uid": "c", "error": "no reply"}, {"qa_id": "q", "letter": None}]:
        line.validate(row)
    for bad in ({"clip_uid": "c"}, {"clip_uid": "c", "mentions": [{"time_s": "1", "text": "x"}]}, {"qa_id": "q"}):
        assert not line.is_valid(bad)
    doc = copy.deepcopy(BASE)
    doc["clips"][C]["fps"] = 1
    assert not released.is_valid(doc)


def test_the_command_lists_problems_and_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    doc = copy.deepcopy(BASE)
    doc["clips"][C]["qa_items"][Q]["answer"] = "\x1b[31mred"
    path = write(tmp_path, doc)
    assert run(["proact", "validate", "--labels", str(path)]) == 1
    out = capsys.readouterr().out
    assert f"{QA_AT}.answer" in out
    assert "\x1b" not in out
    assert run(["proact", "validate", "--labels", str(path), "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["valid"] is False
    assert run(["--root", str(JSON), "proact", "validate"]) == 0
    assert run(["proact", "validate", str(JSON), str(path)]) == 1
    assert "13 released files" in capsys.readouterr().out
    assert run(["proact", "validate", str(JSON), str(JSON.parent / "submissions" / "dev"), "--quiet"]) == 0
    assert "3 submissions" in capsys.readouterr().out
    assert run(["proact", "validate", "--labels", str(tmp_path / "no")]) == 2
    assert run(["proact", "validate", "--release", str(JSON), "--task", "LT"]) == 2


def test_the_quick_and_the_thorough_way_read_the_same() -> None:
    """An unknown key sends a file the long way; less the key's fault, both find the same document and breaches."""
    text = json.dumps(BASE)
    quick = parse(text.encode())
    slow = parse(text.replace('"rev"', '"extra": [], "rev"', 1).encode())
    assert [fault.rule for _, fault in slow.faults] == ["unknown-key"]
    assert quick.doc == slow.doc
    assert quick.doc is not None
    assert [one.rule for one in check_file(quick.doc)] == ["outside-clip"]
