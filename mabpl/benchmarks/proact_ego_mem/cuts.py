"""The clips as windows of their source videos, and the cutting of videos that are at hand.

Source: ProactEgoMem, annotation format proact-studio-v3: a clip is its source video from abs_start_sec to abs_end_sec;
times in the clip are then right with no further offset. No video is distributed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import polars as pl

from mabpl.benchmarks.proact_ego_mem.release import CELL, Release
from mabpl.errors import InputError, UsageError, unreadable
from mabpl.tables.files import write_bytes

ENDINGS = (".mp4", ".mkv", ".mov", ".webm", ".avi", ".m4v")
_UNKNOWN_RATE = 30.0
_COLUMNS = (*CELL, "clip_uid", "video_uid")


class Cut(NamedTuple):
    """What came of a clip. ``status``: cut, kept (it was there), missing (no source video) or failed.

    ``told``: the file, or what went wrong.
    """

    clip_uid: str
    video_uid: str
    status: str
    told: str


def windows(release: Release) -> pl.DataFrame:
    """track, task, split, clip_uid, video_uid, start_s and end_s (seconds of the source video), duration_s."""
    return release.clips.sort("video_uid", "abs_start_s", "clip_uid", *CELL).select(
        *_COLUMNS, pl.col("abs_start_s").alias("start_s"), pl.col("abs_end_s").alias("end_s"), "duration_s"
    )


def videos_in(folder: Path) -> dict[str, Path]:
    """Video uid → file in ``folder`` and its subfolders that is named after it. An id is looked up, never made a path.

    Of several files of one name the first is taken, in the order of their paths.
    """
    if not folder.is_dir():
        raise unreadable(folder, "there is no such folder", "give the folder of the source videos")
    found: dict[str, Path] = {}
    for path in sorted(folder.rglob("*")):
        if path.suffix.lower() in ENDINGS and path.is_file():
            found.setdefault(path.stem, path)
    return found


def clip_file(clip_uid: str) -> str:
    """The name of a clip's file: the id, quoted where it could be a path."""
    name = quote(clip_uid, safe="")
    return f"{'%2E' + name[1:] if name.startswith('.') else name}.mp4"


def cut_all(
    wanted: pl.DataFrame,
    videos: Path,
    out: Path,
    *,
    fps: float | None = None,
    long_side: int | None = None,
    crf: int = 18,
    again: bool = False,
    done: Callable[[Cut], object] = lambda _: None,
) -> list[Cut]:
    """Cuts the clips of :func:`windows` into ``out``, one MP4 each; ``done`` is told each as it is finished.

    ``fps`` and ``long_side`` (pixels) are the source's unless given. Frames are decoded and encoded again, so that a
    clip begins with the frame that is on screen at its start. ``again``: clips that are there are cut once more. Raises
    :class:`UsageError` for a rate or size that no picture has, :class:`InputError` for what is no folder.
    """
    if fps is not None and not 0 < fps < math.inf:
        raise UsageError(f"{fps:g} frames a second are not possible", "expected a number above 0")
    if long_side is not None and long_side < 2:
        raise UsageError(f"a longer side of {long_side} pixels is not possible", "expected 2 or more")
    if out.exists() and not out.is_dir():
        raise unreadable(out, "is a file", "expected a folder for the clips")
    sources = videos_in(videos)
    cuts = []
    for clip_uid, video_uid, start_s, end_s in _distinct(wanted):
        target = out / clip_file(clip_uid)
        if video_uid not in sources:
            cut = Cut(clip_uid, video_uid, "missing", f"no video of this name is in {videos}")
        elif target.is_file() and not again:
            cut = Cut(clip_uid, video_uid, "kept", target.name)
        else:
            try:
                _cut(sources[video_uid], start_s, end_s, target, fps, long_side, crf)
                cut = Cut(clip_uid, video_uid, "cut", target.name)
            except InputError as error:
                cut = Cut(clip_uid, video_uid, "failed", error.message)
        cuts.append(cut)
        done(cut)
    return cuts


def _distinct(wanted: pl.DataFrame) -> Iterable[tuple[str, str, float, float]]:
    once = wanted.unique("clip_uid", keep="first", maintain_order=True)
    return once.select("clip_uid", "video_uid", "start_s", "end_s").iter_rows()


def _cut(
    source: Path, start_s: float, end_s: float, target: Path, fps: float | None, long_side: int | None, crf: int
) -> None:
    from mabpl.video import window_mp4

    rate, side = (fps, long_side) if fps and long_side else _picture(source)
    write_bytes(target, window_mp4(source, start_s, end_s, fps or rate, long_side or side, crf))


def _picture(source: Path) -> tuple[float, int]:
    """Frames a second and the longer side in pixels."""
    from mabpl.video.clips import open_clip

    with open_clip(source) as clip:
        return 1 / clip.step_s if clip.step_s else _UNKNOWN_RATE, max(clip.stream.width, clip.stream.height)
