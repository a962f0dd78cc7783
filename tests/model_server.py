"""A model's endpoint that sees: it reads the frame numbers that test videos carry from what it is sent.

It answers with the true timeline of the frames that it was shown, plus the faults that a test asks for. Clips are told
apart by the shape of their frames.
"""

from __future__ import annotations

import asyncio
import base64
import io
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import av
import numpy as np
import videos
from judge_server import JudgeServer, head
from PIL import Image

RATE = 30
"""Frames a second of the test videos: frame k shows k."""

Timeline = list[tuple[float, float, str]]

TOKENS = {"prompt_tokens": 9_000, "completion_tokens": 400, "completion_tokens_details": {"reasoning_tokens": 300}}


@dataclass(frozen=True)
class Seen:
    """A request: the window's first frame and the last one's end in seconds, by what is on them; the frames' height."""

    start_s: float
    end_s: float
    height: int
    frames: int
    seed: int | None
    attempt: int
    body: dict[str, Any] = field(repr=False, compare=False)

    @property
    def window(self) -> tuple[int, float, int | None]:
        return self.height, self.start_s, self.seed


Act = Callable[[Seen], str]


@dataclass
class ModelServer(JudgeServer):
    """``timelines``: by the height of the frames. ``act``: good, relative, fenced, comma, prose, cut, or a status."""

    timelines: dict[int, Timeline] = field(default_factory=dict)
    act: Act = lambda seen: "good"
    seen: list[Seen] = field(default_factory=list)
    tries: Counter[Any] = field(default_factory=Counter)
    reply: Callable[[dict[str, Any]], str] | None = None

    async def _request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        request = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        fields = {name.lower(): value for name, _, value in (line.partition(": ") for line in request.split("\r\n"))}
        body = json.loads(await reader.readexactly(int(fields["content-length"])))
        self.keys.add(fields.get("authorization", ""))
        if self.reply is not None:
            act, said = "good", self.reply(body)
        else:
            seen = await asyncio.to_thread(self._look, body)
            self.seen.append(seen)
            act = self.act(seen)
            said = self._said(seen, act)
        await asyncio.sleep(self.delay)
        choice = {"finish_reason": "length" if act == "cut" else "stop", "message": {"content": said}}
        usage = TOKENS if self.cost is None else {**TOKENS, "cost": self.cost}
        status = int(act) if act.isdigit() else 200
        reply = json.dumps({"choices": [choice], "usage": usage} if status == 200 else {"error": {"message": "no"}})
        writer.write(head(status, len(reply.encode())) + reply.encode())
        await writer.drain()
        return True

    def _look(self, body: dict[str, Any]) -> Seen:
        images = list(frames_of(body))
        numbers = [videos.read(image) for image in images]
        assert numbers == sorted(numbers)
        start_s, end_s = numbers[0] / RATE, round(numbers[-1] / RATE + 1 / 6, 3)
        key = images[0].shape[0], start_s, body.get("seed")
        self.tries[key] += 1
        return Seen(start_s, end_s, key[0], len(images), key[2], self.tries[key] - 1, body)

    def _said(self, seen: Seen, act: str) -> str:
        shift = seen.start_s if act == "relative" else 0.0
        segments = [
            {"start_s": max(start, seen.start_s) - shift, "end_s": min(end, seen.end_s) - shift, "label": label,
             "is_idle": label == "idle"}
            for start, end, label in self.timelines[seen.height]
            if min(end, seen.end_s) > max(start, seen.start_s)
        ]  # fmt: skip
        text = json.dumps({"segments": segments})
        return {
            "fenced": f"<think>Perhaps {{}}?</think>\n```json\n{text}\n```",
            "comma": text.replace("}]", "},]"),
            "prose": "I see nothing.",
            "cut": text[: text.rindex("{")],
        }.get(act, text)


def frames_of(body: dict[str, Any]) -> Iterator[np.ndarray[Any, np.dtype[np.uint8]]]:
    """The frames that a request shows, grids taken apart."""
    parts = body["messages"][-1]["content"]
    times: list[str] = []
    for part in parts[1:]:
        if part["type"] == "text":
            times = part["text"].split("> <")
        elif part["type"] == "video_url":
            with av.open(io.BytesIO(data_of(part["video_url"]["url"]))) as file:
                yield from (frame.to_ndarray(format="rgb24") for frame in file.decode(video=0))
        else:
            image = np.array(Image.open(io.BytesIO(data_of(part["image_url"]["url"]))))
            if len(times) < 2:
                yield image
                continue
            rows, height, width = -(-len(times) // 2), image.shape[0], image.shape[1] // 2
            for place in range(len(times)):
                row, column = divmod(place, 2)
                top = row * height // rows
                yield image[top : top + height // rows, column * width : (column + 1) * width]


def data_of(uri: str) -> bytes:
    return base64.b64decode(uri.partition(";base64,")[2])
