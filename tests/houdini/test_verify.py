"""verify_in_houdini.py, run against the stand-in with the assets on disk installed in it.

Each check is one that a Houdini owner will run; here it goes through the asset's own PythonCook,
parameters, menus and callbacks.
"""

from __future__ import annotations

import gc
import inspect
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import installed
import pytest
from test_standin import check_signature, members, stub

from houdini_hda import verify_in_houdini as verify
from runnel.backends.devices import choose
from runnel.export import bgeo_read
from runnel_houdini import cook, cook_nodes, farm
from runnel_houdini.frames import Memory
from runnel_houdini.parameters import ATTRIBUTES
from runnel_houdini.session import Session


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


# --- each check can fail --------------------------------------------------------------------------

Break = Callable[[pytest.MonkeyPatch, Path], None]


def swap(target: str, value: Any) -> Break:
    return lambda patch, folder: patch.setattr(target, value)


def _hidden_numpy(patch: pytest.MonkeyPatch, folder: Path) -> None:
    (folder / "numpy").mkdir()
    patch.setattr("runnel_houdini.__file__", str(folder / "runnel_houdini" / "__init__.py"))


def _always_the_last(self: Memory, number: int, channels: Any) -> Any:
    return next(reversed(self._frames.values()), None)


def _deaf(patch: pytest.MonkeyPatch, folder: Path) -> None:
    at = Session.at
    patch.setattr(Session, "at", lambda s, frame, names, _: at(s, frame, names, lambda share: None))


def _late(patch: pytest.MonkeyPatch, folder: Path) -> None:
    evaluate = cook.evaluate
    patch.setattr(cook, "evaluate", lambda node, of: evaluate(node, of) | {"startframe": 1})


def _other_scene(patch: pytest.MonkeyPatch, folder: Path) -> None:
    write = farm._write_json
    change = ["solver.gravity=[0, -5, 0]"]
    patch.setattr(farm, "_write_json", lambda path, it: write(path, it.with_overrides(change)))


def _shifted(patch: pytest.MonkeyPatch, folder: Path) -> None:
    parse = bgeo_read.parse_bgeo

    def wrong(data: bytes) -> Any:
        found = parse(data)
        return replace(found, points={n: v + 1 for n, v in found.points.items()})

    patch.setattr(bgeo_read, "parse_bgeo", wrong)


def _torn(patch: pytest.MonkeyPatch, folder: Path) -> None:
    add = cook_nodes._add_mesh

    def without_one(geo: Any, mesh: Any, name: str = "") -> None:
        add(geo, replace(mesh, triangles=mesh.triangles[:-1]), name)

    patch.setattr(cook_nodes, "_add_mesh", without_one)


STILL = swap("runnel_houdini.inputs.Inputs.moves", lambda self, index: False)
EMPTY = swap(
    "hou_standin.Geometry.loadFromFile", lambda self, file_name: self.createPoints([(0,) * 3])
)
BROKEN: dict[str, Break] = {
    "versions": swap("hou_standin.applicationVersion", lambda include_patch=False: (19, 5, 1)),
    "Python packages load; numpy is Houdini's own": _hidden_numpy,
    "OpenCL devices": swap(
        "runnel.backends.devices.choose", lambda word: SimpleNamespace(name="none", works=False)
    ),
    "Houdini's own variables choose the device": swap(
        "runnel_houdini.devices.pick", lambda word, variables=None: choose("reference")
    ),
    "assets are installed as written": swap(
        "installed.HDASection.contents", lambda self: f"{self._text} "
    ),
    "every parameter is there, with its default, tooltip and menu": swap(
        "installed.ParmTemplate.help", lambda self: "other words"
    ),
    "conditions are read: what is disabled, what is hidden": swap(
        "installed.Parm.isDisabled", lambda self: False
    ),
    "the device menu lists devices": swap("runnel_houdini.callbacks.device_menu", lambda node: []),
    "a block of water falls: attributes, groups, statistics": lambda patch, folder: patch.setitem(
        ATTRIBUTES, "radius", "size"
    ),
    "the node depends on time": swap("installed.Installed.isTimeDependent", lambda self: False),
    "before the start frame there is nothing": _late,
    "back, gap, dropped cache: the same bits": swap(
        "runnel_houdini.frames.Memory.get", _always_the_last
    ),
    "Esc stops the solver; what is complete stays, and it goes on from there": _deaf,
    "a setting or an input that changes starts anew": swap(
        "runnel_houdini.cook.SHOWN", cook.SHOWN | {"gravity"}
    ),
    "an animated parameter counts at the start frame": swap(
        "runnel_houdini.cook.at_start", lambda node, now: (now, [])
    ),
    "errors are on the node, in plain words": swap(
        "runnel_houdini.cook.plain_errors", lambda geo: nullcontext()
    ),
    "copies and deleted nodes leave nothing behind": swap(
        "hou_standin.SopNode.sessionId", lambda self: 7
    ),
    "a scene that is saved and loaded cooks": swap(
        "runnel_houdini.sessions.alive", lambda: ["something that was kept"]
    ),
    "points are particles, with their own attributes": swap(
        "runnel_houdini.gather.OWN", {"temperature"}
    ),
    "a collider that moves pushes": STILL,
    "settings nodes: an emitter gives particles": swap(
        "runnel_houdini.values.kind_of_piece", lambda attributes, default, of_points: "volume"
    ),
    "an emitter that moves is followed": STILL,
    "multiples of viscosity on points": swap("runnel_houdini.gather.MULTIPLES", ("a", "b")),
    "bodies, by the third input and by the fourth": swap(
        "runnel_houdini.gather.bodies", lambda geo: []
    ),
    "points that are forces, and move": STILL,
    "points with v pull the fluid along": swap(
        "runnel_houdini.gather.field_points", lambda geo, loose: None
    ),
    "volumes go out as VDBs, and pull the fluid along": swap(
        "runnel_houdini.cook_nodes.add_volumes", lambda geo, arrays, voxel: None
    ),
    "geometry through our reader and writer of .bgeo": _shifted,
    "the same scene on the command line: the same bits; the file cache reads it": _other_scene,
    "our .bgeo files load in Houdini": EMPTY,
    "all that our .bgeo files can hold; points by file beside points by call": EMPTY,
    "the surface node makes closed polygons": _torn,
}


def test_all_checks_are_broken_once() -> None:
    assert set(BROKEN) == {name for name, _ in verify.CHECKS} - SKIPPED


@pytest.mark.parametrize("name", BROKEN)
def test_check_can_fail(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    BROKEN[name](monkeypatch, tmp_path)
    (result,) = [r for r in verify.run(name) if r.name == name]
    assert result.outcome == "WRONG"
    assert result.text


# --------------------------------------------------------------------------------------------------

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
