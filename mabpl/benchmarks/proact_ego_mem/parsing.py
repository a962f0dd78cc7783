"""A released file as a typed document, or as much of it as is sound, with every fault and its JSON path."""

from __future__ import annotations

import gc
from typing import Any, NamedTuple

import msgspec

from mabpl.benchmarks.proact_ego_mem.rows import SCHEMA_VERSION, QaItem, Released
from mabpl.reading.json_values import Fault, Object, Reader, encodable, keys_of

_INSIDE = {"videos": "samples", "clips": "qa_items"}
_PLACEHOLDERS: dict[str, Any] = {"schema_version": SCHEMA_VERSION, "kind": "", "rev": 0}
_SHAPE = {"schema_version", "videos", "clips"}

_READER = Reader(Released)


class Parsed(NamedTuple):
    """``doc``: None where nothing can be made of the file. ``damaged``: ids of what was left out of it for faults.

    ``orphans``: clip → the sound questions of a clip that was left out. ``foreign``: the JSON is of another shape.
    """

    doc: Released | None
    faults: list[tuple[str | None, Fault]]
    damaged: frozenset[str]
    orphans: dict[str, dict[str, QaItem]]
    foreign: bool


def parse(data: bytes) -> Parsed:
    """``data`` as a document. Python's collector rests: a JSON tree has no cycles, but many objects."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        return _parsed(data)
    finally:
        if collecting:
            gc.enable()


def _parsed(data: bytes) -> Parsed:
    read = _READER.read(data)
    if read.value is not None:
        return Parsed(read.value, [], frozenset(), {}, False)
    foreign = read.raw is not None and not (isinstance(read.raw, Object) and read.raw.keys() & _SHAPE)
    faults = [(_clip_of(fault), fault) for fault in read.faults]
    if foreign or not isinstance(read.raw, Object):
        return Parsed(None, faults, frozenset(), {}, foreign)
    try:
        damaged, orphans = _salvage(read.raw, read.faults)
        doc = msgspec.convert(read.raw, Released, strict=False)
    except (msgspec.ValidationError, KeyError):  # of the whole file, or of a key that no path can name
        return Parsed(None, faults, frozenset(), {}, False)
    return Parsed(doc, faults, damaged, orphans, False)


def _salvage(raw: Object, faults: list[Fault]) -> tuple[frozenset[str], dict[str, dict[str, QaItem]]]:
    """Takes every sample, question, video and clip that has a fault out of ``raw``, and unknown keys.

    Gives their ids, and the sound questions of clips that were taken out.
    """
    owners: set[tuple[str, str]] = set()
    entries: set[tuple[str, str, str]] = set()
    for fault in faults:
        outer, owner, inner, entry = (*keys_of(fault.field or ""), None, None, None, None)[:4]
        if outer not in _INSIDE:
            _mend_head(raw, str(outer), fault.rule)
        elif inner == _INSIDE[str(outer)] and entry is not None:
            entries.add((str(outer), str(owner), str(entry)))
        elif owner is not None:
            owners.add((str(outer), str(owner)))
    damaged: set[str] = set()
    for outer, owner, entry in entries:
        inside = _object(_object(raw.get(outer)).get(owner)).get(_INSIDE[outer])
        _object(inside).pop(entry)
        damaged.add(entry)
    orphans: dict[str, dict[str, QaItem]] = {}
    for outer, owner in sorted(owners):
        inside = _object(_object(_object(raw.get(outer)).pop(owner)).get(_INSIDE[outer]))
        damaged |= {owner, *inside}
        if outer == "clips":
            orphans[owner] = {key: msgspec.convert(qa, QaItem, strict=False) for key, qa in inside.items()}
    return frozenset(damaged), orphans


def _mend_head(raw: Object, name: str, rule: str) -> None:
    """So that a fault of the file's head does not hide those of its body."""
    if rule == "unknown-key":
        raw.pop(name, None)
    elif name == "ground_truth_released":
        raw[name] = raw.get("split") == "dev"
    elif name in _PLACEHOLDERS and rule != "duplicate-key":
        raw[name] = _PLACEHOLDERS[name]


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _clip_of(fault: Fault) -> str | None:
    """The clip that a fault's path names."""
    outer, clip, *_ = (*keys_of(fault.field or ""), None, None)
    return encodable(str(clip)) if outer == "clips" and clip is not None else None
