"""Writes the digital assets as Houdini's expanded folders, from the table in runnel_houdini.

    python houdini_hda/generate.py            # otls/ anew
    python houdini_hda/generate.py --check    # fails if a file is stale, missing or left over

The layout follows folders that Houdini itself wrote (`hotl -t`): names escaped, tabs in the lists,
keys of INDEX__SECTION in order. tests/houdini/asset_reader.py reads it back, strictly.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
for _path in (HERE / "python3.11libs", HERE.parent / "core"):
    if str(_path) not in sys.path:
        sys.path.insert(0, str(_path))

from runnel_houdini.parameters import NODES  # noqa: E402
from runnel_houdini.parm import Folder, Item, Multi, Node, Parm, parms  # noqa: E402
from runnel_houdini.words import about, icon  # noqa: E402

# A date of its own would make the files differ from run to run.
MODIFIED = "Tue Nov 17 12:00:00 2026"

OPTIONS = {
    "CheckExternal": 1, "ContentsCompressionType": 1, "ForbidOutsideParms": 1, "GzipContents": 1,
    "LockContents": 1, "MakeDefault": 1, "ParmsFromVfl": 0, "PrefixDroppedParmLabel": 0,
    "PrefixDroppedParmName": 0, "SaveCachedCode": 0, "SaveIcon": 1, "SaveSpareParms": 0,
    "UnlockOnCreate": 0, "UseDSParms": 1,
}  # fmt: skip


def files() -> dict[str, str]:
    """Every file of otls/, by path from here."""
    made: dict[str, str] = {}
    for node in NODES.values():
        library = f"otls/runnel.{node.name}.{node.version}.hda"
        folder = escaped(node.table_name)
        made[f"{library}/houdini.hdalibrary"] = ""
        made[f"{library}/INDEX__SECTION"] = index(node)
        made[f"{library}/Sections.list"] = _sections(
            {
                "INDEX__SECTION": "INDEX_SECTION",
                folder: node.table_name,
                "houdini.hdalibrary": "houdini.hdalibrary",
            }
        )
        for name, text in sections(node).items():
            made[f"{library}/{folder}/{name}"] = text
    return made


def escaped(name: str) -> str:
    """A section's name as a file name."""
    return name.replace("_", "__").replace("/", "_1").replace(":", "_8")


def index(node: Node) -> str:
    """INDEX__SECTION: keys in the order that Houdini writes, values from column 15."""
    path = f"{node.table_name}?{node.table_name}"
    rows = {
        "Operator": node.operator,
        "Label": node.label,
        "Path": f"oplib:/{path}",
        "Icon": f"opdef:/{node.table_name}?IconSVG",
        "Table": "Sop",
        "License": "",
        "Extra": "",
        "User": "",
        "Inputs": f"{node.least_inputs} to {len(node.inputs)}",
        "Subnet": "false",
        "Python": "true",
        "Empty": "false",
        "Modified": MODIFIED,
    }
    return "".join(f"{key + ':':<14}{value}\n" for key, value in rows.items()) + "\n"


def _sections(names: dict[str, str]) -> str:
    return '""\n' + "".join(f"{file}\t{section}\n" for file, section in names.items())


def sections(node: Node) -> dict[str, str]:
    """Files of the operator's folder."""
    made = {
        "DialogScript": dialog_script(node),
        "PythonCook": _python_cook(node),
        "TypePropertiesOptions": "".join(f"{key} := {v};\n" for key, v in OPTIONS.items()),
        "Help": help_card(node),
        "Tools.shelf": _SHELF,
        "FunctionName": node.operator,
        "CreateScript": _CREATE.format(operator=node.operator, table_name=node.table_name),
        "IconSVG": icon(node.name),
    }
    code = {}
    if called(node):
        code["PythonModule"] = _python_module(node)
    if node.keeps_state:
        code["OnDeleted"] = _ON_DELETED
    if code:
        made |= code
        made["ExtraFileOptions"] = _extra_options([*code])
    return {**made, "Sections.list": _sections({name: name for name in made})}


# --- code -----------------------------------------------------------------------------------------

_CREATE = """\
# Automatically generated script
\\set noalias = 1
#
#  Creation script for {operator} operator
#

if ( "$arg1" == "" ) then
    echo This script is intended as a creation script
    exit
endif

# Node $arg1 ({table_name})
opexprlanguage -s hscript $arg1
opuserdata -n '___Version___' -v '' $arg1
"""

_SHELF = """\
<?xml version="1.0" encoding="UTF-8"?>
<shelfDocument>
  <!-- This file contains definitions of shelves, toolbars, and tools.
 It should not be hand-edited when it is being used by the application.
 Note, that two definitions of the same element are not allowed in
 a single file. -->

  <tool name="$HDA_DEFAULT_TOOL" label="$HDA_LABEL" icon="$HDA_ICON">
    <toolMenuContext name="viewer">
      <contextNetType>SOP</contextNetType>
    </toolMenuContext>
    <toolMenuContext name="network">
      <contextOpType>$HDA_TABLE_AND_NAME</contextOpType>
    </toolMenuContext>
    <toolSubmenu>Runnel</toolSubmenu>
    <script scriptType="python"><![CDATA[import soptoolutils

soptoolutils.genericTool(kwargs, '$HDA_NAME')]]></script>
  </tool>
</shelfDocument>
"""

_ON_DELETED = """\
# What the node held in memory goes with it.
try:
    from runnel_houdini import callbacks
except ImportError:
    pass
else:
    if "node" in kwargs:
        callbacks.deleted(kwargs["node"])
"""


def _python_cook(node: Node) -> str:
    return f"""\
import hou

try:
    from runnel_houdini import cook
except ImportError as error:
    raise hou.NodeError(
        f"Runnel's Python package cannot be loaded: {{error}}. It needs a build of Houdini with "
        "Python 3.11, and runnel.json with the folder runnel in packages."
    )
cook.{node.cook}(hou.pwd())
"""


def called(node: Node) -> list[str]:
    """Functions of `callbacks` that parameters call."""
    return sorted({parm.callback for parm in parms(node.items) if parm.callback})


def _python_module(node: Node) -> str:
    names = "".join(f"    {name},\n" for name in called(node))
    return f"# What buttons call.\nfrom runnel_houdini.callbacks import (\n{names})\n"


def _extra_options(names: list[str]) -> str:
    """Without IsPython, Houdini would take an event script for HScript."""
    options: dict[str, Any] = {}
    for name in sorted(names):
        options[f"{name}/Cursor"] = {"type": "intarray", "value": [1, 1]}
        for key, value in (("IsExpr", False), ("IsPython", True), ("IsScript", True)):
            options[f"{name}/{key}"] = {"type": "bool", "value": value}
        options[f"{name}/Source"] = {"type": "string", "value": ""}
    rows = [
        f'\t"{key}":{{\n\t\t"type":"{o["type"]}",\n\t\t"value":{_json(o["value"])}\n\t}}'
        for key, o in options.items()
    ]
    return "{\n" + ",\n".join(rows) + "\n}\n"


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


# --- DialogScript ---------------------------------------------------------------------------------


def dialog_script(node: Node) -> str:
    lines = [
        f"# Dialog script for {node.operator} automatically generated",
        "",
        "{",
        f"    name\t{node.operator}",
        f"    script\t{node.operator}",
        f"    label\t{_quoted(node.label)}",
        "",
        "    help {",
        '\t""',
        "    }",
        "",
    ]
    for number, label in enumerate(node.inputs, 1):
        lines.append(f"    inputlabel\t{number}\t{_quoted(label)}")
    lines += ["", *_items(node.items, 1), "}"]
    return "\n".join(lines) + "\n"


def _items(items: tuple[Item, ...], depth: int) -> Iterator[str]:
    """Consecutive tabs are one set; Houdini names the later ones after the first."""
    first, count = "", 0
    for item in items:
        if isinstance(item, Parm):
            yield from _indented(_parm(item), depth)
            continue
        if isinstance(item, Multi):
            yield from _multi(item, depth)
        else:
            name = item.name
            if item.kind == "tab":
                name = f"{first}_{count}" if first else name
                first, count = first or name, count + 1
            yield from _folder(item, name, depth)
        yield ""


def _indented(lines: Iterator[str] | list[str], depth: int) -> Iterator[str]:
    for line in lines:
        yield "    " * depth + line if line else ""


def _folder(folder: Folder, name: str, depth: int) -> Iterator[str]:
    kind = "group" if folder.kind == "tab" else f"group{folder.kind}"
    head = [f"{kind} {{", f"    name    {_quoted(name)}", f"    label   {_quoted(folder.label)}"]
    if folder.kind != "tab":
        head.append(f'    grouptag {{ "group_type" "{folder.kind}" }}')
    yield from _indented([*head, ""], depth)
    yield from _items(folder.items, depth + 1)
    yield from _indented(["}"], depth)


def _multi(multi: Multi, depth: int) -> Iterator[str]:
    head = [
        "multiparm {",
        f"    name    {_quoted(multi.name)}",
        f"    label    {_quoted(multi.label)}",
        f"    default {multi.default}",
        '    parmtag { "multistartoffset" "1" }',
        "",
    ]
    yield from _indented(head, depth)
    yield from _items(multi.items, depth + 1)
    yield from _indented(["}"], depth)


def _parm(parm: Parm) -> Iterator[str]:
    yield "parm {"
    yield f"    name    {_quoted(parm.name)}"
    yield f"    label   {_quoted(parm.label)}"
    yield f"    type    {parm.type}"
    for word, on in (
        ("invisible", parm.invisible),
        ("nolabel", parm.nolabel),
        ("joinnext", parm.join),
    ):
        if on:
            yield f"    {word}"
    if parm.size > 1:
        yield f"    size    {parm.size}"
    yield f"    default {{ {_default(parm)} }}"
    yield f"    help    {_quoted(parm.help)}"
    yield from _menu(parm)
    if parm.disable:
        yield f"    disablewhen {_quoted(parm.disable)}"
    if parm.hide:
        yield f"    hidewhen {_quoted(parm.hide)}"
    if parm.range != (None, None) and parm.type != "string":
        yield f"    range   {{ {_range(parm)} }}"
    for tag, value in _tags(parm).items():
        yield f"    parmtag {{ {_quoted(tag)} {_quoted(value)} }}"
    yield "}"


def _default(parm: Parm) -> str:
    if parm.expression:
        return f"[ {_quoted(parm.expression)} hscript-expr ]"
    return " ".join(_quoted(_text(value)) for value in parm.default)


def _menu(parm: Parm) -> Iterator[str]:
    if parm.menu:
        yield "    menu {"
        for token, label in parm.menu:
            yield f"        {_quoted(token)} {_quoted(label)}"
        yield "    }"
    if parm.menu_script:
        yield "    menureplace {"
        yield '        [ "from runnel_houdini import callbacks" ]'
        yield f"        [ \"return callbacks.{parm.menu_script}(kwargs['node'])\" ]"
        yield "        language python"
        yield "    }"


def _range(parm: Parm) -> str:
    ends = zip(parm.range, parm.locked, strict=True)
    return " ".join(_text(end or 0) + "!" * locked for end, locked in ends)


def _tags(parm: Parm) -> dict[str, str]:
    tags = {}
    if parm.chooser:
        tags["filechooser_mode"] = parm.chooser
    if parm.callback:
        row = ", int(kwargs['script_multiparm_index'])" if parm.row_callback else ""
        tags["script_callback"] = f"hou.phm().{parm.callback}(kwargs['node']{row})"
        tags["script_callback_language"] = "python"
    return tags


def _text(value: Any) -> str:
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


# --- help card ------------------------------------------------------------------------------------


def help_card(node: Node) -> str:
    """In the wiki text of Houdini's help."""
    lines = [
        "#type: node",
        "#context: sop",
        f"#internal: {node.name}",
        "#namespace: runnel",
        f"#version: {node.version}",
        "#icon: opdef:.?IconSVG",
        "",
        f"= {node.label} =",
        "",
        f'"""{node.summary}"""',
        "",
        about(node.name).strip(),
        "",
    ]
    if node.inputs:
        lines.append("@inputs")
        for label, words in zip(node.inputs, node.input_help, strict=True):
            lines += ["", f"{label}:", f"    {words}"]
        lines.append("")
    lines += ["@parameters", "", *_help_items(node.items, 2)]
    return "\n".join(lines).rstrip("\n") + "\n"


def _help_items(items: tuple[Item, ...], level: int) -> Iterator[str]:
    for item in items:
        if isinstance(item, Folder):
            yield from (f"    {'=' * level} {item.label} {'=' * level}", "")
            yield from _help_items(item.items, level + 1)
        elif isinstance(item, Multi):
            yield from _help_entry(item.label, item.name, item.help)
            yield from _help_items(item.items, level)
        elif not item.invisible:
            yield from _help_entry(item.label, item.name, item.help)


def _help_entry(label: str, name: str, words: str) -> Iterator[str]:
    # Square brackets would be links, pairs of asterisks bold.
    plain = words.replace("[", "(").replace("]", ")").replace("*", "`*`")
    yield from (f"    {label}:", f"        #id: {name}", f"        {plain}", "")


# --- page of the docs ----------------------------------------------------------------------------


def parameters_markdown() -> str:
    """docs/houdini/parameters.md."""
    parts = [_INTRODUCTION]
    for node in NODES.values():
        parts += [f"## {node.label}", "", f"`{node.operator}`. {node.summary}", ""]
        if node.inputs:
            parts += ["| input | takes |", "|---|---|"]
            rows = zip(node.inputs, node.input_help, strict=True)
            parts += [f"| {label} | {words} |" for label, words in rows]
            parts.append("")
        parts += _table(node.items, 3)
    return "\n".join(parts).rstrip("\n") + "\n"


_INTRODUCTION = """\
# Parameters of the Houdini nodes

<!-- Made from params.py and runnel_houdini/parameters.py by `make docs`; do not edit. -->

"Range" is that of the slider; an end in bold cannot be passed. `#` stands for the number of a row.
"""


def _table(items: tuple[Item, ...], level: int) -> Iterator[str]:
    rows = [row for item in items for row in _rows(item)]
    if rows:
        yield from ("| parameter | name | default | range | meaning |", "|---|---|---|---|---|")
        yield from (*rows, "")
    for item in items:
        if isinstance(item, Folder):
            yield from (f"{'#' * level} {item.label}", "")
            yield from _table(item.items, level + 1)


def _rows(item: Item) -> Iterator[str]:
    if isinstance(item, Multi):
        yield f"| {item.label} | `{item.name}` | {item.default} | | {item.help} |"
        for parm in item.items:
            yield from _rows(parm)
    elif isinstance(item, Parm) and not item.invisible:
        cells = (item.label, f"`{item.name}`", _shown(item), _limits(item), item.help)
        yield f"| {' | '.join(cells)} |".replace("  ", " ")


def _shown(parm: Parm) -> str:
    if parm.expression:
        return f"`{parm.expression}`"
    if parm.type == "button":
        return ""
    if parm.type == "toggle":
        return "on" if parm.default[0] else "off"
    text = ", ".join(_text(value) for value in parm.default)
    return f"`{text}`" if text else "empty"


def _limits(parm: Parm) -> str:
    if parm.menu:
        return ", ".join(f"`{token}`" for token, _ in parm.menu)
    if parm.range == (None, None) or parm.type == "string":
        return ""
    ends = zip(parm.range, parm.locked, strict=True)
    return " to ".join(f"**{_text(e or 0)}**" if locked else _text(e or 0) for e, locked in ends)


# --- command --------------------------------------------------------------------------------------


def stale() -> list[str]:
    """Files that differ from what would be written, are missing, or do not belong there."""
    made = files()
    found = {str(p.relative_to(HERE).as_posix()) for p in (HERE / "otls").rglob("*") if p.is_file()}
    wrong = [name for name, text in made.items() if name not in found or _read(name) != text]
    return sorted([*wrong, *(found - set(made))])


def _read(name: str) -> str:
    return (HERE / name).read_bytes().decode()


def write() -> None:
    made = files()
    for name in stale():
        path = HERE / name
        if name not in made:
            path.unlink()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(made[name].encode())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, fail if stale")
    if parser.parse_args().check:
        for name in stale():
            print(f"houdini_hda/{name} is stale: run `make docs` and commit it", file=sys.stderr)
        return 1 if stale() else 0
    write()
    return 0


if __name__ == "__main__":
    sys.exit(main())
