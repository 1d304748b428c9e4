"""Writing while the simulation goes on: compressing and waiting for the disk cost a run nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor


class Background:
    """Does one task at a time in a thread; a second one waits for the first.

    Memory holds what one task needs, never a queue. What a task raises is raised by the next call.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="runnel-write")
        self._task: Future[float] | None = None
        self._done: Callable[[float], None] = lambda seconds: None

    def start(self, task: Callable[[], object], done: Callable[[float], None]) -> None:
        """Begin a task; `done` is told its seconds, by the caller's thread, once it is over."""
        self.finish()
        self._task, self._done = self._pool.submit(_timed, task), done

    def look(self) -> None:
        """Tell of a task that is over; does not wait."""
        if self._task is not None and self._task.done():
            self.finish()

    def finish(self) -> None:
        """Wait for what is under way."""
        task, self._task = self._task, None
        if task is not None:
            self._done(task.result())

    def close(self) -> None:
        """Wait, and end the thread."""
        try:
            self.finish()
        finally:
            self._pool.shutdown()


def _timed(task: Callable[[], object]) -> float:
    started = time.perf_counter()
    task()
    return time.perf_counter() - started
