"""What is in every file and table, as pages: `data_schema/` is written from here, and `mabpl schema` prints it.

Input files have a JSON Schema made from the typed rows that read them, the score and joint JSON one made from the
names that write them, and tables a page made from their schema. Nothing is written down a second time.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, get_type_hints

import msgspec
import polars as pl

from mabpl.benchmarks.ely_eye import rows as ely_rows
from mabpl.benchmarks.micro_annotation import results, verdict_lists
from mabpl.benchmarks.micro_annotation.reading import Source
from mabpl.benchmarks.micro_annotation.rows import INPUT_ROWS
from mabpl.benchmarks.proact_ego_mem import rows as proact_rows
from mabpl.errors import unknown_name
from mabpl.report.tables import Show, render
from mabpl.settings import Settings
from mabpl.tables.columns import Column, Table
from mabpl.tables.files import to_json
from mabpl.tables.folder import MANIFEST, PARTITIONED
from mabpl.tables.schemas import (
    CLIP_SCORES,
    FLIP_AUDIT,
    PAIRS,
    REQUESTS,
    SCHEMA_VERSION,
    SET_SCORES,
    TABLES,
    VERDICTS,
)

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_INPUTS = {
    "labels": (
        "One line of data/<set>/labels.jsonl (JSON Lines, plain or gzip).",
        "Beyond the schema: UTF-8, each key once, finite numbers, end_s later than start_s by a microsecond or more, a "
        "clip on one line of one set.",
    ),
    "predictions": (
        "One line of a prediction file (JSON Lines, plain or gzip).",
        "Beyond the schema: UTF-8, each key once, finite numbers, end_s later than start_s by a microsecond or more, "
        "one line for every clip of the set and none for another, no timeline without segments.",
    ),
    "manifest": ("One line of data/<set>/manifest.jsonl (JSON Lines, plain or gzip).", ""),
    "map": (
        "One line of a map file (JSON Lines), or one row of it as CSV with these columns.",
        "Beyond the schema: each configuration once.",
    ),
    "proact_release": (
        "A released file of ProactEgoMem (JSON of the shape proact-studio-v3, plain or gzip).",
        "Beyond the schema: UTF-8, each key once, and the rules that `mabpl proact validate` names: keys are the ids "
        "inside, every id resolves, local times are source times less the clip's start, four choices with letters of "
        "their own, and answers, sample_ids and canary on dev only.",
    ),
    "proact_submission": (
        "One line of a submission to ProactEgoMem (JSON Lines, plain or gzip).",
        "Beyond the schema: UTF-8, each key once, finite times inside the clip, a line for every clip of the split "
        "(silence is an empty list) and no clip or question twice. A clip that failed is an error, not silence.",
    ),
    "ely_query": (
        "One line of a set of ely-eye's benchmark (JSON Lines).",
        "Beyond the schema, the rules that `mabpl ely validate` names: a region has exactly the keys of its modality, "
        "times have a zone, the answer is null exactly where it is unanswerable and in the format that is named, gold "
        "is of the query's holder and observed by as_of.",
    ),
    "ely_source": (
        "One line of a corpus index of ely-eye's benchmark (JSON Lines).",
        "Beyond the schema: each source once; a file whose name tells the modality need not say it.",
    ),
    "ely_manifest": (
        "One line of corpus/manifest.jsonl of ely-eye's benchmark (JSON Lines).",
        "Beyond the schema: files are paths, or objects with path and sha256, and each digest is true.",
    ),
    "ely_atom": (
        "One line of the atoms that a system holds of ely-eye's sources (JSON Lines, plain or gzip); as parquet, the "
        "table ely_atoms.",
        "Beyond the schema: a region of the source's modality, ends not before starts, the source's own holder, "
        "nothing observed before the source, each atom once.",
    ),
    "ely_run": (
        "One line of a run on ely-eye's benchmark set (JSON Lines, plain or gzip), or one row of it as parquet.",
        "Beyond the schema: UTF-8, each key once, finite numbers, a line for every query that is scored and no query "
        "twice; every atom is in the atoms file that the run is scored with.",
    ),
}
_ROWS: dict[str, tuple[type[msgspec.Struct], ...]] = {
    **{name: (kind,) for name, kind in INPUT_ROWS.items()},
    **proact_rows.INPUT_ROWS,
    **{name: (kind,) for name, kind in ely_rows.INPUT_ROWS.items()},
}
_RESULTS = {
    "scores": "What `mabpl score` writes for one prediction file: <name>.<set>.scores.json.",
    "joint": "What `mabpl joint` writes for one prediction file: <name>.<set>.joint.json.",
}
_FILES = {**{name: what for name, (what, _) in _INPUTS.items()}, **_RESULTS}
_IN_PYTHON = {
    "clips": '`scores.table("clips")`',
    "clip_scores": '`scores.table("clip_scores")`; `scores.clips` appends the columns of runs and clips',
    "set_scores": "`scores.sets`",
    "requests": "`mabpl.judges.requests.pa_requests(...)`, `joint_requests(...)`",
    "verdicts": "`mabpl.judges.store.Store.verdicts()`",
    "flip_audit": "`scores.audit`; `flip_audit` of a score JSON",
    "problems": "`mabpl.validate(...)`, `problems` of what `mabpl.read_labels` and `mabpl.read_predictions` return",
    "proact_clips": "`clips` of a `mabpl.benchmarks.proact_ego_mem.Release`",
    "proact_segments": "`segments` of a `mabpl.benchmarks.proact_ego_mem.Release`",
    "qa_items": "`qa_items` of a `mabpl.benchmarks.proact_ego_mem.Release`",
    "mentions": "`mentions` of a `mabpl.benchmarks.proact_ego_mem.Submissions`",
    "qa_answers": "`qa_answers` of a `mabpl.benchmarks.proact_ego_mem.Submissions`",
    "qa_scores": "`mabpl.benchmarks.proact_ego_mem.score_qa(...)`",
    "comparisons": "an argument of `mabpl.tournament.standings.games(...)`",
    "games": "`mabpl.tournament.standings.games(...)`; `games` of what `stand(...)` returns",
    "standings": "`standings` of what `mabpl.tournament.standings.stand(...)` returns",
    "win_matrix": "`win_matrix` of what `mabpl.tournament.standings.stand(...)` returns",
    "tournament_checks": "`checks` of what `mabpl.tournament.standings.stand(...)` returns",
    "ely_queries": "`queries` of `mabpl.benchmarks.ely_eye.read_benchmark(...)`",
    "ely_gold": "`gold` of `mabpl.benchmarks.ely_eye.read_benchmark(...)`",
    "ely_sources": "`sources` of `mabpl.benchmarks.ely_eye.read_benchmark(...)`",
    "ely_symbols": "`symbols` of `mabpl.benchmarks.ely_eye.read_benchmark(...)`",
    "ely_atoms": "`atoms` of `mabpl.benchmarks.ely_eye.read_atoms(...)`",
    "ely_returned": "`returned` of `mabpl.benchmarks.ely_eye.runs.read_runs(...)`",
    "ely_latencies": "`latencies` of `mabpl.benchmarks.ely_eye.runs.read_runs(...)`",
    "ely_query_scores": "`queries` of `mabpl.benchmarks.ely_eye.scoring.score(...)`",
    "ely_scores": "`scores` of `mabpl.benchmarks.ely_eye.scoring.score(...)`",
    "ely_resolved": "`mabpl.benchmarks.ely_eye.resolve(...)`",
}
_ELSEWHERE = {
    "ely_query_scores": "In a result of `mabpl ely score`: `per_query` of the JSON, `ely_query_scores.parquet`.",
    "ely_scores": "In a result of `mabpl ely score`: `scores` of the JSON, `ely_scores.parquet`.",
    "verdicts": "In a verdict store: `verdicts/part-*.parquet`.",
    "flip_audit": "On the command line: `mabpl score --json`.",
    "problems": "On the command line: `mabpl validate --json`.",
    "qa_scores": "On the command line: `mabpl proact qa --json`.",
}
_JUDGE: list[tuple[str, Any]] = [
    ("kind", str),
    ("judge", str),
    ("route", str),
    ("judge_seeds", list[int]),
    (
        "body",
        Annotated[dict[str, Any] | None, msgspec.Meta(description="The request's fields, but model and messages.")],
    ),
]
_LABELS: list[tuple[str, Any]] = [
    ("altered", Annotated[int, msgspec.Meta(description="Distinct labels that hygiene changes for a judge.")]),
    ("risky", Annotated[int, msgspec.Meta(description="Distinct labels with JSON or words meant for a judge.")]),
]
_LISTS: dict[Any, Any] = {pl.List(pl.Int64): list[int], pl.List(pl.String): list[str]}
_TYPES: dict[Any, Any] = _LISTS | {pl.String: str, pl.Int64: int, pl.Int32: int, pl.Float64: float, pl.Boolean: bool}


def pages() -> dict[str, str]:
    """File name to text: everything in `data_schema/`."""
    schemas = {f"{name}.schema.json": json_schema(name) for name in _FILES}
    tables = {f"{name}.md": _markdown(table) for name, table in TABLES.items()}
    return {"README.md": _index(), **schemas, **tables}


def listing() -> pl.DataFrame:
    """Every name that has a page, and what it is: columns name, kind, what."""
    rows = [(name, "file", what) for name, what in _FILES.items()]
    rows += [(name, "table", table.row) for name, table in TABLES.items()]
    return pl.DataFrame(rows, schema=["name", "kind", "what"], orient="row")


def page(name: str) -> str:
    """The page ``name`` for a terminal: a JSON Schema, or a table's columns. :class:`UsageError` for another name."""
    if name in TABLES:
        table = TABLES[name]
        notes = [f"Key: {', '.join(table.key)}.", *_whereabouts(table)]
        return render(_columns(table), columns=_SHOWN, title=f"{name}: {table.row}", notes=notes)
    if name in _FILES:
        return json_schema(name)
    raise unknown_name("table or file", name, [*_FILES, *TABLES])


def json_schema(name: str) -> str:
    """The JSON Schema (draft 2020-12) of an input file's line, or of the score or joint JSON."""
    description = " ".join(_INPUTS[name]).strip() if name in _INPUTS else f"{_RESULTS[name]} Percent, unrounded."
    kinds = _ROWS[name] if name in _INPUTS else (_document(name),)
    head = {"$schema": DIALECT, "title": name, "description": description}
    schemas, parts = msgspec.json.schema_components(kinds, ref_template="#/$defs/{name}")
    return to_json({**head, **(schemas[0] if len(schemas) == 1 else {"anyOf": list(schemas)}), "$defs": parts})


def _document(name: str) -> type[msgspec.Struct]:
    """The score or joint JSON as a type."""
    summary: tuple[str, ...] = (*results.JOINT_METRICS, "t", "j", "x", "y", "clips")
    per_clip: tuple[str, ...] = results.JOINT_COUNTS
    flips: list[tuple[str, Any]] = []
    kind = "joint"
    if name == "scores":
        summary = (*results.SCORE_METRICS, "headline", *results.SIZES)
        per_clip = (*results.SCORE_COUNTS, "judge_seeds", *results.SCORE_METRICS)
        kind = "pa"
        flips = [("flip_audit", list[_struct("Flip", FLIP_AUDIT.columns[2:])])]  # type: ignore[misc]
    options = [
        (option, Annotated[hint, msgspec.Meta(description=meaning)])
        for (option, _, meaning), hint in zip(Settings.described(), get_type_hints(Settings).values(), strict=True)
    ]
    provenance = [
        ("mabpl", Annotated[str, msgspec.Meta(description="The version that made the result.")]),
        ("judge", msgspec.defstruct("Judge", _JUDGE) | None),
        ("prompts", Annotated[dict[str, Any], msgspec.Meta(description="Source and SHA-256 of each prompt file.")]),
        ("inputs", list[msgspec.defstruct("Input", list(get_type_hints(Source).items()))]),  # type: ignore[misc]
        ("digest", Annotated[str, msgspec.Meta(description="SHA-256 (hex) of the rest of this document.")]),
    ]
    return msgspec.defstruct(
        name.capitalize(),
        [
            ("summary", _struct("Summary", _named(SET_SCORES, summary))),
            ("per_clip", dict[str, _struct("Clip", _named(CLIP_SCORES, per_clip))]),  # type: ignore[misc]
            *flips,
            ("verdicts", list[_verdict(kind)]),  # type: ignore[misc]
            ("unscored_clips", list[str]),
            ("labels", msgspec.defstruct("Labels", _LABELS)),
            ("partial", Annotated[bool, msgspec.Meta(description="Not every clip of the set was scored.")]),
            ("set", str),
            ("run", str),
            ("settings", msgspec.defstruct("Settings", options)),
            ("provenance", msgspec.defstruct("Provenance", provenance)),
        ],
    )


def _verdict(kind: str) -> type[msgspec.Struct]:
    """What a judge saw of a pair and what it answered."""
    assigned = [("assigned", Annotated[bool, msgspec.Meta(description="The pair is of the PA assignment.")])]
    answer = _struct("Answer", _named(VERDICTS, verdict_lists.ANSWERS[kind]))
    fields = [(column.name, _annotated(column)) for column in _named(PAIRS, ("clip_id", "predicted", "human"))]
    fields += assigned if kind == "pa" else []
    fields += [(column.name, _annotated(column)) for column in _named(REQUESTS, ("request", *verdict_lists.ASKED))]
    return msgspec.defstruct("Verdict", [*fields, ("answers", list[answer])])  # type: ignore[valid-type]


def _named(table: Table, names: Iterable[str]) -> list[Column]:
    columns = {column.name: column for column in table.columns}
    return [columns[name] for name in names]


def _struct(name: str, columns: Iterable[Column]) -> type[msgspec.Struct]:
    return msgspec.defstruct(name, [(column.name, _annotated(column)) for column in columns])


def _annotated(column: Column) -> Any:
    kind = _TYPES[column.dtype]
    unit = f" [{column.unit}]" if column.unit else ""
    return Annotated[kind | None if column.nullable else kind, msgspec.Meta(description=column.meaning + unit)]


_SHOWN = [
    Show("column", "Column"), Show("type", "Type"), Show("unit", "Unit"), Show("null", "Null"),
    Show("meaning", "Meaning"),
]  # fmt: skip


def _columns(table: Table) -> pl.DataFrame:
    rows = [
        (c.name, str(table.schema[c.name]), c.unit, "yes" if c.nullable else "no", c.meaning) for c in table.columns
    ]
    return pl.DataFrame(rows, schema=[show.name for show in _SHOWN], orient="row")


def _whereabouts(table: Table) -> list[str]:
    """Where the table is found, and what may follow its columns."""
    name = table.name
    python = f"In Python: {_IN_PYTHON.get(name, f'`scores.{name}`')}"
    if name not in results.TABLES:
        said = [f"{python}. {_ELSEWHERE.get(name, '')}".rstrip()]
    else:
        file = f"{name}/set=<set>/part-00000.parquet" if name in PARTITIONED else f"{name}.parquet"
        said = [f"In a result folder: `{file}`. {python}. In SQL: `{name}`."]
    if table.open_ended:
        said.append("Further fields of the source's rows follow as columns of their own type (operator, session, ...).")
    return said


def _markdown(table: Table) -> str:
    parts = [
        f"# {table.name}",
        f"A row is {table.row}.",
        f"Key: {', '.join(f'`{name}`' for name in table.key)}.",
        *_whereabouts(table),
        render(_columns(table), format="markdown", columns=_SHOWN),
    ]
    return "\n\n".join(parts)


def _index() -> str:
    options = pl.DataFrame(Settings.described(), schema=["Option", "Default", "Meaning"], orient="row")
    files = "\n".join(f"- [{name}]({name}.schema.json): {what}" for name, what in _FILES.items())
    tables = "\n".join(f"- [{table.name}]({table.name}.md): {table.row}" for table in TABLES.values())
    return f"""# Files and tables

Written by `mabpl schema --write data_schema` from the code that reads and writes them; not edited by hand.

## The way of the data

Labels and prediction files are read line by line into `clips`, `segments` and `runs`; whatever is wrong with a line
becomes a row of `problems`. Each metric matches the predicted and human segments of a clip one to one (`matches`;
`pairs` are all those that overlap), the numbers of matches make `clip_scores`, and these add up to `set_scores`.
Columns with the same name mean the same in every table, and join. Times are seconds from the start of the clip, scores
are percent, and neither is rounded; "no match" is a row that is not there.

## Files

{files}

## Tables

{tables}

Types are those of polars; parquet files hold the same. Schema version {SCHEMA_VERSION}: each parquet file of a result
folder carries `mabpl_table` and `mabpl_schema_version` in its metadata, and the folder's `{MANIFEST}` holds the
version, the settings, and name and SHA-256 of the inputs.

## Settings

The readings of the metrics that can be chosen; every result records them all.

{render(options, format="markdown")}"""
