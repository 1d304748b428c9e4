"""Images of numbers, written without other libraries: PNG of 16 bits, OpenEXR of 32-bit floats.

Files are written aside, flushed and renamed.
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .cache.files import write_aside

Singles = NDArray[np.float32]


def write_png(path: Path, pixels: NDArray[np.uint16]) -> None:
    """Red, green, blue (rows, columns, 3), the first row at the top."""
    rows, columns, _ = pixels.shape
    lines = np.zeros((rows, 1 + 6 * columns), np.uint8)  # a line begins with its filter: none
    lines[:, 1:] = np.ascontiguousarray(pixels, ">u2").view(np.uint8).reshape(rows, -1)
    header = struct.pack(">IIBBBBB", columns, rows, 16, 2, 0, 0, 0)
    parts = [
        _chunk(b"IHDR", header),
        _chunk(b"IDAT", zlib.compress(lines.tobytes(), 6)),
        _chunk(b"IEND", b""),
    ]
    _replace(path, b"\x89PNG\r\n\x1a\n" + b"".join(parts))


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def write_exr(path: Path, pixels: Singles) -> None:
    """Red, green, blue (rows, columns, 3) as OpenEXR: scan lines, each deflated (ZIPS)."""
    rows, columns, _ = pixels.shape
    channels = b"".join(
        name + b"\0" + struct.pack("<iB3xii", 2, 0, 1, 1)  # 2: float
        for name in (b"B", b"G", b"R")
    )
    window = struct.pack("<4i", 0, 0, columns - 1, rows - 1)
    attributes = (
        (b"channels", b"chlist", channels + b"\0"),
        (b"compression", b"compression", b"\x02"),
        (b"dataWindow", b"box2i", window),
        (b"displayWindow", b"box2i", window),
        (b"lineOrder", b"lineOrder", b"\0"),
        (b"pixelAspectRatio", b"float", struct.pack("<f", 1.0)),
        (b"screenWindowCenter", b"v2f", struct.pack("<ff", 0.0, 0.0)),
        (b"screenWindowWidth", b"float", struct.pack("<f", 1.0)),
    )
    head = struct.pack("<ii", 20000630, 2)
    for name, kind, value in attributes:
        head += name + b"\0" + kind + b"\0" + struct.pack("<i", len(value)) + value
    head += b"\0"
    lines = [_exr_line(y, line) for y, line in enumerate(np.asarray(pixels, "<f4"))]
    starts = len(head) + 8 * rows + np.cumsum([0, *(len(line) for line in lines)])[:-1]
    _replace(path, head + starts.astype("<u8").tobytes() + b"".join(lines))


def _exr_line(y: int, line: Singles) -> bytes:
    """Bytes of one line: even ones before odd ones, differences, deflated if that is shorter."""
    raw = np.ascontiguousarray(line[:, ::-1].T).view(np.uint8).ravel()  # B, G, R in a row each
    halves = np.concatenate([raw[0::2], raw[1::2]]).astype(np.int16)
    steps = np.diff(halves, prepend=halves[:1]) + 128
    steps[0] = halves[0]
    packed = zlib.compress((steps & 255).astype(np.uint8).tobytes(), 4)
    data = packed if len(packed) < raw.size else raw.tobytes()
    return struct.pack("<ii", y, len(data)) + data


def _replace(path: Path, data: bytes) -> None:
    with write_aside(path) as file:
        file.write(data)
