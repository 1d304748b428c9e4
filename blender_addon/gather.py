# SPDX-License-Identifier: GPL-3.0-or-later
"""From Blender to core's scene: what the objects of a system are at each frame.

Only this module reads Blender. Meshes are evaluated: modifiers, armatures, shape keys, parents,
instances and uneven scale included. Whether something stands still, moves as a whole or deforms is
seen by comparing frames. All lengths leave here in metres.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import bpy
import numpy as np

from runnel.collider_maps import IMAGE_SUFFIXES
from runnel.params import Collider, Domain, Fluid, Output, Sink, Solver, Source
from runnel.scene import Scene

from . import forces, meshes, properties, roles, takes
from .deliver import bodies
from .deliver.objects import metres_per_unit
from .meshes import Piece
from .tracks import Track, rotation

_MAPS = ("friction_map", "bounce_map", "stickiness_map")


@dataclass
class Note:
    """Something seen on the way that the artist should know."""

    kind: str
    text: str
    object: str = ""


@dataclass
class Export:
    """A scene for core, and which objects its parts come from."""

    data: dict[str, Any]
    folder: Path
    objects: dict[str, list[str]]  # list of core's scene -> names of objects
    notes: list[Note] = field(default_factory=list)
    scene: Scene | None = None

    def check(self) -> Scene:
        """Core's scene; raises SceneError on what core does not accept."""
        self.scene = Scene.from_dict(self.data, directory=self.folder)
        return self.scene

    def write(self, take: str) -> Path:
        """The file that `runnel run` takes."""
        path = self.folder / f"{take}.json"
        takes.write_scene(path, (self.scene or self.check()).to_dict())
        return path


# --- one system over its frames -------------------------------------------------------------------


class Gatherer:
    """Reads a system frame by frame; `step` does one, so that Blender stays awake in between."""

    def __init__(self, system: Any, folder: Path, frames: tuple[int, int] | None = None) -> None:
        scene = system.id_data
        self._scene, self.uid = scene.name, system.uid
        self.folder = folder
        self.first, self.last = frames or system.frame_range()
        self._next = self.first
        self.metres = metres_per_unit(scene)
        self.tracks = {
            obj.name: Track(obj, folder, self.metres, spacing_of(obj, system) * self.metres)
            for obj in roles.members(system)
            if obj.runnel.role not in ("FORCE",)
        }
        self.forces: dict[str, forces.Seen] = {}  # name of object -> frame -> force
        self._objects = {name: _wishes(scene.objects[name]) for name in self.tracks}

    @property
    def share(self) -> float:
        return (self._next - self.first) / (self.last - self.first + 1)

    @property
    def done(self) -> bool:
        return self._next > self.last

    def step(self, context: bpy.types.Context) -> None:
        """See one frame."""
        scene = bpy.data.scenes[self._scene]
        scene.frame_set(self._next)
        depsgraph = context.evaluated_depsgraph_get()
        found = self._pieces(depsgraph)
        for name, track in self.tracks.items():
            obj = scene.objects[name]
            track.see(self._next, found.get(name, []), np.array(obj.matrix_world, np.float64))
        for obj in forces.objects(self._system()):
            force = forces.force_of(obj.evaluated_get(depsgraph), self.metres)
            self.forces.setdefault(obj.name, {})[self._next] = force
        self._next += 1

    def _system(self) -> Any:
        system = properties.find(bpy.data.scenes[self._scene], self.uid)
        if system is None:
            raise RuntimeError("the system was removed while it was read")
        return system

    def _pieces(self, depsgraph: bpy.types.Depsgraph) -> dict[str, list[Piece]]:
        """Meshes of the system's objects: their own, and instances of them or made by them."""
        found: dict[str, list[Piece]] = {}
        for instance in depsgraph.object_instances:
            shown = instance.object
            owner, key = shown.original.name, ("own",)
            if instance.is_instance:
                parent = instance.parent.original.name if instance.parent else ""
                key = ("instance", owner, parent, *instance.persistent_id)
                owner = owner if owner in self.tracks else parent
            if owner not in self.tracks:
                continue
            wanted, uv = self._objects[owner]
            known = self.tracks[owner].piece(key)
            piece = meshes.read_piece(key, shown, instance.matrix_world, wanted, uv, known)
            if piece is not None:
                found.setdefault(owner, []).append(piece)
        for pieces in found.values():
            pieces.sort(key=lambda piece: tuple(map(str, piece.key)))
        return found

    def finish(self) -> Export:
        """The scene, once all frames were seen."""
        return Builder(self, self._system()).export()

    def close(self) -> None:
        """Remove what an unfinished export left."""
        for track in self.tracks.values():
            track.close()


def _wishes(obj: bpy.types.Object) -> tuple[tuple[str, ...], bool]:
    """Vertex attributes that a collider's maps name, and whether it needs texture coordinates."""
    if obj.runnel.role != "COLLIDER":
        return (), False
    collider = obj.runnel.collider
    named = [getattr(collider, name) for name in _MAPS if getattr(collider, name)]
    images = [name for name in named if name.lower().endswith(IMAGE_SUFFIXES)]
    attributes = tuple(sorted(set(named) - set(images)))
    return attributes, bool(images) or collider.wet_map != "none"


class Builder:
    """Makes core's scene from what was seen."""

    def __init__(self, seen: Gatherer, system: Any) -> None:
        self.seen, self.system = seen, system
        self.scene = system.id_data
        self.metres = seen.metres
        self.objects: dict[str, list[str]] = {}
        self.notes: list[Note] = []
        self.data: dict[str, Any] = {}

    def export(self) -> Export:
        system, scene, metres = self.system, self.scene, self.metres
        gravity = scene.gravity if scene.use_gravity else (0.0, 0.0, 0.0)
        self.data = {
            "name": takes.file_name(system.name)[:64],
            "fps": scene.render.fps / properties.rounded(scene.render.fps_base),
            "frames": [self.seen.first, self.seen.last],
            **properties.values(system.world, Scene, metres),
            "solver": {
                **properties.values(system.solver, Solver, metres),
                "gravity": [properties.rounded(g * metres) for g in gravity],
            },
            "output": properties.values(system.output, Output, metres),
            "fluid": [
                {"name": fluid.name, **properties.values(fluid, Fluid, metres)}
                for fluid in system.fluids
            ],
        }
        for name, track in self.seen.tracks.items():
            self._add(scene.objects[name], track)
        self._add_forces()
        return Export(self.data, self.seen.folder, self.objects, self.notes)

    def _add(self, obj: bpy.types.Object, track: Track) -> None:
        if track.empty:
            self._note("no_surface", f"{obj.name!r} has no faces, or is not in this view layer; "
                       "it is left out.", obj)  # fmt: skip
            return
        if obj.runnel.role == "DOMAIN":
            self._set_domain(obj, track)
            return
        if track.bends:
            text = f"{obj.name!r} deforms; it counts as it is at the first frame."
            self._note("deforms", text, obj)
        if obj.runnel.role == "SOFT" and track.moves:
            text = f"{obj.name!r} moves by itself; the fluid has it where it is at the first frame."
            self._note("moves", text, obj)
        make = {"source": self._source, "collider": self._collider, "sink": self._sink}
        key = roles.LISTS[obj.runnel.role]
        self._append(key, obj, {"name": track.part, **make[key](obj, track)})

    def _append(self, key: str, obj: bpy.types.Object, part: dict[str, Any]) -> None:
        self.data.setdefault(key, []).append(part)
        self.objects.setdefault(key, []).append(obj.name)

    def _note(self, kind: str, text: str, obj: bpy.types.Object) -> None:
        self.notes.append(Note(kind, text, obj.name))

    def _set_domain(self, obj: bpy.types.Object, track: Track) -> None:
        if "domain" in self.data:
            self._note("two_domains", f"{obj.name!r} is a second domain and is left out.", obj)
            return
        vertices = track.world().vertices * self.metres
        low, high = vertices.min(axis=0), vertices.max(axis=0)
        self.data["domain"] = {
            **properties.values(obj.runnel.domain, Domain, self.metres),
            "min": [properties.rounded(v) for v in low],
            "max": [properties.rounded(v) for v in high],
        }

    def _source(self, obj: bpy.types.Object, track: Track) -> dict[str, Any]:
        settings = obj.runnel
        part = properties.values(settings.source, Source, self.metres)
        part["spacing"] = properties.rounded(spacing_of(obj, self.system) * self.metres)
        names = [fluid.name for fluid in self.system.fluids]
        part["fluid"] = settings.fluid if settings.fluid in names else (names or [""])[0]
        part["kind"] = "volume" if settings.role == "FLUID" else "emitter"
        if settings.role == "FLUID":
            for key in ("rate", "speed", "frames"):
                part.pop(key, None)
            return part | track.shape()
        # Core tells an emitter's velocity in the axes of the mesh as exported: the object's where
        # it deforms, else the world's.
        if not track.deforms:
            turned = rotation(track.first_matrix) @ np.array(part["velocity"])
            part["velocity"] = [properties.rounded(v) for v in turned]
        return part | track.shape()

    def _collider(self, obj: bpy.types.Object, track: Track) -> dict[str, Any]:
        part = properties.values(obj.runnel.collider, Collider, self.metres)
        role = obj.runnel.role
        part["body"] = roles.BODIES[role]
        if role == "RIGID":
            part["mode"] = "outside"
        else:
            for key in ("density", "mass", "velocity", "angular_velocity"):
                if role == "COLLIDER":
                    part.pop(key, None)
        if role == "SOFT":
            self._pin(obj, part)
        self._copy_images(obj, part)
        part |= track.shape()
        if role == "COLLIDER" and "motion" in part:
            part["body"] = "animated"
        return part

    def _pin(self, obj: bpy.types.Object, part: dict[str, Any]) -> None:
        holder = obj.runnel.collider.pin
        if holder is None:
            return
        corners = np.array([holder.matrix_world @ _vector(c) for c in holder.bound_box])
        if holder.type == "EMPTY":
            size = holder.empty_display_size
            unit = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])
            corners = np.array([holder.matrix_world @ _vector(c * size) for c in unit])
        low, high = corners.min(axis=0) * self.metres, corners.max(axis=0) * self.metres
        ends = {"min": low, "max": high}
        box = {key: [properties.rounded(v) for v in end] for key, end in ends.items()}
        part["pin"] = {"box": box}

    def _copy_images(self, obj: bpy.types.Object, part: dict[str, Any]) -> None:
        """Images go beside the meshes, for scenes may not reach out of their folder."""
        for key in _MAPS:
            name = part.get(key)
            if not name or not name.lower().endswith(IMAGE_SUFFIXES):
                continue
            path = Path(bpy.path.abspath(name))
            if not path.is_file():
                self._note("missing_map", f"{obj.name!r}: there is no image {path}.", obj)
                del part[key]
                continue
            stem = takes.file_name(path.stem)
            folder = self.seen.folder / "meshes"
            file = meshes.keep(folder, stem, path.read_bytes(), path.suffix.lower())
            part[key] = f"meshes/{file}"

    def _sink(self, obj: bpy.types.Object, track: Track) -> dict[str, Any]:
        return {**properties.values(obj.runnel.sink, Sink, self.metres), **track.shape()}

    def _add_forces(self) -> None:
        for name, seen in self.seen.forces.items():
            obj = self.scene.objects[name]
            part, problems = forces.over_time(seen)
            if part is None:
                continue
            missing = forces.bring_field(part, self.seen.folder / "meshes")
            if missing:
                self._note("missing_field", f"{obj.name!r}: {missing}.", obj)
                continue
            self._append("force", obj, part)
            for problem in problems:
                self._note("force_field", problem, obj)


def _vector(values: Any) -> Any:
    from mathutils import Vector

    return Vector(values)


def spacing_of(obj: bpy.types.Object, system: Any) -> float:
    """Distance of the particles of a source [Blender's units]."""
    source = obj.runnel.source
    return float(source.spacing if source.use_spacing else system.spacing)


# --- the state of Blender while it is read --------------------------------------------------------


@contextmanager
def prepared(context: bpy.types.Context, system: Any) -> Iterator[None]:
    """Bodies at rest, members visible; frame and visibility are put back at the end."""
    scene, view_layer = system.id_data, context.view_layer
    frame, subframe = scene.frame_current, scene.frame_subframe
    names = [obj.name for obj in roles.members(system)]
    name = scene.name
    with bodies.at_rest(scene):
        restore = _show_all(view_layer, [scene.objects[n] for n in names])
        try:
            yield
        finally:
            for undo in reversed(restore):
                with suppress(ReferenceError, RuntimeError):
                    undo()
            scene = bpy.data.scenes.get(name)
            if scene is not None:
                scene.frame_set(frame, subframe=subframe)


def _show_all(view_layer: Any, objects: list[bpy.types.Object]) -> list[Any]:
    """Make objects visible; returns what makes them as they were."""
    undo: list[Any] = []

    def put(owner: Any, attribute: str) -> None:
        if getattr(owner, attribute):
            setattr(owner, attribute, False)
            undo.append(lambda: setattr(owner, attribute, True))

    for obj in objects:
        put(obj, "hide_viewport")
        if obj.name in view_layer.objects and obj.hide_get(view_layer=view_layer):
            obj.hide_set(False, view_layer=view_layer)
            undo.append(lambda obj=obj: obj.hide_set(True, view_layer=view_layer))
    if any(not obj.visible_get(view_layer=view_layer) for obj in objects):
        wanted = set(objects)
        for layer in _layers(view_layer.layer_collection):
            if wanted & set(layer.collection.all_objects):
                put(layer, "hide_viewport")
                put(layer.collection, "hide_viewport")
    return undo


def _layers(top: Any) -> Iterator[Any]:
    for child in top.children:
        yield child
        yield from _layers(child)


def gather(
    context: bpy.types.Context, system: Any, folder: Path, frames: tuple[int, int] | None = None
) -> Export:
    """Read a system in one go."""
    with prepared(context, system):
        seen = Gatherer(system, folder, frames)
        try:
            while not seen.done:
                seen.step(context)
            return seen.finish()
        finally:
            seen.close()
