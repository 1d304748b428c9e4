"""Distance to packed solids, what a solid adds to the density, what it hides of gradients.

Rows are those of backends/base.py. Lengths of a box may be infinite. A vector is a
tuple here: three numbers that the compiler keeps in registers. Compiled functions take `World`:
the rows with their fields; what tests and the backend call takes plain rows too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..base import BODY, BOX, CYLINDER, FIELD, SPHERE
from .compile import double, inline, parallel, prange
from .field import World, blended, channel, unit, world_of

if TYPE_CHECKING:
    from ...fields.grid import SparseField

Array = NDArray[np.float32] | NDArray[np.float64]
Doubles = NDArray[np.float64]
Vector = tuple[float, float, float]

MOST_SHEAR = 0.5  # what walls may take of a gradient along them: more is not made up for


class WallTable(NamedTuple):
    """Of a half space, by distance/h in -1..1."""

    share: Doubles  # of the density
    slope: Doubles  # of that, times h
    shear: Doubles  # share of the gradient along the wall


@inline
def to_local(s: Array, x: float, y: float, z: float) -> Vector:
    """World -> local, directions."""
    return (
        s[8] * x + s[9] * y + s[10] * z,
        s[11] * x + s[12] * y + s[13] * z,
        s[14] * x + s[15] * y + s[16] * z,
    )


@inline
def to_world(s: Array, x: float, y: float, z: float) -> Vector:
    """Local -> world, directions."""
    return (
        s[8] * x + s[11] * y + s[14] * z,
        s[9] * x + s[12] * y + s[15] * z,
        s[10] * x + s[13] * y + s[16] * z,
    )


@inline
def local_point(s: Array, x: float, y: float, z: float) -> Vector:
    return to_local(s, x - s[17], y - s[18], z - s[19])


@inline
def point_velocity(w: World, c: int, x: float, y: float, z: float) -> Vector:
    """u = velocity + angular x (x - origin), and that of a deforming field [m/s]."""
    s = w.rows[c]
    x, y, z = x - s[17], y - s[18], z - s[19]
    u = (
        s[20] + s[24] * z - s[25] * y,
        s[21] + s[25] * x - s[23] * z,
        s[22] + s[23] * y - s[24] * x,
    )
    if s[0] != FIELD:
        return u
    a, b, d = to_local(s, x / s[5], y / s[5], z / s[5])
    n = int(s[27])
    a, b, d = channel(w, w.velocity, w.start[n, 2], n, a, b, d)
    v = in_plane(w, to_world(s, s[5] * a, s[5] * b, s[5] * d))
    return u[0] + v[0], u[1] + v[1], u[2] + v[2]


@inline
def surface(w: World, c: int, x: float, y: float, z: float) -> Vector:
    """Friction, bounce and stickiness of a solid at a point."""
    s = w.rows[c]
    if s[0] != FIELD or w.start[int(s[27]), 3] < 0:
        return s[2], s[3], s[4]
    a, b, d = local_point(s, x, y, z)
    n = int(s[27])
    return channel(w, w.surface, w.start[n, 3], n, a / s[5], b / s[5], d / s[5])


@inline
def in_plane(w: World, v: Vector) -> Vector:
    """Without what lies along the axis that a 2D scene leaves out."""
    return (
        v[0],
        0.0 if w.ignored[0] == 1 else v[1],
        0.0 if w.ignored[0] == 2 else v[2],
    )


@inline
def side(x: float) -> float:
    return -1.0 if x < 0.0 else 1.0


@inline
def box_distance(s: Array, x: float, y: float, z: float) -> tuple[float, Vector]:
    a, b, c = abs(x) - s[5], abs(y) - s[6], abs(z) - s[7]
    if max(a, b, c) > 0.0:
        u, v, w = max(a, 0.0), max(b, 0.0), max(c, 0.0)
        d = math.sqrt(u * u + v * v + w * w)
        return d, (side(x) * u / d, side(y) * v / d, side(z) * w / d)
    if a >= b and a >= c:
        return a, (side(x), 0.0, 0.0)
    if b >= c:
        return b, (0.0, side(y), 0.0)
    return c, (0.0, 0.0, side(z))


@inline
def cylinder_distance(s: Array, x: float, y: float, z: float) -> tuple[float, Vector]:
    length = math.sqrt(x * x + y * y)
    u, v = (x / length, y / length) if length > 0.0 else (1.0, 0.0)
    a, b = length - s[5], abs(z) - s[6]
    if a > 0.0 and b > 0.0:
        d = math.sqrt(a * a + b * b)
        return d, (u * a / d, v * a / d, side(z) * b / d)
    if a > b:
        return a, (u, v, 0.0)
    return b, (0.0, 0.0, side(z))


@inline
def field_distance(w: World, c: int, x: float, y: float, z: float) -> tuple[float, Vector]:
    """Distance [m] and normal of a field, of the world; x, y, z of the row's frame."""
    s = w.rows[c]
    size = s[5]
    phi, n = blended(w, w.values, s, x / size, y / size, z / size)
    n = unit(n[0], n[1], n[2])
    phi, n = size * phi, to_world(s, n[0], n[1], n[2])
    if w.ignored[0] < 0:
        return phi, n
    # The way to the surface within the plane of a 2D scene is longer than that in space.
    n = in_plane(w, n)
    steep = math.sqrt(n[0] * n[0] + n[1] * n[1] + n[2] * n[2])
    if abs(phi) < size * w.head[int(s[26]), 4]:
        phi /= max(steep, 0.5)
    return phi, unit(n[0], n[1], n[2])


@inline
def distance(w: World, c: int, x: float, y: float, z: float) -> tuple[float, Vector]:
    """Signed distance seen from the fluid (negative in the solid), world normal into the fluid."""
    s = w.rows[c]
    x, y, z = local_point(s, x, y, z)
    if s[0] == FIELD:
        return field_distance(w, c, x, y, z)
    phi, n = z, (0.0, 0.0, 1.0)  # PLANE
    if s[0] == BOX:
        phi, n = box_distance(s, x, y, z)
    elif s[0] == SPHERE:
        length = math.sqrt(x * x + y * y + z * z)
        phi = length - s[5]
        n = (x / length, y / length, z / length) if length > 0.0 else (1.0, 0.0, 0.0)
    elif s[0] == CYLINDER:
        phi, n = cylinder_distance(s, x, y, z)
    m = -1.0 if s[28] > 0.0 and phi < 0.0 else s[1]  # a shell has two sides
    return m * phi - s[28], to_world(s, m * n[0], m * n[1], m * n[2])


@inline
def half_space(table: WallTable, phi: float, h: float) -> tuple[float, float, float]:
    """Share of a half space at distance phi, its slope [1/m], and its share along the wall."""
    samples = len(table.share) - 1
    q = (phi / h + 1.0) * (0.5 * samples)
    if q <= 0.0:
        return 1.0, 0.0, 1.0
    if q >= samples:
        return 0.0, 0.0, 0.0
    k = int(q)
    t = q - k
    share = table.share[k] + t * (table.share[k + 1] - table.share[k])
    slope = table.slope[k] + t * (table.slope[k + 1] - table.slope[k])
    shear = table.shear[k] + t * (table.shear[k + 1] - table.shear[k])
    return share, slope / h, shear


@inline
def box_axis(
    table: WallTable, x: float, half: float, h: float, inside: bool
) -> tuple[float, float]:
    """Factor of one axis and its slope: the solid between its faces, or the room of a container."""
    if inside:
        a, da, _ = half_space(table, x + half, h)
        b, db, _ = half_space(table, half - x, h)
        return (1.0 - a) * (1.0 - b), db * (1.0 - a) - da * (1.0 - b)
    # Seen from the nearer face: share(phi) + share(-phi) is not exactly 1.
    a, da, _ = half_space(table, abs(x) - half, h)
    b, db, _ = half_space(table, abs(x) + half, h)
    return a - b, side(x) * (da - db)


@inline
def wall_distance(w: World, c: int, x: float, y: float, z: float) -> tuple[float, Vector]:
    """Distance that counts for the density, and its gradient."""
    s = w.rows[c]
    if s[0] != FIELD:
        return distance(w, c, x, y, z)
    x, y, z = local_point(s, x, y, z)
    psi, g = blended(w, w.walls, s, x / s[5], y / s[5], z / s[5])
    return s[5] * psi, in_plane(w, to_world(s, g[0], g[1], g[2]))


@inline
def share(
    table: WallTable, w: World, solid: int, x: float, y: float, z: float, h: float
) -> tuple[float, Vector]:
    """What one solid adds to the fill, and its gradient [1/m]."""
    s = w.rows[solid]
    if s[0] != BOX or s[28] > 0.0:
        phi, n = wall_distance(w, solid, x, y, z)
        value, slope, _ = half_space(table, phi, h)
        return value, (slope * n[0], slope * n[1], slope * n[2])
    inside = s[1] < 0.0
    x, y, z = local_point(s, x, y, z)
    a, da = box_axis(table, x, s[5], h, inside)
    b, db = box_axis(table, y, s[6], h, inside)
    c, dc = box_axis(table, z, s[7], h, inside)
    m = -1.0 if inside else 1.0  # a container is solid where it leaves no room
    value = 1.0 - a * b * c if inside else a * b * c
    return value, to_world(s, m * da * b * c, m * a * db * c, m * a * b * dc)


def wall_share(
    table: WallTable, solids: Array | World, x: Array, h: Array, ignored_axis: int
) -> tuple[Doubles, Doubles]:
    """wall_i = 1 - prod (1 - solid_c) and its gradient (n, 3) [1/m]."""
    none = np.zeros((len(x), 0, 3))
    return _wall_share(table, world_of(solids), x, h, ignored_axis, none)


def wall_shares(
    table: WallTable, solids: World, x: Array, h: Array, ignored_axis: int, bodies: int
) -> tuple[Doubles, Doubles, Doubles]:
    """As `wall_share`, and what of the gradient belongs to each body: (n, bodies, 3)."""
    parts = np.zeros((len(x), bodies, 3))
    return *_wall_share(table, solids, x, h, ignored_axis, parts), parts


@parallel
def _wall_share(
    table: WallTable, w: World, x: Array, h: Array, ignored_axis: int, parts: Doubles
) -> tuple[Doubles, Doubles]:
    value = np.zeros(len(x))
    grad = np.zeros((len(x), 3))
    for i in prange(len(x)):
        room = 1.0
        g0, g1, g2 = 0.0, 0.0, 0.0
        for c in range(len(w.rows)):
            x0, x1, x2 = double(x[i, 0]), double(x[i, 1]), double(x[i, 2])
            one, g = share(table, w, c, x0, x1, x2, double(h[i]))
            g0 = g0 * (1.0 - one) + room * g[0]
            g1 = g1 * (1.0 - one) + room * g[1]
            g2 = g2 * (1.0 - one) + room * g[2]
            for k in range(parts.shape[1]):
                mine = room if w.rows[c, BODY] == k + 1 else 0.0
                for axis in range(3):
                    if axis != ignored_axis:
                        parts[i, k, axis] = parts[i, k, axis] * (1.0 - one) + mine * g[axis]
            room *= 1.0 - one
        value[i] = 1.0 - room
        grad[i, 0], grad[i, 1], grad[i, 2] = g0, g1, g2
    if ignored_axis >= 0:
        grad[:, ignored_axis] = 0.0
    return value, grad


@inline
def along_wall(shear: float) -> float:
    """By how much the fluid's share of a gradient along walls falls short."""
    return 1.0 / (1.0 - min(shear, MOST_SHEAR))


@inline
def across_axis(table: WallTable, x: float, half: float, h: float) -> float:
    """`along_wall` of the two walls of a container across one axis."""
    return along_wall(half_space(table, half + x, h)[2] + half_space(table, half - x, h)[2])


@inline
def mended(
    table: WallTable, world: World, solid: int, x: float, y: float, z: float, h: float, d: Vector
) -> Vector:
    """A correction d by the fluid, scaled along a solid (docs/theory: gradients along walls)."""
    s = world.rows[solid]
    if s[0] == BOX and s[1] < 0.0:
        x, y, z = local_point(s, x, y, z)
        a = across_axis(table, x, s[5], h)
        b = across_axis(table, y, s[6], h)
        c = across_axis(table, z, s[7], h)
        u, v, w = to_local(s, d[0], d[1], d[2])
        return to_world(s, b * c * u, a * c * v, a * b * w)
    phi, n = wall_distance(world, solid, x, y, z)
    n = unit(n[0], n[1], n[2])
    f = along_wall(half_space(table, phi, h)[2])
    across = (1.0 - f) * (d[0] * n[0] + d[1] * n[1] + d[2] * n[2])
    return f * d[0] + across * n[0], f * d[1] + across * n[1], f * d[2] + across * n[2]


def mend_gradients(
    table: WallTable, solids: Array | World, x: Array, h: Array, moved: Doubles,
    back: Doubles | None = None,
) -> None:  # fmt: skip
    """`mended` for the correction of every particle (n, 3), in place, solid by solid.

    What a solid adds along itself it takes from itself: `back` (n, bodies, 3).
    """
    none = np.zeros((len(x), 0, 3))
    _mend_gradients(table, world_of(solids), x, h, moved, none if back is None else back)


@parallel
def _mend_gradients(
    table: WallTable, w: World, x: Array, h: Array, moved: Doubles, back: Doubles
) -> None:
    for i in prange(len(x)):
        x0, x1, x2 = double(x[i, 0]), double(x[i, 1]), double(x[i, 2])
        d = (moved[i, 0], moved[i, 1], moved[i, 2])
        for c in range(len(w.rows)):
            after = mended(table, w, c, x0, x1, x2, double(h[i]), d)
            if back.shape[1] and w.rows[c, BODY] > 0.0:
                for axis in range(3):
                    back[i, int(w.rows[c, BODY]) - 1, axis] -= after[axis] - d[axis]
            d = after
        moved[i, 0], moved[i, 1], moved[i, 2] = d


@inline
def felt(b: Array, first: int, x: Vector, g: Vector) -> float:
    """How far a body goes along g at x if all that push it do so as one (columns first...)."""
    a = (x[0] - b[0], x[1] - b[1], x[2] - b[2])
    t = (a[1] * g[2] - a[2] * g[1], a[2] * g[0] - a[0] * g[2], a[0] * g[1] - a[1] * g[0])
    way = 0.0
    for k in range(3):
        way += abs(g[k]) * b[first + k]
        turn = b[3 + 3 * k] * t[0] + b[4 + 3 * k] * t[1] + b[5 + 3 * k] * t[2]
        way += abs(turn) * b[first + 3 + k]
    return way


@inline
def deforms(w: World, c: int) -> bool:
    s = w.rows[c]
    return bool(s[BODY] > 0.0 and s[0] == FIELD and w.start[int(s[26]), 4] >= 0)


@inline
def vertex_way(w: World, c: int, x: Vector) -> Vector:
    """`felt` of a deformable body, whose vertices yield each by itself; it stands in the world."""
    n = int(w.rows[c, 26])
    return channel(w, w.yields, w.start[n, 4], n, x[0], x[1], x[2])


@inline
def yielding(w: World, c: int, bodies: Doubles, x: Vector, n: Vector) -> float:
    """Share of a change along n that a particle makes, the rest being the body's."""
    s = w.rows[c]
    if not s[BODY] > 0.0:
        return 1.0
    if deforms(w, c):
        return 1.0 / (1.0 + vertex_way(w, c, x)[1])
    return 1.0 / (1.0 + felt(bodies[int(s[BODY]) - 1], 18, x, n))


@parallel
def body_shares(w: World, bodies: Doubles, x: Array, parts: Doubles) -> Doubles:
    """B_i of docs/theory/bodies.md: how far bodies yield to the pressure of particle i and of all
    others with it, along the parts (n, bodies, 3) of its gradient."""
    result = np.zeros(len(x))
    for i in prange(len(x)):
        at = (double(x[i, 0]), double(x[i, 1]), double(x[i, 2]))
        for k in range(len(bodies)):
            g = (parts[i, k, 0], parts[i, k, 1], parts[i, k, 2])
            result[i] += felt(bodies[k], 12, at, g)
        for c in range(len(w.rows)):
            if deforms(w, c):
                p = parts[i, int(w.rows[c, BODY]) - 1]
                size = math.sqrt(p[0] * p[0] + p[1] * p[1] + p[2] * p[2])
                result[i] += size * vertex_way(w, c, at)[0]
    return result


def signed_distances(
    solids: Array | World, x: Array, fields: Sequence[SparseField] = ()
) -> tuple[Doubles, Doubles]:
    """Distance (n, solids) and normal (n, solids, 3) of every particle and solid."""
    return _signed_distances(world_of(solids, fields), x)


@parallel
def _signed_distances(w: World, x: Array) -> tuple[Doubles, Doubles]:
    phi = np.empty((len(x), len(w.rows)))
    normal = np.empty((len(x), len(w.rows), 3))
    for i in prange(len(x)):
        x0, x1, x2 = double(x[i, 0]), double(x[i, 1]), double(x[i, 2])
        for c in range(len(w.rows)):
            phi[i, c], n = distance(w, c, x0, x1, x2)
            normal[i, c, 0], normal[i, c, 1], normal[i, c, 2] = n
    return phi, normal


def velocities(solids: World, x: Array) -> Doubles:
    """Velocity (n, solids, 3) of every solid at every particle [m/s]."""
    return _velocities(solids, x)


@parallel
def _velocities(w: World, x: Array) -> Doubles:
    u = np.empty((len(x), len(w.rows), 3))
    for i in prange(len(x)):
        for c in range(len(w.rows)):
            v = point_velocity(w, c, double(x[i, 0]), double(x[i, 1]), double(x[i, 2]))
            u[i, c, 0], u[i, c, 1], u[i, c, 2] = v
    return u
