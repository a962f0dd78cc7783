from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from mabpl.cli import common

if TYPE_CHECKING:
    import polars as pl


@click.command("agreement")
@click.argument("sources", nargs=-1, type=click.Path(), metavar="SOURCE [SOURCE]")
@click.option("--labels-file", multiple=True, type=click.Path(), metavar="FILE", help="What people (or others) said.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
@common.quiet_option
def command(sources: tuple[str, ...], labels_file: tuple[str, ...], as_json: bool, quiet: bool) -> None:
    """How far raters agree: the seeds of a judge, two judges, a judge and people.

    SOURCE is a result folder, a .scores.json or .joint.json, the folder of a verdict store, a verdicts table (parquet
    or JSON lines), a file of opinions, or `embedded`, which asks the embedded judge about what the others hold.

    A file of opinions (--labels-file, or a SOURCE) is JSON lines or CSV with a row per answer: predicted_label and
    human_label (or request), and score (0-100), equivalent, accepted or same_event (true or false); and clip_id, also,
    rater, seed and kind where it has them.

    Of results it also tells how far PA-F1 moves with the judge seed.
    """
    from mabpl.benchmarks.micro_annotation import opinions, trust
    from mabpl.errors import UsageError
    from mabpl.tables.files import to_json

    named = [*sources, *labels_file]
    files = [name for name in named if name != opinions.EMBEDDED]
    if not files:
        raise UsageError("no verdicts are named", "give a result folder, a .scores.json, a verdict store, or a file")
    read = [opinions.read_opinions(name) for name in files]
    for remark in (note for source in read for note in source.notes):
        common.note(remark, quiet)
    found = trust.agreement(read, embedded=len(files) < len(named))
    spread = {name: table for name in files if _is_result(name) and not (table := trust.seed_spread(name)).is_empty()}
    if as_json:
        document = {
            "agreement": found.to_dicts(),
            "judge_seeds": {Path(name).name: table.to_dicts() for name, table in spread.items()},
        }
        click.echo(to_json(document), nl=False)
        return
    click.echo(_agreement_text(found), nl=False)
    for name, table in spread.items():
        click.echo("\n" + _spread_text(Path(name).name, table), nl=False)


def _is_result(name: str) -> bool:
    from mabpl.tables.folder import MANIFEST

    path = Path(name)
    return (path / MANIFEST).is_file() or path.suffix == ".json"


def _agreement_text(found: pl.DataFrame) -> str:
    from mabpl.report.tables import Show, render

    columns = [
        Show("kind"),
        Show("between"),
        Show("pairs", kind="count"),
        Show("clips", kind="count"),
        Show("share_equal", "Equal", kind="interval", digits=2),
        Show("kappa", "Kappa", kind="interval", digits=2),
        Show("alpha", "Alpha", kind="interval", digits=2),
        Show("score_alpha", "Alpha of scores", kind="interval", digits=2),
        Show("distance", "Distance of scores", kind="interval"),
    ]
    shown = [show for show in columns if found[show.name].null_count() < found.height]
    notes = [
        "Equal, kappa (Cohen's) and alpha (Krippendorff's, nominal) are of the decision: pa: equivalent, joint: "
        "accepted. Alpha of scores is Krippendorff's for intervals, distance the mean absolute difference in points of "
        "100. In brackets: 95% intervals of a bootstrap over clips."
    ]
    if found["clips"].null_count():
        notes.append("Where no clips are told they are not known: requests are drawn in their place.")
    return render(found, columns=shown, title="Agreement", notes=notes)


def _spread_text(name: str, table: pl.DataFrame) -> str:
    import polars as pl

    from mabpl.report.results import ALL_SETS
    from mabpl.report.tables import Show, render

    seeds = [column for column in table.columns if column.startswith("seed_")]
    columns = [
        Show("configuration", "Configuration"),
        Show("set", "Set"),
        Show("runs", "Runs", kind="count"),
        Show("clips", "Clips", kind="count"),
        *(Show(seed, f"Seed {seed.removeprefix('seed_')}", kind="percent", digits=2) for seed in seeds),
        Show("pa_f1", "Mean", kind="percent", digits=2),
        Show("judge_sd", "SD judge seeds", kind="percent", digits=2),
        Show("judge_sd_run", "of one run", kind="percent", digits=2),
        Show("generation_sd", "SD generation seeds", kind="percent", digits=2),
    ]
    notes = ["Clips: those with every verdict of every judge seed. SD: sample standard deviation (n - 1)."]
    shown = table.with_columns(pl.col("set").fill_null(ALL_SETS))
    return render(shown, columns=columns, title=f"PA-F1 by judge seed: {name}", notes=notes)
