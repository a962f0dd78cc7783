"""What a model is sent about a window: the prompt, and the window as one MP4, frames, grids, or with printed times.

A question about a window *names* what of the video is shown and how (:func:`window_part`), so that it can be told from
others, found again and kept without the pixels. What is sent is made of it when its turn comes (:func:`render`,
:func:`content`).
"""

from __future__ import annotations

import base64
import math
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from mabpl import video
from mabpl.annotate.dialects import merged
from mabpl.errors import MabplError, unreadable

Layout = Literal["mp4", "frames", "grids", "printed"]

PROMPTS: dict[Layout, str] = {
    "mp4": "segmentation_prompt_mp4.txt",
    "frames": "segmentation_prompt_timestamped_frames.txt",
    "grids": "segmentation_prompt_timestamped_frames.txt",
    "printed": "segmentation_prompt_printed_timestamps.txt",
}
"""The layouts, and the file of the prompt that goes with each."""

FPS = 6
LONG_SIDE = 720
QUALITY = 85
CRF = 18
_WORST_CRF = 51
_GRID = 2
_MEGABYTE = 1e6

Part = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Rendered:
    """What was made of a window. ``parts``: the parts of a message's content, as JSON without brackets.

    ``media_bytes``: of the MP4, or of all images. ``crf``: of the MP4, null for images. ``corrupt_packets``: met while
    decoding; the frame before a lost one stands in its place. ``seconds``: it took.
    """

    parts: bytes
    media_bytes: int
    frames: int
    crf: int | None
    corrupt_packets: int
    seconds: float


def window_part(
    layout: Layout,
    md5: str,
    start_s: float,
    end_s: float,
    *,
    max_uri_mb: float | None = None,
    extra: Mapping[str, Any] | None = None,
) -> Part:
    """Names the window from ``start_s`` to ``end_s`` of the video with this ``md5``, and how it is shown.

    ``max_uri_mb``: the largest data URI of an MP4, in 10**6 bytes; one that is larger is encoded again at a higher CRF.
    ``extra``: merged into the MP4's part.
    """
    part: Part = {"type": "window", "layout": layout, "video": md5, "start_s": start_s, "end_s": end_s, "fps": FPS}
    part |= {"long_side": LONG_SIDE, **({"crf": CRF} if layout == "mp4" else {"quality": QUALITY})}
    if layout == "mp4" and max_uri_mb is not None:
        part["max_uri_mb"] = max_uri_mb
    if layout == "mp4" and extra:
        part["extra"] = dict(extra)
    return part


def messages(prompt: str, part: Part) -> list[dict[str, Any]]:
    """One user message: ``prompt`` with its placeholders filled, then the window."""
    values = {"<cs>": seconds(part["start_s"]), "<ce>": seconds(part["end_s"]), "<fps>": str(part["fps"])}
    for placeholder, value in values.items():
        prompt = prompt.replace(placeholder, value)
    return [{"role": "user", "content": [{"type": "text", "text": prompt}, part]}]


def seconds(value: float) -> str:
    """A time as prompts state it, to the microsecond: 38.0, 70.5."""
    return str(round(float(value), 6))


def part_of(body: Mapping[str, Any]) -> Part:
    """The part of a question's ``body`` that names its window."""
    part: Part = body["messages"][-1]["content"][-1]
    return part


def content(body: Mapping[str, Any], parts: bytes) -> bytes:
    """``body`` as JSON, with ``parts`` in the place of the name of its window."""
    *before, last = body["messages"]
    sent = {**last, "content": [*last["content"][:-1], msgspec.Raw(parts)]}
    return msgspec.json.encode({**body, "messages": [*before, sent]})


def render(path: str | os.PathLike[str], part: Part) -> Rendered:
    """Makes what ``part`` names of the video at ``path``.

    Raises :class:`~mabpl.errors.InputError`, with the file's name, for a video that cannot be decoded there.
    """
    began = time.perf_counter()
    corrupt: list[float | None] = []
    try:
        if part["layout"] == "mp4":
            data, crf = _mp4(path, part, corrupt)
            uri = {"url": _uri("video/mp4", data)}
            made = [merged({"type": "video_url", "video_url": uri}, part.get("extra", {}))]
            size, frames = len(data), len(video.frame_times(part["start_s"], part["end_s"], part["fps"]))
        else:
            crf, size, frames, made = None, 0, 0, []
            for times, image in _images(path, part, corrupt):
                size, frames = size + len(image), frames + len(times)
                if part["layout"] != "printed":
                    made.append({"type": "text", "text": " ".join(f"<{_time(t)} seconds>" for t in times)})
                made.append({"type": "image_url", "image_url": {"url": _uri("image/jpeg", image), "detail": "high"}})
    except MabplError:
        raise
    except Exception as error:  # of a codec: a fault of this video, which must not end the others' run
        raise unreadable(path, f"cannot be decoded ({type(error).__name__}: {error})") from None
    return Rendered(msgspec.json.encode(made)[1:-1], size, frames, crf, len(corrupt), time.perf_counter() - began)


def _mp4(path: str | os.PathLike[str], part: Part, corrupt: list[float | None]) -> tuple[bytes, int]:
    """The window as an MP4, and its CRF: the given one, or a higher one where the data URI would be too large."""
    crf, limit = part["crf"], part.get("max_uri_mb", math.inf) * _MEGABYTE
    window = part["start_s"], part["end_s"], part["fps"], part["long_side"]
    while True:
        corrupt.clear()
        data = video.window_mp4(path, *window, crf, on_corrupt=corrupt.append)
        size = len(_uri("video/mp4", data))
        if size <= limit:
            return data, crf
        if crf == _WORST_CRF:
            raise unreadable(
                path,
                f"the window at {window[0]} s needs {size / _MEGABYTE:.2f} MB even at CRF {crf}",
                "raise --max-uri-mb, or send images",
            )
        crf = min(_WORST_CRF, crf + max(1, math.ceil(6 * math.log2(size / limit))))  # 6 more halve the size, about


def _images(
    path: str | os.PathLike[str], part: Part, corrupt: list[float | None]
) -> Iterator[tuple[list[float], bytes]]:
    """(times, JPEG) of each image."""
    window = part["start_s"], part["end_s"], part["fps"], part["long_side"]
    frames = video.iter_frames(path, *window, on_corrupt=corrupt.append)
    if part["layout"] == "grids":
        yield from video.frame_grids(frames, _GRID, _GRID, part["quality"])
        return
    for at, image in frames:
        shown = video.print_time(image, f"{_time(at)} s") if part["layout"] == "printed" else image
        yield [at], video.jpeg(shown, part["quality"])


def _time(at: float) -> str:
    """A frame's time as it is told: to the millisecond."""
    return str(round(at, 3))


def _uri(kind: str, data: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"
