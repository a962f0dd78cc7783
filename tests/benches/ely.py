"""ely-eye at the published size: 5,308 queries x 50 returned atoms, 50,789 sources, 854 holders.

    python tests/benches/ely.py

The corpus is made up: the numbers of queries, of sources and of holders are the published ones; how sources share out
over modalities and how many atoms each has is not told, and chosen here (253,312 atoms). `ours` is the whole process
from files to the printed tables, intervals of every slice and holder included; `read` and `score` are its two halves
in a warm process. `plain` is the plain definition in a loop over dicts that stand ready, without intervals: it has to
find the same values.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import harness
from harness import KILOBYTE, Contestant, Goal

HERE = Path(__file__).resolve().parent
ANSWERABLE, UNANSWERABLE, HOLDERS, RETURNED = 2928, 2380, 854, 50
SOURCES = {"pdf": 4_789, "image": 6_000, "ui_screenshot": 3_000, "video": 1_000, "code": 16_000, "conversation": 20_000}
PARTS = {"pdf": 8, "image": 1, "ui_screenshot": 5, "video": 10, "code": 4, "conversation": 6}
"""Sources of a modality, and atoms of a source."""

BEFORE, ASKED, AFTER = (f"2024-0{month}-01T00:00:00+00:00" for month in (1, 2, 3))


def regions(modality: str) -> tuple[dict[str, Any], list[dict[str, Any]], list[dict[str, Any]]]:
    """Extent of a source, its gold regions and its atoms' regions, one below another."""
    parts = range(PARTS[modality])
    if modality == "pdf":
        return {"pages": len(parts)}, [{"page": i + 1} for i in parts], [{"page": i + 1} for i in parts]
    if modality == "image":
        return {"width": 640, "height": 480}, [{}], [{}]
    if modality == "ui_screenshot":
        boxes = [{"bbox": [0, 100 * i, 300, 100 * i + 90]} for i in parts]
        return {"width": 300, "height": 600}, boxes, boxes
    if modality == "video":
        gold = [{"t_start": 10.0 * i, "t_end": 10.0 * i + 8} for i in parts]
        return (
            {"duration_s": 10.0 * len(parts)},
            gold,
            [{"t_start": g["t_start"], "t_end": g["t_end"] + 2} for g in gold],
        )
    if modality == "code":
        gold = [{"path": "a.py", "symbol": f"f{i}"} for i in parts]
        return (
            {},
            gold,
            [{"path": "a.py", "line_start": 9 * i + 1, "line_end": 9 * i + 9, "symbols": [f"f{i}"]} for i in parts],
        )
    return {"turns": len(parts)}, [{"turn": i} for i in parts], [{"turn": i} for i in parts]


def write_lines(path: Path, rows: list[dict[str, Any]]) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    data = "".join(json.dumps(row) + "\n" for row in rows).encode()
    path.write_bytes(data)
    return hashlib.sha256(data).hexdigest()


def make(root: Path) -> None:
    """Sets, indexes, manifests, ``atoms.jsonl`` and ``run.jsonl`` in ``root``. Seeded."""
    rng = random.Random(1)
    digests = {}
    atoms: list[dict[str, Any]] = []
    of_holder: dict[str, list[str]] = {f"holder-{i:03}": [] for i in range(HOLDERS)}
    holders = sorted(of_holder)
    sources = []
    for modality, count in SOURCES.items():
        extent, gold, parts = regions(modality)
        rows = []
        for i in range(count):
            name, holder = f"{modality}:{i}", rng.choice(holders)
            rows.append({"source_id": name, "modality": modality, "holder": holder, "observed_at": BEFORE, **extent})
            sources.append((name, modality, holder, gold))
            for part, region in enumerate(parts):
                late = {"observed_at": AFTER} if rng.random() < 0.02 else {}
                atoms.append({"atom_id": f"{name}#{part}", "source_id": name, "region": region, **late})
                of_holder[holder].append(f"{name}#{part}")
        digests[f"sets/corpus/{modality}.jsonl"] = write_lines(root / "sets" / "corpus" / f"{modality}.jsonl", rows)
    every = [atom["atom_id"] for atom in atoms]
    sets: dict[str, list[dict[str, Any]]] = {modality: [] for modality in SOURCES}
    run = []
    for number, (name, modality, holder, gold) in enumerate(rng.sample(sources, ANSWERABLE + UNANSWERABLE)):
        answerable = number < ANSWERABLE
        part = rng.randrange(len(gold))
        query_id = f"made:{modality}:{number}"
        sets[modality].append(
            {
                "query_id": query_id, "modality": modality, "question": f"question {number}",
                "answer": "so" if answerable else None, "answer_format": "str" if answerable else "none",
                "gold": [{"source_id": name, "region": gold[part]}] if answerable else [],
                "scope": {"holder": holder, "session": None, "scenario": ("qa", "recall", "search")[number % 3]},
                "as_of": ASKED, "unanswerable": not answerable, "split": "dev",
                "origin": {"dataset": "made", "revision": "r1", "item": f"row:{number}", "license": "none"},
            }
        )  # fmt: skip
        near = rng.sample(of_holder[holder], min(RETURNED, len(of_holder[holder])))
        ranked = dict.fromkeys([*near, *rng.sample(every, RETURNED)] if rng.random() < 0.05 else near)
        places = [*ranked, *rng.sample(every, 2 * RETURNED)]
        if answerable and rng.random() < 0.9:
            places.insert(min(int(rng.expovariate(0.3)), 40), f"{name}#{part}")
        places = list(dict.fromkeys(places))[:RETURNED]
        returned = [{"atom_id": a, "score": round(rng.random(), 4), "strong": rng.random() < 0.01} for a in places]
        latency = {"cold_s": round(rng.expovariate(1), 4), "warm_s": round(rng.expovariate(9), 4)}
        run.append({"query_id": query_id, "returned": returned, "latency": latency})
    for modality, rows in sets.items():
        digests[f"sets/{modality}.jsonl"] = write_lines(root / "sets" / f"{modality}.jsonl", rows)
    (root / "corpus").mkdir()
    (root / "corpus" / "blank").write_bytes(b"")
    empty = hashlib.sha256(b"").hexdigest()
    line = {"url": "made:r1", "retrieved_at": BEFORE, "annotation_source": "made up, seeded", "license": "none"}
    files = [{"path": "blank", "sha256": empty}]
    write_lines(root / "corpus" / "manifest.jsonl", [{**line, "sha256": empty, "files": files}])
    frozen = [{"path": path, "sha256": digest} for path, digest in sorted(digests.items())]
    (root / "sets" / "manifest.json").write_text(json.dumps({"files": frozen}))
    write_lines(root / "atoms.jsonl", atoms)
    write_lines(root / "run.jsonl", run)


def gathered(root: str) -> Any:
    from mabpl.benchmarks.ely_eye import scoring
    from mabpl.benchmarks.ely_eye.options import ElyOptions

    return scoring.gather(root, f"{root}/atoms.jsonl", [f"{root}/run.jsonl"], ElyOptions())


def read(root: str) -> tuple[Callable[[], Any], Callable[[Any], dict[str, Any]]]:
    return lambda: gathered(root), lambda found: {"queries": found.queries.height}


def score(root: str) -> tuple[Callable[[], Any], Callable[[Any], dict[str, Any]]]:
    from mabpl.benchmarks.ely_eye import scoring
    from mabpl.benchmarks.ely_eye.options import ElyOptions

    inputs = gathered(root)

    def checks(found: Any) -> dict[str, Any]:
        rows = found.scores.filter(found.scores["denominator"].is_not_null())
        keys = rows.select(
            "slice", "value_of_slice", "metric", "recall_unit", "whole_source", "cross_holder", "denominator"
        )
        values = dict(zip(map(tuple, keys.rows()), rows["value"].to_list(), strict=True))
        return {"values": digest(values), "queries": found.queries.height}

    return lambda: scoring.score(inputs, ElyOptions()), checks


def plain(root: str) -> tuple[Callable[[], Any], Callable[[Any], dict[str, Any]]]:
    """From dicts that stand ready: what each query came to, and every value of every slice."""
    from mabpl.benchmarks.ely_eye import reference, scoring

    inputs = gathered(root)
    bench = inputs.benchmark
    resolved = scoring.resolve(bench.gold, inputs.atoms.atoms, bench.sources, bench.symbols)
    queries = inputs.queries.to_dicts()
    atoms = {row["atom_id"]: row for row in inputs.atoms.atoms.to_dicts()}
    sources = {row["source_id"]: row for row in bench.sources.to_dicts()}
    overlaps, places, regions_of = (
        dict(frame.rows_by_key("query_id", named=True, include_key=True))
        for frame in (resolved, inputs.runs.returned.sort("query_id", "rank"), bench.gold)
    )
    asked = set(queries_asked(queries))

    def call() -> Any:
        found = {}
        for query in queries:
            name = query["query_id"]
            near = places.get(name, [])
            held = {p["atom_id"]: atoms[p["atom_id"]] for p in (*near, *overlaps.get(name, []))}
            regions = [row["gold"] for row in regions_of.get(name, [])]
            found[name] = reference.score_query(
                query, regions, overlaps.get(name, []), near, held, sources, asked=name in asked, others=True
            )
        slices: dict[tuple[str, str | None], list[Any]] = {}
        for query in queries:
            for kind in ("all", "modality", "scenario", "holder"):
                slices.setdefault((kind, query.get(kind)), []).append(found[query["query_id"]])
        readings = sorted({reading for values in found.values() for reading in values}, key=repr)
        return {
            (*of, *reading, denominator): reference.add_up(values, reading, denominator)
            for of, values in slices.items()
            for reading in [*readings, ("holder", None, None, "asked")]
            for denominator in ("applicable", "all")
        }

    return call, lambda values: {"values": digest(values), "queries": len(queries)}


def queries_asked(queries: list[dict[str, Any]]) -> list[str]:
    """By index, where the definition loops over all pairs."""
    from mabpl.benchmarks.ely_eye import reference

    twins: dict[Any, list[dict[str, Any]]] = {}
    for query in queries:
        for key in (query["question"], query["item"]):
            twins.setdefault((query["modality"], key), []).append(query)
    near = {q["query_id"]: twins[q["modality"], q["question"]] + twins[q["modality"], q["item"]] for q in queries}
    return [q["query_id"] for q in queries if reference.is_asked_elsewhere(q, near[q["query_id"]])]


def digest(values: dict[Any, float | None]) -> str:
    """Of values to 9 digits: sums in another order differ in the last ones."""
    lines = sorted(f"{key}: {value if value is None else round(value, 9) + 0.0}" for key, value in values.items())
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


CONTESTANTS = {"read": read, "score": score, "plain": plain}


def contestant(name: str, root: str, calls: int) -> None:
    call, checks = CONTESTANTS[name](root)
    times = []
    for _ in range(calls + 1):
        wall, cpu = time.perf_counter(), time.process_time()
        found = call()
        times.append((time.perf_counter() - wall, time.process_time() - cpu))
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KILOBYTE / 1e6
    first, *rest = times
    measured = {
        "wall_s": [w for w, _ in rest],
        "cpu_s": [c for _, c in rest],
        "first_s": [first[0]],
        "peak_mb": peak_mb,
    }
    print(json.dumps({**measured, "checks": checks(found)}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="turns of each contestant")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "ely.json", help="where the figures go")
    parser.add_argument("--make", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--contestant", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.make:
        make(given.make)
    elif given.contestant:
        contestant(*given.contestant, calls=1 if given.contestant[0] == "plain" else 2)
    else:
        with tempfile.TemporaryDirectory() as folder:
            root = f"{folder}/bench"
            harness.measure(Contestant("the corpus", (sys.executable, __file__, "--make", root)))
            whole = (
                "-m",
                "mabpl",
                "ely",
                "score",
                "--root",
                root,
                "--atoms",
                f"{root}/atoms.jsonl",
                f"{root}/run.jsonl",
            )
            racers = [Contestant("ours", (sys.executable, *whole, "--quiet"))]
            racers += [
                Contestant(n, (sys.executable, __file__, "--contestant", n, root), reports=True) for n in CONTESTANTS
            ]
            results = harness.race(racers, given.rounds)
        cpu = {name: result.row(name)["cpu_s"] for name, result in results.items()}
        goals = [
            Goal("ours, whole process, s of the processor", cpu["ours"], at_most=14),
            Goal("score, with every interval, s of the processor", cpu["score"], at_most=7),
            Goal("peak memory of ours, GB", max(results["ours"].peak_mb) / 1e3, at_most=1),
            Goal("plain, without intervals, s of the processor", cpu["plain"]),
        ]
        corpus = {
            "queries": ANSWERABLE + UNANSWERABLE, "returned_each": RETURNED, "sources": sum(SOURCES.values()),
            "holders": HOLDERS, "atoms": sum(SOURCES[m] * PARTS[m] for m in SOURCES),
        }  # fmt: skip
        harness.conclude("ely", corpus, results, goals, given.out)


if __name__ == "__main__":
    main()
