"""Checks of a scene's values against each other: names, files, frames, number of particles."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Any, Final

from .collider_maps import check_maps
from .errors import MeshError, SceneError, nearest
from .params import (
    LISTS,
    AnyFile,
    Box,
    Collider,
    Cylinder,
    FieldFile,
    Force,
    ForceKeyframe,
    Keyframe,
    MeshFile,
    Plane,
    PointFile,
    Shape,
    Sink,
    Source,
    Sphere,
    Vec3,
)

if TYPE_CHECKING:
    from .scene import Scene

MAX_PARTICLES: Final = 200_000_000
MESH_SUFFIXES: Final = (".obj", ".stl", ".ply", ".off")
FIELD_SUFFIXES: Final = (".vdb",)  # of colliders and sinks
FLOW_SUFFIXES: Final = (".vdb", ".bgeo", ".ply")  # of forces


def check(scene: Scene) -> None:
    for key in LISTS:
        _check_names(getattr(scene, key + "s"), key)
    if not scene.fluids:
        raise SceneError("there is none; add a [[fluid]]", key="fluid")
    if not scene.sources:
        raise SceneError(
            "there is none, so there is nothing to simulate; add a [[source]]", key="source"
        )
    for i, source in enumerate(scene.sources):
        _check_source(scene, source, f"source[{i}]")
    for i, collider in enumerate(scene.colliders):
        _check_collider(scene, collider, f"collider[{i}]")
    for i, sink in enumerate(scene.sinks):
        _check_placed(scene, sink, f"sink[{i}]")
    for i, force in enumerate(scene.forces):
        _check_force(scene, force, f"force[{i}]")
    _check_domain(scene)
    _check_channels(scene.output.channels)
    _check_count(scene)


def _check_names(parts: Sequence[Any], key: str) -> None:
    seen: dict[str, int] = {}
    for i, part in enumerate(parts):
        if part.name in seen:
            raise SceneError(
                f"{key}[{seen[part.name]}] has this name already; names are unique in their list",
                key=f"{key}[{i}].name",
                value=part.name,
            )
        seen[part.name] = i


def _check_source(scene: Scene, source: Source, key: str) -> None:
    names = [fluid.name for fluid in scene.fluids]
    if source.fluid not in names:
        raise SceneError(
            f"no fluid of this name.{nearest(source.fluid, names)} There are: {', '.join(names)}",
            key=f"{key}.fluid",
            value=source.fluid,
        )
    _check_placed(scene, source, key)
    if source.kind == "emitter" and not isinstance(source.shape, PointFile):
        _check_emitter(scene, source, key)
        return
    if source.kind == "emitter":
        for name in ("rate", "speed"):
            if getattr(source, name) is not None:
                raise SceneError("points have velocities of their own", key=f"{key}.{name}")
        return
    for name in ("rate", "speed", "frames"):
        if getattr(source, name) is not None:
            raise SceneError(
                'belongs to emitters; set kind = "emitter" or delete it', key=f"{key}.{name}"
            )


def _check_emitter(scene: Scene, source: Source, key: str) -> None:
    if source.rate is not None and source.speed is not None:
        raise SceneError("rate and speed are both given; one follows from the other", key=key)
    if source.rate is None and source.speed is None and not any(source.velocity):
        raise SceneError("an emitter needs a velocity, a speed or a rate", key=key)
    if not any(source.direction[axis] for axis in scene.axes):
        plane = " in the plane of the scene" if scene.dimensions == 2 else ""
        raise SceneError(
            f"gives the direction of an emitter and must not be zero{plane} (only a cylinder has "
            "a direction of its own: from start to end)",
            key=f"{key}.velocity",
            value=source.velocity,
        )


def _check_collider(scene: Scene, collider: Collider, key: str) -> None:
    _check_placed(scene, collider, key)
    if collider.motion and collider.body == "static":
        raise SceneError(
            'has motion but is "static"; set body = "animated" or delete motion', key=f"{key}.body"
        )
    folder = scene.directory or Path()
    check_maps(
        collider, key, folder,
        lambda path, written: scene.allow_outside or _is_inside(path, written, folder),
        scene.dimensions == 2,
    )  # fmt: skip


def _check_placed(scene: Scene, part: Source | Collider | Sink, key: str) -> None:
    _check_shape(scene, part.shape, f"{key}.shape")
    _check_turn(scene, part.rotation, f"{key}.rotation")
    for i, keyframe in enumerate(part.motion):
        _check_turn(scene, keyframe.rotation, f"{key}.motion[{i}].rotation")
    _check_order(part.motion, f"{key}.motion")


def _check_force(scene: Scene, force: Force, key: str) -> None:
    if force.kind == "vortex":
        axes = {f"{key}.keyframes[{i}]": k.axis for i, k in enumerate(force.keyframes)}
        for where, axis in {key: force.axis, **axes}.items():
            if axis is not None and not any(axis):
                raise SceneError("must not be zero", key=f"{where}.axis", value=axis)
    _check_order(force.keyframes, f"{key}.keyframes")
    if force.kind != "field" and force.voxel_size is not None:
        raise SceneError('belongs to kind = "field"', key=f"{key}.voxel_size")
    if not force.has_file:
        for name in ("field", "field_frames"):
            if getattr(force, name) is not None:
                raise SceneError('belongs to kind = "field" or "points"', key=f"{key}.{name}")
        return
    if force.field is None:
        what = "velocities" if force.kind == "field" else "points"
        raise SceneError(f'kind = "{force.kind}" needs the file of its {what}', key=f"{key}.field")
    suffixes = FLOW_SUFFIXES if force.kind == "field" else FLOW_SUFFIXES[1:]
    path = _check_place(scene, force.file, f"{key}.field", suffixes)
    if force.file.is_sequence:
        path = _check_sequence(scene, force.file, f"{key}.field")
    if not path.is_file():
        raise MeshError(f"there is no file {path}", key=f"{key}.field", value=force.field)


def _check_order(keyframes: Sequence[Keyframe | ForceKeyframe], key: str) -> None:
    for i, (before, after) in enumerate(pairwise(keyframes), 1):
        if after.frame <= before.frame:
            raise SceneError(
                "keyframes must be in order, each after the one before",
                key=f"{key}[{i}].frame",
                value=after.frame,
            )


def _check_turn(scene: Scene, rotation: Vec3, key: str) -> None:
    if scene.dimensions == 2 and any(rotation[axis] for axis in scene.axes):
        axis = "xyz"[scene.ignored_axis]
        raise SceneError(f"in 2D a shape can turn about {axis} only", key=key, value=rotation)


def _check_shape(scene: Scene, shape: Shape, key: str) -> None:
    axes = scene.axes
    if isinstance(shape, Box):
        _check_corners(shape.min, shape.max, axes, f"{key}.box")
    elif isinstance(shape, Cylinder) and math.dist(shape.start, shape.end) <= 0:
        raise SceneError("start and end must differ", key=f"{key}.cylinder.end", value=shape.end)
    elif isinstance(shape, Plane) and not any(shape.normal[axis] for axis in axes):
        raise SceneError("must not be zero", key=f"{key}.plane.normal", value=shape.normal)
    elif isinstance(shape, MeshFile):
        _check_mesh_file(scene, shape, f"{key}.mesh", key.startswith("source"))
    elif isinstance(shape, PointFile):
        _check_point_file(scene, shape, f"{key}.points")


def _check_corners(
    low: Sequence[float], high: Sequence[float], axes: Iterable[int], key: str
) -> None:
    for axis in axes:
        if low[axis] >= high[axis]:
            raise SceneError(
                f"must be above min ({low[axis]:g}) along {'xyz'[axis]}",
                key=f"{key}.max[{axis}]",
                value=high[axis],
            )


def _check_place(scene: Scene, shape: AnyFile, key: str, suffixes: Sequence[str]) -> Path:
    """Scenes come from strangers: a path may not lead out of the scene's folder."""
    path = scene.mesh_path(shape)
    if path.suffix.lower() not in suffixes:
        kinds = {PointFile: "points", MeshFile: "mesh", FieldFile: "field"}
        what = kinds[type(shape)]
        raise MeshError(f"a {what} file ends in {', '.join(suffixes)}", key=key, value=shape.file)
    if shape.frames is not None and not shape.is_sequence:
        where = f"{key}_frames" if isinstance(shape, FieldFile) else f"{key}.frames"
        raise MeshError("belongs to sequences, such as walk_####.ply", key=where)
    if not scene.allow_outside and not _is_inside(path, shape.file, scene.directory or Path()):
        raise MeshError(
            "lies outside of the scene's folder. Move it there and give the path from there, or "
            "load with allow_outside=True",
            key=key,
            value=shape.file,
        )
    return path


def _check_point_file(scene: Scene, shape: PointFile, key: str) -> None:
    from .points import SUFFIXES, read_points  # loads numpy

    path = _check_place(scene, shape, key, SUFFIXES)
    if shape.is_sequence:
        path = _check_sequence(scene, shape, key)
    try:
        read_points(path)
    except MeshError as error:
        error.key, error.value = key, shape.file
        raise


def _check_mesh_file(scene: Scene, shape: MeshFile, key: str, of_source: bool) -> None:
    suffixes = MESH_SUFFIXES if of_source else MESH_SUFFIXES + FIELD_SUFFIXES
    path = _check_place(scene, shape, key, suffixes)
    if shape.is_sequence:
        path = _check_sequence(scene, shape, key)
    if not path.is_file():
        raise MeshError(f"there is no file {path}", key=key, value=shape.file)
    if path.suffix.lower() in FIELD_SUFFIXES:
        return
    try:
        _mesh_box(path, path.stat().st_mtime_ns)
    except MeshError as error:
        error.key, error.value = key, shape.file
        raise


def _check_sequence(scene: Scene, shape: AnyFile, key: str) -> Path:
    """One file a frame, none missing; the first of them."""
    if len(re.findall(r"#+", shape.file)) > 1 or "#" in str(Path(shape.file).parent):
        message = "# stands for the number of a frame: only one run of #, in the file's name"
        raise MeshError(message, key=key, value=shape.file)
    frames = scene.mesh_frames(shape)
    if not frames:
        raise MeshError("there is no file of this pattern", key=key, value=shape.file)
    if shape.frames is not None:
        return scene.mesh_path(shape, frames[0])
    paths = [scene.mesh_path(shape, number) for number in frames]
    if not scene.allow_outside and not all(
        _is_inside(path, shape.file, scene.directory or Path()) for path in paths
    ):
        raise MeshError("a file lies outside of the scene's folder", key=key, value=shape.file)
    missing = sorted(set(range(frames[0], frames[-1])) - set(frames))
    if missing:
        raise MeshError(f"the file of frame {missing[0]} is missing", key=key, value=shape.file)
    return paths[0]


def _is_inside(path: Path, written: str, folder: Path) -> bool:
    """Whether a path stays in the folder, symbolic links followed. Refuses the same on any system:
    a scene that works here must not lead elsewhere on Windows."""
    parts = PurePosixPath(written)
    if parts.is_absolute() or PureWindowsPath(written).drive or ".." in parts.parts:
        return False
    return path.resolve().is_relative_to(folder.resolve())


def _check_domain(scene: Scene) -> None:
    domain = scene.domain
    if domain.min is not None and domain.max is not None:
        _check_corners(domain.min, domain.max, scene.axes, "domain")
    elif domain.mode == "close":
        raise SceneError('a closed domain needs min and max, or mode = "kill"', key="domain.mode")


def _check_channels(channels: Sequence[str]) -> None:
    for i, name in enumerate(channels):
        if name in channels[:i]:
            raise SceneError("is listed twice", key=f"output.channels[{i}]", value=name)
    if "position" not in channels:
        raise SceneError('must hold "position"', key="output.channels", value=list(channels))


def _check_count(scene: Scene) -> None:
    count = scene.estimate_particles()
    if count > MAX_PARTICLES:
        index = max(range(len(scene.sources)), key=lambda i: estimate(scene, scene.sources[i]))
        raise SceneError(
            f"the scene would have {count:.3g} particles, at most {MAX_PARTICLES:.3g} are allowed; "
            "this source has most: raise its spacing or make it smaller",
            key=f"source[{index}].spacing",
            value=scene.sources[index].spacing,
        )


# --- particle counts ------------------------------------------------------------------------------


def spacings(scene: Scene, source: Source) -> tuple[float, float]:
    """Smallest and largest distance of a source's particles [m]."""
    if isinstance(source.shape, PointFile):
        from .points import read_points

        radius = read_points(_first_file(scene, source.shape)).radius
        if radius is not None and len(radius):
            return 2.0 * float(radius.min()), 2.0 * float(radius.max())
    return source.spacing, source.spacing


def _first_file(scene: Scene, shape: PointFile) -> Path:
    return scene.mesh_path(shape, scene.mesh_frames(shape)[0] if shape.is_sequence else None)


def _estimate_points(scene: Scene, source: Source, shape: PointFile) -> int:
    from .points import read_points

    count = len(read_points(_first_file(scene, shape)))
    times = _emission_time(scene, source) * scene.fps if source.kind == "emitter" else 1.0
    return math.ceil(count * times)


def estimate(scene: Scene, source: Source) -> int:
    if isinstance(source.shape, PointFile):
        return _estimate_points(scene, source, source.shape)
    axes, dimensions, time = scene.axes, scene.dimensions, _emission_time(scene, source)
    if source.kind == "emitter" and source.rate is not None:
        volume = source.rate * time
    elif source.kind == "emitter":
        speed = math.hypot(*source.velocity) if source.speed is None else source.speed
        area = _solid(scene, source).area(source.direction, axes)
        volume = area * source.scale ** (dimensions - 1) * speed * time
    else:
        volume = _solid(scene, source).volume(axes) * source.scale**dimensions
    return math.ceil(min(volume / source.spacing**dimensions, 1e18) - 1e-6)


def _solid(scene: Scene, source: Source) -> Box | Sphere | Cylinder:
    """The source's shape, for a mesh the box around it."""
    shape = source.shape
    if isinstance(shape, MeshFile):
        paths = _some_files(scene, shape)
        boxes = [_mesh_box(path, path.stat().st_mtime_ns) for path in paths]
        return max(boxes, key=lambda box: box.volume(scene.axes))
    if isinstance(shape, Plane | PointFile):
        raise SceneError("a source needs an end", key=f"source.{source.name}.shape.plane")
    return shape


def _some_files(scene: Scene, shape: MeshFile) -> list[Path]:
    """The file of a mesh; of a sequence a few, for deforming things may begin as next to nothing.

    The first is there, others may be written while the shot is simulated.
    """
    if not shape.is_sequence:
        return [scene.mesh_path(shape)]
    frames = scene.mesh_frames(shape)
    chosen = sorted({frames[i * (len(frames) - 1) // 4] for i in range(5)})
    first, *more = (scene.mesh_path(shape, frame) for frame in chosen)
    return [first, *(path for path in more if path.is_file())]


@lru_cache(maxsize=256)
def _mesh_box(path: Path, modified: int) -> Box:
    """Box around a mesh; `modified` makes a changed file count as another."""
    from .meshes import read_mesh  # loads numpy, which scenes without meshes do not need

    low, high = read_mesh(path).bounds
    return Box(min=_vector(low), max=_vector(high))


def _vector(values: Iterable[float]) -> Vec3:
    x, y, z = map(float, values)
    return (x, y, z)


def _emission_time(scene: Scene, source: Source) -> float:
    """Seconds of emission whose particles are alive together, at most."""
    first, last = source.frames or scene.frames
    first, last = max(first, scene.frames[0]), min(last, scene.frames[1])
    time = max(0, last - first + 1) / scene.fps
    return time if source.lifetime is None else min(time, source.lifetime)
