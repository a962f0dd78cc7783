"""What a video file is: size, rate, number of frames, duration, checksum."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple

from mabpl.video.clips import Clip, File, open_clip


class VideoInfo(NamedTuple):
    """``width``, ``height``: pixels, as shown (turned as the file says). ``fps``: frames / duration. ``duration_s``:
    from the first frame to the end of the last. ``rotation``: degrees clockwise by which players turn the picture.
    ``corrupt_packets``: null unless every frame was decoded. ``md5``: of the file, in hex."""

    width: int
    height: int
    fps: float
    num_frames: int
    duration_s: float
    rotation: int
    corrupt_packets: int | None
    md5: str


def probe(path: File, *, decode: bool = False) -> VideoInfo:
    """Counts the frames of a video and takes its measure; no figure is the header's.

    ``decode``: decode every frame too, to count the corrupt packets. Raises :class:`~mabpl.errors.InputError` for a
    file that is no video or is cut off, see :func:`mabpl.video.clips.open_clip`.
    """
    corrupt: list[float | None] = []
    with open_clip(path, corrupt.append) as clip:
        shown = clip.frames()
        first = next(shown).frame
        if decode:
            for _ in shown:
                pass
    turn = -first.rotation % 360
    width, height = (first.height, first.width) if turn % 180 else (first.width, first.height)
    with open_clip(path) as clip:
        count, duration_s = _measure(clip)
    with Path(path).open("rb") as file:
        md5 = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    return VideoInfo(width, height, count / duration_s, count, duration_s, turn, len(corrupt) if decode else None, md5)


def _measure(clip: Clip) -> tuple[int, float]:
    """The number of frames, and the seconds from the first to the end of the last: a packet is a frame."""
    begins, ends, count = [], [], 0
    step = round(clip.step_s / clip.tick_s)
    for packet in clip.packets():
        if packet.size and not packet.is_discard:
            count += 1
            if packet.pts is not None:
                begins.append(packet.pts)
                ends.append(packet.pts + (packet.duration or step))
    if len(begins) < count:
        return count, count * clip.step_s
    return count, (max(ends) - min(begins)) * clip.tick_s
