"""The bytes of a file: plain or gzip, or standard input; hashed as they are read, in bounded memory."""

from __future__ import annotations

import gzip
import io
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from mabpl.errors import unreadable

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_CHUNK = 2**20

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


@contextmanager
def told(file: str, endings: str, after: Callable[[], str]) -> Iterator[None]:
    """Turns what goes wrong while ``file`` is read into :class:`InputError`.

    ``endings``: what such a file is called; ``after``: how far the reading got.
    """
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise unreadable(file, f"broken gzip{after()} ({error})", "copy or compress the file again") from None
    except OSError as error:
        raise unreadable(file, _reason(error), _advice(error, endings)) from None


def chunks(file: str, digest: Any, expected: str) -> Iterator[bytes]:
    """The unpacked bytes of ``file`` (``-`` is standard input), piece by piece; ``digest`` is fed what is stored.

    Raises :class:`InputError` where they are of another format than ``expected``.
    """
    with _opened(file) as raw:
        hashed = io.BufferedReader(_Hashed(raw, digest), _CHUNK)
        zipped = hashed.peek(2)[:2] == b"\x1f\x8b"
        stream: io.BufferedIOBase = gzip.GzipFile(fileobj=hashed) if zipped else hashed
        chunk = stream.read(_CHUNK)
        _refuse_foreign(file, chunk, expected)
        while chunk:
            yield chunk
            chunk = stream.read(_CHUNK)


class _Hashed(io.RawIOBase):
    """Reads ``raw`` and feeds every byte to ``digest``."""

    def __init__(self, raw: Any, digest: Any) -> None:
        self._raw = raw
        self._digest = digest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count: int = self._raw.readinto(buffer)
        self._digest.update(memoryview(buffer)[:count])
        return count


@contextmanager
def _opened(file: str) -> Iterator[IO[bytes]]:
    if file == "-":
        yield sys.stdin.buffer
        return
    if "\0" in file:
        raise unreadable(repr(file), "is no file name")
    with Path(file).open("rb", buffering=0) as raw:
        yield raw


def _refuse_foreign(file: str, head: bytes, expected: str) -> None:
    for magic, encoding in _ENCODINGS:
        if head.startswith(magic):
            raise unreadable(file, f"is {encoding}, expected UTF-8", f"iconv -f {encoding} -t UTF-8 FILE > NEW")
    for magic, what in _FORMATS:
        if head.startswith(magic):
            raise unreadable(file, f"is {what}, expected {expected} (plain or gzip)", "unpack or convert it first")


def _reason(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    if isinstance(error, IsADirectoryError):
        return "is a folder, expected a file"
    if isinstance(error, PermissionError):
        return "may not be read (permission denied)"
    return f"cannot be read ({error.strerror or error})"


def _advice(error: OSError, endings: str) -> str:
    if isinstance(error, FileNotFoundError):
        return "check the spelling, and the folder that you are in"
    return f"give the path of a {endings} file" if isinstance(error, IsADirectoryError) else ""
