"""Scored events as text: the scores of every submission, the counts behind them, and the rules."""

from __future__ import annotations

import polars as pl

from mabpl.benchmarks.proact_ego_mem.event_options import NOT_THE_AUTHORS
from mabpl.benchmarks.proact_ego_mem.events import EventScores
from mabpl.benchmarks.proact_ego_mem.tasks import short_task
from mabpl.report.results import JUDGED_MARK, judge_notes
from mabpl.report.tables import Format, Show, render

_VALUES = (
    Show("f1", "F1", "interval", best="high"),
    Show("precision", "Precision", "percent", "P", best="high"),
    Show("recall", "Recall", "percent", "R", best="high"),
    Show("timing_f1", "Timing-only F1", "interval", "Timing", best="high"),
    Show("silence_rate", "Silence rate", "percent", "Silence", best="high"),
    Show("false_alarms_per_minute", "False alarms / min", "percent", "Alarms/min", best="low", digits=2),
    Show("mean_lateness_s", "Lateness (s)", "percent", "Late (s)", digits=2),
)
_COUNTS = (
    Show("mentions", "Mentions", "count", "Said"),
    Show("segments", "Segments", "count", "Segm."),
    Show("hits", "Hits", "count"),
    Show("on_negatives", "On negatives", "count", "Negative"),
    Show("duplicates", "Duplicates", "count", "Double"),
    Show("wrong_objects", "Wrong object", "count", "Object"),
    Show("out_of_time", "Out of time", "count", "Time"),
    Show("misses", "Missed", "count"),
    Show("lenient_f1", "F1, duplicates aside", "percent", "Lenient F1"),
)
_UNJUDGED = ("timing_f1", "silence_rate", "mentions", "segments")


def events_text(scores: EventScores, format: Format = "terminal") -> str:  # noqa: A002
    """The scores of every submission: macro first, then each track and task; then the counts behind them."""
    rows = scores.scores
    if format in ("json", "csv"):
        return render(rows, format=format, columns=[Show(name) for name in rows.columns])
    shown = _named(rows)
    lead = [Show("run", "Submission"), Show("where", "Track, task")]
    judged = scores.judgement is not None
    values, counts = (
        [_shown(show, judged, format) for show in shows if judged or show.name in _UNJUDGED]
        for shows in (_VALUES, _COUNTS)
    )
    pooled = shown.filter(pl.col("cells") == 1)
    first = render(shown, format=format, columns=[*lead, *values], title=_title(scores))
    second = render(pooled, format=format, columns=[*lead, *counts], title="What was said", notes=_notes(scores))
    return f"{first}\n{second}"


def _shown(show: Show, judged: bool, format: Format) -> Show:  # noqa: A002
    """``show``, marked where a judge has a part in it; a terminal has room for one interval."""
    if show.name in _UNJUDGED:
        return show._replace(kind="percent") if show.kind == "interval" and judged and format == "terminal" else show
    return show._replace(title=show.title + JUDGED_MARK, short=show.short and show.short + JUDGED_MARK)


def _named(rows: pl.DataFrame) -> pl.DataFrame:
    """``rows`` with a name of the cell, macro rows first."""
    where = [
        f"macro ({cells} cells)" if track is None else f"{track}, macro" if task is None else _cell(track, task)
        for track, task, cells in rows.select("track", "task", "cells").iter_rows()
    ]
    named = rows.with_columns(pl.Series("where", where, dtype=pl.String))
    return named.sort(
        pl.col("track").is_not_null(), "track", pl.col("task").is_not_null(), "task",
        "f1", "timing_f1", "run",
        descending=[False, False, False, False, True, True, False], nulls_last=True,
    )  # fmt: skip


def _cell(track: str, task: str) -> str:
    return f"{track}, {short_task(task)}"


def _title(scores: EventScores) -> str:
    clips = scores.events.clips
    negatives, segments = int(clips["declared_negative"].sum()), scores.events.segments.height
    return f"Events: {clips.height} clips, {negatives} of them declared negatives, {segments} segments"


def _notes(scores: EventScores) -> list[str]:
    options = scores.options
    rule = {
        "optimal": "matched one to one: most pairs, then least lateness, then earliest",
        "in_order": "matched one to one, in order of the mentions",
    }[options.matching]
    window = f"up to {options.early_s:g} s before its segment starts and {options.late_s:g} s after it ends"
    notes = [f"A mention may come {window}; {rule}."]
    if options.duplicates == "ignored":
        notes.append("Duplicates do not count as false positives.")
    interval = "" if scores.level is None else f" [ , ]: {scores.level:.0%} interval, clips redrawn."
    notes.append(f"Counts are pooled over clips; macro is the mean of the cells.{interval}")
    notes.append(_configuration(scores))
    if scores.judgement is None:
        notes.append("No judge was asked: only what does not hang on objects is told.")
    else:
        notes += judge_notes({"judges": {"object": scores.judgement.profile["judge"]}})
    if scores.unscored.height:
        notes.append(
            f"Incomplete: {scores.unscored.height} clips lack a verdict and are left out of the judged values."
        )
    return notes


def _configuration(scores: EventScores) -> str:
    if scores.config is None:
        return f"Options: {NOT_THE_AUTHORS}."
    found = scores.config.provenance(scores.options)
    unknown = f" Not followed, for mabpl has no such option: {', '.join(found['unknown_keys'])}." * bool(
        found["unknown_keys"]
    )
    return f"Options of {found['file']}: {found['configuration']}.{unknown}"
