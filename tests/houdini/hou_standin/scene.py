"""Functions of the module: time, the node that cooks, Esc."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import world
from .errors import OperationInterrupted

if TYPE_CHECKING:
    from .nodes import Node, OpNodeTypeCategory


def pwd() -> Node:
    return world.NOW.cooking[-1]


def frame(full_precision: bool = False) -> float:
    return world.NOW.frame if full_precision else round(world.NOW.frame, 6)


def intFrame() -> int:
    return round(world.NOW.frame)


def time() -> float:
    return (world.NOW.frame - 1) / world.NOW.fps


def fps() -> float:
    return world.NOW.fps


def isUIAvailable() -> bool:
    return False


def applicationVersion(include_patch: bool = False) -> tuple[int, int, int]:
    return (20, 5, 278)


def sopNodeTypeCategory() -> OpNodeTypeCategory:
    from .nodes import OpNodeTypeCategory

    return OpNodeTypeCategory()


class text:
    @staticmethod
    def expandString(str: str, expand_tilde: bool = True) -> str:
        return world.expand(str)


class InterruptableOperation:
    """Raises where the user pressed Esc: `world.NOW.esc` counts updates down to that."""

    def __init__(
        self,
        operation_name: str,
        long_operation_name: str | None = None,
        open_interrupt_dialog: bool = False,
        timeout_ms: int = 0,
    ) -> None:
        self._name = operation_name
        self._entered = False

    def __enter__(self) -> InterruptableOperation:
        self._entered = True
        world.NOW.operations.append(self._name)
        return self

    def __exit__(self, type, value, traceback) -> None:
        self._entered = False
        world.NOW.operations.pop()

    def updateProgress(self, percentage: float = -1.0) -> None:
        self._check(percentage)

    def updateLongProgress(
        self, percentage: float = -1.0, long_op_status: str | None = None
    ) -> None:
        self._check(percentage)

    def _check(self, percentage: float) -> None:
        assert self._entered, "progress outside of `with`"
        assert percentage == -1.0 or 0.0 <= percentage <= 1.0, percentage
        world.NOW.progress.append(percentage)
        if world.NOW.esc is not None:
            world.NOW.esc -= 1
            if world.NOW.esc < 0:
                world.NOW.esc = None
                raise OperationInterrupted("Operation interrupted")
