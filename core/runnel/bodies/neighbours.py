"""What deformable bodies meet: colliders that stand or follow their path, and rigid bodies.

Vertices are held off the distance fields of the others by half the thickness of a shell, with
Coulomb friction. Where a rigid body is met, vertices make only the share of the way out that brings
both to one velocity, and the body gets the momentum of that: light or heavy, neither is thrown off.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..backends.reference.field import world_of
from ..backends.reference.solids import signed_distances, velocities
from ..colliders import Solids
from ..scene import Scene
from .contacts import RECOVER
from .rigid import RigidBodies

Floats = NDArray[np.float64]


class Neighbours:
    """Solids around the deformable bodies of a scene, in a step."""

    def __init__(self, scene: Scene, solids: Solids, rigid: RigidBodies | None) -> None:
        self._solids, self._rigid, self._axis = solids, rigid, scene.ignored_axis
        parts = scene.colliders
        self._of_body = np.array([i for i, c in enumerate(parts) if c.body == "rigid"], int)
        soft = [i for i, c in enumerate(parts) if c.body == "deformable"]
        self._fixed = np.setdiff1d(np.arange(len(solids.rows(0.0, 0.0))), [*self._of_body, *soft])
        self._friction = np.zeros(len(self._fixed) + len(self._of_body) + len(soft))
        self._friction[: len(parts)] = [c.contact_friction for c in parts]

    def begin(self, end: float, dt: float) -> None:
        """Where colliders stand at the end of a step [s]."""
        self._dt, self._base = dt, self._solids.rows(end, dt)
        self._world = world_of(self._base, self._solids.fields, self._axis)

    def push(self, momentum: Floats) -> None:
        """To the rigid bodies: linear [kg m/s], and about the origin."""
        if self._rigid is not None:
            self._rigid.touch(momentum)

    def part(
        self, x: Floats, start: Floats, inverse_mass: Floats, gap: float, friction: float
    ) -> tuple[Floats, Floats]:
        """Move vertices x that came from `start` to `gap` [m] off the others, in place.

        Momentum that rigid bodies get of it (n, 6), linear and about the origin; and ways (n, 3)
        that are no motion: what overlapped before the step parts calmly.
        """
        given, calm = np.zeros((len(self._of_body), 6)), np.zeros_like(x)
        rows = self._base if self._rigid is None else self._rigid.rows(self._base)
        chosen = np.concatenate([self._fixed, self._of_body])
        if not len(chosen):
            return given, calm
        world = self._world._replace(rows=np.ascontiguousarray(rows[chosen], np.float64))
        phi, normals = signed_distances(world, x)
        touched = np.flatnonzero((phi < gap).any(axis=0))
        if not len(touched):
            return given, calm
        speeds = velocities(world, x)
        for k in touched:
            hit = np.flatnonzero((phi[:, k] < gap) & (inverse_mass > 0))
            n, mass, at = normals[hit, k], 1 / inverse_mass[hit], x[hit]
            body = int(k) - len(self._fixed)
            share = np.ones(len(hit))
            if body >= 0:
                assert self._rigid is not None
                share = 1 / (1 + self._rigid.mobility_at(body, at, n) * mass.sum())
            into = gap - phi[hit, k]
            carried = start[hit] + self._dt * speeds[hit, k]  # where it would be on the solid
            own = world._replace(rows=world.rows[k : k + 1].copy())
            old = np.clip(gap - signed_distances(own, carried)[0][:, 0], 0.0, into)
            slip = at - carried
            slip -= np.einsum("ni,ni->n", slip, n)[:, None] * n
            grip = np.sqrt(friction * self._friction[chosen[k]]) * into
            stop = np.minimum(1.0, grip / np.maximum(np.linalg.norm(slip, axis=1), 1e-12))
            by = share[:, None] * ((into - old)[:, None] * n - stop[:, None] * slip)
            calm[hit] += RECOVER * old[:, None] * n
            x[hit] += by + RECOVER * old[:, None] * n
            if body >= 0:
                back = -mass[:, None] * by / self._dt
                given[body, :3] += back.sum(axis=0)
                given[body, 3:] += np.cross(start[hit], back).sum(axis=0)
        return given, calm
