"""docs/houdini/attributes.md lists what the solver really gives."""

from __future__ import annotations

import re
from pathlib import Path

import installed
import pytest

from houdini_hda import verify_in_houdini as verify
from runnel_houdini.parameters import ATTRIBUTES
from runnel_houdini.values import attribute_specs

PAGE = (Path(__file__).resolve().parents[2] / "docs/houdini/attributes.md").read_text("utf-8")


def table(heading: str) -> set[str]:
    """Names in the first column of the table whose head begins like this."""
    rows = PAGE.split(f"| {heading} |", 1)[1].split("\n\n", 1)[0].splitlines()[2:]
    return {name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])}


def test_what_leaves_the_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    installed.enter(monkeypatch)
    verify.install()
    switches = {f"out{name}": 1 for name in ATTRIBUTES.values() if name != "P"}
    geo = verify.at(verify.shot(verify.network(), **switches), 2)
    points = {a.name(): a for a in geo.pointAttribs()}
    assert set(points) == table("point attribute") - {"source_id"}
    assert {a.name() for a in geo.globalAttribs()} == table("detail attribute")
    whole = {name for name, a in points.items() if a.dataType() == verify.hou.attribData.Int}
    wide = {name for name, a in points.items() if a.size() == 3}
    head = PAGE.split("Point groups:")[0]
    for name in points:
        (kind,) = re.findall(rf"^\| `{name}` \| (\w+) \|", head, re.M)
        assert kind == ("int" if name in whole else "vector" if name in wide else "float"), name


@pytest.mark.parametrize("part", ["source", "collider", "force"])
def test_settings_named_there_exist(part: str) -> None:
    rows = {
        "source": "| sources |",
        "collider": "| colliders and bodies |",
        "force": "points of the",
    }
    lines = [line for line in PAGE.splitlines() if rows[part] in line and "runnel_" in line]
    named = {name for line in lines for name in re.findall(r"`(runnel_\w+)`", line)}
    assert len(named) >= 5
    assert named <= set(attribute_specs(part))
