"""ely-eye's metrics: worked by hand, against the plain definition, against an IR library, and how they add up."""

from __future__ import annotations

import math
from typing import Any
from unittest import mock

import numpy as np
import polars as pl
import pytest
from ely_cases import Case, Row, atom, cases, overlap, query, source
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from mabpl.benchmarks.ely_eye import adding_up, reference
from mabpl.benchmarks.ely_eye.adding_up import Reading, add_up
from mabpl.benchmarks.ely_eye.options import ElyOptions
from mabpl.benchmarks.ely_eye.queries import described
from mabpl.benchmarks.ely_eye.query_scores import score_queries
from mabpl.stats import bootstrap


def per_query(case: Case, tau: float | None = None, shuffled: int | None = None) -> pl.DataFrame:
    tables = case.tables(shuffled)
    tables["queries"] = described(tables["queries"], tables["gold"], tables["sources"])
    return score_queries(**tables, tau=tau)


def scored(case: Case, **options: Any) -> pl.DataFrame:
    chosen = ElyOptions(**options)
    return add_up(per_query(case, chosen.tau), chosen, ci=None)


def value(
    case: Case,
    metric: str,
    *,
    slice_: str = "all",
    of: str | None = None,
    denominator: str | None = "applicable",
    **reading: Any,
) -> float | None:
    options = {name: reading.pop(name) for name in ("tau",) if name in reading}
    defaults = {"recall@10": {"recall_unit": "region"}, "holder": {"cross_holder": "possible"}}.get(metric, {})
    if metric in ("recall@10", "mrr", "ndcg@10"):
        defaults = {**defaults, "whole_source": "excluded"}
    rows = scored(case, **options).filter(slice=slice_, metric=metric, **{**defaults, **reading})
    rows = rows.filter(pl.col("value_of_slice").eq_missing(of), pl.col("denominator").eq_missing(denominator))
    return rows.select("value").item()


def others(count: int) -> list[Row]:
    return [atom(f"x{i:02}") for i in range(count)]


# --- worked by hand ---


def one_query(ranked: list[str], resolved: list[Row], atoms: list[Row], **more: Any) -> Case:
    return Case([query("q", **more)], atoms, resolved, {("r", "q"): list(ranked)})


def test_recall_counts_regions_or_atoms_among_the_first_ten() -> None:
    """Two regions: the first of atoms g1 and g2, the second of g2 and g3. g2 stands at rank 10, g1 and g3 after it."""
    resolved = [overlap("q", "g1"), overlap("q", "g2"), overlap("q", "g2", 1), overlap("q", "g3", 1)]
    noise = others(9)
    ranked = [*(row["atom_id"] for row in noise), "g2", "g1", "g3"]
    case = one_query(ranked, resolved, [*noise, atom("g1"), atom("g2"), atom("g3")])
    case.regions = {"q": ["d", "d"]}
    assert value(case, "recall@10") == 1.0
    assert value(case, "recall@10", recall_unit="atom") == 1 / 3
    assert value(case, "mrr") == 1 / 10
    assert value(case, "ndcg@10") == pytest.approx((1 / math.log2(11)) / (1 + 1 / math.log2(3) + 1 / 2), rel=1e-15)


def test_a_region_that_no_atom_covers_is_a_miss_in_every_metric() -> None:
    case = one_query(["g"], [overlap("q", "g")], [atom("g")])
    case.regions = {"q": ["d", "d"]}
    assert value(case, "recall@10") == value(case, "recall@10", recall_unit="atom") == 1 / 2
    assert value(case, "mrr") == 1.0
    assert value(case, "ndcg@10") == pytest.approx(1 / (1 + 1 / math.log2(3)), rel=1e-15)


def test_the_reciprocal_rank_has_no_cut_off_and_the_ideal_ends_at_ten() -> None:
    noise = others(24)
    gold = [atom(f"g{i:02}") for i in range(12)]
    resolved = [overlap("q", row["atom_id"]) for row in gold]
    late = one_query([*(row["atom_id"] for row in noise), "g00"], resolved, [*noise, *gold])
    assert value(late, "mrr") == 1 / 25
    assert value(late, "recall@10") == value(late, "ndcg@10") == 0.0
    perfect = one_query([row["atom_id"] for row in gold], resolved, gold)
    assert value(perfect, "ndcg@10") == 1.0
    assert value(perfect, "recall@10", recall_unit="atom") == 10 / 12


@pytest.mark.parametrize(
    ("hidden", "own", "at"),
    [
        (atom("g", at=2), {}, 1),
        (atom("g", holder="b"), {}, 1),
        (atom("g", "late"), {}, 1),
        (atom("g", "theirs"), {}, 1),
    ],
    ids=["observed later", "of another holder", "its source observed later", "its source another holder's"],
)
def test_what_is_not_visible_is_no_hit_and_no_gold_but_keeps_its_rank(
    hidden: Row, own: dict[str, Any], at: int
) -> None:
    resolved = [overlap("q", "g"), overlap("q", "h")]
    case = one_query(["g", "h"], resolved, [hidden, atom("h", at=1)], as_of=at, **own)
    case.sources = [source("d"), source("late", at=2), source("theirs", "b")]
    assert value(case, "mrr") == 1 / 2
    assert value(case, "recall@10", recall_unit="atom") == 1.0
    assert value(case, "ndcg@10") == pytest.approx(1 / math.log2(3), rel=1e-15)
    alone = one_query(["g"], [overlap("q", "g")], [hidden], as_of=at, **own)
    alone.sources = case.sources
    for metric in ("recall@10", "mrr", "ndcg@10"):
        assert value(alone, metric) == 0.0
    leaks = hidden["holder"] == "b" or hidden["source_id"] == "theirs"
    assert value(alone, "holder") == float(not leaks)
    assert value(alone, "temporal") == float(leaks)


def test_whole_source_atoms_are_excluded_and_counted_side_by_side() -> None:
    resolved = [overlap("q", "all of it", whole=True), overlap("q", "page")]
    case = one_query(["all of it", "page"], resolved, [atom("all of it"), atom("page")])
    found = {
        (metric, which): value(case, metric, whole_source=which)
        for metric in ("recall@10", "mrr", "ndcg@10")
        for which in ("excluded", "counted")
    }
    assert found["mrr", "excluded"] == 1 / 2
    assert found["ndcg@10", "excluded"] == pytest.approx(1 / math.log2(3), rel=1e-15)
    assert found["mrr", "counted"] == found["ndcg@10", "counted"] == 1.0
    only_whole = one_query(["all of it"], resolved[:1], [atom("all of it")])
    assert value(only_whole, "recall@10") == 0.0
    assert value(only_whole, "recall@10", whole_source="counted") == 1.0


@pytest.mark.parametrize(
    ("places", "tau", "expected"),
    [
        ([], None, 0.0),
        ([{"atom_id": "x"}], None, 1.0),
        ([{"atom_id": "x", "strong": False, "score": 9.0}], None, 0.0),
        ([{"atom_id": "x", "strong": True, "score": 0.0}], None, 1.0),
        ([{"atom_id": "x", "strong": False, "score": 0.5}], 0.5, 1.0),
        ([{"atom_id": "x", "strong": True, "score": 0.4}], 0.5, 0.0),
        ([{"atom_id": "x", "strong": False}], 0.5, 0.0),
        ([{"atom_id": "x"}], 0.5, 1.0),
        ([{"atom_id": "x", "score": -3.0}], -2.0, 0.0),
    ],
)
def test_false_recall(places: list[Row], tau: float | None, expected: float) -> None:
    case = Case([query("q", gold=False)], [atom("x")], ranked={("r", "q"): places})
    assert value(case, "false_recall", tau=tau) == expected


def test_the_future_counts_among_the_first_ten_and_another_holder_anywhere() -> None:
    noise = others(10)
    atoms = [*noise, atom("later", at=5), atom("theirs", holder="b"), atom("just in time", at=1)]
    eleventh = one_query([*(row["atom_id"] for row in noise), "later"], [], atoms, as_of=1)
    tenth = one_query([*(row["atom_id"] for row in noise[1:]), "later"], [], atoms, as_of=1)
    in_time = one_query(["just in time"], [], atoms, as_of=1)
    assert [value(case, "temporal") for case in (eleventh, tenth, in_time)] == [1.0, 0.0, 1.0]
    assert value(one_query(["later"], [], atoms), "temporal") is None
    far = one_query([*(row["atom_id"] for row in noise), "theirs"], [], atoms)
    far.sources.append(source("e", "b"))
    assert value(far, "holder") == 0.0
    nobody_else = one_query(["x00"], [], atoms)
    assert value(nobody_else, "holder") is None


def test_cross_holder_queries_possible_or_asked() -> None:
    """a's question is answered; b asks it too, c asks about its item, d something else: none of them has an answer."""
    queries = [
        query("qa", "a"),
        query("qb", "b", gold=False, question="qa"),
        query("qc", "c", gold=False, item="qa"),
        query("qd", "d", gold=False),
        query("qe", "a", gold=False, question="qa"),
        query("qf", "b", gold=False, question="qa", item="qa", modality="code"),
    ]
    case = Case(queries, [atom("g")], [overlap("qa", "g")], {("r", row["query_id"]): ["g"] for row in queries})
    rows = scored(case).filter(slice="all", metric="holder", denominator="applicable")
    assert dict(zip(rows["cross_holder"], zip(rows["total"], rows["n"], strict=True), strict=True)) == {
        "possible": (2.0, 6),
        "asked": (0.0, 2),
    }


def test_both_denominators_stand_beside_each_other() -> None:
    """Two answerable queries, one hit; three unanswerable ones, one of which returns something; four have a time."""
    queries = [query("q0"), query("q1", as_of=1)]
    queries += [query(f"q{i}", gold=False, as_of=1) for i in (2, 3, 4)]
    ranked = {("r", row["query_id"]): [] for row in queries} | {("r", "q0"): ["g"], ("r", "q2"): ["later"]}
    case = Case(queries, [atom("g"), atom("later", at=3)], [overlap("q0", "g"), overlap("q1", "g")], ranked)
    rows = scored(case).filter(slice="all").filter(pl.col("whole_source").fill_null("excluded") == "excluded")
    found = {
        (r["metric"], r["denominator"]): (r["value"], r["total"], r["n"], r["divided_by"]) for r in rows.to_dicts()
    }
    assert found["recall@10", "applicable"] == (1 / 2, 1.0, 2, 2)
    assert found["recall@10", "all"] == (1 / 5, 1.0, 2, 5)
    assert found["false_recall", "applicable"] == (1 / 3, 1.0, 3, 3)
    assert found["false_recall", "all"] == (1 / 5, 1.0, 3, 5)
    assert found["temporal", "applicable"] == (3 / 4, 3.0, 4, 4)
    assert found["temporal", "all"] == (3 / 5, 3.0, 4, 5)


def test_a_perfect_system_is_perfect_and_keeps_the_gates_by_the_applicable_queries_alone() -> None:
    """The published shape, a hundredth: 29 answerable and 24 unanswerable queries; under `all` recall would be .547."""
    queries = [query(f"q{i:02}", "ab"[i % 2], gold=i < 29, as_of=1) for i in range(53)]
    atoms = [atom(f"g{holder}", f"d{holder}", holder, at=1) for holder in "ab"]
    resolved = [overlap(row["query_id"], f"g{row['holder']}") for row in queries[:29]]
    ranked = {("r", row["query_id"]): [] if row["unanswerable"] else [f"g{row['holder']}"] for row in queries}
    case = Case(queries, atoms, resolved, ranked, [source("da"), source("db", "b")])
    case.regions = {row["query_id"]: [f"d{row['holder']}"] for row in queries[:29]}
    rows = scored(case).filter(slice="all", denominator="applicable")
    expected = {"false_recall": 0.0}
    for metric, found in rows.select("metric", "value").drop_nulls().iter_rows():
        assert found == expected.get(metric, 1.0), metric
    gates = scored(case).filter(slice="all").drop_nulls("gate")
    assert gates.select("metric", "gate", "passed").rows() == [
        ("recall@10", 0.9, True), ("false_recall", 0.1, True), ("temporal", 0.95, True), ("holder", 0.95, True),
    ]  # fmt: skip
    literal = scored(case, denominator="all").filter(slice="all", metric="recall@10").drop_nulls("gate")
    assert literal.select("value", "passed").rows() == [(29 / 53, False)]


def test_gates_compare_unrounded_values_and_hold_the_chosen_reading() -> None:
    """899 of 1,000 regions: 0.899 rounds to 0.9 and fails; 900 pass."""
    for hits, passed in ((899, False), (900, True)):
        queries = [query(f"q{i:04}") for i in range(1000)]
        ranked = {("r", row["query_id"]): ["g"] if i < hits else [] for i, row in enumerate(queries)}
        case = Case(queries, [atom("g")], [overlap(row["query_id"], "g") for row in queries], ranked)
        gates = scored(case).filter(slice="all", metric="recall@10").drop_nulls("gate")
        assert gates.select("recall_unit", "whole_source", "denominator", "passed").rows() == [
            ("region", "excluded", "applicable", passed)
        ]
    tenth = [query(f"u{i}", gold=False) for i in range(10)]
    edge = Case(
        tenth, [atom("g")], ranked={("r", row["query_id"]): ["g"] if i == 0 else [] for i, row in enumerate(tenth)}
    )
    held = scored(edge).filter(slice="all", metric="false_recall").drop_nulls("gate")
    assert held.select("value", "passed").rows() == [(0.1, True)]
    other = scored(case, recall_unit="atom", whole_source="counted", cross_holder="asked", denominator="all")
    held = other.filter(slice="all").drop_nulls("gate").select("metric", *Reading._fields[1:], "denominator").rows()
    assert held[0] == ("recall@10", "atom", "counted", None, "all")
    assert held[3] == ("holder", None, None, "asked", "all")
    assert len(held) == 4


def test_latencies_are_interpolated_and_cold_and_warm_apart() -> None:
    queries = [query(f"q{i}", gold=False) for i in range(5)]
    keys = [("r", row["query_id"]) for row in queries]
    latency = dict(zip(keys, [(1.0, None), (2.0, 0.5), (4.0, None), (8.0, None), (None, None)], strict=True))
    case = Case(queries, [], ranked={key: [] for key in keys}, latency=latency)
    rows = scored(case).filter(pl.col("denominator").is_null(), slice="all")
    found = {metric: (v, n) for metric, v, n in rows.select("metric", "value", "n").iter_rows()}
    assert found == {
        "cold_p50": (3.0, 4),
        "cold_p95": (pytest.approx(7.4), 4),
        "warm_p50": (0.5, 1),
        "warm_p95": (0.5, 1),
    }


def test_slices_are_by_modality_scenario_and_holder() -> None:
    queries = [
        query("q0", "a", modality="pdf", scenario="s"),
        query("q1", "a", modality="code", scenario="t"),
        query("q2", "b", modality="code", scenario="t", gold=False),
    ]
    ranked = {("r", "q0"): ["g"], ("r", "q1"): [], ("r", "q2"): []}
    case = Case(queries, [atom("g")], [overlap("q0", "g"), overlap("q1", "g")], ranked)
    found = {
        (slice_, of): value(case, "recall@10", slice_=slice_, of=of)
        for slice_, of in [("all", None), *(("modality", m) for m in ("code", "pdf")), *(("scenario", s) for s in "st")]
    }
    assert found == {
        ("all", None): 0.5, ("modality", "code"): 0.0, ("modality", "pdf"): 1.0, ("scenario", "s"): 1.0,
        ("scenario", "t"): 0.0,
    }  # fmt: skip
    assert value(case, "recall@10", slice_="holder", of="b") is None
    assert value(case, "recall@10", slice_="holder", of="b", denominator="all") is None
    assert value(case, "false_recall", slice_="holder", of="b") == 0.0


# --- against the plain definition and an IR library ---


def by_the_reference(case: Case, tau: float | None) -> dict[tuple[str, str], reference.Values]:
    atoms = {row["atom_id"]: row for row in case.atoms}
    sources = {row["source_id"]: row for row in case.sources}
    known = {row["holder"] for row in (*case.queries, *case.sources)}
    asked = {
        row["query_id"]: reference.is_asked_elsewhere(_full(row), map(_full, case.queries)) for row in case.queries
    }
    found = {}
    for (run, name), places in case.ranked.items():
        row = next(row for row in case.queries if row["query_id"] == name)
        found[run, name] = reference.score_query(
            row, [g["gold"] for g in case.gold if g["query_id"] == name],
            [o for o in case.resolved if o["query_id"] == name], places, atoms, sources,
            asked=asked[name], others=len(known) > 1, tau=tau,
        )  # fmt: skip
    return found


def _full(row: Row) -> Row:
    return {"dataset": "", "revision": "", **row}


@settings(max_examples=120, deadline=None)
@given(cases(), st.sampled_from((None, 2.0)), st.integers(0, 99))
def test_scores_are_those_of_the_plain_definition_in_any_order(case: Case, tau: float | None, seed: int) -> None:
    expected = by_the_reference(case, tau)
    fast = per_query(case, tau, shuffled=seed)
    rows = add_up(fast, ElyOptions(tau=tau), ci=None)
    slices = {("all", None): None, **{("modality", m): m for m in fast["modality"].unique()}}
    modality = {row["query_id"]: row["modality"] for row in case.queries}
    assert set(rows["run"]) == {run for run, _ in expected}
    for row in rows.filter(pl.col("slice").is_in(["all", "modality"]), pl.col("denominator").is_not_null()).to_dicts():
        only = slices[row["slice"], row["value_of_slice"]]
        own = [v for (run, name), v in expected.items() if run == row["run"] and only in (None, modality[name])]
        reading = tuple(row[name] for name in Reading._fields)
        plain = reference.add_up(own, reading, row["denominator"]) if own else None
        assert row["value"] == (None if plain is None else pytest.approx(plain, rel=1e-12, abs=1e-15)), row
        assert row["n"] == sum(reading in of_query for of_query in own)


@settings(max_examples=40, deadline=None)
@given(cases())
def test_rankings_are_those_of_an_ir_library(case: Case) -> None:
    pytrec_eval = pytest.importorskip("pytrec_eval", reason="the extra `bench` is not installed")
    atoms = {row["atom_id"]: row for row in case.atoms}
    sources = {row["source_id"]: row for row in case.sources}
    fast = per_query(case)
    for row in fast.filter(~pl.col("unanswerable")).to_dicts():
        asker = next(q for q in case.queries if q["query_id"] == row["query_id"])
        gold, covered = {}, set()
        for o in case.resolved:
            of = atoms[o["atom_id"]]
            about = (of, sources[of["source_id"]], asker)
            if o["query_id"] == row["query_id"] and not (
                reference.is_other(*about) or reference.is_future(*about) or o["whole_source"]
            ):
                gold[o["atom_id"]] = 1
                covered.add(o["gold"])
        gold |= {f"lost {i}": 1 for i in range(len(case.regions[row["query_id"]])) if i not in covered}
        places = case.ranked[row["run"], row["query_id"]]
        ranked = {place["atom_id"]: -float(rank) for rank, place in enumerate(places, 1)}
        oracle = pytrec_eval.RelevanceEvaluator({"q": gold}, {"recip_rank", "ndcg_cut_10", "recall_10"})
        found = oracle.evaluate({"q": ranked or {"nothing": 0.0}})["q"]
        assert (1 / row["first_hit"] if row["first_hit"] else 0.0) == pytest.approx(found["recip_rank"], rel=1e-9)
        assert row["ndcg"] == pytest.approx(found["ndcg_cut_10"], rel=1e-9)
        assert row["atoms_hit"] / row["gold_atoms"] == pytest.approx(found["recall_10"], rel=1e-9)


# --- clusters and intervals ---


def test_queries_that_share_a_source_or_an_item_are_drawn_together() -> None:
    """q5 is from the item of q3; q6 asks what q2 alone answers, q8 what both q0 and q3 do."""
    queries = [query(f"q{i}", gold=i < 4) for i in range(9)]
    queries[5]["item"] = "q3"
    queries[6]["question"] = "q2"
    for i in (0, 3, 8):
        queries[i]["question"] = "who?"
    case = Case(queries, [], regions={"q0": ["d1"], "q1": ["d1", "d2"], "q2": ["d2"], "q3": ["d3"]})
    made = case.tables()
    clusters = described(made["queries"], made["gold"], made["sources"])
    assert clusters["cluster"].to_list() == ["q0", "q0", "q0", "q3", "q4", "q3", "q0", "q7", "q8"]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.floats(0, 9), min_size=1, max_size=6),
    st.data(),
    st.sampled_from((0.0, 0.5, 0.95, 1.0)),
    st.sampled_from((0, 64)),
)
def test_the_weighted_quantile_is_that_of_the_repeated_values(
    values: list[float], data: st.DataObject, q: float, few: int
) -> None:
    """Counted one after another, or searched by halves."""
    draw = st.lists(st.integers(0, 3), min_size=len(values), max_size=len(values))
    times = np.array([data.draw(draw) for _ in range(3)])
    ordered = np.sort(np.array(values))
    both = np.stack([ordered, ordered + 1])
    with mock.patch.object(adding_up, "_FEW", few):
        found = adding_up.weighted_quantiles(both, np.stack([times.T, times.T]), [0.5, q])
    repeated = [np.repeat(ordered, of_draw) for of_draw in times]
    expected = np.array([np.quantile(some, [0.5, q]) if len(some) else [math.nan] * 2 for some in repeated]).T
    assert found == pytest.approx(np.stack([expected, expected + 1], axis=1), rel=1e-12, nan_ok=True)


def made_of_sources(sources: int, seed: int = 0) -> Case:
    """Three queries a source, hit or not together as far as it goes, with latencies."""
    rng = np.random.default_rng(seed)
    queries, ranked, latency, regions = [], {}, {}, {}
    for s in range(sources):
        for k in range(3):
            name = f"q{s:03}{k}"
            queries.append(query(name, gold=k < 2, as_of=1))
            regions[name] = [f"d{s}"] if k < 2 else []
            ranked["r", name] = ["g"] if rng.random() < 0.6 else []
            latency["r", name] = (float(rng.random()), None)
    resolved = [overlap(row["query_id"], "g") for row in queries if not row["unanswerable"]]
    return Case(queries, [atom("g")], resolved, ranked, [source("d")], regions, latency)


def test_intervals_are_of_a_bootstrap_over_clusters() -> None:
    """Drawn again one by one: rows of the drawn clusters are put together and scored as they are."""
    fast = per_query(made_of_sources(12))
    names = sorted(set(fast["cluster"]))
    assert len(names) == 12 * 2  # the unanswerable ones stand alone
    draws = 400
    bounds = adding_up.intervals([adding_up.Parts.of(fast, ("all",))[1]], replicates=draws)
    weights = bootstrap.clip_weights(len(names), draws)
    rows = {name: part for (name,), part in fast.group_by("cluster")}
    replicates = []
    for draw in weights:
        drawn = pl.concat([rows[name] for name, k in zip(names, draw, strict=True) for _ in range(int(k))])
        values = add_up(drawn.sort("query_id"), ElyOptions(), by=("all",), ci=None)["value"]
        replicates.append(values.cast(pl.Float64).to_numpy())
    order = [place for place, _, _ in adding_up.readings()]
    low, high = bootstrap.percentile_interval(np.array(replicates))
    assert bounds[0][0, order] == pytest.approx(low, rel=1e-9, nan_ok=True)
    assert bounds[1][0, order] == pytest.approx(high, rel=1e-9, nan_ok=True)
    assert np.isnan(low).sum() == 6  # nobody else's memory, by two readings and denominators; no warm latencies


def test_an_interval_depends_on_the_queries_of_its_slice_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices with as many clusters share their draws, whatever else is scored and however many queries each has."""
    monkeypatch.setattr(adding_up, "_MOST_CELLS", 60_000)
    fast = per_query(made_of_sources(24)).filter(~pl.col("unanswerable"))
    place = pl.col("query_id").str.slice(1, 3).cast(pl.Int64) // 8
    fast = fast.with_columns(holder=place.replace_strict({0: "a", 1: "b", 2: "c"}, return_dtype=pl.String))
    more = [fast.filter(holder="b").with_columns(pl.col("query_id") + f"-{i}") for i in range(4)]
    fast = pl.concat([fast, *more])
    sizes = fast.group_by("holder").agg(pl.col("cluster").n_unique(), pl.len()).sort("holder")
    assert sizes.rows() == [("a", 8, 16), ("b", 8, 80), ("c", 8, 16)]
    whole = add_up(fast, ElyOptions())
    for holder in "abc":
        alone = add_up(fast.filter(holder=holder), ElyOptions(), by=("holder",))
        assert_frame_equal(whole.filter(slice="holder", value_of_slice=holder), alone, rel_tol=1e-12)


def test_one_cluster_has_no_interval_and_parts_of_the_draws_are_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    lonely = add_up(per_query(one_query(["g"], [overlap("q", "g")], [atom("g")])), ElyOptions())
    assert lonely["low"].null_count() == lonely["high"].null_count() == lonely.height
    assert lonely["value"].null_count() < lonely.height
    fast = per_query(made_of_sources(5))
    whole = add_up(fast, ElyOptions())
    monkeypatch.setattr(adding_up, "_MOST_CELLS", 3_000)
    parts = add_up(fast, ElyOptions())
    assert_frame_equal(parts.drop("low", "high"), whole.drop("low", "high"))
    assert_frame_equal(parts, whole, abs_tol=0.1)
    assert not parts.equals(whole)
