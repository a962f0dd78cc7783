"""Whether the values of an entry are what the annotation schema allows: answers, times, regions."""

from __future__ import annotations

import ast
import functools
import json
import math
import re
import reprlib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from mabpl.reading.json_values import Fault, at_key, shown

LIMIT_S = 2.0**51 / 1e6
"""Greatest time in seconds (about 71 years): sums and products of two in microseconds stay exact."""

SHAPES: dict[str, tuple[tuple[str, ...], ...]] = {
    "pdf": (("page",), ("page", "block")),
    "image": ((),),
    "ui_screenshot": (("bbox",),),
    "video": (("t_start", "t_end"),),
    "code": (("path", "symbol"), ("path", "line")),
    "conversation": (("turn",),),
}
"""Modality → the keys that a gold region of it may have: section 3 of the annotation schema."""

_DIGITS = r"[+\u2212-]?\s*(?:[$€£¥]\s*)?(?:\d{1,3}(?:,\d{3})+|\d+"
_WHOLE = re.compile(_DIGITS + r")(?:\.0*)?\s*%?", re.ASCII)
_NUMBER = re.compile(_DIGITS + r"|(?=\.\d))(?:\.\d*)?(?:[eE][+-]?\d+)?\s*%?", re.ASCII)
_LONGEST_LIST = 2**20


def answer_faults(answer: Any, answer_format: str, unanswerable: bool) -> list[Fault]:
    """Rules 1 and 3: null exactly where it is unanswerable, and in the format that is named.

    Answers are verbatim texts of other data sets: numbers may carry a currency, a percent sign or thousands commas, and
    lists may be written as Python does.
    """
    faults = []
    if unanswerable != (answer is None):
        expected = "null, as unanswerable is true" if unanswerable else "the answer, as unanswerable is false"
        faults.append(Fault("answer-unanswerable", "answer", f"is {shown(answer)}, expected {expected}"))
    if not _FITS[answer_format](answer):
        fitting = [name for name, fits in _FITS.items() if fits(answer)]
        known = f", which is {' or '.join(fitting)}" if fitting else ""
        faults.append(
            Fault("answer-format", "answer_format", f"is {answer_format}; the answer is {shown(answer)}{known}")
        )
    return faults


def _is_list(answer: Any) -> bool:
    if not isinstance(answer, str):
        return isinstance(answer, list)
    text = answer.strip()
    if not (text.startswith("[") and text.endswith("]") and len(text) <= _LONGEST_LIST):
        return False
    try:
        return isinstance(ast.literal_eval(text), list)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return _is_json(text)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _is_number(answer: Any, pattern: re.Pattern[str]) -> bool:
    if isinstance(answer, str):
        return pattern.fullmatch(answer.strip()) is not None
    whole = pattern is _WHOLE
    return type(answer) in (int, float) and math.isfinite(answer) and (not whole or answer == int(answer))


_FITS: dict[str, Callable[[Any], bool]] = {
    "none": lambda answer: answer is None,
    "int": lambda answer: _is_number(answer, _WHOLE),
    "float": lambda answer: _is_number(answer, _NUMBER),
    "list": _is_list,
    "str": lambda answer: isinstance(answer, str) and bool(answer.strip()),
}


def answer_text(answer: Any) -> str | None:
    """The answer as a column holds it; what is no text, as JSON."""
    return answer if answer is None or isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)


@functools.lru_cache(maxsize=2**16)
def parse_time(text: str) -> datetime | Fault:
    """An instant (UTC), or why it is none; the fault has no field."""
    try:
        time = datetime.fromisoformat(text)
        if time.tzinfo is not None and time.utcoffset() is not None:
            return time.astimezone(UTC)
    except (ValueError, OverflowError):
        return Fault("time-value", None, f"is {shown(text)}, expected a time as in ISO 8601")
    return Fault("no-zone", None, f"is {shown(text)}, which has no zone: nobody can tell the instant")


def region_faults(modality: str, region: Mapping[str, Any], path: str) -> list[Fault]:
    """Section 3: the keys of a gold region, and values that can be."""
    faults = [
        Fault("gold-atom-id", at_key(path, key), "names an atom, expected a region of the source")
        for key in region
        if "atom" in key.lower()
    ]
    keys = {key for key in region if "atom" not in key.lower()}
    shapes = SHAPES[modality]
    if all(keys != set(shape) for shape in shapes):
        allowed = " or ".join("{" + ", ".join(shape) + "}" for shape in shapes)
        had = ", ".join(sorted(keys)) or "no key"
        faults.append(Fault("region-keys", path, f"has {had}; the region of {modality} is {allowed}"))
    known = {key for shape in shapes for key in shape}
    wrong = [_value_fault(key, region[key], at_key(path, key)) for key in region if key in known]
    faults += [fault for fault in wrong if fault is not None]
    if modality == "video" and not faults and round(region["t_end"] * 1e6) <= round(region["t_start"] * 1e6):
        message = f"is {region['t_end']}, expected more than t_start = {region['t_start']}"
        faults.append(Fault("region-value", at_key(path, "t_end"), message))
    return faults


def _value_fault(key: str, value: Any, path: str) -> Fault | None:
    expected, holds = _VALUES[key]
    if holds(value):
        return None
    had = reprlib.repr(value) if isinstance(value, list) else shown(value)
    return Fault("region-value", path, f"is {had}, expected {expected}")


def _whole(least: int) -> Callable[[Any], bool]:
    return lambda v: type(v) in (int, float) and math.isfinite(v) and v == int(v) and least <= v <= 2**53


def _is_seconds(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value <= LIMIT_S


def _is_box(value: Any) -> bool:
    if not (isinstance(value, list) and len(value) == 4 and all(type(v) in (int, float) for v in value)):
        return False
    x0, y0, x1, y1 = value
    return bool(0 <= x0 < x1 <= 2**53 and 0 <= y0 < y1 <= 2**53)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


_VALUES: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "page": ("a page, from 1", _whole(1)),
    "block": ("a block of the page, from 0", _whole(0)),
    "bbox": ("[x0, y0, x1, y1] in pixels, x0 < x1 and y0 < y1", _is_box),
    "t_start": ("seconds from 0", _is_seconds),
    "t_end": ("seconds from 0", _is_seconds),
    "path": ("a path", _is_text),
    "symbol": ("a name", _is_text),
    "line": ("a line, from 1", _whole(1)),
    "turn": ("a turn, from 0", _whole(0)),
}
