"""From what a user names (a dataset folder or files, sets, clips) to labels and predictions that can be scored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from mabpl.benchmarks.micro_annotation import checks, dataset, naming
from mabpl.benchmarks.micro_annotation.reading import Labels, Predictions, read_labels, read_predictions
from mabpl.errors import MabplError, UsageError
from mabpl.reading import problems
from mabpl.settings import Settings


@dataclass(frozen=True, slots=True)
class Request:
    """What to score: ``root`` (a dataset folder) or ``labels`` (a file), and which of it."""

    root: str | None = None
    labels: str | None = None
    set_name: str | None = None
    predictions: Sequence[str] = ()
    limit: int | None = None
    clips: Sequence[str] | None = None
    map_file: str | None = None


@dataclass(frozen=True, slots=True)
class Inputs:
    """``clips``: the chosen clips of a trial, or None. ``problems``: of labels and predictions, warnings too."""

    labels: Labels
    predictions: Predictions
    clips: frozenset[str] | None
    problems: pl.DataFrame

    def ready(self, settings: Settings) -> Predictions:
        """The predictions to score; raises :class:`InvalidTimelines` where a file has errors."""
        problems.require_valid(self.problems)
        return checks.apply_missing(self.predictions, self.labels, settings.missing, clips=self.clips)

    def lacks_clips(self, settings: Settings) -> bool:
        """Whether clips that should be there were left out."""
        return settings.missing == "skip" and not self.problems.filter(rule="missing-clip").is_empty()


def gather(request: Request, settings: Settings) -> Inputs:
    """Reads and checks everything that ``request`` names."""
    labels, set_name = read_labels_of(request)
    files = list(request.predictions) or _all_predictions(request)
    clips = dataset.select_clips(labels, limit=request.limit, clips=request.clips)
    predictions = read_predictions(files, labels, set_name=set_name, map_file=request.map_file)
    if request.root is not None or request.labels is None:
        labels = _only(labels, predictions)
    faults = problems.merge_problems(
        checks.check_labels(labels),
        checks.check_predictions(predictions, labels, clips=clips, missing=settings.missing),
    )
    return Inputs(labels, predictions, clips, faults)


def read_labels_of(request: Request) -> tuple[Labels, str | None]:
    """The labels that ``request`` names, and its set by its full name."""
    if request.labels is not None:
        if request.root is not None:
            raise UsageError("--root and --labels name two sources of labels", "give one of them")
        return read_labels(request.labels, set_name=request.set_name), request.set_name
    root = request.root or "."
    try:
        folder = dataset.open_benchmark(root)
    except MabplError as error:
        if request.root is not None:
            raise
        raise UsageError(
            "no labels are named, and this folder is no dataset folder",
            "go into the dataset folder, or give --root FOLDER, or --labels FILE",
        ) from error
    set_name = naming.resolve_set(request.set_name, folder.sets) if request.set_name else None
    return folder.labels(set_name), set_name


def _all_predictions(request: Request) -> list[str]:
    if request.labels is not None:
        raise UsageError("no prediction file is named", "give --predictions FILE, a folder or a glob")
    folder = dataset.open_benchmark(request.root or ".")
    files = folder.predictions(request.set_name)
    if not files:
        raise UsageError(f"{Path(folder.root) / 'predictions'}: no prediction file is there", "give --predictions FILE")
    return files


def _only(labels: Labels, predictions: Predictions) -> Labels:
    """The labels of the sets that the predictions are of: the others are not in question."""
    sets = {source.set for source in predictions.sources}
    if sets == {source.set for source in labels.sources}:
        return labels
    files = [source.file for source in labels.sources if source.set in sets]
    keep = pl.col("set").is_in(list(sets))
    return Labels(
        clips=labels.clips.filter(keep),
        segments=labels.segments.filter(keep),
        timelines=labels.timelines.filter(keep),
        problems=labels.problems.filter(pl.col("file").is_in(files)),
        sources=tuple(source for source in labels.sources if source.set in sets),
    )
