"""Quaternions (w, x, y, z), many at a time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def matrix_of(q: Floats) -> Floats:
    """(n, 4) -> (n, 3, 3)"""
    w, x, y, z = (q / np.linalg.norm(q, axis=1, keepdims=True)).T
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    matrices: Floats = np.moveaxis(np.array(rows), -1, 0)
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


def turned(q: Floats, way: Floats) -> Floats:
    """Quaternions (n, 4) after turns by rotation vectors (n, 3) [rad] of the world."""
    angle = np.linalg.norm(way, axis=1)
    half = angle / 2
    # sin(half)/angle, also where the angle is 0
    share = 0.5 * np.sinc(half / np.pi)
    c, (x, y, z) = np.cos(half), (way * share[:, None]).T
    w, a, b, d = q.T
    product = np.stack(
        [
            c * w - x * a - y * b - z * d,
            c * a + x * w + y * d - z * b,
            c * b - x * d + y * w + z * a,
            c * d + x * b - y * a + z * w,
        ],
        axis=1,
    )
    result: Floats = product / np.linalg.norm(product, axis=1, keepdims=True)
    return result
