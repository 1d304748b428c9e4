"""What a parameter of a Houdini node is, and how one is made of a knob that core declares.

Knows neither `hou` nor the format of the asset: `parameters` lists the nodes, `values` reads them,
houdini_hda/generate.py writes them down.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from runnel.spec import Range, Spec

Menu = tuple[tuple[str, str], ...]  # token, label


@dataclass(frozen=True, kw_only=True)
class Parm:
    """A parameter. Inside of a multiparm, `#` in its name stands for the number of the row."""

    name: str
    label: str
    type: str  # of DialogScript: toggle, integer, float, vector, color, string, button, ...
    help: str
    default: tuple[Any, ...] = (0,)
    menu: Menu = ()
    menu_script: str = ""  # function of `callbacks` that lists the menu when it is opened
    range: Range = (None, None)
    locked: tuple[bool, bool] = (False, False)  # ends of the range that cannot be passed
    disable: str = ""  # condition: { other == 0 }
    hide: str = ""
    callback: str = ""  # function of `callbacks`, called with the node
    row_callback: bool = False  # it is called with the node and the number of its row
    expression: str = ""  # default as an HScript expression
    join: bool = False
    nolabel: bool = False
    invisible: bool = False
    chooser: str = ""  # of files: read or write
    part: str = ""  # of a scene that it belongs to: solver, source, collider, ...
    key: str = ""  # of that part
    gate: str = ""  # toggle that must be on for it to count
    spec: Spec | None = None

    @property
    def size(self) -> int:
        return len(self.default)


@dataclass(frozen=True, kw_only=True)
class Multi:
    """A list of rows of parameters."""

    name: str
    label: str
    help: str
    default: int
    items: tuple[Parm, ...]
    part: str


@dataclass(frozen=True, kw_only=True)
class Folder:
    """A tab, or a box inside of one."""

    name: str
    label: str
    items: tuple[Parm | Multi | Folder, ...]
    kind: str = "tab"  # tab, simple, collapsible


Item = Parm | Multi | Folder


@dataclass(frozen=True, kw_only=True)
class Node:
    """A node type."""

    name: str
    label: str
    summary: str
    icon: str
    inputs: tuple[str, ...]  # labels
    input_help: tuple[str, ...]
    least_inputs: int
    items: tuple[Item, ...]
    cook: str  # function of `cook`
    keeps_state: bool = False  # something has to be dropped with the node
    version: str = "1.0"

    @property
    def operator(self) -> str:
        return f"runnel::{self.name}::{self.version}"

    @property
    def table_name(self) -> str:
        return f"runnel::Sop/{self.name}::{self.version}"


def walk(items: tuple[Item, ...]) -> Iterator[Parm | Multi]:
    """All parameters in the order of the pane; the rows of a multiparm are left inside of it."""
    for item in items:
        if isinstance(item, Folder):
            yield from walk(item.items)
        else:
            yield item


def parms(items: tuple[Item, ...]) -> Iterator[Parm]:
    """All parameters, those in rows too."""
    for item in walk(items):
        if isinstance(item, Multi):
            yield from item.items
        else:
            yield item


def toggle(name: str, label: str, help: str, default: bool, **more: Any) -> Parm:
    return Parm(name=name, label=label, type="toggle", help=help, default=(int(default),), **more)


def button(name: str, label: str, help: str, callback: str, **more: Any) -> Parm:
    return Parm(name=name, label=label, type="button", help=help, callback=callback, **more)


def text(name: str, label: str, help: str, default: str = "", **more: Any) -> Parm:
    more.setdefault("type", "string")
    return Parm(name=name, label=label, help=help, default=(default,), **more)


def number(name: str, label: str, help: str, default: float, soft: Range, **more: Any) -> Parm:
    kind = "integer" if isinstance(default, int) else "float"
    more.setdefault("locked", (True, False))
    return Parm(
        name=name, label=label, type=kind, help=help, default=(default,), range=soft, **more
    )


_TYPES = {
    (float, 1): "float", (float, 2): "vector2", (float, 3): "vector",
    (int, 1): "integer", (int, 2): "intvector2", (bool, 1): "toggle", (str, 1): "string",
}  # fmt: skip


def of_spec(spec: Spec, part: str, name: str, **changes: Any) -> tuple[Parm, ...]:
    """The parameter of a knob; with a toggle in front of it if the knob may be left out.

    A `gate` given is a toggle that is there already.
    """
    axes = spec.choices == ("x", "y", "z") and spec.size == 0
    own = f"use{name}" if spec.optional and not spec.choices and "gate" not in changes else ""
    default = _default(spec) if "default" not in changes else changes.pop("default")
    parm = Parm(
        name=name,
        label=spec.label,
        type="string" if spec.choices else _TYPES[(spec.type, spec.size)],
        help=spec.help_with_unit,
        default=default,
        menu=_axis_menu() if axes else tuple((str(c), title(str(c))) for c in spec.supported),
        range=spec.soft,
        locked=(spec.hard_min_is_soft_min, spec.hard_max_is_soft_max),
        part=part,
        key=spec.name,
        gate=own,
        spec=spec,
    )
    parm = replace(parm, **changes)
    unless = parm.disable
    if parm.gate:
        parm = replace(parm, disable=f"{{ {parm.gate} == 0 }} {unless}".strip())
    if not own:
        return (parm,)
    off = f"Off: {spec.default_text or 'not used'}."
    look = {"join": True, "nolabel": True, "hide": parm.hide, "disable": unless}
    return (toggle(own, f"Use {parm.label}", off, False, **look), parm)


def title(word: str) -> str:
    return word.replace("_", " ").title()


def _default(spec: Spec) -> tuple[Any, ...]:
    if spec.required or spec.default is None:
        low, high = spec.soft
        middle = spec.type(low or 0)
        return (middle,) * spec.size if spec.size != 2 else (middle, spec.type(high or 0))
    value = spec.default
    if spec.type is bool:
        return (int(value),)
    if spec.size == 0:
        return ("".join(value) or "none",)
    return tuple(value) if spec.size > 1 else (value,)


def _axis_menu() -> Menu:
    sets = ("none", "x", "y", "z", "xy", "xz", "yz", "xyz")
    return tuple((axes, "None" if axes == "none" else ", ".join(axes.upper())) for axes in sets)
