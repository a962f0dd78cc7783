"""Tables of ely-eye's benchmark set: queries with gold regions, sources, a system's atoms, what it returned, scores."""

from __future__ import annotations

import polars as pl

from mabpl.tables.columns import Column, Table
from mabpl.tables.ely_scores import ELY_SCORE_TABLES

UTC = pl.Datetime("us", "UTC")

_QUERY = Column("query_id", pl.String, "the query; unique across sets")
_SOURCE = Column("source_id", pl.String, "the source: a document, picture, video, code base or conversation")
_ATOM = Column("atom_id", pl.String, "the system's name of one piece that it holds of a source")
_RUN = Column("run", pl.String, "one file of what a system returned, less its ending")
_MODALITY = Column("modality", pl.String, "pdf, image, ui_screenshot, video, code or conversation")
_OBSERVED = Column("observed_at", UTC, "when its holder came to know it; null: not told", nullable=True)
_GOLD = Column("gold", pl.Int32, "position in the query's list of gold regions, from 0")

_BOX_AND_TIME = (
    Column("x0", pl.Float64, "ui_screenshot: left edge", "px", nullable=True),
    Column("y0", pl.Float64, "ui_screenshot: upper edge", "px", nullable=True),
    Column("x1", pl.Float64, "ui_screenshot: right edge", "px", nullable=True),
    Column("y1", pl.Float64, "ui_screenshot: lower edge", "px", nullable=True),
    Column("t_start", pl.Float64, "video: start", "s", nullable=True),
    Column("t_end", pl.Float64, "video: end; equal to t_start for an instant of an atom", "s", nullable=True),
    Column("path", pl.String, "code: the file inside the source", nullable=True),
)

QUERIES = Table(
    "ely_queries",
    "one query of a set",
    ("query_id",),
    (
        Column("set", pl.String, "the set: its file's name less the ending"),
        _QUERY,
        _MODALITY,
        Column("question", pl.String, "the question, verbatim"),
        Column("answer", pl.String, "the answer's text; null where it is unanswerable", nullable=True),
        Column("answer_format", pl.String, "str, int, float, list or none"),
        Column("holder", pl.String, "who asks: only this holder's sources are visible"),
        Column("session", pl.String, "the session that it is asked in", nullable=True),
        Column("scenario", pl.String, "the kind of task"),
        Column("as_of", UTC, "when it is asked; what was observed later is no hit", nullable=True),
        Column("unanswerable", pl.Boolean, "no source answers it: it has no gold"),
        Column("dataset", pl.String, "the data set that it comes from"),
        Column("revision", pl.String, "the revision of that data set"),
        Column("item", pl.String, "the item of that data set"),
        Column("license", pl.String, "the licence of that data set"),
        Column("split", pl.String, "dev or test"),
        Column("void", pl.Boolean, "its revision is in no manifest: left out of all scoring"),
        Column("file", pl.String, "the file that it was read from, below the benchmark's folder"),
        Column("line", pl.Int64, "line of that file, from 1"),
    ),
)

GOLD = Table(
    "ely_gold",
    "one gold region of a query; a region of an image is the whole of it",
    ("query_id", "gold"),
    (
        _QUERY,
        _GOLD,
        _SOURCE,
        _MODALITY,
        Column("page", pl.Int64, "pdf: the page, from 1", nullable=True),
        Column("block", pl.Int64, "pdf: the block of the page, from 0; null: all of the page", nullable=True),
        *_BOX_AND_TIME,
        Column("symbol", pl.String, "code: the function or class", nullable=True),
        Column("line", pl.Int64, "code: the line, from 1", nullable=True),
        Column("turn", pl.Int64, "conversation: the turn, from 0", nullable=True),
    ),
)

SOURCES = Table(
    "ely_sources",
    "one source of the corpus, as the index describes it",
    ("source_id",),
    (
        _SOURCE,
        _MODALITY,
        Column("holder", pl.String, "whose memory it is"),
        _OBSERVED,
        Column("pages", pl.Int64, "pdf: number of pages", "pages", nullable=True),
        Column("width", pl.Float64, "image, ui_screenshot: width", "px", nullable=True),
        Column("height", pl.Float64, "image, ui_screenshot: height", "px", nullable=True),
        Column("duration_s", pl.Float64, "video: length", "s", nullable=True),
        Column("lines", pl.Int64, "code: number of lines, where the source is one file", "lines", nullable=True),
        Column("turns", pl.Int64, "conversation: number of turns", "turns", nullable=True),
        Column("file", pl.String, "the index that it was read from, below the benchmark's folder"),
        Column("line", pl.Int64, "line of that file, from 1"),
    ),
)

SYMBOLS = Table(
    "ely_symbols",
    "one function or class of a code source, where the index tells of it",
    ("source_id", "path", "symbol", "line_start"),
    (
        _SOURCE,
        Column("path", pl.String, "the file inside the source"),
        Column("symbol", pl.String, "its name, as in the gold regions"),
        Column("line_start", pl.Int64, "its first line, from 1"),
        Column("line_end", pl.Int64, "its last line"),
    ),
)

ATOMS = Table(
    "ely_atoms",
    "one piece of a source that a system holds; without a region it is the whole source",
    ("atom_id",),
    (
        _ATOM,
        _SOURCE,
        _MODALITY,
        Column("holder", pl.String, "whose memory it is"),
        _OBSERVED,
        Column("page_start", pl.Int64, "pdf: its first page, from 1", nullable=True),
        Column("page_end", pl.Int64, "pdf: its last page", nullable=True),
        Column("block", pl.Int64, "pdf: the block of its page, from 0; null: all of the page", nullable=True),
        *_BOX_AND_TIME,
        Column("line_start", pl.Int64, "code: its first line, from 1", nullable=True),
        Column("line_end", pl.Int64, "code: its last line", nullable=True),
        Column("symbols", pl.List(pl.String), "code: the functions and classes in it", nullable=True),
        Column("turn_start", pl.Int64, "conversation: its first turn, from 0", nullable=True),
        Column("turn_end", pl.Int64, "conversation: its last turn", nullable=True),
    ),
)

RESOLVED = Table(
    "ely_resolved",
    "one atom that overlaps a gold region",
    ("query_id", "gold", "atom_id"),
    (
        _QUERY,
        _GOLD,
        _ATOM,
        Column(
            "whole_source", pl.Boolean, "the atom spans its whole source and the region does not: not covered by it"
        ),
    ),
)

RETURNED = Table(
    "ely_returned",
    "one atom that a system returned for a query; of an atom returned twice the first place",
    ("run", "query_id", "rank"),
    (
        _RUN,
        _QUERY,
        Column("rank", pl.Int32, "place in the list as it was returned, from 1, repeated atoms left out"),
        _ATOM,
        Column("score", pl.Float64, "the system's score of it", nullable=True),
        Column("strong", pl.Boolean, "the system takes it for strong evidence", nullable=True),
    ),
)

LATENCIES = Table(
    "ely_latencies",
    "how long one query took, from question to the cartridge that is ready",
    ("run", "query_id"),
    (
        _RUN,
        _QUERY,
        Column("cold_s", pl.Float64, "with nothing prepared", "s", nullable=True),
        Column("warm_s", pl.Float64, "asked again", "s", nullable=True),
    ),
)

ELY_TABLES = (QUERIES, GOLD, SOURCES, SYMBOLS, ATOMS, RESOLVED, RETURNED, LATENCIES, *ELY_SCORE_TABLES)
