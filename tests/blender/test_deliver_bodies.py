"""Bodies that the fluid moved, back on the objects they came from."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runnel.cache import Cache
from tests.blender import caches
from tests.blender.conftest import CACHES, SCENES, bake

MIDDLE = np.array([0.2, 0.2, 0.42])  # of the crate


@pytest.fixture(scope="session")
def floating() -> Path:
    """A cache with a rigid crate and a soft ball."""
    folder = Path(os.environ[CACHES]) / "bodies-scene"
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(SCENES / "bodies.toml", folder)
    ball = caches.ball(0.11, rings=6)
    lines = [f"v {x + 0.56:.6f} {y + 0.2:.6f} {z + 0.4:.6f}" for x, y, z in ball.vertices]
    lines += [f"f {a} {b} {c}" for a, b, c in ball.triangles + 1]
    (folder / "jelly.obj").write_text("\n".join(lines) + "\n")
    return bake(folder / "bodies.toml", "bodies")


def crate(bpy: Any, parent: bool = False, mode: str = "XYZ") -> Any:
    """The crate as an artist has it: turned, scaled, perhaps under a parent."""
    bpy.ops.mesh.primitive_cube_add(size=1.0, location=MIDDLE, rotation=(0.3, 0.2, 0.1))
    made = bpy.context.object
    made.name = "crate"
    made.scale = (0.24, 0.2, 0.22)
    made.rotation_mode = mode
    if parent:
        rig = bpy.data.objects.new("rig", None)
        bpy.context.scene.collection.objects.link(rig)
        rig.location, rig.rotation_euler, rig.scale = (1, -2, 0.5), (0.4, 0, 0.9), (2, 2, 2)
        bpy.context.view_layer.update()
        made.parent = rig
        made.matrix_parent_inverse = rig.matrix_world.inverted()
        bpy.context.view_layer.update()
    return made


def corners(bpy: Any, made: Any) -> np.ndarray:
    """World places of an object's vertices, as rendered."""
    evaluated = made.evaluated_get(bpy.context.evaluated_depsgraph_get())
    local = np.empty(3 * len(evaluated.data.vertices), np.float32)
    evaluated.data.vertices.foreach_get("co", local)
    world = np.array(evaluated.matrix_world)
    return local.reshape(-1, 3) @ world[:3, :3].T + world[:3, 3]


def pose(cache: Cache, frame: int) -> np.ndarray:
    return np.array(cache.entry(frame).report["poses"]["crate"]).reshape(3, 4)


@pytest.mark.parametrize(("parent", "mode"), [(False, "XYZ"), (True, "ZYX"), (True, "QUATERNION")])
def test_a_rigid_body_goes_where_the_fluid_took_it(
    bpy: Any, system: Any, floating: Path, parent: bool, mode: str
) -> None:
    """The object follows the body's poses; its own transform stays, and rest is one call away."""
    from blender_addon.deliver import bodies, playback

    cache, scene = Cache.open(floating), bpy.context.scene
    made = crate(bpy, parent, mode)
    own = [made.location.copy(), made.rotation_euler.copy(), made.rotation_quaternion.copy()]
    rest = corners(bpy, made)
    shown = system(floating)
    playback.show(shown, scene)
    for frame in (8, 3, 1, 5):
        scene.frame_set(frame)
        turn, shift = pose(cache, frame)[:, :3], pose(cache, frame)[:, 3]
        np.testing.assert_allclose(corners(bpy, made), rest @ turn.T + shift, atol=2e-5)
    assert np.abs(pose(cache, 8) - np.eye(3, 4)).max() > 0.1
    assert own == [made.location, made.rotation_euler, made.rotation_quaternion]
    with bodies.at_rest(scene):
        for frame in (1, 7):  # as when a scene is read for a bake
            scene.frame_set(frame)
            np.testing.assert_allclose(corners(bpy, made), rest, atol=2e-6)
    scene.frame_set(5)
    turn, shift = pose(cache, 5)[:, :3], pose(cache, 5)[:, 3]
    np.testing.assert_allclose(corners(bpy, made), rest @ turn.T + shift, atol=2e-5)


def test_between_frames_a_body_is_half_way(bpy: Any, system: Any, floating: Path) -> None:
    """What motion blur asks for: bodies move within a frame."""
    from blender_addon.deliver import playback

    cache, scene, made = Cache.open(floating), bpy.context.scene, crate(bpy)
    shown = system(floating)
    playback.show(shown, scene)
    middles = []
    for frame, part in ((3, 0.0), (3, 0.5), (4, 0.0)):
        scene.frame_set(frame, subframe=part)
        middles.append(corners(bpy, made).mean(axis=0))
    np.testing.assert_allclose(middles[1], (middles[0] + middles[2]) / 2, atol=1e-4)
    np.testing.assert_allclose(middles[2], pose(cache, 4) @ (*MIDDLE, 1), atol=2e-5)


def test_motion_becomes_keyframes(bpy: Any, system: Any, floating: Path) -> None:
    """As keyframes the motion stays without the cache and without the add-on's handlers."""
    from blender_addon.deliver import bodies, playback

    cache, scene, made = Cache.open(floating), bpy.context.scene, crate(bpy)
    rest = corners(bpy, made)
    shown = system(floating)
    playback.show(shown, scene)
    assert bodies.to_keyframes(shown, scene, cache) == 1
    shown.display.enabled = False
    for frame in (7, 2):
        scene.frame_set(frame)
        turn, shift = pose(cache, frame)[:, :3], pose(cache, frame)[:, 3]
        np.testing.assert_allclose(corners(bpy, made), rest @ turn.T + shift, atol=2e-5)


def test_a_soft_body_takes_the_shapes_of_the_cache(bpy: Any, system: Any, floating: Path) -> None:
    """Vertices are where the solver had them, through an object's own transform."""
    from blender_addon.deliver import bodies, playback

    cache, scene = Cache.open(floating), bpy.context.scene
    index = next(k for k in cache.solids() if cache.read_solid(k, 1)[0] == "jelly")
    _, vertices, triangles, deforms = cache.read_solid(index, 1)
    assert deforms
    place, size = np.array([0.5, 0.2, 0.4]), 0.5
    mesh = bpy.data.meshes.new("jelly")
    mesh.from_pydata(((vertices - place) / size).tolist(), [], triangles.tolist())
    made = bpy.data.objects.new("jelly", mesh)
    made.location, made.scale = place, (size, size, size)
    scene.collection.objects.link(made)
    shown = system(floating)
    playback.show(shown, scene)
    assert shown.display.message == ""
    for frame in (1, 8, 4):
        scene.frame_set(frame)
        expected = cache.read_solid(index, frame)[1]
        np.testing.assert_allclose(corners(bpy, made), expected, atol=2e-5)
    rest = cache.read_solid(index, 1)[1]
    assert np.abs(expected - rest).max() > 0.01
    with bodies.at_rest(scene):
        np.testing.assert_allclose(corners(bpy, made), rest, atol=2e-5)
