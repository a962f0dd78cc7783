"""Who lives: each process that claims questions holds a lock on a file of its own, which its death releases.

A time lease cannot tell a slow process from a dead one, and pays twice; a lock can. All functions are called while the
store's file is write-locked, so that nobody looks at a file between its making and its locking.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
from collections.abc import Iterable
from pathlib import Path


class Owner:
    """This process's lock file in ``folder``; ``name`` tells it from all others, dead ones too."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = f"{os.getpid()}-{secrets.token_hex(8)}"
        self._handle: int | None = None

    def appear(self) -> None:
        """Makes and locks the file, once."""
        if self._handle is None:
            self.folder.mkdir(exist_ok=True)
            self._handle = os.open(self.folder / self.name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def leave(self) -> None:
        if self._handle is not None:
            (self.folder / self.name).unlink(missing_ok=True)
            os.close(self._handle)
            self._handle = None

    def dead(self, names: Iterable[str]) -> set[str]:
        """Those of ``names`` whose process has ended; the files that any dead process left behind go."""
        with contextlib.suppress(FileNotFoundError):
            for path in sorted(self.folder.iterdir()):
                if path.name != self.name and not _locked(path):
                    path.unlink(missing_ok=True)
        return {name for name in names if not (self.folder / name).exists()}


def _locked(path: Path) -> bool:
    try:
        handle = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False
