# SPDX-License-Identifier: GPL-3.0-or-later
"""The sidebar tab, the panel in the object's properties, and the status bar."""

from __future__ import annotations

import textwrap
from typing import Any

import bpy

from runnel.progress import duration
from runnel.spec import Spec

from . import bake, fingerprint, preflight, properties, roles, takes, worker
from .deliver import display
from .knobs import FLUID, OUTPUT, SECTIONS, SOLVER, WORLD, Section
from .properties import GROUPS, switch_name

# For breaking lines, in pixels at scale 1: borders of a sidebar, an icon, a letter on average.
MARGIN, ICON, LETTER = 58, 20, 6.2


def draw_knob(layout: Any, group: Any, spec: Spec) -> None:
    """A knob, with its toggle where it may be absent or a word."""
    switch = switch_name(spec)
    if not hasattr(group, switch or spec.name):
        switch = ""
    if not switch or (spec.optional and spec.type is str):
        if spec.choices is not None and spec.size == 0:
            row = layout.row(heading=spec.label, align=True)
            row.prop(group, spec.name)
        else:
            layout.prop(group, spec.name)
        return
    row = layout.row(align=True, heading=spec.label)
    held = row.row(align=True)
    held.prop(group, switch, text=spec.words[0].title() if spec.words else "")
    value = row.row(align=True)
    value.active = getattr(group, switch) != bool(spec.words)
    value.prop(group, spec.name, text="")


def draw_section(layout: Any, group: Any, section: Section, names: tuple[str, ...]) -> None:
    layout.use_property_split = True
    layout.use_property_decorate = False
    column = layout.column()
    for spec in section.specs(names):
        draw_knob(column, group, spec)


def wrapped(layout: Any, text: str, icon: str = "NONE") -> None:
    """A text in lines that fit, which Blender does not do by itself."""
    region, scale = bpy.context.region, bpy.context.preferences.system.ui_scale
    width = region.width / scale if region is not None else 300
    room = width - MARGIN - (0 if icon == "NONE" else ICON)
    column = layout.column(align=True)
    column.scale_y = 0.8
    for number, line in enumerate(textwrap.wrap(text, max(int(room / LETTER), 12)) or [""]):
        column.label(text=line, icon=icon if number == 0 or icon == "NONE" else "BLANK1")


def draw_bar(layout: Any, share: float, text: str) -> None:
    if hasattr(layout, "progress"):
        layout.progress(factor=share, text=text)
        return
    full = round(12 * share)
    layout.label(text=f"{'█' * full}{'░' * (12 - full)}  {text}")


class Sidebar:
    """A panel of the tab."""

    bl_space_type = "VIEW_3D"
    bl_region_type = "UI"
    bl_category = "Runnel"


class WithSystem(Sidebar):
    """A panel that shows the active system."""

    @classmethod
    def poll(cls, context: bpy.types.Context) -> bool:
        return bool(context.scene.runnel.systems)


class RUNNEL_UL_names(bpy.types.UIList):
    """Systems or fluids by name."""

    def draw_item(
        self,
        context: Any,
        layout: Any,
        data: Any,
        item: Any,
        icon: Any,
        active_data: Any,
        active_property: str,
    ) -> None:
        row = layout.row(align=True)
        if hasattr(item, "color"):
            swatch = row.row()
            swatch.scale_x = 0.35
            swatch.prop(item, "color", text="")
        elif bake.active(getattr(item, "uid", "")):
            row.label(text="", icon="RENDER_ANIMATION")
        row.prop(item, "name", text="", emboss=False)


class RUNNEL_MT_presets(bpy.types.Menu):
    """Liquids in real units."""

    bl_label = "Add Fluid"

    def draw(self, context: Any) -> None:
        self.layout.operator_enum("runnel.fluid_add", "preset")


class RUNNEL_MT_takes(bpy.types.Menu):
    """Bakes that are on disk."""

    bl_label = "Take"

    def draw(self, context: Any) -> None:
        system = context.scene.runnel.active_system()
        for name in takes.names(system):
            icon = "CHECKMARK" if name == system.take else "BLANK1"
            self.layout.operator("runnel.take", text=name, icon=icon).take = name
        self.layout.separator()
        self.layout.operator("runnel.delete_take", icon="TRASH")


class RUNNEL_MT_systems(bpy.types.Menu):
    """Systems that an object may belong to."""

    bl_label = "System"

    def draw(self, context: Any) -> None:
        self.layout.operator("runnel.assign_system", text="First System").system = ""
        self.layout.operator("runnel.assign_system", text="All Systems").system = properties.ALL
        for system in context.scene.runnel.systems:
            self.layout.operator("runnel.assign_system", text=system.name).system = system.uid


# --- the system and its bake ----------------------------------------------------------------------


class RUNNEL_PT_system(Sidebar, bpy.types.Panel):
    """Systems, resolution and the bake."""

    bl_label = "Runnel"

    def draw(self, context: bpy.types.Context) -> None:
        layout, runnel = self.layout, context.scene.runnel
        if not runnel.systems:
            wrapped(layout, "Select an object that shall become liquid, then:")
            column = layout.column()
            column.scale_y = 1.5
            column.operator("runnel.quick_liquid", icon="MOD_FLUIDSIM")
            layout.operator("runnel.system_add", text="Start Empty", icon="ADD")
            return
        system = runnel.active_system()
        _draw_systems(layout, runnel, system)
        column = layout.column()
        column.use_property_split = True
        column.use_property_decorate = False
        column.prop(system, "spacing")
        draw_bake(layout, system)


def _draw_systems(layout: Any, runnel: Any, system: Any) -> None:
    if len(runnel.systems) == 1:
        row = layout.row(align=True)
        row.prop(system, "name", text="")
        row.operator("runnel.system_add", text="", icon="ADD")
        row.operator("runnel.system_remove", text="", icon="REMOVE")
        return
    row = layout.row()
    row.template_list("RUNNEL_UL_names", "systems", runnel, "systems", runnel, "active",
                      rows=2, maxrows=4)  # fmt: skip
    buttons = row.column(align=True)
    buttons.operator("runnel.system_add", text="", icon="ADD")
    buttons.operator("runnel.system_remove", text="", icon="REMOVE")


def draw_bake(layout: Any, system: Any) -> None:
    """Buttons, progress, and what became of the last bake."""
    box = layout.box()
    task = bake.active(system.uid)
    if task is not None:
        _draw_running(box, system, task)
        return
    over = bake.task(system.uid)
    cache = takes.open_cache(system.cache_path())
    frames = cache.frames() if cache else []
    stale = bool(frames) and fingerprint.changed(system)
    first, last = system.frame_range()
    unsaved = system.home() is None
    column = box.column()
    column.scale_y = 1.5
    column.enabled = not unsaved
    text, icon = f"Bake {first} to {last}", "RENDER_ANIMATION"
    if frames and stale:
        text = "Bake New Take"
    elif frames:
        done = frames[-1] >= last
        text, icon = ("Up to Date", "CHECKMARK") if done else (f"Go On to {last}", "PLAY")
    column.operator("runnel.bake", text=text, icon=icon).system = system.uid
    if unsaved:
        wrapped(box, takes.UNSAVED, "ERROR")
        box.operator("wm.save_mainfile", text="Save", icon="FILE_TICK")
    if frames:
        row = box.row(align=True)
        operator = row.operator("runnel.bake", text="Replace", icon="FILE_REFRESH")
        operator.system, operator.mode = system.uid, "REPLACE"
        operator = row.operator("runnel.bake", text="Branch", icon="DUPLICATE")
        operator.system, operator.mode = system.uid, "BRANCH"
    _draw_cache(box, system, frames, stale)
    if over is not None and over.failed:
        _draw_failure(box, system, over)
    elif over is not None and over.winding_up:
        box.label(text="Stopped; saving where it was …", icon="INFO")
    _draw_notes(box, over)


def _draw_running(box: Any, system: Any, task: bake.Task) -> None:
    job = task.job
    if job is None:
        draw_bar(box, task.share, _reading(task))
        box.operator("runnel.stop", icon="X").system = system.uid
        return
    progress = job.progress
    draw_bar(box, progress.share, f"{100 * progress.share:.0f} %")
    column = box.column(align=True)
    column.scale_y = 0.85
    stage = "Paused" if job.paused else progress.stage
    if progress.frame is None:
        column.label(text=f"{stage} …")
    else:
        column.label(text=f"{stage}, frame {progress.frame} of {progress.last}")
        for text in facts(progress):
            column.label(text=text)
    row = box.row(align=True)
    row.scale_y = 1.3
    icon, text = ("PLAY", "Resume") if job.paused else ("PAUSE", "Pause")
    row.operator("runnel.pause", text=text, icon=icon).system = system.uid
    row.operator("runnel.stop", icon="X").system = system.uid
    for message in progress.messages[-2:]:
        wrapped(box, message, "INFO")
    _draw_notes(box, task)


def _draw_notes(box: Any, task: bake.Task | None) -> None:
    """What was left out or counts otherwise than it may seem."""
    for note in task.notes[:4] if task is not None else ():
        wrapped(box, note, "INFO")


def _reading(task: bake.Task) -> str:
    if task.waiting:
        return "Waiting for the last bake to end"
    return f"Reading {100 * task.share:.0f} %"


def facts(progress: worker.Progress) -> list[str]:
    """Particles, density error and time left, for people."""
    found = []
    if progress.particles is not None:
        found.append(f"{progress.particles:,} particles".replace(",", " "))
    if progress.density_error is not None:
        found.append(f"Density error {100 * progress.density_error:.2f} %")
    if progress.seconds_left is not None:
        found.append(f"{duration(progress.seconds_left)} left")
    return found


def _draw_cache(box: Any, system: Any, frames: list[int], stale: bool) -> None:
    row = box.row()
    if not frames:
        row.label(text="Nothing baked yet", icon="BLANK1")
        return
    row.menu("RUNNEL_MT_takes", text=system.take or takes.FIRST)
    row.label(text=f"{frames[0]} to {frames[-1]}")
    if stale:
        wrapped(box, "Settings have changed since this take was baked. It is kept.", "ERROR")
    here = system.home()
    if here is not None and system.cache_path().parent != here:
        wrapped(box, f"Shown from where the file was before: {system.cache_path().parent}", "INFO")
    if system.display.message:
        wrapped(box, system.display.message, "ERROR" if system.display.failed else "INFO")


def _draw_failure(box: Any, system: Any, task: bake.Task) -> None:
    alert = box.column()
    alert.alert = True
    for number, line in enumerate(task.errors[-6:]):
        wrapped(alert, line, "ERROR" if number == 0 else "BLANK1")
    row = box.row(align=True)
    if task.blamed:
        row.operator("runnel.select", text=f"Select {task.blamed}").name = task.blamed
    if task.job is not None:
        row.operator("runnel.show_log", icon="TEXT").system = system.uid


# --- objects --------------------------------------------------------------------------------------


def draw_object(layout: Any, context: bpy.types.Context) -> None:
    """Role of the active object and what belongs to it."""
    obj = context.object
    if obj is None:
        layout.label(text="No active object")
        return
    settings = obj.runnel
    if roles.MADE_HERE in obj:
        layout.label(text="Shows a cache", icon="INFO")
        return
    row = layout.row(align=True)
    row.operator_menu_enum("runnel.set_role", "role", text=_role_title(settings.role),
                           icon=properties.ICONS.get(settings.role, "DOT"))  # fmt: skip
    if settings.role == "NONE":
        return
    section = SECTIONS[settings.role]
    system = context.scene.runnel.active_system()
    if system is not None and settings.role in roles.SOURCES:
        layout.prop_search(settings, "fluid", system, "fluids", icon="MATFLUID")
    draw_section(layout, getattr(settings, GROUPS[section.cls]), section, section.first)
    if settings.role == "SOFT":
        layout.prop(settings.collider, "pin")
    if len(context.scene.runnel.systems) > 1:
        owner = properties.find(context.scene, settings.system)
        row = layout.row()
        row.label(text="Belongs to")
        text = "All Systems" if settings.system == properties.ALL else "First System"
        row.menu("RUNNEL_MT_systems", text=owner.name if owner else text)


def _role_title(role: str) -> str:
    return SECTIONS[role].title if role in SECTIONS else "Choose a Role"


def draw_object_more(layout: Any, context: bpy.types.Context) -> None:
    settings = context.object.runnel
    section = SECTIONS[settings.role]
    draw_section(layout, getattr(settings, GROUPS[section.cls]), section, section.more)


def _has_more(context: bpy.types.Context) -> bool:
    obj = context.object
    return obj is not None and bool(SECTIONS.get(obj.runnel.role, FLUID).more) and (
        obj.runnel.role != "NONE"
    )  # fmt: skip


class RUNNEL_PT_object(Sidebar, bpy.types.Panel):
    """Role of the active object."""

    bl_label = "Object"

    @classmethod
    def poll(cls, context: bpy.types.Context) -> bool:
        return context.object is not None

    def draw_header_preset(self, context: bpy.types.Context) -> None:
        self.layout.label(text=context.object.name)

    def draw(self, context: bpy.types.Context) -> None:
        draw_object(self.layout, context)


class RUNNEL_PT_object_more(Sidebar, bpy.types.Panel):
    """Knobs of the role that most shots leave alone."""

    bl_label = "More"
    bl_parent_id = "RUNNEL_PT_object"
    bl_options = {"DEFAULT_CLOSED"}  # noqa: RUF012

    @classmethod
    def poll(cls, context: bpy.types.Context) -> bool:
        return _has_more(context)

    def draw(self, context: bpy.types.Context) -> None:
        draw_object_more(self.layout, context)


class RUNNEL_PT_properties(bpy.types.Panel):
    """The same in the object's properties."""

    bl_label = "Runnel"
    bl_space_type = "PROPERTIES"
    bl_region_type = "WINDOW"
    bl_context = "object"
    bl_options = {"DEFAULT_CLOSED"}  # noqa: RUF012

    def draw(self, context: bpy.types.Context) -> None:
        draw_object(self.layout, context)
        if _has_more(context):
            draw_object_more(self.layout.box(), context)


# --- fluids, checks, the rest ---------------------------------------------------------------------


class RUNNEL_PT_fluids(WithSystem, bpy.types.Panel):
    """The liquids of a system."""

    bl_label = "Fluids"

    def draw(self, context: bpy.types.Context) -> None:
        layout, system = self.layout, context.scene.runnel.active_system()
        row = layout.row()
        row.template_list("RUNNEL_UL_names", "fluids", system, "fluids", system, "active_fluid",
                          rows=2, maxrows=5)  # fmt: skip
        buttons = row.column(align=True)
        buttons.menu("RUNNEL_MT_presets", text="", icon="ADD")
        buttons.operator("runnel.fluid_remove", text="", icon="REMOVE")
        if 0 <= system.active_fluid < len(system.fluids):
            fluid = system.fluids[system.active_fluid]
            draw_section(layout, fluid, FLUID, FLUID.first + FLUID.more)


class RUNNEL_PT_checks(WithSystem, bpy.types.Panel):
    """Warnings and cost, before the bake."""

    bl_label = "Check"

    def draw(self, context: bpy.types.Context) -> None:
        layout, system = self.layout, context.scene.runnel.active_system()
        check = preflight.of(system.uid)
        busy = check is not None and check.running
        row = layout.row()
        row.enabled = not busy
        text = "Checking …" if busy else "Check and Estimate"
        row.operator("runnel.check", text=text, icon="VIEWZOOM").system = system.uid
        if check is None:
            return
        if check.estimate:
            grid = layout.box().grid_flow(row_major=True, columns=2, align=True)
            grid.scale_y = 0.85
            for name, value in preflight.cost(check.estimate):
                grid.label(text=name)
                grid.label(text=value)
        for issue in check.issues:
            _draw_issue(layout.box(), issue)
        if not check.issues and not busy:
            layout.label(text="No warnings", icon="CHECKMARK")


def _draw_issue(box: Any, issue: preflight.Issue) -> None:
    wrapped(box, issue.text, "CANCEL" if issue.blocks else "ERROR")
    row = box.row(align=True)
    if issue.fix:
        operator = row.operator("runnel.fix", text=preflight.FIXES[issue.fix], icon="TOOL_SETTINGS")
        operator.fix, operator.name = issue.fix, issue.object
    if issue.object:
        row.operator("runnel.select", icon="RESTRICT_SELECT_OFF").name = issue.object


class RUNNEL_PT_display(WithSystem, bpy.types.Panel):
    """What of the cache is shown."""

    bl_label = "Display"
    bl_options = {"DEFAULT_CLOSED"}  # noqa: RUF012

    def draw(self, context: bpy.types.Context) -> None:
        display.draw(self.layout, context.scene.runnel.active_system())


class RUNNEL_PT_advanced(WithSystem, bpy.types.Panel):
    """Solver, frames, cache and device."""

    bl_label = "Advanced"
    bl_options = {"DEFAULT_CLOSED"}  # noqa: RUF012

    def draw(self, context: bpy.types.Context) -> None:
        layout, system = self.layout, context.scene.runnel.active_system()
        layout.use_property_split = True
        layout.use_property_decorate = False
        layout.prop(system, "cache_directory")
        row = layout.row(heading="Frame Range")
        row.prop(system, "own_frames", text="")
        held = row.row()
        held.active = system.own_frames
        held.prop(system, "frames", text="")
        layout.prop(system, "device")
        layout.prop(system, "memory_limit")
        layout.prop(system, "use_force_fields")
        layout.operator("runnel.export", icon="EXPORT").system = system.uid


class RUNNEL_PT_solver(WithSystem, bpy.types.Panel):
    """Knobs of the solver."""

    bl_label = "Solver"
    bl_parent_id = "RUNNEL_PT_advanced"
    bl_options = {"DEFAULT_CLOSED"}  # noqa: RUF012

    def draw(self, context: bpy.types.Context) -> None:
        system = context.scene.runnel.active_system()
        draw_section(self.layout, system.solver, SOLVER, SOLVER.first + SOLVER.more)
        draw_section(self.layout, system.world, WORLD, WORLD.more)


class RUNNEL_PT_output(WithSystem, bpy.types.Panel):
    """What the cache holds."""

    bl_label = "Output"
    bl_parent_id = "RUNNEL_PT_advanced"
    bl_options = {"DEFAULT_CLOSED"}  # noqa: RUF012

    def draw(self, context: bpy.types.Context) -> None:
        system = context.scene.runnel.active_system()
        self.layout.label(text=OUTPUT.help)
        column = self.layout.column(align=True)
        column.prop(system.output, "channels")


# --- status bar -----------------------------------------------------------------------------------


def draw_status(header: Any, context: bpy.types.Context) -> None:
    for system in context.scene.runnel.systems:
        task = bake.active(system.uid)
        if task is None:
            continue
        row = header.layout.row(align=True)
        row.label(text=f"{system.name}:", icon="MOD_FLUIDSIM")
        if task.job is None:
            draw_bar(row, task.share, _reading(task))
            continue
        progress = task.job.progress
        where = "" if progress.frame is None else f", frame {progress.frame}/{progress.last}"
        stage = "Paused" if task.job.paused else progress.stage
        draw_bar(row, progress.share, f"{stage}{where}")
        row.label(text="  ·  ".join([*facts(progress), "Esc stops"]))


CLASSES = (
    RUNNEL_UL_names,
    RUNNEL_MT_presets,
    RUNNEL_MT_takes,
    RUNNEL_MT_systems,
    RUNNEL_PT_system,
    RUNNEL_PT_checks,
    RUNNEL_PT_object,
    RUNNEL_PT_object_more,
    RUNNEL_PT_fluids,
    RUNNEL_PT_display,
    RUNNEL_PT_advanced,
    RUNNEL_PT_solver,
    RUNNEL_PT_output,
    RUNNEL_PT_properties,
)


def register() -> None:
    for cls in CLASSES:
        bpy.utils.register_class(cls)
    bpy.types.STATUSBAR_HT_header.append(draw_status)


def unregister() -> None:
    bpy.types.STATUSBAR_HT_header.remove(draw_status)
    for cls in reversed(CLASSES):
        bpy.utils.unregister_class(cls)
