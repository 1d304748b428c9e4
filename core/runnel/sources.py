"""Where fluid comes from and where it leaves: volumes, emitters, sinks, and the books on it.

New particles are dicts of arrays for `ParticleStore.add`: position, velocity, volume,
kernel_radius, phase, birth, expiry.

An emitter's stream is made of layers, one spacing apart: a lattice across the shape's centre,
perpendicular to the stream. Layer k is born at start + k spacing / speed, wherever the emitter is
then and however wide it is, so nothing depends on how time is divided into steps. An emitter's
velocity is in its own frame: it turns with the nozzle. A volume's is in the world.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .errors import SceneError
from .mesh_sequence import MeshSequence
from .motion import Motion, active_times, frame_time, motion_of
from .params import MeshFile, PointFile, Source
from .points import read_points
from .scene import Scene
from .shapes import Shape, cross_section, fill, inside, mesh_shape, shape_of

Births = dict[str, NDArray[Any]]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

EMITTER_GAP = 0.5  # spacings; new particles closer than this to others are left out
VOLUME_GAP = 0.7  # the same between volumes, which start at rest
_GLANCE = 0.01  # frames over which a source's own velocity is measured


class _Placed:
    """A source of a scene with its shape read."""

    def __init__(self, scene: Scene, index: int) -> None:
        self.scene = scene
        self.index = index
        self.source: Source = scene.sources[index]
        self.key = f"source[{index}]"
        shape, self.sequence = self.source.shape, None
        if isinstance(shape, MeshFile) and shape.is_sequence:
            self.sequence = MeshSequence(scene, shape)
        with _blaming(f"{self.key}.shape"):
            self.shape: Shape = (
                shape_of(shape, scene.directory) if self.sequence is None else self.shape_at(0.0)
            )
        self.motion: Motion = motion_of(self.source, scene)
        self.phase = [fluid.name for fluid in scene.fluids].index(self.source.fluid)

    def shape_at(self, time: float) -> Shape:
        """What deforms, as it is at a time [s]; all else is always the same."""
        if self.sequence is None:
            return self.shape
        return mesh_shape(self.sequence.at(time), self.sequence.path(time), grows=True)

    def own_velocity(self, positions: Floats, time: float) -> Floats:
        """The inherited share of the source's motion at positions (n, 3) [m/s]."""
        share = self.source.inherit_velocity
        if not share or not (self.motion.moves or self.sequence):
            return np.zeros_like(positions)
        # Ahead of the time: at the first keyframe the source starts to move, it has not moved yet.
        glance = _GLANCE / self.scene.fps
        linear, angular = self.motion.velocity(time + glance, glance)
        pose = self.motion.pose(time)
        velocity = linear + np.cross(angular, positions - pose.translation)
        if self.sequence is not None:
            local = np.column_stack([pose.to_local(positions), np.ones(len(positions))])
            velocity += pose.turn(pose.scale * local @ self.sequence.stretch(time, glance))
        return share * velocity

    def jitter(self, count: int, layer: int) -> Floats:
        """Random displacements (count, 3) [m], the same for the same seed, source and layer."""
        source = self.source
        if not source.jitter:
            return np.zeros((count, 3))
        seed = self.scene.seed if source.seed is None else source.seed
        bits = np.random.Philox(key=[seed, self.index], counter=[0, 0, 0, layer])
        return np.random.Generator(bits).uniform(-1, 1, (count, 3)) * source.jitter * source.spacing

    def births(self, positions: Floats, velocities: Floats, birth: ArrayLike) -> Births:
        """All channels of new particles."""
        n, source = len(positions), self.source
        axis = self.scene.ignored_axis
        if axis >= 0:
            positions[:, axis] = velocities[:, axis] = 0.0
        born = np.broadcast_to(np.asarray(birth, np.float64), n)
        lifetime = math.inf if source.lifetime is None else source.lifetime
        return {
            "position": positions.astype(np.float32),
            "velocity": velocities.astype(np.float32),
            "volume": np.full(n, source.spacing**self.scene.dimensions, np.float32),
            "kernel_radius": np.full(n, self.scene.solver.support / 2 * source.spacing, np.float32),
            "phase": np.full(n, self.phase, np.uint32),
            "birth": born.astype(np.float32),
            "expiry": (born + lifetime).astype(np.float32),
        }


@contextmanager
def _blaming(key: str) -> Iterator[None]:
    """Name the key of the scene in errors of shapes, which do not know it."""
    try:
        yield
    except SceneError as error:
        error.key = error.key or key
        raise


def select(births: Mapping[str, NDArray[Any]], keep: Mask) -> Births:
    """Those of new particles that are kept."""
    return {name: values[keep] for name, values in births.items()}


# --- volumes --------------------------------------------------------------------------------------


def fill_volume(scene: Scene, index: int) -> Births:
    """Particles of volume source `index`, at time 0. Empty volumes are an error."""
    return _fill(_Placed(scene, index))


def _fill(placed: _Placed) -> Births:
    scene, source = placed.scene, placed.source
    if isinstance(source.shape, PointFile):
        shape = source.shape
        first = scene.mesh_frames(shape)[0] if shape.is_sequence else scene.frames[0]
        return _given(placed, first, 0.0, 0.0)
    with _blaming(placed.key):
        positions = fill(placed.shape, source.spacing, placed.motion.pose(0.0), scene.ignored_axis)
    if not len(positions):
        raise SceneError(
            "no particle fits the shape; use a smaller spacing or a larger shape",
            key=f"{placed.key}.spacing",
            value=source.spacing,
        )
    velocities = np.array(source.velocity, np.float64) + placed.own_velocity(positions, 0.0)
    return placed.births(positions + placed.jitter(len(positions), 0), velocities, 0.0)


def _given(placed: _Placed, frame: int, time: float, now: float) -> Births:
    """Particles of a source's file of a frame, born at a time, where they are now [s]."""
    scene, source, shape = placed.scene, placed.source, placed.source.shape
    assert isinstance(shape, PointFile)
    with _blaming(f"{placed.key}.shape.points"):
        found = read_points(scene.mesh_path(shape, frame))
        if found.phase is not None and int(found.phase.max(initial=0)) >= len(scene.fluids):
            raise SceneError(
                f"a point is of fluid {found.phase.max()}, counted from 0; the scene has "
                f"{len(scene.fluids)}"
            )
    pose, n = placed.motion.pose(time), len(found)
    layer = max(0, frame - scene.frames[0])
    positions = pose.to_world(found.position.astype(np.float64))
    velocities = np.tile(np.array(source.velocity, np.float64), (n, 1))
    if found.velocity is not None:
        velocities += found.velocity.astype(np.float64) @ pose.rotation.T
    velocities += placed.own_velocity(positions, time)
    age = np.zeros(n) if found.age is None else found.age.astype(np.float64)
    moved = positions + max(now - time, 0.0) * velocities + placed.jitter(n, layer)
    births = placed.births(moved, velocities, time - age)
    if found.radius is not None:
        spacing = 2.0 * found.radius.astype(np.float64)
        births["volume"] = (spacing**scene.dimensions).astype(np.float32)
        births["kernel_radius"] = (scene.solver.support / 2 * spacing).astype(np.float32)
    if found.phase is not None:
        births["phase"] = found.phase
    return births | found.channels


def point_channels(scene: Scene) -> dict[str, tuple[np.dtype[Any], int]]:
    """Type and width of the channels that points of sources bring along."""
    found: dict[str, tuple[np.dtype[Any], int]] = {}
    for source in scene.sources:
        if isinstance(source.shape, PointFile):
            shape = source.shape
            first = scene.mesh_frames(shape)[0] if shape.is_sequence else None
            for name, values in read_points(scene.mesh_path(shape, first)).channels.items():
                width = 1 if values.ndim == 1 else values.shape[1]
                found.setdefault(name, (values.dtype, width))
    return found


def fill_volumes(scene: Scene) -> list[tuple[int, Births]]:
    """All volume sources: index and particles. Where volumes overlap the first one has it."""
    done: list[tuple[_Placed, Births]] = []
    for index, source in enumerate(scene.sources):
        if source.kind == "volume":
            placed = _Placed(scene, index)
            births = _fill(placed)
            for earlier, others in done:
                births = select(births, _free(births["position"], placed, earlier, others))
            done.append((placed, births))
    return [(placed.index, births) for placed, births in done]


def _free(positions: NDArray[Any], placed: _Placed, earlier: _Placed, others: Births) -> Mask:
    """Positions that an earlier volume leaves free: outside of it, not too near its particles."""
    pose = earlier.motion.pose(0.0)
    keep = ~inside(earlier.shape, pose, positions, placed.scene.ignored_axis)
    gap = VOLUME_GAP * (placed.source.spacing + earlier.source.spacing) / 2
    first, _ = _close_pairs(positions, others["position"], gap)
    keep[first] = False
    return keep


# --- emitters -------------------------------------------------------------------------------------


class Emitter:
    """A stream of particles. `state` and `restore` carry it over a pause of the simulation."""

    def __init__(self, scene: Scene, index: int) -> None:
        self._placed = _Placed(scene, index)
        source = self._placed.source
        self._start, self._end = active_times(source.frames, scene)
        self._direction = _direction(self._placed)
        self._layer: Floats | None = None  # the same for ever, of what does not deform
        first = self._across(self._start)
        self._layer = first if self._placed.sequence is None else None
        given = source.rate is not None or self._placed.sequence is None
        if not len(first) and given:  # one that deforms may begin as nothing, at a speed
            raise SceneError(
                "no particle fits across the middle of the emitter; use a smaller spacing or "
                "another shape",
                key=f"{self._placed.key}.spacing",
                value=source.spacing,
            )
        self.area = len(first) * source.spacing ** (scene.dimensions - 1)  # [m^2], 2D [m]
        self.speed = _speed(source, self._direction, self.area)  # [m/s]
        self._period = source.spacing / self.speed if self.speed > 0 else math.inf
        self._next = 0  # layer

    @property
    def name(self) -> str:
        return self._placed.source.name

    @property
    def spacing(self) -> float:
        """[m]"""
        return self._placed.source.spacing

    @property
    def rate(self) -> float:
        """Volume emitted [m^3/s], in 2D area [m^2/s]."""
        return self.area * self.speed

    def emit(self, t0: float, t1: float) -> Births:
        """Particles born from t0 to t1 [s], where they are at t1. Intervals follow each other."""
        first = max(
            self._next, math.ceil((max(t0, self._start) - self._start) / self._period - 1e-6)
        )
        last = math.ceil((min(t1, self._end) - self._start) / self._period - 1e-6)
        self._next = max(first, last)
        layers = [self._born(layer, t1) for layer in range(first, last)]
        placed, times = self._placed, [self._time(layer) for layer in range(first, last)]
        counts = np.array([len(positions) for positions, _ in layers], np.int64)
        none = [np.zeros((0, 3))]
        return placed.births(
            np.concatenate(none + [positions for positions, _ in layers]),
            np.concatenate(none + [velocities for _, velocities in layers]),
            np.repeat(np.array(times, np.float64), counts),
        )

    def _across(self, time: float) -> Floats:
        """Lattice of a layer that is born at a time [s], in the emitter's own frame."""
        if self._layer is not None:
            return self._layer
        placed = self._placed
        pose, axis = placed.motion.pose(time), placed.scene.ignored_axis
        with _blaming(placed.key):
            shape = placed.shape_at(time)
            return cross_section(shape, self._direction, self.spacing, pose, axis)

    def _time(self, layer: int) -> float:
        return self._start + layer * self._period

    def _born(self, layer: int, now: float) -> tuple[Floats, Floats]:
        """Positions at `now` and velocities of a layer."""
        placed, time = self._placed, self._time(layer)
        pose = placed.motion.pose(time)
        positions = pose.to_world(self._across(time))
        velocities = pose.turn(self._direction) * self.speed + placed.own_velocity(positions, time)
        age = max(now - time, 0.0)
        return positions + age * velocities + placed.jitter(len(positions), layer), velocities

    def state(self) -> dict[str, int]:
        return {"next_layer": self._next}

    def restore(self, state: Mapping[str, int]) -> None:
        self._next = int(state["next_layer"])


class PointEmitter:
    """Points of a file, or of a file a frame, that are born at each frame. As `Emitter`."""

    def __init__(self, scene: Scene, index: int) -> None:
        self._placed = _Placed(scene, index)
        source = self._placed.source
        assert isinstance(source.shape, PointFile)
        self._start, self._end = active_times(source.frames, scene)
        self._numbers = (
            set(scene.mesh_frames(source.shape)) if source.shape.is_sequence else None
        )  # None: the same each frame
        self._next = scene.frames[0]  # frame
        self._known = set(point_channels(scene))
        self.name, self.spacing = source.name, source.spacing

    @property
    def speed(self) -> float:
        """Is known when particles are born, not before."""
        return 0.0

    def emit(self, t0: float, t1: float) -> Births:
        """Particles born from t0 to t1 [s], where they are at t1. Intervals follow each other."""
        scene = self._placed.scene
        born = [self._placed.births(np.zeros((0, 3)), np.zeros((0, 3)), 0.0)]
        while frame_time(self._next, scene) < t1 - 1e-9:
            frame, time = self._next, frame_time(self._next, scene)
            self._next += 1
            there = self._numbers is None or frame in self._numbers
            if there and time >= t0 - 1e-9 and self._start - 1e-9 <= time < self._end - 1e-9:
                born.append(_given(self._placed, frame, time, t1))
        parts = born[1:] or born
        names = set.intersection(*(set(part) for part in parts)) & ({*born[0]} | self._known)
        return {name: np.concatenate([part[name] for part in parts]) for name in sorted(names)}

    def state(self) -> dict[str, int]:
        return {"next_layer": self._next}

    def restore(self, state: Mapping[str, int]) -> None:
        self._next = int(state["next_layer"])


def emitters(scene: Scene) -> list[Emitter | PointEmitter]:
    """All emitters of a scene."""
    return [
        PointEmitter(scene, i) if isinstance(source.shape, PointFile) else Emitter(scene, i)
        for i, source in enumerate(scene.sources)
        if source.kind == "emitter"
    ]


def _direction(placed: _Placed) -> Floats:
    """Unit vector of the stream in the emitter's own frame; the scene made sure there is one."""
    direction = np.array(placed.source.direction, np.float64)
    if placed.scene.ignored_axis >= 0:
        direction[placed.scene.ignored_axis] = 0.0
    unit: Floats = direction / np.linalg.norm(direction)
    return unit


def _speed(source: Source, direction: Floats, area: float) -> float:
    if source.rate is not None:
        return source.rate / area
    if source.speed is not None:
        return source.speed
    return float(np.array(source.velocity) @ direction)


# --- overlaps -------------------------------------------------------------------------------------


def without_overlap(
    new: ArrayLike, spacing: float, existing: ArrayLike, gap: float = EMITTER_GAP
) -> Mask:
    """Which new particles (n, 3) to keep: none within gap spacings of another.

    Existing ones go before new ones, and earlier new ones before later. Cost goes with the new ones
    and the existing ones near them.
    """
    born = np.asarray(new, np.float64).reshape(-1, 3)
    keep = np.ones(len(born), np.bool_)
    keep[_close_pairs(born, np.asarray(existing).reshape(-1, 3), gap * spacing)[0]] = False
    first, second = _close_pairs(born, born, gap * spacing)
    order = np.lexsort((first, second))
    for a, b in zip(first[order].tolist(), second[order].tolist(), strict=True):
        if a < b and keep[a]:
            keep[b] = False
    return keep


def _close_pairs(
    a: NDArray[Any], b: NDArray[Any], reach: float
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pairs (i of a, j of b) closer than reach."""
    none = np.zeros(0, np.int64)
    if not len(a) or not len(b):
        return none, none
    near_a, near_b = _within(a, b, reach), _within(b, a, reach)
    a, b = a[near_a].astype(np.float64), b[near_b].astype(np.float64)
    if not len(a) or not len(b):
        return none, none
    corner = a.min(axis=0)
    keys = _hash(np.floor((b - corner) / reach).astype(np.int64))
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    cells = np.floor((a - corner) / reach).astype(np.int64)
    first, second = [none], [none]
    for offset in np.ndindex(3, 3, 3):
        wanted = _hash(cells + (np.array(offset) - 1))
        start = np.searchsorted(keys, wanted, side="left")
        runs = np.searchsorted(keys, wanted, side="right") - start
        i = np.repeat(np.arange(len(a)), runs)
        j = order[np.repeat(start - (np.cumsum(runs) - runs), runs) + np.arange(len(i))]
        apart = a[i] - b[j]
        close = np.einsum("ij,ij->i", apart, apart) < reach * reach
        first.append(near_a[i[close]])
        second.append(near_b[j[close]])
    return np.concatenate(first), np.concatenate(second)


def _within(a: NDArray[Any], b: NDArray[Any], reach: float) -> NDArray[np.int64]:
    """Numbers of those in a that lie in the box around b, widened by reach."""
    low, high = b.min(axis=0) - reach, b.max(axis=0) + reach
    return np.flatnonzero(((a >= low) & (a <= high)).all(axis=1))


def _hash(cells: NDArray[np.int64]) -> NDArray[np.int64]:
    """A number per cell. Two cells may share one: that costs a distance, never a pair."""
    x, y, z = cells.T
    mixed: NDArray[np.int64] = x * 73856093 ^ y * 19349663 ^ z * 83492791
    return mixed


# --- books ----------------------------------------------------------------------------------------


@dataclass
class Account:
    """Particles and their mass [kg], in 2D [kg/m]."""

    count: int = 0
    mass: float = 0.0

    def book(self, count: int, mass: float) -> None:
        self.count += count
        self.mass += mass


@dataclass
class MassLedger:
    """What came from each source and what was removed. Counts are exact."""

    densities: tuple[float, ...]  # rest density of each fluid [kg/m^3]
    emitted: dict[str, Account] = field(default_factory=dict)
    removed: Account = field(default_factory=Account)

    @classmethod
    def of(cls, scene: Scene) -> MassLedger:
        sources = {source.name: Account() for source in scene.sources}
        return cls(tuple(fluid.density for fluid in scene.fluids), sources)

    @property
    def count(self) -> int:
        """Particles there should be."""
        return sum(account.count for account in self.emitted.values()) - self.removed.count

    @property
    def mass(self) -> float:
        """Mass there should be [kg], in 2D [kg/m]."""
        return sum(account.mass for account in self.emitted.values()) - self.removed.mass

    def add(self, source: str, births: Mapping[str, NDArray[Any]]) -> None:
        """Book particles that entered the simulation."""
        mass = self.mass_of(births["phase"], births["volume"])
        self.emitted.setdefault(source, Account()).book(len(births["phase"]), mass)

    def remove(self, phase: NDArray[Any], volume: NDArray[Any]) -> None:
        """Book particles that left."""
        self.removed.book(len(phase), self.mass_of(phase, volume))

    def mass_of(self, phase: NDArray[Any], volume: NDArray[Any]) -> float:
        """Mass of particles [kg]."""
        density = np.array(self.densities, np.float64)[phase]
        return float(density @ np.asarray(volume, np.float64))

    def state(self) -> dict[str, Any]:
        """Plain numbers to store."""
        emitted = {name: [a.count, a.mass] for name, a in self.emitted.items()}
        return {"emitted": emitted, "removed": [self.removed.count, self.removed.mass]}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.emitted = {
            name: Account(int(n), float(m)) for name, (n, m) in state["emitted"].items()
        }
        self.removed = Account(int(state["removed"][0]), float(state["removed"][1]))
