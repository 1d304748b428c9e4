"""Progress of a run on stderr: one line for people, plain lines for logs, JSON for machines."""

from __future__ import annotations

import json
import math
import shutil
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, TextIO

MODES = ("auto", "line", "plain", "json", "quiet")
_REMEMBERED = 12  # frames the time left is judged by
_SPACING = {"line": 0.1, "json": 0.25}  # seconds between updates within a frame


class Progress:
    """Tells how far a run is.

    Modes: "line" rewrites one line, "plain" writes a line per frame, "json" an object per line,
    "quiet" nothing; "auto" is "line" on a terminal and "plain" elsewhere. A stream that is gone
    (a closed pipe) silences the display, never the run.
    """

    def __init__(
        self,
        first: int,
        last: int,
        *,
        mode: str = "auto",
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if mode not in MODES:
            raise ValueError(f"mode is {mode!r}, allowed are {', '.join(MODES)}")
        self.first, self.last = first, last
        self._stream = sys.stderr if stream is None else stream
        terminal = bool(getattr(self._stream, "isatty", lambda: False)())
        self.mode = ("line" if terminal else "plain") if mode == "auto" else mode
        self._clock = clock
        self._started = clock()
        self.weights: Mapping[int, float] = {}  # how much work a frame is beside others
        # Time and work of the frames done, a little while back.
        self._marks = deque([(self._started, 0.0)], maxlen=_REMEMBERED + 1)
        self._done = 0
        self._work = 0.0
        self._shown = 0  # characters on the line
        self._refreshed = -math.inf
        self.listener: Callable[[str], None] | None = None  # gets every line, as a log does

    # ---- what happened

    def frame(
        self,
        frame: int,
        *,
        particles: int | None = None,
        ms_per_step: float | None = None,
        density_error: float | None = None,
        **more: Any,
    ) -> None:
        """A frame is finished; density_error is a share, `more` goes to machines only."""
        self._done += 1
        self._work += self.weights.get(frame, 1.0)
        self._marks.append((self._clock(), self._work))
        facts = {"particles": particles, "ms_per_step": ms_per_step, "density_error": density_error}
        self._show(frame, facts, more, complete=True)

    def within(
        self,
        frame: int,
        share: float,
        *,
        particles: int | None = None,
        ms_per_step: float | None = None,
        density_error: float | None = None,
    ) -> None:
        """The share 0..1 of a frame is done; for lines that are rewritten, and for machines."""
        now = self._clock()
        if self.mode not in _SPACING or now - self._refreshed < _SPACING[self.mode]:
            return
        self._refreshed = now
        facts = {"particles": particles, "ms_per_step": ms_per_step, "density_error": density_error}
        self._show(frame, facts, {}, complete=False, share=share)

    def stage(self, text: str) -> None:
        """What goes on before the first frame, for machines; people see it soon enough."""
        if self.mode == "json":
            self._write(json.dumps({"event": "stage", "text": text}) + "\n")

    def say(self, text: str) -> None:
        """A message of its own, above the line."""
        self._tell(text)
        if self.mode == "json":
            self._write(json.dumps({"event": "message", "text": text}) + "\n")
        elif self.mode != "quiet":
            self._clear()
            self._write(text + "\n")

    def close(self) -> None:
        """Leave the last line standing."""
        if self.mode == "line" and self._shown:
            self._write("\n")
            self._shown = 0

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # ---- how it is shown

    def seconds_left(self, share: float = 0.0) -> float | None:
        """Estimate from the last frames, and the work of those to come; None before the first is
        finished."""
        (then, before), (latest, work) = self._marks[0], self._marks[-1]
        if work <= before:
            return None
        coming = range(self.first + self._done, self.last + 1)
        left = sum(self.weights.get(frame, 1.0) for frame in coming)
        if coming:
            left -= share * self.weights.get(coming[0], 1.0)
        return (latest - then) / (work - before) * max(left, 0.0)

    def _show(
        self,
        frame: int,
        facts: dict[str, Any],
        more: dict[str, Any],
        *,
        complete: bool,
        share: float = 0.0,
    ) -> None:
        left = self.seconds_left(share)
        if complete:
            self._tell(self._sentence(frame, facts, left, bar=False))
        if self.mode == "json":
            event: dict[str, Any] = {
                "event": "frame" if complete else "step",
                "frame": frame,
                "last": self.last,
            }
            event |= {**facts, **more} if complete else {"share": share, **facts}
            event["seconds"] = round(self._clock() - self._started, 3)
            event["seconds_left"] = None if left is None else round(left, 1)
            self._write(json.dumps(event, default=float) + "\n")
        elif self.mode == "plain":
            self._write(self._sentence(frame, facts, left) + "\n")
        elif self.mode == "line":
            text = self._sentence(frame, facts, left, share)
            text = text[: max(shutil.get_terminal_size().columns - 1, 20)]
            self._write("\r" + text.ljust(self._shown))
            self._shown = len(text)
            if complete:
                self._refreshed = self._clock()

    def _sentence(
        self,
        frame: int,
        facts: dict[str, Any],
        left: float | None,
        share: float = 0.0,
        *,
        bar: bool = True,
    ) -> str:
        parts = [f"frame {frame}/{self.last}"]
        if bar and self.mode == "line":
            total = max(self.last - self.first + 1, 1)
            parts.insert(0, _bar((self._done + share) / total))
        if facts["particles"] is not None:
            parts.append(f"{facts['particles']:,} particles".replace(",", " "))
        if facts["ms_per_step"] is not None:
            parts.append(f"{facts['ms_per_step']:.1f} ms/step")
        if facts["density_error"] is not None:
            parts.append(f"density error {100 * facts['density_error']:.2f} %")
        if left is not None:
            finished = self._done >= self.last - self.first + 1
            elapsed = self._clock() - self._started
            parts.append(f"took {duration(elapsed)}" if finished else f"{duration(left)} left")
        return "  ".join(parts)

    def _tell(self, text: str) -> None:
        if self.listener is not None:
            self.listener(text)

    def _clear(self) -> None:
        if self.mode == "line" and self._shown:
            self._write("\r" + " " * self._shown + "\r")
            self._shown = 0

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            self.mode = "quiet"


def _bar(share: float, width: int = 18) -> str:
    full = round(min(max(share, 0.0), 1.0) * width)
    return "[" + "#" * full + "." * (width - full) + "]"


def duration(seconds: float) -> str:
    """In words: 42 s, 3 min 10 s, 2 h 05 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    if whole < 48 * 3600:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"
