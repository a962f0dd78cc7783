"""Prediction files as rows whose times can be changed, each change being told and all else staying as it is written."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import NamedTuple

import msgspec
import polars as pl

from mabpl.benchmarks.micro_annotation.parsing import LIMIT_US, RowReader
from mabpl.benchmarks.micro_annotation.rows import PredictionRow
from mabpl.errors import unreadable
from mabpl.reading.lines import BYTE_ORDER_MARK, Lines
from mabpl.reading.names import STDIN

CHANGES = {
    "line": pl.Int64,
    "clip_id": pl.String,
    "segment": pl.Int32,
    "field": pl.String,
    "rule": pl.String,
    "before": pl.String,
    "after": pl.String,
}
"""What was changed; `segment` is its position before, `after` is null where it was left out."""

_UNCLEAR = ("invalid-json", "encoding", "duplicate-key")


class Change(NamedTuple):
    line: int
    clip_id: str
    segment: int
    field: str
    rule: str
    before: str
    after: str | None


@dataclass
class TimelineSegment:
    """``raw``: each field as it is written; ``times``: start_s and end_s where they are numbers (now)."""

    position: int
    raw: dict[str, msgspec.Raw]
    times: dict[str, float] = field(default_factory=dict)

    @property
    def sound(self) -> bool:
        if len(self.times) < 2 or max(map(abs, self.times.values())) > LIMIT_US / 1e6:
            return False
        return round(self.times["end_s"] * 1e6) > round(self.times["start_s"] * 1e6)


@dataclass
class Row:
    """A line that holds a clip's timeline, and what was changed in it."""

    number: int
    clip_id: str
    raw: dict[str, msgspec.Raw]
    segments: list[TimelineSegment]
    changes: list[Change] = field(default_factory=list)

    def set_time(self, segment: TimelineSegment, name: str, value: float, rule: str) -> None:
        before = bytes(segment.raw[name]).decode()
        after = repr(round(value, 6))
        segment.times[name] = round(value, 6)
        segment.raw[name] = msgspec.Raw(after.encode())
        self.changes.append(Change(self.number, self.clip_id, segment.position, name, rule, before, after))


def read_rows(file: str) -> tuple[list[bytes], list[Row]]:
    """Every line as it is, and as a row where it is one that can be told.

    Raises :class:`InputError` for a file that cannot be read, or that has a line too long to be copied.
    """
    reader = RowReader(PredictionRow)
    texts: list[bytes] = []
    rows: list[Row] = []
    for line in Lines(file):
        if line.cut:
            raise unreadable(file, f"line {line.number} is too long to be copied", "write one clip a line")
        texts.append(line.data + b"\n" * line.ended)
        data = line.data.removeprefix(BYTE_ORDER_MARK)
        parsed = reader.read(data)
        if parsed.clip_id is None or any(fault.rule in _UNCLEAR for fault in parsed.faults):
            continue
        try:
            raw = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
            segments = msgspec.json.decode(raw["segments"], type=list[dict[str, msgspec.Raw]])
        except (msgspec.DecodeError, KeyError):
            continue
        rows.append(Row(line.number, parsed.clip_id, raw, [TimelineSegment(i, s) for i, s in enumerate(segments)]))
    return texts, rows


def seconds_in(text: str) -> float | None:
    """``mm:ss``, ``hh:mm:ss`` or plain seconds, with decimals after a point or comma."""
    found = re.fullmatch(r"\s*(?:(?:(\d{1,9}):)?(\d{1,9}):)?(\d{1,9}(?:[.,]\d+)?)\s*", text, re.ASCII)
    if not found:
        return None
    hours, minutes = int(found[1] or 0), int(found[2] or 0)
    seconds = float(found[3].replace(",", "."))
    if (found[1] and minutes >= 60) or (found[2] and seconds >= 60):
        return None
    return hours * 3600 + minutes * 60 + seconds


def edited(texts: Sequence[bytes], rows: Sequence[Row]) -> tuple[bytes, pl.DataFrame]:
    """The file with the changes of ``rows`` in it (every other line as it was), and the table of them."""
    changed = {row.number: row for row in rows if row.changes}
    data = b"".join(_written(changed[n], text) if n in changed else text for n, text in enumerate(texts, 1))
    return data, pl.DataFrame([change for row in rows for change in row.changes], schema=CHANGES, orient="row")


@contextmanager
def as_file(file: str, data: bytes) -> Iterator[Path]:
    """A temporary file of the same name as ``file`` that holds ``data``, to be read as a prediction file is."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, PurePath(file).name.removesuffix(".gz") if file != STDIN else "stdin.jsonl")
        copy.write_bytes(data)
        yield copy


def _written(row: Row, text: bytes) -> bytes:
    """The line with the row's segments in it; spaced as it was, each other field as it was written."""
    body = text.rstrip(b"\r\n")
    mark = BYTE_ORDER_MARK if body.startswith(BYTE_ORDER_MARK) else b""
    colon, comma = (b": ", b", ") if b'": ' in body else (b":", b",")

    def written(fields: Mapping[str, msgspec.Raw | bytes]) -> bytes:
        items = (msgspec.json.encode(name) + colon + bytes(value) for name, value in fields.items())
        return b"{" + comma.join(items) + b"}"

    segments = b"[" + comma.join(written(segment.raw) for segment in row.segments) + b"]"
    return mark + written({**row.raw, "segments": segments}) + text[len(body) :]
