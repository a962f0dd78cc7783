"""Made-up timelines of realistic shape, seeded: the same call gives the same bytes.

Humans cut a clip into about 15 contiguous segments on a 0.1 s grid, 4.5 s long on average and never over 10 s. A run
sees the same cuts displaced by noise, loses some (merges) and adds some (splits); its configuration says how many.

    python tests/benches/corpus.py bulk DIR            25 configurations x 5 seeds x 89 clips, as parquet and as JSONL
    python tests/benches/corpus.py released DIR        one run on 45 clips, as JSONL
    python tests/benches/corpus.py large DIR --segments 10000000

Each prints the folder that it wrote, or found already written by the same generator, and what lies there.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

SETS = {"operator_disjoint_59": 59, "session_disjoint_30": 30}
SEEDS = (1, 11, 21, 31, 41)
ROW_GROUP = 250_000
CLIPS_PER_CHUNK = 50_000
LONGEST = 100  # tenths of a second
_SPAN = 1 << 20  # more tenths than any clip has: a cut's sort key is timeline * _SPAN + time

_VERBS = ["pick up", "put down", "hold", "wipe", "carve", "turn", "fold", "press", "pour from", "fasten", "cut"]
_THINGS = ["wooden piece", "spatula", "cloth", "screw", "bottle", "cardboard box", "lid", "cable", "tray", "brush"]
_HANDS = {"left": "with the left hand", "right": "with the right hand", "both": "with both hands"}
LABELS = [f"{verb} the {thing} {_HANDS[hand]}" for verb, thing, hand in itertools.product(_VERBS, _THINGS, _HANDS)]
LABEL_HANDS = list(_HANDS) * (len(LABELS) // len(_HANDS))


@dataclass(frozen=True, slots=True)
class Segments:
    """Segments sorted by timeline and start: times in tenths of a second, ``label`` an index of LABELS."""

    timeline: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    label: NDArray[np.int64]
    is_idle: NDArray[np.bool_]
    flagged: NDArray[np.bool_]

    @property
    def offsets(self) -> NDArray[np.int64]:
        """First segment of each timeline, then the number of segments."""
        return np.searchsorted(self.timeline, np.arange(self.timeline[-1] + 2))


@dataclass(frozen=True, slots=True)
class Quality:
    """Per run: the displacement of a cut (standard deviation, tenths of a second) and the shares lost and added."""

    noise: NDArray[np.float64]
    merged: NDArray[np.float64]
    split: NDArray[np.float64]


def qualities(configurations: int, seeds: int) -> Quality:
    """From fine to coarse; the number of segments a clip goes up and down independently of it."""
    rank = np.linspace(0, 1, configurations)
    wave = np.sin(np.arange(configurations) * 2.4)
    per_run = [6.5 + 4 * rank, 0.25 + 0.06 * rank - 0.1 * wave, 0.13 + 0.05 * rank + 0.12 * wave]
    return Quality(*(np.repeat(values, seeds) for values in per_run))


def human_timelines(rng: np.random.Generator, clips: int) -> Segments:
    per_clip = 6 + rng.poisson(9, clips)
    clip = np.repeat(np.arange(clips), per_clip)
    total = len(clip)
    length = np.clip(rng.gamma(3, 15.6, total), 5, LONGEST).astype(np.int64)
    end = np.cumsum(length)
    end -= np.repeat(end[np.cumsum(per_clip) - per_clip] - length[np.cumsum(per_clip) - per_clip], per_clip)
    return Segments(
        clip,
        end - length,
        end,
        rng.integers(len(LABELS), size=total),
        rng.random(total) < 0.01,
        rng.random(total) < 0.003,
    )


def predicted_timelines(rng: np.random.Generator, human: Segments, quality: Quality) -> Segments:
    """One timeline for each run and clip, in this order, numbered ``run * clips + clip``."""
    runs = len(quality.noise)
    offsets = human.offsets
    clips, per_run = len(offsets) - 1, len(human.timeline)
    run = np.repeat(np.arange(runs), per_run)
    timeline = run * clips + np.tile(human.timeline, runs)
    start, end = np.tile(human.start, runs), np.tile(human.end, runs)
    duration = human.end[offsets[1:] - 1]
    is_last = np.tile(human.end == duration[human.timeline], runs)

    displaced = end + np.rint(rng.normal(0, quality.noise[run])).astype(np.int64)
    displaced = np.where(is_last, np.clip(displaced, end - 5, end), displaced)
    kept = is_last | (rng.random(len(run)) >= quality.merged[run])
    extra = rng.random(len(run)) < quality.split[run]
    inside = start + (rng.random(len(run)) * (end - start)).astype(np.int64)
    first = np.clip(np.rint(rng.normal(0, 2, runs * clips)), 0, 5).astype(np.int64)

    owner = np.concatenate([timeline[kept], timeline[extra], np.arange(runs * clips)])
    time = np.concatenate([displaced[kept], inside[extra], first])
    outer = first[owner], np.tile(duration, runs)[owner]
    cuts = _no_longer_than(LONGEST, np.unique(owner * _SPAN + np.clip(time, *outer)))
    owner, time = np.divmod(cuts, _SPAN)
    whole = owner[1:] == owner[:-1]
    owner, start, end = owner[:-1][whole], time[:-1][whole], time[1:][whole]

    seen = np.searchsorted(human.timeline * _SPAN + human.start, owner % clips * _SPAN + start, side="right") - 1
    right = rng.random(len(owner)) < 0.6
    label = np.where(right, human.label[seen], rng.integers(len(LABELS), size=len(owner)))
    return Segments(owner, start, end, label, rng.random(len(owner)) < 0.01, np.zeros(len(owner), dtype=bool))


def _no_longer_than(longest: int, cuts: NDArray[np.int64]) -> NDArray[np.int64]:
    """``cuts`` (sorted keys) with every longer piece cut in half, as often as it takes."""
    while True:
        length = np.diff(cuts)
        halved = (length > longest) & (cuts[1:] // _SPAN == cuts[:-1] // _SPAN)
        if not halved.any():
            return cuts
        cuts = np.sort(np.concatenate([cuts, cuts[:-1][halved] + length[halved] // 2]))


@dataclass(frozen=True, slots=True)
class Clips:
    ids: list[str]
    sets: list[str]
    duration: NDArray[np.int64]
    """In tenths of a second."""

    @classmethod
    def of(cls, human: Segments, sets: Iterable[str], first: int = 0) -> Clips:
        duration = human.end[human.offsets[1:] - 1]
        return cls([f"clip-{first + i:08d}" for i in range(len(duration))], list(sets), duration)

    def table(self) -> pa.Table:
        count = len(self.ids)
        nothing = pa.nulls(count, pa.string())
        return pa.table(
            {
                "set": _coded(np.arange(count), self.sets),
                "clip_id": pa.array(self.ids),
                "duration_s": self.duration / 10,
                "num_frames": self.duration * 3,
                "source_fps": np.full(count, 30.0),
                "caption": nothing,
                "instruction": nothing,
            }
        )


def segments_table(segments: Segments, clips: Clips, runs: list[str] | None = None) -> pa.Table:
    """The columns of the table ``segments``; without ``runs`` these are human timelines."""
    run, clip = np.divmod(segments.timeline, len(clips.ids))
    start_s, end_s = segments.start / 10, segments.end / 10
    total = len(run)
    hands = pa.nulls(total, pa.string()) if runs else _coded(segments.label, LABEL_HANDS)
    return pa.table(
        {
            "run": _coded(run, runs) if runs else pa.nulls(total, pa.string()),
            "set": _coded(clip, clips.sets),
            "clip_id": _coded(clip, clips.ids),
            "segment": (np.arange(total) - segments.offsets[segments.timeline]).astype(np.int32),
            "start_s": start_s,
            "end_s": end_s,
            "start_tick": np.rint(start_s * 30).astype(np.int64),
            "end_tick": np.rint(end_s * 30).astype(np.int64),
            "label": _coded(segments.label, LABELS),
            "is_idle": segments.is_idle,
            "hands": hands,
            "flagged": segments.flagged,
        }
    )


def _coded(codes: NDArray[np.int64], values: list[str]) -> pa.DictionaryArray:
    """``values[code]`` for each code; equal values share one entry."""
    entries, index = np.unique(np.array(values), return_inverse=True)
    return pa.DictionaryArray.from_arrays(index[codes].astype(np.int32), pa.array(entries.tolist(), pa.string()))


class Writer:
    """A parquet file that grows by tables. Dictionary arrays are stored, and read back, as plain strings."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._writer = pq.ParquetWriter(path, schema, compression="zstd", store_schema=False)

    def write(self, table: pa.Table) -> None:
        self._writer.write_table(table, row_group_size=ROW_GROUP)

    def close(self) -> None:
        self._writer.close()


@dataclass(frozen=True, slots=True)
class Corpus:
    clips: Clips
    runs: list[str]
    human: Segments
    predicted: Segments

    @classmethod
    def make(
        cls, configurations: int = 25, seeds: tuple[int, ...] = SEEDS, sets: dict[str, int] | None = None
    ) -> Corpus:
        sets = sets or SETS
        rng = np.random.default_rng(7)
        human = human_timelines(rng, sum(sets.values()))
        predicted = predicted_timelines(rng, human, qualities(configurations, len(seeds)))
        clips = Clips.of(human, itertools.chain.from_iterable([name] * count for name, count in sets.items()))
        runs = [f"model{number:02d}_seed{seed}" for number in range(configurations) for seed in seeds]
        return cls(clips, runs, human, predicted)

    def summary(self) -> dict[str, int]:
        clips, runs = len(self.clips.ids), len(self.runs)
        return {
            "runs": runs,
            "clips": clips,
            "timelines": runs * clips,
            "human_segments": len(self.human.timeline),
            "predicted_segments": len(self.predicted.timeline),
        }

    def write_parquet(self, folder: Path) -> None:
        """``labels.parquet``, ``predictions.parquet`` and ``clips.parquet``."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, table in (
            ("clips", self.clips.table()),
            ("labels", segments_table(self.human, self.clips)),
            ("predictions", segments_table(self.predicted, self.clips, self.runs)),
        ):
            writer = Writer(folder / f"{name}.parquet", table.schema)
            writer.write(table)
            writer.close()

    def write_jsonl(self, folder: Path) -> None:
        """A dataset folder: ``data/<set>/labels.jsonl`` and ``predictions/<set>/<run>.jsonl``."""
        ids, sets = self.clips.ids, self.clips.sets
        timelines = _timelines(self.human, with_hands=True)
        labels: dict[str, list[Any]] = {name: [] for name in sets}
        for clip, (clip_id, name, tenths) in enumerate(zip(ids, sets, self.clips.duration.tolist(), strict=True)):
            about = {"clip_id": clip_id, "num_frames": tenths * 3, "source_fps": 30, "duration_s": tenths / 10}
            caption = {"task_summary": {"caption": "The person works at a table."}}
            labels[name].append({**about, **caption, "segments": timelines[clip]})
        for name, rows in labels.items():
            _write_lines(folder / "data" / name / "labels.jsonl", rows)

        timelines = _timelines(self.predicted, with_hands=False)
        for number, run in enumerate(self.runs):
            predictions: dict[str, list[Any]] = {name: [] for name in sets}
            for clip, (clip_id, name) in enumerate(zip(ids, sets, strict=True)):
                predictions[name].append({"clip_id": clip_id, "segments": timelines[number * len(ids) + clip]})
            for name, rows in predictions.items():
                _write_lines(folder / "predictions" / name / f"{run}.jsonl", rows)


def _timelines(segments: Segments, *, with_hands: bool) -> list[list[dict[str, Any]]]:
    columns = {
        "start_s": (segments.start / 10).tolist(),
        "end_s": (segments.end / 10).tolist(),
        "label": [LABELS[code] for code in segments.label.tolist()],
        "is_idle": segments.is_idle.tolist(),
    }
    if with_hands:
        columns["hands"] = [LABEL_HANDS[code] for code in segments.label.tolist()]
        columns["flagged"] = segments.flagged.tolist()
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    return [rows[low:high] for low, high in itertools.pairwise(segments.offsets.tolist())]


def _write_lines(path: Path, rows: list[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.Encoder().encode_lines(rows))


def write_large(folder: Path, segments: int) -> dict[str, int]:
    """One run over as many clips as give about ``segments`` predicted segments, written chunk by chunk."""
    folder.mkdir(parents=True, exist_ok=True)
    clips = round(segments / 14.5)
    writers: dict[str, Writer] = {}
    summary = {"runs": 1, "clips": clips, "timelines": clips, "human_segments": 0, "predicted_segments": 0}
    for first in range(0, clips, CLIPS_PER_CHUNK):
        rng = np.random.default_rng([7, first])
        human = human_timelines(rng, min(CLIPS_PER_CHUNK, clips - first))
        predicted = predicted_timelines(rng, human, qualities(1, 1))
        chunk = Clips.of(human, itertools.repeat("large", int(human.timeline[-1]) + 1), first)
        tables = {
            "clips": chunk.table(),
            "labels": segments_table(human, chunk),
            "predictions": segments_table(predicted, chunk, ["model00_seed1"]),
        }
        for name, table in tables.items():
            if name not in writers:
                writers[name] = Writer(folder / f"{name}.parquet", table.schema)
            writers[name].write(table)
        summary["human_segments"] += len(human.timeline)
        summary["predicted_segments"] += len(predicted.timeline)
    for writer in writers.values():
        writer.close()
    return summary


def cached(folder: Path, write: Callable[[Path], dict[str, int]]) -> dict[str, Any]:
    """What lies in ``folder``; written first if this version of the generator has not yet."""
    version = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:12]
    note = folder / "corpus.json"
    if not note.exists() or json.loads(note.read_text())["generator"] != version:
        shutil.rmtree(folder, ignore_errors=True)
        summary = write(folder)
        note.write_text(json.dumps({"generator": version, **summary}))
    return {"folder": str(folder), **json.loads(note.read_text())}


def write_bulk(folder: Path) -> dict[str, int]:
    corpus = Corpus.make()
    corpus.write_parquet(folder)
    corpus.write_jsonl(folder)
    return corpus.summary()


def write_released(folder: Path) -> dict[str, int]:
    corpus = Corpus.make(1, (1,), {"released_45": 45})
    corpus.write_jsonl(folder)
    return corpus.summary()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=["bulk", "released", "large"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--segments", type=int, default=10_000_000)
    arguments = parser.parse_args()
    if arguments.kind == "large":
        name = f"large-{arguments.segments}"
        print(json.dumps(cached(arguments.folder / name, lambda folder: write_large(folder, arguments.segments))))
    else:
        write = write_bulk if arguments.kind == "bulk" else write_released
        print(json.dumps(cached(arguments.folder / arguments.kind, write)))


if __name__ == "__main__":
    main()
