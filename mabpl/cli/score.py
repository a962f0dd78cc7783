from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mabpl.cli import common
from mabpl.cli.judges import judge_options, judge_with, judging, tell_plan
from mabpl.settings import Settings

if TYPE_CHECKING:
    from mabpl.benchmarks.micro_annotation.inputs import Inputs, Request
    from mabpl.benchmarks.micro_annotation.scores import Scores
    from mabpl.report.tables import Format


@click.command("score")
@click.option(
    "--predictions", "-p", multiple=True, type=click.Path(), metavar="FILE...",
    help="Files, folders or globs; - is standard input (default: all of the dataset folder).",
)  # fmt: skip
@click.argument("more", nargs=-1, type=click.Path())
@common.input_options
@common.settings_options
@judge_options
@click.option("--out", type=click.Path(), metavar="FILE", help="Where the score JSON of one file goes.")
@click.option("--tables", type=click.Path(), metavar="DIR", help="Write every table as parquet.")
@click.option("--no-pairs", is_flag=True, help="Leave the table of overlapping pairs out of --tables.")
@click.option("--map", "map_file", type=click.Path(), metavar="FILE", help="CSV: configuration, model, setting.")
@click.option("--by", metavar="A,B,...", help="Slice by these columns of the clips, e.g. operator.")
@click.option("--fail-under", multiple=True, metavar="METRIC=VALUE", help="Exit code 1 where a score is lower.")
@click.option("--format", "format_", type=click.Choice(["terminal", "markdown", "csv", "json"]), default="terminal")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
@common.quiet_option
def command(
    predictions: tuple[str, ...],
    more: tuple[str, ...],
    where: dict[str, Any],
    settings: Settings,
    judge: dict[str, Any],
    map_file: str | None,
    quiet: bool,
    **output: Any,
) -> int:
    """Score prediction timelines against the human ones.

    One file: prints its scores and writes them as <name>.<set>.scores.json beside it. Several files, folders or globs:
    prints one table with Joint F1 too, generation seeds folded into mean and SD, with 95% clip-bootstrap intervals.
    """
    from mabpl.benchmarks.micro_annotation import gates, inputs, scoring
    from mabpl.benchmarks.micro_annotation.results import write_result_folder
    from mabpl.errors import UsageError

    wanted = gates.parse(output["fail_under"])
    request = common.request(where, (*predictions, *more), map_file)
    if _is_parquet(request):
        if judging(judge, where, ("pa",)) is not None:
            raise UsageError("segments in parquet are scored without a judge", "give --no-judge")
        return _out_of_core(request, settings, output, wanted, quiet)
    single = len(request.predictions) == 1 and Path(request.predictions[0]).is_file()
    chosen = judging(judge, where, ("pa",) if single else ("pa", "joint"))
    gathered = inputs.gather(request, settings)
    scores = scoring.score_files(gathered.labels, gathered.ready(settings), settings=settings)
    for remark in gathered.predictions.notes:
        common.note(remark, quiet)
    common.tell_warnings(gathered.problems, quiet)
    if judge["dry_run"]:
        return tell_plan(scores, chosen, judge)
    if chosen is not None:
        judged = judge_with(scores, chosen, quiet)
        scores = judged.scores
    if scores.runs.height == 1 and not output["by"]:
        _one(scores, gathered, where, output, quiet)
    else:
        _many(scores, output)
    if output["tables"]:
        write_result_folder(scores, Path(output["tables"]), pairs=not output["no_pairs"])
        common.note(f"tables: {output['tables']}", quiet)
    if chosen is not None and judged.interrupted:
        return common.INTERRUPTED
    failures = gates.failures(scores.sets, wanted)
    for failure in failures:
        common.note(failure)
    if failures:
        return 1
    return common.PARTIAL if gathered.lacks_clips(settings) or scores.unscored.height else 0


def _one(scores: Scores, gathered: Inputs, where: dict[str, Any], output: dict[str, Any], quiet: bool) -> None:
    from mabpl.benchmarks.micro_annotation.results import score_document
    from mabpl.report.results import score_text
    from mabpl.tables import files

    run, set_name = scores.runs.select("run", "set").row(0)
    document = score_document(scores, run, set_name)
    target = output_file(gathered.predictions.sources[0].file, set_name, where, output["out"], "scores")
    if output["as_json"] or output["format_"] == "json" or target is None:
        click.echo(files.to_json(document), nl=False)
    else:
        click.echo(score_text(document, output["format_"]), nl=False)
    if target is not None:
        files.write_json(target, document)
        common.note(f"written: {target}", quiet)


def output_file(source: str, set_name: str, where: dict[str, Any], out: str | None, kind: str) -> Path | None:
    """Where a result JSON goes: --out, else beside the prediction file; None (standard output) for standard input."""
    if out is not None:
        return Path(out)
    if source == "-":
        return None
    from mabpl.reading.names import file_stem

    named = set_name and (where["labels"] is None or where["set_name"])
    stem = file_stem(source) + (f".{set_name.replace('/', '_')}" if named else "")
    return Path(source).with_name(f"{stem}.{kind}.json")


def _many(scores: Scores, output: dict[str, Any]) -> None:
    from mabpl.errors import UsageError
    from mabpl.report import results

    if output["out"]:
        raise UsageError("--out is for one prediction file", "--tables DIR keeps the results of several")
    by = [name for name in (output["by"] or "").split(",") if name]
    format_: Format = "json" if output["as_json"] else output["format_"]
    click.echo(results.leaderboard_text(scores, by, format_), nl=False)


def _is_parquet(request: Request) -> bool:
    """Whether the labels are a parquet file, or a folder of them."""
    labels = request.labels
    if labels is None:
        return False
    return labels.endswith((".parquet", ".pq")) or (Path(labels).is_dir() and any(Path(labels).rglob("*.parquet")))


def _out_of_core(
    request: Request, settings: Settings, output: dict[str, Any], wanted: dict[str, float], quiet: bool
) -> int:
    from mabpl.benchmarks.micro_annotation import gates
    from mabpl.benchmarks.micro_annotation.out_of_core import score_parquet
    from mabpl.errors import UsageError
    from mabpl.report import results
    from mabpl.tables.folder import read_manifest, read_table

    if not output["tables"] or len(request.predictions) != 1:
        raise UsageError(
            "segments in parquet are scored to parquet", "--labels L.parquet --predictions P.parquet --tables DIR"
        )
    unfit = {"--set": request.set_name, "--limit": request.limit, "--clips": request.clips}
    unfit |= {"--map": request.map_file, "--out": output["out"], "--by": output["by"]}
    if given := [option for option, value in unfit.items() if value is not None]:
        raise UsageError(f"{', '.join(given)}: not for segments in parquet", "filter or slice the tables instead")
    folder = score_parquet(
        request.labels or "", request.predictions[0], output["tables"], settings=settings,
        progress=None if quiet or not sys.stderr.isatty() else _tell_progress,
    )  # fmt: skip
    sets = read_table(folder, "set_scores")
    format_: Format = "json" if output["as_json"] else output["format_"]
    click.echo(results.sets_text(sets, format_), nl=False)
    common.note(f"tables: {folder}", quiet)
    failures = gates.failures(sets, wanted)
    for failure in failures:
        common.note(failure)
    if failures:
        return 1
    return common.PARTIAL if read_manifest(folder)["partial"] else 0


def _tell_progress(done: int, parts: int) -> None:
    click.echo(f"\rscored {done} of {parts} parts", nl=done == parts, err=True)
