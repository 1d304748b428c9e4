# SPDX-FileCopyrightText: 2026 The Runnel authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ready materials: one per fluid preset, and one that shows a channel. Colours are core's."""

from __future__ import annotations

import bpy

MARK = "runnel_material"


def is_ours(material: bpy.types.Material) -> bool:
    """Whether playback made the material, and may replace it."""
    return MARK in material
