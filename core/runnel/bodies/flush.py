"""Which parts of a body's surface lie flush with another solid: samples against distance fields."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..backends.base import BODY, BOX, FIELD
from ..backends.reference.compile import bare, inline
from ..backends.reference.field import World
from ..backends.reference.solids import Vector, distance, local_point, signed_distances

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

EDGE = 0.45  # [spacings], over half of which areas at edges reach: docs/theory/bodies.md
ACROSS = 48  # samples across a body, at most
BLOCK = 2  # of samples that are asked for together, in their spacing
# Gaps in spacings of the particles: none fits into less than one; from WIDE on, some do well.
THIN, WIDE = 1.0, 1.5
# Minus the cosine between the normals of both sides: a face that meets a floor edge on has no gap.
ASKEW, FACING = 0.3, 0.7


class Samples(NamedTuple):
    """Of the surfaces of all bodies, one body after the other, and block by block."""

    points: Floats  # (n, 3) about the centre
    areas: Floats  # (n, 3) outwards
    firsts: Ints  # samples of blocks, and the end
    balls: Floats  # around blocks: centre, radius
    blocks: Ints  # first ones of bodies, and the end
    reach: Floats  # of bodies [m]


class Poses(NamedTuple):
    """Of all bodies."""

    turns: Floats  # (n, 3, 3)
    centres: Floats  # (n, 3)


def surface_samples(
    world: World, solid: int, centre: Floats, reach: float, spacing: float
) -> tuple[Floats, Floats, float]:
    """Points on the surface about the centre, their areas as vectors outwards, all (n, 3) and
    block by block, and their spacing [m].

    From a grid along the axes of the shape: the gradient of what it fills of the cells. Summed up
    over the nodes that belong to a face it is the area of that face, corners and all.
    """
    row, flat = world.rows[solid], int(world.ignored[0])
    step = max(spacing, 2 * reach / ACROSS)
    if row[0] == FIELD:  # which ends near its surface
        step = min(step, 0.6 * float(row[5] * world.head[int(row[26]), 4]))
    half = int(np.ceil(reach / step)) + 2
    along = (np.arange(-half, half) + 0.5) * step
    axes = [np.zeros(1) if k == flat else along for k in range(3)]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
    turn = row[8:17].reshape(3, 3) if flat < 0 else np.eye(3)
    own = world._replace(rows=world.rows[solid : solid + 1].copy())
    points = grid.reshape(-1, 3) @ turn + centre
    phi, normal = (found[:, 0] for found in signed_distances(own, points))
    filled = np.clip(0.5 - phi / step, 0.0, 1.0).reshape(grid.shape[:3])
    areas = np.zeros_like(grid)
    for k in range(3):
        if k != flat:
            areas[..., k] = -np.gradient(filled, axis=k) * step ** (2 if flat < 0 else 1)
    near = (areas != 0).any(axis=-1).reshape(-1)
    areas, grid = areas.reshape(-1, 3)[near], grid.reshape(-1, 3)[near]
    phi, normal = phi[near], normal[near] @ turn.T
    # Particles push a face as if it ended 0.22 spacings short of its edges.
    points, areas = _on_surface(grid, areas, phi, normal, max(1 - EDGE * spacing / step, 0.0))
    kept = (areas != 0).any(axis=1)
    points, areas = _merged(points[kept], areas[kept], 1e-6 * step)
    points, areas = points @ turn, areas @ turn
    cells = np.floor(points / (BLOCK * step)).astype(np.int64)
    order = np.lexsort(cells.T)
    return points[order], areas[order], step


def _on_surface(
    nodes: Floats, areas: Floats, phi: Floats, normal: Floats, at_edges: float
) -> tuple[Floats, Floats]:
    """Where the areas of nodes near the surface lie. At edges, nodes have some of several faces:
    those are taken apart, so that each lies on its own, and count by the share at_edges."""
    along = (areas * normal).sum(axis=1) > 0.9 * np.sqrt((areas**2).sum(axis=1))
    points = [(nodes - phi[:, None] * normal)[along]]
    parts = [areas[along]]
    for k in range(3):
        own = ~along & (areas[:, k] != 0)
        way = np.zeros((int(own.sum()), 3))
        way[:, k] = np.sign(areas[own, k])
        points.append(nodes[own] - phi[own, None] * way)
        parts.append(at_edges * np.abs(areas[own, k])[:, None] * way)
    return np.concatenate(points), np.concatenate(parts)


def _merged(points: Floats, areas: Floats, within: float) -> tuple[Floats, Floats]:
    """Samples of one place and face as one: nodes at both sides of a flat face have one each."""
    face = np.round(areas / np.sqrt((areas**2).sum(axis=1, keepdims=True)))
    _, kept, same = np.unique(
        np.hstack([np.round(points / within), face]), axis=0, return_index=True, return_inverse=True
    )
    sums = np.zeros((len(kept), 3))
    np.add.at(sums, same.reshape(-1), areas)
    return points[kept], sums


def blocks_of(points: Floats, step: float) -> tuple[Ints, Floats]:
    """First samples of blocks, as surface_samples orders them; centres and radii (n, 4)."""
    if not len(points):  # of a body that is smaller than a cell
        return np.zeros(0, np.int64), np.zeros((0, 4))
    cells = np.floor(points / (BLOCK * step)).astype(np.int64)
    first = np.flatnonzero(np.append(True, (np.diff(cells, axis=0) != 0).any(axis=1)))
    balls = np.zeros((len(first), 4))
    for k, part in enumerate(np.split(points, first[1:])):
        balls[k, :3] = 0.5 * (part.min(axis=0) + part.max(axis=0))
        balls[k, 3] = np.sqrt(((part - balls[k, :3]) ** 2).sum(axis=1).max())
    return first, balls


@inline
def placed(poses: Poses, a: int, points: Floats, k: int) -> Vector:
    """A point of body a in the world."""
    x, y, z, m, o = points[k, 0], points[k, 1], points[k, 2], poses.turns, poses.centres
    return (
        o[a, 0] + m[a, 0, 0] * x + m[a, 0, 1] * y + m[a, 0, 2] * z,
        o[a, 1] + m[a, 1, 0] * x + m[a, 1, 1] * y + m[a, 1, 2] * z,
        o[a, 2] + m[a, 2, 0] * x + m[a, 2, 1] * y + m[a, 2, 2] * z,
    )


@inline
def gap(w: World, c: int, face: int, x: Vector) -> tuple[float, Vector]:
    """Distance to solid c and its normal; of a container to one pair of its walls."""
    s = w.rows[c]
    if face < 0:
        return distance(w, c, x[0], x[1], x[2])
    local = local_point(s, x[0], x[1], x[2])
    side = 1.0 if local[face] < 0.0 else -1.0
    n = (side * s[8 + 3 * face], side * s[9 + 3 * face], side * s[10 + 3 * face])
    return s[5 + face] - abs(local[face]), n


@inline
def known(w: World, c: int) -> float:
    """Up to where solid c knows its distance."""
    s = w.rows[c]
    return 0.99 * s[5] * w.head[int(s[26]), 4] if s[0] == FIELD else np.inf


@inline
def may_touch(w: World, c: int, face: int, x: Vector, room: float) -> bool:
    """Whether solid c may be within room of x."""
    phi, _ = gap(w, c, face, x)
    return min(phi, known(w, c)) <= room


@inline
def block_may_touch(
    w: World, c: int, face: int, a: int, k: int, poses: Poses, samples: Samples, room: float
) -> bool:
    middle, radius = placed(poses, a, samples.balls, k), samples.balls[k, 3]
    return may_touch(w, c, face, middle, radius + room)


@bare
def find_flush(
    w: World, poses: Poses, samples: Samples, asks: Ints, spacing: float, room: Floats,
    out: Floats, others: Ints,
) -> int:  # fmt: skip
    """Samples within room (per body) [m] of solids that a body that asks is flush with: how many.

    others (n, 2): sample, body of the other solid or -1; out (n, 4): how far it is flush, 0 to 1,
    and that solid's normal.
    """
    count, reach = 0, samples.reach
    for a in range(len(reach)):
        if not asks[a]:
            continue
        at = (poses.centres[a, 0], poses.centres[a, 1], poses.centres[a, 2])
        for c in range(len(w.rows)):
            s = w.rows[c]
            b = int(s[BODY]) - 1
            if b == a:
                continue
            if b >= 0:
                o = poses.centres
                dx, dy, dz = at[0] - o[b, 0], at[1] - o[b, 1], at[2] - o[b, 2]
                if dx * dx + dy * dy + dz * dz > (reach[a] + reach[b] + WIDE * spacing) ** 2:
                    continue
            hollow = s[0] == BOX and s[1] < 0.0
            for face in range(0 if hollow else -1, 3 if hollow else 0):
                # Most bodies are near something, and few flush.
                if may_touch(w, c, face, at, reach[a] + WIDE * spacing) and is_flush(
                    w, c, face, a, poses, samples, spacing
                ):
                    count = take_near(
                        w, c, face, a, poses, samples, spacing, room[a], count, out, others
                    )
                if count == len(out):  # no room; asked again with more
                    return count
    return count


@inline
def is_flush(
    w: World, c: int, face: int, a: int, poses: Poses, samples: Samples, spacing: float
) -> bool:
    """Whether any sample of body a is flush with solid c."""
    room = WIDE * spacing
    for k in range(samples.blocks[a], samples.blocks[a + 1]):
        if not block_may_touch(w, c, face, a, k, poses, samples, room):
            continue
        for p in range(samples.firsts[k], samples.firsts[k + 1]):
            phi, n = gap(w, c, face, placed(poses, a, samples.points, p))
            near = phi < min(room, known(w, c))
            if near and flushness(poses, a, samples.areas, p, n, phi / spacing) > 0.0:
                return True
    return False


@inline
def take_near(
    w: World, c: int, face: int, a: int, poses: Poses, samples: Samples, spacing: float,
    room: float, count: int, out: Floats, others: Ints,
) -> int:  # fmt: skip
    """Samples of body a within room of solid c, behind those that are in out already."""
    for k in range(samples.blocks[a], samples.blocks[a + 1]):
        if not block_may_touch(w, c, face, a, k, poses, samples, room):
            continue
        for p in range(samples.firsts[k], samples.firsts[k + 1]):
            phi, n = gap(w, c, face, placed(poses, a, samples.points, p))
            if phi >= min(room, known(w, c)) or count == len(out):
                continue
            others[count, 0], others[count, 1] = p, int(w.rows[c, BODY]) - 1
            out[count, 0] = flushness(poses, a, samples.areas, p, n, phi / spacing)
            out[count, 1], out[count, 2], out[count, 3] = n
            count += 1
    return count


@inline
def flushness(poses: Poses, a: int, areas: Floats, p: int, n: Vector, gap: float) -> float:
    """Of sample p of body a at a gap, in spacings, from what has the normal n."""
    x, y, z, m = areas[p, 0], areas[p, 1], areas[p, 2], poses.turns
    facing, square = 0.0, x * x + y * y + z * z
    for i in range(3):
        facing -= n[i] * (m[a, i, 0] * x + m[a, i, 1] * y + m[a, i, 2] * z)
    facing = (facing / np.sqrt(square) - ASKEW) / (FACING - ASKEW)
    thin = (WIDE - gap) / (WIDE - THIN)
    return min(max(facing, 0.0), 1.0) * min(max(thin, 0.0), 1.0)
