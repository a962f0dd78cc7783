"""Gold regions to the atoms that overlap them, at once for all: an equality join on the source with the overlap as a
residual, in DuckDB.

The gold names a source and a region, never an atom: a system may cut its sources as it likes, and the same gold holds.
The definition is :mod:`mabpl.benchmarks.ely_eye.overlap`.
"""

from __future__ import annotations

import polars as pl

from mabpl.benchmarks.ely_eye.overlap import REGION
from mabpl.pairs import connection
from mabpl.tables.ely_eye import RESOLVED

_JOIN = """
with
  spots as (
    select g.number, g.source, g.path, g.line as first, g.line as last from gold g where g.line is not null
    union all
    select g.number, g.source, g.path, s.line_start, s.line_end
    from gold g join symbols s on s.source = g.source and s.path = g.path and s.symbol = g.symbol
  ),
  named as (
    select a.number, a.source, a.path, a.line_start, unnest(a.symbols) as symbol
    from atoms a where a.symbols is not null
  ),
  spans as (
    select a.number, a.source, a.path, a.line_start as first, a.line_end as last
    from atoms a where a.line_start is not null
    union all
    select n.number, n.source, n.path, s.line_start, s.line_end
    from named n join symbols s on s.source = n.source and s.path = n.path and s.symbol = n.symbol
    where n.line_start is null
  )
select g.number as gold, a.number as atom
from gold g join atoms a on g.source = a.source and (
  a.bare or g.modality = 'image'
  or (g.page between a.page_start and a.page_end and coalesce(g.block = a.block, true))
  or (g.x0 < a.x1 and a.x0 < g.x1 and g.y0 < a.y1 and a.y0 < g.y1)
  or (case when a."start" = a."end" then a."start" between g."start" and g."end"
      else g."start" < a."end" and a."start" < g."end" end)
  or g.turn between a.turn_start and a.turn_end
  or (g.path = a.path and a.line_start is null and a.symbols is null)
)
union
select g.number, n.number from gold g join named n on g.source = n.source and g.path = n.path and g.symbol = n.symbol
union
select g.number, a.number
from spots g join spans a on g.source = a.source and g.path = a.path and g.first <= a.last and a.first <= g.last
order by gold, atom
"""


_EXTENT = ("pages", "width", "height", "duration_s", "lines", "turns")


def resolve(gold: pl.DataFrame, atoms: pl.DataFrame, sources: pl.DataFrame, symbols: pl.DataFrame) -> pl.DataFrame:
    """The `ely_resolved` table of `ely_gold`, `ely_atoms`, `ely_sources` and `ely_symbols`.

    Sorted by query, gold and atom, whatever the order of the rows. A gold region that no atom overlaps has no row.
    """
    gold = gold.sort("query_id", "gold")
    atoms = atoms.join(gold, on="source_id", how="semi").sort("atom_id")
    codes = gold.select(pl.col("source_id").unique().sort()).with_row_index("source")
    tables = {
        "gold": _numbered(gold, codes),
        "atoms": _numbered(atoms, codes).with_columns(bare=_BARE),
        "symbols": _numbered(symbols, codes),
    }
    with connection().cursor() as cursor:
        for name, table in tables.items():
            cursor.register(name, table.to_arrow())
        found = cursor.sql(_JOIN).fetchnumpy()
    of_gold, of_atom = pl.Series(found["gold"]), pl.Series(found["atom"])
    return RESOLVED.conform(
        pl.DataFrame(
            [
                gold["query_id"].gather(of_gold),
                gold["gold"].gather(of_gold),
                atoms["atom_id"].gather(of_atom),
                (_proper(gold, sources, symbols).gather(of_gold) & _whole(atoms, sources, symbols).gather(of_atom)),
            ]
        )
    )


def _numbered(frame: pl.DataFrame, codes: pl.DataFrame) -> pl.DataFrame:
    """Rows with their number, the source's code, and times in whole microseconds."""
    times = [] if "t_start" not in frame.columns else [_us("t_start").alias("start"), _us("t_end").alias("end")]
    return frame.with_row_index("number").with_columns(times).join(codes, on="source_id", maintain_order="left")


def _us(column: str) -> pl.Expr:
    return (pl.col(column) * 1e6).round(mode="half_to_even").cast(pl.Int64)


_BARE = pl.all_horizontal(pl.col(REGION).is_null())
_SPANS_VIDEO = (pl.col("t_start") <= 0) & (_us("t_end") >= _us("duration_s"))
_SPANS_PICTURE = (
    (pl.max_horizontal("x0", "y0") <= 0) & (pl.col("x1") >= pl.col("width")) & (pl.col("y1") >= pl.col("height"))
)


def _whole(atoms: pl.DataFrame, sources: pl.DataFrame, symbols: pl.DataFrame) -> pl.Series:
    """:func:`~mabpl.benchmarks.ely_eye.overlap.spans_source` of each atom."""
    known = symbols.group_by("source_id", "path").agg(pl.col("symbol").unique().alias("known"))
    lines = pl.col("line_start").is_not_null()
    every = (pl.col("known").list.len() > 1) & (pl.col("known").list.set_difference("symbols").list.len() == 0)
    pages = pl.col("block").is_null() & (pl.col("page_start") <= 1) & (pl.col("page_end") >= pl.col("pages"))
    turns = (pl.col("turn_start") <= 0) & (pl.col("turn_end") >= pl.col("turns") - 1)
    code = (
        pl.when(lines)
        .then((pl.col("line_start") <= 1) & (pl.col("line_end") >= pl.col("lines")))
        .when(pl.col("symbols").is_not_null())
        .then(every)
        .otherwise(pl.col("path").is_not_null())
    )
    parts = (_BARE, pages, turns, _SPANS_VIDEO, _SPANS_PICTURE, code)
    joined = _with_extent(atoms, sources).join(known, on=["source_id", "path"], how="left", maintain_order="left")
    return joined.select(pl.any_horizontal(part.fill_null(False) for part in parts).alias("whole_source")).to_series()


def _proper(gold: pl.DataFrame, sources: pl.DataFrame, symbols: pl.DataFrame) -> pl.Series:
    """:func:`~mabpl.benchmarks.ely_eye.overlap.is_proper` of each gold region."""
    units = symbols.group_by("source_id").agg(pl.struct("path", "symbol").n_unique().alias("units"))
    whole = {
        "pdf": pl.col("block").is_null() & (pl.col("pages") == 1),
        "conversation": pl.col("turns") == 1,
        "video": _SPANS_VIDEO,
        "ui_screenshot": _SPANS_PICTURE,
        "code": (pl.col("lines") == 1) | (pl.col("symbol").is_not_null() & (pl.col("units") == 1)),
        "image": pl.lit(True),
    }
    joined = _with_extent(gold, sources).join(units, on="source_id", how="left", maintain_order="left")
    parts = ((pl.col("modality") == name) & part.fill_null(False) for name, part in whole.items())
    return joined.select((~pl.any_horizontal(parts)).alias("whole_source")).to_series()


def _with_extent(frame: pl.DataFrame, sources: pl.DataFrame) -> pl.DataFrame:
    return frame.join(sources.select("source_id", *_EXTENT), on="source_id", how="left", maintain_order="left")


def coverage(gold: pl.DataFrame, resolved: pl.DataFrame) -> pl.DataFrame:
    """Per modality, and in all (null): gold regions, those that atoms cover, those that only atoms of the whole source
    overlap, those that none does, and the pairs of region and atom."""
    found = resolved.group_by("query_id", "gold").agg(
        pairs=pl.len(), covers=(~pl.col("whole_source")).any().fill_null(False)
    )
    joined = gold.select("query_id", "gold", "modality").join(found, on=["query_id", "gold"], how="left")
    sums = (
        pl.len().alias("regions"),
        pl.col("covers").fill_null(False).sum().alias("covered"),
        (~pl.col("covers")).fill_null(False).sum().alias("whole_source_only"),
        pl.col("covers").is_null().sum().alias("without_atom"),
        pl.col("pairs").fill_null(0).sum().alias("pairs"),
    )
    parts = joined.group_by("modality").agg(sums).sort("modality")
    return pl.concat([parts, joined.select(pl.lit(None, pl.String).alias("modality"), *sums)], how="vertical_relaxed")
