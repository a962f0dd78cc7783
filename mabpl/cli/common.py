"""Options that several commands share, and how they talk."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from mabpl.settings import Settings

if TYPE_CHECKING:
    import polars as pl

    from mabpl.benchmarks.micro_annotation.inputs import Request

Command = Callable[..., Any]

PARTIAL = 3
INTERRUPTED = 130


def input_options(function: Command) -> Command:
    """--root, --labels, --set, --limit, --clips: which timelines are meant; gives the function ``where``."""

    @click.option("--root", "root_after", type=click.Path(), help="The dataset folder (default: this one).")
    @click.option("--labels", type=click.Path(), help="A labels file instead of a dataset folder.")
    @click.option("--set", "set_name", help="A set or its alias (default: the one whose labels hold the clips).")
    @click.option("--limit", type=int, metavar="N", help="Only the first N clips of each set, by clip id.")
    @click.option("--clips", metavar="A,B,...", help="Only these clips.")
    @click.pass_context
    @functools.wraps(function)
    def wrapped(ctx: click.Context, /, *args: Any, **options: Any) -> Any:
        where = {name: options.pop(name) for name in ("root_after", "labels", "set_name", "limit", "clips")}
        return function(*args, where={**where, "root_before": ctx.obj}, **options)

    return wrapped


def settings_options(function: Command) -> Command:
    """--set-option and --missing; gives the function ``settings``."""

    @click.option(
        "--set-option", "assignments", multiple=True, metavar="KEY=VALUE",
        help="A reading of the metrics: " + ", ".join(Settings.names()) + " (see `mabpl explain options`).",
    )  # fmt: skip
    @click.option(
        "--missing", type=click.Choice(["refuse", "empty", "skip"]),
        help="A clip without a prediction: an error (default), an empty timeline, or left out.",
    )  # fmt: skip
    @functools.wraps(function)
    def wrapped(*args: Any, assignments: tuple[str, ...], missing: str | None, **options: Any) -> Any:
        given = [*assignments, *([f"missing={missing}"] if missing else [])]
        return function(*args, settings=Settings.parse(given), **options)

    return wrapped


def quiet_option(function: Command) -> Command:
    return click.option("--quiet", is_flag=True, help="No notes on standard error.")(function)


def request(where: dict[str, Any], predictions: tuple[str, ...] = (), map_file: str | None = None) -> Request:
    from mabpl.benchmarks.micro_annotation.inputs import Request

    clips = where["clips"]
    return Request(
        root=where["root_after"] or where["root_before"],
        labels=where["labels"],
        set_name=where["set_name"],
        predictions=predictions,
        limit=where["limit"],
        clips=None if clips is None else [clip for clip in clips.split(",") if clip],
        map_file=map_file,
    )


def note(text: str, quiet: bool = False) -> None:
    """A remark on standard error."""
    if not quiet:
        from mabpl.report.tables import plain

        click.echo(plain(text), err=True)


def tell_warnings(problems: pl.DataFrame, quiet: bool) -> None:
    """One line that counts the warnings."""
    from mabpl.reading.problems import counts

    warnings = counts(problems.filter(severity="warning"))
    if not warnings.is_empty():
        listed = ", ".join(f"{rule} {count}" for _, rule, count in warnings.iter_rows())
        note(f"warnings: {listed} (mabpl validate lists them)", quiet)
