"""ely-eye: memory queries whose gold is a region of a source, held against what a system returned."""

from __future__ import annotations

from mabpl.benchmarks.ely_eye.atoms import Atoms as Atoms
from mabpl.benchmarks.ely_eye.atoms import read_atoms as read_atoms
from mabpl.benchmarks.ely_eye.compare import compare as compare
from mabpl.benchmarks.ely_eye.options import ElyOptions as ElyOptions
from mabpl.benchmarks.ely_eye.reading import Benchmark as Benchmark
from mabpl.benchmarks.ely_eye.reading import read_benchmark as read_benchmark
from mabpl.benchmarks.ely_eye.resolve import resolve as resolve
from mabpl.benchmarks.ely_eye.results import load_result as load_result
from mabpl.benchmarks.ely_eye.scoring import ElyScores as ElyScores
from mabpl.benchmarks.ely_eye.scoring import gather as gather
from mabpl.benchmarks.ely_eye.scoring import score as score
