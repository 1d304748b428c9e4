# SPDX-License-Identifier: GPL-3.0-or-later
"""Blender's force fields, and forces of our own, as forces of core's scene, frame by frame."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

import bpy
import numpy as np

from runnel.motion import without_rests
from runnel.params import Force, ForceKeyframe
from runnel.spec import specs

from . import meshes, properties, roles, takes

Part = dict[str, Any]
Seen = dict[int, tuple[Part, str]]  # frame -> the force, and what of a field is left out
CHANGING = [spec.name for spec in specs(ForceKeyframe) if spec.name != "frame"]


def objects(system: Any) -> list[bpy.types.Object]:
    """What acts on a system: objects of that role, and force fields."""
    own = [obj for obj in roles.members(system) if obj.runnel.role == "FORCE"]
    return own + roles.fields(system)


def force_of(obj: bpy.types.Object, metres: float) -> tuple[Part, str]:
    """The force that an evaluated object is at the frame at hand."""
    if obj.runnel.role != "FORCE":
        return from_field(obj, metres)
    # Evaluated objects do not hear of every changed setting; animation is written to both.
    settings = obj.original.runnel.force
    return placed(properties.values(settings, Force, metres), obj, metres), ""


def over_time(seen: Seen) -> tuple[Part | None, list[str]]:
    """A force with keyframes where it changes; None of one that never acts."""
    parts = {frame: part for frame, (part, _) in sorted(seen.items())}
    if not any(part["strength"] for part in parts.values()):
        return None, []
    first = dict(next(iter(parts.values())))
    said = list(dict.fromkeys(text for _, text in seen.values() if text))
    if not all("radius" in part for part in parts.values()):
        first.pop("radius", None)  # unlimited, but for the frames that say otherwise
    if first["kind"] in ("wind", "drag") and not any("radius" in p for p in parts.values()):
        first.pop("center")  # is the same everywhere
    names = [
        name
        for name in CHANGING
        if (name in first or name == "radius")
        and any(part.get(name) != first.get(name) for part in parts.values())
    ]
    if not names:
        return first, said
    keys = [
        {"frame": frame, **{name: part[name] for name in names if name in part}}
        for frame, part in parts.items()
    ]
    return {**first, "keyframes": without_rests(keys)}, said


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


def bring_field(part: Part, folder: Path) -> str:
    """Copy the files of a velocity field, or of points that are forces, beside the meshes, for
    scenes may not reach out of their folder; what is wrong, for the artist. Of other kinds drop
    what belongs to files."""
    if part["kind"] != "field":
        part.pop("voxel_size", None)
    if part["kind"] not in ("field", "points"):
        for key in ("field", "field_frames", "field_scale"):
            part.pop(key, None)
        return ""
    path = Path(bpy.path.abspath(part.get("field", "")))
    start, run, end = (*re.split("(#+)", path.name, maxsplit=1), "", "")[:3]
    pattern = rf"{re.escape(start)}\d{{{max(len(run), 1)},}}{re.escape(end)}" if run else None
    found = path.parent.glob("*") if pattern else [path]
    files = sorted(f for f in found if not pattern or re.fullmatch(pattern, f.name))
    if not part.get("field") or not files or not all(f.is_file() for f in files):
        return f"there is no field {path}"
    if not run:
        file = meshes.keep(folder, takes.file_name(path.stem), path.read_bytes(), path.suffix)
        part["field"] = f"meshes/{file}"
        return ""
    data = {f.name: f.read_bytes() for f in files}
    whole = hashlib.sha256(b"".join(hashlib.sha256(d).digest() for d in data.values()))
    place = folder / f"{takes.file_name(start)}-{whole.hexdigest()[:12]}"
    place.mkdir(parents=True, exist_ok=True)
    for name, content in data.items():
        (place / name).write_bytes(content)
    part["field"] = f"meshes/{place.name}/{path.name}"
    return ""


def from_field(obj: bpy.types.Object, metres: float) -> tuple[Part, str]:
    """The force that a field is, and what of it is left out, for the artist.

    Wind pulls towards `strength` along Z, at `flow` a second. Blender's force repels where core's
    point attracts. Drag is Blender's linear part.
    """
    settings = obj.field
    center, axis = _place(obj, metres)
    part: Part = {"name": roles.part_name(obj), "kind": roles.FIELDS[settings.type]}
    part["center"] = center
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
        part["strength"] = properties.rounded(-strength * metres)
    else:
        part |= {"strength": properties.rounded(strength * metres), "axis": axis}
    if settings.use_max_distance:
        part["radius"] = properties.rounded(settings.distance_max * metres)
    left_out += [word for word, used in _unmapped(settings) if used]
    text = f"Force field {obj.name!r}: without its {', '.join(left_out)}." if left_out else ""
    return part, text


def _unmapped(settings: Any) -> list[tuple[str, bool]]:
    return [
        ("noise", bool(settings.noise)),
        ("falloff power", bool(settings.falloff_power) and settings.type in ("FORCE", "VORTEX")),
        ("smallest distance", bool(settings.use_min_distance)),
        ("shape", settings.shape != "POINT" and settings.type in ("FORCE", "VORTEX")),
    ]
