"""Solids with their fields, and sampling of fields: docs/theory/fields.md. Twin: kernels/fields.cl.

All fields of a table of solids lie in shared arrays; `World` says where each one begins.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..base import SOLID_COLUMNS
from .compile import called, double, inline

if TYPE_CHECKING:
    from ...fields.grid import SparseField

Doubles = NDArray[np.float64]
Singles = NDArray[np.float32]
Vector = tuple[float, float, float]
Sample = tuple[float, float, float, float]  # distance, gradient


class World(NamedTuple):
    """Solids, and their fields one after the other. Flat: parallel loops take no nested tuples."""

    rows: Doubles  # (n, SOLID_COLUMNS), as in backends/base.py
    ignored: NDArray[np.int64]  # (1,) axis that a 2D scene leaves out, or -1
    head: Doubles  # (fields, 7) origin, voxel, band, background, margin of the table
    dims: NDArray[np.int64]  # (fields, 3)
    start: NDArray[np.int64]  # (fields, 5) first tile, leaf; first leaf of the channels or -1
    table: NDArray[np.int32]  # as fields/packed.py writes it
    values: Singles  # (leaves, 729)
    walls: Singles  # (leaves, 729) psi of fields/walls.py
    velocity: Singles  # (leaves, 729, 3)
    surface: Singles  # (leaves, 729, 3) friction, bounce, stickiness
    yields: Singles  # (leaves, 729, 3) of deformable bodies: to pressure, to contact


def world_of(
    rows: NDArray[np.float32] | Doubles | World,
    fields: Sequence[SparseField] = (),
    ignored_axis: int = -1,
) -> World:
    """Rows and fields as passes want them; an empty table may have any shape."""
    if isinstance(rows, World):
        return rows
    head = np.zeros((len(fields), 7))
    dims, start = np.zeros((len(fields), 3), np.int64), np.zeros((len(fields), 5), np.int64)
    tables, values = [np.zeros(0, np.int32)], [np.zeros((0, 729), np.float32)]
    walls = [values[0]]
    channels = [[np.zeros((0, 729, 3), np.float32)] for _ in range(3)]
    place = np.zeros(5, np.int64)
    for n, field in enumerate(fields):
        from ...fields.packed import far_table, margin_of  # scenes without fields do not need it

        table = far_table(field)
        head[n] = *field.origin, field.voxel, field.band, field.background, margin_of(field, table)
        dims[n], start[n] = field.dims, place
        tables.append(table)
        values.append(field.values)
        walls.append(field.values if field.wall is None else field.wall)
        place += [len(field.table), field.leaves, 0, 0, 0]
        for k, channel in enumerate((field.velocity, field.surface, field.yields)):
            if channel is None:
                start[n, 2 + k] = -1
            else:
                channels[k].append(channel)
                place[2 + k] += field.leaves
    solids = np.ascontiguousarray(rows, np.float64).reshape(-1, SOLID_COLUMNS)
    return World(
        solids, np.array([ignored_axis]), head, dims, start, np.concatenate(tables),
        np.concatenate(values), np.concatenate(walls), *(np.concatenate(c) for c in channels),
    )  # fmt: skip


@inline
def unit(x: float, y: float, z: float) -> Vector:
    """A vector's direction; 0 stays 0."""
    length = math.sqrt(x * x + y * y + z * z)
    if length < 1e-10:
        return 0.0, 0.0, 0.0
    return x / length, y / length, z / length


@inline
def clamp(x: float, size: float) -> float:
    return max(0.0, min(x, size))


@inline
def grid_place(f: World, n: int, x: float, y: float, z: float) -> Vector:
    """In voxels from the first of field n."""
    h = f.head[n]
    return (x - h[0]) / h[3], (y - h[1]) / h[3], (z - h[2]) / h[3]


@inline
def entry_at(f: World, n: int, x: float, y: float, z: float) -> tuple[bool, int, int]:
    """Of a place in voxels: in the table?, its entry, the first value of its cell."""
    d = f.dims[n]
    if not (x >= 0 and y >= 0 and z >= 0 and x < 8 * d[0] and y < 8 * d[1] and z < 8 * d[2]):
        return False, 0, 0
    i, j, k = int(x), int(y), int(z)
    tile = ((k >> 3) * d[1] + (j >> 3)) * d[0] + (i >> 3)
    corner = ((k & 7) * 9 + (j & 7)) * 9 + (i & 7)
    return True, int(f.table[f.start[n, 0] + tile]), corner


@inline
def beyond_table(f: World, n: int, x: float, y: float, z: float) -> Sample:
    d, side = f.dims[n], -1.0 if f.head[n, 5] < 0 else 1.0
    u, v, w = clamp(x, 8.0 * d[0]) - x, clamp(y, 8.0 * d[1]) - y, clamp(z, 8.0 * d[2]) - z
    g = unit(u, v, w)
    away = math.sqrt(u * u + v * v + w * w) * f.head[n, 3]
    return side * (f.head[n, 4] + f.head[n, 6] + away), -side * g[0], -side * g[1], -side * g[2]


@inline
def far_tile(f: World, n: int, entry: int) -> Sample:
    code = -1 - entry
    way = (code >> 1) & 31
    side = -1.0 if code & 1 else 1.0
    g = unit(double(way % 3 - 1), double(way // 3 % 3 - 1), double(way // 9 - 1))
    phi = f.head[n, 4] + 8.0 * ((code >> 6) - 1) * f.head[n, 3]
    return side * phi, -side * g[0], -side * g[1], -side * g[2]


@inline
def mixed(a: float, b: float, share: float) -> float:
    return a + share * (b - a)


@inline
def in_cell(v: Singles, o: int, x: float, y: float, z: float, inverse: float) -> Sample:
    """Trilinear value and gradient at x, y, z in 0..1 of the cell whose first value is v[o]."""
    a, b, c, d = double(v[o]), double(v[o + 1]), double(v[o + 9]), double(v[o + 10])
    p, q, r, s = double(v[o + 81]), double(v[o + 82]), double(v[o + 90]), double(v[o + 91])
    low, high = mixed(mixed(a, b, x), mixed(c, d, x), y), mixed(mixed(p, q, x), mixed(r, s, x), y)
    gx = mixed(mixed(b - a, d - c, y), mixed(q - p, s - r, y), z)
    gy = mixed(mixed(c, d, x) - mixed(a, b, x), mixed(r, s, x) - mixed(p, q, x), z)
    return mixed(low, high, z), gx * inverse, gy * inverse, (high - low) * inverse


@called
def sample(f: World, values: Singles, n: int, x: float, y: float, z: float) -> Sample:
    """Distance and gradient of field n at a point of its frame [m]; values or walls of f."""
    x, y, z = grid_place(f, n, x, y, z)
    within, entry, corner = entry_at(f, n, x, y, z)
    if not within:
        return beyond_table(f, n, x, y, z)
    if entry < 0:
        return far_tile(f, n, entry)
    v = values[f.start[n, 1] + entry]
    phi, gx, gy, gz = in_cell(v, corner, x - int(x), y - int(y), z - int(z), 1.0 / f.head[n, 3])
    if phi < 0.0 and gx * gx + gy * gy + gz * gz < 1e-12:  # deep in it: what the corners know
        gx = double(v[8]) - v[0] + v[728] - v[720]
        gy = double(v[72]) - v[0] + v[728] - v[656]
        gz = double(v[648]) - v[0] + v[728] - v[80]
    return phi, gx, gy, gz


@called
def channel(f: World, values: Singles, first: int, n: int, x: float, y: float, z: float) -> Vector:
    """Three numbers of field n, whose leaves begin at `first` of values; 0 where it has none."""
    x, y, z = grid_place(f, n, x, y, z)
    within, entry, corner = entry_at(f, n, x, y, z)
    if not within or entry < 0 or first < 0:
        return 0.0, 0.0, 0.0
    v = values[first + entry]
    a, b, c = 0.0, 0.0, 0.0
    x, y, z = x - int(x), y - int(y), z - int(z)
    for k in range(8):
        i, j, m = k & 1, (k >> 1) & 1, k >> 2
        weight = (x if i else 1.0 - x) * (y if j else 1.0 - y) * (z if m else 1.0 - z)
        at = v[corner + (m * 9 + j) * 9 + i]
        a, b, c = a + weight * at[0], b + weight * at[1], c + weight * at[2]
    return a, b, c


@called
def blended(
    f: World, values: Singles, s: Doubles, x: float, y: float, z: float
) -> tuple[float, Vector]:
    """Distance [m] and gradient between the two fields of a row; values or walls of f."""
    first, second, share = int(s[26]), int(s[27]), s[6]
    phi, gx, gy, gz = sample(f, values, first, x, y, z)
    if share > 0.0:
        later, ux, uy, uz = sample(f, values, second, x, y, z)
        a = max(-f.head[first, 4], min(phi, f.head[first, 4]))
        b = max(-f.head[second, 4], min(later, f.head[second, 4]))
        if a == phi or b == later or (a < 0) != (b < 0):
            phi = mixed(a, b, share)
        else:  # neither knows more than the side: the nearer one
            phi = max(phi, later) if a < 0 else min(phi, later)
        gx, gy, gz = mixed(gx, ux, share), mixed(gy, uy, share), mixed(gz, uz, share)
    return phi, (gx, gy, gz)
