"""Contact with solids, and what they do to the velocity: docs/theory/equations.md, walls."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..base import BODY, BOX
from .compile import double, inline, parallel, prange, uint32
from .field import World, unit
from .kernel import hash_uint
from .march import ahead, can_be_passed, dot
from .solids import Vector, distance, local_point, point_velocity, surface, to_world, yielding

Array = NDArray[np.float32] | NDArray[np.float64]
Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Ids = NDArray[np.uint32]

JITTER = 0.01  # [r], largest addition to the distance of contact
TOUCH = 1.1  # [distance of contact], up to here a particle touches a solid
HOLD_LOOKS = 16  # along a long correction: half radii, where walls are nearest
NUDGE = 1e-3  # [distance of contact], a push below that is rounding and no arrival


@inline
def contact(w: World, solid: int, x: float, y: float, z: float, stop: float) -> Vector:
    """By how much a particle nearer than `stop` to a solid moves, to be that far off [m]."""
    s = w.rows[solid]
    if s[0] == BOX and s[1] < 0.0:  # each face of a container acts by itself
        a, b, c = local_point(s, x, y, z)
        return to_world(
            s, inwards(a, s[5] - stop), inwards(b, s[6] - stop), inwards(c, s[7] - stop)
        )
    phi, n = distance(w, solid, x, y, z)
    by = max(stop - phi, 0.0)
    return by * n[0], by * n[1], by * n[2]


@inline
def inwards(x: float, room: float) -> float:
    """From x to the nearest of -room..room; to the middle if there is no room."""
    room = max(room, 0.0)
    return max(-room, min(x, room)) - x


@parallel
def contact_distances(radius: Array, ids: Ids) -> Doubles:
    """How far off solids each particle stays [m]: no two stand on one plane (row A17)."""
    stop = np.empty(len(radius))
    for i in prange(len(radius)):
        offset = (hash_uint(ids[i]) >> uint32(8)) / 16777216.0
        stop[i] = radius[i] * (1.0 + JITTER * offset)
    return stop


@inline
def held_way(
    w: World, c: int, a: Vector, by: Vector, radius: float, back: Doubles, i: int
) -> Vector:
    """What of a way from a solid c leaves. As far as its surface is, nothing is in the way; from
    there it is looked at again: in a crevice the nearest wall does not tell of the one across."""
    gone = (0.0, 0.0, 0.0)
    for _ in range(HOLD_LOOKS):
        phi, n = distance(w, c, a[0] + gone[0], a[1] + gone[1], a[2] + gone[2])
        into, room = -dot(by, n), max(phi, 0.0)
        if into > room:
            by = ahead(by, n, into - room)
            react(w.rows[c], back, i, n, into - room)
        left, free = math.sqrt(dot(by, by)), max(room, 0.5 * radius)
        if left <= free:
            return ahead(gone, by, 1.0)
        gone, by = ahead(gone, by, free / left), ahead(by, by, -free / left)
    return gone


@parallel
def hold_back(w: World, start: Array, x: Doubles, radii: Doubles, back: Doubles) -> Doubles:
    """Ends long corrections from start to x at the surface they lead to, in place: a thin wall must
    not be jumped over. By how much (n, 3) [m]; `back` is what bodies get of it."""
    held = np.zeros((len(x), 3))
    for i in prange(len(x)):
        a = (double(start[i, 0]), double(start[i, 1]), double(start[i, 2]))
        by = (x[i, 0] - a[0], x[i, 1] - a[1], x[i, 2] - a[2])
        radius = radii[i]
        if dot(by, by) < 0.25 * radius * radius:
            continue
        for c in range(len(w.rows)):
            if not can_be_passed(w.rows[c]):
                continue
            by = held_way(w, c, a, by, radius, back, i)
        for axis in range(3):
            held[i, axis] = a[axis] + by[axis] - x[i, axis]
            x[i, axis] += held[i, axis]
    return held


@parallel
def resolve_contacts(
    w: World, x: Doubles, stop: Doubles, ignored_axis: int, bodies: Doubles, back: Doubles
) -> Doubles:
    """Moves x (n, 3) out of the solids, in place; by how much (n, 3) [m].

    A body takes its share of the way: it is the part of a push that it yields to.
    """
    moved = np.zeros((len(x), 3))
    for i in prange(len(x)):
        for c in range(len(w.rows)):
            d = contact(w, c, x[i, 0], x[i, 1], x[i, 2], stop[i])
            f = 1.0
            if w.rows[c, BODY] > 0.0 and (d[0] != 0.0 or d[1] != 0.0 or d[2] != 0.0):
                n = unit(d[0], d[1], d[2])
                f = yielding(w, c, bodies, (x[i, 0], x[i, 1], x[i, 2]), n)
            for axis in range(3):
                if axis != ignored_axis:
                    x[i, axis] += f * d[axis]
                    moved[i, axis] += f * d[axis]
            react(w.rows[c], back, i, d, f)
    return moved


@inline
def react(s: Array, back: Doubles, i: int, by: Vector, f: float) -> None:
    """Note that a solid changed particle i by f times a vector: a body gets that back."""
    if s[BODY] > 0.0:
        for axis in range(3):
            back[i, int(s[BODY]) - 1, axis] -= f * by[axis]


@parallel
def loads(
    w: World, bodies: Doubles, x: Array, h: Array, volume: Array, mass: Doubles, gradient: Doubles
) -> Doubles:
    """|J| of particles and bodies, times volume (pressure), mass (contact): (n, bodies, 12)."""
    out = np.zeros((len(x), len(bodies), 12))
    for i in prange(len(x)):
        at = (double(x[i, 0]), double(x[i, 1]), double(x[i, 2]))
        for c in range(len(w.rows)):
            k = int(w.rows[c, BODY]) - 1
            if k < 0:
                continue
            phi, n = distance(w, c, at[0], at[1], at[2])
            if phi >= h[i]:
                continue
            g = (gradient[i, k, 0], gradient[i, k, 1], gradient[i, k, 2])
            add_load(bodies[k], at, g, double(volume[i]), out[i, k], 0)
            add_load(bodies[k], at, n, mass[i], out[i, k], 6)
    return out


@inline
def add_load(b: Array, x: Vector, g: Vector, weight: float, out: Doubles, first: int) -> None:
    a = (x[0] - b[0], x[1] - b[1], x[2] - b[2])
    t = (a[1] * g[2] - a[2] * g[1], a[2] * g[0] - a[0] * g[2], a[0] * g[1] - a[1] * g[0])
    for k in range(3):
        out[first + k] += weight * abs(g[k])
        turn = b[3 + 3 * k] * t[0] + b[4 + 3 * k] * t[1] + b[5 + 3 * k] * t[2]
        out[first + 3 + k] += weight * abs(turn)


@inline
def face(w: World, c: int, axis: int, x: float, y: float, z: float) -> tuple[float, Vector]:
    """Distance and normal of a solid; of a container box those of the nearer face along `axis`."""
    s = w.rows[c]
    if s[0] != BOX or s[1] > 0.0:
        return distance(w, c, x, y, z)
    local = local_point(s, x, y, z)
    n = 1.0 if local[axis] < 0.0 else -1.0
    phi = double(s[5 + axis]) - abs(local[axis])
    return phi, (n * s[8 + 3 * axis], n * s[9 + 3 * axis], n * s[10 + 3 * axis])


@inline
def rubbed(s: Vector, n: Vector, v: Vector, pushed: float, dt: float, f: float) -> float:
    """Share of a velocity along a solid that friction leaves (Coulomb)."""
    if pushed <= 0.0:
        return 1.0
    vn = dot(v, n)
    t = (v[0] - vn * n[0], v[1] - vn * n[1], v[2] - vn * n[2])
    speed = math.sqrt(dot(t, t))
    return max(1.0 - f, 1.0 - s[0] * pushed / dt / speed) if speed > 0.0 else 1.0


@inline
def glued(s: Vector, dt: float, f: float) -> float:
    """Share of a velocity that stickiness leaves."""
    return 1.0 - f + f * max(1.0 - s[2], 0.0) ** (60.0 * dt)


@inline
def respond(
    s: Vector, n: Vector, v: Vector, arriving: float, touches: bool, keep: float, left: float,
    f: float,
) -> Vector:  # fmt: skip
    """Velocity relative to a solid after it answered; s: its friction, bounce, stickiness.

    arriving: normal speed of an arrival, below 0, if it is one that bounces. keep, left: as of
    `rubbed` and `glued`. f: the share of a velocity that the particle may lose, 1 unless the solid
    is a body that yields.
    """
    vn = dot(v, n)
    t = (v[0] - vn * n[0], v[1] - vn * n[1], v[2] - vn * n[2])
    if touches and arriving < 0.0:
        vn = max(vn, (1.0 - f) * vn - f * s[1] * arriving)
    if touches and s[2] > 0.0:
        keep *= left
        vn = min(vn, 0.0) + max(vn, 0.0) * left
    return keep * t[0] + vn * n[0], keep * t[1] + vn * n[1], keep * t[2] + vn * n[2]


@inline
def held(
    s: Vector, n: Vector, way: Vector, touches: bool, keep: float, left: float, f: float
) -> Vector:
    """What friction and stickiness take of a way over dt, relative to a solid: the first along it,
    the second off it too [m/s]. Or what they hold would creep by g dt^2 in each step. Not friction
    of bodies that yield: their angular momentum is exchanged where particles are."""
    normal = dot(way, n)
    rubbed_off = 1.0 - keep if f == 1.0 else 0.0
    lost = ahead((0.0, 0.0, 0.0), ahead(way, n, -normal), rubbed_off)
    if touches and s[2] > 0.0:
        rest = ahead(way, lost, -1.0)
        lost = ahead(lost, ahead(rest, n, -min(normal, 0.0)), 1.0 - left)
    return lost


@parallel
def wall_response(
    w: World,
    x: Array,
    v: Doubles,
    predicted: Array,
    push: Array,
    taken: Array,
    stop: Doubles,
    h: Array,
    dt: float,
    rest_speed: float,
    ignored_axis: int,
    bodies: Doubles,
    reaction: Doubles,
) -> Doubles:
    """Friction, bounce and stickiness on v (n, 3), in place; `reaction` is what bodies get of it.

    predicted: velocities ahead of the corrections; taken: normal speeds that stopping took of them
    ahead of that. Below rest_speed nothing counts as arriving:
    gravity gives as much to a particle at rest. Nor does what this wall did not push.

    Returns what friction and stickiness take of the way (n, 3) [m].
    """
    back = np.zeros((len(x), 3))
    for i in prange(len(x)):
        drift = (v[i, 0], v[i, 1], v[i, 2])
        x0, x1, x2 = double(x[i, 0]), double(x[i, 1]), double(x[i, 2])
        for c in range(len(w.rows)):
            s = w.rows[c]
            u = point_velocity(w, c, x0, x1, x2)
            skin = surface(w, c, x0, x1, x2)
            for side in range(3 if s[0] == BOX and s[1] < 0.0 else 1):
                phi, n = face(w, c, side, x0, x1, x2)
                if phi >= h[i]:
                    continue
                touches = phi < TOUCH * stop[i]
                stopped = double(taken[i]) if touches and can_be_passed(s) else 0.0
                pushed, arriving = 0.0, 0.0
                for axis in range(3):
                    pushed += push[i, axis] * n[axis]
                    arriving += (predicted[i, axis] - u[axis]) * n[axis]
                if stopped > 0.0:
                    pushed += dt * max(arriving + stopped, 0.0)
                    arriving = -stopped
                if arriving >= -rest_speed or pushed <= NUDGE * stop[i]:
                    arriving = 0.0
                relative = (v[i, 0] - u[0], v[i, 1] - u[1], v[i, 2] - u[2])
                f = yielding(w, c, bodies, (x0, x1, x2), n)
                keep, left = rubbed(skin, n, relative, pushed, dt, f), glued(skin, dt, f)
                after = respond(skin, n, relative, arriving, touches, keep, left, f)
                for axis in range(3):
                    if axis != ignored_axis:
                        v[i, axis] = u[axis] + after[axis]
                react(s, reaction, i, ahead(after, relative, -1.0), 1.0)
                lost = held(skin, n, ahead(drift, u, -1.0), touches, keep, left, f)
                drift = ahead(drift, lost, -1.0)
                for axis in range(3):
                    if axis != ignored_axis:
                        back[i, axis] += dt * lost[axis]
    return back
