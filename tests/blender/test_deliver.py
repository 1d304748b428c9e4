"""A cache on the timeline: particles with their channels, whatever files go through."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runnel.cache import Cache
from tests.blender import caches


def read(shown: Any, name: str, key: str = "value", width: int = 1) -> np.ndarray:
    """A point attribute of what renderers see."""
    import bpy

    evaluated = shown.evaluated_get(bpy.context.evaluated_depsgraph_get())
    geometry = evaluated.evaluated_geometry()  # owns the cloud
    attribute = geometry.pointcloud.attributes[name]
    kind = np.int32 if attribute.data_type == "INT" else np.float32
    values = np.empty(len(attribute.data) * width, kind)
    attribute.data.foreach_get(key, values)
    return values.reshape(-1, width) if width > 1 else values


def count(shown: Any) -> int:
    """Points that are held."""
    data = shown.data
    return len(data.points) if hasattr(data, "points") else len(data.vertices)


@pytest.fixture
def grown(tmp_path: Path) -> Cache:
    """A cache of frames 2 to 5 with as many particles, and channels of all kinds."""

    def frame(n: int) -> dict[str, Any]:
        return {
            "position": np.full((n, 3), n, np.float32),
            "velocity": np.full((n, 3), 2.0, np.float32),
            "radius": np.full(n, 0.1, np.float32),
            "id": np.arange(n, dtype=np.int64) + 2**31 * 3,
            "phase": np.zeros(n, np.uint8),
            "wetness": np.linspace(0, 1, n),
            "flow": np.full((n, 2), 0.25, np.float32),
            "many": np.arange(6 * n, dtype=np.float32).reshape(n, 6),
        }

    return caches.write(tmp_path / "cache", {n: frame(n) for n in (2, 3, 4, 5)})


def test_points_carry_the_channels_of_the_frame(bpy: Any, splash: Path, system: Any) -> None:
    """Position, velocity, radius, id, density, phase and age are those of the cache, bit by bit."""
    from blender_addon.deliver import playback

    cache, scene = Cache.open(splash), bpy.context.scene
    shown = system(splash)
    playback.show(shown, scene)
    for frame in (1, 7, 14, 3):  # counts grow and shrink
        scene.frame_set(frame)
        arrays, points = cache.read(frame), shown.display.points
        for name in ("position", "velocity"):
            np.testing.assert_array_equal(read(points, name, "vector", 3), arrays[name])
        for name in ("radius", "density", "age", "id", "phase"):
            np.testing.assert_array_equal(read(points, name), arrays[name])
    assert shown.display.message == ""
    assert len(cache.read(14)["id"]) > len(cache.read(1)["id"])


def test_shaders_get_channels_under_names_they_can_read(
    bpy: Any, splash: Path, system: Any
) -> None:
    """Cycles keeps `velocity` and `density` for volumes: they have a second name."""
    from blender_addon.deliver import playback
    from runnel.presets import PRESETS
    from runnel.preview.colors import to_linear

    cache, shown = Cache.open(splash), system(splash)
    playback.show(shown, bpy.context.scene)
    arrays, points = cache.read(1), shown.display.points
    np.testing.assert_array_equal(read(points, "fluid_density"), arrays["density"])
    np.testing.assert_array_equal(read(points, "fluid_velocity", "vector", 3), arrays["velocity"])
    colors = to_linear([PRESETS["water"].color, PRESETS["honey"].color])[arrays["phase"]]
    np.testing.assert_allclose(read(points, "fluid_color", "color", 4)[:, :3], colors, atol=1e-6)


def test_user_channels_of_any_width(bpy: Any, grown: Cache, system: Any) -> None:
    """Doubles, pairs and tables of numbers arrive; ids beyond 32 bits stay different."""
    from blender_addon.deliver import playback

    scene, shown = bpy.context.scene, system(grown.directory)
    scene.frame_set(5)
    playback.show(shown, scene)
    points = shown.display.points
    np.testing.assert_allclose(read(points, "wetness"), np.linspace(0, 1, 5))
    np.testing.assert_array_equal(read(points, "flow", "vector", 2), np.full((5, 2), 0.25))
    np.testing.assert_array_equal(read(points, "many_5"), np.arange(5) * 6 + 5)
    assert len(set(read(points, "id").tolist())) == 5


def test_frames_outside_of_the_cache_hold_its_ends(bpy: Any, grown: Cache, system: Any) -> None:
    """Before the first and after the last frame the fluid stands still; no message, no error."""
    from blender_addon.deliver import playback

    scene, shown = bpy.context.scene, system(grown.directory)
    playback.show(shown, scene)
    for frame, expected, speed in ((-3, 2, 0.0), (3, 3, 2.0), (9, 5, 0.0), (5, 5, 2.0)):
        scene.frame_set(frame)
        points = shown.display.points
        assert count(points) == expected
        assert read(points, "velocity", "vector", 3).max() == speed
        assert shown.display.message == ""


def test_finished_frames_show_while_the_bake_goes_on(bpy: Any, grown: Cache, system: Any) -> None:
    """A frame that is not there yet shows the last before it, says so, and appears when it is."""
    from blender_addon.deliver import playback

    arrays = grown.read(5)
    grown.truncate(3)
    scene, shown = bpy.context.scene, system(grown.directory)
    scene.frame_set(4)
    playback.show(shown, scene)
    assert count(shown.display.points) == 3
    assert "Frame 4 is not baked yet: showing frame 3" in shown.display.message
    grown.write(4, arrays, {})
    playback.refresh(scene)
    assert count(shown.display.points) == 5
    assert shown.display.message == ""


def test_damage_is_told_and_never_raised(bpy: Any, grown: Cache, system: Any) -> None:
    """A broken frame, and a cache that is gone: a message on the system, the scene lives on."""
    from blender_addon.deliver import playback

    scene, shown = bpy.context.scene, system(grown.directory)
    playback.show(shown, scene)
    grown.frame_path(3).write_bytes(b"nothing")
    scene.frame_set(3)
    assert shown.display.failed
    assert "frame_000003.npz" in shown.display.message
    scene.frame_set(4)
    assert not shown.display.failed
    assert count(shown.display.points) == 4
    shutil.rmtree(grown.directory)
    scene.frame_set(5)
    assert "No cache at" in shown.display.message


def test_a_share_of_the_particles_is_the_same_in_every_frame(
    bpy: Any, splash: Path, system: Any
) -> None:
    """Viewport percentage: about that many, and those that were there before stay."""
    from blender_addon.deliver import playback

    scene, shown = bpy.context.scene, system(splash)
    shown.display.percentage = 30.0
    scene.frame_set(5)
    playback.show(shown, scene)
    before = set(read(shown.display.points, "id").tolist())
    total = len(Cache.open(splash).read(5, ["id"])["id"])
    assert len(before) == pytest.approx(0.3 * total, rel=0.1)
    scene.frame_set(6)
    assert before <= set(read(shown.display.points, "id").tolist())
    shown.display.size = 2.0
    radius = Cache.open(splash).read(6, ["radius"])["radius"][0]
    assert read(shown.display.points, "radius")[0] == pytest.approx(2 * radius)


def test_renders_show_all_particles_whatever_the_viewport_does(
    bpy: Any, splash: Path, system: Any, tmp_path: Path
) -> None:
    """The share for renders holds while rendering, the viewport's before and after."""
    from blender_addon.deliver import playback

    scene, shown = bpy.context.scene, system(splash)
    shown.display.percentage = 10.0
    scene.frame_set(5)
    playback.show(shown, scene)
    total, seen = len(Cache.open(splash).read(5, ["id"])["id"]), []

    def look(*_: Any) -> None:
        seen.append(count(bpy.context.scene.shown_caches[0].display.points))

    assert count(shown.display.points) < 0.2 * total
    scene.render.engine, scene.cycles.samples = "CYCLES", 1
    scene.render.resolution_x = scene.render.resolution_y = 8
    scene.render.filepath = str(tmp_path / "picture.png")
    scene.camera = bpy.data.objects.new("camera", bpy.data.cameras.new("camera"))
    scene.collection.objects.link(scene.camera)
    bpy.app.handlers.render_post.append(look)
    bpy.ops.render.render(write_still=True)
    bpy.app.handlers.render_post.remove(look)
    assert seen == [total]
    scene.frame_set(5)
    assert count(shown.display.points) < 0.2 * total
    assert scene.render.use_lock_interface


def test_two_systems_do_not_disturb_each_other(
    bpy: Any, grown: Cache, splash: Path, system: Any
) -> None:
    from blender_addon.deliver import playback

    scene = bpy.context.scene
    system(grown.directory)
    system(splash)
    for held in scene.shown_caches:
        playback.show(held, scene)
    scene.frame_set(4)
    one, two = (held.display.points for held in scene.shown_caches)
    assert count(one) == 4
    assert count(two) == len(Cache.open(splash).read(4, ["id"])["id"])
    playback.hide(scene.shown_caches[0])
    assert scene.shown_caches[0].display.points is None
    assert two.name in scene.objects


def test_save_reload_and_a_moved_folder(
    bpy: Any, grown: Cache, system: Any, tmp_path: Path
) -> None:
    """A .blend finds its cache again, also after both were moved; particles are not saved in it."""
    from blender_addon.deliver import playback

    scene, shown = bpy.context.scene, system("//cache")
    file = tmp_path / "shot.blend"
    bpy.ops.wm.save_as_mainfile(filepath=str(file))
    scene.frame_set(4)
    playback.show(shown, scene)
    bpy.ops.wm.save_mainfile()
    assert count(shown.display.points) == 4  # back after saving
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    shutil.move(grown.directory, moved / "cache")
    shutil.move(file, moved / "shot.blend")
    bpy.ops.wm.open_mainfile(filepath=str(moved / "shot.blend"))
    shown = bpy.context.scene.shown_caches[0]
    assert count(shown.display.points) == 4
    bpy.context.scene.frame_set(5)
    assert count(shown.display.points) == 5
    assert shown.display.message == ""


def test_a_blend_stays_small(bpy: Any, splash: Path, system: Any, tmp_path: Path) -> None:
    """What is in the cache is not saved again."""
    from blender_addon.deliver import playback

    def size() -> int:
        bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "shot.blend"), compress=False)
        return (tmp_path / "shot.blend").stat().st_size

    scene, shown = bpy.context.scene, system(splash)
    playback.show(shown, scene)
    shown.display.enabled = False  # left as it is, and saved
    full = size()
    shown.display.enabled = True
    assert size() < full - 20 * count(shown.display.points)


def test_undo_brings_no_old_frame_back(bpy: Any, grown: Cache, system: Any) -> None:
    """After undo and redo the current frame is shown, in the objects of the restored file."""
    from blender_addon.deliver import playback

    scene = bpy.context.scene
    playback.show(system(grown.directory), scene)
    scene.frame_set(2)
    bpy.ops.ed.undo_push(message="two")
    bpy.context.scene.frame_set(3)
    bpy.context.scene.shown_caches[0].display.size = 2.0
    bpy.ops.ed.undo_push(message="three")
    bpy.context.scene.frame_set(5)
    bpy.ops.ed.undo()
    held, now = bpy.context.scene.shown_caches[0], bpy.context.scene.frame_current
    assert count(held.display.points) == now
    bpy.context.scene.frame_set(4)
    assert count(bpy.context.scene.shown_caches[0].display.points) == 4


def test_units_and_axes(bpy: Any, tmp_path: Path, system: Any) -> None:
    """A scene in centimetres, and a cache whose up is y: points are where they belong."""
    from blender_addon.deliver import playback

    arrays = {
        "position": np.array([[1, 2, 3]], np.float32),
        "radius": np.array([0.5], np.float32),
    }
    caches.write(tmp_path / "cache", {1: arrays}, up="y")
    scene, shown = bpy.context.scene, system(tmp_path / "cache")
    scene.unit_settings.scale_length = 0.01
    playback.show(shown, scene)
    bpy.context.view_layer.update()
    place = np.array(shown.display.points.matrix_world) @ (1, 2, 3, 1)
    np.testing.assert_allclose(place[:3], (100, -300, 200), rtol=1e-5)


def test_a_deleted_object_stays_deleted_until_it_is_asked_for(
    bpy: Any, grown: Cache, system: Any
) -> None:
    from blender_addon.deliver import playback

    scene, shown = bpy.context.scene, system(grown.directory)
    playback.show(shown, scene)
    for held in list(shown.display.points.users_collection):
        held.objects.unlink(shown.display.points)
    scene.frame_set(4)
    assert not shown.display.points.users_scene
    assert not shown.display.failed
    playback.show(shown, scene)
    assert count(shown.display.points) == 4
    assert shown.display.points.users_scene


class Layout:
    """Stands for a panel's layout: every property and operator that is drawn must exist."""

    def __init__(self, drawn: set[str]) -> None:
        self.drawn = drawn

    def column(self, **_: Any) -> Layout:
        return Layout(self.drawn)

    row = column

    def prop(self, data: Any, name: str, **_: Any) -> None:
        assert name in data.bl_rna.properties
        self.drawn.add(name)

    def operator(self, name: str, **_: Any) -> Any:
        import bpy

        family, verb = name.split(".")
        assert "system" in getattr(getattr(bpy.ops, family), verb).get_rna_type().properties
        self.drawn.add(name)
        return type("Given", (), {})()


def test_the_panel_offers_every_setting(bpy: Any, grown: Cache, system: Any) -> None:
    """All display settings and core's options for surfaces can be reached."""
    import dataclasses

    from blender_addon.deliver import display
    from runnel.surface import SurfaceOptions

    shown, drawn = system(grown.directory), set()
    for by in ("FLUID", "SPEED", "CHANNEL"):
        shown.display.color_by = by
        shown.display.color_auto = shown.display.all_channels = by == "FLUID"
        display.draw(Layout(drawn), shown)
    hidden = {"rna_type", "name", "points", "surfaces", "message", "failed", "meshing"}
    assert {item.identifier for item in shown.display.bl_rna.properties} - hidden <= drawn
    options = {item.name for item in dataclasses.fields(SurfaceOptions)}
    assert options - drawn == {"format", "jobs", "each_fluid"}
    assert "runnel.make_surface" in drawn
