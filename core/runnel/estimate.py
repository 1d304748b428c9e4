"""What a scene will cost, and what is probably wrong with it; without simulating it."""

from __future__ import annotations

import dataclasses
import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .backends.base import BOX, CYLINDER, FIELD, PLANE, SPHERE
from .backends.devices import DeviceInfo
from .cache.planes import SMALLEST
from .collider_fields import mesh_bounds
from .colliders import ENDLESS, Rows, Sinks, Solids
from .motion import frame_time, motion_of
from .params import Collider, MeshFile, Sink, Source
from .particles import CAPACITIES
from .pilot import STRIKES, Lap, Pilot
from .scene import Scene
from .scene_checks import estimate as most_particles
from .shapes import BoxShape, PointsShape, Shape, cross_section, fill, shape_of, world_bounds
from .simulation.clock import STIFFEST
from .simulation.setup import deformables_of
from .solver.calibration import kernel
from .solver.model import STABLE_VISCOSITY

if TYPE_CHECKING:
    from .fields.grid import SparseField

Floats = NDArray[np.float64]

# Bytes per particle of capacity (benchmarks/scale.py): state, sort and table of cells on an OpenCL
# device; the store on the host (49) and pieces of a frame.
DEVICE_BYTES = 146
TABLE_BYTES = 300_000  # on a device besides, whatever the particles: the sort's histogram above all
VORTICITY_BYTES = 16
HOST_BYTES = 56
PROGRAM_BYTES = 130_000_000  # the process itself with PoCL, before any particle
COMPILED_BYTES = 140_000_000  # numba and what it compiled, which meshes and bodies need
# On disk: of a particle in a checkpoint, and what that takes besides; of a frame besides its
# particles (header, manifest).
CHECKPOINT_BYTES, CHECKPOINT_HEAD = 56, 6000
FRAME_BYTES = 4500
WET_TEXEL_BYTES, WET_IMAGE_BYTES = 16, 1.5  # of a texel: in a checkpoint, in a frame's image
# Entries of neighbour lists, 4 bytes each: room for so many per particle from the start, so many at
# h = 2d in a moving fluid, and a quarter more where lists had to grow.
LIST_ROOM, LIST_ENTRIES, LIST_SLACK = 14, 9.5, 1.25
CLUSTER = 8  # particles that share a list; capacities leave room for two more
OWN_ENTRIES = 35  # a pass takes as long as this many more, per cluster, whatever its list
NARROW = 4.0  # support, in particle radii, at which LIST_ENTRIES and rates are given
CHANNEL_BYTES = {"position": 12, "velocity": 12, "vorticity": 12}  # of a particle; others: 4
# What compression leaves of channels after a splash (decision 0003); of constants, ids: nothing.
PACKED = {"position": 0.81, "velocity": 0.85, "vorticity": 0.85, "density": 0.62, "pressure": 0.85}
PACKED_REST = 0.02
PACKED_ENTRIES = 1200  # bytes of a split channel's zip entries
WRITE_FRAME, WRITE_PARTICLE = 3e6, 400.0  # [ns] on a core, compressed as by default
DRAG = 0.4  # of an iteration's time: a pass of viscosity
LIKELY_ITERATIONS = 6  # with a tolerance of 1 %
SAMPLES = 20_000  # particles of a source that warnings look at


@dataclass(frozen=True)
class Rate:
    """Speed of a device [ns per particle] at a kernel radius of two spacings.

    `runnel check --measure` finds that of this one.
    """

    step: float  # neighbours, velocities and the like
    iteration: float
    launch: float = 0.0  # of a step, whatever its particles [ns]
    relaunch: float = 0.0  # of an iteration, likewise [ns]
    drag: float | None = None  # of a pass of viscosity; None: DRAG of an iteration
    listed: float = 0.0  # entries of a pilot's lists at which these rates hold; 0: not known
    besides: float = 0.0  # around a step: births, wet maps, books [ns]
    exchange: float = 0.0  # of an exchange with bodies, one in an iteration and some more [ns]
    write: float = 0.0  # compressing and writing a frame
    file: float = 0.0  # the same, whatever its particles [ns]
    beside: bool = False  # written while the device goes on: it is not made of the same cores


# A unit is a core, or a multiprocessor of a GPU. CPU: between what an AMD EPYC does with AVX2
# (200 and 60, busy) and with AVX-512 (100 and 36, free) on PoCL, as `--measure` finds it.
# Figures of GPUs are a guess.
PER_UNIT = {
    "cpu": Rate(step=140.0, iteration=45.0, launch=7e5, relaunch=2e5),
    "gpu": Rate(step=200.0, iteration=60.0),
    "reference": Rate(step=60_000.0, iteration=25_000.0),
}


def rate_of(device: DeviceInfo) -> Rate:
    """What a device probably does."""
    one = PER_UNIT.get(device.kind, PER_UNIT["cpu"])
    units = max(device.compute_units, 1)
    return dataclasses.replace(
        one,
        step=one.step / units,
        iteration=one.iteration / units,
        write=WRITE_PARTICLE,
        file=WRITE_FRAME,
        beside=device.kind == "gpu",
    )


@dataclass(frozen=True)
class Estimate:
    """Cost of a scene; particles at their most."""

    particles: int
    device_bytes: int
    host_bytes: int
    speed: float  # of the fastest particle [m/s]
    steps_per_frame: int
    iterations: int  # of a step
    seconds_per_frame: float | None  # None: no device was given
    frames: int
    disk_bytes: int  # frames, compressed as they are by default, and checkpoints

    @property
    def bytes(self) -> int:
        return self.device_bytes + self.host_bytes


def estimate(scene: Scene, rate: Rate | None = None, pilot: Pilot | None = None) -> Estimate:
    """What a scene will cost, roughly; with a pilot's findings less so."""
    most = scene.estimate_particles()
    speed = likely_speed(scene)
    steps = float(_steps(scene, speed))
    least, limit = scene.solver.iterations
    iterations = float(min(max(least, LIKELY_ITERATIONS), limit))
    frames = scene.frames[1] - scene.frames[0] + 1
    if pilot is None:
        crowd = _crowd(scene)
        plan = [(n, steps, iterations, 1.0) for n in crowd]
        particles = most
    else:
        crowd, particles = _crowd(scene), most
        if _removes(scene):
            # What is there at the start is known better than by the pilot.
            start = 1.0 if needs_pilot(scene) else pilot.legs[0].share
            crowd = [most * leg.share / start for leg in pilot.legs]
            particles = math.ceil(most * pilot.most / start)
        plan = [
            (n, leg.steps, leg.iterations, _crowding(rate, leg.flown))
            for n, leg in zip(crowd, pilot.legs, strict=True)
        ]
        total = sum(leg.steps for leg in pilot.legs) or 1.0
        steps = total / max(frames - 1, 1)
        iterations = sum(leg.steps * leg.iterations for leg in pilot.legs) / total
    seconds = None
    if rate is not None:
        seconds = sum(_seconds(scene, rate, *frame) for frame in plan) / frames
    return Estimate(
        particles=particles,
        device_bytes=int(_capacity(particles) * _device_bytes(scene))
        + TABLE_BYTES
        + _field_bytes(scene),
        host_bytes=int(_capacity(particles) * HOST_BYTES),
        speed=speed,
        steps_per_frame=round(steps),
        iterations=round(iterations),
        seconds_per_frame=seconds,
        frames=frames,
        disk_bytes=_disk_bytes(scene, crowd),
    )


def _crowding(rate: Rate | None, lap: Lap) -> float:
    """Work of a pass beside that when the rate was taken, by the neighbours that the pilot saw."""
    if rate is None or not rate.listed or not lap.listed:
        return 1.0
    return (OWN_ENTRIES + lap.listed) / (OWN_ENTRIES + rate.listed)


def _seconds(
    scene: Scene,
    rate: Rate,
    particles: float,
    steps: float,
    iterations: float,
    crowding: float = 1.0,
) -> float:
    """Of a frame."""
    once, repeated = _parts(scene, rate, crowding * particles)
    around = rate.besides + (iterations + STRIKES) * rate.exchange
    simulating = steps * (around + once + iterations * repeated)
    writing = rate.file + particles * rate.write
    return 1e-9 * (max(simulating, writing) if rate.beside else simulating + writing)


def _parts(scene: Scene, rate: Rate, particles: float) -> tuple[float, float]:
    """What a step takes once, and in each iteration [ns]."""
    passes = max(math.ceil(f.viscosity / STABLE_VISCOSITY - 1e-6) for f in scene.fluids)
    drag = DRAG * rate.iteration if rate.drag is None else rate.drag
    work = particles * _reach_factor(scene)
    once = rate.launch + work * (rate.step + passes * drag)
    return once, rate.relaunch + work * rate.iteration


def scene_rate(scene: Scene, rate: Rate, pilot: Pilot, probed: Sequence[Lap] = ()) -> Rate:
    """A device's rate for this very scene: its fluids, radii, walls and bodies.

    From a probe of the scene itself where it starts with enough particles, else from the pilot;
    medians, because a machine may have something else to do for a moment.
    """
    laps = [leg.flown for leg in pilot.legs if leg.flown.steps]
    crowd = max((lap.particles for lap in laps), default=0)
    full = bool(probed) and min(lap.particles for lap in probed) > crowd / 2
    rate = _with_files(rate, probed, full)
    besides, exchange = (
        _around(spent, laps, probed, pilot.finer, full) for spent in (_besides, _exchange)
    )
    early = laps[1 : len(probed) + 1]
    laps = [lap for lap in laps if lap.particles > crowd / 2 and lap.iterations > 0]
    listed = [lap.listed for lap in (early if full else laps)]
    if full:
        laps = [lap for lap in probed if lap.iterations > 0]
    if not laps:
        return rate
    expected = [_parts(scene, rate, lap.particles) for lap in laps]
    once, launch = _fitted(
        [1e6 * lap.once / lap.steps for lap in laps], [e[0] for e in expected], rate.launch, full
    )
    repeated, relaunch = _fitted(
        [1e6 * lap.repeated / lap.steps / lap.iterations for lap in laps],
        [e[1] for e in expected],
        rate.relaunch,
        full,
    )
    return dataclasses.replace(
        rate,
        step=rate.step * once,
        # A step has them once, whatever its iterations: these tell nothing about them.
        drag=once * (DRAG * rate.iteration if rate.drag is None else rate.drag),
        iteration=rate.iteration * repeated,
        launch=launch,
        relaunch=relaunch,
        listed=float(np.median(listed)) if listed else 0.0,
        besides=besides,
        exchange=exchange,
    )


def _fitted(
    timed: Sequence[float], expected: Sequence[float], launch: float, full: bool
) -> tuple[float, float]:
    """Factor of the price of a particle that explains what was timed [ns], and launches beside.

    Launches are those of the device, whatever the scene; of a few particles, of which they may be
    most, nothing tells the two apart.
    """
    known, told = float(np.median(expected)), float(np.median(timed))
    if not full or known <= launch:
        factor = float(np.median([a / b for a, b in zip(timed, expected, strict=True)]))
        return factor, factor * launch
    launched = min(launch, told / 2)
    return (told - launched) / (known - launch), launched


def _with_files(rate: Rate, probed: Sequence[Lap], full: bool) -> Rate:
    """With what a run does for a frame of this scene: books, leaks, meshes, checkpoints too."""
    kept = 1e6 * float(np.median([lap.kept for lap in probed])) if probed else 0.0
    if not kept:
        return rate
    known = rate.file + rate.write * float(np.median([lap.particles for lap in probed]))
    if full:
        return dataclasses.replace(
            rate, file=rate.file * kept / known, write=rate.write * kept / known
        )
    return dataclasses.replace(rate, file=rate.file + max(kept - known, 0.0))


def _around(
    spent: Callable[[Sequence[Lap]], float],
    laps: Sequence[Lap],
    probed: Sequence[Lap],
    finer: float,
    full: bool,
) -> float:
    """What a step or an exchange takes of the host [ns], by the pilot's laps and those probed.

    Bodies that rest at first cost more once they are moved: the pilot knows how much. Deformable
    ones do by their voxels, of which the pilot has fewer.
    """
    same = laps[1 : len(probed) + 1]
    late, early = spent(laps), spent(same or laps)
    if finer != 1.0 and probed:
        return max(spent(probed) + finer * (late - early), 0.5 * spent(probed))
    if not full:
        return late
    return spent(probed) * min(max(late / max(early, 1.0), 0.5), 3.0)


def _besides(laps: Sequence[Lap]) -> float:
    """Of a step [ns]."""
    return float(np.median([1e6 * lap.besides / lap.steps for lap in laps])) if laps else 0.0


def _exchange(laps: Sequence[Lap]) -> float:
    """Of an exchange with bodies [ns]."""
    return float(np.median([1e6 * lap.bodies / lap.turns for lap in laps])) if laps else 0.0


def _crowd(scene: Scene) -> list[float]:
    """Particles of each frame if none is removed but by age."""
    first, last = scene.frames
    found = []
    for frame in range(first, last + 1):
        short = dataclasses.replace(scene, frames=(first, max(frame - 1, first)))
        found.append(float(short.estimate_particles()))
    if any(source.kind == "emitter" for source in scene.sources):
        still = tuple(source for source in scene.sources if source.kind == "volume")
        start = dataclasses.replace(scene, sources=still).estimate_particles() if still else 0
        found[0] = float(start)
    return found


def frame_work(scene: Scene) -> dict[int, float]:
    """Particles of each frame as far as sources tell; for the time that a run has left."""
    if not any(source.kind == "emitter" for source in scene.sources):
        return {}
    crowd = _crowd(scene)
    floor = max(0.05 * max(crowd), 1.0)  # a step has its price without particles, too
    return {frame: n + floor for frame, n in enumerate(crowd, scene.frames[0])}


def _disk_bytes(scene: Scene, crowd: list[float]) -> int:
    frames = sum(_frame_bytes(scene.output.channels, n) for n in crowd)
    texels = sum(c.wet_map_size**2 for c in scene.colliders if c.wet_map != "none")
    wet = texels * (2 * WET_TEXEL_BYTES + len(crowd) * WET_IMAGE_BYTES)
    return int(frames + 2 * (max(crowd) * CHECKPOINT_BYTES + CHECKPOINT_HEAD) + wet)


def _frame_bytes(channels: Sequence[str], particles: float) -> float:
    total = float(FRAME_BYTES)
    for name in channels:
        size = particles * CHANNEL_BYTES.get(name, 4)
        packed = PACKED_ENTRIES + size * PACKED.get(name, PACKED_REST)
        total += size if size < SMALLEST else packed
    return total


def _removes(scene: Scene) -> bool:
    """Whether particles are removed by place."""
    return bool(scene.sinks or scene.domain.min or scene.domain.max)


def needs_pilot(scene: Scene) -> bool:
    """Whether particles are born and removed by place, which only a simulation can tell."""
    born = any(source.kind == "emitter" for source in scene.sources)
    return born and _removes(scene)


def _capacity(particles: int) -> int:
    """Particles that memory is reserved for."""
    return CAPACITIES[bisect_left(CAPACITIES, particles + 2 * CLUSTER)]


def _device_bytes(scene: Scene) -> float:
    """Per particle of capacity."""
    entries = LIST_ENTRIES * _reach_factor(scene)
    lists = 4 * (LIST_ROOM if entries <= LIST_ROOM else LIST_SLACK * entries)
    turning = any(fluid.vorticity > 0 for fluid in scene.fluids)
    return DEVICE_BYTES + lists + (VORTICITY_BYTES if turning else 0)


def _field_bytes(scene: Scene) -> int:
    """Fields of meshes on the device, as they are at the start."""
    solids = Solids(scene)
    bodies = deformables_of(scene, solids, None)  # each has a field of its own, that yields
    fields = solids.fields if bodies is None else bodies.fields(solids.fields)
    fields += Sinks(scene).fields
    if not fields:
        return 0
    from .fields.packed import pack

    return 4 * len(pack(fields)[0])


def _reach_factor(scene: Scene) -> float:
    """Neighbours, and so the work of a pass, beside those at h = 2d."""
    return float((scene.solver.support / NARROW) ** scene.dimensions)


def program_bytes(scene: Scene) -> int:
    """Memory of the process itself, whatever the particles."""
    parts: tuple[Source | Collider | Sink, ...] = (*scene.sources, *scene.colliders, *scene.sinks)
    meshes = any(isinstance(part.shape, MeshFile) for part in parts)
    bodies = any(part.body in ("rigid", "deformable") for part in scene.colliders)
    return PROGRAM_BYTES + (COMPILED_BYTES if meshes or bodies else 0)


def initial_bytes(scene: Scene) -> int:
    """Memory that the volumes need [bytes]; what emitters add depends on sinks and walls."""
    volumes = tuple(source for source in scene.sources if source.kind == "volume")
    if not volumes:
        return 0
    return estimate(dataclasses.replace(scene, sources=volumes)).bytes


def _steps(scene: Scene, speed: float) -> int:
    length, solver = 1.0 / scene.fps, scene.solver
    longest = solver.max_time_step if solver.time_step == "auto" else solver.time_step
    if solver.time_step == "auto" and speed > 0:
        longest = min(longest, solver.cfl * scene.smallest_spacing / speed)
    return max(1, math.ceil(length / longest - 1e-9))


def likely_speed(scene: Scene) -> float:
    """Speed the fluid will reach [m/s]: its own, and that of a fall through the scene."""
    gravity = np.array(scene.solver.gravity, np.float64)
    pull = float(np.linalg.norm(gravity[list(scene.axes)]))
    own = max(_source_speed(source) for source in scene.sources)
    walls = max(0.0, Solids(scene).speed(0.0, frame_time(scene.frames[1], scene) or 1.0))
    if not pull:
        return max(own, walls)
    down = gravity / pull
    top = max(_reach(scene, source, -down) for source in scene.sources)
    parts: tuple[Source | Collider, ...] = (*scene.sources, *scene.colliders)
    bottom = max(_reach(scene, part, down) for part in parts)
    return max(math.sqrt(own**2 + 2 * pull * max(0.0, top + bottom)), walls)


def _source_speed(source: Source) -> float:
    speed = source.speed if source.speed is not None else float(np.linalg.norm(source.velocity))
    return speed


def _reach(scene: Scene, part: Source | Collider, direction: Floats) -> float:
    """How far a shape reaches along a direction; -inf if it has no end."""
    pose = motion_of(part, scene).pose(0.0)
    if isinstance(part, Collider) and isinstance(part.shape, MeshFile):  # may be open
        bounds = mesh_bounds(scene, part.shape)
        if bounds is None:
            return -math.inf
        low, high = world_bounds(BoxShape(*bounds), pose)
    else:
        low, high = world_bounds(shape_of(part.shape, scene.directory), pose)
    used = direction != 0
    corner = np.where(direction > 0, high, low)[used]
    reach = float(corner @ direction[used])
    return reach if math.isfinite(reach) else -math.inf


# --- warnings -------------------------------------------------------------------------------------


def warnings(scene: Scene) -> list[str]:
    """What is allowed and probably not meant; one sentence each."""
    found = []
    for index, source in enumerate(scene.sources):
        where = f"source[{index}] {source.name!r}"
        found += _misplaced(scene, source, where) + _too_small(scene, source, where)
    for index, collider in enumerate(scene.colliders):
        found += _thin(scene, collider, f"collider[{index}] {collider.name!r}")
    found += Solids(scene).take_notes() + Sinks(scene).take_notes()
    found += _time_step(scene)
    found += _kernel_rule(scene)
    return found


def _misplaced(scene: Scene, source: Source, where: str) -> list[str]:
    """A source in a solid, or outside of a container."""
    points = _sample(scene, source)
    solids = Solids(scene)
    rows = solids.rows(0.0, 0.0)
    names = [c.name for c in scene.colliders] + ["the domain"]
    inside = [c.mode == "inside" for c in scene.colliders] + [True]
    bodies = [c.body == "rigid" for c in scene.colliders] + [False]
    found = []
    for row, name, container, leaves_room in zip(rows, names, inside, bodies, strict=False):
        if leaves_room and source.kind == "volume":
            continue  # a body takes the place of what would be filled
        distance = row[1] * distances(row, points, solids.fields)
        if row[28] > 0:
            distance = np.abs(distance) - row[28]
        share = float(np.mean(distance < -0.25 * source.spacing)) if len(points) else 0.0
        if share == 0:
            continue
        what = "outside of the container" if container else "inside of the solid"
        part = "" if share > 0.999 else f"{max(100 * share, 0.1):.2g} % of it "
        verb = "emits" if source.kind == "emitter" else "lies"
        found.append(f"{where} {verb} {part}{what} {name!r}; the particles will be thrown out.")
    return found


def _too_small(scene: Scene, source: Source, where: str) -> list[str]:
    """A volume between whose walls no particle fits: the run would refuse it."""
    if source.kind == "emitter" or most_particles(scene, source) > SAMPLES:
        return []
    shape, pose = shape_of(source.shape, scene.directory), motion_of(source, scene).pose(0.0)
    if isinstance(shape, PointsShape) or len(fill(shape, source.spacing, pose, scene.ignored_axis)):
        return []
    return [f"{where}: no particle fits the shape; use a smaller spacing or a larger shape."]


def _sample(scene: Scene, source: Source) -> Floats:
    """Some of the positions a source fills."""
    shape = shape_of(source.shape, scene.directory)
    pose = motion_of(source, scene).pose(0.0)
    axis = scene.ignored_axis
    if isinstance(shape, PointsShape):
        return pose.to_world(shape.positions[:: max(1, len(shape.positions) // SAMPLES)])
    if source.kind == "emitter":
        return pose.to_world(_across(scene, source, shape))
    few = max(1.0, (scene.estimate_particles() / SAMPLES) ** (1 / scene.dimensions))
    return fill(shape, source.spacing * few, pose, axis)


def _across(scene: Scene, source: Source, shape: Shape) -> Floats:
    direction = np.array(source.direction, np.float64)
    if scene.ignored_axis >= 0:
        direction[scene.ignored_axis] = 0.0
    pose = motion_of(source, scene).pose(0.0)
    unit = direction / np.linalg.norm(direction)
    return cross_section(shape, unit, source.spacing, pose, scene.ignored_axis)


def distances(row: Rows, points: Floats, fields: Sequence[SparseField] = ()) -> Floats:
    """Signed distance of points (n, 3) to the shape of a packed row, negative inside of it; of a
    field in the fluid's sense."""
    rotation = row[8:17].reshape(3, 3).astype(np.float64)
    local = (points - row[17:20]) @ rotation.T
    if row[0] == FIELD:
        return float(row[5]) * fields[int(row[26])].distance(local / row[5])
    size = row[5:8].astype(np.float64)
    if row[0] == PLANE:
        plane: Floats = local[:, 2]
        return plane
    if row[0] == SPHERE:
        ball: Floats = np.linalg.norm(local, axis=1) - size[0]
        return ball
    q = np.abs(local) - size if row[0] == BOX else np.zeros_like(local)
    if row[0] == CYLINDER:
        across = np.linalg.norm(local[:, :2], axis=1) - size[0]
        q = np.stack([across, np.abs(local[:, 2]) - size[1]], axis=1)
    beyond: Floats = np.linalg.norm(np.maximum(q, 0.0), axis=1)
    within: Floats = np.minimum(q.max(axis=1), 0.0)
    return beyond + within


def _thin(scene: Scene, collider: Collider, where: str) -> list[str]:
    if collider.mode != "outside":
        return []
    index = scene.colliders.index(collider)
    row = Solids(scene).rows(0.0, 0.0)[index]
    size = {BOX: row[5:8], SPHERE: row[5:6], CYLINDER: row[5:7]}.get(int(row[0]), row[:0])
    thickness = 2 * float(min((s for s in size if s < ENDLESS / 2), default=math.inf))
    finest = max(source.spacing for source in scene.sources)
    voxel = collider.voxel_size or 0.0
    if thickness >= max(finest, voxel):
        return []
    than = "a voxel" if voxel > finest else "the spacing of the particles"
    return [
        f"{where} is {thickness:.3g} m thin, less than {than} ({max(finest, voxel):.3g} m): fluid "
        "may pass through it. Make it thicker or the spacing smaller."
    ]


def _time_step(scene: Scene) -> list[str]:
    solver = scene.solver
    if solver.time_step == "auto":
        return []
    speed = likely_speed(scene)
    dt = 1.0 / (scene.fps * _steps(scene, speed))
    travelled = speed * dt / scene.smallest_spacing
    if travelled <= STIFFEST:
        return []
    return [
        f"solver.time_step = {solver.time_step:g} s is long: at the likely {speed:.2g} m/s a "
        f"particle travels {travelled:.1f} spacings in a step. Beyond {STIFFEST:g} the step is "
        'divided; use "auto", which chooses its length by the speed.'
    ]


def _kernel_rule(scene: Scene) -> list[str]:
    """A particle alone must stay below rest density: m W(0, h) < rho0 (P003 eq. 3.27)."""
    w, _ = kernel(scene.solver.kernel, scene.dimensions)
    alone = float(w(np.zeros(1))[0]) / (scene.solver.support / 2) ** scene.dimensions
    if alone < 1.0:
        return []
    return [
        f"solver.support = {scene.solver.support:g} is too small for the {scene.solver.kernel} "
        f"kernel: a particle alone has {alone:.2f} times the rest density."
    ]
