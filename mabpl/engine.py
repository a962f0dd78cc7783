"""Chooses between the kernels as they stand and compiled by numba.

Small jobs never import numba. Compiled kernels give the same integers as plain ones.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

NUMBA_FROM = 20_000
"""Predicted segments from which loading compiled kernels from numba's cache is cheaper than running plain ones."""

COMPILE_FROM = 100_000
"""The same where the cache is empty and they must be compiled first."""

_COMPILED = "mabpl._compiled_kernels"


def plain_kernels() -> ModuleType:
    """The kernels as they stand; they take lists as well as arrays."""
    import mabpl.kernels

    return mabpl.kernels


@functools.cache
def compiled_kernels() -> ModuleType:
    """The kernels compiled by numba: from its cache where there is one, else compiled for this process."""
    import numba

    try:
        return _load(functools.partial(numba.njit, cache=True))
    except RuntimeError:  # neither the installation nor the user's cache can be written
        return _load(numba.njit)


def _load(njit: Callable[..., Any]) -> ModuleType:
    source = Path(__file__).with_name("kernels.py")
    spec = importlib.util.spec_from_file_location(_COMPILED, source)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    jit = functools.partial(njit, nogil=True, error_model="numpy")
    # Counting references to arrays takes a sixth of the time, and only what allocates needs it.
    module.__dict__.update(jit=functools.partial(jit, _nrt=False), jit_with_memory=jit)
    sys.modules[_COMPILED] = module
    spec.loader.exec_module(module)
    return module


def kernels_for(segments: int, kernel: str = "match_timelines") -> ModuleType:
    """The faster kernels for this many predicted segments (or mentions), where ``kernel`` is what is called."""
    if segments < NUMBA_FROM and _COMPILED not in sys.modules:
        return plain_kernels()
    module = compiled_kernels()
    if _is_ready(module, kernel):
        return module
    if segments < COMPILE_FROM:
        return plain_kernels()
    print("mabpl: compiling the matching kernels, once (some seconds)", file=sys.stderr)
    return module


def _is_ready(module: ModuleType, name: str) -> bool:
    """Whether the kernel is compiled in this process or lies in numba's cache."""
    kernel = getattr(module, name)
    if kernel.signatures:
        return True
    folder = kernel.stats.cache_path
    return folder is not None and any(Path(folder).glob(f"kernels.{name}-*.nbi"))


def default_threads() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
