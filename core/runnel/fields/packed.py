"""Fields as one run of 32-bit words, as devices sample them, and tables that know how far it is.

Words of a field, offsets from its first:

    0:3 origin [m]; 3 1/voxel; 4 band [m]; 5 background [m]; 6:9 dims (int); 9 voxel [m]
    10 where values begin; 11 where velocities begin, 0 without (both uint)
    12 from the sides of the table to the nearest leaf, at least [m]
    13 where psi of walls.py begins (uint): it lies beside the values, each time one after the other
    14 where the bytes of clearance.py begin; 15 where surface values begin, 0 without (both uint)
    HEADER: table (int), clearance, then (value, psi), velocities (x, y, z of each value), surface
    values (friction, bounce, stickiness of each value); last, if there are any, how far a
    deformable body yields (three of each value), which rows of solids point to

An entry of the table is a leaf or, below 0, -1 - (64 k + 2 way + side): side 1 in the solid, k the
number of tiles (Chebyshev) to the nearest leaf, way 0..26 the neighbour that is one nearer to it
(x + 3 y + 9 z of -1..1, plus 13). So distances grow with the way from the surface, which passing by
relies on, and what is deep in a solid knows the way out.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .clearance import clearances
from .compile import serial
from .grid import SparseField
from .sample import INSIDE_TILE

Ints = NDArray[np.int32]
Words = NDArray[np.uint32]

HEADER = 16
NO_WAY = 13


def far_table(field: SparseField) -> Ints:
    """(tiles,) the field's table with the way to the nearest leaf in tiles that have none."""
    empty = field.table < 0
    steps = np.where(empty, np.iinfo(np.int32).max // 2, 0).astype(np.int32)
    ways = np.full(len(steps), NO_WAY, np.int32)
    if field.leaves:
        find_leaves(np.ascontiguousarray(field.dims, np.int32), steps, ways)
    else:
        steps[:] = 1
    far = -1 - (64 * steps + 2 * ways + (field.table == INSIDE_TILE))
    result: Ints = np.where(empty, far, field.table).astype(np.int32)
    return result


@serial
def find_leaves(dims: Ints, steps: Ints, ways: Ints) -> None:
    """Chebyshev distance to the nearest tile of 0 steps, and the neighbour nearer to it.

    One sweep forth and one back are enough for this measure.
    """
    nx, ny, nz = dims[0], dims[1], dims[2]
    for sweep in range(2):
        for n in range(nx * ny * nz):
            tile = n if sweep == 0 else nx * ny * nz - 1 - n
            x, y, z = tile % nx, tile // nx % ny, tile // (nx * ny)
            for k in range(13):
                way = k if sweep == 0 else 26 - k
                i, j, m = x + way % 3 - 1, y + way // 3 % 3 - 1, z + way // 9 - 1
                if i < 0 or j < 0 or m < 0 or i >= nx or j >= ny or m >= nz:
                    continue
                other = steps[(m * ny + j) * nx + i] + 1
                if other < steps[tile]:
                    steps[tile] = other
                    ways[tile] = way


def margin_of(field: SparseField, table: Ints) -> float:
    """How far leaves are from the sides of the table, at least [m]; of a `far_table`."""
    steps = np.where(table < 0, (-1 - table) >> 6, 0).reshape(field.dims[::-1])
    sides = [np.take(steps, end, axis).min() for axis in range(3) for end in (0, -1)]
    return 8.0 * field.voxel * float(min(sides))


def words_of(field: SparseField) -> Words:
    """A field as words for a device."""
    table = far_table(field)
    head = np.zeros(HEADER, np.uint32)
    floats, ints = head.view(np.float32), head.view(np.int32)
    floats[0:3] = field.origin
    floats[3:6] = 1.0 / field.voxel, field.band, field.background
    ints[6:9] = field.dims
    floats[9], floats[12] = field.voxel, margin_of(field, table)
    head[14] = HEADER + len(table)
    parts = [head, table.view(np.uint32), clearances(field).reshape(-1).view(np.uint32)]
    end = sum(len(part) for part in parts)
    both = np.stack([field.values, field.values if field.wall is None else field.wall], axis=-1)
    for place, values in ((10, both), (11, field.velocity), (15, field.surface)):
        if values is not None:
            head[place] = end
            parts.append(_words(values))
            end += values.size
    head[13] = head[10] + np.uint32(1)
    if field.yields is not None:
        parts.append(_words(field.yields))
    return np.concatenate(parts)


def moving_words(field: SparseField) -> Words:
    """What of a field changes while its surface moves a little: values, psi and velocities.

    They follow each other from where the header's word 10 says.
    """
    both = np.stack([field.values, field.values if field.wall is None else field.wall], axis=-1)
    parts = [_words(both)]
    if field.velocity is not None:
        parts.append(_words(field.velocity))
    return np.concatenate(parts)


def _words(values: NDArray[np.float32]) -> Words:
    flat: Words = np.ascontiguousarray(values, np.float32).reshape(-1).view(np.uint32)
    return flat


def pack(fields: Sequence[SparseField]) -> tuple[Words, list[int]]:
    """All fields one after the other, and where each begins."""
    parts = [words_of(field) for field in fields]
    starts = np.cumsum([0, *(len(part) for part in parts)])
    words: Words = np.concatenate([np.zeros(0, np.uint32), *parts])
    return words, [int(start) for start in starts[:-1]]
