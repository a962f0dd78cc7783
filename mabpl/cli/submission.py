from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mabpl.cli import common

if TYPE_CHECKING:
    from mabpl.benchmarks.micro_annotation.checklist import Finding

_SHOWN = 5
_ENDINGS = (".scores.json", ".joint.json", ".run.json")
"""Further arguments that are called so are no predictions, so that a shell may expand any option's pattern."""


@click.group("submission")
def command() -> None:
    """What goes with a result that is reported: a folder of predictions, scores, joint files and the checklist."""


@command.command("make")
@click.argument("out_folder", type=click.Path())
@click.option("--root", type=click.Path(), help="The dataset folder (default: this one).")
@click.option(
    "--predictions", "-p", multiple=True, required=True, type=click.Path(), metavar="FILE...",
    help="The files of every set and generation seed: files, folders or globs.",
)  # fmt: skip
@click.argument("more", nargs=-1, type=click.Path())
@click.option("--scores", multiple=True, type=click.Path(), metavar="JSON", help="Score JSONs (default: those beside).")
@click.option("--joint", multiple=True, type=click.Path(), metavar="JSON", help="Joint JSONs (default: those beside).")
@click.option("--run-json", multiple=True, type=click.Path(), metavar="FILE", help="run.json files (default: beside).")
@click.option("--produced-by", metavar="TEXT", help="How the timelines were produced, where no run.json tells.")
@click.option("--json", "as_json", is_flag=True, help="Print the checklist as JSON.")
@click.pass_obj
def make(
    root_before: str | None,
    out_folder: str,
    root: str | None,
    predictions: tuple[str, ...],
    more: tuple[str, ...],
    scores: tuple[str, ...],
    joint: tuple[str, ...],
    run_json: tuple[str, ...],
    produced_by: str | None,
    as_json: bool,
) -> int:
    """Write a new folder OUT_FOLDER with all that is to be reported of one configuration.

    Beside the files: submission.json and SUBMISSION.md, the checklist. After -p, --scores, --joint and --run-json
    more files may follow. Exit code 3 if something is missing or doubtful.
    """
    from mabpl.benchmarks.micro_annotation import submission
    from mabpl.report.submission import page
    from mabpl.tables.files import to_json

    jsons = {ending: [name for name in more if name.endswith(ending)] for ending in _ENDINGS}
    files = [*predictions, *(name for name in more if not name.endswith(_ENDINGS))]
    sources = submission.Sources(
        files,
        [*scores, *jsons[".scores.json"]],
        [*joint, *jsons[".joint.json"]],
        [*run_json, *jsons[".run.json"]],
        produced_by,
    )
    made = submission.make(Path(out_folder), sources, root=root or root_before or ".", page=page)
    if as_json:
        click.echo(to_json(made.document), nl=False)
    else:
        _list(made.findings)
        click.echo(f"{out_folder}: {len(made.document['files'])} files, submission.json, SUBMISSION.md")
    return common.PARTIAL if made.findings else 0


@command.command("check")
@click.argument("folder", type=click.Path())
@click.option("--root", type=click.Path(), help="The dataset folder (default: this one).")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
@click.pass_obj
def check(root_before: str | None, folder: str, root: str | None, as_json: bool) -> int:
    """Is a submission complete, consistent, and what is recomputed from its predictions? Works offline.

    Exit code 1 if anything is missing, inconsistent or different; 3 if there are only warnings.
    """
    from mabpl.benchmarks.micro_annotation import submission
    from mabpl.report.submission import page
    from mabpl.tables.files import to_json

    findings = submission.check(Path(folder), root=root or root_before or ".", page=page)
    sound = all(finding.kind == "warning" for finding in findings)
    if as_json:
        click.echo(to_json({"sound": sound, "findings": [finding._asdict() for finding in findings]}), nl=False)
    else:
        _list(findings)
        wrong = sum(finding.kind != "warning" for finding in findings)
        click.echo(f"{folder}: {wrong} findings, {len(findings) - wrong} warnings")
    return common.PARTIAL if findings and sound else int(not sound)


def _list(findings: list[Finding]) -> None:
    """The first of each file, and each warning once; then how many more there are."""
    from mabpl.report.tables import plain

    told: Counter[str] = Counter()
    warned = Counter(finding.message for finding in findings if finding.kind == "warning")
    for finding in findings:
        if finding.kind == "warning":
            if count := warned.pop(finding.message, 0):
                more = f" and {count - 1} more" if count > 1 else ""
                click.echo(plain(f"warning: {finding.file}{more}: {finding.message}"))
            continue
        told[finding.file] += 1
        if told[finding.file] <= _SHOWN:
            click.echo(plain(f"{finding.kind}: {finding.file}: {finding.message}"))
    for file, count in told.items():
        if count > _SHOWN:
            click.echo(plain(f"{file}: and {count - _SHOWN} more (--json lists them)"))
