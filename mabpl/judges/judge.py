"""Who is asked, and exactly how: a judge's model, route and request body, and the key under which an answer is kept.

What is asked about windows of a video instead of pairs of labels is such a judge too.

The published judges of MicroAnnotationBench are the defaults. PA: DeepSeek V4 Flash, thinking on, temperature 0, the
judge seeds 1, 2 and 3 in the request's seed field. Joint: Gemini 3.5 Flash, temperature 0, up to 8,192 output tokens,
thinking at the model's default, one call without a seed. The two dimensions of a tournament, timing and labels: the PA
judge, thinking at low effort, with the judge seed 1. Object (does a mention in free text refer to an object?): the PA
judge, one call without a seed; whom the authors of ProactEgoMem ask is not known.
"""

from __future__ import annotations

import functools
import ipaddress
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

from mabpl.errors import UsageError
from mabpl.judges.types import Question, Request, canonical, digest, fingerprint

VERSION = 1
"""Part of every question's key."""

OPENROUTER = "https://openrouter.ai/api/v1"
SELF_HOSTED = "self-hosted"
JudgeKind = Literal["pa", "joint", "timing", "labels", "object"]
"""The kinds of judges."""

_PREFIX = {**dict.fromkeys(["pa", "timing", "labels", "object"], "MAB_JUDGE_"), "joint": "MAB_JOINT_JUDGE_"}
_FLASH = "deepseek/deepseek-v4-flash-0731"
_MODELS = {"pa": _FLASH, "joint": "google/gemini-3.5-flash", "timing": _FLASH, "labels": _FLASH, "object": _FLASH}
_LIMITS: dict[str, dict[str, Any]] = {
    "pa": {"temperature": 0},
    "joint": {"temperature": 0, "max_tokens": 8192},
    "timing": {"temperature": 0},
    "labels": {"temperature": 0},
    "object": {"temperature": 0},
}
_SEEDS = {"pa": (1, 2, 3), "timing": (1,), "labels": (1,)}
_THINKING_AT_OPENROUTER = {"reasoning": {"enabled": True}}
_THINKING_ELSEWHERE = {"chat_template_kwargs": {"thinking": True}}
_LOW_AT_OPENROUTER = {"reasoning": {"effort": "low"}}
_LOW_ELSEWHERE = {"chat_template_kwargs": {"thinking": True, "reasoning_effort": "low"}}
_MESSAGES = "the messages"
_OUTSIDE_THE_KEY = ("stream", "user", "metadata")
_OURS = {"model", "messages", "stream", "seed"}
_PRIVATE_ENDINGS = (".local", ".localhost", ".internal", ".intranet", ".lan", ".home", ".corp", ".home.arpa")


@dataclass(frozen=True, slots=True)
class Judge:
    """One judge, or a model that annotates (of kind window). ``seeds``: the judge seeds, a single None where it takes
    none. ``template``: the request body's other fields (temperature, limits, extra body). ``base_url``: where it is
    asked; no part of a key."""

    kind: JudgeKind | Literal["window"]
    model: str
    route: str
    base_url: str
    seeds: tuple[int | None, ...]
    template: Mapping[str, Any]

    def question(self, request: Request, messages: Sequence[Mapping[str, Any]], seed: int | None) -> Question:
        """The call that puts ``messages`` to this judge with ``seed``."""
        body: dict[str, Any] = {"model": self.model, "messages": list(messages), **self.template}
        if seed is not None:
            body["seed"] = seed
        return Question(self._key(body), request, self.model, self.route, seed, body)

    def _key(self, body: Mapping[str, Any]) -> str:
        """The fingerprint of all that can change the answer.

        Messages are long, and most share their system prompt: they are encoded apart, and put in their place.
        """
        keyed = {name: value for name, value in body.items() if name not in _OUTSIDE_THE_KEY}
        keyed["messages"] = _MESSAGES
        around = {"version": VERSION, "judge": self.model, "route": self.route, "body": keyed, "seed": body.get("seed")}
        before, *after = canonical(around).split(f'"{_MESSAGES}"')
        if len(after) != 1:  # somebody's template holds these very words
            return fingerprint({**around, "body": {**keyed, "messages": body["messages"]}})
        inner = ",".join(_canonical_message(message) for message in body["messages"])
        return digest(f"{before}[{inner}]{after[0]}")

    @property
    def profile(self) -> dict[str, Any]:
        """For a result: kind, judge, route, judge seeds and the request body's fields. No address, no key."""
        return {
            "kind": self.kind,
            "judge": self.model,
            "route": self.route,
            "judge_seeds": [seed for seed in self.seeds if seed is not None],
            "body": dict(self.template),
        }


def _canonical_message(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if message.get("role") == "system" and isinstance(content, str) and len(message) == 2:
        return _canonical_system(content)
    return canonical(message)


@functools.lru_cache(maxsize=8)
def _canonical_system(content: str) -> str:
    return canonical({"role": "system", "content": content})


def from_environment(
    kind: JudgeKind,
    *,
    base_url: str | None = None,
    model: str | None = None,
    route: str | None = None,
    extra_body: str | Mapping[str, Any] | None = None,
    seeds: Sequence[int] | None = None,
    environ: Mapping[str, str] | None = None,
) -> tuple[Judge, str | None]:
    """The judge that the arguments name, or else the environment, or else the published default; and its API key.

    ``MAB_JUDGE_BASE_URL``, ``_MODEL``, ``_API_KEY`` and ``_EXTRA_BODY`` name every judge but the joint one;
    ``MAB_JOINT_JUDGE_BASE_URL``, ``_MODEL`` and ``_API_KEY`` the joint judge, whose key falls back to
    ``MAB_JUDGE_API_KEY`` where both are asked at the same host. The key is None where none is set. Without an extra
    body the PA judge's thinking is switched on, a tournament's at low effort, in OpenRouter's way there and through the
    chat template elsewhere. Raises :class:`~mabpl.errors.UsageError` for what cannot be sent, and where the fall-back
    would show one host's key to another.
    """
    given = os.environ if environ is None else environ
    prefix = _PREFIX[kind]
    url = base_url or _variable(given, f"{prefix}BASE_URL") or OPENROUTER
    host = _host(url)
    name = model or _variable(given, f"{prefix}MODEL") or (_MODELS[kind] if host == _host(OPENROUTER) else None)
    if name is None:
        raise UsageError(f"the judge at {host} has no model name", f"set {prefix}MODEL, or give --judge-model")
    if kind != "joint" and extra_body is None:
        extra_body = _variable(given, "MAB_JUDGE_EXTRA_BODY") or _thinking(kind, host == _host(OPENROUTER))
    judge = Judge(
        kind=kind,
        model=name,
        route=route or route_of(url),
        base_url=url.rstrip("/"),
        seeds=_seeds(kind, seeds),
        template={**_LIMITS[kind], **_extra(extra_body or {})},
    )
    return judge, _key(kind, host, given)


def _thinking(kind: JudgeKind, at_openrouter: bool) -> dict[str, Any]:
    if kind in ("pa", "object"):
        return _THINKING_AT_OPENROUTER if at_openrouter else _THINKING_ELSEWHERE
    return _LOW_AT_OPENROUTER if at_openrouter else _LOW_ELSEWHERE


def route_of(url: str) -> str:
    """The public host's name; ``self-hosted`` for an address, a name without a dot, or one of a private network."""
    host = _host(url)
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return SELF_HOSTED if "." not in host or host.endswith(_PRIVATE_ENDINGS) else host
    return SELF_HOSTED


def _host(url: str) -> str:
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").rstrip(".")
        valid = parts.scheme in ("http", "https") and host and (parts.port is None or parts.port > 0)
    except ValueError:
        valid = False
    if not valid:
        raise UsageError("the base URL is none", "expected something like http://127.0.0.1:8000/v1")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise UsageError(
            f"the base URL at {host} holds more than an address",
            "a key belongs into MAB_JUDGE_API_KEY, MAB_JOINT_JUDGE_API_KEY or, a model's, MODEL_API_KEY",
        )
    return host


def _variable(environ: Mapping[str, str], name: str) -> str | None:
    return environ.get(name, "").strip() or None


def _key(kind: JudgeKind, host: str, environ: Mapping[str, str]) -> str | None:
    key = _variable(environ, f"{_PREFIX[kind]}API_KEY")
    if key is None and kind == "joint":
        key = _variable(environ, "MAB_JUDGE_API_KEY")
        keys_host = _host(_variable(environ, "MAB_JUDGE_BASE_URL") or OPENROUTER)
        if key is not None and keys_host != host:
            raise UsageError(
                f"MAB_JUDGE_API_KEY is the key for {keys_host}, and the joint judge is at {host}: it is not sent there",
                "set MAB_JOINT_JUDGE_API_KEY",
            )
    if key is not None and not (key.isascii() and key.isprintable() and " " not in key):
        raise UsageError(f"the API key for {host} holds characters that no key can have", "set it anew")
    return key


def _seeds(kind: JudgeKind, given: Sequence[int] | None) -> tuple[int | None, ...]:
    if kind in ("joint", "object"):
        if given is not None:
            raise UsageError(f"the {kind} judge takes no judge seeds", "it is asked once for each pair")
        return (None,)
    seeds = _SEEDS[kind] if given is None else tuple(given)
    if not seeds or len(set(seeds)) < len(seeds) or any(not 0 <= seed < 2**63 for seed in seeds):
        raise UsageError(f"judge seeds {list(seeds)} are not possible", "expected different whole numbers, 0 or more")
    return seeds


def _extra(given: str | Mapping[str, Any]) -> dict[str, Any]:
    """The extra body as an object that can be sent."""
    wrong = UsageError("the judge's extra body is no JSON object", 'expected something like {"reasoning": {}}')
    try:
        extra = json.loads(given) if isinstance(given, str) else dict(given)
        json.dumps(extra, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, TypeError, RecursionError):
        raise wrong from None
    if not isinstance(extra, dict):
        raise wrong
    if taken := sorted(_OURS & extra.keys()):
        raise UsageError(
            f"the judge's extra body cannot set {', '.join(taken)}",
            "the model is --judge-model, the seeds are --judge-seeds",
        )
    return extra
