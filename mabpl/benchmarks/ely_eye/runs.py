"""What systems returned, as JSON lines or parquet, checked against the benchmark and the atoms.

A JSON line is ``{"query_id", "returned": [{"atom_id", "score", "strong"}, ...], "latency": {"cold_s", "warm_s"}}``: see
:class:`~mabpl.benchmarks.ely_eye.rows.RunRow`. A parquet file has a row per query and columns of these names and
shapes: ``returned`` is a list of structs, ``latency`` a struct that may be absent.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path, PurePath
from typing import NamedTuple

import numpy as np
import polars as pl

from mabpl.benchmarks.ely_eye.entries import read_run
from mabpl.benchmarks.ely_eye.options import ElyOptions
from mabpl.benchmarks.ely_eye.rules import RULES, problem
from mabpl.errors import unreadable
from mabpl.reading.names import expand_files, name_runs
from mabpl.reading.problems import Problem, merge_problems, problems_table
from mabpl.tables.ely_eye import LATENCIES, RETURNED
from mabpl.tables.schemas import PROBLEMS

ENDINGS = (".jsonl", ".jsonl.gz", ".parquet")
_ATOM = {"atom_id": pl.String(), "score": pl.Float64(), "strong": pl.Boolean()}
_LATENCY = {"cold_s": pl.Float64(), "warm_s": pl.Float64()}
_WHERE = {"file": pl.String(), "line": pl.Int64()}


class Source(NamedTuple):
    """A file as it was named, its SHA-256 (hex), and the run that it is."""

    file: str
    sha256: str
    run: str


@dataclass(frozen=True)
class Runs:
    """`ely_returned`, `ely_latencies` (a row for each query that a run answered, if only with an empty list) and
    `problems`, whatever the order of files and lines.

    ``answered``: run, query_id, file and line of every query in a file, those with a fault too. ``partial``: queries
    were left out by choice. ``notes``: what was done that a user should be told.
    """

    returned: pl.DataFrame
    latencies: pl.DataFrame
    answered: pl.DataFrame
    problems: pl.DataFrame
    sources: tuple[Source, ...]
    partial: bool = False
    notes: tuple[str, ...] = ()


def read_runs(paths: Iterable[str | os.PathLike[str]]) -> Runs:
    """Runs from files, folders or globs; ``-`` is standard input. Every fault is a row of `problems`.

    ``line`` of a parquet file's problem is its row, from 1. Raises :class:`~mabpl.errors.InputError` for a file that
    cannot be read as either.
    """
    files = expand_files(paths, ENDINGS, lambda name: name.endswith(ENDINGS), "run")
    plain = [str(PurePath(file).with_suffix(".jsonl")) if file.endswith(".parquet") else file for file in files]
    names = [name.run for name in name_runs([(file, "") for file in plain], ())]
    returned, latencies, answered, problems, sources = [], [], [], [], []
    for file, run in zip(files, names, strict=True):
        found, rows, faults, sha256 = _from_parquet(file) if _is_parquet(file) else _from_lines(file)
        rows = rows.with_columns(run=pl.lit(run), file=pl.lit(file))
        found = found.with_columns(run=pl.lit(run), file=pl.lit(file))
        problems.append(merge_problems(problems_table(faults), *_faults(rows, found, file)))
        answered.append(rows.select("run", "query_id", *_WHERE))
        bad = problems[-1].filter(pl.col("severity") == "error")["line"]
        sound = rows.filter(~pl.col("line").is_in(bad.implode()))
        latencies.append(LATENCIES.conform(sound))
        found = found.join(sound.select("line", "query_id"), on="line")
        returned.append(_first_of_repeated(found))
        sources.append(Source(file, sha256, run))
    return Runs(
        returned=pl.concat(returned).sort("run", "query_id", "rank"),
        latencies=pl.concat(latencies).sort("run", "query_id"),
        answered=pl.concat(answered).sort("run", "query_id", "line"),
        problems=merge_problems(*problems),
        sources=tuple(sources),
    )


def check_runs(
    runs: Runs, queries: pl.DataFrame, wanted: pl.DataFrame, atoms: pl.DataFrame, options: ElyOptions
) -> Runs:
    """``runs`` on the ``wanted`` of all ``queries`` alone, with what is wrong with them in `problems`.

    A query that a run lacks is an error, or by ``options.missing`` one with nothing returned, or left out.
    """
    answered = runs.answered
    unknown = answered.join(queries, on="query_id", how="anti")
    held = answered.join(queries, on="query_id", how="semi")
    aside = held.join(wanted, on="query_id", how="anti").group_by("run").len().sort("run")
    of = [source.run for source in runs.sources]
    grid = pl.DataFrame({"run": of}, schema={"run": pl.String()}).join(wanted.select("query_id"), how="cross")
    missing = grid.join(answered, on=["run", "query_id"], how="anti").sort("run", "query_id")
    returned = runs.returned.join(wanted, on="query_id", how="semi", maintain_order="left")
    latencies = runs.latencies.join(wanted, on="query_id", how="semi", maintain_order="left")
    if options.missing == "empty":
        latencies = pl.concat([latencies, LATENCIES.conform(missing)]).sort("run", "query_id")
    stray = returned.join(atoms, on="atom_id", how="anti").join(answered, on=["run", "query_id"]).sort("line", "rank")
    stray = stray.group_by("run", "query_id", maintain_order=True).agg(
        pl.col("file", "line", "atom_id").first(), pl.len().alias("atoms")
    )
    file_of = {source.run: source.file for source in runs.sources}
    lacking = missing.with_columns(file=pl.col("run").replace_strict(file_of, return_dtype=pl.String), line=None)
    severity = "error" if options.missing == "refuse" else "warning"
    told = [
        _problems(unknown, "unknown-query", "query_id", pl.lit("is no query of the benchmark")),
        _problems(stray, "unknown-atom", "returned", pl.format(
            '{} of the returned atoms are not in the atoms file; the first is "{}"', "atoms", "atom_id")),
        _problems(lacking, "missing-query", "query_id", pl.lit("is missing")).with_columns(severity=pl.lit(severity)),
    ]  # fmt: skip
    notes = [f"{run}: {count} queries of the other split, or void, are left out" for run, count in aside.iter_rows()]
    return replace(
        runs,
        returned=returned,
        latencies=latencies,
        problems=merge_problems(runs.problems, *told),
        partial=options.missing == "skip" and not missing.is_empty(),
        notes=tuple(notes),
    )


def _from_lines(file: str) -> tuple[pl.DataFrame, pl.DataFrame, list[Problem], str]:
    """Returned atoms (line, rank, atom_id, score, strong), queries (line, query_id, cold_s, warm_s), faults, digest."""
    entries = read_run(Path(file), file)
    rows = entries.rows
    lines = pl.Series("line", entries.lines, pl.Int64())
    places = [place for row in rows for place in row.returned]
    count = np.array([len(row.returned) for row in rows], dtype=np.int64)
    rank = np.arange(1, len(places) + 1) - np.repeat(np.cumsum(count) - count, count)
    found = [lines.gather(np.repeat(np.arange(len(rows)), count)), pl.Series("rank", rank, pl.Int32())]
    found += [pl.Series(name, list(map(attrgetter(name), places)), dtype) for name, dtype in _ATOM.items()]
    asked = [lines, pl.Series("query_id", [row.query_id for row in rows], pl.String())]
    asked += [
        pl.Series(name, [getattr(row.latency, name, None) for row in rows], dtype) for name, dtype in _LATENCY.items()
    ]
    return pl.DataFrame(found), pl.DataFrame(asked), entries.problems, entries.sha256


def _is_parquet(file: str) -> bool:
    try:
        with Path(file).open("rb") as opened:
            return opened.read(4) == b"PAR1"
    except (OSError, ValueError):
        return False


def _from_parquet(file: str) -> tuple[pl.DataFrame, pl.DataFrame, list[Problem], str]:
    try:
        with Path(file).open("rb") as opened:
            sha256 = hashlib.file_digest(opened, "sha256").hexdigest()
        frame = pl.read_parquet(file, hive_partitioning=False).with_row_index("line", 1)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise unreadable(file, f"cannot be read as parquet ({error})", "write a run as JSON lines") from None
    problems: list[Problem] = []
    columns = {
        "query_id": _cast(frame, "query_id", pl.String(), file, problems),
        "returned": _cast(frame, "returned", pl.List(pl.Struct(_ATOM)), file, problems),
        "latency": _cast(frame, "latency", pl.Struct(_LATENCY), file, problems, needed=False),
    }
    if problems:
        frame = frame.clear()
        columns = {name: column.clear() for name, column in columns.items()}
    frame = pl.DataFrame([frame["line"].cast(pl.Int64), *(c.alias(n) for n, c in columns.items())])
    for name in ("query_id", "returned"):
        nulls = frame.filter(pl.col(name).is_null())["line"]
        problems += [problem("wrong-type", file, line, "is null", field=name) for line in nulls]
    rows = frame.select("line", "query_id", pl.col("latency").struct.unnest())
    found = (
        frame.select("line", "returned")
        .filter(pl.col("returned").list.len() > 0)
        .explode("returned")
        .with_columns(rank=pl.int_range(1, pl.len() + 1, dtype=pl.Int32).over("line"))
        .select("line", "rank", pl.col("returned").struct.unnest())
    )
    return found, rows, problems, sha256


def _cast(
    frame: pl.DataFrame, name: str, dtype: pl.DataType, file: str, problems: list[Problem], *, needed: bool = True
) -> pl.Series:
    nothing = pl.Series(name, [None], dtype).new_from_index(0, frame.height)
    if name not in frame.columns:
        if needed:
            problems.append(problem("missing-field", file, None, "is missing: no such column", field=name))
        return nothing
    found = frame.schema[name]
    inner = found.inner if isinstance(found, pl.List) else found
    wanted = dtype.inner if isinstance(dtype, pl.List) else dtype
    column = pl.col(name)
    if isinstance(wanted, pl.Struct) and isinstance(inner, pl.Struct):
        given_ = {field.name for field in inner.fields}
        unknown = sorted(given_ - {field.name for field in wanted.fields})
        problems += [
            problem("unknown-key", file, None, "is no key of the format", field=f"{name}.{f}") for f in unknown
        ]
        each = pl.element() if isinstance(found, pl.List) else column
        whole = pl.struct(
            (each.struct.field(f.name) if f.name in given_ else pl.lit(None, f.dtype)).alias(f.name)
            for f in wanted.fields
        )
        whole = pl.when(each.is_not_null()).then(whole)
        column = column.list.eval(whole) if isinstance(found, pl.List) else whole
    try:
        return frame.select(column.cast(dtype).alias(name)).to_series()
    except pl.exceptions.PolarsError:
        problems.append(problem("wrong-type", file, None, f"is {found}, expected {dtype}", field=name))
        return nothing


def _faults(rows: pl.DataFrame, found: pl.DataFrame, file: str) -> list[pl.DataFrame]:
    """What no line tells by itself, and values of parquet that cannot be."""
    first = pl.col("line").first().over("query_id")
    again = rows.with_columns(first=first).filter(
        ~pl.col("query_id").is_first_distinct(), pl.col("query_id").is_not_null()
    )
    at = pl.format("returned[{}].{}", pl.col("rank") - 1, pl.lit("")).str.strip_suffix(".")
    places = found.join(rows.select("line", "query_id"), on="line", how="left", maintain_order="left").with_columns(
        at=at
    )
    repeated = places.filter(pl.struct("line", "atom_id").is_first_distinct().not_())
    repeated = repeated.group_by("line", maintain_order=True).agg(
        pl.col("file", "query_id", "atom_id", "at").first(), pl.len().alias("times")
    )
    wild = places.filter(pl.col("score").is_not_null() & ~pl.col("score").is_finite())
    nameless = places.filter(pl.col("atom_id").is_null() | (pl.col("atom_id") == ""))
    told = [
        _problems(again, "duplicate-query", "query_id", pl.format("is on line {} too", "first")),
        _problems(repeated, "repeated-atom", pl.col("at"), pl.format(
            'is "{}" again; {} repeated in all', "atom_id", "times")),
        _problems(wild, "non-finite", pl.col("at") + ".score", pl.format("is {}, expected a finite number", "score")),
        _problems(nameless, "wrong-type", pl.col("at") + ".atom_id", pl.lit("is empty, expected a non-empty string")),
    ]  # fmt: skip
    for name in _LATENCY:
        bad = rows.filter((pl.col(name) < 0) | ~pl.col(name).is_finite())
        told.append(_problems(bad, "wrong-value", f"latency.{name}", pl.format("is {}, expected seconds", name)))
    return told


def _first_of_repeated(found: pl.DataFrame) -> pl.DataFrame:
    """`ely_returned` with ranks counted anew where an atom stood at several places: its first place counts."""
    found = found.sort("line", "rank").unique(["line", "atom_id"], keep="first", maintain_order=True)
    line = found["line"].to_numpy()
    first = np.flatnonzero(np.r_[True, line[1:] != line[:-1]][: len(line)])
    rank = np.arange(len(line)) - np.repeat(first, np.diff(np.append(first, len(line)))) + 1
    return RETURNED.conform(found.with_columns(rank=pl.Series(rank)))


def _problems(faulty: pl.DataFrame, rule: str, field: str | pl.Expr, message: pl.Expr) -> pl.DataFrame:
    return faulty.select(
        severity=pl.lit(RULES[rule].severity),
        rule=pl.lit(rule),
        file="file",
        line="line",
        clip_id="query_id",
        field=pl.lit(field) if isinstance(field, str) else field,
        message=message,
        hint=pl.lit(RULES[rule].hint),
    ).cast(PROBLEMS.schema)  # type: ignore[arg-type]
