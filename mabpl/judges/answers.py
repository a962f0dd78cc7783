"""What every reader of a model's answer shares: thinking told from the reply, and the JSON objects in prose.

Answers are untrusted text: nothing here raises, and the work is bounded however long or contrived the text is.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

T = TypeVar("T")

_THINKING = re.compile(
    r"(?:[<\[](?P<close>/)?(?:\w{1,20}:)?(?:think|thinking|thought|reasoning)[>\]])"
    r"|\u25c1(?P<kimi>/)?think\u25b7"
    r"|<\|(?:begin|(?P<end>end))_of_thought\|>"
    r"|<\|channel\|>(?:analysis|(?P<final>final))<\|message\|>",
    re.IGNORECASE,
)
_BRACES = 1_000
_DECODER = json.JSONDecoder()
_PART_OF_A_VALUE = re.compile(r"[\w.+\\-]{0,9}\s*")


def without_thinking(content: str, whole: Sequence[tuple[int, int]] = ()) -> tuple[str, str]:
    """``content`` in two: outside and inside thinking blocks.

    A block without an end reaches to the end; one without a beginning began before the content, in the prompt. What
    looks like a tag inside one of the stretches ``whole`` (start, end; ascending) is none.
    """
    outside, inside = [""], [""]
    position, thinking = 0, False
    starts = [start for start, _ in whole]
    for tag in _THINKING.finditer(content):
        stretch = bisect_right(starts, tag.start()) - 1
        if stretch >= 0 and tag.start() < whole[stretch][1]:
            continue
        between = content[position : tag.start()]
        (inside if thinking else outside).append(between)
        closing = any(tag[name] for name in ("close", "kimi", "end", "final"))
        if closing and not thinking:
            inside += outside
            outside.clear()
        position, thinking = tag.end(), not closing
    (inside if thinking else outside).append(content[position:])
    return "".join(outside), "".join(inside)


def has_thinking(content: str) -> bool:
    """Whether anything in ``content`` looks like the tag of a thinking block."""
    return _THINKING.search(content) is not None


class Found(NamedTuple, Generic[T]):
    """An object at ``start`` to ``end`` of a text; ``value`` is what was read from it.

    ``cut``: the text ends inside it, so that it has no value.
    """

    start: int
    end: int
    value: T | None
    cut: bool = False


def objects(
    text: str,
    read: Callable[[dict[str, Any]], T | None],
    *,
    decoder: json.JSONDecoder = _DECODER,
    longest: int = 50_000,
    work: int = 50_000_000,
) -> Iterator[Found[T]]:
    """The JSON objects in ``text``, in order; those inside one of which ``read`` makes something are passed over.

    They are looked for at the last 1,000 opening braces, in stretches of up to ``longest`` characters, until about
    ``work`` characters were read in vain.
    """
    position = 0
    for brace in _last_braces(text):
        if brace < position or work < 0:
            continue
        stretch = text[brace : brace + longest]
        try:
            value, length = decoder.raw_decode(stretch)
        except json.JSONDecodeError as error:
            work -= len(stretch) if _in_a_string(error) else error.pos
            if brace + len(stretch) == len(text) and is_cut(error):
                yield Found(brace, len(text), None, cut=True)
            continue
        except (ValueError, RecursionError):  # a number of thousands of digits; nested too deeply
            work -= len(stretch)
            continue
        found = read(value)
        if found is not None:
            position = brace + length
        yield Found(brace, brace + length, found)


def is_cut(error: json.JSONDecodeError) -> bool:
    """Whether a document fails only because it ends too early."""
    return _in_a_string(error) or _PART_OF_A_VALUE.fullmatch(error.doc, error.pos) is not None


def _in_a_string(error: json.JSONDecodeError) -> bool:
    return error.msg.startswith("Unterminated string")


def _last_braces(text: str) -> list[int]:
    """Where the last opening braces are, in ascending order."""
    found: list[int] = []
    position = len(text)
    while len(found) < _BRACES and (position := text.rfind("{", 0, position)) >= 0:
        found.append(position)
    return found[::-1]
