"""Cooks of the nodes around the solver: settings of pieces, caches, surfaces."""

from __future__ import annotations

import math
from pathlib import Path

import hou
import numpy as np

from runnel import RunnelError
from runnel.surface import Mesh, SurfaceOptions, surface_of

from . import sessions
from .caches import CacheReader
from .deliver import Look, deliver, group_name, statistics
from .errors import plain_errors
from .frames import Solid
from .geometry import Array, add_polygons, point_values, positions, set_attribute, set_detail
from .parameters import ATTRIBUTES, CACHE, COLLIDER, SOURCE, SURFACE
from .parm import Node, Parm, walk
from .pieces import KEYS
from .values import Values, evaluate, piece_attributes
from .volumes import add_volumes

_CORE_NAMES = {name: channel for channel, name in ATTRIBUTES.items()}


# --- settings of pieces ---------------------------------------------------------------------------


def cook_source(node: hou.SopNode) -> None:
    """Settings of a source onto the geometry that passes."""
    _mark(node, SOURCE)


def cook_collider(node: hou.SopNode) -> None:
    """Settings of a collider or body onto the geometry that passes."""
    _mark(node, COLLIDER)


def _mark(node: hou.SopNode, declared: Node) -> None:
    geo = node.geometry()
    assert geo is not None
    values = evaluate(node, declared)
    given = piece_attributes(values, declared)
    # Merged with others, a piece gets attributes it never had: this says which are its own.
    given[KEYS] = " ".join(sorted(given))
    if values["piecename"]:
        given["name"] = values["piecename"]
    owner = hou.attribType.Prim if geo.primCount() else hou.attribType.Point
    for name, value in given.items():
        set_attribute(geo, owner, name, value)


# --- caches ---------------------------------------------------------------------------------------


def cook_cache(node: hou.SopNode) -> None:
    """Frames that are on disk."""
    geo = node.geometry()
    assert geo is not None
    with plain_errors(geo):
        values = evaluate(node, CACHE)
        geo.clear()
        now = float(values["frame"])
        reader = sessions.of(node).reader(Path(str(values["cachedir"])))
        number = _frame(node, reader, math.floor(now + 1e-6), str(values["missing"]))
        if number is not None:
            _show(geo, reader, number, values, now - math.floor(now + 1e-6))


def _frame(node: hou.SopNode, reader: CacheReader, wanted: int, missing: str) -> int | None:
    """The frame to read; None: an empty geometry."""
    if missing == "error":
        reader.need()
    there = reader.frames()
    if wanted in there:
        return wanted
    if missing == "nearest" and there:
        return min(there, key=lambda k: (abs(k - wanted), k))
    have = f"frames {there[0]} to {there[-1]}" if there else "no frames"
    message = f"{reader.folder}: frame {wanted} is not there; it holds {have}."
    if missing == "error":
        raise RunnelError(message)
    if missing != "empty":
        node.addWarning(message)
    return None


def _show(
    geo: hou.Geometry, reader: CacheReader, number: int, values: Values, ahead: float
) -> None:
    cache, show = reader.need(), values["show"]
    if show == "bodies":
        _add_solids(geo, reader.solids(number))
        return
    wanted = str(values["attribs"]) if show == "particles" else "*"
    frame = reader.frame(number, wanted)
    scale = hou.fps() / cache.fps
    if show in ("surface", "volumes"):
        channels = dict(frame.channels)
        if "velocity" in channels:
            channels["velocity"] = channels["velocity"] * np.float32(scale)
        if show == "surface":
            _add_mesh(geo, surface_of(channels))
        else:
            add_volumes(geo, channels, float(values["voxelsize"]))
        if values["outstats"]:
            set_detail(geo, statistics(frame, cache.manifest.device))
        return
    look = Look(
        channels=("*",),
        groups=bool(values["outgroups"]),
        statistics=bool(values["outstats"]),
        color=str(values["colorby"]),
        time_scale=scale,
        fps=hou.fps(),
        ahead=ahead if ahead > 1e-4 else 0.0,
        device=cache.manifest.device,
    )
    deliver(geo, frame, reader.fluids(), look)


def _add_solids(geo: hou.Geometry, solids: tuple[Solid, ...]) -> None:
    taken: set[str] = set()
    for solid in solids:
        add_polygons(geo, solid.vertices, solid.triangles, group_name(solid.name, taken))


# --- surfaces -------------------------------------------------------------------------------------


def cook_surface(node: hou.SopNode) -> None:
    """Polygons around the particles of the input."""
    geo = node.geometry()
    assert geo is not None
    with plain_errors(geo):
        values = evaluate(node, SURFACE)
        volumes = values["output"] == "volumes"
        wanted = ["v"] if volumes else str(values["attribs"]).split()
        arrays = _particles(geo, wanted)
        options = SurfaceOptions(
            channels=tuple(name for name in arrays if name not in ("position", "radius", "phase")),
            **{p.key: values[p.name] for p in _surface_parms()},
        )
        if volumes:
            geo.clear()
            add_volumes(geo, arrays, float(values["voxelsize"]))
            return
        phase = arrays.pop("phase", None)
        geo.clear()
        if not values["eachfluid"] or phase is None:
            _add_mesh(geo, surface_of(arrays, options))
            return
        for number in np.unique(phase).tolist():
            of = {name: array[phase == number] for name, array in arrays.items()}
            _add_mesh(geo, surface_of(of, options), f"fluid_{number + 1}")


def _surface_parms() -> list[Parm]:
    return [p for p in walk(SURFACE.items) if isinstance(p, Parm) and p.part == "surface"]


def _particles(geo: hou.Geometry, wanted: list[str]) -> dict[str, Array]:
    """Arrays by core's names."""
    radius = point_values(geo, "pscale")
    if radius is None and geo.pointCount():
        raise RunnelError("The points have no pscale (their radius), which a surface needs.")
    found: dict[str, Array] = {"position": positions(geo)}
    found["radius"] = np.zeros(0, np.float32) if radius is None else radius
    for name in {*wanted, "phase"}:
        values = point_values(geo, name)
        if values is not None and name not in ("P", "pscale"):
            found[_CORE_NAMES.get(name, name)] = values
    real = found["radius"] > 0  # points of bodies beside the particles have none
    return {name: values[real] for name, values in found.items()}


def _add_mesh(geo: hou.Geometry, mesh: Mesh, name: str = "") -> None:
    """A surface with its attributes; of several, each in a group, and named."""
    first = geo.pointCount()
    add_polygons(geo, mesh.vertices, mesh.triangles, name)
    for key, values in mesh.attributes.items():
        attribute = {"normal": "N"}.get(key, ATTRIBUTES.get(key, key))
        set_attribute(geo, hou.attribType.Point, attribute, values, first)
    if name:
        count = len(mesh.triangles)
        set_attribute(geo, hou.attribType.Prim, "name", [name] * count, geo.primCount() - count)
