"""Neighbours of particles of any kernel radii in an unbounded, sparse grid.

Cells are cubes of the largest kernel radius. Particles are sorted by the Z-index of
their cell; a cell is a range of them, and only occupied cells are stored, so memory
follows particles and not extent.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...errors import SimulationError
from .compile import double, parallel, prange
from .zindex import BIAS, decode, encode

Array = NDArray[np.float32] | NDArray[np.float64]
Keys = NDArray[np.uint64]
Offsets = NDArray[np.int64]
Indices = NDArray[np.int32]


ROOM = 63  # neighbours of a particle, up to which one search does; the lattice has 26


class Neighbors(NamedTuple):
    """Neighbours of particle i: items[start[i]:start[i + 1]], without i itself."""

    start: Offsets
    items: Indices


def cell_keys(x: Array, cell_size: float, ids: NDArray[np.uint32] | None = None) -> Keys:
    """Z-index of each particle's cell; SimulationError if it has none."""
    cells = np.floor(np.asarray(x, np.float64) / cell_size)
    outside = ~((cells >= -BIAS) & (cells < BIAS)).all(axis=1)  # also true of NaN
    if outside.any():
        first = int(np.flatnonzero(outside)[0])
        place = ", ".join(f"{value:g}" for value in x[first])
        raise SimulationError(
            f"A particle is at ({place}) m, outside of the {2 * BIAS} cells of {cell_size:g} m "
            f"per axis ({int(outside.sum())} in all). Use a smaller time step or more iterations "
            "if the scene exploded; limit the domain if it is that large.",
            particle=None if ids is None else int(ids[first]),
        )
    return encode_cells(cells.astype(np.int64))


@parallel
def encode_cells(cells: Offsets) -> Keys:
    keys = np.empty(len(cells), np.uint64)
    for i in prange(len(cells)):
        keys[i] = encode(cells[i, 0], cells[i, 1], cells[i, 2])
    return keys


def find_neighbors(keys: Keys, x: Array, h: Array) -> Neighbors:
    """All j != i with |x_ij| < max(h_i, h_j). `keys` are sorted, of cells of the largest h."""
    n = len(keys)
    if n == 0:
        return Neighbors(np.zeros(1, np.int64), np.zeros(0, np.int32))
    firsts = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
    bounds = np.append(firsts, n)  # the last cell ends with the particles (trap T8)
    around = adjacent_cells(keys[firsts])
    start = np.zeros(n + 1, np.int64)
    counts, first = count_pairs(bounds, around, x, h)
    np.cumsum(counts, out=start[1:])
    if counts.max() <= ROOM:
        return Neighbors(start, pack_pairs(start, first))
    return Neighbors(start, list_pairs(bounds, around, x, h, start))


@parallel
def adjacent_cells(cells: Keys) -> Indices:
    """For each occupied cell the 27 around it and itself, as indices of `cells`; -1 if empty."""
    around = np.empty((len(cells), 27), np.int32)
    for c in prange(len(cells)):
        x, y, z = decode(cells[c])
        for k in range(27):
            u, v, w = x + k % 3 - 1, y + k // 3 % 3 - 1, z + k // 9 - 1
            around[c, k] = -1
            if min(u, v, w) < -BIAS or max(u, v, w) >= BIAS:
                continue
            key = encode(u, v, w)
            low, high = 0, len(cells)
            while low < high:
                middle = (low + high) // 2
                if cells[middle] < key:
                    low = middle + 1
                else:
                    high = middle
            if low < len(cells) and cells[low] == key:
                around[c, k] = low
    return around


@parallel
def count_pairs(bounds: Offsets, around: Indices, x: Array, h: Array) -> tuple[Offsets, Indices]:
    """Number of neighbours of each particle, and the first ROOM of them."""
    counts = np.empty(len(x), np.int64)
    first = np.empty((len(x), ROOM + 1), np.int32)  # written without a branch: one to spare
    for c in prange(len(around)):
        for i in range(bounds[c], bounds[c + 1]):
            x0, x1, x2 = double(x[i, 0]), double(x[i, 1]), double(x[i, 2])
            found = 0
            for k in range(27):
                if around[c, k] < 0:
                    continue
                for j in range(bounds[around[c, k]], bounds[around[c, k] + 1]):
                    d0, d1, d2 = x0 - x[j, 0], x1 - x[j, 1], x2 - x[j, 2]
                    reach = double(max(h[i], h[j]))
                    first[i, min(found, ROOM)] = j
                    found += j != i and d0 * d0 + d1 * d1 + d2 * d2 < reach * reach
            counts[i] = found
    return counts, first


@parallel
def pack_pairs(start: Offsets, first: Indices) -> Indices:
    items = np.empty(start[-1], np.int32)
    for i in prange(len(first)):
        for k in range(start[i + 1] - start[i]):
            items[start[i] + k] = first[i, k]
    return items


@parallel
def list_pairs(bounds: Offsets, around: Indices, x: Array, h: Array, start: Offsets) -> Indices:
    """All neighbours, where some particle has more than ROOM."""
    items = np.empty(start[-1], np.int32)
    for c in prange(len(around)):
        for i in range(bounds[c], bounds[c + 1]):
            x0, x1, x2 = double(x[i, 0]), double(x[i, 1]), double(x[i, 2])
            place = start[i]
            for k in range(27):
                if around[c, k] < 0:
                    continue
                for j in range(bounds[around[c, k]], bounds[around[c, k] + 1]):
                    d0, d1, d2 = x0 - x[j, 0], x1 - x[j, 1], x2 - x[j, 2]
                    reach = double(max(h[i], h[j]))
                    if j != i and d0 * d0 + d1 * d1 + d2 * d2 < reach * reach:
                        items[place] = j
                        place += 1
    return items
