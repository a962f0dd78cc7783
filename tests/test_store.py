"""The verdict store: nothing acknowledged is lost, nothing is paid twice, whatever ends when."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from store_worker import answer, fill, parser, question, record

from mabpl.errors import InputError
from mabpl.judges import store_schema
from mabpl.judges.store import Store
from mabpl.judges.store_import import import_file
from mabpl.judges.types import Question

WORKER = Path(__file__).parent / "store_worker.py"
GOLDEN = Path(__file__).parent / "golden"


def worker(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, str(WORKER), *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def finished(process: subprocess.Popen[str]) -> str:
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    return output


def ledger(path: Path) -> tuple[dict[str, list[int]], set[str]]:
    """Who asked each question, in order; and what was acknowledged. Nothing acknowledged is asked again."""
    asked: dict[str, list[int]] = defaultdict(list)
    acknowledged: set[str] = set()
    for line in path.read_text().splitlines():
        what, owner, key = line.split()
        if what == "asked":
            assert key not in acknowledged
            asked[key].append(int(owner))
        else:
            acknowledged.add(key)
    return asked, acknowledged


def sql(folder: Path, statement: str, *values: object) -> list[tuple[Any, ...]]:
    with contextlib.closing(sqlite3.connect(folder / store_schema.FILE, isolation_level=None)) as db:
        return db.execute(statement, values).fetchall()


# Crashes


def test_nothing_acknowledged_is_lost_when_two_writers_are_killed_at_random(tmp_path: Path) -> None:
    folder, book = tmp_path / "store", tmp_path / "ledger"
    killed: set[int] = set()
    writers = [worker("ask", folder, book, 100_000) for _ in range(2)]
    until = time.monotonic() + 12
    while time.monotonic() < until:
        time.sleep(random.uniform(0.05, 0.5))
        victim = writers.pop(random.randrange(2))
        victim.send_signal(signal.SIGKILL)
        victim.communicate()
        killed.add(victim.pid)
        writers.append(worker("ask", folder, book, 100_000))
    for victim in writers:
        victim.send_signal(signal.SIGKILL)
        victim.communicate()
        killed.add(victim.pid)
    asked, acknowledged = ledger(book)
    print(f"{len(killed)} kills, {len(acknowledged)} acknowledged, {sum(map(len, asked.values()))} asked")
    assert len(acknowledged) > 500
    assert all(set(owners[:-1]) <= killed and len(set(owners)) == len(owners) for owners in asked.values())
    with Store.open(folder, parser=parser()) as store:
        lost = {attempt.key for attempt in store.open_after_crash()}
        assert store.known(asked) >= acknowledged
        assert store.known(asked) | lost >= asked.keys()
        assert store.spent()[0] >= sum(map(len, asked.values()))
        assert store.verify().problems == ()
        assert not any((folder / "owners").iterdir())


def test_a_torn_journal_loses_no_committed_answer_and_keeps_no_half_one(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store", parser=parser()) as store:
        keys = fill(store, range(200))
        with store.commits.reading() as db:  # no test can cut the power: what SQLite promises for it hangs on these
            modes = [
                db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous", "fullfsync")
            ]
        assert modes == ["truncate", 2, 1]
    file = tmp_path / "store" / store_schema.FILE
    whole = file.read_bytes()
    db = sqlite3.connect(file, isolation_level=None)
    db.execute("PRAGMA cache_size = 5")  # spills into the file before the commit
    db.execute("BEGIN IMMEDIATE")
    db.execute("UPDATE answers SET outcome = 'half', charged = 9, body = zeroblob(2000)")
    torn, journal = file.read_bytes(), file.with_name(file.name + "-journal").read_bytes()
    assert torn != whole and len(journal) > 20_000
    db.close()
    cuts = [0, 1, 8, 27, 28, 511, 512, 513, 4_000, *random.sample(range(len(journal)), 20), len(journal) - 1]
    crashes = [(whole, journal[:cut]) for cut in cuts] + [(torn, journal), (torn, journal + b"\0" * 700)]
    for number, crash in enumerate(crashes):
        copy = tmp_path / str(number)
        copy.mkdir()
        for name, content in zip((file.name, file.name + "-journal"), crash, strict=True):
            (copy / name).write_bytes(content)
        with Store.open(copy, parser=parser()) as store:
            assert store.known(keys) == set(keys)
            assert store.verify().problems == ()


def test_a_full_disk_says_so_and_the_run_goes_on_when_there_is_space(tmp_path: Path) -> None:
    told = json.loads(finished(worker("full_disk", tmp_path)))
    assert told["acknowledged"] and told["held"]
    assert str(tmp_path / store_schema.FILE) in told["errors"][0] and "disk is full" in told["errors"][0]
    assert f"wait in memory: {len(told['held'])}" in told["errors"][0]
    assert set(told["after"]) > {*told["acknowledged"], *told["held"]}
    with Store.open(tmp_path, parser=parser()) as store:
        assert store.known(told["after"]) == set(told["after"])
        assert store.verify().problems == ()


def test_an_export_may_end_after_any_line(tmp_path: Path) -> None:
    template = tmp_path / "template"
    with Store.open(template, parser=parser()) as store:
        fill(store, range(4))
        fill(store, range(4, 8), body="nonsense")
        store.export()
        fill(store, range(8, 10))
        store.export()
    with Store.open(template, parser=parser()) as store:
        fill(store, range(4, 12))
    (tmp_path / "scratch").mkdir()
    assert int(finished(worker("steps", template, tmp_path / "scratch"))) > 60


# Several processes


def test_three_writers_ask_each_question_once(tmp_path: Path) -> None:
    for process in [worker("ask", tmp_path / "store", tmp_path / "ledger", 3_000) for _ in range(3)]:
        finished(process)
    asked, acknowledged = ledger(tmp_path / "ledger")
    assert len(asked) == len(acknowledged) == 3_000
    assert all(len(owners) == 1 for owners in asked.values())
    assert len({owners[0] for owners in asked.values()}) == 3
    with Store.open(tmp_path / "store", parser=parser()) as store:
        assert store.spent()[0] == 3_000
        assert store.verdicts()["key"].n_unique() == 3_000


def test_the_claim_of_a_dead_process_is_void_and_that_of_a_living_one_is_not(tmp_path: Path) -> None:
    process = worker("hold", tmp_path, 7)
    assert process.stdout is not None and process.stdout.readline() == "1\n"
    wanted = [question(7, worst=0.5)]
    with Store.open(tmp_path, parser=parser()) as store:
        assert store.claim(wanted) == [] and store.turned_away["claimed"] == 1
        assert store.open_after_crash() == [] and store.spent() == (0, 0.0)
        process.kill()
        process.communicate()
        assert store.claim(wanted) == wanted
        (lost,) = store.open_after_crash()
        assert (lost.key, lost.worst_cost) == (wanted[0].key, 0.5) and time.time() - lost.since < 60
        assert store.spent() == (1, 0.5)
        asyncio.run(record(store, [answer(wanted[0].key)]))
        assert store.open_after_crash() == []


def test_a_reader_never_sees_parts_in_between(tmp_path: Path) -> None:
    with Store.open(tmp_path, parser=parser()) as store:
        fill(store, range(50))
        expected = store.verdicts("pa")
        process = worker("busy", tmp_path)
        reads = 0
        while process.poll() is None:
            assert store.verdicts("pa").equals(expected)
            reads += 1
        finished(process)
        assert reads > 5 and store.verdicts("joint").height == 30
        assert sorted((tmp_path / "verdicts").iterdir()) == store.export()


def test_concurrent_claimers_never_exceed_the_budget(tmp_path: Path) -> None:
    granted: list[Question] = []

    def claimer(number: int) -> None:
        with Store.open(tmp_path, max_cost=1.0, parser=parser()) as store:
            for start in range(0, 60, 5):
                some = store.claim([question(number * 1_000 + start + i, worst=0.03) for i in range(5)])
                cost = store.spent()[1]
                assert cost <= 1.0 + 1e-9
                granted.extend(some)
                asyncio.run(record(store, [answer(q.key, cost=None if start % 2 else 0.01) for q in some]))

    threads = [threading.Thread(target=claimer, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with Store.open(tmp_path, max_cost=1.0, max_calls=len(granted), parser=parser()) as store:
        calls, cost = store.spent()
        assert calls == len(granted) and 0.97 < cost <= 1.0 + 1e-9
        assert store.claim([question(99_999, worst=0.0)]) == [] and store.turned_away["budget"] == 1


# Meaning


def test_an_attempt_is_reserved_paid_tried_again_and_given_up(tmp_path: Path) -> None:
    q = question(1, worst=0.4)
    with Store.open(tmp_path, max_cost=1.0, parser=parser()) as store, Store.open(tmp_path, parser=parser()) as other:
        assert store.claim([q, q]) == [q] and store.claim([q]) == []
        asyncio.run(record(store, [answer(q.key, outcome="refused", cost=None)]))
        assert store.spent() == (0, 0.0) and store.claim([q]) == []
        asyncio.run(record(store, [answer(q.key, "nonsense", cost=None)]))
        assert store.spent() == (1, 0.4) and other.claim([q]) == []
        assert store.claim([q]) == [q]
        asyncio.run(record(store, [answer(q.key, "", outcome="ambiguous", cost=None)]))
        assert store.claim([q]) == [] and store.turned_away["budget"] == 1
        store.settle(q.key, False)
        assert store.claim([q]) == other.claim([q]) == [] and other.turned_away["failed"] == 1
        assert store.verdicts().select("status", "score").rows() == [("error", None)]
        store.close()
        assert other.claim([q]) == [q]


def test_a_newer_parser_reads_old_answers_and_asks_nobody(tmp_path: Path) -> None:
    with Store.open(tmp_path, parser=parser(1)) as store:
        (odd,) = fill(store, [1], body="odd 30")
        fill(store, [2])
        assert store.known([odd]) == set()
        (old,) = store.export()
    with Store.open(tmp_path, parser=parser(2)) as store:
        assert store.known([odd]) == {odd} and store.claim([question(1)]) == []
        frame = store.verdicts("pa", ["score", "parser", "status"])
        assert sorted(frame["score"]) == [30, 80] and set(frame["parser"]) == {2}
        (new,) = store.export()
        assert new != old and not old.exists()
    with Store.open(tmp_path, parser=parser(1)) as store:
        assert store.known([odd]) == set() and sorted(store.verdicts()["status"]) == ["no_json", "ok"]


def test_parts_hold_each_question_once_and_damaged_ones_are_made_again(tmp_path: Path) -> None:
    with Store.open(tmp_path, parser=parser()) as store:
        fill(store, range(10), body="nonsense")
        fill(store, range(10, 20))
        first = store.export()
        assert store.export() == first
    with Store.open(tmp_path, parser=parser()) as store:
        fill(store, range(5))
        parts = store.export()
        assert len(parts) == 2 and not first[0].exists()
        table = pl.read_parquet(parts).sort("key")
        assert table.equals(store.verdicts()) and table.height == 20
        assert table["status"].value_counts().sort("status").rows() == [("no_json", 5), ("ok", 15)]
        parts[0].write_bytes(parts[0].read_bytes()[:-20] + b"\0" * 20)
        parts[1].unlink()
        assert store.verdicts().equals(table)
        remade = store.export()
        assert pl.read_parquet(remade).sort("key").equals(table)
        remade[0].write_bytes(remade[1].read_bytes())  # whole, but not what it should be
        checked = store.verify()
        assert len(checked.problems) == len(checked.remade) == 1 and store.verify().problems == ()
        assert len(store.export(compact=True)) == 1 and store.verdicts().equals(table)
    sql(tmp_path, "UPDATE answers SET seconds = 77 WHERE id = 15")
    with Store.open(tmp_path, parser=parser()) as store:
        assert [problem.partition(": ")[2] for problem in store.verify().problems] == ["differs from the answers"]
        assert store.verdicts()["seconds"].max() == 77 and store.verify().problems == ()


def test_a_verdict_stands_against_a_later_failure(tmp_path: Path) -> None:
    with Store.open(tmp_path, parser=parser()) as store:
        (q,) = store.claim([question(1)])
        for body in ("nonsense", "ok 10", "ok 20", "nonsense"):
            asyncio.run(record(store, [answer(q.key, body)]))
            store.export()
        assert store.verdicts().select("key", "status", "score").rows() == [(q.key, "ok", 20.0)]
        assert pl.read_parquet(store.export())["score"].to_list() == [20.0]


def test_an_answer_that_does_not_re_read_is_named_and_its_verdict_saved_from_the_parts(tmp_path: Path) -> None:
    with Store.open(tmp_path, parser=parser()) as store:
        keys = fill(store, range(3))
        store.export()
        fill(store, range(3, 6))
        assert len(store.known(question(n).key for n in range(6))) == 6
        table = store.verdicts("pa", ["key", "score", "reply"])
    for damaged in (2, 5):
        ((body,),) = sql(tmp_path, "SELECT body FROM answers WHERE id = ?", damaged)
        sql(tmp_path, "UPDATE answers SET body = ? WHERE id = ?", body[:-1] + bytes([body[-1] ^ 1]), damaged)
    with Store.open(tmp_path, parser=parser()) as store:
        checked = store.verify()
        assert checked.damaged == (2, 5) and len(checked.problems) == 2
        assert all(f"{tmp_path / store_schema.FILE}: answer" in problem for problem in checked.problems)
        assert store.known(keys) == set(keys)  # the parts held this one, and not the other
        assert store.claim(map(question, range(6))) == [question(4)]
        lost = pl.col("key") != question(4).key
        assert store.verdicts("pa", ["key", "score", "reply"]).filter(lost).equals(table.filter(lost))


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda file: file.write_bytes(file.read_bytes()[:5_000]), "damaged"),
        (lambda file: file.write_bytes(b"no database" * 1_000), "damaged or no store"),
        (lambda file: sql(file.parent, "PRAGMA user_version = 99"), "version 99"),
        (lambda file: sql(file.parent, "PRAGMA application_id = 5"), "another program"),
    ],
)
def test_what_is_no_store_is_named(tmp_path: Path, spoil: Callable[[Path], object], said: str) -> None:
    with Store.open(tmp_path, parser=parser()) as store:
        keys = fill(store, range(300))
    spoil(tmp_path / store_schema.FILE)
    with pytest.raises(InputError, match=said) as caught, Store.open(tmp_path, parser=parser()) as store:
        store.known(keys)
    assert str(tmp_path / store_schema.FILE) in str(caught.value)


def test_a_store_of_version_1_opens(tmp_path: Path) -> None:
    db = sqlite3.connect(tmp_path / store_schema.FILE)
    db.executescript((GOLDEN / "store_v1.sql").read_text(encoding="utf-8"))
    db.close()
    with Store.open(tmp_path) as store:
        assert store.spent() == (3, 0.502)
        rows = store.verdicts().select("kind", "judge_seed", "status", "score", "equivalent", "accepted", "tokens_in")
        assert sorted(rows.rows(), key=repr) == sorted(
            [("pa", 1, "ok", 85.0, False, None, 100), ("joint", None, "ok", None, None, True, 100),
             ("pa", 2, "error", None, None, None, None)],
            key=repr,
        )  # fmt: skip
        assert [lost.worst_cost for lost in store.open_after_crash()] == [0.5]
        assert store.verify().problems == ()


def test_an_older_version_is_brought_up_to_date_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store.open(tmp_path, parser=parser()) as store:
        keys = fill(store, range(3))
    later = (*store_schema.MIGRATIONS, ("ALTER TABLE answers ADD COLUMN region TEXT",))
    monkeypatch.setattr(store_schema, "MIGRATIONS", later)
    for _ in range(2):
        with Store.open(tmp_path, parser=parser()) as store:
            assert store.known(keys) == set(keys)
    monkeypatch.setattr(store_schema, "MIGRATIONS", later[:1])
    with pytest.raises(InputError, match="has version 2; this mabpl reads up to 1"):
        Store.open(tmp_path)


@pytest.mark.parametrize(
    ("changes", "differs"),
    [
        ({"label": "pick up item 3 "}, {"label": ("pick up item 3", "pick up item 3 ")}),
        ({"primary": "take item three"}, {"primary": ("take item 3", "take item three")}),
        ({"also": ()}, {"also": (("hold the box",), ())}),
        ({"prompt": "p2"}, {"prompt": ("p1", "p2")}),
        ({"judge": "judge-2"}, {"model": ("judge-1", "judge-2")}),
        ({"route": "openrouter.ai"}, {"route": ("self-hosted", "openrouter.ai")}),
        ({"temperature": 1, "top_p": 0.5}, {"setting": ({"temperature": 0}, {"temperature": 1, "top_p": 0.5})}),
        ({"seed": 9}, {"seed": (1, 9)}),
        ({"seed": 9, "judge": "judge-2"}, {"model": ("judge-1", "judge-2"), "seed": (1, 9)}),
    ],
)
def test_why_there_is_no_verdict(tmp_path: Path, changes: dict[str, object], differs: dict[str, object]) -> None:
    with Store.open(tmp_path, parser=parser()) as store:
        assert store.why(question(3)).nearest is None
        keys = fill(store, range(12))
        why = store.why(question(3, **changes))  # type: ignore[arg-type]
        assert (why.state, why.nearest, why.differs) == ("absent", keys[3], differs)
        assert store.why(question(3)).state == "known"
        store.claim([question(13)])
        assert store.why(question(13)).state == "claimed"


def test_texts_are_kept_once_and_are_what_was_sent(tmp_path: Path) -> None:
    with Store.open(tmp_path, parser=parser()) as store:
        fill(store, range(20))
        fill(store, range(20), seed=2)
    texts = dict(sql(tmp_path, "SELECT hash, text FROM texts"))
    assert len(texts) == 1 + 1 + 20
    ((setting, messages, seed),) = sql(
        tmp_path, "SELECT setting, messages, seed FROM questions WHERE key = ?", question(4).key
    )
    sent = {**json.loads(texts[setting]), "messages": [json.loads(texts[m]) for m in json.loads(messages)]}
    assert {**sent, "model": "judge-1", "seed": seed} == question(4).body


# From elsewhere


def test_tables_of_another_store_come_in_as_parquet_and_as_lines(tmp_path: Path) -> None:
    with Store.open(tmp_path / "a", parser=parser()) as store:
        fill(store, range(5))
        fill(store, [5], body="nonsense")
        table = store.verdicts()
        (part,) = store.export()
    lines = tmp_path / "verdicts.jsonl"
    table.write_ndjson(lines)
    for path in (part, lines):
        with Store.open(tmp_path / path.suffix, parser=parser()) as store:
            fill(store, [0], body="ok 10")
            imported = import_file(store, path)
            assert (imported.rows, imported.kept, imported.skipped) == (6, 4, 1)
            assert store.claim([question(n) for n in range(6)]) == [question(5)]
            store.settle(question(5).key, False)
            assert import_file(store, path).kept == 0 and store.spent()[0] == 1
            assert sorted(store.verdicts("pa")["score"].drop_nulls()) == [10, 80, 80, 80, 80]
            assert store.verdicts()["tokens_in"].to_list() == [100] * 5
            assert store.why(question(2, seed=5)).differs["seed"] == (1, 5)
    with (
        Store.open(tmp_path / "b", parser=parser()) as store,
        pytest.raises(InputError, match=r"lacks judge, .*status"),
    ):
        store.import_verdicts(table.select("key", "request", "kind"))


def test_batch_replies_come_in_any_order(tmp_path: Path) -> None:
    with Store.open(tmp_path, parser=parser()) as store:
        store.register(map(question, range(3)))
        rows = [{"custom_id": question(n).key, "response": {"status_code": 200, "body": f"ok {n}"}} for n in (2, 0, 77)]
        rows.append({"custom_id": question(1).key, "response": None, "error": {"code": "expired"}})
        replies = tmp_path / "replies.jsonl"
        replies.write_text("\n".join(map(json.dumps, rows)))
        imported = import_file(store, replies)
        assert (imported.rows, imported.kept, imported.skipped) == (4, 2, 2)
        assert store.claim(map(question, range(3))) == [question(1)]


@pytest.mark.parametrize(
    "cache",
    [
        {"9f3a": {"predicted_label": "a", "primary": "b", "also": ["c"], "score": 70, "equivalent": False}},
        {"verdicts": [{"pred": "a", "gold": "b", "also": ["c"], "verdict": {"score": 70.0, "equivalent": False}}]},
        {'["a", "b", ["c"]]': {"score": 70, "equivalent": False, "reason": "..."}},
    ],
)
def test_a_judge_cache_comes_in_where_it_tells_its_labels(tmp_path: Path, cache: object) -> None:
    def make(predicted: str, primary: str, also: tuple[str, ...], seed: int) -> Question:
        return question(label=predicted, primary=primary, also=also, seed=seed)

    path = tmp_path / "seed2.json"
    path.write_text(json.dumps(cache))
    with Store.open(tmp_path / "store", parser=parser()) as store:
        assert import_file(store, path, make).kept == 1
        assert store.claim([make("a", "b", ("c",), 2)]) == []
        assert store.verdicts().select("score", "equivalent", "judge_seed").rows() == [(70.0, False, 2)]
        path.write_text('{"9f3a": {"score": 70, "eq": false}}')
        with pytest.raises(InputError, match=r"keys found: eq, score; the first entry is called '9f3a'"):
            import_file(store, path, make)


def test_it_asks_without_loading_anything_heavy(tmp_path: Path) -> None:
    code = (
        "import sys; from mabpl.judges.store import Store; Store.open(sys.argv[1]).close(); "
        "print([m for m in ('polars', 'numpy', 'pyarrow', 'duckdb') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
