"""The checklist of a submission as a Markdown page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import polars as pl

from mabpl.report.results import ALL_SETS, TITLES
from mabpl.report.tables import Show, render


def page(document: dict[str, Any]) -> str:
    """``document`` (`submission.json`) to read: metrics, how they were made, what is missing, and the files."""
    blocks = [f"# Submission\n\n{_metrics(document)}", _two("Checklist", "Item", "Value", _items(document))]
    for title, heading in (("missing", "Missing"), ("warnings", "Warnings")):
        if document[title]:
            blocks.append(render(pl.DataFrame({heading: document[title]}), format="markdown", title=heading))
    blocks.append(_two("Files", "File", "SHA-256", document["files"].items()))
    return "\n".join(blocks)


def _metrics(document: dict[str, Any]) -> str:
    whole = {ALL_SETS: document["combined"]} if document["combined"] else {}
    rows = [
        {
            "set": name,
            "clips": values["clips"],
            "runs": values["runs"],
            **{metric: values[metric]["mean"] for metric in TITLES},
            **{f"{metric}_sd": values[metric]["sd"] for metric in TITLES},
        }
        for name, values in {**document["sets"], **whole}.items()
    ]
    floats = {f"{metric}{suffix}": pl.Float64 for metric in TITLES for suffix in ("", "_sd")}
    frame = pl.DataFrame(rows, schema={"set": pl.String, "clips": pl.Int64, "runs": pl.Int64, **floats})
    shows = [Show("set", "Set"), Show("clips", "Clips", "count"), Show("runs", "Generation seeds", "count")]
    shows += [Show(metric, long, "sd") for metric, (long, _) in TITLES.items()]
    notes = ["Mean over generation seeds, ± the standard deviation between them."]
    return render(frame, format="markdown", columns=shows, title="Results", notes=notes)


def _items(document: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "Configuration", str(document["configuration"])
    yield "Generation seeds", _seeds(document["runs"], document["generation_seeds"])
    for kind, title in (("pa", "Label judge (PA)"), ("joint", "Joint judge")):
        for judge in document["judges"][kind] or [{}]:
            yield title, f"{judge['judge']}, route {judge['route']}" if judge else "missing"
            if judge:
                yield f"{title}: judge seeds", _seeds(judge["number_of_judge_seeds"], judge["judge_seeds"])
                yield f"{title}: request", _text(judge["body"])
                yield f"{title}: prompts", _prompts(judge["prompts"])
    for settings in document["settings"]:
        yield "Scoring settings", _text(settings)
    for run in document["produced"]:
        yield "Model", f"{run['model']}, route {run['route']}"
        published = " (as published)" if run["prompt_as_published"] else ""
        yield "Prompt", _text(run["prompt"]) + published
        yield "Input format", _text(run["input"])
        yield "Sampling settings", _text(run["sampling"])
        yield "Answers read", _text(run["parse_mode"])
    if document["produced_by"]:
        yield "How the timelines were produced", document["produced_by"]
    yield "mabpl", document["mabpl"]


def _seeds(count: int, seeds: Any) -> str:
    return f"{count} ({', '.join(map(str, seeds))})" if seeds and isinstance(seeds, list) else str(count)


def _prompts(prompts: dict[str, Any]) -> str:
    """Name, source and the start of the SHA-256 of each file."""
    shown = [
        f"{name} ({value.get('source')}, {str(value.get('sha256'))[:12]})"
        for name, value in prompts.items()
        if isinstance(value, dict)
    ]
    return ", ".join(shown) or "not stated"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _two(title: str, left: str, right: str, rows: Any) -> str:
    frame = pl.DataFrame(list(rows), schema={left: pl.String, right: pl.String}, orient="row")
    return render(frame, format="markdown", title=title)
