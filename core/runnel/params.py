"""Every knob, declared once: type, unit, hard and soft range, default, help.

The scene reader, the JSON schema, the reference page, the command line and the panels of both
hosts are made from `specs(cls)`. The dataclasses are plain data: `Scene.from_dict` reads and checks
them and picks the defaults that depend on other keys (gravity on `up`, a fluid on its preset).
"""

# ruff: noqa: RUF009  `param` makes dataclass fields; ruff only knows `field`.

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from .presets import PRESETS
from .spec import REQUIRED, Range, param

Vec3 = tuple[float, float, float]

# Names end up in file names and in `--set` paths: no separators, no control characters.
_BAD = r"\x00-\x1f\x7f-\x9f\\\ud800-\udfff"  # inside of [^...]
NAME = rf"(?!\.{{1,2}}$)[^ /{_BAD}][^/{_BAD}]{{0,63}}"
NAME_TEXT = "1 to 64 printable characters without / and \\"
CHANNEL = r"[A-Za-z_][A-Za-z0-9_]{0,63}"
CHANNEL_TEXT = "a name of letters, digits and _"
FILE_TEXT = "a path of printable characters with / between folders"
FILE = rf"[^{_BAD}]{{1,4096}}"

REACH = 1.0e6  # farthest coordinate [m]; float32 resolves 6 cm there
TINY = 1.0e-6  # smallest length [m]
_WORLD: Range = (-REACH, REACH)
_FRAME: Range = (-1_000_000, 1_000_000)


# A knob reads as a paragraph: what it is, its numbers, its help.
# fmt: off

# --- shapes ---------------------------------------------------------------------------------------


# volume(axes): volume over the axes that count [m^3], in 2D area [m^2].
# area(direction, axes): area seen along a direction [m^2], in 2D width [m].


def _unit(direction: Sequence[float], axes: Sequence[int]) -> list[float]:
    length = math.sqrt(sum(direction[k] ** 2 for k in axes)) or 1.0
    return [direction[k] / length for k in axes]


def _point(default: Any, help: str) -> Any:
    return param(default, unit="m", hard=_WORLD, soft=(-10, 10), help=help)


@dataclass(frozen=True, kw_only=True)
class Box:
    """A box along the axes, from `min` to `max`."""

    min: Vec3 = _point(REQUIRED, "Lowest corner.")
    max: Vec3 = _point(REQUIRED, "Highest corner.")

    def volume(self, axes: Sequence[int]) -> float:
        return math.prod(self.max[k] - self.min[k] for k in axes)

    def area(self, direction: Sequence[float], axes: Sequence[int]) -> float:
        unit = _unit(direction, axes)
        size = [self.max[k] - self.min[k] for k in axes]
        sides = (math.prod(size[:i] + size[i + 1 :]) for i in range(len(size)))
        return sum(abs(u) * side for u, side in zip(unit, sides, strict=True))


@dataclass(frozen=True, kw_only=True)
class Sphere:
    """A ball; a disc in 2D."""

    center: Vec3 = _point(REQUIRED, "Centre.")
    radius: float = param(unit="m", hard=(TINY, REACH), soft=(0.01, 10), help="Radius.")

    def volume(self, axes: Sequence[int]) -> float:
        return math.pi * self.radius**2 * (4 / 3 * self.radius if len(axes) == 3 else 1.0)

    def area(self, direction: Sequence[float], axes: Sequence[int]) -> float:
        return math.pi * self.radius**2 if len(axes) == 3 else 2 * self.radius


@dataclass(frozen=True, kw_only=True)
class Cylinder:
    """A cylinder with flat ends; the middle of one end is `start`, of the other `end`."""

    start: Vec3 = _point(REQUIRED, "Middle of the first end.")
    end: Vec3 = _point(REQUIRED, "Middle of the second end.")
    radius: float = param(unit="m", hard=(TINY, REACH), soft=(0.01, 10), help="Radius.")

    def volume(self, axes: Sequence[int]) -> float:
        length = math.sqrt(sum((self.end[k] - self.start[k]) ** 2 for k in axes))
        if len(axes) == 3:
            return math.pi * self.radius**2 * length
        # A slice across the axis is a disc, one along it a rectangle.
        return 2 * self.radius * length if length else math.pi * self.radius**2

    def area(self, direction: Sequence[float], axes: Sequence[int]) -> float:
        axis = [self.end[k] - self.start[k] for k in axes]
        length = math.hypot(*axis)
        along = abs(sum(a * u for a, u in zip(axis, _unit(direction, axes), strict=True)))
        across = math.sqrt(max(length**2 - along**2, 0.0))
        share = along / length if length else 1.0
        if len(axes) == 3:
            return math.pi * self.radius**2 * share + 2 * self.radius * across
        return 2 * self.radius * share + across


@dataclass(frozen=True, kw_only=True)
class Plane:
    """Everything behind a plane. For colliders and sinks; sources need an end."""

    point: Vec3 = _point((0.0, 0.0, 0.0), "A point of the plane.")
    normal: Vec3 = param(hard=_WORLD, soft=(-1, 1), help="Points into the free side; any length.")


def _sequence_frames() -> Any:
    return param(
        None, hard=_FRAME, ordered=True, default_text="those of the files that are there",
        help="First and last frame of a sequence. Files are then looked for when they are needed, "
        "so that another program may write them meanwhile.",
    )


@dataclass(frozen=True, kw_only=True)
class MeshFile:
    """A triangle mesh. `mesh = "file.obj"` is short for this. Sources need a closed one."""

    file: str = param(
        pattern=FILE,
        pattern_text=FILE_TEXT,
        help="OBJ, STL, PLY or OFF file, relative to the scene's folder and inside of it; of "
        "colliders and sinks also a level set (.vdb). What deforms is a file a frame: in "
        "walk_####.obj, #### stands for the number of the frame, 0001 and so on.",
    )
    frames: tuple[int, int] | None = _sequence_frames()

    @property
    def is_sequence(self) -> bool:
        """Whether it is a file per frame."""
        return "#" in self.file


@dataclass(frozen=True, kw_only=True)
class PointFile:
    """Points that are particles. `points = "file.bgeo"` is short for this.

    P, v, pscale (the radius), phase (number of the fluid) and age are taken as they are, id as
    `source_id`; other numbers become channels that stay with the particles. A volume has them
    once; an emitter each frame anew, where there is room.
    """

    file: str = param(
        pattern=FILE,
        pattern_text=FILE_TEXT,
        help="Houdini geometry (.bgeo) or PLY file, relative to the scene's folder and inside of "
        "it. Of emitters also a sequence: in rain_####.bgeo, #### stands for the number of the "
        "frame.",
    )
    frames: tuple[int, int] | None = _sequence_frames()

    @property
    def is_sequence(self) -> bool:
        """Whether it is a file per frame."""
        return "#" in self.file


@dataclass(frozen=True, kw_only=True)
class FieldFile:
    """Velocities that a force pulls towards."""

    file: str
    frames: tuple[int, int] | None = None

    @property
    def is_sequence(self) -> bool:
        """Whether it is a file per frame."""
        return "#" in self.file


AnyFile = MeshFile | PointFile | FieldFile
Shape = Box | Sphere | Cylinder | Plane | MeshFile | PointFile
SHAPES: Final[dict[str, type]] = {
    "box": Box,
    "sphere": Sphere,
    "cylinder": Cylinder,
    "plane": Plane,
    "mesh": MeshFile,
    "points": PointFile,
}
_SOLIDS = ("box", "sphere", "cylinder", "plane", "mesh")


def _of_force(name: str, **more: Any) -> Any:
    return param(None, default_text="the force's", help=f"As the force's {name}.", **more)


@dataclass(frozen=True, kw_only=True)
class Keyframe:
    """Where a moving object is at a frame. Between keyframes it moves evenly."""

    frame: float = param(hard=_FRAME, help="Frame; may lie between two.")
    position: Vec3 = _point((0.0, 0.0, 0.0), "Translation.")
    rotation: Vec3 = param(
        (0.0, 0.0, 0.0), unit="deg", hard=(-1e6, 1e6), soft=(-180, 180),
        help="Rotation about x, then y, then z. Each angle changes evenly up to the next keyframe:"
        " from 0 to 360 is a full turn.",
    )


@dataclass(frozen=True, kw_only=True)
class ForceKeyframe:
    """A force at a frame; what is left out is the force's own. In between all changes evenly."""

    frame: float = param(hard=_FRAME, help="Frame; may lie between two.")
    strength: float | None = _of_force("strength", unit="1/s or m/s^2", hard=(-1e6, 1e6))
    velocity: Vec3 | None = _of_force("velocity", unit="m/s", hard=(-1e5, 1e5))
    center: Vec3 | None = _of_force("center", unit="m", hard=_WORLD)
    axis: Vec3 | None = _of_force("axis", hard=_WORLD)
    radius: float | None = _of_force("radius", unit="m", hard=(TINY, REACH))


# --- what the parts of a scene have in common -----------------------------------------------------


def _name() -> Any:
    return param("", pattern=NAME, pattern_text=NAME_TEXT, default_text="its kind and number",
                 help="Name, unique in its list.")


def _position() -> Any:
    return _point((0.0, 0.0, 0.0), "Moves the shape.")


def _rotation() -> Any:
    return param((0.0, 0.0, 0.0), unit="deg", hard=(-1e6, 1e6), soft=(-180, 180),
                 help="Turns the shape about x, then y, then z of the origin.")


def _scale() -> Any:
    return param(1.0, hard=(TINY, REACH), soft=(0.01, 100), help="Enlarges the shape, evenly.")


def _motion() -> Any:
    return param((), help="Keyframes of a moving shape; they take the place of position, rotation.")


def _frames(help: str) -> Any:
    return param(None, hard=_FRAME, soft=(1, 250), ordered=True, help=help,
                 default_text="all frames of the scene")


# --- parts of a scene -----------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Solver:
    """How the equations are solved; the defaults serve most shots."""

    time_step: float | Literal["auto"] = param(
        "auto", unit="s", hard=(1e-5, 0.1), soft=(0.001, 0.02),
        help="Length of a step, shortened so that steps divide a frame evenly. "
        '"auto" follows the speed of the fluid (see cfl).',
    )
    cfl: float = param(
        1.5, hard=(0.05, 4.0), soft=(0.2, 2.0), label="CFL",
        help='Spacings the fluid may travel in a step when time_step is "auto"; single drops three '
        "times as far, solids and streams out of emitters one at most.",
    )
    max_time_step: float = param(
        0.016, unit="s", hard=(1e-5, 0.1), soft=(0.001, 0.04),
        help='Longest step when time_step is "auto".',
    )
    iterations: tuple[int, int] = param(
        (4, 20), hard=(1, 1000), soft=(2, 50), ordered=True,
        help="Least and most solver iterations of a step; equal numbers fix the count.",
    )
    tolerance: float = param(
        0.01, hard=(1e-6, 1.0), soft=(0.001, 0.1),
        help="Average relative compression at which iterations stop.",
    )
    gravity: Vec3 = param(
        (0.0, 0.0, -9.81), unit="m/s^2", hard=(-1e5, 1e5), soft=(-20, 20),
        default_text='[0, 0, -9.81], with up = "y" [0, -9.81, 0]', help="Gravity.",
    )
    kernel: Literal["even", "wendland", "poly6", "cubic", "gaussian"] = param(
        "even",
        help="Smoothing kernel. even follows wendland and is faster; poly6, with the spiky kernel "
        "for gradients, is that of the papers.",
    )
    support: float = param(
        4.4, hard=(3.0, 6.0), soft=(4.0, 5.0),
        help="Kernel radius in particle radii. More is smoother and slower; at 4 a fluid at rest "
        "freezes into a lattice.",
    )
    multiplier: Literal["prototype", "exact"] = param(
        "prototype",
        help="Stiffness of the density constraint: of a full neighbourhood, or of each particle's "
        "own (slower, the reference).",
    )
    long_waves: bool = param(
        False,
        help="Take long waves of compression on a coarse grid: fluid of 24 layers and more keeps "
        "its volume and rests sooner. Not with bodies that the fluid moves.",
    )
    reorder_interval: int = param(
        1, hard=(1, 1000), soft=(1, 20),
        help="Steps between full sorts of the particle data. A matter of speed only.",
    )


@dataclass(frozen=True, kw_only=True)
class Fluid:
    """A liquid. `preset` fills in the other keys; those given win."""

    name: str = _name()
    preset: str | None = param(None, choices=tuple(PRESETS), help="Liquid to start from.")
    density: float = param(
        1000.0, unit="kg/m^3", hard=(1e-3, 1e6), soft=(1, 3000), default_text="1000, or the preset",
        help="Rest density.",
    )
    viscosity: float = param(
        0.0, hard=(0.0, 1e4), soft=(0.0, 100.0), default_text="0, or the preset",
        help="Damping c of the XSPH model (P004 eq. 8), not SI: 0 is inviscid, 10 honey, 75 "
        "toothpaste at millimetre spacing. Each 0.5 costs a pass over the particles.",
    )
    surface_tension: float = param(
        0.0, hard=(0.0, 1.0), soft=(0.0, 1.0), default_text="0, or the preset",
        help="Kappa (P004 4.2), not SI: 0 none, 1 beads strongly. Large scenes want 0.",
    )
    vorticity: float = param(
        0.0, hard=(0.0, 1e4), soft=(0.0, 1.0), default_text="0, or the preset",
        help="Strength of vorticity confinement, which feeds small swirls.",
    )
    color: Vec3 = param(
        (0.0, 0.45, 0.70), hard=(0.0, 1.0), soft=(0.0, 1.0),
        default_text="the preset's, or one of a palette",
        help="Colour in previews: red, green, blue as displayed (sRGB).",
    )


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where fluid comes from: a volume filled once, or an emitter."""

    name: str = _name()
    fluid: str = param(pattern=NAME, pattern_text=NAME_TEXT, help="Name of the fluid.")
    kind: Literal["volume", "emitter"] = param(
        "volume", help='"volume" is filled once, "emitter" emits over its frames.',
    )
    shape: Shape = param(
        choices=("box", "sphere", "cylinder", "mesh", "points"),
        help="Region that is filled, or that a stream leaves; or the particles themselves.",
    )
    spacing: float = param(
        unit="m", hard=(TINY, 1e4), soft=(0.001, 0.5),
        help="Distance between particles, twice their radius. Half of it is eight times the "
        "particles. Sources may differ.",
    )
    velocity: Vec3 = param(
        (0.0, 0.0, 0.0), unit="m/s", hard=(-1e5, 1e5), soft=(-10, 10),
        help="Initial velocity. Of an emitter: direction, and speed unless speed or rate is "
        "given; turns with the shape.",
    )
    frames: tuple[int, int] | None = _frames("First and last frame of emission.")
    rate: float | None = param(
        None, unit="m^3/s", hard=(0.0, 1e9), soft=(0.0, 10.0), default_text="from the speed",
        help="Volume an emitter gives (m^2/s in 2D); its speed follows from the area across the "
        "stream, at its start if it deforms. Give this or speed, not both.",
    )
    speed: float | None = param(
        None, unit="m/s", hard=(0.0, 1e5), soft=(0.0, 20.0), default_text="length of velocity",
        help="Speed of an emitter's stream along velocity.",
    )
    inherit_velocity: float = param(
        0.0, hard=(0.0, 1.0), soft=(0.0, 1.0),
        help="Share of the source's own motion added to the particles' velocity.",
    )
    jitter: float = param(
        0.0, hard=(0.0, 0.5), soft=(0.0, 0.5),
        help="Random displacement of new particles, in spacings.",
    )
    seed: int | None = param(
        None, hard=(0, 2**31 - 1), default_text="the scene's", help="Seed of the jitter.",
    )
    lifetime: float | None = param(
        None, unit="s", hard=(0.0, 1e9), soft=(0.0, 60.0), default_text="without end",
        help="Age at which particles vanish.",
    )
    position: Vec3 = _position()
    rotation: Vec3 = _rotation()
    scale: float = _scale()
    motion: tuple[Keyframe, ...] = _motion()

    @property
    def direction(self) -> Vec3:
        """Way of an emitter's stream, any length: velocity, or a cylinder from start to end."""
        if not any(self.velocity) and isinstance(self.shape, Cylinder):
            start, end = self.shape.start, self.shape.end
            return (end[0] - start[0], end[1] - start[1], end[2] - start[2])
        return self.velocity


def _map(what: str) -> Any:
    return param(
        None, pattern=FILE, pattern_text=FILE_TEXT, default_text="the same everywhere",
        help=f"Scales {what} over a mesh: an image (.png, .jpg, .tif) through its texture "
        "coordinates, black 0 and white 1, or the name of a vertex attribute of a PLY file.",
    )


@dataclass(frozen=True, kw_only=True)
class Collider:
    """A solid: an obstacle, or a container."""

    name: str = _name()
    shape: Shape = param(
        choices=_SOLIDS, help="The solid, or the hollow of a container.",
    )
    mode: Literal["outside", "inside", "shell"] = param(
        "outside",
        help='"outside" keeps fluid outside of the shape (an obstacle), "inside" within it (a '
        'container), "shell" on both sides of its surface (open or thin objects).',
    )
    voxel_size: float | None = param(
        None, unit="m", hard=(TINY, 1e4), soft=(0.001, 1.0),
        default_text="0.75 of the smallest spacing",
        help="Cell of a mesh's distance field; also half the thickness of a shell.",
    )
    offset: float = param(
        0.0, unit="m", hard=(-1e4, 1e4), soft=(-0.1, 0.1),
        help="Moves the surface into the fluid. Thin parts of meshes need some.",
    )
    band_width: float | None = param(
        None, unit="m", hard=(TINY, 1e4), soft=(0.001, 1.0),
        default_text="the kernel radius and 1.73 voxels",
        help="How far from its surface a mesh's field knows distances; at least the default.",
    )
    friction: float = param(
        0.0, hard=(0.0, 1e3), soft=(0.0, 1.0), help="Coulomb friction; 0 slips freely.",
    )
    bounce: float = param(
        0.0, hard=(0.0, 1.0), soft=(0.0, 1.0), help="Share of the impact speed given back.",
    )
    stickiness: float = param(
        0.0, hard=(0.0, 1.0), soft=(0.0, 1.0),
        help="Share of the velocity lost at the wall in 1/60 s; 1 holds fast.",
    )
    friction_map: str | None = _map("friction")
    bounce_map: str | None = _map("bounce")
    stickiness_map: str | None = _map("stickiness")
    wet_map: Literal["none", "exr", "png"] = param(
        "none",
        help="Images of where fluid has touched a mesh, one a frame, through its texture "
        "coordinates: red how wet (0 to 1), green how long [s; PNG: ms of 65 535], blue now.",
    )
    wet_map_size: int = param(
        512, unit="px", hard=(8, 8192), soft=(128, 4096), help="Width and height of wet maps.",
    )
    drying_time: float | None = param(
        None, unit="s", hard=(1e-3, 1e9), soft=(0.1, 60.0), default_text="stays wet",
        help="Time in which a wet place of the wet map dries.",
    )
    wet_friction: float | None = param(
        None, hard=(0.0, 1e3), soft=(0.0, 1.0), default_text="as dry",
        help="Friction where the wet map is 1; in between it is mixed.",
    )
    wet_stickiness: float | None = param(
        None, hard=(0.0, 1.0), soft=(0.0, 1.0), default_text="as dry",
        help="Stickiness where the wet map is 1; in between it is mixed.",
    )
    body: Literal["static", "animated", "rigid", "deformable"] = param(
        "static",
        help='"static" stands still, "animated" follows motion, "rigid" and "deformable" are moved '
        "by the fluid. A rigid body follows motion up to its last keyframe, then it is free.",
    )
    density: float = param(
        500.0, unit="kg/m^3", hard=(1e-3, 1e6), soft=(50, 8000),
        help="Of a body that the fluid moves; mass takes its place.",
    )
    mass: float | None = param(
        None, unit="kg", hard=(1e-9, 1e12), soft=(0.01, 1000), default_text="from density",
        help="Of a body that the fluid moves (kg/m in 2D).",
    )
    velocity: Vec3 = param(
        (0.0, 0.0, 0.0), unit="m/s", hard=(-1e5, 1e5), soft=(-10, 10),
        help="Of a body's centre of mass at the start.",
    )
    angular_velocity: Vec3 = param(
        (0.0, 0.0, 0.0), unit="deg/s", hard=(-1e6, 1e6), soft=(-720, 720),
        help="Of a body at the start.",
    )
    lock_translation: tuple[Literal["x", "y", "z"], ...] = param(
        (), help='Axes of the world that a body\'s centre does not move along: ["x", "y"].',
    )
    lock_rotation: tuple[Literal["x", "y", "z"], ...] = param(
        (), help="Axes of the world that a body does not turn about.",
    )
    stretch_compliance: float = param(
        0.0, unit="m/N", hard=(0.0, 1e6), soft=(0.0, 0.01),
        help="How far the edges of a deformable body give way; 0 keeps their lengths.",
    )
    bend_compliance: float = param(
        0.01, unit="m/N", hard=(0.0, 1e6), soft=(0.0, 1.0),
        help="The same across edges, against bending.",
    )
    pin: Shape | None = param(
        None, choices=("box", "sphere", "cylinder"), default_text="nothing",
        help="Vertices of a deformable body that are in here at the start stay where they are.",
    )
    contact_friction: float = param(
        0.5, hard=(0.0, 1e3), soft=(0.0, 1.0),
        help="Between bodies, and of this collider against bodies; of two, the geometric mean.",
    )
    position: Vec3 = _position()
    rotation: Vec3 = _rotation()
    scale: float = _scale()
    motion: tuple[Keyframe, ...] = _motion()


@dataclass(frozen=True, kw_only=True)
class Sink:
    """A region that removes fluid."""

    name: str = _name()
    shape: Shape = param(
        choices=_SOLIDS, help="Particles in here vanish.",
    )
    frames: tuple[int, int] | None = _frames("First and last frame at which the sink is open.")
    position: Vec3 = _position()
    rotation: Vec3 = _rotation()
    scale: float = _scale()
    motion: tuple[Keyframe, ...] = _motion()


@dataclass(frozen=True, kw_only=True)
class Force:
    """A field of acceleration, beside gravity."""

    name: str = _name()
    kind: Literal["wind", "drag", "point", "vortex", "field", "points"] = param(
        help='"wind" pulls towards velocity, "drag" towards rest, "point" towards center, '
        '"vortex" around axis, "field" towards the velocities of a file. "points": each point of '
        "a file is a force of its own.",
    )
    strength: float = param(
        1.0, unit="1/s or m/s^2", hard=(-1e6, 1e6), soft=(-20, 20),
        help="Wind, drag, field: share of the difference in velocity made up per second [1/s]. "
        "Point, vortex: acceleration [m/s^2]; negative repels or turns the other way.",
    )
    velocity: Vec3 = param(
        (0.0, 0.0, 0.0), unit="m/s", hard=(-1e5, 1e5), soft=(-20, 20), help="Velocity of the wind.",
    )
    center: Vec3 = _point((0.0, 0.0, 0.0), "Centre of a point or vortex.")
    axis: Vec3 = param(
        (0.0, 0.0, 1.0), hard=_WORLD, soft=(-1, 1), help="Axis of a vortex; any length.",
    )
    radius: float | None = param(
        None, unit="m", hard=(TINY, REACH), soft=(0.1, 10), default_text="unlimited",
        help="Reach; the field falls off linearly to 0 there.",
    )
    frames: tuple[int, int] | None = _frames("First and last frame at which the force acts.")
    field: str | None = param(
        None, pattern=FILE, pattern_text=FILE_TEXT, default_text="none",
        help="File of a field: a grid of vectors (.vdb), which acts where voxels are active, or "
        "points with v (.bgeo, .ply), which act around them. Of points that are forces: kind (0 "
        "wind, 1 drag, 2 point, 3 vortex), strength, v, N (axis), pscale (radius) and id, which "
        "tells them apart. In gust_####.vdb, #### stands for the number of the frame; between "
        "frames all is mixed.",
    )
    field_frames: tuple[int, int] | None = _sequence_frames()
    field_scale: float = param(
        1.0, hard=(-1e6, 1e6), soft=(-10, 10), help="Multiplies the velocities of the file.",
    )
    voxel_size: float | None = param(
        None, unit="m", hard=(TINY, 1e4), soft=(0.01, 1.0),
        default_text="twice the points' mean distance",
        help="Of a field of points: distance of the nodes that their velocities go to, and as far "
        "as each reaches.",
    )

    keyframes: tuple[ForceKeyframe, ...] = param(
        (), help="Of a force that moves or changes. Before the first and after the last it stays.",
    )

    @property
    def has_file(self) -> bool:
        return self.kind in ("field", "points")

    @property
    def file(self) -> FieldFile:
        """Of a field, or of points."""
        return FieldFile(file=self.field or "", frames=self.field_frames)


@dataclass(frozen=True, kw_only=True)
class Domain:
    """Limits of the simulated space. Without them it is unbounded."""

    min: Vec3 | None = param(None, unit="m", hard=_WORLD, soft=(-10, 10),
                             default_text="unbounded", help="Lowest corner.")
    max: Vec3 | None = param(None, unit="m", hard=_WORLD, soft=(-10, 10),
                             default_text="unbounded", help="Highest corner.")
    mode: Literal["kill", "close"] = param(
        "kill", help='"kill" removes what leaves, "close" puts walls there.',
    )


CHANNELS: Final[dict[str, str]] = {
    "position": "m",
    "velocity": "m/s",
    "radius": "half the spacing, m",
    "mass": "kg (kg/m in 2D)",
    "density": "kg/m^3",
    "phase": "number of the fluid, from 0",
    "id": "stays with a particle for life",
    "age": "s",
    "vorticity": "1/s",
    "pressure": "of the last iteration, Pa",
}


@dataclass(frozen=True, kw_only=True)
class Output:
    """What the cache holds."""

    channels: tuple[str, ...] = param(
        ("position", "velocity", "radius", "density", "phase", "id"),
        pattern=CHANNEL, pattern_text=CHANNEL_TEXT,
        help="Channels to write: " + ", ".join(CHANNELS) + ", and names added from Python.",
    )


# Tables of a scene file, and lists of tables.
TABLES: Final[dict[str, type]] = {"solver": Solver, "domain": Domain, "output": Output}
LISTS: Final[dict[str, type]] = {
    "fluid": Fluid,
    "source": Source,
    "collider": Collider,
    "sink": Sink,
    "force": Force,
}
