# SPDX-License-Identifier: GPL-3.0-or-later
"""What the shape of an object hangs on, looked at without evaluating it: data, modifiers, nodes.

For the look that marks a take as stale. What animation changes is left out here: its curves are
looked at by themselves.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import bpy
import numpy as np

from . import animation, roles

OURS = "Runnel"  # modifier of playback
# Blender keeps these in one place.
_ONE_NUMBER = {"field.strength", "field.linear_drag", "field.guide_minimum"}
_PLAIN = {"BOOLEAN", "INT", "FLOAT", "ENUM", "STRING"}
# How things look in editors: unfolding a panel changes no shape.
_LOOKS = ("open_", "active_", "show_expanded", "show_group", "show_manage", "show_in_editmode",
          "show_on_cage", "show_render", "is_active", "use_pin_to_last", "persistent_uid",
          "bake_", "name")  # fmt: skip
# Names under which modifiers keep their settings; what else they hold, playing may change.
_PARTS = ("settings", "collision_settings", "effector_weights", "texture")
_COORDINATES = {  # type of data -> lists of points, and the name of their places
    bpy.types.Mesh: (("vertices", "co", 3),),
    bpy.types.Lattice: (("points", "co_deform", 3),),
    bpy.types.Spline: (
        ("points", "co", 4),
        ("bezier_points", "co", 3),
        ("bezier_points", "handle_left", 3),
        ("bezier_points", "handle_right", 3),
    ),
}


def of(obj: bpy.types.Object) -> list[Any]:
    """An object's data before modifiers, its modifiers, and how physics treats it."""
    if roles.MADE_HERE in obj:  # shows a cache, at whatever frame
        return []
    played = played_of(obj)
    found: list[Any] = [_modifier(m, played) for m in obj.modifiers if m.name != OURS]
    found.append([plain(obj.rigid_body, played), plain(obj.rigid_body_constraint, played)])
    return [*found, *_data(obj.data)]


def _data(data: Any) -> Iterator[Any]:
    if isinstance(data, bpy.types.Mesh):
        yield [len(data.polygons), *_places(data)]
    elif isinstance(data, bpy.types.Lattice):
        yield [plain(data, played_of(data)), *_places(data)]
    elif isinstance(data, bpy.types.Curve):  # texts and surfaces too
        yield plain(data, played_of(data))
        yield [[*_places(spline), plain(spline, set())] for spline in data.splines]
    elif isinstance(data, bpy.types.MetaBall):
        yield plain(data, played_of(data))
        yield [plain(element, set()) for element in data.elements]
    elif isinstance(data, bpy.types.Armature):
        yield [[bone.name, [round(v, 5) for row in bone.matrix_local for v in row]]
               for bone in data.bones]  # fmt: skip


def _places(data: Any) -> list[str]:
    """Digests of where points are."""
    kind = next(kind for kind in _COORDINATES if isinstance(data, kind))
    found = []
    for name, attribute, width in _COORDINATES[kind]:
        points = getattr(data, name)
        values = np.empty(width * len(points), np.float32)
        points.foreach_get(attribute, values)
        found.append(hashlib.sha256(values.tobytes()).hexdigest())
    return found


def _modifier(modifier: Any, played: set[str]) -> list[Any]:
    """Settings of a modifier and of what it runs: cloth and the like, particles, nodes."""
    found: list[Any] = [plain(modifier, played), *_parts(modifier, played)]
    if modifier.type == "PARTICLE_SYSTEM":
        system = modifier.particle_system
        found += [system.seed, plain(system.settings, played_of(system.settings))]
    if modifier.type == "NODES":
        inputs = animation.node_inputs(modifier)
        found += [[path, text(value)] for path, value in inputs.items() if path not in played]
    return found


def _parts(item: Any, played: set[str]) -> Iterator[Any]:
    for name in _PARTS:
        part = getattr(item, name, None)
        if not isinstance(part, bpy.types.bpy_struct):  # weights of effectors have numbers
            continue
        yield plain(part, played_of(part) if isinstance(part, bpy.types.ID) else played)
        yield from _parts(part, played)


def nodes(tree: bpy.types.NodeTree) -> list[Any]:
    """What a group of nodes does: its nodes, their settings and unlinked inputs, its links."""
    common, played = bpy.types.Node.bl_rna.properties, played_of(tree)
    found: list[Any] = []
    for node in tree.nodes:
        own = [p for p in node.bl_rna.properties if p.identifier not in common and _counts(p)]
        found.append([node.bl_idname, node.name, node.mute])
        found.append([f"{p.identifier}={_value(node, p)}" for p in own])
        # Values and colours are kept at the output of their node.
        sockets = [s for s in node.inputs if not s.is_linked] if node.inputs else node.outputs
        found.append(
            [
                text(getattr(socket, "default_value", None))
                for socket in sockets
                if f"{socket.path_from_id()}.default_value" not in played
            ]
        )
    found += [
        [link.from_node.name, link.from_socket.identifier, link.to_node.name,
         link.to_socket.identifier, link.is_muted]
        for link in tree.links
    ]  # fmt: skip
    return found


def played_of(item: Any) -> set[str]:
    """Paths of what keyframes and drivers change with the frame."""
    data = item.animation_data
    found = (*animation.curves(data.action), *data.drivers) if data is not None else ()
    paths = {curve.data_path for curve in found}
    return paths | _ONE_NUMBER if paths & _ONE_NUMBER else paths


def plain(item: Any, played: set[str]) -> list[str]:
    """Simple settings of something that no animation changes."""
    if item is None:
        return []
    start = "" if isinstance(item, bpy.types.ID) else f"{item.path_from_id()}."
    return [
        f"{p.identifier}={_value(item, p)}"
        for p in item.bl_rna.properties
        if _counts(p) and f"{start}{p.identifier}" not in played
    ]


def _counts(prop: Any) -> bool:
    """Whether a setting may change a shape, and is simple enough to compare."""
    shown = not prop.is_hidden and not prop.is_readonly
    return prop.type in _PLAIN and shown and not prop.identifier.startswith(_LOOKS)


def _value(item: Any, prop: Any) -> str:
    return text(getattr(item, prop.identifier, None))


def text(value: Any) -> str:
    """A setting in words; of other datablocks their names."""
    if isinstance(value, bpy.types.ID):
        return f"{type(value).__name__} {value.name}"
    if isinstance(value, float):
        return f"{value:.7g}"
    if hasattr(value, "__len__") and not isinstance(value, str | set | frozenset):
        return str([text(part) for part in value])
    return str(sorted(value)) if isinstance(value, set | frozenset) else str(value)
