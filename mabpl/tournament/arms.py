"""The arms of a tournament: names, and the prediction file of each, all of one set."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import polars as pl

from mabpl.benchmarks.micro_annotation import checks, dataset, inputs
from mabpl.benchmarks.micro_annotation.inputs import Inputs, Request
from mabpl.benchmarks.micro_annotation.reading import Predictions, read_predictions
from mabpl.errors import UsageError
from mabpl.reading.names import STDIN, file_stem
from mabpl.reading.problems import merge_problems
from mabpl.settings import Settings
from mabpl.tables.files import UNSAFE
from mabpl.tables.schemas import RUNS, SEGMENTS

_KEY = ["run", "set", "clip_id"]


def parse_arms(given: Iterable[str]) -> dict[str, str]:
    """``["name=file", ...]`` as a mapping; raises :class:`UsageError` where one is not of this form, or named twice."""
    arms: dict[str, str] = {}
    for text in given:
        name, equals, file = text.partition("=")
        name = name.strip()
        if not equals or not name or not file:
            stem = file_stem(file or text) or "mine"
            raise UsageError(f"arm {text!r} is not name=file", f"expected something like {stem}={file or text or 'f'}")
        if name in arms:
            raise UsageError(f"two arms are called {name!r}: {arms[name]} and {file}", "give each a name of its own")
        arms[name] = file
    return arms


def gather_arms(request: Request, arms: Mapping[str, str | os.PathLike[str]], settings: Settings) -> Inputs:
    """Reads and checks the labels that ``request`` names and the file of each arm: a run is an arm, by its name.

    The labels are those of the one set that all arms are of. Raises :class:`UsageError` for fewer than two arms, names
    that cannot be, a file that is several, and arms of different sets.
    """
    check_arms(arms)
    labels, set_name = inputs.read_labels_of(request)
    read = {name: read_predictions([os.fspath(file)], labels, set_name=set_name) for name, file in arms.items()}
    found = {name: [source.set for source in of.sources] for name, of in read.items()}
    for name, sets in found.items():
        if len(sets) != 1:
            raise UsageError(f"arm {name!r} is {len(sets)} files ({arms[name]})", "give one prediction file an arm")
    by_set = {of: name for name, (of,) in found.items()}
    if len(by_set) > 1:
        said = ", ".join(f"{name!r} is of {of}" for of, name in sorted(by_set.items()))
        raise UsageError(f"the arms are of different sets: {said}", "compare files of one set; --set names it")
    if set_name is None and request.labels is None:
        labels = inputs.read_labels_of(replace(request, set_name=next(iter(by_set))))[0]
    clips = dataset.select_clips(labels, limit=request.limit, clips=request.clips)
    predictions = _together({name: _named(name, of) for name, of in sorted(read.items())})
    faults = merge_problems(
        checks.check_labels(labels),
        checks.check_predictions(predictions, labels, clips=clips, missing=settings.missing),
    )
    return Inputs(labels, predictions, clips, faults)


def check_arms(arms: Mapping[str, str | os.PathLike[str]]) -> None:
    """Raises :class:`UsageError` for fewer than two arms, and for names that cannot be."""
    if len(arms) < 2:
        raise UsageError(f"a tournament needs two arms, {len(arms)} given", "--arms mine=FILE other=FILE ...")
    for name in arms:
        if not name or name != name.strip() or "," in name or UNSAFE.search(name):
            raise UsageError(
                f"an arm cannot be called {name!r}", "expected a name without commas, invisible or outer blank signs"
            )
    standard = [name for name, file in arms.items() if os.fspath(file) == STDIN]
    if len(standard) > 1:
        raise UsageError(f"{' and '.join(standard)} are both standard input", "give a file for all but one")


def _named(name: str, read: Predictions) -> Predictions:
    """``read``, of one file, as the run ``name``."""
    run = pl.lit(name).alias("run")
    runs = read.runs.with_columns(run, run.alias("configuration"), generation_seed=pl.lit(None, pl.Int64))
    return replace(
        read,
        runs=RUNS.conform(runs),
        segments=SEGMENTS.conform(read.segments.with_columns(run)),
        timelines=read.timelines.with_columns(run),
        sources=tuple(source._replace(run=name) for source in read.sources),
    )


def _together(read: Mapping[str, Predictions]) -> Predictions:
    each = list(read.values())
    return Predictions(
        runs=pl.concat([one.runs for one in each]).sort("run", "set"),
        segments=pl.concat([one.segments for one in each]).sort(*_KEY, "segment"),
        timelines=pl.concat([one.timelines for one in each]).sort(_KEY),
        problems=merge_problems(*(one.problems for one in each)),
        sources=tuple(source for one in each for source in one.sources),
    )


def absent_clips(gathered: Inputs, settings: Settings) -> dict[str, list[str]]:
    """Arm → the clips of the tournament that it is left out of (``missing = skip``), where there are any."""
    if settings.missing != "skip":
        return {}
    wanted = gathered.labels.clips["clip_id"].sort().to_list()
    if gathered.clips is not None:
        wanted = [clip for clip in wanted if clip in gathered.clips]
    have: dict[str, set[str]] = {run: set() for run in gathered.predictions.runs["run"]}
    for run, clip in gathered.predictions.timelines.select("run", "clip_id").iter_rows():
        have[run].add(clip)
    lacking = {run: [clip for clip in wanted if clip not in clips] for run, clips in have.items()}
    return {run: clips for run, clips in lacking.items() if clips}


def default_folder(root: str | None, set_name: str) -> Path:
    """``<root>/tournament/<set>``; the set's name is data, never a path."""
    name = set_name.replace("/", "_").lstrip(".")
    return Path(root or ".") / "tournament" / name
