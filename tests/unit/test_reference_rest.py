"""A tank at rest stays at rest: the sum of what walls, weights and kernels are there for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from runnel.backends.base import BOX
from runnel.backends.reference import ReferenceBackend
from tests.unit.reference_setup import (
    channels,
    lattice_block,
    loaded,
    make_model,
    one_thread,  # noqa: F401 - a fixture
    solid,
    step,
)

D, DT, G = 0.1, 0.004, 9.81
COLUMNS, LAYERS = 10, 16
WAVE = (G * LAYERS * D) ** 0.5  # sqrt(g H) [m/s]


def tank(dimensions: int, *, mended: bool = True) -> ReferenceBackend:
    """A lattice that half fills a container."""
    model = make_model(dimensions)
    if not mended:
        c = model.calibration
        model = replace(model, calibration=replace(c, wall_shear=np.zeros_like(c.wall_shear)))
    half = np.array([COLUMNS, COLUMNS, 2 * LAYERS]) * D / 2
    origin = half.copy()
    if dimensions == 2:
        half[1], origin[1] = 1e9, 0
    x = lattice_block((COLUMNS, COLUMNS if dimensions == 3 else 0, LAYERS), D)
    row = solid(BOX, half, inside=True, origin=origin)
    return loaded(model, channels(x, D, dimensions), [row])


def settle(backend: ReferenceBackend, seconds: float) -> float:
    """Root mean square speed over sqrt(g H) after that time, over the last tenth of it."""
    steps = round(seconds / DT)
    squares = []
    for k in range(steps):
        step(backend, DT, (0, 0, -G), iterations=4)
        if k >= 0.9 * steps:
            squares.append((backend.read("velocity").astype(np.float64) ** 2).sum(axis=1).mean())
    return float(np.sqrt(np.mean(squares))) / WAVE


@pytest.mark.parametrize("dimensions", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_resting_tank_comes_to_rest(dimensions):
    """Four accelerated iterations per step; without the mending at walls the tank boils."""
    backend = tank(dimensions)
    calm = settle(backend, 2.0)
    assert calm <= 0.02
    backend.measure_error()
    assert backend.density_error()[0] < 0.003
    assert settle(tank(dimensions, mended=False), 1.0) > 3 * calm


def test_pressure_of_a_resting_tank_is_hydrostatic():
    """Averaged over time it rises with the depth by rho g, from 0 at the surface, within 5 %."""
    backend = tank(2)
    settle(backend, 0.8)
    layers = np.zeros(LAYERS)
    for _ in range(100):
        step(backend, DT, (0, 0, -G), iterations=4)
        z, p = backend.read("position")[:, 2], backend.read("pressure").astype(np.float64)
        layers += p[np.argsort(z)].reshape(LAYERS, COLUMNS).mean(axis=1) / 100
    depth = (LAYERS - 0.5 - np.arange(LAYERS)) * D
    slope, surface = np.polyfit(depth, layers, 1)
    assert slope == pytest.approx(1000 * G, rel=0.05)
    assert abs(surface) < 0.05 * 1000 * G * LAYERS * D
