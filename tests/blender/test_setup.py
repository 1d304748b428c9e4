"""Settings in a .blend: made from core's declarations; they survive what files go through."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runnel.params import PRESETS, Collider, Fluid, Force, Output, Sink, Solver, Source
from runnel.spec import specs

OLD_FILE = Path(__file__).parent / "scenes" / "settings_4_5.blend"
OLD_ROLES = ("FLUID", "EMITTER", "COLLIDER", "RIGID", "SOFT", "SINK", "FORCE", "DOMAIN")
OLD_SYSTEM = ("Flood", "cubic", "exact")
OLD_FLUIDS = [("water", "water"), ("topping", "honey"), ("cream", "milk")]


def cube(bpy: Any, name: str = "Cube", role: str = "FLUID", **how: Any) -> Any:
    bpy.ops.mesh.primitive_cube_add(**how)
    made = bpy.context.object
    made.name = name
    made.runnel.role = role
    return made


@pytest.mark.parametrize("cls", [Solver, Fluid, Source, Collider, Sink, Force, Output])
def test_every_knob_is_a_property_with_cores_default(addon: Any, bpy: Any, cls: type) -> None:
    """Untouched settings are core's own: what Blender exports then is no more than a name."""
    from blender_addon import knobs, properties

    system = properties.add_system(bpy.context.scene)
    thing = cube(bpy)
    groups = {Solver: system.solver, Fluid: system.fluids.add(), Output: system.output}
    group = groups.get(cls) or getattr(thing.runnel, properties.GROUPS.get(cls, ""))
    values = properties.values(group, cls, 1.0)
    for spec in knobs.knobs(cls):
        if spec.required or (spec.default is None and spec.name not in values):
            assert spec.name not in values or spec.choices
            continue
        default = list(spec.default) if isinstance(spec.default, tuple) else spec.default
        assert values[spec.name] == pytest.approx(default), spec.name
    hidden = set(knobs.FROM_HOST[cls])
    assert {spec.name for spec in specs(cls)} - hidden == {s.name for s in knobs.knobs(cls)}


def test_every_knob_of_a_role_is_in_a_panel() -> None:
    from blender_addon import knobs

    shown: dict[type, set[str]] = {}
    for section in (*knobs.SECTIONS.values(), knobs.FLUID, knobs.SOLVER, knobs.OUTPUT, knobs.WORLD):
        shown.setdefault(section.cls, set()).update(section.first + section.more)
    for cls, names in shown.items():
        assert names == {spec.name for spec in knobs.knobs(cls)}, cls.__name__


def test_ranges_units_and_help_are_cores(addon: Any, bpy: Any) -> None:
    source = cube(bpy).runnel.source
    spec = next(s for s in specs(Source) if s.name == "spacing")
    prop = source.bl_rna.properties["spacing"]
    assert (prop.hard_min, prop.soft_max) == pytest.approx((spec.hard[0], spec.soft[1]))
    assert prop.unit == "LENGTH"
    assert prop.description == spec.help_with_unit
    modes = cube(bpy).runnel.collider.bl_rna.properties["mode"].enum_items
    assert {item.identifier for item in modes} == {"outside", "inside", "shell"}


def test_presets_fill_a_fluid(addon: Any, bpy: Any) -> None:
    from blender_addon import properties

    system = properties.add_system(bpy.context.scene)
    fluid = system.fluids[0]
    fluid.preset = "honey"
    assert fluid.density == pytest.approx(PRESETS["honey"].density)
    assert fluid.viscosity == pytest.approx(PRESETS["honey"].viscosity)
    assert bpy.ops.runnel.fluid_add(preset="oil") == {"FINISHED"}
    assert [f.name for f in system.fluids] == ["water", "oil"]


def test_settings_survive_saving_and_loading(addon: Any, bpy: Any, tmp_path: Path) -> None:
    thing = cube(bpy, "Tank", "COLLIDER")
    thing.runnel.collider.friction = 0.4
    thing.runnel.collider.use_voxel_size = True
    system = bpy.context.scene.runnel.active_system()
    system.name, system.solver.tolerance = "Flood", 0.02
    uid = system.uid
    path = str(tmp_path / "shot.blend")
    bpy.ops.wm.save_as_mainfile(filepath=path)
    bpy.ops.wm.read_factory_settings(use_empty=True)
    bpy.ops.wm.open_mainfile(filepath=path)
    system = bpy.context.scene.runnel.active_system()
    assert (system.name, system.uid) == ("Flood", uid)
    assert system.solver.tolerance == pytest.approx(0.02)
    collider = bpy.data.objects["Tank"].runnel.collider
    assert collider.friction == pytest.approx(0.4)
    assert collider.use_voxel_size


def test_settings_of_an_older_blender_are_as_they_were(addon: Any, bpy: Any) -> None:
    """A file of 4.5: words among choices are kept by their numbers, which must not change."""
    bpy.ops.wm.open_mainfile(filepath=str(OLD_FILE))
    system = bpy.context.scene.runnel.active_system()
    roles = {obj.name: obj.runnel.role for obj in bpy.data.objects}
    assert roles == {role.title(): role for role in OLD_ROLES}
    assert (system.name, system.solver.kernel, system.solver.multiplier) == OLD_SYSTEM
    assert [(fluid.name, fluid.preset) for fluid in system.fluids] == OLD_FLUIDS
    assert system.output.channels == {"position", "velocity", "age"}
    collider = bpy.data.objects["Collider"].runnel.collider
    assert (collider.mode, collider.wet_map) == ("shell", "exr")
    assert collider.friction == pytest.approx(0.25)
    assert collider.lock_rotation == {"x", "z"}
    assert bpy.data.objects["Force"].runnel.force.kind == "vortex"
    assert bpy.data.objects["Domain"].runnel.domain.mode == "close"
    assert list(bpy.data.objects["Emitter"].runnel.source.frames) == [3, 40]


def write_old_file(bpy: Any) -> None:
    """How the file was made, by Blender 4.5.15."""
    from blender_addon import properties

    system = properties.add_system(bpy.context.scene)
    system.name, system.solver.kernel, system.solver.multiplier = OLD_SYSTEM
    for name, preset in OLD_FLUIDS[1:]:
        properties.add_fluid(system, preset).name = name
    system.output.channels = {"position", "velocity", "age"}
    for role in OLD_ROLES:
        obj = bpy.data.objects.new(role.title(), None)
        bpy.context.scene.collection.objects.link(obj)
        obj.runnel.role = role
    collider = bpy.data.objects["Collider"].runnel.collider
    collider.mode, collider.wet_map, collider.friction = "shell", "exr", 0.25
    collider.lock_rotation = {"x", "z"}
    bpy.data.objects["Force"].runnel.force.kind = "vortex"
    bpy.data.objects["Domain"].runnel.domain.mode = "close"
    bpy.data.objects["Emitter"].runnel.source.frames = (3, 40)
    bpy.ops.wm.save_as_mainfile(filepath=str(OLD_FILE), compress=True)


def test_duplicates_and_renaming(addon: Any, bpy: Any, tmp_path: Path) -> None:
    """A duplicate has the role; a fluid that is renamed takes its objects along."""
    from blender_addon.gather import gather

    thing = cube(bpy, "Drop")
    system = bpy.context.scene.runnel.active_system()
    bpy.ops.runnel.fluid_add(preset="honey")
    thing.runnel.fluid = "honey"
    system.fluids[1].name = "syrup of maple"
    assert thing.runnel.fluid == "syrup of maple"
    bpy.ops.object.duplicate()
    copy = bpy.context.object
    copy.location.x = 5
    thing.name = "Renamed"
    bpy.context.scene.frame_end = 1
    scene = gather(bpy.context, system, tmp_path).check()
    assert {source.name: source.fluid for source in scene.sources} == {
        "Renamed": "syrup of maple",
        copy.name: "syrup of maple",
    }


def test_undo_takes_back_a_role(addon: Any, bpy: Any) -> None:
    bpy.context.preferences.edit.use_global_undo = True
    cube(bpy, "Thing", "NONE")
    bpy.ops.ed.undo_push(message="before")
    bpy.ops.runnel.set_role(role="SINK")
    bpy.ops.ed.undo_push(message="role")
    assert bpy.data.objects["Thing"].runnel.role == "SINK"
    bpy.ops.ed.undo()
    assert bpy.data.objects["Thing"].runnel.role == "NONE"
    bpy.ops.ed.redo()
    assert bpy.data.objects["Thing"].runnel.role == "SINK"


def test_appended_objects_join_the_system_at_hand(addon: Any, bpy: Any, tmp_path: Path) -> None:
    """A tank from a library file: its role comes along, its system is not here."""
    from blender_addon import roles

    tank = cube(bpy, "Tank", "COLLIDER")
    tank.runnel.collider.mode = "inside"
    tank.runnel.system = bpy.context.scene.runnel.active_system().uid
    path = str(tmp_path / "library.blend")
    bpy.ops.wm.save_as_mainfile(filepath=path)
    bpy.ops.wm.read_factory_settings(use_empty=True)
    cube(bpy, "Water")
    bpy.ops.wm.append(directory=f"{path}/Object/", filename="Tank")
    system = bpy.context.scene.runnel.active_system()
    assert [obj.name for obj in roles.members(system)] == ["Tank", "Water"]
    assert bpy.data.objects["Tank"].runnel.collider.mode == "inside"


def test_two_systems_share_nothing_but_the_file(addon: Any, bpy: Any) -> None:
    from blender_addon import properties, roles

    scene = bpy.context.scene
    first, second = (properties.add_system(scene) for _ in range(2))
    assert (first.name, second.name) == ("Liquid", "Liquid 2")
    assert first.uid != second.uid
    assert first.cache_directory != second.cache_directory
    one, two = cube(bpy, "One"), cube(bpy, "Two")
    one.runnel.system, two.runnel.system = first.uid, second.uid
    assert [obj.name for obj in roles.members(scene.runnel.systems[0])] == ["One"]
    assert [obj.name for obj in roles.members(scene.runnel.systems[1])] == ["Two"]


def test_quick_liquid(addon: Any, bpy: Any, tmp_path: Path) -> None:
    """A click: the selection is liquid, in a box, of about as many particles as asked for."""
    from blender_addon.gather import gather

    bpy.ops.mesh.primitive_cube_add(size=2, location=(0, 0, 2))
    assert bpy.ops.runnel.quick_liquid(particles=8000) == {"FINISHED"}
    scene = bpy.context.scene
    system = scene.runnel.active_system()
    scene.frame_end = 1
    found = gather(bpy.context, system, tmp_path).check()
    assert found.estimate_particles() == pytest.approx(8000, rel=0.1)
    assert found.domain.mode == "close"
    assert found.domain.min[2] == 0.0
    assert found.domain.max[0] == pytest.approx(2.0)
    bpy.ops.object.select_all(action="DESELECT")
    assert bpy.ops.runnel.quick_liquid() == {"FINISHED"}
    assert len(scene.runnel.systems) == 1


def test_checks_find_what_is_not_meant_and_fix_it(addon: Any, bpy: Any) -> None:
    """Open, inside out, gravity of another world; each has a button, and then it is gone."""
    from blender_addon import preflight

    scene = bpy.context.scene
    water = cube(bpy, "Water", size=0.4, location=(0, 0, 2))
    bpy.ops.mesh.primitive_plane_add(size=4)
    floor = bpy.context.object
    floor.name, floor.runnel.role = "Floor", "COLLIDER"
    box = cube(bpy, "Box", "COLLIDER", size=0.5)
    for face in box.data.polygons:
        face.flip()
    bucket = cube(bpy, "Bucket", size=0.4, location=(0, 0, 3))
    cut(bpy, bucket)
    system = scene.runnel.active_system()
    system.spacing, scene.frame_end = 0.1, 2
    scene.unit_settings.scale_length = 0.1
    bpy.ops.runnel.check()
    check = preflight.of(system.uid)
    fixes = {(issue.object, issue.fix) for issue in check.issues if issue.fix}
    wanted = {("Floor", "shell"), ("Box", "normals"), ("Bucket", "holes"), ("", "gravity")}
    assert fixes >= wanted
    for name, fix in wanted:
        assert bpy.ops.runnel.fix(fix=fix, name=name) == {"FINISHED"}
    assert floor.runnel.collider.mode == "shell"
    assert scene.gravity[2] == pytest.approx(-98.1)
    bpy.ops.runnel.check()
    check = preflight.of(system.uid)
    assert {(issue.object, issue.fix) for issue in check.issues if issue.fix} == set()
    assert any("Save the .blend" in issue.text for issue in check.issues)
    assert check.estimate["particles"] > 100
    assert dict(preflight.cost(check.estimate)).keys() == {"Particles", "Memory", "Disk", "Time"}
    bpy.ops.runnel.select(name="Water")
    assert bpy.context.object == water


def cut(bpy: Any, obj: Any) -> None:
    """Take a face away."""
    import bmesh

    work = bmesh.new()
    work.from_mesh(obj.data)
    work.faces.ensure_lookup_table()
    bmesh.ops.delete(work, geom=[work.faces[0]], context="FACES")
    work.to_mesh(obj.data)
    work.free()


def test_checks_name_sources_in_solids_and_what_core_refuses(addon: Any, bpy: Any) -> None:
    from blender_addon import preflight

    scene = bpy.context.scene
    drop = cube(bpy, "Drop", size=0.4)
    cube(bpy, "Rock", "COLLIDER", size=1.0)
    cube(bpy, "Sheet", "COLLIDER", size=1.0, location=(0, 0, -3)).scale.z = 0.01
    system = scene.runnel.active_system()
    system.spacing, scene.frame_end = 0.1, 2
    bpy.ops.runnel.check()
    told = [(i.object, i.text) for i in preflight.of(system.uid).issues]
    assert any(name == "Drop" and "inside of the solid 'Rock'" in text for name, text in told)
    thin = [i for i in preflight.of(system.uid).issues if "thinner than two voxels" in i.text]
    assert [(i.object, i.fix) for i in thin] == [("Sheet", "shell")]
    drop.runnel.role = "EMITTER"
    bpy.ops.runnel.check()
    issues = preflight.of(system.uid).issues
    assert any(i.blocks and i.object == "Drop" and i.fix == "emit_down" for i in issues)
    bpy.ops.runnel.fix(fix="emit_down", name="Drop")
    assert tuple(drop.runnel.source.velocity) == pytest.approx((0, 0, -1))


def test_a_source_too_small_for_a_particle_gets_a_finer_spacing(addon: Any, bpy: Any) -> None:
    """Half of what its own system has, not the one that is active."""
    from blender_addon import preflight, properties

    scene = bpy.context.scene
    for name in ("Coarse", "Fine"):
        properties.add_system(scene, name)
    scene.runnel.systems[0].spacing, scene.runnel.systems[1].spacing = 0.2, 0.02
    bpy.ops.mesh.primitive_uv_sphere_add(radius=0.06)
    drop = bpy.context.object
    drop.name, drop.runnel.role = "Drop", "FLUID"
    drop.runnel.system = scene.runnel.systems[0].uid
    scene.runnel.active, scene.frame_end = 0, 1
    bpy.ops.runnel.check()
    issues = preflight.of(scene.runnel.systems[0].uid).issues
    assert ("Drop", "smaller") in [(issue.object, issue.fix) for issue in issues]
    scene.runnel.active = 1
    bpy.ops.runnel.fix(fix="smaller", name="Drop")
    assert drop.runnel.source.use_spacing
    assert drop.runnel.source.spacing == pytest.approx(0.1)
    scene.runnel.active = 0
    bpy.ops.runnel.check()
    issues = preflight.of(scene.runnel.systems[0].uid).issues
    assert [issue.fix for issue in issues if issue.fix] == []


def test_the_add_on_can_be_switched_off_and_on(bpy: Any) -> None:
    import blender_addon

    for _ in range(2):
        blender_addon.register()
        assert hasattr(bpy.types.Object, "runnel")
        blender_addon.unregister()
        assert not hasattr(bpy.types.Object, "runnel")
        assert not hasattr(bpy.types, "RUNNEL_PT_system")


def test_the_page_on_panels_is_fresh() -> None:
    from tests.tools.generated_docs import stale_pages

    assert stale_pages() == []


def test_a_copied_scene_has_systems_of_its_own(addon: Any, bpy: Any) -> None:
    from blender_addon import properties

    first = bpy.context.scene
    cube(bpy, "Water").runnel.system = properties.add_system(first, "Pool").uid
    bpy.ops.scene.new(type="FULL_COPY")
    second = bpy.context.scene
    assert second != first
    properties.tell_apart()
    ours, theirs = first.runnel.systems[-1], second.runnel.systems[-1]
    assert ours.uid != theirs.uid
    assert ours.cache_directory != theirs.cache_directory
    assert [obj.runnel.system for obj in second.objects] == [theirs.uid]
    assert [obj.runnel.system for obj in first.objects] == [ours.uid]


def test_a_look_sees_changed_keyframes_and_nothing_in_a_mere_change_of_frame(
    addon: Any, bpy: Any
) -> None:
    """Of the object, its parent, its rig, shape keys, constraints, drivers, fields, our forces."""
    from blender_addon import fingerprint, properties
    from tests.blender.shots import bent_arm, curves

    scene = bpy.context.scene
    system = properties.add_system(scene)
    arm = bent_arm(bpy, length=0.8, width=0.1, last=8, angle=0.5)
    rig = arm.modifiers["Armature"].object
    bpy.ops.object.empty_add()
    carrier = bpy.context.object
    arm.parent = carrier
    bpy.ops.object.empty_add()
    target = bpy.context.object
    carrier.constraints.new("COPY_LOCATION").target = target
    arm.shape_key_add(name="Basis")
    key = arm.shape_key_add(name="Wide")
    bpy.ops.object.effector_add(type="WIND")
    wind = bpy.context.object
    own = cube(bpy, "Own", "FORCE")
    for frame in (1, 8):
        key.value = 0.1 * frame
        key.keyframe_insert("value", frame=frame)
        target.location.x = frame
        target.keyframe_insert("location", frame=frame)
        wind.field.strength = frame
        wind.keyframe_insert("field.strength", frame=frame)
        own.runnel.force.strength = frame
        own.keyframe_insert("runnel.force.strength", frame=frame)
    driven = own.driver_add("location", 0)
    driven.driver.expression = "frame / 10"
    seen = fingerprint.of(system)
    for frame in (1, 5, 8):
        scene.frame_set(frame)
        assert fingerprint.of(system) == seen

    def change(what: Any) -> None:
        nonlocal seen
        what()
        now = fingerprint.of(system)
        assert now != seen
        seen = now

    for owner in (rig, arm.data.shape_keys, target, wind, own):
        curve = curves(owner.animation_data.action)[0]
        point = curve.keyframe_points[-1]
        change(lambda point=point: setattr(point, "co", (7.0, point.co[1])))
        change(lambda point=point: setattr(point, "interpolation", "CONSTANT"))
    change(lambda: setattr(driven.driver, "expression", "frame / 5"))
    change(lambda: setattr(carrier, "location", (0, 0, 1)))
    change(lambda: setattr(rig.pose.bones["Bone"], "rotation_euler", (0, 0, 1)))
    change(target.animation_data_clear)


def test_a_look_is_quick(addon: Any, bpy: Any) -> None:
    """A rig of 300 curves with a key a frame over 1000 frames: a panel may ask once a second."""
    import time

    import numpy as np

    from blender_addon import fingerprint

    thing = cube(bpy, "Thing", "COLLIDER")
    thing.location.x = 1
    thing.keyframe_insert("location", frame=1)
    for k in range(100):
        thing[f"p{k}"] = (0.0, 0.0, 0.0)
        thing.keyframe_insert(f'["p{k}"]', frame=1)
    from tests.blender.shots import curves

    for curve in curves(thing.animation_data.action):
        curve.keyframe_points.add(999)
        values = np.stack([np.arange(1000), np.zeros(1000)], axis=1).astype(np.float32)
        curve.keyframe_points.foreach_set("co", values.ravel())
    system = bpy.context.scene.runnel.active_system()
    spent = []
    for _ in range(3):
        start = time.process_time()
        fingerprint.of(system)
        spent.append(time.process_time() - start)
    assert min(spent) < 0.5  # and then no other for twenty times as long
