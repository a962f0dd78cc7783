"""What the judge of a tournament is shown of each timeline, as text.

Only segments that are scored are shown (idle and flagged ones are not), in the order of their start, numbered from 1.
``timing`` shows boundaries and no labels; beside each segment of a candidate stands what it matched for Boundary F1 and
Temporal F1. ``labels`` shows labels and no times; before each of a candidate's stand the human segments that it covers,
which it overlaps by 20 frames or more. The text of a timeline does not depend on whether it is shown as A or as B.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import polars as pl

from mabpl.benchmarks.micro_annotation.scores import Scores
from mabpl.judges.hygiene import cleaned
from mabpl.judges.requests import COVERED_TICKS
from mabpl.settings import Settings
from mabpl.tables.schemas import FRAME_RATE

Dimension = Literal["timing", "labels"]
DIMENSIONS: tuple[Dimension, ...] = ("timing", "labels")

Clip = tuple[str, str]
"""(set, clip_id)."""

_NOTHING = "(no segments)"
_TIMING = ("time_base", "tolerance_frames", "tolerance_s", "temporal_iou", "boundary_matching")


class Line(NamedTuple):
    """A label as it is shown, and the numbers of the human segments that it covers (empty for a human one)."""

    label: str
    covers: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Shown:
    """A timeline of a clip as a judge is shown it. ``lines``: what ``text`` shows, of the dimension labels.

    ``altered``: label hygiene changed a label; ``risky``: a label may be meant for the judge.
    """

    text: str
    lines: tuple[Line, ...] = ()
    altered: bool = False
    risky: bool = False


@dataclass(frozen=True, slots=True)
class Packets:
    """``human``: by clip. ``arms``: by clip and arm, in alphabetical order. ``note``: what a judge is told beside."""

    human: Mapping[Clip, Shown]
    arms: Mapping[Clip, Mapping[str, Shown]]
    note: str | None


def packets(scores: Scores, dimension: Dimension) -> Packets:
    """Every timeline of ``scores`` (a run is an arm), clip by clip, as the judge of ``dimension`` is shown it."""
    numbered = _numbered(scores.segments)
    human: dict[Clip, list[_Row]] = {clip: [] for clip in scores.table("clips").select("set", "clip_id").iter_rows()}
    arms: dict[Clip, dict[str, list[_Row]]] = defaultdict(dict)
    for run, *clip in scores.table("clip_scores").sort("set", "clip_id", "run").select(_KEY).iter_rows():
        arms[clip[0], clip[1]][run] = []
    if dimension == "timing":
        numbered = _with_matches(numbered, scores)
    else:
        numbered = _with_covers(_with_labels(numbered, scores.settings), scores.pairs)
    for row in numbered.iter_rows(named=True):
        clip_ = row["set"], row["clip_id"]
        rows = human.get(clip_) if row["run"] is None else arms.get(clip_, {}).get(row["run"])
        if rows is not None:
            rows.append(row)
    people = {clip_: _human(dimension, human[clip_]) for clip_ in sorted(arms)}
    shown = {
        clip_: {run: _candidate(dimension, rows, human[clip_]) for run, rows in arms[clip_].items()}
        for clip_ in sorted(arms)
    }
    return Packets(people, shown, _note(scores.settings) if dimension == "timing" else None)


_Row = dict[str, Any]
_KEY = ["run", "set", "clip_id"]


def _numbered(segments: pl.DataFrame) -> pl.DataFrame:
    """The scored segments, with a ``number`` from 1 in each timeline."""
    scored = segments.filter(~pl.col("is_idle") & (pl.col("run").is_not_null() | ~pl.col("flagged")))
    return scored.sort(*_KEY, "start_s", "end_s", "segment").with_columns(
        number=pl.int_range(1, pl.len() + 1).over(_KEY)
    )


def _human(dimension: Dimension, rows: list[_Row]) -> Shown:
    if dimension == "timing":
        return Shown(_listed(f"{row['number']}. {_times(row)}" for row in rows))
    lines = tuple(Line(row["label"]) for row in rows)
    return _of_labels(lines, [str(row["number"]) for row in rows], rows)


def _candidate(dimension: Dimension, rows: list[_Row], human: list[_Row]) -> Shown:
    if dimension == "labels":
        lines = tuple(Line(row["label"], tuple(row["covers"])) for row in rows)
        heads = [f"{row['number']} [{_numbers(row['covers'])}]" for row in rows]
        return _of_labels(lines, heads, rows)
    body = (f"{row['number']}. {_times(row)}; Boundary: {_boundary(row)}; Temporal: {_temporal(row)}" for row in rows)
    sums = [_matched(name, [row[column] for row in rows], human) for name, column in _MATCHED.items()]
    return Shown("\n".join([_listed(body), *sums]))


_MATCHED = {"Boundary": "boundary", "Temporal": "temporal"}


def _of_labels(lines: tuple[Line, ...], heads: Sequence[str], rows: list[_Row]) -> Shown:
    text = _listed(f"{head}: {line.label}" for head, line in zip(heads, lines, strict=True))
    return Shown(text, lines, any(row["altered"] for row in rows), any(row["risky"] for row in rows))


def _listed(lines: Iterator[str]) -> str:
    return "\n".join(lines) or _NOTHING


def _numbers(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers)) or "none"


def _times(row: _Row) -> str:
    return f"{row['start_s']:.3f}-{row['end_s']:.3f} s"


def _boundary(row: _Row) -> str:
    if row["boundary"] is None:
        return "none"
    return f"human {row['boundary']} (start {row['start_error']:+d}, end {row['end_error']:+d} frames)"


def _temporal(row: _Row) -> str:
    return "none" if row["temporal"] is None else f"human {row['temporal']} (IoU {row['iou']:.2f})"


def _matched(name: str, found: list[int | None], human: list[_Row]) -> str:
    """How many were matched, and which human segments were not."""
    matched = set(found)
    left = [row["number"] for row in human if row["number"] not in matched]
    count = sum(number is not None for number in found)
    of = f"{len(found)} candidate and {len(human)} human segments"
    return f"{name}: {count} matched of {of}; human segments without a match: {_numbers(left)}"


# --- what stands beside a segment ---


def _with_matches(numbered: pl.DataFrame, scores: Scores) -> pl.DataFrame:
    """With ``boundary`` and ``temporal`` (the number of the human segment), the errors in frames, and the IoU."""
    human = numbered.filter(pl.col("run").is_null()).select(
        "set", "clip_id", human="segment", number="number", human_start="start_tick", human_end="end_tick"
    )
    ious = scores.pairs.select(*_KEY, "predicted", "human", "iou")
    for metric in _MATCHED.values():
        found = scores.matches.filter(metric=metric).join(human, on=["set", "clip_id", "human"])
        if metric == "temporal":
            found = found.join(ious, on=[*_KEY, "predicted", "human"]).select(*_KEY, "predicted", "number", "iou")
        else:
            found = found.select(*_KEY, "predicted", "number", "human_start", "human_end")
        found = found.rename({"predicted": "segment", "number": metric})
        numbered = numbered.join(found, on=[*_KEY, "segment"], how="left", maintain_order="left")
    return numbered.with_columns(
        start_error=pl.col("start_tick") - pl.col("human_start"), end_error=pl.col("end_tick") - pl.col("human_end")
    )


def _with_labels(numbered: pl.DataFrame, settings: Settings) -> pl.DataFrame:
    """With labels as a judge is shown them, ``altered`` and ``risky``.

    There are but three verdicts. Could a label hold them as JSON, none that a judge gives would be told from a quoted
    one: hygiene turns braces into parentheses too.
    """
    raw = numbered["label"].unique()
    shown = cleaned(raw, settings.label_hygiene == "on").rename({"label": "shown"}).with_columns(label=raw)
    if settings.label_hygiene == "on":
        shown = shown.with_columns(
            pl.col("altered") | pl.col("shown").str.contains("[{}]"),
            pl.col("shown").str.replace_all("{", "(", literal=True).str.replace_all("}", ")", literal=True),
        )
    return numbered.join(shown, on="label", how="left", maintain_order="left").with_columns(label="shown")


def _with_covers(numbered: pl.DataFrame, pairs: pl.DataFrame) -> pl.DataFrame:
    """With ``covers``: the numbers of the human segments, ascending."""
    human = numbered.filter(pl.col("run").is_null()).select("set", "clip_id", human="segment", number="number")
    covers = (
        pairs.filter(pl.col("covered_ticks") >= COVERED_TICKS)
        .join(human, on=["set", "clip_id", "human"])
        .group_by(*_KEY, segment="predicted")
        .agg(covers=pl.col("number").sort())
    )
    covered = numbered.join(covers, on=[*_KEY, "segment"], how="left", maintain_order="left")
    return covered.with_columns(pl.col("covers").fill_null([]))


def _note(settings: Settings) -> str:
    """What a tolerance of 20/30 second is, and by which rules matches were made where they are not the published."""
    note = f'"20/30-second" is 20/30 of a second: 20 frames at {FRAME_RATE} frames a second, 0.667 s.'
    default = Settings()
    if all(getattr(settings, name) == getattr(default, name) for name in _TIMING):
        return note
    frames = settings.time_base == "frames"
    tolerance = f"{settings.tolerance_frames} frames" if frames else f"{settings.tolerance_s:g} s"
    return (
        f"{note} The matches above were made otherwise: Boundary with both ends within {tolerance} "
        f"({settings.boundary_matching}), Temporal with an IoU of {settings.temporal_iou:g} or more."
    )
