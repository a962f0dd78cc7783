"""The labels dimension without a model: whose labels, by the embedded judge's scores, are nearer to the human ones.

A stand-in for trying things, whose verdicts are not comparable with a language model's. Of a candidate's labels each
earns the best score (0-100) that it gets against a human label that it covers, what else it covers explaining it too;
each human label earns the best score of those that cover it. The two means make an F-measure; within ``TIE`` points the
verdict is a tie. It is the same in both orders.
"""

from __future__ import annotations

from collections import defaultdict

import polars as pl

from mabpl.judges import embedded
from mabpl.judges.types import fingerprint
from mabpl.tables.schemas import VERDICTS
from mabpl.tournament.comparing import Comparing
from mabpl.tournament.packets import Line, Shown

TIE = 1.0
"""Difference of two F-measures, in points of 100, up to which they are equal."""

Pair = tuple[str, str, tuple[str, ...]]


def labels_verdicts(comparing: Comparing) -> pl.DataFrame:
    """The `verdicts` of the embedded judge on every request of the dimension labels."""
    shown = comparing.packets["labels"]
    worth: dict[tuple[str, str, str], float] = {}
    judged = _Judged()
    for clip, arms in shown.arms.items():
        for arm, candidate in arms.items():
            worth[(*clip, arm)] = f_measure(candidate, shown.human[clip], judged)
    asked = comparing.plan.asked["labels"].unique("request", keep="first", maintain_order=True)
    verdicts = [
        verdict(worth[set_name, clip_id, first], worth[set_name, clip_id, second])
        for set_name, clip_id, first, second in asked.select("set", "clip_id", "first", "second").iter_rows()
    ]
    return VERDICTS.conform(
        asked.select(
            "request",
            pl.Series("key", [fingerprint({"judge": embedded.EMBEDDED, "request": name}) for name in asked["request"]]),
            pl.Series("verdict", verdicts, dtype=pl.String),
            kind=pl.lit("labels"),
            judge=pl.lit(embedded.EMBEDDED),
            route=pl.lit("embedded"),
            status=pl.lit("ok"),
            reply=pl.lit(""),
            reasoning=pl.lit(""),
            parser=pl.lit(int(embedded.EMBEDDED.rpartition("/")[2])),
        )
    ).sort("key")


def verdict(first: float, second: float) -> str:
    if abs(first - second) <= TIE:
        return "tie"
    return "A" if first > second else "B"


class _Judged(dict[Pair, float]):
    """Scores that were worked out before."""

    def __missing__(self, pair: Pair) -> float:
        predicted, human, also = pair
        self[pair] = float(embedded.judge_pa([predicted], [human], [also])[0][0])
        return self[pair]


def f_measure(candidate: Shown, human: Shown, judged: dict[Pair, float] | None = None) -> float:
    """How near the labels of ``candidate`` are to those of ``human``: 0-100."""
    judged = _Judged() if judged is None else judged
    of_human: dict[int, list[float]] = defaultdict(list)
    earned = []
    for line in candidate.lines:
        scores = {number: judged[_pair(line, number, human)] for number in line.covers}
        earned.append(max(scores.values(), default=0.0))
        for number, score in scores.items():
            of_human[number].append(score)
    if not candidate.lines or not human.lines:
        return 0.0
    precision = sum(earned) / len(earned)
    recall = sum(max(scores) for scores in of_human.values()) / len(human.lines)
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def _pair(line: Line, number: int, human: Shown) -> Pair:
    others = tuple(human.lines[other - 1].label for other in line.covers if other != number)
    return line.label, human.lines[number - 1].label, others
