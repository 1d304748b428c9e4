"""What acts on velocities: forces, viscosity (eq. 5), vorticity."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..base import POINT, WIND
from .compile import double, inline, parallel, prange
from .density import distance, gradient
from .kernel import Kernel, pair_value, scale
from .neighbors import Neighbors
from .solids import Vector

Array = NDArray[np.float32] | NDArray[np.float64]
Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]

Sample = tuple[float, float, float, float]

SPRAY = 0.5  # fill below which eq. 5 takes a particle for spray
FLAT = 1e-6  # slope of |omega| over h, relative, below which confinement has no direction


@inline
def cross(a: Vector, b: Vector) -> Vector:
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


@inline
def length(a: Vector) -> float:
    return math.sqrt(a[0] * a[0] + a[1] * a[1] + a[2] * a[2])


@inline
def field(f: Array, dt: float, x: Vector, v: Vector) -> Vector:
    """Acceleration by one packed force [m/s^2]."""
    strength = double(f[1])
    if f[0] == WIND:
        rate = min(strength, 1.0 / dt)  # a step at most takes on the wind's velocity
        return rate * (f[3] - v[0]), rate * (f[4] - v[1]), rate * (f[5] - v[2])
    to = (f[6] - x[0], f[7] - x[1], f[8] - x[2])
    away = length(to)
    if f[0] != POINT:  # VORTEX: axis x (x - c)
        to = cross(to, (double(f[3]), double(f[4]), double(f[5])))
    size = length(to)
    if size == 0.0 or away >= f[2]:
        return 0.0, 0.0, 0.0
    a = strength * (1.0 - away / f[2]) / size
    return a * to[0], a * to[1], a * to[2]


@parallel
def accelerate(
    forces: Array, gravity: Array, x: Array, v: Floats, dt: float, ignored_axis: int
) -> None:
    """v += dt a(x, v), in place."""
    for i in prange(len(x)):
        here = (double(x[i, 0]), double(x[i, 1]), double(x[i, 2]))
        now = (double(v[i, 0]), double(v[i, 1]), double(v[i, 2]))
        a0, a1, a2 = double(gravity[0]), double(gravity[1]), double(gravity[2])
        for f in range(len(forces)):
            a = field(forces[f], dt, here, now)
            a0, a1, a2 = a0 + a[0], a1 + a[1], a2 + a[2]
        v[i, 0] = now[0] + dt * a0
        v[i, 1] = now[1] + dt * a1
        v[i, 2] = now[2] + dt * a2
        if ignored_axis >= 0:
            v[i, ignored_axis] = 0.0


@inline
def flow_at(flow: Floats, origin: Doubles, voxel: float, x: Vector) -> Sample:
    """w u and w of a field at a place; nothing beyond its nodes."""
    q = ((x[0] - origin[0]) / voxel, (x[1] - origin[1]) / voxel, (x[2] - origin[2]) / voxel)
    u0, u1, u2, w = 0.0, 0.0, 0.0, 0.0
    inside = (
        0.0 <= q[0] < flow.shape[2] - 1
        and 0.0 <= q[1] < flow.shape[1] - 1
        and 0.0 <= q[2] < flow.shape[0] - 1
    )
    if inside:
        i, j, k = int(q[0]), int(q[1]), int(q[2])
        for corner in range(8):
            a, b, c = corner & 1, corner >> 1 & 1, corner >> 2
            weight = abs(1 - a - q[0] + i) * abs(1 - b - q[1] + j) * abs(1 - c - q[2] + k)
            u0 += weight * flow[k + c, j + b, i + a, 0]
            u1 += weight * flow[k + c, j + b, i + a, 1]
            u2 += weight * flow[k + c, j + b, i + a, 2]
            w += weight * flow[k + c, j + b, i + a, 3]
    return u0, u1, u2, w


@parallel
def follow(
    before: Floats, origin: Doubles, voxel: float, after: Floats, origin_after: Doubles,
    voxel_after: float, share: float, change: float, x: Array, v: Floats, ignored_axis: int,
) -> None:  # fmt: skip
    """v += change (w u - w v), in place."""
    for i in prange(len(x)):
        here = (double(x[i, 0]), double(x[i, 1]), double(x[i, 2]))
        a = flow_at(before, origin, voxel, here)
        b = flow_at(after, origin_after, voxel_after, here)
        w = a[3] + share * (b[3] - a[3])
        for axis in range(3):
            if axis != ignored_axis:
                u = a[axis] + share * (b[axis] - a[axis])
                v[i, axis] += change * (u - w * v[i, axis])


@parallel
def viscosity_pass(
    k: Kernel,
    near: Neighbors,
    x: Array,
    v: Array,
    mass: Doubles,
    rho: Doubles,
    h: Array,
    c: Doubles,
) -> Doubles:
    """One pass of eq. 5: the new velocities. c is already divided by N."""
    out = np.empty((len(x), 3))
    for i in prange(len(x)):
        a = scale(k, double(h[i]))
        v0, v1, v2 = double(v[i, 0]), double(v[i, 1]), double(v[i, 2])
        s0, s1, s2 = 0.0, 0.0, 0.0
        for n in range(near.start[i], near.start[i + 1]):
            j = near.items[n]
            b = a if h[j] == h[i] else scale(k, double(h[j]))
            w = pair_value(k, distance(x, i, j)[3], a, b)
            f = min(c[i], c[j]) * 2.0 * mass[j] / (rho[i] + rho[j]) * w
            s0 += f * (v[j, 0] - v0)
            s1 += f * (v[j, 1] - v1)
            s2 += f * (v[j, 2] - v2)
        out[i, 0], out[i, 1], out[i, 2] = v0 + s0, v1 + s1, v2 + s2
    return out


@parallel
def vorticity(
    k: Kernel, near: Neighbors, x: Array, v: Array, volume: Array, h: Array, curl_scale: float
) -> Doubles:
    """omega (n, 3) [1/s] (P001 eq. 18): 2 Omega for a rigid rotation Omega."""
    out = np.empty((len(x), 3))
    for i in prange(len(x)):
        a = scale(k, double(h[i]))
        v0, v1, v2 = double(v[i, 0]), double(v[i, 1]), double(v[i, 2])
        s0, s1, s2 = 0.0, 0.0, 0.0
        for n in range(near.start[i], near.start[i + 1]):
            j = near.items[n]
            b = a if h[j] == h[i] else scale(k, double(h[j]))
            g0, g1, g2, _ = gradient(k, x, i, j, a, b)
            # With respect to x_j, the other way round: hence grad x (v_j - v_i).
            w = cross((g0, g1, g2), (v[j, 0] - v0, v[j, 1] - v1, v[j, 2] - v2))
            s0 += volume[j] * w[0]
            s1 += volume[j] * w[1]
            s2 += volume[j] * w[2]
        out[i, 0], out[i, 1], out[i, 2] = curl_scale * s0, curl_scale * s1, curl_scale * s2
    return out


@parallel
def confinement(
    k: Kernel, near: Neighbors, x: Array, omega: Doubles, volume: Array, h: Array, epsilon: Array
) -> Doubles:
    """eps h (N x omega) [m/s^2] (P001 eq. 19)."""
    out = np.zeros((len(x), 3))
    size = np.empty(len(x))
    for i in prange(len(x)):
        size[i] = length((omega[i, 0], omega[i, 1], omega[i, 2]))
    for i in prange(len(x)):
        if epsilon[i] == 0.0 or size[i] == 0.0:
            continue
        a = scale(k, double(h[i]))
        e0, e1, e2 = 0.0, 0.0, 0.0
        for n in range(near.start[i], near.start[i + 1]):
            j = near.items[n]
            b = a if h[j] == h[i] else scale(k, double(h[j]))
            g0, g1, g2, _ = gradient(k, x, i, j, a, b)
            f = volume[j] * (size[j] - size[i])
            e0, e1, e2 = e0 + f * g0, e1 + f * g1, e2 + f * g2
        steep = length((e0, e1, e2))
        if steep * h[i] <= FLAT * size[i]:
            continue
        f = double(epsilon[i]) * h[i] / steep
        a3 = cross((e0, e1, e2), (omega[i, 0], omega[i, 1], omega[i, 2]))
        out[i, 0], out[i, 1], out[i, 2] = f * a3[0], f * a3[1], f * a3[2]
    return out
