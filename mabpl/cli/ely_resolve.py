from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from mabpl.cli import common

_LISTED = 10


@click.command("resolve")
@click.argument("root", required=False, type=click.Path())
@click.option("--root", "root_after", type=click.Path(), help="The benchmark's folder, in place of ROOT.")
@click.option("--atoms", required=True, type=click.Path(), metavar="FILE", help="JSON lines or parquet.")
@click.option(
    "--split", type=click.Choice(["dev", "test"]), default="dev",
    help="Whose gold (default: dev; test is for final acceptance alone, and the report says so).",
)  # fmt: skip
@click.option(
    "--out", type=click.Path(), metavar="FILE", help="Write the table ely_resolved: .parquet, .jsonl or .csv."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
@common.quiet_option
@click.pass_context
def command(
    ctx: click.Context,
    root: str | None,
    root_after: str | None,
    atoms: str,
    split: Any,
    out: str | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Say which atoms of a system each gold region is.

    The gold of ROOT (default: this folder) names sources and regions; the atoms that overlap them depend on how the
    system cuts its sources. Void entries are left out.
    """
    from mabpl.benchmarks.ely_eye import read_atoms, read_benchmark, resolve
    from mabpl.benchmarks.ely_eye.resolve import coverage
    from mabpl.reading.problems import require_valid
    from mabpl.report import tables
    from mabpl.report.ely import digests
    from mabpl.tables.files import to_json
    from mabpl.tables.folder import write_frame

    benchmark = read_benchmark(root or root_after or ctx.obj or ".")
    require_valid(benchmark.problems, "mabpl ely validate", "")
    held = read_atoms(atoms, benchmark.sources)
    require_valid(held.problems, "mabpl ely validate --atoms", "")
    gold = benchmark.scored_gold(split)
    resolved = resolve(gold, held.atoms, benchmark.sources, benchmark.symbols)
    if out is not None:
        write_frame(Path(out), resolved, "ely_resolved")
        common.note(f"written: {out}, {resolved.height} pairs", quiet)
    table = coverage(gold, resolved)
    without = gold.join(resolved, on=["query_id", "gold"], how="anti").select("query_id", "gold", "source_id")
    if as_json:
        facts = benchmark.facts() | {
            "atoms": {"file": Path(atoms).name, "sha256": held.sha256, "count": held.atoms.height}
        }
        document = {**facts, "split": split, "coverage": table.to_dicts(), "without_atom": without.to_dicts()}
        click.echo(to_json(document), nl=False)
        return
    shown = table.with_columns(table["modality"].fill_null("all"))
    click.echo(
        tables.render(shown, title=f"Gold regions of the split {split}, and {held.atoms.height} atoms"), nl=False
    )
    for query_id, index, source_id in without.head(_LISTED).iter_rows():
        click.echo(tables.plain(f"no atom: {query_id}, gold[{index}], of {source_id}"))
    if without.height > _LISTED:
        click.echo(f"... and {without.height - _LISTED} more (--json lists them)")
    for line in digests({"sha256": benchmark.digests()}):
        click.echo(tables.plain(line))
