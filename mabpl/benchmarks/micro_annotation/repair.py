"""Corrects what is plainly wrong in a prediction file, says what it changed, and leaves everything else as it is.

In this order: times written as text (`mm:ss`, `hh:mm:ss`, quoted seconds), milliseconds or frame numbers for seconds
(of the whole file), segments out of order, overlaps. A line is changed only where something in it is, and then only the
values concerned. Nothing is guessed: where two explanations fit, the times stay.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
import polars as pl

from mabpl.benchmarks.micro_annotation.checks import check_predictions
from mabpl.benchmarks.micro_annotation.edits import Row, as_file, edited, read_rows, seconds_in
from mabpl.benchmarks.micro_annotation.postprocess import resolve_overlaps, sort_segments
from mabpl.benchmarks.micro_annotation.reading import Labels, read_predictions
from mabpl.reading.json_values import encodable
from mabpl.tables.schemas import FRAME_RATE

_TIMES = ("start_s", "end_s")
_NEARLY_ALL = 0.9
"""Share of the clips that must end after their duration before another unit than seconds is considered."""
_FILLED = 0.7
"""Median share of the duration that a timeline must reach in the right unit."""
_SLACK_S = 0.5


@dataclass(frozen=True)
class Repaired:
    """``data``: the corrected file (not compressed). ``changes``: line, clip_id, segment (its position before), field,
    rule, before, after (null: left out). ``remaining``: the table `problems` of the corrected file. ``notes``: what was
    suspected and left, and why."""

    data: bytes
    changes: pl.DataFrame
    remaining: pl.DataFrame
    notes: tuple[str, ...]


def repair(
    path: str | os.PathLike[str],
    labels: Labels,
    *,
    set_name: str | None = None,
    clips: Collection[str] | None = None,
) -> Repaired:
    """The corrected content of the prediction file at ``path``; nothing is written.

    ``labels`` give the clips' durations and frame rates, which tell milliseconds and frame numbers from seconds.
    ``set_name`` and ``clips`` are as in :func:`~mabpl.benchmarks.micro_annotation.checks.validate`. Raises
    :class:`InputError` for a file that cannot be read, or that has a line too long to be copied.
    """
    file = os.fspath(path)
    texts, rows = read_rows(file)
    for row in rows:
        _read_texts(row)
    scales, note = _unit(rows, labels)
    for row in rows:
        _rescale(row, scales)
        if all(segment.sound for segment in row.segments):
            sort_segments(row)
            resolve_overlaps(row)
    data, changes = edited(texts, rows)
    return Repaired(
        data,
        changes,
        _remaining(file, data, labels, set_name, clips),
        (f"{file}: {note}",) if note else (),
    )


def _read_texts(row: Row) -> None:
    """Takes in the times that are numbers; those that are text become numbers."""
    for segment in row.segments:
        for name in _TIMES:
            value = msgspec.json.decode(segment.raw[name]) if name in segment.raw else None
            if isinstance(value, str):
                seconds = seconds_in(value)
                if seconds is not None:
                    row.set_time(segment, name, seconds, "clock-time" if ":" in value else "quoted-number")
            elif isinstance(value, int | float) and not isinstance(value, bool):
                segment.times[name] = float(value)


class _Scales(NamedTuple):
    """``factor``: what the times of a clip are divided by to give seconds."""

    rule: str
    factor: Mapping[str, float]


def _unit(rows: Sequence[Row], labels: Labels) -> tuple[_Scales | None, str]:
    """The unit that the times of the whole file plainly are in, if not seconds; else why it was left."""
    videos = {
        clip_id: (duration, fps)
        for clip_id, duration, fps in labels.clips.select("clip_id", "duration_s", "source_fps").iter_rows()
    }
    times = {row.clip_id: [t for s in row.segments for t in s.times.values()] for row in rows}
    times = {clip_id: values for clip_id, values in times.items() if values and clip_id in videos}
    durations = {clip_id: videos[clip_id][0] for clip_id in times if videos[clip_id][0] is not None}
    if len(durations) < len(times):
        lacking = len(times) - len(durations)
        return None, f"whether the times are seconds was not checked: {lacking} clips have no duration_s in the labels"
    last = {clip_id: max(values) for clip_id, values in times.items()}
    beyond = sum(last[clip_id] > durations[clip_id] + _SLACK_S for clip_id in times)
    if not times or beyond < _NEARLY_ALL * len(times):
        return None, ""
    candidates = [_Scales("milliseconds", dict.fromkeys(times, 1000.0))]
    if all(value.is_integer() for values in times.values() for value in values):
        candidates.append(_Scales("frame-numbers", dict.fromkeys(times, float(FRAME_RATE))))
        own = {clip_id: videos[clip_id][1] for clip_id in times}
        if all(own.values()) and own != candidates[-1].factor:
            candidates.append(_Scales("frame-numbers-of-the-video", own))
    fitting = [c for c in candidates if _fits({k: last[k] / c.factor[k] for k in times}, durations)]
    if len(fitting) == 1:
        return fitting[0], ""
    what = f"more than one unit fits ({', '.join(c.rule for c in fitting)})" if fitting else "no unit fits"
    return None, f"the times of {beyond} of {len(times)} clips end after the clip, and {what}: they stay as they are"


def _fits(last_s: Mapping[str, float], durations: Mapping[str, float]) -> bool:
    inside = all(last_s[clip_id] <= durations[clip_id] + _SLACK_S for clip_id in last_s)
    return inside and statistics.median(last_s[clip_id] / durations[clip_id] for clip_id in last_s) >= _FILLED


def _rescale(row: Row, scales: _Scales | None) -> None:
    factor = scales.factor.get(row.clip_id) if scales else None
    if scales and factor:
        for segment in row.segments:
            for name, value in list(segment.times.items()):
                row.set_time(segment, name, value / factor, scales.rule)


def _remaining(
    file: str, data: bytes, labels: Labels, set_name: str | None, clips: Collection[str] | None
) -> pl.DataFrame:
    with as_file(file, data) as copy:
        problems = check_predictions(read_predictions(copy, labels, set_name=set_name), labels, clips=clips)
    return problems.with_columns(file=pl.lit(encodable(file)))
