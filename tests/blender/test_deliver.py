"""A cache on the timeline: particles with their channels, frame by frame."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from runnel.cache import Cache


def read(shown: Any, name: str, key: str, width: int = 1) -> np.ndarray:
    """A point attribute of what renderers see."""
    import bpy

    evaluated = shown.evaluated_get(bpy.context.evaluated_depsgraph_get())
    geometry = evaluated.evaluated_geometry()  # owns the cloud
    cloud = geometry.pointcloud
    data = cloud.attributes[name].data
    kind = np.int32 if cloud.attributes[name].data_type == "INT" else np.float32
    values = np.empty(len(data) * width, kind)
    data.foreach_get(key, values)
    return values.reshape(-1, width) if width > 1 else values


def test_points_carry_the_channels_of_the_frame(bpy: Any, splash: Path, system: Any) -> None:
    """Position, velocity, radius, id, density, phase and age are those of the cache, bit by bit."""
    from blender_addon.deliver import playback

    cache, scene = Cache.open(splash), bpy.context.scene
    shown = system(splash)
    playback.show(shown, scene)
    assert shown.display.message == ""
    for frame in (1, 7, 14, 3):  # counts grow and shrink
        scene.frame_set(frame)
        arrays = cache.read(frame)
        points = shown.display.points
        for name, key, width in (
            ("position", "vector", 3),
            ("velocity", "vector", 3),
            ("radius", "value", 1),
            ("density", "value", 1),
            ("age", "value", 1),
        ):
            np.testing.assert_array_equal(read(points, name, key, width), arrays[name])
        for name in ("id", "phase"):
            np.testing.assert_array_equal(read(points, name, "value"), arrays[name])
    assert shown.display.message == ""
    assert len(cache.read(14)["id"]) > len(cache.read(1)["id"])
