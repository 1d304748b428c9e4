"""Every shipped scene runs, with automatic steps and with P004's 16 ms (row A14)."""

from __future__ import annotations

import numpy as np
import pytest

import runnel
from runnel.scene import example_names

from .setups import position, velocity

FRAMES = 12
LIMITS = {"auto": 0.03, "0.016": 0.15}  # mean compression of the worst frame


CASES = [(name, step) for name in example_names() for step in sorted(LIMITS)]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "step"), CASES)
def test_a_shipped_scene_is_stable(name: str, step: str) -> None:
    """Nothing turns to NaN, leaves its tank or is crushed in the first half second."""
    value = f'"{step}"' if step == "auto" else step
    setup = runnel.example(name).with_overrides([f"solver.time_step={value}"])
    worst = 0.0
    with runnel.Simulation(setup, timed=False) as sim:
        for frame in range(setup.frames[0] + 1, setup.frames[0] + 1 + FRAMES):
            worst = max(worst, sim.advance(frame).density_error_avg)
        x, v = position(sim), velocity(sim)
    assert np.isfinite(x).all()
    assert np.isfinite(v).all()
    assert worst <= LIMITS[step]
    for collider in setup.colliders:
        if collider.mode == "inside" and hasattr(collider.shape, "min"):
            axes = list(setup.axes)
            low, high = np.array(collider.shape.min)[axes], np.array(collider.shape.max)[axes]
            assert (x[:, axes] >= low).all()
            assert (x[:, axes] <= high).all()
