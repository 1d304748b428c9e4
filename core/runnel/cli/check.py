"""`runnel check`: validate a scene, estimate its cost, warn."""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any

from ..backends import devices
from ..backends.devices import DeviceInfo
from ..colliders import Sinks, Solids
from ..estimate import Estimate, Rate, estimate, rate_of, warnings
from ..progress import duration
from ..sources import emitters
from . import scenes
from .console import say, say_json, size_text

MEASURED_PARTICLES = 8000


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "check",
        help="validate a scene; estimate particles, memory and time; warn",
        description="Validate a scene and estimate its cost without simulating it.",
    )
    scenes.add_scene(parser)
    parser.add_argument("--device", default="auto", metavar="NAME", help="see `runnel devices`")
    parser.add_argument(
        "--measure", action="store_true", help="time the device first, for a better estimate"
    )
    parser.add_argument("--json", action="store_true", help="the result as JSON")
    parser.set_defaults(command=run)


def run(args: argparse.Namespace) -> int:
    scene = scenes.load(args)
    Solids(scene), Sinks(scene), emitters(scene)  # what only building them finds
    info = devices.choose(args.device)
    cost = estimate(scene, measured(info) if args.measure else rate_of(info))
    found = warnings(scene)
    if args.json:
        values = {**dataclasses.asdict(cost), "bytes": cost.bytes, "device": str(info)}
        say_json({"scene": scene.name, "valid": True, **values, "warnings": found})
        return 0
    say(f"{args.scene}: valid")
    say(_text(cost, info))
    for warning in found:
        say(f"warning: {warning}")
    return 0


def _text(cost: Estimate, info: DeviceInfo) -> str:
    seconds = cost.seconds_per_frame or 0.0
    lines = [
        f"  particles  {cost.particles} at most",
        f"  memory     {size_text(cost.device_bytes)} on the device, "
        f"{size_text(cost.host_bytes)} on the host",
        f"  steps      {cost.steps_per_frame} per frame at {cost.speed:.2g} m/s, "
        f"about {cost.iterations} iterations each",
        f"  time       about {seconds:.2g} s per frame, "
        f"{duration(seconds * cost.frames)} for {cost.frames} frames, on {info.name}",
    ]
    return "\n".join(lines)


def measured(info: DeviceInfo) -> Rate:
    """Speed of a device from two short runs that differ in iterations."""
    from ..bench import bench, tank

    few, many = 2, 10
    low = bench(tank(MEASURED_PARTICLES, few), 9, info)
    high = bench(tank(MEASURED_PARTICLES, many), 9, info)
    per_ms = 1e6 / low["particles"]
    iteration = max(0.0, high["ms_per_step"] - low["ms_per_step"]) / (many - few) * per_ms
    return Rate(step=max(0.0, low["ms_per_step"] * per_ms - few * iteration), iteration=iteration)
