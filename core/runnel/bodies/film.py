"""Films of water below bodies that lie flush on other solids: docs/theory/bodies.md.

No particle fits into a gap below a spacing. What a thin film would carry there is taken from the
particles at its rim, and is a sum over their pressures with weights that stay for a step.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..backends.base import Rim
from ..backends.reference.field import World
from .flush import WIDE, Poses, Samples, blocks_of, find_flush, surface_samples
from .rim import (
    BESIDE,
    WETS_NOT,
    Cells,
    edges,
    fit,
    pairs_within,
    pushed,
    sorted_cells,
    uncovered,
    wetting,
)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ENTRIES = 50_000  # samples near other solids, and pairs of these and particles, at first


@dataclass(frozen=True, eq=False)
class Part:
    """Samples of body `a` around what is flush with body `b`, or with solids that are none: -1."""

    a: int
    b: int
    places: Floats  # (n, 3) in the world
    areas: Floats  # (n, 3) outwards
    flush: Floats  # (n,) with b; 0 to 1
    any_flush: Floats  # (n,) with any solid
    down: Floats  # (n, 3) unit ways to what they are flush with
    step: float  # between samples [m]


@dataclass(frozen=True, eq=False)
class Film:
    """What the pressures of some particles do to one body or two."""

    bodies: list[int]
    rows: Ints  # of the particles, among those of all films
    weights: Floats  # (bodies, 6, n): force and torque about the centre over pressure [m^2]
    constant: Floats  # (bodies, 6): what the film's own weight adds [N, N m]


class Films:
    """Of the bodies of a scene."""

    def __init__(
        self, world: World, parts: list[int], centres: Floats, reach: Floats, spacing: float
    ) -> None:
        self._spacing, count = spacing, len(parts)
        found = [
            surface_samples(world, i, centres[k], float(reach[k]), spacing)
            for k, i in enumerate(parts)
        ]
        sizes = [len(points) for points, _, _ in found]
        begin = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
        blocks = [blocks_of(points, step) for points, _, step in found]
        self._owner = np.repeat(np.arange(count), sizes)
        self._steps = np.array([f[2] for f in found])
        firsts = [first + begin[k] for k, (first, _) in enumerate(blocks)]
        self._samples = Samples(
            np.concatenate([np.zeros((0, 3)), *(f[0] for f in found)]),
            np.concatenate([np.zeros((0, 3)), *(f[1] for f in found)]),
            np.concatenate([*firsts, begin[-1:]]),
            np.concatenate([np.zeros((0, 4)), *(balls for _, balls in blocks)]),
            np.append(0, np.cumsum([len(first) for first, _ in blocks], dtype=np.int64)),
            np.asarray(reach, np.float64),
        )
        self._values, self._others = np.zeros((ENTRIES, 4)), np.zeros((ENTRIES, 2), np.int64)
        self._parts: list[Part] = []
        self._films: list[Film] = []
        self._pairs, self._apart = np.zeros((ENTRIES, 2), np.int64), np.zeros(ENTRIES)
        self._sides = _flat([])
        self.rows = np.zeros(0, np.uint32)  # particles that films depend on, as in Rim
        self._pressure, self._centres, self._moves = np.zeros(0), centres, np.zeros(count, bool)

    # --- what is flush --------------------------------------------------------------------------

    def find(self, world: World, turns: Floats, centres: Floats, moves: NDArray[np.bool_]) -> None:
        """Where the bodies that move are flush, as a step begins."""
        self._centres, self._moves, self._films = centres, moves, []
        room = WIDE * self._spacing + BESIDE * self._steps
        while True:
            count = find_flush(
                world, Poses(turns, centres), self._samples, moves.astype(np.int64), self._spacing,
                room, self._values, self._others,
            )  # fmt: skip
            if count < len(self._values):
                break
            self._values = np.zeros((2 * count, 4))
            self._others = np.zeros((2 * count, 2), np.int64)
        self._parts = []
        values = self._values[:count]
        if not values[:, 0].any():
            return
        samples, others = self._others[:count].T
        owner = self._owner[samples]  # rising
        for a in np.unique(owner):
            own = slice(*np.searchsorted(owner, [a, a + 1]))
            self._split(int(a), samples[own], others[own], values[own], turns[a])

    def _split(self, a: int, samples: Ints, others: Ints, values: Floats, turn: Floats) -> None:
        """Parts of one body, by what they are flush with."""
        first = int(samples.min())
        every = _largest(samples - first, values)
        for b in np.unique(others[values[:, 0] > 0]):
            # Of two bodies that move the smaller one is asked: its samples are closer.
            if (
                b >= 0
                and self._moves[b]
                and (self._samples.reach[b], b) < (self._samples.reach[a], a)
            ):
                continue
            with_b = others == b
            chosen = np.unique(samples[with_b])
            flush = _largest(samples[with_b] - first, values[with_b])[chosen - first]
            self._parts.append(
                Part(
                    a, int(b), self._samples.points[chosen] @ turn.T + self._centres[a],
                    self._samples.areas[chosen] @ turn.T, flush[:, 0], every[chosen - first, 0],
                    -flush[:, 1:], self._steps[a],
                )
            )  # fmt: skip

    @property
    def bodies(self) -> Ints:
        """Whose samples are flush, in rising order."""
        return np.unique(np.array([part.a for part in self._parts], np.int64))

    # --- what they carry ------------------------------------------------------------------------

    def fill(self, rim: Rim, gravity: Floats) -> None:
        """Films of a step, from the particles around the bodies that are flush."""
        found: list[Film | None] = []
        known = np.isfinite(rim.places).all(axis=1)  # the step will tell of the others
        if not known.all():
            rim = Rim(rim.rows[known], rim.places[known], rim.densities[known])
        if len(rim.rows) and self._parts:
            cells = sorted_cells(rim.places, WETS_NOT * self._spacing)
            slots = np.full(len(rim.rows), -1, np.int64)
            found = [self._film(part, rim, cells, slots, gravity) for part in self._parts]
        self._films = [film for film in found if film is not None]
        used = np.unique(np.concatenate([np.zeros(0, np.int64), *(f.rows for f in self._films)]))
        self._films = [replace(f, rows=np.searchsorted(used, f.rows)) for f in self._films]
        self._sides = _flat(self._films)
        self.rows, self._pressure = rim.rows[used], np.zeros(len(used))

    def _film(
        self, part: Part, rim: Rim, cells: Cells, slots: Ints, gravity: Floats
    ) -> Film | None:
        d, n = self._spacing, len(part.places)
        pairs, apart = self._near(part.places, rim.places, cells)
        bare = uncovered(part.places, part.down, d, rim.places, pairs, apart)
        flush = part.flush * bare
        if not (flush > 0.5).any():
            return None
        edge = edges(part.places, flush, part.any_flush * bare, BESIDE * part.step)
        rows, weights, dry = np.zeros(len(pairs), np.int64), np.zeros(len(pairs)), np.zeros(n)
        count = wetting(edge, d, pairs, apart, slots, rows, weights, dry)
        if not count:
            return None
        rows, weights = rows[:count], weights[:count]
        if gravity.any():  # where the water ends, the film does: above, it would pull
            up = -gravity / np.linalg.norm(gravity)
            above = part.places @ up > (rim.places[rows] @ up).max() + d / 2
            flush[above] = dry[above] = 0.0
        bodies = [part.a] if part.b < 0 else [part.a, part.b]
        per_pressure, constant = fit(
            part.places, part.areas, flush, dry, rim.places[rows], weights, rim.densities[rows],
            gravity, d, self._centres[bodies],
        )  # fmt: skip
        return Film(bodies, rows, per_pressure, constant)

    def _near(self, places: Floats, particles: Floats, cells: Cells) -> tuple[Ints, Floats]:
        """Numbers (n, 2) of all pairs that may wet or cover, and their distances."""
        reach = WETS_NOT * self._spacing
        while True:
            count = pairs_within(places, particles, cells, reach, self._pairs, self._apart)
            if count <= len(self._pairs):
                return self._pairs[:count], self._apart[:count]
            self._pairs, self._apart = np.zeros((2 * count, 2), np.int64), np.zeros(2 * count)

    @property
    def wet(self) -> bool:
        return bool(self._films)

    def loads(self, frames: Floats) -> Floats:
        """Sums of the absolute values of all weights (bodies, 6), turning in `frames`, as of
        Backend.weigh_bodies."""
        loads = np.zeros((len(frames), 6))
        for film in self._films:
            for body, weights in zip(film.bodies, film.weights, strict=True):
                turning = (frames[body][:, :, None] * weights[None, 3:]).sum(axis=1)
                loads[body, :3] += np.abs(weights[:3]).sum(axis=1)
                loads[body, 3:] += np.abs(turning).sum(axis=1)
        return loads

    def at_rest(self) -> Floats:
        """Force and torque (bodies, 6) by the water's own weight, from the rim to the film."""
        sums = np.zeros((len(self._centres), 6))
        for film in self._films:
            for body, constant in zip(film.bodies, film.constant, strict=True):
                sums[body] += constant
        return sums

    def pushes(self, pressure: Floats) -> Floats:
        """(bodies, 6) by how much pressures, of `rows`, have changed since the last call."""
        change, self._pressure = pressure - self._pressure, pressure
        sums = np.zeros((len(self._centres), 6))
        pushed(change, *self._sides, sums)
        return sums


def _flat(films: list[Film]) -> tuple[Ints, Ints, Ints, Floats]:
    """Sides of all films one after the other, as `pushed` takes them."""
    sides = [(body, f.rows, f.weights[k]) for f in films for k, body in enumerate(f.bodies)]
    starts = np.append(0, np.cumsum([len(rows) for _, rows, _ in sides], dtype=np.int64))
    return (
        np.array([body for body, _, _ in sides], np.int64),
        starts.astype(np.int64),
        np.concatenate([np.zeros(0, np.int64), *(rows for _, rows, _ in sides)]),
        np.concatenate([np.zeros((6, 0)), *(weights for _, _, weights in sides)], axis=1),
    )


def _largest(samples: Ints, values: Floats) -> Floats:
    """Of each sample, up to the last, the row with the largest first value."""
    found = np.zeros((int(samples.max()) + 1, values.shape[1]))
    order = np.argsort(values[:, 0], kind="stable")
    found[samples[order]] = values[order]  # the last one stays
    return found
