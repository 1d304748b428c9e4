"""From a node's inputs to a scene: tables of core, and the files they name.

A solver that runs inside of Houdini and one on a farm read the same folder; the only difference is
that live the files of moving inputs are written frame by frame, just ahead of the solver.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import hou
import numpy as np

from runnel import RunnelError, Scene
from runnel.surface import Mesh, write_mesh

from . import values as settings
from .geometry import Array, point_values
from .inputs import BODIES, COLLIDERS, FORCES, SOURCE, Inputs
from .pieces import Piece, pieces
from .values import Table, Values

EMITTER_ONLY = ("rate", "speed", "frames", "inherit_velocity")


@dataclass(frozen=True)
class Moving:
    """A file a frame."""

    index: int  # of the input
    piece: str
    pattern: str  # name with #### for the frame
    write: Callable[[Path, hou.Geometry, Piece], None]

    def path(self, folder: Path, frame: int) -> Path:
        return folder / re.sub(r"#+", lambda run: f"{frame:0{len(run[0])}d}", self.pattern)


@dataclass
class Gathering:
    """The scene of a solver node; `folder` is where its files go."""

    inputs: Inputs
    values: Values
    folder: Path
    fps: float  # of Houdini
    name: str
    last: int  # frame
    notes: list[str] = field(default_factory=list)  # what people should know
    moving: list[Moving] = field(default_factory=list)
    _names: dict[str, set[str]] = field(default_factory=dict)

    @property
    def first(self) -> int:
        return int(self.values["startframe"])

    def scene(self) -> Scene:
        """The scene; files of all that stands still, and of the first frame, are written."""
        self.folder.mkdir(parents=True, exist_ok=True)
        sources, sinks = self._sources()
        table = settings.scene_dict(
            {**self.values, "endframe": self.last},
            name=_clean(self.name),
            fps=self.fps,
            sources=sources,
            sinks=sinks,
            colliders=[*self._colliders(), *self._bodies()],
            forces=self._forces(),
        )
        return Scene.from_dict(table, self.folder)

    def need(self, frame: int, inputs: Inputs | None = None) -> None:
        """Write the files of a frame, as far as they are not there yet."""
        inputs = inputs or self.inputs
        for part in self.moving:
            path = part.path(self.folder, frame)
            if frame > self.last or path.exists():
                continue
            geo = inputs.at(part.index, frame)
            found = [] if geo is None else pieces(geo, as_points=part.pattern.endswith(".bgeo"))
            for piece in found:
                if piece.name == part.piece and geo is not None:
                    part.write(path, geo, piece)
                    break
            else:
                name = f" {part.piece!r}" if part.piece else ""
                raise RunnelError(
                    f"Input {part.index + 1}: the piece{name} is gone at frame {frame}. Pieces "
                    "have to be there from the start frame on; move one away instead."
                )

    # --- sources ---------------------------------------------------------------------------------

    def _sources(self) -> tuple[list[Table], list[Table]]:
        geo = self.inputs.at(SOURCE, self.first)
        if geo is None:
            raise RunnelError("The first input has no geometry: wire in a source.")
        default = str(self.values["sourcekind"])
        found = pieces(geo, as_points=default == "points")
        if not found:
            raise RunnelError("The first input is empty at the start frame: there is no source.")
        sources: list[Table] = []
        sinks: list[Table] = []
        for piece in found:
            kind = settings.kind_of_piece(piece.attributes, default, piece.of_points)
            table = self._source(geo, piece, kind)
            (sinks if kind == "sink" else sources).append(table)
        return sources, sinks

    def _source(self, geo: hou.Geometry, piece: Piece, kind: str) -> Table:
        own = settings.settings_of_attributes(piece.attributes, "source")
        own.pop("kind", None)
        number = f"source_{len(self._names.get('source', ())) + 1}"
        table = settings.source_settings(self.values) | own
        table["name"] = self._unique("source", piece.name or number)
        table["shape"] = {"mesh": self._mesh(number, geo, piece, SOURCE, moves=False)}
        if kind == "sink":
            return {key: table[key] for key in ("name", "shape", "frames") if key in table}
        table["kind"] = "volume" if kind in ("volume", "points") else "emitter"
        if kind != "emitter":
            table = {key: value for key, value in table.items() if key not in EMITTER_ONLY}
        table.setdefault("fluid", settings.fluids(self.values)[0]["name"])
        table.setdefault("spacing", self.values["particlesep"])
        return table

    # --- colliders, bodies, forces ---------------------------------------------------------------

    def _colliders(self) -> list[Table]:
        motion = str(self.values["collidermotion"])
        moves = motion == "deforming" or (motion == "auto" and self.inputs.moves(COLLIDERS))
        common = settings.collider_settings(self.values)
        return self._solids(COLLIDERS, "collider", common, moves)

    def _bodies(self) -> list[Table]:
        return self._solids(BODIES, "body", settings.body_settings(self.values), False)

    def _solids(self, index: int, kind: str, common: Table, moves: bool) -> list[Table]:
        geo = self.inputs.at(index, self.first)
        found = []
        for number, piece in enumerate([] if geo is None else pieces(geo), 1):
            if geo is None or piece.of_points:
                continue
            own = settings.settings_of_attributes(piece.attributes, "collider")
            table = common | own
            table["name"] = self._unique("collider", piece.name or f"{kind}_{number}")
            free = table.get("body") in ("rigid", "deformable")
            file = self._mesh(f"{kind}_{number}", geo, piece, index, moves and not free)
            table["shape"] = {"mesh": file}
            found.append(table)
        return found

    def _forces(self) -> list[Table]:
        geo = self.inputs.at(FORCES, self.first)
        if geo is None:
            return []
        if self.inputs.moves(FORCES):
            self.notes.append("Forces stay where they are at the start frame.")
        found = []
        for number, point in enumerate(geo.points()):
            attributes = {a.name(): point.attribValue(a) for a in geo.pointAttribs()}
            table = settings.settings_of_attributes(attributes, "force")
            if "kind" not in table:
                continue
            for name, key in (("P", "center"), ("v", "velocity"), ("N", "axis")):
                if name in attributes and key not in table:
                    table[key] = [float(c) for c in attributes[name]]
            if "v" in attributes:
                table["velocity"] = [c / self.values["timescale"] for c in table["velocity"]]
            if "pscale" in attributes and "radius" not in table:
                table["radius"] = float(attributes["pscale"])
            name = attributes.get("name") or f"point_{number}"
            table["name"] = self._unique("force", str(name))
            found.append(table)
        return found

    # --- files -----------------------------------------------------------------------------------

    def _mesh(self, name: str, geo: hou.Geometry, piece: Piece, index: int, moves: bool) -> Any:
        """Write a piece's mesh; the value of `mesh` in a shape."""
        if piece.vdb is not None:
            if moves:
                self.notes.append(
                    f"{piece.name}: a VDB stays as it is at the start frame; polygons can move."
                )
            path = self.folder / f"{name}.vdb"
            piece.vdb.saveToFile(str(path))
            return path.name
        if not moves:
            path = self.folder / f"{name}.ply"
            _write_mesh(path, geo, piece)
            return path.name
        part = Moving(index, piece.name, f"{name}_####.ply", _write_mesh)
        self.moving.append(part)
        self.need(self.first)
        return {"file": part.pattern, "frames": [self.first, self.last]}

    def _unique(self, kind: str, name: str) -> str:
        taken = self._names.setdefault(kind, set())
        name = base = _clean(name)
        count = 1
        while name in taken:
            count += 1
            name = f"{base}_{count}"
        taken.add(name)
        return name


def _write_mesh(path: Path, geo: hou.Geometry, piece: Piece) -> None:
    assert piece.vertices is not None and piece.corners is not None
    write_mesh(path, Mesh(piece.vertices, piece.corners, {}))


def _clean(name: str) -> str:
    """A name as core allows them."""
    return re.sub(r"[^\w.:@+ -]", "_", name).strip()[:64] or "_"


def mean_velocity(geo: hou.Geometry, piece: Piece) -> Array:
    """Of the points of a piece (3,); zero without v."""
    given = point_values(geo, "v")
    if given is None or given.ndim != 2 or piece.used is None:
        return np.zeros(3)
    mean: Array = given[piece.used].mean(axis=0, dtype=np.float64)
    return mean
