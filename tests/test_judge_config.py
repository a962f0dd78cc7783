"""Who is asked and how: environment, published defaults, keys that stay in their place, and keys of answers."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from mabpl.errors import UsageError
from mabpl.judges.judge import OPENROUTER, SELF_HOSTED, Judge, JudgeKind, from_environment, route_of
from mabpl.judges.types import Request, fingerprint

REQUEST = Request("0" * 32, "pa", "wipe the plate", "clean the plate")
MESSAGES = [{"role": "system", "content": "Grade."}, {"role": "user", "content": "PREDICTED: wipe the plate \u00e9"}]
SERVER = "http" + "://gpu-box:8000/v1"


def judge(kind: JudgeKind = "pa", **options: Any) -> Judge:
    return from_environment(kind, environ=options.pop("environ", {}), **options)[0]


def key(of: Judge, seed: int | None = 1, messages: list[dict[str, str]] = MESSAGES) -> str:
    return of.question(REQUEST, messages, seed).key


def test_without_any_setting_the_judges_are_the_published_ones() -> None:
    pa, joint = judge(), judge("joint")
    assert (pa.model, pa.base_url, pa.route) == ("deepseek/deepseek-v4-flash-0731", OPENROUTER, "openrouter.ai")
    assert (joint.model, joint.base_url, joint.seeds) == ("google/gemini-3.5-flash", OPENROUTER, (None,))
    assert pa.question(REQUEST, MESSAGES, 2).body == {
        "model": "deepseek/deepseek-v4-flash-0731", "messages": MESSAGES, "temperature": 0, "seed": 2,
        "reasoning": {"enabled": True},
    }  # fmt: skip
    assert joint.question(REQUEST, MESSAGES, None).body == {
        "model": "google/gemini-3.5-flash", "messages": MESSAGES, "temperature": 0, "max_tokens": 8192
    }  # fmt: skip
    assert pa.seeds == (1, 2, 3)
    assert pa.profile == {
        "kind": "pa", "judge": pa.model, "route": "openrouter.ai", "judge_seeds": [1, 2, 3],
        "body": {"temperature": 0, "reasoning": {"enabled": True}},
    }  # fmt: skip


def test_the_published_variables_name_a_server_of_ones_own() -> None:
    environ = {
        "MAB_JUDGE_BASE_URL": f"{SERVER}/", "MAB_JUDGE_MODEL": "deepseek-v4-flash-0731", "MAB_JUDGE_API_KEY": " local\n"
    }  # fmt: skip
    pa, api_key = from_environment("pa", environ=environ)
    assert (pa.base_url, pa.route, api_key) == (SERVER, SELF_HOSTED, "local")
    assert pa.template == {"temperature": 0, "chat_template_kwargs": {"thinking": True}}
    pa = judge(environ={**environ, "MAB_JUDGE_EXTRA_BODY": '{"temperature": 1, "top_p": 0.5}'})
    assert pa.template == {"temperature": 1, "top_p": 0.5}
    pa = judge(environ=environ, model="m", route="r", base_url=OPENROUTER, extra_body={}, seeds=[7])
    assert (pa.model, pa.route, pa.base_url, pa.template, pa.seeds) == ("m", "r", OPENROUTER, {"temperature": 0}, (7,))
    with pytest.raises(UsageError, match="MAB_JUDGE_MODEL"):
        judge(environ={"MAB_JUDGE_BASE_URL": SERVER, "MAB_JUDGE_MODEL": ""})


# --- keys of answers ---


def test_a_key_is_for_ever() -> None:
    own = judge(base_url=SERVER, model="deepseek-v4-flash-0731")
    assert [key(judge()), key(judge("joint"), None), key(own, 3)] == [
        "ccdfc5138546b105939a697013123b63",
        "d2487afd5eabc8e9e94c4d6b2819d467",
        "c1cbf1f781f2587c9083e46ad69240a3",
    ]


def test_what_can_change_the_answer_changes_the_key_and_nothing_else_does() -> None:
    base = judge(base_url=SERVER, model="m", extra_body={"a": 1, "b": {"c": 2}})
    same = [
        dataclasses.replace(base, base_url="http" + "://10.0.0.7:9/v2"),
        dataclasses.replace(base, seeds=(1,)),
        judge(base_url=SERVER, model="m", extra_body={"b": {"c": 2}, "a": 1, "user": "me", "metadata": {"run": "x"}}),
        judge(base_url=SERVER, model="m", extra_body={"a": 1, "b": {"c": 2}}, environ={"MAB_JUDGE_API_KEY": "secret"}),
    ]
    assert {key(other) for other in same} == {key(base)}
    different = [
        key(base, 2),
        key(base, None),
        key(base, messages=MESSAGES[:1]),
        key(base, messages=[MESSAGES[0], {**MESSAGES[1], "content": "PREDICTED: wipe the plate e"}]),
        key(dataclasses.replace(base, model="n")),
        key(dataclasses.replace(base, route="r")),
        *(key(dataclasses.replace(base, template={**base.template, **change})) for change in (
            {"temperature": 1}, {"max_tokens": 9}, {"b": {"c": 3}}, {"provider": {"order": ["x"]}}
        )),
    ]  # fmt: skip
    assert len({key(base), *different}) == len(different) + 1


@pytest.mark.parametrize("extra", [{}, {"a": ["the messages"]}, {"the messages": 1, "top_k": {"messages": []}}])
@pytest.mark.parametrize(
    "messages",
    [
        [],
        MESSAGES,
        MESSAGES[1:],
        [{"role": "system", "content": 'Say "\u2028 the messages".', "name": "x"}, *MESSAGES],
        [{"role": "user", "content": [{"type": "text", "text": '"the messages"'}]}],
    ],
)
def test_a_key_is_the_fingerprint_of_the_whole(extra: dict[str, Any], messages: list[dict[str, Any]]) -> None:
    of = judge(base_url=SERVER, model="m", extra_body={**extra, "user": "somebody"})
    for seed in (None, 3):
        body = {name: value for name, value in of.question(REQUEST, messages, seed).body.items() if name != "user"}
        whole = {"version": 1, "judge": "m", "route": SELF_HOSTED, "body": body, "seed": seed}
        assert key(of, seed, messages) == fingerprint(whole)


def test_a_question_carries_all_that_the_store_keeps() -> None:
    question = judge().question(REQUEST, MESSAGES, 1)
    assert (question.request, question.judge, question.route, question.seed) == (
        REQUEST, "deepseek/deepseek-v4-flash-0731", "openrouter.ai", 1
    )  # fmt: skip
    assert json.loads(json.dumps(question.body)) == question.body


@pytest.mark.parametrize(
    ("host", "route"),
    [
        ("openrouter.ai", "openrouter.ai"), ("API.Example.com:443", "api.example.com"), ("localhost:8000", SELF_HOSTED),
        ("10.1.2.3", SELF_HOSTED), ("8.8.8.8:80", SELF_HOSTED), ("[::1]:8000", SELF_HOSTED), ("gpu-box", SELF_HOSTED),
        ("judge.team.internal", SELF_HOSTED), ("nas.local.", SELF_HOSTED),
    ],
)  # fmt: skip
def test_the_route_is_the_public_hosts_name(host: str, route: str) -> None:
    assert route_of(f"https://{host}/v1") == route


# --- API keys stay with their host ---


def test_the_joint_key_falls_back_only_where_both_judges_share_a_host() -> None:
    environ = {"MAB_JUDGE_API_KEY": "sk-private"}
    assert from_environment("joint", environ=environ)[1] == "sk-private"
    at_home = {**environ, "MAB_JUDGE_BASE_URL": SERVER}
    for options in ({"environ": at_home}, {"environ": environ, "base_url": SERVER, "model": "m"}):
        with pytest.raises(UsageError, match="MAB_JOINT_JUDGE_API_KEY") as caught:
            from_environment("joint", **options)  # type: ignore[arg-type]
        assert "sk-private" not in str(caught.value)
    both = {**at_home, "MAB_JOINT_JUDGE_BASE_URL": SERVER.replace("8000", "8001"), "MAB_JOINT_JUDGE_MODEL": "m"}
    assert from_environment("joint", environ=both)[1] == "sk-private"
    own = {**at_home, "MAB_JOINT_JUDGE_API_KEY": "sk-joint"}
    assert from_environment("joint", environ=own)[1] == "sk-joint"
    assert from_environment("pa", environ={"MAB_JOINT_JUDGE_API_KEY": "sk-joint"})[1] is None
    assert from_environment("joint", environ={"MAB_JUDGE_BASE_URL": SERVER})[1] is None


def test_no_key_is_shown() -> None:
    environ = {"MAB_JUDGE_API_KEY": "sk-secret"}
    pa = judge(environ=environ)
    assert "sk-secret" not in f"{pa!r} {pa.profile} {pa.question(REQUEST, MESSAGES, 1)!r}"
    for bad in ("sk-secret\r\nX: y", "sk-secret\u00e9", "sk secret"):
        with pytest.raises(UsageError) as caught:
            from_environment("pa", environ={"MAB_JUDGE_API_KEY": bad})
        assert "secret" not in str(caught.value)


def test_a_url_holds_an_address_and_nothing_else() -> None:
    for rest in ("user:sk-secret@openrouter.ai/v1", "openrouter.ai/v1?key=sk-secret", "openrouter.ai/v1#sk-secret"):
        with pytest.raises(UsageError, match="more than an address") as caught:
            judge(base_url=f"https://{rest}", model="m")
        assert "sk-secret" not in str(caught.value)
    for bad in ("openrouter.ai/v1", "ftp" + "://x.y/v1", "https://", "https" + "://x.y:port", "http" + "://[::1/v1"):
        with pytest.raises(UsageError, match="base URL is none"):
            judge(base_url=bad, model="m")


@pytest.mark.parametrize(
    "extra",
    ["{", "[]", "1", '{"model": "x"}', '{"messages": []}', '{"stream": true}', '{"seed": 1}', '{"a": NaN}', "\ud800"],
)
def test_an_extra_body_that_cannot_be_sent_is_refused(extra: str) -> None:
    with pytest.raises(UsageError, match="extra body"):
        judge(environ={"MAB_JUDGE_EXTRA_BODY": extra})
    with pytest.raises(UsageError, match="extra body"):
        judge("joint", extra_body=extra)


@pytest.mark.parametrize("seeds", [[], [1, 1], [-1], [2**63]])
def test_seeds_that_cannot_be_sent_are_refused(seeds: list[int]) -> None:
    with pytest.raises(UsageError, match="seeds"):
        judge(seeds=seeds)
    with pytest.raises(UsageError, match="no judge seeds"):
        judge("joint", seeds=[1])
