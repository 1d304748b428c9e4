"""Vorticity: what is measured, what confinement adds, what the cache holds."""

from __future__ import annotations

import numpy as np
import pytest

import runnel

from .setups import position, scene, volume

D = 0.05  # [m]


@pytest.mark.parametrize("dimensions", [2, 3])
def test_rigid_rotation_has_twice_its_rate(backend_name: str, dimensions: int) -> None:
    """E01: omega = 2 Omega wherever the kernel is full, sign and axis included."""
    side = 12 * D
    block = volume([0.0] * dimensions, [side] * dimensions, D)
    it = runnel.Scene.from_dict(
        scene(dimensions, source=[block], solver={"gravity": [0, 0, 0]}, fps=24.0)
    )
    turning = np.array([0.0, 2.0, 0.0] if dimensions == 2 else [1.0, 2.0, -0.5])
    with runnel.Simulation(it, backend_name) as sim:
        axes = list(it.axes)
        x = position(sim)
        x[:, axes] -= side / 2
        sim.particles.write("velocity", sim.particles["id"], np.cross(turning, x))
        omega = sim.particles["vorticity"].astype(np.float64)
    reach = it.solver.support / 2 * D
    inner = (np.abs(x[:, axes]) < side / 2 - reach).all(axis=1)
    assert inner.sum() >= 4**dimensions
    np.testing.assert_allclose(omega[inner], np.tile(2 * turning, (inner.sum(), 1)), atol=1e-4)
