"""The one place that turns a frame into something to read: a terminal table, Markdown, JSON or CSV.

Text that comes from files (labels, clip ids, file names) is untrusted. It is shown as it is, never as markup, and
:func:`plain` makes every character visible that could move the cursor, reorder the line or hide.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import polars as pl
from rich.cells import cell_len, chop_cells

from mabpl.errors import unknown_name
from mabpl.tables.files import UNSAFE, to_json

Format = Literal["terminal", "markdown", "json", "csv"]
Kind = Literal["text", "count", "percent", "interval", "sd", "both"]

NOTHING = "\u2013"
"""How a null is shown."""

_FORMATS = ["terminal", "markdown", "json", "csv"]
_COMPANIONS: dict[str, tuple[str, ...]] = {
    "interval": ("_low", "_high"),
    "sd": ("_sd",),
    "both": ("_sd", "_low", "_high"),
}
_GAP = 2
_PIPED_WIDTH = 100
_LEAST_TEXT = 24
_WORD = re.compile(r"\s*\S+\s*")

_MARKDOWN = re.compile(r"[\\`*<>|~$\[\]]|(?<![^\W_])_|_(?![^\W_])")


class Show(NamedTuple):
    """How one column is shown.

    ``kind``: ``text``; ``count`` (whole number); ``percent`` (``digits`` decimals); ``interval``
    (``51.2 [48.9, 53.4]``, from the columns ``<name>_low`` and ``<name>_high``); ``sd`` (``51.2 ± 0.8``, from
    ``<name>_sd``); ``both``.
    ``short`` replaces ``title`` where space is short. ``best`` sets the highest or lowest value in bold.
    """

    name: str
    title: str = ""
    kind: Kind = "text"
    short: str = ""
    best: Literal["", "high", "low"] = ""
    digits: int = 1

    @property
    def heading(self) -> str:
        return plain(self.title or self.name)

    @property
    def brief(self) -> str:
        return plain(self.short) if self.short else self.heading

    @property
    def sources(self) -> list[str]:
        """The frame's columns that this column shows."""
        return [self.name, *(self.name + suffix for suffix in _COMPANIONS.get(self.kind, ()))]


def plain(text: object) -> str:
    """``text`` in one line, with a visible sign for each control, bidirectional, zero-width or invisible character."""
    return UNSAFE.sub(_visible, str(text))


def _visible(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else "�"


def render(
    frame: pl.DataFrame,
    *,
    format: Format = "terminal",  # noqa: A002
    columns: Sequence[Show] | None = None,
    title: str = "",
    notes: Iterable[str] = (),
    width: int | None = None,
    color: bool | None = None,
) -> str:
    """``frame`` as text that ends with a newline.

    ``columns`` chooses, orders and formats the columns; without it all are shown, each by its type, and ``x_sd``,
    ``x_low``, ``x_high`` beside their ``x``. ``terminal`` and ``markdown`` round, show null as an en dash and carry
    ``title`` and ``notes``. ``json`` (a list of row objects) and ``csv`` hold the unrounded values of the same columns,
    and nothing else. ``width`` (cells) and ``color`` are the standard output's unless given; a terminal table that does
    not fit takes shorter titles, then folds text, then is split into stacked tables: numbers are never cut.
    Raises :class:`~mabpl.errors.UsageError` for an unknown format.
    """
    shows = list(columns) if columns is not None else _by_type(frame)
    if format == "terminal":
        return _terminal(frame, shows, title, notes, width or terminal_width(), color)
    if format == "markdown":
        return _markdown(frame, shows, title, notes)
    chosen = frame.select(list(dict.fromkeys(source for show in shows for source in show.sources)))
    if format == "json":
        return to_json(chosen.to_dicts())
    if format == "csv":
        return chosen.with_columns(pl.col(pl.String).map_elements(plain, return_dtype=pl.String)).write_csv()
    raise unknown_name("format", format, _FORMATS)


def terminal_width() -> int:
    """Width of the terminal in cells (COLUMNS where it is set); 100 if the standard output is not a terminal."""
    if may_be_watched():
        from mabpl.report import terminal

        if terminal.is_watched():
            return terminal.width()
    columns = os.environ.get("COLUMNS", "")
    return (int(columns) or 80) if columns.isdigit() else _PIPED_WIDTH


def may_be_watched() -> bool:
    """Whether the standard output may be a terminal, for :mod:`mabpl.report.terminal` to tell."""
    return sys.stdout.isatty() or not os.environ.keys().isdisjoint(("FORCE_COLOR", "TTY_COMPATIBLE"))


def _by_type(frame: pl.DataFrame) -> list[Show]:
    have = set(frame.columns)
    shows: list[Show] = []
    folded: set[str] = set()
    for name, dtype in frame.schema.items():
        if name in folded:
            continue
        kind: Kind = "text"
        if dtype.is_integer():
            kind = "count"
        elif dtype.is_numeric():
            wanted: list[Kind] = ["both", "interval", "sd"]
            kind = next((k for k in wanted if have.issuperset(Show(name, kind=k).sources)), "percent")
        shows.append(Show(name, kind=kind))
        folded.update(shows[-1].sources)
    return shows


# --- cells ---


class Cell(NamedTuple):
    """The value as shown, what follows it (deviation, interval), and whether it is the best of its column."""

    value: str
    rest: str = ""
    best: bool = False

    @property
    def width(self) -> int:
        return cell_len(self.value + self.rest)


def _cells(frame: pl.DataFrame, show: Show, *, align: bool) -> list[Cell]:
    """One cell a row. ``align`` pads the parts of numbers so that they stand below each other."""
    values = frame[show.name].to_list()
    if show.kind == "text":
        return [Cell(_as_text(value)) for value in values]
    digits = 0 if show.kind == "count" else show.digits
    shown = _numbers(values, digits, align=align)
    companions = [_numbers(frame[source].to_list(), digits, align=align) for source in show.sources[1:]]
    best = _best(values, digits, show.best)
    cells = []
    for row, value in enumerate(values):
        parts = [column[row] for column in companions]
        rest = "" if value is None else _rest(show.kind, parts)
        cells.append(Cell(NOTHING if value is None else shown[row], rest, best=best[row]))
    if align:
        value_width = max((cell_len(c.value) for c in cells), default=0)
        rest_width = max((cell_len(c.rest) for c in cells), default=0)
        return [Cell(c.value.rjust(value_width), c.rest.ljust(rest_width), c.best) for c in cells]
    return cells


def _as_text(value: Any) -> str:
    if value is None:
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    return plain(value)


def _numbers(values: list[Any], digits: int, *, align: bool) -> list[str]:
    """Numbers with ``digits`` decimals and thousands separators; null as nothing (blanks if aligned)."""
    texts = [
        "" if v is None else f"{v:,}" if isinstance(v, int) and not digits else f"{v:z,.{digits}f}" for v in values
    ]
    longest = max(map(len, texts), default=0)
    return [text.rjust(longest) for text in texts] if align else texts


def _rest(kind: Kind, parts: list[str]) -> str:
    """`` ± 0.8 [48.9, 53.4]``; blanks stand for a part that is missing, where the parts are aligned."""
    rest = ""
    if kind in ("sd", "both"):
        spread, *parts = parts
        rest = f" ± {spread}" if spread.strip() else " " * (len(spread) + 3) * bool(spread)
    if kind in ("interval", "both"):
        low, high = parts
        rest += f" [{low}, {high}]" if low.strip() and high.strip() else ""
    return rest


def _best(values: list[Any], digits: int, which: str) -> list[bool]:
    """Whether a value is the best one as shown: values that print alike are best together."""
    rounded = [None if value is None else round(value, digits) for value in values]
    known = [value for value in rounded if value is not None]
    if not which or len(known) < 2:
        return [False] * len(values)
    top = max(known) if which == "high" else min(known)
    return [value == top for value in rounded]


# --- Markdown ---


def _markdown(frame: pl.DataFrame, shows: list[Show], title: str, notes: Iterable[str]) -> str:
    columns = []
    for show in shows:
        body = [
            (f"**{_escaped(c.value)}**" if c.best else _escaped(c.value)) + c.rest
            for c in _cells(frame, show, align=False)
        ]
        columns.append([_escaped(show.heading), *body])
    widths = [max(3, *map(cell_len, column)) for column in columns]
    rules = [
        "-" * width if show.kind == "text" else "-" * (width - 1) + ":"
        for show, width in zip(shows, widths, strict=True)
    ]
    rows = [_row(shows, widths, cells) for cells in zip(*columns, strict=True)]
    lines = [rows[0], "| " + " | ".join(rules) + " |", *rows[1:]] if rows else []
    parts = [f"**{_escaped(plain(title))}**"] if title else []
    parts.append("\n".join(lines))
    parts += [_escaped(plain(note)) for note in notes]
    return "\n\n".join(parts) + "\n"


def _escaped(text: str) -> str:
    return _MARKDOWN.sub(lambda match: "\\" + match.group(), text.replace("&", "&amp;"))


def _row(shows: list[Show], widths: list[int], cells: Sequence[str]) -> str:
    padded = []
    for show, width, cell in zip(shows, widths, cells, strict=True):
        blanks = " " * (width - cell_len(cell))
        padded.append(cell + blanks if show.kind == "text" else blanks + cell)
    return "| " + " | ".join(padded) + " |"


# --- terminal ---


class Column:
    """A column and, once it was fitted, its heading and width."""

    def __init__(self, show: Show, cells: list[Cell]) -> None:
        self.show = show
        self.cells = cells
        self.heading = ""
        self.width = 0

    @property
    def natural(self) -> int:
        return max((cell.width for cell in self.cells), default=1)

    def fit(self, heading: str, *, wrap: bool, fold: int | None) -> None:
        """Sets heading and width: the heading in one line or wrapped, text folded to ``fold`` cells or not."""
        body = self.natural
        if fold is not None and self.show.kind == "text":
            word = max((cell_len(w) for cell in self.cells for w in cell.value.split()), default=1)
            body = min(body, max(_LEAST_TEXT, word), fold)
        words = heading.split() if wrap else [heading]
        self.heading = heading
        self.width = max(body, *map(cell_len, words), 1)

    def lines(self, row: int) -> list[str]:
        cell = self.cells[row]
        text = cell.value + cell.rest
        return folded(text, self.width) if self.show.kind == "text" else [text]

    def padded(self, text: str) -> str:
        blanks = " " * (self.width - cell_len(text))
        return text + blanks if self.show.kind == "text" else blanks + text


class Line(NamedTuple):
    """A title or a note: folded where it is too long."""

    text: str
    style: str = ""


def _terminal(
    frame: pl.DataFrame, shows: list[Show], title: str, notes: Iterable[str], width: int, color: bool | None
) -> str:
    columns = [Column(show, _cells(frame, show, align=True)) for show in shows]
    groups = _laid_out(columns, width)
    parts: list[Line | list[Column]] = [Line(plain(title), "bold"), Line("")] if title else []
    for number, group in enumerate(groups):
        parts += [Line("")] * (number > 0) + [group]
    if not frame.height:
        parts.append(Line("no rows", "dim"))
    written = [Line(plain(note), "dim") for note in notes]
    parts += [Line(""), *written] if written else []
    width = max([width, *map(_total, groups)])
    if color or (color is None and may_be_watched()):
        from mabpl.report import terminal

        return terminal.drawn(parts, frame.height, width, color)
    lines = [line for part in parts for line in _drawn(part, frame.height, width)]
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _drawn(part: Line | list[Column], height: int, width: int) -> Iterator[str]:
    """Without escape codes; line for line what :mod:`mabpl.report.terminal` draws."""
    if isinstance(part, Line):
        yield from folded(part.text, width)
        return
    yield from _beside(part, headings(part))
    yield "\u2500" * _total(part)
    for row in range(height):
        yield from _beside(part, [column.lines(row) for column in part])


def headings(columns: list[Column]) -> list[list[str]]:
    """The lines of each heading, as many of all; they stand at the foot."""
    lines = [folded(column.heading, column.width) for column in columns]
    most = max(map(len, lines), default=0)
    return [[""] * (most - len(own)) + [line.strip() for line in own] for own in lines]


def _beside(columns: list[Column], cells: list[list[str]]) -> Iterator[str]:
    """The lines of one row."""
    for number in range(max(map(len, cells), default=0)):
        texts = [lines[number] if number < len(lines) else "" for lines in cells]
        yield (" " * _GAP).join(column.padded(text) for column, text in zip(columns, texts, strict=True))


def folded(text: str, width: int) -> list[str]:
    """``text`` in lines of at most ``width`` cells: cut between words, and inside one only where it fits no line."""
    lines = [""]
    for word in _WORD.findall(text):
        needed = cell_len(word.rstrip())
        if cell_len(lines[-1]) + needed <= width:
            lines[-1] += word
        else:
            lines += chop_cells(word, width) if needed > width else [word]
    return [line.rstrip() for line in (lines if lines[0] or len(lines) == 1 else lines[1:])]


def _total(columns: list[Column]) -> int:
    return sum(column.width for column in columns) + _GAP * (len(columns) - 1)


def _laid_out(columns: list[Column], width: int) -> list[list[Column]]:
    """The columns with headings and widths, in one group if they fit, else in several that repeat the leading text."""
    for fold in (None, width // 2):
        for brief, wrap in ((False, False), (False, True), (True, True)):
            for column in columns:
                column.fit(column.show.brief if brief else column.show.heading, wrap=wrap, fold=fold)
            if _total(columns) <= width:
                _widen(columns, width)
                return [columns]
    fewest = len(_split(columns, width))
    return next(groups for limit in range(width + 1) if len(groups := _split(columns, limit)) == fewest)


def _split(columns: list[Column], width: int) -> list[list[Column]]:
    """Groups no wider than ``width`` (unless one column alone is), each led by the leading text columns."""
    lead = next((i for i, column in enumerate(columns) if column.show.kind != "text"), 1)
    groups = [columns[:lead]]
    for column in columns[lead:]:
        if len(groups[-1]) > lead and _total([*groups[-1], column]) > width:
            groups.append(columns[:lead])
        groups[-1].append(column)
    return groups


def _widen(columns: list[Column], width: int) -> None:
    """Gives the cells that are left to the text columns that were folded."""
    for column in columns:
        if column.show.kind == "text" and column.natural > column.width:
            column.width = min(column.natural, column.width + width - _total(columns))
