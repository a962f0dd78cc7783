from __future__ import annotations

import click

from mabpl.cli.lazy import LazyGroup

COMMANDS = {
    "validate": "check sets, corpus indexes, manifests and digests, and a system's atoms",
    "resolve": "which of a system's atoms each gold region is",
    "score": "recall, MRR, nDCG, leaks and latencies of what systems returned, with gates",
    "compare": "two results: every change of a metric, with n and denominator on both sides",
}
"""Each is ``command`` of ``mabpl.cli.ely_<name>``."""


@click.group("ely", cls=LazyGroup, lazy=COMMANDS, prefix="mabpl.cli.ely_")
def command() -> None:
    """ely-eye's benchmark set: memory queries over documents, pictures, screens, videos, code and conversations."""
