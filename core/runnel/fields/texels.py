"""Texels of a mesh's texture space: which place of which triangle each shows, and who is near."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .compile import parallel, prange, serial

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Longs = NDArray[np.int64]


def texels_of(uvs: Floats, size: int) -> tuple[Longs, Longs, Floats]:
    """Texels that a triangle covers: number (row * size + column), triangle, weights (n, 3).

    uvs (triangles, 3, 2), v upwards; the first row is the top one. Coordinates beyond 0..1 repeat:
    a triangle is moved as a whole by what its middle is off. Of two triangles the first counts.
    """
    moved = uvs - np.floor(uvs.mean(axis=1, keepdims=True))
    places = np.stack([moved[..., 0], 1.0 - moved[..., 1]], axis=-1) * size - 0.5
    owner = np.full(size * size, -1, np.int64)
    weights = np.zeros((size * size, 3))
    draw_triangles(np.ascontiguousarray(places), size, owner, weights)
    texel = np.flatnonzero(owner >= 0)
    return texel, owner[texel], weights[texel]


@serial
def draw_triangles(places: Floats, size: int, owner: Longs, weights: Floats) -> None:
    for t in range(len(places)):
        ax, ay = places[t, 0, 0], places[t, 0, 1]
        bx, by = places[t, 1, 0] - ax, places[t, 1, 1] - ay
        cx, cy = places[t, 2, 0] - ax, places[t, 2, 1] - ay
        area = bx * cy - by * cx
        if abs(area) < 1e-12:
            continue
        low_x, high_x = min(0.0, bx, cx) + ax, max(0.0, bx, cx) + ax
        low_y, high_y = min(0.0, by, cy) + ay, max(0.0, by, cy) + ay
        for row in range(max(0, int(np.ceil(low_y))), min(size - 1, int(np.floor(high_y))) + 1):
            for column in range(
                max(0, int(np.ceil(low_x))), min(size - 1, int(np.floor(high_x))) + 1
            ):
                px, py = column - ax, row - ay
                b = (px * cy - py * cx) / area
                c = (bx * py - by * px) / area
                at = row * size + column
                if b >= -1e-9 and c >= -1e-9 and b + c <= 1 + 1e-9 and owner[at] < 0:
                    owner[at] = t
                    weights[at, 0], weights[at, 1], weights[at, 2] = 1.0 - b - c, b, c


def nearest_texels(texel: Longs, size: int, reach: int) -> Longs:
    """(size * size,) for each texel one to show in its place: itself, or a covered one nearby."""
    shown = np.arange(size * size).reshape(size, size)
    covered = np.zeros((size, size), bool)
    covered.reshape(-1)[texel] = True
    for _ in range(reach):
        before, known = shown.copy(), covered.copy()
        for axis in (0, 1):
            for way in (1, -1):
                other = np.roll(known, way, axis)
                edge = [slice(None), slice(None)]
                edge[axis] = slice(0, 1) if way == 1 else slice(-1, None)
                other[tuple(edge)] = False  # nothing comes round from the other end
                take = other & ~covered
                shown[take] = np.roll(before, way, axis)[take]
                covered |= take
    return shown.reshape(-1)


def cover_texels(
    places: Floats, points: Floats, d: Floats, shift: float, touch: float, fade: float
) -> Singles:
    """How much of each place (n, 3) particles at points (m, 3) of spacing d (m,) cover: 0..1.

    Full within shift + touch d, none beyond shift + (touch + fade) d.
    """
    cover = np.zeros(len(places), np.float32)
    if not len(points) or not len(places):
        return cover
    cell = shift + (touch + fade) * float(d.max())
    low = points.min(axis=0) - cell
    spans = np.floor((points.max(axis=0) - low) / cell).astype(np.int64) + 2
    at = np.floor((points - low) / cell).astype(np.int64)
    keys = (at[:, 2] * spans[1] + at[:, 1]) * spans[0] + at[:, 0]
    order = np.argsort(keys, kind="stable")
    gather_cover(
        places, points[order], d[order], keys[order], low, spans, cell, shift, touch, fade, cover
    )
    return cover


@parallel
def gather_cover(
    places: Floats, points: Floats, d: Floats, keys: Longs, low: Floats, spans: Longs, cell: float,
    shift: float, touch: float, fade: float, cover: Singles,
) -> None:  # fmt: skip
    for n in prange(len(places)):
        x, y, z = places[n, 0], places[n, 1], places[n, 2]
        i, j, k = int(np.floor((x - low[0]) / cell)), int(np.floor((y - low[1]) / cell)), 0
        k = int(np.floor((z - low[2]) / cell))
        if i < -1 or j < -1 or k < -1 or i > spans[0] or j > spans[1] or k > spans[2]:
            continue
        best = 0.0
        for c in range(max(k - 1, 0), min(k + 2, spans[2])):
            for b in range(max(j - 1, 0), min(j + 2, spans[1])):
                row = (c * spans[1] + b) * spans[0]
                first = np.searchsorted(keys, row + max(i - 1, 0))
                end = row + min(i + 1, spans[0] - 1)
                for m in range(first, len(keys)):
                    if keys[m] > end:
                        break
                    u, v, w = points[m, 0] - x, points[m, 1] - y, points[m, 2] - z
                    away = np.sqrt(u * u + v * v + w * w) - shift
                    best = max(best, (touch + fade - away / d[m]) / fade)
        cover[n] = min(best, 1.0)
