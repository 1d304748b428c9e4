"""Force fields of a scene at a moment, packed for the passes (backends/base.py)."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from .backends.base import FORCE_COLUMNS, POINT, VORTEX, WIND, Current
from .errors import RunnelError, SceneError
from .fields.flow import Flow, read_flow
from .motion import active_times, frame_at, frame_time
from .params import Force, Vec3
from .points import read_points
from .scene import Scene

Rows = NDArray[np.float32]

# A reach without end. Finite: devices may assume that there are no infinities.
UNLIMITED = 3e38  # [m]
_KINDS = {"wind": WIND, "drag": WIND, "point": POINT, "vortex": VORTEX}
# What the attribute `kind` of points that are forces counts.
POINT_KINDS: Final[tuple[Literal["wind", "drag", "point", "vortex"], ...]] = (
    "wind", "drag", "point", "vortex",
)  # fmt: skip


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
            now = _at(force, scene, time)
            found += _of_points(now, scene, time) if force.kind == "points" else [now]
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


def _of_points(force: Force, scene: Scene, time: float) -> list[Force]:
    """The forces that the points of a file are at a time [s]. Between frames they change evenly;
    one that is not there at the next grows weaker until then, one that is new stronger."""
    first, second, share = _frames_around(force, scene, time)
    ends = [_read_forces(force, scene, frame) for frame in (first, second)]
    return [_between(a, b, share) for a, b in _pairs(*ends)]


def _frames_around(force: Force, scene: Scene, time: float) -> tuple[int | None, int | None, float]:
    """Files of a sequence around a time [s], and the share of the second."""
    if not force.file.is_sequence:
        return None, None, 0.0
    frames = scene.mesh_frames(force.file)
    place = min(max(frame_at(time, scene), frames[0]), frames[-1])
    first = max(math.ceil(place - 1e-6) - 1, frames[0])
    return first, min(first + 1, frames[-1]), min(1.0, place - first)


def _read_forces(force: Force, scene: Scene, frame: int | None) -> Mapping[Any, Force]:
    path = scene.mesh_path(force.file, frame)
    index = [other.name for other in scene.forces].index(force.name)
    try:
        facts = path.stat()
        return _forces_of_file(path, facts.st_mtime_ns, facts.st_size, force)
    except OSError as error:
        raise SceneError(f"{path}: {error.strerror}", key=f"force[{index}].field") from error
    except RunnelError as error:
        raise SceneError(str(error), key=f"force[{index}].field") from error


@lru_cache(maxsize=64)
def _forces_of_file(path: Path, modified: int, size: int, force: Force) -> dict[Any, Force]:
    """The forces of a file by what tells them from each other: kind and id, or number."""
    points = read_points(path)
    given, count = points.channels, len(points)
    if "kind" not in given and count:
        raise RunnelError(f"{path.name}: its points have no kind, a number from 0 to 3")
    found: dict[Any, Force] = {}
    for k in range(count):
        number = int(given["kind"][k])
        if not 0 <= number < len(POINT_KINDS):
            raise RunnelError(f"{path.name}: kind {number} of point {k} is none of 0 to 3")
        axis = _three(given["N"][k]) if "N" in given else force.axis
        velocity = (0.0,) * 3 if points.velocity is None else points.velocity[k]
        own = int(given["source_id"][k]) if "source_id" in given else k
        found[number, own] = replace(
            force,
            kind=POINT_KINDS[number],
            strength=float(given["strength"][k] if "strength" in given else 1.0) * force.strength,
            velocity=_three(velocity, force.field_scale),
            center=_three(points.position[k]),
            axis=axis if any(axis) else force.axis,
            radius=force.radius if points.radius is None else float(points.radius[k]),
            field=None,
            field_frames=None,
        )
    return found


def _three(values: Iterable[Any], scale: float = 1.0) -> Vec3:
    x, y, z = (float(value) * scale for value in values)
    return x, y, z


def _pairs(before: Mapping[Any, Force], after: Mapping[Any, Force]) -> list[tuple[Force, Force]]:
    """Each force at two frames; where one is not there, it is without strength."""
    keys = [*before, *(key for key in after if key not in before)]
    return [
        (
            before[key] if key in before else replace(after[key], strength=0.0),
            after[key] if key in after else replace(before[key], strength=0.0),
        )
        for key in keys
    ]


def _between(before: Force, after: Force, share: float) -> Force:
    if share <= 0.0 or before == after:
        return before
    mixed: dict[str, Any] = {}
    for name in ("strength", "velocity", "center", "axis", "radius"):
        ends = [getattr(force, name) for force in (before, after)]
        if None in ends:
            continue  # without end
        a, b = (np.float64(end) for end in ends)
        now = a + share * (b - a)
        mixed[name] = tuple(now.tolist()) if now.ndim else float(now)
    # Half way between two opposite axes there is none.
    return replace(before, **mixed | ({} if any(mixed["axis"]) else {"axis": before.axis}))


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
        first, second, share = _frames_around(force, self._scene, time)
        return Current(force.strength, self._flow(index, first), self._flow(index, second), share)

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
