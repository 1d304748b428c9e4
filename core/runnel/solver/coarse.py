"""Long waves of compression, on a coarse grid.

Iterations over neighbours carry pressure one kernel radius each: a wave of many spacings needs many
of them (docs/decisions/0010). A grid of cells of CELL spacings takes such waves in one go, and
leaves the short ones to the particles: two levels of a multigrid method [Brandt 1977].

The multipliers p of eq. 2 move particles by grad(p)/rho0 (eq. 3), which changes the fill by
div(grad(p)/rho0). So q = -p that undoes the compression c of long waves solves

    -div(1/rho0 grad q) = c,

here on the nodes of cells that hold particles, each of which conducts along its edges. Nothing is
done for walls: no particles are behind them, so nothing flows there. At a free surface q is 0:
particles that miss neighbours pull it down where they are. Fluid that is spread apart does not
pull: q >= 0, an obstacle problem. q then goes into the multipliers, and they move the particles:
momentum is kept as by any other pressure. docs/decisions/0013.
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
ROUNDS: Final = 6  # of finding out where fluid is spread apart
NEARLY: Final = 0.01  # of the highest pressure: as good as none
PULL: Final = 2.0  # to q = 0 at a surface, beside what a layer of particles conducts
RIM: Final = 0.2  # share of that pull beside what edges conduct: such a node is at the surface
SCREEN: Final = 1e-4  # of the diagonal: fluid without a surface has no pressure of its own
# Particles at a surface, beside those of a face of a cube of as many. With fewer a vessel is closed
# and full: nothing can give way, and pressure has no level.
LEAST_SURFACE: Final = 0.05
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
        lightness = 1 / self._density
        sums = _sum_up(element, len(keys), fill, volume, phase, lightness, *SURFACE)
        if sums[:, 2].sum() < LEAST_SURFACE * len(x) ** (1 - 1 / self._dimensions):
            change[:] = smooth[:] = 0.0
            return 0.0
        corners, nodes = self._corners(keys)
        where = (x, low, 1 / cell, self._ignored, element, corners)
        rims, blocks = _surface(
            *where, sums, fill, volume, phase, lightness * PULL / spacing**2, *SURFACE
        )
        ends, conductance, load, pull, held = _assemble(corners, nodes, sums, cell)
        q, undone = _solve(ends, conductance, pull, rims, blocks, load, held, ACCURACY, MOST)
        q *= SHARE
        undone *= SHARE
        limit = self._limit * self._density
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
    """Of each cell volume over density, compressed volume, particles at a surface, volume."""
    sums = np.zeros((count, 4))
    for i in range(len(element)):
        v = float(volume[i])
        open_share = min(1.0, max(0.0, (inside - fill[i]) / (inside - surface)))
        row = sums[element[i]]
        row[0] += v * lightness[phase[i]]
        row[3] += v
        row[1] += v * (1 - open_share) * (fill[i] - 1.0)
        row[2] += open_share
    return sums


@numba.njit(error_model="numpy")
def _place(
    x: Singles, i: int, low: Doubles, inverse: float, flat: int
) -> tuple[float, float, float]:
    """Of a particle in its cell, 0 to 1."""
    fx = 0.5 if flat == 0 else (x[i, 0] - low[0]) * inverse
    fy = 0.5 if flat == 1 else (x[i, 1] - low[1]) * inverse
    fz = 0.5 if flat == 2 else (x[i, 2] - low[2]) * inverse
    return fx - int(fx), fy - int(fy), fz - int(fz)


@numba.njit(error_model="numpy")
def _share(corner: int, place: tuple[float, float, float]) -> float:
    """Of a corner in what is seen at a place."""
    w = place[0] if corner & 1 else 1 - place[0]
    w *= place[1] if corner >> 1 & 1 else 1 - place[1]
    return w * (place[2] if corner >> 2 else 1 - place[2])


@_compiled
def _surface(
    x: Singles,
    low: Doubles,
    inverse: float,
    flat: int,
    element: NDArray[np.int32],
    corners: NDArray[np.int32],
    sums: Doubles,
    fill: Singles,
    volume: Singles,
    phase: NDArray[Any],
    pull: Doubles,
    surface: float,
    inside: float,
) -> tuple[NDArray[np.int32], Doubles]:
    """Corners of cells at a surface, and how what is there pulls q to 0: half q B q of each."""
    number, count = np.empty(len(sums), np.int32), 0
    for e in range(len(sums)):
        number[e] = count if sums[e, 2] > 0 else -1
        count += number[e] == count
    rims, blocks = np.empty((count, 8), np.int32), np.zeros((count, 8, 8))
    for e in range(len(sums)):
        if number[e] >= 0:
            rims[number[e]] = corners[e]
    w = np.empty(8)
    for i in range(len(element)):
        open_share = min(1.0, (inside - fill[i]) / (inside - surface))
        if open_share <= 0:
            continue
        place = _place(x, i, low, inverse, flat)
        for a in range(8):
            w[a] = _share(a, place)
        strength = open_share * float(volume[i]) * pull[phase[i]]
        block = blocks[number[element[i]]]
        for a in range(8):
            for b in range(8):
                block[a, b] += strength * w[a] * w[b]
    return rims, blocks


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
    ends: NDArray[np.int32],
    conductance: Doubles,
    rims: NDArray[np.int32],
    blocks: Doubles,
    diagonal: Doubles,
    q: Doubles,
    out: Doubles,
) -> None:
    """What flows out at nodes. The diagonal is that of edges alone."""
    for a in range(len(q)):
        out[a] = diagonal[a] * q[a]
    for a in range(len(q)):
        for axis in range(3):
            b, share = ends[a, axis], conductance[a, axis]
            out[a] -= share * q[b]
            out[b] -= share * q[a]
    _add_surface(rims, blocks, q, out)


@numba.njit(error_model="numpy")
def _add_surface(rims: NDArray[np.int32], blocks: Doubles, q: Doubles, out: Doubles) -> None:
    """What leaves through the surface."""
    for e in range(len(rims)):
        for a in range(8):
            flow = 0.0
            for b in range(8):
                flow += blocks[e, a, b] * q[rims[e, b]]
            out[rims[e, a]] += flow


@_compiled
def _conjugate_gradients(
    ends: NDArray[np.int32],
    conductance: Doubles,
    rims: NDArray[np.int32],
    blocks: Doubles,
    diagonal: Doubles,
    inverse: Doubles,
    q: Doubles,
    residual: Doubles,
    enough: float,
    most: int,
) -> int:
    """Improves q where `inverse` is not 0; preconditioned by it. Gives the steps taken."""
    out, direction = np.empty(len(q)), np.zeros(len(q))
    last = 1.0
    for k in range(most):
        size = 0.0
        for a in range(len(q)):
            size += residual[a] * residual[a] * inverse[a]
        if size <= enough:
            return k
        for a in range(len(q)):
            direction[a] = inverse[a] * residual[a] + (size / last if k else 0.0) * direction[a]
        _multiply(ends, conductance, rims, blocks, diagonal, direction, out)
        step = size / np.sum(direction * out)
        for a in range(len(q)):
            q[a] += step * direction[a]
            residual[a] -= step * out[a]
        last = size
    return most


@_compiled
def _solve(
    ends: NDArray[np.int32],
    conductance: Doubles,
    pull: Doubles,
    rims: NDArray[np.int32],
    blocks: Doubles,
    load: Doubles,
    held: Doubles,
    accuracy: float,
    most: int,
) -> tuple[Doubles, Doubles]:
    """q, and the compression that it undoes.

    Fluid that is spread apart does not pull: nodes inside of it where q would be negative are held
    at 0, those held that are pressed are let go, and the rest is solved again. Nodes beyond a
    surface may have any q, so that it is 0 at the surface itself.
    """
    diagonal, at_surface = pull.copy(), np.zeros(len(pull))
    for a in range(len(pull)):
        for axis in range(3):
            diagonal[a] += conductance[a, axis]
            diagonal[ends[a, axis]] += conductance[a, axis]
    for e in range(len(rims)):
        for a in range(8):
            at_surface[rims[e, a]] += blocks[e, a, a]
    q, residual, out = np.zeros(len(load)), load.copy(), np.empty(len(load))
    inverse = 1 / (diagonal + at_surface)
    enough = accuracy * accuracy * np.sum(load * load * inverse)
    for _ in range(ROUNDS):
        most -= _conjugate_gradients(
            ends, conductance, rims, blocks, diagonal, inverse, q, residual, enough, most
        )
        slack, changed = NEARLY * q.max(), 0
        for a in range(len(q)):
            if at_surface[a] > RIM * diagonal[a]:
                continue
            if inverse[a] > 0 and q[a] < -slack:
                inverse[a] = 0.0
                changed += 1
            elif inverse[a] == 0 and residual[a] > 0:
                inverse[a] = 1 / (diagonal[a] + at_surface[a])
                changed += 1
            q[a] = max(q[a], 0.0)
        _multiply(ends, conductance, rims, blocks, diagonal, q, out)
        for a in range(len(q)):
            residual[a] = load[a] - out[a]
        if not changed or most <= 0:
            break
    undone = pull * q
    _add_surface(rims, blocks, q, undone)
    for a in range(len(q)):
        undone[a] = (load[a] - residual[a] - undone[a]) / held[a]
    return q, undone


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
        place = _place(x, i, low, inverse, flat)
        value, compression = 0.0, 0.0
        for corner in range(8):
            w = _share(corner, place)
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
