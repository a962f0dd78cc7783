"""Result folders: tables as parquet beside a manifest, written whole or not at all.

Small tables are one file, ``<table>.parquet``. Those with rows per segment are partitioned by set in the hive manner,
``<table>/set=<set>/part-00000.parquet``, which polars, DuckDB and pyarrow read as they are.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import polars as pl

from mabpl.errors import UsageError, unreadable
from mabpl.tables import files
from mabpl.tables.schemas import SCHEMA_VERSION, TABLES

if TYPE_CHECKING:
    import pyarrow as pa

MANIFEST = "manifest.json"
PARTITIONED = ("segments", "pairs", "matches")


def write_parquet(path: Path, frame: pl.DataFrame, table: str) -> None:
    """One parquet file (zstd) that carries the table's name and schema version in its metadata."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with files.atomic(path) as temporary:
        frame.write_parquet(temporary, compression="zstd", metadata=_metadata(table), statistics=True)


def write_frame(path: Path, frame: pl.DataFrame, table: str) -> None:
    """One table as the file's ending says: .parquet, .jsonl or .csv. Raises :class:`UsageError` for another ending."""
    if path.suffix == ".parquet":
        write_parquet(path, frame, table)
    elif path.suffix == ".jsonl":
        files.write_text(path, frame.write_ndjson())
    elif path.suffix == ".csv":
        files.write_text(path, frame.write_csv())
    else:
        raise UsageError(
            f"{path}: no table is written as {path.suffix or 'a file without ending'}",
            "give a name that ends in .parquet, .jsonl or .csv",
        )


def write_coded(path: Path, rows: pa.Table, table: str) -> None:
    """As :func:`write_parquet`, of an Arrow table whose strings may be dictionary-coded; they are read as strings.

    For tables of hundreds of millions of rows: quick to write (lz4, integers as differences), and still small.
    """
    import pyarrow.parquet as pq

    path.parent.mkdir(parents=True, exist_ok=True)
    with files.atomic(path) as temporary:
        pq.write_table(
            rows.replace_schema_metadata(_metadata(table)),
            temporary,
            compression="lz4",
            row_group_size=1 << 21,
            store_schema=False,
            write_statistics=["clip_id"],
            use_dictionary=[field.name for field in rows.schema if str(field.type).startswith("dictionary")],
            column_encoding={field.name: "DELTA_BINARY_PACKED" for field in rows.schema if str(field.type) == "int32"},
            dictionary_pagesize_limit=1 << 26,
            write_batch_size=1 << 16,
        )


def _metadata(table: str) -> dict[str, str]:
    return {"mabpl_table": table, "mabpl_schema_version": str(SCHEMA_VERSION)}


def partition(folder: Path, table: str, set_name: str, part: int = 0) -> Path:
    """Where a part of a partitioned table lies. The set's name is quoted: it is data, never a path."""
    return folder / table / f"set={quote(set_name, safe='')}" / f"part-{part:05d}.parquet"


def write_folder(folder: Path, tables: Mapping[str, pl.DataFrame], manifest: Mapping[str, Any]) -> None:
    """Writes ``tables`` and ``manifest``; an earlier result folder there is replaced, any other folder refused."""
    check_writable(folder)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        beside = tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent)
    except OSError as error:
        raise unreadable(folder, f"cannot be written ({error.strerror or error})") from None
    with beside as temporary:
        new = Path(temporary) / "new"
        new.mkdir()
        for name, frame in tables.items():
            if name in PARTITIONED:
                for (set_name,), rows in frame.group_by(["set"], maintain_order=True):
                    write_parquet(partition(new, name, str(set_name)), rows, name)
                (new / name).mkdir(exist_ok=True)
            else:
                write_parquet(new / f"{name}.parquet", frame, name)
        files.write_json(new / MANIFEST, {"schema_version": SCHEMA_VERSION, "tables": sorted(tables), **manifest})
        put_in_place(new, folder)


def digest(document: Mapping[str, Any]) -> str:
    """SHA-256 (hex) of a result JSON or a folder's manifest, the digest itself aside: any edited value changes it.

    A manifest's schema version and list of tables are aside too: they say what the folder is.
    """
    bare = {name: value for name, value in document.items() if name not in ("digest", "schema_version", "tables")}
    if isinstance(bare.get("provenance"), dict):
        bare["provenance"] = {name: value for name, value in bare["provenance"].items() if name != "digest"}
    return hashlib.sha256(json.dumps(bare, sort_keys=True).encode()).hexdigest()


def put_in_place(new: Path, folder: Path) -> None:
    """Renames ``new`` to ``folder``; what was there goes away only when the new one stands, and comes back if not."""
    old = new.with_name("old")
    try:
        if folder.exists():
            folder.rename(old)
        new.rename(folder)
    except BaseException:
        if old.exists() and not folder.exists():
            old.rename(folder)
        raise
    shutil.rmtree(old, ignore_errors=True)


def check_writable(folder: Path) -> None:
    if folder.is_file():
        raise unreadable(folder, "is a file", "expected a folder for the parquet tables")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / MANIFEST).is_file():
        raise unreadable(folder, "holds other files", "give a new folder, or one that an earlier result is in")


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a result folder; raises :class:`InputError` where it is none or of a later version."""
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        version = int(manifest["schema_version"])
    except OSError as error:
        raise unreadable(folder, f"is no result folder ({error.strerror})", f"expected {MANIFEST} in it") from None
    except (ValueError, KeyError, TypeError):
        raise unreadable(path, "is not the manifest of a result folder") from None
    if version > SCHEMA_VERSION:
        raise unreadable(folder, f"has schema version {version}; this mabpl reads up to {SCHEMA_VERSION}", "update it")
    return manifest  # type: ignore[no-any-return]


def read_table(folder: Path, name: str) -> pl.DataFrame:
    """A table of a result folder, in key order."""
    single = folder / f"{name}.parquet"
    source: str | Path = single if single.is_file() else os.fspath(folder / name / "**" / "*.parquet")
    try:
        if single.is_file():
            return pl.read_parquet(source, hive_partitioning=False)
        if not any((folder / name).rglob("*.parquet")):
            return TABLES[name].empty()
        frame = pl.read_parquet(source, hive_partitioning=False)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise UsageError(f"{folder}: its table {name} cannot be read ({error})") from None
    return frame.sort(TABLES[name].key)
