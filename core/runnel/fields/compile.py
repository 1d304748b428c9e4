"""Compilation by numba, cached on disk under the state of the whole package.

numba looks only at the file of a cached function, not at what it calls: every entry carries the
stamps of all files here. Parallel loops run over leaves, each writing rows of its own, so that
results do not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])

prange = numba.prange

_OPTIONS: dict[str, Any] = {"error_model": "numpy", "nogil": True}


def _package_stamp() -> tuple[tuple[str, int, int], ...]:
    files = sorted(Path(__file__).parent.glob("*.py"))
    return tuple((f.name, f.stat().st_mtime_ns, f.stat().st_size) for f in files)


_STAMP = _package_stamp()


def _entry(function: F, parallel: bool) -> F:
    try:
        compiled = numba.njit(parallel=parallel, cache=True, **_OPTIONS)(function)
    except RuntimeError:  # no place to keep it
        return cast(F, numba.njit(parallel=parallel, **_OPTIONS)(function))
    # Not public, hence the guard: without it we would compile at each start.
    file = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
    if file is not None and hasattr(file, "_source_stamp"):
        file._source_stamp = _STAMP
        return cast(F, compiled)
    return cast(F, numba.njit(parallel=parallel, **_OPTIONS)(function))


def parallel(function: F) -> F:
    """Compile an entry point; `prange` in it runs on all threads."""
    return _entry(function, True)


def serial(function: F) -> F:
    """Compile an entry point for one thread."""
    return _entry(function, False)


def part(function: F) -> F:
    """Compile a function that entry points call."""
    return cast(F, numba.njit(**_OPTIONS)(function))


def inline(function: F) -> F:
    """Compile a small function into its callers."""
    return cast(F, numba.njit(forceinline=True, **_OPTIONS)(function))
