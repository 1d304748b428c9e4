"""Surfaces that `runnel mesh` left beside a cache, read to go along with the particles."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..cache import Cache
from ..errors import MeshError, RunnelError
from ..mesh_formats import READERS, ply_values
from ..meshes import MAX_BYTES
from ..surface import PLY_NAMES, Mesh, origin

_ORIGIN = re.compile(rb"runnel frame -?\d+ positions [0-9a-f]{8}")
_PART = re.compile(r"(.+)_(\d+)")  # of a channel with several numbers
_BYTES = re.compile(rb"^property[ \t]+(uchar|uint8)[ \t]+red\s", re.MULTILINE)


def find_surfaces(cache: Cache, number: int) -> dict[str, Mesh]:
    """Surfaces of a frame by name: "surface", or "surface_water" and so on."""
    folder = cache.directory / "mesh"
    found: dict[str, Mesh] = {}
    for suffix in (".ply", ".obj"):  # PLY has the velocities
        for path in sorted(folder.glob(f"surface*_{number:06d}{suffix}")):
            name = path.stem[: -len(f"_{number:06d}")]
            if name not in found:
                _check_origin(path, cache, number)
                found[name] = read_surface(path)
    if not found:
        raise RunnelError(
            f"{folder}: holds no surface of frame {number}. Make it first with: "
            f"runnel mesh {cache.directory}"
        )
    return found


def _check_origin(path: Path, cache: Cache, number: int) -> None:
    """Refuse a surface of particles that the cache no longer has."""
    with suppress(OSError), open(path, "rb") as file:
        said = _ORIGIN.search(file.read(200).split(b"end_header")[0])
        if said and said[0].decode() != origin(cache, number):
            raise RunnelError(
                f"{path}: is of another simulation than frame {number} is now. Make it anew with: "
                f"runnel mesh {cache.directory}"
            )


def read_surface(path: Path) -> Mesh:
    """A mesh with what its vertices carry."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise MeshError(f"more than {MAX_BYTES} bytes are not read", file=path)
        data = path.read_bytes()
    except OSError as error:
        raise MeshError(f"cannot be read: {error.strerror or error}", file=path) from None
    try:
        vertices, triangles = READERS[path.suffix](data)
        values = _ply_attributes(data) if path.suffix == ".ply" else {}
    except MeshError as error:
        raise error.in_file(path) from None
    return Mesh(vertices.astype(np.float32), triangles, values)


def _ply_attributes(data: bytes) -> dict[str, NDArray[np.float32]]:
    """Columns put together again: vx, vy, vz to velocity; heat_0, heat_1 to heat."""
    columns = ply_values(data)
    rest = {name: values for name, values in columns.items() if name not in ("x", "y", "z")}
    known = dict(PLY_NAMES)
    if _BYTES.search(data, 0, data.index(b"end_header")):
        rest |= {name: rest[name] / 255 for name in known["color"] if name in rest}
    else:  # three channels of the user's; older files have a colour as color_0, color_1, color_2
        del known["color"]
    found: dict[str, list[NDArray[Any]]] = {}
    for name, parts in known.items():
        if all(part in rest for part in parts):
            found[name] = [rest.pop(part) for part in parts]
    for name, values in rest.items():
        match = _PART.fullmatch(name)
        base = match[1] if match and f"{match[1]}_0" in rest else name
        found.setdefault(base, []).append(values)
    return {
        name: np.stack(values, axis=1).astype(np.float32).squeeze(axis=1)
        if len(values) == 1
        else np.stack(values, axis=1).astype(np.float32)
        for name, values in found.items()
    }
