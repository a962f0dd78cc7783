"""What verdicts cost beyond label-free scoring, and how fast requests are made.

    python tests/benches/verdicts.py [--rounds N] [--corpus FOLDER] [--out FILE]

25 configurations x 5 seeds x 89 clips, each pair with a request of its own and 3 judge seeds: a million verdicts, in
parquet as a result folder holds them (`judged`) and in the order of a verdict store (`judged_store`). `label_free` is
what these do before they look at a verdict; `plain` takes a sample of the clips pair by pair, in dicts, and has to find
the same. `planned` makes the requests of all pairs from their labels. `import ...`: whole processes, which tell how
fast this machine is just now beside the one that the target was set on. Ends with exit code 1 where results differ.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import harness
from harness import Contestant, Goal

HERE = Path(__file__).resolve().parent
SEEDS = (1, 2, 3)
SAMPLE = 5
"""Of so many clips one is checked pair by pair."""
LINK = ["run", "set", "clip_id", "predicted", "human", "request"]
ANSWER = ["request", "kind", "judge_seed", "status", "score", "equivalent", "accepted"]
SHOWN = ["run", "set", "clip_id", "credit", "strict_credit", "j"]
IMPORTS = {"numpy": 0.099, "pyarrow": 0.162, "polars": 0.211}
"""Seconds that a process with this import takes on the quiet machine of two cores that the target was set on."""
Scores = Any


def score(corpus: Path) -> Scores:
    import mabpl

    scores = mabpl.score(corpus / "labels.parquet", corpus / "predictions.parquet")
    _ = scores.matches, scores.sets
    return scores


def made(corpus: Path) -> Path:
    """The folder of pairs, matches and verdicts of ``corpus``; written once."""
    import numpy as np
    import polars as pl

    folder = corpus / "verdicts"
    if (folder / "store.parquet").exists():
        return folder
    folder.mkdir(exist_ok=True)
    scores, rng = score(corpus), np.random.default_rng(11)

    def ids(count: int, of: str) -> pl.Series:
        return pl.Series([hashlib.blake2b(f"{of}{i}".encode(), digest_size=16).hexdigest() for i in range(count)])

    parts = []
    for kind, table in (("pa", scores.pairs), ("joint", scores.matches.filter(metric="seg"))):
        asked = table.with_columns(request=ids(table.height, kind))
        asked.select(LINK).write_parquet(folder / f"{kind}.parquet")
        for seed in SEEDS if kind == "pa" else [None]:
            count = asked.height
            values = {"score": rng.integers(101, size=count) / 1.0, "equivalent": rng.random(count) < 0.5}
            answers = values if kind == "pa" else {"accepted": rng.random(count) < 0.5}
            parts.append(
                asked.select("request", kind=pl.lit(kind), judge_seed=pl.lit(seed, pl.Int64), status=pl.lit("ok"))
                .with_columns(ids(count, f"{kind}{seed}").alias("key"), **answers)
                .sample(fraction=0.999, seed=1)
            )
    verdicts = pl.concat(parts, how="diagonal").select("key", *ANSWER)
    verdicts.sort("request", "judge_seed", "key").write_parquet(folder / "result.parquet")
    verdicts.sort("key").write_parquet(folder / "store.parquet")
    return folder


def judged(corpus: Path, order: str = "result") -> Scores:
    import polars as pl

    from mabpl.benchmarks.micro_annotation.judging import KINDS, Plan, with_verdicts
    from mabpl.judges.prompts import load_prompts
    from mabpl.tables.schemas import REQUESTS

    scores, folder = score(corpus), made(corpus)
    read = [pl.scan_parquet(folder / f"{name}.parquet") for name in (order, *KINDS)]
    given, *of_kinds = pl.collect_all([read[0].select(ANSWER), *read[1:]])
    asked = dict(zip(KINDS, of_kinds, strict=True))
    judges = {"judges": {"pa": {"judge_seeds": SEEDS}, "joint": {}}}
    result = with_verdicts(scores, Plan(load_prompts(), asked, REQUESTS.empty()), given, judges)
    _ = result.sets
    return result


def planned(corpus: Path) -> Callable[[], Any]:
    """The pairs stand ready."""
    import polars as pl

    import mabpl
    from mabpl.judges.prompts import load_prompts
    from mabpl.judges.requests import pa_requests

    segments = [pl.read_parquet(corpus / f"{name}.parquet") for name in ("labels", "predictions")]
    scores = mabpl.score(*segments)
    tables = scores.pairs, scores.segments, load_prompts(), scores.settings
    return lambda: pa_requests(*tables)


def plain(corpus: Path) -> dict[tuple[str, str, str], tuple[Any, ...]]:
    """The sample's clips: credit, strict credit and Joint matches, from the rows of the files."""
    import polars as pl

    folder = made(corpus)
    sampled = pl.col("clip_id").str.slice(-8).cast(pl.Int64) % SAMPLE == 0
    scores = score(corpus)
    assigned = {row[:5] for row in scores.matches.filter(sampled, metric="pa").select(LINK[:5]).iter_rows()}
    answers: dict[tuple[str, int | None], tuple[Any, ...]] = {}
    for request, _, seed, _, *values in pl.read_parquet(folder / "store.parquet", columns=ANSWER).iter_rows():
        answers[request, seed] = tuple(values)
    asked: dict[str, dict[tuple[str, str, str], list[Any]]] = {}
    for kind in ("pa", "joint"):
        asked[kind] = {}
        for row in pl.read_parquet(folder / f"{kind}.parquet").filter(sampled).select(LINK).iter_rows():
            asked[kind].setdefault(row[:3], []).append(row)
    found = {}
    for key in scores.table("clip_scores").filter(sampled).select(LINK[:3]).iter_rows():
        earned_by_seed = []
        for seed in SEEDS:
            of_seed = [(row[:5] in assigned, answers.get((row[5], seed))) for row in asked["pa"].get(key, [])]
            if all(answer is not None for _, answer in of_seed):
                earned = [answer for is_assigned, answer in of_seed if is_assigned and answer is not None]
                earned_by_seed.append((sum(s for s, *_ in earned), sum(s for s, equivalent, _ in earned if equivalent)))
        means = [sum(one) / len(earned_by_seed) / 100 for one in zip(*earned_by_seed, strict=True)] or [None, None]
        accepted = [answers.get((row[5], None)) for row in asked["joint"].get(key, [])]
        found[key] = (*means, None if None in accepted else sum(answer[2] for answer in accepted if answer))
    return found


def digest(rows: list[tuple[Any, ...]]) -> str:
    text = [tuple(round(v, 7) if isinstance(v, float) else v for v in row) for row in sorted(rows)]
    return f"{len(rows)} clips, sha256 {hashlib.sha256(repr(text).encode()).hexdigest()[:16]}"


def contestant(name: str, corpus: Path, repeat: int) -> None:
    """One process: what it took, as the harness reads it."""
    works: dict[str, Callable[[], Any]] = {
        "label_free": lambda: score(corpus),
        "judged": lambda: judged(corpus),
        "judged_store": lambda: judged(corpus, "store"),
        "plain": lambda: plain(corpus),
        "planned": planned(corpus) if name == "planned" else lambda: None,
    }
    steps: list[tuple[float, float]] = []
    for _ in range(1 + repeat):
        result = None  # its memory is free for the next one
        begin = time.perf_counter(), time.process_time()
        result = works[name]()
        steps.append((time.perf_counter() - begin[0], time.process_time() - begin[1]))
    (first, _), *steps = steps
    report = {
        "first_s": [first],
        "wall_s": [wall for wall, _ in steps],
        "cpu_s": [cpu for _, cpu in steps],
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * harness.KILOBYTE / 1e6,
    }
    if name.startswith("judged"):
        rows = result.table("clip_scores").select(SHOWN).iter_rows()
        report["checks"] = {"worth": digest([row for row in rows if int(row[2][-8:]) % SAMPLE == 0])}
    elif name == "plain":
        report["checks"] = {"worth": digest([(*key, *values) for key, values in result.items()])}
    print(json.dumps(report))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="processes of each kind")
    parser.add_argument("--corpus", type=Path, default=Path(tempfile.gettempdir()) / "mabpl-benches")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "verdicts.json")
    parser.add_argument("--contestant", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.contestant:
        contestant(arguments.contestant[0], arguments.corpus, int(arguments.contestant[1]))
        return
    command = [sys.executable, str(HERE / "corpus.py"), "bulk", str(arguments.corpus)]
    corpus = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    repeats = {"label_free": 15, "judged": 15, "judged_store": 9, "planned": 5, "plain": 1}

    def inside(name: str, repeat: int) -> Contestant:
        said = ("--corpus", corpus["folder"], "--contestant", name, str(repeat))
        return Contestant(name, (sys.executable, __file__, *said), reports=True)

    harness.measure(inside("judged", 0))  # writes the verdicts
    imports = [Contestant(f"import {name}", (sys.executable, "-c", f"import {name}")) for name in IMPORTS]
    results = harness.race([*(inside(*each) for each in repeats.items()), *imports], arguments.rounds)
    base = results["label_free"]
    joined = results["judged"].wall - base.wall
    slower = statistics.median(results[f"import {name}"].wall / there for name, there in IMPORTS.items())
    goals = [
        Goal("judged less label_free, s", joined, at_most=0.15),
        Goal("imports here, in times of the machine of the target", slower),
        Goal("judged less label_free by that, s", joined / slower, at_most=0.15),
        Goal("plain / (judged less label_free)", results["plain"].wall / joined),
        Goal("the same, fastest of each, s", min(results["judged"].wall_s) - min(base.wall_s)),
        Goal("judged_store less label_free, s", results["judged_store"].wall - base.wall),
        Goal("requests of 305,455 pairs, s", results["planned"].wall),
    ]
    harness.conclude("verdicts", corpus, results, goals, arguments.out)


if __name__ == "__main__":
    main()
