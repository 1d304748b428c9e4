"""numba kernels that draw thin lines into a finished picture."""

from __future__ import annotations

import math

from .compiled import kernel
from .parts import Floats, Singles


@kernel
def draw_line(
    ends: Floats,
    thickness: float,
    color: Floats,
    alpha: float,
    hidden: float,
    depth: Singles,
    quality: int,
    out: Singles,
) -> None:
    """One segment: ends rows x, y [px], depth [m]; smooth edges; fainter where hidden."""
    x0, y0, z0, x1, y1, z1 = ends[0, 0], ends[0, 1], ends[0, 2], ends[1, 0], ends[1, 1], ends[1, 2]
    height, width = out.shape[0], out.shape[1]
    dx, dy = x1 - x0, y1 - y0
    squared = dx * dx + dy * dy
    pad = thickness + 1.0
    top, bottom = int(max(min(y0, y1) - pad, 0.0)), int(min(max(y0, y1) + pad, height - 1.0))
    for py in range(top, bottom + 1):
        # Columns of this row that the line can touch.
        left, right = min(x0, x1) - pad, max(x0, x1) + pad
        if abs(dy) > 1e-9:
            a = x0 + dx * (py + 0.5 - pad - y0) / dy
            b = x0 + dx * (py + 0.5 + pad - y0) / dy
            left, right = max(left, min(a, b) - pad), min(right, max(a, b) + pad)
        for px in range(int(max(left, 0.0)), int(min(right, width - 1.0)) + 1):
            u, v = px + 0.5 - x0, py + 0.5 - y0
            t = min(max((u * dx + v * dy) / max(squared, 1e-12), 0.0), 1.0)
            far = math.hypot(u - t * dx, v - t * dy)
            cover = min(max(thickness * 0.5 + 0.5 - far, 0.0), 1.0)
            if cover > 0.0:
                # 1/z runs evenly along a projected line.
                z = 1.0 / ((1.0 - t) / z0 + t / z1)
                behind = z > depth[py * quality, px * quality] * 1.0005
                share = cover * alpha * (hidden if behind else 1.0)
                for c in range(3):
                    out[py, px, c] += (color[c] - out[py, px, c]) * share
