"""What is measured, each in a process of its own.

    python tests/benches/contestants.py NAME CORPUS REPEAT [OUT]

makes ready, calls once, calls REPEAT times more with the clock on, and prints one JSON object: the times, the peak
memory before anything is checked, and digests of the results by which contestants are held against each other.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
from harness import KILOBYTE

COUNTS = ["run", "set", "clip_id", "x", "y", "assigned", "b", "k", "t"]
MATCHES = ["run", "set", "clip_id", "metric", "predicted", "human"]
PAIRS = ["run", "set", "clip_id", "predicted", "human", "overlap_us"]
SETS = ["run", "set", "boundary_f1", "temporal_f1", "seg_f1"]
COLUMNS = ["run", "set", "clip_id", "segment", "start_s", "end_s", "is_idle", "flagged"]
"""Of the tables of segments: what label-free scoring reads."""
SAMPLE = 2_000
"""Clips of a large corpus whose scores are checked against the plain way."""


class Contest(NamedTuple):
    """``work`` is timed; ``check`` makes digests of what it returned; ``first`` is called before, if not ``work``."""

    work: Callable[[], Any]
    check: Callable[[Any], dict[str, Any]] = lambda _: {}
    first: Callable[[], Any] | None = None


def sets_digest(sets: pl.DataFrame) -> str:
    """Values agree where they do so in twelve places: sums over clips may differ in the last."""
    return digest(sets.with_columns(pl.col(SETS[2:]).round_sig_figs(12)), SETS)


def digest(frame: pl.DataFrame, columns: list[str]) -> str:
    text = frame.select(columns).sort(columns).write_csv()
    return f"{len(frame)} rows, sha256 {hashlib.sha256(text.encode()).hexdigest()[:16]}"


# --- reading alone


def read_polars(corpus: Path) -> Contest:
    paths = [corpus / "labels.parquet", corpus / "predictions.parquet"]
    return Contest(lambda: [pl.read_parquet(path, columns=COLUMNS) for path in paths])


def read_pyarrow(corpus: Path) -> Contest:
    import pyarrow.parquet as pq

    paths = [corpus / "labels.parquet", corpus / "predictions.parquet"]
    return Contest(lambda: [pq.ParquetFile(path).read(columns=COLUMNS) for path in paths])


# --- the plain way

Key = tuple[str, str, str]
Timelines = dict[Key, tuple[list[dict[str, Any]], list[dict[str, Any]]]]


def plain_timelines(corpus: Path, clips: int | None = None) -> Timelines:
    """(run, set, clip_id) -> (predicted, human), as lists of dicts."""
    below = pl.lit(True) if clips is None else pl.col("clip_id") < f"clip-{clips:08d}"
    human: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in pl.scan_parquet(corpus / "labels.parquet").filter(below).select(COLUMNS).collect().to_dicts():
        human.setdefault((row["set"], row["clip_id"]), []).append(row)
    predicted: dict[Key, list[dict[str, Any]]] = {}
    for row in pl.scan_parquet(corpus / "predictions.parquet").filter(below).select(COLUMNS).collect().to_dicts():
        predicted.setdefault((row["run"], row["set"], row["clip_id"]), []).append(row)
    return {key: (segments, human[key[1:]]) for key, segments in predicted.items()}


def plain_scores(timelines: Timelines) -> tuple[dict[Key, dict[str, Any]], list[dict[str, Any]]]:
    """The scores of every clip, and those of every run on each set and over all of them."""
    from plain import clip_row, score_clip, score_sets

    scores = {key: score_clip(predicted, human) for key, (predicted, human) in timelines.items()}
    return scores, score_sets([clip_row(*key, found) for key, found in scores.items()])


def plain_check(found: tuple[dict[Key, dict[str, Any]], list[dict[str, Any]]]) -> dict[str, Any]:
    scores, sets = found
    counts = [(*key, *(found[name] for name in COUNTS[3:])) for key, found in scores.items()]
    matches = [
        (*key, metric, *match)
        for key, found in scores.items()
        for metric, taken in found["matches"].items()
        for match in taken
    ]
    pairs = [(*key, *pair) for key, found in scores.items() for pair in found["pairs"]]
    return {
        "counts": digest(pl.DataFrame(counts, schema=COUNTS, orient="row"), COUNTS),
        "matches": digest(pl.DataFrame(matches, schema=MATCHES, orient="row"), MATCHES),
        "pairs": digest(pl.DataFrame(pairs, schema=PAIRS, orient="row"), PAIRS),
        "sets": sets_digest(pl.DataFrame(sets)),
    }


def plain(corpus: Path) -> Contest:
    return Contest(lambda: plain_scores(plain_timelines(corpus)), plain_check)


def plain_metrics(corpus: Path) -> Contest:
    timelines = plain_timelines(corpus)
    return Contest(lambda: plain_scores(timelines), plain_check)


def plain_sample(corpus: Path) -> Contest:
    return Contest(lambda: plain_scores(plain_timelines(corpus, SAMPLE)), plain_check)


# --- boundaries alone: the timelines stand ready


def prepared_timelines(corpus: Path) -> Timelines:
    from plain import prepare

    return {key: (prepare(predicted), prepare(human)) for key, (predicted, human) in plain_timelines(corpus).items()}


def boundary_digest(keys: list[Key], counts: list[int]) -> str:
    rows = [(*key, count) for key, count in zip(keys, counts, strict=True)]
    return digest(pl.DataFrame(rows, schema=[*COUNTS[:3], "b"], orient="row"), [*COUNTS[:3], "b"])


def plain_boundary(corpus: Path) -> Contest:
    from plain import boundary

    timelines = prepared_timelines(corpus)
    return Contest(
        lambda: [len(boundary(predicted, human)) for predicted, human in timelines.values()],
        lambda counts: {"boundary greedy": boundary_digest(list(timelines), counts)},
    )


def mir_eval_boundary(corpus: Path) -> Contest:
    from peers import boundary_counts, points

    timelines = prepared_timelines(corpus)
    arrays = [(points(predicted), points(human)) for predicted, human in timelines.values()]
    return Contest(
        lambda: boundary_counts(arrays),
        lambda counts: {"boundary optimal": boundary_digest(list(timelines), counts)},
    )


def ours_boundary(corpus: Path) -> Contest:
    from mabpl import timelines
    from mabpl.metrics import matches
    from mabpl.settings import Settings

    tables = [pl.read_parquet(corpus / f"{name}.parquet") for name in ("clips", "labels", "predictions")]
    clips, human, predicted = tables
    built = timelines.build(clips, human, None, predicted)
    keys = built.predicted.key.select(COUNTS[:3]).rows()

    def check(matched: matches.Matched) -> dict[str, Any]:
        optimal = matches.match(built, Settings(boundary_matching="optimal"), ["boundary"])
        return {
            "boundary greedy": boundary_digest(keys, matched.counts("boundary").tolist()),
            "boundary optimal": boundary_digest(keys, optimal.counts("boundary").tolist()),
        }

    return Contest(lambda: matches.match(built, Settings(), ["boundary"]), check)


# --- ours


def ours_check(scores: Any) -> dict[str, Any]:
    return {
        "counts": digest(scores.clips, COUNTS),
        "matches": digest(scores.matches, MATCHES),
        "sets": sets_digest(scores.sets),
    }


def ours(corpus: Path) -> Contest:
    import mabpl

    def work() -> Any:
        scores = mabpl.score(corpus / "labels.parquet", corpus / "predictions.parquet")
        _ = scores.sets
        return scores

    return Contest(work, ours_check)


def ours_pairs(corpus: Path) -> Contest:
    import mabpl

    def work() -> Any:
        scores = mabpl.score(corpus / "labels.parquet", corpus / "predictions.parquet")
        _ = scores.sets, scores.pairs
        return scores

    return Contest(work, lambda scores: {**ours_check(scores), "pairs": digest(scores.pairs, PAIRS)})


def ours_large(corpus: Path) -> Contest:
    """From parquet to parquet, out of core. The first call, on the small corpus beside it, loads and compiles."""
    import mabpl

    def work(folder: Path = corpus) -> Path:
        out = Path(sys.argv[4]) / folder.name
        mabpl.score_parquet(folder / "labels.parquet", folder / "predictions.parquet", out)
        return out

    def check(out: Path) -> dict[str, Any]:
        sample = pl.col("clip_id") < f"clip-{SAMPLE:08d}"
        clips = scan(out, "clip_scores")
        expected = pl.scan_parquet(corpus / "predictions.parquet").filter(~pl.col("is_idle")).select(pl.len())
        if clips.select(pl.col("x").sum()).collect().item() != expected.collect().item():
            sys.exit("the predicted segments scored are not those of the corpus")
        return {
            "counts": digest(clips.filter(sample).select(COUNTS).collect(), COUNTS),
            "matches": digest(scan(out, "matches").filter(sample).select(MATCHES).collect(), MATCHES),
        }

    return Contest(work, check, lambda: work(corpus.parent / "bulk"))


def scan(folder: Path, table: str) -> pl.LazyFrame:
    """A table written as ``<table>.parquet`` or as parts in a folder ``<table>``."""
    return pl.scan_parquet(sorted({*folder.glob(f"{table}*.parquet"), *folder.glob(f"{table}*/**/*.parquet")}))


CONTESTANTS: dict[str, Callable[[Path], Contest]] = {
    contestant.__name__: contestant
    for contestant in (
        read_polars,
        read_pyarrow,
        plain,
        plain_metrics,
        plain_sample,
        plain_boundary,
        mir_eval_boundary,
        ours_boundary,
        ours,
        ours_pairs,
        ours_large,
    )
}


def main() -> None:
    name, corpus, repeat = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    contest = CONTESTANTS[name](corpus)
    begin = time.perf_counter()
    result = (contest.first or contest.work)()
    times = [(time.perf_counter(), time.process_time())]
    for _ in range(repeat):
        result = contest.work()
        times.append((time.perf_counter(), time.process_time()))
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KILOBYTE / 1e6
    steps = list(itertools.pairwise(times))
    report = {
        "first_s": [times[0][0] - begin],
        "wall_s": [after[0] - before[0] for before, after in steps],
        "cpu_s": [after[1] - before[1] for before, after in steps],
        "peak_mb": peak_mb,
        "checks": contest.check(result),
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
