"""Asking a model for timelines: what its answers say (``parse_window``), and windows joined to a clip (``stitch``).

Every name is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

_FACE = {
    "ParsedWindow": "mabpl.annotate.parsing",
    "Stitched": "mabpl.annotate.stitching",
    "parse_window": "mabpl.annotate.parsing",
    "stitch": "mabpl.annotate.stitching",
}

__all__ = sorted(_FACE)

if TYPE_CHECKING:
    from mabpl.annotate.parsing import ParsedWindow as ParsedWindow
    from mabpl.annotate.parsing import parse_window as parse_window
    from mabpl.annotate.stitching import Stitched as Stitched
    from mabpl.annotate.stitching import stitch as stitch


def __getattr__(name: str) -> Any:
    if name not in _FACE:
        raise AttributeError(f"module 'mabpl.annotate' has no attribute {name!r}")
    value = getattr(import_module(_FACE[name]), name)
    globals()[name] = value
    return value
