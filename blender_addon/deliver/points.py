# SPDX-FileCopyrightText: 2026 The Runnel authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Particles as a point cloud whose attributes are the cache's channels.

Blender 5.2 can change the size of a point cloud. Before it a mesh of loose vertices holds the
attributes, and a Geometry Nodes modifier turns it into points.
"""

from __future__ import annotations

from typing import Any

import bpy
import numpy as np

from . import attributes, materials, objects

MODIFIER = "Runnel Points"


def has_point_clouds() -> bool:
    """Whether scripts can make point clouds of any size."""
    return "resize" in bpy.types.PointCloud.bl_rna.functions


def make(system: Any, scene: bpy.types.Scene) -> bpy.types.Object:
    """The object that shows a system's particles, found or made."""
    shown = system.display.points
    if shown is not None:
        objects.relink(shown, scene)
        return shown
    name = f"{system.name} particles"
    if has_point_clouds():
        data: Any = bpy.data.pointclouds.new(name)
        shown = objects.new(name, data, system, scene, "points")
    else:
        data = bpy.data.meshes.new(name)
        shown = objects.new(name, data, system, scene, "points")
        shown.modifiers.new(MODIFIER, "NODES").node_group = _nodes()
    system.display.points = shown
    return shown


def fill(shown: bpy.types.Object, arrays: dict[str, Any], size: float) -> None:
    """Put a frame's channels into the object's data."""
    data = shown.data
    if "radius" in arrays and size != 1.0:
        arrays = {**arrays, "radius": arrays["radius"] * np.float32(size)}
    _resize(data, len(arrays["position"]))
    attributes.write_all(data, arrays)
    data.update_tag()


def _resize(data: Any, count: int) -> None:
    if isinstance(data, bpy.types.PointCloud):
        if len(data.points) != count:
            data.resize(count)
        return
    have = len(data.vertices)
    if count < have:  # meshes only grow
        data.clear_geometry()
        have = 0
    if count > have:
        data.vertices.add(count - have)


def dress(shown: bpy.types.Object, material: bpy.types.Material) -> None:
    """Put the material on the points, unless an artist's own is there."""
    materials.assign(shown, material)
    modifier = shown.modifiers.get(MODIFIER)
    if modifier is not None and modifier.node_group is not None:
        socket = _sockets(modifier.node_group)["Material"].identifier
        if modifier.get(socket) != shown.data.materials[0]:
            modifier[socket] = shown.data.materials[0]


def empty(data: Any) -> None:
    """Take all points or faces out; attributes come back with the next frame."""
    if isinstance(data, bpy.types.Mesh):
        data.clear_geometry()
    else:
        data.resize(0)


def _sockets(tree: bpy.types.NodeTree) -> Any:
    """Inputs of a node group by name."""
    return tree.interface.items_tree if hasattr(tree, "interface") else tree.inputs


def _nodes() -> bpy.types.NodeTree:
    """Vertices to points of the radius of their attribute, which lose their material on the way."""
    found = bpy.data.node_groups.get(MODIFIER)
    if found is not None and found.library is None:
        return found
    tree = bpy.data.node_groups.new(MODIFIER, "GeometryNodeTree")
    for name, way, kind in (
        ("Geometry", "INPUT", "NodeSocketGeometry"),
        ("Geometry", "OUTPUT", "NodeSocketGeometry"),
        ("Material", "INPUT", "NodeSocketMaterial"),
    ):
        if hasattr(tree, "interface"):
            tree.interface.new_socket(name, in_out=way, socket_type=kind)
        else:  # 3.4
            (tree.inputs if way == "INPUT" else tree.outputs).new(kind, name)
    if hasattr(tree, "is_modifier"):
        tree.is_modifier = True
    start, end = tree.nodes.new("NodeGroupInput"), tree.nodes.new("NodeGroupOutput")
    points = tree.nodes.new("GeometryNodeMeshToPoints")
    radius = tree.nodes.new("GeometryNodeInputNamedAttribute")
    radius.data_type = "FLOAT"
    radius.inputs["Name"].default_value = "radius"
    tree.links.new(start.outputs[0], points.inputs["Mesh"])
    tree.links.new(radius.outputs["Attribute"], points.inputs["Radius"])
    dress = tree.nodes.new("GeometryNodeSetMaterial")
    tree.links.new(points.outputs[0], dress.inputs["Geometry"])
    tree.links.new(start.outputs["Material"], dress.inputs["Material"])
    tree.links.new(dress.outputs[0], end.inputs[0])
    for place, node in enumerate((start, radius, points, dress, end)):
        node.location = (200 * place, -140 * (node is radius))
    return tree
