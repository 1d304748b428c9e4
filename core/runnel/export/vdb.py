"""OpenVDB volumes of particles: density (a fog), surface (a level set) and velocity."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..cache import path_aside
from ..errors import RunnelError
from ..fields.vdb import openvdb
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
        self.module = openvdb()

    def write(self, path: Path, frame: Frame) -> list[Path]:
        channels = frame.channels
        if "radius" not in channels:
            raise RunnelError(
                f"Frame {frame.number} has no channel 'radius', from which volumes are made. "
                "Name it in --channels, or add it to [output] channels and simulate again."
            )
        made = volumes_of(
            channels["position"], channels["radius"], channels.get("velocity"), self.shot.voxel
        )
        grids = [self._density(made), self._surface(made)]
        if "velocity" in channels:
            grids.append(self._velocity(made))
        about = {"frame": frame.number, "time": frame.time, "creator": "Runnel"}
        with path_aside(path) as aside:
            try:
                self.module.write(str(aside), grids=grids, metadata=about)
            except RuntimeError as error:
                raise RunnelError(f"{path}: cannot be written: {error}") from None
        return [path]

    def finish(self, folder: Path, files: dict[int, Path]) -> list[Path]:
        return []

    def _grid(self, grid: Any, name: str, made: Volumes) -> Any:
        grid.name = name
        grid.transform = self.module.createLinearTransform(voxelSize=made.voxel)
        return grid

    def _density(self, made: Volumes) -> Any:
        grid = self._grid(self.module.FloatGrid(0.0), "density", made)
        grid.gridClass = self.module.GridClass.FOG_VOLUME
        _copy(grid, made, np.where(made.full < _FAINT, np.float32(0), made.full))
        return grid

    def _velocity(self, made: Volumes) -> Any:
        grid = self._grid(self.module.Vec3SGrid((0.0, 0.0, 0.0)), "velocity", made)
        grid.vectorType = "contravariant relative"
        _copy(grid, made, np.where((made.full < _FAINT)[..., None], np.float32(0), made.velocity))
        return grid

    def _surface(self, made: Volumes) -> Any:
        """Distance to the surface: triangles of the inside's border, measured by OpenVDB."""
        inside = self._grid(self.module.FloatGrid(-0.5), "inside", made)
        _copy(inside, made, made.surface)
        points, triangles, quads = inside.convertToPolygons(isovalue=0.0)
        if not len(triangles) and not len(quads):
            grid = self.module.FloatGrid(HALF_WIDTH * made.voxel)
        else:
            grid = self.module.FloatGrid.createLevelSetFromPolygons(
                np.asarray(points, np.float32),
                triangles=np.asarray(triangles, np.uint32).reshape(-1, 3),
                quads=np.asarray(quads, np.uint32).reshape(-1, 4),
                transform=inside.transform,
                halfWidth=HALF_WIDTH,
            )
        grid = self._grid(grid, "surface", made)
        grid.gridClass = self.module.GridClass.LEVEL_SET
        return grid


def _copy(grid: Any, made: Volumes, values: Array) -> None:
    for cell, corner in zip(values, made.leaves.tolist(), strict=True):
        grid.copyFromArray(np.ascontiguousarray(cell), ijk=tuple(corner))
