"""What a device must be able to do. One step is a fixed sequence of these passes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from ..fields.flow import Flow
    from ..fields.grid import SparseField
    from ..solver.coarse import CoarseLevel

# Channels a backend holds while simulating: name -> (dtype, width).
SOLVER_CHANNELS: dict[str, tuple[type, int]] = {
    "position": (np.float32, 3),  # [m]
    "velocity": (np.float32, 3),  # [m/s]
    "volume": (np.float32, 1),  # rest volume d^D [m^D]
    "kernel_radius": (np.float32, 1),  # h [m]
    "phase": (np.uint32, 1),  # index of the fluid
    "id": (np.uint32, 1),
    "expiry": (np.float32, 1),  # time of death [s], inf = never
}

# Columns of a packed solid (colliders, sinks): one float32 row each.
SOLID_COLUMNS = 32
PLANE, BOX, SPHERE, CYLINDER, FIELD = range(5)
# 0 kind; 1 mode: +1 solid outside of fluid ("outside"), -1 container ("inside"); of a field always
#     +1, since its distances are in the fluid's sense whatever the mode
# 2 friction; 3 bounce; 4 stickiness
# 5:8 size: box half extents; sphere radius; cylinder radius, half length (along local z)
#     plane: nothing, the solid is local z < 0
#     field: 5 scale (world = scale x local); 6 share of the second field, in time
# 8:17 rotation world -> local, row by row; 17:20 origin in the world, at the end of the step
# 20:23 velocity of the origin; 23:26 angular velocity [rad/s], world
# 26, 27 field: numbers of the first and the second field. The second's velocity channel, if it has
#     one, is what carries the first into the second, and adds to the row's own velocity
# 28 half thickness of a shell, 0 if it is none; of planes, boxes, spheres, cylinders
# 29 set by backends, where the yields of a deformable body's field begin; 30 how far its surface
#     may have moved since the field's clearances were measured [m]
# 31 number of the body that moves it, from 1; 0 if nothing but its path does
# In 2D, packing makes boxes and cylinders endless along the ignored axis.

# Columns of a packed body: one float32 row each. Docs: docs/theory/bodies.md.
BODY_COLUMNS = 24
BODY = 31  # column of a solid
# 0:3 centre of mass; 3:12 axes of turning, world -> principal, row by row
# 12:18 how much all pressures together move it, per axis (x, y, z, three of turning)
# 18:24 the same for contacts
LOADS = 12  # sums that `weigh_bodies` gives of each: 6 of pressure, 6 of contact

# Columns of a packed force: one float32 row each.
FORCE_COLUMNS = 12
WIND, POINT, VORTEX = range(3)  # drag is wind of velocity 0
# 0 kind; 1 strength; 2 radius (inf = no fall-off); 3:6 velocity or axis; 6:9 centre

Array = NDArray[np.float32]
T = TypeVar("T")
Later = Callable[[], T]  # what a device was asked for; calling it waits until it is there
Sums = NDArray[np.float64]


@dataclass(frozen=True)
class Current:
    """A velocity field at a moment: a = min(strength, 1/dt) (w u - w v)."""

    strength: float  # [1/s]
    before: Flow
    after: Flow
    share: float  # of the second, in time


OWN_BITS, SHARED_BITS = 14, 16  # of a mask of solids near some particles


def near_bit(solid: int) -> int:
    """Of a mask of solids. Many share bits from OWN_BITS on, in turn. Twin: kernels/solids.cl."""
    last = OWN_BITS + (solid - OWN_BITS) % SHARED_BITS
    return 1 << (solid if solid < OWN_BITS else last)


def same_fields(a: Sequence[SparseField], b: Sequence[SparseField]) -> bool:
    """Whether both are the very same fields in the same order: then nothing goes to the device."""
    return len(a) == len(b) and all(x is y for x, y in zip(a, b, strict=True))


def same_layouts(a: Sequence[SparseField], b: Sequence[SparseField]) -> bool:
    """Whether fields differ at most in what moves with a surface: values, psi, velocities."""
    return len(a) == len(b) and all(
        x is y
        or (
            x.table is y.table
            and x.surface is y.surface
            and (x.velocity is None) == (y.velocity is None)
            and (x.yields is None) == (y.yields is None)
        )
        for x, y in zip(a, b, strict=True)
    )


def is_container(solids: NDArray[Any]) -> NDArray[np.bool_]:
    """Which rows are hollow boxes. Twin: IS_CONTAINER of kernels/solids.cl."""
    hollow_box: NDArray[np.bool_] = (solids[:, 0] == BOX) & (solids[:, 1] < 0)
    return hollow_box


def may_hold(solids: NDArray[Any]) -> NDArray[np.bool_]:
    """Which rows may act on particles that they did not push: what is sticky, perhaps in parts."""
    holds: NDArray[np.bool_] = (solids[:, 4] != 0) | (solids[:, 0] == FIELD)
    return holds


def field_bits(solids: NDArray[Any]) -> int:
    """Bits of the fields that no body moves, in a mask; 0 if others have one of these bits too."""
    fields = (solids[:, 0] == FIELD) & (solids[:, BODY] == 0)
    own = {near_bit(int(s)) for s in np.flatnonzero(fields)}
    others = {near_bit(int(s)) for s in np.flatnonzero(~fields)}
    return 0 if own & others else sum(own)


def tells(solids: NDArray[Any], h: float) -> NDArray[np.bool_]:
    """Which rows have a share in the density wherever a particle is near them: hollow boxes, and
    solid ones that are not thin."""
    solid = (solids[:, 0] == BOX) & (solids[:, 1] > 0) & (solids[:, 28] == 0)
    thick: NDArray[np.bool_] = solid & (solids[:, 5:8] >= h).all(axis=1)
    return is_container(solids) | thick


def can_be_passed(solids: NDArray[Any]) -> NDArray[np.bool_]:
    """Which rows a fast particle may pass through. Not half spaces and hollows: contact alone finds
    back from there."""
    kind, mode, shell = solids[:, 0], solids[:, 1], solids[:, 28]
    passable: NDArray[np.bool_] = (kind == FIELD) | (shell > 0) | ((kind != PLANE) & (mode > 0))
    return passable


class Contributions(NamedTuple):
    """What single particles gave to bodies in a pass."""

    bodies: NDArray[np.int64]  # from 0
    places: NDArray[np.float64]  # (n, 3) where the particles are at the end of the step [m]
    given: NDArray[np.float64]  # (n, 3), as of Backend.reactions


class Surroundings(NamedTuple):
    """Particles around bodies."""

    places: NDArray[np.float64]  # (n, 3) x* [m]
    radii: NDArray[np.float64]  # h [m]
    volumes: NDArray[np.float64]  # [m^3]
    masses: NDArray[np.float64]  # [kg]


class Rim(NamedTuple):
    """Particles around what is flush with bodies."""

    rows: NDArray[np.uint32]  # numbers that hold until neighbours are found anew
    places: NDArray[np.float64]  # (n, 3) x* [m]
    densities: NDArray[np.float64]  # rho0 [kg/m^3]


def fastest_point(solids: Array, fields: Sequence[SparseField]) -> float:
    """Speed that no point of a solid that can be passed exceeds [m/s]."""
    rows = solids[can_be_passed(solids)].astype(np.float64)
    if not len(rows):
        return 0.0
    reach, own = np.sqrt((rows[:, 5:8] ** 2).sum(axis=1)), np.zeros(len(rows))
    for k in np.flatnonzero(rows[:, 0] == FIELD):
        field = fields[int(rows[k, 27])]
        reach[k] = rows[k, 5] * np.linalg.norm(np.abs(field.bounds).max(axis=0))
        own[k] = rows[k, 5] * field.fastest
    spin = np.sqrt((rows[:, 23:26] ** 2).sum(axis=1))
    turning = spin * np.where(spin > 0, reach, 0.0)  # of 2D scenes some reach is endless
    speed: NDArray[np.float64] = np.sqrt((rows[:, 20:23] ** 2).sum(axis=1)) + turning + own
    return float(speed.max())


@dataclass(frozen=True)
class Survey:
    max_speed: float  # [m/s]
    count: int  # living particles
    bad_id: int | None  # id of a particle with NaN or infinity, if any
    bulk_speed: float = 0.0  # few are faster: drops and spray; rounded up [m/s]


SPEED_BINS, FIRST_SPEED = 64, 214  # of speed^2, by the top ten bits of its float; as in velocity.cl
FEW = 0.005  # of all particles


def bulk_speed(counts: NDArray[np.integer[Any]], fastest: float) -> float:
    """Speed that FEW particles exceed, from their numbers per bin; rounded up to a bin's end."""
    slower = np.cumsum(counts)
    last = int(np.searchsorted(slower, (1 - FEW) * slower[-1])) + 1 if slower[-1] else 0
    end = np.array([(FIRST_SPEED + last) << 22], np.uint32).view(np.float32)
    return fastest if last >= SPEED_BINS else min(fastest, float(np.sqrt(end[0])))


class Backend(Protocol):
    name: str  # shown to people: device and runtime
    until_reorder: int  # steps until rows are sorted anew; with the rows' order, all a state needs

    @property
    def count(self) -> int:
        """Particles alive."""

    def load(self, channels: Mapping[str, NDArray[Any]]) -> None:
        """Replace all particles. Keys: SOLVER_CHANNELS and "pressure" of the last step [Pa], which,
        as "expiry", may be left out.
        """

    def append(self, channels: Mapping[str, NDArray[Any]]) -> None:
        """Add particles."""

    def read(self, name: str) -> NDArray[Any]:
        """Host copy of a channel in the device's own order; all channels of one moment agree.

        Beside SOLVER_CHANNELS: "fill" (rho/rho0), "vorticity" (n, 3).
        """

    def write(self, name: str, values: NDArray[Any]) -> None:
        """Replace a channel, values in the device's own order (as `read` returns)."""

    def set_solids(self, solids: Array, fields: Sequence[SparseField] = ()) -> None:
        """Colliders at the end of the coming step, and the fields that rows give numbers of."""

    def set_bodies(self, bodies: Array) -> None:
        """Bodies that column 31 of the solids speaks of: (n, BODY_COLUMNS)."""

    def weigh_bodies(self) -> Later[Sums]:
        """What the fluid at x* can push each body by: (n, LOADS). Needs neighbours."""

    def reactions(self) -> Later[Sums]:
        """What bodies did to particles in the last pass, back to them: (n, 6), linear and about
        the centre. After correct_positions mass times way [kg m], after stop_at_solids and
        update_velocities momentum [kg m/s].
        """

    def contributions(self, first: int) -> Later[Contributions]:
        """Of the same pass, each particle's part for the bodies from number `first` (from 0) on."""

    def surroundings(self, first: int) -> Surroundings:
        """All particles within h of the bodies from number `first` on, and some more. Needs
        neighbours."""

    def rim(self, bodies: NDArray[np.int64]) -> Rim:
        """All particles within h of these bodies, and some more. Needs neighbours."""

    def multipliers(self, rows: NDArray[np.uint32]) -> Later[Sums]:
        """p of particles that `rim` gave, as the step stands: below 0 where it pushes [kg/m]."""

    def follow(self, currents: Sequence[Current], dt: float) -> None:
        """v += dt a of one velocity field after the other; ahead of predict."""

    def predict(self, dt: float, gravity: Array, forces: Array) -> None:
        """v += dt a; x* = x + dt v."""

    def stop_at_solids(self) -> None:
        """Shorten v of particles that would pass through a solid within the step."""

    def find_neighbors(self) -> None:
        """Pairs within max(h_i, h_j) at x*. Drops particles that died."""

    def compute_pressure(
        self, momentum: float, gain: float, to_come: float = 0.0, at_bodies: bool | None = None
    ) -> None:
        """fill at x* and the change of p: eq. 1, 2 with weights of solver/acceleration.py, and
        the next part of what add_coarse found, of which the share to_come is not yet applied.

        at_bodies: False for some places that no body is near, then True for all others: so the host
        may find out where the bodies are while the device is at work.
        """

    def add_coarse(self, level: CoarseLevel, parts: int) -> float:
        """Solve for long waves of the compression at hand; add a first of equal parts to p. Gives
        the share of particles that would need more parts.
        """

    def measure_error(self) -> None:
        """Begin to sum the compression that the last compute_pressure found."""

    def density_error(self) -> tuple[float, float]:
        """Mean and largest max(fill - 1, 0) at the last measure_error. Waits for the device."""

    def correct_positions(self, first: bool = True) -> None:
        """x* += dx of eq. 3, then contact. s_ij acts in the `first` iteration of a step only."""

    def update_velocities(self, at_bodies: bool | None = None) -> None:
        """v = (x* - x)/dt, wall response; x = x*. at_bodies: as of compute_pressure."""

    def apply_viscosity(self) -> None:
        """All passes of eq. 5."""

    def compute_vorticity(self) -> None:
        """omega of the current state, readable as "vorticity"."""

    def apply_confinement(self) -> None:
        """Vorticity confinement; needs compute_vorticity before."""

    def remove(
        self, sinks: Array, low: Array, high: Array, time: float,
        fields: Sequence[SparseField] = (),
    ) -> None:  # fmt: skip
        """Mark as dead what lies in a sink, outside low..high, or past its expiry.

        They leave at the next find_neighbors, and no longer count at once.
        """

    def survey(self) -> Survey:
        """Fastest particle, living particles, and a particle whose state is not finite."""

    def hold(self, ids: NDArray[np.uint32], velocities: Array, slack: float) -> None:
        """Bring particles, ids rising, to within `slack` times their speed of these velocities.

        What is in nozzles. To be called when forces have acted and again at the end of a step.
        """

    def positions_inside(self, boxes: Array) -> Array:
        """Positions (m, 3) in any of the boxes (n, 2, 3) from low to high [m], in any order."""

    def synchronize(self) -> None:
        """Wait until everything asked for is done: for timing."""

    def close(self) -> None:
        """Give memory back."""
