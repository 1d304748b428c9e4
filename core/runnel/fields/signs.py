"""Inside or outside: a flood from far away that triangles stop, whichever way they face.

Voxels are joined to their six neighbours unless a triangle crosses between them. What the flood
reaches is outside; all else is solid. So parts may overlap, nest, touch, be doubled or face either
way. Only gaps can lead the flood astray: see `find_sides`. Cost: one test per triangle and grid
line, then a labelling inside each leaf (parallel) whose labels are joined across leaves.

States: 0 not known, 1 outside, 2 inside. Own voxels of a leaf: (z * 8 + y) * 8 + x.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .compile import inline, parallel, part, prange, serial
from .geometry import nearest_weights, segment_distance2
from .sample import find_tile
from .tiles import Cover, Table

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Bytes = NDArray[np.uint8]

UNKNOWN, OUTSIDE, INSIDE = 0, 1, 2

# Triangles stop the flood this far beyond their edges [voxels]: rounding, T-junctions and seams
# that were not welded let nothing through. To stop too much does no harm, a way around is found.
_MARGIN = 0.01
# A voxel this close to a triangle [voxels] is cut off from both sides: it would join them.
_TOUCH = 1e-6


@dataclass(frozen=True, eq=False)
class Sides:
    """Which side voxels and tiles lie on."""

    state: Bytes  # (leaves, 512)
    tile_state: Bytes  # (tiles of the table,)
    crossed: Bytes  # (leaves, 512) bits: a triangle between the voxel and the next along x, y, z
    regions: Ints  # (leaves, 512) number of what is joined without crossing; -1 near rims
    tile_regions: Ints  # (tiles of the table,)
    outer: int  # the region outside


def find_sides(corners: Floats, cover: Cover, table: Table, rims: Bytes, radius: float) -> Sides:
    """Sides of all voxels.

    rims (m,): sides of triangles (bits) that are open. The flood stops `radius` [voxels] from them,
    so that it passes no gap narrower than twice that; then both sides grow towards each other.
    """
    leaves = len(cover.tiles)
    crossed = np.zeros((leaves, 512), np.uint8)
    mark_crossings(corners, cover.tiles, cover.starts, cover.lists, crossed)
    closed = np.zeros((leaves, 512), np.uint8)
    if rims.any():
        mark_rims(corners, rims, radius, cover.tiles, cover.starts, cover.lists, closed)
    labels = np.empty((leaves, 512), np.int16)
    counts = np.empty(leaves, np.int64)
    label_leaves(crossed, closed, labels, counts)
    base = np.concatenate([[0], np.cumsum(counts)])
    parent = np.arange(int(base[-1]) + table.count, dtype=np.int32)
    join_labels(cover.table, table.dims, cover.tiles, labels, base, crossed, parent)
    regions = np.where(labels >= 0, parent[base[:-1, None] + labels], -1).astype(np.int32)
    outer = int(parent[base[-1]])  # of the table's first tile
    state = np.where(regions == outer, OUTSIDE, INSIDE).astype(np.uint8)
    state[labels < 0] = UNKNOWN
    tile_regions = parent[base[-1] :]
    tile_state = np.where(tile_regions == outer, OUTSIDE, INSIDE).astype(np.uint8)
    if closed.any():
        for _ in range(2 * int(np.ceil(radius)) + 2):
            before = state.copy()
            grow_sides(cover.table, table.dims, cover.tiles, crossed, tile_state, before, state)
        state[state == UNKNOWN] = INSIDE
    return Sides(state, tile_state, crossed, regions, tile_regions, outer)


def states_at(points: Floats, cover: Cover, table: Table, sides: Sides) -> Bytes:
    """State of the voxels nearest to points (n, 3) [voxels]."""
    nearest = np.round(points).astype(np.int64)
    result = np.empty(len(points), np.uint8)
    look_up(cover.table, table.dims, sides.state, sides.tile_state, nearest, result)
    return result


# --- what stops the flood -------------------------------------------------------------------------


@parallel
def mark_crossings(
    corners: Floats, tiles: Ints, starts: Longs, lists: Ints, crossed_out: Bytes
) -> None:
    """Bits of links from own voxels to the next along each axis that a triangle crosses."""
    for leaf in prange(len(tiles)):
        corner = np.empty(3, np.int64)
        for axis in range(3):
            corner[axis] = 8 * tiles[leaf, axis]
        for n in range(starts[leaf], starts[leaf + 1]):
            t = lists[n]
            near = True
            for axis in range(3):
                a, b, c = corners[t, axis], corners[t, 3 + axis], corners[t, 6 + axis]
                near &= max(a, b, c) > corner[axis] - 1 and min(a, b, c) < corner[axis] + 9
            if near:
                for axis in range(3):
                    _cross(corners, t, axis, corner, crossed_out[leaf])


@part
def _cross(corners: Floats, t: int, w: int, corner: Longs, bits: Bytes) -> None:
    """Where the grid lines of a leaf along axis w meet triangle t."""
    u, v = (w + 1) % 3, (w + 2) % 3
    au, av, aw = corners[t, u], corners[t, v], corners[t, w]
    bu, bv, bw = corners[t, 3 + u], corners[t, 3 + v], corners[t, 3 + w]
    cu, cv, cw = corners[t, 6 + u], corners[t, 6 + v], corners[t, 6 + w]
    low_w, high_w = min(aw, bw, cw), max(aw, bw, cw)
    area = (bu - au) * (cv - av) - (bv - av) * (cu - au)
    if abs(area) < 1e-12:
        return  # seen edge on: other axes see it
    side = 1.0 if area > 0.0 else -1.0
    margin_a = -_MARGIN * np.sqrt((cu - bu) ** 2 + (cv - bv) ** 2)
    margin_b = -_MARGIN * np.sqrt((au - cu) ** 2 + (av - cv) ** 2)
    margin_c = -_MARGIN * np.sqrt((bu - au) ** 2 + (bv - av) ** 2)
    u0 = max(corner[u], int(np.ceil(min(au, bu, cu) - _MARGIN)))
    u1 = min(corner[u] + 7, int(np.floor(max(au, bu, cu) + _MARGIN)))
    v0 = max(corner[v], int(np.ceil(min(av, bv, cv) - _MARGIN)))
    v1 = min(corner[v] + 7, int(np.floor(max(av, bv, cv) + _MARGIN)))
    step_u, step_v, step_w = 1 << (3 * u), 1 << (3 * v), 1 << (3 * w)
    bit = np.uint8(1 << w)
    for pu in range(u0, u1 + 1):
        for pv in range(v0, v1 + 1):
            wa = side * ((cu - bu) * (pv - bv) - (cv - bv) * (pu - bu))
            wb = side * ((au - cu) * (pv - cv) - (av - cv) * (pu - cu))
            wc = side * ((bu - au) * (pv - av) - (bv - av) * (pu - au))
            if wa < margin_a or wb < margin_b or wc < margin_c:
                continue
            height = (wa * aw + wb * bw + wc * cw) / (wa + wb + wc)
            height = min(max(height, low_w), high_w)
            # A crossing at a voxel itself counts on both sides of it.
            begin = int(np.floor(height - _TOUCH)) - corner[w]
            end = int(np.floor(height + _TOUCH)) - corner[w]
            row = (pu - corner[u]) * step_u + (pv - corner[v]) * step_v
            for k in range(max(begin, 0), min(end, 7) + 1):
                bits[row + k * step_w] |= bit


@parallel
def mark_rims(
    corners: Floats, rims: Bytes, radius: float, tiles: Ints, starts: Longs, lists: Ints,
    closed_out: Bytes,
) -> None:  # fmt: skip
    """Own voxels within a radius of open edges."""
    for leaf in prange(len(tiles)):
        for n in range(starts[leaf], starts[leaf + 1]):
            t = lists[n]
            for k in range(3):
                if rims[t] & (1 << k):
                    _mark_segment(corners, t, k, radius, tiles[leaf], closed_out[leaf])


@part
def _mark_segment(
    corners: Floats, t: int, k: int, radius: float, tile: Ints, closed: Bytes
) -> None:
    i, j = 3 * k, 3 * ((k + 1) % 3)
    sx, sy, sz = corners[t, i], corners[t, i + 1], corners[t, i + 2]
    ex, ey, ez = corners[t, j] - sx, corners[t, j + 1] - sy, corners[t, j + 2] - sz
    length2 = ex * ex + ey * ey + ez * ez
    inverse = 1.0 / length2 if length2 > 0.0 else 0.0
    sx, sy, sz = sx - 8 * tile[0], sy - 8 * tile[1], sz - 8 * tile[2]
    x0, x1 = max(0, int(min(sx, sx + ex) - radius)), min(7, int(max(sx, sx + ex) + radius))
    y0, y1 = max(0, int(min(sy, sy + ey) - radius)), min(7, int(max(sy, sy + ey) + radius))
    z0, z1 = max(0, int(min(sz, sz + ez) - radius)), min(7, int(max(sz, sz + ez) + radius))
    for z in range(z0, z1 + 1):
        for y in range(y0, y1 + 1):
            for x in range(x0, x1 + 1):
                d = segment_distance2(x - sx, y - sy, z - sz, ex, ey, ez, inverse)
                if d <= radius * radius:
                    closed[(z * 8 + y) * 8 + x] = 1


# --- the flood ------------------------------------------------------------------------------------


@parallel
def label_leaves(
    crossed: Bytes, closed: Bytes, labels_out: NDArray[np.int16], counts_out: Longs
) -> None:
    """Numbers of the regions of each leaf by itself, -1 for closed voxels."""
    for leaf in prange(len(crossed)):
        bits, labels = crossed[leaf], labels_out[leaf]
        stack = np.empty(512, np.int64)
        count = 0
        for v in range(512):
            labels[v] = -2 if closed[leaf, v] == 0 else -1
        for start in range(512):
            if labels[start] != -2:
                continue
            labels[start] = count
            stack[0], depth = start, 1
            while depth:
                depth -= 1
                v = stack[depth]
                for axis in range(3):
                    step = 1 << (3 * axis)
                    place = (v >> (3 * axis)) & 7
                    if place < 7 and labels[v + step] == -2 and not bits[v] & (1 << axis):
                        labels[v + step] = count
                        stack[depth] = v + step
                        depth += 1
                    if place > 0 and labels[v - step] == -2 and not bits[v - step] & (1 << axis):
                        labels[v - step] = count
                        stack[depth] = v - step
                        depth += 1
            count += 1
        counts_out[leaf] = count


@inline
def _root(parent: Ints, node: int) -> int:
    while parent[node] != node:
        parent[node] = parent[parent[node]]
        node = parent[node]
    return node


@inline
def _join(parent: Ints, a: int, b: int) -> None:
    a, b = _root(parent, a), _root(parent, b)
    if a < b:
        parent[b] = a
    else:
        parent[a] = b


@serial
def join_labels(
    table: Ints, dims: Ints, tiles: Ints, labels: NDArray[np.int16], base: Longs, crossed: Bytes,
    parent: Ints,
) -> None:  # fmt: skip
    """Join regions of neighbouring leaves and tiles; parents become roots.

    Nodes: labels of leaf l from base[l] on, then one for each tile of the table.
    """
    strides = np.empty(3, np.int64)
    strides[0], strides[1], strides[2] = 1, dims[0], np.int64(dims[0]) * dims[1]
    last = base[-1]
    for place in range(len(table)):
        here = table[place]
        x, y, z = place % dims[0], place // dims[0] % dims[1], place // strides[2]
        for axis in range(3):
            at = x if axis == 0 else (y if axis == 1 else z)
            if at + 1 >= dims[axis]:
                continue
            there = table[place + strides[axis]]
            if here < 0 and there < 0:
                _join(parent, last + place, last + place + strides[axis])
                continue
            step, side = 1 << (3 * axis), np.uint8(1 << axis)
            su, sv = 1 << (3 * ((axis + 1) % 3)), 1 << (3 * ((axis + 2) % 3))
            for k in range(64):
                near = (k & 7) * su + (k >> 3) * sv + 7 * step
                far = near - 7 * step
                a, b = last + place, last + place + strides[axis]
                if here >= 0:
                    if labels[here, near] < 0 or crossed[here, near] & side:
                        continue
                    a = base[here] + labels[here, near]
                if there >= 0:
                    if labels[there, far] < 0:
                        continue
                    b = base[there] + labels[there, far]
                _join(parent, a, b)
    for node in range(len(parent)):
        parent[node] = _root(parent, node)


@inline
def state_of(
    table: Ints, dims: Ints, state: Bytes, tile_state: Bytes, i: int, j: int, k: int
) -> int:
    """State of a voxel anywhere; outside beyond the table."""
    tx, ty, tz = i >> 3, j >> 3, k >> 3
    if tx < 0 or ty < 0 or tz < 0 or tx >= dims[0] or ty >= dims[1] or tz >= dims[2]:
        return OUTSIDE
    place = (tz * dims[1] + ty) * dims[0] + tx
    leaf = table[place]
    if leaf < 0:
        return int(tile_state[place])
    return int(state[leaf, ((k & 7) * 8 + (j & 7)) * 8 + (i & 7)])


@parallel
def look_up(
    table: Ints, dims: Ints, state: Bytes, tile_state: Bytes, voxels: Longs, result: Bytes
) -> None:
    for n in prange(len(voxels)):
        i, j, k = voxels[n, 0], voxels[n, 1], voxels[n, 2]
        result[n] = state_of(table, dims, state, tile_state, i, j, k)


@parallel
def grow_sides(
    table: Ints, dims: Ints, tiles: Ints, crossed: Bytes, tile_state: Bytes, state_in: Bytes,
    state_out: Bytes,
) -> None:  # fmt: skip
    """One step of both sides into voxels not known yet, along links; inside wins a tie."""
    for leaf in prange(len(tiles)):
        x0, y0, z0 = 8 * tiles[leaf, 0], 8 * tiles[leaf, 1], 8 * tiles[leaf, 2]
        for v in range(512):
            if state_in[leaf, v] != UNKNOWN:
                continue
            found = UNKNOWN
            for axis in range(3):
                for way in (-1, 1):
                    i, j, k = x0 + (v & 7), y0 + ((v >> 3) & 7), z0 + (v >> 6)
                    # The link belongs to the lower voxel of the two; it lies in a leaf.
                    i2, j2, k2 = i + way * (axis == 0), j + way * (axis == 1), k + way * (axis == 2)
                    li, lj, lk = min(i, i2), min(j, j2), min(k, k2)
                    owner = table[((lk >> 3) * dims[1] + (lj >> 3)) * dims[0] + (li >> 3)]
                    if owner >= 0:
                        link = crossed[owner, ((lk & 7) * 8 + (lj & 7)) * 8 + (li & 7)]
                        if link & (1 << axis):
                            continue
                    found = max(found, state_of(table, dims, state_in, tile_state, i2, j2, k2))
            state_out[leaf, v] = found


# --- signs of distances ---------------------------------------------------------------------------


@parallel
def is_buried(
    table: Ints, dims: Ints, tiles: Ints, crossed: Bytes, state: Bytes, tile_state: Bytes,
    result: NDArray[np.bool_],
) -> None:  # fmt: skip
    """Leaves with a triangle between two voxels of the solid: overlaps, inner faces, slits."""
    for leaf in prange(len(tiles)):
        x0, y0, z0 = 8 * tiles[leaf, 0], 8 * tiles[leaf, 1], 8 * tiles[leaf, 2]
        found = False
        for v in range(512):
            if state[leaf, v] != INSIDE or crossed[leaf, v] == 0:
                continue
            i, j, k = x0 + (v & 7), y0 + ((v >> 3) & 7), z0 + (v >> 6)
            for axis in range(3):
                if crossed[leaf, v] & (1 << axis):
                    i2, j2, k2 = i + (axis == 0), j + (axis == 1), k + (axis == 2)
                    found |= state_of(table, dims, state, tile_state, i2, j2, k2) == INSIDE
        result[leaf] = found


@parallel
def sign_distances(
    table: Ints, dims: Ints, tiles: Ints, state: Bytes, tile_state: Bytes, corners: Floats,
    unsigned: Singles, nearest: Ints, repair: NDArray[np.bool_], offsets: Ints, lengths: Floats,
    ball: float, signed_out: Singles, nearest_out: Ints,
) -> None:  # fmt: skip
    """Signed distances [voxels] of all 9^3 values.

    A voxel of the solid whose nearest triangle has no fluid behind it (it is inside of the union
    of parts) takes its distance from empty balls: around an outside voxel b no surface is nearer
    than d_b, and the way from here to b passes the surface, so |d| <= |x - b| - d_b, with equality
    for b straight across. repair: leaves to look at; offsets, lengths: ways to look, the
    shortest first.
    """
    for leaf in prange(len(tiles)):
        x0, y0, z0 = 8 * tiles[leaf, 0], 8 * tiles[leaf, 1], 8 * tiles[leaf, 2]
        for v in range(729):
            i, j, k = x0 + v % 9, y0 + v // 9 % 9, z0 + v // 81
            d, t = unsigned[leaf, v], nearest[leaf, v]
            nearest_out[leaf, v] = t
            signed_out[leaf, v] = d
            x, y, z = v % 9, v // 9 % 9, v // 81
            if x < 8 and y < 8 and z < 8:
                here = int(state[leaf, (z * 8 + y) * 8 + x])
            else:
                here = state_of(table, dims, state, tile_state, i, j, k)
            if here != INSIDE:
                continue
            signed_out[leaf, v] = -d
            if not repair[leaf] or t < 0:
                continue
            if _exposed(table, dims, state, tile_state, corners, t, i, j, k):
                continue
            best, found = float(lengths[-1]), -1
            for n in range(len(offsets)):
                if lengths[n] - ball >= best:
                    break
                bi, bj, bk = i + offsets[n, 0], j + offsets[n, 1], k + offsets[n, 2]
                if state_of(table, dims, state, tile_state, bi, bj, bk) != OUTSIDE:
                    continue
                there = find_tile(table, dims, bi, bj, bk)
                if there < 0:
                    continue
                w = ((bk & 7) * 9 + (bj & 7)) * 9 + (bi & 7)
                empty = float(unsigned[there, w])
                if empty <= ball and lengths[n] - empty < best:
                    best, found = max(lengths[n] - empty, 0.0), nearest[there, w]
            signed_out[leaf, v] = -best
            nearest_out[leaf, v] = found


@part
def _exposed(
    table: Ints, dims: Ints, state: Bytes, tile_state: Bytes, corners: Floats, t: int,
    i: int, j: int, k: int,
) -> bool:  # fmt: skip
    """Whether fluid may be at the point of triangle t nearest to a voxel."""
    a, b, c = nearest_weights(corners, t, float(i), float(j), float(k))
    x = a * corners[t, 0] + b * corners[t, 3] + c * corners[t, 6]
    y = a * corners[t, 1] + b * corners[t, 4] + c * corners[t, 7]
    z = a * corners[t, 2] + b * corners[t, 5] + c * corners[t, 8]
    x0, y0, z0 = int(np.floor(x - _TOUCH)), int(np.floor(y - _TOUCH)), int(np.floor(z - _TOUCH))
    for pk in range(z0, int(np.floor(z + _TOUCH)) + 2):
        for pj in range(y0, int(np.floor(y + _TOUCH)) + 2):
            for pi in range(x0, int(np.floor(x + _TOUCH)) + 2):
                if state_of(table, dims, state, tile_state, pi, pj, pk) == OUTSIDE:
                    return True
    return False
