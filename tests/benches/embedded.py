"""How many distinct pairs of labels the embedded judge does in a second, on one core.

    python tests/benches/embedded.py [--rounds N] [--out FILE]

Made-up labels of one and two clauses, nearly all distinct, each pair judged for PA with one label in ALSO. A process
begins with empty tables; the first call reads them and is shown apart. Ends with exit code 1 where the verdicts of two
processes differ.
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
from pathlib import Path

import harness
from harness import Contestant, Goal

PAIRS = 50_000
VERBS = (
    "pick up", "put down", "place", "insert", "tighten", "loosen", "open", "close", "fold", "wipe", "pour", "cut",
    "saw", "align", "stir", "peel", "push", "pull",
)  # fmt: skip
KINDS = ("red ", "blue ", "small ", "wooden ", "glass ", "coffee ", "second ", "", "")
THINGS = (
    "cup", "jar", "lid", "screw", "plank", "shirt", "bowl", "knife", "towel", "box", "wheel", "cable", "carrot",
    "board", "bottle", "drawer", "sponge", "pen",
)  # fmt: skip
TAILS = (" from the table", " into the box", " on the shelf", " with a knife", " next to the bowl", "", "")
HANDS = (" with the left hand", " with the right hand", " with both hands", "")


def labels(count: int) -> list[str]:
    pick = random.Random("labels").choice

    def clause() -> str:
        return f"{pick(VERBS)} the {pick(KINDS)}{pick(THINGS)}{pick(TAILS)}{pick(HANDS)}"

    return [clause() if i % 3 else f"{clause()}; {clause()}" for i in range(count)]


def contestant() -> None:
    """One process: what it took, as the harness reads it."""
    from mabpl.judges.embedded import judge_pa

    predicted, primary, also = labels(PAIRS), labels(3 * PAIRS)[PAIRS:-PAIRS], labels(3 * PAIRS)[-PAIRS:]
    begin = time.perf_counter()
    judge_pa(["pick up the cup"], ["grasp the mug"], [()])
    first, cpu = time.perf_counter() - begin, time.process_time()
    begin = time.perf_counter()
    scores, equivalent = judge_pa(predicted, primary, [[label] for label in also])
    measured = {"wall_s": [time.perf_counter() - begin], "cpu_s": [time.process_time() - cpu], "first_s": [first]}
    measured["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * harness.KILOBYTE / 1e6
    verdicts = hashlib.sha256(scores.tobytes() + equivalent.tobytes()).hexdigest()[:16]
    print(json.dumps(measured | {"checks": {"verdicts": verdicts}}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="processes of each kind")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "embedded.json")
    parser.add_argument("--contestant", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.contestant:
        contestant()
        return
    command = (sys.executable, __file__, "--contestant")
    twins = [Contestant(name, command, reports=True) for name in ("judge_pa", "judge_pa, another process")]
    results = harness.race(twins, arguments.rounds)
    cpu = statistics.median(results["judge_pa"].cpu_s)
    goals = [Goal("distinct pairs a CPU second", PAIRS / cpu, at_least=5_000)]
    harness.conclude("embedded", {"pairs": PAIRS}, results, goals, arguments.out)


if __name__ == "__main__":
    main()
