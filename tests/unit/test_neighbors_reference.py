"""Neighbours of the reference backend against brute force (ORACLES 28)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from runnel.backends.reference import zindex
from runnel.backends.reference.neighbors import (
    ROOM,
    adjacent_cells,
    cell_keys,
    find_neighbors,
)
from runnel.errors import SimulationError

LOW, HIGH = -zindex.BIAS, zindex.BIAS - 1
COORDINATE = st.integers(LOW, HIGH)


def interleaved(cell: tuple[int, int, int]) -> int:
    """Z-index bit by bit, in plain Python."""
    key = 0
    for axis, value in enumerate(cell):
        for bit in range(21):
            key |= (((value + 2**20) >> bit) & 1) << (3 * bit + axis)
    return key


@given(st.tuples(COORDINATE, COORDINATE, COORDINATE))
@example((LOW, LOW, LOW))
@example((HIGH, HIGH, HIGH))
@example((-1, 0, 1))
@example((LOW, HIGH, -1))
@settings(deadline=None)
def test_zindex_round_trip(cell):
    key = int(zindex.encode(*cell))
    assert key == interleaved(cell)
    assert key < 2**63  # 21 bits per axis, one unused
    assert tuple(int(c) for c in zindex.decode(np.uint64(key))) == cell


def brute_force(x: np.ndarray, h: np.ndarray) -> set[tuple[int, int]]:
    d = x[:, None].astype(np.float64) - x[None]
    near = (d**2).sum(axis=-1) < np.maximum(h[:, None], h[None]).astype(np.float64) ** 2
    np.fill_diagonal(near, False)
    return {(int(i), int(j)) for i, j in np.argwhere(near)}


def found_pairs(x: np.ndarray, h: np.ndarray) -> set[tuple[int, int]]:
    """Pairs as find_neighbors sees them, in the order of x; no pair comes twice."""
    keys = cell_keys(x, float(h.max()))
    order = np.argsort(keys, kind="stable")
    near = find_neighbors(keys[order], x[order], h[order])
    owners = np.repeat(np.arange(len(x)), np.diff(near.start))
    pairs = list(zip(order[owners].tolist(), order[near.items].tolist(), strict=True))
    assert len(pairs) == len(set(pairs))
    return set(pairs)


@st.composite
def clusters(draw):
    """Blobs of mixed radii, anywhere in reach, negative places included; some on cell borders."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    h = draw(st.sampled_from([0.1, 1.0, 0.04, 3.7]))
    flat = draw(st.booleans())
    ratio = draw(st.sampled_from([1.0, 2.0, 8.0]))
    parts = []
    for _ in range(draw(st.integers(1, 3))):
        centre = rng.integers(-(10 ** draw(st.integers(0, 6))), 10**5, 3) * h
        points = rng.uniform(-2 * h, 2 * h, (draw(st.integers(1, 40)), 3))
        if draw(st.booleans()):
            points = np.round(points / h * 2) * h / 2
        parts.append(centre + points)
    x = np.concatenate(parts).astype(np.float32)
    if flat:
        x[:, 1] = 0
    radii = rng.choice([h, h / ratio, h / np.sqrt(ratio)], len(x)).astype(np.float32)
    radii[0] = h  # the size of cells, in which places are counted above
    return x, radii


@given(clusters())
@settings(deadline=None, max_examples=60)
def test_neighbors_equal_brute_force(case):
    x, h = case
    assert found_pairs(x, h) == brute_force(x, h)


@pytest.mark.parametrize("dimensions", [2, 3])
def test_many_mixed_neighbors(dimensions):
    rng = np.random.default_rng(5)
    x = rng.uniform(-1, 1, (2500, 3)).astype(np.float32)
    if dimensions == 2:
        x[:, 1] = 0
    h = rng.choice([0.05, 0.13], len(x)).astype(np.float32)
    assert found_pairs(x, h) == brute_force(x, h)


def test_crowd_of_neighbors():
    """More neighbours than one search has room for."""
    x = np.random.default_rng(6).uniform(-0.7, 0.7, (300, 3)).astype(np.float32)
    pairs = found_pairs(x, np.ones(300, np.float32))
    assert len(pairs) > 300 * ROOM
    assert pairs == brute_force(x, np.ones(300))


def test_pair_at_the_radius_is_none():
    """Strictly inside: a pair at exactly h is left out, one just below is not."""
    below = np.nextafter(np.float32(1), np.float32(0))
    x = np.array([[0, 0, 0], [1, 0, 0], [0, below, 0]], np.float32)
    assert found_pairs(x, np.ones(3, np.float32)) == {(0, 2), (2, 0)}


def test_memory_follows_particles_not_extent():
    """Two blobs a million cells apart occupy as many cells as two blobs side by side."""
    rng = np.random.default_rng(1)
    blob = rng.uniform(0, 4, (200, 3))
    far = np.array([2.0**20 - 8, 0, 0])
    x = np.concatenate((blob, blob + far)).astype(np.float32)
    keys = np.unique(cell_keys(x, 1.0))
    assert len(keys) <= 2 * 64 + 2 * 25  # 4^3 cells each, and what rounding to float32 moves
    assert adjacent_cells(keys).size == 27 * len(keys)
    x[:200] -= far.astype(np.float32)
    assert found_pairs(x, np.ones(400, np.float32)) == brute_force(x, np.ones(400))


@pytest.mark.parametrize("cell", [(LOW, LOW, LOW), (HIGH, HIGH, HIGH), (HIGH, 0, LOW)])
def test_cells_at_the_edge_of_the_grid(cell):
    """They have neighbours inside, and do not reach round to the other side."""
    x = np.array([cell, cell, [LOW if c > 0 else HIGH for c in cell]], np.float32)
    assert found_pairs(x, np.ones(3, np.float32)) == {(0, 1), (1, 0)}


@pytest.mark.parametrize("bad", [2.0**20, -(2.0**20) - 1, np.nan, np.inf])
def test_particle_outside_the_grid_is_an_error(bad):
    x = np.zeros((3, 3), np.float32)
    x[1, 2] = bad
    with pytest.raises(SimulationError) as error:
        cell_keys(x, 1.0, np.array([7, 8, 9], np.uint32))
    assert error.value.particle == 8


def test_no_particles():
    empty = np.zeros((0, 3), np.float32)
    near = find_neighbors(np.zeros(0, np.uint64), empty, np.zeros(0, np.float32))
    assert near.start.tolist() == [0]
    assert len(near.items) == 0
