# SPDX-FileCopyrightText: 2026 The Runnel authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""From the cache to Blender: particles, surfaces, bodies, materials.

Only this package writes what a simulation made into Blender. It needs a cache and numpy, no solver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import bpy

from . import bodies, display, meshing, operators, playback

__all__ = ["bodies", "display", "playback", "register", "unregister"]

_CLASSES: tuple[type, ...] = (
    meshing.RunnelMeshing,
    display.RunnelSurface,
    display.RunnelDisplay,
    *operators.CLASSES,
)


def register(systems: Callable[[bpy.types.Scene], Iterable[Any]]) -> None:
    """Register classes and handlers; `systems(scene)` lists what there is to show.

    A system has `name`, `uid`, `cache_path()` and `display`, a RunnelDisplay.
    """
    for item in _CLASSES:
        bpy.utils.register_class(item)
    playback.register(systems)


def unregister() -> None:
    """Take back all that register did."""
    meshing.unregister()
    playback.unregister()
    for item in reversed(_CLASSES):
        bpy.utils.unregister_class(item)
