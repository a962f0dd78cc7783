from __future__ import annotations

from pathlib import Path

import click

from mabpl.cli import common


@click.command("headline")
@click.argument("scores", nargs=-1, required=True, type=click.Path())
@click.option("--joint", multiple=True, type=click.Path(), help="A joint JSON; more may follow it.")
@click.option("--out", type=click.Path(), metavar="FILE", help="Write the combination as JSON.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
def command(scores: tuple[str, ...], joint: tuple[str, ...], out: str | None, as_json: bool) -> None:
    """Combine the sets of one model: their values weighted by their numbers of clips, before rounding.

    SCORES are score JSONs, one per set; joint JSONs may stand among them or after --joint.
    """
    from mabpl.benchmarks.micro_annotation.headline import combine
    from mabpl.report.results import sets_text
    from mabpl.tables import files

    combined = combine([*scores, *joint])
    for warning in combined.warnings:
        common.note(f"warning: {warning}")
    if out is not None:
        files.write_json(Path(out), combined.document)
    if as_json:
        click.echo(files.to_json(combined.document), nl=False)
    else:
        click.echo(sets_text(combined.table, judging={"judges": combined.judges}), nl=False)
    if combined.document["combined"]["headline"] is None and not as_json:
        click.echo("No headline score: it needs PA-F1, which only a judge of labels gives.")
