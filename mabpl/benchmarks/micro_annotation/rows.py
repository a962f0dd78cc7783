"""One line of each input file of MicroAnnotationBench, as typed rows. Its JSON Schema is generated from here.

All times are seconds from the start of the clip; a frame of the benchmark's grid lasts 1/30 s.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

ClipId = Annotated[str, Meta(min_length=1, description="The clip; unique across sets. Any text: never used as a path.")]
Seconds = Annotated[float, Meta(description="Seconds from the start of the clip; finite, at most 2**51 microseconds.")]


class Segment(Struct, gc=False):
    """One predicted action or pause. Further fields are ignored."""

    start_s: Seconds
    end_s: Annotated[float, Meta(description="Seconds from the start of the clip; later than start_s by 1 us or more.")]
    label: Annotated[str, Meta(description="What is done, to what, with which hand. Free text in an idle segment.")]
    is_idle: Annotated[bool, Meta(description="A pause: left out of all scoring.")]


class PredictionRow(Struct, gc=False):
    """One line of a prediction file: the timeline of one clip. Further fields are ignored."""

    clip_id: ClipId
    segments: Annotated[list[Segment], Meta(description="The timeline. No order, contiguity or coverage is required.")]


class HumanSegment(Segment, gc=False):
    """One human action or pause. Further fields are ignored."""

    hands: Annotated[
        Literal["left", "right", "both"] | None, Meta(description="The hand or hands that act; null where unknown.")
    ] = None
    flagged: Annotated[bool, Meta(description="Excluded from scoring.")] = False


class TaskSummary(Struct):
    """What the clip shows, in a sentence."""

    caption: Annotated[str | None, Meta(description="Never sent to a judge.")] = None


class LabelsRow(Struct):
    """One line of a labels file: a clip and its human timeline. Further fields become columns of `clips`."""

    clip_id: ClipId
    segments: Annotated[list[HumanSegment], Meta(description="The human timeline: in order, contiguous, covering.")]
    num_frames: Annotated[Annotated[int, Meta(ge=0)] | None, Meta(description="Frames of the clip's video.")] = None
    source_fps: Annotated[
        Annotated[float, Meta(gt=0)] | None, Meta(description="Frame rate of the clip's video, in frames per second.")
    ] = None
    duration_s: Annotated[
        Annotated[float, Meta(gt=0)] | None, Meta(description="Length of the clip in seconds: num_frames / source_fps.")
    ] = None
    task_summary: TaskSummary | None = None


class ManifestRow(Struct):
    """One line of a manifest file: a clip's video. Further fields are kept as columns."""

    clip_id: ClipId
    md5: Annotated[str | None, Meta(description="MD5 of the video file, in hex.")] = None


class MapRow(Struct):
    """One line of a map file: which model, at which setting, a configuration is."""

    configuration: Annotated[str, Meta(description="The prediction file's name less ending, set and seed.")]
    model: Annotated[str | None, Meta(description="The model's name.")] = None
    setting: Annotated[str | None, Meta(description="The model's setting, e.g. its reasoning effort.")] = None


INPUT_ROWS: dict[str, type[msgspec.Struct]] = {
    "labels": LabelsRow,
    "predictions": PredictionRow,
    "manifest": ManifestRow,
    "map": MapRow,
}
"""The row of each input file."""
