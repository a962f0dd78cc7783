"""What a manifest and the labels say of videos, held against the files.

How the published manifests call their keys is not documented; :data:`NAMES` lists the names that are understood.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

from mabpl.errors import InputError
from mabpl.video.probing import VideoInfo, probe

NAMES: dict[str, tuple[str, ...]] = {
    "resolution": ("resolution", "frame_size"),
    "width": ("width", "w"),
    "height": ("height", "h"),
    "fps": ("fps", "source_fps", "frame_rate", "framerate", "frames_per_second"),
    "num_frames": ("num_frames", "frames", "frame_count", "n_frames", "nb_frames"),
    "duration_s": ("duration_s", "duration", "duration_sec", "duration_seconds", "length_s"),
    "md5": ("md5", "md5sum", "md5_hex", "video_md5"),
}
"""Field → the keys that it may have, in any case.

A resolution is ``1920x1080`` or two numbers, width first; a rate may be written ``30000/1001``.
"""

_FPS_TOLERANCE = 0.01


class Difference(NamedTuple):
    """``source`` (manifest, labels or video) says ``expected`` of ``field``; the file is, or has, ``found``."""

    clip_id: str
    field: str
    source: str
    expected: Any
    found: Any


class Probed(NamedTuple):
    """A video by its clip: ``info``, or why there is none."""

    clip_id: str
    info: VideoInfo | None
    fault: str


def videos_in(folder: Path) -> dict[str, Path]:
    """Clip id → `<clip_id>.mp4` in ``folder``, sorted. An id is looked up here, never made a path."""
    return {path.stem: path for path in sorted(folder.glob("*.mp4")) if path.is_file()}


def probe_all(
    videos: Mapping[str, Path], *, decode: bool = False, done: Callable[[str], object] = lambda _: None
) -> list[Probed]:
    """:func:`~mabpl.video.probe` of each, some at a time; ``done`` is told each clip as it is finished, in order."""

    def one(item: tuple[str, Path]) -> Probed:
        clip_id, path = item
        try:
            return Probed(clip_id, probe(path, decode=decode), "")
        except InputError as error:
            return Probed(clip_id, None, error.message)

    probed = []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for result in pool.map(one, videos.items()):
            probed.append(result)
            done(result.clip_id)
    return probed


def manifest_row(clip_id: str, info: VideoInfo) -> dict[str, Any]:
    """One line of a manifest: width and height as shown, frames a second, frames, seconds, MD5."""
    fps = round(info.fps, 6)
    return {
        "clip_id": clip_id,
        "width": info.width,
        "height": info.height,
        "fps": int(fps) if fps == int(fps) else fps,
        "num_frames": info.num_frames,
        "duration_s": round(info.duration_s, 3),
        "md5": info.md5,
    }


def stated(row: Mapping[str, Any]) -> dict[str, Any]:
    """What ``row`` (of a manifest or of labels) says of its video, under the names of :data:`NAMES`; nulls left out."""
    keys = {key.lower(): key for key in row}
    found = {}
    for field, names in NAMES.items():
        value = next((row[keys[name]] for name in names if name in keys and row[keys[name]] is not None), None)
        if value is not None:
            found[field] = value
    return found


def unstated(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """The fields of :data:`NAMES` of which no row says anything: they cannot be checked."""
    known = {field for row in rows for field in stated(row)}
    known |= {"width", "height"} if "resolution" in known else {"resolution"}
    return [field for field in NAMES if field not in known]


def differences(info: VideoInfo, row: Mapping[str, Any], source: str, clip_id: str) -> list[Difference]:
    """Where ``row`` says something else than the file.

    Exact, but a rate may differ by 0.01 a second and a duration by half a frame.
    """
    actual: dict[str, Any] = {**info._asdict(), "resolution": f"{info.width}x{info.height}"}
    return [
        Difference(clip_id, field, source, value, actual[field])
        for field, value in stated(row).items()
        if not _agrees(field, value, actual[field], info)
    ]


def _agrees(field: str, expected: Any, found: Any, info: VideoInfo) -> bool:
    if field == "resolution":
        return re.findall(r"\d+", str(expected)) == [str(info.width), str(info.height)]
    if field == "md5":
        return str(expected).strip().lower() == str(found)
    try:
        number = Fraction(str(expected))
    except (ValueError, ZeroDivisionError):
        return False
    tolerances = {"fps": _FPS_TOLERANCE, "duration_s": 0.5 / info.fps}
    return math.isclose(number, found, rel_tol=0.0, abs_tol=tolerances.get(field, 0.0))


def check(
    probed: Iterable[Probed],
    clips: Mapping[str, Mapping[str, Any]],
    manifest: Iterable[Mapping[str, Any]] | None,
) -> list[Difference]:
    """All differences, by clip.

    ``clips``: clip id → its row of the labels, for every clip that should have a video; ``manifest``: the rows of the
    manifest, None where there is none. A video that is missing, cut off, no video, of no clip, or has corrupt
    packets is a difference too, and so is a clip that the manifest lacks or has twice.
    """
    found = {result.clip_id: result for result in probed}
    rows: dict[str, list[Mapping[str, Any]]] = {}
    for row in manifest or ():
        rows.setdefault(row["clip_id"], []).append(row)
    wrong = []
    for clip_id in sorted({*clips, *found}):
        if manifest is not None and len(rows.get(clip_id, ())) != 1:
            wrong.append(Difference(clip_id, "clip_id", "manifest", "one line", f"{len(rows.get(clip_id, ()))} lines"))
        result = found.get(clip_id, Probed(clip_id, None, "there is no such file"))
        if clip_id not in clips:
            wrong.append(Difference(clip_id, "clip_id", "labels", "a clip of this name", "none"))
        if result.info is None:
            wrong.append(Difference(clip_id, "video", "video", "a whole video", result.fault))
            continue
        if result.info.corrupt_packets:
            wrong.append(Difference(clip_id, "corrupt_packets", "video", 0, result.info.corrupt_packets))
        for row in rows.get(clip_id, ()):
            wrong += differences(result.info, row, "manifest", clip_id)
        wrong += differences(result.info, clips.get(clip_id, {}), "labels", clip_id)
    return wrong
