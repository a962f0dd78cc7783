"""The released file and a line of a submission, as typed rows. Their JSON Schemas are generated from here.

Source of the released shape: ProactEgoMem, annotation format proact-studio-v3. All fifteen released files share it; a
split only decides which fields carry values. The submission is mabpl's own format.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

SCHEMA_VERSION = "proact-studio-v3"

Task = Literal["information_capture", "state_tracking", "location_tracking"]
Split = Literal["dev", "test"]
Id = Annotated[str, Meta(min_length=1)]
SourceSeconds = Annotated[float, Meta(description="Seconds from the start of the source video.")]
ClipSeconds = Annotated[float, Meta(description="Seconds from the start of the clip.")]


class _Released(Struct, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """A part of a released file: it has these keys and no others."""


class Times(_Released):
    """When the sample is true, in the source video. ``end_sec`` null: still true when the clip ended."""

    start_sec: SourceSeconds
    end_sec: SourceSeconds | None


class InClip(_Released):
    """The same instants in the clip."""

    clip_uid: Id
    local_start_sec: ClipSeconds
    local_end_sec: ClipSeconds | None


class Sample(_Released):
    """A segment: one thing worth speaking about, in one video."""

    sample_id: Id
    task: Task
    object: Annotated[str, Meta(min_length=1, description="What a judge holds a mention against.")]
    note: Annotated[str | None, Meta(description="The annotator's remark; not scored.")]
    times: Times
    clip: InClip


class Video(_Released):
    """A source video and its samples (none on the test split)."""

    video_uid: Id
    video_path: Annotated[None, Meta(description="Always null: videos are not distributed.")]
    samples: dict[Id, Sample]


class Choice(_Released):
    """One of the four choices. Letters are as released, never recomputed."""

    letter: Id
    text: Annotated[str, Meta(min_length=1)]


class QaItem(_Released):
    """A question about a clip, with its choices in the order in which they are shown and scored."""

    qa_id: Id
    question: Annotated[str, Meta(min_length=1)]
    answer_choices: list[Choice]
    answer: Annotated[str | UnsetType, Meta(description="dev only: the text of the right choice.")] = UNSET
    correct_letter: Annotated[Id | UnsetType, Meta(description="dev only: the letter of the right choice.")] = UNSET
    notes: Annotated[str | UnsetType | None, Meta(description="An annotator's field; not scored.")] = UNSET


class Clip(_Released):
    """What a model is shown: a window of a source video."""

    clip_uid: Id
    video_uid: Id
    clip_path: Annotated[None, Meta(description="Always null: videos are not distributed.")]
    abs_start_sec: SourceSeconds
    abs_end_sec: SourceSeconds
    duration_sec: Annotated[float, Meta(gt=0, description="Length of the clip in seconds; open segments end here.")]
    qa_items: dict[Id, QaItem]
    sample_ids: Annotated[
        list[Id] | UnsetType, Meta(description="dev only: the clip's samples; an empty list: silence is right.")
    ] = UNSET


class Released(_Released):
    """A released file: one task of one track and split."""

    schema_version: str
    task: Task
    kind: str
    rev: int
    split: Split
    ground_truth_released: bool
    videos: dict[Id, Video]
    clips: dict[Id, Clip]
    canary: Annotated[Any, Meta(description="dev only.")] = UNSET


class Mention(Struct, gc=False):
    """One thing that the model said while it watched. Further fields are ignored."""

    time_s: Annotated[float, Meta(description="When it was said, in seconds from the start of the clip.")]
    text: Annotated[str, Meta(min_length=1, description="What was said; not only blanks.")]


class ClipRow(Struct):
    """What was said about a clip; silence is an empty list. Further fields are ignored."""

    clip_uid: Id
    mentions: list[Mention]
    track: Annotated[str | UnsetType, Meta(description="Needed only where a clip is in several tracks.")] = UNSET
    task: Annotated[str | UnsetType, Meta(description="Needed only where a clip is in several tasks.")] = UNSET


class FailedRow(Struct):
    """A clip for which there is no answer: named as an error, never taken for silence."""

    clip_uid: Id
    error: Annotated[str, Meta(description="Why.")]


class AnswerRow(Struct):
    """The answer to a question. Further fields are ignored."""

    qa_id: Id
    letter: Annotated[
        str | None, Meta(description="One of the question's letters, as released; anything else counts as wrong.")
    ]


class AnyRow(Struct):
    """A line of a submission before it is known which row it is."""

    clip_uid: Id | UnsetType = UNSET
    mentions: list[Mention] | UnsetType = UNSET
    error: Any = UNSET
    qa_id: Id | UnsetType = UNSET
    letter: Any = UNSET
    track: str | UnsetType = UNSET
    task: str | UnsetType = UNSET


INPUT_ROWS: dict[str, tuple[type[msgspec.Struct], ...]] = {
    "proact_release": (Released,),
    "proact_submission": (ClipRow, FailedRow, AnswerRow),
}
"""What each input file, or a line of it, is one of."""
