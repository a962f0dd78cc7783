from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mabpl.cli import common

if TYPE_CHECKING:
    from mabpl.benchmarks.ely_eye.options import ElyOptions

_SLICES = ("all", "modality", "scenario", "holder")


@click.command("score")
@click.argument("runs", nargs=-1, required=True, type=click.Path(), metavar="RUN...")
@click.option("--root", "root_after", type=click.Path(), help="The benchmark's folder (default: this one).")
@click.option("--atoms", required=True, type=click.Path(), metavar="FILE", help="What the system holds.")
@click.option(
    "--split", type=click.Choice(["dev", "test"]), default="dev",
    help="Queries that count (default: dev; test is for final acceptance alone, and the result says so).",
)  # fmt: skip
@click.option("--tau", metavar="SCORE", help="An atom is strong from this score on (default: by its flag).")
@click.option(
    "--missing", type=click.Choice(["refuse", "empty", "skip"]),
    help="A query that a run lacks: an error (default), nothing returned, or left out.",
)  # fmt: skip
@click.option(
    "--set-option", "assignments", multiple=True, metavar="KEY=VALUE",
    help="A reading: denominator, recall_unit, whole_source, cross_holder, tau, missing.",
)  # fmt: skip
@click.option("--by", default="all,modality", metavar="A,B,...", help=f"Slices to print: {', '.join(_SLICES)}.")
@click.option("--every", is_flag=True, help="Print every reading of every slice, not only the chosen one.")
@click.option("--gates", is_flag=True, help="Exit code 1 where a gate does not hold, over all or in a modality.")
@click.option("--check", is_flag=True, help="Check the files alone, and list every problem.")
@click.option("--out", type=click.Path(), metavar="FILE", help="Write the result as one JSON document.")
@click.option("--tables", type=click.Path(), metavar="DIR", help="Write the result as a folder of parquet tables.")
@click.option("--format", "format_", type=click.Choice(["terminal", "markdown", "csv", "json"]), default="terminal")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output: what --out writes.")
@common.quiet_option
@click.pass_context
def command(
    ctx: click.Context, /, runs: tuple[str, ...], root_after: str | None, atoms: str, split: Any, quiet: bool,
    **rest: Any,
) -> int:  # fmt: skip
    """Score what systems returned for the queries.

    RUN: JSON lines or parquet (files, folders, globs), a row per query: see `mabpl schema ely_run`. Prints recall@10,
    MRR, nDCG@10, false recall, temporal and holder correctness and latencies, each with n and denominator, and the
    gates. Gates alone do not change the exit code: see --gates. Files with errors are not scored: every problem is
    listed (exit code 1).
    """
    from mabpl.benchmarks.ely_eye import results, scoring
    from mabpl.errors import unknown_name
    from mabpl.reading.problems import errors_of
    from mabpl.report.ely import digests, scores_text
    from mabpl.tables import files

    options = _options(rest)
    by = [name for name in rest["by"].split(",") if name]
    if wrong := [name for name in by if name not in _SLICES]:
        raise unknown_name("slice", wrong[0], list(_SLICES))
    inputs = scoring.gather(root_after or ctx.obj or ".", atoms, runs, options, split)
    for remark in inputs.runs.notes:
        common.note(remark, quiet)
    if rest["check"] or not errors_of(inputs.problems).is_empty():
        count = len(inputs.runs.sources)
        checked = f"{count} run{'s' * (count != 1)}, {inputs.queries.height} queries of the split {split}"
        return common.tell_problems(inputs.problems, checked, rest["as_json"], True, kind="")
    scores = scoring.score(inputs, options)
    common.tell_warnings(inputs.problems, quiet, "mabpl ely score --check")
    if rest["as_json"]:
        click.echo(files.to_json(results.document(scores)), nl=False)
    else:
        click.echo(scores_text(scores, format_=rest["format_"], by=by, every=rest["every"]), nl=False)
        for line in digests(scores.facts) if rest["format_"] in ("csv", "json") else ():
            common.note(line, quiet)
    if rest["out"]:
        files.write_json(Path(rest["out"]), results.document(scores))
        common.note(f"written: {rest['out']}", quiet)
    if rest["tables"]:
        results.write_result_folder(scores, Path(rest["tables"]))
        common.note(f"tables: {rest['tables']}", quiet)
    failures = scores.failures()
    for failure in failures if rest["gates"] else []:
        common.note(failure)
    if rest["gates"] and failures:
        return 1
    return common.PARTIAL if scores.partial else 0


def _options(rest: dict[str, Any]) -> ElyOptions:
    from mabpl.benchmarks.ely_eye.options import ElyOptions

    given = [f"{name}={rest[name]}" for name in ("tau", "missing") if rest[name] is not None]
    return ElyOptions.parse([*rest["assignments"], *given])
