"""Reading .bgeo files, of strangers too: counts must agree with the data before memory is taken."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import MeshError
from .binjson import Decoder
from .geometry import Array, Attributes, Geometry, Groups

# Runs of equal values are told once. What they unfold to may take this much more than the file.
_EXPANSION, _EXPANSION_FREE = 256, 1 << 26
_STORAGE = {
    "fpreal16": np.float16, "fpreal32": np.float32, "fpreal64": np.float64,
    "bool": np.bool_, "int8": np.int8, "int16": np.int16, "int32": np.int32, "int64": np.int64,
    "uint8": np.uint8,
}  # fmt: skip
_WIDEST = 1 << 12  # numbers of an attribute's tuple
_SHORT = {"s_v": "startvertex", "n_p": "nprimitives", "r_v": "nvertices_rle", "n_v": "nvertices"}
_POLYGONS = ("Poly", "Polygon")


def read_bgeo(path: str | Path) -> Geometry:
    """Geometry of a .bgeo file (binary JSON)."""
    path = Path(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise MeshError(f"cannot be read: {error.strerror or error}", file=path) from None
    try:
        return parse_bgeo(data)
    except MeshError as error:
        raise error.in_file(path) from None


def parse_bgeo(data: bytes) -> Geometry:
    """Geometry of the bytes of a .bgeo file."""
    document = Decoder(data).document()
    try:
        return _Reader(document, _EXPANSION_FREE + _EXPANSION * len(data)).geometry()
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise MeshError(f"is not laid out as Houdini geometry: {error}") from None


class _Reader:
    """One document; `budget` bytes may be taken for what it unfolds to."""

    def __init__(self, document: Any, budget: int) -> None:
        self._budget = budget
        self._top = _pairs(document, "the file")
        self._points = self._count("pointcount")
        self._vertices = self._count("vertexcount")
        self._primitives = self._count("primitivecount")

    def _count(self, name: str) -> int:
        return _whole(self._top.get(name, 0), name)

    def _spend(self, size: int, what: str) -> None:
        self._budget -= size
        if self._budget < 0:
            raise MeshError(f"{what} would take {size} bytes, more than such a file can mean")

    def geometry(self) -> Geometry:
        attributes = _pairs(self._top.get("attributes", []), "attributes")
        result = Geometry(self._points)
        for name, count, place in (
            ("pointattributes", self._points, result.points),
            ("vertexattributes", self._vertices, result.vertices),
            ("primitiveattributes", self._primitives, result.primitives),
            ("globalattributes", 1, result.detail),
        ):
            self._attributes(attributes.get(name, []), count, place)
        if self._points and "P" not in result.points:
            raise MeshError(f"{self._points} points have no positions (P)")
        self._groups("pointgroups", self._points, result.point_groups)
        self._groups("primitivegroups", self._primitives, result.primitive_groups)
        result.corners = self._corners()
        self._polygons(result)
        info = self._top.get("info")
        result.software = str(info.get("software", "")) if isinstance(info, dict) else ""
        return result

    # ---- attributes

    def _attributes(self, items: Any, count: int, into: Attributes) -> None:
        for item in _list(items, "attributes"):
            head, body = _list(item, "an attribute")
            about = _pairs(head, "an attribute's head")
            name, kind = _text(about["name"], "an attribute's name"), about.get("type")
            values = _pairs(body, f"attribute {name!r}")
            if kind == "numeric":
                into[name] = self._tuples(_pairs(values["values"], f"values of {name!r}"), count)
            elif kind == "string":
                into[name] = self._texts(values, count, name)

    def _texts(self, values: dict[str, Any], count: int, name: str) -> Array:
        strings = [str(text) for text in _list(values["strings"], f"texts of {name!r}")]
        chosen = self._tuples(_pairs(values["indices"], f"indices of {name!r}"), count)
        if chosen.dtype.kind not in "iu":
            raise MeshError(f"indices of {name!r} are not whole numbers")
        if chosen.size and not (chosen.min() >= -1 and chosen.max() < len(strings)):
            raise MeshError(f"attribute {name!r} names a text that is not there")
        self._spend(8 * chosen.size, f"attribute {name!r}")
        return np.array([*strings, ""], object)[chosen]  # -1 is no text

    def _tuples(self, values: dict[str, Any], count: int) -> Array:
        """Values (count,) or (count, size)."""
        size = _whole(values["size"], "size")
        storage = _text(values["storage"], "storage")
        if not 1 <= size <= _WIDEST or storage not in _STORAGE:
            raise MeshError(f"an attribute of {size} x {storage} is not known")
        dtype = np.dtype(_STORAGE[storage])
        if "rawpagedata" in values:
            table = self._pages(values, count, size, dtype)
        elif "arrays" in values:
            (row,) = values["arrays"]
            table = _numbers(row, dtype)
        elif "tuples" in values:
            table = _numbers([x for row in values["tuples"] for x in row], dtype)
        else:
            raise MeshError("an attribute has no values")
        if table.size != count * size:
            raise MeshError(f"{count} x {size} values are announced, {table.size} are there")
        return table if size == 1 else table.reshape(count, size)

    def _pages(self, values: dict[str, Any], count: int, size: int, dtype: np.dtype[Any]) -> Array:
        page = _whole(values.get("pagesize", 1024), "pagesize")
        packing = [_whole(n, "packing") for n in _list(values.get("packing", [size]), "packing")]
        if page < 1 or sum(packing) != size or min(packing) < 1:
            raise MeshError(f"pages of {page} rows, packed {packing[:8]}, are not possible")
        flags = values.get("constantpageflags")
        raw = _numbers(values["rawpagedata"], dtype)
        if flags is None and packing == [size]:
            return raw
        return self._unpacked(raw, count, size, page, packing, flags)

    def _unpacked(
        self, raw: Array, count: int, size: int, page: int, packing: list[int], flags: Any
    ) -> Array:
        """Pages in which parts of the tuples lie apart, or that hold one tuple for all rows."""
        pages = -(-count // page)
        parts = [[] for _ in packing] if flags is None else _list(flags, "flags of pages")
        constant = [_flags(part, pages) for part in parts]
        if len(constant) != len(packing):
            raise MeshError("flags of constant pages do not fit the packing")
        self._spend(count * size * raw.dtype.itemsize, "an attribute")
        result = np.empty((count, size), raw.dtype)
        at = 0
        for number in range(pages):
            rows = result[number * page : (number + 1) * page]
            column = 0
            for width, flag in zip(packing, constant, strict=True):
                told = 1 if flag[number] else len(rows)
                piece = raw[at : at + told * width]
                if len(piece) < told * width:
                    raise MeshError("an attribute's pages lack values")
                rows[:, column : column + width] = piece.reshape(told, width)
                at, column = at + told * width, column + width
        return result.ravel() if at == len(raw) else raw  # the caller finds the wrong number

    # ---- groups and polygons

    def _groups(self, key: str, count: int, into: Groups) -> None:
        for item in _list(self._top.get(key, []), key):
            head, body = _list(item, "a group")
            name = _text(_pairs(head, "a group's head")["name"], "a group's name")
            selection = _pairs(_pairs(body, f"group {name!r}")["selection"], f"group {name!r}")
            if "unordered" in selection:
                form = _pairs(selection["unordered"], f"group {name!r}")
                runs = _list(form["boolRLE"], f"group {name!r}")
                into[name] = self._runs(runs, count, np.bool_, name)[:count]
            else:  # members in an order of their own
                members = _numbers(selection["ordered"], np.dtype(np.int64))
                if members.size and not (members.min() >= 0 and members.max() < count):
                    raise MeshError(f"group {name!r} has members that do not exist")
                self._spend(count, f"group {name!r}")
                into[name] = np.zeros(count, np.bool_)
                into[name][members] = True

    def _runs(self, runs: list[Any], count: int, dtype: Any, what: str) -> Array:
        """Unfold [n, value, n, value, ...] or, for sizes, the same numbers the other way round."""
        lengths = [_whole(n, f"a run of {what!r}") for n in runs[0::2]]
        if len(runs) % 2 or sum(lengths) != count:
            raise MeshError(f"runs of {what!r} have {sum(lengths)} members, there are {count}")
        self._spend(count * np.dtype(dtype).itemsize, f"{what!r}")
        return np.repeat(np.array([_whole(v, what) for v in runs[1::2]], dtype), lengths)

    def _corners(self) -> NDArray[np.int32]:
        topology = _pairs(self._top.get("topology", []), "topology")
        refs = _pairs(topology.get("pointref", []), "topology")
        corners = _numbers(refs.get("indices", []), np.dtype(np.int64))
        if len(corners) != self._vertices:
            raise MeshError(f"{self._vertices} vertices are announced, {len(corners)} are there")
        if corners.size and not (corners.min() >= 0 and corners.max() < self._points):
            raise MeshError("a vertex names a point that does not exist")
        return corners.astype(np.int32)

    def _polygons(self, result: Geometry) -> None:
        starts: list[NDArray[np.int64]] = []
        sizes: list[NDArray[np.int64]] = []
        seen = 0
        order = [np.arange(self._vertices)]  # vertices of polygons that name theirs come behind
        at = self._vertices
        for item in _list(self._top.get("primitives", []), "primitives"):
            head, body = _list(item, "a primitive")
            about = _pairs(head, "a primitive's head")
            kind = about.get("type")
            if kind in ("p_r", "Polygon_run"):
                first, size = self._run_of_polygons(_pairs(body, "polygons"))
                seen += len(size)
                starts.append(first)
                sizes.append(size)
                continue
            named = _named_polygons(kind, about, body)
            seen += len(named) if named is not None else _members(kind, body)
            if named is None:
                result.other_primitives += _members(kind, body)
                continue
            for vertices in named:
                self._check_vertices(vertices)
                order.append(vertices)
                starts.append(np.array([at]))
                sizes.append(np.array([len(vertices)]))
                at += len(vertices)
        if seen != self._primitives:
            raise MeshError(f"{self._primitives} primitives are announced, {seen} are there")
        if len(order) > 1:
            result.corners = result.corners[np.concatenate(order)]
        if starts:
            result.starts = np.concatenate(starts).astype(np.int32)
            result.sizes = np.concatenate(sizes).astype(np.int32)

    def _check_vertices(self, vertices: NDArray[np.int64]) -> None:
        if vertices.size and not (vertices.min() >= 0 and vertices.max() < self._vertices):
            raise MeshError("a polygon names a vertex that does not exist")
        self._spend(8 * len(vertices) + 64, "polygons")

    def _run_of_polygons(self, body: dict[str, Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        fields = {_SHORT.get(key, key): value for key, value in body.items()}
        start = _whole(fields["startvertex"], "startvertex")
        count = _whole(fields["nprimitives"], "nprimitives")
        if "nvertices" in fields:
            sizes = _numbers(fields["nvertices"], np.dtype(np.int64))
        else:
            runs = _list(fields["nvertices_rle"], "nvertices_rle")
            flipped = [n for k in range(0, len(runs) - 1, 2) for n in (runs[k + 1], runs[k])]
            if count > self._vertices or len(runs) % 2:  # a polygon has a vertex or more
                raise MeshError(f"{count} polygons cannot have {self._vertices} vertices")
            sizes = self._runs(flipped, count, np.int64, "polygons")
        if len(sizes) != count or (sizes < 1).any() or (sizes > self._vertices).any():
            raise MeshError("sizes of polygons do not fit")
        if start + int(sizes.sum()) > self._vertices:
            raise MeshError("polygons have more vertices than there are")
        return start + np.cumsum(sizes) - sizes, sizes


def _members(kind: Any, body: Any) -> int:
    """Primitives that an entry stands for."""
    return len(_list(body, "primitives")) if kind == "run" else 1


def _named_polygons(kind: Any, about: dict[str, Any], body: Any) -> list[NDArray[np.int64]] | None:
    """Vertices of polygons told one by one; None: not polygons."""
    whole = np.dtype(np.int64)
    if kind in _POLYGONS:
        return [_numbers(_pairs(body, "a polygon")["vertex"], whole)]
    if kind == "run" and about.get("runtype") in _POLYGONS:
        place = _list(about.get("varyingfields", []), "a run's fields").index("vertex")
        return [_numbers(_list(item, "a polygon")[place], whole) for item in body]
    return None


# ---- values as they must be


def _list(value: Any, what: str) -> list[Any]:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if not isinstance(value, list):
        raise MeshError(f"{what}: a list should be here")
    return value


def _pairs(value: Any, what: str) -> dict[str, Any]:
    """[key, value, key, value, ...], or a map, as a dict."""
    if isinstance(value, dict):
        return value
    items = _list(value, what)
    if len(items) % 2 or not all(isinstance(key, str) for key in items[0::2]):
        raise MeshError(f"{what}: keys and values should be here")
    return dict(zip(items[0::2], items[1::2], strict=True))


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise MeshError(f"{what}: a text should be here")
    return value


def _whole(value: Any, what: str) -> int:
    if not isinstance(value, int) or not 0 <= value < 1 << 62:
        raise MeshError(f"{what}: {str(value)[:40]!r} is no count")
    return int(value)


def _flags(value: Any, pages: int) -> NDArray[np.bool_]:
    flags = np.asarray(value, np.bool_)
    if flags.size == 0:
        if pages > 1 << 40:
            raise MeshError("too many pages")
        return np.broadcast_to(np.False_, (pages,))
    if flags.shape != (pages,):
        raise MeshError(f"{pages} pages have {flags.size} flags")
    return flags


def _numbers(values: Any, dtype: np.dtype[Any]) -> Array:
    """A row of numbers in the type announced; whole numbers must fit."""
    row = np.asarray(values)
    if row.ndim != 1 or (row.size and row.dtype.kind not in "biuf"):
        raise MeshError("a row of numbers should be here")
    if dtype.kind in "iu" and row.size:
        limits = np.iinfo(dtype)
        if row.dtype.kind == "f" or int(row.min()) < limits.min or int(row.max()) > limits.max:
            raise MeshError(f"numbers do not fit the type {dtype}")
    if dtype.kind == "f" and row.size and row.dtype.itemsize > dtype.itemsize:
        largest = float(np.finfo(dtype).max)
        finite = row[np.isfinite(row)] if row.dtype.kind == "f" else row
        if finite.size and not math.isinf(largest) and np.abs(finite).max() > largest:
            raise MeshError(f"numbers do not fit the type {dtype}")
    return row.astype(dtype)
