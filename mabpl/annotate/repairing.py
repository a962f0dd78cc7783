"""What lenient reading of a model's answer adds: lists that are cut off or broken by commas, times written as text.

Only what the answer says is read: a segment that is not complete is left out, and no number is made up or extended.
"""

from __future__ import annotations

import json
import re
import reprlib
from typing import Any, NamedTuple

from mabpl.benchmarks.micro_annotation.edits import seconds_in
from mabpl.judges.answers import is_cut

_BEGUN = re.compile(r'"segments"\s*:\s*\[(?=\s*(?:\{|\Z))')
_BETWEEN = re.compile(r"\s*(,?)\s*")
_FLAT = re.compile(r'\{(?:[^"{}]|"(?:[^"\\]|\\.)*+")*+\}', re.DOTALL)
_LAST_COMMA = re.compile(r",(\s*\})\Z")


class Listed(NamedTuple):
    """The segments that could be read, up to ``end``; ``whole``: the list ends there; ``cut``: the text ends inside it.

    ``commas``: those that had to go.
    """

    segments: list[Any]
    end: int
    commas: int
    whole: bool = False
    cut: bool = False


def begun(text: str, start: int) -> int | None:
    """Where, after ``start``, the items of the last list of segments begin."""
    found = None
    for found in _BEGUN.finditer(text, start):  # noqa: B007 - the last one
        pass
    return found.end() if found else None


def listed(text: str, position: int, decoder: json.JSONDecoder) -> Listed:
    """The items of a list that begins at ``position``, as far as they are complete."""
    segments: list[Any] = []
    commas = 0
    while True:
        between = _BETWEEN.match(text, position)
        assert between is not None  # it matches nothing, too
        comma, position = bool(between[1]), between.end()
        following = text[position : position + 1]
        if following in ("]", ""):
            return Listed(
                segments, position, commas + (comma and bool(following)), whole=bool(following), cut=not following
            )
        if following != "{" or comma != bool(segments):
            return Listed(segments, position, commas)
        try:
            segment, position, last_comma = _item(text, position, decoder)
        except (ValueError, RecursionError) as error:
            cut = isinstance(error, json.JSONDecodeError) and is_cut(error)
            return Listed(segments, position, commas, cut=cut)
        segments.append(segment)
        commas += last_comma


def _item(text: str, position: int, decoder: json.JSONDecoder) -> tuple[Any, int, bool]:
    """The object at ``position``, its end, and whether a comma after its last field had to go."""
    try:
        return *decoder.raw_decode(text, position), False
    except json.JSONDecodeError:
        flat = _FLAT.match(text, position)
        mended, commas = _LAST_COMMA.subn(r"\1", flat[0]) if flat else ("", 0)
        if flat is None or not commas:
            raise
        return decoder.decode(mended), flat.end(), True


def times_as_numbers(segments: list[Any], repairs: list[str]) -> list[Any]:
    """``segments`` with times that are text (`mm:ss`, `hh:mm:ss`, seconds in quotes) as numbers; each is told."""
    return [_times_as_numbers(segment, f"segments[{i}]", repairs) for i, segment in enumerate(segments)]


def _times_as_numbers(segment: Any, path: str, repairs: list[str]) -> Any:
    if not isinstance(segment, dict):
        return segment
    numbers = {}
    for name in ("start_s", "end_s"):
        text = segment.get(name)
        if isinstance(text, str) and (seconds := seconds_in(text)) is not None:
            numbers[name] = seconds
            repairs.append(f"{path}.{name}: {reprlib.repr(text.strip())} read as {seconds!r} s")
    return {**segment, **numbers}
