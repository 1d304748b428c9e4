"""Surfaces from particles, by splashsurf (the extra `mesh`), written as PLY or OBJ.

splashsurf knows one particle radius per surface. Particles are therefore grouped, by fluid if each
fluid gets its own surface, and by radius within that; the surfaces of one group's radii are joined
into one mesh.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from .cache import Cache, write_aside
from .errors import RunnelError, SceneError

Singles = NDArray[np.float32]
Channels = Mapping[str, NDArray[Any]]

FORMATS = ("ply", "obj")
CARRIED = ("velocity", "density")  # to the vertices, where the cache has them
_SAME_RADIUS = 1.25  # radii closer than this share a surface
_PLY_NAMES = {"velocity": ("vx", "vy", "vz"), "normal": ("nx", "ny", "nz")}


@dataclass(frozen=True, kw_only=True)
class SurfaceOptions:
    """Options of `runnel mesh`; lengths in particle radii."""

    smoothing_length: float = 2.0
    cube_size: float = 0.5  # of the marching cubes' grid
    # Lower swells. 0.57 with 20 rounds keeps the volume of blocks of 4096 particles and more, and
    # of a ball, within 1 %. Thin parts shrink: 3 % in a block of 512 and in a splashing dam break.
    threshold: float = 0.57
    smoothing_rounds: int = 20
    channels: tuple[str, ...] = CARRIED
    each_fluid: bool = False  # a file per fluid
    format: str = "ply"

    def __post_init__(self) -> None:
        limits = {
            "smoothing_length": (1.0, 10.0),
            "cube_size": (0.1, 4.0),
            "threshold": (0.05, 0.95),
            "smoothing_rounds": (0, 1000),
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
        a, b, c = (self.vertices[self.triangles[:, k]].astype(np.float64) for k in range(3))
        return float(np.einsum("ij,ij->", a, np.cross(b, c)) / 6)


def reconstruct(
    position: NDArray[Any],
    radius: float,
    attributes: Channels | None = None,
    options: SurfaceOptions | None = None,
) -> Mesh:
    """Surface of particles of one radius [m]; attributes are interpolated to its vertices."""
    chosen, library = options or SurfaceOptions(), _splashsurf()
    points = np.ascontiguousarray(position, dtype=np.float32)
    carried = {
        name: np.ascontiguousarray(values, dtype=np.float32)
        for name, values in (attributes or {}).items()
    }
    if not len(points):
        return _empty(carried)
    try:
        found, _ = library.reconstruction_pipeline(
            points,
            attributes_to_interpolate=carried,
            particle_radius=float(radius),
            smoothing_length=chosen.smoothing_length,
            cube_size=chosen.cube_size,
            iso_surface_threshold=chosen.threshold,
            mesh_smoothing_weights=chosen.smoothing_rounds > 0,
            mesh_smoothing_iters=chosen.smoothing_rounds,
            mesh_cleanup=True,
            decimate_barnacles=True,
            compute_normals=True,
            normals_smoothing_iters=10,
        )
    except Exception as error:  # whatever the library raises, say what was tried
        raise RunnelError(
            f"splashsurf failed on {len(points)} particles of radius {radius:g} m: {error}. "
            "Particles very far apart need too large a grid: remove strays with a domain or sink."
        ) from error
    values = {name: np.array(array, np.float32) for name, array in found.point_attributes.items()}
    values = {"normal": values.pop("normals"), **values}
    vertices = np.array(found.mesh.vertices, dtype=np.float32)
    return Mesh(vertices, np.array(found.mesh.triangles).astype(np.int32), values)


def _splashsurf() -> Any:
    try:
        import pysplashsurf
    except ImportError as error:
        raise RunnelError(
            "Surfaces need pysplashsurf, which is not installed. Install it with: "
            "pip install 'runnel[mesh]'"
        ) from error
    return pysplashsurf


def _empty(attributes: Channels) -> Mesh:
    values = {
        name: np.empty((0, *np.shape(array)[1:]), np.float32) for name, array in attributes.items()
    }
    none = np.empty((0, 3), np.float32)
    return Mesh(none, np.empty((0, 3), np.int32), {"normal": none, **values})


def _joined(meshes: list[Mesh]) -> Mesh:
    starts = np.cumsum([0, *(len(mesh.vertices) for mesh in meshes)])
    pairs = zip(meshes, starts[:-1].astype(np.int32), strict=True)
    return Mesh(
        np.concatenate([mesh.vertices for mesh in meshes]),
        np.concatenate([mesh.triangles + start for mesh, start in pairs]),
        {
            name: np.concatenate([mesh.attributes[name] for mesh in meshes])
            for name in meshes[0].attributes
        },
    )


def _radius_groups(radius: NDArray[Any]) -> list[NDArray[np.intp]]:
    """Particles by radius: from the smallest on, those within a quarter of each other."""
    order = np.argsort(radius, kind="stable")
    groups, start = [], 0
    ordered = radius[order]
    while start < len(order):
        end = int(np.searchsorted(ordered, ordered[start] * _SAME_RADIUS, side="right"))
        groups.append(np.sort(order[start:end]))
        start = end
    return groups


def surface_of(arrays: Channels, options: SurfaceOptions | None = None) -> Mesh:
    """Surface of all particles of a frame, whatever their radii."""
    chosen = options or SurfaceOptions()
    position, radius = np.asarray(arrays["position"]), np.asarray(arrays["radius"], np.float64)
    bad = np.flatnonzero(~(np.isfinite(position).all(axis=1) & (radius > 0)))
    if bad.size:
        raise RunnelError(
            f"Particle {bad[0]} has position {position[bad[0]].tolist()} and radius "
            f"{radius[bad[0]]:g}; a surface needs finite positions and positive radii."
        )
    carried = {name: arrays[name] for name in chosen.channels if name in arrays}
    meshes = [
        reconstruct(
            position[group],
            float(np.median(radius[group])),
            {name: np.asarray(values)[group] for name, values in carried.items()},
            chosen,
        )
        for group in _radius_groups(radius)
    ]
    return _joined(meshes) if meshes else _empty(carried)


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
    `on_frame(done, total)` is called after each frame.
    """
    _splashsurf()
    chosen, cache = options or SurfaceOptions(), Cache.open(cache_dir)
    if cache.scene.get("dimensions") == 2:
        raise RunnelError(f"{cache.directory}: a 2D scene has no surface to mesh.")
    target = cache.directory / "mesh" if out is None else Path(out)
    numbers = cache.frames() if frames is None else sorted(set(frames))
    written = []
    for done, frame in enumerate(numbers, 1):
        arrays = _read(cache, frame, chosen)
        for suffix, part in _parts(cache, arrays, chosen):
            path = target / f"surface{suffix}_{frame:06d}.{chosen.format}"
            write_mesh(path, surface_of(part, chosen))
            written.append(path)
        if on_frame is not None:
            on_frame(done, len(numbers))
    return written


def _read(cache: Cache, frame: int, options: SurfaceOptions) -> dict[str, NDArray[Any]]:
    have = cache.entry(frame).checksums
    wanted = ["position", "radius"] + (["phase"] if options.each_fluid else [])
    for name in options.channels:
        if name in have and name not in wanted:
            wanted.append(name)
        elif name not in have and name not in CARRIED:
            raise RunnelError(
                f"{cache.directory}: frame {frame} has no channel {name!r} to carry to the "
                f"surface; it has {', '.join(sorted(have))}."
            )
    return cache.read(frame, wanted)


def _parts(
    cache: Cache, arrays: dict[str, NDArray[Any]], options: SurfaceOptions
) -> list[tuple[str, dict[str, NDArray[Any]]]]:
    """What each file holds: suffix of its name, and the channels of its particles."""
    if not options.each_fluid:
        return [("", arrays)]
    parts = []
    for phase, fluid in enumerate(cache.scene.get("fluid", ())):
        mine = np.flatnonzero(arrays["phase"] == phase)
        name = "".join(
            c if c.isalnum() or c in "-_" else "_" for c in str(fluid.get("name", phase))
        )
        parts.append((f"_{name}", {key: values[mine] for key, values in arrays.items()}))
    return parts


def write_mesh(path: Path, mesh: Mesh) -> None:
    """Write PLY (binary) or OBJ (text), by the file's ending; aside and renamed."""
    with write_aside(path) as file:
        if path.suffix == ".obj":
            _write_obj(file, mesh)
        else:
            _write_ply(file, mesh)


def _write_ply(file: BinaryIO, mesh: Mesh) -> None:
    columns: list[tuple[str, Singles]] = [(n, mesh.vertices[:, k]) for k, n in enumerate("xyz")]
    for name, values in mesh.attributes.items():
        table = values[:, None] if values.ndim == 1 else values
        width = table.shape[1]
        default = (name,) if width == 1 else tuple(f"{name}_{k}" for k in range(width))
        columns += list(zip(_PLY_NAMES.get(name, default), table.T, strict=True))
    rows = np.empty(len(mesh.vertices), np.dtype([(name, "<f4") for name, _ in columns]))
    for name, values in columns:
        rows[name] = values
    faces = np.empty(len(mesh.triangles), np.dtype([("count", "u1"), ("index", "<i4", 3)]))
    faces["count"], faces["index"] = 3, mesh.triangles
    header = ["ply", "format binary_little_endian 1.0", f"element vertex {len(rows)}"]
    header += [f"property float {name}" for name, _ in columns]
    header += [f"element face {len(faces)}", "property list uchar int vertex_indices", "end_header"]
    file.write(("\n".join(header) + "\n").encode())
    file.write(rows.tobytes())
    file.write(faces.tobytes())


def _write_obj(file: BinaryIO, mesh: Mesh) -> None:
    def lines(pattern: str, values: NDArray[Any]) -> None:
        for start in range(0, len(values), 65536):  # one format call for many lines is fast
            piece = values[start : start + 65536]
            file.write((pattern * len(piece) % tuple(piece.ravel().tolist())).encode())

    lines("v %.7g %.7g %.7g\n", mesh.vertices)
    normal = mesh.attributes.get("normal")
    if normal is not None and len(normal):
        lines("vn %.5g %.5g %.5g\n", normal)
        lines("f %d//%d %d//%d %d//%d\n", np.repeat(mesh.triangles + 1, 2, axis=1))
    else:
        lines("f %d %d %d\n", mesh.triangles + 1)
