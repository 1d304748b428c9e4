"""USD: a .usdc file per frame, and particles.usda that plays them as value clips.

Each frame's file stands alone too. usd-core is the extra `usd`; inside a host its own pxr serves.
"""

from __future__ import annotations

import errno
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..cache import path_aside, write_aside
from ..errors import RunnelError
from ..surface import Mesh
from .frames import Frame, Shot
from .usd_solids import Solids, prim_name

Array = NDArray[Any]

ROOT = "/fluid"
MASTER, MANIFEST = "particles.usda", "particles_manifest.usda"
COLLIDERS = "colliders.usdc"
# Channels with attributes of their own in UsdGeomPoints; the others become primvars.
_OWN = ("position", "velocity", "radius", "id")
_VECTORS = ("m", "m/s", "m/s^2", "1/s", "N")  # units whose triples are vectors in space


def need_usd() -> SimpleNamespace:
    """The parts of USD that are used, or an error that says how to get them."""
    try:
        from pxr import Gf, Sdf, Tf, Usd, UsdGeom, Vt
    except ImportError as error:
        raise RunnelError(
            "USD files need a package that is not installed. "
            "Install it with: pip install 'runnel[usd]'"
        ) from error
    return SimpleNamespace(Gf=Gf, Sdf=Sdf, Tf=Tf, Usd=Usd, UsdGeom=UsdGeom, Vt=Vt)


class UsdWriter:
    """Frames, then the files that tie them together."""

    suffix = ".usdc"

    def __init__(self, shot: Shot) -> None:
        self.shot = shot
        self.pxr = need_usd()
        # What the frames hold: prim -> (type, attributes -> (type, element size)).
        self._declared: dict[str, tuple[str, dict[str, tuple[Any, int]]]] = {}
        self._solids = Solids(self.pxr)
        self._surfaces: dict[str, str] = {}  # their names -> those of their prims, in all frames

    # ---- a frame

    def write(self, path: Path, frame: Frame) -> list[Path]:
        stage = self._new_stage(".usdc", frame.number, frame.number)
        self._particles(stage, frame)
        for name, mesh in frame.surfaces.items():
            if name not in self._surfaces:
                valid = self.pxr.Tf.MakeValidIdentifier(name)
                self._surfaces[name] = prim_name(valid, set(self._surfaces.values()))
            self._surface(stage, self._surfaces[name], mesh, frame.number)
        self._solids.take(frame)
        taken: set[str] = set()
        for solid in frame.solids:
            if solid.deforms:
                name = f"collider_{prim_name(solid.name, taken)}"
                self._surface(stage, name, Mesh(solid.vertices, solid.triangles), frame.number)
        self._export(stage, path)
        return [path]

    def _export(self, stage: Any, path: Path) -> None:
        with path_aside(path) as aside:
            try:
                done = stage.GetRootLayer().Export(str(aside))
            except self.pxr.Tf.ErrorException as error:
                raise OSError(errno.EIO, _reason(error)) from None
            if not done:
                raise OSError(errno.EIO, "USD does not say why")

    def _new_stage(self, suffix: str, first: int, last: int) -> Any:
        pxr = self.pxr
        stage = pxr.Usd.Stage.Open(pxr.Sdf.Layer.CreateAnonymous(f"runnel{suffix}"))
        pxr.UsdGeom.SetStageUpAxis(stage, self.shot.up.upper())
        pxr.UsdGeom.SetStageMetersPerUnit(stage, 1.0 / self.shot.scale)
        stage.SetTimeCodesPerSecond(self.shot.fps)
        stage.SetFramesPerSecond(self.shot.fps)
        stage.SetStartTimeCode(first)
        stage.SetEndTimeCode(last)
        root = pxr.UsdGeom.Xform.Define(stage, ROOT).GetPrim()
        pxr.Usd.ModelAPI(root).SetKind("component")
        stage.SetDefaultPrim(root)
        stage.GetRootLayer().customLayerData = {"software": "Runnel", "scene": self.shot.name}
        return stage

    def _prim(self, stage: Any, path: str, kind: str) -> Any:
        """A Points or Mesh prim with what does not change over time."""
        prim = stage.DefinePrim(path, kind)
        self._declared.setdefault(path, (kind, {}))
        geometry = self.pxr.UsdGeom.Imageable(prim)
        geometry.CreatePurposeAttr(self.pxr.UsdGeom.Tokens.default_)
        if kind == "Mesh":
            mesh = self.pxr.UsdGeom.Mesh(prim)
            mesh.CreateSubdivisionSchemeAttr(self.pxr.UsdGeom.Tokens.none)
            mesh.CreateDoubleSidedAttr(True)
        elif self.shot.fluids:
            names = self.pxr.Vt.StringArray(list(self.shot.fluids))
            prim.SetCustomDataByKey("fluids", names)
        return prim

    def _set(
        self, prim: Any, name: str, values: Any, kind: Any, time: int, elements: int = 1
    ) -> None:
        """An attribute at a time."""
        known = self._declared[str(prim.GetPath())][1]
        kind = known.setdefault(name, (kind, elements))[0]  # the first frame decides
        attribute = self._attribute(prim, name, kind, elements)
        attribute.Set(values, time)

    def _attribute(self, prim: Any, name: str, kind: Any, elements: int) -> Any:
        """Declare an attribute; values per point unless USD has it otherwise."""
        own = prim.GetPrimDefinition().GetPropertyNames()
        attribute = prim.CreateAttribute(name, kind, custom=False)
        if name.startswith("primvars:"):
            primvar = self.pxr.UsdGeom.Primvar(attribute)
            primvar.SetInterpolation(self.pxr.UsdGeom.Tokens.vertex)
            if elements > 1:
                primvar.SetElementSize(elements)
        elif name in ("widths", "normals") and name in own:
            attribute.SetMetadata("interpolation", self.pxr.UsdGeom.Tokens.vertex)
        return attribute

    def _particles(self, stage: Any, frame: Frame) -> None:
        types, time = self.pxr.Sdf.ValueTypeNames, frame.number
        prim = self._prim(stage, f"{ROOT}/particles", "Points")
        channels = _in_order(frame.channels)
        points = self._triples(channels["position"])
        self._set(prim, "points", points, types.Point3fArray, time)
        widths = self.pxr.Vt.FloatArray()
        if "radius" in channels:
            widths = self.pxr.Vt.FloatArray.FromNumpy(
                (2 * channels["radius"].astype(np.float32)).astype(np.float32)
            )
            self._set(prim, "widths", widths, types.FloatArray, time)
        extent = self._extent(points, widths)
        self._set(prim, "extent", extent, types.Float3Array, time)
        if "velocity" in channels:
            values = self._triples(channels["velocity"])
            self._set(prim, "velocities", values, types.Vector3fArray, time)
        if "id" in channels:
            ids = channels["id"]
            values = self.pxr.Vt.Int64Array.FromNumpy(ids.astype(np.int64))
            self._set(prim, "ids", values, types.Int64Array, time)
            values = self.pxr.Vt.IntArray.FromNumpy(ids.astype(np.int32))  # hosts drop `ids`
            self._set(prim, "primvars:pid", values, types.IntArray, time)
        for name, array in channels.items():
            if name not in _OWN:
                self._primvar(prim, name, array, frame.units.get(name, ""), time)

    def _surface(self, stage: Any, name: str, mesh: Mesh, time: int) -> None:
        types, vt = self.pxr.Sdf.ValueTypeNames, self.pxr.Vt
        prim = self._prim(stage, f"{ROOT}/{name}", "Mesh")
        points = self._triples(mesh.vertices)
        self._set(prim, "points", points, types.Point3fArray, time)
        counts = vt.IntArray.FromNumpy(np.full(len(mesh.triangles), 3, np.int32))
        self._set(prim, "faceVertexCounts", counts, types.IntArray, time)
        corners = vt.IntArray.FromNumpy(mesh.triangles.reshape(-1).astype(np.int32))
        self._set(prim, "faceVertexIndices", corners, types.IntArray, time)
        extent = self._extent(points, vt.FloatArray())
        self._set(prim, "extent", extent, types.Float3Array, time)
        for channel, array in mesh.attributes.items():
            if channel == "velocity":
                values = self._triples(array)
                self._set(prim, "velocities", values, types.Vector3fArray, time)
            elif channel == "normal":
                self._set(prim, "normals", self._triples(array), types.Normal3fArray, time)
            else:
                self._primvar(prim, channel, array, "", time)

    def _triples(self, array: Array) -> Any:
        return self.pxr.Vt.Vec3fArray.FromNumpy(np.ascontiguousarray(array, np.float32))

    def _extent(self, points: Any, widths: Any) -> Any:
        """Box around the points and their spheres; an empty one at the origin without points."""
        if not len(points):
            return self.pxr.Vt.Vec3fArray([self.pxr.Gf.Vec3f(0), self.pxr.Gf.Vec3f(0)])
        if len(widths):
            return self.pxr.UsdGeom.Points.ComputeExtent(points, widths)
        return self.pxr.UsdGeom.PointBased.ComputeExtent(points)

    def _primvar(self, prim: Any, name: str, array: Array, unit: str, time: int) -> None:
        width = 1 if array.ndim == 1 else array.shape[1]
        kind, values = self._typed(array, width, unit in _VECTORS, name == "color")
        if name == "color" and width == 3 and array.dtype.kind == "f":
            name = "displayColor"
        elif name == "uv" and width == 2 and array.dtype.kind == "f":
            name, kind = "st", self.pxr.Sdf.ValueTypeNames.TexCoord2fArray
        elements = 1 if width <= 4 and array.dtype.kind == "f" else width
        self._set(prim, f"primvars:{name}", values, kind, time, elements)

    def _typed(self, array: Array, width: int, vector: bool, color: bool) -> tuple[Any, Any]:
        """USD's type for a channel and its values; triples of floats are vectors or colours."""
        types, vt = self.pxr.Sdf.ValueTypeNames, self.pxr.Vt
        flat = np.ascontiguousarray(array)
        if flat.dtype.kind != "f":
            if flat.dtype.itemsize == 8:
                return types.Int64Array, vt.Int64Array.FromNumpy(flat.astype(np.int64).ravel())
            return types.IntArray, vt.IntArray.FromNumpy(flat.astype(np.int32).ravel())
        flat = flat.astype(np.float32)
        if width == 3:
            kind = types.Color3fArray if color else types.Float3Array
            return types.Vector3fArray if vector else kind, vt.Vec3fArray.FromNumpy(flat)
        if width == 2:
            return types.Float2Array, vt.Vec2fArray.FromNumpy(flat)
        if width == 4:
            return types.Float4Array, vt.Vec4fArray.FromNumpy(flat)
        return types.FloatArray, vt.FloatArray.FromNumpy(flat.ravel())

    # ---- all frames

    def finish(self, folder: Path, files: dict[int, Path]) -> list[Path]:
        """The clips' manifest, then the file to open."""
        frames = sorted(files)
        layer = self._declarations(frames[0], frames[-1])
        _write_text(folder / MANIFEST, layer.ExportToString())
        gf, sdf, vt = self.pxr.Gf, self.pxr.Sdf, self.pxr.Vt
        paths = [sdf.AssetPath(f"./{files[frame].name}") for frame in frames]
        clips = {
            "assetPaths": sdf.AssetPathArray(paths),
            "primPath": ROOT,
            "active": vt.Vec2dArray([gf.Vec2d(frame, k) for k, frame in enumerate(frames)]),
            "times": vt.Vec2dArray([gf.Vec2d(frame, frame) for frame in frames]),
            "manifestAssetPath": sdf.AssetPath(f"./{MANIFEST}"),
        }
        # Into the layer, not through a stage, which would look for the clips at once.
        layer.GetPrimAtPath(ROOT).SetInfo("clips", {"default": clips})
        written = [folder / MANIFEST]
        if self._solids:
            stage = self._new_stage(".usdc", frames[0], frames[-1])
            self._solids.define(stage, f"{ROOT}/colliders")
            self._export(stage, folder / COLLIDERS)
            layer.subLayerPaths.append(f"./{COLLIDERS}")
            written.append(folder / COLLIDERS)
        _write_text(folder / MASTER, layer.ExportToString())
        return [*written, folder / MASTER]

    def _declarations(self, first: int, last: int) -> Any:
        """A layer with all prims and attributes and no values that change."""
        stage = self._new_stage(".usda", first, last)
        for path, (kind, attributes) in list(self._declared.items()):
            prim = self._prim(stage, path, kind)
            for name, (type_name, elements) in attributes.items():
                self._attribute(prim, name, type_name, elements)
        return stage.GetRootLayer()


def _reason(error: Exception) -> str:
    """The first of USD's errors, without the place in its source: the others follow from it."""
    found = re.search(r": '(.*)'$", str(error), re.MULTILINE)
    return found[1] if found else str(error).strip()


def _in_order(channels: dict[str, Array]) -> dict[str, Array]:
    """Particles by id: between frames with as many particles, USD blends row by row."""
    if "id" not in channels:
        return channels
    order = np.argsort(channels["id"], kind="stable")
    return {name: array[order] for name, array in channels.items()}


def _write_text(path: Path, text: str) -> None:
    with write_aside(path) as file:
        file.write(text.encode())
