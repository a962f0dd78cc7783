"""Every rule that an input file can break, and the table of what was broken."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import polars as pl

from mabpl.errors import InvalidTimelines
from mabpl.tables.schemas import PROBLEMS


class Rule(NamedTuple):
    """``severity`` of a breach (error: the file is not scored; warning: it is), and what to do about one."""

    severity: str
    hint: str


_FIX = "mabpl validate --fix writes a corrected copy and lists each change"

RULES: dict[str, Rule] = {
    "invalid-json": Rule("error", "each line holds one complete JSON object"),
    "line-too-long": Rule("error", "write one clip a line"),
    "encoding": Rule("error", "write the file as UTF-8"),
    "duplicate-key": Rule("error", "give each key once: readers disagree on which value counts"),
    "missing-field": Rule("error", "add the field"),
    "wrong-type": Rule("error", "write the value as the expected JSON type"),
    "non-finite": Rule("error", "write a finite number"),
    "time-out-of-range": Rule("error", "times are seconds from the start of the clip"),
    "end-not-after-start": Rule("error", f"give each segment a length, or leave it out; {_FIX}"),
    "hands-value": Rule("error", "write left, right, both or null"),
    "duplicate-clip": Rule("error", "keep one line a clip"),
    "clip-in-two-sets": Rule("error", "clip ids are unique across sets"),
    "unknown-clip": Rule("error", "remove the clip, or choose the set that holds it"),
    "missing-clip": Rule("error", "add the clip, or score what is there with --missing skip (or empty: counted as 0)"),
    "empty-timeline": Rule("error", "add segments, or score the clip as it is with --missing skip or empty"),
    "byte-order-mark": Rule("warning", "write the file as UTF-8 without a byte order mark"),
    "blank-line": Rule("warning", "remove the line"),
    "labels-as-predictions": Rule("warning", "if this is the labels file by mistake, give the model's file instead"),
    "predictions-as-labels": Rule("warning", "if this is a prediction file by mistake, give the labels file instead"),
    "negative-start": Rule("warning", "times are seconds from the start of the clip"),
    "outside-duration": Rule("warning", "times are seconds from the start of the clip"),
    "unsorted": Rule("warning", f"the order does not change the score; {_FIX}"),
    "overlap": Rule("warning", f"overlapping segments are scored as separate segments; {_FIX}"),
    "gap": Rule("warning", "time that no segment covers earns nothing"),
    "longer-than-10s": Rule("warning", "no human segment of the benchmark is longer"),
    "all-idle": Rule("warning", "idle segments count as no prediction: the clip scores 0"),
    "not-contiguous": Rule("warning", "a labels segment starts where the one before it ends"),
    "not-covering": Rule("warning", "the segments of a labels clip cover it from 0 to its duration"),
    "duration-mismatch": Rule("warning", "duration_s is num_frames / source_fps to 3 decimals"),
}
"""Rule → severity and hint. ``missing-clip`` and ``empty-timeline`` are warnings unless absent clips are refused."""


class Problem(NamedTuple):
    """One row of the table `problems`."""

    severity: str
    rule: str
    file: str
    line: int | None
    clip_id: str | None
    field: str | None
    message: str
    hint: str | None


def problem(
    rule: str,
    file: str,
    line: int | None,
    message: str,
    *,
    clip_id: str | None = None,
    field: str | None = None,
    hint: str = "",
) -> Problem:
    """A breach of ``rule``, with the rule's severity, and its hint unless a better one is given."""
    return Problem(RULES[rule].severity, rule, file, line, clip_id, field, message, hint or RULES[rule].hint)


def problems_table(problems: Iterable[Problem]) -> pl.DataFrame:
    return pl.DataFrame(list(problems), schema=PROBLEMS.schema, orient="row")


def merge_problems(*tables: pl.DataFrame) -> pl.DataFrame:
    """All rows of ``tables``, in the order of file, line, segment, field and rule."""
    segment = pl.col("field").str.extract(r"\[(\d+)\]").cast(pl.Int64, strict=False)
    return pl.concat(tables).sort("file", "line", segment, "field", "rule", "message", nulls_last=True)


def counts(problems: pl.DataFrame) -> pl.DataFrame:
    """severity, rule, count; errors first, then the most frequent."""
    return (
        problems.group_by("severity", "rule")
        .agg(pl.len().cast(pl.Int64).alias("count"))
        .sort("severity", "count", "rule", descending=[False, True, False])
    )


def errors_of(problems: pl.DataFrame) -> pl.DataFrame:
    return problems.filter(pl.col("severity") == "error")


def describe(row: dict[str, object]) -> str:
    """One row of the table as a line: file, line, clip, field, what is wrong."""
    parts = [str(row["file"])]
    if row["line"] is not None:
        parts.append(f"line {row['line']}")
    if row["clip_id"] is not None:
        parts.append(f"clip {row['clip_id']}")
    if row["field"] is not None:
        parts.append(str(row["field"]))
    return f"{', '.join(parts)}: {row['message']} [{row['rule']}]"


def require_valid(problems: pl.DataFrame) -> None:
    """Raises :class:`InvalidTimelines` (with the whole table) where ``problems`` holds an error."""
    errors = errors_of(problems)
    if errors.is_empty():
        return
    rules = ", ".join(f"{rule} {count}" for _, rule, count in counts(errors).iter_rows())
    first = errors.row(0, named=True)
    raise InvalidTimelines(
        f"{errors.height} error{'s' if errors.height > 1 else ''} ({rules}); the first: {describe(first)}",
        f"{first['hint']}; mabpl validate lists them all",
        problems,
    )
