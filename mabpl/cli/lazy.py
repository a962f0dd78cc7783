"""A group of commands, each imported when it is called for."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click

from mabpl.errors import unknown_name


class LazyGroup(click.Group):
    """``lazy``: name and one line of help of each command; it is ``command`` of the module ``prefix`` + name
    (with _ for -)."""

    def __init__(self, *args: Any, lazy: Mapping[str, str], prefix: str, **options: Any) -> None:
        super().__init__(*args, **options)
        self.lazy = lazy
        self.prefix = prefix

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.lazy:
            return None
        command: click.Command = import_module(self.prefix + cmd_name.replace("-", "_")).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in self.lazy and not args[0].startswith("-"):
            raise unknown_name("command", args[0], list(self.lazy))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(self.lazy.items()))
