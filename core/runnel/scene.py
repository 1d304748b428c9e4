"""Scene: everything a simulation is made of, as immutable data; read from TOML, JSON or dicts.

`Scene.load` and `Scene.from_dict` check each value against its declaration in `params`, and the
values against each other. Errors are SceneError and name the file, the key and what is allowed.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import lru_cache
from importlib import resources
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, Final, Literal

from .collider_maps import check_maps, image_maps
from .errors import MeshError, SceneError
from .params import (
    NAME,
    NAME_TEXT,
    SHAPES,
    Box,
    Collider,
    Cylinder,
    Domain,
    Fluid,
    Force,
    Keyframe,
    MeshFile,
    Output,
    Plane,
    Shape,
    Sink,
    Solver,
    Source,
    Spec,
    Sphere,
    Vec3,
    param,
    specs,
)
from .presets import PALETTE, PRESETS

__all__ = [
    "Box",
    "Collider",
    "Cylinder",
    "Domain",
    "Fluid",
    "Force",
    "Keyframe",
    "MeshFile",
    "Output",
    "Plane",
    "Scene",
    "Shape",
    "Sink",
    "Solver",
    "Source",
    "Sphere",
    "example",
    "example_names",
    "example_path",
]

MAX_FILE_BYTES: Final = 64 * 2**20
_LONG_KEY = re.compile(r"""(?<![\w"'-])(?:[\w"'-]+[ \t]*\.[ \t]*){32}""")
MAX_PARTICLES: Final = 200_000_000
MESH_SUFFIXES: Final = (".obj", ".stl", ".ply", ".off")
FIELD_SUFFIXES: Final = (".vdb",)  # of colliders and sinks

TABLES: Final[dict[str, type]] = {"solver": Solver, "domain": Domain, "output": Output}
LISTS: Final[dict[str, type]] = {
    "fluid": Fluid,
    "source": Source,
    "collider": Collider,
    "sink": Sink,
    "force": Force,
}


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A scene. In files the lists are called `fluid`, `source`, `collider`, `sink`, `force`."""

    name: str = param(
        "scene",
        pattern=NAME,
        pattern_text=NAME_TEXT,
        help="Name of the scene.",
    )
    fps: float = param(
        24.0,
        unit="1/s",
        hard=(1e-3, 1e5),
        soft=(12, 120),
        label="FPS",
        help="Frames per second.",
    )
    frames: tuple[int, int] = param(
        (1, 100),
        hard=(-1_000_000, 1_000_000),
        soft=(1, 250),
        ordered=True,
        help="First and last frame. The first shows the initial state.",
    )
    up: Literal["z", "y"] = param(
        "z",
        help="Axis that points up: picks the default gravity and what exporters declare.",
    )
    dimensions: Literal[3, 2] = param(
        3,
        help='2 simulates a slice: z is ignored with up = "y", y with up = "z".',
    )
    seed: int = param(0, hard=(0, 2**31 - 1), help="Seed of everything random.")
    solver: Solver = field(default_factory=Solver)
    fluids: tuple[Fluid, ...] = ()
    sources: tuple[Source, ...] = ()
    colliders: tuple[Collider, ...] = ()
    sinks: tuple[Sink, ...] = ()
    forces: tuple[Force, ...] = ()
    domain: Domain = field(default_factory=Domain)
    output: Output = field(default_factory=Output)
    directory: Path | None = field(default=None, compare=False)  # mesh files are relative to it
    allow_outside: bool = field(default=False, compare=False)  # mesh files may lie elsewhere

    def __post_init__(self) -> None:
        _check(self)

    @classmethod
    def load(cls, path: str | Path, *, allow_outside: bool = False) -> Scene:
        """Read a .toml or .json file. Mesh files must lie in its folder unless allow_outside."""
        path = Path(path)
        try:
            data = _parse(path, _read_text(path))
            return cls.from_dict(data, directory=path.parent, allow_outside=allow_outside)
        except SceneError as error:
            raise error.in_file(path) from error.__cause__

    @classmethod
    def from_dict(
        cls,
        data: Mapping[str, Any],
        directory: str | Path | None = None,
        *,
        allow_outside: bool = False,
    ) -> Scene:
        """A scene from plain dicts and lists, keyed as the file is."""
        if not isinstance(data, Mapping):
            raise SceneError("a scene must be a table of keys", value=data)
        top = specs(cls)
        _refuse_unknown(data, [*(s.name for s in top), *TABLES, *LISTS], "")
        values = _read_fields(top, data, "", {})
        derived = _Derived(values["up"], values["dimensions"])
        for key, part in TABLES.items():
            values[key] = _read_table(part, data.get(key, {}), key, derived.of_table(key))
        for key, part in LISTS.items():
            values[key + "s"] = _read_list(part, data.get(key, ()), key, derived)
        return cls(
            **values,
            directory=None if directory is None else Path(directory),
            allow_outside=allow_outside,
        )

    def to_dict(self, *, defaults: bool = False) -> dict[str, Any]:
        """Plain dicts and lists that from_dict turns into an equal scene.

        Values that are the default are left out unless `defaults`.
        """
        result = _plain_fields(self, {}, defaults)
        derived = _Derived(self.up, self.dimensions)
        for key in TABLES:
            table = _plain_fields(getattr(self, key), derived.of_table(key), defaults)
            if table:
                result[key] = table
        for key in LISTS:
            parts = getattr(self, key + "s")
            if parts:
                result[key] = [
                    _plain_fields(
                        part, derived.of_list(key, i, getattr(part, "preset", None)), defaults
                    )
                    for i, part in enumerate(parts)
                ]
        return result

    def with_overrides(self, overrides: Iterable[str]) -> Scene:
        """A scene with keys replaced: `solver.tolerance=0.02`, `source.dam.spacing=0.03`,
        `fluid[0].viscosity=2`. Values are written as in TOML; a bare word is a text."""
        data = self.to_dict()
        for override in overrides:
            _override(data, override)
        return Scene.from_dict(data, self.directory, allow_outside=self.allow_outside)

    def digest(self) -> str:
        """SHA-256 of all values, in hex. The file's formatting and folder do not matter."""
        text = json.dumps(self.to_dict(defaults=True), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def mesh_path(self, shape: MeshFile, frame: int | None = None) -> Path:
        """Where a mesh file lies; of a sequence that of a frame."""
        file = shape.file
        if frame is not None:
            file = re.sub(r"#+", lambda run: f"{frame:0{len(run[0])}d}", file)
        return (self.directory or Path()) / file

    def mesh_frames(self, shape: MeshFile) -> list[int]:
        """Frames that a sequence has files of, rising."""
        path = self.mesh_path(shape)
        start, run, end = re.split(r"(#+)", path.name, maxsplit=1)
        pattern = re.compile(rf"{re.escape(start)}(\d{{{len(run)},}}){re.escape(end)}")
        found = (pattern.fullmatch(file.name) for file in path.parent.glob("*"))
        return sorted(int(match[1]) for match in found if match)

    def files(self) -> list[Path]:
        """Meshes and maps that the scene names, sequences file by file."""
        parts: list[Source | Collider | Sink] = [*self.sources, *self.colliders, *self.sinks]
        folder = self.directory or Path()
        found = {path for part in self.colliders for path in image_maps(folder, part)}
        for shape in (part.shape for part in parts):
            if isinstance(shape, MeshFile):
                frames = self.mesh_frames(shape) if shape.is_sequence else [None]
                found |= {self.mesh_path(shape, frame) for frame in frames}
        return sorted(found)

    @property
    def ignored_axis(self) -> int:
        """Axis that a 2D scene leaves out; -1 in 3D."""
        if self.dimensions == 3:
            return -1
        return 1 if self.up == "z" else 2

    @property
    def smallest_spacing(self) -> float:
        """Spacing of the finest source [m]."""
        return min(source.spacing for source in self.sources)

    @property
    def axes(self) -> tuple[int, ...]:
        """Axes that count: all three, or two in 2D."""
        return tuple(axis for axis in range(3) if axis != self.ignored_axis)

    def estimate_particles(self) -> int:
        """Most particles alive at once, from volumes, rates and lifetimes.

        Solids and sinks are not looked at, and meshes count as the box around them, so this is
        rather too many.
        """
        return sum(_estimate(self, source) for source in self.sources)


# --- shipped scenes -------------------------------------------------------------------------------


def example_names() -> list[str]:
    """Names of the shipped scenes."""
    return sorted(path.stem for path in _examples().glob("*.toml"))


def example_path(name: str) -> Path:
    """File of a shipped scene."""
    path = _examples() / f"{name}.toml"
    if name not in example_names():
        known = example_names()
        raise SceneError(
            f"no shipped scene of this name.{_nearest(name, known)} There are: {', '.join(known)}",
            key="example",
            value=name,
        )
    return path


def example(name: str) -> Scene:
    """A shipped scene."""
    return Scene.load(example_path(name))


def _examples() -> Path:
    return Path(str(resources.files(__package__).joinpath("scenes")))


# --- files ----------------------------------------------------------------------------------------


def _read_text(path: Path) -> str:
    if path.suffix.lower() not in (".toml", ".json"):
        raise SceneError("a scene file ends in .toml or .json")
    try:
        if not path.is_file():
            raise SceneError("there is no such file" if not path.exists() else "is not a file")
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            raise SceneError(
                f"has {size / 2**20:.0f} MB, at most {MAX_FILE_BYTES // 2**20} are read. "
                "Meshes belong in files of their own"
            )
        return path.read_bytes().decode("utf-8-sig")
    except (OSError, ValueError) as error:
        reason = "is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else str(error)
        raise SceneError(f"cannot be read: {reason}") from error


def _parse(path: Path, text: str) -> Any:
    try:
        if path.suffix.lower() == ".json":
            return json.loads(text, object_pairs_hook=_no_twins)
        if _LONG_KEY.search(text):  # which tomllib takes minutes for
            raise SceneError("keys are nested too deeply")
        return tomllib.loads(text + "\n")  # else an error on the last line comes without number
    except SceneError:
        raise
    except RecursionError as error:
        raise SceneError("tables are nested too deeply") from error
    except ValueError as error:  # both parsers' errors, and numbers of thousands of digits
        kind = path.suffix[1:].upper()
        raise SceneError(f"{kind} syntax: {error}") from error


def _no_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """JSON keeps the last of two equal keys in silence; TOML refuses them, so do we."""
    table = dict(pairs)
    if len(table) < len(pairs):
        keys = [key for key, _ in pairs]
        raise SceneError("is given twice", key=next(k for k in keys if keys.count(k) > 1))
    return table


# --- reading --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Derived:
    """Defaults that depend on other keys."""

    up: str
    dimensions: int

    def of_table(self, key: str) -> dict[str, Any]:
        if key == "solver" and self.up == "y":
            return {"gravity": (0.0, -9.81, 0.0)}
        return {}

    def of_list(self, key: str, index: int, preset: str | None) -> dict[str, Any]:
        result: dict[str, Any] = {"name": f"{key}_{index + 1}"}
        if key == "fluid":
            result["color"] = PALETTE[index % len(PALETTE)]
            if preset in PRESETS:
                result |= vars(PRESETS[preset])
        if key == "force":
            # A vortex turns about the vertical; in a slice about the axis left out.
            upright = (self.up == "z") == (self.dimensions == 3)
            axis = 2 if upright else 1
            result["axis"] = tuple(float(k == axis) for k in range(3))
        return result


def _nearest(key: str, known: Iterable[str]) -> str:
    close = get_close_matches(key, list(known), 1)
    return f" Did you mean {close[0]}?" if close else ""


def _refuse_unknown(table: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    for key in table:
        if key not in known:
            path = f"{where}.{key}" if where else str(key)
            near = _nearest(str(key), known)
            raise SceneError(f"unknown key.{near} Known here: {', '.join(known)}", key=path)


def _read_fields(
    knobs: Sequence[Spec], table: Mapping[str, Any], where: str, defaults: Mapping[str, Any]
) -> dict[str, Any]:
    values = {}
    for spec in knobs:
        key = f"{where}.{spec.name}" if where else spec.name
        value = table.get(spec.name)
        if spec.name in table and not (value is None and spec.optional):
            read = _read_nested if spec.nested else Spec.read
            values[spec.name] = read(spec, value, key)
        elif spec.name in defaults:
            values[spec.name] = defaults[spec.name]
        elif spec.required:
            raise SceneError(f"is missing. {spec.label}: {spec.help_with_unit}", key=key)
        else:
            values[spec.name] = spec.default
    return values


def _read_part(cls: type, table: Any, where: str, defaults: Mapping[str, Any]) -> Any:
    if not isinstance(table, Mapping):
        raise SceneError("must be a table of keys", key=where, value=table)
    knobs = specs(cls)
    _refuse_unknown(table, [s.name for s in knobs], where)
    return cls(**_read_fields(knobs, table, where, defaults))


def _read_table(cls: type, table: Any, key: str, defaults: Mapping[str, Any]) -> Any:
    if isinstance(table, list | tuple):
        raise SceneError(f"there is only one; write [{key}], not [[{key}]]", key=key)
    return _read_part(cls, table, key, defaults)


def _read_list(cls: type, tables: Any, key: str, derived: _Derived) -> tuple[Any, ...]:
    if not isinstance(tables, list | tuple):
        raise SceneError(f"is a list of tables; write [[{key}]], not [{key}]", key=key)
    parts = []
    for i, table in enumerate(tables):
        preset = table.get("preset") if isinstance(table, Mapping) else None
        defaults = derived.of_list(key, i, preset if isinstance(preset, str) else None)
        parts.append(_read_part(cls, table, f"{key}[{i}]", defaults))
    return tuple(parts)


def _read_nested(spec: Spec, value: Any, key: str) -> Any:
    if spec.size == 1:
        return _read_shape(spec, value, key)
    if not isinstance(value, list | tuple):
        raise SceneError("must be a list of keyframes", key=key, value=value)
    return tuple(_read_part(Keyframe, v, f"{key}[{i}]", {}) for i, v in enumerate(value))


def _read_shape(spec: Spec, value: Any, key: str) -> Shape:
    if not isinstance(value, Mapping) or len(value) != 1:
        raise SceneError(
            f"must be a table of one key out of {', '.join(spec.supported)}, such as "
            "{ sphere = { center = [0, 0, 1], radius = 0.5 } }",
            key=key,
            value=value,
        )
    kind, table = next(iter(value.items()))
    _refuse_unknown(value, list(SHAPES), key)
    spec.check_choice(kind, key)
    if kind == "mesh" and isinstance(table, str):
        table = {"file": table}
    shape: Shape = _read_part(SHAPES[kind], table, f"{key}.{kind}", {})
    return shape


# --- writing --------------------------------------------------------------------------------------


def _plain_fields(part: Any, derived: Mapping[str, Any], with_defaults: bool) -> dict[str, Any]:
    result = {}
    for spec in specs(type(part)):
        value = getattr(part, spec.name)
        if with_defaults or value != derived.get(spec.name, spec.default):
            result[spec.name] = _plain(value)
    # A name made from the number would change its meaning when the list is edited.
    if "name" in derived:
        result["name"] = part.name
    return result


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(v) for v in value]
    for kind, cls in SHAPES.items():
        if isinstance(value, cls):
            return {kind: _plain_fields(value, {}, True)}
    if isinstance(value, Keyframe):
        return _plain_fields(value, {}, True)
    return value


# --- overrides ------------------------------------------------------------------------------------


def _override(data: dict[str, Any], override: str) -> None:
    path, equals, text = override.partition("=")
    path, text = path.strip(), text.strip()
    if not equals or not path or not text:
        raise SceneError(
            "an override is key.path=value, such as solver.tolerance=0.02",
            key="override",
            value=override,
        )
    table, key = _locate(data, path)
    table[key] = _toml_value(text)


def _toml_value(text: str) -> Any:
    """A TOML value; what is none is a text, so that words need no quotes on a command line."""
    try:
        parsed = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    return parsed["value"] if len(parsed) == 1 else text


def _locate(data: dict[str, Any], path: str) -> tuple[Any, Any]:
    """The table and the key in it that a path such as `source.dam.shape.box.min[0]` means."""
    here: Any = data
    rest, done = path, ""
    while True:
        key, rest = _next_key(here, rest, path, done)
        if not rest:
            return here, key
        done = path[: len(path) - len(rest)].rstrip(".")
        if isinstance(here, dict):
            here = here.setdefault(key, {})
        else:
            here = here[key]


def _next_key(here: Any, rest: str, path: str, done: str) -> tuple[Any, str]:
    """Next key or index, and what of the path is left."""
    if isinstance(here, list):
        if index := re.match(r"\[(\d+)\]\.?", rest):
            if int(index[1]) >= len(here):
                raise SceneError(f"{done} has only {len(here)} entries, from 0", key=path)
            return int(index[1]), rest[index.end() :]
        names = [(i, str(p.get("name"))) for i, p in enumerate(here) if isinstance(p, dict)]
        # Names may hold dots: the longest that fits is meant.
        for i, name in sorted(names, key=lambda pair: -len(pair[1])):
            if rest == name or rest.startswith(name + "."):
                return i, rest[len(name) + 1 :]
        known = [name for _, name in names]
        raise SceneError(
            f"{done} has no entry of this name.{_nearest(rest.split('.')[0], known)} "
            f"There are: {', '.join(known) or 'none'}; or give a number, {done}[0]",
            key=path,
        )
    if not isinstance(here, dict):
        raise SceneError(f"{done} is a single value", key=path)
    if not (match := re.match(r"([^.\[\]]+)(\.(?=.)|(?=\[)|$)", rest)):
        raise SceneError("is not a path of keys such as source.dam.spacing", key=path)
    return match[1], rest[match.end() :]


# --- checks of values against each other ----------------------------------------------------------


def _check(scene: Scene) -> None:
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
        if force.kind == "vortex" and not any(force.axis):
            raise SceneError("must not be zero", key=f"force[{i}].axis", value=force.axis)
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
            f"no fluid of this name.{_nearest(source.fluid, names)} There are: {', '.join(names)}",
            key=f"{key}.fluid",
            value=source.fluid,
        )
    _check_placed(scene, source, key)
    if source.kind == "emitter":
        _check_emitter(scene, source, key)
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
        where = f"{key}.motion[{i}]"
        _check_turn(scene, keyframe.rotation, f"{where}.rotation")
        if i and keyframe.frame <= part.motion[i - 1].frame:
            raise SceneError(
                "keyframes must be in order, each after the one before",
                key=f"{where}.frame",
                value=keyframe.frame,
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


def _check_mesh_file(scene: Scene, shape: MeshFile, key: str, of_source: bool) -> None:
    """Scenes come from strangers: a mesh path may not lead out of the scene's folder."""
    path = scene.mesh_path(shape)
    suffixes = MESH_SUFFIXES if of_source else MESH_SUFFIXES + FIELD_SUFFIXES
    if path.suffix.lower() not in suffixes:
        raise MeshError(f"a mesh file ends in {', '.join(suffixes)}", key=key, value=shape.file)
    if not scene.allow_outside and not _is_inside(path, shape.file, scene.directory or Path()):
        raise MeshError(
            "lies outside of the scene's folder. Move it there and give the path from there, or "
            "load with allow_outside=True",
            key=key,
            value=shape.file,
        )
    if shape.is_sequence:
        path = _check_sequence(scene, shape, key, of_source)
    if not path.is_file():
        raise MeshError(f"there is no file {path}", key=key, value=shape.file)
    if path.suffix.lower() in FIELD_SUFFIXES:
        return
    try:
        _mesh_box(path, path.stat().st_mtime_ns)
    except MeshError as error:
        error.key, error.value = key, shape.file
        raise


def _check_sequence(scene: Scene, shape: MeshFile, key: str, of_source: bool) -> Path:
    """One file a frame, none missing; the first of them."""
    if of_source or len(re.findall(r"#+", shape.file)) > 1 or "#" in str(Path(shape.file).parent):
        what = "sources do not deform" if of_source else "only one run of #, in the file's name"
        raise MeshError(f"# stands for the number of a frame: {what}", key=key, value=shape.file)
    if Path(shape.file).suffix.lower() in FIELD_SUFFIXES:
        raise MeshError("a sequence needs meshes, for velocities", key=key, value=shape.file)
    frames = scene.mesh_frames(shape)
    if not frames:
        raise MeshError("there is no file of this pattern", key=key, value=shape.file)
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
        index = max(range(len(scene.sources)), key=lambda i: _estimate(scene, scene.sources[i]))
        raise SceneError(
            f"the scene would have {count:.3g} particles, at most {MAX_PARTICLES:.3g} are allowed; "
            "this source has most: raise its spacing or make it smaller",
            key=f"source[{index}].spacing",
            value=scene.sources[index].spacing,
        )


# --- particle counts ------------------------------------------------------------------------------


def _estimate(scene: Scene, source: Source) -> int:
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
        path = scene.mesh_path(shape)
        return _mesh_box(path, path.stat().st_mtime_ns)
    if isinstance(shape, Plane):
        raise SceneError("a source needs an end", key=f"source.{source.name}.shape.plane")
    return shape


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
