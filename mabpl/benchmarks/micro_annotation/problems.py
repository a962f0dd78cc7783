"""Every rule that a file of MicroAnnotationBench can break."""

from __future__ import annotations

from functools import partial

from mabpl.reading.problems import LINE_RULES, Rule, problem_of

_FIX = "mabpl validate --fix writes a corrected copy and lists each change"

RULES: dict[str, Rule] = {
    **LINE_RULES,
    "time-out-of-range": Rule("error", "times are seconds from the start of the clip"),
    "end-not-after-start": Rule("error", f"give each segment a length, or leave it out; {_FIX}"),
    "hands-value": Rule("error", "write left, right, both or null"),
    "duplicate-clip": Rule("error", "keep one line a clip"),
    "clip-in-two-sets": Rule("error", "clip ids are unique across sets"),
    "unknown-clip": Rule("error", "remove the clip, or choose the set that holds it"),
    "missing-clip": Rule("error", "add the clip, or score what is there with --missing skip (or empty: counted as 0)"),
    "empty-timeline": Rule("error", "add segments, or score the clip as it is with --missing skip or empty"),
    "labels-as-predictions": Rule("warning", "if this is the labels file by mistake, give the model's file instead"),
    "predictions-as-labels": Rule("warning", "if this is a prediction file by mistake, give the labels file instead"),
    "negative-start": Rule("warning", "times are seconds from the start of the clip"),
    "outside-duration": Rule("warning", "times are seconds from the start of the clip"),
    "unsorted": Rule("warning", f"the order does not change the score; {_FIX}"),
    "overlap": Rule("warning", f"overlapping segments are scored as separate segments; {_FIX}"),
    "gap": Rule("warning", "time that no segment covers earns nothing"),
    "longer-than-10s": Rule("warning", "no human segment of the benchmark is longer"),
    "all-idle": Rule("warning", "idle segments count as no prediction: the clip scores 0"),
    "not-contiguous": Rule("warning", "a labels segment starts where the one before it ends"),
    "not-covering": Rule("warning", "the segments of a labels clip cover it from 0 to its duration"),
    "duration-mismatch": Rule("warning", "duration_s is num_frames / source_fps to 3 decimals"),
}
"""Rule → severity and hint. ``missing-clip`` and ``empty-timeline`` are warnings unless absent clips are refused."""

problem = partial(problem_of, RULES)
"""A breach of one of ``RULES``: see :func:`~mabpl.reading.problems.problem_of`."""
