# SPDX-License-Identifier: GPL-3.0-or-later
"""Has anything changed since a take was baked? A quick look, for panels.

The exact answer compares the exported scene with the cache's and needs all frames to be read; that
is done when a bake starts. This look compares settings, meshes before modifiers, and keyframes.
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

from . import animation, properties, roles
from .deliver.objects import metres_per_unit
from .knobs import SECTIONS

_FRESH = 1.0  # s that a look holds
_SHARE = 0.05  # of the time that looks may take, at most
_looks: dict[str, tuple[float, str]] = {}  # until when it holds, and what was seen
# Blender keeps these in one place.
_ONE_NUMBER = {"field.strength", "field.linear_drag", "field.guide_minimum"}
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
    until, look = _looks.get(system.uid, (0.0, ""))
    now = time.monotonic()
    if now >= until:
        look = of(system)
        took = time.monotonic() - now
        _looks[system.uid] = (now + max(_FRESH, took / _SHARE), look)
    return known != look


def of(system: Any) -> str:
    """Digest of a system's settings and objects."""
    scene = system.id_data
    metres = metres_per_unit(scene)
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
    members, fields = roles.members(system), roles.fields(system)
    for obj in members:
        parts.append([roles.part_name(obj), *_settings(obj, metres), *_geometry(obj)])
    for obj in fields:
        parts.append([obj.name, _plain(obj.field, _played(obj)), *_geometry(obj)])
    parts.append(sorted(map(repr, map(animation.state, animation.followed(members + fields)))))
    return hashlib.sha256(json.dumps(parts, default=repr).encode()).hexdigest()


def _settings(obj: bpy.types.Object, metres: float) -> list[Any]:
    settings = obj.runnel
    cls = SECTIONS[settings.role].cls
    group = getattr(settings, properties.GROUPS[cls])
    values = properties.values(group, cls, metres)
    played = {path.rpartition(".")[2] for path in _played(obj) if path.startswith("runnel.")}
    return [settings.role, settings.fluid, {k: v for k, v in values.items() if k not in played}]


def _geometry(obj: bpy.types.Object) -> list[Any]:
    """Modifiers of an object, and its mesh before them."""
    played = _played(obj)
    found: list[Any] = [
        [_plain(modifier, played) for modifier in obj.modifiers if modifier.name != "Runnel"]
    ]
    if obj.type == "MESH" and obj.mode == "OBJECT":
        coordinates = np.empty(3 * len(obj.data.vertices), np.float32)
        obj.data.vertices.foreach_get("co", coordinates)
        found.append([len(obj.data.polygons), hashlib.sha256(coordinates.tobytes()).hexdigest()])
    return found


def _played(obj: bpy.types.Object) -> set[str]:
    """Paths of what keyframes and drivers change with the frame."""
    data = obj.animation_data
    found = (*animation.curves(data.action), *data.drivers) if data is not None else ()
    paths = {curve.data_path for curve in found}
    return paths | _ONE_NUMBER if paths & _ONE_NUMBER else paths


def _plain(item: Any, played: set[str]) -> list[str]:
    """Simple settings of a modifier or field that no animation changes."""
    if item is None:
        return []
    path = item.path_from_id()
    return [
        f"{p.identifier}={_value(item, p)}"
        for p in item.bl_rna.properties
        if p.type in _PLAIN
        and not p.is_hidden
        and p.identifier != "execution_time"
        and f"{path}.{p.identifier}" not in played
    ]


def _value(item: Any, prop: Any) -> str:
    value = getattr(item, prop.identifier, None)
    return (
        str(list(value)) if getattr(prop, "is_array", False) and value is not None else str(value)
    )
