"""Verdicts from elsewhere: tables of another store, replies of a batch endpoint, caches of the published scorer.

Nothing here is charged, and a question that has a verdict keeps it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from mabpl.errors import InputError, unreadable
from mabpl.judges.types import Answer, Question, Verdict
from mabpl.tables.schemas import VERDICTS

if TYPE_CHECKING:
    from mabpl.judges.store import Store

MakeQuestion = Callable[[str, str, tuple[str, ...], int], Question]
"""(predicted label, PRIMARY, ALSO, judge seed) -> the PA question under which a foreign verdict is to be kept."""

_PREDICTED = ("predicted_label", "predicted", "pred_label", "pred", "prediction")
_PRIMARY = ("primary", "primary_label", "human_label", "human", "gold_label", "gold", "reference")
_ALSO = ("also", "also_labels", "also_in_span", "also_in_this_time_span")
_WRAPPERS = ("verdicts", "entries", "cache", "items")


@dataclass(frozen=True, slots=True)
class Imported:
    """``rows`` were found; ``kept`` answered a question that had no verdict; ``skipped`` could not be used."""

    rows: int
    kept: int
    skipped: int


def import_file(store: Store, path: Path, question: MakeQuestion | None = None) -> Imported:
    """Takes what ``path`` holds.

    - ``.parquet``, or JSON lines with ``key`` and ``status``: rows of a `verdicts` table;
    - JSON lines with ``custom_id`` and ``response``: replies of a batch endpoint to registered questions, whose key is
      the id; in any order, some of them or all;
    - ``seed<N>.json``: the published scorer's judge cache, where its entries tell their labels. ``question`` makes the
      question for them; it is that scorer's judge that is to be named.

    Raises :class:`InputError`, naming the keys found, where a file is none of these.
    """
    try:
        if path.suffix == ".parquet":
            return _table(store, pl.read_parquet(path, hive_partitioning=False), path)
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError, pl.exceptions.PolarsError) as error:
        raise unreadable(path, f"cannot be read ({error})") from None
    if path.suffix == ".json":
        return _cache(store, path, text, question)
    rows = _lines(path, text)
    if rows and all("custom_id" in row for row in rows):
        return _batch(store, rows)
    return _table(store, pl.DataFrame(rows, infer_schema_length=None), path)


def import_verdicts(store: Store, frame: pl.DataFrame) -> int:
    """See :meth:`Store.import_verdicts`."""
    return _table(store, frame, None).kept


def _table(store: Store, frame: pl.DataFrame, path: Path | None) -> Imported:
    where = path or "the table of verdicts"
    needed = {c.name for c in VERDICTS.columns if not c.nullable} - {"reply", "reasoning", "parser"}
    if missing := sorted(needed - set(frame.columns)):
        raise InputError(f"{where}: lacks {', '.join(missing)}", f"found: {', '.join(frame.columns) or 'nothing'}")
    absent = [pl.lit("").alias(name) for name in ("reply", "reasoning") if name not in frame.columns]
    try:
        rows = VERDICTS.conform(frame.with_columns(*absent, parser=pl.lit(0))).filter(status="ok").to_dicts()
    except pl.exceptions.PolarsError as error:
        raise InputError(f"{where}: a column has the wrong type ({error})", "see the page of verdicts.") from None
    store.register_bare(
        (row["key"], row["request"], row["kind"], row["judge"], row["route"], row["judge_seed"]) for row in rows
    )
    kept = store.add((_answer(row), Verdict(**{name: row[name] for name in Verdict.__slots__})) for row in rows)
    return Imported(frame.height, kept, frame.height - len(rows))


def _answer(row: dict[str, Any]) -> Answer:
    counts = {name: row[name] for name in ("tokens_in", "tokens_out", "tokens_reasoning", "cost")}
    return Answer(row["key"], "answered", None, b"", row["seconds"] or 0.0, **counts)


def _batch(store: Store, rows: list[dict[str, Any]]) -> Imported:
    replies = []
    for row in rows:
        response = row.get("response")
        if isinstance(response, dict) and response.get("status_code", 200) == 200 and "body" in response:
            replies.append((Answer(str(row["custom_id"]), "answered", 200, _bytes(response["body"]), 0.0), None))
    asked = store.registered(answer.key for answer, _ in replies)
    replies = [reply for reply in replies if reply[0].key in asked]
    return Imported(len(rows), store.add(replies), len(rows) - len(replies))


def _bytes(body: Any) -> bytes:
    return (body if isinstance(body, str) else json.dumps(body)).encode("utf-8", "surrogatepass")


def _lines(path: Path, text: str) -> list[dict[str, Any]]:
    rows = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                row = json.loads(line)
            except ValueError as error:
                raise unreadable(path, f"line {number}: invalid JSON ({error})") from None
            if not isinstance(row, dict):
                raise unreadable(path, f"line {number}: expected a JSON object")
            rows.append(row)
    return rows


def _cache(store: Store, path: Path, text: str, question: MakeQuestion | None) -> Imported:
    try:
        entries = list(_entries(json.loads(text)))
    except ValueError as error:
        raise unreadable(path, f"invalid JSON ({error})") from None
    seed = re.fullmatch(r"seed_?(\d+)", path.stem)
    if seed is None or question is None:
        raise unreadable(path, "is read as a judge cache, and its judge seed or its judge is not known", "seed<N>.json")
    found = [
        (labels, verdict)
        for name, entry in entries
        if (labels := _labels(name, entry)) and (verdict := _verdict(entry))
    ]
    if entries and not found:
        names = sorted({key for _, entry in entries for key in entry})
        raise unreadable(
            path,
            f"no entry tells its labels and verdict; keys found: {', '.join(names[:20]) or 'none'}; "
            f"the first entry is called {entries[0][0]!r}",
            f"expected one of {', '.join(_PREDICTED)}, one of {', '.join(_PRIMARY)}, score and equivalent",
        )
    asked = [(question(*labels, int(seed[1])), verdict) for labels, verdict in found]
    store.register(q for q, _ in asked)
    kept = store.add((Answer(q.key, "answered", None, b"", 0.0), verdict) for q, verdict in asked)
    return Imported(len(entries), kept, len(entries) - len(found))


def _entries(value: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """(name, entry) of a mapping or a list of objects, which may lie one level deeper."""
    if isinstance(value, dict):
        for wrapper in _WRAPPERS:
            if isinstance(value.get(wrapper), dict | list):
                yield from _entries(value[wrapper])
                return
        yield from ((str(name), entry) for name, entry in value.items() if isinstance(entry, dict))
    elif isinstance(value, list):
        yield from (("", entry) for entry in value if isinstance(entry, dict))


def _labels(name: str, entry: dict[str, Any]) -> tuple[str, str, tuple[str, ...]] | None:
    """From the entry's fields, or else from its name: JSON of the fields or of [predicted, PRIMARY, ALSO]."""
    for source in (entry, entry.get("request"), entry.get("saw"), _json(name)):
        if isinstance(source, list) and 2 <= len(source) <= 3:
            source = dict(zip((_PREDICTED[0], _PRIMARY[0], _ALSO[0]), source, strict=False))
        if isinstance(source, dict):
            predicted, primary, also = _first(source, _PREDICTED), _first(source, _PRIMARY), _first(source, _ALSO) or []
            if isinstance(predicted, str) and isinstance(primary, str) and _are_texts(also):
                return predicted, primary, tuple(also)
    return None


def _verdict(entry: dict[str, Any]) -> Verdict | None:
    values = next((v for v in (entry.get("verdict"), entry.get("answer")) if isinstance(v, dict)), entry)
    score, equivalent = values.get("score"), values.get("equivalent")
    if isinstance(score, bool) or not isinstance(score, int | float) or not 0 <= score <= 100:
        return None
    return Verdict("ok", float(score), equivalent) if isinstance(equivalent, bool) else None


def _first(source: dict[str, Any], names: Iterable[str]) -> Any:
    return next((source[name] for name in names if source.get(name) is not None), None)


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None
