"""Meshes for the tests of fields, made here, and exact distances."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from runnel.meshes import Mesh

Floats = NDArray[np.float64]

_CUBE = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)], float)
_QUADS = [[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]]
_SIDES = np.array([t for q in _QUADS for t in (q[:3], [q[0], q[2], q[3]])], np.int32)


def cube(low: object = (0, 0, 0), size: object = 1.0) -> Mesh:
    return Mesh(np.array(low, float) + _CUBE * np.array(size, float), _SIDES.copy())


def surface(place: object, rows: int, columns: int) -> Mesh:
    """A closed grid of quads, wrapped along both ways; place(u, v) of 0..1 -> (..., 3)."""
    u, v = np.meshgrid(np.arange(rows) / rows, np.arange(columns) / columns, indexing="ij")
    i, j = np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij")
    a, b = i * columns + j, (i + 1) % rows * columns + j
    c, d = (i + 1) % rows * columns + (j + 1) % columns, i * columns + (j + 1) % columns
    triangles = np.stack([a, b, c, a, c, d], axis=-1).reshape(-1, 3).astype(np.int32)
    return Mesh(place(u, v).reshape(-1, 3), triangles)  # type: ignore[operator]


def torus(large: float = 1.0, small: float = 0.4, rows: int = 160, columns: int = 80) -> Mesh:
    def place(u: Floats, v: Floats) -> Floats:
        a, b = 2 * np.pi * u, 2 * np.pi * v
        ring = large + small * np.cos(b)
        return np.stack([ring * np.cos(a), ring * np.sin(a), small * np.sin(b)], axis=-1)

    return surface(place, rows, columns)


def sphere(radius: float = 1.0, rows: int = 64, center: object = (0, 0, 0)) -> Mesh:
    """By latitude and longitude; poles are doubled points, so some triangles have no area."""

    def place(u: Floats, v: Floats) -> Floats:
        a, b = 2 * np.pi * u, np.pi * v * columns / (columns - 1)
        return radius * np.stack([np.sin(b) * np.cos(a), np.sin(b) * np.sin(a), np.cos(b)], axis=-1)

    columns = rows // 2
    mesh = surface(place, rows, columns)
    # Without the quads that would join the poles.
    last = mesh.triangles % columns == columns - 1
    first = mesh.triangles % columns == 0
    kept = mesh.triangles[~(last.any(axis=1) & first.any(axis=1))]
    return Mesh(mesh.vertices + np.array(center, float), kept)


def joined(*meshes: Mesh) -> Mesh:
    starts = np.cumsum([0, *(len(m.vertices) for m in meshes)])
    triangles = [m.triangles + int(s) for m, s in zip(meshes, starts, strict=False)]
    return Mesh(
        np.concatenate([m.vertices for m in meshes]), np.concatenate(triangles).astype(np.int32)
    )


def flipped(mesh: Mesh, chosen: object = slice(None)) -> Mesh:
    triangles = mesh.triangles.copy()
    triangles[chosen] = triangles[chosen][:, ::-1]  # type: ignore[index]
    return Mesh(mesh.vertices, triangles)


def turned(mesh: Mesh) -> Mesh:
    """Turned about two axes, so that nothing lies along the grid."""
    a, b = 0.4, 0.7
    one = np.array([[np.cos(a), -np.sin(a), 0], [np.sin(a), np.cos(a), 0], [0, 0, 1]])
    two = np.array([[1, 0, 0], [0, np.cos(b), -np.sin(b)], [0, np.sin(b), np.cos(b)]])
    return Mesh(mesh.vertices @ (one @ two).T, mesh.triangles)


def box_distance(points: Floats, low: object, high: object) -> Floats:
    a, b = np.array(low, float), np.array(high, float)
    q = np.abs(points - (a + b) / 2) - (b - a) / 2
    outside: Floats = np.linalg.norm(np.maximum(q, 0), axis=1)
    return outside + np.minimum(q.max(axis=1), 0)


def torus_distance(points: Floats, large: float = 1.0, small: float = 0.4) -> Floats:
    ring = np.hypot(points[:, 0], points[:, 1]) - large
    distance: Floats = np.hypot(ring, points[:, 2]) - small
    return distance
