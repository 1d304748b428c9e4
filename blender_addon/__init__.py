# SPDX-License-Identifier: GPL-3.0-or-later
"""Runnel in Blender: set a fluid up, bake it, play it back and render it."""

from __future__ import annotations

bl_info = {
    "name": "Runnel",
    "author": "The Runnel authors",
    "version": (0, 1, 0),
    "blender": (3, 4, 0),
    "location": "3D View > Sidebar > Runnel",
    "description": "Liquids: multiphase position-based fluids on any OpenCL device",
    "category": "Physics",
}


def _classes() -> tuple[type, ...]:
    from . import operators, preferences, quick

    return (*preferences.CLASSES, *operators.CLASSES, *quick.CLASSES)


def register() -> None:
    import bpy

    from . import bake, deliver, panels, preflight, properties

    deliver.register(properties.systems)
    properties.register()
    for cls in _classes():
        bpy.utils.register_class(cls)
    for part in (preflight, panels, bake):
        part.register()


def unregister() -> None:
    import bpy

    from . import bake, deliver, panels, preflight, properties

    for part in (bake, panels, preflight):
        part.unregister()
    for cls in reversed(_classes()):
        bpy.utils.unregister_class(cls)
    properties.unregister()
    deliver.unregister()
