"""From a cache to files: reads frame after frame, converts units and axes, hands on to a format."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..cache import Cache
from ..errors import RunnelError
from ..preview.coloring import colors_of
from ..surface import Mesh, needs_colors
from .options import SIZED, ExportOptions
from .solids import Solid, find_solids
from .surfaces import find_surfaces

Array = NDArray[Any]

_LENGTH = re.compile(r"m(/s(\^2)?)?")  # units that a change of the unit of length scales
_TURNED = re.compile(r"m(/s(\^2)?)?|1/s|N|kg m/s")  # units whose triples are vectors in space


@dataclass(frozen=True)
class Shot:
    """What all frames have in common."""

    name: str
    fps: float
    up: str  # "y" or "z", in the files
    scale: float  # units of the files in a metre
    fluids: tuple[str, ...]
    dimensions: int
    voxel: float  # [units of the files]; 0: the format chooses


@dataclass(frozen=True)
class Frame:
    """One frame in the units and axes of the files."""

    number: int
    time: float  # [s]
    channels: dict[str, Array]  # (n,) or (n, width)
    units: dict[str, str]  # of the channels, before scaling
    detail: dict[str, Any]  # numbers, and tuples of numbers, about the whole frame
    surfaces: dict[str, Mesh] = field(default_factory=dict)  # by name
    solids: list[Solid] = field(default_factory=list)

    @property
    def count(self) -> int:
        return len(self.channels["position"])


class Writer(Protocol):
    """A format."""

    suffix: str  # of a frame's file, with the dot

    def write(self, path: Path, frame: Frame) -> list[Path]:
        """Write a frame's files aside and put them in place; returns them."""

    def finish(self, folder: Path, files: dict[int, Path]) -> list[Path]:
        """Write what ties the frames together; returns those files."""


def _writer(name: str, shot: Shot) -> Writer:
    """The format's writer; its library is looked for now, before any work."""
    if name == "npz":
        from .npz import NpzWriter

        return NpzWriter(shot)
    if name == "ply":
        from .ply import PlyWriter

        return PlyWriter(shot)
    if name == "bgeo":
        from .bgeo import BgeoWriter

        return BgeoWriter(shot)
    if name == "usd":
        from .usd import UsdWriter

        return UsdWriter(shot)
    from .vdb import VdbWriter

    return VdbWriter(shot)


def export_frames(
    cache_dir: str | os.PathLike[str],
    options: ExportOptions,
    frames: Iterable[int] | None = None,
    out: str | os.PathLike[str] | None = None,
    *,
    on_frame: Callable[[int, int], None] | None = None,
) -> list[Path]:
    """Write frames (default: all) into `out` (DIR/export); returns the files.

    Each file is complete or absent; an interrupted export leaves the frames it finished.
    `on_frame(done, total)` is called after each frame.
    """
    cache = Cache.open(cache_dir)
    folder = cache.directory / "export" if out is None else Path(out)
    numbers = cache.frames() if frames is None else sorted(set(frames))
    shot = _shot(cache, options)
    writer = _writer(options.format, shot)
    written: dict[int, Path] = {}
    files: list[Path] = []
    for done, number in enumerate(numbers, 1):
        path = folder / f"particles.{number:04d}{writer.suffix}"
        files += writer.write(path, read_frame(cache, number, options, shot))
        written[number] = path
        if on_frame is not None:
            on_frame(done, len(numbers))
    return [*files, *(writer.finish(folder, written) if written else [])]


def _shot(cache: Cache, options: ExportOptions) -> Shot:
    scene = cache.scene
    names = [str(fluid.get("name", k)) for k, fluid in enumerate(scene.get("fluid", ()))]
    return Shot(
        name=str(scene.get("name") or "fluid"),
        fps=cache.fps,
        up=_scene_up(cache) if options.up == "scene" else options.up,
        scale=options.scale,
        fluids=tuple(names),
        dimensions=2 if scene.get("dimensions") == 2 else 3,
        voxel=options.voxel * options.scale,
    )


def _scene_up(cache: Cache) -> str:
    return "y" if cache.scene.get("up") == "y" else "z"


def read_frame(cache: Cache, number: int, options: ExportOptions, shot: Shot) -> Frame:
    """A frame of the cache, converted."""
    names = None
    if options.channels:
        sized = options.format in SIZED and "radius" in cache.entry(number).checksums
        size = ("radius",) if sized else ()
        names = list(dict.fromkeys(("position", *size, *options.channels)))
    arrays = _read(cache, number, names)
    if "position" not in arrays:
        raise RunnelError(
            f"{cache.directory}: frame {number} has no channel 'position', without which nothing "
            "can be exported. Add it to [output] channels and simulate again."
        )
    turn = turning(_scene_up(cache), shot.up)
    table = cache.channels
    units = {name: table[name].unit if name in table else "" for name in arrays}
    report = cache.entry(number).report
    time = report.get("time")
    if not isinstance(time, int | float):
        time = (number - cache.frames()[0]) / cache.fps
    surfaces = find_surfaces(cache, number) if options.surface else {}
    solids = find_solids(cache, number, turn, shot.scale) if options.colliders else []
    return Frame(
        number=number,
        time=float(time),
        channels={n: converted(a, units[n], turn, shot.scale) for n, a in arrays.items()},
        units=units,
        detail=_detail(report, number, float(time), turn, shot.scale),
        surfaces={name: _convert_mesh(mesh, turn, shot.scale) for name, mesh in surfaces.items()},
        solids=solids,
    )


def _read(cache: Cache, number: int, names: list[str] | None) -> dict[str, Array]:
    have = cache.entry(number).checksums
    if names is None or not needs_colors(names, have):
        return cache.read(number, names)
    arrays = cache.read(number, [name for name in names if name != "color"])
    phase = arrays["phase"] if "phase" in arrays else cache.read(number, ["phase"])["phase"]
    return {**arrays, "color": colors_of(cache.scene, phase).astype(np.float32)}


def turning(source: str, target: str) -> NDArray[np.float64]:
    """Rotation (3, 3) that takes the up axis of a scene to that of the files."""
    if source == target:
        return np.eye(3)
    if source == "z":  # x stays, z goes to y
        return np.array([[1.0, 0, 0], [0, 0, 1], [0, -1, 0]])
    return np.array([[1.0, 0, 0], [0, 0, -1], [0, 1, 0]])


def converted(array: Array, unit: str, turn: NDArray[np.float64], scale: float) -> Array:
    """Values of a channel in the units and axes of the files; only lengths are scaled."""
    if array.dtype.kind != "f":
        return array
    result = array
    if array.ndim == 2 and array.shape[1] == 3 and _TURNED.fullmatch(unit):
        source = np.argmax(np.abs(turn), axis=1)  # a row has one entry, 1 or -1
        if not np.array_equal(turn, np.eye(3)):
            signs = turn[np.arange(3), source].astype(array.dtype)
            result = array[:, source] * signs
    if scale != 1.0 and _LENGTH.fullmatch(unit):
        result = result * array.dtype.type(scale)
    return np.ascontiguousarray(result)


def _convert_mesh(mesh: Mesh, turn: NDArray[np.float64], scale: float) -> Mesh:
    units = {"velocity": "m/s", "vorticity": "1/s", "normal": "1/s"}  # normals turn, keep length
    values = {n: converted(a, units.get(n, ""), turn, scale) for n, a in mesh.attributes.items()}
    return Mesh(converted(mesh.vertices, "m", turn, scale), mesh.triangles, values)


def _detail(
    report: dict[str, Any], number: int, time: float, turn: NDArray[np.float64], scale: float
) -> dict[str, Any]:
    """Numbers of the solver's report; times per stage stay in the cache."""
    found: dict[str, Any] = {"frame": number, "time": time}
    for name, value in report.items():
        if name in found or isinstance(value, bool):
            continue
        if isinstance(value, int | float):
            found[name] = value * scale if name == "max_speed" else value
        elif name == "momentum" and isinstance(value, list) and len(value) == 3:
            found[name] = tuple((turn @ np.array(value, np.float64) * scale).tolist())
    return found
