"""The lines of a file: plain or gzip, or standard input; hashed as they are read, in bounded memory."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import re
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

from mabpl.errors import unreadable

LONGEST_LINE = 64 * 2**20
"""Bytes. A longer line is a fault of its own; only its first bytes are kept."""

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_CHUNK = 2**20
_KEPT = 4096

_ENCODINGS = (
    (b"\xff\xfe\x00\x00", "UTF-32"),
    (b"\x00\x00\xfe\xff", "UTF-32"),
    (b"\xff\xfe", "UTF-16"),
    (b"\xfe\xff", "UTF-16"),
    (b"{\x00", "UTF-16"),
    (b"[\x00", "UTF-16"),
    (b"\x00{", "UTF-16"),
    (b"\x00[", "UTF-16"),
)
_FORMATS = (
    (b"PK\x03\x04", "a zip archive"),
    (b"PAR1", "a parquet file"),
    (b"\xfd7zXZ", "an xz archive"),
    (b"BZh", "a bzip2 archive"),
    (b"\x28\xb5\x2f\xfd", "a zstd archive"),
)


class Line(NamedTuple):
    """``number`` from 1; ``data`` without its line feed; ``cut``: only the first bytes of a line that is too long;
    ``ended``: a line feed followed (false only for the last line)."""

    number: int
    data: bytes
    cut: bool
    ended: bool


class Lines:
    """Iterate once for the lines; ``sha256`` (hex, of the file's bytes as stored) is whole after that.

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
        number = 0
        try:
            with _opened(self.file) as raw:
                for line in _split(self._chunks(raw)):
                    number = line.number
                    yield line
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise unreadable(
                self.file, f"broken gzip after line {number} ({error})", "copy or compress the file again"
            ) from None
        except OSError as error:
            raise unreadable(self.file, _reason(error), _advice(error)) from None

    def _chunks(self, raw: IO[bytes]) -> Iterator[bytes]:
        hashed = io.BufferedReader(_Hashed(raw, self._hash), _CHUNK)
        zipped = hashed.peek(2)[:2] == b"\x1f\x8b"
        stream: io.BufferedIOBase = gzip.GzipFile(fileobj=hashed) if zipped else hashed
        chunk = stream.read(_CHUNK)
        _refuse_foreign(self.file, chunk)
        while chunk:
            yield chunk
            chunk = stream.read(_CHUNK)


class _Hashed(io.RawIOBase):
    """Reads ``raw`` and feeds every byte to ``digest``."""

    def __init__(self, raw: IO[bytes], digest: Any) -> None:
        self._raw = raw
        self._digest = digest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._raw.read(len(buffer))
        self._digest.update(data)
        buffer[: len(data)] = data
        return len(data)


@contextmanager
def _opened(file: str) -> Iterator[IO[bytes]]:
    if file == "-":
        yield sys.stdin.buffer
        return
    if "\0" in file:
        raise unreadable(repr(file), "is no file name")
    with Path(file).open("rb", buffering=0) as raw:
        yield raw


def _split(chunks: Iterator[bytes]) -> Iterator[Line]:
    number = 1
    parts: list[bytes] = []
    size = 0
    for chunk in chunks:
        pieces = chunk.split(b"\n")
        for piece in pieces[:-1]:
            data, cut = _joined(parts, piece, size + len(piece))
            yield Line(number, data, cut, True)
            number += 1
            parts, size = [], 0
        size += len(pieces[-1])
        parts.append(pieces[-1])
        if size > LONGEST_LINE:
            parts = [b"".join(parts)[:_KEPT]]
    if size:
        data, cut = _joined(parts, b"", size)
        yield Line(number, data, cut, False)


def _joined(parts: list[bytes], piece: bytes, size: int) -> tuple[bytes, bool]:
    cut = size > LONGEST_LINE
    data = b"".join([*parts, piece]) if parts else piece
    return (data[:_KEPT] if cut else data), cut


def _refuse_foreign(file: str, head: bytes) -> None:
    for magic, encoding in _ENCODINGS:
        if head.startswith(magic):
            raise unreadable(file, f"is {encoding}, expected UTF-8", f"iconv -f {encoding} -t UTF-8 FILE > NEW")
    for magic, what in _FORMATS:
        if head.startswith(magic):
            raise unreadable(file, f"is {what}, expected JSON lines (plain or gzip)", "unpack or convert it first")
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


def _reason(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    if isinstance(error, IsADirectoryError):
        return "is a folder, expected a file"
    if isinstance(error, PermissionError):
        return "may not be read (permission denied)"
    return f"cannot be read ({error.strerror or error})"


def _advice(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "check the spelling, and the folder that you are in"
    return "give the path of a .jsonl or .jsonl.gz file" if isinstance(error, IsADirectoryError) else ""
