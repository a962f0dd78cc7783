"""A judge's endpoint that misbehaves as real ones do, on a thread of its own, and keeps the bill.

What it does with an attempt is a function of the question, the judge seed and the number of the attempt alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import email.utils
import hashlib
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

Script = Callable[[str, int | None, int], str]
"""(question, judge seed, attempt from 0) -> the name of one of ``ACTS``."""

GOOD = '{"score": 88, "equivalent": true}'
DRAFT = '{"score": 3, "equivalent": false}'

REPLIES: dict[str, dict[str, Any]] = {
    "good": {"message": {"content": GOOD}},
    "draft": {"message": {"content": f"<think>Perhaps {DRAFT}? No.</think>{GOOD}"}},
    "reasoning": {"message": {"content": GOOD, "reasoning_content": f"Perhaps {DRAFT}? No."}},
    "null": {"message": {"content": None, "reasoning": "Well, "}, "finish_reason": "length"},
    "wrong_json": {"message": {"content": '{"score": 88, "equivalent":'}},
    "bad_value": {"message": {"content": '{"score": true, "equivalent": "yes"}'}},
}
VERDICTS = {"good", "draft", "reasoning", "drip"}
ANSWERED = {*REPLIES, "drip", "html", "endless"}
UNSURE = {"half", "reset", "hang_up", "wrong_length", "stall", "silent", "trickle", "502", "504"}
BUSY = {"429", "429_date", "503", "529"}
ACTS = ANSWERED | UNSURE | BUSY
"""Besides these, any HTTP status is an act."""

UNBILLED = {*BUSY, "502", "504"}
TOKENS = {"prompt_tokens": 700, "completion_tokens": 40, "completion_tokens_details": {"reasoning_tokens": 30}}


@dataclass(frozen=True)
class Bill:
    question: str
    seed: int | None
    attempt: int
    act: str
    billed: bool


@dataclass
class JudgeServer:
    """``ledger`` has every attempt that arrived, ``peak`` how many were in flight at once, in all (None) and by seed.

    ``delay``: seconds before it answers. ``together``: it answers the first few, and then nobody before so many were in
    flight at once.
    ``places``: it turns away with 429 whoever comes while so many are in flight.
    """

    script: Script = lambda question, seed, attempt: "good"
    delay: float = 0.0
    together: int = 0
    places: int | None = None
    cost: float | None = None
    ledger: list[Bill] = field(default_factory=list)
    peak: Counter[object] = field(default_factory=Counter)
    keys: set[str] = field(default_factory=set)
    url: str = ""

    def __post_init__(self) -> None:
        self._attempts: Counter[tuple[str, int | None]] = Counter()
        self._in_flight: Counter[object] = Counter()
        self._connections: set[asyncio.Task[Any] | None] = set()
        self._assembled = False

    @contextlib.contextmanager
    def running(self) -> Iterator[JudgeServer]:
        ready = threading.Event()
        thread = threading.Thread(target=lambda: asyncio.run(self._serve(ready)))
        thread.start()
        ready.wait()
        try:
            yield self
        finally:
            self._loop.call_soon_threadsafe(self._stop.set)
            thread.join()

    async def _serve(self, ready: threading.Event) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        async with await asyncio.start_server(self._connection, "127.0.0.1", 0, backlog=1000) as server:
            self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
            ready.set()
            await self._stop.wait()
            for connection in self._connections:
                connection.cancel()
            await asyncio.gather(*self._connections, return_exceptions=True)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections.add(asyncio.current_task())
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            while await self._request(reader, writer):
                pass
        self._connections.discard(asyncio.current_task())
        writer.close()

    async def _request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answers one request; false: the connection is done for."""
        if await reader.readexactly(1) != b"P":  # not even HTTP
            writer.write(head(400, 0))
            return False
        request = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        fields = {name.lower(): value for name, _, value in (line.partition(": ") for line in request.split("\r\n"))}
        body = json.loads(await reader.readexactly(int(fields["content-length"])))
        self.keys.add(fields.get("authorization", ""))
        question, seed = body["messages"][-1]["content"], body.get("seed")
        self._in_flight.update([None, seed])
        self.peak |= self._in_flight
        try:
            crowded = self.places is not None and self._in_flight[None] > self.places
            attempt = self._attempts[question, seed]
            act = "429" if crowded else self.script(question, seed, attempt)
            self._attempts[question, seed] += not crowded
            billed = act not in UNBILLED and not act.isdigit()
            self.ledger.append(Bill(question, seed, attempt, act, billed))
            self._assembled = self._assembled or self._in_flight[None] >= self.together
            while not self._assembled and len(self.ledger) > 4:
                await asyncio.sleep(0.001)
            await asyncio.sleep(self.delay)
            return await self._act(act, fields.get("authorization", ""), writer)
        finally:
            self._in_flight.subtract([None, seed])

    async def _act(self, act: str, key: str, writer: asyncio.StreamWriter) -> bool:
        choice = REPLIES.get(act, REPLIES["good"])
        usage = TOKENS if self.cost is None else {**TOKENS, "cost": self.cost}
        body = json.dumps({"choices": [{"finish_reason": "stop", **choice}], "usage": usage}).encode()
        match act:
            case "html":
                body = b"<!doctype html><html><style>p {}</style><body><p>Welcome!</p></body></html>"
            case "endless":
                writer.write(head(200, 10**12))
                while True:
                    writer.write(b" " * 10_000)
                    await writer.drain()
            case "half" | "stall":
                writer.write(head(200, len(body)) + body[: len(body) // 2])
                await asyncio.sleep(30 if act == "stall" else 0)
                return False
            case "wrong_length":
                writer.write(head(200, len(body) + 7) + body)
                return False
            case "reset":
                writer.transport.abort()
                return False
            case "hang_up":
                return False
            case "silent":
                await asyncio.sleep(30)
            case "drip" | "trickle":
                writer.write(head(200, len(body)))
                for start in range(0, len(body), 5):
                    writer.write(body[start : start + 5])
                    await asyncio.sleep(0.0002 if act == "drip" else 0.05)
                return True
        status = int(act[:3]) if act[:3].isdigit() else 200
        if status != 200:
            said = f"no, says {status} to \x1b[31m{key.removeprefix('Bearer ')}\x1b[0m"
            body = json.dumps({"error": {"message": said, "type": "x"}}).encode()
        wait = {"429": "0.005", "429_date": email.utils.formatdate(time.time() + 2, usegmt=True)}.get(act)
        writer.write(head(status, len(body), *[f"Retry-After: {wait}"] * (wait is not None)) + body)
        await writer.drain()
        return True


def head(status: int, length: int, *fields: str) -> bytes:
    lines = [f"HTTP/1.1 {status} x", "Content-Type: application/json", f"Content-Length: {length}", *fields]
    if 300 <= status < 400:
        lines.append("Location: /v2/chat/completions")
    return "\r\n".join([*lines, "", ""]).encode()


def chaos(shares: dict[str, int], good_from: int = 4) -> Script:
    """So many in a hundred attempts do each act, the rest, and every attempt from ``good_from`` on, are good."""

    def script(question: str, seed: int | None, attempt: int) -> str:
        if attempt >= good_from:
            return "good"
        draw = int.from_bytes(hashlib.blake2b(f"{question} {seed} {attempt}".encode(), digest_size=4).digest()) % 100
        for act, share in shares.items():
            draw -= share
            if draw < 0:
                return act
        return "good"

    return script
