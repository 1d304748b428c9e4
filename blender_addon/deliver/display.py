# SPDX-FileCopyrightText: 2026 The Runnel authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of a cache is shown, and how: settings of a system that never touch the simulation."""

from __future__ import annotations

from typing import Any

import bpy

from .meshing import RunnelMeshing, running

SHOWN = (
    ("POINTS", "Particles", "Show the particles"),
    ("SURFACE", "Surface", "Show the surface meshes, where they were made"),
    ("BOTH", "Both", "Show particles and surface"),
)
COLORS = (
    ("FLUID", "Fluid", "Each fluid in its own colour"),
    ("SPEED", "Speed", "By how fast particles move"),
    ("CHANNEL", "Channel", "By the channel named below"),
)


def _again(self: Any, context: bpy.types.Context) -> None:
    """Show the current frame anew after a setting changed."""
    from . import playback

    playback.refresh(context.scene)


class RunnelSurface(bpy.types.PropertyGroup):
    """The object of one surface of a system."""

    object: bpy.props.PointerProperty(type=bpy.types.Object)


class RunnelDisplay(bpy.types.PropertyGroup):
    """How a system's cache is shown."""

    enabled: bpy.props.BoolProperty(
        name="Play Back", default=True, update=_again,
        description="Follow the timeline; off: leave what is shown as it is",
    )  # fmt: skip
    shown: bpy.props.EnumProperty(name="Show", items=SHOWN, default="POINTS", update=_again)
    percentage: bpy.props.FloatProperty(
        name="Viewport", subtype="PERCENTAGE", default=100.0, min=0.0, max=100.0, update=_again,
        description="Share of the particles in the viewport; the same ones in every frame",
    )  # fmt: skip
    render_percentage: bpy.props.FloatProperty(
        name="Render", subtype="PERCENTAGE", default=100.0, min=0.0, max=100.0, update=_again,
        description="Share of the particles in renders",
    )  # fmt: skip
    size: bpy.props.FloatProperty(
        name="Point Size", default=1.0, min=0.0, soft_max=4.0, update=_again,
        description="Radius of a point, in radii of its particle",
    )  # fmt: skip
    all_channels: bpy.props.BoolProperty(
        name="All Channels", default=True, update=_again,
        description="Every channel of the cache becomes an attribute; off: only those named",
    )  # fmt: skip
    channels: bpy.props.StringProperty(
        name="Channels", default="velocity, radius, id, density, phase, age", update=_again,
        description="Attributes to load, separated by commas; position always is",
    )  # fmt: skip
    color_by: bpy.props.EnumProperty(name="Colour By", items=COLORS, default="FLUID", update=_again)
    color_channel: bpy.props.StringProperty(
        name="Channel", default="density", update=_again,
        description="Channel that colours the particles",
    )  # fmt: skip
    color_auto: bpy.props.BoolProperty(
        name="Auto Range", default=True, update=_again,
        description="Ends of the colours from the frame shown when this is set",
    )  # fmt: skip
    color_low: bpy.props.FloatProperty(name="Low", default=0.0, update=_again)
    color_high: bpy.props.FloatProperty(name="High", default=1.0, update=_again)
    bodies: bpy.props.BoolProperty(
        name="Move Bodies", default=True, update=_again,
        description="Rigid and soft bodies follow the cache; their own transforms stay",
    )  # fmt: skip

    meshing: bpy.props.PointerProperty(type=RunnelMeshing)

    # The objects that show the cache. Blender keeps these through renaming, undo and loading.
    points: bpy.props.PointerProperty(type=bpy.types.Object, name="Particles")
    surfaces: bpy.props.CollectionProperty(type=RunnelSurface)

    # What went wrong, or what is shown instead. Of this session only.
    message: bpy.props.StringProperty(options={"SKIP_SAVE"})
    failed: bpy.props.BoolProperty(options={"SKIP_SAVE"})

    def wanted(self) -> set[str] | None:
        """Channels to load; None: all."""
        if self.all_channels:
            return None
        return {name.strip() for name in self.channels.split(",") if name.strip()}

    def tell(self, message: str, failed: bool = False) -> None:
        """Set the message; an unchanged one tags nothing for redraw."""
        if self.message != message:
            self.message = message
        if self.failed != failed:
            self.failed = failed


def draw(layout: bpy.types.UILayout, system: Any) -> None:
    """All settings of a system's display, as a panel shows them."""
    display = system.display
    layout.use_property_split = True
    layout.prop(display, "enabled")
    body = layout.column()
    body.active = display.enabled
    body.prop(display, "shown")
    share = body.column(align=True)
    share.prop(display, "percentage")
    share.prop(display, "render_percentage")
    body.prop(display, "size")
    body.prop(display, "color_by")
    if display.color_by == "CHANNEL":
        body.prop(display, "color_channel")
    if display.color_by != "FLUID":
        body.prop(display, "color_auto")
        if not display.color_auto:
            ends = body.column(align=True)
            ends.prop(display, "color_low")
            ends.prop(display, "color_high")
    body.prop(display, "bodies")
    body.prop(display, "all_channels")
    if not display.all_channels:
        body.prop(display, "channels")
    _draw_surface(layout, system)
    row = layout.row(align=True)
    for name in ("runnel.show_cache", "runnel.hide_cache", "runnel.motion_to_keyframes"):
        row.operator(name).system = system.uid


def _draw_surface(layout: bpy.types.UILayout, system: Any) -> None:
    box = layout.column(heading="Surface")
    for name in RunnelMeshing.__annotations__:
        box.prop(system.display.meshing, name)
    verb = "runnel.stop_surface" if running(system.uid) else "runnel.make_surface"
    box.operator(verb).system = system.uid
