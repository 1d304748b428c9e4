"""--memory-limit: a clear stop in good time, in place of a kill by the system."""

from __future__ import annotations

import os
from bisect import bisect_right

from ..errors import RunnelError
from ..particles import CAPACITIES
from ..simulation import Simulation
from .console import size_text

NEARLY_FULL = 0.97  # of the room for particles: the next step may need more


def resident_bytes() -> int:
    """Memory this process holds; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def used_bytes(sim: Simulation) -> int:
    """Of the process, and of a device with memory of its own."""
    used = sim.bytes
    own = used["device"] if sim.device.kind == "gpu" else 0
    return max(resident_bytes() + own, sum(used.values()))


def check_memory(sim: Simulation, limit: int) -> None:
    """Stop above the limit, and ahead of a growth that would lead there."""
    used = used_bytes(sim)
    room, count = sim.particles.store.capacity, sim.particles.count
    expected = used
    if count > NEARLY_FULL * room:
        larger = CAPACITIES[min(bisect_right(CAPACITIES, room), len(CAPACITIES) - 1)]
        expected += int(sum(sim.bytes.values()) * (larger / max(room, 1) - 1))
    if expected > limit:
        verb = "would need" if expected > used else "need"
        raise RunnelError(
            f"frame {sim.frame + 1}: {count} particles {verb} {size_text(expected)}, "
            f"--memory-limit is {size_text(limit)}. All frames up to {sim.frame} are in the cache. "
            "Use a larger spacing, sinks or lifetimes, or raise the limit and go on with --resume."
        )
