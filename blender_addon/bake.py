# SPDX-License-Identifier: GPL-3.0-or-later
"""A bake from start to end: read Blender, write the scene, run core, show what comes.

The state of a bake lives here, by the system's uid, and is gone with the session. A cache on disk
is compared with the scene: the same scene goes on where it stopped, another one is a new take.
"""

from __future__ import annotations

import re
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import bpy

from runnel.cache import Cache
from runnel.errors import RunnelError, SceneError
from runnel.scene import Scene

from . import fingerprint, properties, takes, worker
from .deliver import playback
from .gather import Export, Gatherer, prepared

SLICE = 0.1  # s of reading before Blender gets a turn
LOG = "{take}.log"
PANELS = {("VIEW_3D", "UI"), ("PROPERTIES", "WINDOW")}
_PART = re.compile(r"\b(source|collider|sink|force)\[\d+\]")
STOPPED = "Stopped. Bake goes on from there."

TASKS: dict[str, Task] = {}


@dataclass
class Plan:
    """What to do with the take at hand."""

    take: str
    arguments: list[str] = field(default_factory=list)
    text: str = ""
    nothing: bool = False  # all frames are there


class Task:
    """The bake of one system."""

    def __init__(self, system: Any, mode: str = "AUTO", branch_from: int | None = None) -> None:
        properties.tell_apart()
        home = system.home()
        if home is None:
            raise RunnelError(takes.UNSAVED)
        before = TASKS.get(system.uid)
        if before is not None and not before.ended:
            raise RunnelError(f"{system.name} is being baked already.")
        self.scene_name, self.uid, self.name = system.id_data.name, system.uid, system.name
        self.mode, self.branch_from = mode, branch_from
        self.home: Path = home
        self.seen: Gatherer | None = None
        self.job: worker.Job | None = None
        self.take = ""
        self.message = ""
        self.errors: list[str] = []
        self.blamed = ""  # object that core's message is about
        self.notes: list[str] = []  # what was seen on the way that the artist should know
        self.ended = False  # for the artist; the process of a bake that was stopped winds up
        # One that never came to a process of its own waited for another.
        self._before = before._before if before is not None and before.job is None else before
        self._export: Export | None = None  # read, and waiting for that process
        self._objects: dict[str, list[str]] = {}  # of the scene that was exported
        self._stack = ExitStack()
        self._shown = False
        self._settled = False  # the process is gone
        TASKS[system.uid] = self

    # ---- what the panel asks

    @property
    def exporting(self) -> bool:
        return self.seen is not None and not self.ended

    @property
    def share(self) -> float:
        if self.seen is not None:
            return self.seen.share
        return self.job.progress.share if self.job else float(self.waiting)

    @property
    def failed(self) -> bool:
        return bool(self.errors)

    @property
    def waiting(self) -> bool:
        """For the end of the bake before."""
        return self._export is not None

    @property
    def winding_up(self) -> bool:
        """Stopped, and a process writes what is needed to go on: its own, or that before."""
        if self.job is None:
            return self.ended and self._before is not None and self._before.winding_up
        return self.ended and not self._settled

    def told(self) -> tuple[Any, ...]:
        """What people see of it, to about what a bar of progress shows."""
        said = (self.uid, self.ended, self.winding_up, self.waiting, round(200 * self.share))
        if self.job is None:
            return said
        progress = self.job.progress
        return (*said, self.job.paused, progress.stage, progress.frame)

    # ---- reading Blender

    def begin(self, context: bpy.types.Context) -> None:
        """Start to read; `read` goes on with it."""
        system = self._system()
        try:
            self.home.mkdir(parents=True, exist_ok=True)
            self._stack.enter_context(prepared(context, system))
            self.seen = Gatherer(system, self.home)
        except OSError as error:
            self._end([f"{self.home}: {error.strerror or error}"])

    def read(self, context: bpy.types.Context, seconds: float = SLICE) -> None:
        """Read frames for a while; when all are seen, the worker starts."""
        assert self.seen is not None
        until = time.monotonic() + seconds
        try:
            while not self.seen.done:
                self.seen.step(context)
                if time.monotonic() >= until:
                    return
            self._export = self.seen.finish()
        except Exception as error:  # whatever Blender raises: the artist reads it in the panel
            self._end([f"Reading the scene failed: {type(error).__name__}: {error}"])
            return
        self._close()
        self.poll()

    def _close(self) -> None:
        if self.seen is not None:
            self.seen.close()
        self.seen = None
        self._stack.close()

    def _end(self, errors: list[str]) -> None:
        self._close()
        self.errors, self.ended = errors, True

    # ---- the worker

    def _launch(self, export: Export) -> None:
        self._export = self._before = None
        self._objects, self.notes = export.objects, [note.text for note in export.notes]
        system = self._system()
        try:
            scene = export.check()
            plan = self.plan(system, scene)
            self.message = plan.text
            if plan.nothing:
                self.ended = True
                playback.show(system, system.id_data)
                return
            takes.check_lock(self.home, plan.take)
            path = export.write(plan.take)
            fingerprint.write(self.home, plan.take, system, scene, export.objects)
        except SceneError as error:
            self.blamed = blamed(error.key, export.objects)
            self._end([said(error, self.blamed)])
            return
        except (RunnelError, OSError) as error:
            self._end([str(error)])
            return
        except Exception as error:  # nobody would see it, and the bake would never end
            self._end([f"The bake cannot start: {type(error).__name__}: {error}"])
            return
        self.take = plan.take
        system.take, system.last_home = plan.take, str(self.home)
        arguments = ["run", str(path), "--out", str(self.home / plan.take), "--json"]
        arguments += ["--device", system.device, *plan.arguments]
        if system.memory_limit > 0:
            arguments += ["--memory-limit", f"{system.memory_limit:g}"]
        log = self.home / LOG.format(take=plan.take)
        self.job = worker.Job(arguments, log, scene.frames[0])
        worker.JOBS[self.uid] = self.job
        takes.lock(self.home, plan.take, self.job.pid)

    def plan(self, system: Any, scene: Scene) -> Plan:
        """Go on, start anew, replace or branch; nothing is replaced unless asked for."""
        take = system.take or takes.FIRST
        cache = takes.open_cache(self.home / take)
        if self.mode == "BRANCH":
            if cache is None:
                raise RunnelError("There is no cache to branch from; bake first.")
            parent = str(self.home / take)
            where = ["--branch", parent, "--from", str(self.branch_from)]
            return Plan(takes.next_name(system), where, f"Branch of {take}.")
        if cache is None or not cache.frames():
            return Plan(take, ["--resume"] if cache else [])
        if self.mode == "REPLACE":
            return Plan(take, ["--overwrite"], f"Replaces {take}.")
        if not same(cache, scene):
            return Plan(takes.next_name(system), [], f"The scene has changed; {take} is kept.")
        if cache.last_frame is not None and cache.last_frame >= scene.frames[1]:
            return Plan(take, text=f"{take} is complete and up to date.", nothing=True)
        return Plan(take, ["--resume"], f"Goes on after frame {cache.last_frame}.")

    def poll(self) -> bool:
        """Read what the worker said; show new frames. Returns whether anything changed."""
        if self._export is not None:
            if self._before is None or not self._before.poll():
                self._launch(self._export)
            return True
        if self.job is None:
            return self._before is not None and self._before.poll()
        if self._settled:
            return False
        came = self.job.poll()
        scene, system = properties.locate(self.uid, self.scene_name)
        if system is None:  # removed, or undone
            self.stop()
        if system is not None and system.take != self.take and not self.ended:
            system.take = self.take  # an undo took it back
        if came and system is not None:
            if self._shown and playback.is_shown(system):
                playback.refresh(scene)
            else:
                playback.show(system, scene)
                self._shown = True
        if not self.job.running:
            self._finished(system, scene)
        return True

    def _finished(self, system: Any, scene: Any) -> None:
        assert self.job is not None
        takes.unlock(self.home, self.take)
        self._settled = True
        if self.ended:  # it was stopped
            return
        self.ended = True
        if self.job.failed:
            told = [in_words(line, self._objects) for line in self.job.complaint()]
            self.errors = [line for line, _ in told]
            self.blamed = next((name for _, name in told if name), "")
            self.errors[-1:] = [*self.errors[-1:], f"({worker.status_text(self.job.status)})"]
        else:
            self.message = "Done." if self.job.status == 0 else STOPPED
        if system is not None and takes.open_cache(system.cache_path()) is not None:
            playback.show(system, scene)

    def stop(self) -> None:
        """End it at once. A process ends after the step at hand, and nobody waits for that."""
        if self.ended:
            return
        if self.job is not None:
            self.job.stop()
            self.message, self.ended = STOPPED, True
        else:
            self.message, self._export = "Stopped.", None
            self._end([])

    def _system(self) -> Any:
        _, system = properties.locate(self.uid, self.scene_name)
        if system is None:
            raise RunnelError("The system was removed.")
        return system


def same(cache: Cache, scene: Scene) -> bool:
    """Whether a cache is of this scene, up to the last frame: shots may be prolonged."""
    if cache.manifest.digest == scene.digest():
        return True
    old, new = dict(cache.scene), scene.to_dict(defaults=True)
    old["frames"], new["frames"] = old.get("frames", [1])[0], new["frames"][0]
    return old == new


def blamed(key: str | None, objects: dict[str, list[str]]) -> str:
    """The object that a key such as `source[0].spacing` belongs to."""
    kind, _, rest = (key or "").partition("[")
    number, _, _ = rest.partition("]")
    names = objects.get(kind, [])
    return names[int(number)] if number.isdigit() and int(number) < len(names) else ""


def in_words(text: str, objects: dict[str, list[str]]) -> tuple[str, str]:
    """A message of core's process with objects in place of numbers, and the one it blames."""
    found = _PART.search(text)
    name = blamed(found[0], objects) if found is not None else ""
    return (text.replace(found[0], repr(name)), name) if found and name else (text, "")


def said(error: SceneError, name: str) -> str:
    """Core's message in the artist's words: the object instead of its number."""
    if not name:
        return str(error)
    knob = (error.key or "").partition("].")[2]
    return f"{name}: {knob + ': ' if knob else ''}{error.message}"


def task(uid: str) -> Task | None:
    return TASKS.get(uid)


def active(uid: str) -> Task | None:
    """The bake of a system that is not over."""
    found = TASKS.get(uid)
    return found if found is not None and not found.ended else None


def run(context: bpy.types.Context, started: Task, tick: Any = None) -> Task:
    """Bake in one go, for Blender without a window."""
    started.begin(context)
    while not started.ended:
        if started.exporting:
            started.read(context, seconds=60.0)
        else:
            started.poll()
            if not started.ended:
                time.sleep(0.05)
        if tick is not None:
            tick(started)
    return started


# --- polling --------------------------------------------------------------------------------------


def _tick() -> float:
    """Timer of Blender's main thread; asks all workers how far they are, stopped ones too."""
    changed = [found.poll() for found in list(TASKS.values())]
    if any(changed):
        redraw(anyway=False)
    return 0.2 if any(changed) else 1.0


_drawn: list[Any] = [None]  # what panels and the status bar show


def redraw(anyway: bool = True) -> None:
    """Panels and the status bar, where they have something new to say or anyway.

    Not the 3D view beside them: a heavy one, drawn with every step, would leave no time for Esc.
    """
    told = [found.told() for found in TASKS.values()]
    if told == _drawn[0] and not anyway:
        return
    _drawn[0] = told
    for window in bpy.context.window_manager.windows:
        for area in window.screen.areas:
            for region in area.regions:
                if (area.type, region.type) in PANELS:
                    region.tag_redraw()
        # The bar belongs to no screen; setting its text draws it anew.
        window.workspace.status_text_set(None)


def forget(*_: Any) -> None:
    """Another file is opened: its systems are others."""
    for found in TASKS.values():
        found.stop()
    worker.stop_all()
    for uid, found in list(TASKS.items()):
        found.poll()
        if not found.winding_up:
            del TASKS[uid]


forget = bpy.app.handlers.persistent(forget)


def register() -> None:
    bpy.app.handlers.load_pre.append(forget)
    if not bpy.app.background:
        bpy.app.timers.register(_tick, first_interval=1.0, persistent=True)


def unregister() -> None:
    forget()
    bpy.app.handlers.load_pre.remove(forget)
    if bpy.app.timers.is_registered(_tick):
        bpy.app.timers.unregister(_tick)
