"""verify_in_houdini.py, run against the stand-in with the assets on disk installed in it.

Each check is one that a Houdini owner will run; here it goes through the asset's own PythonCook,
parameters, menus and callbacks.
"""

from __future__ import annotations

import gc
import inspect
from pathlib import Path

import installed
import pytest
from test_standin import check_signature, members, stub

from houdini_hda import verify_in_houdini as verify


@pytest.fixture(autouse=True)
def house(monkeypatch: pytest.MonkeyPatch) -> installed.House:
    found = installed.enter(monkeypatch)
    gc.collect()
    verify.install()
    return found


# What only a real Houdini has.
SKIPPED = {"packed colliders", "VDB colliders", "VDB colliders that move"}


@pytest.mark.parametrize(("name", "function"), verify.CHECKS, ids=[n for n, _ in verify.CHECKS])
def test_check(name: str, function: object, tmp_path: Path) -> None:
    (result,) = [r for r in verify.run(name) if r.name == name]
    assert result.outcome == ("skipped" if name in SKIPPED else "held"), result.text


SAME = {
    "HDASection": (installed.HDASection,),
    "HDADefinition": (installed.HDADefinition,),
    "OpNodeType": (installed.OpNodeType,),
    "ParmTemplate": (installed.ParmTemplate,),
    "ParmTuple": (installed.ParmTuple,),
    "Parm": (installed.Parm, installed.Component),
    "SopNode": (
        installed._Wired, installed.PythonSop, installed.Made, installed.BoxSop,
        installed.MergeSop, installed.Installed,
    ),
    "OpNode": (installed.Network,),
}  # fmt: skip


@pytest.mark.parametrize("name", SAME)
def test_what_is_added_to_the_stand_in_is_houdinis_too(name: str) -> None:
    theirs = members(name)
    for ours in SAME[name]:
        for key, value in vars(ours).items():
            if not key.startswith("_") and inspect.isfunction(value):
                assert key in theirs, f"hou.{name} has no {key}"
                check_signature(value, theirs[key], f"hou.{name}.{key}")


def test_functions_that_are_added_are_houdinis_too() -> None:
    house = installed.House()
    for name in ("node", "nodeType", "copyNodesTo"):
        check_signature(getattr(house, name), stub()[name], f"hou.{name}")
    check_signature(house.installFile, members("hda")["installFile"], "hou.hda.installFile")
    for name in ("clear", "save", "load", "path"):
        check_signature(getattr(house, name), members("hipFile")[name], f"hou.hipFile.{name}")
