"""Labels and prediction files as tables, and every fault that was met on the way as a table too.

Reading never raises for a fault of the content: a clip with a fault is left out as a whole (never a part of a timeline)
and told of in `problems`. What cannot be read as JSON lines at all raises :class:`~mabpl.errors.InputError`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any, Generic, NamedTuple

import numpy as np
import polars as pl

from mabpl.benchmarks.micro_annotation.frames import KEY, clips_frame, segments_frame, timelines_frame, times_of
from mabpl.benchmarks.micro_annotation.naming import expand_predictions, infer_set, read_map, resolve_set
from mabpl.benchmarks.micro_annotation.parsing import LIMIT_US, R, RowReader, clip_id_in, time_faults
from mabpl.benchmarks.micro_annotation.problems import problem
from mabpl.benchmarks.micro_annotation.rows import LabelsRow, PredictionRow
from mabpl.reading.json_values import encodable
from mabpl.reading.lines import BYTE_ORDER_MARK, LONGEST_LINE, Block, Line, Lines
from mabpl.reading.names import STDIN, RunName, file_stem, name_runs, plain_name
from mabpl.reading.problems import Problem, merge_problems, problems_table
from mabpl.tables.schemas import CLIPS, RUNS

Path = str | os.PathLike[str]


class Source(NamedTuple):
    """A file as it was named, its SHA-256 (hex), and the set it is of (and its run, if it holds predictions)."""

    file: str
    sha256: str
    set: str
    run: str | None = None


@dataclass(frozen=True)
class Labels:
    """The human side: `clips`, `segments` (run is null) and `problems` as in the schemas of those names.

    ``timelines`` (set, clip_id, file, line): where each clip was read. Sorted by key, whatever the order of the file.
    """

    clips: pl.DataFrame
    segments: pl.DataFrame
    timelines: pl.DataFrame
    problems: pl.DataFrame
    sources: tuple[Source, ...]

    @property
    def sets(self) -> dict[str, frozenset[str]]:
        """Set → the ids of its clips, those with faults too."""
        ids = {source.set: set[str]() for source in self.sources}
        for set_name, clip_id in self.clips.select("set", "clip_id").iter_rows():
            ids[set_name].add(clip_id)
        faulty = _faulty(self.problems)
        for source in self.sources:
            ids[source.set] |= faulty.get(source.file, set())
        return {name: frozenset(known) for name, known in sorted(ids.items())}


@dataclass(frozen=True)
class Predictions:
    """The predicted side: `runs`, `segments` and `problems` as in the schemas of those names.

    ``timelines`` (run, set, clip_id, file, line): which clips each run has; a timeline without segments is only there.
    ``partial``: clips of the sets were left out by choice. ``notes``: what was done that a user should be told.
    Sorted by key, whatever the order of files and lines.
    """

    runs: pl.DataFrame
    segments: pl.DataFrame
    timelines: pl.DataFrame
    problems: pl.DataFrame
    sources: tuple[Source, ...]
    partial: bool = False
    notes: tuple[str, ...] = ()

    def faulty(self) -> dict[str, set[str]]:
        """File → the ids of the clips that are there but were left out for a fault."""
        return _faulty(self.problems)


class _File(NamedTuple, Generic[R]):
    file: str
    sha256: str
    rows: list[tuple[int, R, dict[str, Any]]]
    problems: list[Problem]
    clip_ids: set[str]


def read_labels(path: Path, *, set_name: str | None = None) -> Labels:
    """A labels file (JSON lines, plain or gzip; ``-`` is standard input), one clip a line.

    ``set_name``: by default the folder's name where the file is called labels.jsonl, else the file's name less ending.
    """
    read = _read_file(os.fspath(path), RowReader(LabelsRow, further_fields=True))
    name = set_name or _set_of_path(read.file)
    rows = sorted(read.rows, key=lambda entry: entry[1].clip_id)
    problems = list(read.problems)
    if not read.clip_ids and all(fault.severity == "warning" for fault in problems):
        problems.append(problem("missing-clip", read.file, None, "holds no clip", hint="give the labels file"))
    if rows and not any(_is_human(row) for _, row, _ in rows):
        problems.append(problem("predictions-as-labels", read.file, rows[0][0], "looks like a prediction file"))
    return Labels(
        clips=clips_frame(name, rows),
        segments=segments_frame(
            pl.DataFrame({"set": [name] * len(rows), "clip_id": [row.clip_id for _, row, _ in rows]}, schema=KEY),
            [row for _, row, _ in rows],
        ),
        timelines=timelines_frame([(name, row.clip_id, read.file, line) for line, row, _ in rows], ["set", "clip_id"]),
        problems=merge_problems(problems_table(problems)),
        sources=(Source(read.file, read.sha256, name),),
    )


def join_labels(parts: Sequence[Labels]) -> Labels:
    """The labels of several sets as one; a clip that two sets share is an error in `problems`."""
    clips = pl.concat([part.clips for part in parts], how="diagonal_relaxed").sort("set", "clip_id")
    timelines = pl.concat([part.timelines for part in parts]).sort("set", "clip_id")
    shared = timelines.filter(pl.col("clip_id").is_duplicated() & ~pl.col("clip_id").is_first_distinct())
    twice = [
        problem(
            "clip-in-two-sets", file, line, f"is in {set_name} and in another set", clip_id=clip_id, field="clip_id"
        )
        for set_name, clip_id, file, line in shared.iter_rows()
    ]
    return Labels(
        clips=CLIPS.conform(clips),
        segments=pl.concat([part.segments for part in parts]).sort("set", "clip_id", "segment"),
        timelines=timelines,
        problems=merge_problems(*(part.problems for part in parts), problems_table(twice)),
        sources=tuple(sorted(source for part in parts for source in part.sources)),
    )


def read_predictions(
    paths: Path | Iterable[Path],
    labels: Labels | Path | None = None,
    *,
    set_name: str | None = None,
    map_file: Path | None = None,
) -> Predictions:
    """Prediction files (JSON lines, plain or gzip), folders of them or globs; ``-`` is standard input.

    A file's set is ``set_name``, or the one whose ``labels`` hold its clips, or empty where neither is given. Two files
    of one configuration and set with the same bytes count once. ``map_file``: see :func:`read_map`. Raises
    :class:`UsageError` where a file's set cannot be told.
    """
    arguments = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    if isinstance(labels, str | os.PathLike):
        labels = read_labels(labels)
    reader = RowReader(PredictionRow)
    files = [_read_file(path, reader) for path in expand_predictions(arguments)]
    sets = labels.sets if labels else {}
    placed = [(read, _set_of_file(read.file, read.clip_ids, sets, set_name)) for read in files]
    placed, notes = _once(placed, sets)
    names = name_runs([(read.file, name) for read, name in placed], sets)
    timelines = sorted(
        (
            (name.run, set_of, row.clip_id, read.file, line, row)
            for (read, set_of), name in zip(placed, names, strict=True)
            for line, row, _ in read.rows
        ),
        key=lambda entry: entry[:3],
    )
    frame = timelines_frame([entry[:5] for entry in timelines], ["run", "set", "clip_id"])
    return Predictions(
        runs=_runs(placed, names, read_map(map_file) if map_file else {}),
        segments=segments_frame(frame.select("run", "set", "clip_id"), [entry[5] for entry in timelines]),
        timelines=frame,
        problems=merge_problems(problems_table(problem for read, _ in placed for problem in read.problems)),
        sources=tuple(
            Source(read.file, read.sha256, set_of, name.run) for (read, set_of), name in zip(placed, names, strict=True)
        ),
        notes=notes,
    )


def with_sets(predictions: Predictions, labels: Labels) -> Predictions:
    """``predictions`` that were read without labels, each run now in the set whose ``labels`` hold its clips."""
    if all(source.set for source in predictions.sources):
        return predictions
    faulty = predictions.faulty()
    ids = {
        (run, set_of): set(clips)
        for run, set_of, clips in predictions.timelines.group_by("run", "set").agg("clip_id").iter_rows()
    }
    sets = labels.sets
    placed = [
        s.set or _set_of_file(s.file, ids.get((str(s.run), s.set), set()) | faulty.get(s.file, set()), sets, None)
        for s in predictions.sources
    ]
    names = name_runs([(s.file, name) for s, name in zip(predictions.sources, placed, strict=True)], sets)
    renamed = pl.DataFrame(
        [(s.run, s.set, name.run, new) for s, name, new in zip(predictions.sources, names, placed, strict=True)],
        schema={"run": pl.String, "set": pl.String, "new_run": pl.String, "new_set": pl.String},
        orient="row",
    )
    schema = {name: RUNS.schema[name] for name in ("run", "configuration", "generation_seed")}
    named = pl.DataFrame(sorted(set(names), key=lambda name: name.run), schema=schema, orient="row")

    def moved(frame: pl.DataFrame, *key: str) -> pl.DataFrame:
        joined = frame.join(renamed, on=["run", "set"], how="left")
        renames = {"run": pl.col("new_run"), "set": pl.col("new_set")}
        return joined.with_columns(**renames).select(frame.columns).sort("run", "set", *key)

    runs = moved(predictions.runs).drop("configuration", "generation_seed").join(named, on="run", how="left")
    return replace(
        predictions,
        runs=RUNS.conform(runs).sort("run", "set"),
        segments=moved(predictions.segments, "clip_id", "segment"),
        timelines=moved(predictions.timelines, "clip_id"),
        sources=tuple(
            s._replace(run=name.run, set=new) for s, name, new in zip(predictions.sources, names, placed, strict=True)
        ),
    )


def _read_file(path: str, reader: RowReader[R]) -> _File[R]:
    file = encodable(path)
    lines = Lines(path)
    rows: list[tuple[int, R, dict[str, Any]]] = []
    problems: list[Problem] = []
    first_line: dict[str, int] = {}
    repeated: set[str] = set()
    for block in lines.blocks():
        for number, clip_id in _read_block(block, file, reader, rows, problems):
            if clip_id is None:
                continue
            if clip_id in first_line:
                message = f"is on line {first_line[clip_id]} too"
                problems.append(problem("duplicate-clip", file, number, message, clip_id=clip_id, field="clip_id"))
                repeated.add(clip_id)
            first_line.setdefault(clip_id, number)
    bad = _check_times(file, rows, problems)
    rows = [entry for i, entry in enumerate(rows) if i not in bad and entry[1].clip_id not in repeated]
    return _File(file, lines.sha256, rows, problems, set(first_line))


def _read_block(
    block: Block,
    file: str,
    reader: RowReader[R],
    rows: list[tuple[int, R, dict[str, Any]]],
    problems: list[Problem],
) -> Iterator[tuple[int, str | None]]:
    """Adds the rows, or their problems; gives each line's number and clip id."""
    many = None if block.cut else reader.read_many(block.lines)
    if many is not None:
        for number, row in enumerate(many, block.number):
            rows.append((number, row, {}))
            yield number, row.clip_id
        return
    for number, data in enumerate(block.lines, block.number):
        if data.startswith(BYTE_ORDER_MARK):
            problems.append(problem("byte-order-mark", file, number, "starts with a byte order mark"))
            data = data.removeprefix(BYTE_ORDER_MARK)
        if not block.cut and not data.strip():
            problems.append(problem("blank-line", file, number, "is blank"))
            continue
        yield number, _read_line(Line(number, data, block.cut, block.ended), file, reader, rows, problems)


def _read_line(
    line: Line,
    file: str,
    reader: RowReader[R],
    rows: list[tuple[int, R, dict[str, Any]]],
    problems: list[Problem],
) -> str | None:
    """Adds the row, or its problems; returns the clip's id."""
    data = line.data
    if line.cut:
        clip_id = clip_id_in(data)
        message = f"is longer than {LONGEST_LINE // 2**20} MiB"
        problems.append(problem("line-too-long", file, line.number, message, clip_id=clip_id))
        return clip_id
    parsed = reader.read(data)
    for fault in parsed.faults:
        cut_off = fault.rule == "invalid-json" and not line.ended
        hint = "the file ends inside this line: it was cut off; write it again" if cut_off else fault.hint
        problems.append(
            problem(fault.rule, file, line.number, fault.message, clip_id=parsed.clip_id, field=fault.field, hint=hint)
        )
    if parsed.row is not None:
        rows.append((line.number, parsed.row, parsed.extras))
        if isinstance(parsed.row, PredictionRow) and line.number == 1 and b'"num_frames"' in data:
            problems.append(problem("labels-as-predictions", file, 1, "looks like a labels file"))
    return parsed.clip_id


def _check_times(file: str, rows: list[tuple[int, R, dict[str, Any]]], problems: list[Problem]) -> set[int]:
    """The indexes of rows with a segment whose times cannot be; their problems are added."""
    start, end, counts = times_of([row for _, row, _ in rows])
    with np.errstate(over="ignore"):
        start_us, end_us = np.rint(start * 1e6), np.rint(end * 1e6)
    sound = (end_us > start_us) & (np.abs(start_us) <= LIMIT_US) & (np.abs(end_us) <= LIMIT_US)
    if sound.all():
        return set()
    bad = {int(i) for i in np.repeat(np.arange(len(rows)), counts)[~sound]}
    for i in sorted(bad):
        line, row, _ = rows[i]
        for index, segment in enumerate(row.segments):
            problems.extend(
                problem(fault.rule, file, line, fault.message, clip_id=row.clip_id, field=fault.field)
                for fault in time_faults(index, segment.start_s, segment.end_s)
            )
    return bad


def _runs(
    placed: Sequence[tuple[_File[PredictionRow], str]],
    names: Sequence[RunName],
    models: Mapping[str, tuple[str | None, str | None]],
) -> pl.DataFrame:
    rows = [
        (
            name.run,
            set_of,
            name.configuration,
            name.seed,
            *models.get(name.configuration, (None, None)),
            read.file if read.file == STDIN else PurePath(read.file).name,
            read.sha256,
        )
        for (read, set_of), name in zip(placed, names, strict=True)
    ]
    return pl.DataFrame(rows, schema=RUNS.schema, orient="row").sort("run", "set")


def _once(
    placed: list[tuple[_File[PredictionRow], str]], sets: Iterable[str]
) -> tuple[list[tuple[_File[PredictionRow], str]], tuple[str, ...]]:
    """Files of one configuration and set with the same bytes: the one with the least seed, else the first."""
    kept: dict[tuple[str, str, str], tuple[_File[PredictionRow], str]] = {}
    notes = []

    def rank(entry: tuple[_File[PredictionRow], str]) -> tuple[bool, int, str]:
        seed = plain_name(entry[0].file, sets).seed
        return seed is None, seed or 0, entry[0].file

    for entry in sorted(placed, key=rank):
        read, set_of = entry
        key = (plain_name(read.file, sets).configuration, set_of, read.sha256)
        if key in kept:
            notes.append(f"{read.file} has the same bytes as {kept[key][0].file}: counted once")
        kept.setdefault(key, entry)
    return sorted(kept.values(), key=lambda entry: entry[0].file), tuple(notes)


def _set_of_file(file: str, clip_ids: set[str], sets: Mapping[str, frozenset[str]], set_name: str | None) -> str:
    if set_name is not None:
        return resolve_set(set_name, sets) if sets else set_name
    if len(sets) == 1:
        return next(iter(sets))
    return infer_set(file, clip_ids, sets) if sets and clip_ids else ""


def _set_of_path(file: str) -> str:
    folder = PurePath(file).parent.name
    return folder if file_stem(file) == "labels" and folder else file_stem(file)


def _is_human(row: LabelsRow) -> bool:
    clip = (row.num_frames, row.source_fps, row.duration_s, row.task_summary)
    return any(v is not None for v in clip) or any(s.flagged or s.hands for s in row.segments)


def _faulty(problems: pl.DataFrame) -> dict[str, set[str]]:
    rows = problems.filter((pl.col("severity") == "error") & pl.col("clip_id").is_not_null())
    found: dict[str, set[str]] = {}
    for file, clip_id in rows.select("file", "clip_id").unique().iter_rows():
        found.setdefault(file, set()).add(clip_id)
    return found
