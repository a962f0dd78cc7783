"""The atoms that a system holds, as JSON lines or parquet, checked against the corpus that they are cut from.

A JSON line is ``{"atom_id", "source_id", "region", "modality", "holder", "observed_at"}``: see
:class:`~mabpl.benchmarks.ely_eye.rows.AtomRow`. A parquet file has the columns of `ely_atoms`; those of the region, and
``modality``, ``holder`` and ``observed_at``, may be absent. What is absent or null of the last three is the source's.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from pathlib import Path
from typing import Any

import polars as pl

from mabpl.benchmarks.ely_eye.entries import read_atoms as read_lines
from mabpl.benchmarks.ely_eye.overlap import BOX
from mabpl.benchmarks.ely_eye.rows import AtomRegion
from mabpl.benchmarks.ely_eye.rules import RULES, problem
from mabpl.benchmarks.ely_eye.values import LIMIT_S, parse_time
from mabpl.errors import unreadable
from mabpl.reading.json_values import Fault
from mabpl.reading.problems import Problem, merge_problems, problems_table
from mabpl.tables.ely_eye import ATOMS
from mabpl.tables.schemas import PROBLEMS

REQUIRED = ("atom_id", "source_id")
_OPTIONAL = ("modality", "holder", "observed_at")

_KEYS: dict[str, tuple[str, ...]] = {
    "pdf": ("page_start", "page_end", "block"),
    "image": BOX,
    "ui_screenshot": BOX,
    "video": ("t_start", "t_end"),
    "code": ("path", "line_start", "line_end", "symbols"),
    "conversation": ("turn_start", "turn_end"),
}
_SAID = {
    "pages": ("page_start", "page_end"), "block": ("block",), "bbox": BOX, "times": ("t_start", "t_end"),
    "path": ("path",), "lines": ("line_start", "line_end"), "symbols": ("symbols",),
    "turns": ("turn_start", "turn_end"),
}  # fmt: skip
"""What columns say of a region, in whatever way it was written."""

_BEYOND: dict[str, tuple[str, pl.Expr]] = {
    "pages": ("page_start", pl.col("page_start") > pl.col("pages_of_source")),
    "width": ("x0", pl.col("x0") >= pl.col("width_of_source")),
    "height": ("y0", pl.col("y0") >= pl.col("height_of_source")),
    "duration_s": ("t_start", pl.col("t_start") > pl.col("duration_s_of_source")),
    "lines": ("line_start", pl.col("line_start") > pl.col("lines_of_source")),
    "turns": ("turn_start", pl.col("turn_start") >= pl.col("turns_of_source")),
}
"""Extent of a source: where an atom starts, and whether that is beyond it."""

_TOGETHER = (
    ("page_start", "page_end"),
    BOX,
    ("t_start", "t_end"),
    ("line_start", "line_end"),
    ("turn_start", "turn_end"),
)


@dataclass(frozen=True)
class Atoms:
    """`ely_atoms`, by atom, without those that have an error; `problems`; the file's name and its SHA-256 (hex)."""

    atoms: pl.DataFrame
    problems: pl.DataFrame
    file: str
    sha256: str


def read_atoms(path: str | os.PathLike[str], sources: pl.DataFrame) -> Atoms:
    """Reads an atoms file and checks it against `ely_sources`; every fault is a row of `problems`.

    ``line`` of a parquet file's problem is its row, from 1. Raises :class:`~mabpl.errors.InputError` for a file that
    cannot be read as either.
    """
    file = os.fspath(path)
    frame, problems, sha256 = _from_parquet(file) if _is_parquet(file) else _from_lines(file)
    told = sources.select(
        "source_id",
        *(pl.col(name).alias(f"{name}_of_source") for name in (*_OPTIONAL, *_BEYOND)),
        known=pl.lit(True),
    )
    frame = frame.join(told, on="source_id", how="left", maintain_order="left")
    found = merge_problems(*problems, *_problems(frame, file))
    bad = found.filter(pl.col("severity") == "error", pl.col("rule") != "duplicate-atom")["line"]
    kept = frame.filter(~pl.col("line").is_in(bad.implode())).unique("atom_id", keep="none")
    kept = kept.with_columns(pl.coalesce(name, f"{name}_of_source").alias(name) for name in _OPTIONAL)
    return Atoms(ATOMS.conform(kept).sort("atom_id"), found, file, sha256)


def _is_parquet(file: str) -> bool:
    try:
        with Path(file).open("rb") as opened:
            return opened.read(4) == b"PAR1"
    except (OSError, ValueError):
        return False


def _from_parquet(file: str) -> tuple[pl.DataFrame, list[pl.DataFrame], str]:
    try:
        with Path(file).open("rb") as opened:
            sha256 = hashlib.file_digest(opened, "sha256").hexdigest()
        frame = pl.read_parquet(file, hive_partitioning=False)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise unreadable(file, f"cannot be read as parquet ({error})", "write the table ely_atoms") from None
    problems: list[Problem] = []
    columns: list[pl.Series | pl.Expr] = []
    for name, dtype in ATOMS.schema.items():
        if name not in frame.columns:
            if name in REQUIRED:
                problems.append(problem("missing-field", file, None, "is missing: no such column", field=name))
            columns.append(pl.lit(None, dtype).alias(name))
            continue
        found = frame.schema[name]
        if isinstance(found, pl.Datetime) and found.time_zone is None:
            problems.append(problem("no-zone", file, None, "has no zone: nobody can tell the instants", field=name))
        try:
            columns.append(frame[name].cast(dtype))
        except pl.exceptions.PolarsError:
            message = f"is {found}, expected {dtype}"
            problems.append(problem("wrong-type", file, None, message, field=name))
            columns.append(pl.lit(None, dtype).alias(name))
    if problems:
        return ATOMS.empty().with_columns(line=pl.lit(None, pl.Int64)), [problems_table(problems)], sha256
    return frame.select(columns).with_columns(line=pl.int_range(1, pl.len() + 1, dtype=pl.Int64)), [], sha256


def _from_lines(file: str) -> tuple[pl.DataFrame, list[pl.DataFrame], str]:
    entries = read_lines(Path(file), file)
    problems = list(entries.problems)
    times: list[datetime | None] = []
    for line, row, _ in entries:
        time = parse_time(row.observed_at) if row.observed_at is not None else None
        if isinstance(time, Fault):
            problems.append(problem(time.rule, file, line, time.message, of=row.atom_id, field="observed_at"))
        times.append(None if isinstance(time, Fault) else time)
    names = ("atom_id", "source_id", "modality", "holder")
    regions = [row.region for row in entries.rows]
    written = pl.DataFrame(
        [
            *(pl.Series(name, list(map(attrgetter(name), entries.rows)), pl.String()) for name in names),
            pl.Series("observed_at", times, ATOMS.schema["observed_at"]),
            *(_series(_AT + key, list(map(attrgetter(key), regions)), dtype) for key, dtype in _WRITTEN.items()),
            pl.Series("line", entries.lines, pl.Int64()),
        ]
    )
    box = pl.when(_at("bbox").list.len() == 4).then(_at("bbox"))
    frame = written.select(
        *names,
        "observed_at",
        *(pl.coalesce(_at(one), _at(other)).alias(other) for one, others in _INSTEAD.items() for other in others),
        *(box.list.get(index, null_on_oob=True).alias(name) for index, name in enumerate(BOX)),
        pl.when(_at("symbol").is_not_null())
        .then(pl.concat_list(_at("symbol")))
        .otherwise(_at("symbols"))
        .alias("symbols"),
        block=_at("block"),
        path=_at("path"),
        line="line",
    )
    return frame, [problems_table(problems), *_lost(written, file)], entries.sha256


def _series(name: str, values: Sequence[Any], dtype: pl.DataType) -> pl.Series:
    """A column; lists by way of Arrow, which takes nested ones much faster."""
    if not isinstance(dtype, pl.List):
        return pl.Series(name, values, dtype)
    import pyarrow as pa

    inner = pa.float64() if dtype.inner == pl.Float64 else pa.string()
    return pl.Series(name, pa.array(values, pa.large_list(inner)))


_AT = "region."


def _at(key: str) -> pl.Expr:
    return pl.col(_AT + key)


_OTHERWISE: dict[str, pl.DataType] = {
    "page": pl.Int64(),
    "line": pl.Int64(),
    "turn": pl.Int64(),
    "t": pl.Float64(),
    "symbol": pl.String(),
    "bbox": pl.List(pl.Float64()),
}
"""Keys of a region in JSON that are no columns of `ely_atoms`."""

_WRITTEN = {key: _OTHERWISE.get(key) or ATOMS.schema[key] for key in AtomRegion.__struct_fields__}

_INSTEAD = {
    "page": ("page_start", "page_end"),
    "line": ("line_start", "line_end"),
    "turn": ("turn_start", "turn_end"),
    "t": ("t_start", "t_end"),
}
"""One key that stands for two columns."""


def _lost(written: pl.DataFrame, file: str) -> list[pl.DataFrame]:
    """One thing said in two ways, and boxes that are none: what is lost once the region is a row of the table."""
    found = []
    for one, others in {**_INSTEAD, "symbol": ("symbols",)}.items():
        both = pl.any_horizontal(_at(other).is_not_null() for other in others) & _at(one).is_not_null()
        message = pl.lit(f"has {one} and {' or '.join(others)}, expected one or the other")
        found.append(_rows(written.filter(both), file, "region-keys", "region", message))
    count = _at("bbox").list.len()
    message = pl.format("has {} numbers, expected [x0, y0, x1, y1]", count)
    return [*found, _rows(written.filter(count != 4), file, "region-value", "region.bbox", message)]


def _problems(frame: pl.DataFrame, file: str) -> list[pl.DataFrame]:
    """What is wrong with the rows of ``frame``: columns of `ely_atoms`, line, and those of the source."""
    known = frame.filter("known")
    shown = '"' + pl.col("source_id") + '"'
    of = {name: pl.col(f"{name}_of_source") for name in _OPTIONAL}
    iso = {
        name: pl.col(name).dt.to_string("%Y-%m-%dT%H:%M:%S%.f%:z") for name in ("observed_at", "observed_at_of_source")
    }
    first = pl.col("line").first().over("atom_id")
    again = frame.with_columns(first=first).filter(
        ~pl.col("atom_id").is_first_distinct(), pl.col("atom_id").is_not_null()
    )
    nulls = [frame.filter(pl.col(name).is_null()) for name in REQUIRED]
    return [
        *(
            _rows(rows, file, "wrong-type", name, pl.lit("is null, expected a string"))
            for name, rows in zip(REQUIRED, nulls, strict=True)
        ),
        _rows(again, file, "duplicate-atom", "atom_id", pl.format("is on line {} too", "first")),
        _rows(
            frame.filter(pl.col("known").is_null(), pl.col("source_id").is_not_null()),
            file, "unknown-source", "source_id", pl.format("is {}, which no corpus index has", shown),
        ),
        _rows(
            known.filter(pl.col("modality") != of["modality"]),
            file, "modality-mismatch", "modality", pl.format("is {}, the source is {}", "modality", of["modality"]),
        ),
        _rows(
            known.filter(pl.col("holder") != of["holder"]),
            file, "holder-mismatch", "holder", pl.format("is {}, the source's is {}", "holder", of["holder"]),
        ),
        _rows(
            known.filter(pl.col("observed_at") < of["observed_at"]),
            file, "observed-before-source", "observed_at",
            pl.format("is {}, the source was observed at {}", iso["observed_at"], iso["observed_at_of_source"]),
        ),
        *_shapes(known, file),
        *(
            _rows(
                known.filter(beyond), file, "outside-source", "region",
                pl.format("starts at {} = {}; the source has {} = {}",
                          pl.lit(start), start, pl.lit(of), f"{of}_of_source"),
            )
            for of, (start, beyond) in _BEYOND.items()
        ),
        *_values(frame, file),
    ]  # fmt: skip


def _shapes(known: pl.DataFrame, file: str) -> list[pl.DataFrame]:
    """Keys of another modality, and keys that need others."""
    found = []
    for modality, keys in _KEYS.items():
        foreign = {word: names for word, names in _SAID.items() if not set(names) & set(keys)}
        has = {word: pl.any_horizontal(pl.col(names).is_not_null()) for word, names in foreign.items()}
        rows = known.filter(pl.col("modality_of_source") == modality, pl.any_horizontal(has.values()))
        said = pl.concat_str(
            [pl.when(there).then(pl.lit(word)) for word, there in has.items()], separator=", ", ignore_nulls=True
        )
        own = ", ".join(word for word in _SAID if word not in foreign)
        message = pl.format("has {}; the region of {} has {}", said, pl.lit(modality), pl.lit(own))
        found.append(_rows(rows, file, "region-keys", "region", message))
    for names in _TOGETHER:
        given_ = pl.sum_horizontal(pl.col(name).is_not_null() for name in names)
        rows = known.filter((given_ > 0) & (given_ < len(names)))
        found.append(_rows(rows, file, "region-keys", "region", pl.lit(f"needs all of {', '.join(names)}")))
    single = pl.col("page_start") == pl.col("page_end")
    block = known.filter(pl.col("block").is_not_null() & ~single.fill_null(False))
    found.append(_rows(block, file, "region-keys", "region", pl.lit("has a block, which is of one page")))
    of_code = pl.col("line_start").is_not_null() | pl.col("symbols").is_not_null()
    pathless = known.filter(of_code & pl.col("path").is_null())
    found.append(_rows(pathless, file, "region-keys", "region", pl.lit("has lines or symbols, but no path")))
    return found


def _values(frame: pl.DataFrame, file: str) -> list[pl.DataFrame]:
    """Values that cannot be; those of JSON lines were held against their types already."""
    least = {"page_start": 1, "block": 0, "line_start": 1, "turn_start": 0, "x0": 0, "y0": 0, "t_start": 0}
    pairs = {"page_end": "page_start", "line_end": "line_start", "turn_end": "turn_start", "t_end": "t_start"}
    found = [
        _rows(frame.filter(pl.col(name) < low), file, "region-value", f"region.{name}",
              pl.format("is {}, expected {} or more", name, pl.lit(low)))
        for name, low in least.items()
    ]  # fmt: skip
    found += [
        _rows(frame.filter(pl.col(last) < pl.col(first)), file, "region-value", f"region.{last}",
              pl.format("is {}, expected {} = {} or more", last, pl.lit(first), first))
        for last, first in pairs.items()
    ]  # fmt: skip
    found += [
        _rows(frame.filter(pl.col(last) <= pl.col(first)), file, "region-value", f"region.{last}",
              pl.format("is {}, expected more than {} = {}", last, pl.lit(first), first))
        for first, last in (("x0", "x1"), ("y0", "y1"))
    ]  # fmt: skip
    for name in (*BOX, "t_start", "t_end"):
        wild = frame.filter(~pl.col(name).is_finite())
        found.append(_rows(wild, file, "non-finite", f"region.{name}", pl.format("is {}", name)))
    late = frame.filter(pl.col("t_end").is_finite() & (pl.col("t_end") > LIMIT_S))
    found.append(_rows(late, file, "region-value", "region.t_end", pl.format("is {}, expected seconds", "t_end")))
    symbols = pl.col("symbols")
    empty = frame.filter((symbols.list.len() == 0) & pl.col("line_start").is_null())
    found.append(_rows(empty, file, "region-value", "region.symbols", pl.lit("is empty; name symbols or lines")))
    nameless = frame.filter(symbols.list.eval(pl.element().is_null() | (pl.element() == "")).list.any())
    found.append(_rows(nameless, file, "region-value", "region.symbols", pl.lit("holds an empty name")))
    return found


def _rows(faulty: pl.DataFrame, file: str, rule: str, field: str, message: pl.Expr) -> pl.DataFrame:
    if faulty.is_empty():
        return PROBLEMS.empty()
    return faulty.select(
        severity=pl.lit(RULES[rule].severity),
        rule=pl.lit(rule),
        file=pl.lit(file),
        line="line",
        clip_id="atom_id",
        field=pl.lit(field),
        message=message,
        hint=pl.lit(RULES[rule].hint),
    ).cast(PROBLEMS.schema)  # type: ignore[arg-type]
