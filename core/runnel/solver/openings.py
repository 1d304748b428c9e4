"""Where the fluid of the coarse grid (coarse.py) ends in air: long waves have no pressure there.

How full particles are does not tell that: fluid at rest packs its top layer until it is as full as
the others. So cells are halved along each axis. A half cell with particles next to one without any
is open, unless a solid is what keeps particles away.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..backends.reference.compile import double, inline, parallel, prange, serial
from ..backends.reference.field import World
from ..backends.reference.solids import distance
from .cells import BITS, LAST, Doubles, Numbers, Singles

Masks = NDArray[np.uint8]

LOOKS: Final = 4  # at the way from the middle of a half cell to that of the next
FACING: Final = 0.3  # cosine from which a solid's surface lies across that way


@serial
def occupied(
    x: Singles, low: Doubles, inverse: float, flat: int, element: Numbers, count: int
) -> Masks:
    """Which halves of each cell hold particles: a bit each, x fastest."""
    masks = np.zeros(count, np.uint8)
    for i in range(len(element)):
        bits = 0
        for k in range(3):
            if k != flat:
                place = (double(x[i, k]) - low[k]) * inverse
                bits |= (1 if place - int(place) >= 0.5 else 0) << k
        masks[element[i]] |= 1 << bits
    return masks


@inline
def _filled(masks: Masks, neighbors: Numbers, e: int, half: int, axis: int, side: int) -> bool:
    """Whether particles are in the half cell beyond that face; side 1 is up the axis."""
    other = half ^ (1 << axis)
    if side != half >> axis & 1:
        return bool(masks[e] >> other & 1)
    beyond = neighbors[e, 2 * axis + side]
    return beyond >= 0 and bool(masks[beyond] >> other & 1)


@inline
def _walled(w: World, middle: Doubles, axis: int, way: float, room: float) -> bool:
    """Whether a solid lies across the way from there: not even a particle's radius is left."""
    for look in range(1, LOOKS + 1):
        gone = way * look / LOOKS
        x = middle[0] + (gone if axis == 0 else 0.0)
        y = middle[1] + (gone if axis == 1 else 0.0)
        z = middle[2] + (gone if axis == 2 else 0.0)
        for c in range(len(w.rows)):
            phi, normal = distance(w, c, x, y, z)
            if phi < room and normal[axis] * way < -FACING * abs(way):
                return True
            if phi < 0 and look == LOOKS:  # a half that lies in a wall for the most part
                return True
    return False


@parallel
def openings(
    keys: NDArray[np.int64],
    masks: Masks,
    neighbors: Numbers,
    low: Doubles,
    cell: float,
    flat: int,
    w: World,
    room: float,
) -> Doubles:
    """Open faces of each cell by corner: a face goes to the corners as near as they are to it."""
    faces = np.zeros((len(keys), 8))
    for e in prange(len(keys)):
        middle, at = np.zeros(3), np.full(3, 0.5)  # of a half cell: where it is, in its cell
        for half in range(8):
            if not masks[e] >> half & 1:
                continue
            for k in range(3):
                if k != flat:
                    at[k] = 0.25 + 0.5 * (half >> k & 1)
                    middle[k] = low[k] + cell * ((keys[e] >> (BITS * k) & LAST) + at[k])
            for face in range(6):
                axis, side = face >> 1, face & 1
                if axis == flat or _filled(masks, neighbors, e, half, axis, side):
                    continue
                if _walled(w, middle, axis, (side - 0.5) * cell, room):
                    continue
                for corner in range(8):
                    share = 1.0
                    for k in range(3):
                        place = at[k] + (0.5 * side - 0.25 if k == axis else 0.0)
                        share *= place if corner >> k & 1 else 1 - place
                    faces[e, corner] += share
    return faces
