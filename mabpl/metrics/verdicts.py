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


@dataclass(frozen=True, slots=True)
class Answers:
    """What judges said, by request.

    ``requests``: the ids of the different ones. ``table``: float64 (seeds, requests and one more), NaN where there is
    no verdict, as in the last column throughout.
    """

    requests: pl.Series
    seeds: Sequence[int]
    table: Floats


def pa_answers(verdicts: pl.DataFrame | pl.LazyFrame, seeds: Sequence[int], among: pl.Series | None = None) -> Answers:
    """Scores, 0-100; below zero (or -0.0) where the labels are not equivalent.

    ``verdicts``: request, judge_seed, score, equivalent, in any order; one with a null, or a score that is not 0 to
    100, is none. ``among``: the requests that matter, where they are known. Raises :class:`UsageError` where one of
    them has two of one seed.
    """
    of_seeds, sound = pl.col("judge_seed").is_in(list(seeds)), pl.col("score").is_between(0, 100)
    known = verdicts.lazy().filter(of_seeds, sound, pl.col("equivalent").is_not_null())
    verdicts = known.select("request", "judge_seed", "score", "equivalent").collect()
    score, equivalent = verdicts["score"].to_numpy(), verdicts["equivalent"].to_numpy()
    return _by_request(verdicts, seeds, np.where(equivalent, score, -score), among)


def joint_answers(verdicts: pl.DataFrame | pl.LazyFrame, among: pl.Series | None = None) -> Answers:
    """1 where the labels were accepted. ``verdicts``: request, accepted, in any order; one with a null is none.

    ``among`` as for :func:`pa_answers`. Raises :class:`UsageError` where a request has two.
    """
    known = verdicts.lazy().filter(pl.col("accepted").is_not_null())
    verdicts = known.select("request", "accepted", judge_seed=pl.lit(0, pl.Int64)).collect()
    return _by_request(verdicts, [0], verdicts["accepted"].to_numpy().astype(np.float64), among)


def pa_credits(asked: Asked, answers: Answers) -> pl.DataFrame:
    """Per timeline: run, set, clip_id, credit, strict_credit, judge_seeds (those with every verdict of the clip)."""
    of_pair, counted = _rows(asked.requests, answers.requests), np.flatnonzero(asked.counts)
    of_counted, timeline = of_pair[counted], asked.timeline[counted]
    count = asked.key.height
    complete = np.ones((len(answers.seeds), count), np.bool_)
    credit = np.zeros((2, count))
    for of_seed, whole in zip(answers.table, complete, strict=True):
        whole[:] = _reduced(np.logical_and, asked.timeline, ~np.isnan(of_seed).take(of_pair), whole)
        earned = of_seed.take(of_counted)
        for sums, values in zip(credit, (np.abs(earned), np.where(earned > 0, earned, 0.0)), strict=True):
            sums += np.where(whole, _reduced(np.add, timeline, values, np.zeros(count)), 0.0) / 100.0
    used = complete.sum(axis=0)
    columns = []
    for name, sums in zip(("credit", "strict_credit"), credit, strict=True):
        mean = np.divide(sums, used, out=np.full(count, np.nan), where=used > 0)
        columns.append(pl.Series(name, mean, nan_to_null=True))
    columns.append(_listed(complete.T, answers.seeds).alias("judge_seeds"))
    return asked.key.with_columns(columns)


def joint_counts(asked: Asked, answers: Answers) -> pl.DataFrame:
    """Per timeline: run, set, clip_id, j."""
    accepted = answers.table[0].take(_rows(asked.requests, answers.requests))
    sums = _reduced(np.add, asked.timeline, accepted, np.zeros(asked.key.height))
    return asked.key.with_columns(pl.Series("j", sums, nan_to_null=True).cast(pl.Int64))


def _listed(complete: Booleans, seeds: Sequence[int]) -> pl.Series:
    """The complete seeds of each timeline."""
    partly = np.flatnonzero(~complete.all(axis=1))
    lists = [[seed for seed, known in zip(seeds, complete[t], strict=True) if known] for t in partly.tolist()]
    which = np.zeros(len(complete), np.int64)
    which[partly] = np.arange(1, len(partly) + 1)
    return pl.Series([list(seeds), *lists], dtype=pl.List(pl.Int64)).gather(which)


def _by_request(verdicts: pl.DataFrame, seeds: Sequence[int], values: Floats, among: pl.Series | None) -> Answers:
    first = stretches(verdicts, ["request"])
    requests = verdicts["request"].gather(first)
    number = np.arange(len(first))
    if not requests.is_sorted():  # as results hold them, it is: then no look-up is needed
        ids, requests = requests, (requests if among is None else among).unique()
        row = _rows(ids, requests)
        number = np.where(row < 0, len(requests), row)
    cell = np.repeat(number, np.diff(np.append(first, verdicts.height)))
    expected = np.count_nonzero(cell < len(requests))
    given = verdicts["judge_seed"].to_numpy()
    for i, seed in enumerate(seeds[1:], 1):
        cell[given == seed] += i * (len(requests) + 1)
    table = np.full((len(seeds), len(requests) + 1), np.nan)
    table.ravel()[cell] = values
    table[:, -1] = np.nan
    if np.count_nonzero(~np.isnan(table)) < expected:
        raise UsageError("a request has several verdicts of one judge seed", "filter them to one judge and setting")
    return Answers(requests, seeds, table)


def _rows(ids: pl.Series, distinct: pl.Series) -> Integers:
    """Where each of ``ids`` stands in ``distinct``, which are different; -1 where it does not."""
    sought, held = _words(ids), _words(distinct)
    if sought is None or held is None or not len(held):
        return _joined(ids, distinct)
    row = np.full(len(ids), -1, np.int64)
    seeking, left = np.arange(len(ids)), np.arange(len(distinct))
    for factor in _FACTORS:  # a slot keeps one of those that fall into it; the others try again with another factor
        bits = len(held).bit_length() + 1
        slots = _slots(held, factor, bits)
        table = np.full(1 << bits, -1, np.int32)
        table[slots] = np.arange(len(held), dtype=np.int32)
        candidate = table.take(_slots(sought, factor, bits))
        found = (candidate >= 0) & _equal(held.take(candidate, axis=0), sought)
        lost = np.flatnonzero(table.take(slots) != np.arange(len(held)))
        missed = np.flatnonzero(~found)
        row[seeking] = np.where(found, left.take(candidate), -1)
        left, held = left[lost], held.take(lost, axis=0)
        seeking, sought = seeking[missed], sought.take(missed, axis=0)
        if not len(left) or not len(seeking):
            return row
    rest = _joined(ids.gather(seeking), distinct.gather(left))
    row[seeking] = np.where(rest >= 0, left[rest], -1)
    return row


_FACTORS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9)
"""Odd, with their bits well mixed: multiplied by one, words that differ spread over the slots."""

_ID_BYTES = 32


def _words(ids: pl.Series) -> npt.NDArray[np.uint64] | None:
    """Ids of 32 bytes, as fingerprints are, as four whole numbers each; None where one is longer or shorter."""
    if ids.dtype != pl.String or ids.null_count() or not (ids.str.len_bytes() == _ID_BYTES).all():
        return None
    return ids.cast(pl.Binary).bin.reinterpret(dtype=pl.Array(pl.UInt64, 4)).to_numpy()


def _slots(words: npt.NDArray[np.uint64], factor: int, bits: int) -> npt.NDArray[np.int64]:
    mixed = (words[:, 0] + words[:, 1] * np.uint64(factor >> 1 | 1)) * np.uint64(factor)
    return (mixed >> np.uint64(64 - bits)).view(np.int64)


def _equal(one: npt.NDArray[np.uint64], other: npt.NDArray[np.uint64]) -> Booleans:
    """Row by row: all four words."""
    same: Booleans = (one == other).view(np.uint32).ravel() == 0x01010101
    return same


def _joined(ids: pl.Series, distinct: pl.Series) -> Integers:
    if ids.is_empty() or distinct.is_empty():
        return np.full(len(ids), -1, np.int64)
    numbered = pl.DataFrame({"id": distinct}).with_row_index("row")
    row = pl.DataFrame({"id": ids}).join(numbered, on="id", how="left", maintain_order="left")["row"]
    return row.cast(pl.Int64).fill_null(-1).to_numpy()


def _reduced(ufunc: np.ufunc, timeline: Integers, values: npt.NDArray[Any], out: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """``out`` with ``values`` of each timeline reduced in the place of what it had; ``timeline`` ascends."""
    if len(values):
        first = np.flatnonzero(np.diff(timeline, prepend=-1))
        out[timeline[first]] = ufunc.reduceat(values, first)
    return out
