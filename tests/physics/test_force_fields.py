"""Velocity fields pull the fluid at the rate that theory gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import runnel
from tests.physics.setups import fluid, scene, volume
from tests.unit.test_flow import lattice, write_points

RATE = 4.0  # [1/s]
DT = 1 / 400


def simulate(folder: Path, backend: str, **keys: Any) -> runnel.Simulation:
    solver = {"gravity": [0, 0, 0], "time_step": DT, "iterations": [1, 1]}
    data = scene(solver=solver, fluids=[fluid()], **keys)
    return runnel.Simulation(runnel.Scene.from_dict(data, folder), backend)


def test_a_block_takes_on_a_uniform_field(tmp_path: Path, backend_name: str) -> None:
    """v = u (1 - exp(-rate t)), and the same bits as by a wind but for rounding."""
    u = np.array([1.0, -0.5, 0.25])
    write_points(tmp_path / "u.bgeo", lattice(9, 9, 9, low=(-1, -2, -1)), np.tile(u, (729, 1)))
    field = {"kind": "field", "field": "u.bgeo", "voxel_size": 0.5, "strength": RATE}
    wind = {"kind": "wind", "velocity": u.tolist(), "strength": RATE}
    block = volume((0, 0, 0), (0.5, 0.5, 0.5), 0.1)
    found = []
    for force in (field, wind):
        with simulate(tmp_path, backend_name, source=[block], force=[force]) as sim:
            sim.advance(25)
            found.append(sim.particles["velocity"].mean(axis=0, dtype=np.float64))
    expected = u * (1 - np.exp(-RATE * 0.25))
    np.testing.assert_allclose(found[0], expected, rtol=1.5 * RATE * DT / 2)
    np.testing.assert_allclose(found[0], found[1], atol=2e-6)


def test_drops_spiral_out_in_a_rotating_field(tmp_path: Path, backend_name: str) -> None:
    """z'' = rate (i omega z - z') in the plane, z = x + i y: sums of two exponentials."""
    omega, seconds = 3.0, 0.5
    nodes = lattice(13, 13, 3, low=(-3, -3, -0.5))
    write_points(tmp_path / "turn.bgeo", nodes, omega * np.cross([0, 0, 1], nodes))
    force = {"kind": "field", "field": "turn.bgeo", "voxel_size": 0.5, "strength": RATE}
    drops = [(0.5, 0.1), (-0.7, 0.6), (0.2, -1.1)]
    sources = [volume((x, y, 0), (x + 0.01, y + 0.01, 0.01), 0.01) for x, y in drops]
    with simulate(tmp_path, backend_name, source=sources, force=[force]) as sim:
        start = sim.particles["position"].astype(np.float64)
        sim.advance(round(seconds * 100))
        end = sim.particles["position"].astype(np.float64)
    assert len(start) == 3
    root = np.sqrt(RATE**2 + 4j * RATE * omega)
    slow, fast = (-RATE + root) / 2, (-RATE - root) / 2
    grown = (slow * np.exp(fast * seconds) - fast * np.exp(slow * seconds)) / (slow - fast)
    z = (start[:, 0] + 1j * start[:, 1]) * grown
    found = end[:, 0] + 1j * end[:, 1]
    assert (abs(found - z) / abs(z)).max() < 2 * RATE * DT
    np.testing.assert_allclose(end[:, 2], start[:, 2], atol=1e-6)


def test_outside_of_the_field_nothing_acts(tmp_path: Path, backend_name: str) -> None:
    """Neither beyond its last nodes nor where it knows nothing; in between it fades."""
    write_points(tmp_path / "u.bgeo", lattice(2, 2, 2, low=(5, 0, 0)), np.ones((8, 3)))
    force = {"kind": "field", "field": "u.bgeo", "voxel_size": 0.5, "strength": RATE}
    places = (1.0, 4.7, 5.2, 9.0)
    sources = [volume((x, 0.2, 0.2), (x + 0.01, 0.21, 0.21), 0.01) for x in places]
    with simulate(tmp_path, backend_name, source=sources, force=[force]) as sim:
        sim.step()
        speed = sim.particles["velocity"][:, 0]
    assert speed[0] == speed[3] == 0
    assert speed[2] == pytest.approx(RATE * DT, rel=1e-5)
    assert speed[1] == pytest.approx(RATE * DT * (4.705 - 4.5) / 0.5, rel=1e-3)
