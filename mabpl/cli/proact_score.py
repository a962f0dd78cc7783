from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mabpl.cli import common, proact_common
from mabpl.cli.judges import WAYS, Bar, judging, object_judge_options, tell_asked, tell_forecasts, tell_marked

if TYPE_CHECKING:
    from mabpl.benchmarks.proact_ego_mem.event_options import EvalConfig, EventOptions
    from mabpl.benchmarks.proact_ego_mem.events import EventScores, JudgedEvents
    from mabpl.judges.asking import Judging

_WHY = "whether a mention is about the right object takes a judge"


@click.command("score")
@proact_common.submission_options
@proact_common.release_options
@click.option("--eval-config", type=click.Path(), metavar="FILE", help="JSON that sets options of the scoring.")
@click.option(
    "--set-option", "assignments", multiple=True, metavar="KEY=VALUE",
    help="early_s (1), late_s (2), matching (optimal, in_order), duplicates (false_positives, ignored), "
    "label_hygiene (on, off).",
)  # fmt: skip
@object_judge_options
@click.option("--ci", type=float, default=0.95, show_default=True, help="Level of the clip-bootstrap intervals.")
@click.option("--out", type=click.Path(), metavar="FILE.json", help="Write the result as JSON here.")
@click.option("--tables", type=click.Path(), metavar="DIR", help="Write every table as parquet.")
@click.option("--format", "format_", type=click.Choice(["terminal", "markdown", "csv", "json"]), default="terminal")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
@common.quiet_option
def command(
    predictions: tuple[str, ...],
    where: dict[str, Any],
    eval_config: str | None,
    assignments: tuple[str, ...],
    judge: dict[str, Any],
    ci: float,
    quiet: bool,
    **output: Any,
) -> int:
    """Score what submissions say about the clips of the dev split, and when.

    A mention hits a segment if it comes in time and speaks of its object, one to one. Every other mention is a false
    positive: on a declared negative, a duplicate, about a wrong object, or out of time. Per track and task, and macro
    over them, with intervals. Refuses the test split, whose annotations are withheld. Lines about questions are passed
    over.
    """
    from mabpl.benchmarks.proact_ego_mem import read_submissions
    from mabpl.benchmarks.proact_ego_mem.events import score_events
    from mabpl.errors import UsageError

    if not predictions:
        raise UsageError("no submission is given", "mabpl proact score FILE... --labels FILE|DIR")
    if not 0 < ci < 1:
        raise UsageError(f"--ci {ci:g} is not possible", "expected a level between 0 and 1, e.g. 0.95")
    options, config = _options(eval_config, assignments)
    chosen = judging(judge, proact_common.prompts_of(where["root"]), ("object",), _WHY, f"{WAYS}, or --judge none")
    release = proact_common.read(where, quiet)
    submissions = read_submissions(predictions, release, parts=["mentions"])
    scores = score_events(release, submissions, options=options, config=config, level=ci)
    _tell_config(config, where, quiet)
    for run in submissions.runs.join(scores.runs, on="run", how="anti")["run"]:
        common.note(f"{run} is left out: it says nothing of the selected clips")
    if judge["dry_run"]:
        return _tell_plan(scores, chosen, judge)
    judged = None if chosen is None else _judged(scores, chosen, quiet)
    scores = scores if judged is None else judged.scores
    _write(scores, output, quiet)
    if judged is not None and judged.outcome is not None and judged.outcome.interrupted:
        return common.INTERRUPTED
    return common.PARTIAL if scores.unscored.height else 0


def _options(eval_config: str | None, assignments: tuple[str, ...]) -> tuple[EventOptions, EvalConfig | None]:
    """What is said on the command line, else in the file, else the defaults."""
    from mabpl.benchmarks.proact_ego_mem.event_options import EventOptions, read_eval_config

    given = EventOptions.parse(assignments)
    if eval_config is None:
        return given, None
    config = read_eval_config(eval_config)
    named = [assignment.partition("=")[0].strip() for assignment in assignments]
    return config.options.replace(**{name: getattr(given, name) for name in named}), config


def _tell_config(config: EvalConfig | None, where: dict[str, Any], quiet: bool) -> None:
    if config is None:
        for path in where["labels"] or (where["root"] or ".",):
            lying = Path(path) / "eval_config.json"
            if lying.is_file():
                common.note(f"{lying} is not followed: --eval-config {lying} does", quiet)
    elif config.unknown:
        common.note(f"{config.file}: mabpl has no such option, not followed: {', '.join(config.unknown)}")


def _tell_plan(scores: EventScores, chosen: Judging | None, judge: dict[str, Any]) -> int:
    from mabpl.benchmarks.proact_ego_mem.events import plan
    from mabpl.judges.asking import forecast

    if chosen is None:
        click.echo("No judge is asked.")
        return 0
    tell_forecasts(forecast(plan(scores, chosen.root), chosen, judge["price_in"]), "pairs")
    return 0


def _judged(scores: EventScores, chosen: Judging, quiet: bool) -> JudgedEvents:
    """Judges ``scores`` and tells on standard error what it took."""
    from mabpl.benchmarks.proact_ego_mem.events import judge_events

    with Bar(quiet) as bar:
        judged = judge_events(scores, chosen, bar.tell)
    assert judged.scores.judgement is not None
    tell_asked("object", "pairs", judged.scores.judgement.plan, judged.outcome, quiet)
    tell_marked(judged.scores.requests, quiet)
    lacking = judged.scores.unscored.height
    if lacking:
        over = judged.outcome is not None and judged.outcome.over_budget
        why = "the same command asks for the rest"
        if over:
            why = "the budget is used up; the same command, with a new one, asks for the rest"
        elif chosen.how == "stored":
            why = f"{chosen.store} has not all that this judge, with these options, would be asked"
        common.note(f"incomplete: {lacking} clips lack a verdict; {why}")
    return judged


def _write(scores: EventScores, output: dict[str, Any], quiet: bool) -> None:
    from mabpl.benchmarks.proact_ego_mem.event_results import event_document
    from mabpl.report.proact_events import events_text
    from mabpl.tables import files

    if output["out"]:
        files.write_json(Path(output["out"]), event_document(scores))
        common.note(f"written: {output['out']}", quiet)
    if output["tables"]:
        scores.write_tables(output["tables"])
        common.note(f"tables: {output['tables']}", quiet)
    text = files.to_json(event_document(scores)) if output["as_json"] else events_text(scores, output["format_"])
    click.echo(text, nl=False)
