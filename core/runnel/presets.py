"""Liquids by name: values a fluid starts from; keys given in the scene override them.

Densities and viscosities are handbook values at about 20 C (lava at about 1150 C), rounded:
CRC Handbook of Chemistry and Physics (water, mercury, glycerin, ethanol), Rumble ed.; food and
other liquids from usual engineering tables (olive oil 911 kg/m^3, 84 mPa s; milk 1030, 2 mPa s;
honey of 18 % water 1420, 10 Pa s; corn syrup 1380, 3 Pa s; ketchup 1140 and toothpaste 1300, both
shear-thinning, taken at rest; basaltic lava 2600, about 100 Pa s).

Two of the solver's knobs are not SI:

- `viscosity` is the damping c of P004 eq. 8. One step of length dt diffuses velocity as a
  kinematic viscosity nu = c h^2 / (22 dt) would (h^2 / 11 is poly6's second moment along one axis
  in 3D), so the same c is stiffer on coarse particles and short steps. The presets hold for a
  table-top shot: spacing 2 mm (h = 4 mm) and dt = 1 ms. `damping` gives c for other sizes.
- `surface_tension` is the look knob kappa in 0..1 of P004 4.2: how strongly the liquid beads and
  holds together, not N/m. Large scenes (metres) want 0.

Imports nothing of ours.
"""

from __future__ import annotations

from dataclasses import dataclass

_REFERENCE_SUPPORT = 0.004  # kernel radius h the presets' c is meant for [m]
_REFERENCE_STEP = 0.001  # time step they are meant for [s]

Color = tuple[float, float, float]


@dataclass(frozen=True)
class Preset:
    """Material of a named liquid."""

    density: float  # [kg/m^3]
    viscosity: float  # damping c
    surface_tension: float  # kappa, 0..1
    vorticity: float  # confinement strength
    color: Color  # display RGB (sRGB), 0..1


def damping(kinematic: float, kernel_radius: float, time_step: float) -> float:
    """c that acts like a kinematic viscosity [m^2/s] at a kernel radius [m] and a step [s]."""
    return 22.0 * kinematic * time_step / kernel_radius**2


def _liquid(
    density: float, dynamic: float, kappa: float, color: Color, vorticity: float = 0.0
) -> Preset:
    """A preset from density [kg/m^3] and dynamic viscosity [Pa s]; c to two digits."""
    c = damping(dynamic / density, _REFERENCE_SUPPORT, _REFERENCE_STEP)
    return Preset(density, float(f"{c:.2g}"), kappa, vorticity, color)


PRESETS: dict[str, Preset] = {
    "water": _liquid(998.0, 1.0e-3, 0.1, (0.10, 0.35, 0.80)),
    "sea_water": _liquid(1025.0, 1.1e-3, 0.1, (0.05, 0.30, 0.45)),
    "ethanol": _liquid(789.0, 1.2e-3, 0.03, (0.70, 0.85, 0.90)),
    "milk": _liquid(1030.0, 2.0e-3, 0.08, (0.95, 0.93, 0.88)),
    "blood": _liquid(1060.0, 4.0e-3, 0.08, (0.45, 0.01, 0.01)),
    "oil": _liquid(911.0, 8.4e-2, 0.05, (0.75, 0.60, 0.10)),
    "glycerin": _liquid(1261.0, 1.4, 0.1, (0.85, 0.88, 0.90)),
    "syrup": _liquid(1380.0, 3.0, 0.12, (0.45, 0.15, 0.03)),
    "honey": _liquid(1420.0, 10.0, 0.12, (0.85, 0.45, 0.05)),
    "ketchup": _liquid(1140.0, 25.0, 0.1, (0.65, 0.04, 0.02)),
    "toothpaste": _liquid(1300.0, 70.0, 0.15, (0.45, 0.85, 0.75)),
    "lava": _liquid(2600.0, 100.0, 0.15, (1.00, 0.25, 0.02)),
    "mercury": _liquid(13534.0, 1.5e-3, 0.6, (0.60, 0.62, 0.65)),
}

# Colours of fluids without preset, in order of appearance: told apart by the colour-blind too
# (Okabe and Ito 2008).
PALETTE: tuple[Color, ...] = (
    (0.00, 0.45, 0.70),
    (0.90, 0.60, 0.00),
    (0.00, 0.62, 0.45),
    (0.80, 0.47, 0.65),
    (0.34, 0.71, 0.91),
    (0.84, 0.37, 0.00),
    (0.94, 0.89, 0.26),
)
