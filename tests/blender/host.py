"""The least that playback needs of a host: caches that hang on a scene. Imported in Blender."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import bpy

from blender_addon import deliver


class ShownCache(bpy.types.PropertyGroup):
    """A folder to show, without anything to set up or bake."""

    name: bpy.props.StringProperty()
    uid: bpy.props.StringProperty()
    folder: bpy.props.StringProperty()
    display: bpy.props.PointerProperty(type=deliver.display.RunnelDisplay)

    def cache_path(self) -> Path:
        return Path(bpy.path.abspath(self.folder))


def register() -> None:
    deliver.register(lambda scene: scene.shown_caches)
    bpy.utils.register_class(ShownCache)
    bpy.types.Scene.shown_caches = bpy.props.CollectionProperty(type=ShownCache)


def unregister() -> None:
    del bpy.types.Scene.shown_caches
    bpy.utils.unregister_class(ShownCache)
    deliver.unregister()


def add(folder: Path | str, scene: Any = None) -> Any:
    """Hang a cache into a scene; playback shows what this returns."""
    held = (scene or bpy.context.scene).shown_caches
    made = held.add()
    made.name = made.uid = f"water{len(held)}"
    made.folder = str(folder)
    return made
