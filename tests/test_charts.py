"""Charts show the numbers of their tables, read nothing of a file as code, and load nothing."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterator
from typing import Any

import altair as alt
import polars as pl
import pytest

import mabpl
from mabpl.benchmarks.micro_annotation.scores import Scores
from mabpl.data import sample_folder
from mabpl.errors import MissingExtra, UsageError
from mabpl.report import charts
from mabpl.report.results import leaderboard
from mabpl.tables.schemas import SEGMENTS

RUNS = ["careful-large_seed1", "small-coarse_seed1"]
HOSTILE = '<img src="https://x.y/x" onerror=alert(1)>\' \\ datum.x'


@pytest.fixture(scope="module")
def scores() -> Scores:
    sample = mabpl.open_benchmark(sample_folder())
    return mabpl.score(sample.labels(), sample.predictions())


@pytest.fixture
def offline() -> Iterator[None]:
    before = alt.renderers.active
    charts.offline()
    yield
    alt.renderers.enable(before)


def data(chart: Any) -> list[dict[str, Any]]:
    (rows,) = chart.to_dict()["datasets"].values()
    return list(rows)


def picture(chart: Any) -> bytes:
    bundle, _ = chart._repr_mimebundle_()
    png = bundle["image/png"]
    return base64.b64decode(png) if isinstance(png, str) else png


def test_intervals_are_those_of_the_table_best_first(scores: Scores) -> None:
    board = leaderboard(scores)
    chart = charts.interval_chart(board, "boundary_f1")
    for row, shown in zip(board.iter_rows(named=True), data(chart), strict=True):
        assert (shown["panel"], shown["who"]) == (row["set"], row["configuration"])
        for field, column in (("value", "boundary_f1"), ("low", "boundary_f1_low"), ("high", "boundary_f1_high")):
            assert shown[field] == pytest.approx(row[column], abs=0.005)
    order = chart.to_dict()["spec"]["layer"][0]["encoding"]["y"]["sort"]
    assert order == ["careful-large", "quick-large", "small-fine", "small-coarse"]


def test_slices_keep_the_order_of_their_bins(scores: Scores) -> None:
    bins = ["under 50 s", "50 s and over"]
    label = pl.when(pl.col("duration_s") < 50).then(pl.lit(bins[0])).otherwise(pl.lit(bins[1]))
    clips = scores.clips.with_columns(length=label.cast(pl.Enum(bins)))
    table = mabpl.summarise(clips, ["length"], combine=True, fold_seeds=True)
    chart = charts.slices_chart(table, "seg_f1", "length")
    assert chart.to_dict()["spec"]["layer"][0]["encoding"]["x"]["sort"] == bins
    assert {row["panel"] for row in data(chart)} == {"all sets"}
    assert [row["value"] for row in data(chart)] == table["seg_f1"].round(2).to_list()
    assert {row["low"] for row in data(chart)} == {None}  # no interval was asked for


@pytest.mark.parametrize("metric", ["boundary", "seg"])
def test_a_lane_is_coloured_by_its_matches(scores: Scores, metric: str) -> None:
    clip = "carpentry-01"
    rows = data(charts.timeline_chart(scores, clip, RUNS, metric=metric))
    hit = {
        run: scores.matches.filter(run=run, clip_id=clip, metric=metric).select("predicted", "human") for run in RUNS
    }
    by_all = set(hit[RUNS[0]]["human"]) & set(hit[RUNS[1]]["human"])
    by_any = set(hit[RUNS[0]]["human"]) | set(hit[RUNS[1]]["human"])
    lanes: dict[str, dict[str, set[int]]] = {}
    for row in rows:
        lanes.setdefault(row["lane"], {}).setdefault(row["state"], set()).add(row["segment"])
    assert list(lanes) == ["(human)", *RUNS]
    assert lanes["(human)"].get("matched", set()) == by_all
    assert lanes["(human)"].get("matched by some runs", set()) == by_any - by_all
    human = scores.segments.filter(pl.col("run").is_null(), pl.col("is_idle") | pl.col("flagged"), clip_id=clip)
    assert lanes["(human)"]["not scored"] == set(human["segment"])
    for run in RUNS:
        assert lanes[run].get("matched", set()) == set(hit[run]["predicted"])
        assert "matched by some runs" not in lanes[run]


def test_names_and_labels_are_data_only(scores: Scores, offline: None) -> None:
    segments = SEGMENTS.conform(scores.segments.filter(clip_id="carpentry-01")).with_columns(label=pl.lit(HOSTILE))
    tables = {"segments": segments, "matches": scores.matches}
    timeline = charts.timeline_chart(Scores(tables, scores.settings), "carpentry-01", RUNS)
    spec = timeline.to_dict()
    assert {row["label"] for row in spec.pop("datasets").popitem()[1]} == {HOSTILE}
    assert HOSTILE not in str(spec)

    renamed = scores.clips.rename({"operator": HOSTILE}).with_columns(configuration=pl.lit(HOSTILE), run=pl.lit("r[0]"))
    renamed = renamed.unique(["run", "set", "clip_id"], keep="first", maintain_order=True)
    table = mabpl.summarise(renamed, [HOSTILE], fold_seeds=True, ci=0.9)
    sliced = charts.slices_chart(table, "boundary_f1", HOSTILE)
    assert {row["who"] for row in data(sliced)} == {HOSTILE}
    for chart in (timeline, sliced):
        assert picture(chart).startswith(b"\x89PNG")


def test_a_shown_chart_is_a_picture_that_loads_nothing(scores: Scores, offline: None) -> None:
    bundle, metadata = charts.interval_chart(leaderboard(scores), "seg_f1")._repr_mimebundle_()
    assert sorted(bundle) == ["application/vnd.vegalite.v6+json", "image/png", "text/plain"]
    assert "url" not in json.dumps(bundle["application/vnd.vegalite.v6+json"]["datasets"])
    assert metadata["image/png"]["width"] > metadata["image/png"]["height"] > 0


def test_what_cannot_be_drawn_is_said(scores: Scores, monkeypatch: pytest.MonkeyPatch) -> None:
    board = leaderboard(scores)
    with pytest.raises(UsageError, match="did you mean 'boundary_f1'"):
        charts.interval_chart(board, "boundary_f2")
    with pytest.raises(UsageError, match="pa_f1 has no values"):
        charts.interval_chart(board, "pa_f1")
    with pytest.raises(UsageError, match="unknown column 'person'"):
        charts.slices_chart(board, "seg_f1", "person")
    with pytest.raises(UsageError, match="unknown clip"):
        charts.timeline_chart(scores, "nowhere", RUNS)
    with pytest.raises(UsageError, match="unknown run"):
        charts.timeline_chart(scores, "sewing-01", "nobody")
    with pytest.raises(UsageError, match="unknown metric"):
        charts.timeline_chart(scores, "sewing-01", RUNS, metric="joint")
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(MissingExtra, match=r"mabpl\[plot\]"):
        charts.offline()
    monkeypatch.setitem(sys.modules, "altair", None)
    with pytest.raises(MissingExtra, match=r"mabpl\[plot\]"):
        charts.interval_chart(board, "seg_f1")
