"""The interval join: every predicted and human segment of a clip that overlap in time.

A hash join on the clip with the overlap as a residual, in DuckDB. Touching is not overlap. Boundary matches are not a
subset of these pairs: short segments can match without overlapping.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from mabpl.tables import schemas
from mabpl.tables.schemas import FRAME_RATE
from mabpl.timelines import MICROSECONDS, Integers, Side, Timelines, in_units

if TYPE_CHECKING:
    import duckdb

_JOIN = """
select (p.number << {bits}) | h.number as pair
from predicted p join human h on p.clip = h.clip and p.start < h."end" and h.start < p."end"
"""


def pairs(timelines: Timelines) -> pl.DataFrame:
    """The `pairs` table of all runs."""
    human, predicted = timelines.human, timelines.predicted
    h, p = _overlapping(timelines)

    def ends(per_second: float) -> Iterator[Integers]:
        for side, rows in ((human, h), (predicted, p)):
            for seconds in (side.start_s, side.end_s):
                yield in_units(seconds, per_second)[rows]

    h_start, h_end, p_start, p_end = ends(MICROSECONDS)
    overlap = np.minimum(h_end, p_end) - np.maximum(h_start, p_start)
    union = (h_end - h_start) + (p_end - p_start) - overlap
    h_start, h_end, p_start, p_end = ends(FRAME_RATE)
    rows = predicted.key[predicted.timeline_of(p)].with_columns(
        pl.Series("predicted", predicted.position[p]),
        pl.Series("human", human.position[h]),
        pl.Series("overlap_us", overlap),
        pl.Series("iou", overlap / union),
        pl.Series("start_error_ticks", p_start - h_start),
        pl.Series("end_error_ticks", p_end - h_end),
        pl.Series("covered_ticks", np.maximum(np.minimum(p_end, h_end) - np.maximum(p_start, h_start), 0)),
    )
    return schemas.PAIRS.conform(rows)


def _overlapping(timelines: Timelines) -> tuple[Integers, Integers]:
    """Human and predicted rows of each overlapping pair, by timeline and the two positions in the file."""
    human, predicted = _in_file_order(timelines.human), _in_file_order(timelines.predicted)
    clips = {"human": np.arange(len(timelines.human.offset) - 1), "predicted": timelines.clip}
    with connection().cursor() as cursor:
        for name, side, rows in (("human", timelines.human, human), ("predicted", timelines.predicted, predicted)):
            table = {
                "number": np.arange(len(rows)),
                "clip": clips[name][side.timeline_of(rows)],
                "start": in_units(side.start_s[rows], MICROSECONDS),
                "end": in_units(side.end_s[rows], MICROSECONDS),
            }
            cursor.register(name, table)
        bits = len(human).bit_length()
        found = cursor.sql(_JOIN.format(bits=bits)).fetchnumpy()["pair"]
    ordered = np.sort(found, kind="stable")  # it consists of a few ascending runs: a merge is all there is to do
    return human[ordered & ((1 << bits) - 1)], predicted[ordered >> bits]


def _in_file_order(side: Side) -> Integers:
    """The rows that are scored, by timeline and position in the file."""
    rows = np.flatnonzero(side.scored)
    timeline, position = side.timeline_of(rows), side.position[rows]
    if np.all((timeline[1:] != timeline[:-1]) | (position[1:] > position[:-1])):
        return rows
    return rows[np.lexsort((position, timeline))]


@functools.cache
def connection() -> duckdb.DuckDBPyConnection:
    """One database in memory for all joins of the process; to open one takes as long as a small join. Take a cursor."""
    import duckdb

    return duckdb.connect()
