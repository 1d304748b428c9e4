"""A pilot: the scene itself with few particles, run through in seconds before the real thing.

It finds what cannot be known from the scene alone: how much of what emitters give stays, how fast
the fluid gets, how many iterations it takes.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

from .backends.devices import DeviceInfo
from .errors import RunnelError
from .scene import Scene
from .simulation import Simulation

PARTICLES = 2500  # of a pilot, about
_FACTORS = (1.0, 0.8, 0.65, 0.5)  # tried in turn: nozzles need some particles across


@dataclass(frozen=True)
class Leg:
    """A frame of the pilot."""

    share: float  # of the particles that the scene has at most by its own account
    steps: float  # of the scene itself
    iterations: float
    work: float  # particles times steps of the pilot
    milliseconds: float


@dataclass(frozen=True)
class Pilot:
    """What a pilot saw."""

    legs: tuple[Leg, ...]
    steps: int
    particles: int  # at most

    @property
    def most(self) -> float:
        """Largest share of the particles that the scene would have at most."""
        return max(leg.share for leg in self.legs)


def fly(scene: Scene, device: str | DeviceInfo = "auto", particles: int = PARTICLES) -> Pilot:
    """Run a scene with about so many particles."""
    wanted = max(1.0, (scene.estimate_particles() / particles) ** (1 / scene.dimensions))
    for part in _FACTORS:
        factor = max(1.0, part * wanted)
        try:
            return _flight(_coarse(scene, factor), scene, factor, device)
        except RunnelError:
            if factor == 1.0 or part == _FACTORS[-1]:
                raise
    raise AssertionError("unreachable")


def _coarse(scene: Scene, factor: float) -> Scene:
    sources = tuple(dataclasses.replace(s, spacing=s.spacing * factor) for s in scene.sources)
    return dataclasses.replace(scene, sources=sources)


def _flight(coarse: Scene, scene: Scene, factor: float, device: str | DeviceInfo) -> Pilot:
    legs = []
    expected, steps, most = coarse.estimate_particles(), 0, 0
    with Simulation(coarse, device) as sim:
        first, last = scene.frames
        legs.append(Leg(sim.particles.count / expected, 0.0, 0.0, 0.0, 0.0))
        for frame in range(first + 1, last + 1):
            report = sim.advance(frame)
            spent = sum(report.milliseconds.values())
            share = report.particles / expected
            work = report.particles * report.steps
            own = _own_steps(scene, report.steps, report.max_speed, factor)
            legs.append(Leg(share, own, report.iterations, work, spent))
            steps, most = steps + report.steps, max(most, report.particles)
    return Pilot(tuple(legs), steps, most)


def _own_steps(scene: Scene, steps: int, speed: float, factor: float) -> float:
    """Steps that the scene itself will take for a frame that took the pilot so many."""
    solver, length = scene.solver, 1.0 / scene.fps
    if solver.time_step != "auto":
        return max(float(steps), length / solver.time_step)
    least = math.ceil(length / solver.max_time_step - 1e-9)
    if steps > least:
        return steps * factor
    # The longest step allowed was short enough for the pilot: go by the speed it saw.
    return max(least, length * speed / (solver.cfl * scene.smallest_spacing))
