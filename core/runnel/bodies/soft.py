"""Deformable bodies through a step: cloth and soft bodies, docs/theory/bodies.md.

What is solved for are the impulses that the fluid gives their vertices. The shape at the end of a
step follows from where it began, with gravity and these impulses, by constraints.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..backends.base import BODY, BODY_COLUMNS, FIELD, Contributions, Surroundings
from ..collider_fields import field_settings
from ..colliders import Solids
from ..errors import RunnelError, SceneError, SimulationError
from ..fields.grid import SparseField
from ..mesh_formats import weld
from ..meshes import Mesh, read_mesh
from ..motion import Pose, motion_of
from ..params import Collider, MeshFile
from ..scene import Scene
from ..shapes import inside, shape_of
from .constraints import Constraint, Distances, Volume, edges_of
from .neighbours import Neighbours
from .rigid import RigidBodies
from .skin import Skin

Floats = NDArray[np.float64]
Rows = NDArray[np.float32]

SUBSTEPS = 8  # of a step: small ones converge better than many iterations [Macklin 2019]


class SoftBody:
    """One deformable collider."""

    def __init__(self, scene: Scene, index: int) -> None:
        part = scene.colliders[index]
        self.name, self.index, self._scene = part.name, index, scene
        mesh, self._numbers = _read(scene, part, f"collider[{index}]")
        pose = motion_of(part, scene).pose(0.0)
        start = np.ascontiguousarray(pose.to_world(mesh.vertices))
        self.triangles = mesh.triangles
        self._settings = field_settings(scene, replace(part, scale=1.0))
        self.position, self.velocity = start, np.tile(np.array(part.velocity), (len(start), 1))
        masses = self._masses(part, mesh.is_closed())
        self.inverse_mass = np.where(self._pinned(part), 0.0, 1 / masses)
        edges, across = edges_of(self.triangles)
        self.constraints: list[Constraint] = [
            Distances(across, start, part.bend_compliance),
            Distances(edges, start, part.stretch_compliance),
        ]
        if mesh.is_closed():
            self.constraints.append(Volume(self.triangles, start))
        radius = scene.solver.support / 2 * scene.smallest_spacing
        self.skin = Skin(start, self.triangles, self._settings, radius)
        # From the vertices to the surface that fluid meets: others keep that off too.
        self._friction, self._gap = part.contact_friction, self.skin.field.shift
        self._impulse = np.zeros_like(start)  # of the step [kg m/s]
        self.pushed: Floats = np.zeros((0, 6))  # momentum that rigid bodies get of the step
        self._arrived = False

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

    def begin(self, dt: float, gravity: Floats, neighbours: Neighbours) -> None:
        """Predict the shape at the end of a step of length dt [s]."""
        free = (self.inverse_mass > 0)[:, None]
        self._dt, self._neighbours, self._arrived = dt, neighbours, False
        self._start = self.position.copy()
        # All of gravity at once: the mean velocity of the step, which is kept, has all of it then.
        self._given = np.where(free, self.velocity + dt * gravity, 0.0)
        self._impulse[:] = 0.0
        self._solve()
        self.skin.refresh(self.position)
        self._show()

    def _solve(self) -> None:
        """The shape at the end of the step, by constraints; then out of the other solids."""
        x, h = self._start.copy(), self._dt / SUBSTEPS
        v = self._given + self.inverse_mass[:, None] * self._impulse
        order = sorted(self.constraints, key=lambda c: c.importance)
        for _ in range(SUBSTEPS):
            before = x.copy()
            x += h * v
            for constraint in order:
                constraint.project(x, self.inverse_mass, h)
            v = (x - before) / h
        if not np.isfinite(x).all():
            raise SimulationError(f"body {self.name!r} has no finite shape any more.")
        free = (self.inverse_mass > 0)[:, None]
        self.pushed, calm = self._neighbours.part(
            x, self._start, self.inverse_mass, self._gap, self._friction
        )
        self.position = x
        self.velocity = np.where(free, (x - calm - self._start) / self._dt, 0.0)

    def _show(self) -> None:
        self.skin.follow(self.position, self.velocity)

    def weigh(self, around: Surroundings, slope: Floats, bold: float) -> None:
        """Take in what the fluid around can push by."""
        self.skin.weigh(around, self.position, self.inverse_mass, slope, bold)
        self._show()

    def take(self, places: Floats, given: Floats) -> None:
        """Momentum from particles at places, to the vertices of the nearest triangles [kg m/s]."""
        corners, weights = self.skin.weights(self.position, places)
        pushed = np.empty_like(self.position)
        for axis in range(3):
            parts = weights * given[:, axis : axis + 1]
            pushed[:, axis] = np.bincount(
                corners.reshape(-1), parts.reshape(-1), len(self.position)
            )
        if self._arrived:
            self.velocity += self.inverse_mass[:, None] * pushed
        else:
            self._impulse += pushed
            self._solve()
        self._show()

    def arrive(self) -> None:
        """Corrections are done: from now on velocities change, places do not."""
        self._arrived = True


class SoftBodies:
    """The bodies of a scene with body = "deformable"; numbered after its rigid ones."""

    def __init__(self, scene: Scene, solids: Solids, rigid: RigidBodies | None) -> None:
        self._solids = solids
        self._neighbours = Neighbours(scene, solids, rigid)
        self._pushed = np.zeros((0, 6))  # what rigid bodies have got of the step so far
        parts = [i for i, c in enumerate(scene.colliders) if c.body == "deformable"]
        self.first = sum(c.body == "rigid" for c in scene.colliders)
        self.bodies = [SoftBody(scene, i) for i in parts]

    def __len__(self) -> int:
        return len(self.bodies)

    def __getitem__(self, name: str) -> SoftBody:
        for body in self.bodies:
            if body.name == name:
                return body
        raise RunnelError(f"There is no deformable body {name!r}.")

    @property
    def table(self) -> Rows:
        """They yield by vertices, not as a whole: Skin.yields."""
        return np.zeros((len(self), BODY_COLUMNS), np.float32)

    def leave_room(self, positions: Rows, volumes: Rows) -> NDArray[np.bool_]:
        """Which particles of a filled volume do not lie within a body at the start."""
        radius = 0.5 * np.cbrt(volumes.reshape(-1).astype(np.float64))
        free = np.ones(len(positions), bool)
        for body in self.bodies:
            free &= body.skin.field.distance(positions) > 0.9 * radius
        return free

    def begin(self, end: float, dt: float, gravity: Rows) -> None:
        self._neighbours.begin(end, dt)
        self._pushed = np.zeros((self.first, 6))
        for body in self.bodies:
            body.begin(dt, gravity.astype(np.float64), self._neighbours)
        self._tell_rigid()

    def _tell_rigid(self) -> None:
        """Hand on what contacts of the step, as it stands, give to rigid bodies."""
        if self.first:
            total = sum((body.pushed for body in self.bodies), np.zeros((self.first, 6)))
            self._neighbours.push(total - self._pushed)
            self._pushed = total

    def rows(self, base: Rows) -> Rows:
        rows = base.copy()
        ahead = len(self._solids.fields)
        for k, body in enumerate(self.bodies):
            row = rows[body.index]
            assert row[0] == FIELD
            row[5:8], row[8:17], row[17:26] = (1, 0, 0), np.eye(3).ravel(), 0.0
            row[26:28], row[30] = ahead + k, body.skin.moved
            row[BODY] = self.first + k + 1
        return rows

    def fields(self, base: Sequence[SparseField]) -> tuple[SparseField, ...]:
        """With those of the bodies behind them: several bodies may be of one file."""
        return (*base, *(body.skin.field for body in self.bodies))

    def weigh(self, around: Surroundings, slope: Floats, bold: float) -> None:
        for body in self.bodies:
            body.weigh(around, slope, bold)

    def take(self, found: Contributions) -> bool:
        """Take in what particles gave [kg m/s]; whether that was anything."""
        for k, body in enumerate(self.bodies):
            own = found.bodies == self.first + k
            if own.any():
                body.take(found.places[own], found.given[own])
        self._tell_rigid()
        return bool(len(found.bodies))

    def arrive(self) -> None:
        for body in self.bodies:
            body.arrive()

    def meshes(self) -> dict[str, Mesh]:
        """By collider, in the world."""
        return {
            body.name or f"collider_{body.index}": Mesh(body.position.copy(), body.triangles)
            for body in self.bodies
        }

    def shapes(self) -> dict[int, tuple[SparseField, Floats]]:
        """By number of the collider: its field, and the vertices of its file, in the world."""
        return {b.index: (b.skin.field, b.position[b._numbers]) for b in self.bodies}

    def speed(self) -> float:
        """Of the fastest vertex [m/s]."""
        return max(float(np.linalg.norm(b.velocity, axis=1).max()) for b in self.bodies)

    def state(self) -> dict[str, NDArray[Any]]:
        """All that the next step depends on."""
        arrays: dict[str, NDArray[Any]] = {}
        for k, body in enumerate(self.bodies):
            arrays[f"soft_position_{k}"] = body.position.copy()
            arrays[f"soft_velocity_{k}"] = body.velocity.copy()
            arrays[f"soft_made_at_{k}"] = body.skin.made_at.copy()
            arrays[f"soft_yields_{k}"] = body.skin.yields.copy()
        return arrays

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        for k, body in enumerate(self.bodies):
            position, velocity, made_at, yields = (
                np.array(arrays[f"soft_{name}_{k}"], np.float64)
                for name in ("position", "velocity", "made_at", "yields")
            )
            body.position, body.velocity, body.skin.yields = position, velocity, yields
            body.skin.make(made_at)

    def momentum(self) -> Floats:
        """Of what is not pinned [kg m/s]."""
        return self.momenta()[0]

    def momenta(self) -> tuple[Floats, Floats]:
        """Of what is not pinned: linear [kg m/s], angular about the origin [kg m^2/s]."""
        linear, angular = np.zeros(3), np.zeros(3)
        for body in self.bodies:
            free = body.inverse_mass > 0
            each = body.velocity[free] / body.inverse_mass[free, None]
            linear += each.sum(axis=0)
            angular += np.cross(body.position[free], each).sum(axis=0)
        return linear, angular


def _read(scene: Scene, part: Collider, key: str) -> tuple[Mesh, NDArray[np.int64]]:
    """The mesh with its vertices welded, and which of them each vertex of the file is."""
    if not isinstance(part.shape, MeshFile) or part.shape.is_sequence or scene.dimensions == 2:
        raise SceneError(
            "a deformable body is one mesh, in 3D", key=f"{key}.shape", value=part.body
        )
    path = scene.mesh_path(part.shape)
    if path.suffix.lower() == ".vdb":
        raise SceneError("a deformable body needs a mesh, not a .vdb", key=f"{key}.shape.mesh")
    file = read_mesh(path)
    mesh = file.welded
    if part.mode == "inside" or (part.mode == "outside" and not mesh.is_closed()):
        raise SceneError(
            'a deformable body is cloth, mode = "shell", or a closed mesh, mode = "outside"',
            key=f"{key}.mode",
            value=part.mode,
        )
    return mesh, weld(file.vertices)[1].astype(np.int64)
