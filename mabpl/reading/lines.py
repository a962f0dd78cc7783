"""The lines of a file: plain or gzip, or standard input; hashed as they are read, in bounded memory."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from typing import NamedTuple

from mabpl.errors import unreadable
from mabpl.reading.opening import BYTE_ORDER_MARK as BYTE_ORDER_MARK
from mabpl.reading.opening import chunks, told

LONGEST_LINE = 64 * 2**20
"""Bytes. A longer line is a fault of its own; only its first bytes are kept."""

_KEPT = 4096


class Line(NamedTuple):
    """``number`` from 1; ``data`` without its line feed; ``cut``: only the first bytes of a line that is too long;
    ``ended``: a line feed followed (false only for the last line)."""

    number: int
    data: bytes
    cut: bool
    ended: bool


class Block(NamedTuple):
    """Lines that follow each other, ``number`` the first one's. One that is ``cut``, or not ``ended``, stands alone."""

    number: int
    lines: list[bytes]
    cut: bool
    ended: bool


class Lines:
    """Iterate once for the lines, or for :meth:`blocks`; ``sha256`` (hex, of the file's bytes as stored) is whole after
    that.

    ``path`` ``-`` is standard input. Raises :class:`InputError` for what cannot be read as JSON lines at all: a missing
    file, a folder, no permission, broken gzip, UTF-16, another format, one JSON document instead of lines.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.file = os.fspath(path)
        self._hash = hashlib.sha256()

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()

    def __iter__(self) -> Iterator[Line]:
        for block in self.blocks():
            for number, data in enumerate(block.lines, block.number):
                yield Line(number, data, block.cut, block.ended)

    def blocks(self) -> Iterator[Block]:
        """The lines, as many at a time as were read at once."""
        last = 0
        with told(self.file, ".jsonl or .jsonl.gz", lambda: f" after line {last}"):
            for block in _split(self._chunks()):
                last = block.number + len(block.lines) - 1
                yield block

    def _chunks(self) -> Iterator[bytes]:
        first = True
        for chunk in chunks(self.file, self._hash, "JSON lines"):
            if first:
                _refuse_documents(self.file, chunk)
            first = False
            yield chunk


def _split(pieces_read: Iterator[bytes]) -> Iterator[Block]:
    number = 1
    parts: list[bytes] = []
    size = 0
    for chunk in pieces_read:
        whole = chunk.split(b"\n")
        rest = whole.pop()
        if whole:
            whole[0], cut = _joined(parts, whole[0], size + len(whole[0]))
            if cut:
                yield Block(number, [whole.pop(0)], True, True)
                number += 1
            if whole:
                yield Block(number, whole, False, True)
                number += len(whole)
            parts, size = [], 0
        size += len(rest)
        parts.append(rest)
        if size > LONGEST_LINE:
            parts = [b"".join(parts)[:_KEPT]]
    if size:
        data, cut = _joined(parts, b"", size)
        yield Block(number, [data], cut, False)


def _joined(parts: list[bytes], piece: bytes, size: int) -> tuple[bytes, bool]:
    cut = size > LONGEST_LINE
    data = b"".join([*parts, piece]) if parts else piece
    return (data[:_KEPT] if cut else data), cut


def _refuse_documents(file: str, head: bytes) -> None:
    text = head.removeprefix(BYTE_ORDER_MARK).lstrip()
    if re.match(rb"\[\s*(\{|\n|\Z)", text):
        raise unreadable(
            file, "is one JSON array, expected JSON lines: one object a line", "jq -c '.[]' FILE > NEW.jsonl"
        )
    whole = re.match(rb'\{\s*(\n|\Z|"(summary|per_clip)")', text)
    if whole and b'"per_clip"' in text:
        raise unreadable(file, "is a result (scores JSON), expected a file of timelines", "give the prediction file")
    if whole and not whole[2]:
        raise unreadable(
            file, "is one JSON document over several lines, expected JSON lines", "jq -c . FILE > NEW.jsonl"
        )
