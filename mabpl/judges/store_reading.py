"""What the stored answers mean: read by the present parser, one chosen answer for each question.

Parsing is a pure, versioned function of the raw answer. What is remembered of it is derived, and made again when the
version changes: a better parser re-reads old answers and asks nobody.
"""

from __future__ import annotations

import dataclasses
import json
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mabpl.judges.types import Question, Verdict

AT_ONCE = 2_000
"""Answers (with their bodies) or keys that one statement reads, so that no writer waits long for a reader."""

IMPORTED = "imported"
"""The outcome of an answer whose body is a verdict of another store, as JSON."""

LOST = "lost"
"""The outcome of an attempt whose process ended before an answer was kept: it may have been billed."""


@dataclass(frozen=True, slots=True)
class Parser:
    """``parse(kind, body, texts)`` reads a verdict in a raw answer to a request with these ``texts``; ``version``
    changes whenever its readings may."""

    version: int
    parse: Callable[[str, bytes, list[str]], Verdict]

    @classmethod
    def current(cls) -> Parser:
        from mabpl.judges import parsing

        return cls(parsing.PARSER, parsing.parse)

    def read(self, kind: str, outcome: str, body: bytes, texts: list[str]) -> Verdict:
        if outcome == IMPORTED:
            return Verdict(**json.loads(body))
        return self.parse(kind, body, texts) if outcome == "answered" else Verdict("error")


@dataclass(frozen=True, slots=True)
class Attempted:
    """An attempt at a question, and the verdict in it. ``outcome``: of the answer, or ``lost`` or ``imported``.
    ``recorded``: when it was kept, in seconds of the epoch; the rest as in :class:`~mabpl.judges.types.Answer`."""

    key: str
    outcome: str
    http_status: int | None
    seconds: float | None
    tokens_in: int | None
    tokens_out: int | None
    tokens_reasoning: int | None
    cost: float | None
    recorded: float
    verdict: Verdict


def packed(body: bytes) -> bytes:
    """Compressed, with a checksum that :func:`unpacked` holds it to."""
    return zlib.compress(body, 1)


def unpacked(blob: bytes) -> bytes:
    """Raises :class:`zlib.error` where a byte has changed."""
    return zlib.decompress(blob)


def verdict_body(verdict: Verdict) -> bytes:
    return json.dumps(dataclasses.asdict(verdict), ensure_ascii=False).encode()


def canonical(value: Any) -> str:
    """JSON in the one way that equal values share."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def setting_of(question: Question) -> str:
    """What is sent beside the messages, model and seed."""
    return canonical({n: v for n, v in question.body.items() if n not in ("messages", "model", "seed")})


def chunks(items: Iterable[Any], size: int = AT_ONCE) -> Iterator[list[Any]]:
    rest = list(items)
    for start in range(0, len(rest), size):
        yield rest[start : start + size]


_ANSWER = """
    SELECT a.id, a.key, a.outcome, a.body, q.request, r.kind, r.predicted_label, r.primary_label, r.also,
        q.judge, q.route, q.seed, a.tokens_in, a.tokens_out, a.tokens_reasoning, a.cost, a.seconds,
        a.http_status, a.recorded
    FROM answers a JOIN questions q USING (key) JOIN requests r USING (request)
"""


def _read(row: tuple[Any, ...], parser: Parser) -> Verdict:
    outcome, body, kind, predicted, primary, also = row[2], row[3], *row[5:9]
    texts = [text for text in (predicted, primary, *json.loads(also or "[]")) if text is not None]
    try:
        return parser.read(kind, outcome, unpacked(body), texts)
    except zlib.error:  # the disk's fault; `verify` names the answer
        return Verdict("error")


OF_KEYS = "a.key IN (SELECT value FROM json_each(?))"
BETWEEN = "a.id BETWEEN ? AND ?"


def unread(db: sqlite3.Connection, parser: Parser, where: str, values: Sequence[Any]) -> dict[int, bool]:
    """Reads the answers that ``where`` selects and this version has not read: answer -> is it a verdict."""
    rows = db.execute(
        f"{_ANSWER} LEFT JOIN parsed p ON p.answer = a.id AND p.parser = ? WHERE p.answer IS NULL AND {where}",
        (parser.version, *values),
    ).fetchall()
    return {row[0]: _read(row, parser).status == "ok" for row in rows}


def remember(db: sqlite3.Connection, parser: Parser, read: dict[int, bool]) -> None:
    """Inside a transaction."""
    rows = [(answer, parser.version, ok) for answer, ok in read.items()]
    db.executemany("INSERT OR REPLACE INTO parsed VALUES (?, ?, ?)", rows)


def known(db: sqlite3.Connection, parser: Parser, keys: Iterable[str]) -> set[str]:
    """Those with an answer that is a verdict; all their answers have been read."""
    found: set[str] = set()
    for some in chunks(keys):
        rows = db.execute(
            f"SELECT a.key FROM answers a JOIN parsed p ON p.answer = a.id AND p.parser = ? WHERE p.ok AND {OF_KEYS}",
            (parser.version, json.dumps(some)),
        )
        found.update(key for (key,) in rows)
    return found


def attempts(db: sqlite3.Connection, parser: Parser, keys: Iterable[str]) -> list[Attempted]:
    """See :meth:`mabpl.judges.store.Store.attempts`."""
    rows = db.execute(f"{_ANSWER} WHERE {OF_KEYS} ORDER BY a.id", (json.dumps(list(keys)),)).fetchall()
    names = ("tokens_in", "tokens_out", "tokens_reasoning", "cost", "seconds", "http_status", "recorded")
    return [
        Attempted(key=row[1], outcome=row[2], verdict=_read(row, parser), **dict(zip(names, row[12:], strict=True)))
        for row in rows
    ]


_STANDING = """
    SELECT key, coalesce(max(CASE WHEN ok THEN id END), max(id)) AS standing
    FROM answers JOIN parsed ON answer = id AND parser = ?4
    WHERE id <= ?3 AND key IN (SELECT key FROM answers WHERE id BETWEEN ?1 AND ?2) GROUP BY key
"""
"""Of the questions that are answered between ?1 and ?2, seen from ?3: the last verdict, or the last failure if none."""


def standing(db: sqlite3.Connection, parser: Parser, first: int, last: int) -> tuple[list[str], list[int]]:
    """The questions that are answered between ``first`` and ``last``, and the answer that stands for each."""
    rows = db.execute(_STANDING, (first, last, last, parser.version)).fetchall()
    return [key for key, _ in rows], [answer for _, answer in rows]


def chosen(db: sqlite3.Connection, parser: Parser, first: int, last: int, horizon: int) -> list[int]:
    """The answers between ``first`` and ``last`` that stand for their question, seen from ``horizon``."""
    rows = db.execute(
        f"SELECT standing FROM ({_STANDING}) WHERE standing BETWEEN ?1 AND ?2", (first, last, horizon, parser.version)
    )
    return [answer for (answer,) in rows]


def rows_of(db: sqlite3.Connection, parser: Parser, answers: Iterable[int]) -> Iterator[dict[str, Any]]:
    """Rows of the `verdicts` table for these answers."""
    for some in chunks(answers):
        for row in db.execute(
            f"{_ANSWER} WHERE a.id IN (SELECT value FROM json_each(?))", (json.dumps(some),)
        ).fetchall():
            yield {
                "key": row[1],
                "request": row[4],
                "kind": row[5],
                "judge": row[9],
                "route": row[10],
                "judge_seed": row[11],
                **dataclasses.asdict(_read(row, parser)),
                "tokens_in": row[12],
                "tokens_out": row[13],
                "tokens_reasoning": row[14],
                "cost": row[15],
                "seconds": row[16],
                "parser": parser.version,
            }
