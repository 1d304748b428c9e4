"""Few particles, none at all, particles at one place, far away, gone, or not finite."""

from __future__ import annotations

import numpy as np
import pytest

from runnel.backends.base import FORCE_COLUMNS, SOLID_COLUMNS, WIND
from runnel.backends.opencl import OpenCLBackend
from runnel.backends.reference import ReferenceBackend
from runnel.errors import SimulationError
from tests.parity.compare import Twins, by_id
from tests.parity.scenes import Case, fields
from tests.parity.test_passes import Run
from tests.unit.reference_setup import (
    NO_FORCES,
    NO_GRAVITY,
    channels,
    chebyshev,
    lattice_block,
    make_model,
    random_block,
)

D, DT = 0.1, 0.004
GRAVITY = np.array([0, 0, -9.81], np.float32)
NOTHING = np.zeros((0, SOLID_COLUMNS), np.float32)
EVERYWHERE = np.full(3, -np.inf, np.float32), np.full(3, np.inf, np.float32)


def begin(make, rows, model=None, **options) -> Twins:
    model = model or make_model(viscosity=(0.3,), vorticity=(0.5,))
    twins = Twins(make(model, **options), ReferenceBackend(model))
    twins.both("load", rows)
    return twins


def step(twins: Twins, dt: float = DT, gravity: np.ndarray = GRAVITY) -> None:
    """Everything a step has, removal included."""
    twins.both("predict", dt, gravity, NO_FORCES)
    twins.both("find_neighbors")
    twins.share_lists()
    for momentum, gain in chebyshev(twins.reference.model, 3):
        twins.both("compute_pressure", momentum, gain)
        twins.both("correct_positions", momentum == 0)
    twins.both("update_velocities")
    twins.both("apply_viscosity")
    twins.both("compute_vorticity")
    twins.both("apply_confinement")
    twins.both("remove", NOTHING, *EVERYWHERE, 0.0)


@pytest.mark.parametrize("count", [1, 2, 7, 8, 9, 15, 16, 17])
def test_few_particles(count, make_backend):
    """Clusters that are not full, full, and one more; three steps."""
    rng = np.random.default_rng(count)
    x = random_block(rng, count, 3, 0.07 * count ** (1 / 3))
    twins = begin(make_backend, channels(x, D, velocity=rng.normal(0, 0.3, x.shape)))
    for _ in range(3):
        step(twins)
    twins.agree("places", "position", 1e-4 * D)
    twins.agree("velocities", "velocity", 1e-4 * D / DT)
    assert twins.device.survey().count == count


def all_passes(twins: Twins) -> None:
    step(twins)
    for backend in (twins.device, twins.reference):
        assert backend.count == 0
        assert backend.density_error() == (0, 0)
        found = backend.survey()
        assert found.max_speed == 0
        assert (found.count, found.bad_id) == (0, None)
        for name in ("position", "vorticity", "fill", "id", "pressure"):
            assert len(backend.read(name)) == 0


def test_no_particles_at_all(make_backend):
    """Loaded with none; never loaded; all gone; then some again."""
    none = channels(np.zeros((0, 3)), np.zeros(0))
    all_passes(begin(make_backend, none))
    model = make_model(viscosity=(0.3,), vorticity=(0.5,))
    twins = Twins(make_backend(model), ReferenceBackend(model))
    all_passes(twins)
    twins.both("append", channels(lattice_block((3, 3, 3), D), D))
    step(twins)
    twins.both("remove", NOTHING, *(np.full(3, v, np.float32) for v in (50, 60)), 0.0)
    all_passes(twins)
    twins.both("append", channels(lattice_block((2, 3, 4), D), D))
    step(twins)
    twins.agree("places", "position", 1e-4 * D)


@pytest.mark.parametrize("dimensions", [2, 3])
def test_twins_of_different_weight_keep_the_centre_of_mass(dimensions, make_backend):
    """Two sizes and two fluids at one place."""
    rng = np.random.default_rng(5)
    d = rng.choice([D, 0.4 * D], 24)
    phase = rng.integers(0, 2, 24)
    x = np.repeat(np.arange(-4.0, 4.0)[:, None] * [0.25, 0, 0], 3, axis=0)
    model = make_model(dimensions, rest_density=(1000.0, 100.0))
    twins = begin(make_backend, channels(x, d, dimensions, phase=phase), model)
    twins.both("predict", DT, NO_GRAVITY, NO_FORCES)
    twins.both("find_neighbors")
    twins.both("compute_pressure", 0.0, 1.0)
    twins.both("correct_positions")
    twins.agree("twins", "predicted", 1e-6)
    moved = by_id(twins.device, "predicted")[1].astype(np.float64) - x
    mass = model.rest_density[phase] * d**dimensions
    for place in range(8):
        here = slice(3 * place, 3 * place + 3)
        scale = np.linalg.norm(moved[here], axis=1) @ mass[here]
        assert scale > 0
        assert np.linalg.norm(mass[here] @ moved[here]) < 1e-3 * scale  # float32


def test_free_flight_keeps_velocities_exactly(make_backend):
    """Rounding of x + dt v stays out of v, bit by bit, also far from the origin."""
    rng = np.random.default_rng(1)
    x = rng.uniform(-100, 100, (300, 3))
    v = rng.normal(0, 3, (300, 3)).astype(np.float32)
    twins = begin(make_backend, channels(x, D, velocity=v), make_model())
    for _ in range(5):
        step(twins, gravity=NO_GRAVITY)
    for backend in (twins.device, twins.reference):
        np.testing.assert_array_equal(by_id(backend, "velocity")[1], v)


def test_storm_takes_along_at_once(make_backend):
    """A wind stronger than 1/dt gives its own velocity; no more, or it would blow things up."""
    rows = np.zeros((1, FORCE_COLUMNS), np.float32)
    rows[0, :6] = WIND, 5 / DT, 3e38, 3, -1, 2
    twins = begin(make_backend, channels(lattice_block((3, 3, 3), D), D, velocity=(0, 9, 0)))
    twins.both("predict", DT, NO_GRAVITY, rows)
    twins.agree("storm", "velocity", 1e-5)
    np.testing.assert_allclose(by_id(twins.device, "velocity")[1][0], [3, -1, 2], atol=1e-5)


def test_the_dead_do_not_count(make_backend):
    """What left for far away, or lost its numbers, cannot stop those that live."""
    x = np.concatenate((lattice_block((3, 3, 3), D), [[3e9, 0, 0], [0, -1e25, 0]]))
    twins = begin(make_backend, channels(x, D), make_model())
    bounds = np.full(3, -5, np.float32), np.full(3, 5, np.float32)
    twins.both("remove", NOTHING, *bounds, 0.0)
    step(twins)
    assert twins.device.count == 27
    twins.agree("places", "position", 1e-4 * D)


def test_bad_particles_are_named(make_backend):
    rows = channels(lattice_block((3, 3, 3), D), D)
    rows["velocity"] = np.zeros((27, 3), np.float32)
    rows["velocity"][13, 1] = np.nan
    rows["id"] = rows["id"] + np.uint32(100)
    twins = begin(make_backend, rows)
    for backend in (twins.device, twins.reference):
        assert backend.survey().bad_id == 113
        backend.predict(DT, GRAVITY, NO_FORCES)
        with pytest.raises(SimulationError) as error:
            backend.find_neighbors()
        assert "113" in str(error.value) or error.value.particle == 113


def test_vorticity_belongs_to_its_particles(make_backend):
    """Before it is computed there is none, whatever was there before."""
    rng = np.random.default_rng(3)
    rows = channels(lattice_block((10, 10, 10), D), D, velocity=rng.normal(0, 1, (1000, 3)))
    few = {name: values[:20] for name, values in rows.items()}
    twins = begin(make_backend, rows)
    step(twins)
    assert abs(twins.device.read("vorticity")).max() > 0
    for state in (rows, few, rows):
        twins.both("load", state)
        for backend in (twins.device, twins.reference):
            found = backend.read("vorticity")
            assert found.shape == (len(state["id"]), 3)
            assert (found == 0).all()


def test_state_comes_back_as_it_was_given(make_backend):
    """load, append and write against read, with the dead among the rows."""
    rng = np.random.default_rng(4)
    rows = channels(random_block(rng, 45, 3, 0.5), rng.choice([D, 0.05], 45),
                    velocity=rng.normal(0, 1, (45, 3)))  # fmt: skip
    rows["pressure"] = rng.uniform(0, 1e4, 45).astype(np.float32)
    rows["expiry"] = np.where(np.arange(45) % 3 == 0, 1.0, np.inf)
    twins = begin(make_backend, rows, make_model())
    more = {name: values[:5].copy() for name, values in rows.items()}
    more["id"] = np.arange(100, 105, dtype=np.uint32)
    del more["pressure"]
    twins.both("append", more)
    twins.both("find_neighbors")
    twins.both("remove", NOTHING, *EVERYWHERE, 1.5)
    for name in ("position", "velocity", "volume", "kernel_radius", "phase", "pressure", "expiry"):
        found, expected = by_id(twins.device, name)[1], by_id(twins.reference, name)[1]
        np.testing.assert_array_equal(found, expected, err_msg=name)
    for name in ("position", "velocity", "pressure"):
        values = (twins.device.read(name) + 1).astype(np.float32)
        twins.device.write(name, values)
        np.testing.assert_array_equal(twins.device.read(name), values)
    survivors = by_id(twins.device, "id")[0]
    assert len(survivors) == 50 - 15 - 2
    with pytest.raises(KeyError):
        twins.device.write("volume", np.zeros(len(survivors)))


@pytest.mark.parametrize("ratio", [1.0, 2.15])
def test_what_memory_held_before_does_not_matter(ratio, make_backend, monkeypatch):
    """New buffers full of zeros, of NaN, of large numbers: the same bits."""
    case = Case("memory", ratio=ratio, solids=("box in",), count=104, viscosity=0.8)
    results = []
    for byte in (0x00, 0xFF, 0x7E):
        allocate = OpenCLBackend._allocate

        def filled(self, nbytes, byte=byte, allocate=allocate):
            buffer = allocate(self, nbytes)
            self._cl.enqueue_copy(self.queue, buffer, np.full(buffer.size, byte, np.uint8))
            return buffer

        with monkeypatch.context() as patch:
            patch.setattr(OpenCLBackend, "_allocate", filled)
            twins = begin(make_backend, case.rows(), case.model(), reorder_interval=2)
            twins.both("set_solids", case.solid_rows(), fields())
            for _ in range(3):
                step(twins, case.dt)
        names = ("id", "position", "velocity", "pressure", "fill", "vorticity")
        results.append([twins.device.read(name).tobytes() for name in names])
    assert results[0] == results[1] == results[2]


def test_growing_and_shrinking(make_backend):
    """Capacities come and go while particles are added and removed; nobody is mixed up."""
    run = Run(Case("tank"), make_backend)
    twins = run.twins
    for k in range(4):
        run.begin()
        run.iterate(0.0, 0.8)
        twins.both("update_velocities")
        twins.take_over("velocity")
        more = channels(lattice_block((9, 9, 9), D) + np.array([2.0 * (k + 1), 0, 0]), D)
        more["id"] = np.arange(10**4 * (k + 1), 10**4 * (k + 1) + 729, dtype=np.uint32)
        twins.both("append", more)
        twins.agree("all", "position", 1e-4 * D)
    assert twins.device.count > 2900
    low, high = np.array([-1, -1, -1], np.float32), np.array([1, 1, 1], np.float32)
    twins.both("remove", NOTHING, low, high, 0.0)
    run.begin()
    run.iterate(0.0, 0.8)
    twins.agree("the rest", "id", 0.5)
    assert twins.device.count == 216
