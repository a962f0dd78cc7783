"""mabpl scores timed, labelled action timelines of work video against human annotation.

The public face; every name is imported when it is first used, so that ``import mabpl`` stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = "mabpl.benchmarks.micro_annotation."
_FACE = {
    "Dataset": _HOME + "dataset",
    "Judging": _HOME + "judging",
    "Labels": _HOME + "reading",
    "Predictions": _HOME + "reading",
    "Scores": _HOME + "scores",
    "Settings": "mabpl.settings",
    "MabplError": "mabpl.errors",
    "connect": _HOME + "sql",
    "load_result": _HOME + "results",
    "load_tournament": "mabpl.tournament.running",
    "open_benchmark": _HOME + "dataset",
    "read_labels": _HOME + "reading",
    "read_predictions": _HOME + "reading",
    "run_tournament": "mabpl.tournament.running",
    "score": _HOME + "scoring",
    "score_parquet": _HOME + "out_of_core",
    "segment_f1": _HOME + "scoring",
    "summarise": "mabpl.metrics.summary",
    "validate": _HOME + "checks",
}

__all__ = [*sorted(_FACE), "__version__"]

if TYPE_CHECKING:
    from mabpl.benchmarks.micro_annotation.checks import validate as validate
    from mabpl.benchmarks.micro_annotation.dataset import Dataset as Dataset
    from mabpl.benchmarks.micro_annotation.dataset import open_benchmark as open_benchmark
    from mabpl.benchmarks.micro_annotation.judging import Judging as Judging
    from mabpl.benchmarks.micro_annotation.out_of_core import score_parquet as score_parquet
    from mabpl.benchmarks.micro_annotation.reading import Labels as Labels
    from mabpl.benchmarks.micro_annotation.reading import Predictions as Predictions
    from mabpl.benchmarks.micro_annotation.reading import read_labels as read_labels
    from mabpl.benchmarks.micro_annotation.reading import read_predictions as read_predictions
    from mabpl.benchmarks.micro_annotation.results import load_result as load_result
    from mabpl.benchmarks.micro_annotation.scores import Scores as Scores
    from mabpl.benchmarks.micro_annotation.scoring import score as score
    from mabpl.benchmarks.micro_annotation.scoring import segment_f1 as segment_f1
    from mabpl.benchmarks.micro_annotation.sql import connect as connect
    from mabpl.errors import MabplError as MabplError
    from mabpl.metrics.summary import summarise as summarise
    from mabpl.settings import Settings as Settings
    from mabpl.tournament.running import load_tournament as load_tournament
    from mabpl.tournament.running import run_tournament as run_tournament


def __getattr__(name: str) -> Any:
    if name not in _FACE:
        raise AttributeError(f"module 'mabpl' has no attribute {name!r}")
    value = getattr(import_module(_FACE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_FACE})
