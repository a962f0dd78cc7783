"""What is known of the queries before any run: which may leak another holder's memory, which are drawn together."""

from __future__ import annotations

import polars as pl

ITEM = ["modality", "dataset", "revision", "item"]
QUESTION = ["modality", "question"]


def described(queries: pl.DataFrame, gold: pl.DataFrame, sources: pl.DataFrame) -> pl.DataFrame:
    """``queries`` by query_id, with ``timed``, ``others``, ``asked`` and ``cluster`` (see `ely_query_scores`)."""
    queries = queries.sort("query_id")
    holders = pl.concat([queries["holder"], sources["holder"]]).n_unique()
    return queries.with_columns(
        pl.col("as_of").is_not_null().alias("timed"),
        pl.lit(holders > 1).alias("others"),
        pl.col("query_id").is_in(_asked_elsewhere(queries).implode()).alias("asked"),
        _clusters(queries, gold),
    )


def _asked_elsewhere(queries: pl.DataFrame) -> pl.Series:
    """Unanswerable queries of which another holder has an answerable twin: of the same modality, with the same question
    or from the same item of the same data set."""
    found = []
    for key in (QUESTION, ITEM):
        answered = queries.filter(~pl.col("unanswerable")).select(*key, pl.col("holder").alias("other")).unique()
        twins = queries.filter("unanswerable").join(answered, on=key)
        found.append(twins.filter(pl.col("holder") != pl.col("other"))["query_id"])
    return pl.concat(found).unique()


def _clusters(queries: pl.DataFrame, gold: pl.DataFrame) -> pl.Series:
    """The first query_id of those that share a gold source or an item, directly or through others.

    An unanswerable query has no gold source: it goes with the queries of its item, and with the one that answers its
    question, where just one does; else it stands alone.
    """
    answered = queries.filter(~pl.col("unanswerable")).filter(pl.len().over(QUESTION) == 1)
    twins = queries.filter("unanswerable").join(answered, on=QUESTION, suffix="_of_twin")
    ids = queries["query_id"].to_list()
    number = {query: i for i, query in enumerate(ids)}
    parent = list(range(len(ids)))

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    def together(one: str, two: str) -> None:
        least, other = sorted((root(number[one]), root(number[two])))
        parent[other] = least

    first: dict[object, str] = {}
    shared = [*gold.select("query_id", "source_id").iter_rows()]
    shared += [(query, tuple(item)) for query, *item in queries.select("query_id", *ITEM).iter_rows()]
    for query, what in shared:
        if query in number:
            together(query, first.setdefault(what, query))
    for query, twin in twins.select("query_id", "query_id_of_twin").iter_rows():
        together(query, twin)
    return pl.Series("cluster", [ids[root(i)] for i in range(len(ids))], dtype=pl.String)
