from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from mabpl.cli import common

if TYPE_CHECKING:
    from mabpl.benchmarks.micro_annotation.figures import Figures


@click.command("compare")
@click.argument("a", type=click.Path())
@click.argument("b", type=click.Path(), required=False)
@click.option("--published", metavar="NAME", help="Compare with the published figures of this run.")
@click.option("--published-file", type=click.Path(), metavar="FILE", help="Where they are (default: in the dataset).")
@click.option("--root", "root_after", type=click.Path(), help="The dataset folder (default: this one).")
@click.option("--run", "runs", multiple=True, help="The run of a result folder; twice: of A, then of B.")
@click.option("--set", "set_name", help="The set of a result folder, by name or alias.")
@click.option("--all", "every", is_flag=True, help="List every clip, not only those that differ.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
@common.quiet_option
@click.pass_obj
def command(
    root_before: str | None,
    a: str,
    b: str | None,
    published: str | None,
    published_file: str | None,
    root_after: str | None,
    runs: tuple[str, ...],
    set_name: str | None,
    every: bool,
    as_json: bool,
    quiet: bool,
) -> int:
    """Compare two results clip by clip, or one with published figures.

    A and B are score JSONs, joint JSONs or result folders (--run and --set choose there; one folder with --run A
    --run B holds two of its runs against each other). Exit code 1 if a value that needs no judge differs by more than
    the published digits; differences of judged values are told and are no failure.
    """
    from mabpl.benchmarks.micro_annotation import figures
    from mabpl.benchmarks.micro_annotation.compare import compare
    from mabpl.errors import UsageError
    from mabpl.report.comparison import comparison_document, comparison_text
    from mabpl.tables.files import to_json

    if len(runs) > 2:
        raise UsageError("--run is given more than twice", "--run A --run B")
    if b is None and published is None and len(runs) == 2:
        b = a
    if (b is None) == (published is None):
        raise UsageError("one result is to be compared with one thing", "give a second result, or --published NAME")
    first = figures.of_result(Path(a), run=runs[0] if runs else None, set_name=set_name)
    if published is None:
        assert b is not None
        second = figures.of_result(Path(b), run=runs[-1] if runs else None, set_name=set_name)
    else:
        second = _published(published, published_file, root_after or root_before or ".", first)
    comparison = compare(first, second)
    for remark in (*first.notes, *second.notes):
        common.note(remark, quiet)
    if as_json:
        click.echo(to_json(comparison_document(comparison)), nl=False)
    else:
        click.echo(comparison_text(comparison, every=every), nl=False)
    return int(comparison.failed)


def _published(name: str, file: str | None, root: str, first: Figures) -> Figures:
    from mabpl.benchmarks.micro_annotation import figures

    path = Path(file) if file else figures.published_file(Path(root), first.set, set(first.clips["clip_id"]))
    return figures.of_published(path, name, first.set)
