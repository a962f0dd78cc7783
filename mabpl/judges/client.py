"""Asking a judge: every question until it has a verdict, every answer kept before it is read, no call made twice.

This is the one place that decides to ask again:

- turned away unbilled (429, 503, 529, no connection): until nothing was answered for ``give_up_after`` seconds;
- maybe billed (other 5xx, a time-out, a lost connection) or billed without a verdict: 1 + 5 calls in all;
- rejected (a wrong key, model or request): not at all, and a few equal rejections stop the run.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import msgspec

from mabpl.errors import ServiceError, UsageError
from mabpl.judges import retry, transport
from mabpl.judges.claims import Claims
from mabpl.judges.endpoint import Endpoint
from mabpl.judges.interrupts import interrupts
from mabpl.judges.pace import Pace
from mabpl.judges.retry import Fate
from mabpl.judges.store import Store
from mabpl.judges.transport import Attempt
from mabpl.judges.types import Answer, Question

CALLS = 6
"""Calls for one question that are or may be billed, at most, unless told otherwise: the first and five more."""

Content = Callable[[Question], Awaitable[bytes | None]]
"""What is sent for a question, made when its turn comes; None where it turns out that it cannot be made."""

_EQUAL_REJECTIONS = 3
"""Rejections with one status, and no answer between, that stop a run."""
_EQUAL_REJECTIONS_OF_REQUESTS = 10
"""The same for statuses that may be about one request only: its length, what it speaks of."""
_OF_REQUESTS = {400, 413, 422}

_FRUITLESS = 50
"""Questions given up without a verdict that stop a run which has none at all."""

_ELSEWHERE_S = 1.0
"""How often a run whose own questions are done looks for those that another process is asking."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is. ``done`` of ``total`` questions are settled, here, earlier or by another process; ``rate`` is
    settled here per second; ``errors`` counts what went wrong by kind, ``last_error`` is the latest in words; ``cost``
    is of this run; ``seconds_left`` is null until something is settled."""

    done: int
    total: int
    rate: float
    errors: dict[str, int]
    last_error: str
    cost: float
    seconds_left: float | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run did.

    Questions: ``asked`` at least once here, of which ``ok`` have a verdict and ``failed`` were given up. ``left`` are
    without a verdict and not failed: the run was stopped, the budget is used up, or another process has them.
    Calls: ``billed`` were answered; ``ambiguous`` may have been billed. ``cost``: as the replies or the price tell.
    ``over_budget``: some are left for want of budget. ``interrupted``: by Ctrl-C. ``open``: keys whose call the second
    Ctrl-C broke off; it may have been billed.
    """

    asked: int = 0
    ok: int = 0
    failed: int = 0
    left: int = 0
    over_budget: bool = False
    billed: int = 0
    ambiguous: int = 0
    cost: float = 0.0
    errors: dict[str, int] = field(default_factory=dict)
    interrupted: bool = False
    open: tuple[str, ...] = ()


def ask(
    questions: Iterable[Question],
    endpoint: Endpoint,
    store: Store,
    *,
    concurrency: int = 25,
    per_seed: bool = True,
    calls: int | None = None,
    content: Content | None = None,
    give_up_after: float = 900.0,
    progress: Callable[[Progress], object] | None = None,
) -> Outcome:
    """Asks the questions that ``store`` has no verdict for; its answers are in the store when this returns.

    Args:
        questions: in the order in which they are to be asked; of several with one key the first.
        endpoint: whom to ask.
        store: claims the questions, so that processes that share it share the work, keeps each answer, and reads it.
        concurrency: requests in flight for each judge seed, at most; fewer while the endpoint is overloaded.
        per_seed: each judge seed has places of its own; otherwise all share ``concurrency``.
        calls: for one question, at most; by default ``CALLS``.
        content: makes what is sent; by default the question's body as JSON. At most twice as many as there are places
            are held in memory. A question that has none is left.
        give_up_after: seconds without a single answer after which a failing endpoint is given up.
        progress: called after every attempt and every settled question.

    The first Ctrl-C ends asking and waits for the calls that are under way, which are paid; the second breaks them
    off. Works inside a running event loop (a notebook) too, on a thread of its own.

    Raises:
        ServiceError: the endpoint rejects what it is sent, gives no verdict at all, or does not answer; everything
            answered is kept, and asking again goes on from there.
    """
    if concurrency < 1:
        raise UsageError(f"concurrency = {concurrency} is not possible", "expected a whole number, 1 or more")
    manner = _Manner(concurrency, per_seed, calls or CALLS, content or _as_it_is, give_up_after)
    run = _Run(questions, endpoint, store, manner, progress)
    with interrupts(run.interrupt):
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(run.all())
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(asyncio.run, run.all()).result()


async def _as_it_is(question: Question) -> bytes:
    return msgspec.json.encode(question.body)


@dataclass(frozen=True, slots=True)
class _Manner:
    """How :func:`ask` was told to ask."""

    concurrency: int
    per_seed: bool
    calls: int
    content: Content
    give_up_after: float


class _Lane:
    """The questions of one judge seed: those that wait, those that are claimed, and a place for each in flight."""

    def __init__(self, questions: Iterable[Question], concurrency: int) -> None:
        self.waiting = deque(questions)
        self.claimed: deque[Question] = deque()
        self.places = asyncio.Semaphore(concurrency)
        self.refilling = asyncio.Lock()


class _Run:
    """One call of :func:`ask`. Its tasks are cancelled by :meth:`stop` wherever they wait, but for a call under way."""

    def __init__(
        self,
        questions: Iterable[Question],
        endpoint: Endpoint,
        store: Store,
        manner: _Manner,
        progress: Callable[[Progress], object] | None,
    ) -> None:
        self.questions: dict[str, Question] = {}
        for question in questions:
            self.questions.setdefault(question.key, question)
        self.endpoint, self.store, self.claims = endpoint, store, Claims(store)
        self.manner, self.progress = manner, progress
        self.known: set[str] = set()
        self.asked: set[str] = set()
        self.settled: dict[str, bool] = {}
        self.dropped: set[str] = set()
        self.calls: Counter[Fate] = Counter()
        self.errors: Counter[str] = Counter()
        self.rejections: Counter[str] = Counter()
        self.last_error, self.cost = "", 0.0
        self.interruptions = 0
        self.stopping = False
        self.failure: ServiceError | None = None
        self.open: list[str] = []
        self.tasks: set[asyncio.Task[None]] = set()
        self.calling: set[asyncio.Task[Any]] = set()
        self.loop: asyncio.AbstractEventLoop | None = None

    async def all(self) -> Outcome:
        self.loop = asyncio.get_running_loop()
        self.known = self.store.known(self.questions)
        self.began = self.last_answer = self.last_change = self.loop.time()
        lanes = {self._lane(question) for question in self.questions.values()}
        self.pace = Pace(self.manner.concurrency * max(1, len(lanes)))
        self._tell()
        async with transport.connect(self.endpoint, self.pace.ceiling) as self.http:
            try:
                while not self.stopping and await self._round():
                    await asyncio.sleep(_ELSEWHERE_S)
            finally:
                await self.claims.close()
        outcome = self._outcome()
        if self.failure is not None:
            self.failure.outcome = outcome
            raise self.failure
        return outcome

    async def _round(self) -> bool:
        """Asks all that can be claimed now; tells whether there may be more to claim in a while."""
        lanes: dict[int | None, list[Question]] = {}
        for question in self._open_questions():
            lanes.setdefault(self._lane(question), []).append(question)
        self.claims.granted, self.claims.turned_away = 0, Counter()
        for lane in [_Lane(questions, self.manner.concurrency) for questions in lanes.values()]:
            # more workers than places: while one waits for its answer to be stored, or to ask again, another asks
            workers = min(2 * self.manner.concurrency, len(lane.waiting))
            self.tasks |= {asyncio.create_task(self._work(lane)) for _ in range(workers)}
        await self._ended()
        elsewhere = self.store.known(question.key for question in self._open_questions())
        self.known |= elsewhere
        now = asyncio.get_running_loop().time()
        if self.claims.granted or elsewhere:
            self.last_change = now
        others_ask = self.claims.turned_away["claimed"] and now - self.last_change < self.manner.give_up_after
        return bool(self._open_questions() and (self.claims.granted or others_ask))

    def _lane(self, question: Question) -> int | None:
        return question.seed if self.manner.per_seed else None

    def _open_questions(self) -> list[Question]:
        return [
            question
            for key, question in self.questions.items()
            if not (key in self.known or key in self.settled or key in self.dropped)
        ]

    async def _ended(self) -> None:
        """Waits for the tasks; the first error of one (a full disk, a bug) breaks off the others and is raised."""
        while self.tasks:
            done, self.tasks = await asyncio.wait(self.tasks, return_when=asyncio.FIRST_EXCEPTION)
            errors = [task.exception() for task in done if not task.cancelled()]
            if error := next(filter(None, errors), None):
                self.stopping = True
                for task in self.tasks:
                    task.cancel()
                await asyncio.gather(*self.tasks, return_exceptions=True)
                raise error

    # What one worker does

    async def _work(self, lane: _Lane) -> None:
        while not self.stopping and (question := await self._next(lane)) is not None:
            ok = None
            try:
                ok = await self._pursue(lane, question)
            finally:
                self.claims.settle(question.key, bool(ok))
            if ok is None:
                self.dropped.add(question.key)
            else:
                self._settle(question.key, ok)

    async def _next(self, lane: _Lane) -> Question | None:
        """The next question that is ours to ask; they are claimed in batches. Ends early when the budget does."""
        async with lane.refilling:
            while not lane.claimed and lane.waiting and not self.claims.turned_away["budget"]:
                batch = [lane.waiting.popleft() for _ in range(min(self.manner.concurrency, len(lane.waiting)))]
                lane.claimed.extend(await self.claims.claim(batch))
            return lane.claimed.popleft() if lane.claimed else None

    async def _pursue(self, lane: _Lane, question: Question) -> bool | None:
        """Asks until there is a verdict (true) or no more to be had (false); null if the run ends before."""
        failures = calls = 0
        content = await self.manner.content(question)
        if content is None:
            return None
        while True:
            attempt, status = await self._attempt(lane, question, content)
            calls += attempt.fate in (Fate.ANSWERED, Fate.UNSURE)
            if status == "ok":
                return True
            if attempt.fate is Fate.REJECTED or calls == self.manner.calls:
                return False
            if self.stopping:
                return None
            await asyncio.sleep(retry.delay(failures, attempt.asked_to_wait))
            if attempt.fate is not Fate.UNBILLED and not await self.claims.claim([question]):
                return None
            failures += 1

    async def _attempt(self, lane: _Lane, question: Question, content: bytes) -> tuple[Attempt, str]:
        """One call, kept in the store before it is read; with the status of the verdict in it."""
        task = asyncio.current_task()
        assert task is not None
        try:
            async with lane.places:
                entered = await self.pace.enter()
                self.calling.add(task)
                self.asked.add(question.key)
                try:
                    attempt = await self._call(question, content)
                finally:
                    self.pace.leave()
            self._heed(attempt, entered)
            await self.store.record(attempt.answer)
        finally:
            self.calling.discard(task)
        self.calls[attempt.fate] += 1
        self.cost += attempt.answer.cost or 0.0
        return attempt, self._read(question, attempt)

    async def _call(self, question: Question, content: bytes) -> Attempt:
        try:
            return await transport.call(self.http, self.endpoint, question.key, content)
        except asyncio.CancelledError:  # it may have been billed
            self.open.append(question.key)
            self.calls[Fate.UNSURE] += 1
            await self.store.record(Answer(question.key, Fate.UNSURE.outcome, None, b"", 0.0))
            raise

    def _heed(self, attempt: Attempt, entered: float) -> None:
        """What the status alone tells, for all the run."""
        if attempt.fate is Fate.ANSWERED:
            self.last_answer = asyncio.get_running_loop().time()
            self.rejections.clear()
        elif attempt.fate is Fate.REJECTED:
            self._rejected(attempt)
        else:
            self._lose_patience(attempt)
        if attempt.fate is Fate.UNBILLED:
            self.pace.slower(entered)
            if attempt.asked_to_wait or attempt.answer.http_status == 429:
                self.pace.close(retry.delay(0, attempt.asked_to_wait))

    def _read(self, question: Question, attempt: Attempt) -> str:
        """The status of the verdict in a stored answer."""
        status, said = "error", attempt.said
        if attempt.fate is Fate.ANSWERED:
            request, answer = question.request, attempt.answer
            status = said = self.store.parser.read(request.kind, answer.outcome, answer.body, request.texts).status
        if status == "ok":
            self.pace.faster()
        else:
            self.errors[attempt.trouble or status] += 1
            self.last_error = said
            self._tell()
        return status

    # What ends a run early

    def _rejected(self, attempt: Attempt) -> None:
        status = attempt.answer.http_status
        self.rejections[attempt.trouble] += 1
        limit = _EQUAL_REJECTIONS_OF_REQUESTS if status in _OF_REQUESTS else _EQUAL_REJECTIONS
        if self.rejections[attempt.trouble] >= limit:
            self._fail(f"{self.endpoint.host} rejects what it is sent: {attempt.said}", retry.advice(status))

    def _lose_patience(self, attempt: Attempt) -> None:
        idle = asyncio.get_running_loop().time() - self.last_answer
        hint = "run again later: what was answered is kept"
        if attempt.asked_to_wait > self.manner.give_up_after:
            wait = f"{attempt.asked_to_wait:.0f} s, longer than the {self.manner.give_up_after:g} s of patience"
            self._fail(f"{self.endpoint.host} asks to wait {wait}: {attempt.said}", hint)
        elif idle >= self.manner.give_up_after:
            self._fail(f"{self.endpoint.host} has answered nothing for {idle:.0f} s: {attempt.said}", hint)

    def _fail(self, message: str, hint: str) -> None:
        if not self.stopping:
            self.failure = ServiceError(message, hint)
            self._stop()

    def _stop(self) -> None:
        """No new calls; those under way are paid, and waited for."""
        self.stopping = True
        for task in self.tasks - self.calling - {asyncio.current_task()}:
            task.cancel()

    def interrupt(self) -> None:
        """Safe to call from a signal handler, in any thread."""
        self.interruptions += 1
        if self.loop is not None:
            self.loop.call_soon_threadsafe(self._interrupted)

    def _interrupted(self) -> None:
        self._stop()
        if self.interruptions > 1:
            for task in self.tasks:
                task.cancel()

    # What it tells

    def _settle(self, key: str, ok: bool) -> None:
        self.settled[key] = ok
        self._tell()
        if len(self.settled) >= _FRUITLESS and not self.known and not any(self.settled.values()):
            self._fail(
                f"{self.endpoint.host} has given no verdict on {len(self.settled)} questions, lastly {self.last_error}",
                "is this the right model, and are its token limit and extra body right? the replies are in the store",
            )

    def _tell(self) -> None:
        if self.progress is None:
            return
        done, here = len(self.known) + len(self.settled), len(self.settled)
        rate = here / max(1e-9, asyncio.get_running_loop().time() - self.began)
        left = (len(self.questions) - done) / rate if rate else None
        errors = dict(self.errors)
        self.progress(Progress(done, len(self.questions), rate, errors, self.last_error, self.cost, left))

    def _left(self) -> int:
        return len(self.questions) - len(self.known) - len(self.settled)

    def _outcome(self) -> Outcome:
        ok = sum(self.settled.values())
        return Outcome(
            asked=len(self.asked),
            ok=ok,
            failed=len(self.settled) - ok,
            left=self._left(),
            over_budget=self.claims.turned_away["budget"] > 0,
            billed=self.calls[Fate.ANSWERED],
            ambiguous=self.calls[Fate.UNSURE],
            cost=self.cost,
            errors=dict(self.errors),
            interrupted=self.interruptions > 0,
            open=tuple(self.open),
        )
