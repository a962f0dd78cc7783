"""Does an endpoint see every frame that it is sent, and does it tell times of the full clip?

It is shown five seconds from the middle of a generated clip, in the same way as a run's windows. Every frame carries
another number, which it is to write down with its time: numbers that nobody can guess, unlike times, show what was
seen. The answers are kept in a store of their own that is thrown away.
"""

from __future__ import annotations

import random
import statistics
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from mabpl import video
from mabpl.annotate.messages import FPS, PROMPTS, Layout, content, messages, render, window_part
from mabpl.judges import parsing
from mabpl.judges.answers import objects
from mabpl.judges.client import ask
from mabpl.judges.endpoint import Endpoint
from mabpl.judges.judge import Judge
from mabpl.judges.prompts import load_prompts
from mabpl.judges.store import Attempted, Store
from mabpl.judges.store_reading import Parser
from mabpl.judges.types import Question, Request, Verdict
from mabpl.video.frames import Frame, Image

START_S, END_S = 38.0, 43.0
_CALLS = 2
_NEAR_S = 0.5
_MOST = 0.9
"""Of the numbers that are to be seen, and of the times that are to be right, so many must be."""

_TASK = """This is a test of how well you see. {window}

Each frame shows one number of three digits, and no two frames show the same one. Write down every number that \
you see, in order, with the second of the full clip at which it is shown. Leave none out and guess none.

Answer with one JSON object and nothing else:
{{"frames": [{{"number": <number>, "time_s": <number>}}, ...]}}
"""


@dataclass(frozen=True, slots=True)
class Clock:
    """What was seen. ``frames_sent``, ``frames_seen``: numbers that were shown, and that came back right.

    ``wrong``: numbers that were never shown. ``times``: absolute, relative to the window's start, unclear, or none.
    ``error_s``: median of the times less the true ones. ``state``: failed where there was no answer.
    """

    state: Literal["fine", "doubtful", "failed"]
    layout: Layout
    frames_sent: int
    frames_seen: int
    wrong: int
    times: Literal["absolute", "relative", "unclear", "none"]
    error_s: float | None
    tokens_in: int | None
    cost: float | None
    seconds: float | None
    said: str

    @property
    def fps_seen(self) -> float:
        return self.frames_seen / (END_S - START_S)

    def lines(self) -> Iterator[str]:
        """In words, with what to do."""
        if self.state == "failed":
            yield f"failed: no usable answer ({self.said})"
            return
        seen = f"{self.frames_seen} of {self.frames_sent} frames seen"
        yield f"{self.state}: {seen}, {self.fps_seen:.1f} a second of {FPS}"
        if self.frames_seen < _MOST * self.frames_sent:
            if self.layout == "mp4":
                yield "  fewer frames may be taken of a video: try --video-part-extra '{\"fps\": 6}', or --input frames"
            else:
                yield "  is there a limit of images for each request? try --input grids, or mp4"
        if self.wrong:
            yield f"  {self.wrong} numbers were written down that no frame shows"
        if self.times != "none":
            yield f"times are {self.times}, off by {self.error_s:+.2f} s (median)"
        if self.times == "relative":
            yield "  they count from the window's start; a run shifts an answer whose times all do"
        if self.tokens_in:
            yield f"{self.tokens_in:,} tokens in, {self.tokens_in / self.frames_sent:.0f} for each frame that was sent"


def check(
    model: Judge,
    endpoint: Endpoint,
    layout: Layout,
    *,
    part_extra: Mapping[str, Any] | None = None,
    give_up_after: float = 60.0,
) -> Clock:
    """Shows ``model`` the numbers in ``layout``. Raises what :func:`mabpl.judges.client.ask` does."""
    with tempfile.TemporaryDirectory(prefix="mabpl-") as folder:
        path = Path(folder) / "clock.mp4"
        path.write_bytes(video.encode_mp4(_frames(), FPS))
        part = window_part(layout, video.probe(path).md5, START_S, END_S, extra=part_extra)
        parts = render(path, part).parts
        seed = model.seeds[0]
        prompt = load_prompts(names=[PROMPTS[layout]])[PROMPTS[layout]]
        task = _TASK.format(window=prompt.split("\n\n")[1])
        question = model.question(Request("clock", parsing.WINDOW, "clock", layout), messages(task, part), seed)

        async def sent(question: Question) -> bytes:
            return content(question.body, parts)

        with Store.open(Path(folder) / "answers", parser=Parser(1, _parse)) as store:
            ask([question], endpoint, store, concurrency=1, calls=_CALLS, content=sent, give_up_after=give_up_after)
            attempts = list(store.attempts([question.key]))
    return _judged(layout, attempts[-1] if attempts else None)


def numbers() -> dict[int, float]:
    """The numbers that are shown -> the time of each, in seconds of the clip."""
    times = video.frame_times(START_S, END_S, FPS)
    return dict(zip(random.Random(1).sample(range(100, 1000), len(times)), times, strict=True))


def draw(number: int) -> Image:
    """A frame that shows ``number``, large, and leaves the upper left corner free for a printed time."""
    picture = np.full((404, 720, 3), 60, np.uint8)
    small = video.print_time(np.zeros((22, 40, 3), np.uint8), str(number))
    large = np.kron(small, np.ones((15, 15, 1), np.uint8))
    picture[60 : 60 + large.shape[0], 110 : 110 + large.shape[1]] = large
    return picture


def _frames() -> Iterator[Frame]:
    blank = np.full((404, 720, 3), 60, np.uint8)
    for time_s in video.frame_times(0.0, START_S, FPS):
        yield Frame(time_s, blank)
    for number, time_s in numbers().items():
        yield Frame(time_s, draw(number))


def _parse(kind: str, body: bytes, texts: Iterable[str]) -> Verdict:
    said = parsing.parse(kind, body, texts)
    if said.status != "ok" or _read(said.reply):
        return said
    return Verdict("no_json", reply=said.reply)


def _read(reply: str) -> list[tuple[int, float | None]]:
    """(number, time) as they are written down last."""
    found: list[tuple[int, float | None]] = []
    for candidate in objects(reply, lambda value: value if isinstance(value.get("frames"), list) else None):
        if candidate.value is not None and not candidate.cut:
            rows = [row for row in candidate.value["frames"] if isinstance(row, dict)]
            found = [
                (row["number"], float(row["time_s"]) if isinstance(row.get("time_s"), int | float) else None)
                for row in rows
                if isinstance(row.get("number"), int)
            ]
    return found


def _judged(layout: Layout, last: Attempted | None) -> Clock:
    true = numbers()
    told = dict(_read(last.verdict.reply)) if last else {}
    seen = [number for number in told if number in true]
    errors = [time_s - true[number] for number in seen if (time_s := told[number]) is not None]
    times: Literal["absolute", "relative", "unclear", "none"] = "none"
    if errors:
        absolute = sum(abs(error) <= _NEAR_S for error in errors) / len(errors)
        relative = sum(abs(error + START_S) <= _NEAR_S for error in errors) / len(errors)
        times = "absolute" if absolute >= _MOST else "relative" if relative >= _MOST else "unclear"
    state: Literal["fine", "doubtful", "failed"] = "doubtful"
    if not told:
        state = "failed"
    elif len(seen) >= _MOST * len(true) and len(told) == len(seen) and times == "absolute":
        state = "fine"
    median = statistics.median(errors) if errors else None
    wrong = len(told) - len(seen)
    said = last.verdict.status if last and not told else ""
    took = (last.tokens_in, last.cost, last.seconds) if last else (None, None, None)
    return Clock(state, layout, len(true), len(seen), wrong, times, median, *took, said)
