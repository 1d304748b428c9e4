"""How full space is around particles of any radii, on leaves of 8 x 8 x 8 voxels.

    F(x) = sum_j V_j / rho_j W(|x - x_j|, h_j)      rho_i = sum_j V_j W(|x_i - x_j|, h_j)

with V = (2 r)^3, h = support r and W the cubic spline. Dividing by rho_j (the colour field of SPH;
Mueller, Charypar, Gross 2003) makes F one at a particle that is alone as in the middle of many.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import RunnelError

Array = NDArray[Any]
Floats = NDArray[np.float64]

MEMORY = 1 << 32  # bytes all leaves may take
REACH = 2.5  # radii around a particle in which the surface lies, with room for a hole of one
_HALF = 1 << 20  # leaves from the origin to the border of what keys can name
_CLASS = 2.0  # radii within this ratio share a table of cells


@dataclass(frozen=True)
class Field:
    """Values at the corners of cubes; zero where there is no leaf."""

    cube: float  # [m]
    keys: NDArray[np.int64]  # (n,) of the leaves, rising
    values: NDArray[np.float32]  # (n, 512), z fastest; corner (i, j, k) lies at cube (i, j, k)


def key_of(cells: NDArray[np.int64]) -> NDArray[np.int64]:
    """One number for the place (n, 3) of a leaf; their order is that of x, then y, then z."""
    x, y, z = (cells + _HALF).T
    return x << 42 | y << 21 | z


def place_of(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Places (n, 3) of leaves."""
    return np.stack([(keys >> shift & 0x1FFFFF) - _HALF for shift in (42, 21, 0)], axis=1)


def fluid_field(
    position: Floats, radius: Floats, density: Floats, support: float, cube: float
) -> Field:
    """F of particles (n, 3) [m] with their `densities`; support in radii, cubes in metres."""
    from . import loops

    keys = _leaves(position, radius, cube)
    values = np.zeros((len(keys), 512), np.float32)
    if len(keys):
        reach = support * radius
        share = (2 * radius) ** 3 / density
        peak = share * 8 / (math.pi * reach**3)
        loops.splat(position / cube, reach / cube, peak, keys, values)
    return Field(cube, keys, values)


def _leaves(position: Floats, radius: Floats, cube: float) -> NDArray[np.int64]:
    """Keys of the leaves in which the surface can lie."""
    found = np.zeros(0, np.int64)
    if not len(position):
        return found
    reach, size = (REACH * radius)[:, None], 8 * cube
    if np.abs(position).max() + reach.max() > (_HALF - 2) * size:
        raise RunnelError(
            f"Particles lie up to {np.abs(position).max():.3g} m from the origin, too far for "
            f"cubes of {cube:.3g} m. Remove strays with a domain or sink, or use larger cubes."
        )
    first = np.floor((position - reach) / size).astype(np.int64)
    last = np.floor((position + reach) / size).astype(np.int64)
    span = int((last - first).max()) + 1
    for offset in np.ndindex(span, span, span):
        cell = first + offset
        inside = (cell <= last).all(axis=1)
        found = np.union1d(found, key_of(cell[inside]))
        if len(found) * 2048 > MEMORY:
            raise RunnelError(
                f"A surface with cubes of {cube:.3g} m needs more than {MEMORY / 2**30:.0f} GB. "
                "Use a larger --cube-size."
            )
    return found


def densities(position: Floats, radius: Floats, support: float) -> Floats:
    """rho of particles: 1 among others, 64 / (pi support^3) alone."""
    volume = ((2 * radius) ** 3)[:, None]
    total: Floats = _gathered(position, position, radius, volume, support)[:, 0]
    return total


def carry(
    points: Floats, position: Floats, radius: Floats, values: dict[str, Array], support: float
) -> dict[str, Array]:
    """Channels of particles at points: weighted means; of whole numbers the nearest's."""
    smooth = {name: array for name, array in values.items() if array.dtype.kind == "f"}
    volume = (2 * radius) ** 3
    columns = [volume[:, None]]
    for array in smooth.values():
        columns.append(volume[:, None] * array.reshape(len(array), -1).astype(np.float64))
    sums = _gathered(points, position, radius, np.concatenate(columns, axis=1), support)
    found: dict[str, Array] = {}
    start = 1
    for name, array in smooth.items():
        width = 1 if array.ndim == 1 else array.shape[1]
        mean = sums[:, start : start + width] / np.maximum(sums[:, :1], 1e-300)
        found[name] = mean.reshape(len(points), *array.shape[1:]).astype(np.float32)
        start += width
    whole = {name: array for name, array in values.items() if name not in smooth}
    if whole:
        nearest = _nearest(points, position, radius, support)
        found |= {name: array[nearest].astype(np.float32) for name, array in whole.items()}
    return {name: found[name] for name in values}


def _tables(position: Floats, radius: Floats, support: float) -> Any:
    """For each class of radii: particles in order of their cells, the cells' keys, their size."""
    left = np.argsort(radius, kind="stable")
    while len(left):
        end = int(np.searchsorted(radius[left], radius[left[0]] * _CLASS, side="right"))
        rows, left = left[:end], left[end:]
        size = support * float(radius[rows].max())
        keys = key_of(np.floor(position[rows] / size).astype(np.int64))
        order = np.argsort(keys, kind="stable")
        yield rows[order], keys[order], size


def _gathered(
    points: Floats, position: Floats, radius: Floats, columns: Floats, support: float
) -> Floats:
    """sum_j columns_j W(|x - x_j|, h_j) at points."""
    from . import loops

    sums = np.zeros((len(points), columns.shape[1]))
    for rows, keys, size in _tables(position, radius, support):
        reach = support * radius[rows]
        peak = 8 / (math.pi * reach**3)
        loops.gather(points, position[rows], reach, peak, columns[rows], keys, size, sums)
    return sums


def _nearest(points: Floats, position: Floats, radius: Floats, support: float) -> NDArray[np.int64]:
    """The particle whose surface is nearest to each point."""
    from . import loops

    best = np.full(len(points), np.inf)
    found = np.zeros(len(points), np.int64)
    for rows, keys, size in _tables(position, radius, support):
        loops.seek(points, position[rows], radius[rows], rows, keys, size, best, found)
    return found
