"""What bodies do to particles, and what they get back, by one pass after the other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from runnel import Simulation
from runnel.backends.base import BODY, BODY_COLUMNS, BOX, FIELD, SPHERE
from runnel.backends.opencl import OpenCLBackend
from runnel.backends.reference import ReferenceBackend
from runnel.backends.reference.solids import signed_distances
from tests.parity.compare import Twins
from tests.parity.scenes import fields
from tests.physics.setups import box
from tests.physics.test_bodies import body, inside, pool, scene
from tests.unit.reference_setup import NO_FORCES, channels, make_model, random_rotation, solid

D, DT = 0.02, 0.004
PLACE = 2e-4  # [d]
GRAVITY = np.array([0, 0, -9.81], np.float32)
SURFACE = {"friction": 0.4, "bounce": 0.5, "stickiness": 0.2}
OUT = 0.012  # [m] that the surface of the deformable body has moved by since its field was made


def around(rng: np.random.Generator, deforms: bool) -> tuple[np.ndarray, np.ndarray, tuple, tuple]:
    """Rows of a tank, a turned box, a ball and a torus that meet within a few spacings; places
    there; the fields as they were made and as they are."""
    made = fields()
    torus = solid(FIELD, (1.0,), **SURFACE)
    moved = made
    if deforms:
        start = replace(made[0], yields=np.zeros((*made[0].values.shape, 3), np.float32))
        yields = rng.uniform(0.2, 2.0, start.yields.shape).astype(np.float32)
        later = replace(start, values=start.values - np.float32(OUT), yields=yields,
                        wall=start.wall - np.float32(OUT))  # fmt: skip
        made, moved = (start, *made[1:]), (later, *made[1:])
        torus[30] = OUT
    middle = np.array([0.2, 0.0, 0.09 + (OUT if deforms else 0.0) + 0.8 * D])  # above its crest
    turn = random_rotation(rng)
    spin = {"velocity": (0.3, -0.5, 0.1), "angular": (2, -1, 3)}
    beside, above = np.array([0, 0.055 + 0.8 * D, 0.03]), np.array([0.09, -0.03, 0.04])
    box = solid(BOX, (0.06, 0.05, 0.07), origin=middle + beside, rotation=turn, **spin, **SURFACE)
    ball = solid(SPHERE, (0.08,), origin=middle + above, angular=(0, 4, 1), **SURFACE)
    tank = solid(BOX, (0.5, 0.5, 0.3), inside=True, origin=middle - [0, 0, 0.3 - 3.5 * D])
    rows = np.stack([tank, box, ball, torus])
    rows[1:, BODY] = 1, 2, 3
    x = middle + rng.uniform(-4, 4, (4000, 3)) * D
    phi = signed_distances(rows, x, moved)[0]
    x = x[(phi.min(axis=1) > 0.1 * D) & (phi.min(axis=1) < 2.5 * D)][:203]
    assert ((signed_distances(rows, x, moved)[0] < 2 * D).sum(axis=0) > 20).all()
    return rows, x, made, moved


def table(rng: np.random.Generator, rows: np.ndarray, deforms: bool) -> np.ndarray:
    """Bodies that yield by about as much as a particle does."""
    bodies = np.zeros((3, BODY_COLUMNS), np.float32)
    bodies[:, :3] = rows[1:, 17:20]
    bodies[:, 3:12] = [random_rotation(rng).ravel() for _ in range(3)]
    bodies[:, 12:18] = rng.uniform(1e-6, 4e-6, (3, 6))
    bodies[:, 18:24] = rng.uniform(0.1, 1.0, (3, 6))
    if deforms:  # as soft.py has it
        bodies[2] = 0.0
    return bodies


def compare(twins: Twins, what: str) -> None:
    """Per body, to a share of what it got."""
    found, expected = twins.device.reactions()(), twins.reference.reactions()()
    assert np.abs(expected[:, :3]).max(axis=1).min() > 0, what
    scale = np.abs(twins.reference._mass()[:, None, None] * twins.reference._back).sum(axis=(0, 2))
    np.testing.assert_allclose(found / scale[:, None], expected / scale[:, None], atol=2e-3,
                               err_msg=what)  # fmt: skip


@pytest.mark.parametrize("deforms", [False, True], ids=["rigid", "deformable"])
def test_bodies_get_back_alike(deforms, make_backend):
    rng = np.random.default_rng(3)
    rows, x, made, moved = around(rng, deforms)
    bodies = table(rng, rows, deforms)
    model = make_model()
    twins = Twins(make_backend(model), ReferenceBackend(model))
    twins.both("load", channels(x, D, velocity=rng.normal(0, 0.5, x.shape)))
    twins.both("set_bodies", bodies)
    twins.both("set_solids", rows, made)
    twins.both("set_solids", rows, moved)
    twins.both("predict", DT, GRAVITY, NO_FORCES)
    twins.both("find_neighbors")
    twins.share_lists()
    np.testing.assert_allclose(
        twins.device.weigh_bodies()()[:2],
        twins.reference.weigh_bodies()()[:2],
        rtol=1e-3,
        atol=1e-6,
    )
    for momentum in (0.0, 0.3, 0.3):
        twins.both("compute_pressure", momentum, 0.6)
        twins.agree(
            "multipliers", "multiplier", 2e-4 * abs(twins.reference.read("multiplier")).max()
        )
        twins.both("correct_positions", momentum == 0)
        twins.agree("places", "predicted", PLACE * D)
        compare(twins, "corrections")
    twins.both("update_velocities")
    twins.agree("velocities", "velocity", 2 * PLACE * D / DT)
    compare(twins, "velocities")


def test_what_memory_held_before_does_not_matter(make_backend, monkeypatch):
    """New buffers full of zeros, of NaN, of NaN that numpy warns of, of large numbers: the same
    bits, and nobody looks at slots of bodies that nobody wrote."""
    results = []
    for word in (0, 0xFFFFFFFF, 0x7FA00001, 0x7E7E7E7E):
        allocate = OpenCLBackend._allocate

        def filled(self, nbytes, word=word, allocate=allocate):
            buffer = allocate(self, -(-nbytes // 4) * 4)
            self._cl.enqueue_copy(self.queue, buffer, np.full(buffer.size // 4, word, np.uint32))
            return buffer

        with monkeypatch.context() as patch:
            patch.setattr(OpenCLBackend, "_allocate", filled)
            rng = np.random.default_rng(4)
            rows, x, made, moved = around(rng, deforms=True)
            backend = make_backend(make_model())
            backend.load(channels(x, D, velocity=rng.normal(0, 4.0, x.shape)))
            backend.set_bodies(table(rng, rows, deforms=True))
            backend.set_solids(rows, made)
            got = []
            for _ in range(3):
                backend.set_solids(rows, moved)
                backend.predict(DT, GRAVITY, NO_FORCES)
                backend.stop_at_solids()
                got += [backend.reactions()(), *backend.contributions(2)()]
                backend.find_neighbors()
                got.append(backend.weigh_bodies()())
                for momentum in (0.0, 0.3):
                    backend.compute_pressure(momentum, 0.6)
                    backend.correct_positions(momentum == 0)
                    got += [backend.reactions()(), *backend.contributions(2)()]
                backend.update_velocities()
                got += [backend.reactions()(), *backend.contributions(2)()]
        got += [backend.read(name) for name in ("position", "velocity", "push")]
        assert all(np.isfinite(values).all() for values in got)
        results.append([values.tobytes() for values in got])
    assert all(result == results[0] for result in results)


def test_going_ahead_where_no_body_is_changes_nothing(opencl_device):
    """Pressures of the clusters that no body is near come first: the same bits as all at once."""
    results = []
    for ahead in (True, False):
        setup = pool(0.5, 8, flat=False, drop=0.2, time_step=0.008)
        with Simulation(setup, opencl_device, timed=False) as sim:
            if not ahead:
                sim._backend._keep_free = lambda met: None
            for _ in range(5):
                sim.step()
            begin, end = sim._backend._free
            assert (end > begin) == ahead
            bodies = sim.bodies.state().values()
            results.append([sim.particles["position"].tobytes(), *(v.tobytes() for v in bodies)])
    assert results[0] == results[1]


def test_a_puddle_of_fewer_clusters_than_a_group_has(opencl_device):
    """A body beside one end of it: no whole group of clusters is free of the body."""
    d = 0.02
    puddle = box([0, 0, 0], [20 * d, 4 * d, 4 * d])
    raft = body(box([0, 0, 5 * d], [3 * d, 4 * d, 8 * d]), density=500)
    setup = scene([inside(box([0, 0, 0], [20 * d, 4 * d, 1.0])), raft], [puddle])
    with Simulation(setup, opencl_device, timed=False) as sim:
        for _ in range(5):
            sim.step()
        assert np.isfinite(sim.particles["position"]).all()
        assert sim._backend._free == (0, 0)
