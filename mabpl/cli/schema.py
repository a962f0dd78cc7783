from __future__ import annotations

from pathlib import Path

import click

from mabpl.cli import common


@click.command("schema")
@click.argument("name", required=False)
@click.option("--write", "folder", type=click.Path(), metavar="DIR", help="Write every page into this folder.")
def command(name: str | None, folder: str | None) -> None:
    """Print the columns of the table NAME, or the JSON Schema of the file NAME; without a name, list them all."""
    from mabpl.report import schema_pages
    from mabpl.report.tables import render
    from mabpl.tables import files

    if folder is not None:
        pages = schema_pages.pages()
        for file, text in pages.items():
            files.write_text(Path(folder) / file, text)
        common.note(f"written: {len(pages)} pages in {folder}")
    elif name is None:
        click.echo(render(schema_pages.listing(), notes=["mabpl schema NAME prints one of them."]), nl=False)
    else:
        click.echo(schema_pages.page(name), nl=False)
