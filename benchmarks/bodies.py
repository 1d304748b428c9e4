"""What bodies that the fluid moves cost: a share of a step.

    python benchmarks/bodies.py [--particles 250000] [--steps 12] [--only rigid] > bodies.json

Water in a tank, steps of 2 ms with 4 iterations, and in it: ten boxes of 10 spacings that float
half under water, as rigid bodies and, for comparison, as colliders that stand still; a hundred of
them; two soft balls; a sheet of cloth on the water. Steps with and without take turns, and are
counted per particle: bodies take the place of some. The mean of the quicker half counts: other
programs only ever make steps longer. --speed 4 [m/s] lets the water flow, fast enough for particles
to be stopped at solids. Prints JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
from common import FPS, Row, conditions, say, timed_step

from runnel import Scene, Simulation

WARM_UP = 24  # steps: the lattice has given way
EDGE = 10  # of a box [spacings]
KINDS = ("static", "rigid", "hundred", "soft", "cloth")


def scene(folder: Path, particles: int, kind: str, speed: float = 0.0) -> Scene:
    """A tank of 1 x 1 m, half a metre of water."""
    d = (0.5 / particles) ** (1 / 3)
    colliders: list[Row] = [
        {"name": "tank", "mode": "inside", "shape": {"box": {"min": [0, 0, 0], "max": [1, 1, 1]}}}
    ]
    body = {"body": "rigid", "density": 500} if kind != "static" else {}
    count = {"static": (5, 2), "rigid": (5, 2), "hundred": (10, 10)}.get(kind, (0, 0))
    half = EDGE * d / 2 if kind != "hundred" else min(EDGE * d / 2, 0.04)
    for i in range(count[0]):
        for j in range(count[1]):
            x, y = (i + 0.5) / count[0], (j + 0.5) / count[1]
            shape = {
                "min": [x - half, y - half, 0.5 - half],
                "max": [x + half, y + half, 0.5 + half],
            }
            colliders.append({"name": f"box_{i}_{j}", "shape": {"box": shape}, **body})
    if kind == "soft":
        write_ball(folder / "ball.obj", 8 * d)
        colliders += [
            {"name": f"ball_{k}", "shape": {"mesh": "ball.obj"}, "body": "deformable",
             "position": [0.3 + 0.4 * k, 0.5, 0.5], "density": 500}
            for k in range(2)
        ]  # fmt: skip
    if kind == "cloth":
        write_sheet(folder / "sheet.obj", 20, 30 * d)
        colliders.append(
            {"name": "sheet", "shape": {"mesh": "sheet.obj"}, "body": "deformable", "mass": 1.0,
             "mode": "shell", "position": [0.5, 0.5, 0.5 + 1.25 * d]}
        )  # fmt: skip
    return Scene.from_dict(
        {
            "name": kind, "fps": FPS, "solver": {"time_step": 1 / 480, "iterations": [4, 4]},
            "fluid": [{"name": "water"}], "collider": colliders,
            "source": [{"name": "block", "fluid": "water", "spacing": d, "velocity": [speed, 0, 0],
                        "shape": {"box": {"min": [0, 0, 0], "max": [1, 1, 0.5]}}}],
        },
        folder,
    )  # fmt: skip


def write_ball(path: Path, radius: float, rows: int = 16) -> None:
    """A closed ball of rows x 2 rows quads."""
    lines = [f"v 0 0 {-radius}"]
    for u in np.linspace(-np.pi / 2, np.pi / 2, rows + 1)[1:-1]:
        for v in 2 * np.pi * np.arange(2 * rows) / (2 * rows):
            x, y = np.cos(u) * np.cos(v), np.cos(u) * np.sin(v)
            lines.append(f"v {radius * x:.7g} {radius * y:.7g} {radius * np.sin(u):.7g}")
    lines.append(f"v 0 0 {radius}")
    n, last = 2 * rows, 2 + (rows - 1) * 2 * rows
    for j in range(n):
        k = (j + 1) % n
        lines.append(f"f 1 {2 + k} {2 + j}")
        for i in range(rows - 2):
            a, b = 2 + i * n, 2 + (i + 1) * n
            lines.append(f"f {a + j} {a + k} {b + k} {b + j}")
        lines.append(f"f {last} {last - n + j} {last - n + k}")
    path.write_text("\n".join(lines) + "\n")


def write_sheet(path: Path, n: int, size: float) -> None:
    at = np.linspace(-size / 2, size / 2, n + 1)
    lines = [f"v {x:.7g} {y:.7g} 0" for y in at for x in at]
    for j in range(n):
        for i in range(n):
            a = j * (n + 1) + i + 1
            lines += [f"f {a} {a + 1} {a + n + 2}", f"f {a} {a + n + 2} {a + n + 1}"]
    path.write_text("\n".join(lines) + "\n")


def cost(particles: int, steps: int, kind: str, device: str, speed: float) -> Row:
    """Steps with and without, turn by turn."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with (
            Simulation(scene(folder, particles, kind, speed), device, timed=False) as full,
            Simulation(scene(folder, particles, "none", speed), device, timed=False) as bare,
        ):
            if kind == "static":  # without the water that rigid boxes leave out at the start
                with Simulation(scene(folder, particles, "rigid", speed), device) as other:
                    rows, clock = other.state()
                full.restore({n: a for n, a in rows.items() if n in full.state()[0]}, clock)
            times: dict[str, list[float]] = {"with": [], "without": []}
            for turn in range(WARM_UP + steps):
                for key, sim in (("with", full), ("without", bare)):
                    spent = 1e3 * timed_step(sim)
                    if turn >= WARM_UP:
                        times[key].append(spent / sim.particles.count)
            stages = [full.bare_step(timed=True).milliseconds for _ in range(3)]
            count = full.particles.count
    quick = {k: float(np.mean(sorted(v)[: max(1, steps // 2)])) for k, v in times.items()}
    return {
        "particles": count,
        "ms_per_step": {k: round(v * count, 1) for k, v in quick.items()},
        "added": round(quick["with"] / quick["without"] - 1, 3),
        "stages": {k: round(min(s[k] for s in stages), 1) for k in stages[0]},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--particles", type=int, default=250_000)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--device", default="auto")
    parser.add_argument(
        "--only", choices=KINDS, action="append", help="may be given more than once"
    )
    parser.add_argument("--speed", type=float, default=0.0)
    args = parser.parse_args()
    result: Row = conditions()
    for kind in args.only or KINDS:
        say(kind)
        result[kind] = cost(args.particles, args.steps, kind, args.device, args.speed)
    json.dump(result, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
