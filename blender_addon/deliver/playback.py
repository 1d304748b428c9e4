# SPDX-FileCopyrightText: 2026 The Runnel authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Follows the timeline: at each frame change the cache's frame goes into the objects that show it.

Handlers never raise into Blender: what fails is told on the system. No reference to a datablock
outlives a call, because undo and loading replace them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import bpy

from runnel.errors import RunnelError

from . import frames, objects, points

Systems = Callable[[bpy.types.Scene], Iterable[Any]]


class _State:
    """Of this session, none of it saved."""

    systems: Systems | None = None
    rendering = False
    shown: dict[tuple[str, str], tuple[Any, ...]] = {}  # noqa: RUF012  what a part shows now


def show(system: Any, scene: bpy.types.Scene) -> None:
    """Show a system's cache at the current frame; makes the objects where they are absent."""
    _guarded(system, scene, make=True)


def hide(system: Any) -> None:
    """Remove the objects that show a system's cache."""
    shown = system.display.points
    system.display.points = None
    if shown is not None:
        objects.remove(shown)
    system.display.tell("")


def refresh(scene: bpy.types.Scene, materials: bool = False) -> None:
    """Show the current frame again: settings changed, or a bake has gone on."""
    for system in _systems(scene):
        _guarded(system, scene, make=False)


def _systems(scene: bpy.types.Scene) -> list[Any]:
    return [] if _State.systems is None else list(_State.systems(scene))


def _guarded(system: Any, scene: bpy.types.Scene, make: bool) -> None:
    """Show a system; what goes wrong becomes its message."""
    if not system.display.enabled:
        return
    try:
        message = _show(system, scene, make)
        system.display.tell(message)
    except RunnelError as error:
        system.display.tell(str(error), failed=True)
    except Exception as error:  # Blender would print it at every frame, and the artist see nothing
        system.display.tell(f"{type(error).__name__}: {error}", failed=True)


def _show(system: Any, scene: bpy.types.Scene, make: bool) -> str:
    display = system.display
    if not make and display.points is None:
        return ""
    folder = system.cache_path()
    if not (folder / "manifest.json").exists():
        return _absent(system, folder)
    cache = frames.open_cache(folder)
    choice = frames.choose(cache, scene.frame_current)
    if choice is None:
        return "No frame is baked yet"
    _show_points(system, scene, cache, choice, make)
    return choice.message


def _absent(system: Any, folder: Any) -> str:
    """There is no cache: not baked yet, or moved away."""
    shown = system.display.points
    if shown is not None and shown.users_scene:
        return f"No cache at {folder}: bake, or set the folder where it is now"
    return ""


def _show_points(
    system: Any, scene: bpy.types.Scene, cache: Any, choice: frames.Choice, make: bool
) -> None:
    display = system.display
    shown = points.make(system, scene) if make else display.points
    if shown is None or not shown.users_scene:
        return
    arrays = frames.read(cache, choice.frame, display.wanted(), ("position", "radius"))
    share = display.render_percentage if _State.rendering else display.percentage
    arrays = frames.thin(arrays, share / 100)
    if "velocity" in arrays:
        arrays["velocity"] = _blurred(arrays["velocity"], scene, cache, choice, display.blur)
    objects.place(shown, scene, str(cache.scene.get("up", "z")))
    points.fill(shown, arrays, display.size)


def _blurred(
    velocity: Any, scene: bpy.types.Scene, cache: Any, choice: frames.Choice, blur: bool
) -> Any:
    """Velocities so that Cycles, which divides by the scene's frame rate, blurs as far as particles
    go from one cached frame to the next."""
    if choice.held or not blur:
        return velocity * 0
    rate = scene.render.fps / scene.render.fps_base / cache.fps
    return velocity if abs(rate - 1) < 1e-6 else velocity * velocity.dtype.type(rate)


# --- handlers -------------------------------------------------------------------------------------


@bpy.app.handlers.persistent
def _on_frame(scene: bpy.types.Scene, _depsgraph: Any = None) -> None:
    if scene.frame_subframe == 0.0:  # motion blur samples come from velocities
        refresh(scene)


@bpy.app.handlers.persistent
def _on_load(*_: Any) -> None:
    frames.forget()
    _State.rendering = False
    for scene in bpy.data.scenes:
        refresh(scene)


@bpy.app.handlers.persistent
def _on_render_start(scene: bpy.types.Scene, *_: Any) -> None:
    _State.rendering = True


@bpy.app.handlers.persistent
def _on_render_end(scene: bpy.types.Scene, *_: Any) -> None:
    _State.rendering = False


_HANDLERS = {
    "frame_change_post": _on_frame,
    "load_post": _on_load,
    "render_init": _on_render_start,
    "render_complete": _on_render_end,
    "render_cancel": _on_render_end,
}


def register(systems: Systems) -> None:
    _State.systems = systems
    for name, handler in _HANDLERS.items():
        getattr(bpy.app.handlers, name).append(handler)


def unregister() -> None:
    for name, handler in _HANDLERS.items():
        registered = getattr(bpy.app.handlers, name)
        if handler in registered:
            registered.remove(handler)
    _State.systems = None
    frames.forget()
