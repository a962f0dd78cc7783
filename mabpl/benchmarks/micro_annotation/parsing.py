"""One line of a file as a typed row, or as the list of everything that is wrong with it.

The short way is msgspec's typed decoder. A line that it refuses, or in which a key may be given twice (which it does
not see), is read again as plain JSON and held against the row's type, field by field.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
from msgspec import inspect

from mabpl.benchmarks.micro_annotation.rows import LabelsRow, PredictionRow
from mabpl.reading.json_values import CLOCK_HINT, Fault, Object, check, encodable, loads

LIMIT_US = 2**51
"""Greatest absolute time in microseconds (about 71 years): sums and products of two stay exact."""

_CLOCK_HINT = f"{CLOCK_HINT}; mabpl validate --fix converts mm:ss and hh:mm:ss"

R = TypeVar("R", PredictionRow, LabelsRow)


class Parsed(NamedTuple, Generic[R]):
    """``row`` is None where ``faults`` is not empty; ``extras``: the further fields of the row, nested ones as JSON
    text, where they are asked for; ``clip_id``: as far as it can be told."""

    row: R | None
    clip_id: str | None
    faults: list[Fault]
    extras: dict[str, Any]


class RowReader(Generic[R]):
    """Reads lines as rows of ``kind``; with ``further_fields``, those that it does not name too."""

    def __init__(self, kind: type[R], *, further_fields: bool = False) -> None:
        self._kind: type[R] = kind
        self._decoder: msgspec.json.Decoder[R] = msgspec.json.Decoder(kind)
        self._further_fields = further_fields
        self._type = inspect.type_info(kind)

    def read(self, data: bytes) -> Parsed[R]:
        try:
            row = self._decoder.decode(data)
            quick = self._with_further_fields(row, data) if self._further_fields else _alone(row, data)
        except (msgspec.DecodeError, RecursionError):
            quick = None
        return quick or self._read_thoroughly(data)

    def _with_further_fields(self, row: R, data: bytes) -> Parsed[R] | None:
        """None where a key may be given twice (it adds two quotes), or a value may read otherwise by the long way."""
        value = _ANY.decode(data)
        if b"\\" in data or _LONG_NUMBER.search(data) or data.count(b'"') != _ENCODER.encode(value).count(b'"'):
            return None
        faults: list[Fault] = []
        extras = _extras(Object(list(value.items())), self._kind, faults)
        return None if faults else Parsed(row, row.clip_id, [], extras)

    def read_many(self, lines: list[bytes]) -> list[R] | None:
        """The rows of ``lines``; None where one of them has to be read by itself."""
        data = b"\n".join(lines)
        if self._further_fields or b"\\" in data or not (data.isascii() or _is_utf8(data)):
            return None
        try:
            rows = list(map(self._decoder.decode, lines))
        except (msgspec.DecodeError, RecursionError):
            return None
        # No line has fewer quotes than it must, so that none has more where their sum is what it must be.
        return rows if data.count(b'"') == sum(_least_quotes(len(row.segments)) for row in rows) else None

    def _read_thoroughly(self, data: bytes) -> Parsed[R]:
        value, fault = loads(data)
        if fault is not None:
            return Parsed(None, clip_id_in(data), [fault], {})
        faults: list[Fault] = []
        check(value, self._type, "", faults, value_rule="hands-value")
        faults = [fault._replace(hint=_CLOCK_HINT) if fault.hint == CLOCK_HINT else fault for fault in faults]
        if not isinstance(value, Object):
            return Parsed(None, None, faults, {})
        clip_id = value.get("clip_id")
        faults += _times_of(value.get("segments"))
        extras = _extras(value, self._kind, faults)
        row = None if faults else msgspec.convert(value, self._kind, strict=False)
        return Parsed(row, encodable(clip_id) if isinstance(clip_id, str) and clip_id else None, faults, extras)


def time_faults(index: int, start_s: float, end_s: float) -> list[Fault]:
    """What is wrong with the finite times of segment ``index``."""
    faults = [
        Fault(
            "time-out-of-range",
            f"segments[{index}].{name}",
            f"is {value:g}, expected seconds within {LIMIT_US / 1e6:.0f} of 0",
        )
        for name, value in (("start_s", start_s), ("end_s", end_s))
        if abs(value) > LIMIT_US / 1e6
    ]
    if not faults and round(end_s * 1e6) <= round(start_s * 1e6):
        faults.append(
            Fault(
                "end-not-after-start", f"segments[{index}].end_s", f"is {end_s}, expected more than start_s = {start_s}"
            )
        )
    return faults


def clip_id_in(data: bytes) -> str | None:
    """The clip id of a line that is not JSON (cut off, say), where it can be told."""
    found = re.search(rb'"clip_id"\s*:\s*("(?:[^"\\]|\\.)+")', data[:4096])
    try:
        return encodable(json.loads(found[1])) if found else None
    except ValueError:
        return None


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


_ANY = msgspec.json.Decoder()
_ENCODER = msgspec.json.Encoder()
_LONG_NUMBER = re.compile(rb"\d{16}")  # below, whole numbers are within 2**53
_ROW_KEYS = tuple(f'"{name}"'.encode() for name in PredictionRow.__struct_fields__)
_SEGMENT_KEYS = tuple(f'"{name}"'.encode() for name in ("start_s", "end_s", "label", "is_idle"))
_ESCAPED_KEY = re.compile(rb'\\[^"\\]*"\s*:')


def _alone(row: R, data: bytes) -> Parsed[R] | None:
    sound = _no_key_twice(data, len(row.segments)) and (data.isascii() or _is_utf8(data))
    return Parsed(row, row.clip_id, [], {}) if sound else None


def _least_quotes(segments: int) -> int:
    """Of a line without escapes and further fields: of two keys and the clip id, and of five strings a segment."""
    return 6 + 10 * segments


def _no_key_twice(data: bytes, segments: int) -> bool:
    """Whether no key that is read can be there twice in a line that decoded, so has each at least once."""
    escaped = b"\\" in data
    if not escaped and data.count(b'"') == _least_quotes(segments):
        return True
    return (
        all(data.count(key) == 1 for key in _ROW_KEYS)
        and all(data.count(key) == segments for key in _SEGMENT_KEYS)
        and not (escaped and _ESCAPED_KEY.search(data))
    )


def _times_of(segments: Any) -> list[Fault]:
    if not isinstance(segments, list):
        return []
    faults: list[Fault] = []
    for index, segment in enumerate(segments):
        times = [segment.get(name) for name in ("start_s", "end_s")] if isinstance(segment, dict) else []
        numbers = [float(t) for t in times if isinstance(t, int | float) and _is_time(t)]
        if len(numbers) == 2:
            faults += time_faults(index, numbers[0], numbers[1])
    return faults


def _is_time(value: float) -> bool:
    return not isinstance(value, bool) and math.isfinite(value)


def _extras(value: Object, kind: type[msgspec.Struct], faults: list[Fault]) -> dict[str, Any]:
    """The fields of a labels row that its type does not name; their faults are appended."""
    if kind is not LabelsRow:
        return {}
    extras: dict[str, Any] = {}
    for name, item in value.items():
        if name in kind.__struct_fields__:
            continue
        field = encodable(name)
        if name in value.repeated:
            faults.append(Fault("duplicate-key", field, "is given more than once"))
        try:
            text = json.dumps(item, allow_nan=False, ensure_ascii=False)
            (name + text).encode()
        except UnicodeEncodeError:
            faults.append(Fault("encoding", field, "holds half a surrogate pair (\\ud800 to \\udfff)"))
        except ValueError:
            faults.append(Fault("non-finite", field, "holds a number that is not finite"))
        else:
            extras[name] = text if isinstance(item, dict | list) else item
    return extras
