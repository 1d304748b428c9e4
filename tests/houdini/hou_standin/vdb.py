"""VDB primitives: what they hold is the bytes of a .vdb file of one grid, read by OpenVDB."""

from __future__ import annotations

import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from runnel.fields.vdb import openvdb

from .enums import EnumValue, vdbData


@lru_cache(maxsize=8)  # voxels are asked for one by one
def grids_in(data: bytes) -> tuple[Any, ...]:
    """The grids of a .vdb file; none if it is no such file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "some.vdb"
        path.write_bytes(data)
        try:
            return tuple(openvdb().readAll(str(path))[0])
        except Exception:
            return ()


def file_of(grids: list[Any]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "some.vdb"
        openvdb().write(str(path), grids=grids)
        return path.read_bytes()


class BoundingBox:
    def __init__(self, bbox_or_xmin=0.0, ymin=0.0, zmin=0.0, xmax=0.0, ymax=0.0, zmax=0.0) -> None:
        self._corners = (bbox_or_xmin, ymin, zmin), (xmax, ymax, zmax)

    def minvec(self) -> Any:
        return self._corners[0]

    def maxvec(self) -> Any:
        return self._corners[1]


class Voxels:
    """Methods of hou.VDB; `_data.content` is the file."""

    _data: Any

    def _grid(self) -> Any:
        (grid,) = grids_in(self._data.content)
        return grid

    def dataType(self) -> EnumValue:
        found = grids_in(self._data.content)
        vectors = bool(found) and found[0].valueTypeName.startswith("vec3")
        return vdbData.Vector3 if vectors else vdbData.Float

    def activeVoxelCount(self) -> int:
        found = grids_in(self._data.content)
        return int(found[0].activeVoxelCount()) if found else 0

    def resolution(self) -> tuple[int, ...]:
        found = grids_in(self._data.content)
        return tuple(found[0].evalActiveVoxelDim()) if found else (0, 0, 0)

    def volumeAverage(self) -> float:
        found = grids_in(self._data.content)
        values = [item.value for item in found[0].citerOnValues()] if found else [0.0]
        return float(np.mean(values))

    def activeVoxelBoundingBox(self) -> BoundingBox:
        low, high = self._grid().evalActiveVoxelBoundingBox()
        return BoundingBox(*low, *(k + 1 for k in high))

    def voxelSize(self) -> Any:
        return self._grid().transform.voxelSize()

    def indexToPos(self, index: Any) -> Any:
        return self._grid().transform.indexToWorld(index)

    def samplev(self, position: Any) -> Any:
        grid = self._grid()
        nearest = tuple(int(round(k)) for k in grid.transform.worldToIndex(position))
        return grid.getConstAccessor().getValue(nearest)
