"""Deformable bodies: cloth and soft bodies by extended position-based dynamics (XPBD, Macklin et
al. 2016), moved by the fluid through the triangles it meets (P004 5.3). docs/theory/bodies.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..backends.base import BODY, BODY_COLUMNS, FIELD, Contributions
from ..backends.reference.compile import serial
from ..backends.reference.field import world_of
from ..backends.reference.solids import signed_distances
from ..collider_fields import field_settings
from ..colliders import Solids
from ..errors import RunnelError, SceneError, SimulationError
from ..fields.geometry import nearest_weights
from ..fields.grid import SparseField
from ..fields.rasterize import field_of_mesh
from ..fields.velocity import with_velocity
from ..fields.walls import with_walls
from ..meshes import Mesh, read_mesh
from ..motion import Pose, motion_of
from ..params import Collider, MeshFile
from ..scene import Scene
from ..shapes import inside, shape_of

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Rows = NDArray[np.float32]

SUBSTEPS = 8  # of a step: small ones converge better than many iterations [Macklin 2019]
SHARED = (
    0.5  # of the mass of particles at a vertex, that shares its velocity: docs/theory/bodies.md
)


class Constraint(Protocol):
    """What holds vertices together. Users may add their own: RunnelError tells of bad ones."""

    importance: float  # those of higher importance act later in a substep, so they win

    def project(self, positions: Floats, inverse_mass: Floats, dt: float) -> None:
        """Move positions (n, 3) [m], in place, towards holding; dt: of the substep [s]."""


@serial
def project_distances(
    x: Floats, w: Floats, pairs: Ints, lengths: Floats, compliance: float, dt: float
) -> None:
    alpha = compliance / (dt * dt)
    for k in range(len(pairs)):
        i, j = pairs[k, 0], pairs[k, 1]
        total = w[i] + w[j] + alpha
        d0, d1, d2 = x[i, 0] - x[j, 0], x[i, 1] - x[j, 1], x[i, 2] - x[j, 2]
        length = np.sqrt(d0 * d0 + d1 * d1 + d2 * d2)
        if w[i] + w[j] == 0.0 or length < 1e-12:
            continue
        by = (lengths[k] - length) / (total * length)
        for axis, d in ((0, d0), (1, d1), (2, d2)):
            x[i, axis] += w[i] * by * d
            x[j, axis] -= w[j] * by * d


class Distances:
    """Pairs of vertices keep their distance; `compliance` [m/N] lets them give way."""

    def __init__(
        self, pairs: Ints, positions: Floats, compliance: float, importance: float = 0.0
    ) -> None:
        self.pairs, self.compliance, self.importance = pairs, compliance, importance
        apart = positions[pairs[:, 0]] - positions[pairs[:, 1]]
        self.lengths = np.linalg.norm(apart, axis=1)

    def project(self, positions: Floats, inverse_mass: Floats, dt: float) -> None:
        project_distances(positions, inverse_mass, self.pairs, self.lengths, self.compliance, dt)


class Volume:
    """A closed mesh keeps its volume."""

    importance = 1.0

    def __init__(self, triangles: NDArray[np.int32], positions: Floats) -> None:
        self._triangles = triangles
        self._rest = self._volume(positions)[0]

    def _volume(self, x: Floats) -> tuple[float, Floats]:
        """Volume [m^3] and its gradient by vertices."""
        corners = (x - x.mean(axis=0))[self._triangles]
        a, b, c = corners[:, 0], corners[:, 1], corners[:, 2]
        gradient = np.zeros_like(x)
        for k, part in enumerate((np.cross(b, c), np.cross(c, a), np.cross(a, b))):
            np.add.at(gradient, self._triangles[:, k], part / 6)
        return float(np.einsum("ij,ij->", a, np.cross(b, c)) / 6), gradient

    def project(self, positions: Floats, inverse_mass: Floats, dt: float) -> None:
        volume, gradient = self._volume(positions)
        total = float(inverse_mass @ np.sum(gradient**2, axis=1))
        if total > 0:
            positions += (inverse_mass * (self._rest - volume) / total)[:, None] * gradient


class SoftBody:
    """One deformable collider."""

    def __init__(self, scene: Scene, index: int) -> None:
        part = scene.colliders[index]
        self.name, self.index, self._scene = part.name, index, scene
        mesh = _read(scene, part, f"collider[{index}]")
        pose = motion_of(part, scene).pose(0.0)
        start = np.ascontiguousarray(pose.to_world(mesh.vertices))
        self.triangles = mesh.triangles
        self._settings = field_settings(scene, replace(part, scale=1.0))
        self._radius = scene.solver.support / 2 * scene.smallest_spacing
        self.position, self.velocity = start, np.tile(np.array(part.velocity), (len(start), 1))
        masses = self._masses(part, mesh.is_closed())
        self.inverse_mass = np.where(self._pinned(part), 0.0, 1 / masses)
        edges, across = _edges(self.triangles)
        self.constraints: list[Constraint] = [
            Distances(across, start, part.bend_compliance),
            Distances(edges, start, part.stretch_compliance),
        ]
        if mesh.is_closed():
            self.constraints.append(Volume(self.triangles, start))
        self.field = self._rasterized()

    def _masses(self, part: Collider, closed: bool) -> Floats:
        mesh = Mesh(self.position, self.triangles)
        corners = self.position[self.triangles]
        sides = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        areas = 0.5 * np.linalg.norm(sides, axis=1)
        volume = abs(mesh.volume()) if closed else 2 * self._settings.half_thickness * areas.sum()
        total = part.density * volume if part.mass is None else part.mass
        masses = np.full(len(self.position), 1e-9 * total)
        for k in range(3):
            np.add.at(masses, self.triangles[:, k], total * areas / areas.sum() / 3)
        return masses

    def _pinned(self, part: Collider) -> NDArray[np.bool_]:
        if part.pin is None:
            return np.zeros(len(self.position), bool)
        held: NDArray[np.bool_] = inside(
            shape_of(part.pin, self._scene.directory), Pose(), self.position, -1
        )
        return held

    def _rasterized(self) -> SparseField:
        mesh = Mesh(self.position, self.triangles)
        field = with_velocity(field_of_mesh(mesh, self._settings), mesh, self.velocity)
        return with_walls(field, self._radius)

    def advance(self, dt: float, gravity: Floats, solids: Any) -> None:
        """Constraints and gravity for a step, then out of the other solids."""
        start, x, h = self.position.copy(), self.position, dt / SUBSTEPS
        free = (self.inverse_mass > 0)[:, None]
        # All of gravity at once: the mean velocity of the step, which is kept, has all of it then.
        v = np.where(free, self.velocity + dt * gravity, 0.0)
        order = sorted(self.constraints, key=lambda c: c.importance)
        for _ in range(SUBSTEPS):
            before = x.copy()
            x += h * np.where(free, v, 0.0)
            for constraint in order:
                constraint.project(x, self.inverse_mass, h)
            v = (x - before) / h
        if not np.isfinite(x).all():
            raise SimulationError(f"body {self.name!r} has no finite shape any more.")
        phi, normals = signed_distances(solids, x)
        for k in range(phi.shape[1]):
            into = np.maximum(self._settings.half_thickness - phi[:, k], 0.0)[:, None] * free
            x += into * normals[:, k]
        self.velocity = np.where(free, (x - start) / dt, 0.0)
        self.field = self._rasterized()

    def take(self, places: Floats, masses: Floats, given: Floats) -> Floats:
        """Momentum from particles at places, of these masses (each once), to the vertices of the
        nearest triangles by barycentric weights. Returns the share that the body took.

        Body and fluid meet as in an inelastic impact: a light vertex takes only what brings it to
        the common velocity with the particles at it, the rest goes back to them.
        """
        nearest = self.field.nearest(places)
        near = np.maximum(nearest, 0)
        weights = weights_of(self.position[self.triangles[near]].reshape(-1, 9), places)
        weights[nearest < 0] = 0.0
        corners = self.triangles[near]
        n = len(self.position)
        touching, pushed = np.zeros(n), np.zeros((n, 3))
        for k in range(3):
            np.add.at(touching, corners[:, k], weights[:, k] * masses)
        share = 1 / (1 + SHARED * self.inverse_mass * touching)
        for k in range(3):
            part = weights[:, k] * share[corners[:, k]]
            np.add.at(pushed, corners[:, k], part[:, None] * given)
        self.velocity += self.inverse_mass[:, None] * pushed
        taken: Floats = np.einsum("pk,pk->p", weights, share[corners])
        return taken


class SoftBodies:
    """The bodies of a scene with body = "deformable"; numbered after its rigid ones."""

    def __init__(self, scene: Scene, solids: Solids) -> None:
        self._scene, self._solids = scene, solids
        parts = [i for i, c in enumerate(scene.colliders) if c.body == "deformable"]
        self.first = sum(c.body == "rigid" for c in scene.colliders)
        self.bodies = [SoftBody(scene, i) for i in parts]
        self._moved = [
            i for i, c in enumerate(scene.colliders) if c.body in ("rigid", "deformable")
        ]
        self._dt = 0.0
        self._numbers: list[int] = []  # of their fields, in the rows
        self._taken: list[Contributions] = []

    def __len__(self) -> int:
        return len(self.bodies)

    def __getitem__(self, name: str) -> SoftBody:
        for body in self.bodies:
            if body.name == name:
                return body
        raise RunnelError(f"There is no deformable body {name!r}.")

    @property
    def table(self) -> Rows:
        """They yield only at the end of a step: `finish`."""
        return np.zeros((len(self), BODY_COLUMNS), np.float32)

    def begin(self, end: float, dt: float, gravity: Rows) -> None:
        self._dt, self._taken = dt, []
        rows = self._solids.rows(end, dt)
        others = np.array([i for i in range(len(rows)) if i not in self._moved], int)
        world = world_of(rows, self._solids.fields, self._scene.ignored_axis)
        world = world._replace(rows=np.ascontiguousarray(world.rows[others]))
        for body in self.bodies:
            body.advance(dt, gravity.astype(np.float64), world)

    def rows(self, base: Rows) -> Rows:
        rows = base.copy()
        self._numbers = [int(base[body.index, 26]) for body in self.bodies]
        for k, body in enumerate(self.bodies):
            row = rows[body.index]
            assert row[0] == FIELD
            row[5:8], row[8:17], row[17:26] = (1, 0, 0), np.eye(3).ravel(), 0.0
            row[BODY] = self.first + k + 1
        return rows

    def fields(self, base: Sequence[SparseField]) -> tuple[SparseField, ...]:
        """With those of the bodies in the places of those of their files."""
        fields = list(base)
        for body, number in zip(self.bodies, self._numbers, strict=True):
            fields[number] = body.field
        return tuple(fields)

    def take(self, given: Contributions) -> None:
        """What the particles gave in a pass: Backend.contributions [kg m/s]."""
        if len(given.ids):
            self._taken.append(given)

    def finish(self, read: Any, write: Any) -> None:
        """Hand it to the vertices, and what they do not take back to the particles."""
        if not self._taken:
            return
        merged = Contributions(*(np.concatenate(a) for a in zip(*self._taken, strict=True)))
        ids, velocity = read("id").reshape(-1), read("velocity")
        order = np.argsort(ids, kind="stable")
        for k, body in enumerate(self.bodies):
            own = merged.bodies == self.first + k
            if not own.any():
                continue
            names, first, back = np.unique(merged.ids[own], return_index=True, return_inverse=True)
            given = np.zeros((len(names), 3))
            np.add.at(given, back, merged.given[own])
            masses = merged.masses[own][first]
            shares = body.take(merged.places[own][first], masses, given)
            place = np.minimum(np.searchsorted(ids, names, sorter=order), len(ids) - 1)
            rows = order[place]
            alive = ids[rows] == names
            change = ((1 - shares) / masses)[:, None] * given
            velocity[rows[alive]] += change[alive].astype(np.float32)
        write("velocity", velocity)

    def meshes(self) -> dict[str, Mesh]:
        """By collider, in the world."""
        return {
            body.name or f"collider_{body.index}": Mesh(body.position.copy(), body.triangles)
            for body in self.bodies
        }

    def speed(self) -> float:
        """Of the fastest vertex [m/s]."""
        return max(float(np.linalg.norm(b.velocity, axis=1).max()) for b in self.bodies)

    def state(self) -> dict[str, NDArray[Any]]:
        return {
            f"soft_{name}_{k}": getattr(body, name).copy()
            for k, body in enumerate(self.bodies)
            for name in ("position", "velocity")
        }

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        for k, body in enumerate(self.bodies):
            for name in ("position", "velocity"):
                setattr(body, name, np.array(arrays[f"soft_{name}_{k}"], np.float64))

    def momentum(self) -> Floats:
        """Of what is not pinned [kg m/s]."""
        total = np.zeros(3)
        for body in self.bodies:
            free = body.inverse_mass > 0
            total += (body.velocity[free] / body.inverse_mass[free, None]).sum(axis=0)
        return total


def _read(scene: Scene, part: Collider, key: str) -> Mesh:
    if not isinstance(part.shape, MeshFile) or part.shape.is_sequence or scene.dimensions == 2:
        raise SceneError(
            "a deformable body is one mesh, in 3D", key=f"{key}.shape", value=part.body
        )
    path = scene.mesh_path(part.shape)
    if path.suffix.lower() == ".vdb":
        raise SceneError("a deformable body needs a mesh, not a .vdb", key=f"{key}.shape.mesh")
    mesh = read_mesh(path).welded
    if part.mode == "inside" or (part.mode == "outside" and not mesh.is_closed()):
        raise SceneError(
            'a deformable body is cloth, mode = "shell", or a closed mesh, mode = "outside"',
            key=f"{key}.mode",
            value=part.mode,
        )
    return mesh


def _edges(triangles: NDArray[np.int32]) -> tuple[Ints, Ints]:
    """Edges, and pairs of vertices that face each other across one: those that bending keeps."""
    sides = np.concatenate([triangles[:, [0, 1]], triangles[:, [1, 2]], triangles[:, [2, 0]]])
    facing = np.concatenate([triangles[:, 2], triangles[:, 0], triangles[:, 1]])
    sides = np.sort(sides.astype(np.int64), axis=1)
    order = np.lexsort((sides[:, 1], sides[:, 0]))
    sides, facing = sides[order], facing[order].astype(np.int64)
    same = (sides[1:] == sides[:-1]).all(axis=1)
    across = np.stack([facing[:-1][same], facing[1:][same]], axis=1)
    return np.unique(sides, axis=0), across[across[:, 0] != across[:, 1]]


@serial
def weights_of(corners: Floats, places: Floats) -> Floats:
    """Barycentric weights (n, 3) of the points of triangles (n, 9) nearest to places (n, 3)."""
    result = np.empty((len(places), 3))
    for i in range(len(places)):
        result[i] = nearest_weights(corners, i, places[i, 0], places[i, 1], places[i, 2])
    return result
