"""Weights of the iterations: Chebyshev's polynomials, and how many iterations a step plans."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from numpy.polynomial import chebyshev

from runnel.solver.acceleration import CONDITION, MARGIN, Plan, condition, cycles, weights
from runnel.solver.calibration import KERNELS, calibrate
from tests.unit.test_calibration import jacobi_operator

CASES = list(product(KERNELS, (2, 3)))


def residual(name: str, dimensions: int, length: int, number: float, eigenvalues: np.ndarray):
    """What a cycle leaves of a unit of each mode: p += change, C = 1 + eigenvalue p (K = 1)."""
    p, change = np.zeros_like(eigenvalues), np.zeros_like(eigenvalues)
    for momentum, gain in weights(calibrate(name, dimensions), length, number):
        change = momentum * change - gain * (1 + eigenvalues * p)
        p = p + change
    return 1 + eigenvalues * p


def interval(name: str, dimensions: int, length: int, number: float) -> tuple[float, float]:
    high = MARGIN * calibrate(name, dimensions).largest_eigenvalue
    return high / condition(length, number), high


@pytest.mark.parametrize(("name", "dimensions"), CASES)
@pytest.mark.parametrize("length", [1, 2, 4, 9, 20])
@pytest.mark.parametrize("number", [0.0, 3.0])
def test_residual_is_chebyshevs_polynomial(name, dimensions, length, number):
    """T_n mapped to the interval, 1 at 0: the smallest largest value that n iterations reach."""
    low, high = interval(name, dimensions, length, number)
    eigenvalues = np.linspace(low, high, 401)
    left = residual(name, dimensions, length, number, eigenvalues)
    t = np.zeros(length + 1)
    t[length] = 1
    centre, half = (high + low) / 2, (high - low) / 2
    bound = 1 / chebyshev.chebval(centre / half, t)
    expected = bound * chebyshev.chebval((centre - eigenvalues) / half, t)
    np.testing.assert_allclose(left, expected, atol=1e-9)
    assert abs(left).max() == pytest.approx(bound, rel=1e-9)


@pytest.mark.parametrize("length", [1, 2, 4, 9, 20])
def test_nothing_below_the_interval_grows(length):
    """Waves longer than aimed at are damped too, only less; no mode is amplified."""
    _, high = interval("even", 3, length, 0.0)
    left = residual("even", 3, length, 0.0, np.linspace(0, high, 1000))
    assert (abs(left) <= 1 + 1e-12).all()
    assert (np.diff(left[:3]) < 0).all()


@pytest.mark.parametrize("name", KERNELS)
def test_weights_beat_jacobi_on_a_lattice(name):
    """A long wave of compression on a periodic lattice: left over after eight iterations."""
    n = 16
    operator = jacobi_operator(name, 2, n)
    phase = 2 * np.pi * np.arange(n) / n
    wave = np.cos(phase)[:, None] * np.ones(n)[None]
    c = calibrate(name, 2)
    lefts = []
    jacobi = [(0.0, 1 / c.largest_eigenvalue)] * 8
    for steps in (jacobi, list(weights(c, 8, 0.0))):
        p, change = np.zeros(n * n), np.zeros(n * n)
        for momentum, gain in steps:
            change = momentum * change - gain * (wave.ravel() + operator @ p)
            p = p + change
        lefts.append(abs(wave.ravel() + operator @ p).max())
    assert lefts[0] > 0.2
    assert lefts[1] < 0.5 * lefts[0]


def test_long_cycles_aim_wider_up_to_a_limit():
    aims = [condition(length, 0.0) for length in range(1, 12)]
    assert (np.diff(aims) >= 0).all()
    assert aims[0] == 2.0
    assert aims[2] == 9.0
    assert aims[-1] == CONDITION


def test_stiff_steps_are_careful():
    """Nothing changes up to a pressure number of 1; above it the aim falls, to 2 at least."""
    assert condition(10, 0.0) == condition(10, 1.0) == CONDITION
    assert condition(10, 2.0) == pytest.approx(CONDITION / 4)
    aims = [condition(10, number) for number in (1.0, 1.5, 3.0, 10.0, 1e6)]
    assert (np.diff(aims) <= 0).all()
    assert aims[-1] == 2.0


def test_first_weight_has_no_memory():
    for length in (1, 3):
        steps = list(weights(calibrate("even", 3), length, 0.0))
        assert len(steps) == length
        assert steps[0][0] == 0.0
        assert all(momentum > 0 and gain > 0 for momentum, gain in steps[1:])


@pytest.mark.parametrize(("planned", "most"), [(1, 1), (4, 4), (3, 20), (30, 20), (0, 7)])
def test_cycles_fill_the_iterations_exactly(planned, most):
    lengths = list(cycles(planned, most))
    assert sum(lengths) == most
    assert lengths[0] == min(most, max(1, planned))
    assert all(length >= 1 for length in lengths)


def test_plan_rises_at_once_and_falls_slowly():
    """Half of what was missing is planned in; one less after five calm steps in a row."""
    plan = Plan(4).next(done=9, error=1e-4, tolerance=1e-3)
    assert plan == Plan(7)
    for k in range(4):
        plan = plan.next(done=7, error=4e-4, tolerance=1e-3)
        assert plan == Plan(7, k + 1)
    assert plan.next(done=7, error=6e-4, tolerance=1e-3) == Plan(7)  # not calm: counting anew
    assert plan.next(done=7, error=4e-4, tolerance=1e-3) == Plan(6)
