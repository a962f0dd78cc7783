"""One call of a chat-completions endpoint over HTTP/1.1: sent, timed, read up to a bound, its usage noted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from mabpl.judges import retry
from mabpl.judges.endpoint import Endpoint
from mabpl.judges.retry import Fate
from mabpl.judges.types import Answer

if TYPE_CHECKING:
    import httpx

LARGEST_BODY = 8 * 2**20
"""Bytes of a reply that are kept; the rest of a longer one is not read."""

_IDLE_S = 4.0
"""An idle connection is closed after this, before the server does it (often after 5 s): a call on its way is lost."""

_PIECE = 2**18
"""Bytes of a request that are handed on at once."""

_LARGEST_COUNT = 2**53


@dataclass(frozen=True, slots=True)
class Attempt:
    """A call and its ``fate``. ``trouble`` names what went wrong (an HTTP status, a lost connection; empty if nothing
    did), ``said`` adds the words of the endpoint or the system, ``asked_to_wait`` is Retry-After in seconds."""

    answer: Answer
    fate: Fate
    trouble: str
    said: str
    asked_to_wait: float


def connect(endpoint: Endpoint, connections: int) -> httpx.AsyncClient:
    """A client that neither follows redirects nor asks twice, with room for so many connections.

    aiohttp beneath httpx's interface: at 64 requests in flight httpx's own transport costs 20 times the CPU, and holds
    a quarter of the rate.
    """
    import httpx
    from httpx_aiohttp import HttpxAiohttpClient

    times = endpoint.timeouts
    return HttpxAiohttpClient(
        headers=endpoint.headers(),
        timeout=httpx.Timeout(times.read, connect=times.connect, pool=None),
        limits=httpx.Limits(max_connections=connections, keepalive_expiry=_IDLE_S),
        follow_redirects=False,
    )


async def call(http: httpx.AsyncClient, endpoint: Endpoint, key: str, content: bytes) -> Attempt:
    """Sends ``content`` for the question ``key`` once. Errors of the network are fates, not exceptions."""
    import aiohttp
    import httpx

    began = time.perf_counter()
    status, body, asked_to_wait, error = None, bytearray(), 0.0, None
    try:
        async with (
            asyncio.timeout(endpoint.timeouts.connect + endpoint.timeouts.read),
            http.stream("POST", endpoint.url, **_sent(content)) as response,
        ):
            status = response.status_code
            asked_to_wait = retry.retry_after(response.headers)
            async for piece in response.aiter_bytes():
                body += piece
                if len(body) >= LARGEST_BODY:
                    break
    except (httpx.HTTPError, aiohttp.ClientError, OSError) as raised:
        error = raised
    fate = Fate.ANSWERED if status is None else retry.fate_of_status(status)
    trouble = "" if fate is Fate.ANSWERED else f"HTTP {status}"
    if error is not None and fate is Fate.ANSWERED:  # a status that tells of a failure says enough
        fate, trouble = retry.fate_of_error(error)
    raw = endpoint.redacted(bytes(body[:LARGEST_BODY]), refused=fate is not Fate.ANSWERED)
    words = endpoint.words(raw if error is None else str(error).encode(errors="replace")) if trouble else ""
    said = f"{trouble}: {words}" if words else trouble
    usage = _usage(raw, endpoint) if fate is Fate.ANSWERED else {}
    answer = Answer(key, fate.outcome, status, raw, time.perf_counter() - began, **usage)
    return Attempt(answer, fate, trouble, said, asked_to_wait)


def _sent(content: bytes) -> dict[str, Any]:
    """In pieces where it is large: other calls go on while it is on its way."""
    if len(content) <= _PIECE:
        return {"content": content}

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(content), _PIECE):
            yield content[start : start + _PIECE]

    return {"content": pieces(), "headers": {"Content-Length": str(len(content))}}


class _Reply(msgspec.Struct):
    usage: Any = None


def _usage(body: bytes, endpoint: Endpoint) -> dict[str, Any]:
    """Tokens and cost as the reply states them; the cost else from the endpoint's price."""
    try:
        usage = msgspec.json.decode(body, type=_Reply).usage
    except (msgspec.DecodeError, RecursionError):
        return {}
    if not isinstance(usage, dict):
        return {}
    details = usage.get("completion_tokens_details")
    tokens_in, tokens_out = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
    cost = usage.get("cost")
    if isinstance(cost, bool) or not isinstance(cost, int | float) or not 0 <= cost < _LARGEST_COUNT:
        cost = None
        if endpoint.price is not None and tokens_in is not None and tokens_out is not None:
            cost = endpoint.price.of(tokens_in, tokens_out)
    return {
        "tokens_in": tokens_in,
        "tokens_out": tokens_out,
        "tokens_reasoning": _count(details.get("reasoning_tokens")) if isinstance(details, dict) else None,
        "cost": None if cost is None else float(cost),
    }


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _LARGEST_COUNT else None
