"""Compilers for the previewer's kernels. numba is loaded only when a picture is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    """Compile on first use, and keep the result where a folder for it can be written.

    Kernels call none of another file: numba notices changes only in a kernel's own file.
    """
    try:
        return cast(Function, numba.njit(nogil=True, cache=True)(function))
    except RuntimeError:  # no place to keep it
        return cast(Function, numba.njit(nogil=True)(function))


def inlined(function: Function) -> Function:
    """Small part of a kernel. Inlining what takes named tuples of arrays halved shading time."""
    return cast(Function, numba.njit(nogil=True, inline="always")(function))


def spiral(count: int) -> NDArray[np.float64]:
    """Points (count, 2) spread evenly over the unit disc, by the golden angle."""
    k = np.arange(count)
    turn = np.stack([np.cos(2.399963 * k), np.sin(2.399963 * k)], axis=1)
    return np.asarray(np.sqrt((k + 0.5) / count)[:, None] * turn)
