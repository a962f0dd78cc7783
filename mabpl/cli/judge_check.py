from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from mabpl.cli import common
from mabpl.cli.judges import judge_options, judging
from mabpl.settings import Settings

if TYPE_CHECKING:
    from mabpl.benchmarks.micro_annotation.judging import Judging
    from mabpl.judges.check import Checked, Forecast

_CODES = {"fine": 0, "doubtful": common.PARTIAL, "failed": 4}
_PATIENCE_S = 60.0
"""How long a check waits for an endpoint that does not answer, unless told otherwise."""


@click.command("check")
@click.option("--kind", type=click.Choice(["pa", "joint", "object"]), default="pa", show_default=True, help="Which.")
@click.option(
    "--predictions", "-p", multiple=True, type=click.Path(), metavar="FILE...",
    help="What is to be judged, for the forecast (with --set: all of the set).",
)  # fmt: skip
@common.input_options
@common.settings_options
@judge_options
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
@common.quiet_option
@click.pass_context
def command(
    ctx: click.Context,
    kind: Any,
    predictions: tuple[str, ...],
    where: dict[str, Any],
    settings: Settings,
    judge: dict[str, Any],
    as_json: bool,
    quiet: bool,
) -> int:
    """Ask a judge three pairs whose verdict is known, with every judge seed and once again with the first.

    Tells whether it gives verdicts, thinks, honours the seed and reports its usage, whether the verdicts are sensible,
    and what a call takes. With --set or -p it says what the whole run will take. Nothing goes into the verdict store.
    Exit codes: 0 fine, 3 doubtful, 4 no verdict at all.
    """
    from mabpl.errors import UsageError
    from mabpl.judges.check import check
    from mabpl.judges.prompts import FILES, OBJECT_JUDGE, load_prompts

    if judge["no_judge"] or judge["how"] not in (None, "api"):
        raise UsageError("judge check asks an endpoint", "leave --judge out, or give --judge api")
    if kind == "object" and (predictions or where["set_name"]):
        raise UsageError("there is no forecast for the judge of objects here", "mabpl proact score --dry-run tells it")
    chosen = judging({**judge, "how": "api"}, where, (kind,))
    assert chosen is not None
    asked, endpoint = chosen.judges[kind]
    if judge["dry_run"]:
        click.echo(f"{kind}: {3 * (len(asked.seeds) + 1)} calls to {asked.model} at {asked.route}")
        return 0
    assert endpoint is not None
    patience = judge["give_up_after"]
    if ctx.get_parameter_source("give_up_after") is ParameterSource.DEFAULT:
        patience = _PATIENCE_S
    checked = check(
        asked,
        endpoint,
        load_prompts(chosen.root, [*FILES, OBJECT_JUDGE]),
        settings,
        concurrency=chosen.concurrency,
        give_up_after=patience,
    )
    ahead = _forecast(checked, chosen, predictions, where, settings) if predictions or where["set_name"] else None
    click.echo(_json(checked, ahead) if as_json else _text(checked, ahead), nl=False)
    return _CODES[checked.state]


def _forecast(
    checked: Checked, chosen: Judging, predictions: tuple[str, ...], where: dict[str, Any], settings: Settings
) -> Forecast:
    from mabpl.benchmarks.micro_annotation import inputs, scoring
    from mabpl.benchmarks.micro_annotation.judging import forecast

    gathered = inputs.gather(common.request(where, predictions), settings)
    scores = scoring.score_files(gathered.labels, gathered.ready(settings), settings=settings)
    (wanted,) = forecast(scores, chosen)
    return checked.forecast(wanted.calls, wanted.tokens_in, chosen.concurrency * len(checked.judge.seeds))


def _json(checked: Checked, ahead: Forecast | None) -> str:
    from mabpl.tables.files import to_json

    columns = ["pair", "judge_seed", "again", "status", "score", "equivalent", "accepted", "tokens_in", "tokens_out"]
    rows = checked.answers.select(*columns, "tokens_reasoning", "cost", "seconds").sort("pair", "again", "judge_seed")
    document = {
        "state": checked.state,
        "judge": checked.judge.profile,
        "findings": [asdict(finding) for finding in checked.findings],
        "answers": rows.to_dicts(),
        "calls": checked.calls,
        "cost": checked.cost,
        "per_call": checked.per_call(),
        "forecast": None if ahead is None else asdict(ahead),
    }
    return to_json(document)


def _text(checked: Checked, ahead: Forecast | None) -> str:
    import polars as pl

    from mabpl.report.tables import Show, render

    judge, mean = checked.judge, checked.per_call()
    rows = [{"what": f.name, "state": f.state, "said": f.said} for f in checked.findings]
    thought = "" if mean["tokens_reasoning"] is None else f" ({_number(mean['tokens_reasoning'])} of them thinking)"
    notes = [
        f"A call: {_number(mean['tokens_in'])} tokens in, {_number(mean['tokens_out'])} out{thought}, "
        f"{_number(mean['seconds'], 1)} s, cost {_number(mean['cost'], 6)}. This check: {checked.calls} calls."
    ]
    if ahead is not None:
        time = "unknown" if ahead.seconds is None else f"{ahead.seconds / 60:,.1f} min"
        notes.append(
            f"The whole run, less what is stored: {ahead.calls:,} calls, about {_number(ahead.tokens_in)} tokens in "
            f"and {_number(ahead.tokens_out)} out, cost {_number(ahead.cost, 4)}, {time} at the given concurrency."
        )
    columns = [Show("what", ""), Show("state", ""), Show("said", "")]
    title = f"{judge.kind} judge {judge.model} at {judge.route}: {checked.state}"
    return render(pl.DataFrame(rows), columns=columns, title=title, notes=notes)


def _number(value: float | None, digits: int = 0) -> str:
    return "unknown" if value is None else f"{value:,.{digits}f}"
