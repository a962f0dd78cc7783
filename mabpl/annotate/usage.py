"""What a run was and took: `<out>.usage.jsonl`, a row for each request, and the facts of `<out>.run.json`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from mabpl.annotate.messages import Rendered
from mabpl.judges.store_reading import Attempted

Row = dict[str, Any]

MADE = ("frames", "media_bytes", "crf", "corrupt_packets", "seconds_to_make")
"""Fields of a row that only the process which sent the request knows."""

_SUMS = ("tokens_in", "tokens_out", "tokens_reasoning", "cost", "seconds")
_BILLED = ("answered", "ambiguous", "lost")


def usage_row(
    clip_id: str, start_s: float, end_s: float, attempt: int, tried: Attempted, made: Mapping[str, Any]
) -> Row:
    """One request: when, for which window, which attempt at it (from 1), what came of it, what it took.

    ``made``: what was sent, null where the process ended before it was noted, and for answers that came in batch files.
    """
    return {
        "clip_id": clip_id,
        "start_s": start_s,
        "end_s": end_s,
        "attempt": attempt,
        "time": moment(tried.recorded),
        "outcome": tried.outcome,
        "http_status": tried.http_status,
        "status": tried.verdict.status,
        "tokens_in": tried.tokens_in,
        "tokens_out": tried.tokens_out,
        "tokens_reasoning": tried.tokens_reasoning,
        "cost": tried.cost,
        "seconds": None if tried.seconds is None else round(tried.seconds, 3),
        **{name: made.get(name) for name in MADE},
        "question": tried.key,
    }


def made_fields(rendered: Rendered) -> dict[str, Any]:
    values = (rendered.frames, rendered.media_bytes, rendered.crf, rendered.corrupt_packets, round(rendered.seconds, 3))
    return dict(zip(MADE, values, strict=True))


def moment(recorded: float) -> str:
    """Seconds of the epoch as UTC, to the second."""
    return datetime.fromtimestamp(recorded, UTC).isoformat(timespec="seconds")


def totals(rows: Iterable[Row]) -> dict[str, Any]:
    """Requests by what came of them, and sums; a sum is null where no row tells a value."""
    rows = list(rows)
    sums: dict[str, Any] = {}
    for name in _SUMS:
        told = [row[name] for row in rows if row[name] is not None]
        sums[name] = round(sum(told), 9) if told else None
    billed = [row for row in rows if row["outcome"] in _BILLED]
    return {
        "requests": len(rows),
        "billed_or_maybe": len(billed),
        "statuses": dict(sorted(Counter(row["status"] for row in billed).items())),
        "without_cost": sum(row["cost"] is None for row in billed),
        **sums,
        "largest_media_bytes": max((row["media_bytes"] for row in rows if row["media_bytes"]), default=None),
        "corrupt_packets": sum(_by_window(rows, "corrupt_packets")),
    }


def reencoded(rows: Iterable[Row], crf: int) -> int:
    """Windows whose MP4 was too large at ``crf``."""
    return sum(value > crf for value in _by_window(rows, "crf"))


def _by_window(rows: Iterable[Row], name: str) -> list[int]:
    """The values that are told, one for each window."""
    return list({(row["clip_id"], row["start_s"]): row[name] for row in rows if row[name] is not None}.values())
