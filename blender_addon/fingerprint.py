# SPDX-License-Identifier: GPL-3.0-or-later
"""Has anything changed since a take was baked? A quick look, for panels.

The exact answer compares the exported scene with the cache's and needs all frames to be read; that
is done when a bake starts. This look compares settings, and objects as they are at rest.
"""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path
from typing import Any

import bpy
import numpy as np

from runnel.params import Fluid, Output, Solver
from runnel.scene import Scene

from . import properties, roles
from .knobs import SECTIONS

_FRESH = 1.0  # s that a look holds
_looks: dict[str, tuple[float, str]] = {}
_PLAIN = {"BOOLEAN", "INT", "FLOAT", "ENUM", "STRING"}


def _file(home: Path, take: str) -> Path:
    return home / f"{take}.blend.json"


def write(home: Path, take: str, system: Any, scene: Scene, objects: dict[str, list[str]]) -> None:
    """Beside the exported scene: what the settings were, and which objects its parts are."""
    data = {"settings": of(system), "digest": scene.digest(), "objects": objects}
    _file(home, take).write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    _looks.clear()


def changed(system: Any) -> bool:
    """Whether the take that is shown was baked with other settings, as far as a look tells."""
    folder = system.cache_path()
    try:
        data = json.loads(_file(folder.parent, folder.name).read_text(encoding="utf-8"))
        known = data["settings"]
    except (OSError, ValueError, KeyError, TypeError):
        return False
    then, look = _looks.get(system.uid, (0.0, ""))
    now = time.monotonic()
    if now - then > _FRESH:
        look = of(system)
        _looks[system.uid] = (now, look)
    return known != look


def of(system: Any) -> str:
    """Digest of a system's settings and objects."""
    scene = system.id_data
    metres = properties.metres_per_unit(scene)
    first, _ = system.frame_range()  # a longer shot goes on with the same cache
    parts: list[Any] = [
        [first, scene.render.fps, scene.render.fps_base, metres, scene.use_gravity],
        list(scene.gravity),
        system.spacing,
        properties.values(system.world, Scene, metres),
        properties.values(system.solver, Solver, metres),
        properties.values(system.output, Output, metres),
        [[f.name, properties.values(f, Fluid, metres)] for f in system.fluids],
    ]
    for obj in roles.members(system):
        parts.append([roles.part_name(obj), *_settings(obj, metres), *_geometry(obj)])
    for obj in roles.fields(system):
        parts.append([obj.name, _plain(obj.field), *_geometry(obj)])
    return hashlib.sha256(json.dumps(parts, default=repr).encode()).hexdigest()


def _settings(obj: bpy.types.Object, metres: float) -> list[Any]:
    settings = obj.runnel
    cls = SECTIONS[settings.role].cls
    group = getattr(settings, properties.GROUPS[cls])
    return [settings.role, settings.fluid, properties.values(group, cls, metres)]


def _geometry(obj: bpy.types.Object) -> list[Any]:
    """Where an object is and its mesh, before modifiers; what animation does is not looked at."""
    found: list[Any] = [
        [_plain(modifier) for modifier in obj.modifiers if modifier.name != "Runnel"]
    ]
    if obj.animation_data is None:
        found.append([round(v, 5) for row in obj.matrix_basis for v in row])
    if obj.type == "MESH" and obj.mode == "OBJECT":
        coordinates = np.empty(3 * len(obj.data.vertices), np.float32)
        obj.data.vertices.foreach_get("co", coordinates)
        found.append([len(obj.data.polygons), hashlib.sha256(coordinates.tobytes()).hexdigest()])
    return found


def _plain(item: Any) -> list[str]:
    """Simple settings of a modifier or field."""
    if item is None:
        return []
    return [
        f"{p.identifier}={_value(item, p)}"
        for p in item.bl_rna.properties
        if p.type in _PLAIN and not p.is_hidden and p.identifier not in ("execution_time",)
    ]


def _value(item: Any, prop: Any) -> str:
    value = getattr(item, prop.identifier, None)
    return (
        str(list(value)) if getattr(prop, "is_array", False) and value is not None else str(value)
    )
