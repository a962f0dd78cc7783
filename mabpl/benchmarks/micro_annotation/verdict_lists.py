"""The ``verdicts`` of a result JSON: for each pair what the judge saw and what it answered, and back to tables."""

from __future__ import annotations

from typing import Any

import polars as pl

from mabpl.benchmarks.micro_annotation.scores import Scores
from mabpl.judges.hygiene import cleaned
from mabpl.tables import schemas

_PAIR = ["clip_id", "predicted", "human"]
ASKED = ["predicted_label", "primary", "also", "instruction", "prompt_hash", "altered", "risky"]
ANSWERS = {
    "pa": ["judge_seed", "status", "score", "equivalent", "reply"],
    "joint": ["judge_seed", "status", "accepted", "reply"],
}


def listed(scores: Scores, run: str, set_name: str, kind: str) -> list[dict[str, Any]]:
    """One entry per asked pair: clip, segments, request, labels as sent, and an answer per judge seed."""
    if kind not in (scores.judging or {}).get("judges", {}):
        return []
    table = scores.pairs if kind == "pa" else scores.matches.filter(metric="seg")
    asked = table.filter(pl.col("request").is_not_null(), run=run, set=set_name).select(*_PAIR, "request")
    if kind == "pa":
        assigned = scores.matches.filter(metric="pa", run=run, set=set_name).select(*_PAIR, assigned=pl.lit(True))
        asked = asked.join(assigned, on=_PAIR, how="left").with_columns(pl.col("assigned").fill_null(False))
    seen = asked.join(scores.requests.filter(kind=kind).select("request", *ASKED), on="request", how="left")
    answers = (
        scores.verdicts.filter(kind=kind)
        .sort("request", "judge_seed", "key")
        .group_by("request", maintain_order=True)
        .agg(pl.struct(ANSWERS[kind]).alias("answers"))
    )
    entries = seen.join(answers, on="request", how="left").sort(_PAIR).to_dicts()
    return [{**entry, "answers": entry["answers"] or []} for entry in entries]


def marked_labels(scores: Scores, run: str, set_name: str) -> dict[str, int]:
    """How many distinct labels of a run and of its human timelines, idle aside, label hygiene alters, and are risky."""
    clips = scores.table("clip_scores").filter(run=run, set=set_name).select("clip_id")
    own = pl.col("run").is_null() | (pl.col("run") == run)
    segments = scores.segments.filter(own, set=set_name, is_idle=False, flagged=False)
    labels = segments.join(clips, on="clip_id", how="semi")["label"].unique()
    shown = cleaned(labels, scores.settings.label_hygiene == "on")
    return {mark: int(shown[mark].sum()) for mark in ("altered", "risky")}


def tables(document: dict[str, Any], kind: str) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """``(asked, requests, verdicts)`` of a result JSON: the pairs (clip_id, predicted, human, request), and the tables.

    Raises :class:`polars.exceptions.PolarsError`, KeyError or TypeError where the list is not of that shape.
    """
    from mabpl.judges.types import fingerprint

    entries = document["verdicts"]
    judge = document["provenance"]["judge"]
    pair_schema = {"clip_id": pl.String, "predicted": pl.Int32, "human": pl.Int32, "request": pl.String}
    asked = pl.DataFrame([{name: e[name] for name in pair_schema} for e in entries], schema=pair_schema)
    distinct = {entry["request"]: entry for entry in entries}
    requests = pl.DataFrame(
        [{"request": name, "kind": kind, **{c: e[c] for c in ASKED}} for name, e in sorted(distinct.items())],
        schema=schemas.REQUESTS.schema,
    )
    answers = [
        {
            "key": fingerprint([judge["judge"], name, answer["judge_seed"]]),
            "request": name,
            "kind": kind,
            "judge": judge["judge"],
            "route": judge["route"],
            "reasoning": "",
            "parser": 0,
            **{column: answer[column] for column in ANSWERS[kind]},
        }
        for name, entry in sorted(distinct.items())
        for answer in entry["answers"]
    ]
    return asked, requests, pl.DataFrame(answers, schema=schemas.VERDICTS.schema)
