"""The digital assets as Houdini will read them, and what the reader of them refuses."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from houdini_hda import generate
from runnel_houdini.parameters import NODES
from runnel_houdini.parm import Multi, parms, walk
from tests.houdini.asset_reader import AssetError, read_library, unescaped

ROOT = Path(__file__).resolve().parents[2] / "houdini_hda"
ADAPTER = ROOT / "python3.11libs"
SOLVER = ROOT / "otls/runnel.fluid_solver.1.0.hda"
HOME = "runnel_8_8Sop_1fluid__solver_8_81.0"


def test_assets_are_fresh() -> None:
    assert generate.stale() == [], "run `make docs` and commit"


@pytest.mark.parametrize("name", NODES)
def test_strict_reader_accepts(name: str) -> None:
    node = NODES[name]
    asset = read_library(ROOT / f"otls/runnel.{name}.1.0.hda", ADAPTER)
    assert asset.operator == f"runnel::{name}::1.0"
    assert asset.inputs == (node.least_inputs, len(node.inputs))
    assert tuple(asset.dialog.inputs) == node.inputs
    declared = {p.name for p in parms(node.items)}
    declared |= {item.name for item in walk(node.items) if isinstance(item, Multi)}
    assert set(asset.dialog.parms) == declared


def test_every_library_is_a_node() -> None:
    names = {folder.name for folder in (ROOT / "otls").iterdir()}
    assert names == {f"runnel.{name}.1.0.hda" for name in NODES}


def test_customary_names() -> None:
    found = read_library(SOLVER, ADAPTER).dialog.parms
    for name in (
        "resimulate", "startframe", "particlesep", "timescale", "substeps", "cachemem", "gravity",
        "livesim", "device", "seed", "cachedir", "loadfromdisk",
    ):  # fmt: skip
        assert name in found
    assert found["resimulate"].type == "button"
    assert found["simframe"].expression == "$FF", "what makes the cook time dependent"


def test_package_names_the_folder_of_the_assets() -> None:
    package = json.loads((ROOT / "runnel.json").read_text(encoding="utf-8"))
    assert package["hpath"] == "$HOUDINI_PACKAGE_PATH/runnel"
    assert "20.5" in package["enable"]


@pytest.mark.parametrize(
    ("file", "section"),
    [
        ("runnel_8_8Sop_1fluid__solver_8_81.0", "runnel::Sop/fluid_solver::1.0"),
        ("INDEX__SECTION", "INDEX_SECTION"),
        ("Tools.shelf", "Tools.shelf"),
    ],
)
def test_names_are_escaped_as_houdini_does(file: str, section: str) -> None:
    assert unescaped(file) == section
    assert generate.escaped(section) == file


# --- what is refused --------------------------------------------------------------------------

Change = Callable[[Path], None]


def replacing(file: str, old: str, new: str) -> Change:
    def change(folder: Path) -> None:
        path = folder / file.replace("HOME", HOME)
        text = path.read_bytes().decode()
        assert old in text, f"{old!r} is not in {file}"
        path.write_bytes(text.replace(old, new, 1).encode())

    return change


def removing(file: str) -> Change:
    return lambda folder: (folder / file.replace("HOME", HOME)).unlink()


def adding(file: str, data: bytes = b"x") -> Change:
    def change(folder: Path) -> None:
        (folder / file.replace("HOME", HOME)).write_bytes(data)

    return change


def renaming(folder: Path) -> None:
    (folder / HOME).rename(folder / HOME.replace("__", "_"))
    replacing("Sections.list", HOME, HOME.replace("__", "_"))(folder)


DIALOG, INDEX = "HOME/DialogScript", "INDEX__SECTION"
GRAVITY = '"gravity"\n            label   "Gravity"'

BROKEN: dict[str, tuple[Change, str]] = {
    "no list": (removing("Sections.list"), "has no Sections.list"),
    "list without first line": (replacing("Sections.list", '""\n', ""), 'starts with ""'),
    "list without tab": (replacing("Sections.list", "N\tI", "N I"), "not file, tab, section"),
    "list with a row twice": (
        replacing("HOME/Sections.list", "Help\tHelp\n", "Help\tHelp\nHelp\tHelp\n"),
        "listed twice",
    ),
    "name not escaped": (renaming, "_s is no escape"),
    "wrong section": (replacing("HOME/Sections.list", "\tHelp", "\tHelpe"), "escaped"),
    "section without file": (removing("HOME/Help"), "Help is not there"),
    "file without section": (adding("HOME/notes.txt"), "notes.txt is not listed"),
    "marker with content": (adding("houdini.hdalibrary"), "must be empty"),
    "carriage returns": (replacing(INDEX, "\n", "\r\n"), "line feed alone"),
    "index out of order": (
        replacing(INDEX, "License:      \nExtra:        \n", "Extra:        \nLicense:      \n"),
        "keys or their order",
    ),
    "index without a key": (replacing(INDEX, "User:         \n", ""), "keys or their order"),
    "index column": (replacing(INDEX, "Table:        Sop", "Table:  Sop"), "column 15"),
    "index without empty line": (replacing(INDEX, "2026\n\n", "2026\n"), "empty line"),
    "index path": (replacing(INDEX, "oplib:/", "oplib:"), "Path is"),
    "index operator": (replacing(INDEX, "Operator:     runnel::", "Operator:     "), "Operator"),
    "index not python": (replacing(INDEX, "Python:       true", "Python:       false"), "Python"),
    "index inputs": (replacing(INDEX, "1 to 4", "1-4"), "least to most"),
    "too many inputs": (replacing(INDEX, "1 to 4", "1 to 5"), "4 labels of 5 inputs"),
    "index date": (replacing(INDEX, "Tue Nov 17", "2026-11-17"), "Modified"),
    "icon": (replacing(INDEX, "?IconSVG", "?icon.svg"), "icon"),
    "unclosed quote": (replacing(DIALOG, '"Reset Simulation"', '"Reset Simulation'), "quote"),
    "unclosed bracket": (replacing(DIALOG, "\n}\n", "\n"), "not closed"),
    "text after the end": (replacing(DIALOG, "\n}\n", "\n}\n}\n"), "follows"),
    "unknown key": (replacing(DIALOG, "joinnext", "joinnxt"), "unknown key joinnxt"),
    "unknown type": (replacing(DIALOG, "type    toggle", "type    bool"), "unknown type bool"),
    "parameter twice": (replacing(DIALOG, '"timescale"', '"seed"'), "seed is declared twice"),
    "component twice": (
        replacing(DIALOG, '"timescale"', '"gravityy"'),
        "gravityy is declared twice",
    ),
    "folder as a parameter": (replacing(DIALOG, '"limits"', '"seed"'), "declared twice"),
    "no name": (replacing(DIALOG, '"timescale"', '"time scale"'), "no name"),
    "row outside of rows": (replacing(DIALOG, '"timescale"', '"timescale#"'), "only there"),
    "row without number": (replacing(DIALOG, '"fluidname#"', '"fluidname"'), "only there"),
    "too few defaults": (
        replacing(DIALOG, '{ "0" "-9.81" "0" }', '{ "0" "-9.81" }'),
        "2 defaults for 3",
    ),
    "wrong size": (replacing(DIALOG, "size    3", "size    2"), "has 3 components"),
    "default is a word": (replacing(DIALOG, '{ "0.016" }', '{ "fast" }'), "no number"),
    "default out of range": (replacing(DIALOG, "range   { 1! 20 }", "range   { 5! 20 }"), "locked"),
    "default not in menu": (replacing(DIALOG, '{ "kill" }', '{ "die" }'), "not in the menu"),
    "menu token twice": (replacing(DIALOG, '"close" "Close"', '"kill" "Close"'), "token twice"),
    "empty range": (replacing(DIALOG, "range   { 1! 20 }", "range   { 20 1 }"), "range is empty"),
    "no tooltip": (
        replacing(DIALOG, '        help    "Steps in a frame."\n    ', "    "),
        "substeps: has no tooltip",
    ),
    "condition on nothing": (
        replacing(DIALOG, "{ autosubsteps == 1 }", "{ autosubstep == 1 }"),
        "no parameter autosubstep",
    ),
    "hidden on nothing": (
        replacing(DIALOG, 'hidewhen "{ preset# != custom }"', 'hidewhen "{ preset != custom }"'),
        "no parameter preset",
    ),
    "condition on another row": (
        replacing(DIALOG, "{ autosubsteps == 1 }", "{ preset# == custom }"),
        "rows of another",
    ),
    "condition never met": (replacing(DIALOG, "!= custom", "!= own"), "preset# is never own"),
    "condition without brackets": (
        replacing(DIALOG, '"{ autosubsteps == 1 }"', '"autosubsteps == 1"'),
        "no condition",
    ),
    "condition relation": (
        replacing(DIALOG, "{ autosubsteps == 1 }", "{ autosubsteps = 1 }"),
        "unknown relation",
    ),
    "callback without language": (
        replacing(DIALOG, '        parmtag { "script_callback_language" "python" }\n', ""),
        "language is not python",
    ),
    "callback that does not parse": (
        replacing(DIALOG, "resimulate(kwargs['node'])", "resimulate(kwargs['node']"),
        "resimulate: .* was never closed",
    ),
    "callback that is not there": (
        replacing(DIALOG, "phm().resimulate(", "phm().resimulat("),
        "resimulat, which resimulate calls",
    ),
    "callback with an argument too many": (
        replacing(DIALOG, "resimulate(kwargs['node'])", "resimulate(kwargs['node'], 1)"),
        "takes 1 arguments, not 2",
    ),
    "menu function that is not there": (
        replacing(DIALOG, "callbacks.device_menu", "callbacks.devices"),
        "device: devices: the adapter has no such function",
    ),
    "button without a callback": (
        replacing(DIALOG, '"script_callback" "hou.phm().resimulate', '"tag" "'),
        "button without a callback",
    ),
    "label of the index": (replacing(INDEX, "Fluid Solver", "Solver"), "not that of the index"),
    "dialog of another": (replacing(DIALOG, "name\trunnel::", "name\t"), "its name is"),
    "function name with line feed": (
        replacing("HOME/FunctionName", "1.0", "1.0\n"),
        "without a line feed",
    ),
    "create script": (replacing("HOME/CreateScript", "-s hscript", "-s python"), "CreateScript"),
    "shelf": (replacing("HOME/Tools.shelf", "</tool>", ""), "Tools.shelf"),
    "options": (replacing("HOME/TypePropertiesOptions", " := 1;", " = 1;"), "TypeProperties"),
    "event script as HScript": (
        replacing(
            "HOME/ExtraFileOptions",
            '"OnDeleted/IsPython":{\n\t\t"type":"bool",\n\t\t"value":true',
            '"OnDeleted/IsPython":{\n\t\t"type":"bool",\n\t\t"value":false',
        ),
        "OnDeleted/IsPython",
    ),
    "cook does not parse": (replacing("HOME/PythonCook", "try:", "try"), "PythonCook"),
    "cook of another name": (
        replacing("HOME/PythonCook", "cook.cook_solver", "cook.solve"),
        "solve: the adapter has no such function",
    ),
    "event of another name": (
        replacing("HOME/OnDeleted", "callbacks.deleted", "callbacks.gone"),
        "gone: the adapter has no such function",
    ),
    "help of nothing": (replacing("HOME/Help", "#id: seed", "#id: sed"), "sed is no parameter"),
    "help missing": (replacing("HOME/Help", "        #id: seed\n", ""), "seed has no entry"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_refused(name: str, tmp_path: Path) -> None:
    change, message = BROKEN[name]
    folder = tmp_path / SOLVER.name
    shutil.copytree(SOLVER, folder)
    change(folder)
    with pytest.raises(AssetError, match=message):
        read_library(folder, ADAPTER)


def test_folder_must_end_in_hda(tmp_path: Path) -> None:
    shutil.copytree(SOLVER, tmp_path / "runnel")
    with pytest.raises(AssetError, match=r"end in \.hda"):
        read_library(tmp_path / "runnel", ADAPTER)
