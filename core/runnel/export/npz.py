"""NPZ: one array per channel, opened by plain numpy."""

from __future__ import annotations

from pathlib import Path

from ..cache import plain
from ..cache.pack import write_pack
from .frames import Frame, Shot


class NpzWriter:
    """Arrays by channel name; the array "runnel.header" is JSON about the frame."""

    suffix = ".npz"

    def __init__(self, shot: Shot) -> None:
        self.shot = shot

    def write(self, path: Path, frame: Frame) -> list[Path]:
        header = {
            "format": "runnel-export",
            "scene": self.shot.name,
            "fps": self.shot.fps,
            "up": self.shot.up,
            "units_per_metre": self.shot.scale,
            "fluids": list(self.shot.fluids),
            "units": frame.units,
            "detail": plain(frame.detail),
        }
        write_pack(path, header, frame.channels, "none")
        return [path]

    def finish(self, folder: Path, files: dict[int, Path]) -> list[Path]:
        return []
