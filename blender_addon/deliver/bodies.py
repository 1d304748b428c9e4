# SPDX-FileCopyrightText: 2026 The Runnel authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Motion of rigid and soft bodies, back on the objects they came from.

A rigid body moves by its delta transform, so its own location and rotation stay the artist's: they
are where the next bake starts. A soft body deforms by a Mesh Cache modifier that reads a PC2 file
beside the cache; Blender plays that without us, motion blur included.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import bpy
import numpy as np
from mathutils import Matrix, Quaternion, Vector

from runnel.cache import Cache, write_aside
from runnel.errors import CacheError
from runnel.motion import Motion
from runnel.params import Keyframe

from ..animation import KEYED, curves, is_simulated
from .objects import metres_per_unit

MODIFIER = "Runnel"
MARK = "runnel_body"  # on objects that playback moves
NAME = "runnel_body_name"  # the name it has in the cache, should the object be renamed
Local = Callable[[int], Any]  # frame -> rows that lead into the object's own space
_HEADER = struct.Struct("<12siiffi")  # of PC2: mark, version, points, first frame, step, samples


_resting: list[str] = []  # not empty: bodies stay where they are, whatever the frame


def follow(system: Any, scene: bpy.types.Scene, cache: Cache, time: float) -> None:
    """Put all bodies where they are at a time [frames], between two frames as well."""
    solids = {} if _resting else _solids(cache, "rigid")
    if not solids:
        return
    poses, table = _poses(cache, time), _by_name(system, scene)
    for name, (_, item) in solids.items():
        moved = table.get(name)
        if moved is not None and name in poses and KEYED not in moved:
            _move(moved, scene, _own(item, time), poses[name])
            _mark(moved, system, name)
    _free_copies(system, scene, table, cache)


def _solids(cache: Cache, body: str) -> dict[str, tuple[int, dict[str, Any]]]:
    """Number and settings of the solids of a kind, by their names in the cache."""
    return {
        str(item.get("name")): (index, item)
        for index, item in enumerate(cache.scene.get("collider", ()))
        if item.get("body") == body
    }


def _by_name(system: Any, scene: bpy.types.Scene) -> dict[str, bpy.types.Object]:
    """Objects by the names that they have in the cache, or had when they were shown first."""
    named = getattr(system, "object_names", None)
    table = named(scene) if named else {item.name: item for item in scene.objects}
    for item in scene.objects:
        if item.get(MARK) == system.uid and NAME in item:
            table.setdefault(item[NAME], item)  # of a renamed body and its copies the first
    return table


def _mark(moved: bpy.types.Object, system: Any, name: str) -> None:
    if (moved.get(MARK), moved.get(NAME)) != (system.uid, name):
        moved[MARK], moved[NAME] = system.uid, name


def _free_copies(system: Any, scene: bpy.types.Scene, table: Any, cache: Cache) -> None:
    """A duplicate of a body is no part of the cache: it stands where the artist put it."""
    names = {*_solids(cache, "rigid"), *_solids(cache, "deformable")}
    ours = {table[name] for name in names if name in table}
    for item in scene.objects:
        if item.get(MARK) == system.uid and item not in ours and KEYED not in item:
            _let_go(item)


def _motion(item: dict[str, Any]) -> Motion:
    """What a body's object does by its own keyframes; its times are frames."""
    zero = (0.0, 0.0, 0.0)
    keys = tuple(Keyframe(**key) for key in item.get("motion", ()))
    place, turn = item.get("position", zero), item.get("rotation", zero)
    placed = SimpleNamespace(position=place, rotation=turn, scale=1.0, motion=keys)
    return Motion(placed, fps=1.0, first_frame=0.0)


def _own(item: dict[str, Any], time: float) -> tuple[Quaternion, Vector]:
    """Where a body would be at a time [frames] by its own keyframes: its object is there."""
    pose = _motion(item).pose(time)
    return Matrix(pose.rotation.tolist()).to_quaternion(), Vector(pose.translation)


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
    own: tuple[Quaternion, Vector],
    now: tuple[Quaternion, Vector],
) -> None:
    """Set the delta transform that takes the object from its own place to where the body is."""
    turn = now[0] @ own[0].inverted()
    shift = (now[1] - turn @ own[1]) / metres_per_unit(scene)
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


def to_keyframes(system: Any, scene: bpy.types.Scene, cache: Cache) -> int:
    """Write the motion of rigid bodies as keyframes of their delta transforms; how many moved."""
    table = _by_name(system, scene)
    moved = [table[name] for name in _solids(cache, "rigid") if name in table]
    current, subframe = scene.frame_current, scene.frame_subframe
    for item in moved:
        item.pop(KEYED, None)
    for frame in cache.frames() if moved else ():
        scene.frame_set(frame)  # objects and their parents may have keyframes of their own
        follow(system, scene, cache, frame)
        for item in moved:
            turn = "quaternion" if item.rotation_mode == "QUATERNION" else "euler"
            item.keyframe_insert("delta_location", frame=frame, group="Runnel")
            item.keyframe_insert(f"delta_rotation_{turn}", frame=frame, group="Runnel")
    for item in moved:
        item[KEYED] = system.uid
    scene.frame_set(current, subframe=subframe)
    return len(moved)


def release(uid: str) -> None:
    """Let go of all bodies of a system: they are where the artist put them."""
    _written.pop(uid, None)
    for item in bpy.data.objects:
        if item.get(MARK) == uid:
            _let_go(item)


def _let_go(item: bpy.types.Object) -> None:
    for mark in (MARK, NAME):
        item.pop(mark, None)
    _set(item, Vector((0.0, 0.0, 0.0)), Quaternion())
    if _modifier(item) is not None:
        item.modifiers.remove(_modifier(item))


@contextmanager
def at_rest(scene: bpy.types.Scene) -> Iterator[None]:
    """Bodies where the artist put them, for as long as the block lasts."""
    kept = {item.name: _take(item) for item in scene.objects if MARK in item or KEYED in item}
    soft = [item.name for item in scene.objects if _modifier(item) is not None]
    for name in soft:
        _show_modifier(scene.objects[name], False)
    _resting.append(scene.name)
    try:
        yield
    finally:
        _resting.pop()
        for name, before in kept.items():
            _give_back(scene.objects[name], before)
        for name in soft:
            _show_modifier(scene.objects[name], True)


def _take(item: bpy.types.Object) -> tuple[Any, ...]:
    """Put a body to rest; returns what moved it."""
    before = (item.delta_location.copy(), item.delta_rotation_quaternion.copy(),
              item.delta_rotation_euler.copy())  # fmt: skip
    _mute_written(item, True)
    _set(item, Vector((0.0, 0.0, 0.0)), Quaternion())
    return before


def _give_back(item: bpy.types.Object, before: tuple[Any, ...]) -> None:
    item.delta_location, item.delta_rotation_quaternion, item.delta_rotation_euler = before
    _mute_written(item, False)


def _mute_written(item: bpy.types.Object, on: bool) -> None:
    """The motion that became keyframes, beside keyframes of the artist's own."""
    data = item.animation_data
    for curve in curves(data.action) if data is not None else ():
        if is_simulated(item, curve):
            curve.mute = on


# --- soft bodies ----------------------------------------------------------------------------------


def _modifier(item: bpy.types.Object) -> Any:
    found = item.modifiers.get(MODIFIER)
    return found if found is not None and found.type == "MESH_CACHE" else None


def _show_modifier(item: bpy.types.Object, on: bool) -> None:
    modifier = _modifier(item)
    modifier.show_viewport = modifier.show_render = on


_written: dict[str, tuple[Any, ...]] = {}  # by system: what its shapes were made from


def deform(system: Any, scene: bpy.types.Scene, cache: Cache, anew: bool) -> None:
    """Give soft bodies and cloth their shapes; writes what the modifier reads where it is old."""
    wanted = _solids(cache, "deformable")
    last = cache.last_frame
    state = (str(cache.directory), last, last and tuple(cache.entry(last).checksums.values()))
    if not wanted or _resting or (not anew and _written.get(system.uid) == state):
        return
    bpy.context.view_layer.update()  # objects may be new
    table = _by_name(system, scene)
    for name, (index, part) in wanted.items():
        local = _to_local(table[name], scene, _motion(part)) if name in table else None
        if local is not None and _deform(table[name], cache, index, local, anew):
            _mark(table[name], system, name)
    _free_copies(system, scene, table, cache)
    _written[system.uid] = state


def _deform(item: bpy.types.Object, cache: Cache, index: int, local: Local, anew: bool) -> bool:
    """Returns whether there are shapes for it."""
    path = cache.directory / "shapes" / f"solid_{index:03d}.pc2"
    have = [number for number in cache.frames() if cache.solid_path(index, number).exists()]
    if not have:
        return False
    write_shapes(path, cache, index, have, local, anew)
    modifier = _modifier(item) or item.modifiers.new(MODIFIER, "MESH_CACHE")
    modifier.cache_format = "PC2"
    modifier.filepath = _relative(path)
    modifier.frame_start = have[0]
    modifier.interpolation = "LINEAR"
    return True


def _relative(path: Path) -> str:
    """Beside the .blend where that can be, so that both can be moved."""
    try:
        return str(bpy.path.relpath(str(path))) if bpy.data.filepath else str(path)
    except ValueError:  # another drive
        return str(path)


def _to_local(item: bpy.types.Object, scene: bpy.types.Scene, own: Motion) -> Local:
    """From metres in the world to the object's own space at a frame, as rows of a 3 x 4 matrix. The
    object may move by itself, which the simulation leaves out."""
    metres = metres_per_unit(scene)
    now = _matrix(own, scene.frame_current + scene.frame_subframe, metres)
    rest = np.array(item.matrix_world.inverted_safe()) @ now

    def local(frame: int) -> Any:
        rows = (rest @ np.linalg.inv(_matrix(own, frame, metres)))[:3]
        rows[:, :3] /= metres
        return rows

    return local


def _matrix(own: Motion, time: float, metres: float) -> Any:
    pose, found = own.pose(time), np.eye(4)
    found[:3, :3], found[:3, 3] = pose.rotation, pose.translation / metres
    return found


def write_shapes(
    path: Path, cache: Cache, index: int, have: list[int], local: Local, anew: bool
) -> None:
    """A PC2 file: a header, and the vertices of each frame. Frames of a bake that goes on are added
    at its end, and counted in the header afterwards, so that it can be read all the time."""
    first, last = have[0], have[-1]
    count = len(cache.read_solid(index, first)[1])
    done = 0 if anew else _samples(path, cache.solid_path(index, first), count, first)

    def shape(number: int) -> bytes:
        nearest = max(frame for frame in have if frame <= number)
        vertices = cache.read_solid(index, nearest)[1]
        if len(vertices) != count:
            raise CacheError(f"{path}: body {index} changes its number of vertices.")
        rows = local(number)
        placed = vertices.astype(np.float64) @ rows[:, :3].T + rows[:, 3]
        return bytes(placed.astype("<f4").tobytes())

    header = _HEADER.pack(b"POINTCACHE2\0", 1, count, first, 1.0, last - first + 1)
    if not done:
        with write_aside(path) as file:
            file.write(header)
            file.writelines(shape(number) for number in range(first, last + 1))
    elif first + done <= last:
        with open(path, "r+b") as file:
            file.seek(_HEADER.size + done * count * 12)
            file.writelines(shape(number) for number in range(first + done, last + 1))
            file.flush()
            file.seek(0)
            file.write(header)


def _samples(path: Path, source: Path, count: int, first: int) -> int:
    """Frames that a file holds and that are still those of the cache."""
    try:
        if path.stat().st_mtime_ns < source.stat().st_mtime_ns:
            return 0  # baked again
        with open(path, "rb") as file:
            mark, _, points, start, _, samples = _HEADER.unpack(file.read(_HEADER.size))
    except (OSError, struct.error):
        return 0
    same = mark == b"POINTCACHE2\0" and points == count and start == first
    return int(samples) if same else 0
