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
from .flush import WIDE, blocks_of, find_flush, pairs_within, surface_samples

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ENTRIES = 50_000  # samples near other solids, at first
BESIDE = 2.0  # of a sample's spacing: neighbours on the surface, around an edge too
# In spacings: particles below cover what is this near, those beside an edge do not; wet the rim.
COVERS, COVERS_NOT = 0.9, 1.05
BELOW = 0.25  # [spacings] from there on
WETS, WETS_NOT = 1.0, 2.5
ENOUGH = 2.0  # of them make a place wet
STIFF = 1.5  # [spacings] pressures that change across less than that are noise


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
    weights: list[Floats]  # per body (6, n): force and torque about the centre over pressure [m^2]
    constant: list[Floats]  # per body (6,): what the film's own weight adds [N, N m]


class Films:
    """Of the bodies of a scene."""

    def __init__(
        self, world: World, parts: list[int], centres: Floats, reach: Floats, spacing: float
    ) -> None:
        self._spacing, self._reach, count = spacing, reach, len(parts)
        found = [
            surface_samples(world, i, centres[k], float(reach[k]), spacing)
            for k, i in enumerate(parts)
        ]
        sizes = [len(points) for points, _, _ in found]
        begin = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
        blocks = [blocks_of(points, step) for points, _, step in found]
        self._owner = np.repeat(np.arange(count), sizes)
        self._points = np.concatenate([np.zeros((0, 3)), *(f[0] for f in found)])
        self._areas = np.concatenate([np.zeros((0, 3)), *(f[1] for f in found)])
        self._steps = np.array([f[2] for f in found])
        self._firsts = np.concatenate(
            [np.zeros(0, np.int64), *(first + begin[k] for k, (first, _) in enumerate(blocks))]
        )
        self._balls = np.concatenate([np.zeros((0, 4)), *(b for _, b in blocks)])
        self._firsts = np.append(self._firsts, begin[-1])
        self._blocks = np.append(0, np.cumsum([len(first) for first, _ in blocks], dtype=np.int64))
        self._values, self._others = np.zeros((ENTRIES, 4)), np.zeros((ENTRIES, 2), np.int64)
        self._parts: list[Part] = []
        self._films: list[Film] = []
        self.rows = np.zeros(0, np.uint32)  # particles that films depend on, as in Rim
        self._pressure, self._centres, self._moves = np.zeros(0), centres, np.zeros(count, bool)

    # --- what is flush --------------------------------------------------------------------------

    def find(self, world: World, turns: Floats, centres: Floats, moves: NDArray[np.bool_]) -> None:
        """Where the bodies that move are flush, as a step begins."""
        self._centres, self._moves, self._films = centres, moves, []
        room = WIDE * self._spacing + BESIDE * self._steps
        while True:
            count = find_flush(
                world, turns, centres, self._reach, moves.astype(np.int64), self._points,
                self._areas, self._firsts, self._balls, self._blocks, self._spacing, room,
                self._values, self._others,
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
            if b >= 0 and self._moves[b] and (self._reach[b], b) < (self._reach[a], a):
                continue
            with_b = others == b
            chosen = np.unique(samples[with_b])
            flush = _largest(samples[with_b] - first, values[with_b])[chosen - first]
            self._parts.append(
                Part(
                    a, int(b), self._points[chosen] @ turn.T + self._centres[a],
                    self._areas[chosen] @ turn.T, flush[:, 0], every[chosen - first, 0],
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
        found = [self._film(p, rim, gravity) for p in self._parts] if len(rim.rows) else []
        self._films = [film for film in found if film is not None]
        used = np.unique(np.concatenate([np.zeros(0, np.int64), *(f.rows for f in self._films)]))
        self._films = [replace(f, rows=np.searchsorted(used, f.rows)) for f in self._films]
        self.rows, self._pressure = rim.rows[used], np.zeros(len(used))

    def _film(self, part: Part, rim: Rim, gravity: Floats) -> Film | None:
        d, n = self._spacing, len(part.places)
        around = _within(rim.places, part.places, WETS_NOT * d)
        if not len(around):
            return None
        rim = Rim(rim.rows[around], rim.places[around], rim.densities[around])
        pairs, apart = _pairs(part.places, rim.places, WETS_NOT * d)
        sample, particle = pairs.T
        below = ((rim.places[particle] - part.places[sample]) * part.down[sample]).sum(axis=1)
        covers = (below > BELOW * d) * _fades(apart / d, COVERS, COVERS_NOT)
        covered = np.bincount(sample, covers, n)
        bare = 1 - np.minimum(covered, 1)
        flush = part.flush * bare
        if not (flush > 0.5).any():
            return None
        edge = np.zeros(n, bool)
        beside, _ = _pairs(part.places[flush > 0.5], part.places, BESIDE * part.step)
        edge[beside[:, 1]] = True
        edge &= part.any_flush * bare <= 0.5
        wets = _fades(apart / d, WETS, WETS_NOT) * edge[sample]
        wet = np.bincount(sample, wets, n)
        shares = wets / np.maximum(wet, ENOUGH)[sample]
        weight: Floats = np.bincount(particle, shares, len(rim.rows)).astype(np.float64)
        rows = np.flatnonzero(weight)
        if not len(rows):
            return None
        dry = np.where(edge, 1 - np.minimum(wet / ENOUGH, 1), 0.0)
        weight, places = weight[rows], rim.places[rows]
        wet_rim = (around[rows], places, weight, rim.densities[rows])
        return self._fit(part, flush, wet_rim, dry, gravity)

    def _fit(
        self, part: Part, flush: Floats, wet: tuple[Ints, Floats, Floats, Floats], dry: Floats,
        gravity: Floats,
    ) -> Film:  # fmt: skip
        """Least squares: an even slope of pressure between wet and dry parts of the rim, on top of
        what the weight of the water makes."""
        rows, places, weight, density = wet
        all_places = np.concatenate((places, part.places))
        every = np.concatenate((weight, dry))
        total = float(every.sum())
        middle = (every[:, None] * all_places).sum(axis=0) / total
        basis = _basis(all_places - middle, self._spacing)
        normal = (every[:, None, None] * basis[:, :, None] * basis[:, None, :]).sum(axis=0)
        normal[[1, 2, 3], [1, 2, 3]] += STIFF**2 * total
        own = basis[: len(rows)] * weight[:, None]
        fits = np.einsum("ij,nj->in", np.linalg.inv(normal), own)  # (4, n) over pressures
        # A particle's pressure at a place of the film is p + rho g (place - particle).
        height = ((places - middle) * gravity).sum(axis=1)
        at_rest = (fits * (-density * height)).sum(axis=1), (fits * density).sum(axis=1)
        basis = basis[len(rows) :]
        height = ((part.places - middle) * gravity).sum(axis=1)
        rest = (basis * at_rest[0]).sum(axis=1) + (basis * at_rest[1]).sum(axis=1) * height
        bodies = [part.a] if part.b < 0 else [part.a, part.b]
        weights, constant = [], []
        for body, sign in zip(bodies, (-1.0, 1.0), strict=False):
            push = sign * flush[:, None] * part.areas
            arms = part.places - self._centres[body]
            both = np.concatenate((push, np.cross(arms, push)), axis=1)  # (samples, 6)
            per_fit = (both[:, :, None] * basis[:, None, :]).sum(axis=0)
            weights.append(np.einsum("ij,jn->in", per_fit, fits))
            constant.append((both * rest[:, None]).sum(axis=0))
        return Film(bodies, rows, weights, constant)

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
        for film in self._films:
            for body, weights in zip(film.bodies, film.weights, strict=True):
                sums[body] += (weights * change[film.rows]).sum(axis=1)
        return sums


def _largest(samples: Ints, values: Floats) -> Floats:
    """Of each sample, up to the last, the row with the largest first value."""
    found = np.zeros((int(samples.max()) + 1, values.shape[1]))
    order = np.argsort(values[:, 0], kind="stable")
    found[samples[order]] = values[order]  # the last one stays
    return found


def _within(places: Floats, others: Floats, reach: float) -> Ints:
    """Which places are in the box around others, or this close to it."""
    low, high = others.min(axis=0) - reach, others.max(axis=0) + reach
    return np.flatnonzero(((places > low) & (places < high)).all(axis=1))


def _basis(offsets: Floats, spacing: float) -> Floats:
    return np.concatenate((np.ones((len(offsets), 1)), offsets / spacing), axis=1)


def _fades(x: Floats, full: float, nothing: float) -> Floats:
    """1 up to `full`, 0 from `nothing` on."""
    faded: Floats = np.clip((nothing - x) / (nothing - full), 0.0, 1.0)
    return faded


def _pairs(a: Floats, b: Floats, reach: float) -> tuple[Ints, Floats]:
    """Numbers (n, 2) of all pairs within reach, and their distances."""
    size = 64 * len(a)
    while True:
        found, apart = np.zeros((size, 2), np.int64), np.zeros(size)
        count = pairs_within(a, b, reach, found, apart)
        if count <= size:
            return found[:count], apart[:count]
        size = count
