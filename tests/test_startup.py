"""What a small job loads: the libraries that it needs, and none that takes longer to load than the job."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import made

HEAVY = {"altair", "duckdb", "msgspec", "numba", "numpy", "pandas", "polars", "pyarrow", "rich.console", "scipy"}


def loaded(*command: str) -> set[str]:
    """What is heavy of that which a process has loaded after a command of mabpl."""
    code = "import sys\nfrom mabpl.cli.main import run\nrun(sys.argv[1:])\nprint(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code, *command], capture_output=True, text=True, check=True)
    return HEAVY & set(done.stderr.split())


def test_help_loads_nothing_heavy() -> None:
    assert loaded("--help") == loaded("score", "--help") == set()


def test_a_small_job_loads_no_database_and_no_compiler(tmp_path: Path) -> None:
    human, predicted = made.tables({"released_45": 45})
    made.write_dataset(tmp_path, human, predicted.filter(run="b"))
    assert loaded("score", "--no-judge", "--root", str(tmp_path)) == {"msgspec", "numpy", "polars"}


def test_pairs_load_the_database(tmp_path: Path) -> None:
    human, predicted = made.tables()
    made.write_dataset(tmp_path, human, predicted)
    score = ("score", "--no-judge", "--root", str(tmp_path), "--tables", str(tmp_path / "out"))
    assert loaded(*score, "--no-pairs") == {"msgspec", "numpy", "polars"}
    assert "duckdb" in loaded(*score)
