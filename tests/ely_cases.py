"""Small benchmarks for ely-eye's metrics: rows as dicts, and as the tables that the scorer takes."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
from hypothesis import strategies as st

from mabpl.tables.columns import Table
from mabpl.tables.ely_eye import ATOMS, GOLD, LATENCIES, QUERIES, RESOLVED, RETURNED, SOURCES

Row = dict[str, Any]
DAY = datetime(2026, 1, 1, tzinfo=UTC)
MODALITIES = ("pdf", "image", "code")


def table(kind: Table, rows: list[Row]) -> pl.DataFrame:
    """Rows as a table; what they do not say is null, or, where that cannot be, empty."""
    filled = {c.name: None if c.nullable else _EMPTY.get(kind.schema[c.name]) for c in kind.columns}
    return pl.DataFrame([{**filled, **row} for row in rows], schema=kind.schema, orient="row")


_EMPTY: dict[pl.DataType, Any] = {pl.String(): "", pl.Boolean(): False, pl.Int64(): 1, pl.Int32(): 0}


def query(name: str, holder: str = "a", *, gold: bool = True, as_of: int | None = None, **more: Any) -> Row:
    return {
        "query_id": name,
        "holder": holder,
        "unanswerable": not gold,
        "as_of": None if as_of is None else DAY + timedelta(days=as_of),
        "modality": "pdf",
        "scenario": "s",
        "item": name,
        "question": name,
        "split": "dev",
        **more,
    }


def atom(name: str, source: str = "d", holder: str = "a", at: int | None = None) -> Row:
    observed = None if at is None else DAY + timedelta(days=at)
    return {"atom_id": name, "source_id": source, "holder": holder, "observed_at": observed}


def source(name: str, holder: str = "a", at: int | None = None) -> Row:
    return {"source_id": name, "holder": holder, "observed_at": None if at is None else DAY + timedelta(days=at)}


def overlap(query_id: str, atom_id: str, gold: int = 0, *, whole: bool = False) -> Row:
    return {"query_id": query_id, "gold": gold, "atom_id": atom_id, "whole_source": whole}


@dataclass
class Case:
    """``ranked``: (run, query_id) to the atoms that were returned, each a dict or an id. ``regions``: query_id to the
    sources of its gold regions; one region in source d unless it is unanswerable."""

    queries: list[Row]
    atoms: list[Row]
    resolved: list[Row] = field(default_factory=list)
    ranked: dict[tuple[str, str], list[Any]] = field(default_factory=dict)
    sources: list[Row] = field(default_factory=lambda: [source("d")])
    regions: dict[str, list[str]] = field(default_factory=dict)
    latency: dict[tuple[str, str], tuple[float | None, float | None]] = field(default_factory=dict)

    @property
    def gold(self) -> list[Row]:
        found = []
        for row in self.queries:
            sources = self.regions.get(row["query_id"], [] if row["unanswerable"] else ["d"])
            found += [{"query_id": row["query_id"], "gold": i, "source_id": s} for i, s in enumerate(sources)]
        return found

    @property
    def returned(self) -> list[Row]:
        return [
            {"run": run, "query_id": name, "rank": rank, **(place if isinstance(place, dict) else {"atom_id": place})}
            for (run, name), places in self.ranked.items()
            for rank, place in enumerate(places, 1)
        ]

    def tables(self, shuffled: int | None = None) -> dict[str, pl.DataFrame]:
        """The arguments of ``score_queries``; ``queries`` is the bare table."""
        latencies = [
            dict(
                zip(("run", "query_id", "cold_s", "warm_s"), (*key, *self.latency.get(key, (None, None))), strict=True)
            )
            for key in self.ranked
        ]
        made = {
            "queries": table(QUERIES, self.queries),
            "gold": table(GOLD, self.gold),
            "sources": table(SOURCES, self.sources),
            "atoms": table(ATOMS, self.atoms),
            "resolved": table(RESOLVED, self.resolved),
            "returned": table(RETURNED, self.returned),
            "latencies": table(LATENCIES, latencies),
        }
        if shuffled is None:
            return made
        return {name: frame.sample(fraction=1, shuffle=True, seed=shuffled) for name, frame in made.items()}


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Two or three holders, few days, and few names, so that leaks, ties, twins and lost regions are common."""
    days = st.one_of(st.none(), st.integers(0, 3))
    holders = st.sampled_from("aab" if draw(st.booleans()) else "a")
    sources = [source(f"d{i}", draw(holders), draw(days)) for i in range(draw(st.integers(1, 3)))]
    names = st.sampled_from([row["source_id"] for row in sources])
    atoms = [atom(f"t{i}", draw(names), draw(holders), draw(days)) for i in range(draw(st.integers(1, 14)))]
    queries = []
    regions = {}
    resolved = []
    for i in range(draw(st.integers(1, 5))):
        name = f"q{i}"
        answerable = draw(st.booleans())
        queries.append(
            query(
                name, draw(holders), gold=answerable, as_of=draw(days), modality=draw(st.sampled_from(MODALITIES)),
                item=draw(st.sampled_from("xyz")), question=draw(st.sampled_from("uvw")),
            )
        )  # fmt: skip
        regions[name] = draw(st.lists(names, min_size=1, max_size=3)) if answerable else []
        for region in range(len(regions[name])):
            drawn = draw(st.lists(st.sampled_from(atoms), max_size=6, unique_by=lambda row: row["atom_id"]))
            resolved += [overlap(name, row["atom_id"], region, whole=draw(st.booleans())) for row in drawn]
    places = st.lists(
        st.fixed_dictionaries(
            {
                "atom_id": st.sampled_from([row["atom_id"] for row in atoms]),
                "score": st.one_of(st.none(), st.integers(0, 4).map(float)),
                "strong": st.sampled_from((None, True, False)),
            }
        ),
        max_size=14,
        unique_by=lambda place: place["atom_id"],
    )
    seconds = st.one_of(st.none(), st.floats(0, 9))
    ranked = {}
    latency = {}
    for run in ("one", "two")[: draw(st.integers(1, 2))]:
        for row in queries:
            if draw(st.integers(0, 7)):
                ranked[run, row["query_id"]] = draw(places)
                latency[run, row["query_id"]] = (draw(seconds), draw(seconds))
    return Case(queries, atoms, resolved, ranked, sources, regions, latency)
