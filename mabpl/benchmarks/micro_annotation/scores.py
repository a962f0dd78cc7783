"""A result: tables that are made when they are first asked for."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from mabpl import timelines
from mabpl.errors import UsageError
from mabpl.metrics import summary
from mabpl.settings import Settings

Tabular = pl.DataFrame | Callable[[], pl.DataFrame]


@dataclass(frozen=True)
class Scores:
    """A result: its tables as polars frames, made when they are first asked for.

    ``partial``: not every clip of a set was scored. ``sources``: name and SHA-256 of the input files. ``judging``: the
    judges (kind, judge, route, judge seeds, request body) and prompts of the verdicts, where there are any.
    """

    tables: Mapping[str, Tabular] = field(repr=False)
    settings: Settings
    partial: bool = False
    sources: tuple[dict[str, Any], ...] = ()
    judging: Mapping[str, Any] | None = None
    _made: dict[str, pl.DataFrame] = field(default_factory=dict, repr=False, compare=False)

    def table(self, name: str) -> pl.DataFrame:
        """The table of that name (see data_schema/); raises :class:`UsageError` where the result has none."""
        if name not in self._made:
            if name not in (*self.tables, "set_scores"):
                raise UsageError(f"this result has no table {name!r}", f"it has: {', '.join(self.tables)}")
            source = self.tables.get(name, self._added_up)
            self._made[name] = source if isinstance(source, pl.DataFrame) else source()
        return self._made[name]

    def _added_up(self) -> pl.DataFrame:
        unit = ["run", "set"]
        clips = summary.Cells.of_clips(self.table("clip_scores"), unit)
        return summary.set_scores(summary.finish(summary.unit_sums(clips, unit)))

    @property
    def runs(self) -> pl.DataFrame:
        """`runs`: one row per prediction file and set."""
        return self.table("runs")

    @property
    def segments(self) -> pl.DataFrame:
        """`segments`: the human ones (run is null) and the predicted ones."""
        return self.table("segments")

    @property
    def pairs(self) -> pl.DataFrame:
        """`pairs`: every overlapping predicted and human segment."""
        return self.table("pairs")

    @property
    def matches(self) -> pl.DataFrame:
        """`matches`: the matched pairs of each metric."""
        return self.table("matches")

    @property
    def requests(self) -> pl.DataFrame:
        """`requests`: the distinct things that a judge was asked; `pairs` and `matches` name them."""
        return self.table("requests")

    @property
    def verdicts(self) -> pl.DataFrame:
        """`verdicts`: what the judge answered, a row per request and judge seed."""
        return self.table("verdicts")

    @property
    def unscored(self) -> pl.DataFrame:
        """run, set, clip_id, metric (pa_f1 or joint_f1): clips that lack a verdict, where a judge was asked."""
        scores = self.table("clip_scores")
        kinds = {"pa": ("pa_f1", "credit"), "joint": ("joint_f1", "j")}
        asked = (self.judging or {}).get("judges", {})
        parts = [
            scores.filter(pl.col(count).is_null()).select("run", "set", "clip_id", metric=pl.lit(metric))
            for kind, (metric, count) in kinds.items()
            if kind in asked
        ]
        empty = scores.select("run", "set", "clip_id", metric=pl.lit("")).clear()
        return pl.concat([empty, *parts]).sort("run", "set", "clip_id", "metric")

    @property
    def audit(self) -> pl.DataFrame:
        """How many matches hang on the edge of a tolerance, a threshold or a tie: see `mabpl.metrics.audit`."""
        return self.table("audit")

    @functools.cached_property
    def clips(self) -> pl.DataFrame:
        """`clip_scores` with the clips' own columns (duration_s, operator, ...) and the runs' configuration."""
        scores = self.table("clip_scores")
        runs = self.runs.select("run", "set", "configuration", "generation_seed", "model", "setting")
        clips = self.table("clips")
        clips = clips.drop([c for c in clips.columns if c in scores.columns and c not in timelines.CLIP_KEY])
        return scores.join(runs, on=["run", "set"], how="left", maintain_order="left").join(
            clips, on=list(timelines.CLIP_KEY), how="left", maintain_order="left"
        )

    @property
    def sets(self) -> pl.DataFrame:
        """`set_scores`: per run and set, and over all sets (set is null) for runs that were scored on each of them."""
        return self.table("set_scores")

    def summarise(self, by: Iterable[str] = (), **options: Any) -> pl.DataFrame:
        """:func:`mabpl.summarise` of this result's clips."""
        return summary.summarise(self.clips, tuple([by] if isinstance(by, str) else by), **options)

    def write_tables(self, folder: str | Path, *, pairs: bool = True) -> None:
        """Writes the tables as parquet into ``folder``, which :func:`mabpl.load_result` reads.

        An earlier result there is replaced; raises :class:`InputError` where the folder holds anything else.
        ``pairs=False`` leaves that table out, for it is the largest.
        """
        from mabpl.benchmarks.micro_annotation.results import write_result_folder

        write_result_folder(self, Path(folder), pairs=pairs)
