"""Nodes that cook, their parameters, and verbs."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import numpy as np

from . import world
from .enums import EnumValue, primType, severityType
from .errors import NodeError, NodeWarning, OperationFailed, OperationInterrupted
from .geometry import Geometry, _PrimData


class Parm:
    def __init__(self, *args, **kwargs) -> None:
        self._node, self._name = args

    def name(self) -> str:
        return self._name

    def eval(self) -> Any:
        return self._node.evalParm(self._name)

    def evalAtFrame(self, frame: float) -> Any:
        with world.at_frame(frame):
            return self.eval()

    def set(
        self,
        value: Any,
        language: EnumValue | None = None,
        follow_parm_reference: bool = True,
    ) -> None:
        assert not world.NOW.cooking, "nothing may be set while a node cooks"
        self._node._parms[self._name] = value

    def pressButton(self, arguments: Any = {}) -> None:  # noqa: B006  as in the stub
        self._node._buttons[self._name]()


class ParmTuple:
    def __init__(self, *args, **kwargs) -> None:
        self._node, self._name = args

    def eval(self) -> Any:
        return self._node.evalParmTuple(self._name)

    def evalAtFrame(self, frame: float) -> Any:
        with world.at_frame(frame):
            return self.eval()


class Node:
    def __init__(self, *args, **kwargs) -> None:
        self._name = args[0]
        self._inputs: list[Any] = []
        self._id = world.NOW.next_id
        world.NOW.next_id += 1
        self._errors: list[str] = []
        self._warnings: list[str] = []
        self._messages: list[str] = []

    def name(self) -> str:
        return self._name

    def path(self) -> str:
        return f"/obj/geo1/{self._name}"

    def sessionId(self) -> int:
        return self._id

    def inputs(self) -> tuple[Any, ...]:
        return tuple(self._inputs)

    def errors(self) -> tuple[str, ...]:
        return tuple(self._errors)

    def warnings(self) -> tuple[str, ...]:
        return tuple(self._warnings)


class OpNode(Node):
    def __init__(self, *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self._parms: dict[str, Any] = {}  # values, or functions of the frame
        self._buttons: dict[str, Callable[[], None]] = {}
        self._cached: dict[str, Any] = {}

    def parm(self, parm_path: str) -> Parm | None:
        return Parm(self, parm_path) if parm_path in self._parms else None

    def parmTuple(self, parm_path: str) -> ParmTuple | None:
        return ParmTuple(self, parm_path) if parm_path in self._parms else None

    def evalParm(self, parm_path: str) -> Any:
        if parm_path not in self._parms:
            raise OperationFailed(f"Invalid parameter: {parm_path}")
        value = self._parms[parm_path]
        value = value(world.NOW.frame) if callable(value) else value
        if isinstance(value, tuple):
            raise OperationFailed(f"{parm_path} is a tuple")
        return world.expand(value) if isinstance(value, str) else value

    def evalParmTuple(self, parm_path: str) -> Any:
        if parm_path not in self._parms:
            raise OperationFailed(f"Invalid parameter: {parm_path}")
        value = self._parms[parm_path]
        value = value(world.NOW.frame) if callable(value) else value
        return value if isinstance(value, tuple) else (value,)

    def isTimeDependent(self, for_last_cook: bool = False) -> bool:
        return False

    def cook(self, force: bool = False, frame_range: Any = ()) -> None:
        self._cook(world.NOW.frame)
        if self._errors:
            raise OperationFailed(self._errors[0])

    def _cook(self, frame: float) -> Any:
        raise NotImplementedError

    def cachedUserData(self, name: str) -> Any:
        return self._cached.get(name)

    def setCachedUserData(self, name: str, value: Any) -> None:
        self._cached[name] = value

    def destroyCachedUserData(self, name: str, must_exist: bool = True) -> None:
        if name not in self._cached and must_exist:
            raise OperationFailed(f"There is no {name}")
        self._cached.pop(name, None)

    def addError(self, message: str, severity: EnumValue = severityType.Error) -> None:
        self._check_cooking()
        self._errors.append(message)

    def addWarning(self, message: str | None = None) -> None:
        self._check_cooking()
        self._warnings.append(message or "")

    def addMessage(self, message: str | None = None) -> None:
        self._check_cooking()
        self._messages.append(message or "")

    def _check_cooking(self) -> None:
        assert world.NOW.cooking[-1:] == [self], "only the node that cooks may say something"


class SopNode(OpNode):
    """`_make(frame)` gives the geometry of a node that feeds others; `_code` is a PythonCook."""

    def __init__(self, *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self._make: Callable[[float], Geometry] | None = None
        self._moves = False
        self._code = ""
        self._kept: tuple[float, Geometry] | None = None
        self._geometry = Geometry()
        self._cooked: list[float] = []  # frames, in order

    def isTimeDependent(self, for_last_cook: bool = False) -> bool:
        return self._moves

    def geometry(self, output_index: int = 0) -> Geometry | None:
        if self._make is not None:
            return self._made(world.NOW.frame)
        return self._geometry

    def geometryAtFrame(self, frame: float, output_index: int = 0) -> Geometry | None:
        made = self._made(frame)
        return made.freeze(read_only=True)

    def inputGeometry(self, index: int) -> Geometry | None:
        source = self._input(index)
        return None if source is None else source.geometry()

    def inputGeometryAtFrame(self, frame: float, index: int) -> Geometry | None:
        source = self._input(index)
        return None if source is None else source.geometryAtFrame(frame)

    # --- what Houdini does

    def _input(self, index: int) -> Any:
        if index >= 4:
            raise OperationFailed("Invalid input")
        return self._inputs[index] if index < len(self._inputs) else None

    def _made(self, frame: float) -> Geometry:
        """As of a node upstream: cooked anew when the frame changes and it depends on that."""
        assert self._make is not None
        if self._kept is None or (self._moves and self._kept[0] != frame):
            made = self._make(frame)
            made._read_only = True
            self._kept = frame, made
            self._cooked.append(frame)
        return self._kept[1]

    def _dirty(self) -> None:
        """Something upstream was edited."""
        self._kept = None

    def _cook(self, frame: float) -> Geometry:
        """Run the PythonCook section as Houdini does; what it raises becomes messages."""
        import hou

        world.NOW.frame = frame
        self._errors, self._warnings, self._messages = [], [], []
        first = self.inputGeometry(0)
        self._geometry = Geometry() if first is None else Geometry(first)
        self._geometry._node = self
        world.NOW.cooking.append(self)
        around = list(world.NOW.operations)  # of a node that asks for this one
        try:
            exec(compile(self._code, "PythonCook", "exec"), {"hou": hou, "kwargs": {}})
        except NodeError as error:
            self._errors.append(str(error))
        except NodeWarning as error:
            self._warnings.append(str(error))
        except OperationInterrupted:
            self._errors.append("Cooking was interrupted")
        except Exception:
            self._errors.append("Python error: " + traceback.format_exc())
        finally:
            world.NOW.cooking.pop()
        assert world.NOW.operations == around, "an operation was left open"
        return self._geometry


class OpVerb:
    def __init__(self, *args, **kwargs) -> None:
        self._name = args[0]
        self._parms: dict[str, Any] = {}

    def setParms(self, p: Any) -> None:
        self._parms = dict(p)


class SopVerb(OpVerb):
    def execute(self, dest: Geometry, inputs: Any) -> None:
        (source,) = inputs
        {"unpack": _unpack, "divide": _divide}[self._name](dest, source)


class OpNodeTypeCategory:
    def nodeVerb(self, verb_name: str) -> OpVerb | None:
        return SopVerb(verb_name) if verb_name in ("unpack", "divide") else None


def _unpack(dest: Geometry, source: Geometry) -> None:
    """What is packed, put where its primitive says; the rest as it is."""
    result = Geometry()
    for prim in source._prims:
        part = Geometry()
        if prim.kind is primType.PackedGeometry:
            part = Geometry(prim.content)
            places = part._tables["Point"]["P"].values
            places[...] = places @ prim.transform[:3, :3] + prim.transform[3, :3]
        else:
            part.createPoints(source._tables["Point"]["P"].values[prim.points])
            numbers = list(range(len(prim.points)))
            part._add_prim(_PrimData(prim.kind, numbers, prim.closed, prim.content))
        result.merge(part)
    dest._take(result)


def _divide(dest: Geometry, source: Geometry) -> None:
    """Triangles; attributes of primitives are left out, fans serve convex polygons only."""
    result = Geometry(source)
    result._prims = [
        _PrimData(prim.kind, [prim.points[0], prim.points[k], prim.points[k + 1]])
        for prim in source._prims
        for k in range(1, len(prim.points) - 1)
    ]
    rows = np.repeat(
        np.arange(len(source._prims)), [max(len(p.points) - 2, 0) for p in source._prims]
    )
    for column in result._tables["Prim"].values():
        column.values = column.values[rows]
    dest._take(result)
