"""Nearest points of triangles, for compiled functions.

A point projects into a triangle, or its nearest point lies on an edge that has it on its outer
side: at an edge's inside the way to the point is that edge's outward normal, and at a corner it is
a positive sum of two of them, so the point is beyond at least one. Both hold for slivers too.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .compile import inline, part

Floats = NDArray[np.float64]


@inline
def segment_distance2(
    px: float, py: float, pz: float, ex: float, ey: float, ez: float, inverse: float
) -> float:
    """Squared distance of p from the segment 0..e; inverse: 1 / |e|^2."""
    t = (px * ex + py * ey + pz * ez) * inverse
    t = 0.0 if t < 0.0 else (1.0 if t > 1.0 else t)
    dx, dy, dz = px - t * ex, py - t * ey, pz - t * ez
    return dx * dx + dy * dy + dz * dz


@part
def frame_of(corners: Floats, t: int, frame: Floats) -> bool:
    """Numbers that nearest-point tests of triangle t share; False if it has no area.

    frame (27,): a; edges ab, bc, ca; unit normal n; n x ab, n x bc, n x ca (into the triangle);
    1 / length^2 of the edges.
    """
    for axis in range(3):
        a, b, c = corners[t, axis], corners[t, 3 + axis], corners[t, 6 + axis]
        frame[axis] = a
        frame[3 + axis] = b - a
        frame[6 + axis] = c - b
        frame[9 + axis] = a - c
    ux, uy, uz, wx, wy, wz = frame[3], frame[4], frame[5], -frame[9], -frame[10], -frame[11]
    nx, ny, nz = uy * wz - uz * wy, uz * wx - ux * wz, ux * wy - uy * wx
    length = np.sqrt(nx * nx + ny * ny + nz * nz)
    if not length > 0.0:
        return False
    nx, ny, nz = nx / length, ny / length, nz / length
    frame[12], frame[13], frame[14] = nx, ny, nz
    for k in range(3):
        ex, ey, ez = frame[3 + 3 * k], frame[4 + 3 * k], frame[5 + 3 * k]
        frame[15 + 3 * k] = ny * ez - nz * ey
        frame[16 + 3 * k] = nz * ex - nx * ez
        frame[17 + 3 * k] = nx * ey - ny * ex
        frame[24 + k] = 1.0 / (ex * ex + ey * ey + ez * ez)
    return True


@inline
def edge_distance2(f: Floats, px: float, py: float, pz: float) -> float:
    """Squared distance of p (seen from corner a) from the edges that have it on their outer side.

    -1 if there is none: p projects into the triangle.
    """
    best = -1.0
    if f[15] * px + f[16] * py + f[17] * pz < 0.0:
        best = segment_distance2(px, py, pz, f[3], f[4], f[5], f[24])
    qx, qy, qz = px - f[3], py - f[4], pz - f[5]
    if f[18] * qx + f[19] * qy + f[20] * qz < 0.0:
        d = segment_distance2(qx, qy, qz, f[6], f[7], f[8], f[25])
        best = d if best < 0.0 or d < best else best
    if f[21] * px + f[22] * py + f[23] * pz < 0.0:
        # From a backwards: the segment 0..-ca.
        d = segment_distance2(px, py, pz, -f[9], -f[10], -f[11], f[26])
        best = d if best < 0.0 or d < best else best
    return best


@part
def distance2(f: Floats, x: float, y: float, z: float) -> float:
    """Squared distance of a point from the triangle of a frame."""
    px, py, pz = x - f[0], y - f[1], z - f[2]
    best = edge_distance2(f, px, py, pz)
    if best >= 0.0:
        return best
    h = f[12] * px + f[13] * py + f[14] * pz
    return h * h


@part
def nearest_weights(
    corners: Floats, t: int, x: float, y: float, z: float
) -> tuple[float, float, float]:
    """Barycentric weights of the point of triangle t that is nearest to a point.

    Of a triangle without area too: the nearest of its edges decides.
    """
    ax, ay, az = corners[t, 0], corners[t, 1], corners[t, 2]
    ux, uy, uz = corners[t, 3] - ax, corners[t, 4] - ay, corners[t, 5] - az
    vx, vy, vz = corners[t, 6] - ax, corners[t, 7] - ay, corners[t, 8] - az
    px, py, pz = x - ax, y - ay, z - az
    uu, vv, uv = (
        ux * ux + uy * uy + uz * uz,
        vx * vx + vy * vy + vz * vz,
        ux * vx + uy * vy + uz * vz,
    )
    pu, pv = px * ux + py * uy + pz * uz, px * vx + py * vy + pz * vz
    determinant = uu * vv - uv * uv
    if determinant > 1e-20 * uu * vv:
        b = (vv * pu - uv * pv) / determinant
        c = (uu * pv - uv * pu) / determinant
        if b >= 0.0 and c >= 0.0 and b + c <= 1.0:
            return 1.0 - b - c, b, c
    best = np.inf
    wa, wb, wc = 1.0, 0.0, 0.0
    for k in range(3):
        i, j = 3 * k, 3 * ((k + 1) % 3)
        sx, sy, sz = corners[t, i], corners[t, i + 1], corners[t, i + 2]
        ex, ey, ez = corners[t, j] - sx, corners[t, j + 1] - sy, corners[t, j + 2] - sz
        length2 = ex * ex + ey * ey + ez * ez
        s = 0.0
        if length2 > 0.0:
            s = ((x - sx) * ex + (y - sy) * ey + (z - sz) * ez) / length2
            s = min(max(s, 0.0), 1.0)
        dx, dy, dz = x - sx - s * ex, y - sy - s * ey, z - sz - s * ez
        d = dx * dx + dy * dy + dz * dz
        if d < best:
            best = d
            wa = 1.0 - s if k == 0 else (0.0 if k == 1 else s)
            wb = s if k == 0 else (1.0 - s if k == 1 else 0.0)
            wc = 0.0 if k == 0 else (s if k == 1 else 1.0 - s)
    return wa, wb, wc
