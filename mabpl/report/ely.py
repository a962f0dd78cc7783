"""ely-eye's scores and comparisons as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl

from mabpl.benchmarks.ely_eye.adding_up import GATES, Reading, chosen
from mabpl.benchmarks.ely_eye.compare import Comparison
from mabpl.benchmarks.ely_eye.options import ElyOptions
from mabpl.benchmarks.ely_eye.scoring import ElyScores
from mabpl.report.tables import Format, Show, plain, render

TITLES = {
    "recall@10": "Recall@10", "mrr": "MRR", "ndcg@10": "nDCG@10", "false_recall": "False recall",
    "temporal": "Temporal correctness", "holder": "Holder correctness",
    "cold_p50": "Cold latency p50, s", "cold_p95": "Cold latency p95, s",
    "warm_p50": "Warm latency p50, s", "warm_p95": "Warm latency p95, s",
}  # fmt: skip
_WORDS = {
    "region": None, "atom": "atoms", "excluded": None, "counted": "whole too", "possible": None, "asked": "asked",
}  # fmt: skip
_KEY = ["run", "slice", "value_of_slice", *Reading._fields]
_LABEL = pl.coalesce("value_of_slice", "slice").alias("of")
_METRIC = pl.concat_str(
    [
        pl.col("metric").replace_strict(TITLES),
        *(pl.col(name).replace_strict(_WORDS, return_dtype=pl.String) for name in Reading._fields[1:]),
    ],
    separator=", ",
    ignore_nulls=True,
).alias("shown")
_WORDS_TOLD = (
    "Whole too: atoms that span their whole source count. Asked: queries whose answer another holder has.",
    "[ , ]: 95% interval of a bootstrap over sources",
)


def scores_text(
    scores: ElyScores, *, format_: Format = "terminal", by: Sequence[str] = ("all", "modality"), every: bool = False
) -> str:
    """A table a run: each metric of each slice ``by`` under the chosen reading, and over all queries under every one
    (``every``: under every one everywhere)."""
    wide = _wide(scores.scores.filter(pl.col("slice").is_in(list(by))), scores.options)
    wide = wide.filter(pl.lit(every) | pl.col("chosen") | (pl.col("slice") == "all"))
    if format_ in ("json", "csv"):
        return render(wide.drop("chosen", "of", "shown", "verdict"), format=format_)
    columns = [
        Show("of", "Queries"),
        Show("shown", "Metric"),
        Show("value", "Value", "interval", digits=3),
        Show("n", "n", "count"),
        Show("value_of_all", "Of all", "percent", digits=3),
        Show("divided_by_all", "N", "count"),
        Show("verdict", "Gate"),
    ]
    parts = []
    for run in scores.runs:
        rows = wide.filter(run=run).with_columns(value_low=pl.col("low"), value_high=pl.col("high"))
        title = f"{run}, split {scores.split}" + (" (final acceptance only)" if scores.split == "test" else "")
        parts.append(render(rows, format=format_, columns=columns, title=title))
    return "\n".join([*parts, *map(plain, _notes(scores))]) + "\n"


def _wide(rows: pl.DataFrame, options: ElyOptions) -> pl.DataFrame:
    """Both denominators in one row; ``chosen``: under the reading of ``options``; ``verdict`` of its gate."""
    of_all = pl.col("value", "low", "high", "divided_by", "gate", "passed").name.suffix("_all")
    wide = rows.filter(pl.col("denominator").ne_missing("all")).join(
        rows.filter(denominator="all").select(*_KEY, of_all),
        on=_KEY, how="left", nulls_equal=True, maintain_order="left",
    ).rename({"value_all": "value_of_all"})  # fmt: skip
    wide = wide.with_columns(pl.coalesce("gate", "gate_all"), pl.coalesce("passed", "passed_all"))
    verdicts = [_verdict(*row) for row in wide.select("metric", "gate", "passed").iter_rows()]
    return wide.drop("gate_all", "passed_all").with_columns(
        _LABEL, _METRIC, _chosen(wide, options), pl.Series("verdict", verdicts, dtype=pl.String)
    )


def _chosen(rows: pl.DataFrame, options: ElyOptions) -> pl.Series:
    held = [chosen(Reading(*row), None, options) for row in rows.select(Reading._fields).iter_rows()]
    return pl.Series("chosen", held, dtype=pl.Boolean)


def _verdict(metric: str, gate: float | None, passed: bool | None) -> str:
    if gate is None:
        return ""
    sign = "≥" if GATES[metric][0] == "least" else "≤"
    return ("no query" if passed is None else "passed" if passed else "FAILED") + f" {sign} {gate:.2f}"


def _notes(scores: ElyScores) -> Iterator[str]:
    options, counts = scores.options, scores.facts["queries"]
    yield (
        f"{counts['scored']:,} queries of {counts['holders']:,} holders: {counts['answerable']:,} answerable, "
        f"{counts['unanswerable']:,} unanswerable."
    )
    yield f"Left out: {counts['void']:,} void, {counts['other_split']:,} of the other split."
    held = "Value" if options.denominator == "applicable" else "Of all"
    yield "n: queries that the metric applies to, and the denominator of Value."
    yield f"Of all: the same total over all N queries of the row. Gates hold {held}, unrounded."
    yield from _WORDS_TOLD
    yield "Options: " + ", ".join(f"{k}={v}" for k, v in options.as_dict().items() if v is not None)
    yield from digests(scores.facts)
    if scores.partial:
        yield "Partial: queries that a run lacks were left out."


def digests(facts: dict[str, Any]) -> Iterator[str]:
    """The benchmark that was scored: every report states it."""
    for kind in ("manifest", "sets_manifest", "set"):
        for file, sha256 in facts["sha256"].get(kind, {}).items():
            yield f"SHA-256 {sha256}  {file}"


def digests_of_both(comparison: Comparison) -> list[str]:
    """The benchmark of a comparison; where its sides differ, that of each."""
    one, two = (list(digests(facts)) for facts in (comparison.a, comparison.b))
    return one if one == two else [f"{name}: {line}" for name, lines in (("A", one), ("B", two)) for line in lines]


def comparison_text(comparison: Comparison, *, format_: Format = "terminal", every: bool = False) -> str:
    """Each value that changed, under the chosen reading and by both denominators (``every``: each value under every
    reading), with n and denominator on both sides, and the gates that were lost and won."""
    rows = comparison.metrics if every else comparison.changed
    if format_ in ("json", "csv"):
        return render(rows, format=format_)
    if not every:
        rows = rows.filter(_chosen(rows, comparison.options))
    twice = [pl.col("denominator").eq("all") & pl.col(f"n_{side}").eq(pl.col(f"divided_by_{side}")) for side in "ab"]
    rows = rows.filter(~pl.all_horizontal(twice).fill_null(False))
    of = [pl.format("{}/{}", f"n_{side}", f"divided_by_{side}").alias(f"of_{side}") for side in "ab"]
    metric = pl.when(pl.col("denominator").eq("all")).then(_METRIC + ", of all").otherwise(_METRIC).alias("shown")
    shown = rows.with_columns(_LABEL, metric, *of, difference_low=pl.col("low"), difference_high=pl.col("high"))
    columns = [
        Show("of", "Queries"),
        Show("shown", "Metric"),
        Show("value_a", "A", "percent", digits=3),
        Show("of_a", "n/denom."),
        Show("value_b", "B", "percent", digits=3),
        Show("of_b", "n/denom."),
        Show("difference", "A-B", "interval", digits=3),
    ]
    notes = [
        *comparison.notes,
        *(f"Gate lost: {line}" for line in comparison.lost_gates()),
        *(f"Gate won: {line}" for line in comparison.won_gates()),
        f"{_WORDS_TOLD[1]}, the same draws on both sides; where it holds 0, other sources might turn the order.",
        "Of all: the same total over all queries of the row, where these are more than n.",
        f"{comparison.changed.height:,} of {comparison.metrics.height:,} values changed; --all lists every reading.",
    ]
    title = ", ".join(
        f"{name} = {facts['run']} (split {facts['split']})"
        for name, facts in (("A", comparison.a), ("B", comparison.b))
    )
    told = digests_of_both(comparison)
    text = render(shown, format=format_, columns=columns, title=title, notes=notes)
    return text + "".join(f"{plain(line)}\n" for line in told)
