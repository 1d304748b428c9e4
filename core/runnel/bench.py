"""Timing: milliseconds of a step and of its stages, on a named scene."""

from __future__ import annotations

import time
from statistics import median
from typing import Any

from .backends.devices import DeviceInfo
from .errors import SceneError
from .scene import Scene
from .simulation import Simulation
from .solver.step import STAGES

WARM_UP = 10  # steps: programs are built, pages touched, the lattice has given way
LARGE = 300_000  # particles above which the tank is timed at half the step


def tank(particles: int, iterations: int, support: float = 4.0) -> Scene:
    """A cubic metre of water in the corner of a tank of 2.5 x 1.25 x 1.25 m.

    support: kernel radius in particle radii; 4 (h = 2d) is what other solvers are timed at.
    """
    side = max(1, round(particles ** (1 / 3)))
    step = 1 / 480 if side**3 > LARGE else 1 / 240
    solver = {"time_step": step, "iterations": [iterations, iterations], "support": support}
    return Scene.from_dict(
        {
            "name": "dam_break",
            "fps": 24,
            "solver": solver,
            "fluid": [{"name": "water"}],
            "source": [
                {
                    "name": "dam",
                    "fluid": "water",
                    "shape": {"box": {"min": [0, 0, 0], "max": [1, 1, 1]}},
                    "spacing": 1 / side,
                }
            ],
            "collider": [
                {
                    "name": "tank",
                    "mode": "inside",
                    "shape": {"box": {"min": [0, 0, 0], "max": [2.5, 1.25, 1.25]}},
                }
            ],
        }
    )


def resized(scene: Scene, particles: int | None, iterations: int) -> Scene:
    """A scene with spacings scaled for about so many particles, and fixed iterations."""
    factor = 1.0
    if particles is not None:
        factor = (scene.estimate_particles() / particles) ** (1 / scene.dimensions)
    data = scene.to_dict()
    for source in data["source"]:
        source["spacing"] *= factor
    data.setdefault("solver", {})["iterations"] = [iterations, iterations]
    return Scene.from_dict(data, scene.directory, allow_outside=scene.allow_outside)


def bench(scene: Scene, steps: int, device: str | int | DeviceInfo = "auto") -> dict[str, Any]:
    """What `measure` finds in a scene's first steps."""
    if steps < 1:
        raise SceneError("must be at least 1", key="--steps", value=steps)
    with Simulation(scene, device, timed=False) as sim:
        return measure(sim, steps)


def measure(sim: Simulation, steps: int) -> dict[str, Any]:
    """Medians over `steps` steps; then over as many again with a wait after each stage.

    The waits cost a little, so `ms_per_step` comes from whole steps without them.
    """
    for _ in range(WARM_UP):
        sim.bare_step(timed=False)
    whole = [_whole_step(sim) for _ in range(steps)]
    staged = [sim.bare_step(timed=True) for _ in range(steps)]
    count = sim.particles.count
    return {
        "version": _version(),
        "scene": sim.scene.name,
        "device": sim.device_name,
        "particles": count,
        "iterations": staged[-1].iterations,
        "steps": steps,
        "dt": sim.last_dt,
        "ms_per_step": median(whole),
        "stages": {
            name: median(report.milliseconds[name] for report in staged)
            for name in STAGES
            if name in staged[-1].milliseconds
        },
        "density_error_avg": median(report.density_error_avg for report in staged),
        "density_error_max": max(report.density_error_max for report in staged),
        "bytes_per_particle": sim.bytes["device"] / max(count, 1),
    }


def _whole_step(sim: Simulation) -> float:
    sim.synchronize()
    start = time.perf_counter()
    sim.bare_step(timed=False)
    sim.synchronize()
    return 1e3 * (time.perf_counter() - start)


def _version() -> str:
    from . import __version__

    return str(__version__)
