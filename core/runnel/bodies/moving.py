"""Where a step takes rigid bodies, compiled: it is asked for after each push of the fluid."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..backends.base import BODY
from ..backends.reference.compile import serial
from .turning import turn_matrix

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


@serial
def push(
    momentum: Floats, velocity: Floats, spin: Floats, mobility: Floats, turns: Flags, driven: Flags
) -> None:
    """Momentum (n, 6) to velocities and angular momenta, but nothing along axes that are held."""
    for k in range(len(velocity)):
        for i in range(3):
            velocity[k, i] += momentum[k, i] * mobility[k, i]
            if turns[k, i]:
                spin[k, i] += momentum[k, 3 + i]
            if driven[k]:
                continue
            if mobility[k, i] == 0.0:
                velocity[k, i] = 0.0
            if not turns[k, i]:
                spin[k, i] = 0.0


@serial
def rates(inverse: Floats, spin: Floats) -> Floats:
    """Angular velocities of angular momenta (n, 3)."""
    omega = np.empty_like(spin)
    for k in range(len(spin)):
        for i in range(3):
            omega[k, i] = (
                inverse[k, i, 0] * spin[k, 0]
                + inverse[k, i, 1] * spin[k, 1]
                + inverse[k, i, 2] * spin[k, 2]
            )
    return omega


@serial
def pose_rows(
    rows: NDArray[np.float32], parts: NDArray[np.int64], start_rows: Floats, start: Floats,
    centre: Floats, quaternion: Floats, velocity: Floats, omega: Floats,
) -> None:  # fmt: skip
    """Rows `parts` of solids, in place, of bodies that were at `start_rows`, about `start`."""
    m, arm = np.empty((3, 3)), np.empty(3)
    for k in range(len(parts)):
        row, was = rows[parts[k]], start_rows[k]
        turn_matrix(quaternion[k], m)
        for i in range(3):
            for axis in range(3):  # rows 8:17 hold the axes of the shape
                a = was[8 + 3 * axis : 11 + 3 * axis]
                row[8 + 3 * axis + i] = m[i, 0] * a[0] + m[i, 1] * a[1] + m[i, 2] * a[2]
            arm[i] = (
                m[i, 0] * (was[17] - start[k, 0])
                + m[i, 1] * (was[18] - start[k, 1])
                + m[i, 2] * (was[19] - start[k, 2])
            )
            row[17 + i] = centre[k, i] + arm[i]
        w = omega[k]
        row[20] = velocity[k, 0] + w[1] * arm[2] - w[2] * arm[1]
        row[21] = velocity[k, 1] + w[2] * arm[0] - w[0] * arm[2]
        row[22] = velocity[k, 2] + w[0] * arm[1] - w[1] * arm[0]
        for i in range(3):
            row[23 + i] = w[i]
        row[BODY] = k + 1
