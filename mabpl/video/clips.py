"""An open video: its frames in the order in which they are shown, timed from the clip's first frame.

Label time 0 is the first frame that is shown, whatever stamp the file gives it: a stream that starts at 0.066 s (as
some encoders with B-frames leave it) or at 2 s does not shift the labels. Frames without stamps are counted.
"""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

from mabpl.errors import InputError, missing_extra, unreadable

if TYPE_CHECKING:
    from av import VideoFrame
    from av.buffer import Buffer
    from av.container import InputContainer
    from av.packet import Packet
    from av.video.stream import VideoStream

File = str | os.PathLike[str]
OnCorrupt = Callable[[float | None], None]

SLACK_S = 1e-6
"""A frame is on screen at t also where it is stamped at most this much later."""

_LOOK_BACK_S = (0.0, 2.0, 10.0, inf)
"""How far before the asked time a keyframe is looked for: files are indexed by when frames are decoded, not shown."""

_BAD_CLIP = "the clip cannot be used: copy or download the video again; `mabpl manifest check` tells which are whole"


class Shown(NamedTuple):
    """A decoded frame, on screen from ``time_s`` to ``end_s``."""

    time_s: float
    end_s: float
    frame: VideoFrame


class Clip:
    """The first video stream of an open file, decoded on one thread: run clips beside each other in processes.

    ``on_corrupt`` is told the time (None where it is unknown) of each packet that is marked as corrupt or cannot be
    decoded. A frame that is lost so is left out: the one before it stays on screen.

    ``matrix``, known once the first frame is: (a, b, c, d), by which a pixel at (x, y) is shown at
    (a x + c y, b x + d y), in 1/65536; the identity where the file does not turn its picture.
    """

    def __init__(self, file: File, container: InputContainer, stream: VideoStream, on_corrupt: OnCorrupt | None):
        self.file = file
        self.container = container
        self.stream = stream
        self.tick_s = float(stream.time_base or 0)
        rate = stream.average_rate or stream.guessed_rate
        self.step_s = float(1 / rate) if rate else 0.0
        self.matrix = (1, 0, 0, 1)
        self._on_corrupt = on_corrupt
        self._origin: int | None = None

    def frames(self, from_s: float = 0.0) -> Iterator[Shown]:
        """All frames from the one on screen at ``from_s``, or from some before it. Can be called once.

        Decodes from a keyframe before ``from_s``, where the frames have stamps to tell which one that is.
        """
        decoded = self._decoded()
        first = next(decoded, None)
        if first is None:
            raise unreadable(self.file, "holds no frame that can be decoded", _BAD_CLIP)
        self._origin, self.matrix = first.pts, _display_matrix(first)
        if self._origin is None or from_s <= 0:
            return self._timed(chain([first], decoded))
        for back_s in _LOOK_BACK_S:
            shown = self._timed(self._decoded_near(from_s - back_s, self._origin))
            begin = next(shown, None)
            if begin is not None and begin.time_s <= from_s + SLACK_S:
                return chain([begin], shown)
        return iter(())

    def packets(self) -> Iterator[Packet[VideoStream]]:
        """The packets of the stream, an empty one last; they end too where the file cannot be read further."""
        import av

        try:
            yield from self.container.demux(self.stream)
        except av.FFmpegError:
            self._tell(None)

    def _decoded(self) -> Iterator[VideoFrame]:
        import av

        for packet in self.packets():
            try:
                frames, corrupt = packet.decode(), packet.is_corrupt
            except av.FFmpegError:
                frames, corrupt = [], True
            if corrupt:
                self._tell(packet.pts)
            yield from frames

    def _decoded_near(self, time_s: float, origin: int) -> Iterator[VideoFrame]:
        """The frames from the keyframe that the file's index gives for ``time_s``."""
        import av

        with contextlib.suppress(av.FFmpegError):  # what cannot be seeked goes on from where it is
            self.container.seek(origin + int(max(time_s, 0.0) / self.tick_s), stream=self.stream)
        yield from self._decoded()

    def _timed(self, frames: Iterable[VideoFrame]) -> Iterator[Shown]:
        """``frames`` with their times; one without a stamp follows the one before it at the stream's rate."""
        previous_s = -self.step_s if self._origin is None else inf
        for frame in frames:
            known = frame.pts is not None and self._origin is not None
            time_s = (frame.pts - self._origin) * self.tick_s if known else previous_s + self.step_s  # type: ignore[operator]
            yield Shown(time_s, time_s + (frame.duration * self.tick_s or self.step_s), frame)
            previous_s = time_s

    def _tell(self, pts: int | None) -> None:
        if self._on_corrupt is not None:
            self._on_corrupt(None if pts is None or self._origin is None else (pts - self._origin) * self.tick_s)


@contextlib.contextmanager
def open_clip(file: File, on_corrupt: OnCorrupt | None = None) -> Iterator[Clip]:
    """Opens a video file.

    Raises :class:`~mabpl.errors.InputError`, with the file's name, for one that is not there, is no video, or is cut
    off (with the second from which it is); :class:`~mabpl.errors.MissingExtra` without PyAV.
    """
    require_pyav()
    import av

    try:
        size = Path(file).stat().st_size
        container = av.open(f"file:{os.fspath(file)}", metadata_errors="ignore")
    except FileNotFoundError:
        raise unreadable(file, "there is no such file") from None
    except av.InvalidDataError:
        raise unreadable(file, "is no video, or is cut off before its index", _BAD_CLIP) from None
    except OSError as error:
        raise unreadable(file, f"cannot be read ({error.strerror or error})") from None
    with container:
        stream = container.streams.best("video")
        if stream is None:
            raise unreadable(file, "holds no video stream", _BAD_CLIP)
        clip = Clip(file, container, cast("VideoStream", stream), on_corrupt)
        clip.stream.codec_context.thread_count = 1
        _refuse_cut_off(clip, size)
        yield clip


def require_pyav() -> None:
    """Raises :class:`~mabpl.errors.MissingExtra` without PyAV."""
    try:
        import av  # noqa: F401
    except ImportError:
        raise missing_extra("av", "video") from None


def _display_matrix(frame: VideoFrame) -> tuple[int, int, int, int]:
    """Not to be asked of every frame: PyAV's side data keep a frame's pixels until garbage is collected."""
    data = cast("Mapping[str, Buffer]", frame.side_data).get("DISPLAYMATRIX")
    if data is None:
        return 1, 0, 0, 1
    a, b, _, c, d, *_ = struct.unpack("=9i", bytes(data))
    return a, b, c, d


def ends_early(file: File, end_s: float, asked_s: float) -> InputError:
    """The error of a video that ends at ``end_s``, where a frame at ``asked_s`` is asked for."""
    return unreadable(file, f"the video ends at {end_s:.3f} s, but a frame at {asked_s:.3f} s is asked for", _BAD_CLIP)


def _refuse_cut_off(clip: Clip, size: int) -> None:
    """Holds the index of the file against its ``size`` in bytes."""
    entries = clip.stream.index_entries
    if len(entries) and entries[-1].pos + entries[-1].size > size:
        lost = next(entry for entry in entries if entry.pos + entry.size > size)
        at_s = (lost.timestamp - entries[0].timestamp) * clip.tick_s
        raise unreadable(
            clip.file, f"the video is cut off at {at_s:.3f} s: its index goes on after {size:,} bytes", _BAD_CLIP
        )
