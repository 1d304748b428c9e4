"""Sampling a sparse field, for compiled functions and for arrays of points.

The formula is the device's too: tile by table, then trilinear inside one leaf of 9^3 values.

    q = (x - origin) / voxel,  i = floor(q),  f = q - i,  tile = i >> 3,  local = i & 7
    phi  = sum over the cell's corners of  value * prod(f or 1 - f)
    grad = derivative of that polynomial / voxel
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .compile import inline, parallel, prange

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Ints = NDArray[np.int32]

OUTSIDE_TILE, INSIDE_TILE = -1, -2  # entries of the table without a leaf: +band, -band
EDGE = 9  # values along a leaf
LEAF = EDGE**3


@inline
def find_tile(table: Ints, dims: Ints, i: int, j: int, k: int) -> int:
    """Entry of the table for a voxel; -3 beyond the table."""
    tx, ty, tz = i >> 3, j >> 3, k >> 3
    if tx < 0 or ty < 0 or tz < 0 or tx >= dims[0] or ty >= dims[1] or tz >= dims[2]:
        return -3
    return int(table[(tz * dims[1] + ty) * dims[0] + tx])


@inline
def constant(entry: int, band: float, background: float) -> float:
    """Distance where there is no leaf."""
    if entry == INSIDE_TILE:
        return -band
    return band if entry == OUTSIDE_TILE else background


@inline
def trilinear(
    v: Singles, leaf: int, o: int, fx: float, fy: float, fz: float
) -> tuple[float, float, float, float]:
    """Value and gradient per voxel in the cell whose lowest corner is value o of a leaf."""
    a000, a100 = v[leaf, o], v[leaf, o + 1]
    a010, a110 = v[leaf, o + 9], v[leaf, o + 10]
    a001, a101 = v[leaf, o + 81], v[leaf, o + 82]
    a011, a111 = v[leaf, o + 90], v[leaf, o + 91]
    d00, d10, d01, d11 = a100 - a000, a110 - a010, a101 - a001, a111 - a011
    x00, x10, x01, x11 = a000 + fx * d00, a010 + fx * d10, a001 + fx * d01, a011 + fx * d11
    y0, y1 = x00 + fy * (x10 - x00), x01 + fy * (x11 - x01)
    e0, e1 = d00 + fy * (d10 - d00), d01 + fy * (d11 - d01)
    gy = (x10 - x00) + fz * ((x11 - x01) - (x10 - x00))
    return y0 + fz * (y1 - y0), e0 + fz * (e1 - e0), gy, y1 - y0


@parallel
def sample_distance(
    table: Ints, dims: Ints, values: Singles, scalars: Floats, points: Floats, result: Floats
) -> None:
    """result (n, 4): distance [m], gradient. scalars: origin, 1 / voxel, band, background."""
    inverse, band, background = scalars[3], scalars[4], scalars[5]
    for n in prange(len(points)):
        x = (points[n, 0] - scalars[0]) * inverse
        y = (points[n, 1] - scalars[1]) * inverse
        z = (points[n, 2] - scalars[2]) * inverse
        i, j, k = int(np.floor(x)), int(np.floor(y)), int(np.floor(z))
        entry = find_tile(table, dims, i, j, k)
        if entry < 0:
            result[n, 0] = constant(entry, band, background)
            for w in range(1, 4):
                result[n, w] = 0.0
            continue
        o = ((k & 7) * 9 + (j & 7)) * 9 + (i & 7)
        phi, gx, gy, gz = trilinear(values, entry, o, x - i, y - j, z - k)
        result[n, 0] = phi
        result[n, 1], result[n, 2], result[n, 3] = gx * inverse, gy * inverse, gz * inverse


@parallel
def sample_index(
    table: Ints, dims: Ints, index: Ints, scalars: Floats, points: Floats, result: Ints
) -> None:
    """result (n,): primitive nearest to the nearest voxel, -1 outside of the leaves."""
    for n in prange(len(points)):
        x = (points[n, 0] - scalars[0]) * scalars[3]
        y = (points[n, 1] - scalars[1]) * scalars[3]
        z = (points[n, 2] - scalars[2]) * scalars[3]
        i, j, k = int(np.floor(x)), int(np.floor(y)), int(np.floor(z))
        entry = find_tile(table, dims, i, j, k)
        result[n] = -1
        if entry >= 0:
            i, j, k = (i & 7) + (x - i >= 0.5), (j & 7) + (y - j >= 0.5), (k & 7) + (z - k >= 0.5)
            result[n] = index[entry, (k * 9 + j) * 9 + i]


@parallel
def sample_channel(
    table: Ints, dims: Ints, channel: Singles, scalars: Floats, points: Floats, result: Floats
) -> None:
    """result (n, width) of a channel (leaves, 729, width), trilinear; 0 outside of the leaves."""
    for n in prange(len(points)):
        x = (points[n, 0] - scalars[0]) * scalars[3]
        y = (points[n, 1] - scalars[1]) * scalars[3]
        z = (points[n, 2] - scalars[2]) * scalars[3]
        i, j, k = int(np.floor(x)), int(np.floor(y)), int(np.floor(z))
        entry = find_tile(table, dims, i, j, k)
        for w in range(channel.shape[2]):
            result[n, w] = 0.0
        if entry < 0:
            continue
        o = ((k & 7) * 9 + (j & 7)) * 9 + (i & 7)
        for corner in range(8):
            cx, cy, cz = corner & 1, (corner >> 1) & 1, corner >> 2
            weight = (x - i if cx else 1.0 - (x - i)) * (y - j if cy else 1.0 - (y - j))
            weight *= z - k if cz else 1.0 - (z - k)
            for w in range(channel.shape[2]):
                result[n, w] += weight * channel[entry, o + (cz * 9 + cy) * 9 + cx, w]
