"""run.log in the cache's folder: what happened in a run nobody watched, line by line."""

from __future__ import annotations

import platform
import shlex
import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from .. import __version__
from ..backends.devices import DeviceInfo
from ..errors import RunnelError
from ..progress import Progress
from ..scene import Scene
from ..simulation import Simulation
from .console import size_text

LOG_NAME = "run.log"
_ENDS = {0: "done", 130: "interrupted"}


class RunLog:
    """Appends to the log, line by line, so that it is there after a power cut too.

    What cannot be logged (a full disk) never stops a run.
    """

    def __init__(self, path: Path, progress: Progress) -> None:
        self.path = path
        self._progress = progress
        self._started = time.monotonic()

    def write(self, text: str) -> None:
        stamp = time.strftime("%Y-%m-%d %H:%M:%S")
        lines = "".join(f"{stamp}  {line}\n" for line in text.splitlines())
        with suppress(OSError), open(self.path, "a", encoding="utf-8") as file:
            file.write(lines)

    def begin(
        self, arguments: Sequence[str], scene: Scene, sim: Simulation, info: DeviceInfo
    ) -> None:
        self.write(f"runnel {' '.join(map(shlex.quote, arguments))}")
        self.write(f"Runnel {__version__}, Python {platform.python_version()}, {info}")
        self.write(f"scene {scene.name!r}, digest {scene.digest()}")
        used = size_text(sum(sim.bytes.values()))
        self.write(f"{sim.particles.count} particles at the start, {used}")

    def end(self, status: int) -> int:
        self.write(f"{_ends(status)} after {time.monotonic() - self._started:.1f} s")
        return status

    def __enter__(self) -> RunLog:
        self._progress.listener = self.write
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.listener = None
        if isinstance(error, RunnelError):
            self.write(f"failed: {error}")
        elif error is not None:
            self.write("".join(traceback.format_exception(error)))


def _ends(status: int) -> str:
    return _ENDS.get(status, f"failed with status {status}")
