"""The figures that MicroAnnotationBench published follow from each other by the rules that `summarise` uses.

Every figure is printed to one decimal, so it lies within 0.05 of the true one. A weighted mean of such figures (the
weights sum to 1) lies within 0.05 too, and the printed mean within another 0.05: they may differ by 0.1 and no more.
"""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from mabpl.data import published
from mabpl.metrics import HEADLINE_WEIGHTS
from mabpl.metrics.summary import combine_sets, headline

TABLE = pl.read_csv(published("configurations"))
DECIMALS = 1
ROUNDING = 0.5 * 10**-DECIMALS
TOLERANCE = 2 * ROUNDING + 1e-9
METRICS = ("pa_f1", "strict_pa_f1", "boundary_f1", "temporal_f1", "seg_f1", "joint_f1", "segments_per_clip")


def block(name: str) -> pl.DataFrame:
    return TABLE.filter(block=name).with_columns(pl.lit(1).alias("x"), pl.lit(1).alias("y"))


def combined(operator: pl.DataFrame, session: pl.DataFrame, clips: tuple[int, int]) -> pl.DataFrame:
    """Both sets together, per configuration, by the rule for `set_scores`."""
    sets = [
        frame.with_columns(pl.lit(name).alias("set"), pl.lit(count).alias("clips"))
        for name, frame, count in zip(("operator", "session"), (operator, session), clips, strict=True)
    ]
    return combine_sets(pl.concat(sets), ["configuration"])


def worst(printed: pl.DataFrame, computed: pl.DataFrame, columns: dict[str, str]) -> dict[str, float]:
    """Per column the largest difference; every printed row must have a computed one."""
    joined = printed.join(computed, on="configuration", how="left", suffix=":computed")
    assert joined.height == printed.height
    found = {}
    for name, source in columns.items():
        other = f"{source}:computed" if source in printed.columns else source
        difference = (joined[name] - joined[other]).abs()
        assert difference.null_count() == 0, name
        found[name] = difference.max()
    return found  # type: ignore[return-value]


def test_figures_are_printed_to_one_decimal() -> None:
    figures = TABLE.select(pl.col(pl.Float64))
    assert figures.width >= 13
    assert figures.equals(figures.select(pl.all().round(DECIMALS)))
    assert sum(HEADLINE_WEIGHTS.values()) == 1


def test_all_86_headlines() -> None:
    assert TABLE.height == 86
    computed = headline({name: TABLE[name].to_numpy() for name in HEADLINE_WEIGHTS})
    assert np.abs(computed - TABLE["score"].to_numpy()).max() <= TOLERANCE


def test_both_sets_of_the_11_best_settings_in_eight_metrics() -> None:
    printed = block("best_all_89")
    assert printed.height == 11
    computed = combined(block("operator_disjoint_59"), block("session_disjoint_30"), (59, 30))
    differences = worst(printed, computed, {"score": "headline", **{name: name for name in METRICS}})
    assert len(differences) == 8
    assert max(differences.values()) <= TOLERANCE, differences


def test_both_sets_of_the_25_released_scores() -> None:
    printed = block("released_45")
    assert printed.height == 25
    # Only the score is printed per set: it stands for each of its parts, whose weights sum to 1.
    operator, session = (
        printed.with_columns(pl.col(f"score_{name}").alias(part) for part in HEADLINE_WEIGHTS)
        for name in ("operator", "session")
    )
    differences = worst(printed, combined(operator, session, (30, 15)), {"score": "headline"})
    assert differences["score"] <= TOLERANCE


@pytest.mark.parametrize("clips", [(1, 1), (30, 59)])
def test_other_weights_would_not_do(clips: tuple[int, int]) -> None:
    computed = combined(block("operator_disjoint_59"), block("session_disjoint_30"), clips)
    assert min(worst(block("best_all_89"), computed, {name: name for name in METRICS}).values()) > 3 * TOLERANCE
