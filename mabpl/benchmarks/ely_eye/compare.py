"""Two results, metric by metric: every change with n and denominator on both sides, and a paired interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from mabpl.benchmarks.ely_eye.adding_up import SLICES, Parts, add_up, intervals, readings
from mabpl.benchmarks.ely_eye.options import ElyOptions
from mabpl.benchmarks.ely_eye.scoring import ElyScores
from mabpl.errors import UsageError, unknown_name

KEY = ["slice", "value_of_slice", "metric", "recall_unit", "whole_source", "cross_holder", "denominator"]
_SIDE = ("value", "total", "n", "divided_by", "gate", "passed")


@dataclass(frozen=True)
class Comparison:
    """``a`` and ``b``: run and facts of each side; ``options``: those of a.

    ``metrics``: a row per slice, metric and reading: value, total, n, divided_by, gate and passed of each side (``_a``,
    ``_b``), ``difference`` (a less b) and its interval ``low``, ``high``. ``notes``: what differs between the sides
    beside the runs.
    """

    a: dict[str, Any]
    b: dict[str, Any]
    options: ElyOptions
    metrics: pl.DataFrame
    notes: tuple[str, ...]

    @property
    def changed(self) -> pl.DataFrame:
        """Rows with a change: of the value, of n or of the denominator."""
        sides = [pl.col(f"{name}_a").ne_missing(pl.col(f"{name}_b")) for name in ("value", "n", "divided_by")]
        return self.metrics.filter(pl.any_horizontal(sides))

    def lost_gates(self) -> list[str]:
        """A line per gate that a keeps and b does not."""
        return self._turned("a", "b")

    def won_gates(self) -> list[str]:
        """A line per gate that b keeps and a does not."""
        return self._turned("b", "a")

    def _turned(self, keeps: str, fails: str) -> list[str]:
        rows = self.metrics.filter(pl.col(f"passed_{keeps}").eq(True), pl.col(f"passed_{fails}").eq(False))
        return [
            f"{row['value_of_slice'] or 'all'}: {row['metric']} {row[f'value_{keeps}']:.4f} in {keeps.upper()} keeps "
            f"{row[f'gate_{keeps}']:g}, {row[f'value_{fails}']:.4f} in {fails.upper()} does not"
            for row in rows.iter_rows(named=True)
        ]


def side(result: ElyScores, run: str | None) -> tuple[dict[str, Any], pl.DataFrame]:
    """The facts and the `ely_query_scores` of one run. Raises :class:`UsageError` where it is not clear which."""
    runs = result.runs
    if run is None and len(runs) != 1:
        raise UsageError(f"the result holds {len(runs)} runs", f"choose one with --run: {', '.join(runs)}")
    name = run if run is not None else runs[0]
    if name not in runs:
        raise unknown_name("run", name, runs)
    facts = {**result.facts, "runs": [r for r in result.facts["runs"] if r["run"] == name], "run": name}
    return facts, result.queries.filter(run=name).sort("query_id")


def compare(
    first: ElyScores,
    second: ElyScores,
    *,
    runs: tuple[str | None, str | None] = (None, None),
    by: Sequence[str] = SLICES,
    ci: float = 0.95,
) -> Comparison:
    """Holds ``first`` against ``second`` on the queries that both have, each under its own options.

    The interval of a difference is of a bootstrap over the first side's clusters: the same draw for both sides. Raises
    :class:`UsageError` where no query is on both sides, or a query is not the same one there.
    """
    (a, one), (b, two) = (side(result, run) for result, run in zip((first, second), runs, strict=True))
    notes = _differing(a, b)
    alone = [x.join(y, on="query_id", how="anti").height for x, y in ((one, two), (two, one))]
    notes += [f"{count} queries are only in {name}" for name, count in zip("AB", alone, strict=True) if count]
    one, two = one.join(two, on="query_id", how="semi"), two.join(one, on="query_id", how="semi")
    if one.is_empty():
        raise UsageError("no query is on both sides", "compare results of the same benchmark and split")
    same = ["modality", "scenario", "holder", "unanswerable", "gold_regions"]
    if not one.select(same).equals(two.select(same)):
        raise UsageError("queries of the same id differ between the sides", "compare results of the same set")
    two = two.with_columns(one["cluster"])
    tables = [
        add_up(rows.with_columns(run=pl.lit("")), result.options, by=by, ci=None).drop("run", "low", "high")
        for rows, result in ((one, first), (two, second))
    ]
    joined = tables[0].join(tables[1], on=KEY, suffix="_b", nulls_equal=True, maintain_order="left")
    joined = joined.rename({name: f"{name}_a" for name in _SIDE})
    sides_ = [Parts.of(rows, by)[1] for rows in (one, two)]
    order = [place for place, _, _ in readings()]
    low, high = (bound[:, order].ravel() for bound in intervals(sides_, ci))
    metrics = joined.with_columns(
        (pl.col("value_a") - pl.col("value_b")).alias("difference"),
        pl.Series("low", low, nan_to_null=True),
        pl.Series("high", high, nan_to_null=True),
    )
    sides = [f"{name}_{which}" for name in _SIDE for which in "ab"]
    return Comparison(a, b, first.options, metrics.select(*KEY, *sides, "difference", "low", "high"), tuple(notes))


def _differing(a: dict[str, Any], b: dict[str, Any]) -> list[str]:
    """What a reader has to know before a difference is put down to the systems."""
    notes = []
    if a["split"] != b["split"]:
        notes.append(f"A is of the split {a['split']}, B of {b['split']}")
    options = {name: (value, b["options"].get(name)) for name, value in a["options"].items()}
    notes += [f"{name} is {one} in A, {two} in B" for name, (one, two) in options.items() if one != two]
    for kind in ("set", "manifest", "sets_manifest", "index"):
        if a["sha256"].get(kind) != b["sha256"].get(kind):
            notes.append(f"the SHA-256 of the {kind} files differ between A and B")
    if a["atoms"]["sha256"] != b["atoms"]["sha256"]:
        notes.append(f"the atoms differ: {a['atoms']['file']} in A, {b['atoms']['file']} in B")
    notes += [f"{name} is partial: queries were left out" for name, facts in (("A", a), ("B", b)) if facts["partial"]]
    return notes
