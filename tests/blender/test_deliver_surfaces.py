"""Surfaces of a cache as objects, and how they look."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runnel.cache import Cache
from runnel.export.surfaces import read_surface
from runnel.presets import PRESETS
from tests.blender import caches


@pytest.fixture
def own(splash: Path, tmp_path: Path) -> Path:
    """A copy of the cache, to put surfaces into."""
    return Path(shutil.copytree(splash, tmp_path / "cache"))


def vertices(shown: Any) -> np.ndarray:
    values = np.empty(3 * len(shown.data.vertices), np.float32)
    shown.data.vertices.foreach_get("co", values)
    return values.reshape(-1, 3)


def test_surfaces_are_made_in_a_process_and_shown(bpy: Any, system: Any, own: Path) -> None:
    """One button: a mesh per fluid with velocities; frames that have one are left alone."""
    cache, scene = Cache.open(own), bpy.context.scene
    cache.truncate(3)
    shown = system(own)
    shown.display.meshing.cube_size = 1.0  # coarse and quick
    shown.display.meshing.channels = "velocity, age"
    scene.frame_set(2)
    assert bpy.ops.runnel.make_surface() == {"FINISHED"}
    held = scene.shown_caches[0].display
    assert held.message == ""
    assert held.shown == "SURFACE"
    assert {item.name for item in held.surfaces} == {"surface_water", "surface_honey"}
    water = held.surfaces["surface_water"].object
    expected = read_surface(own / "mesh" / "surface_water_000002.ply")
    np.testing.assert_array_equal(vertices(water), expected.vertices)
    assert len(water.data.polygons) == len(expected.triangles)
    velocity = np.empty(3 * len(water.data.vertices), np.float32)
    water.data.attributes["velocity"].data.foreach_get("vector", velocity)
    np.testing.assert_array_equal(velocity.reshape(-1, 3), expected.attributes["velocity"])
    assert "age" in water.data.attributes
    assert not water.data.validate()
    stamp = (own / "mesh" / "surface_water_000002.ply").stat().st_mtime_ns
    assert bpy.ops.runnel.make_surface() == {"FINISHED"}
    assert (own / "mesh" / "surface_water_000002.ply").stat().st_mtime_ns == stamp


def test_a_failure_of_the_mesher_is_told(bpy: Any, system: Any, own: Path) -> None:
    """What the process said is the message."""
    shown = system(own)
    shown.display.meshing.cube_size = 99.0
    with pytest.raises(RuntimeError, match="cube_size"):
        bpy.ops.runnel.make_surface()
    assert bpy.context.scene.shown_caches[0].display.failed


def test_a_frame_without_surface_shows_none(bpy: Any, system: Any, tmp_path: Path) -> None:
    """Nothing of another frame stays in sight, and the message says what to do."""
    from blender_addon.deliver import playback

    cache = caches.write(tmp_path / "cache", {n: caches.mover(0.0) for n in (1, 2)})
    caches.surface(cache, 1, caches.ball(0.1))
    scene, shown = bpy.context.scene, system(cache.directory)
    shown.display.shown = "BOTH"
    playback.show(shown, scene)
    made = shown.display.surfaces[0].object
    assert len(made.data.vertices) == len(caches.ball(0.1).vertices)
    scene.frame_set(2)
    assert len(made.data.vertices) == 0
    assert "Make Surface" in shown.display.message
    shown.display.shown = "POINTS"
    assert made.hide_render
    assert not shown.display.points.hide_render


@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_every_preset_has_a_material(bpy: Any, system: Any, tmp_path: Path, preset: str) -> None:
    """Its colour is core's; an artist's own material is never replaced."""
    from blender_addon.deliver import materials, playback
    from runnel.preview.colors import to_linear

    assert preset in materials.LOOKS
    fluid = {"name": "liquid", "preset": preset}
    cache = caches.write(tmp_path / "cache", {n: caches.mover(0.0) for n in (1, 2)}, fluid=[fluid])
    for number in (1, 2):
        caches.surface(cache, number, caches.ball(0.1))
    scene, shown = bpy.context.scene, system(cache.directory)
    shown.display.shown = "SURFACE"
    playback.show(shown, scene)
    made = shown.display.surfaces[0].object
    material = made.data.materials[0]
    np.testing.assert_allclose(material.diffuse_color[:3], to_linear(PRESETS[preset].color), 1e-4)
    made.data.materials[0] = bpy.data.materials.new("mine")
    scene.frame_set(2)
    assert made.data.materials[0].name == "mine"
