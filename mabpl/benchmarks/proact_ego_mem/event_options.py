"""How events are scored: what the annotation format leaves to the authors' `eval_config.json`, as named options.

The format states that end times are clamped to the clip and what is empty then is dropped; that is no option.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from mabpl.errors import UsageError, unreadable
from mabpl.settings import Options, option

AUTHORS = "authors"
NOT_THE_AUTHORS = "not the authors' configuration"


@dataclass(frozen=True, slots=True, kw_only=True)
class EventOptions(Options):
    """How mentions are matched with segments, and which of the others count against a model."""

    early_s: float = option(1.0, "a mention may come so many seconds before its segment starts, inclusive")
    late_s: float = option(2.0, "a mention may come so many seconds after its segment ends, inclusive")
    matching: Literal["optimal", "in_order"] = option(
        "optimal",
        "the most pairs, then the least total lateness, then the earliest; or mentions in order, each with the free "
        "segment that it is least late for",
    )
    duplicates: Literal["false_positives", "ignored"] = option(
        "false_positives", "whether further mentions of a segment that is matched already count against a model"
    )
    label_hygiene: Literal["on", "off"] = option(
        "on",
        "mentions and objects lose control characters and chat tokens, and what exceeds 2,000 characters, before a "
        "judge sees them",
    )


@dataclass(frozen=True, slots=True)
class EvalConfig:
    """Options as a file states them.

    ``source``: who chose them, as the file's key ``source`` says. ``unknown``: keys that mabpl has no option for, which
    are not followed. ``stated``: the options that the file sets.
    """

    options: EventOptions
    file: str
    sha256: str
    source: str | None
    unknown: tuple[str, ...]
    stated: tuple[str, ...]

    def provenance(self, used: EventOptions) -> dict[str, Any]:
        """For a result that was made with the options ``used``."""
        return {
            "source": self.source,
            "file": os.path.basename(self.file),  # noqa: PTH119
            "sha256": self.sha256,
            "unknown_keys": list(self.unknown),
            "configuration": AUTHORS if self.is_the_authors(used) else NOT_THE_AUTHORS,
        }

    def is_the_authors(self, used: EventOptions) -> bool:
        """Whether the file says that it is theirs, all that it states is followed, and nothing else decides."""
        return self.source == AUTHORS and not self.unknown and used == self.options


def read_eval_config(path: str | os.PathLike[str]) -> EvalConfig:
    """An `eval_config.json`: one object with any of the options of :class:`EventOptions`, and ``source``.

    ``{"source": "authors", "early_s": 1.0, "late_s": 2.0}``. The keys of the authors' own file are not published with
    the format: a key that is none of ours is kept in ``unknown``. Raises :class:`InputError` where the file is no JSON
    object, :class:`UsageError` for a value that an option cannot have.
    """
    from mabpl.reading.documents import read_document

    document = read_document(path)
    try:
        value = json.loads(document.data, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise unreadable(path, f"is not JSON ({error})", "expected an object of options") from None
    if not isinstance(value, dict):
        raise unreadable(path, "is no JSON object", f"expected any of: source, {', '.join(EventOptions.names())}")
    known = {name: value[name] for name in EventOptions.names() if name in value}
    for name in known.keys() & {"early_s", "late_s"}:
        if isinstance(known[name], str):
            raise UsageError(f"{path}: {name} is the text {known[name]!r}", "write the number without quotes")
    source = value.get("source")
    if source is not None and not isinstance(source, str):
        raise unreadable(path, '"source" is no text', f'expected "{AUTHORS}", or who else chose these options')
    try:
        options = EventOptions(**known)
    except UsageError as error:
        raise UsageError(f"{path}: {error.message}", error.hint) from None
    unknown = tuple(sorted(value.keys() - known.keys() - {"source"}))
    return EvalConfig(options, document.file, document.sha256, source, unknown, tuple(sorted(known)))


def _once(pairs: list[tuple[str, Any]]) -> Mapping[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key {next(name for name in names if names.count(name) > 1)!r} is there twice")
    return found
