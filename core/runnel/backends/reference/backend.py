"""ReferenceBackend: holds the particles and runs the passes in order.

Particle data is single precision as on devices; sums are in double precision.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
from numpy.typing import NDArray

from ...errors import SimulationError
from ...solver.model import ATTRACTION_SHARE, Model, tension_strength
from ..base import (
    BODY_COLUMNS,
    FIRST_SPEED,
    FORCE_COLUMNS,
    SOLID_COLUMNS,
    SOLVER_CHANNELS,
    SPEED_BINS,
    Array,
    Contributions,
    Current,
    Later,
    Rim,
    Sums,
    Surroundings,
    Survey,
    bulk_speed,
    can_be_passed,
    same_fields,
)
from . import contact, density, march, solids, velocity
from .field import World, world_of
from .kernel import make_kernel
from .neighbors import Neighbors, cell_keys, find_neighbors

if TYPE_CHECKING:
    from ...fields.grid import SparseField
    from ...solver.coarse import CoarseLevel

# Beside SOLVER_CHANNELS; a particle starts with these at 0, fill at 1.
WORK_CHANNELS: dict[str, tuple[type, int]] = {
    "pressure": (np.float32, 1),  # of the last step [Pa]; may be loaded
    "predicted": (np.float32, 3),  # x* [m]
    "unconstrained": (np.float32, 3),  # x* ahead of the first correction [m]
    "fill": (np.float32, 1),  # rho/rho0, eq. 1
    "fluid_fill": (np.float32, 1),  # the same without walls
    "multiplier": (np.float32, 1),  # p of eq. 2 within a step [kg/m]
    "change": (np.float32, 1),  # dp of the last compute_pressure [kg/m]
    "push": (np.float32, 3),  # displacement by walls, summed over a step [m]
    "moved": (np.float32, 3),  # by corrections, the same: without the rounding of x* [m]
    "lost": (np.float32, 1),  # normal speed of what was stopped at a solid [m/s]
    "wall_gradient": (np.float32, 3),  # of the last compute_pressure [1/m]
    "vorticity": (np.float32, 3),  # [1/s]
}
CHANNELS = SOLVER_CHANNELS | WORK_CHANNELS


class ReferenceBackend:
    """Backend protocol of backends/base.py on the CPU."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.name = f"CPU reference (numba {numba.__version__}, {numba.get_num_threads()} threads)"
        calibration = model.calibration
        self._kernel = make_kernel(calibration, model.ignored_axis)
        self._walls = solids.WallTable(
            np.ascontiguousarray(calibration.wall_fill, np.float64),
            np.ascontiguousarray(calibration.wall_slope, np.float64),
            np.ascontiguousarray(calibration.wall_shear, np.float64),
        )
        self._neighbors: Neighbors | None = None
        self._fields: dict[str, tuple[SparseField, ...]] = {"solids": (), "sinks": ()}
        nothing = world_of(np.zeros((0, SOLID_COLUMNS)), (), model.ignored_axis)
        self._solids, self._sinks = nothing, nothing
        self._dt = self._rest_speed = 0.0
        self._tension = 1.0  # tau of eq. 2
        self._moving = False  # from predict to update_velocities
        self._bodies = np.zeros((0, BODY_COLUMNS))
        self._back = np.zeros((0, 0, 3))  # (n, bodies, 3): what bodies get of the last pass
        self._arms = np.zeros((0, 3))  # where that acted [m]
        self._coarse = self._smooth = np.zeros(0, np.float32)  # of add_coarse
        self.until_reorder = 0  # in every step
        self._error = (0.0, 0.0)
        self.close()

    # --- particles --------------------------------------------------------------------------

    @property
    def count(self) -> int:
        return int(np.count_nonzero(self._alive))

    @property
    def neighbors(self) -> Neighbors:
        """Of the last find_neighbors."""
        if self._neighbors is None:
            raise SimulationError("Neighbours are not known: call find_neighbors first.")
        return self._neighbors

    def load(self, channels: Mapping[str, NDArray[Any]]) -> None:
        self._data = _rows(channels)
        self._alive = np.ones(len(self._data["id"]), bool)
        self._neighbors = None

    def append(self, channels: Mapping[str, NDArray[Any]]) -> None:
        added = _rows(channels)
        self._data = {k: np.concatenate((a, added[k])) for k, a in self._data.items()}
        self._alive = np.concatenate((self._alive, np.ones(len(added["id"]), bool)))
        self._neighbors = None

    def read(self, name: str) -> NDArray[Any]:
        values: NDArray[Any] = self._data[name][self._alive]  # indexing by a mask copies
        return values

    def write(self, name: str, values: NDArray[Any]) -> None:
        """Writing "position" also moves "predicted": between steps they are one."""
        self._data[name][self._alive] = _column(name, values, self.count)
        if name == "position":
            self._data["predicted"][self._alive] = self._data["unconstrained"][self._alive] = values

    def close(self) -> None:
        self.load({name: np.zeros((0, width)) for name, (_, width) in SOLVER_CHANNELS.items()})

    # --- a step -----------------------------------------------------------------------------

    def set_solids(self, rows: Array, fields: Sequence[SparseField] = ()) -> None:
        self._solids = self._placed("solids", self._solids, rows, fields)

    def set_bodies(self, bodies: Array) -> None:
        self._bodies = _table(bodies, BODY_COLUMNS)

    def weigh_bodies(self) -> Later[Sums]:
        d = self._data
        x, h, count = d["predicted"], d["kernel_radius"], len(self._bodies)
        *_, parts = solids.wall_shares(
            self._walls, self._solids, x, h, self.model.ignored_axis, count
        )
        each = contact.loads(self._solids, self._bodies, x, h, d["volume"], self._mass(), parts)
        loads: Sums = each.sum(axis=0)
        return lambda: loads

    def reactions(self) -> Later[Sums]:
        pushed = self._mass()[:, None, None] * self._back
        arms = self._arms[:, None, :] - self._bodies[None, :, :3]
        turns = np.cross(arms, pushed).sum(axis=0)
        sums = np.concatenate((pushed.sum(axis=0), turns), axis=1)
        return lambda: sums

    def contributions(self, first: int) -> Later[Contributions]:
        rows, bodies = np.nonzero((self._back[:, first:] != 0).any(axis=2))
        mass, bodies = self._mass()[rows], bodies + first
        given = mass[:, None] * self._back[rows, bodies]
        places = self._data["predicted"][rows].astype(np.float64)
        return lambda: Contributions(bodies, places, given)

    def surroundings(self, first: int) -> Surroundings:
        d = self._data
        x, h, volume = (
            d[name].astype(np.float64) for name in ("predicted", "kernel_radius", "volume")
        )
        return Surroundings(x, h, volume, self._mass())

    def rim(self, bodies: NDArray[np.int64]) -> Rim:
        x = self._data["predicted"].astype(np.float64)
        return Rim(np.arange(len(x), dtype=np.uint32), x, self._of_fluid(self.model.rest_density))

    def multipliers(self, rows: NDArray[np.uint32]) -> Later[Sums]:
        values = self._data["multiplier"][rows].astype(np.float64)
        return lambda: values

    def _no_reactions(self, at: NDArray[Any]) -> NDArray[np.float64]:
        """Room for what bodies get of a pass that acts at these places."""
        self._arms = at.astype(np.float64)
        self._back = np.zeros((len(at), len(self._bodies), 3))
        return self._back

    def _placed(self, name: str, world: World, rows: Array, fields: Sequence[SparseField]) -> World:
        """New rows, and where they are not the same any more, new fields."""
        if same_fields(self._fields[name], fields):
            return world._replace(rows=_table(rows, SOLID_COLUMNS))
        self._fields[name] = tuple(fields)
        return world_of(rows, fields, self.model.ignored_axis)

    def follow(self, currents: Sequence[Current], dt: float) -> None:
        d = self._data
        for current in currents:
            a, b = current.before, current.after
            change = min(current.strength, 1.0 / dt) * dt
            velocity.follow(
                a.values, a.origin, a.voxel, b.values, b.origin, b.voxel, current.share, change,
                d["position"], d["velocity"], self.model.ignored_axis,
            )  # fmt: skip

    def predict(self, dt: float, gravity: Array, forces: Array) -> None:
        d, self._dt = self._data, float(dt)
        self._rest_speed = 2 * self._dt * float(np.linalg.norm(gravity))
        self._tension = tension_strength(self._dt)
        velocity.accelerate(
            _table(forces, FORCE_COLUMNS),
            np.asarray(gravity, np.float64),
            d["position"],
            d["velocity"],
            self._dt,
            self.model.ignored_axis,
        )
        self._place_predicted()
        d["push"][:] = d["moved"][:] = 0
        d["lost"][:] = 0
        d["multiplier"][:] = d["change"][:] = 0

    def stop_at_solids(self) -> None:
        rows = self._solids.rows
        if not len(rows) or not can_be_passed(rows).any() or self._dt <= 0:
            return
        d = self._data
        d["lost"][:] = march.stop_at_solids(
            self._solids, d["position"], d["velocity"], self._radius(), self._dt,
            self._bodies, self._no_reactions(d["position"]),
        )  # fmt: skip
        self._place_predicted()

    def find_neighbors(self) -> None:
        if not self._alive.all():
            self._reorder(np.flatnonzero(self._alive))
        d = self._data
        cell_size = float(d["kernel_radius"].max(initial=0.0)) or 1.0
        keys = cell_keys(d["predicted"], cell_size, d["id"])
        order = np.argsort(keys, kind="stable")
        self._reorder(order)
        d = self._data
        self._neighbors = find_neighbors(keys[order], d["predicted"], d["kernel_radius"])

    def compute_pressure(
        self, momentum: float, gain: float, to_come: float = 0.0, at_bodies: bool | None = None
    ) -> None:
        if at_bodies is False:  # all at once, when bodies are there too
            return
        d, m = self._data, self.model
        x, h = d["predicted"], d["kernel_radius"]
        fluid = density.fill(self._kernel, self.neighbors, x, d["volume"], h)
        wall, gradient, self._parts = self._wall_share()
        total = fluid + wall
        rest = self._of_fluid(m.rest_density)
        mixed = len(set(m.rest_density.tolist())) > 1
        rhomin = density.lightest(self.neighbors, x, h, rest) if mixed else rest
        softest = m.calibration.stiffness * h.astype(np.float64) ** 2 * rhomin
        if m.exact:
            stiffness = self._exact_stiffness(gradient)
        else:  # a crowd has more and closer neighbours
            stiffness = softest / np.maximum(total, 1) ** 3
        if len(self._bodies):
            stiffness /= 1 + stiffness * solids.body_shares(
                self._solids, self._bodies, x, self._parts
            )
        nothing = np.zeros(len(total), np.float32)
        coarse, smooth = (self._coarse, self._smooth) if to_come else (nothing, nothing)
        d["multiplier"][:], d["change"][:] = density.next_multiplier(
            d["multiplier"],
            d["change"],
            total - 1 - to_come * smooth,
            stiffness,
            ATTRACTION_SHARE * self._tension * softest * self._of_fluid(m.attraction),
            (momentum, gain),
            coarse,
        )
        d["fill"][:], d["fluid_fill"][:], d["wall_gradient"][:] = total, fluid, gradient

    def add_coarse(self, level: CoarseLevel, parts: int) -> float:
        d = self._data
        out = self._coarse, self._smooth = np.empty((2, len(d["fill"])), np.float32)
        if not len(d["fill"]):
            return 0.0
        over = level.pressure(d["predicted"], d["fill"], d["volume"], d["phase"], parts, *out)
        before = d["multiplier"].copy()
        np.minimum(before + self._coarse, np.maximum(before, 0), out=d["multiplier"])
        d["change"] += d["multiplier"] - before
        return over

    def measure_error(self) -> None:
        error = np.maximum(self._data["fill"].astype(np.float64) - 1, 0)
        self._error = (float(error.mean()), float(error.max())) if len(error) else (0.0, 0.0)

    def density_error(self) -> tuple[float, float]:
        return self._error

    def correct_positions(self, first: bool = True) -> None:
        d, m, near = self._data, self.model, self.neighbors
        x, volume, h = d["predicted"], d["volume"], d["kernel_radius"]
        rest = self._of_fluid(m.rest_density)
        sigma = self._sigma() * (self._tension if first else 0.0)
        moved = density.displacement(self._kernel, near, x, volume, h, rest, d["change"], sigma)
        back = self._no_reactions(d["position"])
        if len(self._solids.rows):
            solids.mend_gradients(self._walls, self._solids, x, h, moved, back)
        moved += density.part_twins(near, x, volume, h, rest, d["id"], m.ignored_axis)
        # The wall mirrors the particle's pressure, but never its tension: walls do not attract.
        total = d["multiplier"].astype(np.float64)
        mirrored = np.minimum(total, 0) - np.minimum(total - d["change"], 0)
        push = (2 * mirrored / rest)[:, None] * d["wall_gradient"]
        if len(self._bodies):
            back -= (2 * mirrored / rest)[:, None, None] * self._parts
        start, x = x, x + moved + push
        if len(self._solids.rows):
            push += contact.hold_back(self._solids, start, x, self._radius(), back)
            push += contact.resolve_contacts(
                self._solids, x, self._contact(), m.ignored_axis, self._bodies, back
            )
        d["predicted"][:] = x
        d["push"] += push.astype(np.float32)
        d["moved"] += (moved + push).astype(np.float32)

    def update_velocities(self, at_bodies: bool | None = None) -> None:
        if at_bodies is False:  # all at once, when bodies are there too
            return
        d = self._data
        # (x* - x)/dt, but the rounding of x + dt v stays out of the velocity; with bodies that of
        # x* + dx too, which they would get and particles lose.
        corrected = d["predicted"].astype(np.float64) - d["unconstrained"]
        v = d["velocity"] + (d["moved"] if len(self._bodies) else corrected) / self._dt
        back = self._no_reactions(d["predicted"])
        if len(self._solids.rows):
            d["predicted"] -= contact.wall_response(
                self._solids,
                d["predicted"],
                v,
                d["velocity"],
                d["push"],
                d["lost"],
                self._contact(),
                d["kernel_radius"],
                self._dt,
                self._rest_speed,
                self.model.ignored_axis,
                self._bodies,
                back,
            ).astype(np.float32)
        d["velocity"][:] = v
        per_pressure = self.model.calibration.curl_scale * self._dt**2
        d["pressure"][:] = -d["multiplier"].astype(np.float64) / per_pressure
        d["position"][:] = d["predicted"]
        d["unconstrained"][:] = d["predicted"]
        self._moving = False

    def apply_viscosity(self) -> None:
        d, m = self._data, self.model
        passes = m.viscosity_passes
        if passes == 0:
            return
        rest = self._of_fluid(m.rest_density)
        rho = rest * np.maximum(d["fluid_fill"], velocity.SPRAY)
        mass = self._mass()
        c = self._of_fluid(m.viscosity) / passes
        near, x, h = self.neighbors, d["position"], d["kernel_radius"]
        for _ in range(passes):
            d["velocity"][:] = velocity.viscosity_pass(
                self._kernel, near, x, d["velocity"], mass, rho, h, c
            )

    def compute_vorticity(self) -> None:
        d = self._data
        d["vorticity"][:] = velocity.vorticity(
            self._kernel,
            self.neighbors,
            d["position"],
            d["velocity"],
            d["volume"],
            d["kernel_radius"],
            self.model.calibration.curl_scale,
        )

    def apply_confinement(self) -> None:
        d = self._data
        acceleration = velocity.confinement(
            self._kernel,
            self.neighbors,
            d["position"],
            d["vorticity"].astype(np.float64),
            d["volume"],
            d["kernel_radius"],
            self._of_fluid(self.model.vorticity),
        )
        d["velocity"] += (self._dt * acceleration).astype(np.float32)

    def remove(
        self, sinks: Array, low: Array, high: Array, time: float,
        fields: Sequence[SparseField] = (),
    ) -> None:  # fmt: skip
        x = self._data["position"]
        dead = ((x < low) | (x > high)).any(axis=1) | (self._data["expiry"] <= time)
        if len(sinks):
            self._sinks = self._placed("sinks", self._sinks, sinks, fields)
            dead |= (solids.signed_distances(self._sinks, x)[0] < 0).any(axis=1)
        self._alive &= ~dead

    def survey(self) -> Survey:
        d = self._data
        finite = np.isfinite(d["position"]).all(axis=1) & np.isfinite(d["velocity"]).all(axis=1)
        bad = d["id"][self._alive & ~finite]
        good = self._alive & finite
        squares = np.square(d["velocity"].astype(np.float64)[good]).sum(axis=1)
        fastest = float(np.sqrt(squares.max(initial=0.0)))
        bins = (squares.astype(np.float32).view(np.uint32) >> 22).astype(np.int64) - FIRST_SPEED
        speeds = np.bincount(np.clip(bins, 0, SPEED_BINS - 1), minlength=SPEED_BINS)
        return Survey(
            max_speed=fastest,
            bulk_speed=bulk_speed(speeds, fastest),
            count=self.count,
            bad_id=int(bad[0]) if len(bad) else None,
        )

    def hold(self, ids: NDArray[np.uint32], velocities: Array, slack: float) -> None:
        if len(ids) == 0:
            return
        own = self._data["id"]
        place = np.minimum(np.searchsorted(ids, own), len(ids) - 1)
        held = np.flatnonzero(ids[place] == own)
        stream = velocities[place[held]].astype(np.float64)
        off = self._data["velocity"][held] - stream
        most = slack * np.linalg.norm(stream, axis=1)
        way = np.linalg.norm(off, axis=1)
        far = way > most
        stream[far] += (most[far] / way[far])[:, None] * off[far]
        self._data["velocity"][held[far]] = stream[far]
        if self._moving:
            self._place_predicted()

    def positions_inside(self, boxes: Array) -> Array:
        x = self.read("position")
        inside = np.zeros(len(x), bool)
        for low, high in boxes:
            inside |= ((x >= low) & (x <= high)).all(axis=1)
        found: Array = x[inside]
        return found

    def synchronize(self) -> None:
        """Every pass has ended when its call returns."""

    # --- helpers ----------------------------------------------------------------------------

    def _place_predicted(self) -> None:
        """x* = x + dt v."""
        d, self._moving = self._data, True
        d["predicted"][:] = d["position"] + self._dt * d["velocity"].astype(np.float64)
        d["unconstrained"][:] = d["predicted"]

    def _reorder(self, order: NDArray[np.intp]) -> None:
        self._data = {name: values[order] for name, values in self._data.items()}
        self._alive = self._alive[order]

    def _of_fluid(self, table: NDArray[np.float32]) -> NDArray[np.float64]:
        """A fluid's number for each particle."""
        return table.astype(np.float64)[self._data["phase"]]

    def _radius(self) -> NDArray[np.float64]:
        """r = h / support [m]."""
        r: NDArray[np.float64] = self._data["kernel_radius"] / np.float64(
            self.model.calibration.support
        )
        return r

    def _contact(self) -> NDArray[np.float64]:
        """Distance that particles keep from solids [m]."""
        return contact.contact_distances(self._radius(), self._data["id"])

    def _sigma(self) -> NDArray[np.float64]:
        """sigma of eq. 4."""
        m = self.model
        stiffness = m.calibration.stiffness * self._data["kernel_radius"].astype(np.float64) ** 2
        strength = self._of_fluid(m.tensile) * self._of_fluid(m.rest_density)
        sigma: NDArray[np.float64] = m.calibration.relaxation * stiffness * strength
        return sigma

    def _mass(self) -> NDArray[np.float64]:
        mass: NDArray[np.float64] = self._of_fluid(self.model.rest_density) * self._data["volume"]
        return mass

    def _wall_share(self) -> tuple[NDArray[np.float64], ...]:
        """Share, gradient, and the parts of it that are of bodies."""
        x, h = self._data["predicted"], self._data["kernel_radius"]
        count = len(self._bodies)
        if len(self._solids.rows) == 0:
            return np.zeros(len(x)), np.zeros((len(x), 3)), np.zeros((len(x), count, 3))
        axis = self.model.ignored_axis
        return solids.wall_shares(self._walls, self._solids, x, h, axis, count)

    def _exact_stiffness(self, wall_gradient: NDArray[np.float64]) -> NDArray[np.float64]:
        d, m = self._data, self.model
        return density.exact_stiffness(
            self._kernel,
            self.neighbors,
            d["predicted"],
            d["volume"],
            d["kernel_radius"],
            self._of_fluid(m.rest_density),
            wall_gradient,
            m.calibration.stiffness,
        )


def _column(name: str, values: NDArray[Any], count: int) -> NDArray[Any]:
    dtype, width = CHANNELS[name]
    shape = (count,) if width == 1 else (count, width)
    return np.asarray(values, dtype).reshape(shape)


def _rows(channels: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """All channels of new particles."""
    missing = SOLVER_CHANNELS.keys() - channels.keys() - {"expiry"}
    if missing:
        raise KeyError(f"particles without {', '.join(sorted(missing))}")
    count = len(channels["id"])
    rows = {
        name: _column(name, channels.get(name, np.full(count, np.inf)), count).copy()
        for name in SOLVER_CHANNELS
    }
    for name, (_, width) in WORK_CHANNELS.items():
        rows[name] = _column(name, np.zeros((count, width)), count)
    rows["pressure"][:] = channels.get("pressure", 0)
    rows["fill"][:] = rows["fluid_fill"][:] = 1
    rows["predicted"][:] = rows["unconstrained"][:] = rows["position"]
    return rows


def _table(rows: Array, columns: int) -> NDArray[np.float64]:
    """Packed solids or forces (n, columns); an empty array may have any shape."""
    return np.ascontiguousarray(rows, np.float64).reshape(-1, columns)
