"""The passes of a step on an OpenCL device. Kernels: ../../kernels; layout: docs/decisions/0001."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...errors import SimulationError
from ...solver.model import ATTRACTION_SHARE, Model, tension_strength
from ..base import (
    BODY,
    SOLID_COLUMNS,
    SPEED_BINS,
    Current,
    Survey,
    bulk_speed,
    can_be_passed,
    fastest_point,
    field_bits,
    may_hold,
    near_bit,
    tells,
)
from .coupling import BODY_SLOTS, Coupling
from .program import (
    CLUSTER,
    FINE_BITS,
    LIST_RUN,
    RADIX_BITS_CPU,
    RADIX_BITS_GPU,
    ROW_BITS,
)

if TYPE_CHECKING:
    import pyopencl as cl

    from ...fields.flow import Flow
    from ...fields.grid import SparseField
    from ...solver.coarse import CoarseLevel

TILES_CPU, TILES_GPU = 32, 512
MARCH_GROUP = 8  # particles of a work-item of stop_at_solids, as in velocity.cl
GRID = np.dtype([("inverse", "f4"), ("low", "i4", 3), ("bits", "i4"), ("shift", "i4")])  # grid_t

u32 = np.uint32
f32 = np.float32


class OpenCLBackend(Coupling):
    """One device's particles and the passes over them. Implements `base.Backend`."""

    def __init__(
        self,
        model: Model,
        queue: cl.CommandQueue,
        *,
        kernel_radii: tuple[float, ...] = (),
        reorder_interval: int = 1,
        vector_lanes: bool | None = None,
    ) -> None:
        import pyopencl as cl

        on_cpu = bool(queue.device.type & cl.device_type.CPU)
        # A tile is one work-item of the serial passes (sort, sums): few and long on CPUs. Their
        # number decides the order of sums, so it must not follow the number of threads.
        tiles, radix_bits = (TILES_CPU, RADIX_BITS_CPU) if on_cpu else (TILES_GPU, RADIX_BITS_GPU)
        lanes = on_cpu if vector_lanes is None else vector_lanes
        super().__init__(model, queue, tiles, radix_bits, lanes)
        self.reorder_interval = max(1, reorder_interval)
        self._radii.update(kernel_radii)
        self._tension = 1.0
        self._rest_speed = 0.0
        self._telling = 0  # bits of solids whose share in the density tells that they are near
        self._kinds = np.full((1, 4), np.nan, np.float32)  # of solids, what tells one from another
        self._flows: dict[int, Flow] = {}  # on the device, by id()
        self._passable = False  # any of the solids, by what is fast
        self._stopped = False  # whether the step has looked for that
        self._corrected = False  # whether it has corrected positions
        self.list_used = 0
        self._known_bits = 0  # of fields that `clear` tells of (kernels/walls.cl), in "index2"
        self._reach = f32(0)  # kernel radius that its table is for
        self.set_solids(np.zeros((0, SOLID_COLUMNS), np.float32))
        self._place_reach()
        self._reserve(0)

    @property
    def _same(self) -> Any:
        h = max(self._radii, default=1.0)
        return np.array(
            [h, (2 * h / self.model.calibration.support) ** self.model.calibration.dimensions], f32
        )

    @property
    def _shortest_way(self) -> float:
        """In a step, that a particle may pass a solid by [m]."""
        return min(self._radii, default=0.0) / self.model.calibration.support

    # ---- the passes ------------------------------------------------------------------------------

    def _place_reach(self) -> None:
        """h^2 of the lanes whose bit is set, of others a number that nothing reaches."""
        h = f32(max(self._radii, default=1.0))
        if h != self._reach:
            bits = np.arange(256)[:, None] >> np.arange(CLUSTER) & 1
            self._buffers["reach"] = self._upload(np.where(bits, h * h, f32(-1e30)))
            self._reach = h

    def set_solids(self, solids: NDArray[np.float32], fields: Sequence[SparseField] = ()) -> None:
        self._place_solids("solids", solids, fields)
        self._given = solids, fields
        kinds = solids[:, [0, 1, 4, 28, BODY]]
        if np.array_equal(kinds, self._kinds):  # bodies only move
            return
        self._kinds = kinds
        self._solid_count = len(solids)
        self._passable = bool(len(solids)) and bool(can_be_passed(solids).any())
        self._holding_bits = sum({near_bit(int(s)) for s in np.flatnonzero(may_hold(solids))})
        # Beside bodies it is not told which fields are clear: what passes keep of fields is of the
        # first one, which has to be the same in both.
        self._field_bits = 0 if (solids[:, BODY] > 0).any() else field_bits(solids)
        self._body_of = solids[:, BODY].copy()
        self._body_bits = sum({near_bit(int(s)) for s in np.flatnonzero(self._body_of > 0)})

    def follow(self, currents: Sequence[Current], dt: float) -> None:
        self._fastest = math.inf
        needed = {id(f): f for c in currents for f in (c.before, c.after)}
        for number in self._flows.keys() - needed.keys():
            del self._buffers[f"flow {number}"]
        for number in needed.keys() - self._flows.keys():
            self._buffers[f"flow {number}"] = self._upload(needed[number].values)
        self._flows = needed  # held, so that no other is given one of these numbers
        for current in currents:
            self._run(
                self._program(),
                "follow",
                self._rows,
                *self._take("x v"),
                *self._flow(current.before),
                *self._flow(current.after),
                f32(current.share),
                f32(min(current.strength, 1.0 / dt) * dt),
                u32(self._rows),
            )

    def _flow(self, flow: Flow) -> list[Any]:
        place = np.append(flow.origin, 1.0 / flow.voxel).astype(np.float32)
        dims = np.array([*flow.dims, 0], np.int32)
        return [self._buffers[f"flow {id(flow)}"], dims, place]

    def predict(self, dt: float, gravity: NDArray[np.float32], forces: NDArray[np.float32]) -> None:
        self._dt = dt
        self._stopped = self._corrected = False
        self._tension = tension_strength(dt)
        pull = dt * float(np.linalg.norm(gravity))
        self._rest_speed = 2 * pull
        self._fastest = math.inf if len(forces) else self._fastest + pull
        if len(forces):
            self._buffers["forces"] = self._upload(forces.astype(np.float32))
        g = np.append(gravity, 0).astype(np.float32)
        self._run(
            self._program(),
            "apply_forces",
            self._rows,
            *self._take("x v forces"),
            u32(len(forces)),
            g,
            u32(self._rows),
            f32(dt),
        )

    def stop_at_solids(self) -> None:
        self._acted = 0, True
        if not self._passable or self._dt <= 0:
            return
        fastest = fastest_point(*self._given)
        if 1.0001 * self._dt * (self._fastest + fastest) <= self._shortest_way:
            return  # the pass would find that no particle is fast
        self._stopped = True
        self._acted, self._around = (1, True), None
        self._run(
            self._program(),
            "stop_at_solids",
            -(-self._rows // MARCH_GROUP),
            *self._of_bodies("fluids"),
            *self._take("material x v solids"),
            u32(self._solid_count),
            *self._of_bodies("bodies back near"),
            u32(self._rows),
            f32(self._dt),
            f32(fastest),
        )

    def find_neighbors(self) -> None:
        self._free = 0, 0
        if self.count == 0:
            self._rows = 0
            return
        low, bits = self._extent()
        dead = self._rows - self.count
        levels = self._levels
        axis_bits = max(bits + levels - 1, ROW_BITS)
        level_bits = (levels - 1).bit_length()
        fine = 3 * axis_bits + level_bits + FINE_BITS + 1 <= 64
        grid = np.zeros(1, GRID)
        grid["inverse"], grid["low"] = 1 / max(self._radii), low
        grid["bits"], grid["shift"] = bits, 3 * axis_bits
        key_bits = 3 * axis_bits + level_bits + (FINE_BITS if fine else 0)
        self._until_reorder -= 1
        reorder = self._until_reorder < 0 or dead > 0
        program = self._program(fine=fine, indexed=not reorder)
        self._place_reach()
        sorted_bits = min(64, key_bits + (dead > 0))
        # Short keys share a word with the number of their particle.
        above = u32(32 if reorder and sorted_bits <= 32 else 0)
        self._sort(program, grid, sorted_bits, above)
        if reorder:
            self._until_reorder = self.reorder_interval - 1
            self._reorder(program, above)
        self._place_predicted(program)
        self._build_lists(program, grid, above)
        self._around = None
        self._known_bits = 0
        silent = np.flatnonzero(~tells(self._given[0], max(self._radii)))
        self._telling = 0x7FFFFFFF & ~sum({near_bit(int(s)) for s in silent})

    def _extent(self) -> tuple[list[int], int]:
        """Lowest cell and the bits per axis of all predicted positions."""
        self._run(
            self._program(),
            "predicted_bounds",
            self.tiles,
            *self._take("x v bounds"),
            u32(self._rows),
            u32(self.tiles),
            f32(self._dt),
            f32(1 / max(self._radii)),
            group=1,
        )
        rows = self._fetch("bounds", np.int32, 8, self.tiles)
        bad = int(rows[:, 6].min())
        if bad < self._rows:
            raise SimulationError(
                f"particle {self._id_of(bad)} has no finite position any more. Likely cause: "
                "a force or velocity far too large for the time step; use a shorter time_step."
            )
        low, high = rows[:, :3].min(axis=0), rows[:, 3:6].max(axis=0)
        span = int((high.astype(np.int64) - low).max()) + 1
        limit = self._extent_limit
        if span > limit:
            raise SimulationError(
                f"the particles spread over {span} cells along an axis; at most {limit} are "
                'possible. Give the scene a [domain] with mode = "kill", or a sink, for what '
                "flies away."
            )
        return [int(c) for c in low], max(1, (span - 1).bit_length())

    def _id_of(self, row: int) -> int:
        return int(self._fetch("material", np.uint32, 4)[row, 3])

    def _sort(self, program: dict[str, Any], grid: Any, bits: int, above: Any) -> None:
        b, n, tiles = self._buffers, u32(self._rows), u32(self.tiles)
        self._run(
            program,
            "make_keys",
            self._clusters * (1 if self.vector_lanes else CLUSTER),
            *self._take("x v material key index"),
            n,
            f32(self._dt),
            above,
            grid,
        )
        for shift in map(u32, range(0, bits, self.radix_bits)):
            self._run(
                program,
                "sort_count",
                self.tiles,
                *self._take("key histogram"),
                n,
                shift + above,
                tiles,
                group=1,
            )
            self._run(program, "sort_scan", 1, b["histogram"], tiles, group=1)
            self._run(
                program,
                "sort_scatter",
                self.tiles,
                *self._take("key index key2 index2 histogram"),
                n,
                shift + above,
                above,
                tiles,
                group=1,
            )
            b["key"], b["key2"] = b["key2"], b["key"]
            b["index"], b["index2"] = b["index2"], b["index"]

    def _reorder(self, program: dict[str, Any], above: Any) -> None:
        """Bring particles into sorted order; the dead, sorted last, are left behind."""
        b = self._buffers
        self._rows = self.count
        self._living = None
        self._vorticity_rows = -1
        data = self._take("key index x v material xp xp2 push")
        self._run(program, "reorder", self._rows, *data, u32(self._rows), above)
        for name, free in (("x", "xp"), ("v", "xp2"), ("material", "push")):
            b[name], b[free] = b[free], b[name]

    def _place_predicted(self, program: dict[str, Any]) -> None:
        n = self._rows
        padded = (self._clusters + 1) * CLUSTER
        self._run(
            program,
            "place_predicted",
            max(padded // (CLUSTER if self.vector_lanes else 1), self._slots + 1),
            *self._take("x v material index xp xp2 push pressure fluid_fill fill rows used"),
            u32(n),
            u32(padded),
            u32(self._slots),
            u32(self.capacity),
            f32(self._dt),
            self._same,
            group=self.group,
        )

    def _build_lists(self, program: dict[str, Any], grid: Any, above: Any) -> None:
        n = self._rows
        while True:
            self._run(
                program,
                "fill_rows",
                n,
                *self._take("key rows used"),
                u32(n),
                u32(self._slots - 1),
                above,
            )
            self._run(
                program,
                "build_lists",
                -(-self._clusters // LIST_RUN) if self.vector_lanes else self._clusters,
                *self._take(
                    "xp material index push rows set_bits list list_range near used solids"
                ),
                u32(self._solid_count),
                u32(n),
                u32(self.capacity),
                u32(self._slots - 1),
                u32(self._list_capacity),
                grid,
                group=1,
            )
            used, crowded, rows = (int(v) for v in self._fetch("used", np.uint32, 1, 3)[:, 0])
            if crowded:
                raise SimulationError(
                    f"more than {self._list_max} neighbours around eight particles: the fluid "
                    "has collapsed onto itself. Likely cause: a time step too long, or "
                    "overlapping sources."
                )
            if 2 * rows > self._slots:
                self._reserve_rows(rows)
            elif used > self._list_capacity:
                self._reserve_lists(used + used // 4)
            else:
                self.list_used = used
                return
            self._run(
                program, "clear_rows", self._slots + 1, *self._take("rows used"), u32(self._slots)
            )

    def compute_pressure(
        self, momentum: float, gain: float, to_come: float = 0.0, at_bodies: bool | None = None
    ) -> None:
        b, weights = self._buffers, np.array([momentum, gain], f32)
        args = [
            *self._take("fluids wall"),
            self._same,
            *self._take(
                "material xp pressure fluid_fill fill xp2 index2 list list_range near solids"
            ),
            u32(self._solid_count),
            u32(self._field_bits),
            u32(self._known_bits),
            *self._of_bodies("bodies"),
            u32(self._rows),
            weights,
            f32(ATTRACTION_SHARE * self._tension),
            *(b[name if to_come > 0 else "pressure"] for name in ("coarse", "smooth")),
            f32(to_come),
        ]
        self._run_around(at_bodies, "compute_pressure", *args)
        self._known_bits = self._field_bits

    def _run_around(self, at_bodies: bool | None, name: str, *args: Any) -> None:
        """A pass over all clusters; or over a row of them that no body is near, then the others."""
        if at_bodies is False:
            self._ahead = self._free
        begin, end = self._ahead
        if at_bodies is False:
            self._run_lanes(name, *args, begin=begin, end=end)
        elif at_bodies:
            self._run_lanes(name, *args, end=begin)
            self._run_lanes(name, *args, begin=end)
        else:
            self._run_lanes(name, *args)

    def add_coarse(self, level: CoarseLevel, parts: int) -> float:
        b, n = self._buffers, self._rows
        if "coarse" not in b or b["coarse"].size < 4 * self.capacity:
            b["coarse"], b["smooth"] = (self._allocate(4 * self.capacity) for _ in range(2))
        if n == 0:
            return 0.0
        with (
            self._mapped("xp fill material") as (x, fill, material),
            self._mapped("coarse smooth", write=True) as out,
        ):
            phase = material.view(np.uint32)[:, 2]
            over = level.pressure(x, fill, material[:, 1], phase, parts, *out)
        self._run(self._program(), "add_coarse", n, *self._take("xp pressure coarse"), u32(n))
        return over

    def measure_error(self) -> None:
        self._run(
            self._program(),
            "sum_compression",
            self.tiles if self._rows else 0,
            *self._take("fill compression"),
            u32(self._rows),
            u32(self.tiles),
            group=1,
        )

    def density_error(self) -> tuple[float, float]:
        if self._rows == 0:
            return 0.0, 0.0
        rows = self._fetch("compression", np.float32, 2, self.tiles).astype(np.float64)
        return float(rows[:, 0].sum() / self._rows), float(rows[:, 1].max())

    def correct_positions(self, first: bool = True) -> None:
        b = self._buffers
        self._run_lanes(
            "correct_positions",
            *self._take("fluids wall reach"),
            self._same,
            *self._take(
                "material xp pressure fluid_fill fill xp2 push index2 list list_range near solids"
            ),
            u32(self._solid_count),
            u32(self._telling),
            u32(self._known_bits),
            *self._of_bodies("bodies back key key2", u32(self.capacity), u32(self._body_bits)),
            u32(self._rows),
            f32(self._tension if first else 0.0),
            u32(first),
        )
        b["xp"], b["xp2"] = b["xp2"], b["xp"]
        self._acted = BODY_SLOTS, False
        self._corrected = True

    def update_velocities(self, at_bodies: bool | None = None) -> None:
        self._run_around(
            at_bodies,
            "update_velocities",
            *self._take("material xp pressure push near x v solids"),
            u32(self._solid_count),
            *self._of_bodies(
                "bodies fluids back key key2",
                u32(self.capacity),
                u32(self._body_bits),
                u32(self._corrected),
            ),
            u32(self._holding_bits),
            u32(self._rows),
            f32(self._dt),
            f32(self._rest_speed),
            u32(self._stopped),
        )
        self._acted = BODY_SLOTS, False

    def apply_viscosity(self) -> None:
        b, passes = self._buffers, self.model.viscosity_passes
        for _ in range(passes):
            self._run_lanes(
                "apply_viscosity",
                b["fluids"],
                self._same,
                *self._take("material xp v fluid_fill xp2 list list_range"),
                u32(self._rows),
                f32(1 / passes),
            )
            b["v"], b["xp2"] = b["xp2"], b["v"]

    def compute_vorticity(self) -> None:
        if self._rows == 0:
            return
        b = self._buffers
        if "vorticity" not in b:
            b["vorticity"] = self._allocate(16 * self.capacity)
            self._cl.enqueue_fill_buffer(self.queue, b["vorticity"], f32(0), 0, 16 * self.capacity)
        self._run_lanes(
            "compute_vorticity",
            self._same,
            *self._take("material xp v vorticity list list_range"),
            u32(self._rows),
        )
        self._vorticity_rows = self._rows

    def apply_confinement(self) -> None:
        if self._rows == 0:
            return
        b = self._buffers
        self._run_lanes(
            "apply_confinement",
            b["fluids"],
            self._same,
            *self._take("material xp vorticity v list list_range"),
            u32(self._rows),
            f32(self._dt),
        )

    def remove(
        self,
        sinks: NDArray[np.float32],
        low: NDArray[np.float32],
        high: NDArray[np.float32],
        time: float,
        fields: Sequence[SparseField] = (),
    ) -> None:
        self._place_solids("sinks", sinks, fields)
        bounds = [np.append(np.clip(v, -3e38, 3e38), 0).astype(np.float32) for v in (low, high)]
        self._run(
            self._program(),
            "remove_particles",
            self._rows,
            *self._take("x sinks"),
            u32(len(sinks)),
            *bounds,
            f32(time),
            u32(self._rows),
        )
        self.survey()

    def survey(self) -> Survey:
        if self._rows == 0:
            return Survey(0.0, 0, None)
        self._run(
            self._program(),
            "survey",
            self.tiles,
            *self._take("x v bounds histogram"),
            u32(self._rows),
            u32(self.tiles),
            group=1,
        )
        sums = self._take("histogram bounds")
        self._run(self._program(), "sum_speeds", SPEED_BINS, *sums, u32(self.tiles))
        words = self._fetch("bounds", np.uint32, 1, 4 * self.tiles + SPEED_BINS)[:, 0]
        rows, speeds = words[: 4 * self.tiles].reshape(-1, 4), words[4 * self.tiles :]
        bad = int(rows[:, 1].min())
        self.count = self._rows - int(rows[:, 2].sum())
        self._living = None
        self._fastest = fastest = float(np.sqrt(rows[:, 0].view(np.float32).max()))
        return Survey(
            max_speed=fastest,
            bulk_speed=bulk_speed(speeds, fastest),
            count=self.count,
            bad_id=self._id_of(bad) if bad < self._rows else None,
        )

    def hold(self, ids: NDArray[np.uint32], velocities: NDArray[np.float32], slack: float) -> None:
        if len(ids) == 0:
            return
        self._fastest = math.inf
        rows = np.zeros((len(ids), 4), np.float32)
        rows[:, :3] = velocities
        self._run(
            self._program(),
            "hold_velocities",
            self._rows,
            *self._take("material v"),
            self._upload(ids.astype(np.uint32)),
            self._upload(rows),
            u32(len(ids)),
            u32(self._rows),
            f32(slack),
        )

    def positions_inside(self, boxes: NDArray[np.float32]) -> NDArray[np.float32]:
        b = self._buffers
        corners = np.zeros((len(boxes), 2, 4), np.float32)
        corners[:, :, :3] = boxes
        where = self._upload(corners)
        while True:
            room = b["gathered"].size // 16
            self._cl.enqueue_copy(self.queue, b["used"], np.zeros(2, np.uint32))
            self._run(
                self._program(),
                "gather_inside",
                self._rows,
                b["x"],
                where,
                u32(len(boxes)),
                *self._take("gathered used"),
                u32(room),
                u32(self._rows),
            )
            found = int(self._fetch("used", np.uint32, 1, 2)[0, 0])
            if found <= room:
                return self._fetch("gathered", np.float32, 4, found)[:, :3]
            b["gathered"] = self._allocate(16 * (found + found // 4))

    @property
    def listed(self) -> float:
        """Mean entries of a cluster's list in the last step; waits for the device."""
        if self._rows == 0:
            return 0.0
        ranges = self._fetch("list_range", np.uint32, 2, self._clusters)
        return float(np.mean(ranges[:, 1] & u32(0xFFFF)))

    def neighbor_lists(self) -> tuple[NDArray[np.uint32], ...]:
        """(range per cluster, particles, bits of the lanes they are in reach of): for tests."""
        ranges = self._fetch("list_range", np.uint32, 2, self._clusters)
        ranges[:, 1] &= u32(0xFFFF)  # above: how many are close
        entries = self._fetch("list", np.uint32, 1, self._list_capacity)[:, 0]
        return ranges, entries & u32(0xFFFFFF), entries >> u32(24)

    def synchronize(self) -> None:
        self.queue.finish()

    def close(self) -> None:
        self.queue.finish()
        for buffer in self._buffers.values():
            buffer.release()
        self._buffers.clear()
        self._programs.clear()
        self.capacity = self.count = self._rows = 0
