"""`runnel check`: validate a scene, estimate its cost, warn."""

from __future__ import annotations

import argparse
import dataclasses
import shutil
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from ..backends import devices
from ..backends.devices import DeviceInfo
from ..cache import CHECKPOINTS_KEPT, Cache
from ..colliders import Sinks, Solids
from ..estimate import (
    CHANNEL_BYTES,
    PACKED,
    Estimate,
    Rate,
    estimate,
    needs_pilot,
    program_bytes,
    rate_of,
    scene_rate,
    warnings,
)
from ..pilot import Pilot, divided, fly, planned, probe
from ..progress import Progress, duration
from ..scene import Scene
from ..simulation import Simulation
from ..sources import emitters
from . import scenes
from .console import say, say_json, size_text
from .run import CHECKPOINT_EVERY, Job, Signals

MEASURED_PARTICLES = 16_000
SMALL_PARTICLES = 1000
ITERATIONS = 4
WRITES = 5  # of a frame


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "check",
        help="validate a scene; estimate particles, memory and time; warn",
        description="Validate a scene and estimate its cost without simulating it.",
    )
    scenes.add_scene(parser)
    parser.add_argument("--device", default="auto", metavar="NAME", help="see `runnel devices`")
    parser.add_argument(
        "--measure",
        action="store_true",
        help="run the scene with few particles and time the device first: a forecast of time in "
        "place of a guess, in 3 to 20 s",
    )
    parser.add_argument(
        "--out", metavar="DIR", help="folder that the run will write to; default the current one"
    )
    parser.add_argument("--json", action="store_true", help="the result as JSON")
    parser.set_defaults(command=run)


def run(args: argparse.Namespace) -> int:
    scene = scenes.load(args)
    Solids(scene), Sinks(scene), emitters(scene)  # what only building them finds
    info = devices.choose(args.device)
    rate, pilot = rate_of(info), None
    if args.measure or needs_pilot(scene):
        pilot = fly(scene, info)
    if args.measure and pilot is not None:
        rate, pilot = _measured(scene, info, pilot)
    cost = estimate(scene, rate, pilot)
    # A host asks for JSON from a folder of its own, which tells nothing unless it names another.
    folder = args.out or (None if args.json else ".")
    found = warnings(scene) + (_room(cost, Path(folder)) if folder else [])
    if args.json:
        values = {**dataclasses.asdict(cost), "bytes": cost.bytes, "device": str(info)}
        values |= {"program_bytes": program_bytes(scene), "measured": args.measure}
        say_json({"scene": scene.name, "valid": True, **values, "warnings": found})
        return 0
    say(f"{args.scene}: valid")
    say(_text(cost, info, args.measure, program_bytes(scene)))
    for warning in found:
        say(f"warning: {warning}")
    return 0


def _room(cost: Estimate, folder: Path) -> list[str]:
    """A warning if the cache is larger than what is free where it will be."""
    folder = folder.resolve()
    there = next((path for path in (folder, *folder.parents) if path.exists()), folder)
    try:
        free = shutil.disk_usage(there).free
    except OSError:  # nobody knows
        return []
    if cost.disk_bytes <= free:
        return []
    return [
        f"the cache may need {size_text(cost.disk_bytes)} of disk, and {size_text(free)} are free "
        f"in {folder}. Choose a larger disk, fewer frames, or fewer output.channels."
    ]


def _measured(scene: Scene, info: DeviceInfo, pilot: Pilot) -> tuple[Rate, Pilot]:
    """Prices of this device, and what the scene's own first frames tell the pilot."""
    with tempfile.TemporaryDirectory(prefix="runnel-check-") as folder:
        keeper = _Keeper(Path(folder))
        with closing(keeper):
            probed = probe(scene, info, keeper.keep)
    rate = scene_rate(scene, measured(info, scene.output.channels), pilot, probed)
    return rate, planned(scene, pilot, probed)


class _Keeper:
    """Writes frames of a simulation as a run does, into a folder that goes away."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._job: Job | None = None

    def keep(self, sim: Simulation) -> float:
        """Milliseconds that the frame takes, with its part of a checkpoint."""
        job = self._job or self._begin(sim)
        started = time.perf_counter()
        job.write_now()
        written = time.perf_counter()
        job.cache.write_checkpoint(sim.frame, *sim.state())
        stored = time.perf_counter() - written
        return 1e3 * (written - started + stored / CHECKPOINT_EVERY)

    def _begin(self, sim: Simulation) -> Job:
        first, last = sim.scene.frames
        args = argparse.Namespace(checkpoint=0, keep_checkpoints=CHECKPOINTS_KEPT)
        cache = Cache.create(self._folder, sim.scene.to_dict(defaults=True))
        progress = Progress(first, last, mode="quiet")
        self._job = Job(args, sim, cache, first, last, Signals(), progress)
        return self._job

    def close(self) -> None:
        if self._job is not None:
            self._job.writer.close()


def _text(cost: Estimate, info: DeviceInfo, timed: bool, program: int) -> str:
    seconds = cost.seconds_per_frame or 0.0
    lines = [
        f"  particles  {cost.particles} at most",
        f"  memory     {size_text(cost.device_bytes)} on the device, "
        f"{size_text(cost.host_bytes)} on the host, {size_text(program)} for the program",
        f"  disk       {size_text(cost.disk_bytes)}",
        f"  steps      {cost.steps_per_frame} per frame at {cost.speed:.2g} m/s, "
        f"about {cost.iterations} iterations each",
        f"  time       about {seconds:.2g} s per frame, "
        f"{duration(seconds * cost.frames)} for {cost.frames} frames, on {info.name}"
        + ("" if timed else " (a guess; --measure finds out)"),
    ]
    return "\n".join(lines)


def measured(info: DeviceInfo, channels: Sequence[str]) -> Rate:
    """Speed of a device, and of writing, from short runs of few and of many particles."""
    from ..bench import bench, tank

    small = bench(tank(SMALL_PARTICLES, ITERATIONS), 9, info)
    large = bench(tank(MEASURED_PARTICLES, ITERATIONS), 9, info)
    few, many = small["particles"], large["particles"]
    stages = zip(divided(small["stages"]), divided(large["stages"]), strict=True)
    step, launch, iteration, relaunch = (v for a, b in stages for v in _line(few, a, many, b))
    write, file = _line(few, _written(channels, few), many, _written(channels, many))
    return Rate(
        step=step,
        iteration=iteration / ITERATIONS,
        launch=launch,
        relaunch=relaunch / ITERATIONS,
        write=write,
        file=file,
        beside=info.kind == "gpu",
    )


def _line(few: int, short: float, many: int, long: float) -> tuple[float, float]:
    """Of a particle, and whatever the particles [ns], from two times [ms]."""
    slope = max(0.0, long - short) / (many - few)
    return 1e6 * slope, 1e6 * max(0.0, short - slope * few)


def _written(channels: Sequence[str], particles: int) -> float:
    """Writing a frame [ms]; a median. Numbers are such as compress no better than a splash."""
    random = np.random.default_rng(0)
    arrays = {
        name: random.random((particles, CHANNEL_BYTES.get(name, 4) // 4), np.float32)
        if name in PACKED
        else np.arange(particles, dtype=np.uint32)
        for name in channels
    }
    times = []
    with tempfile.TemporaryDirectory(prefix="runnel-check-") as folder:
        cache = Cache.create(folder, {})
        for frame in range(WRITES):
            started = time.perf_counter()
            cache.write(frame, arrays)
            times.append(1e3 * (time.perf_counter() - started))
    return float(np.median(times))
