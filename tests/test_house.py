"""The house keeps its own rules: who imports whom, what is light, how long a module is, what is in the repository."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import mabpl

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "mabpl"
MODULES = sorted(PACKAGE.rglob("*.py"))
LONGEST_MODULE = 450
LONGEST_KERNELS = 640  # one file calls no other, because numba's cache does not see a change there

LAYERS = (
    {"errors", "kernels"},
    {"settings", "tables", "data", "stats", "matching", "engine"},
    {"timelines", "reference", "reading"},
    {"pairs", "metrics", "judges", "formats", "video"},
    {"benchmarks"},
    {"annotate", "tournament"},
    {"report"},
    {"cli"},
    {"__main__", "__init__"},
)
"""The rooms from the ground up: a room imports from itself and from the layers below its own."""

ALONE = {"tables", "kernels"}
"""Rooms that import no other; the errors apart, which everybody may raise."""


def name_of(module: Path) -> str:
    """``mabpl/metrics/summary.py`` is metrics.summary."""
    return ".".join(module.relative_to(PACKAGE).with_suffix("").parts)


def room(name: str) -> str:
    return name.partition(".")[0]


def layer(name: str) -> int:
    return next(i for i, rooms in enumerate(LAYERS) if room(name) in rooms)


def imports(source: str) -> Iterator[str]:
    """The modules of the house that ``source`` imports anywhere, for type checking too; ``mabpl`` itself is ''."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name.removeprefix("mabpl").lstrip(".") for alias in node.names if house(alias.name))
        elif isinstance(node, ast.ImportFrom) and node.module == "mabpl":
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and house(node.module or ""):
            yield str(node.module).removeprefix("mabpl.")
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "imports are absolute"


def house(name: str) -> bool:
    return name == "mabpl" or name.startswith("mabpl.")


def breaches(name: str, source: str) -> list[str]:
    """What module ``name`` imports against the rules."""
    own = layer(name)
    wrong = []
    for target in imports(source):
        if target == "":
            wrong += sorted(attributes(source, "mabpl") - {"mabpl.__version__"})
        elif room(target) == room(name) or target == "errors":
            continue
        elif room(name) in ALONE or layer(target) >= own:
            wrong.append(target)
    return wrong


def attributes(source: str, of: str) -> set[str]:
    """Every ``of.name`` in the code of ``source``."""
    nodes = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Attribute))
    return {f"{of}.{node.attr}" for node in nodes if isinstance(node.value, ast.Name) and node.value.id == of}


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_imports_go_downwards(module: Path) -> None:
    source = module.read_text(encoding="utf-8")
    assert breaches(name_of(module), source) == []
    assert not re.search(r"^\s*(from|import) (tests|conftest|strategies|make_sample)\b", source, re.MULTILINE)


@pytest.mark.parametrize(
    ("name", "source", "expected"),
    [
        ("tables.files", "from mabpl.errors import unreadable\nfrom mabpl.tables import schemas", []),
        ("tables.files", "def f():\n    from mabpl.settings import Settings", ["settings"]),
        ("kernels", "import mabpl.engine", ["engine"]),
        ("metrics.summary", "if TYPE_CHECKING:\n    from mabpl.benchmarks.x import y", ["benchmarks.x"]),
        ("metrics.summary", "from mabpl import pairs, timelines", ["pairs"]),
        ("benchmarks.a", "import mabpl\nmabpl.__version__\nmabpl.score", ["mabpl.score"]),
        ("report.tables", "from mabpl.cli.main import run", ["cli.main"]),
    ],
)
def test_the_import_rules_see_a_breach(name: str, source: str, expected: list[str]) -> None:
    assert breaches(name, source) == expected


def test_rooms_are_known_and_used() -> None:
    known = set().union(*LAYERS)
    assert {room(name_of(module)) for module in MODULES} <= known


def loaded(code: str) -> set[str]:
    """The packages that a fresh interpreter has loaded after ``code``."""
    command = [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    return {name.partition(".")[0] for name in done.stdout.split()}


def test_the_face_and_the_command_line_load_nothing_heavy() -> None:
    light = [m for m in MODULES if room(name_of(m)) == "cli"]
    names = ["mabpl", "mabpl.errors", "mabpl.settings", "mabpl.data", *(f"mabpl.{name_of(m)}" for m in light)]
    code = "\n".join(f"import {name.removesuffix('.__init__')}" for name in names)
    foreign = loaded(code) - loaded("") - sys.stdlib_module_names
    assert foreign - {"mabpl", "click"} == set()
    assert loaded("import mabpl") - loaded("") - sys.stdlib_module_names == {"mabpl"}


def test_no_module_loads_duckdb_pyarrow_or_numba_before_they_are_needed() -> None:
    names = [f"mabpl.{name_of(m)}".removesuffix(".__init__") for m in MODULES if name_of(m) != "__main__"]
    heavy = {"duckdb", "pyarrow", "numba", "pandas", "altair"}
    assert loaded("\n".join(f"import {name}" for name in names)) & heavy == set()


@pytest.mark.parametrize("name", mabpl.__all__)
def test_public_names_resolve_and_are_described(name: str) -> None:
    value = getattr(mabpl, name)
    assert name in dir(mabpl)
    if name != "__version__":
        assert len(inspect.getdoc(value) or "") > 40
        assert value.__module__.startswith("mabpl.")


def test_the_version_is_the_same_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    cited = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)
    assert cited is not None
    assert project["version"] == mabpl.__version__ == cited[1]


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_modules_are_short(module: Path) -> None:
    longest = LONGEST_KERNELS if module.parent == PACKAGE / "kernels" else LONGEST_MODULE
    assert len(module.read_text(encoding="utf-8").splitlines()) <= longest


# --- the repository ---

TOP = {
    "mabpl", "notebooks", "data_schema", "tests", "prompts",
    "pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff",
}  # fmt: skip
HOSTS = {
    "www.microagi.ai", "huggingface.co", "github.com", "doi.org",
    "www.apache.org", "json-schema.org", "semver.org", "keepachangelog.com",
    "vega.github.io", "cdn.jsdelivr.net",
    "openrouter.ai", "127.0.0.1", "judge", "user",
    "x.y",
}  # fmt: skip
"""Hosts that a file may name: sources, licences, formats, charts, and invented ones; no package index, no machine."""

NOWHERE = re.compile(
    r"(?<![\w.])/(?:home|root|work|workspace|tmp|mnt|srv|opt|Users|usr/local)/[\w.]"
    r"|\b(?:extra-)?index-url\b|\b(?:PIP|UV)_(?:EXTRA_)?INDEX|\btrusted-host\b"
)


@pytest.fixture(scope="module")
def tracked() -> list[str]:
    try:
        done = subprocess.run(["git", "ls-files", "-z"], capture_output=True, text=True, cwd=ROOT, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    return [name for name in done.stdout.split("\0") if (ROOT / name).is_file()]


def test_the_top_of_the_repository_holds_nothing_else(tracked: list[str]) -> None:
    top = {name.partition("/")[0] for name in tracked}
    assert {name for name in top if not name.startswith(".")} <= TOP


def test_no_file_names_a_package_index_or_a_place_on_a_machine(tracked: list[str]) -> None:
    found = []
    for name in tracked:
        text = (ROOT / name).read_text(encoding="utf-8", errors="replace")
        if Path(name) != Path(__file__).relative_to(ROOT):
            found += [f"{name}: {match[0]}" for match in NOWHERE.finditer(text)]
        hosts = {host.lower() for host in re.findall(r"https?://([\w.-]*\w)", text)}
        found += [f"{name}: {host}" for host in sorted(hosts - HOSTS)]
    assert found == []
