# SPDX-License-Identifier: GPL-3.0-or-later
"""Which objects take part in a system, and what they are called there."""

from __future__ import annotations

import re
from typing import Any

import bpy

from runnel.params import NAME

MADE_HERE = "runnel_uid"  # custom property of objects that show a cache
SOURCES = ("FLUID", "EMITTER")
SOLIDS = ("COLLIDER", "RIGID", "SOFT")
LISTS = {  # role -> list of core's scene
    **dict.fromkeys(SOURCES, "source"),
    **dict.fromkeys(SOLIDS, "collider"),
    "SINK": "sink",
    "FORCE": "force",
}
BODIES = {"COLLIDER": "static", "RIGID": "rigid", "SOFT": "deformable"}
FIELDS = {"WIND": "wind", "FORCE": "point", "VORTEX": "vortex", "DRAG": "drag"}


def part_name(obj: bpy.types.Object) -> str:
    """The name of an object's part in core's scene."""
    name = re.sub(r"[/\\\x00-\x1f\x7f-\x9f]", "_", obj.name)[:64].lstrip(" ")
    if obj.library is not None:  # two files may hold objects of one name
        name = f"{name[:40]}@{bpy.path.basename(obj.library.filepath)[:20]}"
    return name if re.fullmatch(NAME, name) else f"object {name}"


def members(system: Any) -> list[bpy.types.Object]:
    """Objects with a role in a system, in the order of their names."""
    scene = system.id_data
    found = [
        obj
        for obj in scene.objects
        if obj.runnel.role != "NONE" and MADE_HERE not in obj and system.owns(obj)
    ]
    return sorted(found, key=lambda obj: (obj.name, obj.library is not None))


def fields(system: Any) -> list[bpy.types.Object]:
    """Blender's force fields that the system honours."""
    if not system.use_force_fields:
        return []
    scene = system.id_data
    found = [
        obj
        for obj in scene.objects
        if obj.field is not None and obj.field.type in FIELDS and obj.runnel.role == "NONE"
    ]
    return sorted(found, key=lambda obj: obj.name)
