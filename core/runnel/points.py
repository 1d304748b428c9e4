"""Points with attributes from files: particles that a source starts with or emits.

Names are Houdini's or ours: P, v, pscale, phase, age; id is kept as source_id, since ids are given
by the simulation. Everything else that is a number becomes a channel of the user's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from .errors import MeshError
from .mesh_formats import ply_values
from .params import CHANNEL, CHANNELS, MeshFile, PointFile

Array = NDArray[Any]

SUFFIXES: Final = (".bgeo", ".ply")
MAX_BYTES: Final = 16 * 2**30
MAX_WIDTH: Final = 16
_OURS = {"P": "position", "v": "velocity", "pscale": "radius", "id": "source_id"}
_WIDTHS = {"position": 3, "velocity": 3, "radius": 1, "phase": 1, "age": 1}
# What the simulation computes, or calls its own things.
_NOT_TAKEN = {*CHANNELS, "volume", "kernel_radius", "birth", "expiry"} - {*_WIDTHS}


@dataclass(frozen=True, eq=False)
class Points:
    """Points of a file. What the file does not have is None."""

    position: NDArray[np.float32]  # (n, 3) [m]
    velocity: NDArray[np.float32] | None = None  # (n, 3) [m/s]
    radius: NDArray[np.float32] | None = None  # (n,) [m]
    phase: NDArray[np.uint32] | None = None  # (n,) number of the fluid
    age: NDArray[np.float32] | None = None  # (n,) [s]
    channels: dict[str, Array] = field(default_factory=dict)  # (n,) or (n, width)

    def __len__(self) -> int:
        return len(self.position)


def read_points(path: Path) -> Points:
    """Points of a .bgeo or .ply file."""
    try:
        facts = path.stat()
    except OSError as error:
        raise MeshError(f"cannot be read: {error.strerror}", file=path) from None
    return _read(path, facts.st_mtime_ns, facts.st_size)


def file_at(shape: PointFile | MeshFile, folder: Path, frame: int) -> Path:
    """The file of a frame; there is but one unless it is a sequence."""
    file = re.sub(r"#+", lambda run: f"{frame:0{len(run[0])}d}", shape.file)
    return folder / file


def first_frame(shape: PointFile | MeshFile, pattern: Path) -> int:
    """Number of the first file of a sequence."""
    if shape.frames is not None:
        return shape.frames[0]
    start, end = re.split(r"#+", pattern.name, maxsplit=1)
    named = re.compile(rf"{re.escape(start)}(\d+){re.escape(end)}")
    found = (named.fullmatch(file.name) for file in pattern.parent.glob("*"))
    return min(int(match[1]) for match in found if match)


@lru_cache(maxsize=4)
def _read(path: Path, modified: int, size: int) -> Points:
    if size > MAX_BYTES:
        raise MeshError(f"has {size / 2**30:.0f} GB, too much for points", file=path)
    try:
        return _points(_columns(path))
    except MeshError as error:
        raise error.in_file(path) from None
    except OSError as error:
        raise MeshError(f"cannot be read: {error.strerror}", file=path) from None


def _columns(path: Path) -> Mapping[str, Array]:
    if path.suffix.lower() == ".bgeo":
        from .export.bgeo_read import read_bgeo

        geometry = read_bgeo(path)
        return geometry.points or {"P": np.zeros((0, 3), np.float32)}
    columns: dict[str, Array] = dict(ply_values(path.read_bytes()))
    for name, axes in (("P", ("x", "y", "z")), ("v", ("vx", "vy", "vz"))):
        if set(axes) <= columns.keys():
            columns[name] = np.stack([columns.pop(axis) for axis in axes], axis=1)
    if "phase" in columns and (columns["phase"] % 1 == 0).all():  # PLY's numbers come as fractions
        columns["phase"] = columns["phase"].astype(np.int64)
    return columns


def _points(columns: Mapping[str, Array]) -> Points:
    known: dict[str, Any] = {}
    channels: dict[str, Array] = {}
    for given, values in columns.items():
        name = _OURS.get(given, given)
        width = 1 if values.ndim == 1 else values.shape[1]
        if values.dtype.kind not in "iuf":
            continue
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            raise MeshError(f"{given!r} holds something that is not a finite number")
        if name in _WIDTHS:
            if width != _WIDTHS[name]:
                raise MeshError(f"{given!r} has {width} numbers a point, {_WIDTHS[name]} are known")
            known[name] = _phase(values) if name == "phase" else values.astype(np.float32)
        elif name not in _NOT_TAKEN and re.fullmatch(CHANNEL, name) and width <= MAX_WIDTH:
            channels[name] = values.astype(np.float32 if values.dtype.kind == "f" else np.int64)
    if "position" not in known:
        raise MeshError("holds no positions (P, or x, y and z)")
    radius = known.get("radius")
    if radius is not None and not (radius > 0).all():
        raise MeshError("a point has no size: pscale must be above 0")
    return Points(**known, channels=channels)


def _phase(values: Array) -> NDArray[np.uint32]:
    if values.dtype.kind not in "iu" or (values.size and int(values.min()) < 0):
        raise MeshError("phase must be whole numbers from 0: the number of the fluid in the scene")
    if values.size and int(values.max()) >= 1 << 32:
        raise MeshError("phase is far too large")
    return values.astype(np.uint32)
