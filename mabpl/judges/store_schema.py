"""The file that is the truth about judges' answers: its tables, its versions, and how it fails.

SQLite with a rollback journal that is flushed to disk (not WAL: with several connections, versions of SQLite before
3.51.3 can lose a committed write there). The journal is truncated, not deleted: the truncation is flushed too, so that
a committed transaction stays committed through a power cut.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from mabpl.errors import InputError, MabplError, unreadable

FILE = "answers.sqlite"
APPLICATION = 0x6D61626A
"""`mabj` in the header of the file: what tells this store from any other SQLite file."""

PATIENCE_S = 60.0
"""How long a process waits for another one's commit."""

_VERSION_1 = (
    # Every text that is sent, once: the messages of the bodies, and the bodies less their messages.
    "CREATE TABLE texts (hash TEXT PRIMARY KEY, text TEXT NOT NULL) WITHOUT ROWID",
    """CREATE TABLE requests (
        request TEXT PRIMARY KEY, kind TEXT NOT NULL, predicted_label TEXT, primary_label TEXT, also TEXT,
        instruction TEXT, prompt_hash TEXT) WITHOUT ROWID""",
    """CREATE TABLE questions (
        key TEXT PRIMARY KEY, request TEXT NOT NULL, judge TEXT NOT NULL, route TEXT NOT NULL, seed INTEGER,
        setting TEXT, messages TEXT) WITHOUT ROWID""",
    # Small columns first: SQLite reads them without the pages that hold the rest of a long body.
    """CREATE TABLE answers (
        id INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL, outcome TEXT NOT NULL, http_status INTEGER,
        seconds REAL, tokens_in INTEGER, tokens_out INTEGER, tokens_reasoning INTEGER, cost REAL,
        charged REAL NOT NULL, recorded REAL NOT NULL, body BLOB NOT NULL)""",
    "CREATE INDEX answers_of_key ON answers (key)",
    "CREATE INDEX answers_lost ON answers (key) WHERE outcome = 'lost'",
    "CREATE TABLE spent (calls INTEGER NOT NULL, cost REAL NOT NULL)",
    "INSERT INTO spent VALUES (0, 0.0)",
    """CREATE TABLE claims (
        key TEXT PRIMARY KEY, owner TEXT NOT NULL, state TEXT NOT NULL, since REAL NOT NULL,
        worst_cost REAL NOT NULL) WITHOUT ROWID""",
    # Derived, and made again at will: which answers a version of the parser reads as a verdict, and the parquet parts.
    """CREATE TABLE parsed (
        answer INTEGER NOT NULL, parser INTEGER NOT NULL, ok INTEGER NOT NULL, PRIMARY KEY (answer, parser)
        ) WITHOUT ROWID""",
    """CREATE TABLE parts (
        part INTEGER PRIMARY KEY AUTOINCREMENT, first INTEGER NOT NULL, last INTEGER NOT NULL,
        parser INTEGER NOT NULL, sha256 TEXT NOT NULL)""",
)

MIGRATIONS: tuple[tuple[str, ...], ...] = (_VERSION_1,)
"""The statements that lead from each version to the next; version 0 is an empty file. Only ever appended to."""


class StoreUnwritable(MabplError):
    """Nothing can be written now: the disk is full or failing, or another process holds the file (exit code 2).

    What was acknowledged is kept; what was not is held in memory and written with the next commit that succeeds.
    """


def connect(path: Path) -> sqlite3.Connection:
    """Opens or creates the file and brings it to the present version; usable from any thread, one at a time."""
    try:
        db = sqlite3.connect(path, timeout=PATIENCE_S, isolation_level=None, check_same_thread=False)
    except sqlite3.Error as error:
        raise explained(path, error) from error
    try:
        with failures(path):
            db.execute("PRAGMA journal_mode = TRUNCATE").fetchall()
            db.execute("PRAGMA synchronous = FULL")
            db.execute("PRAGMA fullfsync = ON")
            if _version(db, path) < len(MIGRATIONS):
                _migrate(db, path)
    except BaseException:
        db.close()
        raise
    return db


def _version(db: sqlite3.Connection, path: Path) -> int:
    version = int(db.execute("PRAGMA user_version").fetchone()[0])
    application = int(db.execute("PRAGMA application_id").fetchone()[0])
    if application != APPLICATION and (version or db.execute("SELECT 1 FROM sqlite_master").fetchone()):
        raise unreadable(path, "is another program's SQLite file", "give another folder for the store")
    if version > len(MIGRATIONS):
        raise unreadable(path, f"has version {version}; this mabpl reads up to {len(MIGRATIONS)}", "update mabpl")
    return version


def _migrate(db: sqlite3.Connection, path: Path) -> None:
    with transaction(db, path):
        version = _version(db, path)  # another process may have been faster
        for statement in (s for script in MIGRATIONS[version:] for s in script):
            db.execute(statement)
        db.execute(f"PRAGMA application_id = {APPLICATION}")
        db.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")


@contextlib.contextmanager
def transaction(db: sqlite3.Connection, path: Path) -> Iterator[None]:
    """One write: all of it is on disk when the block ends, or nothing of it."""
    with failures(path):
        db.execute("BEGIN IMMEDIATE")
        try:
            yield
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:  # on a full disk SQLite has rolled back by itself: a second time would hide the cause
                db.execute("ROLLBACK")
            raise


@contextlib.contextmanager
def failures(path: Path) -> Iterator[None]:
    """Errors of SQLite become ours, with the path."""
    try:
        yield
    except sqlite3.Error as error:
        raise explained(path, error) from error


_FULL = {"SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_IOERR_FSYNC", "SQLITE_IOERR_TRUNCATE"}


def explained(path: Path, error: sqlite3.Error) -> MabplError:
    name = getattr(error, "sqlite_errorname", "")
    if name in _FULL:
        free = ""
        with contextlib.suppress(OSError):
            room = os.statvfs(path.parent)
            free = f"; {room.f_bavail * room.f_frsize / 1e6:.0f} MB are free there"
        return StoreUnwritable(
            f"{path}: cannot grow: the disk is full, over a quota, or failing ({error})",
            f"make space and go on: no answer that was acknowledged is lost{free}",
        )
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return StoreUnwritable(f"{path}: another process has held it for {PATIENCE_S:.0f} s", "end that process")
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
        return unreadable(path, f"is damaged or no store ({error})", "restore it from a copy, or give another folder")
    return InputError(f"{path}: {error}", "is the folder there, on a local disk, and may you write to it?")


def sync_folder(folder: Path) -> None:
    """Makes renames and new files of ``folder`` last through a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
