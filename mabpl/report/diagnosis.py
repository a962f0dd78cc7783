"""What became of each segment of one clip: matched, or how and why it failed.

Lengths and overlaps are integer microseconds, errors are frames (1/30 s, predicted less human), and every comparison
is inclusive: "half" is met by exactly half, and an end that is off by exactly the tolerance is right.

Only scored segments take part: a human one that is neither idle nor flagged, a predicted one that is not idle. A lies
*mostly inside* B if their overlap is at least half of A. A *holder* is a segment of one side with at least two of the
other side mostly inside it.

The **partner** of a segment is the one it is matched with (by Boundary F1, else Temporal F1, else Seg F1); without a
match, of those that overlap it, first those of which either lies mostly inside the other, then the largest overlap,
then the earlier one. A segment that overlaps nothing and is matched with nothing has none.

Each segment gets the first verdict that holds:

1. ``not scored``: idle or flagged.
2. ``matched``: Boundary F1 matches it.
3. ``early``, ``late``, ``short``, ``long`` or ``duplicate``: its IoU with the partner is at least 1/2. An end is off if
   its error exceeds the tolerance. Only the start is off, or both ends are in the same direction: ``early`` or
   ``late``. Only the end is off: ``short`` (it ends early) or ``long`` (it ends late). Both are off in opposite
   directions: ``short`` or ``long``. Neither is off: ``duplicate``, for the partner is matched with another.
   The word always says what is wrong with the prediction.
4. It is a holder: a human segment is ``split``, a predicted one ``merged``.
5. It lies mostly inside a holder: a human segment is ``merged``, a predicted one ``split``.
6. The words of 3, if it lies mostly inside a segment of the other side or one of those lies mostly inside it.
7. ``missed`` (human) or ``spurious`` (predicted): nothing overlaps it by half of either.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import polars as pl

from mabpl.errors import UsageError

METRICS = ("pa", "boundary", "temporal", "seg")
NOT_SCORED = "not scored"
VERDICTS = (
    "matched",
    "early",
    "late",
    "short",
    "long",
    "duplicate",
    "split",
    "merged",
    "missed",
    "spurious",
    NOT_SCORED,
)
SCHEMA: dict[str, pl.DataType] = {
    "side": pl.String(),
    "segment": pl.Int32(),
    "start_s": pl.Float64(),
    "end_s": pl.Float64(),
    "label": pl.String(),
    "verdict": pl.String(),
    "why": pl.String(),
    "partner": pl.Int32(),
    "iou": pl.Float64(),
    "start_error": pl.Int64(),
    "end_error": pl.Int64(),
    **{metric: pl.Int32() for metric in METRICS},
}


def diagnose(segments: pl.DataFrame, matches: pl.DataFrame, run: str, *, tolerance_frames: int = 20) -> pl.DataFrame:
    """One row per segment of both sides of one clip, the human ones first, each side by (start, end, position).

    ``segments`` and ``matches`` are tables of that name; rows of other runs are left out. The columns:

    - ``side`` (human or predicted), ``segment`` (position in the file), ``start_s``, ``end_s`` (seconds), ``label``;
    - ``verdict`` and, in words, ``why`` (segments are named h0, h1, ... and p0, p1, ...);
    - ``partner`` (the other side's segment), ``iou`` with it (0 to 1), ``start_error`` and ``end_error`` (frames,
      predicted less human); null without a partner;
    - ``pa``, ``boundary``, ``temporal``, ``seg``: the other side's segment that the metric matches it with, or null.

    Raises :class:`~mabpl.errors.UsageError` if ``segments`` holds more than one clip.
    """
    segments = segments.filter(pl.col("run").is_null() | (pl.col("run") == run))
    clips = segments["clip_id"].unique().sort().to_list()
    if len(clips) > 1:
        raise UsageError(f"a diagnosis is of one clip, and these segments are of {len(clips)}", f"filter: {clips[:3]}")
    matches = matches.filter((pl.col("run") == run) & pl.col("clip_id").is_in(clips))
    human = _side(segments.filter(pl.col("run").is_null()), "human")
    predicted = _side(segments.filter(pl.col("run").is_not_null()), "predicted")
    for metric, p, h in matches.select("metric", "predicted", "human").iter_rows():
        human[h].matched[metric] = p
        predicted[p].matched[metric] = h
    _meet(human, predicted)
    rows = [_row(s, predicted, tolerance_frames) for s in human.values()]
    rows += [_row(s, human, tolerance_frames) for s in predicted.values()]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


@dataclass(slots=True, eq=False)
class _Segment:
    side: str
    number: int
    start_s: float
    end_s: float
    start_tick: int
    end_tick: int
    label: str
    unscored: str
    start_us: int = field(init=False)
    end_us: int = field(init=False)
    overlaps: list[tuple[_Segment, int]] = field(default_factory=list)
    matched: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.start_us, self.end_us = round(self.start_s * 1e6), round(self.end_s * 1e6)

    @property
    def name(self) -> str:
        return f"{self.side[0]}{self.number}"

    @property
    def length(self) -> int:
        return self.end_us - self.start_us

    @property
    def inside(self) -> list[_Segment]:
        """Those of the other side that lie mostly inside this one."""
        return [other for other, overlap in self.overlaps if 2 * overlap >= other.length]

    @property
    def around(self) -> list[_Segment]:
        """Those of the other side that this one lies mostly inside."""
        return [other for other, overlap in self.overlaps if 2 * overlap >= self.length]


def _side(rows: pl.DataFrame, side: str) -> dict[int, _Segment]:
    found = {}
    for row in rows.sort("start_s", "end_s", "segment").iter_rows(named=True):
        unscored = "idle" if row["is_idle"] else "flagged" if row["flagged"] and side == "human" else ""
        times = (row["start_s"], row["end_s"], row["start_tick"], row["end_tick"])
        found[row["segment"]] = _Segment(side, row["segment"], *times, row["label"], unscored)
    return found


def _meet(human: dict[int, _Segment], predicted: dict[int, _Segment]) -> None:
    """Notes for each scored segment those of the other side that it overlaps, in time order."""
    scored = [p for p in predicted.values() if not p.unscored]
    for h in human.values():
        if h.unscored:
            continue
        for p in scored:
            if p.start_us >= h.end_us:
                break
            overlap = min(h.end_us, p.end_us) - max(h.start_us, p.start_us)
            if overlap > 0:
                h.overlaps.append((p, overlap))
                p.overlaps.append((h, overlap))


def _row(segment: _Segment, others: dict[int, _Segment], tolerance: int) -> tuple[Any, ...]:
    partner = _partner(segment, others)
    verdict, why = _verdict(segment, partner, tolerance)
    with_partner: tuple[Any, ...] = (None, None, None, None)
    if partner is not None:
        iou = _overlap(segment, partner) / _union(segment, partner)
        with_partner = (partner.number, iou, *_errors(segment, partner))
    return (
        segment.side,
        segment.number,
        segment.start_s,
        segment.end_s,
        segment.label,
        verdict,
        why,
        *with_partner,
        *(segment.matched.get(metric) for metric in METRICS),
    )


def _errors(segment: _Segment, partner: _Segment) -> tuple[int, int]:
    """Start and end error in frames, predicted less human, whichever side ``segment`` is of."""
    human, predicted = (segment, partner) if segment.side == "human" else (partner, segment)
    return predicted.start_tick - human.start_tick, predicted.end_tick - human.end_tick


def _overlap(a: _Segment, b: _Segment) -> int:
    return max(0, min(a.end_us, b.end_us) - max(a.start_us, b.start_us))


def _union(a: _Segment, b: _Segment) -> int:
    return a.length + b.length - _overlap(a, b)


def _partner(segment: _Segment, others: dict[int, _Segment]) -> _Segment | None:
    for metric in ("boundary", "temporal", "seg"):
        if metric in segment.matched:
            return others[segment.matched[metric]]
    # max() keeps the first of equals, and overlaps are in time order.
    best = max(
        segment.overlaps,
        key=lambda met: (2 * met[1] >= min(segment.length, met[0].length), met[1]),
        default=None,
    )
    return best[0] if best else None


def _verdict(segment: _Segment, partner: _Segment | None, tolerance: int) -> tuple[str, str]:
    """The verdict and the reason; the order is that of the module's definition."""
    is_human = segment.side == "human"
    inside, around = segment.inside, segment.around
    holder = next((other for other in around if len(other.inside) > 1), None)
    if segment.unscored:
        return NOT_SCORED, segment.unscored
    if "boundary" in segment.matched:
        return "matched", ""
    if partner and 2 * _overlap(segment, partner) >= _union(segment, partner):
        return _off(segment, partner, tolerance)
    if len(inside) > 1:
        return ("split" if is_human else "merged"), f"holds {_names(inside)}"
    if holder:
        return ("merged" if is_human else "split"), f"{holder.name} holds {_names(holder.inside)}"
    if partner and (inside or around):
        return _off(segment, partner, tolerance)
    other = "predicted" if is_human else "human"
    why = f"no {other} segment overlaps by half of either" if segment.overlaps else f"no {other} segment here"
    return ("missed" if is_human else "spurious"), why


def _off(segment: _Segment, partner: _Segment, tolerance: int) -> tuple[str, str]:
    start_error, end_error = _errors(segment, partner)
    start_off, end_off = abs(start_error) > tolerance, abs(end_error) > tolerance
    if not start_off and not end_off:
        rival = partner.matched.get("boundary")
        with_whom = "nothing" if rival is None else f"{segment.side[0]}{rival}"
        return "duplicate", f"both ends are right, but {partner.name} is matched with {with_whom}"
    said = [f"starts {_frames(start_error)}"] * start_off + [f"ends {_frames(end_error)}"] * end_off
    if start_off and (not end_off or (start_error > 0) == (end_error > 0)):
        word = "late" if start_error > 0 else "early"
    else:
        word = "long" if end_error > 0 else "short"
    return word, ", ".join(said)


def _frames(error: int) -> str:
    return f"{abs(error)} frame{'s' * (abs(error) != 1)} {'late' if error > 0 else 'early'}"


def _names(segments: list[_Segment]) -> str:
    return ", ".join(segment.name for segment in segments)
