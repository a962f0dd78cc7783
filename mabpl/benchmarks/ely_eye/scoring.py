"""From a benchmark's folder, the atoms of a system and its runs to scores, with all that a report must state."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

import mabpl
from mabpl.benchmarks.ely_eye.adding_up import SLICES, add_up
from mabpl.benchmarks.ely_eye.atoms import Atoms, read_atoms
from mabpl.benchmarks.ely_eye.options import ElyOptions
from mabpl.benchmarks.ely_eye.queries import described
from mabpl.benchmarks.ely_eye.query_scores import score_queries
from mabpl.benchmarks.ely_eye.reading import Benchmark, Split, read_benchmark
from mabpl.benchmarks.ely_eye.resolve import resolve
from mabpl.benchmarks.ely_eye.runs import Runs, check_runs, read_runs
from mabpl.errors import UsageError
from mabpl.reading.problems import merge_problems, require_valid


@dataclass(frozen=True)
class ElyScores:
    """``queries``: `ely_query_scores`; ``scores``: `ely_scores`. ``facts``: what a report must state beside them:
    split, counts of queries, options, and the SHA-256 of manifests, sets, indexes, atoms and runs."""

    queries: pl.DataFrame
    scores: pl.DataFrame
    options: ElyOptions
    facts: dict[str, Any]

    @property
    def runs(self) -> list[str]:
        return sorted(run["run"] for run in self.facts["runs"])

    @property
    def split(self) -> str:
        return str(self.facts["split"])

    @property
    def partial(self) -> bool:
        return bool(self.facts["partial"])

    def views(self) -> dict[str, pl.DataFrame]:
        """The tables for `mabpl.connect`."""
        return {"ely_query_scores": self.queries, "ely_scores": self.scores}

    def failures(self) -> list[str]:
        """A line per gate that does not hold."""
        rows = self.scores.filter(pl.col("passed").eq(False))
        return [
            f"{row['run']}, {row['value_of_slice'] or 'all'}: {row['metric']} {row['value']:.4f} does not keep "
            f"{row['gate']:g} (n {row['n']:,}, denominator {row['divided_by']:,})"
            for row in rows.iter_rows(named=True)
        ]


@dataclass(frozen=True)
class Inputs:
    """``queries``: those of the split that are not void. ``problems``: of all files, warnings too."""

    benchmark: Benchmark
    atoms: Atoms
    runs: Runs
    queries: pl.DataFrame
    split: Split
    problems: pl.DataFrame


def gather(
    root: str | os.PathLike[str],
    atoms: str | os.PathLike[str],
    runs: Iterable[str | os.PathLike[str]],
    options: ElyOptions,
    split: Split = "dev",
) -> Inputs:
    """Reads and checks everything. Raises :class:`UsageError` where the split holds no query that counts."""
    benchmark = read_benchmark(root)
    held = read_atoms(atoms, benchmark.sources)
    wanted = benchmark.queries.filter(~pl.col("void"), split=split)
    found = check_runs(read_runs(runs), benchmark.queries, wanted, held.atoms, options)
    if wanted.is_empty() and benchmark.problems.filter(severity="error").is_empty():
        raise UsageError(f"{os.fspath(root)}: no query of the split {split} counts", "give --split dev or test")
    problems = merge_problems(benchmark.problems, held.problems, found.problems)
    return Inputs(benchmark, held, found, wanted, split, problems)


def score(inputs: Inputs, options: ElyOptions, *, by: Sequence[str] = SLICES, ci: float | None = 0.95) -> ElyScores:
    """Scores every run. Raises :class:`~mabpl.errors.InvalidTimelines` where a file has an error."""
    require_valid(inputs.problems, "mabpl ely score --check")
    benchmark, atoms = inputs.benchmark, inputs.atoms.atoms
    gold = benchmark.gold.join(inputs.queries, on="query_id", how="semi")
    queries = score_queries(
        described(inputs.queries, gold, benchmark.sources), gold, benchmark.sources, atoms,
        resolve(gold, atoms, benchmark.sources, benchmark.symbols), inputs.runs.returned, inputs.runs.latencies,
        options.tau,
    )  # fmt: skip
    return ElyScores(queries, add_up(queries, options, by=by, ci=ci), options, _facts(inputs, options))


def _facts(inputs: Inputs, options: ElyOptions) -> dict[str, Any]:
    benchmark, every = inputs.benchmark, inputs.benchmark.queries
    unanswerable = int(inputs.queries["unanswerable"].sum())
    strong = inputs.runs.returned.select(
        flagged=pl.col("strong").is_not_null().sum(), scored=pl.col("score").is_not_null().sum(), atoms=pl.len()
    )
    return {
        "mabpl": mabpl.__version__,
        "split": inputs.split,
        "partial": inputs.runs.partial,
        "queries": {
            "scored": inputs.queries.height,
            "answerable": inputs.queries.height - unanswerable,
            "unanswerable": unanswerable,
            "holders": inputs.queries["holder"].n_unique(),
            "void": int(every["void"].sum()),
            "other_split": every.filter(~pl.col("void"), pl.col("split") != inputs.split).height,
        },
        "returned": {name: int(strong[name].item()) for name in strong.columns},
        "options": options.as_dict(),
        "sha256": benchmark.digests(),
        "atoms": {"file": os.path.basename(inputs.atoms.file), "sha256": inputs.atoms.sha256},  # noqa: PTH119
        "runs": [
            {"run": s.run, "file": os.path.basename(s.file), "sha256": s.sha256}  # noqa: PTH119
            for s in sorted(inputs.runs.sources, key=lambda s: s.run)
        ],
    }
