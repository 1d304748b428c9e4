"""Compilation by numba, cached on disk.

numba looks only at the file of a cached function, not at the functions it calls.
Here every cache entry carries the state of the whole package, so that an edit of
any of its files compiles anew instead of running what is no longer written.

Entry points are `parallel`: a loop over particles, each gathering into its own
row, so that results do not depend on the number of threads. What they call is
`inline`. Not for two Python threads at a time: numba's plainest threading layer
(macOS) stops the process.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba.core.options import DefaultOptions

F = TypeVar("F", bound=Callable[..., Any])

prange = numba.prange
# Conversions inside compiled functions; numpy's own annotations do not mix with float and int.
double = cast(Callable[[Any], float], np.float64)
int64 = cast(Callable[[Any], int], np.int64)
uint32 = cast(Callable[[Any], int], np.uint32)
uint64 = cast(Callable[[Any], int], np.uint64)


def _package_stamp() -> tuple[tuple[str, int, int], ...]:
    here = Path(__file__).parent
    # With the files that constants come from: they are compiled in.
    constants = [here.parent / "base.py", here.parents[1] / "solver" / "calibration.py"]
    bodies = here.parents[1] / "bodies"  # its functions call those here
    files = [*sorted(here.glob("*.py")), *sorted(bodies.glob("*.py")), *constants]
    return tuple((f.name, f.stat().st_mtime_ns, f.stat().st_size) for f in files)


_STAMP = _package_stamp()


# "contract": a * b + c in one instruction where there is one. Nothing else is reordered.
_OPTIONS: dict[str, Any] = {"error_model": "numpy", "fastmath": {"contract"}}
# An array that is handed on is counted, even where the call is inlined: two dozen atomic additions
# for World, forty times the work of a box's distance. What makes no arrays can do without.
_UNCOUNTED: dict[str, Any] = {"_nrt": False} if hasattr(DefaultOptions, "_nrt") else {}


def parallel(function: F) -> F:
    """Compile an entry point; `prange` in it runs on all threads."""
    return _entry(function, True)


def serial(function: F) -> F:
    """Compile an entry point for one thread."""
    return _entry(function, False)


def bare(function: F) -> F:
    """Compile an entry point for one thread; it can't make arrays."""
    return _entry(function, False, **_UNCOUNTED)


def _entry(function: F, threads: bool, **more: Any) -> F:
    options = {"parallel": threads, **_OPTIONS, **more}
    compiled = numba.njit(cache=True, **options)(function)
    # Not public, hence the guard: without it we would compile at each start.
    file = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
    if file is not None and hasattr(file, "_source_stamp"):
        file._source_stamp = _STAMP
        return cast(F, compiled)
    return cast(F, numba.njit(**options)(function))


def inline(function: F) -> F:
    """Compile a function for use inside entry points, inlined; it can't make arrays."""
    return cast(F, numba.njit(forceinline=True, **_UNCOUNTED, **_OPTIONS)(function))


def called(function: F) -> F:
    """Compile a function for use inside entry points that makes arrays, or is too long to be in
    each of them."""
    return cast(F, numba.njit(**_OPTIONS)(function))


def uncompiled(function: F) -> F:
    """The plain Python function behind a compiled one: for a call or two, not worth compiling."""
    return cast(F, getattr(function, "py_func", function))
