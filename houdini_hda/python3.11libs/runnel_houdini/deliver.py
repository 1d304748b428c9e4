"""A frame as Houdini's geometry: attributes by Houdini's customs, groups, statistics, colours."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import hou
import numpy as np

from runnel.preview.colors import apply, to_linear

from .frames import Frame
from .geometry import Array, Floats, add_group, add_polygons, set_detail, set_points
from .parameters import ATTRIBUTES

Fluids = Sequence[tuple[str, tuple[float, float, float]]]  # name, colour as displayed (sRGB)

_COLORMAP = {"speed": "water"}
_STATISTICS = (
    "frame", "time", "particles", "steps", "iterations", "density_error_avg", "density_error_max",
    "mass", "momentum", "max_speed", "emitted", "removed", "milliseconds",
)  # fmt: skip


@dataclass(frozen=True)
class Look:
    """What of a frame is shown, and how."""

    channels: Collection[str]  # core's names; "*": all
    groups: bool = True
    statistics: bool = True
    bodies: bool = False  # as polygons beside the particles
    color: str = "none"  # fluid, speed, or a channel
    range: tuple[float, float] | None = None  # of the colours; None: that of the frame
    time_scale: float = 1.0
    fps: float = 24.0  # of Houdini
    ahead: float = 0.0  # frames that particles fly on, for motion blur between frames
    device: str = ""


def deliver(geo: hou.Geometry, frame: Frame, fluids: Fluids, look: Look) -> None:
    """Fill a geometry, which loses what it had."""
    geo.clear()
    channels = dict(frame.channels)
    velocity = channels.get("velocity")
    if velocity is not None:
        # Slow motion: what leaves the node moves as it does on screen.
        channels["velocity"] = velocity * np.float32(look.time_scale)
        if look.ahead:
            way = channels["velocity"] * np.float32(look.ahead / look.fps)
            channels["position"] = channels["position"] + way
    points = set_points(geo, _attributes(channels, fluids, look))
    phase = frame.channels.get("phase")
    if look.groups and phase is not None:
        taken: set[str] = set()
        of = bases(fluids)[phase]
        for number in sorted(set(bases(fluids).tolist())):
            members = np.flatnonzero(of == number).tolist()
            add_group(geo, group_name(fluids[number][0], taken), points, members)
    names: set[str] = set()
    for body in frame.bodies if look.bodies else ():
        add_polygons(geo, body.vertices, body.triangles, group_name(body.name, names))
    if look.statistics:
        set_detail(geo, statistics(frame, look.device))


def _attributes(channels: dict[str, Array], fluids: Fluids, look: Look) -> dict[str, Array]:
    everything = "*" in look.channels
    found: dict[str, Array] = {}
    for name, values in channels.items():
        shown = name not in ATTRIBUTES or name in look.channels or everything
        if name == "position" or shown:
            found[ATTRIBUTES.get(name, name)] = values
    if "phase" in found:
        found["phase"] = bases(fluids)[channels["phase"]]
    colors = _colors(channels, fluids, look)
    if colors is not None:
        found["Cd"] = colors
    return found


def _colors(channels: dict[str, Array], fluids: Fluids, look: Look) -> Floats | None:
    """Linear rgb of each particle."""
    if look.color == "none":
        return None
    if look.color == "fluid":
        if "phase" not in channels:
            return None
        table = to_linear([color for _, color in fluids])
        return table[channels["phase"]].astype(np.float32)
    values = channels.get("velocity" if look.color == "speed" else look.color)
    if values is None:
        return None
    numbers = values if values.ndim == 1 else np.linalg.norm(values, axis=1)
    if look.range is not None:
        low, high = look.range
    else:
        low, high = float(numbers.min(initial=0.0)), float(numbers.max(initial=0.0))
    return apply(numbers, low, high, _COLORMAP.get(look.color, "leaf")).astype(np.float32)


def statistics(frame: Frame, device: str) -> dict[str, Any]:
    """Detail attributes of a frame: numbers of the solver's report."""
    found = {name: frame.report[name] for name in _STATISTICS if name in frame.report}
    if isinstance(found.get("milliseconds"), dict):  # of a cache: per stage
        found["milliseconds"] = float(sum(found["milliseconds"].values()))
    return found | ({"device": device} if device else {})


# --- fluids ---------------------------------------------------------------------------------------
# Multiples of a fluid's viscosity and tension that points ask for are fluids of their own in the
# scene, called water@2,1. Outside of it they are the one that they are made of.


def bases(fluids: Fluids) -> Array:
    """Number of the fluid of the node's own list that each fluid of a scene is made of."""
    names = [name for name, _ in fluids]
    made_of = [name.split("@")[0] for name in names]
    numbers = [names.index(b) if b in names else k for k, b in enumerate(made_of)]
    return np.array(numbers, np.int32)


def group_name(name: str, taken: set[str]) -> str:
    """A name as Houdini allows groups to have."""
    name = re.sub(r"\W", "_", name, flags=re.ASCII) or "_"
    name = f"_{name}" if name[0].isdigit() else name
    while name in taken:
        name += "_"
    taken.add(name)
    return name
