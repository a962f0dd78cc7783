"""What prediction files and sets are called: set aliases, the set of a file, the run's name and its configuration."""

from __future__ import annotations

import csv
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

import msgspec

from mabpl.benchmarks.micro_annotation.rows import MapRow
from mabpl.errors import UsageError, unknown_name, unreadable
from mabpl.reading.lines import Lines
from mabpl.reading.names import expand_files, set_aliases

_NOT_TIMELINES = ("labels.jsonl", "manifest.jsonl")


def resolve_set(name: str, sets: Iterable[str]) -> str:
    """The set that ``name`` (a set or an alias) means; raises :class:`UsageError` for an unknown one."""
    sets = sorted(sets)
    if name in sets:
        return name
    aliases = set_aliases(sets)
    if name in aliases:
        return aliases[name]
    raise unknown_name("set", name, [*sets, *aliases])


def infer_set(file: str, clip_ids: AbstractSet[str], sets: Mapping[str, AbstractSet[str]]) -> str:
    """The one of ``sets`` (name → clip ids) whose labels hold ``clip_ids``; raises :class:`UsageError` otherwise."""
    found = [name for name, known in sets.items() if not known.isdisjoint(clip_ids)]
    if len(found) == 1:
        return found[0]
    if found:
        examples = "; ".join(f"{name}: {min(sets[name] & clip_ids)!r}" for name in found)
        raise UsageError(f"{file}: its clips are of more than one set ({examples})", "write one file a set")
    examples = ", ".join(f"{name}: {min(known, default='none')!r}" for name, known in sets.items())
    raise UsageError(
        f"{file}: no set holds its clips, such as {min(clip_ids)!r}", f"the labels hold ids such as {examples}"
    )


def expand_predictions(arguments: Iterable[str | os.PathLike[str]]) -> list[str]:
    """The prediction files that ``arguments`` name: files, folders (with their subfolders), globs, ``-``.

    Sorted, each file once. Left out of folders and globs: hidden files, labels, manifests and `*.usage.jsonl`.
    Raises :class:`InputError` for a folder or glob without one; a missing file is told of when it is read.
    """
    return expand_files(arguments, (".jsonl", ".jsonl.gz"), _may_be_predictions, "prediction file")


def _may_be_predictions(name: str) -> bool:
    plain = name.removesuffix(".gz")
    return not (plain in _NOT_TIMELINES or plain.endswith(".usage.jsonl"))


def read_map(path: str | os.PathLike[str]) -> dict[str, tuple[str | None, str | None]]:
    """Configuration → (model, setting), from CSV with a header or JSON lines; raises :class:`InputError`."""
    lines = [line.data.removeprefix(b"\xef\xbb\xbf") for line in Lines(path)]
    numbered = [(n, data) for n, data in enumerate(lines, 1) if data.strip()]
    try:
        if numbered and numbered[0][1].lstrip().startswith(b"{"):
            rows = [msgspec.json.decode(data, type=MapRow) for _, data in numbered]
        else:
            table = csv.DictReader(data.decode() for _, data in numbered)
            if "configuration" not in (table.fieldnames or ()):
                raise csv.Error("no column configuration")
            rows = [msgspec.convert({k: v or None for k, v in row.items() if k}, MapRow) for row in table]
    except (msgspec.DecodeError, UnicodeDecodeError, csv.Error) as error:
        raise unreadable(
            path, f"is no map of configurations ({error})", "columns: configuration, model, setting; CSV or JSON lines"
        ) from None
    repeated = [name for name, count in Counter(row.configuration for row in rows).items() if count > 1]
    if repeated:
        raise unreadable(path, f"configuration {repeated[0]!r} is there more than once", "keep one row each")
    return {row.configuration: (row.model, row.setting) for row in rows}
