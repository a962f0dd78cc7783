"""Fixtures that every test file may use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real timelines that are not distributed with the project; skips where it is absent."""
    folder = Path(os.environ.get("MABPL_SHARED_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"the real timelines are not at hand ({folder}); set MABPL_SHARED_DATA")
    return folder
