"""Timelines are found by where strings lie, and rows by order: both must see what comparing every string sees."""

from __future__ import annotations

import itertools

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
    monkeypatch.setattr(timelines, "MANY", 0)


def stored(names: list[str], pieces: int) -> pl.Series:
    """The same strings, in storage of their own for each of several pieces, behind a row that is cut off."""
    size = -(-len(names) // pieces)
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


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3)), min_size=1, unique=True))
@modest
def test_rows_are_grouped_in_one_order(rows: list[tuple[int, int, int]]) -> None:
    frame = pl.DataFrame(rows, schema=["key", "row", "value"], orient="row").unique(["key", "row"], maintain_order=True)
    for given_rows in (frame, frame.sort("key", "row")):
        ordered, keys, first = grouped(given_rows, ["key"], ["row"])
        assert ordered.rows() == sorted(frame.rows())
        expected = [(key, len(list(group))) for key, group in itertools.groupby(ordered["key"].to_list())]
        assert list(zip(keys["key"].to_list(), np.diff(np.append(first, len(ordered))), strict=True)) == expected
