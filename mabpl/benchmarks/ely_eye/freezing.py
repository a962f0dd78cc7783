"""The two manifests: where the corpus comes from, and the digests that freeze every file.

Of ``corpus/manifest.jsonl`` the fields are published; of the manifest in ``sets/`` only that it freezes every file's
SHA-256. Read as that manifest: ``sets/manifest.json`` or ``.jsonl`` that maps names to digests, as ``{name: digest}``,
``{name: {"sha256": digest}}`` or rows with ``path`` (or ``file``, ``name``) and ``sha256``, the whole also under
``files``. An entry of ``files`` in the corpus manifest is a path, or a row with its own ``sha256``; the line's
``sha256`` is that of its file where it lists a single one without its own.

A name is looked for below the benchmark's folder, then below the manifest's own, and may begin with the name of the
benchmark's folder.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from mabpl.benchmarks.ely_eye.entries import Entries
from mabpl.benchmarks.ely_eye.rows import ManifestRow
from mabpl.benchmarks.ely_eye.rules import problem
from mabpl.benchmarks.ely_eye.values import parse_time
from mabpl.errors import unreadable
from mabpl.reading.json_values import Fault, Object, at_key, encodable, loads, shown
from mabpl.reading.opening import BYTE_ORDER_MARK
from mabpl.reading.problems import Problem

SETS_MANIFESTS = ("sets/manifest.json", "sets/manifest.jsonl")
CORPUS_MANIFEST = "corpus/manifest.jsonl"

_DIGEST = re.compile(r"(?:sha256[:-])?([0-9a-fA-F]{64})")
_NAMES = ("path", "file", "name")
_NOBODY = {
    "",
    "-",
    "?",
    "none",
    "n/a",
    "na",
    "unknown",
    "todo",
    "tbd",
    "self",
    "own",
    "model",
    "llm",
    "auto",
    "generated",
}
_THE_SYSTEM = re.compile(r"\bely[-_ ]?eye\b|\bsystem under test\b", re.IGNORECASE)


class Frozen(NamedTuple):
    """A file that a manifest names: where (line and field), what it is called there, and its digest if there is one."""

    file: str
    line: int | None
    field: str
    name: str
    sha256: str | None


def manifest_problems(entries: Entries[ManifestRow]) -> Iterator[Problem]:
    """What is wrong with the corpus manifest by itself."""
    for line, row, _ in entries:

        def told(rule: str, field: str, message: str, line: int = line, url: str = row.url) -> Problem:
            return problem(rule, entries.file, line, message, of=url, field=field)

        if not _DIGEST.fullmatch(row.sha256):
            yield told("sha256-value", "sha256", f"is {shown(row.sha256)}")
        time = parse_time(row.retrieved_at)
        if isinstance(time, Fault) and not _is_day(row.retrieved_at):
            yield told(time.rule, "retrieved_at", time.message)
        annotation = row.annotation_source.strip()
        if annotation.lower() in _NOBODY or _THE_SYSTEM.search(annotation):
            yield told("own-annotation", "annotation_source", f"is {shown(row.annotation_source)}")
        if not row.files:
            yield told("no-files", "files", "is empty")


def _is_day(text: str) -> bool:
    """Of when something was retrieved a day is enough."""
    try:
        return len(text) == 10 and bool(date.fromisoformat(text))
    except ValueError:
        return False


def corpus_files(entries: Entries[ManifestRow]) -> tuple[list[Frozen], list[Problem]]:
    """The files of the corpus manifest's lines."""
    frozen: list[Frozen] = []
    problems: list[Problem] = []
    for line, row, _ in entries:
        found = [_frozen(entries.file, line, f"files[{i}]", item) for i, item in enumerate(row.files)]
        files = [item for item in found if isinstance(item, Frozen)]
        problems += [item._replace(clip_id=row.url) for item in found if isinstance(item, Problem)]
        digest = _DIGEST.fullmatch(row.sha256)
        if len(files) == 1 and files[0].sha256 is None and digest:
            files = [files[0]._replace(sha256=digest[1].lower())]
        frozen += files
    return frozen, problems


def knows_revision(rows: Sequence[ManifestRow], revision: str) -> bool:
    """Rule 7: a line of the manifest lists files of ``revision``: it stands in its url, or in the name of a file.

    It stands there as a whole part of it, between separators; a field ``revision`` of a file's row counts too.
    """
    whole = re.compile(rf"(?<![\w-]){re.escape(revision)}(?![\w-])")
    return any(whole.search(text) for row in rows if row.files for text in _texts(row))


def _texts(row: ManifestRow) -> Iterator[str]:
    yield row.url
    for item in row.files:
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            yield from (value for key in (*_NAMES, "url", "revision") if isinstance(value := item.get(key), str))


def sets_files(path: Path, file: str) -> tuple[list[Frozen], list[Problem], str]:
    """The files of the manifest in ``sets/``, of whatever shape it is; what is wrong; and its own SHA-256."""
    try:
        stored = path.read_bytes()
    except OSError as error:
        raise unreadable(path, f"cannot be read ({error.strerror or error})") from None
    data = stored.removeprefix(BYTE_ORDER_MARK)
    if path.suffix == ".json":
        value, fault = loads(data)
        parts = [(None, value, fault)]
    else:
        parts = [(number, *loads(line)) for number, line in enumerate(data.split(b"\n"), 1) if line.strip()]  # type: ignore[misc]
    frozen: list[Frozen] = []
    problems: list[Problem] = []
    for number, value, fault in parts:
        if fault is not None:
            problems.append(problem(fault.rule, file, number, fault.message))
            continue
        for found in _of_document(file, number, value):
            if isinstance(found, Frozen):
                frozen.append(found)
            else:
                problems.append(found)
    return frozen, problems, hashlib.sha256(stored).hexdigest()


def _of_document(file: str, line: int | None, value: Any) -> Iterator[Frozen | Problem]:
    if isinstance(value, Object):
        for key in value.repeated:
            yield problem("duplicate-key", file, line, "is given more than once", field=at_key("", encodable(key)))
    base = ""
    if isinstance(value, dict) and isinstance(value.get("files"), list | dict):
        value, base = value["files"], "files"
    if isinstance(value, dict) and not any(isinstance(value.get(key), str) for key in _NAMES):
        digests = {k: v for k, v in value.items() if base or isinstance(v, dict) or _is_digest(v)}
        if not digests:
            found = ", ".join(sorted(map(encodable, value))) or "none"
            yield problem("missing-field", file, line, f"names no file with its sha256; the keys are {found}")
        for name, entry in digests.items():
            row = {**entry, "path": name} if isinstance(entry, dict) else {"path": name, "sha256": entry}
            yield _frozen(file, line, at_key(base, encodable(name)), row)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield _frozen(file, line, f"{base}[{index}]", item)
    else:
        yield _frozen(file, line, base or "path", value)


def _is_digest(value: Any) -> bool:
    return isinstance(value, str) and _DIGEST.fullmatch(value) is not None


def _frozen(file: str, line: int | None, field: str, item: Any) -> Frozen | Problem:
    if isinstance(item, str) and item:
        return Frozen(file, line, field, item, None)
    if not isinstance(item, dict):
        return problem("wrong-type", file, line, f"is {shown(item)}, expected a path or an object", field=field)
    name = next((item[key] for key in _NAMES if isinstance(item.get(key), str) and item[key]), None)
    if name is None:
        found = ", ".join(sorted(map(encodable, item))) or "none"
        return problem("missing-field", file, line, f"names no path; the keys are {found}", field=field)
    digest = item.get("sha256")
    if digest is None:
        return Frozen(file, line, field, name, None)
    matched = _DIGEST.fullmatch(digest) if isinstance(digest, str) else None
    if matched is None:
        return problem("sha256-value", file, line, f"is {shown(digest)}", of=encodable(name), field=field)
    return Frozen(file, line, field, name, matched[1].lower())


def check_digests(
    root: Path, frozen: Sequence[Frozen], known: Mapping[str, str]
) -> tuple[dict[str, str], list[Problem]]:
    """Recomputes the digest of every frozen file. ``known``: digests (hex) of files that were read already.

    Gives file (below ``root``) → its digest by the manifests, and what is wrong.
    """
    problems: list[Problem] = []
    places: dict[str, str] = {}
    at: list[tuple[Frozen, str | None]] = []
    for item in frozen:
        place = _place(root, item)
        if isinstance(place, Problem):
            problems.append(place)
            continue
        at.append((item, place))
        if place is not None and item.sha256 is not None:
            earlier = places.setdefault(place, item.sha256)
            if earlier != item.sha256:
                message = f"is frozen with another digest too: {earlier}"
                problems.append(_told("digest-conflict", item, message))
    computed = _digests(root, sorted(places.keys() - known.keys()), problems) | dict(known)
    for item, place in at:
        if place is None:
            missing = _told("file-missing", item, "there is no such file")
            of_corpus = item.file == CORPUS_MANIFEST
            problems.append(missing._replace(severity="warning", hint=_ABSENT) if of_corpus else missing)
        elif item.sha256 is None:
            problems.append(_told("not-checked", item, "has no SHA-256 of its own"))
        elif place in computed and computed[place] != item.sha256:
            problems.append(_told("digest-drift", item, f"has the SHA-256 {computed[place]}, frozen was {item.sha256}"))
    return places, problems


_ABSENT = "it could not be checked; fetch it from its url to do so"


def _told(rule: str, item: Frozen, message: str) -> Problem:
    return problem(rule, item.file, item.line, message, of=encodable(item.name), field=item.field)


def _place(root: Path, item: Frozen) -> str | Problem | None:
    """The file below ``root`` that is meant; None where there is none."""
    parts = PurePosixPath(item.name).parts
    if item.name.startswith("/") or ".." in parts or "\\" in item.name or "\0" in item.name:
        return _told("path-outside", item, f"is {shown(item.name)}")
    own = PurePosixPath(item.file).parent
    tries = [PurePosixPath(item.name), own / item.name]
    if parts[:1] == (root.resolve().name,):
        tries.append(PurePosixPath(*parts[1:]))
    return next((str(p) for p in tries if _is_file(root / p)), None)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False


def _digests(root: Path, files: Sequence[str], problems: list[Problem]) -> dict[str, str]:
    def digest(file: str) -> str | OSError:
        try:
            with (root / file).open("rb") as opened:
                return hashlib.file_digest(opened, "sha256").hexdigest()
        except OSError as error:
            return error

    with ThreadPoolExecutor(4) as pool:
        done = dict(zip(files, pool.map(digest, files), strict=True))
    for file, result in done.items():
        if isinstance(result, OSError):
            problems.append(problem("file-missing", file, None, f"cannot be read ({result.strerror or result})"))
    return {file: result for file, result in done.items() if isinstance(result, str)}
