# SPDX-License-Identifier: GPL-3.0-or-later
"""Has anything changed since a take was baked? A quick look, for panels.

The exact answer compares the exported scene with the cache's and needs all frames to be read; that
is done when a bake starts. This look compares settings, meshes before modifiers, modifiers with
what they run (nodes, cloth and other physics), and keyframes.
"""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path
from typing import Any

import bpy

from runnel.params import Fluid, Output, Solver
from runnel.scene import Scene

from . import animation, properties, roles, shapes
from .deliver.objects import metres_per_unit
from .knobs import SECTIONS

_FRESH = 1.0  # s that a look holds
_SHARE = 0.05  # of the time that looks may take, at most
_looks: dict[str, tuple[float, str]] = {}  # until when it holds, and what was seen


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
        parts.append([roles.part_name(obj), *_settings(obj, metres)])
    for obj in fields:
        parts.append([obj.name, shapes.plain(obj.field, shapes.played_of(obj))])
    parts.append(sorted(map(repr, map(_looked_at, animation.followed(members + fields)))))
    if any(obj.rigid_body is not None for obj in members):
        parts.append(shapes.plain(scene.rigidbody_world, shapes.played_of(scene)))
    return hashlib.sha256(json.dumps(parts, default=repr).encode()).hexdigest()


def _settings(obj: bpy.types.Object, metres: float) -> list[Any]:
    settings = obj.runnel
    cls = SECTIONS[settings.role].cls
    group = getattr(settings, properties.GROUPS[cls])
    values = properties.values(group, cls, metres)
    paths = shapes.played_of(obj)
    played = {path.rpartition(".")[2] for path in paths if path.startswith("runnel.")}
    return [settings.role, settings.fluid, {k: v for k, v in values.items() if k not in played}]


def _looked_at(item: bpy.types.ID) -> list[Any]:
    """Something that the simulation hangs on: how it moves, and its shape."""
    found = animation.state(item)
    if isinstance(item, bpy.types.Object):
        found += shapes.of(item)
    elif isinstance(item, bpy.types.NodeTree):
        found += shapes.nodes(item)
    return found
