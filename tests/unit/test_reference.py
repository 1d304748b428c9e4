"""The density constraint of the reference backend against plain numpy, and its laws."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from runnel.backends.base import SOLVER_CHANNELS
from runnel.backends.reference import ReferenceBackend, density
from runnel.backends.reference.kernel import make_kernel
from runnel.backends.reference.neighbors import Neighbors, cell_keys, find_neighbors
from runnel.errors import SimulationError
from runnel.solver.calibration import KERNELS, kernel
from runnel.solver.model import ATTRACTION_SHARE, Model
from tests.unit.reference_setup import (
    NO_FORCES,
    by_id,
    channels,
    chebyshev,
    lattice_block,
    loaded,
    make_model,
    measure,
    one_thread,  # noqa: F401 - a fixture
    random_block,
    step,
)

CALM = 1e-6  # of float32


def all_pairs(n: int) -> Neighbors:
    items = np.array([j for i in range(n) for j in range(n) if j != i], np.int32)
    return Neighbors(np.arange(n + 1, dtype=np.int64) * (n - 1), items)


def pair_gradients(model: Model, x: np.ndarray, h: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """W^_ij (n, n) and grad_i W^_ij (n, n, 3), averaged over sizes, in plain numpy."""
    c = model.calibration
    w, dw = kernel(c.kernel, c.dimensions)
    d = x[:, None] - x[None]
    r = np.linalg.norm(d, axis=-1)
    direction = d / np.where(r > 0, r, 1.0)[..., None]
    value, slope = np.zeros_like(r), np.zeros_like(r)
    for size in (h[:, None], h[None]):
        q = r / size
        inside = q < 1
        q = np.where(inside, q, 0.0)
        value += np.where(inside, w(q), 0) / size**c.dimensions / 2
        slope += np.where(inside, dw(q), 0) / size ** (c.dimensions + 1) / 2
    np.fill_diagonal(slope, 0)
    return value / c.lattice_fill, slope[..., None] * direction / c.lattice_fill


def mixture(rng: np.random.Generator, n: int, dimensions: int, **fluids: object):
    """Two fluids and two sizes at random places, crowded; the backend and its model."""
    model = make_model(dimensions, rest_density=(1000.0, 100.0), **fluids)
    d = np.where(rng.random(n) < 0.5, 0.1, 0.15)
    x = random_block(rng, n, dimensions, 0.1 * n ** (1 / dimensions))
    return model, channels(x, d, dimensions, phase=rng.integers(0, 2, n))


@pytest.mark.parametrize("dimensions", [2, 3])
@pytest.mark.parametrize("name", KERNELS)
def test_lattice_is_exactly_full(name, dimensions):
    x = lattice_block((7, 7 if dimensions == 3 else 0, 7), 0.25)
    backend = loaded(make_model(dimensions, name), channels(x, 0.25, dimensions))
    measure(backend)
    inner = ((x > 0.5) & (x < 1.25))[:, [0, 2] if dimensions == 2 else [0, 1, 2]].all(axis=1)
    assert inner.sum() == 3**dimensions
    np.testing.assert_allclose(by_id(backend, "fill")[inner], 1, atol=CALM)
    backend.measure_error()
    assert backend.density_error()[1] < CALM


@pytest.mark.parametrize("dimensions", [2, 3])
@pytest.mark.parametrize("name", ["even", "wendland", "cubic", "gaussian"])
def test_corrections_follow_the_constraint_gradient(name, dimensions):
    """Rows A04, B03: with dp at one particle only, m_k dx_k = V_i dp_i grad_k C_i for every k."""
    rng = np.random.default_rng(3)
    n = 12
    x = random_block(rng, n, dimensions, 2.2)
    h = rng.uniform(1.8, 2.6, n)
    volume = rng.uniform(0.5, 2.0, n)
    rho0 = rng.uniform(10, 1000, n)
    k = make_kernel(make_model(dimensions, name).calibration, -1 if dimensions == 3 else 1)
    near, none = all_pairs(n), np.zeros(n)
    p = np.zeros(n)
    p[0] = -2.0
    dx = density.displacement(k, near, x, volume, h, rho0, p, none)
    measured = (rho0 * volume)[:, None] * dx / (volume[0] * p[0])
    expected = np.zeros((n, 3))
    for particle in range(n):
        for axis in (0, 1, 2) if dimensions == 3 else (0, 2):
            values = []
            for shift in (1e-6, -1e-6):
                moved = x.copy()
                moved[particle, axis] += shift
                values.append(density.fill(k, near, moved, volume, h)[0])
            expected[particle, axis] = (values[0] - values[1]) / 2e-6
    np.testing.assert_allclose(measured, expected, atol=1e-6 * abs(expected).max())


class PlainNumpy:
    """Eq. 1 to 4 in plain numpy and double precision; pairs are those of the first positions."""

    def __init__(self, model: Model, rows: dict[str, np.ndarray]) -> None:
        self.model, self.phase = model, rows["phase"]
        self.x, self.h, self.volume = (
            rows[k].astype(np.float64) for k in ("position", "kernel_radius", "volume")
        )
        self.rho0 = model.rest_density.astype(np.float64)[self.phase]
        self.p = np.zeros(len(self.x))
        self.change = np.zeros(len(self.x))
        self.pairs = self.within_reach()

    def within_reach(self) -> np.ndarray:
        apart = np.linalg.norm(self.x[:, None] - self.x[None], axis=-1)
        return apart < np.maximum(self.h[:, None], self.h[None])

    def compute_pressure(self, momentum: float, gain: float) -> None:
        self.w, self.grad = pair_gradients(self.model, self.x, self.h)
        self.w *= self.pairs
        self.grad *= self.pairs[..., None]
        near = self.pairs & self.within_reach()
        self.rhomin = np.where(near, self.rho0[None], np.inf).min(axis=1)
        self.fill = self.w @ self.volume
        bound = self.model.calibration.stiffness * self.h**2 * self.rhomin
        k = self.exact_stiffness() if self.model.exact else bound / np.maximum(self.fill, 1) ** 3
        limit = ATTRACTION_SHARE * bound * self.model.attraction.astype(np.float64)[self.phase]
        wanted = self.p + momentum * self.change - gain * k * (self.fill - 1)
        self.change = np.minimum(wanted, limit) - self.p
        self.p = self.p + self.change

    def exact_stiffness(self) -> np.ndarray:
        """P001 eq. 14 / P000 eq. 4 with eps."""
        mass = self.rho0 * self.volume
        of_others = (self.volume**2 / mass)[None] * (self.grad**2).sum(axis=-1)
        own = (self.volume[None, :, None] * self.grad).sum(axis=1)
        eps = 0.01 / (mass * self.model.calibration.stiffness * self.h**2)
        total = of_others.sum(axis=1) + (own**2).sum(axis=-1) / mass + eps
        return 1 / (self.volume * total)

    def correct_positions(self, first: bool) -> None:
        c, h, rho0 = self.model.calibration, self.h, self.rho0
        tensile = self.model.tensile.astype(np.float64)[self.phase]
        sigma = c.relaxation * tensile * c.stiffness * h**2 * rho0
        both = np.where(
            rho0[:, None] == rho0[None],
            sigma[:, None] + sigma[None],
            2 * np.minimum(sigma[:, None], sigma[None]),
        )
        reference = c.tensile_reference * (h[:, None] ** -c.dimensions + h[None] ** -c.dimensions)
        s = -first * both * np.maximum((2 * self.w / reference) ** 4 - c.tensile_offset, 0)
        pairs = self.volume[None] * (self.change[:, None] + self.change[None] + s)
        self.x = self.x + (pairs[..., None] * self.grad).sum(axis=1) / rho0[:, None]


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("dimensions", [2, 3])
def test_iterations_equal_plain_numpy(dimensions, exact):
    """Eq. 1 to 4 with two fluids, two sizes and tension, accelerated."""
    rng = np.random.default_rng(11)
    model, rows = mixture(rng, 250, dimensions, kappa=(0.3, 0.8), exact=exact)
    x = lattice_block((16, 0, 16) if dimensions == 2 else (6, 6, 7), 0.1)[:250]
    x += rng.normal(0, 0.01, x.shape)
    x[:, 1] *= dimensions == 3
    rows["position"] = x.astype(np.float32)
    backend, plain = loaded(model, rows), PlainNumpy(model, rows)
    for k, (momentum, gain) in enumerate(chebyshev(model, 3)):
        backend.compute_pressure(momentum, gain)
        plain.compute_pressure(momentum, gain)
        assert k > 0 or (plain.rhomin < plain.rho0).any()
        np.testing.assert_allclose(by_id(backend, "fill"), plain.fill, rtol=5e-6)
        scale = abs(plain.p).max()
        np.testing.assert_allclose(by_id(backend, "multiplier"), plain.p, atol=1e-5 * scale)
        np.testing.assert_allclose(by_id(backend, "change"), plain.change, atol=1e-5 * scale)
        backend.correct_positions(k == 0)
        plain.correct_positions(k == 0)
        np.testing.assert_allclose(by_id(backend, "predicted"), plain.x, atol=5e-6)


def test_multipliers_add_up_and_are_bounded():
    """Eq. 2: attraction never exceeds K rhomin f / 4, however many iterations; without f, none."""
    rng = np.random.default_rng(13)
    for kappa in (0.0, 0.6):
        model = make_model(kappa=(kappa,))
        backend = loaded(model, channels(random_block(rng, 300, 3, 0.7), 0.1))
        limit = model.calibration.stiffness * 0.2**2 * 1000 * 0.5 * kappa * ATTRACTION_SHARE
        total = np.zeros(300)
        for momentum, gain in chebyshev(model, 6):
            backend.compute_pressure(momentum, gain)
            total += by_id(backend, "change")
            p = by_id(backend, "multiplier")
            np.testing.assert_allclose(p, total, atol=1e-5 * abs(p).max())
            assert (p <= limit * (1 + 1e-6)).all()
            backend.correct_positions(momentum == 0)
        assert (p == 0).any() if kappa == 0 else (p > 0.9 * limit).any()
        assert (p < 0).any()


def test_crowds_are_softer():
    """k falls with the cube of the fill above 1, not below."""
    for squeeze in (1.0, 0.9):
        x = lattice_block((7, 7, 7), 0.1 * squeeze)
        model = make_model(kappa=(8.0,))
        backend = loaded(model, channels(x, 0.1))
        measure(backend)
        fill = by_id(backend, "fill").astype(np.float64)
        k = model.calibration.stiffness * 0.2**2 * 1000 / np.maximum(fill, 1) ** 3
        expected = -model.calibration.relaxation * k * (fill - 1)
        np.testing.assert_allclose(by_id(backend, "multiplier"), expected, rtol=1e-4, atol=1e-6)
        assert (fill.max() > 1.2) == (squeeze < 1)


def test_a_step_leaves_its_pressure():
    """P = -p/dt^2 stays until the next step ends, can be loaded and written; p starts at 0."""
    x = lattice_block((5, 5, 5), 0.095)
    rows = channels(x, 0.1)
    rows["pressure"] = np.arange(125.0)
    backend = loaded(make_model(), rows)
    np.testing.assert_array_equal(by_id(backend, "pressure"), rows["pressure"])
    dt = 0.004
    backend.predict(dt, np.zeros(3, np.float32), NO_FORCES)
    backend.find_neighbors()
    for momentum, gain in chebyshev(backend.model, 2):
        backend.compute_pressure(momentum, gain)
        backend.correct_positions(momentum == 0)
    np.testing.assert_array_equal(by_id(backend, "pressure"), rows["pressure"])
    p = by_id(backend, "multiplier").astype(np.float64)
    assert p.min() < 0
    backend.update_velocities()
    scale = backend.model.calibration.curl_scale * dt**2
    np.testing.assert_allclose(by_id(backend, "pressure"), -p / scale, rtol=1e-6)
    backend.predict(dt, np.zeros(3, np.float32), NO_FORCES)
    assert (backend.read("multiplier") == 0).all()
    backend.write("pressure", np.full(125, 7.0))
    assert (backend.read("pressure") == 7).all()
    more = channels(x + 5, 0.1)
    backend.append(more)
    assert sorted(set(backend.read("pressure").tolist())) == [0, 7]


def test_exact_and_prototype_agree_on_the_lattice():
    """In the neighbourhood the stiffness was computed for, up to eps and the lowest density."""
    x = lattice_block((7, 7, 7), 0.0999)  # a lattice of d = 0.1 squeezed by 0.1 %
    inner = ((x > 0.25) & (x < 0.43)).all(axis=1)
    p = []
    for exact in (False, True):
        backend = loaded(make_model(exact=exact), channels(x, 0.1))
        measure(backend)
        p.append(by_id(backend, "multiplier")[inner].mean())
    assert p[0] < 0
    assert p[1] == pytest.approx(p[0] / 1.01, rel=0.01)


@pytest.mark.parametrize("dimensions", [2, 3])
def test_linear_and_angular_momentum_are_kept(dimensions):
    """ORACLES 3, 4: two phases, two radii, tension; sums to round-off of double precision."""
    rng = np.random.default_rng(7)
    n = 2000
    model, rows = mixture(rng, n, dimensions, kappa=(0.5, 0.1))
    backend = loaded(model, rows)
    measure(backend)
    k = make_kernel(model.calibration, model.ignored_axis)
    x, volume = backend.read("predicted"), backend.read("volume")
    rho0 = model.rest_density.astype(np.float64)[backend.read("phase")]
    sigma = rng.uniform(0, 1, n)
    h, p = backend.read("kernel_radius"), backend.read("change")
    dx = density.displacement(k, backend.neighbors, x, volume, h, rho0, p, sigma)
    force = (rho0 * volume)[:, None] * dx
    scale = np.linalg.norm(force, axis=1).sum()
    assert scale > 0
    assert np.linalg.norm(force.sum(axis=0)) < 1e-12 * scale
    arm = x.astype(np.float64)
    torque = np.cross(arm, force).sum(axis=0)
    assert np.linalg.norm(torque) < 1e-12 * scale * np.linalg.norm(arm, axis=1).max()


def test_lowest_density_rules_at_an_interface():
    """Row A07: the heavy fluid is as soft as the light one where they meet, itself further in."""
    x = lattice_block((10, 5, 5), 0.09)
    light = x[:, 0] > 0.45
    model = make_model(rest_density=(1000.0, 10.0))
    backend = loaded(model, channels(x, 0.1, phase=light.astype(int)))
    measure(backend)
    c = model.calibration
    excess = np.maximum(by_id(backend, "fill").astype(np.float64) - 1, 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        softer = (1 + excess) ** 3
        rho = -by_id(backend, "multiplier") / (
            c.relaxation * c.stiffness * 0.2**2 * excess / softer
        )
    away = 0.45 - x[:, 0]
    for chosen, expected in (
        (light, 10),
        (~light & (away < 0.15), 10),  # next to it, and one further: 0.18 < h
        (~light & (away > 0.2), 1000),
    ):
        inside = chosen & (excess > 0.01)
        assert inside.any()
        np.testing.assert_allclose(rho[inside], expected, rtol=1e-3)


def pair_motion(distance: float, kappa: float, kernel_name: str = "poly6") -> float:
    """How far one of two particles of d = 1 moves from the other in one correction."""
    backend = loaded(
        make_model(kernel=kernel_name, kappa=(kappa,)), channels([[0, 0, 0], [distance, 0, 0]], 1.0)
    )
    measure(backend)
    backend.correct_positions()
    return float(-by_id(backend, "predicted")[0, 0])


def test_short_steps_weaken_tension():
    """tau = min(1, (dt / 4 ms)^2): as a force would; and s_ij acts in the first iteration only."""
    limits = []
    for dt in (0.001, 0.002, 0.004, 0.016):
        backend = loaded(make_model(kappa=(1.0,)), channels([[0, 0, 0], [1.2, 0, 0]], 1.0))
        backend.predict(dt, np.zeros(3, np.float32), NO_FORCES)
        measure(backend)
        limits.append(by_id(backend, "multiplier")[0])
        backend.write("change", np.zeros(2))
    np.testing.assert_allclose(limits / limits[2], [1 / 16, 1 / 4, 1, 1], rtol=1e-5)
    backend.write("position", np.array([[0, 0, 0], [0.5, 0, 0]]))
    backend.correct_positions(False)
    assert by_id(backend, "predicted")[0, 0] == 0
    backend.correct_positions(True)
    assert by_id(backend, "predicted")[0, 0] < 0


def test_tension_and_its_absence():
    """Rows A11, D02, trap T1: no attraction without tension; s_corr repels pairs closer than d."""
    assert pair_motion(1.2, 0.0) == 0
    assert pair_motion(1.2, 1.0) < -1e-3  # attracts
    assert pair_motion(1.0, 0.0) == pytest.approx(0, abs=1e-8)  # rest: no correction
    assert 0 < pair_motion(0.5, 0.0) < 1e-2  # g(0) = 0.001: a little
    assert pair_motion(0.5, 1.0) - pair_motion(0.5, 0.0) < 0  # few neighbours: attraction wins


@pytest.mark.parametrize("dimensions", [2, 3])
@pytest.mark.parametrize("name", KERNELS)
def test_twins_separate(name, dimensions):
    """Row A17: particles at one place part at once, and their mass centre stays."""
    x = np.zeros((4, 3))
    d = np.array([0.1, 0.1, 0.1, 0.15])
    backend = loaded(make_model(dimensions, name), channels(x, d, dimensions))
    measure(backend)
    backend.correct_positions()
    moved = by_id(backend, "predicted").astype(np.float64)
    apart = np.linalg.norm(moved[:, None] - moved[None], axis=-1)[np.triu_indices(4, 1)]
    assert apart.min() > 1e-4
    assert np.linalg.norm((d**dimensions) @ moved) < 1e-6 * (d**dimensions).sum() * apart.max()
    if dimensions == 2:
        assert (moved[:, 1] == 0).all()
    for _ in range(20):
        step(backend, 0.016)
    moved = by_id(backend, "position")
    apart = np.linalg.norm(moved[:, None] - moved[None], axis=-1)[np.triu_indices(4, 1)]
    assert apart.min() > 0.01


@pytest.mark.parametrize("dimensions", [2, 3])
def test_free_fall_is_the_discrete_identity(dimensions):
    """ORACLES 1: y0 + v0 t - g dt^2 n(n+1)/2 for every particle; the shape stays."""
    d, dt, g, v0 = 0.25, 0.016, 9.81, np.array([0.5, 0.0, 2.0])
    x = lattice_block((9, 9 if dimensions == 3 else 0, 9), d) - 4.5 * d
    x[:, 1] *= dimensions == 3
    backend = loaded(make_model(dimensions), channels(x, d, dimensions, velocity=v0))
    steps = 30
    for _ in range(steps):
        step(backend, dt, (0, 0, -g))
    fallen = v0 * dt * steps + np.array([0, 0, -g * dt * dt * steps * (steps + 1) / 2])
    off = by_id(backend, "position") - (x + fallen)
    np.testing.assert_allclose(off.mean(axis=0), 0, atol=1e-6)
    assert abs(off).max() < 3e-5 * d  # rounding of float32 at 4 m, 30 times
    v = by_id(backend, "velocity") - (v0 + np.array([0, 0, -g * dt * steps]))
    assert abs(v).max() < 1e-5 * g * dt * steps


def test_results_do_not_depend_on_threads():
    rng = np.random.default_rng(2)
    model, rows = mixture(rng, 1500, 3, kappa=(0.2, 0.2), viscosity=(0.4, 1.2), vorticity=(0.5,))
    results = []
    for threads in (1, numba.config.NUMBA_NUM_THREADS):
        numba.set_num_threads(threads)
        backend = loaded(model, rows)
        for _ in range(3):
            step(backend, 0.005, (0, 0, -9.81))
            backend.apply_viscosity()
            backend.compute_vorticity()
            backend.apply_confinement()
        results.append([by_id(backend, name).tobytes() for name in ("position", "velocity")])
    assert results[0] == results[1]


def test_channels_stay_together():
    """Through sorting, appending and removal each id keeps its rows; the dead leave at once."""
    rng = np.random.default_rng(4)
    backend = ReferenceBackend(make_model(rest_density=(1000.0, 500.0)))
    rows = channels(rng.uniform(-1, 1, (50, 3)), 0.1, phase=np.arange(50) % 2)
    rows["expiry"] = np.where(np.arange(50) < 5, 1.0, np.inf)
    backend.load(rows)
    more = channels(rng.uniform(-1, 1, (30, 3)), 0.2)
    more["id"] = np.arange(50, 80)
    backend.append(more)
    backend.find_neighbors()
    everything = {k: np.concatenate((rows[k], more[k])) for k in rows if k != "expiry"}
    for name, values in everything.items():
        np.testing.assert_array_equal(by_id(backend, name), values.astype(SOLVER_CHANNELS[name][0]))
    low, high = np.array([-1, -1, -0.5], np.float32), np.array([1, 1, 0.5], np.float32)
    inside = abs(everything["position"][:, 2]) <= 0.5
    backend.remove(np.zeros((0, 32), np.float32), low, high, 0.5)
    assert backend.count == inside.sum()
    backend.remove(np.zeros((0, 32), np.float32), low, high, 1.0)
    living = np.flatnonzero(inside & (everything["id"] >= 5))
    assert backend.count == len(living) == len(backend.read("velocity"))
    backend.write("velocity", np.repeat(backend.read("id")[:, None], 3, axis=1))
    backend.find_neighbors()
    assert sorted(backend.read("id").tolist()) == living.tolist()
    np.testing.assert_array_equal(backend.read("velocity")[:, 0], backend.read("id"))


def test_writing_positions_teleports_without_inertia():
    """Row A09."""
    backend = loaded(make_model(), channels([[0.0, 0, 0], [5, 0, 0]], 0.1))
    backend.write("position", backend.read("position") + np.float32(3))
    step(backend, 0.01)
    np.testing.assert_array_equal(backend.read("velocity"), 0)


def test_no_particles_at_all():
    backend = loaded(make_model(), channels(np.zeros((0, 3)), np.zeros(0)))
    step(backend, 0.01)
    backend.apply_viscosity()
    backend.compute_vorticity()
    assert (backend.count, backend.density_error(), backend.survey().max_speed) == (0, (0, 0), 0)


def test_passes_need_neighbors():
    backend = ReferenceBackend(make_model())
    backend.load(channels(np.zeros((1, 3)), 0.1))
    with pytest.raises(SimulationError, match="find_neighbors"):
        measure(backend)


def test_survey_names_a_bad_particle():
    rows = channels(np.zeros((3, 3)), 0.1, velocity=[[3, 4, 0], [0, np.nan, 0], [0, 0, 1]])
    backend = ReferenceBackend(make_model())
    backend.load(rows)
    found = backend.survey()
    assert (found.max_speed, found.count, found.bad_id) == (5, 3, 1)
    backend.predict(0.01, np.zeros(3, np.float32), NO_FORCES)
    with pytest.raises(SimulationError):
        backend.find_neighbors()


def test_plain_functions_take_double_precision():
    """The functions behind the passes work on any arrays: for comparisons pass by pass."""
    rng = np.random.default_rng(8)
    x = rng.uniform(0, 1, (100, 3))
    h, volume = np.full(100, 0.3), np.full(100, 0.15**3)
    keys = cell_keys(x, 0.3)
    order = np.argsort(keys, kind="stable")
    model = make_model()
    near = find_neighbors(keys[order], x[order], h)
    fill = density.fill(make_kernel(model.calibration), near, x[order], volume, h)
    w, _ = pair_gradients(model, x[order], h)
    np.testing.assert_allclose(fill, w @ volume, rtol=1e-12)
