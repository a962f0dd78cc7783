"""Claims of many tasks in few transactions: while one is on its way to the disk, the next one gathers."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

from mabpl.judges.store import Store
from mabpl.judges.types import Question


class Claims:
    """What this run has claimed from ``store`` and not settled yet.

    ``granted`` counts the questions that were given out, ``turned_away`` those that were not, by cause.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.granted = 0
        self.turned_away: Counter[str] = Counter()
        self._held: set[str] = set()
        self._waiting: list[tuple[Sequence[Question], asyncio.Future[list[Question]]]] = []
        self._transactions: asyncio.Task[None] | None = None

    async def claim(self, questions: Sequence[Question]) -> list[Question]:
        """Those of ``questions`` that may be asked now, once each."""
        granted: asyncio.Future[list[Question]] = asyncio.get_running_loop().create_future()
        self._waiting.append((questions, granted))
        if self._transactions is None:
            self._transactions = asyncio.create_task(self._transact())
        return await granted

    def settle(self, key: str, ok: bool) -> None:
        self._held.discard(key)
        self.store.settle(key, ok)

    async def close(self) -> None:
        """Gives back what was claimed and never settled, for tasks that were cancelled too."""
        if self._transactions is not None:
            await self._transactions
        for key in list(self._held):
            self.settle(key, ok=False)

    async def _transact(self) -> None:
        while self._waiting:
            waiting, self._waiting = self._waiting, []
            wanted = [question for questions, _ in waiting for question in questions]
            try:
                keys = {question.key for question in await asyncio.to_thread(self.store.claim, wanted)}
            except Exception as error:  # of the store: each of those who wait has it
                for _, granted in waiting:
                    if not granted.done():
                        granted.set_exception(error)
                continue
            self.granted += len(keys)
            self.turned_away.update(self.store.turned_away)
            self._held |= keys
            for questions, granted in waiting:
                if not granted.done():
                    granted.set_result([question for question in questions if question.key in keys])
        self._transactions = None
