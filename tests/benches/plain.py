"""The plain way: the label-free metrics as a benchmark's author writes them, with lists of dicts and Python loops.

    python tests/benches/plain.py ROOT OUT.json [--intervals]

scores every prediction file of a dataset folder with nothing but the standard library: each clip, each run on each set
and over all sets; with --intervals, a bootstrap over clips too. The rules are those of MicroAnnotationBench; human
segments of a clip must not overlap each other (as the benchmark's do not).
"""

from __future__ import annotations

import json
import random
import statistics
import sys
from pathlib import Path
from typing import Any

Segment = dict[str, Any]
Match = tuple[int, int]
"""(predicted, human), as positions in the file's clip."""

TOLERANCE_FRAMES = 20
METRICS = ("boundary_f1", "temporal_f1", "seg_f1")
RESAMPLES = 2_000
"""Of clips, for an interval: as many as ours."""


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


def f1(matches: int, segments: int) -> float | None:
    """In percent; None where there is nothing to match."""
    return 100 * 2 * matches / segments if segments else None


def mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def score_folder(root: Path) -> list[dict[str, Any]]:
    """The counts and scores of each clip of each prediction file."""
    rows = []
    for labels_file in sorted(root.glob("data/*/labels.jsonl")):
        name = labels_file.parent.name
        human = {clip["clip_id"]: clip["segments"] for clip in map(json.loads, labels_file.open(encoding="utf-8"))}
        for file in sorted((root / "predictions" / name).glob("*.jsonl")):
            for clip in map(json.loads, file.open(encoding="utf-8")):
                scores = score_clip(clip["segments"], human[clip["clip_id"]])
                rows.append(clip_row(file.stem, name, clip["clip_id"], scores))
    return rows


def clip_row(run: str, name: str, clip_id: str, scores: dict[str, Any]) -> dict[str, Any]:
    row = {"run": run, "set": name, "clip_id": clip_id}
    row |= {key: scores[key] for key in ("x", "y", "assigned", "b", "k", "t")}
    row["boundary_f1"] = f1(row["b"], row["x"] + row["y"])
    row["temporal_f1"] = f1(row["k"], row["x"] + row["y"])
    return row


def score_set(clips: list[dict[str, Any]]) -> dict[str, float | None]:
    """Of one run: Boundary and Temporal F1 are means over clips, the counts of Seg F1 are pooled."""
    return {
        "boundary_f1": mean([clip["boundary_f1"] for clip in clips]),
        "temporal_f1": mean([clip["temporal_f1"] for clip in clips]),
        "seg_f1": f1(sum(clip["t"] for clip in clips), sum(clip["x"] + clip["y"] for clip in clips)),
    }


def weigh(scores: list[dict[str, float | None]], clips: list[int]) -> dict[str, float | None]:
    """The scores of several sets, weighted by their numbers of clips."""
    weighed: dict[str, float | None] = {}
    for metric in METRICS:
        known = [(n, score[metric]) for n, score in zip(clips, scores, strict=True) if score[metric] is not None]
        weighed[metric] = sum(n * value for n, value in known) / sum(n for n, _ in known) if known else None
    return weighed


def by_run_and_set(rows: list[dict[str, Any]]) -> dict[str, dict[str, list[dict[str, Any]]]]:
    runs: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for row in rows:
        runs.setdefault(row["run"], {}).setdefault(row["set"], []).append(row)
    return runs


def score_sets(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The scores of each run on each set and (set None) over all of them."""
    scores = []
    for run, sets in by_run_and_set(rows).items():
        of_sets = {name: score_set(clips) for name, clips in sets.items()}
        of_sets |= {None: weigh(list(of_sets.values()), [len(clips) for clips in sets.values()])}
        scores += [{"run": run, "set": name, **of_set} for name, of_set in of_sets.items()]
    return scores


def intervals(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """95% intervals of each configuration (the mean over its seeds) on each set and (set None) over all of them.

    Every run of a set is scored on the same resamples of its clips.
    """
    runs = by_run_and_set(rows)
    for sets in runs.values():
        for clips in sets.values():
            clips.sort(key=lambda clip: clip["clip_id"])
    sizes = {name: len(clips) for sets in runs.values() for name, clips in sets.items()}
    draws = {name: [random.choices(range(n), k=n) for _ in range(RESAMPLES)] for name, n in sizes.items()}

    configurations: dict[str, dict[str | None, list[list[dict[str, float | None]]]]] = {}
    for run, sets in runs.items():
        found = configurations.setdefault(run.rpartition("_seed")[0], {})
        drawn = {name: [score_set([clips[i] for i in draw]) for draw in draws[name]] for name, clips in sets.items()}
        for name, scores in drawn.items():
            found.setdefault(name, []).append(scores)
        weights = [sizes[name] for name in drawn]
        found.setdefault(None, []).append(
            [weigh(list(scores), weights) for scores in zip(*drawn.values(), strict=True)]
        )

    bounds = []
    for configuration, of_sets in configurations.items():
        for name, seeds in of_sets.items():
            row: dict[str, Any] = {"configuration": configuration, "set": name}
            for metric in METRICS:
                means = [mean([scores[metric] for scores in resample]) for resample in zip(*seeds, strict=True)]
                cuts = statistics.quantiles([m for m in means if m is not None], n=40, method="inclusive")
                row[f"{metric}_low"], row[f"{metric}_high"] = cuts[0], cuts[-1]
            bounds.append(row)
    return bounds


def main() -> None:
    clips = score_folder(Path(sys.argv[1]))
    written = {"clips": clips, "sets": score_sets(clips)}
    if "--intervals" in sys.argv:
        written["intervals"] = intervals(clips)
    Path(sys.argv[2]).write_text(json.dumps(written), encoding="utf-8")


if __name__ == "__main__":
    main()
