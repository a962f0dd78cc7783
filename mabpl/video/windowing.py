"""Which windows a clip is cut into, and at which times a window's frames are taken. All times are seconds."""

from __future__ import annotations

import math

from mabpl.errors import UsageError

_DECIMALS = 6
"""Times are exact to the microsecond: a product of seconds is rounded to it, so that no window hangs on float noise."""


def windows(duration_s: float, length_s: float = 45.0, stride_s: float = 38.0) -> list[tuple[float, float]]:
    """The windows (start, end) of a clip, as MicroAnnotationBench cuts it.

    They start at 0, ``stride_s``, 2 ``stride_s``, ... and stop with the first that reaches the clip's end, where it is
    cut: 70.5 s give (0, 45) and (38, 70.5); 45 s give one. ``duration_s`` is that of the labels, not of the file.
    Raises :class:`UsageError` for times that are not above 0, and for a stride that would leave time uncovered.
    """
    if not (0 < duration_s < math.inf and 0 < length_s < math.inf):
        raise UsageError(f"no windows of {length_s} s in a clip of {duration_s} s", "expected seconds above 0")
    if not 0 < stride_s <= length_s:
        raise UsageError(
            f"a window of {length_s} s every {stride_s} s does not cover the clip", "expected 0 < stride <= length"
        )
    found: list[tuple[float, float]] = []
    while not found or found[-1][1] < duration_s:
        start_s = round(len(found) * stride_s, _DECIMALS)
        found.append((start_s, min(round(start_s + length_s, _DECIMALS), float(duration_s))))
    return found


def frame_times(start_s: float, end_s: float, fps: float = 6) -> list[float]:
    """``start_s`` + k / ``fps`` while before ``end_s``: 270 times in 45 s at 6 a second.

    Counted, not added up: float noise neither adds nor loses the last one. Raises :class:`UsageError` where there
    is no time between ``start_s`` and ``end_s``.
    """
    if not (0 <= start_s < end_s < math.inf and 0 < fps < math.inf):
        raise UsageError(
            f"no frames from {start_s} s to {end_s} s at {fps} a second", "expected 0 <= start < end, and fps > 0"
        )
    count = max(1, math.ceil((end_s - start_s) * fps - 1e-6))
    return [start_s + k / fps for k in range(count)]
