"""The committed notebooks are what their sources give: same cells, same outputs, nothing of the machine in them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parent.parent / "notebooks"
NAMES = sorted(path.stem for path in FOLDER.glob("[0-9]*.py"))
CELLS = 25


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The notebooks, executed now in a process of their own."""
    folder = tmp_path_factory.mktemp("notebooks")
    done = subprocess.run(
        [sys.executable, str(FOLDER / "build.py"), str(folder)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def text(notebook: dict[str, Any]) -> list[tuple[str, list[Any]]]:
    """Each cell's source and what it shows in words and numbers: prints, tables, the data of charts."""
    cells = []
    for cell in notebook["cells"]:
        shown: list[Any] = []
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            shown += [output.get("text"), data.get("text/plain")]
            shown.append(
                re.sub(r"<style>.*?</style>|<[^>]+>", " ", "".join(data.get("text/html", [])), flags=re.DOTALL).split()
            )
            shown += [list(spec["datasets"].values()) for mime, spec in data.items() if "vegalite" in mime]
        cells.append(("".join(cell["source"]), shown))
    return cells


def test_each_source_has_its_notebook() -> None:
    assert {"01_slicing", "02_many_configurations", "03_tournament"} <= set(NAMES)
    assert sorted(path.stem for path in FOLDER.glob("*.ipynb")) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_notebook_holds_a_fresh_execution_of_its_source(name: str, fresh: Path) -> None:
    committed, executed = read(FOLDER / f"{name}.ipynb"), read(fresh / f"{name}.ipynb")
    assert text(committed) == text(executed), "python notebooks/build.py makes them anew"
    assert committed["metadata"] == executed["metadata"]
    assert len(committed["cells"]) <= CELLS


@pytest.mark.parametrize("name", NAMES)
def test_nothing_of_the_machine_or_of_the_network_is_in_it(name: str) -> None:
    raw = (FOLDER / f"{name}.ipynb").read_text(encoding="utf-8")
    notebook = json.loads(raw)
    words = re.sub(r'"image/png": "[^"]*"', "", raw)
    for banned in (str(Path.home()), os.sep + "tmp", os.sep + "home", "cdn.", "unpkg", "jsdelivr", "<script", "0x"):
        assert banned not in words, banned
    assert set(re.findall(r"https?://([^/\"]+)", words)) <= {"vega.github.io"}  # the schema's name, never loaded
    for number, cell in enumerate(notebook["cells"]):
        assert cell["id"] == f"cell-{number:02d}"
        assert cell["metadata"] == {}
        assert cell.get("execution_count") is None
        for output in cell.get("outputs", []):
            assert output["output_type"] in ("stream", "execute_result"), output
            assert output.get("name", "stdout") == "stdout"
            charts = [mime for mime in output.get("data", {}) if "vegalite" in mime]
            assert not charts or output["data"]["image/png"].startswith("iVBOR")
