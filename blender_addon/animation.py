# SPDX-License-Identifier: GPL-3.0-or-later
"""What moves objects, looked at without playing it: keyframes, drivers, and what else they follow.

For the look that marks a take as stale; what objects really do is read frame by frame.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

import bpy
import numpy as np

_POINTS = {"co": 2, "handle_left": 2, "handle_right": 2, "interpolation": 1}
KEYED = "runnel_keyed"  # on objects whose simulated motion became keyframes: delta transforms
_BASIS = ("location", "rotation_euler", "rotation_quaternion", "rotation_axis_angle", "scale")


def curves(action: Any) -> list[Any]:
    """Curves of an action: in layers since 4.4, and nowhere else since 5.0."""
    if getattr(action, "layers", None):
        strips = [strip for layer in action.layers for strip in layer.strips]
        return [curve for strip in strips for bag in strip.channelbags for curve in bag.fcurves]
    return list(getattr(action, "fcurves", ()))


def is_simulated(item: bpy.types.ID, curve: Any) -> bool:
    """Whether a curve is the motion out of a cache, not the artist's own."""
    return KEYED in item and curve.data_path.startswith("delta_")


def followed(objects: Iterable[bpy.types.Object]) -> list[bpy.types.ID]:
    """Objects and what their shape and place hang on, each once: parents, targets, data, keys."""
    found: dict[str, bpy.types.ID] = {}
    waiting: list[Any] = list(objects)
    while waiting:
        item = waiting.pop()
        if item is None or (key := repr(item)) in found:
            continue
        found[key] = item
        if isinstance(item, bpy.types.Object):
            waiting += _leads_to(item)
        elif isinstance(item, bpy.types.NodeTree):
            waiting += _in_nodes(item)
        waiting.append(getattr(item, "shape_keys", None))
    return list(found.values())


def _leads_to(obj: bpy.types.Object) -> Iterator[Any]:
    yield obj.parent
    yield obj.data
    if obj.instance_collection is not None:
        yield from obj.instance_collection.all_objects
    bones = obj.pose.bones if obj.pose is not None else ()
    for holder in (obj, *bones):
        for constraint in holder.constraints:
            yield from _objects_in(constraint)
    for modifier in obj.modifiers:
        yield from _objects_in(modifier)


def _objects_in(item: Any) -> Iterator[Any]:
    """Objects and groups of nodes that a modifier or constraint names, or has as an input."""
    pointers = [p.identifier for p in item.bl_rna.properties if p.type == "POINTER"]
    values = [getattr(item, name, None) for name in pointers]
    if item.bl_rna.identifier == "NodesModifier":
        values += node_inputs(item).values()
    yield from _leading(values)


def _leading(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, bpy.types.Object | bpy.types.NodeTree):
            yield value
        elif isinstance(value, bpy.types.Collection):
            yield from value.all_objects


def node_inputs(modifier: Any) -> dict[str, Any]:
    """Inputs of a modifier of nodes by their paths; they have types of their own since 5.2."""
    start = modifier.path_from_id()
    held = getattr(modifier, "properties", None)
    if held is None:
        return {f'{start}["{key}"]': modifier[key] for key in modifier.keys()}
    names = [p.identifier for p in held.inputs.bl_rna.properties if p.type == "POINTER"]
    found = {}
    for name in names:
        socket = getattr(held.inputs, name)
        for part in ("value", "type", "attribute_name"):
            if hasattr(socket, part):
                found[f"{start}.properties.inputs.{name}.{part}"] = getattr(socket, part)
    return found


def _in_nodes(tree: bpy.types.NodeTree) -> Iterator[Any]:
    """Objects and other groups that a group of nodes names."""
    for node in tree.nodes:
        values = [getattr(socket, "default_value", None) for socket in node.inputs]
        yield from _leading([*values, getattr(node, "node_tree", None)])


def state(item: bpy.types.ID) -> list[Any]:
    """What decides how something moves: curves, drivers, and the place of what has none."""
    data, parts, played = item.animation_data, [item.name], []
    if data is not None:
        played = [curve for curve in curves(data.action) if not is_simulated(item, curve)]
    if data is not None and (played or data.drivers or data.nla_tracks):
        parts += [str(getattr(data, "action_slot_handle", "")), data.use_nla]
        parts += [_curve(curve) for curve in played]
        parts += [[_curve(curve), _driver(curve.driver)] for curve in data.drivers]
        parts += [_strip(strip) for track in data.nla_tracks for strip in track.strips]
    moved = {curve.data_path for curve in (*played, *(data.drivers if data else ()))}
    parts += list(_rest(item, moved))
    return parts


def _rest(item: bpy.types.ID, moved: set[str]) -> Iterator[Any]:
    """Values that nothing plays: those it does change with the frame."""
    if isinstance(item, bpy.types.Object):
        yield from (_rounded(getattr(item, name)) for name in _BASIS if name not in moved)
        yield [_rounded(v) for v in item.matrix_parent_inverse]
        for bone in item.pose.bones if item.pose is not None else ():
            path = bone.path_from_id()
            yield from (
                _rounded(getattr(bone, name)) for name in _BASIS if f"{path}.{name}" not in moved
            )
    elif isinstance(item, bpy.types.Key):
        for block in item.key_blocks:
            if f"{block.path_from_id()}.value" not in moved:
                yield [block.name, round(block.value, 5)]


def _rounded(values: Any) -> list[float]:
    return [round(v, 5) for v in values]


def _curve(curve: Any) -> list[Any]:
    points = curve.keyframe_points
    found: list[Any] = [curve.data_path, curve.array_index, curve.mute, curve.extrapolation]
    digest = hashlib.sha256()
    for name, width in _POINTS.items():
        values = np.empty(width * len(points), np.float32 if width == 2 else np.int32)
        points.foreach_get(name, values)
        digest.update(values.tobytes())
    return [*found, digest.hexdigest()]


def _driver(driver: Any) -> list[Any]:
    targets = [
        [variable.type, target.id.name if target.id else "", target.data_path, target.bone_target]
        for variable in driver.variables
        for target in variable.targets
    ]
    return [driver.type, driver.expression, targets]


def _strip(strip: Any) -> list[Any]:
    return [
        *(_rounded((strip.frame_start, strip.frame_end, strip.scale, strip.repeat))),
        strip.mute,
        [_curve(curve) for curve in curves(strip.action)],
    ]
