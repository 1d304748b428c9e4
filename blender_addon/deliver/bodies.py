# SPDX-FileCopyrightText: 2026 The Runnel authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Motion of rigid and soft bodies, back on the objects they came from.

A rigid body moves by its delta transform, so its own location and rotation stay the artist's: they
are where the next bake starts. A soft body deforms by a Mesh Cache modifier that reads a PC2 file
beside the cache; Blender plays that without us, motion blur included.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import bpy
import numpy as np
from mathutils import Matrix, Quaternion, Vector

from runnel.cache import Cache, write_aside
from runnel.errors import CacheError

MODIFIER = "Runnel"
MARK = "runnel_body"  # on objects that playback moves


def follow(system: Any, scene: bpy.types.Scene, cache: Cache, time: float) -> None:
    """Put all bodies where they are at a time [frames], between two frames as well."""
    bodies = _bodies(system, scene, cache)
    if not bodies:
        return
    poses = _poses(cache, time)
    first = _poses(cache, min(cache.manifest.frames))
    for name, moved in bodies.items():
        if name in poses and name in first:
            _move(moved, scene, first[name], poses[name])
            moved[MARK] = system.uid


def _bodies(system: Any, scene: bpy.types.Scene, cache: Cache) -> dict[str, bpy.types.Object]:
    """Objects that the fluid moves as rigid bodies, by their names in the cache."""
    wanted = {
        str(item.get("name")): item
        for item in cache.scene.get("collider", ())
        if item.get("body") == "rigid"
    }
    if not wanted:
        return {}
    named = getattr(system, "object_names", None)
    table = named(scene) if named else {item.name: item for item in scene.objects}
    return {name: table[name] for name in wanted if name in table}


def _poses(cache: Cache, time: float) -> dict[str, tuple[Quaternion, Vector]]:
    """Rotation and place of every body at a time; outside of the cache those of its ends."""
    have = cache.frames()
    below = max((number for number in have if number <= time), default=have[0])
    above = min((number for number in have if number >= time), default=have[-1])
    early = _pose_table(cache, below)
    if above <= below:
        return early
    late, share = _pose_table(cache, above), (time - below) / (above - below)
    return {
        name: (turn.slerp(late[name][0], share), place.lerp(late[name][1], share))
        for name, (turn, place) in early.items()
        if name in late
    }


def _pose_table(cache: Cache, frame: int) -> dict[str, tuple[Quaternion, Vector]]:
    report = cache.entry(frame).report.get("poses")
    found = {}
    for name, numbers in (report if isinstance(report, dict) else {}).items():
        try:
            rows = np.array(numbers, np.float64).reshape(3, 4)
        except (ValueError, TypeError):
            rows = np.full((3, 4), np.nan)
        if not np.isfinite(rows).all():
            raise CacheError(f"{cache.directory}: the pose of {name!r} is no 3 x 4 matrix.")
        found[name] = (Matrix(rows[:, :3].tolist()).to_quaternion(), Vector(rows[:, 3]))
    return found


def _move(
    moved: bpy.types.Object,
    scene: bpy.types.Scene,
    first: tuple[Quaternion, Vector],
    now: tuple[Quaternion, Vector],
) -> None:
    """Set the delta transform that takes the object from its own place to where the body is."""
    turn = now[0] @ first[0].inverted()
    shift = (now[1] - turn @ first[1]) / scene.unit_settings.scale_length
    if moved.parent is not None:  # the same motion, seen by the parent
        frame = moved.parent.matrix_world @ moved.matrix_parent_inverse
        turns = frame.to_quaternion()
        around = turns.inverted() @ turn @ turns
        centre = frame.inverted() @ (turn @ frame.translation + shift)
        turn, shift = around, centre
    if moved.rotation_mode == "AXIS_ANGLE":  # has no delta rotation
        moved.rotation_mode = "QUATERNION"
    _set(moved, turn @ moved.location + shift - moved.location, turn)


def _set(moved: bpy.types.Object, shift: Vector, turn: Quaternion) -> None:
    moved.delta_location = shift
    if moved.rotation_mode == "QUATERNION":
        moved.delta_rotation_quaternion = turn
    else:
        near = moved.delta_rotation_euler
        moved.delta_rotation_euler = turn.to_euler(moved.rotation_mode, near)


def reset(moved: bpy.types.Object) -> None:
    """Put a body back to its own place."""
    _set(moved, Vector((0.0, 0.0, 0.0)), Quaternion())
    moved.pop(MARK, None)


@contextmanager
def at_rest(scene: bpy.types.Scene) -> Iterator[None]:
    """Bodies where the artist put them, for as long as the block lasts."""
    moved = [item.name for item in scene.objects if MARK in item]
    kept = {}
    for name in moved:
        item = scene.objects[name]
        kept[name] = (
            item.delta_location.copy(),
            item.delta_rotation_quaternion.copy(),
            item.delta_rotation_euler.copy(),
            item[MARK],
        )
        reset(item)
    soft = [item.name for item in scene.objects if _modifier(item) is not None]
    for name in soft:
        _show_modifier(scene.objects[name], False)
    try:
        yield
    finally:
        for name, (shift, turn, euler, mark) in kept.items():
            item = scene.objects[name]
            item.delta_location, item.delta_rotation_quaternion = shift, turn
            item.delta_rotation_euler, item[MARK] = euler, mark
        for name in soft:
            _show_modifier(scene.objects[name], True)


# --- soft bodies ----------------------------------------------------------------------------------


def _modifier(item: bpy.types.Object) -> Any:
    found = item.modifiers.get(MODIFIER)
    return found if found is not None and found.type == "MESH_CACHE" else None


def _show_modifier(item: bpy.types.Object, on: bool) -> None:
    modifier = _modifier(item)
    modifier.show_viewport = modifier.show_render = on


def deform(system: Any, scene: bpy.types.Scene, cache: Cache) -> None:
    """Give soft bodies and cloth their shapes; writes what the modifier reads where it is old."""
    wanted = {
        str(item.get("name")): index
        for index, item in enumerate(cache.scene.get("collider", ()))
        if item.get("body") == "deformable"
    }
    if not wanted:
        return
    named = getattr(system, "object_names", None)
    table = named(scene) if named else {item.name: item for item in scene.objects}
    for name, index in wanted.items():
        if name in table:
            _deform(table[name], scene, cache, index)


def _deform(item: bpy.types.Object, scene: bpy.types.Scene, cache: Cache, index: int) -> None:
    path = cache.directory / "shapes" / f"solid_{index:03d}.pc2"
    have = [number for number in cache.frames() if cache.solid_path(index, number).exists()]
    if not have:
        return
    newest = cache.solid_path(index, have[-1]).stat().st_mtime_ns
    if not path.exists() or path.stat().st_mtime_ns < newest:
        write_shapes(path, cache, index, have, _to_local(item, scene))
    modifier = _modifier(item) or item.modifiers.new(MODIFIER, "MESH_CACHE")
    modifier.cache_format = "PC2"
    modifier.filepath = str(path)
    modifier.frame_start = have[0]
    modifier.interpolation = "LINEAR"


def _to_local(item: bpy.types.Object, scene: bpy.types.Scene) -> Any:
    """From metres in the world to the object's own space."""
    matrix = np.array(item.matrix_world.inverted_safe()) / 1.0
    matrix[:3, :3] /= scene.unit_settings.scale_length
    return matrix[:3]


def write_shapes(path: Path, cache: Cache, index: int, have: list[int], local: Any) -> None:
    """A PC2 file: a header, and the vertices of each frame from the first on."""
    span = range(have[0], have[-1] + 1)
    count = len(cache.read_solid(index, have[0])[1])
    with write_aside(path) as file:
        file.write(struct.pack("<12siiffi", b"POINTCACHE2\0", 1, count, have[0], 1.0, len(span)))
        for number in span:
            nearest = max(frame for frame in have if frame <= number)
            vertices = cache.read_solid(index, nearest)[1]
            if len(vertices) != count:
                raise CacheError(f"{path}: body {index} changes its number of vertices.")
            placed = vertices.astype(np.float64) @ local[:, :3].T + local[:, 3]
            file.write(placed.astype("<f4").tobytes())
