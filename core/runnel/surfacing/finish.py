"""From the raw surface to the one people see: smooth, of the fluid's volume, with normals."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .field import Floats

_PACE = 0.5  # of a round of smoothing, towards the middle of the neighbours
_TURNS = 8  # of grow_to
_STRIDE = 0.35  # radii that a vertex may go in a turn

Triangles = NDArray[np.int32]


def smooth(vertices: Floats, triangles: Triangles, rounds: int, weight: Floats) -> Floats:
    """Vertices after rounds of smoothing, each as far as its weight 0..1 says.

    What the rounds took away is smoothed likewise and given back (Tukey's twicing): of waves that
    keep a share g, 2 g - g^2 is left. Bumps of a particle's size go, all that is large stays.
    """
    if not rounds:
        return np.array(vertices)
    calm = _relaxed(vertices, triangles, rounds, weight)
    return calm + _relaxed(vertices - calm, triangles, rounds, weight)


def enclosed(vertices: Floats, triangles: Triangles) -> float:
    """Volume [m^3]; positive when triangles face outwards."""
    return float(_volumes(vertices, triangles).sum())


def parts(count: int, triangles: Triangles) -> NDArray[np.int64]:
    """The part (0, 1, ...) that each of `count` vertices belongs to; parts do not touch."""
    from ..fields.holes import join_vertices

    root = join_vertices(triangles.astype(np.int64), count)
    number = np.cumsum(root == np.arange(count)) - 1  # of the least vertex of each part
    result: NDArray[np.int64] = number[root]
    return result


def grow_to(
    vertices: Floats, triangles: Triangles, part: NDArray[np.int64], volumes: Floats, radius: float
) -> Floats:
    """The surface moved along its normals by small distances, even on each part, so that each part
    encloses its volume."""
    moved = np.array(vertices)
    of_triangle = part[triangles[:, 0]]
    for _ in range(_TURNS):
        sums = _area_vectors(moved, triangles)
        lengths = np.linalg.norm(sums, axis=1)
        area = np.bincount(part, lengths, len(volumes))
        now = np.bincount(of_triangle, _volumes(moved, triangles), len(volumes))
        step = (volumes - now) / np.maximum(area, 1e-300)
        step = step.clip(-_STRIDE * radius, _STRIDE * radius)
        moved += (step[part] / np.maximum(lengths, 1e-300))[:, None] * sums
    return moved


def part_volumes(vertices: Floats, triangles: Triangles, part: NDArray[np.int64]) -> Floats:
    """Volume of each part; hollows are negative."""
    of_triangle, count = part[triangles[:, 0]], int(part.max(initial=-1)) + 1
    found: Floats = np.bincount(of_triangle, _volumes(vertices, triangles), count).astype(
        np.float64
    )
    return found


def _volumes(vertices: Floats, triangles: Triangles) -> Floats:
    """What each triangle adds to the volume."""
    if not len(triangles):
        return np.zeros(0)
    middle = vertices.mean(axis=0)  # near the origin sums keep their digits
    a, b, c = (vertices[triangles[:, k]] - middle for k in range(3))
    found: Floats = np.einsum("ij,ij->i", a, np.cross(b, c)) / 6
    return found


def vertex_normals(vertices: Floats, triangles: Triangles) -> Floats:
    """Unit vectors (n, 3), means over the triangles around."""
    sums = _area_vectors(vertices, triangles)
    lengths = np.linalg.norm(sums, axis=1)
    normals: Floats = sums / np.where(lengths > 0, lengths, 1.0)[:, None]
    normals[lengths == 0] = (0.0, 0.0, 1.0)
    return normals


def _area_vectors(vertices: Floats, triangles: Triangles) -> Floats:
    """A third of the area of the triangles around each vertex, along their normals."""
    from . import loops

    sums = np.zeros_like(vertices)
    loops.add_areas(vertices, triangles, sums)
    return sums


def _relaxed(values: Floats, triangles: Triangles, rounds: int, weight: Floats) -> Floats:
    from . import loops

    moved, sums = np.array(values), np.zeros_like(values)
    counts = np.bincount(triangles.reshape(-1), minlength=len(moved))
    for _ in range(rounds):
        loops.relax(moved, triangles, sums, counts, _PACE * weight)
    return moved
