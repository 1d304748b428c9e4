"""How far it is at least to the solid, also beyond the band: what is far is passed by at once.

The table is divided into cells of 2^3 voxels, 64 a tile. A cell that holds solid has clearance 0;
any other the distance between its box and that of the nearest cell that does, in quarters of a
voxel rounded down, up to 16 voxels. A point is at least that far from the surface.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from .compile import parallel, prange
from .grid import SparseField
from .sample import INSIDE_TILE

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int32]
Singles = NDArray[np.float32]

REACH = 8  # cells looked at along each axis
QUARTERS = 8  # of a voxel, along a cell


def clearances(field: SparseField) -> Bytes:
    """(tiles, 64) in quarters of a voxel; cells of a tile with x fastest."""
    nx, ny, nz = (4 * int(n) for n in field.dims)
    # Squares of gaps in cells; along x, then y, then z (Saito and Toriwaki 1994).
    square = np.full((nz, ny, nx), REACH * REACH, np.int32)
    mark_solid(field.dims, field.table, field.values, INSIDE_TILE, square)
    for axis in (2, 1, 0):
        turned = np.ascontiguousarray(np.moveaxis(square, axis, 2))
        spread = np.empty_like(turned)
        spread_gaps(turned.reshape(-1, turned.shape[2]), spread.reshape(-1, turned.shape[2]))
        square = np.moveaxis(spread, 2, axis)
    roots = np.array([math.isqrt(QUARTERS**2 * k) for k in range(REACH * REACH + 1)], np.uint8)
    cells = roots[square].reshape(nz // 4, 4, ny // 4, 4, nx // 4, 4)
    return np.ascontiguousarray(cells.transpose(0, 2, 4, 1, 3, 5)).reshape(-1, 64)


@parallel
def mark_solid(dims: Ints, table: Ints, values: Singles, inside: int, square: Ints) -> None:
    """0 where a cell holds a value of the solid; trilinear values lie between their corners'."""
    for tile in prange(len(table)):
        x, y, z = tile % dims[0] * 4, tile // dims[0] % dims[1] * 4, tile // (dims[0] * dims[1]) * 4
        leaf = table[tile]
        for cell in range(64):
            i, j, k = cell & 3, (cell >> 2) & 3, cell >> 4
            solid = leaf == inside
            if leaf >= 0:
                for v in range(27):
                    at = ((2 * k + v // 9) * 9 + 2 * j + v // 3 % 3) * 9 + 2 * i + v % 3
                    solid = solid or values[leaf, at] <= 0.0
            if solid:
                square[z + k, y + j, x + i] = 0


@parallel
def spread_gaps(lines: Ints, out: Ints) -> None:
    """Least of lines[n, m] + gap(n - m)^2 along each line; boxes of neighbours touch."""
    for n in prange(len(lines)):
        count = lines.shape[1]
        for a in range(count):
            best = lines[n, a]
            for way in range(1, REACH + 1):
                gap = (way - 1) * (way - 1)
                if gap >= best:
                    break
                if a >= way:
                    best = min(best, lines[n, a - way] + gap)
                if a + way < count:
                    best = min(best, lines[n, a + way] + gap)
            out[n, a] = best
