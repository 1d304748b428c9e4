"""Constants of a kernel family, measured on the lattice that a source fills.

Everything a solver pass needs that does not depend on where the particles are:
normalisation, prototype stiffness, relaxation, wall table. Lengths are in units
of the spacing d, so one calibration serves particles of every size; the passes
scale by h. See docs/theory/equations.md for the derivations.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

KERNELS = ("even", "wendland", "poly6", "cubic", "gaussian")
GAUSSIAN_WIDTH = 0.4  # standard deviation over h, times sqrt(2); W(h) is 0.2 % of W(0)
EVEN = (0.69, -1.09, 1.28)  # W ~ t^4 (a + b t + c t^2) of t = 1 - q^2; see kernel()
WALL_SAMPLES = 256  # of the wall table over -h .. h


def kernel(name: str, dimensions: int) -> tuple[Callable[[Array], Array], Callable[[Array], Array]]:
    """W(q) and dW/dq for q = r/h in 0..1, with h = 1 and unit integral.

    "poly6" is the pair of [MM13]: poly6 for densities, the spiky kernel for
    gradients. The others are consistent: dW/dq is W's derivative. "wendland" is
    Wendland's C2 kernel, which keeps particles from pairing [Dehnen & Aly 2012].
    """
    d = dimensions
    if name == "poly6":
        a = {2: 4 / math.pi, 3: 315 / (64 * math.pi)}[d]
        b = {2: 10 / math.pi, 3: 15 / math.pi}[d]
        return lambda q: a * (1 - q * q) ** 3, lambda q: -3 * b * (1 - q) ** 2
    if name == "cubic":
        a = {2: 40 / (7 * math.pi), 3: 8 / math.pi}[d]
        return (
            lambda q: a * np.where(q <= 0.5, 6 * (q**3 - q**2) + 1, 2 * (1 - q) ** 3),
            lambda q: a * np.where(q <= 0.5, 18 * q * q - 12 * q, -6 * (1 - q) ** 2),
        )
    if name == "even":
        a, b, c = EVEN
        # Integral of (1 - q^2)^n over the unit ball: pi^(D/2) n! / Gamma(n + 1 + D/2).
        ball = [
            math.pi ** (d / 2) * math.factorial(n) / math.gamma(n + 1 + d / 2) for n in (4, 5, 6)
        ]
        scale = 1 / (a * ball[0] + b * ball[1] + c * ball[2])

        def value(q: Array) -> Array:
            t = 1 - q * q
            return scale * t**4 * (a + b * t + c * t * t)

        def slope(q: Array) -> Array:
            t = 1 - q * q
            return -2 * scale * q * t**3 * (4 * a + 5 * b * t + 6 * c * t * t)

        return value, slope
    if name == "wendland":
        a = {2: 7 / math.pi, 3: 21 / (2 * math.pi)}[d]
        return (
            lambda q: a * (1 - q) ** 4 * (4 * q + 1),
            lambda q: -20 * a * q * (1 - q) ** 3,
        )
    if name == "gaussian":
        # Shifted to reach zero at the cut-off, then normalised by quadrature.
        s = 1 / GAUSSIAN_WIDTH**2
        tail = math.exp(-s)
        q = (np.arange(20000) + 0.5) / 20000
        shell = {2: 2 * math.pi * q, 3: 4 * math.pi * q * q}[d]
        a = 1 / float(np.mean((np.exp(-s * q * q) - tail) * shell))
        return (
            lambda q: a * (np.exp(-s * q * q) - tail),
            lambda q: -2 * a * s * q * np.exp(-s * q * q),
        )
    raise ValueError(f"kernel {name!r} is not one of {', '.join(KERNELS)}")


def lattice(dimensions: int, support: float) -> Array:
    """Offsets [d] of the lattice points strictly inside `support` [d], self left out."""
    n = math.ceil(support)
    points = np.array(list(product(range(-n, n + 1), repeat=dimensions)), float)
    r2 = np.sum(points**2, axis=1)
    return points[(r2 > 0) & (r2 < support**2)]


@dataclass(frozen=True)
class Calibration:
    """Numbers of one kernel in one dimension; h = support * r = support/2 * d."""

    kernel: str
    dimensions: int
    support: float  # h/r
    lattice_fill: float  # sum of V W over the lattice with self; S0
    stiffness: float  # K/h^2: 1 / sum |V grad W^|^2, eq. 5 without the mass
    relaxation: float  # beta of eq. 6
    largest_eigenvalue: float  # of the Jacobi operator on the lattice
    push_eigenvalue: float  # how far even pressure p pushes a short wave back, in p/(rho0 d^2)
    curl_scale: float  # makes eq. 18 of [MM13] exact for rigid rotation
    tensile_reference: float  # W^(dq)*h^dim with dq = 0.1 h
    tensile_offset: float  # (W(d)/W(dq))^4: what a lattice pair has
    wall_fill: Array  # fill by a half space at distance -h..h (WALL_SAMPLES + 1 values)
    wall_slope: Array  # its slope by distance, times h
    wall_shear: Array  # share of the wall in the gradient along it


@lru_cache(maxsize=16)
def calibrate(name: str, dimensions: int, support: float = 4.0) -> Calibration:
    w, dw = kernel(name, dimensions)
    h = support / 2  # in units of d
    offsets = lattice(dimensions, h)
    r = np.linalg.norm(offsets, axis=1)
    volume = 1 / h**dimensions  # V = d^dim with W in units of h^-dim
    fill = volume * float(w(np.zeros(1))[0] + np.sum(w(r / h)))
    gradients = (volume / fill / h) * (dw(r / h) / r)[:, None] * offsets  # V grad W^ [1/d]
    square = float(np.sum(gradients**2))
    largest = _largest_eigenvalue(w, dw, offsets, h) / square * (volume / fill) ** 2
    reference = float(w(np.array([0.1]))[0]) / fill
    wall_fill, wall_slope, wall_shear = _wall_tables(w, dw, dimensions, h, fill)
    return Calibration(
        kernel=name,
        dimensions=dimensions,
        support=support,
        lattice_fill=fill,
        stiffness=1 / (square * h * h),
        # Jacobi converges for beta < 2/largest; the middle of the spectrum is
        # damped best a little below that bound.
        relaxation=min(1.0, 1.5 / largest),
        largest_eigenvalue=largest,
        push_eigenvalue=_push_eigenvalue(dw, offsets, h) * volume / fill,
        curl_scale=-dimensions / float(np.sum(gradients * offsets)),
        tensile_reference=reference,
        tensile_offset=(float(w(np.array([1 / h]))[0]) / fill / reference) ** 4,
        wall_fill=wall_fill,
        wall_slope=wall_slope,
        wall_shear=wall_shear,
    )


def _largest_eigenvalue(
    w: Callable[[Array], Array], dw: Callable[[Array], Array], offsets: Array, h: float
) -> float:
    """Largest eigenvalue of "multipliers -> change of the constraint" on an endless lattice.

    Plane waves are its eigenvectors (docs/theory: relaxation). The constraint's
    own gradient may differ from the one corrections follow, as in [MM13].
    """
    r = np.linalg.norm(offsets, axis=1)
    step = 1e-6
    own = (w(r / h + step) - w(r / h - step)) / (2 * step)
    measured = (own / h / r)[:, None] * offsets
    followed = (dw(r / h) / h / r)[:, None] * offsets
    k = np.linspace(0, math.pi, 25)
    waves = np.stack(np.meshgrid(*[k] * offsets.shape[1], indexing="ij"), -1)
    sines = np.sin(waves.reshape(-1, offsets.shape[1]) @ offsets.T)
    return float(np.max(np.sum((sines @ measured) * (sines @ followed), axis=1)))


def _push_eigenvalue(dw: Callable[[Array], Array], offsets: Array, h: float) -> float:
    """Largest eigenvalue of "places -> what even pressure moves them by", 2 p sum grad grad W."""
    r = np.linalg.norm(offsets, axis=1)
    step = 1e-5
    slope = dw(r / h) / h
    bend = (dw(r / h + step) - dw(r / h - step)) / (2 * step * h * h)
    along = offsets / r[:, None]
    stiffness = (bend - slope / r)[:, None, None] * along[:, :, None] * along[:, None, :]
    stiffness += (slope / r)[:, None, None] * np.eye(offsets.shape[1])
    k = np.linspace(0, math.pi, 13)
    waves = np.stack(np.meshgrid(*[k] * offsets.shape[1], indexing="ij"), -1)
    apart = 1 - np.cos(waves.reshape(-1, offsets.shape[1]) @ offsets.T)
    return 2 * float(np.linalg.eigvalsh(np.tensordot(apart, stiffness, 1)).max())


def _wall_tables(
    w: Callable[[Array], Array],
    dw: Callable[[Array], Array],
    dimensions: int,
    h: float,
    fill: float,
) -> tuple[Array, Array, Array]:
    """Fill by a wall, its slope times h, and its share of the gradient along the wall.

    By the wall's distance over h in -1..1.

    The solid counts as layers of fluid at half, one and a half, ... spacings
    behind its surface, each spread evenly over its plane. So a lattice whose
    first layer lies half a spacing from the wall is exactly full, and in balance
    under even pressure: a tank filled by a source starts at rest. The slope
    comes from the gradient that corrections follow, not from the fill.
    """
    q = np.linspace(-1, 1, WALL_SAMPLES + 1)
    layers = q[:, None] + (np.arange(2 * math.ceil(h) + 1) + 0.5)[None, :] / h
    beside = lattice(dimensions, h)
    beside = beside[beside[:, -1] < 0]  # what the wall stands for, seen from the first layer
    r = np.linalg.norm(beside, axis=1)

    volume = 1 / h**dimensions / fill

    def table(per_layer: Array, lattice_sum: float) -> Array:
        total = np.sum(per_layer, axis=1)
        return total * (volume * lattice_sum / float(np.interp(0.5 / h, q, total)))

    def at_layers(f: Callable[[Array], Array], moment: str) -> Array:
        plane = _plane_integral(f, dimensions, moment)
        return np.interp(np.abs(layers), _HEIGHTS, plane, right=0.0)

    share = table(at_layers(w, "none"), float(np.sum(w(r / h))))
    share = np.minimum(np.maximum.accumulate(share[::-1])[::-1], 1.0)
    # Layers on the far side of a particle inside the solid pull the other way.
    slope = table(
        np.sign(layers) * at_layers(dw, "normal"), float(np.sum(dw(r / h) * -beside[:, -1] / r))
    )
    # Of sum x dW/dx, the gradient's measure along the wall, this part lies behind it.
    whole = lattice(dimensions, h)
    moment = float(
        np.sum(
            dw(np.linalg.norm(whole, axis=1) / h) * whole[:, 0] ** 2 / np.linalg.norm(whole, axis=1)
        )
    )
    missing = float(np.sum(dw(r / h) * beside[:, 0] ** 2 / r))
    shear = table(at_layers(dw, "tangent"), missing / moment / volume)
    return share, np.minimum(slope, 0.0), np.clip(shear, 0.0, 1.0)


_HEIGHTS = np.linspace(0, 1, 1001)


def _plane_integral(f: Callable[[Array], Array], dimensions: int, moment: str) -> Array:
    """Integral over planes at _HEIGHTS (h = 1) of f(r), f(r) z/r or f(r) x^2/r (x in the plane)."""
    z = _HEIGHTS[:, None]
    t = np.sqrt(1 - z * z) * (np.arange(400) + 0.5) / 400
    r = np.minimum(np.sqrt(z * z + t * t), 1.0)
    ring = {2: 2.0 * np.ones_like(t), 3: 2 * math.pi * t}[dimensions]
    across = t * t / (dimensions - 1)
    weight = {
        "none": 1.0,
        "normal": z / np.maximum(r, 1e-12),
        "tangent": across / np.maximum(r, 1e-12),
    }
    return np.mean(f(r) * ring * weight[moment], axis=1) * np.sqrt(1 - z[:, 0] ** 2)
