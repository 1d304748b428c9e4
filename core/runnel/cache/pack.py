"""Packs: zip files of stored npy members, which plain numpy opens as npz; read without trust."""

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
from .files import write_aside

HEADER = "runnel.header"  # member with which a file tells its own story; no channel has a dot
HEADER_LIMIT = 1 << 26  # bytes
_NPY_HEADER_LIMIT = 4096  # bytes; numpy itself writes 128
# A compressed member may declare at most this much more than it occupies, so that a small hostile
# file cannot ask for all memory. Members that compress better than that are stored plainly.
_EXPANSION, _EXPANSION_FREE = 256, 1 << 26
_ARRAY_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,127}")

Array = NDArray[Any]
_npy: Any = np.lib.format  # its stubs have no types


class Damaged(Exception):
    """Something in a file is not as written; `explained` adds which file and what to do."""


def _npy_header(array: Array) -> bytes:
    out = io.BytesIO()
    _npy.write_array_header_1_0(out, _npy.header_data_from_array_1_0(array))
    return out.getvalue()


def _bytes_of(array: Array) -> NDArray[np.uint8]:
    return array.reshape(-1).view(np.uint8)


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


def _encode(path: Path, name: str, array: Array, compression: str) -> tuple[str, list[Any]]:
    """Member name and its bytes in pieces: npy, or zstd of npy whose data is split by byte planes.

    Putting the first bytes of all numbers together, then the second bytes, and so on, halves the
    size: exponents of neighbours are alike.
    """
    header, data = _npy_header(array), _bytes_of(array)
    if compression == "zstd" and array.size:
        planes = np.ascontiguousarray(data.reshape(-1, array.dtype.itemsize).T)
        packed = need_zstandard(path).ZstdCompressor(level=1).compress(header + planes.tobytes())
        if len(header) + data.nbytes <= _EXPANSION * len(packed) + _EXPANSION_FREE:
            return f"{name}.npy.zst", [packed]
    return f"{name}.npy", [header, data.data]


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
    with write_aside(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as pack:
        for name, array in ((HEADER, text), *arrays.items()):
            method = compression if name != HEADER else "none"
            member, pieces = _encode(path, name, array, method)
            # A fixed date: equal arrays make equal files.
            info = zipfile.ZipInfo(member, date_time=(1980, 1, 1, 0, 0, 0))
            size = sum(len(piece) for piece in pieces)
            with pack.open(info, "w", force_zip64=size > 1 << 30) as target:
                for piece in pieces:
                    target.write(piece)
            checksums[name] = info.CRC
        pack.close()
        size = file.tell()
    del checksums[HEADER]
    return size, checksums


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
            raw = self._member(f"{HEADER}.npy", None, HEADER_LIMIT)
            start, _, dtype = _parse_npy(raw)
            if dtype.kind != "S":
                raise Damaged("has a header that is no text")
            value = json.loads(raw[start:])
            if not isinstance(value, dict):
                raise Damaged("has a header that is no table")
            return value

    def checksum(self, name: str) -> int:
        """CRC-32 the zip lists for an array."""
        with explained(self.path):
            members = self._zip.NameToInfo
            info = members.get(f"{name}.npy.zst") or members[f"{name}.npy"]
            return info.CRC

    def array(self, name: str, layout: Layout, checksum: int | None = None) -> Array:
        """One array; sizes are compared before anything is allocated."""
        with explained(self.path):
            most = layout.nbytes + _NPY_HEADER_LIMIT
            if f"{name}.npy.zst" in self._zip.NameToInfo:
                packed = self._member(f"{name}.npy.zst", checksum, most)
                raw, shuffled = self._inflate(packed, most), layout.dtype.itemsize
            else:
                raw, shuffled = self._member(f"{name}.npy", checksum, most), 1
            start, shape, dtype = _parse_npy(raw)
            if (shape, dtype) != (layout.shape, layout.dtype):
                raise Damaged(
                    f"holds {name!r} as {dtype} {shape} instead of {layout.dtype} {layout.shape}"
                )
            if len(raw) - start != layout.nbytes:
                raise Damaged(f"holds {len(raw) - start} bytes of {name!r} for {layout.nbytes}")
            data = np.frombuffer(raw, np.uint8, offset=start)
            if shuffled > 1:
                data = data.reshape(shuffled, -1).T
            return data.flatten().view(dtype).reshape(shape)

    def _member(self, member: str, checksum: int | None, most: int) -> bytes:
        info = self._zip.NameToInfo.get(member)
        if info is None:
            raise Damaged(f"lacks {member!r}")
        if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
            raise Damaged(f"holds {member!r} in a form that was never written")
        if info.file_size > most:
            raise Damaged(f"declares {info.file_size} bytes for {member!r}, at most {most} belong")
        if checksum is not None and info.CRC != checksum:
            raise Damaged(f"holds another {member!r} than the manifest lists (checksum)")
        return self._zip.read(info)

    def _inflate(self, packed: bytes, most: int) -> bytes:
        zstandard = need_zstandard(self.path)
        try:
            size = zstandard.get_frame_parameters(packed).content_size
            if size > min(most, _EXPANSION * len(packed) + _EXPANSION_FREE):
                raise Damaged(f"declares {size} uncompressed bytes where at most {most} belong")
            return bytes(zstandard.ZstdDecompressor().decompress(packed, max_output_size=most))
        except zstandard.ZstdError as error:
            raise Damaged(f"does not decompress ({error})") from error


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
