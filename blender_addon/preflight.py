# SPDX-License-Identifier: GPL-3.0-or-later
"""Before the bake: what is probably not meant, with a button that helps, and what it will cost.

Meshes are looked at here with core's own measures; the rest, and the cost, comes from
`runnel check` in a process of its own, so that Blender stays awake.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bpy
import numpy as np

from runnel.errors import RunnelError, SceneError
from runnel.meshes import Mesh, is_flat
from runnel.params import Solver
from runnel.progress import duration
from runnel.spec import specs

from . import bake, properties, takes, worker
from .deliver.objects import metres_per_unit
from .gather import Export, Gatherer, prepared, spacing_of
from .tracks import Track

FIXES = {
    "shell": "Make It a Shell",
    "normals": "Turn Normals Out",
    "holes": "Fill Holes",
    "gravity": "Earth's Gravity",
    "smaller": "Halve the Spacing",
    "emit_down": "Let It Flow Down",
}
_WHERE = re.compile(r"^(source|collider|sink|force)\[(\d+)\][^ ]* ?('.*?')?:? ?")


@dataclass
class Issue:
    """Something to tell before a bake."""

    text: str
    object: str = ""
    fix: str = ""
    blocks: bool = False  # core refuses it


class Check:
    """Of one system."""

    def __init__(self) -> None:
        self.issues: list[Issue] = []
        self.estimate: dict[str, Any] = {}
        self._objects: dict[str, list[str]] = {}
        self._files: dict[str, str] = {}  # name of a mesh file -> object
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._free: int | None = None  # bytes on the cache's disk

    @property
    def running(self) -> bool:
        return self._process is not None

    def start(self, context: bpy.types.Context, system: Any) -> None:
        """Look at the first frame, then let core look."""
        self._folder = tempfile.TemporaryDirectory(prefix="runnel_check_")
        folder = Path(self._folder.name)
        export = self._export(context, system, folder)
        self._objects = export.objects
        self._files = _files(export)
        try:
            export.check()
            path = export.write("check")
        except SceneError as error:
            name = bake.blamed(error.key, export.objects)
            self._add(Issue(bake.said(error, name), name, _fix_of_error(error), blocks=True))
            self._folder.cleanup()
            return
        with open(folder / "out", "wb") as out, open(folder / "err", "wb") as err:
            self._process = subprocess.Popen(
                worker.command("check", str(path), "--json", "--device", system.device),
                stdout=out,
                stderr=err,
                stdin=subprocess.DEVNULL,
                env=worker.environment(),
            )

    def _export(self, context: bpy.types.Context, system: Any, folder: Path) -> Export:
        with prepared(context, system):
            seen = Gatherer(system, folder)
            seen.step(context)  # the first frame will do
            for name, track in seen.tracks.items():
                if not track.empty:
                    self._look(system, system.id_data.objects[name], track)
            export = seen.finish()
        for note in export.notes:
            self._add(Issue(note.text, note.object))
        self._look_at_scene(system)
        return export

    def _add(self, issue: Issue) -> None:
        if all(
            (issue.object, issue.fix) != (i.object, i.fix) or not issue.fix for i in self.issues
        ):
            self.issues.append(issue)

    # ---- what is seen here

    def _look(self, system: Any, obj: bpy.types.Object, track: Track) -> None:
        """Open and flipped meshes."""
        role = obj.runnel.role
        if role == "DOMAIN":
            return
        world = track.world()
        mesh = Mesh(world.vertices, world.triangles)
        solid = role in ("FLUID", "RIGID", "SINK") or (
            role in ("COLLIDER", "SOFT") and obj.runnel.collider.mode != "shell"
        )
        solid |= role == "EMITTER" and not is_flat(world.vertices)  # flat ones are made thick
        name = obj.name
        if solid and mesh.open_edges:
            may_shell = role in ("COLLIDER", "SOFT")
            why = "may leak; a shell keeps fluid on both sides" if may_shell else "has no inside"
            fix = "shell" if may_shell else "holes"
            text = f"{name} is open ({mesh.open_edges} edges) and {why}."
            self._add(Issue(text, name, fix))
        elif solid and not mesh.open_edges and mesh.volume() < 0:
            self._add(Issue(f"{name} is inside out: its normals point inwards.", name, "normals"))

    def _look_at_scene(self, system: Any) -> None:
        scene = system.id_data
        metres = metres_per_unit(scene)
        if scene.use_gravity and metres != 1.0:
            usual = float(np.linalg.norm(_usual_gravity()))
            real = float(np.linalg.norm(scene.gravity)) * metres
            if not 0.5 < real / usual < 2.0:
                text = f"With these units gravity is {real:.3g} m/s²; the Earth's is {usual:.3g}."
                self._add(Issue(text, "", "gravity"))
        home = system.home()
        if home is None:
            self._add(Issue(takes.UNSAVED, blocks=True))
            return
        there = next(path for path in (home, *home.parents) if path.exists())
        self._free = shutil.disk_usage(there).free

    # ---- what core says

    def poll(self) -> bool:
        """Read core's answer once it is there; returns whether it came now."""
        if self._process is None or self._process.poll() is None:
            return False
        assert self._folder is not None
        folder = Path(self._folder.name)
        text = (folder / "out").read_text(encoding="utf-8", errors="replace")
        try:
            self.estimate = json.loads(text)
            for warning in self.estimate.get("warnings", ()):
                self._add(self._understood(str(warning)))
        except ValueError:
            said = (folder / "err").read_text(encoding="utf-8", errors="replace").strip()
            text = said.splitlines()[-1] if said else "The check left no message."
            self._add(self._understood(text.removeprefix("runnel: "), blocks=True))
        self._process = None
        self._folder.cleanup()
        self._look_at_machine()
        return True

    def _look_at_machine(self) -> None:
        """Room on disk and in memory."""
        needed, free = self.estimate.get("disk_bytes", 0), self._free
        if free is not None and needed > free:
            text = f"The cache may need {_size(needed)} of disk; {_size(free)} are free there."
            self._add(Issue(text))
        needed, have = self.estimate.get("bytes", 0), _memory()
        if have is not None and needed > 0.8 * have:
            text = f"The bake may need {_size(needed)} of memory; this machine has {_size(have)}."
            self._add(Issue(text))

    def _understood(self, text: str, blocks: bool = False) -> Issue:
        """Core's sentence with the object in place of its number, and what may help."""
        found = _WHERE.search(text)
        if found is not None:
            name = bake.blamed(f"{found[1]}[{found[2]}]", self._objects)
            rest = text[found.end() :]
        else:
            file, _, rest = text.partition(": ")
            name = self._files.get(Path(file).name, "")
            if not name:
                return Issue(text, blocks=blocks)
        fix = "shell" if name in self._objects.get("collider", ()) and " thin" in rest else ""
        if "no particle fits" in rest:
            fix = "smaller"
        return Issue(f"{name}: {rest}", name, fix, blocks)

    def wait(self) -> None:
        """For Blender without a window."""
        if self._process is not None:
            self._process.wait()
            self.poll()


def _files(export: Export) -> dict[str, str]:
    """Objects by the names of their mesh files, which core's messages use."""
    found = {}
    for key, names in export.objects.items():
        for part, name in zip(export.data.get(key, ()), names, strict=True):
            file = part.get("shape", {}).get("mesh", "")
            found[Path(file).name] = name
    return found


def _fix_of_error(error: SceneError) -> str:
    key = error.key or ""
    if "emitter" in error.message and (key.endswith("]") or key.endswith("velocity")):
        return "emit_down"
    return "smaller" if key.endswith("spacing") else ""


def _usual_gravity() -> tuple[float, ...]:
    return next(spec.default for spec in specs(Solver) if spec.name == "gravity")


def cost(estimate: dict[str, Any]) -> list[tuple[str, str]]:
    """The estimate, for people."""
    seconds = (estimate.get("seconds_per_frame") or 0.0) * estimate.get("frames", 0)
    return [
        ("Particles", f"{estimate.get('particles', 0):,}".replace(",", " ")),
        ("Memory", _size(estimate.get("bytes", 0))),
        ("Disk", _size(estimate.get("disk_bytes", 0))),
        ("Time", f"about {duration(seconds)}"),
    ]


def _memory() -> int | None:
    """Of this machine [bytes], where it tells."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def _size(count: float) -> str:
    return f"{count / 2**30:.1f} GB" if count >= 2**30 else f"{count / 2**20:.0f} MB"


CHECKS: dict[str, Check] = {}


def of(uid: str) -> Check | None:
    return CHECKS.get(uid)


def _tick() -> float:
    came = [check.poll() for check in list(CHECKS.values())]
    if any(came):
        bake.redraw()
    return 0.3 if any(check.running for check in CHECKS.values()) else 1.0


# --- buttons --------------------------------------------------------------------------------------


class RUNNEL_OT_check(bpy.types.Operator):
    """Look for what is probably not meant; estimate particles, memory, time and disk"""

    bl_idname = "runnel.check"
    bl_label = "Check"
    system: bpy.props.StringProperty(options={"HIDDEN", "SKIP_SAVE"})

    def execute(self, context: bpy.types.Context) -> set[str]:
        runnel = context.scene.runnel
        system = properties.find(context.scene, self.system) or runnel.active_system()
        if system is None:
            return {"CANCELLED"}
        check = CHECKS[system.uid] = Check()
        try:
            check.start(context, system)
        except (RunnelError, OSError) as error:
            self.report({"ERROR"}, str(error))
            return {"CANCELLED"}
        if bpy.app.background:
            check.wait()
        return {"FINISHED"}


class RUNNEL_OT_select(bpy.types.Operator):
    """Select the object and make it active"""

    bl_idname = "runnel.select"
    bl_label = "Select"
    bl_options = {"UNDO"}  # noqa: RUF012
    name: bpy.props.StringProperty(options={"SKIP_SAVE"})

    def execute(self, context: bpy.types.Context) -> set[str]:
        obj = context.scene.objects.get(self.name)
        if obj is None or obj.name not in context.view_layer.objects:
            self.report({"WARNING"}, f"{self.name} is not in this view layer.")
            return {"CANCELLED"}
        obj.hide_set(False)
        for other in context.selected_objects:
            other.select_set(False)
        obj.select_set(True)
        context.view_layer.objects.active = obj
        return {"FINISHED"}


class RUNNEL_OT_fix(bpy.types.Operator):
    """Do what the button says"""

    bl_idname = "runnel.fix"
    bl_label = "Fix"
    bl_options = {"UNDO"}  # noqa: RUF012
    fix: bpy.props.EnumProperty(items=[(word, text, "") for word, text in FIXES.items()])
    name: bpy.props.StringProperty(options={"SKIP_SAVE"})

    def execute(self, context: bpy.types.Context) -> set[str]:
        scene = context.scene
        obj = scene.objects.get(self.name)
        if self.fix == "gravity":
            scene.gravity = [g / metres_per_unit(scene) for g in _usual_gravity()]
        elif obj is None:
            self.report({"WARNING"}, f"{self.name} is gone.")
            return {"CANCELLED"}
        else:
            _repair(self.fix, obj, scene)
        for system in scene.runnel.systems:
            check = of(system.uid)
            if check is not None:
                done = (self.name, self.fix)
                check.issues = [i for i in check.issues if (i.object, i.fix) != done]
        return {"FINISHED"}


def _repair(fix: str, obj: bpy.types.Object, scene: bpy.types.Scene) -> None:
    import bmesh

    if fix == "shell":
        obj.runnel.collider.mode = "shell"
    elif fix == "smaller":
        source = obj.runnel.source
        system = next(system for system in scene.runnel.systems if system.owns(obj))
        source.use_spacing, source.spacing = True, 0.5 * spacing_of(obj, system)
    elif fix == "emit_down":
        down = obj.matrix_world.to_3x3().normalized().inverted() @ scene.gravity.normalized()
        obj.runnel.source.velocity = down / metres_per_unit(scene)
    elif fix in ("normals", "holes") and obj.type == "MESH":
        work = bmesh.new()
        work.from_mesh(obj.data)
        if fix == "holes":
            bmesh.ops.holes_fill(work, edges=[e for e in work.edges if e.is_boundary], sides=0)
        bmesh.ops.recalc_face_normals(work, faces=work.faces)
        work.to_mesh(obj.data)
        work.free()
        obj.data.update()


CLASSES = (RUNNEL_OT_check, RUNNEL_OT_select, RUNNEL_OT_fix)


def register() -> None:
    for cls in CLASSES:
        bpy.utils.register_class(cls)
    if not bpy.app.background:
        bpy.app.timers.register(_tick, first_interval=1.0, persistent=True)


def unregister() -> None:
    CHECKS.clear()
    if bpy.app.timers.is_registered(_tick):
        bpy.app.timers.unregister(_tick)
    for cls in reversed(CLASSES):
        bpy.utils.unregister_class(cls)
