"""Ctrl-C for work that is to end in its own time."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType


@contextlib.contextmanager
def interrupts(interrupt: Callable[[], None]) -> Iterator[None]:
    """Ctrl-C calls ``interrupt`` twice and is itself again from then on; afterwards it does what it did before."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    calls = 0

    def handle(_signal: int, _frame: FrameType | None) -> None:
        nonlocal calls
        calls += 1
        if calls > 2:
            raise KeyboardInterrupt
        interrupt()

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before or signal.SIG_DFL)
