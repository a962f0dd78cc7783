"""What prediction files and sets are called: set aliases, the set of a file, the run's name and its configuration."""

from __future__ import annotations

import csv
import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path, PurePath
from typing import NamedTuple

import msgspec

from mabpl.benchmarks.micro_annotation.rows import MapRow
from mabpl.errors import UsageError, unknown_name, unreadable
from mabpl.reading.lines import Lines

STDIN = "-"
_ENDINGS = (".jsonl.gz", ".jsonl", ".json.gz", ".json")
_NOT_TIMELINES = ("labels.jsonl", "manifest.jsonl")


def set_aliases(sets: Iterable[str]) -> dict[str, str]:
    """Short names of ``sets``: a set's first and last word, where no other set has it.

    ``operator_disjoint_59`` is also ``operator`` and ``59``, ``session_disjoint_30`` also ``session`` and ``30``.
    """
    sets = sorted(set(sets))
    words = {name: set(name.split("_")) for name in sets}
    common = Counter(word for group in words.values() for word in group)
    short = {
        word: name
        for name in sets
        for word in (name.split("_")[0], name.split("_")[-1])
        if common[word] == 1 and word not in sets and word
    }
    return dict(sorted(short.items()))


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


def plain_name(path: str, sets: Iterable[str]) -> RunName:
    """The file's name less ending and set, as it is before :func:`name_runs` tells equal ones apart."""
    return _split_seed(_without_set(file_stem(path), {*sets, *set_aliases(sets)}))


def file_stem(path: str) -> str:
    """The file's name without its ending; ``stdin`` for standard input."""
    name = "stdin" if path == STDIN else PurePath(path).name
    ending = next((e for e in _ENDINGS if name.endswith(e) and name != e), "")
    return name.removesuffix(ending)


class RunName(NamedTuple):
    """``configuration`` is ``run`` less ``_seed<k>``; ``seed`` is k, None where the name has none."""

    run: str
    configuration: str
    seed: int | None


def name_runs(files: Sequence[tuple[str, str]], sets: Iterable[str]) -> list[RunName]:
    """The name of each of ``files`` (path, set): the file's name less ending and set.

    Where two files of one set would have the same name, every file of that configuration is called by its folder too
    (folders that are named after a set aside), and where that does not tell them apart, by its path.
    """
    endings = {*sets, *set_aliases(sets)}
    names = [_split_seed(_without_set(file_stem(path), endings)) for path, _ in files]
    groups: dict[str, list[int]] = defaultdict(list)
    for index, name in enumerate(names):
        groups[name.configuration].append(index)
    for members in groups.values():
        paths = [files[i][0] for i in members]
        depth = 0
        while len({(files[i][1], names[i].run) for i in members}) < len(members):
            depth += 1
            folders = [[p for p in PurePath(path).parts[:-1] if p not in endings] for path in paths]
            exhausted = depth > max(map(len, folders))
            for i, path, parts in zip(members, paths, folders, strict=True):
                own = path if exhausted else _without_set(file_stem(path), endings)
                names[i] = _split_seed(own if exhausted else "/".join([*parts[-depth:], own]))
            if exhausted:
                break
    return names


def _without_set(stem: str, endings: AbstractSet[str]) -> str:
    head, dot, tail = stem.rpartition(".")
    return head if dot and head and tail in endings else stem


def _split_seed(run: str) -> RunName:
    found = re.fullmatch(r"(.+)_seed(\d{1,18})", run, re.DOTALL)
    return RunName(run, found[1], int(found[2])) if found else RunName(run, run, None)


def expand_predictions(arguments: Iterable[str | os.PathLike[str]]) -> list[str]:
    """The prediction files that ``arguments`` name: files, folders (with their subfolders), globs, ``-``.

    Sorted, each file once. Left out of folders and globs: hidden files, labels, manifests and `*.usage.jsonl`.
    Raises :class:`InputError` for a folder or glob without one; a missing file is told of when it is read.
    """
    files: dict[str, str] = {}
    for argument in arguments:
        for name in _expand(os.fspath(argument)):
            files.setdefault(name if name == STDIN else os.path.realpath(name), name)
    return sorted(files.values())


def _expand(argument: str) -> list[str]:
    path = Path(argument)
    if argument == STDIN or "\0" in argument:
        return [argument]
    if path.is_dir():
        found = [p for ending in ("*.jsonl", "*.jsonl.gz") for p in path.rglob(ending)]
    elif not path.exists() and re.search(r"[*?\[]", argument):
        import glob

        found = [Path(p) for p in glob.glob(argument, recursive=True)]  # noqa: PTH207 - absolute patterns too
    else:
        return [argument]
    found = [p for p in found if p.is_file() and _may_be_predictions(p.name)]
    if not found:
        raise unreadable(argument, "no prediction file is there", "expected files that end in .jsonl or .jsonl.gz")
    return [str(p) for p in found]


def _may_be_predictions(name: str) -> bool:
    plain = name.removesuffix(".gz")
    return not (plain in _NOT_TIMELINES or plain.endswith(".usage.jsonl") or name.startswith("."))


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
