# SPDX-License-Identifier: GPL-3.0-or-later
"""Evaluated meshes of Blender as arrays, and as files named after what they hold."""

from __future__ import annotations

import hashlib
import io
import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import bpy
import numpy as np

from runnel import surface


@dataclass
class Piece:
    """A mesh at its place: an object's own, or an instance."""

    key: tuple[Any, ...]  # the same in every frame
    matrix: np.ndarray  # (4, 4) local to world
    vertices: np.ndarray  # (n, 3) float32, local
    triangles: np.ndarray  # (m, 3) int32
    attributes: dict[str, np.ndarray] = field(default_factory=dict)  # of vertices
    origin: np.ndarray | None = None  # vertex of the mesh that each comes from; None: the same
    polygons: int = 0

    def counts(self, vertices: int) -> bool:
        """Whether the mesh it was made from had so many vertices."""
        if self.origin is None:
            return len(self.vertices) == vertices
        return len(self.origin) > 0 and int(self.origin.max()) + 1 == vertices

    def same_shape(self, other: Piece) -> bool:
        return np.array_equal(self.vertices, other.vertices)


@dataclass
class World:
    """Pieces joined, in world axes and Blender's units."""

    vertices: np.ndarray
    triangles: np.ndarray
    attributes: dict[str, np.ndarray]


def joined(pieces: list[Piece]) -> World:
    """One mesh of all pieces; what a mirroring matrix turns inside out is turned back."""
    vertices, triangles, start = [], [], 0
    for piece in pieces:
        linear = piece.matrix[:3, :3]
        vertices.append(piece.vertices.astype(np.float64) @ linear.T + piece.matrix[:3, 3])
        turned = piece.triangles[:, ::-1] if np.linalg.det(linear) < 0 else piece.triangles
        triangles.append(turned + start)
        start += len(piece.vertices)
    names = set(pieces[0].attributes) if pieces else set()
    for piece in pieces:
        names &= set(piece.attributes)
    values = {
        name: np.concatenate([piece.attributes[name] for piece in pieces]) for name in sorted(names)
    }
    if not pieces:
        return World(np.zeros((0, 3)), np.zeros((0, 3), np.int32), {})
    return World(np.concatenate(vertices), np.concatenate(triangles).astype(np.int32), values)


def read_piece(
    key: tuple[Any, ...],
    obj: bpy.types.Object,
    matrix: Any,
    wanted: tuple[str, ...],
    uv: bool,
    known: Piece | None,
) -> Piece | None:
    """The evaluated mesh of an object or instance; None of what has no surface.

    known: the piece at the first frame. A mesh of as many vertices and faces keeps its triangles:
    Blender may cut a bent face along the other diagonal, which would be another mesh to core.
    """
    own = obj.data if obj.type == "MESH" else None
    mesh = own if own is not None else _converted(obj)
    if mesh is None:
        return None
    piece = _read(key, obj, mesh, np.array(matrix, np.float64), wanted, uv, known)
    if own is None:
        obj.to_mesh_clear()
    return piece if len(piece.triangles) else None


def _read(
    key: tuple[Any, ...], obj: Any, mesh: Any, matrix: np.ndarray, wanted: tuple[str, ...],
    uv: bool, known: Piece | None,
) -> Piece:  # fmt: skip
    count, faces = len(mesh.vertices), len(mesh.polygons)
    vertices = np.empty(3 * count, np.float32)
    mesh.vertices.foreach_get("co", vertices)
    vertices = vertices.reshape(-1, 3)
    if known is not None and known.polygons == faces and known.counts(count):
        moved = vertices if known.origin is None else vertices[known.origin]
        return replace(known, matrix=matrix, vertices=moved)
    mesh.calc_loop_triangles()
    triangles = np.empty(3 * len(mesh.loop_triangles), np.int32)
    mesh.loop_triangles.foreach_get("vertices", triangles)
    values = {name: _attribute(obj, mesh, name, count) for name in wanted}
    present = {name: found for name, found in values.items() if found is not None}
    piece = Piece(key, matrix, vertices, triangles.reshape(-1, 3), present, None, faces)
    if uv and mesh.uv_layers.active is not None:
        piece = _split_at_seams(piece, mesh)
    return piece


def _converted(obj: bpy.types.Object) -> Any:
    if obj.type not in ("CURVE", "SURFACE", "FONT", "META"):
        return None
    try:
        return obj.to_mesh()
    except RuntimeError:
        return None


def _attribute(obj: Any, mesh: Any, name: str, count: int) -> np.ndarray | None:
    """Weights of a vertex group, or a float attribute of points."""
    group = obj.vertex_groups.get(name) if hasattr(obj, "vertex_groups") else None
    if group is not None:
        weights = np.zeros(count, np.float32)
        for vertex in mesh.vertices:
            for member in vertex.groups:
                if member.group == group.index:
                    weights[vertex.index] = member.weight
        return weights
    attribute = mesh.attributes.get(name)
    if attribute is None or attribute.domain != "POINT" or attribute.data_type != "FLOAT":
        return None
    found = np.empty(count, np.float32)
    attribute.data.foreach_get("value", found)
    return found


def _split_at_seams(piece: Piece, mesh: Any) -> Piece:
    """A vertex for each texture coordinate it has, as PLY wants it."""
    loops = len(mesh.loops)
    uv = np.empty(2 * loops, np.float32)
    mesh.uv_layers.active.data.foreach_get("uv", uv)
    vertex = np.empty(loops, np.int32)
    mesh.loops.foreach_get("vertex_index", vertex)
    corners = np.empty(3 * len(mesh.loop_triangles), np.int32)
    mesh.loop_triangles.foreach_get("loops", corners)
    rows = np.column_stack([vertex, uv.reshape(-1, 2).view(np.int32)])
    kept, number = np.unique(rows, axis=0, return_inverse=True)
    origin = kept[:, 0]
    values = {name: column[origin] for name, column in piece.attributes.items()}
    values["uv"] = np.ascontiguousarray(kept[:, 1:]).view(np.float32)
    triangles = number.reshape(-1)[corners].reshape(-1, 3).astype(np.int32)
    return replace(
        piece,
        vertices=piece.vertices[origin],
        triangles=triangles,
        attributes=values,
        origin=origin,
    )


# --- files ----------------------------------------------------------------------------------------


def ply_bytes(vertices: np.ndarray, triangles: np.ndarray, values: dict[str, np.ndarray]) -> bytes:
    mesh = surface.Mesh(vertices.astype(np.float32), triangles.astype(np.int32), values)
    file = io.BytesIO()
    surface.write_ply(file, mesh)
    return file.getvalue()


def keep(folder: Path, name: str, data: bytes, suffix: str = ".ply") -> str:
    """Write a file unless it is there; returns its name, which tells what it holds."""
    file = f"{name}-{hashlib.sha256(data).hexdigest()[:12]}{suffix}"
    path = folder / file
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        aside = path.with_suffix(".part")
        aside.write_bytes(data)
        aside.replace(path)
    return file


class Sequence:
    """A mesh a frame, in a folder that is named after all of them when they are done."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name = folder, name
        self._aside = folder / f".{name}.part"
        shutil.rmtree(self._aside, ignore_errors=True)
        self._aside.mkdir(parents=True)
        self._digest = hashlib.sha256()

    def add(self, frame: int, data: bytes) -> None:
        self._digest.update(b"%d:" % frame + data)
        (self._aside / f"frame_{frame:04d}.ply").write_bytes(data)

    def close(self) -> str:
        """Path of the sequence, relative to the folder."""
        name = f"{self._name}-{self._digest.hexdigest()[:12]}"
        target = self._folder / name
        if target.exists():
            shutil.rmtree(self._aside)
        else:
            self._aside.replace(target)
        return f"{name}/frame_####.ply"

    def drop(self) -> None:
        shutil.rmtree(self._aside, ignore_errors=True)
