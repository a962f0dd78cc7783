"""The verdict in an answer: a pure function of the raw response and the labels that were sent.

Answers are kept raw, so a better parser reads old ones again: ``PARSER`` is its version.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from mabpl.errors import unknown_name
from mabpl.judges.answers import objects, without_thinking
from mabpl.judges.types import Verdict

Values = dict[str, Any]

PARSER = 1
"""Raised whenever an answer may be read differently than before."""

WINDOW = "window"

ACCEPT_KEYS = (
    "accept", "accepted", "acceptable", "is_accepted", "match", "matches", "is_match", "correct", "is_correct",
    "same", "same_event", "same_action", "equivalent",
)  # fmt: skip
"""Keys that may hold the joint judge's boolean: ours, then those that a foreign rubric may ask for. The first wins."""

VERDICT_KEYS = ("verdict", "winner", "preferred", "preference", "better", "choice", "answer")
"""Keys that may hold a tournament's verdict: ours, then those that a foreign prompt may ask for. The first wins."""

_NAMED = {"a": "A", "b": "B", "tie": "tie", "candidate a": "A", "candidate b": "B", "draw": "tie", "equal": "tie"}

_NOTHING: Values = {}


def parse(kind: str, body: bytes, labels: Iterable[str]) -> Verdict:
    """What ``body`` says, the response to a request of ``kind`` (a judge's, or window) about ``labels``.

    The last object in the reply that holds a verdict counts. Thinking is no part of the reply, and an object that
    stands in a label (spaces aside) is no verdict, for the judge may only have quoted it. ``status`` is

    - ``ok``;
    - ``truncated``: the reply was cut at the token limit, so what it would have ended with is unknown;
    - ``no_json``: no JSON object; ``no_verdict``: none with the fields of a verdict, or only quoted ones;
    - ``bad_value``: a score that is no number from 0 to 100, ``equivalent`` or ``accept`` that is no boolean, a
      ``verdict`` that is neither A nor B nor tie;
    - ``error``: no chat completion at all.

    The answer about a window of a video is ``ok`` where it is whole and says anything (else ``no_json``): whether it is
    a timeline, :mod:`mabpl.annotate` tells. No body raises; an unknown kind does.
    """
    if kind not in (*_READERS, WINDOW):
        raise unknown_name("kind of verdict", kind, [*_READERS, WINDOW])
    choice = _choice(body)
    if choice is None:
        return Verdict("error")
    message = choice.get("message")
    if not isinstance(message, dict):
        return Verdict("error")
    content = message.get("content")
    reply, thought = without_thinking(_text(content))
    told = [_text(message.get("reasoning_content")), _text(message.get("reasoning")), _thoughts(content), thought]
    if choice.get("finish_reason") == "length":
        status, values = "truncated", _NOTHING
    elif kind == WINDOW:
        status, values = "ok" if reply.strip() else "no_json", _NOTHING
    else:
        status, values = _last_verdict(kind, reply, [_squeezed(label) for label in labels])
    reasoning = next((text for text in told if text.strip()), "")
    return Verdict(status, reply=_storable(reply.strip()), reasoning=_storable(reasoning.strip()), **values)


def _choice(body: bytes) -> dict[str, Any] | None:
    """The first choice of a chat completion."""
    try:
        response = json.loads(body)
    except (ValueError, RecursionError):
        return None
    choices = response.get("choices") if isinstance(response, dict) else None
    return choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else None


def _text(content: Any) -> str:
    """``content`` if it is text, the text of its text parts if it is a list of parts."""
    if isinstance(content, str):
        return content
    return "".join(part["text"] for part in _parts(content, "text") if isinstance(part.get("text"), str))


def _thoughts(content: Any) -> str:
    return "".join(_text(part.get("thinking")) for part in _parts(content, "thinking"))


def _parts(content: Any, kind: str) -> list[dict[str, Any]]:
    listed = content if isinstance(content, list) else []
    return [part for part in listed if isinstance(part, dict) and part.get("type") == kind]


def _last_verdict(kind: str, reply: str, labels: list[str]) -> tuple[str, Values]:
    """Status and values of the last object that holds a verdict; if none does, what came nearest to one."""
    found: dict[str, Values] = {"no_json": _NOTHING}
    for candidate in objects(reply, _READERS[kind]):
        values = candidate.value
        if candidate.cut:
            continue
        if values is None or _is_quoted(reply[candidate.start : candidate.end], labels):
            found["no_verdict"] = _NOTHING
        else:
            found["ok" if values else "bad_value"] = values
    return next((status, found[status]) for status in ("ok", "bad_value", "no_verdict", "no_json") if status in found)


def _is_quoted(text: str, labels: list[str]) -> bool:
    squeezed = _squeezed(text)
    return any(squeezed in label for label in labels)


def _squeezed(text: str) -> str:
    return "".join(text.split())


def _read_pa(value: Values) -> Values | None:
    """The values of a PA verdict; empty if one is impossible, None if ``value`` has no field of one."""
    if not {"score", "equivalent"} & value.keys():
        return None
    score, equivalent = value.get("score"), value.get("equivalent")
    if isinstance(score, bool) or not isinstance(score, int | float) or not 0 <= score <= 100:
        return _NOTHING
    return {"score": float(score), "equivalent": equivalent} if isinstance(equivalent, bool) else _NOTHING


def _read_joint(value: Values) -> Values | None:
    """As :func:`_read_pa`, of a joint verdict."""
    key = next((key for key in ACCEPT_KEYS if key in value), None)
    if key is None:
        return None
    return {"accepted": value[key]} if isinstance(value[key], bool) else _NOTHING


def _read_comparison(value: Values) -> Values | None:
    """As :func:`_read_pa`, of a tournament's verdict."""
    key = next((key for key in VERDICT_KEYS if key in value), None)
    if key is None:
        return None
    said = value[key]
    named = _NAMED.get(said.strip().casefold().replace("_", " ")) if isinstance(said, str) else None
    return {"verdict": named} if named else _NOTHING


_READERS: dict[str, Callable[[Values], Values | None]] = {
    "pa": _read_pa,
    "joint": _read_joint,
    "timing": _read_comparison,
    "labels": _read_comparison,
    "object": _read_joint,
}


def _storable(text: str) -> str:
    """``text`` as UTF-8 can hold it: a lone surrogate, which JSON can spell, becomes a question mark."""
    return text.encode("utf-8", "replace").decode()
