"""Velocities on a grid: what a force of kind "field" pulls the fluid towards.

A node holds (w u, w): a velocity u [m/s], and how much is known of it, 0 to 1. Both are sampled
trilinearly and the pull is rate (w u - w v): full where the field is known, none where it is not,
and in between it fades over a cell. The outermost nodes know nothing, so it ends in itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..errors import MeshError, RunnelError

Array = NDArray[Any]
Singles = NDArray[np.float32]

MEMORY: Final = 2**30  # bytes that a field may take while it is made
_NAMES = ("v", "vel", "velocity", "wind")  # of grids, the likeliest first
_PER_NODE = 60  # bytes while it is made
SCALE: Final = "runnel_scale"  # metadata of a grid: its velocities are to be multiplied by that
_UNKNOWN = 1e30  # background that no velocity has


@dataclass(frozen=True, eq=False)
class Flow:
    """Velocities on nodes `voxel` apart."""

    voxel: float  # [m]
    origin: NDArray[np.float64]  # (3,) place of the first node [m]
    values: Singles  # (z, y, x, 4) w u [m/s], w

    @property
    def dims(self) -> tuple[int, int, int]:
        """Nodes along x, y, z."""
        z, y, x = self.values.shape[:3]
        return x, y, z

    def at(self, places: Array) -> tuple[Array, Array]:
        """w u (n, 3) [m/s] and w (n,) at places (n, 3)."""
        last = np.array(self.dims) - 1
        q = np.clip((places - self.origin) / self.voxel, 0, last)
        first = np.minimum(q.astype(np.int64), last - 1)
        part = q - first
        found = np.zeros((len(places), 4))
        for corner in product((0, 1), repeat=3):
            weight = np.prod(np.where(corner, part, 1 - part), axis=1)
            i, j, k = (first + corner).T
            found += weight[:, None] * self.values[k, j, i]
        return found[:, :3], found[:, 3]

    @cached_property
    def fastest(self) -> float:
        """Largest speed [m/s]."""
        return math.sqrt(float((self.values[..., :3] ** 2).sum(axis=-1).max()))


def velocities_beside(path: Path) -> Flow | None:
    """The velocities that a .vdb file holds beside a level set; None if it has none."""
    from .vdb import read_grids

    try:
        vectors = _vectors(read_grids(path))
        return _of_grid(_likeliest(vectors), 1.0) if vectors else None
    except MeshError as error:
        raise error.in_file(path) from None
    except RunnelError as error:
        raise MeshError(str(error), file=path) from None


def read_flow(path: Path, scale: float = 1.0, voxel: float | None = None) -> Flow:
    """The velocities of a file times `scale`; `voxel` [m] is for points."""
    try:
        if path.suffix.lower() == ".vdb":
            from .vdb import read_grids

            return _of_grid(_choose(read_grids(path)), scale)
        from ..points import read_points

        points = read_points(path)
        if points.velocity is None:
            raise MeshError("its points have no velocities (v)")
        return flow_of_points(points.position, points.velocity * np.float32(scale), voxel)
    except MeshError as error:
        raise error.in_file(path) from None
    except RunnelError as error:
        raise MeshError(str(error), file=path) from None


# --- points ---------------------------------------------------------------------------------------


def flow_of_points(position: Array, velocity: Array, voxel: float | None = None) -> Flow:
    """The mean velocity around each node: points weigh less with distance, nothing a voxel away.

    voxel [m]: twice the mean distance of the points unless given.
    """
    if not len(position):
        return Flow(1.0, np.zeros(3), np.zeros((2, 2, 2, 4), np.float32))
    place = position.astype(np.float64)
    low = place.min(axis=0)
    step = _distance(place) * 2 if voxel is None else voxel
    if not step > 0:
        raise MeshError("a single point has no distance to others; give voxel_size")
    dims = np.floor(np.ptp(place, axis=0) / step) + 4  # an end, and a node that knows nothing
    _check_size(dims, step, "voxel_size")
    x, y, z = (int(n) for n in dims)
    q = (place - low) / step + 1
    first = np.floor(q).astype(np.int64)
    part = q - first
    sums = np.zeros((4, z * y * x))
    for corner in product((0, 1), repeat=3):
        weight = np.prod(np.where(corner, part, 1 - part), axis=1)
        i, j, k = (first + corner).T
        node = (k * y + j) * x + i
        for row, values in enumerate((*velocity.T, np.float64(1))):
            sums[row] += np.bincount(node, weight * values, len(sums[row]))
    known = np.minimum(sums[3], 1.0)
    sums[:3] *= known / np.where(sums[3] > 0, sums[3], 1.0)
    sums[3] = known
    values = np.ascontiguousarray(sums.T.reshape(z, y, x, 4), np.float32)
    return Flow(float(step), low - step, values)


def _distance(place: Array) -> float:
    """Mean distance of points in the box around them, which may be flat or a line [m]."""
    size = np.ptp(place, axis=0)
    size = size[size > 1e-6 * size.max()]
    return float(math.prod(size) / len(place)) ** (1 / len(size)) if len(size) else 0.0


def _check_size(dims: Array, voxel: float, what: str) -> None:
    needed = _PER_NODE * math.prod(float(n) for n in dims)
    if not needed <= MEMORY:
        enough = voxel * (needed / MEMORY) ** (1 / 3)
        raise RunnelError(
            f"a field of {' x '.join(f'{n:.0f}' for n in dims)} nodes needs {needed / 2**20:.0f} "
            f"MB, {MEMORY / 2**20:.0f} MB are allowed: {what} of about {enough:.2g} m, or less "
            "space, would fit"
        )


# --- OpenVDB --------------------------------------------------------------------------------------


def _choose(grids: list[Any]) -> Any:
    vectors = _vectors(grids)
    if not vectors:
        found = ", ".join(f"{g.name!r} ({g.valueTypeName})" for g in grids) or "none"
        raise MeshError(
            f"holds no grid of vectors; its grids: {found}. Merge vel.x, vel.y and vel.z into one "
            "(Houdini: VDB Vector Merge)"
        )
    return _likeliest(vectors)


def _vectors(grids: list[Any]) -> list[Any]:
    return [g for g in grids if g.valueTypeName in ("vec3s", "vec3d")]


def _likeliest(vectors: list[Any]) -> Any:
    order = {name: k for k, name in enumerate(_NAMES)}
    return min(vectors, key=lambda grid: order.get(grid.name, len(order)))


def _of_grid(grid: Any, scale: float) -> Flow:
    """The active voxels of a grid of vectors; elsewhere nothing is known."""
    from .vdb import lattice, openvdb

    voxel, zero = lattice(grid)
    scale *= _own_scale(grid)
    if grid.activeVoxelCount() == 0:
        raise MeshError(f"grid {grid.name!r} is empty")
    low, high = (np.array(corner, np.int64) for corner in grid.evalActiveVoxelBoundingBox())
    staggered = grid.gridClass == openvdb().GridClass.STAGGERED
    _check_size(high - low + 3.0, voxel, "voxels")
    known, values = _dense(grid, low - 1, high - low + 3 + int(staggered))
    if staggered:
        known, values = _between_faces(known, values)
    if not np.isfinite(values).all() or np.abs(values).max() * abs(scale) > _UNKNOWN / 10:
        raise MeshError(f"grid {grid.name!r} holds velocities that are not usable numbers")
    together = np.concatenate([values * np.float32(scale), known[..., None]], axis=-1)
    # Ours has x fastest, OpenVDB z.
    nodes = np.ascontiguousarray(together.transpose(2, 1, 0, 3), np.float32)
    return Flow(voxel, zero + (low - 1) * voxel, nodes)


def _own_scale(grid: Any) -> float:
    value = grid.metadata.get(SCALE, 1.0)
    if not isinstance(value, int | float) or not math.isfinite(value):
        raise MeshError(f"grid {grid.name!r}: {SCALE} is {value!r}, must be a number")
    return float(value)


def _dense(grid: Any, low: Array, dims: Array) -> tuple[Singles, Singles]:
    """1 where voxels are active (x, y, z), and their values (x, y, z, 3), else 0."""
    marked = grid.deepCopy()
    marked.background = (_UNKNOWN,) * 3  # the library tells of single voxels only, and slowly
    exact = np.float64 if grid.valueTypeName == "vec3d" else np.float32
    values = np.empty((*dims.tolist(), 3), exact)
    marked.copyToArray(values, ijk=tuple(low.tolist()))
    active = values[..., 0] != exact(_UNKNOWN)
    values[~active] = 0
    return active.astype(np.float32), values.astype(np.float32)


def _between_faces(known: Singles, values: Singles) -> tuple[Singles, Singles]:
    """Of a staggered grid, whose components lie half a voxel below, at the voxels themselves."""
    inner = (slice(None, -1),) * 3
    result = np.empty((*(n - 1 for n in known.shape), 3), np.float32)
    certain = np.ones(result.shape[:3], np.float32)
    for axis in range(3):
        next_one = tuple(slice(1, None) if k == axis else slice(None, -1) for k in range(3))
        result[..., axis] = (values[(*inner, axis)] + values[(*next_one, axis)]) / 2
        certain *= known[inner] * known[next_one]
    return certain, result * certain[..., None]
