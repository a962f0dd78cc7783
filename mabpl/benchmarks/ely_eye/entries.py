"""JSON-lines files as rows with their line, and everything that is wrong with a line by itself."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from mabpl.benchmarks.ely_eye.rows import MODALITIES, AtomRow, ManifestRow, QueryRow, RunRow, SourceRow, given
from mabpl.benchmarks.ely_eye.rules import RULES, problem
from mabpl.benchmarks.ely_eye.values import answer_faults, parse_time, region_faults
from mabpl.reading.json_values import Fault, Object, Read, Reader, at_key, check, encodable
from mabpl.reading.lines import LONGEST_LINE, Line, Lines
from mabpl.reading.opening import BYTE_ORDER_MARK
from mabpl.reading.problems import Problem

R = TypeVar("R", QueryRow, SourceRow, ManifestRow, AtomRow, RunRow)

ALIASES: dict[str, tuple[str, ...]] = {
    "source_id": ("id", "source"),
    "holder": ("owner",),
    "observed_at": ("timestamp", "created_at"),
    "pages": ("page_count", "num_pages"),
    "duration_s": ("duration",),
    "lines": ("line_count", "num_lines"),
    "turns": ("turn_count", "num_turns"),
}
"""Other names that a field of a corpus index may go by, where its own is not there. ``holder`` and ``observed_at`` may
stand in ``scope`` too."""


@dataclass
class Entries(Generic[R]):
    """What a file holds: rows with their lines, and whether they are ``sound`` (nothing of the line is in error).

    ``file``: below the benchmark's folder; ``sha256``: hex, of its bytes.
    """

    file: str
    sha256: str = ""
    lines: list[int] = field(default_factory=list)
    rows: list[R] = field(default_factory=list)
    sound: list[bool] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def __iter__(self) -> Iterator[tuple[int, R, bool]]:
        return zip(self.lines, self.rows, self.sound, strict=True)

    def add(self, first: int, rows: list[R], sound: bool) -> None:
        """Rows of lines that follow each other from ``first``."""
        self.lines += range(first, first + len(rows))
        self.rows += rows
        self.sound += [sound] * len(rows)


class Further(NamedTuple, Generic[R]):
    """What a row's type does not tell: the ``faults`` of its JSON value. ``none``: true only of rows without any."""

    faults: Callable[[Any], list[Fault]]
    none: Callable[[R], bool]


_NOTHING: Further[Any] = Further(lambda value: [], lambda row: True)


@functools.cache
def _reader(kind: type[R]) -> Reader[R]:
    return Reader(kind)


def read_queries(path: Path, file: str) -> Entries[QueryRow]:
    return _read(path, file, _reader(QueryRow), "query_id", Further(_query_faults, lambda row: False))


def read_manifest(path: Path, file: str) -> Entries[ManifestRow]:
    return _read(path, file, _reader(ManifestRow), "url", _NOTHING)


def read_atoms(path: Path, file: str) -> Entries[AtomRow]:
    return _read(path, file, _reader(AtomRow), "atom_id", _NOTHING)


def read_run(path: Path, file: str) -> Entries[RunRow]:
    return _read(path, file, _reader(RunRow), "query_id", _NOTHING)


def read_sources(path: Path, file: str) -> Entries[SourceRow]:
    return _read(path, file, _source_reader(), "source_id", Further(_source_faults, _is_sound_source))


_OPTIONAL = {f.encode_name for f in msgspec.structs.fields(SourceRow) if not f.required}
_OTHERWISE = re.compile(
    rb'"(?:scope|%s)"\s*:|\\u00[0-7]'
    % "|".join(n for f in sorted(_OPTIONAL & ALIASES.keys()) for n in ALIASES[f]).encode()
)
"""Where a field that need not be there may go by another name; a key may be written in escapes."""


class _SourceReader(Reader[SourceRow]):
    """Takes the other names of fields, and says which keys were found where one is missing."""

    def read_many(self, lines: list[bytes], *, further_keys: bool = False) -> list[SourceRow] | None:
        own = not any(map(_OTHERWISE.search, lines))
        return super().read_many(lines, further_keys=own)

    def read(self, data: bytes) -> Read[SourceRow]:
        read = super().read(data)
        if not isinstance(read.raw, Object):
            return read
        raw = _renamed(read.raw)
        if raw is read.raw and not read.faults:
            return read
        faults: list[Fault] = []
        check(raw, self._type, "", faults)
        found = ", ".join(sorted(map(encodable, read.raw))) or "none"
        faults = [
            fault._replace(message=f"is missing; the keys are {found}") if fault.rule == "missing-field" else fault
            for fault in faults
        ]
        return Read(None if faults else msgspec.convert(raw, SourceRow, strict=False), raw, faults)


@functools.cache
def _source_reader() -> _SourceReader:
    return _SourceReader(SourceRow)


def _renamed(raw: Object) -> Object:
    pairs = dict(raw)
    scope = raw.get("scope")
    for name in ("holder", "observed_at"):
        if name not in pairs and isinstance(scope, dict) and name in scope:
            pairs[name] = scope[name]
    for name, others in ALIASES.items():
        other = next((o for o in others if o in pairs), None)
        if name not in pairs and other is not None:
            pairs[name] = pairs.pop(other)
    if pairs.keys() == raw.keys():
        return raw
    renamed = Object(list(pairs.items()))
    renamed.repeated = raw.repeated
    return renamed


def _read(path: Path, file: str, reader: Reader[R], name: str, further: Further[R]) -> Entries[R]:
    lines = Lines(path)
    entries: Entries[R] = Entries(file)
    for block in lines.blocks():
        rows = None if block.cut else reader.read_many(block.lines, further_keys=further is _NOTHING)
        if rows is not None and all(map(further.none, rows)):
            entries.add(block.number, rows, True)
            continue
        for number, data in enumerate(block.lines, block.number):
            _read_line(Line(number, data, block.cut, block.ended), entries, reader, name, further)
    entries.sha256 = lines.sha256
    if not entries.rows and not entries.problems:
        entries.problems.append(problem("no-row", file, None, "holds no row"))
    return entries


def _read_line(line: Line, entries: Entries[R], reader: Reader[R], name: str, further: Further[R]) -> None:
    problems, file, data = entries.problems, entries.file, line.data
    if data.startswith(BYTE_ORDER_MARK):
        problems.append(problem("byte-order-mark", file, line.number, "starts with a byte order mark"))
        data = data.removeprefix(BYTE_ORDER_MARK)
    if line.cut:
        problems.append(problem("line-too-long", file, line.number, f"is longer than {LONGEST_LINE // 2**20} MiB"))
        return
    if not data.strip():
        problems.append(problem("blank-line", file, line.number, "is blank"))
        return
    read: Read[R] = reader.read(data)
    if read.value is not None and further.none(read.value):
        entries.add(line.number, [read.value], True)
        return
    value: Any = read.raw if read.value is None or read.raw is not None else msgspec.to_builtins(read.value)
    faults = [*read.faults, *(further.faults(value) if isinstance(value, dict) else [])]
    of = value.get(name) if isinstance(value, dict) else None
    of = encodable(of) if isinstance(of, str) and of else None
    for fault in faults:
        cut_off = fault.rule == "invalid-json" and not line.ended
        hint = "the file ends inside this line: it was cut off" if cut_off else fault.hint
        problems.append(problem(fault.rule, file, line.number, fault.message, of=of, field=fault.field, hint=hint))
    if read.value is not None:
        entries.add(line.number, [read.value], not any(_is_error(fault) for fault in faults))


def _is_error(fault: Fault) -> bool:
    return RULES[fault.rule].severity == "error"


def _time_faults(value: Any, path: str) -> list[Fault]:
    time = parse_time(value) if isinstance(value, str) else None
    return [time._replace(field=path)] if isinstance(time, Fault) else []


_QUERY_FIELDS = {field.encode_name for field in msgspec.structs.fields(QueryRow)}
_PARTS = {"scope": {"holder", "session", "scenario", "as_of"}, "origin": {"dataset", "revision", "item", "license"}}


def _query_faults(value: Mapping[str, Any]) -> list[Fault]:
    faults = _unknown(value, _QUERY_FIELDS, "")
    for name, fields in _PARTS.items():
        part = value.get(name)
        faults += _unknown(part, fields, name) if isinstance(part, dict) else []
    faults += _as_of_faults(value)
    answer_format, unanswerable = value.get("answer_format"), value.get("unanswerable")
    known_format = answer_format in ("str", "int", "float", "list", "none") if isinstance(answer_format, str) else False
    if "answer" in value and known_format and isinstance(unanswerable, bool):
        faults += answer_faults(value["answer"], str(answer_format), unanswerable)
    return faults + _gold_faults(value, unanswerable)


def _as_of_faults(value: Mapping[str, Any]) -> list[Fault]:
    scope = value.get("scope")
    inside = isinstance(scope, dict) and "as_of" in scope
    if "as_of" in value and inside:
        return [Fault("as-of-twice", "scope.as_of", "is given beside scope too")]
    if inside:
        return _time_faults(scope["as_of"], "scope.as_of") if isinstance(scope, dict) else []
    if "as_of" not in value:
        return [Fault("missing-field", "as_of", "is missing", "give the time of the query, or null")]
    return _time_faults(value["as_of"], "as_of")


def _gold_faults(value: Mapping[str, Any], unanswerable: Any) -> list[Fault]:
    gold, modality = value.get("gold"), value.get("modality")
    if not isinstance(gold, list):
        return []
    faults = []
    if unanswerable is True and gold:
        faults.append(Fault("gold-on-unanswerable", "gold", f"has {len(gold)} entries, expected none"))
    if unanswerable is False and not gold:
        faults.append(Fault("missing-gold", "gold", "is empty, expected a source and region"))
    earlier: list[Any] = []
    for index, entry in enumerate(gold):
        path = f"gold[{index}]"
        if not isinstance(entry, dict):
            continue
        faults += [
            Fault("gold-atom-id", at_key(path, key), "names an atom, expected a source and a region of it")
            for key in entry
            if "atom" in key.lower()
        ]
        faults += _unknown({k: v for k, v in entry.items() if "atom" not in k.lower()}, {"source_id", "region"}, path)
        region = entry.get("region")
        if isinstance(region, dict) and modality in MODALITIES:
            faults += region_faults(modality, region, f"{path}.region")
        if entry in earlier:
            faults.append(Fault("duplicate-gold", path, f"is gold[{earlier.index(entry)}] again"))
        earlier.append(entry)
    return faults


def _unknown(value: Mapping[str, Any], known: set[str], path: str) -> list[Fault]:
    names = sorted(encodable(key) for key in value if key not in known)
    return [Fault("unknown-field", at_key(path, key), "is no field of the format") for key in names]


def _source_faults(value: Mapping[str, Any]) -> list[Fault]:
    faults = _time_faults(value.get("observed_at"), "observed_at")
    symbols = value.get("symbols")
    for index, entry in enumerate(symbols if isinstance(symbols, list) else []):
        spot: list[Any] = [entry.get(n) for n in ("line_start", "line_end")] if isinstance(entry, dict) else []
        if len(spot) == 2 and all(type(v) in (int, float) for v in spot) and spot[1] < spot[0]:
            message = f"is {spot[1]}, expected line_start = {spot[0]} or more"
            faults.append(Fault("region-value", f"symbols[{index}].line_end", message))
    return faults


def _is_sound_source(row: SourceRow) -> bool:
    time = given(row.observed_at)
    spans = given(row.symbols) or ()
    return (time is None or not isinstance(parse_time(time), Fault)) and all(
        symbol.line_start <= symbol.line_end for symbol in spans
    )
