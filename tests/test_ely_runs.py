"""ely-eye's runs: read and checked, scored from files, kept, and held against each other."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from mabpl import connect, load_result
from mabpl.benchmarks.ely_eye import results, scoring
from mabpl.benchmarks.ely_eye.adding_up import Parts, add_up, intervals, readings
from mabpl.benchmarks.ely_eye.compare import compare
from mabpl.benchmarks.ely_eye.options import ElyOptions
from mabpl.benchmarks.ely_eye.runs import Runs, check_runs, read_runs
from mabpl.cli.main import run as mabpl
from mabpl.errors import InputError, InvalidTimelines, MabplError, UsageError
from mabpl.stats import bootstrap
from mabpl.tables import files

SAMPLE = Path(__file__).resolve().parent.parent / "mabpl" / "data" / "ely_sample"
FINE = SAMPLE / "atoms" / "fine.jsonl"
CAREFUL, HASTY = SAMPLE / "runs" / "careful.jsonl", SAMPLE / "runs" / "hasty.jsonl"


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def write(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def score(*runs: Path, split: Any = "dev", root: Path = SAMPLE, **options: Any) -> scoring.ElyScores:
    chosen = ElyOptions(**options)
    return scoring.score(scoring.gather(root, FINE, runs, chosen, split), chosen)


@pytest.fixture(scope="module")
def both() -> scoring.ElyScores:
    return score(CAREFUL, HASTY)


# --- reading ---


def one_atom(row: dict[str, Any], **changes: Any) -> dict[str, Any]:
    first, *rest = row["returned"]
    return {**row, "returned": [{**first, **changes}, *rest]}


FAULTS: dict[str, tuple[str, str | None, Callable[[dict[str, Any]], Any]]] = {
    "not JSON": ("invalid-json", None, lambda row: json.dumps(row)[:-1]),
    "no list": ("missing-field", "returned", lambda row: {"query_id": row["query_id"]}),
    "another type": ("wrong-type", "returned[0].score", lambda row: one_atom(row, score="0.9")),
    "NaN": ("non-finite", "returned[0].score", lambda row: json.dumps(one_atom(row, score=float("nan")))),
    "a misspelt flag": ("unknown-key", "returned[0].stong", lambda row: one_atom(row, stong=True)),
    "a key twice": (
        "duplicate-key", "returned[0].strong",
        lambda row: json.dumps(row).replace('"strong": ', '"strong": false, "strong": ', 1),
    ),
    "negative seconds": ("wrong-type", "latency.cold_s", lambda row: {**row, "latency": {"cold_s": -1}}),
    "no id": ("wrong-type", "returned[0].atom_id", lambda row: one_atom(row, atom_id="")),
    "a query nobody asked": ("unknown-query", "query_id", lambda row: {**row, "query_id": "nobody asked"}),
    "an atom nobody holds": ("unknown-atom", "returned", lambda row: one_atom(row, atom_id="nobody holds")),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_is_told_with_file_line_and_field(name: str, tmp_path: Path) -> None:
    rule, field, change = FAULTS[name]
    rows = lines(CAREFUL)
    at = next(i for i, row in enumerate(rows) if row["returned"])
    path = write(tmp_path / "broken.jsonl", [change(row) if i == at else row for i, row in enumerate(rows)])
    inputs = scoring.gather(SAMPLE, FINE, [path], ElyOptions())
    found = inputs.problems.filter(severity="error", file=str(path))
    told = found.filter(rule=rule).select("line", "field").rows()
    assert told == [(at + 1, field)]
    assert set(found["rule"]) <= {rule, "missing-query"}
    with pytest.raises(InvalidTimelines, match=rule):
        scoring.score(inputs, ElyOptions())


def test_a_query_twice_and_every_fault_of_a_file_at_once(tmp_path: Path) -> None:
    rows = lines(CAREFUL)
    path = write(tmp_path / "broken.jsonl", [rows[0], *rows, "{", {**rows[1], "query_id": "?"}])
    found = scoring.gather(SAMPLE, FINE, [path], ElyOptions()).problems.filter(severity="error")
    assert found.select("rule", "line").rows() == [
        ("duplicate-query", 2), ("invalid-json", len(rows) + 2), ("unknown-query", len(rows) + 3),
    ]  # fmt: skip


def test_the_first_of_a_repeated_atom_counts_and_the_ranks_close_up(tmp_path: Path) -> None:
    query = lines(CAREFUL)[0]["query_id"]
    places = [{"atom_id": a, "score": s} for a, s in (("x", 1.0), ("x", 5.0), ("y", 0.5), ("x", 0.1), ("y", 9.0))]
    read = read_runs([write(tmp_path / "r.jsonl", [{"query_id": query, "returned": places}])])
    assert read.returned.select("rank", "atom_id", "score").rows() == [(1, "x", 1.0), (2, "y", 0.5)]
    assert read.problems.select("rule", "line", "field").rows() == [("repeated-atom", 1, "returned[1]")]
    assert read.problems["message"].item() == 'is "x" again; 3 repeated in all'


def test_missing_queries_are_refused_counted_as_empty_or_left_out(tmp_path: Path) -> None:
    whole = score(CAREFUL)
    dev = set(whole.queries["query_id"])
    rows = lines(CAREFUL)
    gone = next(r["query_id"] for r in rows if r["query_id"] in dev and r["returned"] and not unanswerable(whole, r))
    path = write(tmp_path / "careful.jsonl", [row for row in rows if row["query_id"] != gone])
    with pytest.raises(InvalidTimelines, match="missing-query"):
        score(path)
    empty, skip = score(path, missing="empty"), score(path, missing="skip")
    assert (empty.partial, skip.partial, whole.partial) == (False, True, False)
    assert empty.queries.height == len(dev) == skip.queries.height + 1
    row = empty.queries.filter(query_id=gone).row(0, named=True)
    assert (row["returned"], row["regions_hit"], row["first_hit"], row["ndcg"]) == (0, 0, None, 0.0)
    assert gone not in set(skip.queries["query_id"])
    assert_frame_equal(skip.queries, whole.queries.filter(pl.col("query_id") != gone))


def unanswerable(scores: scoring.ElyScores, row: dict[str, Any]) -> bool:
    return bool(scores.queries.filter(query_id=row["query_id"])["unanswerable"].item())


def as_parquet(path: Path, rows: list[dict[str, Any]]) -> Path:
    atom = pl.Struct({"atom_id": pl.String(), "score": pl.Float64(), "strong": pl.Boolean()})
    latency = pl.Struct({"cold_s": pl.Float64(), "warm_s": pl.Float64()})
    schema = {"query_id": pl.String(), "returned": pl.List(atom), "latency": latency}
    pl.DataFrame(rows, schema=schema).write_parquet(path)
    return path


def test_parquet_is_read_as_json_lines_are(tmp_path: Path) -> None:
    rows = lines(HASTY)
    found, expected = read_runs([as_parquet(tmp_path / "hasty.parquet", rows)]), read_runs([HASTY])
    for name in ("returned", "latencies"):
        assert_frame_equal(getattr(found, name), getattr(expected, name))
    assert found.problems.drop("file").equals(expected.problems.drop("file"))
    assert found.returned.height > 100
    for broken, rule in (
        (pl.read_parquet(tmp_path / "hasty.parquet").drop("returned"), "missing-field"),
        (pl.read_parquet(tmp_path / "hasty.parquet").with_columns(returned=pl.lit("x")), "wrong-type"),
        (pl.read_parquet(tmp_path / "hasty.parquet").with_columns(query_id=pl.lit(None, pl.String)), "wrong-type"),
        (pl.DataFrame({"query_id": ["q"], "returned": [[{"atom_id": "x", "stong": True}]]}), "unknown-key"),
        (pl.DataFrame({"query_id": ["q"], "returned": [[{"atom_id": "x", "score": np.nan}]]}), "non-finite"),
        (
            pl.DataFrame(
                {"query_id": ["q"], "returned": [[{"atom_id": None}]]},
                schema={"query_id": pl.String(), "returned": pl.List(pl.Struct({"atom_id": pl.String()}))},
            ),
            "wrong-type",
        ),
    ):
        broken.write_parquet(tmp_path / "broken.parquet")
        assert rule in set(read_runs([tmp_path / "broken.parquet"]).problems["rule"])
    (tmp_path / "cut.parquet").write_bytes((tmp_path / "hasty.parquet").read_bytes()[:100])
    with pytest.raises(InputError, match="parquet"):
        read_runs([tmp_path / "cut.parquet"])


def test_the_order_of_files_and_lines_changes_nothing(both: scoring.ElyScores, tmp_path: Path) -> None:
    for path in (CAREFUL, HASTY):
        write(tmp_path / path.name, lines(path)[::-1])
    again = score(tmp_path / "hasty.jsonl", tmp_path / "careful.jsonl")
    assert_frame_equal(again.queries, both.queries)
    assert_frame_equal(again.scores, both.scores)


# --- splits, voids, options ---


def test_dev_is_the_default_and_test_is_said(both: scoring.ElyScores) -> None:
    test = score(CAREFUL, HASTY, split="test")
    assert (both.split, test.split) == ("dev", "test")
    assert not set(both.queries["query_id"]) & set(test.queries["query_id"])
    counts = both.facts["queries"]
    void = [row["query_id"] for row in lines(SAMPLE / "sets" / "image.jsonl") if "void" in row["query_id"]]
    assert counts["void"] == len(void) == 1
    assert not set(void) & (set(both.queries["query_id"]) | set(test.queries["query_id"]))
    assert counts["scored"] == counts["answerable"] + counts["unanswerable"]
    assert counts["other_split"] == test.facts["queries"]["scored"]


def test_another_cut_of_the_same_sources_needs_no_other_gold(tmp_path: Path) -> None:
    """A system that holds the coarse atoms and returns, for each query, all of its gold."""
    coarse = SAMPLE / "atoms" / "coarse.jsonl"
    found = {}
    for atoms in (FINE, coarse):
        inputs = scoring.gather(SAMPLE, atoms, [CAREFUL], ElyOptions(missing="empty"))
        benchmark = inputs.benchmark
        resolved = scoring.resolve(benchmark.gold, inputs.atoms.atoms, benchmark.sources, benchmark.symbols)
        gold = resolved.group_by("query_id").agg(pl.col("atom_id").unique().sort())
        returned = dict(gold.iter_rows())
        rows = [
            {"query_id": q, "returned": [{"atom_id": a} for a in returned.get(q, [])]}
            for q in benchmark.queries["query_id"]
        ]
        path = write(tmp_path / f"{atoms.stem}.jsonl", rows)
        scores = scoring.score(scoring.gather(SAMPLE, atoms, [path], ElyOptions()), ElyOptions())
        picked = scores.scores.filter(slice="all", metric="recall@10", recall_unit="region", denominator="applicable")
        found[atoms.stem] = dict(picked.select("whole_source", "value").iter_rows())
    assert found["fine"] == {"excluded": 1.0, "counted": 1.0}
    assert found["coarse"]["excluded"] < found["coarse"]["counted"] == 1.0


# --- results ---


def test_a_result_comes_back_from_json_and_from_a_folder(both: scoring.ElyScores, tmp_path: Path) -> None:
    files.write_json(tmp_path / "r.json", results.document(both))
    results.write_result_folder(both, tmp_path / "folder")
    for path in (tmp_path / "r.json", tmp_path / "folder"):
        again = results.load_result(path)
        assert_frame_equal(again.queries, both.queries)
        assert_frame_equal(again.scores, both.scores)
        assert (again.options, again.facts) == (both.options, both.facts)
    first = (tmp_path / "r.json").read_bytes()
    files.write_json(tmp_path / "again.json", results.document(score(HASTY, CAREFUL)))
    assert (tmp_path / "again.json").read_bytes() == first
    assert str(SAMPLE).encode() not in first
    assert str(tmp_path).encode() not in first


def test_the_folder_in_sql_and_who_takes_it_for_timelines_is_told(both: scoring.ElyScores, tmp_path: Path) -> None:
    results.write_result_folder(both, tmp_path / "r")
    (tmp_path / "r.json").write_text(json.dumps(results.document(both)))
    held = connect(tmp_path / "r").sql("select count(*) from ely_query_scores").fetchall()
    assert held == [(both.queries.height,)]
    for path in (tmp_path / "r", tmp_path / "r.json"):
        with pytest.raises(InputError, match="mabpl ely compare"):
            load_result(path)


def test_every_report_states_the_digests_of_manifest_and_sets(
    both: scoring.ElyScores, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import hashlib

    expected = {
        str(path.relative_to(SAMPLE).as_posix()): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in [SAMPLE / "corpus" / "manifest.jsonl", *(SAMPLE / "sets").glob("*.jsonl")]
    }
    assert len(expected) == 7
    told = {k: v for kind in both.facts["sha256"].values() for k, v in kind.items()}
    assert expected.items() <= told.items()
    arguments = ["ely", "score", "--root", str(SAMPLE), "--atoms", str(FINE), str(HASTY), "--quiet"]
    assert mabpl(arguments) == 0
    text = capsys.readouterr().out
    assert all(digest in text for digest in expected.values())


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("[1]", "no result of ely-eye"),
        ('{"benchmark": "ely_eye"}', "per_query"),
        ("{", "not one JSON document"),
        ('{"per_query": [{"run": "x"}], "scores": []}', "lack"),
    ],
)
def test_what_is_no_result_is_told_so(content: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text(content)
    with pytest.raises(MabplError, match=told):
        results.load_result(path)


# --- comparisons ---


def test_a_comparison_has_n_and_denominator_on_both_sides_and_the_differences(both: scoring.ElyScores) -> None:
    found = compare(both, both, runs=("careful", "hasty"), by=("all", "modality", "scenario", "holder"))
    for side, run in (("a", "careful"), ("b", "hasty")):
        own = both.scores.filter(run=run)
        for name in ("value", "n", "divided_by", "gate", "passed"):
            assert_frame_equal(found.metrics.select(pl.col(f"{name}_{side}").alias(name)), own.select(name))
    assert_frame_equal(
        found.metrics.select(pl.col("value_a") - pl.col("value_b")),
        found.metrics.select(pl.col("difference").alias("value_a")),
    )
    assert [line.split(":")[1].split()[0] for line in found.lost_gates() if line.startswith("all")] == [
        "false_recall", "temporal", "holder",
    ]  # fmt: skip
    assert found.won_gates() == []
    back = compare(both, both, runs=("hasty", "careful"))
    assert back.won_gates() == [
        line.replace(" B ", "·").replace(" A ", " B ").replace("·", " A ")
        for line in compare(both, both, runs=("careful", "hasty")).lost_gates()
    ]


def test_a_run_against_itself_does_not_change(both: scoring.ElyScores) -> None:
    found = compare(both, both, runs=("hasty", "hasty"))
    assert found.changed.is_empty()
    assert set(found.metrics.drop_nulls("value_a")["difference"]) == {0.0}
    assert set(found.metrics.drop_nulls("low").select("low", "high").rows()) == {(0.0, 0.0)}


def test_the_paired_interval_draws_the_same_sources_on_both_sides(both: scoring.ElyScores) -> None:
    """Drawn again one by one, over all queries."""
    one, two = (both.queries.filter(run=run).sort("query_id") for run in ("careful", "hasty"))
    names = sorted(set(one["cluster"]))
    differences = []
    for draw in bootstrap.clip_weights(len(names), 80):
        times = dict(zip(names, draw.astype(int), strict=True))
        values = []
        for rows in (one, two):
            repeated = rows.select(pl.all().repeat_by(pl.col("cluster").replace_strict(times)).list.explode())
            values.append(add_up(repeated.with_columns(run=pl.lit("")), ElyOptions(), by=("all",), ci=None)["value"])
        differences.append((values[0] - values[1]).to_numpy())
    low, high = bootstrap.percentile_interval(np.array(differences, dtype=float))
    order = [place for place, _, _ in readings()]
    bounds = intervals([Parts.of(rows, ("all",))[1] for rows in (one, two)], replicates=80)
    assert bounds[0][0, order] == pytest.approx(low, abs=1e-9)
    assert bounds[1][0, order] == pytest.approx(high, abs=1e-9)


def test_clusters_are_of_the_first_side_and_a_value_that_goes_is_a_change(both: scoring.ElyScores) -> None:
    usual = compare(both, both, runs=("careful", "hasty"), by=("all",))
    loose = both.queries.with_columns(cluster=pl.col("query_id"), cold_s=pl.lit(None, pl.Float64))
    other = scoring.ElyScores(loose, both.scores, both.options, both.facts)
    found = compare(both, other, runs=("careful", "hasty"), by=("all",))
    cold = pl.col("metric").str.starts_with("cold")
    assert_frame_equal(found.metrics.filter(~cold), usual.metrics.filter(~cold))
    gone = found.changed.filter(cold)
    assert gone.select("n_a", "n_b", "value_b", "difference", "low").rows() == [(31, 0, None, None, None)] * 2


def test_what_differs_beside_the_runs_is_told(both: scoring.ElyScores) -> None:
    other = score(HASTY, split="test", recall_unit="atom")
    with pytest.raises(UsageError, match="no query is on both sides"):
        compare(both, other, runs=("careful", None))
    fewer = scoring.ElyScores(
        both.queries.filter(pl.col("modality") != "pdf"), both.scores, ElyOptions(recall_unit="atom"),
        {**both.facts, "partial": True, "options": ElyOptions(recall_unit="atom").as_dict(), "sha256": {}},
    )  # fmt: skip
    found = compare(both, fewer, runs=("careful", "hasty"))
    told = "; ".join(found.notes)
    for words in (
        "recall_unit is region in A, atom in B",
        "queries are only in A",
        "SHA-256 of the set",
        "B is partial",
    ):
        assert words in told
    with pytest.raises(UsageError, match="holds 2 runs"):
        compare(both, both)


# --- the command line ---


def cli(*arguments: object) -> list[str]:
    return [str(a) for a in arguments]


def test_score_and_compare_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = cli("ely", "score", "--root", SAMPLE, "--atoms", FINE)
    assert mabpl([*base, *cli(CAREFUL, "--out", tmp_path / "a.json", "--gates", "--quiet")]) == 0
    assert "passed ≥ 0.90" in capsys.readouterr().out
    assert mabpl([*base, *cli(HASTY, "--tables", tmp_path / "b", "--gates")]) == 1
    told = capsys.readouterr()
    assert "FAILED ≤ 0.10" in told.out
    assert "hasty, all: false_recall" in told.err
    assert mabpl([*base, *cli(HASTY, "--json", "--quiet")]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["split"] == "dev"
    assert len(document["per_query"]) == document["queries"]["scored"]
    assert mabpl([*base, *cli(HASTY, "--split", "test", "--quiet")]) == 0
    assert "split test (final acceptance only)" in capsys.readouterr().out
    assert mabpl(cli("ely", "compare", tmp_path / "a.json", tmp_path / "b")) == 0
    told = capsys.readouterr().out
    assert "Gate lost: all: holder" in told
    assert all(digest in told for kind in ("manifest", "set") for digest in document["sha256"][kind].values())
    assert [line.split()[0] for line in told.splitlines() if "Holder correctness" in line].count("all") == 1
    assert [line.split()[0] for line in told.splitlines() if "MRR, of all" in line].count("all") == 1
    for command in (["compare", tmp_path / "a.json", tmp_path / "b"], [*base[1:], HASTY]):
        assert mabpl(cli("ely", *command, "--format", "csv")) == 0
        stated = capsys.readouterr()
        assert stated.out.splitlines()[1].startswith(("all,", "hasty,all,"))
        assert all(digest in stated.err for digest in document["sha256"]["set"].values())
    assert mabpl(cli("ely", "compare", tmp_path / "a.json", tmp_path / "b", "--gates", "--json", "--all")) == 1
    assert {"n_a", "n_b", "divided_by_a", "divided_by_b"} < set(json.loads(capsys.readouterr().out)["metrics"][0])
    for wrong, words in (
        ([*base, *cli(HASTY, "--by", "colour")], "unknown slice 'colour'"),
        ([*base, *cli(HASTY, "--set-option", "recall_unit=page")], "expected one of: region, atom"),
        ([*base, *cli(HASTY, "--tau", "high")], "tau = 'high' is not possible"),
        (cli("ely", "compare", tmp_path / "a.json"), "give a second result"),
        (cli("ely", "compare", HASTY, tmp_path / "a.json"), "score the run first"),
    ):
        assert mabpl(wrong) == 2
        assert words in capsys.readouterr().err


def test_a_run_that_lacks_queries_ends_with_3_and_one_with_faults_with_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "short.jsonl", lines(CAREFUL)[:-8])
    base = cli("ely", "score", "--root", SAMPLE, "--atoms", FINE, path, "--quiet")
    assert mabpl(base) == 1
    told = capsys.readouterr().out
    assert told.count(f"error: {path}, ") == 7
    assert "[missing-query]" in told
    assert mabpl([*base, "--json"]) == 1
    assert len(json.loads(capsys.readouterr().out)["problems"]) == 8
    assert mabpl([*base, "--missing", "skip"]) == 3
    assert "Partial" in capsys.readouterr().out
    assert mabpl([*base, "--missing", "empty"]) == 0
    capsys.readouterr()
    assert mabpl([*base, "--missing", "empty", "--check"]) == 0
    assert capsys.readouterr().out.endswith("1 run, 31 queries of the split dev: valid\n")


def test_a_benchmark_with_errors_is_not_scored(tmp_path: Path) -> None:
    root = tmp_path / "bench"
    shutil.copytree(SAMPLE, root)
    path = root / "sets" / "code.jsonl"
    path.write_text(path.read_text().replace('"split": "dev"', '"split": "test"', 1))
    with pytest.raises(InvalidTimelines, match="digest-drift"):
        score(CAREFUL, root=root)


def test_check_runs_alone_leaves_other_queries_aside() -> None:
    runs: Runs = read_runs([CAREFUL])
    inputs = scoring.gather(SAMPLE, FINE, [CAREFUL], ElyOptions())
    checked = check_runs(runs, inputs.benchmark.queries, inputs.queries.head(3), inputs.atoms.atoms, ElyOptions())
    assert checked.latencies.height == 3
    assert checked.notes == (f"careful: {runs.latencies.height - 3} queries of the other split, or void, are left out",)
