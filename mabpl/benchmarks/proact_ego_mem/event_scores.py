"""What matches are worth: the outcome of each mention, the counts of each clip, and how they add up.

Reported per track and task, counts pooled over clips; macro: the mean of those cells' values. Intervals are those of
a bootstrap over clips, the cells drawn independently.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from mabpl.benchmarks.proact_ego_mem.event_matching import TIMELINE, Booleans, Events, Ranks
from mabpl.benchmarks.proact_ego_mem.event_options import EventOptions
from mabpl.metrics.ratios import Ratio, pooled, terms
from mabpl.stats import bootstrap
from mabpl.tables.proact_events import EVENT_CLIP_SCORES, EVENT_METRICS, EVENT_OUTCOMES, EVENT_PAIRS, EVENT_SCORES
from mabpl.timelines import MICROSECONDS, Integers

CELL = ("track", "task")
COUNTS = tuple(column.name for column in EVENT_CLIP_SCORES.columns[6:])
FALSE_POSITIVES = ("on_negatives", "duplicates", "wrong_objects", "out_of_time")
_JUDGED = tuple(name for name in EVENT_METRICS if name not in ("timing_f1", "silence_rate"))
OUTCOMES = ("hit", "on_negative", "duplicate", "wrong_object", "out_of_time")
_MINUTES = pl.col("duration_s") / 60

Codes = npt.NDArray[np.int8]


def outcomes(events: Events, rank: Ranks, accepted: Booleans) -> Codes:
    """What became of each mention: an index into ``OUTCOMES``."""
    _, mention = events.pairs()
    in_time, about_one = (np.zeros(len(rank), np.bool_) for _ in range(2))
    in_time[mention] = True
    about_one[mention[accepted]] = True
    negative = events.clips["declared_negative"].to_numpy()[events.clip][events.timeline_of_mention]
    found = np.select([rank >= 0, negative, about_one, in_time], [0, 1, 2, 3], 4)
    return found.astype(np.int8)


def outcome_table(
    events: Events, rank: Ranks | None, codes: Codes | None, known: Booleans, timing: Ranks
) -> pl.DataFrame:
    """The table `event_outcomes`. ``known``: the timelines that are scored."""
    frame = events.mentions.select(*TIMELINE, "mention").with_columns(timing_sample_id=_samples(events, timing))
    if rank is not None and codes is not None:
        shown = known[events.timeline_of_mention]
        late = pl.Series(_lateness(events, rank) / MICROSECONDS)
        frame = frame.with_columns(
            outcome=pl.Series(OUTCOMES).gather(codes.astype(np.int64)),
            sample_id=_samples(events, rank),
            lateness_s=late.set(pl.Series(rank < 0), None),
        ).with_columns(pl.when(pl.Series(shown)).then(pl.col(name)) for name in ("outcome", "sample_id", "lateness_s"))
    return EVENT_OUTCOMES.conform(frame).sort(EVENT_OUTCOMES.key)


def _samples(events: Events, rank: Ranks) -> pl.Series:
    """The sample that each mention matches; null where none."""
    rows = pl.Series(rank.astype(np.int64)).set(pl.Series(rank < 0), None)
    return events.segments["sample_id"].gather(pl.Series(events.segment).gather(rows))


def _lateness(events: Events, rank: Ranks) -> Integers:
    """Of each mention that matches, in microseconds; 0 of the others."""
    matched = rank >= 0
    late = np.zeros(len(rank), np.int64)
    late[matched] = np.maximum(events.time[matched] - events.start[rank[matched]], 0)
    return late


def pair_table(events: Events, requests: pl.Series | None, accepted: pl.Series | None) -> pl.DataFrame:
    """The table `event_pairs`."""
    row, mention = events.pairs()
    late = np.maximum(events.time[mention] - events.start[row], 0)
    frame = events.mentions.select(*TIMELINE, "mention")[mention].with_columns(
        sample_id=events.segments["sample_id"].gather(events.segment[row]),
        lateness_s=pl.Series(late / MICROSECONDS),
        request=pl.lit(None, pl.String) if requests is None else requests,
        accepted=pl.lit(None, pl.Boolean) if accepted is None else accepted,
    )
    return EVENT_PAIRS.conform(frame).sort(EVENT_PAIRS.key)


def clip_scores(
    events: Events, rank: Ranks | None, codes: Codes | None, known: Booleans, timing: Ranks
) -> pl.DataFrame:
    """The table `event_clip_scores`; ``known``: the timelines of which every pair has a verdict."""
    timeline, size = events.timeline_of_mention, len(events.clip)
    _, mention = events.pairs()
    in_time = np.zeros(len(timing), np.bool_)
    in_time[mention] = True

    def count(which: Booleans) -> Integers:
        return np.bincount(timeline[which], minlength=size)

    segments = np.diff(events.row)
    columns: dict[str, Any] = {
        "mentions": np.diff(events.first_mention),
        "segments": segments,
        "timing_hits": count(timing >= 0),
        "timing_duplicates": count((timing < 0) & in_time),
    }
    if rank is not None and codes is not None:
        hits = count(codes == 0)
        late = np.bincount(timeline, weights=_lateness(events, rank), minlength=size)
        judged = {
            "hits": hits,
            **{name: count(codes == 1 + i) for i, name in enumerate(FALSE_POSITIVES)},
            "misses": segments - hits,
            "lateness_s": late / MICROSECONDS,
        }
        unknown = pl.Series(~known)
        columns |= {name: pl.Series(values).set(unknown, None) for name, values in judged.items()}
    of_clip = events.clips.select("duration_s", "declared_negative")[events.clip]
    frame = events.timelines.hstack(of_clip).with_columns(pl.Series(n, values) for n, values in columns.items())
    return EVENT_CLIP_SCORES.conform(frame)


def ratios(options: EventOptions) -> list[Ratio]:
    """The metrics, over `event_clip_scores`."""
    strict = pl.col("on_negatives") + pl.col("wrong_objects") + pl.col("out_of_time")
    timing = pl.col("mentions") - pl.col("timing_hits")
    wrong = strict + pl.col("duplicates")
    if options.duplicates == "ignored":
        wrong, timing = strict, timing - pl.col("timing_duplicates")
    hits, segments = pl.col("hits"), pl.col("segments")
    negative = pl.col("declared_negative").cast(pl.Int64)
    return [
        Ratio("f1", 2 * hits, hits + wrong + segments),
        Ratio("precision", hits, hits + wrong, zero_if=segments),
        Ratio("recall", hits, segments),
        Ratio("timing_f1", 2 * pl.col("timing_hits"), pl.col("timing_hits") + timing + segments),
        Ratio("lenient_f1", 2 * hits, hits + strict + segments),
        Ratio("silence_rate", negative * (pl.col("mentions") == 0), negative),
        Ratio("false_alarms_per_minute", wrong, _MINUTES, scale=1.0),
        Ratio("mean_lateness_s", pl.col("lateness_s"), hits, scale=1.0),
    ]


def add_up(
    clips: pl.DataFrame,
    options: EventOptions,
    *,
    ci: float | None = 0.95,
    replicates: int = bootstrap.REPLICATES,
    judged: bool = True,
) -> pl.DataFrame:
    """The table `event_scores` of rows of `event_clip_scores`, percent unrounded.

    A row for each run, track and task; where there are several, macro rows: over the tasks of a track (task null), and
    over all (both null) for runs that were scored on all. ``judged``: whether a judge was asked, so that a clip without
    counts is one that lacks a verdict. ``ci``: level of the intervals; None: none.
    """
    counted = clips.with_columns(
        unscored_clips=pl.col("hits").is_null().cast(pl.Int64) if judged else pl.lit(0, pl.Int64),
        negatives=pl.col("declared_negative").cast(pl.Int64),
        silent_negatives=(pl.col("declared_negative") & (pl.col("mentions") == 0)).cast(pl.Int64),
        minutes=_MINUTES,
    )
    counts = ("unscored_clips", "negatives", "silent_negatives", "minutes", *COUNTS)
    wanted = ratios(options)
    live = [ratio for ratio in wanted if clips.select(ratio.above.is_not_null().any()).item()]
    cells = pooled(counted, ["run", *CELL], ["clip_uid"], counts, wanted).with_columns(cells=pl.lit(1, pl.Int64))
    drawn = {} if ci is None else _drawn(clips, live, replicates)
    names = [ratio.name for ratio in live]
    runs = cells["run"].unique(maintain_order=True).to_list()
    bounds = Bounds(ci, drawn, runs, names)
    parts = [bounds.of_cells(cells)]
    every = sorted(drawn) or sorted(cells.select(CELL).unique().iter_rows())
    tracks = sorted({track for track, _ in every})
    for track in tracks if len(tracks) > 1 else []:
        own = [cell for cell in every if cell[0] == track]
        if len(own) > 1:
            parts.append(_macro(cells.filter(track=track), ["run", "track"], own, counts, bounds))
    if len(every) > 1:
        parts.append(_macro(cells, ["run"], every, counts, bounds))
    return pl.concat([EVENT_SCORES.conform(part) for part in parts]).sort(EVENT_SCORES.key, nulls_last=True)


Drawn = Mapping[tuple[str, str], npt.NDArray[np.float64]]


def _drawn(clips: pl.DataFrame, wanted: Sequence[Ratio], replicates: int) -> Drawn:
    """Per cell the replicates: float64 (replicates, runs, metrics), NaN for runs that are not in it."""
    above, below = terms(clips, wanted)
    owner = _codes(clips["run"])
    runs = int(owner.max(initial=-1)) + 1
    found = {}
    parts = clips.select(*CELL, "clip_uid").with_row_index("row").partition_by(CELL, as_dict=True)
    for stratum, (cell, part) in enumerate(sorted(parts.items(), key=lambda item: str(item[0]))):
        rows, cluster = part["row"].to_numpy(), _codes(part["clip_uid"])
        size = (int(cluster.max()) + 1, runs)
        found[cell] = bootstrap.draws(above[rows], below[rows], cluster, owner[rows], size, replicates, stratum)
    return found


def _codes(names: pl.Series) -> Integers:
    """The place of each name among the sorted ones."""
    codes: Integers = names.rank("dense").to_numpy().astype(np.int64) - 1
    return codes


@dataclass(frozen=True, slots=True)
class Bounds:
    """The intervals of ``metrics``, from what was ``drawn`` in each cell for ``runs``."""

    level: float | None
    drawn: Drawn
    runs: list[str]
    metrics: list[str]

    def of_cells(self, cells: pl.DataFrame) -> pl.DataFrame:
        """``cells`` with the interval of each value."""
        if self.level is None:
            return cells
        groups = cells.group_by(CELL, maintain_order=True)
        return pl.concat([self._bounded(rows, self.drawn[cell]) for cell, rows in groups])

    def of_means(self, rows: pl.DataFrame, members: Sequence[tuple[str, str]]) -> pl.DataFrame:
        """``rows``, the means over ``members``, with the intervals."""
        if self.level is None or rows.is_empty():
            return rows
        known = sum((~np.isnan(self.drawn[cell])).astype(np.float64) for cell in members)
        total = sum(np.nan_to_num(self.drawn[cell]) for cell in members)
        return self._bounded(rows, bootstrap.divided(np.asarray(total), np.asarray(known)))

    def _bounded(self, rows: pl.DataFrame, values: bootstrap.Floats) -> pl.DataFrame:
        """`<metric>_low` and `<metric>_high`; null where the value is, or one clip alone could be drawn."""
        assert self.level is not None
        bounds = bootstrap.percentile_interval(values.reshape(len(values), -1), self.level)
        place = [self.runs.index(run) for run in rows["run"]]
        several = (rows["clips"] > 1).to_numpy()
        columns = []
        for end, bound in zip(("low", "high"), bounds, strict=True):
            of_runs = bound.reshape(values.shape[1:])[place]
            for j, name in enumerate(self.metrics):
                known = rows[name].is_not_null().to_numpy() & several
                columns.append(pl.Series(f"{name}_{end}", np.where(known, of_runs[:, j], np.nan), nan_to_null=True))
        return rows.hstack(columns)


def _macro(
    cells: pl.DataFrame, key: list[str], members: list[tuple[str, str]], counts: Sequence[str], bounds: Bounds
) -> pl.DataFrame:
    """The mean of the values of ``members`` for runs that have them all.

    A value that is undefined has no part in it; one that is unknown, for want of verdicts, leaves the mean unknown.
    """
    unknown = {name: (pl.col(name).is_null() & (pl.col("unscored_clips") > 0)).any() for name in _JUDGED}
    rows = (
        cells.group_by(key, maintain_order=True)
        .agg(
            pl.len().cast(pl.Int64).alias("cells"),
            pl.col("clips").sum(),
            *(pl.when(pl.col(name).count() > 0).then(pl.col(name).sum()).alias(name) for name in counts),
            *(
                pl.when(~unknown.get(name, pl.lit(False))).then(pl.col(name).mean()).alias(name)
                for name in EVENT_METRICS
            ),
        )
        .filter(pl.col("cells") == len(members))
    )
    rows = rows.with_columns(pl.lit(None, pl.String).alias(name) for name in CELL if name not in key)
    return bounds.of_means(rows, members)
