from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mabpl.cli import common

if TYPE_CHECKING:
    from mabpl.benchmarks.micro_annotation.dataset import Dataset
    from mabpl.video.manifest import Difference, Probed

MANIFEST = "manifest.jsonl"


@click.group("manifest")
def command() -> None:
    """The videos of a dataset folder, data/<set>/videos/<clip_id>.mp4, and what is written of them."""


def _options(function: common.Command) -> common.Command:
    """--root, --set, --decode, --quiet."""
    for option in (
        click.option("--quiet", is_flag=True, help="No progress on standard error."),
        click.option("--decode", is_flag=True, help="Decode every frame, to find corrupt packets (minutes)."),
        click.option("--set", "set_name", help="A set or its alias (default: every set)."),
        click.option("--root", type=click.Path(), help="The dataset folder (default: this one)."),
    ):
        function = option(function)
    return click.pass_context(function)


@command.command("make")
@_options
@click.option("--replace", is_flag=True, help="Also where there is a manifest: it is overwritten.")
def make(ctx: click.Context, root: str | None, set_name: str | None, decode: bool, quiet: bool, replace: bool) -> None:
    """Write data/<set>/manifest.jsonl: each video's width, height, fps, frames, duration and MD5.

    A manifest that is there is kept, unless --replace. If a video cannot be read, its set's manifest is not written
    (exit code 1).
    """
    import json

    from mabpl.errors import CheckFailed, UsageError
    from mabpl.tables.files import write_text
    from mabpl.video.manifest import manifest_row

    folder, sets = _sets(root or ctx.obj, set_name)
    targets = {name: folder.label_files[name].parent / MANIFEST for name in sets}
    there = [str(path) for path in targets.values() if path.exists()]
    if there and not replace:
        raise UsageError(f"{there[0]}: is there already", "compare with `mabpl manifest check`, or give --replace")
    for name, target in targets.items():
        probed = _probe(target.parent / "videos", None, decode, quiet)
        faults = [f"clip {result.clip_id}: {result.fault}" for result in probed if result.info is None]
        if faults:
            listed = "\n  ".join(faults)
            raise CheckFailed(f"{target}: not written, {len(faults)} of {len(probed)} videos are bad", listed)
        rows = [manifest_row(result.clip_id, result.info) for result in probed if result.info is not None]
        write_text(target, "".join(json.dumps(row) + "\n" for row in rows))
        click.echo(f"{target}: {len(rows)} videos of {name}")


@command.command("check")
@_options
@click.option("--limit", type=int, metavar="N", help="Only the first N clips of each set, by clip id.")
@click.option("--clips", metavar="A,B,...", help="Only these clips.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
def check(
    ctx: click.Context,
    root: str | None,
    set_name: str | None,
    decode: bool,
    quiet: bool,
    limit: int | None,
    clips: str | None,
    as_json: bool,
) -> int:
    """Hold the videos against the manifest and the labels.

    Lists every difference with clip and field, and the videos that are missing, cut off or of no clip. Exit code 1 if
    there is one. A set without a manifest is held against its labels alone.
    """
    folder, sets = _sets(root or ctx.obj, set_name)
    chosen = None if clips is None else [clip for clip in clips.split(",") if clip]
    found = [
        {"set": name, **row._asdict()}
        for name, rows in _differences(folder, sets, limit, chosen, decode, quiet).items()
        for row in rows
    ]
    click.echo(_json(found) if as_json else _text(found, sets), nl=False)
    return int(bool(found))


def _sets(root: str | None, set_name: str | None) -> tuple[Dataset, list[str]]:
    from mabpl.benchmarks.micro_annotation.dataset import open_benchmark
    from mabpl.benchmarks.micro_annotation.naming import resolve_set

    folder = open_benchmark(root or ".")
    return folder, [resolve_set(set_name, folder.sets)] if set_name else folder.sets


def _differences(
    folder: Dataset, sets: list[str], limit: int | None, chosen: list[str] | None, decode: bool, quiet: bool
) -> dict[str, list[Difference]]:
    from mabpl.benchmarks.micro_annotation.dataset import select_clips
    from mabpl.video import manifest

    labels = folder.labels(sets)
    trial = select_clips(labels, limit=limit, clips=chosen)
    columns = ["set", "clip_id", "num_frames", "source_fps", "duration_s"]
    stated = labels.clips.select(columns).rows_by_key("set", named=True)
    found = {}
    for name in sets:
        rows = {row["clip_id"]: row for row in stated.get(name, []) if trial is None or row["clip_id"] in trial}
        beside = folder.label_files[name].parent
        listed = _manifest(folder, name, quiet)
        if listed is not None and trial is not None:
            listed = [row for row in listed if row["clip_id"] in rows]
        probed = _probe(beside / "videos", None if trial is None else rows, decode, quiet)
        found[name] = manifest.check(probed, rows, listed)
    return found


def _manifest(folder: Dataset, name: str, quiet: bool) -> list[dict[str, Any]] | None:
    """The rows of the set's manifest; None where there is none. What cannot be compared is told."""
    from mabpl.video.manifest import unstated

    beside = folder.label_files[name].parent
    if not any((beside / file).is_file() for file in (MANIFEST, f"{MANIFEST}.gz")):
        common.note(f"{name}: there is no manifest; the videos are held against the labels alone", quiet)
        return None
    rows = folder.manifest(name).to_dicts()
    if silent := unstated(rows):
        keys = ", ".join(sorted({key for row in rows for key in row}))
        common.note(f"{name}: the manifest says nothing of {', '.join(silent)}; its keys are {keys}", quiet)
    return rows


def _probe(folder: Path, chosen: Any, decode: bool, quiet: bool) -> list[Probed]:
    from mabpl.video.manifest import probe_all, videos_in

    videos = {clip: path for clip, path in videos_in(folder).items() if chosen is None or clip in chosen}
    return probe_all(videos, decode=decode, done=_progress(folder, len(videos), quiet))


def _progress(folder: Path, total: int, quiet: bool) -> Callable[[str], object]:
    import sys
    from itertools import count

    numbers = count(1)
    shown = not quiet and sys.stderr.isatty()
    return lambda clip: common.note(f"{folder}: {next(numbers)} of {total}, {clip}", not shown)


def _json(found: list[dict[str, Any]]) -> str:
    from mabpl.tables.files import to_json

    return to_json({"valid": not found, "differences": found})


def _text(found: list[dict[str, Any]], sets: list[str]) -> str:
    from mabpl.report.tables import plain

    lines = [
        plain(
            f"{row['set']}, clip {row['clip_id']}, {row['field']}: "
            f"{row['source']} says {row['expected']}, found {row['found']}"
        )
        for row in found
    ]
    counted = f"{len(found)} difference{'s' * (len(found) != 1)}" if found else "the videos are what they should be"
    return "".join(f"{line}\n" for line in [*lines, f"{', '.join(sets)}: {counted}"])
