"""Points that stand for a body's surface where bodies touch.

Each is the centre of a small ball inside of the body, so that one that overlaps another solid by
less than the ball's radius still lies outside of it, where distances have good gradients.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
from numpy.typing import NDArray

from ..backends.base import BOX, CYLINDER, FIELD, SPHERE
from ..backends.reference.field import World
from ..backends.reference.solids import signed_distances

Floats = NDArray[np.float64]

ROUNDING = 0.1  # radius of the balls over the half size of the body
ALONG = 5  # points along an edge
RING = 24  # around a rim
BALL = 100  # on a ball
MOST = 400  # of a mesh
ENDLESS = 1e8


ANY, NO_FIELD, FIELD_ONLY = range(3)  # what a point is held off


def surface_points(
    world: World, solid: int, vertices: Floats | None
) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """Points (n, 3) in the world, their radii (n,) [m] and what they are held off. vertices: of a
    mesh, in the world."""
    row = world.rows[solid]
    if int(row[0]) == SPHERE or (int(row[0]) == CYLINDER and row[6] > ENDLESS):
        return _ball(row[17:20], float(row[5]), int(world.ignored[0]))
    points, radii = _surface(world, solid, vertices)
    return points, radii, np.full(len(points), ANY)


def _ball(centre: Floats, r: float, flat: int) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """Its centre, which rolls well, and points on it for fields, which end near their surface."""
    k = np.arange(BALL)
    angle, height = k * math.pi * (3 - math.sqrt(5)), 1 - (2 * k + 1) / BALL
    if flat >= 0:
        angle, height = k * (2 * math.pi / BALL), np.zeros(BALL)
    ring = np.sqrt(1 - height**2)
    around = np.stack([ring * np.cos(angle), ring * np.sin(angle), height], axis=1)
    if flat == 1:
        around = around[:, [0, 2, 1]]
    small = ROUNDING * r
    points = np.concatenate([np.zeros((1, 3)), (r - small) * around]) + centre
    radii = np.append(r, np.full(BALL, small))
    return points, radii, np.append(NO_FIELD, np.full(BALL, FIELD_ONLY))


def _surface(world: World, solid: int, vertices: Floats | None) -> tuple[Floats, Floats]:
    row, flat = world.rows[solid], int(world.ignored[0])
    kind, size = int(row[0]), row[5:8]
    if kind == BOX:
        local, radius = _box(np.where(size > ENDLESS, 0.0, size))
    elif kind == CYLINDER:
        local, radius = _cylinder(float(size[0]), float(size[1]))
    else:
        assert kind == FIELD
        assert vertices is not None
        return _mesh(world, solid, vertices, flat)
    return local @ row[8:17].reshape(3, 3) + row[17:20], np.full(len(local), radius)


def _box(half: Floats) -> tuple[Floats, float]:
    used = half[half > 0]
    radius = ROUNDING * float(used.min())
    sides = [np.linspace(-1, 1, ALONG) * (h - radius) if h > 0 else np.zeros(1) for h in half]
    points = np.array(list(itertools.product(*sides)))
    ends = [(np.abs(np.abs(points[:, k]) - (half[k] - radius)) < 1e-9 * half[k]) & (half[k] > 0)
            for k in range(3)]  # fmt: skip
    # Edges and corners: where at least two coordinates are at their ends (in 2D: the corners
    # and the sides). A face's inside is met by the other's corners.
    return points[np.sum(ends, axis=0) >= len(used) - 1], radius


def _cylinder(r: float, half: float) -> tuple[Floats, float]:
    radius = ROUNDING * min(r, half)
    angles = np.arange(RING) * (2 * math.pi / RING)
    ring = (r - radius) * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    heights = np.linspace(-1, 1, ALONG) * (half - radius)
    points = [np.column_stack([ring, np.full(RING, z)]) for z in heights]
    middle = np.array([[0.0, 0.0, heights[0]], [0.0, 0.0, heights[-1]]])
    return np.concatenate([*points, middle]), radius


def _mesh(world: World, solid: int, vertices: Floats, flat: int) -> tuple[Floats, Floats]:
    """Some of the vertices, drawn into the mesh by their own radius."""
    row = world.rows[solid]
    voxel = float(row[5] * world.head[int(row[26]), 3])
    cell = voxel
    while True:  # one of each cell, the first: the same on every machine
        keys = np.floor(vertices / cell).astype(np.int64)
        _, first = np.unique(keys, axis=0, return_index=True)
        if len(first) <= MOST:
            break
        cell *= 1.3
    points = vertices[np.sort(first)].copy()
    if flat >= 0:
        points[:, flat] = 0.0
    own = world._replace(rows=world.rows[solid : solid + 1].copy())
    radius = 0.5 * voxel
    for _ in range(3):
        phi, normal = signed_distances(own, points)
        points -= (phi[:, 0] + radius)[:, None] * normal[:, 0]
    return points, np.full(len(points), radius)
