"""Is this judge's endpoint fit for the job? It is asked pairs whose verdict is known, and what it does is told.

Each pair is asked once with every judge seed, and once more with the first one. The answers are kept in stores of their
own that are thrown away, so that a check is never mistaken for a verdict, and always asks.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import polars as pl

from mabpl.judges.client import Outcome, ask
from mabpl.judges.endpoint import Endpoint
from mabpl.judges.judge import Judge
from mabpl.judges.prompts import Prompts, messages
from mabpl.judges.requests import single
from mabpl.judges.store import Store
from mabpl.judges.types import Question
from mabpl.settings import Settings

State = Literal["fine", "unclear", "doubtful", "failed"]

CHARACTERS_PER_TOKEN = 4
"""Of English text, about: what a question is taken to have before anybody has counted."""

_CALLS_PER_QUESTION = 2
"""A judge that gives no verdict is not asked as often as in a real run."""


class Known(NamedTuple):
    """A pair whose verdict nobody doubts. ``right``: the labels describe the same action."""

    name: str
    predicted: str
    primary: str
    also: tuple[str, ...]
    right: bool


_MUG = "pick up the blue mug from the table with the right hand"
_POUR = "pour water from the jug into the blue mug with the left hand"

EQUAL, OBJECT, SPAN, ACTION = "equal in meaning", "wrong object", "out of span", "opposite action"
PASSING = "named in passing"
KNOWN = {
    "pa": (
        Known(EQUAL, "take the blue mug off the table with the right hand", _MUG, (_POUR,), True),
        Known(OBJECT, "pick up the screwdriver from the table with the right hand", _MUG, (_POUR,), False),
        Known(SPAN, f"{_MUG}, then wash the blue mug in the sink with both hands", _MUG, (_POUR,), False),
    ),
    "joint": (
        Known(EQUAL, "take the blue mug off the table", _MUG, (), True),
        Known(OBJECT, "pick up the screwdriver from the table", _MUG, (), False),
        Known(ACTION, "put down the blue mug on the table", _MUG, (), False),
    ),
    "object": (
        Known(EQUAL, "The cup of coffee beside you is getting cold.", "coffee mug", (), True),
        Known(OBJECT, "The screwdriver is still on the table.", "coffee mug", (), False),
        Known(PASSING, "Your keys lie beside the coffee mug.", "coffee mug", (), False),
    ),
}
"""Three pairs for each kind of judge; the first is right, the others are not."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. ``doubtful``: scores may not be comparable; ``unclear``: it cannot be told."""

    name: str
    state: State
    said: str


@dataclass(frozen=True, slots=True)
class Checked:
    """What a check found.

    ``answers``: the `verdicts` rows of all questions, with ``pair`` (the name of one of ``KNOWN``) and ``again`` (asked
    a second time). ``calls``: answered or maybe billed; ``cost``: of all of them, as far as it is told. ``guessed``:
    mean input tokens of a question before anybody counted them.
    """

    judge: Judge
    findings: tuple[Finding, ...]
    answers: pl.DataFrame
    calls: int
    cost: float
    guessed: float

    @property
    def state(self) -> State:
        """The worst of the findings; what is unclear is no fault."""
        states = [finding.state for finding in self.findings]
        return next((state for state in ("failed", "doubtful") if state in states), "fine")

    def per_call(self) -> dict[str, float | None]:
        """Means of a call that gave a verdict: tokens_in, tokens_out, tokens_reasoning, seconds, cost."""
        names = ("tokens_in", "tokens_out", "tokens_reasoning", "seconds", "cost")
        return self.answers.filter(status="ok").select(pl.col(names).mean()).row(0, named=True)

    def forecast(self, calls: int, guessed: int, in_flight: int) -> Forecast:
        """What ``calls`` calls will take, if they are like those of the check.

        ``guessed``: their input tokens at ``CHARACTERS_PER_TOKEN``; ``in_flight``: how many are under way at once.
        """
        mean = self.per_call()
        tokens_in = None if mean["tokens_in"] is None else guessed * mean["tokens_in"] / self.guessed
        tokens_out = None if mean["tokens_out"] is None else calls * mean["tokens_out"]
        cost = None if mean["cost"] is None else calls * mean["cost"]
        rounds = -(-calls // in_flight)
        seconds = None if mean["seconds"] is None else rounds * mean["seconds"]
        return Forecast(calls, tokens_in, tokens_out, cost, seconds)


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a run will take, about; None where the check could not tell. ``cost`` in the currency of the price."""

    calls: int
    tokens_in: float | None
    tokens_out: float | None
    cost: float | None
    seconds: float | None


def check(
    judge: Judge,
    endpoint: Endpoint,
    prompts: Prompts,
    settings: Settings | None = None,
    *,
    concurrency: int = 25,
    give_up_after: float = 60.0,
) -> Checked:
    """Asks ``judge`` the pairs of ``KNOWN``.

    Raises:
        ServiceError: the endpoint rejects what it is sent, or nobody answers for ``give_up_after`` seconds.
        KeyboardInterrupt: Ctrl-C; what was under way is waited for.
    """
    asked = {known.name: _questions(known, judge, prompts, settings or Settings()) for known in KNOWN[judge.kind]}
    every = [question for questions in asked.values() for question in questions]
    first = [questions[0] for questions in asked.values()]
    troubles: list[str] = []

    def put(questions: list[Question]) -> tuple[pl.DataFrame, Outcome]:
        with tempfile.TemporaryDirectory(prefix="mabpl-check-") as folder:
            limit = _CALLS_PER_QUESTION * len(questions)
            with Store.open(Path(folder) / "store", max_calls=limit) as store:
                outcome = ask(
                    questions, endpoint, store, concurrency=concurrency, give_up_after=give_up_after,
                    progress=lambda now: troubles.append(now.last_error),
                )  # fmt: skip
                if outcome.interrupted:
                    raise KeyboardInterrupt
                return store.verdicts(), outcome

    answers, outcome = put(every)
    outcomes = [outcome]
    frames = [answers.with_columns(again=pl.lit(False))]
    if outcome.ok:
        repeated, outcome = put(first)
        frames.append(repeated.with_columns(again=pl.lit(True)))
        outcomes.append(outcome)
    names = {question.request.request: name for name, questions in asked.items() for question in questions}
    table = pl.concat(frames).with_columns(pair=pl.col("request").replace_strict(names, return_dtype=pl.String))
    expected = len(every) + (len(first) if outcomes[0].ok else 0)
    trouble = next((said for said in reversed(troubles) if said), "")
    characters = [sum(len(message["content"]) for message in question.body["messages"]) for question in every]
    return Checked(
        judge,
        tuple(_findings(judge, table, expected, trouble)),
        table,
        sum(outcome.billed + outcome.ambiguous for outcome in outcomes),
        sum(outcome.cost for outcome in outcomes),
        sum(characters) / len(characters) / CHARACTERS_PER_TOKEN,
    )


def _questions(known: Known, judge: Judge, prompts: Prompts, settings: Settings) -> list[Question]:
    request = single(judge.kind, known.predicted, known.primary, prompts, settings, also=known.also)
    said = messages(request, prompts)
    return [judge.question(request, said, seed) for seed in judge.seeds]


def _findings(judge: Judge, answers: pl.DataFrame, expected: int, trouble: str) -> Iterable[Finding]:
    found = answers.filter(status="ok")
    yield _answers(found.height, expected, answers, trouble)
    if found.is_empty():
        return
    yield _thinking(judge, found)
    yield _seeds(judge, found)
    counted = found.filter(pl.all_horizontal(pl.col("tokens_in", "tokens_out").is_not_null())).height
    usage: State = "fine" if counted == found.height else "doubtful"
    yield Finding("usage", usage, f"tokens are reported by {counted} of {found.height} answers")
    yield _sense(judge, found)


def _answers(ok: int, expected: int, answers: pl.DataFrame, trouble: str) -> Finding:
    said = f"{ok} of {expected} questions got a verdict"
    if ok == expected:
        return Finding("verdicts", "fine", said)
    others = answers.filter(pl.col("status") != "ok")["status"].value_counts().sort("status")
    statuses = ", ".join(f"{status} {count}" for status, count in others.iter_rows())
    said += "".join(f"; {more}" for more in (statuses, trouble) if more)
    return Finding("verdicts", "doubtful" if ok else "failed", said)


def _thinking(judge: Judge, found: pl.DataFrame) -> Finding:
    thinks = (pl.col("reasoning") != "") | (pl.col("tokens_reasoning").fill_null(0) > 0)
    thought = found.filter(thinks).height
    said = f"in {thought} of {found.height} answers (text of it, or reasoning tokens)"
    if thought or judge.kind != "pa":  # of the others it is not published, or the model's default
        return Finding("thinking", "fine", said)
    return Finding("thinking", "doubtful", f"{said}: the published judge thinks; does the extra body switch it on?")


_VERDICT = ("score", "equivalent", "accepted")
_WORDS = ("reply", "reasoning")


def _seeds(judge: Judge, found: pl.DataFrame) -> Finding:
    """Compares what was asked twice with one seed, and what was asked with several."""
    same = found.filter(pl.col("judge_seed").eq_missing(judge.seeds[0]))
    twice, in_other_words = _vary(same, _VERDICT), _vary(same, (*_VERDICT, *_WORDS))
    if judge.seeds[0] is None:
        said = "none is sent; asked twice, " + ("verdicts differ" if twice else "verdicts are the same")
        return Finding("seed", "doubtful" if twice else "fine", said)
    if twice is None:
        return Finding("seed", "unclear", "cannot tell: no pair was answered twice with one seed")
    if twice:
        return Finding("seed", "doubtful", "not honoured: the same seed gave two verdicts on the same pair")
    if in_other_words:
        said = "cannot tell: the same seed gave the same verdicts in other words, so answers vary of themselves"
        return Finding("seed", "unclear", said)
    others = found.filter(again=False)
    differ = _vary(others, (*_VERDICT, *_WORDS))
    if differ is None:
        return Finding(
            "seed", "unclear", "cannot tell: the same seed gave the same answers, and there is one seed only"
        )
    if not differ:
        said = "no effect: all seeds gave the same answers, to the letter; it may be ignored, or matter elsewhere"
        return Finding("seed", "doubtful", said)
    verdicts = "verdicts" if _vary(others, _VERDICT) else "words, not verdicts,"
    return Finding(
        "seed", "fine", f"honoured: the same seed gave the same answers, and {verdicts} differ between seeds"
    )


def _vary(answers: pl.DataFrame, columns: tuple[str, ...]) -> bool | None:
    """Whether answers to one pair differ; None where none has two."""
    of_pair = answers.group_by("pair").agg(pl.len().alias("answers"), different=pl.struct(columns).n_unique())
    of_pair = of_pair.filter(pl.col("answers") > 1)
    return None if of_pair.is_empty() else bool((of_pair["different"] > 1).any())


def _sense(judge: Judge, found: pl.DataFrame) -> Finding:
    """Whether the right pair stands above the others, and most decisions on each pair are right."""
    decision, value = ("equivalent", "score") if judge.kind == "pa" else ("accepted", "accepted")
    right = {known.name: known.right for known in KNOWN[judge.kind]}
    is_right = pl.col(decision) == pl.col("pair").replace_strict(right, return_dtype=pl.Boolean)
    of_pair = found.group_by("pair").agg(pl.col(value).cast(pl.Float64).mean(), right=is_right.mean())
    means = dict(of_pair.select("pair", value).iter_rows())
    above = all(means.get(EQUAL, mean + 1) > mean for name, mean in means.items() if name != EQUAL)
    sensible = above and bool((of_pair["right"] > 0.5).all())
    digits = ".0f" if judge.kind == "pa" else ".2f"
    listed = ", ".join(f"{name} {means[name]:{digits}}" for name in right if name in means)
    decided = found.filter(is_right).height
    said = f"mean {value}: {listed}; {decided} of {found.height} decisions ({decision}) are right"
    return Finding("sense", "fine" if sensible else "doubtful", said)
