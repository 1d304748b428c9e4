"""A place to photograph fluids in: ground, sky, sun and camera. Imported in Blender."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import bpy
import numpy as np
from mathutils import Vector


def build(target: Any, eye: Any, lens: float = 40.0) -> None:
    """Light and camera around what stands on the ground at z = 0."""
    scene = bpy.context.scene
    ground = bpy.data.meshes.new("ground")
    ground.from_pydata([(-20, -20, 0), (20, -20, 0), (20, 20, 0), (-20, 20, 0)], [], [(0, 1, 2, 3)])
    _link("ground", ground).location.z = -0.01
    ground.materials.append(_tiles())
    sky = bpy.data.worlds.new("sky")
    scene.world = sky
    if sky.node_tree is None:
        sky.use_nodes = True
    _gradient(sky.node_tree)
    sun = bpy.data.lights.new("sun", "SUN")
    sun.energy, sun.angle = 3.0, 0.05
    _link("sun", sun).rotation_euler = (math.radians(50), math.radians(10), math.radians(-40))
    camera = bpy.data.cameras.new("camera")
    camera.lens = lens
    scene.camera = _link("camera", camera)
    scene.camera.location = eye
    scene.camera.rotation_euler = (Vector(target) - Vector(eye)).to_track_quat("-Z", "Y").to_euler()


def shoot(path: Path, width: int, height: int, samples: int = 16, blur: bool = False) -> np.ndarray:
    """Render the current frame with Cycles; pixels (height, width, 3) as displayed."""
    scene = bpy.context.scene
    settings(width, height, samples, blur)
    scene.render.filepath = str(path)
    bpy.ops.render.render(write_still=True)
    return pixels(path)


def settings(width: int, height: int, samples: int, blur: bool) -> None:
    scene = bpy.context.scene
    scene.render.engine = "CYCLES"
    scene.cycles.samples, scene.cycles.use_denoising = samples, samples > 16
    scene.cycles.seed = 1
    scene.render.resolution_x, scene.render.resolution_y = width, height
    scene.render.resolution_percentage = 100
    scene.render.use_motion_blur, scene.render.motion_blur_shutter = blur, 0.5
    scene.view_settings.view_transform = "AgX"


def pixels(path: Path) -> np.ndarray:
    picture = bpy.data.images.load(str(path))
    width, height = picture.size
    values = np.empty(width * height * 4, np.float32)
    picture.pixels.foreach_get(values)
    bpy.data.images.remove(picture)
    return values.reshape(height, width, 4)[::-1, :, :3]


def _link(name: str, data: Any) -> Any:
    made = bpy.data.objects.new(name, data)
    bpy.context.scene.collection.objects.link(made)
    return made


def _tiles() -> Any:
    made = bpy.data.materials.new("tiles")
    if made.node_tree is None:
        made.use_nodes = True
    tree = made.node_tree
    shader = next(node for node in tree.nodes if node.type == "BSDF_PRINCIPLED")
    checker = tree.nodes.new("ShaderNodeTexChecker")
    coordinates = tree.nodes.new("ShaderNodeTexCoord")
    tree.links.new(coordinates.outputs["Object"], checker.inputs["Vector"])
    checker.inputs["Scale"].default_value = 4.0
    checker.inputs["Color1"].default_value = (0.45, 0.43, 0.40, 1)
    checker.inputs["Color2"].default_value = (0.30, 0.29, 0.28, 1)
    tree.links.new(checker.outputs["Color"], shader.inputs["Base Color"])
    shader.inputs["Roughness"].default_value = 0.6
    return made


def _gradient(tree: Any) -> None:
    background = next(node for node in tree.nodes if node.type == "BACKGROUND")
    ramp = tree.nodes.new("ShaderNodeValToRGB")
    axes = tree.nodes.new("ShaderNodeSeparateXYZ")
    place = tree.nodes.new("ShaderNodeTexCoord")
    tree.links.new(place.outputs["Generated"], axes.inputs[0])
    tree.links.new(axes.outputs["Z"], ramp.inputs["Fac"])
    tree.links.new(ramp.outputs["Color"], background.inputs["Color"])
    ramp.color_ramp.elements[0].color = (0.9, 0.92, 0.95, 1)
    ramp.color_ramp.elements[1].color = (0.18, 0.36, 0.7, 1)
    background.inputs["Strength"].default_value = 0.7
