# SPDX-License-Identifier: GPL-3.0-or-later
"""The bake as a process of its own: what it does cannot freeze or crash Blender.

The process writes JSON lines into a file beside the cache; `Job.poll` reads what is new and never
waits. Jobs live in this module, by the system's uid: nothing of a bake is saved in a .blend, and no
datablock is held.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

INTERRUPTED = 130
GRACE = 0.7  # s that a step may take to end before a stop that loses nothing becomes a kill
PATIENCE = 60.0  # s for one that would lose frames


def python() -> str:
    """The interpreter for bakes: the environment's, the preferences', or Blender's own."""
    named = os.environ.get("RUNNEL_PYTHON") or _preferred()
    return named or sys.executable


def _preferred() -> str:
    import bpy

    addon = bpy.context.preferences.addons.get(__package__)
    return str(getattr(getattr(addon, "preferences", None), "python", "") or "")


def command(*arguments: str) -> list[str]:
    """Command line of `runnel ARGUMENTS`."""
    return [python(), "-m", "runnel", *map(str, arguments)]


def environment() -> dict[str, str]:
    """What the process needs to find core, and what Blender loads from its extensions."""
    import runnel

    found = dict(os.environ)
    paths = [str(Path(runnel.__file__).resolve().parents[1])]
    if python() == sys.executable:  # another interpreter has packages of its own
        paths += [path for path in sys.path if path.endswith("site-packages")]
    before = found.get("PYTHONPATH")
    found["PYTHONPATH"] = os.pathsep.join([*paths, *([before] if before else [])])
    found["PYTHONUNBUFFERED"] = "1"
    return found


@dataclass
class Progress:
    """How far a bake is."""

    stage: str = "Starting"
    frame: int | None = None
    last: int | None = None
    share: float = 0.0  # of all frames
    particles: int | None = None
    density_error: float | None = None
    ms_per_step: float | None = None
    seconds_left: float | None = None
    messages: list[str] = field(default_factory=list)

    def take(self, event: dict[str, Any], first: int) -> None:
        kind = event.get("event")
        if kind == "message":
            self.messages.append(str(event.get("text", "")))
        elif kind == "stage":
            self.stage = str(event.get("text", "")).capitalize()
        elif kind in ("frame", "step"):
            self.stage = "Simulating"
            self.last = event["last"]
            # A frame is told once it is on disk, when steps of the next are over: never go back.
            self.frame = max(event["frame"], self.frame or event["frame"])
            within = 1.0 if kind == "frame" else float(event.get("share", 0.0))
            total = max(self.last - first + 1, 1)
            self.share = min(max((event["frame"] - first + within) / total, self.share), 1.0)
            for name in ("particles", "density_error", "ms_per_step", "seconds_left"):
                if event.get(name) is not None:
                    setattr(self, name, event[name])


class Job:
    """One bake of one system: a process, and what it said."""

    def __init__(self, arguments: list[str], log: Path, first: int) -> None:
        self.arguments, self.log, self.first = arguments, log, first
        self.progress = Progress()
        self.status: int | None = None  # exit status once it ended
        self.paused = False
        self.frames_done = 0
        self.started = time.monotonic()
        self._stopping: float | None = None
        self._offset = 0
        log.parent.mkdir(parents=True, exist_ok=True)
        with open(log, "wb") as sink:
            self._process = subprocess.Popen(
                command(*arguments),
                stdout=subprocess.DEVNULL,
                stderr=sink,
                stdin=subprocess.DEVNULL,
                env=environment(),
                cwd=str(log.parent),
                start_new_session=True,
                creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),  # of Windows
            )
        self.pid = self._process.pid

    @property
    def running(self) -> bool:
        return self.status is None

    @property
    def stopping(self) -> bool:
        return self._stopping is not None and self.running

    @property
    def failed(self) -> bool:
        return self.status not in (None, 0, INTERRUPTED) and self._stopping is None

    def poll(self) -> int:
        """Read what is new, without waiting; returns how many frames came."""
        before = self.frames_done
        status = self._process.poll()  # before reading: nothing is written after the end
        self._read()
        if status is not None and self.status is None:
            self.status = status
        elif self._stopping is not None and self.running:
            self._insist()
        return self.frames_done - before

    def _read(self) -> None:
        try:
            with open(self.log, "rb") as file:
                file.seek(self._offset)
                text = file.read()
        except OSError:
            return
        lines, _, _ = text.rpartition(b"\n")
        self._offset += len(lines) + 1 if lines else 0
        for line in lines.splitlines():
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if isinstance(event, dict):
                self.progress.take(event, self.first)
                self.frames_done += event.get("event") == "frame"

    def pause(self) -> None:
        """Hold still where the system can; the memory is kept."""
        if self.running and hasattr(signal, "SIGSTOP") and not (self.paused or self.stopping):
            os.kill(self.pid, signal.SIGSTOP)
            self.paused = True

    def go_on(self) -> None:
        if self.running and self.paused:
            os.kill(self.pid, signal.SIGCONT)
            self.paused = False

    def stop(self) -> None:
        """End after the step at hand, with a cache to go on from."""
        if not self.running or self.stopping:
            return
        self._stopping = time.monotonic()
        self._process.terminate()
        self.go_on()

    def _insist(self) -> None:
        """Nobody waits for a process that compiles, or hangs: frames on disk stay whole."""
        assert self._stopping is not None
        limit = PATIENCE if self.frames_done else GRACE
        if time.monotonic() - self._stopping > limit:
            self._process.kill()

    def complaint(self) -> list[str]:
        """Why it failed: the last lines that are not progress."""
        try:
            text = self.log.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            return [f"The log cannot be read: {error}"]
        lines = [line for line in text.splitlines() if line.strip() and not line.startswith("{")]
        lines = [line.removeprefix("runnel: ") for line in lines[-12:]]
        return lines or [f"The bake ended with {status_text(self.status)} and left no message."]


def status_text(status: int | None) -> str:
    if status is not None and status < 0:
        with_name = {int(s): s.name for s in signal.Signals}
        return f"signal {with_name.get(-status, -status)}"
    return f"status {status}"


JOBS: dict[str, Job] = {}


def job(uid: str) -> Job | None:
    return JOBS.get(uid)


def stop_all(seconds: float = 1.0) -> None:
    """Stop every bake; when Blender ends or another file is opened. A long step ends by itself."""
    for found in JOBS.values():
        found.stop()
    deadline = time.monotonic() + seconds
    while any(found.running for found in JOBS.values()) and time.monotonic() < deadline:
        for found in JOBS.values():
            found.poll()
        time.sleep(0.02)


atexit.register(stop_all)
