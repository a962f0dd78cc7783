"""Our layout of a tournament's packets against a dataset folder's examples of them.

``tournament_packet_examples.json`` shows what a judge is sent. Ours holds a clip's timelines and the user message that
is made of them in each dimension. What another's holds is looked for: the longest text under a key that speaks of the
dimension.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator
from typing import Any

from mabpl.judges.prompts import PACKETS, load_prompts

_WORDS = {"timing": ("timing", "boundar"), "labels": ("label",)}


def packet_of(examples: str, dimension: str) -> str | None:
    """The packet that ``examples`` (a JSON document) shows of ``dimension``; None where none is found."""
    try:
        document = json.loads(examples)
    except (ValueError, RecursionError):
        return None
    texts = [
        text
        for path, text in _texts(document, "")
        if any(word in path.lower() for word in _WORDS[dimension]) and "\n" in text
    ]
    return max(texts, key=len, default=None)


def _texts(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Every text, and every list of lines, with the keys that lead to it."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _texts(inner, f"{path}.{key}")
    elif isinstance(value, list) and value and all(isinstance(line, str) for line in value):
        yield path, "\n".join(value)
    elif isinstance(value, list):
        for inner in value:
            short = [v for v in inner.values() if isinstance(v, str) and len(v) < 20] if isinstance(inner, dict) else []
            yield from _texts(inner, ".".join([path, *short]))


def difference(examples: str, dimension: str) -> list[str] | None:
    """The lines of a unified diff from the packet in ``examples`` to ours; None where it shows none of ``dimension``.

    The two are of different clips: it is for reading how they are laid out.
    """
    theirs = packet_of(examples, dimension)
    ours = packet_of(load_prompts(names=[PACKETS])[PACKETS], dimension)
    if theirs is None or ours is None:
        return None
    before, after = ([line.rstrip() for line in text.strip().splitlines()] for text in (theirs, ours))
    return list(difflib.unified_diff(before, after, "the folder's example", "our example", lineterm=""))
