"""Binary JSON as Houdini's geometry files use it.

A value is a byte that tells its kind, and what belongs to it. Texts are told once and get a number
(DEFINE), later mentions give the number (REFER). Arrays of one kind of number are one block.
Reading trusts nothing: every length is held against the bytes that are left before it is used.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from ..errors import MeshError

MAGIC = b"\x7fNSJb"

NULL, ARRAY, ARRAY_END, MAP, MAP_END = 0x00, 0x5B, 0x5D, 0x7B, 0x7D
BOOL, FALSE, TRUE, UNIFORM = 0x10, 0x30, 0x31, 0x40
TEXT, DEFINE, REFER, FORGET = 0x27, 0x2B, 0x26, 0x2D
COMMA, COLON = 0x2C, 0x3A  # allowed between values, without meaning

NUMBERS: dict[int, np.dtype[Any]] = {
    0x11: np.dtype("<i1"), 0x12: np.dtype("<i2"), 0x13: np.dtype("<i4"), 0x14: np.dtype("<i8"),
    0x18: np.dtype("<f2"), 0x19: np.dtype("<f4"), 0x1A: np.dtype("<f8"),
    0x21: np.dtype("<u1"), 0x22: np.dtype("<u2"),
}  # fmt: skip
_KINDS = {dtype: kind for kind, dtype in NUMBERS.items()}
_LETTERS = {
    "i1": "b",
    "i2": "h",
    "i4": "i",
    "i8": "q",
    "f2": "e",
    "f4": "f",
    "f8": "d",
    "u1": "B",
    "u2": "H",
}
_FORMATS = {kind: struct.Struct("<" + _LETTERS[dtype.str[1:]]) for kind, dtype in NUMBERS.items()}
_DEPTH = 64  # of arrays in arrays; real files have about 8


class Encoder:
    """Writes values to a file."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._texts: dict[str, int] = {}
        file.write(MAGIC)

    def write(self, value: Any) -> None:
        """Lists, maps, texts, numbers, and arrays (one row of numbers)."""
        if value is None:
            self._byte(NULL)
        elif isinstance(value, bool):
            self._byte(TRUE if value else FALSE)
        elif isinstance(value, str):
            self._text(value)
        elif isinstance(value, int):
            self._number(value)
        elif isinstance(value, float):
            self._file.write(b"\x1a" + struct.pack("<d", value))
        elif isinstance(value, np.ndarray):
            self._array(value)
        elif isinstance(value, Mapping):
            self._byte(MAP)
            for key, item in value.items():
                self._text(key)
                self.write(item)
            self._byte(MAP_END)
        elif isinstance(value, Sequence):
            self._byte(ARRAY)
            for item in value:
                self.write(item)
            self._byte(ARRAY_END)
        else:
            raise TypeError(f"{type(value).__name__} has no form in binary JSON")

    def _byte(self, kind: int) -> None:
        self._file.write(bytes((kind,)))

    def _length(self, value: int) -> bytes:
        if value < 0xF1:
            return bytes((value,))
        for mark, size in ((0xF2, 2), (0xF4, 4), (0xF8, 8)):
            if value < 1 << 8 * size:
                return bytes((mark,)) + value.to_bytes(size, "little")
        raise OverflowError(f"length {value}")

    def _text(self, value: str) -> None:
        number = self._texts.get(value)
        if number is None:
            number = self._texts[value] = len(self._texts)
            raw = value.encode()
            head = bytes((DEFINE,)) + self._length(number) + self._length(len(raw))
            self._file.write(head + raw)
        self._file.write(bytes((REFER,)) + self._length(number))

    def _number(self, value: int) -> None:
        for kind, size in ((0x11, 1), (0x12, 2), (0x13, 4), (0x14, 8)):
            if -(1 << 8 * size - 1) <= value < 1 << 8 * size - 1:
                raw = value.to_bytes(size, "little", signed=True)
                self._file.write(bytes((kind,)) + raw)
                return
        raise OverflowError(f"number {value}")

    def _array(self, values: NDArray[Any]) -> None:
        dtype = values.dtype.newbyteorder("<")
        self._file.write(bytes((UNIFORM, _KINDS[dtype])) + self._length(values.size))
        self._file.write(np.ascontiguousarray(values, dtype).data)


class Decoder:
    """Reads values from bytes; MeshError names the byte where something is wrong."""

    def __init__(self, data: bytes) -> None:
        if not data.startswith(MAGIC):
            raise MeshError("byte 0: is not binary JSON of Houdini (.bgeo of version 12 or later)")
        self._data = data
        self._at = len(MAGIC)
        self._texts: dict[int, str] = {}

    def document(self) -> Any:
        """The one value a file holds."""
        value = self._value(self._kind(), 0)
        if self._at != len(self._data):
            raise self._wrong("something follows the end of the geometry")
        return value

    def _wrong(self, what: str) -> MeshError:
        return MeshError(f"byte {self._at}: {what}")

    def _take(self, size: int) -> bytes:
        end = self._at + size
        if end > len(self._data):
            left = len(self._data) - self._at
            raise self._wrong(f"{size} bytes should follow, the file has {left} left; it is cut")
        raw = self._data[self._at : end]
        self._at = end
        return raw

    def _length(self) -> int:
        first = self._take(1)[0]
        if first < 0xF1:
            return first
        if first not in (0xF2, 0xF4, 0xF8):
            raise self._wrong(f"{first:#04x} is no length")
        return int.from_bytes(self._take(first & 0xF), "little")

    def _kind(self) -> int:
        """Kind of the next value; texts that are defined on the way are remembered."""
        while True:
            kind = self._take(1)[0]
            if kind == DEFINE:
                number = self._length()
                self._texts[number] = self._string()
            elif kind == FORGET:
                self._texts.pop(self._length(), None)
            elif kind not in (COMMA, COLON):
                return kind

    def _string(self) -> str:
        return self._take(self._length()).decode("utf-8", "replace")

    def _value(self, kind: int, depth: int) -> Any:
        if kind in _FORMATS:
            form = _FORMATS[kind]
            return form.unpack(self._take(form.size))[0]
        if kind == REFER:
            return self._mentioned()
        if kind == ARRAY:
            return self._list(depth + 1)
        if kind == MAP:
            return self._map(depth + 1)
        if kind == UNIFORM:
            return self._uniform()
        if kind in (TRUE, FALSE):
            return kind == TRUE
        if kind == TEXT:
            return self._string()
        if kind == BOOL:
            return self._take(1) != b"\0"
        if kind == NULL:
            return None
        raise self._wrong(f"{kind:#04x} begins no value")

    def _mentioned(self) -> str:
        number = self._length()
        if number not in self._texts:
            raise self._wrong(f"text {number} is mentioned but was never told")
        return self._texts[number]

    def _deeper(self, depth: int) -> None:
        if depth > _DEPTH:
            raise self._wrong(f"more than {_DEPTH} lists in lists")

    def _list(self, depth: int) -> list[Any]:
        self._deeper(depth)
        items = []
        while (kind := self._kind()) != ARRAY_END:
            items.append(self._value(kind, depth))
        return items

    def _map(self, depth: int) -> dict[str, Any]:
        self._deeper(depth)
        items = {}
        while (kind := self._kind()) != MAP_END:
            if kind not in (TEXT, REFER):
                raise self._wrong("a key must be a text")
            key = self._value(kind, depth)
            items[key] = self._value(self._kind(), depth)
        return items

    def _uniform(self) -> Any:
        kind, count = self._take(1)[0], self._length()
        if kind in NUMBERS:
            dtype = NUMBERS[kind]
            return np.frombuffer(self._take(count * dtype.itemsize), dtype)
        if kind == BOOL:  # bits, in words of 32
            words = np.frombuffer(self._take(-(-count // 32) * 4), np.uint8)
            return np.unpackbits(words, count=count, bitorder="little").astype(np.bool_)
        if kind == TEXT:
            return self._strings(count)
        raise self._wrong(f"{kind:#04x} is no kind an array can have")

    def _strings(self, count: int) -> list[str]:
        if count > len(self._data) - self._at:  # each takes a byte or more
            raise self._wrong(f"{count} texts should follow; the file is cut")
        return [self._string() for _ in range(count)]
