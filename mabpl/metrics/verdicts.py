"""Verdicts joined back in: what a judge's answers are worth to each clip.

PA-F1, per clip: the credit of each judge seed that has every verdict of the clip, then their mean. A seed that lacks
one is dropped for that clip only; with no seed left the clip is unscored (null), never 0. A clip without a pair that
overlaps earns 0 from every seed. Joint F1: the Seg F1 matches whose labels are accepted; a clip that lacks a verdict
is unscored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from mabpl import engine
from mabpl.errors import UsageError
from mabpl.timelines import TIMELINE_KEY, Integers, ascending, stretches

Floats = npt.NDArray[np.float64]
Booleans = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked about timelines: one item per asked pair, ordered by timeline and the pair's two positions.

    ``timeline``: int64, index into ``key``, which has one row (run, set, clip_id) per timeline. ``pair``: int64, row of
    the frame of pairs. ``counts``: whether the pair can earn something (PA: it is assigned).
    """

    key: pl.DataFrame
    timeline: Integers
    pair: Integers
    counts: Booleans


def index(asked: pl.DataFrame, key: pl.DataFrame, counted: pl.DataFrame | None = None) -> Asked:
    """From pairs (run, set, clip_id, predicted, human) in any order, and the keys of all timelines.

    ``key`` has the timelines without an asked pair too. Which pairs count is said by a column ``counts`` of ``asked``
    or by ``counted``, a frame of them; else all do.
    """
    keys = key.select(TIMELINE_KEY)
    keys = keys if ascending(keys) else keys.unique().sort(TIMELINE_KEY)
    place = _places(asked, keys)
    pair = np.arange(len(place))
    counts = asked["counts"].to_numpy() if "counts" in asked.columns else np.ones(len(place), np.bool_)
    if not (place[1:] > place[:-1]).all():
        pair = np.argsort(place, kind="stable")
        place, counts = place[pair], counts[pair]
    if counted is not None:
        counts = np.zeros(len(place), np.bool_)
        wanted = _places(counted, keys)
        at = np.searchsorted(place, wanted).clip(max=len(place) - 1)
        counts[at[place[at] == wanted]] = True
    return Asked(keys, place >> 2 * _BITS, pair, counts)


_BITS = 20
"""For a position in a timeline, where timeline and two positions are packed into 63 bits."""


def _places(pairs: pl.DataFrame, keys: pl.DataFrame) -> Integers:
    """(timeline, predicted, human) of each pair as one number that sorts like the three."""
    pairs = pairs.select(*TIMELINE_KEY, "predicted", "human").rechunk()  # strings in chunks are slow to compare
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


@dataclass(frozen=True, slots=True)
class Answers:
    """What judges said of pairs.

    ``table``: float64 (seeds, columns), NaN where there is no verdict. ``column``: int64, the column of each pair.
    """

    seeds: Sequence[int]
    table: Floats
    column: Integers


def pa_answers(verdicts: pl.DataFrame | pl.LazyFrame, seeds: Sequence[int], requests: pl.Series) -> Answers:
    """Scores, 0-100; below zero (or -0.0) where the labels are not equivalent.

    ``verdicts``: request, judge_seed, score, equivalent, in any order; one with a null, or a score that is not 0 to
    100, is none. ``requests``: that of each pair. Raises :class:`UsageError` where one of them has two verdicts of one
    seed.
    """
    of_seeds, sound = pl.col("judge_seed").is_in(list(seeds)), pl.col("score").is_between(0, 100)
    known = verdicts.lazy().filter(of_seeds, sound, pl.col("equivalent").is_not_null())
    value = pl.when("equivalent").then("score").otherwise(-pl.col("score"))
    return _answers(known.select("request", "judge_seed", value=value).collect(), seeds, requests)


def joint_answers(verdicts: pl.DataFrame | pl.LazyFrame, requests: pl.Series) -> Answers:
    """1 where the labels were accepted. ``verdicts``: request, accepted, in any order; one with a null is none.

    ``requests``: that of each pair. Raises :class:`UsageError` where one has two verdicts.
    """
    known = verdicts.lazy().filter(pl.col("accepted").is_not_null())
    value = pl.col("accepted").cast(pl.Float64)
    return _answers(known.select("request", judge_seed=pl.lit(0), value=value).collect(), [0], requests)


def pa_credits(asked: Asked, answers: Answers) -> pl.DataFrame:
    """Per timeline: run, set, clip_id, credit, strict_credit, judge_seeds (those with every verdict of the clip)."""
    of_pair, counted = answers.column.take(asked.pair), np.flatnonzero(asked.counts)
    pairs, earning, of_earning = _Spans.of(asked.timeline), _Spans.of(asked.timeline[counted]), of_pair[counted]
    count = asked.key.height
    complete = np.ones((len(answers.seeds), count), np.bool_)
    credit = np.zeros((2, count))
    for of_seed, whole in zip(answers.table, complete, strict=True):
        pairs.reduce(np.logical_and, ~np.isnan(of_seed).take(of_pair), whole)
        earned = of_seed.take(of_earning)
        for sums, values in zip(credit, (np.abs(earned), np.maximum(earned, 0.0)), strict=True):
            of_timeline = earning.reduce(np.add, values, np.zeros(count))
            sums += np.where(whole, of_timeline, 0.0) / 100.0
    used = complete.sum(axis=0)
    columns = []
    for name, sums in zip(("credit", "strict_credit"), credit, strict=True):
        mean = np.divide(sums, used, out=np.full(count, np.nan), where=used > 0)
        columns.append(pl.Series(name, mean, nan_to_null=True))
    columns.append(_listed(complete.T, answers.seeds).alias("judge_seeds"))
    return asked.key.with_columns(columns)


def joint_counts(asked: Asked, answers: Answers) -> pl.DataFrame:
    """Per timeline: run, set, clip_id, j."""
    accepted = answers.table[0].take(answers.column.take(asked.pair))
    sums = _Spans.of(asked.timeline).reduce(np.add, accepted, np.zeros(asked.key.height))
    return asked.key.with_columns(pl.Series("j", sums, nan_to_null=True).cast(pl.Int64))


def _listed(complete: Booleans, seeds: Sequence[int]) -> pl.Series:
    """The complete seeds of each timeline."""
    partly = np.flatnonzero(~complete.all(axis=1))
    lists = [[seed for seed, known in zip(seeds, complete[t], strict=True) if known] for t in partly.tolist()]
    which = np.zeros(len(complete), np.int64)
    which[partly] = np.arange(1, len(partly) + 1)
    return pl.Series([list(seeds), *lists], dtype=pl.List(pl.Int64)).gather(which)


def _answers(verdicts: pl.DataFrame, seeds: Sequence[int], requests: pl.Series) -> Answers:
    """From rows of request, judge_seed, value."""
    row = _first_rows(requests, verdicts["request"])
    column, cell = row[: len(requests)], row[len(requests) :]  # -1, not asked: some last column
    expected, columns = np.count_nonzero(cell >= 0), len(requests) + 1
    given = verdicts["judge_seed"].to_numpy()
    for i, seed in enumerate(seeds[1:], 1):
        cell += (given == seed) * np.int64(i * columns)
    table = np.full((len(seeds), columns), np.nan)
    table.ravel()[cell] = verdicts["value"].to_numpy()
    table[:, -1] = np.nan
    if np.count_nonzero(~np.isnan(table)) < expected:
        raise UsageError("a request has several verdicts of one judge seed", "filter them to one judge and setting")
    return Answers(seeds, table, column)


_TEXTS_A_SEGMENT = 10
"""With so many, compiled kernels are there: the segments were matched by them."""


def _first_rows(held: pl.Series, sought: pl.Series) -> Integers:
    """For each of ``held`` and then of ``sought`` its first row in ``held``; -1 where it has none.

    With compiled kernels those are taken for equal that agree in 128 bits of hashes, as many as a request's id has.
    """
    texts = pl.concat([held, sought.cast(held.dtype)]).alias("text")
    kernels = engine.kernels_for(len(texts) // _TEXTS_A_SEGMENT, "first_rows")
    if engine.are_plain(kernels):
        first = pl.DataFrame({"text": held}).with_row_index("row").unique("text", keep="first")
        found = texts.to_frame().join(first, on="text", how="left", maintain_order="left")["row"]
        return found.cast(pl.Int64).fill_null(-1).to_numpy(writable=True)
    hashes = texts.to_frame().select(pl.col("text").hash(seed).alias(str(seed)) for seed in (0, 1))  # side by side
    key, other = (engine.read_only(column.to_numpy().view(np.int64)) for column in hashes.get_columns())
    table, row = np.full(1 << (2 * len(held)).bit_length(), -1, np.int32), np.empty(len(texts), np.int64)
    kernels.first_rows(len(held), key, other, table, row)
    return row


@dataclass(frozen=True, slots=True)
class _Spans:
    """Where the items of a timeline begin, of those that have any; items stand by timeline."""

    timeline: Integers
    first: Integers

    @classmethod
    def of(cls, timeline: Integers) -> _Spans:
        first = np.flatnonzero(np.diff(timeline, prepend=-1))
        return cls(timeline[first], first)

    def reduce(self, ufunc: np.ufunc, values: npt.NDArray[Any], out: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """``out`` with the ``values`` of each timeline reduced in the place of what it had."""
        if len(values):
            out[self.timeline] = ufunc.reduceat(values, self.first)
        return out
