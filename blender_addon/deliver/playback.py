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

from runnel.cache import Cache
from runnel.errors import RunnelError
from runnel.preview.coloring import value_range, values_of

from . import bodies, frames, materials, objects, points, surfaces

Systems = Callable[[bpy.types.Scene], Iterable[Any]]


class _State:
    """Of this session, none of it saved."""

    systems: Systems | None = None
    rendering = False
    busy = False  # settings that playback itself sets do not start it again
    shown: dict[str, tuple[Any, ...]] = {}  # noqa: RUF012  what is in each object now


# --- what others call -----------------------------------------------------------------------------


def show(system: Any, scene: bpy.types.Scene) -> None:
    """Show a system's cache at the current frame; makes the objects where they are absent."""
    # Blender may crash when a render changes objects that the viewport is drawing.
    scene.render.use_lock_interface = True
    _guarded(system, scene, make=True)


def refresh(scene: bpy.types.Scene, anew: bool = False) -> None:
    """Show the current frame again where something changed; `anew`: even if nothing did."""
    if anew:
        _State.shown.clear()
    for system in systems(scene):
        _guarded(system, scene, make=False)


def hide(system: Any) -> None:
    """Remove the objects that show a system's cache."""
    display = system.display
    made = [display.points, *(item.object for item in display.surfaces)]
    display.points = None
    display.surfaces.clear()
    for shown in made:
        if shown is not None:
            _State.shown.pop(shown.name, None)
            objects.remove(shown)
    bodies.release(system.uid)
    display.tell("")


def systems(scene: bpy.types.Scene) -> list[Any]:
    """All systems of a scene."""
    return [] if _State.systems is None else list(_State.systems(scene))


# --- one system -----------------------------------------------------------------------------------


def _guarded(system: Any, scene: bpy.types.Scene, make: bool) -> None:
    """Show a system; what goes wrong becomes its message."""
    if _State.busy or not system.display.enabled:
        return
    _State.busy = True
    try:
        system.display.tell(_show(system, scene, make))
    except RunnelError as error:
        system.display.tell(str(error), failed=True)
    except Exception as error:  # Blender would print it at every frame, and the artist see nothing
        system.display.tell(f"{type(error).__name__}: {error}", failed=True)
    finally:
        _State.busy = False


def _show(system: Any, scene: bpy.types.Scene, make: bool) -> str:
    if not make and not is_shown(system):
        return ""
    folder = system.cache_path()
    if not (folder / "manifest.json").exists():
        return f"No cache at {folder}: bake, or set the folder where it is now"
    cache = frames.open_cache(folder)
    choice = frames.choose(cache, scene.frame_current)
    if choice is None:
        return "No frame is baked yet"
    display = system.display
    if display.bodies:
        bodies.follow(system, scene, cache, scene.frame_current + scene.frame_subframe)
        bodies.deform(system, scene, cache, anew=make)
    message = choice.message
    if display.shown in ("POINTS", "BOTH"):
        _show_points(system, scene, cache, choice, make)
    if display.shown in ("SURFACE", "BOTH"):
        message = _show_surfaces(system, scene, cache, choice) or message
    _hide_others(display)
    return message


def is_shown(system: Any) -> bool:
    """Whether there are objects of its cache; an undo may take them away."""
    return system.display.points is not None or len(system.display.surfaces) > 0


def _hide_others(display: Any) -> None:
    """Particles or surfaces that are not asked for stay, out of sight."""
    parts = [(display.points, display.shown == "SURFACE")]
    parts += [(item.object, display.shown == "POINTS") for item in display.surfaces]
    for shown, hidden in parts:
        if shown is not None and shown.hide_render != hidden:
            shown.hide_render = shown.hide_viewport = hidden


def _show_points(
    system: Any, scene: bpy.types.Scene, cache: Cache, choice: frames.Choice, make: bool
) -> None:
    display = system.display
    shown = points.make(system, scene) if make or display.points is None else display.points
    if not shown.users_scene:  # the artist deleted it
        return
    share = display.render_percentage if _State.rendering else display.percentage
    wanted, rate = display.wanted(), _rate(scene, cache, choice)
    if not _changed(shown, cache, choice, share, wanted and tuple(sorted(wanted)), rate,
                    display.size, display.color_by, display.color_channel, display.color_auto,
                    display.color_low, display.color_high):  # fmt: skip
        return
    arrays = frames.read(cache, choice.frame, wanted, ("position", "radius"))
    arrays = frames.thin(arrays, share / 100)
    if "velocity" in arrays and rate != 1.0:
        arrays["velocity"] = arrays["velocity"] * arrays["velocity"].dtype.type(rate)
    colors = materials.palette(cache.scene)
    arrays[materials.COLOR] = materials.colors_of(arrays, colors)
    _color(display, arrays)
    objects.place(shown, scene, str(cache.scene.get("up", "z")))
    points.fill(shown, arrays, display.size)
    points.dress(shown, materials.for_particles(system, colors[0]))


def _color(display: Any, arrays: dict[str, Any]) -> None:
    """The number that colours each particle; its range once, from the frame shown first."""
    if display.color_by == "FLUID":
        return
    name = "speed" if display.color_by == "SPEED" else display.color_channel
    values = arrays[materials.VALUE] = values_of(arrays, name)
    if display.color_auto:
        display.color_low, display.color_high = value_range([values])
        display.color_auto = False


def _show_surfaces(system: Any, scene: bpy.types.Scene, cache: Cache, choice: frames.Choice) -> str:
    found = surfaces.files(cache, choice.frame)
    for name, path in found.items():
        shown = surfaces.make(system, scene, cache, name)
        stat = path.stat()
        rate = _rate(scene, cache, choice)
        if _changed(shown, cache, choice, stat.st_mtime_ns, stat.st_size, rate):
            objects.place(shown, scene, str(cache.scene.get("up", "z")))
            surfaces.fill(shown, path, rate)
    for item in system.display.surfaces:  # nothing of another frame stays in sight
        if item.object is not None and item.name not in found:
            _State.shown.pop(item.object.name, None)
            item.object.data.clear_geometry()
    if not found:
        return f"Frame {choice.frame} has no surface: press Make Surface"
    if surfaces.is_stale(cache, choice.frame):
        return f"Frame {choice.frame} was baked again: its surface is old"
    return ""


def _rate(scene: bpy.types.Scene, cache: Cache, choice: frames.Choice) -> float:
    """Factor on velocities: Cycles divides by the scene's frame rate (4.5 to 5.2), and blur shall
    be as long as the way from one cached frame to the next. 0 where time stands still."""
    if choice.held:
        return 0.0
    rate = scene.render.fps / scene.render.fps_base / cache.fps
    return 1.0 if abs(rate - 1.0) < 1e-6 else rate


def _changed(shown: bpy.types.Object, cache: Cache, choice: frames.Choice, *settings: Any) -> bool:
    """Whether an object has to be filled again; takes note of what it will show."""
    sums = tuple(cache.entry(choice.frame).checksums.values())
    now = (str(cache.directory), choice.frame, sums, *settings)
    if _State.shown.get(shown.name) == now:
        return False
    _State.shown[shown.name] = now
    return True


# --- handlers -------------------------------------------------------------------------------------


def _follow_bodies(scene: bpy.types.Scene) -> None:
    """Between frames, as motion blur asks: particles have velocities, bodies are interpolated."""
    for system in systems(scene):
        if system.display.enabled and system.display.bodies and is_shown(system):
            try:
                cache = frames.open_cache(system.cache_path())
                time = scene.frame_current + scene.frame_subframe
                bodies.follow(system, scene, cache, time)
            except RunnelError as error:
                system.display.tell(str(error), failed=True)


@bpy.app.handlers.persistent
def _on_frame(scene: bpy.types.Scene, *_: Any) -> None:
    if scene.frame_subframe == 0.0:
        refresh(scene)
    else:
        _follow_bodies(scene)


@bpy.app.handlers.persistent
def _on_load(*_: Any) -> None:
    frames.forget()
    _State.rendering = False
    _everything_anew()


@bpy.app.handlers.persistent
def _everything_anew(*_: Any) -> None:
    """Undo and redo bring old contents back."""
    for scene in bpy.data.scenes:
        refresh(scene, anew=True)


@bpy.app.handlers.persistent
def _before_save(*_: Any) -> None:
    """A .blend does not need the particles: they are in the cache."""
    for scene in bpy.data.scenes:
        for system in systems(scene):
            display = system.display
            for shown in (display.points, *(item.object for item in display.surfaces)):
                if shown is not None and display.enabled:
                    points.empty(shown.data)


@bpy.app.handlers.persistent
def _on_render_start(*_: Any) -> None:
    _State.rendering = True


@bpy.app.handlers.persistent
def _on_render_end(*_: Any) -> None:
    _State.rendering = False
    if not bpy.app.background:  # back to the viewport's share, but not from the render's thread
        bpy.app.timers.register(_after_render)


def _after_render() -> None:
    refresh(bpy.context.scene)


_HANDLERS = {
    "frame_change_post": _on_frame,
    "load_post": _on_load,
    "undo_post": _everything_anew,
    "redo_post": _everything_anew,
    "save_pre": _before_save,
    "save_post": _everything_anew,
    "save_post_fail": _everything_anew,
    "render_init": _on_render_start,
    "render_complete": _on_render_end,
    "render_cancel": _on_render_end,
}


def register(systems: Systems) -> None:
    _State.systems = systems
    for name, handler in _HANDLERS.items():
        if hasattr(bpy.app.handlers, name):
            getattr(bpy.app.handlers, name).append(handler)


def unregister() -> None:
    for name, handler in _HANDLERS.items():
        registered = getattr(bpy.app.handlers, name, [])
        if handler in registered:
            registered.remove(handler)
    if bpy.app.timers.is_registered(_after_render):
        bpy.app.timers.unregister(_after_render)
    _State.systems = None
    _State.shown.clear()
    frames.forget()
