"""The standing of 25 arms on 89 clips with 500 resamples of clips, beside a loop over evalica's and choix's fits.

    python tests/benches/tournament.py [--rounds N] [--out FILE]

A made-up tournament: every pair of arms on every clip, about 3 comparisons of 4 count. `ours` starts from the win
tensor and ends with every interval; `ours_stand` starts from the table of games and ends with all tables. A
contestant of another package gets the same resampled win matrices, one by one, as it likes them best, and only fits.
Ends with exit code 1 where its strengths are not ours.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import harness
from harness import Contestant, Goal

ARMS, CLIPS, REPLICATES = 25, 89, 500
REPEATS = {"ours": 9, "ours_stand": 5, "evalica": 1, "choix": 1}
EQUAL = 1e-6
CHECK = f"strengths, within {EQUAL:g}"


def tournament() -> tuple[Any, Any, Any]:
    """Table of games, win tensor (clips, arms, arms), weights of the resamples."""
    import numpy as np
    import polars as pl

    from mabpl.stats.bootstrap import clip_weights
    from mabpl.tables.tournament import GAMES

    rng = np.random.default_rng(7)
    strength = np.sort(rng.normal(0, 0.8, ARMS))
    arm, other = np.triu_indices(ARMS, 1)
    clip = np.repeat(np.arange(CLIPS), len(arm))
    arm, other = np.tile(arm, CLIPS), np.tile(other, CLIPS)
    won = rng.random(len(clip)) < 1 / (1 + np.exp(strength[other] - strength[arm]))
    counted = rng.random(len(clip)) < 0.75
    wins = np.zeros((CLIPS, ARMS, ARMS))
    winner, loser = np.where(won, arm, other), np.where(won, other, arm)
    np.add.at(wins, (clip[counted], winner[counted], loser[counted]), 1)
    said = np.where(won, "A", "B")
    frame = pl.DataFrame(
        {
            "set": "bench",
            "clip_id": [f"clip-{c:03d}" for c in clip],
            "dimension": "timing",
            "arm": [f"arm-{a:02d}" for a in arm],
            "other": [f"arm-{a:02d}" for a in other],
            "judge_seed": 1,
            "verdict_arm_first": said,
            "verdict_other_first": np.where(counted, np.where(won, "B", "A"), said),
            "winner": [f"arm-{w:02d}" if c else None for w, c in zip(winner, counted, strict=True)],
            "outcome": np.where(counted, "counted", "disagreement"),
        }
    )
    return GAMES.conform(frame), wins, clip_weights(CLIPS, REPLICATES)


def contestant(name: str) -> None:
    """One process: what it took, as the harness reads it."""
    import numpy as np

    from mabpl.stats import bradley_terry
    from mabpl.tournament.standings import stand

    games, wins, weights = tournament()
    matrices = (weights @ wins.reshape(CLIPS, -1)).reshape(-1, ARMS, ARMS)
    arms = list(range(ARMS))

    def evalica() -> Any:
        import evalica

        left, right = np.nonzero(~np.eye(ARMS, dtype=bool))
        xs, ys, left_wins = left.tolist(), right.tolist(), [evalica.Winner.X] * len(left)
        found = []
        for matrix in matrices:
            given = matrix[left, right].tolist()
            scores = evalica.bradley_terry(xs, ys, left_wins, weights=given, tolerance=1e-12, limit=10_000).scores
            strengths = np.log(scores.loc[arms].to_numpy())
            found.append(strengths - strengths.mean())
        return np.array(found)

    def choix() -> Any:
        import choix

        return np.array([choix.ilsr_pairwise_dense(matrix, tol=1e-10) for matrix in matrices])

    calls: dict[str, Callable[[], Any]] = {
        "ours": lambda: bradley_terry.intervals(wins, weights),
        "ours_stand": lambda: stand(games, replicates=REPLICATES),
        "evalica": evalica,
        "choix": choix,
    }
    begin = time.perf_counter()
    found = calls[name]()
    first = time.perf_counter() - begin
    walls, cpus = [], []
    for _ in range(REPEATS[name]):
        begin, cpu = time.perf_counter(), time.process_time()
        found = calls[name]()
        walls.append(time.perf_counter() - begin)
        cpus.append(time.process_time() - cpu)
    measured = {"wall_s": walls, "cpu_s": cpus, "first_s": [first]}
    measured["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * harness.KILOBYTE / 1e6
    ours = bradley_terry.fit(matrices)
    if name in ("evalica", "choix"):
        equal = bool(np.abs(found - ours).max() < EQUAL)
    else:
        low, high = np.quantile(ours, [0.025, 0.975], axis=0)
        frame = stand(games, replicates=REPLICATES).standings.sort("arm")
        ends = [found] if name == "ours" else []
        equal = all(np.abs(end.low - low).max() < EQUAL and np.abs(end.high - high).max() < EQUAL for end in ends)
        equal = equal and bool(np.abs(frame["strength_low"].to_numpy() - low).max() < EQUAL)
        equal = bool(equal and np.abs(frame["strength_high"].to_numpy() - high).max() < EQUAL)
    print(json.dumps(measured | {"checks": {CHECK: equal}}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="processes of each contestant")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "tournament.json")
    parser.add_argument("--contestant", choices=REPEATS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.contestant:
        contestant(arguments.contestant)
        return
    own = (sys.executable, __file__, "--contestant")
    results = harness.race([Contestant(name, (*own, name), reports=True) for name in REPEATS], arguments.rounds)
    if not all(checks[CHECK] for result in results.values() for checks in result.checks):
        results["ours"].checks[0][CHECK] = "differ"  # a table of equal failures would pass for equality
    goals = [
        Goal("ours, s", results["ours"].wall, at_most=1),
        Goal("ours_stand, s", results["ours_stand"].wall, at_most=1),
        Goal("evalica / ours", results["evalica"].wall / results["ours"].wall),
        Goal("choix / ours", results["choix"].wall / results["ours"].wall),
    ]
    corpus = {"arms": ARMS, "clips": CLIPS, "resamples": REPLICATES}
    harness.conclude("tournament", corpus, results, goals, arguments.out)


if __name__ == "__main__":
    main()
