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

from mabpl.errors import UsageError
from mabpl.timelines import TIMELINE_KEY, Integers, ascending, stretches

Floats = npt.NDArray[np.float64]
Booleans = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked about timelines: one item per asked pair, ordered by timeline and the pair's two positions.

    ``timeline``: int64, index into ``key``, which has one row (run, set, clip_id) per timeline. ``requests``: a column
    of ids. ``counts``: whether the pair can earn something (PA: it is assigned).
    """

    key: pl.DataFrame
    timeline: Integers
    requests: pl.Series
    counts: Booleans


def index(asked: pl.DataFrame, key: pl.DataFrame, counted: pl.DataFrame | None = None) -> Asked:
    """From pairs (run, set, clip_id, predicted, human, request) in any order, and the keys of all timelines.

    ``key`` has the timelines without an asked pair too. Which pairs count is said by a column ``counts`` of ``asked``
    or by ``counted``, a frame of them; else all do.
    """
    keys = key.select(TIMELINE_KEY)
    keys = keys if ascending(keys) else keys.unique().sort(TIMELINE_KEY)
    place = _places(asked, keys)
    requests = asked["request"]
    counts = asked["counts"].to_numpy() if "counts" in asked.columns else np.ones(len(place), np.bool_)
    if not (place[1:] > place[:-1]).all():
        order = np.argsort(place, kind="stable")
        place, requests, counts = place[order], requests.gather(order), counts[order]
    if counted is not None:
        counts = np.zeros(len(place), np.bool_)
        wanted = _places(counted, keys)
        at = np.searchsorted(place, wanted).clip(max=len(place) - 1)
        counts[at[place[at] == wanted]] = True
    return Asked(keys, place >> 2 * _BITS, requests, counts)


_BITS = 20
"""For a position in a timeline, where timeline and two positions are packed into 63 bits."""


def _places(pairs: pl.DataFrame, keys: pl.DataFrame) -> Integers:
    """(timeline, predicted, human) of each pair as one number that sorts like the three."""
    first = stretches(pairs, TIMELINE_KEY)
    found = pairs.select(TIMELINE_KEY)[first].join(
        keys.with_row_index("timeline"), on=TIMELINE_KEY, how="left", maintain_order="left"
    )
    if found["timeline"].null_count():
        raise UsageError("there are pairs of timelines that are not scored")
    timeline = np.repeat(found["timeline"].to_numpy().astype(np.int64), np.diff(np.append(first, pairs.height)))
    predicted, human = (pairs[name].to_numpy().astype(np.int64) for name in ("predicted", "human"))
    if pairs.height and max(predicted.max(), human.max()) >> _BITS:
        raise UsageError("a timeline is too long to be judged", f"at most {1 << _BITS:,} segments")
    return timeline << 2 * _BITS | predicted << _BITS | human


def pa_credits(asked: Asked, verdicts: pl.DataFrame | pl.LazyFrame, seeds: Sequence[int]) -> pl.DataFrame:
    """Per timeline: run, set, clip_id, credit, strict_credit, judge_seeds (those with every verdict of the clip).

    ``verdicts``: request, judge_seed, score, equivalent, in any order; one with a null, or a score that is not 0 to
    100, is none. Raises :class:`UsageError` where a request has two of one seed.
    """
    of_seeds, sound = pl.col("judge_seed").is_in(list(seeds)), pl.col("score").is_between(0, 100)
    known = verdicts.lazy().filter(of_seeds, sound, pl.col("equivalent").is_not_null())
    verdicts = known.select("request", "judge_seed", "score", "equivalent").collect()
    score = verdicts["score"].to_numpy()
    strict = score * verdicts["equivalent"].to_numpy()
    tables = _of_pairs(asked, verdicts, seeds, score, strict)
    complete = _sums(asked, np.isnan(tables[0])) == 0
    used = complete.sum(axis=1)
    columns = []
    for name, values in zip(("credit", "strict_credit"), tables, strict=True):
        values[~asked.counts] = 0.0
        of_seed = np.where(complete, _sums(asked, values), 0.0) / 100.0
        mean = np.divide(of_seed.sum(axis=1), used, out=np.full(len(used), np.nan), where=used > 0)
        columns.append(pl.Series(name, mean, nan_to_null=True))
    columns.append(_listed(complete, seeds).alias("judge_seeds"))
    return asked.key.with_columns(columns)


def joint_counts(asked: Asked, verdicts: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
    """Per timeline: run, set, clip_id, j. ``verdicts``: request, accepted, in any order; one with a null is none.

    Raises :class:`UsageError` where a request has two.
    """
    known = verdicts.lazy().filter(pl.col("accepted").is_not_null())
    verdicts = known.select("request", "accepted", judge_seed=pl.lit(0, pl.Int64)).collect()
    accepted = verdicts["accepted"].to_numpy().astype(np.float64)
    counts = _sums(asked, *_of_pairs(asked, verdicts, [0], accepted))[:, 0]
    return asked.key.with_columns(pl.Series("j", counts, nan_to_null=True).cast(pl.Int64))


def _listed(complete: Booleans, seeds: Sequence[int]) -> pl.Series:
    """The complete seeds of each timeline."""
    partly = np.flatnonzero(~complete.all(axis=1))
    lists = [[seed for seed, known in zip(seeds, complete[t], strict=True) if known] for t in partly.tolist()]
    which = np.zeros(len(complete), np.int64)
    which[partly] = np.arange(1, len(partly) + 1)
    return pl.Series([list(seeds), *lists], dtype=pl.List(pl.Int64)).gather(which)


def _of_pairs(asked: Asked, verdicts: pl.DataFrame, seeds: Sequence[int], *values: Floats) -> list[Floats]:
    """Values of ``verdicts`` as float64 (pairs, seeds); NaN where there is none."""
    first = stretches(verdicts, ["request"])
    distinct = verdicts["request"].gather(first)
    number = np.arange(len(first))
    if not distinct.is_sorted():  # as results hold them, it is: one look-up is enough
        ids, distinct = distinct, asked.requests.unique()
        number = _rows(ids, distinct)
    question = np.repeat(number, np.diff(np.append(first, verdicts.height)))
    given = verdicts["judge_seed"].to_numpy()
    column = np.zeros(len(given), np.int64)
    for i, seed in enumerate(seeds):
        column[given == seed] = i
    cell = question * len(seeds) + column
    of_pair = _rows(asked.requests, distinct)
    found = []
    for each in values:
        table = np.full((len(distinct) + 1, len(seeds)), np.nan)
        table.ravel()[cell] = each
        table[-1] = np.nan  # where -1 points to: verdicts on what was not asked, requests without one
        found.append(table)
    if np.count_nonzero(~np.isnan(found[0])) < np.count_nonzero(question >= 0):
        raise UsageError("a request has several verdicts of one judge seed", "filter them to one judge and setting")
    return [table.take(of_pair, axis=0) for table in found]


def _rows(ids: pl.Series, distinct: pl.Series) -> Integers:
    """Where each of ``ids`` stands in ``distinct``; -1 where it does not."""
    row = _joined(ids.hash(), distinct.hash())
    if len(row) > len(ids) or not (distinct.gather(row) == ids).all():  # two ids share a hash
        row = _joined(ids, distinct)
    return row.cast(pl.Int64).fill_null(-1).to_numpy()


def _joined(ids: pl.Series, distinct: pl.Series) -> pl.Series:
    numbered = pl.DataFrame({"id": distinct}).with_row_index("row")
    return pl.DataFrame({"id": ids}).join(numbered, on="id", how="left", maintain_order="left")["row"]


def _sums(asked: Asked, values: npt.NDArray[np.generic]) -> Floats:
    """Sums over the pairs of each timeline: (pairs, seeds) to (timelines, seeds)."""
    totals = np.zeros((asked.key.height, values.shape[1]))
    if len(values):
        first = np.flatnonzero(np.diff(asked.timeline, prepend=-1))
        totals[asked.timeline[first]] = np.add.reduceat(values, first, axis=0, dtype=np.float64)
    return totals
