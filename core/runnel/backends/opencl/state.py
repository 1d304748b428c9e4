"""Particles on a device: buffers that grow in steps, channels in and out."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...errors import DeviceError
from ...particles import CAPACITIES
from ...solver.model import Model
from ..base import FIELD, SOLID_COLUMNS, Later, same_layouts
from .program import CLUSTER, SLOT

if TYPE_CHECKING:
    import pyopencl as cl

    from ...fields.grid import SparseField

NEVER = np.float32(3e38)  # stands for inf, which fast-math kernels may not compare

# Rows of device arrays per particle: name -> (dtype, width). docs/decisions/0001 has the table.
STATE = {
    "x": (np.float32, 4),
    "v": (np.float32, 4),
    "material": (np.float32, 4),
    "xp": (np.float32, 4),
    "xp2": (np.float32, 4),
    "push": (np.float32, 4),
    "pressure": (np.float32, 1),
    "fluid_fill": (np.float32, 1),
    "fill": (np.float32, 1),
    "key": (np.uint64, 1),
    "key2": (np.uint64, 1),  # of the sort; after it, beside bodies, sums of corrections
    "index": (np.uint32, 1),
    "index2": (np.uint32, 1),  # of the sort; after it, how far particles are from fields
}
KEPT = (
    "x",
    "v",
    "material",
    "fluid_fill",
    "fill",
)  # what growing must copy; the rest is remade every step


# What `read` gives: buffer, dtype, width, columns.
CHANNELS: dict[str, tuple[str, Any, int, slice | int]] = {
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
    "fluid_fill": ("fluid_fill", np.float32, 1, 0),
    "fill": ("fill", np.float32, 1, 0),
    "push": ("push", np.float32, 4, slice(0, 3)),
    "multiplier": ("pressure", np.float32, 1, 0),
    "vorticity": ("vorticity", np.float32, 4, slice(0, 3)),
}


@dataclass(frozen=True)
class Placed:
    """Fields on the device, behind the rows of a table of solids."""

    fields: tuple[SparseField, ...] = ()
    starts: list[int] = field(default_factory=list)  # words; the end of the last one too
    moving: list[int] = field(default_factory=list)  # where fields.packed.moving_words go
    count: int = -1  # rows ahead of them
    table: bytes = b""  # those rows


NOTHING_PLACED = Placed()


def words_of_floats(values: NDArray[np.float32]) -> NDArray[np.uint32]:
    return np.ascontiguousarray(values, np.float32).reshape(-1).view(np.uint32)


class DeviceState:
    """Buffers of one device and the particles in them."""

    def __init__(self, model: Model, queue: cl.CommandQueue, tiles: int, radix_bits: int) -> None:
        import pyopencl as cl

        self._cl = cl
        self.queue = queue
        self.context = queue.context
        self.device = queue.device
        self.name = f"{self.device.name.strip()} ({self.device.platform.name.strip()})"
        self.model = model
        self.tiles = tiles
        self.radix_bits = radix_bits
        self._radii: set[float] = set()
        self._buffers: dict[str, Any] = {}
        self._placed: dict[str, Placed] = {}  # of tables of solids
        self._sent: dict[tuple[str, int], Any] = {}  # the last copies to buffers, by offset
        self.capacity = 0
        self.count = 0
        self._rows = 0  # with the dead
        self._living: NDArray[np.bool_] | None = None
        self._fastest = math.inf  # no particle moves faster [m/s]
        self._list_capacity = 0
        self._vorticity_rows = -1  # rows it was computed for
        self._until_reorder = 0  # steps until all data is reordered again
        self._make_constants()

    # ---- memory ----------------------------------------------------------------------------------

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
        tables = (c.wall_fill, c.wall_slope, c.wall_shear, np.zeros_like(c.wall_fill))
        wall = np.stack(tables, axis=1).astype(np.float32)
        self._buffers["wall"] = self._upload(wall)
        places = [[k for k in range(8) if byte >> k & 1] for byte in range(256)]
        set_bits = np.array([bytes(p).ljust(8, b"\0") for p in places]).view(np.uint64)
        self._buffers["set_bits"] = self._upload(set_bits)
        self._buffers["bounds"] = self._allocate(self.tiles * 32)
        self._buffers["compression"] = self._allocate(self.tiles * 8)
        self._buffers["histogram"] = self._allocate(self.tiles * 4 << self.radix_bits)
        self._buffers["used"] = self._allocate(16)
        self._buffers["forces"] = self._allocate(16)
        self._buffers["gathered"] = self._allocate(16 * 1024)

    def _place_solids(
        self, name: str, rows: NDArray[np.float32], fields: Sequence[SparseField]
    ) -> None:
        """Rows of solids and, behind them, their fields, which go to the device only if they are
        not there yet. A row says how many words from itself its fields begin."""
        count = max(1, len(rows))
        placed = self._placed.get(name, NOTHING_PLACED)
        if placed.count != count or not same_layouts(placed.fields, fields):
            placed = self._place_fields(name, fields, count)
        elif fields:
            placed = self._move_fields(name, fields, placed)
        table = np.zeros((count, SOLID_COLUMNS), np.float32)
        table[: len(rows)] = rows
        for i in np.flatnonzero(table[:, 0] == FIELD):
            ahead = (count - int(i)) * SOLID_COLUMNS
            for column in (26, 27):
                start = placed.starts[int(rows[i, column])]
                table[i, column : column + 1].view(np.uint32)[0] = ahead + start
            number = int(rows[i, 26])
            yields = fields[number].yields
            if yields is not None:
                start = placed.starts[number + 1] - yields.size
                table[i, 29:30].view(np.uint32)[0] = ahead + start
        if table.tobytes() != placed.table:  # most solids stand still
            self._send(name, table)
        self._placed[name] = replace(placed, table=table.tobytes())

    def _place_fields(self, name: str, fields: Sequence[SparseField], count: int) -> Placed:
        words: NDArray[np.uint32] = np.zeros(0, np.uint32)
        starts: list[int] = []
        if fields:
            from ...fields.packed import pack

            words, starts = pack(fields)
        self._buffers.pop(name, None)
        self._buffers[name] = self._allocate(4 * (count * SOLID_COLUMNS + len(words)))
        if len(words):
            offset = 4 * count * SOLID_COLUMNS
            self._cl.enqueue_copy(self.queue, self._buffers[name], words, dst_offset=offset)
        moving = [start + int(words[start + 10]) for start in starts]
        return Placed(tuple(fields), [*starts, len(words)], moving, count)

    def _move_fields(self, name: str, fields: Sequence[SparseField], placed: Placed) -> Placed:
        """Those whose surface has moved a little: only what that changes goes to the device."""
        from ...fields.packed import moving_words

        first = placed.count * SOLID_COLUMNS
        for n, (old, new) in enumerate(zip(placed.fields, fields, strict=True)):
            if old is new:
                continue
            parts = [(placed.moving[n], moving_words(new))]
            if new.yields is not None and new.yields is not old.yields:
                parts.append((placed.starts[n + 1] - new.yields.size, words_of_floats(new.yields)))
            for start, words in parts:
                self._send(name, words, 4 * (first + start))
        return replace(placed, fields=tuple(fields))

    def _reserve(self, rows: int) -> None:
        """Room for `rows` particles and ghosts, in steps (P004 7)."""
        wanted = CAPACITIES[bisect_left(CAPACITIES, rows + 2 * CLUSTER)]
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
        new.pop("vorticity", None)
        self.queue.finish()
        self._buffers, self.capacity = new, wanted
        self._reserve_lists(wanted * 14)
        self._reserve_rows(wanted // 32)

    def _reserve_lists(self, entries: int) -> None:
        if entries > self._list_capacity or entries * 4 < self._list_capacity:
            self._buffers.pop("list", None)
            self._list_capacity = entries
            self._buffers["list"] = self._allocate(4 * entries)

    def _reserve_rows(self, rows: int) -> None:
        """A table for so many rows of cells and as many again; spray has a row per particle."""
        self._slots = 1 << math.ceil(math.log2(4 * max(16, rows)))
        self._buffers["rows"] = self._allocate(4 * SLOT * (self._slots + 1))

    # ---- particles in and out --------------------------------------------------------------------

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
        full = np.ones((n, 1), np.float32)
        for name, values in zip(KEPT, (x, v, material, full, full), strict=True):
            offset = self._rows * values.shape[1] * 4
            self._cl.enqueue_copy(self.queue, self._buffers[name], values, dst_offset=offset)
        self._rows += n
        self.count += n
        self._living = None
        self._fastest = math.inf
        self._until_reorder = 0
        self._vorticity_rows = -1

    @property
    def until_reorder(self) -> int:
        return self._until_reorder if self.count == self._rows else 0  # the dead force one

    @until_reorder.setter
    def until_reorder(self, steps: int) -> None:
        self._until_reorder = steps

    def _fetch(self, buffer: str, dtype: Any, width: int, rows: int | None = None) -> NDArray[Any]:
        return self._fetch_later(buffer, dtype, width, rows)()

    def _fetch_later(
        self, buffer: str, dtype: Any, width: int, rows: int | None = None
    ) -> Later[NDArray[Any]]:
        """Rows as they will be once the device has done all it was asked for so far."""
        out = np.empty((self._rows if rows is None else rows, width), dtype)
        if not out.size:
            return lambda: out
        source = self._buffers[buffer]
        copying = self._cl.enqueue_copy(self.queue, out, source, is_blocking=False)

        def waited() -> NDArray[Any]:
            copying.wait()
            return out

        return waited

    def _send(self, name: str, values: NDArray[Any], offset: int = 0) -> None:
        """To the device behind what it was asked for, without waiting; nobody changes `values`."""
        copying = self._cl.enqueue_copy(
            self.queue, self._buffers[name], values, dst_offset=offset, is_blocking=False
        )
        self._sent[name, offset] = copying  # which holds the values; letting go of it waits

    @contextmanager
    def _mapped(self, names: str, *, write: bool = False) -> Iterator[list[NDArray[np.float32]]]:
        """Buffers of four floats a row, or one, as the host sees them: in place where it shares
        memory with the device. With `write` the rows start out undefined.
        """
        flags = self._cl.map_flags
        flag = flags.WRITE_INVALIDATE_REGION if write else flags.READ
        found = []
        for name in names.split():
            width = self._buffers[name].size // (4 * self.capacity)
            shape = (self._rows, 4) if width >= 4 else (self._rows,)
            enqueue: Any = self._cl.enqueue_map_buffer
            found.append(enqueue(self.queue, self._buffers[name], flag, 0, shape, np.float32)[0])
        try:
            yield found
        finally:
            for array in found:
                array.base.release(self.queue)

    def _alive(self, values: NDArray[Any]) -> NDArray[Any]:
        if self.count == self._rows:
            return values
        if self._living is None:
            self._living = self._fetch("x", np.float32, 4)[:, 3] >= 0
        return values[self._living]

    def read(self, name: str) -> NDArray[Any]:
        if name == "vorticity" and self._vorticity_rows != self._rows:
            return np.zeros((self.count, 3), np.float32)
        buffer, dtype, width, part = CHANNELS[name]
        rows = self._fetch(buffer, dtype, width)
        if name == "push":  # written near solids only
            near = self._fetch("near", np.uint32, 1, len(rows) // CLUSTER + 1)
            rows[np.repeat(near[:, 0] == 0, CLUSTER)[: len(rows)]] = 0
        values = self._alive(np.ascontiguousarray(rows[:, part]))
        if name == "expiry":
            values[values >= NEVER] = np.inf
        return values

    def write(self, name: str, values: NDArray[Any]) -> None:
        target = {
            "position": ("x", slice(0, 3)),
            "velocity": ("v", slice(0, 3)),
            "pressure": ("v", 3),
            "expiry": ("x", 3),
        }.get(name)
        if target is None:
            raise KeyError(f"channel {name!r} cannot be written")
        buffer, part = target
        rows = self._fetch(buffer, np.float32, 4)
        where = np.ones(self._rows, bool) if self.count == self._rows else self._living_mask()
        whole = rows[where]
        whole[:, part] = np.minimum(values, NEVER) if name == "expiry" else values
        rows[where] = whole
        self._cl.enqueue_copy(self.queue, self._buffers[buffer], rows)
        self._fastest = math.inf

    def _living_mask(self) -> NDArray[np.bool_]:
        self._living = self._fetch("x", np.float32, 4)[:, 3] >= 0
        return self._living
