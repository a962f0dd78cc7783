"""Scored events as files: one JSON document, or a folder of parquet tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mabpl.benchmarks.proact_ego_mem.event_options import NOT_THE_AUTHORS
from mabpl.benchmarks.proact_ego_mem.events import EventScores
from mabpl.tables import folder as folders

Document = dict[str, Any]


def event_document(scores: EventScores) -> Document:
    """What `mabpl proact score` writes as JSON: the rows of `event_scores`, and how they came about."""
    document = {
        "event_scores": scores.scores.to_dicts(),
        "unscored_clips": scores.unscored.to_dicts(),
        **_how(scores),
    }
    return {**document, "digest": folders.digest(document)}


def write_result_folder(scores: EventScores, folder: Path) -> None:
    """Writes the tables of ``scores`` as parquet; see `mabpl.tables.folder`."""
    manifest = _how(scores)
    folders.write_folder(folder, scores.views(), {**manifest, "digest": folders.digest(manifest)})


def _how(scores: EventScores) -> Document:
    """No clock, no absolute path: the same inputs give the same bytes."""
    config = scores.config and scores.config.provenance(scores.options)
    judging = {"judge": None, "prompts": {}} if scores.judgement is None else scores.judgement.profile
    return {
        "partial": scores.unscored.height > 0,
        "configuration": config["configuration"] if config else NOT_THE_AUTHORS,
        "eval_config": config,
        "settings": {
            **scores.options.as_dict(),
            "clamp": "ends to the clip's duration; what is empty then is dropped",
            "interval_level": scores.level,
        },
        "provenance": {**scores.provenance, **judging},
    }
