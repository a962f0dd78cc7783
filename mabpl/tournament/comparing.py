"""Who meets whom, and what a judge is asked about it: the table `comparisons` and its requests."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from typing import Any, NamedTuple

import polars as pl

from mabpl.benchmarks.micro_annotation.scores import Scores
from mabpl.judges.asking import Plan
from mabpl.judges.judge import JudgeKind
from mabpl.judges.prompts import Prompts
from mabpl.judges.requests import VERSION
from mabpl.tables.schemas import REQUESTS
from mabpl.tables.tournament import COMPARISONS
from mabpl.tournament.packets import Dimension, Packets, Shown, packets


@dataclass(frozen=True, slots=True)
class Comparing:
    """``plan``: what is asked; of each dimension its `comparisons`, and its requests in the order of asking.

    ``packets``: what is shown, by dimension.
    """

    plan: Plan
    packets: Mapping[Dimension, Packets]

    @property
    def comparisons(self) -> pl.DataFrame:
        return pl.concat(self.plan.asked.values()).sort(COMPARISONS.key)


def compare(scores: Scores, dimensions: Sequence[Dimension], prompts: Prompts) -> Comparing:
    """Every two arms of ``scores`` on every clip that both have, in both orders.

    They are asked clip by clip, and both orders one after the other, so that what a budget or an interruption leaves
    is whole comparisons on whole clips. Timelines that are shown alike are asked about once.
    """
    shown = {dimension: packets(scores, dimension) for dimension in dimensions}
    asked: dict[JudgeKind, pl.DataFrame] = {}
    requests = [REQUESTS.empty()]
    for dimension, of in shown.items():
        asked[dimension], distinct = _met(dimension, of, prompts.hash(dimension))
        requests.append(distinct)
    return Comparing(Plan(prompts, asked, pl.concat(requests)), shown)


class _Side(NamedTuple):
    """A timeline in a request: its place among the texts, its text as JSON, and its marks."""

    place: int
    json: bytes
    altered: bool
    risky: bool


class _Distinct(NamedTuple):
    """A request: the places of the first, human and second text, and its marks."""

    predicted_label: int
    primary: int
    also: int
    altered: bool
    risky: bool


def _met(dimension: Dimension, of: Packets, prompt_hash: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """`comparisons` and the distinct `requests` of one dimension.

    A fingerprint is that of [version, kind, prompt hash, first, human, [second], note]. It is hashed from parts: a
    timeline of many comparisons is encoded once.
    """
    texts: list[str] = []

    def side(one: Shown) -> _Side:
        texts.append(one.text)
        return _Side(len(texts) - 1, json.dumps(one.text, ensure_ascii=False).encode(), one.altered, one.risky)

    opening = hashlib.blake2b(f'[{VERSION},"{dimension}","{prompt_hash}",'.encode(), digest_size=16)
    ending = f"],{json.dumps(of.note, ensure_ascii=False)}]".encode()
    met: list[tuple[str, ...]] = []
    distinct: dict[str, _Distinct] = {}
    for clip, arms in of.arms.items():
        human = side(of.human[clip])
        sides = {arm: side(shown) for arm, shown in arms.items()}
        begun = {arm: opening.copy() for arm in sides}
        for arm, begin in begun.items():
            begin.update(sides[arm].json + b"," + human.json + b",[")
        for first, second in chain.from_iterable((pair, pair[::-1]) for pair in combinations(sorted(sides), 2)):
            whole = begun[first].copy()
            whole.update(sides[second].json + ending)
            name = whole.hexdigest()
            met.append((*clip, first, second, name))
            if name not in distinct:
                a, b = sides[first], sides[second]
                altered, risky = a.altered or human.altered or b.altered, a.risky or human.risky or b.risky
                distinct[name] = _Distinct(a.place, human.place, b.place, altered, risky)
    comparisons = pl.DataFrame(_columns(met, ("set", "clip_id", "first", "second", "request")))
    places = pl.DataFrame(_columns(distinct.values(), _Distinct._fields))
    every = pl.Series(texts, dtype=pl.String)
    requests = places.with_columns(
        *(every.gather(places[name]).alias(name) for name in ("predicted_label", "primary", "also")),
        request=pl.Series(list(distinct), dtype=pl.String),
        kind=pl.lit(dimension),
        instruction=pl.lit(of.note, pl.String),
        prompt_hash=pl.lit(prompt_hash),
    ).with_columns(pl.concat_list("also"))
    return COMPARISONS.conform(comparisons.with_columns(dimension=pl.lit(dimension))), REQUESTS.conform(requests)


def _columns(rows: Iterable[tuple[Any, ...]], names: Sequence[str]) -> dict[str, Sequence[Any]]:
    return dict(zip(names, zip(*rows, strict=True), strict=True)) or dict.fromkeys(names, ())
