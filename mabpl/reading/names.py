"""What input files are called: the files that arguments name, and the names of runs."""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path, PurePath
from typing import NamedTuple

from mabpl.errors import unreadable

STDIN = "-"
_ENDINGS = (".jsonl.gz", ".jsonl", ".json.gz", ".json")


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


def expand_files(
    arguments: Iterable[str | os.PathLike[str]], endings: Sequence[str], may_be: Callable[[str], bool], what: str
) -> list[str]:
    """The files that ``arguments`` name: files, folders (with their subfolders), globs, ``-``. Sorted, each once.

    From folders come those with one of ``endings``; from folders and globs, those whose name ``may_be`` one of
    ``what`` (in the singular). Raises :class:`InputError` for a folder or glob without one; a missing file is told of
    when it is read.
    """
    files: dict[str, str] = {}
    for argument in arguments:
        for name in _expand(os.fspath(argument), endings, may_be, what):
            files.setdefault(name if name == STDIN else os.path.realpath(name), name)
    return sorted(files.values())


def _expand(argument: str, endings: Sequence[str], may_be: Callable[[str], bool], what: str) -> list[str]:
    path = Path(argument)
    if argument == STDIN or "\0" in argument:
        return [argument]
    if path.is_dir():
        found = [p for ending in endings for p in path.rglob(f"*{ending}")]
    elif not path.exists() and re.search(r"[*?\[]", argument):
        import glob

        found = [Path(p) for p in glob.glob(argument, recursive=True)]  # noqa: PTH207 - absolute patterns too
    else:
        return [argument]
    found = [p for p in found if p.is_file() and may_be(p.name) and not p.name.startswith(".")]
    if not found:
        raise unreadable(argument, f"no {what} is there", f"expected files that end in {' or '.join(endings)}")
    return [str(p) for p in found]
