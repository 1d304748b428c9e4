"""A guard against regressions of speed: counts of work, which do not depend on the machine.

Bounds lie a fifth to a quarter above what was measured (in brackets). A change that goes beyond
them does more work than before: find out why before raising them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from runnel.bench import tank
from runnel.scene import Scene
from runnel.simulation import Simulation

PARTICLES = 8000
ITERATIONS = 4
CLUSTER = 8  # particles that share a neighbour list
LARGE = 1 << 16  # [bytes]


@dataclass
class Work:
    """What a backend was asked to do since `clear`."""

    launches: Counter[str] = field(default_factory=Counter)
    to_host: list[int] = field(default_factory=list)  # [bytes] of each transfer
    to_device: list[int] = field(default_factory=list)
    allocations: list[int] = field(default_factory=list)

    def clear(self) -> None:
        self.__init__()  # type: ignore[misc]


class CountedTransfers:
    """pyopencl, with a look at what is copied from and to the host."""

    def __init__(self, cl: Any, work: Work) -> None:
        self._cl, self._work = cl, work

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cl, name)

    def enqueue_copy(self, queue: Any, to: Any, source: Any, **keys: Any) -> Any:
        if isinstance(to, np.ndarray):
            self._work.to_host.append(to.nbytes)
        if isinstance(source, np.ndarray):
            self._work.to_device.append(source.nbytes)
        return self._cl.enqueue_copy(queue, to, source, **keys)


def watch(sim: Simulation) -> Work:
    """Counts from now on."""
    work, backend = Work(), sim._backend
    assert hasattr(backend, "_run")
    run, allocate = backend._run, backend._allocate

    def counted_run(program: Any, name: str, *args: Any, **keys: Any) -> None:
        work.launches[name] += 1
        run(program, name, *args, **keys)

    def counted_allocate(nbytes: int) -> Any:
        work.allocations.append(nbytes)
        return allocate(nbytes)

    backend._run, backend._allocate = counted_run, counted_allocate
    backend._cl = CountedTransfers(backend._cl, work)  # type: ignore[attr-defined]
    return work


def steps(sim: Simulation, count: int) -> None:
    for _ in range(count):
        sim.bare_step(timed=False)


def entries_per_cluster(sim: Simulation) -> float:
    return sim._backend.list_used * CLUSTER / sim.particles.count  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def dam(opencl_device: Any) -> Iterator[Simulation]:
    """The dam break of the benchmarks at h = 2d, after its first step."""
    with Simulation(tank(PARTICLES, ITERATIONS), opencl_device, timed=False) as sim:
        sim.work = watch(sim)  # type: ignore[attr-defined]
        steps(sim, 1)
        sim.at_start = entries_per_cluster(sim)  # type: ignore[attr-defined]
        yield sim


def test_lists_of_a_lattice(dam: Simulation) -> None:
    """[65] entries for eight particles, of which each has up to 32 neighbours."""
    assert dam.at_start < 78  # type: ignore[attr-defined]


def test_lists_of_a_collapsing_dam(dam: Simulation) -> None:
    """After 40 steps: [74]."""
    while dam.time < 40 / 240 - 1e-6:
        steps(dam, 1)
    assert entries_per_cluster(dam) < 90


def test_lists_at_the_default_support(opencl_device: Any) -> None:
    """h = 2.2 d: [85 on the lattice]."""
    with Simulation(tank(PARTICLES, ITERATIONS, 4.4), opencl_device, timed=False) as sim:
        steps(sim, 1)
        assert entries_per_cluster(sim) < 105


def test_launches_of_a_step(dam: Simulation) -> None:
    """[30], of which a sort takes three for each of its digits and an iteration two."""
    work: Work = dam.work  # type: ignore[attr-defined]
    steps(dam, 1)
    work.clear()
    steps(dam, 1)
    assert sum(work.launches.values()) <= 36
    assert work.launches["compute_pressure"] == ITERATIONS
    assert work.launches["correct_positions"] == ITERATIONS
    assert work.launches["build_lists"] == 1
    assert work.launches["sort_scatter"] <= 3


def test_transfers_of_a_step(dam: Simulation) -> None:
    """A step brings back a few sums [4 transfers, 2.1 kB], whatever the number of particles."""
    work: Work = dam.work  # type: ignore[attr-defined]
    while dam.mid_frame:  # a frame begins with a look at all positions
        steps(dam, 1)
    steps(dam, 1)
    for _ in range(3):
        work.clear()
        steps(dam, 1)
        assert len(work.to_host) <= 5
        assert sum(work.to_host) < 4096
        assert len(work.to_device) <= 3
        assert sum(work.to_device) < 4096


def test_transfers_of_a_frame(dam: Simulation) -> None:
    """Once a frame all positions come back, and what tells the living: [32 bytes a particle]."""
    work: Work = dam.work  # type: ignore[attr-defined]
    while dam.mid_frame:
        steps(dam, 1)
    work.clear()
    frame = dam.frame
    while dam.frame == frame:
        steps(dam, 1)
    large = [size for size in work.to_host if size > LARGE]
    assert sum(large) <= 40 * PARTICLES
    assert sum(work.to_device) < LARGE


def test_no_allocations_once_it_runs(dam: Simulation) -> None:
    work: Work = dam.work  # type: ignore[attr-defined]
    steps(dam, 2)
    work.clear()
    steps(dam, 20)
    assert [size for size in work.allocations if size >= LARGE] == []


def test_memory(dam: Simulation) -> None:
    """[201 bytes] for each particle of capacity; capacities come in steps of 1.5."""
    backend: Any = dam._backend
    assert dam.bytes["device"] / backend.capacity < 240
    assert backend.capacity <= 1.5 * PARTICLES + 2048


def test_work_grows_with_the_particles(opencl_device: Any) -> None:
    """Twice the particles in the same state: twice the entries, as many launches and transfers."""
    found = []
    for height in (0.5, 1.0):
        data = tank(PARTICLES, ITERATIONS).to_dict()
        data["source"][0]["shape"]["box"]["max"] = [1, 1, height]
        with Simulation(Scene.from_dict(data), opencl_device, timed=False) as sim:
            work = watch(sim)
            steps(sim, 2)
            work.clear()
            steps(sim, 1)
            lists = sim._backend.list_used  # type: ignore[attr-defined]
            found.append((lists, sum(work.launches.values()), len(work.to_host)))
    (few, *small), (many, *large) = found
    assert many / few == pytest.approx(2, rel=0.1)
    assert small == large
