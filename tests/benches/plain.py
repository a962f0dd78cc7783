"""The plain way: the label-free metrics as a benchmark's author writes them, with lists of dicts and Python loops.

    python tests/benches/plain.py ROOT OUT.json

scores every prediction file of a dataset folder with nothing but the standard library. The rules are those of
MicroAnnotationBench; human segments of a clip must not overlap each other (as the benchmark's do not).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

Segment = dict[str, Any]
Match = tuple[int, int]
"""(predicted, human), as positions in the file's clip."""

TOLERANCE_FRAMES = 20


def prepare(segments: list[Segment]) -> list[Segment]:
    """The segments that count, in time order, with their times in frames and in microseconds."""
    kept = [
        {
            "position": position,
            "start": round(segment["start_s"] * 1e6),
            "end": round(segment["end_s"] * 1e6),
            "start_tick": round(segment["start_s"] * 30),
            "end_tick": round(segment["end_s"] * 30),
        }
        for position, segment in enumerate(segments)
        if not segment["is_idle"] and not segment.get("flagged", False)
    ]
    return sorted(kept, key=lambda segment: (segment["start"], segment["end"], segment["position"]))


def overlap(a: Segment, b: Segment) -> int:
    return max(0, min(a["end"], b["end"]) - max(a["start"], b["start"]))


def union(a: Segment, b: Segment, shared: int) -> int:
    return a["end"] - a["start"] + b["end"] - b["start"] - shared


def one_to_one(candidates: list[tuple[int, int, int]]) -> list[tuple[int, int]]:
    """Takes the (cost, human, predicted) with the least cost first; each side once."""
    used_humans, used_predicted, taken = set(), set(), []
    for _, h, p in sorted(candidates):
        if h not in used_humans and p not in used_predicted:
            used_humans.add(h)
            used_predicted.add(p)
            taken.append((p, h))
    return taken


def overlapping(predicted: list[Segment], human: list[Segment]) -> list[tuple[int, int, int]]:
    """(minus the overlap, human, predicted) of every pair that shares time."""
    pairs = []
    for h, label in enumerate(human):
        for p, guess in enumerate(predicted):
            shared = overlap(label, guess)
            if shared > 0:
                pairs.append((-shared, h, p))
    return pairs


def boundary(predicted: list[Segment], human: list[Segment]) -> list[tuple[int, int]]:
    """Both ends within 20 frames; smallest total error first."""
    candidates = []
    for h, label in enumerate(human):
        for p, guess in enumerate(predicted):
            start_error = guess["start_tick"] - label["start_tick"]
            if start_error > TOLERANCE_FRAMES:
                break  # they are in time order
            if start_error >= -TOLERANCE_FRAMES:
                end_error = abs(guess["end_tick"] - label["end_tick"])
                if end_error <= TOLERANCE_FRAMES:
                    candidates.append((abs(start_error) + end_error, h, p))
    return one_to_one(candidates)


def temporal(predicted: list[Segment], human: list[Segment]) -> list[tuple[int, int]]:
    """Each human in order takes the best unused predicted with IoU >= 1/2."""
    used, taken = set(), []
    for h, label in enumerate(human):
        best, best_iou = -1, 0.0
        for p, guess in enumerate(predicted):
            if p in used:
                continue
            shared = overlap(label, guess)
            total = union(label, guess, shared)
            if 2 * shared >= total and shared / total > best_iou:
                best, best_iou = p, shared / total
        if best >= 0:
            used.add(best)
            taken.append((best, h))
    return taken


def snapped(predicted: list[Segment], human: list[Segment]) -> list[Segment]:
    """A copy whose first start and last end are the human ones."""
    copy = [dict(segment) for segment in predicted]
    if copy and human:
        last = max(copy, key=lambda segment: segment["end"])
        copy[0]["start"] = human[0]["start"]
        last["end"] = max(segment["end"] for segment in human)
    return copy


def seg(predicted: list[Segment], human: list[Segment]) -> list[tuple[int, int]]:
    """The most pairs with IoU >= 3/4, by augmenting paths; each human tries its best predicted first."""
    predicted = snapped(predicted, human)
    hits = []
    for label in human:
        found = []
        for p, guess in enumerate(predicted):
            shared = overlap(label, guess)
            if shared > 0:
                total = union(label, guess, shared)
                if 4 * shared >= 3 * total:
                    found.append((-shared / total, p))
        hits.append([p for _, p in sorted(found)])

    owner: dict[int, int] = {}

    def place(h: int, tried: set[int]) -> bool:
        for p in hits[h]:
            if p not in tried:
                tried.add(p)
                if p not in owner or place(owner[p], tried):
                    owner[p] = h
                    return True
        return False

    for h in range(len(human)):
        place(h, set())
    return list(owner.items())


def score_clip(predicted_segments: list[Segment], human_segments: list[Segment]) -> dict[str, Any]:
    """Counts, matches by metric, and the overlapping pairs as (predicted, human, microseconds)."""
    predicted, human = prepare(predicted_segments), prepare(human_segments)
    pairs = overlapping(predicted, human)
    found = {
        "pa": one_to_one(pairs),
        "boundary": boundary(predicted, human),
        "temporal": temporal(predicted, human),
        "seg": seg(predicted, human),
    }
    return {
        "x": len(predicted),
        "y": len(human),
        "assigned": len(found["pa"]),
        "b": len(found["boundary"]),
        "k": len(found["temporal"]),
        "t": len(found["seg"]),
        "matches": {
            metric: [(predicted[p]["position"], human[h]["position"]) for p, h in taken]
            for metric, taken in found.items()
        },
        "pairs": [(predicted[p]["position"], human[h]["position"], -minus) for minus, h, p in pairs],
    }


def score_folder(root: Path) -> list[dict[str, Any]]:
    """The counts of each clip of each prediction file."""
    rows = []
    for labels_file in sorted(root.glob("data/*/labels.jsonl")):
        name = labels_file.parent.name
        human = {clip["clip_id"]: clip["segments"] for clip in map(json.loads, labels_file.open(encoding="utf-8"))}
        for file in sorted((root / "predictions" / name).glob("*.jsonl")):
            for clip in map(json.loads, file.open(encoding="utf-8")):
                scores = score_clip(clip["segments"], human[clip["clip_id"]])
                counts = {key: scores[key] for key in ("x", "y", "assigned", "b", "k", "t")}
                rows.append({"run": file.stem, "set": name, "clip_id": clip["clip_id"], **counts})
    return rows


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(json.dumps(score_folder(Path(sys.argv[1]))), encoding="utf-8")
