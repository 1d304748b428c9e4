"""The nodes and their parameters. What core declares is taken from there: label, range, help, menu.

A parameter with `part` and `key` is a knob of that part of a scene; `values` makes the scene. Names
are Houdini's where it has one (`resimulate`, `startframe`, `particlesep`, `timescale`, `substeps`,
`cachemem`), otherwise core's without underscores.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Final

from runnel.params import CHANNELS, LISTS, TABLES
from runnel.presets import PRESETS
from runnel.scene import Scene
from runnel.spec import specs
from runnel.surface import SurfaceOptions

from .parm import Folder, Item, Multi, Node, Parm, button, number, of_spec, text, title, toggle

# Houdini's name of each channel of the core.
ATTRIBUTES: Final[dict[str, str]] = {
    "position": "P",
    "velocity": "v",
    "radius": "pscale",
    "mass": "mass",
    "density": "density",
    "phase": "phase",
    "id": "id",
    "age": "age",
    "vorticity": "vorticity",
    "pressure": "pressure",
}
# Prefix of attributes that carry settings of a piece: runnel_friction, runnel_kind, ...
PREFIX: Final = "runnel_"
FORCE_KINDS: Final = ("wind", "drag", "point", "vortex")
SOURCE_KINDS: Final = ("auto", "volume", "emitter", "points", "sink")

_PARTS: Final[dict[str, type]] = {**TABLES, **LISTS, "scene": Scene}


def _knob(part: str, key: str, name: str = "", **changes: Any) -> tuple[Parm, ...]:
    """The parameter of a knob of core."""
    (spec,) = (s for s in specs(_PARTS[part]) if s.name == key)
    return of_spec(spec, part, name or key.replace("_", ""), **changes)


def _menu(*pairs: tuple[str, str]) -> dict[str, Any]:
    return {"menu": pairs}


def _box(name: str, label: str, *items: Item | tuple[Item, ...], kind: str = "simple") -> Folder:
    return Folder(name=name, label=label, items=_flat(items), kind=kind)


def _tab(name: str, label: str, *items: Item | tuple[Item, ...]) -> Folder:
    return _box(name, label, *items, kind="tab")


def _flat(items: tuple[Item | tuple[Item, ...], ...]) -> tuple[Item, ...]:
    return tuple(i for item in items for i in (item if isinstance(item, tuple) else (item,)))


# --- settings of pieces: tabs of the solver (defaults) and nodes of their own --------------------

_EMITTER = "{ KIND != emitter }"


def _source_parms(kind: str, prefix: str = "") -> tuple[Item, ...]:
    """Knobs of a source but kind; `kind` is the name of that parameter."""
    emits = _EMITTER.replace("KIND", kind)
    return _flat((
        text(
            f"{prefix}fluid", "Fluid", "Name of the fluid in the solver's Fluids tab; empty takes "
            "the first. Points with a phase attribute go by that.", part="source", key="fluid",
        ),
        _knob("source", "velocity", f"{prefix}velocity",
              help="Initial velocity, on top of a v attribute. Of an emitter: direction, and speed "
                   "unless speed or rate is given. [m/s]"),
        _knob("source", "speed", f"{prefix}speed", disable=emits, default=(1.0,)),
        _knob("source", "rate", f"{prefix}rate", disable=emits, default=(0.01,)),
        _knob("source", "frames", f"{prefix}frames", label="Emission Frames", disable=emits,
              default=(1, 100)),
        _knob("source", "inherit_velocity", f"{prefix}inheritvelocity", disable=emits),
        _knob("source", "jitter", f"{prefix}jitter"),
        _knob("source", "lifetime", f"{prefix}lifetime", default=(10.0,)),
    ))  # fmt: skip


def _collider_parms(prefix: str = "") -> tuple[Item, ...]:
    return _flat((
        _knob("collider", "mode", f"{prefix}mode"),
        _knob("collider", "voxel_size", f"{prefix}voxelsize", default=(0.05,)),
        _knob("collider", "offset", f"{prefix}offset"),
        _knob("collider", "friction", f"{prefix}friction"),
        _knob("collider", "bounce", f"{prefix}bounce"),
        _knob("collider", "stickiness", f"{prefix}stickiness"),
    ))  # fmt: skip


def _body_parms(prefix: str = "", unless: str = "") -> tuple[Item, ...]:
    """Knobs of bodies that the fluid moves."""
    soft = f"{{ {prefix}body != deformable }}"
    return _flat((
        _knob("collider", "density", f"{prefix}density", disable=unless),
        _knob("collider", "mass", f"{prefix}mass", disable=unless, default=(1.0,)),
        _knob("collider", "velocity", f"{prefix}velocity", disable=unless),
        _knob("collider", "angular_velocity", f"{prefix}angularvelocity", disable=unless),
        _knob("collider", "lock_translation", f"{prefix}locktranslation", disable=unless,
              help="Axes of the world that a body's centre does not move along."),
        _knob("collider", "lock_rotation", f"{prefix}lockrotation", disable=unless),
        _knob("collider", "contact_friction", f"{prefix}contactfriction", disable=unless),
        _knob("collider", "stretch_compliance", f"{prefix}stretchcompliance", disable=soft),
        _knob("collider", "bend_compliance", f"{prefix}bendcompliance", disable=soft),
    ))  # fmt: skip


# --- the solver ----------------------------------------------------------------------------------

_TOP = _flat((
    button("resimulate", "Reset Simulation",
           "Drops all simulated frames; the next cook starts anew.", "resimulate"),
    number("startframe", "Start Frame", "The frame that shows the initial state. Before it nothing "
           "is computed.", 1, (1, 250), locked=(False, False)),
    number("endframe", "End Frame", "The last frame of a simulation to disk. Live simulation goes "
           "on for as long as you play.", 240, (1, 250), locked=(False, False), expression="$FEND"),
    # Evaluated in each cook, which makes the node time dependent whatever else is.
    number("simframe", "Frame", "The frame that is cooked.", 1.0, (1, 250), expression="$FF",
           invisible=True, locked=(False, False)),
))  # fmt: skip

_SETUP = _tab(
    "setup", "Setup",
    toggle("livesim", "Live Simulation", "Simulate when a frame is asked for that is not there "
           "yet. Off: only frames that have been simulated, or are on disk, are shown.", True),
    number("particlesep", "Particle Separation", "Distance between particles, twice their pscale. "
           "Half of it is eight times the particles. Points with pscale keep their own. [m]",
           0.1, (0.001, 0.5), locked=(False, False)),
    number("timescale", "Time Scale", "How fast the simulation runs: 0.5 is slow motion. Velocities"
           " that leave the node are scaled along, so that motion blur fits.", 1.0, (0.01, 4.0)),
    _knob("scene", "seed", range=(0, 100), locked=(True, False)),
    text("device", "Device", "Where to compute: auto, gpu, cpu, reference (no OpenCL), or part of "
         "a device's name. auto follows Houdini's own OpenCL variables.", "auto",
         menu_script="device_menu"),
    _knob("scene", "up", "upaxis", label="Up Axis", default=("y",),
          help="Axis that points up, for the ground plane and in files. Gravity is set by itself.",
          **_menu(("y", "Y"), ("z", "Z"))),
    _knob("scene", "dimensions", default=("3",), **_menu(("3", "3D"), ("2", "2D")),
          help="2D simulates a slice: z is ignored with Y up, y with Z up."),
    _box(
        "limits", "Limits",
        toggle("usedomain", "Limit Size", "Keep the simulation within a box.", False),
        _knob("domain", "mode", "domainmode", label="At the Limits", gate="usedomain"),
        _knob("domain", "min", "domainmin", label="Lowest Corner", gate="usedomain",
              default=(-5.0, -5.0, -5.0)),
        _knob("domain", "max", "domainmax", label="Highest Corner", gate="usedomain",
              default=(5.0, 5.0, 5.0)),
        toggle("groundplane", "Ground Plane", "Put a solid floor under everything.", False),
        number("groundheight", "Ground Height", "Where the floor is, along the up axis. [m]", 0.0,
               (-5.0, 5.0), disable="{ groundplane == 0 }", locked=(False, False)),
    ),
)  # fmt: skip

_SIMULATION = _tab(
    "simulation", "Simulation",
    toggle("autosubsteps", "Adaptive Substeps", "Let the speed of the fluid decide how many steps "
           "a frame takes.", True),
    number("substeps", "Substeps", "Steps in a frame.", 4, (1, 20),
           disable="{ autosubsteps == 1 }"),
    _knob("solver", "cfl", label="CFL Condition", disable="{ autosubsteps == 0 }",
          help="Particle separations that the fluid may travel in a step; single drops three times "
               "as far."),
    _knob("solver", "max_time_step", disable="{ autosubsteps == 0 }", help="Longest step. [s]"),
    _knob("solver", "iterations", label="Iterations (Least, Most)"),
    _knob("solver", "tolerance"),
    _box(
        "cachebox", "Memory",
        toggle("cacheenabled", "Cache Simulation", "Keep simulated frames in memory, to go back to "
               "them without simulating again.", True),
        number("cachemem", "Cache Memory (MB)", "Most memory for frames. The oldest are dropped "
               "first.", 5000, (100, 20000), disable="{ cacheenabled == 0 }"),
        number("checkpointinterval", "Frames Between Checkpoints", "The full state is kept every "
               "so many frames, within the same memory: going back to a dropped frame starts "
               "there. 0 keeps none.", 10, (0, 50)),
    ),
    _box(
        "advanced", "Advanced",
        _knob("solver", "kernel"),
        _knob("solver", "support"),
        _knob("solver", "multiplier"),
        _knob("solver", "long_waves"),
        _knob("solver", "reorder_interval"),
        kind="collapsible",
    ),
)  # fmt: skip

_CUSTOM = "{ preset# != custom }"
_PRESETS = (
    ("custom", "Custom"),
    *((name, f"{title(name)} ({p.density:g} kg/m3)") for name, p in PRESETS.items()),
)

_FLUIDS = _tab(
    "fluidstab", "Fluids",
    Multi(
        name="fluids", label="Fluids", default=1, part="fluid",
        help="One row for each liquid. Points with phase 0 are the first, 1 the second, and so on.",
        items=(
            *_knob("fluid", "name", "fluidname#", label="Name", default=("",),
                   help="Name of the fluid, and of the point group of its particles; empty gives "
                        "fluid_1, fluid_2, ..."),
            *_knob("fluid", "preset", "preset#", default=("custom",), menu=_PRESETS, join=True,
                   help="Liquid with known properties; Custom takes the values below."),
            button("editpreset#", "Edit", "Copies the preset's values below and turns to Custom.",
                   "edit_preset", disable="{ preset# == custom }", row_callback=True),
            *_knob("fluid", "density", "density#", hide=_CUSTOM),
            *_knob("fluid", "viscosity", "viscosity#", hide=_CUSTOM,
                   help="Damping, not in SI units: 0 is inviscid, 10 honey, 75 toothpaste at a "
                        "separation of millimetres. Each 0.5 costs a pass over the particles."),
            *_knob("fluid", "surface_tension", "surfacetension#", hide=_CUSTOM,
                   help="Not in SI units: 0 none, 1 beads strongly. Large scenes want 0."),
            *_knob("fluid", "vorticity", "vorticity#", hide=_CUSTOM),
            toggle("usecolor#", "Own Colour", "Off: each fluid has a colour of a palette.", False,
                   hide=_CUSTOM, join=True, nolabel=True),
            *_knob("fluid", "color", "color#", hide=_CUSTOM, type="color", gate="usecolor#",
                   label="Colour", help="Colour of the fluid, for Cd.",
                   default=(0.0, 0.17, 0.45)),
        ),
    ),
)  # fmt: skip

_SOURCE = _tab(
    "sourcetab", "Source",
    text("sourcekind", "Source Type", "What the first input is, unless a Runnel Source node says "
         "otherwise. By Geometry: closed surfaces are filled once, points are particles.",
         "auto", **_menu(
             ("auto", "By Geometry"), ("volume", "Fill Volume"), ("emitter", "Emit"),
             ("points", "Points Are Particles"))),
    _source_parms("sourcekind", "source"),
    text("inheritattribs", "Attributes to Carry", "Point attributes of the source that stay with "
         "the particles, as a pattern: * takes all, ^temp* all but those.", "*"),
)  # fmt: skip

_COLLIDERS = _tab(
    "collidertab", "Colliders",
    text("collidermotion", "Motion", "How the second input moves. Automatic looks whether the "
         "geometry changes from frame to frame.", "auto", **_menu(
             ("auto", "Automatic"), ("static", "Does Not Move"), ("deforming", "Moves, Deforms"))),
    _collider_parms("collider"),
)  # fmt: skip

_BODIES = _tab(
    "bodytab", "Bodies",
    _knob("collider", "body", "bodybody", label="Body Type", default=("rigid",),
          help="What bodies are, those of the fourth input and of the third; the fluid moves "
               "them.",
          **_menu(("rigid", "Rigid"), ("deformable", "Deformable"))),
    _collider_parms("body"),
    _body_parms("body"),
)  # fmt: skip


def _of_kind(*kinds: str) -> str:
    """Hides a parameter unless the force is of one of the kinds."""
    return "{ " + " ".join(f"forcekind# != {kind}" for kind in kinds) + " }"


_FORCES = _tab(
    "forcetab", "Forces",
    _knob("solver", "gravity", default=(0.0, -9.81, 0.0),
          help="Gravity. Set it along z if the up axis is z. [m/s^2]"),
    _knob("force", "strength", "fieldstrength", label="Field Strength",
          help="Of velocity fields in the third input that have no runnel_strength: share of the "
               "difference in velocity made up per second. [1/s]", range=(0.0, 20.0)),
    Multi(
        name="forces", label="Forces", default=0, part="force",
        help="Wind, drag, attraction and vortices, beside those of the third input.",
        items=(
            *_knob("force", "kind", "forcekind#", default=("wind",),
                   help='"wind" pulls towards velocity, "drag" towards rest, "point" towards '
                        'center, "vortex" around axis. Velocity fields come by the third input.',
                   menu=tuple((kind, title(kind)) for kind in FORCE_KINDS)),
            *_knob("force", "strength", "forcestrength#"),
            *_knob("force", "velocity", "forcevelocity#", hide=_of_kind("wind")),
            *_knob("force", "center", "forcecenter#", hide=_of_kind("point", "vortex")),
            *_knob("force", "axis", "forceaxis#", default=(0.0, 1.0, 0.0),
                   hide=_of_kind("vortex")),
            *_knob("force", "radius", "forceradius#", default=(1.0,),
                   hide=_of_kind("point", "vortex")),
            *_knob("force", "frames", "forceframes#", default=(1, 100)),
        ),
    ),
)  # fmt: skip

_OUTPUTS_ON = ("velocity", "radius", "density", "phase", "id", "age")


def _output_toggles() -> tuple[Parm, ...]:
    return tuple(
        toggle(
            f"out{ATTRIBUTES[channel]}", ATTRIBUTES[channel],
            f"Write {ATTRIBUTES[channel]}: {channel} ({text_of}).", channel in _OUTPUTS_ON,
            part="output", key=channel, join=i % 3 != 2,
        )
        for i, (channel, text_of) in enumerate(
            (channel, CHANNELS[channel]) for channel in ATTRIBUTES if channel != "position"
        )
    )  # fmt: skip


_COLOR_BY = (
    ("none", "No Colour"), ("fluid", "Fluid"), ("speed", "Speed"), ("density", "Density"),
    ("age", "Age"), ("vorticity", "Vorticity"), ("pressure", "Pressure"),
)  # fmt: skip

_OUTPUT = _tab(
    "outputtab", "Output",
    _box("outputattribs", "Point Attributes", _output_toggles()),
    toggle("outgroups", "Groups by Fluid", "A point group for each fluid, of its name.", True),
    toggle("outbodies", "Output Bodies", "Add the bodies that the fluid moves, where they are now, "
           "as polygons, each in a primitive group of its name.", False),
    toggle("outstats", "Statistics", "Detail attributes: particles, iterations, density error, "
           "mass, milliseconds, device.", True),
    _box(
        "visualize", "Visualize",
        text("colorby", "Colour By", "What the point colour Cd shows.", "fluid", menu=_COLOR_BY),
        toggle("autocolorrange", "Range by Frame", "Take the least and most of each frame.", True,
               disable="{ colorby == none } { colorby == fluid }"),
        Parm(name="colorrange", label="Colour Range", type="vector2", default=(0.0, 5.0),
             help="Values shown in the first and the last colour.",
             disable="{ autocolorrange == 1 } { colorby == none } { colorby == fluid }"),
    ),
)  # fmt: skip

_DISK = _tab(
    "disktab", "Disk and Farm",
    toggle("loadfromdisk", "Load from Disk", "Read frames from the cache folder, where it has "
           "them, and simulate none of them.", False),
    text("cachedir", "Cache Folder", "Folder of the cache: frames, checkpoints, the scene and its "
         "meshes.", "$HIP/geo/$OS", type="directory", chooser="write"),
    button("writescene", "Write Scene", "Writes the scene with its meshes, for the command line.",
           "write_scene"),
    button("simulatetodisk", "Simulate to Disk", "Writes the scene and simulates it in a process "
           "of its own; Houdini stays free. Goes on where an earlier one was stopped.",
           "simulate_to_disk", join=True),
    button("stopsimulation", "Stop", "Stops it. What is on disk stays valid.", "stop_simulation"),
    button("showcommand", "Show Command", "Writes the scene and shows the command that simulates "
           "it, for a farm.", "show_command"),
    button("reloaddisk", "Reload", "Look at the folder anew.", "reload_cache"),
)  # fmt: skip

SOLVER: Final = Node(
    name="fluid_solver", label="Runnel Fluid Solver", icon="SOP_vellumsolver",
    summary="Simulates liquids as particles.",
    inputs=("Source", "Colliders", "Forces, Velocity Fields or Bodies", "Bodies"),
    input_help=(
        "Where fluid comes from: closed surfaces, or points that are particles (P, v, pscale, "
        "phase, id and any other attribute). A Runnel Source node sets pieces apart. What emits or "
        "drains is followed as it moves; a volume is filled once.",
        "Solids: polygons, packed primitives, or VDB level sets. Pieces are told apart by the "
        "primitive attribute name. A Runnel Collider node gives them settings of their own.",
        "Velocity fields that pull the fluid along: VDBs of vectors, or points with v. Points that "
        "are forces: the string attribute runnel_kind (wind, drag, point, vortex) and "
        "runnel_strength, v (of wind), N (axis of a vortex), pscale (reach). Both are followed as "
        "they move; id tells points apart that come and go. Polygons without v are bodies, as in "
        "the fourth input.",
        "Closed surfaces that the fluid moves and that push back; open ones are cloth. They start "
        "as they are at the start frame.",
    ),
    least_inputs=1, cook="cook_solver", keeps_state=True,
    items=(*_TOP, _SETUP, _SIMULATION, _FLUIDS, _SOURCE, _COLLIDERS, _BODIES, _FORCES, _OUTPUT,
           _DISK),
)  # fmt: skip


# Parameters that say what is shown or kept, not what is simulated: they may change at any time.
SHOWN: Final = frozenset({
    "simframe", "endframe", "livesim", "cacheenabled", "cachemem", "checkpointinterval",
    "outgroups", "outstats", "outbodies", "colorby", "autocolorrange", "colorrange",
    "loadfromdisk", "cachedir", *(p.name for p in _output_toggles()),
})  # fmt: skip


# --- further nodes -------------------------------------------------------------------------------

_GROUP = text("piecename", "Name", "Name of the piece; empty keeps the primitive attribute name.")

SOURCE: Final = Node(
    name="fluid_source", label="Runnel Source", icon="SOP_vellumsource",
    summary="Gives geometry the settings of a source, sink or emitter.",
    inputs=("Geometry",), input_help=("Closed surfaces, or points.",), least_inputs=1,
    cook="cook_source",
    items=_flat((
        _GROUP,
        text("kind", "Source Type", "What becomes of the geometry.", "auto", **_menu(
            ("auto", "By Geometry"), ("volume", "Fill Volume"), ("emitter", "Emit"),
            ("points", "Points Are Particles"), ("sink", "Remove Fluid")),
            part="source", key="kind"),
        toggle("useparticlesep", "Own Separation", "Off: that of the solver.", False),
        _knob("source", "spacing", "particlesep", label="Particle Separation", default=(0.1,),
              gate="useparticlesep"),
        _source_parms("kind"),
        _knob("source", "seed", default=(0,), range=(0, 100), locked=(True, False)),
    )),
)  # fmt: skip

_NOT_BODY = "{ body == static } { body == animated }"
_NO_WET = "{ wetmap == none }"


def _map_parm(what: str) -> tuple[Parm, ...]:
    words = (
        f"Scales {what} over the surface: an image (.png, .jpg, .tif) through the point attribute "
        "uv, black 0 and white 1, or the name of a point attribute of 0 to 1."
    )
    return _knob("collider", f"{what}_map", type="file", chooser="read", default=("",), help=words)


COLLIDER: Final = Node(
    name="fluid_collider", label="Runnel Collider", icon="SOP_collisionsource",
    summary="Gives geometry the settings of a collider or a body.",
    inputs=("Geometry",), input_help=("Polygons, packed primitives, or VDB level sets.",),
    least_inputs=1, cook="cook_collider",
    items=_flat((
        _GROUP,
        _collider_parms(),
        _knob("collider", "band_width", default=(0.2,)),
        _knob("collider", "body", default=("static",)),
        _box(
            "bodybox", "Body", _body_parms(unless=_NOT_BODY),
            toggle("usepin", "Pin", "Hold vertices of a deformable body.", False,
                   disable="{ body != deformable }"),
            Parm(name="pinmin", label="Pin Box Lowest", type="vector", default=(-1.0, -1.0, -1.0),
                 help="Vertices in this box at the start stay where they are. [m]", part="collider",
                 key="pin_min", gate="usepin",
                 disable="{ usepin == 0 } { body != deformable }"),
            Parm(name="pinmax", label="Pin Box Highest", type="vector", default=(1.0, 1.0, 1.0),
                 help="Highest corner of the box. [m]", part="collider", key="pin_max",
                 gate="usepin", disable="{ usepin == 0 } { body != deformable }"),
        ),
        _box(
            "mapbox", "Maps",
            _map_parm("friction"),
            _map_parm("bounce"),
            _map_parm("stickiness"),
            _knob("collider", "wet_map", help="Images of where fluid has touched, one a frame, "
                  "through the point attribute uv; written when simulating to disk: red how wet "
                  "(0 to 1), green how long [s; PNG: ms of 65 535], blue now."),
            _knob("collider", "wet_map_size", disable=_NO_WET),
            _knob("collider", "drying_time", default=(5.0,), disable=_NO_WET),
            _knob("collider", "wet_friction", disable=_NO_WET),
            _knob("collider", "wet_stickiness", disable=_NO_WET),
        ),
    )),
)  # fmt: skip

_MISSING = (("error", "Is an Error"), ("warn", "Empty, With a Warning"), ("empty", "Empty"),
            ("nearest", "Nearest Frame"))  # fmt: skip


def _voxel_size(unless: str) -> Parm:
    return number("voxelsize", "Voxel Size", "Of volumes; 0 takes the smallest pscale. [m]", 0.0,
                  (0.0, 0.2), disable=unless)  # fmt: skip


CACHE: Final = Node(
    name="fluid_cache", label="Runnel File Cache", icon="SOP_filecache",
    summary="Reads a cache that the solver, the command line or a farm wrote.",
    inputs=(), input_help=(), least_inputs=0, cook="cook_cache", keeps_state=True,
    items=(
        button("reload", "Reload", "Look at the folder anew.", "reload_cache"),
        text("cachedir", "Cache Folder", "Folder that `runnel run` or Simulate to Disk wrote.",
             "$HIP/geo/runnel", type="directory", chooser="read"),
        number("frame", "Frame", "Frame of the cache. Frames between two are moved along v.", 1.0,
               (1, 250), expression="$FF", locked=(False, False)),
        text("show", "Show", "What is read: particles, their surface, volumes of them (VDBs "
             "density, surface and velocity), or bodies and colliders at that frame.",
             "particles", **_menu(
                 ("particles", "Particles"), ("surface", "Surface"), ("volumes", "Volumes"),
                 ("bodies", "Bodies"))),
        _voxel_size("{ show != volumes }"),
        text("missing", "Missing Frame", "What a frame that is not in the cache gives.", "error",
             menu=_MISSING),
        text("attribs", "Attributes", "Attributes to read, as a pattern. P comes always.", "*",
             disable="{ show != particles }"),
        toggle("outgroups", "Groups by Fluid", "A point group for each fluid, of its name.", True,
               disable="{ show != particles }"),
        toggle("outstats", "Statistics", "Detail attributes of the frame's report.", True),
        text("colorby", "Colour By", "What the point colour Cd shows.", "none", menu=_COLOR_BY,
             disable="{ show != particles }"),
    ),
)  # fmt: skip


def _surface_parms() -> tuple[Parm, ...]:
    options = {f.name: f for f in fields(SurfaceOptions)}
    defaults = SurfaceOptions()
    ranges = {"smoothing_length": (1.0, 4.0), "cube_size": (0.2, 2.0), "threshold": (0.3, 0.8),
              "smoothing_rounds": (0, 50)}  # fmt: skip
    made = [
        number(key.replace("_", ""), title(key), _capital(options[key].metadata["help"]),
               getattr(defaults, key), soft, part="surface", key=key)
        for key, soft in ranges.items()
    ]  # fmt: skip
    words = _capital(options["keep_volume"].metadata["help"])
    keep = {"part": "surface", "key": "keep_volume"}
    made.append(toggle("keepvolume", "Keep Volume", words, defaults.keep_volume, **keep))
    return tuple(made)


def _capital(words: str) -> str:
    return words[0].upper() + words[1:] + "."


SURFACE: Final = Node(
    name="fluid_surface", label="Runnel Surface", icon="SOP_particlefluidsurface",
    summary="Makes a polygon surface, or volumes, of particles of any sizes.",
    inputs=("Particles",), input_help=("Points with pscale.",), least_inputs=1,
    cook="cook_surface",
    items=(
        text("output", "Output", "A polygon surface; or VDBs: density (a fog), surface (a level "
             "set) and velocity.", "surface", **_menu(
                 ("surface", "Surface"), ("volumes", "Volumes"))),
        _voxel_size("{ output != volumes }"),
        *_surface_parms(),
        text("attribs", "Attributes", "Point attributes carried to the surface, separated by "
             "spaces.", "v density Cd"),
        toggle("eachfluid", "Each Fluid", "A surface for each phase, named in the primitive "
               "attribute name.", False),
    ),
)  # fmt: skip

NODES: Final[dict[str, Node]] = {n.name: n for n in (SOLVER, SOURCE, COLLIDER, CACHE, SURFACE)}
