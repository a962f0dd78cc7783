"""The schema of every table: column, type, unit, nullability, meaning. `data_schema/` is generated from here."""

from __future__ import annotations

import polars as pl

from mabpl.tables.columns import FRAME_RATE as FRAME_RATE
from mabpl.tables.columns import SCHEMA_VERSION as SCHEMA_VERSION
from mabpl.tables.columns import Column, Table
from mabpl.tables.ely_eye import ELY_TABLES
from mabpl.tables.proact_ego_mem import PROACT_TABLES
from mabpl.tables.proact_events import EVENT_TABLES
from mabpl.tables.tournament import TOURNAMENT_TABLES

_SET = Column("set", pl.String, "the set (subset of the benchmark) that the clip belongs to")
_CLIP = Column("clip_id", pl.String, "the clip; unique across sets")
_RUN = Column("run", pl.String, "one prediction timeline file, less set and ending")
_PREDICTED = Column("predicted", pl.Int32, "the predicted segment: its position in the file's clip, from 0")
_HUMAN = Column("human", pl.Int32, "the human segment: its position in the file's clip, from 0")

CLIPS = Table(
    "clips",
    "one clip of a set, as the labels file describes it",
    ("set", "clip_id"),
    (
        _SET,
        _CLIP,
        Column("duration_s", pl.Float64, "length of the clip", "s", nullable=True),
        Column("num_frames", pl.Int64, "frames of the clip's video", "frames of the video", nullable=True),
        Column("source_fps", pl.Float64, "frame rate of the clip's video", "1/s", nullable=True),
        Column("caption", pl.String, "the task summary of the clip; never sent to a judge", nullable=True),
        Column("instruction", pl.String, "what a judge or a prompt may be told about the clip", nullable=True),
    ),
    open_ended=True,
)

SEGMENTS = Table(
    "segments",
    "one segment of a timeline: the human one (run is null) or a run's",
    ("run", "set", "clip_id", "segment"),
    (
        Column("run", pl.String, _RUN.meaning + "; null for the human timeline", nullable=True),
        _SET,
        _CLIP,
        Column("segment", pl.Int32, "position in the file's clip, from 0"),
        Column("start_s", pl.Float64, "start, from the start of the clip", "s"),
        Column("end_s", pl.Float64, "end, from the start of the clip", "s"),
        Column("start_tick", pl.Int64, "start on the frame grid: round_half_even(start_s * 30)", "1/30 s"),
        Column("end_tick", pl.Int64, "end on the frame grid: round_half_even(end_s * 30)", "1/30 s"),
        Column("label", pl.String, "what is done, to what, with which hand"),
        Column("is_idle", pl.Boolean, "a pause: left out of all scoring"),
        Column("hands", pl.String, "left, right or both", nullable=True),
        Column("flagged", pl.Boolean, "a human segment that is excluded from scoring"),
    ),
)

RUNS = Table(
    "runs",
    "one prediction file of one set",
    ("run", "set"),
    (
        _RUN,
        _SET,
        Column("configuration", pl.String, "the run's name less its generation seed"),
        Column("generation_seed", pl.Int64, "from `_seed<k>` in the file's name", nullable=True),
        Column("model", pl.String, "from a map file", nullable=True),
        Column("setting", pl.String, "from a map file: the model's setting, e.g. its reasoning effort", nullable=True),
        Column("path", pl.String, "the prediction file's name, without its folder"),
        Column("sha256", pl.String, "SHA-256 of the prediction file", "hex", nullable=True),
    ),
)

_REQUEST = Column("request", pl.String, "fingerprint of all that is asked, whoever answers", "32 hex digits")
_ASKED = Column(
    "request", pl.String, "what a judge was asked about this pair; null where none was", "32 hex digits", True
)

PAIRS = Table(
    "pairs",
    "one predicted and one human segment of a clip that overlap in time (idle and flagged ones left out)",
    ("run", "set", "clip_id", "predicted", "human"),
    (
        _RUN,
        _SET,
        _CLIP,
        _PREDICTED,
        _HUMAN,
        Column("overlap_us", pl.Int64, "length of the overlap", "us"),
        Column("iou", pl.Float64, "overlap over union, 0 to 1"),
        Column("start_error_ticks", pl.Int64, "predicted start less human start", "1/30 s"),
        Column("end_error_ticks", pl.Int64, "predicted end less human end", "1/30 s"),
        Column("covered_ticks", pl.Int64, "overlap on the frame grid", "1/30 s"),
        _ASKED,
    ),
)

MATCHES = Table(
    "matches",
    "one matched pair of one metric",
    ("run", "set", "clip_id", "metric", "predicted"),
    (
        _RUN,
        _SET,
        _CLIP,
        Column("metric", pl.String, "pa (the PA assignment), boundary, temporal or seg"),
        _PREDICTED,
        _HUMAN,
        _ASKED,
    ),
)

_KIND = Column(
    "kind",
    pl.String,
    "what is judged: pa (a pair of labels for PA-F1) or joint (one for Joint F1); timing, labels: two timelines of a "
    "clip, in a tournament; object: a mention in free text, and what it may refer to; window: a model's timeline of a "
    "part of a clip",
)

REQUESTS = Table(
    "requests",
    "one distinct thing that a judge is asked; pairs with the same labels share it",
    ("request",),
    (
        _REQUEST,
        _KIND,
        Column(
            "predicted_label",
            pl.String,
            "the predicted label, as the judge is shown it; timing, labels: the timeline shown as A",
        ),
        Column("primary", pl.String, "the human label, as the judge is shown it; timing, labels: the human timeline"),
        Column(
            "also",
            pl.List(pl.String),
            "pa: labels of the other human segments that the predicted one covers by 20 frames, in time order; timing, "
            "labels: the timeline shown as B",
        ),
        Column(
            "instruction",
            pl.String,
            "joint: the episode instruction, where the data has one; timing: what the tolerance is",
            nullable=True,
        ),
        Column("prompt_hash", pl.String, "SHA-256 of what is sent beside the labels: prompt and layout", "hex"),
        Column("altered", pl.Boolean, "label hygiene changed one of the labels"),
        Column("risky", pl.Boolean, "one of the labels carries JSON or words that may be meant for the judge"),
    ),
)

VERDICTS = Table(
    "verdicts",
    "one question put to a judge (a request, with a judge seed), and what came of it",
    ("key",),
    (
        Column("key", pl.String, "fingerprint of all that can change the answer", "32 hex digits"),
        _REQUEST,
        _KIND,
        Column("judge", pl.String, "the judge's model, as it was named to the endpoint"),
        Column("route", pl.String, "the public host that was asked, or self-hosted"),
        Column("judge_seed", pl.Int64, "the seed that was sent, where the judge takes one", nullable=True),
        Column(
            "status",
            pl.String,
            "ok, or why there is no verdict: truncated, no_json, no_verdict, bad_value or error",
        ),
        Column("score", pl.Float64, "pa: how well the predicted label fits, 0 to 100", nullable=True),
        Column("equivalent", pl.Boolean, "pa: both labels describe the same action", nullable=True),
        Column(
            "accepted",
            pl.Boolean,
            "joint: the predicted label is right; object: the mention refers to the object",
            nullable=True,
        ),
        Column("verdict", pl.String, "tournament: A, B or tie", nullable=True),
        Column("reply", pl.String, "the answer's text, without thinking"),
        Column("reasoning", pl.String, "the judge's thinking, where it is told"),
        Column("tokens_in", pl.Int64, "tokens of the question", "tokens", nullable=True),
        Column("tokens_out", pl.Int64, "tokens of the answer, thinking included", "tokens", nullable=True),
        Column("tokens_reasoning", pl.Int64, "tokens of the thinking alone", "tokens", nullable=True),
        Column("cost", pl.Float64, "what the call cost, in the currency of the price", nullable=True),
        Column("seconds", pl.Float64, "from sending to the whole answer", "s", nullable=True),
        Column("parser", pl.Int64, "version of the parser that read the answer"),
    ),
)

_COUNTS = (
    Column("x", pl.Int64, "predicted segments that are scored (not idle)", "segments"),
    Column("y", pl.Int64, "human segments that are scored (neither idle nor flagged)", "segments"),
    Column("assigned", pl.Int64, "pairs of the PA assignment", "pairs", nullable=True),
    Column("b", pl.Int64, "Boundary F1 matches", "pairs", nullable=True),
    Column("k", pl.Int64, "Temporal F1 matches", "pairs", nullable=True),
    Column("t", pl.Int64, "Seg F1 matches", "pairs", nullable=True),
    Column("j", pl.Int64, "Joint F1 matches: Seg F1 matches whose label is accepted", "pairs", nullable=True),
    Column("credit", pl.Float64, "PA-F1 credit: sum of score / 100, mean of the judge seeds", "pairs", nullable=True),
    Column("strict_credit", pl.Float64, "the part of credit whose labels are equivalent", "pairs", nullable=True),
)


def _percent(name: str, title: str) -> Column:
    return Column(name, pl.Float64, title, "percent", nullable=True)


CLIP_METRICS = (
    _percent("pa_f1", "PA-F1 (label quality)"),
    _percent("strict_pa_f1", "strict PA-F1 (exact label agreement)"),
    _percent("precision", "PA precision: credit / x"),
    _percent("recall", "PA recall: credit / y"),
    _percent("boundary_f1", "Boundary F1 (strict timing)"),
    _percent("temporal_f1", "Temporal F1 (coarse timing)"),
    _percent("seg_f1", "Segmentation F1@0.75"),
    _percent("seg_precision", "Segmentation precision: t / x"),
    _percent("seg_recall", "Segmentation recall: t / y"),
    _percent("joint_f1", "Joint semantic F1@0.75"),
    _percent("joint_precision", "Joint precision: j / x"),
    _percent("joint_recall", "Joint recall: j / y"),
)

CLIP_SCORES = Table(
    "clip_scores",
    "one clip of one run, scored: the counts, and the metrics of this clip alone",
    ("run", "set", "clip_id"),
    (
        _RUN,
        _SET,
        _CLIP,
        *_COUNTS,
        Column(
            "judge_seeds",
            pl.List(pl.Int64),
            "judge seeds with every verdict of the clip",
            nullable=True,
        ),
        *CLIP_METRICS,
    ),
)

SET_SCORES = Table(
    "set_scores",
    "one set of one run, scored: the clips' values added up by `summarise`",
    ("run", "set"),
    (
        _RUN,
        Column("set", pl.String, _SET.meaning + "; null where both sets are combined", nullable=True),
        Column("clips", pl.Int64, "clips that were scored", "clips"),
        Column("undefined_clips", pl.Int64, "clips without any scored segment on either side", "clips"),
        *_COUNTS,
        *CLIP_METRICS,
        _percent("headline", "50% PA-F1 + 25% Boundary F1 + 25% Temporal F1"),
        Column("segments_per_clip", pl.Float64, "mean of x over clips", "segments"),
        Column("human_segments_per_clip", pl.Float64, "mean of y over clips", "segments"),
    ),
)

FLIP_AUDIT = Table(
    "flip_audit",
    "one run and set, matched again with one thing changed: what hangs on an edge",
    ("run", "set", "metric", "probe"),
    (
        _RUN,
        _SET,
        Column("metric", pl.String, "the matching that was probed: pa, boundary, temporal or seg"),
        Column("probe", pl.String, "the one thing that was changed"),
        Column("matches", pl.Int64, "matched pairs before the change", "pairs"),
        Column("lost", pl.Int64, "predicted segments whose match went or changed", "segments"),
        Column("gained", pl.Int64, "predicted segments whose match came or changed", "segments"),
        Column("clips", pl.Int64, "clips where a match differs", "clips"),
    ),
)

PROBLEMS = Table(
    "problems",
    "one fault of an input file",
    ("file", "line", "clip_id", "field", "rule"),
    (
        Column("severity", pl.String, "error or warning"),
        Column("rule", pl.String, "the rule that is broken"),
        Column("file", pl.String, "the file, as it was named"),
        Column("line", pl.Int64, "line of the file, from 1", nullable=True),
        Column("clip_id", pl.String, "the clip, query, source or atom of the line, where it is known", nullable=True),
        Column("field", pl.String, "path of the field inside the line, e.g. segments[3].end_s", nullable=True),
        Column("message", pl.String, "what is wrong and what was expected"),
        Column("hint", pl.String, "what to do about it", nullable=True),
    ),
)

TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        CLIPS,
        SEGMENTS,
        RUNS,
        PAIRS,
        MATCHES,
        REQUESTS,
        VERDICTS,
        CLIP_SCORES,
        SET_SCORES,
        FLIP_AUDIT,
        PROBLEMS,
        *PROACT_TABLES,
        *EVENT_TABLES,
        *TOURNAMENT_TABLES,
        *ELY_TABLES,
    )
}
