"""Wet maps: where fluid has touched a mesh, in its texture space (P004 figure 11 top).

Each texel knows its place on the mesh. A particle touches the surface if it is within 0.75 d of it
(at rest it is 0.5 d off); it covers what is within that of its place, fading out over 0.5 d.

    cover  = clamp((1.25 d - distance) / 0.5 d), the largest of all particles
    amount = max(amount - dt / drying_time, cover)
    time  += dt where cover >= 1/2

Summed over every step, so that a splash between two frames leaves its mark.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .collider_fields import MeshField
from .errors import SceneError
from .params import Collider
from .scene import Scene

if TYPE_CHECKING:
    from .colliders import Solids
    from .fields.grid import SparseField

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Array = NDArray[Any]
Deformed = tuple["SparseField", Floats]  # field and vertices of a mesh, in the world

TOUCH, FADE = 0.75, 0.5  # [d]
PADDING = 4  # texels around each island, so that no seam is seen


class WetMap:
    """The map of one collider."""

    def __init__(self, part: Collider, mesh: MeshField) -> None:
        self.part, self.mesh = part, mesh
        self.size = part.wet_map_size
        self._path: Path | None = None
        self._triangles = np.zeros((0, 3), np.int32)
        self.amount = np.zeros((self.size, self.size), np.float32)
        self.time = np.zeros_like(self.amount)
        self.now = np.zeros_like(self.amount)
        self._unwrap(0.0)

    @property
    def fed_back(self) -> bool:
        return self.part.wet_friction is not None or self.part.wet_stickiness is not None

    def _unwrap(self, time: float) -> None:
        """Which texels show which places, of the mesh at a time [s]."""
        from .fields.surfaces import read_uvs
        from .fields.texels import nearest_texels, texels_of

        self._shape, path = self.mesh.shape_at(time)
        if path == self._path:
            return
        fresh = self._path is None or not np.array_equal(self._triangles, self._shape.triangles)
        self._path, self._triangles = path, self._shape.triangles
        if not fresh:
            return
        uvs = read_uvs(path)
        if len(uvs) != len(self._triangles):
            raise SceneError(f"{path.name}: texture coordinates do not fit its triangles")
        self._texel, self._triangle, self._weights = texels_of(uvs, self.size)
        if not len(self._texel):
            raise SceneError(
                f"{path.name}: its texture coordinates cover no texel. Unwrap it into 0..1, or use "
                "a larger wet_map_size"
            )
        self._shown = nearest_texels(self._texel, self.size, PADDING)

    def step(
        self, rows: Array, x: Singles, d: Floats, time: float, dt: float, body: Deformed | None
    ) -> None:
        """What a step of length dt [s] up to `time` leaves; x (n, 3), d (n,) [m]. body: the shape
        in the world of a mesh that the fluid deforms."""
        from .fields.texels import cover_texels

        if self.mesh.deforms:
            self._unwrap(time)
        row = rows.astype(np.float64)
        scale = float(row[5]) if body is None else 1.0
        local = x.astype(np.float64)
        if body is None:
            local = (local - row[17:20]) @ row[8:17].reshape(3, 3).T / scale
            first, second, share = self.mesh.at(time)
            vertices = self._shape.vertices
        else:
            first, vertices = body
            second, share = first, 0.0
        low, high = first.bounds
        margin = float(d.max(initial=0.0)) / scale
        close = np.flatnonzero(((local > low - margin) & (local < high + margin)).all(axis=1))
        local, d = local[close], d[close] / scale
        away = first.distance(local)
        if share > 0:
            away += share * (second.distance(local) - away)
        touching = away < TOUCH * d
        corners = vertices[self._shape.triangles[self._triangle]]
        places = np.einsum("nk,nkc->nc", self._weights, corners)
        cover = cover_texels(places, local[touching], d[touching], first.shift, TOUCH, FADE)
        amount, seconds, now = (a.reshape(-1) for a in (self.amount, self.time, self.now))
        dry = 0.0 if self.part.drying_time is None else dt / self.part.drying_time
        amount[self._texel] = np.maximum(amount[self._texel] - np.float32(dry), cover)
        seconds[self._texel] += np.float32(dt) * (cover >= 0.5)
        now[self._texel] = cover

    def image(self) -> Singles:
        """(rows, columns, 3): amount, time [s], touched now; islands are padded."""
        whole = np.stack([self.amount, self.time, self.now], axis=-1).reshape(-1, 3)
        return whole[self._shown].reshape(self.size, self.size, 3)

    def feed(self) -> None:
        """Let friction and stickiness follow how wet it is."""
        self.mesh.take_wetness(self.image()[..., 0])

    def write(self, folder: Path, frame: int) -> Path:
        """The map as an image of a frame."""
        from .images import write_exr, write_png

        path = folder / self.part.name / f"{self.part.name}.{frame:04d}.{self.part.wet_map}"
        image = self.image()
        if self.part.wet_map == "exr":
            write_exr(path, image)
        else:
            whole = np.rint(image.astype(np.float64) * [65535.0, 1000.0, 65535.0])
            write_png(path, np.clip(whole, 0, 65535).astype(np.uint16))
        return path


class WetMaps:
    """Those of a scene."""

    def __init__(self, scene: Scene, solids: Solids) -> None:
        self._scene, self._solids = scene, solids
        self.maps: dict[int, WetMap] = {}
        for i, part in enumerate(scene.colliders):
            mesh = solids.mesh(i)
            if part.wet_map == "none" or mesh is None:
                continue
            try:
                self.maps[i] = WetMap(part, mesh)
            except SceneError as error:
                error.key = error.key or f"collider[{i}].wet_map"
                raise

    def __len__(self) -> int:
        return len(self.maps)

    def begin_frame(self) -> None:
        """Feed back what the frames so far have left; the same within a frame."""
        fed = [wet for wet in self.maps.values() if wet.fed_back]
        for wet in fed:
            wet.feed()
        if fed:
            self._solids.refresh()

    def step(
        self, rows: Array, x: Singles, volume: Singles, time: float, dt: float,
        bodies: Mapping[int, Deformed],
    ) -> None:  # fmt: skip
        """Take in a step that is done; rows are those of the solids at its end, bodies the shapes
        of deformable ones by collider."""
        d = np.cbrt(volume.astype(np.float64))
        for i, wet in self.maps.items():
            wet.step(rows[i], x, d, time, dt, bodies.get(i))

    def write(self, folder: Path, frame: int) -> list[Path]:
        return [wet.write(folder, frame) for wet in self.maps.values()]

    def state(self) -> dict[str, Array]:
        """For checkpoints; what a frame began with too, since it may be half done."""
        result: dict[str, Array] = {}
        for i, wet in self.maps.items():
            result[f"wet.{i}"] = np.stack([wet.amount, wet.time, wet.now])
            if wet.fed_back:
                result[f"wet_fed.{i}"] = wet.mesh.wetness.copy()
        return result

    def restore(self, arrays: Mapping[str, Array]) -> None:
        for i, wet in self.maps.items():
            wet.amount, wet.time, wet.now = (np.array(a) for a in arrays[f"wet.{i}"])
            if wet.fed_back:
                wet.mesh.take_wetness(np.array(arrays[f"wet_fed.{i}"]))
        if self.maps:
            self._solids.refresh()
