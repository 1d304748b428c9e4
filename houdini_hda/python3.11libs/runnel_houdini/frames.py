"""Frames and checkpoints in memory, within a limit."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
State = tuple[dict[str, Array], dict[str, Any]]


@dataclass(frozen=True, eq=False)
class Solid:
    """A body that the fluid moves, in the world."""

    name: str
    vertices: NDArray[np.float32]
    triangles: NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Frame:
    """What a frame shows, by core's names of channels."""

    number: int
    channels: dict[str, Array]
    report: dict[str, Any]
    bodies: tuple[Solid, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def bytes(self) -> int:
        held = [*self.channels.values()]
        held += [a for body in self.bodies for a in (body.vertices, body.triangles)]
        return sum(array.nbytes for array in held)


@dataclass
class Memory:
    """Frames, the one that was not asked for longest dropped first; checkpoints thinned out.

    Both together stay below `limit` [bytes]; the frame and the checkpoint kept last stay anyhow.
    """

    limit: int
    _frames: OrderedDict[int, Frame] = field(default_factory=OrderedDict)
    _states: dict[int, State] = field(default_factory=dict)

    @property
    def frames(self) -> list[int]:
        return sorted(self._frames)

    @property
    def checkpoints(self) -> list[int]:
        return sorted(self._states)

    @property
    def bytes(self) -> int:
        return sum(f.bytes for f in self._frames.values()) + self._state_bytes

    @property
    def _state_bytes(self) -> int:
        return sum(_size(state) for state in self._states.values())

    def get(self, number: int, channels: Iterable[str]) -> Frame | None:
        """A frame, if it is there with these channels."""
        frame = self._frames.get(number)
        if frame is None or not set(channels) <= frame.channels.keys():
            return None
        self._frames.move_to_end(number)
        return frame

    def keep(self, frame: Frame) -> None:
        self._frames[frame.number] = frame
        self._frames.move_to_end(frame.number)
        self.trim()

    def keep_state(self, number: int, state: State) -> None:
        self._states[number] = state
        self.trim(newest=number)

    def state_before(self, number: int) -> tuple[int, State] | None:
        """The latest checkpoint ahead of a frame."""
        earlier = [k for k in self._states if k < number]
        return (max(earlier), self._states[max(earlier)]) if earlier else None

    def trim(self, newest: int | None = None) -> None:
        """Drop what is too much."""
        while self._state_bytes > self.limit / 2 and len(self._states) > 1:
            del self._states[self._spare(newest)]
        while self.bytes > self.limit and len(self._frames) > 1:
            self._frames.popitem(last=False)
        if self.bytes > self.limit and self._states:
            self._states.clear()

    def _spare(self, newest: int | None) -> int:
        """The checkpoint that leaves the smallest gap: its neighbours are nearest."""
        order = sorted(self._states)
        gaps = {
            order[k]: order[k + 1] - (order[k - 1] if k else order[0])
            for k in range(len(order) - 1)
            if order[k] != newest
        }
        return min(gaps, key=lambda k: (gaps[k], k)) if gaps else order[0]

    def clear(self) -> None:
        self._frames.clear()
        self._states.clear()


def _size(state: State) -> int:
    return sum(array.nbytes for array in state[0].values())
