"""A released file as a typed document, or as much of it as is sound, with every fault and its JSON path."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

import msgspec
from msgspec import inspect

from mabpl.benchmarks.proact_ego_mem.rows import SCHEMA_VERSION, Clip, QaItem, Released, Sample, Video
from mabpl.reading.json_values import Fault, Object, Reader, check, encodable

_SAMPLE, _QUESTION, _VIDEO, _CLIP = map(inspect.type_info, (Sample, QaItem, Video, Clip))
_PLACEHOLDERS: dict[str, Any] = {"schema_version": SCHEMA_VERSION, "kind": "", "rev": 0}
_OF_CLIP = re.compile(r'clips(?:\.([\w-]+)|\[("(?:[^"\\]|\\.)*")\])')
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
    read = _READER.read(data)
    if read.value is not None:
        return Parsed(read.value, [], frozenset(), {}, False)
    foreign = read.raw is not None and not (isinstance(read.raw, Object) and read.raw.keys() & _SHAPE)
    faults = [(_clip_of(fault), fault) for fault in read.faults]
    if foreign or not isinstance(read.raw, Object):
        return Parsed(None, faults, frozenset(), {}, foreign)
    damaged, orphans = _salvage(read.raw)
    left: list[Fault] = []
    check(read.raw, inspect.type_info(Released), "", left)
    return Parsed(None if left else msgspec.convert(read.raw, Released, strict=False), faults, damaged, orphans, False)


def _salvage(raw: Object) -> tuple[frozenset[str], dict[str, dict[str, QaItem]]]:
    """Takes every faulty sample, question, video and clip out of ``raw``, and unknown keys.

    Gives their ids, and the sound questions of clips that were taken out.
    """
    raw.repeated = []
    for name in raw.keys() - set(Released.__struct_fields__):
        del raw[name]
    for name, value in _PLACEHOLDERS.items():
        if type(raw.get(name)) is not type(value):
            raw[name] = value
    if not isinstance(raw.get("ground_truth_released"), bool):
        raw["ground_truth_released"] = raw.get("split") == "dev"
    damaged: set[str] = set()
    orphans: dict[str, dict[str, QaItem]] = {}
    for outer, inner, inner_type, outer_type in (
        ("videos", "samples", _SAMPLE, _VIDEO),
        ("clips", "qa_items", _QUESTION, _CLIP),
    ):
        owners = raw.get(outer)
        if not isinstance(owners, Object):
            continue
        for owner in owners.values():
            if isinstance(owner, Object) and isinstance(owner.get(inner), Object):
                damaged |= _take_out(owner[inner], inner_type).keys()
        for key, taken in _take_out(owners, outer_type).items():
            inside = taken.get(inner) if isinstance(taken, Object) else None
            entries = inside if isinstance(inside, Object) else {}
            damaged |= {key, *entries}
            if outer == "clips":
                orphans[key] = {name: msgspec.convert(entry, QaItem) for name, entry in entries.items()}
    return frozenset(damaged), orphans


def _take_out(entries: Object, kind: inspect.Type) -> Object:
    """The faulty ones of ``entries``, which lose them."""
    out = Object([])
    for key, value in list(entries.items()):
        faults: list[Fault] = []
        check(value, kind, "", faults)
        if faults or not key or key in entries.repeated:
            out[key] = entries.pop(key)
    entries.repeated = []
    return out


def _clip_of(fault: Fault) -> str | None:
    """The clip that a fault's path names."""
    found = _OF_CLIP.match(fault.field or "")
    if found is None:
        return None
    return found[1] if found[1] is not None else encodable(json.loads(found[2]))
