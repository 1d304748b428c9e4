"""Viscosity: the decay that eq. 5 promises, energy, the order of liquids, resolution."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import runnel
from runnel.backends.base import FORCE_COLUMNS, SOLID_COLUMNS
from runnel.simulation.setup import make_model, open_backend

from .setups import Floats, fluid, kinetic_energy, run, scene, volume

NO_SOLIDS = np.zeros((0, SOLID_COLUMNS), np.float32)
NO_FORCES = np.zeros((0, FORCE_COLUMNS), np.float32)

# Share of a wave that eq. 5 takes at c = 1 on the lattice, h = 2 d, by dimensions and wavelength
# [d]. "poly6" was computed before there was a solver; `lattice_share` gives it again.
POLY6 = {
    (3, 8): 0.111832,
    (3, 16): 0.029064,
    (3, 32): 0.0073365,
    (2, 8): 0.123475,
    (2, 16): 0.032090,
    (2, 32): 0.0081003,
}


def profile(kernel: str, q: Floats) -> Floats:
    """W up to a factor, by q = r/h; written out here, not taken from the solver."""
    if kernel == "poly6":
        return np.maximum(1 - q**2, 0) ** 3
    return np.maximum(1 - q, 0) ** 4 * (4 * q + 1)


def lattice_share(kernel: str, dimensions: int, wavelength: float, support: float = 2.0) -> float:
    """q = 1 - S(k)/S(0) with S(k) = sum W(r) cos(k x) over the lattice, lengths in spacings."""
    steps = np.arange(-3, 4)
    grid = np.stack(np.meshgrid(*[steps] * dimensions), axis=-1).reshape(-1, dimensions)
    w = profile(kernel, np.linalg.norm(grid, axis=1) / support)
    wave = np.cos(2 * np.pi / wavelength * grid[:, 0])
    return float(1 - w @ wave / w.sum())


@pytest.mark.parametrize(("dimensions", "wavelength"), POLY6)
def test_lattice_sums_agree_with_the_published_ones(dimensions: int, wavelength: int) -> None:
    share = lattice_share("poly6", dimensions, wavelength)
    assert share == pytest.approx(POLY6[dimensions, wavelength], rel=2e-5)


def frozen_decay(kernel: str, dimensions: int, c: float, wavelength: int, device: str) -> float:
    """What one viscosity pass leaves of u_z = sin(k x) on a block of the lattice that does not
    move, over one wave in its middle."""
    keys = {"solver": {"kernel": kernel, "support": 4.0, "gravity": [0, 0, 0]}}
    block = volume([0.0] * dimensions, [1.0] * dimensions, 1.0)
    fluids = [fluid(viscosity=c)]
    it = runnel.Scene.from_dict(scene(dimensions, source=[block], fluids=fluids, **keys))
    model = make_model(it)
    backend, _, _ = open_backend(it, model, device)
    margin = 2 * (1 + model.viscosity_passes)  # how far the ends' lack of neighbours is felt
    counts = (wavelength + 2 * margin, 2 * margin + 1 if dimensions == 3 else 1, 2 * margin + 1)
    x = np.indices(counts).reshape(3, -1).T.astype(np.float32)
    wave = np.sin(2 * np.pi / wavelength * x[:, 0])
    n = len(x)
    backend.load(
        {
            "position": x,
            "velocity": np.stack([0 * wave, 0 * wave, wave], axis=1).astype(np.float32),
            "volume": np.ones(n, np.float32),
            "kernel_radius": np.full(n, 2.0, np.float32),
            "phase": np.zeros(n, np.uint32),
            "id": np.arange(n, dtype=np.uint32),
        }
    )
    backend.set_solids(NO_SOLIDS)
    backend.predict(0.0, np.zeros(3, np.float32), NO_FORCES)
    backend.find_neighbors()
    backend.compute_pressure(0.0, 0.0)
    backend.apply_viscosity()
    order = np.argsort(backend.read("id").reshape(-1))
    after = backend.read("velocity")[order][:, 2].astype(np.float64)
    backend.close()
    distance = np.stack([x, np.array(counts) - 1 - x], axis=-1).min(axis=-1)
    if dimensions == 2:
        distance = distance[:, [0, 2]]
    inner = (distance >= margin).all(axis=1)
    assert inner.sum() == wavelength
    return float(after[inner] @ wave[inner] / (wave[inner] @ wave[inner]))


@pytest.mark.parametrize("c", [0.3, 0.5, 1.7])
@pytest.mark.parametrize("kernel", ["poly6", "wendland"])
@pytest.mark.parametrize(("dimensions", "wavelength"), [(2, 8), (2, 16), (2, 32), (3, 8), (3, 16)])
def test_a_wave_on_the_lattice_decays_as_eq_5_says(
    kernel: str, dimensions: int, wavelength: int, c: float, opencl_device: Any
) -> None:
    """[1 - (c/N) q]^N to 1e-4, with N passes so that c/N <= 0.5."""
    passes = int(np.ceil(c / 0.5))
    share = lattice_share(kernel, dimensions, wavelength)
    expected = (1 - c / passes * share) ** passes
    assert frozen_decay(kernel, dimensions, c, wavelength, "auto") == pytest.approx(
        expected, abs=1e-4
    )


def test_the_reference_decays_alike() -> None:
    share = lattice_share("wendland", 3, 8)
    assert frozen_decay("wendland", 3, 1.0, 8, "reference") == pytest.approx(
        (1 - 0.5 * share) ** 2, abs=1e-6
    )


# --- energy ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("c", [0.0, 0.5, 1.0, 5.0, 50.0])
def test_viscosity_never_feeds_energy(c: float) -> None:
    """From inviscid to toothpaste, at one time step: a shaken block only calms down."""
    rng = np.random.default_rng(0)
    d, dt = 0.02, 0.01
    it = scene(
        source=[volume([0, 0, 0], [16 * d] * 3, d)],
        fluids=[fluid(viscosity=c)],
        solver={"gravity": [0, 0, 0], "time_step": dt},
        fps=1 / dt,
    )
    energies: list[float] = []
    for sim in run(it, 0.3):
        if not energies:
            shaken = rng.normal(0.0, 0.3, (sim.particles.count, 3))
            sim.particles.write("velocity", sim.particles["id"], shaken)
        energies.append(kinetic_energy(sim))
    rounding = 5e-5  # of single precision, where all that is left is free flight
    assert all(after <= before * (1 + rounding) for before, after in pairwise(energies))
    assert energies[-1] < 0.75 * energies[0]
