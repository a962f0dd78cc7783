"""Writing files so that a reader sees the old file or the new one, never a part of it."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mabpl.errors import unreadable


@contextlib.contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """Gives a temporary path beside ``path``; on success it is flushed to disk and renamed to ``path``."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    except OSError as error:
        raise unreadable(path, f"cannot be written ({error.strerror or error})") from None
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        temporary.replace(path)
    except OSError as error:
        raise unreadable(path, f"cannot be written ({error.strerror or error})") from None
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def write_json(path: Path, value: Any) -> None:
    write_text(path, to_json(value))


def to_json(value: Any) -> str:
    """JSON with two-space indent and a final newline; refuses NaN and infinities."""
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def write_bytes(path: Path, data: bytes) -> None:
    with atomic(path) as temporary:
        temporary.write_bytes(data)
