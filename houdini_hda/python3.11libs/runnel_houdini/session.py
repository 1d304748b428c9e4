"""What a solver node keeps between cooks: the simulation, its frames, its folder.

A frame that is asked for is, in this order: in memory; one or more steps of the simulation away; or
behind it, then the simulation goes back to a checkpoint ahead of the frame, or to the start. The
same bits come out either way. A session knows nothing of nodes but the number of its own.
"""

from __future__ import annotations

import shutil
import tempfile
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from runnel import RunnelError, Scene, Simulation
from runnel.backends.devices import DeviceInfo
from runnel.solids import Solid as SceneSolid
from runnel.solids import solids_of

from .caches import CacheReader
from .frames import Frame, Memory, Solid

# Kept of every frame, so that switching an output on does not simulate again.
CHANNELS = ("position", "velocity", "radius", "density", "phase", "id", "age", "mass")
Progress = Callable[[float], None]  # share done, 0 to 1; may raise to interrupt


class Feeds(Protocol):
    """Writes the files that the scene needs at a frame."""

    def need(self, frame: int) -> None: ...


class Watches(Protocol):
    """Knows whether inputs are what they were."""

    def changed(self, inputs: Any, count: int) -> bool: ...


@dataclass
class Failure:
    """Why the simulation cannot go on beyond a frame."""

    frame: int
    error: RunnelError


class Session:
    """The simulation of one node."""

    def __init__(self, owner: int) -> None:
        self.owner = owner  # sessionId of the node
        self.key: Any = None  # what the simulation was begun with
        self.scene: Scene | None = None
        self.device: DeviceInfo | None = None
        self.feeds: Feeds | None = None
        self.watch: Watches | None = None
        self.disk: CacheReader | None = None
        self.memory = Memory(0)
        self.interval = 10  # frames between checkpoints; 0: none
        self.failure: Failure | None = None
        self._holder = _Holder()
        self._finalizer = weakref.finalize(self, self._holder.release)
        self._wanted: set[str] = set()
        self._started = 0.0
        self._solids: list[SceneSolid] | None = None  # of the scene; None: not looked yet

    # --- life ------------------------------------------------------------------------------------

    @property
    def sim(self) -> Simulation | None:
        return self._holder.sim

    @property
    def closed(self) -> bool:
        return not self._finalizer.alive

    def new_folder(self) -> Path:
        """An empty folder for the files of a scene; that of the last one goes."""
        self.reset()
        self._holder.folder = Path(tempfile.mkdtemp(prefix="runnel-houdini-"))
        return self._holder.folder

    def begin(self, scene: Scene, device: DeviceInfo, key: Any, feeds: Feeds) -> None:
        """A scene to simulate, in the folder given out last."""
        self.scene, self.device, self.key, self.feeds = scene, device, key, feeds

    def reader(self, folder: Path) -> CacheReader:
        """The reader of a cache folder."""
        if self.disk is None or self.disk.folder != folder:
            self.disk = CacheReader(folder)
        return self.disk

    def reset(self) -> None:
        """Forget the simulation and all its frames."""
        self._holder.release()
        self.memory.clear()
        self.scene = self.device = self.key = self.failure = self.feeds = self.watch = None
        self._solids = None
        self._wanted.clear()

    def close(self) -> None:
        """For good: the node is gone."""
        self.reset()
        self._finalizer()

    # --- frames ----------------------------------------------------------------------------------

    def has(self, frame: int, channels: Sequence[str]) -> bool:
        return self.memory.get(frame, channels) is not None

    def gap(self, frame: int) -> int:
        """Frames to simulate up to this one, about."""
        before = [k for k in self.memory.checkpoints if k < frame]
        if self.sim is not None and self.sim.frame <= frame:
            before.append(self.sim.frame)
        start = 0 if self.scene is None else self.scene.frames[0]
        return frame - max(before, default=start)

    def at(self, frame: int, channels: Sequence[str], progress: Progress) -> Frame:
        """A frame with these channels, simulated if need be.

        What `progress` raises ends the call between two steps; the next call goes on from there.
        """
        kept = self.memory.get(frame, channels)
        if kept is not None:
            return kept
        if self.failure is not None and frame >= self.failure.frame:
            raise self.failure.error
        self._wanted |= set(channels)
        return self._simulate(frame, progress)

    @contextmanager
    def _lasting_errors(self, frame: int) -> Iterator[None]:
        """A simulation that failed fails again: it is not tried until something changes."""
        try:
            yield
        except RunnelError as error:
            self.failure = Failure(frame, error)
            self._holder.drop_sim()
            raise

    def _simulate(self, frame: int, progress: Progress) -> Frame:
        assert self.feeds is not None
        sim = self._within_reach(frame)
        first, total = sim.frame, max(1, frame - sim.frame)
        if sim.frame == frame:
            return self._keep(sim)
        while sim.frame < frame:
            self.feeds.need(sim.frame + 1)
            self._started = time.perf_counter()
            with self._lasting_errors(sim.frame + 1):
                sim.advance(
                    sim.frame + 1,
                    on_step=lambda _: progress(
                        min(1.0, (sim.frame - first + sim.share_of_frame) / total)
                    ),
                )
            result = self._keep(sim)
            if self.interval and (sim.frame - sim.scene.frames[0]) % self.interval == 0:
                self.memory.keep_state(sim.frame, sim.state())
        return result

    def _within_reach(self, frame: int) -> Simulation:
        """The simulation, at the frame or ahead of it, as near as it can be had."""
        sim = self.sim
        there = sim is not None and (
            sim.frame < frame or (sim.frame == frame and not sim.mid_frame)
        )
        nearest = self.memory.state_before(frame)
        if sim is not None and there and (nearest is None or nearest[0] <= sim.frame):
            return sim
        if sim is not None and not sim.mid_frame and self.interval:
            self.memory.keep_state(sim.frame, sim.state())  # to come back to
        if nearest is None:
            return self._start()
        _number, state = nearest
        sim = sim or self._start()
        sim.restore(*state)
        return sim

    def _start(self) -> Simulation:
        assert self.scene is not None
        assert self.device is not None
        assert self.feeds is not None
        self._holder.drop_sim()
        self.feeds.need(self.scene.frames[0])
        self._started = time.perf_counter()
        with self._lasting_errors(self.scene.frames[0]):
            sim = self._holder.sim = Simulation(self.scene, self.device, timed=False)
        self._keep(sim)
        return sim

    def _keep(self, sim: Simulation) -> Frame:
        """The frame that the simulation stands at, into memory."""
        own = (*sim.particles.user_channels,)
        names = [n for n in sim.particles.channels if n in (*CHANNELS, *own, *self._wanted)]
        report = sim.report.to_dict()
        notes = tuple(str(note) for note in report.pop("notes"))
        report["milliseconds"] = 1000.0 * (time.perf_counter() - self._started)
        channels = {name: sim.particles[name] for name in names}
        frame = Frame(sim.frame, channels, report, self._bodies(sim), notes)
        self.memory.keep(frame)
        return frame

    def _bodies(self, sim: Simulation) -> tuple[Solid, ...]:
        """Bodies that the fluid moves, where they are now."""
        poses, meshes = sim.body_poses(), sim.body_meshes()
        if self._solids is None:
            self._solids = solids_of(sim.scene) if poses or meshes else []
        found = []
        for solid in self._solids:
            if solid.name in meshes:
                mesh = meshes[solid.name]
                vertices = mesh.vertices
            elif solid.name in poses and solid.mesh is not None:
                mesh = solid.mesh
                vertices = poses[solid.name].to_world(mesh.vertices)
            else:
                continue
            found.append(Solid(solid.name, vertices.astype(np.float32), mesh.triangles))
        return tuple(found)


class _Holder:
    """What has to be given back; outlives the session that it belongs to by one call."""

    def __init__(self) -> None:
        self.sim: Simulation | None = None
        self.folder: Path | None = None

    def drop_sim(self) -> None:
        sim, self.sim = self.sim, None
        if sim is not None:
            sim.close()

    def release(self) -> None:
        try:
            self.drop_sim()
        finally:
            folder, self.folder = self.folder, None
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)
