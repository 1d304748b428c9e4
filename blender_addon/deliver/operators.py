# SPDX-FileCopyrightText: 2026 The Runnel authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Buttons of playback."""

from __future__ import annotations

from typing import Any

import bpy

from runnel.errors import RunnelError

from . import bodies, frames, meshing, playback


class _OfSystem:
    """Works on the system of a uid; on all of the scene without one."""

    system: bpy.props.StringProperty(options={"HIDDEN", "SKIP_SAVE"})

    def execute(self, context: bpy.types.Context) -> set[str]:
        chosen = [s for s in playback.systems(context.scene) if self.system in ("", s.uid)]
        try:
            for system in chosen:
                self.work(context, system)
        except RunnelError as error:
            self.report({"ERROR"}, str(error))
            return {"CANCELLED"}
        return {"FINISHED"} if chosen else {"CANCELLED"}


class RUNNEL_OT_show_cache(_OfSystem, bpy.types.Operator):
    """Show the cache at the current frame, and make the objects for it where they are absent"""

    bl_idname = "runnel.show_cache"
    bl_label = "Show"
    bl_options = {"REGISTER", "UNDO"}  # noqa: RUF012

    def work(self, context: bpy.types.Context, system: Any) -> None:
        system.display.enabled = True
        playback.show(system, context.scene)


class RUNNEL_OT_hide_cache(_OfSystem, bpy.types.Operator):
    """Remove the objects that show the cache; the cache stays"""

    bl_idname = "runnel.hide_cache"
    bl_label = "Remove"
    bl_options = {"REGISTER", "UNDO"}  # noqa: RUF012

    def work(self, context: bpy.types.Context, system: Any) -> None:
        playback.hide(system)


class RUNNEL_OT_make_surface(_OfSystem, bpy.types.Operator):
    """Make surface meshes of all frames that have none, in a process of its own"""

    bl_idname = "runnel.make_surface"
    bl_label = "Make Surface"

    def work(self, context: bpy.types.Context, system: Any) -> None:
        job = meshing.start(system)
        if job is None:
            meshing.reveal(system, context.scene)
        elif bpy.app.background:
            job.process.wait()
            meshing.look()
            if system.display.failed:
                raise RunnelError(system.display.message)
        elif not bpy.app.timers.is_registered(meshing.look):
            bpy.app.timers.register(meshing.look)


class RUNNEL_OT_stop_surface(_OfSystem, bpy.types.Operator):
    """Stop making surfaces; those that are finished stay"""

    bl_idname = "runnel.stop_surface"
    bl_label = "Stop"

    def work(self, context: bpy.types.Context, system: Any) -> None:
        meshing.stop(system.uid)
        system.display.tell("")


class RUNNEL_OT_motion_to_keyframes(_OfSystem, bpy.types.Operator):
    """Turn the motion of rigid bodies into keyframes, which stay without the cache"""

    bl_idname = "runnel.motion_to_keyframes"
    bl_label = "Motion to Keyframes"
    bl_options = {"REGISTER", "UNDO"}  # noqa: RUF012

    def work(self, context: bpy.types.Context, system: Any) -> None:
        cache = frames.open_cache(system.cache_path())
        moved = bodies.to_keyframes(system, context.scene, cache)
        playback.refresh(context.scene)
        self.report({"INFO"}, f"{moved} bodies, {len(cache.frames())} frames")


CLASSES = (
    RUNNEL_OT_show_cache,
    RUNNEL_OT_hide_cache,
    RUNNEL_OT_make_surface,
    RUNNEL_OT_stop_surface,
    RUNNEL_OT_motion_to_keyframes,
)
