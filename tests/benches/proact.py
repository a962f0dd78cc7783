"""ProactEgoMem's events: 400 clips x 100 submissions in one call.

    python tests/benches/proact.py [--rounds N] [--out FILE]

Made-up clips of 3 minutes in two tracks and three tasks, a tenth of them declared negatives, every third segment open.
`label_free` makes all that needs no verdict of frames that stand ready: matches, clip scores, and the scores of every
cell with their intervals; `matched` stops before these. `judged` joins a verdict on every distinct pair too. `plain`
takes every twentieth clip in plain loops and has to find the same. Ends with exit code 1 where results differ.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import resource
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import harness
from harness import Contestant, Goal

CLIPS, RUNS, SAMPLE, THINGS = 400, 100, 20, 20
CELLS = [(t, k) for t in ("home", "shop") for k in ("information_capture", "state_tracking", "location_tracking")]
CHECKED = ["run", "clip_uid", "hits", "duplicates", "wrong_objects", "out_of_time", "on_negatives", "timing_hits"]


def refers(text: str, thing: str) -> bool:
    return text.endswith(thing)


def corpus() -> tuple[Any, Any, Any]:
    """`proact_clips`, `proact_segments` and `mentions`."""
    import polars as pl

    from mabpl.tables.proact_ego_mem import MENTIONS, PROACT_CLIPS, PROACT_SEGMENTS

    draw = random.Random("proact")
    clips, segments, mentions = [], [], []
    for number in range(CLIPS):
        cell, uid, negative = CELLS[number % len(CELLS)], f"clip-{number:03d}", number % 10 == 9
        clips.append((*cell, "dev", uid, "v", 0.0, 180.0, 180.0, negative, 0, 0, 0, "f"))
        for i in range(0 if negative else draw.randint(1, 8)):
            start, is_open = draw.random() * 170, draw.random() < 0.3
            end = 180.0 if is_open else min(180.0, start + 1 + 20 * draw.random())
            thing = f"object {draw.randrange(THINGS)}"
            segments.append((*cell, "dev", uid, f"s{number}-{i}", thing, None, start, end, is_open, False))
        for run in range(RUNS):
            for i in range(draw.randint(0, 12)):
                said = f"I can see object {draw.randrange(THINGS)}"
                mentions.append((f"run-{run:02d}", *cell, uid, i, draw.random() * 180, said))
    return tuple(  # type: ignore[return-value]
        pl.DataFrame(rows, schema=table.schema, orient="row").sort(table.key)
        for table, rows in ((PROACT_CLIPS, clips), (PROACT_SEGMENTS, segments), (MENTIONS, mentions))
    )


def matched(frames: tuple[Any, Any, Any]) -> Any:
    import polars as pl

    from mabpl.benchmarks.proact_ego_mem.event_matching import match, prepare
    from mabpl.benchmarks.proact_ego_mem.event_options import EventOptions
    from mabpl.benchmarks.proact_ego_mem.events import EventScores

    runs = [f"run-{run:02d}" for run in range(RUNS)]
    events = prepare(*frames, EventOptions(), runs=runs)
    named = pl.DataFrame({"run": runs, "file": runs, "sha256": runs})
    scores = EventScores(events, EventOptions(), match(events, None, EventOptions()), named)
    _ = scores.clip_scores
    return scores


def label_free(frames: tuple[Any, Any, Any]) -> Any:
    scores = matched(frames)
    _ = scores.scores
    return scores


def judging(frames: tuple[Any, Any, Any]) -> Callable[[], Any]:
    """Requests and verdicts stand ready."""
    import polars as pl

    from mabpl.benchmarks.proact_ego_mem.events import plan, with_verdicts
    from mabpl.tables.schemas import VERDICTS

    planned = plan(matched(frames))
    right = [refers(*row) for row in planned.requests.select("predicted_label", "primary").iter_rows()]
    constant = {name: pl.lit(name) for name in ("judge", "route", "reply", "reasoning")}
    found = planned.requests.select("request", "kind", key="request").with_columns(
        accepted=pl.Series(right), status=pl.lit("ok"), parser=1, **constant
    )
    found = VERDICTS.conform(found)

    def judged() -> Any:
        scores = with_verdicts(matched(frames), planned, found, {"kind": "object", "judge": "j", "route": "r"})
        _ = scores.scores
        return scores

    return judged


def plain(frames: tuple[Any, Any, Any]) -> list[tuple[Any, ...]]:
    """``CHECKED`` of every twentieth clip, by the plain definition."""
    from mabpl.benchmarks.proact_ego_mem.event_reference import Mention, Segment, score_clip

    clips, segments, mentions = frames
    rows = []
    for uid, negative in clips[::SAMPLE].select("clip_uid", "declared_negative").iter_rows():
        of_clip = segments.filter(clip_uid=uid).select("sample_id", "start_s", "end_s", "object")
        things = [Segment(*row) for row in of_clip.iter_rows()]
        said = mentions.filter(clip_uid=uid)
        for run in range(RUNS):
            own = said.filter(run=f"run-{run:02d}").select("time_s", "text")
            spoken = [Mention(*row) for row in own.iter_rows()]
            judged = score_clip(things, spoken, refers, negative=negative)
            timing = score_clip(things, spoken, lambda text, thing: True, negative=negative)
            counts = [judged.outcomes.count(name) for name in ("hit", "duplicate", "wrong_object", "out_of_time")]
            rows.append((f"run-{run:02d}", uid, *counts, judged.outcomes.count("on_negative"), len(timing.matches)))
    return rows


def digest(rows: list[tuple[Any, ...]]) -> str:
    return hashlib.sha256(json.dumps(sorted(rows)).encode()).hexdigest()[:16]


def contestant(name: str, repeat: int) -> None:
    """One process: what it took, as the harness reads it."""
    frames = corpus()
    call: Callable[[], Any] = {
        "matched": lambda: matched(frames),
        "label_free": lambda: label_free(frames),
        "plain": lambda: plain(frames),
    }.get(name) or judging(frames)  # fmt: skip
    begin = time.perf_counter()
    found = call()
    measured: dict[str, Any] = {"first_s": [time.perf_counter() - begin], "wall_s": [], "cpu_s": []}
    for _ in range(repeat):
        begin, cpu = time.perf_counter(), time.process_time()
        found = call()
        measured["wall_s"].append(time.perf_counter() - begin)
        measured["cpu_s"].append(time.process_time() - cpu)
    measured["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * harness.KILOBYTE / 1e6
    if name == "plain":
        measured["checks"] = {"outcomes": digest(found), "timing": digest([(*row[:2], row[-1]) for row in found])}
    else:
        sample = frames[0]["clip_uid"][::SAMPLE].implode()
        rows = found.clip_scores.filter(found.clip_scores["clip_uid"].is_in(sample)).select(CHECKED).rows()
        measured["checks"] = {"timing": digest([(*row[:2], row[-1]) for row in rows])}
        if name == "judged":
            measured["checks"]["outcomes"] = digest(rows)
    print(json.dumps(measured))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="processes of each kind")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "proact.json")
    parser.add_argument("--contestant", help=argparse.SUPPRESS)
    parser.add_argument("--repeat", type=int, default=7, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.contestant:
        contestant(arguments.contestant, arguments.repeat)
        return
    repeats = {"matched": 7, "label_free": 7, "judged": 3, "plain": 1}
    command = (sys.executable, __file__, "--contestant")
    contestants = [
        Contestant(name, (*command, name, "--repeat", str(repeat)), reports=True) for name, repeat in repeats.items()
    ]
    results = harness.race(contestants, arguments.rounds)
    goals = [
        Goal("label_free, s", results["label_free"].wall, at_most=1),
        Goal("the same, fastest, s", min(results["label_free"].wall_s)),
        Goal("the same, CPU, s", statistics.median(results["label_free"].cpu_s)),
        Goal("plain, of a twentieth of the clips / label_free", results["plain"].wall / results["label_free"].wall),
    ]
    harness.conclude("proact", {"clips": CLIPS, "submissions": RUNS}, results, goals, arguments.out)


if __name__ == "__main__":
    main()
