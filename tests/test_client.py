"""Asking a judge, held to a server that misbehaves on purpose and to the bill that it keeps."""

from __future__ import annotations

import asyncio
import dataclasses
import email.utils
import logging
import multiprocessing
import signal
import socket
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from judge_server import ANSWERED, BUSY, UNSURE, VERDICTS, JudgeServer, Script, chaos

from mabpl.errors import ServiceError, UsageError
from mabpl.judges import client, retry, transport
from mabpl.judges.client import Outcome, Progress, ask
from mabpl.judges.endpoint import Endpoint, Price, Timeouts
from mabpl.judges.pace import Pace
from mabpl.judges.store import Store
from mabpl.judges.types import Question, Request, fingerprint

KEY = "sk-a/very+secret=key"


@pytest.fixture(autouse=True)
def short_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "FIRST_DELAY_S", 0.002)
    monkeypatch.setattr(retry, "LONGEST_DELAY_S", 0.02)
    monkeypatch.setattr(client, "_ELSEWHERE_S", 0.05)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store") as opened:
        yield opened


def questions(count: int, seeds: tuple[int | None, ...] = (1,)) -> list[Question]:
    made = []
    for number in range(count):
        label = f"pick up cup {number}"
        request = Request(fingerprint(label), "pa", label, "pick up the cup")
        for seed in seeds:
            body: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": label}]}
            if seed is not None:
                body["seed"] = seed
            made.append(Question(fingerprint(body), request, "m", "self-hosted", seed, body))
    return made


def endpoint(server: JudgeServer, read: float = 20.0, **changes: Any) -> Endpoint:
    return Endpoint(server.url, KEY, Timeouts(connect=2.0, read=read), **changes)


def attempts(store: Store) -> dict[tuple[str, int | None], Counter[str]]:
    """Our ledger: for each question and seed how many attempts had which outcome."""
    kept: dict[tuple[str, int | None], Counter[str]] = {}
    store.close()
    with sqlite3.connect(store.folder / "answers.sqlite") as db:
        rows = db.execute(
            "SELECT predicted_label, seed, outcome FROM answers NATURAL JOIN questions NATURAL JOIN requests"
        ).fetchall()
    db.close()
    for label, seed, outcome in rows:
        kept.setdefault((label, seed), Counter())[outcome] += 1
    return kept


def bills(server: JudgeServer) -> dict[tuple[str, int | None], Counter[str]]:
    """The server's ledger, as far as the other side can know it."""
    sent: dict[tuple[str, int | None], Counter[str]] = {}
    for bill in server.ledger:
        outcome = "answered" if bill.act in ANSWERED else "ambiguous" if bill.act in UNSURE else "refused"
        sent.setdefault((bill.question, bill.seed), Counter())[outcome] += 1
    return sent


def expected_attempts(script: Script, asked: list[Question]) -> int:
    """What a client that asks until it has a verdict, and pays six times at most, sends."""
    total = 0
    for question in asked:
        paid, attempt = 0, 0
        while True:
            act = script(question.request.predicted_label, question.seed, attempt)
            attempt += 1
            paid += act not in BUSY
            if act in VERDICTS or paid == 6:
                break
        total += attempt
    return total


# --- all verdicts in, and the bills agree ---


def test_three_thousand_questions_to_a_bad_server(store: Store) -> None:
    """The two ledgers are equal, attempt for attempt, by what each outcome can know:

    answered = whole replies with status 200 (all billed); refused = 429, 503, 529 (none billed); ambiguous = the rest,
    of which the server billed some. So its bill lies between answered and answered + ambiguous.
    """
    shares = {"429": 2, "503": 3, "529": 1, "reset": 2, "hang_up": 2, "half": 3, "wrong_length": 2, "502": 2, "504": 1}
    shares |= {"html": 3, "null": 3, "wrong_json": 3, "bad_value": 2, "drip": 4, "draft": 10, "reasoning": 10}
    script = chaos(shares)

    def with_rare(question: str, seed: int | None, attempt: int) -> str:
        rare = {"pick up cup 3": "429_date", "pick up cup 500": "silent", "pick up cup 800": "stall"}
        return rare.get(question, "good") if attempt == 0 and question in rare else script(question, seed, attempt)

    asked = questions(1000, seeds=(1, 2, 3))
    seen: list[Progress] = []
    with JudgeServer(with_rare, delay=0.002).running() as server:
        outcome = ask(asked, endpoint(server, read=1.0), store, concurrency=20, progress=seen.append)
    assert store.known(question.key for question in asked) == {question.key for question in asked}
    assert (outcome.asked, outcome.ok, outcome.failed, outcome.left) == (3000, 3000, 0, 0)
    assert (seen[0].done, seen[-1].done, seen[-1].total, seen[-1].seconds_left) == (0, 3000, 3000, 0.0)

    assert attempts(store) == bills(server)
    assert len(server.ledger) == expected_attempts(with_rare, asked)
    billed = sum(bill.billed for bill in server.ledger)
    assert outcome.billed <= billed <= outcome.billed + outcome.ambiguous
    acts = Counter(bill.act for bill in server.ledger)
    assert outcome.billed == sum(acts[act] for act in ANSWERED)
    assert outcome.ambiguous == sum(acts[act] for act in UNSURE)
    assert outcome.errors["HTTP 429"] == acts["429"] + acts["429_date"] > 0
    assert outcome.errors["connection lost"] == sum(acts[act] for act in ("reset", "hang_up", "half", "wrong_length"))
    assert outcome.errors["time-out"] == acts["silent"] + acts["stall"] == 6
    assert outcome.errors["truncated"] == acts["null"]
    assert server.peak[None] <= 60
    assert max(server.peak[seed] for seed in (1, 2, 3)) <= 20


def test_no_storm_against_a_server_with_few_places(store: Store) -> None:
    with JudgeServer(places=8, delay=0.005).running() as server:
        outcome = ask(questions(600), endpoint(server), store, concurrency=64)
    acts = Counter(bill.act for bill in server.ledger)
    assert outcome.ok == acts["good"] == 600
    assert acts["429"] == outcome.errors["HTTP 429"] < 300
    assert attempts(store) == bills(server)


def test_the_ceiling_is_for_each_judge_seed_and_is_reached(store: Store) -> None:
    with JudgeServer(together=140).running() as server:
        outcome = ask(questions(150, seeds=(1, 2)), endpoint(server), store, concurrency=70)
    assert outcome.ok == 300
    assert (server.peak[None], server.peak[1], server.peak[2]) == (140, 70, 70)


def test_a_seed_does_not_take_the_places_of_another(store: Store) -> None:
    asked = [question for question in questions(100, seeds=(1, 2)) if question.seed == 1] + questions(5, seeds=(2,))
    with JudgeServer(delay=0.01).running() as server:
        assert ask(asked, endpoint(server), store, concurrency=6).ok == 105
    assert server.peak[1] == 6


def test_nothing_is_asked_twice(store: Store) -> None:
    asked = questions(20)
    with JudgeServer().running() as server:
        assert ask(asked + asked, endpoint(server), store).asked == 20
        assert ask(asked, endpoint(server), store) == Outcome()
    assert len(server.ledger) == 20


def test_answers_without_a_verdict_are_paid_six_times_at_most(store: Store) -> None:
    def script(question: str, seed: int | None, attempt: int) -> str:
        if question.endswith(" 1"):
            return ("null", "504", "html", "503", "wrong_json", "reset", "bad_value", "good")[attempt]
        return "good"

    with JudgeServer(script).running() as server:
        outcome = ask(questions(3), endpoint(server), store)
    assert (outcome.ok, outcome.failed, outcome.left) == (2, 1, 0)
    assert [bill.act for bill in server.ledger if bill.question.endswith(" 1")][-1] == "bad_value"
    assert (outcome.billed, outcome.ambiguous) == (2 + 4, 2)
    assert store.verdicts().filter(pl.col("score").is_null())["status"].to_list() == ["bad_value"]


def test_usage_and_cost(store: Store) -> None:
    with JudgeServer(cost=0.25).running() as server:
        told = ask(questions(4), endpoint(server, price=Price(1e6, 1e6)), store)
        server.cost = None
        priced = ask(questions(6), endpoint(server, price=Price(2.0, 10.0)), store)
        unknown = ask(questions(7), endpoint(server), store)
    assert (told.cost, unknown.cost) == (1.0, 0.0)
    assert priced.cost == pytest.approx(2 * (700 * 2 + 40 * 10) / 1e6)
    columns = ["tokens_in", "tokens_out", "tokens_reasoning"]
    assert set(store.verdicts().select(columns).rows()) == {(700, 40, 30)}


@pytest.mark.parametrize(
    "usage",
    ["7", '"many"', "[1]", '{"prompt_tokens": -1, "completion_tokens": 1e999}',
     '{"prompt_tokens": true, "completion_tokens": "4", "cost": "free", "completion_tokens_details": [3]}',
     f'{{"prompt_tokens": {2**80}, "cost": -1}}'],
)  # fmt: skip
def test_absurd_usage_is_no_usage(usage: str) -> None:
    found = transport._usage(b'{"usage": %s}' % usage.encode(), Endpoint("http://x.y", price=Price(1, 1)))
    assert set(found.values()) <= {None}


def test_an_endless_reply_is_read_up_to_its_bound(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "LARGEST_BODY", 100_000)
    script = lambda question, seed, attempt: "endless" if attempt == 0 else "good"  # noqa: E731
    with JudgeServer(script).running() as server:
        outcome = ask(questions(1), endpoint(server), store)
    assert (outcome.ok, outcome.billed, outcome.errors) == (1, 2, {"error": 1})


def test_a_reply_that_comes_byte_by_byte_is_not_waited_for_without_end(store: Store) -> None:
    script = lambda question, seed, attempt: "trickle" if attempt == 0 else "good"  # noqa: E731
    with JudgeServer(script).running() as server:
        outcome = ask(questions(1), Endpoint(server.url, KEY, Timeouts(connect=0.2, read=0.3)), store)
    assert (outcome.ok, outcome.ambiguous, outcome.errors) == (1, 1, {"time-out": 1})


# --- what stops a run ---


@pytest.mark.parametrize(
    ("status", "calls", "advice"),
    [("401", 6, "API key"), ("403", 6, "API key"), ("402", 6, "credit"), ("404", 6, "base URL"), ("307", 6, "base URL"),
     ("400", 13, "extra body"), ("422", 13, "extra body")],
)  # fmt: skip
def test_rejections_stop_a_run_after_a_few_calls(store: Store, status: str, calls: int, advice: str) -> None:
    with JudgeServer(lambda question, seed, attempt: status).running() as server, pytest.raises(ServiceError) as raised:
        ask(questions(500, seeds=(1, 2)), endpoint(server), store)
    assert 3 <= len(server.ledger) <= calls
    assert raised.value.exit_code == 4
    assert f"HTTP {status}: no, says {status} to" in str(raised.value)
    assert advice in raised.value.hint
    assert KEY not in str(raised.value)
    assert "\x1b" not in str(raised.value)
    assert isinstance(raised.value.outcome, Outcome)
    assert raised.value.outcome.billed == 0
    assert attempts(store) == bills(server)


def test_requests_that_are_rejected_now_and_then_fail_alone(store: Store) -> None:
    script = lambda question, seed, attempt: "400" if question.endswith("7") else "good"  # noqa: E731
    with JudgeServer(script).running() as server:
        outcome = ask(questions(200), endpoint(server), store, concurrency=4)
    assert (outcome.ok, outcome.failed, len(server.ledger)) == (180, 20, 200)


def test_a_judge_that_never_gives_a_verdict_is_left(store: Store) -> None:
    with (
        JudgeServer(lambda question, seed, attempt: "html").running() as server,
        pytest.raises(ServiceError, match="no verdict on 50 questions"),
    ):
        ask(questions(500), endpoint(server), store)
    assert len(server.ledger) <= 6 * (50 + 50)


@pytest.mark.parametrize("act", ["503", "429", "502"])
def test_an_endpoint_that_does_not_answer_is_given_up(store: Store, act: str) -> None:
    asked = questions(60)
    script = lambda question, seed, attempt: "good" if question.endswith(" 0") else act  # noqa: E731
    with JudgeServer(script).running() as server:
        expected = f"answered nothing for .* HTTP {act}: no, says {act}"
        with pytest.raises(ServiceError, match=expected) as raised:
            ask(asked, endpoint(server), store, give_up_after=0.05, concurrency=5)
        before = bills(server)
        assert attempts(store) == before
        server.script = chaos({})
        with Store.open(store.folder) as again:
            outcome = ask(asked, endpoint(server), again)
            assert again.known(question.key for question in asked) == {question.key for question in asked}
    assert raised.value.exit_code == 4
    assert outcome.ok == 60 - sum(count["answered"] for count in before.values()) > 0


def test_an_endpoint_that_answers_now_and_then_is_not_given_up(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock on which five minutes pass after every question."""
    begin, passed = time.monotonic(), [0.0]
    monkeypatch.setattr(asyncio.BaseEventLoop, "time", lambda loop: begin + passed[0] + (time.monotonic() - begin))

    def later(progress: Progress) -> None:
        passed[0] = 300.0 * progress.done

    script = lambda question, seed, attempt: "503" if attempt == 0 else "good"  # noqa: E731
    with JudgeServer(script).running() as server:
        outcome = ask(questions(20), endpoint(server, read=1e6), store, concurrency=1, progress=later)
    assert (outcome.ok, outcome.errors) == (20, {"HTTP 503": 20})


def test_nobody_there(store: Store) -> None:
    with socket.socket() as taken:  # bound, and not listening
        taken.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        with pytest.raises(ServiceError, match=r"answered nothing for .* no connection: .*127\.0\.0\.1"):
            ask(questions(3), Endpoint(address, KEY), store, give_up_after=0.05)
    assert store.spent() == (0, 0.0)


def test_a_wait_beyond_all_patience_is_not_waited_for(store: Store) -> None:
    with (
        JudgeServer(lambda question, seed, attempt: "429_date").running() as server,
        pytest.raises(ServiceError, match=r"asks to wait [12] s, longer than the 0\.5 s"),
    ):
        ask(questions(3), endpoint(server), store, give_up_after=0.5)


def test_https_to_a_server_without_it(store: Store) -> None:
    with (
        JudgeServer().running() as server,
        pytest.raises(ServiceError, match="rejects what it is sent: no secure connection"),
    ):
        ask(questions(30), Endpoint(server.url.replace("http", "https"), KEY), store)


def test_the_budget_ends_a_run_and_no_call_is_beyond_it(tmp_path: Path) -> None:
    script = lambda question, seed, attempt: "null" if attempt == 0 else "good"  # noqa: E731
    with Store.open(tmp_path, max_calls=25) as store, JudgeServer(script).running() as server:
        outcome = ask(questions(100), endpoint(server), store, concurrency=3)
        assert store.spent()[0] == len(server.ledger) == 25
    assert outcome.over_budget
    assert outcome.ok + outcome.left == 100
    assert outcome.ok >= 10


# --- Ctrl-C ---


def test_the_first_interrupt_waits_for_what_is_paid(store: Store) -> None:
    before = signal.getsignal(signal.SIGINT)

    def interrupt(progress: Progress) -> None:
        if progress.done == 10:
            signal.raise_signal(signal.SIGINT)

    with JudgeServer(delay=0.02).running() as server:
        outcome = ask(questions(300), endpoint(server), store, concurrency=8, progress=interrupt)
    assert outcome.interrupted
    assert outcome.open == ()
    assert outcome.ok == len(server.ledger) == 300 - outcome.left < 30
    assert attempts(store) == bills(server)
    assert signal.getsignal(signal.SIGINT) is before
    with Store.open(store.folder) as again:
        assert again.open_after_crash() == []


def test_the_second_interrupt_breaks_off_and_lists_what_may_be_billed(store: Store) -> None:
    asked = questions(300)

    def interrupt(progress: Progress) -> None:
        if progress.done == 44:
            handler = signal.getsignal(signal.SIGINT)
            assert callable(handler)
            handler(signal.SIGINT, None)
            handler(signal.SIGINT, None)
            with pytest.raises(KeyboardInterrupt):
                handler(signal.SIGINT, None)

    script = lambda question, seed, attempt: "good" if int(question.split()[-1]) < 44 else "silent"  # noqa: E731
    with JudgeServer(script, delay=0.02).running() as server:
        outcome = ask(asked, endpoint(server), store, concurrency=8, progress=interrupt)
    assert outcome.interrupted
    silent = {bill.question for bill in server.ledger if bill.act == "silent"}
    labels = {question.key: question.request.predicted_label for question in asked}
    assert silent <= {labels[key] for key in outcome.open}
    assert len(outcome.open) == outcome.ambiguous <= 8
    assert sum(count["ambiguous"] for count in attempts(store).values()) == len(outcome.open)


# --- the key ---


def test_the_key_is_nowhere(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    script = chaos({"503": 20, "400": 5, "reset": 5, "half": 5, "502": 10})  # errors say the key
    told: list[Any] = []
    with Store.open(tmp_path / "store") as store, JudgeServer(script).running() as server:
        judge = endpoint(server)
        told += [judge, ask(questions(100), judge, store, concurrency=4, progress=told.append)]
        server.script = lambda question, seed, attempt: "401"
        with pytest.raises(ServiceError) as raised:
            ask(questions(200), judge, store, progress=told.append)
        told += [raised.value, raised.value.outcome, *raised.value.args]
        assert server.keys == {f"Bearer {KEY}"}
        assert any("[key]" in progress.last_error for progress in told if isinstance(progress, Progress))
        store.export()
        told.append(store.verdicts())
        bodies = [row["reply"] for row in store.verdicts().to_dicts()]
    texts = [caplog.text, *capfd.readouterr(), *map(str, told), *map(repr, told), *bodies]
    files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    with sqlite3.connect(tmp_path / "store" / "answers.sqlite") as db:
        import zlib

        raw = [zlib.decompress(body) for (body,) in db.execute("SELECT body FROM answers")]
    db.close()
    assert any(b"[key]" in body for body in raw)
    for secret in (KEY, "very+secret"):
        assert not [text for text in texts if secret in text]
        assert not [data for data in [*files, *raw] if secret.encode() in data]


def test_the_key_is_redacted_however_it_is_written() -> None:
    judge = Endpoint("http://x.y/v1", KEY)
    body = f'{{"a": "{KEY}", "b": "{KEY.replace("/", chr(92) + "/")}", "c": "sk-a%2Fvery%2Bsecret%3Dkey"}}'
    assert judge.redacted(body.encode(), refused=False) == b'{"a": "[key]", "b": "[key]", "c": "[key]"}'
    short = Endpoint("http://x.y/v1", "local")
    assert short.redacted(b"a localized label", refused=False) == b"a localized label"
    assert short.redacted(b"bad key local", refused=True) == b"bad key [key]"
    unusual = "".join(f"\\u{ord(c):04x}" for c in KEY)
    assert judge.words(f'{{"error": {{"message": "bad key {unusual}"}}}}'.encode()) == "bad key [key]"


@pytest.mark.parametrize("key", ["sk-\u2019", "two words", "line\nbreak", "a\x00b"])
def test_keys_that_cannot_be_sent(key: str) -> None:
    with pytest.raises(UsageError) as raised:
        Endpoint("http://x.y/v1", key)
    assert key not in str(raised.value)
    assert raised.value.__context__ is None


@pytest.mark.parametrize("url", ["", "x.y/v1", "ftp://x.y", "http://", "http://x.y:port", "http://[x", "//x.y"])
def test_addresses_that_are_none(url: str) -> None:
    with pytest.raises(UsageError, match="is no address"):
        Endpoint(url)


@pytest.mark.parametrize("url", ["https://user:hunter2@x.y", "https://x.y/v1?key=hunter2", "https://x.y/v1#hunter2"])
def test_secrets_in_an_address_are_not_repeated(url: str) -> None:
    with pytest.raises(UsageError, match="give the key as the key") as raised:
        Endpoint(url)
    assert "hunter2" not in str(raised.value)


def test_addresses_and_keys_as_people_copy_them() -> None:
    assert Endpoint(" http://x.y/v1/chat/completions/ ", f" {KEY}\n").headers()["Authorization"] == f"Bearer {KEY}"
    assert Endpoint("http://x.y/v1/chat/completions").url == Endpoint("http://x.y/v1/").url
    assert "Authorization" not in Endpoint("http://x.y").headers()
    assert KEY not in repr(dataclasses.replace(Endpoint("http://x.y", KEY)))


# --- together with others ---


def ask_for(url: str, folder: Path, count: int) -> None:
    client._ELSEWHERE_S = 0.05
    with Store.open(folder) as store:
        outcome = ask(questions(count), Endpoint(url), store, concurrency=5)
        assert outcome.left == 0
        assert store.known(question.key for question in questions(count)) == {q.key for q in questions(count)}


def test_two_processes_that_share_a_store_pay_once(tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    with JudgeServer(chaos({"503": 5, "429": 5}), delay=0.02).running() as server:
        processes = [spawn.Process(target=ask_for, args=(server.url, tmp_path, 300)) for _ in range(2)]
        for process in processes:
            process.start()
        for process in processes:
            process.join(60)
    assert [process.exitcode for process in processes] == [0, 0]
    assert Counter(bill.question for bill in server.ledger if bill.billed).most_common(1)[0][1] == 1
    assert sum(bill.billed for bill in server.ledger) == 300


def test_inside_a_running_loop(store: Store) -> None:
    async def cell() -> Outcome:
        return ask(questions(5), endpoint(server), store)

    with JudgeServer().running() as server:
        assert asyncio.run(cell()).ok == 5


async def no_space_to_record(answer: object) -> None:
    raise UsageError("no space")


def no_space_to_claim(asked: object) -> list[Question]:
    raise UsageError("no space")


@pytest.mark.parametrize("failing", [no_space_to_record, no_space_to_claim])
def test_an_error_of_the_store_ends_the_run(store: Store, monkeypatch: pytest.MonkeyPatch, failing: Any) -> None:
    monkeypatch.setattr(store, failing.__name__.removeprefix("no_space_to_"), failing)
    with JudgeServer().running() as server, pytest.raises(UsageError, match="no space"):
        ask(questions(50), endpoint(server), store)
    assert len(server.ledger) < 20


# --- delays ---


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [({"retry-after": "7"}, 7.0), ({"retry-after": " 0.5 "}, 0.5), ({}, 0.0), ({"retry-after": "soon"}, 0.0),
     ({"retry-after": "-3"}, 0.0), ({"retry-after": "inf"}, 0.0), ({"retry-after": "9" * 400}, 0.0),
     ({"retry-after": "Fri, 01 Jan 2027 00:01:30 GMT", "date": "Fri, 01 Jan 2027 00:00:00 GMT"}, 90.0),
     ({"retry-after": "Fri, 01 Jan 2027 00:00:00 GMT", "date": "Fri, 01 Jan 2027 00:01:30 GMT"}, 0.0),
     ({"retry-after": "Fri, 99 Jan 2027 00:01:30 GMT"}, 0.0)],
)  # fmt: skip
def test_retry_after(headers: dict[str, str], seconds: float) -> None:
    assert retry.retry_after(headers) == seconds


def test_retry_after_by_our_own_clock() -> None:
    assert 95 < retry.retry_after({"retry-after": email.utils.formatdate(time.time() + 100, usegmt=True)}) <= 100


def test_delays_double_up_to_a_minute_and_are_fully_jittered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "FIRST_DELAY_S", 0.5)
    monkeypatch.setattr(retry, "LONGEST_DELAY_S", 60.0)
    bounds: list[tuple[float, float]] = []
    monkeypatch.setattr(retry.random, "uniform", lambda low, high: bounds.append((low, high)) or high)
    delays = [retry.delay(attempt, 0.0) for attempt in (0, 1, 2, 6, 7, 5000)]
    assert delays == [0.5, 1.0, 2.0, 32.0, 60.0, 60.0]
    assert {low for low, _ in bounds} == {0}
    assert retry.delay(0, 12.0) == 12.0


def test_the_pace_halves_once_a_round_and_recovers_to_its_ceiling() -> None:
    async def scenario() -> None:
        pace = Pace(64)
        assert pace.limit == 4
        pace.faster()
        assert pace.limit == 64
        entered = [await pace.enter() for _ in range(64)]
        waiting = asyncio.create_task(pace.enter())
        await asyncio.sleep(0)
        pace.slower(entered[0])
        pace.slower(entered[1])
        assert pace.limit == 32
        for _ in range(32):
            pace.leave()
        await asyncio.sleep(0)
        assert not waiting.done()
        pace.leave()
        pace.slower(await waiting)
        assert pace.limit == 16
        for _ in range(2000):
            pace.faster()
        assert pace.limit == 64

    asyncio.run(scenario())


def test_a_closed_gate_is_closed_for_everyone() -> None:
    async def scenario() -> None:
        pace = Pace(8)
        opens = asyncio.get_running_loop().time() + 0.05
        pace.close(0.05)
        pace.close(0.01)
        assert min(await asyncio.gather(*[pace.enter() for _ in range(4)])) >= opens

    asyncio.run(scenario())
