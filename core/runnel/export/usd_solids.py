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
        self._first: dict[str, Solid] = {}
        self._poses: dict[str, dict[int, Floats]] = {}

    def __bool__(self) -> bool:
        return bool(self._first)

    def take(self, frame: Frame) -> None:
        for solid in frame.solids:
            if not solid.deforms:
                self._first.setdefault(solid.name, solid)
                self._poses.setdefault(solid.name, {})[frame.number] = solid.pose

    def define(self, stage: Any, root: str) -> None:
        """Meshes below a prim."""
        geom = self._pxr.UsdGeom
        geom.Scope.Define(stage, root)
        taken: set[str] = set()
        for name, solid in self._first.items():
            mesh = geom.Mesh.Define(stage, f"{root}/{prim_name(name, taken)}")
            mesh.CreateSubdivisionSchemeAttr(geom.Tokens.none)
            mesh.CreateDoubleSidedAttr(True)
            mesh.CreatePurposeAttr(geom.Tokens.default_)
            int_array = self._pxr.Vt.IntArray
            counts = np.full(len(solid.triangles), 3, np.int32)
            mesh.CreateFaceVertexCountsAttr(int_array.FromNumpy(counts))
            corners = solid.triangles.reshape(-1).astype(np.int32)
            mesh.CreateFaceVertexIndicesAttr(int_array.FromNumpy(corners))
            points = self._pxr.Vt.Vec3fArray.FromNumpy(
                np.ascontiguousarray(solid.vertices, np.float32)
            )
            mesh.CreatePointsAttr(points)
            mesh.CreateExtentAttr(geom.PointBased.ComputeExtent(points))
            self._define_poses(mesh, self._poses[name])

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


def prim_name(name: str, taken: set[str]) -> str:
    found = re.sub(r"[^A-Za-z0-9_]", "_", name) or "_"
    found = f"_{found}" if found[0].isdigit() else found
    while found in taken:
        found += "_"
    taken.add(found)
    return found
