"""``mabpl verdicts``: what is in the store, whether it is sound, out and in again, and why a verdict is not there."""

from __future__ import annotations

import asyncio
import functools
import json
import shutil
import sqlite3
from pathlib import Path

import polars as pl
import pytest
from commands import Mabpl
from polars.testing import assert_frame_equal
from store_worker import answer, question, record

from mabpl.data import sample_folder
from mabpl.judges.store import Store

OK = json.dumps({"choices": [{"message": {"content": '{"score": 70, "equivalent": true}'}}]})
ACCEPT = json.dumps({"choices": [{"message": {"content": '{"accept": true}'}}]})
RUN = "operator_disjoint_6/quick-large_seed1.jsonl"
CLIP = "sewing-01"


@pytest.fixture
def verdicts(mabpl_: Mabpl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mabpl:
    """Runs ``mabpl verdicts`` in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return functools.partial(mabpl_, "verdicts")


def fill(folder: Path | str = "judge_cache") -> None:
    """Three verdicts, one failure, one question that was only registered."""
    with Store.open(folder) as store:
        asked = [question(0), question(1), question(0, kind="joint", seed=None), question(2)]
        store.claim(asked)
        bodies = (OK, OK, ACCEPT, "nonsense")
        asyncio.run(record(store, [answer(q.key, body) for q, body in zip(asked, bodies, strict=True)]))
        for q, body in zip(asked, bodies, strict=True):
            store.settle(q.key, body != "nonsense")
        store.register([question(3)])
        store.export()


def test_list_counts_every_question(verdicts: Mabpl) -> None:
    fill()
    said = verdicts("list", "--by", "kind,status", "--json")
    assert said.code == 0 and said.json["spent"] == {"calls": 4, "cost": pytest.approx(0.004)}
    rows = [tuple(row.values()) for row in said.json["groups"]]
    tokens = (100, 20, 10)
    assert rows == [
        ("joint", "ok", 1, *tokens, 0.001),
        ("pa", "asked", 1, None, None, None, None),
        ("pa", "error", 1, *tokens, 0.001),
        ("pa", "ok", 2, *(2 * n for n in tokens), 0.002),
    ]
    assert verdicts("list", "--by", "-", "--json").json["groups"][0]["questions"] == 5
    assert "judge-1" in verdicts("list").out
    said = verdicts("list", "--by", "kin")
    assert said.code == 2 and "did you mean 'kind'" in said.err


@pytest.mark.parametrize("verb", ["list", "verify", "export", "why"])
def test_a_store_that_is_not_there_is_not_made(verdicts: Mabpl, verb: str) -> None:
    said = verdicts(verb, *(["--clip", CLIP] if verb == "why" else []))
    assert (said.code, said.out) == (2, "") and "judge_cache: there is no verdict store" in said.err
    assert not Path("judge_cache").exists()


def test_verify_mends_what_it_can(verdicts: Mabpl) -> None:
    fill()
    assert verdicts("verify").code == 0
    (part,) = Path("judge_cache/verdicts").glob("*.parquet")
    part.write_bytes(part.read_bytes()[:-9])
    said = verdicts("verify", "--json")
    assert said.code == 0 and len(said.json["remade"]) == 1 and said.json["lost"] == []
    said = verdicts("verify", "--json")
    assert said.code == 0 and said.json["problems"] == []

    damage(1)
    said = verdicts("verify", "--json")
    assert said.code == 0 and said.json["damaged"] == [1], "a sound part held its verdict"
    damage(2)
    for part in Path("judge_cache/verdicts").glob("*.parquet"):
        part.unlink()
    said = verdicts("verify")
    assert said.code == 1 and f"lost: answer 2, to question {question(1).key}" in said.out
    assert "question " + question(0).key not in said.out


def damage(number: int) -> None:
    with sqlite3.connect("judge_cache/answers.sqlite") as db:
        db.execute("UPDATE answers SET body = x'00' WHERE id = ?", (number,))
    db.close()


@pytest.mark.parametrize("ending", ["parquet", "jsonl"])
def test_a_table_goes_out_and_comes_in(verdicts: Mabpl, ending: str) -> None:
    fill()
    assert verdicts("export", "--out", f"v.{ending}").out == f"v.{ending}\n"
    said = verdicts("import", "--cache", "other", f"v.{ending}", f"v.{ending}", "--json")
    assert said.code == 3 and said.json["new"] == 3
    assert [(row["new"], row["known"], row["without"]) for row in said.json["files"]] == [(3, 0, 1), (0, 3, 1)]
    (part,) = verdicts("export", "--cache", "other").out.split()
    with Store.open("judge_cache") as store:
        here = store.verdicts().filter(status="ok")
    assert_frame_equal(pl.read_parquet(part), here)
    assert verdicts("export", "--out", "v.csv").code == 2


def test_a_torn_line_costs_that_line_only(verdicts: Mabpl) -> None:
    fill()
    verdicts("export", "--out", "v.jsonl")
    rows = [line for line in Path("v.jsonl").read_text().splitlines() if '"status":"ok"' in line]
    Path("torn.jsonl").write_text("\n".join(rows)[:-30])
    said = verdicts("import", "--cache", "other", "torn.jsonl")
    assert said.code == 3 and "2 new, 1 broken\n  broken lines: 3\n" in said.out
    Path("foreign.jsonl").write_text('{"clip_id": "a", "\\u001bcolour": "red"}\n')
    for name, told in {"foreign.jsonl": "keys found: clip_id, ␛colour", "none.jsonl": "there is no such file"}.items():
        said = verdicts("import", "--cache", "other", name)
        assert said.code == 2 and told in said.err


def test_unknown_ids_and_failures_are_told(verdicts: Mabpl) -> None:
    fill()
    replies = [
        {"custom_id": "\u202eelse", "response": {"status_code": 200, "body": json.loads(OK)}},
        {"custom_id": question(3).key, "response": {"status_code": 429, "body": {"error": {"message": "sk-key"}}}},
    ]
    Path("r.jsonl").write_text("\n".join(map(json.dumps, replies)))
    said = verdicts("import", "r.jsonl")
    assert said.code == 3 and "0 new, 1 failed (HTTP 429: 1)" in said.out and "unknown ids: �else" in said.out
    assert "sk-key" not in said.out + said.err


# Why


@pytest.fixture
def root(verdicts: Mabpl) -> Path:
    """The sample, and the store of one judged clip: imported from a published scorer's cache."""
    shutil.copytree(sample_folder(), "root")
    said = verdicts("why", *pair(), "--json", "--cache", made_empty())
    cache = {
        str(number): {"predicted_label": row["predicted_label"], "primary": row["primary"], "also": row["also"]}
        | {"score": 60, "equivalent": False}
        for number, row in enumerate(said.json["questions"])
    }
    Path("seed2.json").write_text(json.dumps(cache))
    assert verdicts("import", "--root", "root", "seed2.json").code == 0
    return Path("root")


def made_empty() -> Path:
    with Store.open("empty") as store:
        return store.folder


def pair(*more: object) -> list[object]:
    return ["--root", "root", "-p", f"root/predictions/{RUN}", "--clip", CLIP, "--predicted", 1, *more]


def test_why_tells_the_part_that_differs(verdicts: Mabpl, root: Path) -> None:
    said = verdicts("why", *pair("--judge-seeds", 2, "--json"))
    assert said.json["missing"] == 0 and {row["state"] for row in said.json["questions"]} == {"known"}
    request = said.json["questions"][0]["request"]

    said = verdicts("why", *pair("--json"))
    assert said.json["missing"] == 2 * said.json["stored"] > 0
    assert all(row["differs"] == {"seed": {"stored": 2, "asked": row["judge_seed"]}} for row in said.json["questions"])
    assert {row["judge_seed"] for row in said.json["questions"]} == {1, 3}

    here = ["--root", root, "-p", root / "predictions" / RUN, "--judge-seeds", 2, "--json"]
    said = verdicts("why", *here, "--request", request, "--judge-model", "other")
    (row,) = said.json["questions"]
    assert row["differs"] == {"model": {"stored": "deepseek/deepseek-v4-flash-0731", "asked": "other"}}
    said = verdicts("why", *pair("--judge-seeds", 2, "--judge-route", "r", "--judge-extra-body", '{"top_p": 1}'))
    assert 'route: stored "openrouter.ai", asked "r"' in said.out
    assert 'setting: stored {"reasoning": {"enabled": true}}, asked {"top_p": 1}' in said.out


def test_why_of_a_changed_label_and_prompt(verdicts: Mabpl, root: Path) -> None:
    path = root / "predictions" / RUN
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    segment = next(row for row in rows if row["clip_id"] == CLIP)["segments"][1]
    before, segment["label"] = segment["label"], segment["label"] + " \u202e\x1b[31mslowly"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    off = ["--set-option", "label_hygiene=off"]
    said = verdicts("why", *pair("--judge-seeds", 2, *off))
    assert "the nearest differs in label\n" in said.out and "�\\u001b[31mslowly" in said.out
    assert not {"\x1b", "\u202e"} & set(said.out)
    said = verdicts("why", *pair("--judge-seeds", 2, *off, "--json"))
    assert said.json["questions"][0]["differs"] == {"label": {"stored": before, "asked": segment["label"]}}
    segment["label"] = before
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (root / "prompts").mkdir()
    (root / "prompts" / "pa_judge_system.txt").write_text("Grade.")
    said = verdicts("why", *pair("--judge-seeds", 2, "--json"))
    assert said.json["stored"] == 0 and {*said.json["questions"][0]["differs"]} == {"prompt"}


def test_why_needs_a_pair_that_is_there(verdicts: Mabpl, root: Path) -> None:
    assert "no pair is named" in verdicts("why", "--root", root).err
    said = verdicts("why", *pair("--human", 99))
    assert said.code == 2 and "unknown human segment '99'" in said.err
    said = verdicts("why", *pair("--judge", "embedded"))
    assert said.code == 2 and "not stored" in said.err
    said = verdicts("why", *pair("--cache", made_empty()))
    assert said.code == 0 and "the store is empty" in said.out
