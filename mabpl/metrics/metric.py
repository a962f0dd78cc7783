"""What a metric is: a ratio of two sums over clips.

A metric that is averaged over clips sums the clips' values over the clips where it is defined; a pooled metric sums
counts first. Written as a ratio of sums, both add up, resample and weigh in the same way.
"""

from __future__ import annotations

from dataclasses import dataclass, field

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Example:
    """A worked example: (start, end) in seconds of both timelines; ``why`` explains the matches."""

    human: tuple[Interval, ...]
    predicted: tuple[Interval, ...]
    why: str
    credit: tuple[float, float] | None = None  # PA-F1: what a judge's scores would add up to (credit, strict credit)


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric, in percent.

    ``family``: the matching in `matches` that it counts. ``parts``: the count (or credit) in the numerator and the
    counts that are summed in the denominator; the F1 doubles the numerator. ``pooled``: counts are summed over the
    clips of a set before dividing; otherwise the clips' values are averaged.
    """

    name: str
    title: str
    family: str
    numerator: str
    denominator: tuple[str, ...]
    pooled: bool
    rule: str
    definition: str = ""
    example: Example | None = None
    options: tuple[str, ...] = field(default=())

    @property
    def factor(self) -> int:
        return len(self.denominator)

    @property
    def summed(self) -> str:
        """The column of `clip_scores` whose sum is the numerator, but for its factor."""
        return self.numerator if self.pooled else self.name
