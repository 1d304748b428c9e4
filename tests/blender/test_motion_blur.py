"""Motion blur as long as the way a fluid goes while the shutter is open, measured in renders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.blender import caches

WIDTH, HEIGHT, EXTENT = 240, 40, 2.4  # pixels, Blender units across
RADIUS = 0.05
PIXEL = EXTENT / WIDTH


def streak(bpy: Any, shown: Any, folder: Path, shutter: float) -> float:
    """Length [Blender units] of what a glowing white thing leaves on a black picture."""
    scene = bpy.context.scene
    scene.render.engine = "CYCLES"
    scene.cycles.samples = 64
    scene.cycles.use_denoising = False
    scene.render.resolution_x, scene.render.resolution_y = WIDTH, HEIGHT
    scene.render.resolution_percentage = 100
    scene.render.filter_size = 0.01
    scene.render.use_motion_blur = True
    scene.render.motion_blur_shutter = shutter
    scene.view_settings.view_transform = "Raw"
    lens = bpy.data.cameras.new("camera")
    lens.type, lens.ortho_scale = "ORTHO", EXTENT
    scene.camera = bpy.data.objects.new("camera", lens)
    scene.camera.location = (0, 0, 5)
    scene.collection.objects.link(scene.camera)
    glow(bpy, shown)
    scene.render.filepath = str(folder / "streak.png")
    bpy.ops.render.render(write_still=True)
    picture = bpy.data.images.load(scene.render.filepath)
    row = np.array(picture.pixels[:]).reshape(HEIGHT, WIDTH, 4)[HEIGHT // 2, :, 0]
    bpy.data.images.remove(picture)
    lit = np.flatnonzero(row > 0.004)
    return (lit[-1] - lit[0] + 1) * PIXEL if len(lit) else 0.0


def glow(bpy: Any, shown: Any) -> None:
    """A material of our own in place of the ready one; playback leaves it alone."""
    material = bpy.data.materials.new("glow")
    if material.node_tree is None:
        material.use_nodes = True
    tree = material.node_tree
    tree.nodes.clear()
    emission = tree.nodes.new("ShaderNodeEmission")
    output = tree.nodes.new("ShaderNodeOutputMaterial")
    tree.links.new(emission.outputs[0], output.inputs["Surface"])
    shown.data.materials[0] = material
    from blender_addon.deliver import points

    points.dress(shown, material)


@pytest.mark.parametrize("kind", ["POINTS", "SURFACE"])
@pytest.mark.parametrize(
    ("speed", "shutter", "fps"), [(24.0, 0.5, 24), (12.0, 1.0, 24), (24.0, 0.5, 12), (0.0, 0.5, 24)]
)
def test_blur_is_velocity_times_shutter(
    bpy: Any, system: Any, tmp_path: Path, kind: str, speed: float, shutter: float, fps: int
) -> None:
    """A ball of diameter d leaves a streak of d + v * shutter / fps, for particles and surfaces.

    A scene that plays the cache at another rate shows a cached frame per frame all the same, so the
    rate of the cache counts.
    """
    from blender_addon.deliver import playback

    cache = caches.write(tmp_path / "cache", {n: caches.mover(speed, RADIUS) for n in (1, 2, 3)})
    for number in cache.frames():
        caches.surface(cache, number, caches.ball(RADIUS, (speed, 0, 0)))
    scene, shown = bpy.context.scene, system(cache.directory)
    scene.render.fps = fps
    shown.display.shown = kind
    scene.frame_set(2)
    playback.show(shown, scene)
    assert shown.display.message == ""
    made = shown.display.points if kind == "POINTS" else shown.display.surfaces[0].object
    length = streak(bpy, made, tmp_path, shutter)
    assert length == pytest.approx(2 * RADIUS + speed * shutter / cache.fps, abs=3 * PIXEL)


def test_what_stands_still_is_not_blurred(bpy: Any, system: Any, tmp_path: Path) -> None:
    """After the last frame the fluid is held; its velocities are gone."""
    from blender_addon.deliver import playback

    cache = caches.write(tmp_path / "cache", {n: caches.mover(24.0, RADIUS) for n in (1, 2)})
    scene, shown = bpy.context.scene, system(cache.directory)
    playback.show(shown, scene)
    scene.frame_set(5)
    length = streak(bpy, shown.display.points, tmp_path, 0.5)
    assert length == pytest.approx(2 * RADIUS, abs=3 * PIXEL)
