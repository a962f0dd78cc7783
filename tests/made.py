"""Made-up runs of realistic shape, small, for tests that need more than the sample: seeded tables of segments."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl

SETS = {"first_7": 7, "second_5": 5}
RUNS = ("a_seed1", "a_seed2", "b")


def segments(run: str | None, seed: int, clips: dict[str, int]) -> pl.DataFrame:
    """The `segments` of one run (None: the humans): overlaps, idle and flagged ones, times on a 0.1 s grid."""
    frames = []
    for set_name, count in clips.items():
        for number in range(count):
            rng = np.random.default_rng([seed, number, len(set_name)])
            size = int(rng.integers(8, 20))
            cuts = np.round(np.cumsum(rng.integers(4, 90, size)) / 10, 1)
            start = np.concatenate([[0.0], cuts[:-1]])
            start = np.where(rng.random(size) < 0.1, np.maximum(start - 0.5, 0), start)
            clip_id = f"{set_name}-{number:03d}"
            frames.append(
                pl.DataFrame(
                    {
                        "set": set_name,
                        "clip_id": clip_id,
                        "segment": np.arange(size, dtype=np.int32),
                        "start_s": start,
                        "end_s": cuts,
                        "label": "hold the tray",
                        "is_idle": rng.random(size) < 0.1,
                        "flagged": (rng.random(size) < 0.1) & (run is None),
                    }
                ).with_columns(pl.lit(run, dtype=pl.String).alias("run"))
            )
    return pl.concat(frames)


def tables(clips: dict[str, int] = SETS) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Human and predicted segments, sorted by run, set and clip."""
    predicted = [segments(run, 100 + i, clips) for i, run in enumerate(RUNS)]
    return segments(None, 1, clips), pl.concat(predicted)


def shuffled(frame: pl.DataFrame, seed: int = 3) -> pl.DataFrame:
    return frame.sample(fraction=1.0, shuffle=True, seed=seed)


def write_dataset(root: Path, human: pl.DataFrame, predicted: pl.DataFrame, seed: int | None = None) -> None:
    """A dataset folder; with ``seed`` the lines of its files stand in another order."""
    rng = np.random.default_rng(seed)
    for (run, set_name), rows in pl.concat([human, predicted]).group_by(["run", "set"], maintain_order=True):
        lines = [
            {"clip_id": clip_id, "segments": clip.select("start_s", "end_s", "label", "is_idle", "flagged").to_dicts()}
            for (clip_id,), clip in rows.group_by(["clip_id"], maintain_order=True)
        ]
        if seed is not None:
            lines = [lines[i] for i in rng.permutation(len(lines))]
        name = Path("data", set_name, "labels") if run is None else Path("predictions", set_name, run)
        path = (root / name).with_suffix(".jsonl")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
