"""The loops over particles, voxels and triangles, compiled. They let other threads run meanwhile.

Imported where they are used: numba is slow to load.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def compiled(loop: Any) -> Any:
    """The loop, compiled at its first call and kept on disk where that is possible."""
    try:
        return numba.njit(cache=True, nogil=True, error_model="numpy")(loop)
    except RuntimeError:  # no place to keep it
        return numba.njit(nogil=True, error_model="numpy")(loop)


@compiled
def splat(place: Array, reach: Array, peak: Array, keys: Array, values: Array) -> None:
    """Add all particles to the leaves that are there; lengths in cubes."""
    for p in range(len(place)):
        x, y, z = place[p]
        h = reach[p]
        lx, hx = int(np.ceil(x - h)), int(np.floor(x + h))
        ly, hy = int(np.ceil(y - h)), int(np.floor(y + h))
        lz, hz = int(np.ceil(z - h)), int(np.floor(z + h))
        for a in range(lx >> 3, (hx >> 3) + 1):
            for b in range(ly >> 3, (hy >> 3) + 1):
                for c in range(lz >> 3, (hz >> 3) + 1):
                    key = (a + (1 << 20)) << 42 | (b + (1 << 20)) << 21 | (c + (1 << 20))
                    leaf = np.searchsorted(keys, key)
                    if leaf == len(keys) or keys[leaf] != key:
                        continue
                    for i in range(max(lx, 8 * a), min(hx, 8 * a + 7) + 1):
                        for j in range(max(ly, 8 * b), min(hy, 8 * b + 7) + 1):
                            plane = (i - x) ** 2 + (j - y) ** 2
                            for k in range(max(lz, 8 * c), min(hz, 8 * c + 7) + 1):
                                q2 = (plane + (k - z) ** 2) / (h * h)
                                if q2 >= 1.0:
                                    continue
                                q = np.sqrt(q2)
                                w = 1 - 6 * q2 * (1 - q) if q < 0.5 else 2 * (1 - q) ** 3
                                cell = (i & 7) << 6 | (j & 7) << 3 | (k & 7)
                                values[leaf, cell] += peak[p] * w


@compiled
def runs_near(points: Array, p: int, keys: Array, size: float, first: Array, last: Array) -> None:
    """Cells around a point: rows where nine runs of them begin, and the key each run ends with."""
    cx = int(np.floor(points[p, 0] / size))
    cy = int(np.floor(points[p, 1] / size))
    cz = int(np.floor(points[p, 2] / size))
    for run in range(9):
        # Cells along z follow each other: one search for three of them.
        a, b = cx + run // 3 - 1, cy + run % 3 - 1
        base = (a + (1 << 20)) << 42 | (b + (1 << 20)) << 21
        first[run] = np.searchsorted(keys, base | (cz - 1 + (1 << 20)))
        last[run] = base | (cz + 1 + (1 << 20))


@compiled
def gather(
    points: Array,
    place: Array,
    reach: Array,
    peak: Array,
    columns: Array,
    keys: Array,
    size: float,
    sums: Array,
) -> None:
    width = columns.shape[1]
    first, last = np.zeros(9, np.int64), np.zeros(9, np.int64)
    for p in range(len(points)):
        runs_near(points, p, keys, size, first, last)
        for run in range(9):
            j = first[run]
            while j < len(keys) and keys[j] <= last[run]:
                q2 = 0.0
                for axis in range(3):
                    q2 += (points[p, axis] - place[j, axis]) ** 2
                q2 /= reach[j] * reach[j]
                if q2 < 1.0:
                    q = np.sqrt(q2)
                    w = 1 - 6 * q2 * (1 - q) if q < 0.5 else 2 * (1 - q) ** 3
                    for column in range(width):
                        sums[p, column] += peak[j] * w * columns[j, column]
                j += 1


@compiled
def seek(
    points: Array,
    place: Array,
    radius: Array,
    rows: Array,
    keys: Array,
    size: float,
    best: Array,
    found: Array,
) -> None:
    first, last = np.zeros(9, np.int64), np.zeros(9, np.int64)
    for p in range(len(points)):
        runs_near(points, p, keys, size, first, last)
        for run in range(9):
            j = first[run]
            while j < len(keys) and keys[j] <= last[run]:
                away = 0.0
                for axis in range(3):
                    away += (points[p, axis] - place[j, axis]) ** 2
                away = np.sqrt(away) - radius[j]
                if away < best[p] or (away == best[p] and rows[j] < found[p]):
                    best[p] = away
                    found[p] = rows[j]
                j += 1


@compiled
def load(values: Array, rows: Array, block: Array) -> None:
    """Values of a leaf and of the lower sides of its upper neighbours."""
    for i in range(9):
        for j in range(9):
            for k in range(9):
                leaf = rows[(i >> 3) << 2 | (j >> 3) << 1 | k >> 3]
                cell = (i & 7) << 6 | (j & 7) << 3 | (k & 7)
                block[i, j, k] = values[leaf, cell] if leaf >= 0 else np.float32(0)


@compiled
def case_of(block: Array, i: int, j: int, k: int, threshold: float) -> int:
    case = 0
    for c in range(8):
        if block[i + (c >> 2 & 1), j + (c >> 1 & 1), k + (c & 1)] >= threshold:
            case |= 1 << c
    return case


@compiled
def count(
    values: Array, around: Array, threshold: float, counts: Array, crossings: Array, faces: Array
) -> None:
    """Edges that the surface crosses and triangles, for each leaf."""
    block = np.zeros((9, 9, 9), np.float32)
    for n in range(len(around)):
        load(values, around[n], block)
        for i in range(8):
            for j in range(8):
                for k in range(8):
                    full = block[i, j, k] >= threshold
                    crossings[n] += full != (block[i + 1, j, k] >= threshold)
                    crossings[n] += full != (block[i, j + 1, k] >= threshold)
                    crossings[n] += full != (block[i, j, k + 1] >= threshold)
                    faces[n] += counts[case_of(block, i, j, k, threshold)]


@compiled
def place(
    values: Array,
    around: Array,
    threshold: float,
    starts: Array,
    corner: Array,
    numbers: Array,
    vertices: Array,
) -> None:
    """Number the crossed edges and put a vertex on each; lengths in cubes."""
    block = np.zeros((9, 9, 9), np.float32)
    for n in range(len(around)):
        load(values, around[n], block)
        number = starts[n]
        for i in range(8):
            for j in range(8):
                for k in range(8):
                    here = block[i, j, k]
                    for axis in range(3):
                        there = block[i + (axis == 0), j + (axis == 1), k + (axis == 2)]
                        if (here >= threshold) == (there >= threshold):
                            continue
                        # Not quite to the corners, where triangles would be needles.
                        share = min(max((threshold - here) / (there - here), 0.1), 0.9)
                        numbers[n, i << 6 | j << 3 | k, axis] = number
                        vertices[number, 0] = corner[n, 0] + i + (share if axis == 0 else 0.0)
                        vertices[number, 1] = corner[n, 1] + j + (share if axis == 1 else 0.0)
                        vertices[number, 2] = corner[n, 2] + k + (share if axis == 2 else 0.0)
                        number += 1


@compiled
def connect(
    values: Array,
    around: Array,
    near: Array,
    threshold: float,
    counts: Array,
    table: Array,
    edges: Array,
    starts: Array,
    numbers: Array,
    triangles: Array,
) -> None:
    block = np.zeros((9, 9, 9), np.float32)
    for n in range(len(around)):
        load(values, around[n], block)
        row = starts[n]
        for i in range(8):
            for j in range(8):
                for k in range(8):
                    case = case_of(block, i, j, k, threshold)
                    for t in range(counts[case]):
                        for side in range(3):
                            edge = table[case, t, side]
                            low = edges[edge, 0]
                            x, y, z = i + (low >> 2 & 1), j + (low >> 1 & 1), k + (low & 1)
                            leaf = near[n, (x >> 3) << 2 | (y >> 3) << 1 | z >> 3]
                            cell = (x & 7) << 6 | (y & 7) << 3 | (z & 7)
                            triangles[row, side] = numbers[leaf, cell, edge >> 2]
                        row += 1


@compiled
def relax(vertices: Array, triangles: Array, sums: Array, counts: Array, pace: Array) -> None:
    """A step towards the middle of the neighbours. In a closed surface each neighbour of a vertex
    follows it in exactly one triangle."""
    sums[:] = 0.0
    for t in range(len(triangles)):
        for side in range(3):
            a, b = triangles[t, side], triangles[t, (side + 1) % 3]
            for axis in range(3):
                sums[a, axis] += vertices[b, axis]
    for v in range(len(vertices)):
        if counts[v]:
            for axis in range(3):
                vertices[v, axis] += pace[v] * (sums[v, axis] / counts[v] - vertices[v, axis])


@compiled
def add_areas(vertices: Array, triangles: Array, sums: Array) -> None:
    for t in range(len(triangles)):
        a, b, c = triangles[t]
        for axis in range(3):
            p, q = (axis + 1) % 3, (axis + 2) % 3
            up, uq = vertices[b, p] - vertices[a, p], vertices[b, q] - vertices[a, q]
            vp, vq = vertices[c, p] - vertices[a, p], vertices[c, q] - vertices[a, q]
            part = (up * vq - uq * vp) / 6
            sums[a, axis] += part
            sums[b, axis] += part
            sums[c, axis] += part
