"""Who meets whom, and what a judge is asked about it: the table `comparisons` and its requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

import polars as pl

from mabpl.benchmarks.micro_annotation.scores import Scores
from mabpl.judges.asking import Plan
from mabpl.judges.judge import JudgeKind
from mabpl.judges.prompts import Prompts
from mabpl.judges.requests import VERSION
from mabpl.judges.types import fingerprint
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
    rows: dict[str, list[object]] = {}
    for dimension, of in shown.items():
        prompt_hash = prompts.hash(dimension)
        met: list[tuple[str, ...]] = []
        for clip, arms in of.arms.items():
            for first, second in sorted(permutations(arms, 2), key=lambda pair: (sorted(pair), pair)):
                row = _request(dimension, of.human[clip], arms[first], arms[second], of.note, prompt_hash)
                rows.setdefault(str(row[0]), row)
                met.append((*clip, dimension, first, second, str(row[0])))
        asked[dimension] = pl.DataFrame(met, schema=COMPARISONS.schema, orient="row")
    requests = pl.DataFrame(list(rows.values()), schema=REQUESTS.schema, orient="row")
    return Comparing(Plan(prompts, asked, requests), shown)


def _request(
    dimension: Dimension, human: Shown, first: Shown, second: Shown, note: str | None, prompt_hash: str
) -> list[object]:
    """A row of `requests`."""
    name = fingerprint([VERSION, dimension, prompt_hash, first.text, human.text, [second.text], note])
    every = (human, first, second)
    altered, risky = any(one.altered for one in every), any(one.risky for one in every)
    return [name, dimension, first.text, human.text, [second.text], note, prompt_hash, altered, risky]
