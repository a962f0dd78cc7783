from __future__ import annotations

from importlib import import_module

import click

from mabpl.errors import unknown_name

COMMANDS = {
    "check": "ask an endpoint pairs whose verdict is known: does it think, honour the seed, report usage?",
    "agreement": "how far judge seeds, judges and people agree, and what that does to the scores",
    "export": "write what is still to be asked as files for a provider's batch endpoint",
}
"""Each is ``command`` of ``mabpl.cli.judge_<name>``."""


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            raise unknown_name("command", f"judge {cmd_name}", [f"judge {name}" for name in COMMANDS])
        command: click.Command = import_module(f"mabpl.cli.judge_{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group("judge", cls=_Commands)
def command() -> None:
    """Judges: are they fit, do they agree, and what are they to be asked in batches?"""
