"""What no line tells by itself: queries against the sources that they name, and against each other."""

from __future__ import annotations

import polars as pl

from mabpl.benchmarks.ely_eye.rules import RULES
from mabpl.reading.problems import merge_problems
from mabpl.tables.schemas import PROBLEMS

LEAST_UNANSWERABLE = 15
"""Percent of the queries, of each file and over all (rule 3)."""


def check(queries: pl.DataFrame, gold: pl.DataFrame, sources: pl.DataFrame, symbols: pl.DataFrame) -> pl.DataFrame:
    """The table `problems` of `ely_queries`, `ely_gold`, `ely_sources` and `ely_symbols`.

    ``gold`` has the ``holder``, ``as_of`` and ``file`` of its query too, and ``at``, its line.
    """
    placed = gold.join(
        sources.unique("source_id", keep="first", maintain_order=True).drop("file", "line"),
        on="source_id",
        how="left",
        suffix="_of_source",
    )
    known = placed.filter(pl.col("holder_of_source").is_not_null())
    return merge_problems(
        _repeated(queries, "duplicate-query", "query_id"),
        _repeated(sources, "duplicate-source", "source_id"),
        _source_rules(placed, known),
        _extent_rules(known),
        _unlisted(known, symbols),
        _void(queries),
        _shares(queries),
    )


def _repeated(frame: pl.DataFrame, rule: str, name: str) -> pl.DataFrame:
    first = pl.struct("file", "line").first().over(name)
    again = frame.with_columns(first=first).filter(~pl.col(name).is_first_distinct())
    place = pl.format(
        "is on line {} of {} too", pl.col("first").struct.field("line"), pl.col("first").struct.field("file")
    )
    return _rows(again, rule, pl.lit(name), place, of=name)


def _source_rules(placed: pl.DataFrame, known: pl.DataFrame) -> pl.DataFrame:
    source = pl.format("gold[{}].source_id", "gold")
    shown = '"' + pl.col("source_id") + '"'
    late = known.filter(pl.col("observed_at") > pl.col("as_of"))
    untold = known.filter(pl.col("observed_at").is_null() & pl.col("as_of").is_not_null())
    return pl.concat(
        [
            _gold_rows(
                placed.filter(pl.col("holder_of_source").is_null()),
                "unknown-source",
                source,
                pl.format("is {}, which no corpus index has", shown),
            ),
            _gold_rows(
                known.filter(pl.col("modality") != pl.col("modality_of_source")),
                "modality-mismatch",
                source,
                pl.format("is {}, a source of {}; the query is of {}", shown, "modality_of_source", "modality"),
            ),
            _gold_rows(
                known.filter(pl.col("holder") != pl.col("holder_of_source")),
                "holder-mismatch",
                source,
                pl.format("is {}, of holder {}; the query's holder is {}", shown, "holder_of_source", "holder"),
            ),
            _gold_rows(
                late,
                "gold-after-as-of",
                source,
                pl.format("is {}, observed at {}, after as_of = {}", shown, _iso("observed_at"), _iso("as_of")),
            ),
            _gold_rows(untold, "unknown-observed-at", source, pl.format("is {}, observed nobody knows when", shown)),
        ]
    )


def _extent_rules(known: pl.DataFrame) -> pl.DataFrame:
    """Regions beyond their source, and regions that are all of it although it has several units."""
    region = pl.format("gold[{}].region", "gold")
    limits = {
        "page": ("pages", pl.col("page") > pl.col("pages")),
        "x1": ("width", pl.col("x1") > pl.col("width")),
        "y1": ("height", pl.col("y1") > pl.col("height")),
        "t_end": ("duration_s", (pl.col("t_end") - pl.col("duration_s")) > 1e-3),
        "turn": ("turns", pl.col("turn") >= pl.col("turns")),
        "line_right": ("lines", pl.col("line") > pl.col("lines")),
    }
    beyond = [
        _gold_rows(
            known.filter(holds),
            "outside-source",
            region,
            pl.format("reaches {} = {}; the source has {} = {}",
                      pl.lit(name.removesuffix("_right")), pl.col(name.removesuffix("_right")), pl.lit(of), pl.col(of)),
        )
        for name, (of, holds) in limits.items()
    ]  # fmt: skip
    video = (pl.col("t_start") <= 0) & (pl.col("t_end") >= pl.col("duration_s"))
    corner = (pl.col("x0") <= 0) & (pl.col("y0") <= 0)
    picture = corner & (pl.col("x1") >= pl.col("width")) & (pl.col("y1") >= pl.col("height"))
    whole = known.filter(video | picture)
    return pl.concat([*beyond, _gold_rows(whole, "gold-spans-source", region, pl.lit("is all of the source"))])


def _unlisted(known: pl.DataFrame, symbols: pl.DataFrame) -> pl.DataFrame:
    """Symbols that the index does not list, of sources whose symbols it does."""
    named = known.filter(pl.col("symbol").is_not_null()).join(symbols, on="source_id", how="semi")
    rows = named.join(symbols, on=["source_id", "path", "symbol"], how="anti")
    message = pl.format(
        "names {} of {}, which the index does not list", *('"' + pl.col(name) + '"' for name in ("symbol", "path"))
    )
    return _gold_rows(rows, "outside-source", pl.format("gold[{}].region", "gold"), message)


def _void(queries: pl.DataFrame) -> pl.DataFrame:
    message = pl.format("is {}, which no line of corpus/manifest.jsonl has files of", '"' + pl.col("revision") + '"')
    return _rows(queries.filter("void"), "unknown-revision", pl.lit("origin.revision"), message, of="query_id")


def _shares(queries: pl.DataFrame) -> pl.DataFrame:
    counted = queries.filter(~pl.col("void"))
    total, count = counted["unanswerable"].sum(), pl.len()
    few = pl.col("unanswerable").sum() * 100 < LEAST_UNANSWERABLE * count
    files = (
        counted.group_by("file", maintain_order=True)
        .agg(few.alias("few"), pl.col("unanswerable").sum(), count.alias("queries"))
        .filter("few")
        .with_columns(line=pl.lit(None, pl.Int64), of=pl.lit(None, pl.String))
    )
    message = pl.format("{} of {} queries are unanswerable", "unanswerable", "queries")
    warned = _rows(files, "unanswerable-share", pl.lit("unanswerable"), message, of="of")
    over_all = pl.DataFrame(
        {"file": ["sets"], "line": [None], "of": [None], "unanswerable": [total], "queries": [counted.height]},
        schema_overrides={"line": pl.Int64, "of": pl.String},
    ).filter(pl.lit(total * 100 < LEAST_UNANSWERABLE * counted.height))
    failed = _rows(over_all, "unanswerable-share", pl.lit("unanswerable"), message, of="of")
    return pl.concat([warned.with_columns(severity=pl.lit("warning")), failed])


def _iso(column: str) -> pl.Expr:
    return pl.col(column).dt.to_string("%Y-%m-%dT%H:%M:%S%.f%:z")


def _gold_rows(faulty: pl.DataFrame, rule: str, field: pl.Expr, message: pl.Expr) -> pl.DataFrame:
    return _rows(faulty, rule, field, message, of="query_id", line="at")


def _rows(
    faulty: pl.DataFrame, rule: str, field: pl.Expr, message: pl.Expr, *, of: str, line: str = "line"
) -> pl.DataFrame:
    """A problem for each row of ``faulty``."""
    if faulty.is_empty():
        return PROBLEMS.empty()
    return faulty.select(
        severity=pl.lit(RULES[rule].severity),
        rule=pl.lit(rule),
        file="file",
        line=line,
        clip_id=of,
        field=field,
        message=message,
        hint=pl.lit(RULES[rule].hint),
    ).cast(PROBLEMS.schema)  # type: ignore[arg-type]
