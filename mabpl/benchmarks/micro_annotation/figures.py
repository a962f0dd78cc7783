"""Figures clip by clip from any file that holds them: our results, result folders, and published files.

The published `results/per_clip/<set>.json` is described, not specified. Every plausible arrangement is read: the clips
of a run under its name, runs under each clip, a list of rows, with or without a wrapper such as "per_clip" or "runs".
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl

from mabpl.benchmarks.micro_annotation.results import load_result, read_document
from mabpl.errors import UsageError, unknown_name, unreadable
from mabpl.metrics import METRICS
from mabpl.metrics.summary import COUNTS, clip_values

ALIASES: dict[str, tuple[str, ...]] = {
    "x": ("n_pred", "num_pred", "pred", "predicted", "pred_segments", "predicted_segments", "n_segments", "segments",
          "segments_per_clip"),
    "y": ("n_human", "num_human", "human", "human_segments", "human_segments_per_clip", "n_gt", "gt", "gt_segments",
          "reference", "reference_segments"),
    "assigned": ("pairs_assigned", "assigned_pairs"),
    "b": ("boundary_matches", "boundary_tp", "boundary_b"),
    "k": ("temporal_matches", "temporal_tp", "temporal_k"),
    "t": ("seg_matches", "seg_tp", "segmentation_matches", "seg_t", "matches", "tp"),
    "j": ("joint_matches", "joint_tp", "joint_j", "accepted"),
    "credit": ("c", "pa_credit"),
    "strict_credit": ("strict_c", "pa_strict_credit", "strict_pa_credit"),
    "pa_f1": ("pa", "label_f1", "pa_f1_mean"),
    "strict_pa_f1": ("strict", "strict_f1", "pa_strict_f1", "pa_f1_strict", "strict_pa"),
    "precision": ("p", "pa_precision"),
    "recall": ("r", "pa_recall"),
    "boundary_f1": ("boundary", "boundary_f1_20", "boundary_f1_20f"),
    "temporal_f1": ("temporal", "temporal_f1_0_5", "temporal_f1_50"),
    "seg_f1": ("seg", "segmentation_f1", "seg_f1_0_75", "seg_f1_75", "segmentation_f1_0_75"),
    "seg_precision": ("segmentation_precision",),
    "seg_recall": ("segmentation_recall",),
    "joint_f1": ("joint", "joint_semantic_f1", "joint_f1_0_75", "joint_f1_75", "joint_semantic_f1_0_75"),
    "joint_precision": ("joint_semantic_precision",),
    "joint_recall": ("joint_semantic_recall",),
}  # fmt: skip
"""Our name of each value, and other names under which files may have it (lower case, other characters as _)."""

_OURS = {alias: name for name, aliases in ALIASES.items() for alias in (name, *aliases)}
_WRAPPERS = ("per_clip", "runs", "clips", "rows", "results", "configurations", "models", "data")
_GROUPS = ("metrics", "scores", "values", "counts")
_CLIP_KEYS = ("clip_id", "clip")
_RUN_KEYS = ("run", "name", "configuration", "model")
_SEED_KEYS = ("generation_seed", "seed")
_DEEPEST = 6
_SHOWN = 12


@dataclass(frozen=True, slots=True)
class Figures:
    """One side of a comparison. ``clips``: clip_id and the values of :data:`ALIASES`, float64, null where unknown.

    ``half_units``: half a unit of the last decimal that the file prints of a value; none for what is not rounded.
    ``notes``: what had to be guessed.
    """

    name: str
    set: str
    clips: pl.DataFrame
    half_units: dict[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def half_unit(self, name: str) -> float:
        return self.half_units.get(name, 0.0)


def of_result(path: Path, *, run: str | None = None, set_name: str | None = None) -> Figures:
    """The figures of a score or joint JSON, or of one run and set of a result folder."""
    if path.is_dir():
        return _of_folder(path, run, set_name)
    document = read_document(path)
    per_clip = document.get("per_clip")
    if not isinstance(per_clip, dict) or not all(isinstance(row, dict) for row in per_clip.values()):
        raise unreadable(path, '"per_clip" is not an object of objects', "expected {clip_id: {x, y, ...}}")
    provenance = document.get("provenance")
    ours = isinstance(provenance, dict) and "mabpl" in provenance
    rows = _decoded(path)["per_clip"]
    name = str(document.get("run") or path.name.split(".")[0])
    figures = _figures(path, name, str(document.get("set") or ""), rows, rounded=not ours)
    values = clip_values(figures.clips)
    derived = figures.clips.with_columns(pl.coalesce(pl.col(name), values[name]).alias(name) for name in METRICS)
    return Figures(figures.name, figures.set, derived, figures.half_units, figures.notes)


def _of_folder(path: Path, run: str | None, set_name: str | None) -> Figures:
    scores = load_result(path)
    pairs = scores.runs.select("run", "set").sort("run", "set").rows()
    runs = sorted({r for r, _ in pairs})
    if run is not None and run not in runs:
        raise unknown_name("run", run, runs)
    chosen = [(r, s) for r, s in pairs if run in (None, r)]
    sets = sorted({s for _, s in chosen})
    if set_name is not None:
        from mabpl.benchmarks.micro_annotation.naming import resolve_set

        full = resolve_set(set_name, sets)
        chosen = [(r, s) for r, s in chosen if s == full]
    if len({r for r, _ in chosen}) > 1:
        raise UsageError(f"{path} holds more than one run", f"choose one with --run: {', '.join(runs[:_SHOWN])}")
    if len(chosen) != 1:
        raise UsageError(f"{path} holds more than one set", f"choose one with --set: {', '.join(sets)}")
    name, of_set = chosen[0]
    clips = scores.table("clip_scores").filter(run=name, set=of_set)
    return Figures(name, of_set, clips.select("clip_id", pl.col(*ALIASES).cast(pl.Float64)))


def of_published(path: Path, name: str, set_name: str) -> Figures:
    """The figures of run ``name`` in a file of published figures; the error tells which keys the file has."""
    document = _decoded(path)
    rows = _find(document, name, set_name, _DEEPEST)
    if rows is None:
        raise UsageError(f"{path}: no figures of {name!r} clip by clip", f"its keys: {_keys(document)}")
    return _figures(path, name, set_name, rows, rounded=True)


def published_file(root: Path, set_name: str, clip_ids: set[str]) -> Path:
    """`results/per_clip/<set>.json` of the dataset folder ``root``; without a known set, the one with these clips."""
    folder = root / "results" / "per_clip"
    found = sorted(folder.glob("*.json"))
    named = [path for path in found if path.stem == set_name]
    holding = named or [path for path in found if any(json.dumps(clip) in _text(path) for clip in clip_ids)]
    if not holding:
        raise unreadable(
            folder / f"{set_name or '<set>'}.json",
            "there is no such file" if not found else "no file there has these clips",
            "give the dataset folder as --root, or the file as --published-file",
        )
    return holding[0]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise unreadable(path, f"cannot be read ({getattr(error, 'strerror', None) or error})") from None


def _decoded(path: Path) -> Any:
    """The JSON of ``path``; its numbers with a point as they are printed (Decimal)."""
    try:
        return json.loads(_text(path), parse_float=Decimal, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise unreadable(path, f"is not JSON ({error})", "expected one JSON document") from None


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


Rows = dict[str, dict[str, Any]]


def _find(node: Any, name: str, set_name: str, depth: int) -> Rows | None:
    """Clip → row of run ``name``, wherever it is below ``node``."""
    if depth == 0:
        return None
    if isinstance(node, list):
        return _in_list(node, name, set_name, depth)
    if not isinstance(node, dict):
        return None
    if name in node:
        return _clips_of(node[name])
    if name in _names(node):
        found = _clips_of(node)
        if found:
            return found
    configuration, _, seed = name.rpartition("_seed")
    if configuration in node:
        inner = node[configuration]
        own = next((s for s in (f"seed{seed}", f"seed_{seed}", seed) if isinstance(inner, dict) and s in inner), name)
        return _find(inner, own, set_name, depth - 1)
    for key in (*_WRAPPERS, set_name):
        found = _find(node[key], name, set_name, depth - 1) if key in node else None
        if found:
            return found
    below = {clip: _clip_of(row, name) for clip, row in node.items()}
    return {clip: row for clip, row in below.items() if row is not None} or None


def _in_list(rows: list[Any], name: str, set_name: str, depth: int) -> Rows | None:
    objects = [row for row in rows if isinstance(row, dict)]
    mine = [row for row in objects if name in _names(row)]
    if mine and _clip_id(mine[0]) is None:
        return _clips_of(mine[0])
    if not mine and not any(_names(row) for row in objects):
        mine = objects
    found = _by_clip(mine)
    nested = {clip: _clip_of(row, name) for clip, row in found.items()}
    if any(row is not None for row in nested.values()):
        return {clip: row for clip, row in nested.items() if row is not None}
    return found or next((inner for row in objects if (inner := _find(row, name, set_name, depth - 1))), None)


def _clip_of(row: Any, name: str) -> dict[str, Any] | None:
    """The row of run ``name`` in what a file holds of one clip: under its name, or in a list."""
    for node in (row, *(row[key] for key in _WRAPPERS if key in row)) if isinstance(row, dict) else (row,):
        if isinstance(node, dict) and isinstance(node.get(name), dict):
            return node[name]  # type: ignore[no-any-return]
        if isinstance(node, list):
            mine = [item for item in node if isinstance(item, dict) and name in _names(item)]
            if mine:
                return mine[0]
    return None


def _clips_of(node: Any) -> Rows | None:
    """Clip → row in what a file holds of one run."""
    if isinstance(node, list):
        return _by_clip([row for row in node if isinstance(row, dict)]) or None
    if not isinstance(node, dict):
        return None
    for key in _WRAPPERS:
        found = _clips_of(node[key]) if key in node else None
        if found:
            return found
    return {clip: row for clip, row in node.items() if isinstance(row, dict) and any(_values(row))} or None


def _by_clip(rows: list[dict[str, Any]]) -> Rows:
    found: Rows = {}
    for row in rows:
        clip = _clip_id(row)
        if clip in found:
            raise UsageError(
                f"clip {clip!r} has two rows of figures of one run", "name the run with its seed: NAME_seed1"
            )
        if clip is not None:
            found[clip] = row
    return found


def _clip_id(row: dict[str, Any]) -> str | None:
    return next((row[key] for key in _CLIP_KEYS if isinstance(row.get(key), str)), None)


def _names(row: dict[str, Any]) -> set[str]:
    """The names under which the run of ``row`` goes, with its generation seed where it has one."""
    names = [row[key] for key in _RUN_KEYS if isinstance(row.get(key), str)]
    seeds = [f"_seed{row[key]}" for key in _SEED_KEYS if isinstance(row.get(key), int)]
    return {name if name.endswith(tuple(seeds)) else name + seed for name in names for seed in seeds or [""]}


def _values(row: dict[str, Any], group: str = "") -> Iterator[tuple[str, Any]]:
    """(our name, value) of each value of ``row`` that we know, also one level down: `{"seg": {"f1": ...}}`."""
    for key, value in row.items():
        plain = re.sub(r"[^a-z0-9]+", "_", key.lower()).strip("_")
        if isinstance(value, dict) and not group:
            yield from _values(value, plain)
            continue
        ours = _OURS.get(plain)
        if group and group not in _GROUPS:
            ours = _OURS.get(f"{group}_{plain}", ours if ours in COUNTS else None)
        if ours and (value is None or (isinstance(value, int | Decimal) and not isinstance(value, bool))):
            yield ours, value


def _figures(path: Path, name: str, set_name: str, rows: Rows, *, rounded: bool) -> Figures:
    known = {clip: dict(_values(row)) for clip, row in sorted(rows.items())}
    if rows and not any(known.values()):
        example = min(rows)
        raise UsageError(
            f"{path}: no value of clip {example!r} is known",
            f"its keys: {_keys(rows[example])}; known: {', '.join(ALIASES)}",
        )
    columns: dict[str, list[Decimal | int | None]] = {
        value: [row.get(value) for row in known.values()] for value in ALIASES
    }
    percent = [n for value in METRICS for n in columns[value] if n is not None]
    scale = 100 if rounded and percent and 0 < max(percent) <= 1 else 1
    frame = {value: _floats(path, value, numbers, scale) for value, numbers in columns.items()}
    half_units = {
        value: 0.5 * 10.0 ** -_decimals(numbers) * (scale if value in METRICS else 1)
        for value, numbers in columns.items()
        if any(n is not None for n in numbers)
    }
    notes = (f"{path}: its scores are read as fractions (none is above 1)",) if scale > 1 else ()
    clips = pl.DataFrame(
        {"clip_id": list(known), **frame}, schema={"clip_id": pl.String} | dict.fromkeys(frame, pl.Float64)
    )
    return Figures(name, set_name, clips, half_units if rounded else {}, notes)


def _floats(path: Path, value: str, numbers: list[Decimal | int | None], scale: int) -> list[float | None]:
    factor = scale if value in METRICS else 1
    try:
        floats = [None if n is None else float(n * factor) for n in numbers]
    except (OverflowError, ArithmeticError):
        floats = [math.inf]
    if not all(n is None or math.isfinite(n) for n in floats):
        raise unreadable(path, f"a value of {value} is not finite", "expected numbers")
    return floats


def _decimals(numbers: list[Decimal | int | None]) -> int:
    """Printed decimals of a column: the most of any of its values, as JSON drops zeros at the end."""
    exponents = [n.as_tuple().exponent for n in numbers if isinstance(n, Decimal)]
    return max((max(-e, 0) for e in exponents if isinstance(e, int)), default=0)


def _keys(node: Any) -> str:
    """The keys of ``node``, and those one level down of its first value."""
    if isinstance(node, list):
        return f"a list of {len(node)}; of the first item: {_keys(node[0])}" if node else "none (an empty list)"
    if not isinstance(node, dict):
        return f"none (it is a {type(node).__name__})"
    names = list(node)
    shown = ", ".join(names[:_SHOWN]) + (f", ... ({len(names)} in all)" if len(names) > _SHOWN else "")
    first = next((value for value in node.values() if isinstance(value, dict)), None)
    return f"{shown or 'none'}" + (f"; one level down: {', '.join(list(first)[:_SHOWN])}" if first else "")
