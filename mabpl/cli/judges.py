"""The options that choose and bound a judge of labels, and what is told while it is asked."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mabpl.cli import common
from mabpl.errors import UsageError

if TYPE_CHECKING:
    import polars as pl

    from mabpl.benchmarks.micro_annotation.judging import Judged, Judging, Kind
    from mabpl.benchmarks.micro_annotation.scores import Scores
    from mabpl.judges.asking import Forecast, Plan
    from mabpl.judges.client import Outcome
    from mabpl.judges.endpoint import Endpoint
    from mabpl.judges.judge import Judge

_METRIC = {"pa": "PA-F1", "joint": "Joint F1"}
_PREFIXES = ("MAB_JUDGE", "MAB_JOINT_JUDGE")
WAYS = (
    "give one: --judge api (set MAB_JUDGE_API_KEY, and MAB_JUDGE_BASE_URL for a server of your own), --judge embedded "
    "(offline, not comparable with published scores), --judge stored (verdicts already paid for)"
)


Option = tuple[str, Callable[[common.Command], common.Command]]


def _option(*declared: str, **more: Any) -> Option:
    """An option with the name under which it is given to the function."""
    name = declared[-1].removeprefix("--").replace("-", "_")
    return name, click.option(*declared, **more)


_URL = _option("--judge-base-url", metavar="URL", help="An OpenAI-compatible endpoint (MAB_JUDGE_BASE_URL).")
_MODEL = _option("--judge-model", metavar="NAME", help="The judge's model as it is served (MAB_JUDGE_MODEL).")
_ROUTE = _option("--judge-route", metavar="NAME", help="The route's label (default: the host, or self-hosted).")
_BODY = _option("--judge-extra-body", metavar="JSON", help="More fields of each request (MAB_JUDGE_EXTRA_BODY).")
_JOINT = (
    _option("--joint-judge-base-url", metavar="URL", help="The joint judge's (MAB_JOINT_JUDGE_BASE_URL)."),
    _option("--joint-judge-model", metavar="NAME", help="The joint judge's model (MAB_JOINT_JUDGE_MODEL)."),
    _option("--joint-judge-route", metavar="NAME", help="The label of the joint judge's route."),
    _option("--joint-judge-extra-body", metavar="JSON", help="More fields of each request to the joint judge."),
)
_BOUNDS = (
    _option("--concurrency", type=click.IntRange(1), default=25, help="Requests in flight per judge seed."),
    _option("--cache", type=click.Path(), metavar="DIR", help="The verdict store (default: judge_cache)."),
    _option("--max-calls", type=click.IntRange(0), help="Ask no more than so many times."),
    _option("--max-cost", type=click.FloatRange(0), help="Spend no more than this, in the prices' currency."),
    _option("--price-in", type=click.FloatRange(0), help="Price of a million input tokens, where none is told."),
    _option("--price-out", type=click.FloatRange(0), help="Price of a million output tokens."),
    _option("--give-up-after", type=click.FloatRange(0), default=900.0, help="Seconds without any answer."),
    _option("--dry-run", is_flag=True, help="Tell how many calls and tokens it would take; ask nothing."),
)


def judge_options(function: common.Command) -> common.Command:
    """--judge and all that goes with it; gives the function ``judge`` (a dict for :func:`judging`)."""
    who = _option("--judge", "how", type=click.Choice(["api", "embedded", "stored", "none"]), help="Who judges labels.")
    none = _option("--no-judge", is_flag=True, help="The same as --judge none: only what needs no judge.")
    seeds = _option(
        "--judge-seeds", metavar="1,2,3", help="PA judge seeds, sent as the request's seed (default 1,2,3)."
    )
    return _with_options(function, (who, none, _URL, _MODEL, _ROUTE, _BODY, seeds, *_JOINT, *_BOUNDS))


def one_judge_options(function: common.Command) -> common.Command:
    """As :func:`judge_options`, where one judge is asked, with one judge seed unless more are wanted."""
    who = _option("--judge", "how", type=click.Choice(["api", "embedded", "stored"]), help="Who judges.")
    seeds = _option("--judge-seeds", metavar="1,2,3", help="Judge seeds, sent as the request's seed (default 1).")
    return _with_options(function, (who, _URL, _MODEL, _ROUTE, _BODY, seeds, *_BOUNDS))


def object_judge_options(function: common.Command) -> common.Command:
    """As :func:`judge_options`, for the judge of objects, who is asked once and may be left out."""
    who = _option(
        "--judge", "how", type=click.Choice(["api", "embedded", "stored", "none"]), help="Who judges objects."
    )
    return _with_options(function, (who, _URL, _MODEL, _ROUTE, _BODY, *_BOUNDS))


def _with_options(function: common.Command, options: Sequence[Option]) -> common.Command:
    @functools.wraps(function)
    def wrapped(*args: Any, **given: Any) -> Any:
        return function(*args, judge={name: given.pop(name) for name, _ in options}, **given)

    command: common.Command = wrapped
    for _, decorate in reversed(options):
        command = decorate(command)
    return command


def judging(
    judge: dict[str, Any],
    where: dict[str, Any],
    kinds: tuple[Kind, ...],
    why: str = "PA-F1 and Joint F1 need a judge of labels",
    ways: str = f"{WAYS}, or --no-judge",
) -> Judging | None:
    """What the options and the environment say; None for no judge. Says how to go on where nothing was chosen."""
    how: Any = "none" if judge.get("no_judge") else judge["how"]
    if how is None and (judge["dry_run"] or any(os.environ.get(f"{name}_API_KEY") for name in _PREFIXES)):
        how = "api"
    if how is None:
        raise UsageError(f"{why}, and none is chosen", ways)
    if how == "none":
        return None
    from mabpl.benchmarks.micro_annotation import judging as judges

    root = where["root_after"] or where["root_before"]
    root = root if where["labels"] is None else None
    if how == "embedded":
        return judges.Judging("embedded", kinds, root=root or ("." if where["labels"] is None else None))
    if judge["max_cost"] is not None and judge["price_in"] is None and judge["price_out"] is None:
        common.note(
            "--max-cost counts what replies state as their cost: give --price-in and --price-out if they do not"
        )
    kinds = _with_keys(kinds, judge) if how == "api" else kinds
    store = Path(judge["cache"] or Path(root or ".") / "judge_cache")
    return judges.Judging(
        how,
        kinds,
        {kind: _judge(kind, judge, how) for kind in kinds},
        store,
        root or ("." if where["labels"] is None else None),
        judge["concurrency"],
        judge["give_up_after"],
        judge["max_calls"],
        judge["max_cost"],
    )


def _with_keys(kinds: tuple[Kind, ...], judge: dict[str, Any]) -> tuple[Kind, ...]:
    """``kinds`` less the joint judge where it has no key and the PA judge, who is wanted too, has."""
    if len(kinds) == 1 or "joint" not in kinds or (judge["dry_run"] and not os.environ.get("MAB_JUDGE_API_KEY")):
        return kinds
    try:
        _judge("joint", {**judge, "dry_run": False}, "api")
    except UsageError as error:
        common.note(f"Joint F1 is left out: {error.message} ({error.hint})")
        return tuple(kind for kind in kinds if kind != "joint")
    return kinds


def _judge(kind: Kind, judge: dict[str, Any], how: str) -> tuple[Judge, Endpoint | None]:
    """The judge, and where it is asked if it is: then it needs a key."""
    from mabpl.judges.asking import price
    from mabpl.judges.endpoint import Endpoint
    from mabpl.judges.judge import from_environment

    asked = how == "api" and not judge["dry_run"]
    prefix = "joint_judge" if kind == "joint" else "judge"
    found, key = from_environment(
        kind,
        base_url=judge[f"{prefix}_base_url"],
        model=judge[f"{prefix}_model"],
        route=judge[f"{prefix}_route"],
        extra_body=judge[f"{prefix}_extra_body"],
        seeds=None if kind == "joint" or judge.get("judge_seeds") is None else _seeds(judge["judge_seeds"]),
        environ=os.environ if asked else {n: v for n, v in os.environ.items() if not n.endswith("_API_KEY")},
    )
    if not asked:
        return found, None
    if key is None:
        name = "MAB_JOINT_JUDGE_API_KEY" if kind == "joint" else "MAB_JUDGE_API_KEY"
        raise UsageError(
            f"the {kind} judge at {found.route} has no API key", f"set {name} (any value for a server of yours)"
        )
    return found, Endpoint(found.base_url, key, price=price(judge["price_in"], judge["price_out"]))


def _seeds(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise UsageError(f"--judge-seeds {text!r} is no list of seeds", "expected whole numbers, e.g. 1,2,3") from None


def tell_plan(scores: Scores, chosen: Judging | None, judge: dict[str, Any]) -> int:
    """What it would take to judge ``scores``: one line a kind."""
    from mabpl.benchmarks.micro_annotation.judging import forecast

    if chosen is None:
        click.echo("No judge is asked.")
        return 0
    tell_forecasts(forecast(scores, chosen, judge["price_in"]), "pairs")
    if chosen.how == "api":
        click.echo("What comes out depends on how much the judge thinks: `mabpl judge check` measures it.")
    return 0


def tell_forecasts(forecasts: Iterable[Forecast], what: str) -> None:
    """One line for each kind; ``what`` is judged: pairs, comparisons."""
    for plan in forecasts:
        cost = "" if plan.cost_in is None else f", about {plan.cost_in:.4f} for the input"
        click.echo(
            f"{plan.kind}: {plan.pairs} {what}, {plan.requests} distinct requests, {plan.calls} calls to make"
            + (f", about {plan.tokens_in:,} input tokens{cost}" if plan.calls else "")
        )


def judge_with(scores: Scores, chosen: Judging, quiet: bool) -> Judged:
    """Judges ``scores`` and tells on standard error what it took."""
    from mabpl.benchmarks.micro_annotation.judging import judge_scores

    with Bar(quiet) as bar:
        judged = judge_scores(scores, chosen, bar.tell)
    for kind in judged.left_out:
        common.note(f"{_METRIC[kind]} is left out: {chosen.store} has no verdict of its judge")
    for kind in (judged.scores.judging or {})["judges"]:
        tell_asked(kind, "pairs", judged.plan, judged.outcomes.get(kind), quiet)
    tell_marked(judged.plan.requests, quiet)
    _tell_lacking(judged, chosen)
    return judged


def tell_asked(kind: Kind, what: str, plan: Plan, outcome: Outcome | None, quiet: bool) -> None:
    """What judging one kind came to."""
    pairs, distinct = plan.asked[kind].height, plan.of(kind).height
    said = f"{kind}: {pairs} {what}, {distinct} distinct requests ({pairs - distinct} fewer to ask)"
    if outcome is not None:
        calls = outcome.billed + outcome.ambiguous
        said += f"; {outcome.asked} asked in {calls} calls, {outcome.failed} without a verdict"
        said += f", cost {outcome.cost:.4f}" if outcome.cost else ""
    common.note(said, quiet)


def tell_marked(requests: pl.DataFrame, quiet: bool) -> None:
    """How many requests have labels that hygiene altered, or that may be meant for a judge."""
    risky = requests.filter(altered=True).height, requests.filter(risky=True).height
    if any(risky):
        common.note(f"labels: {risky[0]} requests with altered labels, {risky[1]} with words meant for a judge", quiet)


def _tell_lacking(judged: Judged, chosen: Judging) -> None:
    lacking = judged.scores.unscored.select("run", "set", "clip_id").unique().height
    if not lacking:
        return
    why = "the same command asks for the rest"
    if any(outcome.over_budget for outcome in judged.outcomes.values()):
        why = "the budget is used up; the same command, with a new one, asks for the rest"
    elif chosen.how == "stored":
        why = f"{chosen.store} has not all that this judge, with these options, would be asked"
    common.note(f"incomplete: {lacking} clips lack a verdict; {why}")


class Bar:
    """A progress bar on a terminal, nothing elsewhere."""

    def __init__(self, quiet: bool) -> None:
        self.quiet = quiet or not sys.stderr.isatty()
        self.bar: Any = None
        self.tasks: dict[str, Any] = {}

    def __enter__(self) -> Bar:
        if not self.quiet:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            self.bar = Progress(*columns, TextColumn("{task.fields[told]}"), console=Console(stderr=True))
            self.bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def tell(self, kind: str, now: Any) -> None:
        if self.bar is None:
            return
        if kind not in self.tasks:
            self.tasks[kind] = self.bar.add_task(kind, total=now.total, told="")
        errors = sum(now.errors.values())
        told = f"{now.rate:.1f}/s, {errors} errors, cost {now.cost:.4f}"
        self.bar.update(self.tasks[kind], completed=now.done, total=now.total, told=told)
