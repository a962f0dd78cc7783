"""The published combination of a model's sets, from its score and joint JSONs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from mabpl.benchmarks.micro_annotation.results import JOINT_METRICS, SCORE_METRICS, SIZES, Document, read_document
from mabpl.errors import UsageError
from mabpl.metrics.summary import combine_sets

_LARGEST = 1e15
_EMBEDDED = "embedded"
"""The route of verdicts of the embedded judge."""
_VALUES = (*SCORE_METRICS, *JOINT_METRICS, "headline", "segments_per_clip", "human_segments_per_clip")


@dataclass(frozen=True, slots=True)
class Combined:
    """``table``: rows of `set_scores`, the combination last (set is null). ``document``: the same as JSON.

    ``judges``: for each file the judge, where it has one.
    """

    table: pl.DataFrame
    document: Document
    warnings: tuple[str, ...]
    judges: dict[str, Any]


def combine(paths: Sequence[str]) -> Combined:
    """Reads score and joint JSONs, one of each per set, and puts the sets together."""
    sets: dict[str, dict[str, Any]] = {}
    owners: dict[tuple[str, str], str] = {}
    warnings = []
    settings: dict[str, Any] = {}
    judges: dict[str, dict[str, Any]] = {}
    for path in paths:
        document = read_document(path)
        kind = "joint" if "seg_f1" in document["summary"] else "score"
        name = str(document.get("set") or "")
        if (name, kind) in owners:
            raise UsageError(
                f"{path}: a second {kind} result of set {name or '(unnamed)'!r}; the first is {owners[name, kind]}",
                "give one score JSON and one joint JSON per set",
            )
        owners[name, kind] = path
        if document.get("partial"):
            warnings.append(f"{path} is partial: not every clip of the set was scored")
        if "settings" in document:
            if settings and settings != document["settings"]:
                warnings.append(f"{path} was scored with other settings than the file before it")
            settings = document["settings"]
        judge = _judge(document, path)
        if judge is not None:
            judges[path] = judge
        sets.setdefault(name, {"run": "combined", "set": name}).update(_values(document, path, kind))
    without = [name for name in sets if (name, "score") not in owners]
    if without:
        raise UsageError(f"no score JSON for set {without[0]!r}", "headline needs one per set; joint JSONs come beside")
    lacking = [name for name in sets if (name, "joint") not in owners and len(owners) > len(sets)]
    if lacking:
        warnings.append(f"no joint JSON for set {lacking[0]!r}: Seg F1 and Joint F1 are not combined")
    warnings += _about_judges(judges)
    rows = pl.DataFrame(list(sets.values()), schema=_schema()).sort("set")
    whole = combine_sets(rows).with_columns(pl.lit("combined").alias("run"), pl.lit(None, pl.String).alias("set"))
    table = pl.concat([rows, whole.select(rows.columns)]).drop("x", "y")
    per_set = {row.pop("set"): row for row in table.drop("run").head(rows.height).to_dicts()}
    combined = table.drop("run", "set").row(-1, named=True)
    document = {
        "sets": per_set,
        "combined": combined,
        "judges": {path: judges[path] for path in sorted(judges)},
        "comparable": not any(judge["route"] == _EMBEDDED for judge in judges.values()),
        "inputs": sorted(owners.values()),
    }
    return Combined(table, document, tuple(warnings), judges)


def _judge(document: Document, path: str) -> dict[str, Any] | None:
    """Who judged the document, where it says so."""
    provenance = document.get("provenance")
    judge = provenance.get("judge") if isinstance(provenance, dict) else None
    if judge is None:
        return None
    if not isinstance(judge, dict) or not all(isinstance(judge.get(name), str) for name in ("kind", "judge", "route")):
        raise UsageError(f"{path}: what it says of its judge cannot be read", "score it again")
    return judge


def _about_judges(judges: dict[str, dict[str, Any]]) -> list[str]:
    """Documents of the embedded judge, and those of a kind that were not judged alike."""
    warnings = [
        f"{path} was judged by the embedded judge, an offline stand-in: not comparable with published scores"
        for path, judge in judges.items()
        if judge["route"] == _EMBEDDED
    ]
    first: dict[str, str] = {}
    for path, judge in judges.items():
        other = first.setdefault(judge["kind"], path)
        differ = [
            name for name in ("judge", "route", "judge_seeds", "body") if judge.get(name) != judges[other].get(name)
        ]
        if differ:
            told = " and ".join(name.replace("_", " ") for name in differ)
            warnings.append(f"{path} was judged otherwise than {other}: another {told}")
    return warnings


def _schema() -> dict[str, Any]:
    values = dict.fromkeys(_VALUES, pl.Float64)
    return {"run": pl.String, "set": pl.String, "clips": pl.Int64, "undefined_clips": pl.Int64, **values,
            "x": pl.Int64, "y": pl.Int64}  # fmt: skip


def _values(document: Document, path: str, kind: str) -> dict[str, Any]:
    summary, per_clip = document["summary"], document.get("per_clip") or {}
    names = JOINT_METRICS if kind == "joint" else (*SCORE_METRICS, *SIZES, "headline")
    values = {name: summary.get(name) for name in names if name in summary}
    clips = summary.get("clips") or len(per_clip)
    numbers = [v for v in (*values.values(), clips) if v is not None]
    sound = all(isinstance(v, int | float) and not isinstance(v, bool) and abs(v) < _LARGEST for v in numbers)
    if not sound or clips != int(clips) or clips < 1:
        raise UsageError(f"{path}: its summary has no number of clips, or a value that is no number", "score it again")
    return {**values, "clips": clips, "x": clips, "y": clips}  # x, y: only whether there is something to weigh
