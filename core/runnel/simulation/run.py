"""Simulation: drives the steps of a scene frame by frame."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..backends.base import FORCE_COLUMNS, Survey
from ..backends.devices import DeviceInfo
from ..colliders import Sinks, Solids, kill_bounds
from ..errors import DeviceError, RunnelError, SimulationError
from ..forces import Currents, pack_forces
from ..meshes import Mesh
from ..motion import Pose, frame_time
from ..particles import ParticleStore
from ..scene import Scene
from ..solver.acceleration import Plan
from ..solver.step import Fields, Iterations, StepReport
from ..solver.step import step as solver_step
from ..sources import (
    EMITTER_GAP,
    Emitter,
    MassLedger,
    emitters,
    fill_volumes,
    point_channels,
    select,
    without_overlap,
)
from ..wetmap import WetMaps
from .clock import Clock, hydrostatic_speed, is_deep, steps_of_frame
from .nozzles import Nozzles
from .particles import Particles
from .report import Report
from .setup import bodies_of, coarse_level, deformables_of, make_model, open_backend

FORMAT = 2  # of the stored state
REFINE = 1.5  # how many times too few steps a frame may have before what is left of it is refined


class Simulation:
    """A scene being simulated on a device; starts at the scene's first frame, time 0.

    scene: what to simulate. device: a word of `runnel devices`. memory_limit [bytes]: of host and
    device together. timed: measure each stage, which costs a wait for the device at its end.
    """

    def __init__(
        self,
        scene: Scene,
        device: str | int | DeviceInfo = "auto",
        *,
        memory_limit: int | None = None,
        timed: bool = True,
    ) -> None:
        self.scene = scene
        self.ledger = MassLedger.of(scene)
        self._timed = timed
        self._memory_limit = memory_limit
        self._clock = Clock(scene)
        self._solids, self._sinks = Solids(scene), Sinks(scene)
        self._currents = Currents(scene)
        self.bodies = bodies_of(scene, self._solids)  # None: the fluid moves none
        self.deformables = deformables_of(scene, self._solids, self.bodies)
        self._wet = WetMaps(scene, self._solids)
        self._low, self._high = kill_bounds(scene)
        self._emitters, self._nozzles = emitters(scene), Nozzles(scene)
        self._emitted_to = 0.0  # time up to which emitters have given [s]
        self._limits = Iterations(*scene.solver.iterations, scene.solver.tolerance)
        self._model = make_model(scene)
        self._coarse = coarse_level(scene, self._model)
        volumes = fill_volumes(scene)
        for bodies in (self.bodies, self.deformables):
            if bodies is not None:
                volumes = [
                    (i, select(births, bodies.leave_room(births["position"], births["volume"])))
                    for i, births in volumes
                ]
        self._survey: Survey | None = None  # of the last step
        self._plan = Plan()
        self._pressure_speed = 0.0  # of the frame under way [m/s]
        self._failed: RunnelError | None = None
        self._closed = False
        self._frame_start = (0, 0)  # particles emitted and removed ahead of the frame under way
        self._kept = self._clock.state(), 0  # state to fall back to: clock, next id
        self._under_way = self._report = Report()
        self._backend, self.device, allocator = open_backend(scene, self._model, device)
        store = ParticleStore(limit_bytes=memory_limit)
        self.particles = Particles(store, self._backend, self._model, self._clock, self.ledger)
        try:
            with self._guarded():
                for name, (dtype, width) in point_channels(scene).items():
                    self.particles.add_channel(name, dtype, width)
                for index, births in volumes:
                    self.particles.born(scene.sources[index].name, births)
                store.move_to(allocator)
                self.particles.hand_over()
                self._look_at_start()
                self._report = self._measure(Report(), (0, 0))
                self._check_memory()
        except BaseException:
            self.close()
            raise

    # --- for users -----------------------------------------------------------------------------

    @property
    def frame(self) -> int:
        """The last frame that is complete."""
        return self._clock.frame

    @property
    def time(self) -> float:
        """[s] since the first frame."""
        return self._clock.time

    @property
    def share_of_frame(self) -> float:
        """How much of the coming frame is done, 0 at a frame."""
        return self._clock.done / self._clock.steps if self._clock.steps else 0.0

    @property
    def mid_frame(self) -> bool:
        return self._clock.done > 0

    @property
    def report(self) -> Report:
        """Of the last complete frame."""
        return self._report

    @property
    def last_dt(self) -> float:
        """Length of the last step [s]."""
        return self._clock.last_dt

    @property
    def survey(self) -> Survey:
        """Speeds by which the length of the coming steps is chosen."""
        return self._latest()

    @property
    def pull(self) -> float:
        """Acceleration that velocity fields give at most [m/s^2]."""
        return self._currents.acceleration(frame_time(self.frame, self.scene))

    @property
    def device_name(self) -> str:
        return self._backend.name

    @property
    def bytes(self) -> dict[str, int]:
        """Memory in use."""
        return {
            "device": int(getattr(self._backend, "bytes", 0)),
            "host": self.particles.store.bytes,
        }

    @property
    def neighbours_listed(self) -> float:
        """Mean entries of a list of neighbours in the last step; 0 on devices without lists."""
        return float(getattr(self._backend, "listed", 0.0))

    @property
    def wet_maps(self) -> dict[str, NDArray[np.float32]]:
        """Wet maps by collider (rows, columns, 3): amount 0..1, contact time [s], touched now."""
        return {wet.part.name: wet.image() for wet in self._wet.maps.values()}

    def write_wet_maps(self, folder: str | Path) -> list[Path]:
        """Write them as folder/COLLIDER/COLLIDER.0001.exr (or .png) of the frame done last."""
        return self._wet.write(Path(folder), self.frame)

    def body_poses(self) -> dict[str, Pose]:
        """Where rigid bodies are, by collider: what takes its shape's own frame to the world."""
        return {} if self.bodies is None else self.bodies.body_poses()

    def body_meshes(self) -> dict[str, Mesh]:
        """Deformable bodies as they are, by collider, in the world."""
        return {} if self.deformables is None else self.deformables.meshes()

    def advance(self, frame: int, *, on_step: Callable[[StepReport], None] | None = None) -> Report:
        """Simulate up to and including a frame; the report is that of this frame.

        `on_step` is called after each step; what it raises ends the call between two steps, and
        the simulation can go on from there.
        """
        if frame < self.frame or (frame == self.frame and self._clock.done):
            raise SimulationError(
                f"frame {frame} lies in the past, the simulation is at frame {self.frame}. "
                "Start a new one, or read the frame from the cache."
            )
        while self.frame < frame:
            step = self._guarded_step()
            if on_step is not None:
                on_step(step)
        return self._report

    def step(self) -> Report:
        """One time step; a frame has as many as `time_step` or "auto" asks for."""
        before = self._booked()
        report = Report()
        report.add(self._guarded_step())
        return self._measure(report, before)

    def close(self) -> None:
        """Give the device back. What the store holds can still be read."""
        if self._closed:
            return
        self._closed = True
        try:
            if self._failed is None:
                self.particles.settle()
                self.particles.keep()
        finally:
            self.particles.freeze(self.particles.store.next_id)
            self.particles.store.move_to(None)
            self._backend.close()

    def __enter__(self) -> Simulation:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # --- storing -------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Everything a run needs to go on as if it had not stopped: arrays and JSON values."""
        with self._guarded():
            self.particles.settle()
            arrays = self.particles.device_rows() | self._nozzles.state() | self._wet.state()
            if self.bodies is not None:
                arrays |= self.bodies.state()
            if self.deformables is not None:
                arrays |= self.deformables.state()
            now = self._latest()
        store = self.particles.store
        channels = {}
        for name in self.particles.user_channels:
            item = store.channel(name)
            channels[name] = [item.dtype.name, item.width, item.default.tolist()]
        meta = {
            "format": FORMAT,
            "clock": self._clock.state(),
            "emitted_to": self._emitted_to,
            "until_reorder": self.particles.until_reorder,
            "plan": [self._plan.iterations, self._plan.calm],
            "pressure_speed": self._pressure_speed,
            # Newborns have raised its speeds, which one that is made anew would not know of.
            "survey": [now.max_speed, now.count, now.bulk_speed],
            "emitters": {emitter.name: emitter.state() for emitter in self._emitters},
            "ledger": self.ledger.state(),
            "next_id": store.next_id,
            "channels": channels,
            "report": self._report.to_dict(),
            "under_way": self._under_way.to_dict(),
            "booked": list(self._frame_start),
        }
        return arrays, meta

    def restore(self, arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> None:
        """Go back (or ahead) to what `state` gave, for a scene that is the same."""
        if meta.get("format") != FORMAT:
            raise RunnelError(
                f"The stored state has format {meta.get('format')!r}, this Runnel reads {FORMAT}."
            )
        for name, (dtype, width, default) in meta["channels"].items():
            if name not in self.particles.user_channels:
                self.particles.add_channel(name, dtype, width, default)
        with self._guarded():
            self._survey = _stored_survey(meta)
            self.particles.edited = False
            self._clock.restore(meta["clock"])
            self.particles.replace(arrays, int(meta["next_id"]), int(meta["until_reorder"]))
        for emitter in self._emitters:
            emitter.restore(meta["emitters"][emitter.name])
        self._nozzles.restore(arrays)
        if self.bodies is not None:
            self.bodies.restore(arrays)
        if self.deformables is not None:
            self.deformables.restore(arrays)
        self._wet.restore(arrays)
        self._emitted_to = float(meta["emitted_to"])
        self._plan = Plan(*(int(n) for n in meta["plan"]))
        self._pressure_speed = float(meta["pressure_speed"])
        self.ledger.restore(meta["ledger"])
        self._report = Report.from_dict(meta["report"])
        self._under_way = Report.from_dict(meta["under_way"])
        emitted, removed = meta["booked"]
        self._frame_start = int(emitted), int(removed)

    # --- inside --------------------------------------------------------------------------------

    def synchronize(self) -> None:
        """Wait for the device; for timing."""
        self._backend.synchronize()

    def bare_step(self, *, timed: bool) -> StepReport:
        """One time step without the books and checks of `step`; for benchmarks."""
        with self._guarded():
            report = self._substep(timed)
            self._clock.tick()
        return report

    def _substep(self, timed: bool) -> StepReport:
        """All of a step but the clock's tick."""
        clock = self._clock
        if not clock.steps:
            self._expect_pressure()
            clock.begin(self._steps_of_frame())
        elif self.scene.solver.time_step == "auto":
            wanted = self._steps_of_frame()
            if wanted > REFINE * clock.steps:
                clock.refine()
        self.particles.hand_over()
        if clock.done == 0:
            self._wet.begin_frame()
        dt, end = clock.dt, clock.step_end
        fields = self._fields(clock.time, end, dt)
        if self.bodies is not None:
            self.bodies.begin(clock.time, dt, fields.gravity)
        if self.deformables is not None:
            self.deformables.begin(end, dt, fields.gravity)
        report = solver_step(
            self._backend, self._model, fields, dt, self._limits, self._plan, timed
        )
        self._survey, self._plan = self._with_bodies(report.survey), report.plan
        self.particles.changed()
        if len(self._wet):
            x, volume = (self._backend.read(name) for name in ("position", "volume"))
            rows = fields.solids if self.bodies is None else self.bodies.rows(fields.solids)
            shapes = {} if self.deformables is None else self.deformables.shapes()
            self._wet.step(rows, x, volume, end, dt, shapes)
        self._emit(end)
        return report

    def _steps_of_frame(self) -> int:
        return steps_of_frame(
            self.scene,
            self._clock.frame,
            self._latest(),
            self._solids,
            self._emitters,
            self._pressure_speed,
            self.pull,
        )

    def _expect_pressure(self) -> None:
        """Judge anew, once a frame, how high pressure will be where the fluid comes to rest."""
        volume = float(self.particles.store["volume"].sum(dtype=np.float64))
        self._pressure_speed = hydrostatic_speed(self.scene, self.particles["position"], volume)

    def _latest(self) -> Survey:
        """The survey of the last step; of the state where there was none, or users changed it."""
        if self._survey is None or self.particles.edited:
            self.particles.edited = False
            self._survey = self._with_bodies(self._backend.survey())
        return self._survey

    def _with_bodies(self, survey: Survey) -> Survey:
        """Bodies count as the fluid does, for the length of steps: what they hit is no spray."""
        fastest = 0.0 if self.bodies is None else float(self.bodies.speeds().max())
        if self.deformables is not None:
            fastest = max(fastest, self.deformables.speed())
        return replace(
            survey,
            max_speed=max(survey.max_speed, fastest),
            bulk_speed=max(survey.bulk_speed, fastest),
        )

    def _guarded_step(self) -> StepReport:
        """One step, and what belongs to the end of a frame."""
        with self._guarded():
            if self._clock.done == 0:
                self._frame_start = self._booked()
            step = self._substep(self._timed)
            self._check_finite()
            self._under_way.add(step)
            if self._clock.tick():
                self._report = self._measure(self._under_way, self._frame_start)
                self._under_way = Report()
                self._check_memory()
        return step

    def _fields(self, start: float, end: float, dt: float) -> Fields:
        gravity = np.array(self.scene.solver.gravity, np.float32)
        if self.scene.ignored_axis >= 0:
            gravity[self.scene.ignored_axis] = 0.0
        return Fields(
            gravity=gravity,
            forces=pack_forces(self.scene, start),
            solids=self._solids.rows(end, dt),
            sinks=self._sinks.rows(end),
            low=self._low,
            high=self._high,
            removes=self._removes(),
            end=end,
            coarse=self._coarse if is_deep(self.scene, self._pressure_speed) else None,
            fall=self._fall(gravity, dt),
            pressure_number=(self._pressure_speed * dt / self.scene.smallest_spacing) ** 2,
            held=self._nozzles.step(start, dt) if self._emitters else None,
            solid_fields=self._solids.fields,
            currents=self._currents.at(start),
            sink_fields=self._sinks.fields,
            bodies=self.bodies,
            deformables=self.deformables,
        )

    def _fall(self, gravity: NDArray[np.float32], dt: float) -> float:
        speed = self._pressure_speed  # sqrt(g H)
        return float(np.linalg.norm(gravity)) ** 2 * dt**2 / speed**2 if speed > 0 else 0.0

    def _removes(self) -> bool:
        limited = bool(np.isfinite(self._low).any() or np.isfinite(self._high).any())
        mortal = any(source.lifetime is not None for source in self.scene.sources)
        return limited or mortal or len(self._sinks) > 0

    def _emit(self, now: float) -> None:
        """Add what emitters gave during the step. Existing particles have precedence."""
        fresh = [(emitter, emitter.emit(self._emitted_to, now)) for emitter in self._emitters]
        self._emitted_to = now
        fresh = [(emitter, births) for emitter, births in fresh if len(births["phase"])]
        if not fresh:
            return
        boxes = [_around(births["position"], EMITTER_GAP * e.spacing) for e, births in fresh]
        existing = self._backend.positions_inside(np.stack(boxes))
        for emitter, births in fresh:
            keep = without_overlap(births["position"], emitter.spacing, existing)
            births = select(births, keep)
            ids = self.particles.born(emitter.name, births)
            if isinstance(emitter, Emitter):
                self._nozzles.add(emitter, ids, births)
            existing = np.concatenate([existing, births["position"]])
            self._seen(births["velocity"])

    def _seen(self, velocities: NDArray[np.float32]) -> None:
        """The survey was of what was there ahead of these."""
        speeds = np.linalg.norm(velocities.astype(np.float64), axis=1)
        fastest = float(speeds.max(initial=0.0))
        now = self._latest()
        self._survey = replace(
            now,
            max_speed=max(now.max_speed, fastest),
            bulk_speed=max(now.bulk_speed, fastest),
            count=now.count + len(speeds),
        )

    def _look_at_start(self) -> None:
        """Densities of the initial state. A step of no length: nothing moves."""
        still = np.zeros(3, np.float32)
        self._backend.set_solids(self._solids.rows(0.0, 0.0), self._solids.fields)
        self._backend.predict(0.0, still, np.zeros((0, FORCE_COLUMNS), np.float32))
        self._backend.find_neighbors()
        self._backend.compute_pressure(0.0, 0.0)
        self.particles.changed()

    def _booked(self) -> tuple[int, int]:
        """Particles emitted and removed so far."""
        emitted = sum(account.count for account in self.ledger.emitted.values())
        return emitted, self.ledger.removed.count

    def _measure(self, report: Report, before: tuple[int, int]) -> Report:
        """Fill in what concerns the state, and keep it as the one to fall back to."""
        particles = self.particles
        particles.settle()
        particles.keep()
        self._kept = self._clock.state(), particles.store.next_id
        mass = particles["mass"].astype(np.float64)
        momentum = mass @ particles["velocity"].astype(np.float64)
        emitted, removed = self._booked()
        report.frame, report.time, report.particles = self.frame, self.time, particles.count
        report.mass = float(mass.sum())
        report.momentum = (float(momentum[0]), float(momentum[1]), float(momentum[2]))
        report.max_speed = self._latest().max_speed
        report.emitted, report.removed = emitted - before[0], removed - before[1]
        report.bodies = [] if self.bodies is None else self.bodies.poses()
        report.notes = [*self._solids.take_notes(), *self._sinks.take_notes()]
        if not report.steps:
            self._backend.measure_error()
            report.density_error_avg, report.density_error_max = self._backend.density_error()
        return report

    def _check_finite(self) -> None:
        """Nothing that is not a number leaves a step."""
        bad = self._latest().bad_id
        if bad is not None:
            raise SimulationError(
                "position or velocity is not a finite number any more. Likely cause: a velocity "
                "or force far too large for the time step; use a shorter time_step.",
                particle=bad,
            )

    def _check_memory(self) -> None:
        used = sum(self.bytes.values())
        if self._memory_limit is not None and used > self._memory_limit:
            raise RunnelError(
                f"frame {self.frame}: {self.particles.count} particles need {used / 2**30:.2f} GB, "
                f"the limit is {self._memory_limit / 2**30:.2f} GB. Use a larger spacing, sinks or "
                "lifetimes, or raise the limit."
            )

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Errors name frame and time; after one, the last good frame is all there is."""
        if self._closed:
            raise RunnelError("The simulation is closed.")
        if self._failed is not None:
            raise self._failed
        try:
            yield
        except SimulationError as error:
            raise self._fail(self._placed(error)) from error
        except RunnelError as error:
            raise self._fail(error) from error.__cause__
        except Exception as error:
            if not type(error).__module__.startswith("pyopencl"):
                raise
            lost = DeviceError(f"{self._backend.name}: {error} (frame {self.frame + 1}).")
            raise self._fail(lost) from error

    def _fail(self, error: RunnelError) -> RunnelError:
        self._failed = error
        clock, next_id = self._kept
        self._clock.restore(clock)
        self.particles.freeze(next_id)
        return error

    def _placed(self, error: SimulationError) -> SimulationError:
        message = f"{error.message} (at {self.time:.4g} s)"
        return SimulationError(message, frame=self.frame + 1, particle=error.particle)


def _stored_survey(meta: Mapping[str, Any]) -> Survey | None:
    """What `state` told of the survey; None, then it is made anew: an older Runnel did not."""
    known = meta.get("survey")
    if known is None:
        return None
    fastest, count, bulk = known
    return Survey(float(fastest), int(count), None, float(bulk))


def _around(positions: NDArray[np.float32], margin: float) -> NDArray[np.float32]:
    """The box (low, high) of positions (n, 3), widened."""
    margin = 1.001 * margin  # rounding
    return np.stack([positions.min(axis=0) - margin, positions.max(axis=0) + margin])
