"""The table of what is wrong with input files, and the rules that every benchmark's files share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import polars as pl

from mabpl.errors import InvalidTimelines
from mabpl.tables.schemas import PROBLEMS


class Rule(NamedTuple):
    """``severity`` of a breach (error: the file is not scored; warning: it is), and what to do about one."""

    severity: str
    hint: str


JSON_RULES: dict[str, Rule] = {
    "invalid-json": Rule("error", "write one complete JSON value"),
    "encoding": Rule("error", "write the file as UTF-8"),
    "duplicate-key": Rule("error", "give each key once: readers disagree on which value counts"),
    "unknown-key": Rule("error", "remove the key, or correct its spelling"),
    "missing-field": Rule("error", "add the field"),
    "wrong-type": Rule("error", "write the value as the expected JSON type"),
    "wrong-value": Rule("error", "write one of the expected values"),
    "non-finite": Rule("error", "write a finite number"),
    "byte-order-mark": Rule("warning", "write the file as UTF-8 without a byte order mark"),
}
"""Rule → severity and hint, for any JSON."""

LINE_RULES: dict[str, Rule] = {
    **JSON_RULES,
    "invalid-json": Rule("error", "each line holds one complete JSON object"),
    "line-too-long": Rule("error", "write one clip a line"),
    "blank-line": Rule("warning", "remove the line"),
}
"""Those for JSON lines."""


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


def problem_of(
    rules: Mapping[str, Rule],
    rule: str,
    file: str,
    line: int | None,
    message: str,
    *,
    clip_id: str | None = None,
    field: str | None = None,
    hint: str = "",
) -> Problem:
    """A breach of one of ``rules``, with the rule's severity, and its hint unless a better one is given."""
    return Problem(rules[rule].severity, rule, file, line, clip_id, field, message, hint or rules[rule].hint)


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


def describe(row: dict[str, object], kind: str = "clip") -> str:
    """One row of the table as a line: file, line, clip (or of which ``kind`` its id is), field, what is wrong."""
    parts = [str(row["file"])]
    if row["line"] is not None:
        parts.append(f"line {row['line']}")
    if row["clip_id"] is not None:
        parts.append(f"{kind} {row['clip_id']}".lstrip())
    if row["field"] is not None:
        parts.append(str(row["field"]))
    return f"{', '.join(parts)}: {row['message']} [{row['rule']}]"


def require_valid(problems: pl.DataFrame, lister: str = "mabpl validate", kind: str = "clip") -> None:
    """Raises :class:`InvalidTimelines` (with the whole table) where ``problems`` holds an error.

    ``lister``: the command that lists them all; ``kind``: as in :func:`describe`.
    """
    errors = errors_of(problems)
    if errors.is_empty():
        return
    rules = ", ".join(f"{rule} {count}" for _, rule, count in counts(errors).iter_rows())
    first = errors.row(0, named=True)
    raise InvalidTimelines(
        f"{errors.height} error{'s' if errors.height > 1 else ''} ({rules}); the first: {describe(first, kind)}",
        f"{first['hint']}; {lister} lists them all",
        problems,
    )
