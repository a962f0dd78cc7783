from __future__ import annotations

import click

from mabpl.cli import common


@click.command("validate")
@click.argument("root", required=False, type=click.Path())
@click.option("--root", "root_after", type=click.Path(), help="The benchmark's folder, in place of ROOT.")
@click.option("--atoms", multiple=True, type=click.Path(), metavar="FILE", help="Check a system's atoms too.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document: every problem, and a count per rule.")
@click.option("--all", "every", is_flag=True, help=f"List every problem, not only the first {common.SHOWN}.")
@click.pass_context
def command(
    ctx: click.Context, root: str | None, root_after: str | None, atoms: tuple[str, ...], as_json: bool, every: bool
) -> int:
    """Check all of a benchmark's folder (default: this one).

    ROOT holds sets/*.jsonl and corpus/manifest.jsonl. Every broken rule of the annotation schema is told with file,
    line and field, and the digest of every frozen file is computed anew. Exit code 1 if there is an error.
    """
    from mabpl.benchmarks.ely_eye import read_atoms, read_benchmark
    from mabpl.reading.problems import merge_problems

    benchmark = read_benchmark(root or root_after or ctx.obj or ".")
    held = [read_atoms(file, benchmark.sources) for file in atoms]
    facts = benchmark.facts() | {"atoms": {a.file: a.atoms.height for a in held}}
    checked = "{queries} queries ({void} void), {sources} sources, {sets} sets".format(**facts)
    checked += "".join(f", {a.atoms.height} atoms" for a in held)
    problems = merge_problems(benchmark.problems, *(a.problems for a in held))
    return common.tell_problems(problems, checked, as_json, every, kind="", facts=facts)
