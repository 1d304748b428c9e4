"""Particles on the host: a structure of arrays (P004 section 7).

One array per channel, all with the same rows. A row is used or free; a used row is active or dead.
Ids are the stable references: rows move with `kill`, `compact`, `sort` and `add`, ids never do.

Capacity (docs/decisions/0002-particle-store.md):
- arrays only ever have a capacity of `CAPACITIES`;
- `kill` clears bits of a mask; dead rows are dropped once they exceed `DEAD_SHARE` of those used;
- when fewer than half of the rows are active, arrays shrink, leaving `HEADROOM` free rows where a
  lower capacity allows it, so that neighbouring adds and kills do not resize them again;
- a full store with few dead rows grows rather than compacts: compaction must free `RECLAIM`
  of the rows to be worth its cost.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from .errors import RunnelError

PAGE = 4096  # bytes
DEAD_SHARE = 1 / 4
HEADROOM = 1 / 3  # of the active particles
RECLAIM = 1 / 8
MAX_WIDTH = 16
_CHUNK = 1 << 16  # rows moved at a time
MAX_IDS = 2**32 - 1  # ids 0 .. 2^32 - 2; the last u32 stays free to mean "none"

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


def _capacities() -> tuple[int, ...]:
    """Steps of about 1.5 in multiples of 1024 rows, to above 1e9."""
    steps = [1024]
    while steps[-1] < 10**9:
        steps.append(-(-steps[-1] * 3 // 2048) * 1024)
    return tuple(steps)


CAPACITIES = _capacities()


class Allocator(Protocol):
    """Gives memory to the store. Memory is returned when the array is no longer referenced."""

    def allocate(self, nbytes: int) -> NDArray[np.uint8]:
        """Writable, contiguous, page-aligned array of at least nbytes bytes."""


class PageableAllocator:
    """Ordinary memory."""

    def allocate(self, nbytes: int) -> NDArray[np.uint8]:
        raw = np.empty(nbytes + PAGE, np.uint8)
        start = -raw.ctypes.data % PAGE
        return raw[start : start + nbytes]


@dataclass(frozen=True)
class Channel:
    """What a channel holds per particle. `default` fills rows that are given nothing."""

    name: str
    dtype: np.dtype[Any]
    width: int
    default: NDArray[Any]  # (width,) or ()

    @property
    def row_bytes(self) -> int:
        return self.dtype.itemsize * self.width

    def shape(self, rows: int) -> tuple[int, ...]:
        return (rows,) if self.width == 1 else (rows, self.width)

    def convert(self, values: ArrayLike, rows: int) -> NDArray[Any]:
        """Values broadcast to `rows` rows of this channel; refuses what would change meaning."""
        given = np.asarray(values)
        try:
            wide = np.broadcast_to(given, self.shape(rows))
        except ValueError:
            raise RunnelError(
                f"Channel {self.name!r}: values of shape {given.shape} do not fit "
                f"{self.shape(rows)}."
            ) from None
        return _cast(wide, self.dtype, f"Channel {self.name!r}")


def _cast(values: NDArray[Any], dtype: np.dtype[Any], what: str) -> NDArray[Any]:
    """Values as dtype. Fractions into integers and integers out of range are errors."""
    if values.dtype.kind not in "biuf":
        raise RunnelError(f"{what}: needs numbers, got {values.dtype}.")
    if dtype.kind in "iu" and values.size:
        limits = np.iinfo(dtype)
        if values.dtype.kind == "f":
            raise RunnelError(f"{what}: holds whole numbers ({dtype}), got {values.dtype}.")
        if int(values.min()) < limits.min or int(values.max()) > limits.max:
            raise RunnelError(f"{what}: a value lies outside {limits.min} .. {limits.max}.")
    with np.errstate(over="ignore"):  # too large for a small float: inf, as IEEE has it
        return values.astype(dtype, copy=False)


def _describe(name: str, dtype: DTypeLike, width: int, default: ArrayLike) -> Channel:
    """Check what add_channel was given."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise RunnelError(
            f"Channel name {name!r}: use up to 64 letters, digits and underscores, no digit first."
        )
    try:
        kind = np.dtype(dtype).newbyteorder("=")
    except TypeError:
        raise RunnelError(f"Channel {name!r}: {dtype!r} is not a type of number.") from None
    if kind.kind not in "iuf" or kind.itemsize > 8 or kind.subdtype is not None:
        raise RunnelError(
            f"Channel {name!r}: type {kind} is not allowed; use int8..64, uint8..64 or float16..64."
        )
    if isinstance(width, bool) or not isinstance(width, int) or not 1 <= width <= MAX_WIDTH:
        raise RunnelError(f"Channel {name!r}: width {width!r} must be 1 .. {MAX_WIDTH}.")
    given = np.asarray(default)
    if given.shape not in ((), (width,)):
        raise RunnelError(f"Channel {name!r}: default must be one number or {width}.")
    return Channel(name, kind, width, _cast(given, kind, f"Channel {name!r}").copy())


def _built_in() -> tuple[Channel, ...]:
    table: tuple[tuple[str, type, int, float], ...] = (
        ("id", np.uint32, 1, 0),
        ("position", np.float32, 3, 0.0),  # [m]
        ("velocity", np.float32, 3, 0.0),  # [m/s]
        ("volume", np.float32, 1, 0.0),  # rest volume d^D [m^D]
        ("kernel_radius", np.float32, 1, 0.0),  # h [m]
        ("phase", np.uint32, 1, 0),  # index of the fluid
        ("birth", np.float32, 1, 0.0),  # [s]
        ("expiry", np.float32, 1, np.inf),  # time of death [s], inf = never
    )
    return tuple(_describe(*row) for row in table)


class ParticleStore:
    """All particles of a simulation, by channel."""

    def __init__(self, allocator: Allocator | None = None, limit_bytes: int | None = None) -> None:
        """`limit_bytes`: growing beyond it is an error; None leaves it to the system."""
        self._allocator: Allocator = allocator or PageableAllocator()
        self._limit = limit_bytes
        self._capacity = CAPACITIES[0]
        self._used = 0
        self._dead = 0
        self._next_id = 0
        self._ascending = True  # ids rise with the row
        self._index: tuple[NDArray[np.uint32], NDArray[np.int64]] | None = None
        self._active = np.zeros(self._capacity, np.bool_)
        self._spec: dict[str, Channel] = {}
        self._data: dict[str, NDArray[Any]] = {}
        self.reallocations = 0
        for channel in _built_in():
            self._install(channel)

    # --- what is there -------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """Active particles."""
        return self._used - self._dead

    def __len__(self) -> int:
        return self.count

    @property
    def used(self) -> int:
        """Rows in use, dead ones included."""
        return self._used

    @property
    def capacity(self) -> int:
        """Rows the arrays have room for; one of CAPACITIES."""
        return self._capacity

    @property
    def next_id(self) -> int:
        """The id the next particle gets."""
        return self._next_id

    @property
    def bytes(self) -> int:
        """Memory held by all arrays."""
        return self._active.nbytes + sum(array.nbytes for array in self._data.values())

    @property
    def row_bytes(self) -> int:
        """Memory per row."""
        return 1 + sum(channel.row_bytes for channel in self._spec.values())

    @property
    def channels(self) -> tuple[str, ...]:
        return tuple(self._spec)

    def channel(self, name: str) -> Channel:
        """Type, width and default of a channel."""
        try:
            return self._spec[name]
        except KeyError:
            raise RunnelError(
                f"There is no channel {name!r}; there are {', '.join(self._spec)}."
            ) from None

    def __contains__(self, name: object) -> bool:
        return name in self._spec

    # --- reading and writing -------------------------------------------------------------------

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Copy of a channel, active particles only: (count,) or (count, width)."""
        rows = self._rows(name)
        return rows[self._active[: self._used]] if self._dead else rows.copy()

    def rows(self, name: str) -> NDArray[Any]:
        """The memory itself, dead rows included: (used,) or (used, width). Ids are read-only.

        Valid until particles or channels are added, killed, sorted or moved.
        """
        view = self._rows(name).view()
        view.flags.writeable = name != "id"
        return view

    @property
    def active(self) -> NDArray[np.bool_]:
        """Which of the used rows are active; read-only."""
        view = self._active[: self._used].view()
        view.flags.writeable = False
        return view

    def write(self, name: str, ids: ArrayLike, values: ArrayLike) -> None:
        """Set a channel of the particles with these ids."""
        channel = self._writable(name)
        rows = self.rows_of(ids)
        self._data[name][rows] = channel.convert(values, len(rows))

    def rows_of(self, ids: ArrayLike) -> NDArray[np.int64]:
        """Rows of active particles by id. An id that is dead or was never given is an error."""
        wanted, rows, found = self._locate(ids)
        if not found.all():
            missing = wanted[~found]
            raise RunnelError(
                f"There is no active particle with id {missing[0]} ({len(missing)} of "
                f"{len(wanted)} ids not found)."
            )
        return rows

    def has(self, ids: ArrayLike) -> NDArray[np.bool_]:
        """Whether there is an active particle of each id."""
        return self._locate(ids)[2]

    # --- changing ------------------------------------------------------------------------------

    def add_channel(
        self, name: str, dtype: DTypeLike, width: int = 1, default: ArrayLike = 0
    ) -> None:
        """Add a channel; particles that are there already take its default."""
        channel = _describe(name, dtype, width, default)
        if name in self._spec:
            raise RunnelError(f"There is a channel {name!r} already.")
        self._check_limit(self._capacity, self.row_bytes + channel.row_bytes)
        self._install(channel)

    def add(self, n: int, /, **values: ArrayLike) -> NDArray[np.uint32]:
        """Add n particles and return their ids, which rise and are never used again.

        Values are per particle, or one for all; channels left out take their default.
        """
        if n < 0:
            raise RunnelError(f"Cannot add {n} particles.")
        if self._next_id + n > MAX_IDS:
            raise RunnelError(
                f"All particle ids are used up: {self._next_id} were given and {n} more are "
                f"wanted, {MAX_IDS} is the most. Start a new simulation from the last frame."
            )
        rows = {name: self._writable(name).convert(v, n) for name, v in values.items()}
        self._make_room(n)
        ids = np.arange(self._next_id, self._next_id + n, dtype=np.uint32)
        self._append(n, rows, ids)
        self._next_id += n
        return ids

    def kill(self, rows: ArrayLike) -> int:
        """Kill particles by row (numbers, or a mask over the used rows); returns how many died.

        May compact and shrink: rows known before are not valid afterwards.
        """
        before = self._dead
        self._active[: self._used][self._checked_rows(rows)] = False
        self._dead = self._used - int(np.count_nonzero(self._active[: self._used]))
        killed = self._dead - before
        self._tidy()
        return killed

    def keep(self, ids: ArrayLike) -> int:
        """Kill all particles but these; returns how many died."""
        mask = np.ones(self._used, np.bool_)
        mask[self.rows_of(ids)] = False
        return self.kill(mask)

    def compact(self) -> None:
        """Drop dead rows; the others keep their order. Shrinks where occupancy allows."""
        target = self._shrunk()
        if self._dead or target != self._capacity:
            self._rebuild(target)

    def sort(self, order: ArrayLike) -> None:
        """Reorder: row k becomes what was the order[k]-th active particle. Drops dead rows."""
        taken = np.asarray(order)
        if taken.shape != (self.count,) or (taken.size and taken.dtype.kind not in "iu"):
            raise RunnelError(f"An order of {self.count} whole numbers is needed to sort.")
        seen = np.zeros(self.count, np.bool_)
        inside = (taken >= 0) & (taken < self.count)
        seen[taken[inside].astype(np.int64)] = True
        if not seen.all():
            raise RunnelError("The order to sort by must name each active particle once.")
        self.compact()
        taken = taken.astype(np.int64)
        for array in self._data.values():
            array[: self._used] = array[: self._used][taken]
        self._index = None
        ids = self._rows("id")
        self._ascending = bool(np.all(ids[1:] > ids[:-1]))

    def move_to(self, allocator: Allocator | None) -> None:
        """Copy all channels into memory of another allocator; None is ordinary memory.

        If memory runs out, channels not yet moved stay where they are and nothing is lost.
        """
        target: Allocator = allocator or PageableAllocator()
        for name, channel in self._spec.items():
            fresh = self._new_array(channel, self._capacity, target)
            fresh[: self._used] = self._rows(name)
            self._data[name] = fresh
        self._allocator = target

    def restore(self, values: Mapping[str, ArrayLike], next_id: int | None = None) -> None:
        """Replace all particles by stored ones, `id` among the values; the rest as in `add`.

        `next_id` is what it was when they were stored; by default the highest id plus one.
        """
        given = np.atleast_1d(np.asarray(values.get("id", ())))
        n = given.size
        ids = self._spec["id"].convert(given.reshape(n).astype(np.int64), n)
        above = int(ids.max()) + 1 if n else 0
        next_id = above if next_id is None else next_id
        if len(np.unique(ids)) != n or not above <= next_id <= MAX_IDS:
            raise RunnelError("Stored ids must differ from each other and lie below next_id.")
        rows = {
            name: self._writable(name).convert(v, n) for name, v in values.items() if name != "id"
        }
        if n > self._capacity:
            self._check_limit(_at_least(n), self.row_bytes)
            self._resize(_at_least(n))
        self._used = self._dead = 0
        self._append(n, rows, ids)
        self._next_id = next_id
        self._ascending = bool(np.all(ids[1:] > ids[:-1]))
        self._tidy()

    # --- inside --------------------------------------------------------------------------------

    def _rows(self, name: str) -> NDArray[Any]:
        self.channel(name)  # names the channels there are if this is none
        return self._data[name][: self._used]

    def _writable(self, name: str) -> Channel:
        if name == "id":
            raise RunnelError("Ids are given by the store and cannot be set.")
        return self.channel(name)

    def _locate(
        self, ids: ArrayLike
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
        """The ids as int64, their rows (any where not found), and which were found."""
        given = np.atleast_1d(np.asarray(ids))
        if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
            raise RunnelError("Ids are whole numbers in one row.")
        wanted = given.astype(np.int64)
        held = self._rows("id")
        if not self._used:
            return wanted, np.zeros_like(wanted), np.zeros(wanted.shape, np.bool_)
        first = int(held[0])
        if self._ascending and int(held[-1]) - first + 1 == self._used:
            rows = wanted - first  # no gaps: ids are rows
            found = (rows >= 0) & (rows < self._used)
            rows[~found] = 0
        else:
            # Keys of the same type as the ids, else searchsorted converts all of them.
            valid = (wanted >= 0) & (wanted < MAX_IDS)
            keys = np.where(valid, wanted, 0).astype(np.uint32)
            ordered, rows_in_order = self._id_index()
            place = np.minimum(np.searchsorted(ordered, keys), self._used - 1)
            rows = place if rows_in_order is None else rows_in_order[place]
            found = valid & (ordered[place] == keys)
        return wanted, rows, found & self._active[rows]

    def _id_index(self) -> tuple[NDArray[np.uint32], NDArray[np.int64] | None]:
        """Ids in rising order, and their rows (None: the rows themselves)."""
        if self._ascending:
            return self._rows("id"), None
        if self._index is None:
            rows = np.argsort(self._rows("id"), kind="stable")
            self._index = self._rows("id")[rows], rows
        return self._index

    def _checked_rows(self, rows: ArrayLike) -> NDArray[Any]:
        given: NDArray[Any] = np.atleast_1d(np.asarray(rows))
        if not given.size:
            return np.zeros(0, np.int64)
        if given.dtype == np.bool_ and given.shape == (self._used,):
            return given
        if given.dtype.kind not in "iu" or int(given.min()) < 0 or int(given.max()) >= self._used:
            raise RunnelError(f"Rows must be numbers below {self._used}, or a mask of that length.")
        return given.astype(np.int64)

    def _append(self, n: int, rows: Mapping[str, NDArray[Any]], ids: NDArray[np.uint32]) -> None:
        """Write n rows behind those used; there is room."""
        end = self._used + n
        for name, channel in self._spec.items():
            self._data[name][self._used : end] = rows.get(name, channel.default)
        self._data["id"][self._used : end] = ids
        self._active[self._used : end] = True
        self._used = end
        self._index = None

    def _tidy(self) -> None:
        if self._dead > self._used * DEAD_SHARE or self._shrunk() != self._capacity:
            self.compact()

    def _shrunk(self) -> int:
        """Capacity to go down to: the present one while at least half of it is active."""
        target = self._capacity
        if 2 * self.count < target:
            target = min(target, _at_least(self.count + int(self.count * HEADROOM)))
        while 2 * self.count < target > CAPACITIES[0]:
            target = CAPACITIES[CAPACITIES.index(target) - 1]
        return target

    def _make_room(self, n: int) -> None:
        """Free rows for n more particles."""
        if self._used + n <= self._capacity:
            return
        wanted = self.count + n
        larger = _at_least(max(wanted, self._capacity + 1))
        worthwhile = self._dead >= RECLAIM * self._capacity or 2 * wanted < larger
        if wanted <= self._capacity and worthwhile:
            self._drop_dead()
            return
        self._check_limit(larger, self.row_bytes)
        self._drop_dead()
        self._resize(larger)

    def _rebuild(self, capacity: int) -> None:
        self._drop_dead()
        if capacity != self._capacity:
            try:
                self._resize(capacity)
            except RunnelError:
                if capacity > self._capacity:
                    raise
                # No memory for a smaller copy: keep the larger arrays.

    def _drop_dead(self) -> None:
        """Move active rows down in place; needs next to no memory, so it cannot fail half-way."""
        if not self._dead:
            return
        source = np.flatnonzero(self._active[: self._used])
        settled = int(np.argmin(self._active[: self._used]))  # rows before the first dead one stay
        for array in self._data.values():
            for start in range(settled, len(source), _CHUNK):
                # A row only moves down, so later chunks never read what was written here.
                part = source[start : start + _CHUNK]
                array[start : start + len(part)] = array[part]
        self._used, self._dead = len(source), 0
        self._active[: self._used] = True
        self._index = None

    def _resize(self, capacity: int) -> None:
        """Give all arrays a capacity, one by one: at most one channel is held twice."""
        self.reallocations += 1
        try:
            for name, channel in self._spec.items():
                if len(self._data[name]) != capacity:
                    fresh = self._new_array(channel, capacity, self._allocator)
                    fresh[: self._used] = self._rows(name)
                    self._data[name] = fresh
            active = np.zeros(capacity, np.bool_)
            active[: self._used] = self._active[: self._used]
            self._active = active
        finally:
            # After a failure arrays may differ; what all of them have is what can be used.
            self._capacity = min(len(self._active), *map(len, self._data.values()))

    def _install(self, channel: Channel) -> None:
        array = self._new_array(channel, self._capacity, self._allocator)
        array[: self._used] = channel.default
        self._data[channel.name] = array
        self._spec[channel.name] = channel

    def _new_array(self, channel: Channel, capacity: int, allocator: Allocator) -> NDArray[Any]:
        nbytes = capacity * channel.row_bytes
        try:
            raw = allocator.allocate(nbytes)
        except MemoryError:
            raise RunnelError(
                f"Out of memory: channel {channel.name!r} needs {nbytes / 2**20:.0f} MB for "
                f"{capacity} particles, all channels {capacity * self.row_bytes / 2**20:.0f} MB. "
                "Use a larger spacing, fewer channels, or sinks and lifetimes."
            ) from None
        if raw.dtype != np.uint8 or raw.ndim != 1 or raw.size < nbytes or not raw.flags.writeable:
            raise RunnelError(f"{type(allocator).__name__} did not give {nbytes} writable bytes.")
        return raw[:nbytes].view(channel.dtype).reshape(channel.shape(capacity))

    def _check_limit(self, capacity: int, row_bytes: int) -> None:
        wanted = capacity * row_bytes
        if self._limit is not None and wanted > self._limit:
            raise RunnelError(
                f"{capacity} particles need {wanted / 2**20:.0f} MB on the host, the limit is "
                f"{self._limit / 2**20:.0f} MB. Raise the limit or use a larger spacing."
            )


def _at_least(rows: int) -> int:
    """Smallest capacity with so many rows."""
    for capacity in CAPACITIES:
        if capacity >= rows:
            return capacity
    raise RunnelError(f"{rows} particles are wanted, {CAPACITIES[-1]} is the most.")
