"""What a whole set will take, told by what a few of its clips took."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mabpl.annotate.usage import Row
from mabpl.judges.endpoint import Price
from mabpl.video import windows


@dataclass(frozen=True, slots=True)
class Forecast:
    """For ``runs`` whole runs of a set of ``clips``: ``windows`` to ask about, and what all requests take together.

    ``tried`` windows are known, retries included; null is what none of them told. ``minutes``: of requests, with so
    many in flight, or of decoding, whichever is longer.
    """

    runs: int
    clips: int
    windows: int
    tried: int
    tokens_in: float | None
    tokens_out: float | None
    tokens_reasoning: float | None
    cost: float | None
    minutes: float | None


def forecast(
    rows: Sequence[Row],
    durations_s: Iterable[float],
    *,
    runs: int = 1,
    concurrency: int = 4,
    processes: int = 1,
    price: Price | None = None,
) -> Forecast:
    """Scales what ``rows``, usage rows of finished clips, tell of each second of video that is shown.

    ``durations_s``: of all clips of the set. ``price``: for replies that state tokens and no cost.
    """
    cut = [windows(duration_s) for duration_s in durations_s]
    shown_s = runs * sum(end - start for clip in cut for start, end in clip)
    tried = {(row["clip_id"], row["start_s"], row["question"]): row["end_s"] - row["start_s"] for row in rows}
    seen_s = sum(tried.values())

    def scaled(values: list[float | None]) -> float | None:
        told = [value for value in values if value is not None]
        return sum(told) * shown_s / seen_s if told and seen_s else None

    def cost(row: Row) -> float | None:
        if row["cost"] is not None or price is None or row["tokens_in"] is None or row["tokens_out"] is None:
            stated: float | None = row["cost"]
            return stated
        return price.of(row["tokens_in"], row["tokens_out"])

    asked = scaled([row["seconds"] for row in rows])
    made = scaled(list({row["question"]: row["seconds_to_make"] for row in rows}.values()))
    count = runs * sum(map(len, cut))
    spans = [asked / min(concurrency, count) if asked else None, made / runs / processes if made else None]
    return Forecast(
        runs=runs,
        clips=len(cut),
        windows=count,
        tried=len(tried),
        tokens_in=scaled([row["tokens_in"] for row in rows]),
        tokens_out=scaled([row["tokens_out"] for row in rows]),
        tokens_reasoning=scaled([row["tokens_reasoning"] for row in rows]),
        cost=scaled([cost(row) for row in rows]),
        minutes=max((span / 60 for span in spans if span is not None), default=None),
    )
