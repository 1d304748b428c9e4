# SPDX-License-Identifier: GPL-3.0-or-later
"""Which of core's knobs a panel shows, and where. The knobs themselves are declared in core.

Knows nothing of Blender: the page docs/blender/panels.md is made from it too.
"""

from __future__ import annotations

from dataclasses import dataclass

from runnel.params import Collider, Domain, Fluid, Force, Output, Sink, Solver, Source
from runnel.scene import Scene
from runnel.spec import Spec, specs

# What the host tells: shapes and places come from objects, the rest from the scene's own settings.
FROM_HOST = {
    Scene: ("name", "fps", "frames", "up"),
    Solver: ("gravity",),
    Fluid: ("name",),
    Source: ("name", "kind", "fluid", "shape", "position", "rotation", "scale", "motion"),
    Collider: ("name", "shape", "body", "pin", "position", "rotation", "scale", "motion"),
    Sink: ("name", "shape", "position", "rotation", "scale", "motion"),
    Force: ("name", "center", "axis", "keyframes"),
    Domain: ("min", "max"),
    Output: (),
}


@dataclass(frozen=True)
class Section:
    """A box of a panel: knobs shown at once, and those folded under "More"."""

    title: str
    cls: type  # core's declarations
    first: tuple[str, ...]
    more: tuple[str, ...] = ()
    help: str = ""

    def specs(self, names: tuple[str, ...]) -> list[Spec]:
        found = {spec.name: spec for spec in specs(self.cls)}
        return [found[name] for name in names]


_CONTACT = ("friction", "stickiness", "bounce")
_FIELD = ("voxel_size", "offset", "band_width")
_MAPS = ("friction_map", "bounce_map", "stickiness_map")
_WET = ("wet_map", "wet_map_size", "drying_time", "wet_friction", "wet_stickiness")
_START = ("velocity", "angular_velocity", "lock_translation", "lock_rotation")

SECTIONS = {
    "FLUID": Section(
        "Fluid Volume",
        Source,
        ("velocity",),
        ("spacing", "inherit_velocity", "jitter", "seed", "lifetime"),
        "A closed mesh that is full of fluid at the first frame.",
    ),
    "EMITTER": Section(
        "Emitter",
        Source,
        ("velocity", "speed", "rate", "frames"),
        ("spacing", "inherit_velocity", "jitter", "seed", "lifetime"),
        "A stream leaves the mesh along its velocity, which is told in the object's own axes.",
    ),
    "COLLIDER": Section(
        "Collider",
        Collider,
        ("mode", *_CONTACT),
        (*_FIELD, *_MAPS, *_WET, "contact_friction"),
        "A solid. Whether it stands still, moves or deforms is found out by itself.",
    ),
    "RIGID": Section(
        "Rigid Body",
        Collider,
        ("density", "mass"),
        (*_START, "contact_friction", *_CONTACT, *_FIELD),
        "A solid that the fluid moves and that pushes back. It follows its own animation up to "
        "the last frame that moves it, then it is free.",
    ),
    "SOFT": Section(
        "Soft Body",
        Collider,
        ("mode", "density", "mass", "stretch_compliance", "bend_compliance"),
        (*_CONTACT, *_FIELD, "contact_friction"),
        "Cloth (an open mesh) or a soft body (a closed one) that the fluid moves.",
    ),
    "SINK": Section("Sink", Sink, ("frames",), (), "Fluid inside of the mesh vanishes."),
    "FORCE": Section(
        "Force",
        Force,
        ("kind", "strength", "velocity", "radius", "field"),
        ("frames", "field_frames", "field_scale", "voxel_size"),
        "Acts at the object's place, along its own Z axis. Blender's own force fields need no "
        "role.",
    ),
    "DOMAIN": Section(
        "Domain", Domain, ("mode",), (), "The simulated space is the box around the object."
    ),
}
ROLE_HELP = {role: section.help for role, section in SECTIONS.items()}

FLUID = Section(
    "Fluids",
    Fluid,
    ("preset", "density", "viscosity", "surface_tension", "color"),
    ("vorticity",),
    "The liquids of a system; a preset fills in the values.",
)
SOLVER = Section(
    "Solver",
    Solver,
    ("time_step", "iterations", "tolerance"),
    ("cfl", "max_time_step", "kernel", "support", "multiplier", "long_waves", "reorder_interval"),
    "How the equations are solved; the defaults serve most shots.",
)
OUTPUT = Section("Output", Output, ("channels",), (), "What the cache holds.")
WORLD = Section("Scene", Scene, (), ("dimensions", "seed"))


def knobs(cls: type) -> list[Spec]:
    """The knobs of a part that the host does not tell."""
    return [spec for spec in specs(cls) if spec.name not in FROM_HOST[cls]]


# Powers of the metre in a unit: Blender keeps lengths in its own units.
METRES = {"m": 1, "m/s": 1, "m/s^2": 1, "m^3/s": 3}
