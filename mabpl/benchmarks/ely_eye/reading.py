"""ely-eye's benchmark set as tables, and every fault that was met on the way as a table too.

A benchmark's folder holds ``sets/`` and ``corpus/`` (or these lie in its ``bench``). The first row of a JSON-lines file
there tells what it is: one with a ``query_id`` (or question, or gold) a set, one with a ``source_id`` a corpus index,
whatever the file is called. Only the sets and ``corpus/manifest.jsonl`` are described by the source; the index is read
as rows of ``source_id``, ``holder``, ``modality`` (else the file's name tells), ``observed_at`` and, where they are
told, the extents of the source: pages, width and height, duration_s, lines, turns, and the lines of symbols.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple

import polars as pl

from mabpl.benchmarks.ely_eye import checks, freezing
from mabpl.benchmarks.ely_eye.entries import ALIASES, Entries, read_manifest, read_queries, read_sources
from mabpl.benchmarks.ely_eye.rows import MODALITIES, GoldEntry, ManifestRow, QueryRow, SourceRow, given
from mabpl.benchmarks.ely_eye.rules import problem
from mabpl.benchmarks.ely_eye.values import SHAPES, answer_text, parse_time
from mabpl.errors import InputError, unreadable
from mabpl.reading.json_values import loads
from mabpl.reading.lines import Lines
from mabpl.reading.names import file_stem
from mabpl.reading.opening import BYTE_ORDER_MARK
from mabpl.reading.problems import Problem, merge_problems, problems_table
from mabpl.tables.ely_eye import GOLD, QUERIES, SOURCES, SYMBOLS

Kind = Literal["set", "index", "manifest", "sets_manifest"]
Split = Literal["dev", "test"]


class File(NamedTuple):
    """A file below the benchmark's folder, what it is, and its SHA-256 (hex)."""

    file: str
    kind: Kind
    sha256: str


@dataclass(frozen=True)
class Benchmark:
    """`ely_queries` (void ones too), `ely_gold`, `ely_sources`, `ely_symbols` and `problems`, each sorted by its key.

    Entries with an error are in `problems` alone. ``files``: what was read, for reports, which name the digests.
    """

    queries: pl.DataFrame
    gold: pl.DataFrame
    sources: pl.DataFrame
    symbols: pl.DataFrame
    problems: pl.DataFrame
    files: tuple[File, ...]

    @property
    def void(self) -> int:
        """Entries that are left out because no manifest knows their revision."""
        return int(self.queries["void"].sum())

    def scored_gold(self, split: Split = "dev") -> pl.DataFrame:
        """`ely_gold` of a split, without the void entries."""
        counted = self.queries.filter(~pl.col("void"), split=split)
        return self.gold.join(counted, on="query_id", how="semi", maintain_order="left")

    def facts(self) -> dict[str, Any]:
        """What every report names: counts, and the digests of the manifests and sets."""
        return {
            "queries": self.queries.height,
            "void": self.void,
            "sources": self.sources.height,
            "sets": len(self.sha256("set")),
            "manifest_sha256": next(iter(self.sha256("manifest").values()), None),
            "sets_sha256": self.sha256("set"),
        }

    def digests(self) -> dict[str, dict[str, str]]:
        """Kind of file → file → its SHA-256, all in order."""
        kinds: tuple[Kind, ...] = ("manifest", "sets_manifest", "set", "index")
        return {kind: dict(sorted(self.sha256(kind).items())) for kind in kinds}

    def sha256(self, kind: Kind) -> dict[str, str]:
        """File → its SHA-256, of the files of one kind."""
        return {file.file: file.sha256 for file in self.files if file.kind == kind}


def read_benchmark(root: str | os.PathLike[str]) -> Benchmark:
    """Reads and checks all of a benchmark's folder; every rule that is broken is a row of `problems`.

    Raises :class:`~mabpl.errors.InputError` where there is no such folder or a file of it cannot be read at all.
    """
    folder = _bench(Path(root))
    sets, indexes, problems = _rows_of(folder)
    read = {**{e.file: e.sha256 for e in sets}, **{e.file: e.sha256 for e in indexes}}
    manifest, manifest_files, faults = _manifests(folder, read)
    queries, gold = _queries_frame(sets, manifest), _gold_frame(sets)
    sources, symbols = _sources_frame(indexes, problems), _symbols_frame(indexes)
    found = checks.check(queries, gold, sources, symbols)
    told = merge_problems(problems_table([*problems, *faults]), found)
    wrong = found.filter(pl.col("severity") == "error", pl.col("rule") != "duplicate-source")["clip_id"]
    sound = pl.Series([row.query_id for s in sets for _, row, sound in s if sound], dtype=pl.String)
    named = pl.Series([row.source_id for s in indexes for _, row, sound in s if sound], dtype=pl.String)
    kept = queries.filter(pl.col("query_id").is_in(sound.implode()), ~pl.col("query_id").is_in(wrong.implode()))
    sources = sources.unique("source_id", keep="none").filter(
        pl.col("source_id").is_in(named.implode()), pl.col("modality").is_not_null()
    )
    prefix = "" if folder == Path() else f"{folder}/"
    return Benchmark(
        queries=kept.sort("query_id"),
        gold=GOLD.conform(gold.join(kept, on="query_id", how="semi")).sort("query_id", "gold"),
        sources=sources.sort("source_id"),
        symbols=symbols.join(sources, on="source_id", how="semi").sort(SYMBOLS.key),
        problems=told.with_columns(file=prefix + pl.col("file")),
        files=(
            *(File(e.file, "set", e.sha256) for e in sets),
            *(File(e.file, "index", e.sha256) for e in indexes),
            *manifest_files,
        ),
    )


def _rows_of(folder: Path) -> tuple[list[Entries[QueryRow]], list[Entries[SourceRow]], list[Problem]]:
    """Sets, indexes, and what is wrong with their lines."""
    problems: list[Problem] = []
    sets: list[Entries[QueryRow]] = []
    indexes: list[Entries[SourceRow]] = []
    for file in _candidates(folder):
        of_sets = file.startswith("sets/")
        try:
            kind = _kind(folder / file)
        except InputError:
            if of_sets:
                raise
            continue
        if kind == "index":
            indexes.append(read_sources(folder / file, file))
            problems += indexes[-1].problems
        elif kind == "set" and of_sets:
            sets.append(read_queries(folder / file, file))
            problems += sets[-1].problems
        elif of_sets:
            problems.append(problem("unknown-content", file, None, f"is neither set nor index; its rows have {kind}"))
    if not sets:
        problems.append(problem("no-sets", "sets", None, "holds no set"))
    if not indexes:
        problems.append(problem("no-index", "corpus", None, "there is no corpus index in sets/ or corpus/"))
    return sets, indexes, problems


def _bench(root: Path) -> Path:
    for folder in (root, root / "bench"):
        if (folder / "sets").is_dir():
            return folder
    raise unreadable(
        root,
        "holds no benchmark set",
        "expected ROOT/sets/*.jsonl and ROOT/corpus/manifest.jsonl, or these in ROOT/bench",
    )


def _candidates(folder: Path) -> list[str]:
    """JSON-lines files that may be sets or indexes."""
    found = [*(folder / "sets").rglob("*.jsonl"), *(folder / "corpus").glob("*.jsonl")]
    names = sorted(path.relative_to(folder).as_posix() for path in found if path.is_file())
    return [name for name in names if name not in (*freezing.SETS_MANIFESTS, freezing.CORPUS_MANIFEST)]


_OF_SOURCE = set(SourceRow.__struct_fields__)
_OF_A_QUERY = {"query_id", "question", "gold"}


def _kind(path: Path) -> str:
    """``set``, ``index``, or the keys that the first row has; a file without a row that can be read is a set."""
    lines = iter(Lines(path))
    for line in lines:
        value, fault = loads(line.data.removeprefix(BYTE_ORDER_MARK))
        if fault is not None or not isinstance(value, dict):
            continue
        if _OF_A_QUERY & value.keys():
            return "set"
        if any(name in value for name in ("source_id", *ALIASES["source_id"])):
            return "index"
        return ", ".join(sorted(value)[:20]) or "no key"
    return "set"


def _manifests(folder: Path, read: Mapping[str, str]) -> tuple[Entries[ManifestRow], list[File], list[Problem]]:
    """The corpus manifest, both manifests as files, and what is wrong with them and with what they freeze."""
    manifest: Entries[ManifestRow] = Entries(freezing.CORPUS_MANIFEST)
    problems: list[Problem] = []
    frozen: list[freezing.Frozen] = []
    files: list[File] = []
    known = dict(read)
    if (folder / manifest.file).is_file():
        manifest = read_manifest(folder / manifest.file, manifest.file)
        files.append(File(manifest.file, "manifest", manifest.sha256))
        known[manifest.file] = manifest.sha256
        frozen, faults = freezing.corpus_files(manifest)
        problems += [*manifest.problems, *freezing.manifest_problems(manifest), *faults]
    else:
        problems.append(problem("no-manifest", manifest.file, None, "there is no such file"))
    name = next((name for name in freezing.SETS_MANIFESTS if (folder / name).is_file()), None)
    if name is None:
        problems.append(
            problem("no-manifest", freezing.SETS_MANIFESTS[0], None, "there is no such file (nor a .jsonl)")
        )
    else:
        more, faults_of_sets, digest = freezing.sets_files(folder / name, name)
        frozen, problems = frozen + more, problems + faults_of_sets
        files.append(File(name, "sets_manifest", digest))
    digests, faults = freezing.check_digests(folder, frozen, known)
    problems += faults
    if name is not None and (more or not faults_of_sets):
        problems += [
            problem("not-frozen", file, None, f"is not in {name}") for file in sorted(read) if file not in digests
        ]
    return manifest, files, problems


def _queries_frame(sets: Iterable[Entries[QueryRow]], manifest: Entries[ManifestRow]) -> pl.DataFrame:
    revisions = {row.origin.revision for entries in sets for row in entries.rows}
    known = {revision for revision in revisions if freezing.knows_revision(manifest.rows, revision)}
    rows = [
        {
            "set": file_stem(entries.file),
            "query_id": row.query_id,
            "modality": row.modality,
            "question": row.question,
            "answer": answer_text(row.answer),
            "answer_format": row.answer_format,
            "holder": row.scope.holder,
            "session": row.scope.session,
            "scenario": row.scope.scenario,
            "as_of": _as_of(row),
            "unanswerable": row.unanswerable,
            "dataset": row.origin.dataset,
            "revision": row.origin.revision,
            "item": row.origin.item,
            "license": row.origin.license,
            "split": row.split,
            "void": row.origin.revision not in known,
            "file": entries.file,
            "line": line,
        }
        for entries in sets
        for line, row, _ in entries
    ]
    return pl.DataFrame(rows, schema=QUERIES.schema)


def _as_of(row: QueryRow) -> datetime | None:
    return _instant(given(row.as_of) or given(row.scope.as_of))


def _instant(text: str | None) -> datetime | None:
    time = parse_time(text) if text is not None else None
    return time if isinstance(time, datetime) else None


def _gold_frame(sets: Iterable[Entries[QueryRow]]) -> pl.DataFrame:
    """With holder, as_of, file and line of the query; regions of sound entries alone."""
    rows = [
        {
            "query_id": row.query_id,
            "gold": index,
            "source_id": entry.source_id,
            "modality": row.modality,
            **(_region(row.modality, entry) if sound else {}),
            "holder": row.scope.holder,
            "as_of": _as_of(row),
            "file": entries.file,
            "at": line,
        }
        for entries in sets
        for line, row, sound in entries
        for index, entry in enumerate(row.gold)
    ]
    of_query = {name: QUERIES.schema[name] for name in ("holder", "as_of", "file")}
    return pl.DataFrame(rows, schema={**GOLD.schema, **of_query, "at": pl.Int64()})


def _region(modality: str, entry: GoldEntry) -> dict[str, Any]:
    known = {key for shape in SHAPES[modality] for key in shape}
    columns = {key: value for key, value in entry.region.items() if key in known}
    box = columns.pop("bbox", None)
    return columns | (dict(zip(("x0", "y0", "x1", "y1"), box, strict=True)) if box else {})


def _sources_frame(indexes: Iterable[Entries[SourceRow]], problems: list[Problem]) -> pl.DataFrame:
    frames = [SOURCES.empty()]
    for entries in indexes:
        stem = file_stem(entries.file)
        named = next((m for m in sorted(MODALITIES, key=len, reverse=True) if m in stem), None)
        columns: dict[str, list[Any]] = {
            name: [given(getattr(row, name)) for row in entries.rows] for name in SOURCES.schema.keys() & _OF_SOURCE
        }
        columns["modality"] = [modality or named for modality in columns["modality"]]
        columns["observed_at"] = [_instant(time) for time in columns["observed_at"]]
        problems += [
            problem(
                "missing-field", entries.file, line, "is missing, and the file's name tells none",
                of=source, field="modality",
            )
            for line, source, modality in zip(entries.lines, columns["source_id"], columns["modality"], strict=True)
            if modality is None
        ]  # fmt: skip
        columns |= {"file": [entries.file] * len(entries.rows), "line": entries.lines}
        frames.append(pl.DataFrame([pl.Series(n, columns[n], dtype) for n, dtype in SOURCES.schema.items()]))
    return pl.concat(frames)


def _symbols_frame(indexes: Iterable[Entries[SourceRow]]) -> pl.DataFrame:
    rows = [
        (row.source_id, symbol.path, symbol.symbol, symbol.line_start, symbol.line_end)
        for entries in indexes
        for row in entries.rows
        for symbol in given(row.symbols) or ()
    ]
    return pl.DataFrame(rows, schema=SYMBOLS.schema, orient="row").unique()
