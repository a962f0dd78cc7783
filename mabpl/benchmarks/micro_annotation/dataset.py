"""A dataset folder as it is published: `data/<set>/labels.jsonl`, `manifest.jsonl`, `predictions/<set>/*.jsonl`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from mabpl.benchmarks.micro_annotation.frames import extra_column
from mabpl.benchmarks.micro_annotation.naming import expand_predictions, resolve_set
from mabpl.benchmarks.micro_annotation.reading import Labels, join_labels, read_labels
from mabpl.benchmarks.micro_annotation.rows import ManifestRow
from mabpl.errors import UsageError, unknown_name, unreadable
from mabpl.reading.lines import BYTE_ORDER_MARK, Lines
from mabpl.reading.names import set_aliases


@dataclass(frozen=True)
class Dataset:
    """The folder ``root`` and the labels file of each set."""

    root: Path
    label_files: dict[str, Path]

    @property
    def sets(self) -> list[str]:
        return list(self.label_files)

    @property
    def aliases(self) -> dict[str, str]:
        """Short name → set, e.g. 59 and operator → operator_disjoint_59."""
        return set_aliases(self.sets)

    def labels(self, sets: str | Iterable[str] | None = None) -> Labels:
        """The labels of ``sets`` (names or aliases; by default all) as one."""
        return join_labels([read_labels(self.label_files[name], set_name=name) for name in self._resolved(sets)])

    def manifest(self, set_name: str) -> pl.DataFrame:
        """The manifest of a set, one row a video (resolution, fps, frames, duration, MD5): its own keys as columns."""
        name = resolve_set(set_name, self.sets)
        found = _plain_or_gzip(self.label_files[name].parent, "manifest.jsonl")
        if found is None:
            raise unreadable(self.label_files[name].parent / "manifest.jsonl", "there is no such file")
        return _read_manifest(found)

    def predictions(self, sets: str | Iterable[str] | None = None) -> list[str]:
        """The prediction files of ``sets`` (by default all) that the dataset holds, sorted."""
        folders = [self.root / "predictions" / name for name in self._resolved(sets)]
        return expand_predictions(folder for folder in folders if folder.is_dir())

    def _resolved(self, sets: str | Iterable[str] | None) -> list[str]:
        names = [sets] if isinstance(sets, str) else self.sets if sets is None else list(sets)
        return sorted({resolve_set(name, self.sets) for name in names})


def open_benchmark(root: str | os.PathLike[str]) -> Dataset:
    """The dataset folder at ``root``; raises :class:`InputError` where there is no `data/<set>/labels.jsonl`."""
    folder = Path(root)
    if not folder.is_dir():
        raise unreadable(root, "there is no such folder", "give the dataset's folder as --root")
    files = {path.name: _plain_or_gzip(path, "labels.jsonl") for path in sorted(folder.glob("data/*"))}
    found = {name: path for name, path in files.items() if path is not None}
    if not found:
        raise unreadable(
            root,
            "holds no data/<set>/labels.jsonl",
            "give the dataset's folder as --root, or --labels FILE and --predictions FILE for any pair of files",
        )
    return Dataset(folder, found)


def select_clips(
    labels: Labels, *, limit: int | None = None, clips: Iterable[str] | None = None
) -> frozenset[str] | None:
    """The clips of a trial: ``clips`` by id, of these or of all the first ``limit`` of each set in code-point order.

    None where neither is given: all. Raises :class:`UsageError` for an unknown clip or a limit below 1.
    """
    if limit is None and clips is None:
        return None
    sets = labels.sets
    known = set[str]().union(*sets.values())
    chosen = known if clips is None else set(clips)
    for clip_id in sorted(chosen - known):
        raise unknown_name("clip", clip_id, sorted(known))
    if limit is not None and limit < 1:
        raise UsageError(f"limit = {limit} is not possible", "expected 1 or more clips")
    if not chosen:
        raise UsageError("no clip is chosen", f"known: {', '.join(sorted(known)[:20])}")
    return frozenset(clip_id for ids in sets.values() for clip_id in sorted(ids & chosen)[:limit])


def _plain_or_gzip(folder: Path, name: str) -> Path | None:
    return next((path for path in (folder / name, folder / f"{name}.gz") if path.is_file()), None)


def _read_manifest(path: Path) -> pl.DataFrame:
    rows: list[dict[str, Any]] = []
    for line in Lines(path):
        data = line.data.removeprefix(BYTE_ORDER_MARK)
        if not data.strip():
            continue
        try:
            row = json.loads(data)
            msgspec.convert(row, ManifestRow)
        except (ValueError, RecursionError, msgspec.ValidationError) as error:
            raise unreadable(
                path, f"line {line.number} is no manifest row ({error})", "mabpl schema manifest"
            ) from None
        rows.append({k: json.dumps(v) if isinstance(v, dict | list) else v for k, v in row.items()})
    names = dict.fromkeys(name for row in rows for name in row)
    return pl.DataFrame([extra_column([row.get(name) for row in rows]).alias(name) for name in names])
