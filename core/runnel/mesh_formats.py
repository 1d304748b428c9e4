"""OBJ, STL, PLY and OFF files as arrays.

Files come from strangers: nothing is executed, declared counts are checked against the size of the
file before memory is taken, and whatever is wrong raises MeshError naming the place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .errors import MeshError

FARTHEST = 1e12  # coordinates beyond are no measurements; their products would overflow

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Arrays = tuple[Floats, NDArray[np.int32]]  # vertices (n, 3), triangles (m, 3)

_CHUNK = 1 << 24  # bytes of text split into tokens at a time
_WHITE = np.zeros(256, np.bool_)
_WHITE[list(b" \t\n\r\x0b\x0c")] = True  # what bytes.split splits at

Where = Callable[[int], str]  # number of a vertex or face -> place in the file


def weld(vertices: Floats) -> tuple[Floats, Ints]:
    """Vertices without repetition, and where each old one went."""
    clean = np.ascontiguousarray(vertices) + 0.0  # -0.0 equals 0.0 but has other bits
    bits = clean.view(np.uint64)
    # Sorting one hash is several times faster than sorting three columns.
    mixed = bits * np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9], np.uint64)
    mixed ^= mixed >> np.uint64(29)
    keys = (mixed * np.array([1, 3, 5], np.uint64)).sum(axis=1, dtype=np.uint64)
    _, first, numbers = np.unique(keys, return_index=True, return_inverse=True)
    numbers = numbers.ravel()
    if not np.array_equal(clean[first][numbers], clean):  # two places with one hash
        _, first, numbers = np.unique(clean, axis=0, return_index=True, return_inverse=True)
        numbers = numbers.ravel()
    return clean[first], numbers


def _mesh(vertices: Floats, faces: Ints, sizes: Ints, vertex: Where, face: Where) -> Arrays:
    """Check and triangulate. faces: vertex numbers of all faces in a row; sizes: of each face."""
    bad = ~(np.abs(vertices) <= FARTHEST).all(axis=1)
    if bad.any():
        raise MeshError(f"{vertex(int(np.argmax(bad)))}: a coordinate is not a usable number")
    if len(vertices) > np.iinfo(np.int32).max:
        raise MeshError(f"{len(vertices)} vertices are too many")
    starts = np.cumsum(sizes) - sizes
    wrong = (faces < 0) | (faces >= len(vertices))
    if wrong.any():
        at = int(np.argmax(wrong))
        number = int(np.searchsorted(starts, at, side="right")) - 1
        raise MeshError(
            f"{face(number)}: vertex {faces[at]} (counted from 0) does not exist, there are "
            f"{len(vertices)}"
        )
    return vertices, _fan(faces, starts, sizes).astype(np.int32)


def _fan(faces: Ints, starts: Ints, sizes: Ints) -> Ints:
    """Triangles of polygons, all from the first corner."""
    parts = np.maximum(sizes - 2, 0)
    first = np.repeat(starts, parts)
    step = np.arange(int(parts.sum())) - np.repeat(np.cumsum(parts) - parts, parts)
    return np.stack([faces[first], faces[first + step + 1], faces[first + step + 2]], axis=1)


def _whole(values: Floats, face: Where, sizes: Ints | None = None) -> Ints:
    """Floats as whole numbers; the face at fault is named."""
    bad = ~(np.abs(values) < 2.0**53) | (values != np.floor(values))
    if bad.any():
        at = int(np.argmax(bad))
        number = at if sizes is None else int(np.searchsorted(np.cumsum(sizes), at, side="right"))
        raise MeshError(f"{face(number)}: {values[at]:g} is not a whole number")
    return values.astype(np.int64)


def _line(text: bytes, offset: int) -> int:
    return text.count(b"\n", 0, offset) + 1


def _chunks(text: bytes) -> Iterator[tuple[int, int]]:
    """Ranges of about _CHUNK bytes that end with a line."""
    start = 0
    while start < len(text):
        end = text.find(b"\n", start + _CHUNK) + 1 or len(text)
        yield start, end
        start = end


def _numbers(text: bytes, first_line: int = 1) -> Floats:
    """All numbers of a text, in a row."""
    parts = [np.zeros(0)]
    for start, end in _chunks(text):
        tokens = text[start:end].split()
        try:
            parts.append(np.fromiter(map(float, tokens), np.float64, len(tokens)))
        except ValueError:
            for number, line in enumerate(text[start:end].split(b"\n")):
                for token in line.split():
                    if not _is_number(token):
                        at = first_line - 1 + _line(text, start) + number
                        raise MeshError(f"line {at}: {_show(token)} is not a number") from None
            raise MeshError("holds something that is not a number") from None
    return np.concatenate(parts)


def _is_number(token: bytes) -> bool:
    try:
        float(token)
    except ValueError:
        return False
    return True


def _show(token: bytes) -> str:
    return repr(token[:40].decode("ascii", "replace"))


def _tokens_per_line(text: bytes) -> Ints:
    """How many tokens each line has, blank lines included."""
    if not text:
        return np.zeros(1, np.int64)
    characters = np.frombuffer(text, np.uint8)
    begins = ~_WHITE[characters]
    begins[1:] &= _WHITE[characters[:-1]]
    before = np.searchsorted(np.flatnonzero(begins), np.flatnonzero(characters == 10))
    return np.diff(before, prepend=0, append=np.count_nonzero(begins))


# --- OBJ ------------------------------------------------------------------------------------------

_OBJ_VERTEX = re.compile(rb"^[ \t]*v[ \t]([^\n]*)", re.MULTILINE)
_OBJ_FACE = re.compile(rb"^[ \t]*f[ \t]([^\n]*)", re.MULTILINE)
_OBJ_UV = re.compile(rb"^[ \t]*vt[ \t]([^\n]*)", re.MULTILINE)
_OBJ_CORNER = re.compile(rb"[^\s/]+/([^\s/]+)(?:/[^\s/]*)?(?=\s|$)")  # 7/2/5: 2 is the uv


def _obj_text(data: bytes) -> bytes:
    """Without comments, lines joined that belong together."""
    if b"\n" not in data:
        data = data.replace(b"\r", b"\n")
    return re.sub(rb"#[^\n]*", b"", re.sub(rb"\\\r?\n", b"  ", data))


def _read_obj(data: bytes) -> Arrays:
    text = _obj_text(data)

    def vertex(number: int) -> str:
        return _nth_line(text, _OBJ_VERTEX, number)

    def face(number: int) -> str:
        return _nth_line(text, _OBJ_FACE, number)

    values, counts = _table(_OBJ_VERTEX.findall(text), vertex)
    if (counts < 3).any():
        raise MeshError(f"{vertex(int(np.argmax(counts < 3)))}: a vertex has three coordinates")
    starts = np.cumsum(counts) - counts
    vertices = values[starts[:, None] + np.arange(3)]
    # Of 7/2/5 only the position, 7, is wanted.
    values, sizes = _table(_OBJ_FACE.findall(text), face, drop=rb"/\S*")
    if (sizes < 3).any():
        raise MeshError(f"{face(int(np.argmax(sizes < 3)))}: a face has three corners or more")
    return _mesh(vertices, _obj_indices(text, values, sizes, face), sizes, vertex, face)


def _table(lines: list[bytes], where: Where, drop: bytes = b"") -> tuple[Floats, Ints]:
    """Numbers of some lines in a row, and how many each line has. What matches `drop` goes."""
    if not lines:
        return np.zeros(0), np.zeros(0, np.int64)
    text = b"\n".join(lines)
    text = re.sub(drop, b"", text) if drop else text
    try:
        return _numbers(text), _tokens_per_line(text)
    except MeshError:
        for number, line in enumerate(text.split(b"\n")):
            for token in line.split():
                if not _is_number(token):
                    raise MeshError(f"{where(number)}: {_show(token)} is not a number") from None
        raise


def obj_uvs(data: bytes) -> Floats | None:
    """Texture coordinates (triangles, 3, 2) of an OBJ file that _read_obj takes; None without."""
    text = _obj_text(data)

    def face(number: int) -> str:
        return _nth_line(text, _OBJ_FACE, number)

    places, counts = _table(_OBJ_UV.findall(text), lambda n: _nth_line(text, _OBJ_UV, n))
    faces = b"\n".join(_OBJ_FACE.findall(text))
    _, corners = _table(faces.split(b"\n"), face, drop=rb"/\S*")
    faces, found = _OBJ_CORNER.subn(rb"\1", faces)
    if not len(counts) or (counts < 2).any() or found != corners.sum():
        return None  # some corner has none
    values, sizes = _table(faces.split(b"\n"), face)
    uv = places[(np.cumsum(counts) - counts)[:, None] + np.arange(2)]
    numbers = _obj_indices(text, values, sizes, face, _OBJ_UV)
    if ((numbers < 0) | (numbers >= len(uv))).any() or not (np.abs(uv) <= FARTHEST).all():
        raise MeshError("a face names a texture coordinate (vt) that does not exist")
    return uv[_fan(numbers, np.cumsum(sizes) - sizes, sizes)]


def _obj_indices(
    text: bytes,
    values: Floats,
    sizes: Ints,
    face: Where,
    counted: re.Pattern[bytes] = _OBJ_VERTEX,
) -> Ints:
    """Vertex numbers from 0. Negative ones count back from the last vertex above the face."""
    numbers = _whole(values, face, sizes)
    result = numbers - 1
    if (numbers < 0).any():
        above = np.array([m.start() for m in counted.finditer(text)], np.int64)
        begins = np.array([m.start() for m in _OBJ_FACE.finditer(text)], np.int64)
        known = np.repeat(np.searchsorted(above, begins), sizes)
        result = np.where(numbers < 0, known + numbers, result)
    return result


def _nth_line(text: bytes, pattern: re.Pattern[bytes], number: int) -> str:
    for found, match in enumerate(pattern.finditer(text)):
        if found == number:
            return f"line {_line(text, match.start())}"
    return "somewhere"


# --- OFF ------------------------------------------------------------------------------------------

_OFF_HEADER = re.compile(rb"\s*(ST)?C?N?(4)?(n)?OFF(?![A-Za-z])([ \t]+BINARY)?")


def _read_off(data: bytes) -> Arrays:
    text = re.sub(rb"#[^\n]*", b"", data)
    header = _OFF_HEADER.match(text)
    if header and (header[2] or header[3] or header[4]):
        raise MeshError("line 1: only text files of three dimensions are read; save as plain OFF")
    begin = header.end() if header else 0
    first_line = _line(text, begin)
    values = _numbers(text[begin:], first_line)
    per_line = _tokens_per_line(text[begin:])
    lines = np.flatnonzero(per_line)
    counts = per_line[lines]
    starts = np.cumsum(counts) - counts

    def line(row: int) -> str:
        return f"line {first_line + int(lines[row])}"

    if not len(lines) or counts[0] < 2:
        raise MeshError("numbers of vertices and faces are missing")
    n_vertices, n_faces = (int(n) for n in _whole(values[:2], lambda _: line(0)))
    if n_vertices < 0 or n_faces < 0 or n_vertices + n_faces > len(lines) - 1:
        raise MeshError(
            f"{line(0)}: declares {n_vertices} vertices and {n_faces} faces, but "
            f"{len(lines) - 1} lines follow"
        )
    at_vertex, at_face = starts[1 : 1 + n_vertices], starts[1 + n_vertices :][:n_faces]
    short = counts[1 : 1 + n_vertices] < 3
    if short.any():
        raise MeshError(f"{line(1 + int(np.argmax(short)))}: a vertex has three coordinates")

    def face(number: int) -> str:
        return line(1 + n_vertices + number)

    sizes = _whole(values[at_face], face)
    wrong = (sizes < 1) | (sizes >= counts[1 + n_vertices :][:n_faces])
    if wrong.any():
        raise MeshError(f"{face(int(np.argmax(wrong)))}: the face lacks corners")
    corners = np.repeat(at_face + 1 - (np.cumsum(sizes) - sizes), sizes) + np.arange(sizes.sum())
    faces = _whole(values[corners], face, sizes)
    vertices = values[at_vertex[:, None] + np.arange(3)]
    return _mesh(vertices, faces, sizes, lambda number: line(1 + number), face)


# --- STL ------------------------------------------------------------------------------------------

_STL_VERTEX = re.compile(rb"\bvertex[ \t]([^\n]*)", re.IGNORECASE)
_STL_TRIANGLE = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("tag", "<u2")])
_STL_HEADER = 84


def _read_stl(data: bytes) -> Arrays:
    count = int.from_bytes(data[80:_STL_HEADER], "little") if len(data) >= _STL_HEADER else -1
    wanted = _STL_HEADER + 50 * count
    says_text = data[:512].lstrip()[:5].lower() == b"solid"
    # Many binary files begin with "solid": the size decides, then the word "facet".
    if count >= 0 and len(data) == wanted:
        return _stl_binary(data, count)
    if says_text and (b"facet" in data[:4096].lower() or wanted > len(data) or count < 0):
        return _stl_text(data)
    if count < 0 or wanted > len(data):
        raise MeshError(
            f"byte 80: declares {max(count, 0)} triangles, which take {max(wanted, 0)} bytes; the "
            f"file has {len(data)}"
        )
    return _stl_binary(data, count)


def _stl_binary(data: bytes, count: int) -> Arrays:
    table = np.frombuffer(data, _STL_TRIANGLE, count, _STL_HEADER)
    return _stl_mesh(
        table["corners"].reshape(-1, 3).astype(np.float64),
        lambda corner: f"byte {_STL_HEADER + 50 * (corner // 3)}",
    )


def _stl_text(data: bytes) -> Arrays:
    if b"\n" not in data:
        data = data.replace(b"\r", b"\n")

    def where(number: int) -> str:
        return _nth_line(data, _STL_VERTEX, number)

    values, counts = _table(_STL_VERTEX.findall(data), where)
    if (counts != 3).any():
        raise MeshError(f"{where(int(np.argmax(counts != 3)))}: a vertex has three coordinates")
    loops = len(re.findall(rb"\bendloop\b", data, re.IGNORECASE))
    if len(counts) != 3 * loops:
        raise MeshError(f"{len(counts)} vertices in {loops} facets; each facet has three")
    return _stl_mesh(values.reshape(-1, 3), where)


def _stl_mesh(corners: Floats, where: Where) -> Arrays:
    """STL repeats each vertex in each triangle: weld them."""
    sizes = np.full(len(corners) // 3, 3)
    corners, triangles = _mesh(corners, np.arange(len(corners)), sizes, where, where)
    vertices, numbers = weld(corners)
    return vertices, numbers[triangles].astype(np.int32)


# --- PLY ------------------------------------------------------------------------------------------

_PLY_TYPES = {
    "char": "i1", "uchar": "u1", "short": "i2", "ushort": "u2", "int": "i4", "uint": "u4",
    "float": "f4", "double": "f8", "int8": "i1", "uint8": "u1", "int16": "i2", "uint16": "u2",
    "int32": "i4", "uint32": "u4", "float32": "f4", "float64": "f8", "int64": "i8", "uint64": "u8",
}  # fmt: skip
_PLY_HEADER = 1 << 20  # bytes a header may have
_LONG_LIST = 64  # items; longer lists are read one by one rather than column by column


@dataclass(frozen=True)
class _Property:
    name: str
    type: str
    counter: str | None  # type of a list's length; None: not a list


@dataclass(frozen=True)
class _Element:
    name: str
    count: int
    properties: list[_Property]


@dataclass(frozen=True)
class _Body:
    """Values behind a PLY header. Text: places are token numbers; binary: bytes."""

    values: Floats | None  # text
    data: bytes
    order: str  # byte order

    @property
    def end(self) -> int:
        return len(self.data) if self.values is None else len(self.values)

    def size(self, kind: str) -> int:
        return np.dtype(kind).itemsize if self.values is None else 1

    def column(self, start: int, stride: int, count: int, kind: str) -> Floats:
        """count values, stride apart; they must lie inside."""
        if self.values is not None:
            return self.values[start : start + stride * (count - 1) + 1 : stride][:count]
        kind = self.order + kind
        return np.ndarray((count,), kind, self.data, start, (stride,)).astype(np.float64)

    def where(self, place: int) -> str:
        return f"byte {place}" if self.values is None else f"number {place} behind the header"


def _read_ply(data: bytes) -> Arrays:
    elements, layout, begin = _ply_header(data)
    if layout == "ascii":
        body = _Body(_numbers(data[begin:], _line(data, begin)), b"", "")
        place = 0
    else:
        body = _Body(None, data, "<" if layout == "binary_little_endian" else ">")
        place = begin
    vertices: Floats | None = None
    faces: tuple[Floats, Ints] | None = None
    for element in elements:
        columns, lists, place = _ply_element(body, element, place)
        if element.name == "vertex":
            if not {"x", "y", "z"} <= columns.keys():
                raise MeshError("header: vertices have no x, y and z")
            vertices = np.stack([columns[axis] for axis in "xyz"], axis=1)
        elif element.name == "face":
            faces = lists.get("vertex_indices") or lists.get("vertex_index")
        if vertices is not None and faces is not None:
            break
    if vertices is None or faces is None:
        raise MeshError("header: there are no vertices, or no faces with vertex_indices")

    def face(number: int) -> str:
        return f"face {number}"

    sizes = faces[1]
    return _mesh(vertices, _whole(faces[0], face, sizes), sizes, lambda n: f"vertex {n}", face)


def ply_values(data: bytes) -> dict[str, Floats]:
    """All numbers of the vertices of a PLY file, by name."""
    elements, layout, place = _ply_header(data)
    body = _Body(None, data, ">" if layout == "binary_big_endian" else "<")
    if layout == "ascii":
        body, place = _Body(_numbers(data[place:], _line(data, place)), b"", ""), 0
    for element in elements:
        columns, _, place = _ply_element(body, element, place)
        if element.name == "vertex":
            return columns
    raise MeshError("header: there are no vertices")


def _ply_header(data: bytes) -> tuple[list[_Element], str, int]:
    """Elements, layout, and where the body begins."""
    end = re.search(rb"^end_header[ \t]*(\r\n|\n|\r)", data[:_PLY_HEADER], re.MULTILINE)
    if not data.startswith(b"ply") or end is None:
        raise MeshError("is no PLY file: it begins with 'ply' and has a line 'end_header'")
    layout = ""
    elements: list[_Element] = []
    lines = data[: end.start()].decode("latin-1").replace("\r\n", "\n").replace("\r", "\n")
    for number, line in enumerate(lines.split("\n"), 1):
        words = line.split()
        match words:
            case ["format", ("ascii" | "binary_little_endian" | "binary_big_endian") as kind, _]:
                layout = kind
            case ["element", name, count] if re.fullmatch("[0-9]{1,18}", count):
                if int(count) > len(data):
                    raise MeshError(f"line {number}: declares more than the file can hold: {count}")
                elements.append(_Element(name, int(count), []))
            case ["property", "list", counter, kind, name] if elements:
                if _ply_type(counter, number)[0] == "f" or _ply_type(kind, number)[0] == "f":
                    raise MeshError(f"line {number}: a list needs whole numbers")
                item = _Property(name, _PLY_TYPES[kind], _PLY_TYPES[counter])
                elements[-1].properties.append(item)
            case ["property", kind, name] if elements:
                elements[-1].properties.append(_Property(name, _ply_type(kind, number), None))
            case [] | ["ply"] | ["comment" | "obj_info", *_]:
                pass
            case _:
                raise MeshError(f"line {number}: {_show(line.encode())} is not understood")
    if not layout:
        raise MeshError("header: the line 'format ascii 1.0' (or binary_...) is missing")
    return elements, layout, end.end()


def _ply_type(name: str, line: int) -> str:
    if name not in _PLY_TYPES:
        raise MeshError(f"line {line}: there is no type {_show(name.encode())}")
    return _PLY_TYPES[name]


Columns = dict[str, Floats]
Lists = dict[str, tuple[Floats, Ints]]  # values in a row, and how many each has


def _ply_element(body: _Body, element: _Element, place: int) -> tuple[Columns, Lists, int]:
    """Read one element that begins at `place`; also where the next one begins."""
    least = sum(body.size(p.counter or p.type) for p in element.properties)
    if least * element.count > body.end - place:
        raise MeshError(f"{element.count} times {element.name!r} do not fit the file")
    if not element.count or not least:
        empty = np.zeros(0)
        lists = {p.name: (empty, np.zeros(0, np.int64)) for p in element.properties if p.counter}
        return {p.name: empty for p in element.properties if not p.counter}, lists, place
    return _ply_even(body, element, place) or _ply_uneven(body, element, place)


def _ply_even(body: _Body, element: _Element, place: int) -> tuple[Columns, Lists, int] | None:
    """All lists as long as those of the first row, the usual case; else None."""
    fields = []  # property, offset in the row, length of the list
    stride = 0
    for p in element.properties:
        length = _ply_length(body, p, place + stride)
        fields.append((p, stride, length))
        stride += body.size(p.counter) + length * body.size(p.type) if p.counter else length
        if place + stride > body.end:
            raise MeshError(f"{body.where(place)}: the file ends within {element.name!r}")
    longest = max(length for _, _, length in fields)
    if stride * element.count > body.end - place or longest > _LONG_LIST:
        return None
    columns: Columns = {}
    lists: Lists = {}
    for p, offset, length in fields:
        start = place + offset
        if p.counter is None:
            columns[p.name] = body.column(start, stride, element.count, p.type)
            continue
        if (body.column(start, stride, element.count, p.counter) != length).any():
            return None
        items = [
            body.column(start + body.size(p.counter) + k * body.size(p.type), stride,
                        element.count, p.type)
            for k in range(length)
        ]  # fmt: skip
        values = np.stack(items, axis=1).ravel() if items else np.zeros(0)
        lists[p.name] = values, np.full(element.count, length)
    return columns, lists, place + stride * element.count


def _ply_length(body: _Body, p: _Property, place: int) -> int:
    """Items of a list at `place`; of a single value its size."""
    if p.counter is None:
        return body.size(p.type)
    if place + body.size(p.counter) > body.end:
        raise MeshError(f"{body.where(place)}: the file ends within a list")
    length = float(body.column(place, 1, 1, p.counter)[0])
    if not 0 <= length <= body.end or length != int(length):
        raise MeshError(f"{body.where(place)}: {length:g} is not the length of a list")
    return int(length)


def _ply_uneven(body: _Body, element: _Element, place: int) -> tuple[Columns, Lists, int]:
    """Row by row: lists of different lengths."""
    found: dict[str, list[Floats]] = {p.name: [] for p in element.properties}
    for _ in range(element.count):
        for p in element.properties:
            length = _ply_length(body, p, place) if p.counter else 1
            place += body.size(p.counter) if p.counter else 0
            if place + length * body.size(p.type) > body.end:
                raise MeshError(f"{body.where(place)}: the file ends within {element.name!r}")
            found[p.name].append(body.column(place, body.size(p.type), length, p.type))
            place += length * body.size(p.type)
    columns: Columns = {}
    lists: Lists = {}
    for p in element.properties:
        values = np.concatenate(found[p.name])
        if p.counter:
            lists[p.name] = values, np.array([len(part) for part in found[p.name]], np.int64)
        else:
            columns[p.name] = values
    return columns, lists, place


READERS: dict[str, Callable[[bytes], Arrays]] = {
    ".obj": _read_obj,
    ".stl": _read_stl,
    ".ply": _read_ply,
    ".off": _read_off,
}
