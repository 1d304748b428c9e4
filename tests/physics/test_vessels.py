"""Water between vessels and out of them: levels, and Torricelli's law."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

from .setups import Floats, G, box, container, position, run, scene, velocity, volume

SPACING = 0.02  # [m]


def test_communicating_vessels_level_out():
    """A narrow and a wide vessel, joined at the floor: their levels meet within a spacing."""
    wall = {"name": "wall", "shape": box((0.4, 0.16), (0.46, 3.0))}
    joined = scene(
        2,
        source=[volume((0, 0), (0.4, 0.8), SPACING), volume((0.46, 0), (1.2, 0.2), SPACING)],
        collider=[container((1.2, 1.4)), wall],
    )
    differences = []
    for sim in run(joined, 7.0):
        x = position(sim)[:, 0]
        levels = [(x < 0.4).sum() / 0.4, (x > 0.46).sum() / (1.2 - 0.46)]
        differences.append((levels[0] - levels[1]) * SPACING**2)
    assert abs(differences[0]) == pytest.approx(0.6, rel=0.01)
    assert np.abs(differences[-150:]).max() <= SPACING
    assert sim.particles.count == 20 * 40 + 37 * 10


@dataclass(frozen=True)
class Outflow:
    """A tank that empties through a hole in its floor."""

    time: Floats  # [s]
    level: Floats  # [m]
    speed: Floats  # of the jet, brought back to the height of the hole by v^2 - 2 g z [m/s]


WIDTH, HOLE, FLOOR = 2.0, 0.2, 0.06  # [m]; the hole is 10 spacings wide


@cache
def outflow() -> Outflow:
    """1 m of water; the floor has a hole from the start. 2D, 5000 particles."""
    edges = (WIDTH - HOLE) / 2, (WIDTH + HOLE) / 2
    walls = [
        box((-1.0, -FLOOR), (edges[0], 0.0)),
        box((edges[1], -FLOOR), (WIDTH + 1, 0.0)),
        box((-1.0, -FLOOR), (0.0, 3.0)),
        box((WIDTH, -FLOOR), (WIDTH + 1, 3.0)),
    ]
    draining = scene(
        2,
        source=[volume((0, 0), (WIDTH, 1.0), SPACING)],
        collider=[{"shape": wall} for wall in walls],
        domain={"min": [-5, -5, -0.5]},
    )
    rows = []
    for sim in run(draining, 2.0):
        x, v = position(sim), velocity(sim)
        jet = np.abs(x[:, 2] + FLOOR + 0.15) < 0.05
        square = (v[jet] ** 2).sum(axis=1) + 2 * G * x[jet, 2]
        speed = np.sqrt(square).mean() if jet.any() else 0.0
        rows.append((sim.time, (x[:, 2] > 0).sum() * SPACING**2 / WIDTH, speed))
    return Outflow(*np.array(rows).T)


def test_jet_has_the_speed_of_torricelli():
    """v = sqrt(2 g h), in the mean over a second and more: 0.90 to 1.02 of it."""
    flow = outflow()
    ratio = (flow.speed / np.sqrt(2 * G * flow.level))[flow.time > 0.6]
    assert 0.90 <= ratio.mean() <= 1.02
    assert ratio.std() <= 0.02


def test_level_falls_as_torricelli_says():
    """sqrt(h) falls linearly, at (a/A) Cc sqrt(g/2); a slot contracts by Cc = pi / (pi + 2)."""
    flow = outflow()
    steady = flow.time > 0.6
    time, root = flow.time[steady], np.sqrt(flow.level[steady])
    slope, _ = np.polyfit(time, root, 1)
    assert np.corrcoef(time, root)[0, 1] ** 2 > 0.99
    contraction = -slope / (HOLE / WIDTH * np.sqrt(G / 2))
    assert contraction == pytest.approx(np.pi / (np.pi + 2), rel=0.06)
