"""The memory probe: accuracy on multiple-choice questions, and the questions as prompts.

Source: ProactEgoMem, annotation format proact-studio-v3. A submission is a letter a question; the choices are shown and
scored in the released order. Accuracy is over all questions of the split: one without an answer, or with a letter that
is none of its own, is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
import polars as pl

from mabpl.benchmarks.proact_ego_mem.release import CELL, Release
from mabpl.benchmarks.proact_ego_mem.submissions import Submissions
from mabpl.errors import UsageError
from mabpl.stats import bootstrap
from mabpl.tables.proact_ego_mem import QA_SCORES

LEVEL = 0.95

_COUNTS = ("items", "answered", "missing", "illegal", "correct")


def score_qa(
    release: Release, submissions: Submissions, *, level: float = LEVEL, replicates: int = bootstrap.REPLICATES
) -> pl.DataFrame:
    """The table `qa_scores`: per run, split, track and task; over the tasks of a track; and over all.

    Percent, with clip-bootstrap intervals (null where there are no two clips to draw from): clips are drawn in each
    track and task by themselves, the same ones for every run. A run is scored on the splits whose questions it answers.
    Raises :class:`UsageError` where the right letters of such a split are withheld, and
    :class:`~mabpl.errors.InvalidTimelines` where a file breaks a rule.
    """
    if not 0 < level < 1:
        raise UsageError(f"level = {level!r} is not possible", "expected a level between 0 and 1, e.g. 0.95")
    release.require_valid()
    submissions.require_valid()
    runs = (
        submissions.qa_answers.join(release.qa_items, on="qa_id").select("run", "split").unique().sort("run", "split")
    )
    if runs.is_empty():
        raise UsageError("no submission answers a question of the selected files", "give lines of qa_id and letter")
    release.require_released(runs["split"].unique().to_list(), "QA")
    clips = _clip_counts(release, submissions, runs)
    rows = [
        row for (split,), of_split in clips.group_by("split", maintain_order=True)
        for row in _scored(str(split), of_split, level, replicates)
    ]  # fmt: skip
    frame = pl.DataFrame(rows, schema=QA_SCORES.schema, orient="row")
    return frame.sort(QA_SCORES.key, nulls_last=True)


def _clip_counts(release: Release, submissions: Submissions, runs: pl.DataFrame) -> pl.DataFrame:
    """run, split, track, task, clip_uid and the counts of each clip that has questions; sorted."""
    given = submissions.qa_answers.with_columns(pl.lit(True).alias("given"))
    items = runs.join(release.qa_items, on="split").join(given, on=["run", "qa_id"], how="left")
    legal = pl.col("letter").is_in(pl.col("letters")).fill_null(False)
    answered = pl.col("given").fill_null(False)
    return (
        items.with_columns(
            answered=legal,
            missing=~answered | pl.col("letter").is_null(),
            illegal=~legal & pl.col("letter").is_not_null(),
            correct=legal & (pl.col("letter") == pl.col("correct_letter")),
        )
        .group_by("split", "track", "task", "clip_uid", "run")
        .agg(pl.len().cast(pl.Int64).alias("items"), *(pl.col(name).sum().cast(pl.Int64) for name in _COUNTS[1:]))
        .sort("split", "track", "task", "clip_uid", "run")
    )


def _scored(split: str, clips: pl.DataFrame, level: float, replicates: int) -> Iterator[tuple[object, ...]]:
    """Rows of `qa_scores` of one split: every cell is a stratum of its own, and larger groups add their draws up."""
    runs = sorted(set(clips["run"].to_list()))
    cells: dict[tuple[str, str], tuple[pl.DataFrame, bootstrap.Floats, bool]] = {}
    for number, ((track, task), rows) in enumerate(clips.group_by(["track", "task"], maintain_order=True)):
        size = rows["clip_uid"].n_unique()
        weights = bootstrap.clip_weights(size, replicates, stratum=number)
        both = np.stack([rows[name].to_numpy().reshape(size, len(runs)) for name in ("correct", "items")])
        drawn = weights @ both.astype(np.float64)  # (correct and items, replicates, runs)
        cells[str(track), str(task)] = rows, drawn, size > 1
    tracks = sorted({track for track, _ in cells})
    groups = [*cells, *product(tracks, [None]), (None, None)]
    for track, task in groups:
        members = [cell for (t, k), cell in cells.items() if track in (None, t) and task in (None, k)]
        together = pl.concat([rows for rows, _, _ in members])
        correct, items = np.sum([drawn for _, drawn, _ in members], axis=0)
        low, high = bootstrap.percentile_interval(100.0 * bootstrap.divided(correct, items), level)
        varies = any(several for _, _, several in members)
        sums = together.group_by("run").agg(pl.len().alias("clips"), pl.col(_COUNTS).sum()).sort("run")
        for index, row in enumerate(sums.iter_rows(named=True)):
            counts = [row[name] for name in ("clips", *_COUNTS)]
            bounds = (float(low[index]), float(high[index])) if varies else (None, None)
            yield (row["run"], split, track, task, *counts, 100.0 * row["correct"] / row["items"], *bounds)


def questions(release: Release) -> pl.DataFrame:
    """Every question as it is put to a model: qa_id, track, task, split, clip_uid, question, letters, choices, prompt.

    The choices stand in the released order; nothing tells the right one.
    """
    rows = release.qa_items.sort(*CELL, "clip_uid", "qa_id")
    prompts = [
        render(question, letters, choices)
        for question, letters, choices in rows.select("question", "letters", "choices").iter_rows()
    ]
    return rows.select("qa_id", *CELL, "clip_uid", "question", "letters", "choices").with_columns(
        pl.Series("prompt", prompts, dtype=pl.String)
    )


def render(question: str, letters: list[str], choices: list[str]) -> str:
    """A question with its choices, a line each, and how to answer."""
    listed = "\n".join(f"{letter}. {choice}" for letter, choice in zip(letters, choices, strict=True))
    return f"{question}\n{listed}\nAnswer with the letter of one choice and nothing else."
