"""A scored result and a judge: what is asked, by whom it is answered, and what the answers are worth.

Verdicts change nothing about the matching: PA pairs are assigned, and Seg F1 matches made, before a judge is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import polars as pl

from mabpl.benchmarks.micro_annotation import verdict_lists
from mabpl.benchmarks.micro_annotation.scoring import Scores
from mabpl.errors import UsageError, unknown_name
from mabpl.judges import embedded, requests
from mabpl.judges.client import Outcome, Progress, ask
from mabpl.judges.endpoint import Endpoint, Price
from mabpl.judges.judge import Judge
from mabpl.judges.prompts import Prompts, load_prompts, messages
from mabpl.judges.store import Store
from mabpl.judges.types import Question, fingerprint
from mabpl.metrics import summary, verdicts
from mabpl.tables import schemas

Kind = Literal["pa", "joint"]
KINDS: tuple[Kind, ...] = ("pa", "joint")
HOW = ("api", "embedded", "stored", "none")

EMBEDDED_SEED = 0
"""Stands for the one verdict of a judge that takes no seed where PA-F1 counts judge seeds; shown as none."""

_JOIN_KEY = ["run", "set", "clip_id"]


@dataclass(frozen=True, slots=True)
class Judging:
    """How a result is judged. ``judges``: for each kind the judge, and the endpoint where it is asked.

    ``how``: ``api`` asks what the store lacks, ``stored`` takes what it has, ``embedded`` needs neither. ``store``: the
    verdict store's folder. ``root``: a dataset folder whose prompts win.
    """

    how: Literal["api", "embedded", "stored"]
    kinds: tuple[Kind, ...] = KINDS
    judges: Mapping[Kind, tuple[Judge, Endpoint | None]] = field(default_factory=dict)
    store: Path | None = None
    root: str | None = None
    concurrency: int = 25
    give_up_after: float = 900.0
    max_calls: int | None = None
    max_cost: float | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """What judging would ask. ``asked``: per kind the pairs, each with its request. ``requests``: the distinct ones."""

    prompts: Prompts
    asked: Mapping[Kind, pl.DataFrame]
    requests: pl.DataFrame

    def of(self, kind: Kind) -> pl.DataFrame:
        return self.requests.filter(kind=kind)


@dataclass(frozen=True, slots=True)
class Judged:
    """A judged result. ``outcomes``: what asking came to, per kind, where something was asked."""

    scores: Scores
    plan: Plan
    outcomes: Mapping[Kind, Outcome]

    @property
    def interrupted(self) -> bool:
        return any(outcome.interrupted for outcome in self.outcomes.values())


def plan(scores: Scores, kinds: Sequence[Kind], root: str | None = None) -> Plan:
    """The requests of ``scores``; equal ones are one."""
    prompts = load_prompts(root)
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


def questions(of: Plan, kind: Kind, judge: Judge) -> Iterator[Question]:
    """Every call that ``of`` needs of ``judge``: each request with each judge seed."""
    for request in requests.as_requests(of.of(kind)):
        said = messages(request, of.prompts)
        for seed in judge.seeds:
            yield judge.question(request, said, seed)


@dataclass(frozen=True, slots=True)
class Forecast:
    """What judging would take: ``pairs``, distinct ``requests``, ``calls`` still to be made, and their input tokens.

    ``tokens_in`` is an estimate of four characters a token; what comes out depends on how much a judge thinks.
    """

    kind: Kind
    pairs: int
    requests: int
    calls: int
    tokens_in: int
    cost_in: float | None


def forecast(scores: Scores, judging: Judging, price_in: float | None = None) -> list[Forecast]:
    """What :func:`judge_scores` would ask, less what the store has; asks nothing and writes nothing."""
    planned = plan(scores, judging.kinds, judging.root)
    found = []
    for kind in judging.kinds:
        put: list[Question] = []
        if judging.how != "embedded":
            put = list(questions(planned, kind, judging.judges[kind][0]))
            if judging.store is not None and judging.store.is_dir():
                with Store.open(judging.store) as store:
                    known = store.known([question.key for question in put])
                put = [question for question in put if question.key not in known]
        characters = sum(len(message["content"]) for question in put for message in question.body["messages"])
        tokens = characters // 4
        cost = None if price_in is None else tokens * price_in / 1e6
        found.append(Forecast(kind, planned.asked[kind].height, planned.of(kind).height, len(put), tokens, cost))
    return found


def judge_scores(
    scores: Scores,
    judging: Judging,
    progress: Callable[[Kind, Progress], object] | None = None,
) -> Judged:
    """``scores`` with PA-F1, strict PA-F1, Joint F1 and the headline, as far as there are verdicts.

    A clip that lacks a verdict is unscored (null) in that metric and the result is incomplete, never 0.
    """
    planned = plan(scores, judging.kinds, judging.root)
    found: dict[Kind, pl.DataFrame] = {}
    outcomes: dict[Kind, Outcome] = {}
    for kind in judging.kinds:
        if judging.how == "embedded":
            found[kind] = embedded_verdicts(planned.of(kind))
        else:
            found[kind], outcome = _from_store(planned, kind, judging, progress)
            if outcome is not None:
                outcomes[kind] = outcome
    profiles = {kind: _profile(judging, kind) for kind in judging.kinds}
    judging_ = {"judges": profiles, "prompts": planned.prompts.provenance()}
    return Judged(with_verdicts(scores, planned.asked, planned.requests, found, judging_), planned, outcomes)


def judged_by(scores: Scores, judge: str | Judging | pl.DataFrame) -> Scores:
    """``scores`` judged by ``"embedded"``, by a :class:`Judging`, or by the rows of a `verdicts` table.

    Such a table must be of one judge for each kind. Its rows are joined by request: what was asked of other prompts or
    labels is not taken.
    """
    if isinstance(judge, Judging):
        return judge_scores(scores, judge).scores
    if isinstance(judge, str):
        if judge != "embedded":
            raise unknown_name("judge", judge, ["embedded"])
        return judge_scores(scores, Judging("embedded")).scores
    given = schemas.VERDICTS.conform(judge)
    kinds = [kind for kind in KINDS if kind in given["kind"].unique()]
    profiles = {kind: _profile_of(given.filter(kind=kind), kind) for kind in kinds}
    planned = plan(scores, kinds)
    found = {kind: given.filter(kind=kind).join(planned.of(kind), on="request", how="semi") for kind in kinds}
    provenance = {"judges": profiles, "prompts": planned.prompts.provenance()}
    return with_verdicts(scores, planned.asked, planned.requests, found, provenance)


def _profile_of(given: pl.DataFrame, kind: Kind) -> dict[str, Any]:
    judges = given.select("judge", "route").unique()
    if judges.height != 1:
        raise UsageError(f"the {kind} verdicts are of {judges.height} judges", "filter them to one judge and route")
    name, route = judges.row(0)
    seeds = given["judge_seed"].drop_nulls().unique().sort().to_list()
    return {"kind": kind, "judge": name, "route": route, "judge_seeds": seeds, "body": None}


def _from_store(
    planned: Plan, kind: Kind, judging: Judging, progress: Callable[[Kind, Progress], object] | None
) -> tuple[pl.DataFrame, Outcome | None]:
    judge, endpoint = judging.judges[kind]
    if judging.store is None:
        raise UsageError("no verdict store is named", "give --cache DIR")
    with Store.open(judging.store) as store:
        calls, cost = store.spent()
        store.max_calls = None if judging.max_calls is None else calls + judging.max_calls
        store.max_cost = None if judging.max_cost is None else cost + judging.max_cost
        put = list(questions(planned, kind, judge))
        outcome = None
        if judging.how == "api":
            if endpoint is None:
                raise UsageError(f"no endpoint for the {kind} judge is named", "set its base URL and API key")
            outcome = ask(
                put, endpoint, store, concurrency=judging.concurrency, give_up_after=judging.give_up_after,
                progress=None if progress is None else lambda now: progress(kind, now),
            )  # fmt: skip
            store.export()
        keys = pl.Series("key", [question.key for question in put], dtype=pl.String)
        return store.verdicts(kind).join(keys.to_frame(), on="key", how="semi", maintain_order="left"), outcome


def _profile(judging: Judging, kind: Kind) -> dict[str, Any]:
    if judging.how == "embedded":
        return {"kind": kind, "judge": embedded.EMBEDDED, "route": "embedded", "judge_seeds": [], "body": {}}
    return judging.judges[kind][0].profile


def embedded_verdicts(asked: pl.DataFrame) -> pl.DataFrame:
    """The `verdicts` of the embedded judge on rows of `requests` of one kind."""
    predicted, primary = asked["predicted_label"].to_list(), asked["primary"].to_list()
    joint = asked.height > 0 and asked["kind"][0] == "joint"
    if joint:
        values = {"accepted": pl.Series(embedded.judge_joint(predicted, primary))}
    else:
        score, equivalent = embedded.judge_pa(predicted, primary, asked["also"].to_list())
        values = {"score": pl.Series(score), "equivalent": pl.Series(equivalent)}
    version = embedded.EMBEDDED.rpartition("/")[2]
    keys = [fingerprint({"judge": embedded.EMBEDDED, "request": request}) for request in asked["request"]]
    return schemas.VERDICTS.conform(
        asked.select("request", "kind").with_columns(
            pl.Series("key", keys, dtype=pl.String), pl.lit(embedded.EMBEDDED).alias("judge"),
            pl.lit("embedded").alias("route"), pl.lit("ok").alias("status"), pl.lit("").alias("reply"),
            pl.lit("").alias("reasoning"), pl.lit(int(version)).alias("parser"), **values,
        )
    ).sort("key")  # fmt: skip


def with_verdicts(
    scores: Scores,
    asked: Mapping[Kind, pl.DataFrame],
    requested: pl.DataFrame,
    found: Mapping[Kind, pl.DataFrame],
    judging: Mapping[str, Any],
) -> Scores:
    """``scores`` joined with verdicts.

    ``asked``: per kind the pairs, each with its request; ``requested`` and ``found``: the tables `requests` and, per
    kind, `verdicts` (at most one row per request and judge seed). ``judging``: what ``Scores.judging`` is to hold.
    """
    clip_scores = scores.table("clip_scores")
    key = clip_scores.select(_JOIN_KEY)
    tables = dict(scores.tables)
    if "pa" in found:
        assigned = scores.matches.filter(metric="pa").select(*_JOIN_KEY, "predicted", "human", counts=pl.lit(True))
        pairs = asked["pa"].join(assigned, on=[*_JOIN_KEY, "predicted", "human"], how="left")
        seeds = judging["judges"]["pa"]["judge_seeds"] or [EMBEDDED_SEED]
        earned = verdicts.pa_credits(
            verdicts.index(pairs.with_columns(pl.col("counts").fill_null(False)), key),
            found["pa"].filter(status="ok").with_columns(pl.col("judge_seed").fill_null(EMBEDDED_SEED)),
            seeds,
        )
        clip_scores = clip_scores.drop("credit", "strict_credit", "judge_seeds").join(earned, on=_JOIN_KEY, how="left")
        tables["pairs"] = _linked(scores.pairs, asked["pa"], "pairs")
    if "joint" in found:
        matched = verdicts.index(asked["joint"].with_columns(counts=pl.lit(True)), key)
        counts = verdicts.joint_counts(matched, found["joint"].filter(status="ok"))
        clip_scores = clip_scores.drop("j").join(counts, on=_JOIN_KEY, how="left")
        tables["matches"] = _linked(scores.matches, asked["joint"], "matches")
    valued = summary.clip_values(clip_scores.drop(column.name for column in schemas.CLIP_METRICS))
    tables["clip_scores"] = schemas.CLIP_SCORES.conform(valued).sort(_JOIN_KEY)
    tables["requests"] = requested
    tables["verdicts"] = pl.concat([found[kind] for kind in sorted(found)]).sort("key")
    return replace(scores, tables=tables, judging=judging, _made={})


def rejoin(scores: Scores, result: Scores) -> Scores:
    """``scores`` joined with the verdicts of ``result``, which was made from the same timelines."""
    asked: dict[Kind, pl.DataFrame] = {}
    judges = (result.judging or {})["judges"]
    if "pa" in judges:
        asked["pa"] = result.pairs.filter(pl.col("request").is_not_null())
    if "joint" in judges:
        asked["joint"] = result.matches.filter(pl.col("request").is_not_null())
    found = {kind: result.verdicts.filter(kind=kind) for kind in asked}
    return with_verdicts(scores, asked, result.requests, found, result.judging or {})


def rejoin_document(scores: Scores, document: Mapping[str, Any]) -> Scores:
    """``scores`` joined with the verdicts that a result JSON lists."""
    provenance = document["provenance"]
    judge = provenance.get("judge")
    if judge is None:
        return scores
    kind: Kind = "joint" if judge["kind"] == "joint" else "pa"
    asked, requested, found = verdict_lists.tables(dict(document), kind)
    run, set_name = scores.runs.select("run", "set").row(0)
    asked = asked.with_columns(run=pl.lit(run), set=pl.lit(set_name), metric=pl.lit("seg"))
    judging = {"judges": {kind: judge}, "prompts": provenance["prompts"]}
    return with_verdicts(scores, {kind: asked}, requested, {kind: found}, judging)


def _linked(table: pl.DataFrame, asked: pl.DataFrame, name: str) -> pl.DataFrame:
    """``table`` with the request that each of its rows became."""
    schema = schemas.TABLES[name]
    on = list(dict.fromkeys([*schema.key, "human"]))
    links = asked.select(*on, "request")
    return schema.conform(table.drop("request").join(links, on=on, how="left", maintain_order="left"))


def price(per_million_in: float | None, per_million_out: float | None) -> Price | None:
    """Prices per million tokens, where one is given."""
    if per_million_in is None and per_million_out is None:
        return None
    return Price(per_million_in or 0.0, per_million_out or 0.0)
