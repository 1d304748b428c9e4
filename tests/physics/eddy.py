"""An eddy that fills a closed tank: u = U (sin kx cos kz, -cos kx sin kz), k = pi/L.

It slips along all four walls and shears none of them, and viscosity leaves its shape alone: only
its amplitude falls. Without viscosity nothing but errors of the solver slow it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import runnel

from .setups import Floats, State, fluid, position, run, tank, velocity

CELLS = 32  # particles across the tank
SPACING = 0.02  # [m]
LENGTH = CELLS * SPACING  # [m]
STEP = 0.005  # [s]


def eddy_tank(gravity: float = 0.0, **keys: Any) -> dict[str, Any]:
    """A tank in 2D, full to the lid, in steps of 5 ms; `keys` as of `fluid`."""
    solver = {"gravity": [0, 0, -gravity], "time_step": STEP}
    size = (LENGTH, LENGTH)
    return tank(size, LENGTH, SPACING, fluids=[fluid(**keys)], solver=solver, fps=1 / STEP)


def shape(x: Floats) -> Floats:
    """Velocities of the eddy of U = 1 m/s at positions x."""
    k = np.pi / LENGTH
    u = np.zeros_like(x)
    u[:, 0] = np.sin(k * x[:, 0]) * np.cos(k * x[:, 2])
    u[:, 2] = -np.cos(k * x[:, 0]) * np.sin(k * x[:, 2])
    return u


def amplitude(sim: runnel.Simulation) -> float:
    """U of the eddy in the fluid [m/s]."""
    u = shape(position(sim))
    return float((velocity(sim) * u).sum() / (u * u).sum())


def stir(sim: runnel.Simulation, speed: float) -> None:
    """Give all particles the velocities of an eddy of this U [m/s]."""
    sim.particles.write("velocity", sim.particles["id"], speed * shape(position(sim)))


def turning(
    setup: dict[str, Any], speed: float, seconds: float, *, start: State | None = None
) -> Iterator[runnel.Simulation]:
    """As `run`, stirred at the start."""
    started = False
    for sim in run(setup, seconds, start=start):
        if not started:
            stir(sim, speed)
            started = True
        yield sim
