"""The distance field of a deformable body, which follows its vertices within a step.

Made anew only where the surface has left it by STALE voxels. In between each voxel stays with its
nearest triangle and the nearest point on it (P004 5.2): where that point moves by u, distances
change by -n u, n the way from it to the voxel. To first order that is the field of the new shape,
at a hundredth of the cost.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..backends.base import Surroundings
from ..backends.reference.compile import parallel, prange, serial
from ..fields import sample
from ..fields.geometry import nearest_weights
from ..fields.grid import FieldSettings, SparseField
from ..fields.rasterize import field_of_mesh
from ..fields.walls import with_walls
from ..meshes import Mesh

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Ints = NDArray[np.int32]

STALE = 0.5  # voxels


class Skin:
    """Of one body. Places are those of the world."""

    def __init__(
        self, positions: Floats, triangles: Ints, settings: FieldSettings, kernel_radius: float
    ) -> None:
        self._triangles, self._settings, self._radius = triangles, settings, kernel_radius
        self.made_at = positions.copy()  # vertices
        self.yields = np.zeros((len(positions), 3))  # to pressure, to contact, unused
        self.make(positions)

    @property
    def moved(self) -> float:
        """How far the surface may be from where the field was made [m]."""
        return self._moved

    def refresh(self, positions: Floats) -> None:
        """Make the field anew if it does not fit any more."""
        away = np.abs(positions - self.made_at).max(initial=0.0)
        if away > STALE * self._settings.voxel:
            self.make(positions)

    def make(self, positions: Floats) -> None:
        self.made_at = positions.copy()
        mesh = Mesh(self.made_at, self._triangles)
        self._base = with_walls(field_of_mesh(mesh, self._settings), self._radius)
        shape = (self._base.leaves, 729)
        self._weights, self._ways = np.zeros((*shape, 3), np.float32), np.zeros((*shape, 3), "f4")
        places = (self.made_at - self._base.origin) / self._base.voxel
        corners = np.ascontiguousarray(places[self._triangles].reshape(-1, 9))
        assert self._base.index is not None
        bind(
            self._base.tiles, self._base.index, corners, self._base.values,
            float(self._base.shift), self._weights, self._ways,
        )  # fmt: skip
        self._tell_yields()
        self.follow(positions, np.zeros_like(positions))

    def follow(self, positions: Floats, velocities: Floats) -> None:
        """Bring the field to where the vertices are now, and how fast [m/s]."""
        base = self._base
        assert base.index is not None
        assert base.wall is not None
        values, wall = np.empty_like(base.values), np.empty_like(base.wall)
        velocity = np.zeros((*base.values.shape, 3), np.float32)
        away = positions - self.made_at
        carry(
            base.index, self._triangles, self._weights, self._ways, base.values, base.wall,
            base.band, away, velocities, values, wall, velocity,
        )  # fmt: skip
        self._moved = float(np.sqrt((away**2).sum(axis=1).max(initial=0.0)))
        self.field: SparseField = replace(
            base, values=values, wall=wall, velocity=velocity, yields=self._yields
        )
        # Known already: no need to look at all voxels for it.
        fastest = float(np.sqrt((velocities**2).sum(axis=1).max(initial=0.0)))
        self.field.__dict__["fastest"] = fastest

    def _tell_yields(self) -> None:
        assert self._base.index is not None
        self._yields = np.zeros((*self._base.values.shape, 3), np.float32)
        if self.yields.any():
            mix(self._base.index, self._triangles, self._weights, self.yields, self._yields)

    def weights(self, positions: Floats, places: Floats) -> tuple[Ints, Floats]:
        """Vertices (n, 3) of the triangles nearest to places, and barycentric weights (n, 3)."""
        nearest = self.field.nearest(places)
        lost = np.flatnonzero(nearest < 0)
        if len(lost):  # beyond what the field knows: pushed far within the step
            middles = positions[self._triangles].mean(axis=1)
            for k in lost:
                nearest[k] = int(np.argmin(((middles - places[k]) ** 2).sum(axis=1)))
        corners = self._triangles[nearest]
        return corners, weights_of(positions[corners].reshape(-1, 9), places)

    def weigh(
        self, around: Surroundings, positions: Floats, inverse_mass: Floats, slope: Floats,
        bold: float,
    ) -> None:  # fmt: skip
        """How far each vertex yields if all particles around push as one: docs/theory/bodies.md.

        slope: of a half space's share of the density by distance/h in -1..1, times h. bold: the
        eigenvalue that the weights of the iterations are safe for.
        """
        low, high = self._base.bounds
        near = ((around.places >= low) & (around.places <= high)).all(axis=1)
        around = Surroundings(*(part[near] for part in around))
        field, h = self.field, around.radii
        assert field.wall is not None
        walls = np.empty((len(h), 4))
        sample.sample_distance(
            field.table, field.dims, field.wall, field._scalars, around.places, walls
        )
        felt = (walls[:, 0] < h) | (field.distance(around.places) < h)
        around, walls, h = Surroundings(*(part[felt] for part in around)), walls[felt], h[felt]
        steep = np.abs(np.interp(walls[:, 0] / h, np.linspace(-1, 1, len(slope)), slope)) / h
        steep *= np.linalg.norm(walls[:, 1:], axis=1)
        corners, weights = self.weights(positions, around.places)
        self.yields[:] = 0.0
        for column, push in enumerate((2 / bold * around.volumes * steep, around.masses)):
            load = np.bincount(
                corners.reshape(-1), (weights * push[:, None]).reshape(-1), len(positions)
            )
            self.yields[:, column] = inverse_mass * load
        self._tell_yields()


@parallel
def bind(
    tiles: Ints, index: Ints, corners: Floats, values: Singles, shift: float, weights: Singles,
    ways: Singles,
) -> None:  # fmt: skip
    """Weights of the nearest point of each voxel, and the unit way from there along which distances
    grow; corners in voxels. 0 where no triangle is known, and on the surface itself."""
    for leaf in prange(len(tiles)):
        for v in range(729):
            t = index[leaf, v]
            if t < 0:
                continue
            x, y, z = float(v % 9), float(v // 9 % 9), float(v // 81)
            x, y, z = x + 8 * tiles[leaf, 0], y + 8 * tiles[leaf, 1], z + 8 * tiles[leaf, 2]
            w = nearest_weights(corners, t, x, y, z)
            c = corners[t]
            d0 = x - (w[0] * c[0] + w[1] * c[3] + w[2] * c[6])
            d1 = y - (w[0] * c[1] + w[1] * c[4] + w[2] * c[7])
            d2 = z - (w[0] * c[2] + w[1] * c[5] + w[2] * c[8])
            length = np.sqrt(d0 * d0 + d1 * d1 + d2 * d2)
            for k in range(3):
                weights[leaf, v, k] = w[k]
            if length > 1e-4:
                turn = (1.0 if values[leaf, v] + shift >= 0.0 else -1.0) / length
                ways[leaf, v, 0], ways[leaf, v, 1], ways[leaf, v, 2] = (
                    d0 * turn,
                    d1 * turn,
                    d2 * turn,
                )


@parallel
def carry(
    index: Ints, triangles: Ints, weights: Singles, ways: Singles, values: Singles, wall: Singles,
    band: float, away: Floats, velocities: Floats, values_out: Singles, wall_out: Singles,
    velocity_out: Singles,
) -> None:  # fmt: skip
    for leaf in prange(len(index)):
        for v in range(729):
            values_out[leaf, v], wall_out[leaf, v] = values[leaf, v], wall[leaf, v]
            t = index[leaf, v]
            if t < 0:
                continue
            by = 0.0
            for axis in range(3):
                u, speed = 0.0, 0.0
                for k in range(3):
                    u += weights[leaf, v, k] * away[triangles[t, k], axis]
                    speed += weights[leaf, v, k] * velocities[triangles[t, k], axis]
                by += u * ways[leaf, v, axis]
                velocity_out[leaf, v, axis] = speed
            if abs(values[leaf, v]) < band:
                values_out[leaf, v] = min(max(values[leaf, v] - by, -band), band)
                wall_out[leaf, v] = wall[leaf, v] - by


@parallel
def mix(index: Ints, triangles: Ints, weights: Singles, given: Floats, out: Singles) -> None:
    for leaf in prange(len(index)):
        for v in range(729):
            t = index[leaf, v]
            if t < 0:
                continue
            for axis in range(given.shape[1]):
                total = 0.0
                for k in range(3):
                    total += weights[leaf, v, k] * given[triangles[t, k], axis]
                out[leaf, v, axis] = total


@serial
def weights_of(corners: Floats, places: Floats) -> Floats:
    """Barycentric weights (n, 3) of the points of triangles (n, 9) nearest to places (n, 3)."""
    result = np.empty((len(places), 3))
    for i in range(len(places)):
        result[i] = nearest_weights(corners, i, places[i, 0], places[i, 1], places[i, 2])
    return result
