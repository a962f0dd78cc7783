"""What a command said, and a key that no command may ever say."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

KEY = "sk-never+to/be=seen"


class Said(NamedTuple):
    """How a command ended and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Mabpl = Callable[..., Said]
"""Runs ``mabpl`` with these arguments."""
