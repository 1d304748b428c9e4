"""Handing a node's scene to the command line: the same folder that the live solver reads."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import hou

from runnel import RunnelError, Scene
from runnel.backends.devices import interpreter

from . import devices
from .gather import Gathering
from .inputs import Inputs
from .parameters import SOLVER
from .values import at_start, evaluate

SCENE = "scene.json"
DIGEST = "files.sha256"
LOG = "houdini.log"
_running: dict[int, subprocess.Popen[bytes]] = {}  # by sessionId of the node


@dataclass(frozen=True)
class HandOver:
    """A scene on disk, and how to simulate it."""

    scene: Path
    cache: Path
    device: str
    changed: bool  # files of an earlier hand-over differ: frames of those must not be kept
    notes: tuple[str, ...] = ()  # what people should know

    @property
    def arguments(self) -> list[str]:
        """Of `runnel`."""
        goes_on = [] if self.changed else ["--resume"]
        return [
            "run", str(self.scene), "--out", str(self.cache), "--overwrite", *goes_on,
            "--device", self.device,
        ]  # fmt: skip

    @property
    def command(self) -> str:
        """To be typed, or given to a farm."""
        return shlex.join(["runnel", *self.arguments])


def write_scene(node: hou.SopNode) -> HandOver:
    """Write the scene of a solver node with all its files; Esc interrupts."""
    values, _ = at_start(node, evaluate(node, SOLVER))
    folder = str(values["cachedir"]).strip()
    if not folder:
        raise RunnelError("Cache Folder is empty: choose where the scene and its frames go.")
    cache = Path(folder)
    place = cache / "scene"
    place.mkdir(parents=True, exist_ok=True)
    before = _digest(place)
    for old in _files(place):
        old.unlink()
    inputs = Inputs(node, hou.frame())
    last = max(int(values["endframe"]), int(values["startframe"]))
    gathering = Gathering(inputs, values, place, hou.fps(), node.name(), last)
    scene = gathering.scene()
    with hou.InterruptableOperation("Writing scene", open_interrupt_dialog=True) as operation:
        count = last + 1 - gathering.first
        for frame in range(gathering.first, last + 2) if gathering.moving else ():
            operation.updateProgress((frame - gathering.first) / count)
            gathering.need(frame)
    _write_json(place / SCENE, scene)
    device = str(values["device"])
    if device.strip().casefold() in ("", "auto"):
        chosen = devices.by_variables(devices.known(), os.environ)
        device = "auto" if chosen is None else chosen.name
    changed = before not in (None, _digest(place))
    return HandOver(place / SCENE, cache, device, changed, tuple(gathering.notes))


def _write_json(path: Path, scene: Scene) -> None:
    draft = path.with_suffix(".part")
    draft.write_text(json.dumps(scene.to_dict(), indent=1), encoding="utf-8")
    draft.replace(path)


def _files(folder: Path) -> list[Path]:
    """What a hand-over wrote; nothing else is touched."""
    kinds = (".ply", ".bgeo", ".vdb", ".png", ".jpg", ".jpeg", ".tif", ".tiff")
    return sorted(p for p in folder.iterdir() if p.suffix in kinds and p.is_file())


def _digest(folder: Path) -> str | None:
    """Of all files but the scene, which the cache compares itself; None without a scene."""
    if not (folder / SCENE).exists():
        return None
    sum_of = hashlib.sha256()
    for path in _files(folder):
        sum_of.update(path.name.encode() + b"\0" + path.read_bytes())
    return sum_of.hexdigest()


# --- a process of its own -------------------------------------------------------------------------


def start(node: hou.SopNode) -> HandOver:
    """Write the scene and simulate it in a process; one that is still at it is stopped first."""
    stop(node)
    order = write_scene(node)
    order.cache.mkdir(parents=True, exist_ok=True)
    log: IO[bytes]
    with (order.cache / LOG).open("wb") as log:
        _running[node.sessionId()] = subprocess.Popen(
            [interpreter(), "-m", "runnel", *order.arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        )
    return order


def stop(node: hou.OpNode, wait: float = 30.0) -> bool:
    """End the process of a node, if it has one; what it wrote stays valid."""
    process = _running.pop(node.sessionId(), None)
    if process is None or process.poll() is not None:
        return False
    process.terminate()
    try:
        process.wait(wait)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    return True


def running(node: hou.OpNode) -> bool:
    process = _running.get(node.sessionId())
    return process is not None and process.poll() is None


def failure(node: hou.OpNode, cache: Path) -> str | None:
    """What a process that failed said last; None if it did not."""
    process = _running.get(node.sessionId())
    if process is None or process.poll() in (None, 0, 130):
        return None
    try:
        lines = (cache / LOG).read_text(encoding="utf-8", errors="replace").strip().splitlines()
    except OSError:
        lines = []
    return lines[-1] if lines else f"ended with status {process.returncode}"
