"""ely-eye's metrics in plain Python, one query after another: the executable definition that the tables are held to.

Rows are dicts with the columns of the tables of their names.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

Row = Mapping[str, Any]
Values = dict[tuple[Any, ...], float]
"""(metric, recall_unit, whole_source, cross_holder) to a query's value; one that does not apply is not there."""


def is_other(atom: Row, source: Row | None, query: Row) -> bool:
    """Whether the atom, or its source, belongs to another holder than the one who asks."""
    return any(row["holder"] != query["holder"] for row in (atom, source) if row is not None)


def is_future(atom: Row, source: Row | None, query: Row) -> bool:
    """Whether the atom, or its source, was observed later than the query's as_of; times that are not told are not."""
    times = [row["observed_at"] for row in (atom, source) if row is not None]
    return query["as_of"] is not None and any(time is not None and time > query["as_of"] for time in times)


def is_strong(place: Row, tau: float | None) -> bool:
    if tau is not None and place["score"] is not None:
        return bool(place["score"] >= tau)
    return place["strong"] is not False


def is_asked_elsewhere(query: Row, queries: Iterable[Row]) -> bool:
    """Whether an unanswerable query has an answerable twin of another holder: same question, or same item."""
    same = (("modality", "question"), ("modality", "dataset", "revision", "item"))
    return query["unanswerable"] and any(
        twin["holder"] != query["holder"]
        and not twin["unanswerable"]
        and any(all(query[name] == twin[name] for name in names) for names in same)
        for twin in queries
    )


def score_query(
    query: Row,
    regions: Sequence[int],
    overlaps: Iterable[Row],
    places: Sequence[Row],
    atoms: Mapping[str, Row],
    sources: Mapping[str, Row],
    *,
    asked: bool,
    others: bool,
    tau: float | None = None,
) -> Values:
    """``regions``: the numbers of its gold regions; ``overlaps``: its rows of `ely_resolved`; ``places``: of
    `ely_returned`, by rank; ``atoms`` and ``sources``: by id."""
    about = {name: (atom, sources.get(atom["source_id"]), query) for name, atom in atoms.items()}
    values: Values = {}
    if not query["unanswerable"]:
        may_hit = [o for o in overlaps if not is_other(*about[o["atom_id"]]) and not is_future(*about[o["atom_id"]])]
        for whole_source in ("excluded", "counted"):
            rows = [o for o in may_hit if whole_source == "counted" or not o["whole_source"]]
            covered_by = {region: {o["atom_id"] for o in rows if o["gold"] == region} for region in regions}
            values |= ranking(covered_by, [place["atom_id"] for place in places], whole_source)
    else:
        values["false_recall", None, None, None] = float(any(is_strong(place, tau) for place in places))
    if query["as_of"] is not None:
        leaks = any(is_future(*about[place["atom_id"]]) for place in places[:10])
        values["temporal", None, None, None] = float(not leaks)
    kept = float(not any(is_other(*about[place["atom_id"]]) for place in places))
    for kind, applies in (("possible", others), ("asked", asked)):
        if applies:
            values["holder", None, None, kind] = kept
    return values


def ranking(covered_by: Mapping[int, set[str]], ranked: Sequence[str], whole_source: str) -> Values:
    """Recall, MRR and nDCG of one query: gold region to the atoms that cover it, and the distinct atoms in order."""
    gold = set().union(*covered_by.values())
    lost = sum(not atoms for atoms in covered_by.values())
    size = len(gold) + lost
    top = set(ranked[:10])
    first = next((rank for rank, atom in enumerate(ranked, 1) if atom in gold), math.inf)
    gain = sum(1 / math.log2(rank + 1) for rank, atom in enumerate(ranked[:10], 1) if atom in gold)
    ideal = sum(1 / math.log2(rank + 1) for rank in range(1, min(10, size) + 1))
    covered = sum(bool(atoms & top) for atoms in covered_by.values())
    return {
        ("recall@10", "region", whole_source, None): covered / len(covered_by),
        ("recall@10", "atom", whole_source, None): len(gold & top) / size,
        ("mrr", None, whole_source, None): 1 / first,
        ("ndcg@10", None, whole_source, None): gain / ideal,
    }


def add_up(values: Sequence[Values], reading: tuple[Any, ...], denominator: str) -> float | None:
    """The metric over a slice of queries; None where it applies to none of them."""
    known = [of_query[reading] for of_query in values if reading in of_query]
    if not known:
        return None
    return fmean(known) if denominator == "applicable" else math.fsum(known) / len(values)
