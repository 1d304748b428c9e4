# SPDX-FileCopyrightText: 2026 The Runnel authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ready materials: one per fluid for its surface, one per system for its particles.

Colours are core's: the fluid's own, its preset's, or one of the palette. What is here is how light
goes through a liquid, which no simulation needs to know. Materials that an artist changed or put in
place of ours are left alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import bpy
import numpy as np

from runnel.preview.coloring import fluid_colors
from runnel.preview.colors import COLORMAPS, hex_color, to_linear

MARK = "runnel_material"
COLOR, VALUE = "fluid_color", "color_value"  # of each particle: linear light; what colours it


@dataclass(frozen=True)
class Look:
    """How a liquid looks, colour aside."""

    ior: float = 1.333
    depth: float = 1.0  # absorption lengths from one side of the liquid to the other
    clear: float = 1.0  # share of light that goes through the surface
    scatter: float = 0.0  # below the surface
    rough: float = 0.0
    metal: float = 0.0
    glow: float = 0.0


# Refractive indices at 20 C: CRC Handbook of Chemistry and Physics; syrup and honey as solutions of
# sugar.
LOOKS = {
    "water": Look(depth=0.4),
    "sea_water": Look(ior=1.34, depth=1.2),
    "ethanol": Look(ior=1.361, depth=0.2),
    "glycerin": Look(ior=1.473, depth=0.2),
    "oil": Look(ior=1.47, depth=1.0),
    "syrup": Look(ior=1.49, depth=2.5),
    "honey": Look(ior=1.50, depth=1.6, rough=0.02),
    "milk": Look(ior=1.35, clear=0.0, scatter=1.0, rough=0.08),
    "blood": Look(ior=1.36, clear=0.0, scatter=0.3, rough=0.06),
    "ketchup": Look(ior=1.39, clear=0.0, scatter=0.3, rough=0.22),
    "toothpaste": Look(ior=1.45, clear=0.0, scatter=0.5, rough=0.25),
    "lava": Look(ior=1.5, clear=0.0, rough=0.8, glow=3.0),
    "mercury": Look(clear=0.0, rough=0.02, metal=1.0),
}


def is_ours(material: bpy.types.Material | None) -> bool:
    """Whether playback made the material, and may replace it."""
    return material is None or MARK in material


def palette(scene: Mapping[str, Any]) -> Any:
    """Colours of a scene's fluids, linear with alpha: (fluids, 4) float32."""
    colors = [color for _, color in fluid_colors(scene)]
    linear = to_linear(np.array(colors or [(0.8, 0.8, 0.8)]))
    return np.concatenate([linear, np.ones((len(linear), 1))], axis=1).astype(np.float32)


def colors_of(arrays: dict[str, Any], colors: Any) -> Any:
    """Colour of each particle: its fluid's."""
    count = len(arrays["position"])
    phase = arrays.get("phase")
    if len(colors) == 1 or phase is None:
        return np.broadcast_to(colors[0], (count, 4))
    return colors[np.minimum(phase, len(colors) - 1)]


def assign(shown: bpy.types.Object, material: bpy.types.Material) -> None:
    """Put a material on an object, unless an artist's own is there."""
    slots = shown.data.materials
    if not slots:
        slots.append(material)
    elif is_ours(slots[0]) and slots[0] != material:
        slots[0] = material


# --- surfaces -------------------------------------------------------------------------------------


def for_fluid(scene: Mapping[str, Any], index: int, size: float) -> bpy.types.Material:
    """Material of a fluid's surface; `size` [Blender units] across, for how deep colours get."""
    fluids = scene.get("fluid") or ({},)
    fluid = fluids[min(index, len(fluids) - 1)]
    preset, name = str(fluid.get("preset") or ""), str(fluid.get("name") or "fluid")
    color = palette(scene)[min(index, len(fluids) - 1)]
    title = f"Runnel {name}"
    found = bpy.data.materials.get(title)
    if found is not None and found.get(MARK) == preset:
        return found
    made = _material(title, preset)
    _liquid(made, LOOKS.get(preset, LOOKS["water"]), color, size)
    made.diffuse_color = color  # solid view
    return made


def _material(title: str, mark: str) -> bpy.types.Material:
    made = bpy.data.materials.new(title)
    made[MARK] = mark
    if made.node_tree is None:  # always there from 5.0 on
        made.use_nodes = True
    made.node_tree.nodes.clear()
    return made


def _liquid(made: bpy.types.Material, look: Look, color: Any, size: float) -> None:
    tree = made.node_tree
    output = tree.nodes.new("ShaderNodeOutputMaterial")
    shader = tree.nodes.new("ShaderNodeBsdfPrincipled")
    output.location, shader.location = (300, 0), (0, 0)
    tint = (1.0, 1.0, 1.0, 1.0) if look.clear else tuple(color)
    _set(shader, "Base Color", tint)
    _set(shader, "IOR", look.ior)
    _set(shader, "Roughness", look.rough)
    _set(shader, "Metallic", look.metal)
    _set(shader, "Transmission Weight", look.clear)
    if look.scatter:
        _set(shader, "Subsurface Weight", look.scatter)
        _set(shader, "Subsurface Scale", 0.02 * size)
    if look.glow:
        _crust(tree, shader, color, look.glow, size)
    tree.links.new(shader.outputs["BSDF"], output.inputs["Surface"])
    if look.clear:
        volume = tree.nodes.new("ShaderNodeVolumeAbsorption")
        volume.location = (0, -420)
        _set(volume, "Color", _passed(color))
        _set(volume, "Density", look.depth / max(size, 1e-6))
        tree.links.new(volume.outputs["Volume"], output.inputs["Volume"])
        if hasattr(made, "use_raytrace_refraction"):  # EEVEE
            made.use_raytrace_refraction = True


def _passed(color: Any) -> tuple[float, ...]:
    """What is left of white light: its strongest part goes through, so that depth deepens the hue
    and does not blacken it. The root keeps what is thin from being too vivid."""
    return (*np.sqrt(color[:3] / max(float(color[:3].max()), 1e-6)).tolist(), 1.0)


def _crust(tree: Any, shader: Any, color: Any, glow: float, size: float) -> None:
    """Dark plates over what glows."""
    noise = tree.nodes.new("ShaderNodeTexNoise")
    ramp = tree.nodes.new("ShaderNodeValToRGB")
    place = tree.nodes.new("ShaderNodeTexCoord")
    place.location, noise.location, ramp.location = (-800, 0), (-600, 0), (-350, 0)
    tree.links.new(place.outputs["Object"], noise.inputs["Vector"])
    _set(noise, "Scale", 3.0 / max(size, 1e-6))
    _set(noise, "Detail", 6.0)
    ramp.color_ramp.elements[0].position, ramp.color_ramp.elements[1].position = 0.42, 0.56
    ramp.color_ramp.elements[0].color = tuple(color)
    ramp.color_ramp.elements[1].color = (0.0, 0.0, 0.0, 1.0)
    tree.links.new(noise.outputs["Fac"], ramp.inputs["Fac"])
    tree.links.new(ramp.outputs["Color"], shader.inputs["Emission Color"])
    _set(shader, "Emission Strength", glow)
    _set(shader, "Base Color", (0.02, 0.015, 0.012, 1.0))


def _set(node: Any, name: str, value: Any) -> None:
    """A socket that a version may lack."""
    socket = node.inputs.get(name)
    if socket is not None:
        socket.default_value = value


# --- particles ------------------------------------------------------------------------------------


def for_particles(system: Any, color: Any) -> bpy.types.Material:
    """Material of a system's particles: in the colour of their fluid, or by a channel; `color` in
    the solid view."""
    title, display = f"Runnel {system.name} particles", system.display
    mark = f"{system.uid} {display.color_by} {display.color_channel}"
    found = next(
        (m for m in bpy.data.materials if str(m.get(MARK, "")).startswith(system.uid)), None
    )
    if found is not None and found.get(MARK) == mark:
        _ends(found, display)
        return found
    made = found or _material(title, mark)
    made[MARK] = mark
    made.diffuse_color = color
    tree = made.node_tree
    tree.nodes.clear()
    output = tree.nodes.new("ShaderNodeOutputMaterial")
    shader = tree.nodes.new("ShaderNodeBsdfPrincipled")
    output.location, shader.location = (300, 0), (0, 0)
    _set(shader, "Roughness", 0.35)
    tree.links.new(shader.outputs["BSDF"], output.inputs["Surface"])
    tree.links.new(_color(tree, display), shader.inputs["Base Color"])
    _ends(made, display)
    return made


def _color(tree: Any, display: Any) -> Any:
    source = tree.nodes.new("ShaderNodeAttribute")
    source.location = (-740, 0)
    source.attribute_name = COLOR if display.color_by == "FLUID" else VALUE
    if display.color_by == "FLUID":
        return source.outputs["Color"]
    scale = tree.nodes.new("ShaderNodeMapRange")
    scale.name, scale.location = "Runnel Range", (-520, 0)
    ramp = tree.nodes.new("ShaderNodeValToRGB")
    ramp.location = (-320, 0)
    codes = COLORMAPS["water" if display.color_by == "SPEED" else "ember"]
    elements = ramp.color_ramp.elements
    for place, code in enumerate(codes):
        at = place / (len(codes) - 1)
        # A new ramp has its two ends.
        element = elements[-1 if at else 0] if at in (0.0, 1.0) else elements.new(at)
        element.color = (*hex_color(code), 1.0)
    tree.links.new(source.outputs["Fac"], scale.inputs["Value"])
    tree.links.new(scale.outputs["Result"], ramp.inputs["Fac"])
    return ramp.outputs["Color"]


def _ends(made: bpy.types.Material, display: Any) -> None:
    scale = made.node_tree.nodes.get("Runnel Range")
    if scale is not None:
        for name, value in (("From Min", display.color_low), ("From Max", display.color_high)):
            if scale.inputs[name].default_value != value:
                scale.inputs[name].default_value = value
