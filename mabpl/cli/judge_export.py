from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from mabpl.cli import common
from mabpl.cli.judges import judge_options, judging, tell_plan
from mabpl.errors import UsageError
from mabpl.settings import Settings

_KINDS = {"pa": ("pa",), "joint": ("joint",), "both": ("pa", "joint")}


@click.command("export")
@click.option(
    "--predictions", "-p", multiple=True, type=click.Path(), metavar="FILE...",
    help="Files, folders or globs; - is standard input (default: all of the dataset folder).",
)  # fmt: skip
@click.argument("more", nargs=-1, type=click.Path())
@click.option("--out", required=True, type=click.Path(), metavar="FILE.jsonl", help="Where the requests go.")
@click.option(
    "--kind", type=click.Choice(list(_KINDS)), default="both", show_default=True, help="Which judge is asked."
)
@click.option(
    "--max-requests-per-file", type=click.IntRange(1), default=50_000, show_default=True,
    help="More go to FILE-2.jsonl and so on, as what exceeds 200 MB does.",
)  # fmt: skip
@click.option("--new-only", is_flag=True, help="Leave out what was asked or exported before, answered or not.")
@common.input_options
@common.settings_options
@judge_options
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
@common.quiet_option
def command(
    predictions: tuple[str, ...],
    more: tuple[str, ...],
    out: str,
    kind: str,
    max_requests_per_file: int,
    new_only: bool,
    where: dict[str, Any],
    settings: Settings,
    judge: dict[str, Any],
    as_json: bool,
    quiet: bool,
) -> int:
    """Write what is still to be asked as batch files, for a provider that takes them.

    The format is that of OpenAI's Batch API: {"custom_id", "method", "url", "body"}, one JSON line a request. A batch
    asks one model, so the PA and the joint judge get a file each (FILE.pa.jsonl and FILE.joint.jsonl). No API key is
    needed, nor written. `mabpl verdicts import REPLIES.jsonl` takes what the provider returns, and `mabpl score --judge
    stored` with the same judge options scores with it. Where a provider refuses a field that switches thinking on, say
    --judge-extra-body '{}'.
    """
    if judge["no_judge"] or judge["how"] in ("none", "embedded"):
        raise UsageError("only a judge that is asked can be exported for", "leave --judge away")
    if judge["max_calls"] is not None or judge["max_cost"] is not None:
        raise UsageError("a file of requests has no budget", "--limit N takes fewer clips, --dry-run tells the tokens")
    from mabpl.benchmarks.micro_annotation import inputs, scoring
    from mabpl.benchmarks.micro_annotation import judging as judges
    from mabpl.judges.batch import export_questions
    from mabpl.judges.store import Store
    from mabpl.tables import files

    chosen = judging({**judge, "how": "stored"}, where, _KINDS[kind])  # type: ignore[arg-type]
    assert chosen is not None and chosen.store is not None
    gathered = inputs.gather(common.request(where, (*predictions, *more)), settings)
    scores = scoring.score_files(gathered.labels, gathered.ready(settings), settings=settings)
    common.tell_warnings(gathered.problems, quiet)
    if judge["dry_run"]:
        return tell_plan(scores, chosen, judge)
    plan = judges.plan(scores, chosen.kinds, chosen.root)
    found = {}
    with Store.open(chosen.store) as store:
        for each in chosen.kinds:
            target = Path(out) if len(chosen.kinds) == 1 else Path(out).with_suffix(f".{each}{Path(out).suffix}")
            questions = judges.questions(plan, each, chosen.judges[each][0])
            found[each] = export_questions(store, questions, target, max_requests_per_file, new_only)
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
    return 0
