"""`runnel bench`: time a scene."""

from __future__ import annotations

import argparse
from typing import Any

from ..bench import bench, resized, tank
from ..errors import SceneError
from .console import note, say, say_json, size_text
from .scenes import find


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "bench",
        help="time a scene",
        description="Time steps with a fixed number of iterations. The default scene is a tank of "
        "2.5 x 1.25 x 1.25 m with a cubic metre of water in a corner.",
    )
    parser.add_argument("scene", nargs="?", default="dam_break", metavar="SCENE")
    parser.add_argument("--particles", type=int, metavar="N", help="default 29791, or the scene's")
    parser.add_argument("--iterations", type=int, default=4, metavar="K", help="of a step")
    parser.add_argument("--steps", type=int, default=30, metavar="S", help="to time, after 10 more")
    parser.add_argument("--device", default="auto", metavar="NAME", help="see `runnel devices`")
    parser.add_argument("--json", action="store_true", help="the result as JSON")
    parser.set_defaults(command=run)


def run(args: argparse.Namespace) -> int:
    for name in ("particles", "iterations", "steps"):
        value = getattr(args, name)
        if value is not None and value < 1:
            raise SceneError("must be at least 1", key=f"--{name}", value=value)
    if args.scene == "dam_break":
        scene = tank(args.particles or 29_791, args.iterations)
    else:
        scene = resized(find(args.scene), args.particles, args.iterations)
    note(f"{scene.name}: about {scene.estimate_particles()} particles", args.json)
    result = bench(scene, args.steps, args.device)
    if args.json:
        say_json(result)
        return 0
    say(f"{result['device']}, {result['particles']} particles, {result['iterations']} iterations")
    say(f"{result['ms_per_step']:10.2f} ms per step (median of {args.steps})")
    for name, spent in result["stages"].items():
        say(f"{spent:10.2f} ms {name}")
    error = f"{100 * result['density_error_avg']:.2f} %"
    say(f"density error {error}, {size_text(result['bytes_per_particle'])} per particle")
    return 0
