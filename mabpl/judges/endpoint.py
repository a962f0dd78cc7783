"""Where a judge or a model is reached: address, key, time-outs, price. The key leaves here in one header only."""

from __future__ import annotations

import json
import re
import urllib.parse
from dataclasses import dataclass, field

from mabpl.errors import UsageError

PATH = "/chat/completions"

_SHORTEST_SECRET = 8
"""A shorter key ("local") is a word that replies may well contain: they are left as they are."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds: to connect, and from then to the end of the reply. A judge that thinks sends its first byte last."""

    connect: float = 10.0
    read: float = 600.0


@dataclass(frozen=True, slots=True)
class Price:
    """What a million tokens cost, in any one currency; reasoning tokens are billed as part of the output."""

    per_million_in: float
    per_million_out: float

    def of(self, tokens_in: int, tokens_out: int) -> float:
        return (tokens_in * self.per_million_in + tokens_out * self.per_million_out) / 1e6


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An OpenAI-compatible endpoint. ``base_url`` ends where ``/chat/completions`` begins, usually in ``/v1``.

    ``price`` gives a cost to replies that state none. The key is in no ``repr``; raises :class:`UsageError` (which
    never holds the key) for an address or a key that could not be sent.
    """

    base_url: str
    api_key: str | None = field(default=None, repr=False)
    timeouts: Timeouts = Timeouts()
    price: Price | None = None

    def __post_init__(self) -> None:
        address = self.base_url.strip().rstrip("/").removesuffix(PATH)
        object.__setattr__(self, "base_url", address)
        key = (self.api_key or "").strip()
        object.__setattr__(self, "api_key", key or None)
        if not re.fullmatch(r"[!-~]*", key):
            raise UsageError("the API key holds characters that no key has", "was it copied whole, and alone?")
        try:
            parts = urllib.parse.urlsplit(address)
            plain = parts.scheme in ("http", "https") and parts.hostname and (parts.port or True)
        except ValueError:
            plain = False
        if plain and not (parts.query or parts.fragment or "@" in parts.netloc):
            return
        if "@" in address or "?" in address or "#" in address:  # it may hold a secret: it is not shown
            raise UsageError("the base URL holds a user name, a query or a fragment", "give the key as the key")
        raise UsageError(f"the base URL {address!r} is no address", "expected something like http://127.0.0.1:8000/v1")

    @property
    def url(self) -> str:
        return self.base_url + PATH

    @property
    def host(self) -> str:
        return urllib.parse.urlsplit(self.base_url).netloc

    def headers(self) -> dict[str, str]:
        headers = {"Content-Type": "application/json", "Accept": "application/json", "Accept-Encoding": "identity"}
        return headers | {"Authorization": f"Bearer {self.api_key}"} if self.api_key else headers

    def redacted(self, body: bytes, *, refused: bool) -> bytes:
        """``body`` without the key, should the endpoint send it back: it is kept on disk and shown in errors."""
        if not self.api_key or (len(self.api_key) < _SHORTEST_SECRET and not refused):
            return body
        escaped = json.dumps(self.api_key)[1:-1]
        for form in (self.api_key, escaped, escaped.replace("/", "\\/"), urllib.parse.quote(self.api_key, safe="")):
            body = body.replace(form.encode(), b"[key]")
        return body

    def words(self, body: bytes, longest: int = 300) -> str:
        """What a refusal says, on one line: the message of an error object if there is one, else the bare text."""
        text = body[:100_000].decode("utf-8", errors="replace")
        try:
            said = json.loads(text)
            error = said.get("error", said) if isinstance(said, dict) else said
            named = [error.get(name) for name in ("message", "detail", "code")] if isinstance(error, dict) else [error]
            text = str(next((word for word in named if word), text))
        except (ValueError, RecursionError):
            text = re.sub(r"<(style|script)\b.*?</\1>|<[^>]*>", " ", text, flags=re.DOTALL | re.IGNORECASE)
        text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
        text = self.redacted(text.encode(), refused=True).decode()
        return text if len(text) <= longest else text[: longest - 3] + "..."
