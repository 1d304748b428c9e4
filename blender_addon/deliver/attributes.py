# SPDX-FileCopyrightText: 2026 The Runnel authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Channels of a cache as attributes of Blender's geometry."""

from __future__ import annotations

from typing import Any

import numpy as np

# By kind and width: type of the attribute, and what foreach_set calls its values.
_FLOATS = {
    1: ("FLOAT", "value"),
    2: ("FLOAT2", "vector"),
    3: ("FLOAT_VECTOR", "vector"),
    4: ("FLOAT_COLOR", "color"),
}
_BUILT_IN = {"position"}
# Cycles takes these for grids of a volume, so that no shader can read them of points or meshes
# (4.5 to 5.2). They get a second name.
_VOLUMES = {"color", "density", "flame", "heat", "temperature", "velocity"}
PREFIX = "fluid_"


def write_all(geometry: Any, channels: dict[str, Any]) -> None:
    """All channels as point attributes, and no others of ours; under names for shaders too."""
    named = dict(channels)
    for name in _VOLUMES & channels.keys():
        named.setdefault(PREFIX + name, channels[name])
    _drop(geometry, set(named))
    for name, values in named.items():
        write(geometry, name, values)


def write(geometry: Any, name: str, values: Any) -> None:
    """Set a point attribute, made anew where its type differs; values (n,) or (n, width)."""
    width = 1 if values.ndim == 1 else values.shape[1]
    if width > max(_FLOATS):  # as separate numbers
        for k in range(width):
            write(geometry, f"{name}_{k}", values[:, k])
        return
    if values.dtype.kind in "biu" and width == 1:
        kind, key, ready = "INT", "value", _int32(values)
    else:
        kind, key = _FLOATS[width]
        ready = np.ascontiguousarray(values, np.float32)
    attribute = geometry.attributes.get(name)
    if name == "position" and attribute is None:  # nothing there to be anywhere, or Blender 3.4
        if ready.size:
            geometry.vertices.foreach_set("co", ready.reshape(-1))
        return
    if attribute is not None and (attribute.data_type != kind or attribute.domain != "POINT"):
        geometry.attributes.remove(attribute)
        attribute = None
    if attribute is None:
        attribute = geometry.attributes.new(name, kind, "POINT")
    if ready.size:
        attribute.data.foreach_set(key, ready.reshape(-1))


def _int32(values: Any) -> Any:
    """Blender's integers have 32 bits; ids beyond that wrap, which keeps neighbours apart."""
    return np.ascontiguousarray(values.astype(np.int32, copy=False))


def _drop(geometry: Any, keep: set[str]) -> None:
    """Remove attributes of ours that the frame does not have; `keep` names those that stay."""
    stale = [
        item.name
        for item in geometry.attributes
        if item.domain == "POINT"
        and item.name not in keep
        and item.name not in _BUILT_IN
        and not item.name.startswith(".")
        and not item.is_required
    ]
    for name in stale:
        geometry.attributes.remove(geometry.attributes[name])
