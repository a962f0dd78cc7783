"""Batch files: questions for a provider's batch endpoint, and what comes back.

The format is that of OpenAI's Batch API, which Azure, vLLM (``run_batch``) and others share. A line of the file that is
sent is ``{"custom_id", "method", "url", "body"}``, a line of the file that returns ``{"custom_id", "response":
{"status_code", "body"}, "error"}``. The id is the question's key, so a reply needs nothing else to find its place: it
may come in any order, in parts, or twice. ``body`` is what :mod:`mabpl.judges.client` would send, so a verdict counts
the same whichever way it was asked for. An API key is in neither file.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import msgspec
import polars as pl

from mabpl.errors import InputError, unreadable
from mabpl.judges import store_reading as reading
from mabpl.judges.store import Store
from mabpl.judges.store_import import MakeQuestion, import_file
from mabpl.judges.types import Answer, Question
from mabpl.tables import files

URL = "/v1/chat/completions"

MOST_REQUESTS = 50_000
MOST_BYTES = 200_000_000
"""What OpenAI takes in one file, at most."""

Content = Callable[[Question], bytes | None]
"""What is sent for a question; None where it cannot be made."""

_Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Written:
    """``files``: each with its number of requests. ``known`` questions have a verdict and were left out.

    ``pending`` were asked or exported before and have none: in the files, or left out by ``new_only``.
    ``unmade``: their content could not be made. ``stale``: a file of the same name and the next number, left by an
    earlier export.
    """

    files: tuple[tuple[Path, int], ...]
    known: int
    pending: int
    unmade: int
    stale: Path | None

    @property
    def requests(self) -> int:
        return sum(count for _, count in self.files)


@dataclass(frozen=True, slots=True)
class Taken:
    """What a file came to; every row is counted once.

    ``new``: a verdict where there was none; ``known``: there was one, which stands; ``without``: no verdict in it.
    ``failed``: why a batch gave no answer -> rows; their questions stay open. ``unknown``: ids that no question of this
    store has. ``broken``: numbers of the lines that are no JSON object, or have no id.
    """

    new: int = 0
    known: int = 0
    without: int = 0
    failed: dict[str, int] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()
    broken: tuple[int, ...] = ()

    @property
    def whole(self) -> bool:
        """Every row gave a verdict."""
        return not (self.without or self.failed or self.unknown or self.broken)


def _as_it_is(question: Question) -> bytes:
    return json.dumps(question.body, ensure_ascii=False, allow_nan=False).encode()


def export_questions(
    store: Store,
    questions: Iterable[Question],
    path: Path,
    most: int = MOST_REQUESTS,
    new_only: bool = False,
    content: Content = _as_it_is,
) -> Written:
    """Writes the questions that have no verdict to ``path``, and registers them in ``store`` first.

    After ``most`` requests, or 200 MB, a file ``<stem>-2`` begins beside it, and so on; where nothing is open, none is
    written. ``new_only`` leaves out what was asked or exported before: a batch under way is not paid twice. ``content``
    makes what is sent, by default the question's body as JSON.
    """
    written: list[tuple[Path, int]] = []
    counts: Counter[str] = Counter()
    for lines in _cut(_lines(store, questions, new_only, content, counts), most):
        target = _numbered(path, len(written) + 1)
        files.write_bytes(target, b"".join(lines))
        written.append((target, len(lines)))
    beyond = _numbered(path, len(written) + 1)
    stale = beyond if beyond.exists() else None
    return Written(tuple(written), counts["known"], counts["pending"], counts["unmade"], stale)


def _lines(
    store: Store, questions: Iterable[Question], new_only: bool, content: Content, counts: Counter[str]
) -> Iterator[bytes]:
    """A line for each question that is to be asked, once, in their order."""
    rest, seen = iter(questions), set[str]()
    while some := {question.key: question for question in islice(rest, reading.AT_ONCE)}:
        fresh = some.keys() - seen
        seen |= fresh
        known = store.known(fresh)
        pending = store.registered(fresh) - known
        counts.update(known=len(known), pending=len(pending))
        left_out = known | pending if new_only else known
        asked = [question for key, question in some.items() if key in fresh and key not in left_out]
        store.register(asked)
        for question in asked:
            body = content(question)
            if body is None:
                counts["unmade"] += 1
                continue
            opening = json.dumps({"custom_id": question.key, "method": "POST", "url": URL})[:-1]
            yield b'%s, "body": %s}\n' % (opening.encode(), body)


def _cut(lines: Iterable[bytes], most: int) -> Iterator[list[bytes]]:
    group: list[bytes] = []
    size = 0
    for line in lines:
        if group and (len(group) == most or size + len(line) > MOST_BYTES):
            yield group
            group, size = [], 0
        group.append(line)
        size += len(line)
    if group:
        yield group


def _numbered(path: Path, number: int) -> Path:
    return path if number == 1 else path.with_name(f"{path.stem}-{number}{path.suffix}")


def take(store: Store, path: Path, question: MakeQuestion | None = None) -> Taken:
    """Takes the verdicts that ``path`` holds: a batch's replies, a `verdicts` table or a published scorer's cache.

    JSON lines with ``custom_id`` are replies to registered questions, those with ``key`` and ``status`` rows of a
    table; a line that is cut off or broken is counted and the rest taken. Anything else is
    :func:`mabpl.judges.store_import.import_file`'s, with ``question``. Taking a file twice changes nothing; nothing is
    charged. Raises :class:`InputError`, naming the keys found, where a file is none of these.
    """
    if path.suffix in (".parquet", ".json"):
        found = import_file(store, path, question)
        return Taken(found.kept, found.rows - found.kept - found.skipped, found.skipped)
    broken: list[int] = []
    rows = _rows(path, broken)
    first = next(rows, None)
    if first is None:
        if broken:
            raise unreadable(path, "no line of it is a JSON object", "expected JSON lines, .parquet or seed<N>.json")
        return Taken()
    keys = first[1].keys()
    if "custom_id" in keys and {"response", "error"} & keys:
        return _replies(store, first, rows, broken)
    if {"key", "status"} <= keys:
        return _table(store, path, [first[1], *(row for _, row in rows)], broken)
    if {"custom_id", "body"} <= keys:
        raise unreadable(path, "holds a batch's requests, not the replies", "give the file that the provider returned")
    raise unreadable(
        path,
        f"holds neither replies nor verdicts; keys found: {', '.join(list(keys)[:20]) or 'none'}",
        "expected custom_id and response (a batch's replies), or key, status, ... (`mabpl schema verdicts`)",
    )


def _rows(path: Path, broken: list[int]) -> Iterator[tuple[int, _Row]]:
    """(line number, object); lines that are none go to ``broken``."""
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                try:
                    row = json.loads(line) if line.strip() else ...
                except (ValueError, RecursionError):
                    row = None
                if isinstance(row, dict):
                    yield number, row
                elif row is not ...:
                    broken.append(number)
    except OSError as error:
        raise unreadable(path, f"cannot be read ({error.strerror})") from None


def _table(store: Store, path: Path, rows: list[_Row], broken: list[int]) -> Taken:
    try:
        frame = pl.DataFrame(rows, infer_schema_length=None)
        new = store.import_verdicts(frame)
    except InputError as error:
        raise InputError(f"{path}: {error.message}", error.hint) from None
    except (pl.exceptions.PolarsError, TypeError, ValueError, OverflowError) as error:
        raise unreadable(path, f"a column has values of several types ({error})", "see the page of verdicts.") from None
    usable = frame.filter(status="ok").height
    return Taken(new, usable - new, frame.height - usable, broken=tuple(broken))


def _replies(store: Store, first: tuple[int, _Row], rows: Iterator[tuple[int, _Row]], broken: list[int]) -> Taken:
    counts: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    unknown: list[str] = []
    some = [first, *islice(rows, reading.AT_ONCE)]
    while some:
        named = [(row["custom_id"], row) for _, row in some if isinstance(row.get("custom_id"), str)]
        broken += [number for number, row in some if not isinstance(row.get("custom_id"), str)]
        asked = store.registered(name for name, _ in named)
        answers = []
        for name, row in named:
            if name not in asked:
                unknown.append(name)
            elif why := _failure(row):
                failed[why] += 1
            else:
                answers.append(_answer(name, row["response"]["body"]))
        counts.update(_keep(store, answers))
        some = list(islice(rows, reading.AT_ONCE))
    return Taken(**counts, failed=dict(sorted(failed.items())), unknown=tuple(unknown), broken=tuple(sorted(broken)))


def _failure(row: _Row) -> str:
    """Why there is no answer in ``row``, by status and code alone: messages may quote a key. Empty if there is one."""
    response, error = row.get("response"), row.get("error")
    status, body = None, None
    if isinstance(response, dict):
        status, body = response.get("status_code", 200), response.get("body")
        if status == 200 and body:
            return ""
    if not isinstance(error, dict) and isinstance(body, dict):
        error = body.get("error")
    code = (error.get("code") or error.get("type")) if isinstance(error, dict) else None
    told = ([] if status in (None, 200) else [f"HTTP {status}"]) + ([] if code is None else [str(code)])
    return " ".join(told)[:80] or "no answer"


class _Details(msgspec.Struct):
    reasoning_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: Annotated[int, msgspec.Meta(ge=0)] | None = None
    completion_tokens: Annotated[int, msgspec.Meta(ge=0)] | None = None
    completion_tokens_details: _Details | None = None
    cost: Annotated[float, msgspec.Meta(ge=0)] | None = None


class _Body(msgspec.Struct):
    usage: _Usage | None = None


def _answer(key: str, body: Any) -> Answer:
    """With the tokens and the cost that the reply states."""
    raw = (body if isinstance(body, str) else json.dumps(body)).encode("utf-8", "surrogatepass")
    try:
        usage = msgspec.json.decode(raw, type=_Body).usage or _Usage()
    except (msgspec.DecodeError, RecursionError):
        usage = _Usage()
    details = usage.completion_tokens_details or _Details()
    tokens = (usage.prompt_tokens, usage.completion_tokens, details.reasoning_tokens)
    return Answer(key, "answered", 200, raw, 0.0, *tokens, usage.cost)


def _keep(store: Store, answers: list[Answer]) -> dict[str, int]:
    """Adds what is not there yet. Of several answers to a question the first that is a verdict stands."""
    keys = [answer.key for answer in answers]
    before = store.known(keys)
    held = _held(store, keys)
    distinct = {(answer.key, reading.packed(answer.body)): answer for answer in reversed(answers)}
    rest = [answer for name, answer in reversed(distinct.items()) if name not in held]
    while rest:
        layer = {answer.key: answer for answer in reversed(rest)}
        store.add((answer, None) for answer in layer.values())
        rest = [answer for answer in rest if layer[answer.key] is not answer]
    after = store.known(keys)
    new, verdicts = len(after - before), sum(key in after for key in keys)
    return {"new": new, "known": verdicts - new, "without": len(keys) - verdicts}


def _held(store: Store, keys: list[str]) -> set[tuple[str, bytes]]:
    with store.commits.reading() as db:
        return set(db.execute(f"SELECT key, body FROM answers a WHERE {reading.OF_KEYS}", (json.dumps(keys),)))
