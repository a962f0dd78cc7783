"""Corrects what is plainly wrong in a prediction file, says what it changed, and leaves everything else as it is.

In this order: times written as text (`mm:ss`, `hh:mm:ss`, quoted seconds), milliseconds or frame numbers for seconds
(of the whole file), segments out of order, overlaps. A line is changed only where something in it is, and then only the
values concerned. Nothing is guessed: where two explanations fit, the times stay.
"""

from __future__ import annotations

import os
import re
import statistics
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import NamedTuple

import msgspec
import polars as pl

from mabpl.benchmarks.micro_annotation.checks import check_predictions
from mabpl.benchmarks.micro_annotation.lines import BYTE_ORDER_MARK, Lines
from mabpl.benchmarks.micro_annotation.naming import STDIN
from mabpl.benchmarks.micro_annotation.parsing import LIMIT_US, RowReader, encodable
from mabpl.benchmarks.micro_annotation.reading import Labels, read_predictions
from mabpl.benchmarks.micro_annotation.rows import PredictionRow
from mabpl.errors import unreadable
from mabpl.tables.schemas import FRAME_RATE

CHANGES = {
    "line": pl.Int64,
    "clip_id": pl.String,
    "segment": pl.Int32,
    "field": pl.String,
    "rule": pl.String,
    "before": pl.String,
    "after": pl.String,
}

_TIMES = ("start_s", "end_s")
_NEARLY_ALL = 0.9
"""Share of the clips that must end after their duration before another unit than seconds is considered."""
_FILLED = 0.7
"""Median share of the duration that a timeline must reach in the right unit."""
_SLACK_S = 0.5
_UNCLEAR = ("invalid-json", "encoding", "duplicate-key")


@dataclass(frozen=True)
class Repaired:
    """``data``: the corrected file (not compressed). ``changes``: line, clip_id, segment (its position before), field,
    rule, before, after (null: left out). ``remaining``: the table `problems` of the corrected file. ``notes``: what was
    suspected and left, and why."""

    data: bytes
    changes: pl.DataFrame
    remaining: pl.DataFrame
    notes: tuple[str, ...]


class _Change(NamedTuple):
    line: int
    clip_id: str
    segment: int
    field: str
    rule: str
    before: str
    after: str | None


@dataclass
class _Segment:
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
class _Row:
    number: int
    clip_id: str
    raw: dict[str, msgspec.Raw]
    segments: list[_Segment]
    changes: list[_Change] = field(default_factory=list)

    def set_time(self, segment: _Segment, name: str, value: float, rule: str) -> None:
        before = bytes(segment.raw[name]).decode()
        after = repr(round(value, 6))
        segment.times[name] = round(value, 6)
        segment.raw[name] = msgspec.Raw(after.encode())
        self.changes.append(_Change(self.number, self.clip_id, segment.position, name, rule, before, after))


def repair(
    path: str | os.PathLike[str],
    labels: Labels,
    *,
    set_name: str | None = None,
    clips: Collection[str] | None = None,
) -> Repaired:
    """The corrected content of the prediction file at ``path``; nothing is written.

    ``labels`` give the clips' durations and frame rates, which tell milliseconds and frame numbers from seconds.
    ``set_name`` and ``clips`` are as in :func:`~mabpl.benchmarks.micro_annotation.checks.validate`. Raises
    :class:`InputError` for a file that cannot be read, or that has a line too long to be copied.
    """
    file = os.fspath(path)
    texts, rows = _read(file)
    for row in rows:
        _read_texts(row)
    scales, note = _unit(rows, labels)
    for row in rows:
        _rescale(row, scales)
        if all(segment.sound for segment in row.segments):
            _sort(row)
            _resolve_overlaps(row)
    changed = {row.number: row for row in rows if row.changes}
    data = b"".join(_written(changed[n], text) if n in changed else text for n, text in enumerate(texts, 1))
    return Repaired(
        data,
        pl.DataFrame([change for row in rows for change in row.changes], schema=CHANGES, orient="row"),
        _remaining(file, data, labels, set_name, clips),
        (f"{file}: {note}",) if note else (),
    )


def _read(file: str) -> tuple[list[bytes], list[_Row]]:
    """Every line as it is, and as a row where it is one that can be told."""
    reader = RowReader(PredictionRow, thorough=False)
    texts: list[bytes] = []
    rows: list[_Row] = []
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
        rows.append(_Row(line.number, parsed.clip_id, raw, [_Segment(i, s) for i, s in enumerate(segments)]))
    return texts, rows


def _read_texts(row: _Row) -> None:
    """Takes in the times that are numbers; those that are text become numbers."""
    for segment in row.segments:
        for name in _TIMES:
            value = msgspec.json.decode(segment.raw[name]) if name in segment.raw else None
            if isinstance(value, str):
                seconds = _seconds(value)
                if seconds is not None:
                    row.set_time(segment, name, seconds, "clock-time" if ":" in value else "quoted-number")
            elif isinstance(value, int | float) and not isinstance(value, bool):
                segment.times[name] = float(value)


def _seconds(text: str) -> float | None:
    """``mm:ss``, ``hh:mm:ss`` or plain seconds, with decimals after a point or comma."""
    found = re.fullmatch(r"\s*(?:(?:(\d+):)?(\d+):)?(\d{1,9}(?:[.,]\d+)?)\s*", text, re.ASCII)
    if not found:
        return None
    hours, minutes = int(found[1] or 0), int(found[2] or 0)
    seconds = float(found[3].replace(",", "."))
    if (found[1] and minutes >= 60) or (found[2] and seconds >= 60):
        return None
    return hours * 3600 + minutes * 60 + seconds


class _Scales(NamedTuple):
    """``factor``: what the times of a clip are divided by to give seconds."""

    rule: str
    factor: Mapping[str, float]


def _unit(rows: Sequence[_Row], labels: Labels) -> tuple[_Scales | None, str]:
    """The unit that the times of the whole file plainly are in, if not seconds; else why it was left."""
    videos = {
        clip_id: (duration, fps)
        for clip_id, duration, fps in labels.clips.select("clip_id", "duration_s", "source_fps").iter_rows()
    }
    times = {row.clip_id: [t for s in row.segments for t in s.times.values()] for row in rows}
    times = {clip_id: values for clip_id, values in times.items() if values and clip_id in videos}
    durations = {clip_id: videos[clip_id][0] for clip_id in times if videos[clip_id][0] is not None}
    if len(durations) < len(times):
        lacking = len(times) - len(durations)
        return None, f"whether the times are seconds was not checked: {lacking} clips have no duration_s in the labels"
    last = {clip_id: max(values) for clip_id, values in times.items()}
    beyond = sum(last[clip_id] > durations[clip_id] + _SLACK_S for clip_id in times)
    if not times or beyond < _NEARLY_ALL * len(times):
        return None, ""
    candidates = [_Scales("milliseconds", dict.fromkeys(times, 1000.0))]
    if all(value.is_integer() for values in times.values() for value in values):
        candidates.append(_Scales("frame-numbers", dict.fromkeys(times, float(FRAME_RATE))))
        own = {clip_id: videos[clip_id][1] for clip_id in times}
        if all(own.values()) and own != candidates[-1].factor:
            candidates.append(_Scales("frame-numbers-of-the-video", own))
    fitting = [c for c in candidates if _fits({k: last[k] / c.factor[k] for k in times}, durations)]
    if len(fitting) == 1:
        return fitting[0], ""
    what = f"more than one unit fits ({', '.join(c.rule for c in fitting)})" if fitting else "no unit fits"
    return None, f"the times of {beyond} of {len(times)} clips end after the clip, and {what}: they stay as they are"


def _fits(last_s: Mapping[str, float], durations: Mapping[str, float]) -> bool:
    inside = all(last_s[clip_id] <= durations[clip_id] + _SLACK_S for clip_id in last_s)
    return inside and statistics.median(last_s[clip_id] / durations[clip_id] for clip_id in last_s) >= _FILLED


def _rescale(row: _Row, scales: _Scales | None) -> None:
    factor = scales.factor.get(row.clip_id) if scales else None
    if scales and factor:
        for segment in row.segments:
            for name, value in list(segment.times.items()):
                row.set_time(segment, name, value / factor, scales.rule)


def _sort(row: _Row) -> None:
    row.segments.sort(key=lambda s: (s.times["start_s"], s.times["end_s"], s.position))
    row.changes += [
        _Change(row.number, row.clip_id, segment.position, "segments", "unsorted", str(segment.position), str(index))
        for index, segment in enumerate(row.segments)
        if segment.position != index
    ]


def _resolve_overlaps(row: _Row) -> None:
    """Each start no earlier than the end before it; a segment that this empties is left out."""
    kept: list[_Segment] = []
    for segment in row.segments:
        reached = kept[-1].times["end_s"] if kept else segment.times["start_s"]
        if round(segment.times["end_s"] * 1e6) <= round(reached * 1e6):
            before = msgspec.json.encode(segment.raw).decode()
            row.changes.append(_Change(row.number, row.clip_id, segment.position, "segments", "overlap", before, None))
            continue
        if round(segment.times["start_s"] * 1e6) < round(reached * 1e6):
            row.set_time(segment, "start_s", reached, "overlap")
        kept.append(segment)
    row.segments = kept


def _written(row: _Row, text: bytes) -> bytes:
    """The line with the row's segments in it; spaced as it was, each other field as it was written."""
    body = text.rstrip(b"\r\n")
    mark = BYTE_ORDER_MARK if body.startswith(BYTE_ORDER_MARK) else b""
    colon, comma = (b": ", b", ") if b'": ' in body else (b":", b",")

    def written(fields: Mapping[str, msgspec.Raw | bytes]) -> bytes:
        items = (msgspec.json.encode(name) + colon + bytes(value) for name, value in fields.items())
        return b"{" + comma.join(items) + b"}"

    segments = b"[" + comma.join(written(segment.raw) for segment in row.segments) + b"]"
    return mark + written({**row.raw, "segments": segments}) + text[len(body) :]


def _remaining(
    file: str, data: bytes, labels: Labels, set_name: str | None, clips: Collection[str] | None
) -> pl.DataFrame:
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, PurePath(file).name.removesuffix(".gz") if file != STDIN else "stdin.jsonl")
        copy.write_bytes(data)
        problems = check_predictions(read_predictions(copy, labels, set_name=set_name), labels, clips=clips)
    return problems.with_columns(file=pl.lit(encodable(file)))
