"""One line of each input file of ely-eye's benchmark set, as typed rows."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

Modality = Literal["pdf", "image", "ui_screenshot", "video", "code", "conversation"]
MODALITIES: tuple[str, ...] = get_args(Modality)

_Text = Annotated[str, Meta(min_length=1)]
_Name = Annotated[str, Meta(min_length=1, description="Any text: never used as a path.")]
_Time = Annotated[str, Meta(description="ISO 8601 with its zone, e.g. 2024-01-01T00:00:00+00:00.")]
_Count = Annotated[int, Meta(ge=1, le=2**53)]
_Index = Annotated[int, Meta(ge=0, le=2**53)]
_Length = Annotated[float, Meta(gt=0)]


class GoldEntry(Struct, gc=False):
    """Where the answer is: a source and a region of it, never an atom."""

    source_id: _Name
    region: dict[str, Any]


class Scope(Struct, gc=False):
    """Who asks, and in what kind of task."""

    holder: _Text
    session: str | None
    scenario: _Text
    as_of: _Time | UnsetType | None = UNSET


class Origin(Struct, gc=False):
    """Where the entry comes from; without its revision in the manifest it is void."""

    dataset: _Text
    revision: _Text
    item: _Text
    license: _Text


class QueryRow(Struct, gc=False):
    """One line of a set: a query with its gold. ``as_of`` may stand in ``scope`` instead."""

    query_id: _Name
    modality: Modality
    question: _Text
    answer: Any
    answer_format: Literal["str", "int", "float", "list", "none"]
    gold: list[GoldEntry]
    scope: Scope
    unanswerable: bool
    origin: Origin
    split: Literal["dev", "test"]
    as_of: _Time | UnsetType | None = UNSET


class SymbolEntry(Struct, gc=False):
    """A function or class, and its lines."""

    path: _Text
    symbol: _Text
    line_start: _Count
    line_end: _Count


class SourceRow(Struct, gc=False):
    """One line of a corpus index: a source. Further fields are ignored.

    What is told of its extent lets a whole-source atom be recognised; none of it is required.
    """

    source_id: _Name
    holder: _Text
    modality: Modality | UnsetType = UNSET
    observed_at: _Time | UnsetType | None = UNSET
    pages: _Count | UnsetType | None = UNSET
    width: _Length | UnsetType | None = UNSET
    height: _Length | UnsetType | None = UNSET
    duration_s: _Length | UnsetType | None = UNSET
    lines: _Count | UnsetType | None = UNSET
    turns: _Count | UnsetType | None = UNSET
    symbols: list[SymbolEntry] | UnsetType = UNSET


class ManifestRow(Struct, gc=False):
    """One line of corpus/manifest.jsonl: where files of the corpus come from. Further fields are ignored."""

    url: _Text
    retrieved_at: _Text
    sha256: _Text
    annotation_source: _Text
    license: _Text
    files: list[Any]


class AtomRegion(Struct, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """Where in its source an atom lies, in the shapes of the gold; empty: the whole source.

    Beside these, an atom may take in several pages, turns or lines, and name the symbols in it.
    """

    page: _Count | None = None
    page_start: _Count | None = None
    page_end: _Count | None = None
    block: _Index | None = None
    bbox: Annotated[list[float], Meta(description="[x0, y0, x1, y1] in pixels.")] | None = None
    t: Annotated[float, Meta(description="An instant, in seconds.")] | None = None
    t_start: float | None = None
    t_end: float | None = None
    path: _Text | None = None
    line: _Count | None = None
    line_start: _Count | None = None
    line_end: _Count | None = None
    symbol: _Text | None = None
    symbols: list[_Text] | None = None
    turn: _Index | None = None
    turn_start: _Index | None = None
    turn_end: _Index | None = None


class AtomRow(Struct, omit_defaults=True, gc=False):
    """One line of an atoms file: a piece of a source that a system holds. Further fields are ignored.

    ``modality``, ``holder`` and ``observed_at`` are the source's where they are not given.
    """

    atom_id: _Name
    source_id: _Name
    region: AtomRegion
    modality: Modality | None = None
    holder: _Text | None = None
    observed_at: _Time | None = None


class ReturnedAtom(Struct, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """An atom at its place in the list."""

    atom_id: _Name
    score: Annotated[float, Meta(description="The system's score; never sorted by.")] | None = None
    strong: Annotated[bool, Meta(description="The system takes it for strong evidence.")] | None = None


class Latency(Struct, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """From the question to the cartridge that is ready, by the clock on the wall."""

    cold_s: Annotated[float, Meta(ge=0, description="Seconds, nothing prepared.")] | None = None
    warm_s: Annotated[float, Meta(ge=0, description="Seconds, asked again.")] | None = None


class RunRow(Struct, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """One line of a run: what a system returned for a query, best first."""

    query_id: _Name
    returned: Annotated[list[ReturnedAtom], Meta(description="Best first; of an atom given twice the first.")]
    latency: Latency | None = None


INPUT_ROWS: dict[str, type[msgspec.Struct]] = {
    "ely_query": QueryRow,
    "ely_source": SourceRow,
    "ely_manifest": ManifestRow,
    "ely_atom": AtomRow,
    "ely_run": RunRow,
}
"""The row of each input file."""


def given(value: Any) -> Any:
    """``value``, or None where the field was not given."""
    return None if value is UNSET else value
