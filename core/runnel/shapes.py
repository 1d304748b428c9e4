"""Shapes: bounds, inside, signed distance, and filling them with particles.

A shape lives in its own frame; a Pose puts it into the world. In 2D shapes are cut by the plane
where the ignored axis is 0: a box has no end along that axis, others that do not reach the plane
are cut through their centre.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import meshes, params, points
from .errors import RunnelError, SceneError
from .meshes import Mesh
from .motion import Pose

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

# A row of particles ends where the next centre would lie on the surface, give or take rounding.
_TOLERANCE = 1e-6  # spacings
_SLAB = 1 << 21  # lattice points looked at at a time
_MOST = 2**32 - 1  # ids there are
_MOST_ACROSS = 10**8  # particles of one layer of a stream


class Shape(Protocol):
    """A region. All lengths [m], in its own frame."""

    def bounds(self) -> tuple[Floats, Floats]:
        """Lowest and highest corner; infinite for a plane."""

    def contains(self, points: ArrayLike) -> Mask:
        """Which points (n, 3) are inside; the surface counts as inside."""

    def volume(self) -> float:
        """Volume [m^3]."""

    def distance(self, points: ArrayLike) -> Floats:
        """Distance of points (n, 3) from the surface, negative inside."""

    def extent(self, direction: ArrayLike) -> tuple[float, float]:
        """Least and largest x . direction over the shape."""

    def lattice(self, x: Floats, y: Floats, z: Floats) -> Mask:
        """Which points of a lattice are inside: (len(x), len(y), len(z))."""


def _points(points: ArrayLike) -> Floats:
    return np.asarray(points, np.float64).reshape(-1, 3)


def _outside(q: Floats) -> Floats:
    """Distance from how far points are beyond each pair of faces (n, k), negative within."""
    beyond: Floats = np.linalg.norm(np.maximum(q, 0.0), axis=1)
    within: Floats = np.minimum(q.max(axis=1), 0.0)
    return beyond + within


class _Analytic:
    """What follows from the distance."""

    def distance(self, points: ArrayLike) -> Floats:
        raise NotImplementedError

    def contains(self, points: ArrayLike) -> Mask:
        return np.asarray(self.distance(points) <= 0.0)

    def lattice(self, x: Floats, y: Floats, z: Floats) -> Mask:
        grid = np.stack(np.meshgrid(x, y, z, indexing="ij"), axis=-1)
        return self.contains(grid.reshape(-1, 3)).reshape(len(x), len(y), len(z))


@dataclass(frozen=True, eq=False)
class BoxShape(_Analytic):
    low: Floats
    high: Floats

    def bounds(self) -> tuple[Floats, Floats]:
        return self.low, self.high

    def volume(self) -> float:
        return float(np.prod(self.high - self.low))

    def distance(self, points: ArrayLike) -> Floats:
        centre, half = (self.low + self.high) / 2, (self.high - self.low) / 2
        q = np.abs(_points(points) - centre) - half
        return _outside(q)

    def extent(self, direction: ArrayLike) -> tuple[float, float]:
        centre, half = (self.low + self.high) / 2, (self.high - self.low) / 2
        middle = float(centre @ np.asarray(direction))
        reach = float(half @ np.abs(np.asarray(direction)))
        return middle - reach, middle + reach


@dataclass(frozen=True, eq=False)
class SphereShape(_Analytic):
    center: Floats
    radius: float

    def bounds(self) -> tuple[Floats, Floats]:
        return self.center - self.radius, self.center + self.radius

    def volume(self) -> float:
        return 4.0 / 3.0 * math.pi * self.radius**3

    def distance(self, points: ArrayLike) -> Floats:
        away: Floats = np.linalg.norm(_points(points) - self.center, axis=1)
        return away - self.radius

    def extent(self, direction: ArrayLike) -> tuple[float, float]:
        middle = float(self.center @ np.asarray(direction))
        reach = self.radius * float(np.linalg.norm(direction))
        return middle - reach, middle + reach


@dataclass(frozen=True, eq=False)
class CylinderShape(_Analytic):
    start: Floats
    end: Floats
    radius: float

    @property
    def length(self) -> float:
        return float(np.linalg.norm(self.end - self.start))

    @property
    def axis(self) -> Floats:
        """Unit vector from start to end."""
        axis: Floats = (self.end - self.start) / self.length
        return axis

    def bounds(self) -> tuple[Floats, Floats]:
        low, high = np.array([self.extent(direction) for direction in np.eye(3)]).T
        return low, high

    def volume(self) -> float:
        return math.pi * self.radius**2 * self.length

    def distance(self, points: ArrayLike) -> Floats:
        away = _points(points) - (self.start + self.end) / 2
        along = away @ self.axis
        across = np.linalg.norm(away - along[:, None] * self.axis, axis=1)
        q = np.stack([across - self.radius, np.abs(along) - self.length / 2], axis=1)
        return _outside(q)

    def extent(self, direction: ArrayLike) -> tuple[float, float]:
        vector = np.asarray(direction, np.float64)
        ends = float(self.start @ vector), float(self.end @ vector)
        across = vector - (vector @ self.axis) * self.axis
        reach = self.radius * float(np.linalg.norm(across))
        return min(ends) - reach, max(ends) + reach


@dataclass(frozen=True, eq=False)
class PlaneShape(_Analytic):
    """All that lies behind a plane."""

    point: Floats
    normal: Floats  # unit length

    def bounds(self) -> tuple[Floats, Floats]:
        return np.full(3, -np.inf), np.full(3, np.inf)

    def volume(self) -> float:
        return math.inf

    def distance(self, points: ArrayLike) -> Floats:
        distance: Floats = (_points(points) - self.point) @ self.normal
        return distance

    def extent(self, direction: ArrayLike) -> tuple[float, float]:
        return -math.inf, math.inf


@dataclass(frozen=True, eq=False)
class PointsShape(_Analytic):
    """Points, which have no inside."""

    positions: Floats  # (n, 3)

    def bounds(self) -> tuple[Floats, Floats]:
        if not len(self.positions):
            return np.zeros(3), np.zeros(3)
        return self.positions.min(axis=0), self.positions.max(axis=0)

    def volume(self) -> float:
        return 0.0

    def distance(self, points: ArrayLike) -> Floats:
        return np.full(len(_points(points)), np.inf)

    def extent(self, direction: ArrayLike) -> tuple[float, float]:
        along = self.positions @ np.asarray(direction, np.float64)
        return (float(along.min()), float(along.max())) if len(along) else (0.0, 0.0)


@dataclass(frozen=True, eq=False)
class MeshShape:
    mesh: Mesh
    file: str = ""

    def bounds(self) -> tuple[Floats, Floats]:
        return self.mesh.bounds

    def volume(self) -> float:
        return abs(self.mesh.volume())

    def contains(self, points: ArrayLike) -> Mask:
        return meshes.contains(self.mesh, _points(points))

    def distance(self, points: ArrayLike) -> Floats:
        raise RunnelError(f"{self.file or 'mesh'}: meshes have no distance field yet.")

    def extent(self, direction: ArrayLike) -> tuple[float, float]:
        along = self.mesh.vertices[self.mesh.triangles] @ np.asarray(direction, np.float64)
        return float(along.min()), float(along.max())

    def lattice(self, x: Floats, y: Floats, z: Floats) -> Mask:
        return meshes.lattice_inside(self.mesh, x, y, z)


def shape_of(shape: params.Shape, directory: str | Path | None = None) -> Shape:
    """The region that a scene's shape describes; mesh files are relative to the directory.

    A mesh must be closed.
    """
    if isinstance(shape, params.Box):
        return BoxShape(np.array(shape.min, np.float64), np.array(shape.max, np.float64))
    if isinstance(shape, params.Sphere):
        return SphereShape(np.array(shape.center, np.float64), shape.radius)
    if isinstance(shape, params.Cylinder):
        start, end = np.array(shape.start, np.float64), np.array(shape.end, np.float64)
        return CylinderShape(start, end, shape.radius)
    if isinstance(shape, params.Plane):
        normal = np.array(shape.normal, np.float64)
        return PlaneShape(np.array(shape.point, np.float64), normal / np.linalg.norm(normal))
    path = Path(directory or ".") / shape.file
    if shape.is_sequence:  # what it has in its first frame
        path = points.file_at(shape, Path(directory or "."), points.first_frame(shape, path))
    if isinstance(shape, params.PointFile):
        return PointsShape(points.read_points(path).position.astype(np.float64))
    return mesh_shape(meshes.read_mesh(path), path, grows=shape.is_sequence)


def mesh_shape(mesh: Mesh, path: Path, *, grows: bool = False) -> Shape:
    """The inside of a mesh, which must be closed; one that grows may begin as a point."""
    if grows and (not len(mesh.vertices) or not np.ptp(mesh.vertices, axis=0).any()):
        return PointsShape(np.zeros((0, 3)))
    mesh.require_closed(path)
    return MeshShape(mesh, str(path))


# --- in the world ---------------------------------------------------------------------------------


def world_bounds(shape: Shape, pose: Pose) -> tuple[Floats, Floats]:
    """Lowest and highest corner of a shape in the world."""
    reach = np.array([shape.extent(axis) for axis in pose.rotation]) * pose.scale
    return reach[:, 0] + pose.translation, reach[:, 1] + pose.translation


def inside(shape: Shape, pose: Pose, points: ArrayLike, ignored_axis: int = -1) -> Mask:
    """Which points (n, 3) of the world are inside a shape."""
    local = pose.to_local(_points(points))
    if ignored_axis >= 0:
        local[:, ignored_axis] = _cut(shape, pose, ignored_axis)
    return shape.contains(local)


def _cut(shape: Shape, pose: Pose, axis: int) -> float:
    """Where the plane of a 2D scene cuts the shape, on its own axis."""
    facing = float(pose.rotation[axis, axis])
    if abs(facing) < 1 - 1e-9:
        raise SceneError(f"in 2D a shape can turn about {'xyz'[axis]} only")
    low, high = shape.bounds()
    plane = -facing * float(pose.translation[axis]) / pose.scale
    if isinstance(shape, PlaneShape) or (
        low[axis] <= plane <= high[axis] and not isinstance(shape, BoxShape)
    ):
        return plane
    return float(low[axis] + high[axis]) / 2


def _finite_bounds(shape: Shape) -> tuple[Floats, Floats]:
    low, high = shape.bounds()
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        raise SceneError("a plane has no end; a source needs a box, sphere, cylinder or mesh")
    return low, high


def lattice_row(low: float, high: float, spacing: float) -> int:
    """Particles in a row from low to high, the first half a spacing from low."""
    return max(0, math.ceil((high - low) / spacing - 0.5 - _TOLERANCE))


def fill(shape: Shape, spacing: float, pose: Pose, ignored_axis: int = -1) -> Floats:
    """Positions (n, 3) of a lattice of particles in a shape, in the world [m].

    The lattice is that of the shape's own frame, half a spacing from its lowest corner: a box of n
    spacings holds n particles along that axis. `spacing` is of the world.
    """
    low, high = _finite_bounds(shape)
    step = spacing / pose.scale
    rows = [lattice_row(float(a), float(b), step) for a, b in zip(low, high, strict=True)]
    if ignored_axis >= 0:
        rows[ignored_axis] = 1
    if math.prod(rows) > _MOST:
        raise SceneError(
            f"spacing {spacing:g} m would make a lattice of {math.prod(rows):.3g} particles, "
            f"{_MOST:.3g} is the most; use a larger spacing"
        )
    axes = [float(low[k]) + step * (np.arange(rows[k]) + 0.5) for k in range(3)]
    if ignored_axis >= 0:
        axes[ignored_axis] = np.array([_cut(shape, pose, ignored_axis)])
    positions = pose.to_world(_fill_local(shape, axes))
    if ignored_axis >= 0:
        positions[:, ignored_axis] = 0.0
    return positions


def _fill_local(shape: Shape, axes: list[Floats]) -> Floats:
    """Lattice points inside, slab by slab: the box around a shape may be much larger."""
    x, y, z = axes
    step = max(1, _SLAB // max(1, len(y) * len(z)))
    found = [np.zeros((0, 3))]
    for start in range(0, len(x), step):
        part = x[start : start + step]
        points = np.stack(np.meshgrid(part, y, z, indexing="ij"), axis=-1).reshape(-1, 3)
        if not isinstance(shape, BoxShape):  # all of it by design, whatever the rounding
            points = points[shape.lattice(part, y, z).ravel()]
        found.append(points)
    return np.concatenate(found)


def cross_section(
    shape: Shape, direction: Floats, spacing: float, pose: Pose, ignored_axis: int = -1
) -> Floats:
    """Lattice (n, 3) across a shape's centre, perpendicular to a direction; in its own frame.

    direction: unit vector in the shape's frame; spacing [m] of the world. The lattice is centred;
    a shape narrower than a spacing holds one row.
    """
    low, high = _finite_bounds(shape)
    centre = (low + high) / 2
    if ignored_axis >= 0:
        centre[ignored_axis] = _cut(shape, pose, ignored_axis)
    first, second = _across(direction, ignored_axis)
    step = spacing / pose.scale
    points = centre[None, :]
    for axis in (first, second):
        if axis is None:
            continue
        start, end = shape.extent(axis)
        count = max(1, lattice_row(start, end, step))
        if count * len(points) > _MOST_ACROSS:
            raise SceneError(f"spacing {spacing:g} m is too small for this emitter")
        offset = (start + end) / 2 - float(centre @ axis)
        along = offset + (np.arange(count) - (count - 1) / 2) * step
        points = (points[:, None, :] + along[None, :, None] * axis).reshape(-1, 3)
    return points[shape.contains(points)]


def _across(direction: Floats, ignored_axis: int) -> tuple[Floats, Floats | None]:
    """Unit vectors perpendicular to a direction, along the axes if it is; one in 2D."""
    if ignored_axis >= 0:
        side: Floats = np.cross(np.eye(3)[ignored_axis], direction)
        return side / np.linalg.norm(side), None
    most = int(np.argmax(np.abs(direction)))
    first = np.eye(3)[(most + 1) % 3]
    first = first - (first @ direction) * direction
    first /= np.linalg.norm(first)
    return first, np.cross(direction, first)
