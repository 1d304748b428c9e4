"""Nodes and geometry for tests, built as an artist would."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from hou_standin import Geometry, SopNode

from runnel_houdini.parameters import NODES
from runnel_houdini.parm import Multi, walk
from runnel_houdini.parm import parms as all_parms

BOX_FACES = ((2, 3, 1, 0), (5, 7, 6, 4), (1, 5, 4, 0), (6, 7, 3, 2), (4, 6, 2, 0), (3, 7, 5, 1))
OTLS = Path(__file__).resolve().parents[2] / "houdini_hda" / "otls"


def box(low: Any = (0, 0, 0), high: Any = (1, 1, 1), *, geo: Geometry | None = None) -> Geometry:
    """A closed box; Houdini's corners run clockwise seen from outside."""
    geo = geo or Geometry()
    first = geo.pointCount()
    corners = list(itertools.product(*zip(low, high, strict=True)))
    geo.createPoints(corners)
    geo.createPolygons([[first + k for k in face] for face in BOX_FACES])
    return geo


def points(places: Any, **attributes: Any) -> Geometry:
    """Points with attributes."""
    import hou

    geo = Geometry()
    geo.createPoints(np.asarray(places, float))
    for name, values in attributes.items():
        values = np.asarray(values)
        whole = values.dtype.kind in "iu"
        zero = 0 if whole else 0.0
        default = zero if values.ndim == 1 else (zero,) * values.shape[1]
        geo.addAttrib(hou.attribType.Point, name, default)
        if whole:
            geo.setPointIntAttribValuesFromString(name, values.astype(np.int32).tobytes())
        else:
            geo.setPointFloatAttribValuesFromString(name, values.astype(np.float32).tobytes())
    return geo


def upstream(make: Geometry | Callable[[float], Geometry], name: str = "in") -> SopNode:
    """A node that gives a geometry, or one for each frame."""
    node = SopNode(name)
    node._moves = not isinstance(make, Geometry)
    node._make = make if callable(make) else lambda frame: Geometry(make)
    return node


def node(kind: str, /, *inputs: SopNode | None, **parms: Any) -> SopNode:
    """A node of ours with the defaults of its asset."""
    declared = NODES[kind]
    made = SopNode(kind)
    made._inputs = list(inputs)
    (code,) = OTLS.glob(f"runnel.{kind}.*.hda/runnel*/PythonCook")
    made._code = code.read_text(encoding="utf-8")
    for item in walk(declared.items):
        if isinstance(item, Multi):
            made._parms[item.name] = item.default
            for row in range(1, 4):
                for parm in item.items:
                    made._parms[parm.name.replace("#", str(row))] = _default(parm)
        elif item.type != "button":
            made._parms[item.name] = _default(item)
    made._parms |= parms
    return made


def _default(parm: Any) -> Any:
    if parm.expression in ("$FF", "$F"):
        return lambda frame: frame
    if parm.expression == "$FEND":
        return 240
    return parm.default if parm.size > 1 else parm.default[0]


QUICK = {
    "particlesep": 0.1, "device": "auto", "usedomain": 1, "domainmode": "close",
    "domainmin": (0.0, 0.0, 0.0), "domainmax": (1.0, 1.0, 0.5), "endframe": 50,
    "autosubsteps": 0, "substeps": 4,
}  # fmt: skip


def water(low: Any = (0, 0, 0), high: Any = (0.5, 0.5, 0.5)) -> SopNode:
    return upstream(box(low, high), "water")


def pool(*inputs: SopNode | None, **parms: Any) -> SopNode:
    """The smallest shot: a block of water in a tank, 125 particles."""
    return node("fluid_solver", *(inputs or (water(),)), **(QUICK | parms))


def pressed(made: SopNode, button: str) -> None:
    """Press a button: its callback, as the asset's PythonModule has it."""
    from runnel_houdini import callbacks

    declared = {p.name: p for n in NODES.values() for p in all_parms(n.items)}
    getattr(callbacks, declared[button].callback)(made)


def values(geo: Geometry, name: str) -> np.ndarray:
    """A point attribute."""
    from runnel_houdini.geometry import point_values, positions

    if name == "P":
        return positions(geo)
    found = point_values(geo, name)
    assert found is not None, name
    return found
