from __future__ import annotations

import functools
import json
from dataclasses import asdict, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mabpl.cli import common, proact_common
from mabpl.cli.judges import judge_options, judging
from mabpl.errors import UsageError, unknown_name, unreadable
from mabpl.settings import Settings

if TYPE_CHECKING:
    import polars as pl

    from mabpl.benchmarks.micro_annotation.judging import Kind, Plan
    from mabpl.judges.batch import Taken
    from mabpl.judges.store import Store
    from mabpl.judges.store_import import MakeQuestion
    from mabpl.judges.store_parts import Checked
    from mabpl.judges.store_why import Why
    from mabpl.judges.types import Question, Request

_BY = {"kind": "kind", "judge": "judge", "route": "route", "seed": "judge_seed", "status": "status"}
_SHOWN = 20


@click.group("verdicts")
def command() -> None:
    """The verdict store: every answer that a judge gave, kept for good and asked for once."""


def _store_options(function: common.Command) -> common.Command:
    """--cache and --root; gives the function ``folder``, the store's."""

    @click.option("--cache", type=click.Path(), metavar="DIR", help="The verdict store (default: judge_cache).")
    @click.option("--root", "root_after", type=click.Path(), help="The dataset folder that holds it (default: this).")
    @click.pass_context
    @functools.wraps(function)
    def wrapped(ctx: click.Context, /, cache: str | None, root_after: str | None, **options: Any) -> Any:
        root = Path(root_after or ctx.obj or ".")
        return function(root=root, folder=Path(cache) if cache else root / "judge_cache", **options)

    return wrapped


def _json_option(function: common.Command) -> common.Command:
    return click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")(function)


def _existing(folder: Path) -> Store:
    """The store in ``folder``, which must be there."""
    from mabpl.judges import store_schema
    from mabpl.judges.store import Store

    if not (folder / store_schema.FILE).is_file():
        hint = "a judge that is asked makes one, and so does `mabpl verdicts import`; --cache DIR names another"
        raise unreadable(folder, "there is no verdict store", hint)
    return Store.open(folder)


def _say_json(value: Any) -> None:
    from mabpl.tables.files import to_json

    click.echo(to_json(value), nl=False)


@command.command("list", short_help="count questions, tokens and cost")
@click.option(
    "--by", default=",".join(_BY), show_default=True, metavar="A,B,...", help="Count by these; - is one row."
)  # fmt: skip
@_json_option
@_store_options
def list_(by: str, folder: Path, as_json: bool, **_: Any) -> None:
    """Count the questions in the store, with what their answers cost.

    The status is ok where there is a verdict, else why there is none; asked: no answer yet.
    """
    from mabpl.report.tables import Show, render

    names = [] if by == "-" else [name.strip() for name in by.split(",")]
    for name in names:
        if name not in _BY:
            raise unknown_name("column", name, list(_BY))
    with _existing(folder) as store:
        lost = store.open_after_crash()
        calls, cost = store.spent()
        counts = _counts(store, names)
    if as_json:
        spent = {"calls": calls, "cost": cost}
        _say_json({"store": str(folder), "spent": spent, "lost": len(lost), "groups": counts.to_dicts()})
        return
    notes = [f"{calls} calls were or may have been billed, cost {cost:.4f}"]
    if lost:
        at_most = sum(attempt.worst_cost for attempt in lost)
        notes.append(f"{len(lost)} of them were under way in a process that ended, and may have cost {at_most:.4f}")
    shows = [Show(name) for name in names]
    shows += [Show("questions", kind="count"), Show("tokens_in", "tokens in", "count", "in")]
    shows += [Show("tokens_out", "tokens out", "count", "out"), Show("tokens_reasoning", "thinking", "count")]
    shows += [Show("cost", kind="percent", digits=4)]
    click.echo(render(counts, columns=shows, title=f"Verdicts in {folder}", notes=notes), nl=False)


def _counts(store: Store, names: list[str]) -> pl.DataFrame:
    """Questions, tokens and cost (null where no answer told any), by ``names``."""
    import polars as pl

    sums = ("tokens_in", "tokens_out", "tokens_reasoning", "cost")
    answered = store.verdicts(columns=[*_BY.values(), *sums])
    with store.commits.reading() as db:
        rows = db.execute(
            """SELECT kind, judge, route, seed, 'asked' FROM questions q JOIN requests USING (request)
            WHERE NOT EXISTS (SELECT 1 FROM answers a WHERE a.key = q.key)"""
        ).fetchall()
    waiting = pl.DataFrame(rows, schema={name: answered.schema[name] for name in _BY.values()}, orient="row")
    frame = pl.concat([answered, waiting], how="diagonal").rename({column: name for name, column in _BY.items()})
    told = [pl.when(pl.col(name).count() > 0).then(pl.col(name).sum()).alias(name) for name in sums]
    totals = [pl.len().cast(pl.Int64).alias("questions"), *told]
    return frame.group_by(names).agg(totals).sort(names) if names else frame.select(totals)


@command.command("verify", short_help="re-read every answer, and make again what is damaged")
@_json_option
@_store_options
def verify(folder: Path, as_json: bool, **_: Any) -> int:
    """Re-read every answer and hold the parquet parts to them; make again what is damaged.

    Exit code 1 if something was damaged and could not be made again.
    """
    from mabpl.report.tables import plain

    with _existing(folder) as store:
        checked = store.verify()
        lost = _lost(store, checked)
    if as_json:
        _say_json({**asdict(checked), "remade": [str(path) for path in checked.remade], "lost": lost})
        return int(bool(lost))
    for problem in checked.problems:
        click.echo(plain(problem))
    for path in checked.remade:
        click.echo(f"made again: {plain(path)}")
    for what in lost:
        click.echo(f"lost: {plain(what)}")
    click.echo(f"{folder}: {checked.answers} answers, {checked.parts} parts, {'damaged' if lost else 'sound'}")
    return int(bool(lost))


def _lost(store: Store, checked: Checked) -> list[str]:
    """What is damaged for good: the file itself, and answers whose question has no verdict any more."""
    with store.commits.reading() as db:
        numbers = json.dumps(checked.damaged)
        rows = db.execute("SELECT id, key FROM answers WHERE id IN (SELECT value FROM json_each(?))", (numbers,))
        keys = dict(rows.fetchall())
    known = store.known(keys.values())
    gone = {number: key for number, key in keys.items() if key not in known}
    told = {f"{store.commits.path}: answer {number} does not re-read" for number in checked.damaged}
    file = [text for text in checked.problems if text.startswith(f"{store.commits.path}: ") and text not in told]
    return [*file, *(f"answer {number}, to question {key}" for number, key in gone.items())]


@command.command("export", short_help="the table as parquet or JSON lines")
@click.option("--out", type=click.Path(), metavar="FILE", help="One file of the table: .parquet or .jsonl.")
@_json_option
@_store_options
def export(out: str | None, folder: Path, as_json: bool, **_: Any) -> None:
    """Bring the parquet parts of the table `verdicts` up to date and name them, or write one file of it (--out)."""
    from mabpl.tables import files
    from mabpl.tables.folder import write_parquet

    if out is not None and not out.endswith((".parquet", ".jsonl")):
        raise UsageError(f"{out}: a table is written as .parquet or .jsonl", "change the file's ending")
    with _existing(folder) as store:
        paths = store.export() if out is None else [Path(out)]
        frame = store.verdicts(columns=["key"] if out is None else None)
    if out is not None and out.endswith(".parquet"):
        write_parquet(Path(out), frame, "verdicts")
    elif out is not None:
        files.write_bytes(Path(out), frame.write_ndjson().encode())
    if as_json:
        _say_json({"files": [str(path) for path in paths], "rows": frame.height})
        return
    for path in paths:
        click.echo(path)
    common.note(f"{frame.height} rows in {len(paths)} files")


@command.command("import", short_help="take verdicts from files, a batch's replies among them")
@click.argument("names", nargs=-1, required=True, type=click.Path(), metavar="FILE...")
@click.option("--judge-base-url", metavar="URL", help="seed<N>.json: where its judge was asked (MAB_JUDGE_BASE_URL).")
@click.option("--judge-model", metavar="NAME", help="seed<N>.json: the model of its judge (MAB_JUDGE_MODEL).")
@click.option("--judge-route", metavar="NAME", help="seed<N>.json: its route's label.")
@click.option("--judge-extra-body", metavar="JSON", help="seed<N>.json: its extra body (MAB_JUDGE_EXTRA_BODY).")
@_json_option
@_store_options
def import_(names: tuple[str, ...], root: Path, folder: Path, as_json: bool, **judge: str | None) -> int:
    """Take verdicts from files, in any order, whole or in parts, as often as you like.

    FILE is what a provider's batch endpoint returned to a file of `mabpl judge export`; a table of verdicts (JSON lines
    or parquet) as `mabpl verdicts export` writes it; or a `mab` user's judge_cache/seed<N>.json, whose verdicts are
    kept for the judge that the options or the environment name. A question that has a verdict keeps it. Exit code 3
    where a row gave no verdict.
    """
    from mabpl.judges.batch import take
    from mabpl.judges.store import Store

    paths = [Path(name) for name in names]
    question = _of_mab(root, judge) if any(path.suffix == ".json" for path in paths) else None
    for path in paths:
        if not path.is_file():
            raise unreadable(path, "there is no such file")
    with Store.open(folder) as store:
        taken = [(path, take(store, path, question)) for path in paths]
        store.export()
    if as_json:
        told = [{"file": str(path), **asdict(one)} for path, one in taken]
        _say_json({"store": str(folder), "new": sum(one.new for _, one in taken), "files": told})
    else:
        for path, one in taken:
            _tell_taken(path, one)
    return 0 if all(one.whole for _, one in taken) else common.PARTIAL


def _of_mab(root: Path, judge: dict[str, str | None]) -> MakeQuestion:
    """Makes the questions under which the verdicts of the published scorer's cache are kept."""
    from mabpl.judges.judge import from_environment
    from mabpl.judges.prompts import load_prompts, messages
    from mabpl.judges.requests import single

    named = {name.removeprefix("judge_"): value for name, value in judge.items()}
    found, _ = from_environment("pa", **named)  # type: ignore[arg-type]
    prompts = load_prompts(str(root))
    common.note(f"a seed<N>.json is kept as verdicts of {found.model} at {found.route}, on the prompts of {root}")

    def question(predicted: str, primary: str, also: tuple[str, ...], seed: int) -> Question:
        request = single("pa", predicted, primary, prompts, Settings(), also=also)
        return found.question(request, messages(request, prompts), seed)

    return question


def _tell_taken(path: Path, taken: Taken) -> None:
    from mabpl.report.tables import plain

    failures = sum(taken.failed.values())
    reasons = ", ".join(f"{why}: {count}" for why, count in taken.failed.items())
    counts = {
        "known before": taken.known,
        "without a verdict": taken.without,
        f"failed ({reasons}), their questions stay open": failures,
        "with an id that no question here has": len(taken.unknown),
        "broken": len(taken.broken),
    }
    said = [f"{taken.new} new", *(f"{count} {what}" for what, count in counts.items() if count)]
    click.echo(plain(f"{path}: {', '.join(said)}"))
    if taken.broken:
        click.echo(f"  broken lines: {_some(taken.broken)}")
    if taken.unknown:
        click.echo(f"  unknown ids: {plain(_some(taken.unknown))}")
        click.echo("  were they exported with another store? --cache DIR names it; --json lists them all")


def _some(items: tuple[Any, ...]) -> str:
    more = f", ... ({len(items)} in all)" if len(items) > _SHOWN else ""
    return ", ".join(map(str, items[:_SHOWN])) + more


@command.command("why", short_help="why a pair's verdict is not there")
@click.option(
    "--predictions", "-p", multiple=True, type=click.Path(), metavar="FILE...",
    help="Files, folders or globs (default: all of the dataset folder).",
)  # fmt: skip
@click.argument("more", nargs=-1, type=click.Path())
@click.option(
    "--kind", type=click.Choice(["pa", "joint", "object"]), default="pa", show_default=True,
    help="Which judge; object: of submissions to ProactEgoMem, with the --labels and --set-option of `proact score`.",
)  # fmt: skip
@click.option("--clip", metavar="ID", help="The pairs of this clip.")
@click.option("--predicted", type=int, metavar="N", help="Of them, those of this predicted segment (from 0).")
@click.option("--human", type=int, metavar="N", help="Of them, those of this human segment (from 0).")
@click.option("--mention", type=int, metavar="N", help="object: of them, those of this mention (from 0).")
@click.option("--sample", metavar="ID", help="object: of them, those of this sample.")
@click.option("--request", "request_", metavar="ID", help="The pairs that ask this, as the table `requests` names it.")
@common.input_options
@common.assignment_options
@judge_options
@_json_option
def why(
    predictions: tuple[str, ...],
    more: tuple[str, ...],
    kind: Kind,
    where: dict[str, Any],
    assignments: tuple[str, ...],
    judge: dict[str, Any],
    as_json: bool,
    **named: Any,
) -> None:
    """Say whether a pair's verdicts are stored, and if not, which stored question is nearest and how it differs.

    Takes the options of `mabpl score`, for objects those of `mabpl proact score`, so that it looks for what that would
    look for.
    """
    from mabpl.judges import asking

    _require_named(kind, named)
    if judge["how"] == "embedded":
        raise UsageError("verdicts of the embedded judge are not stored", "they are computed anew")
    place = where if kind != "object" else proact_common.prompts_of(where["root_after"] or where["root_before"])
    chosen = judging({**judge, "how": "stored", "no_judge": False}, place, (kind,))
    assert chosen is not None and chosen.store is not None
    with _existing(chosen.store) as store:
        files = (*predictions, *more)
        plan = (_of_mentions if kind == "object" else _of_labels)(where, files, kind, chosen.root, assignments)
        plan = _narrowed(plan, kind, named)
        questions = list(asking.questions(plan, kind, chosen.judges[kind][0]))
        known = store.known(question.key for question in questions)
        shown = [question for question in questions if question.key not in known] or questions
        found = [(question, store.why(question)) for question in shown[:_SHOWN]]
    if as_json:
        told = [{**_described(question), **_explained(one)} for question, one in found]
        _say_json({"stored": len(known), "missing": len(questions) - len(known), "questions": told})
        return
    for (request, lines), alike in groupby(found, lambda one: (one[0].request, _explanation(one[1]))):
        _tell_why(request, [question for question, _ in alike], lines)
    more_ = f"; {len(shown) - _SHOWN} more are not shown" if len(shown) > _SHOWN else ""
    click.echo(f"{len(known)} of {len(questions)} verdicts are stored{more_}")


def _of_labels(
    where: dict[str, Any], files: tuple[str, ...], kind: Kind, root: str | None, assignments: tuple[str, ...]
) -> Plan:
    from mabpl.benchmarks.micro_annotation import inputs, judging, scoring

    settings = Settings.parse(assignments)
    gathered = inputs.gather(common.request(where, files), settings)
    scores = scoring.score_files(gathered.labels, gathered.ready(settings), settings=settings)
    return judging.plan(scores, (kind,), root)


def _of_mentions(
    where: dict[str, Any], files: tuple[str, ...], kind: Kind, root: str | None, assignments: tuple[str, ...]
) -> Plan:
    from mabpl.benchmarks.proact_ego_mem.events import plan

    scores = proact_common.events_of(where, files, assignments)
    planned = plan(scores, root)
    return replace(planned, asked={kind: scores.pairs_with(planned)})


_NAMED = {
    "clip_id": ("clip", "clip"),
    "predicted": ("predicted", "predicted segment"),
    "human": ("human", "human segment"),
    "request": ("request_", "request"),
}
"""Column of the pairs -> the option that chooses by it, and what it is called."""

_NAMED_MENTIONS = {
    "clip_uid": ("clip", "clip"),
    "mention": ("mention", "mention"),
    "sample_id": ("sample", "sample"),
    "request": ("request_", "request"),
}
"""The same of the pairs of mentions and segments."""


def _require_named(kind: Kind, named: dict[str, Any]) -> None:
    columns, others = (_NAMED_MENTIONS, _NAMED) if kind == "object" else (_NAMED, _NAMED_MENTIONS)
    known = {option for option, _ in columns.values()}
    for option, _ in others.values():
        if option not in known and named[option] is not None:
            raise UsageError(f"--{option} is not of --kind {kind}", "see --help")
    if named["clip"] is None and named["request_"] is None:
        narrower = "--mention N and --sample ID" if kind == "object" else "--predicted N and --human N"
        raise UsageError("no pair is named", f"give --clip ID, with {narrower}, or --request ID")


def _narrowed(plan: Plan, kind: Kind, named: dict[str, Any]) -> Plan:
    """``plan`` with only the requests of the pairs that are meant."""
    asked = plan.asked[kind]
    for column, (option, what) in (_NAMED_MENTIONS if kind == "object" else _NAMED).items():
        wanted = named[option]
        if wanted is None:
            continue
        there = asked[column].unique().sort().to_list()
        if wanted not in there:
            raise unknown_name(what, str(wanted), list(map(str, there)))
        asked = asked.filter(asked[column] == wanted)
    return replace(plan, requests=plan.requests.join(asked.select("request").unique(), on="request", how="semi"))


def _described(question: Question) -> dict[str, Any]:
    request = question.request
    labels = {"predicted_label": request.predicted_label, "primary": request.primary, "also": list(request.also)}
    who = {"judge": question.judge, "route": question.route, "judge_seed": question.seed}
    return {"key": question.key, "request": request.request, **labels, **who}


def _explained(why: Why) -> dict[str, Any]:
    differs = {part: {"stored": stored, "asked": asked} for part, (stored, asked) in why.differs.items()}
    return {"state": why.state, "nearest": why.nearest, "differs": differs}


_STATES = {
    "known": "is stored",
    "failed": "was answered without a verdict",
    "claimed": "is being asked",
    "asked": "was asked or exported, and has no answer yet",
    "absent": "is not stored",
}


def _tell_why(request: Request, questions: list[Question], explanation: tuple[str, ...]) -> None:
    from mabpl.report.tables import plain

    labels = f"{_quoted(request.predicted_label)} against {_quoted(request.primary)}"
    seeds = ", ".join(str(question.seed) for question in questions if question.seed is not None)
    click.echo(plain(labels))
    click.echo(f"  {explanation[0]}{f': judge seeds {seeds}' if seeds else ''} (request {request.request})")
    for line in explanation[1:]:
        click.echo(f"  {plain(line)}")


def _explanation(why: Why) -> tuple[str, ...]:
    """In lines; equal for the seeds of a request that fail in the same way."""
    if why.state != "absent":
        return (_STATES[why.state],)
    if why.nearest is None:
        return _STATES[why.state], "the store is empty"
    if not why.differs:
        return _STATES[why.state], "the same question is there under the key of another version of mabpl"
    parts = [
        f"{part}: stored {_quoted(stored)}, asked {_quoted(asked)}" for part, (stored, asked) in why.differs.items()
    ]
    return _STATES[why.state], f"the nearest differs in {', '.join(why.differs)}", *(f"  {part}" for part in parts)


def _quoted(value: Any) -> str:
    return "nothing" if value is None else json.dumps(value, ensure_ascii=False)
