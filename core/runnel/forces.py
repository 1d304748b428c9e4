"""Force fields of a scene at a moment, packed for the passes (backends/base.py)."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .backends.base import FORCE_COLUMNS, POINT, VORTEX, WIND, Current
from .errors import RunnelError, SceneError
from .fields.flow import Flow, read_flow
from .motion import active_times, frame_at, frame_time
from .params import Force
from .scene import Scene

Rows = NDArray[np.float32]

# A reach without end. Finite: devices may assume that there are no infinities.
UNLIMITED = 3e38  # [m]
_KINDS = {"wind": WIND, "drag": WIND, "point": POINT, "vortex": VORTEX}


def pack_forces(scene: Scene, time: float) -> Rows:
    """Forces that act at a time [s]: (n, FORCE_COLUMNS)."""
    now = [force for force in forces_at(scene, time) if force.kind != "field"]
    rows = [_row(force, scene.ignored_axis) for force in now]
    return np.stack(rows) if rows else np.zeros((0, FORCE_COLUMNS), np.float32)


def forces_at(scene: Scene, time: float) -> list[Force]:
    """Forces that act at a time [s], as they are then."""
    found = []
    for force in scene.forces:
        if is_active(force, scene, time):
            found.append(_at(force, scene, time))
    return found


def _at(force: Force, scene: Scene, time: float) -> Force:
    """A force at a time [s]."""
    keys = force.keyframes
    if not keys:
        return force
    times = [frame_time(key.frame, scene) for key in keys]
    after = min(bisect_right(times, time), len(keys) - 1)
    before = max(bisect_right(times, time) - 1, 0)
    way = times[after] - times[before]
    share = (time - times[before]) / way if way else 0.0

    def mixed(name: str) -> Any:
        own = getattr(force, name)
        held = (getattr(keys[before], name), getattr(keys[after], name))
        ends = [own if end is None else end for end in held]
        if None in ends:  # a reach without end: nothing lies between that and another
            return ends[0]
        a, b = map(np.float64, ends)
        now = a + share * (b - a)
        return tuple(now.tolist()) if now.ndim else float(now)

    names = ("strength", "velocity", "center", "axis", "radius")
    found = replace(force, keyframes=(), **{name: mixed(name) for name in names})
    # Half way between two opposite axes there is none.
    return found if any(found.axis) else replace(found, axis=keys[before].axis or force.axis)


def is_active(force: Force, scene: Scene, time: float) -> bool:
    start, end = active_times(force.frames, scene)
    return start <= time < end


class Currents:
    """The velocity fields of a scene over time. Of a sequence two frames are kept."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._fields = [i for i, force in enumerate(scene.forces) if force.kind == "field"]
        self._kept: dict[tuple[int, int | None], Flow] = {}

    def at(self, time: float) -> tuple[Current, ...]:
        """Those that act at a time [s]."""
        forces = self._scene.forces
        now = [i for i in self._fields if is_active(forces[i], self._scene, time)]
        found = tuple(self._current(i, _at(forces[i], self._scene, time), time) for i in now)
        used = {id(flow) for current in found for flow in (current.before, current.after)}
        self._kept = {key: flow for key, flow in self._kept.items() if id(flow) in used}
        return found

    def acceleration(self, time: float) -> float:
        """What they add at most [m/s^2]."""
        return sum(abs(c.strength) * max(c.before.fastest, c.after.fastest) for c in self.at(time))

    def _current(self, index: int, force: Force, time: float) -> Current:
        if not force.file.is_sequence:
            flow = self._flow(index, None)
            return Current(force.strength, flow, flow, 0.0)
        frames = self._scene.mesh_frames(force.file)
        place = min(max(frame_at(time, self._scene), frames[0]), frames[-1])
        first = max(math.ceil(place - 1e-6) - 1, frames[0])
        second = min(first + 1, frames[-1])
        flows = self._flow(index, first), self._flow(index, second)
        return Current(force.strength, *flows, min(1.0, place - first))

    def _flow(self, index: int, frame: int | None) -> Flow:
        if (index, frame) not in self._kept:
            force = self._scene.forces[index]
            path = self._scene.mesh_path(force.file, frame)
            try:
                made = read_flow(path, force.field_scale, force.voxel_size)
            except SceneError as error:
                error.key = error.key or f"force[{index}].field"
                raise
            except RunnelError as error:
                raise SceneError(str(error), key=f"force[{index}].field") from error
            self._kept[index, frame] = made
        return self._kept[index, frame]


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
