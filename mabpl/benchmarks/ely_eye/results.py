"""ely-eye's results as files: one JSON document, or a folder of parquet tables. One loader takes either."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import polars as pl

from mabpl.benchmarks.ely_eye.options import ElyOptions
from mabpl.benchmarks.ely_eye.scoring import ElyScores
from mabpl.errors import UsageError, unreadable
from mabpl.tables import folder as folders
from mabpl.tables.columns import Table
from mabpl.tables.ely_scores import QUERY_SCORES, SCORES

KIND = "ely_eye"
_TABLES = {"ely_query_scores": QUERY_SCORES, "ely_scores": SCORES}


def document(scores: ElyScores) -> dict[str, Any]:
    """All of a result: its facts, the rows of `ely_scores`, and of each run and query the row of `ely_query_scores`."""
    facts = _facts(scores)
    made = {**facts, "scores": scores.scores.to_dicts(), "per_query": scores.queries.to_dicts()}
    return {**made, "digest": digest(made)}


def digest(value: dict[str, Any]) -> str:
    """SHA-256 (hex) of a result JSON or of a folder's manifest, less its digest, schema version and list of tables."""
    bare = {name: item for name, item in value.items() if name not in ("digest", "schema_version", "tables")}
    return hashlib.sha256(json.dumps(bare, sort_keys=True).encode()).hexdigest()


def write_result_folder(scores: ElyScores, folder: Path) -> None:
    """Writes both tables as parquet beside a manifest; see `mabpl.tables.folder`."""
    facts = _facts(scores)
    folders.write_folder(
        folder, {"ely_query_scores": scores.queries, "ely_scores": scores.scores}, {**facts, "digest": digest(facts)}
    )


def _facts(scores: ElyScores) -> dict[str, Any]:
    return {"benchmark": KIND, **scores.facts}


def load_result(path: str | Path) -> ElyScores:
    """A result JSON or a result folder. Raises :class:`~mabpl.errors.InputError` for anything else."""
    path = Path(path)
    if path.is_dir():
        facts = folders.read_manifest(path)
        frames = {name: folders.read_table(path, name) for name in _TABLES}
    else:
        facts = _read(path)
        frames = {
            name: _frame(path, facts.pop(key, None), key, _TABLES[name])
            for name, key in (("ely_query_scores", "per_query"), ("ely_scores", "scores"))
        }
    if facts.get("benchmark") != KIND or not isinstance(facts.get("options"), dict):
        raise unreadable(path, "is no result of ely-eye", "score a run first: mabpl ely score ... --out FILE")
    if not isinstance(facts.get("runs"), list) or not all(
        isinstance(run, dict) and "run" in run for run in facts["runs"]
    ):
        raise unreadable(path, 'its "runs" are not a list of objects')
    facts = {
        name: value for name, value in facts.items() if name not in ("benchmark", "digest", "schema_version", "tables")
    }
    try:
        options = ElyOptions(**facts["options"])
    except (UsageError, TypeError) as error:
        raise unreadable(path, f"its options are not possible: {error}") from None
    return ElyScores(frames["ely_query_scores"], frames["ely_scores"], options, facts)


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        raise unreadable(path, f"cannot be read ({getattr(error, 'strerror', None) or error})") from None
    except (ValueError, RecursionError):
        hint = "score the run first: mabpl ely score" if path.suffix in (".jsonl", ".gz") else "expected a result JSON"
        raise unreadable(path, "is not one JSON document", hint) from None
    if not isinstance(found, dict):
        raise unreadable(path, "is no result of ely-eye", "score a run first: mabpl ely score ... --out FILE")
    return found


def _frame(path: Path, rows: Any, key: str, table: Table) -> pl.DataFrame:
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise unreadable(path, f'its "{key}" is not a list of objects', "expected a result of mabpl ely score")
    if lacking := sorted({name for row in rows for name in table.schema if name not in row}):
        raise unreadable(path, f'rows of its "{key}" lack {", ".join(lacking)}')
    try:
        return pl.DataFrame([{name: row[name] for name in table.schema} for row in rows], schema=table.schema)
    except (pl.exceptions.PolarsError, TypeError, OverflowError) as error:
        raise unreadable(path, f'its "{key}" holds values of a wrong type ({error})') from None
