"""What several test files set up and do. Imported in Blender."""

from __future__ import annotations

import time
from typing import Any


def bent_arm(bpy: Any, length: float, width: float, last: int, angle: float) -> Any:
    """A bar of two bones from the origin upwards; the upper one turns by `angle` up to `last`."""
    bpy.ops.mesh.primitive_cube_add(size=1.0, location=(0, 0, 0.5 * length))
    bar = bpy.context.object
    bar.name, bar.scale = "Arm", (width, width, length)
    bpy.ops.object.transform_apply(location=True, rotation=True, scale=True)
    bpy.ops.object.armature_add(radius=0.5 * length)
    rig = bpy.context.object
    bpy.ops.object.mode_set(mode="EDIT")
    lower = rig.data.edit_bones[0]
    upper = rig.data.edit_bones.new("upper")
    upper.head, upper.tail, upper.parent = lower.tail, (0, 0, length), lower
    bpy.ops.object.mode_set(mode="OBJECT")
    bar.modifiers.new("Armature", "ARMATURE").object = rig
    for name, above in (("Bone", False), ("upper", True)):
        group = bar.vertex_groups.new(name=name)
        ends = [v.index for v in bar.data.vertices if (v.co.z > 0.5 * length) == above]
        group.add(ends, 1.0, "REPLACE")
    bone = rig.pose.bones["upper"]
    bone.rotation_mode = "XYZ"
    for frame, turned in ((1, 0.0), (last, angle)):
        bone.rotation_euler = (turned, 0, 0)
        bone.keyframe_insert("rotation_euler", frame=frame)
    bar.runnel.role = "COLLIDER"
    return bar


def begin(bpy: Any, mode: str = "AUTO", frame: int | None = None) -> Any:
    """A bake up to the start of its process."""
    from blender_addon import bake

    task = bake.Task(bpy.context.scene.runnel.active_system(), mode, frame)
    task.begin(bpy.context)
    while task.exporting:
        task.read(bpy.context)
    return task


def until(task: Any, happened: Any, seconds: float = 120.0) -> float:
    """Poll as the window does until something happened; returns how long that took [s]."""
    start = time.monotonic()
    while not happened():
        assert not task.ended or task.winding_up or task.job.status == 0 or happened(), task.errors
        assert time.monotonic() - start < seconds
        task.poll()
        time.sleep(0.01)
    return time.monotonic() - start


def curves(action: Any) -> list[Any]:
    """Animation curves of an action, in any version."""
    from blender_addon import animation

    return animation.curves(action)
