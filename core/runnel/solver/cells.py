"""The coarse grid (coarse.py): cells that hold particles, their nodes, what lies beside them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
Singles = NDArray[np.float32]
Longs = NDArray[np.int64]
Numbers = NDArray[np.int32]
Table = tuple[Longs, Numbers]  # keys by their hash, the number of each
Function = TypeVar("Function", bound=Callable[..., Any])

BITS: Final = 21  # of a key, for each axis
LAST: Final = (1 << BITS) - 1
OPTIONS: Final[dict[str, Any]] = {"error_model": "numpy"}


def compiled(function: Function, threads: bool = False) -> Function:
    """Compiled at first use, kept on disk where that is possible."""
    try:
        return cast(Function, numba.njit(**OPTIONS, parallel=threads, cache=True)(function))
    except RuntimeError:  # no place to keep it
        return cast(Function, numba.njit(**OPTIONS, parallel=threads)(function))


def in_parallel(function: Function) -> Function:
    """The same; `prange` in it runs on all threads, each writing rows of its own."""
    return compiled(function, True)


def number_cells(
    x: Singles, low: Doubles, inverse: float, flat: int
) -> tuple[Numbers, Longs, Table]:
    """Number of each particle's cell, in order of their first; keys of cells, a table of these."""
    places = _places(x, low, inverse, flat)
    element = np.empty(len(x), np.int32)
    room = max(64, len(x) // 16)
    while True:
        table = _table(room)
        keys = np.empty(room, np.int64)
        count = _number_cells(places, *table, keys, element)
        if count >= 0:
            return element, keys[:count], table
        room *= 4


def number_nodes(keys: Longs) -> tuple[Numbers, int]:
    """Numbers of the eight nodes of each cell, x fastest; how many nodes there are."""
    corners = np.empty((len(keys), 8), np.int32)
    return corners, int(_number_nodes(keys, *_table(8 * len(keys)), corners))


def _table(room: int) -> Table:
    """An empty hash table for `room` keys."""
    size = 1 << int(2 * room - 1).bit_length()
    return np.full(size, -1, np.int64), np.empty(size, np.int32)


@numba.njit(**OPTIONS)
def _slot(key: int, table: Longs) -> int:
    """Where a key is in the table, or would be."""
    mask = len(table) - 1
    at = ((key * 0x9E3779B97F4A7C1) >> 17) & mask
    while table[at] != key and table[at] >= 0:
        at = (at + 1) & mask
    return at


@numba.njit(**OPTIONS)
def _find(key: int, table: Longs, numbers: Numbers, count: int) -> int:
    """Number of a key; a new one gets `count`."""
    at = _slot(key, table)
    if table[at] < 0:
        table[at] = key
        numbers[at] = count
    return int(numbers[at])


@in_parallel
def _places(x: Singles, low: Doubles, inverse: float, flat: int) -> Longs:
    """Key of each particle's cell."""
    places = np.empty(len(x), np.int64)
    for i in numba.prange(len(x)):
        key = 0
        for k in range(3):
            c = 0 if k == flat else int((x[i, k] - low[k]) * inverse)
            key |= c << (BITS * k)
        places[i] = key
    return places


@compiled
def _number_cells(
    places: Longs, table: Longs, numbers: Numbers, keys: Longs, element: Numbers
) -> int:
    """How many cells there are; -1 if there is no room for all."""
    count, last, number = 0, -1, 0
    for i in range(len(places)):
        if places[i] != last:  # rows are sorted by place: mostly it is the same
            last = places[i]
            number = _find(last, table, numbers, count)
            if number == count:
                if count == len(keys):
                    return -1
                keys[count] = last
                count += 1
        element[i] = number
    return count


@compiled
def _number_nodes(keys: Longs, table: Longs, numbers: Numbers, corners: Numbers) -> int:
    count = 0
    for e in range(len(keys)):
        for corner in range(8):
            step = (corner & 1) | ((corner >> 1 & 1) << BITS) | ((corner >> 2) << (2 * BITS))
            number = _find(keys[e] + step, table, numbers, count)
            count += number == count
            corners[e, corner] = number
    return count


@compiled
def beside(keys: Longs, table: Longs, numbers: Numbers) -> Numbers:
    """Numbers of the cells before and after each along x, y, z; -1 where there is none."""
    found = np.full((len(keys), 6), -1, np.int32)
    for e in range(len(keys)):
        for way in range(6):
            shift = BITS * (way >> 1)
            if keys[e] >> shift & LAST == (LAST if way & 1 else 0):
                continue
            at = _slot(keys[e] + ((1 if way & 1 else -1) << shift), table)
            if table[at] >= 0:
                found[e, way] = numbers[at]
    return found
