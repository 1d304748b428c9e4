"""The passes of a step on an OpenCL device. Kernels: ../kernels; layout: docs/decisions/0001."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .. import kernels
from ..errors import DeviceError, SimulationError
from ..particles import CAPACITIES
from ..solver.calibration import GAUSSIAN_WIDTH, WALL_SAMPLES, Calibration, kernel
from ..solver.model import Model
from .base import SOLID_COLUMNS, Survey

if TYPE_CHECKING:
    import pyopencl as cl

CLUSTER = 8
RADIX_BITS = 8
ROW_BITS = 5
FINE_BITS = 3
AXIS_BITS = 21  # of the Z-index (P004 6.2)
EXTENT_LIMIT = 1 << AXIS_BITS
NEVER = np.float32(3e38)  # expiry of what does not age

u32 = np.uint32
f32 = np.float32

# Rows of device arrays per particle: name -> (dtype, width). docs/decisions/0001 has the table.
STATE = {
    "x": (np.float32, 4),
    "v": (np.float32, 4),
    "material": (np.float32, 4),
    "xp": (np.float32, 4),
    "xp2": (np.float32, 4),
    "push": (np.float32, 4),
    "pressure": (np.float32, 1),
    "fill": (np.float32, 2),
    "key": (np.uint64, 1),
    "key2": (np.uint64, 1),
    "index": (np.uint32, 1),
    "index2": (np.uint32, 1),
}
KEPT = ("x", "v", "material", "fill")  # what growing must copy; the rest is remade every step


class OpenCLBackend:
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

        self._cl = cl
        self.queue = queue
        self.context = queue.context
        self.device = queue.device
        self.name = f"{self.device.name.strip()} ({self.device.platform.name.strip()})"
        self.model = model
        on_cpu = bool(self.device.type & cl.device_type.CPU)
        self.vector_lanes = on_cpu if vector_lanes is None else vector_lanes
        self.reorder_interval = max(1, reorder_interval)
        # A tile is one work-item of the serial passes (sort, sums): few and long on CPUs. The number
        # decides the order of sums, so it must not follow the number of threads.
        self.tiles = 32 if on_cpu else 512
        self.group = 8 if on_cpu else 64
        self._radii = set(kernel_radii)
        self._programs: dict[tuple[int, ...], dict[str, Any]] = {}
        self._buffers: dict[str, Any] = {}
        self.capacity = 0
        self.count = 0
        self._rows = 0  # with the dead
        self._living: NDArray[np.bool_] | None = None
        self._since_reorder = 0
        self._dt = 0.0
        self._rest_speed = 0.0
        self._solid_count = 0
        self._list_capacity = 0
        self.list_used = 0
        self._vorticity_rows = 0
        self._make_constants()
        self.set_solids(np.zeros((0, SOLID_COLUMNS), np.float32))

    # ---- memory -----------------------------------------------------------------------------------

    def _allocate(self, nbytes: int) -> Any:
        flags = self._cl.mem_flags
        try:
            return self._cl.Buffer(
                self.context, flags.READ_WRITE | flags.ALLOC_HOST_PTR, max(16, nbytes)
            )
        except self._cl.Error as error:
            raise DeviceError(
                f"{self.name}: {nbytes / 2**20:.0f} MB could not be allocated "
                f"({self.bytes / 2**20:.0f} MB in use for {self._rows} particles): {error}. "
                "Use a larger spacing, or a device with more memory."
            ) from error

    def _upload(self, values: NDArray[Any]) -> Any:
        values = np.ascontiguousarray(values)
        buffer = self._allocate(values.nbytes)
        if values.nbytes:
            self._cl.enqueue_copy(self.queue, buffer, values)
        return buffer

    @property
    def bytes(self) -> int:
        """Device memory in use."""
        return sum(buffer.size for buffer in self._buffers.values())

    @property
    def buffer_bytes(self) -> dict[str, int]:
        return {name: int(buffer.size) for name, buffer in self._buffers.items()}

    def _make_constants(self) -> None:
        m, c = self.model, self.model.calibration
        fluids = np.zeros((len(m.rest_density), 8), np.float32)
        columns = (m.rest_density, m.viscosity, m.attraction, m.tensile, m.vorticity)
        for k, column in enumerate(columns):
            fluids[:, k] = column
        self._buffers["fluids"] = self._upload(fluids)
        columns = (c.wall_fill, c.wall_slope, c.wall_shear, np.zeros_like(c.wall_fill))
        wall = np.stack(columns, axis=1).astype(np.float32)
        self._buffers["wall"] = self._upload(wall)
        self._buffers["bounds"] = self._allocate(self.tiles * 32)
        self._buffers["histogram"] = self._allocate(self.tiles * 4 << RADIX_BITS)
        self._buffers["used"] = self._allocate(8)
        self._buffers["forces"] = self._allocate(16)

    def _reserve(self, rows: int) -> None:
        """Room for `rows` particles and the ghost that ends lists, in predefined steps (P004 7)."""
        wanted = CAPACITIES[bisect_left(CAPACITIES, rows + CLUSTER)]
        if wanted <= self.capacity and wanted * 2 >= self.capacity:
            return
        old, kept = self._buffers, self._rows
        new = dict(old)
        for name, (dtype, width) in STATE.items():
            new.pop(name, None)
            buffer = self._allocate(wanted * np.dtype(dtype).itemsize * width)
            if kept and name in KEPT and name in old:
                size = kept * np.dtype(dtype).itemsize * width
                self._cl.enqueue_copy(self.queue, buffer, old[name], byte_count=size)
            new[name] = buffer
        clusters = wanted // CLUSTER + 1
        new["near"] = self._allocate(4 * clusters)
        new["list_range"] = self._allocate(8 * clusters)
        self._slots = 1 << math.ceil(math.log2(2 * wanted))
        new["cell_key"] = self._allocate(8 * self._slots)
        new["cell_range"] = self._allocate(8 * self._slots)
        new.pop("vorticity", None)
        self.queue.finish()
        self._buffers, self.capacity = new, wanted
        self._reserve_lists(wanted * 14)

    def _reserve_lists(self, entries: int) -> None:
        if entries > self._list_capacity or entries * 4 < self._list_capacity:
            self._buffers.pop("list", None)
            self._list_capacity = entries
            self._buffers["list"] = self._allocate(4 * entries)

    # ---- particles in and out ---------------------------------------------------------------------

    def load(self, channels: Mapping[str, NDArray[Any]]) -> None:
        self._rows = self.count = 0
        self.append(channels)

    def append(self, channels: Mapping[str, NDArray[Any]]) -> None:
        n = len(channels["position"])
        if n == 0:
            self._reserve(self._rows)
            return
        self._reserve(self._rows + n)
        x = np.zeros((n, 4), np.float32)
        x[:, :3] = channels["position"]
        x[:, 3] = np.minimum(channels.get("expiry", NEVER), NEVER)
        v = np.zeros((n, 4), np.float32)
        v[:, :3] = channels["velocity"]
        v[:, 3] = channels.get("pressure", 0.0)
        material = np.empty((n, 4), np.float32)
        material[:, 0] = channels["kernel_radius"]
        material[:, 1] = channels["volume"]
        material[:, 2:].view(np.uint32)[:, 0] = channels["phase"]
        material[:, 2:].view(np.uint32)[:, 1] = channels["id"]
        self._radii.update(float(h) for h in np.unique(material[:, 0]))
        fill = np.ones((n, 2), np.float32)
        for name, values in (("x", x), ("v", v), ("material", material), ("fill", fill)):
            offset = self._rows * values.shape[1] * 4
            self._cl.enqueue_copy(self.queue, self._buffers[name], values, dst_offset=offset)
        self._rows += n
        self.count += n
        self._living = None
        self._since_reorder = 0

    def _fetch(self, buffer: str, dtype: Any, width: int, rows: int | None = None) -> NDArray[Any]:
        out = np.empty((self._rows if rows is None else rows, width), dtype)
        if out.size:
            self._cl.enqueue_copy(self.queue, out, self._buffers[buffer])
        return out

    def _alive(self, values: NDArray[Any]) -> NDArray[Any]:
        if self.count == self._rows:
            return values
        if self._living is None:
            self._living = self._fetch("x", np.float32, 4)[:, 3] >= 0
        return values[self._living]

    def read(self, name: str) -> NDArray[Any]:
        columns: dict[str, tuple[str, Any, int, slice | int]] = {
            "position": ("x", np.float32, 4, slice(0, 3)),
            "expiry": ("x", np.float32, 4, 3),
            "velocity": ("v", np.float32, 4, slice(0, 3)),
            "pressure": ("v", np.float32, 4, 3),
            "kernel_radius": ("material", np.float32, 4, 0),
            "volume": ("material", np.float32, 4, 1),
            "phase": ("material", np.uint32, 4, 2),
            "id": ("material", np.uint32, 4, 3),
            "predicted": ("xp", np.float32, 4, slice(0, 3)),
            "change": ("xp", np.float32, 4, 3),
            "fluid_fill": ("fill", np.float32, 2, 0),
            "fill": ("fill", np.float32, 2, 1),
            "push": ("push", np.float32, 4, slice(0, 3)),
            "multiplier": ("pressure", np.float32, 1, 0),
            "vorticity": ("vorticity", np.float32, 4, slice(0, 3)),
        }
        if name == "vorticity" and self._vorticity_rows != self._rows:
            return np.zeros((self.count, 3), np.float32)
        buffer, dtype, width, part = columns[name]
        return self._alive(np.ascontiguousarray(self._fetch(buffer, dtype, width)[:, part]))

    def write(self, name: str, values: NDArray[Any]) -> None:
        target = {"position": ("x", slice(0, 3)), "velocity": ("v", slice(0, 3)),
                  "pressure": ("v", 3), "expiry": ("x", 3)}.get(name)
        if target is None:
            raise KeyError(f"channel {name!r} cannot be written")
        buffer, part = target
        rows = self._fetch(buffer, np.float32, 4)
        where = np.ones(self._rows, bool) if self.count == self._rows else self._living_mask()
        whole = rows[where]
        whole[:, part] = values
        rows[where] = whole
        self._cl.enqueue_copy(self.queue, self._buffers[buffer], rows)

    def _living_mask(self) -> NDArray[np.bool_]:
        self._living = self._fetch("x", np.float32, 4)[:, 3] >= 0
        return self._living

    # ---- programs ---------------------------------------------------------------------------------

    @property
    def _levels(self) -> int:
        if not self._radii:
            return 1
        ratio = max(self._radii) / min(self._radii)
        return 1 + min(6, int(math.log2(ratio * 1.0001)))

    @property
    def _list_max(self) -> int:
        """Neighbours of one cluster at most: large particles may lie among many small ones."""
        ratio = max(self._radii, default=1.0) / min(self._radii, default=1.0)
        return min(16384, 512 * math.ceil(ratio**self.model.calibration.dimensions + 1))

    def _program(self, *, fine: bool = True, indexed: bool = False) -> dict[str, Any]:
        mixed_sizes = len(self._radii) > 1
        key = (mixed_sizes, self._levels, self._list_max, fine, indexed)
        if key not in self._programs:
            program = self._cl.Program(self.context, kernels.source())
            flags = kernels.options(self._defines(mixed_sizes, fine, indexed))
            try:
                program.build(options=flags)
            except self._cl.RuntimeError as error:
                raise DeviceError(f"{self.name} could not build the kernels: {error}") from error
            self._programs[key] = {k.function_name: k for k in program.all_kernels()}
        return self._programs[key]

    def _defines(self, mixed_sizes: bool, fine: bool, indexed: bool) -> dict[str, int | float]:
        m, c = self.model, self.model.calibration
        return {
            "LANES_IN_VECTOR": int(self.vector_lanes),
            "DIMENSIONS": c.dimensions,
            "IGNORED_AXIS": m.ignored_axis,
            "MIXED_SIZES": int(mixed_sizes),
            "MIXED_FLUIDS": int(len(m.rest_density) > 1),
            "EXACT": int(m.exact),
            "LEVELS": self._levels,
            "FINE_BITS": FINE_BITS if fine else 0,
            "ROW_BITS": ROW_BITS,
            "RADIX_BITS": RADIX_BITS,
            "INDEXED": int(indexed),
            "LIST_MAX": self._list_max,
            "SOLID_COLUMNS": SOLID_COLUMNS,
            **kernel_defines(c),
        }

    def _run(self, program: dict[str, Any], name: str, items: int, *args: Any, group: int = 64) -> None:
        if items == 0:
            return
        size = -(-items // group) * group
        program[name](self.queue, (size,), (group,), *args)

    def _run_lanes(self, name: str, *args: Any) -> None:
        """A pass over clusters: a work-item each, or eight."""
        items = self._clusters * (1 if self.vector_lanes else CLUSTER)
        self._run(self._program(), name, items, *args, group=self.group)

    @property
    def _clusters(self) -> int:
        return -(-self._rows // CLUSTER)

    @property
    def _same(self) -> Any:
        h = max(self._radii, default=1.0)
        return np.array([h, (2 * h / self.model.calibration.support) ** self.model.calibration.dimensions], f32)

    # ---- the passes -------------------------------------------------------------------------------

    def set_solids(self, solids: NDArray[np.float32]) -> None:
        self._solid_count = len(solids)
        rows = solids if len(solids) else np.zeros((1, SOLID_COLUMNS), np.float32)
        if "solids" in self._buffers and self._buffers["solids"].size == rows.nbytes:
            self._cl.enqueue_copy(self.queue, self._buffers["solids"], np.ascontiguousarray(rows))
        else:
            self._buffers["solids"] = self._upload(rows.astype(np.float32))

    def predict(
        self, dt: float, gravity: NDArray[np.float32], forces: NDArray[np.float32]
    ) -> None:
        self._dt = dt
        self._rest_speed = 2 * dt * float(np.linalg.norm(gravity))
        if len(forces):
            self._buffers["forces"] = self._upload(forces.astype(np.float32))
        b = self._buffers
        g = np.append(gravity, 0).astype(np.float32)
        self._run(self._program(), "apply_forces", self._rows, b["x"], b["v"], b["forces"],
                  u32(len(forces)), g, u32(self._rows), f32(dt))

    def find_neighbors(self) -> None:
        if self._rows == 0:
            return
        low, bits = self._extent()
        dead = self._rows - self.count
        levels = self._levels
        axis_bits = max(bits + levels - 1, ROW_BITS)
        level_bits = (levels - 1).bit_length()
        fine = 3 * axis_bits + level_bits + FINE_BITS + 1 <= 64
        grid = np.zeros(1, np.dtype([("inverse", "f4"), ("low", "i4", 3), ("bits", "i4"), ("shift", "i4")]))
        grid["inverse"], grid["low"] = 1 / max(self._radii), low
        grid["bits"], grid["shift"] = bits, 3 * axis_bits
        key_bits = 3 * axis_bits + level_bits + (FINE_BITS if fine else 0)
        self._since_reorder -= 1
        reorder = self._since_reorder < 0 or dead > 0
        program = self._program(fine=fine, indexed=not reorder)
        self._sort(program, grid, min(64, key_bits + (dead > 0)))
        if reorder:
            self._since_reorder = self.reorder_interval - 1
            self._reorder(program)
        self._build_lists(program, grid)

    def _extent(self) -> tuple[list[int], int]:
        """Lowest cell and the bits per axis of all predicted positions."""
        b = self._buffers
        self._run(self._program(), "predicted_bounds", self.tiles, b["x"], b["v"], b["bounds"],
                  u32(self._rows), u32(self.tiles), f32(self._dt), f32(1 / max(self._radii)), group=1)
        rows = self._fetch("bounds", np.int32, 8, self.tiles)
        bad = int(rows[:, 6].min())
        if bad < self._rows:
            raise SimulationError(
                f"particle {self._id_of(bad)} has no finite position any more. Likely cause: "
                "a force or velocity far too large for the time step; use a shorter time_step."
            )
        low, high = rows[:, :3].min(axis=0), rows[:, 3:6].max(axis=0)
        span = int((high.astype(np.int64) - low).max()) + 1
        if span > EXTENT_LIMIT >> (self._levels - 1):
            raise SimulationError(
                f"the particles spread over {span} cells along an axis; at most "
                f"{EXTENT_LIMIT >> (self._levels - 1)} are possible. Give the scene a [domain] with "
                'mode = "kill", or a sink, for what flies away.'
            )
        return [int(c) for c in low], max(1, (span - 1).bit_length())

    def _id_of(self, row: int) -> int:
        return int(self._fetch("material", np.uint32, 4)[row, 3])

    def _sort(self, program: dict[str, Any], grid: Any, bits: int) -> None:
        b, n, tiles = self._buffers, u32(self._rows), u32(self.tiles)
        self._run(program, "make_keys", self._rows, b["x"], b["v"], b["material"], b["key"], b["index"],
                  n, f32(self._dt), grid)
        for shift in range(0, bits, RADIX_BITS):
            self._run(program, "sort_count", self.tiles, b["key"], b["histogram"], n, u32(shift), tiles, group=1)
            self._run(program, "sort_scan", 1, b["histogram"], tiles, group=1)
            self._run(program, "sort_scatter", self.tiles, b["key"], b["index"], b["key2"], b["index2"],
                      b["histogram"], n, u32(shift), tiles, group=1)
            b["key"], b["key2"] = b["key2"], b["key"]
            b["index"], b["index2"] = b["index2"], b["index"]

    def _reorder(self, program: dict[str, Any]) -> None:
        """Bring particles into sorted order; the dead, sorted last, are left behind."""
        b = self._buffers
        self._rows = self.count
        self._living = None
        for name in ("x", "v", "material"):
            self._run(program, "reorder", self._rows, b["index"], b[name], b["xp2"], u32(self._rows))
            b[name], b["xp2"] = b["xp2"], b[name]

    def _build_lists(self, program: dict[str, Any], grid: Any) -> None:
        b, n = self._buffers, self._rows
        padded = (n // CLUSTER + 1) * CLUSTER
        self._run(program, "place_predicted", padded, b["x"], b["v"], b["material"], b["xp"], b["xp2"], b["push"],
                  b["pressure"], b["fill"], u32(n), u32(padded), f32(self._dt), self._same)
        self._run(program, "clear_cells", self._slots, b["cell_key"], u32(self._slots))
        self._run(program, "fill_cells", n, b["key"], b["cell_key"], b["cell_range"], u32(n), u32(self._slots - 1))
        while True:
            self._cl.enqueue_copy(self.queue, b["used"], np.zeros(2, np.uint32))
            self._run(program, "build_lists", self._clusters, b["xp"], b["material"], b["index"], b["cell_key"],
                      b["cell_range"], b["list"], b["list_range"], b["near"], b["used"], b["solids"],
                      u32(self._solid_count), u32(n), u32(self._slots - 1), u32(self._list_capacity), grid, group=1)
            used, crowded = (int(v) for v in self._fetch("used", np.uint32, 1, 2)[:, 0])
            if crowded:
                raise SimulationError(
                    f"more than {self._list_max} neighbours around eight particles: the fluid has "
                    "collapsed onto itself. Likely cause: a time step too long, or overlapping sources."
                )
            self.list_used = used
            if used <= self._list_capacity:
                return
            self._reserve_lists(used + used // 4)

    def compute_pressure(self, momentum: float, gain: float) -> None:
        b = self._buffers
        weights = np.array([momentum, gain], f32)
        self._run_lanes("compute_pressure", b["fluids"], b["wall"], self._same, b["material"], b["xp"], b["pressure"],
                        b["fill"], b["list"], b["list_range"], b["near"], b["solids"], u32(self._solid_count),
                        u32(self._rows), weights)

    def density_error(self) -> tuple[float, float]:
        if self._rows == 0:
            return 0.0, 0.0
        b = self._buffers
        self._run(self._program(), "sum_compression", self.tiles, b["fill"], b["bounds"], u32(self._rows),
                  u32(self.tiles), group=1)
        rows = self._fetch("bounds", np.float32, 2, self.tiles).astype(np.float64)
        return float(rows[:, 0].sum() / self._rows), float(rows[:, 1].max())

    def correct_positions(self) -> None:
        b = self._buffers
        self._run_lanes("correct_positions", b["fluids"], b["wall"], self._same, b["material"], b["xp"], b["xp2"],
                        b["push"], b["list"], b["list_range"], b["near"], b["solids"], u32(self._solid_count),
                        u32(self._rows))
        b["xp"], b["xp2"] = b["xp2"], b["xp"]

    def update_velocities(self) -> None:
        b = self._buffers
        self._run(self._program(), "update_velocities", self._rows, b["material"], b["xp"], b["pressure"], b["push"],
                  b["near"], b["x"], b["v"], b["solids"], u32(self._solid_count), u32(self._rows), f32(self._dt),
                  f32(self._rest_speed))

    def apply_viscosity(self) -> None:
        b, passes = self._buffers, self.model.viscosity_passes
        for _ in range(passes):
            self._run_lanes("apply_viscosity", b["fluids"], self._same, b["material"], b["xp"], b["v"], b["fill"],
                            b["xp2"], b["list"], b["list_range"], u32(self._rows), f32(1 / passes))
            b["v"], b["xp2"] = b["xp2"], b["v"]

    def compute_vorticity(self) -> None:
        if self._rows == 0:
            return
        b = self._buffers
        if "vorticity" not in b:
            b["vorticity"] = self._allocate(16 * self.capacity)
        self._run_lanes("compute_vorticity", self._same, b["material"], b["xp"], b["v"], b["vorticity"], b["list"],
                        b["list_range"], u32(self._rows))
        self._vorticity_rows = self._rows

    def apply_confinement(self) -> None:
        b = self._buffers
        self._run_lanes("apply_confinement", b["fluids"], self._same, b["material"], b["xp"],
                  b["vorticity"], b["v"], b["list"], b["list_range"], u32(self._rows), f32(self._dt))

    def remove(
        self, sinks: NDArray[np.float32], low: NDArray[np.float32], high: NDArray[np.float32], time: float
    ) -> None:
        rows = sinks if len(sinks) else np.zeros((1, SOLID_COLUMNS), np.float32)
        self._buffers["sinks"] = self._upload(rows.astype(np.float32))
        b = self._buffers
        bounds = [np.append(np.clip(v, -3e38, 3e38), 0).astype(np.float32) for v in (low, high)]
        self._run(self._program(), "remove_particles", self._rows, b["x"], b["sinks"], u32(len(sinks)), *bounds,
                  f32(time), u32(self._rows))
        self.survey()

    def survey(self) -> Survey:
        if self._rows == 0:
            return Survey(0.0, 0.0, 0, None)
        b = self._buffers
        self._run(self._program(), "survey", self.tiles, b["fluids"], b["material"], b["x"], b["v"], b["bounds"],
                  u32(self._rows), u32(self.tiles), group=1)
        rows = self._fetch("bounds", np.float32, 4, self.tiles)
        bad = int(rows[:, 1].view(np.uint32).min())
        self.count = self._rows - int(rows[:, 2].view(np.uint32).sum())
        self._living = None
        return Survey(
            max_speed=float(np.sqrt(rows[:, 0].max())),
            pressure_rate=float(np.sqrt(rows[:, 3].max())),
            count=self.count,
            bad_id=self._id_of(bad) if bad < self._rows else None,
        )

    def neighbor_lists(self) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
        """(range per cluster, entries): for tests. Entries >= particles are padding."""
        ranges = self._fetch("list_range", np.uint32, 2, self._clusters)
        entries = self._fetch("list", np.uint32, 1, self._list_capacity)[:, 0]
        return ranges, entries

    def synchronize(self) -> None:
        self.queue.finish()

    def close(self) -> None:
        self.queue.finish()
        for buffer in self._buffers.values():
            buffer.release()
        self._buffers.clear()
        self._programs.clear()
        self.capacity = self.count = self._rows = 0


def kernel_defines(c: Calibration) -> dict[str, int | float]:
    """Constants of the smoothing kernels and the calibration, as the sources name them."""
    # Sources write kernels as polynomials of q; here is what stands before them.
    w, dw = kernel(c.kernel, c.dimensions)
    peak = float(w(np.zeros(1))[0])
    sharpness = 1 / GAUSSIAN_WIDTH**2
    if c.kernel == "gaussian":
        peak /= 1 - math.exp(-sharpness)
    slope = {
        "wendland": 20 * peak,
        "poly6": -float(dw(np.zeros(1))[0]),
        "cubic": peak,
        "gaussian": 2 * peak * sharpness,
    }[c.kernel]
    return {
        f"KERNEL_{c.kernel.upper()}": 1,
        "GAUSSIAN_SHARPNESS": sharpness,
        "GAUSSIAN_TAIL": math.exp(-sharpness),
        "W_SCALE": peak / c.lattice_fill,
        "SLOPE_SCALE": slope / c.lattice_fill,
        "STIFFNESS": float(c.stiffness),
        "RELAXATION": float(c.relaxation),
        "CURL_SCALE": float(c.curl_scale),
        "TENSILE_REFERENCE": float(c.tensile_reference),
        "TENSILE_OFFSET": float(c.tensile_offset),
        "SUPPORT": float(c.support),
        "WALL_SAMPLES": WALL_SAMPLES,
    }
