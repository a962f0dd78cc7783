"""Options that several commands share, and how they talk."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from mabpl.settings import Settings

if TYPE_CHECKING:
    import polars as pl

    from mabpl.benchmarks.micro_annotation.inputs import Request

Command = Callable[..., Any]

SHOWN = 50
"""Problems that are listed where not all are asked for."""

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

    @assignment_options
    @functools.wraps(function)
    def wrapped(*args: Any, assignments: tuple[str, ...], **options: Any) -> Any:
        return function(*args, settings=Settings.parse(assignments), **options)

    return wrapped


def assignment_options(function: Command) -> Command:
    """As :func:`settings_options`, where they may be another benchmark's; gives the function ``assignments``."""

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
        given = (*assignments, *([f"missing={missing}"] if missing else []))
        return function(*args, assignments=given, **options)

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


def tell_warnings(problems: pl.DataFrame, quiet: bool, lister: str = "mabpl validate") -> None:
    """One line that counts the warnings. ``lister``: the command that lists them."""
    from mabpl.reading.problems import counts

    warnings = counts(problems.filter(severity="warning"))
    if not warnings.is_empty():
        listed = ", ".join(f"{rule} {count}" for _, rule, count in warnings.iter_rows())
        note(f"warnings: {listed} ({lister} lists them)", quiet)


def tell_problems(
    problems: pl.DataFrame,
    checked: str,
    as_json: bool,
    every: bool,
    *,
    kind: str = "clip",
    facts: Mapping[str, Any] | None = None,
) -> int:
    """Lists and counts them, of all that was ``checked``; gives the exit code.

    ``kind``: see ``describe``. ``facts``: what the JSON document tells beside them.
    """
    from mabpl.reading.problems import counts, describe, errors_of
    from mabpl.report import tables
    from mabpl.tables.files import to_json

    failed = not errors_of(problems).is_empty()
    if as_json:
        told = {"counts": counts(problems).to_dicts(), "problems": problems.to_dicts()}
        click.echo(to_json({"valid": not failed, **(facts or {}), **told}), nl=False)
        return int(failed)
    shown = problems if every else problems.sort("severity", maintain_order=True).head(SHOWN)
    hint = None
    for row in shown.iter_rows(named=True):
        click.echo(f"{row['severity']}: {tables.plain(describe(row, kind))}")
        if row["hint"] and row["hint"] != hint:
            click.echo(f"  {tables.plain(row['hint'])}")
        hint = row["hint"]
    if problems.height > shown.height:
        click.echo(f"... and {problems.height - shown.height} more (--all lists them)")
    if not problems.is_empty():
        click.echo()
        click.echo(tables.render(counts(problems)), nl=False)
        click.echo()
    errors = errors_of(problems).height
    click.echo(f"{checked}: {f'{errors} error' + 's' * (errors > 1) if failed else 'valid'}")
    return int(failed)
