"""Which tiles lie near which triangles, and whether that fits into memory.

Triangles are in units of voxels from the table's first voxel: corners (m, 9), ax ay az bx ... cz.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import RunnelError
from .compile import serial
from .geometry import distance2, frame_of
from .grid import FieldSettings

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]

_HALF_DIAGONAL = 4.0 * math.sqrt(3.0)
# While a field is made: values and index twice, states, regions, labels and crossings of a leaf;
# entry, count and node of a tile.
_LEAF_BYTES = 729 * 16 + 512 * 12
_TILE_BYTES = 20
_MOST_LOOKS = 4e8  # tiles looked at; beyond this it would take many seconds
_FARTHEST = 2.0**31  # voxels from the origin of the mesh's frame


class TooLarge(RunnelError):
    """More bytes are needed than allowed: at least `needed`."""

    def __init__(self, needed: float) -> None:
        super().__init__(f"{needed:.0f} bytes are needed")
        self.needed = needed


@dataclass(frozen=True, eq=False)
class Table:
    """The box of tiles around a mesh."""

    first: Longs  # (3,) number of its first voxel in the endless grid
    dims: Ints  # (3,)

    @property
    def count(self) -> int:
        return math.prod(int(d) for d in self.dims)


@dataclass(frozen=True, eq=False)
class Cover:
    """Tiles near triangles. lists[starts[k] : starts[k + 1]]: triangles near tile k, rising."""

    table: Ints  # (tiles of the table,) number of a tile near the surface, else -1
    tiles: Ints  # (n, 3)
    starts: Longs  # (n + 1,)
    lists: Ints


def table_around(low: Floats, high: Floats, reach: float, settings: FieldSettings) -> Table:
    """Tiles within `reach` [voxels] of a box, and one more all around that no surface comes near.

    Tiles lie at multiples of 8 voxels from the origin of the frame, in all frames of an animation.
    """
    bottom, top = low / settings.voxel - reach, high / settings.voxel + reach
    if not (np.abs(bottom) < _FARTHEST).all() or not (np.abs(top) < _FARTHEST).all():
        farthest = float(max(np.abs(low).max(), np.abs(high).max()))
        raise RunnelError(
            f"{settings.name}: reaches {farthest:g} m from the origin of its frame, too far for "
            f"voxels of {settings.voxel:g} m. Move the mesh closer to its origin or use voxels of "
            f"at least {farthest / _FARTHEST * 2:.3g} m."
        )
    first = np.floor(bottom / 8.0).astype(np.int64) - 1
    last = np.floor(top / 8.0).astype(np.int64) + 1
    table = Table(first * 8, (last - first + 1).astype(np.int32))
    _check(table.count * float(_TILE_BYTES), settings)
    return table


def _check(needed: float, settings: FieldSettings) -> None:
    if needed > settings.memory:
        raise TooLarge(needed)


def cover(corners: Floats, reach: float, table: Table, settings: FieldSettings) -> Cover:
    """Tiles that hold a voxel within `reach` [voxels] of a triangle, and some more."""
    low = corners.reshape(-1, 3, 3).min(axis=1)
    high = corners.reshape(-1, 3, 3).max(axis=1)
    spans = np.sort(np.floor((high + reach) / 8) - np.floor((low - reach) / 8 - 1e-9) + 1, axis=1)
    looks = float((spans[:, 1] * spans[:, 2]).sum())
    if looks > _MOST_LOOKS:
        raise RunnelError(
            f"{settings.name}: {len(corners)} triangles, each across many voxels of "
            f"{settings.voxel:g} m, would take too long. Use a voxel size of at least "
            f"{settings.voxel * math.sqrt(looks / _MOST_LOOKS):.3g} m, or a mesh with fewer "
            "triangles."
        )
    counts = np.zeros(table.count, np.int64)
    nothing = np.zeros(0, np.int32)
    visit_tiles(corners, reach, table.dims, counts, nothing)
    near = np.flatnonzero(counts)
    pairs = int(counts.sum())
    _check(bytes_of(len(near), pairs, table), settings)
    numbers = np.full(table.count, -1, np.int32)
    numbers[near] = np.arange(len(near), dtype=np.int32)
    starts = np.zeros(len(near) + 1, np.int64)
    np.cumsum(counts[near], out=starts[1:])
    counts[near] = starts[:-1]
    lists = np.empty(max(pairs, 1), np.int32)
    visit_tiles(corners, reach, table.dims, counts, lists)
    x, rest = near % table.dims[0], near // table.dims[0]
    tiles = np.stack([x, rest % table.dims[1], rest // table.dims[1]], axis=1).astype(np.int32)
    return Cover(numbers, tiles, starts, lists)


def bytes_of(leaves: int, pairs: int, table: Table) -> float:
    return float(leaves * _LEAF_BYTES + pairs * 4 + table.count * _TILE_BYTES)


@serial
def visit_tiles(corners: Floats, reach: float, dims: Ints, counts: Longs, lists: Ints) -> None:
    """Count the triangles near each tile or, if lists has room, write them from counts on."""
    frame = np.empty(27)
    low, high = np.empty(3, np.int64), np.empty(3, np.int64)
    tile = np.empty(3, np.int64)
    far = (reach + _HALF_DIAGONAL) ** 2 * (1.0 + 1e-9)
    for t in range(len(corners)):
        if not frame_of(corners, t, frame):
            continue
        w = 0  # axis the triangle faces most
        longest = 0.0
        for axis in range(3):
            a, b, c = corners[t, axis], corners[t, 3 + axis], corners[t, 6 + axis]
            low[axis] = max(0, int(np.ceil((min(a, b, c) - reach) / 8.0 - 1.0)))
            high[axis] = min(dims[axis] - 1, int(np.floor((max(a, b, c) + reach) / 8.0)))
            longest = max(longest, max(a, b, c) - min(a, b, c))
            if abs(frame[12 + axis]) > abs(frame[12 + w]):
                w = axis
        u, v = (w + 1) % 3, (w + 2) % 3
        su, sv = -frame[12 + u] / frame[12 + w], -frame[12 + v] / frame[12 + w]
        # Along w, a column of tiles is near the plane for this far from where it crosses.
        spread = 4.0 + 4.0 * (abs(su) + abs(sv)) + reach / abs(frame[12 + w])
        for tu in range(low[u], high[u] + 1):
            for tv in range(low[v], high[v] + 1):
                middle = frame[w] + su * (8 * tu + 4 - frame[u]) + sv * (8 * tv + 4 - frame[v])
                begin = max(low[w], int(np.ceil((middle - spread - 4.0) / 8.0)))
                end = min(high[w], int(np.floor((middle + spread - 4.0) / 8.0)))
                tile[u], tile[v] = tu, tv
                for tw in range(begin, end + 1):
                    tile[w] = tw
                    x, y, z = 8.0 * tile[0] + 4.0, 8.0 * tile[1] + 4.0, 8.0 * tile[2] + 4.0
                    # Of a small triangle, the box says enough.
                    if longest > 4.0 and distance2(frame, x, y, z) > far:
                        continue
                    place = (tile[2] * dims[1] + tile[1]) * dims[0] + tile[0]
                    if len(lists):
                        lists[counts[place]] = t
                    counts[place] += 1
