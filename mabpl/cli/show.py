from __future__ import annotations

from typing import Any

import click

from mabpl.cli import common
from mabpl.settings import Settings


@click.command("show")
@click.argument("clip")
@click.option("--predictions", "-p", type=click.Path(), metavar="FILE", help="The prediction file to draw.")
@click.option("--run", metavar="NAME", help="Which of the dataset folder's runs, where no file is named.")
@common.input_options
@common.settings_options
@click.option("--width", type=click.IntRange(40, 1000), help="Cells (default: the terminal's).")
@click.option("--json", "as_json", is_flag=True, help="The diagnosis of each segment as one JSON document.")
def command(
    clip: str,
    predictions: str | None,
    run: str | None,
    where: dict[str, Any],
    settings: Settings,
    width: int | None,
    as_json: bool,
) -> None:
    """Draw the human and the predicted timeline of CLIP (an id, or the beginning of one).

    Lists for each segment what it matched, by how many frames it is off, and why it failed.
    """
    from mabpl.benchmarks.micro_annotation import one_clip
    from mabpl.report import diagnosis, lanes, tables

    request = common.request({**where, "clips": None, "limit": None}, (predictions,) if predictions else ())
    found = one_clip.find(request, settings, clip, run)
    rows = diagnosis.diagnose(
        found.scores.segments, found.scores.matches, found.run, tolerance_frames=settings.tolerance_frames
    )
    if as_json:
        click.echo(tables.render(rows, format="json"), nl=False)
    else:
        click.echo(f"{tables.plain(found.run)} on {tables.plain(found.clip['set'])}")
        click.echo(lanes.text(found.clip, rows, width=width), nl=False)
