"""Houdini's .bgeo, written as Houdini 16.5 writes it; newer ones read that.

Names by Houdini's customs: P, v, pscale (the radius), Cd, N; other channels keep theirs. Fluids
are point groups, the solver's numbers detail attributes.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..cache import write_aside
from ..surface import Mesh
from .binjson import Encoder
from .frames import Frame, Shot
from .geometry import Array, Attributes, Geometry, Groups

VERSION = "16.5.268"  # of the layout
PAGE = 1024  # rows

NAMES = {"position": "P", "velocity": "v", "radius": "pscale", "color": "Cd", "normal": "N"}
_MEANING = {"P": "point", "v": "vector", "vorticity": "vector", "Cd": "color", "N": "normal"}
_STORAGE = {"i4": "int32", "i8": "int64", "f4": "fpreal32", "f8": "fpreal64"}


class BgeoWriter:
    """Particles of a frame in one file, each surface in one of its own."""

    suffix = ".bgeo"

    def __init__(self, shot: Shot) -> None:
        self.shot = shot

    def write(self, path: Path, frame: Frame) -> list[Path]:
        write_bgeo(path, particles(frame, self.shot))
        written = [path]
        for name, mesh in frame.surfaces.items():
            written.append(path.with_name(f"{name}.{frame.number:04d}{self.suffix}"))
            write_bgeo(written[-1], polygons(mesh, frame))
        if frame.solids:
            written.append(path.with_name(f"colliders.{frame.number:04d}{self.suffix}"))
            write_bgeo(written[-1], solid_polygons(frame))
        return written

    def finish(self, folder: Path, files: dict[int, Path]) -> list[Path]:
        return []


def particles(frame: Frame, shot: Shot) -> Geometry:
    """Particles as points."""
    result = Geometry(frame.count, detail=_detail(frame))
    for channel in sorted(frame.channels, key=lambda name: name != "position"):
        name = NAMES.get(channel, channel)
        while name in result.points:  # a channel of the user's that is called P
            name += "_"
        result.points[name] = _fitting(frame.channels[channel])
    phase = frame.channels.get("phase")
    if phase is not None:
        for number, fluid in enumerate(shot.fluids):
            result.point_groups[_group_name(fluid, result.point_groups)] = phase == number
    return result


def polygons(mesh: Mesh, frame: Frame) -> Geometry:
    """A surface; corners run the other way round than elsewhere."""
    count = len(mesh.triangles)
    points = {NAMES.get(name, name): _fitting(array) for name, array in mesh.attributes.items()}
    return Geometry(
        len(mesh.vertices),
        points={"P": _fitting(mesh.vertices), **points},
        detail=_detail(frame),
        corners=mesh.triangles[:, ::-1].reshape(-1).astype(np.int32),
        starts=3 * np.arange(count, dtype=np.int32),
        sizes=np.full(count, 3, np.int32),
    )


def solid_polygons(frame: Frame) -> Geometry:
    """Colliders and bodies in the world, each a group of polygons."""
    groups: Groups = {}
    starts = np.cumsum([0, *(len(solid.vertices) for solid in frame.solids)])
    corners = [
        solid.triangles[:, ::-1] + start for solid, start in zip(frame.solids, starts, strict=False)
    ]
    owner = np.repeat(np.arange(len(corners)), [len(part) for part in corners])
    for number, solid in enumerate(frame.solids):
        groups[_group_name(solid.name, groups)] = owner == number
    return Geometry(
        int(starts[-1]),
        points={"P": np.concatenate([solid.placed for solid in frame.solids])},
        detail=_detail(frame),
        primitive_groups=groups,
        corners=np.concatenate(corners).reshape(-1).astype(np.int32),
        starts=3 * np.arange(len(owner), dtype=np.int32),
        sizes=np.full(len(owner), 3, np.int32),
    )


def _detail(frame: Frame) -> Attributes:
    found = {}
    for name, value in frame.detail.items():
        row = np.array([value])
        found[name] = _fitting(row)
    return found


def _group_name(fluid: str, taken: Groups) -> str:
    name = re.sub(r"[^A-Za-z0-9_]", "_", fluid) or "_"
    name = f"_{name}" if name[0].isdigit() else name
    while name in taken:
        name += "_"
    return name


def _fitting(values: Array) -> Array:
    """Values in a type that Houdini has; whole numbers take 32 bits where they fit."""
    kind = values.dtype
    if kind.kind == "f":
        return values.astype(np.float64 if kind.itemsize == 8 else np.float32)
    if kind.itemsize < 4 or not values.size:
        return values.astype(np.int32)
    limits = np.iinfo(np.int32)
    small = int(values.min()) >= limits.min and int(values.max()) <= limits.max
    return values.astype(np.int32 if small else np.int64)


# ---- the file


def write_bgeo(path: Path, geometry: Geometry) -> None:
    """Write geometry aside and put it in place."""
    with write_aside(path) as file:
        Encoder(file).write(document(geometry))


def document(geometry: Geometry) -> list[Any]:
    """The file as nested lists: keys and values in turn."""
    attributes: list[Any] = []
    for key, table in (
        ("vertexattributes", geometry.vertices),
        ("pointattributes", geometry.points),
        ("primitiveattributes", geometry.primitives),
        ("globalattributes", geometry.detail),
    ):
        if table:
            attributes += [key, [_attribute(name, values) for name, values in table.items()]]
    result = [
        "fileversion", VERSION, "hasindex", False, "pointcount", geometry.count,
        "vertexcount", len(geometry.corners), "primitivecount", len(geometry.sizes),
        "info", _info(geometry),
        "topology", ["pointref", ["indices", geometry.corners.astype(np.int32)]],
        "attributes", attributes, "primitives", _primitives(geometry),
    ]  # fmt: skip
    for key, groups in (
        ("pointgroups", geometry.point_groups),
        ("primitivegroups", geometry.primitive_groups),
    ):
        if groups:
            result += [key, [_group(name, members) for name, members in groups.items()]]
    return result


def _info(geometry: Geometry) -> dict[str, Any]:
    info: dict[str, Any] = {"software": "Runnel"}
    place = geometry.points.get("P")
    if place is not None and len(place) and np.isfinite(place).all():
        pairs = np.stack([place.min(axis=0), place.max(axis=0)], axis=1)
        info["bounds"] = [float(x) for x in pairs.ravel()]
    return info


def _attribute(name: str, values: Array) -> list[Any]:
    width = 1 if values.ndim == 1 else values.shape[1]
    storage = _STORAGE[values.dtype.str[1:]]
    meaning = _MEANING.get(name) if width == 3 else None
    options = {} if meaning is None else {"type": {"type": "string", "value": meaning}}
    data = ["size", width, "storage", storage, "pagesize", PAGE, "rawpagedata", values.reshape(-1)]
    defaults = ["size", 1, "storage", "fpreal64", "values", [0.0]]
    return [
        ["scope", "public", "type", "numeric", "name", name, "options", options],
        ["size", width, "storage", storage, "defaults", defaults, "values", data],
    ]


def _primitives(geometry: Geometry) -> list[Any]:
    """One run of polygons; their corners lie one after another."""
    sizes = geometry.sizes
    if not len(sizes):
        return []
    if not np.array_equal(geometry.starts, np.cumsum(sizes) - sizes):
        raise ValueError("polygons must lie one after another")
    runs = [n for length, size in _runs(sizes) for n in (size, length)]
    return [[["type", "p_r"], ["s_v", 0, "n_p", len(sizes), "r_v", runs]]]


def _group(name: str, members: NDArray[np.bool_]) -> list[Any]:
    runs = [n for length, inside in _runs(members) for n in (length, bool(inside))]
    return [["name", name], ["selection", ["unordered", ["boolRLE", runs]]]]


def _runs(values: Array) -> list[tuple[int, int]]:
    """Length and value of each run of equal values."""
    if not len(values):
        return []
    ends = np.append(np.flatnonzero(values[1:] != values[:-1]) + 1, len(values))
    lengths = np.diff(ends, prepend=0)
    return list(zip(lengths.tolist(), values[ends - 1].tolist(), strict=True))
