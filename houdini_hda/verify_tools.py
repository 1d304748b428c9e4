"""What the checks of verify_in_houdini.py have in common: small networks, and a list of checks."""

from __future__ import annotations

import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import hou
import numpy as np

NAMES = ("fluid_solver", "fluid_source", "fluid_collider", "fluid_cache", "fluid_surface")
SEPARATION = 0.05  # [m]
BLOCK = 0.4  # [m], so 8^3 particles


@dataclass
class Result:
    name: str
    outcome: str  # held, WRONG, skipped
    seconds: float
    text: str


class Skip(Exception):
    """Why a check cannot be made here."""


class Wrong(Exception):
    """What does not hold."""


def expect(holds: Any, text: str) -> None:
    if not holds:
        raise Wrong(text)


T = TypeVar("T")


def there(found: T | None, text: str) -> T:
    if found is None:
        raise Wrong(f"there is no {text}")
    return found


def same(found: Any, wanted: Any, text: str) -> None:
    if found != wanted:
        raise Wrong(f"{text}: {found!r}, not {wanted!r}")


CHECKS: list[tuple[str, Callable[[Path], str | None]]] = []


def check(name: str) -> Callable[[Callable[[Path], str | None]], Callable[[Path], str | None]]:
    """Registers a check; it is given an empty folder, and may return a remark."""

    def register(function: Callable[[Path], str | None]) -> Callable[[Path], str | None]:
        CHECKS.append((name, function))
        return function

    return register


# --- networks -------------------------------------------------------------------------------------


def network() -> hou.Node:
    """An empty geometry network."""
    hou.hipFile.clear(suppress_save_prompt=True)
    hou.setFrame(1)
    return there(hou.node("/obj"), "/obj").createNode("geo", "verify")


def made(parent: hou.Node, kind: str, name: str) -> hou.SopNode:
    """A node of a geometry network."""
    kind = f"runnel::{kind}::1.0" if kind in NAMES else kind
    node = parent.createNode(kind, name)
    if not isinstance(node, hou.SopNode):
        raise Wrong(f"{kind} is no SOP")
    return node


def parm(node: hou.OpNode, name: str) -> hou.Parm:
    return there(node.parm(name), f"parameter {name} on {node.name()}")


def python_sop(parent: hou.Node, name: str, code: str) -> hou.SopNode:
    node = made(parent, "python", name)
    parm(node, "python").set(code)
    return node


def box(parent: hou.Node, name: str, low: Any, high: Any) -> hou.SopNode:
    node = made(parent, "box", name)
    place(node, low, high)
    return node


def place(node: hou.OpNode, low: Any, high: Any) -> None:
    """Put a box between two corners."""
    sides = list(zip(low, high, strict=True))
    put(node, size=tuple(float(b - a) for a, b in sides), t=tuple((a + b) / 2 for a, b in sides))


def shot(parent: hou.Node, **changes: Any) -> hou.SopNode:
    """A block of water in a tank."""
    solver = made(parent, "fluid_solver", "solver")
    solver.setInput(0, box(parent, "water", (0, 0, 0), (BLOCK,) * 3))
    solver.setInput(1, box(parent, "tank", (0, 0, 0), (0.8, 1, BLOCK)))
    put(solver, particlesep=SEPARATION, collidermode="inside", **changes)
    return solver


def put(node: hou.OpNode, **values: Any) -> None:
    for name, value in values.items():
        if isinstance(value, tuple):
            there(node.parmTuple(name), f"parameter {name}").set(value)
        else:
            parm(node, name).set(value)


def at(node: hou.SopNode, frame: float) -> hou.Geometry:
    """The geometry of a node at a frame, frozen."""
    hou.setFrame(frame)
    try:
        node.cook(force=False)
    except hou.OperationFailed as error:
        raise Wrong(f"frame {frame}: {error} {' '.join(node.errors())}") from error
    expect(not node.errors(), f"frame {frame}: {' '.join(node.errors())}")
    return there(node.geometry(), f"geometry at frame {frame}").freeze()


def column(geo: hou.Geometry, name: str, size: int = 1) -> Any:
    """A float attribute of the points."""
    data = np.frombuffer(geo.pointFloatAttribValuesAsString(name), np.float32)
    return data.reshape(-1, size) if size > 1 else data


def places(node: hou.SopNode, frame: float) -> Any:
    return column(at(node, frame), "P", 3)


# --- report ---------------------------------------------------------------------------------------


def run(only: str = "") -> list[Result]:
    results = []
    for name, function in CHECKS:
        if only not in name:
            continue
        started = time.perf_counter()
        with tempfile.TemporaryDirectory(prefix="runnel-verify-") as folder:
            try:
                outcome, text = "held", function(Path(folder)) or ""
            except Skip as skip:
                outcome, text = "skipped", str(skip)
            except Wrong as wrong:
                outcome, text = "WRONG", str(wrong)
            except Exception:  # a report must come out whatever happens
                outcome, text = "WRONG", traceback.format_exc()
        results.append(Result(name, outcome, time.perf_counter() - started, text))
        print(
            f"{outcome:<8} {name}" + (f"\n         {_indented(text)}" if text else ""), flush=True
        )
    return results


def _indented(text: str) -> str:
    return text.strip().replace("\n", "\n         ")
