"""Videos for tests: every frame carries its own number, in blocks that survive compression, scaling and JPEG.

A frame is a grid of 4 x 4 grey blocks: three corners are bright and the lower left is dark (so that a turned or
mirrored picture is seen), the twelve others are the bits of the frame's number.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import numpy.typing as npt

Image = npt.NDArray[np.uint8]

_CORNERS = {(0, 0): True, (0, 3): True, (3, 0): False, (3, 3): True}
_BITS = [(row, column) for row in range(4) for column in range(4) if (row, column) not in _CORNERS]
_DARK, _BRIGHT = 40, 215
NUMBERS = 2 ** len(_BITS)


def draw(number: int, width: int, height: int) -> Image:
    """The picture of ``number``: uint8 (height, width, 3), RGB."""
    cells = np.zeros((4, 4), bool)
    for at, bright in _CORNERS.items():
        cells[at] = bright
    for bit, at in enumerate(_BITS):
        cells[at] = number >> bit & 1
    grey = np.where(cells, _BRIGHT, _DARK).astype(np.uint8)
    rows = np.arange(height) * 4 // height
    columns = np.arange(width) * 4 // width
    return np.repeat(grey[rows][:, columns, None], 3, axis=2)


def read(image: Image) -> int:
    """The number that ``image`` shows; the picture must stand upright."""
    height, width = image.shape[:2]
    cells = np.zeros((4, 4), bool)
    for row, column in np.ndindex(4, 4):
        y, x = (2 * row + 1) * height // 8, (2 * column + 1) * width // 8
        mean = image[y - height // 20 : y + height // 20 + 1, x - width // 20 : x + width // 20 + 1].mean()
        assert mean < 95 or mean > 160, f"block ({row}, {column}) is neither dark nor bright: {mean:.0f}"
        cells[row, column] = mean > 128
    assert all(cells[at] == bright for at, bright in _CORNERS.items()), "the picture does not stand upright"
    return sum(int(cells[at]) << bit for bit, at in enumerate(_BITS))


def make(
    path: Path,
    frames: int,
    rate: Fraction | int = 30,
    size: tuple[int, int] = (160, 96),
    *,
    times: Sequence[float] | None = None,
    pix_fmt: str = "yuv420p",
    turned: int = 0,
    keyframes: int = 30,
    options: dict[str, str] | None = None,
    container: dict[str, str] | None = None,
    codec: str = "libx264",
) -> Path:
    """A video whose frame k shows k, at ``times`` in seconds (by default k / ``rate``).

    ``size``: (width, height) as stored. ``turned``: degrees clockwise by which players turn the picture; the numbers
    are drawn so that they stand upright then. ``keyframes``: every how many frames; B-frames are between them.
    """
    width, height = size
    ticks = 90_000
    with av.open(str(path), "w", container_options=container or {}) as file:
        stream = file.add_stream(
            codec, rate=Fraction(rate), options={"g": str(keyframes), "sc_threshold": "0", **(options or {})}
        )
        stream.width, stream.height, stream.pix_fmt = width, height, pix_fmt
        stream.codec_context.thread_count = 1
        stream.codec_context.time_base = Fraction(1, ticks)
        if turned:
            stream.set_display_rotation(-turned)
        for number in range(frames):
            upright = draw(number % NUMBERS, *((height, width) if turned % 180 else (width, height)))
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(np.rot90(upright, turned // 90)), format="rgb24")
            frame = frame.reformat(format=pix_fmt)
            time = times[number] if times is not None else number / Fraction(rate)
            frame.pts, frame.time_base = round(time * ticks), Fraction(1, ticks)
            file.mux(stream.encode(frame))
        file.mux(stream.encode())
    return path
