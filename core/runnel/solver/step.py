"""One time step: position-based fluids, algorithm 1 of P001, multiphase (P004)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ..backends.base import (
    FEW,
    Array,
    Backend,
    Contributions,
    Current,
    Later,
    Rim,
    Sums,
    Surroundings,
    Survey,
)
from .acceleration import MARGIN, Plan, cycles, weights
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


class Bodies(Protocol):
    """Solids that the fluid moves; they take part in a step's iterations."""

    @property
    def table(self) -> Array:
        """As of Backend.set_bodies."""

    def rows(self, base: Array) -> Array:
        """Solids with the bodies where the step, as it stands, takes them."""

    @property
    def flush(self) -> NDArray[np.int64]:
        """Bodies, from 0, that lie flush on a solid with a film of water between."""

    def soak(self, rim: Rim) -> NDArray[np.uint32]:
        """Take in the particles around these; rows that the pressure of films depends on."""

    def press(self, pressure: NDArray[np.float64]) -> NDArray[np.float64]:
        """What films give by the pressure of these rows, as of Backend.reactions."""

    def weigh(self, loads: NDArray[np.float64], film_scale: float) -> None:
        """Take in what Backend.weigh_bodies gave."""

    def strike(self, momentum: NDArray[np.float64]) -> None:
        """Take in Backend.reactions, as momentum."""

    def arrive(self) -> None:
        """Corrections are done."""

    def finish(self) -> None:
        """The step is done."""


class Deformables(Protocol):
    """Solids that the fluid moves and deforms; they take part in a step's iterations too."""

    first: int  # number of the first, from 0

    @property
    def table(self) -> Array:
        """As of Backend.set_bodies."""

    def rows(self, base: Array) -> Array:
        """Solids with the bodies where the step, as it stands, takes them."""

    def fields(self, base: Sequence[SparseField]) -> tuple[SparseField, ...]:
        """The same of fields."""

    def weigh(self, around: Surroundings, slope: NDArray[np.float64], bold: float) -> None:
        """Take in which particles are around; slope of the share of walls, largest eigenvalue."""

    def take(self, found: Contributions) -> bool:
        """Take in Backend.contributions, as momentum; whether there was anything."""

    def arrive(self) -> None:
        """Corrections are done."""


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
    coupling = _Coupling(backend, model, fields, dt, watch)
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


class Told(NamedTuple):
    """What bodies get of a pass, asked for but perhaps not there yet."""

    sums: Later[Sums]
    given: Later[Contributions] | None  # to deformable ones
    pressing: Later[Sums] | None  # multipliers that films depend on


class _Coupling:
    """Hands pushes to the bodies and their poses back to the passes; nothing without bodies.

    Pressures, and velocities, are found where no body is near at first: meanwhile the host works
    out where the last correction has pushed the bodies, as only the other places ask for that.
    """

    def __init__(
        self, backend: Backend, model: Model, fields: Fields, dt: float, watch: Stopwatch
    ) -> None:
        self._backend, self._fields, self.watch = backend, fields, watch
        self._bodies, self._soft, self._dt = fields.bodies, fields.deformables, dt
        self._any = self._bodies is not None or self._soft is not None
        self._weighed = False
        self._told: Told | None = None  # of the last correction
        # The weights of iterations are safe up to this eigenvalue: bodies need not stay below 1.
        self._bold = MARGIN * model.calibration.largest_eigenvalue
        self._slope = np.asarray(model.calibration.wall_slope, np.float64)
        self._per_pressure = model.calibration.curl_scale  # p over pressure times dt^2
        self._rim = np.zeros(0, np.uint32)  # rows that films depend on

    def place(self) -> None:
        """Solids where the step, as it stands, takes them; and the table of bodies."""
        self._set_table()
        self._place_solids()

    def _place_solids(self) -> None:
        rows, solid_fields = self._fields.solids, self._fields.solid_fields
        if self._bodies is not None:
            rows = self._bodies.rows(rows)
        if self._soft is not None:
            rows, solid_fields = self._soft.rows(rows), self._soft.fields(solid_fields)
        self._backend.set_solids(rows, solid_fields)

    def _set_table(self) -> None:
        tables = [part.table for part in (self._bodies, self._soft) if part is not None]
        if tables:
            self._backend.set_bodies(np.concatenate(tables))

    def compute_pressure(self, momentum: float, gain: float, to_come: float) -> None:
        backend = self._backend
        if not self._any:
            backend.compute_pressure(momentum, gain, to_come)
            return
        loads = None if self._weighed else self._soak_and_weigh()
        backend.compute_pressure(momentum, gain, to_come, at_bodies=False)
        if not self._weighed:
            self._yield(loads)
        self._push()
        backend.compute_pressure(momentum, gain, to_come, at_bodies=True)

    def _soak_and_weigh(self) -> Later[Sums] | None:
        """Films of water where bodies lie flush, and what the fluid around can push by."""
        if self._bodies is None:
            return None
        flush = self._bodies.flush
        if len(flush):
            self._rim = self._bodies.soak(self._backend.rim(flush))
        return self._backend.weigh_bodies()

    def _yield(self, asked: Later[Sums] | None) -> None:
        """Tell the passes by how much bodies yield to that."""
        self._weighed = True
        if self._bodies is not None and asked is not None:
            loads = self._rigid(asked())
            loads[:, :6] /= self._bold
            self._bodies.weigh(loads, 0.5 / (self._per_pressure * self._bold))
        if self._soft is not None:
            around = self._backend.surroundings(self._soft.first)
            self._soft.weigh(around, self._slope, self._bold)
            self.place()
        elif len(self._rim):
            self.place()
        else:
            self._set_table()  # nothing has moved

    def correct_positions(self, first: bool) -> None:
        self._backend.correct_positions(first)
        self._told = self.ask(films=True)

    def _push(self) -> None:
        """Back to bodies what the last correction did."""
        if self._give(self._told, self._dt):  # the table stays: pushes do not change it
            self._place_solids()
        self._told = None

    def ask(self, films: bool = False) -> Told | None:
        """For what bodies get of the last pass."""
        if not self._any:
            return None
        given = self._backend.contributions(self._soft.first) if self._soft is not None else None
        wet = films and len(self._rim) > 0
        pressing = self._backend.multipliers(self._rim) if wet else None
        return Told(self._backend.reactions(), given, pressing)

    def strike(self, told: Told | None) -> None:
        """Changes of velocities back to bodies."""
        if told is not None:
            with self.watch.stage("bodies"):
                if self._give(told, 1.0):
                    self._place_solids()

    def update_velocities(self) -> None:
        if not self._any:
            self._backend.update_velocities()
            return
        self._backend.update_velocities(at_bodies=False)
        self._arrive()
        self._backend.update_velocities(at_bodies=True)

    def _arrive(self) -> None:
        self._push()
        if self._soft is not None:
            self._soft.arrive()
        if self._bodies is not None:
            self._bodies.arrive()
            self._set_table()

    def finish(self, told: Told | None) -> None:
        """The step is done, but for the last changes of velocities: solids are placed anew by the
        next one."""
        if told is not None:
            with self.watch.stage("bodies"):
                self._give(told, 1.0)
        if self._bodies is not None:
            self._bodies.finish()

    def _rigid(self, sums: Sums) -> Sums:
        return sums if self._soft is None else sums[: self._soft.first]

    def _give(self, told: Told | None, dt: float) -> bool:
        """Whether anything came back: way times mass over dt, or with dt 1 momentum."""
        moved = False
        if told is None:
            return moved
        if self._soft is not None and told.given is not None:
            found = told.given()
            moved = self._soft.take(found._replace(given=found.given / dt))
        if self._bodies is not None:
            sums = self._rigid(told.sums())
            if told.pressing is not None:
                pushing = np.maximum(-told.pressing(), 0.0)
                sums += self._bodies.press(pushing / self._per_pressure)
            if sums.any():
                self._bodies.strike(sums / dt)
                moved = True
        return moved


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
    coupling: _Coupling,
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
