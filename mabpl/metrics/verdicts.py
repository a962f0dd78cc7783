"""Verdicts joined back in: what a judge's answers are worth to each clip.

PA-F1, per clip: the credit of each judge seed that has every verdict of the clip, then their mean. A seed that lacks
one is dropped for that clip only; with no seed left the clip is unscored (null), never 0. A clip without a pair that
overlaps earns 0 from every seed. Joint F1: the Seg F1 matches whose labels are accepted; a clip that lacks a verdict
is unscored.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from mabpl import engine
from mabpl.errors import UsageError
from mabpl.timelines import TIMELINE_KEY, Integers, ascending, columns_of, picked, stretches

Floats = npt.NDArray[np.float64]
Booleans = npt.NDArray[np.bool_]


_EVERY = pl.lit(value=True)


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
    keys = columns_of(key, TIMELINE_KEY)
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
    pairs = columns_of(pairs, [*TIMELINE_KEY, "predicted", "human"]).rechunk()  # strings in chunks are slow to compare
    first = stretches(pairs, TIMELINE_KEY)
    found = picked(pairs, TIMELINE_KEY, first)
    at = np.arange(len(first))
    if not found.equals(keys):
        indexed = keys.with_row_index("timeline")
        place = found.join(indexed, on=TIMELINE_KEY, how="left", maintain_order="left")["timeline"]
        if place.null_count():
            raise UsageError("there are pairs of timelines that are not scored")
        at = place.to_numpy().astype(np.int64)
    timeline = np.repeat(at, np.diff(np.append(first, pairs.height)))
    predicted, human = (pairs[name].to_numpy().astype(np.int64) for name in ("predicted", "human"))
    if pairs.height and max(predicted.max(), human.max()) >> _BITS:
        raise UsageError("a timeline is too long to be judged", f"at most {1 << _BITS:,} segments")
    return timeline << 2 * _BITS | predicted << _BITS | human


@dataclass(frozen=True, slots=True)
class Answers:
    """What judges said of pairs.

    ``table``: float64 (requests, seeds), NaN where there is no verdict. ``row``: the row of each pair.
    """

    seeds: Sequence[int]
    table: Floats
    row: npt.NDArray[np.int32]


def pa_answers(verdicts: pl.DataFrame, seeds: Sequence[int], requests: pl.Series, known: pl.Expr = _EVERY) -> Answers:
    """Scores, 0-100; below zero (or -0.0) where the labels are not equivalent.

    ``verdicts``: request, judge_seed, score, equivalent, in any order, and what ``known`` needs, which says what rows
    count; one with a null, or a score that is not 0 to 100, is none. ``requests``: that of each pair. Raises
    :class:`UsageError` where one of them has two verdicts of one seed.
    """
    sound = known & pl.col("score").is_between(0, 100) & pl.col("equivalent").is_not_null()
    seed = pl.lit(-1, pl.Int8)
    for i, judge_seed in enumerate(seeds):
        seed = pl.when(pl.col("judge_seed") == judge_seed).then(pl.lit(i, pl.Int8)).otherwise(seed)
    value = pl.when("equivalent").then("score").otherwise(-pl.col("score"))
    return _answers(verdicts, pl.when(sound).then(seed), value, seeds, requests)


def joint_answers(verdicts: pl.DataFrame, requests: pl.Series, known: pl.Expr = _EVERY) -> Answers:
    """1 where the labels were accepted. ``verdicts``: request, accepted, in any order; one with a null is none.

    ``requests``: that of each pair. Raises :class:`UsageError` where one has two verdicts.
    """
    given = verdicts.lazy().filter(known, pl.col("accepted").is_not_null()).select("request", "accepted").collect()
    return _answers(given, pl.lit(0, pl.Int8), pl.col("accepted").cast(pl.Float64), [0], requests)


def pa_credits(asked: Asked, answers: Answers) -> pl.DataFrame:
    """Per timeline: run, set, clip_id, credit, strict_credit, judge_seeds (those with every verdict of the clip)."""
    values, counted = answers.table.take(answers.row.take(asked.pair), axis=0), np.flatnonzero(asked.counts)
    pairs, earning = _Spans.of(asked.timeline), _Spans.of(asked.timeline.take(counted))
    shape = asked.key.height, len(answers.seeds)
    complete = pairs.reduce(np.logical_and, ~np.isnan(values), np.ones(shape, np.bool_))
    earned = values.take(counted, axis=0)
    credit = [
        np.where(complete, earning.reduce(np.add, part, np.zeros(shape)), 0.0).sum(axis=1) / 100.0
        for part in (np.abs(earned), np.maximum(earned, 0.0))
    ]
    used = complete.sum(axis=1)
    columns = []
    for name, sums in zip(("credit", "strict_credit"), credit, strict=True):
        mean = np.divide(sums, used, out=np.full(len(used), np.nan), where=used > 0)
        columns.append(pl.Series(name, mean, nan_to_null=True))
    columns.append(_listed(complete, answers.seeds).alias("judge_seeds"))
    return asked.key.with_columns(columns)


def joint_counts(asked: Asked, answers: Answers) -> pl.DataFrame:
    """Per timeline: run, set, clip_id, j."""
    accepted = answers.table[:, 0].take(answers.row.take(asked.pair))
    sums = _Spans.of(asked.timeline).reduce(np.add, accepted, np.zeros(asked.key.height))
    return asked.key.with_columns(pl.Series("j", sums, nan_to_null=True).cast(pl.Int64))


def _listed(complete: Booleans, seeds: Sequence[int]) -> pl.Series:
    """The complete seeds of each timeline."""
    which = np.zeros(len(complete), np.int64)
    partly = np.flatnonzero(~complete.all(axis=1))
    patterns, found = np.unique(complete[partly], axis=0, return_inverse=True)
    which[partly] = found.reshape(-1) + 1
    lists = [[seed for seed, known in zip(seeds, pattern, strict=True) if known] for pattern in patterns.tolist()]
    return pl.Series([list(seeds), *lists], dtype=pl.List(pl.Int64))[which]


_BATCH = 1 << 18
"""Verdicts that are placed at once: so few that the allocators keep the memory for the next batch."""


def _answers(
    verdicts: pl.DataFrame, seed: pl.Expr, value: pl.Expr, seeds: Sequence[int], requests: pl.Series
) -> Answers:
    """From rows with a request. ``seed`` (Int8): the place of the judge seed in ``seeds``; negative or null: none."""
    held = _Held.of(requests, verdicts.height)
    table = np.full((len(requests) + 1, len(seeds)), np.nan)
    cells, nowhere = table.ravel(), len(requests) * len(seeds)

    def place(first: int) -> int:
        batch = verdicts.slice(first, _BATCH).select("request", seed=seed.fill_null(-1), value=value)
        of_seed = batch["seed"].to_numpy()
        cell = held.rows(batch["request"]) * np.int64(len(seeds)) + of_seed
        cell[(cell < 0) | (of_seed < 0)] = nowhere
        cells[cell] = batch["value"].to_numpy()
        return int(np.count_nonzero(cell != nowhere))

    with ThreadPoolExecutor(2) as pool:
        expected = sum(pool.map(place, range(0, verdicts.height, _BATCH)))
    cells[nowhere:] = np.nan
    if np.count_nonzero(~np.isnan(table)) < expected:
        raise UsageError("a request has several verdicts of one judge seed", "filter them to one judge and setting")
    return Answers(seeds, table, held.first)


_TEXTS_A_SEGMENT = 10
"""With so many, compiled kernels are there: the segments were matched by them."""


@dataclass(frozen=True, slots=True)
class _Held:
    """Texts; ``first``: for each the first row of the same text.

    With compiled kernels those are taken for equal that agree in 128 bits of hashes, as many as a request's id has.
    """

    texts: pl.Series
    first: npt.NDArray[np.int32]
    hashes: Sequence[Integers] = ()
    table: npt.NDArray[np.int32] | None = None

    @classmethod
    def of(cls, texts: pl.Series, sought: int) -> _Held:
        """``sought``: about how many will be looked for."""
        kernels = engine.kernels_for((len(texts) + sought) // _TEXTS_A_SEGMENT, "hold_rows")
        if engine.are_plain(kernels):
            return cls(texts, _joined(texts, texts))
        hashes, first = _hashes(texts), np.empty(len(texts), np.int32)
        table = np.full(1 << (2 * len(texts)).bit_length(), -1, np.int32)
        kernels.hold_rows(*hashes, table, first)
        return cls(texts, first, hashes, table)

    def rows(self, texts: pl.Series) -> npt.NDArray[np.int32]:
        """For each its first row; -1 where it has none."""
        texts = texts.cast(self.texts.dtype)
        if self.table is None:
            return _joined(self.texts, texts)
        found = np.empty(len(texts), np.int32)
        engine.compiled_kernels("find_rows").find_rows(*self.hashes, self.table, *_hashes(texts), found)
        return found


def _joined(held: pl.Series, sought: pl.Series) -> npt.NDArray[np.int32]:
    first = pl.DataFrame({"text": held}).with_row_index("row").unique("text", keep="first")
    found = sought.alias("text").to_frame().join(first, on="text", how="left", maintain_order="left")["row"]
    return found.cast(pl.Int32).fill_null(-1).to_numpy(writable=True)


def _hashes(texts: pl.Series) -> list[Integers]:
    found = texts.alias("text").to_frame().select(pl.col("text").hash(seed).alias(str(seed)) for seed in (0, 1))
    return [engine.read_only(column.rechunk().to_numpy().view(np.int64)) for column in found.get_columns()]


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
