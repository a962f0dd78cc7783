"""How far to trust a judge: whether its seeds, other judges and people agree, and what its seed does to a score."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from mabpl.benchmarks.micro_annotation import verdict_lists
from mabpl.benchmarks.micro_annotation.opinions import ANY, LABELS, Opinions, embedded_opinions
from mabpl.benchmarks.micro_annotation.results import load_result, read_document
from mabpl.errors import UsageError
from mabpl.metrics import summary, verdicts
from mabpl.stats import agreement as stats
from mabpl.stats.bootstrap import Floats
from mabpl.tables import schemas

STATISTICS: dict[str, tuple[stats.Statistic, str]] = {
    "share_equal": (stats.share_equal, "yes"),
    "kappa": (stats.cohen_kappa, "yes"),
    "alpha": (stats.alpha_nominal, "yes"),
    "score_alpha": (stats.alpha_interval, "score"),
    "distance": (stats.mean_distance, "score"),
}
"""Name to the statistic and what it is of: the decision (equivalent, accepted), or the score of 0-100."""

_GROUPS = 2_000
"""More clusters than so many are drawn in groups of them, so that the draws fit into memory."""

_RUN = ["run", "set"]


@dataclass(frozen=True, slots=True)
class _Side:
    """The answers of one rater of one kind."""

    name: str
    kind: str
    rows: pl.DataFrame


def agreement(sources: Sequence[Opinions], *, embedded: bool = False, level: float = 0.95) -> pl.DataFrame:
    """How far raters agree: between the seeds of each, and between each two.

    Raters of two sources are compared on the requests that both hold, else on equal labels (with ALSO where both tell
    it), in the same clip where both tell it. Two raters with seeds are compared answer by answer, each seed of the one
    with each of the other, so that it stands beside how far each agrees with itself. ``embedded``: the embedded judge
    is one more rater of every source.

    Columns: kind (pa, joint, any), between, pairs (rated by two or more), clips (null where they are not known: then
    requests are drawn), and each of ``STATISTICS`` with ``<name>_low`` and ``<name>_high``, null where it is undefined
    or does not apply. Shares, kappa and alpha of 1 are full agreement; distance is in points of the score.

    Raises:
        UsageError: nothing was rated twice.
    """
    sides = [_sides(source, sources) for source in sources]
    rows = [row for of_source in sides for side in of_source if (row := _between_seeds(side, level))]
    for of_source in sides:
        rows += _between(combinations(of_source, 2), level, same_items=True)
    for one, other in combinations(sides, 2):
        rows += _between(((a, b) for a in one for b in other), level)
    if embedded:
        for source, of_source in zip(sources, sides, strict=True):
            judge = embedded_opinions(source)
            rows += _between(((a, b) for a in of_source for b in _sides(judge, [judge])), level)
    if not rows:
        raise UsageError(
            "nothing was rated twice: no judge has two seeds, and no two raters have a pair of labels in common",
            "labels are compared to the letter; a file that holds requests, or verdicts with labels, can be joined",
        )
    bounds = {f"{name}{end}": pl.Float64 for name in STATISTICS for end in ("", "_low", "_high")}
    schema = {"kind": pl.String, "between": pl.String, "pairs": pl.Int64, "clips": pl.Int64, **bounds}
    return pl.DataFrame(rows, schema=schema).with_columns(pl.col(pl.Float64).fill_nan(None))


def _sides(source: Opinions, sources: Iterable[Opinions]) -> list[_Side]:
    elsewhere = {r for other in sources if other is not source for r in other.table["rater"].unique()}
    groups = source.table.sort("item").group_by("rater", "kind", maintain_order=True)
    return [
        _Side(f"{rater} ({source.name})" if rater in elsewhere else str(rater), str(kind), rows)
        for (rater, kind), rows in sorted(groups, key=lambda group: group[0])
    ]


def _between_seeds(side: _Side, level: float) -> dict[str, Any] | None:
    seeds = side.rows["seed"].drop_nulls().unique().sort()
    rows = side.rows.filter(pl.col("seed").is_not_null() & (pl.col("seed").n_unique().over("item") > 1))
    if rows.is_empty():
        return None
    items = rows.unique("item", keep="first", maintain_order=True)
    at = (_codes(rows["item"]), seeds.search_sorted(rows["seed"]).to_numpy())
    ratings = {}
    for of in ("score", "yes"):
        ratings[of] = np.full((items.height, len(seeds)), np.nan)
        ratings[of][at] = _floats(rows[of])
    named = f"seeds {', '.join(map(str, seeds))} of {side.name}"
    return _measured(side.kind, named, items, items.height, ratings, level)


def _between(
    pairs: Iterable[tuple[_Side, _Side]], level: float, *, same_items: bool = False
) -> Iterator[dict[str, Any]]:
    for one, other in pairs:
        if one.kind != other.kind and ANY not in (one.kind, other.kind):
            continue
        joined = _joined(one.rows, other.rows, ["item"] if same_items else None)
        if joined.is_empty():
            continue
        ratings = {
            of: np.column_stack([_floats(joined[of]), _floats(joined[f"{of}_other"])]) for of in ("score", "yes")
        }
        kind = other.kind if one.kind == ANY else one.kind
        compared = joined.select("item", "item_other").n_unique()
        yield _measured(kind, f"{one.name} and {other.name}", joined, compared, ratings, level)


def _joined(one: pl.DataFrame, other: pl.DataFrame, on: list[str] | None) -> pl.DataFrame:
    """Every answer of ``one`` beside every one of ``other`` to the same item; ``item_other``, ... are the latter's."""
    one, other = (side.with_columns(pl.col("also").list.join("\n"), other=pl.col("item")) for side in (one, other))

    def both_have(column: str) -> bool:
        return one[column].null_count() < one.height and other[column].null_count() < other.height

    if on is None:
        by_request = both_have("request") and not one.join(other, on="request", how="semi").is_empty()
        on = ["request"] if by_request else [*LABELS[:2], *([LABELS[2]] if both_have("also") else [])]
        on += ["clip_id"] if both_have("clip_id") else []
    joined = one.join(other, on=on, suffix="_other", maintain_order="left_right")
    known = [pl.coalesce(c, f"{c}_other").alias(c) for c in ("clip_id", "request") if f"{c}_other" in joined.columns]
    return joined.with_columns(*known, item_other=pl.col("other_other"))


def _measured(
    kind: str, between: str, items: pl.DataFrame, pairs: int, ratings: dict[str, Floats], level: float
) -> dict[str, Any]:
    """One row of :func:`agreement`; ``items``: a row for each of ``ratings``, with clip_id and request."""
    in_clips = items["clip_id"].null_count() == 0
    labels = pl.concat_str(*LABELS[:2], separator="\n", ignore_nulls=True)
    owner = items["clip_id"] if in_clips else items.select(pl.coalesce("request", labels)).to_series()
    cluster = _codes(owner) % _GROUPS
    row: dict[str, Any] = {"kind": kind, "between": between, "pairs": pairs}
    row["clips"] = owner.n_unique() if in_clips else None
    for name, (statistic, of) in STATISTICS.items():
        found = stats.estimate(statistic, ratings[of], cluster, level=level)
        row |= {name: found.value, f"{name}_low": found.low, f"{name}_high": found.high}
    return row


def _codes(values: pl.Series) -> stats.Integers:
    return values.rank("dense").cast(pl.Int64).to_numpy() - 1


def _floats(values: pl.Series) -> Floats:
    return values.cast(pl.Float64).fill_null(float("nan")).to_numpy()


# --- what the judge's seed does to a score ---


def seed_spread(path: str | Path) -> pl.DataFrame:
    """PA-F1 by judge seed of each configuration in a result (a folder or a ``.scores.json``), in percent.

    Columns: configuration, set (null: all sets together), runs (generation seeds), clips (those with every verdict of
    every judge seed; the others are left out), ``seed_<k>`` for each judge seed, and

    - ``pa_f1``: their mean, and ``judge_sd``: their sample SD, of the mean over runs as it is reported;
    - ``judge_sd_run``: the same of one run (root mean square over runs);
    - ``generation_sd``: the sample SD between runs, of the mean over judge seeds.

    No rows where there are not two judge seeds.
    """
    clips, asked, answers, seeds = _pa_verdicts(Path(path))
    if len(seeds) < 2:
        return pl.DataFrame()
    by_seed = [_of_seed(clips, asked, answers, seed) for seed in seeds]
    whole = pl.concat(by_seed).group_by(*_RUN, "clip_id").agg(pl.col("credit").is_not_null().all().alias("whole"))
    whole = whole.filter("whole")
    values = []
    for seed, scored in zip(seeds, by_seed, strict=True):
        kept = scored.join(whole, on=[*_RUN, "clip_id"], how="semi")
        sets = summary.summarise(kept)
        both = summary.summarise(kept, combine=True)
        both = both.filter((pl.col("sets") > 1) & (pl.col("sets") == sets["set"].n_unique()))
        found = pl.concat([sets, both], how="diagonal")
        values.append(found.select(pl.col("run"), "set", "clips", "pa_f1", seed=pl.lit(seed)))
    runs = clips.select("run", "configuration").unique()
    table = pl.concat(values).join(runs, on="run")
    return _folded(table, seeds).sort("configuration", "set", nulls_last=True)


def _folded(table: pl.DataFrame, seeds: list[int]) -> pl.DataFrame:
    """From rows of configuration, set, run, seed, pa_f1."""
    key = ["configuration", "set"]
    table = table.sort(*key, "run", "seed")
    per_run = table.group_by(*key, "run", maintain_order=True).agg(
        pl.col("pa_f1").var().alias("variance"), pl.col("pa_f1").mean()
    )
    of_runs = per_run.group_by(key, maintain_order=True).agg(
        pl.len().alias("runs"),
        pl.col("variance").mean().sqrt().alias("judge_sd_run"),
        pl.col("pa_f1").std().alias("generation_sd"),
    )
    per_seed = table.group_by(*key, "seed", maintain_order=True).agg(pl.col("pa_f1").mean(), pl.col("clips").max())
    of_seeds = per_seed.group_by(key, maintain_order=True).agg(
        pl.col("clips").max(),
        *(pl.col("pa_f1").filter(pl.col("seed") == seed).first().alias(f"seed_{seed}") for seed in seeds),
        pl.col("pa_f1").mean(),
        pl.col("pa_f1").std().alias("judge_sd"),
    )
    folded = of_seeds.join(of_runs, on=key, nulls_equal=True)
    columns = [f"seed_{seed}" for seed in seeds]
    return folded.select(*key, "runs", "clips", *columns, "pa_f1", "judge_sd", "judge_sd_run", "generation_sd")


def _of_seed(clips: pl.DataFrame, asked: pl.DataFrame, answers: pl.DataFrame, seed: int) -> pl.DataFrame:
    """``clips`` as if ``seed`` were the only judge seed."""
    key = clips.select(*_RUN, "clip_id")
    earned = verdicts.pa_credits(verdicts.index(asked, key), verdicts.pa_answers(answers, [seed], asked["request"]))
    counts = clips.drop("credit", "strict_credit", "judge_seeds", *(column.name for column in schemas.CLIP_METRICS))
    return summary.clip_values(counts.join(earned, on=key.columns, how="left"))


def _pa_verdicts(path: Path) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame, list[int]]:
    """`clip_scores` with the configuration, the asked pairs and whether they count, the verdicts, the judge seeds."""
    scores = load_result(path)
    if path.is_dir():
        judge = ((scores.judging or {}).get("judges") or {}).get("pa")
    else:
        document = read_document(path)
        judge = (document.get("provenance") or {}).get("judge")
        judge = judge if judge and judge["kind"] == "pa" else None
    seeds = list(judge["judge_seeds"]) if judge else []
    clips = scores.table("clip_scores").join(scores.runs.select(*_RUN, "configuration"), on=_RUN)
    if len(seeds) < 2:
        return clips, pl.DataFrame(), pl.DataFrame(), seeds
    if path.is_dir():
        assigned = scores.matches.filter(metric="pa").select(
            *_RUN, "clip_id", "predicted", "human", counts=pl.lit(True)
        )
        asked = scores.pairs.filter(pl.col("request").is_not_null())
        asked = asked.join(assigned, on=[*_RUN, "clip_id", "predicted", "human"], how="left")
        answers = scores.verdicts.filter(kind="pa", status="ok")
    else:
        asked, _, answers = verdict_lists.tables(document, "pa")
        counts = pl.Series("counts", [entry["assigned"] for entry in document["verdicts"]], dtype=pl.Boolean)
        run, set_name = scores.runs.select(_RUN).row(0)
        asked = asked.with_columns(counts, run=pl.lit(run), set=pl.lit(set_name))
        answers = answers.filter(status="ok")
    return clips, asked.with_columns(pl.col("counts").fill_null(False)), answers, seeds
