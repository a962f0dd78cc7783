"""The values that pass between the pieces: a request, the questions it becomes, their answers and verdicts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

Kind = Literal["pa", "joint", "timing", "labels", "object"]
"""What is judged: a pair of labels for PA-F1 or for Joint F1, a tournament packet, or a mention of an object."""

KINDS: tuple[str, ...] = get_args(Kind)

Outcome = Literal["answered", "refused", "ambiguous"]
"""HTTP 200 with a body; an error that is not billed; or an attempt that may have been billed."""

Status = Literal["ok", "truncated", "no_json", "no_verdict", "bad_value", "error"]
"""Whether an answer holds a verdict, and if not, why: only ``ok`` is a verdict."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked, whoever answers: one row of `requests`. Labels are as sent, after hygiene.

    ``request``: BLAKE2b-128 (32 hex digits) of everything else. ``also``: the other labels in the span of the
    predicted segment, in time order.
    """

    request: str
    kind: str
    predicted_label: str
    primary: str
    also: tuple[str, ...] = ()
    instruction: str | None = None
    prompt_hash: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """One call: a request put to a judge with a seed.

    ``key``: BLAKE2b-128 (32 hex digits) of all that can change the answer. ``route``: the public host's name, or
    ``self-hosted``. ``body``: exactly what is sent. ``worst_cost``: what the call may cost at most, in the currency
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
    """What came back for one attempt, kept raw before anybody parses it. ``body``: the response's, capped."""

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
    """What an answer means, as ``mabpl.judges.parsing.parse`` reads it; values are null unless ``status`` is ``ok``.

    ``score`` (0-100) and ``equivalent`` for PA-F1, ``accepted`` for Joint F1, ``verdict`` (A, B or tie) for the
    tournament. ``reply`` and ``reasoning``: the judge's text.
    """

    status: str
    score: float | None = None
    equivalent: bool | None = None
    accepted: bool | None = None
    verdict: str | None = None
    reply: str = ""
    reasoning: str = ""
