"""The readings that change a number, as one frozen value that is recorded in every result.

Each field is an option: ``--set-option key=value`` on the command line, ``settings=Settings(key=value)`` in Python.
The defaults are the published procedure of MicroAnnotationBench; other benchmarks have their own :class:`Options`.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Hashable
from dataclasses import dataclass, field
from types import NoneType
from typing import Any, Literal, Self, cast, get_args, get_type_hints

from mabpl.errors import UsageError, unknown_name


def option(default: Any, meaning: str) -> Any:
    return field(default=default, metadata={"meaning": meaning})


@functools.cache
def _kinds(options: Hashable) -> dict[str, Any]:
    """The types of the fields of a class of :class:`Options`."""
    return get_type_hints(options)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a benchmark's options share: values are checked, and come from ``key=value``, too.

    A field is a number (0 or more), a Literal of names, or ``float | None`` (any finite one), made by :func:`option`.
    """

    def __post_init__(self) -> None:
        for name, kind in _kinds(cast(Hashable, type(self))).items():
            object.__setattr__(self, name, _checked(name, getattr(self, name), kind))

    def as_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    def replace(self, **changes: Any) -> Self:
        return dataclasses.replace(self, **changes)

    @classmethod
    def parse(cls, assignments: list[str] | tuple[str, ...]) -> Self:
        """From ``["key=value", ...]``; raises :class:`UsageError` for an unknown key or value."""
        values: dict[str, Any] = {}
        for assignment in assignments:
            key, separator, value = assignment.partition("=")
            key = key.strip()
            if not separator:
                raise UsageError(f"--set-option {assignment!r} is not key=value", f"known: {', '.join(cls.names())}")
            if key not in cls.names():
                raise unknown_name("option", key, cls.names())
            values[key] = value.strip()
        return cls(**values)

    @classmethod
    def names(cls) -> list[str]:
        return [f.name for f in dataclasses.fields(cls)]

    @classmethod
    def described(cls) -> list[tuple[str, str, str]]:
        """(name, default, meaning) of each option."""
        hints = _kinds(cast(Hashable, cls))
        rows = []
        for f in dataclasses.fields(cls):
            choices = [choice for choice in get_args(hints[f.name]) if isinstance(choice, str)]
            meaning = f.metadata["meaning"] + (f" [{' | '.join(choices)}]" if choices else "")
            rows.append((f.name, str(f.default), meaning))
        return rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(Options):
    """How timelines are compared, and a model's answers read.

    Times in seconds unless a name says frames; one frame is 1/30 s.
    """

    time_base: Literal["frames", "seconds"] = option(
        "frames", "boundaries are compared on the 30 fps frame grid, or as seconds with tolerance_s"
    )
    tolerance_frames: int = option(20, "Boundary F1: largest error of each end, in frames, inclusive")
    tolerance_s: float = option(0.667, "Boundary F1 under time_base=seconds: largest error of each end, in seconds")
    boundary_matching: Literal["greedy", "optimal"] = option(
        "greedy", "smallest total error first, or most pairs and then least total error"
    )
    pa_ties: Literal["earlier_first", "later_first"] = option(
        "earlier_first", "which of two equal overlaps the PA assignment takes first"
    )
    judge_pairs: Literal["all", "assigned"] = option(
        "all", "which overlapping pairs a judge is asked about: all, or only those that are assigned"
    )
    label_hygiene: Literal["on", "off"] = option(
        "on",
        "labels lose control characters and chat tokens, and what exceeds 2,000 characters, before a judge sees them",
    )
    temporal_iou: float = option(0.5, "Temporal F1: least overlap-over-union of a match, inclusive")
    seg_iou: float = option(0.75, "Seg F1 and Joint F1: least overlap-over-union of a match, inclusive")
    missing: Literal["refuse", "empty", "skip"] = option(
        "refuse", "a clip without a prediction: an error, an empty timeline (0), or left out (partial result)"
    )

    parse_mode: Literal["strict", "lenient"] = option(
        "strict", "a model's answers that are not quite valid are asked for again, or repaired where they can be"
    )


def _checked(name: str, value: Any, kind: Any) -> Any:
    """``value`` as ``kind``: strings of the command line become numbers; anything else raises :class:`UsageError`."""
    choices = get_args(kind)
    if NoneType in choices:
        return None if value is None or value == "none" else _finite(name, value)
    if choices:
        if value not in choices:
            raise UsageError(f"{name} = {value!r} is not possible", f"expected one of: {', '.join(choices)}")
        return value
    try:
        if isinstance(value, bool):
            raise ValueError
        number = float(value)
        if not 0 <= number < 1e9 or (kind is int and number != int(number)):
            raise ValueError
    except (TypeError, ValueError):
        what = "whole number" if kind is int else "number"
        raise UsageError(f"{name} = {value!r} is not possible", f"expected a {what}, 0 or more") from None
    if name.endswith("_iou") and not 0 < number <= 1:
        raise UsageError(f"{name} = {value!r} is not possible", "expected a number above 0 and at most 1")
    return int(number) if kind is int else number


def _finite(name: str, value: Any) -> float:
    try:
        if isinstance(value, bool) or not math.isfinite(number := float(value)):
            raise ValueError
    except (TypeError, ValueError):
        raise UsageError(f"{name} = {value!r} is not possible", "expected a finite number, or none") from None
    return number
