"""Fast particles: what would pass through a solid within a step is stopped at its surface.

docs/theory/equations.md, walls. Twin: kernels/velocity.cl.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..base import BODY, FIELD, PLANE
from .compile import double, inline, parallel, prange
from .field import World
from .solids import Vector, distance, point_velocity, yielding

Array = NDArray[np.float32] | NDArray[np.float64]
Doubles = NDArray[np.float64]

STEPS = 96
GAP = 0.5  # of the radius: as near as that, the surface is reached
LEAST = 0.25  # of the radius: no step is shorter
DEEPEST = -0.5  # of the radius: what is jammed that deep still has a side to stay on


@inline
def can_be_passed(s: Array) -> bool:
    """Half spaces and hollows cannot: contact alone finds back."""
    return bool(s[0] == FIELD or s[28] > 0.0 or (s[0] != PLANE and s[1] > 0.0))


@inline
def dot(a: Vector, b: Vector) -> float:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@inline
def ahead(a: Vector, b: Vector, t: float) -> Vector:
    return a[0] + t * b[0], a[1] + t * b[1], a[2] + t * b[2]


@inline
def nearest_ahead(
    w: World, p: Vector, way: Vector, left: float, dt: float, radius: float
) -> tuple[float, Vector, Vector, int]:
    """When a particle meets a solid next, at 0 if it has; its normal, way in the step and number.

    Solids stand where they end up: from there, a point at rest on one comes from p + u dt left.
    """
    first, solid = np.inf, 0
    normal, moved = (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)
    for c in range(len(w.rows)):
        if not can_be_passed(w.rows[c]):
            continue
        v = point_velocity(w, c, p[0], p[1], p[2])
        u = (dt * v[0], dt * v[1], dt * v[2])
        at = ahead(p, u, left)
        phi, n = distance(w, c, at[0], at[1], at[2])
        relative = ahead(way, u, -1.0)
        speed = math.sqrt(dot(relative, relative))
        time = max(phi - GAP * radius, LEAST * radius) / max(speed, 1e-20)
        if phi < GAP * radius and dot(relative, n) < -1e-4 * speed:
            time = 0.0
        if time < first:
            first, normal, moved, solid = time, n, u, c
    return first, normal, moved, solid


@inline
def is_fast(w: World, p: Vector, way: Vector, dt: float, radius: float) -> bool:
    """Whether any solid is near enough, and the way long enough, to be passed through."""
    for c in range(len(w.rows)):
        if not can_be_passed(w.rows[c]):
            continue
        u = point_velocity(w, c, p[0], p[1], p[2])
        relative = ahead(way, u, -dt)
        length = math.sqrt(dot(relative, relative))
        at = ahead(p, u, dt)
        phi, _ = distance(w, c, at[0], at[1], at[2])
        if length > radius and DEEPEST * radius < phi < length + radius:
            return True
    return False


@inline
def comes_back(w: World, x: Vector, normal: Vector, radius: float) -> bool:
    """Whether contact alone brings x back to where it came from."""
    for c in range(len(w.rows)):
        if not can_be_passed(w.rows[c]):
            continue
        phi, n = distance(w, c, x[0], x[1], x[2])
        # In what may be thin, not far from the surface: pressure would push it to the other side.
        deepest = -0.5 if w.rows[c, 0] == FIELD or w.rows[c, 28] > 0.0 else -2.0
        if phi < radius:
            return phi > deepest * radius and dot(n, normal) > 0.8
    return False


@parallel
def stop_at_solids(
    w: World, x: Array, v: Array, radius: Doubles, dt: float, bodies: Doubles, back: Doubles
) -> Doubles:
    """Shortens velocities (n, 3) in place; the normal speed that was lost by it (n,) [m/s]. A body
    that was met first gets back what it took: `back` (n, bodies, 3)."""
    gone = np.zeros(len(x))
    for i in prange(len(x)):
        start = (double(x[i, 0]), double(x[i, 1]), double(x[i, 2]))
        way = (dt * double(v[i, 0]), dt * double(v[i, 1]), dt * double(v[i, 2]))
        end, p, hit = ahead(start, way, 1.0), start, (0.0, 0.0, 0.0)
        left, lost, first = 1.0, 0.0, 0
        if not is_fast(w, p, way, dt, radius[i]):
            continue
        for _ in range(STEPS):
            if left <= 0.0:
                break
            time, n, u, solid = nearest_ahead(w, p, way, left, dt, radius[i])
            if time == 0.0:  # reached: the rest of the way goes along the surface
                into = dot(ahead(way, u, -1.0), n)
                if lost == 0.0:
                    hit, first = n, solid
                lost = max(lost, -into / dt)
                way = ahead(way, n, -into)
                continue
            time = min(time, left)
            p = ahead(p, way, time)
            left -= time
        if lost > 0.0 and not comes_back(w, end, hit, radius[i]):
            f = yielding(w, first, bodies, p, hit)
            gone[i] = f * lost
            for axis in range(3):
                if axis != w.ignored[0]:
                    change = f * ((p[axis] - start[axis]) / dt - v[i, axis])
                    v[i, axis] += change
                    if w.rows[first, BODY] > 0.0:
                        back[i, int(w.rows[first, BODY]) - 1, axis] -= change
    return gone
