"""One time step: position-based fluids, algorithm 1 of P001, multiphase (P004)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..backends.base import (
    FEW,
    Array,
    Backend,
    Current,
    Survey,
)
from .acceleration import Plan, cycles, weights
from .coupling import Bodies, Coupling, Deformables
from .model import Model

if TYPE_CHECKING:
    from ..fields.grid import SparseField
    from .coarse import CoarseLevel

NO_PLAN = Plan()
# Iterations with long waves beyond those that even pressure needs: with fewer, tanks of some depths
# buckle at the floor now and then (docs/decisions/0013).
SPARE = 3

STAGES = (
    "bodies",
    "predict",
    "neighbors",
    "pressure",
    "long waves",
    "correction",
    "velocities",
    "viscosity",
    "vorticity",
    "remove",
)


@dataclass(frozen=True)
class Fields:
    """What acts on the fluid during a step; tables as in backends/base.py."""

    gravity: Array  # [m/s^2]
    forces: Array
    solids: Array  # at the end of the step
    sinks: Array  # at the end of the step
    low: Array  # [m] particles below, or above high, are removed
    high: Array
    removes: bool  # whether anything ever is
    end: float  # time at the end of the step [s]
    pressure_number: float = 0.0  # expected P dt^2/(rho d^2), see acceleration.py
    held: tuple[NDArray[np.uint32], Array, float] | None = None  # what is in nozzles: Backend.hold
    solid_fields: tuple[SparseField, ...] = ()  # that rows of solids give numbers of
    sink_fields: tuple[SparseField, ...] = ()
    bodies: Bodies | None = None
    deformables: Deformables | None = None
    coarse: CoarseLevel | None = None  # takes long waves of compression
    fall: float = 0.0  # gravity dt^2 over the depth of the fluid at rest
    currents: tuple[Current, ...] = ()  # velocity fields that forces pull towards


@dataclass(frozen=True)
class Iterations:
    """When to stop iterating: at `tolerance` after `least`, in any case after `most`."""

    least: int
    most: int
    tolerance: float  # mean of max(rho/rho0 - 1, 0)

    @property
    def fixed(self) -> bool:
        return self.least >= self.most


@dataclass
class StepReport:
    """What one step did."""

    iterations: int = 0
    density_error_avg: float = 0.0  # mean of max(rho/rho0 - 1, 0), at the last look
    density_error_max: float = 0.0
    milliseconds: dict[str, float] = field(default_factory=dict)  # per stage
    survey: Survey = field(default_factory=lambda: Survey(0.0, 0, None))  # after the step
    plan: Plan = NO_PLAN  # for the next step


class Stopwatch:
    """Time per stage. Waiting for the device at each end costs a little; `off` does not."""

    def __init__(self, backend: Backend, on: bool = True) -> None:
        self._backend = backend
        self._on = on
        self.milliseconds: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        if not self._on:
            yield
            return
        start = time.perf_counter()
        yield
        self._backend.synchronize()
        spent = 1e3 * (time.perf_counter() - start)
        self.milliseconds[name] = self.milliseconds.get(name, 0.0) + spent


def step(
    backend: Backend,
    model: Model,
    fields: Fields,
    dt: float,
    limits: Iterations,
    plan: Plan = NO_PLAN,
    timed: bool = True,
) -> StepReport:
    """Advance all particles by dt [s]. Line numbers are those of P001, algorithm 1."""
    watch = Stopwatch(backend, timed)
    report = StepReport(milliseconds=watch.milliseconds)
    coupling = Coupling(backend, model, fields, dt, watch)
    with watch.stage("predict"):  # 1-4
        coupling.place()
        if fields.currents:
            backend.follow(fields.currents, dt)
        backend.predict(dt, fields.gravity, fields.forces)
        if fields.held is not None:
            backend.hold(*fields.held)
        backend.stop_at_solids()
        told = coupling.ask()
    coupling.strike(told)
    with watch.stage("neighbors"):  # 5-7
        backend.find_neighbors()
    judge = _solve_density(backend, model, fields, plan, limits, coupling, report)  # 8-19
    with watch.stage("velocities"):  # 21
        coupling.update_velocities()
        told = coupling.ask()
    if model.viscosity_passes:
        with watch.stage("viscosity"):  # 22
            backend.apply_viscosity()
    if np.any(model.vorticity > 0):
        with watch.stage("vorticity"):  # 22
            backend.compute_vorticity()
            backend.apply_confinement()
    if fields.held is not None:
        backend.hold(*fields.held)
    with watch.stage("remove"):
        if fields.removes:
            backend.remove(fields.sinks, fields.low, fields.high, fields.end, fields.sink_fields)
        report.survey = backend.survey()
    coupling.finish(told)
    judge()
    return report


class _LongWaves:
    """Pressure from the coarse grid: in equal parts, from the second iteration of a step on.

    The first iteration takes the worst of the disorder, which looks like compression.
    """

    def __init__(self, backend: Backend, fields: Fields) -> None:
        self._backend, self._level = backend, fields.coarse
        self._first, self._parts = 0, 0
        self.hard_pressed = False  # more parts were needed
        self.least = 0  # iterations
        if self._level is not None:
            self._level.begin(fields.solids, fields.solid_fields, fields.fall)
            self.least = SPARE + self._level.least_parts(fields.pressure_number)

    def begin(self, length: int, again: bool) -> None:
        """A cycle of iterations begins; only the first of a step has parts."""
        self._first = min(1, length - 1)
        self._parts = 0 if again or self._level is None else length - self._first

    def begins(self, k: int) -> bool:
        return self._parts > 0 and k == self._first

    def to_come(self, k: int) -> float:
        """Share that is not yet added at iteration k, as of Backend.compute_pressure."""
        return 1 - (k - self._first) / self._parts if self._parts and k > self._first else 0.0

    def add(self) -> None:
        assert self._level is not None
        self.hard_pressed |= self._backend.add_coarse(self._level, self._parts) > FEW


def _solve_density(
    backend: Backend,
    model: Model,
    fields: Fields,
    plan: Plan,
    limits: Iterations,
    coupling: Coupling,
    report: StepReport,
) -> Callable[[], None]:
    """Iterate eq. 2 and 3. A look at the error waits for the device: only where it decides.

    Returns what is to be done once the step is through: a look at what is left, the next plan.
    """
    watch = coupling.watch
    waves = _LongWaves(backend, fields)
    plan = Plan(max(plan.iterations, limits.least, min(waves.least, limits.most)), plan.calm)
    for length in cycles(limits.most if limits.fixed else plan.iterations, limits.most):
        steps = weights(model.calibration, length, fields.pressure_number)
        waves.begin(length, again=report.iterations > 0)
        for k, (momentum, gain) in enumerate(steps):
            with watch.stage("pressure"):
                coupling.compute_pressure(momentum, gain, waves.to_come(k))
                if k == 0 and report.iterations:  # a cycle begins: is it needed?
                    backend.measure_error()
                    report.density_error_avg, report.density_error_max = backend.density_error()
                    if report.density_error_avg <= limits.tolerance:
                        break
            if waves.begins(k):
                with watch.stage("long waves"):
                    waves.add()
            with watch.stage("correction"):
                coupling.correct_positions(first=report.iterations == 0)
            report.iterations += 1
        else:
            continue
        break
    else:  # compute_pressure last looked ahead of the last correction: a bound from above
        with watch.stage("pressure"):
            backend.measure_error()

    def judge() -> None:
        report.density_error_avg, report.density_error_max = backend.density_error()
        if waves.hard_pressed:  # pressure must come in smaller parts
            report.plan = Plan(min(limits.most, max(report.iterations, plan.iterations + 1)))
        else:
            report.plan = plan.next(report.iterations, report.density_error_avg, limits.tolerance)

    return judge
