"""What holds the vertices of a deformable body together: extended position-based dynamics (XPBD,
Macklin et al. 2016)."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..backends.reference.compile import serial

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Constraint(Protocol):
    """What holds vertices together. Users may add their own.

    A step is solved several times, from where it began, while the fluid and the body find to each
    other: what a constraint does may depend on nothing but its arguments and its own settings.
    """

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


@serial
def volume_of(x: Floats, triangles: NDArray[np.int32], gradient: Floats) -> float:
    """Volume [m^3] of a closed mesh; adds its gradient by vertices."""
    total, o = 0.0, x[0]  # any origin serves; a near one rounds least
    for t in range(len(triangles)):
        for k in range(3):
            i, j, m = triangles[t, k], triangles[t, (k + 1) % 3], triangles[t, (k + 2) % 3]
            for axis in range(3):
                p, q = (axis + 1) % 3, (axis + 2) % 3
                part = (x[j, p] - o[p]) * (x[m, q] - o[q]) - (x[j, q] - o[q]) * (x[m, p] - o[p])
                gradient[i, axis] += part / 6
                if k == 0:
                    total += (x[i, axis] - o[axis]) * part / 6
    return total


class Volume:
    """A closed mesh keeps its volume."""

    importance = 1.0

    def __init__(self, triangles: NDArray[np.int32], positions: Floats) -> None:
        self._triangles = triangles
        self._rest = volume_of(positions, triangles, np.zeros_like(positions))

    def project(self, positions: Floats, inverse_mass: Floats, dt: float) -> None:
        gradient = np.zeros_like(positions)
        volume = volume_of(positions, self._triangles, gradient)
        total = float(inverse_mass @ np.sum(gradient**2, axis=1))
        if total > 0:
            positions += (inverse_mass * (self._rest - volume) / total)[:, None] * gradient


def edges_of(triangles: NDArray[np.int32]) -> tuple[Ints, Ints]:
    """Edges, and pairs of vertices that face each other across one: those that bending keeps."""
    sides = np.concatenate([triangles[:, [0, 1]], triangles[:, [1, 2]], triangles[:, [2, 0]]])
    facing = np.concatenate([triangles[:, 2], triangles[:, 0], triangles[:, 1]])
    sides = np.sort(sides.astype(np.int64), axis=1)
    order = np.lexsort((sides[:, 1], sides[:, 0]))
    sides, facing = sides[order], facing[order].astype(np.int64)
    same = (sides[1:] == sides[:-1]).all(axis=1)
    across = np.stack([facing[:-1][same], facing[1:][same]], axis=1)
    return np.unique(sides, axis=0), across[across[:, 0] != across[:, 1]]
