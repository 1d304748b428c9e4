"""Contacts of bodies with solids and each other: found in distance fields, solved by sequential
impulses with accumulated, clamped sums [Catto 2006; Guendelman et al. 2003 for the fields].

A contact holds a ball of body a off another solid: of body b, or of none (b = -1).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..backends.base import BODY, BOX, FIELD
from ..backends.reference.compile import bare, inline
from ..backends.reference.field import World
from ..backends.reference.solids import Vector, distance, local_point, point_velocity
from .points import FIELD_ONLY, NO_FIELD

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MOST = 20_000
COLUMNS = 24
# 0:3 normal from the solid to body a; 3:6 arm of a; 6:9 arm of b; 9 gap [m]; 10 friction
# 11:14, 14:17 tangents; 18:21 velocity of a solid that is no body [m/s]
# 21:24 impulses so far: normal, tangents [kg m/s]
RECOVER = 0.2  # of an overlap, in a step


@inline
def cross(a: Vector, b: Vector) -> Vector:
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


@inline
def dot3(a: Vector, b: Vector) -> float:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@inline
def row3(a: Floats, i: int, k: int) -> Vector:
    return a[i, k], a[i, k + 1], a[i, k + 2]


@inline
def turned(inverse: Floats, i: int, t: Vector) -> Vector:
    m = inverse[i]
    return (
        m[0, 0] * t[0] + m[0, 1] * t[1] + m[0, 2] * t[2],
        m[1, 0] * t[0] + m[1, 1] * t[1] + m[1, 2] * t[2],
        m[2, 0] * t[0] + m[2, 1] * t[1] + m[2, 2] * t[2],
    )


@bare
def find(
    w: World, owner: Ints, points: Floats, radii: Floats, holds: Ints, centres: Floats,
    reach: Floats, margin: Floats, friction: Floats, asleep: Ints, out: Floats, pairs: Ints,
) -> int:  # fmt: skip
    """Contacts within `margin` (per body) [m]: number; rows in out, bodies in pairs (n, 2)."""
    count = 0
    for p in range(len(points)):
        a = owner[p]
        x, y, z, r = points[p, 0], points[p, 1], points[p, 2], radii[p]
        for c in range(len(w.rows)):
            s = w.rows[c]
            b = int(s[BODY]) - 1
            is_field = s[0] == FIELD
            if asleep[a] and (b < 0 or asleep[b]):  # what is awake may touch it
                continue
            if b == a or holds[p] == (NO_FIELD if is_field else FIELD_ONLY):
                continue
            room = r + margin[a]
            if b >= 0:
                room += margin[b]
                far = reach[b] + room
                dx, dy, dz = x - centres[b, 0], y - centres[b, 1], z - centres[b, 2]
                if dx * dx + dy * dy + dz * dz > far * far:
                    continue
            faces = 3 if s[0] == BOX and s[1] < 0.0 else 1
            for face in range(faces):
                if faces == 3:  # each wall of a container acts by itself
                    local = local_point(s, x, y, z)
                    side = 1.0 if local[face] < 0.0 else -1.0
                    phi = s[5 + face] - abs(local[face])
                    n = (
                        side * s[8 + 3 * face], side * s[9 + 3 * face], side * s[10 + 3 * face]
                    )  # fmt: skip
                else:
                    phi, n = distance(w, c, x, y, z)
                    if is_field and phi >= 0.99 * s[5] * w.head[int(s[26]), 4]:
                        continue  # farther than the field knows
                if phi >= room or count == len(out) or dot3(n, n) < 0.5:
                    continue
                fill(out, pairs, count, w, c, a, b, (x, y, z), r, phi, n, centres)
                out[count, 10] = np.sqrt(friction[c] * friction_of(friction, w, a))
                count += 1
    return count


@inline
def friction_of(friction: Floats, w: World, body: int) -> float:
    for c in range(len(w.rows)):
        if int(w.rows[c, BODY]) - 1 == body:
            return friction[c]
    return 0.0


@inline
def fill(
    out: Floats, pairs: Ints, k: int, w: World, c: int, a: int, b: int, x: Vector, r: float,
    phi: float, n: Vector, centres: Floats,
) -> None:  # fmt: skip
    at = (x[0] - phi * n[0], x[1] - phi * n[1], x[2] - phi * n[2])  # on the other's surface
    if abs(n[0]) < 0.6:
        t = (0.0, n[2], -n[1])
    else:
        t = (-n[2], 0.0, n[0])
    size = np.sqrt(dot3(t, t))
    t = (t[0] / size, t[1] / size, t[2] / size)
    u = cross(n, t)
    moving = (0.0, 0.0, 0.0)
    if b < 0:
        moving = point_velocity(w, c, at[0], at[1], at[2])
    for i in range(3):
        out[k, i] = n[i]
        out[k, 3 + i] = at[i] - centres[a, i]
        out[k, 6 + i] = at[i] - centres[b, i] if b >= 0 else 0.0
        out[k, 11 + i] = t[i]
        out[k, 14 + i] = u[i]
        out[k, 18 + i] = moving[i]
        out[k, 21 + i] = 0.0
    out[k, 9] = phi - r
    pairs[k, 0], pairs[k, 1] = a, b


@inline
def effective(
    c: Floats, k: int, a: int, b: int, way: Vector, mobility: Floats, inverse: Floats
) -> float:
    """Inverse of the mass that both sides have along a direction."""
    total = 0.0
    for i in range(3):
        total += way[i] * way[i] * mobility[a, i]
    arm = cross(row3(c, k, 3), way)
    total += dot3(arm, turned(inverse, a, arm))
    if b >= 0:
        for i in range(3):
            total += way[i] * way[i] * mobility[b, i]
        arm = cross(row3(c, k, 6), way)
        total += dot3(arm, turned(inverse, b, arm))
    return total


@inline
def relative(
    c: Floats, k: int, a: int, b: int, way: Vector, v: Floats, spin: Floats, inverse: Floats
) -> float:
    """Speed of a against b along a direction."""
    w = turned(inverse, a, row3(spin, a, 0))
    u = cross(w, row3(c, k, 3))
    rate = dot3(way, (v[a, 0] + u[0], v[a, 1] + u[1], v[a, 2] + u[2]))
    if b >= 0:
        w = turned(inverse, b, row3(spin, b, 0))
        u = cross(w, row3(c, k, 6))
        return rate - dot3(way, (v[b, 0] + u[0], v[b, 1] + u[1], v[b, 2] + u[2]))
    return rate - dot3(way, row3(c, k, 18))


@inline
def apply(
    c: Floats, k: int, a: int, b: int, way: Vector, by: float, v: Floats, spin: Floats,
    mobility: Floats,
) -> None:  # fmt: skip
    t = cross(row3(c, k, 3), way)
    for i in range(3):
        v[a, i] += by * way[i] * mobility[a, i]
        spin[a, i] += by * t[i]
    if b >= 0:
        t = cross(row3(c, k, 6), way)
        for i in range(3):
            v[b, i] -= by * way[i] * mobility[b, i]
            spin[b, i] -= by * t[i]


@bare
def solve(
    c: Floats, pairs: Ints, count: int, v: Floats, spin: Floats, mobility: Floats, inverse: Floats,
    dt: float, sweeps: int, least: float,
) -> None:  # fmt: skip
    """Sweep over the contacts, to and fro; v and spin change in place.

    Impulses add up in the contact and stay pushes: a later sweep takes back what is too much, also
    after the fluid has pushed. Ends early once no sweep changes a speed by `least` [m/s].
    """
    for sweep in range(sweeps):
        largest = 0.0
        for m in range(count):
            k = m if sweep % 2 == 0 else count - 1 - m
            a, b = pairs[k, 0], pairs[k, 1]
            n = row3(c, k, 0)
            mass = effective(c, k, a, b, n, mobility, inverse)
            if mass <= 0.0:
                continue
            speed = relative(c, k, a, b, n, v, spin, inverse) + max(c[k, 9], 0.0) / dt
            before = c[k, 21]
            c[k, 21] = max(before - speed / mass, 0.0)
            by = c[k, 21] - before
            if by != 0.0:
                apply(c, k, a, b, n, by, v, spin, mobility)
                largest = max(largest, abs(by) * mass)
            if c[k, 21] == 0.0 and c[k, 22] == 0.0 and c[k, 23] == 0.0:
                continue
            most = c[k, 10] * c[k, 21]
            was0, was1 = c[k, 22], c[k, 23]
            for i in range(2):
                t = row3(c, k, 11 + 3 * i)
                mass = effective(c, k, a, b, t, mobility, inverse)
                if mass > 0.0:
                    c[k, 22 + i] -= relative(c, k, a, b, t, v, spin, inverse) / mass
            size = np.sqrt(c[k, 22] ** 2 + c[k, 23] ** 2)
            if size > most:
                c[k, 22] *= most / size
                c[k, 23] *= most / size
            apply(c, k, a, b, row3(c, k, 11), c[k, 22] - was0, v, spin, mobility)
            apply(c, k, a, b, row3(c, k, 14), c[k, 23] - was1, v, spin, mobility)
        if largest < least:
            break


@bare
def part_overlaps(
    c: Floats, pairs: Ints, count: int, moved: Floats, turns: Floats, mobility: Floats,
    inverse: Floats, slop: Floats,
) -> None:  # fmt: skip
    """Ways out of overlaps, without a change of velocity: moved [m], and turns times inertia."""
    for _ in range(8):
        for k in range(count):
            a, b = pairs[k, 0], pairs[k, 1]
            if c[k, 9] >= -slop[a]:
                continue
            n = row3(c, k, 0)
            mass = effective(c, k, a, b, n, mobility, inverse)
            # row 18:21, the velocity of what is no body, is none of this
            way = relative(c, k, a, b, n, moved, turns, inverse)
            if b < 0:
                way += dot3(n, row3(c, k, 18))
            missing = RECOVER * (-c[k, 9] - slop[a]) - way
            if mass > 0.0 and missing > 0.0:
                apply(c, k, a, b, n, missing / mass, moved, turns, mobility)
