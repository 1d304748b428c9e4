"""The code of docs/houdini/first_shot.md, run with the assets on disk."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import hou_standin as hou
import installed
import numpy as np
import pytest
from shots import values

from houdini_hda import verify_in_houdini as verify

PAGE = Path(__file__).resolve().parents[2] / "docs/houdini/first_shot.md"


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    installed.enter(monkeypatch)
    verify.install()
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    scope: dict[str, Any] = {}
    exec(code, scope)
    return scope


def test_first_shot(nodes: dict[str, Any]) -> None:
    solver = nodes["solver"]
    assert solver.evalParm("particlesep") == 0.04
    solver.parm("particlesep").set(0.1)
    start = verify.at(solver, 1)
    crate = {"points": 8, "polygons": 12}
    assert start.pointCount() == 10**3 + crate["points"]
    assert start.primCount() == crate["polygons"]
    geo = verify.at(solver, 10)
    assert solver.warnings() == ()
    fluid = geo.findPointGroup("fluid_1")
    assert len(fluid.points()) == 1000
    places = values(geo, "P")[[p.number() for p in fluid.points()]]
    assert places[:, 0].max() > 1.1, "the block breaks"
    assert places.min(axis=0)[1] > -0.05, "the tank holds"
    assert places[:, 2].max() < 1.05
    pillar = (np.abs(places - (1.6, 0.5, 0.5)) < (0.05, 0.45, 0.05)).all(axis=1)
    assert not pillar.any(), "nothing is inside of the pillar"
    assert hou.frame() == 10


def test_a_surface_below_it_leaves_bodies_out(nodes: dict[str, Any]) -> None:
    nodes["solver"].parm("particlesep").set(0.1)
    surface = nodes["geo"].createNode("runnel::fluid_surface::1.0", "surface")
    surface.setInput(0, nodes["solver"])
    geo = verify.at(surface, 2)
    assert geo.primCount() > 100
    assert values(geo, "P")[:, 0].max() < 1.3, "the crate at 2.3 m is no fluid"
