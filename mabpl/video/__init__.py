"""Videos: windows, the frames that are on screen at given times, and their encodings (extra `video`).

The names are imported when they are first used: windows and times need neither PyAV nor numpy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

_HOME = {
    "Frame": "frames",
    "VideoInfo": "probing",
    "decode_frames": "encoding",
    "encode_mp4": "encoding",
    "frame_grids": "encoding",
    "frame_times": "windowing",
    "iter_frames": "frames",
    "jpeg": "encoding",
    "print_time": "encoding",
    "probe": "probing",
    "window_mp4": "encoding",
    "windows": "windowing",
}

__all__ = sorted(_HOME)

if TYPE_CHECKING:
    from mabpl.video.encoding import decode_frames as decode_frames
    from mabpl.video.encoding import encode_mp4 as encode_mp4
    from mabpl.video.encoding import frame_grids as frame_grids
    from mabpl.video.encoding import jpeg as jpeg
    from mabpl.video.encoding import print_time as print_time
    from mabpl.video.encoding import window_mp4 as window_mp4
    from mabpl.video.frames import Frame as Frame
    from mabpl.video.frames import iter_frames as iter_frames
    from mabpl.video.probing import VideoInfo as VideoInfo
    from mabpl.video.probing import probe as probe
    from mabpl.video.windowing import frame_times as frame_times
    from mabpl.video.windowing import windows as windows


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'mabpl.video' has no attribute {name!r}")
    value = getattr(import_module(f"mabpl.video.{_HOME[name]}"), name)
    globals()[name] = value
    return value
