"""Particle store: ids keep their payload through anything, capacities come from the table."""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
import weakref

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from runnel import particles
from runnel.errors import RunnelError
from runnel.particles import CAPACITIES, PAGE, PageableAllocator, ParticleStore

BUILT_IN = {"id", "position", "velocity", "volume", "kernel_radius", "phase", "birth", "expiry"}


class RecordingAllocator:
    """Pageable memory that knows how much of it is held."""

    def __init__(self, fail_at: int | None = None) -> None:
        self.held = 0
        self.allocations = 0
        self.fail_at = fail_at

    def allocate(self, nbytes):
        self.allocations += 1
        if self.fail_at is not None and self.allocations >= self.fail_at:
            raise MemoryError
        array = PageableAllocator().allocate(nbytes)
        owner = array.base  # views of views refer to the array that owns the memory
        self.held += nbytes
        weakref.finalize(owner, self._freed, nbytes)
        return array

    def _freed(self, nbytes):
        self.held -= nbytes


def store_of(n):
    store = ParticleStore()
    ids = store.add(n, position=payload(np.arange(n), 3), phase=np.arange(n) % 7)
    return store, ids


def payload(ids, width):
    """Numbers that tell which id and column they belong to, exact in float32."""
    ids = np.asarray(ids, np.float64)
    columns = ids[:, None] * 2 + np.arange(width)
    return columns[:, 0] if width == 1 else columns


def test_table_of_capacities():
    assert CAPACITIES[0] == 1024
    assert CAPACITIES[-1] >= 10**9
    assert all(c % 1024 == 0 for c in CAPACITIES)
    ratios = [b / a for a, b in itertools.pairwise(CAPACITIES)]
    assert max(ratios) <= 2
    assert max(ratios[12:]) < 1.52


def test_starts_empty_with_built_in_channels():
    store = ParticleStore()
    assert set(store.channels) == BUILT_IN
    assert (store.count, store.used, store.capacity, store.reallocations) == (0, 0, 1024, 0)
    assert store["position"].shape == (0, 3)
    assert store["position"].dtype == np.float32
    assert store["id"].dtype == np.uint32


def test_add_fills_defaults_and_broadcasts():
    store = ParticleStore()
    ids = store.add(3, velocity=(1, 2, 3), volume=0.5)
    assert ids.tolist() == [0, 1, 2]
    assert store["velocity"].tolist() == [[1, 2, 3]] * 3
    assert store["volume"].tolist() == [0.5] * 3
    assert np.isinf(store["expiry"]).all()
    assert store.add(2).tolist() == [3, 4]


def test_reading_skips_the_dead_and_copies():
    store, _ = store_of(100)
    store.kill([0, 50])
    assert store.used == 100
    assert store.count == len(store["phase"]) == 98
    assert len(store.rows("phase")) == len(store.active) == 100
    store["phase"][:] = 99
    assert store["phase"].max() == 6
    store.rows("phase")[1] = 99
    assert store["phase"][0] == 99


def test_killing_twice_counts_once():
    store, _ = store_of(100)
    assert store.kill([3, 3, 4]) == 2
    assert store.kill([3]) == 0
    mask = np.zeros(100, bool)
    mask[:6] = True
    assert store.kill(mask) == 4


def test_dead_rows_are_dropped_above_a_quarter():
    store, _ = store_of(1000)
    store.kill(np.arange(250))
    assert store.used == 1000
    store.kill([250])
    assert store.used == store.count == 749
    assert store["id"].tolist() == list(range(251, 1000))


def test_arrays_shrink_when_less_than_half_is_active():
    store, ids = store_of(100_000)
    top = store.capacity
    store.keep(ids[: top // 2])
    assert store.capacity == top
    store.keep(ids[: top // 2 - 1])
    assert store.capacity < top
    assert 2 * store.count >= store.capacity
    store.keep(ids[:10])
    assert store.capacity == 1024


def test_alternating_around_half_does_not_resize_each_time():
    """Hysteresis: kills and adds of a few particles at any size cause few reallocations."""
    store, _ = store_of(200_000)
    store.kill(np.arange(store.capacity // 2 + 2000))
    start = store.reallocations
    for _ in range(200):
        store.kill(np.flatnonzero(store.active)[:100])
        store.add(100)
    assert store.reallocations - start <= 2


def test_replacing_particles_in_a_full_store_costs_no_compaction_each_time():
    """A few dead rows in a full store: one growth, then room."""
    store = ParticleStore()
    store.add(CAPACITIES[12])
    start = store.reallocations
    for _ in range(20):
        store.kill(np.flatnonzero(store.active)[:3])
        store.add(3)
    assert store.reallocations - start == 1
    assert store.used > store.count  # never compacted since


def test_compaction_is_preferred_to_growth_when_it_frees_enough():
    store = ParticleStore()
    n = CAPACITIES[6]
    store.add(n)
    store.kill(np.arange(n // 5))
    assert store.used == n
    store.add(n // 10)
    assert store.capacity == n
    assert store.reallocations == 1


def test_sort_moves_every_channel_and_ids_still_find_them():
    store, ids = store_of(500)
    store.add_channel("tag", np.int64)
    store.write("tag", ids, ids * 3)
    store.kill(np.arange(0, 500, 7))
    order = np.random.default_rng(1).permutation(store.count)
    expected = store["id"][order]
    store.sort(order)
    assert (store["id"] == expected).all()
    assert (store["tag"] == expected.astype(int) * 3).all()
    rows = store.rows_of(expected[::-1])
    assert (rows == np.arange(store.count)[::-1]).all()
    assert not store.has([0, 7, 499 - 499 % 7]).any()


@pytest.mark.parametrize("order", [[0, 0, 1], [0, 1], [0, 1, 3], [-1, 0, 1], [0.0, 1.0, 2.0]])
def test_sort_refuses_what_is_no_permutation(order):
    store, _ = store_of(3)
    with pytest.raises(RunnelError, match="order"):
        store.sort(order)
    assert store["id"].tolist() == [0, 1, 2]


def test_ids_that_are_not_there_are_named():
    store, _ = store_of(10)
    store.kill([4])
    for ids in ([4], [10], [-1], [2**32 + 3], [2**40]):
        with pytest.raises(RunnelError, match=str(ids[0])):
            store.rows_of(ids)
    store.sort(np.arange(9)[::-1])
    for ids in ([4], [10], [-1], [2**32 + 3]):
        assert not store.has(ids).any()


def test_ids_end_with_a_clear_message():
    store = ParticleStore()
    store.restore({"id": [5]}, next_id=particles.MAX_IDS - 1)
    assert store.add(1).tolist() == [2**32 - 2]
    with pytest.raises(RunnelError, match="ids are used up"):
        store.add(1)
    assert store.count == 2


def test_restore_brings_back_ids_and_payload():
    store, _ = store_of(3000)
    store.sort(np.random.default_rng(2).permutation(3000))
    store.kill(np.arange(100))
    kept = {name: store[name] for name in store.channels}
    other = ParticleStore()
    other.add(17)
    other.restore(kept, store.next_id)
    assert {name: other[name].tolist() for name in kept} == {
        name: values.tolist() for name, values in kept.items()
    }
    assert other.add(1) == store.add(1) == 3000
    assert (other.rows("phase")[other.rows_of(kept["id"])] == kept["phase"]).all()


@pytest.mark.parametrize(
    ("ids", "next_id"), [([1, 1], None), ([5], 5), ([5], 0), ([0], 2**32), ([2**32 - 1], None)]
)
def test_restore_refuses_ids_that_could_clash(ids, next_id):
    store, _ = store_of(4)
    with pytest.raises(RunnelError):
        store.restore({"id": ids}, next_id)
    assert store.count == 4


@pytest.mark.parametrize(
    ("name", "dtype", "width", "default"),
    [
        ("position", "f4", 1, 0),
        ("", "f4", 1, 0),
        ("2d", "f4", 1, 0),
        ("a b", "f4", 1, 0),
        ("x" * 65, "f4", 1, 0),
        ("ok", "O", 1, 0),
        ("ok", "U4", 1, 0),
        ("ok", "c8", 1, 0),
        ("ok", "?", 1, 0),
        ("ok", np.longdouble, 1, 0),
        ("ok", [("a", "f4")], 1, 0),
        ("ok", "nonsense", 1, 0),
        ("ok", "f4", 0, 0),
        ("ok", "f4", 17, 0),
        ("ok", "f4", 2.5, 0),
        ("ok", "f4", 2, (1, 2, 3)),
        ("ok", "u1", 1, 300),
        ("ok", "u1", 1, 0.5),
        ("ok", "f4", 1, "zero"),
    ],
)
def test_bad_channels_are_refused(name, dtype, width, default):
    store = ParticleStore()
    with pytest.raises(RunnelError):
        store.add_channel(name, dtype, width, default)
    assert set(store.channels) == BUILT_IN


@pytest.mark.parametrize(
    "values",
    [
        {"nothing": 1},
        {"id": [1, 2]},
        {"phase": [0, -1]},
        {"phase": [0.5, 1.0]},
        {"phase": [0, 2**32]},
        {"position": np.zeros((2, 2))},
        {"volume": [1, 2, 3]},
        {"volume": ["a", "b"]},
    ],
)
def test_a_refused_add_changes_nothing(values):
    store, _ = store_of(5)
    with pytest.raises(RunnelError):
        store.add(2, **values)
    assert (store.count, store.next_id) == (5, 5)


@pytest.mark.parametrize("rows", [[5], [-1], [0.5], [True, False], "abc"])
def test_kill_refuses_rows_that_are_not_there(rows):
    store, _ = store_of(5)
    with pytest.raises(RunnelError):
        store.kill(rows)
    assert store.count == 5


def test_channels_may_be_named_like_arguments():
    store = ParticleStore()
    store.add_channel("n", "i4")
    store.add_channel("self", "i4")
    store.add(2, **{"n": 3, "self": 4})
    assert store["n"].tolist() == [3, 3]
    assert store["self"].tolist() == [4, 4]


def test_ids_cannot_be_overwritten():
    store, ids = store_of(5)
    with pytest.raises(RunnelError):
        store.write("id", ids, 0)
    with pytest.raises(ValueError, match="read-only"):
        store.rows("id")[0] = 7


def test_default_memory_is_page_aligned():
    assert PageableAllocator().allocate(10_000).ctypes.data % PAGE == 0


def test_memory_moves_to_another_allocator_and_back():
    pinned = RecordingAllocator()
    store, ids = store_of(5000)
    store.add_channel("uv", np.float32, 2, default=(0.25, 0.75))
    before = {name: store[name] for name in store.channels}
    store.move_to(pinned)
    assert pinned.held == store.bytes - store.capacity  # all but the mask
    store.add(20_000)  # grows inside the new memory
    assert pinned.held == store.bytes - store.capacity
    store.keep(ids)
    store.move_to(None)
    assert pinned.held == 0
    for name, values in before.items():
        assert (store[name] == values).all()


def test_a_view_outlives_the_move():
    """Memory goes back only when nobody looks at it any more."""
    pinned = RecordingAllocator()
    store, _ = store_of(10)
    store.move_to(pinned)
    view = store.rows("phase")
    store.move_to(None)
    assert pinned.held > 0
    assert view.tolist() == store["phase"].tolist()
    del view
    assert pinned.held == 0


def test_growing_is_refused_above_the_limit():
    store = ParticleStore(limit_bytes=1_000_000)
    ids = store.add(10_000, phase=3)
    with pytest.raises(RunnelError, match=r"MB.*limit"):
        store.add(20_000)
    with pytest.raises(RunnelError, match="MB"):
        store.add_channel("big", "f8", 16)
    assert store.count == 10_000
    assert (store.rows("phase")[store.rows_of(ids)] == 3).all()


def test_more_particles_than_the_table_holds_are_refused():
    store = ParticleStore()
    with pytest.raises(RunnelError, match="is the most"):
        store.add(CAPACITIES[-1] + 1)


@pytest.mark.parametrize("fail_at", range(9, 17))
def test_running_out_of_memory_loses_nothing(fail_at):
    """Whichever channel the memory ends at, the store stays usable and grows later."""
    allocator = RecordingAllocator(fail_at=fail_at)
    store = ParticleStore(allocator)
    ids = store.add(1000, position=payload(np.arange(1000), 3))
    store.kill([0])
    with pytest.raises(RunnelError, match=r"Out of memory: channel .* MB"):
        store.add(5000)
    assert store.count == 999
    assert store.add(10).tolist() == list(range(1000, 1010))
    allocator.fail_at = None
    store.add(5000)
    assert store.capacity == len(store._data["position"]) == len(store._data["id"])
    assert (store.rows("position")[store.rows_of(ids[1:])] == payload(ids[1:], 3)).all()


@pytest.mark.parametrize("fail_at", range(17, 25))
def test_shrinking_without_memory_keeps_the_larger_arrays(fail_at):
    allocator = RecordingAllocator(fail_at=fail_at)
    store = ParticleStore(allocator)
    ids = store.add(5000, position=payload(np.arange(5000), 3))
    store.keep(ids[:100])
    assert (store["position"] == payload(ids[:100], 3)).all()
    store.add(900)
    allocator.fail_at = None
    store.add(9000)
    assert (store["position"][:100] == payload(ids[:100], 3)).all()


def test_churn_of_a_million(record_property):
    """ORACLES 29: a fountain of 1e6 particles; ids and payload agree, capacities are the table's.

    Also J05: a drastic drop by age. The time is recorded, and must stay within seconds.
    """
    rng = np.random.default_rng(5)
    store = ParticleStore()
    store.add_channel("tag", np.uint32)
    start = time.perf_counter()
    seen = set()
    for step in range(40):
        ids = store.add(100_000, birth=float(step))
        store.write("tag", ids, ids ^ 0xABCDEF)
        if step % 5 == 4:
            store.kill(rng.random(store.used) < 0.3)
        if step % 9 == 8:
            store.sort(rng.permutation(store.count))
        if step == 30:
            store.kill(store.rows("birth") < 29)
        seen.add(store.capacity)
        assert (store["tag"] == (store["id"] ^ 0xABCDEF)).all()
    elapsed = time.perf_counter() - start
    record_property("seconds", elapsed)
    assert seen <= set(CAPACITIES)
    assert max(seen) > 1_500_000
    assert 2 * store.count >= store.capacity
    assert len(np.unique(store["id"])) == store.count
    assert elapsed < 30


def test_importing_does_not_load_numba():
    code = "import sys, runnel.particles; sys.exit('numba' in sys.modules)"
    path = [p for p in sys.path if p]
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {path!r}; {code}"], check=False
    )
    assert done.returncode == 0


class StoreMachine(RuleBasedStateMachine):
    """The store against a set of ids, from which each channel's payload follows."""

    def __init__(self):
        super().__init__()
        self.store = ParticleStore()
        self.alive: set[int] = set()
        self.given = 0
        self.widths = {"position": 3, "volume": 1, "phase": 1}
        self.allocator: RecordingAllocator | None = None

    def values(self, ids, names):
        return {name: self.expected(name, ids) for name in names}

    def expected(self, name, ids):
        values = payload(ids, self.widths[name])
        return values.astype(np.int64) if self.store.channel(name).dtype.kind in "iu" else values

    @rule(n=st.one_of(st.integers(0, 50), st.integers(0, 6000)))
    def add(self, n):
        ids = np.arange(self.given, self.given + n)
        got = self.store.add(n, **self.values(ids, self.widths))
        assert got.tolist() == ids.tolist()
        self.given += n
        self.alive.update(ids.tolist())

    @rule(share=st.sampled_from([0.001, 0.1, 0.3, 0.9, 1.0]), seed=st.integers(0, 9))
    def kill(self, share, seed):
        doomed = np.random.default_rng(seed).random(self.store.used) < share
        ids = self.store.rows("id")[doomed & self.store.active]
        assert self.store.kill(doomed if seed % 2 else np.flatnonzero(doomed)) == len(ids)
        self.alive.difference_update(ids.tolist())
        assert 2 * self.store.count >= self.store.capacity or self.store.capacity == 1024

    @precondition(lambda self: self.alive)
    @rule(data=st.data())
    def keep(self, data):
        few = data.draw(st.lists(st.sampled_from(sorted(self.alive)[:50]), unique=True))
        lost = self.store.count - len(few)
        assert self.store.keep(few) == lost
        self.alive = set(few)

    @rule()
    def compact(self):
        before = self.store["id"]
        self.store.compact()
        assert self.store.used == self.store.count
        assert (self.store["id"] == before).all()

    @rule(seed=st.integers(0, 9), by_id=st.booleans())
    def sort(self, seed, by_id):
        ids = self.store["id"]
        rng = np.random.default_rng(seed)
        self.store.sort(np.argsort(ids) if by_id else rng.permutation(len(ids)))

    @rule(
        name=st.sampled_from(["uv", "temperature", "tag"]),
        dtype=st.sampled_from(["f4", "f8", "i8", "u4"]),
        width=st.integers(1, 4),
    )
    def add_channel(self, name, dtype, width):
        if name in self.widths:
            return
        self.store.add_channel(name, dtype, width, default=9)
        assert (self.store[name] == 9).all()
        self.widths[name] = width
        ids = self.store["id"][::-1]
        self.store.write(name, ids, self.expected(name, ids))

    @rule()
    def move(self):
        self.allocator = None if self.allocator else RecordingAllocator()
        self.store.move_to(self.allocator)

    @rule()
    def save_and_restore(self):
        kept = {name: self.store[name] for name in self.store.channels}
        self.store.restore(kept, self.given)

    @invariant()
    def every_id_keeps_its_payload(self):
        ids = self.store["id"]
        assert self.store.count == len(ids)
        assert set(ids.tolist()) == self.alive
        for name in self.widths:
            assert (self.store[name] == self.expected(name, ids)).all()
        assert (self.store.rows("id")[self.store.rows_of(ids)] == ids).all()

    @invariant()
    def capacity_is_from_the_table(self):
        assert self.store.capacity in CAPACITIES
        assert self.store.used <= self.store.capacity
        assert {len(a) for a in self.store._data.values()} == {self.store.capacity}
        if self.allocator:
            assert self.allocator.held == self.store.bytes - self.store.capacity


StoreMachine.TestCase.settings = settings(
    max_examples=60, stateful_step_count=50, deadline=None, derandomize=True
)
TestStoreMachine = StoreMachine.TestCase
