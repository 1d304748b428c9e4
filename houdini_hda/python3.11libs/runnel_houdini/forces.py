"""Points of the third input that are forces: attributes of Houdini's as tables of core."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hou
import numpy as np

from runnel import RunnelError
from runnel.export.bgeo import write_bgeo
from runnel.export.geometry import Geometry
from runnel.forces import POINT_KINDS, UNLIMITED

from . import values as settings
from .values import Table

_ATTRIBUTES = (("P", "center"), ("v", "velocity"), ("N", "axis"))


def force_tables(geo: hou.Geometry, time_scale: float) -> list[tuple[int, Table]]:
    """Number and table of each point with a kind; its number is that of the attribute id, if there
    is one. The name is empty if it has none."""
    found = []
    names = geo.pointAttribs()
    for point in geo.points():
        attributes: dict[str, Any] = {a.name(): point.attribValue(a) for a in names}
        table = settings.settings_of_attributes(attributes, "force")
        if not table.get("kind"):
            continue
        for name, key in _ATTRIBUTES:
            if name in attributes and key not in table:
                # v is what is seen on screen, in slow motion too.
                scale = time_scale if name == "v" else 1.0
                table[key] = [float(c) / scale for c in attributes[name]]
        if "pscale" in attributes and "radius" not in table:
            table["radius"] = float(attributes["pscale"])
        table["name"] = str(attributes.get("name") or "")
        found.append((int(attributes.get("id", point.number())), table))
    return found


def write_forces(
    path: Path, rows: list[tuple[int, Table]], frame: int, up: tuple[float, float, float]
) -> None:
    """The forces of a frame as points of a file."""
    tables = [table for _, table in rows]
    for table in tables:
        if table["kind"] not in POINT_KINDS:
            kinds = ", ".join(POINT_KINDS)
            raise RunnelError(f"Input 3: {table['kind']!r} is no kind of force; there are {kinds}.")
    columns = {
        "P": [t["center"] for t in tables],
        "v": [t.get("velocity", (0.0,) * 3) for t in tables],
        "N": [t.get("axis", up) for t in tables],
        "pscale": [t.get("radius", UNLIMITED) for t in tables],
        "strength": [t.get("strength", 1.0) if _acts(t, frame) else 0.0 for t in tables],
    }
    points = {
        name: np.array(values, np.float32).reshape(len(tables), *((3,) if name in "PvN" else ()))
        for name, values in columns.items()
    }
    points["kind"] = np.array([POINT_KINDS.index(t["kind"]) for t in tables], np.int32)
    points["id"] = np.array([number for number, _ in rows], np.int32)
    write_bgeo(path, Geometry(len(tables), points=points))


def _acts(table: Table, frame: int) -> bool:
    first, last = table.get("frames", (frame, frame))
    return bool(first <= frame <= last)
