"""What is sent about windows, made in processes beside this one: clips in parallel, one thread and one window each."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from importlib.util import find_spec
from multiprocessing import connection, get_context, parent_process
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

from mabpl import video
from mabpl.annotate.messages import Part, Rendered, content, part_of, render
from mabpl.errors import MabplError, missing_extra
from mabpl.judges.types import Question, fingerprint

T = TypeVar("T")

_TRIES = 2
"""A window whose process died is made once more: it may have died of another one's video."""


class _Job(NamedTuple):
    pool: ProcessPoolExecutor
    future: Future[Any]


class Media:
    """Makes what is sent; a window that several questions are about is made once, and held until the last has it.

    ``bad``: why a video cannot be used, by its MD5; its other windows are not tried. ``made``: what a window came to,
    less its parts, by :func:`name_of`. To be closed: use it in a ``with`` statement.
    """

    def __init__(self, processes: int | None = None) -> None:
        for package, name in (("av", "av"), ("pillow", "PIL")):
            if find_spec(name) is None:
                raise missing_extra(package, "video")
        self.processes = processes or os.cpu_count() or 1
        self.made: dict[str, Rendered] = {}
        self.bad: dict[str, str] = {}
        self._paths: Mapping[str, Path] = {}
        self._wanted: Counter[str] = Counter()
        self._ahead: deque[Part] = deque()
        self._jobs: dict[str, _Job] = {}
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def probe(self, paths: Sequence[Path]) -> list[video.VideoInfo | str]:
        """The measure of each video, or why it cannot be used."""

        async def one(path: Path) -> video.VideoInfo | str:
            return await self._result(str(path), video.probe, path)

        async def every() -> list[video.VideoInfo | str]:
            return await asyncio.gather(*map(one, paths))

        return asyncio.run(every())

    def expect(self, questions: Iterable[Question], paths: Mapping[str, Path]) -> None:
        """Says what :meth:`content` will be called for, in order, and where the videos are, by MD5."""
        parts = [part_of(question.body) for question in questions]
        self._paths, self._wanted = paths, Counter(map(name_of, parts))
        self._ahead = deque({name_of(part): part for part in parts}.values())

    async def content(self, question: Question) -> bytes | None:
        """What is sent for ``question``; None where its video cannot be used."""
        part = part_of(question.body)
        name, md5 = name_of(part), part["video"]
        made: Rendered | str = self.bad.get(md5, "")
        made = made or await self._result(name, render, self._paths[md5], part)
        self._wanted[name] -= 1
        if self._wanted[name] <= 0:
            self._jobs.pop(name, None)
        if isinstance(made, str):
            self.bad.setdefault(md5, made)
            return None
        self.made[name] = Rendered(b"", made.media_bytes, made.frames, made.crf, made.corrupt_packets, made.seconds)
        return content(question.body, made.parts)

    def make(self, question: Question) -> bytes | None:
        """As :meth:`content`, one after another, while the next ones are being made."""
        while self._ahead and len(self._jobs) <= self.processes:
            part = self._ahead.popleft()
            if part["video"] not in self.bad and name_of(part) not in self.made:
                self._begun(name_of(part), render, self._paths[part["video"]], part)
        return asyncio.run(self.content(question))

    async def _result(self, name: str, function: Callable[..., T], *arguments: Any) -> T | str:
        """What ``function`` returns, in another process; or why it failed."""
        for _ in range(_TRIES):
            job = self._begun(name, function, *arguments)
            try:
                # the work goes on for those who share it where one who waits is cancelled
                found: T = await asyncio.shield(asyncio.wrap_future(job.future))
                return found
            except MabplError as error:
                return error.message
            except BrokenProcessPool:
                if self._jobs.get(name) is job:
                    del self._jobs[name]
                if self._pool is job.pool:
                    self._pool = None
        return f"{arguments[0]}: the process that decodes it died, twice; is it short of memory?"

    def _begun(self, name: str, function: Callable[..., Any], *arguments: Any) -> _Job:
        if name not in self._jobs:
            if self._pool is None:
                self._pool = ProcessPoolExecutor(self.processes, get_context("spawn"), _begin_worker)
            self._jobs[name] = _Job(self._pool, self._pool.submit(function, *arguments))
        return self._jobs[name]


def name_of(part: Part) -> str:
    """The fingerprint of what is shown, and how."""
    return fingerprint(part)


def _begin_worker() -> None:
    """Ctrl-C is the parent's to heed; and a worker ends with its parent, however that ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    os._exit(1)
