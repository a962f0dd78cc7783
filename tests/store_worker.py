"""A process for the tests of the verdict store, to be killed, starved of disk, or ended between two lines.

``python store_worker.py MODE ...``; also what the tests share: questions, a parser, and an asking loop.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import random
import resource
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FrameType
from typing import Any

from mabpl.judges.store import Parser, Store, StoreUnwritable
from mabpl.judges.types import Answer, Question, Request, Verdict

SYSTEM = "You compare two labels of one action. " * 20
BODY = {"model": "judge-1", "temperature": 0, "max_tokens": 512}


def question(
    number: int = 0,
    *,
    label: str = "",
    primary: str = "",
    also: tuple[str, ...] = ("hold the box",),
    kind: str = "pa",
    judge: str = "judge-1",
    route: str = "self-hosted",
    seed: int | None = 1,
    prompt: str = "p1",
    worst: float = 0.0,
    **body: Any,
) -> Question:
    label, primary = label or f"pick up item {number}", primary or f"take item {number}"
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": f"{label} | {primary} | {also}"}]
    whole = {**BODY, **body, "model": judge, "messages": messages, "seed": seed}
    request = Request(digest(kind, label, primary, also, prompt), kind, label, primary, also, None, prompt)
    return Question(digest(whole, route, prompt), request, judge, route, seed, whole, worst)


def digest(*parts: Any) -> str:
    return hashlib.blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()


def answer(key: str, body: str = "ok 80", outcome: str = "answered", cost: float | None = 0.001) -> Answer:
    return Answer(key, outcome, 200, body.encode(), 0.1, 100, 20, 10, cost)


def parser(version: int = 1) -> Parser:
    """Reads ``ok SCORE``; its second version reads ``odd SCORE`` too."""

    def parse(kind: str, body: bytes, labels: list[str]) -> Verdict:
        word, _, score = body.decode().partition(" ")
        assert kind in ("pa", "joint") and len(labels) >= 2
        if word == "ok" or (word == "odd" and version > 1):
            return Verdict("ok", float(score.split()[0]), True, reply=body.decode())
        return Verdict("no_json", reply=body.decode())

    return Parser(version, parse)


async def record(store: Store, answers: Iterable[Answer]) -> list[BaseException | None]:
    return await asyncio.gather(*map(store.record, answers), return_exceptions=True)


def make_golden(folder: str) -> None:
    """Prints a small store as SQL, to be kept as ``golden/store_v<version>.sql`` whenever there is a new version."""
    with Store.open(folder) as store:
        asked = [question(1), question(1, kind="joint", seed=None), question(1, seed=2, worst=0.5)]
        replies = ('{"score": 85, "equivalent": false}', 'Right. {"accept": true}')
        store.claim(asked)
        bodies = [
            json.dumps({"choices": [{"message": {"content": reply}, "finish_reason": "stop"}]}) for reply in replies
        ]
        asyncio.run(record(store, [answer(q.key, body) for q, body in zip(asked, bodies, strict=False)]))
        store.known(q.key for q in asked)
    db = sqlite3.connect(Path(folder) / "answers.sqlite")
    for pragma in ("application_id", "user_version"):
        print(f"PRAGMA {pragma} = {db.execute(f'PRAGMA {pragma}').fetchone()[0]};")
    print("\n".join(db.iterdump()))


def fill(store: Store, numbers: Iterable[int], body: str = "ok 80", **changes: Any) -> list[str]:
    """Asks questions and settles them; returns their keys."""
    granted = store.claim([question(n, **changes) for n in numbers])
    assert not any(asyncio.run(record(store, [answer(q.key, body) for q in granted])))
    for q in granted:
        store.settle(q.key, body.startswith("ok"))
    return [q.key for q in granted]


def ask(folder: str, ledger: str, questions: str) -> None:
    """Asks all questions, in an order of its own; the ledger tells what was asked and what was acknowledged."""
    book = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(what: str, key: str) -> None:
        os.write(book, f"{what} {os.getpid()} {key}\n".encode())

    async def one(store: Store, q: Question) -> None:
        note("asked", q.key)
        await asyncio.sleep(random.random() * 0.004)
        await store.record(answer(q.key))
        note("acknowledged", q.key)
        store.settle(q.key, True)

    async def everything(store: Store) -> None:
        todo = list(range(int(questions)))
        random.shuffle(todo)
        for start in range(0, len(todo), 100):
            claimed = store.claim(map(question, todo[start : start + 100]))
            await asyncio.gather(*(one(store, q) for q in claimed))

    with Store.open(folder, parser=parser()) as store:
        asyncio.run(everything(store))


def hold(folder: str, number: str) -> None:
    """Claims a question, says so, and waits for its end."""
    store = Store.open(folder, parser=parser())
    print(len(store.claim([question(int(number), worst=0.5)])), flush=True)
    sys.stdin.read()


def full_disk(folder: str) -> None:
    """Records answers until no file may grow, makes space, and goes on; prints what it was told."""
    with Store.open(folder, parser=parser()) as store:
        granted = store.claim([question(number) for number in range(400)])
        size = (Path(folder) / "answers.sqlite").stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 40_000, resource.RLIM_INFINITY))
        noise = random.Random(1)
        told: dict[str, list[str]] = {"acknowledged": [], "held": [], "errors": []}
        for start in range(0, 300, 10):
            some = granted[start : start + 10]
            errors = asyncio.run(
                record(store, [answer(q.key, f"ok {noise.random()} {noise.randbytes(900).hex()}") for q in some])
            )
            for q, error in zip(some, errors, strict=True):
                assert error is None or isinstance(error, StoreUnwritable), error
                told["held" if error else "acknowledged"].append(q.key)
                told["errors"] += [str(error)] if error else []
            if told["held"]:
                break
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        assert not any(asyncio.run(record(store, [answer(granted[-1].key)])))
        told["after"] = sorted(store.known(q.key for q in granted))
    print(json.dumps(told))


def busy(folder: str) -> None:
    """Adds answers of another kind and exports after each, so that parts are made one all the time."""
    from mabpl.judges import store_parts

    store_parts.MANY = 2
    with Store.open(folder, parser=parser()) as store:
        for number in range(30):
            fill(store, [number], kind="joint", seed=None)
            store.export()


def steps(template: str, scratch: str) -> None:
    """Ends an export after each of its lines, in a process of its own, and looks at what it left."""
    import polars  # noqa: F401 - loaded before forking, used after

    from mabpl.judges import store_parts  # noqa: F401

    number, ended = 0, False
    while not ended:
        number += 1
        folder = Path(scratch) / str(number)
        shutil.copytree(template, folder)
        ended = forked(lambda folder=folder, number=number: ending_after(number, folder)) == 0  # type: ignore[misc]
        assert forked(lambda folder=folder: look_at(folder)) == 0, f"after step {number}"  # type: ignore[misc]
        shutil.rmtree(folder)
    print(number)


def forked(job: Callable[[], None]) -> int:
    child = os.fork()
    if not child:
        try:
            job()
        except BaseException as error:
            print(repr(error), file=sys.stderr)
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def ending_after(number: int, folder: Path) -> None:
    seen: set[tuple[str, int]] = set()

    def line(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            seen.add((frame.f_code.co_filename, frame.f_lineno))
            if len(seen) == number:
                os._exit(9)
        return line

    def call(frame: FrameType, event: str, _: Any) -> Any:
        return line if frame.f_code.co_filename.endswith(("store_parts.py", "tables/files.py")) else None

    with Store.open(folder, parser=parser()) as store:
        sys.settrace(call)
        store.export(compact=True)
        sys.settrace(None)


def look_at(folder: Path) -> None:
    import polars as pl

    for path in sorted((folder / "verdicts").glob("part-*.parquet")):
        pl.read_parquet(path)  # whatever has a part's name is whole
    with Store.open(folder, parser=parser()) as store:
        before = store.verdicts()
        assert before["key"].is_unique().all() and before["status"].to_list() == ["ok"] * 12, before
        parts = store.export()
        assert set((folder / "verdicts").iterdir()) == set(parts)
        assert pl.read_parquet(parts).sort("key").equals(before)
        assert not store.verify().problems


if __name__ == "__main__":
    {f.__name__: f for f in (ask, hold, full_disk, busy, steps, make_golden)}[sys.argv[1]](*sys.argv[2:])
