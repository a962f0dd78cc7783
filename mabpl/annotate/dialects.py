"""How much a model is to think, in the words of the endpoint that serves it.

================  ===================  =========================================  =========================
dialect           by default for       `--reasoning-effort E` sends               the limit of output tokens
================  ===================  =========================================  =========================
``openrouter``    openrouter.ai        ``reasoning: {effort: E}``                 ``max_tokens``
``openai``        api.openai.com       ``reasoning_effort: E``                    ``max_completion_tokens``
``compatible``    other public hosts   ``reasoning_effort: E``                    ``max_tokens``
``template``      your own servers     ``chat_template_kwargs: {enable_thinking,  ``max_tokens``
                                       thinking, reasoning_effort: E}``
``none``                               nothing                                    ``max_tokens``
================  ===================  =========================================  =========================

Efforts are the endpoint's own words (low, medium, high, ...). The chat templates of self-hosted models read different
names and ignore the others; the effort ``none`` switches their thinking off.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from mabpl.errors import UsageError, unknown_name
from mabpl.judges.judge import SELF_HOSTED, Judge, route_of

MAX_TOKENS = 32_000
"""Output tokens of the published runs."""


class Dialect(NamedTuple):
    """``limit``: the field that bounds the output; ``effort``: the fields that ask for an effort."""

    limit: str
    effort: Callable[[str], dict[str, Any]]


def _template(effort: str) -> dict[str, Any]:
    thinks = effort != "none"
    return {"chat_template_kwargs": {"enable_thinking": thinks, "thinking": thinks, "reasoning_effort": effort}}


DIALECTS = {
    "openrouter": Dialect("max_tokens", lambda effort: {"reasoning": {"effort": effort}}),
    "openai": Dialect("max_completion_tokens", lambda effort: {"reasoning_effort": effort}),
    "compatible": Dialect("max_tokens", lambda effort: {"reasoning_effort": effort}),
    "template": Dialect("max_tokens", _template),
    "none": Dialect("max_tokens", lambda effort: {}),
}
_OF_HOST = {"openrouter.ai": "openrouter", "api.openai.com": "openai", SELF_HOSTED: "template"}
_OURS = ("model", "messages", "stream")


def model_of(
    base_url: str,
    name: str,
    *,
    route: str | None = None,
    effort: str | None = None,
    dialect: str | None = None,
    sampling: Mapping[str, Any] | None = None,
    extra_body: str | Mapping[str, Any] = "{}",
    seeds: Sequence[int] = (),
) -> Judge:
    """The model that is asked about windows, and the fields of each request beside its messages.

    ``sampling``: max_tokens (32,000 where it is null or absent), temperature and top_p; null is not sent.
    ``extra_body`` is merged in last, objects field by field. ``seeds``: sent as the request's ``seed``, one run each.
    Raises :class:`UsageError` for what cannot be sent.
    """
    host = route_of(base_url)
    spoken = dialect or _OF_HOST.get(host, "compatible")
    if spoken not in DIALECTS:
        raise unknown_name("dialect of reasoning effort", spoken, list(DIALECTS))
    if effort is not None and spoken == "none":
        raise UsageError(
            "the dialect none cannot ask for a reasoning effort", "say it in --extra-body, or leave one out"
        )
    if len(set(seeds)) < len(seeds) or any(not 0 <= seed < 2**63 for seed in seeds):
        raise UsageError(f"seeds {list(seeds)} are not possible", "expected different whole numbers, 0 or more")
    given = {key: value for key, value in (sampling or {}).items() if value is not None}
    limit = given.pop("max_tokens", MAX_TOKENS)
    words = {} if effort is None else DIALECTS[spoken].effort(effort)
    extra = parse_object(extra_body, "--extra-body")
    if taken := sorted(extra.keys() & {*_OURS, *(["seed"] if seeds else [])}):
        raise UsageError(f"--extra-body cannot set {', '.join(taken)}", "the model is --model, the seeds are --seeds")
    template = merged({DIALECTS[spoken].limit: limit, **given, **words}, extra)
    return Judge("window", name, route or host, base_url.rstrip("/"), tuple(seeds) or (None,), template)


def parse_object(given: str | Mapping[str, Any], option: str) -> dict[str, Any]:
    """``given``, JSON or a mapping, as an object that can be sent; raises :class:`UsageError` otherwise."""
    try:
        value = json.loads(given) if isinstance(given, str) else dict(given)
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, TypeError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise UsageError(f"{option} is no JSON object", "expected something like '{\"fps\": 6}'")
    return value


def merged(base: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """``base`` with the fields of ``more``; where both have an object, the two are merged in the same way."""
    both = dict(base)
    for key, value in more.items():
        old = both.get(key)
        both[key] = merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return both
