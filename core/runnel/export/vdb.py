"""OpenVDB volumes of particles: density (a fog), surface (a level set) and velocity."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..cache import path_aside
from ..errors import RunnelError
from ..fields.vdb import openvdb
from ..fields.vdb_probe import check_written
from .frames import Frame, Shot
from .volumes import Array, Volumes, volumes_of

HALF_WIDTH = 3.0  # voxels of the level set's band on each side
_FAINT = np.float32(1e-3)  # fog below this is none


class VdbWriter:
    """One file of three grids per frame."""

    suffix = ".vdb"

    def __init__(self, shot: Shot) -> None:
        if shot.dimensions == 2:
            raise RunnelError("A 2D scene has no volume to export; use usd, bgeo, ply or npz.")
        self.shot = shot
        openvdb()

    def write(self, path: Path, frame: Frame) -> list[Path]:
        if "radius" not in frame.channels:
            raise RunnelError(
                f"Frame {frame.number} has no channel 'radius', from which volumes are made. "
                "Name it in --channels, or add it to [output] channels and simulate again."
            )
        about = {"frame": frame.number, "time": frame.time}
        write_volumes(path, frame.channels, self.shot.voxel, about)
        return [path]

    def finish(self, folder: Path, files: dict[int, Path]) -> list[Path]:
        return []


def write_volumes(
    path: Path, channels: Mapping[str, Array], voxel: float, about: Mapping[str, Any] | None = None
) -> None:
    """Volumes of particles with position, radius and, if there is one, velocity. voxel 0: the
    smallest radius."""
    velocity = channels.get("velocity")
    made = volumes_of(channels["position"], channels["radius"], velocity, voxel)
    grids = [_density(made), _surface(made)]
    if velocity is not None:
        grids.append(_velocity(made))
    metadata = {**(about or {}), "creator": "Runnel"}
    with path_aside(path) as aside:
        try:
            openvdb().write(str(aside), grids=grids, metadata=metadata)
            check_written(aside)
        except RuntimeError as error:
            raise RunnelError(f"{path}: cannot be written: {error}") from None


def _named(grid: Any, name: str, made: Volumes) -> Any:
    grid.name = name
    grid.transform = openvdb().createLinearTransform(voxelSize=made.voxel)
    return grid


def _density(made: Volumes) -> Any:
    grid = _named(openvdb().FloatGrid(0.0), "density", made)
    grid.gridClass = openvdb().GridClass.FOG_VOLUME
    _copy(grid, made, np.where(made.full < _FAINT, np.float32(0), made.full))
    return grid


def _velocity(made: Volumes) -> Any:
    grid = _named(openvdb().Vec3SGrid((0.0, 0.0, 0.0)), "velocity", made)
    grid.vectorType = "contravariant relative"
    _copy(grid, made, np.where((made.full < _FAINT)[..., None], np.float32(0), made.velocity))
    return grid


def _surface(made: Volumes) -> Any:
    """Distance to the surface: triangles of the inside's border, measured by OpenVDB."""
    module = openvdb()
    inside = _named(module.FloatGrid(-0.5), "inside", made)
    _copy(inside, made, made.surface)
    points, triangles, quads = inside.convertToPolygons(isovalue=0.0)
    if not len(triangles) and not len(quads):
        grid = module.FloatGrid(HALF_WIDTH * made.voxel)
    else:
        grid = module.FloatGrid.createLevelSetFromPolygons(
            np.asarray(points, np.float32),
            triangles=np.asarray(triangles, np.uint32).reshape(-1, 3),
            quads=np.asarray(quads, np.uint32).reshape(-1, 4),
            transform=inside.transform,
            halfWidth=HALF_WIDTH,
        )
    grid = _named(grid, "surface", made)
    grid.gridClass = module.GridClass.LEVEL_SET
    return grid


def _copy(grid: Any, made: Volumes, values: Array) -> None:
    for cell, corner in zip(values, made.leaves.tolist(), strict=True):
        grid.copyFromArray(np.ascontiguousarray(cell), ijk=tuple(corner))
