"""The same input gives the same bytes: for any number of threads, any order of files, lines and rows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import made
import pytest

import mabpl
from mabpl import engine
from mabpl.benchmarks.micro_annotation.inputs import Request, gather
from mabpl.benchmarks.micro_annotation.results import score_document
from mabpl.benchmarks.micro_annotation.scores import Scores
from mabpl.benchmarks.micro_annotation.scoring import score_files
from mabpl.settings import Settings
from mabpl.tables.files import to_json


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads are used with compiled kernels only, which so small a job would do without."""
    monkeypatch.setattr(engine, "kernels_for", lambda *_: engine.compiled_kernels())


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*.*")) if path.is_file()}


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("kind", ["frames", "parquet"])
def test_rows_in_any_order_and_any_number_of_threads(kind: str, tmp_path: Path) -> None:
    human, predicted = made.tables()
    written = []
    for threads in (1, 2, 8):
        for seed in (None, 3, 4):
            sides = [side if seed is None else made.shuffled(side, seed) for side in (human, predicted)]
            if kind == "parquet":
                for name, side in zip(("labels", "predictions"), sides, strict=True):
                    side.write_parquet(tmp_path / f"{name}.parquet", row_group_size=100)
                scores = mabpl.score(tmp_path / "labels.parquet", tmp_path / "predictions.parquet", threads=threads)
            else:
                scores = mabpl.score(*sides, threads=threads)
            scores.write_tables(tmp_path / "result")
            written.append({**contents(tmp_path / "result"), "audit": scores.audit.write_csv().encode()})
    assert len(written[0]) > 8
    assert all(again == written[0] for again in written[1:])


@pytest.mark.usefixtures("compiled")
def test_files_and_lines_in_any_order_and_any_number_of_threads(tmp_path: Path) -> None:
    """Positions in a file belong to its segments, so that lines may move but not the segments of a line.

    What tells the inputs apart (their SHA-256) is left out where lines moved.
    """
    human, predicted = made.tables()
    documents, tables = [], []
    for seed in (None, 5):
        root = tmp_path / f"root{seed}"
        made.write_dataset(root, human, predicted, seed)
        files = sorted(str(path) for path in root.glob("predictions/*/*.jsonl"))
        for threads, given in ((1, files), (2, files[::-1]), (8, files[3:] + files[:3])):
            scores = of_files(root, given, threads)
            texts = [to_json(score_document(scores, *unit)) for unit in scores.runs.select("run", "set").rows()]
            documents.append((seed, texts))
            scores.write_tables(tmp_path / "result")
            tables.append((seed, contents(tmp_path / "result")))
    for found in (documents, tables):
        for seed in (None, 5):
            same = [value for of, value in found if of == seed]
            assert same[0] == same[1] == same[2]
    assert [less_inputs(text) for text in documents[0][1]] == [less_inputs(text) for text in documents[3][1]]
    told_apart = {"manifest.json", "runs.parquet"}
    before, after = ({k: v for k, v in tables[i][1].items() if k not in told_apart} for i in (0, 3))
    assert before == after


def of_files(root: Path, files: list[str], threads: int) -> Scores:
    gathered = gather(Request(root=str(root), predictions=files), Settings())
    return score_files(gathered.labels, gathered.ready(Settings()), settings=Settings(), threads=threads)


def less_inputs(text: str) -> dict[str, object]:
    document = json.loads(text)
    document["provenance"].pop("inputs")
    document["provenance"].pop("digest")
    return document  # type: ignore[no-any-return]


def test_the_bootstrap_does_not_depend_on_the_threads_of_the_linear_algebra() -> None:
    code = """
import made, mabpl, polars as pl
human = made.segments(None, 1, {"a": 60, "b": 30})
runs = [made.segments(f"r{i % 3}_seed{i}", i, {"a": 60, "b": 30}) for i in range(12)]
scores = mabpl.score(human, pl.concat(runs))
for options in ({}, {"combine": True}, {"fold_seeds": True}):
    print(scores.summarise(ci=0.95, **options).write_csv())
"""
    said = [
        subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, cwd=Path(__file__).parent,
            env={**os.environ, "OPENBLAS_NUM_THREADS": threads},
        ).stdout
        for threads in ("1", "2")
    ]  # fmt: skip
    assert len(said[0]) > 5_000
    assert said[0] == said[1]
