"""VDBs in and out. Houdini's Python can only read voxels, so both ways lead through files.

Core reads and writes .vdb files with OpenVDB's Python module. Where Houdini has none, a level set
comes in as the polygons of its surface, and velocities as points, one a voxel.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import cast

import hou
import numpy as np

from runnel import RunnelError
from runnel.export.bgeo import write_bgeo
from runnel.export.geometry import Geometry
from runnel.export.vdb import write_volumes
from runnel.fields.flow import SCALE
from runnel.fields.vdb import available, openvdb, read_grids
from runnel.fields.vdb_probe import check_written

from .geometry import Array, point_values, positions

_MOST_VOXELS = 4_000_000  # that are asked for one by one


def vdbs(geo: hou.Geometry) -> list[hou.VDB]:
    return [cast(hou.VDB, prim) for prim in geo.prims() if prim.type() == hou.primType.VDB]


def is_vector(vdb: hou.VDB) -> bool:
    return vdb.dataType() == hou.vdbData.Vector3


def facts(vdb: hou.VDB) -> str:
    """What tells a VDB from what it was: where it is, how large, its mean; voxels cannot be had in
    one piece."""
    count = vdb.activeVoxelCount()
    if not count:
        return "empty"
    corner = [round(k) for k in vdb.activeVoxelBoundingBox().minvec()]
    place = tuple(vdb.indexToPos(corner))
    mean = tuple(vdb.samplev(place)) if is_vector(vdb) else vdb.volumeAverage()
    return repr((count, tuple(vdb.resolution()), tuple(vdb.voxelSize()), place, mean))


def alone(geo: hou.Geometry, *numbers: int) -> hou.Geometry:
    """Some primitives of a geometry."""
    copy = hou.Geometry()
    copy.merge(geo)
    copy.deletePrims([p for p in copy.prims() if p.number() not in numbers], keep_points=True)
    return copy


def write_level_set(path: Path, geo: hou.Geometry, time_scale: float) -> None:
    """A level set, and velocities beside it. Slow motion: these are of the picture, the solver's
    are faster."""
    geo.saveToFile(str(path))
    if time_scale == 1.0 or not any(is_vector(vdb) for vdb in vdbs(geo)):
        return
    grids = read_grids(path)
    for grid in grids:
        if str(grid.valueTypeName).startswith("vec3"):
            grid[SCALE] = 1.0 / time_scale
    openvdb().write(str(path), grids=grids)
    check_written(path)


# --- velocity fields ------------------------------------------------------------------------------


def field_points(geo: hou.Geometry, loose: bool = False) -> Array | None:
    """Numbers of the points whose v is a velocity field; None if there is no v.

    Points that are forces of their own, and those that VDBs hang on, are none of them. `loose`:
    nor are those of polygons.
    """
    if geo.findPointAttrib("v") is None:
        return None
    free = np.ones(geo.pointCount(), np.bool_)
    if geo.findPointAttrib("runnel_kind") is not None:
        kinds = geo.pointStringAttribValues("runnel_kind")
        free &= np.array([not kind for kind in kinds], np.bool_)
    for prim in geo.prims() if loose else vdbs(geo):
        free[[vertex.point().number() for vertex in prim.vertices()]] = False
    return np.flatnonzero(free)


def write_field_points(path: Path, geo: hou.Geometry, loose: bool = False) -> bool:
    """P and v of a velocity field; none is none."""
    rows = field_points(geo, loose)
    velocity = point_values(geo, "v")
    if rows is None or velocity is None or velocity.ndim != 2 or velocity.shape[1] != 3:
        rows, velocity = np.zeros(0, np.int64), np.zeros((0, 3), np.float32)
    _write(path, positions(geo)[rows], velocity[rows])
    return True


def write_vector_vdb(path: Path, vdb: hou.Geometry) -> None:
    """The voxels of a VDB of vectors; as points if the file ends so."""
    if path.suffix == ".vdb":
        vdb.saveToFile(str(path))
        return
    (grid,) = vdbs(vdb)
    box = grid.activeVoxelBoundingBox()
    low, high = (np.rint(list(corner)).astype(int) for corner in (box.minvec(), box.maxvec()))
    if int(np.prod(high - low + 1.0)) > _MOST_VOXELS:
        raise RunnelError(
            "Houdini has no OpenVDB module for Python, and without it a velocity field may have "
            f"{_MOST_VOXELS} voxels. Resample it (VDB Resample)."
        )
    spans = (range(a, b + 1) for a, b in zip(low, high, strict=True))
    places = [tuple(grid.indexToPos(index)) for index in product(*spans)]
    position = np.array(places, np.float32).reshape(-1, 3)
    velocity = np.array([tuple(grid.samplev(p)) for p in places], np.float32).reshape(-1, 3)
    known = velocity.any(axis=1)
    _write(path, position[known], velocity[known])


def _write(path: Path, position: Array, velocity: Array) -> None:
    columns = {"P": np.ascontiguousarray(position), "v": np.ascontiguousarray(velocity)}
    write_bgeo(path, Geometry(len(position), points=columns))


def suffix() -> str:
    """Of the file that a VDB of vectors goes to."""
    return ".vdb" if available() else ".bgeo"


# --- out ------------------------------------------------------------------------------------------


def add_volumes(geo: hou.Geometry, arrays: Mapping[str, Array], voxel: float) -> None:
    """VDBs density, surface (a level set) and velocity of particles, by core's names."""
    if not available():
        raise RunnelError(
            "Volumes need OpenVDB's Python module, which this Houdini has not; docs: Install. "
            "Houdini's own VDB from Particles makes volumes of the points."
        )
    made = hou.Geometry()
    with tempfile.TemporaryDirectory(prefix="runnel-vdb-", ignore_cleanup_errors=True) as folder:
        path = Path(folder) / "volumes.vdb"
        write_volumes(path, arrays, voxel)
        made.loadFromFile(str(path))
    geo.merge(made)
