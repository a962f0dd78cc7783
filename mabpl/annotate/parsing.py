"""The timeline in a model's answer about one window of a video."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args

import msgspec

from mabpl.annotate import repairing
from mabpl.benchmarks.micro_annotation.parsing import LIMIT_US
from mabpl.benchmarks.micro_annotation.rows import Segment
from mabpl.errors import UsageError, unknown_name
from mabpl.judges.answers import Found, has_thinking, objects, without_thinking

Mode = Literal["strict", "lenient"]

_SLACK_US = 500_000
_FIELDS = {"segments", *Segment.__struct_fields__}
_UNITS = {1000: "milliseconds", 30: "frame numbers at 30 fps", 6: "frame numbers at 6 fps"}
"""What is taken for seconds by mistake: how many make one second, and what they are."""


@dataclass(frozen=True, slots=True)
class ParsedWindow:
    """What an answer says. ``status`` is ``ok``, or why the answer is unusable (there are no segments then):

    - ``no_json``: no JSON object outside thinking; ``no_segments``: none with a non-empty list ``segments``;
    - ``cut_off``: the answer ends inside its JSON; ``invalid_json``: its list of segments is not valid JSON;
    - ``duplicate_key``: a field is given more than once; ``wrong_type``: a field is missing or of another type;
    - ``bad_value``: a time that is NaN, infinite or out of range; a label that is not valid text;
    - ``nothing_left``: no segment has a length inside the window; ``outside``: less than half of the time is inside.

    ``segments``: in seconds of the full clip, inside the window, as ordered in the answer. ``repairs``: all that was
    changed to read them. ``hint``: where and what was wrong, and what may be the cause.
    """

    status: str
    segments: list[Segment]
    repairs: list[str]
    hint: str = ""


class _UnusableError(Exception):
    def __init__(self, status: str, hint: str) -> None:
        super().__init__(status)
        self.status = status
        self.hint = hint


def parse_window(text: str, start_s: float, end_s: float, *, mode: Mode = "strict") -> ParsedWindow:
    """The segments that ``text``, an answer about the window from ``start_s`` to ``end_s`` of a clip, holds.

    The last JSON object with a non-empty list ``segments`` counts, amid fences and prose and after thinking. Times that
    are all relative to the window's start are shifted: the window starts after 0, every time lies in
    [-0.5, length + 0.5], and the least start lies before the window's start less 0.5 s. Then segments without a length
    are dropped, and the others clipped to the window. In mode ``lenient`` also times written as text, trailing commas
    and answers that are cut off are read, the last as far as segments are complete. Whether the times of a part are
    relative cannot always be told; such a part is unusable.

    No text raises; a window without a length and an unknown mode do (:class:`UsageError`).
    """
    if mode not in get_args(Mode):
        raise unknown_name("parse mode", str(mode), list(get_args(Mode)))
    if not 0 <= start_s < end_s <= LIMIT_US / 1e6:
        raise UsageError(f"no window: {start_s!r} to {end_s!r} s", "expected 0 <= start < end")
    repairs: list[str] = []
    window = _us(start_s), _us(end_s)
    try:
        raw, whole = _listed(text, mode == "lenient", repairs)
        segments = _typed(raw, mode == "lenient", repairs)
        segments = _placed(segments, *window, whole, repairs)
    except _UnusableError as unusable:
        return ParsedWindow(unusable.status, [], repairs, unusable.hint)
    return ParsedWindow("ok", segments, repairs)


class _Repeated(dict[str, Any]):
    """An object in which a field that is read was given more than once."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        names = [name for name, _ in pairs if name in _FIELDS]
        return _Repeated(value) if len(set(names)) < len(names) else value
    return value


_DECODER = json.JSONDecoder(object_pairs_hook=_object)


def _answer(value: dict[str, Any]) -> dict[str, Any] | None:
    segments = value.get("segments")
    return value if isinstance(segments, list) and segments else None


def _answers(text: str) -> Iterator[Found[dict[str, Any]]]:
    return objects(text, _answer, decoder=_DECODER, longest=200_000, work=10_000_000)


def _listed(text: str, lenient: bool, repairs: list[str]) -> tuple[list[Any], bool]:
    """The items of the answer's list of segments, and whether that is the whole list."""
    reply = _reply(text)
    answer, after, seen, cut = None, 0, False, False
    for found in _answers(reply):
        seen, cut = True, found.cut
        if cut:
            break
        if found.value is not None:
            answer, after = found.value, found.end
    begun = repairing.begun(reply, after)  # after a draft, a list that cannot be read is still the answer
    if answer is not None and not cut and begun is None:
        if isinstance(answer, _Repeated):
            raise _UnusableError("duplicate_key", "segments is given more than once")
        return answer["segments"], True
    if begun is None and not cut:
        if seen:
            raise _UnusableError("no_segments", "no JSON object has a non-empty list of segments")
        raise _UnusableError("no_json", "there is no JSON object outside thinking")
    return _part(reply, begun, cut, lenient, repairs)


def _part(reply: str, begun: int | None, cut: bool, lenient: bool, repairs: list[str]) -> tuple[list[Any], bool]:
    """As :func:`_listed`, where the JSON ends too early (``cut``) or is not valid."""
    read = repairing.listed(reply, len(reply) if begun is None else begun, _DECODER)
    if cut or read.cut:
        unusable = _UnusableError("cut_off", "the answer ends inside its JSON: was the limit of output tokens reached?")
    else:
        unusable = _UnusableError("invalid_json", "the list of segments is not valid JSON")
    final = "{" not in reply[read.end :] if cut and read.whole else read.whole or read.cut
    if not (lenient and read.segments and final):
        raise unusable
    if read.commas:
        repairs.append(f"{read.commas} trailing comma{'s' * (read.commas != 1)} left out")
    if cut or read.cut:
        repairs.append(f"the answer is cut off: {len(read.segments)} complete segments kept")
    return read.segments, read.whole


def _reply(text: str) -> str:
    """``text`` without its thinking; what looks like a thinking tag inside an answer (in a label, say) is none."""
    if not has_thinking(text):
        return text
    answers = []
    for found in _answers(text):
        if found.cut or found.value is not None:
            answers.append((found.start, found.end))
        if found.cut:
            break
    return without_thinking(text, answers)[0]


def _typed(raw: list[Any], lenient: bool, repairs: list[str]) -> list[Segment]:
    for index, item in enumerate(raw):
        if isinstance(item, _Repeated):
            raise _UnusableError("duplicate_key", f"segments[{index}] gives a field more than once")
    try:
        segments = msgspec.convert(repairing.times_as_numbers(raw, repairs) if lenient else raw, list[Segment])
    except msgspec.ValidationError as error:
        raise _UnusableError("wrong_type", str(error).replace("$[", "segments[")) from None
    for index, segment in enumerate(segments):
        for name, time in (("start_s", segment.start_s), ("end_s", segment.end_s)):
            if not abs(time) <= LIMIT_US / 1e6:
                raise _UnusableError("bad_value", f"segments[{index}].{name} is {time}")
        if segment.label.encode("utf-8", "replace").decode() != segment.label:
            raise _UnusableError("bad_value", f"segments[{index}].label holds half a surrogate pair")
    return segments


def _placed(segments: list[Segment], start: int, end: int, whole: bool, repairs: list[str]) -> list[Segment]:
    """``segments`` shifted where they are relative, dropped and clipped; ``start`` and ``end`` in microseconds."""
    spans = [(_us(segment.start_s), _us(segment.end_s)) for segment in segments]
    times = [time for span in spans for time in span]
    shift = 0
    if start > 0 and _lie_in(times, 0, end - start):
        if not whole:
            raise _UnusableError("cut_off", "whether times are relative to the window's start cannot be told of a part")
        if min(span[0] for span in spans) < start - _SLACK_US:
            shift = start
            repairs.append(f"times are relative to the window's start: shifted by {start / 1e6} s")
    kept = []
    total = inside = 0
    for index, (segment, span) in enumerate(zip(segments, spans, strict=True)):
        first, last = span[0] + shift, span[1] + shift
        if last <= first:
            repairs.append(f"segments[{index}] left out: it ends at {segment.end_s} s, not after its start")
            continue
        total += last - first
        clipped = max(first, start), min(last, end)
        if clipped[0] >= clipped[1]:
            repairs.append(f"segments[{index}] left out: {first / 1e6} to {last / 1e6} s is outside the window")
            continue
        if clipped != (first, last):
            repairs.append(f"segments[{index}] clipped to the window: {first / 1e6} to {last / 1e6} s")
        inside += clipped[1] - clipped[0]
        kept.append(Segment(clipped[0] / 1e6, clipped[1] / 1e6, segment.label, segment.is_idle))
    if not total:
        raise _UnusableError("nothing_left", "no segment ends after its start")
    if not kept:
        raise _UnusableError("nothing_left", _unit(times, start, end))
    if 2 * inside < total:
        raise _UnusableError("outside", _unit(times, start, end))
    return kept


def _lie_in(times: list[int], start: int, end: int) -> bool:
    return start - _SLACK_US <= min(times) and max(times) <= end + _SLACK_US


def _unit(times: list[int], start: int, end: int) -> str:
    """Which other unit would make the times fill at least half of the window."""
    for factor, unit in _UNITS.items():
        scaled = [time // factor for time in times]
        fits = _lie_in(scaled, start, end) or _lie_in(scaled, 0, end - start)
        if fits and 2 * (max(scaled) - min(scaled)) >= end - start:
            return f"expected seconds; divided by {factor} the times fit the window: they look like {unit}"
    return "expected seconds of the full clip, inside the window"


def _us(seconds: float) -> int:
    return round(seconds * 1e6)
