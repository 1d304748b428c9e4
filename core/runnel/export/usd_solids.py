"""Colliders and bodies in USD: one file, meshes once, poses as transforms over time.

Those that deform are in the frames' files, as surfaces are.
"""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import numpy as np

from .frames import Frame
from .solids import Floats, Solid


class Solids:
    """Collects what the frames say, then defines the prims."""

    def __init__(self, pxr: SimpleNamespace) -> None:
        self._pxr = pxr
        self._meshes: dict[str, dict[int, Solid]] = {}  # by the frame from which they hold
        self._poses: dict[str, dict[int, Floats]] = {}
        self._frames: list[int] = []

    def __bool__(self) -> bool:
        return bool(self._meshes)

    def take(self, frame: Frame) -> None:
        self._frames.append(frame.number)
        for solid in frame.solids:
            if solid.deforms:
                continue
            meshes = self._meshes.setdefault(solid.name, {})
            last = next(reversed(meshes.values()), None)
            if last is None or not _same(last, solid):
                meshes[frame.number] = solid
            self._poses.setdefault(solid.name, {})[frame.number] = solid.pose

    def define(self, stage: Any, root: str) -> None:
        """Meshes below a prim."""
        geom = self._pxr.UsdGeom
        geom.Scope.Define(stage, root)
        taken: set[str] = set()
        for name, meshes in self._meshes.items():
            mesh = geom.Mesh.Define(stage, f"{root}/{prim_name(name, taken)}")
            mesh.CreateSubdivisionSchemeAttr(geom.Tokens.none)
            mesh.CreateDoubleSidedAttr(True)
            mesh.CreatePurposeAttr(geom.Tokens.default_)
            self._define_shape(mesh, meshes)
            self._define_poses(mesh, self._poses[name])
            self._define_presence(mesh, self._poses[name])

    def _define_shape(self, mesh: Any, meshes: dict[int, Solid]) -> None:
        """Once; over time only if a branch made it another. Nothing is blended in between."""
        starts = list(meshes)
        for start, end in zip(starts, [*starts[1:], None], strict=True):
            solid, points = meshes[start], self._points(meshes[start])
            counts = np.full(len(solid.triangles), 3, np.int32)
            corners = solid.triangles.reshape(-1).astype(np.int32)
            values = (
                (mesh.CreateFaceVertexCountsAttr(), self._pxr.Vt.IntArray.FromNumpy(counts)),
                (mesh.CreateFaceVertexIndicesAttr(), self._pxr.Vt.IntArray.FromNumpy(corners)),
                (mesh.CreatePointsAttr(), points),
                (mesh.CreateExtentAttr(), self._pxr.UsdGeom.PointBased.ComputeExtent(points)),
            )
            for attribute, value in values:
                if len(starts) == 1:
                    attribute.Set(value)
                    continue
                attribute.Set(value, start)
                if end is not None:
                    attribute.Set(value, max(f for f in self._frames if f < end))

    def _points(self, solid: Solid) -> Any:
        return self._pxr.Vt.Vec3fArray.FromNumpy(np.ascontiguousarray(solid.vertices, np.float32))

    def _define_presence(self, mesh: Any, poses: dict[int, Floats]) -> None:
        """Not to be seen in frames that do not have it."""
        if len(poses) == len(self._frames):
            return
        tokens, before = self._pxr.UsdGeom.Tokens, None
        for number in self._frames:
            if (number in poses) != before:
                before = number in poses
                seen = tokens.inherited if before else tokens.invisible
                mesh.CreateVisibilityAttr().Set(seen, number)

    def _define_poses(self, mesh: Any, poses: dict[int, Floats]) -> None:
        """A transform; over time only if it changes."""
        operation = mesh.AddTransformOp()
        first = next(iter(poses.values()))
        if all(np.array_equal(pose, first) for pose in poses.values()):
            operation.Set(self._matrix(first))
            return
        for number, pose in poses.items():
            operation.Set(self._matrix(pose), number)

    def _matrix(self, pose: Floats) -> Any:
        full = np.eye(4)
        full[:3] = pose
        return self._pxr.Gf.Matrix4d(full.T.tolist())  # USD multiplies from the left


def _same(a: Solid, b: Solid) -> bool:
    return np.array_equal(a.vertices, b.vertices) and np.array_equal(a.triangles, b.triangles)


def prim_name(name: str, taken: set[str]) -> str:
    found = re.sub(r"[^A-Za-z0-9_]", "_", name) or "_"
    found = f"_{found}" if found[0].isdigit() else found
    while found in taken:
        found += "_"
    taken.add(found)
    return found
