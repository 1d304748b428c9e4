"""Geometry: points, primitives, attributes, groups, on numpy arrays."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from runnel.export.bgeo import document
from runnel.export.bgeo_read import parse_bgeo
from runnel.export.binjson import Encoder
from runnel.export.geometry import Geometry as Parsed

from .enums import EnumValue, attribData, attribScope, attribType, groupScope, numericData, primType
from .errors import GeometryPermissionError, InvalidSize, OperationFailed
from .vdb import Voxels, file_of, grids_in
from .world import new_data_id

_TYPES = {
    "Float16": np.float16, "Float32": np.float32, "Float64": np.float64, "Int8": np.int8,
    "UInt8": np.uint8, "Int16": np.int16, "Int32": np.int32, "Int64": np.int64,
}  # fmt: skip
_OWNERS = ("Point", "Vertex", "Prim", "Global")


@dataclass
class _Column:
    """Values of an attribute: (rows, size), or texts (rows,)."""

    values: np.ndarray
    default: Any
    data_id: int = field(default_factory=new_data_id)
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return 1 if self.values.ndim == 1 else self.values.shape[1]


@dataclass
class _PrimData:
    """A primitive: its kind and points; what is packed, or the bytes of a .vdb file."""

    kind: EnumValue
    points: list[int]
    closed: bool = True
    content: Any = None
    transform: np.ndarray = field(default_factory=lambda: np.eye(4))


class Attrib:
    def __init__(self, *args, **kwargs) -> None:
        self._geometry, self._owner, self._name = args

    @property
    def _column(self) -> _Column:
        return self._geometry._tables[self._owner.name()][self._name]

    def geometry(self) -> Geometry:
        return self._geometry

    def name(self) -> str:
        return self._name

    def type(self) -> EnumValue:
        return self._owner

    def dataType(self) -> EnumValue:
        kind = self._column.values.dtype.kind
        return {"f": attribData.Float, "O": attribData.String}.get(kind, attribData.Int)

    def numericDataType(self) -> EnumValue:
        if self._column.values.dtype.kind == "O":
            raise OperationFailed("not numeric")
        for name, dtype in _TYPES.items():
            if self._column.values.dtype == dtype:
                return getattr(numericData, name)
        raise AssertionError(self._column.values.dtype)

    def isArrayType(self) -> bool:
        return False

    def size(self) -> int:
        return self._column.size

    def dataId(self) -> int:
        return self._column.data_id

    def destroy(self) -> None:
        self._geometry._change()
        del self._geometry._tables[self._owner.name()][self._name]

    def setOption(self, name: str, value: Any, type_hint: EnumValue | None = None) -> None:
        self._column.options[name] = value


class Point:
    def __init__(self, *args, **kwargs) -> None:
        self._geometry, self._number = args

    def geometry(self) -> Geometry:
        return self._geometry

    def number(self) -> int:
        return self._number

    def attribValue(self, attrib: Attrib | str) -> Any:
        return _value(self._geometry, "Point", attrib, self._number)


class Vertex:
    def __init__(self, *args, **kwargs) -> None:
        self._prim, self._place = args

    def prim(self) -> Prim:
        return self._prim

    def point(self) -> Point:
        return Point(self._prim._geometry, self._prim._data.points[self._place])


class Prim:
    def __init__(self, *args, **kwargs) -> None:
        self._geometry, self._number = args

    @property
    def _data(self) -> _PrimData:
        return self._geometry._prims[self._number]

    def geometry(self) -> Geometry:
        return self._geometry

    def number(self) -> int:
        return self._number

    def type(self) -> EnumValue:
        return self._data.kind

    def vertices(self) -> Iterator[Vertex]:
        return iter([Vertex(self, k) for k in range(len(self._data.points))])

    def numVertices(self) -> int:
        return len(self._data.points)

    def attribValue(self, attrib: Attrib | str) -> Any:
        return _value(self._geometry, "Prim", attrib, self._number)


class Polygon(Prim):
    def isClosed(self) -> bool:
        return self._data.closed


class PackedPrim(Prim):
    pass


class PackedGeometry(PackedPrim):
    pass


class VDB(Prim):
    # Assigned one by one: a base that Houdini does not have would be none of its.
    _grid = Voxels._grid
    activeVoxelBoundingBox = Voxels.activeVoxelBoundingBox
    activeVoxelCount = Voxels.activeVoxelCount
    dataType = Voxels.dataType
    indexToPos = Voxels.indexToPos
    resolution = Voxels.resolution
    samplev = Voxels.samplev
    volumeAverage = Voxels.volumeAverage
    voxelSize = Voxels.voxelSize


class PointGroup:
    def __init__(self, *args, **kwargs) -> None:
        self._geometry, self._name = args

    @property
    def _members(self) -> set[int]:
        return self._geometry._groups["Point"][self._name]

    def name(self) -> str:
        return self._name

    def points(self) -> tuple[Point, ...]:
        return tuple(Point(self._geometry, k) for k in sorted(self._members))

    def add(self, point_or_list_or_point_group: Any) -> None:
        self._geometry._change()
        self._members.update(_numbers(point_or_list_or_point_group))

    def pointCount(self) -> int:
        return len(self._members)


class PrimGroup:
    def __init__(self, *args, **kwargs) -> None:
        self._geometry, self._name = args

    @property
    def _members(self) -> set[int]:
        return self._geometry._groups["Prim"][self._name]

    def name(self) -> str:
        return self._name

    def prims(self) -> tuple[Prim, ...]:
        return tuple(self._geometry._prim(k) for k in sorted(self._members))

    def add(self, prim_or_list_or_prim_group: Any) -> None:
        self._geometry._change()
        self._members.update(_numbers(prim_or_list_or_prim_group))


class Geometry:
    def __init__(self, geo: Geometry | None = None, clone_data_ids: bool = False) -> None:
        self._read_only = False
        self._node: Any = None
        self._empty()
        if geo is not None:
            self._take(geo)

    # --- what there is

    def isReadOnly(self) -> bool:
        return self._read_only

    def sopNode(self) -> Any:
        return self._node

    def freeze(self, read_only: bool = False, clone_data_ids: bool = False) -> Geometry:
        copy = Geometry(self)
        copy._read_only = read_only
        return copy

    def pointCount(self) -> int:
        return self._count

    def primCount(self) -> int:
        return len(self._prims)

    def vertexCount(self) -> int:
        return sum(len(prim.points) for prim in self._prims)

    def points(self) -> tuple[Point, ...]:
        return tuple(Point(self, k) for k in range(self._count))

    def prims(self) -> tuple[Prim, ...]:
        return tuple(self._prim(k) for k in range(len(self._prims)))

    def point(self, index: int) -> Point | None:
        return Point(self, index) if 0 <= index < self._count else None

    def prim(self, index: int) -> Prim | None:
        return self._prim(index) if 0 <= index < len(self._prims) else None

    def primsOfType(self, prim_type: EnumValue) -> tuple[Prim, ...]:
        return tuple(prim for prim in self.prims() if prim.type() is prim_type)

    def containsPrimType(self, type_or_name: EnumValue | str) -> bool:
        return self.countPrimType(type_or_name) > 0

    def countPrimType(self, type_or_name: EnumValue | str) -> int:
        assert isinstance(type_or_name, EnumValue), "names of types are not known here"
        return sum(prim.kind is type_or_name for prim in self._prims)

    # --- attributes

    def findPointAttrib(self, name: str, scope: EnumValue = attribScope.Public) -> Attrib | None:
        return self._find("Point", name)

    def findPrimAttrib(self, name: str, scope: EnumValue = attribScope.Public) -> Attrib | None:
        return self._find("Prim", name)

    def findGlobalAttrib(self, name: str, scope: EnumValue = attribScope.Public) -> Attrib | None:
        return self._find("Global", name)

    def pointAttribs(self, scope: EnumValue = attribScope.Public) -> tuple[Attrib, ...]:
        return self._all("Point")

    def primAttribs(self, scope: EnumValue = attribScope.Public) -> tuple[Attrib, ...]:
        return self._all("Prim")

    def globalAttribs(self, scope: EnumValue = attribScope.Public) -> tuple[Attrib, ...]:
        return self._all("Global")

    def addAttrib(
        self,
        type: EnumValue,
        name: str,
        default_value: Any,
        transform_as_normal: bool = False,
        create_local_variable: bool = False,
    ) -> Attrib:
        self._change()
        table = self._tables[type.name()]
        if name in table:
            raise OperationFailed(f"attribute {name} is there already")
        table[name] = _new_column(default_value, self._rows(type.name()))
        return Attrib(self, type, name)

    def attribValue(self, name_or_attrib: Any) -> Any:
        return _value(self, "Global", name_or_attrib, 0)

    def setGlobalAttribValue(self, name_or_attrib: Any, attrib_value: Any) -> None:
        self._change()
        name = name_or_attrib if isinstance(name_or_attrib, str) else name_or_attrib.name()
        column = self._tables["Global"][name]
        kind = column.values.dtype.kind
        parts = attrib_value if isinstance(attrib_value, list | tuple) else [attrib_value]
        for part in parts:  # as strict as Houdini: no numpy scalars, no int for a float
            allowed = {"f": float, "i": int, "O": str}[kind]
            if type(part) is not allowed:
                raise TypeError(f"{name}: {part!r} is no {allowed.__name__}")
        column.values[0] = attrib_value
        column.data_id = new_data_id()

    def pointFloatAttribValuesAsString(
        self, name: str, float_type: EnumValue = numericData.Float32
    ) -> bytes:
        return self._as_string("Point", name, float_type, "f")

    def pointIntAttribValuesAsString(
        self, name: str, int_type: EnumValue = numericData.Int32
    ) -> bytes:
        return self._as_string("Point", name, int_type, "iu")

    def primFloatAttribValuesAsString(
        self, name: str, float_type: EnumValue = numericData.Float32
    ) -> bytes:
        return self._as_string("Prim", name, float_type, "f")

    def primIntAttribValuesAsString(
        self, name: str, int_type: EnumValue = numericData.Int32
    ) -> bytes:
        return self._as_string("Prim", name, int_type, "iu")

    def pointStringAttribValues(self, name: str) -> tuple[str, ...]:
        return tuple(self._column("Point", name).values.tolist())

    def primStringAttribValues(self, name: str) -> tuple[str, ...]:
        return tuple(self._column("Prim", name).values.tolist())

    def setPointFloatAttribValuesFromString(
        self, name: str, values: bytes, float_type: EnumValue = numericData.Float32
    ) -> None:
        self._from_string("Point", name, values, float_type, "f")

    def setPointIntAttribValuesFromString(
        self, name: str, values: bytes, int_type: EnumValue = numericData.Int32
    ) -> None:
        self._from_string("Point", name, values, int_type, "i")

    def setPrimFloatAttribValuesFromString(
        self, name: str, values: bytes, float_type: EnumValue = numericData.Float32
    ) -> None:
        self._from_string("Prim", name, values, float_type, "f")

    def setPrimIntAttribValuesFromString(
        self, name: str, values: bytes, int_type: EnumValue = numericData.Int32
    ) -> None:
        self._from_string("Prim", name, values, int_type, "i")

    def setPointStringAttribValues(self, name: str, values: Any) -> None:
        self._set_strings("Point", name, values)

    def setPrimStringAttribValues(self, name: str, values: Any) -> None:
        self._set_strings("Prim", name, values)

    # --- groups

    def pointGroups(self, scope: EnumValue = groupScope.Public) -> tuple[PointGroup, ...]:
        return tuple(PointGroup(self, name) for name in self._groups["Point"])

    def primGroups(self, scope: EnumValue = groupScope.Public) -> tuple[PrimGroup, ...]:
        return tuple(PrimGroup(self, name) for name in self._groups["Prim"])

    def findPointGroup(self, name: str, scope: EnumValue = groupScope.Public) -> PointGroup | None:
        return PointGroup(self, name) if name in self._groups["Point"] else None

    def findPrimGroup(self, name: str, scope: EnumValue = groupScope.Public) -> PrimGroup | None:
        return PrimGroup(self, name) if name in self._groups["Prim"] else None

    def createPointGroup(
        self, name: str, is_ordered: bool = False, unique_name: bool = False
    ) -> PointGroup:
        self._new_group("Point", name)
        return PointGroup(self, name)

    def createPrimGroup(
        self, name: str, is_ordered: bool = False, unique_name: bool = False
    ) -> PrimGroup:
        self._new_group("Prim", name)
        return PrimGroup(self, name)

    # --- changes

    def clear(self) -> None:
        self._change()
        self._empty()

    def createPoints(self, point_positions: Any) -> tuple[Point, ...]:
        self._change()
        places = np.asarray(point_positions, np.float64)
        if places.size and (places.ndim != 2 or places.shape[1] != 3):
            raise InvalidSize("3 values are needed")
        first = self._count
        self._grow("Point", len(places))
        self._count += len(places)
        if len(places):
            self._tables["Point"]["P"].values[first:] = places
        return tuple(Point(self, k) for k in range(first, self._count))

    def createPolygons(self, point_positions: Any, is_closed: bool = True) -> tuple[Polygon, ...]:
        self._change()
        first = len(self._prims)
        for corners in point_positions:
            numbers = [k if isinstance(k, int) else k.number() for k in corners]
            if len(numbers) < 3:
                raise InvalidSize("a polygon has three points or more")
            assert all(0 <= k < self._count for k in numbers)
            self._add_prim(_PrimData(primType.Polygon, numbers, is_closed))
        return tuple(self.prims()[first:])

    def deletePrims(self, prims: Any, keep_points: bool = False) -> None:
        self._change()
        gone = {prim.number() for prim in prims}
        kept = [k for k in range(len(self._prims)) if k not in gone]
        for column in self._tables["Prim"].values():
            column.values = column.values[kept]
        self._prims = [self._prims[k] for k in kept]
        assert keep_points, "points are not deleted here"

    def copy(self, geometry: Geometry, clone_data_ids: bool = False, prims: Any = None) -> None:
        self._change()
        self._take(geometry)

    def merge(self, geometry: Geometry, clone_data_ids: bool = False, prims: Any = None) -> None:
        self._change()
        first = self._count
        for owner in ("Point", "Prim"):
            for name, column in geometry._tables[owner].items():
                if name not in self._tables[owner]:
                    rows = self._rows(owner)
                    self._tables[owner][name] = _new_column(column.default, rows)
        self._grow("Point", geometry._count)
        self._count += geometry._count
        for name, column in geometry._tables["Point"].items():
            self._tables["Point"][name].values[first:] = column.values
        start = len(self._prims)
        for prim in geometry._prims:
            moved = [k + first for k in prim.points]
            self._add_prim(_PrimData(prim.kind, moved, prim.closed, prim.content, prim.transform))
        for name, column in geometry._tables["Prim"].items():
            self._tables["Prim"][name].values[start:] = column.values

    # --- files

    def data(self) -> bytes:
        stream = io.BytesIO()
        Encoder(stream).write(document(self._parsed()))
        return stream.getvalue()

    def load(self, data: bytes) -> None:
        self._change()
        self._from_parsed(parse_bgeo(bytes(data)))

    def saveToFile(self, file_name: str) -> None:
        if file_name.endswith(".vdb"):
            parts = [prim.content for prim in self._prims if prim.kind is primType.VDB]
            whole = (
                parts[0] if len(parts) == 1 else file_of([g for p in parts for g in grids_in(p)])
            )
            Path(file_name).write_bytes(whole)
        else:
            Path(file_name).write_bytes(self.data())

    def loadFromFile(self, file_name: str) -> None:
        self._change()
        data = Path(file_name).read_bytes()
        if file_name.endswith(".vdb"):
            self._empty()
            grids = grids_in(data)
            self.createPoints([(0.0, 0.0, 0.0)] * len(grids))
            for number, grid in enumerate(grids):
                self._add_prim(_PrimData(primType.VDB, [number], content=file_of([grid])))
            self.addAttrib(attribType.Prim, "name", "")
            self.setPrimStringAttribValues("name", [grid.name for grid in grids])
        else:
            self._from_parsed(parse_bgeo(data))

    def topologyDataId(self) -> int:
        return self._topology_id

    def primitiveIntrinsicsDataId(self) -> int:
        return self._topology_id

    # --- inside

    def _empty(self) -> None:
        self._count = 0
        self._prims: list[_PrimData] = []
        self._tables: dict[str, dict[str, _Column]] = {owner: {} for owner in _OWNERS}
        self._groups: dict[str, dict[str, set[int]]] = {"Point": {}, "Prim": {}}
        self._tables["Point"]["P"] = _new_column((0.0, 0.0, 0.0), 0)
        self._topology_id = new_data_id()

    def _change(self) -> None:
        if self._read_only:
            raise GeometryPermissionError("This geometry is read-only")

    def _take(self, other: Geometry) -> None:
        self._count = other._count
        self._prims = [
            _PrimData(p.kind, list(p.points), p.closed, p.content, p.transform)
            for p in other._prims
        ]
        self._tables = {
            owner: {n: _Column(c.values.copy(), c.default, c.data_id) for n, c in table.items()}
            for owner, table in other._tables.items()
        }
        self._groups = {
            owner: {name: set(members) for name, members in groups.items()}
            for owner, groups in other._groups.items()
        }
        self._topology_id = other._topology_id

    def _rows(self, owner: str) -> int:
        vertices = self.vertexCount()
        return {
            "Point": self._count, "Prim": len(self._prims), "Global": 1, "Vertex": vertices
        }[owner]  # fmt: skip

    def _grow(self, owner: str, rows: int) -> None:
        for column in self._tables[owner].values():
            fresh = _new_column(column.default, rows).values.astype(column.values.dtype)
            column.values = np.concatenate([column.values, fresh])
            column.data_id = new_data_id()
        self._topology_id = new_data_id()

    def _add_prim(self, prim: _PrimData) -> None:
        self._grow("Prim", 1)
        self._prims.append(prim)

    def _prim(self, number: int) -> Prim:
        kind = self._prims[number].kind
        classes = {
            primType.Polygon: Polygon, primType.PackedGeometry: PackedGeometry, primType.VDB: VDB
        }  # fmt: skip
        return classes.get(kind, Prim)(self, number)

    def _find(self, owner: str, name: str) -> Attrib | None:
        if name not in self._tables[owner]:
            return None
        return Attrib(self, getattr(attribType, owner), name)

    def _all(self, owner: str) -> tuple[Attrib, ...]:
        return tuple(Attrib(self, getattr(attribType, owner), n) for n in self._tables[owner])

    def _column(self, owner: str, name: str) -> _Column:
        if name not in self._tables[owner]:
            raise OperationFailed(f"Invalid attribute name: {name}")
        return self._tables[owner][name]

    def _as_string(self, owner: str, name: str, kind: EnumValue, kinds: str) -> bytes:
        values = self._column(owner, name).values
        dtype = np.dtype(_TYPES[kind.name()])
        if values.dtype.kind not in kinds or dtype.kind not in kinds:
            raise OperationFailed(f"{name} is of another type")
        return values.astype(dtype).tobytes()

    def _from_string(self, owner: str, name: str, data: bytes, kind: EnumValue, kinds: str) -> None:
        self._change()
        assert type(data) is bytes, "the stubs ask for bytes"
        column = self._column(owner, name)
        dtype = np.dtype(_TYPES[kind.name()])
        if column.values.dtype.kind not in kinds or dtype.kind not in kinds:
            raise OperationFailed(f"{name} is of another type")
        values = np.frombuffer(data, dtype)
        if values.size != column.values.size:
            raise InvalidSize(f"{name}: {values.size} values for {column.values.size}")
        column.values[...] = values.reshape(column.values.shape)
        column.data_id = new_data_id()

    def _set_strings(self, owner: str, name: str, values: Any) -> None:
        self._change()
        column = self._column(owner, name)
        if len(values) != len(column.values):
            raise InvalidSize(f"{name}: {len(values)} texts for {len(column.values)}")
        column.values[:] = values

    def _new_group(self, owner: str, name: str) -> None:
        self._change()
        if name in self._groups[owner] or not name.isidentifier():
            raise OperationFailed(f"Invalid group name: {name}")
        self._groups[owner][name] = set()

    def _parsed(self) -> Parsed:
        polygons = [p for p in self._prims if p.kind is primType.Polygon]
        assert len(polygons) == len(self._prims), "only polygons are written here"
        sizes = np.array([len(p.points) for p in polygons], np.int32)
        numeric = {
            owner: {n: _flat(c.values) for n, c in table.items() if c.values.dtype.kind != "O"}
            for owner, table in self._tables.items()
        }
        corners = [k for p in polygons for k in p.points]
        return Parsed(
            self._count,
            points=numeric["Point"],
            primitives=numeric["Prim"],
            detail=numeric["Global"],
            point_groups={n: _mask(m, self._count) for n, m in self._groups["Point"].items()},
            primitive_groups={n: _mask(m, len(sizes)) for n, m in self._groups["Prim"].items()},
            corners=np.array(corners, np.int32),
            starts=(np.cumsum(sizes) - sizes).astype(np.int32),
            sizes=sizes,
        )

    def _from_parsed(self, parsed: Parsed) -> None:
        self._empty()
        self._count = parsed.count
        for owner, table in (
            ("Point", parsed.points), ("Prim", parsed.primitives), ("Global", parsed.detail)
        ):  # fmt: skip
            for name, values in table.items():
                default: Any = "" if values.dtype.kind == "O" else 0.0
                self._tables[owner][name] = _Column(_table(values), default)
        for number in range(len(parsed.sizes)):
            corners = parsed.polygon(number).tolist()
            self._prims.append(_PrimData(primType.Polygon, corners))
        for owner, groups in (
            ("Point", parsed.point_groups), ("Prim", parsed.primitive_groups)
        ):  # fmt: skip
            self._groups[owner] = {
                name: set(np.flatnonzero(members).tolist()) for name, members in groups.items()
            }


def _new_column(default: Any, rows: int) -> _Column:
    parts = list(default) if isinstance(default, list | tuple) else [default]
    kind = {float: np.float32, int: np.int32, str: object}[type(parts[0])]
    if kind is object:
        return _Column(np.full(rows, parts[0], object), default)
    return _Column(np.tile(np.array(parts, kind), (rows, 1)), default)


def _value(geometry: Geometry, owner: str, attrib: Any, row: int) -> Any:
    name = attrib if isinstance(attrib, str) else attrib.name()
    value = geometry._column(owner, name).values[row]
    if isinstance(value, str):
        return value
    return value[0].item() if value.size == 1 else tuple(value.tolist())


def _numbers(what: Any) -> list[int]:
    items = what if isinstance(what, list | tuple) else [what]
    return [item.number() for item in items]


def _mask(members: set[int], count: int) -> np.ndarray:
    mask = np.zeros(count, bool)
    mask[sorted(members)] = True
    return mask


def _flat(values: np.ndarray) -> np.ndarray:
    return values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values


def _table(values: np.ndarray) -> np.ndarray:
    if values.dtype.kind == "O" or values.ndim == 2:
        return values.copy()
    return values.reshape(-1, 1).copy()
