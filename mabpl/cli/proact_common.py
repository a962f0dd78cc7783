"""Options that the commands of ProactEgoMem share."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mabpl.cli.common import Command, note

if TYPE_CHECKING:
    from mabpl.benchmarks.proact_ego_mem import Release
    from mabpl.benchmarks.proact_ego_mem.events import EventScores


def release_options(function: Command) -> Command:
    """--labels, --track, --task, --split: which released files are meant; gives the function ``where``."""

    @click.option(
        "--labels", multiple=True, type=click.Path(), metavar="FILE|DIR",
        help="A released file, or a folder of them (default: the folder of --root, else this one). Repeatable.",
    )  # fmt: skip
    @click.option("--track", help="The track of these files (default: their folder's name less _dev or _test).")
    @click.option("--task", "tasks", multiple=True, help="Only this task, or IC, ST, LT. Repeatable.")
    @click.option("--split", type=click.Choice(["dev", "test"]), help="Only this split.")
    @click.pass_context
    @functools.wraps(function)
    def wrapped(ctx: click.Context, /, *args: Any, **options: Any) -> Any:
        where = {name: options.pop(name) for name in ("labels", "track", "tasks", "split")}
        return function(*args, where={**where, "root": ctx.obj}, **options)

    return wrapped


def submission_options(function: Command) -> Command:
    """-p and further arguments: the submissions; gives the function ``predictions``."""

    @click.option(
        "--predictions", "-p", multiple=True, type=click.Path(), metavar="FILE...",
        help="Submissions: files, folders or globs; - is standard input.",
    )  # fmt: skip
    @click.argument("more", nargs=-1, type=click.Path())
    @functools.wraps(function)
    def wrapped(*args: Any, predictions: tuple[str, ...], more: tuple[str, ...], **options: Any) -> Any:
        return function(*args, predictions=(*predictions, *more), **options)

    return wrapped


def read(where: dict[str, Any], quiet: bool = False) -> Release:
    """The released files that are meant, as they were selected."""
    from mabpl.benchmarks.proact_ego_mem import read_release
    from mabpl.errors import UsageError

    paths = where["labels"] or (where["root"] or ".",)
    release = read_release(paths, track=where["track"])
    for remark in release.notes:
        note(remark, quiet)
    if not release.files and release.problems.is_empty():
        named = ", ".join(map(str, paths))
        raise UsageError(f"{named}: no released file is there", "give --labels FILE or a folder of them")
    if not release.files or not (where["tasks"] or where["split"]):
        return release
    splits = [where["split"]] if where["split"] else None
    return release.select(tasks=where["tasks"] or None, splits=splits)


def prompts_of(root: Any) -> dict[str, Any]:
    """What `judging` takes for the place of prompts and store: the folder ``root``; without one, our own prompts."""
    return {"root_after": root, "root_before": None, "labels": None if root else ""}


def events_of(where: dict[str, Any], files: tuple[str, ...], assignments: tuple[str, ...]) -> EventScores:
    """The unjudged events of submissions; ``where`` is that of `input_options`, ``assignments`` as `score` takes them.

    Raises :class:`UsageError` for what chooses timelines and not released files.
    """
    from mabpl.benchmarks.proact_ego_mem import read_release, read_submissions
    from mabpl.benchmarks.proact_ego_mem.event_options import EventOptions
    from mabpl.benchmarks.proact_ego_mem.events import score_events
    from mabpl.errors import UsageError

    if any(where[name] is not None for name in ("set_name", "limit", "clips")):
        raise UsageError("--set, --limit and --clips are of timelines", "--labels FILE|DIR names the released files")
    if not files:
        raise UsageError("no submission is given", "-p FILE... --labels FILE|DIR, as for mabpl proact score")
    options = EventOptions.parse(assignments)
    release = read_release(where["labels"] or where["root_after"] or where["root_before"] or ".")
    return score_events(release, read_submissions(files, release, parts=["mentions"]), options=options, level=None)


def write_or_print(text: str, out: str | None, quiet: bool) -> None:
    """``text`` into the file ``out``, else on standard output."""
    from mabpl.tables.files import write_text

    if out is None:
        click.echo(text, nl=False)
    else:
        write_text(Path(out), text)
        note(f"written: {out}", quiet)
