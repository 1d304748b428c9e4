"""What triangles carry, per voxel: velocities of a deforming mesh, or any attribute of vertices.

P004 section 5.2: each voxel knows its nearest triangle; the weights of the nearest point on it mix
the values at its corners.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import RunnelError
from ..meshes import Mesh
from .compile import parallel, prange
from .geometry import nearest_weights
from .grid import FieldSettings, SparseField
from .rasterize import field_of_mesh

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Ints = NDArray[np.int32]


def attribute_field(field: SparseField, mesh: Mesh, values: ArrayLike) -> Singles:
    """(leaves, 729, width) of an attribute (vertices, width) of the mesh the field was made of.

    0 where no triangle is known, which is beyond the band.
    """
    given = np.asarray(values, np.float64)
    given = given[:, None] if given.ndim == 1 else given
    if field.index is None or len(given) != len(mesh.vertices):
        raise RunnelError(
            f"{len(given)} values for a mesh of {len(mesh.vertices)} vertices: an attribute needs "
            "one for each vertex, and a field made from that mesh."
        )
    return corner_field(field, mesh, given[mesh.triangles])


def corner_field(field: SparseField, mesh: Mesh, values: Floats) -> Singles:
    """As attribute_field, of values (triangles, 3, width) of each triangle's corners."""
    if field.index is None or values.shape[:2] != mesh.triangles.shape:
        raise RunnelError(
            f"values of {len(values)} triangles for a mesh of {len(mesh.triangles)}: each triangle "
            "needs three, and the field must be made from that mesh."
        )
    places = mesh.vertices / field.voxel - field.origin / field.voxel
    corners = np.ascontiguousarray(places[mesh.triangles].reshape(-1, 9))
    result = np.zeros((field.leaves, 729, values.shape[2]), np.float32)
    spread(field.tiles, field.index, corners, np.ascontiguousarray(values, np.float64), result)
    return result


def with_velocity(field: SparseField, mesh: Mesh, velocities: ArrayLike) -> SparseField:
    """The field with a velocity channel, from velocities of vertices (n, 3) [m/s]."""
    return replace(field, velocity=attribute_field(field, mesh, velocities))


def deform(
    before: Mesh, now: Mesh, dt: float, settings: FieldSettings, previous: SparseField | None = None
) -> SparseField:
    """Field and velocities of a mesh `now` that was `before` a time dt [s] ago.

    Velocities are differences of vertices. If the triangles are not the same ones any more,
    vertices take the velocities of the `previous` field where it knows them, else none; a note
    says so.
    """
    field = field_of_mesh(now, settings)
    if not dt > 0:
        raise RunnelError(f"{settings.name}: dt is {dt:g} s, must be above 0.")
    if same_topology(before, now):
        return with_velocity(field, now, (now.vertices - before.vertices) / dt)
    velocities = np.zeros_like(now.vertices)
    how = "they are taken to be 0"
    if previous is not None and previous.velocity is not None:
        velocities = previous.velocity_at(now.vertices)
        how = "those of the nearest surface of the frame before are used"
    return with_velocity(field, now, velocities).with_notes(
        f"{settings.name}: triangles changed between frames ({len(before.triangles)} to "
        f"{len(now.triangles)}), so velocities are not known; {how}."
    )


def moved(before: SparseField, now: SparseField, dt: float) -> SparseField:
    """The field `now` with the velocity that its surface has along its normal, since it was
    `before` a time dt [s] ago: -dphi/dt n. What it does along itself, distances cannot tell."""
    places = now.voxel_places().reshape(-1, 3)
    normal = np.empty((len(places), 3))
    for axis in range(3):
        step = 0.5 * now.voxel * np.eye(3)[axis]
        normal[:, axis] = now.distance(places + step) - now.distance(places - step)
    normal /= np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-12)
    past = before.distance(places)
    speed = (past - now.distance(places)) / dt
    velocity = (speed[:, None] * normal).astype(np.float32).reshape(*now.values.shape, 3)
    lost = (abs(now.values.ravel()) < now.voxel) & (abs(past) >= 0.999 * before.band)
    made = replace(now, velocity=velocity)
    if not lost.any():
        return made
    return made.with_notes(
        f"the level set moved farther in a frame than its distances reach ({before.band:.3g} m); "
        "fluid may pass through it. More frames per second, or a larger band_width, help."
    )


def same_topology(before: Mesh, now: Mesh) -> bool:
    """Whether the same triangles join the same vertices."""
    return len(before.vertices) == len(now.vertices) and np.array_equal(
        before.triangles, now.triangles
    )


@parallel
def spread(tiles: Ints, index: Ints, corners: Floats, values: Floats, result: Singles) -> None:
    for leaf in prange(len(tiles)):
        for v in range(729):
            t = index[leaf, v]
            if t < 0:
                continue
            x, y, z = float(v % 9), float(v // 9 % 9), float(v // 81)
            x, y, z = x + 8 * tiles[leaf, 0], y + 8 * tiles[leaf, 1], z + 8 * tiles[leaf, 2]
            a, b, c = nearest_weights(corners, t, x, y, z)
            for w in range(values.shape[2]):
                result[leaf, v, w] = a * values[t, 0, w] + b * values[t, 1, w] + c * values[t, 2, w]
