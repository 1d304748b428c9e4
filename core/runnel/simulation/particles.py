"""Particles: what users read and write of a simulation, and how it meets the device.

The host's store has a row for every particle and all that never changes on the device; positions
and velocities come back when they are asked for, and at the end of each frame. What is derived is
computed when it is asked for. Everything is in rising order of ids.

What is born at the end of a step waits in the store until the next one begins: on the device it
would come between its neighbours, who are known for those of the step only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ..backends.base import SOLVER_CHANNELS, Backend
from ..errors import RunnelError
from ..params import CHANNELS
from ..particles import ParticleStore
from ..solver.model import Model
from ..sources import MassLedger
from .clock import Clock

Array = NDArray[Any]

MOVING = ("position", "velocity")  # the channels that the device changes
DERIVED = ("radius", "mass", "density", "age", "vorticity", "pressure")


class Particles:
    """The active particles of a simulation."""

    def __init__(
        self,
        store: ParticleStore,
        backend: Backend,
        model: Model,
        clock: Clock,
        ledger: MassLedger,
    ) -> None:
        self._store = store
        self._backend = backend
        self._model = model
        self._clock = clock
        self._ledger = ledger
        backend.load(
            {name: np.zeros((0, width), t) for name, (t, width) in SOLVER_CHANNELS.items()}
        )
        self._own = frozenset(store.channels)  # those that users did not add
        self.edited = False  # by users, since the simulation last looked
        self._live = True  # the device holds what the store does, or newer
        self._ids: NDArray[np.uint32] | None = None  # in the device's order
        self._fresh: set[str] = set()  # channels of the store that are up to date
        self._given: dict[str, Array] = {}  # restored ones that the device cannot know, by id
        self._waiting = np.zeros(0, np.uint32)  # ids of what the device does not have yet

    # --- for users -----------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """Active particles."""
        return self._backend.count + len(self._waiting) if self._live else self._store.count

    def __len__(self) -> int:
        return self.count

    @property
    def channels(self) -> tuple[str, ...]:
        """Names of all channels, those that users added last."""
        return (*CHANNELS, *self.user_channels)

    @property
    def user_channels(self) -> tuple[str, ...]:
        return tuple(name for name in self._store.channels if name not in self._own)

    def __contains__(self, name: object) -> bool:
        return name in self._store or name in DERIVED

    def __getitem__(self, name: str) -> Array:
        """Copy of a channel, active particles in rising order of ids: (n,) or (n, width)."""
        if self._live:
            self.settle()
        if name in MOVING:
            self._pull(name)
        if name in self._store:
            return self._store[name]
        if name not in DERIVED:
            raise RunnelError(
                f"There is no channel {name!r}; there are {', '.join(self.channels)}."
            )
        derive: Callable[[], Array] = getattr(self, f"_{name}")
        return derive()

    def add_channel(
        self, name: str, dtype: DTypeLike, width: int = 1, default: ArrayLike = 0
    ) -> None:
        """Add a channel of one's own; it follows the particles, new ones take the default."""
        if name in DERIVED:
            raise RunnelError(f"There is a channel {name!r} already.")
        self._store.add_channel(name, dtype, width, default)

    def write(self, name: str, ids: ArrayLike, values: ArrayLike) -> None:
        """Set a channel of particles by id: position, velocity, or one that users added."""
        if name not in MOVING and name not in self.user_channels:
            raise RunnelError(
                f"Channel {name!r} cannot be written; {', '.join(MOVING)} and channels added by "
                "add_channel can."
            )
        if self._live:
            self.settle()
        if name not in MOVING:
            self._store.write(name, ids, values)
            return
        if not self._live:
            raise RunnelError("The simulation has ended: its particles can be read only.")
        self._pull(name)
        self._store.write(name, ids, values)
        self._backend.write(name, self._store.rows(name)[self._store.rows_of(self._device_ids())])
        self.edited = True

    # --- for the simulation --------------------------------------------------------------------

    @property
    def store(self) -> ParticleStore:
        return self._store

    def born(self, source: str, births: Mapping[str, Array]) -> NDArray[np.uint32]:
        """Add particles to the store and to the books; their ids. They wait for `hand_over`."""
        self._ledger.add(source, births)
        ids = self._store.add(len(births["phase"]), **births)
        self._waiting = np.concatenate((self._waiting, ids))
        return ids

    def hand_over(self) -> None:
        """Give the device what waits."""
        if len(self._waiting):
            rows = self._store.rows_of(self._waiting)
            self._backend.append({n: self._store.rows(n)[rows] for n in SOLVER_CHANNELS})
            self._waiting = self._waiting[:0]
            self.changed()

    def changed(self) -> None:
        """The device has gone on: what was read is old."""
        self._ids = None
        self._fresh.clear()
        self._given.clear()

    def settle(self) -> None:
        """Kill in the store what has died on the device, and write it into the books."""
        store = self._store
        if self.count == store.count:
            return
        dead = store.active.copy()
        dead[store.rows_of(self._all_ids())] = False
        self._ledger.remove(store.rows("phase")[dead], store.rows("volume")[dead])
        store.kill(dead)

    def keep(self) -> None:
        """Bring what the device changes into the store: the state to fall back to."""
        for name in MOVING:
            self._pull(name)

    def freeze(self, next_id: int) -> None:
        """From now on only the store counts, and in it what is older than next_id."""
        if self._live:
            self._live = False
            self._store.kill(self._store.rows("id") >= next_id)

    def device_rows(self) -> dict[str, Array]:
        """All there is to store, in the device's own order; then what waits."""
        self.keep()
        rows = self._store.rows_of(self._all_ids())
        arrays = {name: self._store.rows(name)[rows] for name in self._store.channels}
        return arrays | {name: self._device_channel(name) for name in ("pressure", "fill")}

    @property
    def until_reorder(self) -> int:
        """As of the backend; newborns are sorted in as soon as they get there."""
        return 0 if len(self._waiting) else self._backend.until_reorder

    def replace(self, arrays: Mapping[str, Array], next_id: int, until_reorder: int) -> None:
        """Take over what `device_rows` gave."""
        order = np.argsort(arrays["id"], kind="stable")
        held = {n: a[order] for n, a in arrays.items() if n in self._store.channels}
        self._store.restore(held, next_id)
        self._backend.load({name: arrays[name] for name in SOLVER_CHANNELS})
        self._backend.write("pressure", arrays["pressure"])
        self._backend.until_reorder = until_reorder
        self._waiting = self._waiting[:0]
        self.changed()
        self._given["fill"] = arrays["fill"][order]

    # --- inside --------------------------------------------------------------------------------

    def _device_ids(self) -> NDArray[np.uint32]:
        if self._ids is None:
            self._ids = self._backend.read("id").reshape(-1)
        return self._ids

    def _all_ids(self) -> NDArray[np.uint32]:
        return np.concatenate((self._device_ids(), self._waiting))

    def _device_channel(self, name: str) -> Array:
        """A channel that only the device has, in its order; what waits has none yet."""
        values = self._backend.read(name)
        blank = np.full((len(self._waiting), *values.shape[1:]), name == "fill", values.dtype)
        return np.concatenate((values, blank))

    def _pull(self, name: str) -> None:
        if self._live and name not in self._fresh:
            rows = self._store.rows_of(self._device_ids())
            self._store.rows(name)[rows] = self._backend.read(name)
            self._fresh.add(name)

    def _read(self, name: str) -> Array:
        """A channel that only the device has, in order of ids."""
        if name in self._given:
            return self._given[name]
        if not self._live:
            raise RunnelError(f"Channel {name!r} is gone: the simulation has ended.")
        return self._device_channel(name)[np.argsort(self._all_ids(), kind="stable")]

    def _rest_density(self) -> NDArray[np.float32]:
        of_particles: NDArray[np.float32] = self._model.rest_density[self._store["phase"]]
        return of_particles

    def _radius(self) -> Array:
        radius: Array = self._store["kernel_radius"] / np.float32(self._model.calibration.support)
        return radius

    def _mass(self) -> Array:
        mass: Array = self._rest_density() * self._store["volume"]
        return mass

    def _density(self) -> Array:
        density: Array = self._rest_density() * self._read("fill").reshape(-1)
        return density

    def _age(self) -> Array:
        age: Array = np.maximum(self._clock.time - self._store["birth"], 0.0).astype(np.float32)
        return age

    def _vorticity(self) -> Array:
        if self._live and "fill" not in self._given:
            self._backend.compute_vorticity()
        elif self._live:
            raise RunnelError("Vorticity of a restored state is known after the next step only.")
        return self._read("vorticity")

    def _pressure(self) -> Array:
        return self._read("pressure").reshape(-1)
