"""Runs inside of a Blender with a window: prepares a shot, tells its state, takes pictures.

The test outside works the mouse and the keyboard. `state.json` says what it would see; a file
`NAME.shoot` in the folder asks for the picture NAME.png.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import bpy

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(os.environ["RUNNEL_WINDOW_FOLDER"])
sys.path[:0] = [str(ROOT), str(ROOT / "core")]

import blender_addon  # noqa: E402
from blender_addon import bake, operators, panels, preflight  # noqa: E402
from blender_addon.deliver import playback  # noqa: E402

# What of the waiting is the add-on's [s]: what it computed at most without a break, which is the
# same on a busy machine, and by what; and from when to when it dealt with Esc.
OURS: dict[str, Any] = {"held": 0.0, "by": "", "esc": None}


def watch() -> None:
    """Time all that Blender's main thread runs of the add-on while a bake goes on."""
    inner = operators.RUNNEL_OT_bake.modal

    def modal(self: Any, context: Any, event: Any) -> Any:
        start = time.monotonic()
        result = timed(inner)(self, context, event)
        if event.type == "ESC" and event.value == "PRESS":
            OURS["esc"] = [start, time.monotonic()]
        return result

    operators.RUNNEL_OT_bake.modal = modal
    for module, name in ((bake, "_tick"), (preflight, "_tick"), (playback, "refresh")):
        setattr(module, name, timed(getattr(module, name)))
    for cls in panels.CLASSES:
        if hasattr(cls, "draw"):
            cls.draw = two_arguments(timed(cls.draw))
    panels.draw_status = two_arguments(timed(panels.draw_status))


def timed(inner: Any) -> Any:
    def outer(*arguments: Any, **named: Any) -> Any:
        start = time.thread_time()
        try:
            return inner(*arguments, **named)
        finally:
            took = time.thread_time() - start
            if took > OURS["held"]:
                OURS["held"], OURS["by"] = took, inner.__qualname__

    return outer


def two_arguments(inner: Any) -> Any:
    """Blender counts the arguments of what it calls."""

    def draw(self: Any, context: Any) -> None:
        inner(self, context)

    return draw


def set_the_table() -> None:
    """A tank with a ball of water above a block, in a file that is saved."""
    for obj in list(bpy.data.objects):
        if obj.type == "MESH":
            bpy.data.objects.remove(obj)
    bpy.ops.mesh.primitive_cube_add(size=0.3, location=(-0.05, 0, 0.15))
    bpy.context.object.name = "Block"
    bpy.ops.mesh.primitive_cube_add(size=0.7, location=(-0.4, 0, 0.75))
    bpy.context.object.name = "Water"
    for area in bpy.context.window.screen.areas:
        if area.type == "VIEW_3D":
            area.spaces.active.show_region_ui = True
            view = area.spaces.active.region_3d
            view.view_distance, view.view_location = 4.0, (0.2, 0.0, 0.5)
            view.view_rotation = (0.78, 0.48, 0.21, 0.34)
    last = bpy.context.window_manager.operator_properties_last("runnel.quick_liquid")
    last.particles = int(os.environ.get("RUNNEL_WINDOW_PARTICLES", "20000"))
    scene = bpy.context.scene
    scene.frame_end = int(os.environ.get("RUNNEL_WINDOW_FRAMES", "40"))
    bpy.ops.wm.save_as_mainfile(filepath=str(FOLDER / "shot.blend"))


def region(kind: str, region_type: str) -> list[int]:
    """Left, bottom, width, height in the window."""
    for area in bpy.context.window_manager.windows[0].screen.areas:
        if area.type == kind:
            for part in area.regions:
                if part.type == region_type:
                    return [part.x, part.y, part.width, part.height]
    return []


def tell() -> float:
    window = bpy.context.window_manager.windows[0]
    systems = []
    for system in window.scene.runnel.systems:
        task = bake.task(system.uid)
        check = preflight.of(system.uid)
        job = task.job if task else None
        systems.append(
            {
                "name": system.name,
                "exporting": bool(task and task.exporting),
                "running": bool(job and job.running),
                "ended": bool(task and task.ended),
                "winding_up": bool(task and task.winding_up),
                "stage": job.progress.stage if job else "",
                "share": task.share if task else 0.0,
                "particles": job.progress.particles if job else None,
                "frames": job.frames_done if job else 0,
                "status": job.status if job else None,
                "pid": job.pid if job else None,
                "errors": task.errors if task else [],
                "shown": system.display.points.name if system.display.points else "",
                "checked": bool(check and not check.running),
                "issues": [issue.text for issue in check.issues] if check else [],
            }
        )
    state = {
        "size": [window.width, window.height],
        "sidebar": region("VIEW_3D", "UI"),
        "status_bar": region("STATUSBAR", "HEADER"),
        "frame": window.scene.frame_current,
        "ours": OURS,
        "active": window.view_layer.objects.active.name,
        "systems": systems,
    }
    aside = FOLDER / "state.part"
    aside.write_text(json.dumps(state), encoding="utf-8")
    aside.replace(FOLDER / "state.json")
    for wish in FOLDER.glob("*.shoot"):
        with bpy.context.temp_override(window=window, screen=window.screen):
            bpy.ops.screen.screenshot(filepath=str(wish.with_suffix(".png")))
        wish.unlink()
    return 0.1


def start() -> None:
    watch()
    blender_addon.register()
    set_the_table()
    bpy.app.timers.register(tell, persistent=True)


bpy.context.preferences.view.show_splash = False
bpy.app.timers.register(start, first_interval=0.5)
