"""Objects of Blender as core's scene: what leaves is what Blender itself evaluates, in metres."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runnel.estimate import warnings
from runnel.export.bgeo import write_bgeo
from runnel.export.geometry import Geometry
from runnel.forces import forces_at
from runnel.meshes import read_mesh
from runnel.motion import frame_time, motion_of
from runnel.sources import Emitter
from tests.blender.shots import bent_arm, curves


@pytest.fixture
def shot(addon: Any, bpy: Any, tmp_path: Path) -> Any:
    """A scene of four frames with a system and a ball of fluid."""
    return Shot(bpy, tmp_path)


class Shot:
    def __init__(self, bpy: Any, folder: Path) -> None:
        from blender_addon import properties

        self.bpy, self.folder, self.scene = bpy, folder, bpy.context.scene
        self.scene.frame_end = 4
        self.system = properties.add_system(self.scene)
        self.system.spacing = 0.1
        self.water = self.ball("Water", radius=0.5, location=(0, 0, 3))
        self.water.runnel.role = "FLUID"

    def ball(self, name: str, **how: Any) -> Any:
        self.bpy.ops.mesh.primitive_uv_sphere_add(segments=12, ring_count=8, **how)
        return self._named(name)

    def cube(
        self, name: str, role: str = "COLLIDER", scale: tuple[float, ...] = (1, 1, 1), **how: Any
    ) -> Any:
        self.bpy.ops.mesh.primitive_cube_add(**how)
        made = self._named(name)
        made.scale = scale
        made.runnel.role = role
        return made

    def _named(self, name: str) -> Any:
        self.bpy.context.object.name = name
        return self.bpy.context.object

    def export(self) -> Any:
        from blender_addon.gather import gather

        export = gather(self.bpy.context, self.system, self.folder)
        export.check()
        return export

    def part(self, export: Any, kind: str, name: str) -> Any:
        return next(p for p in getattr(export.scene, f"{kind}s") if p.name == name)

    def exported(self, export: Any, kind: str, name: str, frame: int) -> np.ndarray:
        """Vertices of a part at a frame [m], as core will see them."""
        scene, part = export.scene, self.part(export, kind, name)
        path = scene.mesh_path(part.shape, frame if part.shape.is_sequence else None)
        pose = motion_of(part, scene).pose(frame_time(frame, scene))
        return np.unique(pose.to_world(read_mesh(path).vertices).round(5), axis=0)

    def evaluated(self, name: str, frame: int) -> np.ndarray:
        """Vertices of an object at a frame, as Blender has them [Blender's units]."""
        self.scene.frame_set(frame)
        depsgraph = self.bpy.context.evaluated_depsgraph_get()
        obj = self.scene.objects[name].evaluated_get(depsgraph)
        mesh = obj.to_mesh()
        points = [obj.matrix_world @ vertex.co for vertex in mesh.vertices]
        return np.unique(np.array(points).round(5), axis=0)

    def check_all_frames(self, export: Any, kind: str, name: str) -> None:
        for frame in range(1, 5):
            np.testing.assert_allclose(
                self.exported(export, kind, name, frame), self.evaluated(name, frame), atol=3e-5
            )


def test_still_objects_are_meshes_in_the_world(shot: Shot) -> None:
    """Modifiers, a parent that is turned, uneven scale, and a mirror that turns faces around."""
    parent = shot.cube("Parent", role="NONE", location=(1, 2, 0), rotation=(0.3, 0.2, 0.1))
    tank = shot.cube("Tank", size=1.0, scale=(1, 2, 0.5), rotation=(0, 0.4, 0))
    tank.parent = parent
    tank.modifiers.new("Array", "ARRAY").count = 2
    flipped = shot.cube("Flipped", scale=(-1, 1, 1), location=(5, 0, 0))
    export = shot.export()
    assert flipped.matrix_world.determinant() < 0
    shot.check_all_frames(export, "collider", "Tank")
    shot.check_all_frames(export, "source", "Water")
    assert shot.part(export, "collider", "Tank").body == "static"
    mesh = read_mesh(export.scene.mesh_path(shot.part(export, "collider", "Flipped").shape))
    assert mesh.volume() == pytest.approx(8.0)
    assert export.notes == []


def test_what_moves_as_a_whole_is_a_mesh_and_keyframes(shot: Shot) -> None:
    """A spinning paddle of uneven scale, parented to an empty that travels."""
    shot.bpy.ops.object.empty_add()
    carrier = shot.bpy.context.object
    paddle = shot.cube("Paddle", scale=(2, 0.2, 1), location=(0, 0, 1))
    paddle.parent = carrier
    for frame in (1, 4):
        carrier.location = (frame, 0, 0.5 * frame)
        carrier.keyframe_insert("location", frame=frame)
        paddle.rotation_euler = (0.2, 0, 0.9 * frame)
        paddle.keyframe_insert("rotation_euler", frame=frame)
    export = shot.export()
    assert shot.scene.frame_current == 1
    part = shot.part(export, "collider", "Paddle")
    assert part.body == "animated"
    assert len(part.motion) == 4
    assert not part.shape.is_sequence
    shot.check_all_frames(export, "collider", "Paddle")


def test_spinning_goes_on_past_half_a_turn(shot: Shot) -> None:
    """70 degrees a frame: half way between two frames it is half way there, not back by 290."""
    wheel = shot.cube("Wheel", location=(1, 0, 0))
    for frame in (1, 4):
        wheel.rotation_euler = (0, 0, math.radians(70 * frame))
        wheel.keyframe_insert("rotation_euler", frame=frame)
    for curve in curves(wheel.animation_data.action):
        for key in curve.keyframe_points:
            key.interpolation = "LINEAR"
    export = shot.export()
    motion = motion_of(shot.part(export, "collider", "Wheel"), export.scene)
    for frame in (1.5, 2.5, 3.5):
        turned = motion.pose(frame_time(frame, export.scene)).rotation
        angle = math.degrees(math.atan2(turned[1, 0], turned[0, 0]))
        assert angle % 360 == pytest.approx(70 * (frame - 1), abs=1e-2)


def test_emitters_deform_and_turn_with_their_object(shot: Shot) -> None:
    """A disc that grows while it is carried and turned: a slab a frame in the object's own axes."""
    shot.bpy.ops.mesh.primitive_circle_add(fill_type="NGON", radius=0.4)
    tap = shot._named("Tap")
    tap.runnel.role = "EMITTER"
    tap.runnel.source.velocity = (0, 0, 2)
    for frame in (1, 4):
        tap.scale = (frame, frame, 1)
        tap.location.x = frame
        tap.rotation_euler.y = math.radians(30 * (frame - 1))
        for channel in ("scale", "location", "rotation_euler"):
            tap.keyframe_insert(channel, frame=frame)
    export = shot.export()
    assert export.notes == []
    source = shot.part(export, "source", "Tap")
    assert source.shape.is_sequence
    assert source.velocity == pytest.approx((0, 0, 2))
    motion = motion_of(source, export.scene)
    for frame in (1, 4):
        mesh = read_mesh(export.scene.mesh_path(source.shape, frame))
        low, high = mesh.bounds
        assert mesh.is_closed
        assert (high - low)[:2] == pytest.approx((0.8 * frame, 0.8 * frame), rel=1e-3)
        assert (high - low)[2] == pytest.approx(source.spacing, rel=1e-5)
        pose = motion.pose(frame_time(frame, export.scene))
        assert pose.translation == pytest.approx((frame, 0, 0), abs=1e-5)
        angle = math.radians(30 * (frame - 1))
        way = (2 * math.sin(angle), 0, 2 * math.cos(angle))
        assert pose.turn((0, 0, 2)) == pytest.approx(way, abs=1e-4)


def test_an_emitter_may_grow_from_a_point(shot: Shot) -> None:
    """A disc and a cube, both of no size at first; what flows depends on what they become."""
    shot.bpy.ops.mesh.primitive_circle_add(fill_type="NGON", radius=0.4)
    made = [shot._named("Disc"), shot.cube("Cube", role="EMITTER", location=(3, 0, 0))]
    for thing in made:
        thing.runnel.role = "EMITTER"
        thing.runnel.source.velocity = (0, 0, 2)
        for frame, size in ((1, 0.0), (4, 1.0)):
            thing.scale = (size, size, size)
            thing.keyframe_insert("scale", frame=frame)
    export = shot.export()
    assert warnings(export.scene) == []
    sources = [source.name for source in export.scene.sources]
    emitters = [Emitter(export.scene, sources.index(thing.name)) for thing in made]
    for emitter, least, most in zip(emitters, (30, 200), (130, 1200), strict=True):
        early, late = emitter.emit(0, 1 / 24), emitter.emit(1 / 24, 3 / 24)
        assert len(early["phase"]) < len(late["phase"])
        assert least < len(late["phase"]) < most


def test_a_volume_that_deforms_passes_its_motion_on_if_asked(shot: Shot) -> None:
    for frame in (1, 4):
        shot.water.scale = (1, 1, frame)
        shot.water.keyframe_insert("scale", frame=frame)
    assert [note.object for note in shot.export().notes] == ["Water"]
    shot.water.runnel.source.inherit_velocity = 1.0
    export = shot.export()
    assert export.notes == []
    assert shot.part(export, "source", "Water").shape.is_sequence
    shot.check_all_frames(export, "source", "Water")


def test_force_fields_move_turn_and_are_keyframed(shot: Shot) -> None:
    """A wind that turns, a force that travels and grows from nothing, a vortex of our own."""
    bpy = shot.bpy
    made = {}
    for kind in ("WIND", "FORCE"):
        bpy.ops.object.effector_add(type=kind)
        made[kind] = shot._named(kind.title())
    own = shot.cube("Own", role="FORCE")
    own.runnel.force.kind = "vortex"
    for frame in (1, 4):
        made["WIND"].rotation_euler.y = math.radians(30 * (frame - 1))
        made["WIND"].keyframe_insert("rotation_euler", frame=frame)
        made["FORCE"].location.x = frame
        made["FORCE"].keyframe_insert("location", frame=frame)
        made["FORCE"].field.strength = 2.0 * (frame - 1)
        made["FORCE"].keyframe_insert("field.strength", frame=frame)
        own.runnel.force.strength = frame
        own.keyframe_insert("runnel.force.strength", frame=frame)
    made["WIND"].field.strength = 3.0
    export = shot.export()
    assert export.notes == []
    for frame, turn in ((1, 0.0), (4, math.pi / 2)):
        forces = {f.name: f for f in forces_at(export.scene, frame_time(frame, export.scene))}
        wind = (3 * math.sin(turn), 0, 3 * math.cos(turn))
        assert forces["Wind"].velocity == pytest.approx(wind, abs=1e-4)
        assert forces["Force"].center == pytest.approx((frame, 0, 0))
        assert forces["Force"].strength == pytest.approx(-2.0 * (frame - 1))
        assert forces["Own"].strength == pytest.approx(frame)
    assert [len(force.keyframes) for force in export.scene.forces] == [4, 4, 4]
    for thing in (own, *made.values()):
        thing.animation_data_clear()
    assert all(not force.keyframes for force in shot.export().scene.forces)


def test_the_reach_of_a_force_field_follows_its_animation(shot: Shot) -> None:
    """A force whose largest distance grows, and a wind that is let go of its own after a frame."""
    made = {}
    for kind in ("FORCE", "WIND"):
        shot.bpy.ops.object.effector_add(type=kind, location=(1, 0, 0))
        made[kind] = shot._named(kind.title())
        made[kind].field.strength = 2.0
    force, wind = made["FORCE"].field, made["WIND"].field
    force.use_max_distance = True
    for frame in (1, 4):
        force.distance_max = frame
        made["FORCE"].keyframe_insert("field.distance_max", frame=frame)
    wind.distance_max = 5.0
    for frame, limited in ((1, True), (3, False)):
        wind.use_max_distance = limited
        made["WIND"].keyframe_insert("field.use_max_distance", frame=frame)
    export = shot.export()
    assert export.notes == []
    for frame, reach in ((1, 5.0), (2, 5.0), (3, None), (4, None)):
        forces = {f.name: f for f in forces_at(export.scene, frame_time(frame, export.scene))}
        assert forces["Wind"].radius == reach
        assert forces["Wind"].center == (1, 0, 0)
        if frame in (1, 4):
            assert forces["Force"].radius == pytest.approx(frame)
    made["WIND"].animation_data_clear()
    wind.use_max_distance = False
    still = next(f for f in shot.export().scene.forces if f.name == "Wind")
    assert (still.keyframes, still.center) == ((), (0, 0, 0))


def test_what_deforms_is_a_mesh_a_frame(shot: Shot) -> None:
    """Shape keys and armatures; still objects beside them stay one mesh."""
    bent = shot.cube("Bent")
    bent.shape_key_add(name="Basis")
    key = bent.shape_key_add(name="Up")
    for vertex in list(key.data)[:4]:
        vertex.co.z += 0.7
    for frame, value in ((1, 0.0), (4, 1.0)):
        key.value = value
        key.keyframe_insert("value", frame=frame)
    growing = shot.cube("Growing", location=(4, 0, 0))
    for frame in (1, 4):
        growing.scale = (frame, 1, 1)
        growing.keyframe_insert("scale", frame=frame)
    bent_arm(shot.bpy, length=2.0, width=0.3, last=4, angle=0.6)
    export = shot.export()
    for name in ("Bent", "Growing", "Arm"):
        part = shot.part(export, "collider", name)
        assert part.shape.is_sequence
        assert export.scene.mesh_frames(part.shape) == [1, 2, 3, 4]
        shot.check_all_frames(export, "collider", name)
    assert export.notes == []
    before, after = (shot.exported(export, "collider", "Arm", frame) for frame in (1, 4))
    assert np.abs(before - after).max() > 0.2


def test_instances_are_part_of_their_object(shot: Shot) -> None:
    """A collection that is instanced twice: three cubes, one collider."""
    bpy = shot.bpy
    cube = shot.cube("Stone", size=1.0)
    held = bpy.data.collections.new("Stones")
    shot.scene.collection.children.link(held)
    held.objects.link(cube)
    for x in (3.0, 6.0):
        bpy.ops.object.collection_instance_add(collection="Stones", location=(x, 0, 0))
        bpy.context.object.scale = (1, 2, 1)
    export = shot.export()
    found = shot.exported(export, "collider", "Stone", 1)
    assert len(found) == 24
    assert sorted(set(found[:, 0])) == [-0.5, 0.5, 2.5, 3.5, 5.5, 6.5]
    assert found[found[:, 0] > 2, 1].max() == pytest.approx(1.0)


def test_units_frame_rate_and_gravity_are_the_scenes(shot: Shot) -> None:
    """A file in centimetres at 29.97 frames a second: lengths, speeds and gravity arrive in SI."""
    scene = shot.scene
    scene.unit_settings.scale_length = 0.01
    scene.render.fps, scene.render.fps_base = 30, 1.001
    scene.gravity = (0, 0, -500)
    shot.water.runnel.source.velocity = (100, 0, 0)
    shot.system.spacing = 0.1
    export = shot.export()
    assert export.scene.fps == pytest.approx(30 / 1.001)
    assert export.scene.solver.gravity == pytest.approx((0, 0, -5.0))
    source = shot.part(export, "source", "Water")
    assert source.spacing == pytest.approx(0.001)
    assert source.velocity == pytest.approx((1.0, 0, 0))
    low, high = read_mesh(export.scene.mesh_path(source.shape)).bounds
    assert (high - low)[2] == pytest.approx(0.01)
    scene.use_gravity = False
    assert shot.export().scene.solver.gravity == (0, 0, 0)


def test_hidden_objects_take_part_and_stay_hidden(shot: Shot) -> None:
    """Collision geometry is often hidden, by itself or with its collection."""
    bpy = shot.bpy
    eye, screen, folder = (shot.cube(name) for name in ("Eye", "Screen", "Folder"))
    hidden = bpy.data.collections.new("Hidden")
    shot.scene.collection.children.link(hidden)
    shot.scene.collection.objects.unlink(folder)
    hidden.objects.link(folder)
    eye.hide_set(True)
    screen.hide_viewport = True
    bpy.context.view_layer.layer_collection.children["Hidden"].hide_viewport = True
    export = shot.export()
    assert {part.name for part in export.scene.colliders} == {"Eye", "Screen", "Folder"}
    assert eye.hide_get()
    assert screen.hide_viewport
    assert bpy.context.view_layer.layer_collection.children["Hidden"].hide_viewport


def test_emitters_point_with_their_object(shot: Shot) -> None:
    """A disc, turned onto its side: a closed slab whose stream goes along its own Z."""
    shot.bpy.ops.mesh.primitive_circle_add(
        fill_type="NGON", radius=0.4, rotation=(0, math.pi / 2, 0)
    )
    tap = shot._named("Tap")
    tap.runnel.role = "EMITTER"
    tap.runnel.source.velocity = (0, 0, 2)
    tap.runnel.source.use_frames = True
    tap.runnel.source.frames = (2, 3)
    export = shot.export()
    source = shot.part(export, "source", "Tap")
    assert source.kind == "emitter"
    assert source.velocity == pytest.approx((2, 0, 0), abs=1e-6)
    assert source.frames == (2, 3)
    mesh = read_mesh(export.scene.mesh_path(source.shape))
    assert mesh.is_closed
    area = 0.5 * 32 * 0.4**2 * math.sin(2 * math.pi / 32)
    assert mesh.volume() == pytest.approx(area * source.spacing, rel=1e-4)


def test_bodies_sinks_and_a_domain(shot: Shot) -> None:
    crate = shot.cube("Crate", "RIGID", size=0.6, location=(0, 0, 1))
    crate.runnel.collider.density = 300
    crate.runnel.collider.lock_rotation = {"x", "z"}
    thrown = shot.cube("Thrown", "RIGID", size=0.6, location=(2, 0, 1))
    for frame, x in ((1, 2.0), (3, 3.0)):
        thrown.location.x = x
        thrown.keyframe_insert("location", frame=frame)
    shot.bpy.ops.mesh.primitive_grid_add(size=1, location=(0, 0, 2))
    cloth = shot._named("Cloth")
    cloth.runnel.role, cloth.runnel.collider.mode = "SOFT", "shell"
    shot.bpy.ops.object.empty_add(type="CUBE", location=(0.5, 0, 2), radius=0.1)
    cloth.runnel.collider.pin = shot.bpy.context.object
    shot.cube("Drain", "SINK", size=0.5, location=(0, 0, -1))
    walls = shot.cube("Walls", "DOMAIN", size=8)
    walls.runnel.domain.mode = "close"
    scene = shot.export().scene
    parts = {part.name: part for part in scene.colliders}
    assert {name: part.body for name, part in parts.items()} == {
        "Crate": "rigid",
        "Thrown": "rigid",
        "Cloth": "deformable",
    }
    assert parts["Crate"].density == 300
    assert parts["Crate"].lock_rotation == ("x", "z")
    assert parts["Crate"].motion == ()
    assert parts["Thrown"].motion[-1].frame == 3  # free from there on
    assert parts["Cloth"].pin.max == pytest.approx((0.6, 0.1, 2.1))
    assert [sink.name for sink in scene.sinks] == ["Drain"]
    assert (scene.domain.min, scene.domain.max) == ((-4, -4, -4), (4, 4, 4))
    assert scene.domain.mode == "close"


def test_velocity_fields_are_files(shot: Shot, tmp_path: Path) -> None:
    """Copied beside the meshes, frame by frame; without a file the force is left out, and said."""
    for frame in (1, 2):
        place = np.zeros((1, 3), np.float32)
        columns = {"P": place, "v": place + np.float32(frame)}
        write_bgeo(tmp_path / f"gust_{frame:04d}.bgeo", Geometry(1, points=columns))
    shot.bpy.ops.object.empty_add()
    empty = shot._named("Gust")
    empty.runnel.role = "FORCE"
    force = empty.runnel.force
    force.kind, force.use_voxel_size, force.voxel_size = "field", True, 0.5
    export = shot.export()
    assert export.scene.forces == ()
    assert "missing_field" in [note.kind for note in export.notes]
    force.field = str(tmp_path / "gust_####.bgeo")
    (found,) = shot.export().scene.forces
    assert (found.kind, found.voxel_size) == ("field", 0.5)
    files = shot.export().scene.files()
    assert [f.name for f in files if f.suffix == ".bgeo"] == ["gust_0001.bgeo", "gust_0002.bgeo"]
    force.field = str(tmp_path / "gust_0002.bgeo")
    (found,) = shot.export().scene.forces
    assert found.field.startswith("meshes/gust_0002-")
    force.kind = "drag"
    (found,) = shot.export().scene.forces
    assert found.field is None


def test_force_fields_of_blender(shot: Shot) -> None:
    """Wind, force, vortex and drag; Blender's force repels where core's attracts."""
    ops = shot.bpy.ops.object
    for kind in ("WIND", "FORCE", "VORTEX", "DRAG", "MAGNET"):
        ops.effector_add(type=kind, location=(1, 0, 0), rotation=(0, math.pi / 2, 0))
        field = shot._named(kind.title()).field
        field.strength = 3.0
        if kind == "DRAG":
            field.linear_drag, field.quadratic_drag = 0.4, 0.1
        if kind == "FORCE":
            field.use_max_distance, field.distance_max = True, 2.0
    export = shot.export()
    forces = {force.kind: force for force in export.scene.forces}
    assert set(forces) == {"wind", "point", "vortex", "drag"}
    assert forces["wind"].velocity == pytest.approx((3, 0, 0), abs=1e-5)
    assert (forces["point"].strength, forces["point"].radius) == (-3, 2)
    assert forces["point"].center == (1, 0, 0)
    assert forces["vortex"].axis == pytest.approx((1, 0, 0), abs=1e-5)
    assert forces["drag"].strength == pytest.approx(0.4)
    assert any("quadratic drag" in note.text for note in export.notes)
    shot.system.use_force_fields = False
    assert shot.export().scene.forces == ()


def test_friction_by_vertex_group_and_wet_maps_by_texture(shot: Shot) -> None:
    """Weights go along as an attribute of the vertices, texture coordinates as s and t."""
    from runnel.mesh_formats import ply_values

    cube = shot.cube("Cube")
    group = cube.vertex_groups.new(name="rough")
    group.add([0, 1], 0.5, "REPLACE")
    collider = cube.runnel.collider
    collider.friction, collider.friction_map, collider.wet_map = 0.8, "rough", "png"
    export = shot.export()
    part = shot.part(export, "collider", "Cube")
    values = ply_values(export.scene.mesh_path(part.shape).read_bytes())
    assert part.friction_map == "rough"
    assert sorted(set(values["rough"].round(3).tolist())) == [0.0, 0.5]
    assert {"s", "t"} <= set(values)
    assert len(values["s"]) > 8  # split at seams


def test_what_leaves_is_the_same_each_time(shot: Shot) -> None:
    """Digest and files; a moved vertex is another scene."""
    cube = shot.cube("Cube")
    first = shot.export()
    files = sorted(path.name for path in (shot.folder / "meshes").iterdir())
    again = shot.export()
    assert again.scene.digest() == first.scene.digest()
    assert sorted(path.name for path in (shot.folder / "meshes").iterdir()) == files
    cube.data.vertices[0].co.x += 0.01
    assert shot.export().scene.digest() != first.scene.digest()


def test_names_that_core_does_not_take(shot: Shot) -> None:
    shot.cube("a/b\\c")
    shot.cube("..")
    names = [part.name for part in shot.export().scene.colliders]
    assert "a_b_c" in names
    assert len(set(names)) == 2


def test_instances_of_geometry_nodes_take_the_role_of_their_object(shot: Shot) -> None:
    """A cube at each of the four corners of a plane, made by nodes; the plane itself is gone."""
    bpy = shot.bpy
    bpy.ops.mesh.primitive_plane_add(size=4)
    plane = shot._named("Scatter")
    plane.runnel.role = "COLLIDER"
    tree = bpy.data.node_groups.new("Scatter", "GeometryNodeTree")
    for way in ("INPUT", "OUTPUT"):
        tree.interface.new_socket("Geometry", in_out=way, socket_type="NodeSocketGeometry")
    nodes = [
        tree.nodes.new(kind)
        for kind in (
            "NodeGroupInput",
            "GeometryNodeInstanceOnPoints",
            "NodeGroupOutput",
            "GeometryNodeMeshCube",
        )
    ]
    given, spread, result, cube = nodes
    tree.links.new(given.outputs[0], spread.inputs["Points"])
    tree.links.new(cube.outputs[0], spread.inputs["Instance"])
    tree.links.new(spread.outputs[0], result.inputs[0])
    plane.modifiers.new("Nodes", "NODES").node_group = tree
    found = shot.exported(shot.export(), "collider", "Scatter", 1)
    assert len(found) == 32
    assert sorted(set(found[:, 0])) == [-2.5, -1.5, 1.5, 2.5]
