# SPDX-FileCopyrightText: 2026 The Runnel authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Caches as playback sees them: opened once, looked at again when their manifest changes.

Reads with numpy alone: a render node needs neither numba nor OpenCL. Knows no bpy.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from runnel.cache import Cache
from runnel.errors import CacheError

_open: dict[Path, tuple[tuple[int, int], Cache]] = {}  # manifest's time and size, and the cache


@dataclass(frozen=True)
class Choice:
    """Which frame of a cache stands for a frame of the timeline."""

    frame: int
    held: bool  # nothing moves: the timeline is before the first frame or after the last
    message: str = ""


def open_cache(folder: Path) -> Cache:
    """The cache of a folder; raises CacheError where there is none."""
    try:
        stat = (folder / "manifest.json").stat()
    except OSError:
        _open.pop(folder, None)
        return Cache.open(folder)  # says what is missing
    stamp = (stat.st_mtime_ns, stat.st_size)
    known = _open.get(folder)
    if known is None or known[0] != stamp:
        _open[folder] = known = (stamp, Cache.open(folder))
    return known[1]


def forget() -> None:
    """Close all caches."""
    _open.clear()


def choose(cache: Cache, frame: int) -> Choice | None:
    """The frame to show; None: there is nothing yet."""
    have = cache.frames()
    if not have:
        return None
    if frame in cache.manifest.frames:
        return Choice(frame, held=False)
    if frame < have[0]:
        return Choice(have[0], held=True)
    earlier = max(number for number in have if number < frame)
    wanted = cache.scene.get("frames") or [have[0], have[-1]]
    if frame <= max(int(wanted[-1]), have[-1]):
        return Choice(earlier, True, f"Frame {frame} is not baked yet: showing frame {earlier}")
    return Choice(earlier, held=True)


def read(
    cache: Cache, frame: int, wanted: set[str] | None, must: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Channels of a frame: those wanted (None: all) that it has, and those it must have."""
    have = cache.entry(frame).checksums
    lacking = [name for name in must if name not in have]
    if lacking:
        raise CacheError(
            f"{cache.directory}: frame {frame} has no channel {lacking[0]!r}. Add it to the "
            "output channels and bake again."
        )
    names = [name for name in have if wanted is None or name in wanted or name in must]
    return cache.read(frame, names)


def thin(arrays: dict[str, Any], share: float) -> dict[str, Any]:
    """A share (0..1) of the particles: always the same ones, whatever the frame.

    A multiplicative hash of the id picks them (Knuth, TAOCP 3, 6.4); without ids their row does.
    """
    if share >= 1.0:
        return arrays
    count = len(arrays["position"])
    number = np.asarray(arrays.get("id", np.arange(count))).astype(np.uint32)
    kept = np.flatnonzero(number * np.uint32(2654435769) < np.uint32(share * 0xFFFFFFFF))
    return {name: values[kept] for name, values in arrays.items()}
