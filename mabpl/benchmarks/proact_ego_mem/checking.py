"""The rules of a released file, held against its content. Every breach is told, with its JSON path."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from msgspec import UNSET

from mabpl.benchmarks.proact_ego_mem.rows import SCHEMA_VERSION, Clip, QaItem, Released, Sample
from mabpl.reading.json_values import at_key

TOLERANCE_S = 1e-3
"""How far a local time may be off the source time less the clip's start."""

LONGEST_S = 2**51 / 1e6
"""Times are matched as whole microseconds, whose sums stay exact up to here."""

_ROUNDING_S = 1e-9
CHOICES = 4


class Found(NamedTuple):
    rule: str
    clip_uid: str | None
    field: str
    message: str


def clamped_end(local_end_s: float | None, duration_s: float) -> float:
    """Where a segment ends in its clip: an open one (None) at the clip's end, and no other later."""
    return duration_s if local_end_s is None else min(local_end_s, duration_s)


def check_file(
    doc: Released, damaged: frozenset[str] = frozenset(), orphans: Mapping[str, Mapping[str, QaItem]] | None = None
) -> Iterator[Found]:
    """Every breach in ``doc``.

    ``damaged``: ids of what was left out for faults of its own; ``orphans``: the questions of such clips.
    """
    yield from _head(doc, bool(damaged))
    samples: dict[str, str] = {}
    listed = {key: frozenset(clip.sample_ids or ()) for key, clip in doc.clips.items() if clip.sample_ids is not UNSET}
    for key, video in doc.videos.items():
        path = at_key("videos", key)
        if video.video_uid != key:
            yield Found("id-mismatch", None, f"{path}.video_uid", f"is {video.video_uid!r} under the key {key!r}")
        if doc.split == "test" and video.samples:
            yield Found("withheld-on-test", None, f"{path}.samples", f"holds {len(video.samples)} samples")
        for sample_key, sample in video.samples.items():
            where = at_key(f"{path}.samples", sample_key)
            if sample_key in samples:
                message = f"is a sample of video {samples[sample_key]} too"
                yield Found("duplicate-sample", sample.clip.clip_uid, where, message)
            samples[sample_key] = key
            yield from _sample(doc, listed, key, sample_key, sample, where, damaged)
    for key, clip in doc.clips.items():
        yield from _clip(doc, key, clip, at_key("clips", key), samples, damaged)
    for clip_uid, questions in (orphans or {}).items():
        path = f"{at_key('clips', clip_uid)}.qa_items"
        for key, qa in questions.items():
            yield from _question(doc.split, clip_uid, key, qa, at_key(path, key))
    if not doc.clips and not orphans:
        yield Found("no-clips", None, "clips", "holds no clip")


def _head(doc: Released, damaged: bool) -> Iterator[Found]:
    if doc.schema_version != SCHEMA_VERSION:
        message = f"is {doc.schema_version!r}, expected {SCHEMA_VERSION!r}"
        yield Found("schema-version", None, "schema_version", message)
    holds = any(video.samples for video in doc.videos.values()) or any(
        clip.sample_ids is not UNSET or any(qa.correct_letter is not UNSET for qa in clip.qa_items.values())
        for clip in doc.clips.values()
    )
    if doc.ground_truth_released != holds and (holds or not damaged):
        told = "the file holds annotations" if holds else "the file holds no annotation"
        message = f"is {str(doc.ground_truth_released).lower()}, but {told}"
        yield Found("released-flag", None, "ground_truth_released", message)
    yield from _presence(doc.split, None, "canary", doc.canary is not UNSET)


def _presence(split: str, clip_uid: str | None, field: str, there: bool) -> Iterator[Found]:
    """What the dev split has and the test split has not."""
    if split == "dev" and not there:
        yield Found("missing-field", clip_uid, field, "is missing: the dev split has it")
    if split == "test" and there:
        yield Found("withheld-on-test", clip_uid, field, "is given")


def _sample(
    doc: Released,
    listed: dict[str, frozenset[str]],
    video_uid: str,
    key: str,
    sample: Sample,
    path: str,
    damaged: frozenset[str],
) -> Iterator[Found]:
    clip_uid = sample.clip.clip_uid
    if sample.sample_id != key:
        yield Found("id-mismatch", clip_uid, f"{path}.sample_id", f"is {sample.sample_id!r} under the key {key!r}")
    if sample.task != doc.task:
        yield Found("task-mismatch", clip_uid, f"{path}.task", f"is {sample.task} in a file of {doc.task}")
    source, local = sample.times, sample.clip
    if (source.end_sec is None) != (local.local_end_sec is None):
        message = f"is {_s(source.end_sec)}, but clip.local_end_sec is {_s(local.local_end_sec)}"
        yield Found("open-end", clip_uid, f"{path}.times.end_sec", message)
    clip = doc.clips.get(clip_uid)
    if clip is None:
        if clip_uid not in damaged:
            yield Found("unknown-clip", clip_uid, f"{path}.clip.clip_uid", "is no clip of the file")
        return
    if clip.video_uid != video_uid:
        message = f"is cut from video {clip.video_uid!r}, but the sample stands under {video_uid!r}"
        yield Found("video-mismatch", clip_uid, f"{path}.clip.clip_uid", message)
    if clip_uid in listed and key not in listed[clip_uid]:
        message = f"does not list the sample in {at_key('clips', clip_uid)}.sample_ids"
        yield Found("unlisted-sample", clip_uid, f"{path}.clip.clip_uid", message)
    yield from _times(sample, clip, path)


def _times(sample: Sample, clip: Clip, path: str) -> Iterator[Found]:
    clip_uid = clip.clip_uid
    pairs = (
        ("local_start_sec", sample.times.start_sec, sample.clip.local_start_sec),
        ("local_end_sec", sample.times.end_sec, sample.clip.local_end_sec),
    )
    for name, source_s, local_s in pairs:
        if source_s is None or local_s is None:
            continue
        field = f"{path}.clip.{name}"
        if max(abs(source_s), abs(local_s)) > LONGEST_S:
            yield Found("time-out-of-range", clip_uid, field, f"is {local_s:g}, expected seconds of a video")
        elif abs(source_s - clip.abs_start_sec - local_s) > TOLERANCE_S + _ROUNDING_S:
            expected = round(source_s - clip.abs_start_sec, 6)
            yield Found("local-time", clip_uid, field, f"is {local_s}, expected {expected} (source less abs_start_sec)")
    start_s, end_s = sample.clip.local_start_sec, sample.clip.local_end_sec
    if start_s < 0:
        yield Found("outside-clip", clip_uid, f"{path}.clip.local_start_sec", f"is {start_s}, before the clip")
    if end_s is not None and end_s > clip.duration_sec + TOLERANCE_S:
        message = f"is {end_s}, after the clip's end at {clip.duration_sec} s"
        yield Found("outside-clip", clip_uid, f"{path}.clip.local_end_sec", message)
    if (end := clamped_end(end_s, clip.duration_sec)) <= start_s:
        yield Found("zero-length", clip_uid, f"{path}.clip", f"goes from {start_s} to {end} s")


def _clip(
    doc: Released, key: str, clip: Clip, path: str, samples: dict[str, str], damaged: frozenset[str]
) -> Iterator[Found]:
    if clip.clip_uid != key:
        yield Found("id-mismatch", key, f"{path}.clip_uid", f"is {clip.clip_uid!r} under the key {key!r}")
    if clip.video_uid not in doc.videos and clip.video_uid not in damaged:
        yield Found("unknown-video", key, f"{path}.video_uid", f"is {clip.video_uid!r}, no video of the file")
    if not 0 <= clip.abs_start_sec < clip.abs_end_sec <= LONGEST_S:
        yield Found("clip-window", key, f"{path}.abs_end_sec", f"is {clip.abs_end_sec} after {clip.abs_start_sec} s")
    elif abs(clip.abs_end_sec - clip.abs_start_sec - clip.duration_sec) > TOLERANCE_S + _ROUNDING_S:
        window = round(clip.abs_end_sec - clip.abs_start_sec, 6)
        yield Found("duration-mismatch", key, f"{path}.duration_sec", f"is {clip.duration_sec}, the window is {window}")
    yield from _presence(doc.split, key, f"{path}.sample_ids", clip.sample_ids is not UNSET)
    if clip.sample_ids is not UNSET:
        yield from _sample_ids(doc, key, clip, clip.sample_ids, f"{path}.sample_ids", samples, damaged)
    for qa_key, qa in clip.qa_items.items():
        yield from _question(doc.split, key, qa_key, qa, at_key(f"{path}.qa_items", qa_key))


def _sample_ids(
    doc: Released,
    key: str,
    clip: Clip,
    listed: list[str],
    path: str,
    samples: dict[str, str],
    damaged: frozenset[str],
) -> Iterator[Found]:
    if doc.split == "test" and not any(video.samples for video in doc.videos.values()):
        return
    seen: set[str] = set()
    lasting = 0
    for index, sample_id in enumerate(listed):
        where = f"{path}[{index}]"
        if sample_id in seen:
            yield Found("duplicate-sample", key, where, f"is {sample_id!r}, listed before")
            continue
        seen.add(sample_id)
        if sample_id not in samples:
            lasting += sample_id in damaged
            if sample_id not in damaged:
                yield Found("unknown-sample", key, where, f"is {sample_id!r}, no sample of a video")
            continue
        inside = doc.videos[samples[sample_id]].samples[sample_id].clip
        if inside.clip_uid != key:
            yield Found("sample-of-other-clip", key, where, f"is {sample_id!r}, whose clip is {inside.clip_uid!r}")
        lasting += clamped_end(inside.local_end_sec, clip.duration_sec) > inside.local_start_sec
    if seen and not lasting:
        yield Found("emptied-clip", key, path, f"{len(seen)} listed, none lasts within the clip")


def _question(split: str, clip_uid: str, key: str, qa: QaItem, path: str) -> Iterator[Found]:
    if qa.qa_id != key:
        yield Found("id-mismatch", clip_uid, f"{path}.qa_id", f"is {qa.qa_id!r} under the key {key!r}")
    choices = f"{path}.answer_choices"
    if len(qa.answer_choices) != CHOICES:
        yield Found("choice-count", clip_uid, choices, f"has {len(qa.answer_choices)}, expected {CHOICES}")
    letters = [choice.letter for choice in qa.answer_choices]
    for letter, count in Counter(letters).items():
        if count > 1:
            again = len(letters) - 1 - letters[::-1].index(letter)
            yield Found(
                "duplicate-letter", clip_uid, f"{choices}[{again}].letter", f"is {letter!r}, given {count} times"
            )
    yield from _presence(split, clip_uid, f"{path}.answer", qa.answer is not UNSET)
    yield from _presence(split, clip_uid, f"{path}.correct_letter", qa.correct_letter is not UNSET)
    if qa.correct_letter is UNSET:
        return
    if qa.correct_letter not in letters:
        message = f"is {qa.correct_letter!r}, expected one of {', '.join(letters)}"
        yield Found("unknown-letter", clip_uid, f"{path}.correct_letter", message)
    elif qa.answer is not UNSET:
        texts = [choice.text for choice in qa.answer_choices if choice.letter == qa.correct_letter]
        if qa.answer not in texts:
            message = f"is {qa.answer!r}, but choice {qa.correct_letter} is {texts[0]!r}"
            yield Found("answer-mismatch", clip_uid, f"{path}.answer", message)


def _s(time_s: float | None) -> str:
    return "null" if time_s is None else str(time_s)
