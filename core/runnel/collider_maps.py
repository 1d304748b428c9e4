"""Checks of the maps of a collider: friction, bounce, stickiness over its surface, and wet maps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from .errors import SceneError
from .params import Collider, MeshFile

IMAGE_SUFFIXES: Final = (".png", ".jpg", ".jpeg", ".tif", ".tiff")


def image_maps(folder: Path, collider: Collider) -> list[Path]:
    """Image files of a collider."""
    maps = (collider.friction_map, collider.bounce_map, collider.stickiness_map)
    images = [name for name in maps if name and name.lower().endswith(IMAGE_SUFFIXES)]
    return [folder / name for name in images]


def check_maps(
    collider: Collider, key: str, folder: Path, is_allowed: Callable[[Path, str], bool], flat: bool
) -> None:
    """Maps and wet maps need a mesh, and something to scale. flat: the scene is 2D."""
    surface = collider.shape
    on_mesh = isinstance(surface, MeshFile) and not surface.file.lower().endswith(".vdb")
    for name in ("friction", "bounce", "stickiness"):
        value = getattr(collider, f"{name}_map")
        if value is None:
            continue
        where = f"{key}.{name}_map"
        if not on_mesh:
            raise SceneError("belongs to meshes, not to other shapes", key=where, value=value)
        if not getattr(collider, name):
            raise SceneError(f"scales {name}, which is 0; set {name} too", key=where, value=value)
        if value.lower().endswith(IMAGE_SUFFIXES):
            path = folder / value
            if not is_allowed(path, value):
                raise SceneError("lies outside of the scene's folder", key=where, value=value)
            if not path.is_file():
                raise SceneError(f"there is no file {path}", key=where, value=value)
    wet = [n for n in ("wet_friction", "wet_stickiness") if getattr(collider, n) is not None]
    if wet and collider.wet_map == "none":
        raise SceneError('needs wet_map = "exr" or "png"', key=f"{key}.{wet[0]}")
    if collider.wet_map != "none" and (not on_mesh or flat):
        raise SceneError("needs a mesh, in 3D", key=f"{key}.wet_map", value=collider.wet_map)
