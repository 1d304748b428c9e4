"""What is fast stops at solids instead of passing through them, alike on all backends."""

from __future__ import annotations

import numpy as np
import pytest

from runnel.backends.base import BOX, FIELD, PLANE, SPHERE
from runnel.backends.reference import ReferenceBackend
from runnel.backends.reference.field import world_of
from runnel.backends.reference.solids import signed_distances
from tests.parity.compare import Twins, by_id
from tests.parity.scenes import fields
from tests.unit.reference_setup import NO_FORCES, NO_GRAVITY, channels, make_model, solid

D, DT = 0.05, 0.01
SOLIDS = {
    "sheet": solid(FIELD, (1.0,), fields=(2, 2)),
    "moving sheet": solid(FIELD, (1.0,), fields=(2, 2), velocity=(1.0, 2.0, -3.0)),
    "torus": solid(FIELD, (1.0,), angular=(0.0, 0.0, 2.0)),
    "breathing": solid(FIELD, (1.0, 0.5), fields=(3, 4)),
    "plate": solid(BOX, (0.5, 0.5, 0.01)),
    "ball": solid(SPHERE, (0.06,)),
    "thin plane": solid(PLANE, shell=0.02),
}


def stopped(make, rows, x, v) -> Twins:
    model = make_model()
    twins = Twins(make(model), ReferenceBackend(model))
    twins.both("load", channels(x, D, velocity=v))
    twins.both("set_solids", np.asarray(rows, np.float32), fields())
    twins.both("predict", DT, NO_GRAVITY, NO_FORCES)
    twins.both("stop_at_solids")
    return twins


@pytest.mark.parametrize("name", SOLIDS)
def test_backends_stop_alike(name, make_backend):
    rng = np.random.default_rng(3)
    x = rng.uniform(-0.3, 0.5, (1500, 3)).astype(np.float32)
    v = rng.normal(0, 15.0, x.shape).astype(np.float32)
    twins = stopped(make_backend, [SOLIDS[name]], x, v)
    after = by_id(twins.reference, "velocity")[1]
    changed = (after != v).any(axis=1)
    assert 3 < changed.sum() < 1400
    found = by_id(twins.device, "velocity")[1]
    # Rounding may decide whether a surface counts as reached: then the rest of the way differs.
    off = abs(found - after).max(axis=1) * DT
    assert np.quantile(off, 0.98) < 1e-5
    lost = by_id(twins.reference, "lost")[1]
    assert (lost[changed] > 0).all()
    assert not lost[~changed].any()


@pytest.mark.parametrize("name", ["sheet", "plate", "thin plane", "moving sheet"])
def test_nothing_passes_through_what_is_thin(name, make_backend):
    """From above, straight and slanted, up to ten spacings in the step; also along the surface."""
    rng = np.random.default_rng(5)
    row = SOLIDS[name]
    x = np.empty((400, 3))
    x[:, :2] = rng.uniform(0.25, 0.45, (400, 2))
    x[:, 2] = 0.35
    v = rng.normal(0, 4, x.shape)
    v[:, 2] = -rng.uniform(5, 50, 400)
    twins = stopped(make_backend, [row], x, v)
    for backend in (twins.device, twins.reference):
        end = x + DT * by_id(backend, "velocity")[1]
        world = world_of(row[None], fields())
        phi, n = (a[:, 0] for a in signed_distances(world, end))
        assert ((phi > 0.4 * D / 2) | (n[:, 2] > 0.5)).all()
        above = phi > 0
        assert (n[above][:, 2] > 0).all() or name == "moving sheet"
        assert (end[:, 2] > -0.1).all()
    slow = np.linalg.norm(v, axis=1) * DT < D / 2
    assert (by_id(twins.reference, "velocity")[1][slow] == v[slow].astype(np.float32)).all()


def test_the_way_along_the_surface_is_kept(make_backend):
    x = np.array([[0.0, 0.0, 0.1]])
    v = np.array([[20.0, 0.0, -30.0]])
    twins = stopped(make_backend, [SOLIDS["plate"]], x, v)
    for backend in (twins.device, twins.reference):
        after = by_id(backend, "velocity")[1][0]
        assert after[0] == pytest.approx(20.0, rel=1e-4)
        assert 0.1 + DT * after[2] == pytest.approx(0.01 + 0.25 * D, abs=0.13 * D)


@pytest.mark.parametrize("bounce", [0.0, 0.7])
def test_what_was_stopped_bounces_and_rubs(bounce, make_backend):
    """As what arrives slowly does: from the speed that it had."""
    row = SOLIDS["thin plane"].copy()
    row[2:4] = 0.2, bounce
    x, v = np.array([[0.0, 0.0, 0.1]]), np.array([[15.0, 0.0, -30.0]])
    twins = stopped(make_backend, [row], x, v)
    twins.both("find_neighbors")
    for momentum in (0.0, 0.3):
        twins.both("compute_pressure", momentum, 0.6)
        twins.both("correct_positions", momentum == 0)
    twins.both("update_velocities")
    twins.agree("velocity", "velocity", 0.02)
    after = by_id(twins.device, "velocity")[1][0]
    assert after[0] < 15 - 0.2 * 20
    assert after[2] == pytest.approx(30 * bounce, abs=1.0) if bounce else after[2] < 0.1
