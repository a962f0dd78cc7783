"""The tables of ProactEgoMem's event scoring: what may match, what became of each mention, and the scores."""

from __future__ import annotations

import polars as pl

from mabpl.tables.columns import Column, Table
from mabpl.tables.proact_ego_mem import MENTIONS, PROACT_SEGMENTS

_RUN, _TRACK, _TASK, _CLIP, _MENTION = MENTIONS.columns[:5]
_SAMPLE = next(column for column in PROACT_SEGMENTS.columns if column.name == "sample_id")


def _count(name: str, meaning: str, unit: str = "mentions", *, nullable: bool = False) -> Column:
    return Column(name, pl.Int64, meaning, unit, nullable)


EVENT_PAIRS = Table(
    "event_pairs",
    "one mention and one segment of its clip that it is in time for",
    ("run", "track", "task", "clip_uid", "mention", "sample_id"),
    (
        _RUN,
        _TRACK,
        _TASK,
        _CLIP,
        _MENTION,
        _SAMPLE,
        Column("lateness_s", pl.Float64, "time of the mention less the segment's start, at least 0", "s"),
        Column(
            "request", pl.String, "what a judge was asked about this pair; null where none was", "32 hex digits", True
        ),
        Column("accepted", pl.Boolean, "the mention refers to the segment's object; null: not known", nullable=True),
    ),
)

EVENT_OUTCOMES = Table(
    "event_outcomes",
    "one mention, and what became of it",
    ("run", "track", "task", "clip_uid", "mention"),
    (
        _RUN,
        _TRACK,
        _TASK,
        _CLIP,
        _MENTION,
        Column(
            "outcome",
            pl.String,
            "hit, or the false positive that it is: on_negative (the clip is a declared negative), duplicate (it could "
            "match only segments that other mentions match), wrong_object (in time for a segment, but about none of "
            "them), out_of_time; null: the clip lacks a verdict, or no judge was asked",
            nullable=True,
        ),
        Column("sample_id", pl.String, "hit: the segment that is matched", nullable=True),
        Column("lateness_s", pl.Float64, "hit: time of the mention less the segment's start, at least 0", "s", True),
        Column("timing_sample_id", pl.String, "the segment that is matched if objects do not count", nullable=True),
    ),
)

_CLIP_COUNTS = (
    _count("mentions", "mentions of the submission"),
    _count("segments", "annotated segments that are scored (not dropped)", "segments"),
    _count("hits", "matched pairs: true positives", "pairs", nullable=True),
    _count("on_negatives", "false positives on declared negatives", nullable=True),
    _count("duplicates", "false positives that could match only segments which are matched", nullable=True),
    _count("wrong_objects", "false positives in time for a segment, but about none of them", nullable=True),
    _count("out_of_time", "false positives in time for no segment", nullable=True),
    _count("misses", "segments that no mention matches: false negatives", "segments", nullable=True),
    Column("lateness_s", pl.Float64, "sum of the hits' lateness", "s", nullable=True),
    _count("timing_hits", "matched pairs if objects do not count", "pairs"),
    _count("timing_duplicates", "unmatched mentions in time for a segment, if objects do not count"),
)

EVENT_CLIP_SCORES = Table(
    "event_clip_scores",
    "one clip of one submission: the counts, null where the clip lacks a verdict or no judge was asked",
    ("run", "track", "task", "clip_uid"),
    (
        _RUN,
        _TRACK,
        _TASK,
        _CLIP,
        Column("duration_s", pl.Float64, "length of the clip", "s"),
        Column("declared_negative", pl.Boolean, "no sample is listed: the right answer is silence"),
        *_CLIP_COUNTS,
    ),
)

_METRICS = (
    ("f1", "2 hits / (2 hits + false positives + misses)", "percent"),
    ("precision", "hits / (hits + false positives)", "percent"),
    ("recall", "hits / segments", "percent"),
    ("timing_f1", "the F1 if objects do not count", "percent"),
    ("lenient_f1", "the F1 with duplicates left out", "percent"),
    ("silence_rate", "declared negatives without a mention / declared negatives", "percent"),
    ("false_alarms_per_minute", "false positives / minutes of all clips", "1/min"),
    ("mean_lateness_s", "lateness of the hits, on average", "s"),
)
EVENT_METRICS = tuple(name for name, _, _ in _METRICS)

EVENT_SCORES = Table(
    "event_scores",
    "a submission on one task of one track, counts pooled over clips; or the mean of such values (macro)",
    ("run", "track", "task"),
    (
        _RUN,
        Column("track", pl.String, "the track; null: macro over all tracks and tasks", nullable=True),
        Column("task", pl.String, "the task; null: macro over the tasks", nullable=True),
        _count("cells", "cells (track and task) that the values are the mean of; 1: not a mean", "cells"),
        _count("clips", "clips of the submission", "clips"),
        _count("unscored_clips", "clips that lack a verdict: left out of the judged values", "clips"),
        _count("negatives", "declared negatives", "clips"),
        _count("silent_negatives", "declared negatives without a mention", "clips"),
        Column("minutes", pl.Float64, "length of all clips", "min"),
        *_CLIP_COUNTS,
        *(
            Column(name + end, pl.Float64, meaning + what, unit, nullable=True)
            for name, meaning, unit in _METRICS
            for end, what in (
                ("", ""),
                ("_low", "; lower bound of the clip-bootstrap interval"),
                ("_high", "; upper bound of the clip-bootstrap interval"),
            )
        ),
    ),
)

EVENT_TABLES = (EVENT_PAIRS, EVENT_OUTCOMES, EVENT_CLIP_SCORES, EVENT_SCORES)
