"""What the nodes' PythonCook sections call. Each takes the node that is being cooked."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import cast

import hou

from . import devices, sessions
from .cook_nodes import cook_cache, cook_collider, cook_source, cook_surface
from .deliver import Look, deliver
from .errors import plain_errors
from .frames import Frame
from .gather import Gathering
from .inputs import Inputs, Watch
from .parameters import SHOWN, SOLVER
from .parm import Parm, walk
from .session import Session
from .values import Values, at_start, channels, evaluate

__all__ = ["cook_cache", "cook_collider", "cook_solver", "cook_source", "cook_surface"]

_OUTPUTS = [p for p in walk(SOLVER.items) if isinstance(p, Parm) and p.part == "output"]
_BEYOND = 240  # frames that a live simulation may go on for, past the end frame


def cook_solver(node: hou.SopNode) -> None:
    """The fluid solver."""
    geo = node.geometry()
    assert geo is not None
    with plain_errors(geo):
        values = evaluate(node, SOLVER)
        now = float(values["simframe"])
        frame = math.floor(now + 1e-6)
        if frame < values["startframe"]:
            geo.clear()
            return
        session = sessions.of(node)
        if values["loadfromdisk"] and _from_disk(geo, session, values, frame, now - frame):
            return
        values, animated = at_start(node, values)
        inputs = Inputs(node, now)
        _set_memory(session, values)
        gathering = _up_to_date(session, node, values, inputs, frame)
        try:
            found = _simulated(session, values, frame)
        finally:
            inputs.forget()
        if found is None:
            geo.clear()
            node.addWarning(f"Frame {frame} is not simulated: Live Simulation is off.")
            return
        assert session.scene is not None
        assert session.device is not None
        look = _look(values, now - frame, str(session.device))
        fluids = [(fluid.name, fluid.color) for fluid in session.scene.fluids]
        deliver(geo, found, fluids, look)
        notes = [f"{label} is animated; its value at the start frame counts." for label in animated]
        for note in (*notes, *gathering.notes, *found.notes, session.device.note):
            if note:
                node.addWarning(note)


def _from_disk(
    geo: hou.Geometry, session: Session, values: Values, frame: int, ahead: float
) -> bool:
    """Show a frame of the cache folder, if it is there."""
    reader = session.reader(Path(str(values["cachedir"])))
    if frame not in reader.frames():
        return False
    cache = reader.need()
    look = _look(values, ahead, cache.manifest.device)
    look = replace(look, channels=("*",), time_scale=hou.fps() / cache.fps)
    deliver(geo, reader.frame(frame, bodies=look.bodies), reader.fluids(), look)
    return True


def _set_memory(session: Session, values: Values) -> None:
    kept = bool(values["cacheenabled"])
    session.memory.limit = int(values["cachemem"]) * 2**20 if kept else 0
    session.interval = int(values["checkpointinterval"]) if kept else 0
    session.memory.trim()


def _up_to_date(
    session: Session, node: hou.SopNode, values: Values, inputs: Inputs, frame: int
) -> Gathering:
    """What feeds the session; anew if settings or inputs are not what it was begun with."""
    key = (hou.fps(), sorted((n, repr(v)) for n, v in values.items() if n not in SHOWN))
    gathering, watch = cast(Gathering | None, session.feeds), session.watch
    count = len(SOLVER.inputs)
    same = session.key == key and gathering is not None and frame <= gathering.last
    if same and gathering is not None and watch is not None:
        if not watch.changed(inputs, count):
            gathering.inputs = inputs
            return gathering
    # Playing beyond the end frame must not start anew.
    last = max(int(values["endframe"]), int(values["startframe"]), frame) + _BEYOND
    folder = session.new_folder()
    gathering = Gathering(inputs, values, folder, hou.fps(), node.name(), last)
    watch = Watch()
    watch.changed(inputs, count)
    session.begin(gathering.scene(), devices.pick(str(values["device"])), key, gathering)
    session.watch = watch
    return gathering


def _simulated(session: Session, values: Values, frame: int) -> Frame | None:
    wanted = channels(values)
    if session.has(frame, wanted):
        return session.at(frame, wanted, lambda share: None)
    if not values["livesim"]:
        return None
    gap = session.gap(frame)
    with hou.InterruptableOperation("Simulating fluid", open_interrupt_dialog=gap > 1) as operation:
        return session.at(frame, wanted, operation.updateProgress)


def _look(values: Values, ahead: float, device: str) -> Look:
    return Look(
        channels=[p.key for p in _OUTPUTS if values[p.name]],
        groups=bool(values["outgroups"]),
        statistics=bool(values["outstats"]),
        bodies=bool(values["outbodies"]),
        color=str(values["colorby"]),
        range=None if values["autocolorrange"] else values["colorrange"],
        time_scale=float(values["timescale"]),
        fps=hou.fps(),
        ahead=ahead if ahead > 1e-4 else 0.0,
        device=device,
    )
