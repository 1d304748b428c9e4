"""Quaternions (w, x, y, z), many at a time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..backends.reference.compile import inline, serial

Floats = NDArray[np.float64]


@inline
def turn_matrix(q: Floats, m: Floats) -> None:
    """(3, 3) of a quaternion of any length, into m."""
    size = np.sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3])
    w, x, y, z = q[0] / size, q[1] / size, q[2] / size, q[3] / size
    m[0, 0], m[0, 1], m[0, 2] = 1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)
    m[1, 0], m[1, 1], m[1, 2] = 2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)
    m[2, 0], m[2, 1], m[2, 2] = 2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)


@serial
def matrix_of(q: Floats) -> Floats:
    """(n, 4) -> (n, 3, 3)"""
    matrices = np.empty((len(q), 3, 3))
    for k in range(len(q)):
        turn_matrix(q[k], matrices[k])
    return matrices


def quaternion_of(m: Floats) -> Floats:
    """(3, 3) -> (4,), by the largest component."""
    trace = m[0, 0] + m[1, 1] + m[2, 2]
    squares = np.array([trace, m[0, 0], m[1, 1], m[2, 2]])
    k = int(np.argmax(squares))
    q = np.empty(4)
    if k == 0:
        q[:] = 1 + trace, m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1]
    else:
        i, j, o = k - 1, k % 3, (k + 1) % 3
        q[0] = m[o, j] - m[j, o]
        q[1 + i] = 1 + 2 * m[i, i] - trace
        q[1 + j] = m[j, i] + m[i, j]
        q[1 + o] = m[o, i] + m[i, o]
    unit: Floats = q / np.linalg.norm(q)
    return unit


@serial
def turned(q: Floats, way: Floats) -> Floats:
    """Quaternions (n, 4) after turns by rotation vectors (n, 3) [rad] of the world."""
    out = np.empty_like(q)
    for k in range(len(q)):
        x, y, z = way[k, 0], way[k, 1], way[k, 2]
        angle = np.sqrt(x * x + y * y + z * z)
        share = np.sin(angle / 2) / angle if angle > 1e-9 else 0.5
        c, x, y, z = np.cos(angle / 2), share * x, share * y, share * z
        w, a, b, d = q[k, 0], q[k, 1], q[k, 2], q[k, 3]
        own = out[k]
        own[0] = c * w - x * a - y * b - z * d
        own[1] = c * a + x * w + y * d - z * b
        own[2] = c * b - x * d + y * w + z * a
        own[3] = c * d + x * b - y * a + z * w
        own /= np.sqrt(own[0] * own[0] + own[1] * own[1] + own[2] * own[2] + own[3] * own[3])
    return out
