"""Progress of a run, on stderr: a line that renews itself, or one per frame in a log."""

from __future__ import annotations

import sys
import time

from ..simulation import Simulation
from .console import duration_text


class Progress:
    """Particles, ms per step, density error and time left, after each frame."""

    def __init__(self, sim: Simulation, last: int, *, quiet: bool) -> None:
        self._sim = sim
        self._first = sim.frame
        self._last = last
        self._quiet = quiet
        self._terminal = sys.stderr.isatty()
        self._started = time.perf_counter()
        self._width = 0

    def frame_done(self) -> None:
        if self._quiet:
            return
        text = self._text()
        if self._terminal:
            sys.stderr.write("\r" + text.ljust(self._width))
            self._width = len(text)
        else:
            sys.stderr.write(text + "\n")
        sys.stderr.flush()

    def end(self) -> None:
        if self._terminal and self._width:
            sys.stderr.write("\n")

    def _text(self) -> str:
        report, frame = self._sim.report, self._sim.frame
        done = frame - self._first
        left = (time.perf_counter() - self._started) / done * (self._last - frame)
        return (
            f"frame {frame}/{self._last}  {report.particles} particles  "
            f"{report.steps} x {report.ms_per_step:.1f} ms  {report.iterations:.1f} iterations  "
            f"density error {100 * report.density_error_avg:.2f} % "
            f"(max {100 * report.density_error_max:.1f} %)  {duration_text(left)} left"
        )
