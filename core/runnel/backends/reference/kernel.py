"""Smoothing kernels for compiled passes: W^ = W / S0 and its slope, one pair at a time.

Equation numbers are those of docs/theory/equations.md.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ...solver.calibration import EVEN, GAUSSIAN_WIDTH, KERNELS, Calibration, kernel
from .compile import inline, uint32, uncompiled

_EVEN, WENDLAND, POLY6, CUBIC, GAUSSIAN = range(5)  # in the order of KERNELS
SHARPNESS = 1 / GAUSSIAN_WIDTH**2
TAIL = math.exp(-SHARPNESS)


class Kernel(NamedTuple):
    """Constants of a kernel family as numba takes them."""

    family: int
    dimensions: int
    value: float  # W^ h^D over the shape functions below
    slope: float  # dW^/dr h^(D+1) over the shape functions below
    reference: float  # W^(0.1 h) h^D of eq. 4
    offset: float  # of eq. 4
    ignored_axis: int


class Scale(NamedTuple):
    """What one particle's kernel radius makes of the family."""

    inverse: float  # 1/h
    value: float
    slope: float
    reference: float  # 1/W^(0.1 h)


def make_kernel(calibration: Calibration, ignored_axis: int = -1) -> Kernel:
    """Scales are read off `calibration.kernel`, so its constants exist once."""
    family = KERNELS.index(calibration.kernel)
    w, dw = kernel(calibration.kernel, calibration.dimensions)
    middle = np.array([0.5])
    plain_value, plain_slope = uncompiled(value_shape), uncompiled(slope_shape)
    return Kernel(
        family,
        calibration.dimensions,
        float(w(middle)[0]) / plain_value(family, 0.5) / calibration.lattice_fill,
        float(dw(middle)[0]) / plain_slope(family, 0.5) / calibration.lattice_fill,
        calibration.tensile_reference,
        calibration.tensile_offset,
        ignored_axis,
    )


@inline
def value_shape(family: int, q: float) -> float:
    """W(q) up to a factor; 0 from q = 1 on."""
    if q >= 1.0:
        return 0.0
    if family == _EVEN:
        t = 1.0 - q * q
        return t * t * t * t * (EVEN[0] + t * (EVEN[1] + t * EVEN[2]))
    if family == WENDLAND:
        t = (1.0 - q) * (1.0 - q)
        return t * t * (4.0 * q + 1.0)
    if family == POLY6:
        t = 1.0 - q * q
        return t * t * t
    if family == CUBIC:
        if q <= 0.5:
            return 6.0 * q * q * (q - 1.0) + 1.0
        t = 1.0 - q
        return 2.0 * t * t * t
    return math.exp(-SHARPNESS * q * q) - TAIL


@inline
def slope_shape(family: int, q: float) -> float:
    """dW/dq up to a factor, negative; the spiky kernel's for poly6 ([MM13])."""
    if q >= 1.0:
        return 0.0
    if family == _EVEN:
        t = 1.0 - q * q
        return -q * t * t * t * (4.0 * EVEN[0] + t * (5.0 * EVEN[1] + t * 6.0 * EVEN[2]))
    if family == WENDLAND:
        t = 1.0 - q
        return -q * t * t * t
    if family == POLY6:
        return -(1.0 - q) * (1.0 - q)
    if family == CUBIC:
        if q <= 0.5:
            return (18.0 * q - 12.0) * q
        return -6.0 * (1.0 - q) * (1.0 - q)
    return -q * math.exp(-SHARPNESS * q * q)


@inline
def scale(k: Kernel, h: float) -> Scale:
    inverse = 1.0 / h
    power = inverse * inverse
    if k.dimensions == 3:
        power *= inverse
    return Scale(inverse, k.value * power, k.slope * power * inverse, 1.0 / (k.reference * power))


@inline
def pair_value(k: Kernel, r: float, a: Scale, b: Scale) -> float:
    """W^_ij, averaged over both sizes (P004 eq. 3)."""
    own = a.value * value_shape(k.family, r * a.inverse)
    if a.inverse == b.inverse:
        return own
    return 0.5 * (own + b.value * value_shape(k.family, r * b.inverse))


@inline
def pair_slope(k: Kernel, r: float, a: Scale, b: Scale) -> float:
    """dW^_ij/dr, averaged likewise."""
    own = a.slope * slope_shape(k.family, r * a.inverse)
    if a.inverse == b.inverse:
        return own
    return 0.5 * (own + b.slope * slope_shape(k.family, r * b.inverse))


@inline
def pair_ratio(w: float, a: Scale, b: Scale) -> float:
    """W^_ij / W^(0.1 h) of eq. 4, the divisor averaged as W is."""
    if a.inverse == b.inverse:
        return w * a.reference
    return 2.0 * w / (1.0 / a.reference + 1.0 / b.reference)


@inline
def hash_uint(x: int) -> int:
    """A well-mixed 32-bit hash, the source of every "random" number, alike on all devices."""
    v = uint32(x)
    v = uint32((v ^ (v >> uint32(16))) * uint32(0x7FEB352D))
    v = uint32((v ^ (v >> uint32(15))) * uint32(0x846CA68B))
    return uint32(v ^ (v >> uint32(16)))


@inline
def hashed_direction(seed: int, ignored_axis: int) -> tuple[float, float, float]:
    """A direction in the space of the scene, not of unit length but never 0."""
    a = hash_uint(seed)
    b = hash_uint(a)
    c = hash_uint(b)
    x = (a >> uint32(8)) * (2.0 / 16777216.0) - 1.0
    y = (b >> uint32(8)) * (2.0 / 16777216.0) - 1.0
    z = (c >> uint32(8)) * (2.0 / 16777216.0) - 1.0
    if x * x + y * y + z * z < 1e-4:
        x, y, z = x + 0.5, y + 0.5, z + 0.5
    if ignored_axis >= 0:
        x += -0.1 if x < 0.0 else 0.1
        y, z = (0.0, z) if ignored_axis == 1 else (y, 0.0)
    return x, y, z
