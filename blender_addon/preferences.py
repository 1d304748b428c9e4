# SPDX-License-Identifier: GPL-3.0-or-later
"""Preferences of the add-on."""

from __future__ import annotations

import bpy


class RunnelPreferences(bpy.types.AddonPreferences):
    """Where bakes run."""

    bl_idname = __package__

    python: bpy.props.StringProperty(
        name="Python for Bakes",
        subtype="FILE_PATH",
        description="An interpreter that has Runnel installed; empty: the one that came along",
    )

    def draw(self, context: bpy.types.Context) -> None:
        self.layout.prop(self, "python")


CLASSES = (RunnelPreferences,)
