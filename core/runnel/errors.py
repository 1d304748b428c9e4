"""Everything Runnel raises on purpose, one tree.

    RunnelError              exit status 1: the work failed
    |-- SceneError           exit status 2: the input is wrong (scene file, key, value)
    |   `-- MeshError        exit status 2: a mesh file is wrong
    |-- DeviceError          no usable device, or a device failed
    |-- SimulationError      the state went bad (NaN) or a limit was hit
    `-- CacheError           a cache on disk is missing, damaged or of another scene

A message says what, where and what to do. Imports nothing of ours.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any, ClassVar


class _Unknown:
    """Stands for a value that is not known; None is a value a scene may hold."""

    def __repr__(self) -> str:
        return "unknown"

    def __reduce__(self) -> str:
        return "UNKNOWN"  # stays the one object when an error crosses a process


UNKNOWN = _Unknown()

_SHOWN = 60  # characters of a value that a message shows


class RunnelError(Exception):
    """Something Runnel could not do. `exit_status` is the command line's."""

    exit_status: ClassVar[int] = 1


class SceneError(RunnelError):
    """The input is wrong.

    `file` and `key` (such as `source[0].spacing`) say where, `value` what stands there; each is
    shown in front of the message where known.
    """

    exit_status: ClassVar[int] = 2

    def __init__(
        self,
        message: str,
        *,
        file: object = None,
        key: str | None = None,
        value: Any = UNKNOWN,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.file = None if file is None else str(file)
        self.key = key or None
        self.value = value

    def __str__(self) -> str:
        place = self.key or ""
        if place and self.value is not UNKNOWN:
            place += f" = {show(self.value)}"
        return ": ".join(part for part in (self.file, place, self.message) if part)

    def in_file(self, file: object) -> SceneError:
        """The same error, naming the file unless it names one already."""
        if self.file is None:
            self.file = str(file)
        return self


class MeshError(SceneError):
    """A mesh file cannot be used."""


class DeviceError(RunnelError):
    """No device fits, or a device failed."""


class SimulationError(RunnelError):
    """The simulation cannot go on. `frame` and `particle` (id) say where, if known."""

    def __init__(
        self, message: str, *, frame: int | None = None, particle: int | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.frame = frame
        self.particle = particle

    def __str__(self) -> str:
        frame = "" if self.frame is None else f"frame {self.frame}"
        particle = "" if self.particle is None else f"particle {self.particle}"
        place = ", ".join(part for part in (frame, particle) if part)
        return f"{place}: {self.message}" if place else self.message


class CacheError(RunnelError):
    """A cache on disk cannot be used."""


def show(value: Any) -> str:
    """A value as the scene file would write it, cut to one short line."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=repr)
    except (TypeError, ValueError, RecursionError):
        text = object.__repr__(value)
    text = " ".join(text.split())
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def nearest(key: str, known: Iterable[str]) -> str:
    """A question that names the known word next to a mistyped one, or nothing."""
    close = get_close_matches(key, list(known), 1)
    return f" Did you mean {close[0]}?" if close else ""
