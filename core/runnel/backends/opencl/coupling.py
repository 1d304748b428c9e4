"""What bodies and particles do to each other, read back for the host: docs/theory/bodies.md.

Bodies and films are the host's; of the particles, those in clusters near them are read back only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..base import LOADS, Contributions, Later, Rim, Sums, Surroundings, near_bit
from .launch import Launcher
from .program import CLUSTER

if TYPE_CHECKING:
    import pyopencl as cl

    from ...solver.model import Model

BODY_SLOTS = 4  # bodies of a particle, as in reactions.cl

u32 = np.uint32
f32 = np.float32

NO_CONTRIBUTIONS = Contributions(np.zeros(0, np.int64), np.zeros((0, 3)), np.zeros((0, 3)))


class Clusters(NamedTuple):
    """Some of all clusters."""

    numbers: NDArray[np.uint32]
    on_device: Any

    @property
    def rows(self) -> int:
        """Of their particles; of the last one some may be none."""
        return CLUSTER * len(self.numbers)


class Coupling(Launcher):
    """The passes of a device that have to do with bodies alone."""

    def __init__(
        self,
        model: Model,
        queue: cl.CommandQueue,
        tiles: int,
        radix_bits: int,
        vector_lanes: bool,
    ) -> None:
        super().__init__(model, queue, tiles, radix_bits, vector_lanes)
        self._body_bits = 0  # as in `near`
        self._body_of = np.zeros(0, np.float32)  # of solids
        self._solid_count = 0
        self._dt = 0.0
        self._around: Clusters | None = None  # near deformables
        self._rim: tuple[NDArray[np.uint32], Any] | None = None  # rows of rims, on the device
        self._free = self._ahead = 0, 0  # clusters in a row that no body is near; those begun with
        self._acted = 0, True  # last pass: slots of a particle, whether ahead of the neighbours

    def set_bodies(self, bodies: NDArray[np.float32]) -> None:
        if len(bodies) != self._body_count:
            self._body_count = len(bodies)
            self._buffers["bodies"] = self._allocate(4 * bodies.size)
            size = 4 * self.tiles * (len(bodies) * LOADS + 1)
            self._buffers["body_sums"] = self._allocate(size)
        if bodies.size:
            self._send("bodies", np.ascontiguousarray(bodies, f32))

    def weigh_bodies(self) -> Later[Sums]:
        self._run(
            self._program(),
            "weigh_bodies",
            self.tiles if self._rows else 0,
            *self._take("fluids wall material xp xp2 near solids"),
            u32(self._solid_count),
            *self._take("bodies body_sums"),
            u32(self._body_count),
            u32(self._body_bits),
            u32(self._rows),
            u32(self.tiles),
            group=1,
        )
        asked, met = self._body_sums(), None
        if self._rows:
            met = self._fetch_later("body_sums", np.float32, 1, self._sums_end + self.tiles)

        def found() -> Sums:
            if met is not None:
                self._keep_free(met()[self._sums_end :, 0] > 0)
            return asked()

        return found

    @property
    def _sums_end(self) -> int:
        return self.tiles * self._body_count * LOADS

    def _keep_free(self, met: NDArray[np.bool_]) -> None:
        """Tiles that no body is near; whole groups of work-items, or some would be done twice."""
        ends = np.concatenate(([-1], np.flatnonzero(met), [self.tiles]))
        k = int(np.argmax(np.diff(ends)))
        begin = -(-self._clusters * (int(ends[k]) + 1) // (self.tiles * self.group)) * self.group
        end = self._clusters * int(ends[k + 1]) // (self.tiles * self.group) * self.group
        self._free = (begin, end) if begin < end else (0, 0)

    def reactions(self) -> Later[Sums]:
        slots, _ = self._acted
        if not slots:
            return lambda: np.zeros((self._body_count, 6))
        self._run(
            self._program(),
            "sum_reactions",
            self.tiles if self._rows else 0,
            *self._take("x back near bodies body_sums"),
            u32(self._body_count),
            u32(self._body_bits),
            u32(slots),
            u32(self._rows),
            u32(self.capacity),
            u32(self.tiles),
            group=1,
        )
        sums = self._body_sums()
        return lambda: sums()[:, :6]

    def contributions(self, first: int) -> Later[Contributions]:
        slots, ahead = self._acted
        if not slots or not self._rows:
            return lambda: NO_CONTRIBUTIONS
        clusters = self._near_deformables(first)
        asked = [self._gather("back", clusters, slots)]
        asked += [self._gather(name, clusters) for name in (("x", "v") if ahead else ("xp",))]

        def found() -> Contributions:
            back, at, *moves = (part() for part in asked)
            # Slots are those of clusters: most particles are not at all of their bodies.
            slot, row = np.nonzero((back[..., 3] >= first) & back[..., :3].any(axis=2))
            chosen, places = back[slot, row].astype(np.float64), at[0, row, :3].astype(np.float64)
            for v in moves:
                places += self._dt * v[0, row, :3]
            return Contributions(chosen[:, 3].astype(np.int64), places, chosen[:, :3])

        return found

    def surroundings(self, first: int) -> Surroundings:
        clusters = self._near_deformables(first)
        if first == 0:  # else weigh_bodies tells, of all bodies
            starts = self._clusters * np.arange(self.tiles + 1) // self.tiles
            self._keep_free(np.diff(np.searchsorted(clusters.numbers, starts)) > 0)
        asked = [self._gather(name, clusters) for name in ("material", "xp")]
        material, x = (part()[0] for part in asked)
        own = material[:, 0] > 0
        material, x = material[own], x[own, :3].astype(np.float64)
        h, volume = material[:, 0].astype(np.float64), material[:, 1].astype(np.float64)
        phase = np.ascontiguousarray(material[:, 2]).view(np.uint32)
        return Surroundings(
            x, h, volume, self.model.rest_density.astype(np.float64)[phase] * volume
        )

    def rim(self, bodies: NDArray[np.int64]) -> Rim:
        clusters = self._near_bodies(np.isin(self._body_of, 1 + bodies))
        each = CLUSTER * clusters.numbers[:, None] + np.arange(CLUSTER, dtype=np.uint32)
        rows = each.reshape(-1)[each.reshape(-1) < self._rows].astype(np.uint32)
        # Only the last cluster may be short.
        x, material = (self._gather(n, clusters)()[0][: len(rows)] for n in ("xp", "material"))
        phase = np.ascontiguousarray(material[:, 2]).view(np.uint32)
        rest = self.model.rest_density.astype(np.float64)
        return Rim(rows, x[:, :3].astype(np.float64), rest[phase])

    def multipliers(self, rows: NDArray[np.uint32]) -> Later[Sums]:
        count = len(rows)
        if self._rim is None or self._rim[0] is not rows:
            self._rim = rows, self._upload(rows)
        self._make_room(4 * count)
        self._run(
            self._program(),
            "gather_floats",
            count,
            self._rim[1],
            *self._take("pressure of_bodies"),
            u32(count),
        )
        asked = self._fetch_later("of_bodies", np.float32, 1, count)
        return lambda: asked()[:, 0].astype(np.float64)

    def _near_deformables(self, first: int) -> Clusters:
        """Of bodies from number `first` on; the same for a step."""
        if self._around is None:
            self._around = self._near_bodies(self._body_of > first)
        return self._around

    def _near_bodies(self, solids: NDArray[np.bool_]) -> Clusters:
        bits = sum({near_bit(int(s)) for s in np.flatnonzero(solids)})
        near = self._fetch("near", np.uint32, 1, self._clusters)[:, 0]
        found = np.flatnonzero(near & u32(bits)).astype(np.uint32)
        return Clusters(found, self._upload(found))

    def _gather(self, name: str, clusters: Clusters, slots: int = 1) -> Later[NDArray[np.float32]]:
        """(slots, n, 4) of particles in clusters; what is no particle is (0, 0, 0, -1)."""
        rows = clusters.rows
        self._make_room(16 * slots * rows)
        self._run(
            self._program(),
            "gather_rows",
            rows,
            clusters.on_device,
            *self._take(f"{name} of_bodies"),
            u32(slots),
            u32(self.capacity),
            u32(rows),
            u32(self._rows),
        )
        asked = self._fetch_later("of_bodies", np.float32, 4, slots * rows)
        return lambda: asked().reshape(slots, rows, 4)

    def _make_room(self, size: int) -> None:
        if "of_bodies" not in self._buffers or self._buffers["of_bodies"].size < size:
            self._buffers["of_bodies"] = self._allocate(size + size // 4)

    def _body_sums(self) -> Later[Sums]:
        """Sums over tiles, in their order."""
        shape = self._body_count, LOADS
        if not self._rows:
            return lambda: np.zeros(shape)
        asked = self._fetch_later("body_sums", np.float32, self._body_count * LOADS, self.tiles)
        return lambda: asked().astype(np.float64).sum(axis=0).reshape(shape)

    def _of_bodies(self, names: str, *more: Any) -> list[Any]:
        """Arguments that passes have only where there are bodies."""
        if not self._body_count:
            return []
        if "back" not in self._buffers or self._buffers["back"].size < 64 * self.capacity:
            self._buffers["back"] = self._allocate(64 * self.capacity)
        return [*self._take(names), *more]
