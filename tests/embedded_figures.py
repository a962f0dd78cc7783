"""How far the embedded judge agrees with a language model: ``python tests/embedded_figures.py FOLDER`` prints it.

FOLDER holds ``wgo/verdicts.jsonl``: 480 verdicts of gemini-3.1-pro-preview on whether a predicted and a human label
describe the same event. Clips are split by the parity of the first byte of BLAKE2b(clip_id): the tables and constants
of the judge were tuned on the even half, then frozen, and the odd half was looked at once. Intervals are of 95%, over
clips.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mabpl.judges.embedded import judge_joint, judge_pa
from mabpl.judges.slots import read_label
from mabpl.stats.bootstrap import clip_weights, percentile_interval

Floats = npt.NDArray[np.float64]
TUNED_ON, HELD_OUT = 0, 1
FAMILIES = {"all": "", "DROID": "robointer_droid", "Galaxea": "galaxea", "HOMER": "homer"}


def verdicts(folder: Path, parity: int) -> list[dict[str, Any]]:
    lines = (folder / "wgo" / "verdicts.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    return [row for row in rows if hashlib.blake2b(row["clip_id"].encode()).digest()[0] % 2 == parity]


def labels(rows: list[dict[str, Any]]) -> tuple[list[str], list[str]]:
    return [row["pred_label"] for row in rows], [row["gold_label"] for row in rows]


# --- judges: a score and a decision for each pair


def embedded(rows: list[dict[str, Any]]) -> tuple[Floats, Floats]:
    predicted, human = labels(rows)
    scores, _ = judge_pa(predicted, human, [()] * len(rows))
    return scores, judge_joint(predicted, human).astype(np.float64)


def overlap(rows: list[dict[str, Any]]) -> tuple[Floats, Floats]:
    """The words that both have over those that either has; one shared word is accepted (best on the even half)."""
    words = [[set(read_label(label).words.split()) for label in pair] for pair in zip(*labels(rows), strict=True)]
    scores = np.array([len(one & other) / len(one | other) for one, other in words])
    return scores, (scores > 0).astype(np.float64)


def equal(rows: list[dict[str, Any]]) -> tuple[Floats, Floats]:
    same = np.array(
        [read_label(one).words == read_label(other).words for one, other in zip(*labels(rows), strict=True)]
    )
    return same.astype(np.float64), same.astype(np.float64)


def always(rows: list[dict[str, Any]]) -> tuple[Floats, Floats]:
    return np.zeros(len(rows)), np.ones(len(rows))


JUDGES = {"embedded-slots/1": embedded, "shared words": overlap, "equal text": equal, "always yes": always}


# --- figures: of verdicts with weights, float64 (replicates, verdicts)


def accuracy(weights: Floats, truth: Floats, scores: Floats, decided: Floats) -> Floats:
    return weights @ (truth == decided) / weights.sum(axis=1)


def kappa(weights: Floats, truth: Floats, scores: Floats, decided: Floats) -> Floats:
    yes, said = (weights @ side / weights.sum(axis=1) for side in (truth, decided))
    chance = yes * said + (1 - yes) * (1 - said)
    with np.errstate(invalid="ignore"):
        return (accuracy(weights, truth, scores, decided) - chance) / (1 - chance)


def auc(weights: Floats, truth: Floats, scores: Floats, decided: Floats) -> Floats:
    positive, negative = weights[:, truth == 1], weights[:, truth == 0]
    difference = scores[truth == 1][:, None] - scores[truth == 0][None, :]
    wins = (difference > 0) + 0.5 * (difference == 0)
    with np.errstate(invalid="ignore"):
        return ((positive @ wins) * negative).sum(axis=1) / (positive.sum(axis=1) * negative.sum(axis=1))


FIGURES = {"accuracy": accuracy, "kappa": kappa, "AUC": auc}


def figure(of: Callable[..., Floats], rows: list[dict[str, Any]], judge: Callable[..., Any]) -> tuple[float, ...]:
    """The figure and its interval."""
    low, high = percentile_interval(replicates(of, rows, judge)[:, None])
    return of(np.ones((1, len(rows))), truth(rows), *judge(rows)).item(), low.item(), high.item()


def replicates(of: Callable[..., Floats], rows: list[dict[str, Any]], judge: Callable[..., Any]) -> Floats:
    """The figure in each draw of clips: float64 (replicates,)."""
    clips = np.unique([row["clip_id"] for row in rows], return_inverse=True)[1]
    return of(clip_weights(clips.max() + 1)[:, clips], truth(rows), *judge(rows))


def truth(rows: list[dict[str, Any]]) -> Floats:
    return np.array([row["same_event"] for row in rows], dtype=np.float64)


def tables(folder: Path) -> list[str]:
    """The rows of the page: one for each group of pairs and judge."""
    rows = verdicts(folder, HELD_OUT)
    groups = {name: [row for row in rows if row["clip_id"].startswith(start)] for name, start in FAMILIES.items()}
    groups["an action is predicted"] = [row for row in rows if read_label(row["pred_label"]).clauses]
    groups["the half it was tuned on"] = verdicts(folder, TUNED_ON)
    return [row for name, group in groups.items() for row in _rows(name, group)]


def _rows(name: str, group: list[dict[str, Any]]) -> Iterator[str]:
    same = np.mean([row["same_event"] for row in group])
    size = f"{len(group)} | {len({row['clip_id'] for row in group})} | {same:.3f}"
    for judge_name, judge in JUDGES.items():
        cells = [figure(of, group, judge) for of in FIGURES.values()]
        shown = " | ".join(f"{value:z.3f} [{low:z.3f}, {high:z.3f}]" for value, low, high in cells)
        yield f"| {name} | {size} | {judge_name} | {shown} |"


if __name__ == "__main__":
    print("| pairs | verdicts | clips | same | judge |", " | ".join(FIGURES), "|")
    print("|---|---:|---:|---:|---|", "|".join(["---:"] * len(FIGURES)), "|", sep="")
    print(*tables(Path(sys.argv[1])), sep="\n")
