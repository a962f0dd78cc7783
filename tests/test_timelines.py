"""Timelines are found by where strings lie, and rows by order: both must see what comparing every string sees."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mabpl import timelines
from mabpl.metrics.ratios import grouped

modest = settings(max_examples=150, deadline=None)
NAMES = ("a", "b", "a name longer than a view", "a name longer than a visit", "")


@pytest.fixture
def by_place(monkeypatch: pytest.MonkeyPatch) -> None:
    assert pa.__version__
    monkeypatch.setattr(timelines, "MANY", 1)


def stored(names: list[str], pieces: int) -> pl.Series:
    """The same strings, in storage of their own for each of several pieces, behind a row that is cut off.

    With 0 pieces equal strings lie in one place, as after reading parquet.
    """
    if pieces == 0:
        distinct = list(dict.fromkeys(names))
        return pl.Series("name", distinct, dtype=pl.String)[[distinct.index(name) for name in names]]
    size = max(-(-len(names) // pieces), 1)
    parts = [pl.Series("name", names[i : i + size], dtype=pl.String) for i in range(0, len(names), size)]
    return pl.concat([pl.Series("name", ["cut off"]), *parts], rechunk=True).slice(1)


@pytest.mark.usefixtures("by_place")
def test_no_timeline_is_missed_and_none_is_cut_in_two() -> None:
    runs = st.lists(st.tuples(st.sampled_from(NAMES), st.integers(1, 6)), min_size=1, max_size=5)

    @given(runs, runs, st.integers(1, 4))
    @modest
    def equal(clips: list[tuple[str, int]], sets: list[tuple[str, int]], pieces: int) -> None:
        columns = [[name for name, times in column for _ in range(times)] for column in (sets, clips)]
        rows = list(zip(*columns, strict=False))
        frame = pl.DataFrame(
            {"set": stored([a for a, _ in rows], pieces), "clip_id": stored([b for _, b in rows], pieces)}
        ).with_columns(
            segment=pl.int_range(pl.len(), dtype=pl.Int32), start_s=pl.int_range(pl.len()).cast(pl.Float64),
            end_s=pl.int_range(pl.len()).cast(pl.Float64) + 1, is_idle=pl.lit(False),
        )  # fmt: skip
        expected = [i for i, row in enumerate(rows) if i == 0 or row != rows[i - 1]]
        assert set(expected) <= set(timelines._changes(frame, timelines.CLIP_KEY).tolist())
        assert timelines.stretches(frame, timelines.CLIP_KEY).tolist() == expected
        side = timelines.build(None, frame, None, frame.with_columns(run=pl.lit("r"))).human
        assert side.key.rows() == sorted(set(rows))
        found = dict(
            zip(side.key.rows(), (p.tolist() for p in np.split(side.position, side.offset[1:-1])), strict=True)
        )
        assert found == {key: [i for i, row in enumerate(rows) if row == key] for key in set(rows)}

    equal()


@pytest.mark.usefixtures("by_place")
def test_every_run_finds_its_clips_and_units() -> None:
    clips = [("s", "a"), ("s", "b, a name longer than a view"), ("t", "a"), ("t", "no human segmented this")]
    some = st.one_of(st.just(clips[:3]), st.just(clips[1:]), st.lists(st.sampled_from(clips), unique=True).map(sorted))
    runs = st.lists(
        st.tuples(st.sampled_from(("p", "q", "r, a name longer than a view")), some), min_size=1, max_size=4
    )
    in_turns = st.sampled_from(
        [
            [("p", clips[:1]), ("q", clips[1:3])],
            [("q", clips[:3]), ("p", clips[:3])],
            [("p", clips[:3]), ("q", [*clips[:2], clips[3]])],
        ]
    )

    @given(runs | in_turns, st.integers(0, 3), st.randoms())
    @modest
    def equal(runs: list[tuple[str, list[tuple[str, str]]]], pieces: int, random: Any) -> None:
        rows = [(run, *clip) for run, of_run in runs for clip in of_run for _ in range(2)]
        if random.random() < 0.2:
            random.shuffle(rows)
        frame = pl.DataFrame(
            {name: stored([row[i] for row in rows], pieces) for i, name in enumerate(timelines.TIMELINE_KEY)}
        )
        human = pl.DataFrame(clips[:3], schema=["set", "clip_id"], orient="row")
        human, predicted = (
            side.with_columns(
                segment=pl.int_range(pl.len(), dtype=pl.Int32), start_s=pl.int_range(pl.len()).cast(pl.Float64),
                end_s=pl.int_range(pl.len()).cast(pl.Float64) + 1, is_idle=pl.lit(False),
            )
            for side in (human, frame)
        )  # fmt: skip
        built = timelines.build(None, human, None, predicted)
        keys = sorted({row for row in rows if row[1:] in clips[:3]})
        assert built.predicted.key.rows() == keys
        assert [clips[i] for i in built.clip] == [key[1:] for key in keys]
        assert built.units.tolist() == [i for i, key in enumerate(keys) if i == 0 or key[:2] != keys[i - 1][:2]]
        found = np.split(built.predicted.position, built.predicted.offset[1:-1]) if keys else []
        assert [p.tolist() for p in found] == [[i for i, row in enumerate(rows) if row == key] for key in keys]

    equal()


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3)), min_size=1, unique=True))
@modest
def test_rows_are_grouped_in_one_order(rows: list[tuple[int, int, int]]) -> None:
    frame = pl.DataFrame(rows, schema=["key", "row", "value"], orient="row").unique(["key", "row"], maintain_order=True)
    for given_rows in (frame, frame.sort("key", "row")):
        ordered, keys, first = grouped(given_rows, ["key"], ["row"])
        assert ordered.rows() == sorted(frame.rows())
        expected = [(key, len(list(group))) for key, group in itertools.groupby(ordered["key"].to_list())]
        assert list(zip(keys["key"].to_list(), np.diff(np.append(first, len(ordered))), strict=True)) == expected
