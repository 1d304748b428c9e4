"""Runs a pass on the reference and on a device, from one state, and compares the outcome by id.

The reference takes over the device's state ahead of each pass, so that a deviation belongs to the
pass that made it. Where several iterations run without that, the reference also works on the
device's neighbour lists: clusters share theirs, so they hold pairs that come into reach only later.
What moves pairs apart keeps to those in reach at the start of the step.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from runnel.backends.opencl import OpenCLBackend
from runnel.backends.reference import ReferenceBackend
from runnel.backends.reference.neighbors import Neighbors

Pairs = set[tuple[int, int]]

CLUSTER = 8  # particles that share a list
UNDECIDED = 1e-6  # pairs whose distance is that close to the reach may count or not


class Twins:
    """A device and its twin, the reference, with the same particles."""

    def __init__(self, device: OpenCLBackend, reference: ReferenceBackend) -> None:
        self.device, self.reference = device, reference
        self.worst: dict[str, float] = {}  # largest deviation over its tolerance, by what
        self._shared: tuple[Neighbors, Neighbors] | None = None  # whole lists, pairs in reach

    def both(self, name: str, *args: Any) -> None:
        """One pass on both."""
        getattr(self.device, name)(*args)
        if self._shared is not None and name != "find_neighbors":
            self.reference._neighbors = self._shared[
                name in ("correct_positions", "apply_viscosity")
            ]
        getattr(self.reference, name)(*args)

    def agree(self, what: str, channel: str, tolerance: float | NDArray[Any]) -> None:
        """A channel, particle by particle; tolerance in its unit, one or one each (by id)."""
        ids, found = by_id(self.device, channel)
        same, expected = by_id(self.reference, channel)
        np.testing.assert_array_equal(ids, same, err_msg=f"{what}: other particles")
        off = abs(found.astype(np.float64) - expected)
        off = off.max(axis=1, initial=0.0) if off.ndim == 2 else off
        ratio = off / tolerance
        assert np.isfinite(found).all(), f"{what}: {channel} is not finite"
        worst = int(np.argmax(ratio)) if len(ratio) else 0
        self.worst[what] = max(self.worst.get(what, 0.0), float(ratio.max(initial=0.0)))
        assert (ratio <= 1).all(), (
            f"{what}: {channel} of {np.count_nonzero(ratio > 1)} of {len(ids)} particles is off, "
            f"most of id {ids[worst]}: {found[worst]} instead of {expected[worst]} "
            f"({ratio[worst]:.3g} times the tolerance)"
        )

    def take_over(self, *names: str) -> None:
        """The reference goes on from the device's state."""
        order = np.argsort(self.device.read("id"))
        rank = np.argsort(np.argsort(self.reference.read("id")))
        for name in names:
            values = self.device.read(name)[order][rank]
            self.reference._data[name][self.reference._alive] = values

    def share_lists(self) -> None:
        """The reference works on the clusters' lists."""
        ids = self.device.read("id")
        row_of = {int(k): row for row, k in enumerate(self.reference.read("id"))}
        rows = np.array([row_of[int(k)] for k in ids], np.int32)

        def table(lists: list[NDArray[Any]]) -> Neighbors:
            ordered: list[NDArray[Any]] = [np.zeros(0, np.int32)] * len(ids)
            for i, entries in enumerate(lists):
                ordered[rows[i]] = rows[np.setdiff1d(entries, [i])]
            start = np.concatenate(([0], np.cumsum([len(entries) for entries in ordered])))
            items = np.concatenate(ordered) if len(ids) else np.zeros(0, np.int32)
            return Neighbors(start.astype(np.int64), items.astype(np.int32))

        self._shared = table(lists_of(self.device)), table(lists_of(self.device, in_reach=True))


def by_id(backend: OpenCLBackend | ReferenceBackend, channel: str) -> tuple[NDArray[Any], ...]:
    ids = backend.read("id")
    order = np.argsort(ids)
    return ids[order], backend.read(channel)[order]


def lists_of(device: OpenCLBackend, in_reach: bool = False) -> list[NDArray[Any]]:
    """The list that serves each particle, as rows, with itself; no row comes twice.

    In reach: only what is in reach of the particle itself at the start of the step.
    """
    ranges, entries, lanes = device.neighbor_lists()
    parts = [slice(start, start + length) for start, length in ranges.astype(int)]
    if device.vector_lanes:
        assert (ranges[:, 1] % 2 == 0).all(), "lists are read by twos"
        ends = [part.stop - 1 for part in parts]
        ghosts = (entries[ends] == CLUSTER * len(ranges)) & (lanes[ends] == 0)
        parts = [slice(p.start, p.stop - g) for p, g in zip(parts, ghosts.astype(int), strict=True)]
    assert all((entries[part] < max(1, device.count)).all() for part in parts)
    for part in parts:
        assert len(np.unique(entries[part])) == part.stop - part.start, "a neighbour came twice"
    lists = []
    for i in range(device.count):
        part = parts[i // CLUSTER]
        kept = lanes[part] >> (i % CLUSTER) & 1 if in_reach else lanes[part] > 0
        lists.append(entries[part][kept.astype(bool)])
    return lists


def device_pairs(device: OpenCLBackend) -> Pairs:
    """Pairs (id, id) within max(h_i, h_j) that the lists hold; rounding as the kernel's."""
    x, h, ids = (device.read(name) for name in ("predicted", "kernel_radius", "id"))
    pairs: Pairs = set()
    for i, entries in enumerate(lists_of(device)):
        assert i in entries, "each is in its own list"
        reach = np.maximum(h[i], h[entries])
        near = entries[((x[i] - x[entries]) ** 2).sum(axis=1) < reach * reach]
        pairs.update((int(ids[i]), int(ids[j])) for j in near if j != i)
    return pairs


def brute_force(
    x: NDArray[np.float32], h: NDArray[np.float32], ids: NDArray[Any]
) -> tuple[Pairs, Pairs]:
    """Pairs that are neighbours for certain, and those too close to the reach to say."""
    apart = np.linalg.norm(x[:, None].astype(np.float64) - x[None], axis=-1)
    reach = np.maximum(h[:, None], h[None]).astype(np.float64)
    np.fill_diagonal(apart, np.inf)
    certain = np.argwhere(apart < reach * (1 - UNDECIDED))
    undecided = np.argwhere(abs(apart - reach) <= UNDECIDED * reach)
    return (
        {(int(ids[i]), int(ids[j])) for i, j in certain},
        {(int(ids[i]), int(ids[j])) for i, j in undecided},
    )


def reference_pairs(reference: ReferenceBackend) -> Pairs:
    near, ids = reference.neighbors, reference.read("id")
    owners = np.repeat(np.arange(len(ids)), np.diff(near.start))
    return set(zip(ids[owners].tolist(), ids[near.items].tolist(), strict=True))


def neighbors_agree(twins: Twins) -> None:
    """Exactly the same pairs, but for those at the reach itself."""
    device = twins.device
    x, h, ids = (device.read(name) for name in ("predicted", "kernel_radius", "id"))
    certain, undecided = brute_force(x, h, ids)
    for found in (device_pairs(device), reference_pairs(twins.reference)):
        assert not certain - found, f"{len(certain - found)} of {len(certain)} pairs are missing"
        assert not found - certain - undecided, "pairs out of reach"
