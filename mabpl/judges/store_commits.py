"""One connection to the store's file, and the group commit: many answers, one flush of the disk."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from mabpl.judges import store_schema as schema
from mabpl.judges.store_reading import packed
from mabpl.judges.types import Answer

GROUP = 64
GROUP_S = 0.020
"""Answers recorded together share a commit: so many, or those of so long a time, whichever comes first."""


@dataclass(slots=True)
class _Group:
    """What the next commit takes along, and who waits for it."""

    answers: list[Answer] = field(default_factory=list)
    settled: dict[str, bool] = field(default_factory=dict)
    waiting: list[asyncio.Future[None]] = field(default_factory=list)


class Commits:
    """The file at ``path``, written in the name of ``owner``. Any thread may call; one at a time has the connection."""

    def __init__(self, path: Path, owner: str) -> None:
        self.path = path
        self.owner = owner
        self._db = schema.connect(path)
        self._using = threading.RLock()
        self._gathering = threading.Lock()  # never held while the disk works
        self._group = _Group()
        self._full = threading.Event()
        self._writer = ThreadPoolExecutor(1, "verdict-store")

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """For short statements whose rows are fetched at once: a writer of any process waits for them."""
        with self._using, schema.failures(self.path):
            yield self._db

    @contextlib.contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction, after what was gathered; on disk when the block ends, or rolled back."""
        with self._using:
            self.flush()
            with schema.transaction(self._db, self.path):
                yield self._db

    async def record(self, answer: Answer) -> None:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self._gathering:
            self._group.answers.append(answer)
            self._group.waiting.append(done)
            gathered = len(self._group.waiting)
        if gathered == 1:
            self._writer.submit(self._commit)
        elif gathered >= GROUP:
            self._full.set()
        await done

    def settle(self, key: str, ok: bool) -> None:
        with self._gathering:
            self._group.settled[key] = ok

    def _commit(self) -> None:
        """In the writer's thread: waits until the group is full or old enough."""
        if self._group.waiting:
            self._full.wait(GROUP_S)
            self.flush()  # those who wait are told of its errors

    def flush(self) -> None:
        """Commits what was gathered. On failure it is gathered again, and those who wait for it are told."""
        with self._using:
            with self._gathering:
                taken, self._group = self._group, _Group()
                self._full.clear()
            if not (taken.answers or taken.settled):
                return
            try:
                with schema.transaction(self._db, self.path):
                    for answer in taken.answers:
                        self._keep(answer)
                    self._release(taken.settled)
            except BaseException as error:
                if isinstance(error, schema.StoreUnwritable):
                    error.message += f"; answers that wait in memory: {len(taken.answers)}"
                with self._gathering:
                    self._group.answers[:0] = taken.answers
                    self._group.settled = taken.settled | self._group.settled
                _tell(taken.waiting, error)
                raise
            _tell(taken.waiting, None)

    def close(self) -> None:
        """After the last commit."""
        self._writer.shutdown()
        self._db.close()

    def _keep(self, answer: Answer) -> None:
        """An attempt of this owner, paid as told or else at its worst; its reservation ends unless it was refused."""
        charged = answer.cost
        if answer.outcome == "refused":
            charged = 0.0
        elif charged is None:
            claim = self._db.execute("SELECT worst_cost FROM claims WHERE key = ?", (answer.key,)).fetchone()
            charged = claim[0] if claim else 0.0
        put_answer(self._db, answer, answer.outcome, answer.body, charged)
        if answer.outcome != "refused":
            self._db.execute("UPDATE spent SET calls = calls + 1, cost = cost + ?", (charged,))
            self._db.execute(
                "UPDATE claims SET state = 'idle' WHERE key = ? AND owner = ? AND state = 'open'",
                (answer.key, self.owner),
            )

    def _release(self, settled: dict[str, bool]) -> None:
        for key, ok in settled.items():
            change = "DELETE FROM claims" if ok else "UPDATE claims SET state = 'failed'"
            self._db.execute(f"{change} WHERE key = ? AND owner = ?", (key, self.owner))


def put_answer(db: sqlite3.Connection, answer: Answer, outcome: str, body: bytes, charged: float) -> None:
    """Inside a transaction."""
    db.execute(
        "INSERT INTO answers VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            answer.key,
            outcome,
            answer.http_status,
            answer.seconds,
            answer.tokens_in,
            answer.tokens_out,
            answer.tokens_reasoning,
            answer.cost,
            charged,
            time.time(),
            packed(body),
        ),
    )


def _tell(waiting: list[asyncio.Future[None]], error: BaseException | None) -> None:
    def settle(future: asyncio.Future[None]) -> None:
        if not future.done():
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)

    for future in waiting:
        with contextlib.suppress(RuntimeError):  # its loop has ended: nobody waits any more
            future.get_loop().call_soon_threadsafe(settle, future)
