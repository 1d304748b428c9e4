# SPDX-FileCopyrightText: 2026 The Runnel authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Surfaces of a cache as objects: what `runnel mesh` left in the cache's folder, per frame."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import bpy
import numpy as np

from runnel.cache import Cache
from runnel.export.surfaces import read_surface

from . import attributes, materials, objects

_FILE = re.compile(r"(surface(?:_.+)?)_(-?\d{6,8})\.(ply|obj)")
_SKIPPED = {"normal"}  # Blender has its own


def files(cache: Cache, frame: int) -> dict[str, Path]:
    """Surfaces of a frame by name: "surface", or "surface_water" and so on."""
    found: dict[str, Path] = {}
    for path in sorted((cache.directory / "mesh").glob(f"surface*_{frame:06d}.*"), reverse=True):
        match = _FILE.fullmatch(path.name)
        if match:  # PLY, which has velocities, comes before OBJ
            found.setdefault(match[1], path)
    return found


def is_stale(cache: Cache, frame: int) -> bool:
    """Whether a frame has no surface, or was baked again since."""
    found = files(cache, frame)
    try:
        baked = cache.frame_path(frame).stat().st_mtime_ns
    except OSError:
        return False
    return not found or any(path.stat().st_mtime_ns < baked for path in found.values())


def fluid_of(cache: Cache, name: str) -> int:
    """Number of the fluid whose surface has a name."""
    for index, fluid in enumerate(cache.scene.get("fluid", ())):
        plain = re.sub(r"[^\w-]", "_", str(fluid.get("name", index)))
        if name == f"surface_{plain}":
            return index
    return 0


def make(system: Any, scene: bpy.types.Scene, cache: Cache, name: str) -> bpy.types.Object:
    """The object of a surface, found or made."""
    item = system.display.surfaces.get(name)
    if item is None:
        item = system.display.surfaces.add()
        item.name = name
    if item.object is None:
        title = f"{system.name} {name.replace('_', ' ')}"
        item.object = objects.new(title, bpy.data.meshes.new(title), system, scene, name)
    objects.relink(item.object, scene)
    bounds = cache.bounds()
    size = float(np.min(np.subtract(bounds[1], bounds[0]))) if bounds else 1.0
    size /= objects.metres_per_unit(scene)
    materials.assign(item.object, materials.for_fluid(cache.scene, fluid_of(cache, name), size))
    return item.object


def fill(shown: bpy.types.Object, path: Path, rate: float) -> None:
    """Put a surface into the object's mesh; velocities times `rate` (0: nothing moves)."""
    surface = read_surface(path)
    data = shown.data
    data.clear_geometry()
    data.vertices.add(len(surface.vertices))
    attributes.write(data, "position", surface.vertices)
    if len(surface.triangles):
        corners = np.ascontiguousarray(surface.triangles, np.int32).reshape(-1)
        data.loops.add(len(corners))
        data.polygons.add(len(surface.triangles))
        known = data.attributes.get(".corner_vert")
        if known is not None:  # 60 times as fast
            known.data.foreach_set("value", corners)
        else:
            data.loops.foreach_set("vertex_index", corners)
        data.polygons.foreach_set("loop_start", np.arange(0, len(corners), 3, dtype=np.int32))
    channels = {name: v for name, v in surface.attributes.items() if name not in _SKIPPED}
    if "velocity" in channels and rate != 1.0:
        channels["velocity"] = channels["velocity"] * np.float32(rate)
    attributes.write_all(data, channels)
    data.update(calc_edges=True)
    if hasattr(data, "shade_smooth"):
        data.shade_smooth()
    data.update_tag()
