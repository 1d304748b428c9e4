"""What a preview shows and from where."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from ..errors import SceneError

Vec3 = tuple[float, float, float]

BACKGROUNDS = ("dark", "light")
MOVIES = ("auto", "mp4", "gif", "webp", "apng", "none")


@dataclass(frozen=True, kw_only=True)
class PreviewOptions:
    """Options of `runnel preview`; angles in degrees, lengths in metres."""

    width: int = 1280
    height: int = 720
    color: str = "phase"  # "phase", "speed", or a channel (of vectors the length)
    range: tuple[float, float] | None = None  # values at the ends of the colormap
    colormap: str = "auto"
    azimuth: float = 30.0  # 0 looks from the front (-y with up = "z", +z with up = "y")
    elevation: float = 18.0  # above the horizon
    zoom: float = 1.0
    fov: float = 28.0  # of the picture's height
    ortho: bool = False
    bounds: tuple[Vec3, Vec3] | None = None  # box that fills the picture; default: the particles
    background: str = "dark"
    floor: bool = True
    colliders: bool = True
    glass: tuple[str, ...] = ()  # names of mesh colliders that are seen through
    shadows: bool = True
    labels: bool = True
    smooth: float = 0.45  # 0 shows every particle as a ball, 1 only the shape of the whole
    radius_scale: float = 1.15  # balls that just overlap read as a liquid
    quality: int = 2  # samples per pixel along each axis
    movie: str = "auto"  # "auto": mp4 if imageio-ffmpeg is installed, else gif
    sheet: int = 12  # frames on the contact sheet; 0 for none

    def __post_init__(self) -> None:
        limits = {
            "width": (16, 8192),
            "height": (16, 8192),
            "elevation": (-89.9, 89.9),
            "azimuth": (-3600, 3600),
            "zoom": (1e-3, 1e3),
            "fov": (1, 150),
            "smooth": (0, 1),
            "radius_scale": (0.01, 100),
            "quality": (1, 4),
            "sheet": (0, 100),
        }
        for name, (low, high) in limits.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise _wrong(name, value, f"must be between {low} and {high}")
        for name, words in {"background": BACKGROUNDS, "movie": MOVIES}.items():
            if getattr(self, name) not in words:
                raise _wrong(name, getattr(self, name), f"must be one of {', '.join(words)}")
        if self.range is not None and not self.range[0] < self.range[1]:
            raise _wrong("range", self.range, "the first must be below the second")

    def replace(self, **changes: Any) -> PreviewOptions:
        """A copy with other values."""
        return dataclasses.replace(self, **changes)


def _wrong(name: str, value: Any, message: str) -> SceneError:
    return SceneError(message, key=f"preview.{name}", value=value)
