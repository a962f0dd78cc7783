"""Results as files: the published score and joint JSON, and folders of parquet tables. One loader takes either."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import polars as pl

import mabpl
from mabpl.benchmarks.micro_annotation.scores import Scores
from mabpl.benchmarks.micro_annotation.verdict_lists import listed, marked_labels
from mabpl.errors import UsageError, unreadable
from mabpl.settings import Settings
from mabpl.tables import folder as folders
from mabpl.tables import schemas
from mabpl.tables.folder import digest as digest

Document = dict[str, Any]

SCORE_METRICS = ("pa_f1", "strict_pa_f1", "precision", "recall", "boundary_f1", "temporal_f1")
JOINT_METRICS = ("seg_f1", "seg_precision", "seg_recall", "joint_f1", "joint_precision", "joint_recall")
SIZES = ("segments_per_clip", "human_segments_per_clip", "clips", "undefined_clips")
SCORE_COUNTS = ("x", "y", "assigned", "b", "k", "credit", "strict_credit")
JOINT_COUNTS = ("x", "y", "t", "j")
VERDICT_TABLES = ("requests", "verdicts")
TABLES = ("clips", "runs", "segments", "pairs", "matches", "clip_scores", "set_scores")


def score_document(scores: Scores, run: str, set_name: str) -> Document:
    """The score JSON of one run and set: what `score` prints and writes."""
    summary = _summary(scores, run, set_name)
    audit = scores.audit.filter(run=run, set=set_name).drop("run", "set").to_dicts() if "audit" in scores.tables else []
    document = {
        "summary": {name: summary[name] for name in (*SCORE_METRICS, "headline", *SIZES)},
        "per_clip": _per_clip(scores, run, set_name, (*SCORE_COUNTS, "judge_seeds", *SCORE_METRICS)),
        "flip_audit": audit,
        **_rest(scores, run, set_name, "pa"),
    }
    document["provenance"]["digest"] = digest(document)
    return document


def joint_document(scores: Scores, run: str, set_name: str) -> Document:
    """The joint JSON of one run and set: what `joint` prints and writes."""
    summary = _summary(scores, run, set_name)
    document = {
        "summary": {name: summary[name] for name in (*JOINT_METRICS, "t", "j", "x", "y", "clips")},
        "per_clip": _per_clip(scores, run, set_name, JOINT_COUNTS),
        **_rest(scores, run, set_name, "joint"),
    }
    document["provenance"]["digest"] = digest(document)
    return document


def _summary(scores: Scores, run: str, set_name: str) -> dict[str, Any]:
    return scores.sets.filter(run=run, set=set_name).row(0, named=True)


def _per_clip(scores: Scores, run: str, set_name: str, columns: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    rows = scores.table("clip_scores").filter(run=run, set=set_name).select("clip_id", *columns)
    return {row.pop("clip_id"): row for row in rows.iter_rows(named=True)}


def _rest(scores: Scores, run: str, set_name: str, kind: str) -> Document:
    sources = [s for s in scores.sources if s["set"] == set_name and s.get("run") in (None, run)]
    judging = scores.judging or {}
    metric = "pa_f1" if kind == "pa" else "joint_f1"
    return {
        "verdicts": listed(scores, run, set_name, kind),
        "unscored_clips": scores.unscored.filter(run=run, set=set_name, metric=metric)["clip_id"].to_list(),
        "labels": marked_labels(scores, run, set_name),
        "partial": scores.partial,
        "set": set_name,
        "run": run,
        "settings": scores.settings.as_dict(),
        "provenance": {
            "mabpl": mabpl.__version__,
            "judge": judging.get("judges", {}).get(kind),
            "prompts": judging.get("prompts", {}),
            "inputs": sources,
        },
    }


def write_result_folder(scores: Scores, folder: Path, *, pairs: bool = True) -> None:
    """Writes the tables of ``scores`` as parquet; see `mabpl.tables.folder`."""
    tables = {}
    for name in (*TABLES, *(VERDICT_TABLES if scores.judging else ())):
        if name == "pairs" and not pairs:
            continue
        tables[name] = scores.table(name)
    manifest = {
        "mabpl": mabpl.__version__,
        "partial": scores.partial,
        "settings": scores.settings.as_dict(),
        "inputs": list(scores.sources),
        **({"judging": scores.judging} if scores.judging else {}),
    }
    folders.write_folder(folder, tables, {**manifest, "digest": digest(manifest)})


def load_result(path: str | Path) -> Scores:
    """A result: a score or joint JSON, or a result folder. The tables that it does not hold are missing or null."""
    path = Path(path)
    return _from_folder(path) if path.is_dir() else _from_document(read_document(path), path)


def read_folder_manifest(path: Path) -> dict[str, Any]:
    """The manifest of a result folder; raises :class:`InputError` where it holds no scored timelines."""
    manifest = folders.read_manifest(path)
    if "clip_scores" not in manifest.get("tables", TABLES):
        hint = "expected the folder of `mabpl score --tables`"
        if "tournament" in manifest:
            hint = "it is a tournament's: `mabpl tournament fit FOLDER`, in Python mabpl.load_tournament"
        elif "event_scores" in manifest.get("tables", ()):
            hint = f"it is of `mabpl proact score`: mabpl.connect({str(path)!r}) has event_scores and its other tables"
        elif "ely_scores" in manifest.get("tables", ()):
            hint = f"it is of `mabpl ely score`: `mabpl ely compare`, in Python mabpl.connect({str(path)!r})"
        raise unreadable(path, "is a result folder, but not of scored timelines", hint)
    return manifest


def _from_folder(path: Path) -> Scores:
    manifest = read_folder_manifest(path)
    tables = {
        name: functools.partial(folders.read_table, path, name)
        for name in manifest.get("tables", TABLES)
        if name in (*TABLES, *VERDICT_TABLES) and name != "set_scores"
    }
    judging = manifest.get("judging")
    judging = judging if isinstance(judging, dict) else None
    return Scores(tables, _settings(manifest, path), bool(manifest.get("partial")), _sources(manifest, path), judging)


def read_document(path: str | Path) -> Document:
    """A score or joint JSON (ours, or a published one); raises :class:`InputError` that says what else the file is."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise unreadable(path, f"cannot be read ({getattr(error, 'strerror', None) or error})") from None
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        first = text.lstrip()[:200]
        if '"clip_id"' in first or Path(path).suffix in (".jsonl", ".gz"):
            raise unreadable(
                path, "is a prediction or labels file, not a result", "score it first: mabpl score"
            ) from None
        raise unreadable(path, "is not JSON", "expected a .scores.json, a .joint.json or a result folder") from None
    if isinstance(document, dict) and isinstance(document.get("summary"), dict):
        return document
    if isinstance(document, dict) and "clip_id" in document:
        raise unreadable(path, "is a prediction or labels file, not a result", "score it first: mabpl score")
    if isinstance(document, dict) and "event_scores" in document:
        hint = "with --tables DIR it writes a folder that mabpl.connect takes"
        raise unreadable(path, "is a result of `mabpl proact score`, not of timelines", hint)
    if isinstance(document, dict) and document.get("benchmark") == "ely_eye":
        hint = "hold it against another with `mabpl ely compare`"
        raise unreadable(path, "is a result of `mabpl ely score`, not of timelines", hint)
    raise unreadable(path, 'has no "summary"', "expected a .scores.json, a .joint.json or a result folder")


def _from_document(document: Document, path: Path) -> Scores:
    run = str(document.get("run") or path.name.split(".")[0])
    set_name = str(document.get("set") or "")
    per_clip = document.get("per_clip") or {}
    if not isinstance(per_clip, dict) or not all(isinstance(row, dict) for row in per_clip.values()):
        raise unreadable(path, '"per_clip" is not an object of objects', "expected {clip_id: {x, y, ...}}")
    schema = schemas.CLIP_SCORES.schema
    rows = [
        {"run": run, "set": set_name, "clip_id": clip_id, **{k: v for k, v in row.items() if k in schema}}
        for clip_id, row in sorted(per_clip.items())
    ]
    try:
        frame = pl.DataFrame(rows, schema=schema)
    except (pl.exceptions.PolarsError, TypeError, OverflowError) as error:
        raise unreadable(path, f'"per_clip" holds values of a wrong type ({error})') from None
    names = pl.DataFrame({"run": [run], "set": [set_name]})
    configuration = pl.col("run").str.replace(r"_seed\d+$", "")
    seed = pl.col("run").str.extract(r"_seed(\d+)$").cast(pl.Int64, strict=False)
    runs = names.with_columns(configuration=configuration, generation_seed=seed, path=pl.lit(path.name))
    tables = {
        "clip_scores": frame,
        "runs": schemas.RUNS.conform(runs),
        "clips": schemas.CLIPS.conform(frame.select("set", "clip_id")),
    }
    sources = _sources(_object(document, "provenance", path), path)
    return Scores(tables, _settings(document, path), bool(document.get("partial")), sources)


def _settings(document: Document, path: Path) -> Settings:
    known = {k: v for k, v in _object(document, "settings", path).items() if k in Settings.names()}
    try:
        return Settings(**known)
    except UsageError as error:
        raise unreadable(path, f"its settings are not possible: {error.message}") from None


def _sources(provenance: Document, path: Path) -> tuple[dict[str, Any], ...]:
    inputs = provenance.get("inputs") or []
    if not isinstance(inputs, list) or not all(isinstance(source, dict) for source in inputs):
        raise unreadable(path, 'its "inputs" are not a list of objects')
    return tuple(inputs)


def _object(document: Document, name: str, path: Path) -> Document:
    value = document.get(name) or {}
    if not isinstance(value, dict):
        raise unreadable(path, f"its {json.dumps(name)} is not an object")
    return value
