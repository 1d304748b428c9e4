# SPDX-FileCopyrightText: 2026 The Runnel authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects that show a cache: how they are made, marked and placed."""

from __future__ import annotations

import math
from typing import Any

import bpy
from mathutils import Matrix

UID, PART = "runnel_uid", "runnel_part"


def new(
    name: str, data: bpy.types.ID, system: Any, scene: bpy.types.Scene, part: str
) -> bpy.types.Object:
    """A new object of a system, in a collection of the system's own."""
    made = bpy.data.objects.new(name, data)
    made[UID], made[PART] = system.uid, part
    made.lock_location = made.lock_rotation = made.lock_scale = (True, True, True)
    _collection(system, scene).objects.link(made)
    return made


def relink(shown: bpy.types.Object, scene: bpy.types.Scene) -> None:
    """Put an object that was deleted, but is still known, back into the scene."""
    if scene.objects.get(shown.name) != shown:
        scene.collection.objects.link(shown)


def metres_per_unit(scene: bpy.types.Scene) -> float:
    """Length of a Blender unit [m]; Blender keeps it in single precision."""
    units = scene.unit_settings
    return 1.0 if units.system == "NONE" else float(f"{units.scale_length:.7g}")


def place(shown: bpy.types.Object, scene: bpy.types.Scene, up: str) -> None:
    """Caches are in metres, with their own up axis; the object's transform brings them here."""
    matrix = Matrix.Scale(1.0 / metres_per_unit(scene), 4)
    if up == "y":
        matrix = Matrix.Rotation(math.pi / 2, 4, "X") @ matrix
    if shown.matrix_basis != matrix:
        shown.matrix_basis = matrix


def remove(shown: bpy.types.Object) -> None:
    """Delete an object with its data."""
    data = shown.data
    bpy.data.objects.remove(shown)
    if data is not None and not data.users:
        bpy.data.batch_remove([data])


def _collection(system: Any, scene: bpy.types.Scene) -> bpy.types.Collection:
    for candidate in scene.collection.children_recursive:
        if candidate.get(UID) == system.uid:
            return candidate
    made = bpy.data.collections.new(f"Runnel {system.name}")
    made[UID] = system.uid
    scene.collection.children.link(made)
    return made
