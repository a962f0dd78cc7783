"""What became of an attempt, whether it may have been billed, and how long to wait before the next."""

from __future__ import annotations

import email.utils
import enum
import random
import re
import time
from collections.abc import Mapping

FIRST_DELAY_S = 0.5
LONGEST_DELAY_S = 60.0


class Fate(enum.Enum):
    ANSWERED = enum.auto()
    """A whole reply with a status of success: billed."""
    UNBILLED = enum.auto()
    """Turned away by a busy endpoint, or not connected to it: asked again until the run gives up."""
    UNSURE = enum.auto()
    """The endpoint may have worked, and billed, in vain."""
    REJECTED = enum.auto()
    """Not billed, and asking again would be answered in the same way: a wrong key, address, model or request."""

    @property
    def outcome(self) -> str:
        """The ``outcome`` of the attempt's answer."""
        return {Fate.ANSWERED: "answered", Fate.UNSURE: "ambiguous"}.get(self, "refused")


_BUSY = {429, 503, 529}
_IN_VAIN = {408}


def fate_of_status(status: int) -> Fate:
    if 200 <= status < 300:
        return Fate.ANSWERED
    if status in _BUSY:
        return Fate.UNBILLED
    return Fate.UNSURE if status >= 500 or status in _IN_VAIN else Fate.REJECTED


def fate_of_error(error: BaseException) -> tuple[Fate, str]:
    """The fate of an attempt that raised ``error`` before its reply was whole, and a name for what happened.

    Looks at aiohttp's own error: httpx's interface to it reports a connection that was lost in mid-request as one that
    was never made.
    """
    import aiohttp

    own = error.__cause__ if isinstance(error.__cause__, aiohttp.ClientError) else error
    if isinstance(own, aiohttp.ClientSSLError):
        return Fate.REJECTED, "no secure connection"
    if isinstance(own, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
        return Fate.UNBILLED, "no connection"
    if isinstance(own, TimeoutError):
        return Fate.UNSURE, "time-out"
    return Fate.UNSURE, "connection lost"


def retry_after(headers: Mapping[str, str]) -> float:
    """Seconds that the endpoint asks to wait: 0 if it asks nothing that can be read.

    A date is counted from the endpoint's own clock where it states one.
    """
    asked = headers.get("retry-after", "").strip()
    if re.fullmatch(r"\d{1,9}(\.\d+)?", asked):
        return float(asked)
    until = _seconds(asked)
    now = _seconds(headers.get("date", ""))
    return 0.0 if until is None else max(0.0, until - (time.time() if now is None else now))


def _seconds(date: str) -> float | None:
    try:
        return email.utils.parsedate_to_datetime(date).timestamp()
    except (ValueError, OverflowError):
        return None


def delay(attempt: int, asked: float) -> float:
    """Seconds to wait after the ``attempt``-th failure (from 0): full jitter of a doubling delay, or what is asked."""
    return max(asked, random.uniform(0, min(LONGEST_DELAY_S, FIRST_DELAY_S * 2 ** min(attempt, 20))))


def advice(status: int | None) -> str:
    """What to do about rejections with this HTTP status; none: the connection was refused."""
    if status in (401, 403):
        return "is the API key right, and meant for this address?"
    if status == 402:
        return "the account has no credit; once it has, run again: what was answered is kept"
    if status == 404 or (status is not None and 300 <= status < 400):
        return "is the base URL right (it usually ends in /v1), and does the endpoint know the model's name?"
    if status is None:
        return "is the base URL right, https or http, and its certificate valid?"
    return "are the model's name, the token limit and the extra body what this endpoint accepts?"
