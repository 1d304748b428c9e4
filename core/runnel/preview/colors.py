"""Colours: sRGB, linear light, OKLab, and colormaps that change evenly to the eye."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import SceneError

Array = NDArray[np.float64]

# Ends and way points in sRGB. Between them colours go straight through OKLab, where equal steps
# look equal; lightness rises (or, for "balance", rises and falls) evenly.
COLORMAPS: dict[str, tuple[str, ...]] = {
    "water": ("#0b2b5c", "#1257a0", "#2a8fd0", "#7cc7ea", "#e2f4fd"),
    "ember": ("#140b2e", "#5a1460", "#a62a5d", "#e3603f", "#f9ab3c", "#fdf3b8"),
    "leaf": ("#2a1a4a", "#2f4a86", "#1f7f8c", "#45b26b", "#b5dc4e", "#fbf6a8"),
    "balance": ("#1f4e9c", "#6fa3d8", "#f2f2ee", "#e08d6d", "#a32a2a"),
    "gray": ("#1c1c1c", "#f4f4f4"),
}

# OKLab, Bjoern Ottosson 2020 (public domain).
_TO_LMS = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
_TO_LAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)


def to_linear(srgb: Any) -> Array:
    """Light of displayed values 0..1."""
    value = np.clip(np.asarray(srgb, dtype=np.float64), 0.0, 1.0)
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def to_srgb(linear: Any) -> Array:
    """Displayed values 0..1 of light."""
    value = np.clip(np.asarray(linear, dtype=np.float64), 0.0, 1.0)
    return np.where(value <= 0.0031308, value * 12.92, 1.055 * value ** (1 / 2.4) - 0.055)


def to_oklab(linear: Any) -> Array:
    """Lightness, green-red, blue-yellow of linear rgb."""
    return np.cbrt(np.asarray(linear) @ _TO_LMS.T) @ _TO_LAB.T


def from_oklab(lab: Any) -> Array:
    """Linear rgb, clipped to what a display can show."""
    lms = (np.asarray(lab) @ np.linalg.inv(_TO_LAB).T) ** 3
    return np.clip(lms @ np.linalg.inv(_TO_LMS).T, 0.0, 1.0)


def hex_color(code: str) -> Array:
    """Linear rgb of "#rrggbb"."""
    return to_linear([int(code[k : k + 2], 16) / 255 for k in (1, 3, 5)])


def table(name: str, size: int = 256) -> Array:
    """Colormap as (size, 3) linear rgb."""
    if name not in COLORMAPS:
        raise SceneError(
            f"must be one of auto, {', '.join(COLORMAPS)}", key="preview.colormap", value=name
        )
    points = to_oklab(np.array([hex_color(code) for code in COLORMAPS[name]]))
    at = np.linspace(0.0, 1.0, size)
    ends = np.linspace(0.0, 1.0, len(points))
    return from_oklab(np.stack([np.interp(at, ends, points[:, k]) for k in range(3)], axis=1))


def apply(values: NDArray[Any], low: float, high: float, name: str) -> Array:
    """Linear rgb (n, 3) of numbers (n,)."""
    share = (np.asarray(values, dtype=np.float64) - low) / max(high - low, 1e-30)
    colors = table(name)
    index = np.clip(np.nan_to_num(share) * (len(colors) - 1), 0, len(colors) - 1)
    return colors[np.rint(index).astype(np.intp)]
