"""Surfaces of particles of any radii, written as PLY or OBJ, frame by frame."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from .cache import Cache, write_aside
from .errors import RunnelError, SceneError
from .preview.coloring import colors_of
from .surfacing import (
    carry,
    densities,
    enclosed,
    fluid_field,
    grow_to,
    march,
    part_volumes,
    parts,
    smooth,
    vertex_normals,
)

Singles = NDArray[np.float32]
Floats = NDArray[np.float64]
Channels = Mapping[str, NDArray[Any]]

FORMATS = ("ply", "obj")
CARRIED = ("velocity", "density")  # to the vertices, where the cache has them
_FEW, _MANY = 0.4, 0.65  # densities of particles in small drops, and at the surface of many
PLY_NAMES = {  # that other programs know
    "velocity": ("vx", "vy", "vz"),
    "normal": ("nx", "ny", "nz"),
    "uv": ("s", "t"),
    "color": ("red", "green", "blue"),
}


def _option(default: Any, text: str) -> Any:
    return field(default=default, metadata={"help": text})


@dataclass(frozen=True, kw_only=True)
class SurfaceOptions:
    """Options of `runnel mesh`; lengths in particle radii."""

    smoothing_length: float = _option(2.0, "half of a particle's reach, in radii")
    cube_size: float = _option(0.5, "of the marching cubes, in radii of the smallest particles")
    threshold: float = _option(0.57, "how full the surface is; lower swells")
    smoothing_rounds: int = _option(20, "rounds of smoothing that does not shrink")
    keep_volume: bool = _option(True, "the surface encloses the volume of the particles")
    channels: tuple[str, ...] = _option(
        CARRIED,
        "channels carried to the vertices, any of them; color: if there is none, the fluids'",
    )
    each_fluid: bool = _option(False, "a file per fluid")
    format: str = _option("ply", "ply or obj")
    jobs: int = _option(0, "frames made at the same time; 0: one per processor")

    def __post_init__(self) -> None:
        limits = {
            "smoothing_length": (1.0, 10.0),
            "cube_size": (0.1, 4.0),
            "threshold": (0.05, 0.95),
            "smoothing_rounds": (0, 1000),
            "jobs": (0, 1024),
        }
        for name, (low, high) in limits.items():
            value = getattr(self, name)
            if not low <= value <= high:
                message = f"must be between {low:g} and {high:g}"
                raise SceneError(message, key=f"mesh.{name}", value=value)
        if self.format not in FORMATS:
            message = f"must be one of {', '.join(FORMATS)}"
            raise SceneError(message, key="mesh.format", value=self.format)


@dataclass(frozen=True)
class Mesh:
    """Triangles with values at the vertices."""

    vertices: Singles  # (n, 3) [m]
    triangles: NDArray[np.int32]  # (m, 3)
    attributes: dict[str, Singles] = field(default_factory=dict)  # (n,) or (n, width)

    @property
    def volume(self) -> float:
        """Enclosed volume [m^3]; positive when triangles face outwards."""
        return enclosed(self.vertices.astype(np.float64), self.triangles)


def surface_of(arrays: Channels, options: SurfaceOptions | None = None) -> Mesh:
    """Surface of all particles of a frame, whatever their radii."""
    chosen = options or SurfaceOptions()
    position = np.ascontiguousarray(arrays["position"], np.float64)
    radius = np.ascontiguousarray(arrays["radius"], np.float64)
    bad = np.flatnonzero(~(np.isfinite(position).all(axis=1) & np.isfinite(radius) & (radius > 0)))
    if bad.size:
        raise RunnelError(
            f"Particle {bad[0]} has position {position[bad[0]].tolist()} and radius "
            f"{radius[bad[0]]:g}; a surface needs finite positions and positive radii."
        )
    carried = {name: np.asarray(arrays[name]) for name in chosen.channels if name in arrays}
    if not len(position):
        return _empty(carried)
    middle = position.mean(axis=0)  # numbers of cubes stay small far from the origin
    position = position - middle
    support, smallest = 2 * chosen.smoothing_length, float(radius.min())
    density = densities(position, radius, support)
    found = fluid_field(position, radius, density, support, chosen.cube_size * smallest)
    vertices, triangles = march(found, chosen.threshold)
    del found  # as large as all the rest
    vertices = _smoothed(vertices, triangles, position, radius, density, chosen)
    if chosen.keep_volume:
        volume = float(((2 * radius) ** 3).sum())
        whole = np.zeros(len(vertices), np.int64)
        vertices = grow_to(vertices, triangles, whole, np.array([volume]), smallest)
    values = {"normal": vertex_normals(vertices, triangles).astype(np.float32)}
    values |= carry(vertices, position, radius, carried, support)
    return Mesh((vertices + middle).astype(np.float32), triangles, values)


def _smoothed(
    vertices: Floats,
    triangles: NDArray[np.int32],
    position: Floats,
    radius: Floats,
    density: Floats,
    options: SurfaceOptions,
) -> Floats:
    """Vertices after smoothing; each part keeps its volume. Drops and threads, which it would wear
    away, are spared by weights that follow how many particles are around (after Loeschner,
    Boettcher, Jeske, Bender 2023)."""
    if not options.smoothing_rounds:
        return vertices
    support = 2 * options.smoothing_length
    crowd = ((density - _FEW) / (_MANY - _FEW)).clip(0.0, 1.0)
    weight = carry(vertices, position, radius, {"crowd": crowd}, support)["crowd"]
    calm = smooth(vertices, triangles, options.smoothing_rounds, weight.astype(np.float64))
    part = parts(len(vertices), triangles)
    volumes = part_volumes(vertices, triangles, part)
    return grow_to(calm, triangles, part, volumes, float(radius.min()))


def _empty(attributes: Channels) -> Mesh:
    values = {
        name: np.empty((0, *np.shape(array)[1:]), np.float32) for name, array in attributes.items()
    }
    none = np.empty((0, 3), np.float32)
    return Mesh(none, np.empty((0, 3), np.int32), {"normal": none, **values})


def surface(
    cache_dir: str | os.PathLike[str],
    frame: int,
    out: str | os.PathLike[str] | None = None,
    options: SurfaceOptions | None = None,
) -> list[Path]:
    """Write the surface of a frame: DIR/mesh/surface_000001.ply, or one file per fluid."""
    return mesh_frames(cache_dir, [frame], out, options)


def mesh_frames(
    cache_dir: str | os.PathLike[str],
    frames: Iterable[int] | None = None,
    out: str | os.PathLike[str] | None = None,
    options: SurfaceOptions | None = None,
    *,
    on_frame: Callable[[int, int], None] | None = None,
) -> list[Path]:
    """Write surfaces of frames (default: all) into `out` (DIR/mesh); returns the files.

    A frame without particles gives a file without triangles, so that sequences have no holes.
    Several frames are made at a time, each on a processor of its own. `on_frame(done, total)` is
    called after each frame.
    """
    chosen, cache = options or SurfaceOptions(), Cache.open(cache_dir)
    if cache.scene.get("dimensions") == 2:
        raise RunnelError(f"{cache.directory}: a 2D scene has no surface to mesh.")
    target = cache.directory / "mesh" if out is None else Path(out)
    numbers = cache.frames() if frames is None else sorted(set(frames))
    jobs = min(chosen.jobs or os.cpu_count() or 1, max(len(numbers), 1))
    written: list[Path] = []
    with ThreadPoolExecutor(jobs) as pool:
        waiting: deque[Future[list[Path]]] = deque()
        try:
            for done, frame in enumerate(numbers, 1):
                waiting.append(pool.submit(_mesh_frame, cache, frame, target, chosen))
                # No more than these are in memory at a time.
                while len(waiting) >= jobs or (waiting and done == len(numbers)):
                    written += waiting.popleft().result()
                    if on_frame is not None:
                        on_frame(done - len(waiting), len(numbers))
        finally:
            pool.shutdown(cancel_futures=True)
    return written


def _mesh_frame(cache: Cache, frame: int, target: Path, options: SurfaceOptions) -> list[Path]:
    arrays = _read(cache, frame, options)
    written = []
    for suffix, part in _parts(cache, arrays, options):
        path = target / f"surface{suffix}_{frame:06d}.{options.format}"
        write_mesh(path, surface_of(part, options), origin(cache, frame))
        written.append(path)
    return written


def origin(cache: Cache, frame: int) -> str:
    """What a surface is of, kept in its file: a frame that is simulated anew has another."""
    return f"runnel frame {frame} positions {cache.entry(frame).checksums['position']:08x}"


def _read(cache: Cache, frame: int, options: SurfaceOptions) -> dict[str, NDArray[Any]]:
    have = cache.entry(frame).checksums
    wanted = ["position", "radius"] + (["phase"] if options.each_fluid else [])
    painted = needs_colors(options.channels, have)
    for name in options.channels:
        if name in have and name not in wanted:
            wanted.append(name)
        elif name not in have and name not in CARRIED and not (painted and name == "color"):
            raise RunnelError(
                f"{cache.directory}: frame {frame} has no channel {name!r} to carry to the "
                f"surface; it has {', '.join(sorted(have))}."
            )
    if not painted:
        return cache.read(frame, wanted)
    arrays = cache.read(frame, list(dict.fromkeys([*wanted, "phase"])))
    return {**arrays, "color": colors_of(cache.scene, arrays["phase"]).astype(np.float32)}


def needs_colors(wanted: Iterable[str], have: Iterable[str]) -> bool:
    """Whether `color` is asked for and must be made from the fluids' colours."""
    return "color" in wanted and "color" not in have and "phase" in have


def _parts(
    cache: Cache, arrays: dict[str, NDArray[Any]], options: SurfaceOptions
) -> list[tuple[str, dict[str, NDArray[Any]]]]:
    """What each file holds: suffix of its name, and the channels of its particles."""
    if not options.each_fluid:
        return [("", arrays)]
    found = []
    for phase, name in enumerate(fluid_file_names(cache.scene.get("fluid", ()))):
        mine = np.flatnonzero(arrays["phase"] == phase)
        found.append((f"_{name}", {key: values[mine] for key, values in arrays.items()}))
    return found


def fluid_file_names(fluids: Iterable[Mapping[str, Any]]) -> list[str]:
    """Names of fluids as parts of file names, no two alike where case does not count either."""
    names: list[str] = []
    taken: set[str] = set()
    for phase, fluid in enumerate(fluids):
        given = str(fluid.get("name", phase))
        name = "".join(c if c.isalnum() or c in "-_" else "_" for c in given)
        while name.casefold() in taken:
            name += "_"
        taken.add(name.casefold())
        names.append(name)
    return names


def write_mesh(path: Path, mesh: Mesh, comment: str = "") -> None:
    """Write PLY (binary) or OBJ (text), by the file's ending; aside and renamed."""
    with write_aside(path) as file:
        if path.suffix == ".obj":
            file.write(f"# {comment}\n".encode() if comment else b"")
            _write_obj(file, mesh)
        else:
            write_ply(file, mesh, comment)


def write_ply(file: BinaryIO, mesh: Mesh, comment: str = "") -> None:
    """Write binary PLY into an open file."""
    columns = _ply_columns(mesh)
    kind = np.dtype([(name, values.dtype) for name, values in columns.items()])
    rows = np.empty(len(mesh.vertices), kind)
    for name, values in columns.items():
        rows[name] = values
    faces = np.empty(len(mesh.triangles), np.dtype([("count", "u1"), ("index", "<i4", 3)]))
    faces["count"], faces["index"] = 3, mesh.triangles
    header = ["ply", "format binary_little_endian 1.0"]
    header += [f"comment {comment}"] if comment else []
    header += [f"element vertex {len(rows)}"]
    for name, values in columns.items():
        header.append(f"property {'uchar' if values.dtype == np.uint8 else 'float'} {name}")
    header += [f"element face {len(faces)}", "property list uchar int vertex_indices", "end_header"]
    file.write(("\n".join(header) + "\n").encode())
    file.write(rows.tobytes())
    file.write(faces.tobytes())


def _ply_columns(mesh: Mesh) -> dict[str, NDArray[Any]]:
    """A column per number; names are unique."""
    places = np.asarray(mesh.vertices, "<f4").T
    columns: dict[str, NDArray[Any]] = dict(zip("xyz", places, strict=True))
    for channel, values in mesh.attributes.items():
        table = np.asarray(values[:, None] if values.ndim == 1 else values, "<f4")
        width = table.shape[1]
        names = (channel,) if width == 1 else tuple(f"{channel}_{k}" for k in range(width))
        if len(PLY_NAMES.get(channel, ())) == width:
            names = PLY_NAMES[channel]
        for name, column in zip(names, table.T, strict=True):
            while name in columns:
                name += "_"
            columns[name] = _bytes_of(column) if names == PLY_NAMES["color"] else column
    return columns


def _bytes_of(colors: NDArray[Any]) -> NDArray[np.uint8]:
    """Colours from 0 to 1 as the bytes that other programs expect."""
    shares = np.nan_to_num(colors.astype(np.float64)).clip(0.0, 1.0)
    return np.rint(255 * shares).astype(np.uint8)


def _write_obj(file: BinaryIO, mesh: Mesh) -> None:
    def lines(pattern: str, values: NDArray[Any]) -> None:
        for start in range(0, len(values), 65536):  # one format call for many lines is fast
            piece = values[start : start + 65536]
            file.write((pattern * len(piece) % tuple(piece.ravel().tolist())).encode())

    lines("v %.7g %.7g %.7g\n", mesh.vertices)
    normal, uv = mesh.attributes.get("normal"), mesh.attributes.get("uv")
    corner = "%d"
    if uv is not None and uv.ndim == 2 and uv.shape[1] == 2:
        lines("vt %.7g %.7g\n", uv)
        corner += "/%d"
    if normal is not None:
        lines("vn %.5g %.5g %.5g\n", normal)
        corner += "/%d" if "/" in corner else "//%d"
    numbers = np.repeat(mesh.triangles + 1, corner.count("%"), axis=1)
    lines(f"f {corner} {corner} {corner}\n", numbers)
