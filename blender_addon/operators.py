# SPDX-License-Identifier: GPL-3.0-or-later
"""What buttons do."""

from __future__ import annotations

from typing import Any

import bpy
from bpy.props import EnumProperty, StringProperty

from runnel.errors import RunnelError
from runnel.params import PRESETS
from runnel.progress import duration

from . import bake, properties, takes, worker
from .properties import ROLES
from .roles import SOURCES

MODES = [
    ("AUTO", "Bake", "Go on with the take, or start a new one if the scene has changed"),
    ("REPLACE", "Replace", "Bake anew into the same take; its frames are replaced"),
    ("BRANCH", "Branch", "Go on from the current frame with the settings of now, in a new take"),
]


def _system(context: bpy.types.Context, uid: str) -> Any:
    runnel = context.scene.runnel
    return properties.find(context.scene, uid) if uid else runnel.active_system()


class RUNNEL_OT_bake(bpy.types.Operator):
    """Simulate in a process of its own; Blender stays usable, Esc stops"""

    bl_idname = "runnel.bake"
    bl_label = "Bake"

    system: StringProperty(
        description="uid of the system; empty: the active one", options={"HIDDEN", "SKIP_SAVE"}
    )
    mode: EnumProperty(items=MODES, options={"SKIP_SAVE"})

    @classmethod
    def description(cls, context: Any, arguments: Any) -> str:
        return next(text for word, _, text in MODES if word == arguments.mode)

    @classmethod
    def poll(cls, context: bpy.types.Context) -> bool:
        return bool(context.scene.runnel.systems)

    def execute(self, context: bpy.types.Context) -> set[str]:
        """To the end, without a window; with one, as from the button."""
        if not bpy.app.background:
            return self.invoke(context, None)
        task = self._task(context)
        if task is None:
            return {"CANCELLED"}
        bake.run(context, task, _print_progress())
        if task.failed:
            self.report({"ERROR"}, "\n".join(task.errors))
            return {"CANCELLED"}
        self.report({"INFO"}, " ".join([task.message, *task.notes]))
        return {"FINISHED"}

    def invoke(self, context: bpy.types.Context, event: Any) -> set[str]:
        task = self._task(context)
        if task is None:
            return {"CANCELLED"}
        task.begin(context)
        self._uid = task.uid
        self._timer = context.window_manager.event_timer_add(0.1, window=context.window)
        context.window_manager.modal_handler_add(self)
        return {"RUNNING_MODAL"}

    def _task(self, context: bpy.types.Context) -> bake.Task | None:
        system = _system(context, self.system)
        if system is None:
            self.report({"ERROR"}, "There is no such system.")
            return None
        try:
            return bake.Task(system, self.mode, context.scene.frame_current)
        except RunnelError as error:
            self.report({"ERROR"}, str(error))
            return None

    def modal(self, context: bpy.types.Context, event: Any) -> set[str]:
        task = bake.task(self._uid)
        if task is None or task.ended:
            return self._over(context, task)
        playing = getattr(context.screen, "is_animation_playing", False)
        if event.type == "ESC" and event.value == "PRESS" and not playing:  # that is ended first
            task.stop()
            return self._over(context, task)
        if event.type == "TIMER":
            if task.exporting:
                task.read(context)
            else:
                task.poll()
            bake.redraw(anyway=False)
        # While Blender is read, its frame changes: nothing else may be done with it.
        return {"RUNNING_MODAL"} if task.exporting else {"PASS_THROUGH"}

    def _over(self, context: bpy.types.Context, task: bake.Task | None) -> set[str]:
        context.window_manager.event_timer_remove(self._timer)
        bake.redraw()
        if task is not None and task.failed:
            self.report({"ERROR"}, task.errors[0])
        elif task is not None and task.message:
            self.report({"INFO"}, f"{task.name}: {task.message}")
        return {"FINISHED"}

    def cancel(self, context: bpy.types.Context) -> None:
        """The window closes; the bake goes on, watched by a timer."""
        task = bake.task(self._uid)
        if task is not None and task.exporting:
            task.stop()


def _print_progress() -> Any:
    """A line a frame on the terminal."""
    seen = [-1]

    def tick(task: bake.Task) -> None:
        progress = task.job.progress if task.job else None
        if progress is not None and task.job and task.job.frames_done != seen[0]:
            seen[0] = task.job.frames_done
            left = progress.seconds_left
            rest = "" if left is None else f", {duration(left)} left"
            where = f"frame {progress.frame}/{progress.last}, {progress.particles} particles"
            print(f"Runnel: {where if progress.frame else progress.stage}{rest}", flush=True)  # noqa: T201

    return tick


class RUNNEL_OT_stop(bpy.types.Operator):
    """Stop at once; the cache stays, Bake goes on from the step that was at hand"""

    bl_idname = "runnel.stop"
    bl_label = "Stop"
    system: StringProperty(options={"HIDDEN", "SKIP_SAVE"})

    def execute(self, context: bpy.types.Context) -> set[str]:
        system = _system(context, self.system)
        task = bake.active(system.uid) if system else None
        if task is None:
            return {"CANCELLED"}
        task.stop()
        bake.redraw()
        return {"FINISHED"}


class RUNNEL_OT_pause(bpy.types.Operator):
    """Hold the bake still, or let it go on; its memory stays in use"""

    bl_idname = "runnel.pause"
    bl_label = "Pause"
    system: StringProperty(options={"HIDDEN", "SKIP_SAVE"})

    def execute(self, context: bpy.types.Context) -> set[str]:
        system = _system(context, self.system)
        job = worker.job(system.uid) if system else None
        if job is None or not job.running:
            return {"CANCELLED"}
        job.go_on() if job.paused else job.pause()
        bake.redraw()
        return {"FINISHED"}


class RUNNEL_OT_show_log(bpy.types.Operator):
    """Open what the bake wrote in a text editor"""

    bl_idname = "runnel.show_log"
    bl_label = "Show Log"
    system: StringProperty(options={"HIDDEN", "SKIP_SAVE"})

    def execute(self, context: bpy.types.Context) -> set[str]:
        system = _system(context, self.system)
        folder = system.cache_path()
        log = folder.parent / bake.LOG.format(take=folder.name)
        if not log.is_file():
            self.report({"WARNING"}, f"There is no log at {log}.")
            return {"CANCELLED"}
        name = f"Runnel {system.name} log"
        text = bpy.data.texts.get(name) or bpy.data.texts.new(name)
        text.clear()
        text.write(log.read_text(encoding="utf-8", errors="replace")[-100_000:])
        if not bpy.app.background:
            _show_text(context, text)
        self.report({"INFO"}, f"In the text {name!r}.")
        return {"FINISHED"}


def _show_text(context: bpy.types.Context, text: bpy.types.Text) -> None:
    """In an editor that is open, or in a window of its own."""
    for area in context.screen.areas:
        if area.type == "TEXT_EDITOR":
            area.spaces.active.text = text
            return
    bpy.ops.wm.window_new()
    area = context.window_manager.windows[-1].screen.areas[0]
    area.type = "TEXT_EDITOR"
    area.spaces.active.text = text


class RUNNEL_OT_take(bpy.types.Operator):
    """Show this take"""

    bl_idname = "runnel.take"
    bl_label = "Take"
    bl_options = {"UNDO"}  # noqa: RUF012
    system: StringProperty(options={"HIDDEN", "SKIP_SAVE"})
    take: StringProperty(options={"SKIP_SAVE"})

    def execute(self, context: bpy.types.Context) -> set[str]:
        from .deliver import playback

        system = _system(context, self.system)
        system.take = self.take
        playback.show(system, context.scene)
        return {"FINISHED"}


class RUNNEL_OT_delete_take(bpy.types.Operator):
    """Delete the files of the take that is shown; this cannot be undone"""

    bl_idname = "runnel.delete_take"
    bl_label = "Delete Take"
    system: StringProperty(options={"HIDDEN", "SKIP_SAVE"})

    def invoke(self, context: bpy.types.Context, event: Any) -> set[str]:
        return context.window_manager.invoke_confirm(self, event)

    def execute(self, context: bpy.types.Context) -> set[str]:
        system = _system(context, self.system)
        task = bake.task(system.uid)
        if task is not None and (not task.ended or task.winding_up):
            self.report({"ERROR"}, "The take is being baked; stop that first, or wait a moment.")
            return {"CANCELLED"}
        takes.delete(system, system.take or takes.FIRST)
        system.take = (takes.names(system) or [""])[-1]
        return {"FINISHED"}


class RUNNEL_OT_system_add(bpy.types.Operator):
    """Add a set-up of fluid with settings and a cache of its own"""

    bl_idname = "runnel.system_add"
    bl_label = "Add System"
    bl_options = {"UNDO"}  # noqa: RUF012

    def execute(self, context: bpy.types.Context) -> set[str]:
        properties.add_system(context.scene)
        return {"FINISHED"}


class RUNNEL_OT_system_remove(bpy.types.Operator):
    """Remove the active system; its cache stays on disk"""

    bl_idname = "runnel.system_remove"
    bl_label = "Remove System"
    bl_options = {"UNDO"}  # noqa: RUF012

    def execute(self, context: bpy.types.Context) -> set[str]:
        from .deliver import playback

        runnel = context.scene.runnel
        system = runnel.active_system()
        if system is None:
            return {"CANCELLED"}
        task = bake.active(system.uid)
        if task is not None:
            task.stop()
        playback.hide(system)
        runnel.systems.remove(list(runnel.systems).index(system))
        runnel.active = max(0, runnel.active - 1)
        return {"FINISHED"}


class RUNNEL_OT_fluid_add(bpy.types.Operator):
    """Add a liquid to the system"""

    bl_idname = "runnel.fluid_add"
    bl_label = "Add Fluid"
    bl_options = {"UNDO"}  # noqa: RUF012
    preset: EnumProperty(
        name="Preset", items=[(name, name.replace("_", " ").title(), "") for name in PRESETS]
    )

    def execute(self, context: bpy.types.Context) -> set[str]:
        properties.add_fluid(context.scene.runnel.active_system(), self.preset)
        return {"FINISHED"}


class RUNNEL_OT_fluid_remove(bpy.types.Operator):
    """Remove the liquid; objects that name it take the first one"""

    bl_idname = "runnel.fluid_remove"
    bl_label = "Remove Fluid"
    bl_options = {"UNDO"}  # noqa: RUF012

    def execute(self, context: bpy.types.Context) -> set[str]:
        system = context.scene.runnel.active_system()
        if system is None or len(system.fluids) < 2:
            self.report({"WARNING"}, "A system needs a fluid.")
            return {"CANCELLED"}
        system.fluids.remove(system.active_fluid)
        system.active_fluid = max(0, system.active_fluid - 1)
        return {"FINISHED"}


class RUNNEL_OT_set_role(bpy.types.Operator):
    """Give all selected objects a part in the simulation"""

    bl_idname = "runnel.set_role"
    bl_label = "Set Role"
    bl_options = {"REGISTER", "UNDO"}  # noqa: RUF012
    role: EnumProperty(name="Role", items=ROLES)

    def execute(self, context: bpy.types.Context) -> set[str]:
        chosen = list(context.selected_objects) or [context.object]
        for obj in filter(None, chosen):
            obj.runnel.role = self.role
            if self.role in SOURCES and not obj.runnel.fluid:
                obj.runnel.fluid = context.scene.runnel.active_system().fluids[0].name
            if self.role == "DOMAIN":
                obj.display_type = "WIRE"
        return {"FINISHED"}


class RUNNEL_OT_assign_system(bpy.types.Operator):
    """Choose the system that the selected objects belong to"""

    bl_idname = "runnel.assign_system"
    bl_label = "System"
    bl_options = {"UNDO"}  # noqa: RUF012
    system: StringProperty(options={"SKIP_SAVE"})

    def execute(self, context: bpy.types.Context) -> set[str]:
        for obj in {context.object, *context.selected_objects} - {None}:
            obj.runnel.system = self.system
        return {"FINISHED"}


class RUNNEL_OT_export(bpy.types.Operator):
    """Write the scene for the command line: `runnel run` takes the file as it is"""

    bl_idname = "runnel.export"
    bl_label = "Export Scene"
    system: StringProperty(options={"HIDDEN", "SKIP_SAVE"})
    take: StringProperty(default="export", options={"SKIP_SAVE"})

    def execute(self, context: bpy.types.Context) -> set[str]:
        from .gather import gather

        system = _system(context, self.system)
        home = system.home() if system else None
        if home is None:
            self.report({"ERROR"}, takes.UNSAVED)
            return {"CANCELLED"}
        home.mkdir(parents=True, exist_ok=True)
        try:
            path = gather(context, system, home).write(self.take)
        except (RunnelError, OSError) as error:
            self.report({"ERROR"}, str(error))
            return {"CANCELLED"}
        self.report({"INFO"}, f"Wrote {path}")
        return {"FINISHED"}


CLASSES = (
    RUNNEL_OT_bake,
    RUNNEL_OT_stop,
    RUNNEL_OT_pause,
    RUNNEL_OT_show_log,
    RUNNEL_OT_take,
    RUNNEL_OT_delete_take,
    RUNNEL_OT_system_add,
    RUNNEL_OT_system_remove,
    RUNNEL_OT_fluid_add,
    RUNNEL_OT_fluid_remove,
    RUNNEL_OT_set_role,
    RUNNEL_OT_assign_system,
    RUNNEL_OT_export,
)
