"""From a node's inputs to a scene: tables of core, and the files they name.

A solver that runs inside of Houdini and one on a farm read the same folder; the only difference is
that live the files of moving inputs are written frame by frame, just ahead of the solver.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import hou
import numpy as np

from runnel import RunnelError, Scene
from runnel.export.bgeo import write_bgeo
from runnel.export.geometry import Geometry
from runnel.params import CHANNEL
from runnel.surface import Mesh, write_mesh

from . import values as settings
from .fluids import Variants
from .forces import force_tables, write_forces
from .geometry import Array, matches, numeric_attributes, point_values, positions
from .inputs import BODIES, COLLIDERS, FORCES, SOURCE, Inputs
from .parameters import ATTRIBUTES, PREFIX
from .pieces import FREE, Piece, bodies, detail, of_vdbs, pieces
from .values import Table, Values
from .volumes import (
    field_points,
    suffix,
    vdbs,
    write_field_points,
    write_level_set,
    write_vector_vdb,
)

EMITTER_ONLY = ("rate", "speed", "frames", "inherit_velocity")
MAPS = ("friction_map", "bounce_map", "stickiness_map")
MULTIPLES = ("viscosity", "surfacetension")  # of the fluid's own, on points
# Attributes of points that the solver knows, or computes itself.
OWN = {*ATTRIBUTES.values(), "volume", "kernel_radius", "birth", "expiry", "source_id"} - {"id"}


@dataclass(frozen=True)
class Moving:
    """A file a frame."""

    index: int  # of the input
    piece: str
    pattern: str  # name with #### for the frame
    write: Callable[[Path, hou.Geometry], bool]  # false: the piece is not there
    ahead: int = 0  # frames that the solver looks beyond the one that it simulates

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
    _carried: list[str] = field(default_factory=list)  # attributes of points that go along
    _variants: Variants = field(init=False)

    def __post_init__(self) -> None:
        self._variants = Variants(settings.fluids(self.values))

    @property
    def first(self) -> int:
        return int(self.values["startframe"])

    @property
    def frames(self) -> list[int]:
        """First and last frame of files that move. One beyond the scene's: in its last frame too
        a collider moves, whether or not the scene goes on."""
        return [self.first, self.last + 1]

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
        table["fluid"] = self._variants.fluids
        table["output"]["channels"] += self._carried
        return Scene.from_dict(table, self.folder)

    def need(self, frame: int, inputs: Inputs | None = None) -> None:
        """Write the files of a frame, as far as they are not there yet."""
        inputs = inputs or self.inputs
        for part in self.moving:
            for number in range(frame, min(frame + part.ahead, self.last + 1) + 1):
                self._write_frame(part, number, inputs)

    def _write_frame(self, part: Moving, frame: int, inputs: Inputs) -> None:
        path = part.path(self.folder, frame)
        if path.exists():
            return
        geo = inputs.at(part.index, frame)
        if geo is None or not part.write(path, geo):
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
        if not found and default == "emitter" and self.inputs.moves(SOURCE):
            found = [_nothing(geo)]  # points will come
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
        given = settings.settings_of_attributes(piece.attributes, "source")
        given.pop("kind", None)
        number = f"source_{len(self._names.get('source', ())) + 1}"
        table = settings.source_settings(self.values) | given
        table["name"] = self._unique("source", piece.name or number)
        if kind == "points" or piece.of_points:
            return self._point_source(geo, piece, number, table, emits=kind == "emitter")
        # A volume is filled once, as it is at the start frame.
        moves = kind in ("emitter", "sink") and self.inputs.moves(SOURCE)
        inherits = moves and float(table.get("inherit_velocity", 0.0)) > 0
        mesh = self._mesh(number, geo, piece, SOURCE, moves, ahead=int(inherits))
        table["shape"] = {"mesh": mesh}
        if kind == "sink":
            return {key: table[key] for key in ("name", "shape", "frames") if key in table}
        table["kind"] = kind
        if kind != "emitter":
            table = {key: value for key, value in table.items() if key not in EMITTER_ONLY}
        if moves and "frames" in table:  # its mouth is measured as it is when it opens
            opens = min(int(table["frames"][0]), self.last + 1)
            for frame in range(max(opens - 1, self.first), opens + 1):
                self.need(frame)
        # What is inherited already is not added again.
        own = np.zeros(3) if inherits else mean_velocity(piece) / self.values["timescale"]
        table["velocity"] = [float(c) for c in own + np.array(table.get("velocity", [0] * 3))]
        return self._with_defaults(table)

    def _with_defaults(self, table: Table) -> Table:
        table.setdefault("fluid", self._variants.fluids[0]["name"])
        table.setdefault("spacing", self.values["particlesep"])
        return table

    def _point_source(
        self, geo: hou.Geometry, piece: Piece, number: str, table: Table, emits: bool
    ) -> Table:
        table = self._with_defaults(table)
        wrong = EMITTER_ONLY[:2] if emits else EMITTER_ONLY
        table = {key: value for key, value in table.items() if key not in wrong}
        table["kind"] = "emitter" if emits else "volume"
        self._variants.learn(*self._multiples(geo, piece, table["fluid"]))
        self._carry(geo)
        fluid = str(table["fluid"])
        if emits and self.inputs.moves(SOURCE):

            def write(path: Path, geo: hou.Geometry) -> bool:
                now = [p for p in pieces(geo, as_points=True) if p.name == piece.name]
                self._write_points(path, geo, now[0] if now else _nothing(geo), fluid)
                return True

            points: Any = self._sequence(SOURCE, piece.name, f"{number}_####.bgeo", write)
        else:
            points = f"{number}.bgeo"
            self._write_points(self.folder / points, geo, piece, fluid)
        return table | {"shape": {"points": points}}

    def _sequence(
        self,
        index: int,
        piece: str,
        pattern: str,
        write: Callable[[Path, hou.Geometry], bool],
        ahead: int = 0,
    ) -> Table:
        """A file a frame, of which the first is written now; the value of a shape's key."""
        self.moving.append(Moving(index, piece, pattern, write, ahead))
        self.need(self.first)
        return {"file": pattern, "frames": self.frames}

    def _carry(self, geo: hou.Geometry) -> None:
        """Note the attributes of points that stay with the particles."""
        pattern = str(self.values["inheritattribs"])
        for name in numeric_attributes(geo):
            kept = "source_id" if name == "id" else name
            if kept in self._carried or name in OWN or name.startswith(PREFIX):
                continue
            if (name == "id" or matches(pattern, name)) and re.fullmatch(CHANNEL, name):
                self._carried.append(kept)

    def _write_points(self, path: Path, geo: hou.Geometry, piece: Piece, fluid: str) -> None:
        """Points of a piece with what the solver takes from them."""
        rows = piece.used
        assert rows is not None
        found: dict[str, Array] = {"P": positions(geo)[rows]}
        names = ["v", "pscale", "age", *("id" if n == "source_id" else n for n in self._carried)]
        for name in names:
            values = point_values(geo, name)
            if values is not None:
                found[name] = values[rows]
        if "v" in found:
            found["v"] = found["v"] / np.float32(self.values["timescale"])
        found["phase"] = self._variants.phases(*self._multiples(geo, piece, fluid))
        write_bgeo(path, Geometry(len(rows), points=found))
        for name, (asked, taken) in self._variants.missed.items():
            note = (
                f"Points have {name} {asked:g}, {taken:g} is taken: there are as many classes as "
                "the start frame has values, at most 8. Values that come later need a point there."
            )
            if note not in self.notes:
                self.notes.append(note)

    def _multiples(self, geo: hou.Geometry, piece: Piece, fluid: str) -> tuple[Array, Array, Array]:
        """Number of the fluid, multiples of its viscosity and of its tension, of each point."""
        rows = piece.used
        assert rows is not None
        names = [table["name"] for table in self._variants.fluids]
        if fluid not in names:
            raise RunnelError(f"There is no fluid {fluid!r}; there are {', '.join(names)}.")
        columns = []
        for name, default in (("phase", names.index(fluid)), *((n, 1.0) for n in MULTIPLES)):
            values = point_values(geo, name)
            whole = np.full(len(rows), default)
            columns.append(whole if values is None or values.ndim > 1 else values[rows])
        return columns[0], columns[1], columns[2]

    # --- colliders, bodies, forces ---------------------------------------------------------------

    def _colliders(self) -> list[Table]:
        motion = str(self.values["collidermotion"])
        moves = motion == "deforming" or (motion == "auto" and self.inputs.moves(COLLIDERS))
        common = settings.collider_settings(self.values)
        return self._solids(COLLIDERS, "collider", common, moves)

    def _bodies(self) -> list[Table]:
        """Of the fourth input, and what is a body in the third."""
        common = settings.body_settings(self.values)
        own = self._solids(BODIES, "body", common, False)
        geo = self.inputs.at(FORCES, self.first)
        if geo is None:
            return own
        return [*own, *self._solids(FORCES, "body", common, False, bodies(geo))]

    def _solids(
        self,
        index: int,
        kind: str,
        common: Table,
        moves: bool,
        chosen: Sequence[Piece] | None = None,
    ) -> list[Table]:
        """Tables of the pieces of an input, or of those that were chosen."""
        geo = self.inputs.at(index, self.first)
        found = []
        for piece in (pieces(geo) if chosen is None else chosen) if geo is not None else ():
            if geo is None or piece.of_points:
                continue
            before = [name for name in self._names.get("file", ()) if name.startswith(kind)]
            own_file = self._unique("file", f"{kind}_{len(before) + 1}")
            table = common | settings.settings_of_attributes(piece.attributes, "collider")
            table["name"] = self._unique("collider", piece.name or own_file)
            free = table.get("body") in FREE
            attributes = self._maps(table, own_file, piece)
            moving = moves and not free
            table["shape"] = {"mesh": self._mesh(own_file, geo, piece, index, moving, attributes)}
            found.append(table)
        return found

    def _maps(self, table: Table, name: str, piece: Piece) -> list[str]:
        """Bring images that a piece names into the folder; point attributes its mesh needs."""
        needed = ["uv"] if table.get("wet_map", "none") != "none" else []
        for key in MAPS:
            value = str(table.get(key, "")).strip()
            if not value:
                table.pop(key, None)
            elif (image := Path(value)).suffix:
                if not image.is_file():
                    raise RunnelError(f"{table['name']}: there is no image {image} ({key}).")
                table[key] = f"{name}_{key}{image.suffix}"
                shutil.copyfile(image, self.folder / table[key])
                needed.append("uv")
            else:
                needed.append(value)
        for lost in sorted({n for n in needed if _column(piece, n) is None}):
            raise RunnelError(
                f"{table['name']}: its map needs the point attribute {lost!r}. Promote it to "
                "points if it is on vertices or primitives."
            )
        return needed

    def _forces(self) -> list[Table]:
        geo = self.inputs.at(FORCES, self.first)
        if geo is None:
            return []
        return [*self._point_forces(geo), *self._fields(geo)]

    def _point_forces(self, geo: hou.Geometry) -> list[Table]:
        """A table for each point that is a force; of points that move one, with a file a frame."""
        if geo.findPointAttrib(PREFIX + "kind") is None:
            return []
        if not self.inputs.moves(FORCES):
            rows = force_tables(geo, self.values["timescale"])
            return [
                table | {"name": self._unique("force", table["name"] or f"point_{number}")}
                for number, table in rows
            ]

        def write(path: Path, geo: hou.Geometry) -> bool:
            frame = int(path.stem.split("_", 1)[1])
            write_forces(path, force_tables(geo, self.values["timescale"]), frame, self._up)
            return True

        given = self._sequence(FORCES, "", "forces_####.bgeo", write)
        table = {"kind": "points", "field": given["file"], "field_frames": given["frames"]}
        return [table | {"name": self._unique("force", "points")}]

    @property
    def _up(self) -> tuple[float, float, float]:
        return (0.0, 0.0, 1.0) if self.values["upaxis"] == "z" else (0.0, 1.0, 0.0)

    def _fields(self, geo: hou.Geometry) -> list[Table]:
        """Velocity fields: VDBs of vectors, and the points that have v."""
        found = []
        for number, piece in enumerate(of_vdbs(geo, vectors=True), 1):
            name = piece.name

            def write(path: Path, geo: hou.Geometry, name: str = name) -> bool:
                now = [p for p in of_vdbs(geo, vectors=True) if p.name == name]
                for one in now[:1]:
                    assert one.vdb is not None
                    write_vector_vdb(path, one.vdb)
                return bool(now)

            if suffix() == ".bgeo" and piece.vdb is not None:
                (grid,) = vdbs(piece.vdb)
                piece.attributes[PREFIX + "voxel_size"] = float(grid.voxelSize()[0])
            found.append(self._field(f"field_{number}", suffix(), piece, geo, write))
        loose = bool(bodies(geo))
        rows = field_points(geo, loose)
        may_come = self.inputs.moves(FORCES) and geo.findPointAttrib(PREFIX + "kind") is None
        if rows is not None and (len(rows) or may_come):
            own = Piece("", detail(geo))
            write_points = partial(write_field_points, loose=loose)
            found.append(self._field("field_points", ".bgeo", own, geo, write_points))
        elif not found and len(vdbs(geo)):
            self.notes.append(
                "Input 3: VDBs of single numbers are no velocities (VDB Vector Merge)."
            )
        return found

    def _field(
        self,
        file: str,
        suffix: str,
        piece: Piece,
        geo: hou.Geometry,
        write: Callable[[Path, hou.Geometry], bool],
    ) -> Table:
        table = {"strength": self.values["fieldstrength"]}
        table |= settings.settings_of_attributes(piece.attributes, "force")
        scale = float(table.get("field_scale", 1.0)) / self.values["timescale"]
        table |= {"kind": "field", "field_scale": scale, "field": file + suffix}
        table["name"] = self._unique("force", piece.name or file)
        if suffix == ".vdb":
            table.pop("voxel_size", None)
        if self.inputs.moves(FORCES):
            given = self._sequence(FORCES, piece.name, f"{file}_####{suffix}", write)
            return table | {"field": given["file"], "field_frames": given["frames"]}
        write(self.folder / f"{file}{suffix}", geo)
        return table

    # --- files -----------------------------------------------------------------------------------

    def _mesh(
        self,
        name: str,
        geo: hou.Geometry,
        piece: Piece,
        index: int,
        moves: bool,
        attributes: Collection[str] = (),
        ahead: int = 0,
    ) -> Any:
        """Write a piece's mesh; the value of `mesh` in a shape."""
        suffix = ".ply" if piece.vdb is None else ".vdb"
        scale = float(self.values["timescale"])
        if not moves:
            _write_piece(self.folder / f"{name}{suffix}", piece, scale, attributes)
            return f"{name}{suffix}"

        def write(path: Path, geo: hou.Geometry) -> bool:
            now = [p for p in pieces(geo) if p.name == piece.name and not p.of_points]
            if now:
                _write_piece(path, now[0], scale, attributes)
            return bool(now)

        return self._sequence(index, piece.name, f"{name}_####{suffix}", write, ahead)

    def _unique(self, kind: str, name: str) -> str:
        taken = self._names.setdefault(kind, set())
        name = base = _clean(name)
        count = 1
        while name in taken:
            count += 1
            name = f"{base}_{count}"
        taken.add(name)
        return name


def _nothing(geo: hou.Geometry) -> Piece:
    """A piece of no points."""
    return Piece("", used=np.zeros(0, np.int64), geo=geo)


def _write_piece(
    path: Path, piece: Piece, time_scale: float, attributes: Collection[str] = ()
) -> None:
    """A level set; or a mesh with some of its point attributes: uv, and those that scale friction
    and the like."""
    if piece.vdb is not None:
        write_level_set(path, piece.vdb, time_scale)
        return
    assert piece.vertices is not None
    assert piece.corners is not None
    found: dict[str, Array] = {}
    for name in attributes:
        values = _column(piece, name)
        if values is not None:
            found[name] = (values[:, :2] if name == "uv" else values).astype(np.float32)
    write_mesh(path, Mesh(piece.vertices, piece.corners, found))


def _clean(name: str) -> str:
    """A name as core allows them."""
    return re.sub(r"[^\w.:@+ -]", "_", name).strip()[:64] or "_"


def mean_velocity(piece: Piece) -> Array:
    """Of the points of a piece (3,); zero without v."""
    given = _column(piece, "v")
    if given is None or given.ndim != 2:
        return np.zeros(3)
    mean: Array = given.mean(axis=0, dtype=np.float64)
    return mean


def _column(piece: Piece, name: str) -> Array | None:
    """A point attribute of a piece."""
    values = None if piece.geo is None else point_values(piece.geo, name)
    return None if values is None else values[piece.used]
