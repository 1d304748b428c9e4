"""Marching cubes (Lorensen, Cline 1987) on sparse leaves; the surface is closed and manifold.

Corner c of a cube has the offset (c >> 2 & 1, c >> 1 & 1, c & 1). The table is made here: on each
face of a cube the surface separates full corners from empty ones, and where the full ones stand
diagonally it goes around each. Neighbouring cubes see the same face alike, so nothing gapes.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from .field import Field, key_of, place_of

_CORNERS = [(c >> 2 & 1, c >> 1 & 1, c & 1) for c in range(8)]
# Faces, corners in a circle, anticlockwise when seen from outside.
_FACES = ((0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3))
Edge = tuple[int, int]  # corners, the smaller first


def _edges() -> list[Edge]:
    """The edges of a cube: along x, then y, then z."""
    return [(c, c | bit) for bit in (4, 2, 1) for c in range(8) if not c & bit]


def _segments(face: tuple[int, ...], full: list[bool]) -> list[tuple[Edge, Edge]]:
    """Where the surface cuts a face: from edge to edge, full corners to the left."""
    found = []
    for n in range(4):
        # A run of full corners n .. m - 1; diagonal ones are runs of their own.
        if full[face[n]] and not full[face[n - 1]]:
            m = n
            while full[face[m % 4]]:
                m += 1
            entry = (face[n - 1], face[n])
            leave = (face[(m - 1) % 4], face[m % 4])
            found.append((_edge(*entry), _edge(*leave)))
    return found


def _edge(a: int, b: int) -> Edge:
    return (min(a, b), max(a, b))


def _triangles(case: int) -> list[tuple[int, int, int]]:
    """Triangles of a case, by edge; their normals point from full to empty."""
    full = [bool(case >> c & 1) for c in range(8)]
    following = dict(pair for face in _FACES for pair in _segments(face, full))
    number = {edge: n for n, edge in enumerate(_edges())}
    found = []
    while following:
        start, edge = following.popitem()
        loop = [start]
        while edge != start:
            loop.append(edge)
            edge = following.pop(edge)
        found += [(number[a], number[b], number[c]) for a, b, c in _divided(loop)]
    return found


def _divided(loop: list[Edge]) -> list[tuple[Edge, Edge, Edge]]:
    """A loop as triangles. No diagonal lies on a face of the cube if that can be: the neighbour
    might have the same one, and four triangles would meet there."""
    best: tuple[int, list[tuple[Edge, Edge, Edge]]] = (1 << 30, [])
    if len(loop) == 3:
        return [(loop[0], loop[1], loop[2])]
    for k in range(1, len(loop) - 1):
        # The triangle on the side from the last to the first, and what is left on both sides.
        triangles = [(loop[0], loop[k], loop[-1])]
        for part in (loop[: k + 1], loop[k:]):
            if len(part) > 2:
                triangles += _divided(part)
        cost = sum(_on_a_face(a, b) for t in triangles for a, b in _sides(t, loop))
        if cost < best[0]:
            best = (cost, triangles)
    return best[1]


def _sides(triangle: tuple[Edge, Edge, Edge], loop: list[Edge]) -> list[tuple[Edge, Edge]]:
    """Sides of a triangle that are no sides of the loop."""
    place = [loop.index(edge) for edge in triangle]
    pairs = [(place[0], place[1]), (place[1], place[2]), (place[2], place[0])]
    return [(loop[a], loop[b]) for a, b in pairs if abs(a - b) not in (1, len(loop) - 1)]


def _on_a_face(a: Edge, b: Edge) -> bool:
    return any({*a, *b} <= set(face) for face in _FACES)


@cache
def tables() -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Number of triangles per case, their edges (256, most, 3), corners of edges (12, 2)."""
    cases = [_triangles(case) for case in range(256)]
    counts = np.array([len(case) for case in cases])
    table = np.zeros((256, counts.max(), 3), np.int64)
    for case, triangles in enumerate(cases):
        if triangles:
            table[case, : len(triangles)] = triangles
    return counts, table, np.array(_edges())


def march(field: Field, threshold: float) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """Vertices [m] and triangles of the surface F = threshold; full is F >= threshold."""
    from . import loops

    bases = _bases(field.keys)
    around = _around(bases, field.keys)
    counts, table, edges = tables()
    crossings, faces = np.zeros(len(bases), np.int64), np.zeros(len(bases), np.int64)
    loops.count(field.values, around, np.float32(threshold), counts, crossings, faces)
    # Only leaves that the surface passes need numbers of vertices.
    used = np.flatnonzero(crossings + faces)
    slot = np.full(len(bases) + 1, -1, np.int64)
    slot[used] = np.arange(len(used))
    numbers = np.full((len(used), 512, 3), -1, np.int32)
    vertices = np.zeros((int(crossings.sum()), 3))
    starts = np.cumsum(crossings[used]) - crossings[used]
    corner = 8 * place_of(bases[used]).astype(np.float64)
    loops.place(
        field.values, around[used], np.float32(threshold), starts, corner, numbers, vertices
    )
    triangles = np.zeros((int(faces.sum()), 3), np.int32)
    near = slot[_around(bases[used], bases)]
    starts = np.cumsum(faces[used]) - faces[used]
    loops.connect(
        field.values, around[used], near, np.float32(threshold), counts, table, edges, starts,
        numbers, triangles,
    )  # fmt: skip
    return vertices * field.cube, triangles


def _bases(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Leaves whose cubes touch a leaf with values: those, and their lower neighbours."""
    places = place_of(keys)
    lower = [key_of(places - np.array(offset)) for offset in _CORNERS]
    return np.unique(np.concatenate(lower)) if len(keys) else keys


def _around(bases: NDArray[np.int64], keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rows of each leaf and its seven upper neighbours among keys; -1: not there."""
    places = place_of(bases)
    found = np.full((len(bases), 8), -1, np.int64)
    for c, offset in enumerate(_CORNERS):
        wanted = key_of(places + np.array(offset))
        row = np.searchsorted(keys, wanted)
        there = row < len(keys)
        there[there] = keys[row[there]] == wanted[there]
        found[there, c] = row[there]
    return found
