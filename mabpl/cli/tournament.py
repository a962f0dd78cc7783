from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mabpl.cli import common
from mabpl.cli.judges import WAYS, Bar, judging, one_judge_options, tell_asked, tell_forecasts, tell_marked
from mabpl.errors import UsageError, unknown_name
from mabpl.settings import Settings

if TYPE_CHECKING:
    from mabpl.judges.asking import Judging
    from mabpl.report.tables import Format
    from mabpl.tournament.packets import Dimension
    from mabpl.tournament.running import Prepared, Tournament

_REPLICATES = click.option(
    "--replicates", type=click.IntRange(0), help="Resamples of clips for the intervals (default 500; 0: no intervals)."
)
_TIES = click.option(
    "--ties", type=click.Choice(["nowhere", "half"]), help="What an agreeing tie is worth: nothing (default), or half."
)
_FORMAT = click.option("--format", "format_", type=click.Choice(["terminal", "markdown", "csv", "json"]))
_JSON = click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")


@click.command("fit")
@click.argument("folder", type=click.Path())
@click.option("--clips", metavar="A,B,...", help="Only these clips.")
@click.option("--arms", metavar="A,B,...", help="Only these arms.")
@_REPLICATES
@_TIES
@click.option("--out", type=click.Path(), metavar="DIR", help="Write the part as a result folder of its own.")
@_FORMAT
@_JSON
@common.quiet_option
def fit(
    folder: str,
    clips: str | None,
    arms: str | None,
    replicates: int | None,
    ties: Any,
    out: str | None,
    quiet: bool,
    **output: Any,
) -> int:
    """Make the standing of some clips or arms of the tournament in FOLDER, from its verdicts: nothing is asked."""
    from mabpl.tournament.running import load_tournament

    tournament = load_tournament(folder)
    part = tournament.refit(clips=_listed(clips), arms=_listed(arms), replicates=replicates, ties=ties)
    if out is not None and Path(out).resolve() == Path(folder).resolve():
        raise UsageError(f"--out {out} is the tournament itself", "give another folder for its part")
    return _show(part, output, None if out is None else Path(out), quiet)


def _listed(names: str | None) -> list[str] | None:
    return None if names is None else [name for part in names.split(",") if (name := part.strip())]


class _WithFit(click.Command):
    """`tournament fit` is a command of its own; everything else is the tournament's."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        if args and args[0] == "fit":
            return fit.make_context(f"{info_name} fit", args[1:], parent, **extra)
        return super().make_context(info_name, args, parent, **extra)


@click.command("tournament", cls=_WithFit)
@click.option("--arms", multiple=True, metavar="NAME=FILE...", help="Two or more names and their prediction files.")
@click.argument("more", nargs=-1)
@click.option("--dims", metavar="timing,labels", help="What is compared (default: both; labels alone if embedded).")
@common.input_options
@common.settings_options
@one_judge_options
@_REPLICATES
@_TIES
@click.option("--out", type=click.Path(), metavar="DIR", help="The result folder (default: ROOT/tournament/SET).")
@_FORMAT
@_JSON
@common.quiet_option
def command(
    arms: tuple[str, ...],
    more: tuple[str, ...],
    dims: str | None,
    where: dict[str, Any],
    settings: Settings,
    judge: dict[str, Any],
    replicates: int | None,
    ties: Any,
    out: str | None,
    quiet: bool,
    **output: Any,
) -> int:
    """Compare every two arms on every clip, in both orders, on timing and on labels, by a judge.

    \b
    Calls: arms x (arms - 1) x clips x dimensions x judge seeds; --dry-run tells how many are left to make.
    A comparison counts only when both orders name the same arm. Strengths are Bradley-Terry log strengths.

    `mabpl tournament fit FOLDER --clips A,B --arms A,B` makes the standing of a part, without calls.
    """
    from mabpl.stats.bradley_terry import REPLICATES
    from mabpl.tables.folder import check_writable
    from mabpl.tournament import running
    from mabpl.tournament.arms import check_arms, default_folder, parse_arms

    named = parse_arms((*arms, *more))
    check_arms(named)
    dimensions = _dimensions(dims, judge["how"], quiet)
    chosen = judging(judge, where, dimensions, "a tournament needs a judge", WAYS)
    assert chosen is not None, "none is no choice of this command"
    running.check_judge(chosen, dimensions)
    request = common.request(where)
    prepared = running.prepare(request, named, dimensions, settings)
    common.tell_warnings(prepared.gathered.problems, quiet)
    if judge["dry_run"]:
        return _tell_plan(prepared, chosen, judge["price_in"])
    root = request.root if request.labels is None else None
    target = Path(out) if out is not None else default_folder(root, prepared.set_name)
    check_writable(target)
    common.note(_formula(prepared, chosen), quiet)
    with Bar(quiet) as bar:
        tournament = running.hold(
            prepared,
            chosen,
            replicates=REPLICATES if replicates is None else replicates,
            ties=ties or "nowhere",
            progress=bar.tell,
        )
    _tell_asked(tournament, prepared, chosen, quiet)
    code = _show(tournament, output, target, quiet)
    interrupted = any(outcome.interrupted for outcome in _outcomes(tournament).values())
    return common.INTERRUPTED if interrupted else code


def _dimensions(dims: str | None, how: str | None, quiet: bool) -> tuple[Dimension, ...]:
    from mabpl.tournament.packets import DIMENSIONS

    if dims is None:
        if how == "embedded":
            common.note("the embedded judge reads labels alone: timing is left out", quiet)
            return ("labels",)
        return DIMENSIONS
    named = [name.strip() for name in dims.split(",") if name.strip()]
    for name in named:
        if name not in DIMENSIONS:
            raise unknown_name("dimension", name, list(DIMENSIONS))
    return tuple(dimension for dimension in DIMENSIONS if dimension in named)


def _formula(prepared: Prepared, chosen: Judging) -> str:
    """The published formula of what a tournament costs, and what it comes to here."""
    arms = prepared.gathered.predictions.runs.height
    every = prepared.gathered.labels.clips.height
    clips = every if prepared.gathered.clips is None else len(prepared.gathered.clips)
    dims, seeds = len(chosen.kinds), 1 if chosen.how == "embedded" else len(chosen.judges[chosen.kinds[0]][0].seeds)
    parts = f"{arms} arms x {arms - 1} x {_clips(clips)} x {dims} dimension{'s' * (dims > 1)}"
    seeded = f" x {seeds} judge seeds" if seeds > 1 else ""
    calls = arms * (arms - 1) * clips * dims * seeds
    lacking = calls - prepared.comparing.comparisons.height * seeds
    less = f", less {lacking} on clips that an arm lacks" if lacking else ""
    return f"{parts}{seeded} = {calls} {'ordered comparisons' if chosen.how == 'embedded' else 'calls'}{less}"


def _tell_plan(prepared: Prepared, chosen: Judging, price_in: float | None) -> int:
    from mabpl.judges.asking import forecast

    click.echo(_formula(prepared, chosen))
    tell_forecasts(forecast(prepared.comparing.plan, chosen, price_in), "ordered comparisons")
    if chosen.how == "api":
        click.echo("What comes out depends on how much the judge thinks; --max-calls N makes a trial.")
    return 0


def _outcomes(tournament: Tournament) -> Any:
    return {} if tournament.answered is None else tournament.answered.outcomes


def _tell_asked(tournament: Tournament, prepared: Prepared, chosen: Judging, quiet: bool) -> None:
    outcomes = _outcomes(tournament)
    for kind in tournament.about["tournament"]["dimensions"]:
        tell_asked(kind, "ordered comparisons", prepared.comparing.plan, outcomes.get(kind), quiet)
    for kind in tournament.about["tournament"]["left_out"]:
        common.note(f"{kind} is left out: {chosen.store} has no verdict of its judge")
    tell_marked(tournament.requests, quiet)
    if not tournament.missing:
        return
    why = "the same command asks for the rest"
    if any(outcome.over_budget for outcome in outcomes.values()):
        why = "the budget is used up; the same command, with a new one, asks for the rest"
    elif chosen.how == "stored":
        why = f"{chosen.store} has not all that this judge, with these options, would be asked"
    common.note(f"incomplete: {tournament.missing} comparisons lack a verdict; {why}")


def _show(tournament: Tournament, output: dict[str, Any], target: Path | None, quiet: bool) -> int:
    from mabpl.report.tournament import standings_document, standings_text
    from mabpl.tables.files import to_json

    for arm, clips in tournament.absent.items():
        common.note(f"{arm} lacks {_clips(len(clips))} and is not compared there: {_some(clips)}")
    if target is not None:
        tournament.write(target)
        common.note(f"written: {target}", quiet)
    format_: Format = "json" if output["as_json"] else output["format_"] or "terminal"
    if format_ == "json":
        of = {name: value for name, value in standings_document(tournament.result).items() if name != "settings"}
        click.echo(to_json({**tournament.about, "partial": tournament.partial, **of}), nl=False)
    else:
        click.echo(standings_text(tournament.result, format_, tournament.remarks), nl=False)
    return common.PARTIAL if tournament.partial else 0


def _clips(count: int) -> str:
    return f"{count} clip{'s' * (count != 1)}"


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
