from __future__ import annotations

import click

from mabpl.cli import common

_SLICES = ("all", "modality", "scenario", "holder")


@click.command("compare")
@click.argument("a", type=click.Path())
@click.argument("b", type=click.Path(), required=False)
@click.option("--run", "runs", multiple=True, help="The run of a result with several; twice: of A, then of B.")
@click.option("--by", default="all,modality", metavar="A,B,...", help=f"Slices: {', '.join(_SLICES)}.")
@click.option("--all", "every", is_flag=True, help="List every value, not only those that changed.")
@click.option("--gates", is_flag=True, help="Exit code 1 where a gate that A keeps does not hold in B.")
@click.option("--format", "format_", type=click.Choice(["terminal", "markdown", "csv", "json"]), default="terminal")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
@common.quiet_option
def command(
    a: str, b: str | None, runs: tuple[str, ...], by: str, every: bool, gates: bool, format_: str, as_json: bool,
    quiet: bool,
) -> int:  # fmt: skip
    """Hold a result A against B: every change of a metric, with n and denominator on both sides.

    A and B are result JSONs or folders of `mabpl ely score` (one with --run A --run B holds two of its runs against
    each other). Differences are A less B, their intervals of the same draws of sources on both sides.
    """
    from mabpl.benchmarks.ely_eye.compare import compare
    from mabpl.benchmarks.ely_eye.results import load_result
    from mabpl.errors import UsageError, unknown_name
    from mabpl.report.ely import comparison_text, digests_of_both
    from mabpl.tables.files import to_json

    slices = [name for name in by.split(",") if name]
    if wrong := [name for name in slices if name not in _SLICES]:
        raise unknown_name("slice", wrong[0], list(_SLICES))
    if len(runs) > 2 or (b is None and len(runs) != 2):
        raise UsageError("one result is to be compared with one", "give a second result, or --run A --run B")
    first = load_result(a)
    second = first if b is None else load_result(b)
    chosen = (runs[0] if runs else None, runs[-1] if runs else None)
    found = compare(first, second, runs=chosen, by=slices)
    for remark in found.notes:
        common.note(remark, quiet)
    if as_json:
        rows = found.metrics if every else found.changed
        document = {"a": found.a, "b": found.b, "notes": list(found.notes), "metrics": rows.to_dicts()}
        click.echo(to_json(document), nl=False)
    else:
        click.echo(comparison_text(found, format_=format_, every=every), nl=False)  # type: ignore[arg-type]
        for line in digests_of_both(found) if format_ in ("csv", "json") else ():
            common.note(line, quiet)
    lost = found.lost_gates() if gates else []
    for line in lost:
        common.note(line)
    return int(bool(lost))
