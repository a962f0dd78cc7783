"""The data files that come with the package: a sample benchmark in miniature and the published figures."""

from __future__ import annotations

from pathlib import Path

from mabpl.errors import unknown_name

_HERE = Path(__file__).resolve().parent


def sample_folder() -> Path:
    """The sample benchmark: a MicroAnnotationBench dataset folder of ten invented clips, without video."""
    return _HERE / "sample"


def ely_sample_folder() -> Path:
    """A sample in the format of ely-eye's benchmark set: queries about an invented club's files, atoms, two runs."""
    return _HERE / "ely_sample"


def proact_sample_folder() -> Path:
    """A sample in the format of ProactEgoMem: two invented tracks (dev and test) and three submissions, no video."""
    return _HERE / "proact_sample"


def published(name: str) -> Path:
    """The CSV file of figures that MicroAnnotationBench published: ``configurations`` or ``tournament``.

    Raises :class:`~mabpl.errors.UsageError` for another name.
    """
    known = {path.stem: path for path in sorted((_HERE / "published").glob("*.csv"))}
    if name not in known:
        raise unknown_name("published table", name, list(known))
    return known[name]
