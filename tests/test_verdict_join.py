"""What verdicts are worth to a clip: the join against plain loops, with verdicts missing, in any order of the rows."""

from __future__ import annotations

import contextlib
import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from strategies import settings, timelines

import mabpl
from mabpl import engine
from mabpl.benchmarks.micro_annotation.judging import Kind, Plan, plan, with_verdicts
from mabpl.benchmarks.micro_annotation.scores import Scores
from mabpl.errors import UsageError
from mabpl.metrics import verdicts
from mabpl.reference import Segment, in_order, overlap, score_clip, span, tick
from mabpl.settings import Settings
from mabpl.tables import schemas

SEEDS = [3, 1, 2]
JUDGES: dict[str, Any] = {"judges": {"pa": {"judge_seeds": SEEDS}, "joint": {"judge_seeds": []}}, "prompts": {}}
modest = hypothesis_settings(max_examples=60, deadline=None)

Timeline = list[Segment]
Clips = dict[tuple[str, str], tuple[Timeline, Timeline]]
"""(run, clip) to (human, predicted)."""


@dataclass
class Opinion:
    """A judge as a function of what it is shown; ``lacks`` of a hundred questions it has not answered."""

    lacks: int = 0
    salt: int = 0
    said: dict[Any, Any] = field(default_factory=dict)

    def _draw(self, *what: Any) -> int:
        return int.from_bytes(hashlib.blake2b(repr((self.salt, what)).encode(), digest_size=4).digest())

    def pa(self, seed: int, predicted: str, primary: str, also: tuple[str, ...]) -> tuple[float, bool] | None:
        draw = self._draw("pa", seed, predicted, primary, also)
        return None if draw % 100 < self.lacks else (float(draw // 100 % 101), bool(draw // 10_000 % 2))

    def joint(self, predicted: str, primary: str) -> bool | None:
        draw = self._draw("joint", predicted, primary)
        return None if draw % 100 < self.lacks else bool(draw // 100 % 2)


def in_plain_loops(human: Timeline, predicted: Timeline, judge: Opinion, chosen: Settings) -> dict[str, Any]:
    """One clip, from its segments: what a judge is asked of it, and what the answers are worth."""
    clip = score_clip(human, predicted, chosen)

    def also(p: int, h: int) -> tuple[str, ...]:
        own, found = predicted[p], []
        for other in in_order(human, human=True):
            start = max(tick(own.start_s), tick(human[other].start_s))
            end = min(tick(own.end_s), tick(human[other].end_s))
            if other != h and end - start >= 20 and overlap(span(own), span(human[other])) > 0:
                found.append(human[other].label)
        return tuple(found)

    asked = [(p, h) for p, h, _ in clip.overlapping] if chosen.judge_pairs == "all" else clip.pa
    by_seed: dict[int, list[float]] = {}
    for seed in SEEDS:
        answers = {(p, h): judge.pa(seed, predicted[p].label, human[h].label, also(p, h)) for p, h in asked}
        if None in answers.values():
            continue
        earned = [answers[pair] or (0.0, False) for pair in clip.pa]
        credit = sum(score for score, _ in earned) / 100
        strict = sum(score for score, equivalent in earned if equivalent) / 100
        both = clip.x + clip.y
        by_seed[seed] = [
            100 * 2 * credit / both if both else 0, 100 * 2 * strict / both if both else 0,
            100 * credit / clip.x if clip.x else 0, 100 * credit / clip.y if clip.y else 0,
        ]  # fmt: skip
    names = ("pa_f1", "strict_pa_f1", "precision", "recall")
    result: dict[str, Any] = {"judge_seeds": list(by_seed)}
    undefined = clip.x + clip.y == 0
    for i, name in enumerate(names):
        values = [found[i] for found in by_seed.values()]
        result[name] = None if undefined or not values else sum(values) / len(values)
    accepted = [judge.joint(predicted[p].label, human[h].label) for p, h in clip.seg]
    result["j"] = None if None in accepted else sum(map(bool, accepted))
    result["joint_f1"] = None
    if result["j"] is not None and not undefined:
        result["joint_f1"] = 100 * 2 * result["j"] / (clip.x + clip.y)
    return result


def frame(timeline: Timeline, run: str | None, clip: str) -> pl.DataFrame:
    rows = [
        {"run": run, "set": "s", "clip_id": clip, "segment": i, "start_s": s.start_s, "end_s": s.end_s,
         "label": s.label, "is_idle": s.is_idle, "flagged": s.flagged}
        for i, s in enumerate(timeline)
    ]  # fmt: skip
    schema = ("run", "set", "clip_id", "segment", "start_s", "end_s", "label", "is_idle", "flagged")
    return pl.DataFrame(rows, schema={name: schemas.SEGMENTS.schema[name] for name in schema})


def tables(clips: Clips) -> tuple[pl.DataFrame, pl.DataFrame]:
    human = {clip: frame(human, None, clip) for (_, clip), (human, _) in clips.items()}
    return pl.concat(human.values()), pl.concat([frame(made, *key) for key, (_, made) in clips.items()])


def answered(planned: Plan, judge: Opinion) -> dict[Kind, pl.DataFrame]:
    """The `verdicts` of ``judge`` on all that is asked; what it lacks is a failure, whatever it says, or no row."""
    rows: dict[Kind, list[dict[str, Any]]] = {"pa": [], "joint": []}
    for row in planned.requests.iter_rows(named=True):
        base = {"request": row["request"], "kind": row["kind"], "judge": "j", "route": "r", "parser": 1}
        for seed in SEEDS if row["kind"] == "pa" else [None]:
            common = {**base, "key": f"{row['request']}{seed}", "judge_seed": seed, "reply": "", "reasoning": ""}
            if row["kind"] == "pa":
                found = judge.pa(seed or 0, row["predicted_label"], row["primary"], tuple(row["also"]))
                values = {} if found is None else {"score": found[0], "equivalent": found[1]}
            else:
                accepted = judge.joint(row["predicted_label"], row["primary"])
                values = {} if accepted is None else {"accepted": accepted}
            if values or seed != 2:
                stray = {"score": 50.0, "equivalent": True, "accepted": True}
                rows[row["kind"]].append(
                    {**common, **({"status": "ok"} if values else {"status": "no_json", **stray}), **values}
                )
    return {kind: pl.DataFrame(rows[kind], schema=schemas.VERDICTS.schema) for kind in rows}


def judged(clips: Clips, judge: Opinion, chosen: Settings) -> tuple[Scores, Plan, dict[Kind, pl.DataFrame]]:
    scores = mabpl.score(*tables(clips), settings=chosen)
    planned = plan(scores, ("pa", "joint"))
    found = answered(planned, judge)
    return with_verdicts(scores, planned, pl.concat(found.values()), JUDGES), planned, found


@st.composite
def clips(draw: st.DrawFn) -> Clips:
    """Two clips of one or two runs, each with at least one segment on either side."""
    found: Clips = {}
    runs = draw(st.sampled_from((["r"], ["r", "a"])))
    for clip in ("c", "d"):
        human, predicted = draw(timelines(max_size=6).filter(lambda both: both[0] and both[1]))
        for run in runs:
            found[run, clip] = human, predicted
            predicted = draw(st.permutations(predicted))
    return found


@given(clips(), st.sampled_from((0, 10, 40)), st.integers(0, 9), settings(missing="refuse"))
@modest
def test_every_clip_is_worth_what_plain_loops_say(drawn: Clips, lacks: int, salt: int, chosen: Settings) -> None:
    judge = Opinion(lacks, salt)
    scores, _, _ = judged(drawn, judge, chosen)
    rows = {(row["run"], row["clip_id"]): row for row in scores.table("clip_scores").iter_rows(named=True)}
    unscored = set()
    for key, (human, predicted) in drawn.items():
        expected = in_plain_loops(human, predicted, judge, chosen)
        used = expected.pop("judge_seeds")
        assert rows[key]["judge_seeds"] == used, key
        assert {name: rows[key][name] for name in expected} == pytest.approx(expected, abs=1e-9), key
        unscored |= {(*key, "pa_f1")} if not used else set()
        unscored |= {(*key, "joint_f1")} if expected["j"] is None else set()
    assert set(scores.unscored.select("run", "clip_id", "metric").iter_rows()) == unscored


def pa_credits(pairs: pl.DataFrame, key: pl.DataFrame, rows: pl.DataFrame, seeds: list[int], *counted: Any) -> Any:
    answers = verdicts.pa_answers(rows, seeds, pairs["request"])
    return verdicts.pa_credits(verdicts.index(pairs, key, *counted), answers)


def joint_counts(pairs: pl.DataFrame, key: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    return verdicts.joint_counts(verdicts.index(pairs, key), verdicts.joint_answers(rows, pairs["request"]))


@contextlib.contextmanager
def batches_of(verdicts_each: int) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(verdicts, "_BATCH", verdicts_each)
        yield


@given(clips(), st.integers(0, 9), st.randoms(use_true_random=False), st.sampled_from(("all", "assigned")))
@modest
def test_the_order_of_rows_changes_no_bit(drawn: Clips, salt: int, random: Any, pairs: Any) -> None:
    scores, planned, found = judged(drawn, Opinion(20, salt), Settings(judge_pairs=pairs))
    key = scores.table("clip_scores").select("run", "set", "clip_id")
    seed = random.randrange(1000)

    def shuffled(table: pl.DataFrame) -> pl.DataFrame:
        return table.sample(fraction=1, shuffle=True, seed=seed)

    asked, assigned = planned.asked["pa"], scores.matches.filter(metric="pa")
    given_pa, given_joint = (found[kind].filter(status="ok") for kind in ("pa", "joint"))
    one = pa_credits(asked, key, given_pa.sort("request"), SEEDS, assigned)
    with batches_of(random.randint(1, 5)):
        two = pa_credits(shuffled(asked), shuffled(key), shuffled(given_pa), SEEDS, shuffled(assigned))
    assert_frame_equal(one, two, check_exact=True)
    one = joint_counts(planned.asked["joint"], key, given_joint)
    with batches_of(random.randint(1, 5)):
        two = joint_counts(shuffled(planned.asked["joint"]), shuffled(key), shuffled(given_joint))
    assert_frame_equal(one, two, check_exact=True)


# --- by hand ---------------------------------------------------------------------------------------------------------


PAIRS = pl.DataFrame(
    [("b", 0, 0, "x", True), ("a", 1, 1, "z", True), ("a", 1, 0, "y", False), ("a", 0, 0, "x", True)],
    schema=["clip_id", "predicted", "human", "request", "counts"],
    orient="row",
).with_columns(run=pl.lit("r"), set=pl.lit("s"))
ASKED = PAIRS, pl.DataFrame({"run": ["r"] * 3, "set": ["s"] * 3, "clip_id": ["c", "a", "b"]})


def said(*rows: tuple[str, int, float | None, bool | None]) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=["request", "judge_seed", "score", "equivalent"], orient="row")


def test_credit_is_the_mean_of_the_judge_seeds_that_have_every_verdict_of_the_clip() -> None:
    # Clip a: seed 1 earns .80 + .50, strict .80; seed 2 lacks y, which earns nothing, but was asked. b shares x.
    given_ = said(
        ("x", 1, 80.0, True), ("y", 1, 90.0, True), ("z", 1, 50.0, False),
        ("x", 2, 40.0, True), ("z", 2, 10.0, True),
    )  # fmt: skip
    assert pa_credits(*ASKED, given_, [1, 2]).select("clip_id", "credit", "strict_credit", "judge_seeds").rows() == [
        ("a", pytest.approx(1.3), pytest.approx(0.8), [1]),
        ("b", pytest.approx(0.6), pytest.approx(0.6), [1, 2]),
        ("c", 0.0, 0.0, [1, 2]),  # nothing overlaps: nothing to ask, 0 from every seed
    ]


def test_a_clip_without_a_complete_seed_is_null_and_never_0() -> None:
    for given_ in (
        said(("x", 1, 80.0, True), ("z", 1, 50.0, True), ("y", 2, 90.0, True)),
        said(("x", 1, 80.0, True), ("z", 1, 50.0, True), ("y", 1, math.nan, True), ("y", 2, 100.1, True)),
        said(("x", 1, 80.0, True), ("z", 1, 50.0, True), ("y", 1, None, True), ("y", 2, 9.0, None)),
    ):
        found = pa_credits(*ASKED, given_, [1, 2])
        assert found["credit"].to_list() == [None, pytest.approx(0.8), 0.0]
        assert found["judge_seeds"].to_list() == [[], [1], [1, 2]]
    nothing = pa_credits(*ASKED, said().cast({"judge_seed": pl.Int64}), [1, 2])
    assert nothing["credit"].to_list() == nothing["strict_credit"].to_list() == [None, None, 0.0]


def test_a_score_of_0_is_a_verdict_and_so_is_a_refusal() -> None:
    zero = said(*((request, 1, 0.0, False) for request in "xyz"))
    assert pa_credits(*ASKED, zero, [1])["credit"].to_list() == [0.0, 0.0, 0.0]
    refused = pl.DataFrame({"request": ["x", "y", "z"], "accepted": [False, True, None]})
    assert joint_counts(*ASKED, refused)["j"].to_list() == [None, 0, 0]
    assert joint_counts(*ASKED, refused.fill_null(True))["j"].to_list() == [2, 0, 0]


def test_two_verdicts_of_one_seed_are_refused_and_those_of_other_seeds_or_requests_are_not_looked_at() -> None:
    whole = [(request, 1, 70.0, True) for request in "xyz"]
    again = ("x", 1, 70.0, True)
    for more in ([("x", 1, 71.0, True)], [again], [again, ("elsewhere", 1, 0.0, False)]):
        for order in (1, -1):
            for size in (1, 9):
                with batches_of(size), pytest.raises(UsageError, match="several verdicts of one judge seed"):
                    pa_credits(*ASKED, said(*[*whole, *more][::order]), [1, 2])
    lost = said(("elsewhere", 1, 80.0, True), *whole[:2])
    assert pa_credits(*ASKED, lost, [1])["credit"].to_list() == [None, pytest.approx(0.7), 0.0]
    assert pa_credits(*ASKED, lost.reverse(), [1])["credit"].to_list() == [None, pytest.approx(0.7), 0.0]
    stray = [(*other, 0.5, False) for other in (("elsewhere", 1), ("elsewhere", 1), ("elsewhere", 9), ("x", 9))]
    for rows in ([*whole, *stray], [*stray, *whole]):
        assert pa_credits(*ASKED, said(*rows), [1])["credit"].to_list() == pytest.approx([1.4, 0.7, 0.0])


def test_an_empty_side_is_0_and_two_are_undefined() -> None:
    short = [Segment(0, 1, "a")]
    idle = [Segment(0, 1, "a", is_idle=True)]
    drawn: Clips = {("r", "one side"): (short, idle), ("r", "no side"): (idle, idle), ("r", "both"): (short, short)}
    scores, _, _ = judged(drawn, Opinion(), Settings())
    rows = {row["clip_id"]: row for row in scores.table("clip_scores").iter_rows(named=True)}
    assert rows["one side"]["pa_f1"] == rows["one side"]["joint_f1"] == 0.0
    assert rows["no side"]["pa_f1"] is rows["no side"]["joint_f1"] is None
    assert scores.unscored.is_empty()
    (total,) = scores.sets.filter(set="s").iter_rows(named=True)
    assert total["pa_f1"] == pytest.approx((0.0 + rows["both"]["pa_f1"]) / 2)
    assert total["undefined_clips"] == 1


def test_an_unscored_clip_is_left_out_of_the_mean_and_of_the_pooled_counts() -> None:
    one, two = [Segment(0, 2, "a"), Segment(2, 4, "b")], [Segment(0, 2, "c"), Segment(2, 4, "d")]
    drawn: Clips = {("r", "c"): (one, one), ("r", "d"): (two, two)}
    scores = mabpl.score(*tables(drawn))
    planned = plan(scores, ("pa", "joint"))
    of_c = planned.requests.filter(pl.col("primary").is_in(["a", "b"]))
    found = answered(Plan(planned.prompts, planned.asked, of_c), Opinion())
    result = with_verdicts(scores, planned, pl.concat(found.values()), JUDGES)
    clip = result.table("clip_scores").row(0, named=True)
    (total,) = result.sets.iter_rows(named=True)
    assert [total[name] for name in ("pa_f1", "joint_f1")] == pytest.approx([clip["pa_f1"], clip["joint_f1"]])
    assert result.unscored.select("clip_id", "metric").rows() == [("d", "joint_f1"), ("d", "pa_f1")]


def first_rows(held: list[Any], sought: list[Any]) -> list[int]:
    return [held.index(one) if one in held else -1 for one in [*held, *sought]]


@pytest.mark.parametrize("kernels", [engine.plain_kernels, engine.compiled_kernels])
def test_a_text_is_found_where_it_first_stands(kernels: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "kernels_for", lambda count, kernel: kernels(kernel))

    @given(st.lists(st.integers(0, 9), max_size=12), st.lists(st.integers(0, 9), max_size=30), st.text())
    @modest
    def found(held: list[int], sought: list[int], start: str) -> None:
        mine, theirs = ([f"{start}{n}" for n in numbers] for numbers in (held, sought))
        texts = verdicts._Held.of(pl.Series(mine, dtype=pl.String), len(theirs))
        rows = texts.rows(pl.Series(theirs, dtype=pl.String))
        assert [*texts.first.tolist(), *rows.tolist()] == first_rows(mine, theirs)

    found()


def test_rows_are_told_apart_by_either_key_and_places_are_shared() -> None:
    keys = st.tuples(st.sampled_from((-(2**63), -8, -1, 0, 8, 16, 2**63 - 1)), st.integers(0, 1))

    @given(st.lists(keys, max_size=12), st.lists(keys, max_size=12))
    @modest
    def equal(held: list[tuple[int, int]], sought: list[tuple[int, int]]) -> None:
        arrays = [np.array(rows, np.int64).reshape(-1, 2).T.copy() for rows in (held, sought)]
        for kernels in (engine.plain_kernels("hold_rows"), engine.compiled_kernels("hold_rows")):
            mine, theirs = ([engine.read_only(column) for column in array] for array in arrays)
            if engine.are_plain(kernels):
                mine, theirs = ([column.tolist() for column in columns] for columns in (mine, theirs))
            table = np.full(1 << (2 * len(held)).bit_length(), -1, np.int32)
            first, found = np.empty(len(held), np.int32), np.empty(len(sought), np.int32)
            kernels.hold_rows(*mine, table, first)
            kernels.find_rows(*mine, table, *theirs, found)
            assert [*first.tolist(), *found.tolist()] == first_rows(held, sought)

    equal()
