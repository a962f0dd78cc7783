from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mabpl.cli import common, proact_common
from mabpl.cli.judges import judge_options, judging, tell_forecasts
from mabpl.errors import UsageError
from mabpl.settings import Settings

if TYPE_CHECKING:
    import polars as pl

    from mabpl.judges.asking import Plan
    from mabpl.judges.batch import Written
    from mabpl.judges.judge import JudgeKind

_OF_LABELS: tuple[JudgeKind, ...] = ("pa", "joint")
_OF_ARMS: tuple[JudgeKind, ...] = ("timing", "labels")
_OF_MENTIONS: JudgeKind = "object"


@click.command("export")
@click.option(
    "--predictions", "-p", multiple=True, type=click.Path(), metavar="FILE...",
    help="Files, folders or globs; - is standard input (default: all of the dataset folder).",
)  # fmt: skip
@click.option(
    "--arms", multiple=True, metavar="NAME=FILE...", help="The arms of a tournament, in place of predictions."
)
@click.argument("more", nargs=-1, type=click.Path())
@click.option("--out", required=True, type=click.Path(), metavar="FILE.jsonl", help="Where the requests go.")
@click.option(
    "--kind", type=click.Choice([*_OF_LABELS, *_OF_ARMS, _OF_MENTIONS, "both"]), default="both", show_default=True,
    help="Which judge is asked; both: pa and joint, or timing and labels of --arms. object: of what submissions to "
    "ProactEgoMem say; --labels is then a released file or a folder of them, --set-option as for `mabpl proact score`.",
)  # fmt: skip
@click.option(
    "--max-requests-per-file", type=click.IntRange(1), default=50_000, show_default=True,
    help="More go to FILE-2.jsonl and so on, as what exceeds 200 MB does.",
)  # fmt: skip
@click.option("--new-only", is_flag=True, help="Leave out what was asked or exported before, answered or not.")
@common.input_options
@common.assignment_options
@judge_options
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
@common.quiet_option
def command(
    predictions: tuple[str, ...],
    arms: tuple[str, ...],
    more: tuple[str, ...],
    out: str,
    kind: str,
    max_requests_per_file: int,
    new_only: bool,
    where: dict[str, Any],
    assignments: tuple[str, ...],
    judge: dict[str, Any],
    as_json: bool,
    quiet: bool,
) -> int:
    """Write what is still to be asked as batch files, for a provider that takes them.

    The format is that of OpenAI's Batch API: {"custom_id", "method", "url", "body"}, one JSON line a request. A batch
    asks one model, so each judge gets a file of its own (FILE.pa.jsonl and FILE.joint.jsonl; of a tournament,
    FILE.timing.jsonl and FILE.labels.jsonl, with one judge seed by default). No API key is needed, nor written.
    `mabpl verdicts import REPLIES.jsonl` takes what the provider returns, and --judge stored with the same judge
    options uses it: of `mabpl score`, `mabpl tournament` or `mabpl proact score`. Where a provider refuses a field that
    switches thinking on, say --judge-extra-body '{}'.
    """
    if judge["no_judge"] or judge["how"] in ("none", "embedded"):
        raise UsageError("only a judge that is asked can be exported for", "leave --judge away")
    if judge["max_calls"] is not None or judge["max_cost"] is not None:
        raise UsageError("a file of requests has no budget", "--limit N takes fewer clips, --dry-run tells the tokens")
    kinds = _kinds(kind, arms, predictions)
    from mabpl.judges import asking
    from mabpl.judges.batch import export_questions
    from mabpl.judges.store import Store

    place = where if kind != _OF_MENTIONS else proact_common.prompts_of(where["root_after"] or where["root_before"])
    chosen = judging({**judge, "how": "stored"}, place, kinds)
    assert chosen is not None and chosen.store is not None
    if kind == _OF_MENTIONS:
        plan = _of_mentions(where, (*predictions, *more), chosen.root, assignments)
    elif arms:
        plan, problems = _of_arms(where, (*arms, *more), kinds, Settings.parse(assignments))
        common.tell_warnings(problems, quiet)
    else:
        files = (*predictions, *more)
        plan, problems = _of_labels(where, files, kinds, chosen.root, Settings.parse(assignments))
        common.tell_warnings(problems, quiet)
    if judge["dry_run"]:
        tell_forecasts(asking.forecast(plan, chosen, judge["price_in"]), "ordered comparisons" if arms else "pairs")
        return 0
    found = {}
    with Store.open(chosen.store) as store:
        for each in kinds:
            target = Path(out) if len(kinds) == 1 else Path(out).with_suffix(f".{each}{Path(out).suffix}")
            questions = asking.questions(plan, each, chosen.judges[each][0])
            found[each] = export_questions(store, questions, target, max_requests_per_file, new_only)
    _tell(found, new_only, as_json, quiet)
    return 0


def _kinds(kind: str, arms: tuple[str, ...], predictions: tuple[str, ...]) -> tuple[JudgeKind, ...]:
    """The kinds that are meant; they are those of a tournament where there are arms."""
    if arms and predictions:
        raise UsageError("--predictions and --arms exclude each other", "the arms of a tournament name their files")
    if kind == _OF_MENTIONS and not arms:
        return (_OF_MENTIONS,)
    known = _OF_ARMS if arms else _OF_LABELS
    kinds = tuple(each for each in known if kind in (each, "both"))
    if not kinds:
        hint = f"with --arms, say {' or '.join(known)}" if arms else "give its --arms NAME=FILE NAME=FILE ..."
        raise UsageError(f"--kind {kind} is {'not ' if arms else ''}of a tournament", hint)
    return kinds


def _of_labels(
    where: dict[str, Any], files: tuple[str, ...], kinds: tuple[JudgeKind, ...], root: str | None, settings: Settings
) -> tuple[Plan, pl.DataFrame]:
    from mabpl.benchmarks.micro_annotation import inputs, scoring
    from mabpl.benchmarks.micro_annotation import judging as judges

    gathered = inputs.gather(common.request(where, files), settings)
    scores = scoring.score_files(gathered.labels, gathered.ready(settings), settings=settings)
    return judges.plan(scores, kinds, root), gathered.problems


def _of_mentions(where: dict[str, Any], files: tuple[str, ...], root: str | None, assignments: tuple[str, ...]) -> Plan:
    from mabpl.benchmarks.proact_ego_mem.events import plan

    return plan(proact_common.events_of(where, files, assignments), root)


def _of_arms(
    where: dict[str, Any], arms: tuple[str, ...], kinds: tuple[JudgeKind, ...], settings: Settings
) -> tuple[Plan, pl.DataFrame]:
    from mabpl.tournament.arms import parse_arms
    from mabpl.tournament.running import prepare

    prepared = prepare(common.request(where), parse_arms(arms), kinds, settings)  # type: ignore[arg-type]
    return prepared.comparing.plan, prepared.gathered.problems


def _tell(found: dict[JudgeKind, Written], new_only: bool, as_json: bool, quiet: bool) -> None:
    from mabpl.tables import files

    if as_json:
        told = {
            name: {
                "files": [{"file": str(file), "requests": count} for file, count in one.files],
                "requests": one.requests,
                "known": one.known,
                "pending": one.pending,
                "stale": None if one.stale is None else str(one.stale),
            }
            for name, one in found.items()
        }
        click.echo(files.to_json(told), nl=False)
    for name, one in found.items():
        common.note(f"{name}: {one.requests} requests; {one.known} have a verdict", quiet)
        if one.pending:
            state = "were left out" if new_only else "would be paid twice if that batch is still under way"
            common.note(f"{name}: {one.pending} were asked or exported before, without a verdict yet: they {state}")
        if one.stale is not None:
            common.note(f"{one.stale} is left from an earlier export: send no request twice")
        for file, count in () if as_json else one.files:
            click.echo(f"{file}  {count}")
