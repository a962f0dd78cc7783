from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mabpl.cli import common, proact_common

if TYPE_CHECKING:
    import polars as pl


@click.command("qa")
@proact_common.submission_options
@proact_common.release_options
@click.option("--ci", type=float, default=0.95, show_default=True, help="Level of the clip-bootstrap intervals.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
@click.option("--out", type=click.Path(), metavar="FILE.json", help="Write that document here.")
@common.quiet_option
def command(
    predictions: tuple[str, ...], where: dict[str, Any], ci: float, as_json: bool, out: str | None, quiet: bool
) -> None:
    """Score submissions on the multiple-choice questions of the dev split.

    Accuracy in percent, over all questions of the split: one without an answer, or with none of its letters, is wrong
    and counted. Refuses the test split, whose answers are withheld. Lines about clips are passed over.
    """
    from mabpl.benchmarks.proact_ego_mem import read_submissions, score_qa
    from mabpl.benchmarks.proact_ego_mem.results import qa_document
    from mabpl.errors import UsageError
    from mabpl.tables import files

    if not predictions:
        raise UsageError("no submission is given", "mabpl proact qa FILE... --labels FILE|DIR")
    release = proact_common.read(where, quiet)
    submissions = read_submissions(predictions, release, parts=["answers"])
    scores = score_qa(release, submissions, level=ci)
    document = qa_document(release, submissions, scores, ci)
    if out is not None:
        files.write_json(Path(out), document)
        common.note(f"written: {out}", quiet)
    click.echo(files.to_json(document) if as_json else _text(scores, ci), nl=False)


def _text(scores: pl.DataFrame, level: float) -> str:
    import polars as pl

    from mabpl.benchmarks.proact_ego_mem.tasks import SHORT_TASKS
    from mabpl.report.tables import Show, render

    short = {name: code for code, name in SHORT_TASKS.items()}
    shown = scores.with_columns(pl.col("track").fill_null("all"), pl.col("task").replace(short).fill_null("all"))
    columns = [
        Show("run"), Show("split"), Show("track"), Show("task"),
        Show("items", "Questions", "count"), Show("missing", "Missing", "count"), Show("illegal", "Illegal", "count"),
        Show("correct", "Correct", "count"), Show("accuracy", "Accuracy %", "interval"),
    ]  # fmt: skip
    notes = [
        "Accuracy over all questions of the split: missing and illegal letters are wrong. "
        f"Intervals: {level:.0%}, clip bootstrap."
    ]
    return render(shown, columns=columns, title="ProactEgoMem: memory probe", notes=notes)
