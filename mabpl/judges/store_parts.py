"""The `verdicts` table as parquet parts, made from the store's truth.

A part holds the questions whose standing answer lies in its range of answers; together the parts hold every question
once. A part is never changed: what makes it stale (a failed question that has its verdict now, a newer parser) makes a
new part that takes its place. The store's file says which parts stand; any other file in the folder is a remnant of a
process that ended on the way, and goes with the next export. A part becomes visible whole: it is written under a
temporary name, flushed, read back and compared, and renamed.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import sqlite3
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from mabpl.errors import unreadable
from mabpl.judges import store_reading as reading
from mabpl.judges import store_schema as schema
from mabpl.tables import files
from mabpl.tables.schemas import SCHEMA_VERSION, VERDICTS

if TYPE_CHECKING:
    from mabpl.judges.store import Store

FOLDER = "verdicts"
LARGEST = 20_000
"""Answers in the range of one part."""

MANY = 16
"""More parts than so many that are smaller than the largest are made one by the next export."""

_BROKEN = (OSError, pl.exceptions.PolarsError)


@dataclass(frozen=True, slots=True)
class Checked:
    """What :meth:`Store.verify` found. ``remade``: parts that were damaged or amiss, made again from the answers.

    ``damaged``: ids of answers that do not re-read; ``problems``: everything that is wrong, in words.
    """

    answers: int
    parts: int
    remade: tuple[Path, ...]
    damaged: tuple[int, ...]
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Part:
    """Part ``part`` covers the answers ``first`` to ``last``."""

    part: int
    first: int
    last: int
    parser: int
    sha256: str

    @property
    def range(self) -> tuple[int, int]:
        return self.first, self.last

    def path(self, store: Store) -> Path:
        return _path(store, self.part)


def verdicts(store: Store, kind: str | None, columns: Sequence[str] | None) -> pl.DataFrame:
    try:
        return _verdicts(store, kind, columns)
    except (OSError, pl.exceptions.PolarsError):  # a part is damaged, or another process has just replaced it
        with _exporting(store):
            _export(store, False, [part for part in _standing_parts(store) if _unreadable(store, part)])
            return _verdicts(store, kind, columns)


def _verdicts(store: Store, kind: str | None, columns: Sequence[str] | None) -> pl.DataFrame:
    parts = _standing_parts(store)
    covered = _covered(parts)
    last = _read_answers(store, covered)
    with store.commits.reading() as db:
        renewed, answers = reading.standing(db, store.parser, covered + 1, last)
    wanted = list(columns or VERDICTS.schema)
    needed = [name for name in VERDICTS.schema if name in {*wanted, "key", "kind"}]
    frames = [pl.read_parquet(part.path(store), columns=needed, hive_partitioning=False) for part in parts]
    if renewed:
        frames = [frame.filter(~pl.col("key").is_in(renewed)) for frame in frames]
    frame = pl.concat([*frames, _frame(store, answers).select(needed)]).sort("key")
    return (frame if kind is None else frame.filter(kind=kind)).select(wanted)


def export(store: Store, compact: bool) -> list[Path]:
    with _exporting(store):
        return [part.path(store) for part in _export(store, compact, ())]


def verify(store: Store) -> Checked:
    with store.commits.reading() as db:
        problems = [str(row[0]) for row in db.execute("PRAGMA integrity_check") if row[0] != "ok"]
        last = _last(db)
    damaged = []
    for first in range(1, last + 1, reading.AT_ONCE):
        with store.commits.reading() as db:
            rows = db.execute(
                "SELECT id, body FROM answers WHERE id BETWEEN ? AND ?", (first, first + reading.AT_ONCE - 1)
            ).fetchall()
        damaged += [answer for answer, body in rows if not _rereads(body)]
    problems += [f"answer {answer} does not re-read" for answer in damaged]
    problems = [f"{store.commits.path}: {problem}" for problem in problems]
    with _exporting(store):
        if damaged:
            _salvage(store, damaged)
            _export(store, False, ())
        parts = _standing_parts(store)
        wrong = {part: why for part in parts if (why := _amiss(store, part, _covered(parts)))}
        problems += [f"{part.path(store)}: {why}" for part, why in wrong.items()]
        remade = [part for part in _export(store, False, wrong) if part not in parts] if wrong else []
    return Checked(last, len(parts), tuple(part.path(store) for part in remade), tuple(damaged), tuple(problems))


def _rereads(body: bytes) -> bool:
    try:
        reading.unpacked(body)
    except zlib.error:
        return False
    return True


def _salvage(store: Store, damaged: list[int]) -> None:
    """What damaged answers said, as far as sound parts still hold it, is kept as verdicts from elsewhere are."""
    numbers = json.dumps(damaged)
    with store.commits.writing() as db:
        db.execute("DELETE FROM parsed WHERE answer IN (SELECT value FROM json_each(?))", (numbers,))
        keys = [
            key
            for (key,) in db.execute(
                "SELECT DISTINCT key FROM answers WHERE id IN (SELECT value FROM json_each(?))", (numbers,)
            )
        ]
    for part in _standing_parts(store):
        if not _unreadable(store, part):
            frame = pl.read_parquet(part.path(store), hive_partitioning=False)
            store.import_verdicts(frame.filter(pl.col("key").is_in(keys)))


def _unreadable(store: Store, part: _Part) -> str | None:
    try:
        return None if _digest(part.path(store)) == part.sha256 else "is damaged"
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        return f"cannot be read ({error.strerror})"


def _amiss(store: Store, part: _Part, horizon: int) -> str | None:
    """What is wrong with a part, if anything is."""
    if why := _unreadable(store, part):
        return why
    frame = pl.read_parquet(part.path(store), hive_partitioning=False)
    return None if frame.equals(_content(store, part.range, horizon)) else "differs from the answers"


def _export(store: Store, compact: bool, remake: Collection[_Part]) -> list[_Part]:
    """Brings the parts up to date; returns those that stand then."""
    old = _standing_parts(store)
    _sweep(store)
    covered = _covered(old)
    last = _read_answers(store, covered)
    with store.commits.reading() as db:
        stale = _stale(db, old, covered, last)
    kept = {part.range: part for part in old if part not in remake and part not in stale}
    ranges = [part.range for part in old]
    ranges += [(first, min(first + LARGEST - 1, last)) for first in range(covered + 1, last + 1, LARGEST)]
    if compact or sum(end - start + 1 < LARGEST for start, end in ranges) > MANY:
        ranges = _merged(ranges)
    if all(span in kept for span in ranges):
        return old
    with store.commits.reading() as db:
        number = db.execute("SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'parts'").fetchone()[0]
    parts = []
    for span in ranges:
        if span not in kept:
            number += 1
            sha256 = _write(_path(store, number), _content(store, span, last))
            parts.append(_Part(number, *span, store.parser.version, sha256))
        else:
            parts.append(kept[span])
    with store.commits.writing() as db:
        db.execute("DELETE FROM parts")
        db.executemany(
            "INSERT INTO parts VALUES (?, ?, ?, ?, ?)", [(p.part, p.first, p.last, p.parser, p.sha256) for p in parts]
        )
        db.execute("DELETE FROM parsed WHERE parser < ?", (store.parser.version,))
    _sweep(store)
    return parts


def _merged(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Neighbours become one where that is not too large."""
    merged: list[tuple[int, int]] = []
    for first, last in ranges:
        if merged and last - merged[-1][0] < LARGEST:
            merged[-1] = merged[-1][0], last
        else:
            merged.append((first, last))
    return merged


def _standing_parts(store: Store) -> list[_Part]:
    """In the order of their ranges, which leave no gap; none where another version of the parser made them."""
    with store.commits.reading() as db:
        rows = db.execute("SELECT part, first, last, parser, sha256 FROM parts ORDER BY first").fetchall()
    return [part for part in (_Part(*row) for row in rows) if part.parser == store.parser.version]


def _stale(db: sqlite3.Connection, parts: list[_Part], covered: int, last: int) -> set[_Part]:
    """Parts that may hold a question which has been answered again since."""
    rows = db.execute(
        "SELECT id FROM answers WHERE id <= ?1 AND key IN (SELECT key FROM answers WHERE id BETWEEN ?1 + 1 AND ?2)",
        (covered, last),
    ).fetchall()
    return {part for part in parts for (answer,) in rows if part.first <= answer <= part.last}


def _covered(parts: list[_Part]) -> int:
    return parts[-1].last if parts else 0


def _last(db: sqlite3.Connection) -> int:
    return int(db.execute("SELECT coalesce(max(id), 0) FROM answers").fetchone()[0])


def _read_answers(store: Store, covered: int) -> int:
    """Has every answer after ``covered`` read by the parser; returns the last one."""
    with store.commits.reading() as db:
        last = _last(db)
    for first in range(covered + 1, last + 1, reading.AT_ONCE):
        with store.commits.reading() as db:
            read = reading.unread(db, store.parser, reading.BETWEEN, (first, min(first + reading.AT_ONCE - 1, last)))
        store.remember(read)
    return last


def _content(store: Store, span: tuple[int, int], horizon: int) -> pl.DataFrame:
    with store.commits.reading() as db:
        answers = reading.chosen(db, store.parser, *span, horizon)
    return _frame(store, answers)


def _frame(store: Store, answers: list[int]) -> pl.DataFrame:
    rows: list[dict[str, object]] = []
    for some in reading.chunks(answers):
        with store.commits.reading() as db:
            rows += reading.rows_of(db, store.parser, some)
    return pl.DataFrame(rows, schema=VERDICTS.schema).sort("key")


def _write(path: Path, frame: pl.DataFrame) -> str:
    """Writes a part whole, or not at all; returns its SHA-256."""
    metadata = {"mabpl_table": VERDICTS.name, "mabpl_schema_version": str(SCHEMA_VERSION)}
    try:
        with files.atomic(path) as temporary:
            frame.write_parquet(temporary, compression="zstd", metadata=metadata, statistics=True)
            if not pl.read_parquet(temporary, hive_partitioning=False).equals(frame):
                raise unreadable(path, "does not read back as it was written", "the disk may be failing")
            sha256 = _digest(temporary)
        schema.sync_folder(path.parent)
    except pl.exceptions.PolarsError as error:
        raise unreadable(path, f"cannot be written ({error})") from None
    return sha256


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _path(store: Store, part: int) -> Path:
    return store.folder / FOLDER / f"part-{part:06d}.parquet"


def _sweep(store: Store) -> None:
    """Removes what is no standing part: replaced ones, and remnants of an export that was cut off."""
    with store.commits.reading() as db:
        standing = {_path(store, part) for (part,) in db.execute("SELECT part FROM parts")}
    folder = store.folder / FOLDER
    for path in (*folder.glob("part-*.parquet"), *folder.glob(".part-*.part")):
        if path not in standing:
            path.unlink(missing_ok=True)


@contextlib.contextmanager
def _exporting(store: Store) -> Iterator[None]:
    """One process at a time changes the parts."""
    with (store.folder / "export.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
