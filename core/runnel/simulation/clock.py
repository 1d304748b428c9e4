"""Time: frames, and how a frame is divided evenly into steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..backends.base import Survey
from ..colliders import Solids
from ..forces import forces_at
from ..motion import frame_time
from ..scene import Scene
from ..sources import Emitter, PointEmitter

MOST_STEPS = 1000  # of a frame
STIFFEST = 1.5  # spacings that the push of pressure, or the fluid, may go in a given time_step
LAYERS = 24  # from so many on long waves of compression are taken on a grid (docs/decisions/0013)
LONE = 3.0  # times as far may go what few particles do: drops and spray, which crush nothing


class Clock:
    """Where a simulation stands: after `done` of `steps` steps since `frame`."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self.frame = scene.frames[0]
        self.done = 0
        self.steps = 0  # of the frame under way; 0: not chosen yet
        self.last_dt = 0.0  # of the last step [s]
        self.last_steps = 0  # of the frame begun last

    @property
    def dt(self) -> float:
        """Length of a step of the frame under way [s]."""
        return 1.0 / (self._scene.fps * self.steps)

    @property
    def time(self) -> float:
        """[s] since the first frame. From whole numbers: no rounding adds up."""
        return self._at(self.done)

    @property
    def step_end(self) -> float:
        """Time at the end of the coming step [s]."""
        return self._at(self.done + 1)

    def _at(self, done: int) -> float:
        return frame_time(self.frame + (done / self.steps if self.steps else 0.0), self._scene)

    def begin(self, steps: int) -> None:
        """Divide the coming frame: at once into more steps than the last, only slowly into fewer.

        Each change of the step's length gives a resting fluid a push.
        """
        self.done, self.steps = 0, max(steps, self.last_steps - max(1, self.last_steps // 8))
        self.last_steps = self.steps

    def refine(self) -> None:
        """Halve the steps that are left of the frame."""
        if 2 * self.steps <= MOST_STEPS:
            self.steps, self.done = 2 * self.steps, 2 * self.done

    def tick(self) -> bool:
        """A step is done; True if it completes a frame."""
        self.last_dt = self.dt
        self.done += 1
        if self.done < self.steps:
            return False
        self.frame += 1
        self.done = self.steps = 0
        return True

    def state(self) -> dict[str, Any]:
        return {
            name: getattr(self, name)
            for name in ("frame", "done", "steps", "last_dt", "last_steps")
        }

    def restore(self, state: dict[str, Any]) -> None:
        self.frame, self.done = int(state["frame"]), int(state["done"])
        self.steps, self.last_dt = int(state["steps"]), float(state["last_dt"])
        self.last_steps = int(state["last_steps"])


def steps_of_frame(
    scene: Scene,
    frame: int,
    now: Survey,
    solids: Solids,
    emitters: Sequence[Emitter | PointEmitter],
    pressure_speed: float = 0.0,
    pull: float = 0.0,
) -> int:
    """Steps from a frame to the next, given the state at its start; `pull` is the acceleration
    of velocity fields [m/s^2].

    "auto" keeps the way of the fluid in a step below `cfl` spacings, that of single drops below
    LONE times that. Below one, and below `cfl`, stay the way of solids, that of a stream out of its
    nozzle, for it then grows by a layer at most, and the push of the resting fluid's pressure,
    `pressure_speed` = sqrt(P/rho) [m/s] (its number is then below 1, see solver/acceleration.py).
    """
    length = 1.0 / scene.fps
    solver = scene.solver
    start = frame_time(frame, scene)
    fluid = max(now.bulk_speed, now.max_speed / LONE)
    gain = (_acceleration(scene, start, start + length) + pull) * length
    fastest = fluid + gain
    if not math.isfinite(fastest):
        fastest = 0.0  # the step will say which particle it is
    if solver.time_step != "auto":
        # Far above that number a step is not just inaccurate, it explodes; and what hits at more
        # than some spacings a step lands inside of what it hits. Divide such steps.
        quickest = max(fastest, pressure_speed)
        least = math.ceil(length * quickest / (STIFFEST * scene.smallest_spacing) - 1e-9)
        return min(MOST_STEPS, max(1, least, math.ceil(length / solver.time_step - 1e-9)))
    driven = max(
        pressure_speed,
        solids.speed(start, start + length),
        *(emitter.speed + gain for emitter in emitters),
        0.0,
    )
    longest = solver.max_time_step
    for limit, quick in ((solver.cfl, fastest), (min(solver.cfl, 1.0), driven)):
        if quick > 0:
            longest = min(longest, limit * scene.smallest_spacing / quick)
    return int(min(max(1, math.ceil(length / longest - 1e-9)), MOST_STEPS))


def hydrostatic_speed(scene: Scene, positions: NDArray[np.float32], volume: float) -> float:
    """sqrt(P/rho) [m/s] once fluid of `volume` [m^D], now at `positions` [m], has come to rest."""
    gravity = np.array(scene.solver.gravity, float)
    strength = float(np.linalg.norm(gravity))
    if not len(positions) or not strength:
        return 0.0
    # Column by column: numpy is slow along the first axis.
    size = np.array([np.ptp(positions[:, axis]) for axis in scene.axes]) + scene.smallest_spacing
    down = np.abs(gravity[list(scene.axes)]) / strength
    depth = min(float(size @ down), volume / float(np.prod(np.where(down > 0.7, 1.0, size))))
    densities = [fluid.density for fluid in scene.fluids]
    return math.sqrt(max(densities) / min(densities) * strength * depth)


def is_deep(scene: Scene, pressure_speed: float) -> bool:
    """Whether fluid that comes to rest will have LAYERS; without gravity never."""
    gravity = float(np.linalg.norm([scene.solver.gravity[axis] for axis in scene.axes]))
    return pressure_speed**2 >= LAYERS * scene.largest_spacing * gravity > 0


def _acceleration(scene: Scene, start: float, end: float) -> float:
    """What gravity and fields add at most [m/s^2] in a frame; some become stronger in it."""
    total = float(np.linalg.norm([scene.solver.gravity[axis] for axis in scene.axes]))
    changing = any(f.keyframes or f.kind == "points" for f in scene.forces)
    return total + max(_of_fields(scene, time) for time in ((start, end) if changing else (start,)))


def _of_fields(scene: Scene, time: float) -> float:
    total = 0.0
    for force in forces_at(scene, time):
        if force.kind in ("point", "vortex"):
            total += abs(force.strength)
        elif force.kind == "wind":
            total += abs(force.strength) * float(np.linalg.norm(force.velocity))
    return total
