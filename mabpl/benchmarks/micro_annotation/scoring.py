"""Scores timelines by MicroAnnotationBench's procedure: tables in, tables out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from mabpl import metrics, timelines
from mabpl.benchmarks.micro_annotation.scores import Scores, Tabular
from mabpl.errors import UsageError
from mabpl.metrics import audit, matches, summary
from mabpl.settings import Settings
from mabpl.tables import schemas, segments

if TYPE_CHECKING:
    from mabpl.benchmarks.micro_annotation.judging import Judging
    from mabpl.benchmarks.micro_annotation.reading import Labels, Predictions


def score(
    labels: Labels | pl.DataFrame | str | Path,
    predictions: Predictions | pl.DataFrame | str | Path | Iterable[str | Path],
    *,
    settings: Settings | None = None,
    judge: str | Judging | pl.DataFrame | None = None,
    threads: int | None = None,
) -> Scores:
    """Scores ``predictions`` against ``labels``.

    Both may be JSON Lines files (predictions: several), what :func:`mabpl.read_labels` and
    :func:`mabpl.read_predictions` return, or a `segments` table as a polars frame or parquet file. Files are checked
    first: raises :class:`InvalidTimelines` with the table of problems.

    ``judge``: None for Boundary, Temporal and Seg F1 and the PA assignment alone; ``"embedded"`` for the offline
    stand-in; a :class:`mabpl.Judging` (an endpoint, or a store of verdicts); or a `verdicts` table of one judge, joined
    by request.
    """
    settings = settings or Settings()
    if _is_table(labels) and _is_table(predictions):
        human, predicted = _segments(labels, predictions)
        scores = _score_tables(human, predicted, settings, threads)
    else:
        read = _read(labels, predictions, settings)  # type: ignore[arg-type]
        scores = score_files(*read, settings=settings, threads=threads)
    if judge is None:
        return scores
    from mabpl.benchmarks.micro_annotation import judging

    return judging.judged_by(scores, judge)


def _read(
    labels: Labels | str | Path, predictions: Predictions | str | Path | Iterable[str | Path], settings: Settings
) -> tuple[Labels, Predictions]:
    """Reads what is a path, checks it, and applies ``settings.missing``."""
    from mabpl.benchmarks.micro_annotation import checks, reading
    from mabpl.reading import problems

    human = labels if isinstance(labels, reading.Labels) else reading.read_labels(labels)
    if isinstance(predictions, reading.Predictions):
        predicted = reading.with_sets(predictions, human)
    else:
        predicted = reading.read_predictions(predictions, human)
    problems.require_valid(
        problems.merge_problems(human.problems, checks.check_predictions(predicted, human, missing=settings.missing))
    )
    return human, checks.apply_missing(predicted, human, settings.missing)


def score_files(labels: Labels, predictions: Predictions, *, settings: Settings, threads: int | None = None) -> Scores:
    """Scores what was read and checked: the timelines of ``predictions``."""
    lines = timelines.build(labels.clips, labels.segments, predictions.timelines, predictions.segments)
    tables: dict[str, Tabular] = {
        "clips": labels.clips,
        "runs": predictions.runs,
        "segments": lambda: pl.concat([labels.segments, predictions.segments]),
    }
    sources = tuple(
        {"file": Path(source.file).name, "sha256": source.sha256, "set": source.set, "run": source.run}
        for source in sorted({*labels.sources, *predictions.sources}, key=lambda s: (s.run or "", s.set, s.sha256))
    )
    return _scores(lines, settings, tables, threads, partial=predictions.partial, sources=sources)


def segment_f1(
    labels: Labels | pl.DataFrame | str | Path,
    predictions: Predictions | pl.DataFrame | str | Path | Iterable[str | Path],
    thresholds: Iterable[float] = (0.1, 0.25, 0.5, 0.75),
    *,
    settings: Settings | None = None,
) -> pl.DataFrame:
    """Segment F1 at any IoU: :func:`mabpl.metrics.segment_f1` of what :func:`score` takes."""
    if _is_table(labels) and _is_table(predictions):
        human, predicted = _segments(labels, predictions)
        lines = timelines.build(None, human, None, predicted)
    else:
        read = _read(labels, predictions, settings or Settings())  # type: ignore[arg-type]
        lines = timelines.build(read[0].clips, read[0].segments, read[1].timelines, read[1].segments)
    return metrics.segment_f1(lines, tuple(thresholds))


def _score_tables(human: pl.DataFrame, predicted: pl.DataFrame, settings: Settings, threads: int | None) -> Scores:
    lines = timelines.build(None, human, None, predicted)
    clips = lines.human.key
    missing = _missing(lines)
    if missing and settings.missing == "refuse":
        raise UsageError(f"{missing} timelines are missing", "settings.missing = empty or skip scores the others")
    if missing and settings.missing == "empty":
        every = lines.predicted.key.select("run", "set").unique().join(clips, on="set")
        lines = timelines.build(None, human, every, predicted)

    tables: dict[str, Tabular] = {
        "clips": schemas.CLIPS.conform(clips),
        "runs": lambda: runs_table(lines.predicted.key),
        "segments": lambda: pl.concat([_whole(human), _whole(predicted)]),
    }
    return _scores(lines, settings, tables, threads, partial=bool(missing))


def runs_table(timelines: pl.DataFrame) -> pl.DataFrame:
    """The `runs` table of the runs and sets of ``timelines``, where no files are known."""
    names = timelines.select("run", "set").unique().sort("run", "set")
    seed = pl.col("run").str.extract(r"_seed(\d+)$")
    return schemas.RUNS.conform(
        names.with_columns(
            configuration=pl.col("run").str.replace(r"_seed\d+$", ""),
            generation_seed=seed.cast(pl.Int64, strict=False),
            path=pl.col("run"),
        )
    )


def _whole(segments: pl.DataFrame) -> pl.DataFrame:
    """The `segments` table of a frame that may hold only what scoring needs."""
    ticks = {
        f"{end}_tick": (pl.col(f"{end}_s") * schemas.FRAME_RATE).round(mode="half_to_even").cast(pl.Int64)
        for end in ("start", "end")
    }
    absent = {"label": "", "flagged": False}
    defaults = [pl.lit(value).alias(name) for name, value in absent.items() if name not in segments.columns]
    return schemas.SEGMENTS.conform(segments.with_columns(**ticks).with_columns(defaults)).sort(schemas.SEGMENTS.key)


def _missing(lines: timelines.Timelines) -> int:
    """How many timelines the runs lack, over the sets that they have any of."""
    sets = timelines.stretches(lines.human.key, ["set"])
    size = np.diff(np.append(sets, lines.human.key.height))
    have = np.diff(np.append(lines.units, lines.predicted.key.height))
    return int((size[np.searchsorted(sets, lines.clip[lines.units], side="right") - 1] - have).sum())


def _scores(
    lines: timelines.Timelines,
    settings: Settings,
    tables: Mapping[str, Tabular],
    threads: int | None,
    *,
    partial: bool,
    sources: tuple[dict[str, Any], ...] = (),
) -> Scores:
    matched = matches.match(lines, settings, threads=threads)

    def pair_table() -> pl.DataFrame:
        from mabpl import pairs

        return pairs.pairs(lines)

    cells = clip_cells(matched)
    sums = summary.unit_sums(cells, ["run", "set"], lines.units)
    made: dict[str, Tabular] = {
        **tables,
        "clip_scores": lambda: schemas.CLIP_SCORES.conform(cells.table()),
        "set_scores": lambda: summary.set_scores(summary.finish(sums)),
        "matches": matched.table,
        "pairs": pair_table,
        "audit": lambda: audit.flip_audit(matched, settings),
    }
    return Scores(made, settings, partial, sources)


def clip_cells(matched: matches.Matched) -> summary.Cells:
    """The clips of a matching, without verdicts."""
    lines = matched.timelines
    counts = {
        "x": lines.predicted.count,
        "y": lines.human.count[lines.clip],
        "assigned": matched.counts("pa"),
        "b": matched.counts("boundary"),
        "k": matched.counts("temporal"),
        "t": matched.counts("seg"),
    }
    return summary.clip_cells(lines.predicted.key, {name: of.astype(np.float64) for name, of in counts.items()})


def _is_table(source: object) -> bool:
    return isinstance(source, pl.DataFrame) or (
        isinstance(source, str | Path) and str(source).endswith((".parquet", ".pq"))
    )


def _segments(*sources: Any) -> list[pl.DataFrame]:
    """Of each the columns of `segments` that scoring needs."""
    files = [source for source in sources if not isinstance(source, pl.DataFrame)]
    wanted = [*segments.WHERE_GIVEN, *segments.NEEDED]
    try:
        read = iter(pl.collect_all([pl.scan_parquet(file).select(wanted) for file in files]))
    except (OSError, pl.exceptions.PolarsError):
        read = map(_columns_there, files)  # which tells what the matter is, and with which file
    frames = [source if isinstance(source, pl.DataFrame) else next(read) for source in sources]
    if any(frame.height >= timelines.MANY for frame in frames):
        import pyarrow  # noqa: F401  (what builds the timelines compares strings through it, where it is there)
    return [
        segments.checked(frame, "the table of segments" if frame is source else str(source))
        for frame, source in zip(frames, sources, strict=True)
    ]


def _columns_there(file: str | Path) -> pl.DataFrame:
    try:
        have = pl.read_parquet_schema(file)
        return pl.read_parquet(file, columns=[n for n in (*segments.WHERE_GIVEN, *segments.NEEDED) if n in have])
    except (OSError, pl.exceptions.PolarsError) as error:
        raise UsageError(f"{file}: cannot be read as parquet ({error})") from None
