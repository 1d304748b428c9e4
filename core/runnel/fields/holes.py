"""Parts of a mesh, their rims, and caps for them.

A rim is a closed walk along edges with an odd number of triangles. The boundary of a set of
triangles, counted modulo 2, has an even number of edges at each vertex, so it always falls apart
into closed walks, whatever the mesh. A fan of triangles from the middle of a walk closes it, and
orientation plays no part.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..mesh_formats import weld
from .compile import serial

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]

_WELD = 1e-4  # voxels: vertices closer than this, most times, count as one


@dataclass(frozen=True, eq=False)
class Rims:
    """Open edges of a mesh in closed walks."""

    ends: Floats  # (edges, 2, 3) [voxels]
    owner: Longs  # (edges,) row of the triangle it belongs to
    walk: Longs  # (edges,) number of its walk
    part: Longs  # (walks,) part of the mesh that holds it
    side: Longs  # (edges,) which of its sides
    size: Floats  # (walks,) diagonal of the box around it [voxels]
    share: Floats  # (walks,) that diagonal by its part's


def parts_of(corners: Floats) -> tuple[Longs, Longs]:
    """Welded triangles (m, 3), and the number of the part each is in; parts share vertices."""
    places = np.round(corners.reshape(-1, 3) / _WELD)
    vertices, numbers = weld(places)
    triangles = numbers.reshape(-1, 3).astype(np.int64)
    root = join_vertices(triangles, len(vertices))
    _, part = np.unique(root[triangles[:, 0]], return_inverse=True)
    return triangles, part.ravel().astype(np.int64)


def rims_of(corners: Floats, triangles: Longs, part: Longs) -> Rims | None:
    """Rims of a mesh; None if it has none. Triangles (m, 3) and parts as parts_of gives them."""
    rows = _unrepeated(triangles)
    start = triangles[rows]
    end = np.roll(start, -1, axis=1)
    count = np.int64(triangles.max()) + 1
    keys = (np.minimum(start, end) * count + np.maximum(start, end)).ravel()
    ordered = np.sort(keys)
    first = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    runs = np.diff(np.concatenate([first, [len(ordered)]]))
    odd = ordered[first[(runs & 1) == 1]]
    odd = odd[odd // count != odd % count]  # an edge from a vertex to itself closes itself
    if not len(odd):
        return None
    place = np.minimum(np.searchsorted(odd, keys), len(odd) - 1)
    mine = np.flatnonzero(odd[place] == keys)[::-1]
    edge = np.zeros(len(odd), np.int64)
    edge[place[mine]] = mine  # the first triangle of each edge, as the last to be written
    row, side = rows[edge // 3], edge % 3
    numbers = triangles[row]
    k = np.arange(len(row))
    ends = np.stack([numbers[k, side], numbers[k, (side + 1) % 3]], axis=1)
    walk = walk_edges(ends, int(count))
    points = corners.reshape(-1, 3, 3)
    places = np.stack([points[row, side], points[row, (side + 1) % 3]], axis=1)
    size = _diagonals(places.reshape(-1, 3), np.repeat(walk, 2))
    whole = _diagonals(points.reshape(-1, 3), np.repeat(part, 3))
    of_walk = np.zeros(int(walk.max()) + 1, np.int64)
    of_walk[walk] = part[row]
    return Rims(places, row, walk, of_walk, side, size, size / np.maximum(whole[of_walk], 1e-30))


def caps(rims: Rims, walks: NDArray[np.bool_]) -> tuple[Floats, Longs]:
    """Fans (k, 9) [voxels] that close walks (a mask), and rows of the triangles beside them."""
    chosen = np.flatnonzero(walks[rims.walk])
    walk = rims.walk[chosen]
    ends = rims.ends[chosen]
    total = np.zeros((len(walks), 3))
    np.add.at(total, walk, ends.mean(axis=1))
    middle = total / np.maximum(np.bincount(walk, minlength=len(walks)), 1)[:, None]
    fans = np.concatenate([ends.reshape(-1, 6), middle[walk]], axis=1)
    a, b, c = fans[:, :3], fans[:, 3:6], fans[:, 6:]
    area = np.linalg.norm(np.cross(b - a, c - a), axis=1)
    real = area > 1e-9  # a walk along a straight line, as at T-junctions, has nothing to close
    return np.ascontiguousarray(fans[real]), rims.owner[chosen][real]


def _unrepeated(triangles: Longs) -> Longs:
    """Rows of triangles that no earlier one repeats, whichever way it faces."""
    ordered = np.sort(triangles, axis=1).astype(np.uint64)
    mixed = ordered * np.array(
        [0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9], np.uint64
    )
    mixed ^= mixed >> np.uint64(31)
    keys = (mixed * np.array([1, 3, 5], np.uint64)).sum(axis=1, dtype=np.uint64)
    _, rows = np.unique(keys, return_index=True)
    return np.sort(rows)


def _diagonals(points: Floats, group: Longs) -> Floats:
    """Diagonals of the boxes around groups of points; numbers of groups leave none out."""
    order = np.argsort(group, kind="stable")
    first = np.flatnonzero(np.diff(group[order], prepend=-1))
    extent = np.maximum.reduceat(points[order], first) - np.minimum.reduceat(points[order], first)
    return np.linalg.norm(extent, axis=1)


@serial
def join_vertices(triangles: Longs, count: int) -> Longs:
    """Lowest vertex that each vertex is joined to by triangles."""
    parent = np.arange(count)
    for t in range(len(triangles)):
        a = triangles[t, 0]
        while parent[a] != a:
            parent[a] = parent[parent[a]]
            a = parent[a]
        for k in range(1, 3):
            b = triangles[t, k]
            while parent[b] != b:
                parent[b] = parent[parent[b]]
                b = parent[b]
            if a < b:
                parent[b] = a
            else:
                parent[a] = b
                a = b
    for v in range(count):  # parents are lower: one look suffices
        parent[v] = parent[parent[v]]
    return parent


@serial
def walk_edges(ends: Longs, vertices: int) -> Longs:
    """Number of the closed walk that each edge (m, 2) belongs to."""
    # Loops, not slices: numba takes seconds to compile those.
    first = np.zeros(vertices + 1, np.int64)
    place = np.empty(vertices, np.int64)
    walk = np.empty(len(ends), np.int64)
    for e in range(len(ends)):
        first[ends[e, 0] + 1] += 1
        first[ends[e, 1] + 1] += 1
    for v in range(vertices):
        first[v + 1] += first[v]
        place[v] = first[v]
    edges = np.empty(2 * len(ends), np.int64)
    for e in range(len(ends)):
        for k in range(2):
            edges[place[ends[e, k]]] = e
            place[ends[e, k]] += 1
    for v in range(vertices):
        place[v] = first[v]
    for e in range(len(ends)):
        walk[e] = -1
    count = 0
    for e in range(len(ends)):
        if walk[e] >= 0:
            continue
        walk[e] = count
        at = ends[e, 1]
        while at != ends[e, 0]:
            # There is a way on: the number of edges at a vertex is even.
            while walk[edges[place[at]]] >= 0:
                place[at] += 1
            step = edges[place[at]]
            walk[step] = count
            at = ends[step, 1] if ends[step, 0] == at else ends[step, 0]
        count += 1
    return walk
