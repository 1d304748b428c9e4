"""Surface tension by one knob (P004 4.2, rows A11, D; ORACLES 19)."""

from __future__ import annotations

import numpy as np
import pytest

from .setups import fluid, mass, position, run, scene, velocity, volume

STILL = {"gravity": [0.0, 0.0, 0.0], "time_step": 0.004, "iterations": [8, 8]}


def brick(kappa: float, size: tuple[float, ...], seconds: float) -> tuple[np.ndarray, float, float]:
    """Extents along the principal axes (root of the variance), momentum and speed at the end."""
    setup = scene(
        3,
        fluids=[fluid(surface_tension=kappa)],
        source=[volume([0.0, 0.0, 0.0], size, 0.01)],
        solver=STILL,
        fps=25.0,
    )
    for sim in run(setup, seconds):
        x, v, m = position(sim), velocity(sim), mass(sim)
    extents = np.sqrt(np.linalg.eigvalsh(np.cov((x - x.mean(axis=0)).T)))
    total = float(np.abs(m @ v).max() / np.sum(m[:, None] * np.abs(v) + 1e-12))
    return extents, total, float(np.sqrt((v**2).sum(axis=1).mean()))


@pytest.mark.slow
def test_tension_rounds_a_brick() -> None:
    """A brick four times as long as wide contracts the more the higher kappa, and stays whole."""
    size = (0.32, 0.08, 0.08)
    ratios = [float(np.divide(*brick(kappa, size, 1.2)[0][[2, 0]])) for kappa in (0.0, 0.25, 1.0)]
    assert ratios[0] == pytest.approx(4.03, abs=0.02)  # kappa = 0: nothing attracts
    assert ratios[1] < ratios[0] - 0.3
    assert ratios[2] < ratios[1] - 0.3


@pytest.mark.slow
def test_tension_makes_no_momentum() -> None:
    """Internal forces move no centre of mass: total momentum stays below 1 % of the gross."""
    _, total, speed = brick(1.0, (0.16, 0.08, 0.08), 0.6)
    assert speed > 0.005
    assert total < 0.01


def test_without_tension_a_sheet_keeps_its_size() -> None:
    """kappa = 0 is the inequality constraint: an isolated sheet contracts by less than 2 %."""
    before = np.sqrt(np.var(np.arange(30) * 0.01))
    extents, _, _ = brick(0.0, (0.3, 0.3, 0.02), 0.6)
    assert extents[2] == pytest.approx(before, rel=0.02)
    assert extents[1] == pytest.approx(before, rel=0.02)
