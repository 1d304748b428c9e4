"""Meshes of colliders and sinks as distance fields, over time.

A field is made once for a file, its settings and a process, whatever asks for it. Of a deforming
mesh only the two frames around the present are kept. Velocities are those of vertices; level sets
have none, and give what their distances tell, or a grid of vectors beside them in the file.
"""

from __future__ import annotations

import hashlib
import math
from collections import OrderedDict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .collider_maps import IMAGE_SUFFIXES
from .errors import RunnelError, SceneError
from .mesh_sequence import MeshSequence
from .meshes import Mesh, read_mesh
from .params import Collider, MeshFile, Sink
from .scene import Scene

if TYPE_CHECKING:
    from .fields.flow import Flow
    from .fields.grid import FieldSettings, SparseField
    from .fields.surfaces import Texture

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Moment = tuple["SparseField", "SparseField", float]  # before, after, share of the second

_KEPT = 16  # fields of files that do not change
_made: OrderedDict[tuple[bytes, FieldSettings, float], SparseField] = OrderedDict()


def voxel_size(scene: Scene, part: Collider | Sink) -> float:
    """Distance of voxels [m], and from the middle of a shell to its surface."""
    from .fields.grid import VOXEL

    given = part.voxel_size if isinstance(part, Collider) else None
    return VOXEL * scene.smallest_spacing if given is None else given


def field_settings(scene: Scene, part: Collider | Sink) -> FieldSettings:
    """In the mesh's own frame, which `scale` enlarges."""
    from .fields.grid import default_settings

    radius = scene.solver.support / 2 * scene.largest_spacing
    settings = default_settings(
        scene.smallest_spacing / part.scale,
        radius / part.scale,
        voxel=voxel_size(scene, part) / part.scale,
        mode=part.mode if isinstance(part, Collider) else "outside",
        offset=part.offset / part.scale if isinstance(part, Collider) else 0.0,
        name=part.name,
    )
    wanted = part.band_width if isinstance(part, Collider) else None
    if wanted is None:
        return settings
    return replace(settings, band=max(settings.band, wanted / part.scale))


@dataclass(frozen=True)
class Surface:
    """Friction, bounce and stickiness over a mesh, where they are not the same everywhere."""

    scene: Scene
    part: Collider
    key: str
    wetness: Singles | None = None  # (rows, columns), of a wet map that is fed back

    @classmethod
    def of(cls, scene: Scene, part: Collider | Sink, key: str) -> Surface | None:
        if not isinstance(part, Collider):
            return None
        maps = (part.friction_map, part.bounce_map, part.stickiness_map)
        wet = (part.wet_friction, part.wet_stickiness)
        varies = any(value is not None for value in maps + wet)
        return cls(scene, part, key) if varies else None

    def on(self, field: SparseField, mesh: Mesh, path: Path) -> SparseField:
        """The field of a mesh, with these."""
        from .fields.surfaces import Texture, field_from, read_uvs

        values = np.empty((field.leaves, 729, 3), np.float32)
        for k, name in enumerate(("friction", "bounce", "stickiness")):
            values[..., k] = getattr(self.part, name)
            given = getattr(self.part, f"{name}_map")
            if given is not None:
                try:
                    values[..., k] *= field_from(field, mesh, self._source(given, path))
                except SceneError as error:
                    error.key = error.key or f"{self.key}.{name}_map"
                    raise
        if self.wetness is not None:
            wet = field_from(field, mesh, Texture(self.wetness, read_uvs(path)))
            for k, value in ((0, self.part.wet_friction), (2, self.part.wet_stickiness)):
                if value is not None:
                    values[..., k] += wet * (np.float32(value) - values[..., k])
        values[..., 2] = np.clip(values[..., 2], 0.0, 1.0)
        return replace(field, surface=np.maximum(values, 0.0))

    def _source(self, given: str, path: Path) -> Texture | Floats:
        from .fields.surfaces import Texture, read_attribute, read_image, read_uvs

        if given.lower().endswith(IMAGE_SUFFIXES):
            image = read_image((self.scene.directory or Path()) / given)
            return Texture(image, read_uvs(path))
        return read_attribute(path, given)


class MeshField:
    """The field of one collider or sink in its own frame, at any time."""

    def __init__(self, scene: Scene, part: Collider | Sink, shape: MeshFile, key: str) -> None:
        self._scene, self._shape, self._key = scene, shape, key
        self._settings = field_settings(scene, part)
        self._radius = scene.solver.support / 2 * scene.smallest_spacing / part.scale
        self._surface = Surface.of(scene, part, key)
        self._notes: list[str] = []
        self._said: set[str] = set()
        self._frames = MeshSequence(scene, shape) if shape.is_sequence else None
        self._fields: OrderedDict[int, SparseField] = OrderedDict()  # of a sequence, by frame
        self._still: SparseField | None = None  # without velocities
        if self._frames is None:
            self._still = self._guarded(None)
            self._say(self._still.notes)
        self.bounds: tuple[Floats, Floats] = self.at(0.0)[1].bounds

    @property
    def deforms(self) -> bool:
        return self._frames is not None

    def at(self, time: float) -> Moment:
        """Fields around a time [s], and the share of the second. The second's velocities are those
        between both."""
        if self._frames is None:
            assert self._still is not None
            return self._still, self._still, 0.0
        place = self._frames.place(time)
        after = math.ceil(place - 1e-6)
        if place <= self._frames.first or place >= self._frames.last:
            still = replace(self._frame(round(place)), velocity=None)
            kept = self._still
            same = kept and kept.values is still.values and kept.surface is still.surface
            self._still = kept if kept is not None and same else still
            return self._still, self._still, 0.0
        first, second = self._frame(after - 1), self._frame(after)
        return first, second, min(1.0, place - (after - 1))

    def speed(self, time: float) -> float:
        """Of its fastest vertex in its own frame, at most [m/s]."""
        if self._frames is None:
            return 0.0
        return self.at(time)[1].fastest

    def shape_at(self, time: float) -> tuple[Mesh, Path]:
        """The mesh in its own frame at a time [s], and the file its triangles are from."""
        if self._frames is None:
            path = self._scene.mesh_path(self._shape)
            return read_mesh(path), path
        return self._frames.at(time), self._frames.path(time)

    @property
    def wetness(self) -> Singles:
        """What take_wetness was given last."""
        assert self._surface is not None
        none = np.zeros((1, 1), np.float32)
        return none if self._surface.wetness is None else self._surface.wetness

    def take_wetness(self, image: Singles) -> None:
        """How wet the surface is (rows, columns) from now on; fields change with it."""
        assert self._surface is not None
        self._surface = replace(self._surface, wetness=image)
        if self._frames is None and self._still is not None:
            path = self._scene.mesh_path(self._shape)
            self._still = self._surface.on(self._still, read_mesh(path), path)
        for number, field in self._fields.items():
            path = self._scene.mesh_path(self._shape, number)
            assert self._frames is not None
            self._fields[number] = self._surface.on(field, self._frames.mesh(number), path)

    def take_notes(self) -> list[str]:
        """What people should know, each once."""
        taken, self._notes = self._notes, []
        return taken

    def _say(self, notes: tuple[str, ...]) -> None:
        for note in notes:
            if note not in self._said:
                self._said.add(note)
                self._notes.append(note)

    def _frame(self, number: int) -> SparseField:
        if number not in self._fields:
            self._fields[number] = self._guarded(number)
            while len(self._fields) > 2:
                self._fields.popitem(last=False)
        self._fields.move_to_end(number)
        return self._fields[number]

    def _guarded(self, number: int | None) -> SparseField:
        """Errors name the collider."""
        try:
            field = self._make() if number is None else self._make_frame(number)
            if self._surface is None:
                return field
            path = self._scene.mesh_path(self._shape, number)
            mesh = read_mesh(path) if self._frames is None else self._frames.mesh(number or 0)
            return self._surface.on(field, mesh, path)
        except SceneError as error:
            error.key = error.key or f"{self._key}.shape.mesh"
            raise
        except RunnelError as error:
            raise SceneError(str(error), key=f"{self._key}.voxel_size") from error

    def _make(self) -> SparseField:
        path = self._scene.mesh_path(self._shape)
        # Named by its file: colliders that share it share the field.
        settings = replace(self._settings, name=path.name)
        key = (hashlib.sha256(path.read_bytes()).digest(), settings, self._radius)
        if key not in _made:
            from .fields.walls import with_walls

            _made[key] = with_walls(_read_field(path, settings), self._radius)
            while len(_made) > _KEPT:
                _made.popitem(last=False)
        _made.move_to_end(key)
        return _made[key]

    def _make_frame(self, number: int) -> SparseField:
        from .fields.rasterize import field_of_mesh
        from .fields.velocity import deform, same_topology
        from .fields.walls import with_walls

        frames, settings = self._frames, self._settings
        assert frames is not None
        if frames.of_level_sets:
            return self._moved_level_set(number, frames)
        now = frames.mesh(number)
        if number == frames.first:
            return with_walls(field_of_mesh(now, settings), self._radius)
        before = frames.mesh(number - 1)
        previous = None
        if not same_topology(before, now) and number - 1 > frames.first:
            # One frame back and no farther: the same whether or not a run was resumed here.
            earlier = frames.mesh(number - 2)
            if same_topology(earlier, before):
                previous = deform(earlier, before, 1.0 / self._scene.fps, settings)
        field = deform(before, now, 1.0 / self._scene.fps, settings, previous)
        self._say(tuple(f"frame {number}: {note}" for note in field.notes))
        self._warn_of_speed(field, number)
        return with_walls(field, self._radius)

    def _moved_level_set(self, number: int, frames: MeshSequence) -> SparseField:
        from .fields.velocity import moved
        from .fields.walls import with_walls

        field = self._level_set(number)
        if number > frames.first:
            before = self._fields.get(number - 1) or self._level_set(number - 1)
            field = moved(before, field, 1.0 / self._scene.fps, self._given(number))
        self._say(field.notes)
        return with_walls(field, self._radius)

    def _given(self, number: int) -> Flow | None:
        """Velocities in the file of a level set; what is wrong with them is said."""
        from .fields.flow import velocities_beside

        try:
            return velocities_beside(self._scene.mesh_path(self._shape, number))
        except RunnelError as error:
            self._say((f"{self._settings.name}: velocities beside it are not used: {error}",))
            return None

    def _level_set(self, number: int) -> SparseField:
        return _read_field(self._scene.mesh_path(self._shape, number), self._settings)

    def _warn_of_speed(self, field: SparseField, number: int) -> None:
        way = field.fastest / self._scene.fps
        if way > field.band:
            self._say(
                (
                    f"{self._settings.name}: moves {way:.3g} m up to frame {number}, farther than "
                    f"its field reaches ({field.band:.3g} m); fluid may pass through it. More "
                    "frames per second, or a larger voxel_size, help.",
                )
            )


def _read_field(path: Path, settings: FieldSettings) -> SparseField:
    if path.suffix.lower() == ".vdb":
        from .fields.vdb import read_vdb

        if settings.mode == "shell":
            raise SceneError('a .vdb file has an inside; mode = "shell" needs a mesh')
        # "outside" is the default, and what a file says of itself is better than a default.
        mode = None if settings.mode == "outside" else settings.mode
        # Level sets of renders are far finer than particles: bands of many voxels take minutes.
        return read_vdb(
            path, band=settings.band, mode=mode, offset=settings.offset, memory=settings.memory,
            finest=settings.voxel,
        )  # fmt: skip
    from .fields.rasterize import field_of_mesh
    from .fields.thin import thin_note

    mesh = read_mesh(path)
    field = field_of_mesh(mesh, settings)
    note = thin_note(field, mesh, settings.name)
    return field if note is None else field.with_notes(note)


def mesh_bounds(scene: Scene, shape: MeshFile) -> tuple[Floats, Floats] | None:
    """Lowest and highest corner of a mesh in its own frame; None of a .vdb file."""
    number = scene.mesh_frames(shape)[0] if shape.is_sequence else None
    path = scene.mesh_path(shape, number)
    return None if path.suffix.lower() == ".vdb" else read_mesh(path).bounds
