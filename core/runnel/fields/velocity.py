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
from .flow import Flow
from .geometry import nearest_weights
from .grid import FieldSettings, SparseField
from .rasterize import field_of_mesh

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Ints = NDArray[np.int32]

# Share of a level set's speeds that a rigid motion explains: from none of it is believed, to all.
_NOT_RIGID, _RIGID = 0.95, 0.99
_CERTAIN = 0.97  # length of a gradient that is one, cosine of normals that are the same
_HIDDEN = 0.05  # relative size of what speeds along the normal hardly show


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
    vertices take the velocities of the `previous` field where it has them; without one, they are
    those of a level set (see moved). A note says so.
    """
    field = field_of_mesh(now, settings)
    if not dt > 0:
        raise RunnelError(f"{settings.name}: dt is {dt:g} s, must be above 0.")
    if same_topology(before, now):
        return with_velocity(field, now, (now.vertices - before.vertices) / dt)
    if previous is not None and previous.velocity is not None:
        made = with_velocity(field, now, previous.velocity_at(now.vertices))
        how = "those of the nearest surface of the frame before are used"
    else:
        made = moved(field_of_mesh(before, settings), field, dt)
        how = "they are found from how distances change, of a whole that turns or grows"
    return made.with_notes(
        f"{settings.name}: triangles changed between frames ({len(before.triangles)} to "
        f"{len(now.triangles)}), so velocities are not known; {how}."
    )


def moved(
    before: SparseField, now: SparseField, dt: float, given: Flow | None = None
) -> SparseField:
    """The field `now` with the velocities of its surface, since it was `before` a time dt [s] ago.

    Along the normal that is -dphi/dt. What the surface does along itself, distances do not tell: it
    is taken from the velocities `given`, where they are known, else from the shift, turn and growth
    that explain the speeds along the normal. Where none do, it is nothing.
    """
    places = now.voxel_places().reshape(-1, 3)
    (normal, sure), (normal_before, sure_before) = (_normals(f, places) for f in (now, before))
    past, present = before.distance(places), now.values.reshape(-1).astype(np.float64)
    speed = (past - now.distance(places)) / dt
    nearest = places - present[:, None] * normal
    # Not at edges, where a place is near another face than it was.
    same_face = sure & sure_before & ((normal * normal_before).sum(axis=1) > _CERTAIN)
    surface = same_face & (abs(present) < now.voxel)
    whole = _whole_motion(nearest, normal, speed, surface)
    if given is not None:
        exact, known = given.at(nearest)
        whole = np.where(known[:, None] > 0.5, exact / np.maximum(known, 0.5)[:, None], whole)
    along = whole - (whole * normal).sum(axis=1, keepdims=True) * normal
    velocity = (speed[:, None] * normal + along).astype(np.float32)
    made = replace(now, velocity=velocity.reshape(*now.values.shape, 3))
    lost = (abs(present) < now.voxel) & (abs(past) >= 0.999 * before.band)
    if not lost.any():
        return made
    return made.with_notes(
        f"the level set moved farther in a frame than its distances reach ({before.band:.3g} m); "
        "fluid may pass through it. More frames per second, or a larger band_width, help."
    )


def _normals(field: SparseField, places: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """Gradients of unit length, and where they had it before: at edges they are mixed."""
    slope = np.empty((len(places), 3))
    for axis in range(3):
        step = 0.5 * field.voxel * np.eye(3)[axis]
        slope[:, axis] = field.distance(places + step) - field.distance(places - step)
    length = np.linalg.norm(slope, axis=1) / field.voxel
    return slope / (field.voxel * np.maximum(length, 1e-12))[:, None], length > _CERTAIN


def _whole_motion(
    places: Floats, normal: Floats, speed: Floats, surface: NDArray[np.bool_]
) -> Floats:
    """Velocities (n, 3) of the shift, turn and growth whose parts along the normals are nearest to
    the speeds at the surface; faded out where these are not such a motion."""
    n, wanted = normal[surface], speed[surface]
    total = float((wanted**2).sum())
    if not total > 0:
        return np.zeros_like(places)
    centre = places[surface].mean(axis=0)
    arms = places - centre
    arms /= max(float(abs(arms[surface]).max()), 1e-12)
    # n . (t + w x r + g r) for t, w, g; what a shape hides, as the spin of a ball, stays 0.
    r = arms[surface]
    columns = np.column_stack([n, np.cross(r, n), (n * r).sum(axis=1)])
    fit = np.linalg.lstsq(columns, wanted, rcond=_HIDDEN)[0]
    explained = 1.0 - float(((columns @ fit - wanted) ** 2).sum()) / total
    share = min(max((explained - _NOT_RIGID) / (_RIGID - _NOT_RIGID), 0.0), 1.0)
    return share * (fit[:3] + np.cross(fit[3:6], arms) + fit[6] * arms)


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
