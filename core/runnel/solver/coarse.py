"""Long waves of compression, on a coarse grid.

Iterations over neighbours carry pressure one kernel radius each: a wave of many spacings needs many
of them (docs/decisions/0010). A grid of cells of CELL spacings takes such waves in one go, and
leaves the short ones to the particles: two levels of a multigrid method [Brandt 1977].

The multipliers p of eq. 2 move particles by grad(p)/rho0 (eq. 3), which changes the fill by
div(grad(p)/rho0). So q = -p that undoes the compression c of long waves solves

    -div(1/rho0 grad q) = c,

here on the nodes of cells that hold particles, each of which conducts along its edges. Nothing is
done for walls: no particles are behind them, so nothing flows there. Where the fluid ends in air q
is 0: openings (openings.py) pull it down. q then goes into the multipliers, and they move the
particles: momentum is kept as by any other pressure. docs/decisions/0013.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numba
import numpy as np
from numpy.typing import NDArray

from ..backends.base import SOLID_COLUMNS, same_fields
from ..backends.reference.field import world_of
from .cells import (
    OPTIONS,
    Doubles,
    Numbers,
    Singles,
    beside,
    compiled,
    in_parallel,
    number_cells,
    number_nodes,
)
from .model import Model
from .openings import occupied, openings

if TYPE_CHECKING:
    from ..fields.grid import SparseField

CELL: Final = 4.0  # [d]
SURFACE: Final = (0.7, 0.95)  # fill: surely at a surface, surely not; what is has no pressure
# Share of a long wave's compression that a step undoes. All of it overshoots here and there, what
# is spread apart has no pressure in the next step and falls: fluids at rest would rattle.
SHARE: Final = 0.3
# Share of the tolerance that is left alone. With none left half of the particles would be spread
# apart whatever the other half is, and have no pressure: fluids at rest would hop.
CUSHION: Final = 0.5
# A step undoes at most so many times what gravity compresses a resting fluid by. Disorder looks
# like compression, and undoing it at once throws deep fluid.
RISE: Final = 6.0
ACCURACY: Final = 1e-3  # residual at which conjugate gradients stop
MOST: Final = 200  # steps of them
SCREEN: Final = 1e-4  # of the diagonal: fluid without an opening has no pressure of its own
# Share of a short wave that one iteration may undo by even pressure. Above 4/3 waves grow
# (docs/decisions/0010, s = 0), below 1 they do not swing.
PUSH: Final = 1.2
CHUNKS: Final = 16  # of rows, summed up one by one: the same sums with any number of threads


class CoarseLevel:
    """Solves for the pressure of long waves. Nothing but solids is kept from step to step."""

    def __init__(self, model: Model, tolerance: float) -> None:
        self._dimensions = model.calibration.dimensions
        self._ignored = model.ignored_axis
        self._density = model.rest_density.astype(np.float64)
        self._limit = PUSH / model.calibration.push_eigenvalue  # p/(rho0 d^2) of one iteration
        self._kept = 1 + CUSHION * tolerance  # fill
        self._most = math.inf  # compression that a step undoes
        self._fields: Sequence[SparseField] = ()
        self._world = world_of(np.zeros((0, SOLID_COLUMNS)), (), self._ignored)

    def begin(
        self, solids: NDArray[np.float32], fields: Sequence[SparseField], fall: float
    ) -> None:
        """Take in the solids of a step (Backend.set_solids), and the share of the resting fluid's
        depth that gravity moves it by in the step.
        """
        if not same_fields(self._fields, fields):
            self._fields = tuple(fields)
            self._world = world_of(solids, fields, self._ignored)
        rows = np.ascontiguousarray(solids, np.float64).reshape(-1, SOLID_COLUMNS)
        self._world = self._world._replace(rows=rows)
        self._most = RISE * fall

    def least_parts(self, pressure_number: float) -> int:
        """Iterations that the pressure of fluid at rest must be shared among to be stable."""
        return math.ceil(pressure_number / self._limit)

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
        # Column by column: numpy is slow along the first axis.
        low = np.floor([float(x[:, k].min()) / cell for k in range(3)]) * cell
        grid = (low, 1 / cell, self._ignored)
        element, keys, table = number_cells(x, *grid)
        lightness, cushion = 1 / self._density, (*SURFACE, self._kept)
        sums = _sum_up(element, len(keys), fill, volume, phase, lightness, *cushion).sum(axis=0)
        masks = occupied(x, *grid, element, len(keys))
        ends = (low, cell, self._ignored, self._world, 0.5 * spacing)
        open_faces = openings(keys, masks, beside(keys, *table), *ends)
        area = open_faces * (0.5 * cell) ** (self._dimensions - 1)
        corners, nodes = number_nodes(keys)
        edges, load, pull, held = _assemble(
            corners, nodes, sums, area / spacing, cell, self._most / SHARE
        )
        closed = not area.any()
        if closed:  # then there is no level
            load -= held * (load.sum() / held.sum())
        q = SHARE * _conjugate_gradients(*edges, pull, load, ACCURACY, MOST)
        if closed:
            q -= q.min()
        undone = SHARE * load / held
        where = (x, *grid, element, corners)
        limit = self._limit * self._density
        over = _to_particles(*where, q, undone, volume, phase, limit, parts, change, smooth)
        return float(over / max(1, len(x)))


@in_parallel
def _sum_up(
    element: Numbers,
    count: int,
    fill: Singles,
    volume: Singles,
    phase: NDArray[Any],
    lightness: Doubles,
    surface: float,
    inside: float,
    kept: float,
) -> Doubles:
    """Of each cell, by chunk: volume over density, what is compressed beyond `kept`, volume."""
    sums = np.zeros((CHUNKS, count, 3))
    size = -(-len(element) // CHUNKS)
    for chunk in numba.prange(CHUNKS):
        for i in range(chunk * size, min(len(element), (chunk + 1) * size)):
            v = float(volume[i])
            open_share = min(1.0, max(0.0, (inside - fill[i]) / (inside - surface)))
            row = sums[chunk, element[i]]
            row[0] += v * lightness[phase[i]]
            row[1] += v * (1 - open_share) * (fill[i] - kept)
            row[2] += v
    return sums


@compiled
def _assemble(
    corners: Numbers,
    nodes: int,
    sums: Doubles,
    opening: Doubles,
    cell: float,
    most: float,
) -> tuple[tuple[Numbers, Doubles], Doubles, Doubles, Doubles]:
    """Edges to the next node along x, y, z, how well they conduct; load, pull to 0 and volume.

    A cell conducts by what it holds, along each of its twelve edges a quarter: exact for even
    gradients, also in cells that a wall cuts.
    """
    ends = np.zeros((nodes, 3), np.int32)
    conductance, load = np.zeros((nodes, 3)), np.zeros(nodes)
    pull, held = np.zeros(nodes), np.zeros(nodes)
    for e in range(len(corners)):
        volume = sums[e, 2]
        compressed = min(max(sums[e, 1], -most * volume), most * volume)
        for corner in range(8):
            a = corners[e, corner]
            load[a] += compressed / 8
            pull[a] += opening[e, corner] * sums[e, 0] / volume
            held[a] += volume / 8
            for axis in range(3):
                if corner >> axis & 1:
                    continue
                b = corners[e, corner | 1 << axis]
                share = sums[e, 0] / (4 * cell * cell)
                ends[a, axis] = b
                conductance[a, axis] += share
                pull[a] += share * SCREEN
                pull[b] += share * SCREEN
    return (ends, conductance), load, pull, held


@numba.njit(**OPTIONS)
def _multiply(
    ends: Numbers, conductance: Doubles, diagonal: Doubles, q: Doubles, out: Doubles
) -> None:
    for a in range(len(q)):
        out[a] = diagonal[a] * q[a]
    for a in range(len(q)):
        for axis in range(3):
            b, share = ends[a, axis], conductance[a, axis]
            out[a] -= share * q[b]
            out[b] -= share * q[a]


@compiled
def _conjugate_gradients(
    ends: Numbers,
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


@in_parallel
def _to_particles(
    x: Singles,
    low: Doubles,
    inverse: float,
    flat: int,
    element: Numbers,
    corners: Numbers,
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
