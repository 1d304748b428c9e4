"""A camera: where it stands, what fills the picture, how points land on pixels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Camera:
    """Right-handed; depth is the distance along `forward` [m]."""

    eye: Array
    right: Array
    up: Array
    forward: Array
    scale: float  # pixels per metre (ortho), or per metre at depth 1 (perspective)
    ortho: bool
    width: int
    height: int

    def project(self, points: NDArray[Any]) -> tuple[Array, Array, Array]:
        """Pixel x, pixel y (downwards) and depth of points (n, 3)."""
        relative = np.asarray(points, dtype=np.float64) - self.eye
        depth = relative @ self.forward
        factor = self.factor(depth)
        x = self.width / 2 + relative @ self.right * factor
        y = self.height / 2 - relative @ self.up * factor
        return x, y, depth

    def factor(self, depth: Array) -> Array:
        """Pixels per metre at a depth; 0 behind the camera."""
        if self.ortho:
            return np.full_like(depth, self.scale)
        return np.where(depth > 0, self.scale / np.where(depth > 0, depth, 1.0), 0.0)

    def packed(self) -> Array:
        """As the numba kernels take it: eye, right, up, forward, scale, ortho, width, height."""
        vectors = np.concatenate([self.eye, self.right, self.up, self.forward])
        rest = [self.scale, float(self.ortho), float(self.width), float(self.height)]
        return np.concatenate([vectors, rest])


def directions(azimuth: float, elevation: float, up_axis: str) -> tuple[Array, Array, Array]:
    """Right, up and forward of a camera turned by angles [deg]."""
    a, e = np.radians(azimuth), np.radians(elevation)
    # In a z-up world azimuth 0 stands at -y and looks along +y.
    towards = np.array([np.sin(a) * np.cos(e), -np.cos(a) * np.cos(e), np.sin(e)])
    right = np.array([np.cos(a), np.sin(a), 0.0])
    if up_axis == "y":  # turn the world by -90 degrees about x: z-up becomes y-up
        towards = np.array([towards[0], towards[2], -towards[1]])
        right = np.array([right[0], right[2], -right[1]])
    forward = -towards
    return right, np.cross(right, forward), forward


def look_at_box(
    low: Any,
    high: Any,
    axes: tuple[Array, Array, Array],
    size: tuple[int, int],
    *,
    fov: float = 28.0,
    ortho: bool = False,
    zoom: float = 1.0,
    margin: float = 0.06,
) -> Camera:
    """Camera with given axes that just sees a box; size is width, height [px]."""
    right, up, forward = axes
    low, high = np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
    corners = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)])
    corners = low + corners * np.maximum(high - low, 1e-6)
    x, y, z = corners @ right, corners @ up, corners @ forward
    width, height = size
    fill = (1.0 - 2 * margin) * zoom
    if ortho:
        scale = fill * min(width / np.ptp(x), height / np.ptp(y))
        depth = z.min() - np.ptp(z) - 1.0
        eye = right * (x.min() + x.max()) / 2 + up * (y.min() + y.max()) / 2 + forward * depth
        return Camera(eye, right, up, forward, scale, True, width, height)
    scale = height / 2 / np.tan(np.radians(fov) / 2)
    # Corners lie within the side planes when x - t z <= eye_x - t eye_z, and mirrored.
    middle, depth = [], np.inf
    for values, extent in ((x, width), (y, height)):
        t = extent * (1 - 2 * margin) / 2 / scale
        a, b = (values - t * z).max(), (-values - t * z).max()
        middle.append((a - b) / 2)
        depth = min(depth, -(a + b) / (2 * t))
    eye = right * middle[0] + up * middle[1] + forward * depth
    return Camera(eye, right, up, forward, scale * zoom, False, width, height)
