"""ProactEgoMem's events: matching held to plain loops and to every possible matching, what adds up, and by hand."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import mabpl
from mabpl import engine, reference
from mabpl.benchmarks.proact_ego_mem import event_reference as plain
from mabpl.benchmarks.proact_ego_mem import event_scores
from mabpl.benchmarks.proact_ego_mem.event_matching import match, prepare
from mabpl.benchmarks.proact_ego_mem.event_options import EventOptions
from mabpl.benchmarks.proact_ego_mem.events import EventScores, plan, with_verdicts
from mabpl.errors import UsageError
from mabpl.judges import embedded
from mabpl.stats import bootstrap
from mabpl.tables.proact_ego_mem import MENTIONS, PROACT_CLIPS, PROACT_SEGMENTS
from mabpl.tables.proact_events import EVENT_METRICS
from mabpl.tables.schemas import VERDICTS

TRACK, TASK = "home", "state_tracking"
Cell = tuple[str, str]
Segment = tuple[float, float, str]
Said = tuple[float, str]


class Corpus:
    """Clips, segments and mentions put together by hand; a text refers to an object that stands in it."""

    def __init__(self) -> None:
        self.clips: list[dict[str, Any]] = []
        self.segments: list[dict[str, Any]] = []
        self.mentions: list[dict[str, Any]] = []

    def add(
        self,
        clip: str,
        segments: Sequence[Segment],
        said: dict[str, Sequence[Said]],
        *,
        negative: bool = False,
        minutes: float = 1.0,
        cell: Cell = (TRACK, TASK),
    ) -> Corpus:
        of = {"track": cell[0], "task": cell[1], "clip_uid": clip}
        self.clips.append(
            {**of, "split": "dev", "video_uid": "v", "abs_start_s": 0.0, "abs_end_s": 60 * minutes, "file": "f",
             "duration_s": 60 * minutes, "declared_negative": negative, "qa_items": 0}
        )  # fmt: skip
        for i, (start_s, end_s, thing) in enumerate(segments):
            self.segments.append(
                {**of, "split": "dev", "sample_id": f"{clip}-{i}", "object": thing, "start_s": start_s, "end_s": end_s,
                 "is_open": False, "dropped": end_s <= start_s}
            )  # fmt: skip
        for run, mentions in said.items():
            self.mentions += [
                {**of, "run": run, "mention": i, "time_s": time, "text": text}
                for i, (time, text) in enumerate(mentions)
            ]
        return self

    def scores(
        self,
        options: EventOptions | None = None,
        *,
        shuffle: int | None = None,
        threads: int | None = None,
        lacking: Callable[[str, str], bool] = lambda text, thing: False,
        **more: Any,
    ) -> EventScores:
        """Judged by :func:`refers`; ``lacking``: the pairs of which there is no verdict."""
        options = options or EventOptions()
        frames = [
            table.conform(pl.DataFrame(rows, infer_schema_length=None) if rows else table.empty())
            for table, rows in (
                (PROACT_CLIPS, self.clips), (PROACT_SEGMENTS, self.segments), (MENTIONS, self.mentions),
            )
        ]  # fmt: skip
        if shuffle is not None:
            frames = [frame.sample(fraction=1, shuffle=True, seed=shuffle) for frame in frames]
        runs = sorted({row["run"] for row in self.mentions} or {"a"})
        events = prepare(*frames, options, runs=runs)
        named = pl.DataFrame({"run": runs, "file": runs, "sha256": runs})
        scores = EventScores(events, options, match(events, None, options, threads), named, **more)
        planned = plan(scores)
        asked = planned.requests.filter(
            ~pl.struct("predicted_label", "primary").map_elements(
                lambda r: lacking(r["predicted_label"], r["primary"]), return_dtype=pl.Boolean
            )
        )
        verdicts = asked.select("request", "kind", key="request").with_columns(
            accepted=pl.Series([refers(*r) for r in asked.select("predicted_label", "primary").iter_rows()], dtype=bool)
        )
        constant = {"judge": "j", "route": "r", "status": "ok", "reply": "", "reasoning": ""}
        found = VERDICTS.conform(verdicts.with_columns(parser=1, **{k: pl.lit(v) for k, v in constant.items()}))
        return with_verdicts(scores, planned, found, {"kind": "object", "judge": "j", "route": "r"}, threads)


def refers(text: str, thing: str) -> bool:
    return thing in text.split()


def one(segments: Sequence[Segment], said: Sequence[Said], options: EventOptions | None = None, **more: Any) -> Any:
    """outcomes of the mentions of one clip, and the sample that each hits, by its number."""
    scores = Corpus().add("c", segments, {"a": said}, **more).scores(options)
    hits = [None if sample is None else int(sample.partition("-")[2]) for sample in scores.outcomes["sample_id"]]
    return scores.outcomes["outcome"].to_list(), hits


# --- matching, by hand ---


@pytest.mark.parametrize(
    ("time_s", "outcome"),
    [(9.0, "hit"), (8.999999, "out_of_time"), (22.0, "hit"), (22.000001, "out_of_time"), (15.0, "hit")],
)
def test_the_window_is_inclusive_to_the_microsecond(time_s: float, outcome: str) -> None:
    assert one([(10.0, 20.0, "cup")], [(time_s, "the cup")])[0] == [outcome]


def test_tolerances_are_options() -> None:
    said = [(5.0, "cup"), (27.0, "jar")]
    segments = [(10.0, 20.0, "cup"), (11.0, 20.0, "jar")]
    assert one(segments, said)[0] == ["out_of_time", "out_of_time"]
    assert one(segments, said, EventOptions(early_s=5, late_s=7))[0] == ["hit", "hit"]


def test_false_positives_are_told_apart() -> None:
    segments = [(10.0, 20.0, "cup"), (40.0, 50.0, "jar")]
    said = [(12.0, "cup"), (13.0, "cup again"), (14.0, "a jar"), (30.0, "cup"), (45.0, "lid")]
    assert one(segments, said) == (
        ["hit", "duplicate", "wrong_object", "out_of_time", "wrong_object"],
        [0, *[None] * 4],
    )


def test_a_declared_negative_is_not_a_clip_that_was_emptied() -> None:
    assert one([], [(1.0, "cup")], negative=True)[0] == ["on_negative"]
    assert one([(60.0, 60.0, "cup")], [(60.0, "cup")])[0] == ["out_of_time"]


def test_most_pairs_come_before_least_lateness() -> None:
    segments = [(10.0, 30.0, "cup"), (20.0, 30.0, "cup")]
    assert one(segments, [(20.0, "cup"), (29.0, "cup")])[1] == [
        0,
        1,
    ]  # 10 + 9 s late; the one at 20 s alone is 0 s late
    early = [(10.0, 12.0, "cup"), (11.0, 30.0, "cup")]
    assert one(early, [(11.0, "cup"), (25.0, "cup")])[1] == [0, 1]
    assert one(early, [(11.0, "cup"), (25.0, "cup")], EventOptions(matching="in_order"))[0] == ["hit", "duplicate"]


def test_least_lateness_comes_before_the_earliest() -> None:
    assert one([(10.0, 30.0, "cup")], [(15.0, "cup"), (12.0, "cup")])[1] == [None, 0]
    assert one([(10.0, 30.0, "cup"), (14.0, 30.0, "cup")], [(14.0, "cup")])[1] == [1]
    early = one([(10.0, 30.0, "cup")], [(9.0, "cup"), (10.0, "cup")])  # both 0 s late
    assert early[1] == [0, None]
    assert one([(10.0, 30.0, "cup"), (10.0, 30.0, "cup")], [(12.0, "cup"), (12.0, "cup")])[1] == [0, 1]


# --- against plain loops, and every matching there is ---


def every_matching(late: dict[tuple[int, int], int]) -> list[tuple[int, int]]:
    """The best of all sets of pairs: most, least late, first as a sorted list."""
    best: tuple[int, int, list[tuple[int, int]]] = (0, 0, [])
    for size in range(min(len({s for s, _ in late}), len({m for _, m in late})) + 1):
        for pairs in itertools.combinations(sorted(late), size):
            if len({s for s, _ in pairs}) == len({m for _, m in pairs}) == size:
                best = min(best, (-size, sum(late[pair] for pair in pairs), list(pairs)))
    return best[2]


TIMES = st.integers(0, 16).map(lambda half_seconds: half_seconds / 2)
THINGS = st.sampled_from(["cup", "jar"])
SEGMENTS = st.lists(
    st.tuples(TIMES, TIMES, THINGS).map(lambda s: (s[0], s[0] + s[1], s[2])).filter(lambda s: s[1] > s[0]), max_size=4
)
SPOKEN = st.lists(st.tuples(st.integers(0, 40).map(lambda t: t / 2), st.sampled_from(["cup", "jar", "lid", "cup jar"])))


@settings(max_examples=150, deadline=None)
@given(segments=SEGMENTS, said=SPOKEN.map(lambda said: said[:4]))
def test_the_definition_is_the_best_of_all_matchings(segments: list[Segment], said: list[Said]) -> None:
    things = [plain.Segment(str(i), *segment) for i, segment in enumerate(sorted(segments))]
    mentions = [plain.Mention(*mention) for mention in sorted(said, key=lambda mention: mention[0])]
    late = {
        (s, m): max(0, round(1e6 * (mention.time_s - thing.start_s)))
        for s, thing in enumerate(things)
        for m, mention in enumerate(mentions)
        if thing.start_s - 1 <= mention.time_s <= thing.end_s + 2 and refers(mention.text, thing.object)
    }
    found = plain.score_clip(things, mentions, refers)
    assert [(int(sample), m) for sample, m in found.matches] == every_matching(late)
    assert found.lateness_us == sum(late[pair] for pair in every_matching(late))


@pytest.mark.parametrize("kernels", ["plain", "compiled"])
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_the_kernel_finds_the_defined_matching_where_pairs_compete(kernels: str, seed: int) -> None:
    """Many small clips at a time, so dense that ties and displaced rows are the rule."""
    draw = random.Random(seed)
    rows, low, high, at, accepted, start, time, expected = [0], [], [], [0], [], [], [], []
    first_mention = [0]
    for _ in range(40):
        longest = draw.choice([3, 8, 30])
        spans = sorted((s := draw.randint(0, longest), s + draw.randint(1, longest)) for _ in range(draw.randint(0, 6)))
        times = sorted(draw.randint(0, 2 * longest) for _ in range(draw.randint(0, 6)))
        share, late = draw.choice([0.4, 0.8, 1.0]), {}
        for row, (begin, end) in enumerate(spans):
            in_time = [m for m, t in enumerate(times) if begin - 1 <= t <= end + 2]
            low.append(first_mention[-1] + (in_time[0] if in_time else 0))
            high.append(low[-1] + len(in_time))
            at.append(at[-1] + len(in_time))
            accepted += [draw.random() < share for _ in in_time]
            start.append(begin)
            late |= {
                (row, m): max(0, times[m] - begin) for m, yes in zip(in_time, accepted[at[-2] :], strict=True) if yes
            }
        time += times
        rows.append(len(start))
        first_mention.append(len(time))
        expected += [(first_mention[-2] + m, row) for row, m in reference.most_then_cheapest(late)]
    owner = np.full(len(time), -1, np.int32)
    inputs = [np.array(values, np.int64) for values in (rows, low, high, at, start, first_mention, time)]
    flags = np.array(accepted, np.bool_)
    if not len(flags):
        return
    if kernels == "compiled":
        engine.compiled_kernels("match_events").match_events(0, 40, *inputs, flags, False, owner)
    else:
        engine.plain_kernels("match_events").match_events(0, 40, *(a.tolist() for a in inputs), accepted, False, owner)
    assert sorted(expected) == [(m, row) for m, row in enumerate(owner.tolist()) if row >= 0]


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_rows_find_the_defined_assignment_at_any_cost(seed: int) -> None:
    """More than lateness can show: costs that are no differences of times."""
    draw, kernels = random.Random(seed), engine.plain_kernels("match_events")
    for _ in range(30):
        rows, columns, most = draw.randint(2, 6), draw.randint(2, 7), draw.choice([1, 1, 2, 4])
        costs = {(r, c): draw.randint(0, most) for r in range(rows) for c in range(columns) if draw.random() < 0.5}
        first = [sum(r < row for r, _ in costs) for row in range(rows + 1)]
        edges = [c for _, c in sorted(costs)], [costs[pair] for pair in sorted(costs)], 5 * (rows + 1)
        u, v, row_of, column_of = [0] * rows, [0] * columns, [-1] * columns, [-1] * rows
        state = (u, v, row_of, column_of)
        for row in range(rows):
            kernels.insert_row(row, first, *edges, *state, [-1] * columns, [0] * columns, [0] * columns)
        for row in range(rows):
            kernels.settle_row(row, rows, first, *edges, *state, [0] * (rows + 1), [0] * (rows + 1))
        assert [(r, c) for r, c in enumerate(column_of) if c >= 0] == reference.most_then_cheapest(costs)
        assert all(row_of[c] == r for r, c in enumerate(column_of) if c >= 0)


CLIPS = st.lists(st.tuples(SEGMENTS, SPOKEN, SPOKEN, st.booleans()), min_size=1, max_size=4)


@pytest.mark.parametrize("kernels", ["plain", "compiled"])
@pytest.mark.parametrize("matching", ["optimal", "in_order"])
def test_the_fast_way_is_the_plain_one(kernels: str, matching: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if kernels == "compiled":
        monkeypatch.setattr(engine, "NUMBA_FROM", 0)
        monkeypatch.setattr(engine, "COMPILE_FROM", 0)
    options = EventOptions(matching=matching)

    @settings(max_examples=25, deadline=None)
    @given(clips=CLIPS, seed=st.integers(0, 9))
    @example(clips=[([(0, 0.5, "cup")], [(0, "cup")] * 6, [(0, "cup")] * 6, False)], seed=2)
    def held(clips: list[tuple[list[Segment], list[Said], list[Said], bool]], seed: int) -> None:
        corpus = Corpus()
        expected: dict[tuple[str, str], plain.ScoredClip] = {}
        for number, (segments, first, second, negative) in enumerate(clips):
            clip, segments = f"c{number}", [] if negative else segments
            corpus.add(clip, segments, {"a": first, "b": second}, negative=negative)
            things = [plain.Segment(f"{clip}-{i}", *segment) for i, segment in enumerate(segments)]
            for run, said in (("a", first), ("b", second)):
                mentions = [plain.Mention(*mention) for mention in said]
                expected[run, clip] = plain.score_clip(
                    things, mentions, refers, negative=negative, matching=matching
                )  # fmt: skip
        scores = corpus.scores(options, shuffle=seed)
        for (run, clip), of in expected.items():
            rows = scores.outcomes.filter(run=run, clip_uid=clip)
            assert rows["outcome"].to_list() == of.outcomes
            hits = rows.filter(outcome="hit")
            assert sorted(hits.select("sample_id", "mention").iter_rows()) == of.matches
            for counts in scores.clip_scores.filter(run=run, clip_uid=clip).iter_rows(named=True):
                assert counts["hits"] == len(of.matches)
                assert counts["misses"] == counts["segments"] - len(of.matches)
                assert round(counts["lateness_s"] * 1e6) == of.lateness_us
                for name, outcome in zip(event_scores.FALSE_POSITIVES, event_scores.OUTCOMES[1:], strict=True):
                    assert counts[name] == of.outcomes.count(outcome)

    held()


def test_a_long_clip_of_open_segments_is_matched_to_the_full() -> None:
    draw = random.Random(5)
    segments = [(draw.randint(0, 900) / 2, 1000.0, "cup") for _ in range(60)]
    said = [(draw.randint(0, 2000) / 2, "cup") for _ in range(300)]
    scores = Corpus().add("c", segments, {"a": said}, minutes=20).scores()
    assert scores.clip_scores["hits"].item() == scores.clip_scores["timing_hits"].item() == 60
    starts, times = sorted(start for start, _, _ in segments), sorted(time for time, _ in said)
    least = 0.0
    for start in starts:  # all segments last to the end: each takes the first free mention that is in time
        least += max(0.0, (time := next(t for t in times if t >= start - 1)) - start)
        times.remove(time)
    assert scores.clip_scores["lateness_s"].item() <= least


def test_neither_the_order_of_rows_nor_threads_nor_the_engine_change_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    draw, corpus = random.Random(3), Corpus()
    for c in range(40):
        segments = [(s := draw.randint(0, 50), s + draw.randint(1, 20), draw.choice(["cup", "jar"])) for _ in range(4)]
        said = {run: [(draw.randint(0, 60), draw.choice(["cup", "jar", "lid"])) for _ in range(5)] for run in "abc"}
        corpus.add(f"c{c:02d}", segments, said, negative=False, cell=(draw.choice(["home", "shop"]), draw.choice("xy")))
    expected = corpus.scores().views()
    monkeypatch.setattr(engine, "NUMBA_FROM", 0)
    monkeypatch.setattr(engine, "COMPILE_FROM", 0)
    for threads in (1, 3):
        found = corpus.scores(shuffle=threads, threads=threads).views()
        for name in ("event_pairs", "event_outcomes", "event_clip_scores", "event_scores", "requests", "verdicts"):
            assert_frame_equal(found[name], expected[name], check_exact=True)


# --- adding up ---


def small() -> Corpus:
    """Two cells. One: a hit of 4 s, a duplicate, a miss and a false alarm on a negative, in 3 min. The other: a hit."""
    other = ("shop", "location_tracking")
    return (
        Corpus()
        .add("p", [(10, 20, "cup"), (30, 40, "jar")], {"a": [(14, "cup"), (15, "cup")], "b": []})
        .add("q", [], {"a": [(5, "cup")], "b": []}, negative=True)
        .add("r", [], {"a": []}, negative=True)
        .add("s", [(10, 20, "cup")], {"a": [(8.5, "jar"), (9.5, "cup")]}, cell=other, minutes=2)
    )


def row(scores: EventScores, run: str, track: str | None, task: str | None) -> dict[str, Any]:
    keys = [pl.col(name).eq_missing(pl.lit(value, pl.String)) for name, value in (("track", track), ("task", task))]
    return scores.scores.filter(pl.col("run") == run, *keys).row(0, named=True)


def test_counts_are_pooled_and_cells_averaged() -> None:
    corpus = small()
    corpus.mentions.append({**corpus.mentions[0], "run": "b", "mention": 0, "time_s": 50.0})
    scores = corpus.scores()
    home, shop = row(scores, "a", TRACK, TASK), row(scores, "a", "shop", "location_tracking")
    counted = {"hits": 1, "duplicates": 1, "on_negatives": 1, "out_of_time": 0, "wrong_objects": 0, "misses": 1}
    assert {name: home[name] for name in counted} == counted
    assert (home["clips"], home["negatives"], home["silent_negatives"], home["minutes"]) == (3, 2, 1, 3.0)
    values = {"precision": 100 / 3, "recall": 50.0, "f1": 40.0, "lenient_f1": 50.0, "timing_f1": 40.0}
    values |= {"silence_rate": 50.0, "false_alarms_per_minute": 2 / 3, "mean_lateness_s": 4.0}
    assert {name: home[name] for name in values} == pytest.approx(values)
    assert (shop["f1"], shop["out_of_time"], shop["silence_rate"], shop["mean_lateness_s"]) == (
        pytest.approx(200 / 3), 1, None, 0.0,
    )  # fmt: skip
    macro = row(scores, "a", None, None)
    assert (macro["cells"], macro["clips"], macro["hits"]) == (2, 4, 2)
    assert macro["f1"] == pytest.approx((40 + 200 / 3) / 2)
    assert (macro["silence_rate"], macro["mean_lateness_s"]) == (50.0, 2.0)  # the mean of the cells that have one
    silent = row(scores, "b", "shop", "location_tracking")
    assert [silent[name] for name in ("precision", "recall", "f1", "mean_lateness_s")] == [0.0, 0.0, 0.0, None]
    assert scores.scores.filter(pl.col("task").is_null())["track"].to_list() == [None, None]  # tracks have one task


def test_a_run_that_lacks_a_cell_has_no_mean_over_all() -> None:
    corpus = small()
    corpus.mentions.append({**corpus.mentions[0], "run": "b", "mention": 0, "time_s": 50.0})
    clips = corpus.scores().clip_scores.filter((pl.col("run") == "a") | (pl.col("track") == TRACK))
    for ci in (0.95, None):
        added = event_scores.add_up(clips, EventOptions(), ci=ci)
        assert added.select("run", "track").rows() == [("a", TRACK), ("a", "shop"), ("a", None), ("b", TRACK)]
        assert added["f1"].to_list() == pytest.approx([40.0, 200 / 3, (40 + 200 / 3) / 2, 0.0])


def test_duplicates_may_be_ignored() -> None:
    home = row(small().scores(EventOptions(duplicates="ignored")), "a", TRACK, TASK)
    assert (home["duplicates"], home["timing_duplicates"]) == (1, 1)
    assert home["f1"] == home["lenient_f1"] == home["timing_f1"] == pytest.approx(50.0)
    assert home["false_alarms_per_minute"] == pytest.approx(1 / 3)


def test_a_clip_that_lacks_a_verdict_is_unscored_never_zero() -> None:
    scores = small().scores(lacking=lambda text, thing: (text, thing) == ("jar", "cup"))
    assert scores.unscored.is_empty()  # that mention is out of time for the cup: nobody need be asked
    scores = small().scores(lacking=lambda text, thing: (text, thing) == ("cup", "cup"))
    assert scores.unscored.filter(run="a")["clip_uid"].to_list() == ["p", "s"]
    clip = scores.clip_scores.filter(run="a", clip_uid="p").row(0, named=True)
    assert [clip[name] for name in ("hits", "misses", "on_negatives", "lateness_s")] == [None] * 4
    assert scores.outcomes.filter(clip_uid="p")["outcome"].null_count() == 2
    home, shop = row(scores, "a", TRACK, TASK), row(scores, "a", "shop", "location_tracking")
    assert (home["unscored_clips"], home["hits"], home["f1"], home["timing_f1"]) == (1, 0, 0.0, pytest.approx(40.0))
    assert (shop["hits"], shop["f1"], shop["timing_f1"]) == (None, None, pytest.approx(200 / 3))


def test_intervals_are_those_of_a_plain_bootstrap_with_the_same_draws() -> None:
    draw, corpus, cells = random.Random(1), Corpus(), [("home", "x"), ("shop", "x")]
    for c in range(14):
        segments = [(10.0 * i, 10.0 * i + 5, "cup") for i in range(draw.randint(1, 4))]
        said = {
            run: [(draw.randint(0, 45), draw.choice(["cup", "jar"])) for _ in range(draw.randint(0, 4))] for run in "ab"
        }
        corpus.add(f"c{c:02d}", segments, said, cell=cells[c % 2])
    scores = corpus.scores()
    clips = scores.clip_scores.filter(run="b").sort("clip_uid")
    of_cells = []
    for stratum, (track, task) in enumerate(cells):
        rows = clips.filter(track=track, task=task)
        weights = bootstrap.clip_weights(rows.height, stratum=stratum)
        values = []
        for weight in weights:
            hits, said_, wanted = (float(weight @ rows[name].to_numpy()) for name in ("hits", "mentions", "segments"))
            values.append(200 * hits / (said_ + wanted))
        of_cells.append(np.array(values))
    for track, drawn in (("home", of_cells[0]), (None, (of_cells[0] + of_cells[1]) / 2)):
        found = row(scores, "b", track, None if track is None else "x")
        expected = np.quantile(drawn, [0.025, 0.975])
        assert [found["f1_low"], found["f1_high"]] == pytest.approx(expected.tolist())
        assert found["f1_low"] < found["f1"] < found["f1_high"]


def test_without_a_judge_what_hangs_on_objects_is_null() -> None:
    judged = small().scores()
    alone = EventScores(judged.events, judged.options, judged.timing, judged.runs)
    values = row(alone, "a", TRACK, TASK)
    assert (values["timing_f1"], values["silence_rate"], values["unscored_clips"]) == (pytest.approx(40.0), 50.0, 0)
    assert all(values[name] is None for name in EVENT_METRICS if name not in ("timing_f1", "silence_rate"))
    assert alone.unscored.is_empty() and alone.outcomes["outcome"].null_count() == alone.outcomes.height
    assert alone.outcomes["timing_sample_id"].drop_nulls().to_list() == ["p-0", "s-0"]


def test_sql_adds_up_to_the_same() -> None:
    scores = small().scores()
    sql = mabpl.connect(scores)
    query = """select 200.0 * sum(hits) / sum(mentions + segments) as f1 from event_clip_scores
               where run = 'a' group by track, task order by track, task"""
    cells = scores.scores.filter(pl.col("run") == "a", pl.col("task").is_not_null())
    assert sql.sql(query).pl()["f1"].to_list() == pytest.approx(cells["f1"].to_list())
    outcomes = sql.sql("select outcome, count(*) as n from event_outcomes where run = 'a' group by all").pl()
    assert dict(outcomes.iter_rows()) == {"hit": 2, "duplicate": 1, "on_negative": 1, "out_of_time": 1}


# --- bad frames, the embedded judge ---


@pytest.mark.parametrize("time_s", [-0.5, float("nan"), float("inf"), 2e6])
def test_impossible_times_are_refused(time_s: float) -> None:
    with pytest.raises(UsageError, match="time"):
        one([(10.0, 20.0, "cup")], [(time_s, "cup")])


def test_a_mention_of_an_unknown_clip_is_refused() -> None:
    corpus = small()
    corpus.mentions.append({**corpus.mentions[0], "clip_uid": "nowhere"})
    with pytest.raises(UsageError, match="nowhere"):
        corpus.scores()


@pytest.mark.parametrize(
    ("mention", "thing", "names_it"),
    [
        ("Your kettle is still on, and nobody is near it.", "kettle", True),
        ("The tap is still running", "faucet", True),
        ("I see a bottle of water.", "water bottle", True),
        ("The knife is on the counter", "kettle", False),
        ("Watch the red cup", "blue cup", False),
        ("Mind the blue cup", "blue cup", True),
        ("Mind that!", "cup", False),
        ("", "cup", False),
    ],
)
def test_the_embedded_judge_of_objects(mention: str, thing: str, names_it: bool) -> None:
    assert embedded.judge_object([mention], [thing]).tolist() == [names_it]
