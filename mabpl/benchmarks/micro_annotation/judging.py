"""A scored result and a judge: what is asked, by whom it is answered, and what the answers are worth.

Verdicts change nothing about the matching: PA pairs are assigned, and Seg F1 matches made, before a judge is asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from mabpl.benchmarks.micro_annotation import verdict_lists
from mabpl.benchmarks.micro_annotation.scores import Scores
from mabpl.errors import UsageError, unknown_name
from mabpl.judges import asking, requests
from mabpl.judges.asking import LABEL_KINDS as KINDS
from mabpl.judges.asking import Forecast as Forecast
from mabpl.judges.asking import Judging as Judging
from mabpl.judges.asking import Plan as Plan
from mabpl.judges.asking import Tell
from mabpl.judges.asking import embedded_verdicts as embedded_verdicts
from mabpl.judges.asking import questions as questions
from mabpl.judges.client import Outcome
from mabpl.judges.judge import JudgeKind
from mabpl.judges.prompts import Prompts, load_prompts
from mabpl.metrics import summary, verdicts
from mabpl.tables import schemas
from mabpl.timelines import TIMELINE_KEY

Kind = JudgeKind

_NO_SEED = 0
"""Stands for the one verdict of a judge that takes no seed where PA-F1 counts judge seeds; shown as null."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A judged result.

    ``outcomes``: what asking came to, per kind, where something was asked. ``left_out``: kinds of which the store has
    no verdict, while it has some of another.
    """

    scores: Scores
    plan: Plan
    outcomes: Mapping[Kind, Outcome]
    left_out: tuple[Kind, ...] = ()

    @property
    def interrupted(self) -> bool:
        return any(outcome.interrupted for outcome in self.outcomes.values())


@dataclass(frozen=True)
class _Recorded(Prompts):
    """Prompts of which a result holds only the hashes."""

    hashes: Mapping[Kind, str]

    def hash(self, kind: str) -> str:
        return self.hashes[kind]  # type: ignore[index]


def plan(scores: Scores, kinds: Sequence[Kind], root: str | None = None, *, prompts: Prompts | None = None) -> Plan:
    """The requests of ``scores``; equal ones are one. Prompts: ``prompts``, or those of the dataset folder ``root``."""
    prompts = prompts or load_prompts(root)
    asked: dict[Kind, pl.DataFrame] = {}
    tables = []
    for kind in kinds:
        if kind == "pa":
            found = requests.pa_requests(
                scores.pairs, scores.segments, prompts, scores.settings, matches=scores.matches
            )
        else:
            found = requests.joint_requests(
                scores.matches, scores.segments, scores.table("clips"), prompts, scores.settings
            )
        asked[kind] = found[0]
        tables.append(found[1])
    return Plan(prompts, asked, pl.concat(tables).sort("request") if tables else schemas.REQUESTS.empty())


def forecast(scores: Scores, judging: Judging, price_in: float | None = None) -> list[Forecast]:
    """What :func:`judge_scores` would ask if each call gives a verdict; asks nothing, and makes no store."""
    return asking.forecast(plan(scores, judging.kinds, judging.root), judging, price_in)


def judge_scores(scores: Scores, judging: Judging, progress: Tell | None = None) -> Judged:
    """``scores`` with PA-F1, strict PA-F1, Joint F1 and the headline, as far as there are verdicts.

    A clip that lacks a verdict is unscored (null) in that metric and the result is incomplete, never 0. After an
    interruption nothing more is asked: the verdicts so far count.
    """
    planned = plan(scores, judging.kinds, judging.root)
    answered = asking.verdicts_on(planned, judging, progress)
    planned = planned.without(answered.left_out)
    provenance = {
        "judges": {kind: judging.profile(kind) for kind in planned.asked},
        "prompts": planned.prompts.provenance(),
    }
    judged = with_verdicts(scores, planned, pl.concat(answered.verdicts.values()), provenance)
    return Judged(judged, planned, answered.outcomes, answered.left_out)


def judged_by(scores: Scores, judge: str | Judging | pl.DataFrame) -> Scores:
    """``scores`` judged by ``"embedded"``, by a :class:`Judging`, or by the rows of a `verdicts` table.

    Such a table must be of one judge for each kind. Its rows are joined by request: what was asked of other prompts or
    labels is not taken. Raises :class:`UsageError` where none of a kind is of these timelines.
    """
    if isinstance(judge, Judging):
        return judge_scores(scores, judge).scores
    if isinstance(judge, str):
        if judge != "embedded":
            raise unknown_name("judge", judge, ["embedded"])
        return judge_scores(scores, Judging("embedded")).scores
    given = schemas.VERDICTS.conform(judge)
    kinds = [kind for kind in KINDS if kind in given["kind"].unique()]
    if not kinds:
        raise UsageError("the table of verdicts has none of kind pa or joint", "mabpl.judges.store reads a store's")
    profiles = {kind: _profile_of(given.filter(kind=kind), kind) for kind in kinds}
    planned = plan(scores, kinds)
    found = given.join(planned.requests, on=["request", "kind"], how="semi")
    for kind in kinds:
        if found.filter(kind=kind).is_empty() and not planned.of(kind).is_empty():
            raise UsageError(
                f"none of the {kind} verdicts is about these timelines, as our prompts put them to a judge",
                'verdicts on a dataset folder\'s prompts: judge=mabpl.Judging("stored", root=..., ...)',
            )
    return with_verdicts(scores, planned, found, {"judges": profiles, "prompts": planned.prompts.provenance()})


def _profile_of(given: pl.DataFrame, kind: Kind) -> dict[str, Any]:
    judges = given.select("judge", "route").unique()
    if judges.height != 1:
        raise UsageError(f"the {kind} verdicts are of {judges.height} judges", "filter them to one judge and route")
    name, route = judges.row(0)
    seeds = given["judge_seed"].drop_nulls().unique().sort().to_list()
    return {"kind": kind, "judge": name, "route": route, "judge_seeds": seeds, "body": None}


def with_verdicts(scores: Scores, planned: Plan, found: pl.DataFrame, judging: Mapping[str, Any]) -> Scores:
    """``scores`` joined with the verdicts of the kinds that ``planned`` asks.

    ``found``: the table `verdicts`, with at most one row of status ok per request and judge seed. ``judging``: what
    ``Scores.judging`` is to hold.
    """
    clip_scores = scores.table("clip_scores").sort(TIMELINE_KEY)
    key = clip_scores.select(TIMELINE_KEY)
    tables = {name: made for name, made in scores.tables.items() if name != "set_scores"}  # it adds up anew
    with ThreadPoolExecutor(1) as beside:  # numpy and polars let go of the lock
        joint = beside.submit(_joint_counts, planned, found, key) if "joint" in planned.asked else None
        if "pa" in planned.asked:
            clip_scores = clip_scores.with_columns(_pa_credits(scores, planned, found, key, judging))
            tables["pairs"] = lambda: _linked(scores.pairs, planned.asked["pa"], "pairs")
    if joint is not None:
        clip_scores = clip_scores.with_columns(joint.result())
        tables["matches"] = lambda: _linked(scores.matches, planned.asked["joint"], "matches")
    valued = summary.clip_values(clip_scores.drop(column.name for column in schemas.CLIP_METRICS))
    tables["clip_scores"] = schemas.CLIP_SCORES.conform(valued)
    tables["requests"] = planned.requests
    tables["verdicts"] = lambda: found.sort("request", "judge_seed", "key")
    return replace(scores, tables=tables, judging=judging, _made={})


def _pa_credits(
    scores: Scores, planned: Plan, found: pl.DataFrame, key: pl.DataFrame, judging: Mapping[str, Any]
) -> pl.DataFrame:
    pairs, seeds = planned.asked["pa"], judging["judges"]["pa"]["judge_seeds"]
    if not seeds:
        found = found.with_columns(judge_seed=pl.lit(_NO_SEED, pl.Int64))
    with ThreadPoolExecutor(1) as beside:
        asked = beside.submit(verdicts.index, pairs, key, scores.matches.filter(metric="pa"))
        answers = verdicts.pa_answers(found, seeds or [_NO_SEED], pairs["request"], _answered("pa"))
    earned = verdicts.pa_credits(asked.result(), answers)
    return earned if seeds else earned.with_columns(judge_seeds=pl.lit(None, pl.List(pl.Int64)))


def _joint_counts(planned: Plan, found: pl.DataFrame, key: pl.DataFrame) -> pl.DataFrame:
    answers = verdicts.joint_answers(found, planned.asked["joint"]["request"], _answered("joint"))
    return verdicts.joint_counts(verdicts.index(planned.asked["joint"], key), answers)


def _answered(kind: Kind) -> pl.Expr:
    return (pl.col("status") == "ok") & (pl.col("kind") == kind)


def rejoin(scores: Scores, result: Scores) -> Scores:
    """``scores`` joined with the verdicts of ``result``, which was made from the same timelines.

    What the judge was asked is made again from the labels; only its answers are taken.
    """
    return _rejoined(scores, result.judging or {}, result.requests, result.verdicts)


def rejoin_document(scores: Scores, document: Mapping[str, Any]) -> Scores:
    """``scores`` joined with the verdicts that a result JSON lists; see :func:`rejoin`."""
    judge = document["provenance"].get("judge")
    if judge is None:
        return scores
    judging = {"judges": {judge["kind"]: judge}, "prompts": document["provenance"]["prompts"]}
    return _rejoined(scores, judging, *verdict_lists.tables(dict(document), judge["kind"])[1:])


def _rejoined(scores: Scores, judging: Mapping[str, Any], asked: pl.DataFrame, given: pl.DataFrame) -> Scores:
    kinds = [kind for kind in KINDS if kind in judging["judges"]]
    hashes = {kind: str(asked.filter(kind=kind)["prompt_hash"].first() or "") for kind in kinds}
    planned = plan(scores, kinds, prompts=_Recorded({}, hashes))
    return with_verdicts(scores, planned, given.join(planned.requests, on=["request", "kind"], how="semi"), judging)


def _linked(table: pl.DataFrame, asked: pl.DataFrame, name: str) -> pl.DataFrame:
    """``table`` with the request that each of its rows became."""
    schema = schemas.TABLES[name]
    on = list(dict.fromkeys([*schema.key, "human"]))
    links = asked.select(*on, "request")
    return schema.conform(table.drop("request").join(links, on=on, how="left", maintain_order="left"))
