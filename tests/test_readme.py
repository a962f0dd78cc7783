"""What the README says is what happens: its blocks are run, and the outputs that it shows are those that come.

``MABPL_UPDATE_README=1 python -m pytest tests/test_readme.py`` writes the shown outputs anew.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

README = ROOT / "README.md"
BLOCK = re.compile(r"^(?:<!-- (?P<mark>[^\n]*) -->\n)?```(?P<kind>\w+)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks() -> list[re.Match[str]]:
    return list(BLOCK.finditer(README.read_text(encoding="utf-8")))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the demo has been run; its output is beside it."""
    here = tmp_path_factory.mktemp("readme")
    (here / "demo.txt").write_text(run("mabpl demo", here))
    return here


def run(command: str, here: Path) -> str:
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "NO_COLOR": "1",
    }
    done = subprocess.run(command, shell=True, cwd=here, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def test_shown_outputs_are_what_comes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    first = (folder / "demo.txt").read_text().split("\n\n")
    expected = ["\n".join(["\n\n".join(first[1:3])]) + "\n"]
    names: dict[str, object] = {}
    for block in blocks():
        if block["kind"] == "python":
            shown = io.StringIO()
            with contextlib.redirect_stdout(shown):
                exec(compile(block["body"], "README.md", "exec"), names)
            expected.append("\n".join(line.rstrip() for line in shown.getvalue().strip().splitlines()) + "\n")
    shown_blocks = [block for block in blocks() if block["kind"] == "text"]
    assert len(shown_blocks) == len(expected)
    if os.environ.get("MABPL_UPDATE_README"):
        text = README.read_text(encoding="utf-8")
        for block, output in reversed(list(zip(shown_blocks, expected, strict=True))):
            text = text[: block.start("body")] + output + text[block.end("body") :]
        README.write_text(text, encoding="utf-8")
    assert [block["body"] for block in blocks() if block["kind"] == "text"] == expected


def test_commands_run(folder: Path) -> None:
    commands = [
        line
        for block in blocks()[1:]
        if block["kind"] == "bash" and not (block["mark"] or "").startswith("not run")
        for line in block["body"].splitlines()
    ]
    assert len(commands) > 5
    for command in commands:
        run(command, folder)


def test_the_file_format_that_is_shown_is_valid(tmp_path: Path) -> None:
    import mabpl

    (example,) = [block["body"] for block in blocks() if block["kind"] == "json"]
    (tmp_path / "mine.jsonl").write_text(example)
    predictions = mabpl.read_predictions(tmp_path / "mine.jsonl")
    assert predictions.problems.is_empty()
    assert predictions.segments.height == 1
