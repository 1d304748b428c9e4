"""Byte planes: the first bytes of all numbers of an array, then the second ones, and so on.

Signs and exponents of neighbours are alike, so the last planes of floats shrink to a fraction; the
first ones are noise and are left alone, which keeps reading fast. Whole numbers are taken as
differences from the row before: ids rise by one. docs/decisions/0003-cache-format.md
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

SMALLEST = 4096  # bytes; an array below that is stored as it is: zip entries take 300 each
_SAMPLE, _SAMPLES = 4096, 4  # bytes, and places in a plane, that are tried first
_WORTH = 0.85  # of its size to which a plane must shrink


def split(array: NDArray[Any]) -> Iterator[NDArray[np.uint8]]:
    """Planes of the array's shape, lowest byte first."""
    if array.dtype.kind in "iu":
        array = np.concatenate([array[:1], array[1:] - array[:-1]])
    pieces = array.reshape(-1).view(np.uint8).reshape(*array.shape, array.dtype.itemsize)
    for k in range(array.dtype.itemsize):
        yield np.ascontiguousarray(pieces[..., k])


def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[np.uint8]:
    """Room for planes along the last axis."""
    return np.empty((*shape, dtype.itemsize), np.uint8)


def join(planes: NDArray[np.uint8], dtype: np.dtype[Any]) -> NDArray[Any]:
    """The array of which `split` made these."""
    array: NDArray[Any] = planes.view(dtype)[..., 0]
    if dtype.kind in "iu":
        array = np.cumsum(array, axis=0, dtype=dtype)
    return array


def shrinks(plane: NDArray[np.uint8]) -> bool:
    """Whether compressing a plane is worth it, from a few places in it."""
    flat = plane.reshape(-1)
    last = len(flat) - _SAMPLE
    starts = [0] if last <= 0 else [last * k // (_SAMPLES - 1) for k in range(_SAMPLES)]
    some = b"".join(flat[start : start + _SAMPLE].tobytes() for start in starts)
    return len(zlib.compress(some, 1)) < _WORTH * len(some)
