"""The density constraint: docs/theory/equations.md, eq. 1 to 4.

Plain functions on arrays. x (n, 3) [m]; V, h, rho0, p per particle. Sums are in
double precision whatever the arrays hold.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from .compile import double, inline, parallel, prange, uint32
from .kernel import (
    Kernel,
    Scale,
    hashed_direction,
    pair_ratio,
    pair_slope,
    pair_value,
    scale,
)
from .neighbors import Neighbors

Array = NDArray[np.float32] | NDArray[np.float64]
Doubles = NDArray[np.float64]
Ids = NDArray[np.uint32]

COINCIDENT = 1e-5  # [h], pairs nearer than this are twins
TWIN_STEP = 0.03  # [h], about what twins move apart by in a correction
REGULARISATION = 0.01  # of exact multipliers, relative to the filled neighbourhood


@inline
def distance(x: Array, i: int, j: int) -> tuple[float, float, float, float]:
    """x_ij and its length."""
    d0 = double(x[i, 0]) - x[j, 0]
    d1 = double(x[i, 1]) - x[j, 1]
    d2 = double(x[i, 2]) - x[j, 2]
    return d0, d1, d2, math.sqrt(d0 * d0 + d1 * d1 + d2 * d2)


@inline
def gradient(
    k: Kernel, x: Array, i: int, j: int, a: Scale, b: Scale
) -> tuple[float, float, float, float]:
    """grad W^_ij with respect to x_i, 0 for a coincident pair; and |x_ij|."""
    d0, d1, d2, r = distance(x, i, j)
    g = pair_slope(k, r, a, b) / r if r > 0.0 else 0.0
    return g * d0, g * d1, g * d2, r


@inline
def part(
    id_i: int, id_j: int, mass_i: float, mass_j: float, ignored_axis: int
) -> tuple[float, float, float]:
    """Where twins go, which have no direction of their own to part in (row A17).

    Hashed from both ids and opposite for i and j, in inverse proportion to their mass.
    """
    low, high = uint32(min(id_i, id_j)), uint32(max(id_i, id_j))
    d0, d1, d2 = hashed_direction(uint32(low * uint32(0x9E3779B9) + high), ignored_axis)
    f = 2.0 * mass_j / (mass_i + mass_j) * (1.0 if id_i < id_j else -1.0)
    return f * d0, f * d1, f * d2


@parallel
def fill(k: Kernel, near: Neighbors, x: Array, volume: Array, h: Array) -> Doubles:
    """Eq. 1 without walls: sum_j V_j W^_ij with j = i."""
    out = np.empty(len(x))
    for i in prange(len(x)):
        a = scale(k, double(h[i]))
        total = volume[i] * pair_value(k, 0.0, a, a)
        for n in range(near.start[i], near.start[i + 1]):
            j = near.items[n]
            b = a if h[j] == h[i] else scale(k, double(h[j]))
            total += volume[j] * pair_value(k, distance(x, i, j)[3], a, b)
        out[i] = total
    return out


@parallel
def lightest(near: Neighbors, x: Array, h: Array, rho0: Array) -> Doubles:
    """rhomin of eq. 2: the lowest rest density of i and the neighbours still within reach."""
    out = np.empty(len(x))
    for i in prange(len(x)):
        low = double(rho0[i])
        for n in range(near.start[i], near.start[i + 1]):
            j = near.items[n]
            if rho0[j] < low and distance(x, i, j)[3] < max(h[i], h[j]):
                low = double(rho0[j])
        out[i] = low
    return out


def next_multiplier(
    p: Array,
    change: Array,
    error: Doubles,
    stiffness: Doubles,
    limit: Doubles,
    weights: tuple[float, float],
    coarse: Array,
) -> tuple[Doubles, Doubles]:
    """Eq. 2: the new p and its change. C, k and the bound of p per particle; (momentum, gain);
    what long waves add, without momentum.
    """
    momentum, gain = weights
    before = p.astype(np.float64)
    total = np.minimum(
        before + coarse + momentum * (change - coarse) - gain * stiffness * error, limit
    )
    return total, total - before


@parallel
def exact_stiffness(
    k: Kernel,
    near: Neighbors,
    x: Array,
    volume: Array,
    h: Array,
    rho0: Array,
    wall_gradient: Array,
    stiffness: float,
) -> Doubles:
    """k of eq. 2 in exact mode: 1/(V_i (sum_k |grad_k C_i|^2 / m_k + eps_i))."""
    out = np.empty(len(x))
    for i in prange(len(x)):
        a = scale(k, double(h[i]))
        own0 = double(wall_gradient[i, 0])
        own1 = double(wall_gradient[i, 1])
        own2 = double(wall_gradient[i, 2])
        mass = double(rho0[i]) * volume[i]
        total = REGULARISATION / (mass * stiffness * h[i] * h[i])
        for n in range(near.start[i], near.start[i + 1]):
            j = near.items[n]
            b = a if h[j] == h[i] else scale(k, double(h[j]))
            g0, g1, g2, _ = gradient(k, x, i, j, a, b)
            own0 += volume[j] * g0
            own1 += volume[j] * g1
            own2 += volume[j] * g2
            total += volume[j] / rho0[j] * (g0 * g0 + g1 * g1 + g2 * g2)
        total += (own0 * own0 + own1 * own1 + own2 * own2) / mass
        out[i] = 1.0 / (volume[i] * total)
    return out


@inline
def tensile(k: Kernel, ratio: float, same: bool, si: float, sj: float) -> float:
    """s_ij of eq. 4."""
    square = ratio * ratio
    strength = si + sj if same else 2.0 * min(si, sj)
    return -strength * max(square * square - k.offset, 0.0)


@parallel
def displacement(
    k: Kernel,
    near: Neighbors,
    x: Array,
    volume: Array,
    h: Array,
    rho0: Array,
    change: Array,
    sigma: Array,
) -> Doubles:
    """dx of eq. 3 without walls [m]. change: dp."""
    out = np.empty((len(x), 3))
    for i in prange(len(x)):
        a = scale(k, double(h[i]))
        s0, s1, s2 = 0.0, 0.0, 0.0
        for n in range(near.start[i], near.start[i + 1]):
            j = near.items[n]
            b = a if h[j] == h[i] else scale(k, double(h[j]))
            g0, g1, g2, r = gradient(k, x, i, j, a, b)
            ratio = pair_ratio(pair_value(k, r, a, b), a, b)
            s = tensile(k, ratio, rho0[i] == rho0[j], sigma[i], sigma[j])
            f = volume[j] * (double(change[i]) + change[j] + s)
            s0 += f * g0
            s1 += f * g1
            s2 += f * g2
        out[i, 0], out[i, 1], out[i, 2] = s0 / rho0[i], s1 / rho0[i], s2 / rho0[i]
    if k.ignored_axis >= 0:
        out[:, k.ignored_axis] = 0.0
    return out


@parallel
def part_twins(
    near: Neighbors, x: Array, volume: Array, h: Array, rho0: Array, ids: Ids, ignored_axis: int
) -> Doubles:
    """What moves coincident particles apart [m]."""
    out = np.zeros((len(x), 3))
    for i in prange(len(x)):
        mass = double(rho0[i]) * volume[i]
        for n in range(near.start[i], near.start[i + 1]):
            j = near.items[n]
            smaller = double(min(h[i], h[j]))
            if distance(x, i, j)[3] >= COINCIDENT * smaller:
                continue
            u = part(ids[i], ids[j], mass, double(rho0[j]) * volume[j], ignored_axis)
            for axis in range(3):
                out[i, axis] += TWIN_STEP * smaller * u[axis]
    return out
