"""Words and legends on a finished picture, with Pillow's own font."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import RunnelError
from .coloring import Legend
from .colors import table, to_srgb

Image = NDArray[np.uint8]

_INK = {"dark": (222, 230, 238), "light": (44, 54, 64)}


def pillow() -> Any:
    """Pillow's modules, or an error that says how to get them."""
    try:
        from PIL import Image as images
        from PIL import ImageDraw, ImageFont
    except ImportError as error:
        raise RunnelError(
            "Pictures need Pillow, which is not installed. Install it with: "
            "pip install 'runnel[preview]'"
        ) from error
    return images, ImageDraw, ImageFont


_FONTS = ("DejaVuSans.ttf", "arial.ttf", "Arial.ttf", "Arial Unicode.ttf")


def _font(fonts: Any, size: int, texts: str) -> Any:
    """Pillow's own font, which has the letters of English only; for others one of the system's."""
    if not texts.isascii():
        for name in _FONTS:
            with suppress(OSError):
                return fonts.truetype(name, size)
    return fonts.load_default(size)


def annotate(image: Image, text: str, legend: Legend, background: str, size: int = 0) -> Image:
    """Picture with a line of text at the lower left and a legend at the lower right.

    `size` of the letters [px]; by default a share of the picture's height.
    """
    images, draws, fonts = pillow()
    height, width = image.shape[:2]
    size = size or max(int(height / 42), 12)
    picture = images.fromarray(image)
    words = text + "".join(name for name, _ in legend.names)
    draw, font = draws.Draw(picture), _font(fonts, size, words)
    ink = _INK[background]
    margin = size * 1.4
    draw.text((margin, height - margin), text, fill=ink, font=font, anchor="ls")
    if legend.names:
        _names(picture, draw, font, size, legend, ink, (width - margin, height - margin))
    elif legend.colormap:
        _bar(picture, draw, font, size, legend, ink, (width - margin, height - margin))
    return np.asarray(picture)


def _names(
    picture: Any, draw: Any, font: Any, size: int, legend: Legend, ink: Any,
    corner: tuple[float, float],
) -> None:  # fmt: skip
    """Dots with the fluids' names, one below the other."""
    right, bottom = corner
    images, draws, _ = pillow()
    diameter = max(int(size * 0.8), 3)
    dot = images.new("L", (8 * diameter, 8 * diameter))  # large, then shrunk: smooth edges
    draws.Draw(dot).ellipse([0, 0, 8 * diameter - 1, 8 * diameter - 1], fill=255)
    dot = dot.resize((diameter, diameter), images.Resampling.BOX)
    widest = max(draw.textlength(name, font=font) for name, _ in legend.names[:12])
    for row, (name, color) in enumerate(reversed(legend.names[:12])):
        y = bottom - row * size * 1.45
        left = right - widest
        draw.text((left, y), name, fill=ink, font=font, anchor="ls")
        fill = tuple(round(255 * c) for c in color)
        picture.paste(fill, (int(left - size * 1.2), int(y - size * 0.75)), mask=dot)


def _bar(
    picture: Any, draw: Any, font: Any, size: int, legend: Legend, ink: Any,
    corner: tuple[float, float],
) -> None:  # fmt: skip
    """A colour bar with its ends, and the channel above it."""
    images, _, _ = pillow()
    length, thickness = int(size * 13), max(int(size * 0.6), 3)
    right, bottom = corner
    left, top = int(right - length), int(bottom - size * 1.3 - thickness)
    colors = np.rint(to_srgb(table(legend.colormap, length)) * 255).astype(np.uint8)
    picture.paste(images.fromarray(np.tile(colors, (thickness, 1, 1))), (left, top))
    title = f"{legend.title} [{legend.unit}]" if legend.unit else legend.title
    draw.text((left + length, top - size * 0.5), title, fill=ink, font=font, anchor="rs")
    draw.text((left, bottom), f"{legend.low:.4g}", fill=ink, font=font, anchor="ls")
    draw.text((left + length, bottom), f"{legend.high:.4g}", fill=ink, font=font, anchor="rs")
