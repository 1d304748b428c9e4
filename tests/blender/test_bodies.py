"""Rigid bodies from set-up to playback: thrown by keyframes, renamed, duplicated, keyframed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runnel.cache import Cache

LAST, RELEASED = 8, 4


@pytest.fixture
def thrown(addon: Any, bpy: Any, tmp_path: Path) -> Iterator[Any]:
    """A bake of two crates: one is thrown, spinning, up to a frame; the other one just falls."""
    from blender_addon import worker

    scene = bpy.context.scene
    scene.frame_end = LAST
    bpy.ops.mesh.primitive_cube_add(size=0.4, location=(0, 0, 0.2))
    bpy.context.object.runnel.role = "FLUID"
    system = scene.runnel.active_system()
    system.spacing = 0.1
    bpy.ops.object.empty_add(location=(0.5, 0, 0), rotation=(0, 0.3, 0.2))
    hand = bpy.context.object
    hand.scale = (2, 2, 2)
    for name, x in (("Thrown", 1.0), ("Falling", -1.0)):
        bpy.ops.mesh.primitive_cube_add(size=0.3, location=(x, 0, 2))
        bpy.context.object.name = name
        bpy.context.object.runnel.role = "RIGID"
    crate = bpy.data.objects["Thrown"]
    crate.parent = hand
    for frame, way in ((1, 0.0), (RELEASED, 1.0)):
        crate.location = (0.5 + 0.4 * way, 0, 1 + 0.3 * way)
        crate.rotation_euler = (0.2, way, 0)
        hand.location.y = 0.2 * way
        crate.keyframe_insert("location", frame=frame)
        crate.keyframe_insert("rotation_euler", frame=frame)
        hand.keyframe_insert("location", frame=frame)
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "shot.blend"))
    assert bpy.ops.runnel.bake() == {"FINISHED"}
    yield bpy
    worker.stop_all()


def corners(bpy: Any, name: str) -> np.ndarray:
    """World places of an object's vertices."""
    bpy.context.view_layer.update()
    found = bpy.data.objects[name]
    return np.array([found.matrix_world @ vertex.co for vertex in found.data.vertices])


def poses(bpy: Any, name: str) -> dict[int, np.ndarray]:
    """Of a body, by frame: 4 x 4 matrices."""
    cache = Cache.open(bpy.context.scene.runnel.active_system().cache_path())
    rows = {n: np.array(cache.entry(n).report["poses"][name]) for n in cache.frames()}
    return {n: np.vstack([row.reshape(3, 4), (0, 0, 0, 1)]) for n, row in rows.items()}


def check(bpy: Any, shown: str, body: str) -> None:
    """An object is where the simulation has its body, at every frame."""
    scene, known = bpy.context.scene, poses(bpy, body)
    scene.frame_set(1)
    rest = corners(bpy, shown)
    for frame in (LAST, 2, RELEASED, 6):
        scene.frame_set(frame)
        moved = known[frame] @ np.linalg.inv(known[1])
        expected = rest @ moved[:3, :3].T + moved[:3, 3]
        np.testing.assert_allclose(corners(bpy, shown), expected, atol=1e-4)
    assert np.abs(known[LAST] - known[1]).max() > 0.1


def test_a_thrown_body_is_where_the_simulation_has_it(thrown: Any) -> None:
    """Its own keyframes are not played a second time, while it follows them or after."""
    first = poses(thrown, "Thrown")
    assert np.abs(first[RELEASED] - first[1]).max() > 0.3
    assert np.abs(first[LAST] - first[RELEASED]).max() > 0.1
    check(thrown, "Thrown", "Thrown")
    check(thrown, "Falling", "Falling")


def test_motion_as_keyframes_stays_and_changes_nothing_about_the_bake(thrown: Any) -> None:
    from blender_addon import bake, fingerprint

    system = thrown.context.scene.runnel.active_system()
    thrown.context.scene.frame_set(3)
    assert thrown.ops.runnel.motion_to_keyframes() == {"FINISHED"}
    assert thrown.context.scene.frame_current == 3
    system.display.enabled = False  # only keyframes play
    check(thrown, "Thrown", "Thrown")
    check(thrown, "Falling", "Falling")
    fingerprint._looks.clear()
    assert not fingerprint.changed(system)
    assert bake.run(thrown.context, bake.Task(system)).message.endswith("up to date.")
    check(thrown, "Thrown", "Thrown")


def test_renamed_and_duplicated_bodies(thrown: Any) -> None:
    """A new name loses nothing; a duplicate stands where it was put, and is a body of its own."""
    from blender_addon import roles

    bpy, scene = thrown, thrown.context.scene
    scene.frame_set(LAST)
    bpy.data.objects["Falling"].name = "Box"
    check(bpy, "Box", "Falling")
    scene.frame_set(LAST)
    bpy.ops.object.select_all(action="DESELECT")
    box = bpy.data.objects["Box"]
    box.select_set(True)
    bpy.context.view_layer.objects.active = box
    bpy.ops.object.duplicate()
    copy = bpy.context.object
    scene.frame_set(6)
    for thing, z in ((copy, 2.0), (box, 2.0 + poses(bpy, "Falling")[6][2, 3])):
        bpy.context.view_layer.update()
        assert thing.matrix_world.translation.z == pytest.approx(z, abs=1e-4)
    assert copy in roles.members(scene.runnel.active_system())


def test_cloth_that_hangs_on_something_that_moves(addon: Any, bpy: Any, tmp_path: Path) -> None:
    """The simulation leaves its own motion out, and says so; shown is what was simulated."""
    from blender_addon import bake
    from tests.blender.test_panels import draw_all

    scene = bpy.context.scene
    scene.frame_end = 4
    scene.unit_settings.scale_length = 0.5
    bpy.ops.mesh.primitive_cube_add(size=0.8, location=(0, 0, 0.4))
    bpy.context.object.runnel.role = "FLUID"
    system = scene.runnel.active_system()
    system.spacing = 0.2
    bpy.ops.object.empty_add(location=(0.5, 0, 0), rotation=(0, 0, 0.4))
    hand = bpy.context.object
    bpy.ops.mesh.primitive_grid_add(x_subdivisions=4, y_subdivisions=4, size=1, location=(1, 0, 3))
    cloth = bpy.context.object
    cloth.name, cloth.runnel.role, cloth.parent = "Cloth", "SOFT", hand
    cloth.runnel.collider.mode = "shell"
    cloth.scale = (2, 1, 1)
    for frame in (1, 4):
        hand.location.x, hand.rotation_euler.z = 0.3 * frame, 0.2 * frame
        hand.keyframe_insert("location", frame=frame)
        hand.keyframe_insert("rotation_euler", frame=frame)
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "shot.blend"))
    scene.frame_set(3)
    assert bpy.ops.runnel.bake() == {"FINISHED"}
    (note,) = bake.task(scene.runnel.active_system().uid).notes
    assert note.startswith("'Cloth' moves by itself")
    assert "'Cloth' moves by itself" in " ".join(draw_all(bpy))
    cache = Cache.open(scene.runnel.active_system().cache_path())
    index = next(k for k in cache.solids() if cache.read_solid(k, 1)[0] == "Cloth")
    for frame in (4, 1, 3):
        scene.frame_set(frame)
        shown = cloth.evaluated_get(bpy.context.evaluated_depsgraph_get())
        places = np.array([shown.matrix_world @ v.co for v in shown.data.vertices])
        np.testing.assert_allclose(0.5 * places, cache.read_solid(index, frame)[1], atol=1e-4)
