"""What each query of a run came to: joins of what was returned with the gold atoms, the rest in sorted arrays.

Definitions (bench/ANNOTATION_SCHEMA.md, sections 2 and 4; what it leaves open is an option or said here):

- An atom is *visible* to a query if its holder is the query's, and it was observed no later than as_of; what its
  source says of holder and time binds too. What is not visible is never gold and never a hit, but keeps its rank.
- *Gold atoms* of a query: the visible atoms that overlap one of its regions, and one that nobody holds for each region
  without any, so that a region that a system lost is a miss in every metric.
- MRR: one over the rank of the first gold atom, at any depth; 0 without one. nDCG@10: gain 1 for a gold atom, discount
  log2(rank + 1), ideal min(10, gold atoms) in front.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from mabpl.tables.ely_scores import QUERY_SCORES

TOP = 10
"""Depth of recall, nDCG and temporal correctness."""

Integers = npt.NDArray[np.int64]


def score_queries(
    queries: pl.DataFrame,
    gold: pl.DataFrame,
    sources: pl.DataFrame,
    atoms: pl.DataFrame,
    resolved: pl.DataFrame,
    returned: pl.DataFrame,
    latencies: pl.DataFrame,
    tau: float | None = None,
) -> pl.DataFrame:
    """The table `ely_query_scores`, by run and query_id.

    ``queries``: those of :func:`~mabpl.benchmarks.ely_eye.queries.described`. ``latencies``: a row for each query that
    a run answered, if only with an empty list; no other is scored. The rest: tables of their names, in any order; rows
    of other queries are left out. Every returned atom is in ``atoms``.
    """
    known = queries.select("query_id", "holder", "as_of").with_row_index("query")
    cells = (
        latencies.join(known.select("query_id", "query"), on="query_id").sort("run", "query_id").with_row_index("cell")
    )
    facts = _facts(atoms, sources, pl.concat([returned["atom_id"], resolved["atom_id"]]))
    places = returned.join(cells.select("run", "query_id", "cell"), on=["run", "query_id"])
    places = _seen(places, known, facts).sort("cell", "rank")
    visible = _seen(resolved, known, facts).filter(~(pl.col("other") | pl.col("future")))
    hits = (
        places.select("cell", "rank", "query", "atom")
        .join(visible.select("query", "atom", "gold", "whole_source"), on=["query", "atom"])
        .sort("cell", "rank", "gold")
    )
    query = _integers(cells, "query")
    regions = np.bincount(_integers(gold.join(known, on="query_id"), "query"), minlength=known.height)
    columns: dict[str, npt.NDArray[Any]] = {"gold_regions": regions[query]}
    for suffix in ("", "_whole"):
        of_visible, of_hits = (f if suffix else f.filter(~pl.col("whole_source")) for f in (visible, hits))
        columns |= {f"{name}{suffix}": column for name, column in _ranked(of_visible, of_hits, regions, query).items()}
    top = _integers(places, "rank") <= TOP
    cell = _integers(places, "cell")
    flags = {
        "strong": _strong(places, tau),
        "future": places["future"].to_numpy() & top,
        "leaked": places["other"].to_numpy(),
    }
    columns |= {name: np.bincount(cell[flag], minlength=len(query)) > 0 for name, flag in flags.items()}
    columns["returned"] = np.bincount(cell, minlength=len(query))
    scored = cells.hstack([pl.Series(name, column, nan_to_null=True) for name, column in columns.items()])
    described = queries.drop(set(queries.columns) & set(scored.columns) - {"query_id"})
    scored = scored.join(described, on="query_id", how="left", maintain_order="left")
    hollow = [pl.when(~pl.col("unanswerable")).then(pl.col(name)).alias(name) for name in ("ndcg", "ndcg_whole")]
    return QUERY_SCORES.conform(scored.with_columns(hollow))


def _facts(atoms: pl.DataFrame, sources: pl.DataFrame, needed: pl.Series) -> pl.DataFrame:
    """Number, holders and time of each atom that is ``needed``: an atom is known no earlier than its source."""
    of_source = sources.select("source_id", source_holder="holder", source_observed="observed_at")
    return (
        atoms.select("atom_id", "source_id", atom_holder="holder", atom_observed="observed_at")
        .join(pl.DataFrame({"atom_id": needed}), on="atom_id", how="semi")
        .join(of_source, on="source_id", how="left")
        .select(
            "atom_id",
            "atom_holder",
            pl.col("source_holder").fill_null(pl.col("atom_holder")),
            pl.max_horizontal("atom_observed", "source_observed").alias("observed"),
        )
        .with_row_index("atom")
    )


def _seen(rows: pl.DataFrame, known: pl.DataFrame, facts: pl.DataFrame) -> pl.DataFrame:
    """``rows`` (query_id, atom_id, ...) with ``query``, ``atom``, and whether it is of an ``other`` holder, or of the
    ``future``."""
    holder = pl.col("holder")
    return (
        rows.join(known, on="query_id")
        .join(facts, on="atom_id")
        .with_columns(
            ((pl.col("atom_holder") != holder) | (pl.col("source_holder") != holder)).alias("other"),
            (pl.col("observed") > pl.col("as_of")).fill_null(False).alias("future"),
        )
    )


def _ranked(
    visible: pl.DataFrame, hits: pl.DataFrame, regions: Integers, query: Integers
) -> dict[str, npt.NDArray[Any]]:
    """Counts and ranks of each cell; ``query`` (cells,): which query it is of; ``regions`` (queries,): gold regions."""
    held = np.bincount(_integers(visible.unique(["query", "gold"]), "query"), minlength=len(regions))
    gold_atoms = np.bincount(_integers(visible.unique(["query", "atom"]), "query"), minlength=len(regions))
    gold_atoms += regions - held
    top = hits.filter(pl.col("rank") <= TOP)
    of_regions = _integers(top.unique(["cell", "gold"]), "cell")
    once = hits.unique(["cell", "rank"], keep="first", maintain_order=True)
    cell, rank = _integers(once, "cell"), _integers(once, "rank")
    first = np.full(len(query), np.nan)
    first[cell[::-1]] = rank[::-1]
    near = rank <= TOP
    gain = np.bincount(cell[near], weights=1 / np.log2(rank[near] + 1), minlength=len(query))
    ideal = np.cumsum(1 / np.log2(np.arange(TOP) + 2))[np.clip(gold_atoms[query], 1, TOP) - 1]
    return {
        "gold_atoms": gold_atoms[query],
        "regions_hit": np.bincount(of_regions, minlength=len(query)),
        "atoms_hit": np.bincount(cell[near], minlength=len(query)),
        "first_hit": first,
        "ndcg": gain / ideal,
    }


def _strong(places: pl.DataFrame, tau: float | None) -> npt.NDArray[np.bool_]:
    """By ``tau`` where it is given and the atom has a score, else by the atom's flag, else every atom is strong."""
    flag = pl.col("strong").fill_null(True)
    strong = flag if tau is None else (pl.col("score") >= tau).fill_null(flag)
    return places.select(strong).to_series().to_numpy()


def _integers(frame: pl.DataFrame, name: str) -> Integers:
    return frame[name].to_numpy().astype(np.int64)
