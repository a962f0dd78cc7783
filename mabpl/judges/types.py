"""The values that pass between the pieces: a request, the questions it becomes, their answers and verdicts."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def fingerprint(value: Any) -> str:
    """The digest of the canonical JSON of ``value``."""
    return digest(canonical(value))


def canonical(value: Any) -> str:
    """``value`` as JSON: keys sorted, no spaces, no NaN."""
    return _CANONICAL.encode(value)


def digest(text: str) -> str:
    """BLAKE2b-128 (32 hex digits) of ``text`` in UTF-8."""
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked, whoever answers: one row of `requests`. Labels are as sent, after hygiene.

    ``request``: fingerprint of everything else. ``kind``: pa, joint, timing, labels, object or window. ``also``: the
    other labels in the span of the predicted segment, in time order. Of a comparison of two timelines (timing, labels),
    ``predicted_label`` is the one shown as A, ``also`` the one shown as B, and ``primary`` the human one, as text. Of
    an object that was spoken of, ``predicted_label`` is the mention and ``primary`` the object. Of a window of a video,
    which a model is to annotate, ``predicted_label`` names the video, ``primary`` the window, and ``also`` is its start
    and end in seconds.
    """

    request: str
    kind: str
    predicted_label: str
    primary: str
    also: tuple[str, ...] = ()
    instruction: str | None = None
    prompt_hash: str = ""

    @property
    def texts(self) -> list[str]:
        """What a parser is told of the request."""
        return [self.predicted_label, self.primary, *self.also]


@dataclass(frozen=True, slots=True)
class Question:
    """One call: a request put to a judge with a seed.

    ``key``: fingerprint of all that can change the answer. ``route``: the public host's name, or
    ``self-hosted``. ``body``: exactly what is sent; where it shows a video, which of it and how, in
    the place of what is made of it when it is sent. ``worst_cost``: what the call may cost at most, in the currency
    of the price; it is reserved from the budget while the call is open.
    """

    key: str
    request: Request
    judge: str
    route: str
    seed: int | None
    body: dict[str, Any]
    worst_cost: float = 0.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back for one attempt, kept raw before anybody parses it.

    ``outcome``: ``answered`` (HTTP 200 with a body), ``refused`` (an error that is not billed) or ``ambiguous`` (maybe
    billed). ``body``: the response's, capped.
    """

    key: str
    outcome: str
    http_status: int | None
    body: bytes
    seconds: float
    tokens_in: int | None = None
    tokens_out: int | None = None
    tokens_reasoning: int | None = None
    cost: float | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What an answer means, as :func:`mabpl.judges.parsing.parse` reads it; values are null unless ``status`` is ok.

    ``status``: ``ok``, ``truncated``, ``no_json``, ``no_verdict``, ``bad_value`` or ``error``.
    ``score`` (0-100) and ``equivalent`` for PA-F1, ``accepted`` for Joint F1 and for objects, ``verdict`` (A, B or tie)
    for the tournament. ``reply`` and ``reasoning``: the judge's text.
    """

    status: str
    score: float | None = None
    equivalent: bool | None = None
    accepted: bool | None = None
    verdict: str | None = None
    reply: str = ""
    reasoning: str = ""
