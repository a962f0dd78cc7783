"""Recomputes a result from its inputs, with its own settings, and lists what differs. Needs no network."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

import mabpl
from mabpl.benchmarks.micro_annotation import inputs, judging, naming, results, scoring
from mabpl.benchmarks.micro_annotation.differences import NOTHING, Difference, in_tables, in_values
from mabpl.benchmarks.micro_annotation.results import Document
from mabpl.benchmarks.micro_annotation.scores import Scores
from mabpl.errors import UsageError, unreadable
from mabpl.reading import problems
from mabpl.reading.lines import Lines
from mabpl.settings import Settings
from mabpl.tables import folder as folders
from mabpl.tables.schemas import SCHEMA_VERSION

_FROM_A_MAP_FILE = ("model", "setting")
_LONGEST = 100


@dataclass(frozen=True, slots=True)
class Verification:
    """What differs (nothing: the result holds), how many runs were recomputed, and remarks that are no difference."""

    differences: tuple[Difference, ...]
    runs: int
    notes: tuple[str, ...] = ()

    @property
    def identical(self) -> bool:
        return not self.differences

    @property
    def table(self) -> pl.DataFrame:
        """The differences as text: where, recorded, recomputed."""
        rows = [(d.where, _shown(d.recorded), _shown(d.recomputed)) for d in self.differences]
        return pl.DataFrame(rows, schema=dict.fromkeys(Difference._fields, pl.String), orient="row")


def _shown(value: Any) -> str:
    text = "null" if value is None else str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def verify(
    path: Path, *, predictions: Sequence[str] = (), root: str | None = None, labels: str | None = None
) -> Verification:
    """Verifies a score or joint JSON, or every run of a result folder.

    Prediction files are found by their recorded names: among ``predictions`` (files, folders, globs), else beside the
    result and in the dataset folder, which is ``root``, or this folder, or one above the result. ``labels``: a labels
    file instead. Raises :class:`MabplError` where one of them is not found.
    """
    recorded = results.read_folder_manifest(path) if path.is_dir() else results.read_document(path)
    sources = _sources(recorded, path)
    settings, differences = _settings(recorded)
    differences += _seal(recorded)
    notes = _notes(recorded)
    if settings is None:
        return Verification(tuple(differences), 0, notes)
    root = None if labels else root or _root_of(path)
    files = _find_predictions(path, sources, predictions, root)
    sets = {source["set"] for source in sources}
    request = inputs.Request(root, labels, sets.pop() if len(sets) == 1 else None, files)
    gathered = inputs.gather(request, settings)
    if recorded.get("partial") is True:
        clips = _scored_clips(path, recorded) & set[str]().union(*gathered.labels.sets.values())
        if clips:
            gathered = inputs.gather(dataclasses.replace(request, clips=sorted(clips)), settings)
    differences += _changed_files(sources, gathered)
    errors = problems.errors_of(gathered.problems)
    if not errors.is_empty():
        first = problems.describe(errors.row(0, named=True))
        differences.append(Difference("inputs", "valid", f"{errors.height} errors; the first: {first}"))
        return Verification(tuple(differences), 0, notes)
    scores = scoring.score_files(gathered.labels, gathered.ready(settings), settings=settings)
    scores = _with_own_verdicts(path, recorded, scores)
    if path.is_dir():
        differences += _in_folder(path, recorded, scores)
    else:
        differences += _in_document(recorded, scores, renamed=bool(predictions))
    return Verification(tuple(differences), scores.runs.height, notes)


def _with_own_verdicts(path: Path, recorded: Document, scores: Scores) -> Scores:
    """``scores`` joined with the verdicts that the result carries: no judge is asked."""
    try:
        if path.is_dir():
            result = results.load_result(path)
            return judging.rejoin(scores, result) if result.judging else scores
        return judging.rejoin_document(scores, recorded)
    except (pl.exceptions.PolarsError, LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise unreadable(path, f"its verdicts cannot be read ({error})", "score it again") from None


# --- what the result says of itself ---


def _provenance(recorded: Document) -> dict[str, Any]:
    """Where version, inputs and digest stand: in a result folder's manifest at the top."""
    own = recorded if "schema_version" in recorded else recorded.get("provenance")
    return own if isinstance(own, dict) else {}


def _sources(recorded: Document, path: Path) -> list[dict[str, Any]]:
    """The recorded input files; those with a run hold predictions."""
    listed = _provenance(recorded).get("inputs")
    sources = [s for s in listed if isinstance(s, dict)] if isinstance(listed, list) else []
    complete = all(isinstance(s.get(name), str) for s in sources for name in ("file", "sha256", "set"))
    if not complete or not any(s.get("run") is not None for s in sources):
        raise unreadable(
            path, "does not record the files that it was made from", "results of `mabpl score` and `mabpl joint` do"
        )
    return sources


def _settings(recorded: Document) -> tuple[Settings | None, list[Difference]]:
    """The recorded settings, and those that are unknown, missing or impossible (then no settings)."""
    given = recorded.get("settings")
    if not isinstance(given, dict):
        return None, [Difference("settings", given, NOTHING)]
    try:
        settings = Settings(**{name: value for name, value in given.items() if name in Settings.names()})
    except UsageError as error:
        return None, [Difference("settings", given, str(error))]
    return settings, list(in_values(given, settings.as_dict(), "settings"))


def _seal(recorded: Document) -> Iterator[Difference]:
    """Whether anything was edited, of no matter what effect."""
    own = _provenance(recorded)
    if "digest" in own and own["digest"] != (now := results.digest(recorded)):
        yield Difference("digest of the document", own["digest"], now)


def _notes(recorded: Document) -> tuple[str, ...]:
    own = _provenance(recorded)
    notes = []
    if own.get("mabpl") != mabpl.__version__:
        notes.append(f"made by mabpl {own.get('mabpl')}, recomputed by {mabpl.__version__}")
    if "digest" not in own:
        notes.append("it carries no digest: an edit that changes no score cannot be seen")
    return tuple(notes)


def _scored_clips(path: Path, recorded: Document) -> set[str]:
    if path.is_dir():
        return set(folders.read_table(path, "clip_scores")["clip_id"])
    return set(recorded["per_clip"]) if isinstance(recorded.get("per_clip"), dict) else set()


# --- the files ---


def _root_of(path: Path) -> str:
    """This folder or the nearest one above the result that is a dataset folder."""
    for folder in (Path(), *path.resolve().parents):
        if any(folder.glob("data/*/labels.jsonl*")):
            return str(folder)
    raise UsageError(f"{path}: its labels are not found", "give --root FOLDER (the dataset), or --labels FILE")


def _find_predictions(
    path: Path, sources: list[dict[str, Any]], predictions: Sequence[str], root: str | None
) -> list[str]:
    """For each recorded prediction file the one of its name: with its bytes, else in its set's folder, else the first.

    One file that is given for one that was recorded is taken whatever its name.
    """
    wanted = [source for source in sources if source.get("run") is not None]
    if len(wanted) == len(predictions) == 1 and Path(predictions[0]).is_file():
        return list(predictions)
    places = [path if path.is_dir() else path.parent, *(Path(root, "predictions", s["set"]) for s in wanted if root)]
    given = naming.expand_predictions(predictions) if predictions else map(str, places)
    chosen = []
    for source in wanted:
        name = Path(source["file"]).name
        named = [Path(file) for file in given] if predictions else [place / name for place in places]
        named = [file for file in dict.fromkeys(named) if file.name == name and file.is_file()]
        if not named:
            where = "among those given" if predictions else "beside the result or in the dataset"
            raise unreadable(source["file"], f"the prediction file is not {where}", "give it with --predictions FILE")
        rank = {file: (_sha256(file) != source["sha256"], file.parent.name != source["set"]) for file in named}
        chosen.append(str(min(named, key=rank.__getitem__)))
    return chosen


def _sha256(file: Path) -> str:
    lines = Lines(file)
    for _ in lines:
        pass
    return lines.sha256


def _changed_files(sources: list[dict[str, Any]], gathered: inputs.Inputs) -> Iterator[Difference]:
    """Input files whose bytes are not the recorded ones. One prediction file is that file whatever its name."""
    single = len(gathered.predictions.sources) == 1
    now = {
        (s.set, s.run is not None if single else s.run): s.sha256
        for s in (*gathered.labels.sources, *gathered.predictions.sources)
    }
    for source in sources:
        run = source.get("run")
        sha256 = now.get((source["set"], run is not None if single else run), NOTHING)
        if sha256 != source["sha256"]:
            yield Difference(f"sha256 of {source['file']} ({source['set']})", source["sha256"], sha256)


# --- what was recomputed ---


def _in_document(recorded: Document, scores: Scores, *, renamed: bool) -> Iterator[Difference]:
    run, set_name = scores.runs.select("run", "set").row(0)
    make = results.joint_document if "seg_f1" in recorded["summary"] else results.score_document
    recomputed = make(scores, run, set_name)
    own = recorded["provenance"]
    told_apart = {name: own[name] for name in ("mabpl", "inputs", "digest") if name in own}
    recomputed["settings"] = recorded["settings"]
    recomputed["provenance"] = {**recomputed["provenance"], **told_apart}
    if renamed:
        recomputed["run"] = recorded.get("run")
    yield from in_values(recorded, recomputed)


def _in_folder(path: Path, recorded: Document, scores: Scores) -> Iterator[Difference]:
    yield from in_values(recorded["schema_version"], SCHEMA_VERSION, "schema_version")
    yield from in_values(recorded.get("partial"), scores.partial, "partial")
    listed = recorded.get("tables")
    tables = [name for name in listed if isinstance(name, str)] if isinstance(listed, list) else []
    expected = {*results.TABLES, *(results.VERDICT_TABLES if scores.judging else ())}
    for name in sorted({*tables, *expected} - {"pairs"} | ({"pairs"} & set(tables))):
        if name not in expected or name not in tables:
            known = name in expected
            yield Difference(f"table {name}", NOTHING if known else "is there", "is there" if known else NOTHING)
            continue
        made = scores.table(name)
        held = folders.read_table(path, name)
        if name == "runs":
            made, held = made.drop(_FROM_A_MAP_FILE), held.drop(_FROM_A_MAP_FILE, strict=False)
        yield from in_tables(name, held, made)
