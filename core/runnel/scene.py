"""Scene: everything a simulation is made of, as immutable data; read from TOML, JSON or dicts.

`Scene.load` and `Scene.from_dict` check each value against its declaration in `params`, and the
values against each other. Errors are SceneError and name the file, the key and what is allowed.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any, Final, Literal

from .collider_maps import image_maps
from .errors import SceneError, nearest
from .params import (
    LISTS,
    NAME,
    NAME_TEXT,
    SHAPES,
    TABLES,
    AnyFile,
    Box,
    Collider,
    Cylinder,
    Domain,
    Fluid,
    Force,
    ForceKeyframe,
    Keyframe,
    MeshFile,
    Output,
    Plane,
    Shape,
    Sink,
    Solver,
    Source,
    Sphere,
)
from .presets import PALETTE, PRESETS
from .scene_checks import check, estimate, spacings
from .spec import Spec, param, specs

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
        check(self)

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

    def mesh_path(self, shape: AnyFile, frame: int | None = None) -> Path:
        """Where a file of a shape lies; of a sequence that of a frame."""
        file = shape.file
        if frame is not None:
            file = re.sub(r"#+", lambda run: f"{frame:0{len(run[0])}d}", file)
        return (self.directory or Path()) / file

    def mesh_frames(self, shape: AnyFile) -> list[int]:
        """Frames that a sequence has files of, or says it will have, rising."""
        if shape.frames is not None:
            return list(range(shape.frames[0], shape.frames[1] + 1))
        path = self.mesh_path(shape)
        start, run, end = re.split(r"(#+)", path.name, maxsplit=1)
        pattern = re.compile(rf"{re.escape(start)}(\d{{{len(run)},}}){re.escape(end)}")
        found = (pattern.fullmatch(file.name) for file in path.parent.glob("*"))
        return sorted(int(match[1]) for match in found if match)

    def files(self) -> list[Path]:
        """Meshes, maps and fields that the scene names, sequences file by file."""
        parts: list[Source | Collider | Sink] = [*self.sources, *self.colliders, *self.sinks]
        shapes: list[AnyFile | Shape] = [part.shape for part in parts]
        shapes += [force.file for force in self.forces if force.has_file]
        folder = self.directory or Path()
        found = {path for part in self.colliders for path in image_maps(folder, part)}
        for shape in shapes:
            if isinstance(shape, AnyFile):
                frames = self.mesh_frames(shape) if shape.is_sequence else [None]
                found |= {self.mesh_path(shape, frame) for frame in frames}
        return sorted(found)

    @property
    def ignored_axis(self) -> int:
        """Axis that a 2D scene leaves out; -1 in 3D."""
        if self.dimensions == 3:
            return -1
        return 1 if self.up == "z" else 2

    @cached_property
    def smallest_spacing(self) -> float:
        """Spacing of the finest source [m]."""
        return min(spacings(self, source)[0] for source in self.sources)

    @cached_property
    def largest_spacing(self) -> float:
        """Spacing of the coarsest source [m]."""
        return max(spacings(self, source)[1] for source in self.sources)

    @property
    def axes(self) -> tuple[int, ...]:
        """Axes that count: all three, or two in 2D."""
        return tuple(axis for axis in range(3) if axis != self.ignored_axis)

    def estimate_particles(self) -> int:
        """Most particles alive at once, from volumes, rates and lifetimes.

        Solids and sinks are not looked at, and meshes count as the box around them, so this is
        rather too many.
        """
        return sum(estimate(self, source) for source in self.sources)


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
            f"no shipped scene of this name.{nearest(name, known)} There are: {', '.join(known)}",
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


def _refuse_unknown(table: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    for key in table:
        if key not in known:
            path = f"{where}.{key}" if where else str(key)
            near = nearest(str(key), known)
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
    (kind,) = spec.nested
    return tuple(_read_part(kind, v, f"{key}[{i}]", {}) for i, v in enumerate(value))


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
    if kind in ("mesh", "points") and isinstance(table, str):
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
            table = _plain_fields(value, {}, True)
            return {kind: {key: part for key, part in table.items() if part is not None}}
    if isinstance(value, Keyframe | ForceKeyframe):
        table = _plain_fields(value, {}, True)
        return {key: part for key, part in table.items() if part is not None}
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
            f"{done} has no entry of this name.{nearest(rest.split('.')[0], known)} "
            f"There are: {', '.join(known) or 'none'}; or give a number, {done}[0]",
            key=path,
        )
    if not isinstance(here, dict):
        raise SceneError(f"{done} is a single value", key=path)
    if not (match := re.match(r"([^.\[\]]+)(\.(?=.)|(?=\[)|$)", rest)):
        raise SceneError("is not a path of keys such as source.dam.spacing", key=path)
    return match[1], rest[match.end() :]
