"""When a gold region and an atom overlap, in plain Python: the definition that :mod:`resolve` is held to.

Section 3 of ely-eye's annotation schema gives the shapes, its section 2 that a region is resolved to the atoms that
overlap it; what it leaves open is decided here:

- An atom without a region is its whole source, and overlaps every region of it. An image's region is all of it.
- pdf: the page is among the atom's pages; where both name a block, it is the same block.
- ui_screenshot: the boxes share an area above 0; edges that touch share none.
- video: the stretches share time above 0, in whole microseconds; an instant lies inside, ends included.
- code: same path, and the line is in the atom's lines, or the symbol among its symbols. Where the index tells which
  lines a symbol has, these stand for it where the other side names lines. An atom with only a path is the whole file.
- conversation: the turn is among the atom's turns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Row = Mapping[str, Any]
Span = tuple[int, int]

REGION = (
    "page_start", "page_end", "block", "x0", "y0", "x1", "y1", "t_start", "t_end",
    "path", "line_start", "line_end", "symbols", "turn_start", "turn_end",
)  # fmt: skip
"""The columns of `ely_atoms` that say where in its source an atom lies."""

BOX = ("x0", "y0", "x1", "y1")


def overlaps(gold: Row, atom: Row, symbols: Iterable[Row] = ()) -> bool:
    """Whether ``atom`` (a row of `ely_atoms`) overlaps ``gold`` (of `ely_gold`); ``symbols``: rows of `ely_symbols`."""
    if gold["source_id"] != atom["source_id"]:
        return False
    if gold["modality"] == "image" or all(atom[name] is None for name in REGION):
        return True
    return _OVERLAPS[gold["modality"]](gold, atom, list(symbols))


def _pdf(gold: Row, atom: Row, _: list[Row]) -> bool:
    if atom["page_start"] is None or not atom["page_start"] <= gold["page"] <= atom["page_end"]:
        return False
    return gold["block"] is None or atom["block"] is None or gold["block"] == atom["block"]


def _box(gold: Row, atom: Row, _: list[Row]) -> bool:
    if atom["x0"] is None:
        return False
    width = min(gold["x1"], atom["x1"]) - max(gold["x0"], atom["x0"])
    height = min(gold["y1"], atom["y1"]) - max(gold["y0"], atom["y0"])
    return bool(width > 0 and height > 0)


def _video(gold: Row, atom: Row, _: list[Row]) -> bool:
    if atom["t_start"] is None:
        return False
    start, end = microseconds(gold["t_start"]), microseconds(gold["t_end"])
    first, last = microseconds(atom["t_start"]), microseconds(atom["t_end"])
    return start <= first <= end if first == last else min(end, last) - max(start, first) > 0


def _code(gold: Row, atom: Row, symbols: list[Row]) -> bool:
    if gold["path"] != atom["path"]:
        return False
    if atom["line_start"] is None and atom["symbols"] is None:
        return True
    if gold["symbol"] is not None and gold["symbol"] in (atom["symbols"] or ()):
        return True
    known = [s for s in symbols if (s["source_id"], s["path"]) == (gold["source_id"], gold["path"])]
    wanted = [(gold["line"], gold["line"])] if gold["symbol"] is None else _lines(known, [gold["symbol"]])
    held = [(atom["line_start"], atom["line_end"])] if atom["line_start"] else _lines(known, atom["symbols"])
    return any(a <= d and c <= b for a, b in wanted for c, d in held)


def _turn(gold: Row, atom: Row, _: list[Row]) -> bool:
    return atom["turn_start"] is not None and atom["turn_start"] <= gold["turn"] <= atom["turn_end"]


_OVERLAPS = {"pdf": _pdf, "ui_screenshot": _box, "video": _video, "code": _code, "conversation": _turn}


def _lines(known: list[Row], names: Iterable[str]) -> list[Span]:
    wanted = set(names)
    return [(s["line_start"], s["line_end"]) for s in known if s["symbol"] in wanted]


def microseconds(seconds: float) -> int:
    return round(seconds * 1e6)


def spans_source(atom: Row, source: Row, symbols: Iterable[Row] = ()) -> bool:
    """Whether ``atom`` takes in all of ``source`` (a row of `ely_sources`), as far as its extent is known.

    An atom of code with only a path counts as such: it is a whole file. So does one whose symbols are all that the
    index knows of its path, if these are several.
    """
    if all(atom[name] is None for name in REGION):
        return True
    if atom["page_start"] is not None:
        whole = atom["block"] is None and source["pages"] is not None
        return whole and atom["page_start"] <= 1 and atom["page_end"] >= source["pages"]
    if atom["turn_start"] is not None:
        return source["turns"] is not None and atom["turn_start"] <= 0 and atom["turn_end"] >= source["turns"] - 1
    if atom["t_start"] is not None:
        return _spans_video(atom, source)
    if atom["x0"] is not None:
        return _spans_picture(atom, source)
    if atom["line_start"] is not None:
        return source["lines"] is not None and atom["line_start"] <= 1 and atom["line_end"] >= source["lines"]
    if atom["symbols"] is None:
        return True
    known = {s["symbol"] for s in symbols if (s["source_id"], s["path"]) == (atom["source_id"], atom["path"])}
    return len(known) > 1 and known <= set(atom["symbols"])


def is_proper(gold: Row, source: Row, symbols: Iterable[Row] = ()) -> bool:
    """Whether ``gold`` is less than all of ``source``: false for an image, and where the source has a single unit."""
    if gold["modality"] == "pdf":
        return gold["block"] is not None or source["pages"] != 1
    if gold["modality"] == "conversation":
        return bool(source["turns"] != 1)
    if gold["modality"] == "video":
        return not _spans_video(gold, source)
    if gold["modality"] == "ui_screenshot":
        return not _spans_picture(gold, source)
    if gold["modality"] == "code":
        units = {(s["path"], s["symbol"]) for s in symbols if s["source_id"] == gold["source_id"]}
        return bool(source["lines"] != 1 and not (gold["symbol"] is not None and len(units) == 1))
    return False


def _spans_video(region: Row, source: Row) -> bool:
    if source["duration_s"] is None:
        return False
    return region["t_start"] <= 0 and microseconds(region["t_end"]) >= microseconds(source["duration_s"])


def _spans_picture(region: Row, source: Row) -> bool:
    if source["width"] is None or source["height"] is None:
        return False
    corner = region["x0"] <= 0 and region["y0"] <= 0
    return bool(corner and region["x1"] >= source["width"] and region["y1"] >= source["height"])
