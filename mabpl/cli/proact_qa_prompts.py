from __future__ import annotations

from typing import Any

import click

from mabpl.cli import common, proact_common


@click.command("qa-prompts")
@proact_common.release_options
@click.option("--out", type=click.Path(), metavar="FILE", help="Write here instead of standard output.")
@common.quiet_option
def command(where: dict[str, Any], out: str | None, quiet: bool) -> None:
    """Write every question as a line of JSON, for whoever asks a model.

    A line has qa_id, track, task, split, clip_uid, question, letters, choices and prompt. The choices stand in the
    released order, which is the scored one; nothing tells the right one. Answer with lines of {"qa_id", "letter"}.
    """
    from mabpl.benchmarks.proact_ego_mem.qa import questions
    from mabpl.tables.files import to_json_lines

    release = proact_common.read(where, quiet)
    release.require_valid()
    proact_common.write_or_print(to_json_lines(questions(release).to_dicts()), out, quiet)
