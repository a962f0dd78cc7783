"""The benches: what is fast, how fast, and that it is right.

    python tests/benches/run.py bulk       25 configurations x 5 seeds x 89 clips, from parquet, in warm processes
    python tests/benches/run.py files      the same from JSONL files, whole processes
    python tests/benches/run.py large      10 million predicted segments, from parquet to parquet
    python tests/benches/run.py huge       100 million
    python tests/benches/run.py startup    the command line and `import mabpl`
    python tests/benches/run.py first      first runs: four at once, and one where nothing can be written
    python tests/benches/run.py report tests/benches/results/*.json

Each writes its figures to results/<bench>.json, prints them as Markdown, and ends with exit code 1 where results that
should be equal are not. Made-up timelines are kept in --corpus and made once.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import harness
from harness import Contestant, Goal, Result

HERE = Path(__file__).resolve().parent
ROUNDS = {"bulk": 3, "files": 5, "large": 3, "huge": 1, "startup": 15, "first": 1}


def make_corpus(kind: str, folder: Path, *options: str) -> dict[str, Any]:
    """Made in a process of its own, so that this one stays small."""
    command = [sys.executable, str(HERE / "corpus.py"), kind, str(folder), *options]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def inside(name: str, corpus: str, repeat: int, *out: str) -> Contestant:
    """One of contestants.py, measured inside its process."""
    command = (sys.executable, str(HERE / "contestants.py"), name, corpus, str(repeat), *out)
    return Contestant(name, command, reports=True)


def python(name: str, *arguments: str) -> Contestant:
    """A whole process."""
    return Contestant(name, (sys.executable, *arguments))


def bulk(arguments: argparse.Namespace) -> None:
    corpus = make_corpus("bulk", arguments.corpus)
    repeats = {
        "read_polars": 15,
        "read_pyarrow": 15,
        "ours": 15,
        "ours_pairs": 9,
        "plain": 1,
        "plain_metrics": 1,
        "ours_boundary": 15,
        "mir_eval_boundary": 5,
        "plain_boundary": 5,
    }
    contestants = [inside(name, corpus["folder"], repeat) for name, repeat in repeats.items()]
    results = harness.race(contestants, arguments.rounds)
    wall = {name: result.wall for name, result in results.items()}
    goals = [
        Goal("plain / ours", wall["plain"] / wall["ours"], at_least=300),
        Goal("plain_metrics (lists of dicts stand ready) / ours", wall["plain_metrics"] / wall["ours"]),
        Goal("ours / the faster reader", wall["ours"] / min(wall["read_polars"], wall["read_pyarrow"]), at_most=5),
        Goal("plain / ours_pairs", wall["plain"] / wall["ours_pairs"], at_least=75),
        Goal("mir_eval_boundary / ours_boundary", wall["mir_eval_boundary"] / wall["ours_boundary"], at_least=20),
        Goal("plain_boundary / mir_eval_boundary", wall["plain_boundary"] / wall["mir_eval_boundary"], at_most=1.5),
        Goal("ours, ns per predicted segment", nanoseconds(results["ours"], corpus)),
    ]
    harness.conclude("bulk", corpus, results, goals, arguments.out)


def files(arguments: argparse.Namespace) -> None:
    corpus = make_corpus("bulk", arguments.corpus)
    root = corpus["folder"]
    with tempfile.TemporaryDirectory() as scratch:
        tables, found = Path(scratch) / "tables", Path(scratch) / "plain.json"
        score = ("score", "--no-judge", "--root", root, "--predictions", f"{root}/predictions")
        plain = (str(HERE / "plain.py"), root, str(found))
        contestants = [
            python("ours", "-m", "mabpl", *score, "--quiet"),
            python("ours_tables", "-m", "mabpl", *score, "--quiet", "--tables", str(tables)),
            python("plain", *plain),
            python("plain_intervals", *plain, "--intervals"),
        ]
        results = harness.race(contestants, arguments.rounds, warm_up=True)
        ours, theirs = checks_of_files(tables, found)
        results["ours_tables"].checks.append(ours)
        results["plain"].checks.append(theirs)
    wall = {name: result.wall for name, result in results.items()}
    goals = [
        Goal("plain / ours", wall["plain"] / wall["ours"], at_least=8),
        Goal("plain / ours_tables", wall["plain"] / wall["ours_tables"]),
        Goal("plain_intervals / ours (the same work on both sides)", wall["plain_intervals"] / wall["ours"]),
    ]
    harness.conclude("files", corpus, results, goals, arguments.out)


def checks_of_files(tables: Path, plain: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The counts of every clip, and whether its scores and those of every run, set and all sets are the same."""
    import polars as pl
    from contestants import COUNTS, digest, scan

    document = json.loads(plain.read_text())
    checks: tuple[dict[str, Any], dict[str, Any]] = {}, {}
    for table, key, values in (
        ("clip_scores", ["run", "set", "clip_id"], ["boundary_f1", "temporal_f1"]),
        ("set_scores", ["run", "set"], ["boundary_f1", "temporal_f1", "seg_f1"]),
    ):
        name = "clips" if table == "clip_scores" else "sets"
        ours, theirs = scan(tables, table).collect(), pl.DataFrame(document[name], infer_schema_length=None)
        if name == "clips":
            for found, frame in zip(checks, (ours, theirs), strict=True):
                found["counts"] = digest(frame, COUNTS)
        both = ours.select(*key, *values).join(theirs, on=key, how="full", nulls_equal=True, suffix="_plain")
        same = [
            pl.col(v).is_null() & pl.col(f"{v}_plain").is_null() | ((pl.col(v) - pl.col(f"{v}_plain")).abs() < 1e-9)
            for v in values
        ]
        apart = both.filter(~pl.all_horizontal(expr.fill_null(False) for expr in same)).height
        check = f"scores of {name}, within 1e-9"
        checks[0][check] = f"{apart} of {both.height} differ" if apart else f"{ours.height} rows"
        checks[1][check] = f"{theirs.height} rows"
    return checks


def large(arguments: argparse.Namespace) -> None:
    bulk_corpus = make_corpus("bulk", arguments.corpus)
    corpus = make_corpus("large", arguments.corpus, "--segments", str(arguments.segments))
    with tempfile.TemporaryDirectory(dir=arguments.corpus) as scratch:
        contestants = [
            inside("ours", bulk_corpus["folder"], 15),
            inside("ours_large", corpus["folder"], 1, scratch),
            inside("plain_sample", corpus["folder"], 1),
        ]
        results = harness.race(contestants, arguments.rounds)
    small, big = nanoseconds(results["ours"], bulk_corpus), nanoseconds(results["ours_large"], corpus)
    of_all = [side["predicted_segments"] / (side["predicted_segments"] + side["human_segments"])
              for side in (bulk_corpus, corpus)]  # fmt: skip
    goals = [
        Goal("peak memory, GB", max(results["ours_large"].peak_mb) / 1e3, at_most=2),
        Goal("ours on bulk, ns per segment, predicted and human", small * of_all[0]),
        Goal("ours_large, ns per segment, predicted and human", big * of_all[1]),
        Goal("cost per segment, ours_large / ours on bulk", big * of_all[1] / (small * of_all[0]), at_most=2),
        Goal("the same, per predicted segment", big / small, at_most=2),
    ]
    results["ours"].checks.clear()  # of another corpus
    harness.conclude(arguments.bench, corpus, results, goals, arguments.out)


def nanoseconds(result: Result, corpus: dict[str, Any]) -> float:
    return result.wall * 1e9 / corpus["predicted_segments"]


def startup(arguments: argparse.Namespace) -> None:
    corpus = make_corpus("released", arguments.corpus)
    root = Path(corpus["folder"])
    labels = root / "data" / "released_45" / "labels.jsonl"
    predictions = root / "predictions" / "released_45" / "model00_seed1.jsonl"
    with tempfile.TemporaryDirectory() as scratch:
        score = ("score", "--no-judge", "--labels", str(labels), "--predictions", str(predictions))
        contestants = [
            python("python -c pass", "-c", "pass"),
            python("python -c 'import numpy'", "-c", "import numpy"),
            python("python -c 'import mabpl'", "-c", "import mabpl"),
            python("python -m mabpl --help", "-m", "mabpl", "--help"),
            python("mabpl score --no-judge, 45 clips", "-m", "mabpl", *score, "--out", f"{scratch}/scores.json"),
        ]
        results = harness.race(contestants, arguments.rounds, warm_up=True)
    wall = [result.wall for result in results.values()]
    goals = [
        Goal("import mabpl / python -c pass", wall[2] / wall[0]),
        Goal("--help / python -c pass", wall[3] / wall[0]),
        Goal("score / import numpy", wall[4] / wall[1], at_most=5),
    ]
    harness.conclude("startup", corpus, results, goals, arguments.out)


def first(arguments: argparse.Namespace) -> None:
    """Copies of the package that have never run: in one, four processes start at once and then a fifth; the other
    has a file where its cache and the home folder would be, which keeps even root from writing there.
    """
    corpus = make_corpus("bulk", arguments.corpus)
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch) / "home"
        home.touch()

        def copied(name: str) -> Contestant:
            package = Path(scratch) / name / "mabpl"
            shutil.copytree(HERE.parents[1] / "mabpl", package, ignore=shutil.ignore_patterns("__pycache__"))
            environment = {**harness.ENVIRONMENT, "HOME": str(home), "PYTHONPATH": str(package.parent)}
            environment.pop("NUMBA_CACHE_DIR", None)
            return dataclasses.replace(inside("ours", corpus["folder"], 3), name=name, environment=environment)

        fresh, unwritable = copied("fresh"), copied("unwritable")
        (Path(scratch) / "unwritable" / "mabpl" / "__pycache__").touch()
        names = ("four at once", "a fifth", "where nothing can be written")
        results = {name: Result() for name in names}
        with ThreadPoolExecutor(4) as pool:
            for measured in pool.map(harness.measure, [fresh] * 4):
                results[names[0]].add(measured)
        results[names[1]].add(harness.measure(fresh))
        results[names[2]].add(harness.measure(unwritable))
    goals = [Goal(f"first call, {name}, s", max(result.first_s)) for name, result in results.items()]
    harness.conclude("first", corpus, results, goals, arguments.out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="bench", required=True)
    benches = {"bulk": bulk, "files": files, "large": large, "huge": large, "startup": startup, "first": first}
    for name, bench in benches.items():
        verb = verbs.add_parser(name)
        verb.add_argument("--corpus", type=Path, default=Path(tempfile.gettempdir()) / "mabpl-benches")
        verb.add_argument("--rounds", type=int, default=ROUNDS[name], help="turns of each contestant")
        verb.add_argument("--out", type=Path, default=HERE / "results" / f"{name}.json", help="where the figures go")
        if bench is large:
            verb.add_argument("--segments", type=int, default=100_000_000 if name == "huge" else 10_000_000)
        verb.set_defaults(run=bench)
    verb = verbs.add_parser("report")
    verb.add_argument("results", type=Path, nargs="+")
    verb.set_defaults(
        run=lambda given: print(*(harness.markdown(json.loads(p.read_text())) for p in given.results), sep="\n")
    )
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
