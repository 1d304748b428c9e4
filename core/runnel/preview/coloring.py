"""Which colour each particle gets, and the legend that explains it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import RunnelError
from ..presets import PALETTE, PRESETS
from .colors import apply, to_linear
from .options import PreviewOptions

Floats = NDArray[np.float64]
Channels = Mapping[str, NDArray[Any]]

UNITS = {"speed": "m/s", "velocity": "m/s", "density": "kg/m³", "age": "s", "radius": "m"}
_AUTO = {"speed": "water", "velocity": "water", "density": "leaf", "pressure": "leaf"}


@dataclass(frozen=True)
class Legend:
    """Either a bar from low to high, or names with colours (sRGB)."""

    title: str = ""
    unit: str = ""
    low: float = 0.0
    high: float = 1.0
    colormap: str = ""
    names: tuple[tuple[str, tuple[float, float, float]], ...] = ()


def channels_needed(options: PreviewOptions) -> list[str]:
    """Channels the colours are made from."""
    return ["velocity" if options.color == "speed" else options.color]


def fluid_colors(scene: Mapping[str, Any]) -> list[tuple[str, tuple[float, float, float]]]:
    """Name and sRGB colour of each fluid, as the scene reader would choose it."""
    result = []
    for i, fluid in enumerate(scene.get("fluid", ())):
        color = fluid.get("color")
        if color is None:
            preset = PRESETS.get(fluid.get("preset") or "")
            color = preset.color if preset else PALETTE[i % len(PALETTE)]
        red, green, blue = (float(c) for c in color)
        result.append((str(fluid.get("name") or f"fluid {i}"), (red, green, blue)))
    return result


def colors_of(scene: Mapping[str, Any], phase: NDArray[Any]) -> Floats:
    """Linear rgb (n, 3) of particles by their fluids."""
    colors = [color for _, color in fluid_colors(scene)] or [PALETTE[0]]
    while len(colors) <= phase.max(initial=0) and len(colors) < 256:
        colors.append(PALETTE[len(colors) % len(PALETTE)])
    found: Floats = to_linear(colors)[np.clip(phase.astype(np.int64), 0, len(colors) - 1)]
    return found


def values_of(arrays: Channels, name: str) -> Floats:
    """One number per particle: the channel, or the length of its vectors."""
    channel = "velocity" if name == "speed" else name
    if channel not in arrays:
        raise RunnelError(
            f"Cannot colour by {name!r}: the frame has no channel {channel!r}. It has "
            f"{', '.join(sorted(arrays))}; colours can be phase, speed or one of these."
        )
    values = np.asarray(arrays[channel], dtype=np.float64)
    if values.ndim == 2:
        values = np.linalg.norm(values, axis=1)
    return values


def value_range(samples: list[Floats]) -> tuple[float, float]:
    """Ends of the colormap: nearly all values, so that a few strays do not wash out the rest."""
    values = np.concatenate([*samples, np.empty(0)])
    values = values[np.isfinite(values)]
    if not len(values):
        return 0.0, 1.0
    low, high = (float(v) for v in np.percentile(values, [1, 99]))
    if 0 <= low < 0.25 * high:
        low = 0.0
    if high - low <= 1e-6 * max(abs(high), abs(low), 1e-30):
        high = low + max(abs(low), 1.0) * 1e-3
    return low, high


def particle_colors(
    arrays: Channels, scene: Mapping[str, Any], options: PreviewOptions
) -> tuple[Floats, Legend]:
    """Linear rgb (n, 3), and what to print beside it."""
    if options.color == "phase":
        names = fluid_colors(scene)
        phase = np.asarray(arrays.get("phase", np.zeros(len(arrays["position"]))))
        return colors_of(scene, phase), Legend(names=tuple(names) if len(names) > 1 else ())
    values = values_of(arrays, options.color)
    low, high = options.range or value_range([values])
    colormap = options.colormap
    if colormap == "auto":
        colormap = _AUTO.get(options.color, "ember")
    legend = Legend(options.color, UNITS.get(options.color, ""), low, high, colormap)
    return apply(values, low, high, colormap), legend
