"""What emitters ask of a backend: streams held at their velocity, who is in a box."""

from __future__ import annotations

import numpy as np
import pytest

from runnel.backends.reference import ReferenceBackend
from tests.parity.compare import Twins, by_id
from tests.unit.reference_setup import NO_FORCES, channels, lattice_block, make_model

D, DT = 0.1, 0.004
GRAVITY = np.array([0, 0, -9.81], np.float32)
EVERYWHERE = np.full(3, -1e9, np.float32), np.full(3, 1e9, np.float32)
NOTHING = np.zeros((0, 32), np.float32)


@pytest.fixture
def twins(make_backend):
    """343 particles with ids out of order and gaps between them, every seventh of them dead."""
    rng = np.random.default_rng(5)
    rows = channels(lattice_block((7, 7, 7), D), D, velocity=rng.normal(0, 1, (343, 3)))
    rows["id"] = (2 * rng.permutation(343)).astype(np.uint32)
    rows["expiry"] = np.where(np.arange(343) % 7 == 0, 1.0, np.inf).astype(np.float32)
    model = make_model()
    both = Twins(make_backend(model), ReferenceBackend(model))
    both.both("load", rows)
    both.both("remove", NOTHING, *EVERYWHERE, 1.5)
    return both


@pytest.mark.parametrize("slack", [0.0, 0.3])
def test_streams_are_held(twins, slack):
    """Those named come within the slack of their stream, whatever acts; others keep their own."""
    rng = np.random.default_rng(6)
    ids = np.sort(rng.choice(700, 150, replace=False)).astype(np.uint32)  # not all of them exist
    stream = rng.normal(0, 2, (150, 3)).astype(np.float32)
    twins.both("predict", DT, GRAVITY, NO_FORCES)
    own, free = by_id(twins.device, "velocity")
    twins.both("hold", ids, stream, slack)
    twins.agree("held", "velocity", 1e-6)
    found = by_id(twins.device, "velocity")[1]
    held = np.isin(own, ids)
    assert 20 < held.sum() < len(own) - 20
    np.testing.assert_array_equal(found[~held], free[~held])
    wanted = stream[np.searchsorted(ids, own[held])]
    off = np.linalg.norm(found[held] - wanted, axis=1)
    assert (off <= slack * np.linalg.norm(wanted, axis=1) + 1e-6).all()
    twins.both("find_neighbors")
    twins.agree("predicted", "predicted", 1e-6)
    twins.both("hold", ids[:0], stream[:0], slack)
    twins.agree("nothing held", "velocity", 1e-6)


def test_who_is_in_a_box(twins):
    """Boxes that overlap, are empty, or hold everybody; the dead do not count."""
    boxes = np.array([[[0, 0, 0], [0.3, 0.3, 0.3]], [[0.2, 0.2, 0.2], [0.4, 0.9, 0.3]],
                      [[5, 5, 5], [6, 6, 6]]], np.float32)  # fmt: skip
    for asked in (boxes, boxes[2:], np.array([[[-9] * 3, [9] * 3]], np.float32)):
        found, expected = (b.positions_inside(asked) for b in (twins.device, twins.reference))
        assert found.shape == expected.shape
        order = [np.lexsort(x.T) for x in (found, expected)]
        np.testing.assert_array_equal(found[order[0]], expected[order[1]])
    assert len(found) == twins.device.count == 343 - 49


def test_more_than_there_was_room_for(make_backend):
    backend = make_backend(make_model())
    x = lattice_block((14, 14, 14), D)
    backend.load(channels(x, D))
    found = backend.positions_inside(np.array([[[-9] * 3, [9] * 3]], np.float32))
    np.testing.assert_array_equal(np.sort(found, axis=0), np.sort(x.astype(np.float32), axis=0))
