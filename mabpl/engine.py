"""Chooses between the kernels as they stand and compiled by numba.

Small jobs never import numba. Compiled kernels give the same integers as plain ones.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

NUMBA_FROM = 20_000
"""Predicted segments from which loading compiled kernels from numba's cache is cheaper than running plain ones."""

COMPILE_FROM = 100_000
"""The same where the cache is empty and they must be compiled first."""

FILES = {
    "match_timelines": "timelines",
    "match_rows": "timelines",
    "match_events": "events",
    "hold_rows": "rows",
    "find_rows": "rows",
}
"""The file of `mabpl.kernels` that each kernel is in."""

_COMPILED = "mabpl._compiled_kernels"
_LOADING = threading.Lock()


def plain_kernels(kernel: str = "match_timelines") -> ModuleType:
    """The file of ``kernel`` as it stands; its kernels take lists as well as arrays."""
    return importlib.import_module(f"mabpl.kernels.{FILES[kernel]}")


def compiled_kernels(kernel: str = "match_timelines") -> ModuleType:
    """The file of ``kernel`` compiled by numba: from its cache where there is one, else compiled for this process."""
    return _compiled_file(FILES[kernel])


def are_plain(kernels: ModuleType) -> bool:
    return not kernels.__name__.startswith(_COMPILED)


def _compiled_file(file: str) -> ModuleType:
    with _LOADING:
        if (name := f"{_COMPILED}_{file}") in sys.modules:
            return sys.modules[name]
        import numba

        _keep_memory()
        try:
            return _load(file, functools.partial(numba.njit, cache=True))
        except RuntimeError:  # neither the installation nor the user's cache can be written
            return _load(file, numba.njit)


def _keep_memory() -> None:
    """Has glibc keep what large arrays leave for the next ones, where it would give it back to the system each time.

    It does so for arrays up to the size of the largest that was ever freed, of 32 MB at most (mallopt(3)).
    """
    np.empty(31 << 20, np.uint8)


def _load(file: str, njit: Callable[..., Any]) -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        f"{_COMPILED}_{file}", Path(__file__).parent / "kernels" / f"{file}.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    jit = functools.partial(njit, nogil=True, error_model="numpy")
    # Counting references to arrays takes a sixth of the time, and only what allocates needs it.
    module.__dict__.update(jit=functools.partial(jit, _nrt=False), jit_with_memory=jit)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    for kernel in (name for name, of in FILES.items() if of == file):
        setattr(module, kernel, _Kernel(getattr(module, kernel)))
    return module


class _Kernel:
    """A compiled kernel that is read from numba's cache without what numba needs to compile.

    numba first makes all functions known that it can compile, which takes ten times as long as reading the kernel.
    """

    def __init__(self, dispatcher: Any) -> None:
        self.dispatcher = dispatcher

    def __call__(self, *arguments: Any) -> Any:
        if not self.dispatcher.signatures:
            with _LOADING, contextlib.suppress(Exception):  # numba's own way is still open
                self._read(arguments)
        return self.dispatcher(*arguments)

    def _read(self, arguments: tuple[Any, ...]) -> None:
        from numba.core.compiler_lock import global_compiler_lock
        from numba.core.runtime.nrt import rtsys

        kernel = self.dispatcher
        with global_compiler_lock:
            if kernel.signatures:
                return
            rtsys.initialize(kernel.targetctx)
            types = tuple(kernel.typeof_pyval(argument) for argument in arguments)
            found = kernel._cache._load_overload(types, kernel.targetctx)
            if found is not None:
                kernel.targetctx.insert_user_function(found.entry_point, found.fndesc, [found.library])
                kernel.add_overload(found)


def kernels_for(segments: int, kernel: str = "match_timelines") -> ModuleType:
    """The faster kernels for this many predicted segments (or mentions), where ``kernel`` is what is called."""
    if segments < NUMBA_FROM and f"{_COMPILED}_{FILES[kernel]}" not in sys.modules:
        return plain_kernels(kernel)
    module = compiled_kernels(kernel)
    if _is_ready(module, kernel):
        return module
    if segments < COMPILE_FROM:
        return plain_kernels(kernel)
    with _LOADING:  # of several threads one tells
        _tell_of_compiling()
    return module


@functools.cache
def _tell_of_compiling() -> None:
    print("mabpl: compiling the matching kernels, once (some seconds)", file=sys.stderr)


def _is_ready(module: ModuleType, name: str) -> bool:
    """Whether the kernel is compiled in this process or lies in numba's cache."""
    kernel = getattr(module, name).dispatcher
    if kernel.signatures:
        return True
    folder = kernel.stats.cache_path
    return folder is not None and any(Path(folder).glob(f"{FILES[name]}.{name}-*.nbi"))


def read_only(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Frames give read-only arrays where they need no copy; with all alike, numba compiles a kernel once."""
    view = values.view()
    view.flags.writeable = False
    return view


def default_threads() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
