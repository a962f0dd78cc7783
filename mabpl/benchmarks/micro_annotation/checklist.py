"""What MicroAnnotationBench asks to be reported of a result, from the files of a bundle: see `submission`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any, Literal, NamedTuple

import polars as pl

import mabpl
from mabpl.benchmarks.micro_annotation import results
from mabpl.benchmarks.micro_annotation.dataset import Dataset
from mabpl.errors import MabplError, unreadable
from mabpl.metrics import summary
from mabpl.reading.names import RunName, plain_name
from mabpl.settings import Settings
from mabpl.tables.files import UNSAFE

Document = dict[str, Any]

SUBMISSION = "submission.json"
PAGE = "SUBMISSION.md"
ENDINGS = {
    "run": (".jsonl.run.json",),
    "predictions": (".jsonl", ".jsonl.gz"),
    "scores": (".scores.json",),
    "joint": (".joint.json",),
}
"""Kind of file → how its name ends in a bundle, after ``<run>.<set>``."""
JSONS = ("scores", "joint")
REPORTED = (
    "headline", "pa_f1", "strict_pa_f1", "precision", "recall", "boundary_f1", "temporal_f1", "seg_f1", "joint_f1",
    "segments_per_clip",
)  # fmt: skip
"""What is to be reported for each set and for their combination."""

_JUDGES = {"scores": "pa", "joint": "joint"}
_JUDGING = ("judge", "route", "judge_seeds", "body")
_PRODUCED = ("model", "route", "sampling", "prompt", "input", "parse_mode")


class Finding(NamedTuple):
    """``missing``: the bundle lacks it; ``inconsistent``: two of its files, or a file and its name, disagree."""

    kind: Literal["missing", "inconsistent", "warning"]
    file: str
    message: str


@dataclass
class Assembled:
    """``document``: `submission.json`. ``groups``: ``<run>.<set>`` → kind → file name."""

    document: Document = field(default_factory=dict)
    groups: dict[str, dict[str, str]] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def find(self, kind: Literal["missing", "inconsistent", "warning"], file: str, message: str) -> None:
        self.findings.append(Finding(kind, file, message))


class _Said(NamedTuple):
    """A file, and what it says of how it came to be."""

    file: str
    value: Any


def is_plain(name: str) -> bool:
    """Whether ``name`` names a file of a bundle and nothing elsewhere."""
    return (
        bool(name) and PurePath(name).name == name and name[0] != "." and "\\" not in name and not UNSAFE.search(name)
    )


def kind_of(document: Document) -> str:
    return "joint" if "seg_f1" in document["summary"] else "scores"


def prediction_sources(document: Document) -> list[Document]:
    """The prediction files that a score or joint JSON says it was made from."""
    listed = _object(document.get("provenance")).get("inputs")
    return [s for s in listed if isinstance(s, dict) and s.get("run")] if isinstance(listed, list) else []


def read_facts(path: Path) -> Document:
    """What a run.json says of its run; raises :class:`InputError`."""
    try:
        return dict(json.loads(path.read_bytes())["run"])
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        raise unreadable(path, "is not what `mabpl run` wrote beside its prediction file") from None


def assemble(folder: Path, dataset: Dataset, produced_by: str | None) -> Assembled:
    """The checklist of the files in ``folder``, with what they lack and where they disagree."""
    made = Assembled()
    names = [path.name for path in sorted(folder.iterdir()) if _is_part(path, made)]
    runs: dict[str, RunName] = {}
    for name in names:
        stem, kind, set_name = _split(name, dataset.sets)
        if kind in made.groups.get(stem, {}):
            made.find("inconsistent", name, f"is a second file of {kind} beside {made.groups[stem][kind]}")
        elif kind:
            made.groups.setdefault(stem, {})[kind] = name
            run = stem.removesuffix(f".{set_name}")
            runs[run] = plain_name(run, ())
        else:
            made.find("inconsistent", name, "is no file of a submission, or of no set of the dataset")
    made.groups = dict(sorted(made.groups.items()))
    configurations = sorted({run.configuration for run in runs.values()})
    if len(configurations) > 1:
        made.find("inconsistent", SUBMISSION, f"the files are of several configurations: {', '.join(configurations)}")
    _require_all(made, runs, dataset.sets, produced_by)
    clips = _clips(made, folder, dataset.sets, configurations)
    sets, combined = _numbers(made, clips, dataset.sets)
    made.document = {
        "mabpl": mabpl.__version__,
        "configuration": configurations[0] if configurations else None,
        "generation_seeds": sorted(run.seed for run in runs.values() if run.seed is not None),
        "runs": len(runs),
        "sets": sets,
        "combined": combined,
        **_judging(made, folder, dataset),
        "produced": _produced(made, folder, dataset),
        "produced_by": produced_by,
        "files": {name: _sha256(folder / name) for name in names},
    }
    told = [(finding.kind == "missing", f"{finding.file}: {finding.message}") for finding in made.findings]
    made.document["missing"] = [text for missing, text in told if missing]
    made.document["warnings"] = [text for missing, text in told if not missing]
    return made


def _is_part(path: Path, made: Assembled) -> bool:
    if path.name in (SUBMISSION, PAGE):
        return False
    if path.is_symlink() or not path.is_file() or not is_plain(path.name):
        made.find("inconsistent", path.name, "is no plain file")
        return False
    return True


def _split(name: str, sets: Iterable[str]) -> tuple[str, str, str]:
    """``<run>.<set>``, kind and set of a file; all empty for a file that is no part of a bundle."""
    for kind, endings in ENDINGS.items():
        for ending in endings:
            stem = name.removesuffix(ending)
            for set_name in sets:
                if stem != name and stem.endswith(f".{set_name}") and len(stem) > len(set_name) + 1:
                    return stem, kind, set_name
    return "", "", ""


def _require_all(made: Assembled, runs: Iterable[str], sets: Iterable[str], produced_by: str | None) -> None:
    """Every run has predictions, scores and joint on every set, and something tells how they were produced."""
    for stem in [f"{run}.{set_name}" for run in sorted(runs) for set_name in sets]:
        group = made.groups.get(stem, {})
        for kind in ("predictions", *JSONS):
            if kind not in group:
                made.find("missing", f"{stem}{ENDINGS[kind][0]}", "is not there")
        if "run" not in group and not (produced_by or "").strip():
            made.find("missing", f"{stem}{ENDINGS['run'][0]}", "is not there, and nothing else tells how it was made")
    if not runs:
        made.find("missing", SUBMISSION, "there is no prediction file")


# --- numbers ---


def _clips(made: Assembled, folder: Path, sets: Iterable[str], configurations: list[str]) -> pl.DataFrame | None:
    """`clip_scores` of every run and set: those of the score JSON with the counts of the joint JSON."""
    frames = []
    for stem, group in made.groups.items():
        tables = {}
        for kind in JSONS:
            try:
                tables[kind] = results.load_result(folder / group[kind]).table("clip_scores") if kind in group else None
            except MabplError as error:
                made.find("inconsistent", group[kind], error.message)
        scores, joint = tables.get("scores"), tables.get("joint")
        if scores is not None and joint is not None:
            scores = scores.drop("t", "j").join(joint.select("clip_id", "t", "j"), on="clip_id", how="left")
        clips = joint if scores is None else scores
        if clips is None or clips.is_empty():
            continue
        counted = clips["x"].null_count() + clips["y"].null_count() == 0
        if not counted or not clips.select(pl.all_horizontal(pl.selectors.float().is_finite().all())).item():
            made.find("inconsistent", stem, "its JSONs hold a clip without x and y, or a value that is no number")
        else:
            set_name = next(name for name in sets if stem.endswith(f".{name}"))
            run = stem.removesuffix(f".{set_name}")
            columns = {"run": run, "set": set_name, "configuration": configurations[0]}
            frames.append(clips.with_columns(pl.lit(value).alias(name) for name, value in columns.items()))
    return pl.concat(frames, how="diagonal") if frames else None


def _numbers(made: Assembled, clips: pl.DataFrame | None, sets: list[str]) -> tuple[Document, Document | None]:
    """Per set, and over all sets for the runs that have each: mean and SD over the runs."""
    if clips is None:
        return {}, None
    per_set = {name: _folded(clips.filter(set=name)) for name in sets if name in clips["set"]}
    whole = clips.filter(pl.col("set").n_unique().over("run") == len(sets))
    combined = _folded(whole, combine=True) if whole.height else None
    for name, values in (*per_set.items(), ("all sets", combined)):
        lacking = [metric for metric in REPORTED if values is None or values[metric]["mean"] is None]
        if lacking:
            made.find("missing", SUBMISSION, f"no value of {', '.join(lacking)} for {name}")
    return per_set, combined


def _folded(clips: pl.DataFrame, *, combine: bool = False) -> Document:
    """Mean and SD over the runs of ``clips``, of one set or to be combined; null where one of them has no value."""
    row = summary.summarise(clips, combine=combine, fold_seeds=True).row(0, named=True)
    metrics = {name: {"mean": row[name], "sd": row[f"{name}_sd"]} for name in (*REPORTED, "human_segments_per_clip")}
    return {"clips": row["clips"], "undefined_clips": row["undefined_clips"], "runs": row["runs"], **metrics}


# --- how they came to be ---


def _judging(made: Assembled, folder: Path, dataset: Dataset) -> Document:
    """The settings and judges of the score and joint JSONs: one of each, where all were scored alike."""
    judges: dict[str, list[_Said]] = {kind: [] for kind in _JUDGES.values()}
    settings = []
    for name, kind, document in _documents(made, folder):
        _remarks(made, name, kind, document)
        settings.append(_Said(name, document.get("settings")))
        provenance = _object(document.get("provenance"))
        judge = _object(provenance.get("judge"))
        if not judge:
            made.find("missing", name, "names no judge")
            continue
        if judge.get("route") == "embedded":
            made.find("warning", name, "was judged by the embedded judge: not comparable with published scores")
        prompts = _object(provenance.get("prompts"))
        for prompt, value in prompts.items():
            if _as_published(dataset, prompt, _object(value).get("sha256")) is False:
                made.find("warning", name, f"was judged with another prompt than the dataset's {prompt}")
        told = {key: judge.get(key) for key in _JUDGING}
        seeds = told["judge_seeds"]
        count = len(seeds) if isinstance(seeds, list) else 0
        judges[_JUDGES[kind]].append(_Said(name, {**told, "number_of_judge_seeds": count, "prompts": prompts}))
    return {
        "judges": {kind: _alike(made, said, f"{kind} judge") for kind, said in judges.items()},
        "settings": _alike(made, settings, "settings"),
    }


def _documents(made: Assembled, folder: Path) -> Iterator[tuple[str, str, Document]]:
    for group in made.groups.values():
        for kind in JSONS:
            if kind in group:
                try:
                    yield group[kind], kind, results.read_document(folder / group[kind])
                except MabplError as error:
                    made.find("inconsistent", group[kind], error.message)


def _remarks(made: Assembled, name: str, kind: str, document: Document) -> None:
    """What a score or joint JSON says that makes it another one than its name says, or less than a whole result."""
    if kind_of(document) != kind:
        made.find("inconsistent", name, f"is a {kind_of(document)} JSON")
    _same_name(made, name, document.get("set"), plain_name(str(document.get("run")), ()).seed)
    if document.get("partial"):
        made.find("warning", name, "is partial: not every clip of the set was scored")
    if document.get("unscored_clips"):
        made.find("warning", name, "clips that lack a verdict are left out of the judged metrics")
    settings = _object(document.get("settings"))
    for option, published in Settings().as_dict().items():
        if settings.get(option) != published:
            made.find("warning", name, f"{option} = {settings.get(option)}, as published it is {published}")


def _same_name(made: Assembled, name: str, set_name: Any, seed: Any) -> None:
    """The set and generation seed that a file states are those of its name."""
    stem, _, of_name = _split(name, {str(set_name)})
    if not stem:
        made.find("inconsistent", name, f"says that it is of set {set_name}")
        return
    named = plain_name(stem.removesuffix(f".{of_name}"), ()).seed
    if named != seed:
        made.find("inconsistent", name, f"says that its generation seed is {seed}, its name says {named}")


def _produced(made: Assembled, folder: Path, dataset: Dataset) -> list[Document]:
    """Model, route, prompt, input format and sampling of the run.json files: one, where all were run alike."""
    said = []
    for group in made.groups.values():
        if "run" not in group:
            continue
        name = group["run"]
        try:
            facts = read_facts(folder / name)
        except MabplError as error:
            made.find("inconsistent", name, error.message)
            continue
        _same_name(made, name, facts.get("set"), facts.get("generation_seed"))
        prompt = _object(facts.get("prompt"))
        told = {key: facts.get(key) for key in _PRODUCED}
        published = _as_published(dataset, prompt.get("file"), prompt.get("sha256"))
        said.append(_Said(name, {**told, "prompt_as_published": published}))
        for key in _PRODUCED:
            if told[key] is None:
                made.find("missing", name, f"does not state {key}")
    return _alike(made, said, "model, prompt, input format or sampling")


def _as_published(dataset: Dataset, prompt: Any, sha256: Any) -> bool | None:
    """Whether a prompt is the dataset's, to the byte; None where the dataset has none of that name."""
    if not isinstance(prompt, str) or not is_plain(prompt):
        return None
    path = dataset.root / "prompts" / prompt
    return sha256 == _sha256(path) if path.is_file() else None


def _alike(made: Assembled, said: Iterable[_Said], what: str) -> list[Any]:
    """The different values, in order of the files; each file that has another one than the first is told of."""
    first: _Said | None = None
    values: list[Any] = []
    for one in said:
        first = first or one
        if one.value not in values:
            values.append(one.value)
        if one.value != first.value:
            made.find("inconsistent", one.file, f"another {what} than {first.file}")
    return values


def _object(value: Any) -> Document:
    return value if isinstance(value, dict) else {}


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
