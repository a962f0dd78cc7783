from __future__ import annotations

from typing import Any

import click

from mabpl.cli import common
from mabpl.cli.judges import judge_options, judge_with, judging, tell_plan
from mabpl.cli.score import output_file
from mabpl.settings import Settings


@click.command("joint")
@click.option("--predictions", "-p", type=click.Path(), required=True, metavar="FILE", help="- is standard input.")
@common.input_options
@common.settings_options
@judge_options
@click.option("--out", type=click.Path(), metavar="FILE", help="Where the joint JSON goes.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
@common.quiet_option
def command(
    predictions: str,
    where: dict[str, Any],
    settings: Settings,
    judge: dict[str, Any],
    out: str | None,
    as_json: bool,
    quiet: bool,
) -> int:
    """Segmentation F1@0.75, and Joint semantic F1@0.75, of one prediction file.

    Prints them with precision and recall and writes them as <name>.<set>.joint.json beside the file.
    """
    from mabpl.benchmarks.micro_annotation import inputs, scoring
    from mabpl.benchmarks.micro_annotation.results import joint_document
    from mabpl.errors import UsageError
    from mabpl.report.results import joint_text
    from mabpl.tables import files

    for name in ("base_url", "model", "route", "extra_body"):  # here the judge is the joint judge, as published
        judge[f"joint_judge_{name}"] = judge[f"joint_judge_{name}"] or judge[f"judge_{name}"]
    if judge["judge_seeds"] is not None:
        raise UsageError("the joint judge takes no judge seeds", "it is asked once for each pair of labels")
    chosen = judging(judge, where, ("joint",))
    gathered = inputs.gather(common.request(where, (predictions,)), settings)
    if len(gathered.predictions.sources) != 1:
        raise UsageError("joint takes one prediction file", "score takes many, and gives Seg F1 too")
    scores = scoring.score_files(gathered.labels, gathered.ready(settings), settings=settings)
    common.tell_warnings(gathered.problems, quiet)
    if judge["dry_run"]:
        return tell_plan(scores, chosen, judge)
    if chosen is not None:
        judged = judge_with(scores, chosen, quiet)
        scores = judged.scores
    run, set_name = scores.runs.select("run", "set").row(0)
    document = joint_document(scores, run, set_name)
    target = output_file(gathered.predictions.sources[0].file, set_name, where, out, "joint")
    click.echo(files.to_json(document) if as_json or target is None else joint_text(document), nl=False)
    if target is not None:
        files.write_json(target, document)
        common.note(f"written: {target}", quiet)
    if chosen is not None and judged.interrupted:
        return common.INTERRUPTED
    return common.PARTIAL if gathered.lacks_clips(settings) or scores.unscored.height else 0
