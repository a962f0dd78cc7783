"""Tables of ely-eye's scores: what each query came to, and each metric over slices of the queries."""

from __future__ import annotations

import polars as pl

from mabpl.tables.columns import Column, Table

_RUN = Column("run", pl.String, "one file of what a system returned, less its ending")
_WHOLE = "; atoms that span their whole source count too"


def _twice(name: str, dtype: type[pl.DataType], meaning: str, unit: str = "", nullable: bool = False) -> list[Column]:
    """``name``, and ``<name>_whole`` with whole-source atoms counted as gold."""
    return [
        Column(name, dtype, meaning, unit, nullable),
        Column(f"{name}_whole", dtype, meaning + _WHOLE, unit, nullable),
    ]


QUERY_SCORES = Table(
    "ely_query_scores",
    "one query of one run, scored",
    ("run", "query_id"),
    (
        _RUN,
        Column("query_id", pl.String, "the query; unique across sets"),
        Column("modality", pl.String, "pdf, image, ui_screenshot, video, code or conversation"),
        Column("scenario", pl.String, "the kind of task"),
        Column("holder", pl.String, "who asks"),
        Column(
            "cluster", pl.String, "queries that are drawn together: the first query_id of those that share a source"
        ),
        Column("unanswerable", pl.Boolean, "the query has no gold"),
        Column("timed", pl.Boolean, "the query has an as_of"),
        Column("others", pl.Boolean, "the benchmark knows of another holder, whose memory could leak"),
        Column("asked", pl.Boolean, "unanswerable, and what it asks is answered for another holder"),
        Column("returned", pl.Int64, "atoms that were returned, repeated ones once", "atoms"),
        Column("gold_regions", pl.Int64, "gold regions of the query", "regions"),
        *_twice("gold_atoms", pl.Int64, "atoms that may be hit, and one for each region that none covers", "atoms"),
        *_twice("regions_hit", pl.Int64, "gold regions with an atom among the first 10", "regions"),
        *_twice("atoms_hit", pl.Int64, "gold atoms among the first 10", "atoms"),
        *_twice("first_hit", pl.Int64, "rank of the first gold atom; null: none was returned", "rank", nullable=True),
        *_twice("ndcg", pl.Float64, "nDCG@10, 0 to 1; null where the query is unanswerable", nullable=True),
        Column("strong", pl.Boolean, "a strong atom was returned"),
        Column("future", pl.Boolean, "one of the first 10 was observed later than as_of"),
        Column("leaked", pl.Boolean, "an atom of another holder was returned"),
        Column("cold_s", pl.Float64, "latency with nothing prepared", "s", nullable=True),
        Column("warm_s", pl.Float64, "latency when asked again", "s", nullable=True),
    ),
)

SCORES = Table(
    "ely_scores",
    "one metric of one run over one slice of the queries, under one reading of it",
    ("run", "slice", "value_of_slice", "metric", "recall_unit", "whole_source", "cross_holder", "denominator"),
    (
        _RUN,
        Column("slice", pl.String, "all, modality, scenario or holder"),
        Column("value_of_slice", pl.String, "which modality, scenario or holder; null for all", nullable=True),
        Column("metric", pl.String, "the metric"),
        Column("recall_unit", pl.String, "recall@10: region or atom", nullable=True),
        Column(
            "whole_source", pl.String, "recall@10, MRR, nDCG@10: whole-source atoms excluded or counted", nullable=True
        ),
        Column("cross_holder", pl.String, "holder correctness: possible or asked", nullable=True),
        Column("denominator", pl.String, "applicable or all; null for latencies, which have no choice", nullable=True),
        Column("value", pl.Float64, "0 to 1; latencies in seconds; null: nothing to divide by", nullable=True),
        Column("low", pl.Float64, "lower end of the 95% interval; null: one cluster, or no value", nullable=True),
        Column("high", pl.Float64, "upper end of the 95% interval", nullable=True),
        Column("total", pl.Float64, "what is divided: the queries' values added up; null for latencies", nullable=True),
        Column("n", pl.Int64, "queries that the metric applies to", "queries"),
        Column("divided_by", pl.Int64, "queries that the total is divided by", "queries"),
        Column("gate", pl.Float64, "the published threshold, where this row is held to it", nullable=True),
        Column("passed", pl.Boolean, "the unrounded value keeps the threshold", nullable=True),
    ),
)

ELY_SCORE_TABLES = (QUERY_SCORES, SCORES)
