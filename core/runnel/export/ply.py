"""PLY: points with a property per number, binary, little-endian."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..cache import write_aside
from .frames import Frame, Shot

# Names other programs know.
_NAMES = {
    "position": ("x", "y", "z"),
    "velocity": ("vx", "vy", "vz"),
    "normal": ("nx", "ny", "nz"),
}
_TYPES = {
    "i1": "char", "u1": "uchar", "i2": "short", "u2": "ushort", "i4": "int", "u4": "uint",
    "f4": "float", "f8": "double",
}  # fmt: skip
_CHUNK = 1 << 16  # rows


class PlyWriter:
    """One file per frame."""

    suffix = ".ply"

    def __init__(self, shot: Shot) -> None:
        self.shot = shot

    def write(self, path: Path, frame: Frame) -> list[Path]:
        columns = _columns(frame)
        kind = np.dtype([(name, values.dtype.newbyteorder("<")) for name, values in columns])
        with write_aside(path) as file:
            file.write(self._header(frame, columns).encode("ascii"))
            for start in range(0, frame.count, _CHUNK):
                rows = np.empty(min(_CHUNK, frame.count - start), kind)
                for name, values in columns:
                    rows[name] = values[start : start + len(rows)]
                file.write(rows.tobytes())
        return [path]

    def _header(self, frame: Frame, columns: list[tuple[str, NDArray[Any]]]) -> str:
        lines = ["ply", "format binary_little_endian 1.0"]
        lines.append(f"comment frame {frame.number}, time {frame.time:.9g} s")
        lines.append(f"comment {self.shot.scale:g} units in a metre, {self.shot.up} is up")
        for number, fluid in enumerate(self.shot.fluids):
            lines.append(f"comment phase {number} is {ascii(fluid)[1:-1]}")
        lines.append(f"element vertex {frame.count}")
        for name, values in columns:
            lines.append(f"property {_TYPES[values.dtype.str[1:]]} {name}")
        return "\n".join([*lines, "end_header\n"])

    def finish(self, folder: Path, files: dict[int, Path]) -> list[Path]:
        return []


def _columns(frame: Frame) -> list[tuple[str, NDArray[Any]]]:
    """Position first, then the other channels, a column per number; names are unique."""
    columns: dict[str, NDArray[Any]] = {}
    for channel in sorted(frame.channels, key=lambda name: name != "position"):
        table = _fitting(frame.channels[channel])
        table = table[:, None] if table.ndim == 1 else table
        width = table.shape[1]
        names = (channel,) if width == 1 else tuple(f"{channel}_{k}" for k in range(width))
        if len(_NAMES.get(channel, ())) == width:
            names = _NAMES[channel]
        for name, values in zip(names, table.T, strict=True):
            while name in columns:
                name += "_"
            columns[name] = values
    return list(columns.items())


def _fitting(values: NDArray[Any]) -> NDArray[Any]:
    """Values in a type PLY has; 64-bit integers become 32-bit ones where they fit, else doubles."""
    kind = values.dtype
    if kind.kind == "b":
        return values.astype(np.uint8)
    if kind == np.float16:
        return values.astype(np.float32)
    if kind.kind in "iu" and kind.itemsize == 8:
        for smaller in (np.int32, np.uint32):
            limits = np.iinfo(smaller)
            if not values.size or (values.min() >= limits.min and values.max() <= limits.max):
                return values.astype(smaller)
        return values.astype(np.float64)
    return values
