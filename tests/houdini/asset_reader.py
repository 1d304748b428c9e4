"""A strict reader of Houdini's expanded digital assets: what does not belong is an error.

    library = read_library(Path("otls/runnel.fluid_solver.1.0.hda"), adapter=Path("python3.11libs"))

Written from folders that Houdini wrote; shares no code with houdini_hda/generate.py.
"""

from __future__ import annotations

import ast
import json
import re
import time
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.houdini.dialog_script import Dialog, DialogError, read_dialog

INDEX_KEYS = (
    "Operator", "Label", "Path", "Icon", "Table", "License", "Extra", "User", "Inputs", "Outputs",
    "Subnet", "Python", "Empty", "Modified",
)  # fmt: skip
SECTIONS = {
    "DialogScript", "PythonCook", "TypePropertiesOptions", "Help", "Tools.shelf", "FunctionName",
    "CreateScript", "IconSVG", "PythonModule", "ExtraFileOptions", "OnCreated", "OnLoaded",
    "OnUpdated", "OnDeleted", "OnNameChanged", "OnInputChanged",
}  # fmt: skip
REQUIRED = {"DialogScript", "PythonCook", "TypePropertiesOptions", "CreateScript", "FunctionName"}
OPTIONS = {
    "CheckExternal", "ContentsCompressionType", "ForbidOutsideParms", "GzipContents",
    "LockContents", "MakeDefault", "ParmsFromVfl", "PrefixDroppedParmLabel",
    "PrefixDroppedParmName", "SaveCachedCode", "SaveIcon", "SaveSpareParms", "UnlockOnCreate",
    "UseDSParms",
}  # fmt: skip
_UNESCAPED = {"__": "_", "_1": "/", "_8": ":"}


class AssetError(Exception):
    """What is wrong with an asset: the file, and what in it."""


@dataclass(frozen=True)
class Asset:
    """A library of one operator."""

    operator: str  # runnel::fluid_solver::1.0
    table_name: str  # runnel::Sop/fluid_solver::1.0
    label: str
    inputs: tuple[int, int]
    dialog: Dialog
    sections: dict[str, str]


def unescaped(name: str) -> str:
    """The section of a file name."""

    def plain(match: re.Match[str]) -> str:
        if match[0] not in _UNESCAPED:
            raise AssetError(f"{name}: {match[0]} is no escape of Houdini's")
        return _UNESCAPED[match[0]]

    return re.sub(r"_.?", plain, name)


def read_library(folder: Path, adapter: Path) -> Asset:
    """Read and check one expanded library. `adapter`: folder of the package runnel_houdini."""
    if folder.suffix not in (".hda", ".otl"):
        raise AssetError(f"{folder.name}: Houdini installs folders that end in .hda or .otl")
    listed = _sections_list(folder)
    if (folder / "houdini.hdalibrary").read_bytes():
        raise AssetError("houdini.hdalibrary: must be empty")
    operators = [s for s in listed.values() if s not in ("INDEX_SECTION", "houdini.hdalibrary")]
    if len(operators) != 1 or len(listed) != 3:
        raise AssetError(f"Sections.list: one operator expected, not {operators}")
    table_name = operators[0]
    index = _index(_text(folder / "INDEX__SECTION"), table_name)
    home = folder / next(file for file, section in listed.items() if section == table_name)
    names = _sections_list(home)
    if unknown := set(names) - SECTIONS:
        raise AssetError(f"Sections.list: unknown sections {sorted(unknown)}")
    if missing := REQUIRED - set(names):
        raise AssetError(f"Sections.list: lacks {', '.join(sorted(missing))}")
    sections = {name: _text(home / name) for name in names}
    try:
        dialog = read_dialog(sections["DialogScript"])
    except DialogError as error:
        raise AssetError(f"DialogScript: {error}") from error
    low, high = (int(n) for n in index["Inputs"].split(" to "))
    asset = Asset(index["Operator"], table_name, index["Label"], (low, high), dialog, sections)
    _check_dialog(asset)
    _check_icon(index["Icon"], asset)
    _check_texts(asset)
    _check_options(asset)
    _check_code(asset, adapter / "runnel_houdini")
    _check_help(asset)
    return asset


# --- folders ----------------------------------------------------------------------------------


def _text(path: Path) -> str:
    try:
        text = path.read_bytes().decode()
    except UnicodeDecodeError:
        raise AssetError(f"{path.name}: is not UTF-8") from None
    if "\r" in text:
        raise AssetError(f"{path.name}: lines must end in a line feed alone")
    return text


def _sections_list(folder: Path) -> dict[str, str]:
    """File -> section, each present, and nothing else present."""
    path = folder / "Sections.list"
    if not path.is_file():
        raise AssetError(f"{folder.name}: has no Sections.list")
    first, *rows = _text(path).split("\n")
    if first != '""' or not rows or rows.pop() != "":
        raise AssetError('Sections.list: starts with "" and ends with a line feed')
    found: dict[str, str] = {}
    for row in rows:
        columns = row.split("\t")
        if len(columns) != 2 or not all(columns):
            raise AssetError(f"Sections.list: {row!r} is not file, tab, section")
        file, section = columns
        if file in found:
            raise AssetError(f"Sections.list: {file} is listed twice")
        if unescaped(file) != section:
            raise AssetError(f"Sections.list: {file} is not how {section} is escaped")
        found[file] = section
    there = {p.name for p in folder.iterdir()} - {"Sections.list"}
    if lost := set(found) - there:
        raise AssetError(f"Sections.list: {', '.join(sorted(lost))} is not there")
    if extra := there - set(found):
        raise AssetError(f"Sections.list: {', '.join(sorted(extra))} is not listed")
    return found


def _index(text: str, table_name: str) -> dict[str, str]:
    lines = text.split("\n")
    if lines[-2:] != ["", ""]:
        raise AssetError("INDEX__SECTION: ends with an empty line")
    found: dict[str, str] = {}
    for line in lines[:-2]:
        key = line.split(":", 1)[0]
        if line[:14] != f"{key}:".ljust(14):
            raise AssetError(f"INDEX__SECTION: the value of {key} does not start in column 15")
        if key in found:
            raise AssetError(f"INDEX__SECTION: {key} is given twice")
        found[key] = line[14:]
    if list(found) != [key for key in INDEX_KEYS if key != "Outputs"]:
        raise AssetError(f"INDEX__SECTION: keys or their order: {', '.join(found)}")
    _check_index(found, table_name)
    return found


def _check_index(found: dict[str, str], table_name: str) -> None:
    match = re.fullmatch(r"(\w+::)?(\w+)/(\w+)(::[\d.]+)?", table_name)
    if match is None:
        raise AssetError(f"Sections.list: {table_name} is no operator")
    namespace, table, name, version = (part or "" for part in match.groups())
    expected = {
        "Operator": namespace + name + version,
        "Table": table,
        "Path": f"oplib:/{table_name}?{table_name}",
        "Subnet": "false",
        "Python": "true",
        "Empty": "false",
    }
    for key, value in expected.items():
        if found[key] != value:
            raise AssetError(f"INDEX__SECTION: {key} is {found[key]!r}, not {value!r}")
    inputs = re.fullmatch(r"(\d+) to (\d+)", found["Inputs"])
    if inputs is None or int(inputs[1]) > int(inputs[2]):
        raise AssetError(f"INDEX__SECTION: Inputs is {found['Inputs']!r}, not «least to most»")
    try:
        time.strptime(found["Modified"], "%a %b %d %H:%M:%S %Y")
    except ValueError:
        raise AssetError(f"INDEX__SECTION: Modified is {found['Modified']!r}") from None


# --- sections ---------------------------------------------------------------------------------


def _check_dialog(asset: Asset) -> None:
    dialog = asset.dialog
    if dialog.name != asset.operator or dialog.script != asset.operator:
        raise AssetError(f"DialogScript: its name is {dialog.name}, not {asset.operator}")
    if dialog.label != asset.label:
        raise AssetError(f"DialogScript: its label {dialog.label!r} is not that of the index")
    if len(dialog.inputs) != asset.inputs[1]:
        raise AssetError(f"DialogScript: {len(dialog.inputs)} labels of {asset.inputs[1]} inputs")


def _check_icon(icon: str, asset: Asset) -> None:
    path, _, section = icon.partition("?")
    if path != f"opdef:/{asset.table_name}" or section not in asset.sections:
        raise AssetError(f"INDEX__SECTION: the icon {icon} is not there")


def _check_texts(asset: Asset) -> None:
    if asset.sections["FunctionName"] != asset.operator:
        raise AssetError("FunctionName: must be the operator, without a line feed")
    for line in ("opexprlanguage -s hscript $arg1", f"# Node $arg1 ({asset.table_name})"):
        if line not in asset.sections["CreateScript"].split("\n"):
            raise AssetError(f"CreateScript: lacks {line!r}")
    for name in ("Tools.shelf", "IconSVG"):
        if name in asset.sections:
            try:
                ElementTree.fromstring(asset.sections[name])
            except ElementTree.ParseError as error:
                raise AssetError(f"{name}: {error}") from None


def _check_options(asset: Asset) -> None:
    rows = asset.sections["TypePropertiesOptions"].splitlines()
    for row in rows:
        match = re.fullmatch(r"(\w+) := (\d);", row)
        if match is None or match[1] not in OPTIONS:
            raise AssetError(f"TypePropertiesOptions: {row!r}")
    if len(rows) != len(OPTIONS):
        raise AssetError("TypePropertiesOptions: options are missing or given twice")
    code = {n for n in asset.sections if n == "PythonModule" or n.startswith("On")}
    if not code and "ExtraFileOptions" not in asset.sections:
        return
    try:
        options = json.loads(asset.sections["ExtraFileOptions"])
    except (KeyError, ValueError) as error:
        raise AssetError(f"ExtraFileOptions: {error}") from None
    if strangers := {key.split("/")[0] for key in options} - code:
        raise AssetError(f"ExtraFileOptions: {', '.join(sorted(strangers))} is no section of code")
    for name in sorted(code):
        for key, kind, value in (
            ("IsPython", "bool", True), ("IsScript", "bool", True), ("IsExpr", "bool", False),
            ("Source", "string", ""), ("Cursor", "intarray", [1, 1]),
        ):  # fmt: skip
            if options.get(f"{name}/{key}") != {"type": kind, "value": value}:
                raise AssetError(f"ExtraFileOptions: {name}/{key} is missing or not {value}")


# --- code -------------------------------------------------------------------------------------


def _parsed(name: str, code: str) -> ast.Module:
    try:
        return ast.parse(code)
    except SyntaxError as error:
        raise AssetError(f"{name}: {error.msg}, line {error.lineno}") from None


@cache
def _functions(path: Path) -> dict[str, int]:
    """Functions of a module, its own and those it takes from its neighbours, with the number of
    arguments they must be given."""
    found: dict[str, int] = {}
    for item in _parsed(path.name, path.read_text(encoding="utf-8")).body:
        if isinstance(item, ast.FunctionDef):
            found[item.name] = len(item.args.args) - len(item.args.defaults)
        elif isinstance(item, ast.ImportFrom) and item.level == 1 and item.module:
            there = _functions(path.with_name(f"{item.module}.py"))
            found |= {a.name: there[a.name] for a in item.names if a.name in there}
    return found


def _calls(tree: ast.AST) -> list[tuple[str, int]]:
    """Attributes that are called: hou.phm().resimulate(node) -> resimulate, 1."""
    return [
        (node.func.attr, len(node.args))
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    ]


def _check_code(asset: Asset, package: Path) -> None:
    """Every function that a section or a parameter calls is there, with as many arguments."""
    cooks, callbacks = _functions(package / "cook.py"), _functions(package / "callbacks.py")
    for name in ("PythonCook", "PythonModule", "OnCreated", "OnLoaded", "OnDeleted"):
        tree = _parsed(name, asset.sections.get(name, ""))
        known = cooks if name == "PythonCook" else callbacks
        called = [call for call in _calls(tree) if call[0] not in ("pwd", "NodeError")]
        if name == "PythonCook" and len(called) != 1:
            raise AssetError(f"PythonCook: calls {called}, not one function of the adapter")
        for call in called:
            _check_call(f"{name}: {call[0]}", call, known)
    module = _parsed("PythonModule", asset.sections.get("PythonModule", ""))
    names = {
        alias.name
        for node in ast.walk(module)
        if isinstance(node, ast.ImportFrom) and node.module == "runnel_houdini.callbacks"
        for alias in node.names
    }
    for entry in asset.dialog.parms.values():
        for call in _calls(ast.parse(entry.tags.get("script_callback", ""))):
            if call[0] == "phm":
                continue
            if call[0] not in names:
                raise AssetError(f"PythonModule: {call[0]}, which {entry.name} calls, is not there")
            _check_call(f"{entry.name}: {call[0]}", call, callbacks)
        if entry.menu_script:
            body = entry.menu_script.replace("\n", "\n    ")
            for call in _calls(ast.parse(f"def menu(kwargs):\n    {body}")):
                _check_call(f"{entry.name}: {call[0]}", call, callbacks)


def _check_call(where: str, call: tuple[str, int], known: dict[str, int]) -> None:
    name, given = call
    if name not in known:
        raise AssetError(f"{where}: the adapter has no such function")
    if known[name] != given:
        raise AssetError(f"{where}: takes {known[name]} arguments, not {given}")


def _check_help(asset: Asset) -> None:
    """Every parameter that shows has an entry, and every entry a parameter."""
    ids = re.findall(r"^ +#id: (\S+)$", asset.sections.get("Help", ""), flags=re.MULTILINE)
    shown = [e.name for e in asset.dialog.parms.values() if "invisible" not in e.flags]
    for name in ids:
        if name not in shown or ids.count(name) > 1:
            raise AssetError(f"Help: {name} is no parameter, or has two entries")
    if lost := set(shown) - set(ids):
        raise AssetError(f"Help: {', '.join(sorted(lost))} has no entry")
