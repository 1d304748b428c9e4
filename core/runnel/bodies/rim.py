"""The rim of a film, compiled: which particles wet it, and what their pressures do to the bodies at
both its sides. docs/theory/bodies.md, films."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..backends.reference.compile import bare, called, inline, serial

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MOST_CELLS = 64  # along each axis
BESIDE = 2.0  # of a sample's spacing: neighbours on the surface, around an edge too
# In spacings: particles below cover what is this near, those beside an edge do not; wet the rim.
COVERS, COVERS_NOT = 0.9, 1.05
BELOW = 0.25  # [spacings] from there on
WETS, WETS_NOT = 1.0, 2.5
ENOUGH = 2.0  # of them make a place wet
STIFF = 1.5  # [spacings] pressures that change across less than that are noise


class Cells(NamedTuple):
    """Points by the cells of a grid that are at least as large as what is asked for."""

    low: Floats  # (3,)
    size: float
    dims: Ints  # (3,)
    starts: Ints  # of each cell, in `order`; and the end
    order: Ints


@serial
def sorted_cells(points: Floats, reach: float) -> Cells:
    low, high = np.zeros(3), np.zeros(3)
    for i in range(3):
        low[i], high[i] = points[:, i].min(), points[:, i].max()
    size = max(reach, (high - low).max() / MOST_CELLS)
    dims = ((high - low) / size).astype(np.int64) + 1
    cell = np.zeros(len(points), np.int64)
    starts = np.zeros(dims[0] * dims[1] * dims[2] + 1, np.int64)
    for j in range(len(points)):
        for i in range(3):
            cell[j] = cell[j] * dims[i] + int((points[j, i] - low[i]) / size)
        starts[1 + cell[j]] += 1
    starts = np.cumsum(starts)
    order, filled = np.empty(len(points), np.int64), starts[:-1].copy()
    for j in range(len(points)):
        order[filled[cell[j]]] = j
        filled[cell[j]] += 1
    return Cells(low, size, dims, starts, order)


@inline
def square_apart(a: Floats, i: int, b: Floats, j: int) -> float:
    return float((a[i, 0] - b[j, 0]) ** 2 + (a[i, 1] - b[j, 1]) ** 2 + (a[i, 2] - b[j, 2]) ** 2)


@serial
def pairs_within(a: Floats, b: Floats, cells: Cells, reach: float, out: Ints, apart: Floats) -> int:
    """Pairs (of a, of b) within reach, in the order of a: their number, even of those that found no
    place in out (n, 2) and apart (n,) [m]. cells: of b."""
    count = 0
    first, last = np.zeros(3, np.int64), np.zeros(3, np.int64)
    for k in range(len(a)):
        for i in range(3):
            place = (a[k, i] - cells.low[i]) / cells.size
            if not -1.0 <= place <= cells.dims[i] + 1.0:  # nothing there
                first[i], last[i] = 0, 0
                continue
            home = int(np.floor(place))
            first[i], last[i] = max(home - 1, 0), min(home + 2, cells.dims[i])
        for x in range(first[0], last[0]):
            for y in range(first[1], last[1]):
                row = (x * cells.dims[1] + y) * cells.dims[2]
                if first[2] >= last[2]:
                    continue
                # Cells along the last axis lie side by side.
                for e in range(cells.starts[row + first[2]], cells.starts[row + last[2]]):
                    j = cells.order[e]
                    square = square_apart(a, k, b, j)
                    if square >= reach * reach:
                        continue
                    if count < len(out):
                        out[count, 0], out[count, 1] = k, j
                        apart[count] = np.sqrt(square)
                    count += 1
    return count


@inline
def fades(x: float, full: float, nothing: float) -> float:
    """1 up to `full`, 0 from `nothing` on."""
    return min(max((nothing - x) / (nothing - full), 0.0), 1.0)


@serial
def uncovered(
    places: Floats, down: Floats, spacing: float, particles: Floats, pairs: Ints, apart: Floats
) -> Floats:
    """Of samples: how far no particle is below them, 0 to 1."""
    bare = np.ones(len(places))
    for k in range(len(pairs)):
        s, j = pairs[k, 0], pairs[k, 1]
        below = 0.0
        for i in range(3):
            below += (particles[j, i] - places[s, i]) * down[s, i]
        if below > BELOW * spacing:
            bare[s] -= fades(apart[k] / spacing, COVERS, COVERS_NOT)
    return np.maximum(bare, 0.0)


@serial
def edges(places: Floats, flush: Floats, any_flush: Floats, reach: float) -> NDArray[np.bool_]:
    """Samples within reach of what is flush that are flush with nothing."""
    inner = np.flatnonzero(flush > 0.5)
    found = np.zeros(len(places), np.bool_)
    for s in range(len(places)):
        if any_flush[s] > 0.5:
            continue
        for k in inner:
            if square_apart(places, s, places, k) < reach * reach:
                found[s] = True
                break
    return found


@serial
def wetting(
    edge: NDArray[np.bool_], spacing: float, pairs: Ints, apart: Floats, slots: Ints, rows: Ints,
    weights: Floats, dry: Floats,
) -> int:  # fmt: skip
    """How many particles wet samples at the edge; these into rows and weights, what is left of
    samples into dry. slots: -1 for every particle, and again at the end."""
    wet = np.zeros(len(edge))
    for k in range(len(pairs)):
        if edge[pairs[k, 0]]:
            wet[pairs[k, 0]] += fades(apart[k] / spacing, WETS, WETS_NOT)
    count = 0
    for k in range(len(pairs)):
        s, j = pairs[k, 0], pairs[k, 1]
        share = fades(apart[k] / spacing, WETS, WETS_NOT) / max(wet[s], ENOUGH)
        if not edge[s] or share == 0.0:
            continue
        if slots[j] < 0:
            slots[j], rows[count], weights[count] = count, j, 0.0
            count += 1
        weights[slots[j]] += share
    for k in range(count):
        slots[rows[k]] = -1
    for s in range(len(edge)):
        dry[s] = max(1.0 - wet[s] / ENOUGH, 0.0) if edge[s] else 0.0
    return count


@inline
def basis(p: Floats, k: int, middle: Floats, spacing: float, out: Floats) -> None:
    out[0] = 1.0
    for i in range(3):
        out[1 + i] = (p[k, i] - middle[i]) / spacing


@serial
def fit(
    places: Floats, areas: Floats, flush: Floats, dry: Floats, wet: Floats, weights: Floats,
    densities: Floats, gravity: Floats, spacing: float, centres: Floats,
) -> tuple[Floats, Floats]:  # fmt: skip
    """Force and torque on the bodies at both sides, about their centres (n, 3), one or two of them:
    (n, 6, particles) over the pressure of each particle [m^2], and (n, 6) by weight [N, N m].

    Least squares: an even slope of pressure between the wet particles (their places, weights,
    densities) and what is dry of the samples, on top of what the weight of the water makes.
    """
    middle, total = np.zeros(3), weights.sum() + dry.sum()
    for i in range(3):
        middle[i] = ((weights * wet[:, i]).sum() + (dry * places[:, i]).sum()) / total
    normal, b = np.zeros((4, 8)), np.zeros(4)
    for k in range(len(wet) + len(places)):
        if k < len(wet):
            weight = weights[k]
            basis(wet, k, middle, spacing, b)
        else:
            weight = dry[k - len(wet)]
            basis(places, k - len(wet), middle, spacing, b)
        for i in range(4):
            for j in range(4):
                normal[i, j] += weight * b[i] * b[j]
    for i in range(4):
        normal[i, i] += STIFF**2 * total if i > 0 else 0.0
        normal[i, 4 + i] = 1.0
    invert(normal)
    fits = np.zeros((4, len(wet)))  # over pressures
    lifted, heavy = np.zeros(4), np.zeros(4)
    for k in range(len(wet)):
        basis(wet, k, middle, spacing, b)
        # A particle's pressure at a place of the film is p + rho g (place - particle).
        height = ((wet[k] - middle) * gravity).sum()
        for i in range(4):
            fits[i, k] = (normal[i, 4:] * b).sum() * weights[k]
            lifted[i] -= fits[i, k] * densities[k] * height
            heavy[i] += fits[i, k] * densities[k]
    per_fit, constant = acting(
        places, areas, flush, middle, spacing, gravity, lifted, heavy, centres
    )
    found = np.zeros((len(centres), 6, len(wet)))
    for side in range(len(centres)):
        for i in range(6):
            for j in range(4):
                found[side, i] += per_fit[side, i, j] * fits[j]
    return found, constant


@called
def acting(
    places: Floats, areas: Floats, flush: Floats, middle: Floats, spacing: float, gravity: Floats,
    lifted: Floats, heavy: Floats, centres: Floats,
) -> tuple[Floats, Floats]:  # fmt: skip
    """What samples get by each function of the basis (n, 6, 4), and by the weight of the water."""
    sides, b = len(centres), np.zeros(4)
    per_fit, constant, both = np.zeros((sides, 6, 4)), np.zeros((sides, 6)), np.zeros(6)
    for s in range(len(places)):
        if flush[s] == 0.0:
            continue
        basis(places, s, middle, spacing, b)
        height = ((places[s] - middle) * gravity).sum()
        at_rest = (b * lifted).sum() + (b * heavy).sum() * height
        for side in range(sides):
            sign = -1.0 if side == 0 else 1.0
            for i in range(3):
                both[i] = sign * flush[s] * areas[s, i]
            for i in range(3):
                j, k = (i + 1) % 3, (i + 2) % 3
                arm_j, arm_k = places[s, j] - centres[side, j], places[s, k] - centres[side, k]
                both[3 + i] = arm_j * both[k] - arm_k * both[j]
            for i in range(6):
                constant[side, i] += both[i] * at_rest
                for j in range(4):
                    per_fit[side, i, j] += both[i] * b[j]
    return per_fit, constant


@called
def invert(m: Floats) -> None:
    """(A, 1) -> (1, A^-1) in place, A positive definite."""
    for i in range(4):
        m[i] /= m[i, i]
        for k in range(4):
            if k != i:
                m[k] -= m[k, i] * m[i]


@bare
def pushed(
    change: Floats, bodies: Ints, starts: Ints, rows: Ints, weights: Floats, sums: Floats
) -> None:
    """What a change of pressure does to bodies, added to sums (n, 6): side after side of films."""
    for side in range(len(bodies)):
        for e in range(starts[side], starts[side + 1]):
            for i in range(6):
                sums[bodies[side], i] += weights[i, e] * change[rows[e]]
