"""Rigid bodies through a step: docs/theory/bodies.md.

A step's velocities are what is solved for. Gravity, the fluid's pushes and contacts change them,
and the pose follows from where the step began: x = x0 + dt v.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..backends.base import BODY, BODY_COLUMNS, Rim, same_fields
from ..backends.reference.field import World, world_of
from ..backends.reference.solids import signed_distances
from ..colliders import Solids
from ..errors import SceneError, SimulationError
from ..meshes import Mesh, read_mesh
from ..motion import Motion, Pose, motion_of
from ..params import Collider, MeshFile, Plane
from ..scene import Scene
from . import contacts, moving
from .film import Films
from .mass import MassProperties, mass_properties
from .points import surface_points
from .turning import matrix_of, quaternion_of, turned

Floats = NDArray[np.float64]
Rows = NDArray[np.float32]

SWEEPS = 60  # over the contacts ahead of the fluid's first push, at most
AGAIN = 12  # after each of its pushes
REST = 0.5  # [s] of calm, out of the fluid, before a body sleeps
CALM = 0.02  # speed over sqrt(g reach) below which a body is calm
NEAR = 0.02  # of a body's reach: gaps that count as touching


class RigidBodies:
    """The bodies of a scene with body = "rigid", in the order of its colliders."""

    def __init__(self, scene: Scene, solids: Solids) -> None:
        self._scene, self._solids = scene, solids
        self._parts = [i for i, c in enumerate(scene.colliders) if c.body == "rigid"]
        self._numbers = np.array(self._parts, np.int64)
        rows = self._all_rows(solids.rows(0.0, 0.0))
        self._known = solids.fields
        self._world = world_of(rows, self._known, scene.ignored_axis)
        own = [self._weighed(i) for i in self._parts]
        self._of_body = [scene.colliders[i] for i in self._parts]
        self._start_rows = rows[self._parts].astype(np.float64)
        self._start = np.array([p.centre for p in own]).reshape(-1, 3)
        self.names = [c.name for c in self._of_body]
        self.mass = np.array([_mass(c, p) for c, p in zip(self._of_body, own, strict=True)])
        self._inertia = np.array(
            [m * p.spread for m, p in zip(self.mass, own, strict=True)]
        ).reshape(-1, 3, 3)  # at the start
        self._inverse_start = np.linalg.inv(self._inertia)
        self._principal_start, self._axes_start = np.linalg.eigh(self._inverse_start)
        self._reach = np.array([p.reach for p in own])
        self._motions = [self._motion(c) for c in self._of_body]
        self._friction = np.array(
            [c.contact_friction for c in scene.colliders]
            + [0.0] * (len(rows) - len(scene.colliders))
        )
        soft = [i for i, c in enumerate(scene.colliders) if c.body == "deformable"]
        self._met = np.setdiff1d(np.arange(len(rows)), soft)  # rows; bodies do not meet soft ones
        self._deforming = [
            i
            for i, c in enumerate(scene.colliders)
            if isinstance(c.shape, MeshFile) and c.shape.is_sequence
        ]
        self._gather_points()
        self._films = Films(
            self._world, self._parts, self._start, self._reach, scene.largest_spacing
        )
        n = len(self._parts)
        self.centre = self._start.copy()
        self.quaternion = np.tile([1.0, 0.0, 0.0, 0.0], (n, 1))  # turn since the start
        self.velocity = np.array([c.velocity for c in self._of_body], float).reshape(-1, 3)
        self.calm = np.zeros(n)  # [s]
        self._rotation = np.tile(np.eye(3), (n, 1, 1))
        self._driven = np.zeros(n, bool)
        self._read_locks()
        self._update_inertia()
        turn = np.radians([c.angular_velocity for c in self._of_body]).reshape(-1, 3)
        self.spin = np.einsum("nij,nj->ni", self._inertia, turn)  # angular momentum
        self._take(np.zeros((len(self), 6)))
        self._place_driven(0.0, 0.0)
        self._from = (self.centre.copy(), self.quaternion.copy())
        self._dt, self._arrived = 0.0, False
        self._contacts = np.zeros((contacts.MOST, contacts.COLUMNS))
        self._pairs = np.zeros((contacts.MOST, 2), np.int64)
        self._count = 0
        self._wet = np.zeros(n, bool)
        self._coefficients = np.zeros((n, 12))
        self._table = np.zeros((n, BODY_COLUMNS), np.float32)

    def __len__(self) -> int:
        return len(self._parts)

    # --- what they are -------------------------------------------------------------------------

    def _all_rows(self, rows: Rows) -> Rows:
        """With the numbers of the bodies."""
        rows = rows.copy()
        rows[self._parts, BODY] = 1 + np.arange(len(self._parts))
        return rows

    def _weighed(self, index: int) -> MassProperties:
        part = self._scene.colliders[index]
        key = f"collider[{index}]"
        if part.mode != "outside" or isinstance(part.shape, Plane):
            raise SceneError(
                'a rigid body is solid and has an end: mode = "outside", and no plane',
                key=f"{key}.body",
                value=part.body,
            )
        bounds = (np.zeros(3), np.zeros(3))
        if isinstance(part.shape, MeshFile):
            if part.shape.is_sequence:
                raise SceneError("a rigid body cannot deform", key=f"{key}.shape.mesh")
            bounds = self._mesh(part.shape, key).bounds
            margin = float(np.max(bounds[1] - bounds[0])) * 0.02
            bounds = (bounds[0] - margin, bounds[1] + margin)
        try:
            return mass_properties(self._world, index, bounds)
        except SceneError as error:
            error.key = error.key or f"{key}.shape"
            raise

    def _mesh(self, shape: MeshFile, key: str) -> Mesh:
        path = self._scene.mesh_path(shape)
        if path.suffix.lower() == ".vdb":
            raise SceneError("a rigid body needs a mesh, not a .vdb", key=f"{key}.shape.mesh")
        mesh = read_mesh(path)
        try:
            mesh.require_closed(path)
        except SceneError as error:
            error.key = f"{key}.shape.mesh"
            raise
        return mesh

    def _motion(self, part: Collider) -> Motion | None:
        return motion_of(part, self._scene) if part.motion else None

    def _gather_points(self) -> None:
        found = [surface_points(self._world, i, self._vertices(i)) for i in self._parts]
        self._owner = np.repeat(np.arange(len(found)), [len(p) for p, _, _ in found])
        points = [p - self._start[k] for k, (p, _, _) in enumerate(found)]
        self._points = np.concatenate([np.zeros((0, 3)), *points])  # about the centre, at the start
        self._radii = np.concatenate([np.zeros(0), *(r for _, r, _ in found)])
        self._holds = np.concatenate([np.zeros(0, np.int64), *(h for _, _, h in found)])
        least = [float(r.min()) for _, r, _ in found]
        self._slop = 0.05 * np.array(least)

    def _vertices(self, index: int) -> Floats | None:
        part = self._scene.colliders[index]
        if not isinstance(part.shape, MeshFile):
            return None
        row = self._world.rows[index]
        local = self._mesh(part.shape, f"collider[{index}]").vertices
        world: Floats = row[5] * local @ row[8:17].reshape(3, 3) + row[17:20]
        return world

    def leave_room(self, positions: Rows, volumes: Rows) -> NDArray[np.bool_]:
        """Which particles of a filled volume do not lie within a body at the start."""
        rows = self._solids.rows(0.0, 0.0).astype(np.float64)
        rows = self._posed(rows, *self._from)[self._parts]
        phi, _ = signed_distances(self._world._replace(rows=rows), positions)
        radius = 0.5 * volumes.reshape(-1).astype(np.float64) ** (1 / self._scene.dimensions)
        free: NDArray[np.bool_] = phi.min(axis=1) > 0.9 * radius
        return free

    # --- a step --------------------------------------------------------------------------------

    def begin(self, start: float, dt: float, gravity: Rows) -> None:
        """Predict velocities and find contacts, for a step from `start` [s]."""
        self._dt, self._end, self._arrived = dt, start + dt, False
        self._from = (self.centre.copy(), self.quaternion.copy())
        self._driven = np.array([self._is_driven(k, start) for k in range(len(self))], bool)
        self._wake(float(np.linalg.norm(gravity)))
        still = self._driven | (self.calm >= REST)
        self._update_inertia(still)
        self.velocity[still] = 0.0
        self.spin[still] = 0.0
        free = ~still
        self.velocity[free] += dt * gravity.astype(np.float64)
        self._take(np.zeros((len(self), 6)))
        self._place_driven(start, dt)
        self._gravity = gravity.astype(np.float64)
        self._find_films(*self._find_contacts(float(np.linalg.norm(gravity))))
        self._solve(SWEEPS)
        self._coefficients[:] = 0.0
        self._fill_table()

    @property
    def flush(self) -> NDArray[np.int64]:
        """Bodies that lie flush on something, for Backend.rim; often none."""
        return self._films.bodies

    def soak(self, rim: Rim) -> NDArray[np.uint32]:
        """Take in what is around these: rows whose pressure `press` wants to know."""
        self._films.fill(rim, self._gravity)
        if self._films.wet:
            self.strike(self._dt * self._films.at_rest())
        return self._films.rows

    def press(self, pressure: Floats) -> Floats:
        """What films get by the pressure times dt^2 of these rows [kg/m], less what they had: as
        Backend.reactions gives it after a correction."""
        return self._films.pushes(pressure)

    def weigh(self, loads: Floats, film_scale: float) -> None:
        """Take in what the fluid around can push by: Backend.weigh_bodies. film_scale: of what
        films can, that a sum of volumes times gradients stands for."""
        if self._films.wet:
            loads[:, :6] += film_scale * self._films.loads(self._frame)
        self._wet = loads[:, 6:9].sum(axis=1) > 0
        inverse = np.concatenate((self._mobility, self._principal), axis=1)
        self._coefficients = np.concatenate(
            (2 * loads[:, :6] * inverse, loads[:, 6:] * inverse), axis=1
        )
        self._fill_table()

    def arrive(self) -> None:
        """Corrections are done: from now on things act where the step ends."""
        self._final = self._moved()
        self._arrived = True
        self._fill_table()

    def strike(self, momentum: Floats) -> None:
        """Momentum that the fluid gave back [kg m/s], about the centres as the table has them."""
        self._take(momentum)
        self._solve(AGAIN)

    def mobility_at(self, k: int, places: Floats, ways: Floats) -> Floats:
        """Inverse of the mass that body k has at places (n, 3) along unit ways (n, 3) [1/kg]."""
        arms = np.cross(places - self._moved()[0][k], ways)
        mobility: Floats = ways**2 @ self._mobility[k]
        return mobility + np.einsum("ni,ij,nj->n", arms, self._inverse[k], arms)

    def touch(self, momentum: Floats) -> None:
        """Momentum from deformable bodies, as of `strike`, about the origin; it wakes."""
        hit = (momentum != 0).any(axis=1)
        if hit.any():
            self.calm[hit] = 0.0
            centre = self._moved()[0] if self._arrived else self._from[0]
            turn = momentum[:, 3:] - np.cross(centre, momentum[:, :3])
            self.strike(np.concatenate((momentum[:, :3], turn), axis=1))

    def finish(self) -> None:
        """Take over the pose of the step; part what overlaps; put to sleep what rests."""
        self.spin[self._driven_spin[0]] = self._driven_spin[2]
        self.centre, self.quaternion = self._moved()
        if self._count:
            moved, turns = np.zeros_like(self.velocity), np.zeros_like(self.spin)
            contacts.part_overlaps(
                self._contacts, self._pairs, self._count, moved, turns, self._mobility,
                self._inverse, self._slop,
            )  # fmt: skip
            self.centre += moved
            self.quaternion = turned(self.quaternion, np.einsum("nij,nj->ni", self._inverse, turns))
        gravity = float(np.linalg.norm(self._scene.solver.gravity))
        calm = self.speeds() < CALM * np.sqrt(gravity * self._reach)
        asleep = self.calm >= REST
        self.calm = np.where(calm & ~self._wet & ~self._driven, self.calm + self._dt, 0.0)
        self.calm[asleep & ~self._wet] = REST
        self._rotation = matrix_of(self.quaternion)
        if not (np.isfinite(self.centre).all() and np.isfinite(self.spin).all()):
            bad = ~(np.isfinite(self.centre).all(axis=1) & np.isfinite(self.spin).all(axis=1))
            raise SimulationError(
                f"body {self.names[int(np.argmax(bad))]!r} has no finite place any more. Likely "
                "cause: a time step too long; use a shorter time_step."
            )

    def _wake(self, gravity: float) -> None:
        """Bodies that sleep, ahead of a step in which something that moves touches or leaves them:
        struck while asleep they would not give way. What touches them wakes too."""
        if not (self.calm >= REST).any():
            return
        self._wake_by_keyframes()
        # By the state alone, not by what the last step left: a resumed run has to find the same.
        self._update_inertia()
        self._driven_spin = (np.zeros(0, int), np.zeros((0, 3)), np.zeros((0, 3)))
        moving = self.speeds() > CALM * np.sqrt(gravity * self._reach)
        moving &= ~self._driven
        while (self.calm >= REST).any():
            self._find_contacts(gravity)
            a, b = self._pairs[: self._count][self._pairs[: self._count, 1] >= 0].T
            stirred = np.zeros(len(self), bool)
            stirred[a[moving[b]]] = stirred[b[moving[a]]] = True
            stirred &= self.calm >= REST
            if not stirred.any():
                break
            self.calm[stirred] = 0.0
            moving |= stirred

    def _wake_by_keyframes(self) -> None:
        asleep = np.flatnonzero(self.calm >= REST)
        if not len(asleep):
            return
        reach = (1 + NEAR) * self._reach[asleep]
        for k in np.flatnonzero(self._driven):
            motion = self._motions[k]
            assert motion is not None
            if any(v.any() for v in motion.velocity(self._end, self._dt)):
                apart = np.linalg.norm(self.centre[asleep] - self.centre[k], axis=1)
                self.calm[asleep[apart < reach + (1 + NEAR) * self._reach[k]]] = 0.0
        rows = self._solids.rows(self._end, self._dt).astype(np.float64)
        moving = (rows[:, 20:26] != 0).any(axis=1)
        moving[self._deforming] = True
        moving[self._parts] = False
        moving[np.setdiff1d(np.arange(len(rows)), self._met)] = False
        if moving.any():
            world = self._world._replace(rows=rows[moving])
            phi = np.abs(signed_distances(world, self.centre[asleep])[0])
            self.calm[asleep[(phi < reach[:, None]).any(axis=1)]] = 0.0

    def rows(self, base: Rows) -> Rows:
        """Solids with the bodies where the step takes them; `base` as colliders.py packs them."""
        return self._posed(base.astype(np.float32), *self._moved())

    def _posed(self, rows: NDArray[Any], centre: Floats, quaternion: Floats) -> NDArray[Any]:
        """Rows of solids, in place, with the bodies there."""
        moving.pose_rows(
            rows, self._numbers, self._start_rows, self._start, centre, quaternion,
            self.velocity, self.angular_velocity(),
        )  # fmt: skip
        return rows

    @property
    def table(self) -> Rows:
        """(n, BODY_COLUMNS) for Backend.set_bodies."""
        return self._table

    def angular_velocity(self) -> Floats:
        """[rad/s]"""
        omega = moving.rates(self._inverse, self.spin)
        omega[self._driven_spin[0]] = self._driven_spin[1]
        return omega

    def speeds(self) -> Floats:
        """Of the fastest point of each, at most [m/s]."""
        turn = np.linalg.norm(self.angular_velocity(), axis=1) * self._reach
        speeds: Floats = np.linalg.norm(self.velocity, axis=1) + turn
        return speeds

    # --- inside --------------------------------------------------------------------------------

    def _is_driven(self, k: int, time: float) -> bool:
        motion = self._motions[k]
        return motion is not None and time < motion.end - 1e-9

    def _place_driven(self, start: float, dt: float) -> None:
        """Keyframes hold until the last one; from there on the body is free, at their velocity."""
        driven, spins, momenta = [], [], []
        for k, motion in enumerate(self._motions):
            if motion is None or not (dt == 0.0 or self._driven[k]):
                continue
            base = motion.pose(0.0)
            now = motion.pose(start + dt)
            local = base.to_local(self._start[k])
            self.centre[k] = now.to_world(local)
            self.quaternion[k] = quaternion_of(now.rotation @ base.rotation.T)
            if dt > 0.0:
                before = motion.pose(start).to_world(local)
                self.velocity[k] = (self.centre[k] - before) / dt
                self.centre[k] = self._from[0][k] = before
                omega = motion.velocity(start + dt, dt)[1]
                self._from[1][k] = quaternion_of(motion.pose(start).rotation @ base.rotation.T)
                self.quaternion[k] = self._from[1][k]
                turn = matrix_of(self.quaternion[k : k + 1])[0]
                self.spin[k] = turn @ self._inertia[k] @ turn.T @ omega
                driven.append(k)
                spins.append(omega)
                momenta.append(self.spin[k].copy())
        self._driven_spin = (
            np.array(driven, int), np.array(spins).reshape(-1, 3), np.array(momenta).reshape(-1, 3)
        )  # fmt: skip

    def _read_locks(self) -> None:
        """Which axes of the world bodies may move along and turn about: (n, 3)."""
        words, flat = np.array(["x", "y", "z"]), self._scene.ignored_axis
        slides = [~np.isin(words, c.lock_translation) for c in self._of_body]
        turns = [~np.isin(words, c.lock_rotation) for c in self._of_body]
        self._slides = np.array(slides).reshape(-1, 3)
        self._turns = np.array(turns).reshape(-1, 3)
        if flat >= 0:
            self._slides[:, flat] = False
            self._turns &= np.arange(3) == flat

    def _update_inertia(self, still: NDArray[np.bool_] | None = None) -> None:
        """Inverse masses of the step, per axis, and inverse inertia; 0 where a body cannot move."""
        moves = np.ones(len(self), bool) if still is None else ~still
        self._mobility = np.where(self._slides & moves[:, None], 1 / self.mass[:, None], 0.0)
        self._spins = self._turns & moves[:, None]
        back = self._rotation.transpose(0, 2, 1)
        self._inverse = self._rotation @ self._inverse_start @ back
        self._principal = self._principal_start.copy()
        self._frame = self._axes_start.transpose(0, 2, 1) @ back
        for k in np.flatnonzero(~self._spins.all(axis=1)):
            self._inverse[k] = 0.0
            block = np.ix_(self._spins[k], self._spins[k])
            world = self._rotation[k] @ self._inertia[k] @ back[k]
            self._inverse[k][block] = np.linalg.inv(world[block])
            values, vectors = np.linalg.eigh(self._inverse[k])
            self._principal[k], self._frame[k] = np.maximum(values, 0.0), vectors.T

    def _take(self, momentum: Floats) -> None:
        """Momentum (n, 6), of which nothing goes along axes that are held."""
        given = np.ascontiguousarray(momentum)
        moving.push(given, self.velocity, self.spin, self._mobility, self._spins, self._driven)

    def _moved(self) -> tuple[Floats, Floats]:
        """Pose at the end of the step, as it stands."""
        if self._arrived:
            return self._final
        centre, quaternion = self._from
        way = self._dt * self.angular_velocity()
        return centre + self._dt * self.velocity, turned(quaternion, way)

    def _find_contacts(self, gravity: float) -> tuple[World, Floats]:
        """Where the step begins; and the solids and turns there."""
        centre, quaternion = self._from
        turns = matrix_of(quaternion)
        points = np.einsum("pij,pj->pi", turns[self._owner], self._points) + centre[self._owner]
        margin = self._dt * (self.speeds() + 2 * gravity * self._dt) + 0.02 * self._reach
        # Where the step begins; only what is no body stands where it ends, as its row says.
        rows = self._solids.rows(self._end, self._dt).astype(np.float64)
        rows = self._posed(rows, centre, quaternion)
        if not same_fields(self._known, self._solids.fields):  # deforming colliders
            self._known = self._solids.fields
            self._world = world_of(rows, self._known, self._scene.ignored_axis)
        world = self._world._replace(rows=rows[self._met])
        self._count = contacts.find(
            world, self._owner, points, self._radii, self._holds, centre,
            self._reach, margin, self._friction[self._met], (self.calm >= REST).astype(np.int64),
            self._contacts, self._pairs,
        )  # fmt: skip
        return world, turns

    def _find_films(self, world: World, turns: Floats) -> None:
        moves = (self._mobility > 0).any(axis=1) | (self._principal > 0).any(axis=1)
        moves &= ~self._driven & (self.calm < REST)
        self._films.find(world, turns, self._from[0], moves)

    def _solve(self, sweeps: int) -> None:
        if self._count:
            contacts.solve(
                self._contacts, self._pairs, self._count, self.velocity, self.spin,
                self._mobility, self._inverse, self._dt, sweeps, 1e-6 * 9.81 * self._dt,
            )  # fmt: skip

    def _fill_table(self) -> None:
        table = self._table
        # A step changes the fluid's angular momentum by what acts about where particles were when
        # it began; velocities change where they end up.
        table[:, 0:3] = self._moved()[0] if self._arrived else self._from[0]
        table[:, 3:12] = self._frame.reshape(-1, 9)
        table[:, 12:24] = self._coefficients

    # --- storing -------------------------------------------------------------------------------

    def state(self) -> dict[str, NDArray[Any]]:
        """All that the next step depends on."""
        return {
            "body_centre": self.centre.copy(),
            "body_quaternion": self.quaternion.copy(),
            "body_velocity": self.velocity.copy(),
            "body_spin": self.spin.copy(),
            "body_calm": self.calm.copy(),
        }

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        for name in ("centre", "quaternion", "velocity", "spin", "calm"):
            setattr(self, name, np.array(arrays[f"body_{name}"], np.float64))
        self._rotation = matrix_of(self.quaternion)
        self._update_inertia()

    def body_poses(self) -> dict[str, Pose]:
        """By collider: what takes its shape's own frame to where it is."""
        found = {}
        for k, (index, part) in enumerate(zip(self._parts, self._of_body, strict=True)):
            start = motion_of(part, self._scene).pose(0.0)
            turn = matrix_of(self.quaternion[k : k + 1])[0]
            place = self.centre[k] + turn @ (start.translation - self._start[k])
            name = part.name or f"collider_{index}"
            found[name] = Pose(turn @ start.rotation, place, start.scale)
        return found

    def poses(self) -> list[dict[str, Any]]:
        """For the cache: centre of mass, and the transform that takes the collider's shape, as its
        scene places it, to where it is now: x -> rotation x + translation."""
        result = []
        omega = self.angular_velocity()
        for k, name in enumerate(self.names):
            turn = matrix_of(self.quaternion[k : k + 1])[0]
            result.append(
                {
                    "name": name,
                    "collider": self._parts[k],  # its number in the scene
                    "center": self.centre[k].tolist(),
                    "rotation": self.quaternion[k].tolist(),  # w, x, y, z
                    "translation": (self.centre[k] - turn @ self._start[k]).tolist(),
                    "velocity": self.velocity[k].tolist(),
                    "angular_velocity": omega[k].tolist(),
                }
            )
        return result

    def momentum(self) -> tuple[Floats, Floats]:
        """Of all together: linear [kg m/s], angular about the origin [kg m^2/s]."""
        linear = self.mass[:, None] * self.velocity
        return linear.sum(axis=0), (np.cross(self.centre, linear) + self.spin).sum(axis=0)


def _mass(part: Collider, own: MassProperties) -> float:
    return part.mass if part.mass is not None else part.density * own.volume
