"""Force fields of a scene at a moment, packed into rows for the passes (backends/base.py)."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .backends.base import FORCE_COLUMNS, POINT, VORTEX, WIND
from .motion import active_times, frame_time
from .params import Force
from .scene import Scene

Rows = NDArray[np.float32]

# A reach without end. Finite: devices may assume that there are no infinities.
UNLIMITED = 3e38  # [m]
_KINDS = {"wind": WIND, "drag": WIND, "point": POINT, "vortex": VORTEX}


def pack_forces(scene: Scene, time: float) -> Rows:
    """Forces that act at a time [s]: (n, FORCE_COLUMNS)."""
    rows = [_row(force, scene.ignored_axis) for force in forces_at(scene, time)]
    return np.stack(rows) if rows else np.zeros((0, FORCE_COLUMNS), np.float32)


def forces_at(scene: Scene, time: float) -> list[Force]:
    """Forces that act at a time [s], as they are then."""
    found = []
    for force in scene.forces:
        start, end = active_times(force.frames, scene)
        if start <= time < end:
            found.append(_at(force, scene, time) if force.keyframes else force)
    return found


def _at(force: Force, scene: Scene, time: float) -> Force:
    """A force with keyframes at a time [s]."""
    keys = force.keyframes
    times = [frame_time(key.frame, scene) for key in keys]
    after = min(bisect_right(times, time), len(keys) - 1)
    before = max(bisect_right(times, time) - 1, 0)
    way = times[after] - times[before]
    share = (time - times[before]) / way if way else 0.0

    def mixed(name: str) -> Any:
        ends = (getattr(keys[before], name), getattr(keys[after], name))
        a, b = (np.float64(getattr(force, name) if end is None else end) for end in ends)
        now = a + share * (b - a)
        return tuple(now.tolist()) if now.ndim else float(now)

    names = ("strength", "velocity", "center", "axis")
    found = replace(force, keyframes=(), **{name: mixed(name) for name in names})
    # Half way between two opposite axes there is none.
    return found if any(found.axis) else replace(found, axis=keys[before].axis or force.axis)


def _row(force: Force, ignored_axis: int) -> Rows:
    row = np.zeros(FORCE_COLUMNS, np.float32)
    row[0] = _KINDS[force.kind]
    row[1] = force.strength
    row[2] = UNLIMITED if force.radius is None else force.radius
    if force.kind == "wind":
        row[3:6] = force.velocity
    elif force.kind == "vortex":
        row[3:6] = np.array(force.axis) / np.linalg.norm(force.axis)
    row[6:9] = force.center
    if ignored_axis >= 0:
        # A vortex turns about the axis left out; all else has no part along it.
        row[6 + ignored_axis] = 0.0
        if force.kind != "vortex":
            row[3 + ignored_axis] = 0.0
    return row
