"""What raters (judges, people) said of pairs of labels, read from wherever it is kept, as one table.

Columns of an opinions table, a row per answer:

- ``item``: what was rated, a number inside its source: a question in a clip, or a row of a file;
- ``kind``: pa, joint, or any (a bare yes or no, which speaks to both);
- ``clip_id``, ``request``, ``predicted_label``, ``primary``, ``also``: what is known of the item, null where it is not;
- ``rater``, ``seed``; ``score`` (0-100) and ``yes`` (equivalent, accepted), null where the rater gave none.
"""

from __future__ import annotations

import csv
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from mabpl.benchmarks.micro_annotation import verdict_lists
from mabpl.benchmarks.micro_annotation.results import load_result, read_document
from mabpl.errors import InputError, unreadable
from mabpl.judges import embedded
from mabpl.judges.parsing import ACCEPT_KEYS
from mabpl.judges.store import Store
from mabpl.reading.lines import BYTE_ORDER_MARK, Lines
from mabpl.tables import folder as folders
from mabpl.tables import schemas

KINDS = ("pa", "joint")
ANY = "any"
EMBEDDED = "embedded"
"""Names the embedded judge in place of a file: it answers what the other sources hold."""

LABELS = ("predicted_label", "primary", "also")
_TYPES: dict[str, pl.DataType] = {
    "item": pl.Int64(),
    "kind": pl.String(),
    "clip_id": pl.String(),
    "request": pl.String(),
    "predicted_label": pl.String(),
    "primary": pl.String(),
    "also": pl.List(pl.String()),
    "rater": pl.String(),
    "seed": pl.Int64(),
    "score": pl.Float64(),
    "yes": pl.Boolean(),
}
SCHEMA = pl.Schema(_TYPES)

_NAMES = {
    "predicted_label": ("predicted_label", "predicted", "pred_label", "pred", "prediction"),
    "primary": ("primary", "primary_label", "human_label", "human", "gold_label", "gold", "reference"),
    "also": ("also", "also_in_this_time_span"),
    "clip_id": ("clip_id", "clip"),
    "request": ("request",),
    "rater": ("rater", "annotator", "judge", "judge_model"),
    "seed": ("judge_seed", "seed"),
    "score": ("score",),
    "yes": tuple(dict.fromkeys(("equivalent", *ACCEPT_KEYS))),
    "kind": ("kind",),
}  # fmt: skip
"""The names under which a file of opinions may hold a column; the first that it has counts."""

_KINDS = {"equivalent": "pa", "accept": "joint", "accepted": "joint"}
_BOOLEANS = {"true": True, "false": False, "yes": True, "no": False, "1": True, "0": False}


@dataclass(frozen=True, slots=True)
class Opinions:
    """The opinions of one source. ``name``: the source's. ``notes``: what of it was left out, in words."""

    name: str
    table: pl.DataFrame
    notes: tuple[str, ...] = ()


def read_opinions(source: str | Path) -> Opinions:
    """What ``source`` holds: a result folder, the folder of a verdict store, a ``.scores.json`` or ``.joint.json``, a
    `verdicts` table as parquet or JSON lines, or a file of opinions as JSON lines or CSV.

    A file of opinions has a row per answer: ``predicted_label`` and ``human_label`` (or ``request``), and ``score``
    (0-100), ``equivalent``, ``accepted`` or ``same_event`` (true or false). It may have ``clip_id``, ``also``,
    ``rater`` (default: the file's name), ``seed`` and ``kind``. Raises :class:`InputError`, naming what it found.
    """
    path = Path(source)
    if path.is_dir():
        if (path / folders.MANIFEST).is_file():
            return _of_result(path)
        if (path / "answers.sqlite").is_file():
            return _of_store(path)
        raise unreadable(path, "is neither a result folder nor a verdict store", "`mabpl score --tables DIR` makes one")
    if path.suffix == ".parquet":
        try:
            return _of_verdicts(path, pl.read_parquet(path, hive_partitioning=False))
        except (OSError, pl.exceptions.PolarsError) as error:
            raise unreadable(path, f"cannot be read as parquet ({error})") from None
    if path.suffix == ".json":
        return _of_document(path)
    rows = list(_csv(path) if path.suffix == ".csv" else _json_lines(path))
    if rows and {"key", "status"} <= rows[0][1].keys():
        try:
            return _of_verdicts(path, pl.DataFrame([row for _, row in rows], infer_schema_length=None))
        except pl.exceptions.PolarsError as error:
            raise unreadable(path, f"a column of the verdicts has the wrong type ({error})") from None
    return _of_rows(path, rows)


def embedded_opinions(source: Opinions) -> Opinions:
    """The embedded judge's opinion of every pair of labels in ``source``; of both kinds where the kind is any."""
    asked = source.table.select("kind", *LABELS).drop_nulls(["predicted_label", "primary"])
    either = asked.filter(kind=ANY)
    asked = pl.concat([asked.filter(pl.col("kind") != ANY), *(either.with_columns(kind=pl.lit(k)) for k in KINDS)])
    asked = asked.unique(maintain_order=True)
    pa, joint = asked.filter(kind="pa"), asked.filter(kind="joint")
    score, equivalent = embedded.judge_pa(
        pa["predicted_label"].to_list(), pa["primary"].to_list(), pa["also"].fill_null([]).to_list()
    )
    accepted = embedded.judge_joint(joint["predicted_label"].to_list(), joint["primary"].to_list())
    pa = pa.with_columns(pl.Series("score", score), pl.Series("yes", equivalent))
    table = pl.concat([pa, joint.with_columns(pl.Series("yes", accepted))], how="diagonal").with_row_index("item")
    return Opinions(EMBEDDED, _conform(table.with_columns(rater=pl.lit(embedded.EMBEDDED))))


# --- results and verdict tables ---


def _of_result(path: Path) -> Opinions:
    result = load_result(path)
    if not {"requests", "verdicts"} <= result.tables.keys():
        raise unreadable(path, "holds no verdicts", "it was scored without a judge")
    clips = pl.concat([table.select("clip_id", "request") for table in (result.pairs, result.matches)])
    return _joined(path.name, result.verdicts, result.requests, clips.drop_nulls())


def _of_document(path: Path) -> Opinions:
    document = read_document(path)
    judge = document.get("provenance", {}).get("judge")
    if not document.get("verdicts") or not judge:
        raise unreadable(path, "holds no verdicts", "it was scored without a judge")
    try:
        asked, requests, verdicts = verdict_lists.tables(document, judge["kind"])
    except (KeyError, TypeError, AttributeError, pl.exceptions.PolarsError) as error:
        raise unreadable(path, f"its verdicts are not readable ({type(error).__name__}: {error})") from None
    return _joined(path.name, verdicts, requests, asked.select("clip_id", "request"))


def _of_store(path: Path) -> Opinions:
    with Store.open(path) as store:
        verdicts = store.verdicts()
        with store.commits.reading() as db:
            rows = db.execute("SELECT request, predicted_label, primary_label, also FROM requests").fetchall()
    labels = [(name, predicted, primary, json.loads(also or "null")) for name, predicted, primary, also in rows]
    schema = {name: SCHEMA[name] for name in ("request", *LABELS)}
    return _joined(path.name, verdicts, pl.DataFrame(labels, schema=schema, orient="row"), None)


def _of_verdicts(path: Path, frame: pl.DataFrame) -> Opinions:
    needed = {"request", "kind", "judge", "status"}
    if lacking := sorted(needed - set(frame.columns)):
        raise InputError(f"{path}: lacks {', '.join(lacking)}", f"found: {', '.join(frame.columns)}")
    bare = {"key": "", "route": "", "reply": "", "reasoning": "", "parser": 0}
    defaults = [pl.lit(value).alias(name) for name, value in bare.items() if name not in frame.columns]
    return _joined(path.name, schemas.VERDICTS.conform(frame.with_columns(defaults)), None, None)


def _joined(name: str, verdicts: pl.DataFrame, requests: pl.DataFrame | None, clips: pl.DataFrame | None) -> Opinions:
    """``verdicts`` with the labels of their request, in each clip that it was asked in."""
    answers = verdicts.filter(pl.col("status") == "ok", pl.col("kind").is_in(KINDS)).sort("key")
    bare = pl.col("route").is_in(["", EMBEDDED])
    answers = answers.with_columns(
        rater=pl.when(bare).then("judge").otherwise(pl.col("judge") + " @ " + pl.col("route")),
        seed="judge_seed",
        yes=pl.coalesce("equivalent", "accepted"),
    )
    table = answers.unique(["request", "rater", "seed"], keep="first", maintain_order=True)
    notes = []
    if without := verdicts.height - answers.height:
        notes.append(f"{name}: {without} answers hold no verdict")
    if repeated := answers.height - table.height:
        notes.append(f"{name}: {repeated} answers are of another setting of the same judge; the first of each counts")
    if requests is not None:
        table = table.join(requests.select("request", *LABELS), on="request", how="left")
    if clips is not None:
        table = table.join(clips.unique(), on="request")
    on = [column for column in ("clip_id", "request") if column in table.columns]
    items = table.select(on).unique().sort(on).with_row_index("item")
    return Opinions(name, _conform(table.join(items, on=on)).sort("item", "rater", "seed"), tuple(notes))


def _conform(table: pl.DataFrame) -> pl.DataFrame:
    absent = [pl.lit(None, dtype).alias(name) for name, dtype in SCHEMA.items() if name not in table.columns]
    return table.with_columns(absent).select(pl.col(name).cast(dtype) for name, dtype in SCHEMA.items())


# --- files of opinions ---

Row = dict[str, Any]


def _json_lines(path: Path) -> Iterator[tuple[int, Row]]:
    for line in Lines(path):
        data = line.data.removeprefix(BYTE_ORDER_MARK).strip()
        if not data:
            continue
        try:
            row = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise unreadable(path, f"line {line.number}: invalid JSON ({error})") from None
        if not isinstance(row, dict):
            raise unreadable(path, f"line {line.number}: expected a JSON object")
        yield line.number, row


def _csv(path: Path) -> Iterator[tuple[int, Row]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, strict=True)
            for row in reader:
                yield reader.line_num, {name: value for name, value in row.items() if name and value not in ("", None)}
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise unreadable(path, f"cannot be read as CSV ({error})") from None


def _of_rows(path: Path, rows: Sequence[tuple[int, Row]]) -> Opinions:
    found = list(dict.fromkeys(name for _, row in rows for name in row))
    names = {field: next((name for name in names if name in found), "") for field, names in _NAMES.items()}
    if not (names["request"] or (names["predicted_label"] and names["primary"])):
        raise _unnamed(path, "which pair was judged", ("request", "predicted_label", "primary"), found)
    if not (names["score"] or names["yes"]):
        raise _unnamed(path, "what was judged", ("score", "yes"), found)
    kind = "pa" if names["score"] or names["yes"] == "equivalent" else _KINDS.get(names["yes"], ANY)
    seen: Counter[tuple[Any, ...]] = Counter()
    items: dict[tuple[Any, ...], int] = {}
    table = []
    for number, row in rows:
        read: Row = {"kind": kind, "rater": path.stem}
        for field, name in names.items():
            if row.get(name) is not None:
                read[field] = _value(field, row[name], f"{path}: line {number}: {name}")
        what = tuple(str(read.get(field)) for field in ("kind", "clip_id", "request", *LABELS))
        who = (*what, read["rater"], read.get("seed"))
        read["item"] = items.setdefault((*what, seen[who]), len(items))
        seen[who] += 1
        if "score" in read or "yes" in read:
            table.append(read)
    return Opinions(path.name, pl.DataFrame(table, schema=SCHEMA))


def _unnamed(path: Path, what: str, fields: Iterable[str], found: list[str]) -> InputError:
    expected = "; ".join(", ".join(_NAMES[field]) for field in fields)
    return InputError(
        f"{path}: no column tells {what}; found: {', '.join(found) or 'nothing'}", f"expected: {expected}"
    )


def _value(field: str, value: Any, where: str) -> Any:
    """``value`` as the type of its column; raises :class:`InputError` that says ``where``."""
    read, expected = _READERS.get(field, (_text, "text"))
    found = read(value)
    if found is None:
        raise InputError(f"{where} = {value!r} is not possible", f"expected {expected}")
    return found


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _kind(value: Any) -> str | None:
    return value if value in (*KINDS, ANY) else None


def _boolean(value: Any) -> bool | None:
    return value if isinstance(value, bool) else _BOOLEANS.get(str(value).strip().lower())


def _score(value: Any) -> float | None:
    number = _number(value)
    return number if number is not None and 0 <= number <= 100 else None


def _seed(value: Any) -> int | None:
    number = _number(value)
    return int(number) if number is not None and number == int(number) else None


def _number(value: Any) -> float | None:
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _labels(value: Any) -> list[str] | None:
    labels = value if isinstance(value, list) else [label.strip() for label in str(value).split("|")]
    return labels if all(isinstance(label, str) for label in labels) else None


_READERS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "yes": (_boolean, "true or false"),
    "score": (_score, "a number from 0 to 100"),
    "seed": (_seed, "a whole number"),
    "kind": (_kind, f"one of {', '.join((*KINDS, ANY))}"),
    "also": (_labels, "a list of labels, in CSV separated by |"),
}
