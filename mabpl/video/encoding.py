"""Frames as what models are sent: JPEGs, grids of them, frames with the time printed, a window as one MP4."""

from __future__ import annotations

import io
from collections.abc import Iterable
from fractions import Fraction
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from mabpl.errors import UsageError, missing_extra
from mabpl.video.clips import File, OnCorrupt, require_pyav
from mabpl.video.frames import Frame, Image, iter_frames

if TYPE_CHECKING:
    from av import VideoFrame
    from PIL.Image import Image as Picture

_LIMITED_RANGE, _BT601 = 1, 5
_BT601_IN_STREAM = 6
_TEXT_LINES, _LEAST_TEXT = 14, 12
"""Printed text is a 14th of the picture high, and at least 12 pixels."""


def decode_frames(
    path: File,
    start_s: float,
    end_s: float,
    fps: float = 6,
    long_side: int = 720,
    quality: int = 85,
    *,
    on_corrupt: OnCorrupt | None = None,
) -> list[tuple[float, bytes]]:
    """The frames of a window as (time in seconds of the clip, JPEG); which ones, see :func:`iter_frames`."""
    frames = iter_frames(path, start_s, end_s, fps, long_side, on_corrupt=on_corrupt)
    return [(frame.time_s, jpeg(frame.image, quality)) for frame in frames]


def window_mp4(
    path: File,
    start_s: float,
    end_s: float,
    fps: float = 6,
    long_side: int = 720,
    crf: int = 18,
    *,
    on_corrupt: OnCorrupt | None = None,
) -> bytes:
    """A window as one MP4 of exactly the frames of :func:`iter_frames`; see :func:`encode_mp4`."""
    return encode_mp4(iter_frames(path, start_s, end_s, fps, long_side, on_corrupt=on_corrupt), fps, crf)


def encode_mp4(frames: Iterable[Frame], fps: float = 6, crf: int = 18) -> bytes:
    """``frames`` (of one size, both sides even) as an MP4: libx264, yuv420p, real time at ``fps`` from 0, no sound.

    Colours are BT.601 in limited range and marked so: readers that heed the mark and those that do not agree.
    One thread: the same frames give the same bytes on any machine. Frames are taken one at a time.
    """
    require_pyav()
    import av

    out = io.BytesIO()
    rate = Fraction(fps).limit_denominator(100_000)
    with av.open(out, "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=rate, options={"crf": str(crf)})
        stream.pix_fmt = "yuv420p"
        context = stream.codec_context
        context.thread_count = 1
        context.color_range, context.colorspace = _LIMITED_RANGE, _BT601_IN_STREAM
        count = 0
        for count, (_, image) in enumerate(frames, start=1):
            if count == 1:
                stream.height, stream.width = image.shape[:2]
            container.mux(stream.encode(_yuv(image, count - 1, rate)))
        if not count:
            raise UsageError("no frame to encode")
        container.mux(stream.encode())
    return out.getvalue()


def _yuv(image: Image, number: int, rate: Fraction) -> VideoFrame:
    import av

    frame = av.VideoFrame.from_ndarray(image)
    frame = frame.reformat(format="yuv420p", dst_colorspace=_BT601, dst_color_range=_LIMITED_RANGE, threads=1)
    frame.pts, frame.time_base = number, 1 / rate
    return frame


def jpeg(image: Image, quality: int = 85) -> bytes:
    """``image`` as a JPEG; ``quality`` is libjpeg's, with colours at half the resolution (4:2:0)."""
    out = io.BytesIO()
    _picture(image).save(out, "JPEG", quality=quality)
    return out.getvalue()


def frame_grids(
    frames: Iterable[Frame], columns: int = 2, rows: int = 2, quality: int = 85
) -> list[tuple[list[float], bytes]]:
    """``frames`` (of one size) packed row by row, ``columns`` x ``rows`` an image: (their times, JPEG) for each.

    The last may hold fewer: rows that would be empty are left off, places that stay empty are black. 270 frames give
    68 images, the last of two. Only one image's frames are held.
    """
    if columns < 1 or rows < 1:
        raise UsageError(f"a grid of {columns} x {rows} holds nothing", "expected 1 or more of both")
    remaining = iter(frames)
    grids = []
    while group := list(islice(remaining, columns * rows)):
        height, width, channels = group[0].image.shape
        canvas = np.zeros((-(-len(group) // columns), columns, height, width, channels), np.uint8)
        for place, frame in enumerate(group):
            canvas[divmod(place, columns)] = frame.image
        packed = canvas.swapaxes(1, 2).reshape(canvas.shape[0] * height, columns * width, channels)
        grids.append(([frame.time_s for frame in group], jpeg(packed, quality)))
    return grids


def print_time(image: Image, text: str) -> Image:
    """A copy of ``image`` with ``text`` (a time) in white on black in its upper left corner."""
    from PIL import ImageDraw, ImageFont

    picture = _picture(image)
    draw = ImageDraw.Draw(picture)
    size = max(_LEAST_TEXT, image.shape[0] // _TEXT_LINES)
    font = ImageFont.load_default(size)
    margin = size // 4
    _, _, right, bottom = draw.textbbox((margin, margin), text, font=font)
    draw.rectangle((0, 0, right + margin, bottom + margin), fill="black")
    draw.text((margin, margin), text, font=font, fill="white")
    return np.array(picture)


def _picture(image: Image) -> Picture:
    try:
        import PIL.Image
    except ImportError:
        raise missing_extra("pillow", "video") from None
    return PIL.Image.fromarray(image)
