"""Particles that are just leaving an emitter: they keep to their stream for the way of one h.

Behind the newest layer of a stream there is nothing. A layer that pressure throws back, however
little, stands in the way of the next, which is thrown back farther: with many steps per layer that
grows by a factor from layer to layer, until a wide stream bursts. In a real nozzle the fluid behind
carries the stream. Here the velocity of what is within h of the mouth is given, but for a hundredth
of it. Positions still yield to pressure: a nozzle in front of a wall presses no harder than it
moves in a step.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..scene import Scene
from ..sources import Emitter

Array = NDArray[Any]
Held = tuple[NDArray[np.uint32], NDArray[np.float32], float]  # arguments of Backend.hold

# Within this share of its speed a particle may differ from its stream: enough for the push that
# layers give each other on their way, which together have to come to nothing.
SLACK = 0.01
MOST_WORK = 0.25  # of gravity in a nozzle, as a share of v^2: at least 0.7 v is left at its end


class Nozzles:
    """Which particles are held, until when, at which velocity."""

    def __init__(self, scene: Scene) -> None:
        self._support = scene.solver.support
        self._gravity = np.array(scene.solver.gravity, np.float64)
        if scene.ignored_axis >= 0:
            self._gravity[scene.ignored_axis] = 0.0
        self._rows: dict[str, Array] = {
            "id": np.zeros(0, np.uint32),
            "until": np.zeros(0, np.float64),  # [s]
            "velocity": np.zeros((0, 3), np.float32),
            "pull": np.zeros((0, 3), np.float32),  # what gravity does in there [m/s^2]
        }

    def add(self, emitter: Emitter, ids: NDArray[np.uint32], births: Mapping[str, Array]) -> None:
        """Particles that an emitter has given, in the order of their ids."""
        way = self._support / 2 * emitter.spacing
        added = {
            "id": ids,
            "until": births["birth"].astype(np.float64) + way / emitter.speed,
            "velocity": births["velocity"],
            "pull": np.tile(self._pull(emitter.speed, way), (len(ids), 1)),
        }
        self._rows = {name: np.concatenate((a, added[name])) for name, a in self._rows.items()}

    def _pull(self, speed: float, way: float) -> NDArray[np.float32]:
        """Gravity in the nozzle: all of it on a fast stream, which flies as a stone would.

        A slow one would turn round, or fall far, on the way. The nozzle carries what is left.
        """
        strength = float(np.linalg.norm(self._gravity))
        share = 1.0 if strength == 0 else min(1.0, MOST_WORK * speed**2 / (strength * way))
        return (share * self._gravity).astype(np.float32)

    def step(self, start: float, dt: float) -> Held:
        """What is held in the step of length dt [s] from start [s]."""
        keep = self._rows["until"] > start
        if not keep.all():
            self._rows = {name: values[keep] for name, values in self._rows.items()}
        rows = self._rows
        rows["velocity"] = (rows["velocity"] + dt * rows["pull"]).astype(np.float32)
        return rows["id"], rows["velocity"], SLACK

    def state(self) -> dict[str, Array]:
        return {f"nozzle.{name}": values.copy() for name, values in self._rows.items()}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        self._rows = {name: np.array(arrays[f"nozzle.{name}"]) for name in self._rows}
