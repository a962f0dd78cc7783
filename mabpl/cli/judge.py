from __future__ import annotations

import click

from mabpl.cli.lazy import LazyGroup

COMMANDS = {
    "check": "ask an endpoint pairs whose verdict is known: does it think, honour the seed, report usage?",
    "agreement": "how far judge seeds, judges and people agree, and what that does to the scores",
    "export": "write what is still to be asked as files for a provider's batch endpoint",
}
"""Each is ``command`` of ``mabpl.cli.judge_<name>``."""


@click.group("judge", cls=LazyGroup, lazy=COMMANDS, prefix="mabpl.cli.judge_")
def command() -> None:
    """Judges: are they fit, do they agree, and what are they to be asked in batches?"""
