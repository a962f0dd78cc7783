"""Scores `segments` tables of any size from parquet to a result folder, clip range by clip range.

Neither table is ever held whole: a part is the clips between two clip ids, and only the row groups that can hold them
are read. Fastest where the files are sorted by clip; right in any order.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl

import mabpl
from mabpl import engine, timelines
from mabpl.benchmarks.micro_annotation.results import digest
from mabpl.benchmarks.micro_annotation.scoring import clip_cells, runs_table
from mabpl.errors import UsageError, unreadable
from mabpl.metrics import matches, summary
from mabpl.settings import Settings
from mabpl.tables import files, schemas, segments
from mabpl.tables import folder as folders

if TYPE_CHECKING:
    import pyarrow as pa

SEGMENTS_PER_PART = 1_250_000
PARTS_AT_ONCE = 2
"""The more, the more memory; much of a part's work, writing above all, fills one thread only."""
SAMPLE = 100_000
"""Clips, at the most, among which the bounds of the parts are chosen."""

UNIT = ["run", "set"]


def score_parquet(
    labels: str | Path,
    predictions: str | Path,
    out: str | Path,
    *,
    settings: Settings | None = None,
    clips_per_part: int | None = None,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Path:
    """:func:`mabpl.score` of two parquet files (or folders of them), written to the result folder ``out``.

    The folder holds `clips`, `runs`, `matches`, `clip_scores` and `set_scores`; an earlier result there is replaced
    when the new one is complete. ``clips_per_part`` bounds the memory (default: parts of about 1.25 million
    segments); ``progress`` is called with the number of parts that are done and of all. Returns ``out``.

    Raises :class:`InputError` for what cannot be read or written and :class:`UsageError` for missing columns, or for
    missing timelines under ``settings.missing = refuse``.
    """
    import pyarrow  # noqa: F401  (what builds the timelines compares strings through it, where it is there)

    settings, out = settings or Settings(), Path(out)
    folders.check_writable(out)
    human, predicted = _scan(labels, ()), _scan(predictions, ("run",))
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        beside = tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent)
    except OSError as error:
        raise unreadable(out, f"cannot be written ({error.strerror or error})") from None
    threads = threads or engine.default_threads()
    workers = min(threads, PARTS_AT_ONCE)
    with beside as temporary:
        units = predicted.select(UNIT).unique().collect().sort(UNIT) if settings.missing == "empty" else None
        job = _Job(Path(temporary) / "new", settings, max(threads // workers, 1), units)
        job.folder.mkdir()
        bounds = _bounds(human, predicted, clips_per_part)

        def score(part: int) -> _Part:
            low, high = bounds[part : part + 2]
            return job.score(part, _between(human, low, high, labels), _between(predicted, low, high, predictions))

        parts = []
        with ThreadPoolExecutor(workers) as pool:
            for part in pool.map(score, range(len(bounds) - 1)):
                parts.append(part)
                if progress:
                    progress(len(parts), len(bounds) - 1)
        job.finish(parts, [Path(labels).name, Path(predictions).name])
        folders.put_in_place(job.folder, out)
    return out


class _Part(NamedTuple):
    """What is kept of a part that is done: sums per run and set, clips per set, timelines per run and set."""

    sums: summary.Cells
    clips: pl.DataFrame
    have: pl.DataFrame


@dataclass(frozen=True, slots=True)
class _Job:
    """``units``: the runs and sets, where all of a clip's timelines are wanted; ``threads``: those of a part."""

    folder: Path
    settings: Settings
    threads: int
    units: pl.DataFrame | None = None

    def score(self, part: int, human: pl.DataFrame, predicted: pl.DataFrame) -> _Part:
        lines = timelines.build(None, human, None, predicted)
        clips = lines.human.key
        have = lines.predicted.key.group_by(UNIT).len("have")
        if self.units is not None:
            lines = timelines.build(None, human, self.units.join(clips, on="set"), predicted)
        matched = matches.match(lines, self.settings, threads=self.threads)
        cells = clip_cells(matched)
        for name, frame in (
            ("clips", schemas.CLIPS.conform(clips)),
            ("clip_scores", schemas.CLIP_SCORES.conform(cells.table())),
        ):
            for set_name, rows in _by_set(frame):
                folders.write_parquet(folders.partition(self.folder, name, set_name, part), rows, name)
        for set_name, table in _match_tables(matched):
            folders.write_coded(folders.partition(self.folder, "matches", set_name, part), table, "matches")
        return _Part(summary.unit_sums(cells, UNIT, lines.units), clips.group_by("set").len("clips"), have)

    def finish(self, parts: list[_Part], inputs: list[str]) -> None:
        missing = _missing(parts)
        if missing and self.settings.missing == "refuse":
            raise UsageError(f"{missing} timelines are missing", "settings.missing = empty or skip scores the others")
        sets = summary.finish(summary.add_sums([part.sums for part in parts], UNIT))
        tables = {"set_scores": summary.set_scores(sets), "runs": runs_table(sets.key)}
        for name, frame in tables.items():
            folders.write_parquet(self.folder / f"{name}.parquet", frame, name)
        manifest = {
            "schema_version": schemas.SCHEMA_VERSION,
            "tables": sorted([*tables, "clips", "clip_scores", "matches"]),
            "mabpl": mabpl.__version__,
            "partial": bool(missing),
            "settings": self.settings.as_dict(),
            "inputs": [{"file": name} for name in inputs],
        }
        files.write_json(self.folder / folders.MANIFEST, {**manifest, "digest": digest(manifest)})


def _by_set(frame: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    if frame["set"].n_unique() == 1:
        yield frame["set"][0], frame
        return
    for (name,), rows in frame.group_by(["set"], maintain_order=True):
        yield str(name), rows


def _missing(parts: list[_Part]) -> int:
    """How many timelines the runs lack, over the sets that they have any of."""
    clips = pl.concat([part.clips for part in parts]).group_by("set").agg(pl.col("clips").cast(pl.Int64).sum())
    have = pl.concat([part.have for part in parts]).group_by(UNIT).agg(pl.col("have").cast(pl.Int64).sum())
    both = have.join(clips, on="set")
    return int((both["clips"] - both["have"]).sum())


def _match_tables(matched: matches.Matched) -> Iterator[tuple[str, pa.Table]]:
    """The `matches` of each set, with names as codes: they are the most rows by far, and mostly the same few names."""
    import pyarrow as pa

    timeline, family, predicted, human = matched.rows()
    lines = matched.timelines

    def coded(codes: np.typing.NDArray[Any], names: pl.Series) -> pa.DictionaryArray:
        return pa.DictionaryArray.from_arrays(codes, names.to_arrow().cast(pa.string()), safe=False)

    runs = timelines.stretches(lines.predicted.key, ["run"])
    run_of = (np.searchsorted(runs, np.arange(len(lines.clip)), side="right") - 1).astype(np.int32)
    sets = timelines.stretches(lines.human.key, ["set"])
    set_of = (np.searchsorted(sets, lines.clip, side="right") - 1).astype(np.int32)
    columns = {
        "run": coded(run_of.take(timeline), lines.predicted.key["run"][runs]),
        "set": coded(set_of.take(timeline), lines.human.key["set"][sets]),
        "clip_id": coded(lines.clip.astype(np.int32).take(timeline), lines.human.key["clip_id"]),
        "metric": coded(family, pl.Series(sorted(matched.rank))),
        "predicted": pa.array(predicted),
        "human": pa.array(human),
        "request": pa.nulls(len(timeline), pa.string()),
    }
    # What is never null is quicker to write when that is known.
    fields = [pa.field(c.name, columns[c.name].type, nullable=c.nullable) for c in schemas.MATCHES.columns]
    table = pa.table([columns[c.name] for c in schemas.MATCHES.columns], schema=pa.schema(fields))
    for code, name in enumerate(lines.human.key["set"][sets]):
        yield name, table if len(sets) == 1 else table.filter(pa.array(set_of[timeline] == code))


def _scan(source: str | Path, further: tuple[str, ...]) -> pl.LazyFrame:
    """The columns of a `segments` table that scoring needs."""
    try:
        frame = pl.scan_parquet(source)
        have = frame.collect_schema().names()
    except (OSError, pl.exceptions.PolarsError) as error:
        raise unreadable(source, f"cannot be read as parquet ({error})") from None
    segments.require_columns(have, str(source), (*further, *segments.NEEDED))
    return frame.select([c for c in (*segments.WHERE_GIVEN, *segments.NEEDED) if c in have])


def _between(frame: pl.LazyFrame, low: str | None, high: str | None, source: str | Path) -> pl.DataFrame:
    """The rows of the clips from ``low`` to before ``high``; None is no bound."""
    clip = pl.col("clip_id")
    bounds = ([] if low is None else [clip >= low]) + ([] if high is None else [clip < high])
    return segments.checked((frame.filter(*bounds) if bounds else frame).collect().rechunk(), str(source))


def _bounds(human: pl.LazyFrame, predicted: pl.LazyFrame, clips_per_part: int | None) -> list[str | None]:
    """The clip ids between which the parts lie.

    They are chosen among clips that a hash picks, so that the choice is the same for any order of the rows.
    """
    sizes = [int(frame.select(pl.len()).collect().item()) for frame in (human, predicted)]
    one_in = max(sizes[0] // (10 * SAMPLE), 1)
    if clips_per_part is None and sum(sizes) <= SEGMENTS_PER_PART:
        return [None, None]
    picked = pl.col("clip_id").hash(7) % one_in == 0
    ids = human.select("clip_id").filter(picked).unique().collect().to_series().sort()
    wanted = sum(sizes) / SEGMENTS_PER_PART if clips_per_part is None else len(ids) * one_in / clips_per_part
    parts = min(max(-int(-wanted // 1), 1), max(len(ids), 1))
    return [None, *(ids[len(ids) * i // parts] for i in range(1, parts)), None]
