"""Scores `segments` tables of any size from parquet to a result folder, clip range by clip range.

Neither table is ever held whole: a part is the clips between two clip ids, and only the row groups that can hold them
are read. Fastest where the files are sorted by clip; right in any order.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

import mabpl
from mabpl import timelines
from mabpl.benchmarks.micro_annotation.results import digest
from mabpl.benchmarks.micro_annotation.scoring import clip_scores, runs_table
from mabpl.errors import UsageError, unreadable
from mabpl.metrics import matches, summary
from mabpl.settings import Settings
from mabpl.tables import files, schemas, segments
from mabpl.tables import folder as folders

SEGMENTS_PER_PART = 3_000_000
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
    when the new one is complete. ``clips_per_part`` bounds the memory (default: parts of about three million
    segments); ``progress`` is called with the number of parts that are done and of all. Returns ``out``.

    Raises :class:`InputError` for what cannot be read or written and :class:`UsageError` for missing columns, or for
    missing timelines under ``settings.missing = refuse``.
    """
    settings, out = settings or Settings(), Path(out)
    folders.check_writable(out)
    human, predicted = _scan(labels, ()), _scan(predictions, ("run",))
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        beside = tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent)
    except OSError as error:
        raise unreadable(out, f"cannot be written ({error.strerror or error})") from None
    with beside as temporary:
        job = _Job(Path(temporary) / "new", settings, threads)
        job.folder.mkdir()
        if settings.missing == "empty":
            job.units = predicted.select(UNIT).unique().collect().sort(UNIT)
        bounds = _bounds(human, predicted, clips_per_part)
        for part, (low, high) in enumerate(itertools.pairwise(bounds)):
            job.score(part, _between(human, low, high, labels), _between(predicted, low, high, predictions))
            if progress:
                progress(part + 1, len(bounds) - 1)
        job.finish([Path(labels).name, Path(predictions).name])
        folders.put_in_place(job.folder, out)
    return out


@dataclass(slots=True)
class _Job:
    """What is kept of the parts that are done: sums per run and set, clips per set, timelines per run and set."""

    folder: Path
    settings: Settings
    threads: int | None
    units: pl.DataFrame | None = None
    sums: list[pl.DataFrame] = field(default_factory=list)
    clips: list[pl.DataFrame] = field(default_factory=list)
    have: list[pl.DataFrame] = field(default_factory=list)

    def score(self, part: int, human: pl.DataFrame, predicted: pl.DataFrame) -> None:
        clips = human.select(timelines.CLIP_KEY).unique().sort(timelines.CLIP_KEY)
        lines = timelines.build(clips, human, None, predicted)
        self.clips.append(clips.group_by("set").len("clips"))
        self.have.append(lines.predicted.key.group_by(UNIT).len("have"))
        if self.units is not None:
            lines = timelines.build(clips, human, self.units.join(clips, on="set"), predicted)
        matched = matches.match(lines, self.settings, threads=self.threads)
        scores = clip_scores(matched)
        self.sums.append(summary.unit_sums(scores, UNIT))
        tables = {"clips": schemas.CLIPS.conform(clips), "clip_scores": scores, "matches": matched.table()}
        for name, frame in tables.items():
            for (set_name,), rows in frame.group_by(["set"], maintain_order=True):
                folders.write_parquet(folders.partition(self.folder, name, str(set_name), part), rows, name)

    def finish(self, inputs: list[str]) -> None:
        missing = self._missing()
        if missing and self.settings.missing == "refuse":
            raise UsageError(f"{missing} timelines are missing", "settings.missing = empty or skip scores the others")
        sets = summary.finish(summary.add_sums(self.sums, UNIT))
        tables = {"set_scores": summary.with_all_sets(sets), "runs": runs_table(sets)}
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

    def _missing(self) -> int:
        """How many timelines the runs lack, over the sets that they have any of."""
        clips = pl.concat(self.clips).group_by("set").agg(pl.col("clips").cast(pl.Int64).sum())
        have = pl.concat(self.have).group_by(UNIT).agg(pl.col("have").cast(pl.Int64).sum()).join(clips, on="set")
        return int((have["clips"] - have["have"]).sum())


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
    return segments.checked(frame.filter(*bounds).collect() if bounds else frame.collect(), str(source))


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
