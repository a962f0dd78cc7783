from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from mabpl.cli import common
from mabpl.settings import Settings


@click.command("validate")
@click.option(
    "--predictions", "-p", multiple=True, type=click.Path(), metavar="FILE...",
    help="Files, folders or globs; - is standard input (default: all of the dataset folder).",
)  # fmt: skip
@click.argument("more", nargs=-1, type=click.Path())
@common.input_options
@common.settings_options
@click.option("--labels-only", is_flag=True, help="Check the labels files alone.")
@click.option("--fix", type=click.Path(), metavar="OUT", help="Write a corrected copy of the one prediction file here.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document: every problem, and a count per rule.")
@click.option("--all", "every", is_flag=True, help=f"List every problem, not only the first {common.SHOWN}.")
def command(
    predictions: tuple[str, ...],
    more: tuple[str, ...],
    where: dict[str, Any],
    settings: Settings,
    labels_only: bool,
    fix: str | None,
    as_json: bool,
    every: bool,
) -> int:
    """Check prediction files, and the labels that they are held against.

    Lists every problem with file, line, clip and field, and counts them per rule. Exit code 1 if there is an error;
    warnings alone leave it at 0.
    """
    from mabpl.benchmarks.micro_annotation import checks, inputs

    request = common.request(where, (*predictions, *more))
    if fix is not None:
        return _fix(request, fix, as_json)
    if labels_only:
        problems = checks.check_labels(inputs.read_labels_of(request)[0])
        checked = "labels"
    else:
        gathered = inputs.gather(request, settings)
        problems = gathered.problems
        files = len(gathered.predictions.sources)
        clips = gathered.predictions.timelines.height
        checked = f"{files} prediction file{'s' * (files != 1)}, {clips} timelines"
    return common.tell_problems(problems, checked, as_json, every)


def _fix(request: Any, out: str, as_json: bool) -> int:
    from mabpl.benchmarks.micro_annotation import dataset, inputs, naming
    from mabpl.benchmarks.micro_annotation.repair import repair
    from mabpl.errors import UsageError
    from mabpl.reading.problems import errors_of
    from mabpl.report import tables
    from mabpl.tables import files

    found = naming.expand_predictions(request.predictions)
    if len(found) != 1:
        raise UsageError(f"--fix takes one prediction file, not {len(found)}", "name it: --predictions FILE --fix OUT")
    if Path(out).exists() and Path(found[0]).exists() and Path(out).samefile(found[0]):
        raise UsageError(f"{out}: --fix does not overwrite the file that it corrects", "give another name")
    labels, set_name = inputs.read_labels_of(request)
    clips = dataset.select_clips(labels, limit=request.limit, clips=request.clips)
    repaired = repair(found[0], labels, set_name=set_name, clips=clips)
    files.write_bytes(Path(out), repaired.data)
    if as_json:
        document = {
            "changes": repaired.changes.to_dicts(),
            "remaining": repaired.remaining.to_dicts(),
            "notes": list(repaired.notes),
        }
        click.echo(files.to_json(document), nl=False)
        return int(not errors_of(repaired.remaining).is_empty())
    for remark in repaired.notes:
        click.echo(tables.plain(remark))
    if not repaired.changes.is_empty():
        click.echo(tables.render(repaired.changes, title=f"What changed in {found[0]}"), nl=False)
        click.echo()
    click.echo(f"{out}: written, {repaired.changes.height} changes")
    return common.tell_problems(repaired.remaining, "what remains", as_json=False, every=False)
