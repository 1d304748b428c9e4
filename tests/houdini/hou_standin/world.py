"""What Houdini does around the module: the clock, variables, Esc. For tests only."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Now:
    frame: float = 1.0
    fps: float = 24.0
    cooking: list[Any] = field(default_factory=list)  # nodes, the innermost last
    variables: dict[str, str] = field(default_factory=dict)  # $HIP, $OS, ...
    esc: int | None = None  # updates of progress until the user presses Esc
    operations: list[str] = field(default_factory=list)  # that are open
    progress: list[float] = field(default_factory=list)  # all that was shown
    next_id: int = 1  # of nodes
    hip_callbacks: list[Any] = field(default_factory=list)  # of hou.hipFile
    data_id: int = 0  # given last
    window: bool = False  # or hython
    told: list[str] = field(default_factory=list)  # in the window
    clipboard: str = ""


NOW = Now()


def restart() -> None:
    """As if Houdini had just been started."""
    NOW.__init__()  # type: ignore[misc]


@contextmanager
def at_frame(frame: float) -> Iterator[None]:
    """The clock stands elsewhere for a moment."""
    kept, NOW.frame = NOW.frame, frame
    try:
        yield
    finally:
        NOW.frame = kept


def new_data_id() -> int:
    NOW.data_id += 1
    return NOW.data_id


def expand(text: str) -> str:
    """$F, $F4, $FF, $HIP and other variables of a text."""

    def value(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        if number := re.fullmatch(r"F(\d?)", name):
            return f"{round(NOW.frame):0{number[1] or 1}d}"
        if name == "FF":
            return f"{NOW.frame:g}"
        return NOW.variables.get(name, os.environ.get(name, ""))

    return re.sub(r"\$(?:(\w+)|\{(\w+)\})", value, text)
