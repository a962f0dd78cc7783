"""Timelines in answers: noise, drafts, cuts, other units; strict as published, lenient where asked."""

from __future__ import annotations

import json
import time
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from mabpl.annotate import parse_window
from mabpl.annotate.parsing import Mode, ParsedWindow
from mabpl.benchmarks.micro_annotation.rows import Segment
from mabpl.errors import UsageError

START, END = 76.0, 121.0


def answer(*times: tuple[Any, Any], **fields: Any) -> str:
    segments = [
        {"start_s": a, "end_s": b, "label": f"wipe {i}", "is_idle": i == 1, **fields} for i, (a, b) in enumerate(times)
    ]
    return json.dumps({"segments": segments})


TIMES = [(76.0, 80.5), (80.5, 81.25), (81.25, 121.0)]
GOOD = answer(*TIMES)
DRAFT = answer((76.0, 90.0))


def read(text: str, start: float = START, end: float = END, mode: Mode = "strict") -> ParsedWindow:
    return parse_window(text, start, end, mode=mode)


def spans(text: str, start: float = START, end: float = END, mode: Mode = "strict") -> list[tuple[float, float]]:
    parsed = read(text, start, end, mode)
    assert parsed.status == "ok", parsed
    return [(s.start_s, s.end_s) for s in parsed.segments]


def status(text: str, start: float = START, end: float = END, mode: Mode = "strict") -> str:
    parsed = read(text, start, end, mode)
    assert (parsed.status == "ok") == bool(parsed.segments)
    return parsed.status


def test_an_answer_is_read() -> None:
    assert read(GOOD) == ParsedWindow(
        "ok",
        [
            Segment(76.0, 80.5, "wipe 0", False),
            Segment(80.5, 81.25, "wipe 1", True),
            Segment(81.25, 121.0, "wipe 2", False),
        ],
        [],
    )


@pytest.mark.parametrize(
    "text",
    [
        f"```json\n{GOOD}\n```",
        f"```json\n{GOOD}",
        f"Here {{you}} are {{}} {{{{ {GOOD}\nI hope [that] helps }}.",
        f"{DRAFT}\nNo, wait:\n{GOOD}",
        f"<think>{DRAFT}</think>{GOOD}",
        f"<think>{DRAFT[:-9]}</think>{GOOD}",
        f"{DRAFT}</think>{GOOD}",
        f"{GOOD}<think>{DRAFT}</think>",
        f"\u25c1think\u25b7{DRAFT}\u25c1/think\u25b7{GOOD}",
        f'{{"result": {GOOD}}}',
        f'{{"draft": {DRAFT}, "note": "{{", {GOOD[1:]}',
        GOOD.replace(", ", ",\n\t"),
        GOOD.replace('"is_idle"', '"hands": "left", "is_idle"'),
        f'{{"segments": []}} {GOOD} {{"segments": []}}',
    ],
)
@pytest.mark.parametrize("mode", ["strict", "lenient"])
def test_noise_and_drafts_change_nothing(text: str, mode: Mode) -> None:
    assert spans(text, mode=mode) == TIMES
    assert read(text, mode=mode).repairs == []


def test_a_label_may_look_like_anything() -> None:
    for label in ('press "</think>"', "<think>", 'say {"segments": [{', "```", "{", "\\"):
        text = answer((76, 121), label=label)
        for wrapped in (text, f"<think>{DRAFT}</think>{text}", f"<think>hm {label}</think>\n{text}"):
            assert [s.label for s in read(wrapped).segments] == [label]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "no_json"), ("I see nothing.", "no_json"), (GOOD[1:-1].replace("{", "("), "no_json"),
        (f"<think>{GOOD}", "no_json"), (f"<think>{GOOD}</think>", "no_json"), (f"{GOOD}</think>Done.", "no_json"),
        ("{}", "no_segments"), ('{"segments": []}', "no_segments"), ('{"segments": {"start_s": 76}}', "no_segments"),
        (json.dumps(json.loads(GOOD)["segments"]), "no_segments"),
        (GOOD[:-1], "cut_off"), (GOOD[:60], "cut_off"), (f"{DRAFT} Better: {GOOD[:60]}", "cut_off"),
        (f"{DRAFT} Better: {GOOD[:4]}", "cut_off"), (f'{{"result": {GOOD}', "cut_off"),
        (GOOD.replace("}]", "},]"), "invalid_json"), (f"{DRAFT} Better: {GOOD.replace('}]', '},]')}", "invalid_json"),
        (GOOD.replace("80.5,", "80.5, 'x',"), "invalid_json"),
        (GOOD.replace('"is_idle": true', '"is_idle": true, "end_s": 90'), "duplicate_key"),
        (GOOD[:-1] + ', "segments": [1]}', "duplicate_key"),
        *((answer((76, bad)), "wrong_type") for bad in ("121", "2:01", None, True, [121], 10**400)),
        *((answer((76, 121), **{name: bad}), "wrong_type")
          for name, bad in (("label", None), ("label", 3), ("is_idle", 0), ("is_idle", "false"))),
        ('{"segments": [{"start_s": 76, "end_s": 121, "label": "x"}]}', "wrong_type"),
        ('{"segments": [76, 121]}', "wrong_type"), ('{"segments": [null]}', "wrong_type"),
        *((GOOD.replace("121.0", bad), "bad_value") for bad in ("NaN", "Infinity", "-Infinity", "1e999", "1e300")),
        (answer((76, 121), label="\ud800"), "bad_value"),
        (answer((80, 80), (90, 89)), "nothing_left"), (answer((50, 60)), "nothing_left"),
        (answer((121, 122)), "nothing_left"),
        (answer((70, 76.5)), "outside"), (answer((76, 80), (121, 126)), "outside"),
    ],
)  # fmt: skip
def test_an_unusable_answer_says_why(text: str, expected: str) -> None:
    assert status(text) == expected
    assert read(text).hint


def test_what_has_no_length_or_lies_outside_is_left_out_and_told() -> None:
    parsed = read(answer((70, 78), (78, 78), (90, 80), (130, 131), (110, 125)))
    assert [(s.start_s, s.end_s) for s in parsed.segments] == [(76.0, 78.0), (110.0, 121.0)]
    assert parsed.repairs == [
        "segments[0] clipped to the window: 70.0 to 78.0 s",
        "segments[1] left out: it ends at 78.0 s, not after its start",
        "segments[2] left out: it ends at 80.0 s, not after its start",
        "segments[3] left out: 130.0 to 131.0 s is outside the window",
        "segments[4] clipped to the window: 110.0 to 125.0 s",
    ]


def test_exactly_half_inside_is_usable() -> None:
    assert spans(answer((72, 80))) == [(76.0, 80.0)]
    assert status(answer((71.999999, 80))) == "outside"


def test_duplicate_keys_that_are_not_read_do_no_harm() -> None:
    assert spans(GOOD.replace('"is_idle"', '"x": 1, "x": 2, "is_idle"')) == TIMES


# --- relative times ---


@pytest.mark.parametrize(
    ("times", "window", "shift"),
    [
        ([(0, 10), (10, 45)], (38, 83), 38),
        ([(-0.5, 10), (10, 45.5)], (38, 83), 38),
        ([(-0.6, 10), (10, 45)], (38, 83), 0),  # before what is relative
        ([(0, 10), (10, 45.6)], (38, 83), 0),  # after what is relative
        ([(0, 32.5)], (38, 70.5), 38),
        ([(37.4, 45)], (38, 83), 38),
        ([(37.5, 45)], (38, 83), 0),  # both fit: absolute
        ([(38, 45)], (38, 83), 0),
        ([(0, 10), (10, 45)], (0, 45), 0),
        ([(3, 3), (40, 45)], (38, 83), 38),  # decided before what has no length is left out
        ([(40, 45), (0, 10)], (38, 83), 38),  # in any order
        ([(90, 80), (0, 10)], (38, 83), 0),  # not all of them fit: one that is left out counts
        ([(0, 10), (76, 121)], (76, 121), 0),  # not all
    ],
)
def test_times_are_relative_where_all_of_them_fit(times: Any, window: tuple[float, float], shift: float) -> None:
    parsed = read(answer(*times), *window)
    shifted = [(max(a + shift, window[0]), min(b + shift, window[1])) for a, b in times]
    inside = [(a, b) for a, b in shifted if a < b]
    total = sum(b - a for a, b in times)
    if 2 * sum(b - a for a, b in inside) >= total:
        assert [(s.start_s, s.end_s) for s in parsed.segments] == inside
    else:
        assert parsed.status in ("outside", "nothing_left")
    assert any("relative" in repair for repair in parsed.repairs) == bool(shift)


# --- other units ---


@pytest.mark.parametrize("mode", ["strict", "lenient"])
@pytest.mark.parametrize("relative", [False, True])
@pytest.mark.parametrize(
    ("factor", "unit"),
    [(1000, "milliseconds"), (30, "frame numbers at 30 fps"), (6, "frame numbers at 6 fps")],
)
def test_other_units_are_refused_and_named(factor: int, unit: str, relative: bool, mode: Mode) -> None:
    for start, end in ((0, 45), (38, 83), (380, 413.5)):
        times = [(0, 10), (10, end - start)] if relative else [(start, start + 10), (start + 10, end)]
        parsed = read(answer(*((a * factor, b * factor) for a, b in times)), start, end, mode)
        assert parsed.status in ("outside", "nothing_left")
        assert parsed.hint == f"expected seconds; divided by {factor} the times fit the window: they look like {unit}"
    assert "look like" not in read(answer((7, 9))).hint


# --- lenient ---


def test_lenient_repairs_are_told() -> None:
    text = GOOD.replace("80.5", '"01:20.5"').replace("81.25", '" 81,25 "').replace("121.0", '"0:02:01"')
    assert status(text) == "wrong_type"
    parsed = read(text, mode="lenient")
    assert spans(text, mode="lenient") == TIMES
    assert parsed.repairs[0] == "segments[0].end_s: '01:20.5' read as 80.5 s"
    assert len(parsed.repairs) == 5


@pytest.mark.parametrize(
    ("text", "kept", "repair"),
    [
        (GOOD.replace("}]", "},]"), 3, "1 trailing comma left out"),
        (GOOD.replace("false}", "false,}"), 3, "2 trailing commas left out"),
        (GOOD.replace("wipe 0", "} {, }").replace("false}", "false,}"), 3, "2 trailing commas left out"),
        (GOOD.replace("]}", "],}"), 3, ""),
        (GOOD[:-1], 3, "the answer is cut off: 3 complete segments kept"),
        (GOOD[:-2], 3, "the answer is cut off: 3 complete segments kept"),
        (GOOD[:-4], 2, "the answer is cut off: 2 complete segments kept"),
        (GOOD[:-3], 2, "the answer is cut off: 2 complete segments kept"),
        (f"<think>{DRAFT}</think>```json\n{GOOD[:-30]}", 2, "the answer is cut off: 2 complete segments kept"),
        (f"{DRAFT} Better: {GOOD[:-30]}", 2, "the answer is cut off: 2 complete segments kept"),
        (f'{{"result": {GOOD}', 3, "the answer is cut off: 3 complete segments kept"),
    ],
)
def test_lenient_reads_commas_and_cuts(text: str, kept: int, repair: str) -> None:
    assert status(text) in ("cut_off", "invalid_json")
    assert spans(text, mode="lenient") == TIMES[:kept]
    assert read(text, mode="lenient").repairs == ([repair] if repair else [])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (GOOD[:60], "cut_off"),  # no complete segment
        (f"{DRAFT} Better: {GOOD[:60]}", "cut_off"),  # a draft never wins
        (f'{{"draft": {DRAFT}, "final": {GOOD[:60]}', "cut_off"),
        (f'{{"draft": {DRAFT}, "final": {GOOD[:4]}', "cut_off"),
        (GOOD.replace("}, {", "} {"), "invalid_json"),
        (GOOD.replace("80.5,", "80.5, 'x',"), "invalid_json"),
        (GOOD.replace('"is_idle": true', '"is_idle": true, "end_s": 90'), "duplicate_key"),
        *((answer((76, bad)), "wrong_type") for bad in ("2:75", "121 s", "", "about 121", "-1", "1" * 5_000 + ":00")),
        (GOOD.replace("121.0", "NaN"), "bad_value"),
        ("", "no_json"),
    ],
)  # fmt: skip
def test_lenient_makes_nothing_up(text: str, expected: str) -> None:
    assert status(text, mode="lenient") == expected


def test_a_part_whose_times_may_be_relative_is_unusable() -> None:
    relative = answer((0, 10), (10, 45))
    assert status(relative[:-30], 38, 83, "lenient") == "cut_off"
    assert spans(relative[:-30], 0, 45, "lenient") == [(0.0, 10.0)]
    assert status(answer((38, 41), (41, 83))[:-30], 38, 83, "lenient") == "cut_off"
    assert spans(answer((38, 50), (50, 83))[:-30], 38, 83, "lenient") == [(38.0, 50.0)]
    assert spans(relative[:-1], 38, 83, "lenient") == [(38.0, 48.0), (48.0, 83.0)]  # the list is whole


# --- the call, and bounds ---


@pytest.mark.parametrize("window", [(5, 5), (5, 4), (-1, 5), (0, float("nan")), (0, float("inf"))])
def test_a_window_without_a_length_is_wrong_use(window: tuple[float, float]) -> None:
    with pytest.raises(UsageError, match="no window"):
        parse_window(GOOD, *window)


def test_an_unknown_mode_is_wrong_use() -> None:
    with pytest.raises(UsageError, match="known: strict, lenient"):
        parse_window(GOOD, START, END, mode="lax")  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", ["strict", "lenient"])
@pytest.mark.parametrize(
    "piece",
    [
        "{",
        '{"a":',
        '{"a":[',
        "<think>",
        "</think>",
        '{"',
        GOOD[:-1],
        GOOD[:60],
        '"segments": [{',
        '{"segments": [',
        "\\",
    ],
)
def test_a_huge_answer_is_read_in_bounded_time(piece: str, mode: Mode) -> None:
    start = time.process_time()
    status(piece * (3_000_000 // len(piece)), mode=mode)
    status('{"segments": [{"a":"' + piece * (1_000_000 // len(piece)), mode=mode)
    status('{"a":' * 500 + "[" + "1," * 1_000_000 + piece, mode=mode)
    assert time.process_time() - start < 4


# --- properties ---

MICROSECONDS = st.integers(0, 45_000_000)


@st.composite
def timelines(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Segments inside the window, in any order."""
    cuts = sorted(draw(st.sets(MICROSECONDS, min_size=2, max_size=8)))
    labels = st.text(max_size=12) | st.sampled_from(["<think>", "</think>", '{"segments": [{', "},]", "```"])
    return [
        {"start_s": 76 + a / 1e6, "end_s": 76 + b / 1e6, "label": draw(labels), "is_idle": draw(st.booleans())}
        for a, b in draw(st.permutations(list(pairwise(cuts))))
    ]


def expected(segments: list[dict[str, Any]]) -> list[Segment]:
    return [
        Segment(round(s["start_s"], 6), round(s["end_s"], 6), s["label"], s["is_idle"])
        for s in segments
        if round(s["start_s"] * 1e6) < round(s["end_s"] * 1e6)
    ]


def written(segments: list[dict[str, Any]], ascii_only: bool, indent: int | None, wrapped: bool) -> str:
    value: dict[str, Any] = {"note": "a {draft}", "segments": segments, "done": True}
    return json.dumps({"answer": value} if wrapped else value, ensure_ascii=ascii_only, indent=indent)


PROSE = st.text(st.characters(codec="utf-8", exclude_characters='{}<>[]"\u25c1\u25b7'), max_size=30)
BEFORE = st.one_of(
    PROSE,
    st.lists(st.sampled_from(["{", "}", "{}", "[", "\\", '{"a": 1}', " ", "\n"])).map(lambda p: "".join(p) + "."),
    PROSE.map(lambda p: f"<think>{p}{DRAFT}{p}</think>{p}"),
    PROSE.map(lambda p: f"{p}{DRAFT[:-7]} {p}</think>"),
    st.just("```json\n"),
)
AFTER = PROSE | st.sampled_from(["\n```", "}}]", " {x}", f"<think>{DRAFT}", '{"a": 1}'])
modest = hypothesis_settings(max_examples=150, deadline=None)


@given(timelines(), st.booleans(), st.sampled_from((None, 2)), st.booleans(), BEFORE, AFTER)
@modest
def test_an_answer_in_noise_is_that_answer(
    segments: Any, ascii_only: bool, indent: int | None, wrapped: bool, before: str, after: str
) -> None:
    text = f"{before}{written(segments, ascii_only, indent, wrapped)}{after}"
    for mode in ("strict", "lenient"):
        parsed = read(text, mode=mode)  # type: ignore[arg-type]
        assert (parsed.status, parsed.segments, parsed.repairs) == ("ok", expected(segments), [])


@given(timelines(), st.booleans(), st.sampled_from((None, 2)), st.booleans(), BEFORE, st.data())
@modest
def test_a_cut_answer_is_refused_or_gives_its_first_segments(
    segments: Any, ascii_only: bool, indent: int | None, wrapped: bool, before: str, data: st.DataObject
) -> None:
    text = written(segments, ascii_only, indent, wrapped)
    for _ in range(10):
        cut = before + text[: data.draw(st.integers(0, len(text) - 1))]
        assert status(cut) != "ok"
        parsed = read(cut, mode="lenient")
        assert parsed.segments == expected(segments)[: len(parsed.segments)]
    last = before + text[: text.rindex("]")]
    assert read(last, mode="lenient").segments == expected(segments)


@given(
    st.text(max_size=200)
    | st.lists(
        st.sampled_from(
            ['{"segments": [', '{"start_s": 1,', '"end_s": "0:90"', '"label": "', "}", "]", ",", "{", '"', "<think>",
             "NaN", "</think>", '"is_idle": true', "1e9", "\\u12", "\\", " ", "\ud800", '"segments"', ":", "[", DRAFT]
        )
    ).map("".join),
    st.sampled_from([(0, 45), (38, 83), (76, 121), (0, 1e-6)]),
    st.sampled_from(["strict", "lenient"]),
)  # fmt: skip
@hypothesis_settings(max_examples=400, deadline=None)
def test_no_text_raises(text: str, window: tuple[float, float], mode: Mode) -> None:
    parsed = parse_window(text, *window, mode=mode)
    assert (parsed.status == "ok") == bool(parsed.segments)
    assert all(window[0] <= s.start_s < s.end_s <= window[1] for s in parsed.segments)
