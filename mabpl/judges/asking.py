"""From requests to verdicts, whatever is judged: how a judge is asked, what it would take, and what came of it.

A benchmark makes the :class:`Plan` (what it wants judged, as `requests`) and joins the verdicts to what it asked about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import polars as pl

from mabpl.errors import UsageError, unreadable
from mabpl.judges import embedded, requests
from mabpl.judges.client import Outcome, Progress, ask
from mabpl.judges.endpoint import Endpoint, Price
from mabpl.judges.judge import Judge, JudgeKind, from_environment
from mabpl.judges.prompts import Prompts, messages
from mabpl.judges.store import Store
from mabpl.judges.store_schema import FILE as STORE_FILE
from mabpl.judges.types import Question, fingerprint
from mabpl.tables import schemas

LABEL_KINDS: tuple[JudgeKind, ...] = ("pa", "joint")
"""The judges of MicroAnnotationBench."""

_SEEDED = ("pa", "timing", "labels")
_LONGEST_ANSWER = 8_192
"""Tokens that an answer is taken to have at most, thinking included, where the request sets no limit."""

Tell = Callable[[JudgeKind, Progress], object]


@dataclass(frozen=True, slots=True)
class Judging:
    """How a result is judged. ``judges``: for each kind the judge, and the endpoint where it is asked.

    ``how``: ``api`` asks what the store lacks, ``stored`` takes what it has, ``embedded`` needs neither. ``store``: the
    verdict store's folder. ``root``: a dataset folder whose prompts win.
    """

    how: Literal["api", "embedded", "stored"]
    kinds: tuple[JudgeKind, ...] = LABEL_KINDS
    judges: Mapping[JudgeKind, tuple[Judge, Endpoint | None]] = field(default_factory=dict)
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
        kinds: Sequence[JudgeKind] = LABEL_KINDS,
        store: str | Path = "judge_cache",
        root: str | None = None,
        judge_seeds: Sequence[int] | None = None,
        **limits: Any,
    ) -> Judging:
        """The judges that the ``MAB_JUDGE_*`` and ``MAB_JOINT_JUDGE_*`` variables name, or the published ones.

        ``limits``: concurrency, give_up_after, max_calls, max_cost. Raises :class:`UsageError` where a judge that is
        to be asked has no API key.
        """
        judges: dict[JudgeKind, tuple[Judge, Endpoint | None]] = {}
        for kind in kinds:
            found, key = from_environment(kind, seeds=judge_seeds if kind in _SEEDED else None)
            if how == "api" and key is None:
                raise UsageError(f"the {kind} judge at {found.route} has no API key", "set its API key variable")
            judges[kind] = found, Endpoint(found.base_url, key) if how == "api" and key is not None else None
        return cls(how, tuple(kinds), judges, Path(store), root, **limits)

    def profile(self, kind: JudgeKind) -> dict[str, Any]:
        """Who judges ``kind``, for a result."""
        if self.how == "embedded":
            return {"kind": kind, "judge": embedded.EMBEDDED, "route": "embedded", "judge_seeds": [], "body": {}}
        return self.judges[kind][0].profile


@dataclass(frozen=True, slots=True)
class Plan:
    """What judging would ask. ``asked``: per kind the pairs, each with its request. ``requests``: the distinct ones."""

    prompts: Prompts
    asked: Mapping[JudgeKind, pl.DataFrame]
    requests: pl.DataFrame

    def of(self, kind: JudgeKind) -> pl.DataFrame:
        return self.requests.filter(kind=kind)

    def without(self, kinds: Sequence[JudgeKind]) -> Plan:
        asked = {kind: pairs for kind, pairs in self.asked.items() if kind not in kinds}
        return replace(self, asked=asked, requests=self.requests.filter(~pl.col("kind").is_in(kinds)))


def questions(of: Plan, kind: JudgeKind, judge: Judge, price: Price | None = None) -> Iterator[Question]:
    """Every call that ``of`` needs of ``judge``: each request with each judge seed; at ``price`` with its worst cost.

    That is for an input of two bytes a token, and the longest answer that the request allows.
    """
    longest = judge.template.get("max_tokens") or judge.template.get("max_completion_tokens") or _LONGEST_ANSWER
    for request in requests.as_requests(of.of(kind)):
        said = messages(request, of.prompts)
        asked = (judge.question(request, said, seed) for seed in judge.seeds)
        if price is None:
            yield from asked
            continue
        worst = price.of(sum(len(m["content"].encode()) for m in said) // 2, longest)
        yield from (replace(question, worst_cost=worst) for question in asked)


@dataclass(frozen=True, slots=True)
class Forecast:
    """What judging would take: ``pairs``, distinct ``requests``, ``calls`` still to be made, and their input tokens.

    ``tokens_in`` is an estimate of four characters a token; what comes out depends on how much a judge thinks.
    """

    kind: JudgeKind
    pairs: int
    requests: int
    calls: int
    tokens_in: int
    cost_in: float | None


def forecast(planned: Plan, judging: Judging, price_in: float | None = None) -> list[Forecast]:
    """What :func:`verdicts_on` would ask if each call gives a verdict; asks nothing, and makes no store."""
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


@dataclass(frozen=True, slots=True)
class Answered:
    """``verdicts``: per kind the table `verdicts` on what was planned. ``outcomes``: of asking, where it was asked.

    ``left_out``: kinds of which the store has no verdict, while it has some of another.
    """

    verdicts: Mapping[JudgeKind, pl.DataFrame]
    outcomes: Mapping[JudgeKind, Outcome]
    left_out: tuple[JudgeKind, ...] = ()


def verdicts_on(planned: Plan, judging: Judging, progress: Tell | None = None) -> Answered:
    """Asks, or looks up, what ``planned`` wants judged. After an interruption nothing more is asked."""
    outcomes: dict[JudgeKind, Outcome] = {}
    if judging.how == "embedded":
        return Answered({kind: embedded_verdicts(planned.of(kind)) for kind in judging.kinds}, outcomes)
    with _store(judging) as store:
        found = {kind: _from_store(planned, kind, judging, store, outcomes, progress) for kind in judging.kinds}
    left_out: tuple[JudgeKind, ...] = ()
    if judging.how == "stored":
        none = [kind for kind in found if found[kind].is_empty() and not planned.of(kind).is_empty()]
        left_out = tuple(none) if len(none) < len(found) else ()
    return Answered(found, outcomes, left_out)


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
    kind: JudgeKind,
    judging: Judging,
    store: Store,
    outcomes: dict[JudgeKind, Outcome],
    progress: Tell | None,
) -> pl.DataFrame:
    """The `verdicts` on ``planned``; what is lacking is asked first, which becomes one of ``outcomes``."""
    judge, endpoint = judging.judges[kind]
    put = list(questions(planned, kind, judge, None if endpoint is None else endpoint.price))
    if judging.how == "api" and not any(outcome.interrupted for outcome in outcomes.values()):
        outcomes[kind] = _ask(put, kind, judging, store, progress)
    keys = pl.Series("key", [question.key for question in put], dtype=pl.String)
    return store.verdicts(kind).join(keys.to_frame(), on="key", how="semi")


def _ask(put: Iterable[Question], kind: JudgeKind, judging: Judging, store: Store, progress: Tell | None) -> Outcome:
    endpoint = judging.judges[kind][1]
    if endpoint is None:
        raise UsageError(f"no endpoint for the {kind} judge is named", "set its base URL and API key")
    outcome = ask(
        put, endpoint, store, concurrency=judging.concurrency, give_up_after=judging.give_up_after,
        progress=None if progress is None else lambda now: progress(kind, now),
    )  # fmt: skip
    store.export()
    return outcome


def embedded_verdicts(asked: pl.DataFrame) -> pl.DataFrame:
    """The `verdicts` of the embedded judge on rows of `requests` of one kind."""
    predicted, primary = asked["predicted_label"].to_list(), asked["primary"].to_list()
    kind = asked["kind"][0] if asked.height else "pa"
    if kind == "pa":
        score, equivalent = embedded.judge_pa(predicted, primary, asked["also"].to_list())
        values = {"score": pl.Series(score), "equivalent": pl.Series(equivalent)}
    elif kind == "object":
        values = {"accepted": pl.Series(embedded.judge_object(predicted, primary))}
    else:
        values = {"accepted": pl.Series(embedded.judge_joint(predicted, primary))}
    version = embedded.EMBEDDED.rpartition("/")[2]
    keys = [fingerprint({"judge": embedded.EMBEDDED, "request": request}) for request in asked["request"]]
    return schemas.VERDICTS.conform(
        asked.select("request", "kind").with_columns(
            pl.Series("key", keys, dtype=pl.String), pl.lit(embedded.EMBEDDED).alias("judge"),
            pl.lit("embedded").alias("route"), pl.lit("ok").alias("status"), pl.lit("").alias("reply"),
            pl.lit("").alias("reasoning"), pl.lit(int(version)).alias("parser"), **values,
        )
    ).sort("key")  # fmt: skip


def price(per_million_in: float | None, per_million_out: float | None) -> Price | None:
    """Prices per million tokens, where one is given."""
    if per_million_in is None and per_million_out is None:
        return None
    return Price(per_million_in or 0.0, per_million_out or 0.0)
