"""How the store of answers reads what a model said about a window: as :func:`mabpl.annotate.parse_window` does.

Answers are kept raw: those in which the strict reading finds no timeline are read again when it is to be lenient.
"""

from __future__ import annotations

from collections.abc import Iterable

from mabpl.annotate.parsing import Mode, parse_window
from mabpl.judges import parsing
from mabpl.judges.store_reading import Parser
from mabpl.judges.types import Request, Verdict, fingerprint

WINDOWS = 1
"""Raised whenever an answer about a window may be read differently than before."""

_VERSIONS: dict[Mode, int] = {"strict": 10 * WINDOWS + 1, "lenient": 10 * WINDOWS + 2}


def request_of(md5: str, start_s: float, end_s: float, prompt_hash: str) -> Request:
    """What is asked about a window of the video with this ``md5``, whoever answers."""
    bounds = repr(float(start_s)), repr(float(end_s))
    return Request(
        request=fingerprint([parsing.WINDOW, md5, bounds, prompt_hash]),
        kind=parsing.WINDOW,
        predicted_label=f"video {md5}",
        primary=f"window {bounds[0]} to {bounds[1]} s",
        also=bounds,
        prompt_hash=prompt_hash,
    )


def parser(mode: Mode) -> Parser:
    """For :meth:`mabpl.judges.store.Store.open`: a timeline in an answer about a window is a verdict.

    The status is that of :class:`~mabpl.annotate.parsing.ParsedWindow`; ``truncated`` where the reply was cut at the
    token limit, which only the lenient mode forgives; ``error`` for what is no chat completion. Verdicts on labels are
    read as ever.
    """

    def parse(kind: str, body: bytes, texts: Iterable[str]) -> Verdict:
        texts = list(texts)
        said = parsing.parse(kind, body, texts)
        if kind != parsing.WINDOW or said.status == "error" or (said.status == "truncated" and mode == "strict"):
            return said
        start_s, end_s = (float(bound) for bound in texts[-2:])
        status = parse_window(said.reply, start_s, end_s, mode=mode).status
        if status != "ok" and said.status == "truncated":
            status = said.status
        return Verdict(status, reply=said.reply, reasoning=said.reasoning)

    return Parser(parsing.PARSER * 1000 + _VERSIONS[mode], parse)
