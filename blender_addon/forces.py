# SPDX-License-Identifier: GPL-3.0-or-later
"""Blender's force fields as forces of core's scene, where they mean the same."""

from __future__ import annotations

from typing import Any

import bpy
import numpy as np

from . import properties, roles

Part = dict[str, Any]


def _place(obj: bpy.types.Object, metres: float) -> tuple[list[float], list[float]]:
    """Where an object is [m], and its Z axis."""
    matrix = obj.matrix_world
    center = [properties.rounded(v * metres) for v in matrix.translation]
    axis = matrix.to_quaternion().to_matrix().col[2]
    return center, [round(v, 6) + 0.0 for v in axis]


def placed(part: Part, obj: bpy.types.Object, metres: float) -> Part:
    """A force of our own at its object's place; its velocity is in the object's axes."""
    center, axis = _place(obj, metres)
    turn = np.array(obj.matrix_world.to_quaternion().to_matrix())
    velocity = [properties.rounded(v) for v in turn @ np.array(part["velocity"])]
    place = {"center": center, "axis": axis, "velocity": velocity}
    return {**part, "name": roles.part_name(obj), **place}


def from_field(obj: bpy.types.Object, metres: float) -> tuple[Part | None, str]:
    """The force that a field is, and what of it is left out, for the artist.

    Wind pulls towards `strength` along Z, at `flow` a second. Blender's force repels where core's
    point attracts. Drag is Blender's linear part.
    """
    settings = obj.field
    center, axis = _place(obj, metres)
    part: Part = {"name": roles.part_name(obj), "kind": roles.FIELDS[settings.type]}
    left_out = []
    strength = properties.rounded(settings.strength)
    if settings.type == "WIND":
        part["velocity"] = [properties.rounded(strength * metres * a) for a in axis]
        part["strength"] = properties.rounded(settings.flow)
    elif settings.type == "DRAG":
        part["strength"] = properties.rounded(settings.linear_drag)
        if settings.quadratic_drag:
            left_out.append("quadratic drag")
    elif settings.type == "FORCE":
        part |= {"strength": properties.rounded(-strength * metres), "center": center}
    else:
        part |= {"strength": properties.rounded(strength * metres), "center": center}
        part["axis"] = axis
    if settings.use_max_distance:
        part["radius"] = properties.rounded(settings.distance_max * metres)
        part.setdefault("center", center)
    left_out += [word for word, used in _unmapped(settings) if used]
    if not part["strength"]:
        return None, ""
    text = f"Force field {obj.name!r}: without its {', '.join(left_out)}." if left_out else ""
    return part, text


def _unmapped(settings: Any) -> list[tuple[str, bool]]:
    return [
        ("noise", bool(settings.noise)),
        ("falloff power", bool(settings.falloff_power) and settings.type in ("FORCE", "VORTEX")),
        ("smallest distance", bool(settings.use_min_distance)),
        ("shape", settings.shape != "POINT" and settings.type in ("FORCE", "VORTEX")),
    ]
