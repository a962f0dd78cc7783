from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mabpl.cli import common, proact_common

if TYPE_CHECKING:
    from mabpl.benchmarks.proact_ego_mem import Release


@click.command("validate")
@proact_common.submission_options
@proact_common.release_options
@click.option(
    "--release", "whole", type=click.Path(), metavar="DIR",
    help="Check the files of this folder as a whole release, against the published totals.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="One JSON document: every problem, and a count per rule.")
@click.option("--all", "every", is_flag=True, help=f"List every problem, not only the first {common.SHOWN}.")
@common.quiet_option
def command(
    predictions: tuple[str, ...], where: dict[str, Any], whole: str | None, as_json: bool, every: bool, quiet: bool
) -> int:
    """Check released files, and the submissions that are held against them.

    Without --labels, JSON files among the arguments, and folders that hold some, are the released files.

    Lists every problem with file and JSON path (of a submission: line, clip and field), and counts them per rule. Exit
    code 1 if there is an error; warnings alone leave it at 0. Submissions for a test split are checked as any other.
    """
    from mabpl.benchmarks.proact_ego_mem import read_submissions
    from mabpl.benchmarks.proact_ego_mem.totals import check_totals, totals_problems
    from mabpl.errors import UsageError
    from mabpl.reading.problems import merge_problems, problems_table
    from mabpl.report import tables

    if whole is not None:
        if where["labels"] or where["tasks"] or where["split"] or where["track"]:
            raise UsageError("--release checks the whole folder", "leave out --labels, --track, --task and --split")
        where = {**where, "labels": (whole,)}
    elif not where["labels"]:
        labels = tuple(path for path in predictions if _holds(Path(path), (".json", ".json.gz")))
        predictions = tuple(path for path in predictions if path not in labels)
        for path in labels:
            if _holds(Path(path), (".jsonl", ".jsonl.gz")):
                common.note(f"{path}: its JSON lines are not checked; name the submissions, and --labels {path}")
        where = {**where, "labels": labels}
    release = proact_common.read(where, quiet)
    parts = [release.problems]
    checked = _told(release)
    if whole is not None:
        totals = check_totals(release)
        parts.append(problems_table(totals_problems(totals, whole, release)))
        if not as_json:
            click.echo(tables.render(totals, title="Published totals"))
    if predictions:
        submissions = read_submissions(predictions, release)
        parts.append(submissions.problems)
        mentions, answers = submissions.mentions.height, submissions.qa_answers.height
        checked += f"; {submissions.runs.height} submissions, {mentions} mentions, {answers} answers"
    return common.tell_problems(merge_problems(*parts), checked, as_json, every)


def _holds(path: Path, endings: tuple[str, ...]) -> bool:
    """Whether it is a file of one of ``endings``, or a folder of some."""
    names = (found.name for found in path.rglob("*.json*")) if path.is_dir() else (path.name,)
    return any(name.endswith(endings) for name in names)


def _told(release: Release) -> str:
    clips, segments = release.clips, release.segments
    negatives = int(clips["declared_negative"].fill_null(False).sum())
    emptied = clips.filter((clips["listed"] > 0) & (clips["scored"] == 0)).height
    open_ones, dropped = int(segments["is_open"].sum()), int(segments["dropped"].sum())
    withheld = sum(not one.ground_truth_released for one in release.files)
    return (
        f"{len(release.files)} released files ({withheld} of them without annotations), "
        f"{clips.height} clips ({negatives} declared negative, {emptied} emptied), "
        f"{segments.height} segments ({open_ones} open, {dropped} dropped), {release.qa_items.height} questions"
    )
