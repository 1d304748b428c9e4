"""Force fields of a scene at a moment, packed into rows for the passes (backends/base.py)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .backends.base import FORCE_COLUMNS, POINT, VORTEX, WIND
from .motion import active_times
from .params import Force
from .scene import Scene

Rows = NDArray[np.float32]

# A reach without end. Finite: devices may assume that there are no infinities.
UNLIMITED = 3e38  # [m]
_KINDS = {"wind": WIND, "drag": WIND, "point": POINT, "vortex": VORTEX}


def pack_forces(scene: Scene, time: float) -> Rows:
    """Forces that act at a time [s]: (n, FORCE_COLUMNS)."""
    rows = []
    for force in scene.forces:
        start, end = active_times(force.frames, scene)
        if start <= time < end:
            rows.append(_row(force, scene.ignored_axis))
    return np.stack(rows) if rows else np.zeros((0, FORCE_COLUMNS), np.float32)


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
