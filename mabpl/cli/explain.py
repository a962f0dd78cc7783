from __future__ import annotations

import click


@click.command("explain")
@click.argument("metric", required=False)
def command(metric: str | None) -> None:
    """Print the definition of METRIC, the options that change it, and a worked example; or all `options`."""
    from mabpl.report import explain

    click.echo(explain.text(metric), nl=False)
