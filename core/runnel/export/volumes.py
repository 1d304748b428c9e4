"""Particles as sparse volumes: how full each voxel is, how fast, and where the surface lies.

Full:     F(x) = sum_i V_i W(|x - x_i|, h_i) with V = (2 r)^3, h = 4 r and
          W(d, h) = 315 / (64 pi h^3) (1 - d^2 / h^2)^3.
Velocity: the mean of the particles', weighted alike.
Surface:  where max(F - 1/2, (1 - min_i d_i / r_i) / 2) = 0: half full, or at a lone ball.

Voxels lie in leaves of 8 x 8 x 8, z fastest; voxel (i, j, k) has its centre at (i, j, k) times the
voxel size.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import RunnelError

Array = NDArray[Any]
Singles = NDArray[np.float32]

REACH = 4.0  # of a particle, in its radii
MEMORY = 1 << 32  # bytes all leaves may take
_LEAF_BYTES = 512 * 4 * 6
_FARTHEST = 1 << 19  # leaves from the origin
_SPAN = 24  # leaves a particle may reach along an axis

_splat: Callable[..., None] | None = None


@dataclass(frozen=True)
class Volumes:
    """Values on leaves; all arrays have the leaves as rows."""

    voxel: float
    leaves: NDArray[np.int64]  # (n, 3) lowest voxel of each, in voxels
    full: Singles  # (n, 8, 8, 8)
    surface: Singles  # (n, 8, 8, 8) above 0 inside; -1/2 far outside
    velocity: Singles  # (n, 8, 8, 8, 3)


def volumes_of(position: Array, radius: Array, velocity: Array | None, voxel: float) -> Volumes:
    """Volumes of particles; voxel 0 takes the smallest radius."""
    place = np.ascontiguousarray(position, np.float64)
    size = np.ascontiguousarray(radius, np.float64)
    if not (np.isfinite(place).all() and np.isfinite(size).all() and (size > 0).all()):
        raise RunnelError("Particles whose position or radius is no usable number make no volume.")
    speed = np.zeros(place.shape) if velocity is None else velocity
    step = voxel or (float(size.min()) if len(size) else 1.0)
    keys, corners = _leaves(place, size, step)
    full = np.zeros((len(keys), 512), np.float32)
    nearest = np.full((len(keys), 512), np.inf, np.float32)
    sums = np.zeros((len(keys), 512, 4), np.float32)
    _compiled()(place / step, size / step, np.asarray(speed, np.float32), keys, full, nearest, sums)
    shape = (len(keys), 8, 8, 8)
    mean = sums[..., :3] / np.maximum(sums[..., 3:], np.float32(1e-20))
    surface = np.maximum(full - np.float32(0.5), (1 - nearest) / 2).clip(-0.5, None)
    return Volumes(
        step, corners, full.reshape(shape), surface.reshape(shape), mean.reshape(*shape, 3)
    )


def _leaves(place: Array, size: Array, voxel: float) -> tuple[NDArray[np.int64], Array]:
    """Sorted keys of the leaves that particles reach, and their lowest voxels."""
    if not len(place):
        return np.zeros(0, np.int64), np.zeros((0, 3), np.int64)
    reach = (REACH * size)[:, None]
    low, high = (place - reach) / (8 * voxel), (place + reach) / (8 * voxel)
    if max(-low.min(), high.max()) > _FARTHEST:
        raise RunnelError(
            f"Particles lie up to {np.abs(place).max():.3g} from the origin, too far for voxels of "
            f"{voxel:.3g}. Remove strays with a domain or sink, or use larger voxels."
        )
    first, last = np.floor(low).astype(np.int64), np.floor(high).astype(np.int64)
    span = int((last - first).max()) + 1
    if span > _SPAN:
        raise RunnelError(
            f"Voxels of {voxel:.3g} are too small for particles of radius {size.max():.3g}. "
            f"Use at least {size.max() / 20:.3g}."
        )
    found = np.zeros(0, np.int64)
    for offset in np.ndindex(span, span, span):
        cell = first + offset
        inside = (cell <= last).all(axis=1)
        found = np.union1d(found, _key(cell[inside]))
        if len(found) * _LEAF_BYTES > MEMORY:
            raise RunnelError(
                f"Volumes with voxels of {voxel:.3g} need more than {MEMORY / 2**30:.0f} GB. "
                "Use larger voxels."
            )
    parts = [(found >> shift & 0x1FFFFF) - (1 << 20) for shift in (42, 21, 0)]
    return found, 8 * np.stack(parts, axis=1)


def _key(cell: NDArray[np.int64]) -> NDArray[np.int64]:
    x, y, z = (cell + (1 << 20)).T
    return x << 42 | y << 21 | z


def _compiled() -> Callable[..., None]:
    """The loop over particles, compiled at first use."""
    global _splat
    if _splat is None:
        import numba

        try:
            _splat = numba.njit(cache=True, nogil=True, error_model="numpy")(_splat_loop)
        except RuntimeError:  # no place to keep it
            _splat = numba.njit(nogil=True, error_model="numpy")(_splat_loop)
    return _splat


_FACTOR = 315 / (64 * math.pi) * 8 / REACH**3  # of (1 - d^2/h^2)^3 in F


def _splat_loop(
    place: Array, size: Array, speed: Array, keys: Array, full: Array, nearest: Array, sums: Array
) -> None:
    """Add all particles; lengths in voxels."""
    for p in range(len(place)):
        r = size[p]
        h = REACH * r
        x, y, z = place[p]
        known: Any = -1
        leaf: Any = 0
        for i in range(int(np.ceil(x - h)), int(np.floor(x + h)) + 1):
            for j in range(int(np.ceil(y - h)), int(np.floor(y + h)) + 1):
                plane = (i - x) ** 2 + (j - y) ** 2
                if plane >= h * h:
                    continue
                for k in range(int(np.ceil(z - h)), int(np.floor(z + h)) + 1):
                    d2 = plane + (k - z) ** 2
                    if d2 >= h * h:
                        continue
                    key = (
                        ((i >> 3) + (1 << 20)) << 42
                        | ((j >> 3) + (1 << 20)) << 21
                        | ((k >> 3) + (1 << 20))
                    )
                    if key != known:
                        known, leaf = key, np.searchsorted(keys, key)
                    cell = (i & 7) << 6 | (j & 7) << 3 | (k & 7)
                    w = _FACTOR * (1 - d2 / (h * h)) ** 3
                    full[leaf, cell] += w
                    nearest[leaf, cell] = min(nearest[leaf, cell], np.sqrt(d2) / r)
                    for axis in range(3):
                        sums[leaf, cell, axis] += w * speed[p, axis]
                    sums[leaf, cell, 3] += w
