"""The manifest: what a cache is about, and which frames are finished."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import CacheError
from .files import canonical, sha256, write_aside
from .pack import Damaged, Layout

FORMAT, VERSION = "runnel-cache", 1
COMPRESSIONS = ("none", "zlib", "zstd")
FRAME_LIMIT = 10**7
CHANNEL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_BYTES_LIMIT = 1 << 28  # a frame takes about 1000 bytes


@dataclass(frozen=True)
class Channel:
    """One column of the channel table; width 1 is stored as (n,), others as (n, width)."""

    dtype: str
    width: int
    unit: str = ""

    def layout(self, count: int) -> Layout:
        shape = (count,) if self.width == 1 else (count, self.width)
        return Layout(np.dtype(self.dtype).newbyteorder("<"), shape)


@dataclass(frozen=True)
class FrameEntry:
    """What the manifest knows of a finished frame."""

    frame: int
    count: int  # particles
    bytes: int
    checksums: dict[str, int]  # CRC-32 per channel
    bounds: list[list[float]] | None  # lowest and highest corner of all positions [m]
    report: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        # Not dataclasses.asdict: its deep copies took most of the time of a long shot's manifest.
        return {
            "frame": self.frame,
            "count": self.count,
            "bytes": self.bytes,
            "checksums": {name: f"{crc:08x}" for name, crc in self.checksums.items()},
            "bounds": self.bounds,
            "report": self.report,
        }

    @classmethod
    def from_json(cls, data: Any, channels: Mapping[str, Channel]) -> FrameEntry:
        frame = number(data, "frame", -FRAME_LIMIT, FRAME_LIMIT)
        if not isinstance(data["checksums"], dict) or not isinstance(data["report"], dict):
            raise Damaged(f"has no proper checksums or report for frame {frame}")
        sums = {name: int(text(data["checksums"], name), 16) for name in data["checksums"]}
        if not sums.keys() <= channels.keys():
            raise Damaged(f"lists channels of frame {frame} that are not in its channel table")
        bounds = data["bounds"]
        if bounds is not None:
            corners = np.asarray(bounds, dtype=np.float64)
            if corners.shape != (2, 3) or not np.isfinite(corners).all():
                raise Damaged(f"has no proper bounds for frame {frame}")
        count, size = number(data, "count", 0, 1 << 40), number(data, "bytes", 0, 1 << 60)
        return cls(frame, count, size, sums, bounds, data["report"])


@dataclass(frozen=True)
class Branch:
    """Where a cache that shares its first frames with another comes from."""

    parent: str  # name of the other's folder, for people
    digest: str  # of the other's scene
    frame: int  # the last they share

    @classmethod
    def from_json(cls, data: Any) -> Branch | None:
        if data is None:
            return None
        frame = number(data, "frame", -FRAME_LIMIT, FRAME_LIMIT)
        return cls(text(data, "parent"), text(data, "digest"), frame)


@dataclass
class Manifest:
    """Everything about a cache except the particles."""

    scene: dict[str, Any]
    digest: str
    device: str
    fps: float
    compression: str
    runnel: str  # version that wrote it
    channels: dict[str, Channel] = field(default_factory=dict)
    frames: dict[int, FrameEntry] = field(default_factory=dict)
    branch: Branch | None = None

    def to_json(self) -> dict[str, Any]:
        """All but the checksum, which write_manifest adds."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "runnel": self.runnel,
            "device": self.device,
            "fps": self.fps,
            "compression": self.compression,
            "scene": self.scene,
            "scene_digest": self.digest,
            "channels": {name: dataclasses.asdict(item) for name, item in self.channels.items()},
            "branch": None if self.branch is None else dataclasses.asdict(self.branch),
            "frames": [self.frames[frame].to_json() for frame in sorted(self.frames)],
        }

    @classmethod
    def from_json(cls, data: Any) -> Manifest:
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise Damaged("is no manifest of a Runnel cache")
        if data.get("version") != VERSION:
            raise Damaged(
                f"has format version {data.get('version')!r}, this Runnel reads {VERSION}"
            )
        checksum = data.pop("checksum", None)
        if checksum != sha256(data):
            raise Damaged("was changed after Runnel wrote it (checksum)")
        channels = {name: read_channel(name, item) for name, item in data["channels"].items()}
        entries = [FrameEntry.from_json(item, channels) for item in data["frames"]]
        if not isinstance(data["scene"], dict):
            raise Damaged("holds no scene")
        if data["compression"] not in COMPRESSIONS:
            raise Damaged(f"names an unknown compression {data['compression']!r}")
        fps = float(data["fps"])
        if not (math.isfinite(fps) and fps > 0):
            raise Damaged(f"has fps {fps}")
        return cls(
            scene=data["scene"],
            digest=text(data, "scene_digest"),
            device=text(data, "device"),
            fps=fps,
            compression=data["compression"],
            runnel=text(data, "runnel"),
            channels=channels,
            frames={entry.frame: entry for entry in entries},
            branch=Branch.from_json(data.get("branch")),
        )


def number(data: Any, key: str, low: int, high: int) -> int:
    value = data[key]
    if type(value) is not int or not low <= value <= high:
        raise Damaged(f"has {key} = {value!r}, allowed are whole numbers {low}..{high}")
    return value


def text(data: Any, key: str) -> str:
    value = data[key]
    if not isinstance(value, str):
        raise Damaged(f"has {key} = {value!r}, which is no text")
    return value


def read_channel(name: str, data: Any) -> Channel:
    dtype, width = np.dtype(text(data, "dtype")), number(data, "width", 1, 1 << 16)
    if not CHANNEL_NAME.fullmatch(name) or dtype.kind not in "biuf":
        raise Damaged(f"has a channel {name!r} of type {dtype}")
    return Channel(dtype.name, width, text(data, "unit"))


def read_manifest(folder: Path) -> Manifest:
    """Manifest of a cache folder, checked."""
    path = folder / "manifest.json"
    try:
        size = path.stat().st_size
    except OSError as error:
        raise CacheError(
            f"{folder}: holds no Runnel cache (no readable manifest.json). "
            "Give the folder that `runnel run --out` wrote."
        ) from error
    try:
        if size > _BYTES_LIMIT:
            raise Damaged(f"has {size} bytes")
        return Manifest.from_json(json.loads(path.read_bytes()))
    except (
        Damaged,
        OSError,
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        RuntimeError,  # nested too deeply
        OverflowError,
        MemoryError,
    ) as error:
        raise CacheError(
            f"{path}: damaged, or not written by Runnel: {error}. Restore it from a copy; `runnel "
            "run` with --resume makes it anew from the frames."
        ) from error


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Replace the manifest of a cache folder."""
    text = canonical(manifest.to_json())  # once, for the file and for its checksum
    digest = hashlib.sha256(text.encode()).hexdigest()
    with write_aside(folder / "manifest.json") as file:
        file.write(f'{text[:-1]},"checksum":"{digest}"}}\n'.encode())
