"""64-bit Z-index of grid cells: 21 bits per axis, one bit unused (P004 6.2)."""

from __future__ import annotations

import numpy as np

from .compile import inline, int64, uint64

BITS = 21
BIAS = 1 << (BITS - 1)  # cells -BIAS .. BIAS - 1 per axis

_MASKS = np.array(
    [
        0x1F00000000FFFF,
        0x1F0000FF0000FF,
        0x100F00F00F00F00F,
        0x10C30C30C30C30C3,
        0x1249249249249249,
    ],
    np.uint64,
)
_SHIFTS = np.array([32, 16, 8, 4, 2], np.uint64)
_ALL = (1 << BITS) - 1


@inline
def spread(value: int) -> int:
    """The low 21 bits of `value`, each followed by two zero bits."""
    v = uint64(value) & uint64(_ALL)
    for k in range(5):
        v = (v | (v << _SHIFTS[k])) & _MASKS[k]
    return uint64(v)


@inline
def gather(value: int) -> int:
    """Inverse of `spread`: every third bit, moved together."""
    v = uint64(value) & _MASKS[4]
    for k in range(3, -1, -1):
        v = (v | (v >> _SHIFTS[k + 1])) & _MASKS[k]
    return uint64((v | (v >> _SHIFTS[0])) & uint64(_ALL))


@inline
def encode(x: int, y: int, z: int) -> int:
    """Z-index of a cell, each coordinate in -BIAS .. BIAS - 1; x holds the lowest bit."""
    return (
        spread(uint64(x + BIAS))
        | (spread(uint64(y + BIAS)) << uint64(1))
        | (spread(uint64(z + BIAS)) << uint64(2))
    )


@inline
def decode(key: int) -> tuple[int, int, int]:
    """Cell of a Z-index."""
    k = uint64(key)
    return (
        int64(gather(k)) - BIAS,
        int64(gather(k >> uint64(1))) - BIAS,
        int64(gather(k >> uint64(2))) - BIAS,
    )
