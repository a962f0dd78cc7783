"""Fixtures that every test file may use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import KEY, Mabpl, Said

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real timelines that are not distributed with the project; skips where it is absent."""
    folder = Path(os.environ.get("MABPL_SHARED_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"the real timelines are not at hand ({folder}); set MABPL_SHARED_DATA")
    return folder


@pytest.fixture(autouse=True)
def no_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables are as wide as where nobody watches, whatever the terminal that the tests run in."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture
def mabpl_(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Mabpl]:
    """Runs a command in this process; afterwards the key is looked for in all that was said.

    The user's judges are not seen, and a fault of the program itself is raised, not told.
    """
    from mabpl.cli.main import run

    for name in [name for name in os.environ if name.startswith("MAB_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("MABPL_DEBUG", "1")
    heard = []

    def call(*arguments: object) -> Said:
        capsys.readouterr()
        said = Said(run([str(argument) for argument in arguments]), *capsys.readouterr())
        heard.append(said)
        return said

    yield call
    assert not any(KEY in said.out + said.err for said in heard)
