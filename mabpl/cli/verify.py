from __future__ import annotations

from pathlib import Path

import click

from mabpl.cli import common

_SHOWN = 50


@click.command("verify")
@click.argument("result", type=click.Path())
@click.option(
    "--predictions", "-p", multiple=True, type=click.Path(), metavar="FILE...",
    help="The prediction files (default: by their recorded names, beside the result or in the dataset).",
)  # fmt: skip
@click.option(
    "--root", "root_after", type=click.Path(), help="The dataset folder (default: this one, or above RESULT)."
)
@click.option("--labels", type=click.Path(), help="A labels file instead of a dataset folder.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
@common.quiet_option
@click.pass_obj
def command(
    root_before: str | None,
    result: str,
    predictions: tuple[str, ...],
    root_after: str | None,
    labels: str | None,
    as_json: bool,
    quiet: bool,
) -> int:
    """Recompute a score JSON, a joint JSON or a result folder from its inputs, and say what differs.

    Works offline, with the settings and verdicts that RESULT records. Exit code 1 if anything differs.
    """
    from mabpl.benchmarks.micro_annotation.verify import verify
    from mabpl.errors import UsageError
    from mabpl.report.tables import plain
    from mabpl.tables.files import to_json

    root = root_after or root_before
    if root and labels:
        raise UsageError("--root and --labels name two sources of labels", "give one of them")
    verification = verify(Path(result), predictions=predictions, root=root, labels=labels)
    rows = verification.table
    for remark in verification.notes:
        common.note(remark, quiet)
    if as_json:
        document = {
            "identical": verification.identical,
            "runs": verification.runs,
            "differences": rows.to_dicts(),
            "notes": list(verification.notes),
        }
        click.echo(to_json(document), nl=False)
        return int(not verification.identical)
    if verification.identical:
        click.echo(plain(f"{result}: identical, {verification.runs} run{'s' * (verification.runs != 1)} recomputed"))
        return 0
    for where, recorded, recomputed in rows.head(_SHOWN).iter_rows():
        click.echo(plain(f"{where}: {recorded}, recomputed {recomputed}"))
    if rows.height > _SHOWN:
        click.echo(f"... and {rows.height - _SHOWN} more (--json lists them)")
    click.echo(plain(f"{result}: {rows.height} difference{'s' * (rows.height != 1)}"))
    return 1
