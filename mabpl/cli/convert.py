from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

_SHOWN = 50


@click.group("convert")
def command() -> None:
    """Change the timelines of a prediction file by a stated rule; every change is listed."""


def _verb(name: Literal["cut", "resolve"], text: str) -> None:
    @command.command(name, help=text)
    @click.argument("file", type=click.Path(), metavar="FILE")
    @click.option("--out", type=click.Path(), required=True, metavar="OUT", help="The new prediction file.")
    @click.option("--json", "as_json", is_flag=True, help="One JSON document: every change.")
    @click.option("--all", "every", is_flag=True, help=f"List every change, not only the first {_SHOWN}.")
    def verb(file: str, out: str, as_json: bool, every: bool) -> None:
        from mabpl.benchmarks.micro_annotation.postprocess import convert
        from mabpl.errors import UsageError
        from mabpl.report import tables
        from mabpl.tables import files

        if Path(out).exists() and Path(file).exists() and Path(out).samefile(file):
            raise UsageError(f"{out}: the file that is read is not overwritten", "give another name")
        converted = convert(file, name)
        files.write_bytes(Path(out), converted.data)
        if as_json:
            click.echo(files.to_json({"rule": name, "changes": converted.changes.to_dicts()}), nl=False)
            return
        shown = converted.changes if every else converted.changes.head(_SHOWN)
        if not shown.is_empty():
            click.echo(tables.render(shown, title=f"What changed in {file}"), nl=False)
            click.echo()
        if shown.height < converted.changes.height:
            click.echo(f"... and {converted.changes.height - shown.height} more (--all lists them)")
        click.echo(tables.plain(f"{out}: written, {converted.changes.height} changes"))


_verb(
    "cut",
    "Cut each segment longer than 10 s into equal consecutive pieces of at most 10 s, with the same label: for a"
    " pipeline that was never told of the limit.",
)
_verb(
    "resolve",
    "Resolve overlaps: segments in order of time, each starting no earlier than the one before it ends; one that this"
    " empties is left out.",
)
