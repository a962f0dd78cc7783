"""Results as JSON: what was scored, on which files, how. No clock and no path: the same run gives the same bytes."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

import polars as pl

import mabpl
from mabpl.benchmarks.proact_ego_mem.release import Release
from mabpl.benchmarks.proact_ego_mem.submissions import Submissions


def qa_document(release: Release, submissions: Submissions, scores: pl.DataFrame, level: float) -> dict[str, Any]:
    """The `qa_scores` of :func:`~mabpl.benchmarks.proact_ego_mem.score_qa` as one JSON document, with provenance."""
    return {
        "qa_scores": scores.to_dicts(),
        "settings": {"interval_level": level, "denominator": "all questions of the split"},
        "provenance": provenance(release, submissions),
    }


def provenance(release: Release, submissions: Submissions) -> dict[str, Any]:
    """The version, and name and SHA-256 of every file; of released files also what they say of themselves."""
    runs = submissions.runs.with_columns(pl.col("file").map_elements(_name, return_dtype=pl.String))
    return {"mabpl": mabpl.__version__, "released": release.provenance(), "submissions": runs.to_dicts()}


def _name(file: str) -> str:
    return PurePath(file).name
