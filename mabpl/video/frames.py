"""The frames that are on screen at given times: upright, scaled, in RGB."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from mabpl.errors import UsageError
from mabpl.video.clips import SLACK_S, Clip, File, OnCorrupt, Shown, ends_early, open_clip
from mabpl.video.windowing import frame_times

if TYPE_CHECKING:
    from av import VideoFrame

Image = npt.NDArray[np.uint8]


class Frame(NamedTuple):
    """``time_s``: the time that was asked for, seconds of the clip; ``image``: uint8 (height, width, 3), RGB."""

    time_s: float
    image: Image


def iter_frames(
    path: File,
    start_s: float,
    end_s: float,
    fps: float = 6,
    long_side: int = 720,
    *,
    on_corrupt: OnCorrupt | None = None,
) -> Iterator[Frame]:
    """The frames of a window, as MicroAnnotationBench takes them: at ``start_s`` + k / ``fps`` while before ``end_s``.

    The frame at t is the last one that is stamped at most 1e-6 s after t: what is on screen. Time 0 is the clip's first
    frame. Each is turned as the file says, scaled to ``long_side`` (a smaller video is enlarged) with both sides even
    (1920 x 1080 gives 720 x 404), in full range; nothing is drawn. One is decoded at a time.

    ``end_s`` is that of the labels: the last frame stays on screen for 1 / ``fps`` after its end at most. A video that
    ends earlier is a bad clip, :class:`~mabpl.errors.InputError`. ``on_corrupt`` is called with the time of each
    corrupt packet that was met (None: unknown; one may be met twice); the frame before a lost one stays on screen.
    """
    times = frame_times(start_s, end_s, fps)
    if long_side < 2:
        raise UsageError(f"long_side = {long_side} is not possible", "expected 2 pixels or more")
    return _scaled(path, times, 1 / fps, long_side, on_corrupt)


def scaled_size(width: int, height: int, long_side: int) -> tuple[int, int]:
    """(width, height) with the longer side ``long_side`` and both the nearest even number, the lower one of two."""
    long = max(width, height)
    scaled = (2 * max(1, -((long - side * long_side) // (2 * long))) for side in (width, height))
    return next(scaled), next(scaled)


def _scaled(
    file: File, times: list[float], patience_s: float, long_side: int, on_corrupt: OnCorrupt | None
) -> Iterator[Frame]:
    with open_clip(file, on_corrupt) as clip:
        from av.video.reformatter import Interpolation, VideoReformatter

        # Without the two flags white comes out as 253 and colours bleed by a pixel.
        how = Interpolation.BICUBIC | Interpolation.ACCURATE_RND | Interpolation.FULL_CHR_H_INT
        scaler = VideoReformatter()
        width, height = scaled_size(clip.stream.width, clip.stream.height, long_side)
        for time_s, frame in _on_screen(clip, times, patience_s):
            small = scaler.reformat(frame, width, height, "rgb24", interpolation=how, threads=1)
            image = orient(cast("Image", small.to_ndarray()), clip.matrix)
            yield Frame(time_s, np.ascontiguousarray(image))


def _on_screen(clip: Clip, times: list[float], patience_s: float) -> Iterator[tuple[float, VideoFrame]]:
    """Each of ``times`` with the frame on screen then; the last frame stays for ``patience_s`` at most."""
    shown: Shown | None = None
    taken = 0
    for following in clip.frames(times[0]):
        while shown is not None and following.time_s > times[taken] + SLACK_S:
            yield times[taken], shown.frame
            taken += 1
            if taken == len(times):
                return
        shown = following
    for time_s in times[taken:]:
        end_s = shown.end_s if shown is not None else 0.0
        if shown is None or time_s > end_s + patience_s:
            raise ends_early(clip.file, end_s, time_s)
        yield time_s, shown.frame


def orient(image: Image, matrix: tuple[int, int, int, int]) -> Image:
    """``image`` turned by quarters and mirrored as the display matrix says (a view)."""
    a, b, c, d = matrix
    if abs(a) + abs(d) < abs(b) + abs(c):
        image, a, d = image.swapaxes(0, 1), c, b
    return image[:: -1 if d < 0 else 1, :: -1 if a < 0 else 1]
