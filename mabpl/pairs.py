"""The interval join: every predicted and human segment of a clip that overlap in time.

A hash join on the clip with the overlap as a residual, in DuckDB. Touching is not overlap. Boundary matches are not a
subset of these pairs: short segments can match without overlapping.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from mabpl.tables import schemas
from mabpl.tables.schemas import FRAME_RATE
from mabpl.timelines import MICROSECONDS, Timelines, in_units

_JOIN = """
select p.timeline, p.position as predicted, h.position as human,
  least(p."end", h."end") - greatest(p.start, h.start) as overlap_us,
  overlap_us / ((p."end" - p.start) + (h."end" - h.start) - overlap_us) as iou,
  p.start_tick - h.start_tick as start_error_ticks,
  p.end_tick - h.end_tick as end_error_ticks,
  greatest(least(p.end_tick, h.end_tick) - greatest(p.start_tick, h.start_tick), 0) as covered_ticks
from predicted p join human h on p.clip = h.clip and p.start < h."end" and h.start < p."end"
order by p.timeline, predicted, human
"""


def pairs(timelines: Timelines) -> pl.DataFrame:
    """The `pairs` table of all runs."""
    import duckdb

    sides = {}
    for name, side in (("human", timelines.human), ("predicted", timelines.predicted)):
        timeline = side.timeline_of()
        sides[name] = pl.DataFrame(
            {
                "timeline": timeline,
                "clip": timeline if name == "human" else timelines.clip[timeline],
                "position": side.position,
                "start": in_units(side.start_s, MICROSECONDS),
                "end": in_units(side.end_s, MICROSECONDS),
                "start_tick": in_units(side.start_s, FRAME_RATE),
                "end_tick": in_units(side.end_s, FRAME_RATE),
            }
        ).to_arrow()
    with duckdb.connect() as connection:
        for name, table in sides.items():
            connection.register(name, table)
        joined = connection.sql(_JOIN).pl()
    key = timelines.predicted.key[joined["timeline"].to_numpy().astype(np.int64)]
    return schemas.PAIRS.conform(pl.concat([key, joined.drop("timeline")], how="horizontal"))
