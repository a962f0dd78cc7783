"""Tables to read: what is shown, what is escaped, and how they fit."""
# ruff: noqa: RUF001

from __future__ import annotations

import io
import json
import re
import unicodedata
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from rich.cells import cell_len

from mabpl.errors import UsageError
from mabpl.report import tables
from mabpl.report.tables import Show, plain, render

NASTY = "[bold red]x[/] \x1b[31m|a\nb\u202ec\u200bd\x9be\x7f `*_<i>&amp;\\"

SCORES = pl.DataFrame(
    {
        "run": ["careful-large", "quick-large", "one-run", "nothing"],
        "clips": [45, 1045, 45, None],
        "score": [54.04, 9.26, 39.3, None],
        "score_sd": [0.31, 12.0, None, None],
        "score_low": [52.3, 7.0, 37.0, None],
        "score_high": [55.0, 100.0, 40.0, None],
        "boundary": [32.93, 32.88, -0.01, None],
    }
)
COLUMNS = [
    Show("run", "Configuration"),
    Show("clips", "Clips", "count"),
    Show("score", "Score", "both", best="high"),
    Show("boundary", "Boundary F1", "percent", "Bound.", best="high"),
]


def test_terminal_table() -> None:
    expected = """\
Scores

Configuration  Clips                      Score  Boundary F1
────────────────────────────────────────────────────────────
careful-large     45  54.0 ±  0.3 [52.3,  55.0]         32.9
quick-large    1,045   9.3 ± 12.0 [ 7.0, 100.0]         32.9
one-run           45  39.3        [37.0,  40.0]          0.0
nothing            –     –                                 –

95% intervals
"""
    assert render(SCORES, columns=COLUMNS, title="Scores", notes=["95% intervals"], width=60, color=False) == expected


@pytest.mark.parametrize(
    ("kind", "shown"), [("interval", "9.3 [7.0, 100.0]"), ("sd", "9.3 ± 12.0"), ("percent", "9.3"), ("count", "9")]
)
def test_kinds(kind: Any, shown: str) -> None:
    text = render(SCORES[1:2], columns=[Show("score", "Score", kind)], width=60, color=False)
    assert text.splitlines()[-1].strip() == shown


def test_columns_are_chosen_by_type() -> None:
    head, _, first, *_ = render(SCORES.with_columns(ok=pl.lit(True)), width=100, color=False).splitlines()
    assert head.split() == ["run", "clips", "score", "boundary", "ok"]
    assert first.split() == ["careful-large", "45", "54.0", "±", "0.3", "[52.3,", "55.0]", "32.9", "yes"]


def test_best_values_are_bold_also_where_they_only_print_alike() -> None:
    text = render(SCORES, columns=COLUMNS, width=100, color=True)
    assert re.findall(r"\x1b\[1m *([\d.]+)\x1b", text) == ["54.0", "32.9", "32.9"]
    markdown = render(SCORES, columns=COLUMNS, format="markdown")
    assert "| **54.0** ± 0.3 [52.3, 55.0] |" in markdown
    assert markdown.count("**32.9**") == 2
    assert "**" not in render(SCORES[:1], columns=COLUMNS, format="markdown")


def test_empty_frame() -> None:
    assert render(SCORES.clear(), columns=COLUMNS, width=80, color=False).endswith("no rows\n")
    assert len(render(SCORES.clear(), columns=COLUMNS, format="markdown").splitlines()) == 2
    assert json.loads(render(SCORES.clear(), format="json")) == []


@given(st.integers(1, 140))
@settings(max_examples=60, deadline=None)
def test_no_number_is_ever_cut(width: int) -> None:
    text = render(SCORES, columns=[*COLUMNS, Show("run", "Again")], width=width, color=False)
    lines = text.splitlines()
    assert "…" not in text
    for number in ("54.0 ±  0.3 [52.3,  55.0]", " 9.3 ± 12.0 [ 7.0, 100.0]", "1,045", "32.9", "0.0"):
        assert sum(number in line for line in lines) >= 1
    widest_pair = cell_len("careful-large  54.0 ±  0.3 [52.3,  55.0]")
    assert max(map(cell_len, lines)) <= max(width, widest_pair)


def test_a_narrow_table_takes_short_titles_and_then_is_stacked() -> None:
    heads = {
        width: [line for line in text.splitlines() if line.startswith("Config")]
        for width in (60, 57, 55, 54)
        for text in [render(SCORES, columns=COLUMNS, width=width, color=False)]
    }
    assert [head.split()[-1] for head in heads[60]] == ["F1"]
    assert [head.split()[-1] for head in heads[57]] == ["F1"]  # wrapped: "Boundary" stands above
    assert [head.split()[-1] for head in heads[55]] == ["Bound."]
    assert [head.split()[1:] for head in heads[54]] == [["Clips", "Score"], ["Bound."]]


def test_stacked_tables_are_balanced() -> None:
    frame = pl.DataFrame({"run": ["r"]} | {f"number_{k}": [1.5] for k in range(4)})
    heads = [line.split() for line in render(frame, width=34, color=False).splitlines() if line.startswith("run")]
    assert heads == [["run", "number_0", "number_1"], ["run", "number_2", "number_3"]]


@given(st.lists(st.text("ab -\u00bd\u526a\t", max_size=60), min_size=3, max_size=3), st.integers(8, 70))
@settings(max_examples=150, deadline=None)
def test_with_and_without_escape_codes_the_lines_are_the_same(texts: list[str], width: int) -> None:
    frame = SCORES.head(3).with_columns(pl.Series("run", texts))
    options: dict[str, Any] = {"columns": COLUMNS, "title": texts[0], "notes": texts[1:], "width": width}
    colored = re.sub(r"\x1b\[\d*m", "", render(frame, color=True, **options))
    assert [line.rstrip() for line in colored.splitlines()] == render(frame, color=False, **options).splitlines()


def test_long_text_is_folded_before_numbers_are_split_off() -> None:
    frame = pl.DataFrame({"label": ["hold the plank steady with the left hand and saw it"], "f1": [12.34]})
    lines = render(frame, width=40, color=False).splitlines()
    assert [line.rstrip() for line in lines[2:]] == [
        "hold the plank steady with the      12.3",
        "left hand and saw it",
    ]


# --- untrusted text ---


def test_plain_leaves_no_character_that_controls_or_hides() -> None:
    bad = {"Cc", "Cf", "Cs", "Zl", "Zp"}
    left = [c for c in map(chr, range(0x110000)) if unicodedata.category(c) in bad and plain(c) == c]
    assert left == []
    assert plain("a\x1b[31m\n\tb\u202e\x7f") == "a␛[31m␊␉b�␡"
    assert plain("reach für 剪刀 – ½ ✂") == "reach für 剪刀 – ½ ✂"
    assert plain(plain(NASTY)) == plain(NASTY)


@pytest.mark.parametrize("where", ["cell", "title", "note", "heading"])
def test_terminal_shows_untrusted_text_as_it_is(where: str) -> None:
    cell = NASTY if where == "cell" else "x"
    frame = pl.DataFrame({"label": [cell]})
    heading = NASTY if where == "heading" else "Label"
    text = render(
        frame,
        columns=[Show("label", heading)],
        title=NASTY * (where == "title"),
        notes=[NASTY] * (where == "note"),
        width=200,
        color=False,
    )
    assert plain(NASTY) in text
    assert plain(text.replace("\n", "")) == text.replace("\n", "")


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=3))
@settings(max_examples=150, deadline=None)
def test_markdown_cells_read_back_as_the_text(labels: list[str]) -> None:
    labels = [*labels, NASTY, "operator_disjoint_59", "__init__", "a|b", "https://x.y", "$1$", "~~a~~", "![i](u)"]
    markdown = render(pl.DataFrame({"label": labels}), format="markdown", columns=[Show("label", NASTY)])
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    inline = [token for token in parser.parse(markdown) if token.type == "inline"]
    assert len(markdown.splitlines()) == len(labels) + 2
    assert "operator_disjoint_59 " in markdown
    for token, label in zip(inline, [NASTY, *labels], strict=True):
        assert all(child.type in ("text", "text_special") for child in token.children or [])
        assert "".join(child.content for child in token.children or []) == plain(label).strip()


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=4), st.floats(allow_nan=False, width=32))
@settings(max_examples=100, deadline=None)
def test_json_is_lossless_and_holds_no_raw_control_character(labels: list[str], value: float) -> None:
    frame = pl.DataFrame({"label": [*labels, NASTY]}, schema={"label": pl.String}).with_columns(v=pl.lit(0.1 + 0.2))
    text = render(frame, format="json")
    assert json.loads(text) == frame.to_dicts()
    assert plain(text.replace("\n", "")) == text.replace("\n", "")


def test_json_and_csv_hold_the_chosen_columns_unrounded() -> None:
    names = ["run", "clips", "score", "score_sd", "score_low", "score_high", "boundary"]
    rows = json.loads(render(SCORES, columns=COLUMNS, format="json"))
    assert list(rows[0]) == names
    assert rows == SCORES.select(names).to_dicts()
    assert json.loads(render(SCORES, columns=COLUMNS[1:2], format="json"))[3] == {"clips": None}
    csv = render(SCORES, columns=COLUMNS, format="csv")
    assert pl.read_csv(io.StringIO(csv)).equals(SCORES.select(names))
    assert "\x1b" not in render(pl.DataFrame({"label": [NASTY]}), format="csv")


def test_unknown_format() -> None:
    with pytest.raises(UsageError, match="markdown"):
        render(SCORES, format="markdwn")  # type: ignore[arg-type]


# --- the standard output ---


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_escape_codes_only_for_a_terminal_and_without_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr("sys.stdout", io.StringIO())
    assert "\x1b" not in render(SCORES)
    assert tables.terminal_width() == 100
    monkeypatch.setattr("sys.stdout", Terminal())
    assert "\x1b[1m" in render(SCORES)
    monkeypatch.setenv("COLUMNS", "132")
    assert tables.terminal_width() == 132
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in render(SCORES)
