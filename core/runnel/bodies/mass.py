"""Mass, centre and inertia of a body, from the row of its solid."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..backends.base import BOX, CYLINDER, FIELD, SPHERE
from ..backends.reference.field import World
from ..backends.reference.solids import signed_distances
from ..errors import SceneError

Floats = NDArray[np.float64]

SAMPLES = 2_000_000  # of a field, at most
ENDLESS = 1e8  # half sizes above that are of a 2D scene [m]
DEPTH = 0.5  # half of what a 2D scene counts as depth [m]


@dataclass(frozen=True, eq=False)
class MassProperties:
    """In the world, at the start; per metre of depth in 2D."""

    volume: float  # [m^3]
    centre: Floats  # (3,) [m]
    spread: Floats  # (3, 3) inertia about the centre over the mass [m^2]
    reach: float  # from the centre to the farthest point [m]


def mass_properties(world: World, solid: int, bounds: tuple[Floats, Floats]) -> MassProperties:
    """Of a row of solids; `bounds` [m, of the row's frame] limit a field."""
    row = world.rows[solid]
    flat = int(world.ignored[0])
    axes = row[8:17].reshape(3, 3)  # world -> local
    size = np.where(row[5:8] > ENDLESS, DEPTH, row[5:8])
    origin = row[17:20].copy()
    kind = int(row[0])
    if kind == FIELD:
        return _of_field(world, solid, bounds)
    if kind == BOX:
        a, b, c = size
        volume, moments = 8 * a * b * c, [b * b + c * c, a * a + c * c, a * a + b * b]
        spread, reach = np.array(moments) / 3, float(np.linalg.norm(size[row[5:8] < ENDLESS]))
    elif kind == SPHERE and flat < 0:
        volume, spread, reach = (
            4 / 3 * math.pi * size[0] ** 3,
            np.full(3, 0.4 * size[0] ** 2),
            size[0],
        )
    elif kind == SPHERE:
        volume, spread, reach = math.pi * size[0] ** 2, np.full(3, 0.5 * size[0] ** 2), size[0]
    elif kind == CYLINDER:
        r, half = size[0], size[1]
        across = r * r / 4 + half * half / 3
        volume, spread = math.pi * r * r * 2 * half, np.array([across, across, r * r / 2])
        reach = r if row[6] > ENDLESS else math.hypot(r, half)
    else:
        raise SceneError("a rigid body needs an end: a box, a sphere, a cylinder or a closed mesh")
    return MassProperties(float(volume), origin, axes.T @ np.diag(spread) @ axes, float(reach))


def _of_field(world: World, solid: int, bounds: tuple[Floats, Floats]) -> MassProperties:
    """By counting voxels, as the fluid meets them."""
    row = world.rows[solid]
    flat, scale = int(world.ignored[0]), row[5]
    low, high = bounds[0] * scale, bounds[1] * scale
    cell = max(
        0.5 * scale * world.head[int(row[26]), 3], float(np.prod(high - low) / SAMPLES) ** (1 / 3)
    )
    steps = [np.arange(a + cell / 2, b, cell) for a, b in zip(low, high, strict=True)]
    if flat >= 0:
        # The plane of the scene, in the row's frame: in 2D bodies only turn about its axis.
        steps[flat] = np.array([-row[17 + flat]])
    points = np.stack(np.meshgrid(*steps, indexing="ij"), axis=-1).reshape(-1, 3)
    points = points @ row[8:17].reshape(3, 3) + row[17:20]
    phi, _ = signed_distances(world._replace(rows=world.rows[solid : solid + 1].copy()), points)
    share = np.clip(0.5 - phi[:, 0] / cell, 0.0, 1.0)
    inside = share > 0
    if not inside.any():
        raise SceneError("nothing of the mesh is left in its field; use a smaller voxel_size")
    points, share = points[inside], share[inside]
    total = share.sum()
    centre = share @ points / total
    off = points - centre
    second = (off * share[:, None]).T @ off / total
    spread = np.trace(second) * np.eye(3) - second
    volume = float(total * cell ** (3 if flat < 0 else 2))
    return MassProperties(volume, centre, spread, float(np.linalg.norm(off, axis=1).max() + cell))
