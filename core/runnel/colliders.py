"""Solids of a scene at a moment, packed into rows for the passes: colliders, closed domain, sinks.

Rows are those of backends/base.py. A row's local frame has its origin in the middle of the shape
(of a plane: on it; of a mesh: that of the file), so a turning shape's origin moves too. In 2D a row
describes the section by the plane of the scene and has no end along the ignored axis; a mesh's
field is sampled on that plane.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .backends.base import BOX, CYLINDER, FIELD, PLANE, SOLID_COLUMNS, SPHERE
from .collider_fields import MeshField, voxel_size
from .errors import SceneError
from .motion import Motion, Pose, active_times, motion_of
from .params import Box, Collider, Cylinder, MeshFile, Plane, Shape, Sink, Sphere
from .scene import Scene

if TYPE_CHECKING:
    from .fields.grid import SparseField

Rows = NDArray[np.float32]
Floats = NDArray[np.float64]

ENDLESS = 1e9  # half size along an ignored axis [m]; finite: devices may not know infinity
OUTSIDE, INSIDE = 1.0, -1.0


class _Local:
    """A shape in its own frame: kind, sizes, origin and axes of the row (rows of `axes`)."""

    def __init__(self, kind: int, size: Sequence[float], origin: Floats, axes: Floats) -> None:
        self.kind = kind
        self.size = np.zeros(3)
        self.size[: len(size)] = size
        self.origin = origin
        self.axes = axes

    @property
    def reach(self) -> float:
        """Farthest point from the origin [m], along axes that count; 0 of a plane."""
        finite = self.size[self.size < ENDLESS / 2]
        return float(np.linalg.norm(finite))

    def widened(self, by: float) -> _Local:
        """With its surface moved outwards [m]."""
        used = {BOX: 3, SPHERE: 1, CYLINDER: 2}.get(self.kind, 0)
        size = self.size.copy()
        size[:used] = np.where(size[:used] >= ENDLESS, ENDLESS, size[:used] + by)
        if used and size[:used].min() <= 0:
            raise SceneError(f"an offset of {by:g} m leaves nothing of the shape")
        origin = self.origin + by * self.axes[2] if self.kind == PLANE else self.origin
        return _Local(self.kind, size.tolist(), origin, self.axes)


class _Solid:
    """One row of the table, over time."""

    def __init__(
        self, local: _Local, motion: Motion | None, ignored_axis: int, mesh: MeshField | None = None
    ) -> None:
        self._local = local
        self._motion = motion
        self._ignored_axis = ignored_axis
        self._surface = (OUTSIDE, 0.0, 0.0, 0.0)
        self._shell = 0.0
        self.mesh = mesh

    def with_surface(
        self, mode: float, friction: float = 0.0, bounce: float = 0.0, stickiness: float = 0.0
    ) -> _Solid:
        self._surface = (mode, friction, bounce, stickiness)
        return self

    def as_shell(self, half_thickness: float) -> _Solid:
        """Walls on both sides of the surface [m]."""
        self._shell = half_thickness
        return self

    @property
    def moves(self) -> bool:
        return self._is_driven or (self.mesh is not None and self.mesh.deforms)

    @property
    def _is_driven(self) -> bool:
        return self._motion is not None and self._motion.moves

    def row(self, time: float, dt: float) -> Rows:
        """At the end of the step from time - dt to time [s]."""
        local = self._local
        pose = self._pose(time)
        row = np.zeros(SOLID_COLUMNS, np.float64)
        row[0] = local.kind
        row[1:5] = self._surface
        # Endless stays endless, whatever the scale.
        row[5:8] = np.where(local.size >= ENDLESS, ENDLESS, local.size * pose.scale)
        row[8:17] = (local.axes @ pose.rotation.T).ravel()
        row[17:20] = self._flat(pose.to_world(local.origin))
        row[28] = self._shell
        if self.mesh is not None:
            row[5], row[6] = pose.scale, self.mesh.at(time)[2]
            if self._ignored_axis >= 0:
                row[17 + self._ignored_axis] = self._cut(pose)
        if self._is_driven and self._motion is not None and dt > 0:
            before = self._flat(self._pose(time - dt).to_world(local.origin))
            row[20:23] = self._flat((row[17:20] - before) / dt)
            row[23:26] = self._motion.velocity(time, dt)[1]
        return row.astype(np.float32)

    def speed(self, time: float, dt: float) -> float:
        """Of its fastest point, at most [m/s]."""
        if not self.moves:
            return 0.0
        row = self.row(time, dt).astype(np.float64)
        scale, reach, own = self._pose(time).scale, self._local.reach, 0.0
        if self.mesh is not None:
            reach = float(np.linalg.norm(np.abs(self.mesh.bounds).max(axis=0)))
            own = self.mesh.speed(time)
        rigid = np.linalg.norm(row[20:23]) + np.linalg.norm(row[23:26]) * reach * scale
        return float(rigid) + own * scale

    def _pose(self, time: float) -> Pose:
        return Pose() if self._motion is None else self._motion.pose(time)

    def _cut(self, pose: Pose) -> float:
        """Of a mesh in 2D: its origin along the axis left out, so that the plane cuts the mesh
        where it reaches it, else through its middle."""
        axis, mesh = self._ignored_axis, self.mesh
        assert mesh is not None
        low, high = (bound[axis] for bound in mesh.bounds)
        plane = float(pose.to_local(np.zeros(3))[axis])
        if not low <= plane <= high:
            plane = float(low + high) / 2
        # Between cells gradients jump, and rounding would say which one counts.
        plane += 0.01 * mesh.at(0.0)[0].voxel
        return -float(pose.rotation[axis, axis]) * plane * pose.scale

    def _flat(self, point: Floats) -> Floats:
        if self._ignored_axis >= 0:
            point[self._ignored_axis] = 0.0
        return point


class Solids:
    """The colliders of a scene, and the walls of a closed domain."""

    def __init__(self, scene: Scene) -> None:
        axis = scene.ignored_axis
        self._solids = [_collider(scene, part, i) for i, part in enumerate(scene.colliders)]
        low, high = scene.domain.min, scene.domain.max
        if scene.domain.mode == "close" and low is not None and high is not None:
            walls = _box(Box(min=low, max=high), axis)
            self._solids.append(_Solid(walls, None, axis).with_surface(INSIDE))
        self.fields: tuple[SparseField, ...] = ()  # that the rows given last speak of
        self._moving = [i for i, solid in enumerate(self._solids) if solid.moves]
        self._rows = _stack([solid.row(0.0, 0.0) for solid in self._solids])
        self.fields = _number(self._rows, self._solids, 0.0)

    def __len__(self) -> int:
        return len(self._solids)

    @property
    def move(self) -> bool:
        """Whether any of them ever does."""
        return bool(self._moving)

    def rows(self, time: float, dt: float) -> Rows:
        """(n, SOLID_COLUMNS) at the end of the step from time - dt to time [s].

        The same array each time if nothing moves. `fields` are those it gives numbers of.
        """
        if self._moving:
            self._rows = self._rows.copy()
            for i in self._moving:
                self._rows[i] = self._solids[i].row(time, dt)
            self.fields = _number(self._rows, self._solids, time)
        return self._rows

    def mesh(self, index: int) -> MeshField | None:
        """The field over time of a collider; None of other shapes."""
        return self._solids[index].mesh

    def refresh(self) -> None:
        """Fields of the rows anew, after something has changed what they say."""
        if not self._moving:
            self.fields = _number(self._rows, self._solids, 0.0)

    def speed(self, start: float, end: float) -> float:
        """Fastest point of any collider between two times, from samples [m/s]."""
        samples = 8
        dt = (end - start) / samples
        times = [start + (k + 1) * dt for k in range(samples)]
        return max((self._solids[i].speed(t, dt) for i in self._moving for t in times), default=0.0)

    def take_notes(self) -> list[str]:
        """What people should know of the meshes, each once."""
        return _notes(self._solids)


class Sinks:
    """The sinks of a scene. To the passes they are solids too."""

    def __init__(self, scene: Scene) -> None:
        self._sinks = [
            (active_times(part.frames, scene), _placed(scene, part, f"sink[{i}]"))
            for i, part in enumerate(scene.sinks)
        ]
        self.fields: tuple[SparseField, ...] = ()  # that the rows given last speak of

    def __len__(self) -> int:
        return len(self._sinks)

    def rows(self, time: float) -> Rows:
        """(n, SOLID_COLUMNS) of those open at a time [s]. `fields`: those it gives numbers of."""
        is_open = [start <= time < end for (start, end), _ in self._sinks]
        solids = [solid for _, solid in self._sinks]
        every = _stack([solid.row(time, 0.0) for solid in solids])
        # Of all of them, so that nothing is loaded anew when one opens.
        self.fields = _number(every, solids, time)
        return every[is_open] if len(every) else every

    def take_notes(self) -> list[str]:
        """What people should know of the meshes, each once."""
        return _notes([solid for _, solid in self._sinks])


def _collider(scene: Scene, part: Collider, index: int) -> _Solid:
    solid = _placed(scene, part, f"collider[{index}]")
    analytic = solid.mesh is None
    # A field is in the fluid's sense already, whatever the mode.
    mode = INSIDE if part.mode == "inside" and analytic else OUTSIDE
    if part.mode == "shell" and analytic:
        solid.as_shell(voxel_size(scene, part) + part.offset)
    return solid.with_surface(mode, part.friction, part.bounce, part.stickiness)


def _number(rows: Rows, solids: Sequence[_Solid], time: float) -> tuple[SparseField, ...]:
    """The fields at a time, each once, with their numbers in the rows."""
    fields: list[SparseField] = []
    # Those that stay come first, so that their numbers do too.
    order = sorted(range(len(solids)), key=lambda i: solids[i].moves)
    for i in order:
        mesh = solids[i].mesh
        if mesh is None:
            continue
        first, second, _ = mesh.at(time)
        for column, field in ((26, first), (27, second)):
            known = [n for n, other in enumerate(fields) if other is field]
            if not known:
                fields.append(field)
            rows[i, column] = known[0] if known else len(fields) - 1
    return tuple(fields)


def _notes(solids: Sequence[_Solid]) -> list[str]:
    return [note for solid in solids if solid.mesh for note in solid.mesh.take_notes()]


def pack_solids(scene: Scene, time: float, dt: float) -> Rows:
    """Colliders at the end of the step from time - dt to time [s]: (n, SOLID_COLUMNS)."""
    return Solids(scene).rows(time, dt)


def pack_sinks(scene: Scene, time: float) -> Rows:
    """Sinks that are open at a time [s]: (n, SOLID_COLUMNS)."""
    return Sinks(scene).rows(time)


def kill_bounds(scene: Scene) -> tuple[Rows, Rows]:
    """Lowest and highest position where particles live; infinite where there is no limit."""
    low, high = np.full(3, -np.inf), np.full(3, np.inf)
    if scene.domain.mode == "kill":
        for axis in scene.axes:
            low[axis] = -np.inf if scene.domain.min is None else scene.domain.min[axis]
            high[axis] = np.inf if scene.domain.max is None else scene.domain.max[axis]
    return low.astype(np.float32), high.astype(np.float32)


def _stack(rows: list[Rows]) -> Rows:
    return np.stack(rows) if rows else np.zeros((0, SOLID_COLUMNS), np.float32)


# --- shapes in their own frame --------------------------------------------------------------------


def _placed(scene: Scene, part: Collider | Sink, key: str) -> _Solid:
    motion = motion_of(part, scene)
    axis = scene.ignored_axis
    # Where the plane of a 2D scene lies in the shape's own frame (it only turns about the axis).
    plane = 0.0
    if axis >= 0:
        plane = float(motion.pose(0.0).to_local(np.zeros(3))[axis])
    try:
        if isinstance(part.shape, MeshFile):
            mesh = MeshField(scene, part, part.shape, key)
            return _Solid(_Local(FIELD, [], np.zeros(3), np.eye(3)), motion, axis, mesh)
        local = _local(part.shape, axis, plane)
        if isinstance(part, Collider) and part.offset and part.mode != "shell":
            local = local.widened((-1 if part.mode == "inside" else 1) * part.offset / part.scale)
        return _Solid(local, motion, axis)
    except SceneError as error:
        error.key = error.key or f"{key}.shape"
        raise


def _local(shape: Shape, axis: int, plane: float) -> _Local:
    if isinstance(shape, Box):
        return _box(shape, axis)
    if isinstance(shape, Sphere):
        radius = _section(shape.radius, shape.center, axis, plane)
        return _Local(SPHERE, [radius], _in_plane(shape.center, axis), np.eye(3))
    if isinstance(shape, Cylinder):
        return _cylinder(shape, axis, plane)
    if isinstance(shape, Plane):
        normal = _in_plane(shape.normal, axis)
        return _Local(PLANE, [], _in_plane(shape.point, axis), _frame(normal))
    raise TypeError(shape)


def _in_plane(vector: Sequence[float], axis: int) -> Floats:
    flat = np.array(vector, np.float64)
    if axis >= 0:
        flat[axis] = 0.0
    return flat


def _section(radius: float, center: Sequence[float], axis: int, plane: float) -> float:
    """Radius of what the plane of a 2D scene cuts out of a ball; of its middle if it misses it."""
    if axis < 0:
        return radius
    away = center[axis] - plane
    return radius if abs(away) >= radius else math.sqrt(radius**2 - away**2)


def _box(shape: Box, axis: int) -> _Local:
    low, high = np.array(shape.min, np.float64), np.array(shape.max, np.float64)
    half = (high - low) / 2
    if axis >= 0:
        half[axis] = ENDLESS
    return _Local(BOX, half.tolist(), _in_plane(((low + high) / 2).tolist(), axis), np.eye(3))


def _cylinder(shape: Cylinder, axis: int, plane: float) -> _Local:
    start, end = np.array(shape.start, np.float64), np.array(shape.end, np.float64)
    middle, along = (start + end) / 2, end - start
    if axis < 0:
        length = float(np.linalg.norm(along))
        return _Local(CYLINDER, [shape.radius, length / 2], middle, _frame(along))
    flat = _in_plane(along.tolist(), axis)
    centre = _in_plane(middle.tolist(), axis)
    length = float(np.linalg.norm(flat))
    if length <= 1e-9 * abs(along[axis]):  # across the plane: a circle
        return _Local(CYLINDER, [shape.radius, ENDLESS], centre, _frame(np.eye(3)[axis]))
    if abs(along[axis]) > 1e-9 * length:
        raise SceneError(f"in 2D a cylinder lies in the plane or along {'xyz'[axis]}")
    # In the plane: a rectangle, endless along the third axis of its frame.
    width = _section(shape.radius, middle.tolist(), axis, plane)
    first = flat / length
    third = np.eye(3)[axis]
    axes = np.stack([first, np.cross(third, first), third])
    return _Local(BOX, [length / 2, width, ENDLESS], centre, axes)


def _frame(direction: Floats) -> Floats:
    """Right-handed axes (rows), the third along a direction; the world's own where they fit."""
    third = direction / np.linalg.norm(direction)
    least = int(np.argmin(np.abs(third)))
    first = np.eye(3)[least] - third[least] * third
    first /= np.linalg.norm(first)
    return np.stack([first, np.cross(third, first), third])
