"""Gates for continuous integration: the least value that a metric must reach."""

from __future__ import annotations

import math
from collections.abc import Iterable

import polars as pl

from mabpl.errors import UsageError, unknown_name
from mabpl.metrics import METRICS

NAMES = [*METRICS, "headline"]


def parse(gates: Iterable[str]) -> dict[str, float]:
    """From ``["boundary_f1=30", ...]``, values in percent."""
    wanted = {}
    for gate in gates:
        name, _, value = gate.partition("=")
        if name not in NAMES:
            raise unknown_name("metric", name, NAMES)
        try:
            wanted[name] = float(value)
            if not math.isfinite(wanted[name]):
                raise ValueError
        except ValueError:
            raise UsageError(f"--fail-under {gate!r} has no number", "expected METRIC=VALUE, in percent") from None
    return wanted


def failures(sets: pl.DataFrame, gates: dict[str, float]) -> list[str]:
    """A line per row of `set_scores` and gate that does not hold; unrounded values are compared, and no value fails."""
    found = []
    for row in sets.iter_rows(named=True):
        where = f"{row['run']}, {row['set'] or 'all sets'}"
        for name, least in gates.items():
            if row[name] is None:
                found.append(f"{where}: {name} has no value, wanted {least:g}")
            elif row[name] < least:
                found.append(f"{where}: {name} {row[name]:.4f} is under {least:g}")
    return found
