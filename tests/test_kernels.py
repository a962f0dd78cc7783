"""The fast way (tables, arrays, kernels plain and compiled, interval join) gives what the plain reference gives."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import settings as any_settings
from strategies import timelines as any_timelines

from mabpl import engine, pairs, reference
from mabpl import timelines as lines
from mabpl.metrics import matches, segment_f1
from mabpl.reference import Segment
from mabpl.settings import Settings

Clip = tuple[list[Segment], list[Segment]]


def frames(clips: dict[str, Clip]) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    def rows(side: int) -> pl.DataFrame:
        found = [
            (clip, i, s.start_s, s.end_s, s.is_idle, s.flagged)
            for clip, both in clips.items()
            for i, s in enumerate(both[side])
        ]
        names = {
            "clip_id": pl.String,
            "segment": pl.Int32,
            "start_s": pl.Float64,
            "end_s": pl.Float64,
            "is_idle": pl.Boolean,
            "flagged": pl.Boolean,
        }
        return pl.DataFrame(found, schema=names, orient="row").with_columns(set=pl.lit("a"), run=pl.lit("r"))

    keys = pl.DataFrame({"run": "r", "set": "a", "clip_id": list(clips)}, schema_overrides={"clip_id": pl.String})
    return keys.select("set", "clip_id"), rows(0), keys, rows(1)


def check(clips: dict[str, Clip], options: Settings, threads: int | None = None) -> None:
    timelines = lines.build(*frames(clips))
    matched = matches.match(timelines, options, threads=threads)
    table = matched.table()
    joined = pairs.pairs(timelines)
    for clip, (human, predicted) in clips.items():
        expected = reference.score_clip(human, predicted, options)
        here = table.filter(clip_id=clip)
        for family in matches.FAMILIES:
            found = here.filter(metric=family).select("predicted", "human").rows()
            assert found == getattr(expected, family), (clip, family)
        found = joined.filter(clip_id=clip).select("predicted", "human", "overlap_us").rows()
        assert found == expected.overlapping


@given(st.lists(any_timelines(), min_size=1, max_size=3), any_settings())
@settings(max_examples=300, deadline=None)
def test_plain_kernels_equal_the_reference(clips: list[Clip], options: Settings) -> None:
    check({f"c{i}": clip for i, clip in enumerate(clips)}, options)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "kernels_for", lambda *_: engine.compiled_kernels())


@pytest.mark.usefixtures("compiled")
def test_compiled_kernels_equal_the_reference() -> None:
    @given(st.lists(any_timelines(), min_size=1, max_size=6), any_settings())
    @settings(max_examples=150, deadline=None)
    def equal(clips: list[Clip], options: Settings) -> None:
        check({f"c{i}": clip for i, clip in enumerate(clips)}, options, threads=2)

    equal()
    kernel = engine.compiled_kernels().match_timelines.dispatcher
    assert len(kernel.signatures) == 1, "one array layout, one compilation"


@given(any_timelines(), st.sampled_from([0.1, 0.25, 0.5, 0.75, 0.3]))
@settings(max_examples=150, deadline=None)
def test_segment_f1_at_any_iou_equals_the_reference(clip: Clip, threshold: float) -> None:
    found = segment_f1(lines.build(*frames({"c": clip})), [threshold])["matched"].to_list()
    assert found == [reference.f1_at_iou(*clip, threshold)]


def test_fractions_are_compared_exactly_where_their_quotients_are_equal() -> None:
    big = 2**51
    cases = [
        (big - 1, big, big - 2, big - 1),
        (1, 3, 1, 3),
        (0, 5, 0, 7),
        (2, 4, 3, 6),
        (big - 1, big, big - 1, big - 3),
    ]
    for a, b, c, d in cases:
        assert engine.plain_kernels().greater(a, b, c, d) == (Fraction(a, b) > Fraction(c, d))
        assert engine.compiled_kernels().greater(a, b, c, d) == (Fraction(a, b) > Fraction(c, d))


def test_of_compiling_one_is_told_once(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(engine, "_is_ready", lambda *_: False)
    monkeypatch.setattr(engine, "compiled_kernels", engine.plain_kernels)
    engine._tell_of_compiling.cache_clear()
    engine.kernels_for(engine.COMPILE_FROM - 1)
    assert capsys.readouterr().err == ""
    for kernel in ("match_timelines", "match_rows", "match_timelines"):
        engine.kernels_for(engine.COMPILE_FROM, kernel)
    assert capsys.readouterr().err == "mabpl: compiling the matching kernels, once (some seconds)\n"


@pytest.mark.parametrize("load", [engine.plain_kernels, engine.compiled_kernels])
def test_more_pairs_than_there_was_room_for(load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of a dozen segments meets, and nearly begins and ends with, each of the other side's."""
    monkeypatch.setattr(engine, "kernels_for", lambda *_: load())
    rng = random.Random(3)
    human, near, longer = (
        sorted((Segment(rng.random() * 0.3, end + rng.random() * 0.3) for _ in range(12)), key=lambda s: s.start_s)
        for end in (2, 2, 20)
    )
    few = ([Segment(0.0, 1.0)], [Segment(0.1, 1.0)])
    for many in ((human, near), (human, longer)):
        check({"a": few, "b": many, "c": few}, Settings())


@pytest.mark.parametrize("later_first", [False, True])
def test_keys_too_wide_to_pack_are_sorted_all_the_same(later_first: bool) -> None:
    """Overlaps of months beside many segments do not fit one int64 key; the order must not change."""
    year = 3.2e7
    rng = random.Random(5)
    human = [Segment(year * i / 64, year * (i + 1) / 64) for i in range(64)]
    predicted = [Segment(s.start_s + rng.randrange(3) * 1e4, s.end_s + rng.randrange(3) * 1e4) for s in human]
    predicted += [Segment(0.0, year)] * 3
    check({"long": (human, predicted)}, Settings(pa_ties="later_first" if later_first else "earlier_first"))


@pytest.mark.usefixtures("compiled")
def test_a_timeline_of_100_000_segments_is_not_quadratic() -> None:
    """With one prediction over everything and one human over everything: 10**10 steps would not end here."""
    n = 100_000
    start = np.arange(n) * 1.0
    side = pl.DataFrame({"start_s": np.append(start, 0.0), "end_s": np.append(start + 1.0, float(n))})
    side = side.with_columns(
        pl.lit("r").alias("run"), pl.lit("a").alias("set"), pl.lit("c").alias("clip_id"),
        pl.lit(False).alias("is_idle"), pl.lit(False).alias("flagged"),
        pl.int_range(n + 1, dtype=pl.Int32).alias("segment"),
    )  # fmt: skip
    matched = matches.match(lines.build(side.select("set", "clip_id"), side, None, side), Settings())
    assert {family: int(matched.counts(family)[0]) for family in matches.FAMILIES} == dict.fromkeys(
        matches.FAMILIES, n + 1
    )


def jittered(segments: list[Segment], seed: str) -> list[Segment]:
    rng = random.Random(seed)
    moved = []
    for s in segments:
        start = max(0.0, s.start_s + rng.uniform(-0.3, 0.3))
        moved.append(Segment(round(start, 3), round(max(s.end_s + rng.uniform(-0.3, 0.3), start + 0.05), 3), s.label))
    rng.shuffle(moved)
    return moved


@pytest.mark.shared_data
@pytest.mark.parametrize("matching", ["greedy", "optimal"])
def test_long_real_timelines_with_overlaps_and_nesting_equal_the_reference(shared_data: Path, matching: str) -> None:
    """EPIC-KITCHENS-100 validation, up to 564 segments a clip, against a jittered, shuffled copy of itself."""
    clips = {}
    for line in (shared_data / "epic" / "labels.jsonl").read_text().splitlines():
        row = json.loads(line)
        human = [Segment(s["start_s"], s["end_s"], s["label"], s["is_idle"], s["flagged"]) for s in row["segments"]]
        clips[row["clip_id"]] = (human, jittered(human, row["clip_id"]))
    assert sum(len(human) for human, _ in clips.values()) == 9_668
    check(clips, Settings(boundary_matching=matching))


FROM_THE_CACHE = """
import sys
import numpy as np
from mabpl import engine
if "slow" in sys.argv:
    engine._Kernel._read = lambda *_: 1 / 0
table, row = np.full(8, -1, np.int32), np.empty(3, np.int32)
keys = [engine.read_only(np.array(numbers)) for numbers in ([5, 6, 5], [1, 2, 1])]
engine.compiled_kernels("hold_rows").hold_rows(*keys, table, row)
print(row.tolist(), "numba.np.linalg" in sys.modules)
"""


@pytest.mark.parametrize(("how", "said"), [("fast", "[0, 1, 0] False"), ("slow", "[0, 1, 0] True")])
def test_a_kernel_is_read_from_the_cache_without_what_compiles(how: str, said: str) -> None:
    for again in (False, True):  # the first process may have to compile
        found = subprocess.run(
            [sys.executable, "-c", FROM_THE_CACHE, how], capture_output=True, text=True, check=True
        ).stdout.strip()
        assert found.startswith("[0, 1, 0]")
        assert found == said or not again
