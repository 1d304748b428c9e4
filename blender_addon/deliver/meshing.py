# SPDX-FileCopyrightText: 2026 The Runnel authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Surfaces made by `runnel mesh` in a process of its own, while Blender stays usable."""

from __future__ import annotations

import dataclasses
import subprocess
import tempfile
from typing import Any

import bpy

from runnel.cache import Cache
from runnel.errors import RunnelError
from runnel.surface import SurfaceOptions

from . import frames, playback, surfaces

_EVERY = 0.5  # s between two looks at a process
_LEFT_OUT = {"format", "jobs", "each_fluid"}


def _annotations() -> dict[str, Any]:
    """A property for each option of core's mesher."""
    kinds = {
        bool: bpy.props.BoolProperty,
        int: bpy.props.IntProperty,
        float: bpy.props.FloatProperty,
        tuple: bpy.props.StringProperty,
    }
    return {
        item.name: kinds[type(item.default)](
            name=item.name.replace("_", " ").title(),
            description=str(item.metadata.get("help", "")),
            default=_plain(item.default),
        )
        for item in dataclasses.fields(SurfaceOptions)
        if item.name not in _LEFT_OUT
    }


def _plain(value: Any) -> Any:
    """A list of names as text."""
    return " ".join(value) if isinstance(value, tuple) else value


class RunnelMeshing(bpy.types.PropertyGroup):
    """How surfaces are made: core's options."""

    __annotations__ = _annotations()

    def arguments(self) -> list[str]:
        """Of `runnel mesh`, for what differs from core's defaults."""
        found = []
        for item in dataclasses.fields(SurfaceOptions):
            value, flag = getattr(self, item.name, None), item.name.replace("_", "-")
            if item.name in _LEFT_OUT or value == _plain(item.default):
                continue
            if isinstance(item.default, bool):
                found.append(f"--{flag}" if value else f"--no-{flag}")
            elif isinstance(item.default, tuple):
                found += [f"--{flag}", *value.replace(",", " ").split()]
            elif abs(value - item.default) > 1e-6 * abs(item.default):
                found += [f"--{flag}", f"{value:g}"]
        return found


class Job:
    """One run of `runnel mesh`."""

    def __init__(self, cache: Cache, arguments: list[str], uid: str) -> None:
        from .. import worker

        self.uid, self.folder = uid, cache.directory
        self.wanted = _stale(cache)
        span = f"{self.wanted[0]}-{self.wanted[-1]}" if self.wanted else "1-1"
        several = ["--each-fluid"] if len(cache.scene.get("fluid", ())) > 1 else []
        self._said = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            worker.command(
                "mesh", str(cache.directory), "--quiet", "--frames", span, *several, *arguments
            ),
            env=worker.environment(),
            stdout=subprocess.DEVNULL,
            stderr=self._said,
            stdin=subprocess.DEVNULL,
        )

    @property
    def status(self) -> int | None:
        return self.process.poll()

    @property
    def done(self) -> int:
        """Frames that have their surface."""
        left = set(_stale(frames.open_cache(self.folder)))
        return sum(number not in left for number in self.wanted)

    def end(self) -> str:
        """Stop the process if it still runs; returns what it said."""
        if self.status is None:
            self.process.terminate()
            self.process.wait(timeout=10)
        with self._said:
            self._said.seek(0)
            text = self._said.read().decode(errors="replace").strip()
        return text[-600:] or f"runnel mesh ended with status {self.status}"


_jobs: dict[str, Job] = {}


def _stale(cache: Cache) -> list[int]:
    """Frames whose surface is absent or older than they are."""
    return [number for number in cache.frames() if surfaces.is_stale(cache, number)]


def running(uid: str) -> bool:
    """Whether surfaces of a system are being made."""
    return uid in _jobs


def start(system: Any) -> Job | None:
    """Make the surfaces that are absent or old; None: there are none."""
    if system.uid in _jobs:
        raise RunnelError(f"Surfaces of {system.name} are being made already.")
    cache = frames.open_cache(system.cache_path())
    if not _stale(cache):
        return None
    _jobs[system.uid] = job = Job(cache, system.display.meshing.arguments(), system.uid)
    return job


def stop(uid: str) -> None:
    """End a process; surfaces that it finished stay."""
    job = _jobs.pop(uid, None)
    if job is not None:
        job.end()


def look() -> float | None:
    """Tell how far processes are; Blender calls this again after the seconds it returns."""
    for scene in bpy.data.scenes:
        for system in playback.systems(scene):
            if system.uid in _jobs:
                _look(system, scene, _jobs[system.uid])
    return _EVERY if _jobs else None


def _look(system: Any, scene: bpy.types.Scene, job: Job) -> None:
    status = job.status
    if status is None:
        system.display.tell(f"Making surfaces: {job.done} of {len(job.wanted)} frames")
        return
    said = _jobs.pop(job.uid).end()
    if status == 0:
        reveal(system, scene)
    else:
        system.display.tell(said, failed=True)


def reveal(system: Any, scene: bpy.types.Scene) -> None:
    """Show the surfaces that were made."""
    if system.display.shown == "POINTS":
        system.display.shown = "SURFACE"
    playback.show(system, scene)


def unregister() -> None:
    """End all processes."""
    for uid in list(_jobs):
        stop(uid)
    if bpy.app.timers.is_registered(look):
        bpy.app.timers.unregister(look)
