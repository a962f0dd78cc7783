from __future__ import annotations

import click

from mabpl.cli.lazy import LazyGroup

COMMANDS = {
    "validate": "check released files, a whole release, and submissions",
    "score": "what was said when: F1, silence, false alarms and lateness of submissions",
    "qa": "accuracy of submissions on the multiple-choice questions",
    "qa-prompts": "every question with its choices in the released order, as JSON lines",
    "cuts": "the clips as windows of their source videos; cuts the videos that are at hand",
}
"""Each is ``command`` of ``mabpl.cli.proact_<name>``."""


@click.group("proact", cls=LazyGroup, lazy=COMMANDS, prefix="mabpl.cli.proact_")
def command() -> None:
    """ProactEgoMem: proactive memory from egocentric video.

    --labels names the released files (JSON of the shape proact-studio-v3) or the folder that holds them; submissions
    are JSON lines (see `mabpl schema proact_submission`).
    """
