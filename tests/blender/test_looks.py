"""The quick look that marks a take as stale: what it sees, and what it must not mind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def thing(addon: Any, bpy: Any) -> Any:
    """A collider to hang things on."""
    bpy.ops.mesh.primitive_cube_add()
    bpy.context.object.runnel.role = "COLLIDER"
    return bpy.context.object


def look(bpy: Any) -> str:
    from blender_addon import fingerprint

    bpy.context.view_layer.update()  # handles of curves follow their points
    return fingerprint.of(bpy.context.scene.runnel.active_system())


def sees(bpy: Any, change: Callable[[], Any]) -> None:
    """A change is seen; the frame alone is none."""
    before = look(bpy)
    for frame in (3, 1):
        bpy.context.scene.frame_set(frame)
        assert look(bpy) == before
    change()
    assert look(bpy) != before


def scatter(bpy: Any, name: str = "Scatter") -> Any:
    """A group of nodes that puts a cube, of a size that is an input, on each point."""
    tree = bpy.data.node_groups.new(name, "GeometryNodeTree")
    for way, title, kind in (("INPUT", "Geometry", "Geometry"), ("INPUT", "Size", "Float"),
                             ("OUTPUT", "Geometry", "Geometry")):  # fmt: skip
        tree.interface.new_socket(title, in_out=way, socket_type=f"NodeSocket{kind}")
    given, spread, result, cube = (
        tree.nodes.new(kind)
        for kind in ("NodeGroupInput", "GeometryNodeInstanceOnPoints", "NodeGroupOutput",
                     "GeometryNodeMeshCube")
    )  # fmt: skip
    spread.name, cube.name = "Spread", "Made"
    tree.links.new(given.outputs[0], spread.inputs["Points"])
    tree.links.new(given.outputs[1], spread.inputs["Scale"])
    tree.links.new(cube.outputs[0], spread.inputs["Instance"])
    tree.links.new(spread.outputs[0], result.inputs[0])
    return tree


def set_input(modifier: Any, value: float) -> None:
    """Of the group's input, which each version keeps elsewhere."""
    name = modifier.node_group.interface.items_tree["Size"].identifier
    if hasattr(modifier, "properties"):
        getattr(modifier.properties.inputs, name).value = value
    else:
        modifier[name] = value


def test_groups_of_nodes(thing: Any, bpy: Any) -> None:
    """Inputs of the modifier, values in the group, links, a group within, an object it names."""
    tree = scatter(bpy)
    modifier = thing.modifiers.new("Nodes", "NODES")
    modifier.node_group = tree
    sees(bpy, lambda: set_input(modifier, 0.5))
    cube = tree.nodes["Made"]
    sees(bpy, lambda: setattr(cube.inputs["Size"], "default_value", (1, 2, 3)))
    spread = tree.nodes["Spread"]
    sees(bpy, lambda: setattr(spread.inputs["Pick Instance"], "default_value", True))
    sees(bpy, lambda: tree.links.remove(spread.inputs["Scale"].links[0]))
    inner = tree.nodes.new("GeometryNodeGroup")
    inner.node_tree = scatter(bpy, "Inner")
    made = inner.node_tree.nodes["Made"]
    sees(bpy, lambda: setattr(made.inputs["Vertices X"], "default_value", 5))
    info = tree.nodes.new("GeometryNodeObjectInfo")
    bpy.ops.mesh.primitive_cube_add()
    other = bpy.context.object
    info.inputs["Object"].default_value = other
    sees(bpy, lambda: setattr(info, "transform_space", "RELATIVE"))
    sees(bpy, lambda: setattr(other.data.vertices[0].co, "x", 7.0))
    sees(bpy, lambda: setattr(other, "location", (1, 2, 3)))


def test_simulations(thing: Any, bpy: Any) -> None:
    """Cloth, what it collides with and the wind's share; rigid bodies; particles."""
    cloth = thing.modifiers.new("Cloth", "CLOTH")
    sees(bpy, lambda: setattr(cloth.settings, "mass", 2.0))
    sees(bpy, lambda: setattr(cloth.collision_settings, "distance_min", 0.1))
    sees(bpy, lambda: setattr(cloth.settings.effector_weights, "wind", 0.5))
    thing.modifiers.new("Particles", "PARTICLE_SYSTEM")
    sees(bpy, lambda: setattr(thing.particle_systems[0].settings, "count", 7))
    bpy.ops.rigidbody.world_add()
    bpy.context.view_layer.objects.active = thing
    bpy.ops.rigidbody.object_add()
    sees(bpy, lambda: setattr(thing.rigid_body, "mass", 3.0))
    sees(bpy, lambda: setattr(bpy.context.scene.rigidbody_world, "time_scale", 0.5))


def test_data_of_all_kinds_and_what_modifiers_name(thing: Any, bpy: Any) -> None:
    """Texts, curves, a lattice, rest bones, the cutter of a boolean, a texture."""
    bpy.ops.object.text_add()
    words = bpy.context.object
    words.runnel.role = "FLUID"
    sees(bpy, lambda: setattr(words.data, "body", "Splash"))
    bpy.ops.curve.primitive_bezier_circle_add()
    ring = bpy.context.object
    ring.runnel.role = "COLLIDER"
    sees(bpy, lambda: setattr(ring.data.splines[0].bezier_points[0].co, "x", 4.0))
    sees(bpy, lambda: setattr(ring.data, "bevel_depth", 0.2))
    bpy.ops.object.metaball_add()
    drop = bpy.context.object
    drop.runnel.role = "FLUID"
    sees(bpy, lambda: setattr(drop.data.elements[0], "radius", 3.0))
    bpy.ops.mesh.primitive_cube_add()
    cutter = bpy.context.object
    thing.modifiers.new("Boolean", "BOOLEAN").object = cutter
    sees(bpy, lambda: setattr(cutter.data.vertices[0].co, "x", 7.0))
    bpy.ops.object.add(type="LATTICE")
    cage = bpy.context.object
    thing.modifiers.new("Lattice", "LATTICE").object = cage
    sees(bpy, lambda: setattr(cage.data.points[0].co_deform, "x", 2.0))
    texture = bpy.data.textures.new("Bumps", "CLOUDS")
    thing.modifiers.new("Displace", "DISPLACE").texture = texture
    sees(bpy, lambda: setattr(texture, "noise_scale", 0.9))


def test_what_changes_no_shape_is_not_minded(thing: Any, bpy: Any) -> None:
    """Folded panels, places of nodes, selections, edit mode, a keyframed input that plays."""
    tree = scatter(bpy)
    modifier = thing.modifiers.new("Nodes", "NODES")
    modifier.node_group = tree
    size = tree.nodes["Made"].inputs["Size"]
    for frame in (1, 9):
        size.default_value = (frame, 1, 1)
        size.keyframe_insert("default_value", frame=frame)
    bevel = thing.modifiers.new("Bevel", "BEVEL")
    before = look(bpy)
    modifier.show_expanded = bevel.show_expanded = False
    tree.nodes["Made"].location = (300, 100)
    tree.nodes["Made"].select = False
    thing.select_set(False)
    bpy.context.scene.frame_set(5)
    bpy.context.view_layer.objects.active = thing
    bpy.ops.object.mode_set(mode="EDIT")
    assert look(bpy) == before
    bpy.ops.object.mode_set(mode="OBJECT")
    assert look(bpy) == before
    bevel.width = 0.3
    assert look(bpy) != before


def test_a_bake_with_nodes(thing: Any, bpy: Any, tmp_path: Path) -> None:
    """The look is written down when a bake starts, whatever hangs on its objects."""
    modifier = thing.modifiers.new("Nodes", "NODES")
    modifier.node_group = scatter(bpy)
    set_input(modifier, 0.5)
    bpy.ops.mesh.primitive_cube_add(size=0.3, location=(0, 0, 3))
    bpy.context.object.runnel.role = "FLUID"
    scene = bpy.context.scene
    scene.runnel.active_system().spacing, scene.frame_end = 0.1, 2
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "shot.blend"))
    assert bpy.ops.runnel.bake() == {"FINISHED"}
