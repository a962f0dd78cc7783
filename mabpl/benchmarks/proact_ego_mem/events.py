"""Event scoring: what a model said about clips against what was worth saying, and when.

The rules are those of the annotation format and, where it leaves them to the authors' configuration, of
:class:`~mabpl.benchmarks.proact_ego_mem.event_options.EventOptions`. Matching is one to one, the most pairs first, then
the least total lateness max(0, time - start), then the earliest. Every other mention is a false positive: on a declared
negative, a duplicate, about a wrong object, or out of time.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from mabpl.benchmarks.proact_ego_mem import event_scores
from mabpl.benchmarks.proact_ego_mem.event_matching import Booleans, Events, Ranks, match, prepare
from mabpl.benchmarks.proact_ego_mem.event_options import EvalConfig, EventOptions
from mabpl.benchmarks.proact_ego_mem.release import Release
from mabpl.benchmarks.proact_ego_mem.results import provenance
from mabpl.benchmarks.proact_ego_mem.submissions import Submissions
from mabpl.errors import UsageError, unknown_name
from mabpl.judges import asking
from mabpl.judges.asking import Judging, Plan, Tell
from mabpl.judges.client import Outcome
from mabpl.judges.prompts import OBJECT_JUDGE, Prompts, load_prompts
from mabpl.judges.requests import object_requests
from mabpl.settings import Settings
from mabpl.tables import schemas

LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a judge made of the pairs that are in time. ``accepted``: a pair each, null where there is no verdict.

    ``rank``: the row that each mention matches, or -1; ``codes``: its outcome; ``known``: the timelines of which every
    pair has a verdict. ``profile``: judge and prompts, for a result.
    """

    requests: pl.Series
    accepted: pl.Series
    rank: Ranks
    codes: event_scores.Codes
    known: Booleans
    plan: Plan
    verdicts: pl.DataFrame
    profile: Mapping[str, Any]


@dataclass(frozen=True)
class EventScores:
    """Scored events; each table is made when it is first asked for.

    ``timing``: the row of ``events`` that each mention matches if objects do not count, or -1. ``runs``: run, file,
    sha256. ``provenance``: what identifies the inputs.
    """

    events: Events = field(repr=False)
    options: EventOptions
    timing: Ranks = field(repr=False)
    runs: pl.DataFrame
    provenance: Mapping[str, Any] = field(default_factory=dict)
    config: EvalConfig | None = None
    judgement: Judgement | None = field(default=None, repr=False)
    level: float | None = LEVEL

    @functools.cached_property
    def clip_scores(self) -> pl.DataFrame:
        """`event_clip_scores`: the counts of each clip of each run."""
        return event_scores.clip_scores(self.events, *self._judged, self.timing)

    @functools.cached_property
    def scores(self) -> pl.DataFrame:
        """`event_scores`: per run, track and task, and macro over them, with intervals."""
        return event_scores.add_up(self.clip_scores, self.options, ci=self.level, judged=self.judgement is not None)

    @functools.cached_property
    def outcomes(self) -> pl.DataFrame:
        """`event_outcomes`: what became of each mention."""
        return event_scores.outcome_table(self.events, *self._judged, self.timing)

    @functools.cached_property
    def pairs(self) -> pl.DataFrame:
        """`event_pairs`: each mention and segment that it is in time for, and whether the object is the right one."""
        told = (None, None) if self.judgement is None else (self.judgement.requests, self.judgement.accepted)
        return event_scores.pair_table(self.events, *told)

    def pairs_with(self, planned: Plan) -> pl.DataFrame:
        """`event_pairs` with the requests of ``planned``, before there is any verdict."""
        return event_scores.pair_table(self.events, planned.asked["object"]["request"], None)

    @property
    def requests(self) -> pl.DataFrame:
        """`requests`: the distinct things that a judge was asked."""
        return schemas.REQUESTS.empty() if self.judgement is None else self.judgement.plan.requests

    @property
    def verdicts(self) -> pl.DataFrame:
        """`verdicts`: what the judge answered."""
        return schemas.VERDICTS.empty() if self.judgement is None else self.judgement.verdicts

    @property
    def unscored(self) -> pl.DataFrame:
        """run, track, task, clip_uid of the clips that lack a verdict, where a judge was asked."""
        missing = np.zeros(0, np.int64) if self.judgement is None else np.flatnonzero(~self.judgement.known)
        return self.events.timelines[missing]

    @property
    def _judged(self) -> tuple[Ranks | None, event_scores.Codes | None, Booleans]:
        if self.judgement is None:
            return None, None, np.ones(len(self.events.clip), np.bool_)
        return self.judgement.rank, self.judgement.codes, self.judgement.known

    def views(self) -> dict[str, pl.DataFrame]:
        """Every table by its name (see data_schema/): what :func:`mabpl.connect` puts into SQL."""
        tables = {
            "proact_clips": self.events.clips,
            "proact_segments": self.events.segments,
            "mentions": self.events.mentions,
            "event_pairs": self.pairs,
            "event_outcomes": self.outcomes,
            "event_clip_scores": self.clip_scores,
            "event_scores": self.scores,
        }
        return tables if self.judgement is None else {**tables, "requests": self.requests, "verdicts": self.verdicts}

    def write_tables(self, folder: str | Path) -> None:
        """Writes every table as parquet into ``folder``; an earlier result there is replaced."""
        from mabpl.benchmarks.proact_ego_mem.event_results import write_result_folder

        write_result_folder(self, Path(folder))


@dataclass(frozen=True, slots=True)
class JudgedEvents:
    """``outcome``: what asking came to, where something was asked."""

    scores: EventScores
    outcome: Outcome | None


def score_events(
    release: Release,
    submissions: Submissions,
    *,
    options: EventOptions | None = None,
    config: EvalConfig | None = None,
    judge: str | Judging | pl.DataFrame | None = None,
    level: float | None = LEVEL,
    threads: int | None = None,
) -> EventScores:
    """Scores every submission on the clips of ``release`` that it speaks of.

    ``options``: by default those of ``config``, or the defaults. ``judge``: None for timing alone; ``"embedded"`` for
    the offline stand-in; a :class:`mabpl.Judging` of the kind object; or a `verdicts` table of one judge.

    Raises :class:`~mabpl.errors.InvalidTimelines` where a file breaks a rule, and :class:`UsageError` where the
    annotations of a split are withheld: no score is given there, least of all 0.
    """
    release.require_valid()
    submissions.require_valid()
    present = submissions.present
    if present.is_empty():
        raise UsageError("no submission says anything of the selected clips", "give lines of clip_uid and mentions")
    splits = present["split"].unique().sort().to_list()
    release.require_released(splits, "events")
    options = options or (EventOptions() if config is None else config.options)
    release = release.select(splits=splits)
    clips, segments = release.clips, release.segments
    names = {one.file: os.path.basename(one.file) for one in release.files}  # noqa: PTH119
    clips = clips.with_columns(pl.col("file").replace(names))  # a result says nothing of where its inputs lay
    events = prepare(clips, segments, submissions.mentions, options, timelines=present)
    runs = submissions.runs.join(present, on="run", how="semi").sort("run")
    timing = match(events, None, options, threads)
    inputs = provenance(release, replace(submissions, runs=runs))
    scores = EventScores(events, options, timing, runs, inputs, config, level=level)
    return scores if judge is None else _judged_by(scores, judge)


def plan(scores: EventScores, root: str | os.PathLike[str] | None = None, *, prompts: Prompts | None = None) -> Plan:
    """What a judge is to be asked: a request for each distinct text of a mention and object of a segment in time."""
    prompts = prompts or load_prompts(root, [OBJECT_JUDGE])
    row, mention = scores.events.pairs()
    pairs = pl.DataFrame(
        {
            "text": scores.events.mentions["text"].gather(mention),
            "object": scores.events.segments["object"].gather(scores.events.segment[row]),
        }
    )
    asked, requests = object_requests(pairs, prompts, Settings(label_hygiene=scores.options.label_hygiene))
    return Plan(prompts, {"object": asked}, requests)


def judge_events(scores: EventScores, judging: Judging, progress: Tell | None = None) -> JudgedEvents:
    """``scores`` with everything that hangs on objects, as far as there are verdicts.

    A clip that lacks one is unscored (null), never 0. After an interruption the verdicts so far count.
    """
    planned = plan(scores, judging.root)
    answered = asking.verdicts_on(planned, judging, progress)
    judged = with_verdicts(scores, planned, answered.verdicts["object"], judging.profile("object"))
    return JudgedEvents(judged, answered.outcomes.get("object"))


def _judged_by(scores: EventScores, judge: str | Judging | pl.DataFrame) -> EventScores:
    if isinstance(judge, Judging):
        return judge_events(scores, judge).scores
    if isinstance(judge, str):
        if judge != "embedded":
            raise unknown_name("judge", judge, ["embedded"])
        return judge_events(scores, Judging("embedded", ("object",))).scores
    given = schemas.VERDICTS.conform(judge).filter(kind="object")
    judges = given.select("judge", "route").unique()
    if judges.height != 1:
        raise UsageError(f"the verdicts on objects are of {judges.height} judges", "give those of one judge and route")
    name, route = judges.row(0)
    planned = plan(scores)
    found = given.join(planned.requests, on="request", how="semi")
    if found.is_empty() and planned.requests.height:
        raise UsageError(
            "none of the verdicts is about these mentions, as our prompt puts them to a judge",
            'verdicts on a folder\'s own prompt: judge=mabpl.Judging("stored", ("object",), root=..., ...)',
        )
    profile = {"kind": "object", "judge": name, "route": route, "judge_seeds": [], "body": None}
    return with_verdicts(scores, planned, found, profile)


def with_verdicts(
    scores: EventScores, planned: Plan, found: pl.DataFrame, judge: Mapping[str, Any], threads: int | None = None
) -> EventScores:
    """``scores`` joined with ``found``, rows of `verdicts` in any order; ``judge``: who gave them, for a result.

    Raises :class:`UsageError` where a request has two verdicts.
    """
    events, requests = scores.events, planned.asked["object"]["request"]
    given = found.filter((pl.col("status") == "ok") & pl.col("accepted").is_not_null())
    if given["request"].is_duplicated().any():
        raise UsageError("a request has two verdicts on its object", "give the verdicts of one judge and route")
    asked = requests.to_frame().join(
        given.select("request", "accepted"), on="request", how="left", maintain_order="left"
    )
    accepted = asked["accepted"]
    right = accepted.fill_null(False).to_numpy()
    row, _ = events.pairs()
    known = np.ones(len(events.clip), np.bool_)
    timeline_of_row = np.repeat(np.arange(len(events.clip)), np.diff(events.row))
    known[timeline_of_row[row[accepted.is_null().to_numpy()]]] = False
    rank = match(events, right, scores.options, threads)
    judgement = Judgement(
        requests, accepted, rank, event_scores.outcomes(events, rank, right), known, planned,
        found.sort("request", "key"), {"judge": dict(judge), "prompts": planned.prompts.provenance()},
    )  # fmt: skip
    return replace(scores, judgement=judgement)
