"""hou.Geometry to numpy arrays and back. Houdini's names on both sides."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import hou
import numpy as np
from numpy.typing import NDArray

from runnel import RunnelError
from runnel.export.bgeo_read import parse_bgeo

Array = NDArray[Any]
Floats = NDArray[np.float32]
Ints = NDArray[np.int32]

_PACKED = ("PackedGeometry", "PackedFragment", "PackedPrim", "AlembicRef")
# What the numbers of an attribute mean, so that other nodes turn and blend them rightly.
_MEANING = {"v": "vector", "vorticity": "vector", "N": "normal", "Cd": "color"}


# --- reading --------------------------------------------------------------------------------------


def matches(pattern: str, name: str) -> bool:
    """Whether a pattern such as `* ^temp*` names an attribute; the last word that fits decides."""
    chosen = False
    for word in pattern.split():
        without = word[0] in "^!"
        if fnmatch.fnmatchcase(name, word[1:] if without else word):
            chosen = not without
    return chosen


def point_values(geo: hou.Geometry, name: str) -> Array | None:
    """A numeric point attribute: float32 or int (n,) or (n, size); None if there is none such."""
    attrib = geo.findPointAttrib(name)
    if attrib is None or attrib.isArrayType():
        return None
    size, kind = attrib.size(), attrib.dataType()
    if kind == hou.attribData.Float:
        values: Array = np.frombuffer(geo.pointFloatAttribValuesAsString(name), np.float32)
    elif kind == hou.attribData.Int and attrib.numericDataType() == hou.numericData.Int64:
        text = geo.pointIntAttribValuesAsString(name, hou.numericData.Int64)
        values = np.frombuffer(text, np.int64)
    elif kind == hou.attribData.Int:
        values = np.frombuffer(geo.pointIntAttribValuesAsString(name), np.int32)
    else:
        return None
    return values if size == 1 else values.reshape(-1, size)


def positions(geo: hou.Geometry) -> Floats:
    """P (n, 3)."""
    data = geo.pointFloatAttribValuesAsString("P")
    return np.frombuffer(data, np.float32).reshape(-1, 3)


def numeric_attributes(geo: hou.Geometry) -> list[str]:
    """Names of point attributes that `point_values` reads, P left out."""
    kinds = (hou.attribData.Float, hou.attribData.Int)
    return [
        attrib.name()
        for attrib in geo.pointAttribs()
        if attrib.name() != "P" and attrib.dataType() in kinds and not attrib.isArrayType()
    ]


@dataclass(frozen=True, eq=False)
class Triangles:
    """Polygons as core has them: counterclockwise seen from outside."""

    geo: hou.Geometry  # what the numbers refer to
    points: Floats
    corners: Ints  # (m, 3)
    prims: NDArray[np.int64]  # primitive that each triangle is of


def triangles(geo: hou.Geometry) -> Triangles:
    """All polygons of a geometry, packed ones too; other primitives are left out."""
    geo = _polygons_only(_unpacked(geo))
    corners, sizes = _topology(geo)
    if sizes.max(initial=0) > 4:  # may be concave, where a fan is wrong
        divided = made_by("divide", geo)
        if divided is not None:
            geo = divided
            corners, sizes = _topology(geo)
    fans, owners = _fans(corners, sizes)
    # Houdini's corners run clockwise seen from outside.
    return Triangles(geo, positions(geo), np.ascontiguousarray(fans[:, ::-1]), owners)


def packed(geo: hou.Geometry) -> bool:
    return any(geo.containsPrimType(getattr(hou.primType, kind)) for kind in _PACKED)


def _unpacked(geo: hou.Geometry) -> hou.Geometry:
    if not packed(geo):
        return geo
    unpacked = made_by("unpack", geo, {"transfer_attributes": "*", "transfer_groups": "*"})
    if unpacked is None:
        raise RunnelError("Packed primitives could not be unpacked: put an Unpack node in between.")
    return unpacked


def _polygons_only(geo: hou.Geometry) -> hou.Geometry:
    if _all_polygons(geo):
        return geo
    # Volumes go first: Convert would make polygons of those too.
    geo = _without(geo, lambda prim: prim.type() in (hou.primType.VDB, hou.primType.Volume))
    if _all_polygons(geo):
        return geo
    converted = made_by("convert", geo)  # spheres, tubes, NURBS, polygon soups
    geo = geo if converted is None else converted
    return _without(geo, lambda prim: prim.type() != hou.primType.Polygon)


def _all_polygons(geo: hou.Geometry) -> bool:
    return geo.countPrimType(hou.primType.Polygon) == geo.primCount()


def _without(geo: hou.Geometry, unwanted: Callable[[hou.Prim], bool]) -> hou.Geometry:
    """A copy with all points, and with those primitives that are wanted."""
    copy = hou.Geometry()
    copy.merge(geo)
    left_out = [prim for prim in copy.prims() if unwanted(prim)]
    if left_out:
        copy.deletePrims(left_out, keep_points=True)
    return copy


def made_by(
    name: str, geo: hou.Geometry, settings: Mapping[str, str] | None = None
) -> hou.Geometry | None:
    """What a node of Houdini's makes of a geometry; None if it cannot be had."""
    verb = cast(hou.SopVerb | None, hou.sopNodeTypeCategory().nodeVerb(name))
    if verb is None:
        return None
    try:
        if settings:
            verb.setParms(dict(settings))
    except (hou.Error, TypeError):
        pass  # a version without this parameter: its default has to do
    try:
        result = hou.Geometry()
        verb.execute(result, [geo])
        return result
    except hou.Error:
        return None


def _topology(geo: hou.Geometry) -> tuple[Ints, Ints]:
    """Points of all corners, and how many corners each polygon has. All primitives are polygons."""
    try:
        # No call gives the points of all vertices at once, but the bytes of a .bgeo hold them.
        parsed = parse_bgeo(bytes(geo.data()))
        ordered = np.array_equal(parsed.starts, np.cumsum(parsed.sizes) - parsed.sizes)
        whole = len(parsed.sizes) == geo.primCount() and len(parsed.corners) == geo.vertexCount()
        if ordered and whole and parsed.count == geo.pointCount():
            return parsed.corners, parsed.sizes
    except RunnelError:
        pass  # a layout we do not know; slow, but sure:
    faces = [[v.point().number() for v in prim.vertices()] for prim in geo.prims()]
    sizes = np.array([len(face) for face in faces], np.int32)
    return np.array([k for face in faces for k in face], np.int32), sizes


def _fans(corners: Ints, sizes: Ints) -> tuple[Ints, NDArray[np.int64]]:
    """Triangles (m, 3) and the polygon that each is of."""
    counts = np.maximum(sizes - 2, 0)
    owners = np.repeat(np.arange(len(sizes)), counts)
    starts = (np.cumsum(sizes) - sizes)[owners]
    step = np.arange(len(owners)) - (np.cumsum(counts) - counts)[owners]
    picked = np.stack([starts, starts + step + 1, starts + step + 2], axis=1)
    return corners[picked.astype(np.int64)].reshape(-1, 3).astype(np.int32), owners


# --- writing --------------------------------------------------------------------------------------


def set_points(geo: hou.Geometry, attributes: Mapping[str, Array]) -> tuple[hou.Point, ...]:
    """Add points with attributes to a geometry that has none; P is one of them."""
    place = np.ascontiguousarray(attributes["P"], np.float32)
    points = geo.createPoints(((0.0, 0.0, 0.0),) * len(place)) if len(place) else ()
    if len(place):
        geo.setPointFloatAttribValuesFromString("P", place.tobytes())
    for name, values in attributes.items():
        if name != "P":
            set_attribute(geo, hou.attribType.Point, name, np.asarray(values))
    return points


def set_attribute(
    geo: hou.Geometry, owner: hou.EnumValue, name: str, value: Any, first: int = 0
) -> None:
    """Give points or primitives from number `first` on an attribute: one value for all, or an
    array or list of texts with one for each. What comes before them keeps its own."""
    of_prims = owner == hou.attribType.Prim
    rows = (geo.primCount() if of_prims else geo.pointCount()) - first
    values = _rows(value, rows)
    attrib = geo.findPrimAttrib(name) if of_prims else geo.findPointAttrib(name)
    if attrib is not None and first == 0:
        attrib.destroy()  # may be of another type
        attrib = None
    if attrib is None:
        blank: Any = "" if isinstance(values, list) else 0 if values.dtype.kind == "i" else 0.0
        wide = not isinstance(values, list) and values.ndim == 2
        default = (blank,) * values.shape[1] if wide and not isinstance(values, list) else blank
        attrib = geo.addAttrib(owner, name, default, transform_as_normal=name == "N")
        if wide and name in _MEANING:
            try:
                attrib.setOption("type", _MEANING[name])
            except hou.Error:
                pass  # a hint for other nodes, no more
    if isinstance(values, list):
        _set_texts(geo, of_prims, name, values, first)
    elif rows + first:
        _set_numbers(geo, of_prims, name, values, first)


def _rows(value: Any, rows: int) -> Array | list[str]:
    """Numbers (rows,) or (rows, width) as Houdini has them, or texts."""
    if isinstance(value, str):
        return [value] * rows
    if isinstance(value, list) and value and isinstance(value[0], str):
        return value
    table: Array = np.asarray(value)
    table = table.astype(np.int32 if table.dtype.kind in "iub" else np.float32)
    one_for_all = not isinstance(value, np.ndarray)
    return np.broadcast_to(table, (rows, *table.shape)) if one_for_all else table


def _set_texts(geo: hou.Geometry, of_prims: bool, name: str, values: list[str], first: int) -> None:
    if of_prims:
        before = geo.primStringAttribValues(name)[:first]
        geo.setPrimStringAttribValues(name, (*before, *values))
    else:
        before = geo.pointStringAttribValues(name)[:first]
        geo.setPointStringAttribValues(name, (*before, *values))


def _set_numbers(geo: hou.Geometry, of_prims: bool, name: str, values: Array, first: int) -> None:
    whole = values.dtype.kind == "i"
    if first and of_prims:
        raise ValueError("numbers of primitives are set for all of them")
    if first:
        before = point_values(geo, name)
        assert before is not None
        values = np.concatenate([before[:first], values.astype(before.dtype)])
    data = values.tobytes()
    if of_prims and whole:
        geo.setPrimIntAttribValuesFromString(name, data)
    elif of_prims:
        geo.setPrimFloatAttribValuesFromString(name, data)
    elif whole:
        geo.setPointIntAttribValuesFromString(name, data)
    else:
        geo.setPointFloatAttribValuesFromString(name, data)


def set_detail(geo: hou.Geometry, values: Mapping[str, Any]) -> None:
    """Detail attributes: numbers, triples of numbers, texts."""
    for name, value in values.items():
        plain: Any = _plain(value)
        geo.addAttrib(hou.attribType.Global, name, plain)
        geo.setGlobalAttribValue(name, plain)


def _plain(value: Any) -> Any:
    """Python's own numbers: Houdini takes no others."""
    if isinstance(value, tuple | list | np.ndarray):
        return tuple(float(v) for v in value)
    if isinstance(value, str):
        return value
    return int(value) if isinstance(value, int | np.integer) else float(value)


def add_polygons(
    geo: hou.Geometry, vertices: Floats, corners: Ints, group: str = ""
) -> tuple[hou.Polygon, ...]:
    """Add triangles of core's, behind what is there; returns them."""
    first = geo.pointCount()
    geo.createPoints([tuple(row) for row in vertices.astype(float).tolist()])
    faces = (corners[:, ::-1] + first).tolist()
    made = geo.createPolygons(tuple(tuple(face) for face in faces))
    if group:
        geo.createPrimGroup(group).add(made)
    return made


def add_group(
    geo: hou.Geometry, name: str, points: tuple[hou.Point, ...], members: Iterable[int]
) -> None:
    """A point group of some of the points."""
    group = geo.createPointGroup(name)
    chosen = [points[k] for k in members]
    if chosen:
        group.add(chosen)
