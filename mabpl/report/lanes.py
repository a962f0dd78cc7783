"""A clip in the terminal: the human and the predicted timeline below each other, and what became of each segment."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import polars as pl
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from mabpl.report.diagnosis import NOT_SCORED, VERDICTS
from mabpl.report.tables import NOTHING, plain, terminal_width
from mabpl.report.terminal import plain_table, to_text

_HATCH = "\u2571"
_SIGNS = dict(zip(VERDICTS, (*'=<>-+"÷&!!', _HATCH), strict=True))
_STYLES = {
    "matched": "green",
    **dict.fromkeys(("early", "late", "short", "long", "duplicate"), "yellow"),
    **dict.fromkeys(("split", "merged"), "cyan"),
    **dict.fromkeys(("missed", "spurious"), "red"),
    NOT_SCORED: "dim",
}
_NAMES = {"h": "human", "p": "pred."}
_LETTERS = {"boundary": "B", "temporal": "T", "seg": "S"}
_GUTTER = 10
_LEAST_LANE = 20
_NARROW = 72
_TICK_GAP = 3


def draw(clip: Mapping[str, Any], diagnosis: pl.DataFrame, *, width: int) -> RenderableType:
    """The lanes of one clip, their legend, and a list of what each segment matched and why it failed.

    ``clip`` is a row of the table clips, ``diagnosis`` the frame of :func:`mabpl.report.diagnosis.diagnose`, ``width``
    the cells of a line. Seconds are drawn to scale, each end in the cell that it falls into; a segment shorter than
    a cell takes one. Segments of a side that would share a cell are drawn in several rows. A clip whose segments are
    many is cut into stretches, so that a segment has room for its number on average.
    """
    human = [_Drawn(**row) for row in diagnosis.filter(side="human").select(_FIELDS).iter_rows(named=True)]
    predicted = [_Drawn(**row) for row in diagnosis.filter(side="predicted").select(_FIELDS).iter_rows(named=True)]
    parts: list[RenderableType] = [*_heading(clip, human, predicted), ""]
    if human or predicted:
        for stretch in _stretches(clip, human, predicted, max(_LEAST_LANE, width - _GUTTER)):
            parts += [stretch.axis(), stretch.ruler()]
            parts += stretch.lane("human", human)
            parts += [*stretch.lane("predicted", predicted), ""]
        parts += [_legend([*human, *predicted], width), "", *_lists(human, predicted, width)]
    else:
        parts.append(Text("no segments", style="dim"))
    return Group(*parts)


def text(
    clip: Mapping[str, Any], diagnosis: pl.DataFrame, *, width: int | None = None, color: bool | None = None
) -> str:
    """:func:`draw` as a string; ``width`` and ``color`` are the standard output's unless given."""
    width = width or terminal_width()
    return to_text(draw(clip, diagnosis, width=width), width=width, color=color)


class _Drawn(NamedTuple):
    """What is drawn of a row of the diagnosis."""

    segment: int
    start_s: float
    end_s: float
    label: str
    verdict: str
    why: str
    partner: int | None
    start_error: int | None
    end_error: int | None
    boundary: int | None
    temporal: int | None
    seg: int | None

    @property
    def word(self) -> str:
        return self.why if self.verdict == NOT_SCORED else self.verdict


_FIELDS = list(_Drawn._fields)


def _heading(clip: Mapping[str, Any], human: list[_Drawn], predicted: list[_Drawn]) -> Iterator[Text]:
    duration = clip.get("duration_s")
    facts = [plain(clip["set"])] if clip.get("set") else []
    facts += [] if duration is None else [f"{duration:,.1f} s"]
    yield Text.assemble((plain(clip["clip_id"]), "bold"), *(f" · {fact}" for fact in facts))
    if clip.get("caption"):
        yield Text(plain(clip["caption"]), style="dim")
    for side, segments in (("human", human), ("predicted", predicted)):
        counts = [(v, sum(s.verdict == v for s in segments)) for v in VERDICTS]
        told = ", ".join(f"{count} {verdict}" for verdict, count in counts if count)
        yield Text(f"{side:<{_GUTTER}}{len(segments)}" + (f": {told}" if told else ""))


# --- lanes ---


@dataclass(frozen=True, slots=True)
class _Stretch:
    """The seconds from ``start`` to ``stop`` over ``cells`` cells, with a mark every ``step`` seconds."""

    start: float
    stop: float
    cells: int
    step: float

    def cell(self, second: float) -> int:
        return math.floor((second - self.start) / (self.stop - self.start) * self.cells + 0.5)

    def marks(self) -> list[tuple[int, float]]:
        """Cell and second of each mark."""
        first, last = math.ceil(self.start / self.step - 1e-9), math.floor(self.stop / self.step + 1e-9)
        marks = [(self.cell(k * self.step), k * self.step) for k in range(first, last + 1)]
        return [(cell, second) for cell, second in marks if cell < self.cells]

    def axis(self) -> Text:
        line = ""
        for cell, second in self.marks():
            label = _second(second, self.step)
            if cell + len(label) <= self.cells:
                line = f"{line:<{cell}}{label}"
        return Text(f"{'seconds':<{_GUTTER}}{line}", style="dim", no_wrap=True)

    def ruler(self) -> Text:
        line = ["─"] * self.cells
        for cell, _ in self.marks():
            line[cell] = "┼"
        return Text(" " * _GUTTER + "".join(line), style="dim", no_wrap=True)

    def lane(self, side: str, segments: Iterable[_Drawn]) -> list[Text]:
        """The rows of one side: a segment goes to the first row whose cells are free."""
        rows: list[list[tuple[int, int, _Drawn]]] = [[]]
        for segment in segments:
            span = self.span(segment)
            if span is None:
                continue
            row = next((row for row in rows if not row or row[-1][1] <= span[0]), None)
            if row is None:
                rows.append(row := [])
            row.append((*span, segment))
        return [self.line(side if number == 0 else "", row) for number, row in enumerate(rows)]

    def span(self, segment: _Drawn) -> tuple[int, int] | None:
        """First cell and the one after the last; None if the segment is not in this stretch (to the cell)."""
        if segment.start_s >= self.stop or segment.end_s <= self.start:
            return None
        first, last = self.cell(segment.start_s), self.cell(segment.end_s)
        if (first < 0 and last <= 0) or (first >= self.cells and segment.end_s > self.stop):
            return None
        first = min(max(first, 0), self.cells - 1)
        return first, max(first + 1, min(last, self.cells))

    def line(self, gutter: str, row: Sequence[tuple[int, int, _Drawn]]) -> Text:
        line = Text(f"{gutter:<{_GUTTER}}", no_wrap=True)
        position = 0
        for number, (first, last, segment) in enumerate(row):
            line.append(" " * (first - position))
            touches = number + 1 < len(row) and row[number + 1][0] == last
            block = self.block(segment, last - first, touches)
            line.append(block, style=_STYLES[segment.verdict] + ("" if segment.verdict == NOT_SCORED else " reverse"))
            position = last
        return line

    def block(self, segment: _Drawn, room: int, touches: bool) -> str:
        """``▏12 late   ▕``: number and verdict as far as there is room; the end is left out where the next begins."""
        head = "…" if self.cell(segment.start_s) < 0 else "▏"
        tail = "…" if self.cell(segment.end_s) > self.cells else "" if touches else "▕"
        tail = tail if room > 1 else ""
        inner = room - len(head) - len(tail)
        sign, number = _SIGNS[segment.verdict], str(segment.segment)
        choices = (f"{number} {segment.word}", f"{number}{sign}", number, sign, "")
        said = next(choice for choice in choices if len(choice) <= inner)
        return head + said.ljust(inner, _HATCH if segment.verdict == NOT_SCORED else " ") + tail


def _stretches(clip: Mapping[str, Any], human: list[_Drawn], predicted: list[_Drawn], cells: int) -> Iterator[_Stretch]:
    everything = [*human, *predicted]
    begin = min(0.0, *(s.start_s for s in everything))
    end = max(clip.get("duration_s") or 0.0, *(s.end_s for s in everything))
    count = max(len(human), len(predicted))
    number = max(1, math.ceil(count * (len(str(count)) + 2) / cells))
    length = (end - begin) / number
    step = _step(length / cells, begin, end)
    if number > 1:
        length = max(step, math.floor(length / step) * step)
        begin = math.floor(begin / step) * step
        number = math.ceil((end - begin) / length - 1e-9)
    for k in range(number):
        yield _Stretch(begin + k * length, begin + (k + 1) * length, cells, step)


def _step(seconds_per_cell: float, begin: float, end: float) -> float:
    """The least of 1, 2, 5, 10, ... (and their tenths) seconds whose marks leave room for their labels."""
    exponent = math.floor(math.log10(seconds_per_cell))
    steps = [digit * 10.0**power for power in range(exponent, exponent + 4) for digit in (1, 2, 5)]
    for step in steps:
        label = max(len(_second(begin, step)), len(_second(end, step)))
        if step / seconds_per_cell >= label + _TICK_GAP:
            return step
    return steps[-1]


def _second(second: float, step: float) -> str:
    return f"{second:.{max(0, -math.floor(math.log10(step) + 1e-9))}f}"


def _legend(segments: list[_Drawn], width: int) -> Text:
    present = {segment.verdict for segment in segments}
    legend = Text(" " * _GUTTER)
    position = _GUTTER
    for verdict in (v for v in VERDICTS if v in present):
        if position + len(verdict) + 2 > width:
            legend.append("\n" + " " * _GUTTER)
            position = _GUTTER
        legend.append(_SIGNS[verdict], style=_STYLES[verdict])
        legend.append(f" {verdict}   ")
        position += len(verdict) + 5
    return legend


# --- lists ---


def _lists(human: list[_Drawn], predicted: list[_Drawn], width: int) -> Iterator[RenderableType]:
    partners = {s.partner for s in human}
    rest = [s for s in predicted if s.segment not in partners and s.verdict != NOT_SCORED]
    if human:
        yield _list("human", human, {s.segment: s.label for s in predicted}, width)
    if rest:
        yield ""
        yield Text("Predicted segments that are no human segment's partner", style="bold")
        yield _list("predicted", rest, {s.segment: s.label for s in human}, width)
    yield ""
    yield Text(
        "start, end: frames of 1/30 s by which the prediction is late (+) or early (-).  "
        "in: matched by B Boundary F1, T Temporal F1, S Seg F1.",
        style="dim",
    )


def _list(side: str, segments: list[_Drawn], others: Mapping[int, str], width: int) -> Table:
    """One row a segment; its last column holds the verdict, the label, and the partner's label."""
    own, other = ("h", "p") if side == "human" else ("p", "h")
    table = plain_table()
    headings = [_NAMES[own], "seconds", _NAMES[other], "start", "end", "in"]
    kept = range(6) if width >= _NARROW else (0, 2, 3, 4)
    for column in kept:
        table.add_column(headings[column], overflow="fold", justify="left" if column == 5 else "right")
    table.add_column("verdict", overflow="fold", ratio=1)
    for s in segments:
        partner = NOTHING if s.partner is None else f"{other}{s.partner}"
        seconds = f"{s.start_s:.2f} {NOTHING} {s.end_s:.2f}"
        matched = "".join(sign if getattr(s, metric) is not None else " " for metric, sign in _LETTERS.items())
        cells = [f"{own}{s.segment}", seconds, partner, _error(s.start_error), _error(s.end_error), matched]
        verdict = Text.assemble((s.verdict, f"bold {_STYLES[s.verdict]}"), f": {s.why}" if s.why else "")
        labels = Table.grid(padding=(0, 1))
        labels.add_row(Text(cells[0], style="dim"), Text(plain(s.label), overflow="fold"))
        if s.partner is not None:
            labels.add_row(Text(partner, style="dim"), Text(plain(others[s.partner]), overflow="fold"))
        table.add_row(*(Text(cells[column]) for column in kept), Group(verdict, labels))
    return table


def _error(frames: int | None) -> str:
    return NOTHING if frames is None else f"{frames:+d}" if frames else "0"
