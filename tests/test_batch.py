"""Batch files: what is exported, what replies come to in any order, and that a score does not know how it was asked."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
from pathlib import Path
from typing import Any

import judge_server
import pytest
from judge_server import JudgeServer
from store_worker import fill, parser, question

from mabpl.cli import judge_export
from mabpl.cli.main import run
from mabpl.data import sample_folder
from mabpl.errors import InputError
from mabpl.judges import batch
from mabpl.judges.batch import Taken, export_questions, take
from mabpl.judges.store import Store

USAGE = {"prompt_tokens": 700, "completion_tokens": 40, "completion_tokens_details": {"reasoning_tokens": 30}}


def reply(key: str, content: str, **usage: Any) -> dict[str, Any]:
    body = {"choices": [{"finish_reason": "stop", "message": {"content": content}}], "usage": {**USAGE, **usage}}
    return {"id": "r", "custom_id": key, "response": {"status_code": 200, "body": body}, "error": None}


def failure(key: str, status: int = 429, **error: str) -> dict[str, Any]:
    return {"custom_id": key, "response": {"status_code": status, "body": {"error": error}}, "error": None}


def write(path: Path, rows: list[dict[str, Any]], torn: str = "") -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) + torn)
    return path


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


# The whole way


def judged(said: str, seed: int | None) -> str:
    """A verdict that depends on every character of the question, and on the seed."""
    draw = hashlib.blake2b(f"{seed} {said}".encode(), digest_size=2).digest()
    return json.dumps({"score": draw[0] % 101, "equivalent": draw[1] > 128, "accept": draw[1] > 99})


class Replies(dict[str, dict[str, Any]]):
    """An act of the server is here the content of its reply."""

    def get(self, act: str, default: Any = None) -> Any:
        return {"message": {"content": act}}


def test_a_batch_scores_as_the_live_judge_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MABPL_DEBUG", "1")
    for name in ("MAB_JUDGE_API_KEY", "MAB_JOINT_JUDGE_API_KEY"):
        monkeypatch.setenv(name, "sk-never-written")
    monkeypatch.setattr(judge_server, "REPLIES", Replies(judge_server.REPLIES))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    shutil.copytree(sample_folder(), "../root")
    predictions = next(Path("../root/predictions").glob("*/quick-large_seed1.jsonl"))
    who = ["--judge-base-url", "http://judge:8000/v1", "--joint-judge-base-url", "http://judge:8000/v1"]
    who += ["--judge-model", "m", "--joint-judge-model", "j"]
    what = ["--root", "../root", "-p", str(predictions), "--limit", "2"]

    def mabpl(*arguments: str) -> int:
        return run([*arguments, "--quiet"] if arguments[0] != "verdicts" else list(arguments))

    def export(out: str) -> int:
        arguments = [*what, *who, "--out", out, "--max-requests-per-file", "50", "--quiet"]
        return int(judge_export.command.main(arguments, standalone_mode=False))

    assert export("ask.jsonl") == 0
    exported = sorted(Path().glob("ask.*"))
    asked = [line for path in exported for line in lines(path)]
    assert len(exported) > 3 and all(len(lines(path)) <= 50 for path in exported)
    assert {line["body"]["model"] for line in lines(Path("ask.joint.jsonl"))} == {"j"}
    assert len({line["custom_id"] for line in asked}) == len(asked) > 100

    answers = [
        reply(line["custom_id"], judged(line["body"]["messages"][-1]["content"], line["body"].get("seed")))
        for line in asked
    ]
    random.Random(3).shuffle(answers)
    half = len(answers) // 2
    late = [failure(answer["custom_id"]) for answer in answers[half : half + 5]]
    torn = json.dumps(answers[half])[:70]
    first = write(Path("1.jsonl"), [*late[:2], *answers[:half], *late[2:], reply("f" * 32, "{}")], torn)
    second = write(Path("2.jsonl"), answers[half:])
    score, joint = ("score", *what, *who, "--judge"), ("joint", *what, *who, "--judge")
    assert mabpl("verdicts", "import", "--root", "../root", str(first)) == 3
    assert mabpl(*score, "stored", "--out", "partial.json") == 3
    assert mabpl("verdicts", "import", "--root", "../root", str(second)) == 0
    assert mabpl("verdicts", "import", "--root", "../root", str(second), str(first)) == 3
    assert mabpl(*score, "stored", "--out", "batch.json") == 0
    assert mabpl(*joint, "stored", "--out", "batch.joint.json") == 0

    with JudgeServer(lambda said, seed, _: judged(said, seed)).running() as server:
        live = ["--cache", "../live", "--judge-base-url", server.url, "--joint-judge-base-url", server.url]
        assert mabpl(*score, "api", *live, "--out", "live.json") == 0
        assert mabpl(*joint, "api", *live, "--out", "live.joint.json") == 0
        assert len(server.ledger) == len(asked)
    assert Path("batch.json").read_bytes() == Path("live.json").read_bytes()
    assert Path("batch.joint.json").read_bytes() == Path("live.joint.json").read_bytes()
    assert json.loads(Path("batch.json").read_text())["summary"]["pa_f1"] > 0
    assert export("again.jsonl") == 0
    assert not list(Path().glob("again.*"))
    written = [path for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".py"]
    assert not any(b"sk-never-written" in path.read_bytes() for path in written)


# What is exported


def test_open_questions_are_written_once_and_registered(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store", parser=parser()) as store:
        fill(store, [0])
        fill(store, [1], body="nonsense")
        wanted = [question(n) for n in (0, 1, 2, 2, 3, 4)]
        found = export_questions(store, wanted, tmp_path / "ask.jsonl", most=3)
        assert (found.requests, found.known, found.pending, found.stale) == (4, 1, 1, None)
        assert found.files == ((tmp_path / "ask.jsonl", 3), (tmp_path / "ask-2.jsonl", 1))
        rows = lines(tmp_path / "ask.jsonl") + lines(tmp_path / "ask-2.jsonl")
        assert [row["body"] for row in rows] == [question(n).body for n in (1, 2, 3, 4)]
        assert rows[0] | {"body": 0} == {
            "custom_id": question(1).key, "method": "POST", "url": "/v1/chat/completions", "body": 0
        }  # fmt: skip
        assert store.registered(row["custom_id"] for row in rows) == {row["custom_id"] for row in rows}
        assert store.spent()[0] == 2
        found = export_questions(store, map(question, range(6)), tmp_path / "ask.jsonl", new_only=True)
        assert (found.requests, found.pending, found.stale) == (1, 4, tmp_path / "ask-2.jsonl")
        assert lines(tmp_path / "ask.jsonl")[0]["body"] == question(5).body


def test_files_are_cut_by_size_and_in_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch.reading, "AT_ONCE", 3)
    with Store.open(tmp_path / "store", parser=parser()) as store:
        whole = export_questions(store, map(question, range(10)), tmp_path / "a.jsonl")
        size = (tmp_path / "a.jsonl").stat().st_size
        monkeypatch.setattr(batch, "MOST_BYTES", size // 3)
        cut = export_questions(store, [question(n % 10) for n in range(20)], tmp_path / "b.jsonl")
        assert (whole.requests, cut.requests, len(cut.files)) == (10, 10, 4)
        assert all(path.stat().st_size <= size // 3 for path, _ in cut.files)
        assert b"".join(path.read_bytes() for path, _ in cut.files) == (tmp_path / "a.jsonl").read_bytes()


# What comes back


@pytest.mark.parametrize("at_once", [1, 2, 100])
@pytest.mark.parametrize("seed", range(6))
def test_replies_in_any_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int, seed: int) -> None:
    monkeypatch.setattr(batch.reading, "AT_ONCE", at_once)
    good = json.dumps({"score": 70, "equivalent": True})
    key = [question(n).key for n in range(4)]
    rows = [
        failure(key[0], code="rate_limit_exceeded", message="wrong key sk-secret"),
        reply(key[0], "Let me think."),
        reply(key[0], good, cost=0.25),
        reply(key[1], "no verdict"),
        reply(key[1], "no verdict"),
        {"custom_id": key[2], "response": None, "error": {"code": "batch_expired", "message": "too late"}},
        {"custom_id": key[3], "response": {"status_code": 500, "body": None}},
        reply("from elsewhere", good),
        {"note": "no id"},
    ]
    opening = rows.pop(seed)
    random.Random(seed).shuffle(rows)
    with Store.open(tmp_path / "store") as store:
        store.register(map(question, range(4)))
        path = write(tmp_path / "r.jsonl", [opening, *rows], "\n{torn")
        failed = {"HTTP 429 rate_limit_exceeded": 1, "HTTP 500": 1, "batch_expired": 1}
        broken = ([opening, *rows].index({"note": "no id"}) + 1, 11)
        found = take(store, path)
        without = found.without  # the first answer to question 0 may be counted here, or as a repeated one
        assert found == Taken(1, 3 - without, without, failed, ("from elsewhere",), broken)
        assert list(found.failed) == sorted(failed)
        stored = {row["key"]: row for row in store.verdicts().to_dicts()}
        assert {name: row["status"] for name, row in stored.items()} == {key[0]: "ok", key[1]: "no_json"}
        told = [stored[key[0]][name] for name in ("score", "cost", "tokens_in", "tokens_out", "tokens_reasoning")]
        assert told == [70.0, 0.25, 700, 40, 30]
        again = take(store, path)
        assert (again.new, again.known + again.without, again.failed) == (0, 4, failed)
        with store.commits.reading() as db:
            assert db.execute("SELECT count(*) FROM answers WHERE key = ?", (key[1],)).fetchone() == (1,)
        assert {q.key for q in store.claim(map(question, range(4)))} == set(key[1:])
        assert store.spent() == (0, 0.0)
        for key_ in key[1:]:
            store.settle(key_, False)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"custom_id": "a", "body": {}}\n', "holds a batch's requests, not the replies"),
        ('{"clip_id": "a", "segments": []}\n', "keys found: clip_id, segments"),
        ('{"key": "a", "status": "ok"}\n', r"x.jsonl: the table of verdicts: lacks .*\n.*found: key, status"),
        ('{"key": "a", "status": "ok"}\n{"key": 1, "status": []}\n', "x.jsonl: "),
        ("key,status\na,ok\n", "no line of it is a JSON object"),
        ("\x00\x01", "no line of it is a JSON object"),
    ],
)
def test_foreign_files_are_refused_by_name(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(text)
    with Store.open(tmp_path / "store") as store, pytest.raises(InputError, match=said):
        take(store, path)
    with Store.open(tmp_path / "store") as store:
        path.write_text("")
        assert take(store, path) == Taken()
        with pytest.raises(InputError, match="cannot be read"):
            take(store, tmp_path / "absent.jsonl")
