"""Drawings, and tables with escape codes: by rich, which is loaded only for them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from io import StringIO
from typing import Literal

from rich import box
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from mabpl.report.tables import Column, Line, headings, terminal_width


def is_watched() -> bool:
    """Whether the standard output is a terminal."""
    return _stdout().is_terminal


def width() -> int:
    """Width of the terminal in cells."""
    return _stdout().width


def _stdout() -> Console:
    return Console(file=sys.stdout, force_jupyter=False)


def to_text(*renderables: RenderableType, width: int | None = None, color: bool | None = None) -> str:
    """Rich renderables as one string. No escape codes if ``color`` is false, NO_COLOR is set or nobody watches."""
    if color is None:
        system = None if os.environ.get("NO_COLOR") else _stdout().color_system
    else:
        system = "standard" if color else None
    buffer = StringIO()
    console = Console(
        file=buffer,
        width=width or terminal_width(),
        color_system=system,  # type: ignore[arg-type]
        force_terminal=system is not None,
        force_jupyter=False,
        no_color=False,
        legacy_windows=False,
    )
    for renderable in renderables:
        console.print(renderable)
    return "".join(f"{line.rstrip()}\n" for line in buffer.getvalue().removesuffix("\n").split("\n"))


def plain_table() -> Table:
    """An empty rich table in the house style: a rule under the head, two cells between columns."""
    return Table(
        box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1), collapse_padding=True, header_style="bold"
    )


def drawn(parts: Iterable[Line | list[Column]], height: int, width: int, color: bool | None) -> str:
    """Lines and tables of ``height`` rows, one below the other."""
    shown = [Text(part.text, style=part.style) if isinstance(part, Line) else _table(part, height) for part in parts]
    return to_text(*shown, width=width, color=color)


def _table(columns: list[Column], height: int) -> Table:
    table = plain_table()
    for column, heading in zip(columns, headings(columns), strict=True):
        justify: Literal["left", "right"] = "left" if column.show.kind == "text" else "right"
        table.add_column(Text("\n".join(heading), justify=justify), width=column.width, overflow="fold")
    for row in range(height):
        table.add_row(*(_cell(column, row) for column in columns))
    return table


def _cell(column: Column, row: int) -> Text:
    # Padded here: rich would strip the blanks that stand for a missing deviation or interval.
    cell = column.cells[row]
    blanks = "" if column.show.kind == "text" else " " * (column.width - cell.width)
    return Text.assemble(blanks, (cell.value, "bold" if cell.best else ""), cell.rest)
