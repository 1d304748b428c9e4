"""Fields as OpenVDB grids: .vdb files read and written.

OpenVDB is not on PyPI; docs/decisions/0006-collider-fields.md says where it comes from. Grids keep
the lattice of the field: voxel (i, j, k) of the grid lies at (i, j, k) times the voxel size, and
leaves of both coincide. A grid is a solid's level set, negative inside, as other programs expect;
that of a container is turned, and its metadata says so.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import MeshError, RunnelError
from ..meshes import Mesh
from .grid import MEMORY, MODES, FieldSettings, Mode, SparseField, side_entry
from .rasterize import field_of_mesh
from .sample import LEAF
from .vdb_probe import check_written, probe

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]

_MODE, _SHIFT = "runnel_mode", "runnel_shift"
_BLOCK = 16  # tiles along a block that is copied at a time

_module: ModuleType | None = None


def openvdb() -> ModuleType:
    """OpenVDB's Python module: the host's own, that of Blender's wheel, or the system's."""
    global _module
    if _module is None:
        _module = _find()
    return _module


def available() -> bool:
    """Whether .vdb files can be read and written here."""
    try:
        openvdb()
    except RunnelError:
        return False
    return True


def _find() -> ModuleType:
    for name in ("openvdb", "pyopenvdb"):  # never two in a process: take what is loaded
        if name in sys.modules:
            return sys.modules[name]
    module = _import("openvdb")
    if module is None:
        folder = _folder_of_blender()
        if folder is not None:
            sys.path.append(folder)
            module = _import("openvdb")
            sys.path.remove(
                folder
            )  # the folder holds other libraries that could hide installed ones
    # Debian's, built for numpy 1, ends the process with numpy 2.
    if module is None and int(np.__version__.split(".")[0]) < 2:
        module = _import("pyopenvdb")
    if module is None:
        raise RunnelError(
            "reading and writing .vdb files needs OpenVDB, which is not installed. "
            "`pip install runnel[vdb]` brings it with Blender's wheel (bpy); on Debian, with numpy "
            "below 2, python3-openvdb serves too."
        )
    return module


def _import(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def _folder_of_blender() -> str | None:
    """Where Blender's wheel keeps its libraries; importing bpy itself is not needed."""
    spec = importlib.util.find_spec("bpy")
    if spec is None or spec.origin is None:
        return None
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    found = sorted(Path(spec.origin).parent.glob(f"*/python/lib/{version}/site-packages/openvdb*"))
    return str(found[0].parent) if found else None


# --- writing --------------------------------------------------------------------------------------


def write_vdb(path: str | Path, field: SparseField, name: str = "surface") -> None:
    """Write distance, and index and velocity where the field has them.

    Grids: `name` (level set), "closest_triangle" (int32, -1 unknown), "velocity".
    """
    grids = [level_set(field, name)]
    module = openvdb()
    if field.index is not None:
        index = module.Int32Grid(-1)
        index.name = "closest_triangle"
        _copy_leaves(index, field, field.index)
        grids.append(index)
    if field.velocity is not None:
        velocity = module.Vec3SGrid((0.0, 0.0, 0.0))
        velocity.name = "velocity"
        velocity.vectorType = "contravariant relative"
        _copy_leaves(velocity, field, field.velocity)
        grids.append(velocity)
    for grid in grids:
        grid.transform = _transform(field)
        grid.addStatsMetadata()
    path = Path(path)
    aside = path.with_name(f".{path.name}.part")
    try:
        module.write(str(aside), grids=grids)
        check_written(aside)
        aside.replace(path)
    except (OSError, RuntimeError) as error:
        aside.unlink(missing_ok=True)
        raise RunnelError(f"{path}: cannot be written: {error}") from None


def level_set(field: SparseField, name: str = "surface") -> Any:
    """The distance as an OpenVDB FloatGrid of class level set."""
    module = openvdb()
    band = float(np.float32(field.band))
    grid = module.FloatGrid(band)
    grid.name = name
    grid.gridClass = module.GridClass.LEVEL_SET
    grid.transform = _transform(field)
    grid[_MODE] = field.mode
    grid[_SHIFT] = float(field.shift)
    turn = np.float32(-1.0 if field.background < 0 else 1.0)
    # Voxels at the band's end are not active; their sign follows from those that are.
    values = np.where(np.abs(field.values) < field.band, turn * field.values, np.float32(band))
    _copy_leaves(grid, field, values)
    grid.signedFloodFill()
    return grid


def _transform(field: SparseField) -> Any:
    transform = openvdb().createLinearTransform(voxelSize=field.voxel)
    rest = field.origin - field.first * field.voxel
    if np.abs(rest).max() > 1e-9 * field.voxel:
        transform.postTranslate(tuple(float(c) for c in rest))
    return transform


def _copy_leaves(grid: Any, field: SparseField, values: NDArray[Any]) -> None:
    """Values (leaves, 729, ...) into a grid; own voxels only."""
    cells = values.reshape(-1, 9, 9, 9, *values.shape[2:])[:, :8, :8, :8]
    cells = np.swapaxes(cells, 1, 3)  # ours has x fastest, OpenVDB z
    places = 8 * field.tiles.astype(np.int64) + field.first
    for cell, place in zip(cells, places.tolist(), strict=True):
        grid.copyFromArray(np.ascontiguousarray(cell), ijk=tuple(place))


# --- reading --------------------------------------------------------------------------------------


def read_vdb(
    path: str | Path, *, grid: str | None = None, band: float | None = None,
    mode: Mode | None = None, offset: float = 0.0, memory: int = MEMORY, finest: float = 0.0,
) -> SparseField:  # fmt: skip
    """The field of a level set in a .vdb file.

    grid: its name, else the first level set. band [m]: what the solver needs; a grid that knows
    less is measured anew from its surface, in voxels no finer than `finest` [m]. mode: that of the
    file, else "outside".
    """
    chosen = _level_set(Path(path), grid)
    try:
        return field_of_grid(
            chosen, band=band, mode=mode, offset=offset, memory=memory, finest=finest
        )
    except MeshError as error:
        raise error.in_file(Path(path)) from None


def read_surface(path: str | Path) -> Mesh:
    """The surface of the first level set in a .vdb file, normals outwards."""
    try:
        mesh = surface_of(_level_set(Path(path), None))
    except MeshError as error:
        raise error.in_file(Path(path)) from None
    return mesh if mesh.volume() > 0 else Mesh(mesh.vertices, mesh.triangles[:, ::-1].copy())


def _level_set(path: Path, name: str | None) -> Any:
    """The grid of a name, else the first level set; MeshError if the file has none."""
    try:
        return _choose(openvdb(), read_grids(path), name)
    except MeshError as error:
        raise error.in_file(path) from None


def read_grids(path: Path) -> list[Any]:
    """All grids of a file."""
    if not path.is_file():
        raise MeshError("there is no such file", file=path)
    module = openvdb()
    probe(module, path)
    try:
        grids, _ = module.readAll(str(path))
    except Exception as error:  # the library's own kinds among them
        raise MeshError(f"is not a .vdb file that OpenVDB can read: {error}", file=path) from None
    return list(grids)


def _choose(module: ModuleType, grids: list[Any], name: str | None) -> Any:
    level_sets = [g for g in grids if g.gridClass == module.GridClass.LEVEL_SET]
    if name is not None:
        level_sets = [g for g in grids if g.name == name]
    level_sets = [g for g in level_sets if g.valueTypeName in ("float", "double")]
    if not level_sets:
        found = ", ".join(f"{g.name!r} ({g.gridClass}, {g.valueTypeName})" for g in grids) or "none"
        raise MeshError(
            f"holds no level set{'' if name is None else f' named {name!r}'}; its grids: {found}. "
            "Convert a mesh or fog volume to a level set (Houdini: VDB from Polygons)"
        )
    return level_sets[0]


def field_of_grid(
    grid: Any, *, band: float | None = None, mode: Mode | None = None, offset: float = 0.0,
    memory: int = MEMORY, finest: float = 0.0,
) -> SparseField:  # fmt: skip
    """The field of an OpenVDB level set; as read_vdb."""
    voxel, place = lattice(grid)
    if grid.activeVoxelCount() == 0:
        raise MeshError(f"grid {grid.name!r} is empty")
    stored = grid.metadata.get(_MODE, "outside")
    kind: Mode = mode or (stored if stored in MODES else "outside")
    known = abs(float(grid.background))
    if band is not None and known < band + abs(offset):
        return _measured(grid, max(voxel, finest), band, kind, offset, memory)
    low, high = (np.array(corner, np.int64) for corner in grid.evalActiveVoxelBoundingBox())
    first = np.floor_divide(low - 1, 8) * 8 - 8
    dims = (np.floor_divide(high + 1, 8) - first // 8 + 2).astype(np.int32)
    _check_size(grid, dims, voxel, memory)
    width = np.float32(known - abs(offset) if band is None else band)
    if not width > 0:
        raise MeshError(f"grid {grid.name!r}: offset {offset:g} m is beyond its band, {known:g} m")
    turn = np.float32(-1.0 if kind == "inside" else 1.0)
    table, values = _copy_blocks(grid, first, dims, turn, np.float32(offset), width)
    return SparseField(
        voxel=voxel, band=float(width), origin=place + first * voxel, first=first, dims=dims,
        table=table, values=values, background=float(turn * width), mode=kind,
        shift=float(grid.metadata.get(_SHIFT, 0.0)) + offset,
    )  # fmt: skip


def lattice(grid: Any) -> tuple[float, Floats]:
    """Voxel size, and where voxel (0, 0, 0) lies; MeshError if cells are not cubes along axes."""
    transform = grid.transform
    at = np.array([transform.indexToWorld(p) for p in ((0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1))])
    steps = at[1:] - at[0]
    voxel = float(steps[0, 0])
    if not voxel > 0 or not np.allclose(steps, voxel * np.eye(3), atol=1e-6 * abs(voxel)):
        raise MeshError(
            f"grid {grid.name!r} is turned, sheared or has cells that are not cubes. Resample it "
            "along the axes (Houdini: VDB Resample); colliders can be turned instead"
        )
    return voxel, at[0]


def _check_size(grid: Any, dims: NDArray[np.int32], voxel: float, memory: int) -> None:
    needed = 20.0 * math.prod(int(d) for d in dims) + grid.leafCount() * 8.0 * LEAF
    if needed > memory:
        raise RunnelError(
            f"grid {grid.name!r} of {' x '.join(str(8 * int(d)) for d in dims)} voxels needs about "
            f"{needed / 2**20:.0f} MB, {memory / 2**20:.0f} MB are allowed. Resample it with "
            f"voxels of at least {voxel * (needed / memory) ** 0.5:.3g} m, or allow more memory."
        )


def _copy_blocks(
    grid: Any, first: NDArray[np.int64], dims: NDArray[np.int32], turn: np.float32,
    offset: np.float32, band: np.float32,
) -> tuple[NDArray[np.int32], Singles]:  # fmt: skip
    """Table and leaves, block by block: one block of the dense grid at a time."""
    entries = np.empty(dims[::-1], np.int32)
    leaves: list[Singles] = []
    count = 0
    for start in np.ndindex(*(-(-int(d) // _BLOCK) for d in dims)):
        tile = np.array(start) * _BLOCK
        size = np.minimum(dims - tile, _BLOCK)
        dense = np.empty(tuple(size * 8 + 1), np.float32)
        grid.copyToArray(dense, ijk=tuple((first + 8 * tile).tolist()))
        dense = np.clip(turn * dense - offset, -band, band)
        cells = np.lib.stride_tricks.sliding_window_view(dense, (9, 9, 9))[::8, ::8, ::8]
        cells = cells.transpose(2, 1, 0, 5, 4, 3)  # x fastest, of tiles and of voxels
        near = (np.abs(cells) < band).any(axis=(3, 4, 5))
        block = side_entry(cells[..., 0, 0, 0] < 0)
        block[near] = count + np.arange(np.count_nonzero(near), dtype=np.int32)
        leaves.append(cells[near].reshape(-1, LEAF))
        count += len(leaves[-1])
        x, y, z = (slice(int(a), int(a + n)) for a, n in zip(tile, size, strict=True))
        entries[z, y, x] = block
    return entries.ravel(), np.ascontiguousarray(np.concatenate(leaves))


def _measured(
    grid: Any, voxel: float, band: float, mode: Mode, offset: float, memory: int
) -> SparseField:
    """The field of the grid's surface as triangles: exact as far as the band asks for."""
    mesh = surface_of(grid)
    settings = FieldSettings(
        voxel=voxel, band=band, mode=mode, offset=offset, memory=memory, name=f"grid {grid.name!r}"
    )
    return field_of_mesh(mesh, settings).with_notes(
        f"grid {grid.name!r} knows distances up to {abs(float(grid.background)):.3g} m, "
        f"{band:.3g} m are needed: measured anew from its surface."
    )


def surface_of(grid: Any) -> Mesh:
    """Triangles of a level set's surface."""
    points, triangles, quads = grid.convertToPolygons()
    if not len(triangles) and not len(quads):
        raise MeshError(f"grid {grid.name!r} has no surface")
    quads = np.asarray(quads, np.int64).reshape(-1, 4)
    faces = [
        np.asarray(triangles, np.int64).reshape(-1, 3),
        quads[:, [0, 1, 2]],
        quads[:, [0, 2, 3]],
    ]
    return Mesh(np.asarray(points, np.float64), np.concatenate(faces).astype(np.int32))
