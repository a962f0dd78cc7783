"""What is wrong with timelines that can be read: errors that keep a file from being scored, and warnings.

Every check is one pass over the segments of all files. Its result is the table `problems`.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Literal

import numpy as np
import polars as pl

from mabpl.benchmarks.micro_annotation.problems import RULES, problem
from mabpl.benchmarks.micro_annotation.reading import Labels, Predictions, read_labels, read_predictions, with_sets
from mabpl.metrics.ratios import in_order
from mabpl.reading.problems import Problem, merge_problems, problems_table
from mabpl.tables.schemas import FRAME_RATE, PROBLEMS
from mabpl.timelines import stretches

Missing = Literal["refuse", "empty", "skip"]

LONGEST_SEGMENT_US = 10_000_000
_FRAME_US = 1_000_000 // FRAME_RATE + 1
_ROUNDING_US = 500
"""Half of the last printed decimal of a duration."""
_SUGGESTIONS = 20


def check_labels(labels: Labels) -> pl.DataFrame:
    """The table `problems` of labels: what reading found, and warnings where the segments are not in order, contiguous
    (within one frame) or covering the clip, or its duration is not num_frames / source_fps to 3 decimals."""
    segments = _with_times(labels.segments, labels.timelines, labels.clips, ["set", "clip_id"])
    return merge_problems(
        labels.problems,
        _durations(labels),
        *_placement(segments),
        _breaks(segments),
        _coverage(labels, segments),
    )


def check_predictions(
    predictions: Predictions,
    labels: Labels,
    *,
    clips: Collection[str] | None = None,
    missing: Missing = "refuse",
) -> pl.DataFrame:
    """The table `problems` of predictions: what reading found, and what only the labels can tell.

    ``clips``: the chosen clips of a trial; the others need not be there. ``missing``: absent clips and empty timelines
    are errors under ``refuse``, else warnings.
    """
    segments = _with_times(predictions.segments, predictions.timelines, labels.clips, ["run", "set", "clip_id"])
    return merge_problems(
        predictions.problems,
        problems_table(_presence(predictions, labels, clips, missing)),
        _empty(predictions, missing),
        *_placement(segments),
        _lengths(segments),
        _overlaps(segments),
        _gaps(segments),
        _all_idle(segments),
    )


def validate(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    labels: Labels | str | os.PathLike[str],
    *,
    clips: Collection[str] | None = None,
    missing: Missing = "refuse",
    set_name: str | None = None,
    map_file: str | os.PathLike[str] | None = None,
) -> tuple[Predictions, pl.DataFrame]:
    """Reads prediction files and checks them and the labels (read here where a path is given).

    Gives the predictions and the table `problems` of both.
    """
    if not isinstance(labels, Labels):
        labels = read_labels(labels)
    predictions = read_predictions(paths, labels, set_name=set_name, map_file=map_file)
    return predictions, merge_problems(
        check_labels(labels), check_predictions(predictions, labels, clips=clips, missing=missing)
    )


def apply_missing(
    predictions: Predictions, labels: Labels, missing: Missing, *, clips: Collection[str] | None = None
) -> Predictions:
    """``predictions`` as they are to be scored: the labels' clips (or ``clips``), each run's absent ones by policy.

    ``empty``: an absent clip has a timeline without segments (it scores 0). ``skip``: it has none, and the result is
    partial. ``refuse``: :func:`check_predictions` has made it an error; here it is left as it is. ``clips`` make the
    result partial too.
    """
    predictions = with_sets(predictions, labels)
    wanted = labels.clips.select("set", "clip_id")
    if clips is not None:
        wanted = wanted.filter(pl.col("clip_id").is_in(list(clips)))
    key = ["run", "set", "clip_id"]
    every = predictions.runs.select("run", "set").join(wanted, on="set").sort(key)
    present = predictions.timelines.join(wanted, on=["set", "clip_id"], how="semi")
    timelines = every.join(present, on=key, how="left").sort(key) if missing == "empty" else present.sort(key)
    segments = predictions.segments
    if present.height < predictions.timelines.height:
        segments = segments.join(wanted, on=["set", "clip_id"], how="semi").sort(*key, "segment")
    return replace(
        predictions,
        timelines=timelines,
        segments=segments,
        partial=clips is not None or timelines.height < every.height,
    )


def _presence(
    predictions: Predictions, labels: Labels, clips: Collection[str] | None, missing: Missing
) -> list[Problem]:
    """Clips that a run lacks, and clips that its set does not have."""
    faulty = predictions.faulty()
    have: dict[str, dict[str, int]] = {source.file: {} for source in predictions.sources}
    for file, clip_id, line in predictions.timelines.select("file", "clip_id", "line").iter_rows():
        have[file][clip_id] = line
    sets = labels.sets
    severity = "error" if missing == "refuse" else "warning"
    chosen = None if clips is None else set(clips)
    found: list[Problem] = []
    for source in predictions.sources:
        known = sets.get(source.set, frozenset())
        present = have[source.file].keys() | faulty.get(source.file, set())
        wanted = known if chosen is None else known & chosen
        if not (present & wanted if known else present) and (missing == "skip" or not known):
            found.append(problem("missing-clip", source.file, None, "holds no clip to score"))
        found += [
            problem("missing-clip", source.file, None, "is missing", clip_id=clip_id)._replace(severity=severity)
            for clip_id in sorted(wanted - present)
        ]
        if known:
            found += _unknown(source.file, source.set, have[source.file], sets)
    return found


def _unknown(file: str, set_name: str, lines: dict[str, int], sets: dict[str, frozenset[str]]) -> list[Problem]:
    found: list[Problem] = []
    for clip_id in sorted(lines.keys() - sets[set_name]):
        other = next((name for name, known in sets.items() if clip_id in known), None)
        near = [] if other or len(found) >= _SUGGESTIONS else difflib.get_close_matches(clip_id, sets[set_name], n=1)
        hint = f"it is of set {other}" if other else f"did you mean {near[0]!r}?" if near else ""
        message = f"is no clip of set {set_name}"
        found.append(
            problem("unknown-clip", file, lines[clip_id], message, clip_id=clip_id, field="clip_id", hint=hint)
        )
    return found


def _empty(predictions: Predictions, missing: Missing) -> pl.DataFrame:
    without = predictions.timelines.join(predictions.segments, on=["run", "set", "clip_id"], how="anti")
    table = _rows(without, "empty-timeline", "segments", "has no segments")
    return table if missing == "refuse" else table.with_columns(severity=pl.lit("warning"))


def _with_times(segments: pl.DataFrame, timelines: pl.DataFrame, clips: pl.DataFrame, key: list[str]) -> pl.DataFrame:
    """``segments`` in order of time, with file and line, times in microseconds, and the clip's duration_us.

    ``timeline`` numbers the timelines; ``reached``: the greatest end so far (null for a timeline's first segment).
    """
    places = timelines.with_row_index("timeline").join(
        clips.select("set", "clip_id", _us("duration_s").alias("duration_us")), on=["set", "clip_id"], how="left"
    )
    first = stretches(segments, key)
    runs = segments[key][first].join(places, on=key, how="left", maintain_order="left")
    stretch = np.repeat(np.arange(len(first)), np.diff(np.append(first, segments.height)))
    timed = (
        runs[stretch]
        .hstack(segments.select("segment", "start_s", "end_s", "is_idle"))
        .with_columns(_us("start_s").alias("start_us"), _us("end_s").alias("end_us"))
    )
    if runs["timeline"].null_count():
        timed = timed.filter(pl.col("timeline").is_not_null())
    same = pl.col("timeline") == pl.col("timeline").shift(1)
    previous = pl.when(same).then(pl.col("start_us").shift(1)).alias("previous_start_us")
    listed = in_order(timed, ["timeline", "segment"]).with_columns(previous)
    ordered = in_order(listed, ["timeline", "start_us", "end_us", "segment"])
    reached = pl.when(same).then(pl.col("reached").shift(1)).alias("reached")
    # In one chunk: shifted columns have a chunk more than others, over which pl.format of polars 2.1 stumbles.
    return ordered.hstack([_greatest_ends(ordered).alias("reached")]).with_columns(reached).rechunk()


def _greatest_ends(segments: pl.DataFrame) -> pl.Series:
    """The greatest end_us of a timeline so far. By ranks, for times by timelines might not fit 64 bits."""
    ends, rank = np.unique(segments["end_us"].to_numpy(), return_inverse=True)
    base = segments["timeline"].to_numpy().astype(np.int64) * len(ends)
    return pl.Series(ends[np.maximum.accumulate(rank + base) - base])


def _us(column: str) -> pl.Expr:
    """Seconds as whole microseconds."""
    return (pl.col(column) * 1e6).round(mode="half_to_even").cast(pl.Int64)


def _placement(segments: pl.DataFrame) -> list[pl.DataFrame]:
    """Segments before 0, beyond the duration, or that start before the one above them in the file."""
    late = pl.col("end_us") > pl.col("duration_us") + _ROUNDING_US
    beyond = pl.format("is {}, after the clip's end at {} s", "end_s", _s("duration_us"))
    early = pl.format("starts before the segment above it: {} after {} s", "start_s", _s("previous_start_us"))
    return [
        _rows(segments.filter(pl.col("start_us") < 0), "negative-start", "start_s", pl.format("is {}", "start_s")),
        _rows(segments.filter(late), "outside-duration", "end_s", beyond),
        _rows(segments.filter(pl.col("start_us") < pl.col("previous_start_us")), "unsorted", "start_s", early),
    ]


def _lengths(segments: pl.DataFrame) -> pl.DataFrame:
    length = pl.col("end_us") - pl.col("start_us")
    long = segments.with_columns(length_us=length).filter(pl.col("length_us") > LONGEST_SEGMENT_US)
    return _rows(long, "longer-than-10s", "end_s", pl.format("the segment lasts {} s", _s("length_us")))


def _overlaps(segments: pl.DataFrame) -> pl.DataFrame:
    over = segments.filter(pl.col("start_us") < pl.col("reached"))
    return _rows(
        over,
        "overlap",
        "start_s",
        pl.format("is {}, before an earlier segment's end at {} s", "start_s", _s("reached")),
    )


def _gaps(segments: pl.DataFrame) -> pl.DataFrame:
    """Uncovered time of more than a frame: before, between and after the segments."""
    covered = pl.col("reached").fill_null(0)
    before = segments.filter(pl.col("start_us") - covered > _FRAME_US)
    first_of = _rows(before, "gap", "start_s", pl.format("nothing covers {} to {} s", _s(covered), "start_s"))
    after = _last(segments).filter(pl.col("duration_us") - pl.col("end_us") > _FRAME_US)
    return pl.concat(
        [first_of, _rows(after, "gap", "end_s", pl.format("nothing covers {} to {} s", "end_s", _s("duration_us")))]
    )


def _all_idle(segments: pl.DataFrame) -> pl.DataFrame:
    idle = segments.group_by("timeline", maintain_order=True).agg(
        pl.col("file").first(), pl.col("line").first(), pl.col("clip_id").first(), pl.col("is_idle").all()
    )
    return _rows(idle.filter("is_idle"), "all-idle", "segments", "every segment is idle")


def _breaks(segments: pl.DataFrame) -> pl.DataFrame:
    """Human segments that start more than a frame off the end of those before them."""
    off = segments.filter((pl.col("start_us") - pl.col("reached")).abs() > _FRAME_US)
    message = pl.format("is {}, expected the end of the segment before it, {} s", "start_s", _s("reached"))
    return _rows(off, "not-contiguous", "start_s", message)


def _coverage(labels: Labels, segments: pl.DataFrame) -> pl.DataFrame:
    none = labels.timelines.join(labels.segments, on=["set", "clip_id"], how="anti")
    late = segments.filter(pl.col("reached").is_null() & (pl.col("start_us") > _FRAME_US))
    short = _last(segments).filter(pl.col("duration_us") - pl.col("end_us") > _FRAME_US)
    return pl.concat(
        [
            _rows(none, "not-covering", "segments", "has no segments"),
            _rows(late, "not-covering", "start_s", pl.format("the first segment starts at {}, expected 0", "start_s")),
            _rows(
                short,
                "not-covering",
                "end_s",
                pl.format("the last segment ends at {}, expected the clip's end at {} s", "end_s", _s("duration_us")),
            ),
        ]
    )


def _durations(labels: Labels) -> pl.DataFrame:
    expected = pl.col("num_frames") / pl.col("source_fps")
    off = (
        labels.clips.select("set", "clip_id", "duration_s", expected=expected)
        .filter((pl.col("duration_s") - pl.col("expected")).abs() > 0.0005 + 1e-9)
        .join(labels.timelines, on=["set", "clip_id"])
    )
    message = pl.format("is {}, expected num_frames / source_fps = {}", "duration_s", pl.col("expected").round(3))
    return _rows(off, "duration-mismatch", "duration_s", message)


def _last(segments: pl.DataFrame) -> pl.DataFrame:
    """The segment of each timeline that ends last."""
    return in_order(segments, ["timeline", "end_us", "segment"]).filter(pl.col("timeline").is_last_distinct())


def _s(us: str | pl.Expr) -> pl.Expr:
    return ((pl.col(us) if isinstance(us, str) else us) / 1e6).round(6)


def _rows(faulty: pl.DataFrame, rule: str, field: str, message: str | pl.Expr) -> pl.DataFrame:
    """A problem for each row of ``faulty``; ``field`` is one of the segment, if the rows are segments."""
    whole = "segment" not in faulty.columns or field == "duration_s"
    return faulty.select(
        severity=pl.lit(RULES[rule].severity),
        rule=pl.lit(rule),
        file="file",
        line="line",
        clip_id="clip_id",
        field=pl.lit(field) if whole else pl.format("segments[{}]." + field, "segment"),
        message=pl.lit(message) if isinstance(message, str) else message,
        hint=pl.lit(RULES[rule].hint),
    ).cast(PROBLEMS.schema)  # type: ignore[arg-type]
