"""What is asked: the distinct questions in a table of pairs or of matches, as the table `requests`.

Pairs whose labels are equal, as a judge is shown them, are one request; its verdict goes back to all of them by join.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from mabpl.errors import UsageError
from mabpl.judges.hygiene import clean, cleaned
from mabpl.judges.prompts import Prompts
from mabpl.judges.types import Request, fingerprint
from mabpl.settings import Settings
from mabpl.tables.schemas import REQUESTS

VERSION = 1
"""Part of every request's fingerprint."""

COVERED_TICKS = 20
"""A predicted segment covers a human one that it overlaps by so many frames of the grid."""

Asked = tuple[pl.DataFrame, pl.DataFrame]

_CLIP = ["set", "clip_id"]
_PREDICTED = ["run", *_CLIP, "predicted"]
_HUMAN = [*_CLIP, "human"]


def pa_requests(
    pairs: pl.DataFrame,
    segments: pl.DataFrame,
    prompts: Prompts,
    settings: Settings,
    *,
    matches: pl.DataFrame | None = None,
) -> Asked:
    """What PA-F1 asks: ``(asked, requests)``.

    ``asked``: `pairs`, in its order, with a column ``request``; under ``judge_pairs = assigned`` only those that
    ``matches`` holds for the metric pa. ``requests``: the table of the distinct ones. A pair's PRIMARY is its human
    label, its ALSO IN THIS TIME SPAN the labels of the other human segments that the predicted one overlaps by 20
    frames or more, in time order. ``pairs`` must hold every pair of the predicted segments in it. No clip's caption or
    instruction is sent.
    """
    labels = _Labels.of(segments["label"], settings)
    every = labels.on_pairs(pairs, segments)
    asked = every
    if settings.judge_pairs == "assigned":
        if matches is None:
            raise UsageError("judge_pairs = assigned needs the PA assignment", "give the table of matches")
        asked = every.join(matches.filter(metric="pa"), on=[*_PREDICTED, "human"], how="semi", maintain_order="left")
    asked = asked.with_row_index("row")
    covered = every.filter(pl.col("covered_ticks") >= COVERED_TICKS)
    also = (
        asked.select("row", "owner", "time")
        .join(covered.select("owner", other="time", also="human_label"), on="owner")
        .filter(pl.col("time") != pl.col("other"))
        .sort("row", "other")
        .group_by("row", maintain_order=True)
        .agg("also")
    )
    asked = asked.join(also, on="row", how="left", maintain_order="left").with_columns(
        pl.col("also").fill_null([]), instruction=pl.lit(None, labels.dtype)
    )
    return _collapsed("pa", asked, pairs.columns, labels, prompts)


def joint_requests(
    matches: pl.DataFrame, segments: pl.DataFrame, clips: pl.DataFrame, prompts: Prompts, settings: Settings
) -> Asked:
    """What Joint F1 asks: ``(asked, requests)``.

    ``asked``: the rows of `matches` of the metric seg, with a column ``request``. ``requests``: one row per distinct
    (human label, predicted label) and, where `clips` has one, instruction.
    """
    told = clips.select(*_CLIP, "instruction")
    labels = _Labels.of(pl.concat([segments["label"], told["instruction"].drop_nulls().alias("label")]), settings)
    told = told.with_columns(labels.shown("instruction"))
    asked = (
        labels.on_pairs(matches.filter(metric="seg"), segments)
        .join(told, on=_CLIP, how="left", maintain_order="left")
        .with_row_index("row")
        .with_columns(also=pl.lit([], pl.List(labels.dtype)))
    )
    return _collapsed("joint", asked, matches.columns, labels, prompts)


def object_requests(pairs: pl.DataFrame, prompts: Prompts, settings: Settings) -> Asked:
    """Whether mentions refer to objects: ``(asked, requests)``.

    ``pairs``: ``text`` (a mention) and ``object``, beside any other columns. ``asked``: its rows with a column
    ``request``. ``requests``: one row per distinct pair of texts.
    """
    labels = _Labels.of(pl.concat([pairs["text"].alias("label"), pairs["object"].alias("label")]), settings)
    asked = pairs.with_columns(
        predicted_label=labels.shown("text"),
        human_label=labels.shown("object"),
        also=pl.lit([], pl.List(labels.dtype)),
        instruction=pl.lit(None, labels.dtype),
    )
    return _collapsed("object", asked.with_row_index("row"), pairs.columns, labels, prompts)


def single(
    kind: str,
    predicted: str,
    primary: str,
    prompts: Prompts,
    settings: Settings,
    *,
    also: Sequence[str] = (),
    instruction: str | None = None,
) -> Request:
    """The request for one pair of labels, after hygiene: equal to the row that the tables' functions make of it."""

    def shown(label: str) -> str:
        return clean(label)[0] if settings.label_hygiene == "on" else label

    predicted, primary, others = shown(predicted), shown(primary), [shown(label) for label in also]
    told = None if instruction is None else shown(instruction)
    prompt_hash = prompts.hash(kind)
    name = fingerprint([VERSION, kind, prompt_hash, predicted, primary, others, told])
    return Request(name, kind, predicted, primary, tuple(others), told, prompt_hash)


def as_requests(requests: pl.DataFrame) -> Iterator[Request]:
    """The rows of `requests` as values."""
    columns = ["request", "kind", "predicted_label", "primary", "also", "instruction", "prompt_hash"]
    for request, kind, predicted, primary, also, instruction, prompt_hash in requests.select(columns).iter_rows():
        yield Request(request, kind, predicted, primary, tuple(also), instruction, prompt_hash)


@dataclass(frozen=True, slots=True)
class _Labels:
    """Every text that can be sent, once. ``dtype``: their enumeration, so that equal ones are equal integers.

    ``table``: raw, label (as shown, of ``dtype``), altered, risky.
    """

    table: pl.DataFrame
    dtype: pl.Enum

    @classmethod
    def of(cls, texts: pl.Series, settings: Settings) -> _Labels:
        raw = texts.unique()
        shown = cleaned(raw, settings.label_hygiene == "on")
        dtype = pl.Enum(shown["label"].unique())
        return cls(shown.with_columns(pl.col("label").cast(dtype), raw=raw), dtype)

    def shown(self, column: str) -> pl.Expr:
        return pl.col(column).replace_strict(self.table["raw"], self.table["label"], return_dtype=self.dtype)

    def on_pairs(self, pairs: pl.DataFrame, segments: pl.DataFrame) -> pl.DataFrame:
        """``pairs`` with predicted_label, human_label, owner (the predicted segment) and time (the human's rank)."""
        segments = segments.with_columns(self.shown("label"))
        predicted = segments.filter(pl.col("run").is_not_null()).select(
            "run", *_CLIP, predicted="segment", predicted_label="label"
        )
        human = segments.filter(pl.col("run").is_null()).sort(*_CLIP, "start_s", "end_s", "segment")
        human = human.select(*_CLIP, human="segment", human_label="label")
        return pairs.join(predicted.with_row_index("owner"), on=_PREDICTED, how="left", maintain_order="left").join(
            human.with_row_index("time"), on=_HUMAN, how="left", maintain_order="left"
        )

    def marked(self, mark: str) -> list[int]:
        """The codes of the texts that carry ``mark`` (altered or risky)."""
        return self.table.filter(mark)["label"].to_physical().unique().to_list()


_PARTS = ["predicted_label", "human_label", "also", "instruction"]


def _collapsed(kind: str, asked: pl.DataFrame, columns: list[str], labels: _Labels, prompts: Prompts) -> Asked:
    """Equal rows of ``asked`` made one by their integer codes, each distinct one hashed once."""
    prompt_hash = prompts.hash(kind)
    distinct = asked.group_by(_PARTS).agg("row")
    distinct = distinct.with_columns(request=_fingerprints(kind, prompt_hash, distinct, labels))
    of_row = distinct.select("row", "request").explode("row").sort("row")["request"]
    marks = {mark: labels.marked(mark) for mark in ("altered", "risky")}
    requests = distinct.select(
        "request",
        kind=pl.lit(kind),
        predicted_label=pl.col("predicted_label").cast(pl.String),
        primary=pl.col("human_label").cast(pl.String),
        also=pl.col("also").cast(pl.List(pl.String)),
        instruction=pl.col("instruction").cast(pl.String),
        prompt_hash=pl.lit(prompt_hash),
        **{mark: _any_of(codes) for mark, codes in marks.items()},
    )
    return asked.select(columns).with_columns(of_row), REQUESTS.conform(requests).sort("request")


def _any_of(codes: list[int]) -> pl.Expr:
    """Whether one of a row's texts has one of ``codes``."""
    if not codes:
        return pl.lit(False)
    single = [pl.col(part).to_physical().is_in(codes).fill_null(False) for part in _PARTS if part != "also"]
    return pl.any_horizontal(*single, pl.col("also").list.eval(pl.element().to_physical().is_in(codes)).list.any())


def _fingerprints(kind: str, prompt_hash: str, distinct: pl.DataFrame, labels: _Labels) -> pl.Series:
    """The fingerprint of [version, kind, prompt hash, predicted, primary, also, instruction], for every row.

    The canonical JSON is put together from texts that were encoded once.
    """
    encoded = pl.Series([json.dumps(text, ensure_ascii=False) for text in labels.dtype.categories], dtype=pl.String)
    codes = pl.int_range(len(encoded), eager=True)

    def text(label: pl.Expr) -> pl.Expr:
        return label.to_physical().replace_strict(codes, encoded, return_dtype=pl.String)

    canonical = distinct.select(
        pl.concat_str(
            pl.lit(f'[{VERSION},"{kind}","{prompt_hash}",'),
            text(pl.col("predicted_label")) + ",",
            text(pl.col("human_label")) + ",[",
            pl.col("also").list.eval(text(pl.element())).list.join(",") + "],",
            text(pl.col("instruction")).fill_null("null") + "]",
        )
    ).to_series()
    hashes = [hashlib.blake2b(line.encode(), digest_size=16).hexdigest() for line in canonical.to_list()]
    return pl.Series("request", hashes, dtype=pl.String)
