"""How many requests are in flight at once, and when the next may go: one pace for an endpoint."""

from __future__ import annotations

import asyncio
from collections import deque

_PROBES = 4
"""Requests in flight until the endpoint has given one verdict: what is set up wrongly fails a few times, not often."""


class Pace:
    """Additive increase, multiplicative decrease, below a ceiling; and a gate that closes for everyone at once.

    ``limit`` is how many may be in flight now: a few until :meth:`faster` is called for the first time, then the
    ceiling; halved by :meth:`slower`, and raised by one (a sixteenth where that is more) for every ``limit`` calls of
    :meth:`faster`. Belongs to the event loop it is made in.
    """

    def __init__(self, ceiling: int) -> None:
        self.ceiling = ceiling
        self.limit = float(min(_PROBES, ceiling))
        self.in_flight = 0
        self._proven = False
        self._loop = asyncio.get_running_loop()
        self._opens = self._slowed = self._loop.time()
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def enter(self) -> float:
        """Waits for the gate and for a place; returns when, for :meth:`slower`. Every ``enter`` needs a ``leave``."""
        while True:
            closed_for = self._opens - self._loop.time()
            if closed_for > 0:
                await asyncio.sleep(closed_for)
            elif self.in_flight + 1 <= self.limit:
                self.in_flight += 1
                return self._loop.time()
            else:
                place = self._loop.create_future()
                self._waiting.append(place)
                await place

    def leave(self) -> None:
        self.in_flight -= 1
        self._admit()

    def faster(self) -> None:
        """A request went well."""
        step = max(1 / self.limit, 1 / 16) if self._proven else self.ceiling
        self.limit = min(self.ceiling, self.limit + step)
        self._proven = True
        self._admit()

    def slower(self, entered: float) -> None:
        """The endpoint is overloaded, a request that entered then says; those that entered with it count once."""
        if entered >= self._slowed:
            self.limit = max(1.0, self.limit / 2)
            self._slowed = self._loop.time()
        self._proven = True

    def close(self, seconds: float) -> None:
        """Nobody enters for this long."""
        self._opens = max(self._opens, self._loop.time() + seconds)

    def _admit(self) -> None:
        """Wakes as many as there are places; a waiter that was cancelled is passed over."""
        places = int(self.limit) - self.in_flight
        while places > 0 and self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(None)
                places -= 1
