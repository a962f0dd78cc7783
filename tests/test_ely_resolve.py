"""Gold regions to atoms: the join against the plain definition, and the definition against cases done by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mabpl.benchmarks.ely_eye.overlap import is_proper, overlaps, spans_source
from mabpl.benchmarks.ely_eye.resolve import resolve
from mabpl.tables.columns import Table
from mabpl.tables.ely_eye import ATOMS, GOLD, RESOLVED, SOURCES, SYMBOLS

Row = dict[str, Any]

MODALITIES = ("pdf", "image", "ui_screenshot", "video", "code", "conversation")
PATHS = ("a.py", "b.py")
NAMES = ("f", "g", "h")


def table(of: Table, rows: Sequence[Row]) -> pl.DataFrame:
    return pl.DataFrame([dict.fromkeys(of.schema) | row for row in rows], schema=of.schema)


def row(of: Table, **values: Any) -> Row:
    return dict.fromkeys(of.schema) | values


def source(modality: str, **extent: Any) -> Row:
    return row(SOURCES, source_id="s", modality=modality, holder="h", file="i", line=1, **extent)


def gold(modality: str, **region: Any) -> Row:
    return row(GOLD, query_id="q", gold=0, source_id="s", modality=modality, **region)


def atom(modality: str, **region: Any) -> Row:
    return row(ATOMS, atom_id="a", source_id="s", modality=modality, holder="h", **region)


def both(g: Row, a: Row, s: Row, symbols: Sequence[Row] = ()) -> tuple[bool, bool] | None:
    """(overlap, whole source) by the definition, once the join was seen to say the same."""
    joined = resolve(table(GOLD, [g]), table(ATOMS, [a]), table(SOURCES, [s]), table(SYMBOLS, symbols))
    plain = overlaps(g, a, symbols), spans_source(a, s, symbols) and is_proper(g, s, symbols)
    assert joined.height == plain[0]
    assert joined["whole_source"].to_list() == ([plain[1]] if plain[0] else [])
    return plain if plain[0] else None


COVERS, WHOLE = (True, False), (True, True)

VIDEO = {"t_start": 10.0, "t_end": 20.0}
BOX = {"x0": 10.0, "y0": 10.0, "x1": 20.0, "y1": 20.0}


def stretch(start: float, end: float) -> Row:
    return {"t_start": start, "t_end": end}


def box(x0: float, y0: float, x1: float, y1: float) -> Row:
    return {"x0": x0, "y0": y0, "x1": x1, "y1": y1}


def lines(first: int, last: int, **more: Any) -> Row:
    return {"path": "a.py", "line_start": first, "line_end": last, **more}


def pages(first: int, last: int, block: int | None = None) -> Row:
    return {"page_start": first, "page_end": last, "block": block}


CASES = [
    ("pdf", {"page": 3}, pages(3, 3), {"pages": 9}, COVERS),
    ("pdf", {"page": 3}, pages(4, 4), {"pages": 9}, None),
    ("pdf", {"page": 3}, pages(2, 4), {"pages": 9}, COVERS),
    ("pdf", {"page": 3}, pages(3, 3, 7), {"pages": 9}, COVERS),
    ("pdf", {"page": 3, "block": 0}, pages(3, 3), {"pages": 9}, COVERS),
    ("pdf", {"page": 3, "block": 0}, pages(3, 3, 0), {"pages": 9}, COVERS),
    ("pdf", {"page": 3, "block": 0}, pages(3, 3, 1), {"pages": 9}, None),
    ("pdf", {"page": 3}, pages(1, 9), {"pages": 9}, WHOLE),
    ("pdf", {"page": 3}, pages(1, 9), {}, COVERS),
    ("pdf", {"page": 3}, {}, {}, WHOLE),
    ("pdf", {"page": 1}, {}, {"pages": 1}, COVERS),
    ("pdf", {"page": 1}, pages(1, 1), {"pages": 1}, COVERS),
    ("pdf", {"page": 1, "block": 2}, pages(1, 1), {"pages": 1}, WHOLE),
    ("pdf", {"page": 1, "block": 2}, pages(1, 1, 2), {"pages": 1}, COVERS),
    ("image", {}, {}, {"width": 8.0, "height": 8.0}, COVERS),
    ("image", {}, box(0, 0, 1, 1), {"width": 8.0, "height": 8.0}, COVERS),
    ("ui_screenshot", BOX, box(20, 10, 30, 20), {}, None),
    ("ui_screenshot", BOX, box(0, 10, 10, 20), {}, None),
    ("ui_screenshot", BOX, box(10, 20, 20, 30), {}, None),
    ("ui_screenshot", BOX, box(19, 19, 30, 30), {}, COVERS),
    ("ui_screenshot", BOX, box(12, 0, 13, 10), {}, None),
    ("ui_screenshot", BOX, box(0, 0, 90, 50), {"width": 90.0, "height": 50.0}, WHOLE),
    ("ui_screenshot", BOX, box(0, 0, 90, 49), {"width": 90.0, "height": 50.0}, COVERS),
    ("ui_screenshot", box(0, 0, 90, 50), {}, {"width": 90.0, "height": 50.0}, COVERS),
    ("video", VIDEO, stretch(20, 30), {}, None),
    ("video", VIDEO, stretch(19.999999, 30), {}, COVERS),
    ("video", stretch(0.3, 1.0), stretch(0.0, 0.1 + 0.2), {}, None),
    ("video", stretch(0.3, 1.0), stretch(0.9999996, 2.0), {}, None),
    ("video", VIDEO, stretch(10, 10), {}, COVERS),
    ("video", VIDEO, stretch(20, 20), {}, COVERS),
    ("video", VIDEO, stretch(20.001, 20.001), {}, None),
    ("video", VIDEO, stretch(0, 60), {"duration_s": 60.0}, WHOLE),
    ("video", VIDEO, stretch(0, 59), {"duration_s": 60.0}, COVERS),
    ("video", stretch(0, 60), {}, {"duration_s": 60.0}, COVERS),
    ("code", {"path": "a.py", "line": 5}, lines(5, 5), {}, COVERS),
    ("code", {"path": "a.py", "line": 5}, lines(6, 9), {}, None),
    ("code", {"path": "b.py", "line": 5}, lines(1, 9), {}, None),
    ("code", {"path": "a.py", "symbol": "f"}, lines(1, 9, symbols=["g", "f"]), {}, COVERS),
    ("code", {"path": "a.py", "symbol": "f"}, lines(1, 9), {}, None),
    ("code", {"path": "a.py", "symbol": "f"}, {"path": "a.py"}, {}, WHOLE),
    ("code", {"path": "a.py", "line": 5}, lines(1, 80), {"lines": 80}, WHOLE),
    ("conversation", {"turn": 0}, {"turn_start": 0, "turn_end": 0}, {"turns": 4}, COVERS),
    ("conversation", {"turn": 2}, {"turn_start": 0, "turn_end": 1}, {"turns": 4}, None),
    ("conversation", {"turn": 2}, {"turn_start": 0, "turn_end": 3}, {"turns": 4}, WHOLE),
    ("conversation", {"turn": 0}, {}, {"turns": 1}, COVERS),
]  # fmt: skip


@pytest.mark.parametrize(("modality", "region", "piece", "extent", "expected"), CASES)
def test_cases_by_hand(modality: str, region: Row, piece: Row, extent: Row, expected: tuple[bool, bool] | None) -> None:
    assert both(gold(modality, **region), atom(modality, **piece), source(modality, **extent)) == expected


def symbol(name: str, first: int, last: int, path: str = "a.py") -> Row:
    return row(SYMBOLS, source_id="s", path=path, symbol=name, line_start=first, line_end=last)


def test_the_lines_of_a_symbol_stand_for_it_where_the_index_tells_them() -> None:
    known = [symbol("f", 1, 4), symbol("g", 5, 9)]
    named = {"path": "a.py", "symbols": ["g"]}
    s = source("code")
    assert both(gold("code", path="a.py", symbol="g"), atom("code", **lines(9, 12)), s, known) == COVERS
    assert both(gold("code", path="a.py", symbol="g"), atom("code", **lines(1, 4)), s, known) is None
    assert both(gold("code", path="a.py", line=5), atom("code", **named), s, known) == COVERS
    assert both(gold("code", path="a.py", line=4), atom("code", **named), s, known) is None
    assert both(gold("code", path="a.py", line=4), atom("code", path="a.py", symbols=["g", "f"]), s, known) == WHOLE
    assert both(gold("code", path="a.py", symbol="f"), atom("code", path="a.py"), s, known[:1]) == COVERS
    assert both(gold("code", path="a.py", line=4), atom("code", path="a.py", symbols=["f"]), s, known[:1]) == COVERS


def test_a_symbol_is_of_its_path_and_an_atom_of_its_own_lines() -> None:
    known = [symbol("f", 1, 4), symbol("f", 5, 9, "b.py")]
    s = source("code")
    assert both(gold("code", path="a.py", symbol="f"), atom("code", **lines(5, 9)), s, known) is None
    assert both(gold("code", path="a.py", line=5), atom("code", path="a.py", symbols=["f"]), s, known) is None
    assert both(gold("code", path="a.py", line=4), atom("code", **lines(5, 9, symbols=["f"])), s, known) is None


# --- drawn cases ---

PLACES = st.integers(0, 4)
SECONDS = st.sampled_from([0.0, 0.1, 0.2, 0.1 + 0.2, 0.3, 0.3000004, 1.0])


def span(values: st.SearchStrategy[Any], first: str, last: str, *, empty: bool) -> st.SearchStrategy[Row]:
    pairs = st.tuples(values, values).map(sorted).filter(lambda p: empty or round(p[0] * 1e6) < round(p[1] * 1e6))
    return pairs.map(lambda pair: {first: pair[0], last: pair[1]})


PIXELS = st.integers(0, 4).map(float)
BOXES = st.builds(
    lambda a, b: a | b, span(PIXELS, "x0", "x1", empty=False), span(PIXELS, "y0", "y1", empty=False)
)  # fmt: skip
LINES = st.integers(1, 5)
SYMBOL_LISTS = st.lists(st.sampled_from(NAMES), min_size=1, max_size=2, unique=True)

REGIONS: dict[str, st.SearchStrategy[Row]] = {
    "pdf": st.fixed_dictionaries({"page": LINES, "block": st.none() | PLACES}),
    "image": st.just({}),
    "ui_screenshot": BOXES,
    "video": span(SECONDS, "t_start", "t_end", empty=False),
    "code": st.fixed_dictionaries({"path": st.sampled_from(PATHS), "symbol": st.sampled_from(NAMES)})
    | st.fixed_dictionaries({"path": st.sampled_from(PATHS), "line": LINES}),
    "conversation": st.fixed_dictionaries({"turn": PLACES}),
}
PIECES: dict[str, st.SearchStrategy[Row]] = {
    "pdf": span(LINES, "page_start", "page_end", empty=True) | st.builds(lambda p, b: pages(p, p, b), LINES, PLACES),
    "image": st.just({}) | BOXES,
    "ui_screenshot": BOXES,
    "video": span(SECONDS, "t_start", "t_end", empty=True),
    "code": st.builds(
        lambda path, lines, symbols: {"path": path} | lines | symbols,
        st.sampled_from(PATHS),
        st.just({}) | span(LINES, "line_start", "line_end", empty=True),
        st.just({}) | st.fixed_dictionaries({"symbols": SYMBOL_LISTS}),
    ),
    "conversation": span(PLACES, "turn_start", "turn_end", empty=True),
}
EXTENTS = st.fixed_dictionaries(
    {
        "pages": st.none() | LINES,
        "width": st.none() | PIXELS,
        "height": st.none() | PIXELS,
        "duration_s": st.none() | SECONDS,
        "lines": st.none() | LINES,
        "turns": st.none() | LINES,
    }
)


@st.composite
def corpora(draw: st.DrawFn, modality: str) -> tuple[list[Row], list[Row], list[Row], list[Row]]:
    """Gold, atoms, sources and symbols; two sources of one modality, so that only the right one may be hit."""
    ids = ("s", "t")
    one = st.sampled_from(ids)
    sources = [source(modality, **draw(EXTENTS)) | {"source_id": name} for name in ids]
    regions = draw(st.lists(st.tuples(one, REGIONS[modality]), max_size=8))
    pieces = draw(st.lists(st.tuples(one, st.just({}) | PIECES[modality]), max_size=10))
    spans = span(LINES, "line_start", "line_end", empty=True)
    known = draw(st.lists(st.tuples(one, st.sampled_from(PATHS), st.sampled_from(NAMES), spans), max_size=6))
    return (
        [gold(modality, **r) | {"source_id": s, "query_id": f"q{i // 2}", "gold": i % 2}
         for i, (s, r) in enumerate(regions)],
        [atom(modality, **p) | {"source_id": s, "atom_id": f"a{i}"} for i, (s, p) in enumerate(pieces)],
        sources,
        [row(SYMBOLS, source_id=s, path=p, symbol=n, **lines) for s, p, n, lines in known],
    )  # fmt: skip


@pytest.mark.parametrize("modality", MODALITIES)
@settings(max_examples=20, deadline=None)
@given(data=st.data(), chance=st.randoms(use_true_random=False))
def test_the_join_is_the_definition(modality: str, data: st.DataObject, chance: Any) -> None:
    golds, atoms, sources, symbols = corpus = data.draw(corpora(modality))
    of = {s["source_id"]: s for s in sources}
    expected = [
        (g["query_id"], g["gold"], a["atom_id"],
         spans_source(a, of[a["source_id"]], symbols) and is_proper(g, of[g["source_id"]], symbols))
        for g in golds for a in atoms if overlaps(g, a, symbols)
    ]  # fmt: skip
    shuffled = [chance.sample(rows, len(rows)) for rows in corpus]
    found = resolve(*(table(of, rows) for of, rows in zip((GOLD, ATOMS, SOURCES, SYMBOLS), shuffled, strict=True)))
    assert found.schema == RESOLVED.schema
    assert found.rows() == sorted(expected)
