# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings kept in the .blend, made from core's declarations.

`scene.runnel` lists the systems (one set-up of fluid each) with their fluids; `object.runnel` holds
the role of an object and what belongs to it. Nothing about a running bake is kept here.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from zlib import crc32

import bpy
from bpy.props import (
    BoolProperty,
    CollectionProperty,
    EnumProperty,
    FloatProperty,
    FloatVectorProperty,
    IntProperty,
    IntVectorProperty,
    PointerProperty,
    StringProperty,
)

from runnel.params import (
    CHANNELS,
    PRESETS,
    Collider,
    Domain,
    Fluid,
    Force,
    ForceKeyframe,
    Output,
    Sink,
    Solver,
    Source,
)
from runnel.scene import Scene
from runnel.spec import Spec, specs

from . import deliver, roles, takes
from .knobs import METRES, ROLE_HELP, SECTIONS, knobs

# Newer versions want to be told that a path may start with //.
RELATIVE = {"PATH_SUPPORTS_BLEND_RELATIVE"} if bpy.app.version >= (4, 5, 0) else set()
ALL = "ALL"  # in place of a uid: takes part in every system
UNITS = {"m": "LENGTH", "m/s": "VELOCITY", "m/s^2": "ACCELERATION", "kg": "MASS"}
_KEYED = {spec.name for spec in specs(ForceKeyframe)}  # what core lets change over the frames
ICONS = {
    "FLUID": "MOD_FLUIDSIM",
    "EMITTER": "MOD_WAVE",
    "COLLIDER": "MOD_PHYSICS",
    "RIGID": "RIGID_BODY",
    "SOFT": "MOD_CLOTH",
    "SINK": "TRASH",
    "FORCE": "FORCE_FORCE",
    "DOMAIN": "MESH_CUBE",
}
# A .blend keeps the numbers: new roles go to the end.
ROLES = [("NONE", "None", "Has no part in the simulation", "X", 0)] + [
    (role, section.title, ROLE_HELP[role], ICONS[role], number)
    for number, (role, section) in enumerate(SECTIONS.items(), 1)
]


# --- properties from declarations -----------------------------------------------------------------


def _limits(spec: Spec) -> dict[str, Any]:
    ends = zip(("min", "max", "soft_min", "soft_max"), (*spec.hard, *spec.soft), strict=True)
    cast = int if spec.type is int else float
    return {name: cast(end) for name, end in ends if end is not None}


def neutral(spec: Spec) -> Any:
    """What a field shows before anybody gave a value: in the middle of the slider."""
    low, high = (0.0 if end is None else end for end in spec.soft)
    middle = math.sqrt(low * high) if low > 0 else (0.5 * high if low == 0 else 0.0)
    one: Any = spec.type(float(f"{middle:.1g}"))
    if spec.ordered:
        return tuple(map(spec.type, (low, high)))
    return one if spec.size == 1 else (one,) * spec.size


def blender_property(spec: Spec, **more: Any) -> Any:
    """The Blender property of a knob; where it may be absent, the value it has when present."""
    known = spec.default
    if spec.required or known is None or known in spec.words:
        known = neutral(spec) if spec.type in (float, int) else ""
    facts = {"name": spec.label, "description": spec.help_with_unit, "options": set(), **more}
    if spec.choices is not None and spec.size == 0:
        items = [(str(c), str(c).upper(), "", 2**k) for k, c in enumerate(spec.supported)]
        facts["options"] = {"ENUM_FLAG"}
        return EnumProperty(items=items, default=set(known), **facts)
    if spec.choices is not None:
        default = str(known or spec.supported[0])
        return EnumProperty(items=_items(spec.supported), default=default, **facts)
    if spec.type is str:
        return StringProperty(default=known, **facts)
    if spec.type is bool:
        return BoolProperty(default=known, **facts)
    facts |= _limits(spec)
    if spec.size > 1:
        facts["size"] = spec.size
        if spec.name == "color":
            facts["subtype"] = "COLOR_GAMMA"  # as displayed
        elif spec.size == 3:
            facts["subtype"] = "XYZ"
    if spec.type is int:
        kind = IntVectorProperty if spec.size > 1 else IntProperty
        return kind(default=known, **facts)
    facts["unit"] = UNITS.get(spec.unit, "NONE")
    facts["precision"] = 4
    return (FloatVectorProperty if spec.size > 1 else FloatProperty)(default=known, **facts)


def _items(words: Iterable[Any]) -> list[tuple[str, str, str, int]]:
    """Choices. A .blend keeps their numbers: made from the words, they outlast words that are added
    or put in another order."""
    return [(w, w.replace("_", " ").title(), "", crc32(w.encode()) >> 1) for w in map(str, words)]


def switch_name(spec: Spec) -> str:
    """The toggle beside a knob that may be absent or a word; empty if it has none."""
    if spec.words:
        return f"{spec.words[0]}_{spec.name}"
    absent = spec.optional or (spec.required and spec.choices is None)
    return f"use_{spec.name}" if absent else ""


def switch_property(spec: Spec) -> Any:
    if spec.words:
        text = spec.words[0].title()
        return BoolProperty(
            name=text, default=spec.default in spec.words, description=spec.help, options=set()
        )
    absent = spec.default_text or "the system's"
    text = f"Set {spec.label}; otherwise {absent}"
    return BoolProperty(name=spec.label, description=text, options=set())


def annotations(cls: type) -> dict[str, Any]:
    """Properties of all knobs of a part of core's scene."""
    made = {}
    for spec in knobs(cls):
        if spec.name == "channels":
            continue
        if spec.optional and spec.choices is not None:  # a preset: none is a choice
            made[spec.name] = _preset_property(spec)
            continue
        if switch_name(spec) and not (spec.optional and spec.type is str):
            made[switch_name(spec)] = switch_property(spec)
        animated = cls is Force and spec.name in _KEYED
        made[spec.name] = blender_property(spec, options={"ANIMATABLE"} if animated else set())
    return made


def _preset_property(spec: Spec) -> Any:
    items = [("NONE", "Custom", "Values of your own", 0), *_items(spec.supported)]
    return EnumProperty(
        name=spec.label, description=spec.help, items=items, default="NONE", update=_take_preset
    )


def _take_preset(fluid: Any, context: Any) -> None:
    preset = PRESETS.get(fluid.preset)
    for name, value in vars(preset).items() if preset else ():
        setattr(fluid, name, value)


def make_group(cls: type, **more: Any) -> type:
    """A PropertyGroup of the knobs of a part of core's scene."""
    fields = {"__annotations__": {**annotations(cls), **more}, "__doc__": cls.__doc__}
    return type(f"Runnel{cls.__name__}", (bpy.types.PropertyGroup,), fields)


def rounded(value: float) -> float:
    """Blender keeps single precision; 0.1 shall be 0.1 in the scene file."""
    return float(f"{value:.7g}")


def value_of(group: Any, spec: Spec, metres: float) -> Any:
    """The value of a knob in SI units; None where it is absent."""
    switch = switch_name(spec)
    if spec.words and getattr(group, switch):
        return spec.words[0]
    value = getattr(group, spec.name)
    if spec.optional and spec.choices is not None:
        return None if value == "NONE" else value
    if spec.optional and spec.type is str:
        return value or None
    if switch and not spec.words and not getattr(group, switch):
        return None
    if spec.choices is not None:
        if spec.size == 0:
            return [choice for choice in spec.choices if choice in value]
        return next(choice for choice in spec.choices if str(choice) == value)
    if spec.type is not float:
        return list(value) if spec.size > 1 else value
    factor = metres ** METRES.get(spec.unit, 0)
    if spec.size > 1:
        return [rounded(part * factor) for part in value]
    return rounded(value * factor)


def values(group: Any, cls: type, metres: float) -> dict[str, Any]:
    """All knobs of a part that are present, keyed as core's scene is."""
    found = {}
    for spec in knobs(cls):
        if spec.name == "channels":
            found["channels"] = [name for name in CHANNELS if name in group.channels]
            continue
        value = value_of(group, spec, metres)
        if value is not None:
            found[spec.name] = value
    return found


# --- groups ---------------------------------------------------------------------------------------


def _channel_items() -> list[tuple[str, str, str, int]]:
    return [(name, name.title(), unit, 2**k) for k, (name, unit) in enumerate(CHANNELS.items())]


def _renamed(fluid: Any, context: Any) -> None:
    """Objects name their fluid; they follow when it is renamed."""
    scene, before = fluid.id_data, fluid.known_as
    if fluid.name != before:
        fluid.known_as = fluid.name
        for obj in scene.objects if before else ():
            if obj.runnel.fluid == before:
                obj.runnel.fluid = fluid.name


_default_channels = next(s.default for s in knobs(Output) if s.name == "channels")
_spacing = next(spec for spec in knobs(Source) if spec.name == "spacing")

SolverGroup = make_group(Solver)
FluidGroup = make_group(
    Fluid,
    name=StringProperty(name="Name", update=_renamed),
    known_as=StringProperty(options={"HIDDEN"}),
)
SourceGroup = make_group(Source)
ColliderGroup = make_group(
    Collider,
    pin=PointerProperty(
        name="Pin",
        type=bpy.types.Object,
        description="Vertices inside of the box around this object stay where they are",
    ),
)
SinkGroup = make_group(Sink)
ForceGroup = make_group(Force)
DomainGroup = make_group(Domain)
OutputGroup = make_group(
    Output,
    channels=EnumProperty(
        name="Channels",
        description="What the cache holds of each particle",
        items=_channel_items(),
        options={"ENUM_FLAG"},
        default=set(_default_channels),
    ),
)
WorldGroup = make_group(Scene)


class RunnelSystem(bpy.types.PropertyGroup):
    """One set-up of fluid: its liquids, solver, frames and cache."""

    name: StringProperty(name="Name", default="Liquid")
    uid: StringProperty(options={"HIDDEN"})
    fluids: CollectionProperty(type=FluidGroup)
    active_fluid: IntProperty(options=set())
    spacing: blender_property(_spacing)
    own_frames: BoolProperty(
        name="Own Frame Range", description="Other frames than the scene's", options=set()
    )
    frames: IntVectorProperty(name="Frames", size=2, default=(1, 250), options=set())
    use_force_fields: BoolProperty(
        name="Force Fields",
        description="Blender's wind, force, vortex and drag fields act on the fluid",
        default=True,
        options=set(),
    )
    solver: PointerProperty(type=SolverGroup)
    world: PointerProperty(type=WorldGroup)
    output: PointerProperty(type=OutputGroup)
    device: StringProperty(
        name="Device", description="Name or number of a device; auto takes the fastest",
        default="auto", options=set(),
    )  # fmt: skip
    memory_limit: FloatProperty(
        name="Memory Limit", description="In GB; 0 for none", min=0.0, soft_max=64.0, options=set()
    )
    cache_directory: StringProperty(
        name="Cache",
        description="Folder of the takes; // is the folder of the .blend",
        subtype="DIR_PATH",
        options=RELATIVE,
    )
    last_home: StringProperty(options={"HIDDEN"})  # where the folder was at the last bake
    take: StringProperty(name="Take", description="The bake that is shown", options=set())
    display: PointerProperty(type=deliver.display.RunnelDisplay)

    def home(self) -> Path | None:
        """Folder of the takes; None in a file that was never saved and has a relative one."""
        return takes.home(self)

    def object_names(self, scene: bpy.types.Scene) -> dict[str, bpy.types.Object]:
        """Objects by the names of their parts in the cache."""
        return {roles.part_name(obj): obj for obj in roles.members(self)}

    def cache_path(self) -> Path:
        """Folder of the cache of the take that is shown; need not exist."""
        return takes.cache_path(self)

    def owns(self, obj: bpy.types.Object) -> bool:
        """Whether an object takes part in this system."""
        known = [system.uid for system in self.id_data.runnel.systems]
        uid = obj.runnel.system
        # Appended from another file, or of a system that was removed: the first one takes it.
        return uid in (self.uid, ALL) or (uid not in known and known[0] == self.uid)

    def frame_range(self) -> tuple[int, int]:
        scene = self.id_data
        first, last = self.frames if self.own_frames else (scene.frame_start, scene.frame_end)
        return int(first), max(int(first), int(last))


class RunnelScene(bpy.types.PropertyGroup):
    """The systems of a Blender scene."""

    systems: CollectionProperty(type=RunnelSystem)
    active: IntProperty(name="Active System", options=set())

    def active_system(self) -> RunnelSystem | None:
        if not self.systems:
            return None
        return self.systems[min(max(self.active, 0), len(self.systems) - 1)]


def _took_role(settings: Any, context: Any) -> None:
    if settings.role != "NONE" and context is not None and not context.scene.runnel.systems:
        add_system(context.scene)


class RunnelObject(bpy.types.PropertyGroup):
    """The part an object plays."""

    role: EnumProperty(
        name="Role", description="Part in the simulation", items=ROLES, update=_took_role
    )
    system: StringProperty(name="System", description="uid; empty: the first, ALL: all of them")
    fluid: StringProperty(name="Fluid", description="Empty: the system's first")
    source: PointerProperty(type=SourceGroup)
    collider: PointerProperty(type=ColliderGroup)
    sink: PointerProperty(type=SinkGroup)
    force: PointerProperty(type=ForceGroup)
    domain: PointerProperty(type=DomainGroup)


GROUPS = {Source: "source", Collider: "collider", Sink: "sink", Force: "force", Domain: "domain"}


def systems(scene: bpy.types.Scene) -> list[RunnelSystem]:
    """The systems of a scene."""
    return list(scene.runnel.systems)


def find(scene: bpy.types.Scene, uid: str) -> RunnelSystem | None:
    """A system by its lasting name: nothing else is kept across undo and loading."""
    return next((system for system in scene.runnel.systems if system.uid == uid), None)


def locate(uid: str, name: str = "") -> tuple[Any, Any]:
    """Scene and system of a uid, in the scene of that name if it is there; None where gone."""
    for scene in sorted(bpy.data.scenes, key=lambda scene: scene.name != name):
        system = find(scene, uid)
        if system is not None:
            return scene, system
    return None, None


def tell_apart() -> None:
    """Systems of a copied scene get names and caches of their own."""
    seen: set[str] = set()
    for scene in bpy.data.scenes:
        for system in scene.runnel.systems:
            before = system.uid
            if before in seen:
                system.uid = uuid.uuid4().hex[:12]
                system.take = system.last_home = ""
                system.cache_directory += takes.file_name(f"_{scene.name}")
                for obj in scene.objects:
                    if obj.runnel.system == before and len(obj.users_scene) == 1:
                        obj.runnel.system = system.uid
            seen.add(system.uid)


def add_system(scene: bpy.types.Scene, name: str = "Liquid") -> RunnelSystem:
    """A system with one fluid, the first of core's presets."""
    taken = {system.name for system in scene.runnel.systems}
    number, wanted = 1, name
    while wanted in taken:
        number += 1
        wanted = f"{name} {number}"
    system = scene.runnel.systems.add()
    system.name = wanted
    system.uid = uuid.uuid4().hex[:12]
    system.cache_directory = f"//runnel_cache/{takes.file_name(wanted)}"
    add_fluid(system, next(iter(PRESETS)))
    scene.runnel.active = len(scene.runnel.systems) - 1
    return system


def add_fluid(system: RunnelSystem, preset: str) -> Any:
    taken = {fluid.name for fluid in system.fluids}
    number, wanted = 1, preset
    while wanted in taken:
        number += 1
        wanted = f"{preset} {number}"
    fluid = system.fluids.add()
    fluid.name = fluid.known_as = wanted
    fluid.preset = preset
    system.active_fluid = len(system.fluids) - 1
    return fluid


CLASSES = (
    SolverGroup,
    FluidGroup,
    SourceGroup,
    ColliderGroup,
    SinkGroup,
    ForceGroup,
    DomainGroup,
    OutputGroup,
    WorldGroup,
    RunnelSystem,
    RunnelScene,
    RunnelObject,
)


def register() -> None:
    for cls in CLASSES:
        bpy.utils.register_class(cls)
    bpy.types.Scene.runnel = PointerProperty(type=RunnelScene)
    bpy.types.Object.runnel = PointerProperty(type=RunnelObject)


def unregister() -> None:
    del bpy.types.Object.runnel
    del bpy.types.Scene.runnel
    for cls in reversed(CLASSES):
        bpy.utils.unregister_class(cls)
