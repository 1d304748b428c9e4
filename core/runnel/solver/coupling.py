"""Bodies that the fluid moves, in a step: docs/theory/bodies.md."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ..backends.base import Array, Backend, Contributions, Later, Rim, Sums, Surroundings
from .acceleration import MARGIN
from .model import Model

if TYPE_CHECKING:
    from ..fields.grid import SparseField
    from .step import Fields, Stopwatch


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


class Told(NamedTuple):
    """What bodies get of a pass, asked for but perhaps not there yet."""

    sums: Later[Sums]
    given: Later[Contributions] | None  # to deformable ones
    pressing: Later[Sums] | None  # multipliers that films depend on


class Coupling:
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
