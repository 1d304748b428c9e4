"""Neighbour lists of OpenCL devices against brute force (ORACLES 28): every pair, and no other."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runnel.backends import devices
from runnel.backends.opencl import OpenCLBackend
from runnel.errors import SimulationError
from tests.parity.compare import brute_force, device_pairs
from tests.unit.reference_setup import NO_FORCES, NO_GRAVITY, channels, make_model

Make = Callable[..., OpenCLBackend]
RATIOS = {1.0: 0.1, 2.0: 1.0, 2.15: 0.04, 4.0: 3.7, 8.0: 0.1}  # of sizes: largest h [m]


def most_cells(ratio: float) -> float:
    """Cells of the largest h along an axis: 64-bit keys, levels of finer cells (P004 6.2)."""
    levels = 1 + int(np.log2(ratio * 1.0001))
    return {1: 2**21, 2: 2**20, 3: 2**18, 4: 2**17}[levels]


@cache
def _queue(name: str):
    return devices.open_context(devices.choose(name))[1]


@pytest.fixture(scope="module", params=[True, False], ids=["vector", "scalar"])
def make(request, opencl_device) -> Make:
    queue = _queue(opencl_device.name)

    @cache
    def make_backend(*radii: float, reorder_interval: int = 1) -> OpenCLBackend:
        return OpenCLBackend(
            make_model(),
            queue,
            kernel_radii=radii,
            reorder_interval=reorder_interval,
            vector_lanes=request.param,
        )

    return make_backend


def radii_of(ratio: float) -> list[float]:
    h = RATIOS[ratio]
    return sorted({float(np.float32(r)) for r in (h, h / ratio, h / np.sqrt(ratio))})


def search(backend: OpenCLBackend, x: np.ndarray, h: np.ndarray) -> None:
    rows = channels(x, np.asarray(h) / 2)
    rows["kernel_radius"] = np.asarray(h, np.float32)
    rows["id"] = np.random.default_rng(1).permutation(len(x)).astype(np.uint32)
    backend.load(rows)
    backend.predict(0.0, NO_GRAVITY, NO_FORCES)
    backend.find_neighbors()


def check(backend: OpenCLBackend) -> int:
    """Compares; the number of pairs."""
    x, h, ids = (backend.read(name) for name in ("predicted", "kernel_radius", "id"))
    certain, undecided = brute_force(x, h, ids)
    found = device_pairs(backend)
    missing, wrong = certain - found, found - certain - undecided
    assert not missing, f"{len(missing)} of {len(certain)} pairs are missing"
    assert not wrong, f"{len(wrong)} pairs are out of reach"
    return len(found)


@st.composite
def blobs(draw):
    """Blobs of mixed radii, anywhere in reach, negative places included; some on cell borders."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    ratio = draw(st.sampled_from(sorted(RATIOS)))
    radii = radii_of(ratio)
    h = max(radii)
    spread = 10.0 ** draw(st.integers(0, 6))
    spread = min(spread, 0.45 * most_cells(ratio))
    parts = []
    for _ in range(draw(st.integers(1, 4))):
        centre = np.floor(rng.uniform(-spread, spread, 3)) * h
        points = (
            rng.uniform(-1, 1, (draw(st.integers(1, 60)), 3))
            * h
            * draw(st.sampled_from([0.3, 1.0, 2.0, 20.0]))
        )
        if draw(st.booleans()):
            points = np.round(points / h * 2) * h / 2
        parts.append(centre + points)
    x = np.concatenate(parts).astype(np.float32)
    if draw(st.booleans()):
        x[:, 1] = 0
    return ratio, x, rng.choice(radii, len(x))


@given(case=blobs())
@settings(
    deadline=None,
    max_examples=30,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_pairs_equal_brute_force(make, case):
    ratio, x, h = case
    backend = make(*radii_of(ratio))
    search(backend, x, h)
    check(backend)


@pytest.mark.parametrize("ratio", sorted(RATIOS))
@pytest.mark.parametrize("flat", [False, True])
def test_many_mixed_neighbors(make, ratio, flat):
    rng = np.random.default_rng(5)
    radii = radii_of(ratio)
    x = rng.uniform(-2.5, 2.5, (700, 3)) * max(radii)
    if flat:
        x[:, 2] = 0
    backend = make(*radii)
    search(backend, x, rng.choice(radii, len(x)))
    assert check(backend) > 3000


@pytest.mark.parametrize("ratio", sorted(RATIOS))
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_blobs_a_million_cells_apart(make, ratio, axis):
    """As far apart as the grid allows: places are coarse there, pairs are not."""
    rng = np.random.default_rng(6)
    radii = radii_of(ratio)
    h = max(radii)
    far = np.zeros(3)
    far[axis] = (most_cells(ratio) - 16) * h
    blob = rng.uniform(-3, 3, (250, 3)) * h
    for offset in (0 * far, -far / 2):
        x = np.concatenate((blob + offset, blob + offset + far))
        backend = make(*radii)
        search(backend, x, rng.choice(radii, len(x)))
        assert check(backend) > 500


@pytest.mark.parametrize("ratio", sorted(RATIOS))
def test_too_far_apart_is_an_error(make, ratio):
    radii = radii_of(ratio)
    x = np.array([[0, 0, 0], [0, (most_cells(ratio) + 2) * max(radii), 0]])
    with pytest.raises(SimulationError, match="domain"):
        search(make(*radii), x, np.full(2, max(radii)))


@pytest.mark.parametrize("ratio", sorted(RATIOS))
def test_straggling_clusters(make, ratio):
    """Particles so far apart that a cluster's own box holds more cells than there are particles."""
    rng = np.random.default_rng(7)
    radii = radii_of(ratio)
    h = max(radii)
    centres = rng.uniform(-2000, 2000, (150, 3)) * h
    x = np.concatenate((centres, centres + rng.uniform(-0.5, 0.5, (150, 3)) * h))
    backend = make(*radii)
    search(backend, x, rng.choice(radii, len(x)))
    assert check(backend) > 20


def test_lists_that_outgrow_their_memory(make):
    """A clump: each cluster reaches nearly all."""
    rng = np.random.default_rng(8)
    backend = make(1.0)
    search(backend, rng.uniform(0, 0.5, (450, 3)), np.ones(450))
    assert check(backend) == 450 * 449
    assert backend.list_used >= 450 * 450 // 8
    search(backend, rng.uniform(0, 9, (450, 3)), np.ones(450))
    check(backend)


def test_collapse_is_an_error(make):
    rng = np.random.default_rng(9)
    backend = make(1.0)
    with pytest.raises(SimulationError, match="collapsed"):
        search(backend, rng.uniform(0, 0.1, (3000, 3)), np.ones(3000))


def test_large_particle_among_many_small_ones(make):
    """Not a collapse: sizes allow for it."""
    rng = np.random.default_rng(10)
    radii = radii_of(8.0)
    backend = make(*radii)
    x = np.concatenate((rng.uniform(-0.1, 0.1, (1600, 3)), [[0, 0, 0]]))
    search(backend, x, np.append(np.full(1600, min(radii)), max(radii)))
    check(backend)


@pytest.mark.parametrize("ratio", [1.0, 4.0])
def test_lists_between_reorderings(make, ratio):
    """Particles keep their rows for five steps while they move."""
    rng = np.random.default_rng(11)
    radii = radii_of(ratio)
    h = max(radii)
    backend = make(*radii, reorder_interval=5)
    search(backend, rng.uniform(-3, 3, (300, 3)) * h, rng.choice(radii, 300))
    for _ in range(6):
        check(backend)
        moved = backend.read("position") + rng.uniform(-0.7, 0.7, (300, 3)) * h
        backend.write("position", moved.astype(np.float32))
        backend.predict(0.0, NO_GRAVITY, NO_FORCES)
        backend.find_neighbors()
    check(backend)


def test_pair_at_the_radius_is_none(make):
    below = np.nextafter(np.float32(1), np.float32(0))
    x = np.array([[0, 0, 0], [1, 0, 0], [0, below, 0]], np.float32)
    backend = make(1.0)
    search(backend, x, np.ones(3))
    ids = {tuple(np.round(p, 3)): int(i) for p, i in zip(
        backend.read("predicted"), backend.read("id"), strict=True)}  # fmt: skip
    a, c = ids[0.0, 0.0, 0.0], ids[0.0, 1.0, 0.0]
    assert device_pairs(backend) == {(a, c), (c, a)}


def test_memory_follows_particles_not_extent(make):
    """A blob cut in two, a million cells apart, has at most twice as many rows of cells."""
    rng = np.random.default_rng(12)
    blob = rng.uniform(0, 8, (2000, 3))
    near = make(1.0, reorder_interval=2)
    search(near, blob, np.ones(2000))
    used = near.bytes
    blob[1000:, 1] += 10.0**6
    search(near, blob, np.ones(2000))
    assert near.bytes < 1.2 * used
