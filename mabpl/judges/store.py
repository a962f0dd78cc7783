"""The store of judges' answers: nothing acknowledged is lost, and nothing is paid twice but what was in flight.

::

    <folder>/answers.sqlite           the truth: raw answers, claims, attempts in flight, what was spent
    <folder>/owners/                  a locked file for each process that asks
    <folder>/export.lock              held by the process that changes the parts
    <folder>/verdicts/part-*.parquet  the `verdicts` table, made from the truth: what DuckDB and polars join

Several processes may have one store open. An API key never enters it. Asking loads the standard library only.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from mabpl.errors import UsageError, unreadable
from mabpl.judges import store_reading as reading
from mabpl.judges import store_schema as schema
from mabpl.judges.owners import Owner
from mabpl.judges.store_commits import Commits, put_answer
from mabpl.judges.store_reading import Attempted, Parser
from mabpl.judges.store_schema import StoreUnwritable
from mabpl.judges.types import Answer, Question, Verdict

if TYPE_CHECKING:
    import polars as pl

    from mabpl.judges.store_parts import Checked
    from mabpl.judges.store_why import Why

__all__ = ["Attempted", "Lost", "Parser", "Store", "StoreUnwritable"]

_CENT_DUST = 1e-9
"""What sums of costs may be off by, in floating point."""


@dataclass(frozen=True, slots=True)
class Lost:
    """An attempt whose process ended before it had an answer; ``since``: when it began, in seconds of the epoch."""

    key: str
    since: float
    worst_cost: float


class Store:
    """An open store: see :meth:`open`. Its methods may be called from any thread."""

    @classmethod
    def open(
        cls,
        folder: Path | str,
        max_cost: float | None = None,
        max_calls: int | None = None,
        parser: Parser | None = None,
    ) -> Store:
        """Opens the store in ``folder``, or makes one.

        ``max_cost`` and ``max_calls`` bound what the *store* has ever spent and all processes may yet spend in it:
        to bound one run, add what :meth:`spent` says. Raises :class:`InputError` where there is no store to be had.
        """
        return cls(Path(folder), max_cost, max_calls, parser)

    def __init__(self, folder: Path, max_cost: float | None, max_calls: int | None, parser: Parser | None) -> None:
        self.folder = folder
        self.max_cost = max_cost
        self.max_calls = max_calls
        self.parser = parser or Parser.current()
        self.turned_away = dict.fromkeys(("known", "claimed", "failed", "budget"), 0)
        """Of the last :meth:`claim`: how many questions were not given out, and why."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            schema.sync_folder(folder.parent)
        except OSError as error:
            raise unreadable(folder, f"cannot hold a store ({error.strerror})", "give another folder") from None
        self._owner = Owner(folder / "owners")
        self.commits = Commits(folder / schema.FILE, self._owner.name)
        self._claimed: set[str] = set()
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Writes what waits and gives this process's claims back.

        An attempt that is still open may have been billed: it is kept as lost, as after a crash. So settle what was
        claimed and never sent. Raises :class:`StoreUnwritable` where answers that wait cannot be written; the store
        then stays open.
        """
        if self._closed:
            return
        self.commits.flush()
        if self._claimed:
            with self.commits.writing() as db:
                _bury(db, {self._owner.name})
                self._owner.leave()
        self._closed = True
        self.commits.close()

    # Asking

    def known(self, keys: Iterable[str]) -> set[str]:
        """Those of ``keys`` that have an answer in which the present parser reads a verdict."""
        keys = list(keys)
        for some in reading.chunks(keys):
            with self.commits.reading() as db:
                new = reading.unread(db, self.parser, reading.OF_KEYS, [json.dumps(some)])
            self.remember(new)
        with self.commits.reading() as db:
            return reading.known(db, self.parser, keys)

    def claim(self, questions: Iterable[Question]) -> list[Question]:
        """Those of ``questions`` that this process may ask now, in their order; one attempt each.

        Left out, and counted in :attr:`turned_away`: what has a verdict (``known``); what a living process, this one
        too, has claimed (``claimed``) or given up (``failed``); and what would, at its worst, break the budget together
        with all that is spent and in flight (``budget``). The claim of a dead process is void, and its open attempt is
        kept as lost.

        After an answer that holds no verdict, claim the question again: that reserves its next attempt. A refused
        attempt costs nothing and leaves its claim as it was.
        """
        wanted = {question.key: question for question in questions}
        self.known(wanted)  # parses outside of the transaction
        with self.commits.writing() as db:
            for some in reading.chunks(wanted):
                late = reading.unread(db, self.parser, reading.OF_KEYS, [json.dumps(some)])
                reading.remember(db, self.parser, late)
            self._owner.appear()
            _bury(db, self._dead(db))
            known = reading.known(db, self.parser, wanted)
            unknown = [q for q in wanted.values() if q.key not in known]
            taken = self._taken(db, unknown)
            free = [q for q in unknown if q.key not in taken]
            granted = self._within_budget(db, free)
            _put_questions(db, granted)
            rows = [(q.key, self._owner.name, time.time(), q.worst_cost) for q in granted]
            db.executemany("INSERT OR REPLACE INTO claims VALUES (?, ?, 'open', ?, ?)", rows)
        self._claimed.update(q.key for q in granted)
        self.turned_away = {
            "known": len(known),
            "claimed": sum(state != "failed" for state in taken.values()),
            "failed": sum(state == "failed" for state in taken.values()),
            "budget": len(free) - len(granted),
        }
        return granted

    async def record(self, answer: Answer) -> None:
        """Returns when ``answer`` is on disk, raw; to be called from many tasks at once.

        Raises :class:`StoreUnwritable` where the disk is full. The answer is then held in memory and written with the
        next commit that succeeds, at the latest :meth:`close`'s: it need not be recorded again.
        """
        if answer.key not in self._claimed:
            raise UsageError(f"an answer to question {answer.key}, which this process has not claimed")
        await self.commits.record(answer)

    def settle(self, key: str, ok: bool) -> None:
        """No more attempts: the claim ends with the next commit.

        Where there is no verdict (``ok`` false) the question stays closed to everybody until this store is closed:
        two runs side by side do not both pay for a question that nobody can answer.
        """
        self.commits.settle(key, ok)

    def spent(self) -> tuple[int, float]:
        """Calls that were or may have been billed, and what they cost (at their worst, where nobody told)."""
        with self.commits.reading() as db:
            calls, cost = db.execute("SELECT calls, cost FROM spent").fetchone()
        return int(calls), float(cost)

    def open_after_crash(self) -> list[Lost]:
        """Attempts of ended processes whose question has had no answer since: they may have been billed."""
        with self.commits.writing() as db:
            _bury(db, self._dead(db))
        with self.commits.reading() as db:
            rows = db.execute(
                """SELECT key, recorded, charged FROM answers AS a WHERE outcome = 'lost' AND NOT EXISTS (
                    SELECT 1 FROM answers AS b WHERE b.key = a.key AND b.outcome IN ('answered', 'imported')
                ) ORDER BY id"""
            ).fetchall()
        return [Lost(*row) for row in rows]

    def register(self, questions: Iterable[Question]) -> None:
        """Keeps what is asked, for answers that come another way than :meth:`record`: batch files, other stores."""
        with self.commits.writing() as db:
            _put_questions(db, questions)

    def register_bare(self, questions: Iterable[tuple[str, str, str, str, str, int | None]]) -> None:
        """As :meth:`register`, of (key, request, kind, judge, route, seed): what a `verdicts` table tells."""
        with self.commits.writing() as db:
            for key, request, kind, judge, route, seed in questions:
                db.execute("INSERT OR IGNORE INTO requests (request, kind) VALUES (?, ?)", (request, kind))
                db.execute(
                    "INSERT OR IGNORE INTO questions (key, request, judge, route, seed) VALUES (?, ?, ?, ?, ?)",
                    (key, request, judge, route, seed),
                )

    def registered(self, keys: Iterable[str]) -> set[str]:
        """Those of ``keys`` whose question is stored, asked or not."""
        found: set[str] = set()
        for some in reading.chunks(keys):
            with self.commits.reading() as db:
                rows = db.execute(f"SELECT key FROM questions a WHERE {reading.OF_KEYS}", (json.dumps(some),))
                found.update(key for (key,) in rows)
        return found

    def add(self, answers: Iterable[tuple[Answer, Verdict | None]]) -> int:
        """Keeps answers to registered questions that nobody asked here, or bare verdicts; nothing is charged.

        Questions that have a verdict are left alone. Returns how many were kept.
        """
        given = {answer.key: (answer, verdict) for answer, verdict in answers}
        known = self.known(given)
        with self.commits.writing() as db:
            for key in given.keys() - known:
                answer, verdict = given[key]
                if verdict is None:
                    put_answer(db, answer, answer.outcome, answer.body, charged=0.0)
                else:
                    put_answer(db, answer, reading.IMPORTED, reading.verdict_body(verdict), charged=0.0)
        return len(given.keys() - known)

    # Reading

    def attempts(self, keys: Iterable[str]) -> Iterator[Attempted]:
        """Every attempt at the questions ``keys``, in the order in which they were kept, with what it is read as."""
        for some in reading.chunks(keys):
            with self.commits.reading() as db:
                found = reading.attempts(db, self.parser, some)
            yield from found

    def verdicts(self, kind: str | None = None, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """The `verdicts` table as it is now, in key order: each question's last verdict, else its last failure."""
        from mabpl.judges import store_parts

        return store_parts.verdicts(self, kind, columns)

    def export(self, compact: bool = False) -> list[Path]:
        """Writes what is new as parquet and returns all parts; ``compact`` makes few large ones of many small ones."""
        from mabpl.judges import store_parts

        return store_parts.export(self, compact)

    def verify(self) -> Checked:
        """Re-reads every answer, holds the parts to the answers, and makes damaged ones again.

        The verdict of an answer that does not re-read is saved from the parts, where a sound one holds it.
        """
        from mabpl.judges import store_parts

        return store_parts.verify(self)

    def import_verdicts(self, frame: pl.DataFrame) -> int:
        """Takes the rows of another store's `verdicts` table; returns how many questions had no verdict before."""
        from mabpl.judges import store_import

        return store_import.import_verdicts(self, frame)

    def why(self, question: Question) -> Why:
        """Whether ``question`` is stored, and if not, the nearest that is and the parts in which they differ."""
        from mabpl.judges import store_why

        return store_why.why(self, question)

    def remember(self, read: dict[int, bool]) -> None:
        """Keeps what the parser found in answers (answer -> is it a verdict), so that it is not read again."""
        if read:
            with self.commits.writing() as db:
                reading.remember(db, self.parser, read)

    # Inside a transaction

    def _dead(self, db: sqlite3.Connection) -> set[str]:
        owners = {owner for (owner,) in db.execute("SELECT DISTINCT owner FROM claims")}
        return self._owner.dead(owners - {self._owner.name})

    def _taken(self, db: sqlite3.Connection, questions: list[Question]) -> dict[str, str]:
        """Claimed questions and the state of their claim; not this process's own that may have another attempt."""
        taken: dict[str, str] = {}
        for some in reading.chunks(q.key for q in questions):
            rows = db.execute(f"SELECT key, owner, state FROM claims a WHERE {reading.OF_KEYS}", (json.dumps(some),))
            taken.update((key, state) for key, owner, state in rows if (owner, state) != (self._owner.name, "idle"))
        return taken

    def _within_budget(self, db: sqlite3.Connection, questions: list[Question]) -> list[Question]:
        calls, cost = db.execute(
            """SELECT calls + (SELECT count(*) FROM claims WHERE state = 'open'),
                cost + (SELECT total(worst_cost) FROM claims WHERE state = 'open') FROM spent"""
        ).fetchone()
        granted = []
        for question in questions:
            calls += 1
            cost += question.worst_cost
            if self.max_calls is not None and calls > self.max_calls:
                break
            if self.max_cost is not None and cost > self.max_cost + _CENT_DUST:
                break
            granted.append(question)
        return granted


def _bury(db: sqlite3.Connection, owners: Iterable[str]) -> None:
    """Ends the claims of ``owners``; an attempt that is open counts as billed, at its worst."""
    for owner in owners:
        calls, cost = db.execute(
            "SELECT count(*), total(worst_cost) FROM claims WHERE owner = ? AND state = 'open'", (owner,)
        ).fetchone()
        db.execute(
            """INSERT INTO answers (key, outcome, charged, recorded, body)
            SELECT key, 'lost', worst_cost, since, ? FROM claims WHERE owner = ? AND state = 'open'""",
            (reading.packed(b""), owner),
        )
        db.execute("UPDATE spent SET calls = calls + ?, cost = cost + ?", (calls, cost))
        db.execute("DELETE FROM claims WHERE owner = ?", (owner,))


def _put_questions(db: sqlite3.Connection, questions: Iterable[Question]) -> None:
    """What an earlier import left open (labels, body) is filled in."""
    for q in questions:
        r = q.request
        db.execute(
            """INSERT INTO requests VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET
            predicted_label = excluded.predicted_label, primary_label = excluded.primary_label, also = excluded.also,
            instruction = excluded.instruction, prompt_hash = excluded.prompt_hash WHERE predicted_label IS NULL""",
            (r.request, r.kind, r.predicted_label, r.primary, reading.canonical(r.also), r.instruction, r.prompt_hash),
        )
        setting = _put_text(db, reading.setting_of(q))
        messages = [_put_text(db, reading.canonical(message)) for message in q.body.get("messages", [])]
        db.execute(
            """INSERT INTO questions VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET
            setting = excluded.setting, messages = excluded.messages WHERE setting IS NULL""",
            (q.key, r.request, q.judge, q.route, q.seed, setting, reading.canonical(messages)),
        )


def _put_text(db: sqlite3.Connection, text: str) -> str:
    """Keeps ``text`` once; returns its name, by which ``texts`` knows it."""
    name = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    db.execute("INSERT OR IGNORE INTO texts VALUES (?, ?)", (name, text))
    return name
