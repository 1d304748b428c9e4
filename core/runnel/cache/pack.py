"""Packs: zip files of npy members, which plain numpy opens as npz; read without trust."""

from __future__ import annotations

import io
import json
import math
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import CacheError
from . import planes
from .files import write_aside

HEADER = "runnel.header"  # member with which a file tells its own story; no channel has a dot
HEADER_LIMIT = 1 << 26  # bytes
_NPY_HEADER_LIMIT = 4096  # bytes; numpy itself writes 128
# A compressed member may declare at most this many times what it occupies, and some bytes more, so
# that a small hostile file cannot ask for all memory. Deflate cannot do better than 1032; what zstd
# packs tighter than that is stored plainly.
_EXPANSION, _ZSTD_EXPANSION, _FREE = 1100, 256, 1 << 26
_ARRAY_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,127}")

Array = NDArray[Any]
_npy: Any = np.lib.format  # its stubs have no types


class Damaged(Exception):
    """Something in a file is not as written; `explained` adds which file and what to do."""


def _npy_header(array: Array) -> bytes:
    out = io.BytesIO()
    _npy.write_array_header_1_0(out, _npy.header_data_from_array_1_0(array))
    return out.getvalue()


def need_zstandard(path: Path) -> Any:
    """The zstandard package, or an error that says how to get it."""
    try:
        import zstandard
    except ImportError as error:
        raise CacheError(
            f"{path}: zstd compression needs a package that is not installed. "
            "Install it with: pip install 'runnel[zstd]'"
        ) from error
    return zstandard


def _pieces(name: str, array: Array, compression: str) -> Iterator[tuple[str, Array, bool]]:
    """Members that make up an array: name, content, and whether to compress it."""
    if compression == "none" or array.nbytes < planes.SMALLEST:
        yield name, array, False
        return
    for k, plane in enumerate(planes.split(array)):
        yield f"{name}.{k}", plane, planes.shrinks(plane)


def _add(pack: zipfile.ZipFile, member: str, array: Array, method: str, path: Path) -> int:
    """Write one npy; returns its CRC-32."""
    header, data = _npy_header(array), array.reshape(-1).view(np.uint8)
    pieces: list[Any] = [header, data.data]
    if method == "zstd":
        packed = need_zstandard(path).ZstdCompressor(level=1).compress(header + data.tobytes())
        if data.nbytes <= _ZSTD_EXPANSION * len(packed) + _FREE:
            pieces, member = [packed], member + ".zst"
    # A fixed date: equal arrays make equal files.
    info = zipfile.ZipInfo(member, date_time=(1980, 1, 1, 0, 0, 0))
    if method == "zlib":
        pack.writestr(info, b"".join(pieces), zipfile.ZIP_DEFLATED, compresslevel=1)
        return info.CRC
    size = sum(len(piece) for piece in pieces)
    with pack.open(info, "w", force_zip64=size > 1 << 30) as target:
        for piece in pieces:
            target.write(piece)
    return info.CRC


def write_pack(
    path: Path, header: Mapping[str, Any], arrays: Mapping[str, Array], compression: str
) -> tuple[int, dict[str, int]]:
    """Write arrays and a JSON header as one npz; returns its size [bytes] and CRC-32 per array."""
    for name in arrays:
        if not _ARRAY_NAME.fullmatch(name) or name == HEADER:
            raise CacheError(f"Array name {name!r}: allowed are letters, digits, _ and dots.")
    table = {
        name: {"dtype": array.dtype.name, "shape": list(array.shape)}
        for name, array in arrays.items()
    }
    text = np.array(json.dumps({**header, "arrays": table}, allow_nan=False).encode())
    checksums = {}
    with write_aside(path) as file, zipfile.ZipFile(file, "w") as pack:
        _add(pack, f"{HEADER}.npy", text, "none", path)
        for name, array in arrays.items():
            checksums[name] = _combined(
                [
                    _add(pack, f"{piece}.npy", content, compression if packed else "none", path)
                    for piece, content, packed in _pieces(name, array, compression)
                ]
            )
        pack.close()
        size = file.tell()
    return size, checksums


def _combined(checksums: list[int]) -> int:
    """CRC-32 of an array in one member, or of those of its members."""
    if len(checksums) == 1:
        return checksums[0]
    return zlib.crc32(struct.pack(f"<{len(checksums)}I", *checksums))


@dataclass(frozen=True)
class Layout:
    """What an array on disk must be."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


class Pack:
    """Reader of one npz that trusts nothing in it."""

    def __init__(self, path: Path, expected_bytes: int | None = None) -> None:
        self.path = path
        with explained(path):
            self._file = open(path, "rb")
            try:
                size = os.fstat(self._file.fileno()).st_size
                if expected_bytes is not None and size != expected_bytes:
                    raise Damaged(f"has {size} bytes instead of {expected_bytes}")
                self._zip = zipfile.ZipFile(self._file)
            except BaseException:
                self._file.close()
                raise

    def __enter__(self) -> Pack:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()
        self._file.close()

    def header(self) -> dict[str, Any]:
        """The JSON the file carries about itself."""
        with explained(self.path):
            info = self._zip.NameToInfo.get(f"{HEADER}.npy")
            if info is None:
                raise Damaged("lacks a header")
            raw = self._read(info, HEADER_LIMIT)
            start, _, dtype = _parse_npy(raw)
            if dtype.kind != "S":
                raise Damaged("has a header that is no text")
            value = json.loads(raw[start:])
            if not isinstance(value, dict):
                raise Damaged("has a header that is no table")
            return value

    def checksum(self, name: str, dtype: np.dtype[Any]) -> int:
        """CRC-32 that stands for an array, from what the zip lists."""
        with explained(self.path):
            return _combined([info.CRC for info in self._infos(name, dtype)])

    def array(self, name: str, layout: Layout, checksum: int | None = None) -> Array:
        """One array; sizes are compared before anything is allocated."""
        with explained(self.path):
            infos = self._infos(name, layout.dtype)
            if checksum is not None and _combined([info.CRC for info in infos]) != checksum:
                raise Damaged(f"holds another {name!r} than the manifest lists (checksum)")
            if infos[0].filename == f"{name}.npy":
                return (
                    self._npy(infos[0], layout).flatten().view(layout.dtype).reshape(layout.shape)
                )
            if infos[0].filename == f"{name}.npy.zst":  # as it was up to version 0.1
                split = self._npy(infos[0], layout).reshape(layout.dtype.itemsize, -1).T
                return split.flatten().view(layout.dtype).reshape(layout.shape)
            for info in infos:
                _check_size(info, math.prod(layout.shape) + _NPY_HEADER_LIMIT)
            found = planes.empty(layout.shape, layout.dtype)
            plane = Layout(np.dtype(np.uint8), layout.shape)
            for k, info in enumerate(infos):
                found[..., k] = self._npy(info, plane).reshape(layout.shape)
            return planes.join(found, layout.dtype)

    def _infos(self, name: str, dtype: np.dtype[Any]) -> list[zipfile.ZipInfo]:
        """The members that an array is made of: one, or one for each byte of its numbers."""
        members = self._zip.NameToInfo
        for member in (f"{name}.npy", f"{name}.npy.zst"):
            if member in members:
                return [members[member]]
        found = [
            members.get(f"{name}.{k}.npy") or members.get(f"{name}.{k}.npy.zst")
            for k in range(dtype.itemsize)
        ]
        whole = [info for info in found if info is not None]
        if len(whole) < len(found):
            raise Damaged(f"lacks {name!r}")
        return whole

    def _npy(self, info: zipfile.ZipInfo, layout: Layout) -> NDArray[np.uint8]:
        """Bytes of an array that must have this layout."""
        most = layout.nbytes + _NPY_HEADER_LIMIT
        raw = self._read(info, most)
        if info.filename.endswith(".zst"):
            raw = self._inflate(raw, most)
        start, shape, dtype = _parse_npy(raw)
        if (shape, dtype) != (layout.shape, layout.dtype):
            raise Damaged(
                f"holds {info.filename!r} as {dtype} {shape} instead of {layout.dtype} "
                f"{layout.shape}"
            )
        if len(raw) - start != layout.nbytes:
            raise Damaged(
                f"holds {len(raw) - start} bytes of {info.filename!r}, not {layout.nbytes}"
            )
        return np.frombuffer(raw, np.uint8, offset=start)

    def _read(self, info: zipfile.ZipInfo, most: int) -> bytes:
        _check_size(info, most)
        with self._zip.open(info) as file:
            raw = file.read(info.file_size)  # no more, whatever the stream holds
        if len(raw) != info.file_size:
            raise Damaged(f"holds {len(raw)} bytes of {info.filename!r} for {info.file_size}")
        return raw

    def _inflate(self, packed: bytes, most: int) -> bytes:
        zstandard = need_zstandard(self.path)
        try:
            size = zstandard.get_frame_parameters(packed).content_size
            if size > min(most, _ZSTD_EXPANSION * len(packed) + _FREE):
                raise Damaged(f"declares {size} uncompressed bytes where at most {most} belong")
            return bytes(zstandard.ZstdDecompressor().decompress(packed, max_output_size=most))
        except zstandard.ZstdError as error:
            raise Damaged(f"does not decompress ({error})") from error


def _check_size(info: zipfile.ZipInfo, most: int) -> None:
    """Nothing is read that declares more than belongs there, or expands absurdly."""
    stored = info.compress_type == zipfile.ZIP_STORED
    if not (stored or info.compress_type == zipfile.ZIP_DEFLATED):
        raise Damaged(f"holds {info.filename!r} in a form that was never written")
    if stored and info.file_size != info.compress_size:
        raise Damaged(f"holds {info.filename!r} in a form that was never written")
    if info.file_size > min(most, _EXPANSION * info.compress_size + _FREE):
        raise Damaged(
            f"declares {info.file_size} bytes for {info.filename!r}, at most {most} belong"
        )


def _parse_npy(raw: bytes) -> tuple[int, tuple[int, ...], np.dtype[Any]]:
    """Offset of the data, shape and dtype; no pickles."""
    stream = io.BytesIO(raw[:_NPY_HEADER_LIMIT])
    if _npy.read_magic(stream) != (1, 0):
        raise Damaged("holds an array in another npy version")
    shape, fortran, dtype = _npy.read_array_header_1_0(stream)
    if fortran and len(shape) > 1:
        raise Damaged("holds an array in another memory order")
    return stream.tell(), shape, dtype


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn whatever broken bytes provoke into one error that names the file and the way out."""
    try:
        yield
    except FileNotFoundError as error:
        raise CacheError(
            f"{path}: is missing. Simulate it again with --resume, or restore it from a copy."
        ) from error
    except (
        Damaged,
        zipfile.BadZipFile,
        OSError,
        ValueError,
        LookupError,
        EOFError,
        RuntimeError,  # zipfile: encrypted member; json: nested too deeply
        SyntaxError,
        TypeError,
        MemoryError,
        OverflowError,
        struct.error,
        zlib.error,
    ) as error:
        reason = str(error) or type(error).__name__
        raise CacheError(
            f"{path}: damaged, or not written by Runnel: {reason}. Delete it and simulate again "
            "with --resume, or restore it from a copy."
        ) from error
