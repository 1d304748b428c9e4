"""Forces, viscosity and vorticity of the reference backend."""

from __future__ import annotations

import numpy as np
import pytest

from runnel.backends.base import FORCE_COLUMNS, POINT, VORTEX, WIND
from runnel.backends.reference import ReferenceBackend
from runnel.solver.calibration import KERNELS
from tests.unit.reference_setup import (
    NO_GRAVITY,
    by_id,
    channels,
    lattice_block,
    loaded,
    make_model,
    measure,
    one_thread,  # noqa: F401 - a fixture
    random_block,
    step,
)
from tests.unit.test_reference import pair_gradients

# ORACLES 16: q = 1 - S(k)/S(0) of poly6 on the lattice with h = 2 d, by wavelength [d]
DECAY = {
    (16, 3): 0.029064,
    (16, 2): 0.032090,
    (32, 3): 0.0073365,
    (32, 2): 0.0081003,
    (8, 3): 0.111832,
    (8, 2): 0.123475,
}


@pytest.mark.parametrize(("wavelength", "dimensions"), DECAY)
@pytest.mark.parametrize("c", [0.01, 0.5, 2.0])
def test_shear_wave_decays_as_on_an_endless_lattice(wavelength, dimensions, c):
    """u = sin(k x): factor [1 - (c/N) q]^N. Read in the middle, where no border is felt."""
    model = make_model(dimensions, "poly6", viscosity=(c,))
    passes = model.viscosity_passes
    assert passes == max(1, int(np.ceil(c / 0.5)))
    n = 2 * passes + 5  # the border reaches one layer further in with each pass
    x = lattice_block((wavelength + n, n if dimensions == 3 else 0, n))
    wave = np.sin(2 * np.pi / wavelength * x[:, 0])
    v = np.zeros_like(x)
    v[:, 2] = wave
    backend = loaded(model, channels(x, 1.0, dimensions, velocity=v))
    measure(backend)
    backend.apply_viscosity()
    middle = (abs(x[:, 2] - n / 2) < 1) & (abs(x[:, 0] - (wavelength + n) / 2) < wavelength / 2)
    if dimensions == 3:
        middle &= abs(x[:, 1] - n / 2) < 1
    after = by_id(backend, "velocity")[middle, 2].astype(np.float64)
    factor = (after @ wave[middle]) / (wave[middle] @ wave[middle])
    expected = (1 - c / passes * DECAY[wavelength, dimensions]) ** passes
    assert factor == pytest.approx(expected, abs=1e-4 * (1 - expected) + 1e-6)


def two_fluids(rng: np.random.Generator, dimensions: int, c: tuple[float, float], n: int = 400):
    model = make_model(dimensions, rest_density=(1000.0, 200.0), viscosity=c)
    x = random_block(rng, n, dimensions, 0.1 * n ** (1 / dimensions))
    v = rng.normal(size=(n, 3))
    if dimensions == 2:
        v[:, 1] = 0
    d = np.where(rng.random(n) < 0.5, 0.1, 0.13)
    rows = channels(x, d, dimensions, velocity=v, phase=rng.integers(0, 2, n))
    backend = loaded(model, rows)
    measure(backend)
    return model, rows, backend


def mass_of(backend: ReferenceBackend) -> np.ndarray:
    rho0 = backend.model.rest_density.astype(np.float64)[backend.read("phase")]
    return rho0 * backend.read("volume")


@pytest.mark.parametrize("dimensions", [2, 3])
def test_viscosity_equals_plain_numpy(dimensions):
    """One pass of eq. 5: min(c_i, c_j) between fluids (row C03), averaged kernels (C04)."""
    c = (0.45, 0.1)
    model, rows, backend = two_fluids(np.random.default_rng(21), dimensions, c)
    backend.apply_viscosity()
    x, h, volume, v = (
        rows[k].astype(np.float64) for k in ("position", "kernel_radius", "volume", "velocity")
    )
    w, _ = pair_gradients(model, x, h)
    rho0 = model.rest_density.astype(np.float64)[rows["phase"]]
    rho = rho0 * np.maximum(w @ volume, 0.5)
    own = model.viscosity.astype(np.float64)[rows["phase"]]
    f = np.minimum(own[:, None], own[None]) * 2 * (rho0 * volume)[None] / (rho[:, None] + rho[None])
    expected = v + ((f * w)[..., None] * (v[None] - v[:, None])).sum(axis=1)
    np.testing.assert_allclose(by_id(backend, "velocity"), expected, atol=1e-6)


def test_inviscid_fluid_is_not_dragged():
    """Row C03: min(c_i, c_j) = 0, so a viscous and an inviscid fluid exchange nothing."""
    _, rows, backend = two_fluids(np.random.default_rng(22), 3, (5.0, 0.0))
    backend.apply_viscosity()
    inviscid = rows["phase"] == 1
    change = abs(by_id(backend, "velocity") - rows["velocity"]).max(axis=1)
    assert (change[inviscid] == 0).all()
    assert change[~inviscid].max() > 0.1


@pytest.mark.parametrize("dimensions", [2, 3])
@pytest.mark.parametrize("c", [0.3, 5.0])
def test_viscosity_keeps_momentum_between_fluids(dimensions, c):
    """The symmetric form: sum m v to round-off, where eq. 8 of P004 loses some."""
    _, _, backend = two_fluids(np.random.default_rng(23), dimensions, (c, c / 2))
    mass = mass_of(backend)
    before = backend.read("velocity").astype(np.float64)
    backend.apply_viscosity()
    after = backend.read("velocity").astype(np.float64)
    exchanged = (mass[:, None] * abs(after - before)).sum()
    assert exchanged > 0
    assert abs(mass @ (after - before)).max() < 1e-6 * exchanged


@pytest.mark.parametrize("dimensions", [2, 3])
@pytest.mark.parametrize("c", [0.5, 1.0, 5.0, 50.0])
def test_viscosity_never_adds_energy(dimensions, c):
    """ORACLES 17, also with two fluids, sparse and crowded places."""
    _, _, backend = two_fluids(np.random.default_rng(24), dimensions, (c, c), n=300)
    mass = mass_of(backend)
    energy = [0.5 * mass @ (backend.read("velocity").astype(np.float64) ** 2).sum(axis=1)]
    for _ in range(5):
        backend.apply_viscosity()
        v = backend.read("velocity").astype(np.float64)
        energy.append(0.5 * mass @ (v**2).sum(axis=1))
    assert np.isfinite(energy).all()
    assert (np.diff(energy) <= 1e-7 * energy[0]).all()
    assert energy[1] < 0.9 * energy[0]


@pytest.mark.parametrize("dimensions", [2, 3])
@pytest.mark.parametrize("name", KERNELS)
def test_vorticity_of_rigid_rotation(name, dimensions):
    """Row E01: 2 Omega in the lattice, also off the axis."""
    x = lattice_block((7, 7 if dimensions == 3 else 0, 7))
    omega = np.array([0.3, -0.7, 1.1]) if dimensions == 3 else np.array([0, 0.9, 0])
    v = np.cross(omega, x - [1.0, 0, 2.0])
    backend = loaded(make_model(dimensions, name), channels(x, 1.0, dimensions, velocity=v))
    backend.compute_vorticity()
    inner = ((x > 2) & (x < 5))[:, [0, 2] if dimensions == 2 else [0, 1, 2]].all(axis=1)
    found = by_id(backend, "vorticity")[inner]
    np.testing.assert_allclose(found, np.broadcast_to(2 * omega, found.shape), atol=1e-5)


def test_vorticity_of_shear_and_of_strain():
    """v = (z, 0, 0) has curl (0, 1, 0); v = (x, 0, -z) has none."""
    x = lattice_block((7, 7, 7))
    inner = ((x > 2) & (x < 5)).all(axis=1)
    for v, curl in (
        (np.stack((x[:, 2], 0 * x[:, 0], 0 * x[:, 0]), -1), [0, 1, 0]),
        (np.stack((x[:, 0], 0 * x[:, 0], -x[:, 2]), -1), [0, 0, 0]),
    ):
        backend = loaded(make_model(), channels(x, 1.0, velocity=v))
        backend.compute_vorticity()
        found = by_id(backend, "vorticity")[inner]
        np.testing.assert_allclose(found, np.broadcast_to(curl, found.shape), atol=1e-5)


@pytest.mark.parametrize("dimensions", [2, 3])
def test_confinement_spins_up_a_vortex(dimensions):
    """Rows E02: along the rotation, never more than dt eps h |omega|; nothing without eps."""
    x = lattice_block((15, 5 if dimensions == 3 else 0, 15))
    arm = x - [7.5, 0, 7.5]
    arm[:, 1] = 0
    spin = np.exp(-((arm**2).sum(axis=1)) / 9)
    v = np.cross([0, 1.0, 0], arm) * spin[:, None]
    for eps in (0.0, 0.7):
        model = make_model(dimensions, vorticity=(eps,))
        backend = loaded(model, channels(x, 1.0, dimensions, velocity=v))
        backend.predict(0.1, NO_GRAVITY, np.zeros((0, FORCE_COLUMNS)))
        backend.write("position", backend.read("position"))
        backend.find_neighbors()
        backend.compute_vorticity()
        backend.apply_confinement()
        gained = by_id(backend, "velocity") - v.astype(np.float32)
        limit = 0.1 * eps * 2 * np.linalg.norm(by_id(backend, "vorticity"), axis=1)
        assert (np.linalg.norm(gained, axis=1) <= limit + 1e-6).all()
        along = (gained * v).sum(axis=1)
        core = np.linalg.norm(arm, axis=1) < 3
        if dimensions == 3:
            core &= abs(x[:, 1] - 2.5) < 1
        assert (along[core] >= -1e-6).all()
        assert (along[core].sum() > 0.01) == (eps > 0)


def force(kind: int, strength: float, radius: float, vector=(0, 0, 0), centre=(0, 0, 0)):
    row = np.zeros((1, FORCE_COLUMNS), np.float32)
    row[0, :3] = kind, strength, radius
    row[0, 3:6], row[0, 6:9] = vector, centre
    return row


def kicked(x, v, rows, dt=0.1, dimensions=3) -> np.ndarray:
    """Velocity gained in one prediction."""
    backend = loaded(make_model(dimensions), channels([x], 0.01, dimensions, velocity=[v]))
    backend.predict(dt, NO_GRAVITY, rows)
    gained = backend.read("velocity")[0] - np.float32(v)
    np.testing.assert_allclose(
        backend.read("predicted")[0], np.float32(x) + dt * backend.read("velocity")[0], atol=1e-6
    )
    return gained


def test_wind_and_drag():
    """a = strength (velocity - v); a strength beyond 1/dt takes on the wind's velocity."""
    wind = force(WIND, 2.0, np.inf, (3, 0, 0))
    np.testing.assert_allclose(kicked((0, 0, 0), (1, 1, 0), wind), [0.4, -0.2, 0], atol=1e-6)
    storm = force(WIND, 500.0, np.inf, (3, 0, 0))
    np.testing.assert_allclose(kicked((0, 0, 0), (1, 1, 0), storm), [2, -1, 0], atol=1e-6)


def test_point_force():
    """Towards the centre, linear fall-off; nothing at the centre and beyond the radius."""
    pull = force(POINT, 4.0, 2.0, centre=(1, 0, 0))
    np.testing.assert_allclose(kicked((0, 0, 0), (0, 0, 0), pull), [0.2, 0, 0], atol=1e-6)
    np.testing.assert_array_equal(kicked((1, 0, 0), (0, 0, 0), pull), 0)
    np.testing.assert_array_equal(kicked((4, 0, 0), (0, 0, 0), pull), 0)
    endless = force(POINT, 4.0, np.inf, centre=(1, 0, 0))
    np.testing.assert_allclose(kicked((9, 0, 0), (0, 0, 0), endless), [-0.4, 0, 0], atol=1e-6)


def test_vortex_force():
    """Around the axis, whatever its length; fall-off by the distance from the centre."""
    for axis in ((0, 0, 1), (0, 0, 5)):
        turn = force(VORTEX, 4.0, 2.0, axis, (0, 0, 0))
        np.testing.assert_allclose(kicked((1, 0, 0), (0, 0, 0), turn), [0, 0.2, 0], atol=1e-6)
        np.testing.assert_array_equal(kicked((0, 0, 1), (0, 0, 0), turn), 0)


def test_plane_scenes_stay_in_their_plane():
    """Row A16: in 2D nothing moves along the ignored axis, whatever the forces are."""
    rng = np.random.default_rng(31)
    gained = kicked((1, 0, 0), (0, 0, 0), force(WIND, 1, np.inf, (1, 5, 1)), dimensions=2)
    assert gained[1] == 0
    x = random_block(rng, 200, 2, 1.0)
    model = make_model(2, viscosity=(0.3,), vorticity=(0.5,), kappa=(0.4,))
    backend = loaded(model, channels(x, 0.1, 2))
    for _ in range(3):
        step(backend, 0.005, (0, -5, -9.81))
        backend.apply_viscosity()
        backend.compute_vorticity()
        backend.apply_confinement()
    assert (backend.read("position")[:, 1] == 0).all()
    assert (backend.read("velocity")[:, 1] == 0).all()
    assert (backend.read("vorticity")[:, [0, 2]] == 0).all()
    assert np.isfinite(backend.read("position")).all()
