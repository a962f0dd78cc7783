"""Results as text: one score, the leaderboard of many, sets combined."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import polars as pl

from mabpl.errors import unknown_name
from mabpl.metrics import METRICS
from mabpl.report.tables import Format, Kind, Show, render, terminal_width

if TYPE_CHECKING:
    from mabpl.benchmarks.micro_annotation.scores import Scores

TITLES = {
    "headline": ("Score", "Score"),
    "pa_f1": ("PA-F1", "PA"),
    "strict_pa_f1": ("Strict PA-F1", "Strict"),
    "precision": ("Precision", "P"),
    "recall": ("Recall", "R"),
    "boundary_f1": ("Boundary F1", "Bound."),
    "temporal_f1": ("Temporal F1", "Temp."),
    "seg_f1": ("Seg F1", "Seg"),
    "joint_f1": ("Joint F1", "Joint"),
    "segments_per_clip": ("Seg. / clip", "Seg."),
    "human_segments_per_clip": ("Human / clip", "Human"),
}
"""The columns of the published tables, with a short form."""

JUDGED = ("headline", "pa_f1", "strict_pa_f1", "precision", "recall", "joint_f1", "joint_precision", "joint_recall")
JUDGED_MARK = "\u2020"
_ROOM = 5
LEVEL = 0.95
ALL_SETS = "all sets"


def score_text(document: dict[str, Any], format: Format = "terminal") -> str:  # noqa: A002
    """The summary of a score JSON, and what hangs on an edge."""
    summary = document["summary"]
    names = [name for name in (*TITLES, "clips", "undefined_clips") if summary.get(name) is not None]
    rows = [{"metric": _title(name), "value": _shown(name, summary[name])} for name in names]
    notes = [rule_note([name for name in METRICS if name in names])]
    flips = [row for row in document.get("flip_audit", []) if row["lost"] or row["gained"]]
    if flips:
        said = "; ".join(
            f"{r['metric']} {r['probe']}: -{r['lost']} +{r['gained']} in {r['clips']} clips" for r in flips
        )
        notes.append(f"On the edge (matches that would change): {said}.")
    elif document.get("flip_audit"):
        notes.append("On the edge: no match hangs on a frame of tolerance, a threshold or a tie.")
    notes += _judge_of(document) + _partial(document)
    title = f"{document.get('run', '')} on {document.get('set') or 'the labels file'}".strip()
    columns = [Show("metric", ""), Show("value", "")]
    return render(pl.DataFrame(rows), format=format, columns=columns, title=title, notes=notes)


def joint_text(document: dict[str, Any]) -> str:
    """The summary of a joint JSON."""
    summary = document["summary"]
    names = [name for name in (*METRICS, "t", "j", "x", "y") if summary.get(name) is not None]
    rows = [{"metric": _title(name), "value": _shown(name, summary[name])} for name in names]
    notes = [rule_note(["seg_f1", *(["joint_f1"] if summary.get("joint_f1") is not None else [])])]
    notes += _judge_of(document) + _partial(document)
    title = f"{document.get('run', '')} on {document.get('set') or 'the labels file'}".strip()
    return render(pl.DataFrame(rows), columns=[Show("metric", ""), Show("value", "")], title=title, notes=notes)


def _title(name: str) -> str:
    if name in TITLES:
        return TITLES[name][0]
    counts = {"t": "matches (T)", "j": "accepted (J)", "x": "predicted segments (X)", "y": "human segments (Y)"}
    return METRICS[name].title if name in METRICS else counts.get(name, name.replace("_", " "))


def _shown(name: str, value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.2f}"


def _partial(document: dict[str, Any]) -> list[str]:
    notes = ["Partial: not every clip of the set was scored."] if document.get("partial") else []
    unscored = document.get("unscored_clips") or []
    if unscored:
        notes.append(f"Incomplete: {len(unscored)} clips lack a verdict and are left out of the judged metrics.")
    return notes


def rule_note(names: Sequence[str]) -> str:
    """The rule of each metric that is shown, so that a number is never without one."""
    shown = [METRICS[name] for name in ("pa_f1", "boundary_f1", "temporal_f1", "seg_f1", "joint_f1") if name in names]
    return " ".join(f"{metric.title}: {metric.rule}." for metric in shown) + " Idle segments are left out."


def leaderboard(scores: Scores, by: Sequence[str] = ()) -> pl.DataFrame:
    """Configurations per set and combined: mean, SD and interval of every metric over generation seeds, best first.

    Where a map file named models, column ``best`` marks the best setting of each.
    """
    clips = scores.clips
    for name in by:
        if name not in clips.columns:
            raise unknown_name("column", name, clips.columns)
    folded = scores.summarise(by, fold_seeds=True, ci=LEVEL)
    if clips["set"].n_unique() > 1:
        both = scores.summarise(by, combine=True, fold_seeds=True, ci=LEVEL)
        whole = both if by else both.filter(pl.col("sets") == clips["set"].n_unique())
        both = whole.with_columns(pl.lit(ALL_SETS).alias("set"))
        folded = pl.concat([both, folded], how="diagonal").select([*folded.columns, "sets"])
    settings = scores.runs.select("configuration", "model", "setting").unique()
    named = folded.join(settings, on="configuration", how="left")
    rank = pl.when(pl.col("headline").is_not_null()).then(pl.col("headline")).otherwise(
        (pl.col("boundary_f1") + pl.col("temporal_f1")) / 2
    )  # fmt: skip
    order = pl.when(pl.col("set") == ALL_SETS).then(0).otherwise(1)
    named = named.with_columns(rank=rank, order=order)
    best = (pl.col("rank") == pl.col("rank").max().over("model", "set", *by)) & pl.col("model").is_not_null()
    named = named.with_columns(best.alias("best"))
    keys = ["order", "set", *by, "rank", "configuration"]
    descending = [False, False, *(False for _ in by), True, False]
    return named.sort(keys, descending=descending, nulls_last=True).drop("order", "rank")


def leaderboard_text(scores: Scores, by: Sequence[str] = (), format: Format = "terminal") -> str:  # noqa: A002
    """:func:`leaderboard` to read: a block for each set."""
    board = leaderboard(scores, by)
    if format in ("json", "csv"):
        judges = (scores.judging or {}).get("judges", {})
        named = {f"{kind}_judge": pl.lit(f"{of['judge']} ({of['route']})") for kind, of in judges.items()}
        board = board.with_columns(**named)
        return render(board, format=format, columns=[Show(name) for name in board.columns])
    metrics = [name for name in TITLES if name in board.columns and board[name].null_count() < board.height]
    has_models = board["model"].null_count() < board.height
    several = board["runs"].max() != 1
    shows = [*(Show(name) for name in by), Show("who", "Configuration")]
    shows += [Show("runs", "Seeds", "count")] if several else []
    crowded = format == "terminal" and len(metrics) > _ROOM
    for name in metrics:
        if name == "human_segments_per_clip":
            continue
        title, short = TITLES[name]
        kind: Kind = "both" if several else "interval"
        if name.endswith("per_clip") or (crowded and name != "headline"):
            kind = "percent"
        best: Literal["", "high"] = "" if name.endswith("per_clip") else "high"
        dagger = JUDGED_MARK if scores.judging and name in JUDGED else ""
        shows.append(Show(name, title + dagger, kind, short + dagger, best=best))
    blocks = []
    for (set_name,), rows in board.group_by(["set"], maintain_order=True):
        title = f"{set_name or 'labels'}{_size(rows) if not by else ''}"
        mark = pl.when("best").then(pl.lit(" *")).otherwise(pl.lit(""))
        setting = pl.format(" ({})", pl.col("setting")).fill_null("")
        who = pl.coalesce(pl.col("model") + setting + mark, "configuration").alias("who")
        blocks.append(render(rows.with_columns(who), format=format, columns=shows, title=title, width=_width()))
    notes = [rule_note(metrics)]
    if several:
        notes.append("± is the SD between generation seeds.")
    notes.append("[ , ] is the 95% interval of a bootstrap over clips.")
    if has_models:
        notes.append("* marks a model's best setting.")
    if crowded:
        notes.append("--json and --format markdown show the SD and interval of every metric.")
    notes += judge_notes(scores.judging)
    if scores.partial:
        notes.append("Partial: not every clip was scored.")
    return "\n".join(blocks) + "\n" + _wrapped(notes)


def _judge_of(document: dict[str, Any]) -> list[str]:
    judge = (document.get("provenance") or {}).get("judge")
    return judge_notes({"judges": {judge["kind"]: judge}} if judge else None)


def judge_notes(judging: Mapping[str, Any] | None) -> list[str]:
    """Who judged, and whether that can be compared with published scores."""
    judges = (judging or {}).get("judges", {})
    named = [f"{profile['kind']} {profile['judge']} ({profile['route']})" for profile in judges.values()]
    if not named:
        return []
    notes = [f"{JUDGED_MARK} judged by {', '.join(dict.fromkeys(named))}."]
    if any(profile["route"] == "embedded" for profile in judges.values()):
        notes.append("The embedded judge is an offline stand-in: its scores are not comparable with published ones.")
    return notes


def _size(rows: pl.DataFrame) -> str:
    clips, human = rows.select(pl.col("clips", "human_segments_per_clip").max()).row(0)
    weighed = ", weighted by clips" if rows["set"][0] == ALL_SETS else ""
    return f": {clips} clips{weighed}, {human:.1f} human segments a clip"


def _width() -> int:
    """The terminal's width; wide enough for one table where the output is not watched."""
    return terminal_width() if sys.stdout.isatty() else max(terminal_width(), 112)


def _wrapped(notes: Sequence[str]) -> str:
    return textwrap.fill(" ".join(notes), terminal_width()) + "\n"


def sets_text(
    sets: pl.DataFrame,
    format: Format = "terminal",  # noqa: A002
    judging: Mapping[str, Any] | None = None,
) -> str:
    """Rows of `set_scores` as a table; a null set is all of them. What ``judging`` says of the judges is told."""
    if format in ("json", "csv"):
        return render(sets, format=format, columns=[Show(name) for name in sets.columns])
    metrics = [name for name in TITLES if name in sets.columns and sets[name].null_count() < sets.height]
    shows = [Show("run", "Run"), Show("set", "Set"), Show("clips", "Clips", "count")]
    notes = judge_notes(judging)
    for name in metrics:
        dagger = JUDGED_MARK if notes and name in JUDGED else ""
        shows.append(Show(name, TITLES[name][0] + dagger, "percent", TITLES[name][1] + dagger))
    return render(sets.with_columns(pl.col("set").fill_null(ALL_SETS)), format=format, columns=shows, notes=notes)
