"""A pilot: the scene itself with few particles, run through in seconds before the real thing.

It finds what cannot be known from the scene alone: how much of what emitters give stays, how fast
the fluid gets, how far it is compressed. Steps of the scene itself follow from the speeds, by the
very rule that the clock has; iterations from the compression, by the law of a resting column and
the rule by which steps plan them.

The pilot is similar to the scene: its steps are longer as its spacing is, so that the way of the
fluid in a step, in spacings, is the same.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .backends.devices import DeviceInfo
from .colliders import Solids
from .errors import RunnelError
from .params import Box, Source
from .scene import Scene
from .shapes import lattice_row
from .simulation import Report, Simulation
from .simulation.clock import hydrostatic_speed, steps_of_frame
from .simulation.setup import deformables_of
from .solver.acceleration import PATIENCE, WELL_BELOW, condition
from .sources import emitters

FEWEST, MOST = 1500, 4000  # particles of a pilot, about; a third of the scene's between them
SECONDS = 12.0  # longest flight; what is left of the shot then goes on as it was
_FACTORS = (1.0, 0.8, 0.65, 0.5)  # tried in turn: nozzles need some particles across
_NEARBY = 0.85, 1.25, 81  # of a factor: from, to, how many are looked at for lattices that fit
_TOO_FULL = 4.0  # times as bad as too empty: a closed vessel would burst
_AWAY = 0.02  # of a volume: as bad as a factor twice the wanted one
_REFINED = 1.5  # wanted steps beside those under way at which the clock halves them
_ITERATED = ("pressure", "correction")  # stages
STRIKES = 3  # turns that bodies have in a step besides those of iterations
PROBE_PARTICLES, PROBE_SECONDS, PROBE_FRAMES = 60_000, 4.0, 10


@dataclass(frozen=True)
class Leg:
    """A frame of the pilot."""

    share: float  # of the particles that the scene has at most by its own account
    steps: float  # of the scene itself
    iterations: float  # of the scene itself, in a step
    flown: Lap  # what the pilot did
    pressure: float = 0.0  # at the foot of the fluid, as a speed [m/s]


@dataclass(frozen=True)
class Lap:
    """Work that was timed."""

    steps: int = 0
    particles: int = 0
    iterations: float = 0.0
    once: float = 0.0  # milliseconds in stages that a step has once: neighbours, velocities
    repeated: float = 0.0  # in those that every iteration has
    besides: float = 0.0  # around them, whatever the particles: births, wet maps, books
    bodies: float = 0.0  # in exchanges with bodies that the fluid moves: one in every iteration
    listed: float = 0.0  # entries of a list of neighbours, mean at the end; 0: not known
    kept: float = 0.0  # books and files of a frame, which are not part of the above
    excess: float = 0.0  # compression beside that of the law; 0: which says nothing about it

    @property
    def turns(self) -> float:
        """Exchanges with bodies."""
        return self.steps * (self.iterations + STRIKES)


@dataclass(frozen=True)
class Pilot:
    """What a pilot saw."""

    legs: tuple[Leg, ...]
    steps: int
    particles: int  # at most
    finer: float = 1.0  # voxels of the scene's own deformable bodies beside those of the pilot's

    @property
    def most(self) -> float:
        """Largest share of the particles that the scene would have at most."""
        return max(leg.share for leg in self.legs)


def fly(
    scene: Scene,
    device: str | DeviceInfo = "auto",
    particles: int | None = None,
    seconds: float = SECONDS,
) -> Pilot:
    """Run a scene with about so many particles, for so long at most."""
    expected = scene.estimate_particles()
    aim = min(max(expected / 3, FEWEST), MOST) if particles is None else particles
    wanted = max(1.0, (expected / aim) ** (1 / scene.dimensions))
    for part in _FACTORS:
        factor = fitting(scene, max(1.0, part * wanted))
        try:
            return _Flight(scene, factor, device).run(seconds)
        except RunnelError:
            if factor == 1.0 or part == _FACTORS[-1]:
                raise
    raise AssertionError("unreachable")


def fitting(scene: Scene, factor: float) -> float:
    """The factor next to one at which coarser volumes are as full as those of the scene itself.

    12.6 spacings take 13 particles: a tenth more fluid than there is room for, in 3D. Such a pilot
    starts under pressure, and needs iterations that the scene does not.
    """
    volumes = [s for s in scene.sources if s.kind == "volume" and isinstance(s.shape, Box)]
    if factor == 1.0 or not volumes:
        return factor

    def misfit(times: float) -> float:
        """By how much the worst volume is too full or too empty."""
        changes = [
            math.prod(_filled(s, axis, times) / _filled(s, axis, 1.0) for axis in scene.axes) - 1
            for s in volumes
        ]
        worst = max(max(_TOO_FULL * change, -change) for change in changes)
        return worst + _AWAY * abs(times / factor - 1)

    tried = [factor * float(times) for times in np.linspace(*_NEARBY)]
    for s in volumes:  # those at which a side is a whole number of spacings
        for axis in scene.axes:
            rows = _rows_along(s, axis)
            counts = range(math.ceil(rows / tried[-1]), int(rows / tried[0]) + 1)
            tried += [rows / count for count in counts if count]
    return min((times for times in tried if times >= 1.0), key=misfit)


def _rows_along(source: Source, axis: int) -> float:
    """Spacings that fit into a box's side."""
    shape = source.shape
    assert isinstance(shape, Box)
    return (shape.max[axis] - shape.min[axis]) * source.scale / source.spacing


def _filled(source: Source, axis: int, times: float) -> float:
    """Share of a box's side that a row of particles takes, of `times` the spacing."""
    rows = _rows_along(source, axis) / times
    return lattice_row(0.0, rows, 1.0) / rows


def probe(
    scene: Scene,
    device: str | DeviceInfo = "auto",
    keep: Callable[[Simulation], float] | None = None,
) -> list[Lap]:
    """The first frames of a scene as it is (of a large one with fewer particles), timed.

    keep: writes a frame as a run does, and tells how long that takes [ms].
    """
    factor = max(1.0, scene.estimate_particles() / PROBE_PARTICLES) ** (1 / scene.dimensions)
    laps: list[Lap] = []
    with Simulation(_coarse(scene, factor), device) as sim:
        start = scene.frames[0] + 1
        sim.advance(start)  # programs are built, pages touched
        started = time.perf_counter()
        while len(laps) < PROBE_FRAMES and time.perf_counter() - started < PROBE_SECONDS:
            lap = _lap(sim, start + 1 + len(laps), _pressure(scene, sim))
            laps.append(lap if keep is None else dataclasses.replace(lap, kept=keep(sim)))
    return laps


def _pressure(scene: Scene, sim: Simulation) -> float:
    volume = float(sim.particles.store["volume"].sum(dtype=np.float64))
    return hydrostatic_speed(scene, sim.particles["position"], volume)


def _lap(sim: Simulation, frame: int, pressure: float) -> Lap:
    started = time.perf_counter()
    report = sim.advance(frame)
    wall = 1e3 * (time.perf_counter() - started)
    once, repeated = divided(report.milliseconds)
    bodies = report.milliseconds.get("bodies", 0.0)
    return Lap(
        steps=report.steps,
        particles=report.particles,
        iterations=report.iterations,
        once=once,
        repeated=repeated,
        besides=max(wall - once - repeated - bodies, 0.0),
        bodies=bodies,
        listed=sim.neighbours_listed,
        excess=_excess(sim.scene, report, pressure),
    )


def _excess(scene: Scene, report: Report, pressure: float) -> float:
    """The law need not be right about the compression, only about how that changes with spacing,
    steps and iterations: by how much it is wrong."""
    column = _column(scene, pressure, report.steps)
    expected = column.compression(max(1, round(report.iterations))) if column else 0.0
    return report.density_error_avg / expected if expected > 0 else 0.0


def _column(scene: Scene, pressure: float, steps: float) -> Column | None:
    gravity = float(np.linalg.norm([scene.solver.gravity[axis] for axis in scene.axes]))
    if not pressure or not gravity or not steps:
        return None
    return Column(pressure, gravity, scene.smallest_spacing, 1.0 / (scene.fps * steps))


def divided(stages: Mapping[str, float]) -> tuple[float, float]:
    """Milliseconds of stages on the device that a step has once, and in every iteration."""
    repeated = sum(stages.get(name, 0.0) for name in _ITERATED)
    return sum(stages.values()) - repeated - stages.get("bodies", 0.0), repeated


def _coarse(scene: Scene, factor: float) -> Scene:
    sources = tuple(dataclasses.replace(s, spacing=s.spacing * factor) for s in scene.sources)
    solver = scene.solver
    step = solver.time_step if solver.time_step == "auto" else solver.time_step * factor
    longest = solver.max_time_step * factor
    solver = dataclasses.replace(solver, time_step=step, max_time_step=longest)
    return dataclasses.replace(scene, sources=sources, solver=solver)


class _Flight:
    def __init__(self, scene: Scene, factor: float, device: str | DeviceInfo) -> None:
        self.scene, self.factor, self.device = scene, factor, device
        self.coarse = _coarse(scene, factor)
        self.expected = self.coarse.estimate_particles()
        self.solids, self.emitters = Solids(scene), emitters(scene)
        self.last_steps = 0

    def run(self, seconds: float) -> Pilot:
        first, last = self.scene.frames
        with Simulation(self.coarse, self.device) as sim:
            legs = [Leg(sim.particles.count / self.expected, 0.0, 0.0, Lap())]
            finer = self._finer(sim)
            for frame in range(first, last):
                legs.append(self._leg(sim, frame))
                if frame == first:  # programs are built: on a new machine that takes longer
                    started = time.perf_counter()
                if time.perf_counter() - started > seconds and frame > first + 2:
                    break
        flown = tuple(legs)
        late = dataclasses.replace(
            flown[-1], flown=dataclasses.replace(flown[-1].flown, steps=0, particles=0)
        )
        legs += [late] * (last - first + 1 - len(legs))
        pilot = Pilot(
            tuple(legs),
            sum(leg.flown.steps for leg in flown),
            max(leg.flown.particles for leg in flown),
            finer,
        )
        return planned(self.scene, pilot)

    def _finer(self, sim: Simulation) -> float:
        if sim.deformables is None:
            return 1.0
        own = deformables_of(self.scene, self.solids, None)
        assert own is not None
        fine, coarse = (
            sum(body.skin.field.leaves for body in bodies.bodies)
            for bodies in (own, sim.deformables)
        )
        return fine / coarse

    def _leg(self, sim: Simulation, frame: int) -> Leg:
        """The way from a frame to the next."""
        pressure = _pressure(self.scene, sim)
        steps = max(
            self._wanted(sim, frame, pressure), self.last_steps - max(1, self.last_steps // 8)
        )
        self.last_steps = steps
        lap, taken = _lap(sim, frame + 1, pressure), float(steps)
        if (
            self.scene.solver.time_step == "auto"
            and self._wanted(sim, frame, pressure) > _REFINED * steps
        ):
            taken, self.last_steps = 1.5 * steps, 2 * steps  # halved about the middle of the frame
        if self.factor == 1.0:  # it is the scene itself: no law is needed
            lap = dataclasses.replace(lap, excess=0.0)
        share = lap.particles / self.expected
        return Leg(share, taken, lap.iterations, lap, pressure)

    def _wanted(self, sim: Simulation, frame: int, pressure: float) -> int:
        """Steps that the clock of the scene itself would take, seeing what the pilot sees."""
        return steps_of_frame(
            self.scene, frame, sim.survey, self.solids, self.emitters, pressure, sim.pull
        )


def planned(scene: Scene, pilot: Pilot, probed: Sequence[Lap] = ()) -> Pilot:
    """With the iterations of the scene itself: those of a probe, and then as steps plan them.

    A plan rises at once to what the tolerance needs, and falls slowly where less than half of it
    is used (solver/acceleration.py). So it depends on where it was, which the probe tells.
    """
    least, most = scene.solver.iterations
    if least == most:
        return _with_iterations(pilot, [float(least)] * len(pilot.legs))
    right, plan, found = _correction(pilot, probed, least), 0.0, [0.0]
    for number, leg in enumerate(pilot.legs[1:], 1 - _PROBED_FROM):
        if 0 <= number < len(probed):
            plan = probed[number].iterations
        else:
            plan = _next_plan(scene, leg, right, plan)
        found.append(plan)
    return _with_iterations(pilot, found)


def _with_iterations(pilot: Pilot, found: Sequence[float]) -> Pilot:
    legs = [
        dataclasses.replace(leg, iterations=float(iterations))
        for leg, iterations in zip(pilot.legs, found, strict=True)
    ]
    return dataclasses.replace(pilot, legs=tuple(legs))


def _next_plan(scene: Scene, leg: Leg, right: float, plan: float) -> float:
    """Iterations in a frame after one in which they were `plan`."""
    least, most = scene.solver.iterations
    column = _column(scene, leg.pressure, leg.steps)
    if column is None or not leg.flown.excess:
        return float(np.clip(leg.flown.iterations or plan, least, most))

    def needed(bound: float) -> float:
        count = least
        while count < most and right * leg.flown.excess * column.compression(count) > bound:
            count += 1
        return float(count)

    tolerance = scene.solver.tolerance
    calm = max(needed(WELL_BELOW * tolerance), plan - leg.steps / PATIENCE)
    return max(needed(tolerance), min(plan, calm))


def _correction(pilot: Pilot, probed: Sequence[Lap], least: int) -> float:
    """By how much the law takes the scene's compression wrongly from the pilot's: half of what the
    last frames of the probe say, since they are the start of the shot only. Frames that need no
    more than the least iterations, as in the air, do not count."""
    flown = [leg.flown for leg in pilot.legs[_PROBED_FROM:]]
    ratios = [
        real.excess / lap.excess
        for real, lap in zip(probed, flown, strict=False)
        if real.excess and lap.excess and max(real.iterations, lap.iterations) > least
    ]
    return math.sqrt(np.clip(np.median(ratios[-_TELLING:]), 0.25, 4.0)) if ratios else 1.0


_PROBED_FROM = 2  # number of the leg that is the first to be probed
_TELLING = 5  # frames
_EIGENVALUE = 0.5  # of a wave of one radian a spacing, beside the largest; from resting tanks
_WAVES = 3


@dataclass(frozen=True)
class Column:
    """A column of fluid at rest, and what a step leaves of its compression (decision 0010)."""

    pressure_speed: float  # sqrt(P/rho) at its foot [m/s]
    gravity: float  # [m/s^2]
    spacing: float  # [m]
    step: float  # [s]

    def compression(self, iterations: int) -> float:
        """Steady f r/(1 - r), summed over the longest waves that fit between floor and surface."""
        depth = self.pressure_speed**2 / self.gravity
        number = (self.pressure_speed * self.step / self.spacing) ** 2
        ends = condition(iterations, number)
        total = 0.0
        for odd in range(1, 2 * _WAVES, 2):
            wave = min(1.0, _EIGENVALUE * (odd * math.pi / 2 * self.spacing / depth) ** 2)
            left = max(0.0, _left(iterations, wave, ends))
            load = self.gravity * self.step**2 / depth * 8 / (math.pi * odd) ** 2
            total += load * left / max(1.0 - left, 1e-9)
        return total


def _left(iterations: int, eigenvalue: float, ends: float) -> float:
    """What Chebyshev's weights over 1/ends .. 1 leave of a wave."""

    def chebyshev(x: float) -> float:
        if x >= 1:
            return math.cosh(iterations * math.acosh(x))
        return math.cos(iterations * math.acos(max(x, -1.0)))

    centre, half = (1 + 1 / ends) / 2, (1 - 1 / ends) / 2
    return chebyshev((centre - eigenvalue) / half) / chebyshev(centre / half)
