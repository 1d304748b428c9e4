"""What the passes need that stays the same for all steps of a simulation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .calibration import Calibration

STABLE_VISCOSITY = 0.5  # largest damping of one XSPH pass (P004 4.1)


@dataclass(frozen=True)
class Model:
    """Kernel constants and one row per fluid."""

    calibration: Calibration
    ignored_axis: int  # in 2D the axis left out: 1 with up = "z", 2 with up = "y"; -1 in 3D
    exact: bool  # exact multipliers (P001 eq. 14) instead of the prototype stiffness
    rest_density: NDArray[np.float32]  # [kg/m^3]
    viscosity: NDArray[np.float32]  # c of P004 eq. 8
    attraction: NDArray[np.float32]  # f(kappa), P004 4.2
    tensile: NDArray[np.float32]  # g(kappa)
    vorticity: NDArray[np.float32]  # confinement strength

    @property
    def viscosity_passes(self) -> int:
        """N of P004 eq. 8; 0 if nothing is viscous."""
        return int(np.ceil(float(self.viscosity.max(initial=0.0)) / STABLE_VISCOSITY - 1e-6))


def attraction_limit(kappa: float) -> float:
    """f(kappa) of P004 4.2."""
    return 0.5 * kappa


def tensile_stiffness(kappa: float) -> float:
    """g(kappa) of P004 4.2."""
    return 0.001 + 0.2 * kappa


# P004 limits the attraction of one iteration to f; we limit that of a step, all iterations
# together. At 0.3 f a surface is pulled by about 0.17 spacings in a step at kappa = 1;
# twice that tears drops apart.
ATTRACTION_SHARE = 0.3
TENSION_STEP = 0.004  # [s]; in shorter steps tension is a force, independent of the step's length


def tension_strength(dt: float) -> float:
    """Share of the tension (attraction and tensile correction) that acts in a step of dt [s]."""
    return min(1.0, (dt / TENSION_STEP) ** 2)
