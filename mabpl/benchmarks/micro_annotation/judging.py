"""A scored result and a judge: what is asked, by whom it is answered, and what the answers are worth.

Verdicts change nothing about the matching: PA pairs are assigned, and Seg F1 matches made, before a judge is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import polars as pl

from mabpl.benchmarks.micro_annotation import verdict_lists
from mabpl.benchmarks.micro_annotation.scores import Scores
from mabpl.errors import UsageError, unknown_name, unreadable
from mabpl.judges import embedded, requests
from mabpl.judges.client import Outcome, Progress, ask
from mabpl.judges.endpoint import Endpoint, Price
from mabpl.judges.judge import Judge, from_environment
from mabpl.judges.prompts import Prompts, load_prompts, messages
from mabpl.judges.store import Store
from mabpl.judges.store_schema import FILE as STORE_FILE
from mabpl.judges.types import Question, fingerprint
from mabpl.metrics import summary, verdicts
from mabpl.tables import schemas
from mabpl.timelines import TIMELINE_KEY

Kind = Literal["pa", "joint"]
KINDS: tuple[Kind, ...] = ("pa", "joint")
HOW = ("api", "embedded", "stored", "none")

_NO_SEED = 0
"""Stands for the one verdict of a judge that takes no seed where PA-F1 counts judge seeds; shown as null."""

_LONGEST_ANSWER = 8_192
"""Tokens that an answer is taken to have at most, thinking included, where the request sets no limit."""


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

    @classmethod
    def from_environment(
        cls,
        how: Literal["api", "stored"] = "api",
        *,
        kinds: Sequence[Kind] = KINDS,
        store: str | Path = "judge_cache",
        root: str | None = None,
        judge_seeds: Sequence[int] | None = None,
        **limits: Any,
    ) -> Judging:
        """The judges that the ``MAB_JUDGE_*`` and ``MAB_JOINT_JUDGE_*`` variables name, or the published ones.

        ``limits``: concurrency, give_up_after, max_calls, max_cost. Raises :class:`UsageError` where a judge that is
        to be asked has no API key.
        """
        judges: dict[Kind, tuple[Judge, Endpoint | None]] = {}
        for kind in kinds:
            found, key = from_environment(kind, seeds=judge_seeds if kind == "pa" else None)
            if how == "api" and key is None:
                raise UsageError(f"the {kind} judge at {found.route} has no API key", "set its API key variable")
            judges[kind] = found, Endpoint(found.base_url, key) if how == "api" else None
        return cls(how, tuple(kinds), judges, Path(store), root, **limits)


@dataclass(frozen=True, slots=True)
class Plan:
    """What judging would ask. ``asked``: per kind the pairs, each with its request. ``requests``: the distinct ones."""

    prompts: Prompts
    asked: Mapping[Kind, pl.DataFrame]
    requests: pl.DataFrame

    def of(self, kind: Kind) -> pl.DataFrame:
        return self.requests.filter(kind=kind)

    def without(self, kinds: Sequence[Kind]) -> Plan:
        asked = {kind: pairs for kind, pairs in self.asked.items() if kind not in kinds}
        return replace(self, asked=asked, requests=self.requests.filter(~pl.col("kind").is_in(kinds)))


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


def questions(of: Plan, kind: Kind, judge: Judge, price: Price | None = None) -> Iterator[Question]:
    """Every call that ``of`` needs of ``judge``: each request with each judge seed; at ``price`` with its worst cost.

    That is for an input of two bytes a token, and the longest answer that the request allows.
    """
    longest = judge.template.get("max_tokens") or judge.template.get("max_completion_tokens") or _LONGEST_ANSWER
    for request in requests.as_requests(of.of(kind)):
        said = messages(request, of.prompts)
        worst = 0.0 if price is None else price.of(sum(len(m["content"].encode()) for m in said) // 2, longest)
        for seed in judge.seeds:
            yield replace(judge.question(request, said, seed), worst_cost=worst)


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
    """What :func:`judge_scores` would ask if each call gives a verdict; asks nothing, and makes no store."""
    planned = plan(scores, judging.kinds, judging.root)
    found: list[Forecast] = []
    for kind in judging.kinds:
        put: list[Question] = []
        if judging.how != "embedded":
            put = list(questions(planned, kind, judging.judges[kind][0]))
            if judging.store is not None and (judging.store / STORE_FILE).is_file():
                with Store.open(judging.store) as store:
                    known = store.known([question.key for question in put])
                put = [question for question in put if question.key not in known]
        if judging.max_calls is not None:
            put = put[: judging.max_calls - sum(earlier.calls for earlier in found)]
        characters = sum(len(message["content"]) for question in put for message in question.body["messages"])
        tokens = characters // 4
        cost = None if price_in is None else tokens * price_in / 1e6
        pairs, distinct = planned.asked[kind].height, planned.of(kind).height
        found.append(Forecast(kind, pairs, distinct, len(put), tokens, cost))
    return found


def judge_scores(
    scores: Scores,
    judging: Judging,
    progress: Callable[[Kind, Progress], object] | None = None,
) -> Judged:
    """``scores`` with PA-F1, strict PA-F1, Joint F1 and the headline, as far as there are verdicts.

    A clip that lacks a verdict is unscored (null) in that metric and the result is incomplete, never 0. After an
    interruption nothing more is asked: the verdicts so far count.
    """
    planned = plan(scores, judging.kinds, judging.root)
    left_out: tuple[Kind, ...] = ()
    outcomes: dict[Kind, Outcome] = {}
    if judging.how == "embedded":
        found = {kind: embedded_verdicts(planned.of(kind)) for kind in judging.kinds}
    else:
        with _store(judging) as store:
            found = {kind: _from_store(planned, kind, judging, store, outcomes, progress) for kind in judging.kinds}
    if judging.how == "stored":
        none = [kind for kind in found if found[kind].is_empty() and not planned.of(kind).is_empty()]
        left_out = tuple(none) if len(none) < len(found) else ()
        planned = planned.without(left_out)
    profiles = {kind: _profile(judging, kind) for kind in planned.asked}
    provenance = {"judges": profiles, "prompts": planned.prompts.provenance()}
    judged = with_verdicts(scores, planned, pl.concat(found.values()), provenance)
    return Judged(judged, planned, outcomes, left_out)


def _store(judging: Judging) -> Store:
    """The open store, with the budget of one run."""
    if judging.store is None:
        raise UsageError("no verdict store is named", "give --cache DIR")
    if judging.how == "stored" and not (judging.store / STORE_FILE).is_file():
        raise unreadable(judging.store, "holds no verdicts", "give the folder of the verdict store: --cache DIR")
    store = Store.open(judging.store)
    calls, cost = store.spent()
    store.max_calls = None if judging.max_calls is None else calls + judging.max_calls
    store.max_cost = None if judging.max_cost is None else cost + judging.max_cost
    return store


def _from_store(
    planned: Plan,
    kind: Kind,
    judging: Judging,
    store: Store,
    outcomes: dict[Kind, Outcome],
    progress: Callable[[Kind, Progress], object] | None,
) -> pl.DataFrame:
    """The `verdicts` on ``planned``; what is lacking is asked first, which becomes one of ``outcomes``."""
    judge, endpoint = judging.judges[kind]
    put = list(questions(planned, kind, judge, None if endpoint is None else endpoint.price))
    if judging.how == "api" and not any(outcome.interrupted for outcome in outcomes.values()):
        outcomes[kind] = _ask(put, kind, judging, store, progress)
    keys = pl.Series("key", [question.key for question in put], dtype=pl.String)
    return store.verdicts(kind).join(keys.to_frame(), on="key", how="semi")


def _ask(
    put: Iterable[Question],
    kind: Kind,
    judging: Judging,
    store: Store,
    progress: Callable[[Kind, Progress], object] | None,
) -> Outcome:
    endpoint = judging.judges[kind][1]
    if endpoint is None:
        raise UsageError(f"no endpoint for the {kind} judge is named", "set its base URL and API key")
    outcome = ask(
        put, endpoint, store, concurrency=judging.concurrency, give_up_after=judging.give_up_after,
        progress=None if progress is None else lambda now: progress(kind, now),
    )  # fmt: skip
    store.export()
    return outcome


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


def with_verdicts(scores: Scores, planned: Plan, found: pl.DataFrame, judging: Mapping[str, Any]) -> Scores:
    """``scores`` joined with the verdicts of the kinds that ``planned`` asks.

    ``found``: the table `verdicts`, with at most one row of status ok per request and judge seed. ``judging``: what
    ``Scores.judging`` is to hold.
    """
    clip_scores = scores.table("clip_scores")
    key = clip_scores.select(TIMELINE_KEY)
    tables = dict(scores.tables)
    given = found.lazy().filter(status="ok")
    with ThreadPoolExecutor(2) as pool:  # numpy and polars let go of the lock: the one kind is joined beside the other
        pa = pool.submit(_pa_credits, scores, planned, given, key, judging) if "pa" in planned.asked else None
        joint = pool.submit(_joint_counts, planned, given, key) if "joint" in planned.asked else None
    if pa is not None:
        clip_scores = clip_scores.drop("credit", "strict_credit", "judge_seeds").join(pa.result(), on=TIMELINE_KEY)
        tables["pairs"] = lambda: _linked(scores.pairs, planned.asked["pa"], "pairs")
    if joint is not None:
        clip_scores = clip_scores.drop("j").join(joint.result(), on=TIMELINE_KEY)
        tables["matches"] = lambda: _linked(scores.matches, planned.asked["joint"], "matches")
    valued = summary.clip_values(clip_scores.drop(column.name for column in schemas.CLIP_METRICS))
    tables["clip_scores"] = schemas.CLIP_SCORES.conform(valued).sort(TIMELINE_KEY)
    tables["requests"] = planned.requests
    tables["verdicts"] = lambda: found.sort("request", "judge_seed", "key")
    return replace(scores, tables=tables, judging=judging, _made={})


def _pa_credits(
    scores: Scores, planned: Plan, given: pl.LazyFrame, key: pl.DataFrame, judging: Mapping[str, Any]
) -> pl.DataFrame:
    assigned = scores.matches.filter(metric="pa")
    seeds = judging["judges"]["pa"]["judge_seeds"]
    answers = given.filter(kind="pa")
    asked = verdicts.index(planned.asked["pa"], key, assigned)
    if seeds:
        return verdicts.pa_credits(asked, answers, seeds)
    earned = verdicts.pa_credits(asked, answers.with_columns(judge_seed=pl.lit(_NO_SEED, pl.Int64)), [_NO_SEED])
    return earned.with_columns(judge_seeds=pl.lit(None, pl.List(pl.Int64)))


def _joint_counts(planned: Plan, given: pl.LazyFrame, key: pl.DataFrame) -> pl.DataFrame:
    return verdicts.joint_counts(verdicts.index(planned.asked["joint"], key), given.filter(kind="joint"))


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


def price(per_million_in: float | None, per_million_out: float | None) -> Price | None:
    """Prices per million tokens, where one is given."""
    if per_million_in is None and per_million_out is None:
        return None
    return Price(per_million_in or 0.0, per_million_out or 0.0)
