"""A model's timelines of many clips: every window asked until it has a usable answer, and nothing answered asked again.

The store of answers is the truth: what a run writes is made of it, so a process may be killed at any point. A window
without a usable answer fails its clip, which is told of, left out, and tried again by the next run.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mabpl import video
from mabpl.annotate import usage
from mabpl.annotate.answers import request_of
from mabpl.annotate.media import Media, name_of
from mabpl.annotate.messages import FPS, Layout, Part, messages, part_of, window_part
from mabpl.annotate.outputs import Facts, Output
from mabpl.annotate.parsing import Mode, ParsedWindow, parse_window
from mabpl.annotate.stitching import stitch
from mabpl.judges.client import Outcome, Progress, ask
from mabpl.judges.endpoint import Endpoint
from mabpl.judges.judge import Judge
from mabpl.judges.prompts import Prompt
from mabpl.judges.store import Attempted, Store
from mabpl.judges.types import Question

CALLS = 4
"""For one window, at most, as published."""

LENGTH_S, STRIDE_S = 45.0, 38.0

_WRITING_SHARE = 20
_LEAST_PAUSE_S = 2.0
"""Files are written at most this often, and in a twentieth of the time, while answers come in."""


@dataclass(frozen=True, slots=True)
class Clip:
    """A clip of the set, how long its labels say it is, and its video."""

    clip_id: str
    duration_s: float
    path: Path

    @property
    def windows(self) -> list[tuple[float, float]]:
        return video.windows(self.duration_s, LENGTH_S, STRIDE_S)


@dataclass(frozen=True, slots=True)
class Setup:
    """What is asked, whom, and where it goes.

    ``clips``: those to annotate; ``outs``: the prediction file of each of the model's seeds. ``known``: the ids of all
    clips of the set. ``max_uri_mb`` and ``part_extra``: see :func:`mabpl.annotate.messages.window_part`.
    """

    model: Judge
    prompt: Prompt
    layout: Layout
    set_name: str
    clips: Sequence[Clip]
    known: Sequence[str]
    outs: Mapping[int | None, Path]
    parse_mode: Mode = "strict"
    max_uri_mb: float | None = None
    part_extra: Mapping[str, Any] = field(default_factory=dict)

    def facts(self, seed: int | None) -> Facts:
        """What a report must state, but for the date; no address and no key."""
        unlimited = {key: value for key, value in self.part("", 0.0, 1.0, None).items() if key not in _OF_WINDOW}
        return {
            "model": self.model.model,
            "route": self.model.route,
            "set": self.set_name,
            "generation_seed": seed,
            "sampling": dict(self.model.template),
            "prompt": {"file": self.prompt.name, "source": self.prompt.source, "sha256": self.prompt.sha256},
            "input": {**unlimited, "window_s": LENGTH_S, "stride_s": STRIDE_S},
            "max_uri_mb": self.max_uri_mb,
            "parse_mode": self.parse_mode,
        }

    def part(self, md5: str, start_s: float, end_s: float, max_uri_mb: float | None) -> Part:
        return window_part(self.layout, md5, start_s, end_s, max_uri_mb=max_uri_mb, extra=self.part_extra)


_OF_WINDOW = ("type", "video", "start_s", "end_s")


@dataclass(frozen=True, slots=True)
class Ran:
    """What a run came to. ``bad``: clips whose video cannot be used, and why. ``outcome``: of asking, if any was."""

    outputs: Mapping[int | None, Output]
    bad: Mapping[str, str]
    outcome: Outcome | None

    @property
    def whole(self) -> bool:
        return not self.bad and not any(output.failed for output in self.outputs.values())


@dataclass(frozen=True, slots=True)
class _Asked:
    """A window of a clip, and what is asked about it with a seed."""

    start_s: float
    end_s: float
    question: Question


class Run:
    """The questions of ``setup`` that its prediction files lack, and what the answers in ``store`` make of them.

    ``store`` is open with :func:`mabpl.annotate.answers.parser`. Raises :class:`UsageError` where a prediction file is
    another run's.
    """

    def __init__(self, setup: Setup, store: Store, media: Media) -> None:
        self.setup, self.store, self.media = setup, store, media
        self.outputs = {seed: Output.open(out, setup.facts(seed), setup.known) for seed, out in setup.outs.items()}
        self.wanted = {
            seed: [clip for clip in setup.clips if clip.clip_id not in output.rows]
            for seed, output in self.outputs.items()
        }
        self.bad: dict[str, str] = {}
        self.asked: dict[tuple[int | None, str], list[_Asked]] = defaultdict(list)
        self._made = {seed: output.made() for seed, output in self.outputs.items()}
        self._written = time.monotonic()
        self._pause = _LEAST_PAUSE_S

    def prepare(self) -> list[Question]:
        """Looks at the videos, and returns what is still to be asked: seed by seed of each window, clip by clip."""
        md5s = self._videos()
        every = [
            (seed, clip, window, self._question(md5s[clip.clip_id], window, seed, None))
            for clip in self.setup.clips
            if clip.clip_id in md5s
            for window in clip.windows
            for seed, output in self.outputs.items()
            if clip.clip_id not in output.rows
        ]
        # what was answered without a limit of size needs none
        known = self.store.known(question.key for *_, question in every)
        asked = []
        for seed, clip, window, question in every:
            if self.setup.max_uri_mb is not None and question.key not in known:
                question = self._question(md5s[clip.clip_id], window, seed, self.setup.max_uri_mb)
            self.asked[seed, clip.clip_id].append(_Asked(*window, question))
            asked.append(question)
        known = self.store.known(question.key for question in asked)
        missing = [question for question in asked if question.key not in known]
        paths = {md5s[clip.clip_id]: clip.path for clip in self.setup.clips if clip.clip_id in md5s}
        self.media.expect(missing, paths)
        return missing

    def _videos(self) -> dict[str, str]:
        """The MD5 of the video of each clip that is wanted; one that cannot be used is bad before anything is paid."""
        wanted = {clip.clip_id for clips in self.wanted.values() for clip in clips}
        clips = [clip for clip in self.setup.clips if clip.clip_id in wanted]
        md5s = {}
        for clip, info in zip(clips, self.media.probe([clip.path for clip in clips]), strict=True):
            if isinstance(info, str):
                self.bad[clip.clip_id] = info
            elif video.frame_times(*clip.windows[-1], FPS)[-1] > info.duration_s + 1 / FPS:
                lasts = f"{clip.path}: the video lasts {info.duration_s:.3f} s"
                self.bad[clip.clip_id] = f"{lasts}, the clip {clip.duration_s:.3f} s: it is cut off"
            else:
                md5s[clip.clip_id] = info.md5
        return md5s

    def _question(self, md5: str, window: tuple[float, float], seed: int | None, max_uri_mb: float | None) -> Question:
        part = self.setup.part(md5, *window, max_uri_mb)
        request = request_of(md5, *window, self.setup.prompt.sha256)
        return self.setup.model.question(request, messages(self.setup.prompt.text, part), seed)

    def ask(
        self,
        questions: Iterable[Question],
        endpoint: Endpoint,
        *,
        concurrency: int = 4,
        give_up_after: float = 900.0,
        progress: Callable[[Progress], object] | None = None,
    ) -> Outcome:
        """Asks, and writes the files now and then. Raises what :func:`mabpl.judges.client.ask` does."""

        def tell(now: Progress) -> None:
            if progress is not None:
                progress(now)
            if time.monotonic() - self._written > self._pause:
                self.write()

        return ask(
            questions,
            endpoint,
            self.store,
            concurrency=concurrency,
            per_seed=False,
            calls=CALLS,
            content=self.media.content,
            give_up_after=give_up_after,
            progress=tell,
        )

    def write(self) -> None:
        """Brings the files up to date with the store."""
        began = time.monotonic()
        for seed, output in self.outputs.items():
            for clip in self.wanted[seed]:
                if clip.clip_id not in output.rows:
                    self._gather(seed, output, clip)
            output.write(len(self.setup.known))
        self._written = time.monotonic()
        self._pause = max(_LEAST_PAUSE_S, _WRITING_SHARE * (self._written - began))

    def result(self, outcome: Outcome | None) -> Ran:
        return Ran(self.outputs, self.bad, outcome)

    def _gather(self, seed: int | None, output: Output, clip: Clip) -> None:
        """Finishes a clip, or says why it is not finished."""
        asked = self.asked[seed, clip.clip_id]
        tried: dict[str, list[Attempted]] = defaultdict(list)
        for attempt in self.store.attempts(one.question.key for one in asked):
            tried[attempt.key].append(attempt)
        rows, read = [], []
        for one in asked:
            attempts = tried[one.question.key]
            made = self._made_of(seed, one.question)
            rows += [
                usage.usage_row(clip.clip_id, one.start_s, one.end_s, number, attempt, made)
                for number, attempt in enumerate(attempts, start=1)
            ]
            read.append((one, attempts, self._standing(one, attempts)))
        output.used[clip.clip_id] = rows
        md5 = part_of(asked[0].question.body)["video"] if asked else None
        if md5 in self.media.bad:
            self.bad[clip.clip_id] = self.media.bad[md5]
        failures = [
            _why(one, attempts, parsed) for one, attempts, parsed in read if parsed is None or not parsed.segments
        ]
        if clip.clip_id in self.bad:
            output.failed[clip.clip_id] = self.bad[clip.clip_id]
        elif failures:
            output.failed[clip.clip_id] = "; ".join(failures)
        else:
            timelines = [(one.start_s, one.end_s, parsed.segments) for one, _, parsed in read if parsed is not None]
            repairs = sum(len(parsed.repairs) for _, _, parsed in read if parsed is not None)
            output.finish(clip.clip_id, stitch(timelines, clip.duration_s).segments, repairs)

    def _standing(self, one: _Asked, attempts: Sequence[Attempted]) -> ParsedWindow | None:
        """What the last usable answer says, else the last answer; null if there is none."""
        usable = [attempt for attempt in attempts if attempt.verdict.status == "ok"]
        answered = usable or [attempt for attempt in attempts if attempt.outcome in ("answered", "imported")]
        if not answered:
            return None
        return parse_window(answered[-1].verdict.reply, one.start_s, one.end_s, mode=self.setup.parse_mode)

    def _made_of(self, seed: int | None, question: Question) -> Mapping[str, Any]:
        rendered = self.media.made.get(name_of(part_of(question.body)))
        return usage.made_fields(rendered) if rendered else self._made[seed].get(question.key, {})


def _why(one: _Asked, attempts: Sequence[Attempted], parsed: ParsedWindow | None) -> str:
    """Why a window has no usable answer."""
    window = f"window {one.start_s:g}-{one.end_s:g} s"
    if not attempts:
        return f"{window}: not asked yet"
    counts = Counter(
        attempt.verdict.status if attempt.outcome == "answered" else _trouble(attempt) for attempt in attempts
    )
    said = ", ".join(f"{what} x{count}" if count > 1 else what for what, count in counts.items())
    return f"{window}: {said}" + (f" ({parsed.hint})" if parsed is not None and parsed.hint else "")


def _trouble(attempt: Attempted) -> str:
    return f"HTTP {attempt.http_status}" if attempt.http_status not in (None, 200) else attempt.outcome


def run(
    setup: Setup,
    store: Store,
    endpoint: Endpoint | None,
    *,
    concurrency: int = 4,
    processes: int | None = None,
    give_up_after: float = 900.0,
    progress: Callable[[Progress], object] | None = None,
) -> Ran:
    """Asks what is missing, and writes the prediction files with all that is finished.

    Args:
        setup: what is asked.
        store: open with :func:`mabpl.annotate.answers.parser`, in the mode of ``setup``.
        endpoint: whom to ask; null to make what the store holds.
        concurrency: requests in flight, all seeds together; at most twice as many are held in memory.
        processes: that decode videos; by default one for each core.
        give_up_after: seconds without a single answer after which a failing endpoint is given up.
        progress: called after every attempt and every settled window.

    The files are written too where it ends early: with an error of the endpoint (:class:`ServiceError`), or by Ctrl-C.
    """
    with Media(processes) as media:
        this = Run(setup, store, media)
        questions = this.prepare()
        outcome = None
        try:
            if questions and endpoint is not None:
                outcome = this.ask(
                    questions, endpoint, concurrency=concurrency, give_up_after=give_up_after, progress=progress
                )
        finally:
            this.write()
        return this.result(outcome)
