"""How far each iteration goes: Chebyshev weights for the Jacobi iteration of the density solve.

Jacobi removes long waves of compression slowly: over a depth of L spacings it needs of the order
of L^2 iterations, Chebyshev iteration L [Golub & Varga 1961; for position-based methods Wang 2015].
The spectrum it needs is known from the lattice (calibration.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from .calibration import Calibration

CONDITION = 30.0  # ratio of the spectrum's ends that is damped evenly
MARGIN = 1.2  # disorder raises the largest eigenvalue above that of the lattice


def condition(pressure_number: float) -> float:
    """Condition number to aim at.

    The pressure number P dt^2 / (rho d^2) tells how far neighbours would push a particle in one
    step if they did not cancel. Above 1 they turn the directions they push in while the step is
    solved, and bold weights feed on that: be careful (docs/decisions/0005).
    """
    return max(2.0, CONDITION / max(1.0, pressure_number) ** 2)


def weights(calibration: Calibration, pressure_number: float) -> Iterator[tuple[float, float]]:
    """(weight of the last change, weight of the residual) for iterations 0, 1, ...

    In units of the prototype stiffness K; eigenvalues lie in high/condition .. high.
    """
    high = MARGIN * calibration.largest_eigenvalue
    low = high / condition(pressure_number)
    centre, half_width = (high + low) / 2, (high - low) / 2
    yield 0.0, 1 / centre
    rho = half_width / centre
    while True:
        following = 1 / (2 * centre / half_width - rho)
        yield following * rho, 2 * following / half_width
        rho = following
