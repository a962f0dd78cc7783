"""A file that is one JSON document: plain or gzip, or standard input."""

from __future__ import annotations

import hashlib
import os
from typing import NamedTuple

from mabpl.errors import unreadable
from mabpl.reading.opening import BYTE_ORDER_MARK, chunks, told

LARGEST = 2**30
"""Bytes, unpacked. What is larger is refused before it fills the memory."""


class Document(NamedTuple):
    """``data``: the text, less a byte order mark (``marked`` tells of one); ``sha256``: hex, of the stored bytes."""

    file: str
    data: bytes
    sha256: str
    marked: bool


def read_document(path: str | os.PathLike[str]) -> Document:
    """The bytes of a JSON document. Raises :class:`InputError` for what cannot be one: see :func:`chunks`."""
    file = os.fspath(path)
    digest = hashlib.sha256()
    parts: list[bytes] = []
    size = 0
    with told(file, ".json or .json.gz", lambda: f" after {size:,} bytes"):
        for chunk in chunks(file, digest, "a JSON document"):
            size += len(chunk)
            if size > LARGEST:
                raise unreadable(file, f"is larger than {LARGEST // 2**20} MiB", "split it by video")
            parts.append(chunk)
    data = b"".join(parts)
    plain = data.removeprefix(BYTE_ORDER_MARK)
    return Document(file, plain, digest.hexdigest(), len(plain) < len(data))
