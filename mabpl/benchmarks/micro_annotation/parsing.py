"""One line of a file as a typed row, or as the list of everything that is wrong with it.

The short way is msgspec's typed decoder. A line that it refuses, or in which a key may be given twice (which it does
not see), is read again as plain JSON and held against the row's type, field by field.
"""

from __future__ import annotations

import json
import math
import re
import reprlib
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
from msgspec import inspect

from mabpl.benchmarks.micro_annotation.rows import LabelsRow, PredictionRow

LIMIT_US = 2**51
"""Greatest absolute time in microseconds (about 71 years): sums and products of two stay exact."""

R = TypeVar("R", PredictionRow, LabelsRow)


class Fault(NamedTuple):
    """A broken ``rule`` at ``field`` (a path such as segments[3].end_s) of a line."""

    rule: str
    field: str | None
    message: str
    hint: str = ""


class Parsed(NamedTuple, Generic[R]):
    """``row`` is None where ``faults`` is not empty; ``extras``: the further fields of the row, nested ones as JSON
    text (by the thorough way only); ``clip_id``: as far as it can be told."""

    row: R | None
    clip_id: str | None
    faults: list[Fault]
    extras: dict[str, Any]


class RowReader(Generic[R]):
    """Reads lines as rows of ``kind``. ``thorough``: always the long way, which alone gives the further fields."""

    def __init__(self, kind: type[R], *, thorough: bool) -> None:
        self._kind: type[R] = kind
        self._decoder: msgspec.json.Decoder[R] | None = None if thorough else msgspec.json.Decoder(kind)
        self._type = inspect.type_info(kind)

    def read(self, data: bytes) -> Parsed[R]:
        if self._decoder is not None:
            try:
                row = self._decoder.decode(data)
            except (msgspec.DecodeError, RecursionError):
                return self._read_thoroughly(data)
            if _no_key_twice(data, len(row.segments)) and (data.isascii() or _is_utf8(data)):
                return Parsed(row, row.clip_id, [], {})
        return self._read_thoroughly(data)

    def _read_thoroughly(self, data: bytes) -> Parsed[R]:
        try:
            value = json.loads(data.decode(), object_pairs_hook=_Object, parse_constant=float, parse_int=_integer)
        except UnicodeDecodeError as error:
            return self._broken(data, Fault("encoding", None, f"byte {error.start + 1} of the line is not UTF-8"))
        except RecursionError:
            return self._broken(data, Fault("invalid-json", None, "is nested too deeply"))
        except json.JSONDecodeError as error:
            return self._broken(data, Fault("invalid-json", None, f"{error.msg} at character {error.pos + 1}"))
        faults: list[Fault] = []
        _check(value, self._type, "", faults)
        if not isinstance(value, _Object):
            return Parsed(None, None, faults, {})
        clip_id = value.get("clip_id")
        faults += _times_of(value.get("segments"))
        extras = _extras(value, self._kind, faults)
        row = None if faults else msgspec.convert(value, self._kind, strict=False)
        return Parsed(row, encodable(clip_id) if isinstance(clip_id, str) and clip_id else None, faults, extras)

    def _broken(self, data: bytes, fault: Fault) -> Parsed[R]:
        return Parsed(None, clip_id_in(data), [fault], {})


class _Object(dict[str, Any]):
    """A JSON object that remembers which keys were given more than once."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.repeated: list[str] = []
        if len(self) < len(pairs):
            seen: set[str] = set()
            self.repeated = list(dict.fromkeys(k for k, _ in pairs if k in seen or seen.add(k)))  # type: ignore[func-returns-value]


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


def encodable(text: str) -> str:
    """``text`` with what UTF-8 cannot hold (half a surrogate pair) written as an escape."""
    return text.encode("utf-8", "backslashreplace").decode()


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) <= 300 else float(digits)


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


_ROW_KEYS = tuple(f'"{name}"'.encode() for name in PredictionRow.__struct_fields__)
_SEGMENT_KEYS = tuple(f'"{name}"'.encode() for name in ("start_s", "end_s", "label", "is_idle"))
_ESCAPED_KEY = re.compile(rb'\\[^"\\]*"\s*:')


def _no_key_twice(data: bytes, segments: int) -> bool:
    """Whether no key that is read can be there twice in a line that decoded, so has each at least once.

    Without escapes and further fields, a line has 6 quotes (two keys and the clip id) and 10 a segment.
    """
    escaped = b"\\" in data
    if not escaped and data.count(b'"') == 10 * segments + 6:
        return True
    return (
        all(data.count(key) == 1 for key in _ROW_KEYS)
        and all(data.count(key) == segments for key in _SEGMENT_KEYS)
        and not (escaped and _ESCAPED_KEY.search(data))
    )


_NAMES: dict[type[inspect.Type], str] = {
    inspect.StructType: "an object",
    inspect.ListType: "a list",
    inspect.StrType: "a string",
    inspect.FloatType: "a number",
    inspect.IntType: "a whole number",
    inspect.BoolType: "true or false",
}


def _check(value: Any, kind: inspect.Type, path: str, faults: list[Fault]) -> None:
    """Holds ``value`` against ``kind`` and appends every fault."""
    if isinstance(kind, inspect.Metadata):
        return _check(value, kind.type, path, faults)
    if isinstance(kind, inspect.UnionType):
        return None if value is None else _check(value, kind.types[0], path, faults)
    if isinstance(kind, inspect.LiteralType):
        if value not in kind.values:
            faults.append(
                Fault("hands-value", path, f"is {_shown(value)}, expected {', '.join(map(str, kind.values))} or null")
            )
    elif isinstance(kind, inspect.StructType) and isinstance(value, _Object):
        _check_object(value, kind, path, faults)
    elif isinstance(kind, inspect.ListType) and isinstance(value, list):
        for index, item in enumerate(value):
            _check(item, kind.item_type, f"{path}[{index}]", faults)
    elif isinstance(kind, inspect.StrType) and isinstance(value, str):
        _check_string(value, kind, path, faults)
    elif isinstance(kind, inspect.FloatType | inspect.IntType) and type(value) in (int, float):
        _check_number(value, kind, path, faults)
    elif not (isinstance(kind, inspect.BoolType) and isinstance(value, bool)):
        expected = _NAMES[type(kind)]
        faults.append(
            Fault("wrong-type", path or None, f"is {_shown(value)}, expected {expected}", _advice(value, kind))
        )
    return None


def _check_object(value: _Object, kind: inspect.StructType, path: str, faults: list[Fault]) -> None:
    prefix = f"{path}." if path else ""
    for field in kind.fields:
        name = field.encode_name
        if name in value.repeated:
            faults.append(Fault("duplicate-key", prefix + name, "is given more than once"))
        if name in value:
            _check(value[name], field.type, prefix + name, faults)
        elif field.required:
            faults.append(Fault("missing-field", prefix + name, "is missing"))


def _check_string(value: str, kind: inspect.StrType, path: str, faults: list[Fault]) -> None:
    if len(value) < (kind.min_length or 0):
        faults.append(Fault("wrong-type", path, "is empty, expected a non-empty string"))
    if encodable(value) != value:
        faults.append(Fault("encoding", path, "holds half a surrogate pair (\\ud800 to \\udfff)"))


def _check_number(value: float, kind: inspect.FloatType | inspect.IntType, path: str, faults: list[Fault]) -> None:
    if not math.isfinite(value):
        faults.append(Fault("non-finite", path, f"is {value}, expected a finite number"))
    elif isinstance(kind, inspect.IntType) and (value != int(value) or abs(value) > 2**53):
        faults.append(Fault("wrong-type", path, f"is {_shown(value)}, expected a whole number"))
    elif (kind.gt is not None and value <= kind.gt) or (kind.ge is not None and value < kind.ge):
        bound = f"above {kind.gt:g}" if kind.gt is not None else f"of {kind.ge} or more"
        faults.append(Fault("wrong-type", path, f"is {_shown(value)}, expected a number {bound}"))


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


def _extras(value: _Object, kind: type[msgspec.Struct], faults: list[Fault]) -> dict[str, Any]:
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


def _shown(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    return reprlib.repr(value)


def _advice(value: Any, kind: inspect.Type) -> str:
    if not isinstance(kind, inspect.FloatType) or not isinstance(value, str):
        return ""
    if re.fullmatch(r"\s*(\d+:){1,2}\d+([.,]\d+)?\s*", value):
        return "write seconds; mabpl validate --fix converts mm:ss and hh:mm:ss"
    return "write the number without quotes" if re.fullmatch(r"\s*-?\d+(\.\d*)?\s*", value) else ""
