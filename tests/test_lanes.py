"""The diagnosis of a clip, and its lanes in the terminal."""
# ruff: noqa: RUF001

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from mabpl import reference
from mabpl.errors import UsageError
from mabpl.report import lanes
from mabpl.report.diagnosis import NOT_SCORED, SCHEMA, VERDICTS, diagnose
from mabpl.report.tables import plain
from mabpl.settings import Settings
from mabpl.tables import schemas

Piece = dict[str, Any]
CLIP = {"set": "some_set", "clip_id": "clip-1", "duration_s": 70.0, "caption": "The person saws."}
FRAME = 1 / 30


def piece(start: float, end: float, label: str = "saw the plank", **marks: bool) -> Piece:
    return {"start_s": float(start), "end_s": float(end), "label": label, "is_idle": False, "flagged": False} | marks


def segments_of(run: str | None, pieces: list[Piece]) -> list[dict[str, Any]]:
    return [
        {
            "run": run,
            "set": "some_set",
            "clip_id": "clip-1",
            "segment": position,
            "start_tick": reference.tick(p["start_s"]),
            "end_tick": reference.tick(p["end_s"]),
            "hands": None,
            **p,
        }
        for position, p in enumerate(pieces)
    ]


def tables_of(human: list[Piece], predicted: list[Piece]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Segments and the matches that the definitions give; another run's and clip's too, which must not matter."""
    rows = segments_of(None, human) + segments_of("mine", predicted) + segments_of("other", [piece(0, 1)])
    score = reference.score_clip(
        [reference.Segment(**p) for p in human], [reference.Segment(**p) for p in predicted], Settings()
    )
    matches = [
        ("mine", "some_set", "clip-1", metric, p, h)
        for metric in ("pa", "boundary", "temporal", "seg")
        for p, h in getattr(score, metric)
    ]
    matches += [("other", "some_set", "clip-1", "boundary", 0, 0), ("mine", "some_set", "clip-2", "boundary", 0, 0)]
    return (
        pl.DataFrame(rows, schema=schemas.SEGMENTS.schema),
        schemas.MATCHES.conform(pl.DataFrame(matches, schema=list(schemas.MATCHES.schema)[:6], orient="row")),
    )


def diagnosed(human: list[Piece], predicted: list[Piece]) -> pl.DataFrame:
    return diagnose(*tables_of(human, predicted), "mine")


def told(frame: pl.DataFrame, side: str) -> list[tuple[str, str]]:
    return frame.filter(side=side).sort("segment").select("verdict", "why").rows()


# --- diagnosis ---


@pytest.mark.parametrize(
    ("start", "end", "verdict", "why"),
    [
        (10 + 20 * FRAME, 30 - 20 * FRAME, "matched", ""),
        (10 + 21 * FRAME, 30, "late", "starts 21 frames late"),
        (10 - 21 * FRAME, 30 + 20 * FRAME, "early", "starts 21 frames early"),
        (10, 30 + 21 * FRAME, "long", "ends 21 frames late"),
        (10 - 20 * FRAME, 30 - 21 * FRAME, "short", "ends 21 frames early"),
        (11, 31, "late", "starts 30 frames late, ends 30 frames late"),
        (9, 29, "early", "starts 30 frames early, ends 30 frames early"),
        (11, 29, "short", "starts 30 frames late, ends 30 frames early"),
        (9, 31, "long", "starts 30 frames early, ends 30 frames late"),
        (10, 19, "short", "ends 330 frames early"),  # IoU below 1/2, but it lies inside
        (20, 50, "late", "starts 300 frames late, ends 600 frames late"),  # exactly half of the human one
        (20.000001, 50, None, "overlaps by half of either"),
        (40, 50, None, "segment here"),
    ],
)
def test_one_against_one(start: float, end: float, verdict: str | None, why: str) -> None:
    frame = diagnosed([piece(10, 30)], [piece(start, end)])
    for side, lonely in (("human", "missed"), ("predicted", "spurious")):
        ((found, reason),) = told(frame, side)
        assert found == (verdict or lonely)
        assert reason == why if verdict else reason.endswith(why)


def test_partner_errors_and_matches() -> None:
    frame = diagnosed([piece(0, 10), piece(10, 20, "b")], [piece(0.5, 10, "p"), piece(12, 20)])
    assert frame.schema == SCHEMA
    rows = frame.select("segment", "label", "partner", "start_error", "end_error", "boundary", "temporal", "seg").rows()
    assert rows == [
        (0, "saw the plank", 0, 15, 0, 0, 0, 0),
        (1, "b", 1, 60, 0, None, 1, 1),
        (0, "p", 0, 15, 0, 0, 0, 0),
        (1, "saw the plank", 1, 60, 0, None, 1, 1),
    ]
    assert frame["iou"].to_list() == [0.95, 0.8, 0.95, 0.8]


def test_which_partner() -> None:
    # One that lies inside goes before one that overlaps more, but by less than half of either.
    frame = diagnosed([piece(0, 100)], [piece(80, 200), piece(1, 6)])
    assert frame.filter(side="human")["partner"].to_list() == [1]
    # Seg F1 matches after snapping the ends, also what does not overlap.
    frame = diagnosed([piece(0, 10)], [piece(11, 13)])
    assert frame.select("verdict", "partner", "iou", "start_error").row(0) == ("missed", 0, 0.0, 330)
    # Boundary F1 speaks before Temporal F1, and that before Seg F1.
    frame = diagnosed([piece(0, 10), piece(0.1, 8.1)], [piece(0, 10), piece(2.2, 10)])
    assert frame.filter(side="human").sort("segment").select("temporal", "seg", "partner").rows() == [
        (0, 1, 0),
        (1, 0, 1),
    ]


def test_split_and_merged() -> None:
    frame = diagnosed([piece(0, 30)], [piece(0, 9), piece(10, 19), piece(20, 40)])
    assert told(frame, "human") == [("split", "holds p0, p1, p2")]
    assert told(frame, "predicted") == [("split", "h0 holds p0, p1, p2")] * 3
    frame = diagnosed([piece(0, 10), piece(10, 20), piece(20, 40)], [piece(0, 30)])
    assert told(frame, "predicted") == [("merged", "holds h0, h1, h2")]
    assert told(frame, "human") == [("merged", "p0 holds h0, h1, h2")] * 3


def test_a_partner_of_half_iou_goes_before_split_and_merged() -> None:
    frame = diagnosed([piece(0, 30)], [piece(0, 20), piece(20, 30)])
    assert told(frame, "human") == [("short", "ends 300 frames early")]
    assert [v for v, _ in told(frame, "predicted")] == ["short", "split"]
    frame = diagnosed([piece(0, 30)], [piece(0, 15), piece(20, 30)])  # IoU of exactly 1/2
    assert told(frame, "human") == [("short", "ends 450 frames early")]


def test_duplicate_names_the_rival() -> None:
    frame = diagnosed([piece(0, 10)], [piece(0, 10), piece(0.1, 10)])
    assert told(frame, "predicted") == [
        ("matched", ""),
        ("duplicate", "both ends are right, but h0 is matched with p0"),
    ]


def test_idle_and_flagged_are_not_scored_and_are_nobodys_partner() -> None:
    frame = diagnosed(
        [piece(0, 10, is_idle=True), piece(10, 20, flagged=True), piece(20, 30)],
        [piece(0, 20), piece(20, 30, is_idle=True), piece(40, 50)],
    )
    assert told(frame, "human") == [
        (NOT_SCORED, "idle"),
        (NOT_SCORED, "flagged"),
        ("missed", "no predicted segment here"),
    ]
    spurious = ("spurious", "no human segment here")
    assert told(frame, "predicted") == [spurious, (NOT_SCORED, "idle"), spurious]
    assert frame["partner"].null_count() == 6


def test_rows_are_in_time_order_and_numbers_are_positions_in_the_file() -> None:
    frame = diagnosed([piece(20, 30), piece(0, 10)], [])
    assert frame.select("segment", "start_s").rows() == [(1, 0.0), (0, 20.0)]


def test_one_clip_at_a_time() -> None:
    segments, matches = tables_of([piece(0, 1)], [])
    with pytest.raises(UsageError, match="2"):
        diagnose(pl.concat([segments, segments.with_columns(clip_id=pl.lit("clip-2"))]), matches, "mine")


@st.composite
def timeline(draw: st.DrawFn, *, flags: bool = True) -> list[Piece]:
    """Segments on a coarse grid (ties, touching, overlaps, nesting) or tiny, in any order."""
    pieces = []
    for _ in range(draw(st.integers(0, 7))):
        start = draw(st.integers(-2, 40)) / 2
        length = draw(st.sampled_from([0.001, 0.5, 0.7, 1.0, 2.0, 5.0, 20.0]))
        label = draw(
            st.sampled_from(["saw", "[bold]saw[/]", "a\x1b[31mb", "two\nlines", "\u202eright to left", "剪刀" * 30])
        )
        marks = {"is_idle": draw(st.integers(0, 5)) == 0, "flagged": flags and draw(st.integers(0, 5)) == 0}
        pieces.append(piece(start, start + length, label, **marks))
    return pieces


MIRROR = {"early": "late", "late": "early", "short": "long", "long": "short", "split": "merged", "merged": "split"}
MIRROR |= {"missed": "spurious", "spurious": "missed"}


@given(timeline(flags=False), timeline(flags=False))
@settings(max_examples=150, deadline=None)
def test_the_other_side_sees_it_in_the_mirror(human: list[Piece], predicted: list[Piece]) -> None:
    segments, matches = tables_of(human, predicted)
    straight = diagnose(segments, matches, "mine")
    names = {"mine": None, None: "mine", "other": "other"}
    swapped = segments.with_columns(
        pl.Series("run", [names[run] for run in segments["run"].to_list()], dtype=pl.String)
    )
    mirrored = diagnose(swapped, matches.rename({"predicted": "human", "human": "predicted"}), "mine")
    for one, other in (("human", "predicted"), ("predicted", "human")):
        expected = [MIRROR.get(v, v) for v, _ in told(straight, one)]
        assert [v for v, _ in told(mirrored, other)] == expected
        partners = straight.filter(side=one).sort("segment")["partner"]
        assert mirrored.filter(side=other).sort("segment")["partner"].equals(partners)


@given(timeline(), timeline())
@settings(max_examples=150, deadline=None)
def test_every_segment_gets_one_verdict(human: list[Piece], predicted: list[Piece]) -> None:
    frame = diagnosed(human, predicted)
    for side, pieces, never in (("human", human, "spurious"), ("predicted", predicted, "missed")):
        rows = frame.filter(side=side)
        assert sorted(rows["segment"]) == list(range(len(pieces)))
        assert set(rows["verdict"]) <= set(VERDICTS) - {never}
        assert (rows["boundary"].is_not_null() == (rows["verdict"] == "matched")).all()
        for number, verdict in rows.select("segment", "verdict").iter_rows():
            p = pieces[number]
            out = p["is_idle"] or (p["flagged"] and side == "human")
            assert (verdict == NOT_SCORED) == out


# --- lanes ---


def test_lanes_are_exact_to_the_cell() -> None:
    human = [piece(0, 10), piece(10, 20), piece(25, 32, is_idle=True), piece(39.6, 42.4), piece(60, 70)]
    predicted = [piece(0, 15), piece(10, 20), piece(44, 46), piece(55, 70, "saw")]
    text = lanes.text(CLIP, diagnosed(human, predicted), width=80, color=False)
    assert text.splitlines()[:11] == [
        "clip-1 · some_set · 70.0 s",
        "The person saws.",
        "human     5: 1 matched, 1 early, 1 long, 1 missed, 1 not scored",
        "predicted 4: 1 matched, 1 early, 1 long, 1 spurious",
        "",
        "seconds   0    5    10   15   20   25   30   35   40   45   50   55   60   65",
        "          ┼────┼────┼────┼────┼────┼────┼────┼────┼────┼────┼────┼────┼────┼────",
        "human     ▏0 long   ▏1=      ▕     ▏2╱╱╱╱▕        ▏▕                  ▏4 early ▕",
        "predicted ▏0 long       ▕                             ▏▕         ▏3 early      ▕",
        "                    ▏1=      ▕",
        "",
    ]


def test_the_list_tells_what_matched_and_why_not() -> None:
    human = [piece(0, 10, "lift the plank"), piece(10, 20), piece(40, 50)]
    predicted = [piece(0, 10, "raise the plank"), piece(11, 20), piece(60, 70, "wave")]
    text = lanes.text(CLIP, diagnosed(human, predicted), width=100, color=False)
    flat = [re.sub(r" +", " ", line).strip() for line in text.splitlines()]
    assert "h0 0.00 – 10.00 p0 0 0 BTS matched" in flat
    assert flat[flat.index("h0 0.00 – 10.00 p0 0 0 BTS matched") + 1 :][:2] == [
        "h0 lift the plank",
        "p0 raise the plank",
    ]
    assert "h1 10.00 – 20.00 p1 +30 0 TS late: starts 30 frames late" in flat
    assert "h2 40.00 – 50.00 – – – missed: no predicted segment here" in flat
    alone = flat[flat.index("Predicted segments that are no human segment's partner") :]
    assert [line.split()[0] for line in alone if re.match(r"p\d+ \d", line)] == ["p2"]


def test_a_long_clip_is_cut_into_stretches_and_nothing_is_lost() -> None:
    human = [piece(k, k + 0.9) for k in range(300)]
    text = lanes.text({"clip_id": "long"}, diagnosed(human, []), width=80, color=False)
    rows = [line for line in text.splitlines() if line.startswith("human   ")]
    assert len(rows) > 10
    numbers = re.findall(r"▏(\d+)", "".join(rows))
    assert list(map(int, numbers)) == list(range(300))
    axes = " ".join(line for line in text.splitlines() if line.startswith("seconds"))
    seconds = [int(word) for word in axes.split() if word.isdigit()]
    assert seconds == sorted(set(seconds))


def test_a_moment_at_the_edge_of_a_stretch_is_drawn_once() -> None:
    moments = [piece(k - 0.001, k + 0.001) for k in range(1, 300)]
    text = lanes.text({"clip_id": "long"}, diagnosed(moments, []), width=80, color=False)
    assert text.count("▏") == len(moments)
    assert "…" not in text
    ends_just_after = [piece(k + 0.1, k + 1.01) for k in range(300)]
    text = lanes.text({"clip_id": "long"}, diagnosed([], ends_just_after), width=80, color=False)
    assert text.count("▏") == len(ends_just_after)
    assert "…" not in text


@given(timeline(), timeline(), st.integers(40, 200), st.sampled_from([None, 0.3, 20.0, 5000.0]))
@settings(max_examples=150, deadline=None)
def test_any_timeline_can_be_drawn(
    human: list[Piece], predicted: list[Piece], width: int, duration: float | None
) -> None:
    frame = diagnosed(human, predicted)
    text = lanes.text(CLIP | {"duration_s": duration}, frame, width=width, color=False)
    assert max(map(cell_len, text.splitlines())) <= width
    assert plain(text.replace("\n", "")) == text.replace("\n", "")
    assert text.count("▏") == len(human) + len(predicted)
    told_numbers = set(re.findall(r"^ *([hp]\d+) ", text, re.MULTILINE))
    assert {f"h{k}" for k in range(len(human))} <= told_numbers


def test_untrusted_text_is_shown_as_it_is() -> None:
    nasty = "[bold]x[/bold] \x1b[31mred\x1b]0;title\x07 two\nlines \u202eevil\u2066\u200b"
    clip = CLIP | {"clip_id": nasty, "set": nasty, "caption": nasty}
    frame = diagnosed([piece(0, 10, nasty)], [piece(0, 10, nasty)])
    text = lanes.text(clip, frame, width=200, color=False)
    assert text.count(plain(nasty)) == 5
    colored = lanes.text(clip, frame, width=200, color=True)
    assert (
        re.sub(r"\x1b\[[\d;]*m", "", colored)
        .replace("\n", "")
        .count("[bold]x[/bold] ␛[31mred␛]0;title␇ two␊lines �evil��")
        == 5
    )
    assert "\x1b]" not in colored


def test_color_only_adds_to_the_characters() -> None:
    frame = diagnosed([piece(0, 10), piece(10, 20), piece(30, 50)], [piece(0, 10), piece(12, 20), piece(60, 70)])
    colored = lanes.text(CLIP, frame, width=100, color=True)
    bare = re.sub(r"\x1b\[[\d;]*m", "", colored)
    assert [line.rstrip() for line in bare.splitlines()] == lanes.text(CLIP, frame, width=100, color=False).splitlines()
    assert "\x1b[7;32m▏0 matched" in colored


@pytest.mark.shared_data
def test_the_busiest_real_clip(shared_data: Path) -> None:
    with (shared_data / "epic" / "labels.jsonl").open(encoding="utf-8") as file:
        clip = max(map(json.loads, file), key=lambda clip: len(clip["segments"]))
    human = [piece(s["start_s"], s["end_s"], s["label"]) for s in clip["segments"]]
    predicted = [piece(p["start_s"] + 0.3, p["end_s"] + 0.9) for p in human]
    text = lanes.text(clip, diagnosed(human, predicted), width=80, color=False)
    axes = text.count("\nseconds ")
    assert axes * 70 / len(human) >= 3
    assert all(f"h{k} " in text for k in range(len(human)))
