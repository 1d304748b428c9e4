"""Functions of the module: time, the node that cooks, Esc."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from . import world
from .enums import EnumValue, severityType
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
    return world.NOW.window


def applicationVersion(include_patch: bool = False) -> tuple[int, int, int]:
    return (20, 5, 278)


def sopNodeTypeCategory() -> OpNodeTypeCategory:
    from .nodes import OpNodeTypeCategory

    return OpNodeTypeCategory()


class hipFile:
    """What is told of the scene's file; tests tell it."""

    @staticmethod
    def addEventCallback(callback: Callable[[EnumValue], None]) -> None:
        world.NOW.hip_callbacks.append(callback)

    @staticmethod
    def eventCallbacks() -> tuple[Callable[[EnumValue], None], ...]:
        return tuple(world.NOW.hip_callbacks)

    @staticmethod
    def _tell(*events: EnumValue) -> None:
        for event in events:
            for callback in world.NOW.hip_callbacks:
                callback(event)


class text:
    @staticmethod
    def expandString(str: str, expand_tilde: bool = True) -> str:
        return world.expand(str)


class ui:
    """The window, if there is one: what it was told."""

    @staticmethod
    def setStatusMessage(message: str, severity: EnumValue = severityType.Message) -> None:
        world.NOW.told.append(message)

    @staticmethod
    def displayMessage(
        text: str,
        buttons: Sequence[str] = ("OK",),
        severity: EnumValue = severityType.Message,
        default_choice: int = 0,
        close_choice: int = -1,
        help: str | None = None,
        title: str | None = None,
        details: str | None = None,
        details_label: str | None = None,
        details_expanded: bool = False,
        suppress: EnumValue | None = None,
    ) -> int:
        world.NOW.told.append(text)
        return 0

    @staticmethod
    def copyTextToClipboard(text: str) -> None:
        world.NOW.clipboard = text


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
