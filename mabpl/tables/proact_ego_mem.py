"""The tables of ProactEgoMem: clips, segments and questions of a release, and what a submission says about them."""

from __future__ import annotations

import polars as pl

from mabpl.tables.columns import Column, Table

_TRACK = Column("track", pl.String, "the track: the name of the file's folder less `_dev` or `_test`")
_TASK = Column("task", pl.String, "information_capture, state_tracking or location_tracking")
_SPLIT = Column("split", pl.String, "dev (the annotations are released) or test (they are withheld)")
_CLIP = Column("clip_uid", pl.String, "the clip: what a model is shown")
_RUN = Column("run", pl.String, "one submission: the file's name less its ending")
_QA = Column("qa_id", pl.String, "the question; unique over all files")

PROACT_CLIPS = Table(
    "proact_clips",
    "one clip of one released file: a window of a source video that is evaluated as a whole",
    ("track", "task", "split", "clip_uid"),
    (
        _TRACK,
        _TASK,
        _SPLIT,
        _CLIP,
        Column("video_uid", pl.String, "the source video that the clip is cut from"),
        Column("abs_start_s", pl.Float64, "start of the clip, from the start of the source video", "s"),
        Column("abs_end_s", pl.Float64, "end of the clip, from the start of the source video", "s"),
        Column("duration_s", pl.Float64, "length of the clip; an open segment ends here", "s"),
        Column(
            "declared_negative",
            pl.Boolean,
            "no sample is listed: the right answer is silence; null where the annotations are withheld",
            nullable=True,
        ),
        Column("listed", pl.Int64, "samples that the clip lists", "samples", nullable=True),
        Column(
            "scored",
            pl.Int64,
            "listed samples that last after clamping; 0 of a listed number: emptied, not a declared negative",
            "samples",
            nullable=True,
        ),
        Column("qa_items", pl.Int64, "questions about the clip", "questions"),
        Column("file", pl.String, "the file, as it was named; in a result its name without folders"),
    ),
)

PROACT_SEGMENTS = Table(
    "proact_segments",
    "one annotated segment (a released sample): something worth saying while it lasts",
    ("track", "task", "split", "clip_uid", "sample_id"),
    (
        _TRACK,
        _TASK,
        _SPLIT,
        _CLIP,
        Column("sample_id", pl.String, "the sample; an opaque id"),
        Column("object", pl.String, "what it is about: the reference that a judge holds a mention against"),
        Column("note", pl.String, "the annotator's remark; not scored", nullable=True),
        Column("start_s", pl.Float64, "start, from the start of the clip", "s"),
        Column("end_s", pl.Float64, "end, from the start of the clip, at most the clip's duration", "s"),
        Column("is_open", pl.Boolean, "released without an end: still true when the clip ended"),
        Column("dropped", pl.Boolean, "end_s is not after start_s once it is clamped: left out of scoring"),
    ),
)

QA_ITEMS = Table(
    "qa_items",
    "one multiple-choice question about a clip",
    ("qa_id",),
    (
        _TRACK,
        _TASK,
        _SPLIT,
        _CLIP,
        _QA,
        Column("question", pl.String, "the question"),
        Column("letters", pl.List(pl.String), "the choices' letters, in the released order"),
        Column("choices", pl.List(pl.String), "the choices' texts, in the released order; never reordered"),
        Column("correct_letter", pl.String, "the right choice; null where it is withheld", nullable=True),
    ),
)

MENTIONS = Table(
    "mentions",
    "one thing that a model said about a clip, at one moment",
    ("run", "track", "task", "clip_uid", "mention"),
    (
        _RUN,
        _TRACK,
        _TASK,
        _CLIP,
        Column("mention", pl.Int32, "position in the submission's clip, from 0"),
        Column("time_s", pl.Float64, "when it was said, from the start of the clip", "s"),
        Column("text", pl.String, "what was said"),
    ),
)

QA_ANSWERS = Table(
    "qa_answers",
    "one answer of a submission to a question",
    ("run", "qa_id"),
    (
        _RUN,
        _QA,
        Column("letter", pl.String, "the letter as it was given; null where none was", nullable=True),
    ),
)

QA_SCORES = Table(
    "qa_scores",
    "the accuracy of a submission on the questions of one task of one track, or over them",
    ("run", "split", "track", "task"),
    (
        _RUN,
        _SPLIT,
        Column("track", pl.String, "the track; null: over all tracks", nullable=True),
        Column("task", pl.String, "the task; null: over all tasks", nullable=True),
        Column("clips", pl.Int64, "clips that have questions", "clips"),
        Column("items", pl.Int64, "questions of the split; all count", "questions"),
        Column("answered", pl.Int64, "questions answered with one of their letters", "questions"),
        Column("missing", pl.Int64, "questions without an answer: wrong", "questions"),
        Column("illegal", pl.Int64, "questions answered with none of their letters: wrong", "questions"),
        Column("correct", pl.Int64, "questions answered with the right letter", "questions"),
        Column("accuracy", pl.Float64, "correct / items", "percent"),
        Column("accuracy_low", pl.Float64, "lower bound of the clip-bootstrap interval", "percent", nullable=True),
        Column("accuracy_high", pl.Float64, "upper bound of the clip-bootstrap interval", "percent", nullable=True),
    ),
)

PROACT_TABLES = (PROACT_CLIPS, PROACT_SEGMENTS, QA_ITEMS, MENTIONS, QA_ANSWERS, QA_SCORES)
