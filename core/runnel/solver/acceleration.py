"""How far each iteration goes: Chebyshev weights for the Jacobi iteration of the density solve.

Jacobi removes long waves of compression slowly: over a depth of L spacings it needs of the order
of L^2 iterations, Chebyshev iteration L [Golub & Varga 1961; for position-based methods Wang 2015].
The spectrum it needs is known from the lattice (calibration.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .calibration import Calibration

CONDITION = 30.0  # largest ratio of the spectrum's ends to damp evenly
MARGIN = 1.2  # disorder raises the largest eigenvalue above that of the lattice


PATIENCE = 5  # steps well below the tolerance before one iteration less is planned
WELL_BELOW = 0.5


@dataclass(frozen=True)
class Plan:
    """How many iterations a step starts with, carried from step to step.

    Iterating each step just until the tolerance holds makes work, and so pressure, stop and go:
    that shakes a resting fluid. So the plan rises at once when a step had to go on beyond it, and
    falls slowly.
    """

    iterations: int = 0
    calm: int = 0  # steps in a row that ended well below the tolerance

    def next(self, done: int, error: float, tolerance: float) -> Plan:
        """The plan after a step of `done` iterations that ended with this compression."""
        if done > self.iterations:
            return Plan(self.iterations + -(-(done - self.iterations) // 2))
        if error > WELL_BELOW * tolerance:
            return Plan(self.iterations)
        if self.calm + 1 < PATIENCE:
            return Plan(self.iterations, self.calm + 1)
        return Plan(self.iterations - 1)


def cycles(planned: int, most: int) -> Iterator[int]:
    """Lengths of the cycles that `most` iterations fall into; between them they may stop."""
    length, done = min(most, max(1, planned)), 0
    while done < most:
        yield length
        done += length
        length = min(max(2, done // 2), most - done)


def condition(length: int, pressure_number: float) -> float:
    """Condition number that a cycle of `length` iterations should aim at.

    A short cycle cannot damp a wide spectrum: aiming too high, it leaves the short waves.

    The pressure number P dt^2 / (rho d^2) tells how far neighbours would push a particle in one
    step if they did not cancel. Above 1 they turn the directions they push in while the step is
    solved, and bold weights feed on that: be careful (docs/decisions/0005).
    """
    return max(2.0, min(CONDITION, length**2) / max(1.0, pressure_number) ** 2)


def weights(
    calibration: Calibration, length: int, pressure_number: float
) -> Iterator[tuple[float, float]]:
    """(weight of the last change, weight of the residual) for the iterations of a cycle.

    In units of the prototype stiffness K; eigenvalues lie in high/condition .. high.
    """
    high = MARGIN * calibration.largest_eigenvalue
    low = high / condition(length, pressure_number)
    centre, half_width = (high + low) / 2, (high - low) / 2
    yield 0.0, 1 / centre
    rho = half_width / centre
    for _ in range(1, length):
        following = 1 / (2 * centre / half_width - rho)
        yield following * rho, 2 * following / half_width
        rho = following
