"""Pieces of an input: what becomes a source, collider, body or force of its own.

Primitives are told apart by the primitive attribute `name`, points without primitives by the point
attribute `name`; without either, all of an input is one piece.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import hou
import numpy as np
from numpy.typing import NDArray

from runnel import RunnelError
from runnel.fields.vdb import available

from .geometry import Floats, Ints, made_by, point_values, triangles
from .parameters import PREFIX
from .volumes import alone, is_vector, vdbs

# Names of the settings that a piece has of its own. Where pieces are merged, each gets the
# attributes of the others too, with nothing in them.
KEYS = PREFIX + "keys"
FREE = ("rigid", "deformable")  # runnel_body of what the fluid moves


@dataclass(frozen=True, eq=False)
class Piece:
    """Polygons, points, or a VDB; and the settings that it carries."""

    name: str  # empty: the only one
    attributes: dict[str, Any] = field(default_factory=dict)  # runnel_...
    vertices: Floats | None = None
    corners: Ints | None = None  # triangles (m, 3)
    used: NDArray[np.int64] | None = None  # numbers of the points it has
    geo: hou.Geometry | None = None  # that these are points of: unpacked, divided
    vdb: hou.Geometry | None = None

    @property
    def of_points(self) -> bool:
        return self.corners is None and self.vdb is None


def pieces(geo: hou.Geometry, *, as_points: bool = False) -> list[Piece]:
    """The pieces of a geometry; `as_points`: its primitives do not count."""
    if as_points or not geo.primCount():
        return _of_points(geo)
    return [*of_vdbs(geo), *_of_polygons(geo)]


def _of_points(geo: hou.Geometry) -> list[Piece]:
    if not geo.pointCount():
        return []
    carried = [a for a in geo.pointAttribs() if a.name().startswith(PREFIX)]
    names = geo.pointStringAttribValues("name") if geo.findPointAttrib("name") else ()
    found = []
    for name, members in _by_name(names, geo.pointCount()):
        first = geo.point(int(members[0]))
        settings = _detail(geo)
        if first is not None:
            settings |= {a.name(): first.attribValue(a) for a in carried}
        found.append(Piece(name, _own(settings), used=members, geo=geo))
    return found


def _of_polygons(geo: hou.Geometry) -> list[Piece]:
    mesh = triangles(geo)
    if not len(mesh.corners):
        return []
    geo = mesh.geo
    carried = [a for a in geo.primAttribs() if a.name().startswith(PREFIX)]
    names = geo.primStringAttribValues("name") if geo.findPrimAttrib("name") else ()
    found = []
    for name, members in _by_name(names, geo.primCount()):
        chosen = mesh.corners[np.isin(mesh.prims, members)]
        if not len(chosen):
            continue
        used, corners = np.unique(chosen, return_inverse=True)
        first = geo.prim(int(members[0]))
        settings = _detail(geo)
        if first is not None:
            settings |= {a.name(): first.attribValue(a) for a in carried}
        shape = corners.reshape(-1, 3).astype(np.int32)
        numbers = used.astype(np.int64)
        found.append(Piece(name, _own(settings), mesh.points[used], shape, numbers, geo))
    return found


def of_vdbs(geo: hou.Geometry, *, vectors: bool = False) -> list[Piece]:
    """Each VDB on its own: level sets and the like, with velocities beside them if there are any;
    or those of vectors."""
    found = []
    beside = [] if vectors else [vdb.number() for vdb in vdbs(geo) if is_vector(vdb)]
    for vdb in vdbs(geo):
        if is_vector(vdb) != vectors:
            continue
        single = alone(geo, vdb.number())
        (prim,) = single.prims()
        carried = [a for a in single.primAttribs() if a.name().startswith(PREFIX)]
        settings = _detail(geo) | {a.name(): prim.attribValue(a) for a in carried}
        name = prim.attribValue("name") if single.findPrimAttrib("name") else ""
        named = str(name) or f"vdb_{vdb.number()}"
        if vectors or available():
            whole = alone(geo, vdb.number(), *beside) if beside else single
            found.append(Piece(named, _own(settings), vdb=whole))
            continue
        surface = made_by("convertvdb", single, {"conversion": "poly"})
        mesh = None if surface is None else triangles(surface)
        if mesh is None or not len(mesh.corners):
            raise RunnelError(
                f"{named}: Houdini has no OpenVDB module for Python, and the VDB could not be made "
                "polygons. Put a Convert VDB node in between."
            )
        used = np.arange(len(mesh.points))
        found.append(Piece(named, _own(settings), mesh.points, mesh.corners, used, mesh.geo))
    return found


def bodies(geo: hou.Geometry) -> list[Piece]:
    """Polygons of the third input that are bodies: by their settings, or because their points are
    neither forces nor velocities."""
    return [piece for piece in _of_polygons(geo) if _is_body(piece)] if geo.primCount() else []


def _is_body(piece: Piece) -> bool:
    own = piece.attributes.get(PREFIX + "body")
    if own is not None or piece.geo is None or piece.used is None:
        return own in FREE
    if piece.geo.findPointAttrib(PREFIX + "kind") is not None:
        kinds = piece.geo.pointStringAttribValues(PREFIX + "kind")
        if any(kinds[number] for number in piece.used.tolist()):
            return False
    speed = point_values(piece.geo, "v")
    return speed is None or not speed[piece.used].any()


def _by_name(names: Sequence[str], count: int) -> list[tuple[str, NDArray[np.int64]]]:
    """Names in order of their first member, and the members of each."""
    if not names:
        return [("", np.arange(count))]
    order: dict[str, list[int]] = {}
    for number, name in enumerate(names):
        order.setdefault(name, []).append(number)
    return [(name, np.array(members, np.int64)) for name, members in order.items()]


def _own(attributes: dict[str, Any]) -> dict[str, Any]:
    """Those attributes that are settings of the piece."""
    if KEYS not in attributes:
        return attributes
    keys = str(attributes[KEYS]).split()
    return {name: value for name, value in attributes.items() if name in keys}


def detail(geo: hou.Geometry) -> dict[str, Any]:
    """Settings that a whole geometry carries."""
    return _own(_detail(geo))


def _detail(geo: hou.Geometry) -> dict[str, Any]:
    carried = (a for a in geo.globalAttribs() if a.name().startswith(PREFIX))
    return {a.name(): geo.attribValue(a) for a in carried}
