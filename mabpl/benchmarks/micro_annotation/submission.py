"""The bundle that MicroAnnotationBench asks for with a result: made by who reports, checked by who maintains.

A folder of plain files: ``<run>.<set>.jsonl`` (predictions), ``.scores.json``, ``.joint.json`` and ``.jsonl.run.json``
of every set and generation seed, `submission.json` (the checklist) and `SUBMISSION.md` (the same to read). All of the
checklist but ``produced_by`` is made of the other files, so that a check makes it again and compares.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from mabpl.benchmarks.micro_annotation import checklist, naming, results
from mabpl.benchmarks.micro_annotation.checklist import ENDINGS, JSONS, PAGE, SUBMISSION, Assembled, Document, Finding
from mabpl.benchmarks.micro_annotation.dataset import Dataset, open_benchmark
from mabpl.benchmarks.micro_annotation.differences import in_values
from mabpl.benchmarks.micro_annotation.reading import read_predictions
from mabpl.benchmarks.micro_annotation.verify import verify
from mabpl.errors import MabplError, UsageError, unreadable
from mabpl.reading import names, problems
from mabpl.tables import files
from mabpl.tables.folder import put_in_place

Page = Callable[[Document], str]
"""Renders the checklist as Markdown."""

_OF_THE_MAKER = ("mabpl", "produced_by")
_REMARKS = ("missing", "warnings")
_TOLD_APART = (*_OF_THE_MAKER, *_REMARKS, "files")


@dataclass(frozen=True, slots=True)
class Sources:
    """What a bundle is made of. Score, joint and run JSONs that are not named are looked for beside the predictions."""

    predictions: Sequence[str]
    scores: Sequence[str] = ()
    joint: Sequence[str] = ()
    run_json: Sequence[str] = ()
    produced_by: str | None = None


class _Predicted(NamedTuple):
    """A prediction file. ``stem``: ``<run>.<set>``, how its files are called in the bundle."""

    file: Path
    sha256: str
    set: str
    name: names.RunName

    @property
    def stem(self) -> str:
        return f"{self.name.run}.{self.set}"


def make(out: Path, sources: Sources, *, root: str, page: Page) -> Assembled:
    """Writes the bundle ``out``, whole or not at all, and gives its checklist with what is missing or doubtful.

    Raises :class:`UsageError` where ``out`` holds something, a JSON is of none of the predictions, the predictions are
    not of one configuration, or nothing tells how a timeline was produced; :class:`InvalidTimelines` for predictions
    with errors.
    """
    if out.is_file() or (out.is_dir() and any(out.iterdir())):
        raise UsageError(f"{out}: is there already", "give a new folder")
    dataset = open_benchmark(root)
    named = _named(sources, dataset)
    try:
        out.absolute().parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.absolute().parent) as temporary:
            new = Path(temporary) / "new"
            new.mkdir()
            for name, source in named.items():
                shutil.copyfile(source, new / name)
            assembled = checklist.assemble(new, dataset, sources.produced_by)
            files.write_json(new / SUBMISSION, assembled.document)
            files.write_text(new / PAGE, page(assembled.document))
            put_in_place(new, out)
    except OSError as error:
        raise unreadable(error.filename or out, f"cannot be copied ({error.strerror or error})") from None
    return assembled


def check(folder: Path, *, root: str, page: Page) -> list[Finding]:
    """Everything about the bundle ``folder`` that is not complete, not consistent or not what is recomputed.

    Needs no network. No name that a file of the bundle states is ever opened: only what lies in the folder is.
    """
    if not folder.is_dir():
        raise unreadable(folder, "there is no such folder", "give the folder that `mabpl submission make` wrote")
    dataset = open_benchmark(root)
    recorded, found = _recorded(folder)
    told = recorded.get("produced_by")
    assembled = checklist.assemble(folder, dataset, told if isinstance(told, str) else None)
    found += assembled.findings
    if recorded:
        found += _changed_files(recorded, assembled.document)
        found += _changed_checklist(recorded, assembled.document)
        found += _changed_page(folder, recorded, assembled.document, page)
    for stem, group in assembled.groups.items():
        for kind in JSONS:
            if kind in group and "predictions" in group:
                found += _recomputed(folder / f"{stem}{ENDINGS[kind][0]}", folder / group["predictions"], root)
    return sorted(dict.fromkeys(found), key=lambda finding: (finding.kind == "warning", finding.file))


# --- what goes into a bundle ---


def _named(sources: Sources, dataset: Dataset) -> dict[str, Path]:
    """Name in the bundle → file."""
    predicted = list(_predicted(sources.predictions, dataset))
    configurations = sorted({p.name.configuration for p in predicted})
    if len(configurations) > 1:
        raise UsageError(
            f"the predictions are of {len(configurations)} configurations: {', '.join(configurations[:5])}",
            "a submission is of one; name its files <name>_seed<k>.jsonl, the same for each set",
        )
    named: dict[str, Path] = {}
    for p in predicted:
        _place(named, p, "predictions", p.file, ".gz" if p.file.name.endswith(".gz") else "")
    for kind, given in (("scores", sources.scores), ("joint", sources.joint)):
        beside = (p.file.with_name(f"{names.file_stem(str(p.file))}.{p.set}.{kind}.json") for p in predicted)
        for path in map(Path, given) if given else filter(Path.is_file, beside):
            _place(named, _scored_by(path, kind, predicted), kind, path)
    beside = (p.file.with_name(f"{p.file.name}.run.json") for p in predicted)
    for path in map(Path, sources.run_json) if sources.run_json else dict.fromkeys(filter(Path.is_file, beside)):
        _place(named, _run_of(path, predicted), "run", path)
    if not (sources.produced_by or "").strip():
        for p in predicted:
            if f"{p.stem}{ENDINGS['run'][0]}" not in named:
                raise UsageError(
                    f"{p.file}: no run.json tells how it was produced", "give --run-json FILE, or --produced-by TEXT"
                )
    return named


def _predicted(arguments: Sequence[str], dataset: Dataset) -> Iterator[_Predicted]:
    labels = dataset.labels()
    for file in naming.expand_predictions(arguments):
        if not Path(file).is_file():
            raise unreadable(file, "there is no such file")
        read = read_predictions([file], labels)
        problems.require_valid(read.problems)
        source = read.sources[0]
        yield _Predicted(Path(file), source.sha256, source.set, names.plain_name(file, labels.sets))


def _place(named: dict[str, Path], predicted: _Predicted, kind: str, path: Path, more: str = "") -> None:
    name = f"{predicted.stem}{ENDINGS[kind][0]}{more}"
    if not checklist.is_plain(name):
        raise UsageError(f"{path}: {name!r} cannot be the name of a file in a bundle", "rename the prediction file")
    if name in named:
        raise UsageError(f"{named[name]} and {path} are both {kind} of {predicted.name.run!r} on {predicted.set}",
                         "give one of them")  # fmt: skip
    named[name] = path


def _scored_by(path: Path, kind: str, predicted: Sequence[_Predicted]) -> _Predicted:
    """The prediction file that a score or joint JSON was made from, by its SHA-256 (of equal ones by its run)."""
    document = results.read_document(path)
    if (is_kind := checklist.kind_of(document)) != kind:
        raise UsageError(f"{path}: is a {is_kind} JSON", f"give it with --{is_kind}")
    hashes = {source.get("sha256") for source in checklist.prediction_sources(document)}
    fitting = [p for p in predicted if p.sha256 in hashes and p.set == document.get("set")]
    if not fitting:
        raise UsageError(f"{path}: was made from none of these prediction files", "score them again, or give its file")
    return min(fitting, key=lambda p: p.name.run != document.get("run"))


def _run_of(path: Path, predicted: Sequence[_Predicted]) -> _Predicted:
    facts = checklist.read_facts(path)
    for p in predicted:
        if path.name == f"{p.file.name}.run.json" and facts.get("set") == p.set:
            return p
    raise UsageError(f"{path}: is of none of these prediction files", "it is called <prediction file>.run.json")


# --- what differs ---


def _recorded(folder: Path) -> tuple[Document, list[Finding]]:
    path = folder / SUBMISSION
    if path.is_symlink() or not path.is_file():
        return {}, [Finding("missing", SUBMISSION, "is not there")]
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        return {}, [Finding("inconsistent", SUBMISSION, f"cannot be read ({error})")]
    if not isinstance(document, dict) or not document:
        return {}, [Finding("inconsistent", SUBMISSION, "is no checklist of a submission")]
    return document, []


def _changed_files(recorded: Document, now: Document) -> Iterator[Finding]:
    listed = recorded.get("files")
    if not isinstance(listed, dict):
        yield Finding("inconsistent", SUBMISSION, 'its "files" are no object of names and SHA-256')
        return
    for name, sha256 in listed.items():
        if not checklist.is_plain(name):
            yield Finding("inconsistent", SUBMISSION, f"lists {name!r}, which is no plain file name")
        elif name not in now["files"]:
            yield Finding("missing", name, "is listed, and is not there")
        elif sha256 != now["files"][name]:
            yield Finding("inconsistent", name, f"was changed: SHA-256 {sha256}, is {now['files'][name]}")
    for name in now["files"].keys() - listed.keys():
        yield Finding("inconsistent", name, "is there, and is not listed")


def _changed_checklist(recorded: Document, now: Document) -> Iterator[Finding]:
    bare, own = ({k: v for k, v in document.items() if k not in _TOLD_APART} for document in (recorded, now))
    for where, stated, recomputed in in_values(bare, own):
        yield Finding("inconsistent", SUBMISSION, f"{where}: {stated}, by the files of the bundle {recomputed}")
    for name in _REMARKS:
        if recorded.get(name) != now[name]:
            yield Finding("inconsistent", SUBMISSION, f"{name}: is not what the files of the bundle give")


def _changed_page(folder: Path, recorded: Document, now: Document, page: Page) -> Iterator[Finding]:
    path = folder / PAGE
    if path.is_symlink() or not path.is_file():
        yield Finding("missing", PAGE, "is not there")
        return
    of_the_maker = {name: recorded[name] for name in _OF_THE_MAKER if isinstance(recorded.get(name), str)}
    if path.read_bytes() != page({**now, **of_the_maker}).encode():
        yield Finding("inconsistent", PAGE, "does not say what the files of the bundle say")


def _recomputed(path: Path, predictions: Path, root: str) -> Iterator[Finding]:
    try:
        verification = verify(path, predictions=[str(predictions)], root=root)
    except MabplError as error:
        yield Finding("inconsistent", path.name, f"cannot be recomputed: {error.message}")
        return
    for where, recorded, recomputed in verification.table.iter_rows():
        yield Finding("inconsistent", path.name, f"{where}: {recorded}, recomputed {recomputed}")
    for note in verification.notes:
        yield Finding("warning", path.name, note)
