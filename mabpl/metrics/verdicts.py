"""Verdicts joined back in: what a judge's answers are worth to each clip.

PA-F1, per clip: the credit of each judge seed that has every verdict of the clip, then their mean. A seed that lacks
one is dropped for that clip only; with no seed left the clip is unscored (null), never 0. A clip without a pair that
overlaps earns 0 from every seed. Joint F1: the Seg F1 matches whose labels are accepted; a clip that lacks a verdict
is unscored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from mabpl.timelines import TIMELINE_KEY, Integers

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked about timelines: one item per asked pair, ordered by timeline.

    ``timeline`` (index into ``key``) and ``question`` (index into ``requests``, a column of ids), int64; ``counts``:
    whether the pair can earn something (PA: it is assigned). ``key``: one row (run, set, clip_id) per timeline.
    """

    key: pl.DataFrame
    timeline: Integers
    question: Integers
    counts: npt.NDArray[np.bool_]
    requests: pl.Series


def index(asked: pl.DataFrame, key: pl.DataFrame) -> Asked:
    """From a frame (run, set, clip_id, request, counts) and all timelines, those without an asked pair included."""
    keys = key.select(TIMELINE_KEY).unique().sort(TIMELINE_KEY)
    requests = asked["request"].unique().sort()
    placed = (
        asked.join(keys.with_row_index("timeline"), on=TIMELINE_KEY)
        .join(requests.to_frame().with_row_index("question"), on="request")
        .sort("timeline", "question")
    )
    timeline, question = (placed[name].cast(pl.Int64).to_numpy() for name in ("timeline", "question"))
    return Asked(keys, timeline, question, placed["counts"].to_numpy(), requests)


def pa_credits(asked: Asked, verdicts: pl.DataFrame, seeds: Sequence[int]) -> pl.DataFrame:
    """Per timeline: run, set, clip_id, credit, strict_credit, judge_seeds (those with every verdict of the clip).

    ``verdicts``: request, judge_seed, score (0-100), equivalent; at most one row per request and seed.
    """
    score = _values(asked, verdicts, seeds, "score")
    equivalent = _values(asked, verdicts, seeds, "equivalent")
    earned = np.where(asked.counts[:, None], score[asked.question], 0.0) / 100.0
    strict = np.where(equivalent[asked.question] > 0, earned, 0.0)
    lacking = _sums(asked, np.isnan(score)[asked.question].astype(np.float64))
    complete = lacking == 0
    used = complete.sum(axis=1)
    columns = []
    for name, values in (("credit", earned), ("strict_credit", strict)):
        sums = np.where(complete, _sums(asked, np.nan_to_num(values)), 0.0).sum(axis=1)
        mean = np.divide(sums, used, out=np.zeros(len(used)), where=used > 0)
        columns.append(pl.Series(name, mean).set(pl.Series(used == 0), None))
    offsets = np.flatnonzero(complete.ravel()) % max(len(seeds), 1)
    listed = pl.Series(np.asarray(seeds, np.int64)[offsets]) if len(offsets) else pl.Series([], dtype=pl.Int64)
    owner = np.repeat(np.arange(len(used)), used)
    lists = (
        pl.DataFrame({"timeline": owner, "judge_seeds": listed})
        .group_by("timeline", maintain_order=True)
        .agg("judge_seeds")
    )
    per_timeline = pl.DataFrame({"timeline": np.arange(len(used))}).join(lists, on="timeline", how="left")
    found = per_timeline["judge_seeds"].fill_null(pl.Series([[]], dtype=pl.List(pl.Int64)))
    return asked.key.with_columns(*columns, found)


def joint_counts(asked: Asked, verdicts: pl.DataFrame) -> pl.DataFrame:
    """Per timeline: run, set, clip_id, j. ``verdicts``: request, accepted."""
    accepted = _values(asked, verdicts.with_columns(pl.lit(0).alias("judge_seed")), [0], "accepted")[:, 0]
    of_pair = accepted[asked.question]
    lacking = _sums(asked, np.isnan(of_pair)[:, None].astype(np.float64))[:, 0]
    counts = _sums(asked, np.nan_to_num(of_pair)[:, None])[:, 0].astype(np.int64)
    return asked.key.with_columns(pl.Series("j", counts).set(pl.Series(lacking > 0), None))


def _values(asked: Asked, verdicts: pl.DataFrame, seeds: Sequence[int], column: str) -> Floats:
    """Float64 (requests, seeds) of a column of ``verdicts``; NaN where there is none."""
    table = np.full((len(asked.requests), len(seeds)), np.nan)
    questions = asked.requests.to_frame("request").with_row_index("question")
    columns = pl.DataFrame({"judge_seed": list(seeds)}, schema={"judge_seed": verdicts.schema["judge_seed"]})
    found = (
        verdicts.select("request", "judge_seed", pl.col(column).cast(pl.Float64))
        .join(questions, on="request")
        .join(columns.with_row_index("seed"), on="judge_seed")
    )
    table[found["question"].to_numpy(), found["seed"].to_numpy()] = found[column].fill_null(float("nan")).to_numpy()
    return table


def _sums(asked: Asked, values: Floats) -> Floats:
    """Sums over the pairs of each timeline: (pairs, seeds) to (timelines, seeds)."""
    totals = np.zeros((asked.key.height, values.shape[1]))
    if len(values):
        first = np.flatnonzero(np.diff(asked.timeline, prepend=-1))
        totals[asked.timeline[first]] = np.add.reduceat(values, first, axis=0)
    return totals
