"""Writing files so that a reader sees the old file or the new one, never a part of it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from mabpl.errors import unreadable

# Delete, C1 control and format characters (bidi, zero-width, tags), line separators, invisible letters, surrogates.
_INVISIBLE = (
    "\x7f-\x9f\u00ad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U000110bd\U000110cd\U00013430-\U0001345f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff\ud800-\udfff"
)
UNSAFE = re.compile(f"[\x00-\x1f{_INVISIBLE}]")
"""Characters that could move a terminal's cursor, reorder a line or hide."""

_UNSAFE_IN_JSON = re.compile(f"[{_INVISIBLE}]")


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
    """JSON with two-space indent and a final newline, safe to print: control and invisible characters are escaped.

    Refuses NaN and infinities.
    """
    return _UNSAFE_IN_JSON.sub(_escaped, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)) + "\n"


def to_json_lines(rows: Iterable[Any]) -> str:
    """A line of JSON for each of ``rows``; safe to print and refusing as :func:`to_json`."""
    encoded = (json.dumps(row, ensure_ascii=False, allow_nan=False) for row in rows)
    return "".join(f"{_UNSAFE_IN_JSON.sub(_escaped, line)}\n" for line in encoded)


def _escaped(match: re.Match[str]) -> str:
    return json.dumps(match.group())[1:-1]


def write_bytes(path: Path, data: bytes) -> None:
    with atomic(path) as temporary:
        temporary.write_bytes(data)
