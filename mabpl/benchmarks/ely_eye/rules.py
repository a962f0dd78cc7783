"""Every rule of ely-eye's annotation schema that a file can break."""

from __future__ import annotations

from mabpl.reading.problems import LINE_RULES, Problem, Rule, problem_of

_INDEX = "give the source in a corpus index, as the gold and the atoms name it"

RULES: dict[str, Rule] = {
    **LINE_RULES,
    "line-too-long": Rule("error", "write one entry a line"),
    "unknown-field": Rule("warning", "it is not read; is the name of a field misspelt?"),
    "no-row": Rule("error", "remove the file, or write one entry a line"),
    "unknown-content": Rule("error", "rows of a set have a query_id, those of an index a source_id"),
    "no-zone": Rule("error", "write the time with its zone: 2024-01-01T00:00:00+00:00"),
    "time-value": Rule("error", "write the time as ISO 8601: 2024-01-01T00:00:00+00:00"),
    "as-of-twice": Rule("error", "give as_of once, beside scope"),
    "duplicate-query": Rule("error", "give each query once; ids are unique across sets"),
    "duplicate-source": Rule("error", "give each source once; ids are unique across indexes"),
    "answer-unanswerable": Rule("error", "the answer is null exactly where unanswerable is true"),
    "answer-format": Rule("error", "name the format that the answer has; none goes with null alone"),
    "missing-gold": Rule("error", "give the source and region that hold the answer, or mark the query unanswerable"),
    "gold-on-unanswerable": Rule("error", "an unanswerable query has an empty gold list"),
    "gold-atom-id": Rule("error", "gold is a source and a region: atoms change with how a system cuts its sources"),
    "duplicate-gold": Rule("warning", "give each region once: recall would count it twice"),
    "region-keys": Rule("error", "give exactly the keys of the region of this modality"),
    "region-value": Rule("error", "give a region that can be there"),
    "unknown-source": Rule("error", _INDEX),
    "modality-mismatch": Rule("error", "the query's modality is that of its gold sources"),
    "holder-mismatch": Rule("error", "a query's gold is its own holder's: another's memory must not leak"),
    "gold-after-as-of": Rule("error", "what is observed after as_of cannot be known when the query is asked"),
    "unknown-observed-at": Rule("warning", "give observed_at in the index, or the time rule cannot be checked"),
    "outside-source": Rule("warning", "correct region or index: pages and lines from 1, blocks and turns from 0"),
    "gold-spans-source": Rule("warning", "gold is a region: a whole-source atom would earn full marks"),
    "unanswerable-share": Rule("error", "at least 15% of the queries are unanswerable"),
    "unknown-revision": Rule("warning", "the entry is void and left out; name the revision in corpus/manifest.jsonl"),
    "own-annotation": Rule("error", "gold comes from people of a third party, never from a model or the system itself"),
    "sha256-value": Rule("error", "write the SHA-256 as 64 hex digits"),
    "no-files": Rule("error", "list the files that came from this url"),
    "path-outside": Rule("error", "name files below the benchmark's folder, with forward slashes"),
    "digest-drift": Rule("error", "restore the file, or freeze the set anew and report it as another"),
    "digest-conflict": Rule("error", "freeze each file with one digest"),
    "file-missing": Rule("error", "put the file back, or freeze the set anew and report it as another"),
    "not-frozen": Rule("error", "list the file with its SHA-256 in the manifest of sets"),
    "not-checked": Rule("warning", "its digest could not be recomputed here"),
    "no-manifest": Rule("error", "freeze the files: a manifest with each one's SHA-256"),
    "no-sets": Rule("error", "put the sets into sets/*.jsonl"),
    "no-index": Rule("error", _INDEX),
    "duplicate-atom": Rule("error", "give each atom once"),
    "unknown-query": Rule("error", "remove the line, or score against the benchmark that holds the query"),
    "missing-query": Rule("error", "add the query, or score with --missing empty (nothing returned) or skip"),
    "unknown-atom": Rule("error", "score with the atoms file of the system that made the run"),
    "repeated-atom": Rule("warning", "return each atom once: the first place counts"),
    "observed-before-source": Rule("error", "nothing of a source can be observed before the source is"),
}  # fmt: skip
"""Rule → severity and hint. ``unanswerable-share`` is a warning for a file and an error over all, ``file-missing`` a
warning for files of the corpus, which need not be distributed."""


def problem(
    rule: str, file: str, line: int | None, message: str, *, of: str | None = None, field: str | None = None,
    hint: str = "",
) -> Problem:  # fmt: skip
    """A breach of ``rule``; ``of``: the query, source or atom of the line."""
    return problem_of(RULES, rule, file, line, message, clip_id=of, field=field, hint=hint)
