"""Long waves of compression, on a coarse grid.

Iterations over neighbours carry pressure one kernel radius each: a wave of many spacings needs many
of them (docs/decisions/0010). A grid of cells of CELL spacings takes such waves in one go, and
leaves the short ones to the particles: two levels of a multigrid method [Brandt 1977].

The multipliers p of eq. 2 move particles by grad(p)/rho0 (eq. 3), which changes the fill by
div(grad(p)/rho0). So q = -p that undoes the compression c of long waves solves

    -div(1/rho0 grad q) = c,

here on the nodes of cells that hold particles, each of which conducts along its edges. Nothing is
done for walls: no particles are behind them, so nothing flows there. At a free surface q is 0:
particles that miss neighbours pull it down. q then goes into the multipliers, and they move the
particles: momentum is kept as by any other pressure. docs/decisions/0013.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

from .model import Model

CELL: Final = 4.0  # [d]
SURFACE: Final = (0.7, 0.95)  # fill: surely at a surface, surely not
# Share of a long wave's compression that a step undoes. All of it overshoots here and there, what
# is spread apart has no pressure in the next step and falls: fluids at rest would rattle. With a
# third, load and pressure balance at a compression of twice what gravity does in one step.
SHARE: Final = 0.3
ACCURACY: Final = 1e-3  # residual at which conjugate gradients stop
MOST: Final = 200  # steps of them
SCREEN: Final = 1e-4  # of the diagonal: fluid without a surface has no pressure of its own
# Share of a short wave that one iteration may undo by even pressure. Above 4/3 waves grow
# (docs/decisions/0010, s = 0), below 1 they do not swing.
PUSH: Final = 1.2

Doubles = NDArray[np.float64]
Singles = NDArray[np.float32]
Longs = NDArray[np.int64]
Function = TypeVar("Function", bound=Callable[..., Any])
_OPTIONS: dict[str, Any] = {"error_model": "numpy"}


def _compiled(function: Function, threads: bool = False) -> Function:
    """Compiled at first use, kept on disk where that is possible."""
    try:
        return cast(Function, numba.njit(**_OPTIONS, parallel=threads, cache=True)(function))
    except RuntimeError:  # no place to keep it
        return cast(Function, numba.njit(**_OPTIONS, parallel=threads)(function))


def _parallel(function: Function) -> Function:
    """The same; `prange` in it runs on all threads, each writing rows of its own."""
    return _compiled(function, True)


class CoarseLevel:
    """Solves for the pressure of long waves. Nothing is kept from one step to the next."""

    def __init__(self, model: Model) -> None:
        self._dimensions = model.calibration.dimensions
        self._ignored = model.ignored_axis
        self._density = model.rest_density.astype(np.float64)
        self._limit = PUSH / model.calibration.push_eigenvalue  # p/(rho0 d^2) of one iteration

    def pressure(
        self,
        x: Singles,
        fill: Singles,
        volume: Singles,
        phase: NDArray[Any],
        parts: int,
        change: Singles,
        smooth: Singles,
    ) -> float:
        """Finds what to add to each particle's multiplier in each of `parts` iterations (at most 0
        where the fluid is compressed), and the compression that all of them undo. Returns the share
        of particles that would need more parts.
        """
        spacing = float(volume.max()) ** (1 / self._dimensions)
        cell = CELL * spacing
        low = np.floor(x[:, :3].min(axis=0) / cell) * cell
        element, keys = self._elements(x, low, 1 / cell)
        sums = _sum_up(element, len(keys), fill, volume, phase, 1 / self._density, *SURFACE)
        corners, nodes = self._corners(keys)
        ends, conductance, load, pull, held = _assemble(corners, nodes, sums, spacing, cell)
        q = _conjugate_gradients(ends, conductance, pull, load, ACCURACY, MOST)
        q *= SHARE
        undone = (SHARE * load - pull * q) / held
        limit = self._limit * self._density
        where = (x, low, 1 / cell, self._ignored, element, corners)
        over = _to_particles(*where, q, undone, volume, phase, limit, parts, change, smooth)
        return float(over / max(1, len(x)))

    def _elements(
        self, x: Singles, low: Doubles, inverse: float
    ) -> tuple[NDArray[np.int32], Longs]:
        """Number of each particle's cell, and the cells' keys."""
        element = np.empty(len(x), np.int32)
        room = max(64, len(x) // 16)
        while True:
            table, numbers = _table(room)
            keys = np.empty(room, np.int64)
            count = _number_cells(x, low, inverse, self._ignored, table, numbers, keys, element)
            if count >= 0:
                return element, keys[:count]
            room *= 4

    def _corners(self, keys: Longs) -> tuple[NDArray[np.int32], int]:
        """Numbers of the eight nodes of each cell, x fastest; how many nodes there are."""
        table, numbers = _table(8 * len(keys))
        corners = np.empty((len(keys), 8), np.int32)
        return corners, int(_number_nodes(keys, table, numbers, corners))


def _table(room: int) -> tuple[Longs, NDArray[np.int32]]:
    """An empty hash table for `room` keys."""
    size = 1 << int(2 * room - 1).bit_length()
    return np.full(size, -1, np.int64), np.empty(size, np.int32)


@numba.njit(error_model="numpy")
def _find(key: int, table: Longs, numbers: NDArray[np.int32], count: int) -> int:
    """Number of a key; a new one gets `count`."""
    mask = len(table) - 1
    at = ((key * 0x9E3779B97F4A7C1) >> 17) & mask
    while table[at] != key:
        if table[at] < 0:
            table[at] = key
            numbers[at] = count
            return count
        at = (at + 1) & mask
    return int(numbers[at])


@_compiled
def _number_cells(
    x: Singles,
    low: Doubles,
    inverse: float,
    flat: int,
    table: Longs,
    numbers: NDArray[np.int32],
    keys: Longs,
    element: NDArray[np.int32],
) -> int:
    """Cells in order of their first particle; -1 if there is no room for all."""
    count, last, number = 0, -1, 0
    for i in range(len(x)):
        key = 0
        for k in range(3):
            c = 0 if k == flat else int((x[i, k] - low[k]) * inverse)
            key |= c << (21 * k)
        if key != last:  # rows are sorted by place: mostly it is the same
            last = key
            number = _find(key, table, numbers, count)
            if number == count:
                if count == len(keys):
                    return -1
                keys[count] = key
                count += 1
        element[i] = number
    return count


@_compiled
def _sum_up(
    element: NDArray[np.int32],
    count: int,
    fill: Singles,
    volume: Singles,
    phase: NDArray[Any],
    lightness: Doubles,
    surface: float,
    inside: float,
) -> Doubles:
    """Of each cell volume over density, compressed volume, the first at a surface, volume."""
    sums = np.zeros((count, 4))
    for i in range(len(element)):
        v = float(volume[i])
        open_share = min(1.0, max(0.0, (inside - fill[i]) / (inside - surface)))
        row = sums[element[i]]
        row[0] += v * lightness[phase[i]]
        row[3] += v
        row[1] += v * (1 - open_share) * (fill[i] - 1.0)
        row[2] += v * lightness[phase[i]] * open_share
    return sums


@_compiled
def _number_nodes(
    keys: Longs, table: Longs, numbers: NDArray[np.int32], corners: NDArray[np.int32]
) -> int:
    count = 0
    for e in range(len(keys)):
        for corner in range(8):
            step = (corner & 1) | ((corner >> 1 & 1) << 21) | ((corner >> 2) << 42)
            number = _find(keys[e] + step, table, numbers, count)
            count += number == count
            corners[e, corner] = number
    return count


@_compiled
def _assemble(
    corners: NDArray[np.int32],
    nodes: int,
    sums: Doubles,
    spacing: float,
    cell: float,
) -> tuple[NDArray[np.int32], Doubles, Doubles, Doubles, Doubles]:
    """Edges to the next node along x, y, z, how well they conduct; load, pull to 0 and volume.

    A cell conducts by what it holds, along each of its twelve edges a quarter: exact for even
    gradients, also in cells that a wall cuts.
    """
    ends = np.zeros((nodes, 3), np.int32)
    conductance, load = np.zeros((nodes, 3)), np.zeros(nodes)
    pull, held = np.zeros(nodes), np.zeros(nodes)
    for e in range(len(corners)):
        for corner in range(8):
            a = corners[e, corner]
            load[a] += sums[e, 1] / 8
            pull[a] += sums[e, 2] / (8 * spacing * spacing)
            held[a] += sums[e, 3] / 8
            for axis in range(3):
                if corner >> axis & 1:
                    continue
                b = corners[e, corner | 1 << axis]
                share = sums[e, 0] / (4 * cell * cell)
                ends[a, axis] = b
                conductance[a, axis] += share
                pull[a] += share * SCREEN
                pull[b] += share * SCREEN
    return ends, conductance, load, pull, held


@numba.njit(error_model="numpy")
def _multiply(
    ends: NDArray[np.int32], conductance: Doubles, diagonal: Doubles, q: Doubles, out: Doubles
) -> None:
    for a in range(len(q)):
        out[a] = diagonal[a] * q[a]
    for a in range(len(q)):
        for axis in range(3):
            b, share = ends[a, axis], conductance[a, axis]
            out[a] -= share * q[b]
            out[b] -= share * q[a]


@_compiled
def _conjugate_gradients(
    ends: NDArray[np.int32],
    conductance: Doubles,
    pull: Doubles,
    load: Doubles,
    accuracy: float,
    most: int,
) -> Doubles:
    """q, preconditioned by the diagonal."""
    q, out = np.zeros(len(load)), np.empty(len(load))
    diagonal = pull.copy()
    for a in range(len(q)):
        for axis in range(3):
            diagonal[a] += conductance[a, axis]
            diagonal[ends[a, axis]] += conductance[a, axis]
    inverse = 1 / diagonal
    residual = load.copy()
    direction = inverse * residual
    size = np.sum(residual * direction)
    enough = accuracy * accuracy * size
    for _ in range(most):
        if size <= enough:
            break
        _multiply(ends, conductance, diagonal, direction, out)
        step = size / np.sum(direction * out)
        last, size = size, 0.0
        for a in range(len(q)):
            q[a] += step * direction[a]
            residual[a] -= step * out[a]
            size += residual[a] * residual[a] * inverse[a]
        for a in range(len(q)):
            direction[a] = inverse[a] * residual[a] + (size / last) * direction[a]
    return q


@_parallel
def _to_particles(
    x: Singles,
    low: Doubles,
    inverse: float,
    flat: int,
    element: NDArray[np.int32],
    corners: NDArray[np.int32],
    q: Doubles,
    undone: Doubles,
    volume: Singles,
    phase: NDArray[Any],
    limit: Doubles,
    parts: int,
    change: Singles,
    smooth: Singles,
) -> int:
    """-q/parts where the particles are, held to the limit; what it undoes; how many were held."""
    over = 0
    for i in numba.prange(len(x)):
        fx = 0.5 if flat == 0 else (x[i, 0] - low[0]) * inverse
        fy = 0.5 if flat == 1 else (x[i, 1] - low[1]) * inverse
        fz = 0.5 if flat == 2 else (x[i, 2] - low[2]) * inverse
        fx, fy, fz = fx - int(fx), fy - int(fy), fz - int(fz)
        value, compression = 0.0, 0.0
        for corner in range(8):
            w = fx if corner & 1 else 1 - fx
            w *= fy if corner >> 1 & 1 else 1 - fy
            w *= fz if corner >> 2 else 1 - fz
            node = corners[element[i], corner]
            value += w * q[node]
            compression += w * undone[node]
        value /= parts
        most = limit[phase[i]] * float(volume[i]) ** (2 / 3 if flat < 0 else 1.0)
        if value > most:
            value = most
            over += 1
        change[i] = -value
        smooth[i] = compression
    return over
