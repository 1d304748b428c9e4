"""numba kernels in screen space: balls into a depth buffer, and what that buffer tells.

Each works on a range of tiles or rows and writes nowhere else, so that plain threads can share the
picture and the result does not depend on how many there are.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from .compiled import inlined, kernel, spiral
from .parts import Balls, Bytes, Numbers, Singles

TILE = 64  # pixels
BACKGROUND = -1  # in the buffer of who is seen: particles count from 0, solids from -2 downwards
AO_TAPS = spiral(10)


@kernel
def tile_range(
    x: float, y: float, reach: float, tiles_x: int, tiles_y: int
) -> tuple[int, int, int, int]:
    """First and last tile, across and down, that a disc touches; empty if outside."""
    x0 = max(int(math.floor((x - reach) / TILE)), 0)
    y0 = max(int(math.floor((y - reach) / TILE)), 0)
    x1 = min(int(math.floor((x + reach) / TILE)), tiles_x - 1)
    y1 = min(int(math.floor((y + reach) / TILE)), tiles_y - 1)
    return x0, x1, y0, y1


@kernel
def bin_discs(
    x: Singles, y: Singles, reach: Singles, tiles_x: int, tiles_y: int
) -> tuple[NDArray[np.int64], Numbers]:
    """Discs of each tile: (tiles + 1) starts into a list of disc numbers, rising per tile."""
    starts = np.zeros(tiles_x * tiles_y + 1, np.int64)
    for i in range(len(x)):
        x0, x1, y0, y1 = tile_range(x[i], y[i], reach[i], tiles_x, tiles_y)
        for ty in range(y0, y1 + 1):
            for tx in range(x0, x1 + 1):
                starts[ty * tiles_x + tx + 1] += 1
    for t in range(tiles_x * tiles_y):
        starts[t + 1] += starts[t]
    fill = starts[:-1].copy()
    items = np.empty(starts[-1], np.int32)
    for i in range(len(x)):
        x0, x1, y0, y1 = tile_range(x[i], y[i], reach[i], tiles_x, tiles_y)
        for ty in range(y0, y1 + 1):
            for tx in range(x0, x1 + 1):
                t = ty * tiles_x + tx
                items[fill[t]] = i
                fill[t] += 1
    return starts, items


@kernel
def splat_tiles(
    first: int,
    last: int,
    starts: NDArray[np.int64],
    items: Numbers,
    balls: Balls,
    tiles_x: int,
    depth: Singles,
    who: Numbers,
) -> None:
    """Balls into depth and number of the nearest, tile by tile.

    A ball is a disc of `reach` pixels that bulges by `radius` towards the camera. Equal depths go
    to the lower number.
    """
    height, width = depth.shape
    for t in range(first, last):
        left, top = (t % tiles_x) * TILE, (t // tiles_x) * TILE
        right, bottom = min(left + TILE, width), min(top + TILE, height)
        for k in range(starts[t], starts[t + 1]):
            i = items[k]
            inverse = np.float32(1.0) / balls.reach[i]
            front = balls.z[i] - balls.radius[i]
            x0 = max(int(math.floor(balls.x[i] - balls.reach[i])), left)
            x1 = min(int(math.floor(balls.x[i] + balls.reach[i])) + 1, right)
            y0 = max(int(math.floor(balls.y[i] - balls.reach[i])), top)
            y1 = min(int(math.floor(balls.y[i] + balls.reach[i])) + 1, bottom)
            for py in range(y0, y1):
                v = (np.float32(py) + np.float32(0.5) - balls.y[i]) * inverse
                rest = np.float32(1.0) - v * v
                for px in range(x0, x1):
                    if front >= depth[py, px]:
                        continue
                    u = (np.float32(px) + np.float32(0.5) - balls.x[i]) * inverse
                    bulge = rest - u * u
                    if bulge > 0.0:
                        here = balls.z[i] - balls.radius[i] * math.sqrt(bulge)
                        if here < depth[py, px]:
                            depth[py, px] = here
                            who[py, px] = i


@inlined
def noise(px: int, py: int) -> float:
    """Interleaved gradient noise 0..1 (Jimenez 2014): even to the eye, the same every time."""
    return (52.9829189 * ((0.06711056 * px + 0.00583715 * py) % 1.0)) % 1.0


@kernel
def occlusion_rows(
    first: int, last: int, depth: Singles, reach: float, ortho: bool, scale: float, out: Singles
) -> None:
    """How open each pixel's surroundings are, 0..1, from the depth buffer alone.

    Taps come in opposite pairs, so that a slope does not darken itself. `reach` [m].
    """
    height, width = depth.shape
    for py in range(first, last):
        for px in range(width):
            z = depth[py, px]
            out[py, px] = 1.0
            if z == np.inf:
                continue
            span = reach * scale if ortho else reach * scale / z
            span = min(max(span, 2.0), 160.0)
            turn = 6.2831853 * noise(px, py)
            cosine, sine = span * math.cos(turn), span * math.sin(turn)
            hidden = 0.0
            for k in range(len(AO_TAPS)):
                dx = AO_TAPS[k, 0] * cosine - AO_TAPS[k, 1] * sine
                dy = AO_TAPS[k, 0] * sine + AO_TAPS[k, 1] * cosine
                size = reach * math.sqrt((k + 0.5) / len(AO_TAPS))
                total = 0.0
                for side in (-1.0, 1.0):
                    qx = min(max(int(px + side * dx + 0.5), 0), width - 1)
                    qy = min(max(int(py + side * dy + 0.5), 0), height - 1)
                    rise = (z - depth[qy, qx]) / size
                    # Far in front is another thing, not a wall beside this one.
                    total += max(min(rise, 1.0), -1.0) if rise < 2.0 else max(3.0 - rise, 0.0)
                hidden += max(total, 0.0) * 0.5
            out[py, px] = 1.0 - min(hidden / len(AO_TAPS), 1.0)


@kernel
def even_rows(
    first: int, last: int, openness: Singles, depth: Singles, limit: float, out: Singles
) -> None:
    """Openness averaged over 4 x 4 pixels of one surface, the period of its noise."""
    height, width = depth.shape
    for py in range(first, last):
        for px in range(width):
            z = depth[py, px]
            total, weight = openness[py, px], np.float32(1.0)
            if z != np.inf:
                for qy in range(max(py - 2, 0), min(py + 2, height)):
                    for qx in range(max(px - 2, 0), min(px + 2, width)):
                        if abs(depth[qy, qx] - z) < limit:
                            total += openness[qy, qx]
                            weight += np.float32(1.0)
            out[py, px] = total / weight


@kernel
def blur_depth_rows(
    first: int,
    last: int,
    depth: Singles,
    across: bool,
    span: float,
    limit: float,
    ortho: bool,
    out: Singles,
) -> None:
    """Depth averaged along one axis over `span` [px at depth 1] where it differs by < `limit`."""
    height, width = depth.shape
    for py in range(first, last):
        for px in range(width):
            z = depth[py, px]
            out[py, px] = z
            if z == np.inf:
                continue
            reach = int(min(max(span if ortho else span / z, 1.0), 12.0))
            total, weight = 0.0, 0.0
            for k in range(-reach, reach + 1):
                qx = px + k if across else px
                qy = py if across else py + k
                if 0 <= qx < width and 0 <= qy < height:
                    other = depth[qy, qx]
                    gap = (other - z) / limit
                    if abs(gap) < 1.0:
                        w = (1.0 - gap * gap) * (1.0 - (k / (reach + 1.0)) ** 2)
                        total += w * other
                        weight += w
            out[py, px] = total / weight


@kernel
def normal_rows(
    first: int, last: int, depth: Singles, limit: float, ortho: bool, scale: float, out: Singles
) -> None:
    """Camera-space normals (right, up, towards) of a depth buffer; z 0 where there is none."""
    height, width = depth.shape
    for py in range(first, last):
        for px in range(width):
            z = depth[py, px]
            out[py, px, 0] = out[py, px, 1] = out[py, px, 2] = 0.0
            if z == np.inf:
                continue
            slope_x = slope(depth[py, max(px - 1, 0)], z, depth[py, min(px + 1, width - 1)], limit)
            slope_y = slope(depth[max(py - 1, 0), px], z, depth[min(py + 1, height - 1), px], limit)
            pixel = 1.0 / scale if ortho else z / scale
            x, y = slope_x / pixel, -slope_y / pixel
            length = math.sqrt(x * x + y * y + 1.0)
            out[py, px, 0], out[py, px, 1], out[py, px, 2] = x / length, y / length, 1.0 / length


@kernel
def slope(before: float, here: float, after: float, limit: float) -> float:
    """Change of depth per pixel, from the side that belongs to the same surface."""
    a, b = here - before, after - here
    if abs(a) > limit and abs(b) > limit:
        return 0.0
    if abs(a) > limit:
        return b
    if abs(b) > limit:
        return a
    return 0.5 * (a + b)


@kernel
def encode_rows(first: int, last: int, image: Singles, table: Bytes, out: Bytes) -> None:
    """Linear rgb to bytes by a table over 0..1."""
    for row in range(first, last):
        for column in range(image.shape[1]):
            for c in range(3):
                value = min(max(image[row, column, c], 0.0), 1.0)
                out[row, column, c] = table[int(value * (len(table) - 1) + 0.5)]
