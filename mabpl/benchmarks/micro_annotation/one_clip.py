"""One clip of one run, to look at closely."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from mabpl.benchmarks.micro_annotation import checks, inputs
from mabpl.benchmarks.micro_annotation.scores import Scores
from mabpl.benchmarks.micro_annotation.scoring import score_files
from mabpl.errors import UsageError, unknown_name
from mabpl.reading import problems
from mabpl.settings import Settings


@dataclass(frozen=True, slots=True)
class OneClip:
    """``clip``: its row of `clips`. ``scores``: of this clip alone."""

    run: str
    clip: dict[str, Any]
    scores: Scores


def find(request: inputs.Request, settings: Settings, clip: str, run: str | None) -> OneClip:
    """The clip whose id is, or begins with, ``clip``, in ``run`` (or the only run there is).

    Faults of other clips do not matter here; a fault of this one raises :class:`InvalidTimelines`.
    """
    gathered = inputs.gather(request, settings)
    clip_id = _clip_id(clip, gathered.labels.timelines["clip_id"].sort().to_list(), gathered)
    of_clip = gathered.problems.filter((pl.col("clip_id") == clip_id) | pl.col("clip_id").is_null())
    set_name = gathered.labels.timelines.filter(clip_id=clip_id)["set"].first()
    runs = gathered.predictions.runs.filter(set=set_name)["run"].unique().sort().to_list()
    name = _run(run, runs)
    file = next(s.file for s in gathered.predictions.sources if (s.run, s.set) == (name, set_name))
    others = [s.file for s in gathered.predictions.sources if s.file != file]
    problems.require_valid(of_clip.filter(~pl.col("file").is_in(others)))
    chosen = checks.apply_missing(gathered.predictions, gathered.labels, settings.missing, clips=[clip_id])
    only = replace(
        chosen,
        runs=chosen.runs.filter(run=name, set=set_name),
        segments=chosen.segments.filter(run=name, set=set_name),
        timelines=chosen.timelines.filter(run=name, set=set_name),
    )
    labels = replace(
        gathered.labels,
        clips=gathered.labels.clips.filter(clip_id=clip_id),
        segments=gathered.labels.segments.filter(clip_id=clip_id),
    )
    row = labels.clips.filter(set=set_name).row(0, named=True)
    return OneClip(name, row, score_files(labels, only, settings=settings))


def _clip_id(given: str, known: list[str], gathered: inputs.Inputs) -> str:
    if given in known:
        return given
    faulty = gathered.labels.problems.filter(clip_id=given)
    if not faulty.is_empty():
        problems.require_valid(faulty)
    begins = [name for name in known if name.startswith(given)]
    if len(begins) == 1:
        return begins[0]
    if begins:
        shown = ", ".join(begins[:10])
        raise UsageError(f"{len(begins)} clips begin with {given!r}", f"{shown}{', ...' * (len(begins) > 10)}")
    raise unknown_name("clip", given, known)


def _run(given: str | None, known: list[str]) -> str:
    if given is not None:
        if given not in known:
            raise unknown_name("run", given, known)
        return given
    if len(known) == 1:
        return known[0]
    raise UsageError(
        f"{len(known)} runs have this clip; which one?",
        f"--run NAME or --predictions FILE; runs: {', '.join(known[:20])}",
    )
