# SPDX-License-Identifier: GPL-3.0-or-later
"""Quick Liquid: one click from selected objects to something that can be baked."""

from __future__ import annotations

from typing import Any

import bpy
import numpy as np

from runnel.meshes import Mesh

from . import properties, roles
from .meshes import joined, read_piece


class RUNNEL_OT_quick_liquid(bpy.types.Operator):
    """Make the selected objects liquid, in a box; without a selection, a cube at the cursor"""

    bl_idname = "runnel.quick_liquid"
    bl_label = "Quick Liquid"
    bl_options = {"REGISTER", "UNDO"}  # noqa: RUF012

    particles: bpy.props.IntProperty(
        name="Particles", default=20_000, min=100, soft_max=1_000_000,
        description="How fine the liquid is, about",
    )  # fmt: skip
    box: bpy.props.BoolProperty(
        name="Box", default=True, description="Put walls around, twice as wide as the selection"
    )

    @classmethod
    def poll(cls, context: bpy.types.Context) -> bool:
        return context.mode == "OBJECT"

    def execute(self, context: bpy.types.Context) -> set[str]:
        chosen = [obj for obj in context.selected_objects if obj.type == "MESH"]
        if not chosen:
            bpy.ops.mesh.primitive_cube_add(location=context.scene.cursor.location)
            context.object.name = "Liquid"
            chosen = [context.object]
        system = context.scene.runnel.active_system() or properties.add_system(context.scene)
        fresh = not any(obj.runnel.role in roles.SOURCES for obj in roles.members(system))
        depsgraph = context.evaluated_depsgraph_get()
        volume, corners = 0.0, []
        for obj in chosen:
            obj.runnel.role, obj.runnel.system = "FLUID", system.uid
            obj.runnel.fluid = system.fluids[0].name
            world = _world(obj, depsgraph)
            if world is None:
                continue
            volume += abs(Mesh(world.vertices, world.triangles).volume())
            corners += [world.vertices.min(axis=0), world.vertices.max(axis=0)]
        if volume <= 0 or not corners:
            self.report({"ERROR"}, "The selection has no volume.")
            return {"CANCELLED"}
        if fresh:
            system.spacing = float(f"{(volume / self.particles) ** (1 / 3):.2g}")
        if self.box and not _has_domain(system):
            _add_box(context, system, np.min(corners, axis=0), np.max(corners, axis=0))
        for obj in context.selected_objects:
            obj.select_set(False)
        for obj in chosen:
            obj.select_set(True)
            obj.display_type = "WIRE"  # the liquid shall be seen, not what it started as
            obj.hide_render = True
        context.view_layer.objects.active = chosen[0]
        return {"FINISHED"}


def _world(obj: bpy.types.Object, depsgraph: Any) -> Any:
    piece = read_piece(
        ("own",), obj.evaluated_get(depsgraph), obj.matrix_world, (), uv=False, known=None
    )
    return None if piece is None else joined([piece])


def _has_domain(system: Any) -> bool:
    return any(obj.runnel.role == "DOMAIN" and system.owns(obj) for obj in system.id_data.objects)


def _add_box(context: bpy.types.Context, system: Any, low: Any, high: Any) -> None:
    """Walls half a size away; the floor at 0 if the liquid starts above it, else below it."""
    size = high - low
    room = 0.5 * float(size.max())
    floor = 0.0 if 0.0 <= low[2] <= 2 * room else low[2] - room
    least = np.array([low[0] - room, low[1] - room, floor])
    most = np.array([high[0] + room, high[1] + room, high[2] + room])
    bpy.ops.mesh.primitive_cube_add(size=1.0, location=tuple(0.5 * (least + most)))
    box = context.object
    box.name, box.scale = f"{system.name} Box", tuple(most - least)
    box.display_type, box.hide_render = "WIRE", True
    box.runnel.role, box.runnel.system = "DOMAIN", system.uid
    box.runnel.domain.mode = "close"


CLASSES = (RUNNEL_OT_quick_liquid,)
