"""What Houdini does with installed assets: nodes made from the expanded folders themselves.

Their parameters, menus, conditions, callbacks and PythonCook are those that the strict reader finds
on disk, so that a test through here runs what an artist runs. Goes on top of the stand-in `hou`;
`enter` adds what it lacks: networks, node types, libraries, scenes.
"""

from __future__ import annotations

import ast
import operator
import re
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hou_standin as hou
import pytest
from hou_standin import world
from shots import box

from tests.houdini.asset_reader import Asset, read_library
from tests.houdini.dialog_script import SUFFIXES, Entry

ROOT = Path(__file__).resolve().parents[2] / "houdini_hda"
EXPRESSIONS: dict[str, Any] = {"$FF": lambda frame: frame, "$FEND": lambda frame: 240}
TIMED = "hou.frame()"


class HDASection:
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        (self._text,) = args

    def contents(self, compressionType: Any = None) -> str:
        return self._text


class HDADefinition:
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._asset, self._library = args

    def sections(self) -> dict[str, HDASection]:
        return {name: HDASection(text) for name, text in self._asset.sections.items()}

    def libraryFilePath(self) -> str:
        return str(self._library)

    def nodeTypeName(self) -> str:
        return self._asset.operator


class OpNodeType:
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._asset, self._library = args

    def minNumInputs(self) -> int:
        return self._asset.inputs[0]

    def maxNumInputs(self) -> int:
        return self._asset.inputs[1]

    def definition(self) -> HDADefinition | None:
        return HDADefinition(self._asset, self._library)


class ParmTemplate:
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        (self._entry,) = args

    def label(self) -> str:
        return self._entry.label

    def help(self) -> str:
        return self._entry.help


class Parm(hou.Parm):
    """A parameter of an installed node."""

    @property
    def _entry(self) -> Entry:
        return self._node._entries[self._name]

    def set(self, value: Any, language: Any = None, follow_parm_reference: bool = True) -> None:
        super().set(value, language, follow_parm_reference)
        if self._name in self._node._entries and self._entry.kind == "multiparm":
            self._node._fill_rows(self._entry)

    def pressButton(self, arguments: Any = {}) -> None:  # noqa: B006  as in the stub
        row = re.search(r"\d+$", self._name) if self._entry.row_of else None
        kwargs = {"node": self._node, "parm": self}
        kwargs["script_multiparm_index"] = row[0] if row else "-1"
        around = _Around(self._node._module())
        exec(self._entry.tags["script_callback"], {"hou": around, "kwargs": kwargs})

    def menuItems(self) -> tuple[str, ...]:
        if self._entry.menu_script:
            body = self._entry.menu_script.replace("\n", "\n    ")
            scope: dict[str, Any] = {}
            exec(f"def menu(kwargs):\n    {body}", scope)
            return tuple(scope["menu"]({"node": self._node})[::2])
        return tuple(token for token, _ in self._entry.menu)

    def isDisabled(self) -> bool:
        return self._met(self._entry.disablewhen)

    def isHidden(self) -> bool:
        return self._met(self._entry.hidewhen)

    def _met(self, condition: str) -> bool:
        """Of the clauses in brackets one has to hold, of the terms in a clause all."""
        row = re.search(r"\d+$", self._name) if self._entry.row_of else None
        for clause in re.findall(r"\{([^{}]*)\}", condition):
            words = clause.split()
            terms = zip(words[::3], words[1::3], words[2::3], strict=True)
            if all(self._term(n.replace("#", row[0] if row else "#"), r, v) for n, r, v in terms):
                return True
        return False

    def _term(self, name: str, relation: str, wanted: str) -> bool:
        equal = str(self._node.evalParm(name)) == wanted
        return equal if relation == "==" else not equal


OPERATIONS: dict[type[ast.AST], Callable[..., float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.USub: operator.neg,
    ast.Gt: operator.gt,
}


def arithmetic(expression: str) -> float:
    """The value of an expression of numbers; others raise."""

    def value(node: Any) -> float:
        match node:
            case ast.Constant(value=float() | int() as number):
                return float(number)
            case ast.BinOp(left, op, right) | ast.Compare(left, [op], [right]):
                return float(OPERATIONS[type(op)](value(left), value(right)))
            case ast.UnaryOp(op, operand):
                return OPERATIONS[type(op)](value(operand))
        raise ValueError(f"not arithmetic: {expression}")

    return value(ast.parse(expression, mode="eval").body)


class Component(hou.Parm):
    """One number of a vector: color1r."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._node, self._name, self._at = args

    def set(self, value: Any, language: Any = None, follow_parm_reference: bool = True) -> None:
        values = list(self._node._parms[self._name])
        values[self._at] = value
        self._node._parms[self._name] = tuple(values)

    def setExpression(
        self,
        expression: str,
        language: Any = None,
        replace_expression: bool = True,
    ) -> None:
        """Arithmetic of $F."""
        values = self._node._parms[self._name]

        def at(frame: float) -> tuple[float, ...]:
            value = arithmetic(expression.replace("$F", str(frame)))
            return (*values[: self._at], value, *values[self._at + 1 :])

        self._node._parms[self._name] = at


class ParmTuple(hou.ParmTuple):
    """A parameter of an installed node, whole."""

    def __len__(self) -> int:
        return len(self.eval())

    def __getitem__(self, index: int) -> Parm:
        return Parm(self._node, self._name)

    def set(self, value: Any, language: Any = None, follow_parm_reference: bool = True) -> None:
        assert len(value) == len(self)
        self._node._parms[self._name] = tuple(value)

    def parmTemplate(self) -> ParmTemplate:
        return ParmTemplate(self._node._entries[self._name])


class _Around:
    """`hou` as a callback sees it: phm() is the asset's PythonModule."""

    def __init__(self, module: types.ModuleType) -> None:
        self._module = module

    def phm(self) -> types.ModuleType:
        return self._module

    def __getattr__(self, name: str) -> Any:
        return getattr(hou, name)


class _Wired(hou.SopNode):
    """A node in a network."""

    def updateParmStates(self) -> None:
        """Conditions here are looked at when asked."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        name, self._house, self._kind = args
        super().__init__(name)
        self._entries: dict[str, Entry] = {}

    def path(self) -> str:
        return f"/obj/verify/{self._name}"

    def setInput(self, input_index: int, item_to_become_input: Any, output_index: int = 0) -> None:
        self._inputs += [None] * (input_index + 1 - len(self._inputs))
        self._inputs[input_index] = item_to_become_input

    def setName(self, name: str, unique_name: bool = False) -> None:
        self._house.nodes[name] = self._house.nodes.pop(self._name)
        self._name = name

    def parm(self, parm_path: str) -> Parm | None:
        if parm_path in self._parms:
            return Parm(self, parm_path)
        whole, letter = parm_path[:-1], parm_path[-1:]
        entry = self._entries.get(whole)
        letters = SUFFIXES.get(entry.type, "") if entry else "xyz"
        if whole not in self._parms or letter not in letters:
            return None
        return Component(self, whole, letters.index(letter))

    def parmTuple(self, parm_path: str) -> ParmTuple | None:
        return ParmTuple(self, parm_path) if parm_path in self._parms else None

    def destroy(self, disable_safety_checks: bool = False) -> None:
        del self._house.nodes[self._name]


class PythonSop(_Wired):
    """Houdini's own Python SOP."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._parms["python"] = ""
        self._make = self._run
        self._of = ""  # the code that was run last

    def isTimeDependent(self, for_last_cook: bool = False) -> bool:
        wired = any(i is not None and i.isTimeDependent() for i in self._inputs)
        return wired or TIMED in self._parms["python"]

    def _made(self, frame: float) -> Any:
        self._moves = self.isTimeDependent()
        if self._of != self._parms["python"]:
            self._dirty()
        return super()._made(frame)

    def _run(self, frame: float) -> Any:
        kept, world.NOW.frame = world.NOW.frame, frame
        self._of = self._parms["python"]
        first = self._inputs[0].geometryAtFrame(frame) if self._inputs else hou.Geometry()
        self._geometry, self._make = hou.Geometry(first), None
        world.NOW.cooking.append(self)
        try:
            exec(self._of, {"hou": hou})
        finally:
            world.NOW.cooking.pop()
            world.NOW.frame, self._make = kept, self._run
        return self._geometry


class Made(_Wired):
    """A node of Houdini's own that gives geometry; cooked anew when asked."""

    def _made(self, frame: float) -> Any:
        self._make = lambda frame: hou.Geometry()
        geo = self._geometry_at(frame)
        geo._read_only = True
        return geo

    def _geometry_at(self, frame: float) -> Any:
        raise NotImplementedError

    def geometry(self, output_index: int = 0) -> Any:
        return self._made(world.NOW.frame)

    def isTimeDependent(self, for_last_cook: bool = False) -> bool:
        return any(i is not None and i.isTimeDependent() for i in self._inputs)


class BoxSop(Made):
    """Houdini's Box: `size`, and `t` for its centre."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._parms |= {"size": (1.0, 1.0, 1.0), "t": (0.0, 0.0, 0.0)}
        self._last: tuple[Any, Any] | None = None

    def isTimeDependent(self, for_last_cook: bool = False) -> bool:
        return any(callable(value) for value in self._parms.values())

    def _geometry_at(self, frame: float) -> Any:
        centre = self._parms["t"](frame) if callable(self._parms["t"]) else self._parms["t"]
        key = (centre, self._parms["size"])
        if self._last is None or self._last[0] != key:  # the same data ids while nothing changes
            sides = list(zip(*key, strict=True))
            low, high = ([t + k * s for t, s in sides] for k in (-0.5, 0.5))
            self._last = key, box(low, high)
        return self._last[1]


class MergeSop(Made):
    """Houdini's Merge."""

    def _geometry_at(self, frame: float) -> Any:
        geo = hou.Geometry()
        for source in self._inputs:
            geo.merge(source.geometryAtFrame(frame))
        return geo


class Installed(_Wired):
    """A node of ours, as its asset says."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._asset: Asset = self._house.assets[self._kind][0]
        self._code = self._asset.sections["PythonCook"]
        self._stamp: Any = None
        for entry in self._asset.dialog.parms.values():
            if not entry.row_of:
                self._parms[entry.name] = _default(entry)
                self._entries[entry.name] = entry
                if entry.kind == "multiparm":
                    self._fill_rows(entry)

    def _fill_rows(self, multi: Entry) -> None:
        for number in range(1, int(self._parms[multi.name]) + 1):
            for entry in multi.children:
                name = entry.name.replace("#", str(number))
                self._parms.setdefault(name, _default(entry))
                self._entries[name] = entry

    def _module(self) -> types.ModuleType:
        module = types.ModuleType("PythonModule")
        exec(self._asset.sections["PythonModule"], module.__dict__)
        return module

    def inputLabels(self) -> tuple[str, ...]:
        return tuple(self._asset.dialog.inputs)

    def isTimeDependent(self, for_last_cook: bool = False) -> bool:
        """A parameter that was evaluated follows the time, or an input does."""
        wired = any(i is not None and i.isTimeDependent() for i in self._inputs)
        return wired or any(e.expression == "$FF" for e in self._entries.values())

    def cook(self, force: bool = False, frame_range: Any = ()) -> None:
        self._cook(world.NOW.frame)
        self._stamp = world.NOW.frame
        if self._errors:
            raise hou.OperationFailed(f"{self.path()}: error while cooking")

    def geometry(self, output_index: int = 0) -> Any:
        if self not in world.NOW.cooking and self._stamp != world.NOW.frame:
            self.cook()
        return self._geometry

    def geometryAtFrame(self, frame: float, output_index: int = 0) -> Any:
        kept, world.NOW.frame = world.NOW.frame, frame
        try:
            self.cook()
            return self._geometry.freeze(read_only=True)
        finally:
            world.NOW.frame = kept

    def destroy(self, disable_safety_checks: bool = False) -> None:
        exec(self._asset.sections.get("OnDeleted", ""), {"hou": hou, "kwargs": {"node": self}})
        super().destroy()


def _default(entry: Entry) -> Any:
    if entry.expression:
        return EXPRESSIONS[entry.expression]
    if entry.kind == "multiparm":
        return int(entry.default[0])
    kind: Any = str
    if entry.type in ("toggle", "integer", "intvector2", "button"):
        kind = int
    elif entry.type in ("float", "vector", "vector2", "color"):
        kind = float
    values = tuple(kind(text) for text in entry.default)
    return values if len(values) > 1 else values[0]


HOUDINIS_OWN: dict[str, type[_Wired]] = {"python": PythonSop, "box": BoxSop, "merge": MergeSop}


class Network(hou.OpNode):
    """/obj, and the geometry object in it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        name, self._house = args
        super().__init__(name)

    def createNode(
        self,
        node_type_name: str,
        node_name: str | None = None,
        run_init_scripts: bool = True,
        load_contents: bool = True,
        exact_type_name: bool = False,
        force_valid_node_name: bool = False,
    ) -> Any:
        if node_type_name == "geo":
            return Network(node_name, self._house)
        if node_type_name not in (*self._house.assets, *HOUDINIS_OWN):
            raise hou.OperationFailed(f"Invalid node type name: {node_type_name}")
        kind = HOUDINIS_OWN.get(node_type_name, Installed)
        node = kind(node_name or f"node{world.NOW.next_id}", self._house, node_type_name)
        self._house.nodes[node.name()] = node
        return node


class House:
    """A running Houdini: installed libraries, the scene, files that were saved."""

    def __init__(self) -> None:
        self.assets: dict[str, tuple[Asset, Path]] = {}
        self.nodes: dict[str, _Wired] = {}
        self._saved: dict[str, list[Any]] = {}
        self._path = ""

    def node(self, path: str) -> Any:
        return Network("obj", self) if path == "/obj" else self.nodes.get(path.split("/")[-1])

    def nodeType(self, category_or_name: Any, internal_name: str | None = None) -> Any:
        found = self.assets.get(str(internal_name))
        return None if found is None else OpNodeType(*found)

    def installFile(
        self,
        file_path: str,
        oplibraries_file: str | None = None,
        change_oplibraries_file: bool = True,
        force_use_assets: bool = False,
    ) -> None:
        asset = read_library(Path(file_path), ROOT / "python3.11libs")
        self.assets[asset.operator] = (asset, Path(file_path))

    def copyNodesTo(self, nodes: Any, destination_node: Any) -> tuple[Any, ...]:
        (node,) = nodes
        copy = type(node)(f"{node.name()}_copy", self, node._kind)
        copy._parms, copy._inputs = dict(node._parms), list(node._inputs)
        copy._entries = dict(node._entries)
        copy._cached = dict(node._cached)  # the worst that Houdini could do
        self.nodes[copy.name()] = copy
        return (copy,)

    def clear(self, suppress_save_prompt: bool = False) -> bool:
        hou.hipFile._tell(hou.hipFileEventType.BeforeClear)
        self.nodes.clear()
        hou.hipFile._tell(hou.hipFileEventType.AfterClear)
        return True

    def save(self, file_name: str | None = None, save_to_recent_files: bool = True) -> None:
        self._path = str(file_name)
        self._saved[self._path] = [
            (type(n), n._name, n._kind, n._parms, n._entries, [i and i._name for i in n._inputs])
            for n in self.nodes.values()
        ]

    def path(self) -> str:
        return self._path

    def load(
        self,
        file_name: str,
        suppress_save_prompt: bool = False,
        ignore_load_warnings: bool = False,
    ) -> None:
        hou.hipFile._tell(hou.hipFileEventType.BeforeLoad)
        self.clear()
        for kind, name, asset, parms, entries, _ in self._saved[file_name]:
            node = self.nodes[name] = kind(name, self, asset)
            node._parms, node._entries = dict(parms), dict(entries)
        for _, name, _, _, _, inputs in self._saved[file_name]:
            self.nodes[name]._inputs = [i and self.nodes[i] for i in inputs]


def enter(patch: pytest.MonkeyPatch) -> House:
    """Start a Houdini without assets."""
    house = House()
    given = {
        "node": house.node,
        "nodeType": house.nodeType,
        "copyNodesTo": house.copyNodesTo,
        "setFrame": lambda frame: setattr(world.NOW, "frame", float(frame)),
        "applicationVersionString": lambda: "20.5.278 (stand-in)",
        "hda": types.SimpleNamespace(installFile=house.installFile),
        "hipFile": types.SimpleNamespace(
            clear=house.clear,
            save=house.save,
            load=house.load,
            path=house.path,
            addEventCallback=hou.hipFile.addEventCallback,
            eventCallbacks=hou.hipFile.eventCallbacks,
            _tell=hou.hipFile._tell,
        ),
        "OpNodeType": OpNodeType,
    }
    for name, value in given.items():
        patch.setattr(hou, name, value, raising=False)
    return house
