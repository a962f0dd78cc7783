"""The wheel: what is in it, and that it works where nothing else of the project is."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import mabpl

ROOT = Path(__file__).resolve().parent.parent


def python(*arguments: str, path: Path | None = None, cwd: Path = ROOT) -> str:
    """The standard output of ``python ARGUMENTS``, with ``path`` before everything else that is installed."""
    environment = {**os.environ, "COLUMNS": "100", **({"PYTHONPATH": str(path)} if path else {})}
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, cwd=cwd, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    python("-m", "hatchling", "build", "-t", "wheel", "-d", str(folder))
    (built,) = folder.iterdir()
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("pip", reason="this environment has no pip to install the wheel with")
    folder = tmp_path_factory.mktemp("site")
    python("-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target", str(folder), str(wheel))
    return folder


def test_the_wheel_holds_the_package_with_its_data_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    package = {name for name in names if name.startswith("mabpl/")}
    source = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "mabpl").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    prompts = {f"mabpl/prompts/{path.name}" for path in (ROOT / "prompts").iterdir()}
    assert package == source | prompts
    assert "mabpl/prompts/pa_judge_system.txt" in prompts
    assert {"mabpl/py.typed", "mabpl/tables/schemas.py", "mabpl/data/published/configurations.csv"} < package
    assert sum(name.startswith("mabpl/data/sample/") for name in package) > 25
    assert {name.partition("/")[0].partition("-")[2] for name in names - package} == {f"{mabpl.__version__}.dist-info"}
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_installed_wheel_scores_the_sample_away_from_the_repository(installed: Path, tmp_path: Path) -> None:
    where = python("-c", "import mabpl; print(mabpl.__file__)", path=installed, cwd=tmp_path)
    assert Path(where.strip()) == installed / "mabpl" / "__init__.py"
    shown = python("-m", "mabpl", "demo", "sample", path=installed, cwd=tmp_path)
    assert "validate: no errors" in shown
    assert "careful-large" in shown
    assert (tmp_path / "sample" / "models.csv").is_file()
    shown = python("-m", "mabpl", "prompts", "show", "--predicted", "a", "--primary", "b", path=installed, cwd=tmp_path)
    assert "PREDICTED: a\nPRIMARY: b\n" in shown
    assert '"HumanSegment"' in python("-m", "mabpl", "schema", "labels", path=installed, cwd=tmp_path)
