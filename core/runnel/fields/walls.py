"""How far off a flat wall would have to be to fill as much of a particle's neighbourhood.

The solver knows what a half space adds to the density, by distance. In a concave corner there is
more solid around a particle than behind the plane it is nearest to, at a ridge or a sheet there is
less. So each voxel has a second number beside its distance phi: psi, the distance of the half space
that holds the same share S of a bell-shaped kernel of radius h,

    psi = phi + h (T(S) - T(S_plane)),    T: from the share of a half space to its distance / h

S from the voxels of the solid around, S_plane the same sum for the tangent plane at distance phi:
what the sum is off by cancels, and at flat walls psi = phi. Where voxels are much finer than h
not all of them are asked: every second along each axis, every third, ...
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from .compile import inline, parallel, prange
from .grid import SparseField
from .sample import find_tile

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Ints = NDArray[np.int32]

_DEEPEST = -0.5  # [h]: deeper in the solid psi is not asked for
_LEAST = 2e-4  # share below which T says nothing
_SAMPLES = 512
_ENOUGH = 3.0  # taps along h
_FLAT = 0.02  # voxels: where the outermost taps are that close to the plane, so is everything


def with_walls(field: SparseField, kernel_radius: float) -> SparseField:
    """The field with `wall`, for particles of a kernel radius [m, of the field's frame]."""
    stride = max(1, int(kernel_radius / field.voxel / _ENOUGH))
    tap = stride * field.voxel  # from one to the next [m]
    offsets, weights, far = _taps(kernel_radius / tap)
    out = np.empty_like(field.values)
    scalars = np.array([1.0 / tap, field.band, field.background, kernel_radius / tap])
    measure_walls(
        field.table, field.dims, field.tiles, field.values, scalars, stride, offsets, weights, far,
        _half_space(), out,
    )  # fmt: skip
    return replace(field, wall=out)


def _bell(q: Floats) -> Floats:
    bell: Floats = np.maximum(1.0 - q, 0.0) ** 4 * (4.0 * q + 1.0)
    return bell


def _bell_polynomial() -> np.polynomial.Polynomial:
    return np.polynomial.Polynomial([1.0, -1.0]) ** 4 * np.polynomial.Polynomial([1.0, 4.0])


def _taps(reach: float) -> tuple[Ints, Floats, Ints]:
    """Taps within reach, their weights (sum 1), and those that stand for the rim."""
    radius = int(np.ceil(reach))
    steps = np.arange(-radius, radius + 1)
    offsets = np.stack(np.meshgrid(steps, steps, steps, indexing="ij"), axis=-1).reshape(-1, 3)
    lengths = np.linalg.norm(offsets, axis=1)
    offsets, lengths = offsets[lengths < reach], lengths[lengths < reach]
    weights = _bell(lengths / reach)
    rim = lengths >= lengths.max() - 1.0
    return offsets.astype(np.int32), weights / weights.sum(), offsets[rim].astype(np.int32)


def _half_space() -> Floats:
    """Share of the bell beyond a plane, by distance / h from -1 to 1."""
    z = np.linspace(-1.0, 1.0, _SAMPLES + 1)
    # Of a slice at z: the bell times r, from |z| to 1.
    integral = (np.polynomial.Polynomial([0.0, 1.0]) * _bell_polynomial()).integ()
    slices = integral(1.0) - integral(np.abs(z))
    beyond = np.concatenate([[0.0], np.cumsum((slices[1:] + slices[:-1])[::-1])])[::-1]
    share: Floats = np.ascontiguousarray(beyond / beyond[0])
    return share


@inline
def value_at(
    table: Ints, dims: Ints, values: Singles, band: float, background: float, i: int, j: int, k: int
) -> float:
    """Distance at a voxel of the table, or beyond it [m]."""
    entry = find_tile(table, dims, i, j, k)
    if entry >= 0:
        return float(values[entry, ((k & 7) * 9 + (j & 7)) * 9 + (i & 7)])
    return background if entry == -3 else (-band if entry == -2 else band)


@inline
def filled(phi: float) -> float:
    """Share of a tap that is solid; phi in distances of taps."""
    return min(max(0.5 - phi, 0.0), 1.0)


@inline
def plane_distance(share: Floats, s: float) -> float:
    """T: distance / h of the half space of a share."""
    low, high = 0, len(share) - 1
    s = min(max(s, _LEAST), 1.0 - _LEAST)
    while high - low > 1:
        middle = (low + high) // 2
        if share[middle] > s:
            low = middle
        else:
            high = middle
    t = (share[low] - s) / max(share[low] - share[high], 1e-12)
    return 2.0 * (low + t) / (len(share) - 1) - 1.0


@parallel
def measure_walls(
    table: Ints, dims: Ints, tiles: Ints, values: Singles, scalars: Floats, stride: int,
    offsets: Ints, weights: Floats, far: Ints, share: Floats, out: Singles,
) -> None:  # fmt: skip
    """Lengths but those of `values` are in distances of taps, `stride` voxels each."""
    inverse, band, background, reach = scalars[0], scalars[1], scalars[2], scalars[3]
    for leaf in prange(len(tiles)):
        g = np.empty(3)
        for v in range(729):
            out[leaf, v] = values[leaf, v]
            phi = values[leaf, v] * inverse
            if phi < _DEEPEST * reach or phi > reach + 1.8 or abs(values[leaf, v]) >= band:
                continue
            i, j, k = v % 9 + 8 * tiles[leaf, 0], v // 9 % 9 + 8 * tiles[leaf, 1], 0
            k = v // 81 + 8 * tiles[leaf, 2]
            length = 0.0
            for w in range(3):
                di, dj, dk = int(w == 0), int(w == 1), int(w == 2)
                up = value_at(table, dims, values, band, background, i + di, j + dj, k + dk)
                down = value_at(table, dims, values, band, background, i - di, j - dj, k - dk)
                g[w] = up - down
                length += g[w] * g[w]
            length = np.sqrt(length)
            if not length > 0.0:
                continue
            flat = True
            for n in range(len(far)):
                x, y, z = far[n, 0], far[n, 1], far[n, 2]
                there = value_at(
                    table, dims, values, band, background,
                    i + stride * x, j + stride * y, k + stride * z,
                )  # fmt: skip
                plane = phi + (x * g[0] + y * g[1] + z * g[2]) / length
                if abs(filled(there * inverse) - filled(plane)) > _FLAT:
                    flat = False
                    break
            if flat:
                continue
            solid, plain = 0.0, 0.0
            for n in range(len(offsets)):
                x, y, z = offsets[n, 0], offsets[n, 1], offsets[n, 2]
                there = value_at(
                    table, dims, values, band, background,
                    i + stride * x, j + stride * y, k + stride * z,
                )  # fmt: skip
                solid += weights[n] * filled(there * inverse)
                plane = phi + (x * g[0] + y * g[1] + z * g[2]) / length
                plain += weights[n] * filled(plane)
            change = reach * (plane_distance(share, solid) - plane_distance(share, plain))
            out[leaf, v] += change / inverse
