"""`runnel run`: simulate a scene into a cache."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..backends import devices
from ..backends.devices import DeviceInfo
from ..branching import State, check_change, parent_scene, restore, state_at, taken_over
from ..cache import CHECKPOINTS_KEPT, COMPRESSIONS, Background, Branch, Cache
from ..errors import CacheError, RunnelError, SceneError, SimulationError
from ..estimate import frame_work, initial_bytes, program_bytes
from ..leaks import Leaks
from ..params import CHANNELS
from ..progress import Progress, duration
from ..scene import Scene
from ..simulation import Report, Simulation
from ..solids import Solid, deformed, poses, solids_of
from ..solver.step import StepReport
from ..sources import point_channels
from . import scenes
from .console import complain, say, say_json, size_text
from .log import LOG_NAME, RunLog
from .memory import check_memory, resident_bytes

INTERRUPTED = 130
CHECKPOINT_EVERY = 10  # frames


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "run", help="simulate a scene; write the cache", description="Simulate into a cache."
    )
    scenes.add_scene(parser)
    parser.add_argument("--out", required=True, metavar="DIR", help="folder of the cache")
    parser.add_argument(
        "--frames",
        metavar="A-B",
        help="frames to write; the simulation starts at the scene's first",
    )
    parser.add_argument("--device", default="auto", metavar="NAME", help="see `runnel devices`")
    parser.add_argument(
        "--resume", action="store_true", help="go on from the last checkpoint in DIR, if any"
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="a cache of another scene in DIR may be replaced"
    )
    parser.add_argument(
        "--memory-limit", type=float, metavar="GB", help="most memory, of host and device together"
    )
    parser.add_argument(
        "--checkpoint",
        type=int,
        default=CHECKPOINT_EVERY,
        metavar="N",
        help="frames between checkpoints; 0 for none but at an interrupt (default %(default)s)",
    )
    parser.add_argument(
        "--keep-checkpoints",
        type=int,
        default=CHECKPOINTS_KEPT,
        metavar="N",
        help="most checkpoints kept, from which --branch starts at once (default %(default)s)",
    )
    parser.add_argument(
        "--branch",
        metavar="DIR",
        help="go on from a frame of this cache with the settings given now; DIR stays as it is, "
        "and the frames up to there are shared, not copied",
    )
    parser.add_argument(
        "--from", dest="from_frame", type=int, metavar="FRAME", help="last frame that is shared"
    )
    parser.add_argument(
        "--compression",
        choices=COMPRESSIONS,
        default="zlib",
        help="of the frames (default %(default)s); zstd needs a package to read",
    )
    parser.add_argument(
        "--json", action="store_true", help="a JSON object on stdout, progress as JSON lines"
    )
    parser.add_argument("--quiet", action="store_true", help="no progress")
    parser.set_defaults(command=run)


class Interrupted(Exception):
    """A signal asked the run to end between two steps."""


@dataclass
class Signals:
    """Ctrl-C and SIGTERM, taken note of; a second one ends the process at once."""

    caught: int = 0
    _before: dict[int, Any] = field(default_factory=dict)

    @contextmanager
    def watched(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield  # inside of a host: signals are the host's
            return
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._note)
        try:
            yield
        finally:
            self._hand_back()

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.caught = number
        self._hand_back()

    def _hand_back(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def check(self, *_: Any) -> None:
        if self.caught:
            raise Interrupted


def run(args: argparse.Namespace) -> int:
    scene = scenes.load(args)
    first, last = _frames(args, scene)
    limit = _memory_limit(args, scene)
    _check_channels(scene)
    _check_numbers(args)
    branch = _branch(args, scene, first)
    signals = Signals()
    with signals.watched():
        mode = "quiet" if args.quiet else "json" if args.json else "auto"
        progress = Progress(first, last, mode=mode)
        progress.weights = frame_work(scene)
        progress.stage("looking for a device")
        info = devices.choose(args.device)
        if info.note:
            progress.say(info.note)
        try:
            state = branch.state(info, limit, progress, signals) if branch else None
        except Interrupted:
            complain("interrupted before the branch began")
            return INTERRUPTED
        progress.stage("preparing colliders and sources")
        with Simulation(scene, info, memory_limit=limit) as sim:
            lost = args.resume and not _readable(args.out)
            cache = _open_cache(args, scene, sim, branch, first)
            with RunLog(cache.directory / LOG_NAME, progress) as log:
                log.begin(sys.argv[1:], scene, sim, info)
                if lost and branch is None and cache.frames():
                    progress.say(f"{args.out}: lost manifest made anew from the sound frames")
                if state is not None:
                    restore(sim, state, str(args.branch))
                    cache.write_checkpoint(sim.frame, *sim.state())
                job = Job(args, sim, cache, first, last, signals, progress, limit)
                return log.end(job.work())


@dataclass
class Fork:
    """The cache and frame that a run goes on from."""

    parent: Cache
    frame: int
    old: Scene
    new: Scene

    def state(
        self, info: DeviceInfo, limit: int | None, progress: Progress, signals: Signals
    ) -> State:
        found = state_at(
            self.parent, self.old, self.frame, info, limit, progress.say, signals.check
        )
        return taken_over(found, self.old, self.new)


def _branch(args: argparse.Namespace, scene: Scene, first: int) -> Fork | None:
    """What --branch and --from mean; None: no branch, or one that --resume goes on with."""
    frame = args.from_frame
    if args.branch is None:
        if frame is not None:
            raise SceneError("goes with --branch", key="--from", value=frame)
        return None
    begun = _begun(args, scene) if args.resume else None
    origin = begun.manifest.branch if begun else None
    if begun and origin and begun.goes_on(first):
        if frame not in (None, origin.frame):
            message = f"{args.out} is a branch from frame {origin.frame}; without --resume it is"
            raise SceneError(f"{message} begun anew", key="--from", value=frame)
        return None
    try:
        parent = Cache.open(args.branch)
    except CacheError as error:
        raise CacheError(f"{error} {_stuck(args.out, origin)}" if origin else str(error)) from error
    if frame is None:  # the parent of a branch that was begun may have gone on since
        frame = origin.frame if origin else parent.last_frame
    if frame is None or frame not in parent.frames():
        have = parent.frames()
        extent = f"{have[0]} to {have[-1]}" if have else "none yet"
        raise SceneError(f"{args.branch} holds frames {extent}", key="--from", value=frame)
    old = parent_scene(parent, scene)
    check_change(old, scene)
    return Fork(parent, frame, old, scene)


def _begun(args: argparse.Namespace, scene: Scene) -> Cache | None:
    """What an earlier run of the scene left in --out."""
    with suppress(CacheError):  # none; what is damaged or another's is for Cache.create to refuse
        cache = Cache.open(args.out)
        return cache if cache.is_of(scene.to_dict(defaults=True), scene.digest()) else None
    return None


def _stuck(folder: str, origin: Branch) -> str:
    return (
        f"{folder}: is a branch, and has no sound checkpoint to go on from. Begin it again with "
        f"--branch (it came from {origin.parent!r}) and --from {origin.frame}; or, with neither "
        "these nor --resume, simulate all of it from the first frame."
    )


def _open_cache(
    args: argparse.Namespace, scene: Scene, sim: Simulation, branch: Fork | None, first: int
) -> Cache:
    settings: dict[str, Any] = {
        "digest": scene.digest(),
        "device": sim.device_name,
        "fps": scene.fps,
        "compression": args.compression,
        "overwrite": args.overwrite,
        "first": first,
    }
    story = scene.to_dict(defaults=True)
    if branch:
        return Cache.branch(args.out, branch.parent, branch.frame, story, **settings)
    return Cache.create(args.out, story, resume=args.resume, **settings)


def _readable(folder: str) -> bool:
    with suppress(CacheError):
        Cache.open(folder)
        return True
    return False


def _check_numbers(args: argparse.Namespace) -> None:
    if args.checkpoint < 0:
        raise SceneError("must not be negative", key="--checkpoint", value=args.checkpoint)
    if args.keep_checkpoints < CHECKPOINTS_KEPT:
        message = f"must be {CHECKPOINTS_KEPT} or more"
        raise SceneError(message, key="--keep-checkpoints", value=args.keep_checkpoints)


def _frames(args: argparse.Namespace, scene: Scene) -> tuple[int, int]:
    first, last = scenes.frame_range(args.frames, *scene.frames)
    if first < scene.frames[0]:
        raise SceneError(
            f"the scene starts at frame {scene.frames[0]}", key="--frames", value=args.frames
        )
    return first, last


def _memory_limit(args: argparse.Namespace, scene: Scene) -> int | None:
    if args.memory_limit is None:
        return None
    if not args.memory_limit > 0:
        raise SceneError("must be above 0", key="--memory-limit", value=args.memory_limit)
    limit = int(args.memory_limit * 2**30)
    program, particles = program_bytes(scene), initial_bytes(scene)
    if program + particles > limit:
        raise RunnelError(
            f"{args.scene}: about {size_text(program)} for the program and {size_text(particles)} "
            f"for the particles would be needed, --memory-limit is {args.memory_limit:g} GB. Use a "
            "larger spacing, or raise the limit."
        )
    return limit


def _check_channels(scene: Scene) -> None:
    given = point_channels(scene)
    for i, name in enumerate(scene.output.channels):
        if name not in CHANNELS and name not in given:
            known = ", ".join((*CHANNELS, *given))
            raise SceneError(
                f"no such channel; files of points and scripts can add some. There are: {known}",
                key=f"output.channels[{i}]",
                value=name,
            )


@dataclass
class Job:
    """One run: a simulation, the cache it fills, and the frames to write."""

    args: argparse.Namespace
    sim: Simulation
    cache: Cache
    first: int
    last: int
    signals: Signals
    progress: Progress
    limit: int | None = None  # of memory [bytes]
    started: float = field(default_factory=time.perf_counter)
    solids: list[Solid] = field(init=False)
    leaks: Leaks = field(init=False)
    writer: Background = field(default_factory=Background)

    def __post_init__(self) -> None:
        self.solids = solids_of(self.sim.scene)
        self.leaks = Leaks(self.sim.scene)

    def work(self) -> int:
        with self.progress, closing(self.writer):
            self._keep_solids()
            self._resume()
            try:
                self._simulate()
            except Interrupted:
                self.writer.finish()
                return self._stop()
        self._finish()
        return 0

    def _simulate(self) -> None:
        sim = self.sim
        self.signals.check()
        self._show(sim.report.notes)
        wanted = sim.frame >= self.first and self.cache.last_frame != sim.frame
        if wanted and not sim.mid_frame:
            self._write()
        self.progress.first = sim.frame + 1
        while sim.frame < self.last:
            sim.advance(sim.frame + 1, on_step=self._after_step)
            self._show(sim.report.notes)
            self._write()
            self.signals.check()
        self.writer.finish()

    def _announce(self, report: Report, write_seconds: float) -> None:
        """A frame is simulated, and on disk if it is one of those to write."""
        self.progress.frame(
            report.frame,
            particles=report.particles,
            ms_per_step=report.ms_per_step,
            density_error=report.density_error_avg,
            report=report.to_dict(),
            write_ms=round(1e3 * write_seconds, 1),
        )

    def _show(self, notes: list[str]) -> None:
        for note in notes:
            self.progress.say(f"warning: {note}")

    def _after_step(self, step: StepReport) -> None:
        self.writer.look()
        self.signals.check()
        if self.limit is not None:
            check_memory(self.sim, self.limit)
        share = self.sim.share_of_frame
        if share:
            self.progress.within(
                self.sim.frame + 1,
                share,
                particles=self.sim.particles.count,
                ms_per_step=sum(step.milliseconds.values()),
                density_error=step.density_error_avg,
            )

    def _resume(self) -> None:
        if not self.args.resume:
            return
        found = self.cache.read_checkpoint()
        if found is None:
            origin = self.cache.manifest.branch
            if origin is not None:  # from the first frame on it would be another shot
                raise CacheError(_stuck(self.args.out, origin))
            self.progress.say(f"{self.args.out}: no checkpoint, starting at the first frame")
            return
        frame, arrays, meta = found
        restore(self.sim, (arrays, meta), str(self.cache.checkpoint_path(frame)))
        self.cache.truncate(frame)
        self.progress.say(f"{self.args.out}: going on after frame {frame}")

    def _write(self) -> None:
        """Hand a frame to the writer; it is announced once it is on disk."""
        sim, report = self.sim, self.sim.report
        told = report.steps > 0  # the first frame is where all begins, no work

        def done(seconds: float) -> None:
            if told:
                self._announce(report, seconds)

        self.writer.finish()  # no two frames in memory besides the simulation's
        frame, every = sim.frame, self.args.checkpoint
        wanted = frame >= self.first  # of those ahead only checkpoints are kept
        due = every and ((frame - sim.scene.frames[0]) % every == 0 or frame == self.last)
        arrays, numbers = self._contents() if wanted else ({}, {})
        state = sim.state() if due else None

        def write() -> None:
            if wanted:
                self.cache.write(frame, arrays, numbers)
            if state is not None:
                self.cache.write_checkpoint(frame, *state, keep=self.args.keep_checkpoints)

        self.writer.start(write, done)

    def _contents(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Arrays and numbers of a frame; wet maps and meshes that deform go to files at once."""
        sim = self.sim
        arrays = {name: sim.particles[name] for name in sim.scene.output.channels}
        _refuse_bad(arrays, sim.frame)
        numbers = {**sim.report.to_dict(), **self._solids(), **self._books()}
        sim.write_wet_maps(self.cache.directory / "wetmaps")
        return arrays, numbers

    def write_now(self) -> None:
        """Write the frame that is complete, and wait for it; for forecasts."""
        self._write()
        self.writer.finish()

    def _books(self) -> dict[str, Any]:
        """What the report page tells of a frame besides the solver's numbers."""
        sim, ledger = self.sim, self.sim.ledger
        given = {name: account.mass for name, account in ledger.emitted.items()}
        memory = {**sim.bytes, "process": resident_bytes()}
        leaks = self.leaks.count(sim.frame, sim.particles["position"], sim.particles["radius"])
        books = {"given": given, "removed": ledger.removed.mass, "expected": ledger.mass}
        return {"ledger": books, "memory": memory, "leaks": leaks}

    def _keep_solids(self) -> None:
        """Meshes of colliders, for exporters; without them the shot is whole all the same."""
        if not (self.args.resume or self.args.branch):  # those of frames that are kept stay
            self.cache.clear_solids()
        for solid in self.solids:
            if solid.mesh is not None:
                mesh = solid.mesh
                self.cache.write_solid(solid.index, solid.name, mesh.vertices, mesh.triangles)

    def _solids(self) -> dict[str, Any]:
        """Where the solids are in this frame; bodies that the fluid moves say so themselves."""
        sim, scene = self.sim, self.sim.scene
        meshes = sim.body_meshes()
        for solid in self.solids:
            if solid.deforms:
                mesh = meshes.get(solid.name) or deformed(scene, solid, sim.frame)
                self.cache.write_solid(
                    solid.index, solid.name, mesh.vertices, mesh.triangles, sim.frame
                )
        found = poses(scene, self.solids, sim.frame, sim.body_poses())
        return {"poses": found} if found else {}

    def _stop(self) -> int:
        """Leave a cache from which `--resume` goes on at this very step."""
        frame = self.sim.frame
        if self.cache.last_frame == frame or frame < self.first:
            self.cache.write_checkpoint(frame, *self.sim.state(), keep=self.args.keep_checkpoints)
            complain(f"interrupted after frame {frame}; --resume goes on from there")
        else:
            complain("interrupted before the first frame was written")
        if self.args.json:
            say_json({"done": False, **self._summary()})
        return INTERRUPTED

    def _finish(self) -> None:
        if self.args.json:
            say_json({"done": True, **self._summary()})
        elif not self.args.quiet:
            frames = self.cache.frames()
            count = f"{len(frames)} frames ({frames[0]}-{frames[-1]})" if frames else "no frames"
            total = sum(self.cache.entry(frame).bytes for frame in frames)
            spent = duration(time.perf_counter() - self.started)
            say(f"{self.args.out}: {count}, {size_text(total)}, in {spent}")

    def _summary(self) -> dict[str, Any]:
        return {
            "cache": str(self.args.out),
            "scene": self.sim.scene.name,
            "device": self.sim.device_name,
            "frames": self.cache.frames(),
            "particles": self.sim.particles.count,
            "mass": self.sim.report.mass,
            "seconds": time.perf_counter() - self.started,
        }


def _refuse_bad(arrays: dict[str, NDArray[Any]], frame: int) -> None:
    """Nothing that is not a number reaches the disk."""
    for name, array in arrays.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            rows = ~np.isfinite(array).reshape(len(array), -1).all(axis=1)
            raise SimulationError(
                f"channel {name!r} of {int(rows.sum())} particles is not a finite number. Likely "
                "cause: a time step too long; use a shorter time_step or more iterations.",
                frame=frame,
            )
