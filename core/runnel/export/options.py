"""What is exported, and in which units and axes."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from ..errors import SceneError

FORMATS = ("usd", "bgeo", "vdb", "ply", "npz")
SIZED = ("usd", "bgeo", "vdb")  # formats whose particles are nothing without a radius
UPS = ("scene", "y", "z")


def _option(default: Any, text: str) -> Any:
    return field(default=default, metadata={"help": text})


@dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """Options of `runnel export`; lengths in metres unless said otherwise."""

    format: str = field(metadata={"help": "one of " + ", ".join(FORMATS)})
    channels: tuple[str, ...] = _option(
        (), "position (and radius in usd, bgeo, vdb) comes always; none named: all"
    )
    scale: float = _option(1.0, "units of the files in a metre: 100 writes centimetres")
    up: str = _option("scene", "axis that points up in the files: y, z, or scene for the scene's")
    surface: bool = _option(False, "surfaces that `runnel mesh` wrote come along (usd, bgeo)")
    colliders: bool = _option(False, "colliders and bodies come along as meshes (usd, bgeo)")
    voxel: float = _option(0.0, "size of voxels [m] (vdb); 0 takes the smallest radius")

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            self._refuse("format", f"must be one of {', '.join(FORMATS)}")
        if self.up not in UPS:
            self._refuse("up", f"must be one of {', '.join(UPS)}")
        if not (math.isfinite(self.scale) and 1e-6 <= self.scale <= 1e6):
            self._refuse("scale", "must be between 1e-06 and 1e+06")
        if not (math.isfinite(self.voxel) and 0 <= self.voxel <= 1e6):
            self._refuse("voxel", "must be between 0 and 1e+06")
        for name in ("surface", "colliders"):
            if getattr(self, name) and self.format not in ("usd", "bgeo"):
                self._refuse(name, f"{self.format} files hold no meshes; use usd or bgeo")

    def _refuse(self, name: str, message: str) -> None:
        raise SceneError(message, key=f"export.{name}", value=getattr(self, name))
